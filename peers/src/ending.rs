//! What a signal ends leaves no directory behind. A server of the run's ends with its parent (`tx::sql::server`).

use foreshore_workloads::StoreError;
use libc::c_int;
use std::io::{PipeReader, Read};
use std::os::fd::IntoRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

/// What a shell reports of a program that Ctrl-C has ended.
const INTERRUPTED: i32 = 130;

static DIRS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The directories are going, and the process with them.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Where a signal is told.
static TELL: AtomicI32 = AtomicI32::new(-1);

/// Removes `dir`, and ends the process, on SIGINT, SIGTERM and SIGHUP; not on those that are to be ignored, as `nohup` asks for.
///
/// Errors: the system's, if signals cannot be caught.
pub fn remove_on_signal(dir: &Path) -> Result<(), StoreError> {
    let mut dirs = DIRS.lock().unwrap_or_else(PoisonError::into_inner);
    dirs.push(dir.to_owned());
    if dirs.len() == 1 {
        let (told, tell) = std::io::pipe()?;
        TELL.store(tell.into_raw_fd(), SeqCst);
        std::thread::spawn(|| end_when(told));
        [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].into_iter().for_each(catch);
    }
    Ok(())
}

fn catch(signal: c_int) {
    // SAFETY: `note` does only what may be done in the midst of anything.
    let before = unsafe { libc::signal(signal, note as extern "C" fn(c_int) as libc::sighandler_t) };
    if before == libc::SIG_IGN {
        // SAFETY: to ignore a signal names no code.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

extern "C" fn note(_signal: c_int) {
    // SAFETY: one byte of a constant, into a pipe that stays open.
    unsafe { libc::write(TELL.load(SeqCst), b"!".as_ptr().cast(), 1) };
}

fn end_when(mut told: PipeReader) {
    let _ = told.read_exact(&mut [0]);
    ENDING.store(true, SeqCst);
    for dir in DIRS.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        // The engine's threads, or its server, may still be making files there.
        let is_gone = (0..100).any(|_| std::fs::remove_dir_all(dir).is_ok() || !dir.exists());
        if !is_gone {
            eprintln!("peers: {} is left behind", dir.display());
        }
    }
    // SAFETY: ends the process at once, as nothing does that libraries have to do at an exit beside their threads.
    unsafe { libc::_exit(INTERRUPTED) }
}

/// To be called before a failure is told: whoever still works in a directory that is going fails, and that is no news.
pub fn end_if_interrupted() {
    while ENDING.load(SeqCst) {
        std::thread::park();
    }
}
