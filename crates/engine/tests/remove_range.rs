//! Removing a range of rows: all of them or none, for everybody at once, whoever else is there.

mod common;

use common::{Rng, env, row, rows, short, tiny};
use foreshore::{ByteTable, Database, Durability, Error, Isolation, TransactionOptions};
use foreshore_io::MemVfs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn filled(db: &Database, count: u32, value_bytes: usize) -> ByteTable {
    let table = db.byte_table("t").unwrap();
    table.bulk_load((0..count).map(|n| (key(n), vec![n as u8; value_bytes]))).unwrap();
    table
}

#[test]
fn a_range_goes_at_once_or_not_at_all() {
    let db = Database::in_memory().unwrap();
    let table = filled(&db, 3000, 50);
    let (all, snapshot) = (rows(&table), db.snapshot().unwrap());
    let tx = db.begin().unwrap();
    let mine = tx.bytes(&table);
    mine.put(&key(2000), b"own").unwrap();
    assert_eq!(mine.remove_range(key(100)..=key(2899)).unwrap(), 2800);
    assert_eq!(mine.range(..).count(), 200);
    assert_eq!(mine.remove_range(key(100)..key(2900)).unwrap(), 0, "they are gone");
    mine.put(&key(500), b"again").unwrap();
    assert_eq!(rows(&table), all, "nobody else sees it yet");
    let place = tx.savepoint().unwrap();
    assert_eq!(mine.remove_range(..).unwrap(), 201);
    tx.rollback_to(place).unwrap();
    assert_eq!(mine.range(..).count(), 201);
    tx.rollback().unwrap();
    assert_eq!(rows(&table), all);

    assert_eq!(table.remove_range(key(100)..key(2900)).unwrap(), 2800);
    assert_eq!(rows(&table), [&all[..100], &all[2900..]].concat());
    assert_eq!(snapshot.bytes(&table).range(..).count(), 3000, "a snapshot is as it was");
    assert_eq!(table.remove_range(..).unwrap(), 200);
    drop(snapshot);
    let mut leaves = u64::MAX;
    // Ghosts go once no snapshot needs them, and their leaves with them.
    for _ in 0..100 {
        table.put(b"", b"").unwrap();
        leaves = db.check().unwrap().tables.iter().find(|found| found.name == "t").unwrap().leaves;
        if leaves == 1 {
            break;
        }
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(leaves, 1);
    assert_eq!(rows(&table), [row(b"", b"")]);
}

#[test]
fn bounds_that_hold_no_row_remove_none() {
    let db = Database::in_memory().unwrap();
    let table = filled(&db, 10, 5);
    assert_eq!(table.remove_range(key(7)..key(3)).unwrap(), 0);
    assert_eq!(table.remove_range(key(7)..key(7)).unwrap(), 0);
    assert_eq!(table.remove_range(key(10)..).unwrap(), 0);
    db.transact(|tx| {
        assert_eq!(tx.bytes(&table).remove_some(.., 0)?, 0);
        assert_eq!(tx.bytes(&table).remove_some(key(3).., 4)?, 4);
        Ok(())
    })
    .unwrap();
    assert_eq!(table.range(..).map(|row| row.unwrap().0[3]).collect::<Vec<_>>(), [0, 1, 2, 7, 8, 9]);
    let other = Database::in_memory().unwrap();
    let foreign = other.begin().unwrap().bytes(&table).remove_range(..);
    assert!(matches!(foreign, Err(Error::Argument(_))), "{foreign:?}");
}

/// Who removes a range keeps others out of it, up to its ends, unless it asked for less isolation.
#[test]
fn nobody_inserts_where_a_range_is_removed() {
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("t").unwrap();
    let refused = |key: &[u8]| {
        matches!(table.with_lock_timeout(Duration::ZERO).put(key, b"").err(), Some(Error::LockTimeout { .. }))
    };
    for isolation in [Isolation::Serializable, Isolation::RepeatableRead, Isolation::ReadCommitted] {
        table.put_many(&["b", "d", "f", "h"].map(|key| (key, ""))).unwrap();
        let tx = db.begin_with(TransactionOptions::new().isolation(isolation)).unwrap();
        assert_eq!(tx.bytes(&table).remove_range(&b"c"[..]..&b"g"[..]).unwrap(), 2);
        assert!(refused(b"d") && refused(b"f") && !refused(b"b") && !refused(b"h"));
        let gaps = isolation == Isolation::Serializable;
        assert!(refused(b"c") == gaps && refused(b"e") == gaps && refused(b"fa") == gaps, "{isolation:?}");
        assert!(!refused(b"a") && !refused(b"i"));
        tx.commit().unwrap();
        assert!(!refused(b"d") && !refused(b"e"));
        table.remove_range(..).unwrap();
    }
}

#[test]
fn a_row_in_use_keeps_the_whole_range() {
    let db = Database::in_memory().unwrap();
    let table = filled(&db, 1000, 20);
    let all = rows(&table);
    let holder = db.begin().unwrap();
    assert!(holder.bytes(&table).contains(&key(990)).unwrap());
    let alone = table.with_lock_timeout(Duration::ZERO).remove_range(..);
    assert!(matches!(alone, Err(Error::LockTimeout { .. })), "{alone:?}");
    assert_eq!(rows(&table), all);
    let tx = db.begin_with(short()).unwrap();
    tx.bytes(&table).put(&key(5), b"mine").unwrap();
    let part = tx.bytes(&table).remove_range(..);
    assert!(matches!(part, Err(Error::LockTimeout { .. })), "{part:?}");
    assert_eq!(tx.bytes(&table).range(..key(990)).count(), 990, "after an error nothing is removed");
    holder.rollback().unwrap();
    assert_eq!(tx.bytes(&table).remove_range(key(6)..).unwrap(), 994);
    tx.commit().unwrap();
    assert_eq!(rows(&table).last(), Some(&row(&key(5), b"mine")));
}

/// Alone, it begins again when it has to give way.
#[test]
fn a_removal_gives_way_and_comes_back() {
    let db = Database::in_memory().unwrap();
    let table = filled(&db, 1000, 20);
    let older = db.begin().unwrap();
    older.bytes(&table).put(&key(900), b"locked").unwrap();
    thread::scope(|scope| {
        let removal = scope.spawn(|| table.remove_range(..key(950)).unwrap());
        // It has the first row soon, and then waits for row 900.
        while table.with_lock_timeout(Duration::ZERO).put(&key(0), b"").is_ok() {
            thread::yield_now();
        }
        older.bytes(&table).put(&key(0), b"both").unwrap();
        older.commit().unwrap();
        assert_eq!(removal.join().unwrap(), 950);
    });
    assert_eq!(db.stats().deadlocks, 1, "it does not get in the other's way again");
    assert_eq!(table.range(..).count(), 50);
}

/// Rows that come while ranges go are removed once or still there.
#[test]
fn every_row_goes_once() {
    const ROWS: u32 = 4000;
    const THREADS: u32 = 3;
    let seed = env("FORESHORE_SEED", 7);
    let db = tiny().durability(Durability::Relaxed).open_on(Arc::new(MemVfs::new())).unwrap();
    let table = db.byte_table("t").unwrap();
    let (removed, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let table = &table;
                scope.spawn(move || {
                    for n in 0..ROWS / THREADS {
                        let number = (n * THREADS + thread).wrapping_mul(2_654_435_761);
                        assert!(table.insert(&key(number), &[1; 60]).unwrap());
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let mut rng = Rng(seed);
            while !done.load(SeqCst) {
                let from = rng.next() as u32;
                let to = from.saturating_add(rng.next() as u32 / 4);
                removed.fetch_add(table.remove_range(key(from)..key(to)).unwrap() as usize, SeqCst);
            }
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, SeqCst);
    });
    let left = table.range(..).count();
    assert_eq!(removed.load(SeqCst) + left, (ROWS / THREADS * THREADS) as usize, "seed {seed}");
    assert!(removed.load(SeqCst) > 0);
    assert_eq!(table.remove_range(..).unwrap(), left as u64);
    db.check().unwrap();
}

/// Far more rows than the cache holds, and than the log is to have, there and back.
#[test]
fn a_range_may_be_larger_than_the_cache() {
    let db = tiny().durability(Durability::Relaxed).open_on(Arc::new(MemVfs::new())).unwrap();
    let table = filled(&db, 10_000, 200);
    let tx = db.begin().unwrap();
    assert_eq!(tx.bytes(&table).remove_range(..).unwrap(), 10_000);
    tx.rollback().unwrap();
    assert_eq!(
        table.range(..).filter(|row| row.as_ref().is_ok_and(|row| row.1.len() == 200)).count(),
        10_000
    );
    assert_eq!(table.remove_range(key(1)..).unwrap(), 9_999);
    let report = db.check().unwrap();
    let found = report.tables.iter().find(|found| found.name == "t").unwrap();
    assert_eq!((found.rows, found.leaves, report.stray_pages), (1, 1, 0));
}

/// Who scans finds the row behind a range whose rows a snapshot keeps, though that does not fit into the cache.
#[test]
fn a_removed_range_may_be_larger_than_the_cache() {
    for isolation in [Isolation::Serializable, Isolation::RepeatableRead, Isolation::ReadCommitted] {
        let db = tiny().durability(Durability::Relaxed).open_on(Arc::new(MemVfs::new())).unwrap();
        let table = filled(&db, 10_000, 100);
        let snapshot = db.snapshot().unwrap();
        assert_eq!(table.remove_range(..key(9_999)).unwrap(), 9_999);
        let leaves = db.check().unwrap().tables[1].leaves;
        assert!(leaves > db.stats().pool_frames, "{leaves} leaves of removed rows stay");
        let tx = db.begin_with(TransactionOptions::new().isolation(isolation)).unwrap();
        let (same, reads) = (table.clone(), db.stats().pool_reads);
        let scans = thread::spawn(move || {
            let mine = tx.bytes(&same);
            [mine.range(..).count(), mine.range(..).rev().count()]
        });
        while !scans.is_finished() {
            let again_and_again = db.stats().pool_reads - reads > 100 * leaves;
            assert!(!again_and_again, "{isolation:?}: it comes to no end");
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(scans.join().unwrap(), [1, 1], "{isolation:?}");
        assert_eq!(snapshot.bytes(&table).range(..).count(), 10_000);
    }
}

/// Where no key can be, nobody is kept from inserting beside it.
#[test]
fn bounds_that_hold_no_key_lock_nothing() {
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("t").unwrap();
    table.put_many(&["b", "h"].map(|key| (key, ""))).unwrap();
    let impatient = table.with_lock_timeout(Duration::ZERO);
    let tx = db.begin().unwrap();
    for (from, to) in [("c", "c"), ("e", "c"), ("z", "z")] {
        assert_eq!(tx.bytes(&table).remove_range(from..to).unwrap(), 0);
    }
    for key in [b"d", b"g", b"x", b"~"] {
        impatient.put(key, b"").unwrap();
    }
    tx.commit().unwrap();
}
