//! Tables get other names, beside everything else: handles, transactions, snapshots, backups, crashes, full disks.

mod common;

use common::{Rng, rows, tiny};
use foreshore::{ByteTable, Database, Error, Index, Result, TableOptions};
use foreshore_io::sim::{Crash, Fault, Repeat};
use foreshore_io::{MemVfs, SimDisk};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

/// Lies in part outside of its row, in chunks.
const LARGE: [u8; 10_000] = [7; 10_000];

fn open(disk: &SimDisk) -> Database {
    tiny().open_on(Arc::new(disk.clone())).unwrap()
}

/// Names so long that what is logged of a rename lies in several sectors.
fn names() -> [String; 2] {
    ["from", "to"].map(|name| name.repeat(if name == "to" { 400 } else { 200 }))
}

/// A row of each kind.
fn fill(table: &ByteTable) -> Result<()> {
    table.put(b"large", &LARGE)?;
    table.put(b"small", b"v")
}

/// All of what [`fill`] put is there, and nothing else.
fn ensure_filled(table: &ByteTable, what: &str) {
    let expected = [common::row(b"large", &LARGE), common::row(b"small", b"v")];
    assert!(rows(table) == expected, "{what}");
}

/// The table stays what it is, for who has it and for who opens the database again; the old name is free.
#[test]
fn a_renamed_table_stays_what_it_is() {
    let disk = Arc::new(MemVfs::new());
    let open = || tiny().ring_bytes(128 << 10).open_on(disk.clone()).unwrap();
    let db = open();
    let options = TableOptions::new().index(Index::O2).leaf_bytes(8192);
    let table = db.byte_table_with("before", options).unwrap();
    fill(&table).unwrap();
    let before = table.name();
    assert!(db.rename_table("before", "after").unwrap());
    assert_eq!(
        (before, table.name(), format!("{table:?}")),
        ("before", "after", "ByteTable(\"after\")".into())
    );
    table.put(b"more", &LARGE).unwrap();
    table.remove(b"more").unwrap();
    let new = db.byte_table("before").unwrap();
    assert_eq!((rows(&new).len(), new.index(), new.leaf_bytes()), (0, Index::BPlus, 4096));
    let indexes: Vec<_> = db.stats().indexes.into_iter().map(|index| index.table).collect();
    assert_eq!(indexes, ["after", "before"]);
    db.drop_table("before").unwrap();
    drop((table, new));
    db.close().unwrap();

    let db = open();
    assert_eq!(db.tables().unwrap(), ["after"]);
    let table = db.existing_byte_table("after").unwrap();
    assert_eq!((table.index(), table.leaf_bytes()), (Index::O2, 8192));
    ensure_filled(&table, "opened again");
    let report = db.check().unwrap();
    assert_eq!((report.stray_pages, report.tables.last().unwrap().name.as_str()), (0, "after"));
    db.drop_table("after").unwrap();
    let gone = table.get(b"k");
    assert!(matches!(&gone, Err(Error::TableDropped { name }) if name == "after"), "{gone:?}");
    assert_eq!(db.check().unwrap().stray_pages, 0);
}

/// There and back again, as where two tables change places.
#[test]
fn names_change_places() {
    let db = Database::in_memory().unwrap();
    let [one, two] = ["one", "two"].map(|name| db.byte_table(name).unwrap());
    for _ in 0..3 {
        for (from, to) in [("one", "between"), ("two", "one"), ("between", "two")] {
            assert!(db.rename_table(from, to).unwrap());
        }
    }
    assert_eq!((one.name(), two.name()), ("two", "one"));
    assert_eq!(db.tables().unwrap(), ["one", "two"]);
}

