//! Private copies of leaves, or of a few of their rows: the leaf is found by a key, and copied within one validation.
//!
//! What is copied belongs to one state of the leaf, which the [`Stamp`] returned names: who locks rows afterwards can ask
//! whether it still is in that state.

use crate::error::Result;
use crate::leaf::{self, LeafCopy};
use crate::page::Page;
use crate::tree::descend::{Missing, Patience, Stamp};
use crate::tree::{Ahead, Tree};
use foreshore_base::{PageId, Restart};
use std::ops::Bound;

impl Tree {
    /// Copies the leaf that covers `key`, trying page `hint` first.
    pub(crate) fn copy_leaf(&self, hint: Option<PageId>, key: &[u8], copy: &mut LeafCopy) -> Result<Stamp> {
        let stamp = self.copy_by(hint, key, copy, |copy, page| {
            copy.take(page);
            Ok(())
        })?;
        self.pool.prefetch(copy.right());
        Ok(stamp)
    }

    /// Copies a few rows of the leaf that covers `key`, from it on or, not `inclusive`, behind it; tries page `hint` first.
    pub(crate) fn copy_above(
        &self,
        hint: Option<PageId>,
        (key, inclusive): (&[u8], bool),
        few: usize,
        copy: &mut LeafCopy,
    ) -> Result<Stamp> {
        self.copy_by(hint, key, copy, |copy, page| copy.take_above(page, key, inclusive, few))
    }

    /// Copies a few rows up to the upper bound `to`; without one, the last leaf.
    pub(crate) fn copy_below(&self, to: &Bound<Vec<u8>>, copy: &mut LeafCopy) -> Result<Stamp> {
        let (key, inclusive) = match to {
            Bound::Unbounded => return Ok(self.copy_leaf_before(None, copy)?.0),
            Bound::Included(key) => (key, true),
            Bound::Excluded(key) => (key, false),
        };
        self.copy_by(None, key, copy, |copy, page| copy.take_below(page, key, inclusive))
    }

    /// Copies what comes above the rows copied: all of their leaf, if only a few of its rows were, or the next leaf. Returns the
    /// number of the first row that comes; `None` where the table ends. `ahead` and `to` are those of the walk.
    pub(crate) fn copy_further_up(
        &self,
        copy: &mut LeafCopy,
        ahead: &mut Ahead,
        to: &Bound<Vec<u8>>,
    ) -> Result<Option<(Stamp, usize)>> {
        if copy.rows().end < copy.len() {
            let last = copy.row(copy.rows().end - 1)?.key.to_vec();
            let stamp = self.copy_leaf(Some(copy.id()), &last, copy)?;
            return Ok(Some((stamp, copy.upper_bound(&last)?)));
        }
        let Some(high) = copy.high_fence().map(<[u8]>::to_vec) else { return Ok(None) };
        let right = copy.right();
        let cold = self.is_on_disk(right);
        let stamp = self.copy_leaf(Some(right), &high, copy)?;
        ahead.came_to(self, copy, cold, to);
        // The neighbour may have been absorbed into a leaf that begins further left.
        Ok(Some((stamp, copy.lower_bound(&high)?)))
    }

    /// The same downwards. Returns how many rows are below those that were copied before.
    pub(crate) fn copy_further_down(
        &self,
        copy: &mut LeafCopy,
        ahead: &mut Ahead,
        to: &Bound<Vec<u8>>,
    ) -> Result<Option<(Stamp, usize)>> {
        if copy.rows().start > 0 {
            let first = copy.row(copy.rows().start)?.key.to_vec();
            let stamp = self.copy_leaf(Some(copy.id()), &first, copy)?;
            return Ok(Some((stamp, copy.lower_bound(&first)?)));
        }
        let low = copy.low_fence().to_vec();
        if low.is_empty() {
            return Ok(None);
        }
        let (stamp, cold) = self.copy_leaf_before(Some(&low), copy)?;
        ahead.came_to(self, copy, cold, to);
        // The neighbour may have absorbed that leaf, and then reaches further right.
        Ok(Some((stamp, copy.lower_bound(&low)?)))
    }

    /// Copies what `take` takes of the leaf that covers `key`, trying page `hint` first.
    fn copy_by(
        &self,
        hint: Option<PageId>,
        key: &[u8],
        copy: &mut LeafCopy,
        take: impl Fn(&mut LeafCopy, Page<'_>) -> Result<(), Restart>,
    ) -> Result<Stamp> {
        let mut stamp = Stamp::default();
        let take = |page: Page<'_>| {
            stamp = Stamp::of(page);
            take(copy, page)
        };
        match hint {
            Some(hint) => self.read_leaf_near(hint, key, take)?,
            None => self.read_leaf(key, take)?,
        }
        copy.interpret()?;
        Ok(stamp)
    }

    /// Copies the leaf that covers the keys just below `bound`; without a bound, the last one. Says whether the leaf that the
    /// index named had to be read from disk.
    pub(crate) fn copy_leaf_before(
        &self,
        bound: Option<&[u8]>,
        copy: &mut LeafCopy,
    ) -> Result<(Stamp, bool)> {
        let mut patience = Patience::default();
        loop {
            let start = match bound {
                Some(bound) => self.index.seek_before(bound),
                None => self.index.last(),
            };
            let mut missing = Missing::Unproven;
            if let Some(start) = start.map(PageId) {
                let cold = self.pool.is_on_disk(start);
                let mut take = |page: Page<'_>| {
                    copy.take(page);
                    Ok(Stamp::of(page))
                };
                if let Some(stamp) = self.read_before(start, bound, &mut take)? {
                    copy.interpret()?;
                    return Ok((stamp, cold));
                }
                missing =
                    self.misses_leaf_on(start, |page, id| leaf::route_before(page, self.id, id, bound))?;
            }
            patience.wait(self, missing)?;
        }
    }
}
