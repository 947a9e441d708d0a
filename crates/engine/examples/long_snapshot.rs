//! How long can a snapshot stay open while others write, and what does it cost them?
//!
//! `cargo run --release -p foreshore --example long_snapshot -- DIR [CHANGED] [SECONDS]`
//!
//! A million rows of 100 bytes in the directory DIR, which is absent or empty. Two threads change CHANGED of them (a million)
//! at random, buffered, first by single writes and then one in a transaction. Each second: changes a second, memory for old
//! versions, and whether the snapshot from before still sees its rows. The first line of each is without a snapshot.

use foreshore::{Database, Durability, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

const ROWS: u64 = 1_000_000;
const THREADS: u64 = 2;
const BEFORE: [u8; 100] = [7; 100];
const AFTER: [u8; 100] = [8; 100];

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let dir = args.next().expect("usage: long_snapshot DIR [CHANGED] [SECONDS]");
    let changed = args.next().map_or(ROWS, |arg| arg.parse().expect("a number"));
    let seconds = args.next().map_or(5, |arg| arg.parse().expect("a number"));
    let db = Database::builder().cache_bytes(1 << 30).durability(Durability::Buffered).open(dir)?;
    println!("rows  alone  snapshot  changes_per_s  old_versions_mb  answers");
    for alone in [true, false] {
        let name = format!("alone {alone}");
        let table = db.byte_table(&name)?;
        table.bulk_load((0..ROWS).map(|row| (row.to_be_bytes(), BEFORE)))?;
        let (done, changes) = (&AtomicBool::new(false), &AtomicU64::new(0));
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (db, table) = (&db, &table);
                scope.spawn(move || {
                    let mut random = thread + 1;
                    while !done.load(Relaxed) {
                        random ^= random << 13;
                        random ^= random >> 7;
                        random ^= random << 17;
                        let key = (random % changed).to_be_bytes();
                        let changed = match alone {
                            true => table.put(&key, &AFTER),
                            false => db.transact(|tx| tx.bytes(table).put(&key, &AFTER)),
                        };
                        changed.expect("a change");
                        changes.fetch_add(1, Relaxed);
                    }
                });
            }
            let line = |snapshot: bool, answers: &str| {
                let before = changes.load(Relaxed);
                thread::sleep(Duration::from_secs(1));
                let (done, bytes) = (changes.load(Relaxed) - before, db.stats().image_bytes);
                println!("{changed}  {alone}  {snapshot}  {done}  {}  {answers}", bytes >> 20);
            };
            line(false, "-");
            let snapshot = db.snapshot().expect("a snapshot");
            let seen = |row: u64| snapshot.bytes(&table).get(&row.to_be_bytes());
            let first: Vec<_> = (0..1000).map(|row| seen(row).expect("a row")).collect();
            for _ in 0..seconds {
                let answers = match (0..1000).map(seen).collect::<Result<Vec<_>>>() {
                    Ok(now) if now == first => "as at first".to_owned(),
                    Ok(_) => "WRONG: not as at first".to_owned(),
                    Err(error) => error.to_string(),
                };
                line(true, &answers);
            }
            done.store(true, Relaxed);
        });
    }
    db.close()
}
