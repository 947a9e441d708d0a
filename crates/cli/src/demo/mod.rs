//! `demo`: the engine's main promise, shown from beginning to end.
//!
//! A child process loads rows into a durable database with many threads and tells each acknowledged row through a
//! pipe. In the middle it is killed with SIGKILL. This process then opens the database again, looks for every
//! acknowledged row, loads the rest, asks questions whose answers it knows, and checks all structures.
//!
//! Invariant D1: a row is told as acknowledged only after `put` returned, and what is in the pipe survives the child.
//! So every row told must be found. Rows that were on their way may be found, and must then be right.

mod acks;
mod child;
mod data;
mod steps;
mod verify;

use crate::args::engine_durability;
use crate::demo::acks::Acks;
use crate::demo::data::Dataset;
use crate::demo::steps::Steps;
use crate::failure::{Failure, Outcome};
use crate::load::loader_threads;
use crate::output::{grouped, rate, size};
use crate::progress::Meter;
use clap::Args;
use foreshore::{Database, Error};
use foreshore_workloads::Durability;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use child::{ChildArgs, run_child};

const EXAMPLES: &str = "\
Examples:
  foreshore demo
  foreshore demo --flights flights-houston-2011.csv.gz flights-pnw-2014.csv.gz
  foreshore demo --rows 1000000 --dir demo.db --keep && foreshore --help
  foreshore scan --dir demo.db --table orders --limit 3

Rows are made by tpchgen and so TPC-H-derived; figures are no TPC-H results. Exit code 3 if anything was lost.";

/// Load, kill -9 in the middle, recover, verify, load the rest, query, check: nothing may be lost
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct DemoArgs {
    /// Directory for the database: absent or empty [default: a new one under the system's directory for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Do not remove the database afterwards
    #[arg(long)]
    keep: bool,
    /// Seconds that loading may take; a slow disk then loads fewer rows
    #[arg(long, default_value_t = 20.0, value_parser = parse_seconds)]
    seconds: f64,
    /// Print one JSON object per step
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    load: LoadSpec,
}

/// What is loaded and how: parent and child must agree.
#[derive(Args, Clone, Debug)]
struct LoadSpec {
    /// TPC-H ORDERS rows
    #[arg(long, default_value_t = 300_000, value_parser = clap::value_parser!(u64).range(1..=15_000_000))]
    rows: u64,
    /// Flight tables as CSV, gzipped or not, loaded too
    #[arg(long, value_name = "FILE", num_args = 1..)]
    flights: Vec<PathBuf>,
    /// Loader threads [default: 64 with sync durability, else one per core]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// What an acknowledged row survives; each survives kill -9 but relaxed ones need not survive a power failure
    #[arg(long, value_enum, default_value_t = Durability::Sync)]
    durability: Durability,
    /// Memory for leaf pages: bytes, or 64MiB, 2GiB …
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = crate::args::parse_bytes)]
    cache: u64,
    /// The order of rows and the questions descend from it
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl LoadSpec {
    fn threads(&self) -> usize {
        loader_threads(self.threads, self.durability)
    }

    /// Opens the database in `dir`.
    fn open(&self, dir: &Path) -> Result<Database, Error> {
        let cache = usize::try_from(self.cache).unwrap_or(usize::MAX);
        Database::builder().cache_bytes(cache).durability(engine_durability(self.durability)).open(dir)
    }
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|s: &f64| *s > 0.0 && s.is_finite()).ok_or_else(|| "expected seconds".into())
}

/// Runs `demo`.
pub fn run(args: &DemoArgs) -> Outcome {
    let (dir, temporary) = directory(args)?;
    let outcome = story(args, &dir);
    if args.keep || outcome.is_err() {
        // Whoever wants to know what went wrong needs the evidence.
        temporary.map(tempfile::TempDir::keep);
        return outcome.map_err(|failure| failure.note(format!("the database is left in {}", dir.display())));
    }
    std::fs::remove_dir_all(&dir).map_err(|e| Failure::io(dir.display(), &e))
}

