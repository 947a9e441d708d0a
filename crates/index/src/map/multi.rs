//! Keys with many values.
//!
//! Source: OLFIT §6: a non-unique index is a unique one over key and value together. Here both are eight big-endian bytes
//! of a byte string, whose common prefix a node keeps only once.

use crate::ByteMap;
use crate::broken::Broken;
use crate::map::bytes::{ByteRange, ByteRangeRev};
use crate::map::everyday::{STRETCH, range_traits};
use crate::node::int::IntKey;
use std::ops::{Bound, RangeBounds};

const WORD: usize = size_of::<u64>();

/// Key and value, in an order-preserving form.
type Pair = [u8; 2 * WORD];

/// An ordered set of pairs of an integer key and a 64-bit word, for many threads: a key may have any number of values,
/// each once, in their order.
///
/// ```
/// use foreshore_index::MultiMap;
///
/// let flights = MultiMap::<u32>::new(); // from a day to its flights
/// assert!(flights.insert(20110101, 428) && flights.insert(20110101, 17));
/// assert!(!flights.insert(20110101, 428), "it is there already");
/// assert!(flights.values(20110101).eq([17, 428]));
/// assert_eq!(flights.range(20110101..=20110131).count(), 2);
/// assert!(flights.remove(20110101, 17));
/// ```
///
/// `insert`, `remove` and `contains` are linearizable for each pair; scans give every pair that is present throughout.
pub struct MultiMap<K: IntKey<Lane: Into<u64> + TryFrom<u64>>> {
    pairs: ByteMap,
    keys: std::marker::PhantomData<fn(K)>,
}

impl<K: IntKey<Lane: Into<u64> + TryFrom<u64>>> Default for MultiMap<K> {
    fn default() -> Self {
        Self { pairs: ByteMap::new(), keys: std::marker::PhantomData }
    }
}

