//! Reserving room in a log: under a latch, by one atomic addition, or for a whole group at once.
//!
//! Source: Shore-MT §6.2.4 (a mutex, then a queue lock around the position) and Aether (Johnson et al., VLDB 2010), whose
//! consolidation lets threads that meet at the latch add up their sizes, so that one of them reserves for all.
//!
//! Differs: consolidation has one slot instead of an array, since nobody here uses more than a few threads; a group that
//! nobody joined costs two atomic steps more than the latch alone.

use crate::primitives::latches::{Latch, Mcs};
use crate::wait::until;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU64, Ordering::*};

/// Hands out ranges of a log, one after the other.
pub trait Reservation: Sync {
    /// Its name on charts.
    const NAME: &str;
    /// For threads `0..threads`.
    fn new(threads: usize) -> Self;
    /// Where thread `me` may write so many bytes.
    fn reserve(&self, me: usize, bytes: u64) -> u64;
    /// All that was handed out.
    fn position(&self) -> u64;
}

/// A position under a latch.
pub struct Latched<L> {
    latch: L,
    position: CachePadded<AtomicU64>,
}

impl<L: Latch> Reservation for Latched<L> {
    const NAME: &str = L::NAME;

    fn new(threads: usize) -> Self {
        Self { latch: L::new(threads), position: CachePadded::new(AtomicU64::new(0)) }
    }

    fn reserve(&self, me: usize, bytes: u64) -> u64 {
        self.latch.with(me, || {
            let at = self.position.load(Relaxed);
            self.position.store(at + bytes, Relaxed);
            at
        })
    }

    fn position(&self) -> u64 {
        self.position.load(Relaxed)
    }
}

/// One atomic addition: what Foreshore's log does.
pub struct FetchAdd(CachePadded<AtomicU64>);

impl Reservation for FetchAdd {
    const NAME: &str = "fetch-and-add";

    fn new(_threads: usize) -> Self {
        Self(CachePadded::new(AtomicU64::new(0)))
    }

    fn reserve(&self, _me: usize, bytes: u64) -> u64 {
        self.0.fetch_add(bytes, Relaxed)
    }

    fn position(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A slot where threads meet: the first goes for the latch and reserves for all who have joined by the time it has it. The
/// last to learn where the group's range begins opens the slot again; until then, others use the latch alone.
pub struct Consolidation {
    latched: Latched<Mcs>,
    /// Bytes of those who joined, or [`NONE`]: closed.
    joined: CachePadded<AtomicU64>,
    /// Where the closed group's range begins, or [`NONE`]: not reserved yet.
    begin: CachePadded<AtomicU64>,
    /// Bytes of those who do not know it yet.
    left: AtomicU64,
}

const NONE: u64 = u64::MAX;

impl Reservation for Consolidation {
    const NAME: &str = "consolidation";

    fn new(threads: usize) -> Self {
        Self {
            latched: Latched::new(threads),
            joined: CachePadded::new(AtomicU64::new(0)),
            begin: CachePadded::new(AtomicU64::new(NONE)),
            left: AtomicU64::new(0),
        }
    }

    fn reserve(&self, me: usize, bytes: u64) -> u64 {
        let before = self.joined.load(Relaxed);
        if before == NONE || self.joined.compare_exchange(before, before + bytes, AcqRel, Relaxed).is_err() {
            return self.latched.reserve(me, bytes);
        }
        if before == 0 {
            self.reserve_for_all(me);
        }
        until(|| self.begin.load(Acquire) != NONE);
        let at = self.begin.load(Acquire) + before;
        if self.left.fetch_sub(bytes, AcqRel) == bytes {
            self.begin.store(NONE, Relaxed);
            self.joined.store(0, Release);
        }
        at
    }

    fn position(&self) -> u64 {
        self.latched.position()
    }
}

impl Consolidation {
    fn reserve_for_all(&self, me: usize) {
        self.latched.latch.with(me, || {
            let all = self.joined.swap(NONE, AcqRel);
            let begin = self.latched.position.load(Relaxed);
            self.latched.position.store(begin + all, Relaxed);
            self.left.store(all, Relaxed);
            // ORDERING: who sees where the range begins sees how much of it is left.
            self.begin.store(begin, Release);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::latches::{StdMutex, TestAndSet, Ticket};
    use foreshore_workloads::random::Random;

    /// The ranges of all threads tile the log: none overlaps, none is missing.
    fn tiles<R: Reservation>() {
        const THREADS: usize = 3;
        let log = R::new(THREADS);
        let mut ranges: Vec<(u64, u64)> = std::thread::scope(|scope| {
            let thread = |me| {
                let log = &log;
                scope.spawn(move || {
                    let mut random = Random::new(7, me as u64);
                    let mut reserve = |_| {
                        let bytes = 1 + random.below(100);
                        (log.reserve(me, bytes), bytes)
                    };
                    (0..4_000).map(&mut reserve).collect::<Vec<_>>()
                })
            };
            let threads: Vec<_> = (0..THREADS).map(thread).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("no thread panics")).collect()
        });
        ranges.sort_unstable();
        let end = ranges.iter().try_fold(0, |end, &(at, bytes)| (at == end).then_some(at + bytes));
        assert_eq!(end, Some(log.position()), "{}", R::NAME);
    }

    #[test]
    fn reservations_tile_the_log() {
        tiles::<Latched<StdMutex>>();
        tiles::<Latched<TestAndSet>>();
        tiles::<Latched<Ticket>>();
        tiles::<Latched<Mcs>>();
        tiles::<FetchAdd>();
        tiles::<Consolidation>();
    }
}
