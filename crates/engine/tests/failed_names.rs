//! A sync of the directory fails, and the database is opened again, as the error advises, before the power goes. What is acknowledged
//! then rests on no name that the failed sync has lost (N1 in `dir_syncs.rs`): no later sync would tell.

mod common;

use foreshore::{Builder, ByteTable, Database, Result, TableOptions};
use foreshore_io::sim::{Call, Crash, Fault, Intercepted, Repeat};
use foreshore_io::{SimDisk, Vfs};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Lives that need more syncs of the directory than that are not failed further.
const SYNCS_MAX: usize = 12;

/// Calls `life` with this disk, each time with the next one of its syncs of the directory failing, until it needs no more. Each time
/// it is another copy of the disk, which works again afterwards, for `then`.
fn fail_each_sync(
    disk: &SimDisk,
    life: impl Fn(Arc<dyn Vfs>) -> Vec<u32>,
    then: impl Fn(SimDisk, Vec<u32>, &str),
) {
    for seed in 1..=6 {
        for nth in 0..SYNCS_MAX {
            let disk = disk.after_crash(Crash::PowerLoss, seed);
            let (its, syncs) = (disk.clone(), Arc::new(AtomicUsize::new(0)));
            let its_syncs = syncs.clone();
            let vfs = Intercepted::new(disk.clone(), move |call, _, go| {
                if call == Call::SyncDir && its_syncs.fetch_add(1, SeqCst) == nth {
                    its.fail_at(its.events(), Fault::Eio, Repeat::Once);
                }
                go()
            });
            let acknowledged = life(Arc::new(vfs));
            if syncs.load(SeqCst) <= nth {
                assert!(nth > 0, "it makes names durable");
                break;
            }
            disk.clear_faults();
            then(disk, acknowledged, &format!("seed {seed}, sync {nth}"));
        }
    }
}

/// A database whose tables may have leaves of twice its own size.
fn tiny() -> Builder {
    common::tiny().ring_bytes(128 << 10)
}

/// One table has leaves of its own size, whose file is made for it.
fn tables(db: &Database) -> Result<[ByteTable; 2]> {
    Ok([db.byte_table("t")?, db.byte_table_with("large leaves", TableOptions::new().leaf_bytes(8 << 10))?])
}

/// Now and then one that lies in an extent.
fn value(i: u32) -> Vec<u8> {
    vec![i as u8; if i % 20 == 19 { 100_000 } else { 800 }]
}

fn put(table: &ByteTable, i: u32) -> Result<()> {
    table.put(&i.to_be_bytes(), &value(i)).map(drop)
}

/// Rows in both tables, each acknowledged, until an error.
fn write(db: &Database, rows: Range<u32>) -> (Vec<u32>, Result<()>) {
    let mut acknowledged = Vec::new();
    let written = tables(db).and_then(|tables| {
        rows.into_iter().try_for_each(|i| {
            tables.iter().try_for_each(|table| put(table, i))?;
            acknowledged.push(i);
            Ok(())
        })
    });
    (acknowledged, written)
}

/// A life without failures adds rows, and the power goes. All are there.
fn go_on(disk: &SimDisk, mut acknowledged: Vec<u32>, what: &str) {
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap_or_else(|e| panic!("{what}: {e}"));
    let (more, written) = write(&db, 1000..1060);
    written.unwrap_or_else(|e| panic!("{what}: {e}"));
    acknowledged.extend(more);
    let left = disk.after_crash(Crash::PowerLoss, 1);
    drop(db);
    let db = tiny().open_on(Arc::new(left)).unwrap_or_else(|e| panic!("{what}, after the power loss: {e}"));
    for table in tables(&db).unwrap() {
        for i in &acknowledged {
            let found = table.get(&i.to_be_bytes()).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert!(found == Some(value(*i)), "{what}: row {i} of {:?}", acknowledged.len());
        }
    }
}

