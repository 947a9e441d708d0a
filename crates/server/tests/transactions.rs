//! MULTI, EXEC and WATCH; KV.BEGIN; what becomes of commands that meet the locks of others.

mod common;

use common::{Client, Int, List, Null, Running, Value, list, ok, options, text, until};
use foreshore_server::Options;
use std::time::{Duration, Instant};

#[test]
fn exec_answers_for_all() {
    let server = Running::new();
    let mut c = server.client();
    assert_eq!(c.call("MULTI"), ok());
    assert_eq!(c.call("MULTI").error(), "ERR MULTI calls can not be nested");
    for line in ["SET a 1", "INCR a", "SET word x", "INCR word", "GET a", "KV.RANGE - + KEYS"] {
        assert_eq!(c.call(line), text("QUEUED"), "{line}");
    }
    assert_eq!(server.client().call("GET a"), Null, "nothing has happened yet");
    let replies = c.call("EXEC");
    assert!(replies.list()[3].error().contains("not an integer"), "one command's own error is its reply");
    assert_eq!(replies.list()[4..], [text("2"), list(["a", "word"])]);
    assert_eq!(c.call("GET a"), text("2"));
    assert_eq!(c.call("EXEC").error(), "ERR EXEC without MULTI");
}

#[test]
fn discard_and_refused_commands_undo_all() {
    let server = Running::new();
    let mut c = server.client();
    c.call("MULTI");
    c.call("SET a 1");
    assert_eq!(c.call("DISCARD"), ok());
    assert_eq!(c.call("DISCARD").error(), "ERR DISCARD without MULTI");
    for refused in ["NOPE", "GET", "KEYS *", "SCAN 0", "RANDOMKEY", "INFO", "FLUSHDB", "KV.BEGIN"] {
        c.call("MULTI");
        c.call("SET a 1");
        c.call(refused).error();
        assert!(c.call("EXEC").error().starts_with("EXECABORT"), "{refused}");
    }
    assert_eq!(c.call("EXISTS a"), Int(0));
}

/// EXEC opens all tables that it needs, however short a lock may be waited for; why one cannot be made is not told of others.
#[test]
fn exec_opens_the_tables_that_it_needs() {
    let server = Running::with(Options { lock_timeout: Duration::ZERO, ..options() });
    let mut c = server.client();
    let queued =
        ["KV.USE t LEAFBYTES 5000", "SELECT 1", "SET k 1", "SELECT 2", "SET k 2", "SELECT 3", "SET k 3"];
    c.send(&[&["MULTI"], &queued[..], &["EXEC"]].concat());
    (0..=queued.len()).for_each(|_| _ = c.reply());
    let replies = c.reply();
    let (first, others) = replies.list().split_first().expect("one for each");
    assert!(first.error().contains("32768"), "{first:?}");
    assert_eq!(others, vec![ok(); 6]);
    for n in ["1", "2", "3"] {
        assert_eq!((c.call(&format!("SELECT {n}")), c.call("GET k")), (ok(), text(n)));
    }
}

/// What EXEC could not take back it does not do: it may have to begin again, or do nothing.
#[test]
fn what_cannot_be_taken_back_is_not_queued() {
    let server = Running::with(Options { lock_timeout: Duration::from_millis(50), ..options() });
    let (mut holder, mut c, mut other) = (server.client(), server.client(), server.client());
    let Int(id) = other.call("CLIENT ID") else { panic!("an id is a number") };
    assert_eq!(c.call("CONFIG SET slowlog-log-slower-than 0"), ok());
    assert_eq!((holder.call("KV.BEGIN"), holder.call("SET k held")), (ok(), ok()));
    for line in ["CONFIG SET timeout 77", &format!("client kill ID {id}"), "SLOWLOG RESET"] {
        c.send(&["MULTI", line, "SET k v", "EXEC"]);
        let replies: Vec<_> = (0..4).map(|_| c.reply()).collect();
        assert_eq!(c.call("CONFIG GET timeout"), list(["timeout", "0"]), "{line}: {replies:?}");
        assert_eq!(other.call("PING"), text("PONG"), "{line}: {replies:?}");
        assert!(matches!(c.call("SLOWLOG LEN"), Int(5..)), "{line}: {replies:?}");
        assert!(replies[1].error().contains("not possible after MULTI"), "{line}: {replies:?}");
        assert!(replies[3].error().starts_with("EXECABORT"), "{line}: {replies:?}");
    }
    c.send(&["MULTI", "CONFIG GET timeout", "SLOWLOG LEN", "CLIENT ID", "EXEC"]);
    assert_eq!((0..5).map(|_| c.reply()).last().expect("five").list().len(), 3, "what only asks is queued");
}

