//! The gate of a layer under every interleaving and every reordering that the memory model allows.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p foreshore-base --release --test loom_gate`.
//! The seeded bug `layer_leavers_not_seen` must make a test fail.
#![cfg(loom)]

#[allow(dead_code)] // the index uses the rest
#[path = "../../index/src/trie/gate.rs"]
mod gate;

use foreshore_base::sync::Ordering::{Acquire, Release};
use foreshore_base::sync::{AtomicU64, thread};
use gate::Gate;
use loom::sync::Arc;

/// A layer of two leaves, and how many keys are in each. A leaf is read and written as its latch has it.
struct Layer {
    gate: Gate,
    keys: [AtomicU64; 2],
}

impl Layer {
    fn new(keys: u64) -> Arc<Self> {
        Arc::new(Self { gate: Gate::new(), keys: [AtomicU64::new(keys), AtomicU64::new(keys)] })
    }

    fn close_if_empty(&self) -> bool {
        self.gate.close_if(|| self.keys.iter().all(|keys| keys.load(Acquire) == 0))
    }

    /// Removes the key of a leaf; says whether it has closed the layer.
    fn remove(&self, leaf: usize) -> bool {
        let inside = self.gate.enter().expect("a layer with keys is open");
        self.keys[leaf].store(0, Release);
        drop(inside);
        self.close_if_empty()
    }
}

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Two threads remove the last two keys, each from a leaf of its own: one of them closes the layer.
#[test]
fn who_empty_a_layer_together_close_it() {
    explore(|| {
        let layer = Layer::new(1);
        let other = {
            let layer = layer.clone();
            thread::spawn(move || layer.remove(1))
        };
        let closed = layer.remove(0);
        assert!(closed != other.join().unwrap(), "one closes it");
    });
}

/// A key gets into a layer, or the layer is closed.
#[test]
fn a_closed_layer_stays_empty() {
    explore(|| {
        let layer = Layer::new(0);
        let inserts = {
            let layer = layer.clone();
            thread::spawn(move || {
                let inside = layer.gate.enter();
                inside.inspect(|_| layer.keys[0].store(1, Release)).is_some()
            })
        };
        let closed = layer.close_if_empty();
        assert!(closed != inserts.join().unwrap());
    });
}
