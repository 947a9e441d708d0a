//! Every command over a socket: what it answers, and what it refuses.

mod common;

use common::{Int, List, Null, Running, Value, list, ok, options, text};
use foreshore::Database;
use foreshore_io::MemVfs;
use foreshore_server::Options;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[test]
fn values() {
    let server = Running::new();
    let mut c = server.client();
    assert_eq!(c.call("GET k"), Null);
    assert_eq!(c.call("SET k one"), ok());
    assert_eq!(c.call("get k"), text("one"));
    assert_eq!(c.call("STRLEN k"), Int(3));
    assert_eq!(c.call("STRLEN none"), Int(0));
    assert_eq!(c.call("SETNX k two"), Int(0));
    assert_eq!(c.call("SETNX new two"), Int(1));
    assert_eq!(c.call("SET k two NX"), Null);
    assert_eq!(c.call("SET k two XX"), ok());
    assert_eq!(c.call("SET absent two XX"), Null);
    assert_eq!(c.call("SET k three GET"), text("two"));
    assert_eq!(c.call("SET k four nx get"), text("three"));
    assert_eq!(c.call("GET k"), text("three"));
    assert_eq!(c.call("SET fresh x NX GET"), Null);
    assert_eq!(c.call("GET fresh"), text("x"));
    assert_eq!(c.call("GETSET k five"), text("three"));
    assert_eq!(c.call("GETSET other 1"), Null);
    assert_eq!(c.call("APPEND k -and-more"), Int(13));
    assert_eq!(c.call("APPEND begun x"), Int(1));
    assert_eq!(c.call("GETEX k"), text("five-and-more"));
    assert_eq!(c.call("GETDEL k"), text("five-and-more"));
    assert_eq!(c.call("GETDEL k"), Null);
    assert_eq!(c.call_args(&[b"SET", b"\0\r\n", b"any \xFF bytes"]), ok());
    assert_eq!(c.call_args(&[b"STRLEN", b"\0\r\n"]), Int(11));
    assert_eq!(c.call("SET k v NX XX").error(), "ERR syntax error");
    assert_eq!(c.call("SET k v WHAT").error(), "ERR syntax error");
}

/// It is GET, unless its client goes on within a transaction.
#[test]
fn kv_get_answers_as_get() {
    let server = Running::new();
    let mut c = server.client();
    let too_long = "k".repeat(1025);
    assert_eq!(c.call("SET k v"), ok());
    for within in [false, true] {
        if within {
            assert_eq!(c.call("KV.BEGIN"), ok());
        }
        for (key, expected) in [("k", text("v")), ("none", Null), (&too_long, Null)] {
            for line in [format!("KV.GET {key}"), format!("kv.get {key} update"), format!("GET {key}")] {
                assert_eq!(c.call(&line), expected, "within: {within}");
            }
        }
        assert_eq!(c.call("KV.GET k FOREVER").error(), "ERR syntax error");
    }
    assert_eq!(c.call("COMMAND GETKEYS KV.GET k UPDATE"), list(["k"]));
}

#[test]
fn numbers() {
    let server = Running::new();
    let mut c = server.client();
    assert_eq!(c.call("INCR n"), Int(1));
    assert_eq!(c.call("INCRBY n 41"), Int(42));
    assert_eq!(c.call("DECR n"), Int(41));
    assert_eq!(c.call("DECRBY n 50"), Int(-9));
    assert_eq!(c.call("GET n"), text("-9"));
    c.call("SET word ten");
    assert!(c.call("INCR word").error().starts_with("ERR value is not an integer"));
    assert!(c.call("INCRBY n ten").error().starts_with("ERR value is not an integer"));
    c.call(&format!("SET n {}", i64::MAX));
    assert!(c.call("INCR n").error().contains("overflow"));
    assert!(c.call(&format!("DECRBY n {}", i64::MIN)).error().contains("overflow"));
    assert_eq!(c.call("GET n"), text(&i64::MAX.to_string()));
}

#[test]
fn many_at_once() {
    let server = Running::new();
    let mut c = server.client();
    assert_eq!(c.call("MSET a 1 b 2 a 3"), ok());
    assert_eq!(c.call("MGET a none b"), List(vec![text("3"), Null, text("2")]));
    assert_eq!(c.call("MSETNX c 1 b 9"), Int(0));
    assert_eq!(c.call("EXISTS a b c a"), Int(3));
    assert_eq!(c.call("MSETNX c 1 d 9"), Int(1));
    assert_eq!(c.call("EXISTS c"), Int(1));
    assert_eq!(c.call("DEL a b none"), Int(2));
    assert_eq!(c.call("UNLINK c"), Int(1));
    assert_eq!(c.call("DEL c"), Int(0));
    assert!(c.call("MSET a 1 b").error().contains("wrong number of arguments for 'mset'"));
}

