//! The O2-Tree paper's figures 2 and 3: basic structures under mixed work, on one thread.

use crate::figures::study::{Named, O2, Op, Production, Study};
use crate::frame::{Drawn, Figure, LabError, Panel, Paper, Scale, Settings, Source, Tell, Verdict, median};
use crate::probe::Silent;
use crate::trees::{RedBlackTree, TTree};
use foreshore_index::{IntMap, O2Map};
use foreshore_workloads::random::{Permutation, Random};
use std::collections::VecDeque;
use std::time::Instant;

const DIFFERS: &str = "Keys are uniform 32-bit numbers, not TPC-H's; operations are fewer (2.5 million of the paper's 50 in Figure 2). B+ and O2 are the production structures, which any number of threads may share; the others are for one thread, with room for all keys from the beginning, and pay neither for other threads nor for growth.";

/// Those two.
pub const FIGURES: &[Figure] = &[
    Figure {
        name: "o2-fig2",
        paper: Paper::O2Tree,
        title: "O2-Tree Figure 2: mixed searches, inserts and deletes",
        found: "The O2-Tree takes least time at every share of updates, before B+-, T-, AVL and top-down red-black tree.",
        differs: DIFFERS,
        draw: by_ratio,
    },
    Figure {
        name: "o2-fig3",
        paper: Paper::O2Tree,
        title: "O2-Tree Figure 3: throughput with 50 % updates",
        found: "The O2-Tree's throughput is highest for every number of operations.",
        differs: DIFFERS,
        draw: by_operations,
    },
];

const RATIOS: [u64; 6] = [0, 20, 40, 60, 80, 100];
const NAMES: [&str; 5] = ["O2", "B+", "T", "AVL", "red-black"];

/// A key by its number: spread over 32 bits, no two alike, none the greatest.
fn key(number: u64) -> u32 {
    ((number as u32).wrapping_mul(0x9E37_79B1)).min(u32::MAX - 1)
}

/// What is loaded first, and a mix on top: updates are 70 % inserts of new keys and 30 % deletes of the oldest.
struct Mix {
    load: Vec<Op>,
    operations: Vec<Op>,
}

impl Mix {
    fn new(loaded: u64, operations: u64, update_percent: u64, seed: u64) -> Self {
        let mut random = Random::new(seed, update_percent);
        let order = Permutation::new(loaded + operations, seed);
        let mut present: VecDeque<u32> = (0..loaded).map(|at| key(order.at(at))).collect();
        let load = present.iter().map(|key| Op::Insert(*key)).collect();
        let mut next = loaded;
        let mut operation = || {
            if random.below(100) >= update_percent {
                return Op::Get(present[random.below(present.len() as u64) as usize]);
            }
            if random.below(100) < 70 || present.len() < 2 {
                present.push_back(key(order.at(next)));
                next += 1;
                return Op::Insert(*present.back().expect("just put there"));
            }
            Op::Remove(present.pop_front().expect("more than one"))
        };
        let operations = (0..operations).map(|_| operation()).collect();
        Self { load, operations }
    }

    /// Nanoseconds per operation on a structure that is empty before.
    fn ns<T: Study>(&self, mut structure: T) -> Result<f64, LabError> {
        structure.run_checked(&self.load, &mut Silent)?;
        let begun = Instant::now();
        structure.run_checked(&self.operations, &mut Silent)?;
        Ok(begun.elapsed().as_nanos() as f64 / self.operations.len() as f64)
    }

    /// For all structures, in the order of [`NAMES`]: the median of some rounds, by turns.
    fn all(&self, rounds: usize) -> Result<[f64; 5], LabError> {
        let mut times = NAMES.map(|_| Vec::new());
        let keys = self.load.len() + self.operations.len();
        for _ in 0..rounds {
            let round = [
                self.ns(O2(O2Map::new()))?,
                self.ns(Production(IntMap::new()))?,
                self.ns(Named("T", TTree::with_node_bytes(256).with_room_for(keys)))?,
                self.ns(Named("AVL", TTree::avl().with_room_for(keys)))?,
                self.ns(Named("red-black", RedBlackTree::new().with_room_for(keys)))?,
            ];
            times.iter_mut().zip(round).for_each(|(times, ns)| times.push(ns));
        }
        Ok(times.map(median))
    }
}

/// Figure 2.
fn by_ratio(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let (loaded, operations, rounds) = settings.pick((50_000, 100_000, 3), (1_250_000, 2_500_000, 1));
    let mut panel = Panel::new(
        "One thread",
        Source::Measured,
        "updates, % of operations",
        "ns per operation",
        Scale::Linear,
    );
    for (at, update_percent) in RATIOS.into_iter().enumerate() {
        tell(at as f64 / RATIOS.len() as f64, &format!("{update_percent} % updates"));
        let times = Mix::new(loaded, operations, update_percent, settings.seed).all(rounds)?;
        NAMES.iter().zip(times).for_each(|(name, ns)| panel.add(name, update_percent as f64, ns));
    }
    let xs = RATIOS.map(|ratio| ratio as f64);
    let header = header(&[("loaded", loaded), ("operations", operations), ("rounds", rounds as u64)]);
    Ok(drawn(panel, &xs, |o2, other| o2 < other, header))
}

/// Figure 3.
fn by_operations(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let (least, rounds) = settings.pick((20_000, 3), (500_000, 1));
    let counts = [1, 2, 4, 8].map(|times| times * least);
    let mut panel =
        Panel::new("One thread", Source::Measured, "operations", "million operations/s", Scale::Doubling);
    for (at, operations) in counts.into_iter().enumerate() {
        tell(at as f64 / counts.len() as f64, &format!("{operations} operations"));
        let times = Mix::new(operations / 2, operations, 50, settings.seed).all(rounds)?;
        NAMES.iter().zip(times).for_each(|(name, ns)| panel.add(name, operations as f64, 1e3 / ns));
    }
    let xs = counts.map(|count| count as f64);
    let header = header(&[("operations_least", least), ("rounds", rounds as u64)]);
    Ok(drawn(panel, &xs, |o2, other| o2 > other, header))
}

fn header(values: &[(&'static str, u64)]) -> Vec<(&'static str, String)> {
    values.iter().map(|(name, value)| (*name, value.to_string())).collect()
}

/// The verdict: is O2 better than each other structure, at every x?
fn drawn(
    panel: Panel,
    xs: &[f64],
    better: fn(f64, f64) -> bool,
    settings: Vec<(&'static str, String)>,
) -> Drawn {
    let leads = |name: &str| xs.iter().filter(|x| better(panel.at("O2", **x), panel.at(name, **x))).count();
    let each: Vec<_> =
        NAMES[1..].iter().map(|name| format!("{name} at {} of {}", leads(name), xs.len())).collect();
    let conditions: Vec<_> = NAMES[1..].iter().map(|name| leads(name) == xs.len()).collect();
    let sentence = format!("O2 is ahead of {}.", each.join(", "));
    Drawn { verdict: Verdict::of(&conditions, sentence), panels: vec![panel], settings }
}
