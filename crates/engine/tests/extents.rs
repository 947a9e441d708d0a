//! The largest values lie in extents of a file of their own, past the log: they come back whatever happens, and so does the
//! space that they took.

mod common;

use common::{Rng, bytes, env, in_parallel, tiny};
use foreshore::{ByteTable, Database, Durability, Error, Snapshot, TransactionBytes};
use foreshore_io::sim::{Call, Crash, EventKind, Fault, Intercepted, Repeat};
use foreshore_io::{Access, SimDisk, Vfs};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const FILE: &str = "blobs.db";

/// In a database of [`tiny`] a value that has so many bytes outside of its row lies in extents of so many at most.
const FROM: usize = 16 * 4096;
const EXTENT: usize = 512 * 4096;
/// Bytes that stay in the row, at most.
const HEAD: usize = 1024;

fn open_as(disk: &SimDisk, durability: Durability) -> Result<Database, Error> {
    tiny().durability(durability).open_on(Arc::new(disk.clone()))
}

fn open(disk: &SimDisk) -> Database {
    open_as(disk, Durability::Buffered).unwrap()
}

fn fresh() -> (SimDisk, Database, ByteTable) {
    let disk = SimDisk::new(0);
    let db = open(&disk);
    let table = db.byte_table("t").unwrap();
    (disk, db, table)
}

fn file_bytes(disk: &SimDisk) -> u64 {
    disk.open(FILE, Access::Buffered, false).map_or(0, |file| file.len().unwrap())
}

/// Everything that nobody needs is gone, and belongs to nobody.
fn settled(db: &Database) -> u64 {
    loop {
        let report = db.check().unwrap();
        let sum = |count: fn(&foreshore::TableReport) -> u64| report.tables.iter().map(count).sum::<u64>();
        assert_eq!(sum(|table| table.large_stray), 0, "{report:?}");
        if sum(|table| table.large_dead) == 0 {
            return sum(|table| table.large_values);
        }
        thread::yield_now(); // the background thread clears up in a while
    }
}

#[test]
fn every_size_comes_back() {
    let (disk, db, table) = fresh();
    let edges = [FROM, FROM + HEAD, EXTENT, EXTENT + HEAD, 2 * EXTENT + HEAD];
    let sizes = edges.iter().flat_map(|edge| [edge - 30, edge - 1, *edge, edge + 1]).chain([5 << 20]);
    let sizes: Vec<_> = sizes.enumerate().collect();
    for (i, size) in &sizes {
        table.put(&[*i as u8], &bytes(*i as u64, *size)).unwrap();
    }
    let all_there = |table: &ByteTable| {
        for (i, size) in &sizes {
            assert!(table.get(&[*i as u8]).unwrap() == Some(bytes(*i as u64, *size)), "{size} bytes");
        }
    };
    all_there(&table);
    assert_eq!(settled(&db), sizes.len() as u64);
    let copy = SimDisk::new(1);
    db.backup_on(Arc::new(copy.clone()), |_| {}).unwrap();
    drop((table, db));
    for disk in [&disk, &copy] {
        let db = open(disk);
        all_there(&db.byte_table("t").unwrap());
        assert_eq!(settled(&db), sizes.len() as u64);
    }
}

/// What is written past the log is not in it, and is written once.
#[test]
fn the_log_does_not_hold_them() {
    let (disk, db, table) = fresh();
    let before = db.stats();
    disk.start_trace();
    table.put(b"k", &bytes(1, 1 << 20)).unwrap();
    let logged = db.stats().log_bytes - before.log_bytes;
    assert!(logged < 8192, "{logged} bytes of log");
    let written: u64 = disk
        .trace()
        .iter()
        .map(|event| match &event.kind {
            EventKind::Write { bytes, .. } => *bytes as u64,
            _ => 0,
        })
        .sum();
    let value = 1 << 20;
    assert!((value - 4096..value + (64 << 10)).contains(&written), "{written} bytes written");
}

