//! What does a large value cost to write and to read, by its size?
//!
//! `cargo run --release -p foreshore --example large_values -- DIR [MIB] [THREADS] [sync|buffered]`
//!
//! For each size, MIB of values (256, if not said) in a database of its own in the directory DIR, each put a commit of its own,
//! by so many threads (1), with this durability (buffered); then, after a restart, all are read in another order and compared; and after
//! another, with a quarter of the memory that they take, all are replaced. Rates are MiB per second; the time for what was written to be
//! on disk, which closing waits for, is part of it.

use foreshore::{ByteTable, Database, Durability, Result};
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

const KIB: usize = 1 << 10;
const SIZES: [usize; 7] = [16 * KIB, 64 * KIB, 256 * KIB, 1024 * KIB, 4096 * KIB, 16_384 * KIB, 65_536 * KIB];

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let dir = args.next().expect("usage: large_values DIR [MIB] [THREADS] [sync|buffered]");
    let mut number = |default| args.next().map_or(default, |arg| arg.parse().expect("a number"));
    let (bytes, threads) = (number(256) << 20, number(1));
    let durability = match args.next().as_deref() {
        Some("sync") => Durability::Sync,
        None | Some("buffered") => Durability::Buffered,
        Some(other) => panic!("{other}: sync or buffered"),
    };
    println!("   KiB  put_mib_per_s  get_mib_per_s  replace_mib_per_s  files_mib");
    for size in SIZES {
        let dir = Path::new(&dir).join(size.to_string());
        let count = (bytes / size).max(1);
        let begun = Instant::now();
        {
            let db = Database::builder().durability(durability).open(&dir)?;
            let table = db.byte_table("t")?;
            each(&table, count, threads, |table, row| table.put(&key(row), &value(row, size)))?;
        }
        let putting = begun.elapsed();
        let files: u64 =
            fs::read_dir(&dir).expect("the database").map(|f| f.unwrap().metadata().unwrap().len()).sum();
        let db = Database::builder().open(&dir)?;
        let table = db.byte_table("t")?;
        let begun = Instant::now();
        each(&table, count, threads, |table, row| check(table, row, value(row, size)))?;
        let getting = begun.elapsed();
        drop((table, db));
        let begun = Instant::now();
        {
            let cache = (bytes / 4).max(16 << 20);
            let db = Database::builder().durability(durability).cache_bytes(cache).open(&dir)?;
            let table = db.byte_table("t")?;
            each(&table, count, threads, |table, row| table.put(&key(row), &value(row + 1, size)))?;
        }
        let replacing = begun.elapsed();
        let rate = |time: Duration| (count * size) as f64 / (1 << 20) as f64 / time.as_secs_f64();
        println!(
            "{:>6}  {:>13.0}  {:>13.0}  {:>17.0}  {:>9}",
            size / KIB,
            rate(putting),
            rate(getting),
            rate(replacing),
            files >> 20
        );
        let db = Database::open(&dir)?;
        let table = db.byte_table("t")?;
        each(&table, count, threads, |table, row| check(table, row, value(row + 1, size)))?;
        drop((table, db));
        fs::remove_dir_all(&dir).expect("removing the database");
    }
    Ok(())
}

/// Does `work` for all rows, each thread for its share of them.
fn each(
    table: &ByteTable,
    rows: usize,
    threads: usize,
    work: impl Fn(&ByteTable, usize) -> Result<()> + Sync,
) -> Result<()> {
    let share = &|thread| (thread..rows).step_by(threads).try_for_each(|row| work(table, row));
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || share(thread))).collect();
        running.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })
}

fn check(table: &ByteTable, row: usize, value: Vec<u8>) -> Result<()> {
    assert!(table.get(&key(row))?.is_some_and(|found| found == value), "row {row}");
    Ok(())
}

/// Keys in an order that is not theirs.
fn key(row: usize) -> [u8; 8] {
    (row as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

/// Bytes that tell rows and places apart.
fn value(row: usize, size: usize) -> Vec<u8> {
    let words = (0..size as u64 / 8).map(|at| (at ^ (row as u64) << 40).wrapping_mul(0xD6E8_FEB8_6659_FD93));
    words.flat_map(u64::to_le_bytes).collect()
}
