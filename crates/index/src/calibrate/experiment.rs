//! The experiment on the maps: every key size and node size, at several tree sizes, one beside the other.
//!
//! Question: which node size is best at lookups, in batches and scans, and which at inserts?
//! Expected shape (processor-conscious CSB+): lookups have a broad optimum at several cache lines; inserts want smaller nodes
//! the smaller the tree; the optimum grows with the key.
//!
//! All node sizes of a comparison take turns. Every answer is checked.

use super::turns::{
    FILL_TURNS, Steps, numbered, quartile_ns, queries, scramble32, scramble64, scramble128, time,
};
use super::{NodeKeys, SearchMeasured, search};
use crate::TunedMap;
use crate::node::int::IntKey;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Lookups of a batch.
const BATCH: usize = 64;
/// Entries of a scan.
const SCAN: usize = 100;

/// How much is measured.
///
/// ```
/// use foreshore_index::calibrate::experiment::Plan;
///
/// let plan = Plan::quick();
/// assert!(plan.steps() < Plan::full().steps());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Entries of the trees, rising.
    pub entries: Vec<u64>,
    /// Turns of each kind of reading and map.
    pub turns: usize,
    /// Operations in a turn.
    pub operations: usize,
}

impl Plan {
    /// Three sizes, from within the caches to far beyond; some minutes, and up to 1 GiB of memory.
    ///
    /// ```
    /// use foreshore_index::calibrate::experiment::Plan;
    ///
    /// assert_eq!(Plan::full().entries.len(), 3);
    /// ```
    pub fn full() -> Self {
        Self { entries: vec![100_000, 1_000_000, 4_000_000], turns: 31, operations: 40_000 }
    }

    /// Two sizes; well under a minute.
    ///
    /// ```
    /// use foreshore_index::calibrate::experiment::Plan;
    ///
    /// let quicker = Plan { entries: vec![10_000], ..Plan::quick() };
    /// assert!(quicker.steps() < Plan::quick().steps());
    /// ```
    pub fn quick() -> Self {
        Self { entries: vec![100_000, 1_000_000], turns: 11, operations: 10_000 }
    }

    /// Steps that [`run`] tells of: the whole of a progress bar.
    ///
    /// ```
    /// use foreshore_index::calibrate::experiment::Plan;
    ///
    /// println!("0 of {} steps", Plan::full().steps());
    /// ```
    pub fn steps(&self) -> usize {
        3 * self.entries.len() * (FILL_TURNS as usize + self.turns) + search::steps(self)
    }
}

/// Figures of one node size. Nanoseconds of one operation, on one thread. Made by [`run`].
///
/// ```
/// use foreshore_index::calibrate::experiment::{Plan, run};
///
/// // One turn over a few keys, only to show the way; `Plan::quick` measures.
/// let plan = Plan { entries: vec![1000], turns: 1, operations: 100 };
/// let (maps, _searches) = run(&plan, &mut |done, next| println!("{done}: {next}"));
/// let quickest = maps.iter().filter(|map| map.key_bytes == 8).min_by(|a, b| a.lookup_ns.total_cmp(&b.lookup_ns));
/// println!("{} keys a node", quickest.expect("some were measured").node_keys.get());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Keys of a node.
    pub node_keys: NodeKeys,
    /// Entries of the map, in the end.
    pub entries: u64,
    /// Inserts of random keys, from half the entries on.
    pub insert_ns: f64,
    /// Lookups of keys that are there, one after the other.
    pub lookup_ns: f64,
    /// The same in batches of 64: one lookup of a batch.
    pub multi_get_ns: f64,
    /// A scan of 100 entries from a random key.
    pub scan_ns: f64,
}

/// Runs the experiment on the maps and the one on [searches](super::Search); tells `progress` of each step before it begins:
/// how many are done, and what is next.
///
/// Panics if an index gives a wrong answer, if there are no turns or no operations in them, or if a tree has no entries.
///
/// ```
/// use foreshore_index::calibrate::experiment::{Plan, run};
///
/// let plan = Plan { entries: vec![1000], turns: 1, operations: 100 };
/// let mut told = 0;
/// let (maps, searches) = run(&plan, &mut |_, _| told += 1);
/// assert_eq!(told, plan.steps());
/// assert!(!maps.is_empty() && !searches.is_empty());
/// ```
///
/// [`Profile::of`](crate::Profile::of) makes a profile of the figures.
pub fn run(plan: &Plan, progress: &mut dyn FnMut(usize, &str)) -> (Vec<Measured>, Vec<SearchMeasured>) {
    assert!(plan.operations > 0, "a plan without operations");
    let mut steps = Steps::new(progress);
    let mut measured = Vec::new();
    for &entries in &plan.entries {
        measured.extend(compare(plan, entries, scramble32, &mut steps));
        measured.extend(compare(plan, entries, scramble64, &mut steps));
        measured.extend(compare(plan, entries, scramble128, &mut steps));
    }
    (measured, search::run(plan, &mut steps))
}

