//! How much memory this process has, and may have: the machine's, or less if a control group around it has a limit, as those of containers and
//! services have.
//!
//! Why by hand: libraries look at the group that is mounted at the root, which is the process's own in some containers only.

use std::fs;
use std::path::Path;

/// Where control groups are mounted.
const GROUPS: &str = "/sys/fs/cgroup";

/// The groups of a process that cannot see which they are: it may still see the limit of those that are mounted.
const ROOT_GROUPS: &str = "1:memory:/\n0::/\n";

/// By a number from here on, which is more than any machine has, control groups say that they have no limit.
const NO_LIMIT: u64 = 1 << 62;

/// Bytes that this process may have; `None` if the system does not say.
pub fn allowed() -> Option<u64> {
    [of_machine("MemTotal:"), limit()].into_iter().flatten().min()
}

/// The bytes that a line of `/proc/meminfo` tells, as that which begins with `MemTotal:`; `None` if there is none.
pub fn of_machine(line: &str) -> Option<u64> {
    bytes_in("/proc/meminfo", line)
}

/// The bytes that a line of `/proc/self/status` tells, as that which begins with `VmRSS:`; `None` if there is none.
pub fn of_process(line: &str) -> Option<u64> {
    bytes_in("/proc/self/status", line)
}

fn bytes_in(file: &str, line: &str) -> Option<u64> {
    let info = fs::read_to_string(file).ok()?;
    let kib = info.lines().find_map(|found| found.strip_prefix(line))?;
    Some(kib.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

/// The bytes that control groups allow this process; `None` if they allow all.
pub fn limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup");
    limit_of(groups.as_deref().unwrap_or(ROOT_GROUPS), Path::new(GROUPS))
}

/// The least limit of these groups, as `/proc/self/cgroup` names them, and of those that they are in. Of either version, mounted at `root`.
fn limit_of(groups: &str, root: &Path) -> Option<u64> {
    let limits = groups.lines().flat_map(|line| {
        let (controllers, path) =
            line.split_once(':').and_then(|(_, rest)| rest.split_once(':')).unwrap_or_default();
        // Above `high` a process is not killed, but made to wait.
        let (root, files) = match controllers {
            "" => (root.to_owned(), &["memory.max", "memory.high"][..]),
            _ => (root.join("memory"), &["memory.limit_in_bytes"][..]),
        };
        let is_of_memory = controllers.is_empty() || controllers.split(',').any(|name| name == "memory");
        let path = Path::new(path.trim_start_matches('/'));
        let least =
            move |group: &Path| files.iter().filter_map(|file| number_in(&root.join(group).join(file))).min();
        path.ancestors().filter(move |_| is_of_memory).filter_map(least)
    });
    limits.filter(|limit| *limit < NO_LIMIT).min()
}

fn number_in(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// … of both versions of control groups, and of the group above one without a limit.
    #[test]
    fn the_least_limit_counts() {
        let root = tempfile::tempdir().unwrap();
        let set = |group: &str, file: &str, limit: &str| {
            fs::create_dir_all(root.path().join(group)).unwrap();
            fs::write(root.path().join(group).join(file), format!("{limit}\n")).unwrap();
        };
        set("above/of/mine", "memory.max", "max");
        set("above", "memory.max", "5000");
        set("memory/old", "memory.limit_in_bytes", "3000");
        set("memory", "memory.limit_in_bytes", "9223372036854771712");
        let limit = |groups| limit_of(groups, root.path());
        assert_eq!(limit("0::/above/of/mine\n"), Some(5000));
        assert_eq!(limit("7:pids:/\n4:cpu,memory:/old\n0::/above/of/mine\n"), Some(3000));
        assert_eq!(limit("7:pids:/above\n4:memory:/\n0::/\n"), None, "not of its memory");
        set("above/of", "memory.high", "4000");
        assert_eq!(limit("0::/above/of/mine\n"), Some(4000));
        set("", "memory.max", "7000");
        assert_eq!(limit(ROOT_GROUPS), Some(7000));
    }

    #[test]
    fn a_process_has_less_than_it_had() {
        let [now, peak] = ["VmRSS:", "VmHWM:"].map(|line| of_process(line).expect("Linux tells it"));
        assert!((1..=peak).contains(&now), "{now}, {peak}");
    }

    #[test]
    fn no_more_is_allowed_than_there_is() {
        let (total, allowed) = (of_machine("MemTotal:"), allowed());
        assert!(
            total.is_none_or(|total| allowed.is_some_and(|allowed| (1 << 20..=total).contains(&allowed)))
        );
    }
}
