//! How do commits share syncs, whatever the device?
//!
//!     cargo run --release -p foreshore --example slow_sync -- [SYNC_US] [SECONDS]
//!
//! Runs `Sync` puts over files in memory whose syncs each sleep SYNC_US microseconds (1000), however many are under way:
//! a device with a queue. Clients do nothing between two commits, so with c clients no policy gives more than c commits
//! in the time of a sync; `of_ideal` is the share of that. A policy that lets two groups of clients take turns gives
//! half. Expected: above 0.8 wherever the processors keep up.

use foreshore::{Database, Durability, Result};
use foreshore_io::MemVfs;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let number = |i: usize, default| args.get(i).map_or(default, |n| n.parse().expect("a number"));
    let (sync, time) = (Duration::from_micros(number(1, 1000)), Duration::from_secs(number(2, 2)));
    println!("clients  commits_per_s  commits_per_sync  of_ideal");
    for clients in [1, 2, 3, 4, 8, 16, 64] {
        let options = Database::builder().durability(Durability::Sync);
        let disk = MemVfs::new();
        disk.set_sync_time(sync);
        let db = options.open_on(Arc::new(disk))?;
        measure(&db, clients, sync, time)?;
        db.close()?;
    }
    Ok(())
}

fn measure(db: &Database, clients: u32, sync: Duration, time: Duration) -> Result<()> {
    let table = db.byte_table("rows")?;
    let syncs = db.stats().log_syncs;
    let begin = Instant::now();
    let commits = thread::scope(|scope| {
        let run = |client: u32| {
            let table = &table;
            scope.spawn(move || {
                let mut commits = 0u32;
                while begin.elapsed() < time {
                    table.put(&[client.to_be_bytes(), commits.to_be_bytes()].concat(), b"8 bytes.")?;
                    commits += 1;
                }
                Ok(commits)
            })
        };
        let clients: Vec<_> = (0..clients).map(run).collect();
        clients.into_iter().map(|client| client.join().expect("a client does not panic")).sum::<Result<u32>>()
    })?;
    let per_second = f64::from(commits) / begin.elapsed().as_secs_f64();
    let per_sync = f64::from(commits) / (db.stats().log_syncs - syncs) as f64;
    let of_ideal = per_second * sync.as_secs_f64() / f64::from(clients);
    println!("{clients:>7}  {per_second:>13.0}  {per_sync:>16.1}  {of_ideal:>8.2}");
    Ok(())
}