/// A map of one node size, and the times of its turns.
struct Candidate<K: IntKey> {
    map: TunedMap<K>,
    inserts: Vec<Duration>,
    lookup: Vec<Duration>,
    multi_get: Vec<Duration>,
    scan: Vec<Duration>,
}

/// All node sizes for one kind of key and one tree size.
fn compare<K: IntKey>(plan: &Plan, entries: u64, key: impl Fn(u64) -> K, steps: &mut Steps) -> Vec<Measured> {
    let mut candidates = NodeKeys::ALL.map(|size| Candidate {
        map: TunedMap::with_node_keys(size),
        inserts: Vec::new(),
        lookup: Vec::new(),
        multi_get: Vec::new(),
        scan: Vec::new(),
    });
    let label = format!("{}-byte keys, {entries} entries", size_of::<K>());
    for turn in 0..FILL_TURNS {
        steps.begin(&format!("{label}: inserts"));
        let part = numbered(entries * turn / FILL_TURNS, entries * (turn + 1) / FILL_TURNS, &key);
        for candidate in &mut candidates {
            let map = &candidate.map;
            let inserts = time(|| part.iter().all(|&(key, i)| map.insert(key, i).is_none()));
            // A tiny tree has not a key for each turn.
            if turn >= FILL_TURNS / 2 && !part.is_empty() {
                candidate.inserts.push(inserts);
            }
        }
    }
    for turn in 0..plan.turns as u64 {
        steps.begin(&format!("{label}: lookups"));
        let queries = queries(turn, plan.operations, entries, &key);
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
        Measured {
            key_bytes: size_of::<K>(),
            node_keys,
            entries,
            insert_ns: quartile_ns(self.inserts, (entries / FILL_TURNS).max(1) as usize),
            lookup_ns: quartile_ns(self.lookup, plan.operations),
            multi_get_ns: quartile_ns(self.multi_get, plan.operations),
            scan_ns: quartile_ns(self.scan, plan.operations.div_ceil(SCAN)),
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::calibrate::Search;

    /// Every combination is measured, and as many steps are told as the plan has.
    #[test]
    fn a_small_plan_measures_everything() {
        let plan = Plan { entries: vec![1000, 3000], turns: 3, operations: 500 };
        let mut steps = 0;
        let (measured, searches) = run(&plan, &mut |done, what| {
            assert_eq!(done, steps, "{what}");
            steps += 1;
        });
        assert_eq!(steps, plan.steps());
        assert_eq!(measured.len(), 2 * 3 * NodeKeys::ALL.len());
        assert_eq!(
            searches.len(),
            2 * 3 * NodeKeys::ALL.len() * Search::ALL.len() * 4,
            "with and without, twice"
        );
        assert!(searches.iter().all(|m| m.lookup_ns > 0.0 && m.insert_ns > 0.0), "{searches:?}");
        let figures = |m: &Measured| [m.insert_ns, m.lookup_ns, m.multi_get_ns, m.scan_ns];
        assert!(measured.iter().flat_map(figures).all(|ns| ns > 0.0), "{measured:?}");
    }

    /// So is a tree that has less keys than there are turns to fill it.
    #[test]
    fn a_tiny_plan_has_figures() {
        for entries in [1, 7, 39] {
            let plan = Plan { entries: vec![entries], turns: 1, operations: 1 };
            let (measured, searches) = run(&plan, &mut |_, _| {});
            let figures = |m: &Measured| [m.insert_ns, m.lookup_ns, m.multi_get_ns, m.scan_ns];
            assert!(measured.iter().flat_map(figures).all(f64::is_finite), "{measured:?}");
            assert!(
                searches.iter().flat_map(|m| [m.insert_ns, m.lookup_ns]).all(f64::is_finite),
                "{searches:?}"
            );
        }
    }
}
