//! Changing one row, as a commit of its own.
//!
//! An autocommitted write is one log record, which commits it. Where nobody has a request on its key, and no snapshot is open, the
//! leaf's latch alone keeps it apart from others. Otherwise it takes the key's lock, so that it waits for transactions that use the
//! key. An insertion also looks at the gap that it goes into. While it waits it holds no other lock; but others may wait behind it in
//! a queue, so it can be part of a deadlock. As the victim it only loses its place in the queue, and asks again.
//!
//! The order of "put / remove" in `ARCHITECTURE.md`: lock, if need be, room in the log, latch, recheck, note `rec_lsn`, reserve, change,
//! image, page LSN, unlatch, copy the record. It reserves before it changes, since the row's version is where the record begins. What
//! may wait comes before the latch.

use crate::error::Result;
use crate::leaf::{self, Cell, Change, Place};
use crate::lock::{Holder, Image, ImageRow, KeyMode, LockError, Name, Owner, Reach, Spares};
use crate::log::Room;
use crate::page::Page;
use crate::tree::Tree;
use crate::tree::descend::{Latched, malformed};
use crate::tree::many::{Near, Way};
use crate::tree::obstacle::{Obstacle, is_live};
use crate::txn::{Batch, Ghost};
use crate::version::Version;
use foreshore_base::{Lsn, PageId, Restart, seeded_bug};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long an autocommitted write waits for locks in all, unless told otherwise.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// What is to become of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Intent<'a> {
    /// It gets this value.
    Put(&'a [u8]),
    /// It gets this value if there is none.
    Insert(&'a [u8]),
    /// It goes, if it is there.
    Remove,
}

impl<'a> Intent<'a> {
    /// The value to be written; empty for a removal.
    pub fn value(self) -> &'a [u8] {
        match self {
            Intent::Put(value) | Intent::Insert(value) => value,
            Intent::Remove => &[],
        }
    }

    /// Is there nothing to do, given whether the row is there?
    pub fn is_idle(self, there: bool) -> bool {
        match self {
            Intent::Put(_) => false,
            Intent::Insert(_) => there,
            Intent::Remove => !there,
        }
    }
}

/// Appends the value of a cell to `out`, unless it is a ghost, or there is none.
#[inline]
pub(super) fn append_live(page: Page<'_>, cell: Option<Cell>, out: &mut Vec<u8>) -> Option<()> {
    let cell = cell.filter(|_| is_live(cell))?;
    cell.append_to(page, out);
    Some(())
}

/// A copy of the row with this cell.
#[cold]
fn row_of(page: Page<'_>, key: &[u8], cell: Option<Cell>) -> ImageRow {
    let mut row = ImageRow::new(key, None);
    row.set_value(|out| append_live(page, cell, out));
    row
}

/// A write of one row that commits by itself.
struct Single<'a> {
    owner: Owner,
    name: Name,
    key: &'a [u8],
    intent: Intent<'a>,
    room: Room,
    /// What it leaves to those who clear up.
    left: Option<Batch>,
}

/// What came of an attempt at one.
enum Attempt {
    /// The end of its record, if there was anything to do.
    Done(Option<Lsn>),
    Refused(Obstacle),
    /// The row must be locked: somebody else has a request on it, or a snapshot may need what is replaced.
    NeedsLock,
}

impl Tree {
    /// Does what `intent` says to `key`; returns the end of its log record, whose fate decides the change's. `None` if
    /// there was nothing to do. A lock is waited for as long as `patience`.
    pub fn autocommit(
        self: &Arc<Self>,
        key: &[u8],
        intent: Intent<'_>,
        patience: Duration,
    ) -> Result<Option<Lsn>> {
        // Lock and leaf are lines that are seldom in the processor's cache: the one is fetched while the way to the other is
        // looked for, and that while the lock is taken.
        let name = self.lock_ahead(key);
        let start = self.seek(key)?;
        self.pool.prefetch(start);
        self.autocommit_near(Near { way: Way { start, ..Way::default() }, name }, key, intent, patience)
    }

