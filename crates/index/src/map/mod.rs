//! The public maps: thin layers over the tree that pin and convert keys.

mod bounds;
pub(crate) mod bytes;
pub(crate) mod csb;
mod everyday;
pub(crate) mod fixed;
pub(crate) mod int;
mod keys;
pub(crate) mod multi;
pub(crate) mod o2;
mod pinned;
pub(crate) mod trie;
pub(crate) mod tuned;

use crate::node::int::IntKey;
use std::ops::{Bound, RangeBounds};

pub use bounds::ByteBounds;
pub use pinned::Pinned;

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
