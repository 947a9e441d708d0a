//! The database on a simulated disk that crashes at every write, sync, creation and removal.
//!
//! Each workload is a sequence of operations per thread over the thread's own keys. It is run once without a crash to
//! count its I/O events, and then again for each of them, crashing there; unsynced sectors are lost, kept, torn and
//! reordered by seed. What is found after reopening must be the state after the first `j` operations of each thread,
//! where `j` is at least the number acknowledged in a way that the crash must respect, and at most the number begun.
//!
//! `FORESHORE_SEED` chooses the seed, `FORESHORE_ROUNDS` how many crashes per workload and kind (default: enough for CI).

mod common;

use common::{Rng, env, in_parallel, tiny};
use foreshore::Durability::{Buffered, Relaxed, Sync};
use foreshore::{Builder, Database, Durability, Error, Index};
use foreshore_io::SimDisk;
use foreshore_io::sim::{Crash, Event, EventKind};
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// One step of a thread. Keys get the thread's number in front, so threads do not meet in rows, only in leaves.
#[derive(Clone, Debug)]
enum Op {
    Put(Vec<u8>, Vec<u8>),
    Insert(Vec<u8>, Vec<u8>),
    Remove(Vec<u8>),
    /// From the one key to before the other.
    RemoveRange(Vec<u8>, Vec<u8>),
    Checkpoint,
    Sync,
    /// Makes the thread's own second table, and one row in it, which lies in chunks.
    CreateTable,
    DropTable,
    BulkLoad(Vec<(Vec<u8>, Vec<u8>)>),
    /// Each row is a commit, and they are acknowledged together.
    PutMany(Vec<(Vec<u8>, Vec<u8>)>),
    /// All of these in one transaction, which ends like this.
    Transact(Vec<Step>, End),
}

/// One step of a transaction.
#[derive(Clone, Debug)]
enum Step {
    Put(Vec<u8>, Vec<u8>),
    PutMany(Vec<(Vec<u8>, Vec<u8>)>),
    Remove(Vec<u8>),
    RemoveRange(Vec<u8>, Vec<u8>),
    /// Writes uncommitted pages out.
    Checkpoint,
    Savepoint,
    /// Back to the last savepoint.
    RollBack,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Commit,
    RollBack,
    /// Stays open until its thread ends or the crash comes. Its keys are nobody else's.
    Never,
    PreparedCommit,
    PreparedRollBack,
}

struct Workload {
    name: &'static str,
    durability: Durability,
    threads: usize,
    ops: fn(&mut Rng) -> Vec<Op>,
}

const WORKLOADS: &[Workload] = &[
    workload("ascending puts", Sync, 1, ascending),
    workload("random puts", Sync, 1, random_puts),
    workload("random puts, buffered", Buffered, 1, random_puts),
    workload("random puts, relaxed", Relaxed, 1, random_puts),
    workload("many at a time", Sync, 2, many_at_a_time),
    workload("many at a time, buffered", Buffered, 1, many_at_a_time),
    workload("overwrites", Sync, 1, overwrites),
    workload("large values", Sync, 1, large_values),
    workload("long keys", Sync, 1, long_keys),
    workload("puts and removes", Sync, 1, puts_and_removes),
    workload("fill and empty", Buffered, 1, fill_and_empty),
    workload("checkpoints", Sync, 1, checkpoints),
    workload("checkpoints, buffered", Buffered, 1, checkpoints),
    workload("tables come and go", Sync, 1, tables),
    workload("transactions", Sync, 1, transactions),
    workload("transactions, buffered", Buffered, 2, transactions),
    workload("transactions that stay open", Sync, 2, open_transactions),
    workload("prepared transactions", Sync, 1, prepared_transactions),
    workload("values in chunks", Sync, 1, chunked),
    workload("values in chunks, in transactions", Buffered, 2, chunked_transactions),
    workload("values in extents", Sync, 2, in_extents),
    workload("values in extents, buffered", Buffered, 1, in_extents),
    workload("ranges removed", Sync, 1, ranges),
    workload("ranges removed, buffered", Buffered, 1, ranges),
    workload("bulk load", Sync, 1, bulk),
    workload("three writers", Sync, 3, puts_and_removes),
    workload("three writers, buffered", Buffered, 3, checkpoints),
];

