//! One read-write transaction: its slot, its locks, its way through the log.

use crate::blob::BlobId;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::lock::{CommitStamp, ImageRow, Name, Owner, Spares};
use crate::log::Room;
use crate::spread::Held;
use crate::stage;
use crate::tree::Tree;
use crate::txn::kept::Kept;
use crate::txn::large::Fresh;
use crate::txn::locking::Lost;
use crate::txn::{Batch, Found, Ghosts, Record, Spill, View};
use crate::version::Version;
use crate::waits::will_wait;
use foreshore_base::sync::Ordering::SeqCst;
use foreshore_base::{Lsn, PageId, TableId, TxnId, seeded_bug};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// What a compensation takes at most beyond the record that it undoes: header, flags, padding.
const UNDO_OVERHEAD_BYTES: u64 = 16;

/// What undoing each further row of a record may take beyond the row's bytes there: a record's header, the compensation's,
/// page and table, padding.
const UNDO_ROW_BYTES: u64 = 48;

/// A read-write transaction. Dropping it rolls it back, unless it has prepared: then it stays as it is, for the next open.
pub(crate) struct Txn {
    pub core: Held<Core>,
    pub owner: Owner,
    /// From its first write on.
    id: Option<TxnId>,
    /// Its last record: where a rollback begins.
    pub last: Lsn,
    pub(super) locks: Vec<Name>,
    /// How many more it has, which it does not remember.
    pub(super) more_locks: usize,
    /// If it is large, and gives locks back as soon as it can: those that it may.
    pub(super) large: Option<Fresh>,
    pub patience: Duration,
    pub(super) ghosts: Ghosts,
    /// Memory of the images that it has put into the key table; and those that it has on disk, once these are too many.
    pub(super) image_bytes: u64,
    pub(super) spill: Option<Arc<Spill>>,
    /// Leaves in which it has locked others' ghosts, each with the key of one.
    met: Vec<(PageId, Arc<Tree>, Box<[u8]>)>,
    /// Large values that it created or replaced.
    blobs: Vec<(Arc<Tree>, BlobId)>,
    /// The last extent that it wrote, if it has not waited for that to be durable.
    extent: Option<u64>,
    /// Tables that it touched, and some that transactions before it in its slot did.
    pub(super) tables: Vec<Entered>,
    /// Bytes that its rollback may need, and how many of them the log keeps back for it.
    owed: u64,
    promised: u64,
    /// What it, or the next one in its slot, may log before it asks for room again.
    room: Room,
    /// Where records are put together.
    pub body: Vec<u8>,
    /// The row that is going to be replaced, as it is.
    pub old: ImageRow,
    /// Memory for images.
    pub spares: Spares,
    /// What it read last for an update, if `old` is still that row.
    found: Option<Found>,
    /// What it waited for when it gave way to another.
    pub(super) lost_over: Option<Lost>,
    /// The name that it has locked ahead as it runs again, if it has not come to that row yet: nothing rests on that lock.
    pub(super) in_line: Option<Name>,
    /// It has prepared: only what is decided of it ends it.
    prepared: bool,
    /// Undoing what it did since a savepoint failed half-way: it can only be rolled back.
    half_undone: bool,
    /// Where its commit record lies, once it is written.
    decided: Option<(Lsn, Lsn)>,
    ended: bool,
}

/// Leaves whose ghosts a transaction removes that had locked them, at most.
const MET_MAX: usize = 16;

/// How many locks ahead of the one that is given back the lines of the table are fetched.
const LOCKS_AHEAD: usize = 6;

/// Locks that are given back within a few milliseconds.
const LOCKS_AT_ONCE: usize = 10_000;

/// A table that a transaction touched.
pub(super) struct Entered {
    id: TableId,
    pub tree: Arc<Tree>,
    /// Did this transaction touch it, or only one before it?
    active: bool,
    /// Does it hold gap locks there?
    pub scans: bool,
    /// Does something stand for locks of it there?
    pub stands_out: bool,
    /// The leaf where it was last, or the transaction before it: often that of the next write, too.
    leaf: PageId,
    /// Was it there twice in a row? Then it is worth a look there first, also for a read.
    stays: bool,
}

