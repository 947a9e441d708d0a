//! Transactions that have prepared wait to be told what to do, whatever happens meanwhile.

mod common;

use common::tiny;
use foreshore::{Database, Durability, Error, TransactionOptions};
use foreshore_io::{
    SimDisk, Vfs,
    sim::{Call, Crash, Fault, Intercepted, Repeat},
};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const GIDS: [&[u8]; 2] = [b"one", b"two"];

fn key(gid: &[u8], i: u32) -> Vec<u8> {
    [gid, &i.wrapping_mul(2_654_435_761).to_be_bytes()].concat()
}

/// A closed database with two prepared transactions, each of which has replaced `rows` rows of 1s by 2s.
fn with_prepared(rows: u32, value_bytes: usize) -> SimDisk {
    let disk = SimDisk::new(7);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap().with_durability(Durability::Relaxed);
    for gid in GIDS {
        (0..rows).for_each(|i| table.put(&key(gid, i), &vec![1; value_bytes]).unwrap());
    }
    for gid in GIDS {
        let tx = db.begin().unwrap();
        (0..rows).for_each(|i| tx.bytes(&table).put(&key(gid, i), &vec![2; value_bytes]).unwrap());
        tx.prepare(gid).unwrap();
    }
    drop(table);
    db.close().unwrap();
    disk
}

/// An id that nobody can have prepared under is not told back, however long it is.
#[test]
fn no_id_has_more_than_256_bytes() {
    let db = Database::in_memory().unwrap();
    let too_long = [b'g'; 257];
    let decided = [db.commit_prepared(too_long), db.rollback_prepared(too_long)];
    for refused in decided.into_iter().chain([db.begin().unwrap().prepare(too_long)]) {
        assert!(matches!(&refused, Err(Error::Argument(why)) if why.contains("256 bytes")), "{refused:?}");
    }
    assert!(matches!(db.commit_prepared(&too_long[1..]), Err(Error::UnknownTransaction { .. })));
}

/// The first bytes of the rows that the transaction with this id has replaced.
fn rows(db: &Database, gid: &[u8]) -> Vec<u8> {
    db.byte_table("t").unwrap().prefix(gid).map(|row| row.unwrap().1[0]).collect()
}

/// An opening that fails, at whichever read, decides nothing, and leaves nothing behind.
#[test]
fn an_opening_that_fails_decides_nothing() {
    let closed = with_prepared(40, 300);
    let copy = || closed.after_crash(Crash::ProcessKill, 0);
    let whole = copy();
    drop(tiny().open_on(Arc::new(whole.clone())).unwrap());
    let mut failed = 0;
    for read in 0..whole.read_events() {
        let disk = copy();
        disk.fail_read_at(read, Repeat::Once);
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        failed += usize::from(tiny().open_on(vfs.clone()).is_err());
        assert_eq!(Arc::strong_count(&vfs), 1, "read {read}: somebody still has the files");

        disk.clear_faults(); // the thread that reads ahead may not have come as far
        let db = tiny().open_on(Arc::new(disk)).unwrap();
        assert_eq!(db.recover(), GIDS, "read {read}");
        db.commit_prepared(GIDS[0]).unwrap();
        db.rollback_prepared(GIDS[1]).unwrap();
        assert_eq!(rows(&db, GIDS[0]), [2; 40], "read {read}");
        assert_eq!(rows(&db, GIDS[1]), [1; 40], "read {read}");
    }
    assert!(failed > 20, "{failed} openings failed");
}

/// A rollback that was begun goes on at the next open: nobody can commit the rest.
#[test]
fn a_rollback_that_broke_off_is_no_longer_open_to_decision() {
    let closed = with_prepared(80, 700);
    let copy = || closed.after_crash(Crash::ProcessKill, 0);
    let whole = copy();
    let db = tiny().open_on(Arc::new(whole.clone())).unwrap();
    let from = whole.events();
    db.rollback_prepared(GIDS[0]).unwrap();
    let to = whole.events();
    assert!(to > from + 4, "the rollback is longer than the log buffer");
    for event in from..to {
        let disk = copy();
        let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
        disk.crash_at(event);
        let _ = db.rollback_prepared(GIDS[0]);
        let disk = disk.after_crash(Crash::ProcessKill, event);
        drop(db);

        let db = tiny().open_on(Arc::new(disk)).unwrap();
        let _ = db.commit_prepared(GIDS[0]);
        let rows = rows(&db, GIDS[0]);
        assert!(rows == [1; 80] || rows == [2; 80], "event {event}: a part is committed: {rows:?}");
        db.check().unwrap();
    }
}

