//! Do threads that read the same rows get into each other's way?
//!
//! `cargo run --release -p foreshore --example popular_rows -- DIR [SECONDS] [THREADS,THREADS,…]`
//!
//! Threads read ten times one of so many rows in a serializable transaction, in a table in the directory DIR, which is absent or empty.
//! Buffered. Thousand transactions per second:
//!
//! - `read`: nothing else.
//! - `opened`: each transaction opens the table by its name.
//! - `changed`: each thousandth transaction changes the first ten rows instead, one of which the others read; who reads two of them
//!   must never see a difference.

use foreshore::{ByteTable, Database, Durability, Result};
use foreshore_base::random;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

const THREADS: &str = "1,2,8";
const READS: u64 = 10;
const CHANGED: u64 = 10;
const ONE_CHANGES_IN: u64 = 1000;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let dir = args.next().expect("usage: popular_rows DIR [SECONDS] [THREADS,THREADS,…]");
    let seconds = args.next().map_or(3, |arg| arg.parse().expect("a number"));
    let threads = args.next().unwrap_or(THREADS.into());
    let db = Database::builder().cache_bytes(512 << 20).durability(Durability::Buffered).open(dir)?;
    println!("work  of  threads  thousand_per_s");
    for threads in threads.split(',').map(|threads| threads.parse().expect("a number")) {
        for rows in [1, 10, 100_000] {
            let table = db.byte_table(&format!("{rows} rows, {threads} threads"))?;
            table.bulk_load((0..rows).map(|row| (key(row), key(0))))?;
            for work in ["read", "opened", "changed"] {
                let rate = run(threads, seconds, |random| match work {
                    "read" => read(&db, &table, rows, random),
                    "opened" => read(&db, &db.byte_table(table.name())?, rows, random),
                    _ if random.below(ONE_CHANGES_IN) == 0 => change(&db, &table, rows.min(CHANGED)),
                    _ => read(&db, &table, rows.min(CHANGED), random),
                })?;
                println!("{work}  {rows}  {threads}  {rate:.1}");
            }
        }
    }
    db.close()
}

/// Does `work` again and again in so many threads; thousands per second.
fn run(threads: u64, seconds: u64, work: impl Fn(&mut Random) -> Result<()> + Sync) -> Result<f64> {
    let done = AtomicBool::new(false);
    let times = thread::scope(|scope| {
        let (done, work) = (&done, &work);
        let thread = |number| {
            scope.spawn(move || {
                let (mut random, mut times) = (Random(number + 1), 0u64);
                while !done.load(Relaxed) {
                    work(&mut random)?;
                    times += 1;
                }
                Ok(times)
            })
        };
        let threads: Vec<_> = (0..threads).map(thread).collect();
        thread::sleep(Duration::from_secs(seconds));
        done.store(true, Relaxed);
        threads.into_iter().map(|thread| thread.join().expect("a thread that ends")).sum::<Result<u64>>()
    })?;
    Ok(times as f64 / seconds as f64 / 1e3)
}

/// A transaction that reads some of the first so many rows, which are all the same.
fn read(db: &Database, table: &ByteTable, rows: u64, random: &mut Random) -> Result<()> {
    db.transact(|tx| {
        let (table, mut first, mut value) = (tx.bytes(table), Vec::new(), Vec::new());
        assert!(table.get_into(&key(random.below(rows)), &mut first)?, "a row");
        for _ in 1..READS {
            assert!(table.get_into(&key(random.below(rows)), &mut value)?, "a row");
            assert_eq!(first, value, "half a change was read");
        }
        Ok(())
    })
}

/// A transaction that adds one to each of the first so many rows.
fn change(db: &Database, table: &ByteTable, rows: u64) -> Result<()> {
    db.transact(|tx| {
        let table = tx.bytes(table);
        (0..rows).try_for_each(|row| {
            let before = table.get_for_update(&key(row))?.expect("a row");
            let before = u64::from_be_bytes(before.try_into().expect("eight bytes"));
            table.put(&key(row), &key(before + 1))
        })
    })
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// The seed is the thread's number.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        random::next(&mut self.0) % end
    }
}
