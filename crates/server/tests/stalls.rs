//! What one client does must not stop the others of its event loop, whatever the device, tables and values are like.

mod common;

use common::{Client, Int, Null, Running, Value, encode, list, ok, options, text};
use foreshore::{Database, Durability};
use foreshore_io::MemVfs;
use foreshore_server::Options;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How long the device takes until it is told to take no time, and what is much less.
const SYNC: Duration = Duration::from_secs(20);
const AT_ONCE: Duration = Duration::from_secs(10);

fn one_loop() -> Options {
    Options { threads: 1, ..options() }
}

/// A table is made durable before it is used; nobody else waits for that, old clients or new ones, nor who uses other tables.
#[test]
fn a_table_that_is_made_stops_nobody() {
    let disk = MemVfs::new();
    let db = Database::builder().durability(Durability::Sync).open_on(Arc::new(disk.clone())).unwrap();
    let server = Running::over(db, one_loop());
    let (mut c, mut other) = (server.client(), server.client());
    assert_eq!((c.call("SELECT 1"), c.call("SELECT 0")), (ok(), ok()));
    for line in [
        "SELECT 9",
        "KV.USE new INDEX csb",
        "COPY k k DB 10",
        "MULTI\nSELECT 11\nEXISTS k\nEXEC",
        "KV.BEGIN\nSELECT 12\nKV.ROLLBACK",
    ] {
        disk.set_sync_time(SYNC);
        let begun = Instant::now();
        let lines: Vec<_> = line.split('\n').collect();
        other.send(&lines);
        thread::sleep(Duration::from_millis(50));
        assert_eq!(c.call("PING"), text("PONG"));
        assert_eq!((c.call("SELECT 1"), c.call("GET k"), c.call("SELECT 0")), (ok(), Null, ok()));
        assert_eq!(server.client().call("GET k"), Null);
        assert!(begun.elapsed() < AT_ONCE, "{line}: {:?}", begun.elapsed());
        disk.set_sync_time(Duration::ZERO);
        let replies: Vec<_> = lines.iter().map(|_| other.reply()).collect();
        assert!(!replies.iter().any(|reply| matches!(reply, Value::Error(_))), "{line}: {replies:?}");
        other.call("SELECT 0");
    }
    assert_eq!(c.call("KV.TABLES"), list(["db0", "db1", "db10", "db11", "db12", "db9", "new"]));
}

/// What cannot be made is told, within EXEC too, and the client goes on.
#[test]
fn a_table_that_cannot_be_made_is_told() {
    let server = Running::new();
    let mut c = server.client();
    assert!(c.call("KV.USE t LEAFBYTES 5000").error().contains("32768"));
    c.send(&["MULTI", "SET k v", "KV.USE t LEAFBYTES 5000", "SET l v", "EXEC", "MGET k l"]);
    let replies: Vec<_> = (0..6).map(|_| c.reply()).collect();
    assert!(replies[4].list()[1].error().contains("32768"), "{replies:?}");
    assert_eq!(replies[5], list(["v", "v"]));
}

/// A table that others drop through the library is made anew by who goes on with it.
#[test]
fn a_table_dropped_by_others_is_made_anew() {
    let server = Running::new();
    let (mut c, mut late) = (server.client(), server.client());
    assert_eq!((c.call("SELECT 2"), c.call("SET k v")), (ok(), ok()));
    server.db.drop_table("db2").unwrap();
    assert_eq!((late.call("SELECT 2"), late.call("GET k")), (ok(), Null));
    assert_eq!((c.call("GET k"), c.call("SET k w"), late.call("GET k")), (Null, ok(), text("w")));
    server.db.drop_table("db0").unwrap();
    c.send(&["MULTI", "SELECT 0", "SET k x", "EXEC"]);
    assert_eq!((0..4).map(|_| c.reply()).last(), Some(Value::List(vec![ok(), ok()])));
    assert_eq!(server.client().call("GET k"), text("x"));
}

