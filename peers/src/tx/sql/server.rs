//! A database server of a run's own: started in a private directory, reached through a Unix socket, ended with the run, by the kernel
//! if the run's process is killed.
//!
//! Servers refuse to work as root, so under root they run as `nobody`, to whom the private directory is given.

use crate::ending::remove_on_signal;
use foreshore_workloads::StoreError;
use libc::c_int;
use std::cmp::Reverse;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// User and group of `nobody`, on every Linux.
const NOBODY: u32 = 65534;

/// How long a server may take to answer, on a busy machine.
const START_MAX: Duration = Duration::from_secs(60);

/// A private directory: data and log beside each other, and the socket, whose path may be short only, elsewhere.
pub struct Home {
    data: PathBuf,
    log: PathBuf,
    sockets: tempfile::TempDir,
    /// What ends the server at once.
    end_signal: c_int,
}

impl Home {
    /// Makes one in a run's directory, for a server that this signal ends at once.
    pub fn new(dir: &Path, end_signal: c_int) -> Result<Self, StoreError> {
        let home = Self {
            data: dir.join("data"),
            log: dir.join("server.log"),
            sockets: tempfile::Builder::new().prefix("peers-").tempdir()?,
            end_signal,
        };
        remove_on_signal(home.sockets())?;
        fs::create_dir(&home.data)?;
        fs::File::create(&home.log)?;
        if is_root() {
            for path in [&home.data, &home.log, home.sockets.path()] as [&Path; 3] {
                chown(path, Some(NOBODY), Some(NOBODY))?;
            }
            fs::set_permissions(dir, fs::Permissions::from_mode(0o711))?;
        }
        fs::set_permissions(&home.data, fs::Permissions::from_mode(0o700))?;
        Ok(home)
    }

    /// Where the server keeps its files.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Where the server makes its socket.
    pub fn sockets(&self) -> &Path {
        self.sockets.path()
    }

    /// A program that runs here, as a user whom servers accept, and writes into the log.
    pub fn command(&self, program: &Path) -> Result<Command, StoreError> {
        let mut command = Command::new(program);
        let log = fs::OpenOptions::new().append(true).open(&self.log)?;
        command.current_dir(&self.data).stdin(Stdio::null()).stderr(log.try_clone()?).stdout(log);
        command.env("HOME", &self.data);
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let end_signal = self.end_signal;
        // With the thread that starts it, to be exact: the main one.
        let ends_with_its_parent = move || {
            // SAFETY: changes nothing but this process, the child.
            match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, end_signal) } {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        };
        // SAFETY: the closure makes a system call, and takes neither memory nor locks.
        unsafe { command.pre_exec(ends_with_its_parent) };
        Ok(command)
    }

    /// Runs it to its end.
    ///
    /// Errors: it does not succeed; the log's end is in the message.
    pub fn run(&self, mut command: Command) -> Result<(), StoreError> {
        let status = command.status()?;
        if status.success() { Ok(()) } else { Err(self.complaint(&format!("{command:?}: {status}"))) }
    }

    fn complaint(&self, what: &str) -> StoreError {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        let end = lines[lines.len().saturating_sub(8)..].join("\n");
        format!("{what}; its log ends with\n{end}\n(a server runs as `nobody` under root, and must be able to enter --dir)")
            .into()
    }
}

fn is_root() -> bool {
    // SAFETY: always succeeds, and changes nothing.
    unsafe { libc::geteuid() == 0 }
}

/// Where a program is: in `PATH`, or in one of these directories, whose names may end with `/*`.
///
/// Errors: it is nowhere; the message names `peers/setup`.
pub fn program(engine: &str, name: &str, elsewhere: &[&str]) -> Result<PathBuf, StoreError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path);
    let others = elsewhere.iter().flat_map(|dir| match dir.split_once("/*") {
        None => vec![PathBuf::from(dir)],
        Some((above, below)) => versions(Path::new(above), below.trim_start_matches('/')),
    });
    in_path
        .chain(others)
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
        .ok_or_else(|| format!("{name} is not installed: run `peers/setup {engine}`").into())
}

