//! May a new key go here? Only if no other transaction protects the gap that it goes into.
//!
//! A gap is named by the key above it, ghosts included, or by the table's end. A scanner that relies on a gap being empty
//! locks it and *then* validates the leaves in which it lies. An inserter looks for such a lock while it holds the latch
//! of the leaf that will change: so either it sees the lock, or the scanner sees the leaf changed.
//!
//! Source: ARIES/KVL (Mohan, VLDB 1990); OLFIT §5.4 for next-key locking on a B-link tree. Differs: an inserter holds no
//! lock on the gap, since its latch orders it before or after every scanner.
//!
//! Invariant I1: between the look at the gap's lock and the insertion, the gap's name does not change: the leaf is
//! latched, and leaves to its right that were consulted are validated after the look.

use crate::bounds::RawBounds;
use crate::error::Result;
use crate::leaf;
use crate::lock::{Gap, Owner, Point, Reach};
use crate::page::Page;
use crate::tree::Tree;
use crate::tree::descend::{Latched, malformed};
use crate::tree::obstacle::Obstacle;
use foreshore_base::sync::{Ordering::SeqCst, fence};
use foreshore_base::{Optimistic, PageId, Restart, seeded_bug};
use std::ops::Bound;

impl Tree {
    /// Looks at the gap that `key`, which is not in the latched leaf, would go into: does anything keep `owner` out of it?
    pub(super) fn gap_for(&self, owner: Owner, leaf: &Latched<'_>, key: &[u8]) -> Result<Option<Obstacle>> {
        if !self.has_scanners() {
            return Ok(None);
        }
        if let Some(closed) = self.span_around(owner, key) {
            return Ok(Some(closed));
        }
        let page = leaf.at.page;
        loop {
            let mut consulted = Vec::new();
            let next = match leaf::next_key(page, key).map_err(|Restart| malformed(page))? {
                Some(next) => Some(next),
                None => match self.first_key_right_of(page, &mut consulted)? {
                    Ok(next) => next,
                    Err(absent) => return Ok(Some(Obstacle::Absent(absent))),
                },
            };
            let keys = &self.core.txns.keys;
            let name = next.as_ref().map_or_else(|| keys.end_of(self.id), |next| keys.name(self.id, next));
            let point = Point { gap: name, at: Reach::down_to(key, next.as_deref()) };
            let gap = keys.look_at_gap(owner, point);
            if consulted.iter().any(|read| read.validate().is_err()) {
                continue;
            }
            if let Gap::Own(reach) = gap
                && !seeded_bug("txn_own_gap_not_kept")
            {
                self.keep_own_gap(owner, page, key, reach)?;
            }
            return Ok((gap == Gap::Closed && !seeded_bug("txn_gap_ignored")).then_some(Obstacle::Gap(point)));
        }
    }

    /// `owner` is about to put a row into its own gap, with the leaf latched, and keeps the part below: by a lock of the row's name; or, if it is
    /// large, and that part lies in this leaf, as a range with the row, which it has locked (G1 in `ranges.rs`).
    fn keep_own_gap(&self, owner: Owner, page: Page<'_>, key: &[u8], reach: Reach) -> Result<()> {
        let part = if self.large_ones.are_any() { part_below(page, key, reach)? } else { None };
        if !part.is_some_and(|part| self.spans.note_range(owner, part)) {
            let keys = &self.core.txns.keys;
            keys.keep_gap(owner, keys.name(self.id, key), reach);
        }
        Ok(())
    }

    /// May somebody protect a gap of the leaf that the caller has latched, or rely on a void there? If not, nobody does until it is
    /// unlatched.
    pub(super) fn has_scanners(&self) -> bool {
        // ORDERING: the latch was taken before this fence, and a scanner counts itself before it loads latch words
        // (SeqCst, `Txn::begin_scanning`): who is not counted here will find the leaf latched or changed.
        fence(SeqCst);
        self.scanners.load(SeqCst) != 0 || self.spans.any()
    }

