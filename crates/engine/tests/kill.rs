//! `kill -9` under load, again and again on one database, with an acknowledgement pipe.
//!
//! A child process writes with several threads and reports each acknowledged row through a pipe; the parent kills it at a
//! random moment, opens the database, and looks for every row it was told of. In every durability: even `Relaxed`
//! promises to survive the death of the process.
//!
//! `FORESHORE_SEED`, `FORESHORE_ROUNDS` (default 120).

mod common;

use common::env;
use foreshore::{Builder, Database, Durability};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

const THREADS: u64 = 4;
const DIR: &str = "FORESHORE_KILL_DIR";
const ROUND: &str = "FORESHORE_KILL_ROUND";

fn options(round: u64) -> Builder {
    let durability = [Durability::Sync, Durability::Buffered, Durability::Relaxed][round as usize % 3];
    // Small, so that rounds meet checkpoints, evictions and recycled segments.
    Database::builder()
        .cache_bytes(2 << 20)
        .segment_bytes(1 << 20)
        .ring_bytes(1 << 20)
        .log_bytes(4 << 20)
        .durability(durability)
}

fn key(thread: u64, count: u64) -> Vec<u8> {
    // Scattered over the leaves, but found again.
    let mut key = (count.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_be_bytes().to_vec();
    key.push(thread as u8);
    key
}

fn value(thread: u64, count: u64) -> Vec<u8> {
    let mut value = count.to_be_bytes().to_vec();
    value.resize(20 + (count % 80) as usize, thread as u8);
    value
}

/// The writing process: not a test of its own. Goes on where the last round stopped.
#[test]
fn child() {
    let (Ok(dir), Ok(round)) = (std::env::var(DIR), std::env::var(ROUND)) else { return };
    let db = options(round.parse().unwrap()).open(&dir).unwrap();
    let rows = db.byte_table("rows").unwrap();
    let firsts = db.byte_table("firsts").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (rows, firsts) = (&rows, &firsts);
            scope.spawn(move || {
                let first = firsts
                    .get(&[thread as u8])
                    .unwrap()
                    .map_or(0, |v| u64::from_be_bytes(v.try_into().unwrap()));
                for count in first.. {
                    rows.put(&key(thread, count), &value(thread, count)).unwrap();
                    // One write of 16 bytes to a pipe is atomic.
                    let mut acknowledgement = [0; 16];
                    acknowledgement[..8].copy_from_slice(&thread.to_be_bytes());
                    acknowledgement[8..].copy_from_slice(&count.to_be_bytes());
                    if std::io::stderr().write_all(&acknowledgement).is_err() {
                        return;
                    }
                }
            });
        }
    });
}

/// What the child acknowledged in its lifetime. In every other round that begins with its first row, however long that takes.
fn run_and_kill(dir: &Path, round: u64, lifetime: Duration) -> Vec<u8> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(DIR, dir)
        .env(ROUND, round.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stderr.take().unwrap();
    let (lives, alive) = channel();
    let reader = std::thread::spawn(move || {
        let mut all = vec![0; 16];
        let first = pipe.read(&mut all).unwrap();
        all.truncate(first);
        let _ = lives.send(()); // in the other rounds nobody listens
        pipe.read_to_end(&mut all).unwrap();
        all
    });
    if round.is_multiple_of(2) {
        alive.recv_timeout(Duration::from_secs(60)).expect("the child lives");
    }
    std::thread::sleep(lifetime);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

/// Every acknowledged row of every round is there, whatever the durability.
#[test]
fn nothing_acknowledged_is_lost_to_kill_9() {
    let (seed, rounds) = (env("FORESHORE_SEED", 1), env("FORESHORE_ROUNDS", 120));
    let dir = tempfile::tempdir().unwrap();
    let mut next: HashMap<u64, u64> = HashMap::new();
    let mut random = seed;
    let mut total = 0;
    for round in 0..rounds {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let lifetime = Duration::from_millis(20 + (random >> 33) % 120);
        let told = run_and_kill(dir.path(), round, lifetime);
        let db =
            options(round).open(dir.path()).unwrap_or_else(|e| panic!("seed {seed}, round {round}: {e}"));
        let rows = db.byte_table("rows").unwrap();
        let before = next.clone();
        for one in told.chunks_exact(16) {
            let thread = u64::from_be_bytes(one[..8].try_into().unwrap());
            assert!(thread < THREADS, "seed {seed}, round {round}: {}", String::from_utf8_lossy(&told));
            let count = u64::from_be_bytes(one[8..].try_into().unwrap());
            assert_eq!(
                rows.get(&key(thread, count)).unwrap(),
                Some(value(thread, count)),
                "seed {seed}, round {round}: thread {thread} lost row {count}"
            );
            next.insert(thread, count + 1);
            total += 1;
        }
        // A sample of what earlier rounds wrote.
        for (thread, count) in before {
            for count in (0..count).step_by(97) {
                assert_eq!(
                    rows.get(&key(thread, count)).unwrap(),
                    Some(value(thread, count)),
                    "round {round}"
                );
            }
        }
        let firsts = db.byte_table("firsts").unwrap();
        for (thread, count) in &next {
            firsts.put(&[*thread as u8], &count.to_be_bytes()).unwrap();
        }
        if round % 20 == 0 {
            db.check().unwrap_or_else(|e| panic!("seed {seed}, round {round}: {e}"));
        }
    }
    println!("{rounds} kills, {total} acknowledged rows, none lost, seed {seed}");
    assert!(total > rounds, "the child was hardly alive: {total} rows in {rounds} rounds");
}
