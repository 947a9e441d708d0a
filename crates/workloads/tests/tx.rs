//! Record insertion, YCSB, the O2-Tree mixes and `tx` on the reference store.

mod common;

use common::object_of;
use foreshore_workloads::insert::InsertSpec;
use foreshore_workloads::kv::BenchError;
use foreshore_workloads::mix::MixSpec;
use foreshore_workloads::readers::ReadersSpec;
use foreshore_workloads::rows::RowsSpec;
use foreshore_workloads::tx::TxSpec;
use foreshore_workloads::tx_reference::MapTxStore;
use foreshore_workloads::tx_report::TxReport;
use foreshore_workloads::tx_spec::{RunSpec, TxArgs, TxWorkload};
use foreshore_workloads::ycsb::{Letter, YcsbSpec};
use foreshore_workloads::{Durability, TxStore};

fn args<W: TxWorkload>(workload: W, threads: usize) -> TxArgs<W> {
    let run = RunSpec {
        threads,
        seconds: 0.1,
        warm_up_seconds: 0.02,
        durability: Durability::Relaxed,
        cache_bytes: 1 << 20,
        seed: 9,
    };
    TxArgs { dir: ".".into(), workload, run, json: false }
}

fn json<W: TxWorkload>(workload: W, store: &impl TxStore, threads: usize) -> Result<String, BenchError> {
    let report = args(workload, threads).measure("test", store, &|_| {})?;
    assert_eq!(report.columns()[1].1, threads.to_string());
    Ok(serde_json::to_string(&report).unwrap())
}

const INSERT: InsertSpec = InsertSpec { rows_per_commit: 50, rows_per_call: 20, row_bytes: 100 };
const TX: TxSpec = TxSpec { reads: 4, updates: 4, n: 500 };
const READERS: ReadersSpec = ReadersSpec { readers: 2, reads: 4, updates: 4, n: 500, turns: 2 };
const MIX: MixSpec = MixSpec { update_ratio: 60, n: 700 };
const LETTERS: [Letter; 6] = [Letter::A, Letter::B, Letter::C, Letter::D, Letter::E, Letter::F];

/// TPC-H's ORDERS, since tests have no file of flights.
fn orders() -> RowsSpec {
    RowsSpec { input: Vec::new(), n: 500 }
}

fn ycsb(workload: Letter) -> YcsbSpec {
    YcsbSpec { workload, n: 500, value_bytes: 100 }
}

#[test]
fn every_workload_runs_on_a_right_store() {
    for threads in [1, 3] {
        json(INSERT, &MapTxStore::default(), threads).unwrap();
        json(TX, &MapTxStore::default(), threads).unwrap();
        json(TxSpec { updates: 0, ..TX }, &MapTxStore::default(), threads).unwrap();
        json(READERS, &MapTxStore::default(), threads).unwrap();
        json(MIX, &MapTxStore::default(), threads).unwrap();
        json(orders(), &MapTxStore::default(), threads).unwrap();
        for letter in LETTERS {
            json(ycsb(letter), &MapTxStore::default(), threads)
                .unwrap_or_else(|error| panic!("{letter:?} × {threads}: {error}"));
        }
    }
}

/// What a lost attempt did must not show.
#[test]
fn transactions_begin_afresh_after_a_conflict() {
    let with_aborts = |text: String| assert!(!text.contains("\"aborts\":0"), "{text}");
    with_aborts(json(INSERT, &MapTxStore::with_conflicts(3), 2).unwrap());
    with_aborts(json(TX, &MapTxStore::with_conflicts(3), 2).unwrap());
    with_aborts(json(READERS, &MapTxStore::with_conflicts(3), 2).unwrap());
    with_aborts(json(MIX, &MapTxStore::with_conflicts(3), 2).unwrap());
    with_aborts(json(ycsb(Letter::F), &MapTxStore::with_conflicts(3), 2).unwrap());
}

/// Others read these objects: their names and their order are a promise.
#[test]
fn reports_keep_their_fields() {
    let check = |text: String, bench: &str, own: &str, rate: &str| {
        let setting = "threads durability isolation seconds warm_up_seconds seed cache_bytes";
        let figures = "p50_us p99_us max_us aborts log_bytes_per_tx syncs cpu_s checked";
        let object = object_of(&text, &format!("bench engine {own} {setting} {rate} {figures}"));
        assert_eq!((object["bench"].as_str(), object["checked"].as_bool()), (Some(bench), Some(true)));
        assert!(object[rate].as_f64().unwrap() > 0.0, "{text}");
    };
    let store = MapTxStore::default;
    let own = "rows_per_commit rows_per_call row_bytes";
    check(json(INSERT, &store(), 1).unwrap(), "insert", own, "ops_per_s");
    check(json(TX, &store(), 1).unwrap(), "tx", "reads updates n", "tps");
    check(json(MIX, &store(), 1).unwrap(), "mix", "update_ratio n", "ops_per_s");
    check(json(ycsb(Letter::A), &store(), 1).unwrap(), "ycsb", "workload n value_bytes", "ops_per_s");
}

