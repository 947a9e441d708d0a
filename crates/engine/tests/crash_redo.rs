//! Redo in a cache smaller than what there is to redo: it writes pages while the log is still being read.
//!
//! A process with a large cache dies with its last writes in the log's ring. The opening that redoes them in a small one
//! loses power at each of its I/O events; what the next one finds must be the rows as some number of the
//! writes left them, in their order. A page that got to disk before its record would have none of these states.

mod common;

use common::{Rng, env, tiny};
use foreshore::{Builder, Database, Durability, Result};
use foreshore_io::{SimDisk, sim::Crash};
use std::sync::Arc;

const ROWS: usize = 6000;
const WRITES: usize = 400;

#[test]
fn no_page_gets_to_disk_before_its_record() {
    let seed = env("FORESHORE_SEED", 1);
    let mut rng = Rng(seed);
    let writes: Vec<usize> = (0..WRITES).map(|_| rng.below(ROWS)).collect();
    let killed = killed_after(&writes, seed);
    let (mut event, mut finished) = (0, false);
    while !finished {
        event += 1;
        let disk = killed.after_crash(Crash::ProcessKill, seed);
        disk.crash_at(disk.events() + event);
        let opened = open(&disk);
        finished = !disk.is_crashed();
        let left = disk.after_crash(Crash::PowerLoss, seed ^ event);
        drop(opened);
        let what = format!("seed {seed}, power lost at event {event} of the opening");
        let db = open(&left).unwrap_or_else(|e| panic!("{what}: {e}"));
        // What an opening has found that came to its end is durable.
        verify(&db, &writes, if finished { WRITES } else { 0 }, &what);
    }
    assert!(event > 20, "redo wrote pages: {event} events");
}

/// More leaves come and go, since the last checkpoint, than the next life's cache has frames. They need none once they are
/// dead, wherever the opening and its first checkpoint lose power.
#[test]
fn leaves_that_are_no_more_do_not_fill_the_cache() {
    let seed = env("FORESHORE_SEED", 1);
    let disk = SimDisk::new(seed);
    let db = options().cache_bytes(8 << 20).log_bytes(4 << 20).open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("rows").unwrap();
    let put = |row: usize| table.put(&key(row), &value(row)).unwrap();
    let remove = |row: usize| assert!(table.remove(&key(row)).unwrap());
    (0..2000).for_each(put);
    db.checkpoint().unwrap();
    (0..4000).for_each(|row| {
        put(row + 2000);
        remove(row);
    });
    db.sync().unwrap();
    let killed = disk.after_crash(Crash::ProcessKill, seed);
    let (mut event, mut finished) = (0, false);
    while !finished {
        event += 1;
        let disk = killed.after_crash(Crash::ProcessKill, seed);
        disk.crash_at(event);
        let opened = open(&disk).and_then(|db| db.checkpoint().map(|()| db));
        finished = !disk.is_crashed();
        let left = disk.after_crash(Crash::PowerLoss, seed ^ event);
        drop(opened);
        let what = format!("seed {seed}, power lost at event {event}");
        let db = open(&left).unwrap_or_else(|e| panic!("{what}: {e}"));
        let rows = db.byte_table("rows").unwrap().prefix(&[]).collect::<Result<Vec<_>>>();
        let found = rows.unwrap_or_else(|e| panic!("{what}: {e}"));
        let expected: Vec<_> = (4000..6000).map(|row| (key(row).to_vec(), value(row))).collect();
        assert!(found == expected, "{what}: {} rows", found.len());
        assert_eq!(db.check().unwrap_or_else(|e| panic!("{what}: {e}")).stray_pages, 0, "{what}");
    }
    assert!(event > 20, "redo wrote pages: {event} events");
}

/// Never takes a checkpoint by itself.
fn options() -> Builder {
    tiny().log_bytes(1 << 20).durability(Durability::Buffered)
}

fn open(disk: &SimDisk) -> Result<Database> {
    options().open_on(Arc::new(disk.clone()))
}

/// A row's value: the number of the write that it is from, in bytes that a page holds few of.
fn value(write: usize) -> Vec<u8> {
    [vec![1; 92], write.to_be_bytes().to_vec()].concat()
}

fn key(row: usize) -> [u8; 8] {
    row.to_be_bytes()
}

/// The disk of a process that loaded the rows, all durable, and then died after these writes.
fn killed_after(writes: &[usize], seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    let db = options().cache_bytes(8 << 20).log_bytes(4 << 20).open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("rows").unwrap();
    table.bulk_load((0..ROWS).map(|row| (key(row), value(0)))).unwrap();
    db.checkpoint().unwrap();
    for (i, row) in writes.iter().enumerate() {
        table.put(&key(*row), &value(i + 1)).unwrap();
    }
    disk.after_crash(Crash::ProcessKill, seed)
}

/// The rows are as the first so many writes left them, `least` of them at least.
fn verify(db: &Database, writes: &[usize], least: usize, what: &str) {
    let rows = db.byte_table("rows").unwrap().prefix(&[]).collect::<Result<Vec<_>>>();
    let found: Vec<Vec<u8>> =
        rows.unwrap_or_else(|e| panic!("{what}: {e}")).into_iter().map(|row| row.1).collect();
    let of = |value: &Vec<u8>| usize::from_be_bytes(value[92..].try_into().expect("eight bytes"));
    let done = found.iter().map(of).max().unwrap_or(0);
    assert!(done >= least, "{what}: {done} writes, and {least} were durable");
    let mut expected: Vec<Vec<u8>> = (0..ROWS).map(|_| value(0)).collect();
    for (i, row) in writes[..done].iter().enumerate() {
        expected[*row] = value(i + 1);
    }
    assert!(found == expected, "{what}: {} rows, not as the first {done} writes left them", found.len());
    db.check().unwrap_or_else(|e| panic!("{what}: {e}"));
}
