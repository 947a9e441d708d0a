//! Directories that a command makes for itself: they go when it ends, also when Ctrl-C or SIGTERM ends it.

use crate::failure::Outcome;
use crate::signals;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// What a shell reports of a program that Ctrl-C has ended.
pub const INTERRUPTED: i32 = 130;

/// The directory is going, and the process with it.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Removes `dir` and ends the process on a signal. At most one directory a process.
///
/// Errors: the system's, if signals cannot be caught.
pub fn remove_on_interrupt(dir: impl Into<PathBuf>) -> Outcome {
    let dir = dir.into();
    let remove_and_exit = move || {
        ENDING.store(true, SeqCst);
        // This process's threads, or a child that the same signal ends, may still be making files there.
        let removed = (0..100).any(|_| std::fs::remove_dir_all(&dir).is_ok() || !dir.exists());
        if !removed {
            crate::output::tell(format_args!("foreshore: {} is left behind", dir.display()));
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
