//! The log's ring under every interleaving and every reordering that the memory model allows.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p foreshore-base --release --test loom_log_ring`.
//! The seeded bugs `log_complete_order`, `log_ring_gap` and `log_ring_not_zeroed` must each make a test fail.
#![cfg(loom)]

#[allow(dead_code)] // the engine uses the rest
#[path = "../../engine/src/log/ring.rs"]
mod ring;

use foreshore_base::Lsn;
use foreshore_base::sync::{AtomicU64, thread};
use loom::sync::Arc;
use ring::Ring;

/// Records here are word 0 and one word of body.
const RECORD: u64 = 16;

type TestRing = Ring<Vec<AtomicU64>>;

fn ring(words: usize) -> Arc<TestRing> {
    Arc::new(Ring::new((0..words).map(|_| AtomicU64::new(0)).collect(), Lsn(0)))
}

fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// What record number `i` carries.
fn body(i: u64) -> u64 {
    0xB0D7 + i
}

fn fill(ring: &TestRing, i: u64) {
    let at = Lsn(i * RECORD);
    while !ring.admits(at + RECORD) {
        thread::yield_now();
    }
    ring.write(at + 8, &body(i).to_le_bytes());
    ring.complete(at, RECORD);
}

fn read(ring: &TestRing, i: u64) -> u64 {
    let mut bytes = [0; 8];
    ring.copy_out(Lsn(i * RECORD + 8), &mut bytes);
    u64::from_le_bytes(bytes)
}

/// G3: who finds a record below the completed prefix finds its body, whoever walked over it.
#[test]
fn a_completed_record_has_its_body() {
    explore(3, || {
        let ring = ring(8);
        let threads: Vec<_> = (0..2)
            .map(|i| {
                let ring = ring.clone();
                thread::spawn(move || {
                    fill(&ring, i);
                    ring.advance(Lsn(2 * RECORD));
                })
            })
            .collect();
        let completed = ring.advance(Lsn(2 * RECORD));
        for i in 0..completed.0 / RECORD {
            assert_eq!(read(&ring, i), body(i), "record {i} of the prefix up to {completed}");
        }
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(ring.advance(Lsn(2 * RECORD)), Lsn(2 * RECORD));
    });
}

/// G2 over two laps of a ring with room for one record and a half: a flusher takes each record once it is complete and
/// gives its place back, while somebody else walks, too.
#[test]
fn a_word_of_the_last_lap_is_never_a_record() {
    const RECORDS: u64 = 3;
    explore(2, || {
        let ring = ring(4);
        let writer = thread::spawn({
            let ring = ring.clone();
            move || (0..RECORDS).for_each(|i| fill(&ring, i))
        });
        let walker = thread::spawn({
            let ring = ring.clone();
            move || {
                ring.advance(Lsn(RECORDS * RECORD));
            }
        });
        for i in 0..RECORDS {
            let end = Lsn((i + 1) * RECORD);
            while ring.advance(end) < end {
                thread::yield_now();
            }
            assert_eq!(read(&ring, i), body(i), "record {i}");
            ring.release(end);
        }
        writer.join().unwrap();
        walker.join().unwrap();
    });
}
