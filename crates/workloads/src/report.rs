//! What a key-value run found: one JSON object whose names and fields are kept stable.

use crate::spec::{Durability, KvSpec, Workload};
use crate::timed::Timed;
use serde::Serialize;
use std::fmt;

/// The figures of one run.
#[derive(Clone, Debug, Serialize)]
pub struct KvReport {
    bench: &'static str,
    /// The engine measured.
    pub engine: String,
    /// What was timed.
    pub workload: Workload,
    /// Threads at work.
    pub threads: usize,
    /// Operations per second over all threads, from the first thread's start to the last one's end.
    pub ops_per_s: f64,
    /// Median latency of an operation in µs, the driver's own few dozen nanoseconds included.
    pub p50_us: f64,
    /// 99th percentile, µs.
    pub p99_us: f64,
    /// Longest, µs.
    pub max_us: f64,
    /// Device syncs during the timed phase, as the engine counts them (some count their log's only); `null` if it does not say.
    pub syncs: Option<u64>,
    /// Rows.
    pub n: u64,
    /// Seconds that the timed phase took.
    pub seconds: f64,
    /// Seed.
    pub seed: u64,
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// Memory given for cached data.
    pub cache_bytes: u64,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Rows that a call of `put` handed over.
    pub batch: usize,
    /// Updates in percent: as asked for `mix`, 100 for `put` and `bulk`, 0 for `get` and `scan`.
    pub update_ratio: u8,
    /// Always true: a run with a wrong answer has no report.
    pub checked: bool,
    /// Seconds that loading the rows took before the timed phase, 0 if none were.
    #[serde(skip)]
    pub load_s: f64,
}

impl KvReport {
    pub(crate) fn new(engine: &str, spec: &KvSpec, timed: &Timed, syncs: Option<u64>, load_s: f64) -> Self {
        Self {
            bench: "kv",
            engine: engine.to_owned(),
            workload: spec.workload,
            threads: spec.threads,
            ops_per_s: (timed.ops as f64 / timed.seconds).round(),
            p50_us: timed.quantile_us(0.5),
            p99_us: timed.quantile_us(0.99),
            max_us: timed.longest_us(),
            syncs,
            n: spec.n,
            seconds: timed.seconds,
            seed: spec.seed,
            durability: spec.durability,
            cache_bytes: spec.cache_bytes,
            key_bytes: spec.key_bytes,
            value_bytes: spec.value_bytes,
            batch: spec.batch,
            update_ratio: match spec.workload {
                Workload::Put | Workload::Bulk => 100,
                Workload::Get | Workload::Scan => 0,
                Workload::Mix => spec.update_ratio,
            },
            checked: true,
            load_s,
        }
    }
}

impl fmt::Display for KvReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {:?} × {}: {:.0} operations/s over {:.2} s; latency p50 {:.2} µs, p99 {:.2} µs, max {:.1} µs; ",
            self.engine,
            self.workload,
            self.threads,
            self.ops_per_s,
            self.seconds,
            self.p50_us,
            self.p99_us,
            self.max_us,
        )?;
        match self.syncs {
            Some(syncs) => write!(f, "{syncs} syncs; ")?,
            None => write!(f, "syncs unknown; ")?,
        }
        write!(f, "answers checked")?;
        if self.load_s > 0.0 {
            write!(f, " (loaded {} rows first, {:.2} s)", self.n, self.load_s)?;
        }
        Ok(())
    }
}