/// Whoever is told that EXEC did nothing is called what it was.
#[test]
fn an_exec_that_does_nothing_leaves_names() {
    let server = Running::with(Options { lock_timeout: Duration::from_millis(50), ..options() });
    let (mut holder, mut c) = (server.client(), server.client());
    assert_eq!((holder.call("KV.BEGIN"), holder.call("SET k held")), (ok(), ok()));
    assert_eq!((c.call("CLIENT SETNAME before"), c.call("CLIENT SETINFO LIB-NAME old")), (ok(), ok()));
    let renaming =
        ["CLIENT SETNAME a", "CLIENT SETINFO LIB-NAME new", "CLIENT SETINFO LIB-VER 2", "HELLO 3 SETNAME b"];
    c.send(&[&["MULTI"], &renaming[..], &["SET k v", "EXEC"]].concat());
    (0..6).for_each(|_| _ = c.reply());
    assert!(c.reply().error().starts_with("TRYAGAIN"));
    let info = c.call("CLIENT INFO");
    assert!(
        info.text().contains(" name=before ") && info.text().contains(" lib-name=old lib-ver= "),
        "{info:?}"
    );
    assert_eq!(holder.call("KV.ROLLBACK"), ok());
    c.send(&["MULTI", "CLIENT SETNAME a", "SET k v", "EXEC"]);
    assert_eq!((0..4).map(|_| c.reply()).last(), Some(List(vec![ok(), ok()])));
    assert_eq!(c.call("CLIENT GETNAME"), text("a"));
}

#[test]
fn a_queue_is_bounded() {
    let server = Running::with(Options { queue_bytes_max: 1000, ..options() });
    let mut c = server.client();
    c.call("MULTI");
    assert_eq!(c.call_args(&[b"SET", b"a", &[b'x'; 500]]), text("QUEUED"));
    assert!(c.call_args(&[b"SET", b"b", &[b'x'; 500]]).error().contains("use smaller transactions"));
    assert!(c.call("EXEC").error().starts_with("EXECABORT"));
}

#[test]
fn watch_prevents_lost_updates() {
    let server = Running::new();
    let (mut c, mut other) = (server.client(), server.client());
    other.call("SET k 1");
    let attempt = |c: &mut Client, between: &mut dyn FnMut(&mut Client)| {
        c.call("WATCH k none");
        between(c);
        c.call("MULTI");
        c.call("SET k mine");
        c.call("EXEC")
    };
    assert_eq!(attempt(&mut c, &mut |_| {}), List(vec![ok()]));
    assert_eq!(attempt(&mut c, &mut |_| _ = other.call("SET k theirs")), Null);
    assert_eq!(c.call("GET k"), text("theirs"));
    assert_eq!(attempt(&mut c, &mut |_| _ = other.call("SET none new")), Null, "a key that was not there");
    assert_eq!(attempt(&mut c, &mut |_| _ = other.call("DEL k")), Null);
    assert_eq!(attempt(&mut c, &mut |c| _ = c.call("SET k own")), Null, "its own write counts too");
    assert_eq!(attempt(&mut c, &mut |c| _ = c.call("SET else own")), List(vec![ok()]));
    assert_eq!(attempt(&mut c, &mut |_| _ = other.call("FLUSHDB")), Null);
    let unwatched = attempt(&mut c, &mut |c| {
        other.call("SET k theirs");
        c.call("UNWATCH");
    });
    assert_eq!(unwatched, List(vec![ok()]));
    c.call("MULTI");
    assert!(c.call("WATCH k").error().contains("not allowed"));
}

