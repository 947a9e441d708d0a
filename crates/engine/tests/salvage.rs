//! `check --rebuild`: the directory made again from the leaves, with the log where the old directory can be read, and without it where
//! leaves are all that is left (a salvage).

mod common;
mod losses;

use common::{short, tiny};
use foreshore::{Database, Durability, Error};
use foreshore_io::{
    SimDisk,
    sim::{Crash, Repeat},
};
use losses::{lose_directory, lose_last_batch, lose_leaves, lose_newest, salvage, salvage_cut_short};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// The last resort: the directory is gone, and the leaves alone bring the rows back.
#[test]
fn the_leaves_alone_bring_the_rows_back() {
    let dir = tempfile::tempdir().unwrap();
    let fill = |db: &Database, from: u32| {
        let table = db.byte_table("t").unwrap().with_durability(Durability::Buffered);
        for i in from..from + 3000 {
            table.put(&i.wrapping_mul(2_654_435_761).to_be_bytes(), &[i as u8; 40]).unwrap();
        }
    };
    let rows = |db: &Database| -> Vec<_> {
        db.check().unwrap();
        db.byte_table("t").unwrap().range(..).collect::<Result<_, _>>().unwrap()
    };
    let db = Database::open(dir.path()).unwrap();
    fill(&db, 0);
    db.checkpoint().unwrap();
    fill(&db, 3000);
    let expected = rows(&db);
    db.close().unwrap();

    // A directory rebuilt from the leaves says the same as the one that was kept.
    let db = Database::builder().rebuild(true).open(dir.path()).unwrap();
    assert_eq!(rows(&db), expected);
    db.close().unwrap();

    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_str().unwrap().starts_with("directory-") {
            std::fs::write(path, "not a directory").unwrap();
        }
    }
    assert!(matches!(Database::open(dir.path()), Err(Error::Corrupt { .. } | Error::Incompatible { .. })));
    let db = Database::builder().rebuild(true).open(dir.path()).unwrap();
    assert_eq!(rows(&db), expected);
    fill(&db, 6000);
    drop(db);
    let db = Database::open(dir.path()).unwrap();
    assert_eq!(rows(&db).len(), 9000);
}

/// What is written after a salvage survives a crash like anything else, before the first checkpoint too.
#[test]
fn a_salvaged_database_may_crash() {
    for crash in [Crash::ProcessKill, Crash::PowerLoss] {
        let disk = SimDisk::new(1);
        let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
        let table = db.byte_table("t").unwrap();
        (0..100u8).for_each(|i| table.put(&[i], &[i; 50]).unwrap());
        drop(table);
        db.close().unwrap();
        lose_directory(&disk);

        let db = tiny().rebuild(true).open_on(Arc::new(disk.clone())).unwrap();
        db.byte_table("t").unwrap().put(b"new", b"").unwrap();
        for builder in [tiny(), tiny().rebuild(true)] {
            let after = disk.after_crash(crash, 3);
            let db = builder.open_on(Arc::new(after)).unwrap_or_else(|e| panic!("{crash:?}: {e}"));
            assert_eq!(db.byte_table("t").unwrap().range(..).count(), 101, "{crash:?}");
        }
    }
}

/// The directory that a salvage has made is missed like any other where it loses its end, before the first checkpoint too, and a rebuild
/// reads on in the log.
#[test]
fn a_salvaged_database_misses_the_end_of_its_directory() {
    let disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    db.byte_table("t").unwrap().put(b"old", b"v").unwrap();
    db.close().unwrap();
    lose_directory(&disk);
    let db = salvage(&disk).unwrap();
    db.byte_table("t").unwrap().put(b"new", b"v").unwrap(); // as `Sync`
    let disk = disk.after_crash(Crash::PowerLoss, 1);
    drop(db);
    lose_last_batch(&disk);
    let opened = tiny().open_on(Arc::new(disk.clone())).map(drop);
    assert!(opened.is_err_and(|told| told.to_string().contains("its end is missing")), "a row is missing");
    let table = salvage(&disk).unwrap().byte_table("t").unwrap();
    assert!(table.contains(b"old").unwrap() && table.contains(b"new").unwrap());
}

