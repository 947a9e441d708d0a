//! Tables come and go beside everything else: transactions with savepoints, prepared ones, large values, cursors, snapshots,
//! checks, backups, aborts.
//!
//! Every transaction changes rows in pairs, the same value under `a…` and `b…` of one table; whatever a reader sees at one
//! moment, the halves are equal.
//!
//! `FORESHORE_SEED` chooses the seed, `FORESHORE_ROUNDS` how many databases.

mod common;

use common::{Rng, env, tiny};
use foreshore::{ByteTable, Database, Durability, Error, Result, Transaction, TransactionOptions};
use foreshore_io::MemVfs;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

const NAMES: [&str; 4] = ["ash", "birch", "cedar", "dogwood"];
const PAIRS: usize = 40;
/// One drops tables, one reads snapshots, one checks, aborts and makes backups, the others change rows.
const THREADS: usize = 7;
const LIFE: Duration = Duration::from_millis(2500);
/// No step takes as long: no transaction waits for longer than a moment, so no drop does.
const PATIENCE: Duration = Duration::from_secs(9);

type Row = (Vec<u8>, Vec<u8>);

fn options() -> foreshore::Builder {
    tiny().durability(Durability::Relaxed).log_bytes(256 << 10)
}

fn key(half: u8, pair: usize) -> Vec<u8> {
    let mut key = vec![half];
    key.extend(format!("{pair:04}").into_bytes());
    key
}

fn value(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(20) {
        0 => 3000 + rng.below(20_000), // in chunks
        1..5 => 200 + rng.below(600),
        _ => rng.below(60),
    };
    rng.bytes(len)
}

/// Both halves of a table hold the same.
fn ensure_paired(rows: impl Iterator<Item = Result<Row>>, what: &str) -> Result<()> {
    let mut halves = BTreeMap::<Vec<u8>, [Option<Vec<u8>>; 2]>::new();
    for row in rows {
        let (key, value) = row?;
        halves.entry(key[1..].to_vec()).or_default()[usize::from(key[0] == b'b')] = Some(value);
    }
    for (pair, [a, b]) in halves {
        assert!(
            a == b,
            "{what}: pair {} differs: {:?} {:?}",
            pair.escape_ascii(),
            a.map(|a| a.len()),
            b.map(|b| b.len())
        );
    }
    Ok(())
}

fn change(tx: &Transaction, table: &ByteTable, rng: &mut Rng) -> Result<()> {
    let rows = tx.bytes(table);
    match rng.below(8) {
        0 => {
            let from = rng.below(PAIRS);
            let to = from + rng.below(8);
            for half in [b'a', b'b'] {
                rows.remove_range(key(half, from)..key(half, to))?;
            }
        }
        1 | 2 => {
            let from = rng.below(PAIRS);
            let values: Vec<_> = (0..rng.below(40)).map(|_| value(rng)).collect();
            let batch: Vec<_> = values
                .iter()
                .enumerate()
                .flat_map(|(i, value)| {
                    [b'a', b'b'].map(|half| (key(half, (from + i * i) % PAIRS), value.clone()))
                })
                .collect();
            rows.put_many(&batch)?;
        }
        3 => {
            let pair = rng.below(PAIRS);
            for half in [b'b', b'a'] {
                rows.remove(&key(half, pair))?;
            }
        }
        4 => ensure_paired(rows.range(..), "transaction")?,
        _ => {
            let (pair, value) = (rng.below(PAIRS), value(rng));
            for half in [b'a', b'b'] {
                rows.put(&key(half, pair), &value)?;
            }
        }
    }
    Ok(())
}

fn transact(db: &Database, rng: &mut Rng, gids: &AtomicU64) -> Result<()> {
    let mut options = TransactionOptions::new().lock_timeout(Duration::from_millis(rng.below(300) as u64));
    if rng.below(8) == 0 {
        options = options.idle_timeout(Duration::from_millis(1));
    }
    let tx = db.begin_with(options)?;
    for _ in 0..1 + rng.below(4) {
        let table = db.byte_table(NAMES[rng.below(NAMES.len())])?;
        let before = tx.savepoint()?;
        let changed = change(&tx, &table, rng);
        if changed.is_err() || rng.below(4) == 0 {
            tx.rollback_to(before)?;
        }
        if rng.below(30) == 0 {
            thread::sleep(Duration::from_millis(rng.below(120) as u64));
        }
    }
    match rng.below(6) {
        0 => tx.rollback(),
        1 => {
            let gid = gids.fetch_add(1, Relaxed).to_be_bytes();
            tx.prepare(gid)?;
            thread::sleep(Duration::from_millis(rng.below(20) as u64));
            if rng.below(2) == 0 { db.commit_prepared(gid) } else { db.rollback_prepared(gid) }
        }
        _ => tx.commit(),
    }
}

/// What may happen to who is not alone.
fn is_usual(error: &Error) -> bool {
    matches!(
        error,
        Error::TableDropped { .. }
            | Error::Deadlock { .. }
            | Error::LockTimeout { .. }
            | Error::Aborted { .. }
    )
}

