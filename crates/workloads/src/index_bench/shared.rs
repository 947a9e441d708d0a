//! What a map must be able to do to be measured, and how each does it.

use super::WrongAnswer;
use super::queries::QUERIES;
use foreshore_index::{ByteMap, CsbMap, IntMap, LayerTree, O2Map, OptimisticO2Map, TrieMap, TunedMap};

/// Entries of one scan.
pub const SCAN: usize = 100;

/// A map under measurement, shared by threads.
pub trait Shared<K>: Sync {
    /// Can it look many keys up at a time, and insert many?
    const BATCHED: bool = false;

    /// The values of these keys, as many as there are places.
    fn multi_get(&self, _keys: &[K], _values: &mut [Option<u64>]) {
        unreachable!("not batched");
    }

    /// Inserts entries, in the order of their keys if so said; how many were new.
    fn insert_many(&self, _entries: &[(K, u64)], _sorted: bool) -> u64 {
        unreachable!("not batched");
    }

    /// The value of `key`.
    fn get(&self, key: &K) -> Option<u64>;

    /// Gives `key` this value; returns the one that it had.
    fn insert(&self, key: &K, value: u64) -> Option<u64>;

    /// Inserts a key that is new; `false` if it was not, where the map's quickest call tells.
    fn insert_new(&self, key: &K, value: u64) -> bool {
        self.insert(key, value).is_none()
    }

    /// Gives a key the value that it has; `false` if it had another, where the map's quickest call tells.
    fn update(&self, key: &K, value: u64) -> bool {
        self.insert(key, value) == Some(value)
    }

    /// Removes `key`; returns the value that it had.
    fn remove(&self, key: &K) -> Option<u64>;

    /// Visits up to [`SCAN`] entries from `key` on; false if keys did not rise.
    fn scan(&self, key: &K, visit: impl FnMut(u64)) -> bool;

    /// Bytes of its memory, if it counts them.
    fn bytes(&self) -> Option<u64> {
        None
    }

    /// Errors: something of its structure is broken.
    fn check(&self) -> Result<(), WrongAnswer> {
        Ok(())
    }
}

/// Visits up to [`SCAN`] of these entries; false if keys did not rise.
#[inline]
pub fn visit_rising<K: Ord + Copy>(
    entries: impl Iterator<Item = (K, u64)>,
    mut visit: impl FnMut(u64),
) -> bool {
    let mut last = None;
    entries.take(SCAN).all(|(key, value)| {
        visit(value);
        last.replace(key) < Some(key)
    })
}

macro_rules! shared_int {
    ($map:ident, $key:ty, { $($more:tt)* }) => {
        impl Shared<$key> for $map<$key> {
            $($more)*

            #[inline]
            fn get(&self, key: &$key) -> Option<u64> {
                $map::get(self, *key)
            }

            #[inline]
            fn insert(&self, key: &$key, value: u64) -> Option<u64> {
                $map::insert(self, *key, value)
            }

            #[inline]
            fn remove(&self, key: &$key) -> Option<u64> {
                $map::remove(self, *key)
            }

            fn bytes(&self) -> Option<u64> {
                Some($map::bytes(self))
            }

            fn check(&self) -> Result<(), WrongAnswer> {
                $map::check(self).map_err(|e| WrongAnswer(e.to_string()))
            }
        }
    };
}

/// A map that is scanned by its iterator.
macro_rules! shared_iterated_int {
    ($map:ident, $key:ty) => {
        shared_int!($map, $key, {
            fn scan(&self, key: &$key, visit: impl FnMut(u64)) -> bool {
                visit_rising(self.range(*key..), visit)
            }
        });
    };
}

