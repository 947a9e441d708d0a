//! The live view: one line that tells how the clients fare.

use crate::demo::journal::{Point, Receiving};
use crate::output::{grouped, size};
use crate::progress::Meter;
use std::time::Instant;

/// The line; its bar is the time until something ends the work.
pub struct Live {
    meter: Meter,
    seconds: f64,
}

impl Live {
    /// For work of so many seconds.
    pub fn new(label: &str, seconds: f64) -> Self {
        Self { meter: Meter::new(label, Some((seconds * 1e3) as u64)), seconds }
    }

    /// Shows what was told last.
    pub fn show(&self, receiving: &Receiving) {
        let (worked, transactions, last) = receiving.look(|journal| {
            (journal.seconds(Instant::now()), journal.transactions, journal.points.last().copied())
        });
        let done_ms = (worked.min(self.seconds) * 1e3) as u64;
        self.meter.set(done_ms, || line(transactions, &last.unwrap_or_default()));
    }
}

fn line(transactions: u64, point: &Point) -> String {
    format!(
        "{} transactions, {} tx/s, commits in {} (p50) {} (p99), {}/s of log, {} lock waits/s",
        grouped(transactions),
        grouped(point.tps as u64),
        time(point.p50_us),
        time(point.p99_us),
        size(point.log_bytes_per_s as u64),
        grouped(point.lock_waits_per_s as u64),
    )
}

/// Microseconds in the unit that people read most easily.
pub fn time(us: f64) -> String {
    match us {
        ..1_000.0 => format!("{us:.0} µs"),
        ..1_000_000.0 => format!("{:.1} ms", us / 1e3),
        _ => format!("{:.1} s", us / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn times_have_the_unit_that_suits_them() {
        for (us, text) in [(0.4, "0 µs"), (999.0, "999 µs"), (1_250.0, "1.2 ms"), (3_000_000.0, "3.0 s")] {
            assert_eq!(time(us), text);
        }
    }
}
