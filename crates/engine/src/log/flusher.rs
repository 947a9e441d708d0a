//! A flusher: a thread that sends flights on their way.
//!
//! A flusher wakes the tasks whose commits have landed, and a task may go on right there. What it waits for then may take a flight,
//! whoever asks for that: so before it waits, the flusher leaves the flights to others, and if there is no other one, to a new one.

use super::Shared;
use crate::waits::before_our_own_waits;
use std::cell::{Cell, OnceCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::task::Waker;

thread_local! {
    /// Of which log this thread is a flusher.
    static LOG: OnceCell<Weak<Shared>> = const { OnceCell::new() };
    /// Has it left the flights to others?
    static HAS_LEFT: Cell<bool> = const { Cell::new(false) };
}

fn log() -> Option<Arc<Shared>> {
    LOG.with(|log| log.get().and_then(Weak::upgrade))
}

fn leave() {
    if let Some(log) = log() {
        HAS_LEFT.set(true);
        log.leave_flights();
    }
}

/// Wakes a task, which may go on right here.
pub(super) fn wake_task(task: Waker) {
    // That is not our code. If it panics, those behind it are woken all the same, and the log goes on.
    let _ = catch_unwind(AssertUnwindSafe(|| before_our_own_waits(leave, || task.wake())));
    if HAS_LEFT.take()
        && let Some(log) = log()
    {
        log.flights.doorbell.enter();
    }
}

/// Sends flights on their way until the log stops. A failure stops it.
pub(super) fn run(shared: &Arc<Shared>) {
    let _ = LOG.with(|log| log.set(Arc::downgrade(shared)));
    while shared.flights.doorbell.answer() {
        if let Err(e) = shared.fly_next() {
            shared.fail(&e);
        }
    }
    shared.flights.wake_in_vain();
}
