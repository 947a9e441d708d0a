//! Integer keys.

use super::everyday::{everyday, example, same};
use super::lanes;
use super::pinned::pinned;
use crate::node::Bias;
use crate::node::int::{IntKey, IntNode};
use crate::reclaim::Pin;
use crate::tree::{Backward, Forward, Stats, Tree};
use std::ops::{Bound, RangeBounds};

/// An ordered map from keys of fixed width ([`IntKey`]) to 64-bit words, for many threads.
///
/// `F` is the number of keys a node holds, a power of two from 4 on, and at most what fits into 6 KiB (no other
/// compiles); the default suits 64-byte cache lines and large maps.
///
/// ```
/// use foreshore_index::IntMap;
///
/// let stock: IntMap<u64> = IntMap::new();
/// stock.insert(428, 10);
/// std::thread::scope(|s| {
///     for _ in 0..2 {
///         s.spawn(|| stock.fetch_update(428, |left| left.map(|n| n - 1)));
///     }
/// });
/// assert_eq!(stock.get(428), Some(8));
/// ```
pub struct IntMap<K: IntKey, const F: usize = 64> {
    tree: Tree<IntNode<K::Lane, F>>,
}

impl<K: IntKey, const F: usize> IntMap<K, F> {
    /// An empty map.
    ///
    /// ```
    /// use foreshore_index::IntMap;
    ///
    /// let map: IntMap<i32> = IntMap::new();
    /// assert!(map.is_empty());
    /// let small = IntMap::<i32, 16>::new(); // nodes of 16 keys
    /// assert_eq!(small.range(..).next(), None);
    /// ```
    pub fn new() -> Self {
        Self { tree: Tree::new() }
    }

    /// A map of these entries, whose keys rise strictly; nodes are filled to about `fill` (0.1 ..= 1).
    ///
    /// Panics if keys do not rise, or on another `fill`.
    ///
    /// ```
    /// use foreshore_index::IntMap;
    ///
    /// let map = IntMap::<u64>::bulk_load((0..1000).map(|k| (k, 2 * k)), 0.9);
    /// assert_eq!((map.len(), map.get(7)), (1000, Some(14)));
    /// let copy = IntMap::<u64>::bulk_load(&map, 1.0); // a map that will hardly change
    /// assert_eq!(copy.len(), 1000);
    /// ```
    pub fn bulk_load(entries: impl IntoIterator<Item = (K, u64)>, fill: f64) -> Self {
        let entries = entries.into_iter().map(|(key, value)| (key.to_lane(), value));
        Self { tree: Tree::bulk_load(entries, fill) }
    }

    /// The value of `key`. Linearizable; writes nothing shared.
    ///
    /// ```
    /// use foreshore_index::IntMap;
    ///
    /// let map = IntMap::<u64>::from_iter([(1, 10)]);
    /// assert_eq!((map.get(1), map.get(2)), (Some(10), None));
    /// ```
    #[inline]
    pub fn get(&self, key: K) -> Option<u64> {
        self.tree.get_unpinned(&key.to_lane())
    }

    /// Sets the value of `key`; returns the old one. Linearizable.
    ///
    /// ```
    /// use foreshore_index::IntMap;
    ///
    /// let map = IntMap::<u64>::new();
    /// assert_eq!(map.insert(1, 10), None);
    /// assert_eq!(map.insert(1, 11), Some(10));
    /// ```
    #[inline]
    pub fn insert(&self, key: K, value: u64) -> Option<u64> {
        self.tree.insert_unpinned(&key.to_lane(), value)
    }

    /// Removes `key`; returns its value. Linearizable.
    ///
    /// ```
    /// use foreshore_index::IntMap;
    ///
    /// let map = IntMap::<u64>::from_iter([(1, 10)]);
    /// assert_eq!(map.remove(1), Some(10));
    /// assert_eq!(map.remove(1), None);
    /// ```
    #[inline]
    pub fn remove(&self, key: K) -> Option<u64> {
        self.tree.remove_unpinned(&key.to_lane())
    }

    /// Looks many keys up at a time, several times as fast as one after the other: `values[i]` is that of `keys[i]`.
    /// Each is looked up by itself; together they are no snapshot. Batches of 64 and more gain most.
    ///
    /// ```
    /// let map = foreshore_index::IntMap::<u64>::new();
    /// map.insert_many(&[(10, 1), (30, 3), (20, 2)]);
    /// let mut values = [None; 3];
    /// map.multi_get(&[30, 31, 10], &mut values);
    /// assert_eq!(values, [Some(3), None, Some(1)]);
    /// ```
    ///
    /// Panics if there are not as many values as keys.
    pub fn multi_get(&self, keys: &[K], values: &mut [Option<u64>]) {
        assert_eq!(keys.len(), values.len(), "a value for each key");
        self.tree.get_many(keys, |key| key.to_lane(), values, &Pin::new());
    }

