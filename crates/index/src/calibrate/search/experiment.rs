//! The experiment over all ways: trees of each node size, in huge pages and not, searched by all methods by turns.

use super::methods::{Binary, Hybrid, Linear, Method, Simd};
use super::tree::PlainTree;
use super::{Search, SearchMeasured, Way};
use crate::calibrate::NodeKeys;
use crate::calibrate::experiment::Plan;
use crate::calibrate::turns::{
    FILL_TURNS, Steps, numbered, quartile_ns, queries, scramble32, scramble64, scramble128, time,
};
use crate::node::int::IntKey;
use std::time::Duration;

/// Turns at inserting, for each method.
const INSERT_TURNS: u64 = 12;
/// Methods, each with and without prefetch.
const METHODS: usize = 2 * Search::ALL.len();
/// Larger trees have no more to tell, and eight of them stand side by side.
const ENTRIES_MAX: u64 = 2_000_000;

/// Steps that [`run`] tells of.
pub(in crate::calibrate) fn steps(plan: &Plan) -> usize {
    3 * sizes(plan).len() * (FILL_TURNS as usize + INSERT_TURNS as usize + plan.turns)
}

/// Tree sizes of the plan, the greatest bounded.
fn sizes(plan: &Plan) -> Vec<u64> {
    let mut sizes: Vec<u64> = plan.entries.iter().map(|entries| (*entries).min(ENTRIES_MAX)).collect();
    sizes.dedup();
    sizes
}

/// Runs the experiment. Panics if a tree gives a wrong answer.
pub(in crate::calibrate) fn run(plan: &Plan, steps: &mut Steps) -> Vec<SearchMeasured> {
    let mut measured = Vec::new();
    for entries in sizes(plan) {
        measured.extend(compare(plan, entries, scramble32, steps));
        measured.extend(compare(plan, entries, scramble64, steps));
        measured.extend(compare(plan, entries, scramble128, steps));
    }
    measured
}

/// A tree of any node size.
trait Subject<K> {
    fn insert(&mut self, method: (Search, bool), part: &[(K, u64)]);
    /// Are all of them there?
    fn find(&self, method: (Search, bool), queries: &[(K, u64)]) -> bool;
}

impl<K: IntKey, const F: usize> Subject<K> for PlainTree<K, F> {
    fn insert(&mut self, (search, prefetch): (Search, bool), part: &[(K, u64)]) {
        match search {
            Search::Linear => insert_all::<Linear, K, F>(self, prefetch, part),
            Search::Binary => insert_all::<Binary, K, F>(self, prefetch, part),
            Search::Hybrid => insert_all::<Hybrid, K, F>(self, prefetch, part),
            Search::Simd => insert_all::<Simd, K, F>(self, prefetch, part),
        }
    }

    fn find(&self, (search, prefetch): (Search, bool), queries: &[(K, u64)]) -> bool {
        match search {
            Search::Linear => find_all::<Linear, K, F>(self, prefetch, queries),
            Search::Binary => find_all::<Binary, K, F>(self, prefetch, queries),
            Search::Hybrid => find_all::<Hybrid, K, F>(self, prefetch, queries),
            Search::Simd => find_all::<Simd, K, F>(self, prefetch, queries),
        }
    }
}

fn insert_all<M: Method, K: IntKey, const F: usize>(
    tree: &mut PlainTree<K, F>,
    prefetch: bool,
    part: &[(K, u64)],
) {
    if prefetch {
        part.iter().for_each(|&(key, i)| tree.insert::<M, true>(key, i));
    } else {
        part.iter().for_each(|&(key, i)| tree.insert::<M, false>(key, i));
    }
}

fn find_all<M: Method, K: IntKey, const F: usize>(
    tree: &PlainTree<K, F>,
    prefetch: bool,
    queries: &[(K, u64)],
) -> bool {
    if prefetch {
        queries.iter().all(|&(key, i)| tree.get::<M, true>(key) == Some(i))
    } else {
        queries.iter().all(|&(key, i)| tree.get::<M, false>(key) == Some(i))
    }
}

