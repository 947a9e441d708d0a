//! Many threads on a real directory.

use super::super::*;
use super::SMALL;
use crate::chance::Random;
use foreshore_io::DirVfs;
use std::thread;

const THREADS: u64 = 8;
const RECORDS: u64 = 3000;

/// Every thread's records are there, in the thread's order, densely, and each commit found its prefix complete.
#[test]
fn many_threads_write_one_dense_log() {
    for seed in 0..2 {
        let dir = tempfile::tempdir().unwrap();
        let vfs: Arc<dyn Vfs> = Arc::new(DirVfs::open(dir.path(), true).unwrap());
        let incarnation = Incarnation::after(Lsn::ZERO);
        let log = Log::open(vfs.clone(), SMALL, incarnation).unwrap();
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let log = &log;
                scope.spawn(move || write(log, thread, Random(seed << 8 | thread)));
            }
        });
        log.close().unwrap();
        let stats = log.stats();
        assert_eq!((stats.records, stats.bytes), (THREADS * RECORDS, log.reserved().0), "seed {seed}");
        read(&vfs, incarnation, seed);
    }
}

fn write(log: &Log, thread: u64, mut random: Random) {
    for i in 0..RECORDS {
        log.room().unwrap();
        // Mostly of one length, so that records of different laps begin at the same places.
        let extra = if random.below(8) == 0 { random.below(3000) as usize } else { 40 };
        let reservation = log.reserve(17 + extra);
        let end = reservation.end();
        let parts = [&[1][..], &thread.to_le_bytes(), &i.to_le_bytes(), &vec![i as u8; extra]];
        log.fill(reservation, &parts.concat());
        let durability = match random.below(64) {
            0 => Durability::Sync,
            1..20 => Durability::Buffered,
            _ => Durability::Relaxed,
        };
        log.commit(end, durability).unwrap();
        assert!(durability != Durability::Sync || log.durable() >= end);
    }
}

fn read(vfs: &Arc<dyn Vfs>, incarnation: Incarnation, seed: u64) {
    let mut next = [0; THREADS as usize];
    let mut reader = LogReader::open(vfs, SMALL, &[incarnation], Lsn::ZERO).unwrap();
    while let Some(record) = reader.next().unwrap() {
        let number = |at: usize| u64::from_le_bytes(record.body[at..at + 8].try_into().unwrap());
        let (thread, i) = (number(1), number(9));
        assert_eq!(next[thread as usize], i, "seed {seed}, thread {thread}");
        next[thread as usize] += 1;
        assert!(record.body[17..].iter().all(|byte| *byte == i as u8), "seed {seed}");
    }
    assert_eq!(next, [RECORDS; THREADS as usize], "seed {seed}");
}
