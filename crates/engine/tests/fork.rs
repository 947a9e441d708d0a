//! A process that forks: its database stays its own, whatever the other one does with the handles that it has got.

mod common;

use common::{key, row, rows, tiny};
use foreshore::{Database, Durability, Error, TransactionOptions};
use foreshore_io::MemVfs;
use std::io::{Read, Write};
use std::mem::ManuallyDrop;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Forks. The child does this, and ends by `_exit`: with 0 if that is as it should be, and no panic.
fn fork(action: impl FnOnce() -> bool) -> libc::pid_t {
    // SAFETY: the child makes system calls and uses memory (glibc's allocator is usable after a fork), and then leaves by `_exit`.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            let is_right = catch_unwind(AssertUnwindSafe(action)).unwrap_or(false);
            // SAFETY: ends this process only.
            unsafe { libc::_exit(i32::from(!is_right)) }
        }
        child => child,
    }
}

/// Waits for the end of a child; its status.
fn wait_for(child: libc::pid_t) -> libc::c_int {
    let mut status = 0;
    // SAFETY: waits for our own child, with a place for its status.
    let waited = unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(waited, child);
    status
}

/// What the child knows of the files is what they were when it was forked. It writes none of that out: neither when it is asked to, nor
/// when it lets go of the database.
#[test]
fn a_forked_process_writes_nothing() {
    let is_refused =
        |done: foreshore::Result<()>| matches!(done, Err(Error::Argument(told)) if told.contains("forked"));
    let ways: [fn(Database) -> foreshore::Result<()>; 5] = [
        |db| db.checkpoint(),
        |db| db.sync(),
        |db| db.backup_on(Arc::new(MemVfs::new()), |_| {}).map(drop),
        |db| db.close(),
        |db| {
            drop(db);
            Err(Error::Argument("no forked process is told".into()))
        },
    ];
    for way in ways {
        let dir = tempfile::tempdir().unwrap();
        let open = || {
            let db = tiny().cache_bytes(1 << 20).durability(Durability::Sync).open(dir.path()).unwrap();
            let table = db.byte_table("t").unwrap();
            (db, table)
        };
        let handles = ManuallyDrop::new(open());
        let (db, table) = &*handles;
        let fill = |byte: u8| (0..60).for_each(|i| table.put(&key(i), &[byte; 500]).unwrap());
        fill(1); // the leaves have changes that the log has durably
        let (mut ours, mut the_childs) = UnixStream::pair().unwrap();
        let child = fork(|| {
            // SAFETY: they are used once in each process: here, and by the parent below.
            let (db, table) = unsafe { ptr::read(&*handles) };
            drop(table);
            the_childs.read_exact(&mut [0]).is_ok() && is_refused(way(db))
        });
        for byte in 2..6 {
            fill(byte);
            db.checkpoint().unwrap();
        }
        ours.write_all(&[1]).unwrap();
        assert_eq!(wait_for(child), 0);
        fill(6);
        let (db, table) = ManuallyDrop::into_inner(handles);
        drop(table);
        db.close().unwrap();
        let (db, table) = open();
        db.check().unwrap();
        let found = rows(&table);
        assert_eq!(found.len(), 60);
        assert!(found.iter().all(|row| row.1 == [6; 500]));
    }
}

/// Nor does it roll back what the parent goes on with, when it lets go of that.
#[test]
fn a_forked_process_ends_no_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let db = tiny().cache_bytes(1 << 20).durability(Durability::Sync).open(dir.path()).unwrap();
    let table = db.byte_table("t").unwrap();
    let tx = ManuallyDrop::new(db.begin().unwrap());
    tx.bytes(&table).put(b"k", b"v").unwrap();
    let child = fork(|| {
        // SAFETY: it is used once in each process: here, and by the parent below.
        drop(unsafe { ptr::read(&*tx) });
        true
    });
    assert_eq!(wait_for(child), 0);
    ManuallyDrop::into_inner(tx).commit().unwrap();
    assert_eq!(rows(&table), [row(b"k", b"v")]);
}

/// Nor does it wait for the threads of the log, which the parent has.
#[test]
fn a_forked_process_waits_for_nobody() {
    let is_refused =
        |done: foreshore::Result<()>| matches!(done, Err(Error::Argument(told)) if told.contains("forked"));
    let dir = tempfile::tempdir().unwrap();
    let db = tiny().cache_bytes(1 << 20).durability(Durability::Relaxed).open(dir.path()).unwrap();
    let table = db.byte_table("t").unwrap();
    table.put(b"k", b"v").unwrap(); // not durable yet
    let child = fork(|| {
        // SAFETY: ends this process, should it wait for ever.
        unsafe { libc::alarm(30) };
        let reader = db.begin_with(TransactionOptions::new().durability(Durability::Sync)).unwrap();
        assert_eq!(reader.bytes(&table).get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
        let polled = match pin!(db.sync_async()).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => is_refused(done),
            Poll::Pending => false,
        };
        let waits = [reader.commit(), db.snapshot().unwrap().wait_durable(), db.sync_async().wait()];
        polled && waits.into_iter().all(is_refused)
    });
    assert_eq!(wait_for(child), 0);
    db.sync().unwrap();
}
