//! What every map offers besides what its tree does by itself, written once: steps made of `get`, `compare_exchange` and
//! scans.
//!
//! Why: users of other maps look for these names, and they mean the same for every kind of map here.
//!
//! Nothing is latched or pinned while a caller's closure runs, so it may take its time.

/// A key as it is: what a map of integers makes of an entry's key to look it up.
pub(super) fn same<K: Copy>(key: &K) -> K {
    *key
}

/// `compare_exchange` of a tree that has `insert_if` and `remove_if`, each of which tells the value that it met.
macro_rules! exchange {
    ($tree:expr, $key:expr, $expected:expr, $new:expr, $pin:expr) => {{
        let met = match $new {
            Some(new) => $tree.insert_if($key, new, |now| now == $expected, $pin),
            None => $tree.remove_if($key, |now| Some(now) == $expected, $pin),
        };
        if met == $expected { Ok(()) } else { Err(met) }
    }};
}

/// The example of a method: `map` is an empty map, and the keys `a`, `b`, `c` rise.
macro_rules! example {
    ([$new:literal, $a:literal, $b:literal, $c:literal], $($line:literal)*) => {
        concat!(
            "```\nuse foreshore_index::*;\n\nlet map = ", $new, ";\n",
            "# #[allow(unused)]\nlet (a, b, c) = (", $a, ", ", $b, ", ", $c, ");\n",
            $($line, "\n",)* "```"
        )
    };
}

/// Entries that [`retain`](crate::IntMap::retain) looks at by one scan.
pub(super) const STRETCH: usize = 64;

