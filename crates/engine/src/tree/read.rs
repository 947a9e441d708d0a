//! Point reads. They write no shared memory: no latch, no pin, no reference count, no lock.

use crate::error::Result;
use crate::leaf::{self, Place, Window};
use crate::lock::{KeyMode, Reach};
use crate::page::Page;
use crate::tree::many::{Near, Way};
use crate::tree::single::append_live;
use crate::tree::{Stamp, Tree};
use crate::txn::{Found, Seen, Txn, View};
use crate::version::Version;
use foreshore_base::{Restart, seeded_bug};

impl Tree {
    /// Replaces `value` by the value of `key` that `view` sees; `false` and empty if there is none.
    #[inline]
    pub fn get(&self, view: &View, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let found = self.get_cell(view, key, value)?;
        if self.is_large(value.len()) { self.get_large(view, key, value) } else { Ok(found) }
    }

    /// As [`Tree::get`]; for a large value, what stands for it.
    #[inline]
    pub fn get_cell(&self, view: &View, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let row = self.read_leaf(key, |page| self.read_row(page, view, key, Window::default(), value))?;
        self.found(view, key, row, value)
    }

    /// Is there a value, given what was read of a row? Clears `value` if not.
    #[inline]
    pub(super) fn found(&self, view: &View, key: &[u8], row: Row, value: &mut Vec<u8>) -> Result<bool> {
        match row {
            Row::There => Ok(true),
            Row::Absent => {
                value.clear();
                Ok(false)
            }
            Row::Spilled(way) => self.get_spilled(view, key, way, value),
        }
    }

    /// As [`Tree::get_cell`], of a row that `view` sees as it was before one replaced it who has spilled.
    #[cold]
    fn get_spilled(&self, view: &View, key: &[u8], mut way: SpillWay, value: &mut Vec<u8>) -> Result<bool> {
        loop {
            let older = self.look_for_spilled(view, key, way.by)?;
            let again =
                self.read_leaf(key, |page| self.read_row(page, view, key, Window::default(), value))?;
            let is_same =
                matches!(again, Row::Spilled(now) if now == way) || seeded_bug("spill_not_validated");
            match (older, again) {
                (Some(older), _) if is_same => {
                    value.clear();
                    value.extend_from_slice(older.as_deref().unwrap_or_default());
                    return Ok(older.is_some());
                }
                (_, Row::Spilled(now)) => way = now,
                (_, row) => return self.found(view, key, row, value),
            }
        }
    }

    /// What `view` sees of a row, given a version whose author has spilled and that it does not see; `None`: the spill has gone.
    fn look_for_spilled(&self, view: &View, key: &[u8], mut by: Version) -> Result<Option<Option<Vec<u8>>>> {
        let txns = &self.core.txns;
        loop {
            let Some((spill, _)) = txns.spills.find(by, &txns.slots) else { return Ok(None) };
            let replaced = match spill.replaced(self.id, key) {
                Err(_) if !txns.spills.is_listed(&spill) => return Ok(None),
                replaced => replaced?,
            };
            let Some((version, value)) = replaced else { return Ok(Some(None)) };
            let value = (!version.is_ghost()).then_some(value);
            if view.surely_sees(version) {
                return Ok(Some(value));
            }
            match view.resolve(txns, self.id, key, version) {
                Seen::Leaf => return Ok(Some(value)),
                Seen::Older(older) => return Ok(Some(older)),
                Seen::Spilled(before) => by = before,
            }
        }
    }

    /// As [`Tree::get`], for a transaction that locks the key first: what the leaf holds then is committed or its own.
    pub fn get_locked(&self, txn: &mut Txn, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let near = self.find_way(txn, key)?;
        self.get_locked_near(txn, near, key, value)
    }

    /// The same, with the way known.
    pub fn get_locked_near(
        &self,
        txn: &mut Txn,
        near: Near,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        let found = self.get_locked_cell(txn, near, key, value)?;
        if self.is_large(value.len()) {
            self.complete(key, value)?;
        }
        Ok(found)
    }

    /// As [`Tree::get_locked_near`]; for a large value, what stands for it.
    pub(super) fn get_locked_cell(
        &self,
        txn: &mut Txn,
        near: Near,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        txn.lock_name(self, near.name, Some(key), KeyMode::Shared, Reach::NONE)?;
        let (found, leaf) = self.read_leaf_near(near.way.start, key, |page| {
            let cell = leaf::lookup_near(page, key, near.way.cells)?;
            value.clear();
            Ok((append_live(page, cell, value).is_some(), page.id()))
        })?;
        txn.set_last_leaf(self, leaf);
        Ok(found)
    }

    /// As [`Tree::get_locked`], of a row that the transaction is going to write: it will know where that is.
    pub fn get_for_update(&self, txn: &mut Txn, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let near = self.find_way(txn, key)?;
        self.get_for_update_near(txn, near, key, value)
    }

