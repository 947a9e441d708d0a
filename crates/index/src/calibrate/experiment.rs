//! The experiment: every key size and node size, at several tree sizes, one beside the other.
//!
//! Question: which node size is best at lookups, in batches and scans, and which at inserts?
//! Expected shape (processor-conscious CSB+): lookups have a broad optimum at several cache lines; inserts want smaller nodes
//! the smaller the tree; the optimum grows with the key.
//!
//! Machines are noisy, and noise lasts: so all node sizes of a comparison take turns of some milliseconds, and the median
//! turn counts. Every answer is checked.

use super::NodeKeys;
use crate::TunedMap;
use crate::node::int::IntKey;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Lookups of a batch.
const BATCH: usize = 64;
/// Entries of a scan.
const SCAN: usize = 100;
/// Turns in which a map is filled.
const FILL_TURNS: u64 = 20;

/// How much is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Entries of the maps, rising.
    pub entries: Vec<u64>,
    /// Turns of each kind of reading and map.
    pub turns: usize,
    /// Operations in a turn.
    pub operations: usize,
}

impl Plan {
    /// Three sizes, from within the caches to far beyond; some minutes, and up to 1 GiB of memory.
    pub fn full() -> Self {
        Self { entries: vec![100_000, 1_000_000, 8_000_000], turns: 41, operations: 40_000 }
    }

    /// Two sizes; well under a minute.
    pub fn quick() -> Self {
        Self { entries: vec![100_000, 1_000_000], turns: 11, operations: 10_000 }
    }

    /// Steps that [`run`] tells of.
    pub fn steps(&self) -> usize {
        2 * self.entries.len() * (FILL_TURNS as usize + self.turns)
    }
}

/// Figures of one node size. Nanoseconds of one operation, on one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Keys of a node.
    pub node_keys: NodeKeys,
    /// Entries of the map, in the end.
    pub entries: u64,
    /// Inserts of random keys, from the empty map on.
    pub insert_ns: f64,
    /// Lookups of keys that are there, one after the other.
    pub lookup_ns: f64,
    /// The same in batches of 64: one lookup of a batch.
    pub multi_get_ns: f64,
    /// A scan of 100 entries from a random key.
    pub scan_ns: f64,
}

/// Runs the experiment; tells `progress` of each step before it begins: how many are done, and what is next.
///
/// Panics if a map gives a wrong answer.
pub fn run(plan: &Plan, progress: &mut dyn FnMut(usize, &str)) -> Vec<Measured> {
    let mut steps = Steps { done: 0, progress };
    let mut measured = Vec::new();
    for &entries in &plan.entries {
        // Odd factors and xored shifts are bijections, so the keys are distinct.
        measured.extend(compare(plan, entries, scramble32, &mut steps));
        measured.extend(compare(plan, entries, scramble64, &mut steps));
    }
    measured
}

struct Steps<'p> {
    done: usize,
    progress: &'p mut dyn FnMut(usize, &str),
}

impl Steps<'_> {
    fn begin(&mut self, what: &str) {
        (self.progress)(self.done, what);
        self.done += 1;
    }
}

/// A map of one node size, and the times of its turns.
struct Candidate<K: IntKey> {
    map: TunedMap<K>,
    fill: Duration,
    lookup: Vec<Duration>,
    multi_get: Vec<Duration>,
    scan: Vec<Duration>,
}