/// Values that no leaf holds: whole, appended to, in transactions, in ranges, gone.
#[test]
fn large_values() {
    let server = Running::new();
    let mut c = server.client();
    let letter = |i: u32| char::from(b'a' + (i.wrapping_mul(2_654_435_761) >> 24) as u8 % 26);
    let large: String = (0..1 << 20).map(letter).collect();
    let bytes = large.as_bytes();
    assert_eq!(c.call_args(&[b"SET", b"k", bytes]), ok());
    assert_eq!(c.call("GET k"), text(&large));
    assert_eq!(c.call("STRLEN k"), Int(1 << 20));
    assert_eq!(c.call_args(&[b"APPEND", b"k", bytes]), Int(2 << 20));
    assert_eq!(c.call("GET k"), text(&large.repeat(2)));
    assert_eq!(c.call("SET k x XX GET"), text(&large.repeat(2)));
    assert_eq!(c.call("GET k"), text("x"));
    c.call("MULTI");
    c.call_args(&[b"MSET", b"a", bytes, b"b", bytes]);
    c.call("DEL a");
    assert_eq!(c.call("EXEC"), List(vec![ok(), Int(1)]));
    assert_eq!(c.call("MGET a b"), List(vec![Null, text(&large)]));
    assert_eq!(c.call("GETDEL b"), text(&large));
    assert_eq!(c.call("EXISTS a b k"), Int(1));
}

/// No row has a key that is too long: who removes it finds what a reader finds, and other keys go all the same.
#[test]
fn keys_that_are_too_long_are_absent() {
    let server = Running::new();
    let mut c = server.client();
    let long = vec![b'x'; 1025];
    for transaction in [None, Some(("KV.BEGIN", "KV.COMMIT"))] {
        if let Some((begin, _)) = transaction {
            assert_eq!(c.call(begin), ok());
        }
        assert_eq!(c.call_args(&[b"EXISTS", &long]), Int(0));
        assert_eq!(c.call_args(&[b"GETDEL", &long]), Null);
        c.call("MSET a 1 b 2");
        for removal in [b"DEL".as_slice(), b"UNLINK"] {
            assert_eq!(c.call_args(&[removal, &long]), Int(0));
        }
        assert_eq!(c.call_args(&[b"DEL", b"a", &long, b"b"]), Int(2));
        assert_eq!(c.call("EXISTS a b"), Int(0));
        if let Some((_, commit)) = transaction {
            assert_eq!(c.call(commit), ok());
        }
    }
}

/// A key that is too long fails the whole MSET.
#[test]
fn mset_is_all_or_nothing() {
    let server = Running::new();
    let mut c = server.client();
    let long = vec![b'x'; 1025];
    let reply = c.call_args(&[b"MSET", b"a", b"1", &long, b"2"]);
    assert!(reply.error().starts_with("ERR the key has 1025 bytes"), "{reply:?}");
    assert_eq!(c.call("EXISTS a"), Int(0));
    c.call("MULTI");
    c.call_args(&[b"MSET", b"a", b"1", &long, b"2"]);
    c.call("SET c 1");
    let replies = c.call("EXEC");
    assert!(matches!(replies.list(), [Value::Error(_), Value::Text(_)]), "{replies:?}");
    assert_eq!(c.call("MGET a c"), List(vec![Null, text("1")]), "undone within the transaction too");
}

#[test]
fn keys() {
    let server = Running::new();
    let mut c = server.client();
    for n in 0..25 {
        c.call(&format!("SET user:{n:02} x"));
    }
    c.call("SET zebra x");
    assert_eq!(c.call("DBSIZE"), Int(26));
    assert_eq!(c.call("TYPE zebra"), text("string"));
    assert_eq!(c.call("TYPE none"), text("none"));
    assert_eq!(c.call("TTL zebra"), Int(-1));
    assert_eq!(c.call("PTTL none"), Int(-2));
    assert_eq!(c.call("PERSIST zebra"), Int(0));
    assert_eq!(c.call("KEYS *:0[1-3]"), list(["user:01", "user:02", "user:03"]));
    assert_eq!(c.call("KEYS *").list().len(), 26);
    assert_eq!(c.call("FLUSHDB"), ok());
    assert_eq!(c.call("DBSIZE"), Int(0));
    assert_eq!(c.call("GET zebra"), Null);
    assert_eq!(c.call("SET zebra again"), ok());
}

