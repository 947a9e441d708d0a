//! Values larger than a leaf takes: through every call, in transactions and snapshots, and nothing left behind.

mod common;

use common::{Rng, bytes, env, tiny};
use foreshore::{ByteTable, CheckReport, Database, Durability, Error, Isolation, TransactionOptions};
use foreshore_io::{MemVfs, SimDisk, sim::Call, sim::Crash, sim::Intercepted};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

/// Whole in a leaf of [`tiny`]; one byte more is not.
const WHOLE: usize = 1024;

fn open(disk: &SimDisk) -> Database {
    tiny().durability(Durability::Relaxed).open_on(Arc::new(disk.clone())).unwrap()
}

fn fresh() -> (SimDisk, Database, ByteTable) {
    let disk = SimDisk::new(0);
    let db = open(&disk);
    let table = db.byte_table("t").unwrap();
    (disk, db, table)
}

/// How many large values the check finds. There must be none that belongs to nobody, and, once no snapshot is open, none
/// that waits to be removed.
fn large_values(db: &Database) -> u64 {
    let report = db.check().unwrap();
    assert_eq!(report.stray_pages, 0);
    let sum = |count: fn(&foreshore::TableReport) -> u64| report.tables.iter().map(count).sum::<u64>();
    assert_eq!((sum(|t| t.large_dead), sum(|t| t.large_stray)), (0, 0), "{report:?}");
    sum(|t| t.large_values)
}

fn large_leaves(report: &CheckReport) -> u64 {
    report.tables.iter().map(|t| t.large_leaves).sum()
}

/// How long a value is its row says: wherever it is asked for, the value is not read. A transaction locks the key for it.
#[test]
fn lengths_are_known_without_reading() {
    let vfs = Intercepted::new(MemVfs::new(), |call, name, go| match (call, name) {
        (Call::Read, "blobs.db") => Err(std::io::Error::other("a large value was read")),
        _ => go(),
    });
    let db = tiny().durability(Durability::Relaxed).open_on(Arc::new(vfs)).unwrap();
    let table = db.byte_table("t").unwrap();
    let sizes = [0, 1, WHOLE, WHOLE + 1, 5000, 1 << 20];
    sizes.iter().for_each(|size| table.put(&size.to_be_bytes(), &bytes(1, *size)).unwrap());
    assert!(table.get(&(1_usize << 20).to_be_bytes()).is_err());
    let snapshot = db.snapshot().unwrap();
    table.put(b"late", b"value").unwrap();
    for isolation in [Isolation::Serializable, Isolation::ReadCommitted] {
        let tx = db.begin_with(TransactionOptions::new().isolation(isolation)).unwrap();
        let inside = tx.bytes(&table);
        for size in sizes {
            let (key, expected) = (size.to_be_bytes(), Some(size as u64));
            assert_eq!(table.value_bytes(&key).unwrap(), expected);
            assert_eq!(snapshot.bytes(&table).value_bytes(&key).unwrap(), expected);
            assert_eq!(inside.value_bytes(&key).unwrap(), expected, "{isolation:?}");
            let others = table.with_lock_timeout(Duration::ZERO);
            let written = others.put(&key, &bytes(3, size));
            assert_eq!(written.is_err(), isolation == Isolation::Serializable, "{size}: {written:?}");
        }
        inside.put(b"own", &bytes(2, 1 << 20)).unwrap();
        assert_eq!(inside.value_bytes(b"own").unwrap(), Some(1 << 20));
        assert_eq!((inside.value_bytes(b"none").unwrap(), table.value_bytes(b"own").unwrap()), (None, None));
        assert_eq!(table.value_bytes(&[0; 5000]).unwrap(), None, "no row has such a key");
        assert_eq!(inside.value_bytes(b"late").unwrap(), Some(5));
        assert_eq!(snapshot.bytes(&table).value_bytes(b"late").unwrap(), None);
    }
}

