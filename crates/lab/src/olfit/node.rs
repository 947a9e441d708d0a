//! The one node layout of all schemes, and what is done inside a node.
//!
//! ```text
//! word 0        level (upper half) | entries (lower half)
//! word 1        latch, version: LC, VN, OL
//! word 2        high key: OL                  word 3   link to the right: OL, B+ only
//! then          leaf: keys, values            inner, B+: separators, children (one more)
//!                                             inner, CSB+: group of the children, separators
//! ```
//!
//! A scheme that needs less header has room for more entries: that is Table 1 of OLFIT. An inner node of the CSB+-tree has
//! as many children as it has words for separators, though the first child needs none: so the paper counts.
//!
//! Invariant N1: child `i` holds the keys from separator `i - 1` on and below separator `i`.

use crate::olfit::arena::{Arena, NodeId, Worker};
use crate::olfit::{Family, Scheme, Tree};
use crate::probe::{Branch, Probe};
use std::ops::Range;
use std::sync::atomic::Ordering::*;

/// Words of the header, by position.
pub const SIZE: usize = 0;
pub const CONTROL: usize = 1;
pub const HIGH: usize = 2;
pub const LINK: usize = 3;

impl<S: Scheme, const W: usize, F: Family> Tree<S, W, F> {
    const HEADER: usize = S::HEADER + if S::LINKED && !F::GROUPED { 1 } else { 0 };
    /// Entries of a full leaf.
    pub const LEAF_MAX: usize = (W - Self::HEADER) / 2;
    /// Children of a full inner node.
    pub const INNER_MAX: usize =
        if F::GROUPED { W - Self::HEADER - 1 } else { (W - Self::HEADER).div_ceil(2) };
    const KEYS: usize = Self::HEADER;
    const VALUES: usize = Self::HEADER + Self::LEAF_MAX;
    /// Where an inner node's children are named: one by one, or the first of their group.
    const CHILDREN: usize = Self::HEADER + if F::GROUPED { 0 } else { Self::INNER_MAX - 1 };
    const SEPARATORS: usize = Self::HEADER + if F::GROUPED { 1 } else { 0 };

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

    /// How many of the `count` keys from word `keys` on are at most `key`: a binary search.
    #[inline(always)]
    fn rank<P: Probe>(
        &self,
        worker: &mut Worker<'_, P>,
        node: NodeId,
        keys: usize,
        count: usize,
        key: u32,
    ) -> usize {
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = (low + high) / 2;
            let right = self.load(worker, node, keys + middle) <= key;
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
        let slot = self.rank(worker, node, Self::SEPARATORS, count.saturating_sub(1), key);
        let at = Self::CHILDREN + if F::GROUPED { 0 } else { slot };
        worker.probe.load(Arena::<W>::address(node, at));
        // ORDERING: who follows a pointer to a version sees the version whole; pairs with `publish`.
        let child = self.arena.word(node, at).load(Acquire);
        // Under an optimistic read the word may be anything.
        (slot, if F::GROUPED { child.wrapping_add(slot as NodeId) } else { child })
    }

    /// Makes `child` the node's child number `slot`; in a CSB+-tree, its group the node's children.
    #[inline(always)]
    pub(super) fn publish<P: Probe>(
        &self,
        worker: &mut Worker<'_, P>,
        node: NodeId,
        slot: usize,
        child: NodeId,
    ) {
        let at = Self::CHILDREN + if F::GROUPED { 0 } else { slot };
        worker.probe.store(Arena::<W>::address(node, at));
        // ORDERING: see `child_for`.
        self.arena.word(node, at).store(Self::block(slot, child), Release);
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
        let rank = self.rank(worker, leaf, Self::KEYS, count, key);
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

    /// A key of a leaf, or a separator. For walks of a quiet tree.
    pub(super) fn key_at<P: Probe>(
        &self,
        worker: &mut Worker<'_, P>,
        node: NodeId,
        level: u32,
        slot: usize,
    ) -> u32 {
        self.load(worker, node, Self::keys(level) + slot)
    }

    /// Where the keys of nodes of this level begin.
    const fn keys(level: u32) -> usize {
        if level == 0 { Self::KEYS } else { Self::SEPARATORS }
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

    /// Puts `right`, whose least key is `separator`, behind child number `slot`. In a CSB+-tree it lies there already.
    pub(super) fn insert_child<P: Probe>(
        &self,
        worker: &mut Worker<'_, P>,
        node: NodeId,
        slot: usize,
        separator: u32,
        right: NodeId,
    ) {
        let (level, count) = self.size(worker, node);
        self.shift_right(worker, node, Self::SEPARATORS + slot, Self::SEPARATORS + count - 1);
        if !F::GROUPED {
            self.shift_right(worker, node, Self::CHILDREN + slot + 1, Self::CHILDREN + count);
        }
        self.store(worker, node, Self::SEPARATORS + slot, separator);
        if !F::GROUPED {
            self.publish(worker, node, slot + 1, right);
        }
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
        // The key below an inner node's first child goes up, or is dropped when the whole node is copied.
        let first_key = if level == 0 { from } else { from.max(1) - 1 };
        let separator = self.load(worker, node, Self::keys(level) + first_key);
        let keys = if level == 0 { from..count } else { from..count - 1 };
        self.copy_words(worker, (node, to), Self::keys(level), keys);
        match (level, F::GROUPED) {
            (0, _) => self.copy_words(worker, (node, to), Self::VALUES, from..count),
            (_, false) => self.copy_words(worker, (node, to), Self::CHILDREN, from..count),
            // There is one pointer for all.
            (_, true) => self.copy_words(worker, (node, to), Self::CHILDREN, 0..1),
        }
        self.set_size(worker, to, level, count - from);
        separator
    }

    /// Copies some words of an array that begins at word `array` to the array's beginning in another node.
    fn copy_words<P: Probe>(
        &self,
        worker: &mut Worker<'_, P>,
        (node, to): (NodeId, NodeId),
        array: usize,
        words: Range<usize>,
    ) {
        for (place, at) in words.enumerate() {
            let word = self.load(worker, node, array + at);
            self.store(worker, to, array + place, word);
        }
    }

    /// Moves the upper half of a full node to a fresh one; returns the least key of the fresh one. The probe is not told
    /// of an update: the insert that asked for room changes one of the halves next.
    ///
    /// In a CSB+-tree half of an inner node's children go to a group of their own: `move_nodes` is told which, and where
    /// that begins.
    pub(super) fn split_into<'t, P: Probe>(
        &self,
        worker: &mut Worker<'t, P>,
        node: NodeId,
        right: NodeId,
        move_nodes: impl FnOnce(&mut Worker<'t, P>, Range<NodeId>, NodeId),
    ) -> u32 {
        let (level, count) = self.size(worker, node);
        let separator = self.copy_upper(worker, node, count / 2, right);
        self.set_size(worker, node, level, count / 2);
        if F::GROUPED && level > 0 {
            let (from, to) = (self.load(worker, node, Self::CHILDREN), worker.allocate(&self.arena));
            move_nodes(worker, from + count as NodeId / 2..from + count as NodeId, to);
            self.publish(worker, right, 0, to);
        }
        separator
    }
}
