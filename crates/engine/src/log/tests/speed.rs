//! How fast is the log? Question: does an append cost what its parts cost (a counter, a copy, a checksum, a CAS), and do
//! waiting commits share their syncs?
//!
//! Run: `cargo test -p foreshore --release log::tests::speed -- --ignored --nocapture`.
//! Expected shape: `Buffered` at memory speed, falling slowly with threads; `Sync` commits per second grow with the
//! threads, since the group grows.

use super::super::*;
use foreshore_io::DirVfs;
use std::thread;
use std::time::{Duration, Instant};

#[test]
#[ignore = "a measurement"]
fn append_48_bytes() {
    println!("durability  threads  records_per_s  cpu_ns_per_record  commits_per_sync");
    for (durability, threads) in [
        (Durability::Relaxed, 1),
        (Durability::Buffered, 1),
        (Durability::Buffered, 2),
        (Durability::Buffered, 8),
        (Durability::Sync, 1),
        (Durability::Sync, 4),
        (Durability::Sync, 16),
        (Durability::Sync, 64),
    ] {
        measure(durability, threads);
    }
}

fn measure(durability: Durability, threads: u64) {
    let dir = tempfile::tempdir_in(".").unwrap();
    let vfs = Arc::new(DirVfs::open(dir.path(), true).unwrap());
    let log = Log::open(vfs, LogOptions::default(), Incarnation::after(Lsn::ZERO)).unwrap();
    let time = Duration::from_secs(1);
    let counts: Vec<(u64, Duration, u64)> = thread::scope(|scope| {
        let run = |_| scope.spawn(|| append_for(&log, durability, time));
        let threads: Vec<_> = (0..threads).map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let records: u64 = counts.iter().map(|(records, ..)| records).sum();
    let seconds = counts.iter().map(|(_, time, _)| time.as_secs_f64()).fold(0.0, f64::max);
    let cpu_ns: u64 = counts.iter().map(|(.., cpu_ns)| cpu_ns).sum();
    let stats = log.stats();
    println!(
        "{:<10}  {threads:>7}  {:>13.0}  {:>17.1}  {:>16.1}",
        format!("{durability:?}"),
        records as f64 / seconds,
        cpu_ns as f64 / records as f64,
        stats.waits as f64 / stats.syncs.max(1) as f64,
    );
    log.close().unwrap();
}

fn append_for(log: &Log, durability: Durability, time: Duration) -> (u64, Duration, u64) {
    let (begin, cpu_begin, mut records) = (Instant::now(), cpu_ns(), 0);
    let batch = if durability == Durability::Sync { 1 } else { 256 };
    while begin.elapsed() < time {
        for _ in 0..batch {
            log.room().unwrap();
            let reservation = log.reserve(48);
            let end = reservation.end();
            log.fill(reservation, &[1; 48]);
            log.commit(end, durability).unwrap();
        }
        records += batch;
        if log.durable().0 % (64 << 20) < 64 << 10 {
            log.truncate(log.durable(), 0);
        }
    }
    (records, begin.elapsed(), cpu_ns() - cpu_begin)
}

/// Nanoseconds this thread has run: on a busy machine the honest price of a call.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse().unwrap()
}

/// The copy that keeps `unsafe` out of the flushers.
#[test]
#[ignore = "a measurement"]
fn copy_a_flight_out_and_zero_it() {
    const BYTES: usize = 1 << 20;
    let ring = Ring::new(foreshore_base::RelaxedBytes::boxed(2 * BYTES), Lsn::ZERO);
    let mut out = vec![1; BYTES];
    let (mut copy_ns, mut zero_ns) = (u64::MAX, u64::MAX);
    for lap in 0..100 {
        let (start, end) = (Lsn(lap * BYTES as u64), Lsn((lap + 1) * BYTES as u64));
        ring.complete(start, BYTES as u64);
        assert_eq!(ring.advance(end), end);
        let begin = Instant::now();
        ring.copy_out(start, &mut out);
        copy_ns = copy_ns.min(begin.elapsed().as_nanos() as u64);
        let begin = Instant::now();
        ring.release(end);
        zero_ns = zero_ns.min(begin.elapsed().as_nanos() as u64);
    }
    println!("1 MiB: copied in {copy_ns} ns, zeroed in {zero_ns} ns (best of 100)");
}
