//! What a [`StaticMap`] offers as the other maps do, made of its ranks.

use crate::StaticMap;
use crate::fixed::PackedLane;
use crate::map::everyday::range_traits;
use crate::node::int::IntKey;
use std::iter::Zip;
use std::slice::Iter;

impl<K: IntKey<Lane: PackedLane>> StaticMap<K> {
    /// All entries, upwards; `rev` gives them downwards.
    ///
    /// ```
    /// let map = foreshore_index::StaticMap::from_sorted([(1u32, 10), (2, 20)].into_iter());
    /// assert!(map.iter().eq([(1, 10), (2, 20)]));
    /// assert!(map.iter().rev().eq([(2, 20), (1, 10)]));
    /// for (key, value) in &map {
    ///     assert_eq!(value, u64::from(key) * 10);
    /// }
    /// ```
    pub fn iter(&self) -> StaticRange<'_, K> {
        self.range(..)
    }

    /// Is there an entry with `key`?
    ///
    /// ```
    /// let map = foreshore_index::StaticMap::from_sorted([(1u32, 10)].into_iter());
    /// assert!(map.contains_key(1) && !map.contains_key(2));
    /// ```
    pub fn contains_key(&self, key: K) -> bool {
        self.get(key).is_some()
    }

    /// The value of the greatest entry with a key at most `key`.
    ///
    /// ```
    /// let map = foreshore_index::StaticMap::from_sorted([(10u32, 1), (20, 2)].into_iter());
    /// assert_eq!([map.floor(9), map.floor(10), map.floor(99)], [None, Some(1), Some(2)]);
    /// ```
    pub fn floor(&self, key: K) -> Option<u64> {
        self.range(..=key).next_back().map(|(_, value)| value)
    }

    /// The value of the greatest entry with a key below `key`.
    ///
    /// ```
    /// let map = foreshore_index::StaticMap::from_sorted([(10u32, 1), (20, 2)].into_iter());
    /// assert_eq!([map.below(10), map.below(20), map.below(99)], [None, Some(1), Some(2)]);
    /// ```
    pub fn below(&self, key: K) -> Option<u64> {
        self.range(..key).next_back().map(|(_, value)| value)
    }

    /// The entry with the least key.
    ///
    /// ```
    /// let map = foreshore_index::StaticMap::from_sorted([(1u32, 10), (2, 20)].into_iter());
    /// assert_eq!(map.first_key_value(), Some((1, 10)));
    /// assert_eq!(map.last_key_value(), Some((2, 20)));
    /// ```
    pub fn first_key_value(&self) -> Option<(K, u64)> {
        self.entry(0)
    }

    /// The entry with the greatest key: see [`first_key_value`](Self::first_key_value).
    pub fn last_key_value(&self) -> Option<(K, u64)> {
        self.entry(self.len().checked_sub(1)?)
    }
}

impl<'m, K: IntKey<Lane: PackedLane>> IntoIterator for &'m StaticMap<K> {
    type Item = (K, u64);
    type IntoIter = StaticRange<'m, K>;

    fn into_iter(self) -> StaticRange<'m, K> {
        self.iter()
    }
}

/// Entries of a [`StaticMap`] in key order, from either end.
///
/// ```
/// let map = foreshore_index::StaticMap::from_sorted([(10u32, 1), (20, 2), (30, 3)].into_iter());
/// let mut entries = map.range(20..);
/// assert_eq!(entries.len(), 2); // known without a walk
/// assert_eq!((entries.next_back(), entries.next()), (Some((30, 3)), Some((20, 2))));
/// ```
pub struct StaticRange<'m, K: IntKey> {
    pub(crate) entries: Zip<Iter<'m, K::Lane>, Iter<'m, u64>>,
}

impl<K: IntKey> StaticRange<'_, K> {
    fn entry((lane, value): (&K::Lane, &u64)) -> (K, u64) {
        (K::from_lane(*lane), *value)
    }
}

impl<K: IntKey> Iterator for StaticRange<'_, K> {
    type Item = (K, u64);

    #[inline]
    fn next(&mut self) -> Option<(K, u64)> {
        self.entries.next().map(Self::entry)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.entries.size_hint()
    }
}

impl<K: IntKey> DoubleEndedIterator for StaticRange<'_, K> {
    #[inline]
    fn next_back(&mut self) -> Option<(K, u64)> {
        self.entries.next_back().map(Self::entry)
    }
}

impl<K: IntKey> ExactSizeIterator for StaticRange<'_, K> {}

range_traits!([K: IntKey] StaticRange<'_, K>);
