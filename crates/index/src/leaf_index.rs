//! What the engine asks of an index over its leaf pages.

use crate::trie::layer_tree::LayerTree;
use crate::{ByteMap, TrieMap};

/// A volatile index from the low fences of leaf pages to the pages.
///
/// It is a hint: it may lack a fence (the leaf chain repairs that), but what it says of a fence is right. All methods
/// but [`bulk_load`](LeafIndex::bulk_load) may be called by many threads at a time, with no leaf latch held.
///
/// ```
/// use foreshore_index::{ByteMap, LeafIndex};
///
/// // Pages 1 and 2 begin with the least key of all and with "m".
/// let index: ByteMap = LeafIndex::bulk_load([("", 1), ("m", 2)], 0.7);
/// assert_eq!((index.seek(b"bos"), index.seek(b"sea")), (Some(1), Some(2)));
/// index.post(b"p", 3); // page 2 was split
/// assert_eq!((index.seek(b"sea"), index.seek_before(b"p")), (Some(3), Some(2)));
/// assert!(index.unpost(b"p", 3)); // page 2 has absorbed page 3
/// ```
pub trait LeafIndex: Send + Sync {
    /// An index of these fences, which rise strictly; nodes are filled to about `fill` (0.1 ..= 1).
    ///
    /// Panics if they do not rise, or on another `fill`.
    fn bulk_load<K: AsRef<[u8]>>(fences: impl IntoIterator<Item = (K, u64)>, fill: f64) -> Self
    where
        Self: Sized;

    /// The page whose low fence is the greatest one at most at `key`: where the key is, or left of it.
    fn seek(&self, key: &[u8]) -> Option<u64>;

    /// The page whose low fence is the greatest one below `key`: where the greatest smaller key is, or left of it.
    fn seek_before(&self, key: &[u8]) -> Option<u64>;

    /// Enters a leaf under its low fence; returns the page that was there before.
    fn post(&self, low_fence: &[u8], page: u64) -> Option<u64>;

    /// Forgets a low fence if it leads to this page, and not to another by now. Did it?
    fn unpost(&self, low_fence: &[u8], page: u64) -> bool;
}

/// Every map of byte strings is one.
macro_rules! leaf_index {
    ([$($generics:tt)*] $map:ty) => {
        impl<$($generics)*> LeafIndex for $map {
            fn bulk_load<K: AsRef<[u8]>>(fences: impl IntoIterator<Item = (K, u64)>, fill: f64) -> Self {
                <$map>::bulk_load(fences, fill)
            }

            fn seek(&self, key: &[u8]) -> Option<u64> {
                self.floor(key)
            }

            fn seek_before(&self, key: &[u8]) -> Option<u64> {
                self.below(key)
            }

            fn post(&self, low_fence: &[u8], page: u64) -> Option<u64> {
                self.insert(low_fence, page)
            }

            fn unpost(&self, low_fence: &[u8], page: u64) -> bool {
                self.compare_exchange(low_fence, Some(page), None).is_ok()
            }
        }
    };
}

leaf_index!([const F: usize, const H: usize] ByteMap<F, H>);
leaf_index!([M: LayerTree, const C: usize] TrieMap<M, C>);
