//! `cargo xtask figures`: the figures that Foreshore promises, measured, beside those it is compared with.
//!
//! Each figure is a rate of one run, or the ratio of two, or of two fields. The runs go by turns, each in a process and a
//! directory of its own, so that a slow minute of the machine hits all of them; a figure is the median over the turns,
//! where it is a ratio, of the ratios within a turn. Every run checks its own answers, and a wrong one ends everything.

use crate::step::choose;
use comfy_table::{Table, presets};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is measured, and where it is written.
#[derive(clap::Args)]
pub struct Options {
    /// An optimised `foreshore`
    #[arg(long, value_name = "PATH", default_value = "target/release/foreshore")]
    foreshore: PathBuf,
    /// An optimised `peers`
    #[arg(long, value_name = "PATH", default_value = "peers/target/release/peers")]
    peers: PathBuf,
    /// Where the stores live while they are measured: on the disk that matters
    #[arg(long, value_name = "DIR", default_value = "tmp/figures")]
    dir: PathBuf,
    /// Turns
    #[arg(long, default_value_t = 5)]
    turns: usize,
    /// Only figures whose names contain one of these
    #[arg(long, value_name = "PART")]
    only: Vec<String>,
    /// Write every run (figures.jsonl) and the table (figures.txt) into this directory
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
}

/// A figure: what it is called, what it is made of, and what it should be.
struct Figure {
    name: &'static str,
    of: Of,
    goal: Goal,
}

enum Of {
    /// A field of a run: see [`Field`].
    One(&'static str),
    /// One field divided by another.
    Ratio(&'static str, &'static str),
}

enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

use Goal::{AtLeast, AtMost};
use Of::{One, Ratio};

/// `RUN/PHASE/FIELD` or `RUN/FIELD`; the usual field is the rate.
struct Field<'a> {
    run: &'a str,
    phase: Option<&'a str>,
    field: Option<&'a str>,
}

/// The commands, by the names that fields use. `{peers}` runs the other program.
const RUNS: &[(&str, &str)] = &[
    ("index-1", "bench index --structure bplus"),
    ("index-2", "bench index --structure bplus --threads 2"),
    ("index-16", "bench index --structure bplus --threads 16"),
    ("index-bytes", "bench index --structure bplus --keys bytes"),
    ("btreemap", "bench index --structure std-btreemap"),
    ("btreemap-bytes", "bench index --structure std-btreemap --keys bytes"),
    ("o2-2", "bench index --structure o2 --threads 2"),
    ("o2-optimistic-2", "bench index --structure o2-optimistic --threads 2"),
    ("static-10", "bench index --structure static --keys u32 --n 10000000"),
    ("static-64", "bench index --structure static --keys u32 --n 64000000"),
    ("get-1", "bench kv --workload get --durability buffered"),
    ("get-2", "bench kv --workload get --durability buffered --threads 2"),
    ("lmdb-get-1", "{peers} bench kv --engine lmdb --workload get --durability relaxed"),
    ("lmdb-get-2", "{peers} bench kv --engine lmdb --workload get --durability relaxed --threads 2"),
    ("put-1", "bench kv --workload put --durability buffered"),
    ("put-2", "bench kv --workload put --durability buffered --threads 2"),
    ("fjall-put-1", "{peers} bench kv --engine fjall --workload put --durability buffered"),
    ("fjall-put-2", "{peers} bench kv --engine fjall --workload put --durability buffered --threads 2"),
    ("mix-2", "bench kv --workload mix --update-ratio 40 --durability buffered --threads 2"),
    ("scan", "bench kv --workload scan --durability buffered"),
    ("bulk", "bench kv --workload bulk --durability buffered"),
    ("sync-16", "bench kv --workload put --durability sync --threads 16 --n 1000000"),
    ("sync-1", "bench kv --workload put --durability sync --n 1000000"),
    ("tpcc-1", "bench tpcc --warehouses 1 --threads 1 --affinity --durability buffered"),
    ("tpcc-2", "bench tpcc --warehouses 2 --threads 2 --affinity --durability buffered"),
    (
        "lmdb-tpcc",
        "{peers} bench tpcc --engine lmdb --warehouses 1 --threads 1 --affinity --durability relaxed",
    ),
    ("payment-1", "bench tpcc --mix payment --warehouses 1 --threads 1 --affinity --durability buffered"),
    ("payment-2", "bench tpcc --mix payment --warehouses 2 --threads 2 --affinity --durability buffered"),
    ("new-order-1", "bench tpcc --mix new-order --warehouses 1 --threads 1 --affinity --durability buffered"),
    ("new-order-2", "bench tpcc --mix new-order --warehouses 2 --threads 2 --affinity --durability buffered"),
    ("tx-2", "bench tx --reads 4 --updates 4 --threads 2 --durability buffered"),
    ("tx-16", "bench tx --reads 4 --updates 4 --threads 16 --durability buffered"),
    ("tx-sync-16", "bench tx --reads 4 --updates 4 --threads 16 --durability sync"),
    ("insert-1", "bench insert --threads 1 --durability buffered"),
    ("insert-2", "bench insert --threads 2 --durability buffered"),
    ("ycsb-a", "bench ycsb --workload a --threads 2 --durability buffered --n 2000000 --value-bytes 100"),
    ("ycsb-b", "bench ycsb --workload b --threads 2 --durability buffered --n 2000000 --value-bytes 100"),
    ("ycsb-c", "bench ycsb --workload c --threads 2 --durability buffered --n 2000000 --value-bytes 100"),
    ("ycsb-e", "bench ycsb --workload e --threads 2 --durability buffered --n 2000000 --value-bytes 100"),
    ("ycsb-f", "bench ycsb --workload f --threads 2 --durability buffered --n 2000000 --value-bytes 100"),
    ("readers", "bench readers --durability buffered"),
];

