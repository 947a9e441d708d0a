//! What a row costs in a transaction of many: does it end in a time in proportion to its rows?
//!
//! `cargo run --release -p foreshore --example large_transaction [-- ROWS]`
//!
//! In memory, one thread, new rows of 8 bytes in random order. After each transaction the rows are counted.

use foreshore::{Database, Result};
use std::time::{Duration, Instant};

fn main() -> Result<()> {
    let most = std::env::args().nth(1).map_or(4_000_000, |arg| arg.parse().expect("a number"));
    println!("end                       rows  put_ns_per_row  end_ns_per_row");
    for rows in [most / 16, most / 4, most] {
        measure(rows, "commit", false, true)?;
        measure(rows, "commit beside a snapshot", true, true)?;
        measure(rows, "rollback", false, false)?;
    }
    Ok(())
}

fn measure(rows: u64, end: &str, is_watched: bool, commits: bool) -> Result<()> {
    let db = Database::in_memory()?;
    let table = db.byte_table("t")?;
    let _snapshot = is_watched.then(|| db.snapshot()).transpose()?;
    let (tx, begun) = (db.begin()?, Instant::now());
    for row in 0..rows {
        let scattered = row.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        tx.bytes(&table).put(&scattered.to_be_bytes(), &row.to_le_bytes())?;
    }
    let putting = begun.elapsed();
    if commits {
        tx.commit()?
    } else {
        tx.rollback()?
    }
    let ending = begun.elapsed() - putting;
    assert_eq!(table.range(..).count() as u64, if commits { rows } else { 0 });
    let per_row = |time: Duration| time.as_nanos() / u128::from(rows);
    println!("{end:24} {rows:>7}  {:>14}  {:>14}", per_row(putting), per_row(ending));
    Ok(())
}