/// All node sizes for one kind of key and one tree size.
fn compare<K: IntKey>(plan: &Plan, entries: u64, key: impl Fn(u64) -> K, steps: &mut Steps) -> Vec<Measured> {
    let mut candidates = NodeKeys::ALL.map(|size| Candidate {
        map: TunedMap::with_node_keys(size),
        fill: Duration::ZERO,
        lookup: Vec::new(),
        multi_get: Vec::new(),
        scan: Vec::new(),
    });
    let label = format!("{}-byte keys, {entries} entries", size_of::<K>());
    for turn in 0..FILL_TURNS {
        steps.begin(&format!("{label}: inserts"));
        let part: Vec<(K, u64)> =
            (entries * turn / FILL_TURNS..entries * (turn + 1) / FILL_TURNS).map(|i| (key(i), i)).collect();
        for candidate in &mut candidates {
            candidate.fill += time(|| part.iter().all(|&(key, i)| candidate.map.insert(key, i).is_none()));
        }
    }
    for turn in 0..plan.turns as u64 {
        steps.begin(&format!("{label}: lookups"));
        let numbers = (0..plan.operations as u64).map(|i| scramble64(turn << 32 | i) % entries);
        let queries: Vec<(K, u64)> = numbers.map(|i| (key(i), i)).collect();
        candidates.iter_mut().for_each(|candidate| candidate.turn(&queries));
    }
    candidates.into_iter().map(|candidate| candidate.measured(plan, entries)).collect()
}

impl<K: IntKey> Candidate<K> {
    fn turn(&mut self, queries: &[(K, u64)]) {
        let map = &self.map;
        self.lookup.push(time(|| queries.iter().all(|&(key, i)| map.get(key) == Some(i))));
        let keys: Vec<K> = queries.iter().map(|(key, _)| *key).collect();
        let mut values = vec![None; queries.len()];
        self.multi_get.push(time(|| {
            keys.chunks(BATCH).zip(values.chunks_mut(BATCH)).for_each(|(k, v)| map.multi_get(k, v));
            values.iter().zip(queries).all(|(value, (_, i))| *value == Some(*i))
        }));
        let starts = &queries[..queries.len().div_ceil(SCAN)];
        self.scan.push(time(|| {
            starts.iter().all(|&(key, i)| {
                let mut scanned = map.range(key..).take(SCAN);
                let first = scanned.next() == Some((key, i));
                std::hint::black_box(scanned.fold(0, |sum, (_, value)| sum ^ value));
                first
            })
        }));
    }

    fn measured(self, plan: &Plan, entries: u64) -> Measured {
        let node_keys = self.map.node_keys();
        let per =
            |turns: Vec<Duration>, operations: usize| median(turns).as_nanos() as f64 / operations as f64;
        Measured {
            key_bytes: size_of::<K>(),
            node_keys,
            entries,
            insert_ns: round(self.fill.as_nanos() as f64 / entries as f64),
            lookup_ns: round(per(self.lookup, plan.operations)),
            multi_get_ns: round(per(self.multi_get, plan.operations)),
            scan_ns: round(per(self.scan, plan.operations.div_ceil(SCAN))),
        }
    }
}

/// The time of a turn, which says whether all of its answers were right.
fn time(turn: impl FnOnce() -> bool) -> Duration {
    let start = Instant::now();
    assert!(turn(), "an index gave a wrong answer");
    start.elapsed()
}

fn median(mut turns: Vec<Duration>) -> Duration {
    turns.sort_unstable();
    turns[turns.len() / 2]
}

/// Tenths are enough.
fn round(ns: f64) -> f64 {
    (ns * 10.0).round() / 10.0
}

/// The finalizer of splitmix64.
fn scramble64(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

fn scramble32(number: u64) -> u32 {
    let mut x = number as u32;
    x = (x ^ x >> 16).wrapping_mul(0x7FEB_352D);
    x = (x ^ x >> 15).wrapping_mul(0x846C_A68B);
    x ^ x >> 16
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// Every combination is measured, and as many steps are told as the plan has.
    #[test]
    fn a_small_plan_measures_everything() {
        let plan = Plan { entries: vec![1000, 3000], turns: 3, operations: 500 };
        let mut steps = 0;
        let measured = run(&plan, &mut |done, what| {
            assert_eq!(done, steps, "{what}");
            steps += 1;
        });
        assert_eq!(steps, plan.steps());
        assert_eq!(measured.len(), 2 * 2 * NodeKeys::ALL.len());
        let figures = |m: &Measured| [m.insert_ns, m.lookup_ns, m.multi_get_ns, m.scan_ns];
        assert!(measured.iter().flat_map(figures).all(|ns| ns > 0.0), "{measured:?}");
    }
}
