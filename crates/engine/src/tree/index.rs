//! A table's index: one of several structures, chosen when the table was made.
//!
//! Why an enum: a lookup asks the index once, so one well-predicted branch per seek is all that the choice costs.

use crate::db::Index;
use foreshore_index::{Broken, ByteMap, CsbByteMap, LeafIndex, OptimisticO2ByteMap};
use std::ops::Bound;

/// Low fence → page id.
#[expect(clippy::large_enum_variant, reason = "one per table, never moved once it is there")]
pub(crate) enum TreeIndex {
    BPlus(ByteMap),
    CsbPlus(CsbByteMap),
    O2(OptimisticO2ByteMap),
}

/// The same expression on whichever structure it is.
macro_rules! each {
    ($index:expr, $map:ident => $value:expr) => {
        match $index {
            TreeIndex::BPlus($map) => $value,
            TreeIndex::CsbPlus($map) => $value,
            TreeIndex::O2($map) => $value,
        }
    };
}

impl TreeIndex {
    /// An index of these fences, which rise strictly; nodes are filled to about `fill`.
    pub fn bulk_load<K: AsRef<[u8]>>(
        kind: Index,
        fences: impl IntoIterator<Item = (K, u64)>,
        fill: f64,
    ) -> Self {
        match kind {
            Index::BPlus => Self::BPlus(LeafIndex::bulk_load(fences, fill)),
            Index::CsbPlus => Self::CsbPlus(LeafIndex::bulk_load(fences, fill)),
            Index::O2 => Self::O2(LeafIndex::bulk_load(fences, fill)),
        }
    }

    pub fn kind(&self) -> Index {
        match self {
            Self::BPlus(_) => Index::BPlus,
            Self::CsbPlus(_) => Index::CsbPlus,
            Self::O2(_) => Index::O2,
        }
    }

    /// See [`LeafIndex::seek`].
    #[inline]
    pub fn seek(&self, key: &[u8]) -> Option<u64> {
        each!(self, map => map.seek(key))
    }

    /// See [`LeafIndex::seek_before`].
    #[inline]
    pub fn seek_before(&self, key: &[u8]) -> Option<u64> {
        each!(self, map => map.seek_before(key))
    }

    /// See [`LeafIndex::post`].
    pub fn post(&self, low_fence: &[u8], page: u64) {
        each!(self, map => map.post(low_fence, page));
    }

    /// See [`LeafIndex::unpost`].
    pub fn unpost(&self, low_fence: &[u8]) {
        each!(self, map => map.unpost(low_fence));
    }

    /// The page with exactly this low fence.
    pub fn get(&self, low_fence: &[u8]) -> Option<u64> {
        each!(self, map => map.get(low_fence))
    }

    /// The page with the greatest low fence.
    pub fn last(&self) -> Option<u64> {
        each!(self, map => map.range_rev(Bound::Unbounded, Bound::Unbounded).next().map(|(_, page)| page))
    }

    /// The fences between the bounds and their pages, upwards.
    pub fn range(
        &self,
        start: Bound<&[u8]>,
        end: Bound<&[u8]>,
    ) -> Box<dyn Iterator<Item = (Vec<u8>, u64)> + '_> {
        each!(self, map => Box::new(map.range(start, end)))
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> u64 {
        each!(self, map => map.bytes())
    }

    /// Names the first broken invariant.
    pub fn check(&self) -> Result<(), Broken> {
        each!(self, map => map.check())
    }
}
