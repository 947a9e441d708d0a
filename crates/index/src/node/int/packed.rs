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
//! nodes of the first level had two children, they would take a fifth of the tree.

use super::{IntKey, IntNode, NodeScale};
use crate::node::Node;
use crate::node::scale::Number;
use crate::pool;
use crate::search::{Lane, rank_in_run};
use foreshore_base::prefetch::prefetch_lines;
use foreshore_base::seeded_bug;

const UNUSED: u64 = u64::MAX;

fn word_of(head: u32, child: u64) -> u64 {
    u64::from(head) << 32 | u64::from(pool::number_of(child))
}

#[inline(always)]
fn head_of(word: u64) -> u32 {
    (word >> 32) as u32
}

/// The child's address.
#[inline(always)]
pub(super) fn child_of(word: u64) -> u64 {
    pool::address_of(word as u32)
}

/// A head, and the first entry of the block with the last one that is not above it.
#[derive(Clone, Copy)]
pub(super) struct Aim {
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

impl<K: IntKey, const F: usize> IntNode<K, F> {
    /// The last entry not above the key, and the key's head here; `None` if that is to the right of this node, which is none of
    /// the leaves.
    #[inline(always)]
    pub fn entry_for(&self, sought: K::Lane) -> Option<(usize, u32)> {
        let aim = self.aim_of(sought);
        self.entry_by(aim, sought).map(|entry| (entry, aim.head))
    }

    /// Asks for where the entry that leads to this key is.
    #[inline(always)]
    pub(super) fn aim_at_child(&self, sought: K::Lane) -> Aim {
        let aim = self.aim_of(sought);
        prefetch_lines(&self.words.0[aim.first], Self::BLOCK * size_of::<u64>());
        aim
    }

    /// As `entry_for`, by the aim at the key.
    #[inline(always)]
    pub(super) fn entry_by(&self, aim: Aim, sought: K::Lane) -> Option<usize> {
        if sought >= self.high_lane() && self.header.link() != 0 {
            return None;
        }
        // The first entry has head 0, so there is a last one; the mask keeps what was read of a changing node in bounds.
        Some(self.rank_by(aim).wrapping_sub(1) & (F - 1))
    }

    /// The child of entry `i`, of a node that is none of the leaves.
    #[inline(always)]
    pub fn child(&self, i: usize) -> u64 {
        child_of(self.raw(i))
    }

    /// Where a key of this head, which entry `i` leads to, is to be expected in that child if it is a full leaf of evenly spread
    /// keys: an entry, or `F`.
    #[inline(always)]
    pub fn expected_entry(&self, i: usize, head: u32) -> usize {
        let low = head_of(self.raw(i));
        let last = i + 1 >= self.header.count().min(F);
        let high = if last { self.head_of(self.high_lane()) } else { head_of(self.raw(i + 1)) };
        let width = high.wrapping_sub(low).max(1);
        // Few enough bits for the product; a division of 32 bits is fast on all processors.
        let spare = (F.ilog2() + 1).saturating_sub(width.leading_zeros());
        let distance = head.wrapping_sub(low) >> spare;
        (distance.wrapping_mul(F as u32) / (width >> spare)).min(F as u32) as usize
    }

    /// Where the entry that leads to this key is, by the first line alone.
    #[inline(always)]
    pub(super) fn aim_of(&self, sought: K::Lane) -> Aim {
        let head = self.head_of(sought);
        Aim { head, first: self.heads.block(Self::BLOCKS, head) * Self::BLOCK }
    }

    /// Entries whose head is not above the one aimed at. Unused ones are not among them (Q2).
    #[inline(always)]
    pub(super) fn rank_by(&self, aim: Aim) -> usize {
        let run = &self.words.0[aim.first..aim.first + Self::BLOCK];
        aim.first + rank_in_run::<u64>(run, u64::from(aim.head) << 32 | u64::from(u32::MAX))
    }

    /// The heads of blocks (I3).
    #[inline(always)]
    pub(super) fn heads_of_children(&self) -> impl Fn(usize) -> u32 {
        |block| head_of(self.raw(block * Self::BLOCK))
    }

    /// The separator of entry `i`; of entry 0, what is below the others.
    #[inline(always)]
    pub(super) fn separator_at(&self, i: usize, scale: NodeScale<K>) -> K::Lane {
        K::Lane::from_number(Number::of_head(head_of(self.raw(i)), scale))
    }

    /// Makes entries unused.
    pub(super) fn forget_children(&self, from: usize, to: usize) {
        (from..to).for_each(|i| self.set_raw(i, UNUSED));
    }

    /// Entry 0 has no separator, so it gets the least head (Q2, N1).
    pub(super) fn make_first_least(&self) {
        if self.header.level() > 0 {
            self.set_raw(0, word_of(0, self.word(0)));
        }
    }

    /// The word that holds this child at rank `i`, from where this separator leads to it. [`make_separable`] has passed.
    ///
    /// [`make_separable`]: Self::make_separable
    pub(super) fn entry(&self, i: usize, separator: K::Lane, child: u64) -> u64 {
        let head = if i == 0 { Some(0) } else { self.head_for(separator) };
        word_of(head.expect("a scale for the separator"), child)
    }

    /// The word of this child in the place of that of entry `i`.
    pub(super) fn entry_with_child(&self, i: usize, child: u64) -> u64 {
        word_of(head_of(self.raw(i)), child)
    }

    /// The head of a separator in this node, if it has one.
    fn head_for(&self, separator: K::Lane) -> Option<u32> {
        let (scale, number) = (self.scale(), separator.number());
        if seeded_bug("index_separator_rounded") { Some(number.head(scale)) } else { scale.exact(number) }
    }

    /// Sees to it that another separator has a head here, which may need another scale; tells whether there is one.
    pub(super) fn make_separable(&self, another: K::Lane) -> bool {
        // The least key is that of entry 0, which needs none.
        if another == K::Lane::MIN || self.head_for(another).is_some() {
            return true;
        }
        let separators = (1..self.header.count()).map(|i| self.lane(i)).chain([another]);
        let Some(scale) = Number::scale_of(separators.map(Lane::number)) else { return false };
        for i in 1..self.header.count() {
            let head = self.lane(i).number().head(scale);
            self.set_raw(i, word_of(head, self.word(i)));
        }
        self.set_scale(scale);
        self.copy_heads(0);
        true
    }

    /// The entry that is furthest from the one before it, for which that means something; 1 if there are but two.
    pub(super) fn widest_gap(&self) -> usize {
        let head = |i: usize| head_of(self.raw(i));
        (2..self.header.count()).max_by_key(|&i| head(i) - head(i - 1)).unwrap_or(1)
    }

    /// Names a broken invariant of a node above the leaves.
    pub(super) fn check_children(&self) -> Result<(), String> {
        let (count, head) = (self.header.count(), |i: usize| head_of(self.raw(i)));
        if let Some(i) = (1..count).find(|&i| head(i - 1) >= head(i)) {
            return Err(format!("order: separators {} and {i}", i - 1));
        }
        if (count..F).any(|i| self.raw(i) != UNUSED) {
            return Err("I1: an unused entry is not the greatest".into());
        }
        if head(0) != 0 {
            return Err("Q2: the first child has a separator".into());
        }
        Ok(())
    }
}