/// A place in a transaction to which it can go back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Savepoint {
    last: Lsn,
    owed: u64,
}

impl Entered {
    fn new(tree: &Arc<Tree>) -> Self {
        Self {
            id: tree.id,
            tree: tree.clone(),
            active: true,
            scans: false,
            stands_out: false,
            leaf: PageId::NONE,
            stays: false,
        }
    }
}

impl Txn {
    /// Begins. Waits while there are too many. `since`: [`Log::flushed`](crate::log::Log::flushed) when its work was first tried,
    /// which is its age.
    pub fn begin(core: Held<Core>, patience: Duration, since: Lsn) -> Result<Self> {
        let owner = core.txns.slots.lease(&core.log)?;
        core.txns.keys.reset(owner, since, core.txns.slots.number(owner));
        Ok(Self::with_slot(core, owner, patience))
    }

    /// The age of work that is tried again: no younger than the first time, and older than what began at about that time.
    pub fn again(since: Lsn) -> Lsn {
        Lsn(since.0.saturating_sub(1))
    }

    /// Goes on with a transaction from before a restart, which has perhaps prepared, under this id.
    pub fn resume(core: Held<Core>, owner: Owner, id: TxnId, last: Lsn, gid: Option<&[u8]>) -> Self {
        core.txns.keys.reset(owner, Lsn(id.0), core.txns.slots.number(owner));
        let mut txn = Self::with_slot(core, owner, Duration::ZERO);
        (txn.id, txn.last, txn.prepared) = (Some(id), last, gid.is_some());
        gid.inspect(|gid| txn.core.txns.await_decision(owner, gid));
        txn
    }

    fn with_slot(core: Held<Core>, owner: Owner, patience: Duration) -> Self {
        let Kept { locks, tables, body, old, spares } = core.txns.slots.take_kept(owner);
        let room = core.txns.slots.room(owner);
        Self {
            core,
            owner,
            id: None,
            last: Lsn::ZERO,
            locks,
            more_locks: 0,
            large: None,
            ghosts: Ghosts::default(),
            image_bytes: 0,
            spill: None,
            met: Vec::new(),
            blobs: Vec::new(),
            extent: None,
            tables,
            patience,
            owed: 0,
            promised: 0,
            room,
            body,
            old,
            spares,
            found: None,
            lost_over: None,
            in_line: None,
            prepared: false,
            half_undone: false,
            decided: None,
            ended: false,
        }
    }

    /// The author in the version words that it writes; 0 before its first write.
    pub fn author(&self) -> u64 {
        self.id.map_or(0, |id| Version::of(id).author())
    }

    /// Did it write this version itself?
    pub fn wrote(&self, version: Version) -> bool {
        self.id.is_some_and(|id| version.author() == Version::of(id).author())
    }

    /// What it sees without locks: what is committed, and its own.
    pub fn view(&self) -> View {
        View { own: self.author(), ..self.core.txns.latest() }
    }

    /// To be called before anything is done to a table: it is not dropped until the transaction ends. Tables are found
    /// from the front; the last one used stands there.
    pub fn enter(&mut self, tree: &Arc<Tree>) -> Result<()> {
        if self.tables.first().is_some_and(|last| last.id == tree.id && last.active) {
            return Ok(());
        }
        let known = self.tables.iter().position(|entered| entered.id == tree.id);
        if let Some(at) = known {
            self.tables.swap(0, at);
            if self.tables[0].active {
                return Ok(());
            }
        }
        if tree.users.enter(self.owner).is_err() {
            self.enter_later(tree)?;
        }
        match known {
            Some(_) => self.tables[0].active = true,
            None => self.tables.insert(0, Entered::new(tree)),
        }
        Ok(())
    }

