//! Clients that are slow, broken or hostile, limits, and the end of the server: others are served, memory is bounded.

mod common;

use common::{Client, Int, Null, Running, Value, encode, ok, options, text, until};
use foreshore::{Database, Durability};
use foreshore_io::MemVfs;
use foreshore_server::{Limits, Options};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[test]
fn a_pipeline_is_answered_in_order() {
    let server = Running::new();
    let mut c = server.client();
    let requests: Vec<u8> = (0..5000)
        .flat_map(|n: u32| {
            let value = n.to_string();
            [encode(&[b"SET", b"k", value.as_bytes()]), encode(&[b"GET", b"k"])].concat()
        })
        .collect();
    let mut sender = c.stream.try_clone().unwrap();
    let sending = std::thread::spawn(move || sender.write_all(&requests).unwrap());
    for n in 0..5000 {
        assert_eq!(c.reply(), ok());
        assert_eq!(c.reply(), text(&n.to_string()));
    }
    sending.join().unwrap();
}

/// Bytes come one by one, and the other side is closed before the last reply is there.
#[test]
fn a_request_in_pieces_and_a_half_closed_connection() {
    let server = Running::new();
    let mut c = server.client();
    c.stream.set_nodelay(true).unwrap();
    for byte in encode(&[b"SET", b"k", b"in pieces"]).iter().chain(b"GET k\r\nGET") {
        c.send_raw(&[*byte]);
    }
    c.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(c.reply(), ok());
    assert_eq!(c.reply(), text("in pieces"));
    assert_eq!(c.try_reply(), None, "half a request is none");
}

#[test]
fn what_is_no_request_ends_the_connection() {
    let server =
        Running::with(Options { limits: Limits { request_bytes: 5000, arguments: 20 }, ..options() });
    let too_many = encode(&[&b"DEL"[..]; 21]);
    let too_large = encode(&[b"SET", b"k", &[b'x'; 5000]]);
    for (garbage, complaint) in [
        (&b"*1\r\n:1\r\n"[..], "expected '$', got ':'"),
        (b"*x\r\n", "invalid multibulk length"),
        (b"GET \"k\r\n", "unbalanced quotes"),
        (&too_many, "more than 20 arguments"),
        (&too_large, "more than 5000 bytes"),
    ] {
        let mut c = server.client();
        c.send_raw(b"PING\r\n");
        assert_eq!(c.reply(), text("PONG"));
        // The server may close before it has taken all of it.
        let _ = c.stream.write_all(garbage);
        let reply = c.reply();
        assert!(reply.error().contains(complaint), "{reply:?}");
        assert_eq!(c.try_reply(), None);
    }
    assert_eq!(server.client().call("PING"), text("PONG"));
}

/// Who has not said the password is told that this is what is missing, and not to send less.
#[test]
fn a_stranger_who_sends_too_much_is_told_of_auth() {
    let server = Running::with(Options { password: Some("secret".into()), ..options() });
    for (request, complaint) in [
        (encode(&[b"SET", b"k", &[b'x'; 5000]]), "unauthenticated bulk length"),
        (encode(&[&b"DEL"[..]; 17]), "unauthenticated multibulk length"),
        ([b'x'; 5000].to_vec(), "unauthenticated inline request length"),
        (
            b"DEL 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\r\n".to_vec(),
            "unauthenticated inline request length",
        ),
    ] {
        let mut c = server.client();
        let _ = c.stream.write_all(&request);
        let reply = c.reply();
        assert!(reply.error().contains(complaint) && reply.error().contains("AUTH"), "{reply:?}");
    }
}

/// Who sends all of a request that is refused at its beginning, as clients do, is told why, and not that the connection is broken.
#[test]
fn a_refusal_is_read_when_all_is_sent() {
    let server = Running::new();
    let mut c = server.client();
    let too_many = [&b"*1000000\r\n"[..], &b"$3\r\nDEL\r\n".repeat(1_000_000)].concat();
    c.stream.write_all(&too_many).expect("the server takes it");
    assert!(c.reply().error().contains("more than 65536 arguments"));
    assert_eq!(c.try_reply(), None);
    assert_eq!(server.client().call("PING"), text("PONG"));
    let impatient = Running::with(Options { stall_timeout: Duration::from_millis(300), ..options() });
    let endless = impatient.client().stream;
    until("who never comes to an end does not stay", || (&endless).write_all(&too_many[..1000]).is_err());
}

