//! The maps as objects, so that what drives them is compiled once for each kind of key and not for each map.

use foreshore_index::{ByteMap, CsbMap, IntKey, IntMap, LayerTree, O2Map, OptimisticO2Map, TrieMap};
use std::ops::Bound;

/// What all maps can do, for owned keys.
pub trait Map<K> {
    fn insert(&self, key: &K, value: u64) -> Option<u64>;
    fn remove(&self, key: &K) -> Option<u64>;
    fn get(&self, key: &K) -> Option<u64>;
    fn floor(&self, key: &K) -> Option<u64>;
    fn below(&self, key: &K) -> Option<u64>;
    fn range(&self, from: &Bound<K>, to: &Bound<K>) -> Vec<(K, u64)>;
    fn range_rev(&self, from: &Bound<K>, to: &Bound<K>) -> Vec<(K, u64)>;
    fn compare_exchange(&self, key: &K, expected: Option<u64>, new: Option<u64>) -> Result<(), Option<u64>>;
    fn fetch_update(&self, key: &K, change: &dyn Fn(Option<u64>) -> Option<u64>) -> Option<u64>;
    fn get_or_insert_with(&self, key: &K, make: &dyn Fn() -> u64) -> u64;
    /// The first and the last entry.
    fn ends(&self) -> [Option<(K, u64)>; 2];
    fn pop_first(&self) -> Option<(K, u64)>;
    fn pop_last(&self) -> Option<(K, u64)>;
    fn retain(&self, keep: &dyn Fn(&K, u64) -> bool);
    fn len(&self) -> u64;
    fn check(&self) -> Result<(), String>;
}

/// What the maps name alike.
macro_rules! named_alike {
    ($key:ty, $as_key:path) => {
        fn insert(&self, key: &$key, value: u64) -> Option<u64> {
            self.insert($as_key(key), value)
        }
        fn remove(&self, key: &$key) -> Option<u64> {
            self.remove($as_key(key))
        }
        fn get(&self, key: &$key) -> Option<u64> {
            self.get($as_key(key))
        }
        fn floor(&self, key: &$key) -> Option<u64> {
            self.floor($as_key(key))
        }
        fn below(&self, key: &$key) -> Option<u64> {
            self.below($as_key(key))
        }
        fn compare_exchange(
            &self,
            key: &$key,
            expected: Option<u64>,
            new: Option<u64>,
        ) -> Result<(), Option<u64>> {
            self.compare_exchange($as_key(key), expected, new)
        }
        fn fetch_update(&self, key: &$key, change: &dyn Fn(Option<u64>) -> Option<u64>) -> Option<u64> {
            self.fetch_update($as_key(key), change)
        }
        fn get_or_insert_with(&self, key: &$key, make: &dyn Fn() -> u64) -> u64 {
            self.get_or_insert_with($as_key(key), make)
        }
        fn ends(&self) -> [Option<($key, u64)>; 2] {
            [self.first_key_value(), self.last_key_value()]
        }
        fn pop_first(&self) -> Option<($key, u64)> {
            self.pop_first()
        }
        fn pop_last(&self) -> Option<($key, u64)> {
            self.pop_last()
        }
        fn retain(&self, keep: &dyn Fn(&$key, u64) -> bool) {
            self.retain(|key, value| keep(&key.to_owned(), value));
        }
        fn len(&self) -> u64 {
            self.len()
        }
        fn check(&self) -> Result<(), String> {
            self.check().map_err(|e| e.to_string())
        }
    };
}

fn same<K: Copy>(key: &K) -> K {
    *key
}

macro_rules! int_map {
    ($map:ident) => {
        impl<K: IntKey, const F: usize> Map<K> for $map<K, F> {
            fn range(&self, from: &Bound<K>, to: &Bound<K>) -> Vec<(K, u64)> {
                self.range((*from, *to)).collect()
            }
            fn range_rev(&self, from: &Bound<K>, to: &Bound<K>) -> Vec<(K, u64)> {
                self.range_rev((*from, *to)).collect()
            }
            named_alike!(K, same);
        }
    };
}

int_map!(IntMap);
int_map!(CsbMap);
int_map!(O2Map);
int_map!(OptimisticO2Map);

fn slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

impl<const F: usize, const H: usize> Map<Vec<u8>> for ByteMap<F, H> {
    fn range(&self, from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> Vec<(Vec<u8>, u64)> {
        self.range((slice(from), slice(to))).collect()
    }
    fn range_rev(&self, from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> Vec<(Vec<u8>, u64)> {
        self.range_rev((slice(from), slice(to))).collect()
    }
    named_alike!(Vec<u8>, Vec::as_slice);
}

impl<M: LayerTree, const C: usize> Map<Vec<u8>> for TrieMap<M, C> {
    fn range(&self, from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> Vec<(Vec<u8>, u64)> {
        self.range((slice(from), slice(to))).collect()
    }
    fn range_rev(&self, from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> Vec<(Vec<u8>, u64)> {
        self.range_rev((slice(from), slice(to))).collect()
    }
    named_alike!(Vec<u8>, Vec::as_slice);
}

/// What the B+-tree's maps can do besides.
pub trait BatchMap<K>: Map<K> {
    fn multi_get(&self, keys: &[K]) -> Vec<Option<u64>>;
    fn insert_many(&self, entries: &[(K, u64)]) -> u64;
    fn insert_sorted(&self, entries: &[(K, u64)]) -> u64;
}

impl<K: IntKey, const F: usize> BatchMap<K> for IntMap<K, F> {
    fn multi_get(&self, keys: &[K]) -> Vec<Option<u64>> {
        let mut values = vec![Some(77); keys.len()];
        self.multi_get(keys, &mut values);
        values
    }
    fn insert_many(&self, entries: &[(K, u64)]) -> u64 {
        self.insert_many(entries)
    }
    fn insert_sorted(&self, entries: &[(K, u64)]) -> u64 {
        self.insert_sorted(entries)
    }
}

impl<const F: usize, const H: usize> BatchMap<Vec<u8>> for ByteMap<F, H> {
    fn multi_get(&self, keys: &[Vec<u8>]) -> Vec<Option<u64>> {
        let mut values = vec![Some(77); keys.len()];
        self.multi_get(&keys.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut values);
        values
    }
    fn insert_many(&self, entries: &[(Vec<u8>, u64)]) -> u64 {
        self.insert_many(&entries.iter().map(|(k, v)| (&k[..], *v)).collect::<Vec<_>>())
    }
    fn insert_sorted(&self, entries: &[(Vec<u8>, u64)]) -> u64 {
        self.insert_sorted(&entries.iter().map(|(k, v)| (&k[..], *v)).collect::<Vec<_>>())
    }
}
