//! Random transactions.
//!
//! Most rows are anybody's. Some belong to one thread, which alone changes them, by writes that are transactions of
//! their own: their order is then known too. Everybody reads everything.

use super::check::stays;
use super::record::{Content, Entry, Fate, Id, Kind, Read, Write, now};
use crate::common::Rng;
use foreshore::{
    ByteTable, Database, Error, Isolation, Result, Savepoint, Snapshot, Transaction, TransactionOptions,
};
use foreshore_io::SimDisk;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::thread;
use std::time::Duration;

/// A list starts anew when it has as many ids, so that rows stay within a quarter leaf.
const IDS_MAX: usize = 40;

/// Every so many rows belong to threads.
const OWNED_EVERY: usize = 5;

/// What random transactions are like.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    pub keys: usize,
    pub threads: usize,
    pub level: Isolation,
    /// Calls per transaction.
    pub calls_max: usize,
    /// Of a hundred transactions, how many are snapshots, and how many single writes.
    pub snapshots_percent: usize,
    pub autocommits_percent: usize,
    /// Does a snapshot count only if what it saw is durable?
    pub durable_snapshots: bool,
    /// How long a transaction waits for a lock.
    pub patience: Duration,
}

impl Mix {
    /// A random one.
    pub fn random(rng: &mut Rng, level: Isolation) -> Self {
        Self {
            keys: [3, 6, 12, 40][rng.below(4)],
            threads: [2, 3, 5, 20][rng.below(4)],
            level,
            calls_max: [2, 4, 8][rng.below(3)],
            snapshots_percent: [0, 20, 50][rng.below(3)],
            autocommits_percent: [0, 10, 20][rng.below(3)],
            durable_snapshots: false,
            patience: Duration::from_secs(10),
        }
    }

    /// Who alone writes this row, if it is not anybody's.
    fn owner(&self, key: usize) -> Option<usize> {
        (key % OWNED_EVERY == OWNED_EVERY - 1).then_some(key / OWNED_EVERY % self.threads)
    }
}

/// One thread of a history.
pub struct Driver<'d> {
    pub db: &'d Database,
    pub table: &'d ByteTable,
    pub mix: Mix,
    pub thread: usize,
    pub rng: Rng,
    /// The disk that may crash: what is acknowledged after that nobody hears.
    pub disk: Option<SimDisk>,
    /// The id used last.
    id: Id,
}

/// What a transaction knows of itself while it runs.
struct Run<'r> {
    entry: &'r mut Entry,
    /// The rows as it left them.
    own: BTreeMap<usize, Content>,
    savepoints: Vec<(Savepoint, BTreeMap<usize, Content>)>,
}

pub fn key(number: usize) -> Vec<u8> {
    format!("row {number:03}").into_bytes()
}

fn number(key: &[u8]) -> usize {
    std::str::from_utf8(&key[4..]).ok().and_then(|digits| digits.parse().ok()).expect("keys end in a number")
}

/// The list, then padding, so that rows have all sizes.
fn encode(ids: &[Id], padding: usize) -> Vec<u8> {
    let mut bytes = (ids.len() as u32).to_be_bytes().to_vec();
    ids.iter().for_each(|id| bytes.extend(id.to_be_bytes()));
    bytes.resize(bytes.len() + padding, ids.last().map_or(0, |id| *id as u8));
    bytes
}

pub fn decode(bytes: &[u8]) -> Vec<Id> {
    let (count, rest) = bytes.split_first_chunk().expect("a row begins with a count");
    let count = u32::from_be_bytes(*count) as usize;
    let (ids, padding) = rest.split_at(8 * count);
    let ids: Vec<Id> = ids.chunks(8).map(|id| Id::from_be_bytes(id.try_into().expect("8 bytes"))).collect();
    assert!(
        padding.iter().all(|byte| *byte == ids.last().map_or(0, |id| *id as u8)),
        "a row is torn: {bytes:?}"
    );
    ids
}

impl<'d> Driver<'d> {
    pub fn new(
        db: &'d Database,
        table: &'d ByteTable,
        mix: Mix,
        thread: usize,
        life: u64,
        seed: u64,
    ) -> Self {
        let id = (life + 1) << 40 | (thread as u64) << 32;
        Self { db, table, mix, thread, rng: Rng(seed ^ id), disk: None, id }
    }

