//! Snapshots: they see one point in time, within a budget of old versions, and what is kept for them goes.

mod common;

use common::{Rng, env, rows, small, tiny};
use foreshore::{Database, Durability, Error, Result, Transaction, TransactionOptions};
use foreshore_io::{SimDisk, sim::Crash};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
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
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(left(), (0, 0), "old versions and ghosts go when nobody can see them");
}

/// Keys alone are those of the rows that a scan shows, whatever has become of these since, and how large they were or are.
#[test]
fn scans_of_keys_show_the_same_rows() {
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("t").unwrap();
    let put = |n: u32, bytes: usize| table.put(&n.to_be_bytes(), &vec![b'x'; bytes]).unwrap();
    (0..1000).for_each(|n| put(n, if n % 50 == 0 { 20_000 } else { 10 }));
    let snapshot = db.snapshot().unwrap();
    for n in 0..1500_u32 {
        match n % 3 {
            0 => _ = table.remove(&n.to_be_bytes()).unwrap(),
            1 => put(n, if n % 70 == 1 { 20_000 } else { 20 }),
            _ => {}
        }
    }
    let old = snapshot.bytes(&table);
    for (from, to) in [(0, 2000), (17, 18), (50, 451), (999, 1002), (1400, 1300)] {
        let bounds = || from_to(from, to);
        let (mut rows, mut keys) = (Vec::new(), Vec::new());
        for is_old in [true, false] {
            let row = |key: &[u8], _: &[u8]| {
                rows.push(key.to_vec());
                go_on(())
            };
            let shown = if is_old { old.scan(bounds(), row) } else { table.scan(bounds(), row) };
            let key = |key: &[u8]| {
                keys.push(key.to_vec());
                go_on(())
            };
            let named = if is_old { old.scan_keys(bounds(), key) } else { table.scan_keys(bounds(), key) };
            shown.and(named).unwrap();
            assert_eq!(rows, keys, "{from} to {to}, old: {is_old}");
        }
    }
}

fn from_to(from: u32, to: u32) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    (Bound::Included(from.to_be_bytes().to_vec()), Bound::Excluded(to.to_be_bytes().to_vec()))
}

fn go_on((): ()) -> ControlFlow<()> {
    ControlFlow::Continue(())
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

/// What a large transaction has replaced is on disk, when it has committed, too: no snapshot is given up for it.
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
    thread::sleep(Duration::from_millis(300));
    assert_eq!(snapshot.bytes(&t).get(&[7]).unwrap(), Some(vec![0; 1000]));
    tx.commit().unwrap();
    thread::sleep(Duration::from_millis(300)); // now they are kept for the snapshot only
    assert!(snapshot.bytes(&t).range(..).map(Result::unwrap).all(|(_, value)| value == [0; 1000]));
    assert_eq!(t.get(&[7]).unwrap(), Some(vec![1; 1000]));
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
    thread::sleep(Duration::from_millis(300)); // the removal's garbage is cleared
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
    change_often(true);
    change_often(false);
}

/// In transactions, or outside.
fn change_often(alone: bool) {
    const CHANGES: u32 = 100_000;
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("t").unwrap();
    table.put(b"k", &0u32.to_le_bytes()).unwrap();
    let begun = Instant::now();
    let first = db.snapshot().unwrap();
    let change = |i: u32| match alone {
        true => table.put(b"k", &i.to_le_bytes()).unwrap(),
        false => db.transact(|tx| tx.bytes(&table).put(b"k", &i.to_le_bytes())).unwrap(),
    };
    (1..=CHANGES / 2).for_each(change);
    let second = db.snapshot().unwrap();
    (CHANGES / 2 + 1..=CHANGES).for_each(change);
    let seen = |snapshot: &foreshore::Snapshot| snapshot.bytes(&table).get(b"k").unwrap();
    assert_eq!(seen(&first), Some(0u32.to_le_bytes().to_vec()));
    assert_eq!(seen(&second), Some((CHANGES / 2).to_le_bytes().to_vec()));
    assert!(db.stats().image_bytes < 1000, "each of them needs one old version");
    drop(first);
    assert_eq!(seen(&second), Some((CHANGES / 2).to_le_bytes().to_vec()));
    drop(second);
    while db.stats().image_bytes > 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "it takes longer with each change");
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(table.get(b"k").unwrap(), Some(CHANGES.to_le_bytes().to_vec()));
}

/// Each snapshot goes on seeing what it saw at first, whatever a few transactions and single writes do to a few rows at a time, and
/// whichever snapshots close before others.
#[test]
fn each_snapshot_sees_its_own_point() {
    (0..env("FORESHORE_ROUNDS", 8)).for_each(|round| watch_snapshots(env("FORESHORE_SEED", 11) + round));
}

const KEYS: usize = 5;
type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// A transaction that is open, and what it has changed: no value, it has removed the row.
type Open = (Transaction, BTreeMap<Vec<u8>, Option<Vec<u8>>>);