    /// The lowest key to the right of this leaf, which is latched; the reads that this rests on are added to `consulted`.
    /// `Err`: this page is not in memory, or latched.
    fn first_key_right_of<'a>(
        &'a self,
        leaf: Page<'_>,
        consulted: &mut Vec<Optimistic<'a>>,
    ) -> Result<Result<Option<Vec<u8>>, PageId>> {
        let (mut at, mut steps) = (leaf.right(), 0);
        while !at.is_none() {
            if at == leaf.id() {
                return Err(self.leaves_in_a_circle()); // its latch would be waited for, by its holder
            }
            let Some(frame) = self.pool.resident(at) else {
                // Were it absorbed, then into a leaf consulted before, or the latched one: neither links to it any more.
                let is_gone = self.pool.is_gone(at) && consulted.iter().all(|read| read.validate().is_ok());
                self.ensure_not_dropped()?; // then leaves go in any order
                return if is_gone { Err(self.leaf_is_missing()) } else { Ok(Err(at)) };
            };
            // Not waited for: who has the latch may have it of another page by now, and wait for ours.
            let Ok(read) = frame.page.latch().try_optimistic() else { return Ok(Err(at)) };
            let first = leaf::first_key(frame.page);
            let (id, dead, right) = (frame.page.id(), frame.page.is_dead(), frame.page.right());
            if read.validate().is_err() || id != at {
                continue;
            }
            // If absorbed between two looks, its rows went left, into a leaf consulted before, which will not validate.
            if !dead {
                let first = first.map_err(|Restart| malformed(frame.page))?;
                consulted.push(read);
                if first.is_some() {
                    return Ok(Ok(first));
                }
            }
            at = right;
            self.count_step(&mut steps)?;
        }
        Ok(Ok(None))
    }
}

/// `key`, which is not in this latched leaf, and so much below it of the gap that it goes into as a lock with this reach covers. `None`:
/// that lies in other leaves, too, or cannot be told.
fn part_below(page: Page<'_>, key: &[u8], reach: Reach) -> Result<Option<RawBounds>> {
    let Some(lowest) = reach.lowest(key) else { return Ok(None) };
    let before = leaf::previous_key(page, key).map_err(|Restart| malformed(page))?;
    let lower = match before {
        Some(before) if before >= lowest => Bound::Excluded(before),
        None if page.low_fence().is_none_or(|fence| lowest < fence) => return Ok(None),
        _ => Bound::Included(lowest),
    };
    Ok(Some((lower, Bound::Included(key.to_vec()))))
}

#[cfg(test)]
mod tests {
    use crate::Database;
    use crate::tree::testing::{A_WHILE, comes_true, with_leaves};
    use foreshore_base::sync::Ordering::SeqCst;
    use std::thread;

    /// The leaf that the gap ends in may leave its frame while its latch is waited for, and whoever has that next may wait for
    /// the leaf that is going to change.
    #[test]
    fn who_inserts_waits_for_no_other_page() {
        let db = Database::in_memory().unwrap();
        let table = with_leaves(&db, [b"a", b"b", b"c"]);
        let tree = &table.tree;
        let [left, leaf, right] = [b"a", b"b", b"c"].map(|key| tree.seek(key).unwrap());
        tree.pool.flush_all().unwrap();
        tree.pool.evict_now(left);
        tree.scanners.fetch_add(1, SeqCst);
        thread::scope(|scope| {
            let held = tree.latch_leaf(b"c").unwrap();
            let inserter = scope.spawn(|| table.insert(b"bb", b"4"));
            thread::sleep(A_WHILE);
            tree.pool.hand_over(held.at.frame, right, left);
            let is_latched = || tree.pool.resident(leaf).is_some_and(|at| at.page.latch().is_latched());
            let gives_up = comes_true(|| !is_latched());
            drop(held.latch);
            assert!(inserter.join().unwrap().unwrap());
            assert!(gives_up, "it has the leaf to the right of the page that it waits for");
        });
        tree.scanners.fetch_sub(1, SeqCst);
        assert_eq!(table.range(..).count(), 4);
        db.check().unwrap();
    }
}
