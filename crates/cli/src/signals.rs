//! What ends a command from outside: signals, and a reader that leaves.

use crate::failure::{Failure, Outcome};
use std::io;
use std::mem::MaybeUninit;

/// Calls `handler` on SIGINT, SIGTERM and SIGHUP; not on one that is to be ignored: `nohup` asks for that, and a script's shell for
/// what it runs in the background.
///
/// Errors: the system's, if signals cannot be caught.
pub fn catch(handler: impl FnMut() + 'static + Send) -> Outcome {
    let was_ignored = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].map(|signal| (signal, ignore(signal)));
    ctrlc::set_handler(handler).map_err(|error| Failure::io("catching signals", &io::Error::other(error)))?;
    for (signal, before) in was_ignored {
        if before == libc::SIG_IGN {
            ignore(signal);
        }
    }
    Ok(())
}

/// Returns what was done on this signal before.
fn ignore(signal: libc::c_int) -> libc::sighandler_t {
    // SAFETY: to ignore a signal names no code, which would have to be fit to run at any time.
    unsafe { libc::signal(signal, libc::SIG_IGN) }
}

/// How the terminal was, for who ends the process while a line is being edited there.
pub struct Terminal(Option<libc::termios>);

impl Terminal {
    /// As it is now; nothing if stdin is none.
    pub fn now() -> Self {
        let mut modes = MaybeUninit::uninit();
        // SAFETY: the call writes one `termios`, keeps nothing, and says whether it has written it.
        let is_one = unsafe { libc::tcgetattr(libc::STDIN_FILENO, modes.as_mut_ptr()) } == 0;
        // SAFETY: it is only looked at if it was written.
        Self(is_one.then(|| unsafe { modes.assume_init() }))
    }

    /// Does Ctrl-C become a signal there, and no key that is read?
    pub fn makes_signals(&self) -> bool {
        self.0.is_some_and(|modes| modes.c_lflag & libc::ISIG != 0)
    }

    /// What is typed becomes neither a signal nor a line, stops no output, and is not shown, until it is
    /// [put back](Self::put_back).
    fn take_bytes(&self) {
        let takes_bytes = self.0.map(|mut modes| {
            modes.c_lflag &= !(libc::ISIG | libc::ICANON | libc::ECHO);
            modes.c_iflag &= !libc::IXON;
            modes
        });
        Self(takes_bytes).put_back();
    }

    /// Makes it what it was.
    pub fn put_back(&self) {
        if let Some(modes) = &self.0 {
            // SAFETY: the call reads one `termios`, and keeps nothing.
            unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, modes) };
        }
    }
}

/// Drops what has been typed and not read, and what follows it at once: the rest of what is pasted, whatever keys are in it.
pub fn drop_typed() {
    const PAUSE_MS: libc::c_int = 100;
    let terminal = Terminal::now();
    terminal.take_bytes();
    loop {
        let mut stdin = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
        // SAFETY: the first call keeps nothing; the second reads and writes one `pollfd`, and keeps nothing.
        let found = unsafe {
            libc::tcflush(libc::STDIN_FILENO, libc::TCIFLUSH);
            libc::poll(&mut stdin, 1, PAUSE_MS)
        };
        if found <= 0 || stdin.revents != libc::POLLIN {
            break;
        }
    }
    terminal.put_back();
}

/// Has whoever read our output gone (`foreshore stats --watch | head -1`)? Who writes finds out anyway.
pub fn reader_is_gone() -> bool {
    let mut stdout = libc::pollfd { fd: libc::STDOUT_FILENO, events: 0, revents: 0 };
    // SAFETY: it is one `pollfd`, and the call, which does not wait, keeps nothing.
    let found = unsafe { libc::poll(&mut stdout, 1, 0) };
    found > 0 && stdout.revents & (libc::POLLERR | libc::POLLHUP) != 0
}