    /// Puts many rows in their order, each as a commit of its own, until one fails. Calls `make_room` with the length of each
    /// value before, and `done` with the end of its log record afterwards.
    pub fn put_each<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        self: &Arc<Self>,
        rows: &[(K, V)],
        patience: Duration,
        make_room: impl Fn(usize) -> Result<()>,
        mut done: impl FnMut(Lsn),
    ) -> Result<()> {
        self.items_to_lock(
            rows,
            |(key, _)| key.as_ref(),
            |near, key, (_, value)| {
                let value = value.as_ref();
                make_room(value.len())?;
                let end = self.autocommit_near(near, key, Intent::Put(value), patience)?;
                done(end.expect("a put is always done"));
                Ok(ControlFlow::Continue(()))
            },
        )
    }

    /// [`Tree::autocommit`] with the way known.
    fn autocommit_near(
        self: &Arc<Self>,
        near: Near,
        key: &[u8],
        intent: Intent<'_>,
        patience: Duration,
    ) -> Result<Option<Lsn>> {
        self.ensure_fits(key, intent.value())?;
        if self.is_large(intent.value().len()) {
            return self.autocommit_large(key, intent, patience);
        }
        let slots = &self.core.txns.slots;
        let owner = slots.lease(&self.core.log)?;
        self.core.txns.keys.reset(owner, self.core.log.flushed(), slots.number(owner));
        let mut single = Single { owner, name: near.name, key, intent, room: slots.room(owner), left: None };
        let done = self.autocommit_as(&mut single, near.way.start, patience);
        if let Some(batch) = single.left {
            self.leave_garbage(owner, batch);
        }
        slots.keep_room(owner, single.room);
        slots.give_back(owner);
        match done? {
            Some(end) => Ok(end),
            None => self.autocommit_large(key, intent, patience),
        }
    }

    /// `None`: it takes a transaction to replace a large value.
    fn autocommit_as(
        self: &Arc<Self>,
        single: &mut Single<'_>,
        start: PageId,
        patience: Duration,
    ) -> Result<Option<Option<Lsn>>> {
        let Single { owner, name, key, intent, .. } = *single;
        let keys = &self.core.txns.keys;
        let begun = Instant::now();
        let left = || patience.saturating_sub(begun.elapsed());
        let mut key_patience = patience;
        loop {
            match self.attempt_unlocked(single, start)? {
                Attempt::Done(end) => return Ok(Some(end)),
                Attempt::Refused(Obstacle::Full) => self.split(key, intent.value().len())?,
                Attempt::Refused(_) | Attempt::NeedsLock => break,
            }
        }
        // However long a lock is waited for, `start` will do: from there right links lead to the key, or the index is asked again.
        loop {
            let granted = keys.acquire(owner, name, KeyMode::Exclusive, Reach::NONE, key_patience);
            if self.is_granted(owner, key, begun, patience, granted.map(|granted| granted.waited))? {
                let attempt = self.attempt(single, start);
                keys.release(owner, name);
                match attempt? {
                    Attempt::Done(end) => return Ok(Some(end)),
                    Attempt::NeedsLock => unreachable!("the row is locked"),
                    Attempt::Refused(Obstacle::Large) => return Ok(None),
                    Attempt::Refused(Obstacle::Full) => self.split(key, intent.value().len())?,
                    Attempt::Refused(Obstacle::Absent(page)) => self.await_page(page)?,
                    Attempt::Refused(Obstacle::Held(number)) => {
                        let waited = keys.wait_for(owner, keys.all_of(number), left());
                        self.is_granted(owner, key, begun, patience, waited)?;
                    }
                    Attempt::Refused(Obstacle::Gap(point)) => {
                        let waited = keys.wait_for_gap(owner, point, left());
                        self.is_granted(owner, key, begun, patience, waited)?;
                    }
                }
            }
            key_patience = left();
        }
    }

    /// Was a lock got? `false`: ask again, from the end of the queue; to break a deadlock the place in it was given up.
    fn is_granted(
        &self,
        owner: Owner,
        key: &[u8],
        begun: Instant,
        patience: Duration,
        granted: Result<Option<Duration>, LockError>,
    ) -> Result<bool> {
        self.note_lock_wait(granted.unwrap_or_else(|refused| Some(refused.waited())));
        match granted {
            Ok(_) => Ok(true),
            Err(LockError::Deadlock { .. }) if begun.elapsed() < patience => Ok(false),
            // It waits holding nothing, and nobody knows its slot.
            Err(refused) => {
                let holder = match refused {
                    LockError::Timeout { holder, .. } => holder,
                    LockError::Deadlock { with, .. } => Some(Holder { number: with, is_stranded: false }),
                    LockError::Aborted { .. } => None,
                };
                let in_vain = LockError::Timeout { holder, waited: begun.elapsed() };
                Err(self.core.txns.refused(owner, self, Some(key), in_vain))
            }
        }
    }

    /// One attempt with the key locked.
    fn attempt(self: &Arc<Self>, single: &mut Single<'_>, start: PageId) -> Result<Attempt> {
        self.core.log.ensure_room(&mut single.room, self.leaf_bytes())?;
        let leaf = self.latch_leaf_from(start, single.key)?;
        self.attempt_in(leaf, single, true)
    }

    /// One attempt under the leaf's latch alone, which keeps single writes of a row apart. So a row that many threads write is not
    /// handed on from one to the next, each of whom has to be woken.
    ///
    /// Nobody has a request on the row, looked for under the latch. Who locks it later reads it later, for he latches the same
    /// bucket for that, and then finds the leaf latched, or changed. No image of the row waits to be stamped, as its writer would hold
    /// the lock; and none is made here: those under one name come in the order of their commits (I2 in `lock/images.rs`), which
    /// the latches of two leaves do not see to.
    fn attempt_unlocked(self: &Arc<Self>, single: &mut Single<'_>, start: PageId) -> Result<Attempt> {
        if self.core.txns.snapshots.any() {
            return Ok(Attempt::NeedsLock);
        }
        self.core.log.ensure_room(&mut single.room, self.leaf_bytes())?;
        let leaf = self.latch_leaf_from(start, single.key)?;
        if !self.core.txns.keys.is_quiet(single.name, None) && !seeded_bug("write_ignores_locks") {
            leaf.latch.release_unchanged();
            return Ok(Attempt::NeedsLock);
        }
        self.attempt_in(leaf, single, false)
    }

    /// The attempt, in the leaf that has the key's place.
    fn attempt_in(
        self: &Arc<Self>,
        leaf: Latched<'_>,
        single: &mut Single<'_>,
        locked: bool,
    ) -> Result<Attempt> {
        let Single { owner, key, intent, .. } = *single;
        let place = Place::find(leaf.at.page, key).map_err(|Restart| malformed(leaf.at.page))?;
        let version = place.cell().map(|cell| Version(cell.version));
        if let Some(number) = version.and_then(|version| self.claimant(version, 0)) {
            leaf.latch.release_unchanged();
            return Ok(Attempt::Refused(Obstacle::Held(number)));
        }
        if intent.is_idle(is_live(place.cell())) {
            leaf.latch.release_unchanged();
            return Ok(Attempt::Done(None));
        }
        if let Some(obstacle) = self.obstacle(owner, &leaf, &place, key, intent.value().len(), false)? {
            leaf.latch.release_unchanged();
            return Ok(Attempt::Refused(obstacle));
        }
        let (met, id) = (leaf.waited && place.cell().is_some(), leaf.at.page.id());
        let Some(end) = self.change_single(single, leaf, place, locked)? else {
            return Ok(Attempt::NeedsLock);
        };
        if met {
            self.note_meeting(id, key);
        }
        Ok(Attempt::Done(Some(end)))
    }

    /// Changes the cell, which has this place in the latched leaf, by a record that commits by itself; returns its end. `None` if
    /// the key is not locked, and must be.
    fn change_single(
        self: &Arc<Self>,
        single: &mut Single<'_>,
        Latched { at, latch, .. }: Latched<'_>,
        place: Place,
        locked: bool,
    ) -> Result<Option<Lsn>> {
        let Single { owner, name, key, intent, .. } = *single;
        let (page, cell, value) = (at.page, place.cell(), intent.value());
        self.pool.before_change(at.frame);
        let (page_id, table) = (page.id(), self.id);
        let removes = matches!(intent, Intent::Remove);
        let change = match removes {
            true => Change::Ghost { page: page_id, table, key },
            false => Change::Put { page: page_id, table, key, value },
        };
        let mut body = change.encoded(); // as long as that of a removal without a ghost
        single.room.use_up(body.len());
        let reservation = self.core.log.reserve(body.len());
        // A snapshot that is not open by now will see this record (its point is above). One that is open may need what
        // is replaced, and must find the key.
        let newest = self.core.txns.snapshots.newest();
        let watched = newest.is_some();
        if watched && !locked {
            latch.release_unchanged();
            reservation.abandon();
            return Ok(None);
        }
        let version = if watched { Version::autocommit(reservation.start()) } else { Version::SETTLED };
        let keys = &self.core.txns.keys;
        let stays = removes && (watched || !keys.is_quiet(name, Some(owner)));
        // Copied before it is overwritten: only when the leaf has taken the change is it known to be needed.
        let old = newest.map(|newest| (newest, row_of(page, key, cell)));
        let written = if removes && !stays {
            place.remove(page);
            body.clear();
            Change::Remove { page: page_id, table, key }.encode(&mut body);
            Ok(())
        } else {
            let word = if removes { version.ghost() } else { version };
            place.write(page, key, value, word.0)
        };
        let imaged = written.is_ok()
            && old.is_some_and(|(newest, row)| self.keep_unless_told(single, row, version, cell, newest));
        page.set_lsn(reservation.end());
        let underfull = removes && leaf::is_underfull(page) == Ok(true);
        drop(latch);
        if let Err(damaged) = written {
            reservation.abandon();
            return Err(damaged);
        }
        let (commit, end) = (reservation.start(), reservation.end());
        self.core.log.fill(reservation, &body);
        if imaged || stays {
            single.left = Some(self.garbage(single, imaged, commit, version.author()));
        }
        if underfull && !stays {
            // The row is gone, whatever becomes of the tidying up: a full disk here must not say that nothing was changed.
            let _ = self.absorb_around(key);
        }
        Ok(Some(end))
    }

    /// Keeps an image of the row, unless an older one tells snapshots up to `newest` what they see. Was it kept?
    #[cold]
    fn keep_unless_told(
        &self,
        single: &Single<'_>,
        row: ImageRow,
        version: Version,
        cell: Option<Cell>,
        newest: Lsn,
    ) -> bool {
        let Single { owner, name, key, .. } = *single;
        let is_told = self.core.txns.keys.take_over(name, self.id, key, version.author(), newest);
        if !is_told {
            self.keep_image(owner, name, row, version, cell, &mut Spares::default());
        }
        !is_told
    }

    /// Its image, if a snapshot may need it, and its ghost, if it made one.
    #[cold]
    fn garbage(self: &Arc<Self>, single: &Single<'_>, imaged: bool, commit: Lsn, author: u64) -> Batch {
        let mut batch = Batch::new(commit, author);
        batch.images.extend(imaged.then_some(single.name));
        if let Intent::Remove = single.intent {
            batch.ghosts.push(Ghost { tree: self.clone(), key: single.key.into(), author });
        }
        batch
    }

    /// Leaves that to those who clear up, and clears up what others have left, which may take long: nothing is locked by now.
    #[cold]
    fn leave_garbage(&self, owner: Owner, batch: Batch) {
        self.core.keep(owner, batch);
        self.core.sweep_own(owner);
    }

    /// Puts what the row was before into the key table, once the change is made, which a damaged leaf may refuse, and before
    /// the leaf's latch is given back (V2 in `txn/view.rs`).
    pub(super) fn keep_image(
        &self,
        owner: Owner,
        name: Name,
        row: ImageRow,
        version: Version,
        cell: Option<Cell>,
        spares: &mut Spares,
    ) {
        let image = Image {
            table: self.id,
            writer: version.author(),
            slot: owner.0,
            replaced: cell.map_or(Version::SETTLED.ghost().0, |cell| cell.version),
            row,
        };
        self.core.txns.keys.push_image_into(name, image, spares);
    }
}