    /// Up to `count` transactions, until a crash or an error that is no deadlock: the history, and that error.
    pub fn run(&mut self, count: usize) -> (Vec<Entry>, Option<Error>) {
        let mut history = Vec::with_capacity(count);
        for _ in 0..count {
            let dice = self.rng.below(100);
            let (snapshots, autocommits) = (self.mix.snapshots_percent, self.mix.autocommits_percent);
            let (entry, outcome) = if dice < snapshots {
                self.snapshot()
            } else if dice < snapshots + autocommits {
                self.autocommit()
            } else {
                self.transaction()
            };
            history.push(entry);
            match outcome {
                Err(error) if !error.is_retryable() => return (history, Some(error)),
                _ if self.acknowledged() == Fate::Unknown => return (history, None),
                _ => {}
            }
            self.pause();
        }
        (history, None)
    }

    /// With more threads than cores, others would hardly ever come in between.
    fn pause(&mut self) {
        if self.rng.below(3) == 0 {
            thread::yield_now();
        }
    }

    /// The fate of what was acknowledged now.
    fn acknowledged(&self) -> Fate {
        if self.disk.as_ref().is_some_and(SimDisk::is_crashed) { Fate::Unknown } else { Fate::Committed }
    }

    fn next_id(&mut self) -> Id {
        self.id += 1;
        self.id
    }

    fn transaction(&mut self) -> (Entry, Result<()>) {
        let mut entry = Entry::new(Kind::Transaction(self.mix.level));
        let outcome = self.transact(&mut entry);
        entry.end = now();
        (entry, outcome)
    }

    fn transact(&mut self, entry: &mut Entry) -> Result<()> {
        let options = TransactionOptions::new().isolation(self.mix.level).lock_timeout(self.mix.patience);
        let tx = self.db.begin_with(options)?;
        let mut run = Run { entry, own: BTreeMap::new(), savepoints: Vec::new() };
        for _ in 0..1 + self.rng.below(self.mix.calls_max) {
            self.call(&tx, &mut run)?;
            self.pause();
        }
        match self.rng.below(12) {
            0 => return tx.rollback(),
            1 => {
                drop(tx);
                return Ok(());
            }
            _ => {}
        }
        let own = std::mem::take(&mut run.own);
        entry.writes.retain(|write| own.contains_key(&write.key));
        for write in &mut entry.writes {
            write.content = own[&write.key].clone();
        }
        (entry.commit, entry.fate) = (now(), Fate::Unknown);
        tx.commit()?;
        entry.fate = self.acknowledged();
        Ok(())
    }

    fn call(&mut self, tx: &Transaction, run: &mut Run<'_>) -> Result<()> {
        let key = self.rng.below(self.mix.keys);
        let writable = self.mix.owner(key).is_none();
        match self.rng.below(29) {
            0..=4 => self.get(tx, run, key, false).map(drop),
            5..=8 => self.range(tx, run),
            9..=15 if writable => self.append(tx, run, key),
            16 | 17 if writable => self.insert(tx, run, key),
            18 if writable => self.overwrite(tx, run, key),
            19 | 20 if writable => self.remove(tx, run, key),
            21 => {
                run.savepoints.push((tx.savepoint()?, run.own.clone()));
                Ok(())
            }
            22 => match run.savepoints.last() {
                Some((savepoint, own)) => {
                    tx.rollback_to(*savepoint)?;
                    run.own = own.clone();
                    Ok(())
                }
                None => Ok(()),
            },
            23 | 24 => self.get_several(tx, run),
            25 => self.append_several(tx, run),
            26 => self.overwrite_several(tx, run),
            27 if writable => self.remove_range(tx, run, key),
            _ => self.get(tx, run, key, true).map(drop),
        }
    }

