//! congee: an adaptive radix tree over integers. Its ranges go into an array, which the caller brings.

use congee::Congee as Tree;
use foreshore_workloads::index_bench::{SCAN, Shared, visit_rising};

/// The tree over `usize`.
pub struct Congee(Tree<usize, usize>);

impl Congee {
    pub fn new() -> Self {
        Self(Tree::default())
    }

    fn get(&self, key: usize) -> Option<u64> {
        self.0.get(&key, &self.0.pin()).map(|value| value as u64)
    }

    fn insert(&self, key: usize, value: u64) -> Option<u64> {
        let old = self.0.insert(key, value as usize, &self.0.pin()).expect("memory does not run out");
        old.map(|value| value as u64)
    }

    fn remove(&self, key: usize) -> Option<u64> {
        self.0.remove(&key, &self.0.pin()).map(|value| value as u64)
    }

    fn scan(&self, key: usize, visit: impl FnMut(u64)) -> bool {
        let mut entries = [(0, 0); SCAN];
        let found = self.0.range(&key, &usize::MAX, &mut entries, &self.0.pin());
        visit_rising(entries[..found].iter().map(|(key, value)| (*key, *value as u64)), visit)
    }
}

macro_rules! shared {
    ($key:ty) => {
        impl Shared<$key> for Congee {
            #[inline]
            fn get(&self, key: &$key) -> Option<u64> {
                Congee::get(self, *key as usize)
            }

            #[inline]
            fn insert(&self, key: &$key, value: u64) -> Option<u64> {
                Congee::insert(self, *key as usize, value)
            }

            #[inline]
            fn remove(&self, key: &$key) -> Option<u64> {
                Congee::remove(self, *key as usize)
            }

            fn scan(&self, key: &$key, visit: impl FnMut(u64)) -> bool {
                Congee::scan(self, *key as usize, visit)
            }
        }
    };
}

shared!(u64);
shared!(u32);
