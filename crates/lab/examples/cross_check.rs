//! Is the cache model right? The same lookups, once through the model, once through valgrind's cachegrind.
//!
//! Cachegrind counts the whole program, so it is run with two numbers of lookups, and the difference belongs to the
//! lookups alone:
//!
//! ```text
//! cargo build --release -p foreshore-lab --example cross_check
//! for n in 100000 200000; do
//!   valgrind --tool=cachegrind --cache-sim=yes --D1=32768,8,64 --LL=1048576,16,64 \
//!     --cachegrind-out-file=/dev/null target/release/examples/cross_check native 1000000 128 $n
//! done
//! target/release/examples/cross_check model 1000000 128 100000
//! ```
//!
//! The model, too, counts only the second half of twice as many lookups. `native` without valgrind prints what the
//! machine's own counters say, where it has any. The result is in `docs/laboratory.md`.

use foreshore_lab::counters::{Counters, Event};
use foreshore_lab::model::{Machine, OneCore};
use foreshore_lab::olfit::{No, Tree};
use foreshore_lab::probe::{Probe, Silent};
use foreshore_workloads::random::{Permutation, Random};

const USAGE: &str =
    "usage: cross_check native|model KEYS NODE_BYTES LOOKUPS; nodes of 64, 128, 256 or 1024 bytes";

/// What to look up, and how often.
#[derive(Clone, Copy)]
struct Check {
    by_model: bool,
    keys: u64,
    lookups: u64,
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [mode, numbers @ ..] = &arguments[..] else { refuse() };
    let numbers: Vec<_> = numbers.iter().filter_map(|number| number.parse().ok()).collect();
    let (by_model, &[keys, node_bytes, lookups]) = (mode == "model", &numbers[..]) else { refuse() };
    if !by_model && mode != "native" {
        refuse();
    }
    let check = Check { by_model, keys, lookups };
    match node_bytes {
        64 => check.run::<16>(),
        128 => check.run::<32>(),
        256 => check.run::<64>(),
        1024 => check.run::<256>(),
        _ => refuse(),
    }
}

fn refuse() -> ! {
    eprintln!("{USAGE}");
    std::process::exit(2)
}

impl Check {
    /// On a tree with nodes of `W` words.
    fn run<const W: usize>(self) {
        let tree: Tree<No, W> = Tree::with_room_for(self.keys as usize);
        let order = Permutation::new(self.keys, 1);
        let mut worker = tree.worker(Silent);
        (0..self.keys).for_each(|at| assert!(tree.insert(&mut worker, order.at(at) as u32, at as u32)));
        println!("{} bytes of nodes", tree.bytes());
        if self.by_model { self.model(&tree) } else { self.native(&tree) }
    }

    fn native<const W: usize>(self, tree: &Tree<No, W>) {
        let mut counters = Counters::of_this_thread();
        let ((), counted) = counters.around(|| self.look_up(tree, Silent, &mut Random::new(1, 1)));
        for event in Event::all() {
            if let Some(count) = counted.get(event) {
                println!("per lookup: {} {:.3}", event.name(), count.value / self.lookups as f64);
            }
        }
    }

    fn model<const W: usize>(self, tree: &Tree<No, W>) {
        let (mut core, mut random) = (OneCore::new(Machine::SERVER), Random::new(1, 1));
        self.look_up(tree, &mut core, &mut random);
        core.reset();
        self.look_up(tree, &mut core, &mut random);
        let per = |count: u64| count as f64 / self.lookups as f64;
        println!(
            "per lookup: L1 misses {:.3}, L2 misses {:.3}",
            per(core.counts.l1_misses),
            per(core.counts.l2_misses)
        );
    }

    fn look_up<P: Probe, const W: usize>(self, tree: &Tree<No, W>, probe: P, random: &mut Random) {
        let mut worker = tree.worker(probe);
        let found = (0..self.lookups)
            .filter(|_| tree.get(&mut worker, random.below(self.keys) as u32).is_some())
            .count();
        assert_eq!(found as u64, self.lookups);
    }
}