    /// Somebody is about to drop the table: waits until it is gone, or can be used again because others use it for too long.
    #[cold]
    fn enter_later(&self, tree: &Tree) -> Result<()> {
        let enter = || match tree.users.enter(self.owner) {
            Ok(()) => Some(Ok(())),
            Err(_) => tree.ensure_not_dropped().err().map(Err),
        };
        let in_the_way = || tree.users.in_the_way();
        match self.core.txns.keys.wait_outside(self.owner, self.patience, enter, in_the_way) {
            Ok((entered, waited)) => {
                tree.note_lock_wait(Some(waited));
                entered
            }
            Err(refused) => Err(self.refused(tree, None, refused)),
        }
    }

    pub(super) fn entered(&self, tree: &Tree) -> Option<&Entered> {
        self.tables.iter().find(|entered| entered.id == tree.id && entered.active)
    }

    pub(super) fn entered_mut(&mut self, tree: &Tree) -> &mut Entered {
        let entered = self.tables.iter_mut().find(|entered| entered.id == tree.id);
        entered.expect("a table is entered before it is used")
    }

    /// The leaf of a table where it was last; [`PageId::NONE`] if it was nowhere.
    pub fn last_leaf(&self, tree: &Tree) -> PageId {
        self.entered(tree).map_or(PageId::NONE, |entered| entered.leaf)
    }

    /// The same, if it was there twice in a row.
    pub fn usual_leaf(&self, tree: &Tree) -> Option<PageId> {
        self.entered(tree).filter(|entered| entered.stays).map(|entered| entered.leaf)
    }

    /// It is at this leaf now.
    pub fn set_last_leaf(&mut self, tree: &Tree, leaf: PageId) {
        let entered = self.entered_mut(tree);
        entered.stays = entered.leaf == leaf;
        entered.leaf = leaf;
    }

    /// `old`, for another row to be read into: what was found is no longer there.
    pub fn take_old(&mut self) -> ImageRow {
        self.found = None;
        std::mem::take(&mut self.old)
    }

    /// It read the row in `old` for an update.
    pub fn set_found(&mut self, found: Found) {
        self.found = Some(found);
    }

    /// What is known of `key` if it was read last for an update; good for one write, which overwrites `old`.
    pub fn take_found(&mut self, tree: &Tree, key: &[u8]) -> Option<Found> {
        let found = self.found.take()?;
        (found.table == tree.id && self.old.key() == key).then_some(found)
    }

    /// Has it locked gaps of this table?
    pub fn scans(&self, tree: &Tree) -> bool {
        self.entered(tree).is_some_and(|entered| entered.scans)
    }

    /// To be called before the first gap of a table is locked: from now on inserters look for gap locks.
    pub fn begin_scanning(&mut self, tree: &Tree) {
        let entered = self.entered_mut(tree);
        if !entered.scans {
            entered.scans = true;
            // ORDERING: SeqCst, see `Tree::has_scanners`.
            tree.scanners.fetch_add(1, SeqCst);
        }
    }

    /// Room for one more record, of at most `longest` bytes, and an id. To be called with nothing latched before each change.
    pub fn prepare_to_write(&mut self, longest: usize) -> Result<TxnId> {
        self.core.log.ensure_room(&mut self.room, longest)?;
        if let Some(id) = self.id {
            self.spill_if_large();
            return Ok(id);
        }
        let (log, slots) = (&self.core.log, &self.core.txns.slots);
        let standing = slots.standing(self.owner);
        standing.announce(self.core.txns.latest().settled);
        self.body.clear();
        Record::Begin { owner: self.owner }.encode(&mut self.body);
        self.room.use_up(self.body.len());
        let record = log.reserve(self.body.len());
        let id = TxnId(record.start().0);
        standing.began(id);
        self.core.txns.keys.began(self.owner, id);
        log.fill(record, &self.body);
        (self.id, self.last) = (Some(id), Lsn(id.0));
        self.spill_if_large(); // before it changes anything
        Ok(id)
    }

