//! Optimistic node latch: a latch bit and a version in one word.
//!
//! Why: validating readers write nothing, so lookups scale with cores.
//! Source: OLFIT (Cha et al., VLDB 2001), §4 Fig. 4, node read (R1–R4) and node update (U1–U4).
//! Differs: node contents are relaxed atomics, since Rust (rightly) forbids racing plain reads; a waiter backs off and
//! then yields instead of spinning for ever.
//!
//! Invariants:
//! - L1: two different contents of a node never share a version. Versions only grow; a node's memory may be reused
//!   for another node, but its latch word is never reset.
//! - L2: at most one [`Exclusive`] exists per latch.
//! - L3 (debug builds): a thread that is about to block calls [`assert_none_held`]; it holds no latch.
//!
//! Proof: `tests/loom_latch.rs`, with each fence seeded away and caught.

use crate::seeded::seeded_bug;
use crate::sync::{AtomicU64, Backoff, Ordering::*, fence};

const LATCHED: u64 = 1;
const VERSION_STEP: u64 = 2;

/// What was read belongs to no single version, or the latch was taken: begin again. Control flow, never an error
/// that a user sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart;

/// The latch word of a node: bit 0 = latched, bits 1..64 = version. Eight bytes.
///
/// ```
/// use foreshore_base::NodeLatch;
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
///
/// let (latch, left, right) = (NodeLatch::new(), AtomicU64::new(10), AtomicU64::new(0));
/// // A writer.
/// let latched = latch.exclusive();
/// left.store(4, Relaxed);
/// right.store(6, Relaxed);
/// drop(latched);
/// // A reader: what it read counts if nobody wrote meanwhile.
/// let sum = loop {
///     let seen = latch.optimistic();
///     let sum = left.load(Relaxed) + right.load(Relaxed);
///     if seen.validate().is_ok() {
///         break sum;
///     }
/// };
/// assert_eq!(sum, 10);
/// ```
#[derive(Debug)]
#[repr(transparent)]
pub struct NodeLatch {
    word: AtomicU64,
}

impl Default for NodeLatch {
    fn default() -> Self {
        Self::new()
    }
}

impl NodeLatch {
    /// An open latch at version 0.
    pub fn new() -> Self {
        Self { word: AtomicU64::new(0) }
    }

    /// Uses a word of a node or frame as its latch. The word must be used as nothing else from then on.
    pub fn from_word(word: &AtomicU64) -> &Self {
        // SAFETY: `NodeLatch` is `repr(transparent)` over `AtomicU64`.
        unsafe { &*std::ptr::from_ref(word).cast::<Self>() }
    }

    /// Begins an optimistic read: waits until nobody holds the latch, and remembers the version.
    #[inline]
    pub fn optimistic(&self) -> Optimistic<'_> {
        let word = self.word.load(Acquire);
        if word & LATCHED == 0 {
            return Optimistic { latch: self, seen: word };
        }
        self.optimistic_contended()
    }

    #[cold]
    fn optimistic_contended(&self) -> Optimistic<'_> {
        let mut backoff = Backoff::new();
        loop {
            backoff.wait();
            let word = self.word.load(Acquire);
            if word & LATCHED == 0 {
                return Optimistic { latch: self, seen: word };
            }
        }
    }

    /// Begins an optimistic read unless somebody holds the latch.
    #[inline]
    pub fn try_optimistic(&self) -> Result<Optimistic<'_>, Restart> {
        let word = self.word.load(Acquire);
        if word & LATCHED == 0 { Ok(Optimistic { latch: self, seen: word }) } else { Err(Restart) }
    }

    /// Goes on with an optimistic read that began when the latch's [`word`](Self::word) was `seen`; `None` if somebody
    /// held the latch then.
    #[inline]
    pub fn optimistic_since(&self, seen: u64) -> Option<Optimistic<'_>> {
        (seen & LATCHED == 0).then_some(Optimistic { latch: self, seen })
    }

    /// Takes the latch, waiting for its holder.
    #[inline]
    pub fn exclusive(&self) -> Exclusive<'_> {
        let mut backoff = Backoff::new();
        loop {
            if let Some(guard) = self.try_exclusive() {
                return guard;
            }
            backoff.wait();
        }
    }

    /// Takes the latch if nobody holds it.
    #[inline]
    pub fn try_exclusive(&self) -> Option<Exclusive<'_>> {
        let word = self.look();
        if word & LATCHED != 0 {
            return None;
        }
        Optimistic { latch: self, seen: word }.upgrade().ok()
    }

    /// The word: who finds it the same later, and even, knows that nothing was changed in between (L1).
    #[inline]
    pub fn word(&self) -> u64 {
        self.word.load(Acquire)
    }

    /// The word without the latch bit: what it is once more when the latch, if it is held, is given back unchanged.
    #[inline]
    pub fn version(&self) -> u64 {
        self.word() & !LATCHED
    }

    /// Is the latch held right now? For assertions and tests only.
    pub fn is_latched(&self) -> bool {
        self.word.load(Relaxed) & LATCHED != 0
    }

    /// The word before a compare-exchange. Loom misses interleavings when a plain load precedes the
    /// compare-exchange on the same word, so there it is a read-modify-write.
    #[inline]
    fn look(&self) -> u64 {
        #[cfg(loom)]
        return self.word.fetch_add(0, Relaxed);
        #[cfg(not(loom))]
        self.word.load(Relaxed)
    }
}

