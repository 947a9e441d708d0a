//! Every I/O call fails once, or for ever, in each way that I/O fails. Nothing panics, nothing is falsely acknowledged,
//! and the reopened database holds what was acknowledged.

mod common;

use common::{key, tiny, wait_for_the_last_transaction};
use foreshore::{ByteTable, Database, Durability, Error, Transaction};
use foreshore_io::sim::{Call, Crash, Event, EventKind, Fault, Go, Intercepted, Repeat};
use foreshore_io::{SimDisk, Vfs};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

type Rows = BTreeMap<[u8; 4], Vec<u8>>;

/// Writes rows, with checkpoints in between; returns the rows acknowledged, and the row under way when an error came.
fn work(db: &Database) -> (Rows, Option<[u8; 4]>, Option<Error>) {
    let mut acknowledged = BTreeMap::new();
    let table = match db.byte_table("t") {
        Ok(table) => table,
        Err(e) => return (acknowledged, None, Some(e)),
    };
    for i in 0..120 {
        // Now and then one that lies in chunks.
        let len = if i % 40 == 7 { 5000 } else { 90 + i as usize };
        let value = vec![i as u8; len];
        if let Err(e) = table.put(&key(i), &value) {
            return (acknowledged, Some(key(i)), Some(e));
        }
        acknowledged.insert(key(i), value);
        if i % 40 == 39
            && let Err(e) = db.checkpoint()
        {
            return (acknowledged, None, Some(e));
        }
    }
    (acknowledged, None, None)
}

fn typed(error: &Error) -> bool {
    matches!(error, Error::Full { .. } | Error::Poisoned { .. } | Error::Io { .. })
}

/// Reads still work after a failure, and say what was acknowledged.
fn reads_go_on(db: &Database, acknowledged: &Rows, what: &str) {
    let Ok(table) = db.byte_table("t") else { return };
    for (key, value) in acknowledged {
        assert_eq!(table.get(key).unwrap_or_else(|e| panic!("{what}: {e}")).as_ref(), Some(value), "{what}");
    }
}

/// What is acknowledged after the failure, when the database has been opened again, rests on nothing that the failure has lost. A few
/// segments of the log are filled.
fn go_on(disk: &SimDisk, acknowledged: &mut Rows, what: &str) -> Database {
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap_or_else(|e| panic!("{what}: reopening: {e}"));
    let table = db.byte_table("t").unwrap();
    for i in 200..240 {
        table.put(&key(i), &[3; 200]).unwrap_or_else(|e| panic!("{what}: going on: {e}"));
        acknowledged.insert(key(i), vec![3; 200]);
    }
    db
}

/// `is_reopened`: the database is opened again, and goes on, before the power goes.
fn fail_at(event: u64, fault: Fault, repeat: Repeat, is_reopened: bool) -> bool {
    let what = format!("{fault:?} at event {event}, {repeat:?}, reopened: {is_reopened}");
    let disk = SimDisk::new(event);
    disk.fail_at(event, fault, repeat);
    let (mut acknowledged, in_doubt) = match tiny().open_on(Arc::new(disk.clone())) {
        Err(e) => {
            assert!(typed(&e), "{what}: opening gave {e:?}");
            (BTreeMap::new(), None)
        }
        Ok(db) => {
            let (acknowledged, in_doubt, error) = work(&db);
            if let Some(e) = &error {
                assert!(typed(e), "{what}: working gave {e:?}");
                assert!(!e.to_string().is_empty());
            }
            reads_go_on(&db, &acknowledged, &what);
            if let Err(e) = db.close() {
                assert!(typed(&e), "{what}: closing gave {e:?}");
            }
            (acknowledged, in_doubt)
        }
    };
    disk.clear_faults();
    let goes_on = is_reopened.then(|| go_on(&disk, &mut acknowledged, &what));
    // After the fault is gone, and after a power failure on top: a failed sync may have kept nothing.
    let disk = disk.after_crash(Crash::PowerLoss, event);
    drop(goes_on);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap_or_else(|e| panic!("{what}: reopening: {e}"));
    let report = db.check().unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(report.tables.iter().all(|table| table.large_stray == 0), "{what}: {report:?}");
    let rows = db.byte_table("t").unwrap();
    for (key, value) in &acknowledged {
        assert_eq!(rows.get(key).unwrap().as_ref(), Some(value), "{what}: an acknowledged row");
    }
    for row in rows.range(..) {
        let (key, _) = row.unwrap();
        let known = acknowledged.contains_key(key.as_slice()) || in_doubt.is_some_and(|doubt| doubt == *key);
        assert!(known, "{what}: row {key:?} was never written");
    }
    rows.put(b"goes on", b"").unwrap_or_else(|e| panic!("{what}: writing again: {e}"));
    true
}

