//! What the tests ask of a map from integers, whatever its structure.

use foreshore_index::{CsbMap, IntMap, O2Map, OptimisticO2Map};

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
