//! Writing many rows in a transaction: new ones that are neighbours go into their leaf together.
//!
//! Rows that belong together are often written together, with keys that ascend: the lines of an order, the events of a
//! session, a file that is loaded. Most of what it takes to insert one of them is the same for the next: the way to the leaf,
//! its latch, room in the log, the look for scanners, the head of a record. So a *run* of them is inserted under one latch
//! and logged as one record.
//!
//! Only keys without a cell take part: undoing their insertion twice does no harm, so a rollback that a crash breaks off in
//! the middle of the record begins with it again. All else (a row that is there, a full leaf, a large value, a table
//! that somebody scans) is left to [`Tree::write`], one row at a time.

use crate::error::Result;
use crate::leaf::{Change, Place, Route, Rows, Window, route};
use crate::lock::{KeyMode, Name, Reach};
use crate::page::Page;
use crate::pool::FramePage;
use crate::tree::Tree;
use crate::tree::descend::{Latched, malformed};
use crate::tree::single::Intent;
use crate::txn::{Record, Txn};
use crate::version::Version;
use foreshore_base::Restart;
use std::sync::Arc;

/// Rows that are locked before the first of them is written.
const GROUP: usize = 16;

/// A row that is going to be written, and its lock.
struct Named<'r> {
    name: Name,
    key: &'r [u8],
    value: &'r [u8],
}

impl Tree {
    /// Does what `intent` says of its value to each row, in their order; returns how many there was anything to do for. Calls
    /// `make_room` with the length of each value before.
    pub fn write_each<'r>(
        self: &Arc<Self>,
        txn: &mut Txn,
        rows: &[(&'r [u8], &'r [u8])],
        intent: impl Fn(&'r [u8]) -> Intent<'r>,
        make_room: impl Fn(&mut Txn, usize) -> Result<()>,
    ) -> Result<usize> {
        let (mut named, mut changed, mut loaded) = (Vec::with_capacity(GROUP.min(rows.len())), 0, 0);
        for (n, group) in rows.chunks(GROUP).enumerate() {
            txn.ensure_wanted()?;
            self.lock_each(txn, group, &mut named, &make_room)?;
            if rows.len() > GROUP && n * GROUP >= loaded && self.is_on_disk_next(txn, named[0].key)? {
                loaded =
                    n * GROUP + self.load_cold_group(&rows[n * GROUP..], &|row: &(&'r [u8], _)| row.0)?;
            }
            let mut at = 0;
            while let Some(row) = named.get(at) {
                let inserted = self.insert_run(txn, &named[at..])?;
                changed += match inserted {
                    0 => usize::from(self.write(txn, row.key, intent(row.value))?),
                    _ => inserted,
                };
                at += inserted.max(1);
            }
        }
        Ok(changed)
    }

    /// Locks the keys of a group that is going to be written; replaces `named` by its rows.
    fn lock_each<'r>(
        self: &Arc<Self>,
        txn: &mut Txn,
        group: &[(&'r [u8], &'r [u8])],
        named: &mut Vec<Named<'r>>,
        make_room: &impl Fn(&mut Txn, usize) -> Result<()>,
    ) -> Result<()> {
        named.clear();
        for &(key, value) in group {
            make_room(txn, value.len())?;
            self.ensure_fits(key, value)?;
            named.push(Named { name: self.lock_ahead(key), key, value });
        }
        txn.enter(self)?;
        named
            .iter()
            .try_for_each(|row| txn.lock_name(self, row.name, Some(row.key), KeyMode::Exclusive, Reach::NONE))
    }

    /// Is the leaf of this key, which is going to be written next, on disk? A few rows, such as those that a transaction of an
    /// application writes together, are not worth the look.
    fn is_on_disk_next(&self, txn: &Txn, key: &[u8]) -> Result<bool> {
        Ok(!self.seems_to_cover(txn.last_leaf(self), key) && self.is_key_on_disk(key)?)
    }

    /// Inserts the first few of these rows, whose keys are locked: as far as they are new, ascend, and fit into one leaf.
    /// Returns how many.
    fn insert_run(&self, txn: &mut Txn, rows: &[Named<'_>]) -> Result<usize> {
        let id = txn.prepare_to_write(self.leaf_bytes())?;
        let Latched { at, latch, .. } = self.latch_leaf_near(txn.last_leaf(self), rows[0].key)?;
        let page = at.page;
        if self.has_scanners() {
            latch.release_unchanged();
            return Ok(0);
        }
        let change = Change::Rows { page: page.id(), table: self.id, rows: Rows::NONE };
        txn.body.clear();
        Record::Write { owner: txn.owner, previous: txn.last, first: true, old: &[], change }
            .encode(&mut txn.body);
        let (inserted, outcome) = self.insert_into(txn, Version::of(id), at, rows);
        if inserted == 0 {
            outcome?;
            latch.release_unchanged();
            return Ok(0);
        }
        txn.last = self.log_change(page, latch, &txn.body).start;
        txn.set_last_leaf(self, page.id());
        txn.owe_for(txn.body.len(), inserted);
        rows[..inserted].iter().for_each(|row| txn.claim(self, row.name, row.key));
        outcome.map(|()| inserted)
    }

    /// The changes to the leaf, which is latched, and the rows of the record. A damaged leaf may end them: what was done
    /// until then is to be logged all the same.
    fn insert_into(
        &self,
        txn: &mut Txn,
        own: Version,
        at: FramePage<'_>,
        rows: &[Named<'_>],
    ) -> (usize, Result<()>) {
        let page = at.page;
        // What keys have in common is once in the leaf, but in the record as often as there are rows: that could be longer.
        let body_bytes_max = self.leaf_bytes();
        // Ascending keys up to the last one are in this leaf if that is.
        let end = rows.last().map(|row| row.key).filter(|key| self.covers(page, key));
        let (mut last, mut near) = (None::<&[u8]>, Window::default());
        for (inserted, &Named { name, key, value }) in rows.iter().enumerate() {
            let is_here = || end.is_some_and(|end| key <= end) || self.covers(page, key);
            let follows = last.is_none_or(|last| last < key && is_here());
            let is_too_long = txn.body.len() + Rows::row_bytes(key, value) > body_bytes_max;
            if !follows || self.is_large(value.len()) || is_too_long {
                return (inserted, Ok(()));
            }
            let place = match Place::find_near(page, key, near) {
                Ok(place) if place.cell().is_none() && place.has_room(key, value.len()) => place,
                Ok(_) => return (inserted, Ok(())),
                Err(Restart) => return (inserted, Err(malformed(page))),
            };
            near = place.next();
            if last.replace(key).is_none() {
                self.pool.before_change(at.frame);
            }
            if let Err(damaged) = place.write(page, key, value, own.0) {
                return (inserted, Err(damaged));
            }
            if txn.spill().is_none() {
                let mut row = txn.spares.row();
                row.begin(key);
                self.keep_own_image(txn, name, row, own, None);
            }
            Rows::push(&mut txn.body, key, value);
        }
        (rows.len(), Ok(()))
    }

    /// Is `key` between the fences of this leaf, which is latched?
    fn covers(&self, page: Page<'_>, key: &[u8]) -> bool {
        route(page, self.id, page.id(), key) == Ok(Route::Here)
    }
}