/// A salvage that is cut short is done again by the next open: a large value that a row refers to stays, though the leaf with its
/// mark is from after the commit that replaced it.
#[test]
fn a_salvage_that_was_cut_short_loses_no_large_value() {
    let disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    table.put(b"k", &[1; 20_000]).unwrap();
    db.checkpoint().unwrap();
    let snapshot = db.snapshot().unwrap(); // keeps the value that is replaced
    table.put(b"k", b"new").unwrap();
    db.checkpoint().unwrap();
    let left = disk.after_crash(Crash::PowerLoss, 1);
    drop((snapshot, table, db));
    lose_directory(&left);
    lose_newest(&left, |table, _| table == 16);

    salvage_cut_short(&left, "salvaged", |db, disk, what| {
        drop(db); // what is marked is removed
        let db = tiny().open_on(Arc::new(disk.clone())).or_else(|_| salvage(disk)).unwrap();
        let value = db.byte_table("t").unwrap().get(b"k").unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(value.as_deref(), Some(&[1; 20_000][..]), "{what}");
    });
}

/// A leaf that is lost costs its own rows: a salvage opens with the others, and lets none of their large values go.
#[test]
fn a_salvage_opens_without_a_leaf_that_is_lost() {
    let disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    (0..200u8).for_each(|i| table.put(&[i], &[i; 100]).unwrap());
    table.put(&[250], &[1; 20_000]).unwrap();
    drop(table);
    db.close().unwrap();
    lose_directory(&disk);
    disk.corrupt("leaves.db", |bytes| {
        let of_user = |leaf: &&mut [u8]| leaf[..2] == *b"FL" && leaf[32..36] == 16u32.to_le_bytes();
        // Neither the first one nor the last.
        bytes.chunks_mut(4096).filter(of_user).nth(2).unwrap().fill(0);
    });
    for builder in [tiny().rebuild(true), tiny()] {
        let db = builder.open_on(Arc::new(disk.clone())).unwrap();
        let table = db.byte_table("t").unwrap();
        assert_eq!(table.get(&[0]).unwrap().as_deref(), Some(&[0; 100][..]));
        assert_eq!(table.get(&[250]).unwrap().as_deref(), Some(&[1; 20_000][..]));
        assert!((0..200u8).any(|i| table.get(&[i]).is_err()));
    }
}

/// Tables that lack their leftmost leaf, as one that was made after the last checkpoint may, keep no others closed. What they have
/// lost is an error, what they have is there, and they can be dropped, wherever the salvage is cut short.
#[test]
fn a_salvage_opens_without_leftmost_leaves() {
    const LATE: u32 = 17; // the second table that was made
    const LOST: u32 = 18;
    const HIDDEN: u32 = 20;
    let disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let [whole, late, lost, large] =
        ["whole", "late", "lost", "large"].map(|name| db.byte_table(name).unwrap());
    (0..200u8).for_each(|i| [&whole, &late].iter().for_each(|table| table.put(&[i], &[i; 100]).unwrap()));
    lost.put(b"k", b"v").unwrap();
    large.put(b"chunks", &[1; 20_000]).unwrap();
    large.put(b"extents", &[2; 100_000]).unwrap();
    drop((whole, late, lost, large));
    db.close().unwrap();
    lose_directory(&disk);
    lose_leaves(&disk, |table, leftmost| leftmost && [LATE, LOST, HIDDEN].contains(&table));

    let verify = |db: Database, disk: &SimDisk, what: &str| {
        let table = |name: &str| db.byte_table(name).unwrap();
        assert_eq!(table("whole").range(..).map(Result::unwrap).count(), 200, "{what}");
        let is_lost = |done: Result<(), Error>| assert!(matches!(done, Err(Error::Corrupt { .. })), "{what}");
        is_lost(table("late").get(&[0]).map(drop));
        is_lost(table("late").put(&[0], b""));
        is_lost(table("lost").get(b"k").map(drop));
        is_lost(table("large").get(b"chunks").map(drop));
        is_lost(db.check().map(drop));
        assert_eq!(table("late").get(&[199]).unwrap().as_deref(), Some(&[199; 100][..]), "{what}");
        let found = table("late").range(..).rev().take_while(Result::is_ok).count();
        assert!((100..200).contains(&found), "{what}: {found} rows");
        assert_eq!(table("large").get(b"extents").unwrap().as_deref(), Some(&[2; 100_000][..]), "{what}");
        table("whole").put(b"new", &[3; 100_000]).unwrap();
        for name in ["late", "lost", "large"] {
            assert!(db.drop_table(name).unwrap(), "{what}: {name}");
        }
        table("new").put(b"row", b"").unwrap();
        db.check().unwrap_or_else(|e| panic!("{what}: {e}"));
        db.close().unwrap();
        let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
        assert_eq!(db.check().unwrap().stray_pages, 0, "{what}");
        let value = db.byte_table("whole").unwrap().get(b"new").unwrap();
        assert_eq!(value.as_deref(), Some(&[3; 100_000][..]), "{what}");
    };
    salvage_cut_short(&disk, "salvaged", verify);
}