    /// Sets the values of many keys, in this order but with several descents at a time; returns how many keys were new.
    /// Each is inserted by itself; others may see some of them before the rest.
    ///
    /// ```
    /// use foreshore_index::IntMap;
    ///
    /// let map = IntMap::<u64>::from_iter([(1, 10)]);
    /// assert_eq!(map.insert_many(&[(3, 30), (1, 11), (2, 20)]), 2, "1 was there");
    /// assert_eq!(map.get(1), Some(11));
    /// ```
    pub fn insert_many(&self, entries: &[(K, u64)]) -> u64 {
        self.tree.insert_many(entries, |key| key.to_lane(), &Pin::new())
    }

    /// As [`insert_many`](Self::insert_many), for keys that never fall: one descent and one latch serve all neighbours
    /// that share a node.
    ///
    /// Panics if keys fall.
    ///
    /// ```
    /// use foreshore_index::IntMap;
    ///
    /// let map = IntMap::<u64>::new();
    /// let day: Vec<(u64, u64)> = (0..1440).map(|minute| (minute, 0)).collect();
    /// assert_eq!(map.insert_sorted(&day), 1440);
    /// ```
    pub fn insert_sorted(&self, entries: &[(K, u64)]) -> u64 {
        // Asked beforehand: nothing is latched or pinned while a user's own kind of key tells its image.
        let entries: Vec<_> = entries.iter().map(|(key, value)| (key.to_lane(), *value)).collect();
        assert!(entries.is_sorted_by_key(|(lane, _)| *lane), "insert_sorted wants keys that never fall");
        self.tree.insert_sorted(&entries, &Pin::new())
    }

    /// The value of the greatest entry with a key at most `key`. See the crate's guarantees.
    ///
    /// ```
    /// use foreshore_index::IntMap;
    ///
    /// let map = IntMap::<u64>::from_iter([(10, 1), (20, 2)]);
    /// assert_eq!([map.floor(9), map.floor(10), map.floor(19)], [None, Some(1), Some(1)]);
    /// assert_eq!(map.range_rev(..=19).next(), Some((10, 1)), "the key too");
    /// ```
    #[inline]
    pub fn floor(&self, key: K) -> Option<u64> {
        self.tree.greatest_unpinned(&key.to_lane(), Bias::AtMost)
    }

    /// The value of the greatest entry with a key below `key`. See the crate's guarantees.
    ///
    /// ```
    /// use foreshore_index::IntMap;
    ///
    /// let map = IntMap::<u64>::from_iter([(10, 1), (20, 2)]);
    /// assert_eq!([map.below(10), map.below(20), map.below(21)], [None, Some(1), Some(2)]);
    /// ```
    #[inline]
    pub fn below(&self, key: K) -> Option<u64> {
        self.tree.greatest_unpinned(&key.to_lane(), Bias::Below)
    }