/// Errors are counted, whoever finds them.
#[test]
fn replies_that_are_errors_count() {
    let server = Running::new();
    let (mut c, mut garbage) = (server.client(), server.client());
    garbage.send_raw(b"*x\r\n");
    assert!(garbage.reply().error().contains("multibulk"));
    assert_eq!((c.call("KV.BEGIN"), c.call("SET k v")), (ok(), ok()));
    assert!(server.db.abort(server.db.transactions()[0]).unwrap());
    assert!(c.call("KV.ROLLBACK").error().starts_with("ABORTED"));
    assert!(c.call("NOPE").error().contains("unknown command"));
    assert!(c.call("INFO stats").text().contains("\nerrors_total:3\r\n"));
    c.send(&["SET word ten", "MULTI", "INCR word", "INCR n", "INCR word", "EXEC"]);
    let replies: Vec<_> = (0..6).map(|_| c.reply()).collect();
    assert!(matches!(replies[5].list(), [Value::Error(_), Int(1), Value::Error(_)]), "{replies:?}");
    assert!(c.call("INFO stats").text().contains("\nerrors_total:5\r\n"), "those within EXEC, too");
}

/// A web page can make a browser send anything, as the body of a request.
#[test]
fn what_a_browser_sends_is_not_executed() {
    let server = Running::new();
    for head in [
        "POST / HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n",
        "PUT / HTTP/1.1\r\nHost: x\r\n",
        "SET /k HTTP/1.1\r\nHost: x\r\n", // by a page of a name that has become this machine's
    ] {
        let mut c = server.client();
        c.send_raw(format!("{head}Content-Length: 9\r\n\r\nSET k v\r\n").as_bytes());
        while c.try_reply().is_some_and(|reply| reply.error().starts_with("ERR")) {}
        assert_eq!(server.client().call("GET k"), Null, "{head}");
        assert_eq!(server.client().call("GET /k"), Null, "{head}");
    }
}

/// Or many of them would push out those who have said the password.
#[test]
fn of_a_stranger_little_is_kept() {
    let server = Running::with(Options { password: Some("secret".into()), ..options() });
    let mut c = server.client();
    assert_eq!(c.call("AUTH secret"), ok());
    let stranger = server.client().stream;
    send_until_blocked(&stranger, &b"x\r\n".repeat(10_000));
    std::thread::sleep(Duration::from_secs(1)); // CLIENT LIST is up to half a second old
    assert!(kept_bytes(&mut c) < 128 << 10);
}

/// Sends the same until the server takes no more.
fn send_until_blocked(mut stream: &std::net::TcpStream, requests: &[u8]) {
    stream.set_nonblocking(true).unwrap();
    let mut blocked = 0;
    until("the server takes no more", || {
        blocked = if stream.write(requests).is_ok() { 0 } else { blocked + 1 };
        blocked > 200
    });
    stream.set_nonblocking(false).unwrap();
}

/// Also if its client has sent more than the server has taken.
#[test]
fn a_shutdown_answers_who_is_still_sending() {
    let limits = Limits { request_bytes: 64 << 10, ..options().limits };
    let mut server = Running::with(Options { limits, ..options() });
    let mut c = server.client();
    assert_eq!(c.call_args(&[b"SET", b"large", &vec![b'x'; 60 << 10]]), ok());
    send_until_blocked(
        &c.stream,
        &[encode(&[b"INCR", b"n"]), encode(&[b"GET", b"large"])].concat().repeat(1000),
    );
    let table = server.db.byte_table("db0").unwrap();
    let answered = std::thread::scope(|scope| {
        scope.spawn(|| server.stop());
        std::thread::sleep(Duration::from_millis(300)); // it takes its time
        std::iter::from_fn(|| c.try_reply()).filter(|reply| matches!(reply, Int(_))).last()
    });
    let executed = String::from_utf8(table.get(b"n").unwrap().unwrap()).unwrap();
    assert_eq!(answered, Some(Int(executed.parse().unwrap())));
}

