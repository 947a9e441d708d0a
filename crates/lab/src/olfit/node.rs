//! The one node layout of all schemes, and what is done inside a node.
//!
//! ```text
//! word 0        level (upper half) | entries (lower half)
//! word 1        latch, version: LC, VN, OL
//! word 2, 3     high key, link to the right: OL
//! then          leaf:  keys, values             inner:  separators, children (one more)
//! ```
//!
//! A scheme that needs less header has room for more entries: that is Table 1 of OLFIT.
//!
//! Invariant N1: child `i` holds the keys from separator `i - 1` on and below separator `i`.

use crate::olfit::Scheme;
use crate::olfit::Tree;
use crate::olfit::arena::{Arena, NodeId, Worker};
use crate::probe::{Branch, Probe};
use std::sync::atomic::Ordering::*;

/// Words of the header, by position.
pub const SIZE: usize = 0;
pub const CONTROL: usize = 1;
pub const HIGH: usize = 2;
pub const LINK: usize = 3;

/// Entries of a leaf of `words` words.
pub const fn leaf_max(words: usize, header: usize) -> usize {
    (words - header) / 2
}

/// Children of an inner node of `words` words: a separator less than children.
pub const fn inner_max(words: usize, header: usize) -> usize {
    (words - header).div_ceil(2)
}

impl<S: Scheme, const W: usize> Tree<S, W> {
    /// Entries of a full leaf.
    pub const LEAF_MAX: usize = leaf_max(W, S::HEADER);
    /// Children of a full inner node.
    pub const INNER_MAX: usize = inner_max(W, S::HEADER);
    const KEYS: usize = S::HEADER;
    const VALUES: usize = S::HEADER + Self::LEAF_MAX;
    const CHILDREN: usize = S::HEADER + Self::INNER_MAX - 1;

    #[inline(always)]
    pub(super) fn load<P: Probe>(&self, worker: &mut Worker<'_, P>, node: NodeId, at: usize) -> u32 {
        worker.probe.load(Arena::<W>::address(node, at));
        self.arena.word(node, at).load(Relaxed)
    }

    #[inline(always)]
    pub(super) fn store<P: Probe>(&self, worker: &mut Worker<'_, P>, node: NodeId, at: usize, word: u32) {
        worker.probe.store(Arena::<W>::address(node, at));
        self.arena.word(node, at).store(word, Relaxed);
    }

    /// Level and number of entries. Under an optimistic read the number may be anything; `rank` and the callers cap it.
    #[inline(always)]
    pub(super) fn size<P: Probe>(&self, worker: &mut Worker<'_, P>, node: NodeId) -> (u32, usize) {
        let word = self.load(worker, node, SIZE);
        let level = word >> 16;
        let most = if level == 0 { Self::LEAF_MAX } else { Self::INNER_MAX };
        (level, ((word & 0xFFFF) as usize).min(most))
    }

    #[inline(always)]
    pub(super) fn set_size<P: Probe>(
        &self,
        worker: &mut Worker<'_, P>,
        node: NodeId,
        level: u32,
        count: usize,
    ) {
        self.store(worker, node, SIZE, level << 16 | count as u32);
    }

    pub(super) fn is_full<P: Probe>(&self, worker: &mut Worker<'_, P>, node: NodeId) -> bool {
        let (level, count) = self.size(worker, node);
        count == if level == 0 { Self::LEAF_MAX } else { Self::INNER_MAX }
    }