/// An optimistic read in progress. Holds nothing; everything read through it counts only once [`validate`] says so.
///
/// [`validate`]: Optimistic::validate
#[derive(Clone, Copy, Debug)]
pub struct Optimistic<'a> {
    latch: &'a NodeLatch,
    seen: u64,
}

impl<'a> Optimistic<'a> {
    /// `Ok` if everything read since the beginning belongs to one version (L1).
    #[inline]
    pub fn validate(&self) -> Result<(), Restart> {
        // ORDERING: the node reads stay before this load. An Acquire load alone would let them sink below it.
        if !seeded_bug("latch_validate_fence") {
            fence(Acquire);
        }
        if self.latch.word.load(Relaxed) == self.seen { Ok(()) } else { Err(Restart) }
    }

    /// Takes the latch if the node still has the version seen: all that was read is then current.
    #[inline]
    pub fn upgrade(self) -> Result<Exclusive<'a>, Restart> {
        self.latch
            .word
            .compare_exchange(self.seen, self.seen | LATCHED, Acquire, Relaxed)
            .map_err(|_| Restart)?;
        // ORDERING: our Relaxed writes stay after the latched word; pairs with the fence in `validate`.
        if !seeded_bug("latch_upgrade_fence") {
            fence(Release);
        }
        held::taken();
        Ok(Exclusive { latch: self.latch, seen: self.seen })
    }
}

/// The right to change a node. Dropping it publishes a new version.
#[derive(Debug)]
pub struct Exclusive<'a> {
    latch: &'a NodeLatch,
    seen: u64,
}

impl Exclusive<'_> {
    /// Gives the latch back without a new version. Only if nothing was changed under it: readers in progress then
    /// need not begin again.
    pub fn release_unchanged(self) {
        self.latch.word.store(self.seen, Release);
        held::given_back();
        std::mem::forget(self);
    }
}

impl Drop for Exclusive<'_> {
    #[inline]
    fn drop(&mut self) {
        // ORDERING: Release, so whoever sees the new version sees all that was written under the latch.
        if seeded_bug("latch_release_order") {
            self.latch.word.store(self.seen.wrapping_add(VERSION_STEP), Relaxed);
        } else {
            self.latch.word.store(self.seen.wrapping_add(VERSION_STEP), Release);
        }
        held::given_back();
    }
}

/// Panics (debug builds) if this thread holds a latch. Call it before anything that may block: rule 1 in `ARCHITECTURE.md`.
#[inline]
pub fn assert_none_held(what: &str) {
    held::assert_none(what);
}

#[cfg(all(debug_assertions, not(any(loom, shuttle))))]
mod held {
    use std::cell::Cell;

    thread_local!(static HELD: Cell<i32> = const { Cell::new(0) });

    pub fn taken() {
        HELD.with(|h| h.set(h.get() + 1));
    }

    pub fn given_back() {
        HELD.with(|h| h.set(h.get() - 1));
    }

    pub fn assert_none(what: &str) {
        HELD.with(|h| assert_eq!(h.get(), 0, "rule 1: {what} while holding {} latch(es)", h.get()));
    }
}

#[cfg(not(all(debug_assertions, not(any(loom, shuttle)))))]
mod held {
    #[inline]
    pub fn taken() {}
    #[inline]
    pub fn given_back() {}
    #[inline]
    pub fn assert_none(_what: &str) {}
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_change_fails_validation_and_no_change_passes() {
        let latch = NodeLatch::new();
        let read = latch.optimistic();
        assert_eq!(read.validate(), Ok(()));
        latch.exclusive().release_unchanged();
        assert_eq!(read.validate(), Ok(()));
        drop(latch.exclusive());
        assert_eq!(read.validate(), Err(Restart));
        assert!(read.upgrade().is_err());
    }

    #[test]
    fn one_holder_at_a_time() {
        let latch = NodeLatch::new();
        let held = latch.try_exclusive().unwrap();
        assert!(latch.is_latched());
        assert!(latch.try_exclusive().is_none());
        assert!(latch.try_optimistic().is_err());
        drop(held);
        assert!(!latch.is_latched());
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "rule 1")]
    fn blocking_under_a_latch_is_caught() {
        let latch = NodeLatch::new();
        let _held = latch.exclusive();
        assert_none_held("waiting for the log");
    }
}
