//! Removing ghosts: cells of keys that were removed, once no snapshot needs them and nobody has them locked.

use crate::error::Result;
use crate::leaf::{self, Place};
use crate::tree::Tree;
use crate::tree::descend::malformed;
use crate::version::{Version, Writer};
use foreshore_base::{PageId, Restart, seeded_bug};
use std::ops::ControlFlow;

impl Tree {
    /// Removes the ghost that `author` left of `key`, or that nobody in particular did; `false` if somebody has locked
    /// the key or the gap before it. Every open snapshot must be later than the ghost. `near`: the leaf of the ghost before, which
    /// is looked at first; then the leaf of this one.
    pub fn purge(&self, near: &mut PageId, key: &[u8], author: u64) -> Result<bool> {
        self.purge_if(near, key, |version| version.author() == author || version.writer() == Writer::Anyone)
    }

    /// Removes the ghosts that nobody needs from the leaf of `key`: one that is full, as a restart forgets who was to remove them, or
    /// one whose ghosts somebody had locked when they were to be removed. As long as a snapshot needs a ghost, the key table has an image of the row; its author, as long
    /// as it runs, has the key locked.
    pub fn purge_forgotten(&self, key: &[u8]) -> Result<()> {
        let keys = &self.core.txns.keys;
        let mut near = PageId::NONE;
        for ghost in self.read_leaf(key, leaf::ghosts)? {
            let name = keys.name(self.id, &ghost);
            let has_image = || keys.images(name, self.id, &ghost, |_| ControlFlow::Break(())).is_some();
            let is_needed = || has_image() && !seeded_bug("txn_needed_ghost_purged");
            if !is_needed() {
                self.purge_if(&mut near, &ghost, |_| !is_needed())?;
            }
        }
        Ok(())
    }

    /// Removes the ghost of `key`, if there is one, and it is `due`; `false` if somebody has locked the key or the gap before
    /// it.
    fn purge_if(&self, near: &mut PageId, key: &[u8], due: impl Fn(Version) -> bool) -> Result<bool> {
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
        let quiet = !due || keys.is_quiet(keys.name(self.id, key), None);
        if !due || !quiet {
            leaf.latch.release_unchanged();
            return Ok(!due);
        }
        self.remove_cell(leaf, place, key);
        Ok(true)
    }
}
