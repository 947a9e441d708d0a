//! Byte-string keys in CSB+- and O2-Trees.

use super::everyday::{everyday, example, exchange};
use super::pinned::pinning;
use super::{ByteBounds, beginning};
use crate::csb::Csb;
use crate::node::Bias;
use crate::o2::{Coupled, Optimistic, Tree};
use crate::trie::layer_tree::LayerTree;
use crate::trie::slice::Slice;
use crate::trie::{Scan, Trie, TrieStats, Way};
use std::iter::Fuse;
use std::ops::Bound;

/// An ordered map from byte strings to 64-bit words, for many threads, as [`ByteMap`](crate::ByteMap), in layers of
/// another tree: [`CsbByteMap`], [`O2ByteMap`] or [`OptimisticO2ByteMap`].
///
/// A layer orders fifteen bytes of the keys. Up to `C` keys that share these lie sorted in one piece of memory, more in a
/// layer of their own. So keys of up to fifteen bytes are looked up as integers are.
///
/// Keys have 1024 bytes at most: whatever would insert a longer one panics.
///
/// ```
/// use foreshore_index::CsbByteMap;
///
/// let map: CsbByteMap = CsbByteMap::new();
/// map.insert(b"departures/BOS", 1);
/// map.insert(b"departures/SEA", 2);
/// assert_eq!(map.get(b"departures/SEA"), Some(2));
/// assert_eq!(map.floor(b"departures/PDX"), Some(1));
/// ```
pub struct TrieMap<M: LayerTree, const C: usize = 128> {
    trie: Trie<M, C>,
}

/// Byte strings in CSB+-trees whose nodes hold `F` slices, 4 to 256.
///
/// ```
/// let map: foreshore_index::CsbByteMap = [("BOS", 1), ("SEA", 2)].into_iter().collect();
/// assert!(map.iter().map(|(_, value)| value).eq([1, 2]));
/// assert_eq!((map.stats().layers, map.check()), (1, Ok(())));
/// ```
pub type CsbByteMap<const F: usize = 16, const C: usize = 128> = TrieMap<Csb<Slice, F>, C>;

/// Byte strings in O2-Trees whose leaf blocks hold `F` slices, with the paper's locks or another scheme `S`.
///
/// ```
/// let map: foreshore_index::O2ByteMap = [("BOS", 1), ("SEA", 2)].into_iter().collect();
/// assert_eq!(map.pop_last(), Some((b"SEA".to_vec(), 2)));
/// ```
pub type O2ByteMap<const F: usize = 64, S = Coupled, const C: usize = 128> = TrieMap<Tree<Slice, F, S>, C>;

/// Byte strings in O2-Trees whose lookups lock nothing.
///
/// ```
/// let map: foreshore_index::OptimisticO2ByteMap = [("BOS", 1), ("SEA", 2)].into_iter().collect();
/// assert_eq!(map.below(b"SEA"), Some(1));
/// ```
pub type OptimisticO2ByteMap<const F: usize = 64, const C: usize = 128> = O2ByteMap<F, Optimistic, C>;

impl<M: LayerTree, const C: usize> TrieMap<M, C> {
    /// An empty map. As [`ByteMap::new`](crate::ByteMap::new).
    ///
    /// ```
    /// use foreshore_index::CsbByteMap;
    ///
    /// let map: CsbByteMap = CsbByteMap::new();
    /// assert!(map.is_empty());
    /// ```
    pub fn new() -> Self {
        Self { trie: Trie::new() }
    }

    /// A map of these entries, whose keys rise strictly; nodes are filled to about `fill` (0.1 ..= 1).
    ///
    /// Panics if keys do not rise, on a key of more than 1024 bytes, or on another `fill`.
    ///
    /// As [`ByteMap::bulk_load`](crate::ByteMap::bulk_load).
    ///
    /// ```
    /// use foreshore_index::CsbByteMap;
    ///
    /// let map: CsbByteMap = CsbByteMap::bulk_load([("BOS", 1), ("SEA", 2)], 0.9);
    /// assert_eq!(map.get(b"SEA"), Some(2));
    /// ```
    pub fn bulk_load<K: AsRef<[u8]>>(entries: impl IntoIterator<Item = (K, u64)>, fill: f64) -> Self {
        Self { trie: Trie::bulk_load(entries, fill) }
    }

