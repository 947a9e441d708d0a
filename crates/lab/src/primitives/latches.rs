//! Latches that one thread holds at a time: test-and-set, ticket, MCS, and the standard library's mutex.
//!
//! Source: Mellor-Crummey and Scott (TOCS 1991). Waiters of a test-and-set latch all write its line; waiters of a ticket
//! latch all read it; waiters of an MCS latch each watch a line of their own. Waiters yield now and then, since a thread
//! whose turn it is may not be running.

use crate::wait::until;
use crossbeam_utils::CachePadded;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};

/// Lets one thread at a time do something.
pub trait Latch: Sync {
    /// Its name on charts.
    const NAME: &str;
    /// One for threads `0..threads`.
    fn new(threads: usize) -> Self;
    /// Thread number `me` does `work` alone.
    fn with<R>(&self, me: usize, work: impl FnOnce() -> R) -> R;
}

/// Whoever finds the flag down puts it up.
pub struct TestAndSet(CachePadded<AtomicBool>);

impl Latch for TestAndSet {
    const NAME: &str = "test-and-set";

    fn new(_threads: usize) -> Self {
        Self(CachePadded::new(AtomicBool::new(false)))
    }

    fn with<R>(&self, _me: usize, work: impl FnOnce() -> R) -> R {
        until(|| !self.0.swap(true, Acquire));
        let result = work();
        self.0.store(false, Release);
        result
    }
}

/// First come, first served: take a number, wait until it is called.
pub struct Ticket {
    next: CachePadded<AtomicU32>,
    called: CachePadded<AtomicU32>,
}

impl Latch for Ticket {
    const NAME: &str = "ticket";

    fn new(_threads: usize) -> Self {
        Self { next: CachePadded::new(AtomicU32::new(0)), called: CachePadded::new(AtomicU32::new(0)) }
    }

    fn with<R>(&self, _me: usize, work: impl FnOnce() -> R) -> R {
        let mine = self.next.fetch_add(1, Relaxed);
        until(|| self.called.load(Acquire) == mine);
        let result = work();
        self.called.store(mine.wrapping_add(1), Release);
        result
    }
}

/// A queue of threads, each of which watches a line of its own.
pub struct Mcs {
    /// The last in the queue, plus one; 0 if nobody is there.
    tail: CachePadded<AtomicUsize>,
    places: Box<[CachePadded<Place>]>,
}

#[derive(Default)]
struct Place {
    /// Who comes next, plus one.
    next: AtomicUsize,
    waits: AtomicBool,
}

impl Latch for Mcs {
    const NAME: &str = "MCS";

    fn new(threads: usize) -> Self {
        let places = (0..threads).map(|_| CachePadded::new(Place::default())).collect();
        Self { tail: CachePadded::new(AtomicUsize::new(0)), places }
    }

    fn with<R>(&self, me: usize, work: impl FnOnce() -> R) -> R {
        let place = &self.places[me];
        place.next.store(0, Relaxed);
        place.waits.store(true, Relaxed);
        let before = self.tail.swap(me + 1, AcqRel);
        if before != 0 {
            self.places[before - 1].next.store(me + 1, Release);
            until(|| !place.waits.load(Acquire));
        }
        let result = work();
        if place.next.load(Acquire) == 0 {
            if self.tail.compare_exchange(me + 1, 0, Release, Relaxed).is_ok() {
                return result;
            }
            // Somebody is in the queue, and about to say so.
            until(|| place.next.load(Acquire) != 0);
        }
        self.places[place.next.load(Acquire) - 1].waits.store(false, Release);
        result
    }
}

/// The standard library's mutex: it sleeps.
pub struct StdMutex(CachePadded<Mutex<()>>);

impl Latch for StdMutex {
    const NAME: &str = "mutex";

    fn new(_threads: usize) -> Self {
        Self(CachePadded::new(Mutex::new(())))
    }

    fn with<R>(&self, _me: usize, work: impl FnOnce() -> R) -> R {
        let _held = self.0.lock().expect("no holder panics");
        work()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    /// Increments by load and store, which only exclusion keeps from being lost.
    fn excludes<L: Latch>() {
        const THREADS: usize = 3;
        let (latch, sum) = (L::new(THREADS), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for me in 0..THREADS {
                let (latch, sum) = (&latch, &sum);
                scope.spawn(move || {
                    for _ in 0..5_000 {
                        latch.with(me, || sum.store(sum.load(Relaxed) + 1, Relaxed));
                    }
                });
            }
        });
        assert_eq!(sum.into_inner(), 15_000, "{}", L::NAME);
    }

    #[test]
    fn one_holder_at_a_time() {
        excludes::<TestAndSet>();
        excludes::<Ticket>();
        excludes::<Mcs>();
        excludes::<StdMutex>();
    }
}
