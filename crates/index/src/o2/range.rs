//! Scans in both directions, along the links between leaf blocks.
//!
//! A cursor holds a pin and a key, no latch. It copies one block whole at a time and hands out the copies. The
//! neighbour that the block named is used if it is (still) the one that the next key belongs to, else the cursor
//! descends again: blocks merge, and boundaries move to both sides.
//!
//! Invariants:
//! - C1: entries come in strictly rising (falling) order, none twice.
//! - C2: a key that is in the tree during the whole scan, inside its bounds, is handed out.
//! - C3: a neighbour's address was read from a living block under the pin, so it died, if at all, after that (O1).

use super::leaf::Leaf;
use super::scheme::Scheme;
use super::{Tree, leaf_at};
use crate::reclaim::Pin;
use crate::search::Lane;
use std::ops::Bound;

/// Upwards.
pub struct Forward<'t, L: Lane, const F: usize, S: Scheme> {
    tree: &'t Tree<L, F, S>,
    pin: Pin,
    /// Entries not yet read are at or above this key, or only above it; `None`: there are none.
    from: Option<(L, Edge)>,
    /// The block to try first, 0 = none (C3).
    leaf: u64,
    end: Bound<L>,
    batch: Vec<(L, u64)>,
    /// What of the batch was handed out.
    next: usize,
}

/// Does the key itself count?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Edge {
    Included,
    Excluded,
}

/// Asks the block that was named, if it is the one that `key` belongs to, or else the tree.
#[inline]
fn at<'g, L: Lane, const F: usize, S: Scheme, R>(
    tree: &Tree<L, F, S>,
    named: u64,
    key: L,
    pin: &'g Pin,
    mut read: impl FnMut(&'g Leaf<L, F>) -> R,
) -> R {
    if named != 0 {
        #[cfg(shuttle)]
        super::header_at(super::node::Child::leaf(named), pin);
        let answer = S::read(tree, leaf_at(named, pin), |leaf| leaf.covers(key).then(|| read(leaf)));
        if let Some(answer) = answer {
            return answer;
        }
    }
    S::in_leaf(tree, key, pin, read)
}

impl<'t, L: Lane, const F: usize, S: Scheme> Forward<'t, L, F, S> {
    pub fn new(tree: &'t Tree<L, F, S>, (start, end): (Bound<L>, Bound<L>)) -> Self {
        let from = match start {
            Bound::Included(key) => (key, Edge::Included),
            Bound::Excluded(key) => (key, Edge::Excluded),
            Bound::Unbounded => (L::MIN, Edge::Included),
        };
        Self { tree, pin: Pin::new(), from: Some(from), leaf: 0, end, batch: Vec::new(), next: 0 }
    }

    /// Copies blocks until there is an entry, or no block.
    #[inline(never)]
    fn refill(&mut self) -> bool {
        while let Some((from, edge)) = self.from {
            let batch = &mut self.batch;
            let (next, high) = at(self.tree, self.leaf, from, &self.pin, |leaf| {
                batch.clear();
                Leaf::<L, F>::prefetch(leaf.next());
                leaf.copy(leaf.rank(from), leaf.header.count(), batch);
                // The rank counts the key itself; included, it is the one entry before.
                if edge == Edge::Included
                    && let Some(value) = leaf.get(from)
                {
                    batch.insert(0, (from, value));
                }
                (leaf.next(), leaf.high())
            });
            self.leaf = next;
            self.from = (next != 0).then_some((high, Edge::Included));
            self.cut();
            if !self.batch.is_empty() {
                return true;
            }
        }
        false
    }

    /// Cuts the batch at the upper bound; beyond it there is no next block.
    fn cut(&mut self) {
        self.next = 0;
        let above = |key: L| match self.end {
            Bound::Included(end) => key > end,
            Bound::Excluded(end) => key >= end,
            Bound::Unbounded => false,
        };
        self.from = self.from.filter(|(from, _)| !above(*from));
        if self.batch.last().is_some_and(|(last, _)| above(*last)) {
            self.batch.truncate(self.batch.partition_point(|(key, _)| !above(*key)));
        }
    }
}

impl<L: Lane, const F: usize, S: Scheme> Iterator for Forward<'_, L, F, S> {
    type Item = (L, u64);

    #[inline]
    fn next(&mut self) -> Option<(L, u64)> {
        if self.next == self.batch.len() && !self.refill() {
            return None;
        }
        self.next += 1;
        Some(self.batch[self.next - 1])
    }
}

/// Downwards.
pub struct Backward<'t, L: Lane, const F: usize, S: Scheme> {
    tree: &'t Tree<L, F, S>,
    pin: Pin,
    /// Entries not yet read are at or below this key; `None`: there are none.
    from: Option<L>,
    /// The block to try first, 0 = none (C3).
    leaf: u64,
    start: Bound<L>,
    /// Entries not yet handed out, the next one last.
    batch: Vec<(L, u64)>,
}

impl<'t, L: Lane, const F: usize, S: Scheme> Backward<'t, L, F, S> {
    pub fn new(tree: &'t Tree<L, F, S>, (start, end): (Bound<L>, Bound<L>)) -> Self {
        let from = match end {
            Bound::Included(key) => Some(key),
            Bound::Excluded(key) => key.before(),
            Bound::Unbounded => Some(L::MAX),
        };
        Self { tree, pin: Pin::new(), from, leaf: 0, start, batch: Vec::new() }
    }

    #[inline(never)]
    fn refill(&mut self) -> bool {
        while let Some(from) = self.from {
            let batch = &mut self.batch;
            let (prev, low) = at(self.tree, self.leaf, from, &self.pin, |leaf| {
                batch.clear();
                Leaf::<L, F>::prefetch(leaf.prev());
                leaf.copy(0, leaf.rank(from), batch);
                (leaf.prev(), leaf.low())
            });
            self.leaf = prev;
            self.from = low.before();
            self.cut();
            if !self.batch.is_empty() {
                return true;
            }
        }
        false
    }

    /// Cuts the batch at the lower bound; below it there is no next block.
    fn cut(&mut self) {
        let below = |key: L| match self.start {
            Bound::Included(start) => key < start,
            Bound::Excluded(start) => key <= start,
            Bound::Unbounded => false,
        };
        self.from = self.from.filter(|from| !below(*from));
        if self.batch.first().is_some_and(|(first, _)| below(*first)) {
            self.batch.drain(..self.batch.partition_point(|(key, _)| below(*key)));
        }
    }
}

impl<L: Lane, const F: usize, S: Scheme> Iterator for Backward<'_, L, F, S> {
    type Item = (L, u64);

    #[inline]
    fn next(&mut self) -> Option<(L, u64)> {
        if self.batch.is_empty() && !self.refill() {
            return None;
        }
        self.batch.pop()
    }
}
