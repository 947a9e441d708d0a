//! The timed phase: threads begin together, each clocks every operation, the first failure stops all.
//!
//! The end of one operation is the beginning of the next, so there is one clock reading per operation, and whatever an
//! operation waits for, a stall included, is in some latency.

use crate::kv::{BenchError, Progress, Tell};
use crate::latencies::{Histogram, histogram, micros};
use crate::threads::{self, Gate};
use crate::together::{self, Run};
use crossbeam_utils::CachePadded;
use quanta::Clock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::Duration;

const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// What a thread does in a timed phase, over and over. It is made, used and given up on that thread.
pub(crate) trait Worker {
    /// What it tells at the end, beside the figures.
    type Tally: Send;

    /// One call; returns how many operations it counts as.
    fn work(&mut self, call: u64) -> Result<u64, BenchError>;

    /// The end.
    fn tally(self) -> Self::Tally;
}

/// A closure has nothing to tell.
impl<F: FnMut(u64) -> Result<u64, BenchError>> Worker for F {
    type Tally = ();

    fn work(&mut self, call: u64) -> Result<u64, BenchError> {
        self(call)
    }

    fn tally(self) {}
}

/// What the threads of a timed phase did together.
pub(crate) struct Timed<T = ()> {
    pub ops: u64,
    pub seconds: f64,
    pub latency_ns: Histogram<u64>,
    /// Exact, where the histogram is within 1 %.
    pub latency_ns_max: u64,
    /// What each thread had to tell, in no order.
    pub tallies: Vec<T>,
    /// What each thread did and when, in the same order.
    pub runs: Vec<Run>,
}

/// How much one thread may do.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub calls: u64,
    pub seconds: f64,
}

/// One thread's part, after it ends.
struct Part<T> {
    ops: u64,
    started_raw: u64,
    ended_raw: u64,
    latency_ns: Histogram<u64>,
    latency_ns_max: u64,
    tally: T,
}

/// What threads share during the phase.
struct Shared {
    clock: Clock,
    start: Gate,
    stop: AtomicBool,
    done: Vec<CachePadded<AtomicU64>>,
}

/// A thread that the others wait for. It has begun when this is dropped, also by a panic, which the others are not to wait for;
/// all stop at once if one of them cannot be started.
struct Ready<'a>(&'a Shared);

impl Drop for Ready<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop.store(true, Relaxed);
        }
        if !self.0.start.pass() {
            self.0.stop.store(true, Relaxed);
        }
    }
}

/// Runs `threads` workers. `worker(thread)` makes a thread's worker, on that thread.
///
/// Errors: the first worker's; [`BenchError::Usage`] if the system does not start so many threads.
pub(crate) fn run<W: Worker>(
    threads: usize,
    limits: impl Fn(u64) -> Limits + Sync,
    worker: impl Fn(u64) -> Result<W, BenchError> + Sync,
    progress: Tell<'_>,
) -> Result<Timed<W::Tally>, BenchError> {
    let shared = Shared {
        clock: Clock::new(),
        start: Gate::new(threads),
        stop: AtomicBool::new(false),
        done: (0..threads).map(|_| CachePadded::default()).collect(),
    };
    let (sender, parts) = mpsc::channel();
    std::thread::scope(|scope| {
        let started = threads::start(scope, &shared.start, |thread| {
            let (sender, shared, worker, limits) = (sender.clone(), &shared, &worker, &limits);
            move || {
                let part = work(shared, thread, limits(thread), || worker(thread));
                if part.is_err() {
                    shared.stop.store(true, Relaxed);
                }
                sender.send(part).expect("the receiver outlives the threads");
            }
        });
        drop(sender);
        started?;
        gather(&parts, &shared, progress)
    })
}

