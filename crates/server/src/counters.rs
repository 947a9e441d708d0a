//! What the server counts, apart from the engine. Each event loop counts for itself, and who executes commands elsewhere with
//! others in a place of their own; readers add up.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One event loop's counters, or those of all who execute commands elsewhere. On a line of their own, so that loops do not disturb each other.
#[derive(Default)]
#[repr(align(128))]
pub struct Counters {
    /// Commands executed, those of EXEC included.
    pub commands: AtomicU64,
    /// Replies that were errors.
    pub errors: AtomicU64,
    /// Bytes received.
    pub received_bytes: AtomicU64,
    /// Bytes sent.
    pub sent_bytes: AtomicU64,
    /// Commands that met a lock and were put off.
    pub put_off: AtomicU64,
    /// Batches whose replies waited for the device.
    pub batches: AtomicU64,
    /// Clients sent away for stalling or idling.
    pub dropped: AtomicU64,
    /// Clients sent away since all together had too much memory.
    pub evicted: AtomicU64,
}

impl Counters {
    /// Only their own loop counts, so two plain accesses do.
    pub fn add(counter: &AtomicU64, by: u64) {
        counter.store(counter.load(Relaxed) + by, Relaxed);
    }
}

/// A counter of all together.
pub fn sum(all: &[Counters], counter: impl Fn(&Counters) -> &AtomicU64) -> u64 {
    all.iter().map(|one| counter(one).load(Relaxed)).sum()
}

/// Name, help and value of each, for INFO and `/metrics`.
pub fn all(counters: &[Counters]) -> [(&'static str, &'static str, u64); 8] {
    let one = |name, help, counter: fn(&Counters) -> &AtomicU64| (name, help, sum(counters, counter));
    [
        one("commands_total", "Commands executed", |c| &c.commands),
        one("errors_total", "Replies that were errors", |c| &c.errors),
        one("received_bytes_total", "Bytes received", |c| &c.received_bytes),
        one("sent_bytes_total", "Bytes sent", |c| &c.sent_bytes),
        one("put_off_total", "Attempts that met a lock and were put off", |c| &c.put_off),
        one("batches_total", "Batches whose replies waited for the device", |c| &c.batches),
        one("dropped_total", "Clients sent away for stalling or idling", |c| &c.dropped),
        one("evicted_total", "Clients sent away since all together had too much memory", |c| &c.evicted),
    ]
}
