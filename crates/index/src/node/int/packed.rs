//! Nodes above the leaves: separator and child of an entry share one word.
//!
//! Why: half the bytes of two arrays, and no second miss for the child. A lookup in ten million keys waits for one such
//! node that no cache holds, and for its translation: the nodes of a level lie in half as many pages. Of many lookups
//! side by side, lines are the price.
//!
//! A word is the separator's head ([`Scale`]) above the child's number ([`pool::number_of`]), so words are ordered as
//! separators are, and the search is that of any word array. A node whose separators have no common scale with another one
//! is split, at its widest gap, though it has room: no two separators are too far apart for a node of one.
//!
//! What it costs: keys in dense clusters that are far apart, each of one or two leaves, make nodes with few children. If all
//! nodes of the first level had two children, they would take a third of the tree (of 64-bit keys).

use super::{Heads, IntLeaf, IntNode, Line, NodeScale};
use crate::node::scale::Number;
use crate::pool;
use crate::pooled::{self, Pooled};
use crate::search::{Lane, rank_in_run};
use foreshore_base::prefetch::prefetch_lines;
use foreshore_base::seeded_bug;
use foreshore_base::sync::{AtomicU64, Ordering::Relaxed};

const UNUSED: u64 = u64::MAX;

fn word_of(head: u32, child: u64) -> u64 {
    u64::from(head) << 32 | u64::from(pool::number_of(child))
}

#[inline(always)]
fn head_of(word: u64) -> u32 {
    (word >> 32) as u32
}

/// A head, and the first entry of the block with the last one that is not above it.
#[derive(Clone, Copy)]
pub(crate) struct Aim {
    head: u32,
    first: usize,
}

impl Aim {
    /// In one word.
    #[inline(always)]
    pub fn pack(self) -> u64 {
        u64::from(self.head) << 32 | self.first as u64
    }

    #[inline(always)]
    pub fn unpack(word: u64) -> Self {
        Self { head: (word >> 32) as u32, first: word as u32 as usize }
    }
}

/// A node of level 1 or more.
#[repr(C, align(64))]
pub(crate) struct IntInner<L: Lane, const F: usize> {
    node: IntNode<L, F>,
    words: Line<[[AtomicU64; F]; 2]>,
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<IntInner<u64, 64>>() == 17 * 64);

impl<L: Lane, const F: usize> Pooled for IntInner<L, F> {
    const SHELF: usize =
        if IntNode::<L, F>::HALVES { pooled::INNER_OF_HALVES } else { pooled::INNER_OF_WORDS };

    #[cfg(any(shuttle, test))]
    fn vacant() -> Self {
        let half = |_| std::array::from_fn(|_| AtomicU64::new(0));
        Self { node: IntNode::vacant_at(1), words: Line(std::array::from_fn(half)) }
    }

    #[cfg(shuttle)]
    fn pooled(&self) -> &std::sync::atomic::AtomicBool {
        &self.node.header.pooled
    }
}

impl<L: Lane, const F: usize> IntInner<L, F> {
    const ENTRIES: usize = 2 * F;
    const BLOCK: usize = Heads::block_of(Self::ENTRIES);
    const BLOCKS: usize = Self::ENTRIES / Self::BLOCK;

    #[inline(always)]
    pub fn words(&self) -> &[AtomicU64] {
        self.words.0.as_flattened()
    }

    /// Separator and child of entry `i`.
    #[inline(always)]
    fn entry_at(&self, i: usize) -> u64 {
        self.words()[i].load(Relaxed)
    }

    fn set_entry(&self, i: usize, word: u64) {
        self.words()[i].store(word, Relaxed);
    }

    /// The last entry not above the key, and the key's head here; `None` if that is to the right of this node.
    #[inline(always)]
    pub fn entry_for(&self, sought: L) -> Option<(usize, u32)> {
        let aim = self.aim_of(sought);
        self.entry_by(aim, sought).map(|entry| (entry, aim.head))
    }