    fn get(&mut self, tx: &Transaction, run: &mut Run<'_>, row: usize, for_update: bool) -> Result<Content> {
        let rows = tx.bytes(self.table);
        let from = now();
        let value = if for_update { rows.get_for_update(&key(row))? } else { rows.get(&key(row))? };
        let content = value.as_deref().map(decode);
        let stays = stays(self.mix.level, for_update, false);
        run.saw(Read { key: row, content: content.clone(), from, to: now(), stays });
        Ok(content)
    }

    fn append(&mut self, tx: &Transaction, run: &mut Run<'_>, row: usize) -> Result<()> {
        // At weak levels only the lock keeps the append from being lost; at others sometimes upgrade.
        let for_update = self.mix.level == Isolation::ReadCommitted || self.rng.below(3) > 0;
        let mut ids = self.get(tx, run, row, for_update)?.unwrap_or_default();
        if ids.len() >= IDS_MAX {
            ids.clear();
        }
        ids.push(self.next_id());
        self.put(tx, run, row, ids)
    }

    /// Up to four rows, some of them perhaps twice.
    fn several(&mut self) -> Vec<usize> {
        (0..1 + self.rng.below(4)).map(|_| self.rng.below(self.mix.keys)).collect()
    }

    fn get_several(&mut self, tx: &Transaction, run: &mut Run<'_>) -> Result<()> {
        let rows = self.several();
        let keys: Vec<_> = rows.iter().map(|row| key(*row)).collect();
        let from = now();
        let values = tx.bytes(self.table).multi_get(&keys)?;
        let stays = stays(self.mix.level, false, false);
        for (row, value) in rows.into_iter().zip(values) {
            run.saw(Read { key: row, content: value.as_deref().map(decode), from, to: now(), stays });
        }
        Ok(())
    }

    fn append_several(&mut self, tx: &Transaction, run: &mut Run<'_>) -> Result<()> {
        let mut rows = self.several();
        rows.retain(|row| self.mix.owner(*row).is_none());
        let keys: Vec<_> = rows.iter().map(|row| key(*row)).collect();
        let (mut each, from, stays) = (rows.iter().copied(), now(), stays(self.mix.level, true, false));
        tx.bytes(self.table).multi_modify(&keys, |value| {
            let row = each.next().expect("a call for each row");
            let content = value.as_deref().map(decode);
            run.saw(Read { key: row, content: content.clone(), from, to: now(), stays });
            let mut ids = content.filter(|ids| ids.len() < IDS_MAX).unwrap_or_default();
            ids.push(self.next_id());
            run.entry.tried.extend(ids.last());
            *value = Some(encode(&ids, self.padding()));
            run.own.insert(row, Some(ids));
            ControlFlow::Continue(())
        })?;
        // Only now: to put a row where none was, it may have waited for others who had seen that there was none.
        rows.into_iter().for_each(|row| run.wrote(row, run.own[&row].clone()));
        Ok(())
    }

    fn overwrite(&mut self, tx: &Transaction, run: &mut Run<'_>, row: usize) -> Result<()> {
        let ids = vec![self.next_id()];
        self.put(tx, run, row, ids)
    }

    fn overwrite_several(&mut self, tx: &Transaction, run: &mut Run<'_>) -> Result<()> {
        let mut rows = self.several();
        rows.retain(|row| self.mix.owner(*row).is_none());
        if self.rng.below(3) > 0 {
            rows.sort_unstable();
        }
        let ids: Vec<_> = rows.iter().map(|_| vec![self.next_id()]).collect();
        run.entry.tried.extend(ids.iter().flatten());
        let values: Vec<_> =
            rows.iter().zip(&ids).map(|(row, ids)| (key(*row), encode(ids, self.padding()))).collect();
        tx.bytes(self.table).put_many(&values)?;
        rows.into_iter().zip(ids).for_each(|(row, ids)| run.wrote(row, Some(ids)));
        Ok(())
    }

    fn put(&mut self, tx: &Transaction, run: &mut Run<'_>, row: usize, ids: Vec<Id>) -> Result<()> {
        let value = encode(&ids, self.padding());
        run.entry.tried.extend(ids.last());
        tx.bytes(self.table).put(&key(row), &value)?;
        run.wrote(row, Some(ids));
        Ok(())
    }

