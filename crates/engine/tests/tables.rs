//! Tables come and go, and get other names, beside everything else: transactions with savepoints, prepared ones, large values, cursors, snapshots,
//! checks, backups, aborts.
//!
//! Every transaction changes rows in pairs, the same value under `a…` and `b…` of one table; whatever a reader sees at one
//! moment, the halves are equal.
//!
//! `FORESHORE_SEED` chooses the seed, `FORESHORE_ROUNDS` how many databases.

mod common;

use common::{Rng, env, rows, tiny};
use foreshore::{
    Builder, ByteTable, Database, Durability, Error, Index, Result, TableOptions, Transaction,
    TransactionOptions,
};
use foreshore_io::{MemVfs, SimDisk, sim::Crash};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

const NAMES: [&str; 4] = ["ash", "birch", "cedar", "dogwood"];
const PAIRS: usize = 40;
/// One drops and renames tables, one reads snapshots, one checks, aborts and makes backups, the others change rows.
const THREADS: usize = 7;
const DROPS: usize = 0;
const READS: usize = 1;
const LOOKS_AFTER: usize = 2;
/// No step takes as long, however busy the machine.
const PATIENCE: Duration = Duration::from_secs(60);

type Row = (Vec<u8>, Vec<u8>);

fn options() -> Builder {
    // A log buffer for the largest leaves below, and now and then too little memory for what snapshots see.
    let options = tiny().durability(Durability::Relaxed).ring_bytes(256 << 10).log_bytes(256 << 10);
    options.old_version_bytes(200 << 10)
}

/// The table of this name; if it is made, with an index and leaves of any kind.
fn table(db: &Database, rng: &mut Rng) -> Result<ByteTable> {
    let index = Index::ALL[rng.below(Index::ALL.len())];
    let options = TableOptions::new().index(index).leaf_bytes(4096 << rng.below(3));
    db.byte_table_with(NAMES[rng.below(NAMES.len())], options)
}

fn key(half: u8, pair: usize) -> Vec<u8> {
    let mut key = vec![half];
    key.extend(format!("{pair:04}").into_bytes());
    key
}