    /// It has logged a record of so many bytes that changes so many rows: its rollback may write as many bytes more, for a
    /// compensation is hardly longer than what it undoes.
    pub fn owe_for(&mut self, bytes: usize, rows: usize) {
        self.room.use_up(bytes);
        self.owed += bytes as u64 + UNDO_OVERHEAD_BYTES + UNDO_ROW_BYTES * (rows as u64).saturating_sub(1);
        let free = self.core.log.undo_bytes_free();
        if self.owed > self.promised + free {
            self.core.log.promise(self.owed + free - self.promised);
            self.promised = self.owed + free;
        }
    }

    /// It made a ghost of this key, or brought back that of another author.
    pub fn note_ghost(&mut self, tree: &Arc<Tree>, key: &[u8], author: u64) {
        let is_spilled = |spill: &Arc<Spill>| author == self.author() && spill.notes_ghost(tree.id, key);
        if !self.spill.as_ref().is_some_and(is_spilled) {
            self.ghosts.note(tree, key, author);
        }
    }

    /// It has locked `key` in this leaf. If that is a ghost, and another's, it may keep who was to remove it from that: it does so
    /// itself when it ends. Otherwise those who take rows from one end of a table would lock more and more ghosts on their way
    /// to the first row, and keep them there for each other.
    pub fn note_met(&mut self, tree: &Arc<Tree>, leaf: PageId, version: Version, key: &[u8]) {
        let is_known = self.met.last().is_some_and(|(last, ..)| *last == leaf);
        if version.is_ghost() && !self.wrote(version) && !is_known && self.met.len() < MET_MAX {
            self.met.push((leaf, tree.clone(), key.into()));
        }
    }

    /// It created a large value, or replaced one: when it has ended, the mark tells what is to become of that.
    pub fn note_blob(&mut self, chunks: &Arc<Tree>, id: BlobId) {
        self.blobs.push((chunks.clone(), id));
    }

    /// It wrote an extent; [`Extents::sync`](crate::blob::Extents::sync) knows it by this number.
    pub fn note_extent(&mut self, write: u64) {
        self.extent = Some(write);
    }

    /// Waits until the extents that it wrote are durable, as they must be before it can commit (X2 in `blob/extents.rs`), or
    /// prepare. A second call does not wait.
    pub fn await_extents(&mut self) -> Result<()> {
        match self.extent.take() {
            Some(write) if !seeded_bug("blob_committed_before_sync") => {
                self.core.extents.sync(write, &self.core.log)
            }
            _ => Ok(()),
        }
    }

    /// A place to go back to.
    pub fn savepoint(&self) -> Savepoint {
        Savepoint { last: self.last, owed: self.owed }
    }

    /// Undoes what was done since `savepoint`. Locks stay.
    pub fn roll_back_to(&mut self, savepoint: Savepoint) -> Result<()> {
        let Some(id) = self.id else { return Ok(()) };
        let until = savepoint.last.max(Lsn(id.0));
        let scanned = self.tables.iter().filter(|entered| entered.active && entered.scans);
        scanned.for_each(|entered| entered.tree.spans.forget_voids(self.owner));
        let active = self.tables.iter().filter(|entered| entered.active);
        let tables: HashMap<_, _> = active.map(|entered| (entered.id, entered.tree.clone())).collect();
        let undone = super::roll_back(self, until, &|id| tables.get(&id).cloned());
        match &undone {
            Ok(()) => self.owed = savepoint.owed, // what was undone is not undone once more
            Err(_) => self.half_undone = true,
        }
        undone
    }

    /// Undoes what `work` did if it fails.
    pub fn as_a_whole<R>(&mut self, work: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        let before = self.savepoint();
        let done = work(self);
        if done.is_err() {
            self.roll_back_to(before)?;
        }
        done
    }

