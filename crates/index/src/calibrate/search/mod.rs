//! Search method, prefetch and huge pages: the paper's experiment, on a tree made for it.
//!
//! Why: the maps have one search, one way to prefetch, and ask for huge pages. Whether that is right on a machine can only
//! be seen beside the alternatives, which the maps should not carry with them.
//! Source: the processor-conscious CSB+-tree's configuration experiment (§3.3, §3.5, §4): search method with and without
//! prefetch, key size × node size, point queries and insertions.
//! Differs: the tree is a plain B+-tree of one thread ([`tree`]), without latches, versions and the copies of the maps'
//! nodes of where blocks begin. It is grown by inserts, not bulk-loaded; methods take turns at inserting into the same
//! tree. Huge pages are one dimension more.

mod experiment;
mod methods;
mod slab;
mod tree;

pub(super) use experiment::{run, steps};

use super::choose::{clearly_best, geometric_mean, wanted};
use super::{Favour, NodeKeys};
use serde::{Deserialize, Serialize};

/// Another way than the maps' is named as the best if it is so many times as fast: less is noise.
const WORTH_WHILE: f64 = 1.03;

/// How a key is looked for in a node. See [`Searches`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Search {
    /// One key after the other, until one is above.
    Linear,
    /// By halves.
    Binary,
    /// The cache line by halves, without a branch, then all keys of the line: the maps' search.
    #[default]
    Hybrid,
    /// All keys of all lines, by vectors where the processor has them for keys of that size.
    Simd,
}

impl Search {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Linear, Self::Binary, Self::Hybrid, Self::Simd];
}

/// What the experiment varies but key and tree size. See [`Searches`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// Keys of a node.
    pub node_keys: NodeKeys,
    /// The search in it.
    pub search: Search,
    /// Are all lines of a node's keys asked for before they are searched?
    pub prefetch: bool,
    /// Was the memory advised to lie in huge pages, or not to?
    pub huge_pages: bool,
}

impl Way {
    /// What the maps do, with nodes of this size. See [`Searches`].
    pub fn of_maps(node_keys: NodeKeys) -> Self {
        Self { node_keys, search: Search::Hybrid, prefetch: true, huge_pages: true }
    }
}

/// Figures of one way. Nanoseconds of one operation, on one thread. See [`Searches`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchMeasured {
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Entries of the tree, in the end.
    pub entries: u64,
    /// How.
    #[serde(flatten)]
    pub way: Way,
    /// Lookups of random keys that are there, one after the other.
    pub lookup_ns: f64,
    /// Inserts of random keys, from half the entries on.
    pub insert_ns: f64,
}

/// The best way for one kind of key and use. See [`Searches`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BestWay {
    /// Bytes of a key.
    pub key_bytes: usize,
    /// What was favoured.
    pub favour: Favour,
    /// How; the maps' search, prefetch and pages if nothing is clearly better.
    #[serde(flatten)]
    pub way: Way,
    /// How many times as fast as the maps' search, prefetch and pages with the node size that suits those best.
    pub times_maps: f64,
}

/// What the experiment found. The maps do not follow it: it says whether they should.
///
/// ```
/// use foreshore_index::NodeKeys;
/// use foreshore_index::calibrate::{Search, SearchMeasured, Searches, Way};
///
/// let maps = Way::of_maps(NodeKeys::K64);
/// let linear = Way { search: Search::Linear, ..maps };
/// let measured = [(maps, 100.0), (linear, 150.0)].map(|(way, lookup_ns)| SearchMeasured {
///     key_bytes: 8,
///     entries: 1000,
///     way,
///     lookup_ns,
///     insert_ns: lookup_ns,
/// });
/// let searches = Searches::of(measured.to_vec());
/// assert!(searches.best.iter().all(|best| best.way == maps));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Searches {
    /// The best ways.
    #[serde(default)]
    pub best: Vec<BestWay>,
    /// The figures.
    #[serde(default)]
    pub measured: Vec<SearchMeasured>,
}

impl Searches {
    /// What these figures say. See [`Searches`].
    pub fn of(measured: Vec<SearchMeasured>) -> Self {
        let wanted = wanted(measured.iter().map(|m| m.key_bytes));
        let best = wanted.map(|(key_bytes, favour)| best(&measured, key_bytes, favour)).collect();
        Self { best, measured }
    }
}

fn best(measured: &[SearchMeasured], key_bytes: usize, favour: Favour) -> BestWay {
    let of_key = || measured.iter().filter(|m| m.key_bytes == key_bytes);
    let cost_of = |way: Way| geometric_mean(of_key().filter(|m| m.way == way).map(|m| cost(m, favour)));
    let maps = NodeKeys::ALL.map(Way::of_maps);
    let of_maps = clearly_best(maps, maps[0], 1.0, cost_of);
    let way = clearly_best(of_key().map(|m| m.way), of_maps, WORTH_WHILE, cost_of);
    let times_maps = (cost_of(of_maps) / cost_of(way) * 100.0).round() / 100.0;
    BestWay { key_bytes, favour, way, times_maps }
}

fn cost(m: &SearchMeasured, favour: Favour) -> f64 {
    match favour {
        Favour::Lookups => m.lookup_ns,
        Favour::Inserts => m.insert_ns,
        Favour::Balanced => geometric_mean([m.lookup_ns, m.insert_ns]),
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn measured(node_keys: NodeKeys, search: Search, lookup_ns: f64, insert_ns: f64) -> SearchMeasured {
        let way = Way { search, ..Way::of_maps(node_keys) };
        SearchMeasured { key_bytes: 8, entries: 1000, way, lookup_ns, insert_ns }
    }

    /// What beats the maps at their best node size is named, with how much; a hair's breadth is not.
    #[test]
    fn figures_name_the_best_way() {
        let searches = Searches::of(vec![
            measured(NodeKeys::K16, Search::Linear, 80.0, 199.0),
            measured(NodeKeys::K32, Search::Hybrid, 100.0, 200.0),
            measured(NodeKeys::K64, Search::Hybrid, 120.0, 210.0),
        ]);
        let of = |favour| searches.best.iter().find(|best| best.favour == favour).unwrap();
        assert_eq!(of(Favour::Lookups).way, Way { search: Search::Linear, ..Way::of_maps(NodeKeys::K16) });
        assert_eq!(of(Favour::Lookups).times_maps, 1.25);
        assert_eq!(of(Favour::Inserts).way, Way::of_maps(NodeKeys::K32));
        assert_eq!(of(Favour::Inserts).times_maps, 1.0);
    }
}
