//! Changing one row.
//!
//! The order is that of the design ("put / remove"): room in the log, latch, recheck, note `rec_lsn`, reserve, change,
//! page LSN, unlatch, copy the record. Everything before the latch may wait, nothing after it does until it is given
//! back.

use crate::error::Result;
use crate::leaf::{self, Change, Outcome};
use crate::log::Reservation;
use crate::tree::descend::Latched;
use crate::tree::{Core, Tree};
use foreshore_base::Lsn;

/// The version word of a cell that no transaction wrote: visible to everyone.
const AUTOCOMMIT: u64 = 0;

impl Tree {
    /// Sets the value of `key`; returns the end of its log record, whose fate decides the change's.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<Lsn> {
        self.ensure_fits(key, value)?;
        loop {
            self.core.log.room()?;
            if let Some(end) = self.write_cell(self.latch_leaf(key)?, key, value)? {
                return Ok(end);
            }
            self.split(key, value)?;
        }
    }

    /// Sets the value of `key` unless it has one.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Lsn>> {
        self.ensure_fits(key, value)?;
        loop {
            self.core.log.room()?;
            let leaf = self.latch_leaf(key)?;
            if leaf.holds(key)? {
                leaf.latch.release_unchanged();
                return Ok(None);
            }
            if let Some(end) = self.write_cell(leaf, key, value)? {
                return Ok(Some(end));
            }
            self.split(key, value)?;
        }
    }

    /// Removes `key`, if it is there.
    pub fn remove(&self, key: &[u8]) -> Result<Option<Lsn>> {
        self.ensure_fits(key, &[])?;
        self.core.log.room()?;
        let leaf = self.latch_leaf(key)?;
        if !leaf.holds(key)? {
            leaf.latch.release_unchanged();
            return Ok(None);
        }
        let Latched { at, latch } = leaf;
        self.core.pool.before_change(at.frame);
        leaf::remove(at.page, key)?;
        let change = Change::Remove { page: at.page.id(), table: self.id, key };
        let record = self.core.log.reserve(change.encoded_len());
        at.page.set_lsn(record.end());
        let underfull = leaf::is_underfull(at.page) == Ok(true);
        drop(latch);
        let end = self.core.append(record, &change);
        if underfull {
            // The row is gone, whatever becomes of the tidying up: a full disk here must not say that nothing was changed.
            let _ = self.absorb_around(key);
        }
        Ok(Some(end))
    }

    /// Writes the cell and its record, if the leaf has room.
    fn write_cell(&self, leaf: Latched<'_>, key: &[u8], value: &[u8]) -> Result<Option<Lsn>> {
        let Latched { at, latch } = leaf;
        self.core.pool.before_change(at.frame);
        if leaf::upsert(at.page, key, value, AUTOCOMMIT)? == Outcome::NoRoom {
            return Ok(None);
        }
        let change = Change::Put { page: at.page.id(), table: self.id, version: AUTOCOMMIT, key, value };
        let record = self.core.log.reserve(change.encoded_len());
        at.page.set_lsn(record.end());
        drop(latch);
        Ok(Some(self.core.append(record, &change)))
    }
}

impl Core {
    /// Copies a change into its place in the log; returns the record's end.
    pub fn append(&self, record: Reservation<'_>, change: &Change<'_>) -> Lsn {
        let end = record.end();
        let mut body = Vec::with_capacity(change.encoded_len());
        change.encode(&mut body);
        self.log.fill(record, &[&body]);
        end
    }
}
