//! What the tests ask of a map from integers, whatever its structure.

use foreshore_index::{CsbMap, IntMap, LayerTree, O2Map, OptimisticO2Map, TrieMap};

pub trait U64Map: Sync {
    /// A map of these entries, whose keys rise; nodes are filled to about `fill`.
    fn load(entries: impl Iterator<Item = (u64, u64)>, fill: f64) -> Self;
    fn get(&self, key: u64) -> Option<u64>;
    fn insert(&self, key: u64, value: u64) -> Option<u64>;
    fn remove(&self, key: u64) -> Option<u64>;
    /// All keys upwards.
    fn up(&self) -> Vec<u64>;
    /// All keys downwards.
    fn down(&self) -> Vec<u64>;
    fn bytes(&self) -> u64;
    /// Nodes taken out so far.
    fn unlinked(&self) -> u64;
    /// Names a broken invariant.
    fn check(&self) -> Result<(), String>;
}

macro_rules! u64_map {
    ($map:ident, $unlinked:ident) => {
        impl<const F: usize> U64Map for $map<u64, F> {
            fn load(entries: impl Iterator<Item = (u64, u64)>, fill: f64) -> Self {
                $map::bulk_load(entries, fill)
            }
            fn get(&self, key: u64) -> Option<u64> {
                $map::get(self, key)
            }
            fn insert(&self, key: u64, value: u64) -> Option<u64> {
                $map::insert(self, key, value)
            }
            fn remove(&self, key: u64) -> Option<u64> {
                $map::remove(self, key)
            }
            fn up(&self) -> Vec<u64> {
                self.range(..).map(|(key, _)| key).collect()
            }
            fn down(&self) -> Vec<u64> {
                self.range_rev(..).map(|(key, _)| key).collect()
            }
            fn bytes(&self) -> u64 {
                $map::bytes(self)
            }
            fn unlinked(&self) -> u64 {
                self.stats().$unlinked
            }
            fn check(&self) -> Result<(), String> {
                $map::check(self).map_err(|e| e.to_string())
            }
        }
    };
}

u64_map!(IntMap, unlinked);
u64_map!(CsbMap, unlinked);
u64_map!(O2Map, merges);
u64_map!(OptimisticO2Map, merges);

/// The name of a key below 2^27: eight keys share the bytes of a slice, and go on behind it.
pub fn name(key: u64) -> Vec<u8> {
    let mut name = b"table/number".to_vec();
    name.extend_from_slice(&((key >> 3) as u32).to_be_bytes()[1..]);
    name.extend_from_slice(format!("/{}", key & 7).as_bytes());
    name
}

/// The key of a name.
pub fn number(name: &[u8]) -> u64 {
    let high = name[12..15].iter().fold(0, |high, byte| high << 8 | u64::from(*byte));
    high << 3 | u64::from(name[16] - b'0')
}

/// Integers by their names.
impl<M: LayerTree, const C: usize> U64Map for TrieMap<M, C> {
    fn load(entries: impl Iterator<Item = (u64, u64)>, fill: f64) -> Self {
        TrieMap::bulk_load(entries.map(|(key, value)| (name(key), value)), fill)
    }
    fn get(&self, key: u64) -> Option<u64> {
        TrieMap::get(self, &name(key))
    }
    fn insert(&self, key: u64, value: u64) -> Option<u64> {
        TrieMap::insert(self, &name(key), value)
    }
    fn remove(&self, key: u64) -> Option<u64> {
        TrieMap::remove(self, &name(key))
    }
    fn up(&self) -> Vec<u64> {
        self.iter().map(|(name, _)| number(&name)).collect()
    }
    fn down(&self) -> Vec<u64> {
        self.range_rev(..).map(|(name, _)| number(&name)).collect()
    }
    fn bytes(&self) -> u64 {
        TrieMap::bytes(self)
    }
    fn unlinked(&self) -> u64 {
        self.stats().closed
    }
    fn check(&self) -> Result<(), String> {
        TrieMap::check(self).map_err(|e| e.to_string())
    }
}
