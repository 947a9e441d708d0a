//! One life of a database: what is done in it, at random, and what must come of each call.

mod model;

use crate::common::{Rng, tiny};
use foreshore::{
    Builder, ByteTable, Database, Durability, Error, Index, Isolation, Savepoint, Snapshot, TableOptions,
    Transaction, TransactionOptions,
};
use foreshore_io::{
    SimDisk,
    sim::{Crash, Fault, Repeat},
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::time::Duration;

pub use model::{History, Rows, State, TABLES, Value, Written, difference, look};

/// Nobody waits for a lock: there is one thread.
const PATIENCE: Duration = Duration::ZERO;

/// A cache that does not hold all of it.
pub fn options() -> Builder {
    tiny().cache_bytes(40 * 4096).ring_bytes(256 << 10) // for the largest leaves
}

/// A transaction that runs.
pub struct Open {
    tx: Transaction,
    durability: Durability,
    written: Written,
    tables: BTreeSet<usize>,
    savepoints: Vec<(Savepoint, Written)>,
}

pub struct Life<'a> {
    pub rng: &'a mut Rng,
    pub disk: &'a SimDisk,
    pub db: &'a Database,
    pub tables: [Option<ByteTable>; TABLES.len()],
    pub history: &'a mut History,
    pub open: Vec<Open>,
    pub snapshots: Vec<(Snapshot, State, [Option<ByteTable>; TABLES.len()])>,
    pub gids: &'a mut usize,
    /// Tables that prepared transactions use.
    pub in_use: BTreeMap<Vec<u8>, BTreeSet<usize>>,
    pub keys: usize,
    pub leaf_bytes: [usize; TABLES.len()],
    pub log: Vec<String>,
    /// Events that fail.
    pub faults: Vec<u64>,
}

/// What ends a life.
#[derive(Debug)]
pub enum End {
    /// The disk has crashed or failed.
    Failed,
    /// A rollback found no space.
    Stuck,
}

pub type Done = Result<(), End>;

