//! Read-only transactions with and without writers beside them: what do readers lose to writers?
//!
//! Both are the transactions of `tx`: readers read a few rows as of one moment, writers add one to counters. Phases with
//! readers alone and with readers and writers take turns in one run, so that whatever else the machine does meets both. The
//! answer is a ratio, so it wants a core for each thread: with fewer, it tells how the system shares out its cores.

use crate::keys::Keys;
use crate::kv::{BenchError, Tell};
use crate::memory;
use crate::random::Random;
use crate::spec::THREADS_MAX;
use crate::timed::{self, Limits, Timed, Worker};
use crate::together;
use crate::tx::{Client, KEY_BYTES, TxSpec};
use crate::tx_report::{Columns, Setting, TxReport};
use crate::tx_run::Tally;
use crate::tx_spec::{RunSpec, TxWorkload};
use crate::tx_store::{Isolation, TxStore};
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What the run is asked to do.
#[derive(Clone, Debug, PartialEq, Serialize, clap::Args)]
pub struct ReadersSpec {
    /// Threads of read-only transactions; --threads is how many write
    #[arg(long, default_value_t = 1)]
    pub readers: usize,
    /// Rows that a read-only transaction reads
    #[arg(long, default_value_t = 4)]
    pub reads: usize,
    /// Rows that a writing transaction reads and changes
    #[arg(long, default_value_t = 4)]
    pub updates: usize,
    /// Rows, of 4-byte keys and 8-byte values
    #[arg(long, default_value_t = 1_000_000)]
    pub n: u64,
    /// Turns: each times the readers alone for --seconds, then with the writers for --seconds
    #[arg(long, default_value_t = 3)]
    pub turns: usize,
}

/// What the run found; medians over the turns. Its JSON names are kept stable.
#[derive(Clone, Debug, Serialize)]
pub struct ReadersReport {
    bench: &'static str,
    /// The engine measured.
    pub engine: String,
    /// What was run.
    #[serde(flatten)]
    pub workload: ReadersSpec,
    /// Under which circumstances; threads are those that wrote, and seconds those of each phase.
    #[serde(flatten)]
    pub setting: Setting,
    /// Read-only transactions per second without writers.
    pub read_tps_alone: f64,
    /// Read-only transactions per second beside writers.
    pub read_tps_beside_writers: f64,
    /// The second by the first, turn by turn.
    pub kept: f64,
    /// Writing transactions per second beside readers.
    pub write_tps: f64,
    /// Transactions run again because they lost against another.
    pub aborts: u64,
    /// Always true: a run with a wrong answer has no report.
    pub checked: bool,
}

impl TxReport for ReadersReport {
    fn columns(&self) -> Columns {
        let ReadersSpec { readers, reads, updates, n, .. } = &self.workload;
        [
            ("workload", format!("{reads} reads beside {updates} updates of {n} rows")),
            ("writers", self.setting.threads.to_string()),
            ("readers", readers.to_string()),
            ("durability", format!("{:?}", self.setting.durability).to_lowercase()),
            ("isolation", format!("{:?}", self.setting.isolation).to_lowercase()),
            ("reads tx/s alone", format!("{:.0}", self.read_tps_alone)),
            ("beside writers", format!("{:.0}", self.read_tps_beside_writers)),
            ("kept", format!("{:.2}", self.kept)),
            ("writes tx/s", format!("{:.0}", self.write_tps)),
            ("aborts", self.aborts.to_string()),
        ]
    }
}

impl TxWorkload for ReadersSpec {
    const NAME: &'static str = "readers";
    type Report = ReadersReport;

    fn check(&self, run: &RunSpec) -> Result<(), BenchError> {
        let complaint = match self {
            Self { readers, .. } if !(1..=THREADS_MAX).contains(readers) => "--readers: 1 to 1024",
            Self { reads: 0, .. } => "--reads: at least one",
            Self { updates: 0, .. } => "--updates: at least one",
            Self { turns: 0, .. } => "--turns: at least one",
            _ => return self.rows(self.reads, self.updates).check(run),
        };
        Err(BenchError::Usage(complaint.to_owned()))
    }

    fn measure<S: TxStore>(
        &self,
        engine: &str,
        store: &S,
        run: &RunSpec,
        progress: Tell<'_>,
    ) -> Result<ReadersReport, BenchError> {
        let (reading, writing) = (self.rows(self.reads, 0), self.rows(0, self.updates));
        let table = store.table("rows")?;
        let keys = Keys::new(self.n, KEY_BYTES, run.seed);
        writing.load(store, &table, (&keys, run.threads), progress)?;
        store.settle()?;
        let updates = AtomicU64::new(0);
        // A random stream for each thread of each phase; stream 0 is the loader's.
        let streams = AtomicU64::new(1);
        let phase = |writers: usize, seconds: f64| {
            let worker = |thread| {
                let is_reader = thread < self.readers as u64;
                let spec = if is_reader { &reading } else { &writing };
                let random = Random::new(run.seed, streams.fetch_add(1, Relaxed));
                let client = Client::new(store.session()?, spec, (&table, &keys), random, &updates);
                Ok(Role { client, is_reader })
            };
            let limits = |_| Limits { calls: u64::MAX, seconds };
            timed::run(self.readers + writers, limits, worker, progress).map(Phase::of)
        };
        memory::touch_for(run.warm_up_seconds + run.seconds);
        if run.warm_up_seconds > 0.0 {
            phase(run.threads, run.warm_up_seconds)?;
        }
        let turn = |_| Ok((phase(0, run.seconds)?, phase(run.threads, run.seconds)?));
        let turns = (0..self.turns).map(turn).collect::<Result<Vec<_>, BenchError>>()?;
        writing.check_sum(store, &table, (&keys, updates.load(Relaxed)), progress)?;
        Ok(self.report(engine, store.isolation(), run, &turns))
    }
}

