//! Integers by their names, so that the schedules of every map can be run on maps of byte strings.
//!
//! The parent has the map, `type Names = …`, and says which name an integer has: `name`, and back: `number`.

use super::{Names, name, number};
use foreshore_index::Broken;
use std::ops::{Bound, RangeBounds};

/// A map of names that looks like one of integers.
pub struct Ints(pub Names);

fn names(bounds: impl RangeBounds<u64>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    (bounds.start_bound().map(|key| name(*key)), bounds.end_bound().map(|key| name(*key)))
}

impl Ints {
    pub fn new() -> Self {
        Self(Names::new())
    }

    pub fn get(&self, key: u64) -> Option<u64> {
        self.0.get(&name(key))
    }

    pub fn insert(&self, key: u64, value: u64) -> Option<u64> {
        self.0.insert(&name(key), value)
    }

    pub fn remove(&self, key: u64) -> Option<u64> {
        self.0.remove(&name(key))
    }

    pub fn floor(&self, key: u64) -> Option<u64> {
        self.0.floor(&name(key))
    }

    pub fn below(&self, key: u64) -> Option<u64> {
        self.0.below(&name(key))
    }

    pub fn range(&self, bounds: impl RangeBounds<u64>) -> impl Iterator<Item = (u64, u64)> {
        let (start, end) = names(bounds);
        let entries = self.0.range((start, end));
        entries.map(|(name, value)| (number(&name), value))
    }

    pub fn range_rev(&self, bounds: impl RangeBounds<u64>) -> impl Iterator<Item = (u64, u64)> {
        let (start, end) = names(bounds);
        let entries = self.0.range_rev((start, end));
        entries.map(|(name, value)| (number(&name), value))
    }

    pub fn check(&self) -> Result<(), Broken> {
        self.0.check()
    }
}