/// Room in the log is kept back for what may be decided, after a restart too: others fill the disk before.
#[test]
fn a_decision_needs_no_space() {
    let disk = with_prepared(80, 700).after_crash(Crash::ProcessKill, 0);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let filler = db.byte_table("filler").unwrap();
    disk.set_capacity(disk.used_bytes());
    let full = (0..).find_map(|i| filler.put(&key(b"", i), &[5; 900]).err());
    assert!(matches!(full, Some(Error::Full { .. })), "{full:?}");
    db.rollback_prepared(GIDS[0]).unwrap();
    db.commit_prepared(GIDS[1]).unwrap();
    assert_eq!(rows(&db, GIDS[0]), [1; 80]);
    assert_eq!(rows(&db, GIDS[1]), [2; 80]);
}

/// A rollback that has not logged anything when it breaks off is known to the log by one thing only: another transaction has
/// prepared under its id since. It goes on at the next open, and that other one waits.
#[test]
fn an_id_used_again_means_the_later_transaction() {
    for crash in [Crash::ProcessKill, Crash::PowerLoss] {
        let disk = SimDisk::new(7);
        let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
        let table = db.byte_table("t").unwrap();
        [b"first", &b"second"[..]].iter().for_each(|key| table.put(key, b"before").unwrap());
        let prepare = |key: &[u8]| {
            let tx = db.begin().unwrap();
            tx.bytes(&table).put(key, b"after").unwrap();
            tx.prepare("gid").unwrap();
        };
        prepare(b"first");
        let others = db.byte_table("others").unwrap().with_durability(Durability::Buffered);
        (0..600).for_each(|i| others.put(&key(b"", i), &[5; 900]).unwrap()); // more than the log's buffer
        db.checkpoint().unwrap(); // so that nobody else reads
        disk.fail_read_at(disk.read_events(), Repeat::Forever);
        assert!(matches!(db.rollback_prepared("gid"), Err(Error::Io { .. })));
        disk.clear_faults();
        prepare(b"second");
        let disk = disk.after_crash(crash, 1);
        drop((table, others, db));

        let db = tiny().open_on(Arc::new(disk)).unwrap();
        let table = db.byte_table("t").unwrap();
        assert_eq!(db.recover(), [b"gid"], "{crash:?}");
        let get = |key: &[u8]| table.get(key).unwrap().unwrap();
        assert_eq!(get(b"second"), b"before", "{crash:?}");
        db.commit_prepared("gid").unwrap();
        assert_eq!((get(b"first"), get(b"second")), (b"before".to_vec(), b"after".to_vec()), "{crash:?}");
        assert_eq!(db.stats().transactions, 0, "{crash:?}: nobody is left with locks");
        table.put(b"first", b"goes on").unwrap();
        db.check().unwrap();
    }
}

/// So it does where that other one has ended, and began so early that its begin is not read any more.
#[test]
fn an_id_that_one_has_used_that_ended_is_decided() {
    for crash in [Crash::ProcessKill, Crash::PowerLoss] {
        let (disk, fails) = (SimDisk::new(7), Arc::new(AtomicBool::new(false)));
        let its = fails.clone();
        let vfs = Intercepted::new(disk.clone(), move |call, name, go| {
            match call == Call::Read && name.starts_with("wal-") && its.load(SeqCst) {
                true => Err(std::io::ErrorKind::Other.into()),
                false => go(),
            }
        });
        let db = tiny().open_on(Arc::new(vfs)).unwrap();
        let table = db.byte_table("t").unwrap();
        [b"first", &b"second"[..]].iter().for_each(|key| table.put(key, b"before").unwrap());
        let begin = |key: &[u8]| {
            let tx = db.begin().unwrap();
            tx.bytes(&table).put(key, b"after").unwrap();
            tx
        };
        let second = begin(b"second");
        begin(b"first").prepare("gid").unwrap();
        let others = db.byte_table("others").unwrap().with_durability(Durability::Buffered);
        (0..600).for_each(|i| others.put(&key(b"", i), &[5; 900]).unwrap()); // more than the log's buffer
        db.sync().unwrap();
        fails.store(true, SeqCst); // until the crash: nothing is undone before
        assert!(matches!(db.rollback_prepared("gid"), Err(Error::Io { .. })));
        second.prepare("gid").unwrap();
        db.commit_prepared("gid").unwrap();
        db.checkpoint().unwrap(); // from which the log is read from the first one's begin on
        let disk = disk.after_crash(crash, 1);
        drop((table, others, db));

        let db = tiny().open_on(Arc::new(disk)).unwrap();
        let table = db.byte_table("t").unwrap();
        assert!(db.recover().is_empty(), "{crash:?}: both were decided");
        let get = |key: &[u8]| table.get(key).unwrap().unwrap();
        assert_eq!((get(b"first"), get(b"second")), (b"before".to_vec(), b"after".to_vec()), "{crash:?}");
        db.check().unwrap();
    }
}

