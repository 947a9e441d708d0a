//! The gate of a layer: updates pass it side by side; who closes the layer waits until they have left, and then nobody passes any more.
//!
//! Invariants:
//! - G1: while somebody is inside, the layer is open.
//! - G2: who leaves sees, when he looks whether the layer is empty, what all have removed that left before. So of those who empty a
//!   layer together the last one finds it empty.
//!
//! Proof: `loom_gate` in `foreshore-base`. This file stands alone (only `foreshore_base`), so that loom can check it without the trees.

use foreshore_base::rwx::Reader;
use foreshore_base::sync::{AtomicBool, Ordering::*, fence};
use foreshore_base::{RwxLock, seeded_bug};

/// See the module.
#[derive(Debug)]
pub struct Gate {
    /// Held, shared, by who is inside; alone, by who closes.
    lock: RwxLock,
    /// Changes under the lock.
    closed: AtomicBool,
}

impl Gate {
    /// An open one.
    pub fn new() -> Self {
        Self { lock: RwxLock::new(), closed: AtomicBool::new(false) }
    }

    /// Passes, unless it is closed. Who has passed is inside until he drops this.
    #[inline]
    pub fn enter(&self) -> Option<Reader<'_>> {
        let inside = self.lock.rlock();
        (!self.is_closed() || seeded_bug("layer_closed_not_asked")).then_some(inside)
    }

    /// Closes it if the layer is empty; says whether it is closed by this call. The caller is not inside.
    pub fn close_if(&self, is_empty: impl Fn() -> bool) -> bool {
        // ORDERING: Acquire: our own leaving read, from the lock's word, the Release of whoever left before us.
        if !seeded_bug("layer_leavers_not_seen") {
            fence(Acquire);
        }
        if !is_empty() {
            return false;
        }
        let mut alone = self.lock.wlock();
        alone.xlock();
        if self.is_closed() {
            return false;
        }
        // Again: what was empty before the gate was ours need not be now.
        if !is_empty() && !seeded_bug("layer_closed_with_keys") {
            return false;
        }
        self.closed.store(true, Relaxed);
        true
    }

    /// Asked inside, or by who only checks.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    /// Is somebody closing it right now? For checks only.
    pub fn is_held(&self) -> bool {
        self.lock.is_held()
    }
}
