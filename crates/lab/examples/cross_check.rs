//! Is the cache model right? The same lookups, once through the model, once through valgrind's cachegrind.
//!
//! Cachegrind counts the whole program, so it is run with two numbers of lookups, and the difference belongs to the
//! lookups alone:
//!
//! ```text
//! cargo build --release -p foreshore-lab --example cross_check
//! for n in 100000 200000; do
//!   valgrind --tool=cachegrind --cache-sim=yes --D1=32768,8,64 --LL=1048576,16,64 \
//!     --cachegrind-out-file=/dev/null target/release/examples/cross_check native $n
//! done
//! target/release/examples/cross_check model 100000
//! ```
//!
//! The result belongs into `docs/laboratory.md`.

use foreshore_lab::model::{Machine, OneCore};
use foreshore_lab::olfit::{No, Tree};
use foreshore_lab::probe::{Probe, Silent};
use foreshore_workloads::random::{Permutation, Random};

const KEYS: u64 = 1_000_000;

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let (mode, lookups) = match &arguments[..] {
        [mode, lookups] if ["native", "model"].contains(&mode.as_str()) => {
            (mode.as_str(), lookups.parse().ok())
        }
        _ => ("", None),
    };
    let Some(lookups) = lookups else {
        eprintln!("usage: cross_check native|model LOOKUPS");
        std::process::exit(2);
    };
    let tree: Tree<No, 32> = Tree::with_room_for(KEYS as usize);
    let order = Permutation::new(KEYS, 1);
    let mut worker = tree.worker(Silent);
    (0..KEYS).for_each(|at| assert!(tree.insert(&mut worker, order.at(at) as u32, at as u32)));
    if mode == "native" {
        look_up(&tree, Silent, lookups, 1);
    } else {
        let mut core = OneCore::new(Machine::SERVER);
        look_up(&tree, &mut core, lookups, 1);
        core.reset();
        look_up(&tree, &mut core, lookups, 2);
        let per = |count: u64| count as f64 / lookups as f64;
        println!(
            "per lookup: L1 misses {:.3}, L2 misses {:.3}",
            per(core.counts.l1_misses),
            per(core.counts.l2_misses)
        );
    }
}

fn look_up<P: Probe>(tree: &Tree<No, 32>, probe: P, lookups: u64, stream: u64) {
    let mut worker = tree.worker(probe);
    let mut random = Random::new(1, stream);
    let found = (0..lookups).filter(|_| tree.get(&mut worker, random.below(KEYS) as u32).is_some()).count();
    assert_eq!(found as u64, lookups);
}