    /// To be asked now and then by what takes long, and need not wait for locks: these look for themselves.
    ///
    /// Errors: [`Error::Aborted`] if another thread wants it rolled back.
    pub fn ensure_wanted(&self) -> Result<()> {
        match self.core.txns.keys.is_interrupted(self.owner) {
            false => Ok(()),
            true => Err(Error::Aborted { txn: self.core.txns.slots.number(self.owner) }),
        }
    }

    /// Did it fail half-way to undo what it did since a savepoint?
    pub fn is_half_undone(&self) -> bool {
        self.half_undone
    }

    /// Commits: from now on everybody sees what it did. Returns the end of its commit record, whose durability is its
    /// own; `None` if it wrote nothing.
    ///
    /// Errors: [`Error::Poisoned`]: what it wrote past the log is perhaps lost, or the log had stopped. It is rolled back.
    pub fn commit(mut self) -> Result<Option<Lsn>> {
        if self.locks.len() + self.more_locks > LOCKS_AT_ONCE {
            will_wait(); // for nobody, but to give so many back takes a while
        }
        if self.decided.is_none()
            && let Err(failed) = self.get_ready_to_commit()
        {
            return self.roll_back().and(Err(failed));
        }
        self.decide();
        if let (Some(id), Some((at, _))) = (self.id, self.decided) {
            self.leave_garbage(id, at);
        }
        let end = self.decided.map(|(_, end)| end);
        self.core.txns.slots.count_commit(self.owner);
        self.finish();
        if let Some(end) = end {
            self.core.txns.settle_now_and_then(&self.core.log, end);
        }
        Ok(end)
    }

    /// Waits for what a commit record takes. None is written into a log that has stopped: though nobody would be told that it has committed,
    /// the next open might find the record.
    fn get_ready_to_commit(&mut self) -> Result<()> {
        self.await_extents()?;
        self.id.map_or(Ok(()), |_| self.core.log.ensure_works())
    }

    /// Writes its commit record, if it wrote anything, and has not done so: what is left of its commit cannot fail. The extents that it
    /// wrote are durable.
    pub fn decide(&mut self) {
        if self.id.is_some() && self.decided.is_none() {
            self.decided = Some(self.write_commit());
            self.ended = true; // whatever happens, nothing is undone any more
        }
    }

    fn write_commit(&mut self) -> (Lsn, Lsn) {
        if seeded_bug("txn_locks_released_early") {
            self.locks.iter().for_each(|name| self.core.txns.keys.release(self.owner, *name));
            std::thread::yield_now();
        }
        let core = &*self.core;
        self.body.clear();
        Record::Commit { owner: self.owner }.encode(&mut self.body);
        let standing = core.txns.slots.standing(self.owner);
        let _old = stage::enter(stage::Old::Log); // from now on readers of what it wrote wait for its place
        standing.committing();
        self.room.use_up(self.body.len());
        let record = core.log.reserve(self.body.len());
        let (at, end) = (record.start(), record.end());
        standing.committed(at);
        core.log.fill(record, &self.body);
        (at, end)
    }

    /// Is it being rolled back, or has it ended?
    pub fn is_ending(&self) -> bool {
        self.ended
    }

    /// Gives its locks back, stamps its images and leaves them, with its ghosts, to those who clear up; without an open
    /// snapshot nobody needs the images.
    fn leave_garbage(&mut self, id: TxnId, commit: Lsn) {
        self.gather_locks();
        let core = &*self.core;
        let author = Version::of(id).author();
        // Whoever has an image has its key locked by a request.
        let newest = core.txns.snapshots.newest();
        let stamp = newest.map(|newest| CommitStamp { commit, newest });
        let (keys, mut dropped, mut stamped, mut images) = (&core.txns.keys, 0, 0, Vec::new());
        for (at, name) in self.locks.iter().enumerate() {
            if let Some(later) = self.locks.get(at + LOCKS_AHEAD) {
                keys.prefetch(*later);
            }
            let finished = keys.finish(self.owner, *name, author, stamp, &mut self.spares);
            dropped += finished.dropped;
            stamped += finished.stamped;
            images.extend(finished.kept.then_some(*name));
        }
        keys.count_dropped(self.owner, dropped);
        self.locks.clear();
        if std::mem::take(&mut self.more_locks) > 0 {
            keys.release_all(self.owner);
        }
        keys.release_shown(self.owner); // before anything is cleared up, which may take long
        let (ghosts, blobs) = (std::mem::take(&mut self.ghosts).into_list(), std::mem::take(&mut self.blobs));
        let spill = self.spill.take().inspect(|spill| core.txns.spills.committed(spill, commit));
        core.dispose(self.owner, Batch { commit, author, images, ghosts, blobs, spill });
        // Only now can they be cleared: no snapshot is given up in vain before.
        keys.count_kept(self.owner, stamped);
        core.sweep_own(self.owner);
    }

