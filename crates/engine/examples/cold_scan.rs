//! How fast are leaves read that are only on disk?
//!
//!     cargo run --release -p foreshore --example cold_scan -- DIR [DATA_MB] [REPEATS]
//!
//! Makes two tables with DATA_MB (256) of leaves together, in DIR, which must be absent or empty; what was made there stays. One is
//! loaded in key order, so that leaves beside each other lie beside each other on disk; in the other rows came in random
//! order, and leaves lie where they fell. A third has half as much in large values of 64 KiB. Then, REPEATS (5) times, each in a
//! database opened anew with an eighth of DATA_MB as its cache: a scan of each table, upwards and downwards; lookups of random keys
//! in batches of 16 and of 64; random rows put in transactions, 64 by each `put_many`; random rows removed in one transaction that is
//! rolled back, and in one that is committed, of which only the ends are measured; large values in random order; a check. Leaves are read past
//! the system's page cache, where the filesystem allows it.

use foreshore::{ByteTable, Database, Durability, Result, Transaction};
use std::time::Instant;

const VALUE_BYTES: usize = 100;
const LARGE_VALUE_BYTES: usize = 64 << 10;
type KeyOfRow = fn(u32) -> [u8; 4];

/// Rows that are put, or removed.
const CHANGED: u32 = 6400;
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
    println!("what                    leaves_read  ahead  used  seconds  MB_per_s");
    for _ in 0..repeats {
        for (name, key) in [("in order", u32::to_be_bytes as KeyOfRow), ("scattered", key)] {
            let some_key = some_key(key, rows);
            let open = || -> Result<_> {
                let db = open(data_bytes / 8)?;
                let table = db.byte_table(name)?;
                Ok((db, table))
            };
            measure(&format!("{name}, upwards"), open()?, |_, table| {
                assert_eq!(count(table.range(..))?, rows);
                Ok(())
            })?;
            measure(&format!("{name}, downwards"), open()?, |_, table| {
                assert_eq!(count(table.range(..).rev())?, rows);
                Ok(())
            })?;
            measure(&format!("{name}, 16 keys"), open()?, |_, table| lookups(table, &some_key, 16))?;
            measure(&format!("{name}, 64 keys"), open()?, |_, table| lookups(table, &some_key, 64))?;
            measure(&format!("{name}, put_many"), open()?, |db, table| puts(db, table, &some_key))?;
            let (db, table) = open()?;
            let tx = remove(&db, &table, &some_key)?;
            measure(&format!("{name}, roll back"), (db, table), |_, _| tx.rollback())?;
            let (db, table) = open()?;
            let tx = remove(&db, &table, &some_key)?;
            measure(&format!("{name}, end removal"), (db, table), |_, _| tx.commit())?;
            let (db, table) = open()?;
            puts(&db, &table, &some_key)?; // all that was removed
            drop(table);
            db.close()?;
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

/// Keys of rows in random order: of number `i`, the key that `key` says of a row.
fn some_key(key: KeyOfRow, rows: u32) -> impl Fn(u32) -> [u8; 4] {
    move |i| key(i.wrapping_mul(0x9E37_79B9) % rows)
}

fn lookups(table: &ByteTable, key: impl Fn(u32) -> [u8; 4], together: u32) -> Result<()> {
    for batch in 0..16_000 / together {
        let keys: Vec<_> = (0..together).map(|i| key(together * batch + i)).collect();
        let found = table.multi_get(&keys)?;
        assert!(found.iter().all(Option::is_some));
    }
    Ok(())
}

fn puts(db: &Database, table: &ByteTable, key: impl Fn(u32) -> [u8; 4]) -> Result<()> {
    for batch in 0..CHANGED / 64 {
        let rows: Vec<_> = (0..64).map(|i| (key(64 * batch + i), [8; VALUE_BYTES])).collect();
        let tx = db.begin()?;
        tx.bytes(table).put_many(&rows)?;
        drop(tx.commit_async()?); // nobody waits for the log
    }
    Ok(())
}

/// A transaction that has removed what [`puts`] puts.
fn remove(db: &Database, table: &ByteTable, key: impl Fn(u32) -> [u8; 4]) -> Result<Transaction> {
    let tx = db.begin()?;
    for i in 0..CHANGED {
        assert!(tx.bytes(table).remove(&key(i))?);
    }
    Ok(tx)
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
    let (before, begin) = (db.stats(), Instant::now());
    work(&db, &table)?;
    let (seconds, stats) = (begin.elapsed().as_secs_f64(), db.stats());
    let leaves = stats.pool_reads - before.pool_reads;
    let ahead = stats.pool_reads_ahead - before.pool_reads_ahead;
    let used = stats.pool_reads_ahead_used - before.pool_reads_ahead_used;
    let mb_per_s = (leaves * table.leaf_bytes() as u64) as f64 / 1e6 / seconds;
    println!("{what:<22}  {leaves:>11}  {ahead:>5}  {used:>4}  {seconds:>7.3}  {mb_per_s:>8.0}");
    drop(table);
    db.close()
}
