//! After a power failure the log's buffer may hold pieces of long ago: the system writes its blocks when it likes.

mod common;

use common::tiny;
use foreshore::{ByteTable, Database, Durability};
use foreshore_io::SimDisk;
use foreshore_io::sim::{Crash, Event, EventKind};
use std::sync::Arc;

const RING_BYTES: usize = 64 << 10;
/// Dozens of laps of the ring.
const ROWS: u32 = 8000;

fn open(disk: &SimDisk) -> Database {
    tiny().ring_bytes(RING_BYTES).log_bytes(1 << 30).open_on(Arc::new(disk.clone())).unwrap()
}

/// The ring with a record in it that no flight has carried yet.
fn ring_in_use(disk: &SimDisk, table: &ByteTable) -> Vec<u8> {
    for _ in 0..100 {
        table.with_durability(Durability::Relaxed).put(b"first", b"row").unwrap();
        let mut ring = Vec::new();
        disk.after_crash(Crash::ProcessKill, 1).corrupt("ring", |bytes| ring.clone_from(bytes));
        if ring.iter().any(|byte| *byte != 0) {
            return ring;
        }
    }
    panic!("the ring is always empty");
}

/// A record that lies more than a ring before the end of the log was synced, whatever the ring says. So no more than the ring
/// is kept in memory, and written again, to make the end of the log durable.
#[test]
fn what_the_ring_held_long_ago_is_not_written_again() {
    let disk = SimDisk::new(1);
    let db = open(&disk);
    let table = db.byte_table("t").unwrap();
    let ring = ring_in_use(&disk, &table);
    let some = table.with_durability(Durability::Buffered);
    (0..ROWS).for_each(|i| some.put(&i.to_be_bytes(), &[i as u8; 500]).unwrap());
    db.sync().unwrap();

    let disk = disk.after_crash(Crash::PowerLoss, 1);
    disk.corrupt("ring", |bytes| bytes.clone_from(&ring));
    disk.start_trace();
    let db = open(&disk);
    let to_the_log = |event: Event| match event.kind {
        EventKind::Write { bytes, .. } if event.name.starts_with("wal-0") => bytes,
        _ => 0,
    };
    let written: usize = disk.trace().into_iter().map(to_the_log).sum();
    assert!(written <= 2 * RING_BYTES + 4096, "{written} bytes of the log were written again");
    let table = db.byte_table("t").unwrap();
    assert_eq!(table.range(..).count(), ROWS as usize + 1);
}
