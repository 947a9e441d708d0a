//! References to one thing whose counters lie in different cache lines.
//!
//! Why: every transaction and every snapshot keeps the database open, by a reference. With one counter each beginning and
//! each end would write a line that all cores share, and that lies beside what they read all the time: two threads of short
//! snapshots were hardly faster than one.
//! How: a counter of its own for each of some groups of threads, in front of the common one, which changes only when a
//! group's last reference goes. Differs from `Arc` in that one more pointer is followed.

use crossbeam_utils::CachePadded;
use foreshore_base::sync::AtomicUsize;
use foreshore_base::sync::Ordering::Relaxed;
use std::ops::Deref;
use std::sync::Arc;

/// Counters of one thing.
const STRIPES: usize = 16;

/// The references that others are made from. While it lives, so does what they refer to.
pub(crate) struct Spread<T>([Held<T>; STRIPES]);

/// One reference.
pub(crate) struct Held<T>(Arc<CachePadded<Arc<T>>>);

impl<T> Spread<T> {
    pub fn new(to: &Arc<T>) -> Self {
        Self(std::array::from_fn(|_| Held::from(to.clone())))
    }

    /// One more reference. Whichever thread gives it back, its counter is the one that this thread usually writes.
    #[inline]
    pub fn hold(&self) -> Held<T> {
        self.0[stripe()].clone()
    }
}

impl<T> From<Arc<T>> for Held<T> {
    /// A reference with a counter of its own.
    fn from(to: Arc<T>) -> Self {
        Self(Arc::new(CachePadded::new(to)))
    }
}

impl<T> Clone for Held<T> {
    #[inline]
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Deref for Held<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// The group of this thread, and the counter that it writes: threads take them by turns.
#[inline]
pub(crate) fn stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: usize = NEXT.fetch_add(1, Relaxed) % STRIPES;
    }
    // A thread that is ending may still begin a transaction, in a destructor of its own.
    MINE.try_with(|mine| *mine).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is referred to goes with the last reference, in whatever order they go.
    #[test]
    fn the_last_reference_counts() {
        let thing = Arc::new(());
        let there = Arc::downgrade(&thing);
        let spread = Spread::new(&thing);
        let elsewhere = std::thread::scope(|scope| scope.spawn(|| spread.hold()).join().unwrap());
        let here = spread.hold();
        drop((thing, spread, here));
        assert!(there.upgrade().is_some(), "one reference is left");
        drop(elsewhere);
        assert!(there.upgrade().is_none());
    }
}
