//! Integer keys in a CSB+-tree.

use super::everyday::{everyday, example, exchange, same};
use super::pinned::pinning;
use crate::csb::{Backward, Csb, CsbStats, Forward};
use crate::node::int::IntKey;
use std::ops::{Bound, RangeBounds};

/// An ordered map from fixed-width keys (see [`IntKey`]) to 64-bit words, for many threads: as
/// [`IntMap`](crate::IntMap), in a CSB+-tree.
///
/// Its inner nodes have one pointer for all of their children, which makes them half as large as those of a plain B+-tree,
/// and no smaller than an [`IntMap`](crate::IntMap)'s, whose separators are shortened; a split copies its right
/// siblings, so inserts cost more. `F` (4 to 256) is the number of keys a node holds, and of nodes a group holds; groups
/// are allocated whole, so small maps are better off with a small `F`.
///
/// ```
/// use foreshore_index::CsbMap;
///
/// let map: CsbMap<u64> = CsbMap::bulk_load((0..1000).map(|k| (10 * k, k)), 0.7);
/// assert_eq!(map.insert(15, 77), None);
/// assert_eq!((map.get(15), map.floor(19), map.below(15)), (Some(77), Some(77), Some(1)));
/// assert!(map.range(10..=20).eq([(10, 1), (15, 77), (20, 2)]));
/// assert_eq!(map.range_rev(..).next(), Some((9990, 999)));
/// assert_eq!(map.pin().remove(15), Some(77));
/// assert_eq!((map.len(), map.check()), (1000, Ok(())));
/// assert!(map.stats().groups_per_level.iter().sum::<u64>() > 0 && map.bytes() > 0);
/// ```
pub struct CsbMap<K: IntKey, const F: usize = 64> {
    tree: Csb<K, F>,
}

impl<K: IntKey, const F: usize> CsbMap<K, F> {
    /// An empty map. As [`IntMap::new`](crate::IntMap::new).
    ///
    /// ```
    /// use foreshore_index::CsbMap;
    ///
    /// let map: CsbMap<i32> = CsbMap::new();
    /// assert!(map.is_empty());
    /// let small = CsbMap::<i32, 16>::new(); // nodes of 16 keys
    /// assert_eq!(small.range(..).next(), None);
    /// ```
    pub fn new() -> Self {
        Self { tree: Csb::new() }
    }

    /// A map of these entries, whose keys rise strictly; leaves and groups are filled to about `fill` (0.1 ..= 1).
    ///
    /// Panics if keys do not rise, or on another `fill`.
    ///
    /// As [`IntMap::bulk_load`](crate::IntMap::bulk_load).
    ///
    /// ```
    /// use foreshore_index::CsbMap;
    ///
    /// let map = CsbMap::<u64>::bulk_load((0..1000).map(|k| (k, 2 * k)), 0.9);
    /// assert_eq!((map.len(), map.get(7)), (1000, Some(14)));
    /// let copy = CsbMap::<u64>::bulk_load(&map, 1.0); // a map that will hardly change
    /// assert_eq!(copy.len(), 1000);
    /// ```
    pub fn bulk_load(entries: impl IntoIterator<Item = (K, u64)>, fill: f64) -> Self {
        Self { tree: Csb::bulk_load(entries.into_iter(), fill) }
    }