/// Sizes around every edge: whole, reference, one chunk, several, many.
#[test]
fn every_size_comes_back() {
    let (disk, db, table) = fresh();
    let sizes = [0, 1, WHOLE - 1, WHOLE, WHOLE + 1, WHOLE + 2, 1983, 1984, 2957, 5000, 100_000, 1 << 20];
    for (i, size) in sizes.into_iter().enumerate() {
        table.put(&[i as u8], &bytes(i as u64, size)).unwrap();
    }
    let verify = |table: &ByteTable| {
        for (i, size) in sizes.into_iter().enumerate() {
            let value = bytes(i as u64, size);
            assert_eq!(table.get(&[i as u8]).unwrap().as_deref(), Some(&value[..]), "{size} bytes");
            assert!(table.contains(&[i as u8]).unwrap());
        }
        let rows: Vec<_> = table.range(..).collect::<Result<_, _>>().unwrap();
        assert_eq!(rows.iter().map(|(_, value)| value.len()).collect::<Vec<_>>(), sizes);
        let mut back: Vec<_> = table.range(..).rev().collect::<Result<_, _>>().unwrap();
        back.reverse();
        assert_eq!(back, rows);
        let mut scanned = Vec::new();
        let row = |key: &[u8], value: &[u8]| {
            scanned.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        };
        table.scan(.., row).unwrap();
        assert_eq!(scanned, rows);
        let keys: Vec<_> = (0..sizes.len() as u8).map(|i| [i]).collect();
        let values = table.multi_get(&keys).unwrap();
        assert_eq!(values, rows.into_iter().map(|(_, value)| Some(value)).collect::<Vec<_>>());
    };
    verify(&table);
    assert_eq!(large_values(&db), 8);
    drop((table, db));
    let db = open(&disk);
    verify(&db.byte_table("t").unwrap());
    assert_eq!(large_values(&db), 8);
}

#[test]
fn too_large_is_refused_by_number() {
    let (_, db, table) = fresh();
    table.put(b"k", b"old").unwrap();
    let value = vec![0; (256 << 20) + 1];
    let refused = |result: Result<(), Error>| {
        assert!(matches!(result, Err(Error::ValueTooLarge { len: 268_435_457, max: 268_435_456 })));
    };
    refused(table.put(b"k", &value));
    let tx = db.begin().unwrap();
    refused(tx.bytes(&table).put(b"k", &value));
    tx.commit().unwrap();
    assert_eq!(table.get(b"k").unwrap().as_deref(), Some(&b"old"[..]));
    assert_eq!(large_leaves(&db.check().unwrap()), 0, "not even a place for it was made");
}

/// Random operations against a map: sizes from nothing to 100 KiB, transactions that end either way, savepoints.
#[test]
fn behaves_like_a_map() {
    let seed = env("FORESHORE_SEED", 1);
    for round in 0..env("FORESHORE_ROUNDS", 6) {
        let mut rng = Rng(seed + round);
        let (disk, mut db, mut table) = fresh();
        let mut model = BTreeMap::new();
        for step in 0..120 {
            let what = format!("seed {}, step {step}", seed + round);
            match rng.below(12) {
                0 => {
                    drop((table, db));
                    db = open(&disk);
                    table = db.byte_table("t").unwrap();
                }
                1 => db.checkpoint().unwrap(),
                2..6 => {
                    let (key, value) = row(&mut rng);
                    table.put(&key, &value).unwrap();
                    model.insert(key, value);
                }
                6 => {
                    let (key, value) = row(&mut rng);
                    assert_eq!(table.insert(&key, &value).unwrap(), !model.contains_key(&key), "{what}");
                    model.entry(key).or_insert(value);
                }
                7 | 8 => {
                    let (key, _) = row(&mut rng);
                    assert_eq!(table.remove(&key).unwrap(), model.remove(&key).is_some(), "{what}");
                }
                _ => transact(&mut rng, &db, &table, &mut model, &what),
            }
            let (key, _) = row(&mut rng);
            assert_eq!(table.get(&key).unwrap().as_ref(), model.get(&key), "{what}");
        }
        let rows: BTreeMap<_, _> = table.range(..).collect::<Result<_, _>>().unwrap();
        assert_eq!(rows, model, "seed {}", seed + round);
        let large = model.values().filter(|value| value.len() > WHOLE).count();
        assert_eq!(large_values(&db), large as u64, "seed {}", seed + round);
    }
}

