//! Leaves: keys in an array of their own behind the words, found by the head of their block.
//!
//! Why: a search reads keys alone, 8 or 16 to a line; one line of words follows.
//!
//! Heads lead to where a key is to be expected, and to no block before its own: they rise as keys do, but keys near each other
//! may have the same. So a search that finds its block to begin above the key goes back.

use super::{Heads, IntNode, LINE_BYTES, Line, heads};
use crate::node::Node;
use crate::node::scale::{HEAD_MAX, Number};
use crate::pooled::{self, Pooled};
use crate::search::Lane;
use foreshore_base::Restart;
use foreshore_base::prefetch::{prefetch_lines, prefetch_lines_far};
use foreshore_base::sync::{AtomicU64, Ordering::Relaxed};
use std::mem::{MaybeUninit, offset_of};
use std::ops::Range;

/// A node of level 0.
#[repr(C, align(64))]
pub(crate) struct IntLeaf<L: Lane, const F: usize> {
    node: IntNode<L, F>,
    words: Line<[AtomicU64; F]>,
    keys: Line<[L::Cell; F]>,
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<IntLeaf<u64, 64>>() == 17 * 64);

impl<L: Lane, const F: usize> Pooled for IntLeaf<L, F> {
    const SHELF: usize =
        if IntNode::<L, F>::HALVES { pooled::LEAVES_OF_HALVES } else { pooled::LEAVES_OF_WORDS };

    #[cfg(any(shuttle, test))]
    fn vacant() -> Self {
        Self {
            node: IntNode::vacant_at(0),
            words: Line(std::array::from_fn(|_| AtomicU64::new(0))),
            keys: Line(std::array::from_fn(|_| L::MAX.cell())),
        }
    }

    #[cfg(shuttle)]
    fn pooled(&self) -> &std::sync::atomic::AtomicBool {
        &self.node.header.pooled
    }
}

/// Entries copied out of a leaf, at the places where they were.
///
/// Invariant R1: those of `filled` were written.
pub(crate) struct Copied<L, const F: usize> {
    keys: Line<[MaybeUninit<L>; F]>,
    words: Line<[MaybeUninit<u64>; F]>,
    filled: Range<usize>,
}

impl<L: Lane, const F: usize> Copied<L, F> {
    #[inline(always)]
    pub fn new() -> Self {
        Self {
            keys: Line([const { MaybeUninit::uninit() }; F]),
            words: Line([const { MaybeUninit::uninit() }; F]),
            filled: 0..0,
        }
    }

    /// Copies these entries instead of those before. They count if the leaf is valid then. Panics if a leaf never has as many.
    #[inline(always)]
    pub fn copy(&mut self, leaf: &IntLeaf<L, F>, entries: Range<usize>) {
        L::copy_out(&leaf.keys.0, entries.clone(), &mut self.keys.0);
        u64::copy_out(&leaf.words.0, entries.clone(), &mut self.words.0);
        self.filled = entries;
    }

    /// Takes these entries instead of those before. Panics if they are more than a leaf may have.
    pub fn fill(&mut self, entries: impl Iterator<Item = (L, u64)>) {
        self.filled = 0..0;
        for (i, (key, word)) in entries.enumerate() {
            self.keys.0[i].write(key);
            self.words.0[i].write(word);
            self.filled = 0..i + 1;
        }
    }

    /// The keys, and their words.
    #[inline(always)]
    pub fn entries(&self) -> (&[L], &[u64]) {
        let (keys, words) = (&self.keys.0[self.filled.clone()], &self.words.0[self.filled.clone()]);
        // SAFETY: R1; what was written has the layout of its place.
        unsafe { (&*(std::ptr::from_ref(keys) as *const [L]), &*(std::ptr::from_ref(words) as *const [u64])) }
    }
}

impl<L: Lane, const F: usize> IntLeaf<L, F> {
    const BLOCK: usize = Heads::block_of(F);
    const BLOCKS: usize = F / Self::BLOCK;

    /// The number of entries.
    #[inline(always)]
    pub fn count(&self) -> usize {
        self.node.header.count()
    }

    /// The address of the right neighbour, 0 = none.
    #[inline(always)]
    pub fn link(&self) -> u64 {
        self.node.header.link()
    }

    #[inline(always)]
    pub fn words(&self) -> &[AtomicU64; F] {
        &self.words.0
    }

    /// The word of entry `i`; of another one if there is none, in a leaf that changed meanwhile.
    #[inline(always)]
    pub fn word(&self, i: usize) -> u64 {
        self.words.0[i & (F - 1)].load(Relaxed)
    }

    /// The key of entry `i`.
    #[inline(always)]
    pub fn lane(&self, i: usize) -> L {
        L::load(&self.keys.0[i])
    }

    /// Entries, if there is room for as many.
    #[inline(always)]
    pub fn entries(&self, range: Range<usize>) -> Option<impl Iterator<Item = (L, u64)>> {
        let (keys, words) = (self.keys.0.get(range.clone())?, self.words.0.get(range)?);
        Some(keys.iter().zip(words).map(|(k, w)| (L::load(k), w.load(Relaxed))))
    }

