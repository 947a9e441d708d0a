//! The latch under every interleaving and every reordering that the memory model allows.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p foreshore-base --release --test loom_latch`.
//! Modelled: reading and validating, also from a word seen before; taking the latch, after reading or without; giving it back changed.
//! Not modelled: the order of the load in `optimistic_contended`, which no schedule here shows; `release_unchanged`.
//! Each seeded bug `latch_…` (`cargo xtask seeded`) must make `a_reader_never_sees_half_an_update` fail.
#![cfg(loom)]

use foreshore_base::NodeLatch;
use foreshore_base::sync::{AtomicU64, Ordering::Relaxed};
use loom::sync::Arc;
use loom::thread;

struct Node {
    latch: NodeLatch,
    a: AtomicU64,
    b: AtomicU64,
}

impl Node {
    fn shared() -> Arc<Self> {
        Arc::new(Self { latch: NodeLatch::new(), a: AtomicU64::new(0), b: AtomicU64::new(0) })
    }

    /// Both fields, read optimistically; `None` when validation fails.
    fn read(&self) -> Option<(u64, u64)> {
        let read = self.latch.try_optimistic().ok()?;
        let pair = (self.a.load(Relaxed), self.b.load(Relaxed));
        read.validate().ok().map(|()| pair)
    }

    /// Both fields one higher, written under the latch; `false` if that is taken.
    fn bump(&self) -> bool {
        let Some(_held) = self.latch.try_exclusive() else { return false };
        self.a.store(self.a.load(Relaxed) + 1, Relaxed);
        self.b.store(self.b.load(Relaxed) + 1, Relaxed);
        true
    }
}

/// L1: what validates belongs to one version.
#[test]
fn a_reader_never_sees_half_an_update() {
    loom::model(|| {
        let node = Node::shared();
        let writer = thread::spawn({
            let node = node.clone();
            move || {
                node.bump();
                node.bump();
            }
        });
        let reader = thread::spawn({
            let node = node.clone();
            move || {
                if let Some((a, b)) = node.read() {
                    assert_eq!(a, b, "a torn read passed validation");
                }
            }
        });
        writer.join().unwrap();
        reader.join().unwrap();
    });
}

/// L2: two writers never interleave; an upgrade stands on what was read.
#[test]
fn updates_are_not_lost() {
    loom::model(|| {
        let node = Node::shared();
        let writers: Vec<_> = (0..2)
            .map(|_| {
                let node = node.clone();
                thread::spawn(move || {
                    let Ok(read) = node.latch.try_optimistic() else { return 0 };
                    let a = node.a.load(Relaxed);
                    let Ok(_held) = read.upgrade() else { return 0 };
                    node.a.store(a + 1, Relaxed);
                    node.b.store(a + 1, Relaxed);
                    1
                })
            })
            .collect();
        let done: u64 = writers.into_iter().map(|w| w.join().unwrap()).sum();
        assert_eq!(node.read(), Some((done, done)));
    });
}

/// L2, where nothing was read before the latch was taken: taking it is what shows the update before.
#[test]
fn who_takes_the_latch_sees_the_update_before() {
    loom::model(|| {
        let node = Node::shared();
        let writers: Vec<_> = (0..2)
            .map(|_| {
                let node = node.clone();
                thread::spawn(move || u64::from(node.bump()))
            })
            .collect();
        let done: u64 = writers.into_iter().map(|w| w.join().unwrap()).sum();
        assert_eq!((node.a.load(Relaxed), node.b.load(Relaxed)), (done, done));
    });
}

fn bounded(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(test);
}

/// L1 for readers who wait for the latch.
#[test]
fn a_waiting_reader_sees_whole_updates() {
    bounded(|| {
        let node = Node::shared();
        let writer = thread::spawn({
            let node = node.clone();
            move || {
                let _held = node.latch.exclusive();
                node.a.store(1, Relaxed);
                node.b.store(1, Relaxed);
            }
        });
        let read = node.latch.optimistic();
        let pair = (node.a.load(Relaxed), node.b.load(Relaxed));
        if read.validate().is_ok() {
            assert_eq!(pair.0, pair.1, "a torn read passed validation");
        }
        writer.join().unwrap();
    });
}

/// L1 for readers who go on from a word that they have seen before.
#[test]
fn a_read_goes_on_from_a_word_seen_before() {
    bounded(|| {
        let node = Node::shared();
        let writer = thread::spawn({
            let node = node.clone();
            move || node.bump()
        });
        let word = node.latch.word();
        if let Some(read) = node.latch.optimistic_since(word) {
            let pair = (node.a.load(Relaxed), node.b.load(Relaxed));
            if read.validate().is_ok() {
                assert_eq!(pair.0, pair.1, "a torn read passed validation");
            }
        }
        writer.join().unwrap();
    });
}