const fn workload(
    name: &'static str,
    durability: Durability,
    threads: usize,
    ops: fn(&mut Rng) -> Vec<Op>,
) -> Workload {
    Workload { name, durability, threads, ops }
}

fn key(number: usize) -> Vec<u8> {
    format!("{number:06}").into_bytes()
}

fn ascending(rng: &mut Rng) -> Vec<Op> {
    (0..40).map(|i| Op::Put(key(i), rng.bytes(60))).collect()
}

fn random_puts(rng: &mut Rng) -> Vec<Op> {
    (0..40).map(|_| Op::Put(key(rng.below(100_000)), rng.bytes(70))).collect()
}

fn many_at_a_time(rng: &mut Rng) -> Vec<Op> {
    let row = |rng: &mut Rng| (key(rng.below(60)), rng.bytes(90));
    (0..8)
        .map(|i| match i {
            5 => Op::Checkpoint,
            _ => Op::PutMany((0..1 + rng.below(20)).map(|_| row(rng)).collect()),
        })
        .collect()
}

fn overwrites(rng: &mut Rng) -> Vec<Op> {
    (0..60)
        .map(|_| {
            let len = rng.below(200);
            Op::Put(key(rng.below(20)), rng.bytes(len))
        })
        .collect()
}

fn large_values(rng: &mut Rng) -> Vec<Op> {
    (0..12).map(|_| Op::Put(key(rng.below(1000)), rng.bytes(1024))).collect()
}

fn long_keys(rng: &mut Rng) -> Vec<Op> {
    let long = |rng: &mut Rng| {
        let mut key = vec![b'x'; 900];
        key.extend(rng.bytes(3));
        key
    };
    (0..20).map(|_| Op::Put(long(rng), rng.bytes(20))).collect()
}

fn puts_and_removes(rng: &mut Rng) -> Vec<Op> {
    (0..60)
        .map(|_| match rng.below(5) {
            0 | 1 => Op::Remove(key(rng.below(60))),
            2 => Op::Insert(key(rng.below(60)), rng.bytes(90)),
            _ => Op::Put(key(rng.below(60)), rng.bytes(100)),
        })
        .collect()
}

/// Splits on the way up, absorptions on the way down.
fn fill_and_empty(rng: &mut Rng) -> Vec<Op> {
    let n = 60;
    let fill = (0..n).map(|i| Op::Put(key(i * 7 % n), rng.bytes(120)));
    let mut ops: Vec<Op> = fill.collect();
    ops.extend((0..n).map(|i| Op::Remove(key(i))));
    ops.push(Op::Sync);
    ops
}

fn checkpoints(rng: &mut Rng) -> Vec<Op> {
    (0..50)
        .map(|i| match i % 10 {
            4 => Op::Checkpoint,
            7 => Op::Sync,
            _ if rng.below(4) == 0 => Op::Remove(key(rng.below(80))),
            _ => Op::Put(key(rng.below(80)), rng.bytes(150)),
        })
        .collect()
}

fn tables(rng: &mut Rng) -> Vec<Op> {
    (0..24)
        .map(|i| match i % 6 {
            1 => Op::CreateTable,
            3 => Op::Checkpoint,
            4 => Op::DropTable,
            _ => Op::Put(key(rng.below(80)), rng.bytes(150)),
        })
        .collect()
}

fn steps(rng: &mut Rng, first_key: usize, n: usize) -> Vec<Step> {
    steps_with(rng, first_key..first_key + 60, n, |rng| rng.below(200))
}

fn steps_with(rng: &mut Rng, keys: Range<usize>, n: usize, len: fn(&mut Rng) -> usize) -> Vec<Step> {
    let one = |rng: &mut Rng| key(keys.start + rng.below(keys.len()));
    (0..n)
        .map(|_| match rng.below(12) {
            0 => Step::Checkpoint,
            1 => Step::Savepoint,
            2 => Step::RollBack,
            3 | 4 => Step::Remove(one(rng)),
            5 | 6 => Step::PutMany(neighbours(rng, &keys, len)),
            _ => {
                let len = len(rng);
                Step::Put(one(rng), rng.bytes(len))
            }
        })
        .collect()
}

