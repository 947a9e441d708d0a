//! A backup shows one committed point, harms nobody, and is a database only when it is complete.
//!
//! The disks of source and copy are simulated, and crash at every write, sync, creation and rename of a backup.
//! `FORESHORE_SEED` chooses the seed.

mod common;

use common::{Rng, env, tiny};
use foreshore::{Copied, Database, Error, Result};
use foreshore_io::{
    SimDisk, Vfs,
    sim::{Call, Crash, Fault, Intercepted, Repeat},
};
use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;
type Tables = BTreeMap<String, Rows>;

fn open(disk: &SimDisk) -> Result<Database> {
    tiny().open_on(Arc::new(disk.clone()))
}

fn backup(db: &Database, disk: &SimDisk) -> Result<Copied> {
    db.backup_on(Arc::new(disk.clone()), |_| {})
}

/// All rows of all tables.
fn content(db: &Database) -> Tables {
    let rows = |name: &String| db.byte_table(name)?.range(..).collect::<Result<Rows>>();
    let tables = db.tables().unwrap().into_iter();
    tables.map(|name| (name.clone(), rows(&name).unwrap())).collect()
}

/// A database of three tables: hundreds of rows in random order with holes, a few large ones, and none.
fn filled(seed: u64) -> (SimDisk, Database) {
    let disk = SimDisk::new(seed);
    let db = open(&disk).unwrap();
    let mut rng = Rng(seed);
    let many = db.byte_table("many").unwrap();
    for _ in 0..600 {
        let (key, len) = (rng.below(1000).to_be_bytes(), rng.below(100));
        many.put(&key, &rng.bytes(len)).unwrap();
    }
    for _ in 0..100 {
        many.remove(&rng.below(1000).to_be_bytes()).unwrap();
    }
    let large = db.byte_table("large").unwrap();
    for i in 0..12u8 {
        large.put(&[i; 700], &rng.bytes(1024)).unwrap();
    }
    large.put(b"", b"the empty key").unwrap();
    db.byte_table("empty").unwrap();
    (disk, db)
}

/// The copy has the same tables and rows, is in order, can be written, and copied back.
#[test]
fn a_copy_is_a_database_like_its_source() {
    let seed = env("FORESHORE_SEED", 1);
    let (_, db) = filled(seed);
    let (disk, mut calls) = (SimDisk::new(seed), Vec::new());
    let copied = db.backup_on(Arc::new(disk.clone()), |so_far| calls.push(so_far.clone())).unwrap();
    let expected = content(&db);
    assert_eq!(copied.tables, 3);
    assert_eq!(copied.rows, expected.values().map(|rows| rows.len() as u64).sum::<u64>());
    assert_eq!(calls.last(), Some(&copied), "the last call tells the end");
    assert!(calls.iter().map(|call| call.tables).eq(1..=3), "{calls:?}");

    let copy = open(&disk.after_crash(Crash::PowerLoss, seed)).unwrap();
    copy.check().unwrap();
    assert_eq!(content(&copy), expected);
    copy.byte_table("many").unwrap().put(b"new", b"row").unwrap();
    let back = SimDisk::new(seed + 1);
    backup(&copy, &back).unwrap();
    assert_eq!(content(&open(&back).unwrap()), content(&copy));
    assert_eq!(content(&db), expected, "the source has not changed");
}

/// What has not committed is not there, prepared or not, and goes on afterwards.
#[test]
fn unfinished_transactions_are_left_out() {
    let (_, db) = filled(1);
    let expected = content(&db);
    let table = db.byte_table("many").unwrap();
    let (running, prepared) = (db.begin().unwrap(), db.begin().unwrap());
    running.bytes(&table).put(b"running", b"").unwrap();
    running.bytes(&table).remove(expected["many"].keys().next().unwrap()).unwrap();
    prepared.bytes(&table).put(b"prepared", b"").unwrap();
    prepared.prepare("gid").unwrap();

    let disk = SimDisk::new(1);
    backup(&db, &disk).unwrap();
    let copy = open(&disk).unwrap();
    assert_eq!(content(&copy), expected);
    assert_eq!(copy.recover(), Vec::<Vec<u8>>::new());
    running.commit().unwrap();
    db.commit_prepared("gid").unwrap();
    assert!(table.contains(b"running").unwrap() && table.contains(b"prepared").unwrap());
}