impl<K: IntKey<Lane: Into<u64> + TryFrom<u64>>> std::fmt::Debug for MultiMap<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MultiMap").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<K: IntKey<Lane: Into<u64> + TryFrom<u64>>> MultiMap<K> {
    /// An empty map. As [`IntMap::new`](crate::IntMap::new).
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value to a key; was it new?
    ///
    /// ```
    /// use foreshore_index::MultiMap;
    ///
    /// let map = MultiMap::<u32>::new();
    /// assert!(map.insert(1, 10) && map.insert(1, 11));
    /// assert!(!map.insert(1, 10), "there already");
    /// ```
    pub fn insert(&self, key: K, value: u64) -> bool {
        self.pairs.insert(&pair(key, value), value).is_none()
    }

    /// Takes a value from a key; was it there?
    ///
    /// ```
    /// use foreshore_index::MultiMap;
    ///
    /// let map = MultiMap::<u32>::from_iter([(1, 10), (1, 11)]);
    /// assert!(map.remove(1, 10) && !map.remove(1, 10));
    /// assert!(map.values(1).eq([11]));
    /// ```
    pub fn remove(&self, key: K, value: u64) -> bool {
        self.pairs.remove(&pair(key, value)).is_some()
    }

    /// Has the key this value?
    ///
    /// ```
    /// use foreshore_index::MultiMap;
    ///
    /// let map = MultiMap::<u32>::from_iter([(1, 10)]);
    /// assert!(map.contains(1, 10) && !map.contains(1, 11));
    /// ```
    pub fn contains(&self, key: K, value: u64) -> bool {
        self.pairs.get(&pair(key, value)).is_some()
    }

    /// The values of a key, rising. The iterator pins: see [`Pinned`](crate::Pinned).
    ///
    /// ```
    /// use foreshore_index::MultiMap;
    ///
    /// let map = MultiMap::<u32>::from_iter([(1, 11), (1, 10), (2, 20)]);
    /// assert!(map.values(1).eq([10, 11]));
    /// assert_eq!(map.values(9).next(), None);
    /// ```
    pub fn values(&self, key: K) -> impl Iterator<Item = u64> {
        self.range(key..=key).map(|(_, value)| value)
    }

    /// Has the key any value?
    ///
    /// ```
    /// let map = foreshore_index::MultiMap::<u32>::from_iter([(1, 10)]);
    /// assert!(map.contains_key(1) && !map.contains_key(2));
    /// ```
    pub fn contains_key(&self, key: K) -> bool {
        self.values(key).next().is_some()
    }

    /// Takes from a key the values that it has, one by one; returns how many. Values that others add meanwhile may stay.
    ///
    /// ```
    /// let map = foreshore_index::MultiMap::<u32>::from_iter([(1, 10), (1, 11), (2, 20)]);
    /// assert_eq!(map.remove_all(1), 2);
    /// assert!(map.iter().eq([(2, 20)]));
    /// ```
    pub fn remove_all(&self, key: K) -> u64 {
        let (mut start, end) = pairs_in(key..=key);
        let mut removed = 0;
        loop {
            // As in `retain`: a scan pins, and the values may be many.
            let values: Vec<u64> = self.between(start, end).take(STRETCH).map(|(_, value)| value).collect();
            let Some(last) = values.last() else { return removed };
            start = Bound::Excluded(pair(key, *last));
            removed += values.iter().map(|value| u64::from(self.remove(key, *value))).sum::<u64>();
        }
    }

    /// Takes away every pair that is there throughout, one by one.
    ///
    /// ```
    /// let map = foreshore_index::MultiMap::<u32>::from_iter([(1, 10), (1, 11)]);
    /// map.clear();
    /// assert!(map.is_empty());
    /// ```
    pub fn clear(&self) {
        self.pairs.clear();
    }

    /// All pairs, by key and then by value. The iterator pins: see [`Pinned`](crate::Pinned).
    ///
    /// ```
    /// let map = foreshore_index::MultiMap::<u32>::from_iter([(2, 20), (1, 11), (1, 10)]);
    /// assert!(map.iter().eq([(1, 10), (1, 11), (2, 20)]));
    /// assert_eq!((&map).into_iter().next(), Some((1, 10)));
    /// ```
    pub fn iter(&self) -> MultiRange<'_, K> {
        self.range(..)
    }

    /// All pairs, the last one first. As [`iter`](Self::iter).
    ///
    /// ```
    /// let map = foreshore_index::MultiMap::<u32>::from_iter([(2, 20), (1, 11), (1, 10)]);
    /// assert!(map.iter_rev().eq([(2, 20), (1, 11), (1, 10)]));
    /// ```
    pub fn iter_rev(&self) -> MultiRangeRev<'_, K> {
        self.range_rev(..)
    }

    /// The pairs with keys in `bounds`, by key and then by value. The iterator pins: see [`Pinned`](crate::Pinned).
    ///
    /// ```
    /// let map = foreshore_index::MultiMap::<u32>::from_iter([(1, 10), (1, 11), (2, 20), (3, 30)]);
    /// assert!(map.range(1..3).eq([(1, 10), (1, 11), (2, 20)]));
    /// assert!(map.range(2..).eq([(2, 20), (3, 30)]));
    /// ```
    pub fn range(&self, bounds: impl RangeBounds<K>) -> MultiRange<'_, K> {
        let (start, end) = pairs_in(bounds);
        self.between(start, end)
    }

    fn between(&self, start: Bound<Pair>, end: Bound<Pair>) -> MultiRange<'_, K> {
        let pairs = self.pairs.range((start, end));
        MultiRange { pairs, keys: std::marker::PhantomData }
    }

    /// The same pairs as [`range`](Self::range), the last one first.
    ///
    /// ```
    /// let map = foreshore_index::MultiMap::<u32>::from_iter([(1, 10), (1, 11), (2, 20)]);
    /// assert_eq!(map.range_rev(..=1).next(), Some((1, 11)), "the newest, if values are times");
    /// ```
    pub fn range_rev(&self, bounds: impl RangeBounds<K>) -> MultiRangeRev<'_, K> {
        let (start, end) = pairs_in(bounds);
        let pairs = self.pairs.range_rev((start, end));
        MultiRangeRev { pairs, keys: std::marker::PhantomData }
    }

    /// The number of pairs. Exact while nobody changes the map. As [`IntMap::len`](crate::IntMap::len).
    pub fn len(&self) -> u64 {
        self.pairs.len()
    }

    /// Is the map empty?
    /// As [`IntMap::is_empty`](crate::IntMap::is_empty).
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Memory in bytes. Walks the nodes. As [`IntMap::bytes`](crate::IntMap::bytes).
    pub fn bytes(&self) -> u64 {
        self.pairs.bytes()
    }

    /// Walks the structure and names the first invariant found broken. Call it while no other thread changes the map.
    /// As [`IntMap::check`](crate::IntMap::check).
    pub fn check(&self) -> Result<(), Broken> {
        self.pairs.check()
    }
}

