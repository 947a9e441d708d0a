//! Leaves: keys in an array of their own behind the words, found by the head of their block.
//!
//! Why: a search reads keys alone, 8 or 16 to a line; one line of words follows.
//!
//! Heads lead to where a key is to be expected, and to no block before its own: they rise as keys do, but keys near each other
//! may have the same. So a search that finds its block to begin above the key goes back.

use super::{IntKey, IntNode, LINE_BYTES, Line};
use crate::node::Node;
use crate::node::scale::{HEAD_MAX, Number};
use crate::pooled::{self, Pooled};
use crate::search::{Lane, rank_in_run};
use foreshore_base::prefetch::prefetch_lines;
use foreshore_base::{Restart, seeded_bug};
use std::mem::offset_of;

/// A node of level 0.
#[repr(C, align(64))]
pub(super) struct IntLeaf<K: IntKey, const F: usize> {
    node: IntNode<K, F>,
    keys: Line<[<K::Lane as Lane>::Cell; F]>,
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<IntLeaf<u64, 64>>() == 17 * 64);

impl<K: IntKey, const F: usize> Pooled for IntLeaf<K, F> {
    const SHELF: usize =
        if IntNode::<K, F>::HALVES { pooled::LEAVES_OF_HALVES } else { pooled::LEAVES_OF_WORDS };

    fn vacant() -> Self {
        let keys = Line(std::array::from_fn(|_| K::Lane::MAX.cell()));
        Self { node: IntNode::vacant_at(0), keys }
    }

    #[cfg(shuttle)]
    fn pooled(&self) -> &std::sync::atomic::AtomicBool {
        &self.node.header.pooled
    }
}

impl<K: IntKey, const F: usize> IntNode<K, F> {
    /// The keys of a leaf; `None` above the leaves.
    #[inline(always)]
    pub(super) fn keys(&self) -> Option<&[<K::Lane as Lane>::Cell; F]> {
        if self.header.level() > 0 {
            return None;
        }
        let leaf = std::ptr::with_exposed_provenance::<IntLeaf<K, F>>(std::ptr::from_ref(self).addr());
        // SAFETY: I4: this is the node of an `IntLeaf`, whose memory lives as long as this node's.
        Some(unsafe { &(*leaf).keys.0 })
    }

    /// Keys not above the image.
    #[inline(always)]
    pub(super) fn rank_in_leaf(&self, keys: &[<K::Lane as Lane>::Cell; F], lane: K::Lane) -> usize {
        let first = self.first_of_block(lane);
        match Self::rank_in_block(keys, first, lane) {
            0 if first > 0 && !seeded_bug("index_rough_head_believed") => {
                let before = Self::first_before(keys, lane, first);
                before + Self::rank_in_block(keys, before, lane)
            }
            rank => first + rank,
        }
    }

    /// Keys of the block that begins at entry `first`, not above the image.
    #[inline(always)]
    fn rank_in_block(keys: &[<K::Lane as Lane>::Cell; F], first: usize, lane: K::Lane) -> usize {
        rank_in_run::<K::Lane>(&keys[first..first + Self::BLOCK], lane)
    }

    /// Where the block of an image begins that is below entry `end`, whose block has the same head.
    #[cold]
    fn first_before(keys: &[<K::Lane as Lane>::Cell; F], lane: K::Lane, end: usize) -> usize {
        let (mut block, mut left) = (0, end / Self::BLOCK);
        while left > 1 {
            let half = left / 2;
            if K::Lane::load(&keys[(block + half) * Self::BLOCK]) <= lane {
                block += half;
            }
            left -= half;
        }
        block * Self::BLOCK
    }

    /// Asks for where this image is to be expected in a leaf: the first entry of the block there.
    #[inline(always)]
    pub(super) fn aim_at_value(&self, lane: K::Lane) -> usize {
        let first = self.first_of_block(lane);
        if let Some(keys) = self.keys() {
            prefetch_lines(&keys[first], Self::BLOCK * size_of::<K::Lane>());
        }
        prefetch_lines(&self.words.0[first], Self::BLOCK * size_of::<u64>());
        first
    }