/// Overwritten, removed, rolled back: the file does not grow. The next open cuts off what is free at its end.
#[test]
fn space_is_used_again() {
    let (disk, db, table) = fresh();
    let largest = 3 * FROM as u64;
    for version in 0..40 {
        table.put(b"k", &bytes(version, 2 * FROM + version as usize)).unwrap();
        let tx = db.begin().unwrap();
        tx.bytes(&table).put(b"k", &bytes(version, 2 * FROM)).unwrap();
        tx.rollback().unwrap();
        db.sync().unwrap();
    }
    assert!(file_bytes(&disk) <= 4 * largest, "{} bytes", file_bytes(&disk));
    table.remove(b"k").unwrap();
    assert_eq!(settled(&db), 0);
    drop(table);
    db.close().unwrap();
    let db = open(&disk);
    assert_eq!(file_bytes(&disk), 0, "nobody is left");
    let table = db.byte_table("t").unwrap();
    table.put(b"again", &bytes(1, 2 * FROM)).unwrap();
    assert!(table.get(b"again").unwrap() == Some(bytes(1, 2 * FROM)));
}

#[test]
fn a_dropped_table_gives_its_space_back() {
    let (disk, db, kept) = fresh();
    kept.put(b"k", &bytes(0, 2 * FROM)).unwrap();
    for round in 0..10 {
        let table = db.byte_table("passing").unwrap();
        (0..5).for_each(|i| table.put(&[i], &bytes(round, 2 * FROM)).unwrap());
        db.drop_table("passing").unwrap();
    }
    assert!(file_bytes(&disk) <= 14 * FROM as u64, "{} bytes", file_bytes(&disk));
    assert!(kept.get(b"k").unwrap() == Some(bytes(0, 2 * FROM)));
    assert_eq!(settled(&db), 1);
}

/// Also where no commit asks for the log to reach the disk: that one value is replaced again and again must not fill the disk.
#[test]
fn space_is_used_again_though_nobody_waits_for_the_log() {
    let disk = SimDisk::new(0);
    let db = open_as(&disk, Durability::Relaxed).unwrap();
    let [table, passing] = ["t", "passing"].map(|name| db.byte_table(name).unwrap());
    let put = |table: &ByteTable, version| table.put(b"k", &bytes(version, 2 * FROM)).unwrap();
    let is_free_soon = || {
        let (logged, since) = (db.stats().log_bytes, Instant::now());
        while db.stats().log_durable_lsn < logged {
            assert!(since.elapsed() < Duration::from_secs(60), "what was freed is not used again");
            thread::yield_now();
        }
    };
    put(&passing, 0);
    (0..2).for_each(|version| put(&table, version));
    is_free_soon();
    let before = file_bytes(&disk);
    put(&table, 2);
    assert_eq!(file_bytes(&disk), before);
    db.drop_table("passing").unwrap();
    is_free_soon();
    put(&table, 3);
    assert_eq!(file_bytes(&disk), before);
}

/// A snapshot keeps what it sees, and its space.
#[test]
fn snapshots_keep_what_they_see() {
    let (_disk, db, table) = fresh();
    table.put(b"k", &bytes(0, 2 * FROM)).unwrap();
    let snapshot = db.snapshot().unwrap();
    for version in 1..10 {
        table.put(b"k", &bytes(version, 2 * FROM)).unwrap();
        db.sync().unwrap();
        assert!(snapshot.bytes(&table).get(b"k").unwrap() == Some(bytes(0, 2 * FROM)), "version {version}");
    }
    drop(snapshot);
    table.put(b"another", b"commit").unwrap();
    assert_eq!(settled(&db), 1);
}

/// A large value waits for no snapshot that does not see it: neither for one from before it, nor, once a later one is closed that had
/// seen it, for the earlier ones. Nor does one that was rolled back.
#[test]
fn what_no_snapshot_sees_is_not_kept() {
    let (_disk, db, table) = fresh();
    let value = |version: u64| bytes(version, 2 * FROM);
    let dead = || db.check().unwrap().tables.iter().map(|table| table.large_dead).sum::<u64>();
    let wait_for = |most: u64| {
        let since = Instant::now();
        while dead() > most {
            assert!(since.elapsed() < Duration::from_secs(20), "{} wait, and {most} are seen", dead());
            thread::yield_now();
        }
    };
    table.put(b"k", &value(0)).unwrap();
    let first = db.snapshot().unwrap();
    let before = db.stats().blob_file_bytes;
    for version in 1..40 {
        table.put(b"k", &value(version)).unwrap();
        let tx = db.begin().unwrap();
        tx.bytes(&table).put(b"k", &value(100 + version)).unwrap();
        tx.rollback().unwrap();
        db.sync().unwrap();
    }
    wait_for(1);
    let grown = db.stats().blob_file_bytes - before;
    assert!(grown <= 20 * FROM as u64, "{grown} bytes");
    let images = db.stats().image_bytes;
    assert!(images <= 2 * HEAD as u64, "{images} bytes for the row as it was");
    let second = db.snapshot().unwrap();
    (40..50).for_each(|version| table.put(b"k", &value(version)).unwrap());
    wait_for(2);
    let seen =
        |snapshot: &Snapshot, version| snapshot.bytes(&table).get(b"k").unwrap() == Some(value(version));
    assert!(seen(&first, 0) && seen(&second, 39) && dead() == 2);
    drop(second);
    wait_for(1);
    assert!(seen(&first, 0) && dead() == 1);
    drop(first);
    wait_for(0);
}