#[test]
fn scans_find_every_key_once() {
    let server = Running::new();
    let mut c = server.client();
    for n in 0..95 {
        c.call(&format!("SET user:{n:02} x"));
    }
    c.call("SET zebra x");
    for (query, expected) in
        [("COUNT 10", 96), ("MATCH user:* COUNT 7", 95), ("MATCH *5", 9), ("TYPE hash", 0)]
    {
        let (mut cursor, mut found, mut calls) = ("0".to_owned(), Vec::new(), 0);
        loop {
            let reply = c.call(&format!("SCAN {cursor} {query}"));
            let [Value::Text(next), Value::List(keys)] = reply.list() else { panic!("{reply:?}") };
            found.extend(keys.iter().map(|key| key.text().to_owned()));
            calls += 1;
            if next == "0" {
                break;
            }
            cursor.clone_from(next);
        }
        assert!(calls < 20, "{query}");
        assert!(found.is_sorted_by(|a, b| a < b), "{query}: {found:?}");
        assert_eq!(found.len(), expected, "{query}");
    }
    assert_eq!(c.call("SCAN 12345").error(), "ERR the cursor is no longer known; begin again with 0");
    assert_eq!(c.call("SCAN x").error(), "ERR invalid cursor");
}

#[test]
fn patterns_are_bounded() {
    let server = Running::new();
    let mut c = server.client();
    let (longest, longer) = ([b'?'; 4096], [b'?'; 4097]);
    assert_eq!(c.call_args(&[b"KEYS", &longest]), List(vec![]));
    assert!(c.call_args(&[b"KEYS", &longer]).error().contains("4096"));
    assert!(c.call_args(&[b"SCAN", b"0", b"MATCH", &longer]).error().contains("4096"));
}

#[test]
fn rows_are_popped_from_either_end() {
    let server = Running::new();
    let mut c = server.client();
    assert_eq!(c.call("KV.POP - +"), List(vec![]));
    c.call("MSET mail/1 ada mail/2 ben mail/3 cleo print/1 page");
    assert_eq!(c.call("KV.POP [print/ (print0"), list(["print/1", "page"]));
    assert_eq!(c.call("KV.POP [print/ (print0 REV"), List(vec![]));
    assert_eq!(c.call("KV.POP (mail/1 +"), list(["mail/2", "ben"]));
    assert_eq!(c.call("KV.POP - + rev"), list(["mail/3", "cleo"]));
    for wrong in ["KV.POP - + LIMIT 1", "KV.POP - + KEYS", "KV.POP - + REV REV"] {
        assert_eq!(c.call(wrong).error(), "ERR syntax error", "{wrong}");
    }
    assert_eq!(c.call("KV.POP - +"), list(["mail/1", "ada"]));
    assert_eq!(c.call("DBSIZE"), Int(0));
}

#[test]
fn ranges_and_tables() {
    let server = Running::new();
    let mut c = server.client();
    assert_eq!(c.call("KV.USE flights"), ok());
    c.call("MSET a 1 b 2 c 3 d 4");
    assert_eq!(c.call("KV.RANGE - +"), list(["a", "1", "b", "2", "c", "3", "d", "4"]));
    assert_eq!(c.call("KV.RANGE [b (d"), list(["b", "2", "c", "3"]));
    assert_eq!(c.call("KV.RANGE (a + LIMIT 1"), list(["b", "2"]));
    assert_eq!(c.call("KV.RANGE - + REV LIMIT 2 KEYS"), list(["d", "c"]));
    assert_eq!(c.call("KV.RANGE (d (a"), List(vec![]));
    assert!(c.call("KV.RANGE a b").error().contains("[key with the key"));
    for wrong in ["KV.RANGE + -", "KV.RANGE + - REV", "KV.RANGE [b -", "KV.DELRANGE + [b", "KV.POP [b -"] {
        assert!(c.call(wrong).error().contains("from the smaller key to the larger"), "{wrong}");
    }
    assert!(c.call("KV.RANGE - + LIMIT 0").error().contains("from 1 to 10000"));
    assert_eq!(c.call("KV.DELRANGE [b [c"), Int(2));
    assert_eq!(c.call("KV.DELRANGE - + LIMIT 1"), Int(1));
    assert_eq!(c.call("KV.RANGE - +"), list(["d", "4"]));
    assert_eq!(c.call("KV.TABLES"), list(["db0", "flights"]));
    assert_eq!(c.call("SELECT 0"), ok());
    assert_eq!(c.call("GET d"), Null);
    assert_eq!(c.call("SELECT 15"), ok());
    assert!(c.call("SELECT 16").error().starts_with("ERR DB index is out of range"));
    assert!(c.call_args(&[b"KV.USE", b"a b"]).error().contains("KV.USE takes names"));
    assert!(c.call("KV.USE foreshore.schemas").error().contains("foreshore load"));
    assert_eq!(server.db.tables().unwrap(), ["db0", "db15", "flights"], "none is made that is refused");
    assert_eq!(server.db.byte_table("flights").unwrap().get(b"d").unwrap().as_deref(), Some(&b"4"[..]));
}