fn row(rng: &mut Rng) -> (Vec<u8>, Vec<u8>) {
    let len = match rng.below(4) {
        0 => rng.below(60),
        1 => WHOLE - 2 + rng.below(5),
        2 => rng.below(8_000),
        _ => rng.below(100_000),
    };
    (vec![rng.below(12) as u8], bytes(rng.next(), len))
}

fn transact(
    rng: &mut Rng,
    db: &Database,
    table: &ByteTable,
    model: &mut BTreeMap<Vec<u8>, Vec<u8>>,
    what: &str,
) {
    let tx = db.begin().unwrap();
    let rows = tx.bytes(table);
    let (mut now, mut savepoint) = (model.clone(), (tx.savepoint().unwrap(), model.clone()));
    for _ in 0..rng.below(8) {
        let (key, value) = row(rng);
        match rng.below(8) {
            0 => savepoint = (tx.savepoint().unwrap(), now.clone()),
            1 => {
                tx.rollback_to(savepoint.0).unwrap();
                now = savepoint.1.clone();
            }
            2 | 3 => assert_eq!(rows.remove(&key).unwrap(), now.remove(&key).is_some(), "{what}"),
            4 => {
                let found: BTreeMap<_, _> = rows.range(..).collect::<Result<_, _>>().unwrap();
                assert_eq!(found, now, "{what}");
            }
            _ => {
                rows.put(&key, &value).unwrap();
                now.insert(key.clone(), value);
            }
        }
        assert_eq!(rows.get(&key).unwrap().as_ref(), now.get(&key), "{what}");
    }
    if rng.below(3) == 0 {
        tx.rollback().unwrap();
    } else {
        tx.commit().unwrap();
        *model = now;
    }
}

/// A snapshot goes on seeing what was replaced, removed and rolled back; when it is closed, all of that goes.
#[test]
fn snapshots_keep_what_they_see() {
    let (_, db, table) = fresh();
    let value = |key: u8, version: u64| bytes(u64::from(key) << 8 | version, 20_000);
    for key in 0..4 {
        table.put(&[key], &value(key, 0)).unwrap();
    }
    let before = db.snapshot().unwrap();
    table.put(&[0], &value(0, 1)).unwrap();
    table.put(&[0], b"small").unwrap();
    table.remove(&[1]).unwrap();
    let tx = db.begin().unwrap();
    tx.bytes(&table).put(&[2], &value(2, 1)).unwrap();
    tx.bytes(&table).put(&[3], &value(3, 1)).unwrap();
    let between = db.snapshot().unwrap();
    tx.commit().unwrap();
    db.checkpoint().unwrap();
    let expected = |keys: &[u8]| keys.iter().map(|key| (vec![*key], value(*key, 0))).collect::<Vec<_>>();
    let seen = before.bytes(&table);
    let rows: Vec<_> = seen.range(..).collect::<Result<_, _>>().unwrap();
    assert!(rows == expected(&[0, 1, 2, 3]), "all four as they were");
    assert!(seen.get(&[1]).unwrap() == Some(value(1, 0)), "removed since");
    assert_eq!(seen.multi_get(&[[0], [3]]).unwrap(), [Some(value(0, 0)), Some(value(3, 0))]);
    let rows: Vec<_> = between.bytes(&table).range(&[1][..]..).collect::<Result<_, _>>().unwrap();
    assert!(rows == expected(&[2, 3]), "what was not removed before it, as it was");
    assert_eq!(table.get(&[2]).unwrap(), Some(value(2, 1)));
    let dead = db.check().unwrap().tables.iter().map(|t| t.large_dead).sum::<u64>();
    assert_eq!(dead, 4, "one each of 0, 1, 2 and 3: no snapshot sees the other version of 0");
    drop((before, between));
    table.put(b"another", b"commit").unwrap();
    settle(&db);
    assert_eq!(large_values(&db), 2);
}

