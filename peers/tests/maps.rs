//! Every map with every kind of keys it takes, in small: the runs check their own answers.

use serde_json::Value;
use std::process::Command;

const MAPS: [&str; 7] =
    ["bplustree", "concurrent-map", "congee", "crossbeam-skiplist", "ferntree", "masstree", "scc"];
/// They take integers only.
const INTEGERS: [&str; 3] = ["congee", "ferntree", "masstree"];
const USAGE: i32 = 2;

/// What bplustree reads beside writers makes Rust's own checks of unsafe code, which tests are built with, stop the program.
fn threads(map: &str) -> &str {
    if map == "bplustree" { "1" } else { "2" }
}

#[test]
fn every_map_runs_every_phase() {
    for map in MAPS {
        for keys in ["u64", "u32", "bytes"] {
            let output = Command::new(env!("CARGO_BIN_EXE_peers"))
                .args(["bench", "index", "--structure", map, "--keys", keys, "--n", "3000"])
                .args(["--threads", threads(map), "--seconds", "0.02", "--json"])
                .output()
                .expect("peers runs");
            let complaint = String::from_utf8_lossy(&output.stderr);
            if keys == "bytes" && INTEGERS.contains(&map) {
                assert_eq!(output.status.code(), Some(USAGE), "{map}: {complaint}");
                continue;
            }
            assert!(output.status.success(), "{map}, {keys}: {complaint}");
            let lines = String::from_utf8(output.stdout).expect("UTF-8");
            let phases: Vec<Value> =
                lines.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
            let names: Vec<_> = phases.iter().map(|phase| phase["phase"].as_str().expect("a name")).collect();
            assert_eq!(names, ["insert", "lookup", "scan100", "zipf", "mixed"], "{map}, {keys}");
            for phase in &phases {
                assert_eq!((&phase["structure"], &phase["keys"]), (&map.into(), &keys.into()));
                assert!(phase["ops_per_s"].as_f64() > Some(0.0), "{phase}");
            }
        }
    }
}
