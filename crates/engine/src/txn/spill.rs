//! Images of a transaction that replaces more than memory is meant for: on disk.
//!
//! Why: what a transaction replaces is kept for those who read beside it, in memory. One that changes every row of a table would keep
//! that table there.
//! How: beyond a bound a transaction *spills*. Before it changes a row for the first time, it copies the row's cell, version word and all,
//! into a hidden table, one for each table that it changes. The leaves of these come and go through the pool like all others. A row that it
//! puts where there was none leaves nothing: that it is not in the hidden table says so. Hidden tables are in no catalog, so the first
//! opening after a crash frees them; nobody needs them then.
//!
//! Invariants:
//! - W1: a spill is listed before its transaction changes a row without an image in memory, and until nobody asks for one: that
//!   transaction has undone all, or has committed below every open snapshot.
//! - W2: of each row that its transaction was the first to change since, a listed spill has what was replaced, unless there was nothing,
//!   or the key table has an image of it. It does not change, as the transaction has the row locked as long as it runs.
//! - W3: what a reader found in a spill, and behind that, counts if he comes to the same spill from the same newest author when he looks
//!   at the row again (V2). For older images of the row change only when its newest ones are merged with them (I6 in `lock/images.rs`):
//!   then another way leads from there, past the spill.

use crate::db::catalog::TEMPORARY;
use crate::error::Result;
use crate::lock::{Name, Owner};
use crate::tree::{Tree, Values};
use crate::txn::slots::Slots;
use crate::txn::standing::Fate;
use crate::txn::{Txn, View};
use crate::version::Version;
use crate::waits::lock_or_wait;
use foreshore_base::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use foreshore_base::{Lsn, TableId, seeded_bug};
use parking_lot::{Mutex, MutexGuard};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// The images of one transaction that are on disk.
pub(crate) struct Spill {
    /// The author in the version words that it writes, and its slot.
    author: u64,
    owner: Owner,
    /// The transaction's.
    pub number: u64,
    hidden: Mutex<Vec<Arc<Hidden>>>,
}

/// A hidden table.
struct Hidden {
    /// The table whose rows it has.
    of: Arc<Tree>,
    rows: Arc<Tree>,
    /// Were any of these rows removed?
    has_ghosts: AtomicBool,
}

/// All there are.
pub(crate) struct Spills {
    listed: Mutex<Vec<Listed>>,
    /// A bit for the author of each: nearly always none. Readers who meet another author do not ask further, which would write memory that
    /// they share.
    ///
    /// ORDERING: Relaxed. Whoever has read a row that a listed spill's transaction changed has synchronized with the latch of its leaf.
    authors: AtomicU64,
    next_table: AtomicU32,
    /// Held while hidden tables are freed.
    freeing: Mutex<()>,
}

struct Listed {
    spill: Arc<Spill>,
    /// Where its transaction committed, if it has.
    commit: Option<Lsn>,
}

impl Listed {
    /// What became of its transaction, which has its slot as long as it is not said here that it has committed.
    fn fate(&self, slots: &Slots) -> Fate {
        match self.commit {
            Some(at) => Fate::Committed(at),
            None => slots.standing(self.spill.owner).fate(),
        }
    }
}

impl Spill {
    /// The hidden table for rows of `table`, if any was spilled.
    fn table(&self, table: TableId) -> Option<Arc<Hidden>> {
        self.hidden.lock().iter().find(|hidden| hidden.of.id == table).cloned()
    }

    /// Keeps this version of a row, which its transaction has locked, and is going to change for the first time.
    pub fn put(&self, tree: &Arc<Tree>, key: &[u8], value: &[u8], version: Version) -> Result<()> {
        let hidden = match self.table(tree.id) {
            Some(hidden) => hidden,
            None => self.make_table(tree)?,
        };
        hidden.rows.put_cell(key, value, version)
    }

    fn make_table(&self, tree: &Arc<Tree>) -> Result<Arc<Hidden>> {
        let id = tree.core().txns.spills.next_table.fetch_add(1, Relaxed) | TEMPORARY.0;
        let rows = Arc::new(Tree::create_for_images(tree, TableId(id))?);
        let hidden = Arc::new(Hidden { of: tree.clone(), rows, has_ghosts: AtomicBool::new(false) });
        self.hidden.lock().push(hidden.clone());
        Ok(hidden)
    }