/// A transaction that marked a value, and took that back, has no part in what a later one marks: the value stays for the
/// snapshots before that one.
#[test]
fn a_mark_taken_back_is_not_the_next_one() {
    let (_, db, table) = fresh();
    let value = bytes(0, 20_000);
    table.put(b"k", &value).unwrap();
    let first = db.snapshot().unwrap();
    let tx = db.begin().unwrap();
    let savepoint = tx.savepoint().unwrap();
    tx.bytes(&table).put(b"k", b"taken back").unwrap();
    tx.rollback_to(savepoint).unwrap();
    tx.bytes(&table).put(b"other", b"row").unwrap();
    tx.commit().unwrap();
    let second = db.snapshot().unwrap();
    table.put(b"k", &bytes(1, 20_000)).unwrap();
    drop(first);
    for _ in 0..20 {
        table.put(b"other", b"so that something is cleared up").unwrap();
        thread::sleep(std::time::Duration::from_millis(10));
        assert!(second.bytes(&table).get(b"k").unwrap().as_ref() == Some(&value));
    }
    drop(second);
    settle(&db);
    assert_eq!(large_values(&db), 1);
}

/// Waits until everything that no snapshot needs is gone.
fn settle(db: &Database) {
    let begun = std::time::Instant::now();
    while db.check().unwrap().tables.iter().any(|t| t.large_dead > 0) {
        assert!(begun.elapsed().as_secs() < 60, "the background thread clears up in a while");
        thread::yield_now();
    }
}

/// A snapshot that was given up says so, and does not take missing chunks for damage.
#[test]
fn a_snapshot_given_up_is_too_old() {
    let disk = SimDisk::new(0);
    let db = tiny().durability(Durability::Relaxed).old_version_bytes(100).open_on(Arc::new(disk)).unwrap();
    let table = db.byte_table("t").unwrap();
    table.put(b"k", &bytes(1, 50_000)).unwrap();
    let snapshot = db.snapshot().unwrap();
    for version in 2..10 {
        table.put(b"k", &bytes(version, 50_000)).unwrap();
    }
    settle(&db);
    assert!(matches!(snapshot.bytes(&table).get(b"k"), Err(Error::SnapshotTooOld)));
    let first = snapshot.bytes(&table).range(..).next().unwrap();
    assert!(matches!(first, Err(Error::SnapshotTooOld)));
}

/// Readers without a snapshot see one version or another, whole, while writers replace and remove them.
#[test]
fn readers_see_whole_values_while_writers_replace_them() {
    let (_, db, table) = fresh();
    let done = AtomicBool::new(false);
    // Each value tells its length and content by its first byte.
    let value = |version: u8| vec![version; 900 + 400 * usize::from(version % 16)];
    table.put(b"k", &value(0)).unwrap();
    let whole = |found: &[u8]| assert_eq!(found, value(found[0]), "a value is whole");
    thread::scope(|scope| {
        scope.spawn(|| {
            for version in 0..600u16 {
                table.put(b"k", &value(version as u8)).unwrap();
                if version % 50 == 0 {
                    table.remove(b"k").unwrap();
                }
            }
            done.store(true, SeqCst);
        });
        scope.spawn(|| {
            while !done.load(SeqCst) {
                table.get(b"k").unwrap().iter().for_each(|found| whole(found));
                table.range(..).for_each(|row| whole(&row.unwrap().1));
            }
        });
        while !done.load(SeqCst) {
            let tx = db.begin_with(TransactionOptions::new().isolation(Isolation::ReadCommitted)).unwrap();
            tx.bytes(&table).get(b"k").unwrap().iter().for_each(|found| whole(found));
            tx.bytes(&table).range(..).for_each(|row| whole(&row.unwrap().1));
            tx.commit().unwrap();
            let snapshot = db.snapshot().unwrap();
            snapshot.bytes(&table).get(b"k").unwrap().iter().for_each(|found| whole(found));
        }
    });
    settle(&db);
    assert_eq!(large_values(&db), 1);
}