    fn insert(&mut self, tx: &Transaction, run: &mut Run<'_>, row: usize) -> Result<()> {
        let ids = vec![self.next_id()];
        let value = encode(&ids, self.padding());
        run.entry.tried.extend(ids.last());
        let from = now();
        if tx.bytes(self.table).insert(&key(row), &value)? {
            run.saw(Read { key: row, content: None, from, to: now(), stays: true });
            run.wrote(row, Some(ids));
        } else if let Some(own) = run.own.get(&row) {
            assert!(own.is_some(), "an insertion failed over a row that the transaction itself had removed");
        }
        Ok(())
    }

    fn remove(&mut self, tx: &Transaction, run: &mut Run<'_>, row: usize) -> Result<()> {
        let there = self.get(tx, run, row, true)?.is_some();
        let removed = tx.bytes(self.table).remove(&key(row))?;
        assert_eq!(removed, there, "a removal disagrees with what was read under the lock");
        if removed {
            run.wrote(row, None);
        }
        Ok(())
    }

    /// Removes rows from `low` on, as far as they are anybody's. What they were it sees after it has gone back: nobody has come
    /// into the range since.
    fn remove_range(&mut self, tx: &Transaction, run: &mut Run<'_>, low: usize) -> Result<()> {
        if self.mix.level != Isolation::Serializable {
            return Ok(()); // what others insert meanwhile goes too, and nobody knows what it was
        }
        let owned = low - low % OWNED_EVERY + OWNED_EVERY - 1;
        let high = low + self.rng.below(owned.min(self.mix.keys) - low);
        let (rows, before) = (tx.bytes(self.table), tx.savepoint()?);
        let removed = rows.remove_range(key(low)..=key(high))?;
        tx.rollback_to(before)?;
        let from = now();
        let found: Vec<_> = rows.range(key(low)..=key(high)).collect::<Result<_>>()?;
        assert_eq!(removed, found.len() as u64, "a removal disagrees with what was read under its locks");
        let seen = seen_in_range(&found, low, high, usize::MAX, false);
        seen.into_iter()
            .for_each(|(key, content)| run.saw(Read { key, content, from, to: now(), stays: true }));
        assert_eq!(rows.remove_range(key(low)..=key(high))?, removed);
        found.iter().for_each(|(key, _)| run.wrote(number(key), None));
        Ok(())
    }

    /// Reads the rows between two keys, from either end, and perhaps not all.
    fn range(&mut self, tx: &Transaction, run: &mut Run<'_>) -> Result<()> {
        let (low, high, limit, down) = self.bounds();
        let rows = tx.bytes(self.table).range(key(low)..=key(high));
        let from = now();
        let rows: Vec<_> = if down {
            rows.rev().take(limit).collect::<Result<_>>()?
        } else {
            rows.take(limit).collect::<Result<_>>()?
        };
        let level = self.mix.level;
        for (row, content) in seen_in_range(&rows, low, high, limit, down) {
            let stays = stays(level, false, content.is_none());
            run.saw(Read { key: row, content, from, to: now(), stays });
        }
        Ok(())
    }

    fn bounds(&mut self) -> (usize, usize, usize, bool) {
        let (a, b) = (self.rng.below(self.mix.keys), self.rng.below(self.mix.keys));
        let limit = if self.rng.below(3) == 0 { 1 + self.rng.below(4) } else { usize::MAX };
        (a.min(b), a.max(b), limit, self.rng.below(2) == 0)
    }

    fn padding(&mut self) -> usize {
        [0, 10, 100, 600][self.rng.below(4)]
    }

    fn snapshot(&mut self) -> (Entry, Result<()>) {
        let mut entry = Entry::new(Kind::Snapshot);
        let outcome = self.read_snapshot(&mut entry);
        (entry, outcome)
    }

    fn read_snapshot(&mut self, entry: &mut Entry) -> Result<()> {
        let snapshot = self.db.snapshot()?;
        // What it sees is what there was between these moments, whenever it looks.
        entry.end = now();
        for _ in 0..1 + self.rng.below(self.mix.calls_max) {
            self.look(&snapshot, entry)?;
            self.pause();
        }
        if self.mix.durable_snapshots {
            snapshot.wait_durable()?;
        }
        entry.fate = self.acknowledged();
        Ok(())
    }

