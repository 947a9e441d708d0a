//! Who owns the directory: a lock on it and on a file, and in the file the owner's process id.
//!
//! Why `flock` and not `fcntl` locks: it belongs to the open file, so a second open in the *same* process is refused
//! too, and closing an unrelated descriptor of the file does not give it up.
//!
//! Invariants:
//! - O1: the kernel releases the lock when the last copy of the descriptor is gone: a killed owner leaves none. The
//!   descriptor is closed on exec; a child forked without exec holds a copy until it exits.
//! - O2: only the process that took the lock gives it up: a forked child that drops its copy of the guard does not.
//! - O3: who removes the file lets nobody in: the next one is another file, but the directory is the same.
//! - O4: what a killed owner handed to a ring goes on without it, and has its file open, and a shared lock on that: the next
//!   owner waits until the file is [at rest](crate::File::await_rest). Otherwise a write from before could land on what the next one wrote.
//!   Only of files that are written by a ring: a lock on another file is somebody else's, as of who makes a backup.

use crate::LockError;
use foreshore_base::seeded_bug;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, ftruncate, openat};
use rustix::io::{Errno, pread, pwrite, retry_on_intr};
use rustix::process::{Pid, test_kill_process};
use std::io::{self, ErrorKind};
use std::process;
use std::thread;
use std::time::{Duration, Instant};

/// How long the next owner waits for what a killed owner has begun there (O4).
const PATIENCE: Duration = Duration::from_secs(30);

/// The lock; given up on drop.
pub(crate) struct DirLock {
    dir: OwnedFd,
    file: OwnedFd,
    owner: u32,
}

impl DirLock {
    /// Takes the lock file `name` of `dir`, without waiting.
    pub(crate) fn take(dir: impl AsFd, name: &str) -> Result<Self, LockError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let file = openat(&dir, name, flags, Mode::from_raw_mode(0o644)).map_err(io::Error::from)?;
        let its_own = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(&dir, ".", its_own, Mode::empty()).map_err(io::Error::from)?;
        match try_lock(&file).and_then(|()| try_lock_directory(&dir)) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(LockError::Held(read_pid(&file).filter(is_running))),
            Err(error) => return Err(LockError::Io(error.into())),
        }
        let owner = process::id();
        match write_pid(&file, owner) {
            // The number is only for those who are refused. On a full disk rows can still be read, and removed.
            Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {}
            written => written?,
        }
        Ok(Self { dir, file, owner })
    }
}

impl Drop for DirLock {
    fn drop(&mut self) {
        if self.owner == process::id() || seeded_bug("lock_given_up_by_child") {
            // Explicitly, because a forked child may hold copies of the descriptors. An error leaves it to the close.
            let _ = ftruncate(&self.file, 0);
            let _ = flock(&self.dir, FlockOperation::Unlock);
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
    }
}

fn try_lock(fd: &OwnedFd) -> Result<(), Errno> {
    retry_on_intr(|| flock(fd, FlockOperation::NonBlockingLockExclusive))
}

/// Where a filesystem locks no directories, the file has to do.
fn try_lock_directory(dir: &OwnedFd) -> Result<(), Errno> {
    match try_lock(dir) {
        Err(Errno::WOULDBLOCK) => Err(Errno::WOULDBLOCK),
        _ => Ok(()),
    }
}

/// Waits until nothing that a killed owner has begun is under way in this file, which can be written (O4).
///
/// Errors: `TimedOut` if that takes too long.
pub(crate) fn wait_for_rest(file: &OwnedFd) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        match try_lock(file) {
            Err(Errno::WOULDBLOCK) if Instant::now() > until => {
                let why = "another process has it locked, or a killed one began writes that have not reached the disk yet; try again later";
                return Err(io::Error::new(ErrorKind::TimedOut, why));
            }
            Err(Errno::WOULDBLOCK) => thread::sleep(Duration::from_millis(1)),
            // Where files cannot be locked, none is marked.
            Err(_) => return Ok(()),
            // Not by a close: a forked child may have a copy.
            Ok(()) => return Ok(flock(file, FlockOperation::Unlock)?),
        }
    }
}

fn write_pid(file: &OwnedFd, pid: u32) -> io::Result<()> {
    ftruncate(file, 0)?;
    let text = format!("{pid}\n");
    let written = retry_on_intr(|| pwrite(file, text.as_bytes(), 0))?;
    if written < text.len() { Err(io::ErrorKind::WriteZero.into()) } else { Ok(()) }
}

/// Is there still such a process, as far as one can see? Another one that it forked may have the lock still.
fn is_running(pid: &u32) -> bool {
    let pid = i32::try_from(*pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// The owner's id; `None` if the owner has not written it yet, or could not.
fn read_pid(file: &OwnedFd) -> Option<u32> {
    let mut text = [0; 16];
    let read = pread(file, &mut text, 0).ok()?;
    std::str::from_utf8(&text[..read]).ok()?.trim_end().parse().ok()
}
