//! What is left of a database when its last handle is gone, though a ticket of one of its commits is not.
#![cfg(target_os = "linux")]

mod common;

use common::tiny;
use foreshore_io::SimDisk;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

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
    // The system may list a thread for a moment after its end was waited for.
    let since = Instant::now();
    while !threads().is_empty() {
        assert!(since.elapsed() < Duration::from_secs(30), "{:?} go on", threads());
        std::thread::sleep(Duration::from_millis(1));
    }
    ticket.wait().unwrap();
}