/// The catalog's leaf that says which id was the highest may be from before the last table was made, and the leaves of that be lost:
/// its id is not given again.
#[test]
fn a_salvage_gives_no_id_of_a_table_again() {
    const TABLES: u32 = 80;
    let disk = SimDisk::new(1);
    let db = tiny().log_bytes(1 << 20).open_on(Arc::new(disk.clone())).unwrap();
    let long = "x".repeat(100);
    (0..TABLES).for_each(|i| drop(db.byte_table(&format!("{i:03} {long}")).unwrap()));
    db.checkpoint().unwrap();
    db.byte_table("last").unwrap().put(b"k", b"v").unwrap();
    db.checkpoint().unwrap();
    let disk = disk.after_crash(Crash::PowerLoss, 1);
    drop(db);
    lose_directory(&disk);
    lose_leaves(&disk, |table, _| table == 16 + TABLES);
    lose_newest(&disk, |table, at_left| table == 1 && at_left);
    let db = tiny().rebuild(true).open_on(Arc::new(disk.clone())).unwrap();
    db.byte_table("new").unwrap().put(b"k", b"new").unwrap();
    db.close().unwrap();
    let db = tiny().open_on(Arc::new(disk)).unwrap();
    assert_eq!(db.byte_table("new").unwrap().get(b"k").unwrap().as_deref(), Some(&b"new"[..]));
    assert!(matches!(db.byte_table("last").unwrap().get(b"k"), Err(Error::Corrupt { .. })));
}

/// Without any leaf nothing can be salvaged, and nothing is changed.
#[test]
fn a_salvage_without_a_leaf_leaves_the_directory_as_it_is() {
    let disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    db.byte_table("t").unwrap().put(b"k", b"v").unwrap();
    db.close().unwrap();
    let directory = lose_directory(&disk);
    lose_leaves(&disk, |_, _| true);
    let refused = tiny().rebuild(true).open_on(Arc::new(disk.clone()));
    assert!(matches!(&refused, Err(Error::Corrupt { what, .. }) if what == "leaf files"), "{refused:?}");
    disk.corrupt(&directory, |bytes| assert!(bytes.iter().all(|byte| *byte == 1)));
}

/// Nor is a database without a single leaf an empty one, whatever else there is of it.
#[test]
fn a_rebuild_without_a_leaf_is_refused_though_the_directory_is_whole() {
    let disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    db.byte_table("t").unwrap().put(b"k", b"v").unwrap();
    db.close().unwrap();
    let names = disk.names();
    lose_leaves(&disk, |_, _| true);
    let refused = tiny().rebuild(true).open_on(Arc::new(disk.clone()));
    assert!(matches!(&refused, Err(Error::Corrupt { what, .. }) if what == "leaf files"), "{refused:?}");
    assert_eq!(disk.names(), names);
}

/// What a killed process had written of large values and not synced, since it had not come to commit them, is durable before a
/// salvage says that it is there.
#[test]
fn a_large_value_that_a_salvage_finds_survives_a_power_failure() {
    let disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    let tx = db.begin().unwrap();
    tx.bytes(&table).put(b"k", &[7; 100_000]).unwrap();
    db.checkpoint().unwrap();
    let left = disk.after_crash(Crash::ProcessKill, 1);
    drop((tx, table, db));
    lose_directory(&left);
    let value = |db: Database| db.byte_table("t").unwrap().get(b"k");
    let db = tiny().rebuild(true).open_on(Arc::new(left.clone())).unwrap();
    assert_eq!(value(db).unwrap().as_deref(), Some(&[7; 100_000][..]));
    for seed in 0..8 {
        let db = tiny().open_on(Arc::new(left.after_crash(Crash::PowerLoss, seed))).unwrap();
        let value = value(db).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert_eq!(value.as_deref(), Some(&[7; 100_000][..]), "seed {seed}");
    }
}

/// A rebuild with a whole directory gives the same rows, also when power failed while leaves were written that had been split: of two
/// halves one may be there, and the other as it was before.
#[test]
fn a_rebuild_after_a_power_failure_gives_the_same_rows() {
    let filled = |crash_at| {
        let disk = SimDisk::new(1);
        let db = tiny().log_bytes(1 << 20).open_on(Arc::new(disk.clone())).unwrap();
        let table = db.byte_table("t").unwrap();
        let put = |i: u32| table.put(&i.wrapping_mul(2_654_435_761).to_be_bytes(), &[i as u8; 100]).unwrap();
        (0..100).for_each(put);
        db.checkpoint().unwrap();
        (100..200).for_each(put);
        let before = disk.events();
        disk.crash_at(crash_at);
        let _ = db.checkpoint();
        (before, disk)
    };
    let (from, whole) = filled(u64::MAX);
    for event in from..whole.events() {
        let (_, disk) = filled(event);
        for seed in 0..4 {
            let left = disk.after_crash(Crash::PowerLoss, seed);
            let rows = |rebuild| {
                let copy = left.after_crash(Crash::PowerLoss, 1);
                let db = tiny().rebuild(rebuild).open_on(Arc::new(copy)).unwrap();
                db.check().unwrap_or_else(|e| panic!("event {event}, seed {seed}, rebuild {rebuild}: {e}"));
                db.byte_table("t").unwrap().range(..).collect::<Result<Vec<_>, _>>().unwrap()
            };
            assert_eq!(rows(true), rows(false), "event {event}, seed {seed}");
        }
    }
}

