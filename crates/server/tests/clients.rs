//! Clients that others wrote, each where it is installed: redis-cli, redis-benchmark, redis-py, node-redis, ioredis.
//!
//! `pip install redis` and `npm install redis ioredis` install the last three; `FORESHORE_PYTHON` names another Python, `NODE_PATH`
//! where Node finds its modules.

mod common;

use common::{Running, options};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Does this command succeed here? Otherwise the test is passed over, aloud.
fn is_here(what: &str, command: &mut Command) -> bool {
    let is_here = command.output().is_ok_and(|output| output.status.success());
    if !is_here {
        // Not by a macro: the harness keeps to itself what those print in a test that passes.
        _ = writeln!(
            io::stderr(),
            "\n*** SKIPPED: {what} is not installed, so nothing was tried with it ***\n"
        );
    }
    is_here
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Both outputs of a command that must succeed.
#[track_caller]
fn succeeds(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = text(&stdout) + &text(&stderr);
    assert!(status.success(), "{command:?}: {status}\n{said}");
    said
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

fn port(server: &Running) -> String {
    server.server().addr().port().to_string()
}

#[test]
fn redis_cli() {
    if !is_here("redis-cli", Command::new("redis-cli").arg("--version")) {
        return;
    }
    let server = Running::new();
    let mut cli = Command::new("redis-cli");
    cli.args(["-p", &port(&server), "--no-raw"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = cli.spawn().expect("it was there a moment ago");
    let commands = "SET greeting \"hello, world\"\nGET greeting\nGET absent\nINCR n\nMULTI\nINCR n\nMGET n greeting\nEXEC\n\
                    HELLO 3\nKV.RANGE - +\nEXPIRE n 10\nNOSUCH\n";
    child.stdin.take().expect("piped").write_all(commands.as_bytes()).expect("it reads");
    let said = text(&child.wait_with_output().expect("it ends").stdout);
    for expected in [
        "OK\n\"hello, world\"\n(nil)\n(integer) 1\nOK\nQUEUED\nQUEUED\n1) (integer) 2\n2) 1) \"2\"\n   2) \"hello, world\"\n",
        "1) \"greeting\"\n2) \"hello, world\"\n3) \"n\"\n4) \"2\"\n",
        "rows do not expire",
        "unknown command 'NOSUCH'",
    ] {
        assert!(said.contains(expected), "{expected:?} is not in\n{said}");
    }
    let big = succeeds(Command::new("redis-cli").args(["-p", &port(&server), "--bigkeys"]));
    assert!(big.contains("2 strings"), "{big}");
}

#[test]
fn redis_benchmark() {
    if !is_here("redis-benchmark", Command::new("redis-benchmark").arg("--version")) {
        return;
    }
    let server = Running::new();
    for pipeline in ["1", "16"] {
        let mut benchmark = Command::new("redis-benchmark");
        benchmark.args([
            "-p",
            &port(&server),
            "-t",
            "ping,set,get,incr,mset",
            "-n",
            "2000",
            "-r",
            "1000",
            "--csv",
        ]);
        let said = succeeds(benchmark.args(["-P", pipeline]));
        let tests: Vec<_> =
            said.lines().filter_map(|line| line.strip_prefix('"')?.split('"').next()).collect();
        let wanted = ["PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "MSET (10 keys)"];
        assert!(wanted.iter().all(|test| tests.contains(test)), "{said}");
        assert!(!said.contains("rror"), "{said}");
    }
    let counters = server.db.byte_table("db0").unwrap();
    let count = |(_, value): (Vec<u8>, Vec<u8>)| String::from_utf8(value).unwrap().parse::<u64>().unwrap();
    let counted: u64 = counters.prefix(b"counter:").map(|row| count(row.unwrap())).sum();
    assert!(counted >= 2 * 2000, "INCR counts: {counted}");
}

#[test]
fn redis_py() {
    let python = std::env::var("FORESHORE_PYTHON").unwrap_or("python3".into());
    if !is_here("redis-py", Command::new(&python).args(["-c", "import redis"])) {
        return;
    }
    for protocol in ["2", "3"] {
        let server = Running::with(options());
        let said =
            succeeds(Command::new(&python).arg(script("redis_py.py")).args([&port(&server), protocol]));
        assert!(said.contains("all is well"), "{said}");
    }
}

#[test]
fn node() {
    for (module, protocols) in [("redis", &["2", "3"][..]), ("ioredis", &["2"][..])] {
        if !is_here(
            &format!("the Node module {module}"),
            Command::new("node").args(["-e", &format!("require('{module}')")]),
        ) {
            continue;
        }
        let name = if module == "redis" { "node_redis.js" } else { "ioredis.js" };
        for protocol in protocols {
            let server = Running::new();
            let said = succeeds(Command::new("node").arg(script(name)).args([&port(&server), *protocol]));
            assert!(said.contains("all is well"), "{said}");
        }
    }
}
