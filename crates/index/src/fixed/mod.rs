//! The static index: sorted keys that never change, packed into lines, level by level.
//!
//! Why: without updates a tree needs no pointers, no counts, no free space and no versions. A node is one cache line of
//! keys, its children's places follow from its own by arithmetic, and one vector comparison searches it.
//! Source: S+-trees (Slotin, "Static B-trees", Algorithms for Modern Hardware), successors of the CSS-tree (Rao and Ross,
//! VLDB 1999); batches after the multicore study (§5.2): the misses of many lookups overlap.
//!
//! ```text
//! layer 2            [s s s …]                         B keys, B + 1 children
//! layer 1      [s s …] [s s …] [s s …]                 child c of node b is node b × (B + 1) + c of the layer below
//! layer 0      [k k …] [k k …] [k k …] …               all keys, B a line; a place here is a rank
//! values        v v …   v v …   v v …                  by rank
//! ```
//!
//! B is 16 for 4-byte keys and 8 for 8-byte keys.
//!
//! Invariants:
//! - F1: layer 0 holds all keys, rising strictly; what is left of its last line holds the greatest image.
//! - F2: separator `i` of a node is the least key below child `i + 1`, or the greatest image if there is no such child.
//! - F3: a descent counts separators at most at the key as separators *below the next image*, of which there is none
//!   above the greatest. So padding is never counted, and a descent stays within its layers.

mod line;
mod memory;
mod query;

pub use line::PackedLane;

use crate::map::fixed::StaticRange;
use crate::node::int::IntKey;
use crate::search::Lane;
use line::Isa;
use memory::HugeSlice;
use std::ops::{Bound, Range, RangeBounds};

/// One layer of lines.
#[derive(Clone, Copy, Debug)]
struct Layer {
    /// Which line of the index is its first.
    offset: usize,
    /// Its lines.
    lines: usize,
}

/// An ordered map from integers to 64-bit words that is built once and then only read, from any number of threads.
///
/// ```
/// use foreshore_index::StaticMap;
///
/// let map = StaticMap::from_sorted((0..1000u32).map(|k| (k * 10, u64::from(k))));
/// assert_eq!(map.get(70), Some(7));
/// assert_eq!(map.lower_bound(71), 8);
/// let mut values = [None; 3];
/// map.multi_get(&[10, 11, 9990], &mut values);
/// assert_eq!(values, [Some(1), None, Some(999)]);
/// ```
pub struct StaticMap<K: IntKey>
where
    K::Lane: PackedLane,
{
    /// All layers, the keys themselves first.
    keys: HugeSlice<K::Lane>,
    values: HugeSlice<u64>,
    len: usize,
    layers: Vec<Layer>,
    isa: Isa,
}

impl<K: IntKey> std::fmt::Debug for StaticMap<K>
where
    K::Lane: PackedLane,
{
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StaticMap").field("len", &self.len).field("layers", &self.layers.len()).finish()
    }
}

/// The layers over `len` keys, `per_line` to a line: always layer 0, then as many as it takes to get to one line.
fn layers_over(len: usize, per_line: usize) -> Vec<Layer> {
    let mut layers = vec![Layer { offset: 0, lines: len.div_ceil(per_line).max(1) }];
    let mut below = layers[0];
    while below.lines > 1 {
        let offset = below.offset + below.lines;
        below = Layer { offset, lines: below.lines.div_ceil(per_line + 1) };
        layers.push(below);
    }
    layers
}