/// Without the directory, a leaf may be there as it was before it was split, beside the leaves that were split off it: its lower
/// rows are there, and the others are those of the newer leaves, wherever the salvage is cut short.
#[test]
fn a_salvage_takes_leaves_from_before_a_split() {
    const ROWS: u32 = 200;
    let key = |i: u32| i.wrapping_mul(2_654_435_761).to_be_bytes();
    let disk = SimDisk::new(1);
    let db = tiny().log_bytes(1 << 20).open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    let put = |i: u32| table.put(&key(i), &[i as u8; 100]).unwrap();
    (0..ROWS / 2).for_each(put);
    db.checkpoint().unwrap();
    (ROWS / 2..ROWS).for_each(put);
    db.checkpoint().unwrap();
    let left = disk.after_crash(Crash::PowerLoss, 1);
    lose_directory(&left);
    left.corrupt("leaves.db", |bytes| {
        // The newest image of the table's first leaf, whose low fence is empty.
        let is_first = |leaf: &&mut [u8]| {
            leaf[..2] == *b"FL" && leaf[32..36] == 16u32.to_le_bytes() && leaf[46..48] == [0; 2]
        };
        let lsn = |leaf: &&mut [u8]| u64::from_le_bytes(leaf[16..24].try_into().unwrap());
        bytes.chunks_mut(4096).filter(is_first).max_by_key(lsn).unwrap().fill(0);
    });
    let verify = |db: &Database, what: &str| {
        db.check().unwrap_or_else(|e| panic!("{what}: {e}"));
        let table = db.byte_table("t").unwrap();
        let rows: Vec<_> = table.range(..).collect::<Result<_, _>>().unwrap();
        assert!(rows.iter().all(|(key, value)| table.get(key).unwrap().as_ref() == Some(value)), "{what}");
        let is_there = |i: u32| rows.iter().any(|row| row.0 == key(i) && row.1 == [i as u8; 100]);
        assert!((0..ROWS / 2).all(is_there), "{what}");
        assert!((ROWS / 2 + 1..ROWS).contains(&(rows.len() as u32)), "{what}: {} rows", rows.len());
    };
    let whole = left.after_crash(Crash::PowerLoss, 1);
    let db = salvage(&whole).unwrap();
    let events = whole.events();
    verify(&db, "salvaged");
    for event in 0..events {
        let disk = left.after_crash(Crash::PowerLoss, 1);
        disk.crash_at(event);
        drop(salvage(&disk));
        let disk = disk.after_crash(Crash::PowerLoss, event);
        let db = tiny().open_on(Arc::new(disk.clone())).or_else(|_| salvage(&disk)).unwrap();
        verify(&db, &format!("event {event}"));
    }
}

/// What a killed process had written, and not synced, is durable before a salvage says that it is there.
#[test]
fn a_salvage_survives_a_power_failure() {
    let filled = |crash_at| {
        let disk = SimDisk::new(1);
        let db = tiny().log_bytes(1 << 20).open_on(Arc::new(disk.clone())).unwrap();
        let table = db.byte_table("t").unwrap();
        db.checkpoint().unwrap();
        let table = table.with_durability(Durability::Relaxed);
        (0..200u8).for_each(|i| table.put(&[i], &[i; 100]).unwrap());
        db.sync().unwrap();
        let before = disk.events();
        disk.crash_at(crash_at);
        let _ = db.checkpoint();
        (before, disk)
    };
    let (from, whole) = filled(u64::MAX);
    let rows = |db: &Database| db.byte_table("t")?.range(..).collect::<Result<Vec<_>, _>>();
    let mut salvaged = 0;
    for (event, seed) in (from..whole.events()).flat_map(|event| (0..4).map(move |seed| (event, seed))) {
        let left = filled(event).1.after_crash(Crash::ProcessKill, seed);
        lose_directory(&left);
        let db = tiny().rebuild(true).open_on(Arc::new(left.clone()));
        let Ok(found) = db.and_then(|db| rows(&db)) else { continue }; // a leaf was not there yet
        salvaged += 1;
        let db = tiny().open_on(Arc::new(left.after_crash(Crash::PowerLoss, seed)));
        let again = db.and_then(|db| rows(&db)).unwrap_or_else(|e| panic!("event {event}, seed {seed}: {e}"));
        assert!(again == found, "event {event}, seed {seed}: {} rows", again.len());
    }
    assert!(salvaged > 4, "{salvaged} salvaged");
}