    fn look(&mut self, snapshot: &Snapshot, entry: &mut Entry) -> Result<()> {
        let rows = snapshot.bytes(self.table);
        let (from, to) = (entry.begin, entry.end);
        let dice = self.rng.below(4);
        if dice == 0 {
            let row = self.rng.below(self.mix.keys);
            let content = rows.get(&key(row))?.as_deref().map(decode);
            entry.saw(Read { key: row, content, from, to, stays: true });
            return Ok(());
        }
        if dice == 1 {
            let several = self.several();
            let keys: Vec<_> = several.iter().map(|row| key(*row)).collect();
            let values = rows.multi_get(&keys)?;
            for (row, value) in several.into_iter().zip(values) {
                entry.saw(Read { key: row, content: value.as_deref().map(decode), from, to, stays: true });
            }
            return Ok(());
        }
        let (low, high, limit, down) = self.bounds();
        let rows = rows.range(key(low)..=key(high));
        let rows: Vec<_> = if down {
            rows.rev().take(limit).collect::<Result<_>>()?
        } else {
            rows.take(limit).collect::<Result<_>>()?
        };
        for (row, content) in seen_in_range(&rows, low, high, limit, down) {
            entry.saw(Read { key: row, content, from, to, stays: true });
        }
        Ok(())
    }

    /// A write of a row of one's own, outside of transactions.
    fn autocommit(&mut self) -> (Entry, Result<()>) {
        let mut entry = Entry::new(Kind::Autocommit);
        let own: Vec<_> =
            (0..self.mix.keys).filter(|row| self.mix.owner(*row) == Some(self.thread)).collect();
        let mut outcome = Ok(());
        if !own.is_empty() {
            let row = own[self.rng.below(own.len())];
            let (content, written) = self.write_alone(row);
            entry.fate = match &written {
                Ok(_) => self.acknowledged(),
                Err(refused) if refused.is_retryable() => Fate::RolledBack,
                Err(_) => Fate::Unknown,
            };
            if entry.fate != Fate::RolledBack && !matches!(written, Ok(false)) {
                entry.tried.extend(content.iter().flatten().copied());
                entry.writes.push(Write { key: row, content, at: entry.begin });
            }
            outcome = written.map(drop);
        }
        entry.end = now();
        (entry, outcome)
    }

    /// What it writes, and whether it did.
    fn write_alone(&mut self, row: usize) -> (Content, Result<bool>) {
        let ids = vec![self.next_id()];
        let value = encode(&ids, self.padding());
        match self.rng.below(4) {
            0 => (None, self.table.remove(&key(row))),
            1 => (Some(ids), self.table.insert(&key(row), &value)),
            _ => (Some(ids), self.table.put(&key(row), &value).map(|()| true)),
        }
    }
}

impl Run<'_> {
    /// Notes what was seen: its own writes must be there, what others wrote is for the checker.
    fn saw(&mut self, read: Read) {
        match self.own.get(&read.key) {
            Some(own) => assert_eq!(own, &read.content, "a transaction does not see its own write: {read:?}"),
            None => self.entry.saw(read),
        }
    }

    fn wrote(&mut self, key: usize, content: Content) {
        self.own.insert(key, content);
        self.entry.writes.retain(|write| write.key != key);
        self.entry.writes.push(Write { key, content: None, at: now() });
    }
}

/// What a range over `low..=high` says of each row that it came by, those that are not there included.
fn seen_in_range(
    rows: &[(Vec<u8>, Vec<u8>)],
    mut low: usize,
    mut high: usize,
    limit: usize,
    down: bool,
) -> Vec<(usize, Content)> {
    let found: BTreeMap<usize, Vec<Id>> =
        rows.iter().map(|(key, value)| (number(key), decode(value))).collect();
    assert_eq!(found.len(), rows.len(), "a range returned a row twice");
    if rows.len() == limit {
        // It stopped there, and knows nothing of what lies beyond.
        let last = number(&rows[limit - 1].0);
        *(if down { &mut low } else { &mut high }) = last;
    }
    (low..=high).map(|row| (row, found.get(&row).cloned())).collect()
}