/// A table, a key, and its value from now on, if any.
type Change = (&'static str, Vec<u8>, Option<Vec<u8>>);

/// Transaction number `n` of the writers: what it does is a function of `n`, so that a count tells the whole state.
fn step(n: u64, seed: u64) -> Vec<Change> {
    let mut rng = Rng(seed ^ n.wrapping_mul(0x9E37_79B9));
    let mut changes = vec![("counter", b"n".to_vec(), Some(n.to_be_bytes().to_vec()))];
    for _ in 0..4 {
        let table = ["left", "right"][rng.below(2)];
        let key = (rng.below(600) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes().to_vec();
        let removes = rng.below(4) == 0;
        let len = 20 + rng.below(150);
        changes.push((table, key, (!removes).then(|| rng.bytes(len))));
    }
    changes
}

fn count(db: &Database) -> u64 {
    let counter = db.byte_table("counter").unwrap().get(b"n").unwrap();
    counter.map_or(0, |n| u64::from_be_bytes(n.try_into().unwrap()))
}

/// Commits transactions until told to stop; `done` is the number of the last one.
fn write(db: &Database, seed: u64, done: &AtomicU64, stop: &AtomicBool) -> Result<()> {
    while !stop.load(SeqCst) {
        let n = db.transact(|tx| {
            let counter = db.byte_table("counter")?;
            let n = tx.bytes(&counter).get_for_update(b"n")?;
            let n = n.map_or(0, |n| u64::from_be_bytes(n.try_into().unwrap())) + 1;
            for (table, key, value) in step(n, seed) {
                let table = db.byte_table(table)?;
                match value {
                    Some(value) => tx.bytes(&table).put(&key, &value)?,
                    None => drop(tx.bytes(&table).remove(&key)?),
                }
            }
            Ok(n)
        })?;
        done.fetch_max(n, SeqCst);
    }
    Ok(())
}

/// What the first `n` transactions make.
fn state_after(n: u64, seed: u64) -> Tables {
    let mut tables: Tables = ["counter", "left", "right"].map(|name| (name.to_string(), Rows::new())).into();
    for (table, key, value) in (1..=n).flat_map(|n| step(n, seed)) {
        let rows = tables.get_mut(table).unwrap();
        match value {
            Some(value) => drop(rows.insert(key, value)),
            None => drop(rows.remove(&key)),
        }
    }
    tables
}

/// While three threads write, each copy is exactly the state after so many transactions: all that had been acknowledged
/// when it was begun, and a prefix of the others.
#[test]
fn a_copy_under_write_load_is_one_committed_point() {
    let seed = env("FORESHORE_SEED", 1);
    let db =
        tiny().durability(foreshore::Durability::Buffered).open_on(Arc::new(SimDisk::new(seed))).unwrap();
    for name in ["counter", "left", "right"] {
        db.byte_table(name).unwrap();
    }
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let writers: Vec<_> =
            (0..3).map(|_| scope.spawn(|| write(&db, seed, &done, &stop).unwrap())).collect();
        for round in 0..6 {
            while done.load(SeqCst) < 60 * (round + 1) {
                assert!(
                    !writers.iter().all(|writer| writer.is_finished()),
                    "seed {seed}: the writers failed"
                );
                thread::yield_now();
            }
            let least = done.load(SeqCst);
            let disk = SimDisk::new(seed + round);
            let copied = backup(&db, &disk);
            // A failure must end the writers too, or this would wait for ever.
            stop.store(copied.is_err(), SeqCst);
            copied.unwrap();
            let copy = open(&disk).unwrap();
            copy.check().unwrap();
            let n = count(&copy);
            assert!(n >= least, "seed {seed}: {least} were acknowledged before, {n} are there");
            let same = content(&copy) == state_after(n, seed);
            stop.store(!same || round == 5, SeqCst);
            assert!(same, "seed {seed}, round {round}: the copy is not the state after {n} transactions");
        }
    });
    assert_eq!(content(&db), state_after(count(&db), seed));
    db.check().unwrap();
}

