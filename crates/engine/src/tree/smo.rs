//! Structure modifications: split and absorb.
//!
//! Each is one redo-only log record over two neighbouring leaves, applied to both under their latches; the index hears
//! of it afterwards (T3). A crash before the index hears loses nothing: the index is rebuilt from the leaves.
//!
//! A new leaf is absorbed only when the index has heard of it. If it were absorbed before, whoever split it off would then post an
//! entry for a dead page, which nobody would ever remove: the way to the keys above would be lost for good.
//!
//! Source: OLFIT §5.1 (splits go left to right, right link first) and §5.3 (an emptied node keeps its link); Shore-MT's
//! successor Zero for one record per structure modification.

use crate::error::Result;
use crate::leaf::{self, Absorb, Split};
use crate::log::Log;
use crate::page::Page;
use crate::pool::{FramePage, NewPage};
use crate::tree::Tree;
use crate::tree::descend::Latched;
use foreshore_base::sync::{Backoff, Ordering::Relaxed};
use foreshore_base::{Exclusive, Lsn, PageId};
use std::ops::Bound;

/// How often a latch is tried before it counts as held for ever: for about a second, by far longer than a change of a leaf takes.
const TRIES: usize = 1_000_000;

impl Tree {
    /// Splits the leaf of `key`, unless it has room for a value of `key` with `value_len` bytes by now, or without ghosts that
    /// nobody needs.
    pub(super) fn split(&self, key: &[u8], value_len: usize) -> Result<()> {
        self.purge_forgotten(key)?;
        self.split_with(key, value_len, Log::room)
    }

    /// The same for a rollback, which may use the room in the log that was kept back for it. Ghosts stay: at a restart locks
    /// and images of prepared transactions may not be back yet.
    pub(super) fn split_to_undo(&self, key: &[u8], value_len: usize) -> Result<()> {
        self.split_with(key, value_len, Log::room_to_undo)
    }

    fn split_with(&self, key: &[u8], value_len: usize, room: fn(&Log) -> Result<()>) -> Result<()> {
        self.split_leaf(key, room, |page, fresh| match leaf::place(page, key, value_len)? {
            Some(_) => Ok(None),
            None => Split::plan(page, fresh, key, value_len).map(Some),
        })
    }

    /// Splits the leaf of `key` between that and another key of the same leaf, if it still holds rows of either side.
    pub(super) fn part(&self, key: &[u8], other: &[u8]) -> Result<()> {
        let separator = leaf::separator(key.min(other), key.max(other));
        self.split_leaf(key, Log::room, |page, fresh| Split::at(page, fresh, separator))
    }

