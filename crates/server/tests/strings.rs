//! What users of Redis' strings expect: parts of values, fractions, rows under other keys, the time, all databases at once.
//! The replies are those of Redis 7.0, where the text does not say otherwise.

mod common;

use common::{Int, List, Null, Running, Value, list, ok, options, text};
use foreshore_server::{Limits, Options};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";

#[test]
fn parts_of_values() {
    let server = Running::new();
    let mut c = server.client();
    c.call("SET k hello-world");
    for (range, expected) in [
        ("0 4", "hello"),
        ("-5 -1", "world"),
        ("6 99", "world"),
        ("-99 0", "h"),
        ("4 2", ""),
        ("-1 -2", ""),
        ("99 100", ""),
    ] {
        assert_eq!(c.call(&format!("GETRANGE k {range}")), text(expected), "{range}");
        assert_eq!(c.call(&format!("SUBSTR k {range}")), text(expected), "{range}");
    }
    assert_eq!(c.call("GETRANGE none 0 -1"), text(""));
    assert_eq!(c.call("GETRANGE none 0 x").error(), NOT_AN_INTEGER);
    assert_eq!(c.call("SETRANGE k 6 there"), Int(11));
    assert_eq!(c.call("GET k"), text("hello-there"));
    assert_eq!(c.call("SETRANGE k 9 you-all"), Int(16));
    assert_eq!(c.call("GET k"), text("hello-theyou-all"));
    assert_eq!(c.call("SETRANGE new 2 x"), Int(3));
    assert_eq!(c.call("GET new"), text("\0\0x"));
    assert_eq!(c.call("SETRANGE none 5 "), Int(0));
    assert_eq!(c.call("SETRANGE k 99 "), Int(16));
    assert_eq!(c.call("EXISTS none"), Int(0), "nothing at the end of nothing");
    assert_eq!(c.call("SETRANGE k -1 x").error(), "ERR offset is out of range");
    assert_eq!(c.call("SETRANGE k one x").error(), NOT_AN_INTEGER);
}

/// A value does not become larger than a table takes, however large a request may be; no memory is asked for in vain.
#[test]
fn values_do_not_outgrow_tables() {
    let limits = Limits { request_bytes: usize::MAX, arguments: 20 };
    let server = Running::with(Options { limits, ..options() });
    let mut c = server.client();
    for line in ["SETRANGE k 268435456 x".to_owned(), format!("SETRANGE k {} x", 1_u64 << 45)] {
        let too_large = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
        assert_eq!(c.call(&line).error(), too_large, "{line}");
    }
}

/// A value does not become larger than one request could have made it.
#[test]
fn values_do_not_outgrow_requests() {
    let server =
        Running::with(Options { limits: Limits { request_bytes: 5000, arguments: 20 }, ..options() });
    let mut c = server.client();
    let too_large = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    assert_eq!(c.call("SETRANGE k 4999 x"), Int(5000));
    for line in
        ["SETRANGE k 5000 x", "APPEND k x", &format!("SETRANGE k {} x", i64::MAX), "SETRANGE none 5000 x"]
    {
        assert_eq!(c.call(line).error(), too_large, "{line}");
    }
    assert_eq!(c.call("STRLEN k"), Int(5000));
    assert_eq!(c.call("EXISTS none"), Int(0));
}

/// Unlike Redis, sums of decimals are exact.
#[test]
fn fractions() {
    let server = Running::new();
    let mut c = server.client();
    for n in 1..10 {
        assert_eq!(c.call("INCRBYFLOAT n 0.1"), text(&format!("0.{n}")));
    }
    assert_eq!(c.call("INCRBYFLOAT n 0.1"), text("1"));
    assert_eq!(c.call("INCRBYFLOAT n -2e2"), text("-199"));
    assert_eq!(c.call("GET n"), text("-199"));
    c.call(&format!("SET n {}", i64::MAX));
    assert_eq!(c.call("INCRBYFLOAT n 1.5"), text("9223372036854775808.5"));
    let not_a_number = "ERR value is not a valid float";
    for wrong in ["x", "", "nan", "inf", "0x10", "1e22"] {
        assert_eq!(c.call(&format!("INCRBYFLOAT n {wrong}")).error(), not_a_number, "{wrong:?}");
    }
    c.call("SET word one");
    assert_eq!(c.call("INCRBYFLOAT word 1").error(), not_a_number);
    c.call("SET n 1e21");
    assert_eq!(c.call("INCRBYFLOAT n 1e21").error(), "ERR increment would overflow");
    assert_eq!(c.call("GET n"), text("1e21"), "a refused one changes nothing");
}