/// One thread: waits for the others, then works until a limit or a failure.
fn work<W: Worker>(
    shared: &Shared,
    thread: u64,
    limits: Limits,
    worker: impl FnOnce() -> Result<W, BenchError>,
) -> Result<Part<W::Tally>, BenchError> {
    let ready = Ready(shared);
    let worker = worker();
    let clock = &shared.clock;
    let mut latency_ns = histogram();
    let limit_ns = (limits.seconds * 1e9) as u64;
    let (mut ops, mut latency_ns_max) = (0, 0);

    drop(ready);
    let mut worker = worker?;
    let started_raw = clock.raw();
    let mut before_raw = started_raw;
    for call in 0..limits.calls {
        if shared.stop.load(Relaxed) {
            break;
        }
        ops += worker.work(call)?;
        let after_raw = clock.raw();
        let ns = clock.delta_as_nanos(before_raw, after_raw);
        before_raw = after_raw;
        latency_ns.saturating_record(ns);
        latency_ns_max = latency_ns_max.max(ns);
        shared.done[thread as usize].store(ops, Relaxed);
        if clock.delta_as_nanos(started_raw, after_raw) >= limit_ns {
            break;
        }
    }
    Ok(Part { ops, started_raw, ended_raw: before_raw, latency_ns, latency_ns_max, tally: worker.tally() })
}

/// Reports progress until all parts are in, then adds them up, or returns the first failure.
fn gather<T>(
    parts: &mpsc::Receiver<Result<Part<T>, BenchError>>,
    shared: &Shared,
    progress: Tell<'_>,
) -> Result<Timed<T>, BenchError> {
    let mut done: Result<Vec<Part<T>>, BenchError> = Ok(Vec::new());
    loop {
        match parts.recv_timeout(PROGRESS_EVERY) {
            Ok(part) => {
                done = done.and_then(|mut done| {
                    done.push(part?);
                    Ok(done)
                });
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(Timed::new(done?, &shared.clock)),
            Err(mpsc::RecvTimeoutError::Timeout) => progress(&Progress {
                phase: "timed",
                done: shared.done.iter().map(|done| done.load(Relaxed)).sum(),
                total: None,
            }),
        }
    }
}

impl<T> Timed<T> {
    /// What this share of the calls took at most, in µs: a bucket's upper end, which may lie above the longest.
    pub fn quantile_us(&self, share: f64) -> f64 {
        micros(self.latency_ns.value_at_quantile(share).min(self.latency_ns_max))
    }

    /// The longest call, in µs.
    pub fn longest_us(&self) -> f64 {
        micros(self.latency_ns_max)
    }

    /// Adds the parts up: from the first thread's start to the last one's end.
    fn new(parts: Vec<Part<T>>, clock: &Clock) -> Self {
        let started_raw = parts.iter().map(|part| part.started_raw).min().unwrap_or(0);
        let since = |raw| clock.delta(started_raw, raw);
        let run = |part: &Part<T>| Run {
            ops: part.ops,
            began: since(part.started_raw),
            ended: since(part.ended_raw),
        };
        let runs: Vec<_> = parts.iter().map(run).collect();
        let mut latency_ns = histogram();
        for part in &parts {
            latency_ns.add(&part.latency_ns).expect("the same bounds");
        }
        Self {
            ops: parts.iter().map(|part| part.ops).sum(),
            seconds: together::seconds(&runs),
            latency_ns,
            latency_ns_max: parts.iter().map(|part| part.latency_ns_max).max().unwrap_or(0),
            runs,
            tallies: parts.into_iter().map(|part| part.tally).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    /// The other thread waits for it neither at the beginning nor until its time is over.
    #[test]
    fn a_worker_that_panics_before_it_begins_ends_the_run() {
        let (sender, ended) = mpsc::channel();
        std::thread::spawn(move || {
            let worker = |thread| {
                assert!(thread == 0, "no worker is made");
                Ok(|_| Ok(1))
            };
            let limits = |_| Limits { calls: u64::MAX, seconds: f64::MAX };
            let outcome = catch_unwind(|| run(2, limits, worker, &|_| {}).is_ok());
            sender.send(outcome.is_err()).expect("the test waits for it");
        });
        assert_eq!(ended.recv_timeout(Duration::from_secs(60)), Ok(true));
    }
}