/// What every run of a kind is given besides.
const COMMON: &[(&str, &str)] = &[
    ("bench kv", "--cache 1073741824 --seconds 3"),
    ("bench index --structure static", "--seconds 3"),
    ("bench index", "--n 10000000 --seconds 3"),
    ("bench tpcc", "--seconds 4"),
    ("bench tx", "--seconds 3"),
    ("bench insert", "--seconds 3"),
    ("bench ycsb", "--seconds 3"),
    ("bench readers", "--seconds 2"),
];

const FIGURES: &[Figure] = &[
    figure("index: lookups ÷ BTreeMap, 1 thread", Ratio("index-1/lookup/", "btreemap/lookup/"), AtLeast(4.5)),
    figure(
        "index: lookups ÷ BTreeMap, 2 threads",
        Ratio("index-2/lookup/", "btreemap/lookup/"),
        AtLeast(8.5),
    ),
    figure(
        "index: batches of lookups ÷ BTreeMap",
        Ratio("index-1/multi_get/", "btreemap/lookup/"),
        AtLeast(15.0),
    ),
    figure("index: inserts ÷ BTreeMap, 1 thread", Ratio("index-1/insert/", "btreemap/insert/"), AtLeast(2.2)),
    figure(
        "index: inserts ÷ BTreeMap, 2 threads",
        Ratio("index-2/insert/", "btreemap/insert/"),
        AtLeast(4.2),
    ),
    figure("index: mixed ÷ BTreeMap, 1 thread", Ratio("index-1/mixed/", "btreemap/mixed/"), AtLeast(3.6)),
    figure("index: mixed ÷ BTreeMap, 2 threads", Ratio("index-2/mixed/", "btreemap/mixed/"), AtLeast(7.0)),
    figure(
        "index: scans of 100 ÷ BTreeMap, 1 thread",
        Ratio("index-1/scan100/", "btreemap/scan100/"),
        AtLeast(7.0),
    ),
    figure(
        "index: scans of 100 ÷ BTreeMap, 2 threads",
        Ratio("index-2/scan100/", "btreemap/scan100/"),
        AtLeast(14.0),
    ),
    figure("index: bytes per key", One("index-1/lookup/bytes_per_key"), AtMost(25.0)),
    figure("index: Zipf updates, 2 threads ÷ 1", Ratio("index-2/zipf/", "index-1/zipf/"), AtLeast(1.5)),
    figure("index: lookups, 16 threads ÷ 2", Ratio("index-16/lookup/", "index-2/lookup/"), AtLeast(1.0)),
    figure("index: inserts, 16 threads ÷ 2", Ratio("index-16/insert/", "index-2/insert/"), AtLeast(1.0)),
    figure("index: mixed, 16 threads ÷ 2", Ratio("index-16/mixed/", "index-2/mixed/"), AtLeast(1.0)),
    figure(
        "index: strings, lookups ÷ BTreeMap",
        Ratio("index-bytes/lookup/", "btreemap-bytes/lookup/"),
        AtLeast(3.0),
    ),
    figure(
        "o2: optimistic lookups ÷ the paper's, 2 threads",
        Ratio("o2-optimistic-2/lookup/", "o2-2/lookup/"),
        AtLeast(2.0),
    ),
    // Goals in nanoseconds a lookup: 70 and 12.
    figure("static: lookups a second, 10 M keys", One("static-10/lookup/"), AtLeast(1e9 / 70.0)),
    figure("static: ranks a second, 10 M keys", One("static-10/bound/"), AtLeast(1e9 / 70.0)),
    figure("static: batched lookups, 64 M keys", One("static-64/lookup128/"), AtLeast(1e9 / 12.0)),
    figure("static: batched ranks, 64 M keys", One("static-64/bound128/"), AtLeast(1e9 / 12.0)),
    figure("kv: get ÷ LMDB, 1 thread", Ratio("get-1", "lmdb-get-1"), AtLeast(1.5)),
    figure("kv: get ÷ LMDB, 2 threads", Ratio("get-2", "lmdb-get-2"), AtLeast(1.5)),
    figure("kv: put ÷ fjall, 1 thread", Ratio("put-1", "fjall-put-1"), AtLeast(2.0)),
    figure("kv: put ÷ fjall, 2 threads", Ratio("put-2", "fjall-put-2"), AtLeast(2.0)),
    figure("kv: 40 % updates, 2 threads", One("mix-2"), AtLeast(800e3)),
    figure("kv: rows scanned a second", One("scan"), AtLeast(30e6)),
    figure("kv: sorted rows loaded a second", One("bulk"), AtLeast(8e6)),
    figure("kv: longest put in µs, 2 threads", One("put-2/max_us"), AtMost(50e3)),
    figure("tpcc: transactions a second, 1 thread", One("tpcc-1"), AtLeast(50e3)),
    figure("tpcc: ÷ LMDB, 1 thread", Ratio("tpcc-1", "lmdb-tpcc"), AtLeast(2.6)),
    figure("tpcc: 2 threads ÷ 1", Ratio("tpcc-2", "tpcc-1"), AtLeast(1.8)),
    figure("tpcc: bytes of log a transaction", One("tpcc-1/log_bytes_per_tx"), AtMost(1500.0)),
    figure("tpcc: payment only, 2 threads ÷ 1", Ratio("payment-2", "payment-1"), AtLeast(1.8)),
    figure("tpcc: new-order only, 2 threads ÷ 1", Ratio("new-order-2", "new-order-1"), AtLeast(1.8)),
    figure("tx: 4 reads + 4 updates a second, 2 threads", One("tx-2"), AtLeast(120e3)),
    figure("tx: 16 threads ÷ 2", Ratio("tx-16", "tx-2"), AtLeast(1.0)),
    figure("tx: sync, 16 threads", One("tx-sync-16"), AtLeast(50e3)),
    figure("tx: p99 in µs, sync, 16 threads", One("tx-sync-16/p99_us"), AtMost(1500.0)),
    figure("sync puts: commits a sync, 16 threads", Ratio("sync-16", "sync-16/syncs_per_s"), AtLeast(8.0)),
    // What the device allows: syncs one after another, as one thread makes them.
    figure("sync puts: ÷ what group and device allow", Ratio("sync-16/syncs_per_s", "sync-1"), AtLeast(0.8)),
    figure("insert: rows a second, 1 thread", One("insert-1"), AtLeast(1.5e6)),
    figure("insert: 2 threads ÷ 1", Ratio("insert-2", "insert-1"), AtLeast(1.9)),
    figure("ycsb: A, 2 threads", One("ycsb-a"), AtLeast(1.2e6)),
    figure("ycsb: B, 2 threads", One("ycsb-b"), AtLeast(2e6)),
    figure("ycsb: C, 2 threads", One("ycsb-c"), AtLeast(4e6)),
    figure("ycsb: E, 2 threads", One("ycsb-e"), AtLeast(500e3)),
    figure("ycsb: F, 2 threads", One("ycsb-f"), AtLeast(1e6)),
    figure("readers: speed kept beside writers", One("readers/kept"), AtLeast(0.9)),
];

