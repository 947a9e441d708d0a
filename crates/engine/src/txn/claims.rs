//! Rows that a large transaction has changed: locked by what is written in them.
//!
//! How: a row that was changed names its author. If he spills (`spill.rs`), he *claims* it: he gives his request back, and who locks the
//! row later reads whose it is, and, if that is somebody who runs, waits for his end (`large.rs`).
//!
//! Invariants:
//! - C1: a row that a transaction has changed, and not undone, is locked by a request of that transaction, or names it, which is then
//!   listed among those who spill, as long as it runs.
//! - C2: who writes a row without a lock looks at its author with the leaf latched, after he has found no request; and so does who
//!   removes a ghost.
//! - C3: what is undone names an older author. In a transaction that goes on, having gone back to a savepoint, the row is locked by a
//!   request again before. One that rolls back relies on nothing any more.
//!
//! Source: PostgreSQL's `xmax` and locks of transactions. Differs: only for transactions that are large; all others leave that as it is.

use crate::error::Result;
use crate::leaf::Change;
use crate::lock::{KeyMode, Name, Reach};
use crate::tree::{PATIENCE, Tree};
use crate::txn::standing::Fate;
use crate::txn::{Txn, Txns};
use crate::version::{Version, Writer};
use foreshore_base::seeded_bug;

impl Tree {
    /// The number of the transaction of this version of a row, if that claims the row: it has another author than `own`, and runs.
    #[inline]
    pub fn claimant(&self, version: Version, own: u64) -> Option<u64> {
        if self.large_ones.are_any() { self.core().txns.find_claimant(version, own) } else { None }
    }
}

impl Txns {
    #[cold]
    fn find_claimant(&self, version: Version, own: u64) -> Option<u64> {
        let is_txn = matches!(version.writer(), Writer::Txn(_)) && !seeded_bug("claim_overlooked");
        if !is_txn || version.author() == own {
            return None;
        }
        let (spill, fate) = self.spills.find(version, &self.slots)?;
        (fate == Fate::Running).then_some(spill.number)
    }
}

impl Txn {
    /// It has changed this row, which has that name. From now on, if it spills, it claims it (C1).
    #[inline]
    pub fn claim(&mut self, tree: &Tree, name: Name, key: &[u8]) {
        if self.spill.is_some() {
            self.give_back_claimed(tree, name, key);
        }
    }

    #[cold]
    fn give_back_claimed(&mut self, tree: &Tree, name: Name, key: &[u8]) {
        if self.is_fresh(name, (tree.id, key)) {
            self.stand_out(tree);
            if !self.core.txns.keys.release_key(self.owner, name) {
                self.forget(name);
            }
        }
    }

    /// Need it not lock this name in these modes, as it has claimed the row? It is not asked if it is as well to lock it: who writes will
    /// claim it again.
    #[cold]
    pub(super) fn has_claimed(
        &self,
        tree: &Tree,
        name: Name,
        key: Option<&[u8]>,
        mode: KeyMode,
        gap: Reach,
    ) -> Result<bool> {
        let Some(key) = key.filter(|_| self.spill.is_some() && gap.is_none()) else { return Ok(false) };
        let is_free = || self.core.txns.keys.is_quiet(name, Some(self.owner));
        if mode == KeyMode::None || mode == KeyMode::Exclusive && is_free() {
            return Ok(false);
        }
        self.has_changed(tree, key)
    }

    /// Is the newest version of this row its own?
    fn has_changed(&self, tree: &Tree, key: &[u8]) -> Result<bool> {
        Ok(tree.newest_version(key)?.is_some_and(|version| self.wrote(version)))
    }

    /// Locks a row that it has changed before a restart; or claims it, if it has very many.
    pub(super) fn lock_restored(&mut self, tree: &Tree, key: &[u8]) -> Result<()> {
        self.grow();
        self.spill_if_large();
        if self.spill.is_some() && self.has_changed(tree, key)? {
            self.stand_out(tree);
            return Ok(());
        }
        self.lock(tree, key, KeyMode::Exclusive, Reach::NONE)
    }

    /// The number of who else claims this row.
    pub(super) fn claimant(&self, tree: &Tree, key: &[u8]) -> Result<Option<u64>> {
        let version = tree.newest_version(key)?;
        Ok(version.and_then(|version| tree.claimant(version, self.author())))
    }

    /// What it has changed of this row is going to be undone, and nothing of it stays: locks it by a request, if it goes on (C3).
    pub(super) fn keep_locked(&mut self, tree: &Tree, change: &Change<'_>) -> Result<()> {
        match change.key() {
            Some(key) if self.spill.is_some() && !self.is_ending() => self.lock_claimed(tree, key),
            _ => Ok(()),
        }
    }