/// A table is made as KV.USE says, remembers it, also when FLUSHDB has emptied it; another one stays what it is.
#[test]
fn kinds_of_tables() {
    let server = Running::new();
    let mut c = server.client();
    let kind = |name: &str| {
        let table = server.db.byte_table(name).unwrap();
        (table.index().to_string(), table.leaf_bytes())
    };
    assert_eq!(c.call("KV.USE wide INDEX csb LEAFBYTES 16384"), ok());
    c.call("SET k v");
    assert_eq!(kind("wide"), ("csb".into(), 16384));
    assert_eq!(c.call("KV.USE o2 index O2"), ok());
    assert_eq!(kind("o2"), ("o2".into(), 8192));
    assert_eq!(c.call("KV.USE wide LEAFBYTES 16384"), ok());
    let mut other = server.client();
    other.call("KV.USE wide");
    assert_eq!(c.call("FLUSHDB"), ok());
    assert_eq!(other.call("GET k"), Null);
    assert_eq!(kind("wide"), ("csb".into(), 16384));

    let refused = c.call("KV.USE db0 INDEX o2");
    assert!(refused.error().contains("with INDEX bplus LEAFBYTES 8192"), "{refused:?}");
    assert_eq!(c.call("GET k"), Null);
    c.call("SET k still-wide");
    assert_eq!(other.call("GET k"), text("still-wide"), "a refused KV.USE changes nothing");
    assert!(c.call("KV.USE t INDEX trie").error().contains("bplus, csb or o2"));
    assert!(c.call("KV.USE t LEAFBYTES 5000").error().contains("32768"));
    for wrong in ["KV.USE t INDEX", "KV.USE t INDEX csb LEAFBYTES", "KV.USE t WHAT csb"] {
        assert_eq!(c.call(wrong).error(), "ERR syntax error", "{wrong}");
    }
    assert_eq!(c.call("KV.TABLES"), list(["db0", "o2", "wide"]));
}