const fn figure(name: &'static str, of: Of, goal: Goal) -> Figure {
    Figure { name, of, goal }
}

impl Of {
    fn fields(&self) -> Vec<Field<'static>> {
        match *self {
            One(field) => vec![Field::parse(field)],
            Ratio(above, below) => vec![Field::parse(above), Field::parse(below)],
        }
    }
}

impl<'a> Field<'a> {
    fn parse(text: &'a str) -> Self {
        let parts: Vec<_> = text.split('/').collect();
        let present = |part: &&'a str| (!part.is_empty()).then_some(*part);
        match &parts[..] {
            [run, phase, field] => Self { run, phase: Some(phase), field: present(field) },
            [run, field] => Self { run, phase: None, field: present(field) },
            _ => Self { run: text, phase: None, field: None },
        }
    }

    /// What the lines of one run say.
    fn of(&self, lines: &[Map<String, Value>]) -> Option<f64> {
        let line = lines.iter().find(|line| {
            self.phase.is_none_or(|phase| line.get("phase").and_then(Value::as_str) == Some(phase))
        })?;
        let number = |field: &str| line.get(field).and_then(Value::as_f64);
        match self.field {
            Some("syncs_per_s") => Some(number("syncs")? / number("seconds")?),
            Some(field) => number(field),
            None => number("ops_per_s").or_else(|| number("tps")),
        }
    }
}

