//! Counts that any structure has of itself.

use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// A count of rare events.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub fn add(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    pub fn add_many(&self, events: u64) {
        self.0.fetch_add(events, Relaxed);
    }

    pub fn subtract(&self) {
        self.0.fetch_sub(1, Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

const SHARDS: usize = 16;

/// A count that threads change without meeting: each has its shard, or shares it with few.
#[derive(Debug, Default)]
pub(crate) struct Length {
    shards: [CachePadded<AtomicI64>; SHARDS],
}

impl Length {
    #[inline]
    pub fn add(&self, change: i64) {
        self.shards[shard()].fetch_add(change, Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.shards.iter().map(|shard| shard.load(Relaxed)).sum::<i64>().max(0) as u64
    }
}

/// This thread's shard: threads take turns.
#[inline]
fn shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static SHARD: usize = NEXT.fetch_add(1, Relaxed) % SHARDS);
    SHARD.try_with(|shard| *shard).unwrap_or(0)
}
