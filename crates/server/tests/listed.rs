//! What KEYS takes is some multiple of the keys that it answers with. In a process of its own, whose memory is measured.

#![cfg(target_os = "linux")]

mod common;

use common::{Running, encode};
use std::io::Read;

/// The most memory that this process has had since the last call of [`forget_peak`].
fn peak_bytes() -> usize {
    common::status_bytes("VmHWM:")
}

fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").expect("Linux forgets it");
}

#[test]
fn keys_takes_little_more_than_its_reply() {
    let server = Running::new();
    let keys: Vec<_> = (0..1_000_000_u32).map(u32::to_be_bytes).collect();
    let rows: Vec<_> = keys.iter().map(|key| (&key[..], &b""[..])).collect();
    server.db.byte_table("db0").unwrap().put_many(&rows).unwrap();
    let reply_bytes = "*1000000\r\n".len() + keys.len() * "$4\r\nkkkk\r\n".len();
    forget_peak();
    let before = peak_bytes();
    let mut c = server.client();
    c.send_raw(&encode(&[b"KEYS", b"*"]));
    let (mut piece, mut taken) = (vec![0; 1 << 20], 0);
    while taken < reply_bytes {
        taken += c.stream.read(&mut piece).expect("a reply");
    }
    let grown = peak_bytes().saturating_sub(before);
    assert!(grown < 5 * reply_bytes, "{grown} bytes for a reply of {reply_bytes}");
}
