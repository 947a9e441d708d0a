//! How fast are leaves read that are only on disk?
//!
//!     cargo run --release -p foreshore --example cold_scan -- DIR [DATA_MB] [REPEATS]
//!
//! Makes two tables with DATA_MB (256) of leaves together, in DIR, which must be absent or empty; what was made there stays. One is
//! loaded in key order, so that leaves beside each other lie beside each other on disk; in the other rows came in random
//! order, and leaves lie where they fell. A third has half as much in large values of 64 KiB. Then, REPEATS (5) times, each in a
//! database opened anew with an eighth of DATA_MB as its cache: a scan of each table, upwards and downwards; lookups of random keys
//! in batches of 16; random rows put in transactions, 64 by each `put_many`; large values in random order; a check. Leaves are
//! read past the system's page cache, where the filesystem allows it.

use foreshore::{ByteTable, Database, Durability, Result};
use std::time::Instant;

const VALUE_BYTES: usize = 100;
const LARGE_VALUE_BYTES: usize = 64 << 10;
/// Bytes of leaves that a row takes, about.
const ROW_BYTES: usize = 140;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let number = |i: usize, default| args.get(i).map_or(default, |n| n.parse().expect("a number"));
    let dir = args.get(1).expect("usage: cold_scan DIR [DATA_MB] [REPEATS]");
    let (data_bytes, repeats) = (number(2, 256) << 20, number(3, 5));
    let rows = (data_bytes / 2 / ROW_BYTES) as u32;
    let open = |cache_bytes| Database::builder().cache_bytes(cache_bytes).open(dir);
    let large_values = (data_bytes / 2 / LARGE_VALUE_BYTES) as u32;
    fill(open(2 * data_bytes)?, rows, large_values)?;
    println!("what                  leaves_read  ahead  used  seconds  MB_per_s");
    for _ in 0..repeats {
        for table in ["in order", "scattered"] {
            let open = || -> Result<_> {
                let db = open(data_bytes / 8)?;
                let table = db.byte_table(table)?;
                Ok((db, table))
            };
            measure(&format!("{table}, upwards"), open()?, |_, table| {
                assert_eq!(count(table.range(..))?, rows);
                Ok(())
            })?;
            measure(&format!("{table}, downwards"), open()?, |_, table| {
                assert_eq!(count(table.range(..).rev())?, rows);
                Ok(())
            })?;
            measure(&format!("{table}, by keys"), open()?, |_, table| lookups(table, rows))?;
            measure(&format!("{table}, put_many"), open()?, |db, table| puts(db, table, rows))?;
        }
        let db = open(data_bytes / 8)?;
        let table = db.byte_table("large values")?;
        measure("large values", (db, table), |_, table| read_large(table, large_values))?;
        let db = open(data_bytes / 8)?;
        let table = db.byte_table("in order")?;
        measure("check", (db, table), |db, _| db.check().map(drop))?;
    }
    Ok(())
}

/// Spreads row numbers over all keys.
fn key(row: u32) -> [u8; 4] {
    row.wrapping_mul(2_654_435_761).to_be_bytes()
}

fn fill(db: Database, rows: u32, large_values: u32) -> Result<()> {
    let value = [7; VALUE_BYTES];
    let in_order = db.byte_table("in order")?;
    in_order.bulk_load((0..rows).map(|row| (row.to_be_bytes(), value)))?;
    db.checkpoint()?;
    let scattered = db.byte_table("scattered")?.with_durability(Durability::Relaxed);
    (0..rows).try_for_each(|row| scattered.put(&key(row), &value))?;
    let large = db.byte_table("large values")?.with_durability(Durability::Relaxed);
    (0..large_values).try_for_each(|row| large.put(&row.to_be_bytes(), &[7; LARGE_VALUE_BYTES]))?;
    drop((in_order, scattered, large));
    db.close()
}

fn count(rows: impl Iterator<Item = Result<(Vec<u8>, Vec<u8>)>>) -> Result<u32> {
    let mut count = 0;
    rows.into_iter().try_for_each(|row| row.map(|_| count += 1))?;
    Ok(count)
}

/// Some keys of a table, in random order.
fn some_key(table: &ByteTable, rows: u32) -> Result<impl Fn(u32) -> [u8; 4]> {
    let row = move |i: u32| i.wrapping_mul(0x9E37_79B9) % rows;
    // Both tables have all keys of their kind.
    let in_order = table.get(&0u32.to_be_bytes())?.is_some() && table.get(&1u32.to_be_bytes())?.is_some();
    Ok(move |i| if in_order { row(i).to_be_bytes() } else { key(row(i)) })
}

fn lookups(table: &ByteTable, rows: u32) -> Result<()> {
    let key = some_key(table, rows)?;
    for batch in 0..1000 {
        let keys: Vec<_> = (0..16).map(|i| key(16 * batch + i)).collect();
        let found = table.multi_get(&keys)?;
        assert!(found.iter().all(Option::is_some));
    }
    Ok(())
}

fn puts(db: &Database, table: &ByteTable, rows: u32) -> Result<()> {
    let key = some_key(table, rows)?;
    for batch in 0..100 {
        let rows: Vec<_> = (0..64).map(|i| (key(64 * batch + i), [8; VALUE_BYTES])).collect();
        let tx = db.begin()?;
        tx.bytes(table).put_many(&rows)?;
        drop(tx.commit_async()?); // nobody waits for the log
    }
    Ok(())
}

fn read_large(table: &ByteTable, values: u32) -> Result<()> {
    for i in 0..values {
        let row = (i * 7919) % values;
        assert_eq!(table.get(&row.to_be_bytes())?.map(|value| value.len()), Some(LARGE_VALUE_BYTES));
    }
    Ok(())
}

fn measure(
    what: &str,
    (db, table): (Database, ByteTable),
    work: impl FnOnce(&Database, &ByteTable) -> Result<()>,
) -> Result<()> {
    let begin = Instant::now();
    work(&db, &table)?;
    let (seconds, stats) = (begin.elapsed().as_secs_f64(), db.stats());
    let (ahead, used) = (stats.pool_reads_ahead, stats.pool_reads_ahead_used);
    let mb_per_s = (stats.pool_reads * table.leaf_bytes() as u64) as f64 / 1e6 / seconds;
    let leaves = stats.pool_reads;
    println!("{what:<20}  {leaves:>11}  {ahead:>5}  {used:>4}  {seconds:>7.3}  {mb_per_s:>8.0}");
    drop(table);
    db.close()
}
