//! Changing one row in a transaction, and undoing that.
//!
//! The order of "put / remove" in `ARCHITECTURE.md`: lock, room, latch, recheck, look at the gap, note `rec_lsn`, change, image
//! into the key table, reserve, page LSN, unlatch, copy the record. What may wait comes before the latch.

use crate::error::{Error, Result};
use crate::leaf::{self, Cell, Change, Place, difference, exchange};
use crate::lock::{Image, ImageRow, KeyMode, Name, Reach};
use crate::page::Page;
use crate::tree::Tree;
use crate::tree::descend::{Latched, malformed};
use crate::tree::obstacle::{Obstacle, is_live};
use crate::tree::single::{Intent, append_live};
use crate::txn::{Found, Record, Spill, Txn};
use crate::version::{Version, Writer};
use foreshore_base::{Exclusive, Lsn, PageId, Restart, TxnId, seeded_bug};
use std::ops::ControlFlow::{Break, Continue};
use std::ops::Range;
use std::sync::Arc;

/// What a transaction writes.
struct Write<'a> {
    /// The key's lock, which the transaction has.
    name: Name,
    key: &'a [u8],
    intent: Intent<'a>,
    /// May it replace a large value?
    over_large: bool,
}

impl Tree {
    /// Does what `intent` says to `key`, once this transaction has locked it; `false` if there was nothing to do: an
    /// insertion of a key that is there, a removal of one that is not.
    pub fn write(self: &Arc<Self>, txn: &mut Txn, key: &[u8], intent: Intent<'_>) -> Result<bool> {
        self.ensure_fits(key, intent.value())?;
        let found = txn.take_found(self, key);
        let name = match &found {
            Some(found) => found.name,
            None => self.lock_to_write(txn, key)?,
        };
        if !self.is_large(intent.value().len())
            && let Some(changed) =
                self.write_found(txn, found, &Write { name, key, intent, over_large: false })?
        {
            return Ok(changed);
        }
        self.write_large(txn, key, intent)
    }

    /// The part of [`Tree::write`] that changes the row's cell, whose key is locked. `None`: there is a large value, which
    /// may be replaced only `over_large`, by one who sees to its chunks.
    pub(crate) fn write_cell(
        self: &Arc<Self>,
        txn: &mut Txn,
        key: &[u8],
        intent: Intent<'_>,
        over_large: bool,
    ) -> Result<Option<bool>> {
        let name = self.core.txns.keys.name(self.id, key);
        self.write_found(txn, None, &Write { name, key, intent, over_large })
    }

    /// The same; `found`: where the cell may still be.
    fn write_found(
        self: &Arc<Self>,
        txn: &mut Txn,
        mut found: Option<Found>,
        write: &Write<'_>,
    ) -> Result<Option<bool>> {
        let Write { key, intent, .. } = *write;
        let mut is_spilled = false;
        loop {
            let id = txn.prepare_to_write(self.leaf_bytes())?;
            if seeded_bug("claim_given_back_early") {
                txn.claim(self, write.name, key);
                std::thread::yield_now();
            }
            let found = found.take();
            let was_found = found.is_some();
            let known = found.and_then(|found| Some((self.latch_unchanged(&found.stamp)?, found.place)));
            let (leaf, place, old_known) = match known {
                Some((leaf, place)) => (leaf, place, true),
                None => {
                    let leaf = self.latch_leaf_near(txn.last_leaf(self), key)?;
                    let place = Place::find(leaf.at.page, key).map_err(|Restart| malformed(leaf.at.page))?;
                    (leaf, place, false)
                }
            };
            if let Some(version) = replaced_first(txn, place.cell(), intent).filter(|_| !is_spilled) {
                self.spill(txn, leaf, &place, key, version)?;
                is_spilled = true;
                continue;
            }
            let others_write_here = leaf.waited || was_found && !old_known;
            let (leaf_id, is_new) = (leaf.at.page.id(), place.cell().is_none());
            let attempt = self.try_write(txn, id, leaf, place, old_known, write)?;
            match attempt {
                Ok(changed) => {
                    if others_write_here && !is_new {
                        self.note_meeting(leaf_id, key);
                    }
                    return Ok(Some(changed));
                }
                Err(Obstacle::Large) => return Ok(None),
                Err(Obstacle::Full) => self.split(key, intent.value().len())?,
                Err(Obstacle::Gap(point)) => txn.wait_for_gap(self, point)?,
                Err(Obstacle::Held(number)) => drop(txn.await_end(number, self, key, txn.patience)?),
                Err(Obstacle::Absent(page)) => self.await_page(page)?,
            }
        }
    }