/// The bounds of the pairs whose keys are in `bounds`.
fn pairs_in<K: IntKey<Lane: Into<u64> + TryFrom<u64>>>(
    bounds: impl RangeBounds<K>,
) -> (Bound<Pair>, Bound<Pair>) {
    let start = match bounds.start_bound() {
        Bound::Included(key) => Bound::Included(pair(*key, 0)),
        Bound::Excluded(key) => Bound::Excluded(pair(*key, u64::MAX)),
        Bound::Unbounded => Bound::Unbounded,
    };
    let end = match bounds.end_bound() {
        Bound::Included(key) => Bound::Included(pair(*key, u64::MAX)),
        Bound::Excluded(key) => Bound::Excluded(pair(*key, 0)),
        Bound::Unbounded => Bound::Unbounded,
    };
    (start, end)
}

fn pair<K: IntKey<Lane: Into<u64> + TryFrom<u64>>>(key: K, value: u64) -> Pair {
    let key: u64 = key.to_lane().into();
    let mut pair = [0; 2 * WORD];
    pair[..WORD].copy_from_slice(&key.to_be_bytes());
    pair[WORD..].copy_from_slice(&value.to_be_bytes());
    pair
}

fn key_of<K: IntKey<Lane: Into<u64> + TryFrom<u64>>>(pair: &[u8]) -> K {
    let key = u64::from_be_bytes(*pair.first_chunk().expect("a pair is two words"));
    K::from_lane(key.try_into().ok().expect("it was a key's image"))
}

/// Pairs of a [`MultiMap`], rising: every pair present throughout is there once.
/// Made by [`MultiMap::range`]. It pins, and so stays in its thread.
///
/// ```
/// let map = foreshore_index::MultiMap::<u32>::from_iter([(1, 11), (1, 10), (2, 20)]);
/// assert!(map.range(..).eq([(1, 10), (1, 11), (2, 20)]));
/// ```
pub struct MultiRange<'m, K: IntKey<Lane: Into<u64> + TryFrom<u64>>> {
    pairs: ByteRange<'m>,
    keys: std::marker::PhantomData<fn(K)>,
}

impl<K: IntKey<Lane: Into<u64> + TryFrom<u64>>> Iterator for MultiRange<'_, K> {
    type Item = (K, u64);

    fn next(&mut self) -> Option<(K, u64)> {
        self.pairs.next_ref().map(|(pair, value)| (key_of(pair), value))
    }
}

/// Pairs of a [`MultiMap`], falling: every pair present throughout is there once.
/// Made by [`MultiMap::range_rev`]. It pins, and so stays in its thread.
///
/// ```
/// let map = foreshore_index::MultiMap::<u32>::from_iter([(1, 11), (1, 10), (2, 20)]);
/// assert_eq!(map.range_rev(..2).next(), Some((1, 11)), "the last value of the last key below 2");
/// ```
pub struct MultiRangeRev<'m, K: IntKey<Lane: Into<u64> + TryFrom<u64>>> {
    pairs: ByteRangeRev<'m>,
    keys: std::marker::PhantomData<fn(K)>,
}

impl<K: IntKey<Lane: Into<u64> + TryFrom<u64>>> Iterator for MultiRangeRev<'_, K> {
    type Item = (K, u64);

    fn next(&mut self) -> Option<(K, u64)> {
        self.pairs.next_ref().map(|(pair, value)| (key_of(pair), value))
    }
}

impl<'m, K: IntKey<Lane: Into<u64> + TryFrom<u64>>> IntoIterator for &'m MultiMap<K> {
    type Item = (K, u64);
    type IntoIter = MultiRange<'m, K>;

    fn into_iter(self) -> MultiRange<'m, K> {
        self.iter()
    }
}

impl<K: IntKey<Lane: Into<u64> + TryFrom<u64>>> Extend<(K, u64)> for MultiMap<K> {
    fn extend<I: IntoIterator<Item = (K, u64)>>(&mut self, pairs: I) {
        for (key, value) in pairs {
            self.insert(key, value);
        }
    }
}

impl<K: IntKey<Lane: Into<u64> + TryFrom<u64>>> FromIterator<(K, u64)> for MultiMap<K> {
    fn from_iter<I: IntoIterator<Item = (K, u64)>>(pairs: I) -> Self {
        let mut map = Self::new();
        map.extend(pairs);
        map
    }
}

impl<const N: usize, K: IntKey<Lane: Into<u64> + TryFrom<u64>>> From<[(K, u64); N]> for MultiMap<K> {
    fn from(pairs: [(K, u64); N]) -> Self {
        pairs.into_iter().collect()
    }
}

range_traits!([K: IntKey<Lane: Into<u64> + TryFrom<u64>>] MultiRange<'_, K>);
range_traits!([K: IntKey<Lane: Into<u64> + TryFrom<u64>>] MultiRangeRev<'_, K>);