fn events() -> u64 {
    let disk = SimDisk::new(0);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    assert!(work(&db).2.is_none());
    db.close().unwrap();
    disk.events()
}

#[test]
fn every_write_and_sync_may_fail() {
    let events = events();
    let mut cases = 0;
    for fault in [Fault::Eio, Fault::Enospc, Fault::ShortWrite] {
        for repeat in [Repeat::Once, Repeat::Forever] {
            for event in 1..=events {
                cases += u64::from(fail_at(event, fault, repeat, false));
                // A disk that refuses everything also has names kept that are to be taken back.
                if matches!(repeat, Repeat::Once) {
                    cases += u64::from(fail_at(event, fault, repeat, true));
                }
            }
        }
    }
    println!("{cases} faults over {events} events");
}

/// Reads go on also where the whole cache holds changes that can no longer be written, and the rest is on disk; by many threads.
#[test]
fn what_is_only_on_disk_is_read_after_a_failure() {
    const ROWS: u32 = 800;
    let disk = SimDisk::new(7);
    let options = || tiny().ring_bytes(1 << 20).log_bytes(16 << 20).durability(Durability::Relaxed);
    let db = options().open_on(Arc::new(disk.clone())).unwrap();
    db.byte_table("t").unwrap().bulk_load((0..ROWS).map(|n| (n.to_be_bytes(), [7; 900]))).unwrap();
    db.close().unwrap();
    let fails = Arc::new(AtomicBool::new(false));
    let its = fails.clone();
    let broken = Intercepted::new(disk, move |call, name, go| match call {
        Call::Write if name == "leaves.db" && its.load(Relaxed) => Err(io::Error::other("a test")),
        _ => go(),
    });
    let db = options().open_on(Arc::new(broken)).unwrap();
    let table = db.byte_table("t").unwrap();
    fails.store(true, Relaxed);
    let failed = (0..ROWS).step_by(4).find_map(|n| table.put(&n.to_be_bytes(), &[8; 900]).err());
    assert!(matches!(failed, Some(Error::Poisoned { .. })), "{failed:?}");
    thread::scope(|scope| {
        for thread in 0..4 {
            let table = &table;
            scope.spawn(move || {
                for n in (0..ROWS).cycle().skip(200 * thread).take(ROWS as usize) {
                    assert!(table.get(&n.to_be_bytes()).unwrap_or_else(|e| panic!("row {n}: {e}")).is_some());
                }
            });
        }
    });
}

/// A disk that fills up: a clean `Full`, reads go on, and after room is made the database opens and writes again.
#[test]
fn a_full_disk_is_a_clean_error() {
    for capacity in (1..60).map(|i| (i * 32) << 10) {
        let disk = SimDisk::new(capacity);
        disk.set_capacity(capacity);
        let what = format!("capacity {capacity}");
        let mut acknowledged = BTreeMap::new();
        if let Ok(db) = tiny().open_on(Arc::new(disk.clone())) {
            let error;
            (acknowledged, _, error) = work(&db);
            if let Some(e) = error {
                assert!(matches!(e, Error::Full { .. } | Error::Poisoned { .. }), "{what}: {e:?}");
            }
            reads_go_on(&db, &acknowledged, &what);
            drop(db);
        }
        disk.set_capacity(u64::MAX);
        let db = tiny().open_on(Arc::new(disk)).unwrap_or_else(|e| panic!("{what}: reopening: {e}"));
        let rows = db.byte_table("t").unwrap();
        for (key, value) in &acknowledged {
            assert_eq!(rows.get(key).unwrap().as_ref(), Some(value), "{what}");
        }
        rows.put(b"goes on", b"").unwrap();
        db.check().unwrap();
    }
}