    /// Copies the row with this place in the leaf to disk, once that is not latched any more. It has this version, and is locked.
    fn spill(
        self: &Arc<Self>,
        txn: &mut Txn,
        leaf: Latched<'_>,
        place: &Place,
        key: &[u8],
        version: Version,
    ) -> Result<()> {
        txn.old.begin(key);
        txn.old.set_value(|out| append_live(leaf.at.page, place.cell(), out));
        leaf.latch.release_unchanged();
        let value = txn.old.value().unwrap_or_default();
        txn.spill().map_or(Ok(()), |spill| spill.put(self, key, value, version))
    }

    fn lock_to_write(self: &Arc<Self>, txn: &mut Txn, key: &[u8]) -> Result<Name> {
        let name = self.lock_ahead(key);
        txn.enter(self)?;
        txn.lock_name(self, name, Some(key), KeyMode::Exclusive, Reach::NONE)?;
        Ok(name)
    }

    /// One attempt, in the place found for the cell; `false` if there was nothing to do. `old_known`: the old value is in
    /// `txn.old` already.
    fn try_write(
        self: &Arc<Self>,
        txn: &mut Txn,
        id: TxnId,
        leaf: Latched<'_>,
        place: Place,
        old_known: bool,
        write: &Write<'_>,
    ) -> Result<Result<bool, Obstacle>> {
        let Write { key, intent, over_large, .. } = *write;
        let cell = place.cell();
        if intent.is_idle(is_live(cell)) {
            leaf.latch.release_unchanged();
            return Ok(Ok(false));
        }
        if let Some(obstacle) =
            self.obstacle(txn.owner, &leaf, &place, key, intent.value().len(), over_large)?
        {
            leaf.latch.release_unchanged();
            return Ok(Err(obstacle));
        }
        let mut old = std::mem::take(&mut txn.old);
        if !old_known {
            old.begin(key);
            old.set_value(|out| append_live(leaf.at.page, cell, out));
        }
        let changed = self.change_cell(txn, id, leaf, place, &mut old, write);
        txn.old = old;
        changed.map(|()| Ok(true))
    }

    /// Changes the cell, which has this place in the latched leaf. The old row becomes the image: other memory is left for
    /// it.
    fn change_cell(
        self: &Arc<Self>,
        txn: &mut Txn,
        id: TxnId,
        leaf: Latched<'_>,
        place: Place,
        row: &mut ImageRow,
        write: &Write<'_>,
    ) -> Result<()> {
        let Write { name, key, intent, .. } = *write;
        let (page, cell, old) = (leaf.at.page, place.cell(), row.value());
        let own = Version::of(id);
        let first = cell.is_none_or(|cell| Version(cell.version).author() != own.author());
        let (change, version) = match intent {
            Intent::Remove => (Change::Ghost { page: page.id(), table: self.id, key }, own.ghost()),
            Intent::Put(new) | Intent::Insert(new) => (self.put_or_patch(page, key, old, new), own),
        };
        let replaced = if version.is_ghost() { old.unwrap_or_default() } else { &[] };
        txn.body.clear();
        Record::Write { owner: txn.owner, previous: txn.last, first, old: replaced, change }
            .encode(&mut txn.body);
        let patched = match change {
            Change::Patch { kept, old, new, .. } if old.len() == new.len() => Some(kept..kept + new.len()),
            _ => None,
        };
        let Latched { at, latch, .. } = leaf;
        self.pool.before_change(at.frame);
        match patched {
            Some(bytes) => place.patch(page, bytes.start, &intent.value()[bytes], version.0),
            None => place.write(page, key, intent.value(), version.0)?,
        }
        if first && txn.spill().is_none() {
            let image = std::mem::replace(row, txn.spares.row());
            self.keep_own_image(txn, name, image, own, cell);
        }
        txn.last = self.log_change(page, latch, &txn.body).start;
        txn.set_last_leaf(self, page.id());
        txn.owe_for(txn.body.len(), 1);
        if version.is_ghost() {
            match txn.spill().filter(|_| first) {
                Some(spill) => spill.note_ghosts(self.id), // it has the row, which was there
                None => txn.note_ghost(self, key, version.author()),
            }
        }
        txn.claim(self, name, key);
        Ok(())
    }