/// Nor one that others rename: who selects its name again has the one of that name, and nobody empties what was put aside.
#[test]
fn a_table_renamed_by_others_is_another() {
    let server = Running::new();
    let mut c = server.client();
    assert_eq!(c.call("SET k old"), ok());
    let new = server.db.byte_table("new").unwrap();
    new.put(b"k", b"new").unwrap();
    assert!(server.db.rename_table("db0", "old").unwrap() && server.db.rename_table("new", "db0").unwrap());
    let mut late = server.client();
    assert_eq!((late.call("SELECT 0"), late.call("GET k"), late.call("SET w 1")), (ok(), text("new"), ok()));
    assert!(new.contains(b"w").unwrap());
    assert!(server.db.drop_table("old").unwrap());
    assert_eq!((c.call("GET k"), c.call("SET x 1"), c.call("GET w")), (text("new"), ok(), text("1")));
    assert!(server.db.rename_table("db0", "archive").unwrap());
    assert_eq!((late.call("FLUSHDB"), server.client().call("FLUSHDB")), (ok(), ok()));
    assert_eq!(server.db.existing_byte_table("archive").unwrap().range(..).count(), 3);
}

/// Until a table that FLUSHDB empties is durably gone its users have to wait, and nobody else.
#[test]
fn a_table_that_is_emptied_stops_nobody() {
    let disk = MemVfs::new();
    let db = Database::builder().durability(Durability::Sync).open_on(Arc::new(disk.clone())).unwrap();
    let server = Running::over(db, one_loop());
    let (mut c, mut flusher) = (server.client(), server.client());
    assert_eq!((flusher.call("SELECT 1"), flusher.call("INCR k")), (ok(), Int(1)));
    let mut users: Vec<_> = (0..20).map(|_| server.client()).collect();
    users.iter_mut().for_each(|user| assert_eq!(user.call("SELECT 1"), ok()));
    disk.set_sync_time(SYNC);
    flusher.send(&["FLUSHDB"]);
    thread::sleep(Duration::from_millis(50));
    users.iter_mut().for_each(|user| user.send(&["INCR k"]));
    thread::sleep(Duration::from_millis(50));
    let begun = Instant::now();
    assert_eq!(c.call("PING"), text("PONG"));
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    disk.set_sync_time(Duration::ZERO);
    assert_eq!(flusher.reply(), ok());
}

/// Who lists keys meanwhile is told those of the new table.
#[test]
fn keys_of_a_table_that_is_emptied_are_those_of_the_new_one() {
    let server = Running::new();
    let (mut c, mut walker) = (server.client(), server.client());
    let table = server.db.byte_table("db0").unwrap();
    (0..5000).for_each(|n| table.put(format!("{}{n}", "a".repeat(1000)).as_bytes(), b"v").unwrap());
    let slow = [b"*".to_vec(), b"a".repeat(500), b"b".to_vec()].concat(); // compared at each place of a key
    walker.send_raw(&encode(&[b"KEYS", &slow]));
    common::until("it is at it", || c.call("CLIENT LIST").text().contains("cmd=keys"));
    assert_eq!(c.call("FLUSHDB"), ok());
    assert_eq!(walker.reply(), Value::List(vec![]));
}

fn set_large(c: &mut Client, bytes: usize) {
    assert_eq!(c.call_args(&[b"SET", b"large", &vec![b'x'; bytes]]), ok());
}

fn repeated(name: &str, times: usize) -> Vec<u8> {
    let mut args = vec![name.as_bytes()];
    args.resize(times + 1, b"large");
    encode(&args)
}

