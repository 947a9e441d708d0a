//! Large transactions: how they get by with few locks.
//!
//! Why: a lock takes some 40 bytes of memory. Who changes, or scans, a table that is larger than memory would have as many of them.
//! How: a transaction becomes *large* when it has many images (`spill.rs`), or a scan finds that it has many locks. It then locks a name of
//! its own, at which others wait for its end, and gives locks back for which something else stands: of a row that it has changed, its name
//! in that row (`claims.rs`); of what it has scanned, a note of the range (`tree/ranges.rs`). What it only reads row by row stays locked
//! as ever.
//!
//! Invariants:
//! - B1: a large transaction has its name locked from before it gives anything back until it has committed, or undone all.
//! - B2: who has got a lock looks afterwards whether something stands for one there. Whoever gave his back did so after that was to be
//!   seen, under the latch of the same bucket.
//! - B3: who waits for a large transaction gives back what he has just got of that name, however long ago he had asked for it, but not what
//!   he had of it before, and relies on: who runs again relies on no lock that he has got ahead. So he is not in the way of that one, as far
//!   as he need not be. Only if he then meets another one's range does he keep it: those who scan later wait behind
//!   him, as behind anybody who waits for a lock.

use crate::bounds::{RawBounds, is_before, is_beyond};
use crate::error::Result;
use crate::lock::{Granted, KeyMode, Name, Reach};
use crate::tree::Tree;
use crate::txn::Txn;
use foldhash::fast::FixedState;
use foreshore_base::TableId;
use foreshore_base::sync::{AtomicUsize, Ordering::Relaxed};
use std::collections::HashMap;
use std::time::Duration;

/// Who scans, or is restored, and has more locks than that becomes large. (Few, where tests are to meet such.)
const LOCKS_MAX: usize = if cfg!(debug_assertions) { 50 } else { 1 << 18 };

/// Locks that a large one has got for rows which it may be about to change, or for a scan.
const FRESH_MAX: usize = if cfg!(debug_assertions) { 20 } else { 4096 };

/// Other locks of it that it remembers, to give them back: to look for those takes a millisecond or so.
const LOCKS_REMEMBERED: usize = if cfg!(debug_assertions) { 8 } else { 4096 };

/// The names that a large transaction has locked since for one row each, and these rows: two may have one name. If it holds the gap
/// of such a name, then because of the scan that has locked the name first, or since it has put the row into a gap that it had locked.
pub(super) type Fresh = HashMap<Name, (TableId, Box<[u8]>), FixedState>;

/// How many there are for whose locks in one table something else stands: nearly always none.
///
/// ORDERING: Relaxed, see B2.
#[derive(Default)]
pub(crate) struct LargeOnes(AtomicUsize);

impl LargeOnes {
    /// Are there any?
    #[inline]
    pub fn are_any(&self) -> bool {
        self.0.load(Relaxed) != 0
    }

    /// Are there any but, if `is_one`, who asks?
    #[inline]
    pub fn are_others(&self, is_one: bool) -> bool {
        self.0.load(Relaxed) > usize::from(is_one)
    }

