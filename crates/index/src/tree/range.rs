//! Scans in both directions.
//!
//! A cursor holds a pin and a key, no latch. It copies one leaf whole per validation and hands out the copies.
//! Forwards it follows links: the next leaf covers the last one's upper end, now or behind its own link (N4 in `node/mod.rs`).
//! Backwards there are no links: it looks for the leaf below the last one's lower end.
//!
//! Invariants:
//! - C1: entries come in strictly rising (falling) order, none twice.
//! - C2: a key that is in the tree during the whole scan, inside its bounds, is handed out.

use super::{Tree, hop_low, node_at};
use crate::node::{Batch, Bias, Node, Place};
use crate::reclaim::Pin;
use foreshore_base::Restart;
use std::borrow::Borrow;
use std::ops::Bound;

/// From where to where.
pub(crate) type Bounds<K> = (Bound<K>, Bound<K>);

impl<N: Node> Tree<N> {
    /// The leaf that a scan begins at. Asks for the keys of the one after it as well, whose link would come a miss later.
    fn first_leaf<'g>(&self, key: &N::Key, pin: &'g Pin) -> &'g N {
        if self.root(pin).header().level() == 0 {
            return self.descend(key, Bias::AtMost, 0, pin);
        }
        let mut node = self.descend(key, Bias::AtMost, 1, pin);
        loop {
            let (next, down) = self.read(node, |seen| {
                Ok(match node.place(key, Bias::AtMost, seen)? {
                    Place::Beyond => (node.header().link(), false),
                    Place::Rank(rank, _) => {
                        let child = rank.saturating_sub(1);
                        node.prefetch_child_from(rank, key);
                        if child + 1 < node.header().count() {
                            N::prefetch_keys(
                                std::ptr::with_exposed_provenance(node.word(child + 1) as usize),
                            );
                        }
                        (node.word(child), true)
                    }
                })
            });
            node = node_at(next, pin);
            if down {
                return node;
            }
        }
    }
}

/// Upwards.
pub(crate) struct Forward<'t, N: Node> {
    tree: &'t Tree<N>,
    pin: Pin,
    /// Entries not yet read are at (`Below`) or above (`AtMost`) this key.
    from: N::Owned,
    bias: Bias,
    /// The leaf to read next: its range does not begin above `from`. 0 = none. Usable under `pin` (R2 in `reclaim.rs`).
    leaf: u64,
    end: Bound<N::Owned>,
    batch: Taken<N>,
}

/// The last batch, and what of it is left.
struct Taken<N: Node> {
    entries: N::Batch,
    next: usize,
    end: usize,
}

impl<N: Node> Taken<N> {
    fn none() -> Self {
        Self { entries: N::Batch::default(), next: 0, end: 0 }
    }
}

/// Is `key` above the upper bound?
fn above<K: Ord + ?Sized>(key: &K, end: &Bound<impl Borrow<K>>) -> bool {
    match end {
        Bound::Included(end) => key > end.borrow(),
        Bound::Excluded(end) => key >= end.borrow(),
        Bound::Unbounded => false,
    }
}

/// Is `key` below the lower bound?
fn below<K: Ord + ?Sized>(key: &K, start: &Bound<impl Borrow<K>>) -> bool {
    match start {
        Bound::Included(start) => key < start.borrow(),
        Bound::Excluded(start) => key <= start.borrow(),
        Bound::Unbounded => false,
    }
}

/// What a leaf says about the rest of a forward scan.
struct Next<N: Node> {
    leaf: u64,
    low: Option<N::Owned>,
}

impl<'t, N: Node> Forward<'t, N> {
    pub fn new(tree: &'t Tree<N>, (start, end): Bounds<N::Owned>) -> Self {
        let pin = Pin::new();
        let (from, bias) = match start {
            Bound::Included(key) => (key, Bias::Below),
            Bound::Excluded(key) => (key, Bias::AtMost),
            Bound::Unbounded => (N::least(), Bias::Below),
        };
        let leaf = super::address_of(tree.first_leaf(from.borrow(), &pin));
        Self { tree, pin, from, bias, leaf, end, batch: Taken::none() }
    }

    /// Copies leaves until there is an entry, or no leaf.
    #[inline(never)]
    fn refill(&mut self) -> bool {
        while self.leaf != 0 {
            let leaf: &N = node_at(self.leaf, &self.pin);
            let Next { leaf: next, low } = self.tree.read(leaf, |seen| {
                let entries = &mut self.batch.entries;
                entries.clear();
                let link = leaf.header().link();
                let next = std::ptr::with_exposed_provenance(link as usize);
                N::prefetch_keys(next);
                // An excluded start that is this leaf's upper end leaves nothing here, whatever its rank.
                if let Place::Rank(rank, _) = leaf.place(self.from.borrow(), self.bias, seen)? {
                    leaf.copy(rank, leaf.header().count(), seen, entries)?;
                }
                // Not before: a processor waits for a dozen lines at a time, and would do nothing else.
                N::prefetch_words(next);
                let low = if link == 0 { None } else { hop_low(leaf, seen)? };
                Ok(Next::<N> { leaf: link, low })
            });
            self.leaf = next;
            // A leaf that we met only because it lies left of `from` does not move us back.
            if let Some(low) = low
                && Borrow::<N::Key>::borrow(&low) > self.from.borrow()
            {
                (self.from, self.bias) = (low, Bias::Below);
            }
            self.take_batch();
            if self.batch.next < self.batch.end {
                return true;
            }
        }
        false
    }

