//! Directories that a command makes for itself: they go when it ends, also when Ctrl-C or SIGTERM ends it.

use crate::failure::Outcome;
use crate::signals;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::{fs, io};

/// What a shell reports of a program that Ctrl-C has ended.
pub const INTERRUPTED: i32 = 130;

/// The directory is going, and the process with it.
static ENDING: AtomicBool = AtomicBool::new(false);

/// A directory that goes.
#[derive(Clone)]
pub struct Scratch {
    dir: PathBuf,
    was_there: bool,
}

impl Scratch {
    /// One that the command makes.
    pub fn made(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), was_there: false }
    }

    /// One that its user names. If it is there already, only what comes into it goes: it may be a link, or where a filesystem is mounted.
    pub fn named(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        Self { was_there: dir.exists(), dir }
    }

    /// Removes it.
    pub fn remove(&self) -> io::Result<()> {
        if !self.was_there {
            return fs::remove_dir_all(&self.dir);
        }
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let is_dir = entry.file_type()?.is_dir();
            if is_dir { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) }?;
        }
        Ok(())
    }
}

/// Removes `scratch` and ends the process on a signal. At most one directory a process.
///
/// Errors: the system's, if signals cannot be caught.
pub fn remove_on_interrupt(scratch: Scratch) -> Outcome {
    let remove_and_exit = move || {
        ENDING.store(true, SeqCst);
        // This process's threads, or a child that the same signal ends, may still be making files there.
        let removed = (0..100).any(|_| scratch.remove().is_ok() || !scratch.dir.exists());
        if !removed {
            crate::output::tell(format_args!("foreshore: {} is left behind", scratch.dir.display()));
        }
        std::process::exit(INTERRUPTED);
    };
    signals::catch(remove_and_exit)
}

/// To be called before a failure is told: whoever still works in a directory that is going fails, and that is no news.
pub fn end_if_interrupted() {
    while ENDING.load(SeqCst) {
        std::thread::park();
    }
}
