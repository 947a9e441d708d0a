//! masstree: keys are byte strings, integers big-endian. Longer ones are left out: a scan from a key of 23 bytes began with another
//! entry's value (version 0.9.5). Scans by the call that it names the fastest, a leaf at a time.

use foreshore_workloads::index_bench::{SCAN, Shared};
use masstree::{MassTree, RangeBound};

/// What becomes a byte string of the same order.
pub trait Bytes {
    type Bytes: AsRef<[u8]> + for<'b> TryFrom<&'b [u8]> + Ord + Copy;
    fn bytes(&self) -> Self::Bytes;
}

impl Bytes for u64 {
    type Bytes = [u8; 8];

    #[inline]
    fn bytes(&self) -> [u8; 8] {
        self.to_be_bytes()
    }
}

impl Bytes for u32 {
    type Bytes = [u8; 4];

    #[inline]
    fn bytes(&self) -> [u8; 4] {
        self.to_be_bytes()
    }
}

/// The tree.
pub struct Masstree(MassTree<u64>);

impl Masstree {
    pub fn new() -> Self {
        Self(MassTree::new())
    }
}

impl<K: Bytes> Shared<K> for Masstree {
    #[inline]
    fn get(&self, key: &K) -> Option<u64> {
        self.0.get_with_guard(key.bytes().as_ref(), &self.0.guard())
    }

    #[inline]
    fn insert(&self, key: &K, value: u64) -> Option<u64> {
        self.0.insert_with_guard(key.bytes().as_ref(), value, &self.0.guard())
    }

    #[inline]
    fn remove(&self, key: &K) -> Option<u64> {
        self.0.remove_with_guard(key.bytes().as_ref(), &self.0.guard()).expect("a removal")
    }

    fn scan(&self, key: &K, mut visit: impl FnMut(u64)) -> bool {
        let (mut left, mut rises, mut last) = (SCAN, true, None);
        let visit = |key: &[u8], value| {
            visit(value);
            let key = K::Bytes::try_from(key).ok();
            rises &= last < key;
            last = key;
            left -= 1;
            left > 0
        };
        self.0.scan_intra_leaf_batch(
            RangeBound::Included(key.bytes().as_ref()),
            RangeBound::Unbounded,
            visit,
            &self.0.guard(),
        );
        rises
    }
}
