//! Several threads move amounts between the rows of several tables, and what all rows hold together stays the same: for whoever looks
//! at a snapshot, in a backup, and after each crash. Meanwhile transactions are aborted by others, wait in vain for locks, take parts
//! back, prepare and are decided by somebody else; values lie in leaves, chunks and extents; the disk is full now and then.
//!
//! `FORESHORE_SEED` chooses the seed, `FORESHORE_ROUNDS` how many databases (default: enough for CI).

mod common;

use common::{Rng, env, in_parallel, tiny};
use foreshore::{
    Builder, ByteTable, Database, Durability, Error, Index, Result, TableOptions, Transaction,
    TransactionBytes, TransactionOptions,
};
use foreshore_io::{SimDisk, sim::Crash};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

const TABLES: [&str; 3] = ["a", "b", "c"];
const TOTAL: u64 = 1_000_000;
const LIVES: usize = 4;
/// Transactions of a thread in one life, if no crash comes before.
const PER_THREAD: usize = 150;
/// I/O events until a crash.
const EVENTS_MAX: usize = 1500;

fn options() -> Builder {
    tiny().ring_bytes(256 << 10) // for the largest leaves
}

/// Each table with another index, and leaves of another size.
fn tables(db: &Database) -> [ByteTable; 3] {
    let table = |i: usize| {
        let options = TableOptions::new().index(Index::ALL[i]).leaf_bytes(4096 << i);
        db.byte_table_with(TABLES[i], options).unwrap()
    };
    [0, 1, 2].map(table)
}

/// An amount, then bytes that say whether the value is torn.
fn value(rng: &mut Rng, amount: u64) -> Vec<u8> {
    let padding = match rng.below(40) {
        0 => 66_000 + rng.below(9000), // in an extent, if leaves are small
        1..6 => 1000 + rng.below(6000),
        6..20 => rng.below(400),
        _ => rng.below(20),
    };
    let mut value = amount.to_le_bytes().to_vec();
    value.resize(8 + padding, value[0]);
    value
}

/// What a row holds; nothing if there is none. Amounts wrap around.
fn amount(row: Option<&[u8]>) -> u64 {
    row.map_or(0, |value| {
        assert!(value[8..].iter().all(|byte| *byte == value[0]), "a value is torn");
        u64::from_le_bytes(*value.first_chunk().unwrap())
    })
}

fn sum(rows: impl Iterator<Item = Result<(Vec<u8>, Vec<u8>)>>) -> Result<u64> {
    rows.map(|row| row.map(|(_, value)| amount(Some(&value))))
        .try_fold(0_u64, |sum, amount| Ok(sum.wrapping_add(amount?)))
}

/// What all rows hold that are committed, when nobody writes.
fn total(db: &Database) -> u64 {
    tables(db).iter().map(|table| sum(table.range(..)).unwrap()).fold(0, u64::wrapping_add)
}

struct World<'w> {
    db: &'w Database,
    disk: &'w SimDisk,
    tables: &'w [ByteTable; 3],
    keys: usize,
    gids: &'w AtomicUsize,
}

