//! What the tests of whole databases share.
#![allow(dead_code)] // each test file uses its part

use foreshore::{Builder, ByteTable, Database, Durability, Result, TransactionOptions};
use foreshore_base::random;
use foreshore_io::MemVfs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// A log file of [`tiny`].
pub const TINY_SEGMENT_BYTES: u64 = 64 << 10;

/// A database so small that a few dozen rows split leaves, wrap the ring, recycle segments and evict pages.
pub fn tiny() -> Builder {
    Database::builder()
        .leaf_bytes(4096)
        .cache_bytes(64 * 4096)
        .segment_bytes(TINY_SEGMENT_BYTES)
        .ring_bytes(64 << 10)
        .log_bytes(64 << 10)
}

/// A database in memory with small leaves, so that a few dozen rows split them, but room for all of them.
pub fn small() -> Database {
    Database::builder()
        .leaf_bytes(4096)
        .cache_bytes(256 * 4096)
        .durability(Durability::Relaxed)
        .ring_bytes(1 << 20)
        .segment_bytes(1 << 20)
        .log_bytes(8 << 20)
        .open_on(Arc::new(MemVfs::new()))
        .unwrap()
}

/// All rows of a table.
pub fn rows(table: &ByteTable) -> Vec<(Vec<u8>, Vec<u8>)> {
    table.range(..).collect::<Result<_>>().unwrap()
}

/// A row, as [`rows`] gives it.
pub fn row(key: &[u8], value: &[u8]) -> (Vec<u8>, Vec<u8>) {
    (key.to_vec(), value.to_vec())
}

/// Key number `i`: neighbours in number are far apart in the table.
pub fn key(i: u32) -> [u8; 4] {
    i.wrapping_mul(2_654_435_761).to_be_bytes()
}

/// A transaction that soon gives up waiting for a lock.
pub fn short() -> TransactionOptions {
    TransactionOptions::new().lock_timeout(Duration::from_millis(50))
}

/// Returns when no transaction is left.
pub fn wait_for_the_last_transaction(db: &Database) {
    let since = Instant::now();
    while db.stats().transactions > 0 {
        assert!(since.elapsed() < Duration::from_secs(30), "a transaction does not end");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A number from the environment, such as `FORESHORE_SEED`.
pub fn env(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .map_or(default, |v| v.parse().unwrap_or_else(|_| panic!("{name} is a number, not {v:?}")))
}

/// Every choice descends from one printed seed.
#[derive(Clone)]
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        random::next(&mut self.0)
    }

    /// A number below `n`; 0 if there is none.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// A value, cheaper to make than by [`Rng::bytes`] if it is large.
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng(seed);
    let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| rng.next().to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}

/// Spreads jobs over the cores.
pub fn in_parallel<T: Sync>(jobs: &[T], job: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(one) = jobs.get(next.fetch_add(1, Relaxed)) {
                    job(one);
                }
            });
        }
    });
}