    /// The entries with keys in `bounds`, upwards. The iterator pins: see [`Pinned`](crate::Pinned).
    /// As [`IntMap::range`](crate::IntMap::range).
    ///
    /// ```
    /// use foreshore_index::CsbMap;
    ///
    /// let map: CsbMap<i64> = (-3..=3i64).map(|k| (k, k.unsigned_abs())).collect();
    /// assert!(map.range(-1..2).eq([(-1, 1), (0, 0), (1, 1)]));
    /// assert_eq!(map.range(..).count(), 7);
    /// assert_eq!(map.range(2..1).next(), None, "no panic, as there is nothing between");
    /// ```
    pub fn range(&self, bounds: impl RangeBounds<K>) -> CsbRange<'_, K, F> {
        CsbRange(Forward::new(&self.tree, &bounds))
    }

    /// The entries with keys in `bounds`, downwards. The iterator pins: see [`Pinned`](crate::Pinned).
    /// As [`IntMap::range_rev`](crate::IntMap::range_rev).
    ///
    /// ```
    /// use foreshore_index::CsbMap;
    ///
    /// let map: CsbMap<u32> = (0..10).map(|k| (k, u64::from(k))).collect();
    /// assert!(map.range_rev(..3).map(|(key, _)| key).eq([2, 1, 0]));
    /// ```
    pub fn range_rev(&self, bounds: impl RangeBounds<K>) -> CsbRangeRev<'_, K, F> {
        CsbRangeRev(Backward::new(&self.tree, &bounds))
    }

    /// Memory in bytes: whole groups, whatever is used of them.
    /// As [`IntMap::bytes`](crate::IntMap::bytes).
    ///
    /// ```
    /// use foreshore_index::CsbMap;
    ///
    /// let map: CsbMap<u64> = (0..100_000).map(|k| (k, k)).collect();
    /// assert!(map.bytes() / map.len() >= 16, "a key and its value at least");
    /// ```
    pub fn bytes(&self) -> u64 {
        self.tree.bytes()
    }

    /// Counts of events and nodes. Walks the groups. As [`IntMap::stats`](crate::IntMap::stats).
    ///
    /// ```
    /// use foreshore_index::CsbMap;
    ///
    /// let map: CsbMap<u64> = (0..10_000).map(|k| (k, k)).collect();
    /// let stats = map.stats();
    /// assert!(stats.groups_per_level.len() > 1, "more than leaves: {stats:?}");
    /// ```
    pub fn stats(&self) -> CsbStats {
        self.tree.stats()
    }
}

pinning! {
    impl[K: IntKey, const F: usize] CsbMap<K, F>, tree: tree, key: K,
    |tree, key, pin| {
        get: tree.get(key, pin),
        insert(value): tree.insert(key, value, pin),
        remove: tree.remove(key, pin),
        floor: tree.floor(key, pin),
        below: tree.below(key, pin),
        compare_exchange(expected, new): exchange!(tree, key, expected, new, pin),
    },
    example: ["CsbMap::<u64>::new()", "10", "20", "30"]
}

everyday! {
    impl[K: IntKey, const F: usize] CsbMap<K, F>,
    key: K, owned: K, as_key: same,
    behind last: [(Bound::Excluded(*last), Bound::Unbounded)],
    ranges: CsbRange, CsbRangeRev [K, F],
    from: [] K, as same,
    example: ["CsbMap::<u64>::new()", "10", "20", "30"]
}

/// Entries of a [`CsbMap`], upwards: every key present throughout is there once.
/// Made by [`CsbMap::range`]. It pins, and so stays in its thread.
///
/// ```
/// let map = foreshore_index::CsbMap::<u32>::from_iter([(1, 10), (3, 30)]);
/// let mut range = map.range(..);
/// assert_eq!(range.next(), Some((1, 10)));
/// map.insert(2, 20); // ahead of the iterator: it may come, or not
/// assert_eq!(range.last(), Some((3, 30)));
/// ```
pub struct CsbRange<'m, K: IntKey, const F: usize = 64>(Forward<'m, K, F>);

impl<K: IntKey, const F: usize> Iterator for CsbRange<'_, K, F> {
    type Item = (K, u64);

    #[inline]
    fn next(&mut self) -> Option<(K, u64)> {
        self.0.next()
    }
}

/// Entries of a [`CsbMap`], downwards: every key present throughout is there once.
/// Made by [`CsbMap::range_rev`]. It pins, and so stays in its thread.
///
/// ```
/// let map = foreshore_index::CsbMap::<u32>::from_iter([(1, 10), (2, 20), (3, 30)]);
/// let newest: Vec<_> = map.range_rev(..).take(2).collect();
/// assert_eq!(newest, [(3, 30), (2, 20)]);
/// ```
pub struct CsbRangeRev<'m, K: IntKey, const F: usize = 64>(Backward<'m, K, F>);

impl<K: IntKey, const F: usize> Iterator for CsbRangeRev<'_, K, F> {
    type Item = (K, u64);

    #[inline]
    fn next(&mut self) -> Option<(K, u64)> {
        self.0.next()
    }
}
