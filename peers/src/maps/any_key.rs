//! Maps that are generic over their keys.

use bplustree::BPlusTree;
use concurrent_map::{ConcurrentMap, Minimum};
use crossbeam_skiplist::SkipMap;
use ferntree::{OptimisticRead, Tree};
use foreshore_workloads::index_bench::{SCAN, Shared, visit_rising};
use scc::{Guard, TreeIndex};
use std::ops::Bound::{Included, Unbounded};
use std::sync::Mutex;
use thread_local::ThreadLocal;

/// What all maps take.
pub trait Integer: OptimisticRead + Minimum + Copy + Ord + Sync + super::masstree::Bytes {}

impl Integer for u32 {}
impl Integer for u64 {}

/// [`bplustree`].
pub struct Bplustree<K>(BPlusTree<K, u64>);

impl<K: Copy + Ord> Bplustree<K> {
    pub fn new() -> Self {
        Self(BPlusTree::new())
    }
}

impl<K: Copy + Ord + Send + Sync> Shared<K> for Bplustree<K> {
    #[inline]
    fn get(&self, key: &K) -> Option<u64> {
        self.0.lookup(key, |value| *value)
    }

    #[inline]
    fn insert(&self, key: &K, value: u64) -> Option<u64> {
        self.0.insert(*key, value)
    }

    #[inline]
    fn remove(&self, key: &K) -> Option<u64> {
        self.0.remove(key)
    }

    fn scan(&self, key: &K, visit: impl FnMut(u64)) -> bool {
        let mut entries = self.0.raw_iter();
        entries.seek(key);
        visit_rising(std::iter::from_fn(|| entries.next().map(|(key, value)| (*key, *value))), visit)
    }
}

/// [`ferntree`]: lookups by the call that takes no lock.
pub struct Ferntree<K: OptimisticRead>(Tree<K, u64>);

impl<K: OptimisticRead + Clone + Ord> Ferntree<K> {
    pub fn new() -> Self {
        Self(Tree::new())
    }
}

impl<K: OptimisticRead + Copy + Ord + Sync> Shared<K> for Ferntree<K> {
    #[inline]
    fn get(&self, key: &K) -> Option<u64> {
        self.0.get_optimistic(key)
    }

    #[inline]
    fn insert(&self, key: &K, value: u64) -> Option<u64> {
        self.0.insert(*key, value)
    }

    #[inline]
    fn remove(&self, key: &K) -> Option<u64> {
        self.0.remove(key)
    }

    fn scan(&self, key: &K, visit: impl FnMut(u64)) -> bool {
        let mut entries = self.0.range(Included(key), Unbounded);
        visit_rising(std::iter::from_fn(|| entries.next().map(|(key, value)| (*key, *value))), visit)
    }
}

/// [`crossbeam_skiplist`]. Its insertion does not tell what it replaced; where that is asked for, a lookup does.
pub struct Skiplist<K>(SkipMap<K, u64>);

impl<K: Ord> Skiplist<K> {
    pub fn new() -> Self {
        Self(SkipMap::new())
    }
}

impl<K: Copy + Ord + Send + Sync + 'static> Shared<K> for Skiplist<K> {
    #[inline]
    fn get(&self, key: &K) -> Option<u64> {
        self.0.get(key).map(|entry| *entry.value())
    }

    #[inline]
    fn insert(&self, key: &K, value: u64) -> Option<u64> {
        let old = self.get(key);
        self.0.insert(*key, value);
        old
    }

    #[inline]
    fn insert_new(&self, key: &K, value: u64) -> bool {
        *self.0.insert(*key, value).value() == value
    }

    #[inline]
    fn update(&self, key: &K, value: u64) -> bool {
        *self.0.insert(*key, value).value() == value
    }

    #[inline]
    fn remove(&self, key: &K) -> Option<u64> {
        self.0.remove(key).map(|entry| *entry.value())
    }

    fn scan(&self, key: &K, visit: impl FnMut(u64)) -> bool {
        visit_rising(self.0.range(*key..).map(|entry| (*entry.key(), *entry.value())), visit)
    }
}

/// [`scc::TreeIndex`]. Its replacing call does not tell what it replaced; where that is asked for, a lookup does.
pub struct SccTree<K>(TreeIndex<K, u64>);

impl<K: Copy + Ord + 'static> SccTree<K> {
    pub fn new() -> Self {
        Self(TreeIndex::new())
    }
}

impl<K: Copy + Ord + Send + Sync + 'static> Shared<K> for SccTree<K> {
    #[inline]
    fn get(&self, key: &K) -> Option<u64> {
        self.0.peek(key, &Guard::new()).copied()
    }

    #[inline]
    fn insert(&self, key: &K, value: u64) -> Option<u64> {
        if self.0.insert_sync(*key, value).is_ok() {
            return None;
        }
        let old = self.get(key);
        self.0.upsert_sync(*key, value);
        old
    }

    #[inline]
    fn insert_new(&self, key: &K, value: u64) -> bool {
        self.0.insert_sync(*key, value).is_ok()
    }

    #[inline]
    fn update(&self, key: &K, value: u64) -> bool {
        self.0.upsert_sync(*key, value);
        true
    }

    #[inline]
    fn remove(&self, key: &K) -> Option<u64> {
        let mut old = None;
        self.0.remove_if_sync(key, |value| {
            old = Some(*value);
            true
        });
        old
    }

    fn scan(&self, key: &K, visit: impl FnMut(u64)) -> bool {
        let guard = Guard::new();
        visit_rising(self.0.range(*key.., &guard).map(|(key, value)| (*key, *value)), visit)
    }
}

/// [`concurrent_map`]: a handle for each thread, as it wants.
pub struct Concurrent<K>
where
    K: 'static + Copy + Minimum + Ord + Send + Sync,
{
    first: Mutex<ConcurrentMap<K, u64>>,
    handles: ThreadLocal<ConcurrentMap<K, u64>>,
}

impl<K: 'static + Copy + Minimum + Ord + Send + Sync> Concurrent<K> {
    pub fn new() -> Self {
        Self { first: Mutex::new(ConcurrentMap::new()), handles: ThreadLocal::new() }
    }

    #[inline]
    fn handle(&self) -> &ConcurrentMap<K, u64> {
        self.handles.get_or(|| self.first.lock().expect("nobody panics here").clone())
    }
}

impl<K: 'static + Copy + Minimum + Ord + Send + Sync> Shared<K> for Concurrent<K> {
    #[inline]
    fn get(&self, key: &K) -> Option<u64> {
        self.handle().get(key)
    }

    #[inline]
    fn insert(&self, key: &K, value: u64) -> Option<u64> {
        self.handle().insert(*key, value)
    }

    #[inline]
    fn remove(&self, key: &K) -> Option<u64> {
        self.handle().remove(key)
    }

    fn scan(&self, key: &K, visit: impl FnMut(u64)) -> bool {
        visit_rising(self.handle().range(*key..).take(SCAN), visit)
    }
}
