//! Integer keys in an O2-Tree.

use super::everyday::{everyday, example, exchange, same};
use super::lanes;
use super::pinned::pinning;
use crate::node::int::IntKey;
use crate::o2::{Backward, Coupled, DumpMismatch, Forward, InnerNode, O2Stats, Optimistic, Scheme, Tree};
use crate::reclaim::Pin;
use crate::search::Lane;
use std::ops::{Bound, RangeBounds};

/// An ordered map from fixed-width keys (see [`IntKey`](crate::IntKey)) to 64-bit words, for many threads: the O2-Tree, a
/// red-black tree over linked blocks of entries, balanced lazily.
///
/// `F` is the number of entries a block holds, at least 4, and at most what fits into 6 KiB (no other compiles). `S` is how threads keep out of each other's way: by the
/// paper's locks ([`Coupled`]), or [`Optimistic`].
///
/// ```
/// use foreshore_index::O2Map;
///
/// let mut map: O2Map<u32> = O2Map::bulk_load((0..1000).map(|k| (k, 2 * u64::from(k))), 0.7);
/// assert_eq!(map.insert(7, 1), Some(14));
/// assert_eq!(map.range(5..8).collect::<Vec<_>>(), [(5, 10), (6, 12), (7, 1)]);
/// let inner = map.dump_inner();
/// map.restore_inner(&inner).unwrap();
/// assert_eq!(map.check(), Ok(()));
/// ```
pub struct O2Map<K: IntKey, const F: usize = 64, S: Scheme = Coupled> {
    tree: Tree<K::Lane, F, S>,
}

/// An [`O2Map`] whose lookups take no lock and write nothing shared, and whose updates latch only what they change.
///
/// ```
/// let map = foreshore_index::OptimisticO2Map::<u64>::from_iter([(1, 10), (2, 20)]);
/// assert_eq!((map.get(1), map.floor(9)), (Some(10), Some(20)));
/// ```
pub type OptimisticO2Map<K, const F: usize = 64> = O2Map<K, F, Optimistic>;

impl<K: IntKey, const F: usize, S: Scheme> O2Map<K, F, S> {
    /// An empty map. As [`IntMap::new`](crate::IntMap::new).
    ///
    /// ```
    /// use foreshore_index::O2Map;
    ///
    /// let map: O2Map<i32> = O2Map::new();
    /// assert!(map.is_empty());
    /// let small = O2Map::<i32, 16>::new(); // nodes of 16 keys
    /// assert_eq!(small.range(..).next(), None);
    /// ```
    pub fn new() -> Self {
        Self { tree: Tree::new() }
    }

    /// A map of these entries, whose keys rise strictly; blocks are filled to about `fill` (0.1 ..= 1).
    ///
    /// Panics if keys do not rise, or on another `fill`.
    ///
    /// As [`IntMap::bulk_load`](crate::IntMap::bulk_load).
    ///
    /// ```
    /// use foreshore_index::O2Map;
    ///
    /// let map = O2Map::<u64>::bulk_load((0..1000).map(|k| (k, 2 * k)), 0.9);
    /// assert_eq!((map.len(), map.get(7)), (1000, Some(14)));
    /// let copy = O2Map::<u64>::bulk_load(&map, 1.0); // a map that will hardly change
    /// assert_eq!(copy.len(), 1000);
    /// ```
    pub fn bulk_load(entries: impl IntoIterator<Item = (K, u64)>, fill: f64) -> Self {
        let entries = entries.into_iter().map(|(key, value)| (key.to_lane(), value));
        Self { tree: Tree::bulk_load(entries, fill) }
    }