/// The lines of all runs of one turn.
type Turn = BTreeMap<&'static str, Vec<Map<String, Value>>>;

/// Measures, and prints the table after each turn. `Ok(true)`, or why not.
pub fn run(options: &Options) -> io::Result<bool> {
    let mut figures: Vec<_> = FIGURES.iter().collect();
    choose(&mut figures, &options.only, "figure", |figure| figure.name, |name, part| name.contains(part))?;
    let needed: Vec<_> =
        figures.iter().flat_map(|figure| figure.of.fields()).map(|field| field.run).collect();
    let runs: Vec<_> = RUNS.iter().filter(|(name, _)| needed.contains(name)).collect();
    let mut turns: Vec<Turn> = Vec::new();
    for number in 1..=options.turns {
        let mut turn = Turn::new();
        for (done, (name, command)) in runs.iter().enumerate() {
            eprintln!("turn {number} of {}, run {} of {}: {name}", options.turns, done + 1, runs.len());
            turn.insert(name, measure(options, command)?);
        }
        turns.push(turn);
        let table = table(&figures, &turns);
        println!("{table}");
        if let Some(dir) = &options.results {
            write(dir, &turns, &table)?;
        }
    }
    Ok(true)
}

/// Runs one command; the JSON objects that it printed. It makes an empty directory for its store, and removes that again.
fn measure(options: &Options, command: &str) -> io::Result<Vec<Map<String, Value>>> {
    let (program, words) = match command.strip_prefix("{peers} ") {
        Some(words) => (&options.peers, words),
        None => (&options.foreshore, command),
    };
    let common = COMMON.iter().find(|(kind, _)| words.starts_with(kind)).map_or("", |(_, flags)| flags);
    let mut child = Command::new(program);
    child.env_remove("FORESHORE_PROFILE"); // as it is, not as this shell's profile would have it
    child.args(words.split(' ')).args(common.split(' ')).arg("--json");
    if !words.starts_with("bench index") {
        child.arg("--dir").arg(&options.dir);
    }
    let output = child.output().map_err(|error| {
        let how = "build it with cargo build --release, the peers with --manifest-path peers/Cargo.toml";
        io::Error::other(format!("{}: {error}; {how}", program.display()))
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("{child:?}: {}: {said}", output.status)));
    }
    let lines = String::from_utf8_lossy(&output.stdout);
    Ok(lines.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

fn table(figures: &[&Figure], turns: &[Turn]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_BORDERS_ONLY)
        .set_header(["figure", "median", "least", "most", "goal", ""]);
    for figure in figures {
        let mut values: Vec<_> = turns.iter().filter_map(|turn| value(&figure.of, turn)).collect();
        values.sort_by(f64::total_cmp);
        let (&[least, ..], &[.., most]) = (&values[..], &values[..]) else {
            table.add_row([figure.name, "no such field"]);
            continue;
        };
        let median = median_of_sorted(&values);
        let (goal, reached) = match figure.goal {
            AtLeast(goal) => (format!("≥ {}", short(goal)), median >= goal),
            AtMost(goal) => (format!("≤ {}", short(goal)), median <= goal),
        };
        let mark = if reached { "reached" } else { "missed" };
        table.add_row([figure.name, &short(median), &short(least), &short(most), &goal, mark]);
    }
    table
}