    /// Locks a row that it may claim by a request, too. Who has locked it meanwhile gives that back at once, and is waited for.
    pub fn lock_claimed(&mut self, tree: &Tree, key: &[u8]) -> Result<()> {
        let (keys, patience) = (&self.core.txns.keys, self.patience.max(PATIENCE));
        let name = keys.name(tree.id, key);
        let granted = keys.acquire(self.owner, name, KeyMode::Exclusive, Reach::NONE, patience);
        let granted = granted.map_err(|refused| self.lost(tree, name, Some(key), refused))?;
        tree.note_lock_wait(granted.waited);
        self.remember(name, granted.first, None, Reach::NONE);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::PATIENCE;
    use crate::tree::testing::comes_true;
    use crate::{ByteTable, Database, Error, Transaction, TransactionOptions};
    use foreshore_base::Lsn;
    use foreshore_io::MemVfs;
    use std::ops::Bound::*;
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    const ROWS: u16 = 5000;

    fn database() -> (Database, ByteTable) {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        table.put_many(&rows(b"before")).unwrap();
        (db, table)
    }

    fn rows(value: &[u8]) -> Vec<([u8; 2], Vec<u8>)> {
        (0..ROWS).map(|row| (row.to_be_bytes(), value.to_vec())).collect()
    }

    /// Makes who has this transaction one who spills.
    fn change_much(tx: &Transaction, db: &Database) {
        let other = db.byte_table("other").unwrap();
        (0..50_u8).for_each(|row| tx.bytes(&other).put(&[row], &[7; 20]).unwrap());
    }

    /// However it comes to change a row, and however many.
    #[test]
    fn changed_rows_take_no_locks() {
        let (db, table) = database();
        let keys = &table.tree.core().txns.keys;
        let held = || keys.requests();
        for way in 0..6 {
            let tx = db.begin().unwrap();
            let within = tx.bytes(&table);
            let all = rows(b"after");
            let each = |change: &dyn Fn(&[u8])| all.iter().for_each(|(key, _)| change(key));
            match way {
                0 => within.put_many(&all).unwrap(),
                1 => assert_eq!(within.remove_range(..).unwrap(), ROWS.into()),
                2 => each(&|key| within.put(key, b"after").unwrap()),
                3 => each(&|key| {
                    assert!(within.get_for_update(key).unwrap().is_some());
                    within.put(key, b"after").unwrap();
                }),
                4 => each(&|key| {
                    assert!(within.get(key).unwrap().is_some());
                    assert!(within.remove(key).unwrap() && within.insert(key, b"again").unwrap());
                }),
                _ => {
                    let bounds = || (Unbounded, Excluded(&[0, 200][..]));
                    let read = within.range(bounds()).map(Result::unwrap).collect::<Vec<_>>();
                    read.iter().for_each(|(key, _)| within.put(key, b"after").unwrap());
                    assert!(within.range(bounds()).map(Result::unwrap).all(|(_, value)| value == b"after"));
                    each(&|key| within.put(key, b"after").unwrap());
                }
            }
            assert!(held() < 100, "way {way}: {} locks", held());
            tx.rollback().unwrap();
            assert_eq!(held(), 0);
        }
    }

    fn once<R>(
        db: &Database,
        patience: Duration,
        work: impl Fn(&Transaction) -> crate::Result<R>,
    ) -> crate::Result<R> {
        let tx = db.begin_with(TransactionOptions::new().lock_timeout(patience))?;
        let done = work(&tx)?;
        tx.commit().map(|_| done)
    }

    fn first(row: Option<crate::Result<(Vec<u8>, Vec<u8>)>>) -> crate::Result<Option<Vec<u8>>> {
        Ok(row.transpose()?.map(|row| row.1))
    }

    /// Whatever others want to do with a row that is claimed, they wait until its author has ended. Then they see what he has left.
    #[test]
    fn others_wait_for_who_claims_a_row() {
        type Access = fn(&Database, &ByteTable, Duration) -> crate::Result<Option<Vec<u8>>>;
        let accesses: [Access; 6] = [
            |db, table, patience| once(db, patience, |tx| tx.bytes(table).get(&[0, 7])),
            |db, table, patience| {
                once(db, patience, |tx| {
                    first(tx.bytes(table).range((Included(&[0, 7][..]), Unbounded)).next())
                })
            },
            |db, table, patience| {
                let bounds = (Included(&[0, 6][..]), Excluded(&[0, 8][..]));
                once(db, patience, |tx| first(tx.bytes(table).range(bounds).next_back()))
            },
            |_, table, patience| {
                let gone = table.with_lock_timeout(patience).remove(&[0, 7])?;
                Ok(gone.then(|| b"removed".to_vec()))
            },
            |_, table, patience| {
                let is_new = table.with_lock_timeout(patience).insert(&[0, 7], b"mine")?;
                Ok((!is_new).then(|| b"there".to_vec()))
            },
            |db, table, patience| {
                let rows = [([0, 6], "mine"), ([0, 7], "mine")];
                once(db, patience, |tx| tx.bytes(table).put_many(&rows).map(|()| None))
            },
        ];
        for (number, access) in accesses.into_iter().enumerate() {
            for is_removed in [false, true] {
                let (db, table) = database();
                let tx = db.begin().unwrap();
                change_much(&tx, &db);
                match is_removed {
                    false => tx.bytes(&table).put(&[0, 7], b"after").unwrap(),
                    true => assert!(tx.bytes(&table).remove(&[0, 7]).unwrap()),
                }
                let keys = &table.tree.core().txns.keys;
                assert!(keys.is_quiet(keys.name(table.tree.id, &[0, 7]), None), "it has no request");
                let refused = access(&db, &table, Duration::from_millis(1)).unwrap_err();
                let holder = Some(tx.number());
                let (key, is_told) = (Some(vec![0, 7]), format!("{number}: {refused:?}"));
                assert!(
                    matches!(refused, Error::LockTimeout { holder: found, key: of, .. } if found == holder && of == key),
                    "{is_told}"
                );
                let seen = thread::scope(|scope| {
                    let waiter = scope.spawn(|| access(&db, &table, PATIENCE).unwrap());
                    let waits = || keys.waiting_on(keys.all_of(tx.number())) == 1;
                    assert!(comes_true(waits), "{number} does not wait");
                    tx.commit().unwrap();
                    waiter.join().unwrap()
                });
                let expected: Option<&[u8]> = match number {
                    0..3 if !is_removed => Some(b"after"),
                    1 | 2 => Some(b"before"),
                    3 if !is_removed => Some(b"removed"),
                    4 if !is_removed => Some(b"there"),
                    _ => None,
                };
                assert_eq!(seen.as_deref(), expected, "{number}, removed: {is_removed}");
            }
        }
    }

    /// Who has gone back to a savepoint still has what he has seen there for himself.
    #[test]
    fn what_is_undone_stays_locked() {
        let (db, table) = database();
        let tx = db.begin().unwrap();
        change_much(&tx, &db);
        let before = tx.savepoint().unwrap();
        let within = tx.bytes(&table);
        within.put(&[0, 1], b"undone").unwrap();
        assert!(within.remove(&[0, 2]).unwrap() && within.insert(&[0, 3, 0], b"undone").unwrap());
        within.put_many(&[([0, 4], "undone"), ([9, 9], "undone")]).unwrap();
        thread::scope(|scope| {
            let others = [&[0, 1][..], &[0, 2], &[0, 3, 0], &[0, 4], &[9, 9]].map(|key| {
                let (db, table) = (&db, &table);
                scope.spawn(move || {
                    db.transact(|tx| {
                        let seen = tx.bytes(table).get(key)?;
                        tx.bytes(table).put(key, b"other").map(|()| seen)
                    })
                })
            });
            let keys = &table.tree.core().txns.keys;
            assert!(comes_true(|| keys.waiting_on(keys.all_of(tx.number())) == 5));
            tx.rollback_to(before).unwrap();
            let alone = table.with_lock_timeout(Duration::ZERO);
            for key in [&[0, 1][..], &[0, 2], &[0, 3, 0], &[0, 4], &[9, 9]] {
                let refused = alone.put(key, b"too early");
                assert!(matches!(refused, Err(Error::LockTimeout { .. })), "{key:?}: {refused:?}");
            }
            tx.bytes(&table).put(&[0, 1], b"after").unwrap();
            tx.commit().unwrap();
            let seen = others.map(|other| other.join().unwrap().unwrap());
            let was = |value: &str| Some(value.as_bytes().to_vec());
            assert_eq!(seen, [was("after"), was("before"), None, was("before"), was("before")]);
        });
    }

    /// Two rows may have one name. Who has read the one, and changed the other, keeps what he has read.
    #[test]
    fn a_name_of_two_rows_is_not_given_back() {
        let (db, table) = database();
        let tree = &table.tree;
        let mut txn = Txn::begin(tree.core().clone().into(), PATIENCE, Lsn::ZERO).unwrap();
        txn.enter(tree).unwrap();
        for row in 0..50_u8 {
            tree.write(&mut txn, &[2, 2, row], crate::tree::Intent::Put(b"spills")).unwrap();
        }
        let keys = &tree.core().txns.keys;
        let (one, other) = (&[0, 1][..], &[0, 2][..]);
        let lock_both = |txn: &mut Txn, name| {
            for (row, first) in [(one, true), (other, false)] {
                let granted = keys.acquire(txn.owner, name, KeyMode::Exclusive, Reach::NONE, PATIENCE);
                assert_eq!(granted.unwrap().first, first);
                txn.remember(name, first, Some((tree.id, row)), Reach::NONE);
            }
        };
        for claimed in [one, other] {
            let name = keys.name(tree.id, &[7, 7, claimed[1]]);
            lock_both(&mut txn, name);
            txn.claim(tree, name, claimed);
            assert!(!keys.is_quiet(name, None));
        }
        let name = keys.name(tree.id, &[7, 7, 7]);
        assert!(keys.try_acquire(txn.owner, name, KeyMode::Exclusive, Reach::NONE).unwrap());
        txn.remember(name, true, Some((tree.id, one)), Reach::NONE);
        txn.claim(tree, name, other);
        assert!(!keys.is_quiet(name, None));
        txn.claim(tree, name, one);
        assert!(keys.is_quiet(name, None));
        txn.commit().unwrap();
        assert_eq!(keys.requests(), 0);
        drop(db);
    }

    /// What a large transaction has prepared is claimed again after a restart.
    #[test]
    fn what_is_prepared_is_claimed_again() {
        for commits in [true, false] {
            let disk = Arc::new(MemVfs::new());
            let db = Database::builder().open_on(disk.clone()).unwrap();
            let table = db.byte_table("t").unwrap();
            table.put_many(&rows(b"before")).unwrap();
            let tx = db.begin().unwrap();
            tx.bytes(&table).put_many(&rows(b"after")).unwrap();
            (0..ROWS)
                .step_by(3)
                .for_each(|row| assert!(tx.bytes(&table).remove(&row.to_be_bytes()).unwrap()));
            tx.bytes(&table).put(&[99, 9], b"new").unwrap();
            tx.prepare("gid").unwrap();
            drop(table);
            db.close().unwrap();
            let db = Database::builder().open_on(disk).unwrap();
            let table = db.byte_table("t").unwrap();
            let keys = &table.tree.core().txns.keys;
            assert!(keys.requests() < 100, "{} locks", keys.requests());
            let alone = table.with_lock_timeout(Duration::ZERO);
            for row in (0..ROWS).step_by(41).chain([u16::from_be_bytes([99, 9])]) {
                let put = alone.put(&row.to_be_bytes(), b"too early");
                assert!(matches!(put, Err(Error::LockTimeout { .. })), "{row}: {put:?}");
            }
            assert!(table.range(..).map(Result::unwrap).all(|(_, value)| value == b"before"));
            if commits {
                db.commit_prepared("gid").unwrap()
            } else {
                db.rollback_prepared("gid").unwrap()
            };
            let (value, rows) =
                if commits { (&b"after"[..], ROWS - ROWS.div_ceil(3) + 1) } else { (&b"before"[..], ROWS) };
            assert_eq!(table.range(..).count(), rows.into());
            assert_eq!(table.get(&[0, 1]).unwrap().as_deref(), Some(value));
            table.put(&[0, 1], b"goes on").unwrap();
        }
    }

    /// Rows that are read, and one more is written, by many at once, of whom some write many.
    #[test]
    fn no_update_is_lost() {
        let (db, table) = database();
        const ROWS: u8 = 60;
        let number =
            |value: Option<Vec<u8>>| value.map_or(0, |value| u64::from_le_bytes(value.try_into().unwrap()));
        (0..ROWS).for_each(|row| table.put(&[row], &0_u64.to_le_bytes()).unwrap());
        let add = |tx: &Transaction, row: u8, for_update: bool| {
            let within = tx.bytes(&table);
            let now = if for_update { within.get_for_update(&[row]) } else { within.get(&[row]) };
            within.put(&[row], &(number(now?) + 1).to_le_bytes())
        };
        let counted: u64 = thread::scope(|scope| {
            let (db, add) = (&db, &add);
            let threads: Vec<_> = (0..4_u64)
                .map(|thread| {
                    scope.spawn(move || {
                        let mut random = crate::chance::Random(thread + 1);
                        let mut added = 0;
                        for _ in 0..150 {
                            let many = random.below(3) == 0;
                            let (begin, gives_up) = (random.below(ROWS.into()) as u8, random.below(8) == 0);
                            let rows = if many { 40 } else { 1 };
                            let done = db.transact(|tx| {
                                for row in 0..rows {
                                    add(tx, (begin + row) % ROWS, row % 2 == 0)?;
                                }
                                if gives_up { Err(Error::Argument("a test".into())) } else { Ok(()) }
                            });
                            added += if done.is_ok() { u64::from(rows) } else { 0 };
                            assert!(done.is_ok() || gives_up, "{done:?}");
                        }
                        added
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let stored: u64 = (0..ROWS).map(|row| number(table.get(&[row]).unwrap())).sum();
        assert_eq!(stored, counted);
    }

    /// Who becomes large by what it reads, before it has written anything, leaves no image behind that nobody stamps.
    #[test]
    fn who_was_large_before_it_wrote_spills_at_once() {
        let db = Database::in_memory().unwrap();
        let [table, read] = ["t", "read"].map(|name| db.byte_table(name).unwrap());
        read.put_many(&rows(b"read")).unwrap();
        for times in [1, 2] {
            table.put(b"k", b"before").unwrap();
            let older = db.begin().unwrap();
            older.bytes(&read).put(b"other", b"runs").unwrap();
            let tx = db.begin().unwrap();
            assert_eq!(tx.bytes(&read).range(..[4, 0]).count(), 1024);
            (0..times).for_each(|_| tx.bytes(&table).put(b"k", b"after").unwrap());
            rows(b"").iter().take(30).for_each(|(key, _)| assert!(!tx.bytes(&table).contains(key).unwrap()));
            tx.commit().unwrap();
            let others = [(); 20].map(|()| {
                let other = db.begin().unwrap();
                other.bytes(&table).put(&other.number().to_le_bytes(), b"runs").unwrap();
                other
            });
            assert_eq!(table.get(b"k").unwrap().as_deref(), Some(&b"after"[..]));
            drop((others, older));
            assert_eq!(db.stats().image_bytes, 0);
        }
    }

    /// An insertion that is undone leaves its gap closed, if that was read.
    #[test]
    fn what_is_undone_keeps_its_gap() {
        let (db, table) = database();
        let tx = db.begin().unwrap();
        change_much(&tx, &db);
        let before = tx.savepoint().unwrap();
        tx.bytes(&table).put(&[0, 7, 7], b"undone").unwrap();
        let bounds = || (Excluded(&[0, 7][..]), Included(&[0, 7, 7][..]));
        assert_eq!(tx.bytes(&table).range(bounds()).count(), 1);
        tx.rollback_to(before).unwrap();
        let phantom = table.with_lock_timeout(Duration::ZERO).insert(&[0, 7, 3], b"phantom");
        assert!(matches!(phantom, Err(Error::LockTimeout { .. })), "{phantom:?}");
        assert_eq!(tx.bytes(&table).range(bounds()).count(), 0);
        tx.rollback().unwrap();
    }

    /// Who waits for the end of a large transaction is not in the way when that goes back to a savepoint.
    #[test]
    fn who_waits_keeps_nothing_that_is_claimed() {
        let (db, table) = database();
        let waiter = db.begin().unwrap(); // the older one
        let tx = db.begin().unwrap();
        change_much(&tx, &db);
        let before = tx.savepoint().unwrap();
        tx.bytes(&table).put(&[0, 7], b"undone").unwrap();
        assert_eq!(waiter.bytes(&table).range(..[0, 7]).count(), 7, "it has the gap below");
        let keys = &table.tree.core().txns.keys;
        thread::scope(|scope| {
            let table = &table;
            let seen = scope.spawn(move || waiter.bytes(table).get(&[0, 7]).unwrap());
            assert!(comes_true(|| keys.waiting_on(keys.all_of(tx.number())) == 1));
            tx.rollback_to(before).unwrap();
            tx.commit().unwrap();
            assert_eq!(seen.join().unwrap().as_deref(), Some(&b"before"[..]));
        });
    }

    /// What looks like the ghost of nobody, as it has no lock, may be a row again.
    #[test]
    fn what_is_claimed_is_not_cleared_up() {
        let (db, table) = database();
        let tx = db.begin().unwrap();
        change_much(&tx, &db);
        let within = tx.bytes(&table);
        assert!(within.insert(&[99, 9], b"new").unwrap() && within.remove(&[99, 9]).unwrap());
        table.tree.purge_forgotten(&[99, 9]).unwrap();
        let put = table.with_lock_timeout(Duration::ZERO).put(&[99, 9], b"other");
        assert!(matches!(put, Err(Error::LockTimeout { .. })), "{put:?}");
        tx.rollback().unwrap();
        assert_eq!(table.range(..).count(), ROWS.into());
    }
}
