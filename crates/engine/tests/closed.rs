//! What is left of a database when its last handle is gone, though a ticket of one of its commits is not.
#![cfg(target_os = "linux")]

mod common;

use common::tiny;
use foreshore_io::SimDisk;
use std::fs;
use std::sync::Arc;

/// The names of the engine's threads in this process, where only this test runs.
fn threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.filter(|name| name.starts_with("foreshore-")).collect()
}

/// Nobody writes any more to files that the next opening may have.
#[test]
fn a_ticket_keeps_no_thread() {
    let db = tiny().open_on(Arc::new(SimDisk::new(1))).unwrap();
    let table = db.byte_table("t").unwrap();
    let tx = db.begin().unwrap();
    tx.bytes(&table).put(b"k", b"v").unwrap();
    let ticket = tx.commit_async().unwrap();
    assert!(!threads().is_empty());
    drop((table, db));
    assert_eq!(threads(), [""; 0]);
    ticket.wait().unwrap();
}
