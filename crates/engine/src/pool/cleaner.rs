//! The thread that keeps frames and slots free, and how others ask it and wait for it.
//!
//! Source: Shore-MT §7.6, page cleaner.

use super::Pool;
use crate::error::Result;
use foreshore_base::sync::{AtomicBool, Ordering::*};
use parking_lot::{Condvar, Mutex};
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// Requests to the cleaner, and its progress.
#[derive(Default)]
pub(super) struct Pace {
    /// Somebody asked since the cleaner last looked. Only so that asking again is one load.
    asked: AtomicBool,
    state: Mutex<State>,
    request: Condvar,
    progress: Condvar,
}

#[derive(Default)]
struct State {
    running: bool,
    stop: bool,
    /// Rounds finished, successful or not.
    rounds: u64,
    last: Option<crate::Error>,
}

impl Pace {
    /// Calls the cleaner, if there is one.
    pub fn ask(&self) {
        if !self.asked.load(Relaxed) {
            let state = self.state.lock();
            self.asked.store(true, Relaxed);
            drop(state);
            self.request.notify_one();
        }
    }

    /// Rounds finished so far, and whether there is a cleaner to wait for.
    pub fn look(&self) -> (u64, bool) {
        let state = self.state.lock();
        (state.rounds, state.running)
    }

    /// Waits until more than `rounds` are finished. Errors: that of the last round.
    pub fn wait(&self, rounds: u64) -> Result<()> {
        self.ask();
        let mut state = self.state.lock();
        while state.rounds == rounds && state.running {
            self.progress.wait(&mut state);
        }
        state.last.clone().map_or(Ok(()), Err)
    }

    /// A round is over.
    pub fn finished(&self, result: Result<()>) {
        let mut state = self.state.lock();
        state.rounds += 1;
        state.last = result.err();
        drop(state);
        self.progress.notify_all();
    }

    /// Waits until somebody asks. `false` if it is time to stop.
    fn next(&self) -> bool {
        let mut state = self.state.lock();
        while !self.asked.load(Relaxed) && !state.stop {
            self.request.wait(&mut state);
        }
        self.asked.store(false, Relaxed);
        !state.stop
    }

    fn stopping(&self) -> bool {
        self.state.lock().stop
    }

    fn set_running(&self, running: bool) {
        let mut state = self.state.lock();
        (state.running, state.stop) = (running, false);
        drop(state);
        self.progress.notify_all();
    }

    fn stop(&self) {
        self.state.lock().stop = true;
        self.request.notify_one();
    }
}

/// The running cleaner. Stops when dropped, without flushing.
pub(crate) struct Cleaner {
    pool: Arc<Pool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Cleaner {
    /// Starts the thread. Errors: the system has none left.
    pub fn start(pool: Arc<Pool>) -> io::Result<Self> {
        pool.pace.set_running(true);
        let its = Arc::clone(&pool);
        let run = move || {
            // Also when this thread panics: nobody may wait for it for ever.
            let _running = Running(&its);
            while its.pace.next() {
                keep_frames_free(&its);
            }
        };
        let thread = thread::Builder::new().name("foreshore-cleaner".into()).spawn(run);
        match thread {
            Ok(thread) => Ok(Self { pool, thread: Mutex::new(Some(thread)) }),
            Err(error) => {
                pool.pace.set_running(false);
                Err(error)
            }
        }
    }

    /// Stops the thread, and waits for its end, without flushing. The second call does nothing.
    pub fn stop(&self) {
        self.pool.pace.stop();
        if let Some(thread) = self.thread.lock().take() {
            // A panic of the cleaner has been reported on its own thread; the pool works on without it.
            let _ = thread.join();
        }
    }
}

struct Running<'a>(&'a Pool);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.pace.set_running(false);
    }
}

/// Rounds until enough frames are free, and slots, and few of the dead are not buried. Ends at a failure: who needs a frame next, or
/// frees a page, asks again. And else with time: a round that does not fail buries, or nothing was dead.
fn keep_frames_free(pool: &Pool) {
    pool.grow_ahead();
    loop {
        let result = pool.reclaim();
        let has_enough = pool.free.is_high() && !pool.are_dead_many();
        let rest = result.is_err() || has_enough || pool.pace.stopping();
        pool.pace.finished(result);
        if rest {
            return;
        }
        thread::yield_now();
    }
}

impl Drop for Cleaner {
    fn drop(&mut self) {
        self.stop();
    }
}
