//! A value behind a node latch.
//!
//! Latches of this module are the last in the order: they may be taken under a leaf latch, and nothing is waited for
//! under them, except that a bucket's holder may take a seat's.

use crate::stage;
use foreshore_base::{Exclusive, NodeLatch};
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

/// See the module.
#[derive(Default)]
pub(super) struct Latched<T> {
    latch: NodeLatch,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a `Guard`, and there is one at a time (L2 of the latch).
unsafe impl<T: Send> Sync for Latched<T> {}

/// The right to use the value; dropping it unlatches.
pub(super) struct Guard<'a, T> {
    value: &'a UnsafeCell<T>,
    _latch: Exclusive<'a>,
    _old: stage::Guard,
}

impl<T> Latched<T> {
    #[inline]
    pub fn latch(&self) -> Guard<'_, T> {
        let _old = stage::enter(stage::Old::Keys);
        Guard { _latch: self.latch.exclusive(), value: &self.value, _old }
    }

    /// Changes whenever somebody has latched it.
    #[cfg(test)]
    pub fn version(&self) -> u64 {
        self.latch.version()
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard holds the latch.
        unsafe { &*self.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard holds the latch, and is borrowed exclusively.
        unsafe { &mut *self.value.get() }
    }
}