/// Each write and sync of a creation whose log needs several files fails once: it is told, and waits for nobody.
#[test]
fn a_creation_may_fail_at_each_file_of_its_log() {
    let create = |disk: &SimDisk| {
        let (told, waits) = mpsc::channel();
        let vfs = Arc::new(disk.clone());
        std::thread::spawn(move || told.send(tiny().ring_bytes(512 << 10).open_on(vfs).map(drop)));
        waits.recv_timeout(Duration::from_secs(30))
    };
    let whole = SimDisk::new(1);
    create(&whole).unwrap().unwrap();
    for fault in [Fault::Enospc, Fault::Eio] {
        for event in 0..whole.events() {
            let disk = SimDisk::new(event);
            disk.fail_at(event, fault, Repeat::Once);
            let what = format!("{fault:?} at event {event}");
            let made = create(&disk).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert!(made.as_ref().err().is_none_or(typed), "{what}: {made:?}");
            disk.clear_faults(); // which the threads may not have come to
            create(&disk).unwrap_or_else(|e| panic!("{what}: {e}")).unwrap_or_else(|e| panic!("{what}: {e}"));
        }
    }
}

/// A database that finds no space when it is made leaves none taken.
#[test]
fn a_creation_that_finds_no_space_leaves_nothing() {
    for refused in 0.. {
        let capacity = 4096 + refused * (100 << 10);
        let disk = SimDisk::new(refused);
        disk.set_capacity(capacity);
        match tiny().open_on(Arc::new(disk.clone())) {
            Err(error) => assert!(matches!(error, Error::Full { .. }), "capacity {capacity}: {error:?}"),
            Ok(_) => return assert!(refused > 50, "{capacity} bytes are enough"),
        }
        assert!(disk.used_bytes() <= 4096, "capacity {capacity}: {} bytes", disk.used_bytes());
        disk.set_capacity(u64::MAX);
        tiny().open_on(Arc::new(disk)).unwrap().byte_table("t").unwrap();
    }
}

