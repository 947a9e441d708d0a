//! What the clients of one life told: every acknowledged commit, and how fast they came.
//!
//! Invariant D1: a commit is told only after it was acknowledged to its client, and what is in the pipe survives the process.
//! So every trace in the journal must be found in the database, whatever happened since.

use crate::demo::message::{self, Message};
use crate::failure::{Failure, Outcome};
use foreshore_workloads::latencies::{Histogram, histogram, micros};
use foreshore_workloads::tpcc::Trace;
use std::io::Read;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time that one point of the chart stands for.
const POINT_EVERY: Duration = Duration::from_millis(250);

/// A moment of the chart.
#[derive(Clone, Copy, Debug, Default)]
pub struct Point {
    /// Its end, in seconds since the demonstration's transactions began.
    pub at_s: f64,
    /// Transactions per second.
    pub tps: f64,
    /// Median time from a transaction's beginning to its acknowledged commit, in microseconds.
    pub p50_us: f64,
    /// The same time of the slowest in a hundred.
    pub p99_us: f64,
    /// Bytes of log per second.
    pub log_bytes_per_s: f64,
    /// Waits for locks per second.
    pub lock_waits_per_s: f64,
}

/// All that was told.
pub struct Journal {
    /// Acknowledged commits.
    pub traces: Vec<Trace>,
    /// Transactions, those without a commit included.
    pub transactions: u64,
    /// Latencies of all commits, in nanoseconds.
    pub latency_ns: Histogram<u64>,
    /// One point after the other.
    pub points: Vec<Point>,
    /// When something was told for the first time.
    pub began: Option<Instant>,
    origin: Instant,
    now: Interval,
}

/// What was told since the last point.
struct Interval {
    began: Instant,
    transactions: u64,
    latency_ns: Histogram<u64>,
    counters_before: Counters,
    counters: Counters,
}

#[derive(Clone, Copy, Default)]
struct Counters {
    log_bytes: u64,
    lock_waits: u64,
}

impl Journal {
    /// An empty one, whose points count time from `origin`.
    pub fn new(origin: Instant) -> Self {
        Self {
            traces: Vec::new(),
            transactions: 0,
            latency_ns: histogram(),
            points: Vec::new(),
            began: None,
            origin,
            now: Interval {
                began: origin,
                transactions: 0,
                latency_ns: histogram(),
                counters_before: Counters::default(),
                counters: Counters::default(),
            },
        }
    }

    /// Notes what arrived at `at`.
    fn take(&mut self, messages: Vec<Message>, at: Instant) {
        if self.began.is_none() {
            self.began = Some(at);
            self.now.began = at;
        }
        while at >= self.now.began + POINT_EVERY {
            self.points.push(self.now.close(self.origin));
        }
        for message in messages {
            self.note(message);
        }
    }

    fn note(&mut self, message: Message) {
        match message {
            Message::Committed { latency_ns, trace } => {
                self.traces.push(trace);
                self.latency_ns.saturating_record(latency_ns);
                self.now.latency_ns.saturating_record(latency_ns);
            }
            Message::Ended => {}
            Message::Counters { log_bytes, lock_waits } => {
                self.now.counters = Counters { log_bytes, lock_waits };
                return;
            }
        }
        self.transactions += 1;
        self.now.transactions += 1;
    }

    /// Seconds from the first message to `now`.
    pub fn seconds(&self, now: Instant) -> f64 {
        self.began.map_or(0.0, |began| (now - began).as_secs_f64())
    }
}

impl Interval {
    /// Ends the interval and begins the next.
    fn close(&mut self, origin: Instant) -> Point {
        let seconds = POINT_EVERY.as_secs_f64();
        let Counters { log_bytes, lock_waits } = self.counters;
        self.began += POINT_EVERY;
        let point = Point {
            at_s: (self.began - origin).as_secs_f64(),
            tps: self.transactions as f64 / seconds,
            p50_us: quantile_us(&self.latency_ns, 0.5),
            p99_us: quantile_us(&self.latency_ns, 0.99),
            log_bytes_per_s: (log_bytes - self.counters_before.log_bytes) as f64 / seconds,
            lock_waits_per_s: (lock_waits - self.counters_before.lock_waits) as f64 / seconds,
        };
        self.counters_before = self.counters;
        self.transactions = 0;
        self.latency_ns.reset();
        point
    }
}

/// A quantile in microseconds; 0 if there is none.
pub fn quantile_us(latency_ns: &Histogram<u64>, quantile: f64) -> f64 {
    micros(latency_ns.value_at_quantile(quantile))
}

/// A journal that still grows.
pub struct Receiving {
    journal: Arc<Mutex<Journal>>,
    reader: JoinHandle<()>,
}

impl Receiving {
    /// Begins to read in a thread of its own, so that no client ever waits for this process.
    ///
    /// Errors: the system's, if it has no thread left.
    pub fn begin(pipe: impl Read + Send + 'static, origin: Instant) -> Outcome<Self> {
        let journal = Arc::new(Mutex::new(Journal::new(origin)));
        let into = journal.clone();
        let reader = thread::Builder::new().spawn(move || {
            message::receive(pipe, |messages| {
                into.lock().expect("nobody panics with the journal").take(messages, Instant::now());
            });
        });
        let reader = reader.map_err(|error| Failure::io("starting the demonstration's reader", &error))?;
        Ok(Self { journal, reader })
    }

    /// Looks at what was told so far.
    pub fn look<R>(&self, look: impl FnOnce(&Journal) -> R) -> R {
        look(&self.journal.lock().expect("nobody panics with the journal"))
    }

    /// Reads to the pipe's end, which comes with the writer's.
    pub fn finish(self) -> Journal {
        self.reader.join().expect("the reader does not panic");
        let journal = Arc::into_inner(self.journal).expect("the reader is gone");
        journal.into_inner().expect("nobody panicked with the journal")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn committed(latency_ns: u64) -> Message {
        Message::Committed { latency_ns, trace: Trace::Payment { w: 1, d: 1, number: 1, amount: 1 } }
    }

    #[test]
    fn points_tell_what_happened_in_their_time_and_stalls_are_points_too() {
        let origin = Instant::now();
        let at = |points: u32| origin + Duration::from_secs(2) + POINT_EVERY * points;
        let mut journal = Journal::new(origin);
        journal.take(vec![committed(1_000); 10], at(0));
        journal.take(vec![Message::Ended, Message::Counters { log_bytes: 500, lock_waits: 2 }], at(0));
        journal.take(vec![committed(9_000)], at(3));
        assert_eq!((journal.transactions, journal.traces.len()), (12, 11));
        let tps: Vec<_> = journal.points.iter().map(|point| point.tps).collect();
        assert_eq!(tps, [44.0, 0.0, 0.0]);
        let first = journal.points[0];
        assert_eq!((first.at_s, first.log_bytes_per_s, first.lock_waits_per_s), (2.25, 2000.0, 8.0));
        assert!((first.p99_us - 1.0).abs() < 0.05, "{first:?}");
        assert_eq!(journal.points[1].log_bytes_per_s, 0.0);
    }
}
