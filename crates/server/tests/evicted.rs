//! Who is sent away for its memory gives it back. In a process of its own, whose memory is measured.

#![cfg(target_os = "linux")]

mod common;

use common::{Running, encode, ok, options, resident_bytes};
use foreshore::{Database, Durability};
use foreshore_io::MemVfs;
use foreshore_server::Options;
use std::io::Write;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Each client waits for the device, beside the event loop, or for those who do.
#[test]
fn commands_that_wait_elsewhere_go_with_their_clients() {
    let disk = MemVfs::new();
    let db = Database::builder().durability(Durability::Buffered).open_on(Arc::new(disk.clone())).unwrap();
    let limit = 16 << 20;
    let server = Running::over(
        db,
        Options { threads: 1, client_memory: limit, durability: Durability::Buffered, ..options() },
    );
    assert_eq!(server.client().call("SET k v"), ok());
    let set = encode(&[b"SET", b"k", &vec![b'x'; 2 << 20]]);
    disk.set_sync_time(Duration::from_secs(30));
    let before = resident_bytes();
    let hoarders: Vec<_> = (0..100)
        .map(|_| {
            let hoarder = server.client();
            // It may be gone before it has said all.
            let _ = (&hoarder.stream).write_all(&set);
            thread::sleep(Duration::from_millis(5));
            hoarder
        })
        .collect();
    let grown = resident_bytes().saturating_sub(before);
    disk.set_sync_time(Duration::ZERO);
    assert!(grown < 64 << 20, "{} clients that may have {limit} bytes together take {grown}", hoarders.len());
}