/// Up to eight rows with ascending keys, most of which follow each other.
fn neighbours(rng: &mut Rng, keys: &Range<usize>, len: fn(&mut Rng) -> usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let first = keys.start + rng.below(keys.len());
    let numbers = (first..keys.end).filter(|_| rng.below(8) > 0).take(8).collect::<Vec<_>>();
    let row = |number| {
        let len = len(rng);
        (key(number), rng.bytes(len))
    };
    numbers.into_iter().map(row).collect()
}

/// Whole values, and such as lie in one chunk or in several.
fn any_len(rng: &mut Rng) -> usize {
    match rng.below(3) {
        0 => rng.below(200),
        1 => 1020 + rng.below(10),
        _ => rng.below(9000),
    }
}

fn chunked(rng: &mut Rng) -> Vec<Op> {
    (0..16)
        .map(|i| match i % 8 {
            2 => Op::Remove(key(rng.below(4))),
            3 => Op::CreateTable,
            5 => Op::Checkpoint,
            6 => Op::DropTable,
            _ => {
                let len = any_len(rng);
                Op::Put(key(rng.below(4)), rng.bytes(len))
            }
        })
        .collect()
}

fn chunked_transactions(rng: &mut Rng) -> Vec<Op> {
    (0..10)
        .map(|i| {
            let end = [End::Commit, End::RollBack, End::PreparedCommit, End::Commit, End::PreparedRollBack];
            match i {
                4 => Op::Transact(steps_with(rng, 1000..1004, 4, any_len), End::Never),
                _ => Op::Transact(steps_with(rng, 0..5, 5, any_len), end[i % 5]),
            }
        })
        .collect()
}

/// Some of them in extents, which tables that go give back.
fn in_extents(rng: &mut Rng) -> Vec<Op> {
    let len = |rng: &mut Rng| if rng.below(2) == 0 { 67_000 + rng.below(9000) } else { any_len(rng) };
    (0..8)
        .map(|i| match i {
            2 => Op::CreateTable,
            5 => Op::DropTable,
            3 => Op::Transact(steps_with(rng, 0..3, 3, len), End::PreparedCommit),
            6 => Op::Transact(steps_with(rng, 0..3, 3, len), End::RollBack),
            _ => Op::Transact(steps_with(rng, 0..3, 2, len), End::Commit),
        })
        .collect()
}

fn transactions(rng: &mut Rng) -> Vec<Op> {
    (0..12)
        .map(|_| match rng.below(5) {
            0 => Op::Put(key(rng.below(60)), rng.bytes(90)),
            1 => Op::Transact(steps(rng, 0, 12), End::RollBack),
            _ => Op::Transact(steps(rng, 0, 12), End::Commit),
        })
        .collect()
}

fn open_transactions(rng: &mut Rng) -> Vec<Op> {
    (0..12)
        .map(|i| match i % 4 {
            0 => Op::Transact(steps(rng, 1000 * (i + 1), 20), End::Never),
            1 => Op::Checkpoint,
            _ => Op::Transact(steps(rng, 0, 8), End::Commit),
        })
        .collect()
}

fn prepared_transactions(rng: &mut Rng) -> Vec<Op> {
    (0..12)
        .map(|i| match i % 3 {
            0 => Op::Transact(steps(rng, 0, 8), End::PreparedCommit),
            1 => Op::Transact(steps(rng, 0, 8), End::PreparedRollBack),
            _ => Op::Put(key(rng.below(60)), rng.bytes(90)),
        })
        .collect()
}

fn ranges(rng: &mut Rng) -> Vec<Op> {
    let some = |rng: &mut Rng| {
        let from = rng.below(40);
        (key(from), key(from + rng.below(30)))
    };
    (0..12)
        .map(|i| match i % 4 {
            1 => {
                let (from, to) = some(rng);
                Op::RemoveRange(from, to)
            }
            3 => {
                let mut steps = steps_with(rng, 0..50, 6, any_len);
                let (from, to) = some(rng);
                steps.insert(rng.below(steps.len()), Step::RemoveRange(from, to));
                let end = [End::Commit, End::RollBack, End::PreparedCommit, End::PreparedRollBack];
                Op::Transact(steps, end[rng.below(end.len())])
            }
            _ => Op::PutMany((0..3).flat_map(|_| neighbours(rng, &(0..50), any_len)).collect()),
        })
        .collect()
}