impl World<'_> {
    fn key(&self, rng: &mut Rng) -> Vec<u8> {
        format!("{:04}", rng.below(self.keys)).into_bytes()
    }

    fn bounds(&self, rng: &mut Rng) -> [Vec<u8>; 2] {
        let mut bounds = [self.key(rng), self.key(rng)];
        bounds.sort();
        bounds
    }

    /// Adds to what some row holds, and removes it if that is nothing.
    fn add(&self, rng: &mut Rng, rows: &TransactionBytes<'_>, more: u64) -> Result<()> {
        let key = self.key(rng);
        match amount(rows.get_for_update(&key)?.as_deref()).wrapping_add(more) {
            0 => rows.remove(&key).map(drop),
            sum => rows.put(&key, &value(rng, sum)),
        }
    }

    fn transact(&self, rng: &mut Rng) -> Result<()> {
        let durability = [Durability::Sync, Durability::Buffered, Durability::Relaxed][rng.below(3)];
        let patience = Duration::from_millis([0, 1, 5, 20][rng.below(4)]);
        let options = TransactionOptions::new().durability(durability).lock_timeout(patience);
        let tx = self.db.begin_with(options)?;
        for _ in 0..1 + rng.below(4) {
            match rng.below(4) {
                0 => self.move_one(rng, &tx)?,
                1 => self.move_range(rng, &tx)?,
                2 => self.collect(rng, &tx)?,
                _ => self.take_back(rng, &tx)?,
            }
        }
        match rng.below(10) {
            0 => tx.rollback(),
            1 => tx.commit_async().map(drop),
            2 if self.db.recover().len() < 4 => tx.prepare(self.gids.fetch_add(1, Relaxed).to_string()),
            _ => tx.commit(),
        }
    }

    fn move_one(&self, rng: &mut Rng, tx: &Transaction) -> Result<()> {
        let [from, to] = [0; 2].map(|_| tx.bytes(&self.tables[rng.below(TABLES.len())]));
        let some = rng.below(100) as u64;
        self.add(rng, &from, some.wrapping_neg())?;
        self.add(rng, &to, some)
    }

    /// Rows of a range, which is read and then emptied, into one.
    fn move_range(&self, rng: &mut Rng, tx: &Transaction) -> Result<()> {
        let [from, to] = [0; 2].map(|_| tx.bytes(&self.tables[rng.below(TABLES.len())]));
        let [low, high] = self.bounds(rng);
        let mut rows = from.range(&low[..]..&high[..]).take(20).collect::<Result<Vec<_>>>()?;
        rows.truncate(rng.below(20));
        let Some((last, _)) = rows.last() else { return Ok(()) };
        let removed = match rng.below(2) {
            0 => rows.iter().map(|(key, _)| from.remove(key).map(u64::from)).sum::<Result<u64>>()?,
            _ => from.remove_range(&low[..]..=&last[..])?,
        };
        assert_eq!(removed, rows.len() as u64);
        self.add(rng, &to, sum(rows.into_iter().map(Ok))?)
    }

    /// One of each of many rows.
    fn collect(&self, rng: &mut Rng, tx: &Transaction) -> Result<()> {
        let [from, to] = [0; 2].map(|_| tx.bytes(&self.tables[rng.below(TABLES.len())]));
        let keys: Vec<_> = (0..rng.below(12)).map(|_| self.key(rng)).collect();
        let mut collected = 0;
        from.multi_modify(&keys, |row| {
            if let Some(before) = row {
                *row = Some(value(rng, amount(Some(before)).wrapping_sub(1)));
                collected += 1;
            }
            ControlFlow::Continue(())
        })?;
        self.add(rng, &to, collected)
    }

    /// What it changes does not stay.
    fn take_back(&self, rng: &mut Rng, tx: &Transaction) -> Result<()> {
        let rows = tx.bytes(&self.tables[rng.below(TABLES.len())]);
        let before = tx.savepoint()?;
        let mut change = || match rng.below(3) {
            0 => rows.put(&self.key(rng), &value(rng, 99)),
            1 => rows.remove_range(&self.bounds(rng)[0][..]..).map(drop),
            _ => {
                let many: Vec<_> = (0..rng.below(20)).map(|_| (self.key(rng), value(rng, 77))).collect();
                rows.put_many(&many)
            }
        };
        match (0..3).try_for_each(|_| change()) {
            Ok(()) => tx.rollback_to(before),
            Err(refused @ (Error::LockTimeout { .. } | Error::Full { .. })) => match tx.rollback_to(before) {
                Err(Error::Ended) => Err(refused), // why it has ended was told there
                undone => undone,
            },
            lost => lost,
        }
    }

    /// What others do meanwhile.
    fn look_after(&self, rng: &mut Rng) -> Result<()> {
        match rng.below(20) {
            0 => self.db.checkpoint(),
            1 => self.db.check().map(drop),
            2 => self.back_up(),
            3 => {
                let more = [u64::MAX, self.disk.used_bytes() + 4096 * rng.below(30) as u64];
                self.disk.set_capacity(more[rng.below(2)]);
                Ok(())
            }
            4..8 => {
                let running = self.db.transactions();
                running.get(rng.below(running.len())).map_or(Ok(()), |one| self.db.abort(*one).map(drop))
            }
            8..12 => self.db.recover().iter().try_for_each(|gid| match rng.below(2) {
                0 => self.db.commit_prepared(gid),
                _ => self.db.rollback_prepared(gid),
            }),
            _ => {
                let snapshot = self.db.snapshot()?;
                let sums = self.tables.iter().map(|table| match rng.below(2) {
                    0 => sum(snapshot.bytes(table).range(..)),
                    _ => sum(snapshot.bytes(table).range(..).rev()),
                });
                let sums = sums.collect::<Result<Vec<_>>>()?;
                assert_eq!(sums.into_iter().fold(0, u64::wrapping_add), TOTAL, "in a snapshot");
                Ok(())
            }
        }
    }

    fn back_up(&self) -> Result<()> {
        let copy = SimDisk::new(1);
        self.db.backup_on(Arc::new(copy.clone()), |_| {})?;
        assert_eq!(total(&options().open_on(Arc::new(copy))?), TOTAL, "in a backup");
        Ok(())
    }

    /// Does the same again and again, until a crash.
    fn repeat(&self, what: &str, mut step: impl FnMut() -> Result<()>) {
        for _ in 0..PER_THREAD {
            match step() {
                Ok(()) => {}
                Err(
                    Error::Deadlock { .. }
                    | Error::LockTimeout { .. }
                    | Error::Aborted { .. }
                    | Error::Full { .. },
                ) => {}
                Err(_) if self.disk.is_crashed() => return,
                Err(e) => panic!("{what}: {e:?}"),
            }
        }
    }
}

