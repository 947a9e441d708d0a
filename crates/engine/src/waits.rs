//! Where threads wait: how often, and for how long, by cause.
//!
//! Only waiting itself is measured, on paths that are cold because they wait. So it stays on, and a run in which nobody
//! waits pays nothing. Source: Shore-MT (Johnson et al., EDBT 2009) §5, whose profiles by component guided each step.

use crossbeam_utils::CachePadded;
use foreshore_base::sync::AtomicU64;
use foreshore_base::sync::Ordering::Relaxed;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Counts waits for one thing.
#[derive(Default)]
pub(crate) struct Meter(CachePadded<(AtomicU64, AtomicU64)>);

/// Waits for one thing since the database was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Wait {
    /// What was waited for.
    pub what: String,
    /// How often.
    pub count: u64,
    /// How long in all, over all threads.
    pub ns: u64,
}

impl Wait {
    /// Both together: waits for the same thing in two places.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self { what: self.what.clone(), count: self.count + other.count, ns: self.ns + other.ns }
    }
}

impl Meter {
    /// Waits, and counts it.
    pub fn time<R>(&self, wait: impl FnOnce() -> R) -> R {
        let since = Instant::now();
        let result = wait();
        self.add(since.elapsed());
        result
    }

    /// Counts a wait that is over.
    pub fn add(&self, waited: Duration) {
        self.0.0.fetch_add(1, Relaxed);
        self.0.1.fetch_add(waited.as_nanos() as u64, Relaxed);
    }

    /// What was counted.
    pub fn read(&self, what: impl Into<String>) -> Wait {
        Wait { what: what.into(), count: self.0.0.load(Relaxed), ns: self.0.1.load(Relaxed) }
    }
}
