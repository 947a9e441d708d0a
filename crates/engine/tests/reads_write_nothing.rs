//! Rule 9: a read of resident rows writes no shared memory. Counted, not asserted by reading the code: under
//! `--cfg count_writes` every atomic of the engine counts the writes of the thread that makes them.
//!
//! Run: `RUSTFLAGS="--cfg count_writes" cargo test -p foreshore --test reads_write_nothing`.
//!
//! Not counted: what an index descent notes of itself in its thread's own record of the epoch (crossbeam's pin), a line
//! that no other thread touches until memory is to be reclaimed.
#![cfg(count_writes)]

use foreshore::{Database, Durability};
use foreshore_base::sync::counted::writes;

const ROWS: u32 = 50_000;

#[test]
fn a_get_writes_no_shared_memory() {
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("t").unwrap().with_durability(Durability::Relaxed);
    let before = writes();
    for i in 0..ROWS {
        table.put(&i.to_be_bytes(), &i.to_le_bytes()).unwrap();
    }
    assert!(writes() - before >= u64::from(ROWS), "the counter counts");

    let mut value = Vec::with_capacity(64);
    let before = writes();
    for i in 0..ROWS {
        assert!(table.get_into(&i.to_be_bytes(), &mut value).unwrap());
        assert_eq!(value, i.to_le_bytes());
        assert!(!table.contains(&(i + ROWS).to_be_bytes()).unwrap());
    }
    assert_eq!(writes() - before, 0, "writes by {} gets", 2 * ROWS);

    let before = writes();
    assert_eq!(table.range(..).count(), ROWS as usize);
    assert_eq!(table.range(..).rev().count(), ROWS as usize);
    assert_eq!(writes() - before, 0, "writes by two scans");

    let snapshot = db.snapshot().unwrap();
    let rows = snapshot.bytes(&table);
    let before = writes();
    for i in 0..ROWS {
        assert!(rows.get_into(&i.to_be_bytes(), &mut value).unwrap());
    }
    assert_eq!(rows.range(..).count(), ROWS as usize);
    assert_eq!(writes() - before, 0, "writes by {ROWS} gets and a scan of a snapshot");
}