/// A crash at any event of a backup leaves a target that is refused, and that the next backup takes; or a complete one.
#[test]
fn a_crash_of_the_target_leaves_nothing_that_passes_for_complete() {
    let seed = env("FORESHORE_SEED", 1);
    let (_, db) = filled(seed);
    let expected = content(&db);
    let (mut refused, mut complete) = (0, 0);
    for kind in [Crash::PowerLoss, Crash::ProcessKill] {
        // The threads of the copy's log and pool make each run a little different: the end shows when it comes.
        for at in 0.. {
            let what = format!("seed {seed}, event {at}, {kind:?}");
            let disk = SimDisk::new(seed);
            disk.crash_at(at);
            let told = backup(&db, &disk).is_ok();
            let crashed = disk.is_crashed();
            let disk = disk.after_crash(kind, seed ^ at);
            match tiny().create(false).open_on(Arc::new(disk.clone())) {
                Ok(copy) => {
                    complete += 1;
                    assert_eq!(content(&copy), expected, "{what}");
                    copy.check().unwrap_or_else(|e| panic!("{what}: {e}"));
                }
                Err(Error::Incompatible { .. }) if !told => {
                    refused += 1;
                    backup(&db, &disk).unwrap_or_else(|e| panic!("{what}, again: {e}"));
                    assert_eq!(content(&open(&disk).unwrap()), expected, "{what}, again");
                }
                Err(e) => panic!("{what}, told that it is complete: {told}: {e}"),
            }
            if !crashed {
                break;
            }
        }
    }
    assert_eq!(content(&db), expected, "seed {seed}: the source");
    assert!(refused >= 80 && complete >= 2, "{refused} refused, {complete} complete");
}

/// A crash of the source in the middle of a backup costs it nothing, and the copy is complete or refused.
#[test]
fn a_crash_of_the_source_costs_nothing() {
    let seed = env("FORESHORE_SEED", 1);
    // With so little cache, the snapshot is read from disk, and clean pages are evicted meanwhile.
    let events = {
        let (disk, db) = filled(seed);
        let before = disk.events();
        db.checkpoint().unwrap();
        backup(&db, &SimDisk::new(seed)).unwrap();
        disk.events() - before
    };
    assert!(events > 0);
    for (at, kind) in (1..=events).flat_map(|at| [(at, Crash::PowerLoss), (at, Crash::ProcessKill)]) {
        let what = format!("seed {seed}, event {at}, {kind:?}");
        let (disk, db) = filled(seed);
        let expected = content(&db);
        disk.crash_at(disk.events() + at);
        let target = SimDisk::new(seed);
        let copied = db.checkpoint().and_then(|()| backup(&db, &target));
        drop(db);
        let db = open(&disk.after_crash(kind, seed ^ at)).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(content(&db), expected, "{what}");
        match copied {
            Ok(_) => assert_eq!(content(&open(&target).unwrap()), expected, "{what}: the copy"),
            Err(_) => drop(backup(&db, &target).unwrap_or_else(|e| panic!("{what}, again: {e}"))),
        }
    }
}

/// A target that has no space is cleared before anybody else may begin a backup there.
#[test]
fn a_full_target_is_cleared_while_it_is_locked() {
    let (_, db) = filled(1);
    let (disk, removed) = (SimDisk::new(1), Arc::new(AtomicU64::new(0)));
    disk.set_capacity(64 << 10); // enough to begin
    let (target, count) = (disk.clone(), removed.clone());
    let vfs = Intercepted::new(disk.clone(), move |call, name, go| {
        if call == Call::Remove {
            assert!(target.lock("LOCK").is_err(), "{name} is removed where others may have begun");
            count.fetch_add(1, SeqCst);
        }
        go()
    });
    let refused = db.backup_on(Arc::new(vfs), |_| {});
    assert!(matches!(refused, Err(Error::Full { .. })), "{refused:?}");
    assert!(removed.load(SeqCst) > 0 && disk.names() == ["LOCK"], "{:?}", disk.names());
}