/// A key that was missing, and is missing, is what it was, though FLUSHDB has made another table for it.
#[test]
fn watch_of_a_missing_key_outlives_flushdb() {
    let server = Running::new();
    let (mut c, mut other) = (server.client(), server.client());
    for flush in ["FLUSHDB", "FLUSHALL"] {
        other.call("SET k v");
        assert_eq!((c.call("WATCH none"), other.call(flush)), (ok(), ok()));
        c.send(&["MULTI", "SET none mine", "EXEC"]);
        assert_eq!((0..3).map(|_| c.reply()).last(), Some(List(vec![ok()])), "{flush}");
        assert_eq!((c.call("WATCH none"), other.call(flush)), (ok(), ok()));
        c.send(&["MULTI", "SET none mine", "EXEC"]);
        assert_eq!((0..3).map(|_| c.reply()).last(), Some(Null), "{flush}: it was there");
        assert_eq!((c.call("WATCH gone"), other.call(flush), other.call("SET gone 1")), (ok(), ok(), ok()));
        c.send(&["MULTI", "SET gone mine", "EXEC"]);
        assert_eq!((0..3).map(|_| c.reply()).last(), Some(Null), "{flush}: it is there");
    }
}

/// An UNWATCH of the transaction's own comes too late, also if others' locks make EXEC begin again after it.
#[test]
fn unwatch_within_exec_changes_nothing() {
    let server = Running::with(Options { lock_timeout: Duration::from_secs(20), ..options() });
    let (mut holder, mut c, mut other) = (server.client(), server.client(), server.client());
    assert_eq!((holder.call("KV.BEGIN"), holder.call("SET locked 1")), (ok(), ok()));
    c.send(&["WATCH k", "MULTI", "UNWATCH", "SET locked 2", "SET k mine", "EXEC"]);
    (0..5).for_each(|_| _ = c.reply());
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!((other.call("SET k theirs"), holder.call("KV.COMMIT")), (ok(), ok()));
    assert_eq!((c.reply(), c.call("MGET k locked")), (Null, list(["theirs", "1"])));
}

/// What the client itself does to a key that it watches counts only if it may have changed it.
#[test]
fn watch_is_not_broken_by_what_writes_nothing() {
    let server = Running::new();
    let mut c = server.client();
    assert_eq!(c.call("SET k text"), ok());
    for (own, is_kept) in [
        ("GETEX k", true),
        ("PERSIST k", true),
        ("EXPIRE k 5", true),
        ("INCR k", true),
        ("SET k v NX XX", true),
        ("SETNX k v", true),
        ("SET k v NX", true),
        ("SET none v XX", true),
        ("MSETNX k v none v", true),
        ("RENAMENX other k", true),
        ("COPY other k", true),
        ("DEL none gone", true),
        ("DEL none other gone", true),
        ("UNLINK none other", true),
        ("KV.DELRANGE [o +", true),
        ("KV.POP [o +", true),
        ("KV.POP - +", false),
        ("RENAME k k", true),
        ("RENAME other moved", true),
        ("COPY other k DB 1 REPLACE", true),
        ("COPY k none DB 1 REPLACE", true),
        ("GETDEL none", true),
        ("SETRANGE k 9 ", true),
        ("DEL none k", false),
        ("COPY other none", false),
        ("MSET other 1 none 1", false),
        ("SET k text", false),
    ] {
        c.call("MSET k text other x");
        c.call("WATCH k none");
        c.call(own);
        assert_eq!((c.call("MULTI"), c.call("GET k")), (ok(), text("QUEUED")));
        assert_eq!(c.call("EXEC"), if is_kept { list(["text"]) } else { Null }, "{own}");
    }
}

/// Others who remove what is not there change nothing.
#[test]
fn watch_of_a_missing_key_outlives_its_removal_by_others() {
    let server = Running::new();
    let (mut c, mut other) = (server.client(), server.client());
    for removal in ["DEL none", "DEL none there gone", "UNLINK there none", "GETDEL none", "KV.DELRANGE - +"]
    {
        other.call("SET there 1");
        c.call("WATCH none");
        other.call(removal);
        c.send(&["MULTI", "SET k 1", "EXEC"]);
        assert_eq!((0..3).map(|_| c.reply()).last(), Some(List(vec![ok()])), "{removal}");
    }
}

