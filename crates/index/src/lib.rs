//! Ordered maps in memory for many threads: lookups write nothing shared, updates latch one node.
//!
//! - [`IntMap`]: fixed-width keys, which are integers up to 128 bits and byte arrays up to 32 bytes; [`ByteMap`]:
//!   byte-string keys of any length. Values are 64-bit words; keys are unique. Both look up and insert many keys at a time
//!   ([`IntMap::multi_get`], [`IntMap::insert_many`]). An [`IntMap`] also scans a known number of entries ([`IntMap::scan`]), faster
//!   than its iterators do.
//! - [`TunedMap`]: an [`IntMap`] whose node size is chosen when it is made, by a [`Profile`] of the machine.
//! - [`MultiMap`]: several values a key.
//! - [`CsbMap`]: integer keys in a CSB+-tree, whose nodes need one pointer for all of their children.
//! - [`O2Map`], [`OptimisticO2Map`]: integer keys in an O2-Tree, with locks as in its paper, and with lookups that lock nothing.
//! - [`StaticMap`]: integer keys that never change, packed; lookups singly and in batches.
//! - [`CsbByteMap`], [`O2ByteMap`], [`OptimisticO2ByteMap`]: byte strings of up to 1024 bytes in layers of such trees
//!   ([`TrieMap`]).
//! - [`LeafIndex`]: what a storage engine asks of an index over its leaf pages; all maps of byte strings serve as one.
//!
//! All maps that change, but for [`MultiMap`], name alike what `BTreeMap` and other concurrent maps have: `insert`, `get`, `contains_key`, `remove`,
//! `first_key_value`, `last_key_value`, `pop_first`, `pop_last`, `retain`, `clear`, `range`, `range_rev`, `iter`, `iter_rev`,
//! `collect`, `from` an array and `extend`; and, for one key in one step, [`compare_exchange`](IntMap::compare_exchange),
//! [`fetch_update`](IntMap::fetch_update), [`get_or_insert_with`](IntMap::get_or_insert_with). All but `extend` take `&self`.
//! There is no `clone`, for it could be no snapshot: `bulk_load(&map, 0.9)` makes a copy by a scan.
//!
//! [`IntMap`] and [`ByteMap`] are the same tree, the OLFIT B+-tree (Cha et al., VLDB 2001): every node carries a
//! version; a reader copies what it needs and believes it if the version is still the same; a writer latches the node.
//! Nodes split from left to right and are chained by links, so that who comes too early for a separator finds the key
//! to the right. [`CsbMap`] reads and writes nodes in the same way, and also moves them; `csb/mod.rs` argues why that
//! misleads no reader.
//!
//! ```
//! use foreshore_index::IntMap;
//!
//! let map: IntMap<u64> = IntMap::new();
//! std::thread::scope(|s| {
//!     s.spawn(|| (0..1000).for_each(|i| _ = map.insert(2 * i, i)));
//!     s.spawn(|| (0..1000).for_each(|i| _ = map.insert(2 * i + 1, i)));
//! });
//! assert_eq!(map.get(7), Some(3));
//! assert_eq!(map.floor(u64::MAX), Some(999));
//! assert_eq!(map.range(10..13).collect::<Vec<_>>(), [(10, 5), (11, 5), (12, 6)]);
//! ```
//!
//! Guarantees: `get`, `insert`, `remove`, `compare_exchange` and what is made of it, `floor` and `below` are linearizable, except that `floor` and `below`
//! look at two or more leaves where the leaf of the key begins with entries above it: they then return an entry that was
//! the answer for each leaf at the moment it was read, though entries may have come and gone between these moments. In a
//! [`TrieMap`] they may so look at two or more layers. Scans hand out, in order and once, every key that is present throughout. A batch is
//! no snapshot: each of its keys is looked up or inserted by itself. Most
//! operations pin an epoch (about 6 ns, and a full fence), a [`Pinned`] handle once for many, which protects the map's
//! nodes, and not what your values stand for (the README shows how to keep that); an [`IntMap`]'s `get`, `insert`, `remove`, `floor`, `below` and `scan` need none while nobody interferes.
//!
//! Costs: of *n* entries in nodes of *F*, an operation on one key reads about log *n* / log *F* nodes (in an O2-Tree, whose inner nodes
//! have one key, about log₂ (*n* / *F*)), a scan one node for up to *F* entries, `len` sixteen counters. `bytes`, `check` and `stats`
//! walk what they tell of.
//!
//! Which one: [`StaticMap`] for what is built once (lookups are 1.5 to 1.75 times as fast as in an [`IntMap`], in two thirds
//! of the memory), [`IntMap`] for what changes. A [`CsbMap`] takes 1.6 to 2.7 times as long to look up, 1.2 to 1.8 times to
//! insert (a split copies its right siblings), and 1.3 to 1.5 times the memory (groups are allocated whole): take it where a
//! measurement on your machine says so.
//!
//! Limits: a tree never becomes lower, and only empty nodes are given back (an O2-Tree, which merges blocks less than half
//! full, may become lower); their memory serves maps of the process whose nodes are of the same kind and size, rather than the
//! system. All maps together may have 256 GiB of nodes. Where the system refuses memory, what makes, fills or loads a map panics; see
//! [`reserve`]. A B+-tree has all its entries then, but may lead to some of its leaves by their links alone from then on, which makes those slower, and
//! which `check` tells.

mod broken;
pub mod calibrate;
mod copy;
mod counters;
mod csb;
mod fixed;
mod leaf_index;
mod map;
mod node;
mod o2;
#[cfg_attr(shuttle, path = "pool_model.rs")]
mod pool;
mod pooled;
mod read_again;
mod reclaim;
mod search;
mod shift;
mod tree;
mod trie;
mod vector;
mod wide;

pub use broken::Broken;
pub use calibrate::{Favour, NodeKeys, Profile};
pub use csb::CsbStats;
pub use fixed::{PackedLane, StaticMap};
pub use leaf_index::LeafIndex;
pub use map::bytes::{ByteMap, ByteRange, ByteRangeRev};
pub use map::csb::{CsbMap, CsbRange, CsbRangeRev};
pub use map::fixed::StaticRange;
pub use map::int::{IntMap, IntRange, IntRangeRev};
pub use map::multi::{MultiMap, MultiRange, MultiRangeRev};
pub use map::o2::{O2Map, O2Range, O2RangeRev, OptimisticO2Map};
pub use map::trie::{CsbByteMap, O2ByteMap, OptimisticO2ByteMap, TrieMap, TrieRange, TrieRangeRev};
pub use map::tuned::{TunedMap, TunedRange, TunedRangeRev};
pub use map::{ByteBounds, Pinned};
pub use node::int::IntKey;
pub use o2::{Coupled, DumpMismatch, InnerNode, O2Stats, Optimistic, Scheme};
pub use pool::reserve;
#[cfg(not(shuttle))]
#[doc(hidden)]
pub use reclaim::is_pinned;
pub use search::Lane;
pub use tree::Stats;
pub use trie::TrieStats;
pub use trie::layer_tree::LayerTree;

/// The README's examples, which the tests run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
