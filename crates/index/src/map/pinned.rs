//! The operations on one key that a map hands on to its tree, written once: with an epoch pinned for many of them, or for
//! each.

use crate::reclaim::Pin;

/// A map with an epoch pinned, for many operations in a row: `get`, `insert`, `remove`, `floor` and `below`. All others are the
/// map's own. A [`TunedMap`](crate::TunedMap) has no such handle.
///
/// Keep it for a batch, not for ever: while it lives, memory that anybody unlinks is not reused. That is the nodes' memory: it protects
/// nothing that your values stand for.
///
/// It stays in the thread that made it.
///
/// ```
/// let map = foreshore_index::CsbMap::<u64>::from_iter([(1, 10), (2, 20)]);
/// let pinned = map.pin();
/// let sum: u64 = (1..=2).filter_map(|key| pinned.get(key)).sum();
/// assert_eq!(sum, 30);
/// drop(pinned); // what was unlinked may be used again
/// ```
#[derive(Debug)]
pub struct Pinned<'m, M> {
    pub(super) map: &'m M,
    pub(super) pin: Pin,
}

/// The methods of a pinned map, each what its tree makes of a key under a pin; and those of the map that are the same whatever its
/// tree is.
macro_rules! pinned {
    (
        impl[$($generics:tt)*] $map:ident<$($args:ident),*>, tree: $field:ident, key: $key:ty,
        |$tree:ident, $k:ident, $pin:ident| {
            get: $get:expr,
            insert($value:ident): $insert:expr,
            remove: $remove:expr,
            floor: $floor:expr,
            below: $below:expr,
            $(#[$exchange_more:meta])*
            compare_exchange($expected:ident, $new:ident): $exchange:expr,
        },
        example: $example:tt
    ) => {
        impl<$($generics)*> Default for $map<$($args),*> {
            fn default() -> Self {
                Self::new()
            }
        }

        impl<$($generics)*> std::fmt::Debug for $map<$($args),*> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($map)).field("len", &self.len()).finish_non_exhaustive()
            }
        }

        impl<$($generics)*> $map<$($args),*> {
            /// A handle that pins once for many operations.
            ///
            #[doc = example!($example, "map.insert(a, 1);" "let pinned = map.pin();"
                "assert_eq!(pinned.insert(b, 2), None);"
                "assert_eq!((pinned.get(a), pinned.get(b)), (Some(1), Some(2)));")]
            #[inline]
            pub fn pin(&self) -> $crate::Pinned<'_, Self> {
                $crate::Pinned { map: self, pin: $crate::reclaim::Pin::new() }
            }

            /// Gives `key` the value `new` (`None`: removes it) if its value is `expected` (`None`: if it is absent). One step:
            /// nobody sees or changes anything in between.
            ///
            $(#[$exchange_more])*
            /// Errors: the value that it has instead; nothing was changed.
            ///
            #[doc = example!($example, "assert_eq!(map.compare_exchange(a, None, Some(1)), Ok(()));"
                "assert_eq!(map.compare_exchange(a, Some(9), Some(2)), Err(Some(1)));"
                "assert_eq!(map.compare_exchange(a, Some(1), None), Ok(()));"
                "assert_eq!(map.get(a), None);")]
            pub fn compare_exchange(
                &self,
                $k: $key,
                $expected: Option<u64>,
                $new: Option<u64>,
            ) -> Result<(), Option<u64>> {
                let ($tree, $pin) = (&self.$field, &$crate::reclaim::Pin::new());
                $exchange
            }

            /// The number of entries. Exact while nobody changes the map.
            ///
            #[doc = example!($example, "map.insert(a, 1);" "map.insert(b, 2);" "assert_eq!(map.len(), 2);")]
            pub fn len(&self) -> u64 {
                self.$field.len()
            }

            /// Walks the structure and names the first invariant found broken. Call it while no other thread changes the map.
            ///
            #[doc = example!($example, "map.insert(a, 1);" "assert_eq!(map.check(), Ok(()));")]
            pub fn check(&self) -> Result<(), $crate::Broken> {
                self.$field.check()
            }
        }

        #[doc = concat!("As the methods of [`", stringify!($map), "`], without pinning each time.")]
        impl<$($generics)*> $crate::Pinned<'_, $map<$($args),*>> {
            #[doc = concat!("See [`", stringify!($map), "::get`].")]
            #[inline]
            pub fn get(&self, $k: $key) -> Option<u64> {
                let ($tree, $pin) = (&self.map.$field, &self.pin);
                $get
            }

            #[doc = concat!("See [`", stringify!($map), "::insert`].")]
            #[inline]
            pub fn insert(&self, $k: $key, $value: u64) -> Option<u64> {
                let ($tree, $pin) = (&self.map.$field, &self.pin);
                $insert
            }

            #[doc = concat!("See [`", stringify!($map), "::remove`].")]
            #[inline]
            pub fn remove(&self, $k: $key) -> Option<u64> {
                let ($tree, $pin) = (&self.map.$field, &self.pin);
                $remove
            }

            #[doc = concat!("See [`", stringify!($map), "::floor`].")]
            #[inline]
            pub fn floor(&self, $k: $key) -> Option<u64> {
                let ($tree, $pin) = (&self.map.$field, &self.pin);
                $floor
            }

            #[doc = concat!("See [`", stringify!($map), "::below`].")]
            #[inline]
            pub fn below(&self, $k: $key) -> Option<u64> {
                let ($tree, $pin) = (&self.map.$field, &self.pin);
                $below
            }
        }
    };
}

