//! Snapshots: they see one point in time, within a budget of old versions, and what is kept for them goes.

mod common;

use common::{rows, tiny};
use foreshore::{Database, Durability, Error, Result};
use foreshore_io::{SimDisk, sim::Crash};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A snapshot sees one point in time, however much happens after it.
#[test]
fn snapshots_do_not_move() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    for n in 0..500u32 {
        t.put(&n.to_be_bytes(), &n.to_be_bytes()).unwrap();
    }
    let running = db.begin().unwrap();
    running.bytes(&t).put(&7u32.to_be_bytes(), b"running").unwrap();
    let before = rows(&t);
    let snapshot = db.snapshot().unwrap();
    let seen = |s: &foreshore::Snapshot| -> Vec<_> { s.bytes(&t).range(..).collect::<Result<_>>().unwrap() };
    running.commit().unwrap();
    for round in 0..3u8 {
        for n in 0..1000u32 {
            if n % 5 == u32::from(round) {
                t.remove(&n.to_be_bytes()).map(|_| ())
            } else {
                t.put(&n.to_be_bytes(), &[round; 20])
            }
            .unwrap();
        }
        assert_eq!(seen(&snapshot), before);
        let tx = db.begin().unwrap();
        for n in (0..1000u32).step_by(3) {
            tx.bytes(&t).put(&n.to_be_bytes(), &[round; 9]).unwrap();
            tx.bytes(&t).remove(&(n + 1).to_be_bytes()).unwrap();
        }
        assert_eq!(seen(&snapshot), before);
        if round == 1 { tx.rollback() } else { tx.commit() }.unwrap();
        assert_eq!(seen(&snapshot), before);
        let mut back: Vec<_> = snapshot.bytes(&t).range(..).rev().collect::<Result<_>>().unwrap();
        back.reverse();
        assert_eq!(back, before);
        for n in 0..1000u32 {
            let expected =
                before.iter().find(|(key, _)| *key == n.to_be_bytes()).map(|(_, value)| value.clone());
            assert_eq!(snapshot.bytes(&t).get(&n.to_be_bytes()).unwrap(), expected, "{n}");
        }
    }
    drop(snapshot);
    let left = || (db.stats().image_bytes, db.check().unwrap().tables[1].ghosts);
    let since = Instant::now();
    while left() != (0, 0) && since.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(left(), (0, 0), "old versions and ghosts go when nobody can see them");
}

/// A snapshot shows tables of its own database only.
#[test]
fn a_snapshot_is_of_one_database() {
    let (db, other) = (Database::in_memory().unwrap(), Database::in_memory().unwrap());
    let t = other.byte_table("t").unwrap();
    t.put(b"k", b"v").unwrap();
    let snapshot = db.snapshot().unwrap();
    let foreign = snapshot.bytes(&t);
    assert!(matches!(foreign.get(b"k"), Err(Error::Argument(_))));
    let mut rows = foreign.range(..);
    assert!(matches!(rows.next(), Some(Err(Error::Argument(_)))) && rows.next().is_none());
    assert!(matches!(foreign.prefix(b"k").next_back(), Some(Err(Error::Argument(_)))));
}

/// Old versions have a budget: beyond it the oldest snapshot is told so, and a new one works.
#[test]
fn old_versions_are_bounded() {
    let db = Database::builder()
        .old_version_bytes(64 << 10)
        .open_on(std::sync::Arc::new(foreshore_io::MemVfs::new()))
        .unwrap();
    let t = db.byte_table("t").unwrap();
    let put_all = |byte| (0..200u8).for_each(|n| t.put(&[n], &[byte; 1000]).unwrap());
    put_all(0);
    let snapshot = db.snapshot().unwrap();
    assert!(snapshot.bytes(&t).get(&[7]).unwrap().is_some());
    for round in 1..20 {
        put_all(round);
    }
    let since = std::time::Instant::now();
    while snapshot.bytes(&t).get(&[7]).is_ok() {
        assert!(
            since.elapsed() < Duration::from_secs(10),
            "{} bytes of old versions",
            db.stats().image_bytes
        );
    }
    assert!(matches!(snapshot.bytes(&t).get(&[7]), Err(Error::SnapshotTooOld)));
    assert!(matches!(snapshot.bytes(&t).range(..).next(), Some(Err(Error::SnapshotTooOld))));
    assert_eq!(db.snapshot().unwrap().bytes(&t).get(&[7]).unwrap(), Some(vec![19; 1000]));
}

/// What a running transaction has replaced stays, whoever reads: no snapshot is given up for it.
#[test]
fn large_transactions_cost_no_snapshot() {
    let db = Database::builder()
        .old_version_bytes(64 << 10)
        .open_on(std::sync::Arc::new(foreshore_io::MemVfs::new()))
        .unwrap();
    let t = db.byte_table("t").unwrap().with_durability(Durability::Relaxed);
    (0..200u8).for_each(|n| t.put(&[n], &[0; 1000]).unwrap());
    let tx = db.begin().unwrap();
    (0..200u8).for_each(|n| tx.bytes(&t).put(&[n], &[1; 1000]).unwrap());
    let snapshot = db.snapshot().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(snapshot.bytes(&t).get(&[7]).unwrap(), Some(vec![0; 1000]));
    tx.commit().unwrap();
    let since = Instant::now();
    while snapshot.bytes(&t).get(&[7]).is_ok() {
        assert!(since.elapsed() < Duration::from_secs(10), "now they are kept for the snapshot only");
    }
}

