//! How much memory the cache may take if nobody says.
//!
//! Why a share of the machine: reads and writes go past the operating system's cache, so what does not fit into ours comes from
//! the device. With a fixed size, a database that outgrew it would be many times slower beside memory that nobody uses.

use std::sync::LazyLock;
use sysinfo::{MemoryRefreshKind, RefreshKind, System};

/// One part in so many of the memory.
const SHARE: u64 = 4;
/// If the system does not say what it has.
const UNKNOWN_BYTES: u64 = 1 << 30;
/// A pool has no more frames than fit into this, whatever the size of its leaves.
const MAX_BYTES: u64 = 1 << 40;

/// Bytes of the cache, unless [`Builder::cache_bytes`](crate::Builder::cache_bytes) says otherwise.
pub(super) static CACHE_BYTES: LazyLock<usize> = LazyLock::new(|| {
    let only_memory = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let system = System::new_with_specifics(only_memory);
    let container = system.cgroup_limits().map_or(u64::MAX, |limits| limits.total_memory);
    share_of(system.total_memory().min(container)) as usize
});

fn share_of(memory_bytes: u64) -> u64 {
    let known = if memory_bytes == 0 { UNKNOWN_BYTES } else { memory_bytes };
    (known / SHARE).min(MAX_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_a_share_of_the_memory() {
        assert_eq!(share_of(8 << 30), 2 << 30);
        assert_eq!(share_of(0), 256 << 20, "a system that keeps it to itself");
        assert_eq!(share_of(u64::MAX), MAX_BYTES);
        let here = *CACHE_BYTES as u64;
        assert!((1 << 20..=MAX_BYTES).contains(&here), "{here}");
    }
}