/// A key that is watched again is watched once.
#[test]
fn so_many_keys_can_be_watched() {
    let server = Running::new();
    let mut c = server.client();
    let keys: Vec<_> = (0..1024).map(|n| n.to_string()).collect();
    let all = format!("WATCH {}", keys.join(" "));
    assert_eq!((c.call(&all), c.call(&all), c.call("WATCH 7")), (ok(), ok(), ok()));
    assert!(c.call("WATCH 7 more").error().contains("1024"));
    assert_eq!(c.call("SELECT 1"), ok());
    assert!(c.call("WATCH 7").error().contains("1024"), "that of another table is another key");
}

/// The client has seen the value in between, so its EXEC must not happen, although the value is back.
#[test]
fn watch_sees_what_was_read_in_between() {
    let server = Running::new();
    let (mut c, mut other) = (server.client(), server.client());
    for read in [
        "GET k",
        "MGET k x",
        "STRLEN k",
        "EXISTS k",
        "GETSET k first",
        "SET k x NX GET",
        "COPY k copy REPLACE",
    ] {
        other.call("SET k first");
        c.call("WATCH k");
        other.call("SET k second");
        c.call(read);
        other.call("SET k first");
        c.call("MULTI");
        c.call("SET k third");
        assert_eq!(c.call("EXEC"), Null, "{read}");
    }
    for met in ["SETNX none mine", "SET none mine NX", "MSETNX none mine else mine", "COPY k none"] {
        c.call("WATCH none");
        other.call("SET none theirs");
        c.call(met);
        other.call("DEL none");
        c.send(&["MULTI", "SET none mine", "EXEC"]);
        assert_eq!((0..3).map(|_| c.reply()).last(), Some(Null), "{met}: it was there");
    }
}

/// Read, compute, write, by WATCH: no increment is lost, however many do it.
#[test]
fn watched_increments_all_count() {
    let server = Running::new();
    let (clients, each) = (4, 50);
    std::thread::scope(|scope| {
        for _ in 0..clients {
            let mut c = server.client();
            scope.spawn(move || {
                let mut done = 0;
                while done < each {
                    c.call("WATCH n");
                    let n: i64 = match c.call("GET n") {
                        Null => 0,
                        other => other.text().parse().expect("a number"),
                    };
                    c.call("MULTI");
                    c.call(&format!("SET n {}", n + 1));
                    done += i32::from(c.call("EXEC") != Null);
                }
            });
        }
    });
    assert_eq!(server.client().call("GET n"), text(&(clients * each).to_string()));
}

/// Transfers by EXEC and by KV.BEGIN: the sum is always the same, for whoever looks at one point in time.
#[test]
fn sums_stay_whatever_runs_at_once() {
    let server = Running::new();
    server.client().call("MSET a 1000 b 1000");
    std::thread::scope(|scope| {
        let transfers: Vec<_> = [("a", "b"), ("b", "a"), ("a", "b")]
            .map(|(from, to)| {
                let mut c = server.client();
                scope.spawn(move || {
                    for _ in 0..100 {
                        c.send(&["MULTI", &format!("DECR {from}"), &format!("INCR {to}"), "EXEC"]);
                        let replies: Vec<_> = (0..4).map(|_| c.reply()).collect();
                        assert!(matches!(replies[3].list(), [Int(_), Int(_)]), "{replies:?}");
                    }
                })
            })
            .into();
        let mut interactive = server.client();
        scope.spawn(move || {
            for _ in 0..20 {
                interactive.call("KV.BEGIN");
                let lines = ["DECR a", "INCR b"];
                let went_well = lines.iter().all(|line| matches!(interactive.call(line), Int(_)));
                let _ = interactive.call(if went_well { "KV.COMMIT" } else { "KV.ROLLBACK" });
            }
        });
        let mut reader = server.client();
        while !transfers.iter().all(|transfer| transfer.is_finished()) {
            let seen = reader.call("MGET a b");
            let sum: i64 = seen.list().iter().map(|value| value.text().parse::<i64>().unwrap()).sum();
            assert_eq!(sum, 2000, "{seen:?}");
        }
    });
}