    /// How many of the first `count` keys are at most `key`: a binary search.
    #[inline(always)]
    fn rank<P: Probe>(&self, worker: &mut Worker<'_, P>, node: NodeId, count: usize, key: u32) -> usize {
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = (low + high) / 2;
            let right = self.load(worker, node, Self::KEYS + middle) <= key;
            worker.probe.branch(Branch::Bisect, right);
            if right {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The child that covers `key`, and its place.
    #[inline(always)]
    pub(super) fn child_for<P: Probe>(
        &self,
        worker: &mut Worker<'_, P>,
        node: NodeId,
        count: usize,
        key: u32,
    ) -> (usize, NodeId) {
        let slot = self.rank(worker, node, count.saturating_sub(1), key);
        worker.probe.load(Arena::<W>::address(node, Self::CHILDREN + slot));
        // ORDERING: who follows a pointer to a version sees the version whole; pairs with `publish`.
        (slot, self.arena.word(node, Self::CHILDREN + slot).load(Acquire))
    }

    /// Makes `child` the node's child number `slot`.
    #[inline(always)]
    pub(super) fn publish<P: Probe>(
        &self,
        worker: &mut Worker<'_, P>,
        node: NodeId,
        slot: usize,
        child: NodeId,
    ) {
        worker.probe.store(Arena::<W>::address(node, Self::CHILDREN + slot));
        // ORDERING: see `child_for`.
        self.arena.word(node, Self::CHILDREN + slot).store(child, Release);
    }

    /// Where `key` is among a leaf's entries, or where it would be.
    #[inline(always)]
    pub(super) fn find<P: Probe>(
        &self,
        worker: &mut Worker<'_, P>,
        leaf: NodeId,
        count: usize,
        key: u32,
    ) -> Result<usize, usize> {
        let rank = self.rank(worker, leaf, count, key);
        if rank > 0 && self.load(worker, leaf, Self::KEYS + rank - 1) == key {
            Ok(rank - 1)
        } else {
            Err(rank)
        }
    }

    #[inline(always)]
    pub(super) fn value<P: Probe>(&self, worker: &mut Worker<'_, P>, leaf: NodeId, slot: usize) -> u32 {
        self.load(worker, leaf, Self::VALUES + slot)
    }

    /// Key and value, in an inner node separator and child, at a place. For walks of a quiet tree.
    pub(super) fn entry<P: Probe>(
        &self,
        worker: &mut Worker<'_, P>,
        leaf: NodeId,
        slot: usize,
    ) -> (u32, u32) {
        (self.load(worker, leaf, Self::KEYS + slot), self.value(worker, leaf, slot))
    }

    /// Shifts words `from..to` of a node by one to the right.
    fn shift_right<P: Probe>(&self, worker: &mut Worker<'_, P>, node: NodeId, from: usize, to: usize) {
        for at in (from..to).rev() {
            let word = self.load(worker, node, at);
            self.store(worker, node, at + 1, word);
        }
    }

    pub(super) fn insert_at<P: Probe>(
        &self,
        worker: &mut Worker<'_, P>,
        leaf: NodeId,
        slot: usize,
        key: u32,
        value: u32,
    ) {
        let (level, count) = self.size(worker, leaf);
        self.shift_right(worker, leaf, Self::KEYS + slot, Self::KEYS + count);
        self.shift_right(worker, leaf, Self::VALUES + slot, Self::VALUES + count);
        self.store(worker, leaf, Self::KEYS + slot, key);
        self.store(worker, leaf, Self::VALUES + slot, value);
        self.set_size(worker, leaf, level, count + 1);
        worker.probe.updated(0);
    }

    pub(super) fn remove_at<P: Probe>(&self, worker: &mut Worker<'_, P>, leaf: NodeId, slot: usize) {
        let (level, count) = self.size(worker, leaf);
        for array in [Self::KEYS, Self::VALUES] {
            for at in array + slot..array + count - 1 {
                let word = self.load(worker, leaf, at + 1);
                self.store(worker, leaf, at, word);
            }
        }
        self.set_size(worker, leaf, level, count - 1);
        worker.probe.updated(0);
    }

    /// Puts `right`, whose least key is `separator`, behind child number `slot`.
    pub(super) fn insert_child<P: Probe>(
        &self,
        worker: &mut Worker<'_, P>,
        node: NodeId,
        slot: usize,
        separator: u32,
        right: NodeId,
    ) {
        let (level, count) = self.size(worker, node);
        self.shift_right(worker, node, Self::KEYS + slot, Self::KEYS + count - 1);
        self.shift_right(worker, node, Self::CHILDREN + slot + 1, Self::CHILDREN + count);
        self.store(worker, node, Self::KEYS + slot, separator);
        self.publish(worker, node, slot + 1, right);
        self.set_size(worker, node, level, count + 1);
        worker.probe.updated(level);
    }

    /// Makes a fresh node an inner node with one child.
    pub(super) fn init_inner<P: Probe>(
        &self,
        worker: &mut Worker<'_, P>,
        node: NodeId,
        level: u32,
        child: NodeId,
    ) {
        self.publish(worker, node, 0, child);
        self.set_size(worker, node, level, 1);
        worker.probe.updated(level);
    }

    /// Copies entries `from..` of a node to the beginning of a fresh one; the separator between them is returned.
    pub(super) fn copy_upper<P: Probe>(
        &self,
        worker: &mut Worker<'_, P>,
        node: NodeId,
        from: usize,
        to: NodeId,
    ) -> u32 {
        let (level, count) = self.size(worker, node);
        let (second, first_key) =
            if level == 0 { (Self::VALUES, from) } else { (Self::CHILDREN, from.max(1) - 1) };
        // The key below an inner node's first child goes up, or is dropped when the whole node is copied.
        let separator = self.load(worker, node, Self::KEYS + first_key);
        let keys = if level == 0 { from..count } else { from..count - 1 };
        for (place, at) in keys.enumerate() {
            let word = self.load(worker, node, Self::KEYS + at);
            self.store(worker, to, Self::KEYS + place, word);
        }
        for (place, at) in (from..count).enumerate() {
            let word = self.load(worker, node, second + at);
            self.store(worker, to, second + place, word);
        }
        self.set_size(worker, to, level, count - from);
        separator
    }

    /// Moves the upper half of a full node to a fresh one; returns the least key of the fresh one. The probe is not told
    /// of an update: the insert that asked for room changes one of the halves next.
    pub(super) fn split_into<P: Probe>(
        &self,
        worker: &mut Worker<'_, P>,
        node: NodeId,
        right: NodeId,
    ) -> u32 {
        let (level, count) = self.size(worker, node);
        let separator = self.copy_upper(worker, node, count / 2, right);
        self.set_size(worker, node, level, count / 2);
        separator
    }
}
