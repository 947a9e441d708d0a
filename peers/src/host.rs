//! Describes the machine a figure comes from.

use std::path::Path;
use std::process::Command;

/// What a command prints, or `unknown`.
fn printed(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let text =
        output.ok().filter(|output| output.status.success()).map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    if text.is_empty() { "unknown".to_owned() } else { text }
}

/// The value of the first line `name : value` in a file of `/proc`.
fn proc_field(file: &str, name: &str) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let value = text.lines().find(|line| line.starts_with(name)).and_then(|line| line.split_once(':'));
    value.map_or("unknown", |(_, value)| value.trim()).to_owned()
}

/// Today, year-month-day.
pub fn today() -> String {
    printed("date", &["+%F"])
}

/// Load averages over 1, 5 and 15 minutes, and more, as Linux gives them.
pub fn load() -> String {
    std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_owned()
}

/// One `name: value` per line.
pub fn describe(store_dir: &Path) -> String {
    let dir = store_dir.to_string_lossy();
    let filesystem = printed("df", &["--output=fstype,source", &dir]);
    let cores = std::thread::available_parallelism().map_or("unknown".to_owned(), |cores| cores.to_string());
    let fields = [
        ("cpu", proc_field("/proc/cpuinfo", "model name")),
        ("cores", cores),
        ("memory", proc_field("/proc/meminfo", "MemTotal")),
        ("kernel", printed("uname", &["-sr"])),
        ("filesystem", filesystem.lines().last().unwrap_or("unknown").to_owned()),
        ("load", load()),
        ("compiler", printed("rustc", &["--version"])),
        ("commit", printed("git", &["describe", "--always", "--dirty"])),
    ];
    fields.iter().map(|(name, value)| format!("{name}: {value}\n")).collect()
}
