//! The threads of the log and of the upkeep, which must not die silently: others wait for what they do.

use crate::error::{Error, Result};
use parking_lot::Mutex;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, JoinHandle};

/// See the module.
#[derive(Default)]
pub(crate) struct Threads(Mutex<Vec<JoinHandle<()>>>);

thread_local! {
    static OURS: Cell<bool> = const { Cell::new(false) };
}

/// Is this one of these threads, of any database? Tasks are woken by them alone, and may call the engine there.
pub(crate) fn is_of_an_engine() -> bool {
    OURS.get()
}

impl Threads {
    /// Starts one. If its `work` panics it does `then`, so that nobody waits for what it would have done.
    ///
    /// Errors: the system has no thread left.
    pub fn start(
        &self,
        name: &str,
        work: impl FnOnce() + Send + 'static,
        then: impl FnOnce() + Send + 'static,
    ) -> Result<()> {
        let run = move || {
            OURS.set(true);
            catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| then())
        };
        let thread = thread::Builder::new().name(name.to_string()).spawn(run);
        let thread = thread.map_err(|e| Error::io(format!("starting the thread {name}"), &e))?;
        self.0.lock().push(thread);
        Ok(())
    }

    /// Waits for the ends of all, which have been told to stop, also of those that one of them starts meanwhile.
    pub fn join(&self) {
        loop {
            let threads = std::mem::take(&mut *self.0.lock());
            if threads.is_empty() {
                return;
            }
            for thread in threads {
                let _ = thread.join(); // its panic, if there was one, has been dealt with
            }
        }
    }

    /// The same, perhaps called by one of them, which has nothing more to do then, and ends by itself.
    pub fn join_others(&self) {
        let own = thread::current().id();
        self.0.lock().retain(|thread| thread.thread().id() != own);
        self.join();
    }
}
