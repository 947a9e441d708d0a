//! Rows without versions: written and removed by log records that commit by themselves, without locks, gaps or images.
//!
//! For rows that no reader looks for while they come or go, such as the chunks of large values (`blob`).

use crate::error::Result;
use crate::leaf::{self, Change, Place};
use crate::tree::Tree;
use crate::tree::descend::{Latched, malformed};
use crate::version::Version;
use foreshore_base::Restart;

impl Tree {
    /// Sets the value of `key`.
    pub fn put_unversioned(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_cell(key, value, Version::SETTLED)
    }

    /// Sets the value of `key`, and its version word, which is kept for who asks for it, in memory only.
    pub fn put_cell(&self, key: &[u8], value: &[u8], version: Version) -> Result<()> {
        loop {
            self.core.log.room()?;
            let leaf = self.latch_leaf(key)?;
            let Some(place) = leaf::place(leaf.at.page, key, value.len())? else {
                leaf.latch.release_unchanged();
                self.split(key, value.len())?;
                continue;
            };
            let change = Change::Put { page: leaf.at.page.id(), table: self.id, key, value };
            self.write_logged(leaf, place, key, value, version, &change.encoded())?;
            return Ok(());
        }
    }

    /// Removes `key`, if it is there.
    pub fn remove_unversioned(&self, key: &[u8]) -> Result<()> {
        self.core.log.room()?;
        let leaf = self.latch_leaf(key)?;
        let place = Place::find(leaf.at.page, key).map_err(|Restart| malformed(leaf.at.page))?;
        if place.cell().is_none() {
            leaf.latch.release_unchanged();
            return Ok(());
        }
        self.remove_cell(leaf, place, key);
        Ok(())
    }

    /// Removes the cell of `key`, which has this place in the latched leaf, by a record of its own; tidies up behind it.
    pub(super) fn remove_cell(&self, leaf: Latched<'_>, place: Place, key: &[u8]) {
        let Latched { at, latch, .. } = leaf;
        self.pool.before_change(at.frame);
        place.remove(at.page);
        let underfull = leaf::is_underfull(at.page) == Ok(true);
        self.log_change(
            at.page,
            latch,
            &Change::Remove { page: at.page.id(), table: self.id, key }.encoded(),
        );
        if underfull {
            // The row is gone, whatever becomes of the tidying up.
            let _ = self.absorb_around(key);
        }
    }
}