/// Also if its client sends something more while replies are still on their way.
#[test]
fn a_shutdown_takes_back_no_reply() {
    let (times, value) = (40, vec![b'x'; 60 << 10]);
    let (grace, replies_bytes_max) = (common::PATIENCE, times * (64 << 10));
    let mut server = Running::with(Options { grace, replies_bytes_max, ..options() });
    let mut c = server.client();
    assert_eq!(c.call_args(&[b"SET", b"large", &value]), ok());
    c.send_raw(&[encode(&[b"INCR", b"n"]), encode(&[b"GET", b"large"])].concat().repeat(times));
    let table = server.db.byte_table("db0").unwrap();
    until("all are executed", || table.get(b"n").unwrap().as_deref() == Some(b"40"));
    std::thread::sleep(Duration::from_millis(100)); // and have left, as far as the system takes them
    let begun = Instant::now();
    let answered = std::thread::scope(|scope| {
        scope.spawn(|| server.stop());
        std::iter::from_fn(|| {
            std::thread::sleep(Duration::from_millis(5));
            let _ = c.stream.write_all(&encode(&[b"PING"]));
            c.try_reply()
        })
        .filter(|reply| matches!(reply, Int(_)))
        .count()
    });
    assert_eq!(answered, times);
    assert!(begun.elapsed() < grace, "who has all replies is not waited for");
}

/// Nor does QUIT. Who never takes them does not stay, whatever it sends.
#[test]
fn who_quits_has_all_replies() {
    let (times, value) = (40, vec![b'x'; 60 << 10]);
    let server = Running::with(Options { replies_bytes_max: times * (64 << 10), ..options() });
    let mut c = server.client();
    assert_eq!(c.call_args(&[b"SET", b"large", &value]), ok());
    let get = encode(&[b"GET", b"large"]);
    c.send_raw(&[get.repeat(times), encode(&[b"QUIT"])].concat());
    std::thread::sleep(Duration::from_millis(100)); // they have left, as far as the system takes them
    let answered = std::iter::from_fn(|| {
        std::thread::sleep(Duration::from_millis(5));
        let _ = c.stream.write_all(&encode(&[b"PING"]));
        c.try_reply()
    });
    assert_eq!(answered.count(), times + 1);

    let server = Running::with(Options { stall_timeout: Duration::from_millis(300), ..options() });
    let (mut c, mut quits) = (server.client(), server.client());
    assert_eq!(c.call_args(&[b"SET", b"large", &vec![b'x'; 16 << 20]]), ok());
    quits.send_raw(&[get, encode(&[b"QUIT"])].concat());
    until("it is gone", || {
        let _ = quits.stream.write(b"PING\r\n");
        c.call("CLIENT LIST").text().lines().count() == 1
    });
}

/// A client asks for much and takes nothing: what is kept for it is bounded, others are served, and it goes.
#[test]
fn a_client_that_takes_nothing_stops_nobody() {
    let (stall, limit) = (Duration::from_millis(700), 100 << 10);
    let limits = Limits { request_bytes: 1 << 20, ..options().limits };
    let server =
        Running::with(Options { stall_timeout: stall, replies_bytes_max: limit, limits, ..options() });
    let mut c = server.client();
    let value = vec![b'x'; 2000];
    assert_eq!(c.call_args(&[b"SET", b"k", &value]), ok());
    let greedy = server.client().stream;
    greedy.set_nonblocking(true).unwrap();
    let requests = encode(&[b"GET", b"k"]).repeat(1000);
    let mut asked = 0;
    until("the server takes no more from a client that takes nothing, and lets it go", || {
        match (&greedy).write(&requests) {
            Ok(bytes) => asked += bytes,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return true,
        }
        assert!(kept_bytes(&mut c) < 4 << 20, "a buffer may have room for as much again");
        false
    });
    assert!(asked > 1 << 20);
    until("it is gone", || c.call("CLIENT LIST").text().lines().count() == 1);
}

/// A client that takes no reply is no better for saying something now and then.
#[test]
fn a_client_that_only_talks_goes() {
    let (stall, limit) = (Duration::from_millis(300), 64 << 10);
    let server = Running::with(Options { stall_timeout: stall, replies_bytes_max: limit, ..options() });
    let mut c = server.client();
    assert_eq!(c.call_args(&[b"SET", b"k", &vec![b'x'; 1 << 20]]), ok());
    c.send_raw(&encode(&[b"GET", b"k"]).repeat(24));
    until("it is gone", || {
        std::thread::sleep(Duration::from_millis(20));
        c.stream.write_all(b"PING\r\n").is_err()
    });
}