    /// One more.
    pub fn begin(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// One fewer.
    pub fn end(&self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Txn {
    /// Is it large?
    #[inline]
    pub fn is_large(&self) -> bool {
        self.large.is_some()
    }

    /// It is going to lock many more rows: is large from now on if it has many locks.
    #[inline]
    pub fn grow(&mut self) {
        if self.large.is_none() && self.locks.len() > LOCKS_MAX {
            self.become_large();
        }
    }

    /// Is large from now on, unless some row has the same name, and somebody that row.
    #[cold]
    pub(super) fn become_large(&mut self) {
        let txns = &self.core.txns;
        let all = txns.keys.all_of(txns.slots.number(self.owner));
        if txns.keys.try_acquire(self.owner, all, KeyMode::Exclusive, Reach::NONE).is_some() {
            self.locks.push(all);
            self.large = Some(Fresh::default());
        }
    }

    /// Something is going to stand for locks of it in this table: others are to look for that (B2).
    pub(super) fn stand_out(&mut self, tree: &Tree) {
        let entered = self.entered_mut(tree);
        if !std::mem::replace(&mut entered.stands_out, true) {
            tree.spans.stand_out(self.owner, self.core.txns.slots.number(self.owner));
            tree.large_ones.begin();
        }
    }

    /// It has got a lock on `name`, or more of one: for this row, and perhaps the gap before it, or only for a gap.
    pub(super) fn remember(&mut self, name: Name, first: bool, row: Option<(TableId, &[u8])>, gap: Reach) {
        if self.large.is_some() {
            self.remember_one_of_many(name, first, row, gap);
        } else if first {
            self.locks.push(name);
        }
    }

    fn remember_one_of_many(&mut self, name: Name, first: bool, row: Option<(TableId, &[u8])>, gap: Reach) {
        match row {
            Some((table, key)) if first => {
                if self.fresh().len() >= FRESH_MAX {
                    let stale = std::mem::take(self.fresh());
                    stale.into_keys().for_each(|name| self.remember_for_good(name));
                }
                self.fresh().insert(name, (table, key.into()));
            }
            Some(row) if gap.is_none() && self.is_fresh(name, row) => {}
            _ if first || self.fresh().remove(&name).is_some() => self.remember_for_good(name),
            _ => {}
        }
    }

    fn fresh(&mut self) -> &mut Fresh {
        self.large.as_mut().expect("it is large")
    }

    /// Has it locked the name for this row alone?
    pub(super) fn is_fresh(&self, name: Name, row: (TableId, &[u8])) -> bool {
        let known = self.large.as_ref().and_then(|fresh| fresh.get(&name));
        known.is_some_and(|(table, key)| (*table, &**key) == row)
    }

    /// It has given back all that it held of this name.
    pub(super) fn forget(&mut self, name: Name) {
        self.fresh().remove(&name);
    }

    /// A lock that it keeps until it ends. If there are very many, it looks for them then.
    pub(super) fn remember_for_good(&mut self, name: Name) {
        match self.locks.len() {
            ..LOCKS_REMEMBERED => self.locks.push(name),
            _ => self.more_locks += 1,
        }
    }

    /// It has committed, or undone all, and is going to give its locks back: they are among `locks` from now on, or counted.
    pub(super) fn gather_locks(&mut self) {
        if let Some(fresh) = &mut self.large {
            self.locks.extend(std::mem::take(fresh).into_keys());
            let of_it = self.tables.iter().filter(|entered| entered.stands_out);
            of_it.for_each(|entered| entered.tree.spans.forget_ranges(self.owner));
        }
    }

    /// A scan has locked all rows and gaps within these bounds; `names` are those that it has locked itself, perhaps outside of them.
    /// From now on the range is locked as one (G1 in `tree/ranges.rs`).
    #[cold]
    pub fn lock_as_one(&mut self, tree: &Tree, bounds: RawBounds, names: impl Iterator<Item = Name>) {
        self.stand_out(tree);
        tree.spans.note_range(self.owner, bounds.clone());
        let is_within = |key: &[u8]| !is_before(key, &bounds.0) && !is_beyond(key, &bounds.1);
        for name in names {
            let row = self.fresh().get(&name);
            if row.is_some_and(|(table, key)| *table == tree.id && is_within(key))
                && !self.core.txns.keys.release_scanned(self.owner, name)
            {
                self.forget(name);
            }
        }
    }

    /// [`Txn::lock_name`] of a large one, or where something stands for locks of one: who has got the lock looks for that (B2), and waits.
    /// `got`: the lock, if it has got that.
    #[cold]
    pub(super) fn lock_beside_large(
        &mut self,
        tree: &Tree,
        name: Name,
        key: Option<&[u8]>,
        mode: KeyMode,
        gap: Reach,
        mut got: Option<Granted>,
    ) -> Result<()> {
        if self.has_claimed(tree, name, key, mode, gap)? {
            return Ok(());
        }
        let (owner, row) = (self.owner, key.filter(|_| mode != KeyMode::None));
        let is_shown = self.core.txns.keys.is_shown(owner, name); // perhaps because of another row
        let is_unused = self.in_line.take_if(|in_line| *in_line == name).is_some();
        let (mut before, mut has_made_way, mut left) = (None, false, self.patience);
        loop {
            let keys = &self.core.txns.keys;
            let got = got.take().map_or_else(|| keys.acquire_by_request(owner, name, mode, gap, left), Ok);
            let granted = got.map_err(|refused| self.lost(tree, name, key, refused))?;
            tree.note_lock_wait(granted.waited);
            left = left.saturating_sub(granted.waited.unwrap_or_default());
            let held = if is_unused { granted.before.without_key() } else { granted.before };
            let before = *before.get_or_insert(held);
            let in_the_way = row.map_or(Ok(None), |key| self.large_in_the_way(tree, key, mode));
            let (Ok(Some(large)), Some(key)) = (&in_the_way, row) else {
                let of_row = row.filter(|_| !is_shown);
                self.remember(name, granted.first, of_row.map(|key| (tree.id, key)), gap);
                return in_the_way.map(drop);
            };
            let makes_way = large.claims || !std::mem::replace(&mut has_made_way, true);
            let is_left = !makes_way || self.core.txns.keys.release_beyond(owner, name, before);
            if granted.first && is_left {
                self.remember(name, true, None, gap);
            }
            left = left.saturating_sub(self.await_end(large.number, tree, key, left)?);
        }
    }

    /// Does something in this table stand for locks of others?
    fn are_others_large(&self, tree: &Tree) -> bool {
        let stands_out = self.entered(tree).is_some_and(|entered| entered.stands_out);
        tree.large_ones.are_others(stands_out)
    }

    /// Another transaction, a large one, that has this row for itself, or keeps others from changing it.
    fn large_in_the_way(&self, tree: &Tree, key: &[u8], mode: KeyMode) -> Result<Option<InTheWay>> {
        if !self.are_others_large(tree) {
            return Ok(None);
        }
        let claimant = self.claimant(tree, key)?;
        let scanner = || tree.scanned_by(self.owner, key).filter(|_| mode == KeyMode::Exclusive);
        let claims = claimant.is_some();
        Ok(claimant.or_else(scanner).map(|number| InTheWay { number, claims }))
    }

    /// Waits until the large transaction with this number, which is in the way at `key`, has ended; tells how long.
    #[cold]
    pub fn await_end(
        &mut self,
        number: u64,
        tree: &Tree,
        key: &[u8],
        patience: Duration,
    ) -> Result<Duration> {
        let keys = &self.core.txns.keys;
        let all = keys.all_of(number);
        match keys.wait_for(self.owner, all, patience) {
            Ok(waited) => {
                tree.note_lock_wait(waited);
                Ok(waited.unwrap_or_default())
            }
            Err(refused) => {
                let error = self.lost(tree, all, Some(key), refused);
                // Who runs again waits for its end, too, and nobody for him there.
                let not_alone = |(name, mode)| (name, if name == all { KeyMode::Shared } else { mode });
                self.lost_over = self.lost_over.map(not_alone);
                Err(error)
            }
        }
    }
}

/// What is in the way at a row.
struct InTheWay {
    /// Of the transaction.
    number: u64,
    /// Does it claim the row, rather than only having read it?
    claims: bool,
}

#[cfg(test)]
mod tests {
    use crate::lock::KeyMode;
    use crate::tree::testing::comes_true;
    use crate::tree::{Intent, PATIENCE};
    use crate::txn::Txn;
    use crate::{ByteTable, Database, Savepoint, Transaction};
    use foreshore_base::Lsn;
    use std::thread;

    /// A database with a table of 100 rows.
    fn database() -> (Database, ByteTable) {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        table.put_many(&(0..100_u8).map(|row| ([0, row], [0])).collect::<Vec<_>>()).unwrap();
        (db, table)
    }

    /// Makes who has this transaction a large one.
    fn change_much(tx: &Transaction, db: &Database) {
        let other = db.byte_table("other").unwrap();
        (0..50_u8).for_each(|row| tx.bytes(&other).put(&[row], &[7; 20]).unwrap());
    }

    /// Who waited for a row before anybody was large in its table is not in the way of the large transaction that claims it then; nor if he
    /// had locked the gap below.
    #[test]
    fn who_waited_before_keeps_nothing_that_is_claimed() {
        type Then = fn(&Transaction, &ByteTable, Savepoint) -> crate::Result<()>;
        let thens: [Then; 2] = [
            |tx, _, before| tx.rollback_to(before),
            |tx, table, _| tx.bytes(table).range([0]..[1]).try_for_each(|row| row.map(drop)),
        ];
        for (then, has_gap) in thens.iter().flat_map(|then| [(then, false), (then, true)]) {
            let (db, table) = database();
            let waiter = db.begin().unwrap();
            waiter.bytes(&db.byte_table("third").unwrap()).put(b"x", b"the older one").unwrap();
            if has_gap {
                assert_eq!(waiter.bytes(&table).range([0, 6, 6]..[0, 6, 7]).count(), 0);
            }
            let tx = db.begin().unwrap();
            change_much(&tx, &db);
            let before = tx.savepoint().unwrap();
            assert!(tx.bytes(&table).get_for_update(&[0, 7]).unwrap().is_some());
            let keys = &table.tree.core().txns.keys;
            thread::scope(|scope| {
                let table = &table;
                let waiter = scope.spawn(move || {
                    waiter.bytes(table).put(&[0, 7], b"waiter").and_then(|()| waiter.commit().map(drop))
                });
                assert!(comes_true(|| keys.waiting_on(keys.name(table.tree.id, &[0, 7])) == 1));
                tx.bytes(table).put(&[0, 7], b"large").unwrap();
                assert!(comes_true(|| keys.waiting_on(keys.all_of(tx.number())) == 1));
                let done = then(&tx, table, before);
                drop(tx);
                waiter.join().unwrap().unwrap();
                assert!(done.is_ok(), "has the gap: {has_gap}: {done:?}");
            });
        }
    }

    /// Nor who runs again, and has locked that row ahead, of which he knew only the name.
    #[test]
    fn who_runs_again_keeps_nothing_that_is_claimed() {
        let (db, table) = database();
        let (tree, keys) = (&table.tree, &table.tree.core().txns.keys);
        let tx = db.begin().unwrap();
        change_much(&tx, &db);
        let before = tx.savepoint().unwrap();
        tx.bytes(&table).put(&[0, 7], b"large").unwrap();
        thread::scope(|scope| {
            let again = scope.spawn(|| {
                let mut txn = Txn::begin(tree.core().clone().into(), PATIENCE, Lsn::ZERO).unwrap();
                txn.get_in_line((keys.name(tree.id, &[0, 7]), KeyMode::Exclusive));
                tree.write(&mut txn, &[0, 7], Intent::Put(b"again")).and_then(|_| txn.commit())
            });
            assert!(comes_true(|| keys.waiting_on(keys.all_of(tx.number())) == 1));
            let undone = tx.rollback_to(before);
            drop(tx);
            again.join().unwrap().unwrap();
            assert!(undone.is_ok(), "{undone:?}");
        });
    }

    /// Who waited before to change what he has read gives that back, but keeps what he has read, also if he only showed that he read it.
    #[test]
    fn who_waited_before_keeps_what_he_has_read() {
        for is_popular in [false, true] {
            let (db, table) = database();
            let read = |tx: &Transaction| tx.bytes(&table).get(&[0, 50]).unwrap().unwrap()[0];
            let readers: Vec<_> = (0..if is_popular { 10 } else { 0 })
                .map(|_| {
                    let reader = db.begin().unwrap();
                    read(&reader);
                    reader
                })
                .collect();
            let (small, large) = (db.begin().unwrap(), db.begin().unwrap());
            let seen = read(&small);
            readers.into_iter().for_each(|reader| reader.rollback().unwrap());
            change_much(&large, &db);
            let keys = &table.tree.core().txns.keys;
            let name = keys.name(table.tree.id, &[0, 50]);
            let mut scan = large.bytes(&table).range([0, 50]..);
            assert_eq!(scan.next().unwrap().unwrap().1, [0]);
            let done = thread::scope(|scope| {
                let (table, small) = (&table, small);
                let small = scope.spawn(move || {
                    small.bytes(table).put(&[0, 50], &[seen + 1]).and_then(|()| small.commit().map(drop))
                });
                assert!(comes_true(|| keys.waiting_on(name) == 1));
                assert_eq!(scan.by_ref().take(20).count(), 20);
                assert!(comes_true(|| keys.waiting_on(keys.all_of(large.number())) == 1));
                assert_eq!(read(&large), 0);
                let large = large.bytes(table).put(&[0, 50], &[1]).and_then(|()| large.commit().map(drop));
                [large, small.join().unwrap()]
            });
            let added = done.iter().filter(|done| done.is_ok()).count();
            assert_eq!(table.get(&[0, 50]).unwrap().unwrap(), [added as u8], "{is_popular}: {done:?}");
        }
    }
}