#[test]
fn increments_of_many_all_count() {
    let server = Running::new();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            let mut c = server.client();
            scope.spawn(move || {
                for _ in 0..10 {
                    c.send(&["INCR n"; 30]);
                    (0..30).for_each(|_| assert!(matches!(c.reply(), Int(_))));
                }
            });
        }
    });
    assert_eq!(server.client().call("GET n"), text("1800"));
}

#[test]
fn a_held_transaction_is_seen_when_it_commits() {
    let server = Running::new();
    let (mut c, mut other) = (server.client(), server.client());
    assert_eq!(c.call("KV.BEGIN"), ok());
    assert_eq!(c.call("SET a 1"), ok());
    assert_eq!(c.call("INCR a"), Int(2));
    assert_eq!(c.call("GET a"), text("2"));
    assert_eq!(other.call("GET a"), Null);
    assert!(c.call("MULTI").error().contains("KV.BEGIN"));
    assert!(c.call("KV.BEGIN").error().contains("within a transaction"));
    assert!(c.call("INCR b c").error().contains("wrong number"), "an error is no end");
    assert_eq!(c.call("KV.COMMIT"), ok());
    assert_eq!(other.call("GET a"), text("2"));
    c.call("KV.BEGIN");
    c.call("DEL a");
    assert_eq!(c.call("KV.ROLLBACK"), ok());
    assert_eq!(other.call("GET a"), text("2"));
    c.call("KV.BEGIN");
    c.call("SET a 3");
    drop(c);
    until("a client that leaves takes its transaction along", || other.call("SET a 4") == ok());
}

/// Whoever meets the lock of a held transaction waits, or gives up; all others are served meanwhile, by every loop.
#[test]
fn a_held_lock_stops_nobody_else() {
    let server = Running::with(Options { lock_timeout: Duration::from_secs(20), ..options() });
    let mut holder = server.client();
    holder.call("KV.BEGIN");
    holder.call("SET k held");
    let mut blocked: Vec<_> = (0..8).map(|_| server.client()).collect();
    for (n, c) in blocked.iter_mut().enumerate() {
        c.send(&[["SET k late", "INCR k", "DEL k", "MSET k 1 l 2"][n % 4], "PING"]);
    }
    let begun = Instant::now();
    for _ in 0..8 {
        let mut c = server.client();
        for n in 0..50 {
            assert_eq!(c.call(&format!("SET free{n} x")), ok());
        }
        assert_eq!(c.call("GET k"), Null, "readers do not wait");
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "nobody waited for the lock");
    holder.call("SET k 5");
    assert_eq!(holder.call("KV.COMMIT"), ok());
    for c in &mut blocked {
        let reply = c.reply();
        assert!(
            matches!(&reply, Int(_) | Value::Text(_)) || reply.error().contains("not an integer"),
            "{reply:?}"
        );
        assert_eq!(c.reply(), text("PONG"), "requests stay in order");
    }
}

#[test]
fn a_lock_that_stays_is_given_up() {
    let server = Running::with(Options { lock_timeout: Duration::from_millis(50), ..options() });
    let (mut holder, mut c) = (server.client(), server.client());
    holder.call("KV.BEGIN");
    holder.call("SET k held");
    for line in ["SET k mine", "INCR k", "KV.DELRANGE - +"] {
        assert!(c.call(line).error().starts_with("TRYAGAIN"), "{line}");
    }
    c.call("MULTI");
    c.call("SET k mine");
    assert!(c.call("EXEC").error().starts_with("TRYAGAIN"));
    assert_eq!(c.call("MULTI"), ok(), "that EXEC is over");
    c.call("DISCARD");
    assert_eq!(holder.call("KV.COMMIT"), ok());
    assert_eq!(c.call("SET k mine"), ok());
}

