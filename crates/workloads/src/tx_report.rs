//! What transactional runs found: the fields that all reports share. Their names are kept stable.

use crate::spec::Durability;
use crate::tx_run::Measured;
use crate::tx_spec::{RunSpec, TxWorkload};
use crate::tx_store::Isolation;
use serde::Serialize;

/// A report: one JSON object, or one row of a table.
pub trait TxReport: Serialize {
    /// The headline: names and values of a table's columns.
    fn columns(&self) -> Columns;
}

/// The report of a workload that has no more to say than its flags and its figures.
#[derive(Clone, Debug, Serialize)]
pub struct Report<W> {
    bench: &'static str,
    /// The engine measured.
    pub engine: String,
    /// What was run.
    #[serde(flatten)]
    pub workload: W,
    /// Under which circumstances.
    #[serde(flatten)]
    pub setting: Setting,
    /// How fast.
    #[serde(flatten)]
    pub rate: Rate,
    /// Latencies and counters.
    #[serde(flatten)]
    pub figures: Figures,
    /// Always true: a run with a wrong answer has no report.
    pub checked: bool,
}

/// A headline rate, named by what is counted.
#[derive(Clone, Copy, Debug, Serialize)]
pub enum Rate {
    /// Operations per second.
    #[serde(rename = "ops_per_s")]
    Operations(f64),
    /// Transactions per second.
    #[serde(rename = "tps")]
    Transactions(f64),
}

/// A workload whose report is a [`Report`].
pub trait Describe: Serialize {
    /// The workload in a few words, for a table.
    fn describe(&self) -> String;
}

impl<W: Describe> TxReport for Report<W> {
    fn columns(&self) -> Columns {
        let rate = match self.rate {
            Rate::Operations(rate) => ("operations/s", rate),
            Rate::Transactions(rate) => ("tx/s", rate),
        };
        columns(self.workload.describe(), rate, &self.setting, &self.figures)
    }
}

impl<W: TxWorkload + Describe + Clone> Report<W> {
    /// `counted` names what the calls of the timed phase count as.
    pub(crate) fn new(
        engine: &str,
        workload: &W,
        run: &RunSpec,
        counted: fn(f64) -> Rate,
        measured: &Measured,
    ) -> Self {
        Self {
            bench: W::NAME,
            engine: engine.to_owned(),
            workload: workload.clone(),
            setting: Setting::of(run, measured),
            rate: counted(measured.rate(measured.timed.ops)),
            figures: Figures::new(measured),
            checked: true,
        }
    }
}

/// A table's row, with the header of each column.
pub type Columns = [(&'static str, String); 10];

/// Under which circumstances a figure holds.
#[derive(Clone, Debug, Serialize)]
pub struct Setting {
    /// Threads at work.
    pub threads: usize,
    /// What an acknowledged commit survives.
    pub durability: Durability,
    /// How read-write transactions are isolated.
    pub isolation: Isolation,
    /// Seconds that the timed phase took.
    pub seconds: f64,
    /// Seconds of the same work before it.
    pub warm_up_seconds: f64,
    /// Seed.
    pub seed: u64,
    /// Memory given for cached data.
    pub cache_bytes: u64,
}

/// What is told of every timed phase, whatever was done in it.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Median latency of a transaction, its retries and the wait for its commit included, in µs.
    pub p50_us: f64,
    /// 99th percentile, µs.
    pub p99_us: f64,
    /// Longest, µs.
    pub max_us: f64,
    /// Transactions run again because they lost against another.
    pub aborts: u64,
    /// Log written during the timed phase per transaction, in bytes; `null` if the engine does not say.
    pub log_bytes_per_tx: Option<f64>,
    /// Device syncs during the timed phase, as the engine counts them (some count their log's only); `null` if it does not say.
    pub syncs: Option<u64>,
    /// CPU seconds of the timed phase, on all cores: the driver's, the engine's and, if it has one, its server's.
    pub cpu_s: f64,
}

impl Setting {
    pub(crate) fn new(run: &RunSpec, isolation: Isolation, seconds: f64, warm_up_seconds: f64) -> Self {
        let RunSpec { threads, durability, seed, cache_bytes, .. } = *run;
        Self { threads, durability, isolation, seconds, warm_up_seconds, seed, cache_bytes }
    }

    pub(crate) fn of(run: &RunSpec, measured: &Measured) -> Self {
        Self::new(run, measured.isolation, measured.timed.seconds, measured.warm_up_seconds)
    }
}

impl Figures {
    pub(crate) fn new(measured: &Measured) -> Self {
        let timed = &measured.timed;
        let per_tx = |bytes| (bytes as f64 / timed.latency_ns.len().max(1) as f64 * 10.0).round() / 10.0;
        Self {
            p50_us: timed.quantile_us(0.5),
            p99_us: timed.quantile_us(0.99),
            max_us: timed.longest_us(),
            aborts: timed.tallies.iter().map(|tally| tally.aborts).sum(),
            log_bytes_per_tx: measured.counted.log_bytes.map(per_tx),
            syncs: measured.counted.syncs,
            cpu_s: (measured.cpu_s * 1e3).round() / 1e3,
        }
    }
}

/// The columns of a workload whose headline rate is `rate` of `unit`.
pub(crate) fn columns(
    workload: String,
    (unit, rate): (&'static str, f64),
    setting: &Setting,
    figures: &Figures,
) -> Columns {
    [
        ("workload", workload),
        ("threads", setting.threads.to_string()),
        ("durability", format!("{:?}", setting.durability).to_lowercase()),
        (unit, format!("{rate:.0}")),
        ("p50 µs", format!("{:.2}", figures.p50_us)),
        ("p99 µs", format!("{:.2}", figures.p99_us)),
        ("max µs", format!("{:.1}", figures.max_us)),
        ("aborts", figures.aborts.to_string()),
        ("log bytes/tx", figures.log_bytes_per_tx.map_or("?".into(), |bytes| format!("{bytes:.0}"))),
        ("syncs", figures.syncs.map_or("?".into(), |syncs| syncs.to_string())),
    ]
}