#[test]
fn the_connection() {
    let server = Running::new();
    let mut c = server.client();
    assert_eq!(c.call("PING"), text("PONG"));
    assert_eq!(c.call("PING hello"), text("hello"));
    assert_eq!(c.call("ECHO hello"), text("hello"));
    assert_eq!(c.call("CLIENT GETNAME"), Null);
    assert_eq!(c.call("CLIENT SETNAME tester"), ok());
    assert_eq!(c.call("CLIENT GETNAME"), text("tester"));
    assert_eq!(c.call("CLIENT SETINFO LIB-NAME mine"), ok());
    let Value::Int(id) = c.call("CLIENT ID") else { panic!("no id") };
    assert!(c.call("CLIENT LIST").text().contains(&format!("id={id} ")));
    for (line, clients) in [
        (format!("CLIENT LIST ID {id} {id} 999999"), 1),
        ("CLIENT LIST ID 999999".into(), 0),
        ("CLIENT LIST TYPE normal".into(), c.call("CLIENT LIST").text().lines().count()),
        ("CLIENT LIST TYPE pubsub".into(), 0),
    ] {
        assert_eq!(c.call(&line).text().lines().count(), clients, "{line}");
    }
    for wrong in ["CLIENT LIST ID", "CLIENT LIST ID x", "CLIENT LIST TYPE odd", "CLIENT NO-EVICT maybe"] {
        c.call(wrong).error();
    }
    assert_eq!((c.call("CLIENT NO-EVICT on"), c.call("CLIENT NO-TOUCH OFF")), (ok(), ok()));
    let told = c.call("CLIENT INFO");
    assert!(told.text().contains("name=tester"));
    // Numbers that redis-py, before version 7, and valkey-py expect.
    for name in ["sub", "psub", "multi", "qbuf", "qbuf-free", "argv-mem", "obl", "oll", "omem", "tot-mem"] {
        let field =
            told.text().split_whitespace().find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        assert!(field.is_some_and(|value| value.parse::<i64>().is_ok()), "{name} in {told:?}");
    }
    assert_eq!((c.call("KV.USE mine"), c.call("MULTI")), (ok(), ok()));
    let told = server.client().call("CLIENT LIST");
    assert!(told.text().contains("db=0"), "others see what it told last: {told:?}");
    c.call("CLIENT INFO");
    let told = c.call("EXEC");
    assert!(told.list()[0].text().contains(" flags=x db=-1 "), "{told:?}");
    assert!(told.list()[0].text().ends_with(" table=mine\n"), "{told:?}");
    let (what, long) = ("cannot contain spaces, newlines or special characters.", [b'x'; 257]);
    for (words, value, told) in [
        ("CLIENT SETNAME", &b"a b"[..], format!("ERR Client names {what}")),
        ("CLIENT SETNAME", &long, "ERR Client names cannot have more than 256 bytes.".into()),
        ("CLIENT SETINFO LIB-NAME", b"a b", format!("ERR lib-name {what}")),
        ("CLIENT SETINFO LIB-VER", b"a b", format!("ERR lib-ver {what}")),
        ("CLIENT SETINFO LIB-VER", &long, "ERR lib-ver cannot have more than 256 bytes.".into()),
    ] {
        let args: Vec<_> = words.split(' ').map(str::as_bytes).chain([value]).collect();
        assert_eq!(c.call_args(&args).error(), told, "{words}");
    }
    assert!(c.call("AUTH secret").error().contains("without any password configured"));
    assert_eq!(c.call("AUTH default secret"), ok(), "the user whom any password lets in");
    assert_eq!(c.call("HELLO 2 AUTH default secret").list().len(), 14);
    assert!(server.client().call("AUTH other secret").error().starts_with("WRONGPASS"));
    c.call("MULTI");
    assert_eq!(c.call("RESET"), text("RESET"));
    assert_eq!(c.call("CLIENT GETNAME"), Null);
    assert_eq!(c.call("QUIT"), ok());
    assert_eq!(c.try_reply(), None);
}

#[test]
fn both_versions_of_the_protocol() {
    let server = Running::new();
    let mut c = server.client();
    let hello = c.call("HELLO");
    assert_eq!(hello.list()[4..6], [text("proto"), Int(2)]);
    c.send_raw(b"GET none\r\n");
    assert_eq!(raw(&mut c, 5), b"$-1\r\n");
    let hello = c.call("HELLO 3 SETNAME three");
    assert_eq!(hello.list()[4..6], [text("proto"), Int(3)]);
    c.send_raw(b"GET none\r\n");
    assert_eq!(raw(&mut c, 3), b"_\r\n");
    assert_eq!(c.call("CLIENT GETNAME"), text("three"));
    assert!(c.call("HELLO 4").error().starts_with("NOPROTO"));
    assert_eq!(c.call("CONFIG GET save"), list(["save", ""]));
}

fn raw(c: &mut common::Client, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    std::io::Read::read_exact(&mut c.stream, &mut bytes).expect("a reply");
    bytes
}

#[test]
fn killing_clients() {
    let server = Running::new();
    let (mut c, mut victim, mut other) = (server.client(), server.client(), server.client());
    let Value::Int(id) = victim.call("CLIENT ID") else { panic!("no id") };
    assert_eq!(c.call(&format!("CLIENT KILL ID {id}")), Int(1));
    assert_eq!(victim.try_reply(), None);
    other.call("PING");
    let addr = other.stream.local_addr().unwrap();
    assert_eq!(c.call(&format!("CLIENT KILL {addr}")), ok());
    assert_eq!(other.try_reply(), None);
    common::until("both are gone", || c.call("CLIENT LIST").text().lines().count() == 1);
    assert_eq!(c.call("CLIENT KILL 127.0.0.1:1").error(), "ERR No such client");
    assert_eq!(c.call("CLIENT KILL ID 1 ADDR").error(), "ERR syntax error");
    let mut victim = server.client();
    victim.call("PING");
    let local = c.stream.peer_addr().unwrap();
    assert_eq!(c.call(&format!("CLIENT KILL LADDR {local} TYPE normal USER default")), Int(1));
    assert_eq!(victim.try_reply(), None);
    assert_eq!(
        c.call(&format!("CLIENT KILL {}", c.stream.local_addr().unwrap())),
        ok(),
        "it is answered first"
    );
    assert_eq!(c.try_reply(), None);
}

