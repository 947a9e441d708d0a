//! What every transactional run is asked to do: the flags that `foreshore bench` and `peers bench` share.

use crate::kv::{BenchError, Tell};
use crate::quantities::parse_bytes;
use crate::spec::{Durability, THREADS_MAX};
use crate::tx_report::TxReport;
use crate::tx_store::TxStore;
use std::path::PathBuf;

/// How a transactional workload is run, apart from the workload and the engine.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub struct RunSpec {
    /// Threads
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Seconds of the timed phase
    #[arg(long, default_value_t = 6.0)]
    pub seconds: f64,
    /// Seconds of the same work before it, not timed
    #[arg(long = "warm-up", value_name = "SECONDS", default_value_t = 1.0)]
    pub warm_up_seconds: f64,
    /// What an acknowledged commit survives
    #[arg(long, value_enum, default_value_t = Durability::Sync)]
    pub durability: Durability,
    /// Memory for cached data: bytes, or 64MiB, 2GiB …
    #[arg(long = "cache", value_name = "BYTES", default_value = "1GiB", value_parser = parse_bytes)]
    pub cache_bytes: u64,
    /// Every random choice of the run descends from it
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// The command line of a transactional run.
#[derive(Clone, Debug, clap::Args)]
pub struct TxArgs<W: clap::Args> {
    /// Where the store may live: a directory of the run's own is made in it and removed afterwards
    #[arg(long, default_value = ".")]
    pub dir: PathBuf,
    /// What is run
    #[command(flatten)]
    pub workload: W,
    /// How it is run
    #[command(flatten)]
    pub run: RunSpec,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// A transactional workload, as its flags describe it.
pub trait TxWorkload: clap::Args {
    /// Its name on the command line, and in the report.
    const NAME: &'static str;

    /// What a run finds.
    type Report: TxReport;

    /// Can this run be made at all?
    ///
    /// Errors: [`BenchError::Usage`] names the flag to change.
    fn check(&self, run: &RunSpec) -> Result<(), BenchError>;

    /// Bytes of a row, if all are as long: some engines have a table made for that.
    fn row_bytes(&self) -> Option<usize> {
        None
    }

    /// Loads an empty store, works for the time asked for, and checks what the store then holds.
    ///
    /// Errors: [`BenchError`]; what the store holds afterwards is then unspecified.
    fn measure<S: TxStore>(
        &self,
        engine: &str,
        store: &S,
        run: &RunSpec,
        progress: Tell<'_>,
    ) -> Result<Self::Report, BenchError>;
}

impl<W: TxWorkload> TxArgs<W> {
    /// Can this run be made at all?
    ///
    /// Errors: [`BenchError::Usage`] names the flag to change.
    pub fn check(&self) -> Result<(), BenchError> {
        self.run.check()?;
        self.workload.check(&self.run)
    }

    /// A fresh directory for the store, gone when the value is dropped.
    ///
    /// Errors: what the file system says.
    pub fn scratch(&self) -> std::io::Result<tempfile::TempDir> {
        std::fs::create_dir_all(&self.dir)?;
        tempfile::Builder::new().prefix(&format!("bench-{}-", W::NAME)).tempdir_in(&self.dir)
    }

    /// Runs the workload on an empty `store`.
    ///
    /// Errors: as [`check`](Self::check) and [`TxWorkload::measure`].
    pub fn measure<S: TxStore>(
        &self,
        engine: &str,
        store: &S,
        progress: Tell<'_>,
    ) -> Result<W::Report, BenchError> {
        self.check()?;
        self.workload.measure(engine, store, &self.run, progress)
    }
}

impl RunSpec {
    /// A run of one thread, for tests that look at what is said of it.
    #[cfg(test)]
    pub(crate) fn brief() -> Self {
        let (seconds, warm_up_seconds, durability) = (1.0, 0.0, Durability::Relaxed);
        Self { threads: 1, seconds, warm_up_seconds, durability, cache_bytes: 1 << 20, seed: 1 }
    }

    fn check(&self) -> Result<(), BenchError> {
        let complaint = if !(1..=THREADS_MAX).contains(&self.threads) {
            "--threads: 1 to 1024"
        } else if !(self.seconds > 0.0 && self.seconds.is_finite()) {
            "--seconds: more than nothing"
        } else if !(self.warm_up_seconds >= 0.0 && self.warm_up_seconds.is_finite()) {
            "--warm-up: nothing or more"
        } else {
            return Ok(());
        };
        Err(BenchError::Usage(complaint.to_owned()))
    }
}