/// The reply tells how long its client has waited, not how long the last attempt did.
#[test]
fn how_long_a_lock_was_waited_for_is_told() {
    let timeout = Duration::from_millis(1100); // so that it is told in seconds
    let server = Running::with(Options { lock_timeout: timeout, ..options() });
    let (mut holder, mut c) = (server.client(), server.client());
    assert_eq!((holder.call("KV.BEGIN"), holder.call("SET k held")), (ok(), ok()));
    for lines in [&["SET k mine"][..], &["MULTI", "INCR k", "EXEC"]] {
        let begun = Instant::now();
        c.send(lines);
        let last = lines.iter().map(|_| c.reply()).last().expect("at least one");
        let (_, told) = last.error().split_once(" waited ").expect("TRYAGAIN tells it");
        let (seconds, _) = told.split_once("s for a lock").expect("what for, too");
        let told = Duration::from_secs_f64(seconds.parse().expect("seconds"));
        assert!((timeout..begun.elapsed()).contains(&told), "{last:?}");
    }
}

/// Who sends more while its command is put off does not have it tried more often.
#[test]
fn a_command_that_is_put_off_is_tried_at_its_time() {
    let server = Running::with(Options { lock_timeout: Duration::from_secs(60), ..options() });
    let (mut holder, mut waiting) = (server.client(), server.client());
    assert_eq!((holder.call("KV.BEGIN"), holder.call("SET k 1")), (ok(), ok()));
    waiting.stream.set_nodelay(true).unwrap();
    let begun = Instant::now();
    waiting.send(&["SET k 2"]);
    for _ in 0..300 {
        waiting.send_raw(b"\r\n"); // an empty line is no request
        std::thread::sleep(Duration::from_micros(200));
    }
    let info = server.client().call("INFO stats");
    let attempts = info.text().lines().find_map(|line| line.strip_prefix("put_off_total:"));
    let attempts: u128 = attempts.expect("it is told").parse().expect("a number");
    // After 1, 2, 4, 8, 16 ms, then every 20.
    let most = 6 + begun.elapsed().as_millis() / 20;
    assert!(attempts <= most, "{attempts} attempts, not {most}");
    assert_eq!((holder.call("KV.COMMIT"), waiting.reply()), (ok(), ok()));
}

/// Two held transactions that wait for each other: one at least is told, and can roll back.
#[test]
fn held_transactions_in_a_circle_get_out() {
    let server = Running::with(Options { lock_timeout: Duration::from_millis(100), ..options() });
    let (mut one, mut two) = (server.client(), server.client());
    one.call("KV.BEGIN");
    two.call("KV.BEGIN");
    one.call("SET a 1");
    two.call("SET b 2");
    one.send(&["SET b 1"]);
    let reply = two.call("SET a 2");
    assert!(reply.error().starts_with("TRYAGAIN"), "{reply:?}");
    assert_eq!(two.call("KV.ROLLBACK"), ok());
    let first = one.reply();
    assert!(first == ok() || first.error().starts_with("TRYAGAIN"), "{first:?}");
    assert_eq!(one.call("SET b 1"), ok());
    assert_eq!(one.call("KV.COMMIT"), ok());
    assert_eq!(two.call("MGET a b"), list(["1", "1"]));
}

/// Two who write what they have read, and read it for that, come one after the other: none has to roll back.
#[test]
fn who_reads_for_update_waits_before_it_reads() {
    let server = Running::with(Options { lock_timeout: Duration::from_secs(60), ..options() });
    let (mut one, mut two, mut other) = (server.client(), server.client(), server.client());
    for (key, before) in [("there", text("0")), ("absent", Null)] {
        other.call("SET there 0");
        let (read, write) = (format!("KV.GET {key} UPDATE"), format!("SET {key} 1"));
        assert_eq!((one.call("KV.BEGIN"), one.call(&read)), (ok(), before.clone()));
        two.send(&["KV.BEGIN", &read]);
        assert_eq!(two.reply(), ok());
        assert_eq!(other.call(&format!("GET {key}")), before, "who only reads does not wait");
        assert_eq!((one.call(&write), one.call("KV.COMMIT")), (ok(), ok()));
        assert_eq!(two.reply(), text("1"));
        assert_eq!((two.call(&write), two.call("KV.COMMIT")), (ok(), ok()));
    }
    one.send(&["MULTI", "KV.GET there UPDATE", "SET there 2", "EXEC"]);
    assert_eq!((0..4).map(|_| one.reply()).last(), Some(List(vec![text("0"), ok()])));
}