#[test]
fn the_server() {
    let server = Running::new();
    let mut c = server.client();
    c.call("SET k v");
    let info = c.call("INFO");
    for expected in ["# Server", "durability:sync", "connected_clients:1", "db0:keys=1,"] {
        assert!(info.text().contains(expected), "{expected} in {info:?}");
    }
    for field in ["role", "loading", "redis_version"] {
        server.db.byte_table(field).unwrap();
        let info = c.call("INFO");
        let lines = info.text().lines().filter(|line| line.split(':').next() == Some(field));
        assert_eq!(lines.count(), 1, "{field} is the server's");
    }
    server.db.byte_table("x\r\nloading:1\r\nrole:slave\r\n#").unwrap();
    server.db.byte_table("y:z").unwrap();
    let info = c.call("INFO");
    let of = |field: &str| info.text().lines().filter(|line| line.starts_with(field)).collect::<Vec<_>>();
    assert_eq!((of("loading"), of("role")), (vec!["loading:0"], vec!["role:master"]));
    assert_eq!(of("table_y"), ["table_y\\u{3a}z:keys=0,expires=0,avg_ttl=0"]);
    let info = c.call("INFO keyspace");
    assert!(info.text().starts_with("# Keyspace") && !info.text().contains("# Server"));
    let Value::Int(count) = c.call("COMMAND COUNT") else { panic!("no count") };
    assert_eq!(c.call("COMMAND").list().len() as i64, count);
    assert_eq!(c.call("COMMAND LIST").list().len() as i64, count);
    assert_eq!(c.call("COMMAND DOCS").list().len() as i64, 2 * count);
    assert_eq!(c.call("COMMAND LIST FILTERBY PATTERN GETD*"), list(["getdel"]));
    assert_eq!(c.call("COMMAND GETKEYS MSET a 1 b 2"), list(["a", "b"]));
    for wrong in [
        "COMMAND LIST odd",
        "COMMAND GETKEYS",
        "COMMAND GETKEYS odd k",
        "COMMAND GETKEYS GET",
        "COMMAND GETKEYS PING",
    ] {
        c.call(wrong).error();
    }
    for what in ["DOCS", "INFO"] {
        let twice = format!("COMMAND {what}{}", " get".repeat(2 * count as usize));
        assert!(c.call(&twice).error().contains("more names"), "an event loop writes what it knows of each");
    }
    let get = c.call("COMMAND INFO get none");
    assert_eq!(get.list()[0].list()[..2], [text("get"), Int(2)]);
    assert_eq!(get.list()[1], Null);
    assert_eq!(c.call("CONFIG GET appendfsync"), list(["appendfsync", "always"]));
    assert_eq!(c.call("CONFIG GET time* databases"), list(["databases", "16", "timeout", "0"]));
    assert_eq!(c.call("CONFIG SET timeout 7"), ok());
    assert_eq!(c.call("CONFIG GET timeout"), list(["timeout", "7"]));
    assert!(c.call("CONFIG SET timeout -1").error().contains("between 0"));
    assert!(c.call("CONFIG SET maxmemory 1").error().contains("it knows timeout"));
    assert_eq!(c.call("BGSAVE"), text("Checkpoint done"));
    assert_eq!(c.call("MEMORY USAGE k"), Int(20));
    assert_eq!(c.call("MEMORY USAGE k SAMPLES 5"), Int(20));
    c.call("MEMORY USAGE k odd 5").error();
    assert_eq!(c.call("MEMORY USAGE none"), Null);
    assert_eq!(c.call("MEMORY STATS").list().len(), 8);
}

#[test]
fn the_slow_log() {
    let server = Running::new();
    let mut c = server.client();
    assert_eq!(c.call("SLOWLOG LEN"), Int(0));
    c.call("CONFIG SET slowlog-log-slower-than 0");
    c.call("SET k v");
    c.call("CONFIG SET slowlog-log-slower-than -1");
    let log = c.call("SLOWLOG GET 10");
    let commands: Vec<_> = log.list().iter().map(|entry| entry.list()[3].clone()).collect();
    assert_eq!(commands[0], list(["SET", "k", "v"]));
    assert_eq!(c.call("SLOWLOG LEN"), Int(commands.len() as i64));
    c.call("SLOWLOG RESET");
    assert_eq!(c.call("SLOWLOG LEN"), Int(0));
}