impl<K: IntKey> StaticMap<K>
where
    K::Lane: PackedLane,
{
    const PER_LINE: usize = <K::Lane as Lane>::PER_LINE;

    /// A map of these entries.
    ///
    /// Panics if keys do not rise strictly, if the iterator is not as long as it says, or if the system has no memory.
    ///
    /// ```
    /// use foreshore_index::StaticMap;
    ///
    /// let entries = vec![(10u64, 1), (20, 2)];
    /// let map = StaticMap::from_sorted(entries.into_iter());
    /// assert_eq!((map.len(), map.get(20)), (2, Some(2)));
    /// ```
    ///
    /// What does not know its length, such as another map's entries or a range of `u64`, is collected first:
    ///
    /// ```
    /// use foreshore_index::{IntMap, StaticMap};
    ///
    /// let growing: IntMap<u64> = (0..1000).map(|key| (key * 10, key)).collect();
    /// let entries: Vec<_> = growing.iter().collect();
    /// let map = StaticMap::from_sorted(entries.into_iter());
    /// assert_eq!(map.get(70), Some(7));
    /// ```
    pub fn from_sorted(entries: impl ExactSizeIterator<Item = (K, u64)>) -> Self {
        let len = entries.len();
        // An entry takes less than 64 bytes in all layers and the values together: so no size below overflows.
        assert!(len <= isize::MAX as usize / 64, "memory for an index of {len} entries");
        let layers = layers_over(len, Self::PER_LINE);
        let top = layers.last().expect("there is layer 0");
        let mut keys = HugeSlice::<K::Lane>::zeroed((top.offset + top.lines) * Self::PER_LINE);
        let mut values = HugeSlice::zeroed(len);
        let mut count = 0;
        for (key, value) in entries {
            let lane = key.to_lane();
            assert!(count == 0 || keys[count - 1] < lane, "a static index wants strictly rising keys");
            keys[count] = lane;
            values[count] = value;
            count += 1;
        }
        assert_eq!(count, len, "the iterator is as long as it says");
        let padded = layers[0].lines * Self::PER_LINE;
        keys[len..padded].fill(K::Lane::MAX);
        let mut map = Self { keys, values, len, layers, isa: Isa::best() };
        map.fill_separators();
        map
    }

    /// Writes the layers above the keys (F2).
    fn fill_separators(&mut self) {
        // Lines of layer 0 below a child of the layer being filled.
        let mut below_child = 1;
        for i in 1..self.layers.len() {
            let layer = self.layers[i];
            for line in 0..layer.lines {
                for slot in 0..Self::PER_LINE {
                    let child = line * (Self::PER_LINE + 1) + slot + 1;
                    let least = child * below_child * Self::PER_LINE;
                    let separator = if least < self.len { self.keys[least] } else { K::Lane::MAX };
                    self.keys[(layer.offset + line) * Self::PER_LINE + slot] = separator;
                }
            }
            below_child *= Self::PER_LINE + 1;
        }
    }

    /// The number of entries with a key below `key`: the rank of `key`, or of the next key above it.
    ///
    /// ```
    /// use foreshore_index::StaticMap;
    ///
    /// let map = StaticMap::from_sorted([(10u32, 1), (20, 2), (30, 3)].into_iter());
    /// assert_eq!([map.lower_bound(10), map.lower_bound(11), map.lower_bound(99)], [0, 1, 3]);
    /// assert_eq!(map.entry(map.lower_bound(11)), Some((20, 2)), "the next one");
    /// ```
    #[inline]
    pub fn lower_bound(&self, key: K) -> usize {
        self.lower_bound_of(key.to_lane())
    }

    #[inline]
    fn lower_bound_of(&self, lane: K::Lane) -> usize {
        self.rank(lane, |_| ())
    }

    /// The value of `key`.
    ///
    /// ```
    /// use foreshore_index::StaticMap;
    ///
    /// let map = StaticMap::from_sorted([(10u32, 1), (20, 2), (30, 3)].into_iter());
    /// assert_eq!((map.get(20), map.get(21)), (Some(2), None));
    /// ```
    #[inline]
    pub fn get(&self, key: K) -> Option<u64> {
        let lane = key.to_lane();
        // The values of a line of keys are asked for together with it, not one miss later.
        let rank = self.rank(lane, |least| self.values.prefetch(least, Self::PER_LINE));
        self.holds(rank, lane).then(|| self.values[rank])
    }

    /// As [`StaticMap::lower_bound`], for many keys: their cache misses overlap.
    ///
    /// Panics if `keys` and `ranks` differ in length.
    ///
    /// ```
    /// use foreshore_index::StaticMap;
    ///
    /// let map = StaticMap::from_sorted([(10u32, 1), (20, 2), (30, 3)].into_iter());
    /// let mut ranks = [0; 2];
    /// map.multi_lower_bound(&[30, 15], &mut ranks);
    /// assert_eq!(ranks, [2, 1]);
    /// ```
    pub fn multi_lower_bound(&self, keys: &[K], ranks: &mut [usize]) {
        assert_eq!(keys.len(), ranks.len(), "as many ranks as keys");
        self.batches(keys, ranks, |_| (), |_, ranks, out| out.copy_from_slice(ranks));
    }

    /// As [`StaticMap::get`], for many keys: their cache misses overlap.
    ///
    /// Panics if `keys` and `values` differ in length.
    ///
    /// ```
    /// use foreshore_index::StaticMap;
    ///
    /// let map = StaticMap::from_sorted([(10u32, 1), (20, 2), (30, 3)].into_iter());
    /// let mut values = [None; 2];
    /// map.multi_get(&[30, 15], &mut values);
    /// assert_eq!(values, [Some(3), None]);
    /// ```
    pub fn multi_get(&self, keys: &[K], values: &mut [Option<u64>]) {
        assert_eq!(keys.len(), values.len(), "as many values as keys");
        let ask = |rank| self.values.prefetch(rank, 1);
        self.batches(keys, values, ask, |lanes, ranks, out| {
            for ((lane, &rank), out) in lanes.iter().zip(ranks).zip(out) {
                *out = self.holds(rank, *lane).then(|| self.values[rank]);
            }
        });
    }

    /// Is this the key of that rank?
    #[inline(always)]
    fn holds(&self, rank: usize, lane: K::Lane) -> bool {
        rank < self.len && self.keys[rank] == lane
    }

    /// The key of a rank.
    ///
    /// ```
    /// use foreshore_index::StaticMap;
    ///
    /// let map = StaticMap::from_sorted([(10u32, 1), (20, 2), (30, 3)].into_iter());
    /// assert_eq!((map.key(1), map.key(3)), (Some(20), None));
    /// ```
    #[inline]
    pub fn key(&self, rank: usize) -> Option<K> {
        (rank < self.len).then(|| K::from_lane(self.keys[rank]))
    }

    /// The entry of a rank.
    ///
    /// ```
    /// use foreshore_index::StaticMap;
    ///
    /// let map = StaticMap::from_sorted([(10u32, 1), (20, 2), (30, 3)].into_iter());
    /// assert_eq!((map.entry(1), map.entry(3)), (Some((20, 2)), None));
    /// ```
    pub fn entry(&self, rank: usize) -> Option<(K, u64)> {
        (rank < self.len).then(|| (K::from_lane(self.keys[rank]), self.values[rank]))
    }

    /// The entries with keys in `bounds`, upwards; `rev` gives them downwards.
    ///
    /// ```
    /// use foreshore_index::StaticMap;
    ///
    /// let map = StaticMap::from_sorted([(10u32, 1), (20, 2), (30, 3)].into_iter());
    /// assert!(map.range(15..=30).eq([(20, 2), (30, 3)]));
    /// assert_eq!(map.range(..30).next_back(), Some((20, 2)));
    /// ```
    pub fn range(&self, bounds: impl RangeBounds<K>) -> StaticRange<'_, K> {
        let ranks = self.ranks_in(bounds);
        StaticRange { entries: self.keys[ranks.clone()].iter().zip(&self.values[ranks]) }
    }

    fn ranks_in(&self, bounds: impl RangeBounds<K>) -> Range<usize> {
        let above = |lane: K::Lane| lane.after().map_or(self.len, |after| self.lower_bound_of(after));
        let start = match bounds.start_bound() {
            Bound::Included(key) => self.lower_bound(*key),
            Bound::Excluded(key) => above(key.to_lane()),
            Bound::Unbounded => 0,
        };
        let end = match bounds.end_bound() {
            Bound::Included(key) => above(key.to_lane()),
            Bound::Excluded(key) => self.lower_bound(*key),
            Bound::Unbounded => self.len,
        };
        start..end.max(start)
    }

    /// The number of entries.
    ///
    /// ```
    /// use foreshore_index::StaticMap;
    ///
    /// let map = StaticMap::from_sorted([(10u32, 1), (20, 2), (30, 3)].into_iter());
    /// assert_eq!(map.len(), 3);
    /// ```
    pub fn len(&self) -> usize {
        self.len
    }

    /// Is the map empty?
    /// See [`len`](Self::len).
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Memory in bytes.
    ///
    /// ```
    /// use foreshore_index::StaticMap;
    ///
    /// let map = StaticMap::from_sorted([(10u32, 1), (20, 2), (30, 3)].into_iter());
    /// assert!(map.bytes() >= 3 * (4 + 8));
    /// ```
    pub fn bytes(&self) -> u64 {
        (size_of_val::<[K::Lane]>(&self.keys) + size_of_val::<[u64]>(&self.values)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn agree<K: IntKey<Lane: PackedLane>>(model: &BTreeMap<K, u64>, probes: &[K]) {
        let mut map = StaticMap::from_sorted(model.iter().map(|(k, v)| (*k, *v)));
        let probes: Vec<K> = probes.iter().chain(model.keys()).copied().collect();
        let ranks: Vec<usize> = probes.iter().map(|key| model.range(..*key).count()).collect();
        let values: Vec<Option<u64>> = probes.iter().map(|key| model.get(key).copied()).collect();
        for isa in Isa::available() {
            map.isa = isa;
            for ((key, rank), value) in probes.iter().zip(&ranks).zip(&values) {
                assert_eq!((map.lower_bound(*key), map.get(*key)), (*rank, *value), "{isa:?} {key:?}");
            }
            let mut found = vec![usize::MAX; probes.len()];
            map.multi_lower_bound(&probes, &mut found);
            assert_eq!(found, ranks, "{isa:?}");
            let mut found = vec![Some(u64::MAX); probes.len()];
            map.multi_get(&probes, &mut found);
            assert_eq!(found, values, "{isa:?}");
        }
        assert!(map.range(..).eq(model.iter().map(|(k, v)| (*k, *v))));
        assert!(map.range(..).rev().eq(model.iter().rev().map(|(k, v)| (*k, *v))));
        for pair in probes.windows(2).take(100).filter(|pair| pair[0] < pair[1]) {
            let (from, to) = (pair[0], pair[1]);
            let expected = |bounds| model.range::<K, (Bound<K>, Bound<K>)>(bounds).map(|(k, v)| (*k, *v));
            for bounds in
                [(Bound::Included(from), Bound::Excluded(to)), (Bound::Excluded(from), Bound::Included(to))]
            {
                assert!(map.range(bounds).eq(expected(bounds)), "{bounds:?}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// Every query agrees with `BTreeMap`, for keys present and absent, at both ends, with every instruction set.
        #[test]
        fn queries_agree(
            narrow in proptest::collection::btree_map(prop_oneof![0u32..5000, any::<u32>(), Just(u32::MAX)], any::<u64>(), 0..900),
            wide in proptest::collection::btree_map(prop_oneof![0u64..5000, any::<u64>(), Just(u64::MAX)], any::<u64>(), 0..900),
            signed in proptest::collection::btree_map(prop_oneof![-500i64..500, any::<i64>()], any::<u64>(), 0..200),
            probes in proptest::collection::vec(prop_oneof![0u64..5000, any::<u64>(), Just(u64::MAX), Just(0)], 0..200),
        ) {
            agree(&narrow, &probes.iter().map(|k| *k as u32).collect::<Vec<_>>());
            agree(&wide, &probes);
            agree(&signed, &probes.iter().map(|k| *k as i64).collect::<Vec<_>>());
        }
    }

    /// Sizes around full lines and full layers.
    #[test]
    fn sizes_around_layers() {
        let agrees = |map: &dyn Fn(u32) -> (usize, Option<u64>), len: u32| {
            for key in (0..=2 * len + 1).step_by(if len > 300 { 37 } else { 1 }) {
                let value = (key % 2 == 1 && key < 2 * len).then(|| u64::from(key / 2));
                assert_eq!(map(key), (key as usize / 2, value), "{key} of {len}");
            }
        };
        for len in [0, 1, 15, 16, 17, 271, 272, 273, 16 * 17 * 17 - 1, 16 * 17 * 17, 16 * 17 * 17 + 1] {
            let map = StaticMap::from_sorted((0..len).map(|k| (k * 2 + 1, u64::from(k))));
            agrees(&|key| (map.lower_bound(key), map.get(key)), len);
        }
        for len in (1..6).map(|layers| 8 * 9u32.pow(layers)).flat_map(|full| [full, full + 1]) {
            let map = StaticMap::from_sorted((0..len).map(|k| (u64::from(k) * 2 + 1, u64::from(k))));
            agrees(&|key| (map.lower_bound(key.into()), map.get(key.into())), len);
        }
    }

    /// A full map up to the greatest key, where padding and keys look alike.
    #[test]
    fn the_greatest_key_is_found() {
        for len in [1u32, 16, 17, 272, 273] {
            let map = StaticMap::from_sorted((0..len).map(|k| (u32::MAX - (len - 1) + k, u64::from(k))));
            assert_eq!(map.get(u32::MAX), Some(u64::from(len) - 1), "{len}");
            assert_eq!(map.lower_bound(u32::MAX), len as usize - 1, "{len}");
        }
        let without = StaticMap::from_sorted((0..20u32).map(|k| (k, 1)));
        assert_eq!((without.get(u32::MAX), without.lower_bound(u32::MAX)), (None, 20));
    }

    /// All numbers there are: so many that their bytes, counted in a word, are few again.
    #[test]
    #[should_panic(expected = "memory for an index")]
    fn more_entries_than_fit_memory_are_refused() {
        StaticMap::from_sorted((0..usize::MAX).map(|key| (key as u64, 0)));
    }

    #[test]
    #[should_panic(expected = "strictly rising")]
    fn equal_keys_are_refused() {
        StaticMap::from_sorted([(1u32, 0), (1, 0)].into_iter());
    }
}