    /// What its transaction replaced of the row; `None`: nothing, or the key table has it.
    pub fn replaced(&self, table: TableId, key: &[u8]) -> Result<Option<(Version, Vec<u8>)>> {
        self.table(table).map_or(Ok(None), |hidden| hidden.rows.newest_cell(key))
    }

    /// Its transaction has removed this row. Is that noted, as it has the row?
    pub fn notes_ghost(&self, table: TableId, key: &[u8]) -> bool {
        let Some(hidden) = self.table(table) else { return false };
        let is_row = |cell: Option<(Version, _)>| cell.is_some_and(|(version, _)| !version.is_ghost());
        let notes = hidden.rows.newest_cell(key).is_ok_and(is_row);
        if notes {
            hidden.has_ghosts.store(true, Relaxed);
        }
        notes
    }

    /// Its transaction has removed a row of this table, which it has.
    pub fn note_ghosts(&self, table: TableId) {
        if let Some(hidden) = self.table(table) {
            hidden.has_ghosts.store(true, Relaxed);
        }
    }

    /// Shows the rows of those tables in which some were removed, until `show` breaks.
    pub fn each_with_ghosts(&self, mut show: impl FnMut(&Arc<Tree>, &[u8]) -> ControlFlow<()>) -> Result<()> {
        let all = self.hidden.lock().clone();
        for hidden in all.iter().filter(|hidden| hidden.has_ghosts.load(Relaxed)) {
            let mut row = |key: &[u8], _: &[u8]| show(&hidden.of, key);
            hidden.rows.scan(View::NEWEST, Values::Skip, (Bound::Unbounded, Bound::Unbounded), &mut row)?;
        }
        Ok(())
    }
}

impl Spills {
    /// None.
    pub fn new() -> Self {
        let next_table = AtomicU32::new(TEMPORARY.0);
        Self { listed: Mutex::default(), authors: AtomicU64::new(0), next_table, freeing: Mutex::new(()) }
    }

    /// A transaction begins to spill.
    pub fn begin(&self, author: u64, owner: Owner, number: u64) -> Arc<Spill> {
        let spill = Arc::new(Spill { author, owner, number, hidden: Mutex::default() });
        self.change(|listed| listed.push(Listed { spill: spill.clone(), commit: None }));
        spill
    }

    fn change<R>(&self, change: impl FnOnce(&mut Vec<Listed>) -> R) -> R {
        let mut listed = self.listed.lock();
        let changed = change(&mut listed);
        self.authors.store(listed.iter().fold(0, |bits, known| bits | bit_of(known.spill.author)), Relaxed);
        changed
    }

    /// Is there any?
    #[inline]
    pub fn any(&self) -> bool {
        self.authors.load(Relaxed) != 0
    }

    /// The spill of the author of a version, if it is listed, and what became of its transaction.
    pub fn find(&self, version: Version, slots: &Slots) -> Option<(Arc<Spill>, Fate)> {
        if self.authors.load(Relaxed) & bit_of(version.author()) == 0 || seeded_bug("spill_overlooked") {
            return None;
        }
        let listed = self.listed.lock();
        let known = listed.iter().find(|known| known.spill.author == version.author())?;
        Some((known.spill.clone(), known.fate(slots)))
    }

    /// Is it listed?
    pub fn is_listed(&self, spill: &Arc<Spill>) -> bool {
        self.listed.lock().iter().any(|known| Arc::ptr_eq(&known.spill, spill))
    }

    /// Has a listed one a value of this row, or may it have one, as it cannot be read?
    pub fn have(&self, table: TableId, key: &[u8]) -> bool {
        let of_table = |known: &Listed| known.spill.table(table);
        let hidden: Vec<_> = match self.any() {
            true => self.listed.lock().iter().filter_map(of_table).collect(),
            false => return false,
        };
        let has_value = |hidden: &Arc<Hidden>| match hidden.rows.newest_cell(key) {
            Ok(Some((version, _))) => !version.is_ghost(),
            unknown => unknown.is_err(),
        };
        hidden.iter().any(has_value)
    }

