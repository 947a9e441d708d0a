//! How writers tell the flushers that there is something to write, without a system call while they are busy.
//!
//! A busy flusher looks at `wanted` before it sleeps, so whoever finds it set, or finds nobody asleep, need not do
//! more. No timers: a flight starts when work is wanted and a flusher is free; while flights are under way, commits
//! gather.
//!
//! A flusher wakes tasks, which may run, and wait, right inside that call. It carries no flights meanwhile: before it waits there it
//! [leaves](Doorbell::leave), and the others count as all there are. If it is merely slow there, without saying so, the next
//! [reminder](Doorbell::remind) calls another one. What it was called for, and has not done yet, it mentions before.
//!
//! Who carries a flight of its own is no flusher: when that has landed, it reminds. So whoever finds all flights under way wakes nobody
//! ([`Doorbell::urge_unless`]): a flusher could only wait for one to land. No wish is forgotten: it is set before the look at the
//! flights, under their mutex; and whoever takes a flight out, under the mutex, looks at `wanted` later, reminding or answering.
//!
//! ORDERING: all of it is SeqCst. A writer reserves, then reads `wanted`; a flusher clears `wanted`, then reads
//! `reserved`. A writer that found `wanted` set is therefore seen by the flusher that clears it. And a writer that
//! finds nobody idle comes, in the one order, before the flusher that counts itself idle and then looks again. A writer that
//! still counts a leaving flusher comes before that flusher's look at `wanted`, which then calls another one.

use foreshore_base::sync::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use parking_lot::{Condvar, Mutex};

pub(super) struct Doorbell {
    /// Flushers that sleep, or will look at `wanted` by themselves: all but those that have left.
    present: AtomicUsize,
    wanted: AtomicBool,
    /// Flushers that sleep and that nobody called yet. Changed only under the mutex.
    idle: AtomicUsize,
    state: Mutex<State>,
    bell: Condvar,
}

#[derive(Default)]
struct State {
    stopped: bool,
    /// Calls that no sleeper has heard yet.
    calls: usize,
}

impl Doorbell {
    pub fn new(flushers: usize) -> Self {
        Self {
            present: AtomicUsize::new(flushers),
            wanted: AtomicBool::new(false),
            idle: AtomicUsize::new(0),
            state: Mutex::default(),
            bell: Condvar::new(),
        }
    }

    /// Somebody waits: wakes a flusher if one sleeps.
    pub fn urge(&self) {
        self.urge_unless(|| false);
    }

    /// The same, unless `is_watched` says, once the wish is set, that somebody is going to look at it by himself.
    pub fn urge_unless(&self, is_watched: impl FnOnce() -> bool) {
        if !self.wanted.load(SeqCst) {
            self.wanted.store(true, SeqCst);
        }
        if self.idle.load(SeqCst) > 0 && !is_watched() {
            self.call();
        }
    }

    /// Nobody waits: wakes a flusher only if all sleep. Otherwise a busy one comes to it after its flight.
    #[inline]
    pub fn mention(&self) {
        if !self.wanted.load(SeqCst) {
            self.wanted.store(true, SeqCst);
            if self.idle.load(SeqCst) == self.present.load(SeqCst) {
                self.call();
            }
        }
    }

    /// To be called now and then: a busy flusher may be long at a task that it wakes. Another one comes to what was mentioned. Also by
    /// who has carried a flight and does not look at what is wanted by itself.
    pub fn remind(&self) {
        if self.wanted.load(SeqCst) && self.idle.load(SeqCst) > 0 {
            self.call();
        }
    }

    #[cold]
    fn call(&self) {
        let mut state = self.state.lock();
        if self.idle.load(SeqCst) > 0 {
            self.idle.fetch_sub(1, SeqCst);
            state.calls += 1;
            drop(state);
            self.bell.notify_one();
        }
    }

    /// A flusher does not come for a while. Is none left that does?
    pub fn leave(&self) -> bool {
        let left = self.present.fetch_sub(1, SeqCst) - 1;
        self.remind();
        left == 0
    }

    /// It comes again, or there is one more.
    pub fn enter(&self) {
        self.present.fetch_add(1, SeqCst);
    }

    /// Sends every flusher home.
    pub fn stop(&self) {
        self.state.lock().stopped = true;
        self.bell.notify_all();
    }

    /// Sleeps until there is something to write (`true`) or the log stops (`false`).
    pub fn answer(&self) -> bool {
        let mut state = self.state.lock();
        loop {
            if state.stopped {
                return false;
            }
            if self.wanted.swap(false, SeqCst) {
                return true;
            }
            self.idle.fetch_add(1, SeqCst);
            if self.wanted.load(SeqCst) {
                self.idle.fetch_sub(1, SeqCst);
                continue;
            }
            while state.calls == 0 && !state.stopped {
                self.bell.wait(&mut state);
            }
            state.calls = state.calls.saturating_sub(1);
        }
    }

    /// How many flushers sleep.
    #[cfg(test)]
    pub fn idle(&self) -> usize {
        self.idle.load(SeqCst)
    }
}
