//! Removing ghosts: cells of keys that were removed, once no snapshot needs them and nobody has them locked.

use crate::db::catalog::TEMPORARY;
use crate::error::Result;
use crate::leaf::{self, Place};
use crate::lock::Owner;
use crate::tree::Tree;
use crate::tree::descend::malformed;
use crate::version::{Version, Writer};
use foreshore_base::{PageId, Restart, seeded_bug};

impl Tree {
    /// Removes the ghost that `author` left of `key`, or that nobody in particular did; `false` if somebody else than `owner` has
    /// locked the key or the gap before it. No open snapshot may see the row. `near`: the leaf of the ghost before, which is looked
    /// at first; then the leaf of this one.
    pub fn purge(&self, owner: Option<Owner>, near: &mut PageId, key: &[u8], author: u64) -> Result<bool> {
        self.purge_if(owner, near, key, |version| is_by(version, author))
    }

    /// Removes the ghosts that nobody needs from the leaf of `key`: one that is full, as a restart forgets who was to remove them, or
    /// one whose ghosts somebody had locked when they were to be removed. The author of a ghost, as long as it runs, has the
    /// key locked.
    pub fn purge_forgotten(&self, key: &[u8]) -> Result<()> {
        if self.id >= TEMPORARY {
            return Ok(()); // what looks like one is a version that somebody has replaced (`txn/spill.rs`)
        }
        let mut near = PageId::NONE;
        for (ghost, known) in self.read_leaf(key, leaf::ghosts)? {
            if !self.is_seen(&ghost) || seeded_bug("txn_needed_ghost_purged") {
                self.purge_if(None, &mut near, &ghost, |version| version == known)?;
            }
        }
        Ok(())
    }

    /// Does an open snapshot see a value of this row, which is a ghost? Then the key table has an image of it, or a spill. Images that say that
    /// the row was absent say no more than the absence of the row would. If none sees one, none will, as long as it is the
    /// same ghost.
    pub fn is_seen(&self, key: &[u8]) -> bool {
        let txns = &self.core.txns;
        let is_spilled = || txns.spills.have(self.id, key) && !seeded_bug("spill_ghost_purged");
        is_spilled() || txns.keys.is_value_kept(txns.keys.name(self.id, key), self.id, key)
    }

    /// Is the ghost that `author` left of `key` still there? Yes also if it takes a read from disk to know.
    pub fn may_have_ghost(&self, key: &[u8], author: u64) -> bool {
        if self.seek(key).is_ok_and(|leaf| self.is_on_disk(leaf)) {
            return true;
        }
        let cell = self.newest_cell(key);
        cell.map_or(true, |cell| {
            cell.is_some_and(|(version, _)| version.is_ghost() && is_by(version, author))
        })
    }

    /// Removes the ghost of `key`, if there is one, and it is `due`; `false` if somebody else than `owner` has locked the key or
    /// the gap before it.
    fn purge_if(
        &self,
        owner: Option<Owner>,
        near: &mut PageId,
        key: &[u8],
        due: impl Fn(Version) -> bool,
    ) -> Result<bool> {
        if self.ensure_not_dropped().is_err() {
            return Ok(true);
        }
        self.core.log.room()?;
        let leaf = self.latch_leaf_near(*near, key)?;
        let page = leaf.at.page;
        *near = page.id();
        let place = Place::find(page, key).map_err(|Restart| malformed(page))?;
        let version = place.cell().map(|cell| Version(cell.version));
        let due = version.is_some_and(|version| version.is_ghost() && due(version));
        let keys = &self.core.txns.keys;
        let name = keys.name(self.id, key);
        let is_claimed = |version| self.claimant(version, 0).is_some();
        let is_free = || !version.is_some_and(is_claimed) || seeded_bug("claim_ghost_purged");
        let quiet = !due || keys.is_quiet(name, owner) && is_free();
        if !due || !quiet {
            leaf.latch.release_unchanged();
            return Ok(!due);
        }
        keys.forget_images(name, self.id, key);
        self.remove_cell(leaf, place, key);
        Ok(true)
    }
}

fn is_by(version: Version, author: u64) -> bool {
    version.author() == author || version.writer() == Writer::Anyone
}

#[cfg(test)]
mod tests {
    use crate::tree::testing::comes_true;
    use crate::{Database, Error};
    use foreshore_io::MemVfs;
    use std::sync::{Arc, mpsc};
    use std::thread;
    use std::time::Duration;

    /// What somebody's large removal has left is not cleared up by who commits something else next, and may have others wait for that.
    #[test]
    fn who_commits_a_little_clears_up_no_large_removal() {
        let db = Database::in_memory().unwrap();
        let [removed, other] = ["removed", "other"].map(|name| db.byte_table(name).unwrap());
        let rows: Vec<_> = (0..2000_u16).map(|row| (row.to_be_bytes(), "")).collect();
        removed.put_many(&rows).unwrap();
        let snapshot = db.snapshot().unwrap();
        removed.remove_range(..).unwrap();
        thread::scope(|scope| {
            let ((latched, is_latched), (committed, has_committed)) = (mpsc::channel(), mpsc::channel());
            let removed = &removed;
            let waits = scope.spawn(move || {
                let first = removed.tree.latch_leaf(&[0, 0]).unwrap();
                latched.send(()).unwrap();
                let is_in_time = has_committed.recv_timeout(Duration::from_secs(5)).is_ok();
                first.latch.release_unchanged();
                is_in_time
            });
            is_latched.recv().unwrap();
            drop(snapshot);
            db.transact(|tx| tx.bytes(&other).put(b"k", b"v")).unwrap();
            let _ = committed.send(());
            assert!(waits.join().unwrap(), "the commit has waited for the leaf of a row that was removed");
        });
    }

    /// To clear up what a large removal has left may take long. Old versions take no more memory meanwhile than they may.
    #[test]
    fn old_versions_are_bounded_beside_a_long_clearing() {
        let db = Database::builder().old_version_bytes(64 << 10).open_on(Arc::new(MemVfs::new())).unwrap();
        let [removed, other] = ["removed", "other"].map(|name| db.byte_table(name).unwrap());
        removed.put_many(&(0..2000_u16).map(|row| (row.to_be_bytes(), "")).collect::<Vec<_>>()).unwrap();
        let put_all = |byte| (0..200_u8).for_each(|row| other.put(&[row], &[byte; 1000]).unwrap());
        put_all(1);
        let snapshot = db.snapshot().unwrap();
        removed.remove_range(..).unwrap();
        // Who throws out what has become pointless has looked at these rows by now: that would wait for the leaf, too.
        thread::sleep(Duration::from_millis(300));
        thread::scope(|scope| {
            let ((latched, is_latched), (done, is_done)) = (mpsc::channel(), mpsc::channel::<()>());
            let removed = &removed;
            scope.spawn(move || {
                let first = removed.tree.latch_leaf(&[0, 0]).unwrap();
                latched.send(()).unwrap();
                let _ = is_done.recv();
                first.latch.release_unchanged();
            });
            is_latched.recv().unwrap();
            drop(snapshot);
            thread::sleep(Duration::from_millis(300)); // who clears up waits for the leaf by now
            let snapshot = db.snapshot().unwrap();
            put_all(2);
            let is_given_up = || matches!(snapshot.bytes(&other).get(&[7]), Err(Error::SnapshotTooOld));
            let is_bounded = comes_true(is_given_up);
            drop(done);
            assert!(is_bounded, "{} bytes of old versions", db.stats().image_bytes);
        });
    }
}
