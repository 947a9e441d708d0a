//! GETs of a pipeline are executed together, and so are SETs; nobody can tell.

mod common;

use common::{Client, Int, List, Null, Running, Value, encode, ok, options, text};
use foreshore_server::Options;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::time::Duration;

/// What a client may send, of keys and values that are short of names so that they meet.
#[derive(Clone, Debug)]
enum Request {
    Get(u8),
    /// GET as people type it.
    Inline(u8),
    Set(u8, u8),
    /// SET as people type it.
    InlineSet(u8, u8),
    SetIfNew(u8),
    /// SET of a key that no table takes.
    TooLong,
    Del(u8),
    Append(u8),
    TooManyArguments,
    Multi,
    Exec,
    Watch(u8),
    Large(u8),
}

/// What the server should be: rows, and the commands between MULTI and EXEC.
#[derive(Default)]
struct Model {
    rows: BTreeMap<u8, String>,
    queue: Option<(Vec<Request>, bool)>,
}

const LARGE: usize = 5_000;

fn request() -> impl Strategy<Value = Request> {
    let key = || 0..6_u8;
    prop_oneof![
        20 => key().prop_map(Request::Get),
        1 => key().prop_map(Request::Inline),
        20 => (key(), any::<u8>()).prop_map(|(key, value)| Request::Set(key, value)),
        1 => (key(), any::<u8>()).prop_map(|(key, value)| Request::InlineSet(key, value)),
        1 => key().prop_map(Request::SetIfNew),
        1 => Just(Request::TooLong),
        1 => key().prop_map(Request::Del),
        1 => key().prop_map(Request::Append),
        1 => key().prop_map(Request::Large),
        1 => Just(Request::TooManyArguments),
        1 => Just(Request::Multi),
        2 => Just(Request::Exec),
        1 => key().prop_map(Request::Watch),
    ]
}

impl Request {
    fn bytes(&self) -> Vec<u8> {
        let command =
            |name: &str, key: u8, rest: &[&[u8]]| encode(&[&[name.as_bytes(), &[b'k', key]], rest].concat());
        match self {
            Self::Get(key) => command(if key % 2 == 0 { "GET" } else { "get" }, *key, &[]),
            Self::Inline(key) => [b"GET \"k\\x0", key.to_string().as_bytes(), b"\"\r\n"].concat(),
            Self::Set(key, value) => {
                command(if key % 2 == 0 { "SET" } else { "set" }, *key, &[value.to_string().as_bytes()])
            }
            Self::InlineSet(key, value) => format!("SET \"k\\x0{key}\" {value}\r\n").into_bytes(),
            Self::SetIfNew(key) => command("SET", *key, &[b"new", b"NX"]),
            Self::TooLong => encode(&[b"SET", &[b'k'; 2_000], b"1"]),
            Self::Large(key) => command("SET", *key, &[&[b'x'; LARGE]]),
            Self::Del(key) => command("DEL", *key, &[]),
            Self::Append(key) => command("APPEND", *key, &[b"+"]),
            Self::TooManyArguments => encode(&[b"GET", b"k", b"k"]),
            Self::Multi => encode(&[b"MULTI"]),
            Self::Exec => encode(&[b"EXEC"]),
            Self::Watch(key) => command("WATCH", *key, &[]),
        }
    }
}

impl Model {
    fn reply(&mut self, request: &Request) -> Value {
        match (request, &mut self.queue) {
            (Request::Exec, None) => Value::Error("ERR EXEC without MULTI".into()),
            (Request::Exec, queue) => {
                let (commands, is_broken) = queue.take().expect("just seen");
                if is_broken {
                    return Value::Error("EXECABORT".into());
                }
                List(commands.iter().map(|command| self.reply(command)).collect())
            }
            (Request::Multi, Some(_)) => Value::Error("ERR MULTI".into()),
            (Request::Multi, queue) => {
                *queue = Some(Default::default());
                ok()
            }
            (Request::Watch(_), Some(_)) => Value::Error("ERR WATCH".into()),
            (Request::TooManyArguments, queue) => {
                queue.iter_mut().for_each(|(_, is_broken)| *is_broken = true);
                Value::Error("ERR wrong number".into())
            }
            (request, Some((commands, _))) => {
                commands.push(request.clone());
                text("QUEUED")
            }
            (request, None) => self.executed(request),
        }
    }

    fn executed(&mut self, request: &Request) -> Value {
        match request {
            Request::Get(key) | Request::Inline(key) => self.rows.get(key).map_or(Null, |value| text(value)),
            Request::Set(key, value) | Request::InlineSet(key, value) => {
                self.rows.insert(*key, value.to_string());
                ok()
            }
            Request::SetIfNew(key) if self.rows.contains_key(key) => Null,
            Request::SetIfNew(key) => {
                self.rows.insert(*key, "new".into());
                ok()
            }
            Request::TooLong => Value::Error("ERR key".into()),
            Request::Large(key) => {
                self.rows.insert(*key, "x".repeat(LARGE));
                ok()
            }
            Request::Del(key) => Int(self.rows.remove(key).is_some().into()),
            Request::Append(key) => {
                let value = self.rows.entry(*key).or_default();
                value.push('+');
                Int(value.len() as i64)
            }
            _ => ok(),
        }
    }
}

/// Equal; of errors, whose texts are tested elsewhere, that both are one.
fn same(reply: &Value, expected: &Value) -> bool {
    match (reply, expected) {
        (Value::Error(_), Value::Error(_)) => true,
        (List(replies), List(expected)) => {
            replies.len() == expected.len() && replies.iter().zip(expected).all(|(a, b)| same(a, b))
        }
        _ => reply == expected,
    }
}