    /// The first entry of the block where this image is to be expected: no entry behind the block is at most there (I3).
    #[inline(always)]
    fn first_of_block(&self, lane: L) -> usize {
        self.node.heads.block(Self::BLOCKS, self.node.head_of(lane)) * Self::BLOCK
    }

    /// Keys not above the image.
    #[inline(always)]
    pub fn rank(&self, lane: L) -> usize {
        heads::rank_from(&self.keys.0, Self::BLOCK, self.first_of_block(lane), lane)
    }

    /// Entries not above the image, and whether the last of them has it; `None` if it is to the right of this leaf.
    #[inline(always)]
    pub fn place_of(&self, lane: L) -> Option<(usize, bool)> {
        if self.node.is_beyond(lane) {
            return None;
        }
        let rank = self.rank(lane).min(self.count());
        // The mask keeps what was read of a changing leaf in bounds.
        Some((rank, rank > 0 && self.lane((rank - 1) & (F - 1)) == lane))
    }

    /// Asks for where this image is to be expected: the first entry of the block there.
    #[inline(always)]
    pub fn aim_at_value(&self, lane: L) -> usize {
        let first = self.first_of_block(lane);
        prefetch_lines(&self.keys.0[first], Self::BLOCK * size_of::<L>());
        prefetch_lines(&self.words.0[first], Self::BLOCK * size_of::<u64>());
        first
    }

    /// The value of a key in the block that begins at entry `first`, where it is to be expected; `Restart` if it is not above
    /// the first key there, or not in this leaf.
    #[inline(always)]
    pub fn value_in_block(&self, first: usize, key: L) -> Result<Option<u64>, Restart> {
        if self.node.is_beyond(key) {
            return Err(Restart);
        }
        let rank = (first + heads::rank_in_block(&self.keys.0, Self::BLOCK, first, key)).min(self.count());
        if rank <= first {
            return Err(Restart);
        }
        let entry = rank - 1;
        Ok((self.lane(entry) == key).then(|| self.words.0[entry].load(Relaxed)))
    }

    // Writing: the latch is held, or nobody else can reach the leaf.

    /// Is there room for another entry?
    #[inline(always)]
    pub fn has_room(&self) -> bool {
        self.count() < F
    }

    /// Inserts an entry as the one of this rank; there is room.
    #[inline(always)]
    pub fn insert(&self, i: usize, lane: L, word: u64) {
        let count = self.count();
        assert!(i <= count && count < F, "an insert at rank {i} of {count} entries");
        L::shift_up(&self.keys.0, i..count);
        lane.store(&self.keys.0[i]);
        u64::shift_up(&self.words.0, i..count);
        self.set_word(i, word);
        self.node.header.set_count(count + 1);
        if i == 0 || i == count {
            self.scale_to_end(i);
        } else {
            self.copy_heads(i);
        }
    }

    /// Sets the word of entry `i`.
    #[inline(always)]
    pub fn set_word(&self, i: usize, word: u64) {
        self.words.0[i].store(word, Relaxed);
    }

    /// Removes entry `i`.
    #[inline(always)]
    pub fn remove(&self, i: usize) {
        let count = self.count();
        assert!(i < count && count <= F, "a removal at {i} of {count} entries");
        L::shift_down(&self.keys.0, i + 1..count);
        u64::shift_down(&self.words.0, i + 1..count);
        self.node.forget(count - 1);
        self.copy_heads(i);
    }

    /// Makes keys unused.
    #[inline(always)]
    pub fn forget_keys(&self, from: usize, to: usize) {
        self.keys.0[from..to].iter().for_each(|key| L::MAX.store(key));
    }

    /// Copies keys to the beginning of another leaf.
    pub fn copy_keys(&self, range: Range<usize>, to: &Self) {
        self.keys.0[range].iter().zip(&to.keys.0).for_each(|(key, to)| L::load(key).store(to));
    }

    /// Sees to it that the leaf's first or last key is on the scale, and makes heads those of their blocks again (I3).
    #[inline(always)]
    pub fn scale_to_end(&self, end: usize) {
        let lane = self.lane(end);
        if lane.number() < self.node.scale().base || self.node.head_of(lane) == HEAD_MAX {
            self.rescale();
        } else {
            self.copy_heads(end);
        }
    }

    /// Puts the leaf on a scale of its keys.
    pub fn rescale(&self) {
        if let Some(last) = self.count().checked_sub(1) {
            self.node.set_scale(Number::rough_scale(self.lane(0).number(), self.lane(last).number()));
        }
        self.copy_heads(0);
    }

    /// Makes heads those of their blocks again, of which those of entries before `from` have not changed (I3).
    #[inline(always)]
    pub fn copy_heads(&self, from: usize) {
        self.node.heads.set(from / Self::BLOCK, Self::BLOCKS, self.heads());
    }

    /// The heads of blocks (I3).
    #[inline(always)]
    fn heads(&self) -> impl Fn(usize) -> u32 {
        let (scale, count) = (self.node.scale(), self.count());
        move |block| {
            let first = block * Self::BLOCK;
            if first < count { self.lane(first).number().head(scale) } else { u32::MAX }
        }
    }

