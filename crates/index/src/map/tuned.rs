//! Integer keys in nodes whose size is chosen when the map is made.
//!
//! The tree is compiled once for each size, and each operation or batch chooses once which one it calls: a jump that the
//! processor predicts, and nothing inside.

use super::everyday::{everyday, example, same};
use crate::broken::Broken;
use crate::calibrate::{Favour, NodeKeys, Profile};
use crate::map::int::{IntMap, IntRange, IntRangeRev};
use crate::node::int::IntKey;
use crate::tree::Stats;
use std::ops::{Bound, RangeBounds};
use std::sync::OnceLock;

/// An [`IntMap`] whose node size is chosen at creation, by a [`Profile`] of the machine and by what the map is for.
///
/// Its operations are those of [`IntMap`]; it has no `pin`, which those hardly need.
///
/// ```
/// use foreshore_index::{NodeKeys, TunedMap};
///
/// let map: TunedMap<u64> = TunedMap::default(); // by the processor's caches
/// map.insert_many(&[(1, 10), (2, 20)]);
/// assert_eq!((map.get(2), map.floor(9)), (Some(20), Some(20)));
/// let small: TunedMap<u64> = TunedMap::with_node_keys(NodeKeys::K16);
/// assert_eq!(small.node_keys().get(), 16);
/// ```
pub struct TunedMap<K: IntKey> {
    map: AnySize<K>,
}

/// The sizes that the tree is compiled for.
enum AnySize<K: IntKey> {
    K16(IntMap<K, 16>),
    K32(IntMap<K, 32>),
    K64(IntMap<K, 64>),
    K128(IntMap<K, 128>),
}

/// `$body`, with the map of whichever size as `$map`.
macro_rules! of_any_size {
    ($tuned:expr, $map:ident => $body:expr) => {
        match &$tuned.map {
            AnySize::K16($map) => $body,
            AnySize::K32($map) => $body,
            AnySize::K64($map) => $body,
            AnySize::K128($map) => $body,
        }
    };
}

/// Methods that are those of [`IntMap`].
macro_rules! forward {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(
            #[doc = concat!("See [`IntMap::", stringify!($name), "`].")]
            $(#[$meta])*
            pub fn $name(&self, $($arg: $type),*) $(-> $result)? {
                of_any_size!(self, map => map.$name($($arg),*))
            }
        )*
    };
}

impl<K: IntKey> Default for TunedMap<K> {
    /// A map for everything alike, by this machine's caches.
    fn default() -> Self {
        // The system's files tell it, which take their time to read: once.
        static THIS_MACHINE: OnceLock<Profile> = OnceLock::new();
        Self::tuned(THIS_MACHINE.get_or_init(Profile::default), Favour::default())
    }
}

impl<K: IntKey> std::fmt::Debug for TunedMap<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("TunedMap");
        debug.field("node_keys", &self.node_keys().get()).field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<K: IntKey> TunedMap<K> {
    /// An empty map with the node size that the profile chooses.
    ///
    /// ```
    /// use foreshore_index::{Favour, Profile, TunedMap};
    ///
    /// let profile = Profile::load("foreshore-tune.toml").unwrap_or_default();
    /// let map: TunedMap<u64> = TunedMap::tuned(&profile, Favour::Inserts);
    /// assert_eq!(map.node_keys(), profile.node_keys(8, Favour::Inserts));
    /// ```
    pub fn tuned(profile: &Profile, favour: Favour) -> Self {
        // By what a node holds: a narrow key's image is that of a wider one.
        Self::with_node_keys(profile.node_keys(size_of::<K::Lane>(), favour))
    }

    /// An empty map with nodes of this size.
    ///
    /// ```
    /// use foreshore_index::{NodeKeys, TunedMap};
    ///
    /// let map: TunedMap<u128> = TunedMap::with_node_keys(NodeKeys::K32);
    /// assert_eq!(map.node_keys(), NodeKeys::K32);
    /// ```
    pub fn with_node_keys(size: NodeKeys) -> Self {
        let map = match size {
            NodeKeys::K16 => AnySize::K16(IntMap::new()),
            NodeKeys::K32 => AnySize::K32(IntMap::new()),
            NodeKeys::K64 => AnySize::K64(IntMap::new()),
            NodeKeys::K128 => AnySize::K128(IntMap::new()),
        };
        Self { map }
    }

    /// A map of these entries with nodes of this size: see [`IntMap::bulk_load`].
    ///
    /// Panics if keys do not rise, or `fill` is not in 0.1 ..= 1.
    ///
    /// ```
    /// use foreshore_index::{NodeKeys, TunedMap};
    ///
    /// let map = TunedMap::<u64>::bulk_load(NodeKeys::K128, (0..1000).map(|k| (k, k)), 1.0);
    /// assert_eq!(map.len(), 1000);
    /// ```
    pub fn bulk_load(size: NodeKeys, entries: impl IntoIterator<Item = (K, u64)>, fill: f64) -> Self {
        let map = match size {
            NodeKeys::K16 => AnySize::K16(IntMap::bulk_load(entries, fill)),
            NodeKeys::K32 => AnySize::K32(IntMap::bulk_load(entries, fill)),
            NodeKeys::K64 => AnySize::K64(IntMap::bulk_load(entries, fill)),
            NodeKeys::K128 => AnySize::K128(IntMap::bulk_load(entries, fill)),
        };
        Self { map }
    }

    /// Keys in a node. See [`with_node_keys`](Self::with_node_keys).
    pub fn node_keys(&self) -> NodeKeys {
        match self.map {
            AnySize::K16(_) => NodeKeys::K16,
            AnySize::K32(_) => NodeKeys::K32,
            AnySize::K64(_) => NodeKeys::K64,
            AnySize::K128(_) => NodeKeys::K128,
        }
    }

    forward! {
        #[inline]
        fn get(key: K) -> Option<u64>;
        fn multi_get(keys: &[K], values: &mut [Option<u64>]);
        #[inline]
        fn insert(key: K, value: u64) -> Option<u64>;
        fn insert_many(entries: &[(K, u64)]) -> u64;
        fn insert_sorted(entries: &[(K, u64)]) -> u64;
        #[inline]
        fn remove(key: K) -> Option<u64>;
        fn compare_exchange(key: K, expected: Option<u64>, new: Option<u64>) -> Result<(), Option<u64>>;
        fn floor(key: K) -> Option<u64>;
        fn below(key: K) -> Option<u64>;
        #[inline]
        fn scan(from: K, limit: usize, visit: impl FnMut(K, u64)) -> usize;
        fn len() -> u64;
        fn bytes() -> u64;
        fn check() -> Result<(), Broken>;
        fn stats() -> Stats;
    }

    /// See [`IntMap::range`].
    pub fn range(&self, bounds: impl RangeBounds<K>) -> TunedRange<'_, K> {
        TunedRange(match &self.map {
            AnySize::K16(map) => AnyRange::K16(map.range(bounds)),
            AnySize::K32(map) => AnyRange::K32(map.range(bounds)),
            AnySize::K64(map) => AnyRange::K64(map.range(bounds)),
            AnySize::K128(map) => AnyRange::K128(map.range(bounds)),
        })
    }

    /// See [`IntMap::range_rev`].
    pub fn range_rev(&self, bounds: impl RangeBounds<K>) -> TunedRangeRev<'_, K> {
        TunedRangeRev(match &self.map {
            AnySize::K16(map) => AnyRange::K16(map.range_rev(bounds)),
            AnySize::K32(map) => AnyRange::K32(map.range_rev(bounds)),
            AnySize::K64(map) => AnyRange::K64(map.range_rev(bounds)),
            AnySize::K128(map) => AnyRange::K128(map.range_rev(bounds)),
        })
    }
}

