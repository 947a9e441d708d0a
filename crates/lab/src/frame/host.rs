//! The machine a figure was drawn on, for the header of its file.

use std::fs;

/// What a reader must know of the machine to judge a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The processor's name.
    pub cpu: String,
    /// Processors that this program may use.
    pub cores: usize,
    /// The kernel.
    pub kernel: String,
    /// Was anything else running? The load of the last minute, when the figure was begun.
    pub load: String,
}

impl Host {
    /// This machine, now. What cannot be found out is "unknown".
    pub fn here() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let first_word = |path: &str| {
            let text = fs::read_to_string(path).ok()?;
            text.split_whitespace().next().map(str::to_owned)
        };
        let unknown = || "unknown".to_owned();
        Self {
            cpu: cpu.map_or_else(unknown, |(_, name)| name.trim().to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: first_word("/proc/sys/kernel/osrelease").unwrap_or_else(unknown),
            load: first_word("/proc/loadavg").unwrap_or_else(unknown),
        }
    }

    /// A name for a directory: the processor and its cores.
    pub fn directory(&self) -> String {
        let words = self.cpu.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
        let kept = words.filter(|word| !["", "R", "TM", "CPU", "Processor"].contains(word));
        let name = kept.map(str::to_lowercase).collect::<Vec<_>>().join("-");
        format!("{name}-{}core", self.cores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_a_plain_name() {
        let cpu = "Intel(R) Xeon(R) Processor @ 2.50GHz".into();
        let host = Host { cpu, cores: 2, kernel: String::new(), load: String::new() };
        assert_eq!(host.directory(), "intel-xeon-2.50ghz-2core");
    }
}