/// Any failing call of the target's disk is a typed error that leaves an empty target or a refused one, and a whole source.
#[test]
fn a_failing_target_is_told_and_cleared() {
    let seed = env("FORESHORE_SEED", 1);
    let (_, db) = filled(seed);
    let expected = content(&db);
    let events = {
        let disk = SimDisk::new(seed);
        backup(&db, &disk).unwrap();
        disk.events()
    };
    for at in 0..events {
        for (fault, repeat) in [(Fault::Enospc, Repeat::Once), (Fault::Eio, Repeat::Forever)] {
            let what = format!("seed {seed}, {fault:?} at event {at}, {repeat:?}");
            let disk = SimDisk::new(seed);
            disk.fail_at(at, fault, repeat);
            let copied = backup(&db, &disk);
            disk.clear_faults();
            match copied {
                Ok(_) => {}
                Err(error @ (Error::Full { .. } | Error::Io { .. })) => {
                    let reopened = tiny().create(false).open_on(Arc::new(disk.clone()));
                    if let Ok(copy) = reopened {
                        // Only what came after the naming can have failed then.
                        assert_eq!(content(&copy), expected, "{what}");
                        continue;
                    }
                    if matches!(error, Error::Full { .. }) {
                        assert!(disk.names().iter().all(|name| name == "LOCK"), "{what}: {:?}", disk.names());
                    }
                    backup(&db, &disk).unwrap_or_else(|e| panic!("{what}, again: {e}"));
                }
                Err(e) => panic!("{what}: {e}"),
            }
            assert_eq!(content(&open(&disk).unwrap()), expected, "{what}");
        }
    }
    assert_eq!(content(&db), expected, "seed {seed}: the source");
}

/// What stops the copy has not stopped the source, and says whose it is: [`Error::Poisoned`] is the source's.
#[test]
fn a_failing_target_is_not_taken_for_the_source() {
    let (_source, db) = filled(1);
    let whole = SimDisk::new(2);
    backup(&db, &whole).unwrap();
    let mut told = BTreeMap::new();
    for (event, fault) in (0..whole.events()).flat_map(|at| [(at, Fault::Eio), (at, Fault::Enospc)]) {
        let target = SimDisk::new(2);
        target.fail_at(event, fault, Repeat::Once);
        match backup(&db, &target) {
            Err(Error::Io { what, .. } | Error::Full { what }) if what.contains(&target.describe()) => {}
            Err(error) => *told.entry(error.to_string()).or_insert(0) += 1,
            Ok(_) => {}
        }
    }
    assert!(told.is_empty(), "{told:#?}");
    db.byte_table("bytes").unwrap().put(b"the source", b"goes on").unwrap();
}

/// A directory that holds anything is left alone.
#[test]
fn a_target_that_holds_something_is_refused() {
    let (_, db) = filled(1);
    let (disk, _) = filled(2);
    let names = disk.names();
    let refused = backup(&db, &disk).unwrap_err();
    assert!(
        matches!(&refused, Error::Incompatible { detail, .. } if detail.contains("holds a database")),
        "{refused}"
    );
    assert_eq!(disk.names(), names);

    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("letter.txt"), "dear").unwrap();
    let refused = db.backup(dir.path()).unwrap_err();
    assert!(
        matches!(&refused, Error::Incompatible { detail, .. } if detail.contains("letter.txt")),
        "{refused}"
    );
    assert_eq!(std::fs::read_to_string(dir.path().join("letter.txt")).unwrap(), "dear");
}