#[cfg(test)]
mod tests {
    use crate::Database;
    use crate::tree::testing::{A_WHILE, comes_true};
    use std::thread;

    /// Who waits for the row does not wait for what is cleared up afterwards, which may be what a large removal has left.
    #[test]
    fn a_row_is_given_back_before_it_is_cleared_up() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        table.put(b"k", b"before").unwrap();
        let _snapshot = db.snapshot().unwrap();
        let (txns, name) = (&table.tree.core.txns, table.tree.core.txns.keys.name(table.tree.id, b"k"));
        thread::scope(|scope| {
            let held = txns.garbage.hold();
            let put = scope.spawn(|| table.put(b"k", b"after"));
            let is_written = || table.get(b"k").unwrap().as_deref() == Some(&b"after"[..]);
            let is_free = comes_true(|| is_written() && txns.keys.is_quiet(name, None));
            drop(held);
            put.join().unwrap().unwrap();
            assert!(is_free, "the row is locked");
        });
    }

    /// Who has a row locked before a single write has its leaf's latch is not overtaken by that.
    #[test]
    fn locks_are_looked_for_under_the_latch() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        table.put(b"k", b"before").unwrap();
        let (keys, name) = (&table.tree.core.txns.keys, table.tree.core.txns.keys.name(table.tree.id, b"k"));
        let tx = db.begin().unwrap();
        let latched = table.tree.latch_leaf(b"k").unwrap();
        let other = table.clone();
        let put = thread::spawn(move || other.put(b"k", b"after"));
        thread::sleep(A_WHILE);
        let read = thread::scope(|scope| {
            let read = scope.spawn(|| tx.bytes(&table).get(b"k"));
            while keys.is_quiet(name, None) {
                thread::yield_now();
            }
            latched.latch.release_unchanged();
            read.join().unwrap().unwrap()
        });
        assert_eq!(read.as_deref(), Some(&b"before"[..]));
        thread::sleep(A_WHILE);
        assert!(!put.is_finished(), "it waits for the reader");
        assert_eq!(tx.bytes(&table).get(b"k").unwrap(), read);
        tx.commit().unwrap();
        put.join().unwrap().unwrap();
        assert_eq!(table.get(b"k").unwrap().as_deref(), Some(&b"after"[..]));
    }

    /// What a snapshot needs is kept, though none was open when the single write began.
    #[test]
    fn snapshots_are_looked_for_under_the_latch() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        for removes in [false, true] {
            table.put(b"k", b"before").unwrap();
            let write = || if removes { table.remove(b"k").map(|_| ()) } else { table.put(b"k", b"after") };
            thread::scope(|scope| {
                let latched = table.tree.latch_leaf(b"k").unwrap();
                let written = scope.spawn(write);
                thread::sleep(A_WHILE);
                let snapshot = db.snapshot().unwrap();
                latched.latch.release_unchanged();
                written.join().unwrap().unwrap();
                let (now, then) = (table.get(b"k"), snapshot.bytes(&table).get(b"k"));
                assert_eq!(now.unwrap().is_none(), removes);
                assert_eq!(then.unwrap().as_deref(), Some(&b"before"[..]), "removes: {removes}");
            });
        }
    }
}
