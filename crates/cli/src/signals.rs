//! What ends a command from outside: signals, and a reader that leaves.

use crate::failure::{Failure, Outcome};
use std::io;

/// Calls `handler` on SIGINT, SIGTERM and SIGHUP; not on a SIGHUP that is to be ignored, which is what `nohup` asks for.
///
/// Errors: the system's, if signals cannot be caught.
pub fn catch(handler: impl FnMut() + 'static + Send) -> Outcome {
    let is_ignored = ignore_hangup() == libc::SIG_IGN;
    ctrlc::set_handler(handler).map_err(|error| Failure::io("catching signals", &io::Error::other(error)))?;
    if is_ignored {
        ignore_hangup();
    }
    Ok(())
}

/// Returns what was done on a SIGHUP before.
fn ignore_hangup() -> libc::sighandler_t {
    // SAFETY: to ignore a signal names no code, which would have to be fit to run at any time.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) }
}

/// Has whoever read our output gone (`foreshore stats --watch | head -1`)? Who writes finds out anyway.
pub fn reader_is_gone() -> bool {
    let mut stdout = libc::pollfd { fd: libc::STDOUT_FILENO, events: 0, revents: 0 };
    // SAFETY: it is one `pollfd`, and the call, which does not wait, keeps nothing.
    let found = unsafe { libc::poll(&mut stdout, 1, 0) };
    found > 0 && stdout.revents & (libc::POLLERR | libc::POLLHUP) != 0
}