    /// The value of a key in the block that begins at entry `first`, where it is to be expected; `Restart` if it is not above
    /// the first key there, or not in this leaf.
    #[inline(always)]
    pub(super) fn value_in_block(&self, first: usize, key: K::Lane) -> Result<Option<u64>, Restart> {
        let keys = self.keys().ok_or(Restart)?;
        if key >= self.high_lane() && self.header.link() != 0 {
            return Err(Restart);
        }
        let rank = (first + Self::rank_in_block(keys, first, key)).min(self.header.count());
        if rank <= first {
            return Err(Restart);
        }
        let entry = rank - 1;
        Ok((K::Lane::load(&keys[entry]) == key).then(|| self.raw(entry)))
    }

    /// Sees to it that the leaf's first or last key is on the scale, and makes heads those of their blocks again (I3).
    #[inline(always)]
    pub(super) fn scale_to_end(&self, keys: &[<K::Lane as Lane>::Cell; F], end: usize) {
        let lane = K::Lane::load(&keys[end]);
        if lane.number() < self.scale().base || self.head_of(lane) == HEAD_MAX {
            self.scale_to_keys(keys);
        } else {
            self.copy_heads(end);
        }
    }

    /// The heads of a leaf's blocks (I3).
    #[inline(always)]
    pub(super) fn heads_of_keys(&self, keys: &[<K::Lane as Lane>::Cell; F]) -> impl Fn(usize) -> u32 {
        let (scale, count) = (self.scale(), self.header.count());
        move |block| {
            let first = block * Self::BLOCK;
            if first < count { K::Lane::load(&keys[first]).number().head(scale) } else { u32::MAX }
        }
    }

    /// Puts the leaf on a scale of its keys.
    pub(super) fn scale_to_keys(&self, keys: &[<K::Lane as Lane>::Cell; F]) {
        if let Some(last) = self.header.count().checked_sub(1) {
            let number = |i: usize| K::Lane::load(&keys[i]).number();
            self.set_scale(Number::rough_scale(number(0), number(last)));
        }
        self.copy_heads(0);
    }

    /// Names a broken invariant of a leaf.
    pub(super) fn check_keys(&self, keys: &[<K::Lane as Lane>::Cell; F]) -> Result<(), String> {
        let (count, key) = (self.header.count(), |i: usize| K::Lane::load(&keys[i]));
        if let Some(i) = (1..count).find(|&i| key(i - 1) >= key(i)) {
            return Err(format!("order: keys {} and {i}", i - 1));
        }
        if (count..F).any(|i| key(i) != K::Lane::MAX) {
            return Err("I1: an unused key is not the greatest".into());
        }
        Ok(())
    }

    /// Asks for the lines in which a key is to be expected that would be entry `expected` if the leaf were full. Leaves are half
    /// full to full. About half of the lines: a processor waits for no more than a dozen or two at a time.
    #[inline(always)]
    pub fn prefetch_near(leaf: *const Self, expected: usize) {
        let last = (expected + Self::MARGIN).min(F - 1);
        Self::prefetch_entries(leaf, Self::first_near(expected), last);
    }

    /// As `prefetch_near`, and for all lines behind: what a scan reads.
    #[inline(always)]
    pub(super) fn prefetch_behind(leaf: *const Self, expected: usize) {
        Self::prefetch_entries(leaf, Self::first_near(expected), F - 1);
    }

    /// Entries by which a guess may be wrong.
    const MARGIN: usize = 2;

    /// Where it is to be expected if the leaf is half full.
    #[inline(always)]
    fn first_near(expected: usize) -> usize {
        (expected / 2).saturating_sub(Self::MARGIN)
    }

    /// Asks for the first line, and for those of the entries `first` to `last` of a leaf.
    #[inline(always)]
    fn prefetch_entries(leaf: *const Self, first: usize, last: usize) {
        Self::prefetch_first(leaf);
        let ask = |array: usize, cell_bytes: usize| {
            let from = (array + first * cell_bytes) / LINE_BYTES * LINE_BYTES;
            prefetch_lines(leaf.cast::<u8>().wrapping_add(from), array + (last + 1) * cell_bytes - from);
        };
        ask(offset_of!(IntLeaf<K, F>, keys), size_of::<K::Lane>());
        ask(offset_of!(Self, words), size_of::<u64>());
    }

    /// Asks for a leaf's keys and first line.
    #[inline(always)]
    pub(super) fn prefetch_leaf_keys(leaf: *const Self) {
        Self::prefetch_first(leaf);
        let keys = leaf.cast::<u8>().wrapping_add(offset_of!(IntLeaf<K, F>, keys));
        prefetch_lines(keys, F * size_of::<K::Lane>());
    }
}