fn value(of: &Of, turn: &Turn) -> Option<f64> {
    let values: Vec<_> =
        of.fields().iter().map(|field| field.of(turn.get(field.run)?)).collect::<Option<_>>()?;
    match values[..] {
        [one] => Some(one),
        [above, below] => Some(above / below),
        _ => None,
    }
}

/// The middle one, or what is between the two in the middle. Panics if there are none.
pub fn median_of_sorted(values: &[f64]) -> f64 {
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) { values[middle - 1].midpoint(values[middle]) } else { values[middle] }
}

/// Three digits, thousands as `k`, millions as `M`.
fn short(value: f64) -> String {
    let (scaled, unit) = match value {
        1e6.. => (value / 1e6, " M"),
        10e3.. => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let digits = if scaled >= 100.0 {
        0
    } else if scaled >= 10.0 {
        1
    } else {
        2
    };
    format!("{scaled:.digits$}{unit}")
}

fn write(dir: &Path, turns: &[Turn], table: &Table) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    fs::write(dir.join("figures.txt"), format!("Medians of {} turns.\n\n{table}\n", turns.len()))?;
    let mut file = io::BufWriter::new(File::create(dir.join("figures.jsonl"))?);
    for (number, turn) in (1..).zip(turns) {
        for (run, lines) in turn {
            for line in lines {
                let mut line = line.clone();
                line.insert("run".into(), (*run).into());
                line.insert("turn".into(), number.into());
                writeln!(file, "{}", serde_json::to_string(&line)?)?;
            }
        }
    }
    file.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(json: &str) -> Vec<Map<String, Value>> {
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn every_figure_names_runs_that_exist() {
        for field in FIGURES.iter().flat_map(|figure| figure.of.fields()) {
            assert!(RUNS.iter().any(|(name, _)| *name == field.run), "{}", field.run);
        }
        for (name, command) in RUNS {
            let words = command.trim_start_matches("{peers} ");
            assert!(COMMON.iter().any(|(kind, _)| words.starts_with(kind)), "{name}");
        }
    }

    /// Whoever measures on a disk of theirs has other files there.
    #[test]
    fn what_lies_in_the_directory_stays() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "kept").unwrap();
        let options = Options {
            foreshore: "true".into(),
            peers: "true".into(),
            dir: dir.path().to_owned(),
            turns: 1,
            only: Vec::new(),
            results: None,
        };
        assert!(measure(&options, "bench kv").unwrap().is_empty());
        assert_eq!(fs::read(&file).unwrap(), b"kept");
    }

    #[test]
    fn fields_are_found_by_phase_and_name() {
        let index = lines(
            "{\"phase\":\"insert\",\"ops_per_s\":1.0}\n{\"phase\":\"lookup\",\"ops_per_s\":3.0,\"bytes_per_key\":24.9}",
        );
        let kv = lines("{\"tps\":10.0,\"syncs\":4,\"seconds\":2.0,\"max_us\":7.5}");
        let turn = Turn::from([("index-1", index), ("kv", kv)]);
        assert_eq!(value(&One("index-1/lookup/"), &turn), Some(3.0));
        assert_eq!(value(&One("index-1/lookup/bytes_per_key"), &turn), Some(24.9));
        assert_eq!(value(&Ratio("kv", "kv/syncs_per_s"), &turn), Some(5.0));
        assert_eq!(value(&One("kv/max_us"), &turn), Some(7.5));
        assert_eq!(value(&One("kv/p99_us"), &turn), None);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [2.345, 12.0, 14_200.0, 5.9e6, 250e6].map(short),
            ["2.35", "12.0", "14.2 k", "5.90 M", "250 M"]
        );
    }

    #[test]
    fn a_median_of_two_is_between_them() {
        assert_eq!(median_of_sorted(&[1.0, 3.0]), 2.0);
        assert_eq!(median_of_sorted(&[1.0, 3.0, 9.0]), 3.0);
    }
}