/// Whoever coordinates commits the other half of what is listed as prepared: so a power failure must not take this half back.
#[test]
fn what_is_listed_as_prepared_is_durable() {
    let (device, has_come) = (Arc::new(Mutex::new(())), Arc::new(AtomicBool::new(false)));
    let (its_device, comes) = (device.clone(), has_come.clone());
    let vfs = Intercepted::new(SimDisk::new(7), move |call, name, go| {
        let _passes = (call == Call::Sync && name.starts_with("wal-0")).then(|| {
            comes.store(true, SeqCst);
            its_device.lock()
        });
        go()
    });
    let db = tiny().open_on(Arc::new(vfs)).unwrap();
    let table = db.byte_table("t").unwrap();
    let tx = db.begin().unwrap();
    tx.bytes(&table).put(b"k", b"v").unwrap();
    db.sync().unwrap(); // so that only what prepares has anything to sync
    thread::scope(|scope| {
        let stands = device.lock().unwrap();
        has_come.store(false, SeqCst);
        let prepares = scope.spawn(|| tx.prepare("gid"));
        while !has_come.load(SeqCst) {
            thread::yield_now();
        }
        let listed = db.recover();
        drop(stands);
        prepares.join().unwrap().unwrap();
        assert_eq!(listed, Vec::<Vec<u8>>::new(), "its record is not synced");
    });
    assert_eq!(db.recover(), [b"gid"]);
    db.commit_prepared("gid").unwrap();
}

/// Closes a database with a transaction that has prepared as "gid", and has `meanwhile` done as that is about to write leaves. Opens it
/// again.
fn close_and_open(meanwhile: impl FnOnce(&Database)) -> Database {
    let (disk, device) = (SimDisk::new(7), Arc::new(Mutex::new(())));
    let (is_closing, has_reached) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (its_device, is_awaited, reaches) = (device.clone(), is_closing.clone(), has_reached.clone());
    let vfs = Intercepted::new(disk.clone(), move |call, name, go| {
        if call == Call::Write && name == "leaves.db" && is_awaited.load(SeqCst) {
            reaches.store(true, SeqCst);
            drop(its_device.lock());
        }
        go()
    });
    let db = Database::builder().cache_bytes(1 << 20).open_on(Arc::new(vfs)).unwrap();
    let tx = db.begin().unwrap();
    tx.bytes(&db.byte_table("t").unwrap()).put(b"k", b"v").unwrap();
    tx.prepare("gid").unwrap();
    thread::scope(|scope| {
        let stands = device.lock().unwrap();
        is_closing.store(true, SeqCst);
        let closed = scope.spawn(|| db.clone().close());
        while !has_reached.load(SeqCst) {
            thread::yield_now();
        }
        meanwhile(&db);
        drop(stands);
        closed.join().unwrap().unwrap();
    });
    drop(db);
    Database::builder().cache_bytes(1 << 20).open_on(Arc::new(disk)).unwrap()
}

/// While a database closes, what has prepared is not unknown: the next open has it.
#[test]
fn what_the_next_open_decides_is_not_unknown() {
    let db = close_and_open(|db| {
        for told in [db.commit_prepared("gid"), db.rollback_prepared("gid")] {
            assert!(matches!(told, Err(Error::Poisoned { .. })), "{told:?}");
        }
        assert_eq!(db.recover(), [b"gid"]);
    });
    assert_eq!(db.recover(), [b"gid"]);
}

/// Nor does another one get its id: the next open would take it for decided.
#[test]
fn what_the_next_open_decides_keeps_its_id() {
    let db = close_and_open(|db| {
        let told = db.begin().unwrap().prepare("gid");
        assert!(matches!(told, Err(Error::Argument(_) | Error::Poisoned { .. })), "{told:?}");
    });
    assert_eq!(db.recover(), [b"gid"]);
    db.commit_prepared("gid").unwrap();
    assert_eq!(db.byte_table("t").unwrap().get(b"k").unwrap().unwrap(), b"v");
}

/// Of a database that was closed, or has failed, nobody is told that there is no such transaction: the next open may find it, and
/// whoever coordinates would forget what was decided.
#[test]
fn what_cannot_be_decided_any_more_is_not_unknown() {
    let closed = |db: &Database, _: &SimDisk| db.clone().close().unwrap();
    let failed = |db: &Database, disk: &SimDisk| {
        disk.fail_at(disk.events(), Fault::Eio, Repeat::Forever);
        assert!(matches!(db.commit_prepared(GIDS[0]), Err(Error::Poisoned { .. })));
    };
    for (stop, may_be_decided) in [(closed as fn(&Database, &SimDisk), false), (failed, true)] {
        let disk = with_prepared(1, 10).after_crash(Crash::ProcessKill, 0);
        let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
        assert!(matches!(db.commit_prepared("none"), Err(Error::UnknownTransaction { .. })));
        stop(&db, &disk);
        for told in [db.commit_prepared(GIDS[0]), db.rollback_prepared(GIDS[0])] {
            assert!(matches!(told, Err(Error::Poisoned { .. })), "{told:?}");
        }
        let disk = disk.after_crash(Crash::PowerLoss, 1);
        drop(db);
        let db = tiny().open_on(Arc::new(disk)).unwrap();
        // What a failed write has left of a commit may be all of it.
        if may_be_decided && db.recover() == GIDS[1..] {
            assert_eq!(rows(&db, GIDS[0]), [2]);
            continue;
        }
        assert_eq!(db.recover(), GIDS);
        db.commit_prepared(GIDS[0]).unwrap();
        assert_eq!(rows(&db, GIDS[0]), [2]);
    }
}

