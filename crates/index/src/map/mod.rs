//! The public maps: thin layers over the tree that pin and convert keys.

pub(crate) mod bytes;
pub(crate) mod csb;
pub(crate) mod int;
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
#[derive(Debug)]
pub struct Pinned<'m, M> {
    pub(crate) map: &'m M,
    pub(crate) pin: Pin,
}

/// The bounds as a tree knows them.
fn lanes<K: IntKey>(bounds: impl RangeBounds<K>) -> (Bound<K::Lane>, Bound<K::Lane>) {
    let lane = |bound: Bound<&K>| bound.map(|key| key.to_lane());
    (lane(bounds.start_bound()), lane(bounds.end_bound()))
}