fn bulk(rng: &mut Rng) -> Vec<Op> {
    let rows = |from: usize, rng: &mut Rng| (from..from + 60).map(|i| (key(i), rng.bytes(100))).collect();
    vec![
        Op::BulkLoad(rows(0, rng)),
        Op::Put(key(5), rng.bytes(30)),
        Op::Checkpoint,
        Op::BulkLoad(rows(500_000, rng)),
        Op::Remove(key(7)),
        Op::Sync,
    ]
}

/// How far a thread got.
#[derive(Default)]
struct Progress {
    begun: AtomicUsize,
    /// Operations that a crash of the machine must respect.
    durable: AtomicUsize,
    /// Operations that a crash of the process must respect.
    acknowledged: AtomicUsize,
}

/// The key space of one thread.
fn prefixed(thread: usize, key: &[u8]) -> Vec<u8> {
    let mut prefixed = vec![b'A' + thread as u8];
    prefixed.extend_from_slice(key);
    prefixed
}

fn second_table(thread: usize) -> String {
    format!("second-{thread}")
}

fn run_thread(
    db: &Database,
    disk: &SimDisk,
    thread: usize,
    ops: &[Op],
    durability: Durability,
    progress: &Progress,
) -> Result<(), Error> {
    let table = db.byte_table("rows")?;
    let mut open = Vec::new();
    for (i, op) in ops.iter().enumerate() {
        progress.begun.store(i + 1, SeqCst);
        match op {
            Op::Put(key, value) => table.put(&prefixed(thread, key), value)?,
            Op::Insert(key, value) => drop(table.insert(&prefixed(thread, key), value)?),
            Op::Remove(key) => drop(table.remove(&prefixed(thread, key))?),
            Op::RemoveRange(from, to) => {
                table.remove_range(prefixed(thread, from)..prefixed(thread, to))?;
            }
            Op::Checkpoint => db.checkpoint()?,
            Op::Sync => db.sync()?,
            Op::CreateTable => db.byte_table(&second_table(thread))?.put(b"row", &[7; 5000])?,
            Op::DropTable => drop(db.drop_table(&second_table(thread))?),
            Op::BulkLoad(rows) => {
                table.bulk_load(rows.iter().map(|(key, value)| (prefixed(thread, key), value)))?;
            }
            Op::PutMany(rows) => {
                let rows: Vec<_> = rows.iter().map(|(key, value)| (prefixed(thread, key), value)).collect();
                table.put_many(&rows)?;
            }
            Op::Transact(steps, end) => {
                let tx = db.begin()?;
                transact(db, &tx, &table, thread, steps)?;
                let gid = format!("{thread}-{i}-{end:?}");
                match end {
                    End::Commit => tx.commit()?,
                    End::RollBack => tx.rollback()?,
                    End::Never => open.push(tx),
                    End::PreparedCommit => {
                        tx.prepare(&gid)?;
                        db.commit_prepared(&gid)?;
                    }
                    End::PreparedRollBack => {
                        tx.prepare(&gid)?;
                        db.rollback_prepared(&gid)?;
                    }
                }
            }
        }
        // A dead process acknowledges nothing. Here it lives on, in memory, until its next I/O.
        if disk.is_crashed() {
            return Ok(());
        }
        progress.acknowledged.store(i + 1, SeqCst);
        if durability == Durability::Sync || matches!(op, Op::Sync | Op::Checkpoint) {
            progress.durable.store(i + 1, SeqCst);
        }
    }
    Ok(())
}

fn transact(
    db: &Database,
    tx: &foreshore::Transaction,
    table: &foreshore::ByteTable,
    thread: usize,
    steps: &[Step],
) -> Result<(), Error> {
    let rows = tx.bytes(table);
    let mut savepoint = tx.savepoint()?;
    for step in steps {
        match step {
            Step::Put(key, value) => rows.put(&prefixed(thread, key), value)?,
            Step::PutMany(many) => {
                rows.put_many(
                    &many.iter().map(|(key, value)| (prefixed(thread, key), value)).collect::<Vec<_>>(),
                )?;
            }
            Step::Remove(key) => drop(rows.remove(&prefixed(thread, key))?),
            Step::RemoveRange(from, to) => {
                rows.remove_range(prefixed(thread, from)..prefixed(thread, to))?;
            }
            Step::Checkpoint => db.checkpoint()?,
            Step::Savepoint => savepoint = tx.savepoint()?,
            Step::RollBack => tx.rollback_to(savepoint)?,
        }
    }
    Ok(())
}

