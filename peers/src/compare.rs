//! `peers compare`: Foreshore and peers by turns, so that a slow minute of the machine hits all of them.
//!
//! Every run is a process of its own with an empty directory, its seed the first seed plus the number of the turn. What
//! is compared are medians over the turns, with the extremes beside them; every single run is kept in the CSV. Beside the rate
//! stands that per second of processor time, of client and server together: the only fair one where there is a server.

use crate::engine::Engine;
use crate::host;
use clap::ValueEnum;
use comfy_table::{Table, presets};
use foreshore_workloads::{Durability, StoreError};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What to compare.
#[derive(clap::Args)]
pub struct Options {
    /// The `foreshore` binary; without it only peers run
    #[arg(long, value_name = "PATH")]
    foreshore: Option<PathBuf>,
    /// Peers
    #[arg(long, value_enum, value_delimiter = ',', default_value = "lmdb,redb,fjall")]
    engines: Vec<Engine>,
    /// Workloads: those of `bench kv`, and TPC-C
    #[arg(long, value_enum, value_delimiter = ',', default_value = "put,get,mix,scan,bulk")]
    workloads: Vec<Task>,
    /// Thread counts; `bulk` always runs on one, and TPC-C has a warehouse for each
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
    /// Turns
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    repeats: u64,
    /// Where the stores may live
    #[arg(long)]
    dir: PathBuf,
    /// Where `<date>-<host>/` is written; nothing is without it
    #[arg(long, value_name = "DIR", requires = "host")]
    results: Option<PathBuf>,
    /// A name for the machine, in the results
    #[arg(long, value_name = "NICKNAME")]
    host: Option<String>,
    /// Name of the CSV file
    #[arg(long, default_value = "kv")]
    name: String,
    /// Rows
    #[arg(long, default_value_t = 5_000_000)]
    n: u64,
    /// Seconds of each timed phase
    #[arg(long, default_value_t = 6.0)]
    seconds: f64,
    /// What an acknowledged write survives
    #[arg(long, value_enum, default_value_t = Durability::Buffered)]
    durability: Durability,
    /// Updates of `mix`, in percent
    #[arg(long, value_name = "PCT", default_value_t = 40)]
    update_ratio: u8,
    /// Memory for cached data
    #[arg(long, value_name = "BYTES", default_value_t = 5 << 29)]
    cache: u64,
    /// Bytes of a key
    #[arg(long, default_value_t = 4)]
    key_bytes: usize,
    /// Bytes of a value
    #[arg(long, default_value_t = 8)]
    value_bytes: usize,
    /// Seed of the first turn
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Task {
    /// Puts
    Put,
    /// Gets
    Get,
    /// Gets and updates
    Mix,
    /// Scans
    Scan,
    /// A bulk load
    Bulk,
    /// TPC-C, full mix, each thread at home in a warehouse of its own
    Tpcc,
}

impl Task {
    /// What its report calls the rate.
    fn rate(self) -> &'static str {
        if self == Self::Tpcc { "tps" } else { "ops_per_s" }
    }
}

/// The exit code with which an engine refuses what it cannot do.
const USAGE: i32 = 2;

/// One combination, and what its runs found.
struct Cell {
    workload: Task,
    threads: usize,
    /// `None` is Foreshore.
    engine: Option<Engine>,
    runs: Vec<Value>,
    /// Why there are no runs.
    refused: Option<String>,
}

impl Cell {
    fn engine(&self) -> String {
        self.engine.map_or("foreshore".to_owned(), Engine::name)
    }

    /// Median, least and greatest of a field over the runs.
    fn spread(&self, field: &str) -> Option<[f64; 3]> {
        self.spread_of(|run| run[field].as_f64())
    }

    /// The same of the rate per second of processor time, where the report tells that.
    fn per_cpu_second(&self) -> Option<[f64; 3]> {
        let rate = self.workload.rate();
        self.spread_of(|run| {
            Some(
                run[rate].as_f64()? * run["seconds"].as_f64()?
                    / run["cpu_s"].as_f64().filter(|cpu| *cpu > 0.0)?,
            )
        })
    }