impl Life<'_> {
    fn value(&mut self) -> Value {
        let len = match self.rng.below(60) {
            0 => 67_000 + self.rng.below(60_000), // in an extent
            1..6 => 1020 + self.rng.below(8),
            6..11 => self.rng.below(6000),
            11..30 => self.rng.below(900),
            _ => self.rng.below(60),
        };
        let byte = self.rng.next() as u8;
        let mut value = vec![byte; len];
        value.iter_mut().take(8).for_each(|b| *b = self.rng.next() as u8);
        Arc::new(value)
    }

    fn key(&mut self) -> Vec<u8> {
        format!("{:05}", self.rng.below(self.keys) * 7).into_bytes()
    }

    fn durability(&mut self) -> Durability {
        [Durability::Sync, Durability::Buffered, Durability::Relaxed][self.rng.below(3)]
    }

    fn existing(&mut self) -> Option<usize> {
        let table = self.rng.below(TABLES.len());
        self.tables[table].is_some().then_some(table)
    }

    /// Judges what came of a call: `Ok(true)`: it was done; `Ok(false)`: it was refused, and changed nothing.
    fn judge<T>(&mut self, what: &str, result: Result<T, Error>) -> Result<Option<T>, End> {
        self.log.push(format!(
            "{what}: {}",
            match &result {
                Ok(_) => "ok".into(),
                Err(e) => format!("{e:.90}"),
            }
        ));
        if self.disk.is_crashed() {
            return Err(End::Failed);
        }
        match result {
            Ok(done) => Ok(Some(done)),
            Err(Error::LockTimeout { .. } | Error::Full { .. }) => Ok(None),
            Err(Error::Poisoned { .. } | Error::Io { .. }) => Err(End::Failed),
            Err(e) => panic!("{what}: {e:?}\n{}", self.log.join("\n")),
        }
    }

    /// After something that was begun with `History::begin` was done.
    fn acknowledge(&mut self, durability: Durability) {
        self.history.acknowledged = self.history.states.len() - 1;
        if durability == Durability::Sync {
            self.history.durable = self.history.acknowledged;
        }
    }

    fn refuse(&mut self) {
        self.history.states.pop();
    }

    pub fn step(&mut self) -> Done {
        match self.rng.below(40) {
            0..8 => self.write_alone(),
            8..11 => self.begin(),
            11..25 => self.step_of_one(),
            25 => self.checkpoint(),
            26 => self.sync(),
            27 | 28 => self.create_table(),
            29 => self.drop_table(),
            30..32 => self.decide(),
            32 => self.open_snapshot(),
            33 => self.close_snapshot(),
            34 => {
                let capacity = if self.rng.below(3) == 0 {
                    self.disk.used_bytes() + 4096 * self.rng.below(30) as u64
                } else {
                    u64::MAX
                };
                self.log.push(format!("capacity {capacity}"));
                self.disk.set_capacity(capacity);
                Ok(())
            }
            35 if self.rng.below(8) == 0 => {
                let event = self.disk.events() + self.rng.below(20) as u64;
                self.log.push(format!("failure at {event}"));
                self.disk.fail_at(event, Fault::Eio, Repeat::Once);
                self.faults.push(event);
                Ok(())
            }
            36 => self.write_many_alone(),
            37 => self.remove_range_alone(),
            38 => self.check(),
            _ => self.step_of_one(),
        }
    }

    fn write_alone(&mut self) -> Done {
        let Some(table) = self.existing() else { return Ok(()) };
        let (key, value, durability) = (self.key(), self.value(), self.durability());
        let rows = self.alone(table, durability);
        let removes = self.rng.below(3) == 0;
        let change = Written::from([((table, key.clone()), (!removes).then(|| value.clone()))]);
        self.history.begin(|state| state.apply(&change));
        let done = if removes { rows.remove(&key) } else { rows.put(&key, &value).map(|()| true) };
        let what = format!(
            "alone {} {} {} {durability:?} {removes}",
            TABLES[table],
            key.escape_ascii(),
            value.len()
        );
        match self.judge(&what, done)? {
            Some(true) => self.acknowledge(durability),
            // A removal of what is not there writes nothing, and waits for nothing.
            Some(false) | None => self.refuse(),
        }
        Ok(())
    }

    /// Each row is a commit of its own, and a refused one the last.
    fn write_many_alone(&mut self) -> Done {
        let Some(table) = self.existing() else { return Ok(()) };
        let (many, durability) = (self.neighbours(), self.durability());
        let before = self.history.states.len();
        for (key, value) in &many {
            let change = Written::from([((table, key.clone()), Some(value.clone()))]);
            self.history.begin(|state| state.apply(&change));
        }
        let done = self.alone(table, durability).put_some(&encoded(&many));
        let what = format!("alone {} many {} {durability:?}", TABLES[table], many.len());
        let set = self.judge(&what, done)?.unwrap_or(0);
        self.history.states.truncate(before + set);
        if set > 0 {
            self.acknowledge(durability);
        }
        Ok(())
    }

    fn remove_range_alone(&mut self) -> Done {
        let Some(table) = self.existing() else { return Ok(()) };
        let ([from, to], durability) = (self.bounds(), self.durability());
        let there = self.history.now().tables[table].as_ref().unwrap();
        let gone: Written =
            there.range(from.clone()..to.clone()).map(|(key, _)| ((table, key.clone()), None)).collect();
        self.history.begin(|state| state.apply(&gone));
        let done = self.alone(table, durability).remove_range(&from[..]..&to[..]);
        let what = format!("alone {} remove {}..{}", TABLES[table], from.escape_ascii(), to.escape_ascii());
        let removed = self.judge(&what, done)?;
        assert!(
            removed.is_none_or(|n| n == gone.len() as u64),
            "{what}: {removed:?}\n{}",
            self.log.join("\n")
        );
        match removed {
            Some(1..) => self.acknowledge(durability),
            Some(0) | None => self.refuse(),
        }
        Ok(())
    }

    /// The table's own handle, for writes outside transactions.
    fn alone(&self, table: usize, durability: Durability) -> ByteTable {
        self.tables[table].clone().unwrap().with_lock_timeout(PATIENCE).with_durability(durability)
    }

    /// Rows whose keys follow each other, most of them not in use by others.
    fn neighbours(&mut self) -> Vec<(Vec<u8>, Value)> {
        let from = self.rng.below(self.keys * 7);
        (from..from + 1 + self.rng.below(20))
            .map(|i| (format!("{i:05}").into_bytes(), self.value()))
            .collect()
    }

    fn bounds(&mut self) -> [Vec<u8>; 2] {
        let from = self.rng.below(self.keys * 7);
        let to = from + self.rng.below(self.keys * 3);
        [from, to].map(|bound| format!("{bound:05}").into_bytes())
    }

    fn check(&mut self) -> Done {
        let done = self.db.check().map(drop);
        self.judge("check", done).map(drop)
    }

    fn begin(&mut self) -> Done {
        if self.open.len() < 5 {
            let durability = self.durability();
            let isolation = [Isolation::Serializable, Isolation::RepeatableRead, Isolation::ReadCommitted]
                [self.rng.below(3)];
            let options =
                TransactionOptions::new().lock_timeout(PATIENCE).durability(durability).isolation(isolation);
            let tx = self.db.begin_with(options).unwrap();
            self.open.push(Open {
                tx,
                durability,
                written: Written::new(),
                tables: BTreeSet::new(),
                savepoints: Vec::new(),
            });
        }
        Ok(())
    }

    fn step_of_one(&mut self) -> Done {
        if self.open.is_empty() {
            return self.begin();
        }
        let at = self.rng.below(self.open.len());
        match self.rng.below(30) {
            0..14 => self.write(at),
            14 => self.write_many(at),
            15 => self.remove_range(at),
            16 | 17 => {
                let one = &mut self.open[at];
                let savepoint = one.tx.savepoint().unwrap();
                one.savepoints.push((savepoint, one.written.clone()));
                Ok(())
            }
            18 => self.roll_back_to(at),
            19 | 20 => self.commit(at),
            21 => self.roll_back(at),
            22 => self.prepare(at),
            23 => self.read(at),
            24 | 25 => self.scan(at),
            26 => self.abort(at),
            27 | 28 => self.modify(at),
            _ => self.back_up(),
        }
    }

    fn write(&mut self, at: usize) -> Done {
        let Some(table) = self.existing() else { return Ok(()) };
        let (key, value, removes) = (self.key(), self.value(), self.rng.below(3) == 0);
        self.open[at].tables.insert(table);
        let rows = self.tables[table].clone().unwrap();
        let rows = self.open[at].tx.bytes(&rows);
        let done = if removes { rows.remove(&key) } else { rows.put(&key, &value).map(|()| true) };
        let what = format!(
            "tx {} {} {} {} {removes}",
            self.open[at].tx.number(),
            TABLES[table],
            key.escape_ascii(),
            value.len()
        );
        // Removing what is not there writes nothing.
        if self.judge(&what, done)? == Some(true) {
            self.open[at].written.insert((table, key), (!removes).then_some(value));
        }
        Ok(())
    }

    fn write_many(&mut self, at: usize) -> Done {
        let Some(table) = self.existing() else { return Ok(()) };
        let many = self.neighbours();
        self.open[at].tables.insert(table);
        let rows = self.tables[table].clone().unwrap();
        let savepoint = self.open[at].tx.savepoint().unwrap();
        let done = self.open[at].tx.bytes(&rows).put_many(&encoded(&many));
        let what = format!("tx {} {} many {}", self.open[at].tx.number(), TABLES[table], many.len());
        if self.judge(&what, done)?.is_some() {
            self.open[at].written.extend(many.into_iter().map(|(key, value)| ((table, key), Some(value))));
            return Ok(());
        }
        self.undo_part(at, savepoint)
    }

    /// Rows are read and locked, and then changed or not.
    fn modify(&mut self, at: usize) -> Done {
        let Some(table) = self.existing() else { return Ok(()) };
        let keys: BTreeSet<_> = (0..1 + self.rng.below(20)).map(|_| self.key()).collect();
        let keys: Vec<_> = keys.into_iter().collect();
        let values: Vec<_> = keys.iter().map(|_| (self.rng.below(3) > 0).then(|| self.value())).collect();
        self.open[at].tables.insert(table);
        let rows = self.tables[table].clone().unwrap();
        let savepoint = self.open[at].tx.savepoint().unwrap();
        let mut found = Vec::new();
        let done = self.open[at].tx.bytes(&rows).multi_modify(&keys, |row| {
            let value = values[found.len()].as_deref().cloned();
            found.push(std::mem::replace(row, value));
            ControlFlow::Continue(())
        });
        let what = format!("tx {} {} modify {}", self.open[at].tx.number(), TABLES[table], keys.len());
        let done = self.judge(&what, done)?;
        let expected = self.expected(at, table);
        for (key, found) in keys.iter().zip(&found) {
            let expected = expected.get(key).map(|value| &**value);
            assert!(found.as_ref() == expected, "{what}: {}\n{}", key.escape_ascii(), self.log.join("\n"));
        }
        if done.is_none() {
            return self.undo_part(at, savepoint);
        }
        let changed = keys.into_iter().zip(values).filter(|(key, value)| {
            value.is_some() || expected.contains_key(key) // removing what is not there writes nothing
        });
        self.open[at].written.extend(changed.map(|(key, value)| ((table, key), value)));
        Ok(())
    }

    /// Of a change of many rows a part may be made.
    fn undo_part(&mut self, at: usize, savepoint: Savepoint) -> Done {
        let undone = self.open[at].tx.rollback_to(savepoint);
        self.judge(&format!("tx {} undo a part", self.open[at].tx.number()), undone)?.ok_or(End::Stuck)
    }

    fn remove_range(&mut self, at: usize) -> Done {
        let Some(table) = self.existing() else { return Ok(()) };
        let [from, to] = self.bounds();
        let rows_max = [u64::MAX, 3][self.rng.below(2)];
        self.open[at].tables.insert(table);
        let rows = self.tables[table].clone().unwrap();
        let done = self.open[at].tx.bytes(&rows).remove_some(&from[..]..&to[..], rows_max);
        let what = format!(
            "tx {} {} remove {}..{}",
            self.open[at].tx.number(),
            TABLES[table],
            from.escape_ascii(),
            to.escape_ascii()
        );
        let Some(removed) = self.judge(&what, done)? else {
            // No row is removed, unless there was no space to put some of them back.
            return self.open[at].tx.savepoint().map(drop).map_err(|_| End::Stuck);
        };
        let mut gone: Vec<_> = self.expected(at, table).range(from..to).map(|(key, _)| key.clone()).collect();
        gone.truncate(usize::try_from(rows_max).unwrap());
        assert_eq!(removed, gone.len() as u64, "{what}\n{}", self.log.join("\n"));
        self.open[at].written.extend(gone.into_iter().map(|key| ((table, key), None)));
        Ok(())
    }

    fn roll_back_to(&mut self, at: usize) -> Done {
        let one = &mut self.open[at];
        if one.savepoints.is_empty() {
            return Ok(());
        }
        let place = self.rng.below(one.savepoints.len());
        one.savepoints.truncate(place + 1);
        let (savepoint, written) = one.savepoints[place].clone();
        let done = one.tx.rollback_to(savepoint);
        one.written = written;
        let what = format!("tx {} back to {place}", one.tx.number());
        self.judge(&what, done)?.ok_or(End::Stuck)
    }

    fn commit(&mut self, at: usize) -> Done {
        let one = self.open.swap_remove(at);
        self.history.begin(|state| state.apply(&one.written));
        let what = format!("tx {} commit {:?}", one.tx.number(), one.durability);
        let done = one.tx.commit();
        self.judge(&what, done)?.expect("a commit needs no space");
        self.acknowledge(one.durability);
        Ok(())
    }

    fn roll_back(&mut self, at: usize) -> Done {
        let one = self.open.swap_remove(at);
        let what = format!("tx {} rollback", one.tx.number());
        let done = one.tx.rollback();
        self.judge(&what, done)?.ok_or(End::Stuck)
    }

    fn prepare(&mut self, at: usize) -> Done {
        if self.history.now().prepared.len() > 2 {
            return Ok(());
        }
        let one = self.open.swap_remove(at);
        *self.gids += 1;
        let gid = format!("{}", *self.gids).into_bytes();
        self.history.begin(|state| drop(state.prepared.insert(gid.clone(), one.written.clone())));
        let what = format!("tx {} prepare {}", one.tx.number(), gid.escape_ascii());
        self.in_use.insert(gid.clone(), one.tables.clone());
        let done = one.tx.prepare(&gid);
        match self.judge(&what, done)? {
            Some(()) => self.acknowledge(Durability::Sync),
            None => {
                // It was rolled back.
                self.in_use.remove(&gid);
                self.refuse();
            }
        }
        Ok(())
    }

    fn decide(&mut self) -> Done {
        let prepared = &self.history.now().prepared;
        let Some((gid, written)) = prepared.iter().nth(self.rng.below(prepared.len())) else { return Ok(()) };
        let (gid, written) = (gid.clone(), written.clone());
        let commits = self.rng.below(2) == 0;
        self.history.begin(|state| {
            state.prepared.remove(&gid);
            if commits {
                state.apply(&written);
            }
        });
        self.in_use.remove(&gid);
        let done = if commits { self.db.commit_prepared(&gid) } else { self.db.rollback_prepared(&gid) };
        let what = format!("decide {} {commits}", gid.escape_ascii());
        self.judge(&what, done)?.ok_or(End::Stuck)?;
        self.acknowledge(if commits { Durability::Sync } else { Durability::Relaxed });
        Ok(())
    }

    fn checkpoint(&mut self) -> Done {
        let done = self.db.checkpoint();
        if self.judge("checkpoint", done)?.is_some() {
            self.history.durable = self.history.states.len() - 1;
        }
        Ok(())
    }

    fn sync(&mut self) -> Done {
        let done = self.db.sync();
        self.judge("sync", done)?.expect("a sync needs no space");
        self.history.durable = self.history.states.len() - 1;
        Ok(())
    }

    fn create_table(&mut self) -> Done {
        let table = self.rng.below(TABLES.len());
        if self.tables[table].is_some() {
            return Ok(());
        }
        self.history.begin(|state| state.tables[table] = Some(Rows::new()));
        let leaf_bytes = self.leaf_bytes[table];
        let options = TableOptions::new().leaf_bytes(leaf_bytes).index(Index::ALL[table]);
        let done = self.db.byte_table_with(TABLES[table], options);
        match self.judge(&format!("create {}", TABLES[table]), done)? {
            Some(rows) => {
                self.tables[table] = Some(rows);
                self.acknowledge(Durability::Sync);
            }
            None => self.refuse(),
        }
        Ok(())
    }

    fn drop_table(&mut self) -> Done {
        let Some(table) = self.existing() else { return Ok(()) };
        let mut used = self.open.iter().any(|one| one.tables.contains(&table));
        used |=
            self.history.now().prepared.values().any(|written| written.keys().any(|(of, _)| *of == table));
        used |= self.in_use.values().any(|tables| tables.contains(&table));
        if used {
            return Ok(());
        }
        self.history.begin(|state| state.tables[table] = None);
        let done = self.db.drop_table(TABLES[table]);
        match self.judge(&format!("drop {}", TABLES[table]), done)? {
            Some(existed) => {
                assert!(existed);
                self.tables[table] = None;
                self.acknowledge(Durability::Sync);
            }
            None => self.refuse(),
        }
        Ok(())
    }

    fn open_snapshot(&mut self) -> Done {
        if self.snapshots.len() < 3 {
            let snapshot = self.db.snapshot().unwrap();
            self.snapshots.push((snapshot, self.history.now().clone(), self.tables.clone()));
        }
        Ok(())
    }

    fn close_snapshot(&mut self) -> Done {
        if self.snapshots.is_empty() {
            return Ok(());
        }
        let (snapshot, state, tables) = self.snapshots.swap_remove(self.rng.below(self.snapshots.len()));
        for (at, (rows, table)) in state.tables.iter().zip(&tables).enumerate() {
            let (Some(rows), Some(table)) = (rows, table) else { continue };
            let seen: Result<Rows, _> = snapshot
                .bytes(table)
                .range(..)
                .map(|row| row.map(|(key, value)| (key, Arc::new(value))))
                .collect();
            match seen {
                Ok(seen) => assert!(
                    seen == *rows,
                    "snapshot of {}: {}\n{}",
                    TABLES[at],
                    difference(&seen, rows),
                    self.log.join("\n")
                ),
                Err(Error::TableDropped { .. }) => {}
                Err(_) if self.disk.is_crashed() => return Err(End::Failed),
                Err(Error::Poisoned { .. } | Error::Io { .. } | Error::Full { .. }) => return Ok(()),
                Err(e) => panic!("snapshot of {}: {e:?}\n{}", TABLES[at], self.log.join("\n")),
            }
        }
        Ok(())
    }

    /// A transaction sees what is committed, and its own.
    fn read(&mut self, at: usize) -> Done {
        let Some(table) = self.existing() else { return Ok(()) };
        let key = self.key();
        self.open[at].tables.insert(table);
        let rows = self.tables[table].clone().unwrap();
        let done = self.open[at].tx.bytes(&rows).get(&key);
        if let Some(found) = self.judge("read", done)? {
            let committed = || self.history.now().tables[table].as_ref().unwrap().get(&key).cloned();
            let expected =
                self.open[at].written.get(&(table, key.clone())).cloned().unwrap_or_else(committed);
            let show = |v: Option<&Vec<u8>>| {
                v.map_or("none".into(), |v| format!("{} bytes {:?}", v.len(), &v[..v.len().min(4)]))
            };
            assert!(
                found == expected.as_deref().cloned(),
                "tx {} finds {} for {} in {} {}\n{}",
                self.open[at].tx.number(),
                show(found.as_ref()),
                show(expected.as_deref()),
                TABLES[table],
                key.escape_ascii(),
                self.log.join("\n")
            );
        }
        Ok(())
    }

    /// A walk from either end, which writes ahead of itself, finds what is committed, and its own.
    fn scan(&mut self, at: usize) -> Done {
        let Some(table) = self.existing() else { return Ok(()) };
        self.open[at].tables.insert(table);
        let handle = self.tables[table].clone().unwrap();
        let descends = self.rng.below(2) == 0;
        let mut range = self.open[at].tx.bytes(&handle).range(..);
        let mut last: Option<Vec<u8>> = None;
        let mut expected = self.expected(at, table);
        for _ in 0..self.rng.below(60) {
            let row = if descends { range.next_back() } else { range.next() };
            let what = format!(
                "tx {} scans {} descending {descends} behind {:?}",
                self.open[at].tx.number(),
                TABLES[table],
                last.as_ref().map(|key| key.escape_ascii().to_string())
            );
            let Some(found) = self.judge(&what, row.transpose())? else { return Ok(()) };
            let next = match (&last, descends) {
                (None, false) => expected.iter().next(),
                (None, true) => expected.iter().next_back(),
                (Some(last), false) => {
                    expected.range((Bound::Excluded(last.clone()), Bound::Unbounded)).next()
                }
                (Some(last), true) => expected.range(..last.clone()).next_back(),
            };
            let next = next.map(|(key, value)| (key.clone(), value.to_vec()));
            assert!(
                found == next,
                "{what}: {:?} for {:?}\n{}",
                found.map(|row| row.0),
                next.map(|row| row.0),
                self.log.join("\n")
            );
            let Some((key, _)) = found else { break };
            last = Some(key);
            if self.rng.below(3) == 0 {
                self.write(at)?;
                expected = self.expected(at, table);
            }
        }
        Ok(())
    }

    /// The rows that a transaction sees.
    fn expected(&self, at: usize, table: usize) -> Rows {
        let mut rows = self.history.now().tables[table].clone().unwrap();
        for ((_, key), value) in self.open[at].written.iter().filter(|((of, _), _)| *of == table) {
            match value {
                Some(value) => drop(rows.insert(key.clone(), value.clone())),
                None => drop(rows.remove(key)),
            }
        }
        rows
    }

    fn abort(&mut self, at: usize) -> Done {
        let one = self.open.swap_remove(at);
        let done = self.db.abort(one.tx.number());
        let aborted = self.judge(&format!("tx {} abort", one.tx.number()), done)?.ok_or(End::Stuck)?;
        assert!(aborted, "it runs");
        assert!(matches!(one.tx.commit(), Err(Error::Aborted { .. })));
        Ok(())
    }

    /// A copy has what is there; nothing of it depends on this disk any more.
    fn back_up(&mut self) -> Done {
        let copy = SimDisk::new(self.rng.next());
        let done = self.db.backup_on(Arc::new(copy.clone()), |_| {});
        if self.judge("backup", done)?.is_some() {
            let copy = copy.after_crash(Crash::PowerLoss, self.rng.next());
            let found = look(&options().open_on(Arc::new(copy)).unwrap());
            assert!(found.tables == self.history.now().tables, "a backup has {}", found.describe());
            assert!(found.prepared.is_empty());
        }
        Ok(())
    }
}

fn encoded(rows: &[(Vec<u8>, Value)]) -> Vec<(&[u8], &[u8])> {
    rows.iter().map(|(key, value)| (&key[..], &value[..])).collect()
}
