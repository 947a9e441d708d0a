//! What can be seen of a database that another process has open: its files, and what the system tells of the process.

use crate::failure::{Failure, Outcome};
use crate::output::size;
use serde::Serialize;
use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Instant;

/// The clock in which the system counts processor time: 100 Hz on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// One look.
pub struct Outside {
    at: Instant,
    files: Files,
    holder: Option<Holder>,
}

/// Sizes on disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Files {
    leaf_file_bytes: u64,
    blob_file_bytes: u64,
    log_segments: u64,
    log_file_bytes: u64,
    directory_bytes: u64,
}

/// The process that has the database open. What its owner hides from us is absent.
struct Holder {
    pid: u32,
    cpu_ticks: Option<u64>,
    read_bytes: Option<u64>,
    write_bytes: Option<u64>,
    resident_bytes: Option<u64>,
}

/// What two looks tell; its JSON names are kept stable.
#[derive(Debug, Serialize)]
pub struct Seen {
    /// Process id of the holder; absent: no process has it open.
    pid: Option<u32>,
    /// Percent of one core.
    cpu_percent: Option<f64>,
    read_bytes_per_s: Option<f64>,
    write_bytes_per_s: Option<f64>,
    resident_bytes: Option<u64>,
    #[serde(flatten)]
    files: Files,
}

impl Seen {
    /// Has no process the database open?
    pub fn is_closed(&self) -> bool {
        self.pid.is_none()
    }
}

impl Outside {
    /// Looks, and takes no lock.
    pub fn look(dir: &Path) -> Outcome<Self> {
        let files = Files::of(dir).map_err(|e| Failure::io(dir.display(), &e))?;
        Ok(Self { at: Instant::now(), files, holder: Holder::of(dir) })
    }

    /// What is there, and what happened since an earlier look, if there was one. Rates are of the same process only.
    pub fn since(&self, before: Option<&Self>) -> Seen {
        let rate = |count: fn(&Holder) -> Option<u64>| {
            let (before, now) = (before?, self.holder.as_ref()?);
            let same = before.holder.as_ref().filter(|old| old.pid == now.pid)?;
            let gained = count(now)?.checked_sub(count(same)?)?;
            Some(gained as f64 / (self.at - before.at).as_secs_f64())
        };
        Seen {
            pid: self.holder.as_ref().map(|holder| holder.pid),
            cpu_percent: rate(|holder| holder.cpu_ticks).map(|ticks| ticks / TICKS_PER_SECOND * 100.0),
            read_bytes_per_s: rate(|holder| holder.read_bytes),
            write_bytes_per_s: rate(|holder| holder.write_bytes),
            resident_bytes: self.holder.as_ref().and_then(|holder| holder.resident_bytes),
            files: self.files.clone(),
        }
    }
}

impl Files {
    fn of(dir: &Path) -> std::io::Result<Self> {
        let mut files = Self::default();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            // A segment may go between the list and the look at it.
            let Ok(metadata) = entry.metadata() else { continue };
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with("leaves") {
                files.leaf_file_bytes += metadata.len();
            } else if name == "blobs.db" {
                files.blob_file_bytes += metadata.len();
            } else if name.starts_with("wal-") {
                files.log_segments += 1;
                files.log_file_bytes += metadata.len();
            } else if name.starts_with("directory-") {
                files.directory_bytes += metadata.len();
            }
        }
        Ok(files)
    }
}

impl Holder {
    /// The process that the lock file names, if it lives and still has that file open. (A killed process leaves its number
    /// there, and another process may have it by now.)
    fn of(dir: &Path) -> Option<Self> {
        let lock = fs::canonicalize(dir.join("LOCK")).ok()?;
        let pid = fs::read_to_string(&lock).ok()?.trim().parse().ok()?;
        let process = Path::new("/proc").join(format!("{pid}"));
        if !process.exists() || has_open(&process, &lock) == Some(false) {
            return None;
        }
        let read = |file: &str| fs::read_to_string(process.join(file)).ok();
        let (io, status) = (read("io"), read("status"));
        Some(Self {
            pid,
            cpu_ticks: read("stat").as_deref().and_then(cpu_ticks),
            read_bytes: io.as_deref().and_then(|io| field(io, "read_bytes:")),
            write_bytes: io.as_deref().and_then(|io| field(io, "write_bytes:")),
            resident_bytes: status.as_deref().and_then(|status| field(status, "VmRSS:")).map(|kib| kib << 10),
        })
    }
}

/// Has the process this file open? `None` if we may not know.
fn has_open(process: &Path, file: &Path) -> Option<bool> {
    let mut descriptors = fs::read_dir(process.join("fd")).ok()?;
    Some(
        descriptors
            .any(|entry| entry.is_ok_and(|entry| fs::read_link(entry.path()).is_ok_and(|to| to == file))),
    )
}

/// The number behind a name, as in `VmRSS:    1234 kB`.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Fields 14 and 15 of `/proc/PID/stat`. The second, a name in brackets, may hold blanks and brackets.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let mut fields = behind_name.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user + system)
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            None => write!(f, "no process has it open")?,
            Some(pid) => write!(f, "process {pid}")?,
        }
        if let Some(percent) = self.cpu_percent {
            write!(f, ", {percent:.0} % of a core")?;
        }
        if let (Some(read), Some(written)) = (self.read_bytes_per_s, self.write_bytes_per_s) {
            write!(f, ", reads {}/s, writes {}/s", size(read as u64), size(written as u64))?;
        }
        if let Some(bytes) = self.resident_bytes {
            write!(f, ", {} in memory", size(bytes))?;
        }
        let Files { leaf_file_bytes, blob_file_bytes, log_segments, log_file_bytes, directory_bytes } =
            &self.files;
        write!(
            f,
            "; leaves {}, large values {}, log {} in {log_segments} segments, directory {}",
            size(*leaf_file_bytes),
            size(*blob_file_bytes),
            size(*log_file_bytes),
            size(*directory_bytes)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_tells_is_read() {
        assert_eq!(field("Name:\tx\nVmRSS:\t  1234 kB\n", "VmRSS:"), Some(1234));
        assert_eq!(field("Name:\tx\n", "VmRSS:"), None);
        let stat = "7 (a ) (b) R 1 2 3 4 5 6 7 8 9 10 70 30 0 0 20";
        assert_eq!(cpu_ticks(stat), Some(100));
    }

    /// This process is seen as the holder while it has the database open, and not afterwards.
    #[test]
    fn the_holder_is_seen_while_it_holds() {
        let dir = tempfile::tempdir().unwrap();
        let db = foreshore::Database::open(dir.path()).unwrap();
        let before = Outside::look(dir.path()).unwrap();
        assert!(before.since(None).cpu_percent.is_none(), "a rate needs two looks");
        let seen = Outside::look(dir.path()).unwrap().since(Some(&before));
        assert_eq!(seen.pid, Some(std::process::id()));
        assert!(seen.cpu_percent.is_some() && seen.resident_bytes > Some(0), "{seen:?}");
        assert!(seen.files.leaf_file_bytes > 0 && seen.files.log_segments > 0, "{seen:?}");

        db.close().unwrap();
        let after = Outside::look(dir.path()).unwrap();
        assert_eq!(after.since(Some(&before)).pid, None);
        fs::write(dir.path().join("LOCK"), format!("{}\n", std::process::id())).unwrap();
        assert!(Outside::look(dir.path()).unwrap().holder.is_none(), "a number left by a killed process");
    }
}