/// What is left of a dropped table on the disk is nobody's: a salvage does not take it for another table's rows, also if that
/// one was made after a restart.
#[test]
fn a_salvage_brings_back_no_dropped_table() {
    let disk = SimDisk::new(1);
    let open = |disk: &SimDisk| tiny().open_on(Arc::new(disk.clone())).unwrap();
    let db = open(&disk);
    let table = db.byte_table("dropped").unwrap();
    (0..200u8).for_each(|i| table.put(&[i], &[7; 100]).unwrap());
    db.checkpoint().unwrap();
    assert!(db.drop_table("dropped").unwrap());
    drop(table);
    db.close().unwrap();
    drop(open(&disk));

    let db = open(&disk);
    db.byte_table("new").unwrap().put(b"row", b"").unwrap();
    let db = tiny().rebuild(true).open_on(Arc::new(disk.after_crash(Crash::ProcessKill, 1))).unwrap();
    let table = db.byte_table("new").unwrap();
    let rows: Vec<_> = table.range(..).map(|row| row.unwrap().0).collect();
    assert_eq!(rows, [b"row"]);
    (0..200u8).for_each(|i| assert_eq!(table.get(&[i]).unwrap(), None, "row {i}"));
}

/// Only a directory that is damaged is done without: one that cannot be read now leads to what only the log holds.
#[test]
fn a_salvage_gives_up_no_log_for_a_read_that_failed() {
    let disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    (0..50u8).for_each(|i| table.put(&[i], &[i; 50]).unwrap());
    db.checkpoint().unwrap();
    (50..100u8).for_each(|i| table.put(&[i], &[i; 50]).unwrap());
    let left = disk.after_crash(Crash::ProcessKill, 1);
    let copy = || left.after_crash(Crash::ProcessKill, 1);
    let whole = copy();
    drop(tiny().rebuild(true).open_on(Arc::new(whole.clone())).unwrap());
    for read in 0..whole.read_events() {
        let disk = copy();
        disk.fail_read_at(read, Repeat::Once);
        let _ = tiny().rebuild(true).open_on(Arc::new(disk.clone()));
        disk.clear_faults(); // the thread that reads ahead may not have come as far
        let db = tiny().open_on(Arc::new(disk)).unwrap();
        assert_eq!(db.byte_table("t").unwrap().range(..).count(), 100, "read {read}");
    }
}

/// Where the directory is whole, a damaged leaf costs its own rows, too, also if it is the leftmost one of a table.
#[test]
fn a_rebuild_opens_without_leftmost_leaves() {
    let disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let [whole, large] = ["whole", "large"].map(|name| db.byte_table(name).unwrap());
    (0..200u8).for_each(|i| whole.put(&[i], &[i; 100]).unwrap());
    large.put(b"k", &[1; 20_000]).unwrap();
    drop((whole, large));
    db.close().unwrap();
    let copy = || disk.after_crash(Crash::PowerLoss, 1);

    for lost in [16, 17, 18] {
        let left = copy();
        lose_leaves(&left, |table, leftmost| leftmost && table == lost);
        for builder in [tiny().rebuild(true), tiny()] {
            let db = builder.open_on(Arc::new(left.clone())).unwrap_or_else(|e| panic!("table {lost}: {e}"));
            let [whole, large] = ["whole", "large"].map(|name| db.byte_table(name).unwrap());
            assert_eq!(whole.get(&[0]).is_err(), lost == 16);
            assert_eq!(whole.get(&[199]).unwrap().as_deref(), Some(&[199; 100][..]), "table {lost}");
            assert_eq!(large.get(b"k").is_err(), lost != 16);
        }
    }
}