#[test]
fn other_keys() {
    let server = Running::new();
    let mut c = server.client();
    c.call("MSET a 1 b 2");
    assert_eq!(c.call("RENAME a c"), ok());
    assert_eq!(c.call("MGET a b c"), List(vec![Null, text("2"), text("1")]));
    assert_eq!(c.call("RENAME c b"), ok());
    assert_eq!(c.call("RENAME b b"), ok());
    assert_eq!(c.call("MGET b c"), List(vec![text("1"), Null]));
    c.call("SET c 3");
    assert_eq!(c.call("RENAMENX b c"), Int(0));
    assert_eq!(c.call("RENAMENX b b"), Int(0));
    assert_eq!(c.call("RENAMENX b a"), Int(1));
    assert_eq!(c.call("MGET a b c"), List(vec![text("1"), Null, text("3")]));
    for line in ["RENAME none x", "RENAMENX none x", "RENAME none none"] {
        assert_eq!(c.call(line).error(), "ERR no such key", "{line}");
    }
    let long = vec![b'x'; 1025];
    assert!(c.call_args(&[b"RENAME", b"a", &long]).error().contains("1025 bytes"));
    assert_eq!(c.call("GET a"), text("1"), "a refused one changes nothing");
}

#[test]
fn copies() {
    let server = Running::new();
    let mut c = server.client();
    c.call("SET a 1");
    assert_eq!(c.call("COPY a b"), Int(1));
    c.call("SET a 2");
    assert_eq!(c.call("COPY a b"), Int(0));
    assert_eq!(c.call("GET b"), text("1"));
    assert_eq!(c.call("COPY a b REPLACE"), Int(1));
    assert_eq!(c.call("GET b"), text("2"));
    assert_eq!(c.call("COPY none b"), Int(0));
    assert_eq!(c.call("COPY a a").error(), "ERR source and destination objects are the same");
    assert_eq!(c.call("COPY a a DB 3"), Int(1));
    assert_eq!(c.call("COPY a a REPLACE DB 3"), Int(1));
    assert!(c.call("COPY a b DB 16").error().starts_with("ERR DB index is out of range"));
    for wrong in ["COPY a b DB", "COPY a b WHAT"] {
        assert_eq!(c.call(wrong).error(), "ERR syntax error", "{wrong}");
    }
    c.call("SELECT 3");
    assert_eq!(c.call("GET a"), text("2"));
}

/// All of it within EXEC, and undone with it.
#[test]
fn within_transactions() {
    let server = Running::new();
    let mut c = server.client();
    c.call("SET a abc");
    c.call("KV.BEGIN");
    assert_eq!(c.call("SETRANGE a 1 XY"), Int(3));
    assert_eq!(c.call("COPY a b"), Int(1));
    assert_eq!(c.call("COPY a a DB 5"), Int(1));
    assert_eq!(c.call("RENAME a c"), ok());
    assert_eq!(c.call("INCRBYFLOAT f 0.5"), text("0.5"));
    assert_eq!(c.call("GETRANGE c 1 2"), text("XY"));
    assert_eq!(c.call("TOUCH a b c"), Int(2));
    assert_eq!(c.call("KV.ROLLBACK"), ok());
    assert_eq!(c.call("MGET a b c f"), List(vec![text("abc"), Null, Null, Null]));
    c.send(&["MULTI", "RENAME none x", "RENAME a b", "SELECT 5", "EXISTS a", "EXEC"]);
    let replies: Vec<_> = (0..6).map(|_| c.reply()).collect();
    let parts = replies[5].list();
    assert_eq!(parts[0].error(), "ERR no such key");
    assert_eq!(parts[1..], [ok(), ok(), Int(0)]);
}

/// COPY only reads its first key, RENAME changes both.
#[test]
fn what_is_watched_and_copied_or_renamed() {
    let server = Running::new();
    let mut c = server.client();
    for (watched, own, is_kept) in [
        ("a", "COPY a b", true),
        ("b", "COPY a b REPLACE", false),
        ("a", "RENAME a b", false),
        ("b", "RENAME a b", false),
    ] {
        c.call("MSET a 1 b 1");
        c.call(&format!("WATCH {watched}"));
        c.call(own);
        c.call("MULTI");
        assert_eq!(c.call("EXEC") != Null, is_kept, "{own}, {watched} watched");
    }
}

/// Two that move rows in opposite directions do not stop each other for good, and lose nothing.
#[test]
fn renames_in_a_circle() {
    let server = Running::new();
    server.client().call("MSET a 1 b 2");
    std::thread::scope(|scope| {
        for (from, to) in [("a", "b"), ("b", "a")] {
            let mut c = server.client();
            scope.spawn(move || {
                for _ in 0..100 {
                    let reply = c.call(&format!("RENAME {from} {to}"));
                    assert!(reply == ok() || reply.error() == "ERR no such key", "{reply:?}");
                    c.call(&format!("COPY {to} {from}"));
                }
            });
        }
    });
    let left = server.client().call("EXISTS a b");
    assert!(matches!(left, Int(1 | 2)), "{left:?}");
}