/// What a server's program says of its version: the first word that begins with a digit. `None` if it is not installed.
pub fn version(engine: &str, name: &str, elsewhere: &[&str]) -> Option<String> {
    let told = Command::new(program(engine, name, elsewhere).ok()?).arg("--version").output().ok()?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    told.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit())).map(str::to_owned)
}

/// `above/VERSION/below`, newest first.
fn versions(above: &Path, below: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(above) else { return Vec::new() };
    let mut found: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    found.sort_by_cached_key(|name| Reverse(numbers(&name.to_string_lossy())));
    found.into_iter().map(|version| above.join(version).join(below)).collect()
}

/// The numbers of a version; as text, 9.6 would be newer than 15.
fn numbers(version: &str) -> Vec<u64> {
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

/// A running server, killed on drop: its data is thrown away in any case.
pub struct Server {
    child: Child,
    home: Home,
}

impl Server {
    /// Starts it, and waits until `connect` succeeds.
    ///
    /// Errors: it ends, or does not answer for a minute.
    pub fn start<C>(
        home: Home,
        mut command: Command,
        connect: impl Fn() -> Result<C, StoreError>,
    ) -> Result<(Self, C), StoreError> {
        let mut server = Self { child: command.spawn()?, home };
        let begun = Instant::now();
        loop {
            match connect() {
                Ok(connection) => return Ok((server, connection)),
                Err(error) if begun.elapsed() > START_MAX => {
                    return Err(server.home.complaint(&format!("{command:?} does not answer: {error}")));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
            if let Some(status) = server.child.try_wait()? {
                return Err(server.home.complaint(&format!("{command:?} ended: {status}")));
            }
        }
    }

    /// CPU seconds of the server and of all processes that it started.
    pub fn cpu_s(&self) -> Result<f64, StoreError> {
        let server = self.child.id();
        let mut ticks = 0;
        for entry in fs::read_dir("/proc")?.flatten() {
            let Some(pid) = number(&entry.file_name()) else { continue };
            // A process may end while we look: its parent has its time then.
            let Some(times) = Times::of(pid) else { continue };
            if pid == server {
                ticks += times.own + times.children;
            } else if times.parent == server {
                ticks += times.own;
            }
        }
        // SAFETY: asks for a constant.
        let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
        Ok(ticks as f64 / per_second as f64)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SAFETY: a signal to a child that was not waited for, so the id is still its.
        unsafe { libc::kill(self.child.id() as libc::pid_t, self.home.end_signal) };
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(5) {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn number(name: &OsStr) -> Option<u32> {
    name.to_str()?.parse().ok()
}

/// What `/proc/<pid>/stat` says, in clock ticks.
struct Times {
    parent: u32,
    own: u64,
    /// Of children that have ended.
    children: u64,
}

impl Times {
    fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Self::read(&stat)
    }

    /// The name, in brackets, may hold anything: fields are counted from behind it.
    fn read(stat: &str) -> Option<Self> {
        const PARENT: usize = 1;
        const UTIME: usize = 11;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Self {
            parent: fields.get(PARENT)?.parse().ok()?,
            own: ticks(UTIME)? + ticks(UTIME + 1)?,
            children: ticks(UTIME + 2)? + ticks(UTIME + 3)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_behind_any_name() {
        let times =
            Times::read("42 (a) (b 7) S 7 42 42 0 -1 4194560 1 2 3 4 100 20 30 4 20 0 1 0 5 6 7").unwrap();
        assert_eq!((times.parent, times.own, times.children), (7, 120, 34));
    }

    /// What stands beside the versions, without a number, comes last.
    #[test]
    fn the_newest_version_comes_first() {
        let above = tempfile::tempdir().unwrap();
        for version in ["9.6", "15", "10", "common", "9.10"] {
            fs::create_dir(above.path().join(version)).unwrap();
        }
        let found = versions(above.path(), "bin");
        let expected =
            ["15", "10", "9.10", "9.6", "common"].map(|version| above.path().join(version).join("bin"));
        assert_eq!(found, expected);
    }
}