    fn spread_of(&self, figure: impl Fn(&Value) -> Option<f64>) -> Option<[f64; 3]> {
        let values: Vec<_> = self.runs.iter().filter_map(figure).collect();
        let least = values.iter().copied().reduce(f64::min)?;
        let greatest = values.iter().copied().reduce(f64::max)?;
        Some([median(values)?, least, greatest])
    }
}

/// The middle one, or what is between the two in the middle; `None` of nothing.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (lower, upper) = (values.get(values.len().checked_sub(1)? / 2)?, values[values.len() / 2]);
    Some(lower.midpoint(upper))
}

/// Runs all turns, and writes the results after each; prints the table.
///
/// Errors: a run that fails for another reason than that its engine refuses the combination.
pub fn run(options: &Options) -> Result<(), StoreError> {
    std::fs::create_dir_all(&options.dir)?;
    let mut cells = cells(options);
    let before = host::describe(&options.dir);
    let results = options.results.as_ref().zip(options.host.as_ref());
    let results = results.map(|(results, host)| results.join(format!("{}-{host}", host::today())));
    for turn in 0..options.repeats {
        let measured = take_turn(options, &mut cells, turn);
        // Of hours of turns none is lost when a later one fails.
        if let Some(results) = &results {
            write_results(options, results, &cells, &before)?;
        }
        measured?;
    }
    print!("{}", told(&cells));
    for cell in &cells {
        if let Some(why) = &cell.refused {
            println!("refused: {} × {}: {why}", name(&cell.workload), cell.threads);
        }
    }
    if let Some(results) = results {
        println!("written to {}", results.display());
    }
    Ok(())
}

/// One run of each combination that its engine has not refused.
fn take_turn(options: &Options, cells: &mut [Cell], turn: u64) -> Result<(), StoreError> {
    for cell in cells.iter_mut().filter(|cell| cell.refused.is_none()) {
        let (engine, workload, threads) = (cell.engine(), cell.workload, cell.threads);
        eprintln!("turn {} of {}: {engine} {workload:?} × {threads}", turn + 1, options.repeats);
        measure(options, cell, options.seed + turn)?;
    }
    Ok(())
}

fn cells(options: &Options) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &workload in &options.workloads {
        let threads = if workload == Task::Bulk { &[1] } else { options.threads.as_slice() };
        for &threads in threads {
            let foreshore = options.foreshore.iter().map(|_| None);
            for engine in foreshore.chain(options.engines.iter().copied().map(Some)) {
                cells.push(Cell { workload, threads, engine, runs: Vec::new(), refused: None });
            }
        }
    }
    cells
}

/// One run, in a process of its own.
fn measure(options: &Options, cell: &mut Cell, seed: u64) -> Result<(), StoreError> {
    let output = command(options, cell, seed)?.output()?;
    let complaint = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    match output.status.code() {
        Some(0) => {}
        Some(USAGE) => {
            cell.refused = Some(complaint);
            return Ok(());
        }
        _ => return Err(format!("{} failed ({}): {complaint}", cell.engine(), output.status).into()),
    }
    cell.runs.push(serde_json::from_slice(&output.stdout)?);
    Ok(())
}

fn command(options: &Options, cell: &Cell, seed: u64) -> Result<Command, StoreError> {
    let mut command = match (&options.foreshore, cell.engine) {
        (Some(foreshore), None) => Command::new(foreshore),
        _ => Command::new(std::env::current_exe()?),
    };
    let bench = if cell.workload == Task::Tpcc { "tpcc" } else { "kv" };
    // Foreshore as it is, not as this shell's profile would have it.
    command.env_remove("FORESHORE_PROFILE");
    command.args(["bench", bench]);
    if let Some(engine) = cell.engine {
        command.args(["--engine", &engine.name()]);
    }
    command.arg("--dir").arg(&options.dir);
    for (flag, value) in [
        ("--threads", cell.threads.to_string()),
        ("--seconds", options.seconds.to_string()),
        ("--durability", name(&options.durability)),
        ("--cache", options.cache.to_string()),
        ("--seed", seed.to_string()),
    ] {
        command.args([flag, &value]);
    }
    match cell.workload {
        Task::Tpcc => command.args(["--affinity", "--warehouses", &cell.threads.to_string()]),
        kv => command.args(kv_flags(options, kv).iter().flat_map(|(flag, value)| [*flag, value.as_str()])),
    };
    command.arg("--json");
    Ok(command)
}