    /// Splits the leaf of `key` as `plan` says, given the leaf and the id of its new right neighbour; `None`: not at all.
    fn split_leaf(
        &self,
        key: &[u8],
        room: fn(&Log) -> Result<()>,
        plan: impl FnOnce(Page<'_>, PageId) -> Result<Option<Split>>,
    ) -> Result<()> {
        let (fresh, left) = self.latch_leaf_beside_new(key, room)?;
        let Some(split) = plan(left.at.page, fresh.pid())? else {
            left.latch.release_unchanged();
            return Ok(());
        };
        self.carry_out(&split, left, fresh);
        self.core.splits.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Splits the latched leaf as planned; its new right neighbour is `fresh`. Returns the end of the record.
    pub(super) fn carry_out(&self, split: &Split, left: Latched<'_>, fresh: NewPage<'_>) -> Lsn {
        let Latched { at, latch, .. } = left;
        let right_latch = fresh.page().latch().exclusive();
        self.pool.before_change(at.frame);
        self.pool.before_change(fresh.frame_page().frame);
        let body = split.change().encoded(); // before others' commits wait for it
        let record = self.core.log.reserve(body.len());
        split.apply(at.page, fresh.page(), record.end());
        let (right, end) = (fresh.publish().page.id(), record.end());
        drop(right_latch);
        drop(latch);
        self.core.log.fill(record, &body);
        self.post(split.separator(), right);
        end
    }

    /// Merges the underfull leaf of `key` with its right or, failing that, its left neighbour, if the two fit well into
    /// one leaf. Gives up rather than wait: a leaf that stays underfull is no fault.
    pub(super) fn absorb_around(&self, key: &[u8]) -> Result<()> {
        let (right, low) = self.read_leaf(key, |page| Ok((page.right(), page.low_fence())))?;
        if !right.is_none() && self.absorb(key, right)? {
            return Ok(());
        }
        match low {
            Some(low) if !low.is_empty() => self.absorb_into_left(&low).map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Lets the leaf before the one with the low fence `low` absorb it.
    fn absorb_into_left(&self, low: &[u8]) -> Result<bool> {
        let Some(left) = self.index.seek_before(low) else { return Ok(false) };
        let Some(left) = self.pool.page(PageId(left))? else { return Ok(false) };
        if leaf::is_past_absorbing(left.page) {
            return Ok(false);
        }
        let Some(left_low) = left.page.low_fence() else { return Ok(false) };
        let here = self.seek(low)?;
        self.absorb(&left_low, here)
    }

    /// Lets the leaf of `key` absorb `neighbour`, if that is its right neighbour and both fit into one.
    fn absorb(&self, key: &[u8], neighbour: PageId) -> Result<bool> {
        self.core.log.room()?;
        // Both must be in memory before the first latch is taken.
        if self.pool.page(neighbour)?.is_none_or(|neighbour| leaf::is_past_absorbing(neighbour.page)) {
            return Ok(false);
        }
        // Before there is a dead leaf, which lookups cannot pass until its entry is gone: no check comes in between.
        let change = self.index.change();
        let left = self.latch_leaf(key)?;
        let Some((right, right_latch)) = self.latch_neighbour(left.at.page, neighbour) else {
            left.latch.release_unchanged();
            return Ok(false);
        };
        let planned = Absorb::plan(left.at.page, right.page)?.zip(right.page.low_fence());
        let is_posted = |low_fence: &[u8]| self.index.get(low_fence) == Some(neighbour.0);
        let Some((absorb, separator)) = planned.filter(|(_, separator)| is_posted(separator)) else {
            right_latch.release_unchanged();
            left.latch.release_unchanged();
            return Ok(false);
        };
        self.pool.before_change(left.at.frame);
        self.pool.before_change(right.frame);
        let body = absorb.change().encoded(); // before others' commits wait for it
        let record = self.core.log.reserve(body.len());
        let end = record.end();
        absorb.apply(left.at.page, right.page, end);
        self.core.absorbs.fetch_add(1, Relaxed); // before anybody sees it (`check.rs`)
        drop(right_latch);
        drop(left.latch);
        // First of all: until then lookups cannot pass the dead leaf, and its record may have to wait for the device.
        change.unpost(&separator, neighbour.0);
        self.core.log.fill(record, &body);
        self.pool.free_page(neighbour, end);
        Ok(true)
    }

    /// Gives all leaves of a dropped table back. Its catalog row is durably gone, so nothing of this is logged: a
    /// crash in between leaves leaves without a table, which the next open frees. Leaves that are only on disk are not read for this.
    pub fn free_leaves(&self) {
        // Nobody absorbs a leaf meanwhile, and frees it: so each entry leads to one of ours that is there.
        let _still = self.index.close();
        for (_, page) in self.index.range(Bound::Unbounded, Bound::Unbounded) {
            self.free_leaf(PageId(page));
        }
    }

    /// How many leaves the index knows.
    pub fn count_leaves(&self) -> u64 {
        self.index.range(Bound::Unbounded, Bound::Unbounded).count() as u64
    }

    /// Tells the index of a leaf that was split off. If the table was dropped meanwhile, that goes as the others have gone.
    pub(super) fn post(&self, low_fence: &[u8], leaf: PageId) {
        if !self.index.post(low_fence, leaf.0) {
            self.free_leaf(leaf);
        }
    }

    fn free_leaf(&self, leaf: PageId) {
        while let Some(at) = self.pool.free_unread(leaf) {
            let latch = at.page.latch().exclusive();
            if at.page.id() != leaf {
                latch.release_unchanged();
                continue;
            }
            self.pool.before_change(at.frame);
            at.page.set_dead();
            let last_change = at.page.lsn();
            drop(latch);
            return self.pool.free_page(leaf, last_change);
        }
    }

    /// Latches `neighbour` if it is resident and right of `left`, whose latch the caller holds.
    fn latch_neighbour(&self, left: Page<'_>, neighbour: PageId) -> Option<(FramePage<'_>, Exclusive<'_>)> {
        if left.right() != neighbour || left.id() == neighbour {
            return None;
        }
        // It cannot be gone while its left is latched, but for its frame.
        self.latch_resident(neighbour).filter(|(right, _)| !right.page.is_dead())
    }

    /// Latches a page if it is resident, for who holds the latch of the leaf before it. `None` also after [`TRIES`]: in a
    /// damaged chain its holder may be waiting for what the caller holds.
    pub(super) fn latch_resident(&self, page: PageId) -> Option<(FramePage<'_>, Exclusive<'_>)> {
        let mut backoff = Backoff::new();
        for _ in 0..TRIES {
            // Asked for each time: who has the latch may be about to give the frame to another page, and who has that then may
            // wait for the leaf before.
            let at = self.pool.resident(page)?;
            if let Some(latch) = at.page.latch().try_exclusive() {
                // The frame may hold another page by now.
                return (at.page.id() == page).then_some((at, latch));
            }
            backoff.wait();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::Database;
    use crate::log::Reservation;
    use crate::tree::testing::{A_WHILE, comes_true, with_leaves};
    use foreshore_io::MemVfs;
    use std::sync::Arc;
    use std::thread;

    /// Who has split it off is about to post it, and must not post a dead one.
    #[test]
    fn a_leaf_is_absorbed_once_it_is_posted() {
        let db = Database::in_memory().unwrap();
        let table = with_leaves(&db, [b"a", b"b"]);
        let tree = &table.tree;
        let is_parted = || tree.read_leaf(b"a", |page| Ok(!page.right().is_none())).unwrap();
        let leaf = tree.index.get(b"b").unwrap();
        tree.index.change().unpost(b"b", leaf); // as if it were about to be posted
        tree.absorb_around(b"a").unwrap();
        assert!(is_parted());
        assert_eq!(table.get(b"b").unwrap().unwrap(), b"b");
        tree.index.post(b"b", leaf);
        tree.absorb_around(b"a").unwrap();
        assert!(!is_parted());
        assert_eq!(tree.index.get(b"b"), None);
        assert_eq!(table.get(b"b").unwrap().unwrap(), b"b");
        db.check().unwrap();
    }

    /// Also between fences so long that two of them take a third of a leaf.
    #[test]
    fn emptied_leaves_between_long_fences_are_absorbed() {
        let db = Database::builder().leaf_bytes(4096).open_on(Arc::new(MemVfs::new())).unwrap();
        let table = db.byte_table("t").unwrap();
        let key = |n: u32| [&[b'k'; 800][..], &n.to_be_bytes()].concat();
        (0..600).for_each(|n| table.put(&key(n), b"").unwrap());
        assert!(db.check().unwrap().tables[1].leaves > 100);
        // Not at the ends, where one fence is short, or none.
        (30..570).for_each(|n| assert!(table.remove(&key(n)).unwrap()));
        let leaves = db.check().unwrap().tables[1].leaves;
        assert!(leaves < 40, "{leaves} leaves for 60 rows");
    }

    /// Lookups go on while an index is checked, though what would change it waits.
    #[test]
    fn rows_of_an_absorbed_leaf_are_found_while_the_index_stands_still() {
        let db = Database::in_memory().unwrap();
        let table = with_leaves(&db, [b"a", b"b"]);
        let tree = &table.tree;
        thread::scope(|scope| {
            let still = tree.index.stand_still();
            let absorber = scope.spawn(|| tree.absorb_around(b"a"));
            thread::sleep(A_WHILE);
            let reader = scope.spawn(|| table.get(b"b"));
            let found = comes_true(|| reader.is_finished());
            drop(still);
            absorber.join().unwrap().unwrap();
            assert_eq!(reader.join().unwrap().unwrap().unwrap(), b"b");
            assert!(found, "it waits for the check");
        });
        assert_eq!(tree.index.get(b"b"), None);
        db.check().unwrap();
    }

    /// They go on also while the record of the absorption waits for room in the log's buffer, which takes as long as the device does.
    #[test]
    fn rows_of_an_absorbed_leaf_are_found_while_the_log_is_full() {
        let db = Database::in_memory().unwrap();
        let table = with_leaves(&db, [b"a", b"b"]);
        let (tree, log) = (&table.tree, &table.tree.core.log);
        thread::scope(|scope| {
            let still = tree.index.stand_still();
            let absorber = scope.spawn(|| tree.absorb_around(b"a"));
            thread::sleep(A_WHILE); // it has asked for room
            // So have others, who take all of it, and none of their records is complete.
            let full = log.reserved() + log.ring_bytes() as u64;
            let mut records = Vec::new();
            while log.reserved() < full {
                records.push(log.reserve(1000));
            }
            drop(still);
            thread::sleep(A_WHILE);
            let reader = scope.spawn(|| table.get(b"b"));
            let found = comes_true(|| reader.is_finished());
            records.into_iter().for_each(Reservation::abandon);
            absorber.join().unwrap().unwrap();
            assert_eq!(reader.join().unwrap().unwrap().unwrap(), b"b");
            assert!(found, "it waits for the log");
        });
        assert_eq!(tree.index.get(b"b"), None);
        db.check().unwrap();
    }

    /// The neighbour may leave its frame while its latch is waited for, and whoever has that next may wait for this leaf.
    #[test]
    fn who_absorbs_waits_for_no_other_page() {
        let db = Database::in_memory().unwrap();
        let table = with_leaves(&db, [b"a", b"b", b"c"]);
        let tree = &table.tree;
        let [left, leaf, right] = [b"a", b"b", b"c"].map(|key| tree.seek(key).unwrap());
        tree.pool.flush_all().unwrap();
        tree.pool.evict_now(left);
        thread::scope(|scope| {
            let held = tree.latch_leaf(b"c").unwrap();
            let absorber = scope.spawn(|| tree.absorb_around(b"b"));
            thread::sleep(A_WHILE);
            tree.pool.hand_over(held.at.frame, right, left);
            let is_latched = || tree.pool.resident(leaf).is_some_and(|at| at.page.latch().is_latched());
            let gives_up = comes_true(|| !is_latched());
            drop(held.latch);
            absorber.join().unwrap().unwrap();
            assert!(gives_up, "it has the leaf to the right of the page that it waits for");
        });
        db.check().unwrap();
    }

    /// Who splits a leaf has a frame for the new one. If all have one and wait for another, to read their leaves, none will come.
    #[test]
    fn who_has_a_frame_waits_for_no_other_one() {
        let tiny = Database::builder().leaf_bytes(4096).cache_bytes(64 * 4096).ring_bytes(64 << 10);
        let db = tiny.open_on(Arc::new(MemVfs::new())).unwrap();
        let table = db.byte_table("t").unwrap();
        table.put_many(&[(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]).unwrap();
        let tree = &table.tree;
        tree.part(b"b", b"c").unwrap();
        let leaves = [b"b", b"c"].map(|key| tree.seek(key).unwrap());
        tree.pool.flush_all().unwrap();
        leaves.iter().for_each(|leaf| tree.pool.evict_now(*leaf));
        thread::scope(|scope| {
            let frames = tree.pool.stats().frames - 2; // two are kept back (`pool/clock.rs`)
            let mut others: Vec<_> = (1..frames).map(|_| tree.pool.allocate().unwrap()).collect();
            let splitter = scope.spawn(|| tree.part(b"a", b"b"));
            thread::sleep(A_WHILE);
            let reader = scope.spawn(|| table.get(b"c"));
            let found = comes_true(|| reader.is_finished());
            others.truncate(2);
            splitter.join().unwrap().unwrap();
            assert_eq!(reader.join().unwrap().unwrap().unwrap(), b"3");
            assert!(found, "the last frame is kept by who waits for one");
        });
        assert_ne!(tree.seek(b"a").unwrap(), tree.seek(b"b").unwrap());
        db.check().unwrap();
    }

    /// Whose place another leaf has taken by now.
    #[test]
    fn an_entry_that_leads_elsewhere_stays() {
        let db = Database::in_memory().unwrap();
        let table = with_leaves(&db, [b"a", b"b"]);
        let tree = &table.tree;
        let leaf = tree.index.get(b"b").unwrap();
        tree.index.change().unpost(b"b", leaf + 1);
        assert_eq!(tree.index.get(b"b"), Some(leaf));
    }
}