    /// Puts what the row was into the key table, before `txn` changed it for the first time.
    pub(super) fn keep_own_image(
        &self,
        txn: &mut Txn,
        name: Name,
        row: ImageRow,
        own: Version,
        cell: Option<Cell>,
    ) {
        txn.note_image(name, row.image_bytes());
        self.keep_image(txn.owner, name, row, own, cell, &mut txn.spares);
    }

    /// Puts an image of a transaction from before a restart into the key table: what it replaced was settled. If it has very many, they go
    /// to disk, as far as there is space.
    pub fn restore_image(self: &Arc<Self>, txn: &mut Txn, key: &[u8], old: Option<&[u8]>) -> Result<()> {
        txn.spill_if_large();
        let is_spilled =
            |spill: &Arc<Spill>| old.is_none_or(|old| spill.put(self, key, old, Version::SETTLED).is_ok());
        if txn.spill().is_some_and(is_spilled) {
            return Ok(());
        }
        if txn.spill().is_some() {
            txn.lock_claimed(self, key)?; // whoever has an image has a request
        }
        let name = self.core.txns.keys.name(self.id, key);
        let replaced = if old.is_some() { Version::SETTLED } else { Version::SETTLED.ghost() };
        let (writer, slot, row) = (txn.author(), txn.owner.0, ImageRow::new(key, old));
        txn.note_image(name, row.image_bytes());
        let image = Image { table: self.id, writer, slot, replaced: replaced.0, row };
        self.core.txns.keys.push_image(name, image);
        Ok(())
    }

