//! `demo` and `bench`, small.

mod common;

use common::Shell;
use serde_json::Value;

#[test]
fn nothing_is_lost_by_a_kill() {
    let shell = Shell::new();
    shell.write(
        "flights.csv",
        "year,month,day,carrier,flight,origin\n2014,1,1,AS,145,PDX\n2014,1,1,US,1830,SEA\n",
    );
    let steps =
        shell.json(&["demo", "--rows", "6000", "--dir", "demo.db", "--keep", "--flights", "flights.csv"]);
    let step = |name: &str| -> &Value { steps.iter().find(|step| step["demo"] == name).expect(name) };
    assert_eq!(step("generate")["rows"], 6002);
    assert_eq!(step("second open")["refused"], true);
    assert!(step("load")["rows"].as_u64().expect("a count") >= 3001);
    assert_eq!(step("verify")["lost"], 0);
    assert_eq!(step("verify")["acknowledged"], step("load")["rows"]);
    assert_eq!(step("lookups")["wrong"], 0);
    assert_eq!(step("reopen")["redo_records"], 0, "a clean close leaves nothing to redo");
    assert_eq!(step("scan")["rows"], 6002);

    assert_eq!(
        shell.ok(&["get", "--dir", "demo.db", "--table", "flights", "2014,1,1,AS,145,PDX"]),
        "2014,1,1,AS,145,PDX\n"
    );
    let orders = shell.json(&["scan", "--dir", "demo.db", "--table", "orders", "--limit", "2"]);
    assert_eq!(orders[1]["row"]["o_orderkey"], "2");
    let complaint = shell.fails(2, &["demo", "--dir", "demo.db"]);
    assert!(complaint.contains("not empty"), "{complaint}");
}

#[test]
fn the_demonstration_removes_what_it_made() {
    let shell = Shell::new();
    shell.ok(&["demo", "--rows", "2000", "--durability", "buffered", "--dir", "demo.db"]);
    assert!(!shell.path("demo.db").exists());
}

/// A disk too slow for all rows in the time given: fewer are loaded, and exactly those must be there.
#[test]
fn a_demonstration_that_runs_out_of_time_still_counts_every_row() {
    let shell = Shell::new();
    let steps =
        shell.json(&["demo", "--rows", "200000", "--seconds", "0.2", "--threads", "4", "--dir", "demo.db"]);
    let rows = |name| -> u64 {
        let step = steps.iter().find(|step| step["demo"] == name).expect(name);
        step["rows"].as_u64().expect("a count")
    };
    assert!(rows("scan") < 200_000, "nothing was cut: {steps:?}");
    assert!(rows("scan") >= rows("load") + rows("resume"));
}

#[test]
fn bench_kv_prints_its_stable_fields() {
    let shell = Shell::new();
    for workload in ["put", "get", "mix", "scan", "bulk"] {
        let report = shell.json(&[
            "bench",
            "kv",
            "--dir",
            ".",
            "--workload",
            workload,
            "--n",
            "5000",
            "--seconds",
            "0.2",
            "--durability",
            "relaxed",
            "--cache",
            "64MiB",
        ]);
        let report = &report[0];
        assert_eq!((&report["bench"], &report["engine"]), (&"kv".into(), &"foreshore".into()));
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
    for structure in ["bplus", "std-btreemap"] {
        let args = [
            "bench",
            "index",
            "--structure",
            structure,
            "--n",
            "5000",
            "--threads",
            "2",
            "--seconds",
            "0.05",
        ];
        let phases = shell.json(&args);
        let mut names: Vec<_> = phases.iter().map(|phase| phase["phase"].as_str().expect("a name")).collect();
        names.sort_unstable();
        assert_eq!(names, ["insert", "lookup", "mixed", "scan100"]);
        for phase in &phases {
            assert_eq!((&phase["bench"], &phase["structure"]), (&"index".into(), &structure.into()));
            assert_eq!(phase["threads"], if structure == "bplus" { 2 } else { 1 });
            assert!(phase["ops_per_s"].is_number() && phase["bytes_per_key"].is_number(), "{phase}");
        }
    }
}
