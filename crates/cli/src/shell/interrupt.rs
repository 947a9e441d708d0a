//! Ctrl-C while a command of the shell runs: the command stops, the shell and its transaction go on.
//!
//! At the prompt Ctrl-C is a key that the line editor reads, so a signal comes from elsewhere (`kill`, a terminal that is
//! gone) and ends the shell. While a command runs, the first one stops the command. Shortly before and behind that, and where
//! nothing can be edited (`TERM=dumb`), the terminal makes a signal of the key: it has dropped the line, and the first one does
//! no more.

use crate::failure::{Failure, Outcome};
use crate::scratch::INTERRUPTED;
use crate::signals::{self, Terminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

const AT_PROMPT: u8 = 0;
const RUNNING: u8 = 1;
const STOPPING: u8 = 2;
/// At the prompt, after a signal that may have been a key.
const WARNED: u8 = 3;

/// What the shell is doing, as the signal's handler sees it.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<AtomicU8>);

impl Interrupt {
    /// Hears signals from now on. What a command does not heed, a second one ends together with the shell.
    ///
    /// Errors: the system's, if signals cannot be caught.
    pub fn listen(&self) -> Outcome {
        let (doing, terminal) = (self.clone(), Terminal::now());
        signals::catch(move || {
            let moves = |from, to| doing.0.compare_exchange(from, to, Relaxed, Relaxed).is_ok();
            let is_warned = || Terminal::now().makes_signals() && moves(AT_PROMPT, WARNED);
            if !moves(RUNNING, STOPPING) && !is_warned() {
                terminal.put_back();
                std::process::exit(INTERRUPTED);
            }
        })
    }

    /// Runs a command that a signal may stop.
    pub fn during<T>(&self, command: impl FnOnce() -> T) -> T {
        self.0.store(RUNNING, Relaxed);
        let done = command();
        self.0.store(AT_PROMPT, Relaxed);
        done
    }

    /// Between two rows or two lines: is it time to stop?
    ///
    /// Errors: usage, if it is.
    pub fn heed(&self) -> Outcome {
        if self.0.load(Relaxed) == STOPPING { Err(Failure::usage("interrupted")) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::print::Mode;
    use crate::shell::session::Session;
    use foreshore::Database;

    /// What walks rows stops; what was done before stays, in the transaction that is open.
    #[test]
    fn an_interrupted_walk_ends_and_its_transaction_goes_on() {
        let mut session = Session::new(Database::in_memory().unwrap(), Mode::Json);
        for line in ["begin", "put t a 1"] {
            session.line(line).unwrap();
        }
        session.interrupt().0.store(STOPPING, Relaxed);
        for line in ["scan t", "prefix t a", "count t"] {
            assert_eq!(session.line(line).unwrap_err().to_string(), "interrupted", "{line}");
        }
        assert!(session.is_in_transaction());
        session.interrupt().during(|| ());
        for line in ["commit", "get t a", "count t"] {
            session.line(line).unwrap();
        }
    }
}