    /// Waits for what [`Txn::prepare`] takes: `gid_len` is the length of its id.
    pub fn get_ready_to_prepare(&mut self, gid_len: usize) -> Result<()> {
        self.await_extents()?;
        self.prepare_to_write(gid_len).map(drop)
    }

    /// Becomes one that can be committed and rolled back, whichever is asked for, also after a crash. It has got ready for that.
    /// Returns the end of the record that says so, which must be durable before anybody relies on it.
    pub fn prepare(&mut self, gid: &[u8]) -> Lsn {
        let core = &*self.core;
        self.body.clear();
        Record::Prepare { owner: self.owner, previous: self.last, gid }.encode(&mut self.body);
        self.room.use_up(self.body.len());
        let record = core.log.reserve(self.body.len());
        let end = record.end();
        self.last = record.start();
        core.log.fill(record, &self.body);
        core.txns.await_decision(self.owner, gid);
        self.prepared = true;
        end
    }

    /// Its changes were undone by a restart: says so in the log, and ends.
    pub fn end_rollback(&mut self) -> Result<()> {
        if let Some(id) = self.id {
            self.write_end(id)?;
        }
        self.finish();
        Ok(())
    }

    /// Forgets it as it is: the next open decides what becomes of it.
    pub fn abandon(mut self) {
        self.ended = true;
    }

    /// Rolls back. After an error the transaction stays undone in part, with its locks: if there was no space, a read failed, or a
    /// file could not be opened, until it can be gone on with ([`Core::go_on_undoing`]); otherwise until the database is opened
    /// again.
    pub fn roll_back(mut self) -> Result<()> {
        let undone = self.undo();
        match &undone {
            Ok(()) => {}
            Err(Error::Full { .. } | Error::TooManyFiles { .. } | Error::Io { .. }) => self.break_off(),
            Err(reason) => self.core.txns.strand(self.owner, reason),
        }
        undone
    }

    /// Keeps its locks until its rollback can be gone on with.
    pub fn break_off(mut self) {
        self.ended = true;
        let core = self.core.clone();
        core.txns.broken_off.lock().push(self);
    }

    fn undo(&mut self) -> Result<()> {
        self.ended = true; // or half: its slot and locks stay, as nobody may see or change what is half undone
        if let Some(id) = self.id {
            self.roll_back_to(Savepoint { last: Lsn::ZERO, owed: 0 })?;
            self.write_end(id)?;
        }
        self.core.txns.slots.count_rollback(self.owner);
        self.finish();
        Ok(())
    }

    fn write_end(&mut self, id: TxnId) -> Result<()> {
        let core = &*self.core;
        core.log.room_to_undo()?;
        self.body.clear();
        Record::End { owner: self.owner }.encode(&mut self.body);
        let record = core.log.reserve(self.body.len());
        let at = record.start();
        core.log.fill(record, &self.body);
        let spill = self.spill.take();
        self.leave_garbage(id, at);
        // This may wait, and take long, and so has its locks given back before. No row names it any more: who comes to one does not ask the
        // spill, though that is listed.
        spill.inspect(|spill| self.core.txns.spills.free(spill));
        Ok(())
    }

