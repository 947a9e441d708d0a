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
//!   owner waits until all files are [at rest](wait_for_rest). Otherwise a write from before could land on what the next one wrote.

use crate::LockError;
use foreshore_base::seeded_bug;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Dir, FileType, FlockOperation, Mode, OFlags, flock, ftruncate, openat};
use rustix::io::{Errno, pread, pwrite, retry_on_intr};
use std::io::{self, ErrorKind};
use std::process;
use std::thread;
use std::time::{Duration, Instant};

/// How long the next owner waits for what a killed one has begun (O4).
const PATIENCE: Duration = Duration::from_secs(30);

/// The lock; given up on drop.
pub(crate) struct DirLock {
    dir: OwnedFd,
    file: OwnedFd,
    owner: u32,
}

impl DirLock {
    /// Takes the lock file `name` of `dir` without waiting for its owner, but for what a killed one has begun (O4).
    pub(crate) fn take(dir: impl AsFd, name: &str) -> Result<Self, LockError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let file = openat(&dir, name, flags, Mode::from_raw_mode(0o644)).map_err(io::Error::from)?;
        let its_own = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(&dir, ".", its_own, Mode::empty()).map_err(io::Error::from)?;
        match try_lock(&file).and_then(|()| try_lock_directory(&dir)) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(LockError::Held(read_pid(&file))),
            Err(error) => return Err(LockError::Io(error.into())),
        }
        wait_for_rest(&dir, name)?;
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

/// Waits until nothing that a killed owner has begun is under way in any file but the lock file (O4).
///
/// Errors: `TimedOut` if that takes too long, and what the system reports.
fn wait_for_rest(dir: &OwnedFd, lock_name: &str) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if !may_be_ours(entry.file_type()) || entry.file_name().to_bytes() == lock_name.as_bytes() {
            continue;
        }
        let file = match retry_on_intr(|| openat(dir, entry.file_name(), flags, Mode::empty())) {
            Err(shortage @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => return Err(shortage.into()),
            file => file.ok(), // gone, or none of ours
        };
        while file.as_ref().is_some_and(|file| try_lock(file) == Err(Errno::WOULDBLOCK)) {
            if Instant::now() > until {
                let why = "writes that a killed process began have not reached the disk yet; try again later";
                return Err(io::Error::new(ErrorKind::TimedOut, why));
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
    Ok(())
}

/// What is none of ours may be of any kind; and not every filesystem tells the kind of what is.
fn may_be_ours(kind: FileType) -> bool {
    matches!(kind, FileType::RegularFile | FileType::Unknown)
}

fn write_pid(file: &OwnedFd, pid: u32) -> io::Result<()> {
    ftruncate(file, 0)?;
    let text = format!("{pid}\n");
    let written = retry_on_intr(|| pwrite(file, text.as_bytes(), 0))?;
    if written < text.len() { Err(io::ErrorKind::WriteZero.into()) } else { Ok(()) }
}

/// The owner's id; `None` if the owner has not written it yet, or could not.
fn read_pid(file: &OwnedFd) -> Option<u32> {
    let mut text = [0; 16];
    let read = pread(file, &mut text, 0).ok()?;
    std::str::from_utf8(&text[..read]).ok()?.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// O4: it may be a write of a killed owner, which the system carries out without it.
    #[test]
    fn who_comes_next_waits_for_what_is_under_way() {
        let path = std::env::temp_dir().join(format!("foreshore-io-rest-of-{}", process::id()));
        std::fs::create_dir(&path).expect("a temporary directory");
        let leaves = std::fs::File::create(path.join("leaves.db")).expect("a new file");
        flock(&leaves, FlockOperation::LockShared).expect("nobody else has it");
        let dir = std::fs::File::open(&path).expect("the directory");
        let (tell, told) = channel();
        thread::scope(|scope| {
            scope.spawn(|| tell.send(DirLock::take(&dir, "LOCK").map(drop)).expect("a listener"));
            let early = told.recv_timeout(Duration::from_millis(200));
            drop(leaves);
            assert!(early.is_err(), "locked beside a write");
            told.recv().expect("a locker").expect("all have landed");
        });
        std::fs::remove_dir_all(&path).expect("removing it");
    }

    #[test]
    fn a_file_whose_kind_nobody_tells_is_waited_for() {
        assert!(may_be_ours(FileType::Unknown) && may_be_ours(FileType::RegularFile));
        assert!(!may_be_ours(FileType::Fifo));
    }
}