/// While the server goes on; in its place, and in no other.
#[test]
fn a_backup_is_a_database_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let backups = dir.path().join("backups");
    let server = Running::with(Options { backups: Some(backups.clone()), ..options() });
    let mut c = server.client();
    assert_eq!(c.call("MSET a 1 b 2"), ok());
    assert_eq!(c.call("KV.BACKUP monday"), Int(2));
    assert_eq!(c.call("SET c 3"), ok());
    assert!(c.call("KV.BACKUP monday").error().contains("monday"), "it is not overwritten");
    for elsewhere in ["../tuesday", "/tuesday", "a/b", "a/", ".", ".."] {
        assert!(c.call(&format!("KV.BACKUP {elsewhere}")).error().contains("one directory"), "{elsewhere}");
    }
    for no_name in [&b""[..], b"a\0b", &[b'a'; 10_000]] {
        let refused = c.call_args(&[b"KV.BACKUP", no_name]);
        assert!(refused.error().contains("one directory") && refused.error().len() < 200, "{refused:?}");
    }
    let copy = Database::open(backups.join("monday")).unwrap();
    assert_eq!(copy.byte_table("db0").unwrap().range(..).count(), 2);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    assert!(Running::new().client().call("KV.BACKUP monday").error().contains("--backups"));
}

/// What is done beside the event loop takes its time, too.
#[test]
fn the_slow_log_has_what_is_done_elsewhere() {
    let disk = MemVfs::new();
    let db = Database::builder().open_on(Arc::new(disk.clone())).unwrap();
    let server = Running::over(db, Options { slow_log_from: Duration::from_millis(100), ..options() });
    let mut c = server.client();
    c.call("SET k v");
    disk.set_sync_time(Duration::from_millis(200));
    c.call("BGSAVE");
    disk.set_sync_time(Duration::ZERO);
    let log = c.call("SLOWLOG GET 1");
    let entry = log.list()[0].list();
    assert_eq!(entry[3], list(["BGSAVE"]));
    assert!(matches!(entry[2], Int(100_000..)), "{entry:?}");
}

#[test]
fn what_is_not_supported_says_so() {
    let server = Running::new();
    let mut c = server.client();
    c.call("SET k v");
    for line in ["EXPIRE k 5", "PEXPIRE k 5", "EXPIREAT k 5", "SET k w EX 5", "SETEX k 5 w", "GETEX k EX 5"] {
        assert!(c.call(line).error().contains("not supported: rows do not expire"), "{line}");
    }
    assert_eq!(c.call("GET k"), text("v"));
    assert!(c.call("LPUSH k v").error().contains("unknown command 'LPUSH'"));
    assert!(c.call("GET").error().contains("wrong number of arguments for 'get'"));
    assert!(c.call("KV.COMMIT").error().contains("KV.BEGIN begins one"));
}

#[test]
fn strangers_must_say_the_password() {
    let server = Running::with(Options { password: Some("secret".into()), ..options() });
    let mut c = server.client();
    for line in ["PING", "GET k", "SHUTDOWN", "CONFIG GET *", "HELLO 3"] {
        assert!(c.call(line).error().starts_with("NOAUTH"), "{line}");
    }
    assert!(server.client().call("AUTH other secret").error().starts_with("WRONGPASS"));
    assert_eq!(c.call("AUTH secret"), ok());
    assert_eq!(c.call("PING"), text("PONG"));
    assert_eq!(c.call("RESET"), text("RESET"));
    assert!(c.call("PING").error().starts_with("NOAUTH"));
    assert_eq!(c.call("HELLO 3 AUTH default secret").list().len(), 14);
    assert_eq!(c.call("SET k v"), ok());
    let mut large = server.client();
    let reply = large.call_args(&[b"SET", b"k", &[b'x'; 5000]]);
    assert!(reply.error().contains("Protocol error"), "strangers get little room: {reply:?}");
    assert_eq!(large.try_reply(), None);
}