    /// Cuts the batch at the upper bound; beyond it there is no next leaf.
    fn take_batch(&mut self) {
        let entries = &self.batch.entries;
        let mut end = entries.len();
        if end > 0 && above(entries.key(end - 1), &self.end) {
            end = partition_point(end, |i| !above(entries.key(i), &self.end));
            self.leaf = 0;
        } else if above(self.from.borrow(), &self.end) {
            self.leaf = 0;
        }
        (self.batch.next, self.batch.end) = (0, end);
    }

    /// The next entry.
    #[inline]
    pub fn next(&mut self) -> Option<(&N::Key, u64)> {
        if self.batch.next == self.batch.end && !self.refill() {
            return None;
        }
        let i = self.batch.next;
        self.batch.next += 1;
        Some((self.batch.entries.key(i), self.batch.entries.word(i)))
    }
}

/// The number of leading indexes below `len` for which `holds`.
fn partition_point(len: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut from, mut to) = (0, len);
    while from < to {
        let middle = from.midpoint(to);
        if holds(middle) { from = middle + 1 } else { to = middle }
    }
    from
}

/// Downwards.
pub(crate) struct Backward<'t, N: Node> {
    tree: &'t Tree<N>,
    pin: Pin,
    /// Entries not yet read are at (`AtMost`) or below (`Below`) this key; `None`: there are none. The highest key of
    /// all has no name among byte strings, so a scan without an upper bound begins at the rightmost leaf.
    from: Option<Start<N>>,
    start: Bound<N::Owned>,
    batch: Taken<N>,
}

/// Where a backward scan goes on.
enum Start<N: Node> {
    Rightmost,
    Key(N::Owned, Bias),
}

impl<'t, N: Node> Backward<'t, N> {
    pub fn new(tree: &'t Tree<N>, (start, end): Bounds<N::Owned>) -> Self {
        let from = match end {
            Bound::Included(key) => Start::Key(key, Bias::AtMost),
            Bound::Excluded(key) => Start::Key(key, Bias::Below),
            Bound::Unbounded => Start::Rightmost,
        };
        Self { tree, pin: Pin::new(), from: Some(from), start, batch: Taken::none() }
    }

    #[inline(never)]
    fn refill(&mut self) -> bool {
        while let Some(from) = self.from.take() {
            let low = match &from {
                Start::Rightmost => self.copy_rightmost(),
                Start::Key(key, bias) => self.copy_below(key, *bias),
            };
            let entries = &self.batch.entries;
            let first = (entries.len() > 0).then(|| N::own(entries.key(0)));
            // The lower end may have gone down (T3): then the first entry is the end of what was read.
            let low = match (low, first) {
                (Some(low), Some(first)) if first.borrow() < low.borrow() => Some(first),
                (low, _) => low,
            };
            self.from =
                low.filter(|low| !below(low.borrow(), &self.start)).map(|low| Start::Key(low, Bias::Below));
            let len = entries.len();
            let next = partition_point(len, |i| below(entries.key(i), &self.start));
            (self.batch.next, self.batch.end) = (next, len);
            if next < len {
                return true;
            }
        }
        false
    }

    /// Copies what is at or below `key` in its leaf; returns a lower end of that leaf.
    fn copy_below(&mut self, key: &N::Owned, bias: Bias) -> Option<N::Owned> {
        loop {
            let (leaf, low) = self.tree.locate(key.borrow(), bias, 0, &self.pin);
            let copied = self.tree.read(leaf, |seen| {
                self.batch.entries.clear();
                let Place::Rank(rank, _) = leaf.place(key.borrow(), bias, seen)? else { return Ok(false) };
                leaf.copy(0, rank, seen, &mut self.batch.entries)?;
                Ok(true)
            });
            if copied {
                return low;
            }
        }
    }

    /// Copies the last leaf; returns a lower end of it.
    fn copy_rightmost(&mut self) -> Option<N::Owned> {
        let mut node = self.tree.root(&self.pin);
        let mut low = None;
        loop {
            let (next, from) = self.tree.read(node, |seen| {
                self.batch.entries.clear();
                let count = node.header().count();
                let link = node.header().link();
                Ok(if link != 0 {
                    (link, hop_low(node, seen)?)
                } else if node.header().level() > 0 {
                    let last = count.checked_sub(1).ok_or(Restart)?;
                    (node.word(last), (last > 0).then(|| node.key(last, seen)).transpose()?)
                } else {
                    node.copy(0, count, seen, &mut self.batch.entries)?;
                    (0, None)
                })
            });
            low = from.or(low);
            if next == 0 {
                return low;
            }
            node = node_at(next, &self.pin);
        }
    }

    /// The next entry, downwards.
    #[inline]
    pub fn next(&mut self) -> Option<(&N::Key, u64)> {
        if self.batch.next == self.batch.end && !self.refill() {
            return None;
        }
        self.batch.end -= 1;
        let i = self.batch.end;
        Some((self.batch.entries.key(i), self.batch.entries.word(i)))
    }
}
