//! Ordered indexes in memory: OLFIT B+-tree and CSB+-tree, and the O2-Tree in two schemes, against `BTreeMap`.
//!
//! Question: how many operations a second do inserts, lookups, scans of 100 entries, updates of popular entries (Zipf 0.99),
//! and a mix of lookups, inserts and removals reach on random keys, on one thread and on many?
//! Expected shape (OLFIT, VLDB 2001, Figs. 7–8): lookups scale with the threads; so do updates, since they latch one
//! node.
//!
//! Scans know their length, and a map that can make use of that is told it (`IntMap::scan`); others hand out an iterator.
//!
//! Every answer is checked: lookups against the value that belongs to the key, scans against order and the sum of their values, and the
//! structure by its own `check()` at the end. `BTreeMap` runs on one thread whatever is asked, being the yardstick of
//! the ratios, not a concurrent map.

mod args;
mod keys;
mod phases;
mod queries;
mod scans;
mod shared;
mod yardstick;

pub use args::{IndexArgs, KeyKind, Line};
pub use keys::{Keys, StringKeys, U32Keys, U64Keys};
pub use phases::Plan;
pub use queries::QUERIES;
pub use shared::{SCAN, Shared, visit_rising};

use crate::kv::BenchError;
use clap::ValueEnum;
use foreshore_index::{ByteMap, CsbMap, IntMap, NodeKeys, O2Map, OptimisticO2Map, TunedMap};
use foreshore_index::{CsbByteMap, O2ByteMap, OptimisticO2ByteMap};
use serde::Serialize;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Structure {
    /// Foreshore's OLFIT B+-tree
    #[value(name = "bplus")]
    BPlus,
    /// Foreshore's OLFIT CSB+-tree: node groups, one child pointer
    #[value(name = "csb")]
    Csb,
    /// Foreshore's static index: built once, then only read, singly and in batches of 128; integer keys
    #[value(name = "static")]
    Static,
    /// The O2-Tree with its paper's locks: a red-black tree over linked blocks
    #[value(name = "o2")]
    O2,
    /// The same tree with lookups that take no lock
    #[value(name = "o2-optimistic")]
    O2Optimistic,
    /// std::collections::BTreeMap without locks: the yardstick, always on one thread, in pages of the usual size
    #[value(name = "std-btreemap")]
    StdBTreeMap,
}

impl Structure {
    /// Can it be ordered by such keys?
    pub fn takes(self, keys: KeyKind) -> bool {
        keys != KeyKind::Bytes || self != Self::Static
    }
}

/// One measured phase.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseResult {
    /// `insert`, `lookup`, `multi_get` (of the B+-tree), `scan100`, `zipf` (updates of entries some of which are popular) or `mixed`. Of a static structure: `build`, `lookup`, `lookup128`, `bound` and
    /// `bound128` (only ranks, without values), those with a number in batches of so many.
    pub phase: &'static str,
    /// Threads that ran it.
    pub threads: usize,
    /// Operations of all threads per second of wall time. A scan of 100 entries is one operation.
    pub ops_per_s: f64,
    /// Memory of the structure divided by its entries, right after the inserts. Foreshore's structures count their nodes; others
    /// are measured by the growth of the process's resident memory, which is 0 where `/proc` is missing.
    pub bytes_per_key: f64,
}

/// An answer was wrong, or a structure broken: what and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongAnswer(pub String);

impl std::fmt::Display for WrongAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongAnswer {}

impl From<WrongAnswer> for BenchError {
    fn from(WrongAnswer(what): WrongAnswer) -> Self {
        Self::Wrong(what)
    }
}

/// How the keys come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Inserts {
    /// One by one
    #[default]
    Single,
    /// In batches, several descents at a time
    Many,
    /// In batches, sorted: one descent for each node
    Sorted,
}

/// What may be chosen besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Options {
    /// Lookups of a batch in `multi_get`, 1 to [`QUERIES`].
    pub batch: usize,
    /// How the keys come in.
    pub inserts: Inserts,
    /// Entries of a batch of inserts.
    pub insert_batch: usize,
    /// Keys in a node of a B+-tree with integer keys.
    pub node_keys: Option<NodeKeys>,
}

impl Default for Options {
    fn default() -> Self {
        Self { batch: 64, inserts: Inserts::Single, insert_batch: 64, node_keys: None }
    }
}

