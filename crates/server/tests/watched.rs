//! What WATCH remembers takes memory for keys, not for values. In a process of its own, whose memory is measured.

#![cfg(target_os = "linux")]

mod common;

use common::{Null, Running, ok, resident_bytes, text};

#[test]
fn watched_values_are_not_kept() {
    let server = Running::new();
    let mut c = server.client();
    let keys: Vec<_> = (0..16).map(|n| format!("key:{n}")).collect();
    for key in &keys {
        assert_eq!(c.call_args(&[b"SET", key.as_bytes(), &vec![b'x'; 1 << 20]]), ok());
    }
    let watch = format!("WATCH {}", keys.join(" "));
    assert_eq!(c.call(&watch), ok());
    let before = resident_bytes();
    let mut watchers: Vec<_> = (0..20).map(|_| server.client()).collect();
    for watcher in &mut watchers {
        assert_eq!(watcher.call(&watch), ok());
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 100 << 20, "20 clients that watch 16 MiB take {grown} bytes");

    assert_eq!(c.call("APPEND key:7 x"), common::Int((1 << 20) + 1));
    for watcher in &mut watchers {
        assert_eq!(
            (watcher.call("MULTI"), watcher.call("PING"), watcher.call("EXEC")),
            (ok(), text("QUEUED"), Null)
        );
    }
}
