//! Tickets of asynchronous commits: waited for, asked, and awaited, on a disk that works and on one that fails.

mod common;

use common::tiny;
use foreshore::{ByteTable, CommitTicket, Database, Durability, Error, TransactionOptions};
use foreshore_io::SimDisk;
use foreshore_io::sim::{Crash, Fault, Repeat};
use std::pin::{Pin, pin};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};
use std::time::Duration;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => thread::park(),
        }
    }
}

fn open(disk: &SimDisk) -> (Database, ByteTable) {
    let db = tiny().durability(Durability::Sync).open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    (db, table)
}

fn put(db: &Database, table: &ByteTable, key: u32) -> CommitTicket {
    let tx = db.begin().unwrap();
    tx.bytes(table).put(&key.to_be_bytes(), b"value").unwrap();
    tx.commit_async().unwrap()
}

/// Many tasks on one thread, and threads beside them: each is woken once its commit is durable, which it then is.
#[test]
fn an_awaited_commit_survives() {
    let disk = SimDisk::new(1);
    let (db, table) = open(&disk);
    thread::scope(|scope| {
        for thread in 0..4 {
            let (db, table) = (&db, &table);
            scope.spawn(move || {
                for round in 0..50 {
                    let ticket = put(db, table, round * 4 + thread);
                    if thread % 2 == 0 { block_on(ticket.clone()) } else { ticket.wait() }.unwrap();
                    assert!(ticket.is_durable());
                }
            });
        }
    });
    drop((db, table));
    let (db, table) = open(&disk.after_crash(Crash::PowerLoss, 1));
    for key in 0..200u32 {
        assert!(table.contains(&key.to_be_bytes()).unwrap(), "{key}");
    }
    db.check().unwrap();
}

/// One ticket covers what everybody has committed before it, however little they waited for.
#[test]
fn a_ticket_for_all_covers_what_nobody_waited_for() {
    let disk = SimDisk::new(3);
    let (db, table) = open(&disk);
    let table = table.with_durability(Durability::Relaxed);
    thread::scope(|scope| {
        for thread in 0..4 {
            let (db, table) = (&db, &table);
            scope.spawn(move || {
                for round in 0..50u32 {
                    (0..3).for_each(|n| table.put(&[thread, round as u8, n], b"value").unwrap());
                    let ticket = db.sync_async();
                    if thread % 2 == 0 { block_on(ticket.clone()) } else { ticket.wait() }.unwrap();
                    assert!(ticket.is_durable());
                }
            });
        }
    });
    drop((db, table));
    let (db, table) = open(&disk.after_crash(Crash::PowerLoss, 1));
    for (thread, round, n) in (0..4).flat_map(|t| (0..50).flat_map(move |r| (0..3).map(move |n| (t, r, n)))) {
        assert!(table.contains(&[thread, round, n]).unwrap(), "{thread} {round} {n}");
    }
    db.check().unwrap();
}

/// A task that nobody but its waker holds any more, and with it the ticket that it waits for. It keeps neither the database
/// open nor the thread that wakes it.
#[test]
fn a_forgotten_task_keeps_nothing_open() {
    struct Forgotten {
        _ticket: CommitTicket,
        dropped: mpsc::Sender<()>,
    }
    impl Wake for Forgotten {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for Forgotten {
        fn drop(&mut self) {
            self.dropped.send(()).unwrap();
        }
    }
    let disk = SimDisk::new(4);
    for round in 0..50 {
        let (db, table) = open(&disk);
        let mut ticket = put(&db, &table, round);
        let (dropped, when) = mpsc::channel();
        let waker = Arc::new(Forgotten { _ticket: ticket.clone(), dropped }).into();
        let _ = Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker));
        drop((db, table, waker));
        when.recv_timeout(Duration::from_secs(10)).expect("its commit is durable");
        ticket.wait().unwrap();
        assert!(ticket.is_durable());
    }
}

/// What is committed when the database closes is safe, however it was committed.
#[test]
fn tickets_outlive_their_database() {
    for durability in [Durability::Sync, Durability::Buffered, Durability::Relaxed] {
        let disk = SimDisk::new(5);
        let (db, table) = open(&disk);
        let tx = db.begin_with(TransactionOptions::new().durability(durability)).unwrap();
        tx.bytes(&table).put(b"key", b"value").unwrap();
        let ticket = tx.commit_async().unwrap();
        drop((db, table));
        ticket.wait().unwrap();
        block_on(ticket.clone()).unwrap();
        assert!(ticket.is_durable());
        let (_db, table) = open(&disk.after_crash(Crash::PowerLoss, 6));
        assert_eq!(table.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    }
}

/// Nobody waits for ever: once a sync has failed, tasks that wait, and those that ask later, are told.
#[test]
fn an_awaited_commit_fails_with_the_log() {
    let disk = SimDisk::new(2);
    let (db, table) = open(&disk);
    put(&db, &table, 0).wait().unwrap();
    disk.fail_at(disk.events(), Fault::Eio, Repeat::Forever);
    let ticket = put(&db, &table, 1);
    for _ in 0..2 {
        assert!(matches!(block_on(ticket.clone()), Err(Error::Poisoned { .. })));
    }
    assert!(!ticket.is_durable());
    assert!(matches!(ticket.wait(), Err(Error::Poisoned { .. })));
    assert!(matches!(block_on(db.sync_async()), Err(Error::Poisoned { .. })));
}