/// Who has quit may be slow to take its replies: it holds nothing meanwhile. Nor does who has sent what is no request.
#[test]
fn who_executes_nothing_more_holds_nothing() {
    let patient = Options { replies_bytes_max: 32 << 20, transaction_timeout: Duration::ZERO, ..options() };
    let server = Running::with(patient);
    let mut c = server.client();
    assert_eq!(c.call_args(&[b"SET", b"large", &vec![b'x'; 16 << 20]]), ok());
    for end in ["QUIT\r\n", "*x\r\n"] {
        let mut holder = server.client();
        assert_eq!((holder.call("KV.BEGIN"), holder.call("SET k v")), (ok(), ok()));
        holder.send_raw(format!("GET large\r\n{end}").as_bytes());
        until("what it held is given up", || server.db.transactions().is_empty());
        let is_alone = c.call("CLIENT LIST").text().lines().count() == 1;
        assert_eq!((c.call("GET k"), is_alone), (Null, false), "{end}: before it has its replies");
    }
}

#[test]
fn an_idle_transaction_is_rolled_back() {
    let server = Running::with(Options { transaction_timeout: Duration::from_secs(1), ..options() });
    let (mut c, mut other) = (server.client(), server.client());
    c.call("KV.BEGIN");
    c.call("SET k forgotten");
    // A pool that asks whether its connection still works has not remembered what it was for.
    until("the lock is free again", || (c.call("PING"), other.call("SET k other")).1 == ok());
    assert!(c.call("SET k late").error().starts_with("ABORTED"));
    assert!(c.call("KV.COMMIT").error().contains("KV.BEGIN begins one"), "the client was told once");
    assert_eq!(c.call("GET k"), text("other"));
}

/// A command counts once, however often it is tried, be it for a lock or for a table.
#[test]
fn what_is_tried_again_counts_once() {
    let server = Running::with(Options { lock_timeout: Duration::from_secs(60), ..options() });
    let (mut holder, mut waiting, mut c) = (server.client(), server.client(), server.client());
    assert_eq!((holder.call("KV.BEGIN"), holder.call("SET k 1")), (ok(), ok()));
    waiting.send(&["SET k 2"]);
    let mut asked = 0;
    let mut counted = |name: &str| {
        asked += 1;
        let info = c.call("INFO stats");
        let line = info.text().lines().find_map(|line| line.strip_prefix(name)).expect("it is told");
        (line.parse::<u64>().expect("a number"), asked)
    };
    until("it is put off", || counted("put_off_total:").0 > 3);
    assert_eq!((holder.call("KV.COMMIT"), waiting.reply(), waiting.call("SELECT 1")), (ok(), ok(), ok()));
    let (commands, asked) = counted("total_commands_processed:");
    assert_eq!(commands, 5 + asked);
}

/// Its client may say nothing for hours: it keeps neither one of the places of open transactions, nor others from waiting for
/// locks in place.
#[test]
fn an_idle_transaction_gives_its_place_back() {
    let server = Running::with(Options { transaction_timeout: Duration::from_secs(1), ..options() });
    let (mut c, mut other) = (server.client(), server.client());
    let mut open = || {
        let info = other.call("INFO clients");
        let line = info.text().lines().find_map(|line| line.strip_prefix("open_transactions:"));
        line.expect("it is told").parse::<u32>().expect("a number")
    };
    assert_eq!((c.call("KV.BEGIN"), c.call("SET k forgotten")), (ok(), ok()));
    until("the place is free again", || open() == 0);
    assert!(c.call("SET k late").error().starts_with("ABORTED"), "the client is told all the same");
    assert_eq!((open(), c.call("KV.BEGIN"), open()), (0, ok(), 1));
    assert_eq!((c.call("KV.ROLLBACK"), open()), (ok(), 0));
}