    /// The same, with the way known.
    pub fn get_for_update_near(
        &self,
        txn: &mut Txn,
        near: Near,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        let found = self.get_cell_for_update(txn, near, key, value)?;
        if self.is_large(value.len()) {
            self.complete(key, value)?;
        }
        Ok(found)
    }

    /// As [`Tree::get_for_update_near`]; for a large value, what stands for it.
    pub(super) fn get_cell_for_update(
        &self,
        txn: &mut Txn,
        near: Near,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        if key.len() > self.limits.key_bytes_max {
            value.clear();
            return Ok(false); // nobody can put it there
        }
        txn.lock_name(self, near.name, Some(key), KeyMode::Exclusive, Reach::NONE)?;
        let mut old = txn.take_old();
        old.begin(key);
        let read = self.read_leaf_near(near.way.start, key, |page| {
            let place = Place::find_near(page, key, near.way.cells)?;
            old.set_value(|out| append_live(page, place.cell(), out));
            Ok((place, Stamp::of(page)))
        });
        txn.old = old;
        let (place, stamp) = read?;
        self.pool.prefetch_change(stamp.page());
        txn.set_last_leaf(self, stamp.page());
        txn.set_found(Found { table: self.id, name: near.name, stamp, place });
        value.clear();
        let Some(found) = txn.old.value() else { return Ok(false) };
        value.extend_from_slice(found);
        Ok(true)
    }

    /// The way to a key that is going to be locked and read. Its leaf and its lock are lines that are seldom in the
    /// processor's cache, and neither depends on the other: both are asked for here.
    pub(super) fn find_way(&self, txn: &Txn, key: &[u8]) -> Result<Near> {
        let name = self.lock_ahead(key);
        let start = match txn.usual_leaf(self).filter(|leaf| self.seems_to_cover(*leaf, key)) {
            Some(leaf) => leaf,
            None => self.seek(key)?,
        };
        self.pool.prefetch(start);
        Ok(Near { way: Way { start, ..Way::default() }, name })
    }

    /// The newest cell of `key` that is no ghost, committed or not; for a large value, what stands for it.
    pub fn newest(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_cell(&View::NEWEST, key, &mut value)?.then_some(value))
    }

    /// The newest cell of `key`, which may be a ghost, and its version.
    pub fn newest_cell(&self, key: &[u8]) -> Result<Option<(Version, Vec<u8>)>> {
        let mut value = Vec::new();
        let version = self.read_leaf(key, |page| leaf::get(page, key, &mut value))?;
        Ok(version.map(|version| (Version(version), value)))
    }

    /// The version of the newest cell of `key`.
    pub fn newest_version(&self, key: &[u8]) -> Result<Option<Version>> {
        self.read_leaf(key, |page| Ok(leaf::lookup(page, key)?.map(|cell| Version(cell.version))))
    }

    /// Appends the newest value of `key` to `out`; `false` if there is none.
    pub fn append_newest(&self, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let begin = out.len();
        self.read_leaf(key, |page| {
            out.truncate(begin);
            let Some(cell) = leaf::lookup(page, key)? else { return Ok(false) };
            cell.append_to(page, out);
            Ok(true)
        })
    }

    /// Does `view` see a value of `key`?
    pub fn contains(&self, view: &View, key: &[u8]) -> Result<bool> {
        self.get_cell(view, key, &mut Vec::new())
    }

    /// Copies the value of `key` that `view` sees. Optimistic: what it says counts once the page's latch validates, also
    /// what it says because of the key table (V2 in `txn/view.rs`).
    #[inline]
    pub(super) fn read_row(
        &self,
        page: Page<'_>,
        view: &View,
        key: &[u8],
        cells: Window,
        value: &mut Vec<u8>,
    ) -> Result<Row, Restart> {
        let Some(cell) = leaf::lookup_near(page, key, cells)? else { return Ok(Row::Absent) };
        let version = Version(cell.version);
        if !view.surely_sees(version) {
            match view.resolve(&self.core.txns, self.id, key, version) {
                Seen::Leaf => {}
                Seen::Older(None) => return Ok(Row::Absent),
                Seen::Older(Some(older)) => {
                    value.clear();
                    value.extend_from_slice(&older);
                    return Ok(Row::There);
                }
                Seen::Spilled(by) => return Ok(Row::Spilled(SpillWay { newest: version.author(), by })),
            }
        }
        if version.is_ghost() {
            return Ok(Row::Absent);
        }
        value.clear();
        cell.append_to(page, value);
        Ok(Row::There)
    }
}

/// What was read of a row.
#[derive(Clone, Copy)]
pub(super) enum Row {
    /// It has a value, which was copied.
    There,
    Absent,
    /// The value to be seen is in a spill, or behind that.
    Spilled(SpillWay),
}

/// What leads to a spill.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct SpillWay {
    /// The author of the version in the leaf.
    newest: u64,
    /// The version, be it that one, or one of an image, whose author has spilled what it replaced.
    by: Version,
}
