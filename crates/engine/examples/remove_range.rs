//! What removing a range of rows takes, beside a scan and a removal of each row in a transaction.
//!
//! `cargo run --release -p foreshore --example remove_range [-- ROWS [VALUE_BYTES]]`

use foreshore::{Database, Result};
use std::time::Instant;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse().expect("a number"));
    let (rows, value_bytes) = (args.next().unwrap_or(500_000_u64), args.next().unwrap_or(100) as usize);
    let db = Database::in_memory()?;
    println!("way                 rows  ns_per_row  commit_ns_per_row");
    for _ in 0..3 {
        measure(&db, rows, value_bytes, "scan and remove", |tx, t| {
            let mut removed = 0;
            for row in tx.bytes(t).range(..) {
                removed += u64::from(tx.bytes(t).remove(&row?.0)?);
            }
            Ok(removed)
        })?;
        measure(&db, rows, value_bytes, "remove_range", |tx, t| tx.bytes(t).remove_range(..))?;
    }
    Ok(())
}

fn measure(
    db: &Database,
    rows: u64,
    value_bytes: usize,
    way: &str,
    remove: impl Fn(&foreshore::Transaction, &foreshore::ByteTable) -> Result<u64>,
) -> Result<()> {
    let t = db.byte_table("t")?;
    t.bulk_load((0..rows).map(|n| (n.to_be_bytes(), vec![n as u8; value_bytes])))?;
    let (tx, begun) = (db.begin()?, Instant::now());
    assert_eq!(remove(&tx, &t)?, rows);
    let removing = begun.elapsed();
    tx.commit()?;
    let committing = begun.elapsed() - removing;
    let per_row = |time: std::time::Duration| time.as_nanos() / u128::from(rows);
    println!("{way:16}  {rows:>6}  {:>10}  {:>17}", per_row(removing), per_row(committing));
    drop(t);
    db.drop_table("t").map(drop)
}