/// A closed database has what opening it takes, so that rows can be read, and removed.
#[test]
fn a_full_disk_can_be_opened() {
    let disk = SimDisk::new(5);
    let open = || tiny().open_on(Arc::new(disk.clone())).unwrap_or_else(|e| panic!("{e}"));
    let db = open();
    db.byte_table("t").unwrap().put(b"k", b"v").unwrap();
    db.close().unwrap();
    disk.set_capacity(disk.used_bytes());
    for _ in 0..10 {
        let db = open();
        assert_eq!(db.byte_table("t").unwrap().get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
        db.close().unwrap();
    }
}

/// On a full disk a table is made with all that it needs, or leaves nothing, whichever leaf there is no space for.
#[test]
fn a_table_that_finds_no_space_leaves_nothing() {
    for before in 0..4 {
        let disk = SimDisk::new(5);
        let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
        (0..before).for_each(|i| _ = db.byte_table(&i.to_string()).unwrap());
        disk.set_capacity(disk.used_bytes());
        let made = (0..).map(|i| db.byte_table(&format!("{i:0>900}")));
        let refused: Vec<_> = made.filter_map(|table| table.err()).take(10).collect();
        assert!(refused.iter().all(|error| matches!(error, Error::Full { .. })), "{refused:?}");
        assert_eq!(db.check().unwrap().stray_pages, 0, "{before} tables before");
        disk.set_capacity(u64::MAX);
        db.byte_table("there is space again").unwrap();
    }
}

/// Every read at open, and while pages come back, may fail: a typed error, and the next try succeeds.
#[test]
fn every_read_may_fail() {
    let disk = SimDisk::new(7);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    for i in 0..2000u32 {
        table.with_durability(Durability::Relaxed).put(&key(i), &[7; 300]).unwrap();
    }
    drop((table, db));
    let before = disk.read_events();
    let read_all = |disk: &SimDisk| -> Result<(), Error> {
        let db = tiny().open_on(Arc::new(disk.clone()))?;
        let table = db.byte_table("t")?;
        for i in 0..2000u32 {
            assert_eq!(table.get(&key(i))?, Some(vec![7; 300]));
        }
        Ok(())
    };
    read_all(&disk).unwrap();
    let reads = disk.read_events() - before;
    for n in (1..=reads).step_by((reads as usize / 200).max(1)) {
        let at = disk.read_events() + n;
        disk.fail_read_at(at, Repeat::Once);
        if let Err(e) = read_all(&disk) {
            assert!(matches!(e, Error::Io { .. } | Error::Poisoned { .. }), "read {n}: {e:?}");
        }
    }
    read_all(&disk).unwrap();
}

/// Works while event `number` fails: the disk, what was acknowledged, and the event, if it was a file's sync.
fn with_failed_sync(number: u64) -> Option<(SimDisk, Rows, Event)> {
    let disk = SimDisk::new(number);
    disk.fail_at(number, Fault::Eio, Repeat::Once);
    disk.start_trace();
    let first = tiny().open_on(Arc::new(disk.clone()));
    let acknowledged = first.map_or(Rows::new(), |db| work(&db).0);
    disk.clear_faults();
    let event = disk.trace().into_iter().find(|met| met.number == number)?;
    (event.kind == EventKind::Sync).then_some((disk, acknowledged, event))
}

/// A file's sync fails, and loses what it was to make durable, though it can still be read. Whoever opens the database then,
/// in the same machine, must not build on that: power fails later.
#[test]
fn what_a_failed_sync_lost_is_not_built_upon() {
    let disk = SimDisk::new(0);
    disk.start_trace();
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    assert!(work(&db).2.is_none());
    db.close().unwrap();
    let syncs: Vec<_> = disk.trace().into_iter().filter(|event| event.kind == EventKind::Sync).collect();
    assert!(
        syncs.iter().any(|event| event.name.starts_with("directory-")),
        "one of the directory's among them"
    );
    let mut failed = 0;
    for event in &syncs {
        // Threads take turns as they like: this time the event may be another, and one of the next a sync. (A directory's sync that
        // fails is beyond what can be made good: whether a name is durable cannot be asked.)
        let near = event.number..event.number + 4;
        let Some((disk, mut acknowledged, event)) = near.into_iter().find_map(with_failed_sync) else {
            continue;
        };
        failed += 1;
        let what = format!("the sync of {} at event {}", event.name, event.number);

        let db = tiny().open_on(Arc::new(disk.clone())).unwrap_or_else(|e| panic!("{what}: {e}"));
        let (again, _, error) = work(&db);
        assert!(error.is_none(), "{what}: {error:?}");
        acknowledged.extend(again);
        let disk = disk.after_crash(Crash::PowerLoss, event.number);
        let db = tiny().open_on(Arc::new(disk)).unwrap_or_else(|e| panic!("{what}, then a power loss: {e}"));
        reads_go_on(&db, &acknowledged, &what);
        db.check().unwrap_or_else(|e| panic!("{what}: {e}"));
    }
    assert!(failed > syncs.len() / 2, "{failed} of {} syncs failed", syncs.len());
}

/// A table that could not be dropped for want of space is used as before.
#[test]
fn a_table_that_could_not_be_dropped_goes_on() {
    let disk = SimDisk::new(3);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    let filler = db.byte_table("filler").unwrap();
    let insert = |row: &[u8]| db.transact(|tx| tx.bytes(&table).put(row, &[7; 5000]));
    insert(b"before").unwrap();
    disk.set_capacity(disk.used_bytes());
    let full = (0..).find_map(|i| filler.put(&key(i), &[5; 900]).err());
    assert!(matches!(full, Some(Error::Full { .. })), "{full:?}");
    assert!(matches!(db.drop_table("t"), Err(Error::Full { .. })));
    disk.set_capacity(u64::MAX);
    insert(b"after").unwrap();
    assert_eq!(table.range(..).count(), 2);
    assert!(db.drop_table("t").unwrap());
}

/// What the rows of [`broken_off`] are before and after.
fn row(i: u16) -> Vec<u8> {
    vec![i as u8; 900]
}

/// So many that the leaves to be split need far more space than is found here and there on a full disk.
const ROWS: u16 = 600;

/// How a transaction is rolled back.
#[derive(Clone, Copy)]
enum How {
    AsAWhole,
    Prepared,
    ToASavepoint,
}

/// A database on a full disk with a transaction whose rollback has found no space for all the leaves that it splits: what it
/// had taken away was filled by others.
fn broken_off(disk: Arc<dyn Vfs>, set_capacity: impl Fn(), how: How) -> Database {
    let db = tiny().open_on(disk).unwrap();
    let (table, filler) = (db.byte_table("t").unwrap(), db.byte_table("filler").unwrap());
    let table = table.with_durability(Durability::Buffered);
    (0..ROWS).for_each(|i| table.put(&i.to_be_bytes(), &row(i)).unwrap());
    let tx = db.begin().unwrap();
    tx.bytes(&table).remove(&0u16.to_be_bytes()).unwrap();
    let savepoint = tx.savepoint().unwrap();
    (1..ROWS).for_each(|i| tx.bytes(&table).put(&i.to_be_bytes(), b"").unwrap());
    let tx = match how {
        How::Prepared => tx.prepare("gid").map(|()| None).unwrap(),
        How::AsAWhole | How::ToASavepoint => Some(tx),
    };
    (0..ROWS).for_each(|i| {
        (0..3).for_each(|j| table.put(&[i.to_be_bytes(), [b'+', j]].concat(), &[7; 400]).unwrap())
    });
    db.checkpoint().unwrap();
    set_capacity();
    let full = (0..).find_map(|i| filler.put(&key(i), &[5; 900]).err());
    assert!(matches!(full, Some(Error::Full { .. })), "{full:?}");
    let undone = match (tx, how) {
        (None, _) => db.rollback_prepared("gid"),
        (Some(tx), How::ToASavepoint) => {
            let undone = tx.rollback_to(savepoint);
            let again = tx.savepoint();
            assert!(
                matches!(again, Err(Error::Ended)),
                "that was told, and cannot be mended by space: {again:?}"
            );
            assert!(
                matches!(tx.commit(), Err(Error::Full { .. })),
                "what is undone by halves is no transaction"
            );
            undone
        }
        (Some(tx), _) => tx.rollback(),
    };
    assert!(matches!(undone, Err(Error::Full { .. })), "{undone:?}");
    (0..ROWS).for_each(|i| {
        assert_eq!(table.get(&i.to_be_bytes()).unwrap(), Some(row(i)), "nobody sees half of it")
    });
    db
}

/// A rollback that finds no space is gone on with when there is some.
#[test]
fn a_rollback_goes_on_when_there_is_space() {
    for how in [How::AsAWhole, How::Prepared, How::ToASavepoint] {
        let disk = SimDisk::new(3);
        let db = broken_off(Arc::new(disk.clone()), || disk.set_capacity(disk.used_bytes()), how);
        disk.set_capacity(u64::MAX);
        wait_for_the_last_transaction(&db);
        let table = db.byte_table("t").unwrap();
        (0..ROWS).for_each(|i| assert_eq!(table.get(&i.to_be_bytes()).unwrap(), Some(row(i))));
        (0..ROWS).for_each(|i| table.put(&i.to_be_bytes(), b"goes on").unwrap());
        db.check().unwrap();
    }
}

/// Or when the database is opened again.
#[test]
fn a_rollback_goes_on_at_the_next_open() {
    for how in [How::AsAWhole, How::Prepared, How::ToASavepoint] {
        let disk = SimDisk::new(3);
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        drop(broken_off(vfs.clone(), || disk.set_capacity(disk.used_bytes()), how));
        assert_eq!(Arc::strong_count(&vfs), 1, "somebody still has the files");
        disk.set_capacity(u64::MAX);
        let db = tiny().open_on(vfs).unwrap();
        let table = db.byte_table("t").unwrap();
        (0..ROWS).for_each(|i| assert_eq!(table.get(&i.to_be_bytes()).unwrap(), Some(row(i))));
        (0..ROWS).for_each(|i| table.put(&i.to_be_bytes(), b"goes on").unwrap());
        db.check().unwrap();
    }
}

/// Until then it leaves others what they need to commit.
#[test]
fn a_rollback_that_finds_no_space_leaves_what_commits_need() {
    let disk = SimDisk::new(3);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let [table, others, filler] = ["t", "others", "filler"].map(|name| db.byte_table(name).unwrap());
    let table = table.with_durability(Durability::Buffered);
    (0..ROWS).for_each(|i| table.put(&i.to_be_bytes(), &row(i)).unwrap());
    let tx = db.begin().unwrap();
    (0..ROWS).for_each(|i| tx.bytes(&table).put(&i.to_be_bytes(), b"").unwrap());
    let begin = |i: u32| {
        let tx = db.begin().unwrap();
        tx.bytes(&others).put(&key(i), b"row").unwrap();
        tx
    };
    let txs: Vec<_> = (0..40).map(begin).collect();
    (0..ROWS).for_each(|i| {
        (0..3).for_each(|j| table.put(&[i.to_be_bytes(), [b'+', j]].concat(), &[7; 400]).unwrap())
    });
    db.checkpoint().unwrap();
    disk.set_capacity(disk.used_bytes());
    let full = (0..).find_map(|i| filler.put(&key(i), &[5; 900]).err());
    assert!(matches!(full, Some(Error::Full { .. })), "{full:?}");
    assert!(matches!(tx.rollback(), Err(Error::Full { .. })));
    txs.into_iter().for_each(|tx| tx.commit().unwrap());
    assert_eq!(others.range(..).count(), 40);
}

/// If that finds no space either, all can be read until there is, and nobody sees half of it.
#[test]
fn a_rollback_that_finds_no_space_keeps_no_database_closed() {
    for how in [How::AsAWhole, How::Prepared, How::ToASavepoint] {
        let disk = SimDisk::new(3);
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        drop(broken_off(vfs.clone(), || disk.set_capacity(disk.used_bytes()), how));
        for _ in 0..2 {
            let db = tiny().open_on(vfs.clone()).unwrap();
            let table = db.byte_table("t").unwrap();
            (0..ROWS).for_each(|i| assert_eq!(table.get(&i.to_be_bytes()).unwrap(), Some(row(i))));
            drop((db, table));
            assert_eq!(Arc::strong_count(&vfs), 1, "somebody still has the files");
        }
        let db = tiny().open_on(vfs).unwrap();
        let table = db.byte_table("t").unwrap();
        disk.set_capacity(u64::MAX);
        wait_for_the_last_transaction(&db);
        (0..ROWS).for_each(|i| assert_eq!(table.get(&i.to_be_bytes()).unwrap(), Some(row(i))));
        (0..ROWS).for_each(|i| table.put(&i.to_be_bytes(), b"goes on").unwrap());
        db.check().unwrap();
    }
}

/// The space that a transaction's rows have left is taken by others, and then the disk is full: its rollback splits leaves.
#[test]
fn a_rollback_that_splits_leaves_needs_no_space_for_the_log() {
    let disk = SimDisk::new(3);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    let row = |i: u8| vec![i; 900];
    (0..40).for_each(|i| table.put(&[i], &row(i)).unwrap());
    let tx = db.begin().unwrap();
    (0..40).for_each(|i| tx.bytes(&table).put(&[i], b"").unwrap());
    (0..40).for_each(|i| (0..3).for_each(|j| table.put(&[i, j], &[7; 400]).unwrap()));
    let filler = db.byte_table("filler").unwrap();
    disk.set_capacity(disk.used_bytes());
    let full = (0..).find_map(|i| filler.put(&key(i), &[5; 900]).err());
    assert!(matches!(full, Some(Error::Full { .. })), "{full:?}");
    let splits = db.stats().splits;
    tx.rollback().unwrap();
    assert!(db.stats().splits > splits);
    (0..40).for_each(|i| assert_eq!(table.get(&[i]).unwrap(), Some(row(i))));
    db.check().unwrap();
}

/// Each opening begins the log at another block, and finds no space for one more segment.
#[test]
fn a_full_disk_does_not_keep_the_next_lives_out() {
    for crash in [Crash::ProcessKill, Crash::PowerLoss] {
        let mut disk = SimDisk::new(1);
        let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
        let table = db.byte_table("t").unwrap();
        (0..300).for_each(|i| table.put(&key(i), &[i as u8; 200]).unwrap());
        disk.set_capacity(disk.used_bytes());
        for life in 0..5 {
            disk = disk.after_crash(crash, life);
            let what = format!("{crash:?}, life {life}");
            let db = tiny().open_on(Arc::new(disk.clone())).unwrap_or_else(|e| panic!("{what}: {e}"));
            let table = db.byte_table("t").unwrap();
            (0..300)
                .for_each(|i| assert_eq!(table.get(&key(i)).unwrap(), Some(vec![i as u8; 200]), "{what}"));
            if let Err(error) = table.put(&key(7), &[7; 200]) {
                assert!(matches!(error, Error::Full { .. }), "{what}: {error}");
            }
        }
    }
}

/// Who meets the locks of a transaction that cannot be rolled back is told why, and does not wait in vain.
#[test]
fn locks_that_a_failure_leaves_are_not_waited_for() {
    let disk = SimDisk::new(4);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    table.put(b"k", b"v").unwrap();
    let tx = db.begin().unwrap();
    tx.bytes(&table).put(b"k", b"half undone").unwrap();
    std::thread::scope(|scope| {
        let read = || db.transact(|tx| tx.bytes(&table).get(b"k"));
        let waiter = scope.spawn(read);
        while db.stats().transactions < 2 {
            std::thread::yield_now();
        }
        disk.fail_at(disk.events() + 1, Fault::Eio, Repeat::Forever);
        let failed = (0..).find_map(|i| table.put(&key(i), &[5; 900]).err());
        assert!(matches!(failed, Some(Error::Poisoned { .. })), "{failed:?}");
        let since = Instant::now();
        assert!(matches!(tx.rollback(), Err(Error::Poisoned { .. })));
        for refused in [waiter.join().unwrap(), read(), db.begin().unwrap().bytes(&table).get(b"k")] {
            assert!(matches!(refused, Err(Error::Poisoned { .. })), "{refused:?}");
        }
        let refused = table.put(b"k", b"alone");
        assert!(matches!(refused, Err(Error::Poisoned { .. })), "{refused:?}");
        assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    });
    assert_eq!(table.get(b"k").unwrap().as_deref(), Some(&b"v"[..]), "reads go on");
}

/// A transaction that was aborted, and could not be undone, as a read failed; and its table, with a row `k`.
fn aborted_in_vain() -> (Database, ByteTable, Transaction) {
    let disk = SimDisk::new(5);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    table.put(b"k", b"v").unwrap();
    let tx = db.begin().unwrap();
    tx.bytes(&table).put(b"k", b"undone").unwrap();
    let others = db.byte_table("others").unwrap().with_durability(Durability::Buffered);
    (0..600).for_each(|i| others.put(&key(i), &[5; 900]).unwrap()); // more than the cache and the log's buffer
    db.checkpoint().unwrap();
    disk.fail_read_at(disk.read_events(), Repeat::Once);
    let failed = db.abort(tx.number());
    assert!(matches!(failed, Err(Error::Io { .. })), "{failed:?}");
    (db, table, tx)
}

/// Whoever was aborted, and could not be rolled back, is not told that it was: run again, it would wait for its own locks.
#[test]
fn an_abort_that_could_not_undo_is_told_as_such() {
    let (db, table, tx) = aborted_in_vain();
    assert!(!tx.has_lost(), "it has its locks");
    let told = tx.commit();
    assert!(matches!(told, Err(Error::Io { .. })), "{told:?}");
    wait_for_the_last_transaction(&db);
    assert_eq!(table.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
}

/// It is told once why it could not be undone, and from then on that it is over: the reason may be gone by then, and its advice in vain.
#[test]
fn what_could_not_be_undone_is_told_once() {
    let (db, table, tx) = aborted_in_vain();
    let get = || tx.bytes(&table).get(b"k");
    let told = get();
    assert!(matches!(told, Err(Error::Io { .. })), "{told:?}");
    wait_for_the_last_transaction(&db);
    for _ in 0..2 {
        let again = get();
        assert!(matches!(again, Err(Error::Ended)), "{again:?}");
    }
    let told = tx.commit();
    assert!(matches!(told, Err(Error::Io { .. })), "who commits wants to know why it was not: {told:?}");
}

/// A rollback that could not read what it needed, or not open the file that has it, is gone on with: the disk may be well again.
#[test]
fn a_rollback_goes_on_after_a_failed_read() {
    for opens in [false, true] {
        let (disk, refuses) = (SimDisk::new(5), Arc::new(AtomicBool::new(false)));
        let refused = refuses.clone();
        let around = move |call, name: &str, go: &mut Go<'_>| {
            let fails = call == Call::Open && name.starts_with("wal-") && refused.swap(false, Relaxed);
            if fails { Err(io::Error::from_raw_os_error(libc::EIO)) } else { go() }
        };
        let db = tiny().open_on(Arc::new(Intercepted::new(disk.clone(), around))).unwrap();
        let table = db.byte_table("t").unwrap();
        table.put(b"k", b"v").unwrap();
        let tx = db.begin().unwrap();
        tx.bytes(&table).put(b"k", b"undone").unwrap();
        let others = db.byte_table("others").unwrap().with_durability(Durability::Buffered);
        (0..600).for_each(|i| others.put(&key(i), &[5; 900]).unwrap()); // more than the cache and the log's buffer
        db.checkpoint().unwrap();
        match opens {
            true => refuses.store(true, Relaxed),
            false => disk.fail_read_at(disk.read_events(), Repeat::Once),
        }
        let failed = tx.rollback();
        assert!(matches!(failed, Err(Error::Io { .. })), "{failed:?}");
        table.put(b"k", b"goes on").unwrap();
        wait_for_the_last_transaction(&db); // which has given its lock back, and is about to end
        db.check().unwrap();
    }
}

/// A disk that refuses to remove files of the log, or is not done with it, for as long as it is told to.
#[derive(Default)]
struct Clinging {
    refuses: AtomicBool,
    lingers: AtomicBool,
    /// Somebody waits for a file to be removed.
    is_waited_for: AtomicBool,
}

impl Clinging {
    /// The disk, and who tells it.
    fn to(disk: &SimDisk) -> (Arc<Intercepted>, Arc<Self>) {
        let clinging = Arc::new(Self::default());
        let told = clinging.clone();
        let around = move |call, name: &str, go: &mut Go<'_>| {
            if call == Call::Remove && name.starts_with("wal-") { told.remove(go) } else { go() }
        };
        (Arc::new(Intercepted::new(disk.clone(), around)), clinging)
    }

    fn remove(&self, go: &mut Go<'_>) -> io::Result<()> {
        if self.refuses.load(Relaxed) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        while self.lingers.load(Relaxed) {
            self.is_waited_for.store(true, Relaxed);
            std::thread::sleep(Duration::from_millis(1));
        }
        go()
    }
}

