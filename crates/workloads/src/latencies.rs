//! How latencies are kept and told.

pub use hdrhistogram::Histogram;

/// Latencies from 1 ns to an hour within 1 %: finer than any run repeats, and small enough for the caches.
pub fn histogram() -> Histogram<u64> {
    const HOUR_NS: u64 = 3_600_000_000_000;
    Histogram::new_with_bounds(1, HOUR_NS, 2).expect("bounds and digits in range")
}

/// Nanoseconds in µs.
pub fn micros(ns: u64) -> f64 {
    ns as f64 / 1e3
}
