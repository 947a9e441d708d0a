//! What a row costs in memory, and in time, in one transaction that changes, or reads, each row of a table.
//!
//! `cargo run --release -p foreshore --example larger_than_memory -- DIR [ROWS [VALUE_BYTES]]`
//!
//! On disk, in a new directory `DIR` for each way, with a cache of 64 MiB, one thread, durability relaxed, keys of 8 bytes that ascend. Each
//! way runs in a process of its own, since the memory of that is measured: between a fifth of the rows, where images of old rows fill what
//! they may take of memory, and all of them. Afterwards the transaction commits, and the table is checked.

use foreshore::{Database, Durability, Result};
use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use std::{env, fs};

/// Ways to come to all rows.
const WAYS: [&str; 5] = ["put_new", "put_over", "scan_and_put", "remove_range", "scan"];

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let args: Vec<_> = env::args().skip(1).collect();
    let dir = args.first().ok_or("which directory? It must not exist")?;
    let number = |at: usize, usual: u64| args.get(at).map_or(Ok(usual), |arg| arg.parse());
    let (rows, value_bytes) = (number(1, 2_000_000)?, number(2, 100)?);
    if let Some(way) = args.get(3) {
        return Ok(measure(Path::new(dir), way, rows, value_bytes as usize)?);
    }
    if Path::new(dir).exists() {
        return Err(format!("{dir} is there already; name a directory that is not, for it is removed").into());
    }
    println!("way            rows  value  before_mib  fifth_mib  all_mib  bytes_a_row  us_a_row  commit_ms");
    for way in WAYS {
        let status = Command::new(env::current_exe()?)
            .args([dir, &rows.to_string(), &value_bytes.to_string(), way])
            .status()?;
        fs::remove_dir_all(dir)?;
        if !status.success() {
            return Err(format!("{way} failed").into());
        }
    }
    Ok(())
}

fn measure(dir: &Path, way: &str, rows: u64, value_bytes: usize) -> Result<()> {
    let db = Database::builder().cache_bytes(64 << 20).durability(Durability::Relaxed).open(dir)?;
    let table = db.byte_table("t")?;
    let value = |byte: u8| vec![byte; value_bytes];
    if way != "put_new" {
        table.bulk_load((0..rows).map(|row| (row.to_be_bytes(), value(1))))?;
    }
    let (before, tx) = (resident_mib(), db.begin()?);
    let fifth = rows / 5;
    walk(&tx.bytes(&table), way, 0..fifth, &value(2))?;
    let (at_fifth, begun) = (resident_mib(), Instant::now());
    walk(&tx.bytes(&table), way, fifth..rows, &value(2))?;
    let (all, took) = (resident_mib(), begun.elapsed());
    let begun = Instant::now();
    tx.commit()?;
    let commit = begun.elapsed().as_millis();
    let bytes_a_row = (all.saturating_sub(at_fifth) << 20) / (rows - fifth);
    let us = took.as_secs_f64() * 1e6 / (rows - fifth) as f64;
    println!(
        "{way:12} {rows:>6}  {value_bytes:>5}  {before:>10}  {at_fifth:>9}  {all:>7}  {bytes_a_row:>11}  {us:>8.2}  {commit:>9}"
    );
    let expected = if way == "remove_range" { 0 } else { rows };
    let byte = if way == "scan" { 1 } else { 2 };
    let mut found = 0;
    for row in table.range(..) {
        assert_eq!(row?.1, value(byte));
        found += 1;
    }
    assert_eq!(found, expected);
    Ok(())
}

/// Comes to these rows, which are all there up to now but for new ones.
fn walk(
    table: &foreshore::TransactionBytes<'_>,
    way: &str,
    rows: std::ops::Range<u64>,
    value: &[u8],
) -> Result<()> {
    let bounds = || rows.start.to_be_bytes()..rows.end.to_be_bytes();
    match way {
        "put_new" | "put_over" => rows.clone().try_for_each(|row| table.put(&row.to_be_bytes(), value)),
        "scan_and_put" => table.range(bounds()).try_for_each(|row| table.put(&row?.0, value)),
        "remove_range" => {
            table.remove_range(bounds()).map(|removed| assert_eq!(removed, rows.end - rows.start))
        }
        _ => {
            let found = table.range(bounds()).try_fold(0, |found, row| row.map(|_| found + 1))?;
            assert_eq!(found, rows.end - rows.start);
            Ok(())
        }
    }
}

/// Memory of this process, in MiB; 0 where the system does not tell.
fn resident_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix("kB"));
    kib.and_then(|kib| kib.trim().parse::<u64>().ok()).unwrap_or_default() >> 10
}