impl ReadersSpec {
    /// The transactions of `tx` over these rows.
    fn rows(&self, reads: usize, updates: usize) -> TxSpec {
        TxSpec { reads, updates, n: self.n }
    }

    fn report(
        &self,
        engine: &str,
        isolation: Isolation,
        run: &RunSpec,
        turns: &[(Phase, Phase)],
    ) -> ReadersReport {
        let kept = median(turns.iter().map(|(alone, beside)| beside.read_tps / alone.read_tps));
        ReadersReport {
            bench: Self::NAME,
            engine: engine.to_owned(),
            workload: self.clone(),
            setting: Setting::new(run, isolation, run.seconds, run.warm_up_seconds),
            read_tps_alone: median(turns.iter().map(|(alone, _)| alone.read_tps)).round(),
            read_tps_beside_writers: median(turns.iter().map(|(_, beside)| beside.read_tps)).round(),
            kept: (kept * 1000.0).round() / 1000.0,
            write_tps: median(turns.iter().map(|(_, beside)| beside.write_tps)).round(),
            aborts: turns.iter().map(|(alone, beside)| alone.aborts + beside.aborts).sum(),
            checked: true,
        }
    }
}

/// A reader or a writer.
struct Role<W> {
    client: W,
    is_reader: bool,
}

/// What it tells: which of them it is, and how often it began again.
struct Part {
    is_reader: bool,
    aborts: u64,
}

impl<W: Worker<Tally = Tally>> Worker for Role<W> {
    type Tally = Part;

    fn work(&mut self, call: u64) -> Result<u64, BenchError> {
        self.client.work(call)
    }

    fn tally(self) -> Part {
        Part { is_reader: self.is_reader, aborts: self.client.tally().aborts }
    }
}

/// What a phase found.
struct Phase {
    read_tps: f64,
    write_tps: f64,
    aborts: u64,
}

impl Phase {
    /// Readers and writers each in their own time: a writer may end long after the readers.
    fn of(timed: Timed<Part>) -> Self {
        let rate = |is_reader| {
            let parts = timed.tallies.iter().zip(&timed.runs);
            let own = parts.filter(|(part, _)| part.is_reader == is_reader).map(|(_, run)| *run);
            together::rate(&own.collect::<Vec<_>>())
        };
        let aborts = timed.tallies.iter().map(|part| part.aborts).sum();
        Self { read_tps: rate(true), write_tps: rate(false), aborts }
    }
}

/// The middle one, or the mean of the two in the middle.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 9.0].into_iter()), 3.0);
        assert_eq!(median([4.0, 1.0, 9.0, 2.0].into_iter()), 3.0);
        assert_eq!(median([5.0].into_iter()), 5.0);
    }

    struct Sleeper(Duration);

    impl Worker for Sleeper {
        type Tally = Tally;

        fn work(&mut self, _call: u64) -> Result<u64, BenchError> {
            std::thread::sleep(self.0);
            Ok(1)
        }

        fn tally(self) -> Tally {
            Tally { aborts: 0, marked: 0 }
        }
    }

    /// A writer whose last transaction is long takes nothing from the readers' rate.
    #[test]
    fn readers_are_timed_by_themselves() {
        let worker = |thread: u64| {
            let client = Sleeper(Duration::from_millis(if thread == 0 { 1 } else { 2000 }));
            Ok(Role { client, is_reader: thread == 0 })
        };
        let limits = |thread| Limits { calls: if thread == 0 { 10 } else { 1 }, seconds: f64::MAX };
        let phase = Phase::of(timed::run(2, limits, worker, &|_| {}).unwrap());
        assert!(phase.read_tps > 10.0, "{}", phase.read_tps); // all in all it is 5 a second
    }

    /// A reader that is done in no time counts for no more than it did while the other still reads.
    #[test]
    fn readers_are_timed_together() {
        let worker = |thread: u64| {
            let client = Sleeper(Duration::from_millis(if thread == 0 { 1 } else { 300 }));
            Ok(Role { client, is_reader: true })
        };
        let limits = |thread| Limits { calls: if thread == 0 { 10 } else { 1 }, seconds: f64::MAX };
        let phase = Phase::of(timed::run(2, limits, worker, &|_| {}).unwrap());
        assert!(phase.read_tps <= 11.0 / 0.3, "{}", phase.read_tps);
    }
}