fn value(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(40) {
        0 => 70_000 + rng.below(50_000),   // in an extent
        1 | 2 => 3000 + rng.below(20_000), // in chunks
        3..10 => 200 + rng.below(600),
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
        let table = table(db, rng)?;
        let before = tx.savepoint()?;
        let changed = change(&tx, &table, rng);
        if changed.is_err() || rng.below(4) == 0 {
            match tx.rollback_to(before) {
                Err(Error::Ended) if changed.is_err() => return changed, // why it has ended was told there
                undone => undone?,
            }
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

fn step(db: &Database, role: usize, rng: &mut Rng, gids: &AtomicU64) -> Result<()> {
    match role {
        DROPS => {
            thread::sleep(Duration::from_millis(rng.below(30) as u64));
            let [name, other] = [(); 2].map(|()| NAMES[rng.below(NAMES.len())]);
            if rng.below(2) == 0 {
                return db.drop_table(name).map(drop);
            }
            match db.rename_table(name, other) {
                Err(Error::Argument(_)) => Ok(()), // there is another one of that name
                renamed => renamed.map(drop),
            }
        }
        READS => {
            let snapshot = db.snapshot()?;
            let table = table(db, rng)?;
            for _ in 0..3 {
                ensure_paired(snapshot.bytes(&table).range(..), "snapshot")?;
                ensure_paired(snapshot.bytes(&table).range(..).rev(), "snapshot, backwards")?;
                thread::sleep(Duration::from_millis(rng.below(10) as u64));
            }
            Ok(())
        }
        LOOKS_AFTER => look_after(db, rng),
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

/// May this happen to who is not alone?
fn is_usual(role: usize, error: &Error) -> bool {
    match error {
        Error::TableDropped { .. } => role != LOOKS_AFTER,
        Error::SnapshotTooOld
        | Error::Deadlock { .. }
        | Error::LockTimeout { .. }
        | Error::Aborted { .. } => true,
        _ => false,
    }
}

/// Threads with their roles do what they do until `meanwhile` ends. What else may be told to them is `expected`.
fn live(db: &Database, seed: u64, expected: fn(&Error) -> bool, meanwhile: impl FnOnce()) {
    let (stop, gids) = (AtomicBool::new(false), AtomicU64::new(seed << 32));
    thread::scope(|scope| {
        for role in 0..THREADS {
            let (stop, gids) = (&stop, &gids);
            scope.spawn(move || {
                let mut rng = Rng(seed * 100 + role as u64);
                while !stop.load(Relaxed) {
                    let begun = Instant::now();
                    let refused = step(db, role, &mut rng, gids).err();
                    let refused = refused.filter(|error| !is_usual(role, error) && !expected(error));
                    let took = begun.elapsed();
                    assert!(
                        refused.is_none() && took < PATIENCE,
                        "seed {seed}, role {role}: {refused:?} after {took:?}"
                    );
                }
            });
        }
        meanwhile();
        stop.store(true, Relaxed);
    });
}

fn content(db: &Database) -> BTreeMap<String, Vec<Row>> {
    db.tables()
        .unwrap()
        .into_iter()
        .map(|name| (name.clone(), common::rows(&db.byte_table(&name).unwrap())))
        .collect()
}

/// Whoever prepared hears what to do; then all is whole, and nothing is left of what went.
fn ensure_whole(db: &Database, rng: &mut Rng, what: &str) {
    for gid in db.recover() {
        let decided = if rng.below(2) == 0 { db.commit_prepared(gid) } else { db.rollback_prepared(gid) };
        decided.unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    assert_eq!(db.stats().transactions, 0, "{what}");
    let report = db.check().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(report.stray_pages, 0, "{what}: {report:?}");
    assert!(report.tables.iter().all(|table| table.large_stray == 0), "{what}: {report:?}");
    for (name, rows) in content(db) {
        ensure_paired(rows.into_iter().map(Ok), &format!("{what}, table {name}")).unwrap();
    }
}

fn rounds(name: &str, round: impl Fn(u64)) {
    let seed = env("FORESHORE_SEED", 1);
    for seed in seed..seed + env("FORESHORE_ROUNDS", 1) {
        println!("{name}: FORESHORE_SEED={seed}");
        round(seed);
    }
}

/// Whatever comes and goes, each table is whole to each reader, and nothing is left of those that went.
#[test]
fn tables_come_and_go() {
    rounds("tables_come_and_go", |seed| {
        let disk = Arc::new(MemVfs::new());
        let db = options().open_on(disk.clone()).unwrap();
        live(&db, seed, |_| false, || thread::sleep(Duration::from_millis(2500)));
        ensure_whole(&db, &mut Rng(seed), &format!("seed {seed}"));
        let before = content(&db);
        db.close().unwrap();
        let db = options().open_on(disk).unwrap();
        assert!(content(&db) == before, "seed {seed}");
        ensure_whole(&db, &mut Rng(seed), &format!("seed {seed}, opened again"));
    });
}

/// So it is after a crash.
#[test]
fn a_crash_leaves_whole_tables() {
    rounds("a_crash_leaves_whole_tables", |seed| {
        let (mut rng, mut disk) = (Rng(seed), SimDisk::new(seed));
        for life in 0..6 {
            let what = format!("seed {seed}, life {life}");
            let db =
                options().open_on(Arc::new(disk.clone())).unwrap_or_else(|error| panic!("{what}: {error}"));
            ensure_whole(&db, &mut rng, &what);
            let crash = || {
                thread::sleep(Duration::from_millis(rng.below(400) as u64));
                disk.crash();
                db.checkpoint().unwrap_err(); // so that everybody hears of it
            };
            let failed = |error: &Error| matches!(error, Error::Io { .. } | Error::Poisoned { .. });
            live(&db, seed * 10 + life, failed, crash);
            drop(db);
            let kind = if rng.below(2) == 0 { Crash::PowerLoss } else { Crash::ProcessKill };
            disk = disk.after_crash(kind, rng.next());
        }
    });
}

/// And when the disk is full now and then.
#[test]
fn a_full_disk_leaves_whole_tables() {
    rounds("a_full_disk_leaves_whole_tables", |seed| {
        let (mut rng, disk) = (Rng(seed), SimDisk::new(seed));
        let db = options().open_on(Arc::new(disk.clone())).unwrap();
        let fill = || {
            for _ in 0..10 {
                thread::sleep(Duration::from_millis(rng.below(100) as u64));
                disk.set_capacity(disk.used_bytes() + rng.below(200_000) as u64);
                thread::sleep(Duration::from_millis(rng.below(300) as u64));
                disk.set_capacity(u64::MAX);
            }
        };
        live(&db, seed, |error| matches!(error, Error::Full { .. }), fill);
        let begun = Instant::now();
        while db.stats().transactions > db.recover().len() as u64 {
            assert!(begun.elapsed() < PATIENCE, "seed {seed}: rollbacks go on when there is space");
            thread::sleep(Duration::from_millis(20));
        }
        ensure_whole(&db, &mut rng, &format!("seed {seed}"));
        let before = content(&db);
        db.close().unwrap();
        let db = options().open_on(Arc::new(disk)).unwrap();
        assert!(content(&db) == before, "seed {seed}");
        ensure_whole(&db, &mut rng, &format!("seed {seed}, opened again"));
    });
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

/// Single writes, which keep no table from being dropped, may be in the middle of a split or a merge: all leaves go, in memory or not,
/// and none of another table.
#[test]
fn a_table_is_dropped_beside_single_writes() {
    let db = options().open_on(Arc::new(MemVfs::new())).unwrap();
    let stays = db.byte_table("stays").unwrap();
    (0..1000_u32).for_each(|row| stays.put(&row.to_be_bytes(), &[7; 300]).unwrap());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 0..3 {
            let (db, done) = (&db, &done);
            scope.spawn(move || {
                let mut rng = Rng(seed);
                while !done.load(Relaxed) {
                    let table = db.byte_table("t").unwrap();
                    let from = rng.below(2000) as u32;
                    let rows = (from..from + 60).map(|row| row.to_be_bytes());
                    let write = |row: [u8; 4], puts| match puts {
                        true => table.put(&row, &[1; 300]).map(drop),
                        false => table.remove(&row).map(drop),
                    };
                    let puts = rng.below(3) > 0;
                    let refused = { rows }.find_map(|row| write(row, puts).err());
                    assert!(matches!(refused, None | Some(Error::TableDropped { .. })), "{refused:?}");
                }
            });
        }
        for _ in 0..env("FORESHORE_ROUNDS", 12) {
            thread::sleep(Duration::from_millis(20));
            assert!(
                stays.range(..).rev().step_by(50).map(Result::unwrap).all(|(_, value)| value == [7; 300])
            );
            db.drop_table("t").unwrap();
        }
        done.store(true, Relaxed);
    });
    db.drop_table("t").unwrap();
    let report = db.check().unwrap();
    assert_eq!((report.stray_pages, rows(&stays).len()), (0, 1000), "{report:?}");
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