/// A copy within a database would go with it. One that is named by way of a database may lie beside it.
#[test]
fn a_target_within_a_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("ports.db");
    let db = Database::open(&place).unwrap();
    for within in ["monday", "copies/monday"] {
        let refused = db.backup(place.join(within)).unwrap_err();
        assert!(
            matches!(&refused, Error::Incompatible { detail, .. } if detail.contains("within the database")),
            "{refused}"
        );
    }
    assert!(!place.join("monday").exists() && !place.join("copies").exists());
    let roundabout = db.backup(dir.path().join("absent/../ports.db/monday"));
    assert!(
        matches!(roundabout, Err(Error::Incompatible { .. })),
        "the way there is made, too: {roundabout:?}"
    );
    let (inside, link) = (place.join("inside"), dir.path().join("link"));
    fs::create_dir(&inside).unwrap();
    std::os::unix::fs::symlink(&inside, &link).unwrap();
    assert!(matches!(db.backup(&link), Err(Error::Incompatible { .. })), "a link leads there");
    db.backup(place.join("../monday")).unwrap();
    Database::open(dir.path().join("monday")).unwrap();
}

/// A backup that is outlived by its old versions says so, and leaves its target empty for the next.
#[test]
fn a_snapshot_given_up_ends_the_backup() {
    const BUDGET: u64 = 64 << 10;
    let db = tiny().old_version_bytes(BUDGET).open_on(Arc::new(SimDisk::new(1))).unwrap();
    for name in ["a", "b"] {
        let rows = (0..100u32).map(|i| (i.to_be_bytes(), [7; 1000]));
        db.byte_table(name).unwrap().bulk_load(rows).unwrap();
    }
    let mut written = false;
    let outgrow = |_: &Copied| {
        if !std::mem::replace(&mut written, true) {
            let b = db.byte_table("b").unwrap();
            for i in 0..100u32 {
                b.put(&i.to_be_bytes(), &[8; 1000]).unwrap();
            }
            let since = Instant::now();
            while db.stats().image_bytes > BUDGET {
                assert!(since.elapsed() < Duration::from_secs(60), "old versions are not given up");
                thread::sleep(Duration::from_millis(5));
            }
        }
    };
    let disk = SimDisk::new(2);
    let ended = db.backup_on(Arc::new(disk.clone()), outgrow);
    assert!(matches!(ended, Err(Error::SnapshotTooOld)), "{ended:?}");
    assert_eq!(disk.names(), ["LOCK"]);
    backup(&db, &disk).unwrap();
    assert_eq!(content(&open(&disk).unwrap()), content(&db));
}

/// Tables made and dropped while the backup runs are not its business: it has those of its point.
#[test]
fn tables_are_those_of_the_point() {
    let (_, db) = filled(1);
    let expected = content(&db);
    let disk = SimDisk::new(1);
    let make_table = |so_far: &Copied| {
        db.byte_table(&format!("new {}", so_far.tables)).unwrap().put(b"k", b"v").unwrap();
    };
    db.backup_on(Arc::new(disk.clone()), make_table).unwrap();
    assert_eq!(content(&open(&disk).unwrap()), expected);
    assert!(db.drop_table("many").unwrap(), "nothing is in use any more");
}

/// Dropping a table waits for the backup that has not copied it yet.
#[test]
fn a_table_is_not_dropped_under_a_backup() {
    let (_, db) = filled(1);
    let expected = content(&db);
    let disk = SimDisk::new(1);
    thread::scope(|scope| {
        let mut dropping = None;
        let drop_last = |_: &Copied| {
            dropping.get_or_insert_with(|| {
                let dropping = scope.spawn(|| db.drop_table("many"));
                // Time to begin; if that is not enough, the table is dropped afterwards, which is as good.
                thread::sleep(Duration::from_millis(100));
                dropping
            });
        };
        db.backup_on(Arc::new(disk.clone()), drop_last).unwrap();
        assert!(dropping.unwrap().join().unwrap().unwrap(), "it was there to be dropped");
    });
    assert_eq!(content(&open(&disk).unwrap()), expected);
    assert!(!db.tables().unwrap().contains(&"many".to_string()));
}