/// Leaves are given back: by overwriting, removing, rolling back, dropping the table.
#[test]
fn space_is_used_again() {
    let (_, db, table) = fresh();
    let pages = || db.stats().pages;
    table.put(b"k", &bytes(0, 200_000)).unwrap();
    let once = pages();
    for version in 1..20 {
        table.put(b"k", &bytes(version, 200_000)).unwrap();
        let tx = db.begin().unwrap();
        tx.bytes(&table).put(b"k", &bytes(version, 200_000)).unwrap();
        tx.rollback().unwrap();
    }
    assert!(pages() <= once + 4, "{} pages, {once} at first", pages());
    table.remove(b"k").unwrap();
    assert!(pages() < 10, "{} pages without the value", pages());
    assert_eq!(large_values(&db), 0);
    table.put(b"k", &bytes(0, 200_000)).unwrap();
    db.drop_table("t").unwrap();
    assert!(pages() < 4, "{} pages without the table", pages());
    assert!(matches!(table.get(b"k"), Err(Error::TableDropped { .. })));
    let again = db.byte_table("t").unwrap();
    again.put(b"k", &bytes(3, 5_000)).unwrap();
    assert_eq!(again.get(b"k").unwrap(), Some(bytes(3, 5_000)));
    assert_eq!(large_values(&db), 1);
}

/// What a bulk load, a backup and a reopening make of large rows among small ones.
#[test]
fn loads_and_backups_take_large_rows() {
    let (_, db, table) = fresh();
    let rows: Vec<_> =
        (0..60u8).map(|key| (vec![key], bytes(key.into(), usize::from(key % 7) * 700))).collect();
    let rows: Vec<_> = [(Vec::new(), bytes(77, 9_000))].into_iter().chain(rows).collect();
    assert_eq!(table.bulk_load(rows.clone()).unwrap(), 61);
    let found = |table: &ByteTable| table.range(..).collect::<Result<Vec<_>, _>>().unwrap();
    assert_eq!(found(&table), rows);
    let large = rows.iter().filter(|(_, value)| value.len() > WHOLE).count() as u64;
    assert_eq!(large_values(&db), large);

    let copy = SimDisk::new(1);
    let copied = db.backup_on(Arc::new(copy.clone()), |_| {}).unwrap();
    assert_eq!(copied.rows, 61);
    assert_eq!(copied.bytes, rows.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>() as u64);
    let copy = open(&copy);
    assert_eq!(found(&copy.byte_table("t").unwrap()), rows);
    assert_eq!(large_values(&copy), large);
}

/// Two transactions put large values beside each other; the one that waits for the other's row gets its turn.
#[test]
fn transactions_wait_for_large_rows_as_for_others() {
    let (_, db, table) = fresh();
    let tx = db.begin().unwrap();
    tx.bytes(&table).put(b"k", &bytes(1, 30_000)).unwrap();
    let impatient = table.with_lock_timeout(std::time::Duration::ZERO);
    assert!(matches!(impatient.put(b"k", &bytes(2, 30_000)), Err(Error::LockTimeout { .. })));
    assert!(matches!(impatient.remove(b"k"), Err(Error::LockTimeout { .. })));
    assert_eq!(table.get(b"k").unwrap(), None);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| table.put(b"k", &bytes(3, 30_000)).unwrap());
        tx.commit().unwrap();
        waiting.join().unwrap();
    });
    assert_eq!(table.get(b"k").unwrap(), Some(bytes(3, 30_000)));
    assert_eq!(large_values(&db), 1);
}

