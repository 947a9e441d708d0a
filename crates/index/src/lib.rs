//! Ordered maps in memory for many threads: lookups write nothing shared, updates latch one node.
//!
//! - [`IntMap`]: fixed-width integer keys; [`ByteMap`]: byte-string keys of any length. Values are 64-bit words; keys
//!   are unique.
//! - [`LeafIndex`]: what a storage engine asks of an index over its leaf pages; [`ByteMap`] serves as one.
//!
//! Both maps are the same tree, the OLFIT B+-tree (Cha et al., VLDB 2001): every node carries a version; a reader
//! copies what it needs and believes it if the version is still the same; a writer latches the node. Nodes split from
//! left to right and are chained by links, so that who comes too early for a separator finds the key to the right.
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
//! Guarantees: `get`, `insert`, `remove`, `floor` and `below` are linearizable, except that `floor` and `below` may
//! look at two or more leaves when entries next to the answer are being removed: they then return an entry that was
//! the answer for each leaf at the moment it was read. Scans hand out, in order and once, every key that is present
//! throughout. Every operation pins an epoch (about 6 ns); a [`Pinned`] handle pins once for many.
//!
//! Limits: a tree never becomes lower, only empty nodes are given back, and their memory serves other maps of the
//! process rather than the system.

mod leaf_index;
mod map;
mod node;
#[cfg_attr(shuttle, path = "pool_model.rs")]
mod pool;
mod reclaim;
mod search;
mod tree;

pub use leaf_index::LeafIndex;
pub use map::Pinned;
pub use map::bytes::{ByteMap, ByteRange, ByteRangeRev};
pub use map::int::{IntMap, IntRange, IntRangeRev};
pub use node::int::IntKey;
pub use search::Lane;
pub use tree::{Broken, Stats};
