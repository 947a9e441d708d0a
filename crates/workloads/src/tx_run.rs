//! The phases of a transactional run: warm-up, then the timed phase, with the engine's counters read around it.

use crate::kv::{BenchError, Tell};
use crate::memory;
use crate::timed::{self, Limits, Timed, Worker};
use crate::tx_spec::RunSpec;
use crate::tx_store::{Counters, Isolation, TxError, TxStore};
use rustix::time::{ClockId, clock_gettime};

/// What a worker tells at its end.
pub(crate) struct Tally {
    /// Transactions run again.
    pub aborts: u64,
    /// Transactions of the kind that the workload counts apart.
    pub marked: u64,
}

/// Which worker it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// `0..threads`.
    pub thread: u64,
    /// A random stream of its own in this run: neither another thread nor another phase has it. Stream 0 is the loader's.
    pub stream: u64,
}

/// What the timed phase found.
pub(crate) struct Measured {
    pub timed: Timed<Tally>,
    /// What the engine counted during the phase.
    pub counted: Counters,
    /// How read-write transactions were isolated.
    pub isolation: Isolation,
    /// Seconds of the same work before it.
    pub warm_up_seconds: f64,
    /// CPU seconds that the driver and the engine spent in it, on all cores, in all processes.
    pub cpu_s: f64,
}

impl Measured {
    /// Runs the timed phase, and reads the engine's counters and the clocks of the processors around it. Before it there was so
    /// much warm-up.
    pub fn around(
        store: &impl TxStore,
        warm_up_seconds: f64,
        timed: impl FnOnce() -> Result<Timed<Tally>, BenchError>,
    ) -> Result<Self, BenchError> {
        let (before, cpu_before_s) = (store.counters(), cpu_s(store)?);
        let timed = timed()?;
        let counted = store.counters().since(before);
        let cpu_s = cpu_s(store)? - cpu_before_s;
        Ok(Self { timed, counted, isolation: store.isolation(), warm_up_seconds, cpu_s })
    }

    /// Per second, whole.
    pub fn rate(&self, count: u64) -> f64 {
        (count as f64 / self.timed.seconds).round()
    }

    /// Transactions of the kind that the workload counts apart.
    pub fn marked(&self) -> u64 {
        self.timed.tallies.iter().map(|tally| tally.marked).sum()
    }
}

/// Runs the phases. `worker` makes a thread's worker of one phase; one call of it is one transaction.
pub(crate) fn measure<S: TxStore, W: Worker<Tally = Tally>>(
    store: &S,
    run: &RunSpec,
    worker: impl Fn(Place) -> Result<W, BenchError> + Sync,
    progress: Tell<'_>,
) -> Result<Measured, BenchError> {
    let threads = run.threads as u64;
    let phase = |number: u64, seconds: f64| {
        let limits = |_| Limits { calls: u64::MAX, seconds };
        let worker = |thread| worker(Place { thread, stream: 1 + number * threads + thread });
        timed::run(run.threads, limits, worker, progress)
    };
    memory::touch_for(run.warm_up_seconds + run.seconds);
    if run.warm_up_seconds > 0.0 {
        phase(0, run.warm_up_seconds)?;
    }
    Measured::around(store, run.warm_up_seconds, || phase(1, run.seconds))
}

/// CPU seconds so far, of this process and of those that work for the store.
fn cpu_s(store: &impl TxStore) -> Result<f64, BenchError> {
    let own = clock_gettime(ClockId::ProcessCPUTime);
    Ok(own.tv_sec as f64 + own.tv_nsec as f64 / 1e9 + store.server_cpu_s()?)
}

impl Counters {
    fn since(self, before: Self) -> Self {
        let grown = |after: Option<u64>, before| Some(after?.saturating_sub(before?));
        Self { log_bytes: grown(self.log_bytes, before.log_bytes), syncs: grown(self.syncs, before.syncs) }
    }
}

/// A rollback that nobody asked for, or a conflict that leaves `transact`, is the store's fault.
impl From<TxError> for BenchError {
    fn from(error: TxError) -> Self {
        match error {
            TxError::Store(error) => Self::Store(error),
            TxError::Wrong(what) => Self::Wrong(what),
            TxError::Rollback | TxError::Conflict => {
                Self::Wrong(format!("a transaction ended with: {error}"))
            }
        }
    }
}
