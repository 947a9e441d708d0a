//! The counters of a database of this process, as rates, while it works.

use crate::output::{grouped, size, tell};
use foreshore::{Database, Stats};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Waits shown in a line: the longest.
const WAITS_SHOWN: usize = 3;

/// Runs `work`, and meanwhile prints a line of rates to stderr every so often, if asked for.
pub fn watched<R>(db: &Database, every: Option<Duration>, work: impl FnOnce() -> R) -> R {
    let Some(every) = every else { return work() };
    let (working, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || watch(db, every, &ended));
        // Gone also if the work panics: or the watch would go on for ever.
        let _working = working;
        work()
    })
}

fn watch(db: &Database, every: Duration, ended: &Receiver<()>) {
    let (mut before, mut at) = (db.stats(), Instant::now());
    while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
        let now = db.stats();
        tell(line(&now, &before, at.elapsed().as_secs_f64()));
        (before, at) = (now, Instant::now());
    }
}

/// What happened in so many seconds.
fn line(now: &Stats, before: &Stats, seconds: f64) -> String {
    let rate =
        |count: fn(&Stats) -> u64| (count(now).saturating_sub(count(before)) as f64 / seconds).round() as u64;
    let dirty = 100.0 * now.pool_dirty as f64 / now.pool_frames.max(1) as f64;
    format!(
        "{} commits/s, {} rollbacks/s, log {}/s in {} records and {} syncs, pages {} read/s {} written/s, {dirty:.0} % dirty{}",
        grouped(rate(|s| s.commits)),
        grouped(rate(|s| s.rollbacks)),
        size(rate(|s| s.log_bytes)),
        grouped(rate(|s| s.log_records)),
        grouped(rate(|s| s.log_syncs)),
        grouped(rate(|s| s.pool_reads)),
        grouped(rate(|s| s.pool_writes)),
        waits(now, before, seconds)
    )
}

/// The longest waits, as how many threads were waiting at a time.
fn waits(now: &Stats, before: &Stats, seconds: f64) -> String {
    let old = |what: &str| before.waits.iter().find(|wait| wait.what == what).map_or(0, |wait| wait.ns);
    let gained = |wait: &foreshore::Wait| (wait.ns.saturating_sub(old(&wait.what)), wait.what.clone());
    let mut waits: Vec<_> = now.waits.iter().map(gained).filter(|(ns, _)| *ns > 0).collect();
    waits.sort_by(|a, b| b.cmp(a));
    waits.truncate(WAITS_SHOWN);
    let texts =
        waits.iter().map(|(ns, what)| format!("{:.2} threads for {what}", *ns as f64 / 1e9 / seconds));
    let texts: Vec<_> = texts.collect();
    if texts.is_empty() { String::new() } else { format!("; waiting: {}", texts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line tells the work done between two looks, whoever else waits.
    #[test]
    fn rates_are_of_the_time_between() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        let before = db.stats();
        for i in 0..100u8 {
            db.transact(|tx| tx.bytes(&table).put(&[i], b"v")).unwrap();
        }
        let text = line(&db.stats(), &before, 10.0);
        assert!(text.starts_with("10 commits/s, 0 rollbacks/s, log "), "{text}");
        assert!(!line(&before, &before, 1.0).contains("waiting"));
    }

    #[test]
    fn the_watch_ends_with_the_work() {
        let db = Database::in_memory().unwrap();
        assert_eq!(watched(&db, Some(Duration::from_secs(3600)), || 7), 7);
        assert_eq!(watched(&db, None, || 7), 7);
    }
}