/// What the steps of a transaction make of its thread's rows.
fn apply(rows: &mut Rows, thread: usize, steps: &[Step]) {
    let mut savepoint = rows.clone();
    for step in steps {
        match step {
            Step::Put(key, value) => drop(rows.insert(prefixed(thread, key), value.clone())),
            Step::PutMany(many) => {
                rows.extend(many.iter().map(|(key, value)| (prefixed(thread, key), value.clone())));
            }
            Step::Remove(key) => drop(rows.remove(&prefixed(thread, key))),
            Step::RemoveRange(from, to) => remove_range(rows, thread, from, to),
            Step::Checkpoint => {}
            Step::Savepoint => savepoint = rows.clone(),
            Step::RollBack => *rows = savepoint.clone(),
        }
    }
}

fn remove_range(rows: &mut Rows, thread: usize, from: &[u8], to: &[u8]) {
    let range = prefixed(thread, from)..prefixed(thread, to);
    rows.retain(|key, _| !range.contains(key));
}

/// Runs all threads until the end or the crash, which alone may be an error: what it is then is for the tests of errors.
fn run(db: &Database, disk: &SimDisk, ops: &[Vec<Op>], durability: Durability, progress: &[Progress]) {
    thread::scope(|scope| {
        for (thread, (ops, progress)) in ops.iter().zip(progress).enumerate() {
            scope.spawn(move || {
                let ran = run_thread(db, disk, thread, ops, durability, progress);
                assert!(ran.is_ok() || disk.is_crashed(), "thread {thread}: {ran:?}");
            });
        }
    });
}

/// What one thread's operations make of its rows, one state after another. Bulk loads and `put_many` are atomic only by
/// row: their states are many. The last part is the thread's second table: is it there, and has it its row?
fn states(thread: usize, ops: &[Op]) -> Vec<(usize, Rows, Option<bool>)> {
    let mut states = vec![(0, Rows::new(), None)];
    let (mut rows, mut second) = (Rows::new(), None);
    for (i, op) in ops.iter().enumerate() {
        match op {
            Op::Put(key, value) => drop(rows.insert(prefixed(thread, key), value.clone())),
            Op::Insert(key, value) => drop(rows.entry(prefixed(thread, key)).or_insert(value.clone())),
            Op::Remove(key) => drop(rows.remove(&prefixed(thread, key))),
            Op::RemoveRange(from, to) => remove_range(&mut rows, thread, from, to),
            Op::CreateTable => {
                if second.is_none() {
                    states.push((i, rows.clone(), Some(false))); // the table comes first
                }
                second = Some(true);
            }
            Op::DropTable => second = None,
            Op::Checkpoint | Op::Sync => {}
            Op::Transact(steps, End::Commit | End::PreparedCommit) => apply(&mut rows, thread, steps),
            Op::Transact(..) => {}
            Op::BulkLoad(more) | Op::PutMany(more) => {
                for (key, value) in more {
                    rows.insert(prefixed(thread, key), value.clone());
                    states.push((i, rows.clone(), second));
                }
            }
        }
        states.push((i + 1, rows.clone(), second));
    }
    states
}

/// The rows of one thread, and its second table, as found.
fn found(db: &Database, thread: usize) -> (Rows, Option<bool>) {
    let names = db.tables().unwrap();
    let rows = if names.iter().any(|name| name == "rows") {
        db.byte_table("rows").unwrap().prefix(&prefixed(thread, &[])).collect::<Result<Rows, _>>().unwrap()
    } else {
        Rows::new()
    };
    let second = names.contains(&second_table(thread)).then(|| {
        let row = db.byte_table(&second_table(thread)).unwrap().get(b"row").unwrap();
        assert!(row.as_ref().is_none_or(|row| *row == [7; 5000]), "a torn row");
        row.is_some()
    });
    (rows, second)
}

