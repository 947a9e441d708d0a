//! What a [`StaticMap`] offers as the other maps do, made of its ranks.

use crate::StaticMap;
use crate::fixed::PackedLane;
use crate::node::int::IntKey;

impl<K: IntKey<Lane: PackedLane>> StaticMap<K> {
    /// All entries, upwards; `rev` gives them downwards.
    ///
    /// ```
    /// let map = foreshore_index::StaticMap::from_sorted([(1u32, 10), (2, 20)].into_iter());
    /// assert!(map.iter().eq([(1, 10), (2, 20)]));
    /// assert!(map.iter().rev().eq([(2, 20), (1, 10)]));
    /// ```
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (K, u64)> {
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
