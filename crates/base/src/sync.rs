//! The seam for model checkers: one import path for atomics, fences, locks and threads.
//!
//! - default build: `std` (locks: plain `std::sync`; the engine uses `parking_lot` where it blocks for long);
//! - `--cfg loom`: loom, which explores weak memory for latch-sized code;
//! - `--cfg shuttle`: shuttle, which explores schedules of whole structures, every atomic being `SeqCst`;
//! - `--cfg count_writes`: `std`, with every write to an atomic counted per thread (`counted`), which is how the
//!   tests show that a read writes nothing, and how the lines are found that threads share.

#[cfg(not(any(loom, shuttle)))]
mod imp {
    #[cfg(count_writes)]
    pub use super::counted::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
    pub use std::hint::spin_loop;
    #[cfg(not(count_writes))]
    pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
    pub use std::sync::atomic::{Ordering, fence};
    pub use std::sync::{Arc, Mutex, MutexGuard};
    pub use std::thread;
}

#[cfg(loom)]
mod imp {
    pub use loom::hint::spin_loop;
    pub use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub use loom::sync::{Arc, Mutex, MutexGuard};
    pub use loom::thread;
}

#[cfg(shuttle)]
mod imp {
    pub use shuttle::hint::spin_loop;
    pub use shuttle::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
    pub use shuttle::sync::{Arc, Mutex, MutexGuard};
    pub use shuttle::thread;

    /// Shuttle runs every atomic as `SeqCst`, so a fence has nothing to add.
    pub fn fence(_order: Ordering) {}
}

pub use imp::*;

#[cfg(count_writes)]
pub mod counted;

/// Waiting for another thread to leave a short critical section: doubles its pauses from 1 to 256, then yields.
///
/// A latch holder never waits for I/O, a lock or space, so a waiter that has paused 511 times waits for a thread that is
/// not running: it yields.
///
/// ```
/// use foreshore_base::sync::Backoff;
/// use std::sync::atomic::{AtomicBool, Ordering::*};
///
/// let ready = AtomicBool::new(false);
/// std::thread::scope(|s| {
///     s.spawn(|| ready.store(true, Release));
///     let mut backoff = Backoff::new();
///     while !ready.load(Acquire) {
///         backoff.wait();
///     }
/// });
/// ```
#[derive(Debug)]
pub struct Backoff {
    pauses: u32,
    longest: u32,
    spent: u32,
}

impl Backoff {
    /// Pauses are doubled until there are so many of them.
    const LONGEST: u32 = 256;
    /// After so many in all, others may run.
    const SPENT_MAX: u32 = 2 * Self::LONGEST - 1;

    /// A fresh back-off: its first wait is one pause.
    pub fn new() -> Self {
        Self { pauses: 1, longest: Self::LONGEST, spent: 0 }
    }

    /// The same with 4 pauses at most at a time, for what takes less than a microsecond and what few threads look at: a longer
    /// pause would be over late. (A pause is 20 to 70 ns.)
    pub fn brief() -> Self {
        Self { longest: 4, ..Self::new() }
    }

    /// Waits a little longer than the last time.
    pub fn wait(&mut self) {
        // A model checker explores schedules, not time: one yield says "someone else must run".
        if cfg!(any(loom, shuttle)) || self.spent >= Self::SPENT_MAX {
            thread::yield_now();
            return;
        }
        for _ in 0..self.pauses {
            spin_loop();
        }
        self.spent += self.pauses;
        self.pauses = self.longest.min(2 * self.pauses);
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new()
    }
}
