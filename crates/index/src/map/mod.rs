//! The public maps: thin layers over the tree that pin and convert keys.

pub(crate) mod bytes;
pub(crate) mod csb;
mod everyday;
mod fixed;
pub(crate) mod int;
mod keys;
pub(crate) mod multi;
pub(crate) mod o2;
pub(crate) mod trie;
pub(crate) mod tuned;

use crate::node::int::IntKey;
use crate::reclaim::Pin;
use std::ops::{Bound, RangeBounds};

/// A map with an epoch pinned, for many operations in a row.
///
/// Keep it for a batch, not for ever: while it lives, memory that anybody unlinks is not reused.
///
/// It stays in the thread that made it.
///
/// ```
/// let map = foreshore_index::CsbMap::<u64>::from_iter([(1, 10), (2, 20)]);
/// let pinned = map.pin();
/// let sum: u64 = (1..=2).filter_map(|key| pinned.get(key)).sum();
/// assert_eq!(sum, 30);
/// drop(pinned); // what was unlinked may be used again
/// ```
#[derive(Debug)]
pub struct Pinned<'m, M> {
    pub(crate) map: &'m M,
    pub(crate) pin: Pin,
}

/// The bounds of the byte strings that begin with `prefix`: the upper one is it with its last byte below 0xFF one higher.
fn beginning(prefix: &[u8]) -> (Bound<&[u8]>, Bound<Vec<u8>>) {
    let end = prefix.iter().rposition(|byte| *byte < 0xFF).map(|last| {
        let mut end = prefix[..=last].to_vec();
        end[last] += 1;
        end
    });
    (Bound::Included(prefix), end.map_or(Bound::Unbounded, Bound::Excluded))
}

/// The bounds as a tree knows them.
fn lanes<K: IntKey>(bounds: impl RangeBounds<K>) -> (Bound<K::Lane>, Bound<K::Lane>) {
    let lane = |bound: Bound<&K>| bound.map(|key| key.to_lane());
    (lane(bounds.start_bound()), lane(bounds.end_bound()))
}
