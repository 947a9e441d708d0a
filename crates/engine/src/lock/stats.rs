//! What the lock table counts. Only waits are counted, so the counters cost nothing where nobody waits. How long they took is
//! counted by table (`Tree::lock_waits`).

use foreshore_base::sync::{AtomicU64, Ordering::*};

/// Counters since the table was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LockStats {
    /// Requests that had to wait.
    pub waits: u64,
    /// Waits ended to break a deadlock.
    pub deadlocks: u64,
    /// Waits ended because patience was.
    pub timeouts: u64,
}

#[derive(Default)]
#[repr(align(128))]
pub(super) struct Counters {
    waits: AtomicU64,
    deadlocks: AtomicU64,
    timeouts: AtomicU64,
}

impl Counters {
    pub fn wait(&self) {
        self.waits.fetch_add(1, Relaxed);
    }

    pub fn deadlock(&self) {
        self.deadlocks.fetch_add(1, Relaxed);
    }

    pub fn timeout(&self) {
        self.timeouts.fetch_add(1, Relaxed);
    }

    pub fn read(&self) -> LockStats {
        LockStats {
            waits: self.waits.load(Relaxed),
            deadlocks: self.deadlocks.load(Relaxed),
            timeouts: self.timeouts.load(Relaxed),
        }
    }
}