    pub(super) fn release_locks(&mut self) {
        self.gather_locks();
        for name in self.locks.drain(..) {
            self.core.txns.keys.release(self.owner, name);
        }
        if std::mem::take(&mut self.more_locks) > 0 {
            self.core.txns.keys.release_all(self.owner);
        }
        self.core.txns.keys.release_shown(self.owner);
    }

    fn finish(&mut self) {
        self.ended = true;
        self.release_locks();
        for (_, tree, ghost) in self.met.drain(..) {
            // What stays, for want of space or for damage, is there for the next one. If a snapshot needs this one, it mostly needs those
            // beside it, which would be looked at by each who passes.
            if !tree.is_seen(&ghost) {
                let _ = tree.purge_forgotten(&ghost);
            }
        }
        if !self.blobs.is_empty() {
            // It wrote no record of its own, so nobody saw them.
            let blobs = std::mem::take(&mut self.blobs);
            self.core.dispose(self.owner, Batch { blobs, ..Batch::new(Lsn::ZERO, 0) });
        }
        for entered in self.tables.iter_mut().filter(|entered| entered.active) {
            if entered.scans {
                entered.tree.spans.forget(self.owner);
                entered.tree.scanners.fetch_sub(1, SeqCst);
            }
            entered.tree.users.leave(self.owner);
            if entered.stands_out {
                entered.tree.large_ones.end();
            }
            (entered.active, entered.scans, entered.stands_out) = (false, false, false);
        }
        if self.promised > 0 {
            self.core.log.redeem(self.promised);
        }
        self.keep();
        self.core.txns.slots.keep_room(self.owner, self.room);
        self.core.txns.slots.give_back(self.owner);
    }

    /// Leaves memory and references to the next transaction in this slot.
    fn keep(&mut self) {
        let kept = Kept {
            locks: std::mem::take(&mut self.locks),
            tables: std::mem::take(&mut self.tables),
            body: std::mem::take(&mut self.body),
            old: std::mem::take(&mut self.old),
            spares: std::mem::take(&mut self.spares),
        };
        self.core.txns.slots.keep(self.owner, kept.within_bounds());
    }
}

