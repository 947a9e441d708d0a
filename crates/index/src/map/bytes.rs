//! Byte-string keys.

use super::everyday::{everyday, example};
use super::pinned::pinning;
use super::{ByteBounds, beginning};
use crate::node::Bias;
use crate::node::bytes::BytesNode;
use crate::reclaim::Pin;
use crate::tree::{Backward, Forward, Stats, Tree};
use std::ops::Bound;

/// Adapts any bytes to the tree's key type.
struct Bytes<K>(K);

impl<K: AsRef<[u8]>> std::borrow::Borrow<[u8]> for Bytes<K> {
    fn borrow(&self) -> &[u8] {
        self.0.as_ref()
    }
}

/// An ordered map from byte strings to 64-bit words, for many threads. Keys are ordered as byte strings.
///
/// Keys may be of any length; those above 128 bytes are kept outside of the nodes. That costs a lookup a cache miss more; an iterator
/// and a split copy all such keys of a node. So of texts of megabytes better keep a hash, or a number.
/// `F` is the number of keys a node holds at most, a power of two from 4 on; `H` the words it has for the tails of keys, at least
/// 75. A node above the leaves, which has 8 bytes more for each of `F` keys, is at most 6 KiB (no other compiles).
///
/// ```
/// use foreshore_index::ByteMap;
///
/// let ports: ByteMap = ByteMap::new();
/// ports.insert(b"BOS", 1);
/// ports.insert("SEA".as_bytes(), 2);
/// assert_eq!(ports.get(b"BOS"), Some(1));
/// assert_eq!(ports.first_key_value(), Some((b"BOS".to_vec(), 1)));
/// ```
pub struct ByteMap<const F: usize = 64, const H: usize = 88> {
    tree: Tree<BytesNode<F, H>>,
}

impl<const F: usize, const H: usize> ByteMap<F, H> {
    /// An empty map.
    ///
    /// ```
    /// use foreshore_index::ByteMap;
    ///
    /// let map: ByteMap = ByteMap::new();
    /// assert!(map.is_empty());
    /// ```
    pub fn new() -> Self {
        Self { tree: Tree::new() }
    }

    /// A map of these entries, whose keys rise strictly; nodes are filled to about `fill` (0.1 ..= 1).
    ///
    /// Panics if keys do not rise, or on another `fill`.
    ///
    /// ```
    /// use foreshore_index::ByteMap;
    ///
    /// let map: ByteMap = ByteMap::bulk_load([("BOS", 1), ("SEA", 2)], 0.9);
    /// assert_eq!(map.get(b"SEA"), Some(2));
    /// ```
    pub fn bulk_load<K: AsRef<[u8]>>(entries: impl IntoIterator<Item = (K, u64)>, fill: f64) -> Self {
        Self { tree: Tree::bulk_load(entries.into_iter().map(|(key, value)| (Bytes(key), value)), fill) }
    }

    /// Looks many keys up at a time, faster than one after the other: `values[i]` is that of `keys[i]`. Each is looked
    /// up by itself; together they are no snapshot.
    ///
    /// Panics if there are not as many values as keys.
    ///
    /// ```
    /// use foreshore_index::ByteMap;
    ///
    /// let map: ByteMap = [("BOS", 1), ("SEA", 2)].into_iter().collect();
    /// let mut values = [None; 3];
    /// map.multi_get(&[b"SEA", b"PDX", b"BOS"], &mut values);
    /// assert_eq!(values, [Some(2), None, Some(1)]);
    /// ```
    pub fn multi_get(&self, keys: &[&[u8]], values: &mut [Option<u64>]) {
        assert_eq!(keys.len(), values.len(), "a value for each key");
        self.tree.get_many(keys, |key| *key, values, &Pin::new());
    }

    /// Sets the values of many keys, in this order but with several descents at a time; returns how many keys were new.
    /// Each is inserted by itself; others may see some of them before the rest.
    ///
    /// ```
    /// use foreshore_index::ByteMap;
    ///
    /// let map: ByteMap = [("BOS", 1)].into_iter().collect();
    /// assert_eq!(map.insert_many(&[(b"SEA", 2), (b"BOS", 3)]), 1, "BOS was there");
    /// ```
    pub fn insert_many(&self, entries: &[(&[u8], u64)]) -> u64 {
        self.tree.insert_many(entries, |key| *key, &Pin::new())
    }