/// Is what was found one of the states allowed?
fn verify(db: &Database, ops: &[Vec<Op>], progress: &[Progress], kind: Crash, what: &str) {
    // Prepared transactions survive; what becomes of them is the coordinator's choice. Nobody was told of a commit, so
    // both are right; what was to be rolled back is.
    for gid in db.recover() {
        let commits = gid.ends_with(b"Commit") && gid.len() % 2 == 0;
        let told = if commits { db.commit_prepared(&gid) } else { db.rollback_prepared(&gid) };
        told.unwrap_or_else(|e| panic!("{what}: {}: {e}", gid.escape_ascii()));
    }
    let report = db.check().unwrap_or_else(|e| panic!("{what}: {e}"));
    let stray: u64 = report.tables.iter().map(|table| table.large_stray).sum();
    assert_eq!(stray, 0, "{what}: large values that no row refers to will stay for ever");
    for (thread, (ops, progress)) in ops.iter().zip(progress).enumerate() {
        let least = match kind {
            Crash::ProcessKill => progress.acknowledged.load(SeqCst),
            Crash::PowerLoss => progress.durable.load(SeqCst),
        };
        let most = progress.begun.load(SeqCst);
        let (rows, second) = found(db, thread);
        let fits = states(thread, ops).into_iter().any(|(done, state, has_second)| {
            (least..=most).contains(&done) && state == rows && has_second == second
        });
        assert!(
            fits,
            "{what}: thread {thread} found {} rows (second table: {second:?}), which is no state between operation {least} \
             and {most}",
            rows.len()
        );
    }
}

/// Tables get another index from crash to crash: none is logged, so what a crash leaves does not depend on it.
fn options(workload: &Workload, at: u64) -> Builder {
    tiny().durability(workload.durability).index(Index::ALL[at as usize % Index::ALL.len()])
}

/// One crash: the workload on a fresh disk until event `at`, the crash, the reopening, and for each of `again` one more
/// crash, at that event of the reopening before.
fn crash_once(workload: &Workload, seed: u64, at: u64, kind: Crash, again: &[(Crash, u64)]) {
    let what = format!("{:?}, seed {seed}, event {at}, {kind:?}, then {again:?}", workload.name);
    let ops: Vec<_> = (0..workload.threads).map(|t| (workload.ops)(&mut Rng(seed + t as u64))).collect();
    let progress: Vec<_> = ops.iter().map(|_| Progress::default()).collect();
    let disk = SimDisk::new(seed);
    disk.crash_at(at);
    match options(workload, at).open_on(Arc::new(disk.clone())) {
        Ok(db) => run(&db, &disk, &ops, workload.durability, &progress),
        Err(error) => assert!(disk.is_crashed(), "{what}: {error}"),
    }
    let mut disk = disk.after_crash(kind, seed ^ at);
    let mut weakest = kind;
    for &(kind_again, again) in again {
        disk.crash_at(disk.events() + again);
        if let Ok(db) = options(workload, at).open_on(Arc::new(disk.clone())) {
            let what = format!("{what}, before the crash at event {again}");
            let seen = panic::catch_unwind(AssertUnwindSafe(|| verify(&db, &ops, &progress, weakest, &what)));
            // What was begun at the opening may go on, and the crash may come while we look.
            if let Err(wrong) = seen
                && !disk.is_crashed()
            {
                panic::resume_unwind(wrong);
            }
        }
        disk = disk.after_crash(kind_again, seed ^ at ^ again << 20);
        if kind_again == Crash::PowerLoss {
            weakest = kind_again; // What only a process had promised may go before recovery has made it durable.
        }
    }
    let db = options(workload, at)
        .open_on(Arc::new(disk.clone()))
        .unwrap_or_else(|e| panic!("{what}: reopening: {e}"));
    verify(&db, &ops, &progress, weakest, &what);
    db.close().unwrap_or_else(|e| panic!("{what}: closing: {e}"));
    let db = options(workload, at)
        .open_on(Arc::new(disk.clone()))
        .unwrap_or_else(|e| panic!("{what}: clean reopening: {e}"));
    verify(&db, &ops, &progress, weakest, &format!("{what}, after a clean close"));
}

/// Events of a run without a crash.
fn events_of(workload: &Workload, seed: u64) -> u64 {
    let ops: Vec<_> = (0..workload.threads).map(|t| (workload.ops)(&mut Rng(seed + t as u64))).collect();
    let progress: Vec<_> = ops.iter().map(|_| Progress::default()).collect();
    let disk = SimDisk::new(seed);
    let db = tiny().durability(workload.durability).open_on(Arc::new(disk.clone())).unwrap();
    run(&db, &disk, &ops, workload.durability, &progress);
    db.close().unwrap();
    disk.events()
}