impl Drop for Txn {
    fn drop(&mut self) {
        if !self.ended && !self.prepared {
            // Which takes it, as it may have to keep it. What is left here has ended.
            let mut left = Self::with_slot(self.core.clone(), self.owner, self.patience);
            left.ended = true;
            let _ = std::mem::replace(self, left).roll_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;
    use crate::tree::testing::comes_true;
    use crate::tree::{Intent, PATIENCE};
    use crate::txn::Direction;
    use std::ops::Bound;
    use std::thread;

    /// Who waits for what it has read, as others have, does not wait for what is cleared up after it.
    #[test]
    fn what_is_shown_is_given_back_before_it_is_cleared_up() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        table.put_many(&[("popular", ""), ("row", "before")]).unwrap();
        let (tree, core) = (&table.tree, table.tree.core());
        let (txns, name) = (&core.txns, core.txns.keys.name(tree.id, b"popular"));
        let mut readers = [(); 4].map(|()| {
            let mut reader = Txn::begin(core.clone().into(), PATIENCE, Lsn::ZERO).unwrap();
            reader.enter(tree).unwrap();
            assert!(tree.get_locked(&mut reader, b"popular", &mut Vec::new()).unwrap());
            reader
        });
        assert!(readers[3].locks.is_empty(), "it shows what it reads");
        tree.write(&mut readers[3], b"row", Intent::Put(b"after")).unwrap();
        let _snapshot = db.snapshot().unwrap();
        let [first, second, third, txn] = readers;
        [first, second, third].into_iter().for_each(|reader| reader.roll_back().unwrap());
        thread::scope(|scope| {
            let held = txns.garbage.hold();
            let commit = scope.spawn(move || txn.commit());
            let is_free = comes_true(|| txns.keys.is_quiet(name, None));
            drop(held);
            commit.join().unwrap().unwrap();
            assert!(is_free, "the row is locked");
        });
    }

    /// Trying the same again and again within a transaction keeps no more room back in the log than trying it once.
    #[test]
    fn what_is_undone_is_owed_no_more() {
        let db = Database::in_memory().unwrap();
        let tree = db.byte_table("t").unwrap().tree;
        let mut txn = Txn::begin(tree.core().clone().into(), PATIENCE, Lsn::ZERO).unwrap();
        tree.write(&mut txn, b"kept", Intent::Put(b"value")).unwrap();
        let (before, owed) = (txn.savepoint(), txn.owed);
        for _ in 0..10 {
            tree.write(&mut txn, b"undone", Intent::Put(&[7; 1000])).unwrap();
            assert!(txn.owed > owed + 1000);
            txn.roll_back_to(before).unwrap();
            assert_eq!(txn.owed, owed);
        }
        txn.roll_back().unwrap();
    }

    /// Beside a snapshot whoever takes the first row of a queue, or removes the first rows, passes all that were taken since: they cost it
    /// no locks.
    #[test]
    fn a_run_of_ghosts_takes_few_locks() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        let keys: Vec<_> = (0..3000_u16).map(u16::to_be_bytes).collect();
        table.put_many(&keys.iter().map(|key| (key, [7; 20])).collect::<Vec<_>>()).unwrap();
        let _snapshot = db.snapshot().unwrap();
        table.remove_range(..&keys[2900]).unwrap();
        for direction in [Direction::Ascending, Direction::Descending] {
            let bounds = (Bound::Unbounded, Bound::Excluded(keys[2901].to_vec()));
            let mut txn = Txn::begin(table.tree.core().clone().into(), PATIENCE, Lsn::ZERO).unwrap();
            let row = table.tree.pop(&mut txn, true, direction, bounds.clone()).unwrap();
            assert_eq!(row.map(|row| row.0), Some(keys[2900].to_vec()));
            assert_eq!(table.tree.pop(&mut txn, true, direction, bounds).unwrap(), None);
            assert!(txn.locks.len() < 50, "{direction:?}: {} locks", txn.locks.len());
            txn.roll_back().unwrap();
        }
        let mut txn = Txn::begin(table.tree.core().clone().into(), PATIENCE, Lsn::ZERO).unwrap();
        let bounds = (Bound::Unbounded, Bound::Excluded(keys[2910].to_vec()));
        assert_eq!(table.tree.remove_range(&mut txn, true, bounds, u64::MAX).unwrap(), 10);
        assert!(txn.locks.len() < 50, "removal: {} locks", txn.locks.len());
        txn.roll_back().unwrap();
    }

    /// Nor does that take longer and longer, as one had to pass all that was undone before.
    #[test]
    fn what_is_undone_is_out_of_the_way() {
        let db = Database::in_memory().unwrap();
        let tree = db.byte_table("t").unwrap().tree;
        let mut txn = Txn::begin(tree.core().clone().into(), PATIENCE, Lsn::ZERO).unwrap();
        let undone = |before: Savepoint, txn: &mut Txn| {
            tree.write(txn, b"undone", Intent::Put(b"value")).unwrap();
            txn.roll_back_to(before).unwrap();
            txn.last
        };
        let first = txn.savepoint();
        let begin = undone(first, &mut txn);
        assert_eq!((Some(TxnId(begin.0)), undone(first, &mut txn)), (txn.id, begin));
        tree.write(&mut txn, b"kept", Intent::Put(b"value")).unwrap();
        let (before, kept) = (txn.savepoint(), txn.last);
        assert_eq!((undone(before, &mut txn), undone(before, &mut txn)), (kept, kept));
        txn.roll_back_to(first).unwrap();
        assert_eq!(txn.last, begin);
        txn.commit().unwrap();
        assert_eq!(db.byte_table("t").unwrap().range(..).count(), 0);
    }
}