    /// As [`insert_many`](Self::insert_many), for keys that never fall: one descent and one latch serve all neighbours
    /// that share a node.
    ///
    /// Panics if keys fall.
    ///
    /// ```
    /// use foreshore_index::ByteMap;
    ///
    /// let map: ByteMap = ByteMap::new();
    /// assert_eq!(map.insert_sorted(&[(b"BOS", 1), (b"PDX", 2), (b"SEA", 3)]), 3);
    /// ```
    pub fn insert_sorted(&self, entries: &[(&[u8], u64)]) -> u64 {
        assert!(entries.is_sorted_by_key(|(key, _)| *key), "insert_sorted wants keys that never fall");
        self.tree.insert_sorted(entries, &Pin::new())
    }

    /// The entries with keys in `bounds`, upwards. The iterator pins: see [`Pinned`](crate::Pinned).
    ///
    /// ```
    /// use foreshore_index::ByteMap;
    ///
    /// let map: ByteMap = [("BOS", 1), ("PDX", 2), ("SEA", 3)].into_iter().collect();
    /// assert!(map.range("C"..).map(|(_, value)| value).eq([2, 3]));
    /// assert!(map.range(.."SEA").map(|(_, value)| value).eq([1, 2]));
    /// ```
    pub fn range(&self, bounds: impl ByteBounds) -> ByteRange<'_, F, H> {
        let (start, end) = bounds.slices();
        ByteRange(Forward::new(&self.tree, (start.map(<[u8]>::to_vec), end.map(<[u8]>::to_vec))))
    }

    /// The entries with keys in `bounds`, downwards. The iterator pins: see [`Pinned`](crate::Pinned).
    ///
    /// ```
    /// use foreshore_index::ByteMap;
    ///
    /// let map: ByteMap = [("BOS", 1), ("PDX", 2), ("SEA", 3)].into_iter().collect();
    /// let last_before_s = map.range_rev(.."S").next();
    /// assert_eq!(last_before_s, Some((b"PDX".to_vec(), 2)));
    /// ```
    pub fn range_rev(&self, bounds: impl ByteBounds) -> ByteRangeRev<'_, F, H> {
        let (start, end) = bounds.slices();
        ByteRangeRev(Backward::new(&self.tree, (start.map(<[u8]>::to_vec), end.map(<[u8]>::to_vec))))
    }

    /// The entries whose keys begin with `prefix`, upwards. The iterator pins: see [`Pinned`](crate::Pinned).
    ///
    /// ```
    /// let map = foreshore_index::ByteMap::<64>::new();
    /// for (key, value) in [("port/BOS", 1), ("port/SEA", 2), ("ports", 3)] {
    ///     map.insert(key.as_bytes(), value);
    /// }
    /// assert!(map.prefix(b"port/").map(|(_, value)| value).eq([1, 2]));
    /// ```
    pub fn prefix(&self, prefix: &[u8]) -> ByteRange<'_, F, H> {
        let (start, end) = beginning(prefix);
        self.range((start, end.as_ref().map(Vec::as_slice)))
    }

    /// Memory in bytes. Walks the nodes, latching each for a moment, to add up long keys.
    ///
    /// ```
    /// use foreshore_index::ByteMap;
    ///
    /// let map: ByteMap = (0..10_000).map(|k| (format!("flight/{k:05}"), k)).collect();
    /// assert!(map.bytes() / map.len() < 40, "what keys share is kept once for each node");
    /// ```
    pub fn bytes(&self) -> u64 {
        self.tree.bytes()
    }

    /// Counts of events and nodes. Walks the nodes.
    ///
    /// ```
    /// use foreshore_index::ByteMap;
    ///
    /// let map: ByteMap = [("BOS", 1), ("SEA", 2)].into_iter().collect();
    /// assert_eq!(map.stats().nodes_per_level, [1], "a leaf");
    /// ```
    pub fn stats(&self) -> Stats {
        self.tree.stats()
    }
}