/// Requests that take long each, and answer nearly nothing: others have their turns in between.
#[test]
fn a_pipeline_of_long_requests_stops_nobody() {
    let server = Running::with(Options { threads: 1, ..options() });
    let (mut c, mut slow) = (server.client(), server.client());
    let keys: Vec<_> = (0..5000).map(|n| format!("key:{n}")).collect();
    for keys in keys.chunks(1000) {
        let pairs = keys.iter().flat_map(|key| [key.as_bytes(), b"v"]);
        let mset: Vec<_> = std::iter::once(&b"MSET"[..]).chain(pairs).collect();
        assert_eq!(c.call_args(&mset), ok());
    }
    let longest = || {
        slow.send_raw(&encode(&[b"SCAN", b"0", b"MATCH", b"*no such key", b"COUNT", b"10000"]).repeat(256));
        slow.send(&["PING"]);
        let mut longest = Duration::ZERO;
        for _ in 0..20 {
            let begun = Instant::now();
            assert_eq!(c.call("PING"), text("PONG"));
            longest = longest.max(begun.elapsed());
        }
        (0..256).for_each(|_| assert_eq!(slow.reply().list().len(), 2));
        assert_eq!(slow.reply(), text("PONG"));
        longest
    };
    // On a busy machine it may be the processor that is waited for.
    let waited: Vec<_> = std::iter::repeat_with(longest)
        .take(3)
        .take_while(|longest| *longest >= Duration::from_millis(500))
        .collect();
    assert!(waited.len() < 3, "somebody waited for {waited:?}");
}

/// A transaction that takes too long, or answers too much, is undone as a whole, and its client told.
#[test]
fn transactions_are_bounded() {
    let server = Running::new();
    let mut c = server.client();
    let many: Vec<_> = (0..4000).flat_map(|n| [format!("key:{n}").into_bytes(), vec![b'v']]).collect();
    let mset: Vec<_> = std::iter::once(&b"MSET"[..]).chain(many.iter().map(Vec::as_slice)).collect();
    assert_eq!(c.call_args(&mset), ok());
    assert_eq!(c.call_args(&[b"SET", b"large", &vec![b'x'; 4 << 20]]), ok());
    let long: (&[&[u8]], _, _) = (&[b"GETRANGE", b"large", b"0", b"0"], 40_000, "took");
    let wide: (&[&[u8]], _, _) = (&[b"GET", b"large"], 50, "answer");
    for (command, times, why) in [long, wide] {
        let mut is_refused = || {
            assert_eq!((c.call("MULTI"), c.call("SET mark 1")), (ok(), text("QUEUED")));
            c.send_raw(&encode(command).repeat(times));
            (0..times).for_each(|_| assert_eq!(c.reply(), text("QUEUED")));
            let refused = c.call("EXEC");
            assert_eq!(c.call("GET mark"), Null);
            refused.error().contains(why)
        };
        // On a busy machine an answer may take too long before it is too large.
        assert!((0..5).any(|_| is_refused()), "never refused since it {why}…");
    }
}

#[test]
fn half_a_request_is_not_waited_for_for_ever() {
    let server = Running::with(Options { stall_timeout: Duration::from_millis(300), ..options() });
    let (mut quiet, mut half) = (server.client(), server.client());
    assert_eq!(quiet.call("PING"), text("PONG"));
    half.send_raw(b"*2\r\n$3\r\nGET\r\n$1\r\n");
    assert_eq!(half.try_reply(), None);
    assert_eq!(quiet.call("PING"), text("PONG"), "who is between requests may be quiet");
}

