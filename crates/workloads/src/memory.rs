//! Memory that the machine has at hand before something is timed.
//!
//! Why: a virtual machine may lend its idle memory back to its host, and must ask for it again page by page. Measured on such
//! a machine, the first write to a GiB then took 1 to 2 s instead of 0.1, and a run whose engine took fresh memory in its timed phase
//! told more of the host than of the engine.

use foreshore_base::memory;
use memmap2::{Advice, MmapMut};
use std::num::NonZero;
use std::thread;

const PAGE_BYTES: usize = 4096;

/// What an engine takes in a second for what it caches and writes, if it is fast: two threads that insert rows fill files with 1.0 GB and
/// a cache with 0.5.
const BYTES_PER_SECOND: f64 = 1.5e9;

/// What nobody has taken for longer is lent again.
const SECONDS_AT_HAND: f64 = 4.0;

/// Sees to it that the next so many bytes which anybody takes are at hand: writes as many, and gives them back. At most half of
/// what is free (what the system caches is at hand already, and some engines' rows are there), and nothing where it does not tell or where a control group bounds what this process may have:
/// that is what is measured there.
pub(crate) fn touch(bytes: u64) {
    let bytes = bytes.min(free() / 2);
    let Ok(mut memory) = usize::try_from(bytes).map_err(std::io::Error::other).and_then(MmapMut::map_anon)
    else {
        return;
    };
    // In huge pages if there are any: it is those that are lent, and those that engines take.
    let _ = memory.advise(Advice::HugePage);
    // By all processors, each of which waits for the host by itself.
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for part in memory.chunks_mut(bytes_of_part(bytes as usize, threads)) {
            let write = || part.iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = 1);
            // Where the system starts no more threads, less is at hand.
            let _ = thread::Builder::new().spawn_scoped(scope, write);
        }
    });
}

/// Whole pages, so that none is passed over.
fn bytes_of_part(bytes: usize, parts: usize) -> usize {
    bytes.div_ceil(parts).next_multiple_of(PAGE_BYTES).max(PAGE_BYTES)
}

/// … as an engine may take that works for so long.
pub(crate) fn touch_for(seconds: f64) {
    touch(bytes_for(seconds));
}

/// Bytes that an engine may take that works for so long.
pub(crate) fn bytes_for(seconds: f64) -> u64 {
    (seconds.min(SECONDS_AT_HAND) * BYTES_PER_SECOND) as u64
}

/// Bytes that nobody has, and that the system caches nothing in; 0 if it does not say, or a control group allows less than all of its
/// memory.
fn free() -> u64 {
    free_of(memory::of_machine, memory::limit())
}

fn free_of(tells: impl Fn(&str) -> Option<u64>, limit: Option<u64>) -> u64 {
    let is_bounded = |total| limit.is_some_and(|limit| limit < total);
    let known = tells("MemTotal:").zip(tells("MemFree:"));
    known.map_or(0, |(total, free)| if is_bounded(total) { 0 } else { free })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_caches_is_left_to_it() {
        let tells = |line: &str| match line {
            "MemTotal:" => Some(8 << 30),
            "MemAvailable:" => Some(7 << 30),
            "MemFree:" => Some(2 << 30),
            _ => None,
        };
        assert_eq!((free_of(tells, None), free_of(tells, Some(8 << 30))), (2 << 30, 2 << 30));
        assert_eq!(free_of(tells, Some(4 << 30)), 0);
    }

    #[test]
    fn parts_are_whole_pages_and_none_is_left() {
        for (bytes, parts) in [(0, 2), (1, 16), (8 * PAGE_BYTES, 2), (9 * PAGE_BYTES + 1, 4)] {
            let part = bytes_of_part(bytes, parts);
            assert!(
                part > 0 && part.is_multiple_of(PAGE_BYTES) && part * parts >= bytes,
                "{bytes} in {parts}"
            );
        }
        touch(0);
        touch(64 << 20);
    }
}
