//! What a row costs in a transaction of many: does it take a time in proportion to its rows, as does who counts beside it what was there
//! before?
//!
//! `cargo run --release -p foreshore --example large_transaction [-- ROWS [ascending]]`
//!
//! In memory, one thread, new rows of 8 bytes, in random order if not asked otherwise. Before its end and after it the rows are counted.

use foreshore::{Database, Result};
use std::time::{Duration, Instant};

fn main() -> Result<()> {
    let most = std::env::args().nth(1).map_or(4_000_000, |arg| arg.parse().expect("a number"));
    let ascends = std::env::args().nth(2).is_some_and(|order| order == "ascending");
    println!("end                       rows  put_ns_per_row  count_ns_per_row  end_ns_per_row");
    for rows in [most / 16, most / 4, most] {
        measure(rows, ascends, "commit", false, true)?;
        measure(rows, ascends, "commit beside a snapshot", true, true)?;
        measure(rows, ascends, "rollback", false, false)?;
    }
    Ok(())
}

fn measure(rows: u64, ascends: bool, end: &str, is_watched: bool, commits: bool) -> Result<()> {
    let db = Database::in_memory()?;
    let table = db.byte_table("t")?;
    let _snapshot = is_watched.then(|| db.snapshot()).transpose()?;
    let (tx, begun) = (db.begin()?, Instant::now());
    for row in 0..rows {
        let key = if ascends { row } else { row.wrapping_mul(0x9E37_79B9_7F4A_7C15) };
        tx.bytes(&table).put(&key.to_be_bytes(), &row.to_le_bytes())?;
    }
    let putting = begun.elapsed();
    assert_eq!(table.range(..).count(), 0, "none is committed");
    let counting = begun.elapsed() - putting;
    if commits {
        tx.commit()?
    } else {
        tx.rollback()?
    }
    let ending = begun.elapsed() - putting - counting;
    assert_eq!(table.range(..).count() as u64, if commits { rows } else { 0 });
    let per_row = |time: Duration| time.as_nanos() / u128::from(rows);
    let [putting, counting, ending] = [putting, counting, ending].map(per_row);
    println!("{end:24} {rows:>7}  {putting:>14}  {counting:>16}  {ending:>14}");
    Ok(())
}