/// The directory to use, and its guard if it is a temporary one.
fn directory(args: &DemoArgs) -> Outcome<(PathBuf, Option<tempfile::TempDir>)> {
    if let Some(dir) = &args.dir {
        let is_taken = std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some());
        return match is_taken {
            true => Err(Failure::usage(format!("{} is not empty; name a new directory", dir.display()))),
            false => Ok((dir.clone(), None)),
        };
    }
    let place = std::env::temp_dir();
    let made = tempfile::Builder::new().prefix("foreshore-demo-").tempdir_in(&place);
    let made = made.map_err(|e| Failure::io(place.display(), &e).note("name another place with --dir"))?;
    Ok((made.path().to_path_buf(), Some(made)))
}

/// The whole demonstration, step by step.
fn story(args: &DemoArgs, dir: &Path) -> Outcome {
    let mut steps = Steps::new(args.json);
    steps.headline(&format!("database in {}", dir.display()));
    let spec = &args.load;
    let started = Instant::now();
    let dataset = Dataset::make(spec)?;
    steps.done(
        "generate",
        started.elapsed(),
        format!("{} rows, {}", grouped(dataset.len() as u64), size(dataset.bytes())),
        json!({"rows": dataset.len(), "bytes": dataset.bytes()}),
    );

    let acks = load_until_killed(args, dir, &dataset, &mut steps)?;
    let db = reopen(spec, dir, "recover", &mut steps)?;
    let present = verify_survivors(&db, &dataset, &acks, &mut steps)?;
    let loaded = load_rest(args, &db, &dataset, &present, &mut steps)?;
    verify::questions(&db, &dataset, &loaded, spec.seed, &mut steps)?;
    check(&db, &mut steps)?;
    close(db, &mut steps)?;
    let db = reopen(spec, dir, "reopen", &mut steps)?;
    scan(&db, &dataset, &loaded, &mut steps)?;
    db.close()?;
    steps.finish()
}

/// A child loads; when half of the rows are acknowledged, or half of the time is over, it is killed.
fn load_until_killed(args: &DemoArgs, dir: &Path, dataset: &Dataset, steps: &mut Steps) -> Outcome<Acks> {
    let mut child = child::spawn(&args.load, dir)?;
    let acks = Acks::receive(child.take_pipe(), dataset.len());
    let half = (dataset.len() / 2).max(1);
    let half_time = Duration::from_secs_f64(args.seconds / 2.0);
    let mut loading_since = None;
    let mut refusal = None;
    let meter = Meter::new("load", Some(half as u64));
    while acks.count() < half && loading_since.is_none_or(|since: Instant| since.elapsed() < half_time) {
        if let Some(status) = child.exited()? {
            return Err(Failure::io(
                "the loading child ended by itself",
                &std::io::Error::other(status.to_string()),
            ));
        }
        if acks.count() > 0 && loading_since.is_none() {
            loading_since = Some(Instant::now());
            refusal = Some(second_open(&args.load, dir, child.pid())?);
        }
        meter.set(acks.count() as u64, || rows_and_rate(acks.count(), elapsed(loading_since)));
        std::thread::sleep(Duration::from_millis(5));
    }
    let loading = elapsed(loading_since);
    drop(meter);
    let killing = Instant::now();
    child.kill()?;
    let acks = acks.finish();
    let killing = killing.elapsed();
    steps.done(
        "load",
        loading,
        format!("{} acknowledged to {} threads", rows_and_rate(acks.count(), loading), args.load.threads()),
        json!({"rows": acks.count(), "threads": args.load.threads(), "durability": args.load.durability}),
    );
    if let Some(refusal) = refusal {
        steps.done("second open", Duration::ZERO, refusal, json!({"refused": true}));
    }
    steps.done(
        "kill -9",
        killing,
        "the loading process is gone in the middle of its work".into(),
        json!({"signal": 9}),
    );
    Ok(acks)
}

/// While the child has the database, nobody else may: the error must name the child.
fn second_open(spec: &LoadSpec, dir: &Path, pid: u32) -> Outcome<String> {
    match spec.open(dir) {
        Err(error @ Error::Locked { pid: Some(holder), .. }) if holder == pid => {
            Ok(format!("refused: {error}"))
        }
        Err(error) => Err(Failure::from(error).note(format!("expected: locked by process {pid}"))),
        Ok(_) => Err(Failure::corrupt(format!("the database could be opened while process {pid} has it"))),
    }
}