/// With the directory, a damaged leaf costs what is in it: an older image of its page, from before a split and from before where the
/// log begins, is none that the log's changes fit.
#[test]
fn a_rebuild_puts_no_older_leaf_in_the_place_of_a_damaged_one() {
    const ROWS: u32 = 200;
    let key = |i: u32| i.wrapping_mul(2_654_435_761).to_be_bytes();
    let disk = SimDisk::new(1);
    let db = tiny().log_bytes(1 << 20).open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    let put = |i: u32, version: u8| table.put(&key(i), &[version; 100]).unwrap();
    (0..ROWS / 2).for_each(|i| put(i, 1));
    db.checkpoint().unwrap();
    (0..ROWS).for_each(|i| put(i, 2));
    db.checkpoint().unwrap();
    for logged in [false, true] {
        if logged {
            db.transact(|tx| (0..ROWS).step_by(2).try_for_each(|i| tx.bytes(&table).put(&key(i), &[3; 100])))
                .unwrap();
        }
        let left = disk.after_crash(Crash::PowerLoss, 1);
        lose_newest(&left, |table, at_left| table == 16 && at_left);
        let newest = |i: u32| if logged && i.is_multiple_of(2) { 3 } else { 2 };
        for builder in [tiny().rebuild(true), tiny()] {
            let db = builder.open_on(Arc::new(left.clone())).unwrap();
            let table = db.byte_table("t").unwrap();
            let found: Vec<_> =
                (0..ROWS).filter_map(|i| table.get(&key(i)).ok().map(|row| (i, row))).collect();
            assert!((100..200).contains(&found.len()), "{logged}: {} rows", found.len());
            for (i, row) in &found {
                assert_eq!(row.as_deref(), Some(&[newest(*i); 100][..]), "{logged}: row {i}");
            }
            let walked = table.range(..).rev().take_while(Result::is_ok).count();
            assert_eq!(walked, found.len(), "{logged}");
            db.close().unwrap();
        }
    }
}

/// What a transaction that had not ended has changed in a leaf that is lost need not be undone: all else is.
#[test]
fn a_rebuild_rolls_back_what_there_is() {
    let key = |i: u32| i.wrapping_mul(2_654_435_761).to_be_bytes();
    let disk = SimDisk::new(1);
    let db = tiny().log_bytes(1 << 20).open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    (0..200).for_each(|i| table.put(&key(i), &[1; 100]).unwrap());
    let tx = db.begin().unwrap();
    (0..200).for_each(|i| tx.bytes(&table).put(&key(i), &[2; 100]).unwrap());
    db.checkpoint().unwrap();
    let left = disk.after_crash(Crash::PowerLoss, 1);
    for leftmost in [true, false] {
        let left = left.after_crash(Crash::PowerLoss, 1);
        lose_newest(&left, |table, at_left| table == 16 && at_left == leftmost);
        for (builder, undone) in [(tiny().rebuild(true), 1), (tiny(), 0)] {
            let db = builder.open_on(Arc::new(left.clone())).unwrap_or_else(|e| panic!("{leftmost}: {e}"));
            assert_eq!(db.stats().undone_at_open, undone);
            if leftmost {
                let table = db.byte_table("t").unwrap();
                let rows: Vec<_> = (0..200).filter_map(|i| table.get(&key(i)).ok()).collect();
                assert!(
                    (100..200).contains(&rows.len()) && rows.iter().all(|row| *row == Some(vec![1; 100]))
                );
            }
        }
    }
}

/// Nobody waits for a leaf that is lost: not who reads or writes its rows, nor who opens the database, where large values are looked for.
#[test]
fn nobody_waits_for_a_leaf_that_is_lost() {
    const ROWS: u8 = 200;
    const HIDDEN: u32 = 18;
    let disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let [table, large] = ["t", "large"].map(|name| db.byte_table(name).unwrap());
    (0..ROWS).for_each(|i| table.put(&[i], &[i; 100]).unwrap());
    large.put(b"chunks", &[1; 20_000]).unwrap();
    large.put(b"extents", &[2; 100_000]).unwrap();
    drop((table, large));
    db.close().unwrap();
    disk.corrupt("leaves.db", |bytes| {
        let of =
            |table: u32| move |leaf: &&mut [u8]| leaf[..2] == *b"FL" && leaf[32..36] == table.to_le_bytes();
        // Neither the first one nor the last.
        bytes.chunks_mut(4096).filter(of(16)).nth(2).unwrap().fill(0);
        // The last one, which names the extents.
        bytes.chunks_mut(4096).filter(of(HIDDEN)).find(|leaf| leaf[48..50] == [0xFF; 2]).unwrap().fill(0);
    });
    for builder in [tiny().rebuild(true), tiny()] {
        let begun = Instant::now();
        let at_once = |what: &str| assert!(begun.elapsed() < Duration::from_secs(5), "{what} is waited for");
        let is_lost = |done: Result<(), Error>, what: &str| {
            assert!(matches!(done, Err(Error::Corrupt { .. })), "{what}: {done:?}");
            at_once(what);
        };
        let db = builder.open_on(Arc::new(disk.clone())).unwrap();
        at_once("the opening");
        let [table, large] = ["t", "large"].map(|name| db.byte_table(name).unwrap());
        is_lost(large.get(b"extents").map(drop), "a large value");
        let lost = (0..ROWS).find(|i| table.get(&[*i]).is_err()).unwrap();
        is_lost(table.get(&[lost]).map(drop), "a lookup");
        is_lost(table.put(&[lost], b""), "a write");
        is_lost(db.transact(|tx| tx.bytes(&table).get_for_update(&[lost]).map(drop)), "a locked read");
        for found in [
            table.range(..).take_while(Result::is_ok).count(),
            table.range(..).rev().take_while(Result::is_ok).count(),
        ] {
            assert!((1..usize::from(ROWS)).contains(&found), "{found} rows");
            at_once("a scan");
        }

        // What comes behind all rows of the leaf before it goes into a gap that ends in the lost one.
        let tx = db.begin().unwrap();
        assert!(tx.bytes(&table).range(&[0][..]..&[1][..]).next().unwrap().is_ok());
        let (done, is_done) = mpsc::channel();
        let writer = table.clone();
        let writer = thread::spawn(move || done.send(writer.put(&[lost - 1, 0], b"")));
        let put = is_done.recv_timeout(Duration::from_secs(5)).expect("a gap is waited for");
        writer.join().unwrap().unwrap(); // it has the database open until then
        is_lost(put, "an insertion");
        tx.rollback().unwrap();
    }
}