everyday! {
    impl[K: IntKey] TunedMap<K>,
    key: K, owned: K, as_key: same,
    behind last: [(Bound::Excluded(*last), Bound::Unbounded)],
    ranges: TunedRange, TunedRangeRev [K],
    from: [] K, as same,
    example: ["TunedMap::<u64>::default()", "10", "20", "30"]
}

/// An iterator over the map of any size.
enum AnyRange<A, B, C, D> {
    K16(A),
    K32(B),
    K64(C),
    K128(D),
}

impl<T, A, B, C, D> Iterator for AnyRange<A, B, C, D>
where
    A: Iterator<Item = T>,
    B: Iterator<Item = T>,
    C: Iterator<Item = T>,
    D: Iterator<Item = T>,
{
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        match self {
            Self::K16(range) => range.next(),
            Self::K32(range) => range.next(),
            Self::K64(range) => range.next(),
            Self::K128(range) => range.next(),
        }
    }
}

type Upwards<'m, K> =
    AnyRange<IntRange<'m, K, 16>, IntRange<'m, K, 32>, IntRange<'m, K, 64>, IntRange<'m, K, 128>>;
type Downwards<'m, K> =
    AnyRange<IntRangeRev<'m, K, 16>, IntRangeRev<'m, K, 32>, IntRangeRev<'m, K, 64>, IntRangeRev<'m, K, 128>>;

/// Entries of a [`TunedMap`], upwards: every key present throughout is there once.
/// Made by [`TunedMap::range`]. It pins, and so stays in its thread.
///
/// ```
/// let map = foreshore_index::TunedMap::<u32>::from_iter([(1, 10), (2, 20), (3, 30)]);
/// assert!(map.range(2..).eq([(2, 20), (3, 30)]));
/// ```
pub struct TunedRange<'m, K: IntKey>(Upwards<'m, K>);

impl<K: IntKey> Iterator for TunedRange<'_, K> {
    type Item = (K, u64);

    #[inline]
    fn next(&mut self) -> Option<(K, u64)> {
        self.0.next()
    }
}

/// Entries of a [`TunedMap`], downwards: every key present throughout is there once.
/// Made by [`TunedMap::range_rev`]. It pins, and so stays in its thread.
///
/// ```
/// let map = foreshore_index::TunedMap::<u32>::from_iter([(1, 10), (2, 20), (3, 30)]);
/// assert_eq!(map.range_rev(..3).next(), Some((2, 20)), "the last one below 3");
/// ```
pub struct TunedRangeRev<'m, K: IntKey>(Downwards<'m, K>);

impl<K: IntKey> Iterator for TunedRangeRev<'_, K> {
    type Item = (K, u64);

    #[inline]
    fn next(&mut self) -> Option<(K, u64)> {
        self.0.next()
    }
}