fn step(db: &Database, role: usize, rng: &mut Rng, gids: &AtomicU64) -> Result<()> {
    match role {
        0 => {
            thread::sleep(Duration::from_millis(rng.below(30) as u64));
            let name = NAMES[rng.below(NAMES.len())];
            db.drop_table(name).map(drop)
        }
        1 => {
            let snapshot = db.snapshot()?;
            let table = db.byte_table(NAMES[rng.below(NAMES.len())])?;
            for _ in 0..3 {
                ensure_paired(snapshot.bytes(&table).range(..), "snapshot")?;
                ensure_paired(snapshot.bytes(&table).range(..).rev(), "snapshot, backwards")?;
                thread::sleep(Duration::from_millis(rng.below(10) as u64));
            }
            Ok(())
        }
        2 => {
            let done = look_after(db, rng);
            done.unwrap_or_else(|error| panic!("whatever tables come and go: {error}"));
            Ok(())
        }
        _ => transact(db, rng, gids),
    }
}

fn look_after(db: &Database, rng: &mut Rng) -> Result<()> {
    match rng.below(4) {
        0 => db.checkpoint(),
        1 => db.check().map(drop),
        2 => db
            .transactions()
            .into_iter()
            .filter(|_| rng.below(3) == 0)
            .try_for_each(|number| db.abort(number).map(drop)),
        _ => {
            let copy = Arc::new(MemVfs::new());
            db.backup_on(copy.clone(), |_| {})?;
            let copy = options().open_on(copy)?;
            for name in copy.tables()? {
                ensure_paired(copy.byte_table(&name)?.range(..), "backup")?;
            }
            copy.check().map(drop)
        }
    }
}

/// Threads with their roles do what they do for a while; how many steps.
fn live(db: &Database, seed: u64) -> u64 {
    let (stop, done, gids) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (stop, done, gids) = (&stop, &done, &gids);
            scope.spawn(move || {
                let mut rng = Rng(seed * 100 + thread as u64);
                while !stop.load(Relaxed) {
                    let begun = Instant::now();
                    let refused = step(db, thread, &mut rng, gids).err().filter(|error| !is_usual(error));
                    let took = begun.elapsed();
                    assert!(
                        refused.is_none() && took < PATIENCE,
                        "seed {seed}, thread {thread}: {refused:?} after {took:?}"
                    );
                    done.fetch_add(1, Relaxed);
                }
            });
        }
        thread::sleep(LIFE);
        stop.store(true, Relaxed);
    });
    done.into_inner()
}

fn content(db: &Database) -> BTreeMap<String, Vec<Row>> {
    db.tables()
        .unwrap()
        .into_iter()
        .map(|name| (name.clone(), common::rows(&db.byte_table(&name).unwrap())))
        .collect()
}

fn ensure_nothing_stray(db: &Database, seed: u64) {
    let report = db.check().unwrap();
    assert_eq!(report.stray_pages, 0, "seed {seed}: {report:?}");
    assert!(report.tables.iter().all(|table| table.large_stray == 0), "seed {seed}: {report:?}");
}

/// Whatever comes and goes, each table is whole to each reader, and nothing is left of those that went.
#[test]
fn tables_come_and_go() {
    let seed = env("FORESHORE_SEED", 1);
    for seed in seed..seed + env("FORESHORE_ROUNDS", 1) {
        println!("FORESHORE_SEED={seed}");
        let disk = Arc::new(MemVfs::new());
        let db = options().open_on(disk.clone()).unwrap();
        let done = live(&db, seed);
        println!("{done} steps, {} deadlocks", db.stats().deadlocks);
        for gid in db.recover() {
            db.rollback_prepared(gid).unwrap();
        }
        assert_eq!(db.transactions(), [0u64; 0], "seed {seed}");
        ensure_nothing_stray(&db, seed);
        let before = content(&db);
        db.close().unwrap();
        let db = options().open_on(disk).unwrap();
        assert!(content(&db) == before, "seed {seed}");
        ensure_nothing_stray(&db, seed);
        for (name, rows) in before {
            ensure_paired(rows.into_iter().map(Ok), &name).unwrap();
        }
    }
}

/// A table that is dropped while it is checked is no damage.
#[test]
fn a_check_passes_over_what_is_dropped_meanwhile() {
    let db = Database::in_memory().unwrap();
    let dropped = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..100 {
                let table = db.byte_table("t").unwrap();
                (0..100u8).for_each(|i| table.put(&[i], &[i; 20_000]).unwrap());
                db.drop_table("t").unwrap();
            }
            dropped.store(true, Relaxed);
        });
        while !dropped.load(Relaxed) {
            db.check().unwrap();
        }
    });
    assert_eq!(db.check().unwrap().stray_pages, 0);
}

/// A large value may come into use and go out of it again while it is checked.
#[test]
fn a_check_is_not_misled_by_values_that_are_replaced_meanwhile() {
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("t").unwrap();
    let replaced = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..20 {
                let _marks_stay = db.snapshot().unwrap();
                (0..100u8).for_each(|i| table.put(&[i % 3], &[i; 40_000]).unwrap());
            }
            replaced.store(true, Relaxed);
        });
        while !replaced.load(Relaxed) {
            db.check().unwrap();
        }
    });
}
