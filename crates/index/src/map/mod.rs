//! The public maps: thin layers over the tree that pin and convert keys.

pub(crate) mod bytes;
pub(crate) mod csb;
pub(crate) mod int;
pub(crate) mod multi;
pub(crate) mod o2;
pub(crate) mod trie;
pub(crate) mod tuned;

use crate::reclaim::Pin;

/// A map with an epoch pinned, for many operations in a row.
///
/// Keep it for a batch, not for ever: while it lives, memory that anybody unlinks is not reused.
#[derive(Debug)]
pub struct Pinned<'m, M> {
    pub(crate) map: &'m M,
    pub(crate) pin: Pin,
}