fn watch_snapshots(seed: u64) {
    let mut rng = Rng(seed * 2 + 1);
    let db = small();
    let table = db.byte_table("t").unwrap().with_lock_timeout(Duration::ZERO);
    let (mut now, mut open, mut snapshots) = (Rows::new(), Vec::<Open>::new(), Vec::new());
    for step in 0..4000 {
        let key = vec![b'a' + rng.below(KEYS) as u8];
        // Others have the row locked now and then.
        let value = (rng.below(3) > 0).then(|| vec![step as u8; rng.below(40)]);
        match rng.below(10) {
            0..3 => {
                let done = match &value {
                    Some(value) => table.put(&key, value),
                    None => table.remove(&key).map(drop),
                };
                if done.is_ok() {
                    apply(&mut now, (key, value));
                }
            }
            3..5 if !open.is_empty() => {
                let at = rng.below(open.len());
                let (tx, changed) = &mut open[at];
                let rows = tx.bytes(&table);
                let done = match &value {
                    Some(value) => rows.put(&key, value),
                    None if rng.below(4) == 0 => rows.range(..).next().transpose().map(drop),
                    None => rows.remove(&key).map(drop),
                };
                if done.is_ok() && (value.is_some() || rows.get(&key).is_ok_and(|seen| seen.is_none())) {
                    changed.insert(key, value);
                }
            }
            5 if !open.is_empty() => {
                let (tx, changed) = open.swap_remove(rng.below(open.len()));
                if rng.below(3) == 0 {
                    tx.rollback().unwrap();
                } else {
                    tx.commit().unwrap();
                    changed.into_iter().for_each(|row| apply(&mut now, row));
                }
            }
            6 if open.len() < 3 => {
                let options = TransactionOptions::new().lock_timeout(Duration::ZERO);
                open.push((db.begin_with(options).unwrap(), BTreeMap::new()));
            }
            7 if snapshots.len() < 4 => snapshots.push((db.snapshot().unwrap(), now.clone())),
            8 if !snapshots.is_empty() => {
                drop(snapshots.swap_remove(rng.below(snapshots.len())));
            }
            _ => {}
        }
        for (snapshot, then) in &snapshots {
            let seen: Rows = snapshot.bytes(&table).range(..).collect::<Result<_>>().unwrap();
            assert_eq!(&seen, then, "seed {seed}, step {step}");
            let key = vec![b'a' + rng.below(KEYS) as u8];
            assert_eq!(snapshot.bytes(&table).get(&key).unwrap().as_ref(), then.get(&key));
        }
        let seen: Rows = table.range(..).collect::<Result<_>>().unwrap();
        assert_eq!(seen, now, "seed {seed}, step {step}");
    }
    open.into_iter().for_each(|(tx, _)| tx.rollback().unwrap());
    drop(snapshots);
    let left = || (db.stats().image_bytes, db.check().unwrap().tables[1].ghosts);
    let since = Instant::now();
    while left() != (0, 0) {
        assert!(since.elapsed() < Duration::from_secs(20), "seed {seed}: {:?} are left", left());
        thread::sleep(Duration::from_millis(5));
    }
}

fn apply(rows: &mut Rows, (key, value): (Vec<u8>, Option<Vec<u8>>)) {
    match value {
        Some(value) => _ = rows.insert(key, value),
        None => _ = rows.remove(&key),
    }
}

/// What a snapshot sees does not change while threads write, and it sees transactions whole.
#[test]
fn snapshots_do_not_move_beside_writers() {
    const PAIRS: u8 = 3;
    let db = small();
    let table = db.byte_table("t").unwrap();
    let done = AtomicBool::new(false);
    let seed = env("FORESHORE_SEED", 11);
    thread::scope(|scope| {
        for writer in 0..2u64 {
            let (db, table, done) = (&db, &table, &done);
            scope.spawn(move || {
                let mut rng = Rng(seed * 7 + writer);
                while !done.load(Relaxed) {
                    let (pair, value) = (rng.below(PAIRS.into()) as u8, rng.next().to_le_bytes());
                    db.transact(|tx| {
                        for key in [[pair, 0], [pair, 1]] {
                            match value[0] % 3 {
                                0 => tx.bytes(table).remove(&key).map(drop)?,
                                _ => tx.bytes(table).put(&key, &value)?,
                            }
                        }
                        Ok(())
                    })
                    .unwrap();
                    let alone = [PAIRS + rng.below(3) as u8, 0];
                    match value[1] % 3 {
                        0 => table.remove(&alone).map(drop).unwrap(),
                        _ => table.put(&alone, &value).unwrap(),
                    }
                }
            });
        }
        let reader = |reader: u64| {
            let (db, table) = (&db, &table);
            scope.spawn(move || {
                for look in 0..env("FORESHORE_LOOKS", 300) {
                    let snapshot = db.snapshot().unwrap();
                    let see = || snapshot.bytes(table).range(..).collect::<Result<Rows>>().unwrap();
                    let seen = see();
                    for pair in 0..PAIRS {
                        let [first, second] = [[pair, 0], [pair, 1]].map(|key| seen.get(&key[..]));
                        assert_eq!(first, second, "half a transaction");
                    }
                    // One reader keeps its snapshots for long, the other one opens and closes many meanwhile.
                    for _ in 0..if reader == 0 { 50 } else { look % 3 } {
                        assert_eq!(see(), seen);
                    }
                }
            })
        };
        let readers = [0, 1].map(reader);
        let ended = readers.map(|reader| reader.join());
        done.store(true, Relaxed);
        ended.into_iter().for_each(|reader| reader.unwrap());
    });
    let since = Instant::now();
    while db.stats().image_bytes != 0 {
        assert!(since.elapsed() < Duration::from_secs(20), "{} bytes are left", db.stats().image_bytes);
        thread::sleep(Duration::from_millis(5));
    }
}