fn kv_flags(options: &Options, workload: Task) -> [(&'static str, String); 5] {
    [
        ("--workload", name(&workload)),
        ("--n", options.n.to_string()),
        ("--update-ratio", options.update_ratio.to_string()),
        ("--key-bytes", options.key_bytes.to_string()),
        ("--value-bytes", options.value_bytes.to_string()),
    ]
}

/// What a value is called on the command line.
pub fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().expect("no value is hidden").get_name().to_owned()
}

fn table(cells: &[Cell]) -> Table {
    let mut table = Table::new();
    let header = [
        "workload",
        "threads",
        "engine",
        "per second, median",
        "min",
        "max",
        "per cpu second",
        "p50 µs",
        "p99 µs",
        "max µs",
        "syncs",
    ];
    table.load_style(presets::NOTHING).set_header(header);
    for cell in cells {
        let mut row = vec![name(&cell.workload), cell.threads.to_string(), cell.engine()];
        match (&cell.refused, cell.spread(cell.workload.rate())) {
            (Some(_), _) => row.push("refused".to_owned()),
            (None, None) => row.push("no run".to_owned()),
            (None, Some(ops)) => {
                row.extend(ops.iter().map(|ops| format!("{ops:.0}")));
                row.push(cell.per_cpu_second().map_or("-".to_owned(), |[median, ..]| format!("{median:.0}")));
                let median =
                    |field| cell.spread(field).map_or("-".to_owned(), |[median, ..]| format!("{median:.2}"));
                row.extend(["p50_us", "p99_us", "max_us", "syncs"].map(median));
            }
        }
        table.add_row(row);
    }
    table
}

/// What must be said beside the figures, once each.
fn caveats(cells: &[Cell]) -> Vec<&'static str> {
    let mut caveats: Vec<_> = cells.iter().filter_map(|cell| cell.engine?.caveat()).collect();
    caveats.dedup();
    caveats
}

/// The table, and what must be said beside it.
fn told(cells: &[Cell]) -> String {
    let mut told = table(cells).to_string();
    for caveat in caveats(cells) {
        told += "\n";
        told += caveat;
    }
    told + "\n"
}

/// Writes `<name>.csv` (a line per run), `<name>.txt` (the table) and `host.txt`.
fn write_results(options: &Options, dir: &Path, cells: &[Cell], host: &str) -> Result<(), StoreError> {
    std::fs::create_dir_all(dir)?;
    let fields = [
        "engine",
        "version",
        "bench",
        "workload",
        "threads",
        "ops_per_s",
        "tps",
        "cpu_s",
        "p50_us",
        "p99_us",
        "max_us",
        "syncs",
        "n",
        "seconds",
        "seed",
        "durability",
        "cache_bytes",
        "key_bytes",
        "value_bytes",
        "update_ratio",
        "isolation",
        "aborts",
        "mix",
        "warehouses",
        "items",
        "customers",
        "affinity",
    ];
    let mut csv = fields.join(",") + "\n";
    for run in cells.iter().flat_map(|cell| &cell.runs) {
        let line = fields.map(|field| match &run[field] {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        });
        writeln!(csv, "{}", line.join(","))?;
    }
    std::fs::write(dir.join(format!("{}.csv", options.name)), csv)?;
    std::fs::write(dir.join(format!("{}.txt", options.name)), told(cells))?;
    std::fs::write(dir.join("host.txt"), format!("{host}load after: {}\n", host::load()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        _options: Options,
    }

    /// It would say that it wrote results, and have none.
    #[test]
    fn no_turns_are_refused() {
        let takes = |repeats| Line::try_parse_from(["compare", "--dir", ".", "--repeats", repeats]).is_ok();
        assert!(takes("1") && !takes("0"));
    }
}
