//! Which leaf size suits which use?
//!
//!     cargo run --release -p foreshore --example leaf_sizes -- [VALUE_BYTES] [ROWS] [CACHE_MIB]
//!
//! For each size: rows with values of VALUE_BYTES (100) are put in random order, ROWS (60,000) of them, then read at
//! random, overwritten at random, and scanned, with a cache of CACHE_MIB (3). Files are in memory: times tell what the
//! processor does, and the bytes read and written what a device would have to do. Expected: both kinds of bytes grow with the
//! leaf where rows are touched at random and the cache is small, the index shrinks with it, scans gain a little.

use foreshore::{ByteTable, Database, Durability, Result, Stats};
use foreshore_io::MemVfs;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

/// Reads, and overwrites.
const TOUCHED: u64 = 10_000;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let number = |i: usize, default| args.get(i).map_or(default, |n| n.parse().expect("a number"));
    let (value_bytes, rows, cache) = (number(1, 100), number(2, 60_000) as u64, number(3, 3) << 20);
    println!(
        "leaf_kib  put_new_ns  get_ns  read_bytes  put_ns  leaf_bytes  log_bytes  scan_ns  index_bytes  file_bytes"
    );
    for leaf_bytes in [4096, 8192, 16384, 32768] {
        let options = Database::builder().leaf_bytes(leaf_bytes).cache_bytes(cache).log_bytes(32 << 20);
        let db = options.durability(Durability::Buffered).open_on(Arc::new(MemVfs::new()))?;
        measure(&db, leaf_bytes as u64, &vec![7; value_bytes], rows)?;
        db.close()?;
    }
    Ok(())
}

/// Prints one line: times and bytes per row touched; memory and file per row there is.
fn measure(db: &Database, leaf_bytes: u64, value: &[u8], rows: u64) -> Result<()> {
    let table = db.byte_table("rows")?;
    let (put_new_ns, _) = timed(db, rows, |i| table.put(&key(i), value))?;
    let mut found = Vec::new();
    let (get_ns, read) = timed(db, TOUCHED, |i| {
        assert!(table.get_into(&key(any_of(rows, i)), &mut found)?, "every row is there");
        Ok(())
    })?;
    let (put_ns, written) = timed(db, TOUCHED, |i| table.put(&key(any_of(rows, i + TOUCHED)), value))?;
    let scan_ns = scan(&table, rows)?;
    let stats = db.stats();
    println!(
        "{:>8}  {put_new_ns:>10}  {get_ns:>6}  {:>10}  {put_ns:>6}  {:>10}  {:>9}  {scan_ns:>7}  {:>11.1}  {:>10}",
        leaf_bytes >> 10,
        read.pool_reads * leaf_bytes / TOUCHED,
        written.pool_writes * leaf_bytes / TOUCHED,
        written.log_bytes / TOUCHED,
        stats.index_bytes as f64 / rows as f64,
        stats.pages * leaf_bytes / rows,
    );
    Ok(())
}

/// Does it so often, and writes everything out; nanoseconds each, that included, and what was counted meanwhile.
fn timed(db: &Database, times: u64, mut work: impl FnMut(u64) -> Result<()>) -> Result<(u64, Stats)> {
    let (before, begin) = (db.stats(), Instant::now());
    (0..times).try_for_each(&mut work)?;
    db.checkpoint()?;
    let ns = begin.elapsed().as_nanos() as u64 / times;
    let mut stats = db.stats();
    stats.pool_reads -= before.pool_reads;
    stats.pool_writes -= before.pool_writes;
    stats.log_bytes -= before.log_bytes;
    Ok((ns, stats))
}

/// Nanoseconds per row of a scan over all.
fn scan(table: &ByteTable, rows: u64) -> Result<u64> {
    let (mut seen, begin) = (0, Instant::now());
    table.scan(.., |_, _| {
        seen += 1;
        ControlFlow::Continue(())
    })?;
    assert_eq!(seen, rows);
    Ok(begin.elapsed().as_nanos() as u64 / rows)
}

/// Keys in an order without order.
fn key(i: u64) -> [u8; 8] {
    i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

/// One of the rows.
fn any_of(rows: u64, i: u64) -> u64 {
    i.wrapping_mul(0xD6E8_FEB8_6659_FD93) % rows
}
