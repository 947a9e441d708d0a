//! Scans in both directions.
//!
//! A cursor holds a pin, a key and a place, no latch. It copies one leaf whole per validation and hands out the copies.
//! Forwards it goes from place to place: the next one is never to the right of what continues the last leaf (M2, M3),
//! and what it meets of the past on the way lies below its key. Backwards it looks for the leaf below the last one's
//! lower end.
//!
//! Invariants:
//! - C1: entries come in strictly rising (falling) order, none twice.
//! - C2: a key that is in the tree during the whole scan, inside its bounds, is handed out.

use super::group::Address;
use super::node::Words;
use super::{At, Csb, prefetch};
use crate::node::int::IntKey;
use crate::reclaim::Pin;
use crate::search::Lane;
use std::ops::{Bound, RangeBounds};

/// Closed bounds; `None` if nothing can lie between them.
fn closed<K: IntKey>(bounds: &impl RangeBounds<K>) -> Option<(K::Lane, K::Lane)> {
    let first = match bounds.start_bound() {
        Bound::Included(key) => key.to_lane(),
        Bound::Excluded(key) => key.to_lane().after()?,
        Bound::Unbounded => K::Lane::MIN,
    };
    let last = match bounds.end_bound() {
        Bound::Included(key) => key.to_lane(),
        Bound::Excluded(key) => key.to_lane().before()?,
        Bound::Unbounded => K::Lane::MAX,
    };
    (first <= last).then_some((first, last))
}

/// Entries copied from one leaf, and what of them is left.
struct Batch<L> {
    entries: Vec<(L, u64)>,
    next: usize,
    end: usize,
}

impl<L: Lane> Batch<L> {
    fn new() -> Self {
        Self { entries: Vec::new(), next: 0, end: 0 }
    }

    fn is_empty(&self) -> bool {
        self.next == self.end
    }
}

/// Upwards.
pub(crate) struct Forward<'t, K: IntKey, const F: usize> {
    tree: &'t Csb<K, F>,
    pin: Pin,
    /// Entries not yet read are at or above this key.
    from: K::Lane,
    last: K::Lane,
    /// The place to read next, not to the right of `from`; `None`: there are no more. Usable under `pin` (R2 in `reclaim.rs`).
    place: Option<(Address, usize)>,
    batch: Batch<K::Lane>,
}

impl<'t, K: IntKey, const F: usize> Forward<'t, K, F> {
    pub fn new(tree: &'t Csb<K, F>, bounds: &impl RangeBounds<K>) -> Self {
        let pin = Pin::new();
        let bounds = closed(bounds);
        let place = bounds.map(|(from, _)| {
            let (at, _) = tree.descend::<Words<F>>(0, from, &pin);
            (at.group.address(), at.slot)
        });
        let (from, last) = bounds.unwrap_or((K::Lane::MIN, K::Lane::MIN));
        Self { tree, pin, from, last, place, batch: Batch::new() }
    }

    /// Copies leaves until there is an entry, or no leaf.
    #[inline(never)]
    fn refill(&mut self) -> bool {
        while let Some((group, slot)) = self.place {
            let at = At::<K, Words<F>, F>::new(group, slot, &self.pin);
            let entries = &mut self.batch.entries;
            prefetch::<K, Words<F>, F>(group, slot + 1);
            let from = self.from;
            let high = self.tree.read(at, |leaf| {
                entries.clear();
                // A leaf left of `from` has nothing for us, nor has a closed one.
                if leaf.place(from).is_some() {
                    let below = from.before().and_then(|before| leaf.place(before)).unwrap_or(0);
                    leaf.copy(below, leaf.count(), entries);
                }
                (!leaf.is_open_ended()).then(|| leaf.high())
            });
            self.place = match high {
                Some(high) if high <= self.last => {
                    self.from = self.from.max(high);
                    let next = self.tree.hop(at, &self.pin);
                    Some((next.group.address(), next.slot))
                }
                _ => None,
            };
            let end = self.batch.entries.partition_point(|(lane, _)| *lane <= self.last);
            (self.batch.next, self.batch.end) = (0, end);
            if end > 0 {
                return true;
            }
        }
        false
    }

    /// The next entry.
    #[inline]
    pub fn next(&mut self) -> Option<(K, u64)> {
        if self.batch.is_empty() && !self.refill() {
            return None;
        }
        let (lane, word) = self.batch.entries[self.batch.next];
        self.batch.next += 1;
        Some((K::from_lane(lane), word))
    }
}

/// Downwards.
pub(crate) struct Backward<'t, K: IntKey, const F: usize> {
    tree: &'t Csb<K, F>,
    pin: Pin,
    first: K::Lane,
    /// Entries not yet read are at or below this key; `None`: there are no more.
    from: Option<K::Lane>,
    batch: Batch<K::Lane>,
}

impl<'t, K: IntKey, const F: usize> Backward<'t, K, F> {
    pub fn new(tree: &'t Csb<K, F>, bounds: &impl RangeBounds<K>) -> Self {
        let (first, from) = closed(bounds).map_or((K::Lane::MIN, None), |(first, last)| (first, Some(last)));
        Self { tree, pin: Pin::new(), first, from, batch: Batch::new() }
    }

    #[inline(never)]
    fn refill(&mut self) -> bool {
        while let Some(from) = self.from {
            let entries = &mut self.batch.entries;
            let (_, low) = self.tree.within::<Words<F>, _>(0, from, &self.pin, |at, rank| {
                entries.clear();
                at.node().copy(0, rank, entries);
            });
            // The lower end may have gone down meanwhile: then the first entry is the end of what was read.
            let low = entries.first().map_or(low, |(lane, _)| low.min(*lane));
            self.from = low.before().filter(|before| *before >= self.first);
            let start = entries.partition_point(|(lane, _)| *lane < self.first);
            (self.batch.next, self.batch.end) = (start, entries.len());
            if !self.batch.is_empty() {
                return true;
            }
        }
        false
    }

    /// The next entry, downwards.
    #[inline]
    pub fn next(&mut self) -> Option<(K, u64)> {
        if self.batch.is_empty() && !self.refill() {
            return None;
        }
        self.batch.end -= 1;
        let (lane, word) = self.batch.entries[self.batch.end];
        Some((K::from_lane(lane), word))
    }
}