/// A checkpoint has done its work, though the disk refuses to remove files of the log that are no longer needed. They go with a
/// later one.
#[test]
fn a_checkpoint_does_not_fail_for_a_file_that_stays() {
    let disk = SimDisk::new(1);
    let (vfs, clinging) = Clinging::to(&disk);
    clinging.refuses.store(true, Relaxed);
    let db = tiny().open_on(vfs).unwrap();
    let table = db.byte_table("t").unwrap().with_durability(Durability::Buffered);
    let log_files = || disk.names().iter().filter(|name| name.starts_with("wal-")).count();
    (0..400).for_each(|i| table.put(&key(i), &[7; 900]).unwrap());
    for _ in 0..2 {
        let before = db.stats().checkpoints;
        db.checkpoint().unwrap();
        assert!(db.stats().checkpoints > before);
    }
    let clung = log_files();
    clinging.refuses.store(false, Relaxed);
    db.checkpoint().unwrap();
    assert!(log_files() + 2 < clung, "{clung} files were left, and {} still are", log_files());
    clinging.refuses.store(true, Relaxed);
    (0..400).for_each(|i| table.put(&key(i), &[8; 900]).unwrap());
    db.close().unwrap();
}

/// A `Buffered` commit gets to the disk though the thread that takes checkpoints has been at one for long.
#[test]
fn a_slow_checkpoint_keeps_no_commit_in_memory() {
    let (vfs, clinging) = Clinging::to(&SimDisk::new(1));
    clinging.lingers.store(true, Relaxed);
    let db = tiny().open_on(vfs).unwrap();
    let table = db.byte_table("t").unwrap().with_durability(Durability::Buffered);
    (0..)
        .take_while(|_| !clinging.is_waited_for.load(Relaxed))
        .for_each(|i| table.put(&key(i), &[7; 900]).unwrap());
    db.sync().unwrap();
    table.put(b"buffered", b"").unwrap();
    let (end, since) = (db.stats().log_bytes, Instant::now());
    while db.stats().log_durable_lsn < end && since.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let durable = db.stats().log_durable_lsn;
    clinging.lingers.store(false, Relaxed);
    assert!(durable >= end, "durable up to {durable} of {end}");
}