pinning! {
    impl[const F: usize, const H: usize] ByteMap<F, H>, tree: tree, key: &[u8],
    |tree, key, pin| {
        /// Writes nothing shared but the epoch that it pins.
        ///
        get: tree.get(key, pin),
        insert(value): tree.insert(key, value, pin),
        remove: tree.remove(key, pin),
        /// As fast as [`get`](Self::get), unless the leaf's entries up to `key` were removed.
        /// [`range_rev`](Self::range_rev) up to `key` begins with that entry, its key too.
        ///
        floor: tree.greatest(key, Bias::AtMost, pin),
        below: tree.greatest(key, Bias::Below, pin),
        compare_exchange(expected, new): tree.compare_exchange(key, expected, new, pin),
    },
    example: ["ByteMap::<64>::new()", "b\"BOS\"", "b\"PDX\"", "b\"SEA\""]
}

everyday! {
    impl[const F: usize, const H: usize] ByteMap<F, H>,
    key: &[u8], owned: Vec<u8>, as_key: Vec::as_slice,
    behind last: [(Bound::Excluded(last), Bound::Unbounded)],
    ranges: ByteRange, ByteRangeRev [F, H],
    from: [K: AsRef<[u8]>,] K, as AsRef::as_ref,
    example: ["ByteMap::<64>::new()", "b\"BOS\"", "b\"PDX\"", "b\"SEA\""]
}

/// Entries of a [`ByteMap`], upwards: every key present throughout is there once.
/// Made by [`ByteMap::range`]. It pins, and so stays in its thread.
///
/// ```
/// let map = foreshore_index::ByteMap::<64>::from_iter([("BOS", 1), ("SEA", 2)]);
/// let mut range = map.iter();
/// assert_eq!(range.next_ref(), Some((&b"BOS"[..], 1))); // nothing is allocated
/// assert_eq!(range.next(), Some((b"SEA".to_vec(), 2)));
/// ```
pub struct ByteRange<'m, const F: usize = 64, const H: usize = 88>(Forward<'m, BytesNode<F, H>>);

impl<const F: usize, const H: usize> ByteRange<'_, F, H> {
    /// The next entry, without copying its key once more.
    ///
    /// ```
    /// use foreshore_index::ByteMap;
    ///
    /// let map: ByteMap = [("BOS", 1), ("SEA", 2)].into_iter().collect();
    /// let (mut range, mut sum) = (map.iter(), 0);
    /// while let Some((key, value)) = range.next_ref() {
    ///     assert_eq!(key.len(), 3);
    ///     sum += value;
    /// }
    /// assert_eq!(sum, 3);
    /// ```
    #[inline]
    pub fn next_ref(&mut self) -> Option<(&[u8], u64)> {
        self.0.next()
    }
}

impl<const F: usize, const H: usize> Iterator for ByteRange<'_, F, H> {
    type Item = (Vec<u8>, u64);

    #[inline]
    fn next(&mut self) -> Option<(Vec<u8>, u64)> {
        self.next_ref().map(|(key, value)| (key.to_vec(), value))
    }
}

/// Entries of a [`ByteMap`], downwards: every key present throughout is there once.
/// Made by [`ByteMap::range_rev`]. It pins, and so stays in its thread.
///
/// ```
/// let map = foreshore_index::ByteMap::<64>::from_iter([("BOS", 1), ("SEA", 2)]);
/// assert!(map.iter_rev().map(|(_, value)| value).eq([2, 1]));
/// ```
pub struct ByteRangeRev<'m, const F: usize = 64, const H: usize = 88>(Backward<'m, BytesNode<F, H>>);

impl<const F: usize, const H: usize> ByteRangeRev<'_, F, H> {
    /// The next entry, without copying its key once more.
    ///
    /// ```
    /// let map = foreshore_index::ByteMap::<64>::from_iter([("port/BOS", 1), ("port/SEA", 2)]);
    /// let mut newest_first = map.iter_rev();
    /// let (key, _) = newest_first.next_ref().expect("there are two");
    /// assert!(key.ends_with(b"SEA"));
    /// ```
    #[inline]
    pub fn next_ref(&mut self) -> Option<(&[u8], u64)> {
        self.0.next()
    }
}

impl<const F: usize, const H: usize> Iterator for ByteRangeRev<'_, F, H> {
    type Item = (Vec<u8>, u64);

    #[inline]
    fn next(&mut self) -> Option<(Vec<u8>, u64)> {
        self.next_ref().map(|(key, value)| (key.to_vec(), value))
    }
}