/// Whoever checks them meanwhile is told the names of one moment.
#[test]
fn a_check_tells_each_name_once() {
    let db = Database::in_memory().unwrap();
    for name in ["one", "two"] {
        db.byte_table(name).unwrap().bulk_load((0..5000_u32).map(|n| (n.to_be_bytes(), [7; 100]))).unwrap();
    }
    let is_checked = AtomicBool::new(false);
    let told = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_checked.load(Relaxed) {
                for (from, to) in [("one", "between"), ("two", "one"), ("between", "two")] {
                    assert!(db.rename_table(from, to).unwrap());
                }
            }
        });
        let reports: Vec<_> = (0..100).map(|_| db.check()).collect();
        is_checked.store(true, Relaxed);
        reports
    });
    for report in told {
        let names: BTreeSet<_> = report.unwrap().tables.into_iter().map(|table| table.name).collect();
        assert_eq!(names.len(), 3, "the catalog is one of them: {names:?}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let db = Database::in_memory().unwrap();
    for name in ["there", "taken"] {
        db.byte_table(name).unwrap().put(b"k", name.as_bytes()).unwrap();
    }
    assert!(!db.rename_table("absent", "new").unwrap());
    assert!(!db.rename_table("absent", "taken").unwrap());
    assert!(!db.rename_table("", "new").unwrap());
    for to in ["taken", "there", "", &"x".repeat(5000)] {
        let refused = db.rename_table("there", to);
        assert!(matches!(refused, Err(Error::Argument(_))), "{to:?}: {refused:?}");
    }
    assert_eq!(db.tables().unwrap(), ["taken", "there"]);
    for name in ["there", "taken"] {
        assert_eq!(db.byte_table(name).unwrap().get(b"k").unwrap().as_deref(), Some(name.as_bytes()));
    }
}

/// Whoever uses the table goes on.
#[test]
fn users_go_on() {
    let disk = Arc::new(MemVfs::new());
    let db = tiny().open_on(disk.clone()).unwrap();
    let table = db.byte_table("before").unwrap();
    fill(&table).unwrap();
    let snapshot = db.snapshot().unwrap();
    let (tx, prepared) = (db.begin().unwrap(), db.begin().unwrap());
    tx.bytes(&table).put(b"tx", &LARGE).unwrap();
    prepared.bytes(&table).put(b"prepared", b"v").unwrap();
    prepared.prepare(b"gid").unwrap();
    let copied = Arc::new(MemVfs::new());
    let mut is_renamed = false;
    let rename = |_: &_| {
        if !is_renamed {
            is_renamed = db.rename_table("before", "after").unwrap();
            db.byte_table("before").unwrap();
        }
    };
    db.backup_on(copied.clone(), rename).unwrap();
    assert!(is_renamed);
    let copy = Database::builder().open_on(copied).unwrap();
    assert_eq!(copy.tables().unwrap(), ["before"], "as of when it began");
    ensure_filled(&copy.byte_table("before").unwrap(), "copy");
    assert_eq!(snapshot.bytes(&table).range(..).count(), 2);
    tx.bytes(&table).put(b"more", b"v").unwrap();
    tx.commit().unwrap();
    assert_eq!(table.range(..).count(), 4);
    drop((snapshot, table));
    db.close().unwrap();

    let db = tiny().open_on(disk).unwrap();
    db.commit_prepared(b"gid").unwrap();
    assert_eq!(db.tables().unwrap(), ["after", "before"]);
    assert_eq!(db.byte_table("after").unwrap().range(..).count(), 5);
    assert_eq!(db.check().unwrap().stray_pages, 0);
}

/// Several threads put a table's first large value, others rename it: no name comes back.
#[test]
fn first_large_values_bring_no_name_back() {
    for _ in 0..20 {
        let disk = Arc::new(MemVfs::new());
        let db = tiny().open_on(disk.clone()).unwrap();
        let table = db.byte_table("before").unwrap();
        thread::scope(|scope| {
            scope.spawn(|| table.put(b"k", &LARGE).unwrap());
            scope.spawn(|| assert!(db.rename_table("before", "after").unwrap()));
        });
        drop(table);
        db.close().unwrap();
        let db = tiny().open_on(disk).unwrap();
        assert_eq!(db.tables().unwrap(), ["after"]);
        assert_eq!(db.byte_table("after").unwrap().get(b"k").unwrap().as_deref(), Some(&LARGE[..]));
    }
}

/// A database that is closed, with a table of some rows, and others, so that the catalog has several leaves.
fn prepared_disk() -> SimDisk {
    let disk = SimDisk::new(1);
    let db = open(&disk);
    fill(&db.byte_table(&names()[0]).unwrap()).unwrap();
    for other in 'a'..'m' {
        db.byte_table(&other.to_string().repeat(500)).unwrap();
    }
    db.close().unwrap();
    disk
}

/// The table has the one name or the other, whole; so it is for the next opening, and nothing is left of the other name.
fn ensure_one_name(disk: &SimDisk, must_be_renamed: bool, what: &str) {
    let [from, to] = names();
    let mut found = None;
    for opening in 0..2 {
        let db = open(disk);
        let there: Vec<_> =
            db.tables().unwrap().into_iter().filter(|name| [&from, &to].contains(&name)).collect();
        let [name] = &there[..] else { panic!("{what}: {} names", there.len()) };
        assert!(*name == to || !must_be_renamed, "{what}: was renamed");
        assert!(
            found.replace(name.clone()).is_none_or(|before| before == *name),
            "{what}: another name again"
        );
        let table = db.existing_byte_table(name).unwrap();
        assert_eq!(table.name(), name);
        ensure_filled(&table, what);
        assert_eq!(db.check().unwrap().stray_pages, 0, "{what}");
        if opening == 1 {
            assert!(db.drop_table(name).unwrap());
        }
    }
    let db = open(disk);
    assert_eq!(db.tables().unwrap().len(), 12, "{what}");
    assert_eq!(db.check().unwrap().stray_pages, 0, "{what}");
}

/// A crash at any write or sync leaves one of the names.
#[test]
fn a_crash_leaves_one_name() {
    let ([from, to], disk) = (names(), prepared_disk());
    for kind in [Crash::PowerLoss, Crash::ProcessKill] {
        let mut crashes = 0;
        for event in 0.. {
            let disk = disk.after_crash(Crash::ProcessKill, 0);
            let db = open(&disk);
            let begun = disk.events();
            disk.crash_at(begun + event);
            let renamed = db.rename_table(&from, &to).is_ok() && !disk.is_crashed();
            let done = renamed && db.checkpoint().is_ok() && !disk.is_crashed();
            if done {
                break;
            }
            crashes += 1;
            drop(db);
            for seed in 0..4 {
                let what = format!("{kind:?} at event {event}, seed {seed}");
                ensure_one_name(&disk.after_crash(kind, seed), renamed, &what);
            }
        }
        assert!(crashes >= 4, "only {crashes} events");
    }
}

/// A failure of the disk does so, too; and one after which the database goes on has changed nothing.
#[test]
fn a_failure_leaves_one_name() {
    let ([from, to], disk) = (names(), prepared_disk());
    let mut rng = Rng(1);
    for fault in [Fault::Eio, Fault::Enospc, Fault::ShortWrite] {
        for event in 0.. {
            let disk = disk.after_crash(Crash::ProcessKill, 0);
            let db = open(&disk);
            disk.fail_at(disk.events() + event, fault, Repeat::Forever);
            let renamed = db.rename_table(&from, &to);
            disk.clear_faults();
            let what = format!("{fault:?} at event {event}: {renamed:?}");
            if matches!(renamed, Err(Error::Full { .. })) {
                assert!(db.tables().unwrap().contains(&from), "{what}");
                assert!(db.rename_table(&from, &to).unwrap(), "{what}");
            }
            drop(db);
            ensure_one_name(&disk.after_crash(Crash::PowerLoss, rng.next()), renamed.is_ok(), &what);
            if renamed.is_ok() {
                break;
            }
        }
    }
}