/// `pinned`, and the same methods of the map itself, which pins for each.
macro_rules! pinning {
    (
        impl[$($generics:tt)*] $map:ident<$($args:ident),*>, tree: $field:ident, key: $key:ty,
        |$tree:ident, $k:ident, $pin:ident| {
            $(#[$get_more:meta])*
            get: $get:expr,
            $(#[$insert_more:meta])*
            insert($value:ident): $insert:expr,
            remove: $remove:expr,
            $(#[$floor_more:meta])*
            floor: $floor:expr,
            below: $below:expr,
            $($exchange:tt)*
        },
        example: $example:tt
    ) => {
        $crate::map::pinned::pinned! {
            impl[$($generics)*] $map<$($args),*>, tree: $field, key: $key,
            |$tree, $k, $pin| {
                get: $get,
                insert($value): $insert,
                remove: $remove,
                floor: $floor,
                below: $below,
                $($exchange)*
            },
            example: $example
        }

        impl<$($generics)*> $map<$($args),*> {
            /// The value of `key`. Linearizable.
            ///
            $(#[$get_more])*
            #[doc = example!($example, "map.insert(a, 1);"
                "assert_eq!((map.get(a), map.get(b)), (Some(1), None));")]
            #[inline]
            pub fn get(&self, $k: $key) -> Option<u64> {
                let ($tree, $pin) = (&self.$field, &$crate::reclaim::Pin::new());
                $get
            }

            /// Sets the value of `key`; returns the old one. Linearizable.
            ///
            $(#[$insert_more])*
            #[doc = example!($example, "assert_eq!(map.insert(a, 1), None);"
                "assert_eq!(map.insert(a, 2), Some(1));")]
            #[inline]
            pub fn insert(&self, $k: $key, $value: u64) -> Option<u64> {
                let ($tree, $pin) = (&self.$field, &$crate::reclaim::Pin::new());
                $insert
            }

            /// Removes `key`; returns its value. Linearizable.
            ///
            #[doc = example!($example, "map.insert(a, 1);" "assert_eq!(map.remove(a), Some(1));"
                "assert_eq!(map.remove(a), None);")]
            #[inline]
            pub fn remove(&self, $k: $key) -> Option<u64> {
                let ($tree, $pin) = (&self.$field, &$crate::reclaim::Pin::new());
                $remove
            }

            /// The value of the greatest entry with a key at most `key`. See the crate's guarantees.
            ///
            $(#[$floor_more])*
            #[doc = example!($example, "map.insert(a, 1);" "map.insert(c, 3);"
                "assert_eq!([map.floor(a), map.floor(b), map.floor(c)], [Some(1), Some(1), Some(3)]);")]
            #[inline]
            pub fn floor(&self, $k: $key) -> Option<u64> {
                let ($tree, $pin) = (&self.$field, &$crate::reclaim::Pin::new());
                $floor
            }

            /// The value of the greatest entry with a key below `key`. See the crate's guarantees.
            ///
            #[doc = example!($example, "map.insert(a, 1);" "map.insert(c, 3);"
                "assert_eq!([map.below(a), map.below(b), map.below(c)], [None, Some(1), Some(1)]);")]
            #[inline]
            pub fn below(&self, $k: $key) -> Option<u64> {
                let ($tree, $pin) = (&self.$field, &$crate::reclaim::Pin::new());
                $below
            }
        }
    };
}

pub(super) use {pinned, pinning};
