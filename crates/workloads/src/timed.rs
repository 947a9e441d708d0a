//! The timed phase: threads begin together, each clocks every operation, the first failure stops all.
//!
//! The end of one operation is the beginning of the next, so there is one clock reading per operation, and whatever an
//! operation waits for, a stall included, is in some latency.

use crate::kv::{BenchError, Progress};
use crate::store::Store;
use crossbeam_utils::CachePadded;
use hdrhistogram::Histogram;
use quanta::Clock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Barrier, mpsc};
use std::time::Duration;

const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// What the threads of a timed phase did together.
pub(crate) struct Timed {
    pub ops: u64,
    pub seconds: f64,
    pub latency_ns: Histogram<u64>,
    /// Exact, where the histogram is within 1 %.
    pub latency_ns_max: u64,
}

/// How much one thread may do.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub calls: u64,
    pub seconds: f64,
}

/// One thread's part, after it ends.
struct Part {
    ops: u64,
    started_raw: u64,
    ended_raw: u64,
    latency_ns: Histogram<u64>,
    latency_ns_max: u64,
}

/// What threads share during the phase.
struct Shared {
    clock: Clock,
    start: Barrier,
    stop: AtomicBool,
    done: Vec<CachePadded<AtomicU64>>,
}

/// Latencies from 1 ns to an hour within 1 %: finer than any run repeats, and small enough for the caches.
fn histogram() -> Histogram<u64> {
    const HOUR_NS: u64 = 3_600_000_000_000;
    Histogram::new_with_bounds(1, HOUR_NS, 2).expect("bounds and digits in range")
}

/// Runs `threads` workers. `worker(thread)` makes a thread's operation, which returns how many operations it counts as.
pub(crate) fn run<S, W, Op>(
    store: &S,
    threads: usize,
    limits: impl Fn(u64) -> Limits + Sync,
    worker: W,
    progress: &(dyn Fn(&Progress) + Sync),
) -> Result<Timed, BenchError>
where
    S: Store,
    W: Fn(u64) -> Op + Sync,
    Op: for<'s> FnMut(&mut S::Session<'s>, u64) -> Result<u64, BenchError>,
{
    let shared = Shared {
        clock: Clock::new(),
        start: Barrier::new(threads + 1),
        stop: AtomicBool::new(false),
        done: (0..threads).map(|_| CachePadded::default()).collect(),
    };
    std::thread::scope(|scope| {
        let (sender, parts) = mpsc::channel();
        for thread in 0..threads as u64 {
            let (sender, shared, worker, limits) = (sender.clone(), &shared, &worker, &limits);
            scope.spawn(move || {
                let part = work(store, shared, thread, limits(thread), worker(thread));
                if part.is_err() {
                    shared.stop.store(true, Relaxed);
                }
                // The receiver lives until every sender is gone.
                sender.send(part).expect("the main thread waits for all parts");
            });
        }
        drop(sender);
        shared.start.wait();
        gather(&parts, &shared, progress)
    })
}

/// One thread: waits for the others, then works until a limit or a failure.
fn work<S: Store>(
    store: &S,
    shared: &Shared,
    thread: u64,
    limits: Limits,
    mut op: impl for<'s> FnMut(&mut S::Session<'s>, u64) -> Result<u64, BenchError>,
) -> Result<Part, BenchError> {
    let session = store.session();
    let clock = &shared.clock;
    let mut latency_ns = histogram();
    let limit_ns = (limits.seconds * 1e9) as u64;
    let (mut ops, mut latency_ns_max) = (0, 0);

    shared.start.wait();
    let mut session = session?;
    let started_raw = clock.raw();
    let mut before_raw = started_raw;
    for call in 0..limits.calls {
        ops += op(&mut session, call)?;
        let after_raw = clock.raw();
        let ns = clock.delta_as_nanos(before_raw, after_raw);
        before_raw = after_raw;
        latency_ns.saturating_record(ns);
        latency_ns_max = latency_ns_max.max(ns);
        shared.done[thread as usize].store(ops, Relaxed);
        if clock.delta_as_nanos(started_raw, after_raw) >= limit_ns || shared.stop.load(Relaxed) {
            break;
        }
    }
    Ok(Part { ops, started_raw, ended_raw: before_raw, latency_ns, latency_ns_max })
}

/// Reports progress until all parts are in, then adds them up.
fn gather(
    parts: &mpsc::Receiver<Result<Part, BenchError>>,
    shared: &Shared,
    progress: &(dyn Fn(&Progress) + Sync),
) -> Result<Timed, BenchError> {
    let mut done = Vec::new();
    loop {
        match parts.recv_timeout(PROGRESS_EVERY) {
            Ok(part) => done.push(part?),
            Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(Timed::new(&done, &shared.clock)),
            Err(mpsc::RecvTimeoutError::Timeout) => progress(&Progress {
                phase: "timed",
                done: shared.done.iter().map(|done| done.load(Relaxed)).sum(),
                total: None,
            }),
        }
    }
}

impl Timed {
    /// Adds the parts up: from the first thread's start to the last one's end.
    fn new(parts: &[Part], clock: &Clock) -> Self {
        let started_raw = parts.iter().map(|part| part.started_raw).min().unwrap_or(0);
        let ended_raw = parts.iter().map(|part| part.ended_raw).max().unwrap_or(0);
        let mut latency_ns = histogram();
        for part in parts {
            latency_ns.add(&part.latency_ns).expect("the same bounds");
        }
        Self {
            ops: parts.iter().map(|part| part.ops).sum(),
            seconds: clock.delta_as_nanos(started_raw, ended_raw) as f64 / 1e9,
            latency_ns,
            latency_ns_max: parts.iter().map(|part| part.latency_ns_max).max().unwrap_or(0),
        }
    }
}