    /// The entries with keys in `bounds`, upwards. The iterator pins: see [`Pinned`](crate::Pinned).
    ///
    /// ```
    /// use foreshore_index::IntMap;
    ///
    /// let map: IntMap<i64> = (-3..=3i64).map(|k| (k, k.unsigned_abs())).collect();
    /// assert!(map.range(-1..2).eq([(-1, 1), (0, 0), (1, 1)]));
    /// assert_eq!(map.range(..).count(), 7);
    /// assert_eq!(map.range(2..1).next(), None, "no panic, as there is nothing between");
    /// ```
    pub fn range(&self, bounds: impl RangeBounds<K>) -> IntRange<'_, K, F> {
        IntRange(Forward::new(&self.tree, lanes(bounds)))
    }

    /// The entries with keys in `bounds`, downwards. The iterator pins: see [`Pinned`](crate::Pinned).
    ///
    /// ```
    /// use foreshore_index::IntMap;
    ///
    /// let map: IntMap<u32> = (0..10).map(|k| (k, u64::from(k))).collect();
    /// assert!(map.range_rev(..3).map(|(key, _)| key).eq([2, 1, 0]));
    /// ```
    pub fn range_rev(&self, bounds: impl RangeBounds<K>) -> IntRangeRev<'_, K, F> {
        IntRangeRev(Backward::new(&self.tree, lanes(bounds)))
    }

    /// Visits up to `limit` entries with keys from `from` on, upwards; returns how many there were. Faster than
    /// [`range`](Self::range) with `take`, for it reads no more than these.
    ///
    /// As an iterator it visits, in order and once, every key that is present throughout. Nothing is latched or pinned while `visit`
    /// runs: it may take its time, use the map, and panic.
    ///
    /// ```
    /// use foreshore_index::IntMap;
    ///
    /// let map: IntMap<u64> = (0..1000).map(|k| (k * 10, k)).collect();
    /// let mut sum = 0;
    /// assert_eq!(map.scan(15, 3, |_, value| sum += value), 3);
    /// assert_eq!(sum, 2 + 3 + 4);
    /// assert_eq!(map.scan(9980, 100, |key, _| assert!(key >= 9980)), 2, "the last ones");
    /// ```
    #[inline]
    pub fn scan(&self, from: K, limit: usize, mut visit: impl FnMut(K, u64)) -> usize {
        self.tree.scan(from.to_lane(), limit, |lane, value| visit(K::from_lane(lane), value))
    }

    /// Memory in bytes.
    ///
    /// ```
    /// use foreshore_index::IntMap;
    ///
    /// let map: IntMap<u64> = (0..100_000).map(|k| (k, k)).collect();
    /// assert!((16..32).contains(&(map.bytes() / map.len())), "bytes a key");
    /// ```
    pub fn bytes(&self) -> u64 {
        self.tree.bytes()
    }

    /// Counts of events and nodes. Walks the nodes.
    ///
    /// ```
    /// use foreshore_index::IntMap;
    ///
    /// let map: IntMap<u64> = (0..1000).map(|k| (k, k)).collect();
    /// let stats = map.stats();
    /// assert!(stats.splits > 0);
    /// assert_eq!(stats.nodes_per_level.last(), Some(&1), "one root");
    /// ```
    pub fn stats(&self) -> Stats {
        self.tree.stats()
    }
}

pinned! {
    impl[K: IntKey, const F: usize] IntMap<K, F>, tree: tree, key: K,
    |tree, key, pin| {
        get: tree.get(&key.to_lane(), pin),
        insert(value): tree.insert(&key.to_lane(), value, pin),
        remove: tree.remove(&key.to_lane(), pin),
        floor: tree.greatest(&key.to_lane(), Bias::AtMost, pin),
        below: tree.greatest(&key.to_lane(), Bias::Below, pin),
        compare_exchange(expected, new): tree.compare_exchange(&key.to_lane(), expected, new, pin),
    },
    example: ["IntMap::<u64>::new()", "10", "20", "30"]
}

everyday! {
    impl[K: IntKey, const F: usize] IntMap<K, F>,
    key: K, owned: K, as_key: same,
    behind last: [(Bound::Excluded(*last), Bound::Unbounded)],
    ranges: IntRange, IntRangeRev [K, F],
    from: [] K, as same,
    example: ["IntMap::<u64>::new()", "10", "20", "30"]
}

/// Entries of an [`IntMap`], upwards: every key present throughout is there once.
/// Made by [`IntMap::range`]. It pins, and so stays in its thread.
///
/// ```
/// let map = foreshore_index::IntMap::<u32>::from_iter([(1, 10), (3, 30)]);
/// let mut range = map.range(..);
/// assert_eq!(range.next(), Some((1, 10)));
/// map.insert(2, 20); // ahead of the iterator: it may come, or not
/// assert_eq!(range.last(), Some((3, 30)));
/// ```
pub struct IntRange<'m, K: IntKey, const F: usize = 64>(Forward<'m, IntNode<K::Lane, F>>);

impl<K: IntKey, const F: usize> Iterator for IntRange<'_, K, F> {
    type Item = (K, u64);

    #[inline]
    fn next(&mut self) -> Option<(K, u64)> {
        self.0.next().map(|(lane, value)| (K::from_lane(*lane), value))
    }
}

/// Entries of an [`IntMap`], downwards: every key present throughout is there once.
/// Made by [`IntMap::range_rev`]. It pins, and so stays in its thread.
///
/// ```
/// let map = foreshore_index::IntMap::<u32>::from_iter([(1, 10), (2, 20), (3, 30)]);
/// let newest: Vec<_> = map.range_rev(..).take(2).collect();
/// assert_eq!(newest, [(3, 30), (2, 20)]);
/// ```
pub struct IntRangeRev<'m, K: IntKey, const F: usize = 64>(Backward<'m, IntNode<K::Lane, F>>);

impl<K: IntKey, const F: usize> Iterator for IntRangeRev<'_, K, F> {
    type Item = (K, u64);

    #[inline]
    fn next(&mut self) -> Option<(K, u64)> {
        self.0.next().map(|(lane, value)| (K::from_lane(*lane), value))
    }
}
