//! Files of the log that are missing, and logs that begin anew without them.

mod common;
mod losses;

use common::{TINY_SEGMENT_BYTES, key, tiny};
use foreshore::{Builder, Database, Durability, Error};
use foreshore_io::{SimDisk, Vfs, sim::Crash};
use losses::{lose_directory, salvage, salvage_cut_short};
use std::sync::Arc;

/// The names of the log's files, in order.
fn log_files(disk: &SimDisk) -> Vec<String> {
    disk.names().into_iter().filter(|name| name.starts_with("wal-")).collect()
}

fn lose(disk: &SimDisk, files: &[String]) {
    files.iter().for_each(|name| disk.remove(name).unwrap());
}

fn open(builder: Builder, disk: &SimDisk) -> foreshore::Result<Database> {
    builder.open_on(Arc::new(disk.clone()))
}

/// Where the file is gone with which the needed part of the log begins, what it held is not lost without a word: whether all others are
/// gone, too, or older ones are there, which were kept to be recycled.
#[test]
fn a_log_that_is_gone_is_missed() {
    const ROWS: u32 = 5000;
    let disk = SimDisk::new(1);
    let db = open(tiny().log_bytes(16 << 20), &disk).unwrap();
    let table = db.byte_table("t").unwrap();
    let many = table.with_durability(Durability::Relaxed);
    (0..ROWS).for_each(|i| many.put(&i.to_be_bytes(), &[1; 100]).unwrap());
    let take_checkpoint = |_| {
        many.put(b"k", b"v").unwrap();
        db.checkpoint().unwrap();
        let stats = db.stats();
        stats.log_bytes - stats.log_to_redo_bytes
    };
    // One that begins with the first needed record may not have been made.
    let redo = (0..).map(take_checkpoint).find(|redo| redo % TINY_SEGMENT_BYTES != 0).unwrap();
    (ROWS..ROWS + 10).for_each(|i| table.put(&i.to_be_bytes(), &[1; 100]).unwrap());
    let disk = disk.after_crash(Crash::PowerLoss, 1);
    drop((many, table, db));
    let first = format!("wal-{:016}", redo / TINY_SEGMENT_BYTES);
    let (older, needed): (Vec<_>, Vec<_>) = log_files(&disk).into_iter().partition(|name| *name < first);
    assert!(!older.is_empty() && needed.contains(&first));
    lose(&disk, &needed);
    for lost in [vec![], older] {
        lose(&disk, &lost);
        for rebuild in [false, true] {
            let told = open(tiny().rebuild(rebuild), &disk).map(drop).unwrap_err();
            assert!(matches!(told, Error::Corrupt { .. }), "{told:?}");
            let named = format!("its file {first} is gone");
            assert!(told.to_string().contains(&named), "{told}");
        }
    }
    lose_directory(&disk);
    let db = salvage(&disk).unwrap();
    assert!(db.byte_table("t").unwrap().range(..).count() > ROWS as usize);
    db.close().unwrap();
    drop(open(tiny(), &disk).unwrap());
}

/// A database whose next opening begins its log with a file, and the names of the files before that one and of those from it on. It was
/// closed, or killed behind its last checkpoint.
fn ended_with_a_file(is_closed: bool) -> (SimDisk, Vec<String>, Vec<String>) {
    let ended = |puts| {
        let disk = SimDisk::new(1);
        let db = open(tiny(), &disk).unwrap();
        let table = db.byte_table("t").unwrap();
        (0..puts).for_each(|i| table.put(&key(i), b"old").unwrap());
        db.checkpoint().unwrap();
        table.put(b"k", b"v").unwrap();
        if is_closed {
            db.clone().close().unwrap();
        }
        let ended = disk.after_crash(Crash::ProcessKill, 1);
        drop((table, db));
        let next = open(tiny(), &ended.after_crash(Crash::ProcessKill, 1)).unwrap();
        let start = next.stats().log_durable_lsn;
        start.is_multiple_of(TINY_SEGMENT_BYTES).then_some((ended, start / TINY_SEGMENT_BYTES))
    };
    let (disk, n) = (1..).find_map(ended).unwrap();
    let (older, newer) = log_files(&disk).into_iter().partition(|name| *name < format!("wal-{n:016}"));
    (disk, older, newer)
}

/// The file in which the last opening began is missed, too: whether needed records lie before it or not.
#[test]
fn a_log_that_is_gone_since_the_last_opening_is_missed() {
    for is_closed in [false, true] {
        let (disk, older, newer) = ended_with_a_file(is_closed);
        let db = open(tiny(), &disk).unwrap();
        let table = db.byte_table("t").unwrap();
        (0..100).for_each(|i| table.put(&key(i), b"new").unwrap());
        let disk = disk.after_crash(Crash::PowerLoss, 1);
        drop((table, db));
        lose(&disk, &log_files(&disk).into_iter().filter(|name| !older.contains(name)).collect::<Vec<_>>());
        let told = open(tiny(), &disk).map(drop).unwrap_err();
        assert!(matches!(told, Error::Corrupt { .. }), "{told:?}");
        assert!(told.to_string().contains(&format!("its file {} is gone", newer[0])), "{told}");
    }
}