    /// The entries with keys in `bounds`, upwards. The iterator pins: see [`Pinned`](crate::Pinned).
    /// As [`IntMap::range`](crate::IntMap::range).
    ///
    /// ```
    /// use foreshore_index::O2Map;
    ///
    /// let map: O2Map<i64> = (-3..=3i64).map(|k| (k, k.unsigned_abs())).collect();
    /// assert!(map.range(-1..2).eq([(-1, 1), (0, 0), (1, 1)]));
    /// assert_eq!(map.range(..).count(), 7);
    /// assert_eq!(map.range(2..1).next(), None, "no panic, as there is nothing between");
    /// ```
    pub fn range(&self, bounds: impl RangeBounds<K>) -> O2Range<'_, K, F, S> {
        O2Range(Forward::new(&self.tree, lanes(bounds)))
    }

    /// The entries with keys in `bounds`, downwards. The iterator pins: see [`Pinned`](crate::Pinned).
    /// As [`IntMap::range_rev`](crate::IntMap::range_rev).
    ///
    /// ```
    /// use foreshore_index::O2Map;
    ///
    /// let map: O2Map<u32> = (0..10).map(|k| (k, u64::from(k))).collect();
    /// assert!(map.range_rev(..3).map(|(key, _)| key).eq([2, 1, 0]));
    /// ```
    pub fn range_rev(&self, bounds: impl RangeBounds<K>) -> O2RangeRev<'_, K, F, S> {
        O2RangeRev(Backward::new(&self.tree, lanes(bounds)))
    }

    /// Memory in bytes. As [`IntMap::bytes`](crate::IntMap::bytes).
    ///
    /// ```
    /// use foreshore_index::O2Map;
    ///
    /// let map: O2Map<u64> = (0..100_000).map(|k| (k, k)).collect();
    /// assert!(map.bytes() / map.len() >= 16, "a key and its value at least");
    /// ```
    pub fn bytes(&self) -> u64 {
        self.tree.bytes()
    }

    /// Empties the problem queue: afterwards the inner tree is a red-black tree, until the next update. Updates do this
    /// by themselves, but may leave a problem to each other.
    ///
    /// ```
    /// let map: foreshore_index::O2Map<u32> = (0..10_000).map(|k| (k, 0)).collect();
    /// map.rebalance();
    /// let stats = map.stats();
    /// assert!(stats.height <= 2 * stats.blocks.ilog2() as u64 + 2, "as in a red-black tree");
    /// ```
    pub fn rebalance(&self) {
        self.tree.settle(&Pin::new());
    }

    /// The inner tree in post-order, after balancing it. What is needed to have it back as it is, without its blocks.
    ///
    /// Source: the paper's dump of the inner nodes at checkpoints.
    ///
    /// ```
    /// use foreshore_index::{InnerNode, O2Map};
    ///
    /// let mut map: O2Map<u32, 4> = (0..6).map(|k| (k, 0)).collect();
    /// let dump = map.dump_inner();
    /// assert_eq!(dump[..2], [InnerNode::Block; 2]);
    /// assert_eq!(dump[2], InnerNode::Inner { key: 4, red: false });
    /// ```
    pub fn dump_inner(&mut self) -> Vec<InnerNode<K>> {
        let key = |node| match node {
            InnerNode::Block => InnerNode::Block,
            InnerNode::Inner { key, red } => InnerNode::Inner { key: K::from_lane(key), red },
        };
        self.tree.dump().into_iter().map(key).collect()
    }

    /// Replaces the inner tree by a dumped one.
    ///
    /// Errors: the dump was not made of these blocks, or is no red-black tree; then nothing is changed.
    ///
    /// ```
    /// use foreshore_index::O2Map;
    ///
    /// let mut map: O2Map<u32> = (0..1000).map(|k| (k, 0)).collect();
    /// let dump = map.dump_inner();
    /// assert_eq!(map.restore_inner(&dump), Ok(()));
    /// // The dump of another map does not fit the blocks of this one.
    /// let mut other: O2Map<u32> = (0..500).map(|k| (k, 0)).collect();
    /// assert!(other.restore_inner(&dump).is_err());
    /// assert_eq!(other.get(7), Some(0), "nothing was changed");
    /// ```
    pub fn restore_inner(&mut self, dump: &[InnerNode<K>]) -> Result<(), DumpMismatch> {
        let lane = |node: &InnerNode<K>| match *node {
            InnerNode::Block => InnerNode::Block,
            InnerNode::Inner { key, red } => InnerNode::Inner { key: key.to_lane(), red },
        };
        self.tree.restore(&dump.iter().map(lane).collect::<Vec<_>>())
    }

    /// Builds the inner tree anew from the lowest keys of the leaf blocks, as low as it can be.
    ///
    /// Source: the paper's recovery.
    ///
    /// ```
    /// let mut map: foreshore_index::O2Map<u32> = (0..1000).map(|k| (k, 0)).collect();
    /// let before = map.stats().height;
    /// map.rebuild_inner();
    /// assert!(map.stats().height <= before);
    /// assert_eq!(map.check(), Ok(()));
    /// ```
    pub fn rebuild_inner(&mut self) {
        self.tree.rebuild();
    }

    /// Counts of events and nodes. Walks the inner tree: call it while no other thread changes the map. See [`O2Stats`].
    pub fn stats(&self) -> O2Stats {
        self.tree.stats()
    }
}