    /// Its transaction has committed here. To be called before that gives its slot back.
    pub fn committed(&self, spill: &Arc<Spill>, at: Lsn) {
        self.change(|listed| {
            let of_it = listed.iter_mut().filter(|known| Arc::ptr_eq(&known.spill, spill));
            of_it.for_each(|known| known.commit = Some(at));
        });
    }

    /// Nobody needs it any more (W1): frees its hidden tables.
    pub fn free(&self, spill: &Arc<Spill>) {
        let _freeing = lock_or_wait(&self.freeing);
        self.change(|listed| listed.retain(|known| !Arc::ptr_eq(&known.spill, spill)));
        for hidden in std::mem::take(&mut *spill.hidden.lock()) {
            hidden.rows.mark_dropped();
            hidden.rows.free_leaves();
        }
    }

    /// As long as this is held, no hidden table is half freed.
    pub fn keep_from_freeing(&self) -> MutexGuard<'_, ()> {
        lock_or_wait(&self.freeing)
    }

    /// The hidden tables of all.
    pub fn tables(&self) -> Vec<Arc<Tree>> {
        let all: Vec<_> = self.listed.lock().iter().map(|known| known.spill.clone()).collect();
        let tables_of =
            |spill: &Arc<Spill>| spill.hidden.lock().iter().map(|hidden| hidden.rows.clone()).collect();
        all.iter().flat_map(|spill| -> Vec<_> { tables_of(spill) }).collect()
    }

    /// Forgets them when the database is closed: they hold on to what all tables share, and that to them.
    pub fn forget(&self) {
        self.change(Vec::clear);
    }
}

/// The bit of an author among 64.
fn bit_of(author: u64) -> u64 {
    1 << (author.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58)
}

impl Txn {
    /// From now on its images go to disk, if it has put more into the key table than it may, or is large anyway.
    #[inline]
    pub fn spill_if_large(&mut self) {
        if self.spill.is_none() && (self.is_large() || self.image_bytes > self.core.txns.image_bytes_max) {
            self.begin_to_spill();
        }
    }

    #[cold]
    fn begin_to_spill(&mut self) {
        if !self.is_large() {
            self.become_large();
        }
        if self.is_large() {
            let number = self.core.txns.slots.number(self.owner);
            self.spill = Some(self.core.txns.spills.begin(self.author(), self.owner, number));
        }
    }

    /// It puts an image of so many bytes into the key table under this name, to be looked for there when it ends.
    #[inline]
    pub fn note_image(&mut self, name: Name, bytes: u64) {
        self.image_bytes += bytes;
        if self.spill.is_some() {
            self.locks.push(name); // as there is no space on disk
        }
    }