/// A database whose creation failed is created again, also if the power goes meanwhile.
#[test]
fn a_creation_is_begun_anew() {
    let create = |vfs| {
        drop(tiny().open_on(vfs));
        Vec::new()
    };
    fail_each_sync(&SimDisk::new(1), create, |disk, _, what| {
        for event in 0..12 {
            let again = disk.after_crash(Crash::ProcessKill, 1);
            again.crash_at(event);
            drop(tiny().open_on(Arc::new(again.clone())));
            let what = format!("{what}, then the power goes at event {event}");
            go_on(&again.after_crash(Crash::PowerLoss, event), Vec::new(), &what);
        }
        go_on(&disk, Vec::new(), what);
    });
}

/// Segments of the log, and the file of another leaf size: a new one, or one that only the log needs yet.
#[test]
fn a_database_goes_on_with_what_is_durable() {
    let disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let new = disk.after_crash(Crash::PowerLoss, 1);
    let (written, _) = write(&db, 0..5);
    let with_rows = disk.after_crash(Crash::PowerLoss, 1);
    let life = |vfs| tiny().open_on(vfs).map_or(Vec::new(), |db| write(&db, 5..100).0);
    fail_each_sync(&new, life, |disk, acknowledged, what| go_on(&disk, acknowledged, what));
    fail_each_sync(&with_rows, life, |disk, acknowledged, what| {
        go_on(&disk, [written.clone(), acknowledged].concat(), what)
    });
}

/// The file of large values, if it was not there.
#[test]
fn a_file_of_large_values_is_made_anew() {
    let disk = SimDisk::new(1);
    tiny().open_on(Arc::new(disk.clone())).unwrap().close().unwrap();
    disk.remove("blobs.db").unwrap();
    disk.sync_dir().unwrap();
    let life = |vfs| tiny().open_on(vfs).map_or(Vec::new(), |db| write(&db, 0..1).0);
    fail_each_sync(&disk, life, |disk, acknowledged, what| go_on(&disk, acknowledged, what));
}

/// A backup that failed is no database, and can be made again: in an empty directory, and where one was interrupted before.
#[test]
fn a_backup_is_made_anew() {
    let db = tiny().open_on(Arc::new(SimDisk::new(1))).unwrap();
    let (copied, written) = write(&db, 0..30);
    written.unwrap();
    let backup = |vfs| db.backup_on(vfs, |_| {}).map_or(Vec::new(), |_| copied.clone());
    let empty = SimDisk::new(1);
    let interrupted = empty.after_crash(Crash::PowerLoss, 1);
    interrupted.crash_at(60);
    assert_eq!(backup(Arc::new(interrupted.clone())), []);
    for disk in [empty, interrupted] {
        fail_each_sync(&disk, backup, |disk, acknowledged, what| {
            if acknowledged.is_empty() {
                db.backup_on(Arc::new(disk.clone()), |_| {}).unwrap_or_else(|e| panic!("{what}: {e}"));
            }
            go_on(&disk, copied.clone(), what);
        });
    }
}

/// If the power goes soon after its last sync has failed, it is a database all the same, and complete, or can be made again.
#[test]
fn a_backup_that_lost_its_name_is_not_half_a_database() {
    let db = tiny().open_on(Arc::new(SimDisk::new(1))).unwrap();
    let (copied, written) = write(&db, 0..3);
    written.unwrap();
    for (seed, later) in (1..=40).flat_map(|seed| [3, 6, 9].map(|later| (seed, later))) {
        let what = format!("seed {seed}, {later} events later");
        let disk = SimDisk::new(seed);
        let (its, is_named) = (disk.clone(), AtomicUsize::new(0));
        let vfs = Intercepted::new(disk.clone(), move |call, name, go| {
            if (call, name) == (Call::Rename, "FORESHORE.backup") {
                is_named.store(1, SeqCst);
            } else if call == Call::SyncDir && is_named.swap(0, SeqCst) == 1 {
                its.fail_at(its.events(), Fault::Eio, Repeat::Once);
                its.crash_at(its.events() + later);
            }
            go()
        });
        db.backup_on(Arc::new(vfs), |_| {}).expect_err("its name may not be durable");
        let disk = disk.after_crash(Crash::PowerLoss, 9 * seed + later);
        if !disk.names().iter().any(|name| name == "FORESHORE") {
            db.backup_on(Arc::new(disk.clone()), |_| {}).unwrap_or_else(|e| panic!("{what}: {e}"));
        }
        go_on(&disk, copied.clone(), &what);
    }
}
