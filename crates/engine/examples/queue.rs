//! How fast do rows pass through a table that is used as a queue?
//!
//! `cargo run --release -p foreshore --example queue -- DIR [SECONDS]`
//!
//! Some threads put rows of 100 bytes with rising keys into a table in the directory DIR, which is absent or empty, as long as it
//! has fewer than 10,000; as many others take the first row, by a range and a removal, alone or both in a transaction. Buffered.
//! Rows taken in each second; in some runs beside a snapshot from before the first row.

use foreshore::{Database, Durability, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

const LONGEST: u64 = 10_000;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let dir = args.next().expect("usage: queue DIR [SECONDS]");
    let seconds = args.next().map_or(4, |arg| arg.parse().expect("a number"));
    let db = Database::builder().cache_bytes(512 << 20).durability(Durability::Buffered).open(dir)?;
    println!("threads_each  alone  snapshot  taken_in_each_second");
    for threads in [1, 2, 4] {
        for (alone, beside) in [(true, false), (false, false), (true, true), (false, true)] {
            let name = format!("{threads} {alone} {beside}");
            let snapshot = if beside { Some(db.snapshot()?) } else { None };
            let taken = pass_through(&db, &name, threads, alone, seconds)?;
            println!("{threads}  {alone}  {beside}  {taken:?}");
            drop(snapshot);
        }
    }
    db.close()
}

fn pass_through(db: &Database, name: &str, threads: u64, alone: bool, seconds: u64) -> Result<Vec<u64>> {
    let table = &db.byte_table(name)?;
    let [next, put, taken] = &[0; 3].map(AtomicU64::new);
    let done = &AtomicBool::new(false);
    let rates = thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(move || {
                while !done.load(Relaxed) {
                    if put.load(Relaxed) >= taken.load(Relaxed) + LONGEST {
                        thread::yield_now();
                        continue;
                    }
                    let row = next.fetch_add(1, Relaxed);
                    table.put(&row.to_be_bytes(), &[7; 100]).expect("a row put");
                    put.fetch_add(1, Relaxed);
                }
            });
            scope.spawn(move || {
                while !done.load(Relaxed) {
                    let is_taken = match alone {
                        true => table.range(..).next().map_or(Ok(false), |row| table.remove(&row?.0)),
                        false => db.transact(|tx| {
                            let table = tx.bytes(table);
                            table.range(..).next().map_or(Ok(false), |row| table.remove(&row?.0))
                        }),
                    };
                    taken.fetch_add(u64::from(is_taken.expect("a row taken")), Relaxed);
                }
            });
        }
        let second = |_| {
            let before = taken.load(Relaxed);
            thread::sleep(Duration::from_secs(1));
            taken.load(Relaxed) - before
        };
        let rates = (0..seconds).map(second).collect();
        done.store(true, Relaxed);
        rates
    });
    assert_eq!(table.range(..).count() as u64, put.load(Relaxed) - taken.load(Relaxed), "what is left");
    Ok(rates)
}