/// The methods and traits of one kind of map. `behind` is the argument with which `range` gives the entries behind a key.
macro_rules! everyday {
    (
        impl[$($generics:tt)*] $map:ty,
        key: $key:ty, owned: $owned:ty, as_key: $as_key:path,
        behind $last:ident: [$($behind:tt)*],
        ranges: $up:ident, $down:ident [$($args:tt)*],
        from: [$($item_generics:tt)*] $item:ty, as $item_as_key:path,
        example: $example:tt
    ) => {
        impl<$($generics)*> $map {
            /// All entries, upwards. As [`range`](Self::range): each key that is present throughout is there, in order and once.
            ///
            #[doc = example!($example, "map.insert(b, 2);" "map.insert(a, 1);"
                "assert!(map.iter().map(|(_, value)| value).eq([1, 2]));"
                "assert_eq!((&map).into_iter().count(), 2);")]
            pub fn iter(&self) -> $up<'_, $($args)*> {
                self.range(..)
            }

            /// All entries, downwards. As [`range_rev`](Self::range_rev).
            ///
            #[doc = example!($example, "map.insert(b, 2);" "map.insert(a, 1);"
                "assert!(map.iter_rev().map(|(_, value)| value).eq([2, 1]));")]
            pub fn iter_rev(&self) -> $down<'_, $($args)*> {
                self.range_rev(..)
            }

            /// Is the map empty? Exact while nobody changes it.
            ///
            #[doc = example!($example, "assert!(map.is_empty());" "map.insert(a, 1);"
                "assert!(!map.is_empty());")]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Is there an entry with `key`? Linearizable, and as fast as [`get`](Self::get).
            ///
            #[doc = example!($example, "map.insert(a, 1);"
                "assert!(map.contains_key(a) && !map.contains_key(b));")]
            pub fn contains_key(&self, key: $key) -> bool {
                self.get(key).is_some()
            }

            /// Gives `key` the value that `change` makes of its value (`None`: absent); returns the value before. Linearizable.
            ///
            /// `change` runs again if another thread changed the value meanwhile. Nothing is latched or pinned while it runs:
            /// it may take its time, use the map, and panic, which leaves the entry as it was.
            ///
            #[doc = example!($example, "let count = |n: Option<u64>| Some(n.unwrap_or(0) + 1);"
                "assert_eq!(map.fetch_update(a, count), None);"
                "assert_eq!(map.fetch_update(a, count), Some(1));"
                "assert_eq!(map.fetch_update(a, |_| None), Some(2)); // removed"
                "assert_eq!(map.get(a), None);")]
            pub fn fetch_update(
                &self,
                key: $key,
                mut change: impl FnMut(Option<u64>) -> Option<u64>,
            ) -> Option<u64> {
                let mut current = self.get(key);
                loop {
                    match self.compare_exchange(key, current, change(current)) {
                        Ok(()) => return current,
                        Err(other) => current = other,
                    }
                }
            }

            /// The value of `key`; if it is absent, that of `make`, which is inserted unless another thread inserts one first.
            /// Linearizable; `make` runs once at most, as freely as the closure of [`fetch_update`](Self::fetch_update).
            ///
            #[doc = example!($example, "assert_eq!(map.get_or_insert_with(a, || 1), 1);"
                "assert_eq!(map.get_or_insert_with(a, || unreachable!()), 1);")]
            pub fn get_or_insert_with(&self, key: $key, make: impl FnOnce() -> u64) -> u64 {
                self.get(key).unwrap_or_else(|| {
                    let value = make();
                    match self.compare_exchange(key, None, Some(value)) {
                        Ok(()) => value,
                        Err(other) => other.expect("the key was found to be there"),
                    }
                })
            }

            /// The entry with the least key. As the first one of a scan: exact while nobody changes the entries before it.
            ///
            #[doc = example!($example, "assert!(map.first_key_value().is_none());"
                "map.insert(b, 2);" "map.insert(a, 1);"
                "assert_eq!(map.first_key_value().unwrap().1, 1);")]
            pub fn first_key_value(&self) -> Option<($owned, u64)> {
                self.iter().next()
            }

            /// The entry with the greatest key. As [`first_key_value`](Self::first_key_value).
            ///
            #[doc = example!($example, "map.insert(b, 2);" "map.insert(a, 1);"
                "assert_eq!(map.last_key_value().unwrap().1, 2);")]
            pub fn last_key_value(&self) -> Option<($owned, u64)> {
                self.iter_rev().next()
            }

            /// Removes the entry with the least key and returns it. Of threads that do so at a time each gets another entry;
            /// one that is inserted below it meanwhile may be left.
            ///
            #[doc = example!($example, "map.insert(b, 2);" "map.insert(a, 1);"
                "assert_eq!(map.pop_first().unwrap().1, 1);"
                "assert_eq!(map.pop_first().unwrap().1, 2);"
                "assert!(map.pop_first().is_none());")]
            pub fn pop_first(&self) -> Option<($owned, u64)> {
                self.pop(Self::first_key_value)
            }

            /// Removes the entry with the greatest key and returns it. As [`pop_first`](Self::pop_first).
            ///
            #[doc = example!($example, "map.insert(b, 2);" "map.insert(a, 1);"
                "assert_eq!(map.pop_last().unwrap().1, 2);" "assert_eq!(map.len(), 1);")]
            pub fn pop_last(&self) -> Option<($owned, u64)> {
                self.pop(Self::last_key_value)
            }

            /// Removes the entry that `end` finds, if it is still the same then.
            fn pop(&self, end: impl Fn(&Self) -> Option<($owned, u64)>) -> Option<($owned, u64)> {
                loop {
                    let (key, value) = end(self)?;
                    if self.compare_exchange($as_key(&key), Some(value), None).is_ok() {
                        return Some((key, value));
                    }
                }
            }

            /// Removes the entries that `keep` does not want, upwards. An entry goes only with the value that `keep` saw: if
            /// another thread changed it meanwhile, `keep` is asked again. It sees the entries of a scan, and may do what the
            /// closure of [`fetch_update`](Self::fetch_update) may.
            ///
            #[doc = example!($example, "for (key, value) in [(a, 1), (b, 2), (c, 3)] {"
                "    map.insert(key, value);" "}" "map.retain(|_, value| value % 2 == 1);"
                "assert!(map.iter().map(|(_, value)| value).eq([1, 3]));")]
            pub fn retain(&self, mut keep: impl FnMut($key, u64) -> bool) {
                // A scan pins: one of all entries would keep the memory of all that are removed.
                let mut stretch: Vec<($owned, u64)> = self.iter().take($crate::map::everyday::STRETCH).collect();
                while let Some(($last, _)) = stretch.last() {
                    for (key, value) in &stretch {
                        let key = $as_key(key);
                        let mut unwanted = (!keep(key, *value)).then_some(*value);
                        while let Some(value) = unwanted {
                            let changed = self.compare_exchange(key, Some(value), None).err().flatten();
                            unwanted = changed.filter(|value| !keep(key, *value));
                        }
                    }
                    stretch = self.range($($behind)*).take($crate::map::everyday::STRETCH).collect();
                }
            }

            /// Removes every entry that is there throughout. What others insert meanwhile may stay. Entries go one by one; to
            /// forget a map that nobody else uses, drop it.
            ///
            #[doc = example!($example, "map.insert(a, 1);" "map.clear();" "assert!(map.is_empty());")]
            pub fn clear(&self) {
                self.retain(|_, _| false);
            }
        }

        impl<'m, $($generics)*> IntoIterator for &'m $map {
            type Item = ($owned, u64);
            type IntoIter = $up<'m, $($args)*>;

            fn into_iter(self) -> Self::IntoIter {
                self.iter()
            }
        }

        /// The last one of equal keys counts.
        impl<$($item_generics)* $($generics)*> Extend<($item, u64)> for $map {
            fn extend<I: IntoIterator<Item = ($item, u64)>>(&mut self, entries: I) {
                for (key, value) in entries {
                    self.insert($item_as_key(&key), value);
                }
            }
        }

        /// The last one of equal keys counts. `bulk_load` is faster, where keys rise.
        impl<$($item_generics)* $($generics)*> FromIterator<($item, u64)> for $map {
            fn from_iter<I: IntoIterator<Item = ($item, u64)>>(entries: I) -> Self {
                let mut map = Self::default();
                map.extend(entries);
                map
            }
        }

        /// The last one of equal keys counts.
        impl<const N: usize, $($item_generics)* $($generics)*> From<[($item, u64); N]> for $map {
            fn from(entries: [($item, u64); N]) -> Self {
                entries.into_iter().collect()
            }
        }

        $crate::map::everyday::range_traits!([$($generics)*] $up<'_, $($args)*>);
        $crate::map::everyday::range_traits!([$($generics)*] $down<'_, $($args)*>);
    };
}

/// What iterators of maps are besides: once at their end they stay there, and they can be printed, without their entries.
macro_rules! range_traits {
    ([$($generics:tt)*] $range:ty) => {
        impl<$($generics)*> std::iter::FusedIterator for $range {}

        impl<$($generics)*> std::fmt::Debug for $range {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(concat!(stringify!($range), " { .. }"))
            }
        }
    };
}

pub(super) use {everyday, example, exchange, range_traits};