#[test]
fn rows_never_expire() {
    let server = Running::new();
    let mut c = server.client();
    c.call("SET k v");
    for line in ["TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"] {
        assert_eq!(
            (c.call(&format!("{line} k")), c.call(&format!("{line} none"))),
            (Int(-1), Int(-2)),
            "{line}"
        );
    }
    assert_eq!(c.call("PERSIST k"), Int(0));
    assert_eq!(c.call("TOUCH k none k"), Int(2));
    assert_eq!(c.call("GETEX k PERSIST"), text("v"));
    assert_eq!(c.call("SET k w KEEPTTL"), ok());
    assert_eq!(c.call("GET k"), text("w"));
    assert_eq!(c.call("GETEX k WHAT").error(), "ERR syntax error");
}

#[test]
fn the_time() {
    let server = Running::new();
    let mut c = server.client();
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let before = now();
    let reply = c.call("TIME");
    let parts: Vec<u64> = reply.list().iter().map(|part| part.text().parse().unwrap()).collect();
    let told = Duration::from_secs(parts[0]) + Duration::from_micros(parts[1]);
    assert!(before - Duration::from_micros(1) <= told && told <= now(), "{told:?}");
    let Value::Int(started) = c.call("LASTSAVE") else { panic!("no time") };
    assert!(started.unsigned_abs().abs_diff(before.as_secs()) < 60);
    std::thread::sleep(Duration::from_millis(1100));
    c.call("BGSAVE");
    assert!(matches!(c.call("LASTSAVE"), Int(saved) if saved > started));
}

#[test]
fn some_key() {
    let server = Running::new();
    let mut c = server.client();
    assert_eq!(c.call("RANDOMKEY"), Null);
    c.call("SET k v");
    assert_eq!(c.call("RANDOMKEY"), text("k"));
    server.client().call("FLUSHDB");
    assert_eq!(c.call("RANDOMKEY"), Null, "also of a table that others have emptied");
    assert!(c.call("RANDOMKEY k").error().contains("wrong number of arguments"));
}

/// FLUSHALL empties what SELECT reaches, and leaves tables with names of their own alone.
#[test]
fn all_databases() {
    let server = Running::new();
    let mut c = server.client();
    for table in ["SELECT 0", "SELECT 7", "KV.USE mine"] {
        assert_eq!((c.call(table), c.call("SET k v")), (ok(), ok()));
    }
    assert_eq!(c.call("FLUSHALL"), ok());
    assert_eq!(c.call("GET k"), text("v"));
    for database in ["SELECT 0", "SELECT 7"] {
        assert_eq!((c.call(database), c.call("GET k")), (ok(), Null), "{database}");
    }
    assert_eq!((c.call("FLUSHALL ASYNC"), c.call("FLUSHDB sync")), (ok(), ok()));
    assert_eq!(c.call("KV.TABLES"), list(["db0", "db7", "mine"]));
}

/// What is misspelt does not do the most it can.
#[test]
fn dangerous_commands_know_their_words() {
    let server = Running::new();
    let mut c = server.client();
    c.call("SET k v");
    for line in [
        "FLUSHDB 3",
        "FLUSHDB ASYNC SYNC",
        "FLUSHALL db1",
        "BGSAVE NOW",
        "SHUTDOWN NOSAVE SAVE",
        "SHUTDOWN NOSAVE PLEASE",
        "CLIENT KILL SKIPME maybe",
        "SCAN 0 COUNT 0",
    ] {
        assert_eq!(c.call(line).error(), "ERR syntax error", "{line}");
    }
    assert_eq!(c.call("CLIENT KILL ID 0").error(), "ERR client-id should be greater than 0");
    assert!(c.call("SLOWLOG GET -2").error().contains("-1"));
    assert_eq!(c.call("GET k"), text("v"));
}

/// Several parameters at a time are set all or none.
#[test]
fn parameters_are_set_together() {
    let server = Running::new();
    let mut c = server.client();
    assert_eq!(c.call("CONFIG SET timeout 7 slowlog-max-len 9"), ok());
    assert!(c.call("CONFIG SET timeout 8 port 1").error().contains("when the server is started"));
    assert!(c.call("CONFIG SET timeout 8 slowlog-max-len").error().contains("syntax error"));
    assert!(c.call("CONFIG SET timeout 8 slowlog-max-len 1025").error().contains("between 0 and 1024"));
    assert_eq!(c.call("CONFIG GET timeout slowlog-max-len"), list(["slowlog-max-len", "9", "timeout", "7"]));
    assert_eq!(c.call("CONFIG SET slowlog-max-len 1024"), ok());
}