/// An opening that is cut short does not miss the file that it has not made, nor does one that finds no space for it: that makes it of one
/// that nobody needs, or says so.
#[test]
fn an_opening_that_is_cut_short_misses_no_file() {
    let (closed, older, newer) = ended_with_a_file(true);
    lose(&closed, &newer); // they hold nothing, and might not have been made
    let copy = || closed.after_crash(Crash::ProcessKill, 1);
    let whole = copy();
    drop(open(tiny(), &whole).unwrap());
    for event in 0..=whole.events() {
        for crash in [Crash::ProcessKill, Crash::PowerLoss] {
            let cut = copy();
            cut.crash_at(event);
            let db = open(tiny(), &cut);
            let next = cut.after_crash(crash, event);
            drop(db);
            open(tiny(), &next).unwrap_or_else(|e| panic!("{crash:?} at {event}: {e}"));
        }
    }
    let full = copy();
    full.set_capacity(full.used_bytes());
    drop(open(tiny(), &full).unwrap());
    assert!(log_files(&full).contains(&newer[0]));
    let full = copy();
    lose(&full, &older);
    full.set_capacity(full.used_bytes());
    let told = open(tiny(), &full).map(drop);
    assert!(matches!(told, Err(Error::Full { .. })), "{told:?}");
    full.set_capacity(u64::MAX);
    drop(open(tiny(), &full).unwrap());
}

/// A salvage without the log makes a new one, or says that there is no space for it: the next open would miss it.
#[test]
fn a_salvage_needs_space_for_a_log() {
    let disk = SimDisk::new(1);
    let db = open(tiny(), &disk).unwrap();
    db.byte_table("t").unwrap().put(b"k", b"v").unwrap();
    db.close().unwrap();
    lose_directory(&disk);
    lose(&disk, &log_files(&disk));
    let room_for_a_directory = 32 << 10;
    disk.set_capacity(disk.used_bytes() + room_for_a_directory);
    let full = salvage(&disk).map(drop);
    assert!(matches!(full, Err(Error::Full { .. })), "{full:?}");
    disk.set_capacity(u64::MAX);
    let db = open(tiny(), &disk).unwrap();
    assert!(db.byte_table("t").unwrap().contains(b"k").unwrap());
}

/// A log's buffer of another length, which nobody could map, is no more in the way of a salvage than what it holds.
#[test]
fn a_salvage_makes_do_with_a_buffer_of_another_length() {
    for bytes in [0, 4096, 1 << 20] {
        let disk = SimDisk::new(1);
        let db = open(tiny(), &disk).unwrap();
        db.byte_table("t").unwrap().put(b"k", b"v").unwrap();
        db.close().unwrap();
        lose_directory(&disk);
        disk.corrupt("ring", |ring| ring.resize(bytes, 1));
        let db = salvage(&disk).unwrap_or_else(|e| panic!("{bytes} bytes: {e}"));
        assert!(db.byte_table("t").unwrap().contains(b"k").unwrap());
    }
}

/// What a power failure has left of a database with many files of the log, the older ones of which are kept to be recycled.
fn many_files(rows: u32) -> SimDisk {
    let disk = SimDisk::new(1);
    let db = open(tiny().log_bytes(16 << 20).durability(Durability::Relaxed), &disk).unwrap();
    let table = db.byte_table("t").unwrap();
    (0..rows).for_each(|i| table.put(&i.to_be_bytes(), &[1; 400]).unwrap());
    db.checkpoint().unwrap();
    (0..rows).for_each(|i| table.put(&i.to_be_bytes(), &[2; 400]).unwrap());
    db.sync().unwrap();
    disk.after_crash(Crash::PowerLoss, 1)
}

/// Writes to the database, and opens it after a power failure.
fn go_on(db: Database, disk: &SimDisk, what: &str) {
    let later = db.byte_table("later").unwrap();
    later.put(b"first", b"v").unwrap();
    db.checkpoint().unwrap();
    later.put(b"second", b"v").unwrap();
    let disk = disk.after_crash(Crash::PowerLoss, 1);
    drop((later, db));
    let db = open(tiny(), &disk).unwrap_or_else(|e| panic!("{what}: {e}"));
    let later = db.existing_byte_table("later").unwrap();
    assert!(later.contains(b"first").unwrap() && later.contains(b"second").unwrap(), "{what}");
}

/// What is acknowledged after a salvage is there after the next crash, whichever file the old log lacked: the new one has none of its files.
#[test]
fn a_salvage_leaves_no_gap_in_the_log() {
    let left = many_files(600);
    let files = log_files(&left);
    assert!(files.len() > 3, "{files:?}");
    for lost in &files {
        let disk = left.after_crash(Crash::PowerLoss, 1);
        disk.remove(lost).unwrap();
        lose_directory(&disk);
        let db = salvage(&disk).unwrap_or_else(|e| panic!("{lost}: {e}"));
        go_on(db, &disk, lost);
    }
}

/// Nor is there a gap after a salvage that was cut short, wherever that was.
#[test]
fn a_salvage_cut_short_leaves_no_gap_in_the_log() {
    let left = many_files(150);
    for lost in log_files(&left) {
        let disk = left.after_crash(Crash::PowerLoss, 1);
        disk.remove(&lost).unwrap();
        lose_directory(&disk);
        salvage_cut_short(&disk, &lost, go_on);
    }
}