    /// Asks for where the entry that leads to this key is.
    #[inline(always)]
    pub fn aim_at_child(&self, sought: L) -> Aim {
        let aim = self.aim_of(sought);
        prefetch_lines(&self.words()[aim.first], Self::BLOCK * size_of::<u64>());
        aim
    }

    /// As `entry_for`, by the aim at the key.
    #[inline(always)]
    pub fn entry_by(&self, aim: Aim, sought: L) -> Option<usize> {
        if self.node.is_beyond(sought) {
            return None;
        }
        // The first entry has head 0, so there is a last one; the mask keeps what was read of a changing node in bounds.
        Some(self.rank_by(aim).wrapping_sub(1) & (Self::ENTRIES - 1))
    }

    /// The child of entry `i`.
    #[inline(always)]
    pub fn child(&self, i: usize) -> u64 {
        pool::address_of(self.entry_at(i) as u32)
    }

    /// Where a key of this head, which entry `i` leads to, is to be expected in that child if it is a full leaf of evenly spread
    /// keys: an entry, or `F`. A guess: where the last child ends is not looked at.
    #[inline(always)]
    pub fn expected_entry(&self, i: usize, head: u32) -> usize {
        let low = head_of(self.entry_at(i));
        let high = head_of(self.entry_at((i + 1) & (Self::ENTRIES - 1)));
        let width = high.wrapping_sub(low).max(1);
        // Few enough bits for the product; a division of 32 bits is fast on all processors.
        let spare = (F.ilog2() + 1).saturating_sub(width.leading_zeros());
        let distance = head.wrapping_sub(low) >> spare;
        (distance.wrapping_mul(F as u32) / (width >> spare)).min(F as u32) as usize
    }

    /// Asks for what a scan of so many entries, from a key of this head on, reads of the child that entry `i` leads to, and of the
    /// next two as far as it reaches them: those have their parents' lines at hand, while a link would come a miss later.
    #[inline(always)]
    pub fn prefetch_run(&self, i: usize, head: u32, entries: usize) {
        let child =
            |i: usize| std::ptr::with_exposed_provenance(self.child(i & (Self::ENTRIES - 1)) as usize);
        let expected = self.expected_entry(i, head);
        IntLeaf::<L, F>::prefetch_run(child(i), expected, entries);
        // The first leaf may be full, the second one is hardly less than half full.
        for (next, before) in [(i + 1, F - expected), (i + 2, F - expected + F / 2)] {
            if entries > before && next < self.node.header.count() {
                IntLeaf::<L, F>::prefetch_beginning(child(next), entries - before);
            }
        }
    }

    /// Where the entry that leads to this key is, by the first line alone.
    #[inline(always)]
    pub fn aim_of(&self, sought: L) -> Aim {
        let head = self.node.head_of(sought);
        Aim { head, first: self.node.heads.block(Self::BLOCKS, head) * Self::BLOCK }
    }

    /// Entries whose head is not above the one aimed at. Unused ones are not among them (Q2 in `scale.rs`).
    #[inline(always)]
    pub fn rank_by(&self, aim: Aim) -> usize {
        let run = &self.words()[aim.first..aim.first + Self::BLOCK];
        aim.first + rank_in_run::<u64>(run, u64::from(aim.head) << 32 | u64::from(u32::MAX))
    }

    /// The separator of entry `i`; of entry 0, what is below the others.
    #[inline(always)]
    pub fn separator_at(&self, i: usize, scale: NodeScale<L>) -> L {
        L::from_number(Number::of_head(head_of(self.entry_at(i)), scale))
    }

    // Writing: the latch is held, or nobody else can reach the node.

    /// Makes entries unused.
    pub fn forget_children(&self, from: usize, to: usize) {
        (from..to).for_each(|i| self.set_entry(i, UNUSED));
    }

