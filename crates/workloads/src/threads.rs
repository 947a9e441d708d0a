//! Threads that begin together, or not at all.
//!
//! The system may refuse to start one: processes are limited, and so is memory. Those that were started must not wait for it.

use crate::kv::BenchError;
use std::sync::{Condvar, Mutex};
use std::thread::{self, Builder, Scope, ScopedJoinHandle};

/// Where threads wait for each other, and for who starts them.
pub(crate) struct Gate {
    threads: usize,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// So many have not come yet.
    missing: usize,
    /// One of them never will.
    is_off: bool,
}

impl Gate {
    /// For so many threads, and for who [starts](start) them.
    pub fn new(threads: usize) -> Self {
        let state = Mutex::new(State { missing: threads + 1, is_off: false });
        Self { threads, state, changed: Condvar::new() }
    }

    /// Waits for all others; says whether they come.
    pub fn pass(&self) -> bool {
        let mut state = self.state.lock().expect("nobody panics here");
        state.missing -= 1;
        if state.missing == 0 {
            self.changed.notify_all();
        }
        let waits = |state: &mut State| state.missing > 0 && !state.is_off;
        !self.changed.wait_while(state, waits).expect("nobody panics here").is_off
    }

    fn call_off(&self) {
        self.state.lock().expect("nobody panics here").is_off = true;
        self.changed.notify_all();
    }
}

/// Starts the threads of a gate, and passes it. `work(thread)` makes what a thread does: it must come to the gate, and does
/// nothing that counts before or if it does not pass.
///
/// Errors: [`BenchError::Usage`] if the system refuses a thread; then none passes.
pub(crate) fn start<'scope, T: Send + 'scope, W: FnOnce() -> T + Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    gate: &Gate,
    work: impl FnMut(u64) -> W,
) -> Result<Vec<ScopedJoinHandle<'scope, T>>, BenchError> {
    start_by(|_| Builder::new(), scope, gate, work)
}

fn start_by<'scope, T: Send + 'scope, W: FnOnce() -> T + Send + 'scope>(
    builder: impl Fn(u64) -> Builder,
    scope: &'scope Scope<'scope, '_>,
    gate: &Gate,
    mut work: impl FnMut(u64) -> W,
) -> Result<Vec<ScopedJoinHandle<'scope, T>>, BenchError> {
    let threads: Result<Vec<_>, _> = (0..gate.threads as u64)
        .map(|thread| {
            builder(thread).spawn_scoped(scope, work(thread)).map_err(|error| {
                let all = gate.threads;
                BenchError::Usage(format!("--threads: the system starts only {thread} of {all}: {error}"))
            })
        })
        .collect();
    match threads {
        Ok(_) => _ = gate.pass(),
        Err(_) => gate.call_off(),
    }
    threads
}

/// Runs `work` on so many threads, each of which is told its number; returns what they return, in this order.
///
/// Errors: as of [`start`].
pub(crate) fn run<T: Send>(threads: usize, work: impl Fn(u64) -> T + Sync) -> Result<Vec<T>, BenchError> {
    let (gate, work) = (&Gate::new(threads), &work);
    thread::scope(|scope| {
        let threads = start(scope, gate, |thread| move || gate.pass().then(|| work(thread)))?;
        let outcome = |thread: ScopedJoinHandle<'_, Option<T>>| thread.join().expect("it does not panic");
        Ok(threads.into_iter().filter_map(outcome).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    /// More than an address space holds: no thread gets such a stack.
    const STACK_BYTES: usize = 1 << 60;

    #[test]
    fn nobody_waits_for_a_thread_that_is_not_started() {
        let (sender, ended) = mpsc::channel();
        thread::spawn(move || {
            let gate = &Gate::new(4);
            let (told, passed) = mpsc::channel();
            let outcome = thread::scope(|scope| {
                let builder = |thread| match thread {
                    2 => Builder::new().stack_size(STACK_BYTES),
                    _ => Builder::new(),
                };
                let work = |_| {
                    let told = told.clone();
                    move || told.send(gate.pass())
                };
                start_by(builder, scope, gate, work).map(drop)
            });
            drop(told);
            sender.send((outcome, passed.iter().collect::<Vec<_>>())).expect("the test waits for it");
        });
        let (outcome, passed) = ended.recv_timeout(Duration::from_secs(60)).expect("it ends");
        assert_eq!(passed, [false, false]);
        match outcome {
            Err(BenchError::Usage(what)) => {
                assert!(what.starts_with("--threads: the system starts only 2 of 4: "), "{what}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn all_threads_begin_once_all_are_there() {
        assert_eq!(run(5, |thread| thread * 2).unwrap(), [0, 2, 4, 6, 8]);
    }
}
