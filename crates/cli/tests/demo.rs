//! `demo` and `bench`, small.

mod common;

use common::{Shell, words};
use serde_json::Value;
use std::process::Stdio;

/// A database that loads in a moment.
const SMALL: [&str; 5] = ["demo", "--items=500", "--customers=60", "--warehouses=2", "--dir=demo.db"];

fn step<'s>(steps: &'s [Value], name: &str) -> &'s Value {
    steps.iter().find(|step| step["demo"] == name).unwrap_or_else(|| panic!("{name}: {steps:?}"))
}

#[test]
fn nothing_is_lost_by_a_kill() {
    let shell = Shell::new();
    let args = [&SMALL[..], &["--seconds=3", "--threads=8", "--svg=chart.svg", "--keep"]].concat();
    let steps = shell.json(&args);
    let names: Vec<_> = steps.iter().map(|step| step["demo"].as_str().expect("a name")).collect();
    let verified = ["verify", "conditions", "check"];
    let expected = [
        &["load", "work", "second open", "kill -9", "recover"][..],
        &verified,
        &["go on"],
        &verified,
        &["close", "chart"],
    ];
    assert_eq!(names, expected.concat());
    assert!(step(&steps, "work")["acknowledged"].as_u64() > Some(0));
    assert!(step(&steps, "recover")["redo_records"].as_u64() > Some(0));
    assert!(step(&steps, "recover")["undone"].as_u64() <= Some(8), "at most one of each client");
    let told = |name: &str| step(&steps, name)["acknowledged"].as_u64().expect("a count");
    let verifies: Vec<_> = steps.iter().filter(|step| step["demo"] == "verify").collect();
    assert_eq!(verifies[0]["acknowledged"], told("work"));
    assert_eq!(verifies[1]["acknowledged"], told("work") + told("go on"));
    assert!(steps.iter().all(|step| step.get("lost").is_none_or(|lost| lost == 0)));

    let chart = std::fs::read_to_string(shell.path("chart.svg")).expect("a chart");
    for text in ["kill -9", "open again", "transactions/s", "commit latency, ms", "p99", "<polyline"] {
        assert!(chart.contains(text), "{text} in {chart}");
    }
    assert!(shell.ok(&["tables", "--dir", "demo.db"]).contains("order_line"));
    let complaint = shell.fails(2, &SMALL);
    assert!(complaint.contains("not empty"), "{complaint}");
}

#[test]
fn the_demonstration_removes_its_database_and_ends_with_the_verdict() {
    let shell = Shell::new();
    let told = shell.ok(&[&SMALL[..], &["--seconds=1", "--durability=buffered"]].concat());
    let verdict = told.lines().last().expect("a verdict");
    assert!(verdict.starts_with("nothing was lost: all "), "{told}");
    assert!(!shell.path("demo.db").exists());
    assert!(shell.path("foreshore-demo.svg").exists());
}

/// Without what came into it: it may be a link, or where a filesystem is mounted.
#[test]
fn a_directory_that_was_there_stays() {
    let shell = Shell::new();
    std::fs::create_dir(shell.path("place")).unwrap();
    std::os::unix::fs::symlink("place", shell.path("demo.db")).unwrap();
    shell.ok(&[&SMALL[..], &["--seconds=1", "--durability=buffered"]].concat());
    assert!(shell.path("demo.db").is_symlink());
    assert_eq!(std::fs::read_dir(shell.path("place")).unwrap().count(), 0);
}

/// As by `demo | head -1`.
#[test]
fn who_reads_no_further_is_left_no_database() {
    let shell = Shell::new();
    let mut command = shell.command(&[&SMALL[..], &["--seconds=1"]].concat());
    let mut demo = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(demo.stdout.take());
    assert!(demo.wait().unwrap().success());
    assert!(!shell.path("demo.db").exists());
}

#[test]
fn a_chart_without_a_place_is_refused_before_the_work() {
    let shell = Shell::new();
    let complaint = shell.fails(2, &[&SMALL[..], &["--svg=absent/chart.svg"]].concat());
    assert!(complaint.contains("no directory absent"), "{complaint}");
    assert!(!shell.path("demo.db").exists());
}

/// It would be removed with it, or keep `compact` from its work, or take the place of one of its files.
#[test]
fn a_chart_does_not_lie_within_the_database() {
    let shell = Shell::new();
    std::fs::create_dir(shell.path("demo.db")).expect("a directory");
    for more in [&["--svg=demo.db/chart.svg"][..], &["--svg=demo.db/leaves.db", "--keep"]] {
        let complaint = shell.fails(2, &[&SMALL[..], &["--seconds=1"], more].concat());
        assert!(complaint.contains("would lie within a database"), "{complaint}");
    }
}

#[test]
fn a_database_that_cannot_be_made_is_not_said_to_be_left() {
    let shell = Shell::new();
    shell.write("letter.txt", "dear");
    let complaint = shell.fails(5, &["demo", "--dir=letter.txt/demo.db", "--seconds=1"]);
    assert!(!complaint.contains("is left in"), "{complaint}");
}

#[test]
fn bench_kv_prints_its_stable_fields() {
    let shell = Shell::new();
    for workload in ["put", "get", "mix", "scan", "bulk"] {
        let setting =
            "--n 5000 --seconds 0.2 --durability relaxed --cache 64MiB --index csb --leaf-bytes 16KiB";
        let report = shell.json(&words(&format!("bench kv --dir . --workload {workload} {setting}")));
        let report = &report[0];
        assert_eq!((&report["bench"], &report["engine"]), (&"kv".into(), &"foreshore".into()));
        assert_eq!((&report["index"], &report["leaf_bytes"]), (&"csb".into(), &16384.into()));
        assert_eq!(report["workload"], workload);
        assert_eq!(report["cache_bytes"], 64 << 20);
        for field in ["threads", "ops_per_s", "p50_us", "p99_us", "max_us", "syncs"] {
            assert!(report[field].is_number(), "{field} of {report}");
        }
    }
    shell.fails(2, &["bench", "kv", "--dir", ".", "--workload", "bulk", "--threads", "2"]);
}

#[test]
fn bench_index_prints_its_stable_fields() {
    let shell = Shell::new();
    let alone: &[&str] = &["insert", "lookup", "mixed", "scan100", "zipf"];
    let batches: &[&str] = &["insert", "lookup", "mixed", "multi_get", "scan100", "zipf"];
    for (structure, expected) in [("bplus", batches), ("std-btreemap", alone)] {
        let bench = format!("bench index --structure {structure} --n 5000 --threads 2 --seconds 0.05");
        let phases = shell.json(&words(&bench));
        let mut names: Vec<_> = phases.iter().map(|phase| phase["phase"].as_str().expect("a name")).collect();
        names.sort_unstable();
        assert_eq!(names, expected, "{structure}");
        for phase in &phases {
            assert_eq!((&phase["bench"], &phase["structure"]), (&"index".into(), &structure.into()));
            assert_eq!(phase["threads"], if structure == "bplus" { 2 } else { 1 });
            assert!(phase["ops_per_s"].is_number() && phase["bytes_per_key"].is_number(), "{phase}");
        }
    }
}
