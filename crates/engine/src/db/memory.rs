//! How much memory the cache may take if nobody says.
//!
//! Why a share of the machine: reads and writes go past the operating system's cache, so what does not fit into ours comes from
//! the device. With a fixed size, a database that outgrew it would be many times slower beside memory that nobody uses.

use foreshore_base::memory;
use std::sync::LazyLock;

/// One part in so many of the memory.
const SHARE: u64 = 4;
/// If the system does not say what it has.
const UNKNOWN_BYTES: u64 = 1 << 30;
/// A pool has no more frames than fit into this, whatever the size of its leaves.
const MAX_BYTES: u64 = 1 << 40;

/// Bytes of the cache, unless [`Builder::cache_bytes`](crate::Builder::cache_bytes) says otherwise.
pub(super) static CACHE_BYTES: LazyLock<usize> = LazyLock::new(|| share_of(memory::allowed()) as usize);

fn share_of(memory_bytes: Option<u64>) -> u64 {
    (memory_bytes.unwrap_or(UNKNOWN_BYTES) / SHARE).min(MAX_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_cache_is_a_share_of_the_memory() {
        assert_eq!(share_of(Some(8 << 30)), 2 << 30);
        assert_eq!(share_of(None), 256 << 20, "a system that keeps it to itself");
        assert_eq!(share_of(Some(u64::MAX)), MAX_BYTES);
        let here = *CACHE_BYTES as u64;
        assert!((1 << 20..=MAX_BYTES).contains(&here), "{here}");
    }

    /// Runs a test in a process that sees other mounts, where the system lets us.
    fn run_where(mounts: &str, test: &str) {
        let run = |arguments: &str| {
            let line = format!("{mounts} && exec \"$0\" {arguments}");
            let mut shell = Command::new("unshare");
            shell.args(["--mount", "--map-root-user", "sh", "-c", &line]);
            shell.arg(std::env::current_exe().unwrap()).output()
        };
        if run("--list").is_ok_and(|listed| listed.status.success()) {
            let ran = run(&format!("--exact db::memory::tests::{test} --ignored")).unwrap();
            assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
        }
    }

    #[test]
    fn a_system_may_keep_its_memory_to_itself() {
        run_where("mount --bind /dev/null /proc/meminfo", "where_nobody_says");
    }

    #[test]
    #[ignore = "a part of the test above, in a process of its own"]
    fn where_nobody_says() {
        assert!(*CACHE_BYTES <= 256 << 20);
        crate::Database::in_memory().unwrap();
    }

    /// It is not the group that is mounted, and has no limit of its own.
    #[test]
    fn the_limit_of_a_group_around_counts() {
        let root = tempfile::tempdir().unwrap();
        let at = root.path().display();
        std::fs::create_dir_all(root.path().join("groups/service/mine")).unwrap();
        std::fs::write(root.path().join("groups/service/memory.max"), "268435456\n").unwrap();
        std::fs::write(root.path().join("groups/service/mine/memory.max"), "max\n").unwrap();
        std::fs::write(root.path().join("mine"), "0::/service/mine\n").unwrap();
        // The shell's process is the one that the test runs in.
        let mounts =
            format!("mount --bind {at}/groups /sys/fs/cgroup && mount --bind {at}/mine /proc/$$/cgroup");
        run_where(&mounts, "in_a_group_of_256_mib");
    }

    #[test]
    #[ignore = "a part of the test above, in a process of its own"]
    fn in_a_group_of_256_mib() {
        assert_eq!(*CACHE_BYTES, 64 << 20);
    }
}