/// A tree, and for each method the times of its turns.
struct Candidate<K> {
    node_keys: NodeKeys,
    huge_pages: bool,
    tree: Box<dyn Subject<K>>,
    inserts: [Vec<Duration>; METHODS],
    lookups: [Vec<Duration>; METHODS],
}

fn methods() -> impl Iterator<Item = (Search, bool)> {
    Search::ALL.into_iter().flat_map(|search| [(search, false), (search, true)])
}

/// All ways for one kind of key and one tree size.
fn compare<K: IntKey>(
    plan: &Plan,
    entries: u64,
    key: impl Fn(u64) -> K,
    steps: &mut Steps,
) -> Vec<SearchMeasured> {
    let mut candidates: Vec<Candidate<K>> = NodeKeys::ALL
        .into_iter()
        .flat_map(|size| [false, true].map(|huge_pages| Candidate::new(size, huge_pages, entries)))
        .collect();
    let label = format!("searches, {}-byte keys, {entries} entries", size_of::<K>());
    let half = entries / 2;
    for turn in 0..FILL_TURNS {
        steps.begin(&format!("{label}: filling"));
        let part = numbered(half * turn / FILL_TURNS, half * (turn + 1) / FILL_TURNS, &key);
        candidates.iter_mut().for_each(|candidate| candidate.tree.insert((Search::Hybrid, true), &part));
    }
    let operations = ((entries - half) / (INSERT_TURNS * METHODS as u64)).max(1);
    let mut next = half;
    for _ in 0..INSERT_TURNS {
        steps.begin(&format!("{label}: inserts"));
        for (i, method) in methods().enumerate() {
            let part = numbered(next, next + operations, &key);
            next += operations;
            for candidate in &mut candidates {
                let tree = &mut candidate.tree;
                candidate.inserts[i].push(time(|| {
                    tree.insert(method, &part);
                    true // the lookups will tell
                }));
            }
        }
    }
    for turn in 0..plan.turns as u64 {
        steps.begin(&format!("{label}: lookups"));
        let queries = queries(turn, plan.operations.div_ceil(2), next, &key);
        for (i, method) in methods().enumerate() {
            for candidate in &mut candidates {
                candidate.lookups[i].push(time(|| candidate.tree.find(method, &queries)));
            }
        }
    }
    let lookups = plan.operations.div_ceil(2);
    candidates.into_iter().flat_map(|c| c.measured(entries, operations as usize, lookups)).collect()
}

impl<K: IntKey> Candidate<K> {
    fn new(node_keys: NodeKeys, huge_pages: bool, entries: u64) -> Self {
        // The last turn of a tiny tree may need a few more.
        let entries = entries + INSERT_TURNS * METHODS as u64;
        let tree: Box<dyn Subject<K>> = match node_keys {
            NodeKeys::K16 => Box::new(PlainTree::<K, 16>::new(entries, huge_pages)),
            NodeKeys::K32 => Box::new(PlainTree::<K, 32>::new(entries, huge_pages)),
            NodeKeys::K64 => Box::new(PlainTree::<K, 64>::new(entries, huge_pages)),
            NodeKeys::K128 => Box::new(PlainTree::<K, 128>::new(entries, huge_pages)),
        };
        let turns = || std::array::from_fn(|_| Vec::new());
        Self { node_keys, huge_pages, tree, inserts: turns(), lookups: turns() }
    }

    fn measured(self, entries: u64, inserts: usize, lookups: usize) -> Vec<SearchMeasured> {
        let (node_keys, huge_pages) = (self.node_keys, self.huge_pages);
        let turns = methods().zip(self.inserts.into_iter().zip(self.lookups));
        turns
            .map(|((search, prefetch), (insert_turns, lookup_turns))| SearchMeasured {
                key_bytes: size_of::<K>(),
                entries,
                way: Way { node_keys, search, prefetch, huge_pages },
                lookup_ns: quartile_ns(lookup_turns, lookups),
                insert_ns: quartile_ns(insert_turns, inserts),
            })
            .collect()
    }
}