fn check(server: &Running, requests: &[Request]) -> Result<(), TestCaseError> {
    let mut client = server.client();
    assert_eq!(client.call("FLUSHDB"), ok());
    // UNWATCH: what this client watches and changes itself would make its EXEC nil, which is not the question here.
    let unwatch = |request: &Request| matches!(request, Request::Watch(_)).then(|| encode(&[b"UNWATCH"]));
    let mut model = Model::default();
    let mut sent = Vec::new();
    let mut expected = Vec::new();
    for request in requests {
        sent.extend(request.bytes());
        expected.push(model.reply(request));
        if let Some(more) = unwatch(request).filter(|_| model.queue.is_none()) {
            sent.extend(more);
            expected.push(ok());
        }
    }
    client.send_raw(&sent);
    for (at, expected) in expected.iter().enumerate() {
        let reply = client.reply();
        prop_assert!(same(&reply, expected), "reply {at}: {reply:?} instead of {expected:?}");
    }
    Ok(())
}

/// One server for all cases, and replies so bounded that large ones make pipelines stop and go on.
#[test]
fn a_pipeline_is_answered_as_one_by_one() {
    let server = Running::with(Options { replies_bytes_max: 8_000, ..options() });
    proptest!(ProptestConfig::with_cases(200), |(requests in prop_oneof![prop::collection::vec(request(), 1..120), pipeline()])| {
        check(&server, &requests)?;
    });
}

/// Runs of one kind of request, which single ones interrupt.
fn pipeline() -> impl Strategy<Value = Vec<Request>> {
    let set = |(key, value)| Request::Set(key, value);
    let run = prop_oneof![
        prop::collection::vec((0..6_u8).prop_map(Request::Get), 1..40),
        prop::collection::vec((0..6_u8, any::<u8>()).prop_map(set), 1..40),
        prop::collection::vec(request(), 1..4),
    ];
    prop::collection::vec(run, 1..12).prop_map(|runs| runs.concat())
}

/// Many clients take the first reply of a pipeline when they have sent all of it: more than fits into the network's buffers, as the replies do.
#[test]
fn a_pipeline_may_be_sent_before_its_replies_are_taken() {
    let server = Running::new();
    let stream = server.client().stream;
    stream.set_write_timeout(Some(common::PATIENCE)).unwrap();
    let (said, times) = ([b'x'; 64 << 10], 500);
    (&stream).write_all(&encode(&[b"ECHO", &said]).repeat(times)).expect("the server takes all of it");
    let mut replies = vec![0; times * ("$65536\r\n".len() + said.len() + "\r\n".len())];
    (&stream).read_exact(&mut replies).expect("as many replies");
    assert!(replies.starts_with(b"$65536\r\nxxx") && replies.ends_with(b"xxx\r\n"));
}

/// What GETs of a pipeline read is what other clients have written, and they are counted one by one.
#[test]
fn every_get_counts() {
    let server = Running::new();
    let (mut reader, mut writer) = (server.client(), server.client());
    assert_eq!(writer.call("SET k 1"), ok());
    let commands = |client: &mut Client| -> u64 {
        let info = client.call("INFO stats");
        let line = info.text().lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
        line.expect("INFO counts commands").trim().parse().expect("a number")
    };
    let before = commands(&mut writer);
    reader.send(&["GET k"; 50]);
    (0..50).for_each(|_| assert_eq!(reader.reply(), text("1")));
    assert_eq!(commands(&mut writer) - before, 51, "the GETs, and the INFO itself");
}

/// A SET of a pipeline whose key is locked waits, and those behind it with it; those before it have happened. When it is its
/// turn nothing happens twice.
#[test]
fn a_lock_stops_a_pipeline_in_its_middle() {
    let long = Duration::from_secs(60);
    let server = Running::with(Options { lock_timeout: long, transaction_timeout: long, ..options() });
    let (mut holder, mut writer) = (server.client(), server.client());
    assert_eq!(holder.call("KV.BEGIN"), ok());
    assert_eq!(holder.call("SET k5 held"), ok());
    let sets: Vec<_> = (0..10).map(|at| format!("SET k{at} mine")).collect();
    writer.send(&sets.iter().map(String::as_str).collect::<Vec<_>>());
    (0..5).for_each(|_| assert_eq!(writer.reply(), ok()));
    let mut other = server.client();
    assert_eq!(other.call("MGET k0 k4 k5 k6"), List(vec![text("mine"), text("mine"), Null, Null]));
    assert_eq!(other.call("SET k0 later"), ok());
    assert_eq!(holder.call("KV.COMMIT"), ok());
    (5..10).for_each(|_| assert_eq!(writer.reply(), ok()));
    let rows = other.call("MGET k0 k4 k5 k9");
    assert_eq!(rows, List(vec![text("later"), text("mine"), text("mine"), text("mine")]));
}

/// A pipeline goes on with the new table when FLUSHDB has replaced the one that it began with.
#[test]
fn a_pipeline_follows_its_table() {
    let server = Running::new();
    let (mut writer, mut other) = (server.client(), server.client());
    writer.send(&["SET a 1"; 20]);
    (0..20).for_each(|_| assert_eq!(writer.reply(), ok()));
    assert_eq!(other.call("FLUSHDB"), ok());
    writer.send(&["SET b 1"; 20]);
    (0..20).for_each(|_| assert_eq!(writer.reply(), ok()));
    assert_eq!(other.call("DBSIZE"), Int(1));
}
