//! Leaves that are only on disk are read before a walk comes to them; nobody can tell, save by the clock and by the counters.

mod common;

use common::tiny;
use foreshore::{ByteTable, Database, Durability, Error, Index, TableOptions};
use foreshore_io::sim::{Crash, Intercepted, Repeat};
use foreshore_io::{MemVfs, SimDisk, Vfs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// Leaves for several caches of [`tiny`].
const ROWS: u32 = 6000;
/// What a slow device takes for a read: threads that read are quicker than a walk.
const READ_TIME: Duration = Duration::from_micros(300);

fn value(i: u32) -> Vec<u8> {
    vec![i as u8; 250]
}

fn fill(table: &ByteTable) {
    let table = table.with_durability(Durability::Relaxed);
    // Half of the rows come later, between those that are there: leaves that are neighbours lie apart.
    for i in (0..ROWS).step_by(2).chain((1..ROWS).step_by(2)) {
        table.put(&i.to_be_bytes(), &value(i)).unwrap();
    }
}

/// A disk with a database of one table, closed.
fn filled() -> SimDisk {
    let disk = SimDisk::new(1);
    fill_on(Arc::new(disk.clone()), Index::default());
    disk
}

fn fill_on(vfs: Arc<dyn Vfs>, index: Index) {
    let db = tiny().open_on(vfs).unwrap();
    fill(&db.byte_table_with("t", TableOptions::new().index(index)).unwrap());
    db.close().unwrap();
}

fn open(vfs: Arc<dyn Vfs>) -> (Database, ByteTable) {
    let db = tiny().open_on(vfs).unwrap();
    let table = db.byte_table("t").unwrap();
    (db, table)
}

/// The same, open, on a slow device.
fn open_on_slow_device(index: Index) -> (Database, ByteTable) {
    let device = MemVfs::new();
    fill_on(Arc::new(device.clone()), index);
    device.set_read_time(READ_TIME);
    open(Arc::new(device))
}

fn whole(
    rows: impl Iterator<Item = foreshore::Result<(Vec<u8>, Vec<u8>)>>,
    expected: impl Iterator<Item = u32>,
) {
    let expected = expected.map(|i| Ok::<_, Error>((i.to_be_bytes().to_vec(), value(i))));
    assert!(rows.map(Result::unwrap).eq(expected.map(Result::unwrap)));
}

/// Whichever index names the leaves, and whichever way a walk goes: it returns all rows, and most leaves were read ahead.
#[test]
fn walks_return_all_rows_of_leaves_read_ahead() {
    for index in [Index::BPlus, Index::CsbPlus, Index::O2] {
        let (db, table) = open_on_slow_device(index);
        let walk = |what: &str, walk: &dyn Fn()| {
            let before = db.stats();
            walk();
            let stats = db.stats();
            let reads = stats.pool_reads - before.pool_reads;
            let used = stats.pool_reads_ahead_used - before.pool_reads_ahead_used;
            assert!(stats.pool_reads_ahead > before.pool_reads_ahead, "{index:?}, {what}: {stats:?}");
            assert!(used > reads / 4, "{index:?}, {what}: {used} of {reads} leaves");
        };
        walk("upwards", &|| whole(table.range(..), 0..ROWS));
        walk("downwards", &|| whole(table.range(..).rev(), (0..ROWS).rev()));
        let (from, to) = (1000u32.to_be_bytes(), 5000u32.to_be_bytes());
        walk("a part", &|| whole(table.range(from..to), 1000..5000));
        walk("a part downwards", &|| whole(table.range(from..to).rev(), (1000..5000).rev()));
        walk("with locks", &|| {
            let tx = db.begin().unwrap();
            whole(tx.bytes(&table).range(..), 0..ROWS);
            whole(tx.bytes(&table).range(..).rev(), (0..ROWS).rev());
        });
        walk("a check", &|| drop(db.check().unwrap()));
    }
}

/// A table is dropped without a look into its leaves, of which it may have far more than fit into memory.
#[test]
fn leaves_of_a_dropped_table_are_not_read() {
    let device = MemVfs::new();
    fill_on(Arc::new(device.clone()), Index::default());
    let (db, _) = open(Arc::new(device));
    let before = db.stats();
    assert!(before.pages > 100, "{before:?}");
    assert!(db.drop_table("t").unwrap());
    let after = db.stats();
    assert!(after.pool_reads < before.pool_reads + 10, "{after:?}");
    assert!(after.pages < 10, "{after:?}");
    db.checkpoint().unwrap();
    assert_eq!(db.check().unwrap().stray_pages, 0);
}

/// Keys that are looked for together have their leaves read together, where the system can do that …
#[test]
fn many_keys_are_read_side_by_side() {
    let device = MemVfs::new();
    fill_on(Arc::new(device.clone()), Index::default());
    look_up_many(Arc::new(device));
}

/// … and by threads, where it cannot.
#[test]
fn threads_read_many_keys_where_there_is_no_other_way() {
    let device = MemVfs::new();
    fill_on(Arc::new(device.clone()), Index::default());
    device.set_read_time(20 * READ_TIME); // a busy machine takes its time to start a thread
    look_up_many(Arc::new(Intercepted::new(device, |_, _, go| go())));
}

fn look_up_many(vfs: Arc<dyn Vfs>) {
    let (db, table) = open(vfs);
    let keys: Vec<_> = (0..ROWS).step_by(500).map(u32::to_be_bytes).collect();
    let values = table.multi_get(&keys).unwrap();
    assert!(values.into_iter().eq((0..ROWS).step_by(500).map(|i| Some(value(i)))));
    assert!(db.stats().pool_reads_ahead > 0);
}

/// A database on a slow device, with large values and rows.
fn open_with_large_values(value: &[u8]) -> (Database, ByteTable) {
    let device = MemVfs::new();
    fill_on(Arc::new(device.clone()), Index::default());
    let (db, table) = open(Arc::new(device.clone()));
    (0..2u8).for_each(|key| table.put(&[key], value).unwrap());
    drop((db, table));
    device.set_read_time(20 * READ_TIME);
    let db = tiny().cache_bytes(4 << 20).open_on(Arc::new(device)).unwrap();
    let table = db.byte_table("t").unwrap();
    (db, table)
}

/// Chunks of a large value lie in several leaves, which are read together.
#[test]
fn large_values_are_read_ahead() {
    let value: Vec<u8> = (0..60_000u32).map(|i| (i % 251) as u8).collect();
    let (db, table) = open_with_large_values(&value);
    assert_eq!(table.get(&[0]).unwrap().as_ref(), Some(&value));
    let stats = db.stats();
    assert!(stats.pool_reads_ahead > stats.pool_reads / 4, "{stats:?}");
    let tx = db.begin().unwrap();
    assert_eq!(tx.bytes(&table).get_for_update(&[1]).unwrap(), Some(value));
}

/// So are those of a value that is replaced: they are in the way until they are removed.
#[test]
fn replaced_large_values_are_read_ahead() {
    let value: Vec<u8> = (0..60_000u32).map(|i| (i % 251) as u8).collect();
    let (db, table) = open_with_large_values(&value);
    table.put(&[0], b"small").unwrap();
    let stats = db.stats();
    assert!(stats.pool_reads_ahead > stats.pool_reads / 4, "{stats:?}");
    assert_eq!(table.get(&[1]).unwrap(), Some(value));
}

/// Rows that are put together have the leaves read together that they come to.
#[test]
fn rows_put_together_are_read_ahead() {
    let (db, table) = open_with_large_values(&[]);
    let rows: Vec<_> = (0..ROWS).step_by(150).map(|i| (i.to_be_bytes(), value(i + 1))).collect();
    db.transact(|tx| tx.bytes(&table).put_many(&rows)).unwrap();
    let stats = db.stats();
    assert!(stats.pool_reads_ahead > stats.pool_reads / 4, "{stats:?}");
    rows.into_iter().for_each(|(key, value)| assert_eq!(table.get(&key).unwrap(), Some(value)));
}

/// So are those that a rollback comes back to, or a commit that removes what was removed.
#[test]
fn leaves_are_read_side_by_side_at_the_end_of_a_transaction() {
    let (db, table) = open_on_slow_device(Index::default());
    let keys: Vec<_> = (0..ROWS).step_by(10).map(u32::to_be_bytes).collect();
    let read_together = |what: &str, end: &mut dyn FnMut()| {
        let before = db.stats();
        end();
        let stats = db.stats();
        let (reads, ahead) =
            (stats.pool_reads - before.pool_reads, stats.pool_reads_ahead - before.pool_reads_ahead);
        assert!(ahead > reads / 2 && ahead > 10, "{what}: {ahead} of {reads}");
    };
    let remove_all = || {
        let tx = db.begin().unwrap();
        keys.iter().for_each(|key| assert!(tx.bytes(&table).remove(key).unwrap()));
        Some(tx)
    };
    let mut tx = remove_all();
    read_together("a rollback", &mut || tx.take().unwrap().rollback().unwrap());
    whole(table.range(..), 0..ROWS);
    let mut tx = remove_all();
    read_together("a commit", &mut || tx.take().unwrap().commit().unwrap());
    whole(table.range(..), (0..ROWS).filter(|i| i % 10 != 0));
    assert_eq!(db.check().unwrap().tables[1].ghosts, 0);
}

/// And those that a restart brings up to date.
#[test]
fn a_restart_reads_leaves_side_by_side() {
    let disk = filled();
    let db = tiny().log_bytes(16 << 20).open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    (0..ROWS).step_by(10).for_each(|i| table.put(&i.to_be_bytes(), &value(i + 1)).unwrap());
    let disk = disk.after_crash(Crash::ProcessKill, 1);
    drop((db, table));
    let (db, table) = open(Arc::new(disk));
    let stats = db.stats();
    assert!(stats.pool_reads_ahead > stats.pool_reads / 2 && stats.pool_reads_ahead > 10, "{stats:?}");
    (0..ROWS).step_by(10).for_each(|i| assert_eq!(table.get(&i.to_be_bytes()).unwrap(), Some(value(i + 1))));
}

/// Neither short walks nor those through leaves in memory have anything read ahead.
#[test]
fn nothing_is_read_ahead_without_need() {
    let device = MemVfs::new();
    fill_on(Arc::new(device.clone()), Index::default());
    let (db, table) = open(Arc::new(device.clone()));
    (0..100u32).for_each(|i| whole(table.range((i * 50).to_be_bytes()..).take(5), i * 50..i * 50 + 5));
    assert_eq!(db.stats().pool_reads_ahead, 0);
    drop((db, table));
    device.set_read_time(READ_TIME);
    let db = tiny().cache_bytes(16 << 20).open_on(Arc::new(device)).unwrap();
    let table = db.byte_table("t").unwrap();
    whole(table.range(..), 0..ROWS);
    let stats = db.stats();
    assert!(stats.pool_reads_ahead > 0);
    whole(table.range(..), 0..ROWS);
    assert_eq!(db.stats().pool_reads, stats.pool_reads, "all is in memory");
}

/// A read that fails is met by who needs the page, if at all, and only by them; the next try succeeds.
#[test]
fn a_read_that_fails_is_met_by_who_needs_the_page() {
    let disk = filled();
    let (_db, table) = open(Arc::new(disk.clone()));
    let mut met = 0;
    for n in 0..60 {
        disk.fail_read_at(disk.read_events() + n * 5, Repeat::Once);
        match table.range(..).try_for_each(|row| row.map(drop)) {
            Ok(()) => {}
            Err(error) => {
                assert!(matches!(error, Error::Io { .. }), "{error:?}");
                met += 1;
            }
        }
        disk.clear_faults();
        whole(table.range(..), 0..ROWS);
    }
    assert!(met < 60, "some were dropped");
    disk.fail_read_at(disk.read_events(), Repeat::Forever);
    assert!(matches!(table.range(..).find_map(Result::err), Some(Error::Io { .. })));
    disk.clear_faults();
    whole(table.range(..), 0..ROWS);
}

/// The same for keys that are looked for together, more of them than are read together: each gets its own value, or the error is told.
#[test]
fn a_read_that_fails_among_many_keys_is_made_again() {
    let disk = filled();
    let db = tiny().cache_bytes(512 << 10).open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    let keys: Vec<_> = (0..ROWS).step_by(7).map(u32::to_be_bytes).collect();
    let all = || {
        let values = table.multi_get(&keys)?;
        assert!(values.into_iter().eq((0..ROWS).step_by(7).map(|i| Some(value(i)))));
        Ok(())
    };
    let mut met = 0;
    for n in 0..60 {
        disk.fail_read_at(disk.read_events() + n * 5, Repeat::Once);
        match all() {
            Ok(()) => {}
            Err(Error::Io { .. }) => met += 1,
            Err(error) => panic!("{error}"),
        }
        disk.clear_faults();
    }
    assert!(met < 30, "most were dropped: {met} of 60 were met");
    disk.fail_read_at(disk.read_events(), Repeat::Forever);
    assert!(matches!(all(), Err(Error::Io { .. })));
    disk.clear_faults();
    all().unwrap();
}

/// The smallest cache serves more walks than it has frames, and closing ends what they asked for.
#[test]
fn walks_share_a_small_cache() {
    let disk = filled();
    let vfs: Arc<dyn Vfs> = Arc::new(disk);
    let db = tiny().open_on(vfs.clone()).unwrap();
    let table = db.byte_table("t").unwrap();
    let mut walks: Vec<_> = (0..100).map(|_| table.range(..)).collect();
    for i in 0..1500 {
        for walk in &mut walks {
            assert_eq!(walk.next().unwrap().unwrap().0, u32::to_be_bytes(i));
        }
    }
    thread::scope(|scope| {
        (0..8).for_each(|_| _ = scope.spawn(|| whole(table.range(..), 0..ROWS)));
    });
    assert!(db.stats().pool_reads_ahead > 0);
    drop((walks, table, db));
    assert_eq!(Arc::strong_count(&vfs), 1, "a thread still has the files");
}

/// Leaves are split, absorbed and freed, also by dropping their table, while they are read ahead.
#[test]
fn leaves_come_and_go_while_they_are_read_ahead() {
    let disk = filled();
    let (db, table) = open(Arc::new(disk.clone()));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let scanner = |upwards: bool| {
            let (table, done) = (&table, &done);
            move || {
                while !done.load(Relaxed) {
                    let kept =
                        |row: foreshore::Result<(Vec<u8>, _)>| Some(row.unwrap().0).filter(|k| k.len() == 4);
                    let expected = (0..ROWS).map(|i| i.to_be_bytes().to_vec());
                    match upwards {
                        true => assert!(table.range(..).filter_map(kept).eq(expected)),
                        false => assert!(table.range(..).rev().filter_map(kept).eq(expected.rev())),
                    }
                }
            }
        };
        let scanners = [scope.spawn(scanner(true)), scope.spawn(scanner(false))];
        let writer = table.with_durability(Durability::Relaxed);
        for round in 0..2u32 {
            // So many more rows that leaves are underfull when these are gone.
            let more = || (0..ROWS).flat_map(|i| (0..4).map(move |j| [&i.to_be_bytes()[..], &[j]].concat()));
            more().for_each(|key| writer.put(&key, &value(round)).unwrap());
            more().for_each(|key| assert!(writer.remove(&key).unwrap()));
            let short_lived = db.byte_table("short-lived").unwrap();
            fill(&short_lived);
            thread::scope(|scope| {
                scope.spawn(|| short_lived.range(..).map_while(Result::ok).count());
                assert!(db.drop_table("short-lived").unwrap());
            });
        }
        done.store(true, Relaxed);
        scanners.into_iter().for_each(|scanner| scanner.join().unwrap());
    });
    let stats = db.stats();
    assert!(stats.splits > 0 && stats.absorbs > 0 && stats.pool_reads_ahead > 0, "{stats:?}");
    db.check().unwrap();
}