/// Both phases are measured, and only they: the ratio is of the two rates, give or take the median's choice of a turn.
#[test]
fn readers_are_measured_with_and_without_writers() {
    let text = json(ReadersSpec { turns: 1, ..READERS }, &MapTxStore::default(), 2).unwrap();
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let number = |field: &str| report[field].as_f64().unwrap_or_else(|| panic!("no {field} in {text}"));
    assert_eq!((report["bench"].as_str(), report["checked"].as_bool()), (Some("readers"), Some(true)));
    assert_eq!((number("readers"), number("threads"), number("turns")), (2.0, 2.0, 1.0));
    assert!(number("write_tps") > 0.0, "{text}");
    let ratio = number("read_tps_beside_writers") / number("read_tps_alone");
    assert!((ratio - number("kept")).abs() < 0.01 * ratio.max(0.1) + 0.001, "{text}");
}

/// Nor is the engine blamed for a file that has no rows, or the same twice.
#[test]
fn files_of_rows_are_refused_by_flag() {
    const HEADER: &str = "year,month,day,carrier,flight,origin,dest\n";
    const FLIGHT: &str = "2014,1,1,AS,145,PDX,ANC\n";
    let dir = tempfile::tempdir().unwrap();
    let run = |text: String| {
        let file = dir.path().join("flights.csv");
        std::fs::write(&file, text).unwrap();
        json(RowsSpec { input: vec![file], n: 500 }, &MapTxStore::default(), 2)
    };
    run(format!("{HEADER}{FLIGHT}")).unwrap();
    for text in [HEADER.to_owned(), format!("{HEADER}{FLIGHT}{FLIGHT}")] {
        match run(text) {
            Err(BenchError::Usage(text)) => assert!(text.starts_with("--input"), "{text}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn impossible_runs_are_refused_by_flag() {
    let refused = |outcome: Result<String, BenchError>, flag: &str| match outcome {
        Err(BenchError::Usage(text)) => assert!(text.starts_with(flag), "{text}"),
        other => panic!("{flag}: {other:?}"),
    };
    let store = MapTxStore::default();
    refused(json(TX, &store, 0), "--threads");
    refused(json(TX, &store, 100_000), "--threads");
    refused(json(TxSpec { reads: 0, updates: 0, ..TX }, &store, 1), "--reads");
    refused(json(TxSpec { reads: usize::MAX, ..TX }, &store, 1), "--reads");
    refused(json(TxSpec { updates: usize::MAX, ..TX }, &store, 1), "--reads, --updates");
    refused(json(READERS, &store, 0), "--threads");
    refused(json(ReadersSpec { reads: usize::MAX, ..READERS }, &store, 1), "--reads");
    refused(json(ReadersSpec { updates: usize::MAX, ..READERS }, &store, 1), "--reads, --updates");
    refused(json(ReadersSpec { readers: 0, ..READERS }, &store, 1), "--readers");
    refused(json(ReadersSpec { turns: 0, ..READERS }, &store, 1), "--turns");
    refused(json(ReadersSpec { n: 0, ..READERS }, &store, 1), "--n");
    refused(json(TxSpec { n: 0, ..TX }, &store, 1), "--n");
    refused(json(MixSpec { n: 1, ..MIX }, &store, 9), "--n");
    refused(json(MixSpec { n: 1 << 32, ..MIX }, &store, 1), "--n");
    refused(json(InsertSpec { rows_per_commit: 0, ..INSERT }, &store, 1), "--rows-per-commit");
    refused(json(InsertSpec { rows_per_call: 0, ..INSERT }, &store, 1), "--rows-per-call");
    refused(json(InsertSpec { row_bytes: 15, ..INSERT }, &store, 1), "--row-bytes");
    refused(json(InsertSpec { row_bytes: usize::MAX, ..INSERT }, &store, 1), "--row-bytes");
    refused(json(YcsbSpec { value_bytes: usize::MAX, ..ycsb(Letter::A) }, &store, 1), "--value-bytes");
    refused(json(YcsbSpec { value_bytes: 7, ..ycsb(Letter::A) }, &store, 1), "--value-bytes");
}
