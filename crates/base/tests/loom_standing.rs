//! What others see of transactions, under every interleaving and every reordering that the memory model allows.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p foreshore-base --release --test loom_standing`.
//! The seeded bugs `txn_announced_relaxed` and `txn_commit_unannounced` must each make a test fail.
#![cfg(loom)]

#[allow(dead_code)] // the engine uses the rest
#[path = "../../engine/src/txn/standing.rs"]
mod standing;

use foreshore_base::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use foreshore_base::sync::{AtomicU64, thread};
use foreshore_base::{Lsn, TxnId};
use loom::sync::Arc;
use standing::{Fate, Standing};

/// A slot, the end of a log whose records have one byte, and what two transactions change.
struct World {
    slot: Standing,
    reserved: AtomicU64,
    rows: [AtomicU64; 2],
    /// Set once there is an image that names the slot.
    image: AtomicU64,
}

/// The end of the log when the world begins: 0 and 1 are no LSNs of commits in a slot.
const START: u64 = 10;

fn world() -> Arc<World> {
    let word = AtomicU64::new;
    let rows = [word(0), word(0)];
    Arc::new(World { slot: Standing::new(), reserved: word(START), rows, image: word(0) })
}

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(4); // with 3 a bug is missed
    builder.check(model);
}

impl World {
    /// Loom would miss interleavings between a plain load and the additions.
    fn log_end(&self) -> u64 {
        self.reserved.fetch_add(0, SeqCst)
    }

    fn reserve(&self) -> u64 {
        self.reserved.fetch_add(1, SeqCst)
    }

    /// Begins to write, in a slot that is taken. What it announces is as late as it may be.
    fn begin(&self) -> u64 {
        self.slot.announce(Lsn(self.log_end()));
        let id = self.reserve();
        self.slot.began(TxnId(id));
        id
    }

    /// Commits; the LSN of the commit.
    fn commit(&self) -> u64 {
        self.slot.committing();
        let at = self.reserve();
        self.slot.committed(Lsn(at));
        at
    }
}

/// A transaction below the oldest has ended, and what it did is seen: also if all that shows of it is the next one in its slot.
#[test]
fn who_is_older_than_the_oldest_has_ended() {
    explore(|| {
        let world = world();
        let writers: Vec<_> = (0..2)
            .map(|row| {
                let world = world.clone();
                thread::spawn(move || {
                    if !world.slot.take() {
                        return None;
                    }
                    let id = world.begin();
                    world.rows[row].store(id, Relaxed);
                    world.commit();
                    world.slot.give_back();
                    Some(id)
                })
            })
            .collect();
        let log_end = world.log_end();
        let oldest = world.slot.oldest().map_or(log_end, |oldest| oldest.0.min(log_end));
        let seen = [0, 1].map(|row: usize| world.rows[row].load(Relaxed));
        for (seen, writer) in seen.into_iter().zip(writers) {
            if let Some(id) = writer.join().unwrap().filter(|id| *id < oldest) {
                assert_eq!(seen, id, "a transaction below {oldest} was not over");
            }
        }
    });
}

/// Who finds a transaction running knows that it commits above every log end loaded before.
#[test]
fn who_runs_commits_later() {
    explore(|| {
        let world = world();
        let writer = {
            let world = world.clone();
            thread::spawn(move || {
                assert!(world.slot.take());
                world.begin();
                world.image.store(1, Release);
                world.commit()
            })
        };
        let log_end = world.log_end();
        let fate = (world.image.load(Acquire) == 1).then(|| world.slot.fate());
        let committed = writer.join().unwrap();
        match fate {
            Some(Fate::Running) => assert!(committed >= log_end, "it committed below {log_end}"),
            Some(Fate::Committed(at)) => assert_eq!(at.0, committed),
            None => {}
        }
    });
}