/// A map with batches, and with scans of known length.
macro_rules! shared_batched_int {
    ($map:ident, $key:ty) => {
        shared_int!($map, $key, {
            const BATCHED: bool = true;

            fn multi_get(&self, keys: &[$key], values: &mut [Option<u64>]) {
                $map::multi_get(self, keys, values);
            }

            fn insert_many(&self, entries: &[($key, u64)], sorted: bool) -> u64 {
                if sorted { self.insert_sorted(entries) } else { $map::insert_many(self, entries) }
            }

            #[inline]
            fn scan(&self, key: &$key, mut visit: impl FnMut(u64)) -> bool {
                let (mut last, mut rises) = (None, true);
                $map::scan(self, *key, SCAN, |key, value| {
                    visit(value);
                    rises &= last.replace(key) < Some(key);
                });
                rises
            }
        });
    };
}

shared_batched_int!(IntMap, u64);
shared_batched_int!(IntMap, u32);
shared_batched_int!(TunedMap, u64);
shared_batched_int!(TunedMap, u32);
shared_iterated_int!(CsbMap, u64);
shared_iterated_int!(CsbMap, u32);
shared_iterated_int!(O2Map, u64);
shared_iterated_int!(O2Map, u32);
shared_iterated_int!(OptimisticO2Map, u64);
shared_iterated_int!(OptimisticO2Map, u32);

impl Shared<[u8; 23]> for ByteMap {
    const BATCHED: bool = true;

    fn multi_get(&self, keys: &[[u8; 23]], values: &mut [Option<u64>]) {
        let mut slices = [&[][..]; QUERIES];
        let slices = &mut slices[..keys.len()];
        slices.iter_mut().zip(keys).for_each(|(slice, key)| *slice = key);
        ByteMap::multi_get(self, slices, values);
    }

    fn insert_many(&self, entries: &[([u8; 23], u64)], sorted: bool) -> u64 {
        let entries: Vec<(&[u8], u64)> = entries.iter().map(|(key, value)| (&key[..], *value)).collect();
        if sorted { self.insert_sorted(&entries) } else { ByteMap::insert_many(self, &entries) }
    }

    #[inline]
    fn get(&self, key: &[u8; 23]) -> Option<u64> {
        ByteMap::get(self, key)
    }

    #[inline]
    fn insert(&self, key: &[u8; 23], value: u64) -> Option<u64> {
        ByteMap::insert(self, key, value)
    }

    #[inline]
    fn remove(&self, key: &[u8; 23]) -> Option<u64> {
        ByteMap::remove(self, key)
    }

    fn scan(&self, key: &[u8; 23], mut visit: impl FnMut(u64)) -> bool {
        let mut range = self.range(key..);
        let mut last = [0; 23];
        for _ in 0..SCAN {
            let Some((key, value)) = range.next_ref() else { break };
            visit(value);
            if key <= &last[..] {
                return false;
            }
            last.copy_from_slice(key);
        }
        true
    }

    fn bytes(&self) -> Option<u64> {
        Some(ByteMap::bytes(self))
    }

    fn check(&self) -> Result<(), WrongAnswer> {
        ByteMap::check(self).map_err(|e| WrongAnswer(e.to_string()))
    }
}

impl<M: LayerTree, const C: usize> Shared<[u8; 23]> for TrieMap<M, C> {
    #[inline]
    fn get(&self, key: &[u8; 23]) -> Option<u64> {
        TrieMap::get(self, key)
    }

    #[inline]
    fn insert(&self, key: &[u8; 23], value: u64) -> Option<u64> {
        TrieMap::insert(self, key, value)
    }

    #[inline]
    fn remove(&self, key: &[u8; 23]) -> Option<u64> {
        TrieMap::remove(self, key)
    }

    fn scan(&self, key: &[u8; 23], mut visit: impl FnMut(u64)) -> bool {
        let mut last = None;
        self.range(key..).take(SCAN).all(|(key, value)| {
            visit(value);
            let rises = last.as_ref().is_none_or(|last| *last < key);
            last = Some(key);
            rises
        })
    }

    fn bytes(&self) -> Option<u64> {
        Some(TrieMap::bytes(self))
    }

    fn check(&self) -> Result<(), WrongAnswer> {
        TrieMap::check(self).map_err(|e| WrongAnswer(e.to_string()))
    }
}
