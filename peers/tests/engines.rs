//! Every engine that this build has, through every workload it runs, in small: the runs check their own answers.

use serde_json::Value;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

fn peers(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_peers")).args(args).output().expect("peers runs")
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The report of a run on this engine, in a directory of its own.
fn report(engine: &str, durability: &str, line: &str) -> Value {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path().to_str().expect("UTF-8");
    let words = line.split(' ');
    let args: Vec<_> = ["bench"].into_iter().chain(words).collect();
    let flags =
        ["--engine", engine, "--durability", durability, "--dir", dir, "--cache", "33554432", "--json"];
    let output = peers(&[args.as_slice(), &flags].concat());
    assert!(output.status.success(), "{engine}, {line}: {}", complaint(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!(report["engine"], engine);
    assert!(report["durability_by"].is_string() && report["cache_by"].is_string(), "{report}");
    report
}

/// The engines of this build, as `peers engines --built` names them.
fn built() -> Vec<String> {
    let output = peers(&["engines", "--built"]);
    String::from_utf8(output.stdout).expect("UTF-8").lines().map(str::to_owned).collect()
}

/// A record says how Foreshore is, not what a shell's profile made of it.
#[test]
fn a_profile_of_the_shell_is_no_part_of_a_comparison() {
    let dir = tempfile::tempdir().expect("a directory");
    let foreshore = dir.path().join("foreshore");
    let answer = r#"{\"engine\":\"foreshore\",\"ops_per_s\":1,\"version\":\"${FORESHORE_PROFILE-none}\"}"#;
    std::fs::write(&foreshore, format!("#!/bin/sh\necho \"{answer}\"\n")).expect("written");
    std::fs::set_permissions(&foreshore, Permissions::from_mode(0o755)).expect("executable");
    let [stores, results] = ["stores", "results"].map(|name| dir.path().join(name).display().to_string());
    let small = "--engines lmdb --workloads get --threads 1 --repeats 1 --n 1000 --seconds 0.05 --host here";
    let ran = Command::new(env!("CARGO_BIN_EXE_peers"))
        .env("FORESHORE_PROFILE", "tuned.toml")
        .args(["compare", "--foreshore", foreshore.to_str().expect("UTF-8")])
        .args(["--dir", &stores, "--results", &results])
        .args(small.split(' '))
        .output()
        .expect("peers");
    assert!(ran.status.success(), "{}", complaint(&ran));
    let written = std::fs::read_dir(results).expect("results").next().expect("of today").expect("an entry");
    let rows = std::fs::read_to_string(written.path().join("kv.csv")).expect("readable");
    assert!(rows.lines().any(|row| row.starts_with("foreshore,none,")), "{rows}");
}

const SERVERS: [&str; 2] = ["mariadb", "postgresql"];
/// With transactions of a few rows each, but without ones over many rows.
const SINGLE: [&str; 2] = ["kyoto", "leveldb"];
/// With neither.
const KEY_VALUE: [&str; 1] = ["sled"];

fn embedded() -> impl Iterator<Item = String> {
    built().into_iter().filter(|name| !SERVERS.contains(&name.as_str()))
}

fn with_transactions() -> impl Iterator<Item = String> {
    built().into_iter().filter(|name| ![SINGLE.as_slice(), &KEY_VALUE].concat().contains(&name.as_str()))
}

#[test]
fn rows_are_put_got_scanned_and_loaded() {
    for engine in embedded() {
        for line in [
            "kv --workload put --n 3000 --threads 2 --seconds 60",
            "kv --workload mix --update-ratio 50 --n 3000 --threads 2 --seconds 0.1",
            "kv --workload scan --n 3000 --seconds 0.05",
            "kv --workload bulk --n 25000 --key-bytes 16 --value-bytes 100 --seconds 60",
        ] {
            report(&engine, "relaxed", line);
        }
    }
}

#[test]
fn single_operations_go_through_tables() {
    for engine in built().iter().filter(|name| !KEY_VALUE.contains(&name.as_str())) {
        for line in [
            "mix --update-ratio 60 --n 1500 --threads 2 --seconds 0.1 --warm-up 0",
            "ycsb --workload a --n 500 --value-bytes 100 --threads 2 --seconds 0.1 --warm-up 0",
            "ycsb --workload e --n 500 --value-bytes 100 --threads 2 --seconds 0.1 --warm-up 0",
            "rows --n 700 --threads 2",
        ] {
            report(engine, "relaxed", line);
        }
    }
}

/// Counters that add up, and TPC-C's conditions, leave an engine no room for half transactions or lost updates.
#[test]
fn transactions_are_whole() {
    for engine in with_transactions() {
        report(&engine, "relaxed", "tx --n 200 --threads 3 --seconds 0.2 --warm-up 0");
        report(&engine, "relaxed", "insert --rows-per-commit 50 --threads 2 --seconds 0.1 --warm-up 0");
        let line = "tpcc --warehouses 1 --items 100 --customers 30 --threads 2 --seconds 0.4 --warm-up 0";
        let report = report(&engine, "relaxed", line);
        assert_eq!(report["consistent"], true);
        let is_server = SERVERS.contains(&engine.as_str());
        assert_eq!(report["caveat"].is_string(), is_server, "{report}");
        assert!(report["cpu_s"].as_f64() > Some(0.0), "{report}");
    }
}

#[test]
fn every_durability_that_is_listed_is_kept_and_no_other() {
    for engine in embedded() {
        for durability in ["sync", "buffered", "relaxed"] {
            let dir = tempfile::tempdir().expect("a directory");
            let dir = dir.path().to_str().expect("UTF-8");
            let run = "bench kv --workload put --n 20 --seconds 60 --engine".split(' ');
            let args: Vec<_> =
                run.chain([engine.as_str(), "--durability", durability, "--dir", dir]).collect();
            let output = peers(&args);
            let refuses = match engine.as_str() {
                "redb" | "sled" => durability == "buffered",
                "btreemap" => durability != "relaxed",
                _ => false,
            };
            let code = output.status.code();
            assert_eq!(
                code,
                Some(if refuses { 2 } else { 0 }),
                "{engine} {durability}: {}",
                complaint(&output)
            );
        }
    }
}

#[test]
fn what_an_engine_lacks_is_a_usage_error_that_says_so() {
    for engine in built().iter().filter(|name| SINGLE.contains(&name.as_str())) {
        for line in ["tpcc", "tx", "insert", "ycsb --workload f"] {
            let args: Vec<_> = ["bench"].into_iter().chain(line.split(' ')).collect();
            let output = peers(&[args.as_slice(), &["--engine", engine]].concat());
            assert_eq!(output.status.code(), Some(2));
            assert!(complaint(&output).contains("no transactions"), "{}", complaint(&output));
        }
    }
}

/// The processes whose parent this is.
fn children(parent: u32) -> Vec<String> {
    let list = format!("/proc/{parent}/task/{parent}/children");
    let list = std::fs::read_to_string(list).unwrap_or_default();
    list.split_whitespace().map(str::to_owned).collect()
}

/// Waits for what happens sooner or later.
fn eventually<T>(what: &str, mut happened: impl FnMut() -> Option<T>) -> T {
    for _ in 0..6000 {
        if let Some(happened) = happened() {
            return happened;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what}: not in a minute")
}

/// A long run on this engine; its directory and that for temporary files.
fn long_run(engine: &str, dir: &Path) -> Child {
    let run = "bench tx --n 100 --threads 2 --seconds 600 --durability relaxed --cache 33554432".split(' ');
    let mut command = Command::new(env!("CARGO_BIN_EXE_peers"));
    command.args(run).args(["--engine", engine, "--dir"]).arg(dir).env("TMPDIR", dir);
    command.stdout(Stdio::null()).spawn().expect("peers runs")
}

fn send(signal: &str, to: u32) {
    let sent = Command::new("kill").args(["-s", signal, &to.to_string()]).status().expect("kill runs");
    assert!(sent.success());
}

#[test]
fn a_signal_leaves_no_directory_behind() {
    for signal in ["INT", "TERM", "HUP"] {
        let dir = tempfile::tempdir().expect("a directory");
        let mut run = long_run("lmdb", dir.path());
        let entries = || std::fs::read_dir(dir.path()).expect("it is there");
        eventually("a store", || entries().flatten().find(|entry| entry.path().join("data.mdb").exists()));
        send(signal, run.id());
        assert_eq!(run.wait().expect("it was started").code(), Some(130), "{signal}");
        assert_eq!(entries().count(), 0, "{signal}");
    }
}

#[test]
fn a_server_ends_with_its_run_however_that_ends() {
    for engine in built().iter().filter(|name| SERVERS.contains(&name.as_str())) {
        for signal in ["TERM", "KILL"] {
            let dir = tempfile::tempdir().expect("a directory");
            std::fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).expect("it is ours");
            let mut run = long_run(engine, dir.path());
            let is_server = |pid: &String| {
                let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
                ["mariadbd", "postgres"].contains(&name.trim())
            };
            let server = eventually("a server", || children(run.id()).into_iter().find(is_server));
            send(signal, run.id());
            run.wait().expect("it was started");
            eventually("the server's end", || (!is_server(&server)).then_some(()));
            let left = std::fs::read_dir(dir.path()).expect("it is there").count();
            assert_eq!(left, if signal == "KILL" { 2 } else { 0 }, "{engine}, {signal}");
        }
    }
}

#[test]
fn an_engine_that_is_not_built_names_the_setup() {
    let built = built();
    for engine in ["berkeleydb", "kyoto", "leveldb", "rocksdb", "wiredtiger"] {
        if !built.iter().any(|name| name == engine) {
            let output =
                peers(&["bench", "kv", "--workload", "get", "--engine", engine, "--dir", ".", "--n", "1"]);
            assert_eq!(output.status.code(), Some(2));
            assert!(complaint(&output).contains("peers/setup"), "{}", complaint(&output));
        }
    }
}

/// A comparison takes hours: what its turns have found by then stays when a later one fails.
#[test]
fn a_turn_that_fails_costs_no_other() {
    let dir = tempfile::tempdir().expect("a directory");
    let foreshore = dir.path().join("foreshore");
    let fails_at_seed_2 = r#"case "$*" in *"--seed 1"*) echo '{"engine":"foreshore","ops_per_s":7.5}';; *) echo broken >&2; exit 1;; esac"#;
    std::fs::write(&foreshore, format!("#!/bin/sh\n{fails_at_seed_2}\n")).expect("written");
    std::fs::set_permissions(&foreshore, Permissions::from_mode(0o755)).expect("executable");
    let [stores, results] = ["stores", "results"].map(|name| dir.path().join(name).display().to_string());
    let small = "--engines lmdb --workloads get --threads 1 --repeats 3 --n 1000 --seconds 0.05 --host here";
    let flags = ["--foreshore", foreshore.to_str().expect("UTF-8"), "--dir", &stores, "--results", &results];
    let output = peers(&[&["compare"], &flags[..], &small.split(' ').collect::<Vec<_>>()].concat());
    assert!(!output.status.success() && complaint(&output).contains("broken"), "{}", complaint(&output));
    let written = std::fs::read_dir(results).expect("results").next().expect("of today").expect("an entry");
    let rows = std::fs::read_to_string(written.path().join("kv.csv")).expect("readable");
    assert!(rows.lines().any(|row| row.starts_with("foreshore,") && row.contains(",7.5,")), "{rows}");
    assert_eq!(rows.lines().filter(|row| row.starts_with("lmdb,")).count(), 1, "{rows}");
}