/// Who has guessed wrong waits before the next guess; nobody else does.
#[test]
fn guesses_take_their_time() {
    let server = Running::with(Options { password: Some("secret".into()), threads: 1, ..options() });
    let mut guesser = server.client();
    for guess in ["AUTH wrong", "HELLO 3 AUTH default wrong"] {
        let mut others_wait = || {
            let begun = Instant::now();
            assert!(guesser.call(guess).error().starts_with("WRONGPASS"));
            guesser.send(&["AUTH secret"]);
            assert_eq!(server.client().call("AUTH secret"), ok());
            let waited = begun.elapsed();
            assert_eq!(guesser.reply(), ok());
            assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
            waited >= Duration::from_millis(900)
        };
        // On a busy machine they may wait for the processor as long.
        assert!(!(0..3).all(|_| others_wait()), "{guess}: others wait, too");
    }
}

/// What tools ask about a value, and a server, before they show it.
#[test]
fn tools_are_told_what_they_ask_for() {
    let server = Running::new();
    let mut c = server.client();
    for (key, value, encoding) in
        [("n", "12".into(), "int"), ("short", "x".repeat(44), "embstr"), ("long", "x".repeat(45), "raw")]
    {
        c.call_args(&[b"SET", key.as_bytes(), value.as_bytes()]);
        assert_eq!(c.call(&format!("OBJECT ENCODING {key}")), text(encoding));
    }
    assert_eq!((c.call("OBJECT REFCOUNT n"), c.call("OBJECT REFCOUNT none")), (Int(1), Null));
    assert_eq!(c.call("OBJECT ENCODING none"), Null);
    assert!(c.call("OBJECT FREQ n").error().contains("has ENCODING, REFCOUNT"));
    assert_eq!((c.call("WAIT 0 0"), c.call("WAIT 2 10")), (Int(0), Int(0)));
    assert!(c.call("WAIT 0 -1").error().contains("negative"));
    assert_eq!(c.call("ROLE"), List(vec![text("master"), Int(0), List(vec![])]));
    let info = c.call("INFO").text().to_owned();
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("it is told");
    assert!(used.parse::<u64>().is_ok_and(|bytes| bytes > 1 << 20), "{used}");
    assert!(info.contains("redis_version:7."), "{info}");
}

/// What tools read of a Redis is told, in its sections, where there is something to tell.
#[test]
fn info_has_what_tools_look_for() {
    let server = Running::new();
    let mut c = server.client();
    let hello = c.call("HELLO");
    let words = hello.list();
    let version = words.iter().position(|word| *word == text("version")).expect("it is told");
    for (section, fields) in [
        (
            "server",
            "redis_version redis_mode os arch_bits process_id tcp_port uptime_in_seconds uptime_in_days",
        ),
        ("clients", "connected_clients blocked_clients maxclients"),
        (
            "memory",
            "used_memory used_memory_human used_memory_rss used_memory_peak total_system_memory maxmemory",
        ),
        (
            "persistence",
            "loading rdb_bgsave_in_progress rdb_last_save_time aof_enabled aof_last_write_status",
        ),
        (
            "stats",
            "total_connections_received total_commands_processed total_net_input_bytes total_net_output_bytes",
        ),
        ("stats", "rejected_connections evicted_clients total_error_replies expired_keys evicted_keys"),
        ("replication", "role connected_slaves master_repl_offset"),
        ("cpu", "used_cpu_sys used_cpu_user"),
        ("cluster", "cluster_enabled"),
    ] {
        let info = c.call(&format!("INFO {section}")).text().to_owned();
        for field in fields.split(' ') {
            let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
            let value = value.unwrap_or_else(|| panic!("{field} in {info}"));
            assert!(!value.is_empty() && (!field.starts_with("used_") || value != "0"), "{field}:{value}");
            if field == "redis_version" {
                assert_eq!(words[version + 1], text(value), "HELLO tells the same");
            }
        }
    }
}

/// INFO looks at tables that others may drop meanwhile, one after another.
#[test]
fn info_brings_no_table_back() {
    let server = Running::new();
    let mut c = server.client();
    (0..2000).for_each(|n| drop(server.db.byte_table(&format!("a{n}")).unwrap()));
    let begun = Instant::now();
    c.call("INFO keyspace");
    let took = begun.elapsed();
    for round in 0..20 {
        let dropped = format!("z{round}");
        server.db.byte_table(&dropped).unwrap();
        c.send(&["INFO keyspace"]);
        std::thread::sleep(took * round / 20);
        server.db.drop_table(&dropped).unwrap();
        c.reply().text();
        assert!(!server.db.tables().unwrap().contains(&dropped), "{dropped} is there again");
    }
}