/// Who meets a lock of a prepared transaction is told by which id to end that, whose number nothing takes: after a restart, too.
#[test]
fn a_lock_in_the_way_names_the_id_that_ends_it() {
    let disk = with_prepared(1, 10);
    let (held, gid) = (key(GIDS[0], 0), Some(GIDS[0].to_vec()));
    let refused = |db: &Database| {
        let table = db.byte_table("t").unwrap().with_lock_timeout(Duration::ZERO);
        let tx = db.begin_with(TransactionOptions::new().lock_timeout(Duration::ZERO)).unwrap();
        [table.put(&held, b"3"), tx.bytes(&table).put(&held, b"3")].map(Result::unwrap_err)
    };
    let db = tiny().open_on(Arc::new(disk)).unwrap();
    for found_at_opening in [true, false] {
        for error in refused(&db) {
            let told = error.to_string();
            assert!(matches!(&error, Error::LockTimeout { gid: told, .. } if *told == gid), "{error:?}");
            let advice = r#"commit_prepared or rollback_prepared ends what has prepared under the id "one""#;
            assert!(told.ends_with(advice), "{told}");
        }
        db.commit_prepared(GIDS[0]).unwrap();
        // Another one has the row now, which first has not prepared, and then has under the same id.
        let tx = db.begin().unwrap();
        tx.bytes(&db.byte_table("t").unwrap()).put(&held, b"4").unwrap();
        for error in refused(&db) {
            assert!(matches!(error, Error::LockTimeout { gid: None, .. }), "{error:?}");
            assert!(error.to_string().ends_with("; try again, or roll it back"), "{error}");
        }
        if found_at_opening {
            tx.prepare(GIDS[0]).unwrap();
        }
    }
}

/// An id that is no text is told as the same escapes, by whatever refuses it.
#[test]
fn an_id_is_told_as_it_was_given() {
    let db = Database::in_memory().unwrap();
    let gid = b"tab\t\xff";
    let unknown = db.commit_prepared(gid).unwrap_err().to_string();
    assert!(
        unknown.starts_with(r#"no prepared transaction has the id "tab\t\xff"; the list of prepared"#),
        "{unknown}"
    );
    db.begin().unwrap().prepare(gid).unwrap();
    let twice = db.begin().unwrap().prepare(gid).unwrap_err().to_string();
    assert_eq!(twice, r#""tab\t\xff" is the id of a prepared transaction already"#);
}

/// Where the disk is full at a restart, what a large prepared transaction had replaced stays in memory, and goes with it.
#[test]
fn what_finds_no_space_at_a_restart_goes_with_its_transaction() {
    let disk = SimDisk::new(3);
    let open = || tiny().durability(Durability::Buffered).open_on(Arc::new(disk.clone())).unwrap();
    let db = open();
    let (table, filler) = (db.byte_table("t").unwrap(), db.byte_table("filler").unwrap());
    (0..200_u8).for_each(|row| table.put(&[row], &[1; 300]).unwrap());
    let tx = db.begin().unwrap();
    (0..200_u8).for_each(|row| tx.bytes(&table).put(&[row], &[2; 300]).unwrap());
    tx.prepare("gid").unwrap();
    db.checkpoint().unwrap();
    disk.set_capacity(disk.used_bytes());
    let full = (0..).find_map(|i| filler.put(&key(b"filler", i), &[5; 900]).err());
    assert!(matches!(full, Some(Error::Full { .. })), "{full:?}");
    drop((table, filler, db));
    let db = open();
    let table = db.byte_table("t").unwrap();
    assert!(db.stats().image_bytes > 30_000, "{}", db.stats().image_bytes);
    assert!(table.range(..).map(Result::unwrap).all(|(_, value)| value == [1; 300]));
    disk.set_capacity(u64::MAX);
    db.commit_prepared("gid").unwrap();
    assert!(table.range(..).map(Result::unwrap).all(|(_, value)| value == [2; 300]));
    assert_eq!(db.stats().image_bytes, 0);
}
