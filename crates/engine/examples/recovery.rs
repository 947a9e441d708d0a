//! How fast is the log redone after a crash?
//!
//!     cargo run --release -p foreshore --example recovery -- DIR [ROWS] [VALUE_BYTES] [REPEATS] [THREADS] [CHANGED]
//!
//! A process writes ROWS (2,000,000) rows in random order, each a commit of its own with 4 bytes of key and VALUE_BYTES
//! (100), and aborts without a checkpoint. With CHANGED it loads them, closes the database, opens it again, and writes so many of
//! them anew: then redo must read their leaves from disk. (With 0 there is nothing to redo: that is the time of opening by itself.)
//! Then REPEATS (5) processes open the database, one after another, with THREADS (one per core) that redo, check every row, and abort
//! as well: so each finds the whole log again. DIR must be absent or empty; what was made there stays. `MB_per_core_s` divides by the
//! processor time of the whole opening, that of the kernel included: on a machine that does other things beside, it says more than the
//! clock.

use foreshore::{Builder, Database, Durability, Result};
use std::process::Command;
use std::time::Instant;

/// What this process is to do, if it is not the first one.
const PART: &str = "FORESHORE_RECOVERY_PART";

struct Case {
    dir: String,
    rows: u32,
    value_bytes: usize,
    repeats: usize,
    threads: usize,
    changed: Option<u32>,
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let number = |i: usize, default| args.get(i).map_or(default, |n| n.parse().expect("a number"));
    let case = Case {
        dir: args.get(1).expect("usage: recovery DIR [ROWS] [VALUE_BYTES] [REPEATS] [THREADS] …").clone(),
        rows: number(2, 2_000_000) as u32,
        value_bytes: number(3, 100),
        repeats: number(4, 5),
        threads: number(5, std::thread::available_parallelism().map_or(1, usize::from)),
        changed: args.get(6).map(|n| n.parse().expect("a number")),
    };
    match std::env::var(PART).as_deref() {
        Ok("fill") => fill(&case),
        Ok(_) => reopen(&case),
        Err(_) => {
            in_a_process_of_its_own("fill", &args);
            println!("log_MB  records  threads  seconds  MB_per_s  cpu_s  MB_per_core_s  leaves_read");
            (0..case.repeats).for_each(|_| in_a_process_of_its_own("reopen", &args));
            Ok(())
        }
    }
}

fn in_a_process_of_its_own(part: &str, args: &[String]) {
    let myself = std::env::current_exe().expect("a running program has a path");
    let status = Command::new(myself).args(&args[1..]).env(PART, part).status().expect("starting myself");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(6), "each part ends by aborting");
}

fn options(case: &Case) -> Builder {
    let options = Database::builder().cache_bytes(2 << 30).log_bytes(64 << 30);
    options.durability(Durability::Buffered).redo_threads(case.threads)
}

/// Spreads row numbers over all keys.
fn key(row: u32) -> [u8; 4] {
    row.wrapping_mul(2_654_435_761).to_be_bytes()
}

fn fill(case: &Case) -> Result<()> {
    if case.changed.is_some() {
        let db = options(case).open(&case.dir)?;
        let mut rows: Vec<u32> = (0..case.rows).collect();
        rows.sort_unstable_by_key(|row| key(*row));
        let value = vec![0; case.value_bytes];
        db.byte_table("rows")?.bulk_load(rows.into_iter().map(|row| (key(row), &value)))?;
        db.close()?;
    }
    let db = options(case).open(&case.dir)?;
    let table = db.byte_table("rows")?;
    for row in 0..written(case) {
        table.put(&key(row), &vec![row as u8; case.value_bytes])?;
    }
    std::process::abort();
}

/// Rows that were written one by one: the first ones, by their numbers.
fn written(case: &Case) -> u32 {
    case.changed.unwrap_or(case.rows)
}

fn reopen(case: &Case) -> Result<()> {
    let started = Instant::now();
    let db = options(case).open(&case.dir)?;
    let (seconds, cpu, stats) = (started.elapsed().as_secs_f64(), cpu_seconds(), db.stats());
    let (mb, records) = (stats.redo_bytes as f64 / 1e6, stats.redo_records);
    println!(
        "{mb:>6.0}  {records:>7}  {:>7}  {seconds:>7.3}  {:>8.0}  {cpu:>5.2}  {:>13.0}  {:>11}",
        case.threads,
        mb / seconds,
        mb / cpu,
        stats.pool_reads
    );
    let table = db.byte_table("rows")?;
    for row in 0..case.rows {
        let value = if row < written(case) { row as u8 } else { 0 };
        assert_eq!(table.get(&key(row))?, Some(vec![value; case.value_bytes]), "row {row}");
    }
    std::process::abort();
}

/// Processor time of this process so far, in hundredths of seconds: fields 14 and 15 of `/proc/self/stat`.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux tells a process about itself");
    let behind_name = stat.rsplit(')').next().expect("the name is in parentheses");
    let ticks = |field: usize| -> f64 {
        behind_name.split_whitespace().nth(field - 3).and_then(|n| n.parse().ok()).expect("a number")
    };
    (ticks(14) + ticks(15)) / 100.0
}
