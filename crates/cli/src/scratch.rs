//! What a command makes for itself, a directory or a file: it goes when the command ends, also when Ctrl-C or SIGTERM ends it.

use crate::failure::Outcome;
use crate::signals;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::{fs, io};

/// What a shell reports of a program that Ctrl-C has ended.
pub const INTERRUPTED: i32 = 130;

/// What was made is going, and the process with it.
static ENDING: AtomicBool = AtomicBool::new(false);

/// A directory or a file that goes.
#[derive(Clone)]
pub struct Scratch {
    path: PathBuf,
    /// A directory that stays, without what comes into it.
    was_there: bool,
}

impl Scratch {
    /// One that the command makes.
    pub fn made(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), was_there: false }
    }

    /// A directory that its user names. If it is there already, only what comes into it goes: it may be a link, or where a filesystem is mounted.
    pub fn named(dir: impl Into<PathBuf>) -> Self {
        let path = dir.into();
        Self { was_there: path.exists(), path }
    }

    /// Removes it.
    pub fn remove(&self) -> io::Result<()> {
        if !self.was_there {
            return remove(&self.path, self.path.is_dir());
        }
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            remove(&entry.path(), entry.file_type()?.is_dir())?;
        }
        Ok(())
    }
}

fn remove(path: &Path, is_dir: bool) -> io::Result<()> {
    if is_dir { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

/// Removes `scratch` and ends the process on a signal. At most one a process.
///
/// Errors: the system's, if signals cannot be caught.
pub fn remove_on_interrupt(scratch: Scratch) -> Outcome {
    let remove_and_exit = move || {
        ENDING.store(true, SeqCst);
        // This process's threads, or a child that the same signal ends, may still be making files there.
        let removed = (0..100).any(|_| scratch.remove().is_ok() || !scratch.path.exists());
        if !removed {
            crate::output::tell(format_args!("foreshore: {} is left behind", scratch.path.display()));
        }
        std::process::exit(INTERRUPTED);
    };
    signals::catch(remove_and_exit)
}

/// To be called before a failure is told: whoever still works with what is going fails, and that is no news.
pub fn end_if_interrupted() {
    while ENDING.load(SeqCst) {
        std::thread::park();
    }
}