/// What a prepared transaction has changed in a leaf that is lost is lost: all else is committed or rolled back as is decided, in
/// whichever life.
#[test]
fn a_rebuild_leaves_prepared_transactions_prepared() {
    const ROWS: u32 = 200;
    let key = |i: u32| i.wrapping_mul(2_654_435_761).to_be_bytes();
    let disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    (0..ROWS).for_each(|i| table.put(&key(i), &[1; 100]).unwrap());
    let tx = db.begin().unwrap();
    for i in 0..ROWS {
        match i % 4 {
            0 => assert!(tx.bytes(&table).remove(&key(i)).unwrap()),
            _ => tx.bytes(&table).put(&key(i), &[2; 100]).unwrap(),
        }
    }
    tx.prepare("gid").unwrap();
    db.checkpoint().unwrap();
    let left = disk.after_crash(Crash::PowerLoss, 1);
    let row = |i: u32, committed: bool| match (committed, i % 4) {
        (false, _) => Some(vec![1; 100]),
        (true, 0) => None,
        (true, _) => Some(vec![2; 100]),
    };
    for (leftmost, committed, later) in (0..8).map(|case| (case & 1 != 0, case & 2 != 0, case & 4 != 0)) {
        let what = format!("leftmost {leftmost}, committed {committed}, later {later}");
        let left = left.after_crash(Crash::PowerLoss, 1);
        lose_newest(&left, |table, at_left| table == 16 && at_left == leftmost);
        let begun = Instant::now();
        let open = |builder: foreshore::Builder| {
            builder.open_on(Arc::new(left.clone())).unwrap_or_else(|e| panic!("{what}: {e}"))
        };
        let mut db = open(tiny().rebuild(true));
        if later {
            drop(db);
            db = open(tiny());
        }
        match committed {
            true => db.commit_prepared("gid").unwrap(),
            false => db.rollback_prepared("gid").unwrap_or_else(|e| panic!("{what}: {e}")),
        }
        for _ in 0..2 {
            let table = db.byte_table("t").unwrap();
            let found: Vec<_> =
                (0..ROWS).filter_map(|i| table.get(&key(i)).ok().map(|row| (i, row))).collect();
            assert!((100..200).contains(&found.len()), "{what}: {} rows", found.len());
            assert!(found.into_iter().all(|(i, found)| found == row(i, committed)), "{what}");
            drop(table);
            drop(db);
            db = open(tiny());
        }
        assert!(begun.elapsed() < Duration::from_secs(5), "{what}: it waits");
    }
}

