//! Scans of known length of integer keys.
//!
//! Why: an iterator does not know how many entries will be asked of it, so it asks for whole leaves, and for one more than it
//! reads. Who says beforehand how many he wants gets the lines that these are in; and while nobody interferes nothing is pinned, and
//! nothing allocated.
//! Source: prefetching scans after Chen et al. (SIGMOD 2001), who ask some leaves ahead.
//!
//! A leaf is copied to the stack, the copy is validated, and only then it is visited. All reads are those of `unpinned.rs`.
//!
//! Invariants, besides C1 and C2 of `range.rs`:
//! - W1: the next leaf is entered before the copy is validated (F2 in `unpinned.rs`). So at the moment of its version the one before had the
//!   entries copied and led to it, and all its entries of that version are above those: its range began where the other's
//!   ended (T2 in `tree/mod.rs`).
//! - W2: whatever fails, nothing was visited of the leaf where it did: the scan goes on behind the last entry visited.

use super::unpinned::{Found, Leaf};
use super::{Forward, Tree};
use crate::node::Bias;
use crate::node::int::{Copied, IntLeaf, IntNode};
use crate::search::Lane;
use foreshore_base::{Optimistic, Restart, seeded_bug};
use std::ops::Bound;

/// Where a scan goes on.
enum At<'t, L: Lane, const F: usize> {
    /// With the first entry not below this key.
    Key(L),
    /// With the first entry of a leaf entered at this version.
    Leaf(&'t IntLeaf<L, F>, Optimistic<'t>),
    /// There are no more entries.
    End,
}

impl<L: Lane, const F: usize> Tree<IntNode<L, F>> {
    /// Visits up to `limit` entries from the first key not below `from` on, upwards; returns how many.
    #[inline(always)]
    pub fn scan(&self, from: L, limit: usize, mut visit: impl FnMut(L, u64)) -> usize {
        let (mut at, mut from, mut left) = (At::Key(from), from, limit);
        let mut copied = Copied::new();
        while left > 0 && !matches!(at, At::End) {
            at = match self.copy_some(at, left, &mut copied) {
                Ok(next) => next,
                Err(Restart) => self.copy_interfered(from, left, &mut copied),
            };
            // Called here alone, and handed to nobody else: so the compiler keeps in registers what it sums up.
            let (keys, words) = copied.entries();
            keys.iter().zip(words).for_each(|(key, word)| visit(*key, *word));
            left -= keys.len();
            match keys.last().map(|last| last.after()) {
                Some(Some(after)) => from = after,
                Some(None) => break,
                None => {}
            }
        }
        limit - left
    }

    /// Copies what comes next, up to `left` entries of one leaf, and tells where to go on. Not inlined, so that `scan` is small
    /// enough to be so.
    #[inline(never)]
    fn copy_some<'t>(
        &'t self,
        at: At<'t, L, F>,
        left: usize,
        copied: &mut Copied<L, F>,
    ) -> Result<At<'t, L, F>, Restart> {
        let (leaf, seen, first) = match at {
            At::End => unreachable!("the scan is over"),
            At::Leaf(leaf, seen) => (leaf, seen, 0),
            At::Key(from) => {
                let Found { leaf, seen, rank, exact } = self.find(&from, Bias::AtMost, Leaf::Run(left))?;
                (leaf, seen, rank - usize::from(exact))
            }
        };
        let here = leaf.count().min(F).saturating_sub(first).min(left);
        let next = if here < left { self.next_leaf(leaf, seen, left - here)? } else { At::End };
        copied.copy(leaf, first..first + here);
        if !seeded_bug("index_scan_not_validated") {
            seen.validate()?;
        }
        Ok(next)
    }

    /// Enters the leaf to the right, from which so many entries are wanted, if there is one (W1).
    #[inline(always)]
    fn next_leaf<'t>(
        &'t self,
        leaf: &IntLeaf<L, F>,
        seen: Optimistic<'t>,
        wanted: usize,
    ) -> Result<At<'t, L, F>, Restart> {
        let link = leaf.link();
        if link == 0 {
            return Ok(At::End);
        }
        let (next, seen_next) = self.follow(link, seen)?;
        let next = next.as_leaf().ok_or(Restart)?;
        next.prefetch_rest(wanted);
        Ok(At::Leaf(next, seen_next))
    }

    /// As `copy_some`, after that failed: under a pin, which is gone when they are visited.
    #[cold]
    #[inline(never)]
    fn copy_interfered(&self, from: L, left: usize, copied: &mut Copied<L, F>) -> At<'_, L, F> {
        let wanted = left.min(F);
        let mut range = Forward::new(self, (Bound::Included(from), Bound::Unbounded));
        copied.fill(std::iter::from_fn(|| range.next().map(|(key, word)| (*key, word))).take(wanted));
        match copied.entries().0.last().and_then(|last| last.after()) {
            Some(after) if copied.entries().0.len() == wanted => At::Key(after),
            _ => At::End,
        }
    }
}
