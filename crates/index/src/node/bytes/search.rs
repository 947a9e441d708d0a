//! The search in a node: by the head of the block, then by heads, then by prints and tails where heads are equal.

use super::super::heads;
use super::super::{Bias, Seen};
use super::{Bound, BytesNode, HEAD, PREFIX_MAX, Slot, block_head, head_of, print_of, second_of};
use foreshore_base::prefetch::prefetch_lines;
use foreshore_base::sync::Ordering::Relaxed;
use foreshore_base::{RelaxedBytes, Restart};
use std::cmp::Ordering;
use std::hint::select_unpredictable;
use std::ops::Range;

/// How a key relates to everything that starts with the prefix.
pub(super) enum Relation<'k> {
    Less,
    /// It starts with it; this is the rest.
    Inside(&'k [u8]),
    Greater,
}

impl<const F: usize, const H: usize> BytesNode<F, H> {
    #[inline]
    pub(super) fn relation<'k>(&self, key: &'k [u8]) -> Result<Relation<'k>, Restart> {
        let len = self.prefix_len();
        if len == 0 {
            return Ok(Relation::Inside(key));
        }
        if len > PREFIX_MAX {
            return Err(Restart);
        }
        match key.split_at_checked(len) {
            Some((start, suffix)) if RelaxedBytes::new(&self.prefix).equal(0, start) => {
                Ok(Relation::Inside(suffix))
            }
            _ => Ok(self.relation_outside(key, len)),
        }
    }

    #[cold]
    fn relation_outside<'k>(&self, key: &'k [u8], len: usize) -> Relation<'k> {
        match RelaxedBytes::new(&self.prefix).compare(0, len, &key[..len.min(key.len())]) {
            Ordering::Less => Relation::Greater,
            Ordering::Equal | Ordering::Greater => Relation::Less,
        }
    }

    /// Compares a stored suffix whose head equals that of `suffix` with it.
    #[inline]
    pub(super) fn compare_equal_heads(
        &self,
        slot: Slot,
        skip: usize,
        suffix: &[u8],
        seen: &Seen,
    ) -> Result<Ordering, Restart> {
        if slot.is_blob() {
            return Ok(self.blob_suffix(slot, skip, seen)?.cmp(suffix));
        }
        let len = slot.suffix_len();
        if len <= HEAD || suffix.len() <= HEAD {
            return Ok(len.cmp(&suffix.len()));
        }
        if slot.offset() + len - HEAD > Self::HEAP_BYTES {
            return Err(Restart);
        }
        Ok(self.heap().compare(slot.offset(), len - HEAD, &suffix[HEAD..]))
    }

    /// Is the key above (or at) the upper bound?
    #[inline]
    pub(super) fn is_beyond(
        &self,
        key: &[u8],
        relation: &Relation,
        bias: Bias,
        seen: &Seen,
    ) -> Result<bool, Restart> {
        if self.header.link() == 0 {
            return Ok(false);
        }
        Ok(match (self.compare_high(key, relation, seen)?, bias) {
            (Ordering::Less, _) | (Ordering::Equal, Bias::AtMost) => true,
            (Ordering::Equal, Bias::Below) | (Ordering::Greater, _) => false,
        })
    }

    /// Is the upper bound at, below or above the key? The node has a link.
    #[inline]
    fn compare_high(&self, key: &[u8], relation: &Relation, seen: &Seen) -> Result<Ordering, Restart> {
        let (suffix, skip) = match (self.bound(), relation) {
            (Bound::Closed, _) => return Ok(Ordering::Less),
            (Bound::Infinite, _) | (_, Relation::Less) | (Bound::Foreign, Relation::Inside(_)) => {
                return Ok(Ordering::Greater);
            }
            (Bound::Inside, Relation::Greater) => return Ok(Ordering::Less),
            (Bound::Inside, Relation::Inside(suffix)) => (*suffix, self.prefix_len()),
            (Bound::Foreign, Relation::Greater) => (key, 0),
        };
        match self.high_head.load(Relaxed).cmp(&head_of(suffix)) {
            Ordering::Equal => self.compare_equal_heads(self.high_slot(), skip, suffix, seen),
            different => Ok(different),
        }
    }

    /// Entries not above (or below) the suffix; is the last of them it?
    #[inline]
    pub(super) fn rank(&self, suffix: &[u8], bias: Bias, seen: &Seen) -> Result<(usize, bool), Restart> {
        match self.seconds() {
            Some(seconds) if self.has_ties() => {
                let candidates = self.entries_with(seconds, head_of(suffix), second_of(suffix));
                self.rank_by_tails(candidates, suffix, bias, seen)
            }
            _ => self.rank_by_heads(suffix, bias, seen),
        }
    }

    #[inline]
    fn rank_by_heads(&self, suffix: &[u8], bias: Bias, seen: &Seen) -> Result<(usize, bool), Restart> {
        let head = head_of(suffix);
        let count = self.header.count().min(F);
        let upper = heads::rank_from(&self.heads, Self::BLOCK, self.first_of_block(head), head).min(count);
        if upper == 0 || self.head(upper - 1) != head {
            return Ok((upper, false));
        }
        // Most probably it is this one: its word comes while tails are compared.
        self.prefetch_word(upper - 1);
        let alone = upper == 1 || self.head(upper - 2) != head;
        let from = if alone { upper - 1 } else { self.first_of_many(head, upper) };
        self.rank_by_tails(from..upper, suffix, bias, seen)
    }

    /// The same, where all entries before these are below the suffix, all behind above, and their heads are equal to its.
    #[inline]
    fn rank_by_tails(
        &self,
        among: Range<usize>,
        suffix: &[u8],
        bias: Bias,
        seen: &Seen,
    ) -> Result<(usize, bool), Restart> {
        let Range { start: mut from, end: mut to } = among;
        let mut exact = false;
        let skip = self.prefix_len();
        while from < to {
            let middle = from.midpoint(to);
            let order = self.compare_equal_heads(self.slot(middle), skip, suffix, seen)?;
            exact |= order == Ordering::Equal;
            let is_passed = order.is_lt() | (order.is_eq() & (bias == Bias::AtMost));
            from = select_unpredictable(is_passed, middle + 1, from);
            to = select_unpredictable(is_passed, to, middle);
        }
        Ok((from, exact))
    }

    /// The first of several entries before `upper` that have this head. Asks for all tails and where they are, which are then
    /// compared one after the other.
    #[inline(never)]
    pub(super) fn first_of_many(&self, head: u64, upper: usize) -> usize {
        prefetch_lines(&raw const self.slots, size_of_val(&self.slots));
        prefetch_lines(&raw const self.heap, self.heap_end().min(Self::HEAP_BYTES));
        let Some(below) = head.checked_sub(1) else { return 0 };
        heads::rank_from(&self.heads, Self::BLOCK, self.first_of_block(below), below).min(upper)
    }

    /// The entry of a leaf that has this suffix.
    #[inline]
    pub(super) fn entry_of(&self, suffix: &[u8], seen: &Seen) -> Result<Option<usize>, Restart> {
        let head = head_of(suffix);
        let count = self.header.count().min(F);
        let mut upper =
            heads::rank_from(&self.heads, Self::BLOCK, self.first_of_block(head), head).min(count);
        while let Some(candidate) = self.candidate(upper, head, suffix) {
            // Most probably it is this one: its word comes while tails are compared.
            self.prefetch_word(candidate);
            let slot = self.slot(candidate);
            if self.compare_equal_heads(slot, self.prefix_len(), suffix, seen)? == Ordering::Equal {
                return Ok(Some(candidate));
            }
            upper = candidate;
        }
        Ok(None)
    }

    /// Of the entries before `upper` with this head, the last one that may have this suffix: the only one, or one whose
    /// print is the same.
    #[inline(always)]
    pub(super) fn candidate(&self, upper: usize, head: u64, suffix: &[u8]) -> Option<usize> {
        let last = upper.checked_sub(1).filter(|last| self.head(*last) == head)?;
        if last == 0 || self.head(last - 1) != head {
            Some(last)
        } else {
            self.candidate_of_many(last, head, suffix)
        }
    }

    #[inline(never)]
    pub(super) fn candidate_of_many(&self, last: usize, head: u64, suffix: &[u8]) -> Option<usize> {
        let print = print_of(suffix);
        (0..=last).rev().take_while(|i| self.head(*i) == head).find(|i| self.slot(*i).print() == print)
    }

    /// The first entry of the block where this head is to be expected: no entry behind the block has at most this head (Y4).
    #[inline(always)]
    pub(super) fn first_of_block(&self, head: u64) -> usize {
        self.blocks.block(Self::BLOCKS, block_head(head)) * Self::BLOCK
    }

    /// The block where `key` is to be expected, by its first entry, and the key's head.
    #[inline(always)]
    pub(super) fn probable_block(&self, key: &[u8]) -> Option<(usize, u64)> {
        let Ok(Relation::Inside(suffix)) = self.relation(key) else { return None };
        let head = head_of(suffix);
        Some((self.first_of_block(head), head))
    }

    /// Does the block that begins with entry `first` have the same upper half of a head? Then others before it may as well.
    #[inline(always)]
    pub(super) fn begins_with(&self, first: usize, head: u64) -> bool {
        first > 0 && self.blocks.head(first / Self::BLOCK) == block_head(head)
    }

    /// Asks for a node of which many entries are to be looked at.
    #[cold]
    pub(super) fn prefetch_all(&self) {
        prefetch_lines(self, size_of::<Self>());
    }

    /// Asks for a block of one of the arrays.
    #[inline(always)]
    pub(super) fn prefetch_block<T>(array: &[T; F], first: usize) {
        prefetch_lines(&raw const array[first], Self::BLOCK * size_of::<T>());
    }

    /// Asks for the word of entry `i`.
    #[inline(always)]
    pub(super) fn prefetch_word(&self, i: usize) {
        prefetch_lines(&raw const self.words[i], 1);
    }
}