    /// Entry 0 has no separator, so it gets the least head (Q2 in `scale.rs`, N1 in `node/mod.rs`).
    pub fn make_first_least(&self) {
        self.set_entry(0, word_of(0, self.child(0)));
    }

    /// Inserts a child as entry `i`, from where this separator leads to it. [`make_separable`] has passed.
    ///
    /// [`make_separable`]: Self::make_separable
    pub fn insert(&self, i: usize, separator: L, child: u64) {
        let count = self.node.header.count();
        assert!(i <= count && count < Self::ENTRIES, "an insert at rank {i} of {count} children");
        let head = if i == 0 { Some(0) } else { self.head_for(separator) };
        u64::shift_up(self.words(), i..count);
        self.set_entry(i, word_of(head.expect("a scale for the separator"), child));
        self.node.header.set_count(count + 1);
        self.copy_heads(i);
    }

    /// Removes the child of entry `i`.
    pub fn remove(&self, i: usize) {
        let count = self.node.header.count();
        assert!(i < count && count <= Self::ENTRIES, "a removal at {i} of {count} children");
        u64::shift_down(self.words(), i + 1..count);
        self.node.forget(count - 1);
        self.copy_heads(i);
    }

    /// Puts this child in the place of that of entry `i`.
    pub fn set_child(&self, i: usize, child: u64) {
        self.set_entry(i, word_of(head_of(self.entry_at(i)), child));
    }

    /// The head of a separator in this node, if it has one.
    fn head_for(&self, separator: L) -> Option<u32> {
        let (scale, number) = (self.node.scale(), separator.number());
        if seeded_bug("index_separator_rounded") { Some(number.head(scale)) } else { scale.exact(number) }
    }

    /// Sees to it that another separator has a head here, which may need another scale; tells whether there is one.
    pub fn make_separable(&self, another: L) -> bool {
        // The least key is that of entry 0, which needs none.
        if another == L::MIN || self.head_for(another).is_some() {
            return true;
        }
        let (count, old) = (self.node.header.count(), self.node.scale());
        let separators = (1..count).map(|i| self.separator_at(i, old)).chain([another]);
        let Some(scale) = Number::scale_of(separators.map(Lane::number)) else { return false };
        for i in 1..count {
            let head = self.separator_at(i, old).number().head(scale);
            self.set_entry(i, word_of(head, self.child(i)));
        }
        self.node.set_scale(scale);
        self.copy_heads(0);
        true
    }

    /// Makes the heads of blocks those of their entries again, of which those before `from` have not changed (I3).
    #[inline(always)]
    pub fn copy_heads(&self, from: usize) {
        self.node.heads.set(from / Self::BLOCK, Self::BLOCKS, self.heads());
    }

    /// The heads of blocks (I3).
    #[inline(always)]
    fn heads(&self) -> impl Fn(usize) -> u32 {
        |block| head_of(self.entry_at(block * Self::BLOCK))
    }

    /// The entry that is furthest from the one before it, for which that means something; 1 if there are but two.
    pub fn widest_gap(&self) -> usize {
        let head = |i: usize| head_of(self.entry_at(i));
        (2..self.node.header.count()).max_by_key(|&i| head(i) - head(i - 1)).unwrap_or(1)
    }

    /// Names a broken invariant.
    pub fn check(&self) -> Result<(), String> {
        let (count, head) = (self.node.header.count(), |i: usize| head_of(self.entry_at(i)));
        if let Some(i) = (1..count).find(|&i| head(i - 1) >= head(i)) {
            return Err(format!("order: separators {} and {i}", i - 1));
        }
        if (count..Self::ENTRIES).any(|i| self.entry_at(i) != UNUSED) {
            return Err("I1: an unused entry is not the greatest".into());
        }
        if head(0) != 0 {
            return Err("Q2: the first child has a separator".into());
        }
        self.node.heads.check(Self::BLOCKS, self.heads())
    }
}