pinning! {
    impl[K: IntKey, const F: usize, S: Scheme] O2Map<K, F, S>, tree: tree, key: K,
    |tree, key, pin| {
        get: tree.get(key.to_lane(), pin),
        insert(value): tree.insert(key.to_lane(), value, pin),
        remove: tree.remove(key.to_lane(), pin),
        floor: tree.floor(key.to_lane(), pin),
        below: tree.floor(key.to_lane().before()?, pin),
        compare_exchange(expected, new): exchange!(tree, key.to_lane(), expected, new, pin),
    },
    example: ["O2Map::<u64>::new()", "10", "20", "30"]
}

everyday! {
    impl[K: IntKey, const F: usize, S: Scheme] O2Map<K, F, S>,
    key: K, owned: K, as_key: same,
    behind last: [(Bound::Excluded(*last), Bound::Unbounded)],
    ranges: O2Range, O2RangeRev [K, F, S],
    from: [] K, as same,
    example: ["O2Map::<u64>::new()", "10", "20", "30"]
}

/// Entries of an [`O2Map`], upwards: every key present throughout is there once.
/// Made by [`O2Map::range`]. It pins, and so stays in its thread.
///
/// ```
/// let map = foreshore_index::O2Map::<u32>::from_iter([(1, 10), (3, 30)]);
/// let mut range = map.range(..);
/// assert_eq!(range.next(), Some((1, 10)));
/// map.insert(2, 20); // ahead of the iterator: it may come, or not
/// assert_eq!(range.last(), Some((3, 30)));
/// ```
pub struct O2Range<'m, K: IntKey, const F: usize = 64, S: Scheme = Coupled>(Forward<'m, K::Lane, F, S>);

impl<K: IntKey, const F: usize, S: Scheme> Iterator for O2Range<'_, K, F, S> {
    type Item = (K, u64);

    #[inline]
    fn next(&mut self) -> Option<(K, u64)> {
        self.0.next().map(|(lane, value)| (K::from_lane(lane), value))
    }
}

/// Entries of an [`O2Map`], downwards: every key present throughout is there once.
/// Made by [`O2Map::range_rev`]. It pins, and so stays in its thread.
///
/// ```
/// let map = foreshore_index::O2Map::<u32>::from_iter([(1, 10), (2, 20), (3, 30)]);
/// let newest: Vec<_> = map.range_rev(..).take(2).collect();
/// assert_eq!(newest, [(3, 30), (2, 20)]);
/// ```
pub struct O2RangeRev<'m, K: IntKey, const F: usize = 64, S: Scheme = Coupled>(Backward<'m, K::Lane, F, S>);

impl<K: IntKey, const F: usize, S: Scheme> Iterator for O2RangeRev<'_, K, F, S> {
    type Item = (K, u64);

    #[inline]
    fn next(&mut self) -> Option<(K, u64)> {
        self.0.next().map(|(lane, value)| (K::from_lane(lane), value))
    }
}