    /// What to log for a value that replaces `old`: only the bytes that differ.
    fn put_or_patch<'a>(
        &self,
        page: Page<'_>,
        key: &'a [u8],
        old: Option<&'a [u8]>,
        new: &'a [u8],
    ) -> Change<'a> {
        let (page, table) = (page.id(), self.id);
        let Some(old) = old else { return Change::Put { page, table, key, value: new } };
        let (kept, old, new) = difference(old, new);
        Change::Patch { page, table, key, kept, old, new }
    }

    /// Undoes `change`, which `txn` made, and says so in the log; returns where that record begins. `first`: it was the
    /// transaction's first change of the key; `old`: the value that a ghost replaced.
    pub fn compensate(
        self: &Arc<Self>,
        txn: &mut Txn,
        undo_next: Lsn,
        first: bool,
        change: &Change<'_>,
        old: &[u8],
    ) -> Result<Lsn> {
        let (Change::Put { key, .. } | Change::Ghost { key, .. } | Change::Patch { key, .. }) = *change
        else {
            return Err(Error::corrupt("log", "a transaction's record holds no change of a row"));
        };
        let before = if first { self.version_before(txn, key)? } else { Version(txn.author()) };
        let mut near = change.pages().0; // where the row still is, mostly
        loop {
            self.core.log.room_to_undo()?;
            if first && seeded_bug("txn_image_dropped_early") {
                self.drop_image(txn, key);
                std::thread::yield_now();
            }
            let leaf = self.latch_leaf_near(near, key)?;
            near = leaf.at.page.id();
            let (undoing, value) = self.undoing(leaf.at.page, change, key, old)?;
            let Some(place) = leaf::place(leaf.at.page, key, value.len())? else {
                leaf.latch.release_unchanged();
                self.split_to_undo(key, value.len())?;
                continue;
            };
            let ghost = matches!(undoing, Change::Ghost { .. });
            let version = if ghost { before.ghost() } else { before };
            txn.body.clear();
            Record::Compensation { owner: txn.owner, undo_next, first, change: undoing }
                .encode(&mut txn.body);
            let logged = self.write_logged(leaf, place, key, &value, version, &txn.body)?;
            if first {
                self.drop_image(txn, key);
            }
            if ghost && !self.is_purged_at_once(txn, near, key, version) {
                txn.note_ghost(self, key, version.author());
            }
            return Ok(logged.start);
        }
    }

    /// Is the ghost of a row, which `txn` had put where there was none, and which is undone, gone already? Nobody sees such a ghost, and
    /// there may be too many of them to note each.
    fn is_purged_at_once(&self, txn: &Txn, mut leaf: PageId, key: &[u8], version: Version) -> bool {
        // Who goes on may have locked the gap below it, by its name.
        let may_go = txn.is_ending() || !txn.scans(self);
        let is_nobodys = version.writer() == Writer::Anyone && may_go;
        is_nobodys && matches!(self.purge(Some(txn.owner), &mut leaf, key, version.author()), Ok(true))
    }

    /// The change that undoes `change`, a put, a ghost or a patch of a row in this latched leaf; and the value that the row has then.
    fn undoing<'a>(
        &self,
        page: Page<'_>,
        change: &Change<'a>,
        key: &'a [u8],
        old: &'a [u8],
    ) -> Result<(Change<'a>, Vec<u8>)> {
        let (id, table) = (page.id(), self.id);
        Ok(match *change {
            Change::Patch { kept, old, new, .. } => {
                let mut value = Vec::new();
                let found = leaf::get(page, key, &mut value).map_err(|Restart| malformed(page))?;
                let fits = found.and_then(|_| exchange(&mut value, kept, new, old));
                fits.ok_or_else(|| self.lost_row(page))?;
                (Change::Patch { page: id, table, key, kept, old: new, new: old }, value)
            }
            Change::Ghost { .. } => (Change::Put { page: id, table, key, value: old }, old.to_vec()),
            _ => (Change::Ghost { page: id, table, key }, Vec::new()),
        })
    }

    /// Writes a cell, which has this place in the latched leaf, gives the latch back, and logs the record that says so.
    pub(super) fn write_logged(
        &self,
        Latched { at, latch, .. }: Latched<'_>,
        place: Place,
        key: &[u8],
        value: &[u8],
        version: Version,
        body: &[u8],
    ) -> Result<Range<Lsn>> {
        self.pool.before_change(at.frame);
        place.write(at.page, key, value, version.0)?;
        Ok(self.log_change(at.page, latch, body))
    }

    /// Logs that a leaf was changed, which is still latched, and gives the latch back. Returns where the record begins and ends.
    ///
    /// From the reservation on until the record is complete, commits behind it wait: so all that can be done before it is.
    #[inline]
    pub(super) fn log_change(&self, page: Page<'_>, latch: Exclusive<'_>, body: &[u8]) -> Range<Lsn> {
        let reservation = self.core.log.reserve(body.len());
        let record = reservation.start()..reservation.end();
        page.set_lsn(record.end);
        drop(latch);
        self.core.log.fill(reservation, body);
        record
    }

    /// The row is what it was before `txn` changed it: readers need not ask for that any more.
    fn drop_image(&self, txn: &Txn, key: &[u8]) {
        let keys = &self.core.txns.keys;
        keys.drop_image(keys.name(self.id, key), (self.id, key), txn.author());
    }

    /// The version word that a row gets back when the first change of its key by `txn` is undone. That left the word that it replaced
    /// in the key table, or on disk; after a restart it is not there, and the word is that of a settled row.
    fn version_before(&self, txn: &Txn, key: &[u8]) -> Result<Version> {
        let keys = &self.core.txns.keys;
        let author = txn.author();
        let replaced = keys.images(keys.name(self.id, key), self.id, key, |image| {
            if image.writer == author { Break(Version(image.replaced)) } else { Continue(()) }
        });
        let spilled = match (replaced, txn.spill()) {
            (None, Some(spill)) => spill.replaced(self.id, key)?.map(|(version, _)| version),
            _ => None,
        };
        Ok(replaced.or(spilled).unwrap_or(Version::SETTLED))
    }

    #[cold]
    fn lost_row(&self, page: Page<'_>) -> Error {
        Error::corrupt(
            format!("page {} of table {:?}", page.id(), self.name()),
            "a row that a transaction changed is not as it left it",
        )
    }
}

/// The version of the row with this cell, if the row must be copied to disk before `txn` does that to it: it spills, and changes it for
/// the first time.
fn replaced_first(txn: &Txn, cell: Option<Cell>, intent: Intent<'_>) -> Option<Version> {
    let is_replaced = |version: &Version| *version != Version::SETTLED.ghost() && !txn.wrote(*version);
    let is_idle = txn.spill().is_none() || intent.is_idle(is_live(cell));
    cell.filter(|_| !is_idle).map(|cell| Version(cell.version)).filter(is_replaced)
}
