//! How long does opening take: after a clean close, and after a crash with a log to redo?
//!
//!     cargo run --release -p foreshore --example reopen -- DIR [ROWS] [LOGGED_ROWS]
//!
//! Loads ROWS rows (u32 keys, 8-byte values) and closes; reopens; writes LOGGED_ROWS random rows of 100 bytes without a
//! checkpoint in a process that aborts; reopens. Checks the rows after each. DIR must be absent or empty.

use foreshore::{Builder, Database, Durability, Result};
use std::process::Command;
use std::time::Instant;

const FILL: &str = "FORESHORE_REOPEN_FILL";

fn options() -> Builder {
    Database::builder().cache_bytes(2 << 30).log_bytes(64 << 30).durability(Durability::Buffered)
}

fn key(i: u32) -> [u8; 4] {
    i.wrapping_mul(2_654_435_761).to_be_bytes()
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let dir = args.get(1).expect("usage: reopen DIR [ROWS] [LOGGED_ROWS]");
    let number = |i: usize, default| args.get(i).map_or(default, |n| n.parse().expect("a number"));
    let (rows, logged) = (number(2, 10_000_000u32), number(3, 3_000_000u32));
    if std::env::var(FILL).is_ok() {
        fill(dir, logged)?;
    }

    let db = options().open(dir)?;
    db.byte_table("rows")?.bulk_load((0..rows).map(|i| (i.to_be_bytes(), u64::from(i).to_be_bytes())))?;
    db.close()?;
    let started = Instant::now();
    let db = options().open(dir)?;
    println!("clean: {rows} rows, opened in {:.3} s", started.elapsed().as_secs_f64());
    assert_eq!(
        db.byte_table("rows")?.get(&(rows - 1).to_be_bytes())?,
        Some(u64::from(rows - 1).to_be_bytes().to_vec())
    );
    drop(db);

    let myself = std::env::current_exe().expect("a running program has a path");
    let status = Command::new(myself).args(&args[1..]).env(FILL, "1").status().expect("starting myself");
    assert!(!status.success(), "the filling process aborts");
    let started = Instant::now();
    let db = options().open(dir)?;
    let (seconds, stats) = (started.elapsed().as_secs_f64(), db.stats());
    let rate = stats.redo_bytes as f64 / 1e6 / seconds;
    println!(
        "crash: {} records, {:.0} MB of log redone, opened in {seconds:.3} s, {rate:.0} MB/s",
        stats.redo_records,
        stats.redo_bytes as f64 / 1e6
    );
    let table = db.byte_table("logged")?;
    for i in 0..logged {
        assert_eq!(table.get(&key(i))?.map(|v| v.len()), Some(100), "row {i}");
    }
    db.close()
}

fn fill(dir: &str, logged: u32) -> Result<()> {
    let db = options().open(dir)?;
    let table = db.byte_table("logged")?;
    for i in 0..logged {
        table.put(&key(i), &[i as u8; 100])?;
    }
    std::process::abort();
}