/// What a life does: replaces and removes large values, alone and in transactions of every end. `note` is told before each step
/// what the rows may be after it, and after it that they are so.
fn live(db: &Database, seed: u64, mut note: impl FnMut(&Rows, bool)) -> Result<(), Error> {
    let mut rng = Rng(seed);
    let mut rows = Rows::new();
    let table = db.byte_table("t")?;
    for step in 0..14 {
        let (key, len) = (
            vec![rng.below(3) as u8],
            [0, FROM / 2, FROM + HEAD, 2 * FROM, 3 * FROM][rng.below(5)] + rng.below(FROM / 3),
        );
        let value = bytes(rng.next(), len);
        let mut after = rows.clone();
        match rng.below(6) {
            0 => _ = after.remove(&key),
            _ => _ = after.insert(key.clone(), value.clone()),
        }
        let tx = db.begin()?;
        match after.get(&key) {
            None => _ = tx.bytes(&table).remove(&key)?,
            Some(value) => tx.bytes(&table).put(&key, value)?,
        }
        match rng.below(5) {
            0 => {
                tx.rollback()?;
                continue;
            }
            1 => {
                note(&after, false);
                tx.prepare([step])?;
                db.commit_prepared([step])?;
            }
            _ => {
                note(&after, false);
                tx.commit()?;
            }
        }
        rows = after;
        note(&rows, true);
        if step == 7 {
            db.checkpoint()?;
        }
    }
    Ok(())
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// What a life did before something happened to its disk: its states from the last acknowledged one on.
#[derive(Default)]
struct Possible(Vec<Rows>);

impl Possible {
    fn note(&mut self, rows: &Rows, acknowledged: bool) {
        if acknowledged {
            self.0.clear();
        }
        self.0.push(rows.clone());
    }

    #[track_caller]
    fn ensure(&self, disk: &SimDisk, what: &str) {
        let db = open_as(disk, Durability::Sync).unwrap_or_else(|e| panic!("{what}: {e}"));
        for gid in db.recover() {
            db.rollback_prepared(&gid).unwrap();
        }
        let table = db.byte_table("t").unwrap();
        let rows: Rows = table.range(..).collect::<Result<_, _>>().unwrap_or_else(|e| panic!("{what}: {e}"));
        assert!(self.0.is_empty() && rows.is_empty() || self.0.contains(&rows), "{what}: {:?}", rows.keys());
        let large = rows.values().filter(|value| value.len() > 1024).count();
        assert_eq!(settled(&db), large as u64, "{what}");
        let stats = db.stats();
        let used = stats.blob_file_bytes - stats.blob_free_bytes;
        let in_extents =
            rows.values().map(|value| value.len() as u64).filter(|len| *len >= (FROM + HEAD) as u64);
        let most = in_extents.clone().map(|len| len.next_multiple_of(4096)).sum::<u64>();
        assert!((most - 4096 * in_extents.count() as u64..=most).contains(&used), "{what}: {used} of {most}");
        // And on it goes, in what space is free.
        table.put(b"on", &bytes(1, 2 * FROM)).unwrap_or_else(|e| panic!("{what}: {e}"));
        let kept: Rows = table.range(..).collect::<Result<_, _>>().unwrap_or_else(|e| panic!("{what}: {e}"));
        assert!(rows.iter().all(|(key, value)| kept.get(key) == Some(value)), "{what}");
    }
}

/// A crash at any I/O: what was acknowledged is there, whole, and nothing else.
#[test]
fn every_crash_keeps_what_was_acknowledged() {
    let seed = env("FORESHORE_SEED", 1);
    let events = {
        let disk = SimDisk::new(seed);
        let db = open_as(&disk, Durability::Sync).unwrap();
        live(&db, seed, |_, _| {}).unwrap();
        db.close().unwrap();
        disk.events()
    };
    let events: Vec<_> = (1..=events).collect();
    in_parallel(&events, |&event| {
        for kind in [Crash::PowerLoss, Crash::ProcessKill] {
            let disk = SimDisk::new(seed);
            disk.crash_at(event);
            let mut possible = Possible(vec![Rows::new()]);
            let lived = open_as(&disk, Durability::Sync)
                .and_then(|db| live(&db, seed, |rows, done| possible.note(rows, done && !disk.is_crashed())));
            assert!(lived.is_ok() || disk.is_crashed(), "seed {seed}, event {event}: {lived:?}");
            possible.ensure(
                &disk.after_crash(kind, seed ^ event),
                &format!("seed {seed}, event {event}, {kind:?}"),
            );
        }
    });
}

/// When commits do not wait for the log, a power failure takes the last ones back: to values whose space is not used again before they
/// are gone for good.
#[test]
fn what_a_power_failure_brings_back_is_whole() {
    let first = env("FORESHORE_SEED", 0);
    for seed in first..first + env("FORESHORE_ROUNDS", 60) {
        let disk = SimDisk::new(seed);
        let db = open_as(&disk, Durability::Relaxed).unwrap();
        let mut states = vec![Rows::new()];
        live(&db, seed, |rows, done| states.extend(done.then(|| rows.clone()))).unwrap();
        let possible = Possible(states);
        possible.ensure(&disk.after_crash(Crash::PowerLoss, seed), &format!("seed {seed}"));
    }
}

/// Each write and sync fails once, or from then on: a typed error, nothing acknowledged is lost, nothing panics.
#[test]
fn every_write_and_sync_may_fail() {
    // The database is there: what a failed sync of the directory loses while it is made nobody can know (docs/recovery.md).
    let made = |seed: u64| {
        let disk = SimDisk::new(seed);
        open_as(&disk, Durability::Sync).unwrap().close().unwrap();
        disk
    };
    let seed = env("FORESHORE_SEED", 1);
    let events = {
        let disk = made(seed);
        live(&open_as(&disk, Durability::Sync).unwrap(), seed, |_, _| {}).unwrap();
        disk.events()
    };
    let events: Vec<_> = (made(seed).events()..=events).collect();
    in_parallel(&events, |&event| {
        for fault in [Fault::Eio, Fault::Enospc, Fault::ShortWrite] {
            for repeat in [Repeat::Once, Repeat::Forever] {
                let what = format!("seed {seed}, {fault:?} at event {event}, {repeat:?}");
                let disk = made(seed);
                disk.fail_at(event, fault, repeat);
                let mut possible = Possible(vec![Rows::new()]);
                let lived = open_as(&disk, Durability::Sync)
                    .and_then(|db| live(&db, seed, |rows, done| possible.note(rows, done)));
                if let Err(e) = lived {
                    let typed = matches!(e, Error::Full { .. } | Error::Poisoned { .. } | Error::Io { .. });
                    assert!(typed, "{what}: {e:?}");
                }
                possible.ensure(&disk.after_crash(Crash::PowerLoss, event), &what);
            }
        }
    });
}

/// On a full disk a large value is refused, nothing changes, and what others gave up is found before that.
#[test]
fn a_full_disk_is_a_clean_error() {
    let (disk, db, table) = fresh();
    table.put(b"old", &bytes(0, 4 * FROM)).unwrap();
    db.checkpoint().unwrap();
    disk.set_capacity(disk.used_bytes() + FROM as u64);
    for _ in 0..3 {
        let refused = table.put(b"new", &bytes(1, 4 * FROM)).unwrap_err();
        assert!(matches!(&refused, Error::Full { what } if what.contains(FILE)), "{refused}");
        assert_eq!(table.get(b"new").unwrap(), None);
    }
    table.remove(b"old").unwrap();
    assert_eq!(settled(&db), 0);
    table.put(b"new", &bytes(1, 4 * FROM)).unwrap();
    assert!(
        table.get(b"new").unwrap() == Some(bytes(1, 4 * FROM)),
        "in the place of the old one, before that had rested"
    );
}

/// Who finds no space for more of the file cuts it to the length that it had, and nothing of what others write meanwhile: also
/// after a power failure that has kept a row which names an extent, and not the file's growth for that.
#[test]
fn who_finds_no_space_cuts_nothing_off() {
    let left = (0..).map(|seed| {
        let (disk, db, table) = fresh();
        let tx = db.begin().unwrap();
        tx.bytes(&table).put(b"lost", &bytes(0, 4 * FROM)).unwrap();
        db.sync().unwrap();
        disk.after_crash(Crash::PowerLoss, seed)
    });
    let disk = left.take(100).find(|disk| file_bytes(disk) == 0).expect("growth is lost now and then");

    let is_armed = Arc::new(AtomicBool::new(false));
    let (placed, has_place) = channel();
    let vfs = Intercepted::new(disk.clone(), {
        let (disk, is_armed, beside) = (disk.clone(), is_armed.clone(), Barrier::new(2));
        let (placed, is_first) = (Mutex::new(placed), AtomicBool::new(true));
        move |call, name, go| match call {
            Call::Write if name == FILE && is_armed.load(SeqCst) => {
                placed.lock().unwrap().send(()).unwrap();
                beside.wait();
                go()?;
                beside.wait();
                Ok(())
            }
            // As a file system does that takes what there is before it finds that it is too little.
            Call::Allocate if name == FILE && is_armed.load(SeqCst) => {
                let file = disk.open(FILE, Access::Buffered, false)?;
                let before = file.len()?;
                if is_first.swap(false, SeqCst) {
                    beside.wait();
                    beside.wait();
                }
                file.set_len(before)?;
                Err(io::ErrorKind::StorageFull.into())
            }
            _ => go(),
        }
    });
    let db = tiny().durability(Durability::Sync).open_on(Arc::new(vfs)).unwrap();
    let table = db.byte_table("t").unwrap();
    assert_eq!(settled(&db), 0);
    db.sync().unwrap();
    is_armed.store(true, SeqCst);
    thread::scope(|scope| {
        let put = scope.spawn(|| table.put(b"k", &bytes(1, 2 * FROM)));
        has_place.recv().unwrap();
        let refused = table.put(b"other", &bytes(2, 20 * FROM)).unwrap_err();
        assert!(matches!(refused, Error::Full { .. }), "{refused}");
        put.join().unwrap().unwrap();
    });
    assert!(table.get(b"k").unwrap() == Some(bytes(1, 2 * FROM)));
}

/// A sync that failed is not tried again: nobody who waited for it commits.
#[test]
fn a_failed_sync_stops_the_database() {
    let mut failed = 0;
    // Which event it is depends on when the log's threads come to theirs.
    for event in 0..12 {
        let (disk, db, table) = fresh();
        table.put(b"k", &bytes(0, 2 * FROM)).unwrap();
        db.sync().unwrap();
        disk.fail_at(disk.events() + event, Fault::Eio, Repeat::Once);
        match table.put(b"k", &bytes(1, 2 * FROM)) {
            Err(Error::Poisoned { cause }) if cause.contains("syncing blobs.db") => failed += 1,
            _ => continue,
        }
        for value in [&b"small"[..], &bytes(2, 2 * FROM)] {
            assert!(matches!(table.put(b"other", value), Err(Error::Poisoned { .. })));
        }
        assert!(table.get(b"k").unwrap() == Some(bytes(0, 2 * FROM)), "reads go on");
        drop((table, db));
        let db = open(&disk.after_crash(Crash::PowerLoss, 1));
        assert!(db.byte_table("t").unwrap().get(b"k").unwrap() == Some(bytes(0, 2 * FROM)));
    }
    assert!(failed > 0, "no sync of the file was hit");
}

/// Writers replace values beside each other, tables come and go, snapshots read: each value is whole, and at the end all space is
/// accounted for.
#[test]
fn values_are_whole_beside_writers() {
    let (_disk, db, table) = fresh();
    // A value tells its length by its first byte.
    let value = |version: u8| vec![version; FROM + HEAD + 5000 * usize::from(version % 16)];
    let whole = |found: &[u8]| assert!(found == value(found[0]), "version {}", found[0]);
    thread::scope(|scope| {
        for writer in 0..3u8 {
            let (db, table) = (&db, &table);
            scope.spawn(move || {
                for version in 0..60u8 {
                    table.put(&[version % 4], &value(version)).unwrap();
                    let name = format!("of {writer}");
                    let passing = db.byte_table(&name).unwrap();
                    passing.put(b"k", &value(version)).unwrap();
                    passing.get(b"k").unwrap().iter().for_each(|found| whole(found));
                    if version % 5 == 0 {
                        table.remove(&[version % 4]).unwrap();
                        db.drop_table(&name).unwrap();
                    }
                }
            });
        }
        for _ in 0..60 {
            let snapshot = db.snapshot().unwrap();
            let rows =
                || snapshot.bytes(&table).range(..).map(Result::unwrap).inspect(|(_, found)| whole(found));
            assert!(rows().eq(rows()), "a snapshot sees the same twice");
            (0..4).filter_map(|key| table.get(&[key]).unwrap()).for_each(|found| whole(&found));
        }
    });
    table.put(b"another", b"commit").unwrap();
    let values = settled(&db);
    let stats = db.stats();
    let used = stats.blob_file_bytes - stats.blob_free_bytes;
    assert!(
        (values * FROM as u64..values * 3 * FROM as u64).contains(&used),
        "{used} bytes for {values} values"
    );
}

/// Large values that follow one another wait for the device together; where the order is broken, those before stay.
#[test]
fn a_load_waits_once_for_many() {
    let (disk, _db, table) = fresh();
    let row = |key: u8| (vec![key], bytes(key.into(), 2 * FROM));
    disk.start_trace();
    let broken = table.bulk_load((0..40).chain([7]).map(row));
    assert!(matches!(broken, Err(Error::BulkLoad { .. })));
    let trace = disk.trace();
    let syncs = trace.iter().filter(|event| event.kind == EventKind::Sync && event.name == FILE);
    assert_eq!(syncs.count(), 1, "for 40 values");
    assert!(table.range(..).map(Result::unwrap).eq((0..40).map(row)));
    let between = [(vec![50], vec![1]), (vec![60], bytes(60, 3 * FROM)), (vec![61], vec![2])];
    assert_eq!(table.bulk_load(between.clone()).unwrap(), 3);
    assert!(table.range(&[50][..]..).map(Result::unwrap).eq(between));
}

/// A file that is missing, cut, or has other bytes: the value is named as damaged; all else can be read, and written.
#[test]
fn damage_is_named() {
    type Damage = fn(&SimDisk);
    let damage: [(&str, Damage); 3] = [
        ("ends before", |disk| disk.remove(FILE).unwrap()),
        ("ends before", |disk| disk.corrupt(FILE, |file| file.truncate(2 * FROM))),
        ("checksum", |disk| disk.corrupt(FILE, |file| file[3 * FROM / 2] ^= 1)),
    ];
    for (how, damage) in damage {
        let (disk, db, table) = fresh();
        table.put(b"k\x01", &bytes(0, 3 * FROM)).unwrap();
        table.put(b"small", b"v").unwrap();
        drop(table);
        db.close().unwrap();
        damage(&disk);
        let db = open(&disk);
        let table = db.byte_table("t").unwrap();
        for (reader, damaged) in every_reader(&db, &table, b"k\x01") {
            let told = damaged.to_string();
            let begins = told.starts_with(r#"the large value of row k\x01 of table "t" is damaged: "#);
            assert!(begins && told.contains(how), "{reader}: {told}");
            assert!(told.ends_with("; put or remove that row"), "{reader}: {told}");
        }
        assert_eq!(table.get(b"small").unwrap().as_deref(), Some(&b"v"[..]));
        table.put(b"k\x01", &bytes(1, 2 * FROM)).unwrap();
        table.put(b"l", &bytes(2, 2 * FROM)).unwrap();
        assert_eq!(settled(&db), 2, "{how}: it can be replaced");
    }
}

/// What each way to read the only large value of a table comes to, where that cannot be read.
fn every_reader(db: &Database, table: &ByteTable, key: &[u8]) -> Vec<(&'static str, Error)> {
    let in_transaction = |read: &dyn Fn(TransactionBytes<'_>) -> Result<(), Error>| {
        db.transact(|tx| read(tx.bytes(table))).unwrap_err()
    };
    vec![
        ("get", table.get(key).unwrap_err()),
        ("multi_get", table.multi_get(&[key]).unwrap_err()),
        ("range", table.range(..).find_map(Result::err).unwrap()),
        ("snapshot", db.snapshot().unwrap().bytes(table).get(key).unwrap_err()),
        ("get locked", in_transaction(&|t| t.get(key).map(drop))),
        ("get_for_update", in_transaction(&|t| t.get_for_update(key).map(drop))),
        ("range locked", in_transaction(&|t| t.range(..).try_for_each(|row| row.map(drop)))),
        ("check", db.check().unwrap_err()),
    ]
}

/// Who has several damaged values in a table is told of all at once, and when these are put or removed everything is in order.
#[test]
fn a_check_tells_the_rows_of_all_damaged_values() {
    let (disk, db, table) = fresh();
    let value = |key: u8| bytes(key.into(), 2 * FROM);
    (b'a'..=b'e').for_each(|key| table.put(&[key], &value(key)).unwrap());
    drop(table);
    db.close().unwrap();
    disk.corrupt(FILE, |file| {
        for key in *b"bde" {
            // What lies outside of the row is the end of the value.
            let outside = &value(key)[HEAD..HEAD + 64];
            let at = file.windows(64).position(|bytes| bytes == outside).unwrap();
            file[at] ^= 1;
        }
    });
    let db = open(&disk);
    let table = db.byte_table("t").unwrap();
    assert_eq!(
        db.check().unwrap_err().to_string(),
        "the large value of row b of table \"t\" is damaged: its checksum is wrong (and so are those of rows d, e); \
         put or remove these rows"
    );
    table.put(b"b", &value(b'b')).unwrap();
    table.put(b"d", b"small").unwrap();
    assert!(db.check().unwrap_err().to_string().contains("row e of"));
    table.remove(b"e").unwrap();
    assert_eq!(settled(&db), 3);
}

/// Where the device does not give a value's bytes, it is said whose they are. No damage is told of: they may come the next time.
#[test]
fn a_value_that_cannot_be_read_is_named() {
    let fails = Arc::new(AtomicBool::new(false));
    let vfs = Intercepted::new(SimDisk::new(0), {
        let fails = fails.clone();
        move |call, name, go| match (call, name) == (Call::Read, FILE) && fails.load(SeqCst) {
            true => Err(io::Error::other("a bad sector")),
            false => go(),
        }
    });
    let db = tiny().durability(Durability::Buffered).open_on(Arc::new(vfs)).unwrap();
    let table = db.byte_table("t").unwrap();
    table.put(b"k", &bytes(0, 2 * FROM)).unwrap();
    fails.store(true, SeqCst);
    for (reader, error) in every_reader(&db, &table, b"k") {
        let told = error.to_string();
        let is_named =
            told.contains(&format!(r#"{FILE} (read for the large value of row k of table "t"): "#));
        assert!(matches!(error, Error::Io { .. }) && is_named, "{reader}: {told}");
    }
    fails.store(false, SeqCst);
    assert_eq!(table.get(b"k").unwrap(), Some(bytes(0, 2 * FROM)));
}

/// Where the leaf that names extents is damaged, nobody knows what is free: nothing is written over, all else goes on.
#[test]
fn nothing_is_written_over_what_is_not_known() {
    let (disk, db, table) = fresh();
    table.put(b"in chunks", &bytes(0, 20_000)).unwrap();
    table.put(b"k", &bytes(0, 3 * FROM)).unwrap();
    drop(table);
    db.close().unwrap();
    // The last leaf of the table with the highest number: behind those of the chunks.
    disk.corrupt("leaves.db", |file| {
        let word = |leaf: &[u8], n: usize| u64::from_le_bytes(leaf[8 * n..8 * n + 8].try_into().unwrap());
        let table = |leaf: &[u8]| word(leaf, 4) as u32;
        let is_leaf = |leaf: &[u8]| leaf.starts_with(b"FL");
        let hidden = file.chunks_exact(4096).filter(|leaf| is_leaf(leaf)).map(table).max().unwrap();
        let leaves = file.chunks_exact_mut(4096).filter(|leaf| is_leaf(leaf) && table(leaf) == hidden);
        leaves.filter(|leaf| word(leaf, 3) == 0).for_each(|leaf| leaf[4000] ^= 1);
    });
    let db = open(&disk);
    let table = db.byte_table("t").unwrap();
    let damaged = |error: Error| assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    damaged(table.get(b"k").unwrap_err());
    table.put(b"small", b"v").unwrap();
    let other = db.byte_table("other").unwrap();
    damaged(other.put(b"l", &bytes(1, 3 * FROM)).unwrap_err());
    other.put(b"l", &bytes(1, 9000)).unwrap();
    assert!(other.get(b"l").unwrap() == Some(bytes(1, 9000)));
    assert!(file_bytes(&disk) >= 3 * FROM as u64 - 4096, "nor is anything cut off");
}

/// Where the leaves of large values are damaged, all else is there: the database opens, and says of these values that they are damaged.
#[test]
fn what_is_damaged_keeps_no_other_table_closed() {
    let (disk, db, table) = fresh();
    table.put(b"k", &bytes(0, 20_000)).unwrap();
    db.byte_table("other").unwrap().put(b"small", b"v").unwrap();
    drop(table);
    db.close().unwrap();
    disk.corrupt("leaves.db", |file| {
        let table = |leaf: &[u8]| u32::from_le_bytes(leaf[32..36].try_into().unwrap());
        let leaves = file.chunks_exact_mut(4096).filter(|leaf| leaf.starts_with(b"FL"));
        leaves.filter(|leaf| table(leaf) == 17).for_each(|leaf| leaf[4000] ^= 1);
    });
    let db = open(&disk);
    assert_eq!(db.byte_table("other").unwrap().get(b"small").unwrap().as_deref(), Some(&b"v"[..]));
    let damaged = db.byte_table("t").unwrap().get(b"k").unwrap_err();
    let is_named =
        damaged.to_string().contains(r#"(read for the large value of row k of table "t") is damaged"#);
    assert!(matches!(damaged, Error::Corrupt { .. }) && is_named, "{damaged}");
}

/// Who reads a value while its table is dropped hears of that, and not of damage, when another value lies in its place.
#[test]
fn a_value_of_a_dropped_table_is_not_damaged() {
    let held = Arc::new(Mutex::new(()));
    let (gate, (reading, reads)) = (held.clone(), channel());
    let vfs = Intercepted::new(SimDisk::new(0), move |call, name, go| {
        let _passes = ((call, name) == (Call::Read, FILE)).then(|| {
            reading.send(()).unwrap();
            gate.lock()
        });
        go()
    });
    let db = tiny().durability(Durability::Buffered).open_on(Arc::new(vfs)).unwrap();
    let [table, other] = ["t", "other"].map(|name| db.byte_table(name).unwrap());
    table.put(b"k", &bytes(0, 2 * FROM)).unwrap();
    let before = db.stats().blob_file_bytes;
    let (snapshot, stop) = (db.snapshot().unwrap(), held.lock().unwrap());
    thread::scope(|scope| {
        let readers = [scope.spawn(|| table.get(b"k")), scope.spawn(|| snapshot.bytes(&table).get(b"k"))];
        readers.iter().for_each(|_| reads.recv().unwrap());
        assert!(db.drop_table("t").unwrap());
        db.sync().unwrap();
        other.put(b"k", &bytes(1, 2 * FROM)).unwrap();
        drop(stop);
        for reader in readers {
            let found = reader.join().unwrap();
            assert!(matches!(&found, Err(Error::TableDropped { name }) if name == "t"), "{:?}", found.err());
        }
    });
    assert_eq!(db.stats().blob_file_bytes, before, "the other one lies there");
}

/// However fast snapshots are given up for what others write meanwhile: a value that nobody replaces is read at once.
#[test]
fn a_value_is_read_though_too_much_is_written_meanwhile() {
    let (others, reads) = (Arc::new(Mutex::new(None::<ByteTable>)), Arc::new(AtomicU32::new(0)));
    let vfs = Intercepted::new(SimDisk::new(1), {
        let (others, reads) = (others.clone(), reads.clone());
        move |call, name, go| {
            if (call, name) == (Call::Read, FILE) && reads.fetch_add(1, SeqCst) < 5 {
                others.lock().unwrap().iter().for_each(|table| table.put(b"another", b"after").unwrap());
                thread::sleep(Duration::from_millis(150)); // it is looked at 20 times a second
            }
            go()
        }
    });
    let db = tiny().old_version_bytes(0).open_on(Arc::new(vfs)).unwrap();
    let table = db.byte_table("t").unwrap();
    table.put(b"k", &bytes(1, 2 * FROM)).unwrap();
    table.put(b"another", b"before").unwrap();
    *others.lock().unwrap() = Some(table.clone());
    assert_eq!(table.get(b"k").unwrap(), Some(bytes(1, 2 * FROM)));
    assert_eq!(reads.load(SeqCst), 1);
    *others.lock().unwrap() = None;
}