/// Acknowledged ⊆ recovered ⊆ attempted, at every I/O event of every workload, for both kinds of crash.
#[test]
fn every_crash_point_recovers() {
    let seed = env("FORESHORE_SEED", 1);
    let rounds = env("FORESHORE_ROUNDS", 120);
    let mut jobs = Vec::new();
    for workload in WORKLOADS {
        let events = events_of(workload, seed);
        // All events where they are few, evenly spread ones where they are many.
        let step = (events as f64 / rounds as f64).max(1.0);
        for kind in [Crash::PowerLoss, Crash::ProcessKill] {
            jobs.extend((0..rounds.min(events)).map(|i| (workload, kind, (i as f64 * step) as u64 + 1)));
        }
    }
    in_parallel(&jobs, |(workload, kind, at)| crash_once(workload, seed, *at, *kind, &[]));
    println!("{} crash states, seed {seed}", jobs.len());
}

/// Recovery itself may crash, at any of its events, and so may the next ones.
#[test]
fn crashes_during_recovery_recover() {
    let seed = env("FORESHORE_SEED", 1);
    let rounds = env("FORESHORE_ROUNDS", 120) as usize / 2;
    let mut jobs = Vec::new();
    for workload in WORKLOADS {
        let mut rng = Rng(seed);
        let events = events_of(workload, seed) as usize;
        for i in 0..rounds {
            let kind = |i: usize| if i.is_multiple_of(2) { Crash::ProcessKill } else { Crash::PowerLoss };
            jobs.push((
                workload,
                kind(i),
                rng.below(events) as u64 + 1,
                (0..1 + i / 8 % 3)
                    .map(|n| (kind(i >> (n + 1)), rng.below(30) as u64 + 1))
                    .collect::<Vec<_>>(),
            ));
        }
    }
    in_parallel(&jobs, |(workload, kind, at, again)| {
        crash_once(workload, seed, *at, *kind, again);
    });
    println!(
        "{} crashes during recovery, seed {seed}",
        jobs.iter().map(|(.., again)| again.len()).sum::<usize>()
    );
}

/// Waits until the segment has its name, durably.
fn wait_for_segment(disk: &SimDisk, name: &str) {
    let named = |event: &Event| matches!(&event.kind, EventKind::Rename { to } if to == name);
    let settled = || {
        let trace = disk.trace();
        let from = trace.iter().position(named)?;
        trace[from..].iter().find(|event| event.kind == EventKind::SyncDir).map(|_| ())
    };
    while settled().is_none() {
        thread::yield_now();
    }
}

/// The end of the log may be told by a pad that only the ring holds, while the record before it is in the segments: the
/// disk had lost a sector of a file that was written before, and the system had not written all of the ring.
#[test]
fn a_pad_that_only_the_ring_holds_is_repaired() {
    let disk = SimDisk::new(5);
    disk.start_trace();
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    db.sync().unwrap();
    let relaxed = table.with_durability(Durability::Relaxed);
    (0..5u8).for_each(|i| relaxed.put(&[i], &[i; 950]).unwrap());
    wait_for_segment(&disk, "wal-0000000000000002"); // the last one made ahead: from here on, only the log writes
    disk.crash_at(disk.events() + 1); // the sync of the two blocks that hold these rows, and a pad
    db.sync().unwrap_err();
    let disk = disk.after_crash(Crash::ProcessKill, 1);
    drop((table, relaxed, db));
    let mut at = 0;
    disk.corrupt("ring", |ring| {
        at = ring.iter().position(|byte| *byte != 0).unwrap() / 4096 * 4096;
        ring[at..at + 4096].fill(0);
    });
    disk.corrupt("wal-0000000000000000", |log| log[at + 8192 - 512..at + 8192].fill(0xAA));

    // The first life after it, and two that find what it and they have left.
    let mut disk = disk;
    for life in 0..3 {
        let db = tiny().open_on(Arc::new(disk.clone())).unwrap_or_else(|e| panic!("life {life}: {e}"));
        assert_eq!(db.byte_table("t").unwrap().range(..).count(), 5, "life {life}");
        disk = disk.after_crash(Crash::PowerLoss, life);
    }
}
