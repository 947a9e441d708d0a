//! What a machine is, as far as an index cares.
//!
//! Source: Linux's `/proc/cpuinfo` and sysfs; CPUID for the caches if sysfs does not tell. What nobody tells has a default,
//! so nothing here fails.

use super::cpuid;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// A processor and its data caches, each as the first core sees it. Sizes in bytes; 0 = there is none.
///
/// ```
/// use foreshore_index::calibrate::Machine;
///
/// let machine = Machine::this();
/// assert!(machine.cores >= 1 && machine.page_bytes.is_power_of_two());
/// assert!(machine.is_like(&Machine { cores: 64, ..machine.clone() }), "the processor and its caches count");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)] // what is misspelt would be taken from the default
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// A cache line.
    pub line_bytes: usize,
    /// The first cache of data.
    pub l1d_bytes: usize,
    /// The second cache.
    pub l2_bytes: usize,
    /// The third cache, shared by cores.
    pub l3_bytes: usize,
    /// A page of memory.
    #[serde(default = "usual_page_bytes")]
    pub page_bytes: usize,
    /// When the system gives huge pages: `always`, `madvise` or `never`; empty if it does not say.
    #[serde(default)]
    pub huge_pages: String,
}

/// What profiles meant that did not say it.
fn usual_page_bytes() -> usize {
    4096
}

impl Machine {
    /// The machine that this process runs on. See [`Machine`].
    pub fn this() -> Self {
        let mut caches = caches(Path::new("/sys/devices/system/cpu/cpu0/cache"));
        if caches.is_empty() {
            caches = cpuid::caches();
        }
        let size = |level| caches.iter().find(|c| c.level == level).map(|c| c.bytes);
        let line = caches.first().map_or(64, |c| c.line_bytes);
        Self {
            processor: processor().unwrap_or_else(|| std::env::consts::ARCH.into()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            line_bytes: line,
            l1d_bytes: size(1).unwrap_or(32 << 10),
            l2_bytes: size(2).unwrap_or(512 << 10),
            l3_bytes: size(3).unwrap_or(0),
            page_bytes: rustix::param::page_size(),
            huge_pages: huge_pages().unwrap_or_default(),
        }
    }

    /// Are the other's processor and caches of the same kind?
    /// See [`Machine`].
    pub fn is_like(&self, other: &Self) -> bool {
        let kind = |m: &Self| (m.processor.clone(), m.line_bytes, m.l1d_bytes, m.l2_bytes, m.l3_bytes);
        kind(self) == kind(other)
    }
}

fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

/// The word in brackets, of those that the system offers.
fn huge_pages() -> Option<String> {
    let text = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok()?;
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_string())
}

/// A cache of data, or of both.
pub(super) struct Cache {
    pub level: usize,
    pub bytes: usize,
    pub line_bytes: usize,
}

/// The caches of data under a core's folder in sysfs, first level first.
fn caches(folder: &Path) -> Vec<Cache> {
    let mut caches: Vec<Cache> = (0..8).filter_map(|i| cache(&folder.join(format!("index{i}")))).collect();
    caches.sort_by_key(|cache| cache.level);
    caches
}

fn cache(folder: &Path) -> Option<Cache> {
    let read = |name| fs::read_to_string(folder.join(name)).ok().map(|text| text.trim().to_string());
    if read("type")? == "Instruction" {
        return None;
    }
    Some(Cache {
        level: read("level")?.parse().ok()?,
        bytes: bytes(&read("size")?)?,
        line_bytes: read("coherency_line_size")?.parse().ok()?,
    })
}

/// `32K`, `2M` or plain bytes.
fn bytes(size: &str) -> Option<usize> {
    let (number, unit) = match size.as_bytes().last()? {
        b'K' => (&size[..size.len() - 1], 1 << 10),
        b'M' => (&size[..size.len() - 1], 1 << 20),
        _ => (size, 1),
    };
    Some(number.parse::<usize>().ok()? * unit)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// Instruction caches are none of ours, and a folder that lacks a file is no cache.
    #[test]
    fn caches_are_read_from_their_folders() {
        let root = std::env::temp_dir().join(format!("foreshore-caches-{}", std::process::id()));
        let files: [(&str, [&str; 4]); 4] = [
            ("index0", ["1", "Data", "48K\n", "64"]),
            ("index1", ["1", "Instruction", "32K", "64"]),
            ("index2", ["3", "Unified", "32M", "64"]),
            ("index3", ["2", "Unified", "2048K", "64"]),
        ];
        for (folder, values) in files {
            fs::create_dir_all(root.join(folder)).unwrap();
            for (name, value) in ["level", "type", "size", "coherency_line_size"].iter().zip(values) {
                fs::write(root.join(folder).join(name), value).unwrap();
            }
        }
        fs::create_dir_all(root.join("index4")).unwrap();
        let found: Vec<_> = caches(&root).iter().map(|c| (c.level, c.bytes, c.line_bytes)).collect();
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, [(1, 48 << 10, 64), (2, 2 << 20, 64), (3, 32 << 20, 64)]);
    }
}