    /// Where its images go that are no longer to be in memory.
    pub fn spill(&self) -> Option<&Arc<Spill>> {
        self.spill.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::{Random, seeds};
    use crate::tree::testing::comes_true;
    use crate::{ByteTable, Database, Error, Savepoint, Snapshot, Transaction, TransactionOptions};
    use foreshore_io::{MemVfs, SimDisk, sim::Crash};
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

    const ROWS: u16 = 10_000;

    fn rows(value: &[u8]) -> Vec<([u8; 2], Vec<u8>)> {
        (0..ROWS).map(|row| (row.to_be_bytes(), value.to_vec())).collect()
    }

    fn database() -> (Database, ByteTable) {
        let db = Database::builder().leaf_bytes(4096).open_on(Arc::new(MemVfs::new())).unwrap();
        let table = db.byte_table("t").unwrap();
        (db, table)
    }

    fn all(db: &Database, table: &ByteTable) -> Rows {
        db.snapshot().unwrap().bytes(table).range(..).map(Result::unwrap).collect()
    }

    /// However much a transaction replaces, removes, or puts and takes back, little of it is in memory.
    #[test]
    fn a_large_transaction_takes_little_memory() {
        let (db, table) = database();
        let images = || db.stats().image_bytes;
        let before: Rows = rows(b"before").into_iter().map(|(key, value)| (key.to_vec(), value)).collect();
        let tx = db.begin().unwrap();
        tx.bytes(&table).put_many(&rows(b"before")).unwrap();
        assert!(images() < 4096, "new rows: {}", images());
        assert!(all(&db, &table).is_empty() && table.multi_get(&[[0, 1], [9, 9]]).unwrap() == [None, None]);
        let undone = tx.savepoint().unwrap();
        tx.bytes(&table).put_many(&rows(b"undone")).unwrap();
        tx.rollback_to(undone).unwrap();
        tx.commit().unwrap();
        assert!(all(&db, &table) == before && images() == 0);

        let snapshot = db.snapshot().unwrap();
        let tx = db.begin().unwrap();
        tx.bytes(&table).put_many(&rows(b"after")).unwrap();
        assert!(images() < 4096, "replaced rows: {}", images());
        assert!(all(&db, &table) == before, "nothing is committed");
        tx.commit().unwrap();
        assert_eq!(
            table.range(..).map(Result::unwrap).filter(|(_, value)| value == b"after").count(),
            10_000
        );
        assert!(snapshot.bytes(&table).range(..).map(Result::unwrap).eq(before.clone()));

        assert_eq!(table.remove_range(..).unwrap(), ROWS.into());
        assert!(images() < 4096, "removed rows: {}", images());
        let noted = table.tree.core().txns.garbage.bytes();
        assert!(noted < 100_000, "{noted} bytes of notes");
        assert!(snapshot.bytes(&table).range(..).map(Result::unwrap).eq(before) && table.is_empty().unwrap());
        drop(snapshot);
        assert!(comes_true(|| table.tree.core().txns.spills.tables().is_empty()));
        let is_clear =
            || db.check().is_ok_and(|report| (report.tables[1].ghosts, report.stray_pages) == (0, 0));
        assert!(comes_true(is_clear), "{:?}", db.check());

        let tx = db.begin().unwrap();
        tx.bytes(&table).put_many(&rows(b"never")).unwrap();
        tx.rollback().unwrap();
        assert!(comes_true(is_clear), "{:?}", db.check());
    }

    /// Nor do rows that are removed from several tables in turn, or put over those that others have removed.
    #[test]
    fn what_is_removed_and_put_again_takes_little_memory() {
        let (db, table) = database();
        let other = db.byte_table("other").unwrap();
        let rows = rows(b"before");
        [&table, &other].iter().for_each(|table| table.put_many(&rows).unwrap());
        let snapshot = db.snapshot().unwrap();
        let tx = db.begin().unwrap();
        for (key, _) in &rows {
            assert!(tx.bytes(&table).remove(key).unwrap() && tx.bytes(&other).remove(key).unwrap());
        }
        tx.commit().unwrap();
        let noted = table.tree.core().txns.garbage.bytes();
        assert!(noted < 10_000, "{noted} bytes of notes");
        let tx = db.begin().unwrap();
        tx.bytes(&table).put_many(&rows).unwrap();
        assert!(db.stats().image_bytes < 4096, "{}", db.stats().image_bytes);
        let seen =
            || snapshot.bytes(&table).range(..).map(Result::unwrap).filter(|(_, value)| value == b"before");
        assert!(seen().count() == ROWS.into() && table.is_empty().unwrap());
        tx.rollback().unwrap();
        db.transact(|tx| tx.bytes(&table).put_many(&rows)).unwrap();
        assert_eq!((seen().count(), table.range(..).count()), (ROWS.into(), ROWS.into()));
        drop(snapshot);
        let ghosts = || db.check().unwrap().tables.iter().map(|table| table.ghosts).sum::<u64>();
        assert!(comes_true(|| ghosts() == 0), "{} ghosts", ghosts());
    }

    /// What was removed from a table that is dropped is not tried again for ever.
    #[test]
    fn what_a_dropped_table_had_is_forgotten() {
        let (db, table) = database();
        table.put_many(&rows(b"v")).unwrap();
        let snapshot = db.snapshot().unwrap();
        table.remove_range(..).unwrap();
        let (core, tree) = (table.tree.core().clone(), Arc::downgrade(&table.tree));
        drop(table);
        assert!(db.drop_table("t").unwrap());
        drop(snapshot);
        let is_forgotten = || {
            core.retry_stuck(|_| true);
            core.txns.garbage.is_empty() && tree.strong_count() == 0
        };
        assert!(comes_true(is_forgotten), "{} hold the table", tree.strong_count());
    }

    /// Beside who frees hidden tables a check counts all leaves.
    #[test]
    fn what_is_being_freed_is_counted() {
        let (db, table) = database();
        table.put_many(&rows(b"before")).unwrap();
        for _ in 0..5 {
            let snapshot = db.snapshot().unwrap();
            db.transact(|tx| tx.bytes(&table).put_many(&rows(b"after"))).unwrap();
            drop(snapshot);
            while !table.tree.core().txns.spills.tables().is_empty() {
                assert_eq!(db.check().unwrap().stray_pages, 0);
            }
        }
    }

    /// A reader has come to a spill by way of an image that is merged with another one before he looks there.
    #[test]
    fn who_comes_by_a_way_that_is_gone_looks_again() {
        const ROWS: u16 = 3000;
        let (db, table) = database();
        let all =
            |value: &str| (0..ROWS).map(|row| (row.to_be_bytes(), value.to_owned())).collect::<Vec<_>>();
        table.put_many(&all("seen")).unwrap();
        let snapshot = db.snapshot().unwrap();
        table.put_many(&all("single")).unwrap();
        db.transact(|tx| tx.bytes(&table).put_many(&all("spilled"))).unwrap();
        let (at, is_over) = (&AtomicU64::new(0), &AtomicBool::new(false));
        std::thread::scope(|scope| {
            let readers = [(); 2].map(|()| {
                scope.spawn(|| {
                    while !is_over.load(SeqCst) {
                        let key = (at.load(SeqCst) as u16).to_be_bytes();
                        assert_eq!(snapshot.bytes(&table).get(&key).unwrap().as_deref(), Some(&b"seen"[..]));
                    }
                })
            });
            for row in (0..ROWS).take_while(|_| !readers.iter().any(|reader| reader.is_finished())) {
                at.store(row.into(), SeqCst);
                db.transact(|tx| tx.bytes(&table).put(&row.to_be_bytes(), b"small")).unwrap();
            }
            is_over.store(true, SeqCst);
        });
    }

    /// A row whose image is in memory, and which is removed when its transaction spills.
    #[test]
    fn what_was_changed_before_is_needed_too() {
        let (db, table) = database();
        table.put(&[1, 0], b"before").unwrap();
        let snapshot = db.snapshot().unwrap();
        let tx = db.begin().unwrap();
        tx.bytes(&table).put(&[1, 0], b"after").unwrap();
        (2..30_u8).for_each(|row| tx.bytes(&table).put(&[row], b"new").unwrap());
        tx.bytes(&table).put(&[0], b"new").unwrap();
        assert!(tx.bytes(&table).remove(&[0]).unwrap() && tx.bytes(&table).remove(&[1, 0]).unwrap());
        tx.commit().unwrap();
        assert_eq!(snapshot.bytes(&table).get(&[1, 0]).unwrap().as_deref(), Some(&b"before"[..]));
        assert_eq!(snapshot.bytes(&table).range(..).count(), 1);
    }

    /// Nobody sees half of a large transaction, however it ends, nor anything that was never there.
    #[test]
    fn nobody_sees_half_of_a_large_transaction() {
        const ROWS: u8 = 100;
        let (db, table) = database();
        let keys: Vec<_> = (0..ROWS).map(|row| [row]).collect();
        let put_all = |tx: &Transaction, round: u64| {
            keys.iter().try_for_each(|key| tx.bytes(&table).put(key, &round.to_le_bytes()))
        };
        db.transact(|tx| put_all(tx, 0)).unwrap();
        let number = |value: &[u8]| u64::from_le_bytes(value.try_into().unwrap());
        let (is_over, committed) = (&AtomicBool::new(false), &AtomicU64::new(0));
        std::thread::scope(|scope| {
            let (db, table) = (&db, &table);
            for reads_snapshots in [true, false, true] {
                scope.spawn(move || {
                    let mut random = Random(7);
                    while !is_over.load(SeqCst) {
                        let least = committed.load(SeqCst);
                        if !reads_snapshots {
                            let round =
                                number(&table.get(&[random.below(ROWS.into()) as u8]).unwrap().unwrap());
                            assert!(round >= least, "{round}, {least} was committed");
                            continue;
                        }
                        let snapshot = db.snapshot().unwrap();
                        let rows = || snapshot.bytes(table).range(..).map(|row| number(&row.unwrap().1));
                        let round = rows().next().unwrap();
                        assert!(round >= least && rows().all(|other| other == round));
                        assert!(rows().count() == usize::from(ROWS) && rows().all(|other| other == round));
                    }
                });
            }
            for round in 1..400 {
                let tx = db.begin().unwrap();
                put_all(&tx, round).unwrap();
                keys.iter().step_by(3).for_each(|key| assert!(tx.bytes(table).remove(key).unwrap()));
                if round % 3 == 0 {
                    tx.rollback().unwrap();
                    continue;
                }
                put_all(&tx, round).unwrap();
                tx.commit().unwrap();
                committed.store(round, SeqCst);
            }
            is_over.store(true, SeqCst);
        });
        assert!(comes_true(|| table.tree.core().txns.spills.tables().is_empty()));
    }

    /// Who waits for a row that is undone does not wait until hidden tables are freed.
    #[test]
    fn what_is_undone_is_given_back_before_its_spill_is_freed() {
        let (db, table) = database();
        let core = table.tree.core().clone();
        let tx = db.begin().unwrap();
        (0..50_u8).for_each(|row| tx.bytes(&table).put(&[row], &[7; 20]).unwrap());
        assert!(core.txns.spills.any());
        let first = core.txns.keys.name(table.tree.id, &[0]);
        assert!(!core.txns.keys.is_quiet(first, None), "it was locked before there was a spill");
        std::thread::scope(|scope| {
            let held = core.txns.spills.keep_from_freeing();
            let rollback = scope.spawn(|| tx.rollback());
            let is_free = comes_true(|| core.txns.keys.is_quiet(first, None));
            drop(held);
            rollback.join().unwrap().unwrap();
            assert!(is_free, "the row is locked");
        });
        assert!(!core.txns.spills.any());
    }

    /// Ghosts of others that a rollback brings back, and that nobody sees, wait for no snapshot.
    #[test]
    fn ghosts_that_are_brought_back_go_at_once() {
        let (db, table) = database();
        let rows: Vec<_> = (0..30_u8).map(|row| [row]).collect();
        rows.iter().for_each(|row| table.put(row, b"before").unwrap());
        let before = db.snapshot().unwrap();
        rows.iter().for_each(|row| assert!(table.remove(row).unwrap()));
        let tx = db.begin().unwrap();
        (0..50_u8).for_each(|row| tx.bytes(&table).put(&[200, row], &[7; 20]).unwrap());
        rows.iter().for_each(|row| tx.bytes(&table).put(row, b"undone").unwrap());
        let _since = db.snapshot().unwrap();
        drop(before);
        let (id, core) = (table.tree.id, table.tree.core());
        let is_kept = |row: &[u8]| core.txns.keys.is_value_kept(core.txns.keys.name(id, row), id, row);
        let is_needed = || {
            core.sweep_all();
            rows.iter().any(|row| is_kept(row))
        };
        assert!(comes_true(|| !is_needed()));
        tx.rollback().unwrap();
        assert_eq!(db.check().unwrap().tables[1].ghosts, 0);
    }

    /// What a crash leaves of hidden tables goes with the next opening, and their numbers are given again.
    #[test]
    fn hidden_tables_go_with_a_crash() {
        let mut disk = SimDisk::new(3);
        for round in 0..3_u8 {
            let db = Database::builder().leaf_bytes(4096).open_on(Arc::new(disk.clone())).unwrap();
            let table = db.byte_table("t").unwrap();
            assert_eq!(db.check().unwrap().stray_pages, 0);
            table.put_many(&rows(&[round; 20])).unwrap();
            let tx = db.begin().unwrap();
            tx.bytes(&table).put_many(&rows(b"lost")).unwrap();
            assert!(table.tree.core().txns.spills.tables()[0].count_leaves() > 10);
            db.checkpoint().unwrap();
            assert_eq!(db.check().unwrap().stray_pages, 0, "they are counted");
            let crash = if round == 1 { Crash::ProcessKill } else { Crash::PowerLoss };
            let left = disk.after_crash(crash, 1);
            drop((tx, table, db));
            disk = left;
            let db = Database::builder().leaf_bytes(4096).open_on(Arc::new(disk.clone())).unwrap();
            let table = db.byte_table("t").unwrap();
            assert!(table.range(..).map(Result::unwrap).all(|(_, value)| value == [round; 20]));
            assert_eq!((table.range(..).count(), db.check().unwrap().stray_pages), (ROWS.into(), 0));
            db.byte_table(&format!("made since {round}")).unwrap();
        }
    }

    /// A transaction that spills, others that write other rows beside it, and snapshots: and what everybody should see.
    struct History {
        random: Random,
        db: Database,
        table: ByteTable,
        committed: Rows,
        large: Option<Large>,
        snapshots: Vec<(Snapshot, Rows)>,
    }

    struct Large {
        tx: Transaction,
        /// What it has done that is not undone.
        changes: Changes,
        savepoints: Vec<(Savepoint, Changes)>,
        /// What it has locked: rows for itself alone, and ranges that it has read.
        locked: BTreeSet<Vec<u8>>,
        scanned: Vec<(Vec<u8>, Vec<u8>)>,
    }

    impl Large {
        /// What it sees: this is committed.
        fn sees(&self, mut committed: Rows) -> Rows {
            for (key, value) in self.changes.clone() {
                match value {
                    Some(value) => drop(committed.insert(key, value)),
                    None => drop(committed.remove(&key)),
                }
            }
            committed
        }

        fn has_scanned(&self, key: &Vec<u8>) -> bool {
            self.scanned.iter().any(|(first, last)| (first..=last).contains(&key))
        }
    }

    type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

    impl History {
        fn new(seed: u64) -> Self {
            let (db, table) = database();
            let (committed, snapshots) = (Rows::new(), Vec::new());
            Self { random: Random(seed), db, table, committed, large: None, snapshots }
        }

        fn key(&mut self) -> Vec<u8> {
            let key = self.random.below(120) as u8;
            vec![key; 1 + usize::from(key) % 40]
        }

        fn value(&mut self) -> Vec<u8> {
            let len = [7, 40, 300, 1024, 1025, 3000][self.random.pick(6)];
            vec![self.random.next() as u8; len]
        }

        fn step(&mut self) {
            match self.random.below(40) {
                0 if self.snapshots.len() < 4 => {
                    self.snapshots.push((self.db.snapshot().unwrap(), self.committed.clone()));
                }
                1 if !self.snapshots.is_empty() => {
                    let closed = self.random.pick(self.snapshots.len());
                    self.snapshots.swap_remove(closed);
                }
                2 => self.end(),
                3 => self.save_or_undo(),
                4..=6 => self.look(),
                7 | 8 => self.scan(),
                9..=19 => self.write_beside(),
                _ => self.write_much(),
            }
        }

        /// Another transaction writes a row, or somebody alone.
        fn write_beside(&mut self) {
            let (key, value, choice) = (self.key(), self.value(), self.random.below(4));
            if let Some(large) = &self.large {
                let is_locked = large.locked.contains(&key);
                if is_locked || large.has_scanned(&key) {
                    return self.are_kept_off(&key, choice, is_locked);
                }
            }
            let options = || TransactionOptions::new().lock_timeout(Duration::ZERO);
            let (db, table) = (&self.db, self.table.with_lock_timeout(Duration::ZERO));
            let within = |work: &dyn Fn(&Transaction) -> crate::Result<()>| {
                let tx = db.begin_with(options())?;
                work(&tx)?;
                tx.commit().map(drop)
            };
            let done = match choice {
                0 => table.put(&key, &value),
                1 => within(&|tx| tx.bytes(&table).put(&key, &value)),
                2 => table.remove(&key).map(drop),
                _ => within(&|tx| tx.bytes(&table).remove(&key).map(drop)),
            };
            let has_scanned = self.large.as_ref().is_some_and(|large| !large.scanned.is_empty());
            match (done, choice) {
                // Behind a range that was scanned, as far as the next row, is locked, too.
                (Err(Error::LockTimeout { .. }), _) if has_scanned => {}
                (done @ Err(_), _) => done.unwrap(),
                (Ok(()), 0 | 1) => drop(self.committed.insert(key, value)),
                (Ok(()), _) => drop(self.committed.remove(&key)),
            }
        }

        /// The large transaction reads a range, this way or that.
        fn scan(&mut self) {
            let (key, other, direction) = (self.key(), self.key(), self.random.below(2));
            let Some(large) = &mut self.large else { return };
            let (first, last) = if key < other { (key, other) } else { (other, key) };
            let bounds = (Bound::Included(&first[..]), Bound::Included(&last[..]));
            let seen = large.tx.bytes(&self.table).range(bounds).map(Result::unwrap);
            let seen: Rows = if direction == 0 { seen.collect() } else { seen.rev().collect() };
            let mut expected = large.sees(self.committed.clone());
            expected.retain(|key, _| (&first..=&last).contains(&key));
            assert!(seen == expected);
            large.scanned.push((first, last));
        }

        /// Nobody else can do anything with a row that the large transaction has locked, but read what it was; nor change one that it has
        /// read.
        fn are_kept_off(&self, key: &[u8], choice: u64, is_locked: bool) {
            let alone = self.table.with_lock_timeout(Duration::ZERO);
            let tx = self.db.begin_with(TransactionOptions::new().lock_timeout(Duration::ZERO)).unwrap();
            let within = tx.bytes(&self.table);
            let is_absent = !is_locked && !self.committed.contains_key(key);
            let (done, is_idle) = match choice {
                0 => (alone.put(key, b"").map(drop), false),
                1 => (alone.remove(key).map(drop), is_absent),
                2 => (within.get(key).map(drop), !is_locked),
                _ => (within.get_for_update(key).map(drop), is_absent),
            };
            let is_kept_off = matches!(done, Err(Error::LockTimeout { .. }));
            assert!(is_kept_off || is_idle && done.is_ok(), "{choice}, {is_locked}: {done:?}");
        }

        fn write_much(&mut self) {
            let (key, value, choice) = (self.key(), self.value(), self.random.below(5));
            let large = self.large.get_or_insert_with(|| Large {
                tx: self.db.begin().unwrap(),
                changes: Changes::new(),
                savepoints: Vec::new(),
                locked: BTreeSet::new(),
                scanned: Vec::new(),
            });
            let table = large.tx.bytes(&self.table);
            let now = large.changes.get(&key).cloned().unwrap_or_else(|| self.committed.get(&key).cloned());
            assert!(table.get(&key).unwrap() == now);
            match choice {
                0 => assert_eq!(table.remove(&key).unwrap(), now.is_some()),
                1 => assert_eq!(table.insert(&key, &value).unwrap(), now.is_none()),
                2 => table.put_many(&[(&key, &value)]).unwrap(),
                _ => table.put(&key, &value).unwrap(),
            }
            large.locked.insert(key.clone());
            large.changes.insert(
                key,
                match choice {
                    0 => None,
                    1 => now.or(Some(value)),
                    _ => Some(value),
                },
            );
        }

        fn save_or_undo(&mut self) {
            let Some(large) = &mut self.large else { return };
            match large.savepoints.pop().filter(|_| self.random.below(2) == 0) {
                Some((savepoint, changes)) => {
                    large.tx.rollback_to(savepoint).unwrap();
                    large.changes = changes;
                }
                None => large.savepoints.push((large.tx.savepoint().unwrap(), large.changes.clone())),
            }
        }

        fn end(&mut self) {
            let Some(large) = self.large.take() else { return };
            if self.random.below(3) == 0 {
                return large.tx.rollback().unwrap();
            }
            self.committed = large.sees(std::mem::take(&mut self.committed));
            large.tx.commit().unwrap();
        }

        /// Everybody sees what he should.
        fn look(&mut self) {
            let key = self.key();
            assert!(self.table.get(&key).unwrap() == self.committed.get(&key).cloned());
            assert!(self.table.range(..).map(Result::unwrap).eq(self.committed.clone()));
            for (snapshot, rows) in &self.snapshots {
                assert!(snapshot.bytes(&self.table).get(&key).unwrap() == rows.get(&key).cloned());
                assert!(snapshot.bytes(&self.table).range(..).map(Result::unwrap).eq(rows.clone()));
            }
        }
    }

    #[test]
    fn everybody_sees_what_he_should() {
        for seed in seeds(60) {
            let mut history = History::new(seed);
            (0..400).for_each(|_| history.step());
            history.end();
            history.look();
            history.snapshots.clear();
            history.look();
            let check = || history.db.check().unwrap();
            let is_clear = || (check().tables[1].ghosts, check().stray_pages) == (0, 0);
            assert!(comes_true(is_clear), "seed {seed}: {:?}", check());
            let images = || history.db.stats().image_bytes;
            assert!(comes_true(|| images() == 0), "seed {seed}: {} bytes", images());
        }
    }
}