    /// The entries with keys in `bounds`, upwards. As [`ByteMap::range`](crate::ByteMap::range).
    ///
    /// ```
    /// use foreshore_index::CsbByteMap;
    ///
    /// let map: CsbByteMap = [("BOS", 1), ("PDX", 2), ("SEA", 3)].into_iter().collect();
    /// assert!(map.range("C"..).map(|(_, value)| value).eq([2, 3]));
    /// assert!(map.range(.."SEA").map(|(_, value)| value).eq([1, 2]));
    /// ```
    pub fn range(&self, bounds: impl ByteBounds) -> TrieRange<'_, M, C> {
        let (start, end) = bounds.slices();
        TrieRange(Scan::new(&self.trie, Way::Up, start, end).fuse())
    }

    /// The entries with keys in `bounds`, downwards.
    /// As [`ByteMap::range_rev`](crate::ByteMap::range_rev).
    ///
    /// ```
    /// use foreshore_index::CsbByteMap;
    ///
    /// let map: CsbByteMap = [("BOS", 1), ("PDX", 2), ("SEA", 3)].into_iter().collect();
    /// let last_before_s = map.range_rev(.."S").next();
    /// assert_eq!(last_before_s, Some((b"PDX".to_vec(), 2)));
    /// ```
    pub fn range_rev(&self, bounds: impl ByteBounds) -> TrieRangeRev<'_, M, C> {
        let (start, end) = bounds.slices();
        TrieRangeRev(Scan::new(&self.trie, Way::Down, end, start).fuse())
    }

    /// The entries whose keys begin with `prefix`, upwards.
    ///
    /// ```
    /// let map: foreshore_index::CsbByteMap = foreshore_index::CsbByteMap::new();
    /// for (key, value) in [("port/BOS", 1), ("port/SEA", 2), ("ports", 3)] {
    ///     map.insert(key.as_bytes(), value);
    /// }
    /// assert!(map.prefix(b"port/").map(|(_, value)| value).eq([1, 2]));
    /// ```
    pub fn prefix(&self, prefix: &[u8]) -> TrieRange<'_, M, C> {
        let (start, end) = beginning(prefix);
        self.range((start, end.as_ref().map(Vec::as_slice)))
    }

    /// Memory in bytes. Walks the layers. As [`ByteMap::bytes`](crate::ByteMap::bytes).
    ///
    /// ```
    /// use foreshore_index::CsbByteMap;
    ///
    /// let map: CsbByteMap = (0..10_000).map(|k| (format!("flight/{k:05}"), k)).collect();
    /// assert!(map.bytes() / map.len() >= 16, "what differs of a key, and its value, at least");
    /// ```
    pub fn bytes(&self) -> u64 {
        self.trie.bytes()
    }

    /// Counts of events, layers and bags. Walks the layers. As [`ByteMap::stats`](crate::ByteMap::stats).
    pub fn stats(&self) -> TrieStats {
        self.trie.stats()
    }
}

pinning! {
    impl[M: LayerTree, const C: usize] TrieMap<M, C>, tree: trie, key: &[u8],
    |trie, key, pin| {
        get: trie.get(key, pin),
        /// Panics if the key has more than 1024 bytes.
        ///
        insert(value): trie.insert(key, value, pin),
        remove: trie.remove(key, pin),
        /// While entries next to the answer come and go it may be one that was the answer a moment ago, part by part.
        ///
        floor: trie.greatest(key, Bias::AtMost, pin),
        below: trie.greatest(key, Bias::Below, pin),
        /// Panics if the key has more than 1024 bytes and `new` is a value.
        ///
        compare_exchange(expected, new): exchange!(trie, key, expected, new, pin),
    },
    example: ["CsbByteMap::<16>::new()", "b\"BOS\"", "b\"PDX\"", "b\"SEA\""]
}

everyday! {
    impl[M: LayerTree, const C: usize] TrieMap<M, C>,
    key: &[u8], owned: Vec<u8>, as_key: Vec::as_slice,
    behind last: [(Bound::Excluded(last), Bound::Unbounded)],
    ranges: TrieRange, TrieRangeRev [M, C],
    from: [K: AsRef<[u8]>,] K, as AsRef::as_ref,
    example: ["CsbByteMap::<16>::new()", "b\"BOS\"", "b\"PDX\"", "b\"SEA\""]
}

/// Entries of a [`TrieMap`], upwards: every key present throughout is there once.
/// Made by [`TrieMap::range`]. It pins for some dozens of entries at a time.
///
/// ```
/// let map = foreshore_index::CsbByteMap::<16>::from_iter([("BOS", 1), ("SEA", 2)]);
/// assert!(map.iter().map(|(_, value)| value).eq([1, 2]));
/// ```
pub struct TrieRange<'m, M: LayerTree, const C: usize = 128>(Fuse<Scan<'m, M, C>>);

impl<M: LayerTree, const C: usize> Iterator for TrieRange<'_, M, C> {
    type Item = (Vec<u8>, u64);

    #[inline]
    fn next(&mut self) -> Option<(Vec<u8>, u64)> {
        self.0.next()
    }
}

/// Entries of a [`TrieMap`], downwards: every key present throughout is there once.
/// Made by [`TrieMap::range_rev`]. It pins for some dozens of entries at a time.
///
/// ```
/// let map = foreshore_index::CsbByteMap::<16>::from_iter([("BOS", 1), ("SEA", 2)]);
/// assert!(map.iter_rev().map(|(_, value)| value).eq([2, 1]));
/// ```
pub struct TrieRangeRev<'m, M: LayerTree, const C: usize = 128>(Fuse<Scan<'m, M, C>>);

impl<M: LayerTree, const C: usize> Iterator for TrieRangeRev<'_, M, C> {
    type Item = (Vec<u8>, u64);

    #[inline]
    fn next(&mut self) -> Option<(Vec<u8>, u64)> {
        self.0.next()
    }
}
