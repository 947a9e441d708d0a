//! What a layer asks of the tree that orders its slices: the CSB+-tree and the O2-Tree can do it.

use super::slice::Slice;
use crate::broken::Broken;
use crate::csb::{self, Csb};
use crate::o2::{self, Scheme};
use crate::reclaim::Pin;
use crate::search::Lane;
use std::ops::Bound;

/// An ordered, concurrent map from slices to words. Sealed: the module is private.
///
/// ```
/// use foreshore_index::{CsbByteMap, LayerTree, O2ByteMap, TrieMap};
///
/// fn first<M: LayerTree>(map: &TrieMap<M>) -> Option<u64> {
///     map.first_key_value().map(|(_, value)| value)
/// }
/// assert_eq!(first(&CsbByteMap::<16>::from_iter([("BOS", 1)])), Some(1));
/// assert_eq!(first(&O2ByteMap::<64>::from_iter([("BOS", 1)])), Some(1));
/// ```
pub trait LayerTree: Send + Sync + Sized + 'static {
    /// An empty tree, which need not count its entries.
    fn new() -> Self;
    /// A tree of these slices, which rise strictly; nodes are filled to about `fill`.
    fn bulk_load(slots: impl Iterator<Item = (Slice, u64)>, fill: f64) -> Self;
    /// The word of `slice`.
    fn get(&self, slice: Slice, pin: &Pin) -> Option<u64>;
    /// The entry with the greatest slice at most at `slice`.
    fn floor(&self, slice: Slice, pin: &Pin) -> Option<(Slice, u64)>;
    /// Sets the word of `slice` if `admit` agrees to the present one; returns that.
    fn insert_if(
        &self,
        slice: Slice,
        word: u64,
        admit: impl Fn(Option<u64>) -> bool,
        pin: &Pin,
    ) -> Option<u64>;
    /// Removes `slice` if `admit` agrees to its word; returns that.
    fn remove_if(&self, slice: Slice, admit: impl Fn(u64) -> bool, pin: &Pin) -> Option<u64>;
    /// The entries from `from` on, upwards.
    fn ascending(&self, from: Slice) -> impl Iterator<Item = (Slice, u64)>;
    /// The entries from `from` on, downwards.
    fn descending(&self, from: Slice) -> impl Iterator<Item = (Slice, u64)>;
    /// Memory in bytes.
    fn bytes(&self) -> u64;
    /// Names the first broken invariant.
    fn check(&self) -> Result<(), Broken>;

    /// Is there no entry?
    fn is_empty(&self, pin: &Pin) -> bool {
        self.floor(Slice::MAX, pin).is_none()
    }

    /// Changes the word of `slice` from `old` to `new` (`None`: no entry) and says whether it was `old`.
    fn replace(&self, slice: Slice, old: Option<u64>, new: Option<u64>, pin: &Pin) -> bool {
        match new {
            Some(new) => self.insert_if(slice, new, |word| word == old, pin) == old,
            None => self.remove_if(slice, |word| Some(word) == old, pin) == old,
        }
    }
}

/// A tree of integers that serves as one. Its scans are given as what they are of `$this`, from the slice `$from` on.
macro_rules! layer_tree {
    ([$($generics:tt)*] $tree:ty, |$this:ident, $from:ident| ascending: $up:expr, descending: $down:expr) => {
        impl<$($generics)*> LayerTree for $tree {
            fn new() -> Self {
                <$tree>::uncounted()
            }

            fn bulk_load(slots: impl Iterator<Item = (Slice, u64)>, fill: f64) -> Self {
                <$tree>::uncounted().loaded(slots, fill)
            }

            #[inline]
            fn get(&self, slice: Slice, pin: &Pin) -> Option<u64> {
                <$tree>::get(self, slice, pin)
            }

            #[inline]
            fn floor(&self, slice: Slice, pin: &Pin) -> Option<(Slice, u64)> {
                self.floor_entry(slice, pin)
            }

            fn insert_if(
                &self,
                slice: Slice,
                word: u64,
                admit: impl Fn(Option<u64>) -> bool,
                pin: &Pin,
            ) -> Option<u64> {
                <$tree>::insert_if(self, slice, word, admit, pin)
            }

            fn remove_if(&self, slice: Slice, admit: impl Fn(u64) -> bool, pin: &Pin) -> Option<u64> {
                <$tree>::remove_if(self, slice, admit, pin)
            }

            fn ascending(&self, $from: Slice) -> impl Iterator<Item = (Slice, u64)> {
                let $this = self;
                let mut entries = $up;
                std::iter::from_fn(move || entries.next())
            }

            fn descending(&self, $from: Slice) -> impl Iterator<Item = (Slice, u64)> {
                let $this = self;
                let mut entries = $down;
                std::iter::from_fn(move || entries.next())
            }

            fn bytes(&self) -> u64 {
                <$tree>::bytes(self)
            }

            fn check(&self) -> Result<(), Broken> {
                <$tree>::check(self)
            }
        }
    };
}

layer_tree! {
    [const F: usize] Csb<Slice, F>, |tree, from|
    ascending: csb::Forward::new(tree, &(from..)),
    descending: csb::Backward::new(tree, &(..=from))
}

layer_tree! {
    [const F: usize, S: Scheme] o2::Tree<Slice, F, S>, |tree, from|
    ascending: o2::Forward::new(tree, (Bound::Included(from), Bound::Unbounded)),
    descending: o2::Backward::new(tree, (Bound::Unbounded, Bound::Included(from)))
}