    /// Names a broken invariant.
    pub fn check(&self) -> Result<(), String> {
        let count = self.count();
        if let Some(i) = (1..count).find(|&i| self.lane(i - 1) >= self.lane(i)) {
            return Err(format!("order: keys {} and {i}", i - 1));
        }
        if (count..F).any(|i| self.lane(i) != L::MAX) {
            return Err("I1: an unused key is not the greatest".into());
        }
        self.node.heads.check(Self::BLOCKS, self.heads())
    }

    // Before the leaf was looked at.

    /// Asks for the lines in which a key is to be expected that would be entry `expected` if the leaf were full. Leaves are half
    /// full to full, so it is in the half of the lines that end there: a processor waits for no more than a dozen or two at a time.
    #[inline(always)]
    pub fn prefetch_near(leaf: *const IntNode<L, F>, expected: usize) {
        let last = (expected + Self::MARGIN).min(F - 1);
        IntNode::prefetch_first(leaf);
        // So many that a lookup knows it beforehand: who mispredicts it waits for the node above.
        let ask = |array: usize, cell_bytes: usize| {
            let bytes = (F / 2 * cell_bytes).next_multiple_of(LINE_BYTES);
            let end = (last * cell_bytes / LINE_BYTES + 1) * LINE_BYTES;
            prefetch_lines(leaf.cast::<u8>().wrapping_add(array + end.saturating_sub(bytes)), bytes);
        };
        ask(offset_of!(Self, keys), size_of::<L>());
        ask(offset_of!(Self, words), size_of::<u64>());
    }

    /// Asks for the lines of such a key, and for all behind: what a scan reads.
    #[inline(always)]
    pub fn prefetch_behind(leaf: *const IntNode<L, F>, expected: usize) {
        IntNode::prefetch_first(leaf);
        Self::for_lines(leaf, Self::least_expected(expected)..F, prefetch_lines);
    }

    /// Asks for what a scan of so many entries, from such a key on, reads.
    #[inline(always)]
    pub fn prefetch_run(leaf: *const IntNode<L, F>, expected: usize, entries: usize) {
        IntNode::prefetch_first(leaf);
        let end = (expected + Self::MARGIN).saturating_add(entries);
        Self::for_lines(leaf, Self::least_expected(expected)..end, prefetch_lines_far);
    }

    /// Asks for what a scan reads that comes from the left and wants so many entries: more of it when it is known how full the
    /// leaf is.
    #[inline(always)]
    pub fn prefetch_beginning(leaf: *const IntNode<L, F>, entries: usize) {
        IntNode::prefetch_first(leaf);
        Self::for_lines(leaf, 0..entries.min(Self::USUAL_LEAST), prefetch_lines_far);
    }

    /// Asks for what [`prefetch_beginning`](Self::prefetch_beginning) left out, and for the beginning of the next leaf if the
    /// scan reaches it. Guesses, from a leaf that was not validated.
    #[inline(always)]
    pub fn prefetch_rest(&self, entries: usize) {
        let count = self.count();
        Self::for_lines(&self.node, Self::USUAL_LEAST..entries.min(count), prefetch_lines_far);
        if entries > count {
            let next = std::ptr::with_exposed_provenance(self.link() as usize);
            Self::prefetch_beginning(next, entries - count);
        }
    }

    /// Asks by `ask` for the lines of these entries, as far as a leaf has room for them.
    #[inline(always)]
    fn for_lines(leaf: *const IntNode<L, F>, entries: Range<usize>, ask: impl Fn(*const u8, usize)) {
        for (array, cell_bytes) in
            [(offset_of!(Self, keys), size_of::<L>()), (offset_of!(Self, words), size_of::<u64>())]
        {
            let from = (array + entries.start * cell_bytes) / LINE_BYTES * LINE_BYTES;
            let to = array + entries.end.min(F) * cell_bytes;
            ask(leaf.cast::<u8>().wrapping_add(from), to.saturating_sub(from));
        }
    }

    /// Where a key is that would be entry `expected` of a full leaf, if the leaf is half full.
    #[inline(always)]
    fn least_expected(expected: usize) -> usize {
        (expected / 2).saturating_sub(Self::MARGIN)
    }

    /// Entries of a leaf that was split and has lost none.
    const USUAL_LEAST: usize = F / 2;

    /// Entries by which a guess may be wrong.
    const MARGIN: usize = 2;

    /// Asks for a leaf's keys and first line.
    #[inline(always)]
    pub fn prefetch_keys(leaf: *const IntNode<L, F>) {
        IntNode::prefetch_first(leaf);
        prefetch_lines(leaf.wrapping_byte_add(offset_of!(Self, keys)), F * size_of::<L>());
    }

    /// Asks for a leaf's words.
    #[inline(always)]
    pub fn prefetch_words(leaf: *const IntNode<L, F>) {
        prefetch_lines(leaf.wrapping_byte_add(offset_of!(Self, words)), F * size_of::<u64>());
    }
}