/// Whether a row is there is told without its value.
#[test]
fn large_values_are_not_read_to_see_whether_they_are_there() {
    let server = Running::with(one_loop());
    let mut c = server.client();
    set_large(&mut c, 16 << 20);
    let (begun, times) = (Instant::now(), 5000);
    let there = Int(times as i64);
    for (name, reply) in [("EXISTS", &there), ("TOUCH", &there), ("WATCH", &ok()), ("EXISTS", &there)] {
        c.send_raw(&repeated(name, times));
        assert_eq!(c.reply(), *reply);
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

/// Whoever asks for keys, or how many there are, is told without their values.
#[test]
fn large_values_are_not_read_for_their_keys() {
    let server = Running::with(one_loop());
    let mut c = server.client();
    for n in 0..8 {
        assert_eq!(c.call_args(&[b"SET", format!("large:{n}").as_bytes(), &vec![b'x'; 4 << 20]]), ok());
    }
    let begun = Instant::now();
    for _ in 0..100 {
        assert_eq!(c.call("DBSIZE"), Int(8));
        assert_eq!(c.call("KEYS large:*").list().len(), 8);
        assert_eq!(c.call("KV.RANGE - + KEYS").list().len(), 8);
        assert_eq!(c.call("KV.RANGE - + KEYS REV").list().len(), 8);
        assert_eq!(c.call("SCAN 0 MATCH large:7").list()[1], list(["large:7"]));
    }
    assert_eq!(c.call("KV.BEGIN"), ok());
    for _ in 0..100 {
        assert_eq!(c.call("KV.RANGE - + KEYS").list().len(), 8);
        assert_eq!(c.call("KV.RANGE - + KEYS REV").list().len(), 8);
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

/// A reply is bounded: what it would take is not even read.
#[test]
fn many_large_values_are_refused() {
    let server = Running::new();
    let mut c = server.client();
    set_large(&mut c, 8 << 20);
    c.send_raw(&repeated("MGET", 20_000));
    assert!(c.reply().error().contains("128 MiB"));
    assert_eq!(c.call("STRLEN large"), Int(8 << 20));
    let executed = || {
        c.call("MULTI");
        c.send_raw(&repeated("MGET", 20_000));
        assert_eq!((c.reply(), c.call("SET k v")), (text("QUEUED"), text("QUEUED")));
        c.call("EXEC")
    };
    let replies = std::iter::repeat_with(executed).take(5).find(|reply| !took_too_long(reply));
    let replies = replies.expect("the machine is not as busy as that");
    assert!(replies.list()[0].error().contains("128 MiB"), "{replies:?}");
    assert_eq!(c.call("GET k"), text("v"));
}

/// Was it an EXEC that was undone for its time? On a busy machine one is that has not much to do.
fn took_too_long(reply: &Value) -> bool {
    matches!(reply, Value::Error(why) if why.starts_with("ERR EXEC took more than"))
}

/// To end a transaction takes as long as it did, or is to do all of it: whoever leaves with a long one, gives it up or commits it, stops nobody.
#[test]
fn a_long_transaction_that_ends_stops_nobody() {
    let server = Running::with(one_loop());
    let mut c = server.client();
    for (begin, end, there) in [
        ("KV.BEGIN", "leave", 0),
        ("KV.BEGIN", "KV.ROLLBACK", 0),
        ("KV.BEGIN", "RESET", 0),
        ("MULTI", "EXEC", 2),
        ("KV.BEGIN", "KV.COMMIT", 2),
    ] {
        stops_nobody(&format!("{begin}, {end}"), || {
            let mut holder = server.client();
            let replies = begin_long(&mut holder, begin, 100_000);
            assert!(replies.iter().all(|reply| *reply == ok() || *reply == text("QUEUED")), "{replies:?}");
            let mut told = Null;
            let waited = longest_wait(&mut c, || {
                match end {
                    "leave" => drop(holder),
                    command => told = holder.call(command),
                }
                common::until("it has ended", || server.db.transactions().is_empty());
            });
            let is_there = c.call("EXISTS row:0 row:99999");
            assert!(is_there == Int(there) || took_too_long(&told), "{end}: {is_there:?}");
            waited
        });
    }
}

/// At no time does somebody wait for as much as half of what another's request takes; `once` does it, and says how long both are.
/// On a busy machine it may be the processor that is waited for: then it is done again.
fn stops_nobody(what: &str, once: impl FnMut() -> (Duration, Duration)) {
    stops_nobody_for_part(2, what, once);
}

/// The same of a smaller part than half: one of so many.
fn stops_nobody_for_part(parts: u32, what: &str, once: impl FnMut() -> (Duration, Duration)) {
    let stops =
        |(longest, took): &(Duration, Duration)| *longest >= *took / parts + Duration::from_millis(30);
    let stopped: Vec<_> = std::iter::repeat_with(once).take(5).take_while(stops).collect();
    assert!(stopped.len() < 5, "{what}: {stopped:?}");
}

/// How long `c` waits for an answer at most while somebody `waits` for what he has sent, and how long he does.
fn longest_wait(c: &mut Client, waits: impl FnOnce() + Send) -> (Duration, Duration) {
    let (begun, mut longest) = (Instant::now(), Duration::ZERO);
    thread::scope(|scope| {
        let ended = scope.spawn(waits);
        while !ended.is_finished() {
            let asked = Instant::now();
            assert_eq!(c.call("PING"), text("PONG"));
            longest = longest.max(asked.elapsed());
        }
    });
    (longest, begun.elapsed())
}

/// Nor does who removes many rows at a time, alone or as a part of something.
#[test]
fn a_long_removal_stops_nobody() {
    let server = Running::with(one_loop());
    let (mut c, mut other) = (server.client(), server.client());
    let (keys, value) = ((0..10_000).map(|n| format!("row:{n}")).collect::<Vec<_>>(), [b'x'; 3000]);
    for lines in [&["KV.DELRANGE - + LIMIT 10000"][..], &["MULTI", "KV.DELRANGE - + LIMIT 10000", "EXEC"]] {
        stops_nobody(&format!("{lines:?}"), || {
            for keys in keys.chunks(1000) {
                let pairs = keys.iter().flat_map(|key| [key.as_bytes(), &value]);
                let mset: Vec<_> = std::iter::once(&b"MSET"[..]).chain(pairs).collect();
                assert_eq!(c.call_args(&mset), ok());
            }
            other.send(lines);
            let mut told = Null;
            let waited = longest_wait(&mut c, || lines.iter().for_each(|_| told = other.reply()));
            assert!(c.call("DBSIZE") == Int(0) || took_too_long(&told), "{told:?}");
            waited
        });
    }
}

/// Nor does who has large values read and is told little of them.
#[test]
fn a_transaction_that_reads_long_stops_nobody() {
    let server = Running::with(one_loop());
    let (mut c, mut other) = (server.client(), server.client());
    set_large(&mut other, 16 << 20);
    stops_nobody("EXEC", || {
        assert_eq!(other.call("MULTI"), ok());
        for _ in 0..60 {
            assert_eq!(other.call("STRLEN large"), text("QUEUED"));
        }
        other.send(&["EXEC"]);
        longest_wait(&mut c, || {
            let reply = other.reply();
            assert!(took_too_long(&reply) || reply.list() == [const { Int(16 << 20) }; 60], "{reply:?}");
        })
    });
}

/// Nor does who names or walks rows whose leaves are on disk: there may be many before a request is too heavy for what it says.
#[test]
fn rows_that_are_read_from_the_device_stop_nobody() {
    let disk = MemVfs::new();
    let small = Database::builder().cache_bytes(1 << 20).durability(Durability::Relaxed);
    let server = Running::over(small.open_on(Arc::new(disk.clone())).unwrap(), one_loop());
    let table = server.db.byte_table("db0").unwrap();
    let fill = || {
        (0..2000).for_each(|n| table.put(format!("{:04}", n * 997 % 2000).as_bytes(), &[7; 1900]).unwrap());
    };
    let request = |words: &[String]| encode(&words.iter().map(String::as_bytes).collect::<Vec<_>>());
    let watch = request(&named("WATCH", |n| [format!("{n:04}")]));
    let del = request(&named("DEL", |n| [format!("{n:04} is not there")]));
    // The last key is there.
    let msetnx = request(&named("MSETNX", |n| {
        let key = if n < 1998 { format!("{n:04} is not there") } else { format!("{n:04}") };
        [key, "v".to_owned()]
    }));
    let del_rows = named("DEL", |n| [format!("{n:04}")]).join(" ");
    let mset = request(&named("MSET", |n| [format!("{n:04} is new"), "v".to_owned()]));
    let (mut c, mut other) = (server.client(), server.client());
    let rows = &b"KV.RANGE - + LIMIT 2000 KEYS\r\n"[..];
    let read = Duration::from_micros(500);
    for (what, before, request, after, read_time) in [
        ("KV.RANGE", &["KV.BEGIN"][..], rows, "KV.ROLLBACK", 4 * read), // several leaves at a time
        ("WATCH", &[], &watch, "UNWATCH", read),
        ("EXEC", &["MULTI", "PING"], b"EXEC\r\n", "PING", read),
        ("DEL", &[], &del, "PING", read),
        ("MSETNX", &[], &msetnx, "PING", read),
        ("MSET", &[], &mset, "PING", 4 * read),
        ("KV.DELRANGE", &[], b"KV.DELRANGE - +\r\n", "PING", 4 * read),
        ("KV.COMMIT", &["KV.BEGIN", &del_rows], b"KV.COMMIT\r\n", "PING", 4 * read),
    ] {
        // An event loop that has done all of it, and has it done elsewhere then, is busy for half of the time.
        stops_nobody_for_part(3, what, || {
            fill();
            if what == "EXEC" {
                other.send_raw(&watch);
                assert_eq!(other.reply(), ok());
            }
            before.iter().for_each(|line| _ = other.call(line));
            disk.set_read_time(read_time);
            let mut told = Null;
            let waited = longest_wait(&mut c, || {
                other.send_raw(request);
                told = other.reply();
            });
            disk.set_read_time(Duration::ZERO);
            assert!(matches!(told, Value::Text(_) | Int(_) | Value::List(_)), "{what}: {told:?}");
            other.call(after);
            waited
        });
    }
}

/// The name of a command, and arguments for every third of two thousand numbers.
fn named<const N: usize>(name: &str, args: impl FnMut(u32) -> [String; N]) -> Vec<String> {
    std::iter::once(name.to_owned()).chain((0..2000).step_by(3).flat_map(args)).collect()
}

/// Nor does who watches a large value, or reads one that is watched. It is read to see that it is too large for an event loop, and no more.
#[test]
fn a_large_value_that_is_watched_stops_nobody() {
    let server = Running::with(one_loop());
    let (mut c, mut other) = (server.client(), server.client());
    set_large(&mut other, 48 << 20);
    for (line, reply) in [("WATCH large", ok()), ("STRLEN large", Int(48 << 20)), ("EXISTS large", Int(1))] {
        stops_nobody(line, || {
            if line.starts_with("WATCH") {
                assert_eq!(other.call("UNWATCH"), ok());
            }
            other.send(&[line]);
            longest_wait(&mut c, || assert_eq!(other.reply(), reply, "{line}"))
        });
    }
}

/// Who is sent away while a command of a long transaction is executed beside the event loop stops nobody either.
#[test]
fn a_long_transaction_whose_client_is_killed_stops_nobody() {
    let server = Running::with(one_loop());
    let (mut c, mut killer) = (server.client(), server.client());
    let mset = encode(&[&[&b"MSET"[..]], &[&b"more"[..], b"v"].repeat(30_000)[..]].concat());
    stops_nobody("CLIENT KILL", || {
        let mut holder = server.client();
        let Int(id) = holder.call("CLIENT ID") else { panic!("an id is a number") };
        begin_long(&mut holder, "KV.BEGIN", 100_000);
        holder.send_raw(&mset);
        common::until("the MSET is executed elsewhere", || {
            c.call("INFO clients").text().contains("open_transactions:2")
        });
        longest_wait(&mut c, || {
            assert_eq!(killer.call(&format!("CLIENT KILL ID {id}")), Int(1));
            common::until("it has ended", || server.db.transactions().is_empty());
        })
    });
}

/// Nor does who goes on with a long transaction while that is rolled back, as for having been idle.
#[test]
fn a_transaction_that_others_roll_back_stops_nobody() {
    let server = Running::with(one_loop());
    let (mut c, mut holder) = (server.client(), server.client());
    stops_nobody("GET", || {
        begin_long(&mut holder, "KV.BEGIN", 300_000);
        let [number] = server.db.transactions()[..] else { panic!("there is one transaction") };
        let before = server.db.stats().log_bytes;
        thread::scope(|scope| {
            let aborting = scope.spawn(|| server.db.abort(number));
            common::until("it is being rolled back", || server.db.stats().log_bytes > before);
            holder.send(&["GET row:0"]);
            let waited = longest_wait(&mut c, || assert!(holder.reply().error().starts_with("ABORTED")));
            assert!(aborting.join().unwrap().unwrap(), "it was running");
            waited
        })
    });
}

/// Nor does who looks for rows where there are none to be seen, since others have not committed theirs.
#[test]
fn rows_that_are_not_committed_stop_nobody() {
    let server = Running::with(one_loop());
    let (mut c, mut other, mut holder) = (server.client(), server.client(), server.client());
    assert_eq!((other.call("SET a first"), other.call("SET z last")), (ok(), ok()));
    begin_long(&mut holder, "KV.BEGIN", 300_000);
    let mut scanned = |line: &str| {
        let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
        loop {
            let reply = other.call(&line.replace("SCAN 0", &format!("SCAN {cursor}")));
            let [Value::Text(next), Value::List(keys)] = reply.list() else { return reply };
            found.extend_from_slice(keys);
            if next == "0" {
                return Value::List(found);
            }
            cursor = next.clone();
        }
    };
    for (line, reply) in [
        ("SCAN 0", list(["a", "z"])),
        ("SCAN 0 MATCH [^r]*", list(["a", "z"])),
        ("SCAN 0 MATCH row:*", list([])),
        ("KV.RANGE (a + LIMIT 1 KEYS", list(["z"])),
        ("KV.RANGE - (z REV LIMIT 1 KEYS", list(["a"])),
    ] {
        stops_nobody(line, || longest_wait(&mut c, || assert_eq!(scanned(line), reply, "{line}")));
    }
}

/// Begins a transaction, and sets rows in it.
fn begin_long(c: &mut Client, begin: &str, rows: usize) -> Vec<Value> {
    let mut replies = vec![c.call(begin)];
    let keys: Vec<_> = (0..rows).map(|n| format!("row:{n}")).collect();
    for keys in keys.chunks(1000) {
        let pairs = keys.iter().flat_map(|key| [key.as_bytes(), b"v"]);
        let mset: Vec<_> = std::iter::once(&b"MSET"[..]).chain(pairs).collect();
        replies.push(c.call_args(&mset));
    }
    replies
}

/// What ends elsewhere than on the event loop is answered when it is durable, and so is what was written before it.
#[test]
fn a_long_transaction_is_answered_when_it_is_durable() {
    let disk = MemVfs::new();
    let db = Database::builder().durability(Durability::Sync).open_on(Arc::new(disk.clone())).unwrap();
    let server = Running::over(db, one_loop());
    let (mut c, sync) = (server.client(), Duration::from_millis(500));
    for (begin, end) in [("KV.BEGIN", "KV.COMMIT"), ("MULTI", "EXEC")] {
        begin_long(&mut c, begin, 5000);
        disk.set_sync_time(sync);
        let begun = Instant::now();
        c.send(&[end, "GET row:0"]);
        let reply = c.reply();
        assert!(begun.elapsed() > sync / 2, "{end}: {reply:?} after {:?}", begun.elapsed());
        assert_eq!(c.reply(), text("v"));
        disk.set_sync_time(Duration::ZERO);
    }
    disk.set_sync_time(sync);
    let begun = Instant::now();
    c.send(&["SET before 1", "MULTI", "KV.RANGE - +", "KV.RANGE - +", "EXEC"]);
    assert_eq!(c.reply(), ok());
    assert!(begun.elapsed() > sync / 2, "SET: after {:?}", begun.elapsed());
    disk.set_sync_time(Duration::ZERO);
}

/// A client that has set something, and was told that it is durable, reads as soon as anybody.
#[test]
fn reads_after_a_set_wait_for_no_device() {
    let disk = MemVfs::new();
    let db = Database::builder().durability(Durability::Sync).open_on(Arc::new(disk.clone())).unwrap();
    let server = Running::over(db, one_loop());
    let (mut c, mut other) = (server.client(), server.client());
    assert_eq!(c.call("SET mine 1"), ok());
    disk.set_sync_time(SYNC);
    other.send(&["SET theirs 1"]);
    thread::sleep(Duration::from_millis(50));
    let begun = Instant::now();
    c.send(&["GET mine", "GET mine"]);
    assert_eq!((c.reply(), c.reply()), (text("1"), text("1")));
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    disk.set_sync_time(Duration::ZERO);
    assert_eq!(other.reply(), ok());
}

/// Who is told that there was nothing to do relies on it: the reply comes when what others did is durable, like theirs.
#[test]
fn a_write_with_nothing_to_do_is_answered_when_that_is_durable() {
    let (disk, sync) = (MemVfs::new(), Duration::from_millis(100));
    let db = Database::builder().durability(Durability::Sync).open_on(Arc::new(disk.clone())).unwrap();
    let server = Running::over(db, one_loop());
    let (mut c, mut other) = (server.client(), server.client());
    for (theirs, seen, mine, nothing) in [
        ("SET k theirs", text("theirs"), "SETNX k mine", Int(0)),
        ("SET k theirs", text("theirs"), "SET k mine NX", Null),
        ("SET k theirs", text("theirs"), "MSETNX k mine l mine", Int(0)),
        ("DEL k", Null, "DEL k", Int(0)),
        ("DEL k", Null, "UNLINK k l", Int(0)),
        ("DEL k", Null, "GETDEL k", Null),
        ("DEL k", Null, "SET k mine XX", Null),
        ("DEL k", Null, "KV.DELRANGE - +", Int(0)),
    ] {
        disk.set_sync_time(Duration::ZERO);
        assert_eq!(c.call("SET k before"), ok());
        disk.set_sync_time(sync);
        let begun = Instant::now();
        other.send(&[theirs]);
        common::until("it is there to be seen", || c.call("GET k") == seen);
        assert_eq!(c.call(mine), nothing, "{mine}");
        assert!(begun.elapsed() > sync / 2, "{mine}: {:?}", begun.elapsed());
        other.reply();
    }
}

/// What a transaction has written need not be durable before it ends.
#[test]
fn a_write_within_a_transaction_waits_for_no_device() {
    let disk = MemVfs::new();
    let db = Database::builder().durability(Durability::Sync).open_on(Arc::new(disk.clone())).unwrap();
    let server = Running::over(db, one_loop());
    let mut c = server.client();
    disk.set_sync_time(SYNC);
    let begun = Instant::now();
    for (line, reply) in [
        ("KV.BEGIN", ok()),
        ("SET k v", ok()),
        ("SETNX k w", Int(0)),
        ("DEL none", Int(0)),
        ("INCR n", Int(1)),
        ("GET k", text("v")),
    ] {
        assert_eq!(c.call(line), reply, "{line}");
        assert!(begun.elapsed() < AT_ONCE, "{line}: {:?}", begun.elapsed());
    }
    let (begun, sync) = (Instant::now(), Duration::from_millis(200));
    disk.set_sync_time(sync);
    assert_eq!(c.call("KV.COMMIT"), ok());
    assert!(begun.elapsed() > sync / 2, "{:?}", begun.elapsed());
}

/// A value that is written past the log waits for the device before it commits, whatever the durability; nobody else does.
#[test]
fn a_large_value_that_waits_for_the_device_stops_nobody() {
    let disk = MemVfs::new();
    let db = Database::builder().durability(Durability::Buffered).open_on(Arc::new(disk.clone())).unwrap();
    let server = Running::over(db, one_loop());
    let (mut c, mut other) = (server.client(), server.client());
    let value = vec![b'x'; 200_000];
    let set = encode(&[b"SET", b"large", &value]);
    let requests: [(&str, Vec<u8>, usize); 6] = [
        ("SET", set.clone(), 1),
        (
            "SETs that follow one another",
            [encode(&[b"SET", b"k", b"v"]), set.clone(), set.clone()].concat(),
            3,
        ),
        ("APPEND", encode(&[b"APPEND", b"grows", &value]), 1),
        ("MSET", encode(&[b"MSET", b"k", b"v", b"large", &value]), 1),
        ("EXEC", [encode(&[b"MULTI"]), set.clone(), encode(&[b"EXEC"])].concat(), 3),
        ("KV.COMMIT", [encode(&[b"KV.BEGIN"]), set, encode(&[b"KV.COMMIT"])].concat(), 3),
    ];
    for (what, requests, replies) in requests {
        disk.set_sync_time(SYNC);
        let begun = Instant::now();
        other.send_raw(&requests);
        thread::sleep(Duration::from_millis(50));
        for (line, reply) in [("PING", text("PONG")), ("GET mine", Null)] {
            assert_eq!(c.call(line), reply);
            assert!(begun.elapsed() < AT_ONCE, "{what}, {line}: {:?}", begun.elapsed());
        }
        disk.set_sync_time(Duration::ZERO);
        let replies: Vec<_> = (0..replies).map(|_| other.reply()).collect();
        assert!(!replies.iter().any(|reply| matches!(reply, Value::Error(_))), "{what}: {replies:?}");
    }
    assert_eq!((c.call("STRLEN large"), c.call("STRLEN grows")), (Int(200_000), Int(200_000)));
}

/// The smaller the leaves, the smaller are values that are written past the log.
#[test]
fn a_value_that_small_leaves_make_wait_for_the_device_stops_nobody() {
    let disk = MemVfs::new();
    let small = Database::builder().leaf_bytes(4096).durability(Durability::Buffered);
    let server = Running::over(small.open_on(Arc::new(disk.clone())).unwrap(), one_loop());
    let (mut c, mut other) = (server.client(), server.client());
    let value = [b'x'; 100_000];
    assert_eq!(other.call_args(&[b"SET", b"large", &value]), ok());
    let set = encode(&[b"SET", b"new", &value]);
    for requests in [set.clone(), set.repeat(2), encode(&[b"APPEND", b"large", b"x"])] {
        let replies = requests.iter().filter(|byte| **byte == b'*').count();
        disk.set_sync_time(SYNC);
        let begun = Instant::now();
        other.send_raw(&requests);
        thread::sleep(Duration::from_millis(50));
        assert_eq!(c.call("PING"), text("PONG"));
        assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
        disk.set_sync_time(Duration::ZERO);
        (0..replies).for_each(|_| assert!(!matches!(other.reply(), Value::Error(_))));
    }
}

/// A long EXEC that meets others' locks is tried again, and is given up in the end; the session is what it was.
#[test]
fn a_long_transaction_waits_for_locks_as_others_do() {
    let server = Running::with(Options { lock_timeout: Duration::from_millis(300), ..one_loop() });
    let (mut c, mut holder) = (server.client(), server.client());
    assert_eq!((c.call("SELECT 3"), holder.call("SELECT 3")), (ok(), ok()));
    assert_eq!((holder.call("KV.BEGIN"), holder.call("SET row:7 mine")), (ok(), ok()));
    begin_long(&mut c, "MULTI", 5000);
    assert!(c.call("EXEC").error().starts_with("TRYAGAIN"));
    begin_long(&mut c, "MULTI", 5000);
    c.send(&["EXEC"]);
    thread::sleep(Duration::from_millis(50));
    assert_eq!(holder.call("KV.COMMIT"), ok());
    assert_eq!(c.reply(), Value::List(vec![ok(); 5]));
    assert_eq!((c.call("GET row:7"), holder.call("GET row:4999")), (text("v"), text("v")));
}

/// What takes long to compare with one key is not compared with many before the clock is looked at.
#[test]
fn a_scan_by_a_hard_pattern_stops_nobody() {
    let server = Running::with(one_loop());
    let mut c = server.client();
    for n in 0..64 {
        assert_eq!(c.call(&format!("SET {}{n} v", "b".repeat(1000))), ok());
    }
    let pattern = format!("*[{}]", "a".repeat(4000));
    let mut quickest = |count: &str| {
        let scan = || {
            let begun = Instant::now();
            c.call(&format!("SCAN 0 MATCH {pattern} COUNT {count}")).list();
            begun.elapsed()
        };
        std::iter::repeat_with(scan).take(5).min().expect("five of them")
    };
    let (one, many) = (quickest("1"), quickest("64"));
    assert!(many < 6 * one + Duration::from_millis(10), "{many:?} for many, {one:?} for one");
}

/// Patterns that event loops compare are short, and what they go through is not much, whatever it is for.
#[test]
fn long_patterns_are_refused() {
    let server = Running::with(one_loop());
    let mut c = server.client();
    let (long, half) = ("*".repeat(4097), "*".repeat(2049));
    for line in [
        format!("KEYS {long}"),
        format!("SCAN 0 MATCH {long}"),
        format!("CONFIG GET {long}"),
        format!("CONFIG GET {half} {half}"),
        format!("COMMAND LIST FILTERBY PATTERN {long}"),
        format!("INFO {long}"),
        format!("INFO{}", " x".repeat(2048)),
        format!("CONFIG GET{}", " ".repeat(4090)),
        format!("CONFIG GET{}", " ".repeat(65_000)),
        format!("CLIENT LIST ID{}", " 1".repeat(4096)),
        format!("CLIENT KILL{}", " ID 1".repeat(2048)),
        format!("COMMAND GETKEYS MSET{}", " k v".repeat(2048)),
        format!("HELLO 2{}", " SETNAME x".repeat(2048)),
    ] {
        let reply = c.call(&line);
        assert!(reply.error().contains("4096"), "{}: {reply:?}", &line[..15]);
    }
}

/// A large value waits for the device also if its request is short, which only puts it elsewhere, or adds a byte to it.
#[test]
fn a_large_value_that_is_written_anew_stops_nobody() {
    let disk = MemVfs::new();
    let db = Database::builder().durability(Durability::Buffered).open_on(Arc::new(disk.clone())).unwrap();
    let server = Running::over(db, one_loop());
    let (mut c, mut other) = (server.client(), server.client());
    set_large(&mut other, 200_000);
    for lines in [
        &["APPEND large x"][..],
        &["SETRANGE large 0 x"],
        &["SETRANGE far 200000 x"],
        &["COPY large copy REPLACE"],
        &["COPY large inserted"],
        &["RENAME large moved", "RENAMENX moved large"],
        &["MULTI", "APPEND large x", "EXEC"],
        &["KV.BEGIN", "APPEND large x", "KV.COMMIT"],
    ] {
        disk.set_sync_time(SYNC);
        let begun = Instant::now();
        other.send(lines);
        thread::sleep(Duration::from_millis(50));
        for (line, reply) in [("PING", text("PONG")), ("GET mine", Null)] {
            assert_eq!(c.call(line), reply);
            assert!(begun.elapsed() < AT_ONCE, "{lines:?}, {line}: {:?}", begun.elapsed());
        }
        disk.set_sync_time(Duration::ZERO);
        let replies: Vec<_> = lines.iter().map(|_| other.reply()).collect();
        assert!(!replies.iter().any(|reply| matches!(reply, Value::Error(_))), "{lines:?}: {replies:?}");
    }
    assert_eq!((c.call("STRLEN large"), c.call("STRLEN copy")), (Int(200_003), Int(200_001)));
}