fn reopen(spec: &LoadSpec, dir: &Path, step: &'static str, steps: &mut Steps) -> Outcome<Database> {
    let started = Instant::now();
    let db = spec.open(dir)?;
    let stats = db.stats();
    steps.done(
        step,
        started.elapsed(),
        format!("{} of log redone, {} records", size(stats.redo_bytes), grouped(stats.redo_records)),
        json!({"redo_bytes": stats.redo_bytes, "redo_records": stats.redo_records, "open_ns": stats.open_ns}),
    );
    Ok(db)
}

/// Every acknowledged row must be there. Returns all rows that are.
fn verify_survivors(db: &Database, dataset: &Dataset, acks: &Acks, steps: &mut Steps) -> Outcome<Acks> {
    let started = Instant::now();
    verify::all_there(db, dataset, acks)?;
    let present = verify::scan(db, dataset)?;
    verify::met_by_scan(dataset, acks, &present)?;
    let extra = present.count() - acks.count();
    steps.done(
        "verify",
        started.elapsed(),
        format!(
            "all {} acknowledged rows are there; so are {} that were on their way",
            grouped(acks.count() as u64),
            grouped(extra as u64)
        ),
        json!({"acknowledged": acks.count(), "lost": 0, "unacknowledged": extra}),
    );
    Ok(present)
}

/// Loads what is not there, in this process; returns all rows that are there then.
fn load_rest(
    args: &DemoArgs,
    db: &Database,
    dataset: &Dataset,
    present: &Acks,
    steps: &mut Steps,
) -> Outcome<Acks> {
    let started = Instant::now();
    let loaded = present.clone();
    let meter = Meter::new("resume", Some((dataset.len() - present.count()) as u64));
    let deadline = started + Duration::from_secs_f64(args.seconds / 2.0);
    let acknowledged = |row| {
        loaded.add(row);
        Ok(())
    };
    let mut progress = |done| meter.set(done as u64, || rows_and_rate(done, started.elapsed()));
    child::load(db, dataset, &args.load, present, Some(deadline), &acknowledged, &mut progress)?;
    drop(meter);
    let elapsed = started.elapsed();
    let rows = loaded.count() - present.count();
    let missing = match dataset.len() - loaded.count() {
        0 => String::new(),
        rows => format!("; time is up, {} rows stay away", grouped(rows as u64)),
    };
    let text = format!("the other {}{missing}", rows_and_rate(rows, elapsed));
    steps.done("resume", elapsed, text, json!({"rows": rows}));
    Ok(loaded)
}

fn check(db: &Database, steps: &mut Steps) -> Outcome {
    let started = Instant::now();
    let report = db.check()?;
    let leaves: u64 = report.tables.iter().map(|table| table.leaves).sum();
    steps.done(
        "check",
        started.elapsed(),
        format!("{} tables, {} leaves, everything is in order", report.tables.len(), grouped(leaves)),
        json!({"tables": report.tables.len(), "leaves": leaves}),
    );
    Ok(())
}

fn close(db: Database, steps: &mut Steps) -> Outcome {
    let started = Instant::now();
    db.close()?;
    steps.done("close", started.elapsed(), "all leaves written out".into(), json!({}));
    Ok(())
}

fn scan(db: &Database, dataset: &Dataset, loaded: &Acks, steps: &mut Steps) -> Outcome {
    let started = Instant::now();
    let present = verify::scan(db, dataset)?;
    verify::met_by_scan(dataset, loaded, &present)?;
    let text = format!("{}, every one compared", rows_and_rate(present.count(), started.elapsed()));
    steps.done("scan", started.elapsed(), text, json!({"rows": present.count()}));
    if present.count() == loaded.count() {
        Ok(())
    } else {
        Err(Failure::corrupt("rows appeared from nowhere"))
    }
}

fn elapsed(since: Option<Instant>) -> Duration {
    since.map_or(Duration::ZERO, |since| since.elapsed())
}

fn rows_and_rate(rows: usize, time: Duration) -> String {
    format!(
        "{} rows at {} rows/s",
        grouped(rows as u64),
        grouped(rate(rows as u64, time.as_secs_f64()) as u64)
    )
}