#[test]
fn a_transaction_may_be_idle_for_ever_if_that_is_asked_for() {
    let server = Running::with(Options { transaction_timeout: Duration::ZERO, ..options() });
    let mut c = server.client();
    assert_eq!((c.call("KV.BEGIN"), c.call("SET k v")), (ok(), ok()));
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!((c.call("GET k"), c.call("KV.COMMIT")), (text("v"), ok()));
}

/// Phantoms: a held transaction has read a range, so nobody adds to it before it ends.
#[test]
fn a_held_transaction_is_serializable() {
    let server = Running::with(Options { lock_timeout: Duration::from_millis(50), ..options() });
    let (mut c, mut other) = (server.client(), server.client());
    c.call("SET b 1");
    c.call("KV.BEGIN");
    assert_eq!(c.call("KV.RANGE - + KEYS"), list(["b"]));
    assert!(other.call("SET a 1").error().starts_with("TRYAGAIN"));
    assert_eq!(c.call("KV.RANGE - + KEYS"), list(["b"]));
    c.call("KV.COMMIT");
    assert_eq!(other.call("SET a 1"), ok());
}

/// A row that a transaction has taken comes back if that is rolled back; until then nobody else gets it, nor the one behind it.
#[test]
fn what_a_transaction_pops_is_its_own() {
    let server = Running::with(Options { lock_timeout: Duration::from_millis(50), ..options() });
    let (mut c, mut other) = (server.client(), server.client());
    c.call("MSET job:1 a job:2 b job:3 c");
    assert_eq!((c.call("KV.BEGIN"), c.call("KV.POP [job: +")), (ok(), list(["job:1", "a"])));
    assert!(other.call("KV.POP - +").error().starts_with("TRYAGAIN"));
    assert_eq!(other.call("KV.POP - + REV"), list(["job:3", "c"]));
    assert_eq!((c.call("KV.POP [job: +"), c.call("KV.POP [job: +")), (list(["job:2", "b"]), List(vec![])));
    assert_eq!((c.call("KV.ROLLBACK"), c.call("MULTI")), (ok(), ok()));
    assert_eq!((c.call("KV.POP - +"), c.call("SET done:1 a")), (text("QUEUED"), text("QUEUED")));
    assert_eq!(c.call("EXEC"), List(vec![list(["job:1", "a"]), ok()]));
    assert_eq!(other.call("KEYS *"), list(["done:1", "job:2"]));
}

/// FLUSHDB waits for the transactions that use the table, and lets nobody else in meanwhile: others come again.
#[test]
fn a_table_about_to_be_emptied_is_waited_for() {
    let server = Running::new();
    let (mut holder, mut flusher, mut other) = (server.client(), server.client(), server.client());
    assert_eq!((holder.call("KV.BEGIN"), holder.call("SET held 1")), (ok(), ok()));
    flusher.send(&["FLUSHDB"]);
    until("it is turned away, and told to come again", || match other.call("INCR n") {
        Int(_) => false,
        reply => reply.error().starts_with("TRYAGAIN"),
    });
    other.send(&["INCR n", "MSET a 1 b 2", "MULTI", "SET c 3", "EXEC"]);
    assert_eq!(holder.call("KV.COMMIT"), ok());
    assert_eq!(flusher.reply(), ok());
    assert_eq!((other.reply(), other.reply()), (Int(1), ok()));
    assert_eq!((other.reply(), other.reply(), other.reply()), (ok(), text("QUEUED"), List(vec![ok()])));
    assert_eq!(other.call("KEYS *"), list(["a", "b", "c", "n"]));
}

#[test]
fn a_table_emptied_by_others_is_found_again() {
    let server = Running::new();
    let (mut c, mut other) = (server.client(), server.client());
    c.call("SET k 1");
    other.call("FLUSHDB");
    assert_eq!(c.call("GET k"), Null);
    other.call("FLUSHDB");
    c.call("MULTI");
    c.call("INCR k");
    other.call("FLUSHDB");
    assert_eq!(c.call("EXEC"), List(vec![Int(1)]));
    c.call("KV.BEGIN");
    c.call("SET k 2");
    assert_eq!(c.call("KV.COMMIT"), ok());
    assert_eq!(other.call("GET k"), text("2"));
}