/// A crash at any I/O leaves the value as it was before or after a write, and no chunk that belongs to nobody; what was
/// marked is reaped by the next life.
#[test]
fn a_crash_anywhere_leaves_one_value_and_nothing_else() {
    let seed = env("FORESHORE_SEED", 1);
    let lens = [3_000, 40_000, 1_500, 200, 9_000];
    let write = |disk: &SimDisk, begun: &mut usize, done: &mut usize| {
        let db = tiny().open_on(Arc::new(disk.clone()))?;
        let table = db.byte_table("t")?;
        for (version, len) in lens.into_iter().enumerate() {
            *begun = version + 1;
            table.put(b"k", &bytes(version as u64, len))?;
            if version == 2 {
                db.checkpoint()?;
            }
            if !disk.is_crashed() {
                *done = version + 1;
            }
        }
        db.close()
    };
    let whole = SimDisk::new(seed);
    write(&whole, &mut 0, &mut 0).unwrap();
    for at in 1..=whole.events() {
        for kind in [Crash::PowerLoss, Crash::ProcessKill] {
            let what = format!("seed {seed}, event {at}, {kind:?}");
            let disk = SimDisk::new(seed);
            disk.crash_at(at);
            let (mut begun, mut done) = (0, 0);
            let written = write(&disk, &mut begun, &mut done);
            assert!(written.is_ok() || disk.is_crashed(), "{what}: {written:?}");
            let disk = disk.after_crash(kind, seed ^ at);
            let db = tiny().open_on(Arc::new(disk)).unwrap_or_else(|e| panic!("{what}: {e}"));
            let table = db.byte_table("t").unwrap();
            settle(&db);
            let large = large_values(&db);
            let found = table.get(b"k").unwrap();
            let versions: Vec<_> =
                (done..=begun).map(|n| Some(bytes(n.checked_sub(1)? as u64, lens[n - 1]))).collect();
            assert!(versions.contains(&found), "{what}: none of the versions {done} to {begun}");
            assert_eq!(large, u64::from(found.is_some_and(|value| value.len() > WHOLE)), "{what}");
        }
    }
}

/// 64 MiB in one value, through a cache of 256 KiB.
#[test]
fn sixty_four_mebibytes() {
    let (disk, db, table) = fresh();
    let value = bytes(64, 64 << 20);
    table.put(b"k", &value).unwrap();
    assert!(table.get(b"k").unwrap().as_ref() == Some(&value), "64 MiB come back");
    drop((table, db));
    let db = open(&disk);
    let table = db.byte_table("t").unwrap();
    assert!(table.get(b"k").unwrap() == Some(value), "64 MiB come back after a reopening");
    table.remove(b"k").unwrap();
    assert_eq!(large_values(&db), 0);
}

/// The values of a range that is removed go with it, once nobody needs them; a removal taken back leaves them.
#[test]
fn a_range_takes_its_large_values_along() {
    let (_, db, table) = fresh();
    (0..20).for_each(|key| table.put(&[key], &bytes(key.into(), 20_000)).unwrap());
    let before = db.snapshot().unwrap();
    db.transact(|tx| {
        let place = tx.savepoint()?;
        assert_eq!(tx.bytes(&table).remove_range(&[1][..]..&[15][..])?, 14);
        tx.rollback_to(place)
    })
    .unwrap();
    assert_eq!(table.get(&[7]).unwrap(), Some(bytes(7, 20_000)));
    assert_eq!(table.remove_range(&[1][..]..).unwrap(), 19);
    assert_eq!(before.bytes(&table).get(&[7]).unwrap(), Some(bytes(7, 20_000)));
    drop(before);
    table.put(b"another", b"commit").unwrap();
    settle(&db);
    assert_eq!(large_values(&db), 1);
}