/// Runs all phases over random keys: the inserts to their end, each other phase for the plan's duration.
///
/// `progress` is told each phase as it begins. The same seed gives the same keys.
///
/// Errors: the first wrong answer, which makes all figures void, and [`BenchError::Usage`] if the system does not start so many
/// threads. Panics if there are no threads, fewer than 1000 keys or fewer keys than threads, or the structure does not take such
/// keys or options.
pub fn run(
    structure: Structure,
    keys: KeyKind,
    plan: &Plan,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<PhaseResult>, BenchError> {
    let options = plan.options;
    assert!(structure.takes(keys), "{structure:?} has integer keys");
    let batched = structure == Structure::BPlus;
    assert!(batched || options.inserts == Inserts::Single, "{structure:?} has no batches of inserts");
    if structure == Structure::BPlus
        && let Some(size) = options.node_keys
    {
        return match keys {
            KeyKind::U64 => plan.concurrent(&TunedMap::<u64>::with_node_keys(size), U64Keys, progress),
            KeyKind::U32 => plan.concurrent(&TunedMap::<u32>::with_node_keys(size), U32Keys, progress),
            KeyKind::Bytes => panic!("nodes of byte strings have one size"),
        };
    }
    match (structure, keys) {
        (Structure::BPlus, KeyKind::U64) => plan.concurrent(&IntMap::<u64>::new(), U64Keys, progress),
        (Structure::BPlus, KeyKind::U32) => plan.concurrent(&IntMap::<u32>::new(), U32Keys, progress),
        (Structure::BPlus, KeyKind::Bytes) => plan.concurrent(&ByteMap::new(), StringKeys, progress),
        (Structure::Csb, KeyKind::U64) => plan.concurrent(&CsbMap::<u64>::new(), U64Keys, progress),
        (Structure::Csb, KeyKind::U32) => plan.concurrent(&CsbMap::<u32>::new(), U32Keys, progress),
        (Structure::Static, KeyKind::U64) => plan.fixed(U64Keys, progress),
        (Structure::Static, KeyKind::U32) => plan.fixed(U32Keys, progress),
        (Structure::O2, KeyKind::U64) => plan.concurrent(&O2Map::<u64>::new(), U64Keys, progress),
        (Structure::O2, KeyKind::U32) => plan.concurrent(&O2Map::<u32>::new(), U32Keys, progress),
        (Structure::O2Optimistic, KeyKind::U64) => {
            plan.concurrent(&OptimisticO2Map::<u64>::new(), U64Keys, progress)
        }
        (Structure::O2Optimistic, KeyKind::U32) => {
            plan.concurrent(&OptimisticO2Map::<u32>::new(), U32Keys, progress)
        }
        (Structure::Csb, KeyKind::Bytes) => plan.concurrent(&<CsbByteMap>::new(), StringKeys, progress),
        (Structure::O2, KeyKind::Bytes) => plan.concurrent(&<O2ByteMap>::new(), StringKeys, progress),
        (Structure::O2Optimistic, KeyKind::Bytes) => {
            plan.concurrent(&<OptimisticO2ByteMap>::new(), StringKeys, progress)
        }
        (Structure::Static, KeyKind::Bytes) => unreachable!("asserted above"),
        (Structure::StdBTreeMap, KeyKind::U64) => plan.yardstick(U64Keys, progress),
        (Structure::StdBTreeMap, KeyKind::U32) => plan.yardstick(U32Keys, progress),
        (Structure::StdBTreeMap, KeyKind::Bytes) => plan.yardstick(StringKeys, progress),
    }
}

#[cold]
fn wrong<T>(phase: &str, what: &str) -> Result<T, WrongAnswer> {
    Err(WrongAnswer(format!("{phase}: {what}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn run_briefly(
        structure: Structure,
        keys: KeyKind,
        threads: usize,
        options: Options,
    ) -> Vec<PhaseResult> {
        let plan = Plan { options, n: 5000, threads, duration: Duration::from_millis(20), seed: 1 };
        run(structure, keys, &plan, &mut |_| {}).unwrap()
    }

    /// Every structure and key kind gives right answers in all phases.
    #[test]
    fn all_kinds_run() {
        for keys in [KeyKind::U64, KeyKind::U32, KeyKind::Bytes] {
            let concurrent = [Structure::BPlus, Structure::Csb, Structure::O2, Structure::O2Optimistic];
            let all =
                concurrent.map(|structure| (structure, 2)).into_iter().chain([(Structure::StdBTreeMap, 1)]);
            for (structure, threads) in all {
                if !structure.takes(keys) {
                    continue;
                }
                let results = run_briefly(structure, keys, threads, Options::default());
                let phases: Vec<_> = results.iter().map(|r| r.phase).collect();
                let expected: &[&str] = match structure {
                    Structure::BPlus => &["insert", "lookup", "multi_get", "scan100", "zipf", "mixed"],
                    _ => &["insert", "lookup", "scan100", "zipf", "mixed"],
                };
                assert_eq!(phases, expected, "{structure:?} {keys:?}");
                assert!(results.iter().all(|r| r.ops_per_s > 0.0), "{results:?}");
            }
        }
    }

    /// Batches of inserts, and every node size, give right answers.
    #[test]
    fn batches_and_node_sizes_run() {
        for inserts in [Inserts::Many, Inserts::Sorted] {
            for (keys, node_keys) in [
                (KeyKind::Bytes, None),
                (KeyKind::U32, Some(NodeKeys::K128)),
                (KeyKind::U64, Some(NodeKeys::K16)),
            ] {
                let options = Options { batch: 48, inserts, insert_batch: 300, node_keys };
                let results = run_briefly(Structure::BPlus, keys, 2, options);
                assert!(results.iter().all(|r| r.ops_per_s > 0.0), "{options:?} {keys:?} {results:?}");
            }
        }
    }

    /// A static map has its own phases.
    #[test]
    fn static_maps_run() {
        for keys in [KeyKind::U64, KeyKind::U32] {
            let results = run_briefly(Structure::Static, keys, 2, Options::default());
            let phases: Vec<_> = results.iter().map(|r| r.phase).collect();
            assert_eq!(phases, ["build", "lookup", "lookup128", "bound", "bound128"], "{keys:?}");
            assert!(results.iter().all(|r| r.ops_per_s > 0.0), "{results:?}");
        }
        assert!(!Structure::Static.takes(KeyKind::Bytes));
    }
}