#[test]
fn strangers_do_not_stay() {
    let password = Some("secret".into());
    let server = Running::with(Options { stall_timeout: Duration::from_millis(300), password, ..options() });
    let (mut quiet, mut chatty) = (server.client(), server.client());
    assert_eq!(quiet.try_reply(), None);
    let begun = Instant::now();
    while chatty.stream.write_all(b"PING\r\n").is_ok() && chatty.try_reply().is_some() {
        assert!(begun.elapsed() < common::PATIENCE, "a stranger that says anything but the password stays");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A request that came in two pieces is whole all the same, while the client takes its replies at its own pace.
#[test]
fn a_client_that_reads_steadily_stays() {
    let (stall, limit) = (Duration::from_millis(600), 64 << 10);
    let server = Running::with(Options { stall_timeout: stall, replies_bytes_max: limit, ..options() });
    let mut c = server.client();
    assert_eq!(c.call_args(&[b"SET", b"k", &vec![b'x'; 1 << 20]]), ok());
    let requests = encode(&[b"GET", b"k"]).repeat(24);
    c.send_raw(&requests[..10]);
    std::thread::sleep(Duration::from_millis(100));
    c.send_raw(&requests[10..]);
    for _ in 0..24 {
        assert_eq!(c.reply().text().len(), 1 << 20);
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// However slowly: the system tells of room in its buffer only when there is much.
#[test]
fn a_client_that_reads_slowly_stays() {
    let (stall, limit) = (Duration::from_millis(1500), 64 << 10);
    let server = Running::with(Options { stall_timeout: stall, replies_bytes_max: limit, ..options() });
    let (mut c, mut other) = (server.client(), server.client());
    assert_eq!(c.call_args(&[b"SET", b"k", &vec![b'x'; 1 << 20]]), ok());
    c.send_raw(&encode(&[b"GET", b"k"]).repeat(24));
    let begun = Instant::now();
    while begun.elapsed() < 5 * stall / 2 {
        c.stream.read_exact(&mut [0; 16 << 10]).expect("there is more");
        // What is in the system's buffers could be read all the same.
        assert_eq!(other.call("CLIENT LIST").text().lines().count(), 2, "it was sent away");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn the_idle_go_when_that_is_asked_for() {
    let server = Running::with(Options { idle_timeout: Duration::from_millis(500), ..options() });
    assert_eq!(server.client().try_reply(), None);
}

/// Who waits for the reply to a request is not idle, be it a lock that the request waits for, or the device that the reply does.
#[test]
fn who_waits_for_a_reply_is_not_idle() {
    let (idle, waits) = (Duration::from_secs(1), Duration::from_secs(2));
    let disk = MemVfs::new();
    let db = Database::builder().durability(Durability::Sync).open_on(Arc::new(disk.clone())).unwrap();
    let server = Running::over(
        db,
        Options { idle_timeout: idle, lock_timeout: 10 * waits, durability: Durability::Sync, ..options() },
    );
    let (mut holder, mut waiting) = (server.client(), server.client());
    assert_eq!((holder.call("KV.BEGIN"), holder.call("SET k holder")), (ok(), ok()));
    waiting.send(&["SET k waiting"]);
    let begun = Instant::now();
    while begun.elapsed() < waits {
        assert_eq!(holder.call("GET k"), text("holder"));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(holder.call("KV.COMMIT"), ok());
    assert_eq!(waiting.try_reply(), Some(ok()), "it has waited for a lock");
    disk.set_sync_time(waits);
    assert_eq!(waiting.call("SET k slowly"), ok(), "it has waited for the device");
    disk.set_sync_time(Duration::ZERO);
    assert_eq!(waiting.try_reply(), None, "now it is idle");
}

#[test]
fn clients_beyond_the_limit_are_turned_away() {
    let server = Running::with(Options { clients_max: 2, ..options() });
    let (mut a, mut b) = (server.client(), server.client());
    assert_eq!((a.call("PING"), b.call("PING")), (text("PONG"), text("PONG")));
    assert!(server.client().reply().error().contains("max number of clients"));
    drop(a);
    until("there is room again", || {
        let mut c = server.client();
        let _ = c.stream.write_all(b"PING\r\n");
        c.try_reply() == Some(text("PONG"))
    });
}

/// Each client sends something else that breaks off anywhere; the server lives.
#[test]
fn connections_may_break_anywhere() {
    let server = Running::new();
    let script: Vec<u8> = ["MULTI", "SET a 1", "EXEC", "KV.BEGIN", "SET a 2", "WATCH a", "KEYS *", "GET a"]
        .iter()
        .flat_map(|line| encode(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>()))
        .collect();
    for end in (0..script.len()).step_by(3) {
        let mut c = server.client();
        c.send_raw(&script[..end]);
    }
    let mut c = server.client();
    until("all transactions are gone", || c.call("SET a 3") == ok());
    until("all clients are gone", || c.call("CLIENT LIST").text().lines().count() == 1);
}

/// With `Sync` a reply comes when the device has the write: on a disk, with many clients who share its syncs.
#[test]
fn replies_wait_for_the_device_and_share_it() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut server = Running::over(db, Options { durability: Durability::Sync, ..options() });
    let before = server.db.stats();
    let (clients, each) = (16, 25);
    std::thread::scope(|scope| {
        for n in 0..clients {
            let mut c = server.client();
            scope.spawn(move || {
                for m in 0..each {
                    c.send(&[&format!("SET {n}:{m} x"), &format!("GET {n}:{m}"), "GET none"]);
                    assert_eq!((c.reply(), c.reply(), c.reply()), (ok(), text("x"), Null));
                }
            });
        }
    });
    let after = server.db.stats();
    assert!(after.log_durable_lsn > before.log_durable_lsn);
    let syncs = after.log_syncs - before.log_syncs;
    assert!(syncs < clients * each, "{syncs} syncs for {} writes", clients * each);
    server.stop();
    assert_eq!(server.db.byte_table("db0").unwrap().range(..).count() as u64, clients * each);
}

#[test]
fn other_durabilities_serve_too() {
    for durability in [Durability::Buffered, Durability::Relaxed] {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::builder().durability(durability).open(dir.path()).unwrap();
        let server = Running::over(db, Options { durability, ..options() });
        let mut c = server.client();
        c.send(&["SET k v", "INCR n", "MULTI", "GET k", "EXEC"]);
        let replies: Vec<_> = (0..5).map(|_| c.reply()).collect();
        assert_eq!(replies[4], Value::List(vec![text("v")]), "{durability:?}");
    }
}

/// What was executed is answered, what a client held is undone, and the server ends although clients stay.
#[test]
fn a_shutdown_ends_what_was_begun() {
    for by_command in [false, true] {
        let mut server = Running::new();
        let (mut holder, mut idle, mut c) = (server.client(), server.client(), server.client());
        holder.call("KV.BEGIN");
        holder.call("SET held x");
        idle.call("PING");
        assert_eq!(c.call("SET k v"), ok());
        if by_command {
            c.send(&["SET last v", "SHUTDOWN"]);
            assert_eq!(c.reply(), ok());
        }
        server.stop();
        let gone = |c: &mut Client| assert_eq!(c.try_reply(), None, "by command: {by_command}");
        [&mut holder, &mut idle, &mut c].into_iter().for_each(gone);
        let table = server.db.byte_table("db0").unwrap();
        assert!(table.contains(b"k").unwrap() && !table.contains(b"held").unwrap());
        assert_eq!(table.contains(b"last").unwrap(), by_command);
        assert_eq!(server.db.transactions().len(), 0);
    }
}

#[test]
fn metrics_are_there_for_whoever_asks_for_them() {
    let metrics = Some("127.0.0.1:0".parse().unwrap());
    let server = Running::with(Options { metrics, ..options() });
    server.client().call("SET k v");
    let addr = server.server().metrics_addr().unwrap();
    let ask = |request: &str| {
        let mut stream = TcpStream::connect(addr).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let answer = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains(&format!("Content-Length: {}", body.len())));
    assert!(body.contains("\nforeshore_server_commands_total 1\n"), "{body}");
    assert!(body.contains("\nforeshore_tables 1\n"), "{body}");
    assert!(body.contains("\nforeshore_table_leaf_bytes{table=\"db0\"} 8192\n"), "{body}");
    assert!(body.contains("\nforeshore_commits_total "), "{body}");
    assert!(body.contains("\nforeshore_undone_at_open 0\n"), "{body}");
    assert!(body.contains("\n# TYPE foreshore_waits_seconds_total counter\n"), "{body}");
    for line in body.lines() {
        let words: Vec<_> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "HELP", ..] => {}
            ["#", "TYPE", name, kind] => assert_eq!(name.ends_with("_total"), kind == "counter", "{line}"),
            _ => {
                let value = line.rsplit(' ').next().unwrap();
                assert!(line.starts_with("foreshore_") && value.parse::<f64>().is_ok(), "{line}");
            }
        }
    }
    assert!(ask("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(ask("garbage\r\n\r\n").starts_with("HTTP/1.1 404"));
    let longer = format!("GET /metrics HTTP/1.1\r\n\r\n{}", "x".repeat(64 << 10));
    assert!(ask(&longer).starts_with("HTTP/1.1 200 OK"), "also who sends more than is read");
}

/// Who connects and says nothing, or asks by halves, keeps nobody from the metrics, however many do.
#[test]
fn silent_scrapers_stop_nobody() {
    let metrics = Some("127.0.0.1:0".parse().unwrap());
    let server = Running::with(Options { metrics, ..options() });
    let addr = server.server().metrics_addr().unwrap();
    let mut hostile = Vec::new();
    for n in 0..100 {
        let silent = TcpStream::connect(addr).unwrap();
        if n % 2 == 0 {
            // It may have gone for a newcomer by then.
            let _ = (&silent).write_all(b"GET /metrics HTTP/1.1\r\n");
        }
        hostile.push(silent);
    }
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(common::PATIENCE)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("\nforeshore_tables 1\n"), "{answer}");
}

/// A large value over a slow line comes as steadily as it can; who only pretends to go on does not stay.
#[test]
fn a_slow_upload_is_no_stall() {
    let stall = Duration::from_millis(800);
    let server = Running::with(Options { stall_timeout: stall, ..options() });
    let value = vec![b'x'; 2 << 20];
    let (mut steady, mut trickling) = (server.client(), server.client());
    for piece in encode(&[b"SET", b"k", &value]).chunks(128 << 10) {
        steady.send_raw(piece);
        std::thread::sleep(Duration::from_millis(150));
    }
    assert_eq!(steady.reply(), ok());
    trickling.send_raw(b"*2\r\n$3\r\nGET\r\n$100000\r\n");
    let begun = Instant::now();
    until("a byte now and then is not enough", || {
        std::thread::sleep(Duration::from_millis(20));
        (&trickling.stream).write(b"x").is_err()
    });
    assert!(begun.elapsed() < 10 * stall, "{:?}", begun.elapsed());
}

/// Chores that nobody waits for any more are not begun.
#[test]
fn a_shutdown_waits_for_no_queue() {
    let mut server = Running::with(Options { grace: Duration::from_millis(100), ..options() });
    let mut c = server.client();
    for n in 0..100 {
        let key = [b"a".repeat(1000), n.to_string().into_bytes()].concat();
        assert_eq!(c.call_args(&[b"SET", &key, b"v"]), ok());
    }
    let pattern = [b"*".to_vec(), b"a".repeat(500), b"b".to_vec()].concat(); // compared at each place of a key
    let slow: [&[u8]; 2] = [b"KEYS", &pattern];
    let mut waiting: Vec<_> = (0..100).map(|_| server.client()).collect();
    let begun = Instant::now();
    assert_eq!(waiting[0].call_args(&slow), Value::List(vec![]));
    let one = begun.elapsed();
    waiting.iter_mut().for_each(|client| client.send_raw(&encode(&slow)));
    until("they are queued", || c.call("CLIENT LIST").text().matches("cmd=keys").count() > 50);
    let begun = Instant::now();
    server.stop();
    assert!(begun.elapsed() < 10 * one + Duration::from_secs(1), "{:?}, one takes {one:?}", begun.elapsed());
}

/// Nor is a walk through a large table finished.
#[test]
fn a_shutdown_waits_for_no_walk() {
    let mut server = Running::new();
    let mut c = server.client();
    fill(&server, 5000);
    let pattern = [b"*".to_vec(), b"a".repeat(500), b"b".to_vec()].concat(); // compared at each place of a key
    let mut walker = server.client();
    walker.send_raw(&encode(&[b"KEYS", &pattern]));
    until("it is at it", || c.call("CLIENT LIST").text().contains("cmd=keys"));
    let begun = Instant::now();
    server.stop();
    assert!(begun.elapsed() < options().grace, "{:?}", begun.elapsed());
    assert!(walker.reply().error().contains("being shut down"));
}

/// Nor one whose client was sent away, or cannot be reached any more. There are two threads for long chores.
#[test]
fn a_walk_ends_with_its_client() {
    let server = Running::new();
    let mut c = server.client();
    fill(&server, 10_000);
    let pattern = [b"*[", &b"b".repeat(4000)[..], b"]"].concat();
    let walk = [encode(&[b"PING"]), encode(&[b"KEYS", &pattern])].concat();
    for is_killed in [true, false] {
        let walkers = [server.client(), server.client()];
        for walker in &walkers {
            (&walker.stream).write_all(&walk).unwrap();
            walker.stream.peek(&mut [0]).unwrap();
        }
        until("they are at it", || c.call("CLIENT LIST").text().matches("cmd=keys").count() == 2);
        if is_killed {
            assert_eq!(c.call("CLIENT KILL TYPE normal"), Int(2));
        } else {
            drop(walkers); // a reply that is not taken breaks the connection
        }
        assert_eq!(c.call("BGSAVE"), text("Checkpoint done"));
    }
}

/// Rows whose keys take long to compare with some patterns.
fn fill(server: &Running, rows: usize) {
    let keys: Vec<_> = (0..rows).map(|n| format!("{}{n}", "a".repeat(1000)).into_bytes()).collect();
    let rows: Vec<_> = keys.iter().map(|key| (&key[..], &b"v"[..])).collect();
    server.db.byte_table("db0").unwrap().put_many(&rows).unwrap();
}

/// Each of many clients is within its own limits, and all together are not: the largest go, and who asks for little stays.
#[test]
fn clients_that_hoard_memory_are_sent_away() {
    let limit = 8 << 20;
    let server = Running::with(Options { client_memory: limit, threads: 1, ..options() });
    let mut c = server.client();
    assert_eq!(c.call_args(&[b"SET", b"large", &vec![b'x'; 100 << 10]]), ok());
    let unfinished = [&b"*2\r\n$3\r\nGET\r\n$1000000\r\n"[..], &[b'x'; 500 << 10]].concat();
    let queued = [encode(&[b"MULTI"]), encode(&[b"SET", b"k", &[b'x'; 500 << 10]])].concat();
    let untaken = encode(&[b"GET", b"large"]).repeat(100);
    for hoard in [&unfinished, &queued, &untaken] {
        let before = evicted(&mut c);
        let mut hoarders = Vec::new();
        until("some are sent away", || {
            let hoarder = server.client();
            // It may be gone before it has said all.
            let _ = (&hoarder.stream).write_all(hoard);
            hoarders.push(hoarder);
            assert!(kept_bytes(&mut c) <= limit + (2 << 20), "a turn more than the limit at most");
            assert_eq!(c.call("STRLEN large"), common::Int(100 << 10));
            evicted(&mut c) >= before + 3
        });
    }
    until("it is over", || c.call("CLIENT LIST").text().lines().count() == 1);
}

/// What the clients of one event loop leave, one of another may have. If all together have too much, the largest of that loop
/// goes which has more than its share, also while it rests.
#[test]
fn a_client_may_have_what_others_leave() {
    let limits = Options { client_memory: 24 << 20, queue_bytes_max: 20 << 20, threads: 2, ..options() };
    let server = Running::with(limits);
    // Clients take the loops by turns.
    let (mut c, mut largest) = (server.client(), server.client());
    queue_mib(&mut largest, 18);
    assert_eq!(evicted(&mut c), 0, "it has more than half, and may");
    let mut others = Vec::new();
    while evicted(&mut c) == 0 {
        assert!(others.len() < 8, "those beside it have less than half");
        others.push((server.client(), server.client()));
        queue_mib(&mut others.last_mut().unwrap().0, 1);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!((largest.try_reply(), evicted(&mut c)), (None, 1));
}

/// Has so many MiB queued for the client, who does not ask for their execution.
fn queue_mib(client: &mut Client, mib: usize) {
    assert_eq!(client.call("MULTI"), ok());
    for _ in 0..mib {
        assert_eq!(client.call_args(&[b"SET", b"k", &vec![b'x'; 1 << 20]]), text("QUEUED"));
    }
}

fn evicted(c: &mut Client) -> u64 {
    let info = c.call("INFO stats");
    let line =
        info.text().lines().find_map(|line| line.strip_prefix("evicted_clients:")).expect("it is told");
    line.parse().expect("a number")
}

/// Memory of all clients, as they are told of.
fn kept_bytes(c: &mut Client) -> usize {
    let told = c.call("CLIENT LIST");
    let fields = told.text().split_whitespace().filter_map(|field| field.strip_prefix("tot-mem="));
    fields.map(|bytes| bytes.parse::<usize>().expect("a number")).sum()
}

/// One client may have its share alone, however little that leaves to others.
#[test]
fn a_large_request_fits_into_what_clients_may_have() {
    let server = Running::with(Options { client_memory: Options::client_memory_for(2), ..options() });
    let mut c = server.client();
    let value = vec![b'x'; 64 << 20];
    assert_eq!(c.call_args(&[b"SET", b"large", &value]), ok());
    c.send(&["GET large"]);
    let mut reply = vec![0; "$67108864\r\n".len() + value.len() + 2]; // the tests' reader of replies would be at it for long
    c.stream.read_exact(&mut reply).unwrap();
    assert!(reply.starts_with(b"$67108864\r\nxxx") && reply.ends_with(b"xxx\r\n"));
    assert_eq!(evicted(&mut c), 0);
}
