//! The power fails while clients write: what was acknowledged is there afterwards, with replies that wait for the device.

mod common;

use common::{List, Null, Running, encode, ok, options, text};
use foreshore::{Database, Durability, Error};
use foreshore_io::sim::{Crash, Fault, Repeat, SimDisk};
use foreshore_server::Options;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;

const CLIENTS: usize = 4;

/// Writes of one client, should the power not fail before.
const WRITES: u64 = 200;

fn open(disk: &SimDisk) -> Database {
    let small = Database::builder().leaf_bytes(4 << 10).segment_bytes(64 << 10).ring_bytes(64 << 10);
    small.cache_bytes(1 << 20).open_on(Arc::new(disk.clone())).expect("the disk is whole")
}

/// Writes 1, 2, 3 … to a key of its own until the connection ends; how far it was acknowledged.
fn count_up(addr: SocketAddr, key: &str) -> u64 {
    let stream = TcpStream::connect(addr).expect("the server listens");
    stream.set_read_timeout(Some(common::PATIENCE)).expect("a timeout");
    let mut replies = BufReader::new(&stream);
    for n in 1..=WRITES {
        let mut line = String::new();
        let is_sent =
            (&stream).write_all(&encode(&[b"SET", key.as_bytes(), n.to_string().as_bytes()])).is_ok();
        if !is_sent || replies.read_line(&mut line).is_err() || line != "+OK\r\n" {
            return n - 1;
        }
    }
    WRITES
}

#[test]
fn no_power_failure_takes_what_was_acknowledged() {
    let mut acknowledged_in_all = 0;
    for seed in 1..=20 {
        let disk = SimDisk::new(seed);
        let mut server = Running::over(open(&disk), options());
        assert_eq!(server.client().call("SET before all"), ok());
        disk.crash_at(disk.events() + seed * 13 % 97);
        let addr = server.server().addr();
        let clients: Vec<_> =
            (0..CLIENTS).map(|n| thread::spawn(move || count_up(addr, &format!("client{n}")))).collect();
        let acknowledged: Vec<_> =
            clients.into_iter().map(|client| client.join().expect("it only counts")).collect();
        disk.crash();
        server.stop();
        drop(server);

        let table = open(&disk.after_crash(Crash::PowerLoss, seed)).byte_table("db0").expect("it is there");
        assert_eq!(table.get(b"before").unwrap().as_deref(), Some(&b"all"[..]), "seed {seed}");
        for (n, acknowledged) in acknowledged.iter().enumerate() {
            let found = table.get(format!("client{n}").as_bytes()).unwrap();
            let found = found.map_or(0, |value| String::from_utf8_lossy(&value).parse().expect("a number"));
            // One more may have been under way.
            assert!(
                found == *acknowledged || found == acknowledged + 1,
                "seed {seed}, client {n}: {acknowledged} acknowledged, {found} found"
            );
        }
        acknowledged_in_all += acknowledged.iter().sum::<u64>();
    }
    assert!(acknowledged_in_all > 0, "no power failed in the middle of anything");
}

/// A device that fails takes those with it whose replies wait for it. Who comes later is told, and can read.
#[test]
fn writes_after_a_failure_are_refused() {
    let disk = SimDisk::new(1);
    let server = Running::over(open(&disk), options());
    let mut c = server.client();
    assert_eq!(c.call("MSET before all gone soon"), ok());
    disk.fail_at(disk.events(), Fault::Eio, Repeat::Forever);
    c.send(&["SET lost 1"]);
    assert_eq!(c.try_reply(), None, "it is not known what has become of it");
    let mut c = server.client();
    assert!(c.call("INFO persistence").text().contains("aof_last_write_status:err"));
    for lines in [
        &["SET k v"][..],
        &["SET k v", "SET l v", "SET m v"],
        &["SETNX new v"],
        &["DEL gone"],
        &["INCR n"],
        &["MSET k v l v"],
        &["MULTI", "SET k v", "EXEC"],
    ] {
        c.send(lines);
        let replies: Vec<_> = lines.iter().map_while(|_| c.try_reply()).collect();
        assert_eq!(replies.len(), lines.len(), "{lines:?}: {replies:?}");
        let last = replies.last().expect("one at least");
        assert!(last.error().starts_with("MISCONF"), "{lines:?}: {replies:?}");
    }
    assert_eq!(c.call("GET before"), text("all"));
}

/// Whoever looks after the server is told that it takes no more writes, also if no reply waited for the device when it failed.
#[test]
fn a_failure_that_nobody_waited_for_is_told() {
    for (durability, finds_out) in
        [(Durability::Sync, "BGSAVE"), (Durability::Sync, "SET k w"), (Durability::Buffered, "SET k w")]
    {
        let disk = SimDisk::new(1);
        let server = Running::over(open(&disk), Options { durability, ..options() });
        let mut c = server.client();
        assert_eq!(c.call("SET k v"), ok());
        assert!(c.call("INFO persistence").text().contains("aof_last_write_status:ok"));
        disk.fail_at(disk.events(), Fault::Eio, Repeat::Forever);
        server.db.checkpoint().unwrap_err();
        assert!(c.call(finds_out).error().starts_with("MISCONF"), "{durability:?}");
        assert!(c.call("INFO persistence").text().contains("aof_last_write_status:err"), "{durability:?}");
    }
}

/// A transaction that could not be undone is over. Its client is told why, and then that: only from there on does a command count
/// by itself.
#[test]
fn nothing_counts_alone_before_the_client_knows() {
    let disk = SimDisk::new(1);
    let server = Running::over(open(&disk), options());
    let mut c = server.client();
    assert_eq!((c.call("SET k v"), c.call("KV.BEGIN"), c.call("SET k undone")), (ok(), ok(), ok()));
    let others = server.db.byte_table("others").unwrap().with_durability(Durability::Buffered);
    // More than the cache: the leaf has left it.
    (0..2000_u32).for_each(|i| others.put(&i.to_be_bytes(), &[5; 900]).unwrap());
    server.db.checkpoint().unwrap();
    disk.fail_read_at(disk.read_events(), Repeat::Once);
    let failed = server.db.abort(server.db.transactions()[0]);
    assert!(matches!(failed, Err(Error::Io { .. })), "{failed:?}");
    let (told_why, told) = (c.call("SET a 1"), c.call("SET b 2"));
    assert!(told_why.error().starts_with("MISCONF"), "{told_why:?}");
    assert!(told.error().starts_with("ABORTED"), "{told:?}");
    assert_eq!((c.call("SET c 3"), c.call("MGET a b c")), (ok(), List(vec![Null, Null, text("3")])));
}