/// Ghosts that a crash left behind, as a snapshot had needed them, make way for new rows.
#[test]
fn ghosts_of_before_a_crash_make_way() {
    let disk = SimDisk::new(1);
    let open = |disk: &SimDisk| tiny().open_on(Arc::new(disk.clone())).unwrap();
    let key = |i: u32| i.to_be_bytes();
    let db = open(&disk);
    let table = db.byte_table("t").unwrap().with_durability(Durability::Buffered);
    let _keeps_ghosts = {
        (0..1000).for_each(|i| table.put(&key(2 * i), &[1; 100]).unwrap());
        let snapshot = db.snapshot().unwrap();
        (0..1000).for_each(|i| assert!(table.remove(&key(2 * i)).unwrap()));
        snapshot
    };
    db.sync().unwrap();

    let db = open(&disk.after_crash(Crash::PowerLoss, 1));
    let ghosts = || db.check().unwrap().tables.iter().map(|table| table.ghosts).sum::<u64>();
    assert_eq!(ghosts(), 1000, "nobody remembers them");
    let table = db.byte_table("t").unwrap().with_durability(Durability::Buffered);
    (0..1000).for_each(|i| table.put(&key(2 * i + 1), &[2; 100]).unwrap());
    assert!(ghosts() < 100, "{} ghosts stay in leaves that were split", ghosts());
    assert_eq!(table.range(..).count(), 1000);
}

/// A full leaf keeps the ghosts that somebody needs: a snapshot, or who has locked the key.
#[test]
fn ghosts_that_are_needed_stay_in_full_leaves() {
    let db = tiny().open_on(Arc::new(SimDisk::new(1))).unwrap();
    let table = db.byte_table("t").unwrap().with_durability(Durability::Buffered);
    let key = |i: u32| i.to_be_bytes();
    let rows = || table.range(..).map(|row| row.unwrap().0).collect::<Vec<_>>();
    (0..200).for_each(|i| table.put(&key(4 * i), &[1; 100]).unwrap());
    let before = rows();
    let tx = db.begin().unwrap();
    (0..100).for_each(|i| assert!(tx.bytes(&table).remove(&key(4 * i)).unwrap()));
    let snapshot = db.snapshot().unwrap();
    (100..200).for_each(|i| assert!(table.remove(&key(4 * i)).unwrap()));
    (0..200).for_each(|i| table.put(&key(4 * i + 1), &[2; 100]).unwrap());
    tx.rollback().unwrap();
    let seen: Vec<_> = snapshot.bytes(&table).range(..).map(|row| row.unwrap().0).collect();
    assert_eq!(seen, before);
    let mut now: Vec<_> = (0..200).map(|i| key(4 * i + 1).to_vec()).collect();
    now.extend((0..100).map(|i| key(4 * i).to_vec()));
    now.sort();
    assert_eq!(rows(), now);
    db.check().unwrap();
}

/// A ghost that a rollback brings back goes too, although its author's garbage was cleared when it was none.
#[test]
fn ghosts_that_come_back_go_again() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    t.put(b"k", b"1").unwrap();
    let snapshot = db.snapshot().unwrap();
    t.remove(b"k").unwrap();
    let tx = db.begin().unwrap();
    tx.bytes(&t).put(b"k", b"2").unwrap();
    drop(snapshot);
    std::thread::sleep(Duration::from_millis(300)); // the removal's garbage is cleared
    tx.rollback().unwrap();
    let ghosts = || db.check().unwrap().tables.iter().map(|table| table.ghosts).sum::<u64>();
    let since = Instant::now();
    while ghosts() > 0 {
        assert!(since.elapsed() < Duration::from_secs(10), "the ghost stays for ever");
    }
}

/// However long a snapshot stays open, a change of a row costs the same, and so does forgetting what it replaced.
#[test]
fn a_busy_row_stays_fast_under_open_snapshots() {
    const CHANGES: u32 = 100_000;
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("t").unwrap();
    table.put(b"k", &0u32.to_le_bytes()).unwrap();
    let begun = Instant::now();
    let first = db.snapshot().unwrap();
    let change = |i: u32| db.transact(|tx| tx.bytes(&table).put(b"k", &i.to_le_bytes())).unwrap();
    (1..=CHANGES / 2).for_each(change);
    let second = db.snapshot().unwrap();
    (CHANGES / 2 + 1..=CHANGES).for_each(change);
    let seen = |snapshot: &foreshore::Snapshot| snapshot.bytes(&table).get(b"k").unwrap();
    assert_eq!(seen(&first), Some(0u32.to_le_bytes().to_vec()));
    assert_eq!(seen(&second), Some((CHANGES / 2).to_le_bytes().to_vec()));
    drop(first);
    assert_eq!(seen(&second), Some((CHANGES / 2).to_le_bytes().to_vec()));
    drop(second);
    while db.stats().image_bytes > 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "it takes longer with each change");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(table.get(b"k").unwrap(), Some(CHANGES.to_le_bytes().to_vec()));
}
