//! What do two threads cost one another that keep changing different rows of one leaf?
//!
//! `cargo run --release -p foreshore --example neighbours -- DIR`
//!
//! Buffered, in the directory DIR, which is absent or empty. Each of two threads counts in a row of its own: both rows are in
//! one table, and then, for comparison, in a table each; in transactions, and by writes of their own. Turns of half a second.
//! The sums are checked.

use foreshore::{ByteTable, Database, Durability, Result};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

const TURNS: usize = 9;
const TURN: Duration = Duration::from_millis(500);

fn main() -> Result<()> {
    let dir = std::env::args().nth(1).expect("usage: neighbours DIR");
    let db = Database::builder().durability(Durability::Buffered).open(&dir)?;
    let (both, first, second) = (db.byte_table("both")?, db.byte_table("first")?, db.byte_table("second")?);
    println!("how           million/s: one table  two tables  ratio  leaves split");
    for (how, in_transactions) in [("transactions", true), ("alone", false)] {
        let mut ratios = Vec::new();
        for _ in 0..TURNS {
            let together = count(&db, [&both, &both], in_transactions)?;
            let apart = count(&db, [&first, &second], in_transactions)?;
            ratios.push(together / apart);
            println!(
                "{how:<12}  {together:>20.2}  {apart:>10.2}  {:>5.2}  {:>12}",
                together / apart,
                db.stats().splits
            );
        }
        ratios.sort_by(f64::total_cmp);
        println!("{how:<12}  median of the ratios {:.2}", ratios[TURNS / 2]);
    }
    Ok(())
}

/// Two threads count in the rows 1 and 2 of their tables for a turn: millions of steps a second.
fn count(db: &Database, tables: [&ByteTable; 2], in_transactions: bool) -> Result<f64> {
    let stop = &AtomicBool::new(false);
    let counted = thread::scope(|scope| {
        let threads = [1, 2].map(|row: u32| {
            let (table, key) = (tables[row as usize - 1], row.to_be_bytes());
            scope.spawn(move || {
                table.put(&key, &0_u64.to_le_bytes())?;
                let mut steps = 0_u64;
                while !stop.load(Relaxed) {
                    steps += 1;
                    if in_transactions {
                        step(db, table, &key)?;
                    } else {
                        table.put(&key, &steps.to_le_bytes())?;
                    }
                }
                assert_eq!(table.get(&key)?.as_deref(), Some(&steps.to_le_bytes()[..]));
                Ok::<_, foreshore::Error>(steps)
            })
        });
        thread::sleep(TURN);
        stop.store(true, Relaxed);
        threads.map(|thread| thread.join().expect("no thread panics"))
    });
    let [first, second] = counted;
    Ok((first? + second?) as f64 / TURN.as_secs_f64() / 1e6)
}

/// Adds one to the row.
fn step(db: &Database, table: &ByteTable, key: &[u8]) -> Result<()> {
    let tx = db.begin()?;
    let row = tx.bytes(table).get_for_update(key)?.expect("it is there");
    let count = u64::from_le_bytes(row.try_into().expect("eight bytes"));
    tx.bytes(table).put(key, &(count + 1).to_le_bytes())?;
    tx.commit()
}