fn lives(&seed: &u64) {
    let mut rng = Rng(seed);
    let mut disk = SimDisk::new(seed);
    let (keys, gids) = ([10, 40, 200][rng.below(3)], AtomicUsize::new(0));
    let threads = 2 + rng.below(2);
    for life in 0..LIVES {
        let what = format!("FORESHORE_SEED={seed} FORESHORE_ROUNDS=1, life {life}");
        let db = options().open_on(Arc::new(disk.clone())).unwrap_or_else(|e| panic!("{what}: {e}"));
        db.check().unwrap_or_else(|e| panic!("{what}: {e}"));
        let tables = tables(&db);
        if life == 0 {
            tables[0].put(b"0000", &value(&mut rng, TOTAL)).unwrap();
        }
        assert_eq!(total(&db), TOTAL, "{what}");
        disk.crash_at(disk.events() + 1 + rng.below(EVENTS_MAX) as u64);
        let world = World { db: &db, disk: &disk, tables: &tables, keys, gids: &gids };
        thread::scope(|scope| {
            let (world, what) = (&world, &what);
            for mut rng in (0..threads).map(|_| Rng(rng.next())) {
                scope.spawn(move || world.repeat(what, || world.transact(&mut rng)));
            }
            let mut rng = Rng(rng.next());
            scope.spawn(move || world.repeat(what, || world.look_after(&mut rng)));
        });
        let next = disk.after_crash([Crash::PowerLoss, Crash::ProcessKill][rng.below(2)], rng.next());
        drop((tables, db));
        disk = next;
        disk.set_capacity(u64::MAX);
    }
}

#[test]
fn nothing_is_gained_or_lost() {
    let seed = env("FORESHORE_SEED", 1);
    let rounds = env("FORESHORE_ROUNDS", 4);
    in_parallel(&(seed..seed + rounds).collect::<Vec<_>>(), lives);
}