/// The empty key is no exception, though a rebuild puts an empty leaf in the place of the one that had it: what a transaction without an
/// end had replaced there keeps no database closed, and nobody else writes the row until that transaction has ended.
#[test]
fn a_rebuild_opens_where_the_row_with_the_empty_key_had_been_replaced() {
    const MARKER: &[u8] = b"MARKER";
    for (key, prepared) in [("a", false), ("a", true), ("", false), ("", true)] {
        let what = format!("key {key:?}, prepared {prepared}");
        let disk = SimDisk::new(1);
        let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
        let [table, other] = ["t", "other"].map(|name| db.byte_table(name).unwrap());
        table.put(key.as_bytes(), b"MARKER-before").unwrap();
        other.put(b"k", b"v").unwrap();
        db.checkpoint().unwrap();
        let tx = db.begin().unwrap();
        tx.bytes(&table).put(key.as_bytes(), b"MARKER-after").unwrap();
        let running = match prepared {
            true => tx.prepare("gid").map(|_| None).unwrap(),
            false => Some(tx),
        };
        db.sync().unwrap();
        let left = disk.after_crash(Crash::ProcessKill, 1);
        drop((running, table, other, db));
        left.corrupt("leaves.db", |bytes| {
            let has_row = |leaf: &&mut [u8]| leaf.windows(MARKER.len()).any(|bytes| bytes == MARKER);
            bytes.chunks_mut(4096).filter(has_row).for_each(|leaf| leaf[2000] ^= 1);
        });
        for rebuild in [true, true, false] {
            let opened = tiny().rebuild(rebuild).open_on(Arc::new(left.clone()));
            let db = opened.unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(db.byte_table("other").unwrap().get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
        }
        if prepared {
            let db = tiny().open_on(Arc::new(left.clone())).unwrap();
            let table = db.byte_table("t").unwrap();
            let tx = db.begin_with(short()).unwrap();
            let put = tx.bytes(&table).put(key.as_bytes(), b"other");
            drop(tx);
            assert!(matches!(put, Err(Error::LockTimeout { .. } | Error::Corrupt { .. })), "{what}: {put:?}");
            db.rollback_prepared("gid").unwrap();
            assert_eq!(table.put(key.as_bytes(), b"new").is_ok(), key.is_empty(), "{what}");
        }
    }
}

/// The number of a lost leaf may be given to another one of its table, to the left of the gap. The link into the gap then leads back
/// there: who looks for a lost row does not go round through all leaves in between before he is told.
#[test]
fn a_lost_leaf_whose_number_is_used_again_is_missed_at_once() {
    let key = |i: u32| format!("{:06}", i * 1000).into_bytes();
    let disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    (0..200).for_each(|i| table.put(&key(i), &[1; 100]).unwrap());
    drop(table);
    db.close().unwrap();
    disk.corrupt("leaves.db", |bytes| {
        let of_user = |leaf: &&mut [u8]| leaf[..2] == *b"FL" && leaf[32..36] == 16u32.to_le_bytes();
        bytes.chunks_mut(4096).filter(of_user).nth(3).unwrap().fill(0);
    });
    let db = tiny().rebuild(true).log_bytes(8 << 20).open_on(Arc::new(disk)).unwrap();
    let table = db.byte_table("t").unwrap().with_durability(Durability::Relaxed);
    let lost = (0..200).map(key).find(|key| table.get(key).is_err()).unwrap();
    // Behind the first row, and more leaves than the cache holds.
    (0..1000).for_each(|i| table.put(format!("000000+{i:06}").as_bytes(), &[2; 900]).unwrap());
    let misses_at_once = |look: &dyn Fn() -> Result<(), Error>| {
        let before = db.stats().pool_reads;
        let told = look().unwrap_err();
        let read = db.stats().pool_reads - before;
        assert!(told.to_string().contains("a leaf is missing"), "{told}");
        assert!(read < 100, "{read} pages read");
    };
    misses_at_once(&|| table.get(&lost).map(drop));
    misses_at_once(&|| table.put(&lost, b""));
}

/// What the log's buffer holds of an opening from before a salvage, which began where that begins, is not taken for one of after it:
/// neither where the salvage was cut short, nor where power fails behind it.
#[test]
fn a_salvage_forgets_the_opening_before_it() {
    let disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    (0..100u8).for_each(|i| table.put(&[i], &[i; 50]).unwrap());
    drop(table);
    db.close().unwrap();
    let idle = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let left = disk.after_crash(Crash::ProcessKill, 1);
    drop(idle);
    lose_directory(&left);
    let whole = left.after_crash(Crash::ProcessKill, 1);
    let db = salvage(&whole).unwrap();
    let events = whole.events();
    for event in 0..=events {
        let cut = left.after_crash(Crash::ProcessKill, 1);
        cut.crash_at(event);
        drop(salvage(&cut));
        for (crash, seed) in [(Crash::ProcessKill, 0), (Crash::PowerLoss, 1), (Crash::PowerLoss, 2)] {
            let refused = tiny().open_on(Arc::new(cut.after_crash(crash, event * 3 + seed))).err();
            let told = refused.map_or(String::new(), |error| error.to_string());
            assert!(!told.contains("its end is missing"), "{crash:?} at {event} of {events}: {told}");
        }
    }
    for seed in 0..60 {
        let lost = whole.after_crash(Crash::PowerLoss, seed);
        let opened = tiny().open_on(Arc::new(lost)).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(opened.byte_table("t").unwrap().range(..).count(), 100);
    }
    drop(db);
}
