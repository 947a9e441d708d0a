//! A table's index: one of several structures, chosen when the table was made.
//!
//! Why an enum: a lookup asks the index once, so one well-predicted branch per seek is all that the choice costs.
//!
//! Lookups and changes go on side by side, as the structures allow. Two want the index to stand still: a check, as it walks
//! the whole structure, where a change under way looks like damage; and who drops the table, as it frees the leaves named here. So
//! changes wait for them with nothing latched. Who has split a leaf does so when that is done and logged, and lookups find its
//! other half by the right link meanwhile. Nothing leads past a leaf that was absorbed but its entry's removal: who absorbs one
//! waits before.

use crate::db::Index;
use foreshore_index::{Broken, ByteMap, CsbByteMap, LeafIndex, OptimisticO2ByteMap};
use parking_lot::{RwLock, RwLockReadGuard};
use std::ops::Bound;

/// Low fence → page id.
pub(crate) struct TreeIndex {
    structure: Structure,
    /// Held shared by whoever changes the index, exclusively by whoever wants it to stand still. The value: is it closed, as its table
    /// was dropped?
    changing: RwLock<bool>,
}

#[expect(clippy::large_enum_variant, reason = "one per table, never moved once it is there")]
enum Structure {
    BPlus(ByteMap),
    CsbPlus(CsbByteMap),
    O2(OptimisticO2ByteMap),
}

/// A change that is under way, or about to be.
pub(crate) struct IndexChange<'a> {
    index: &'a TreeIndex,
    _changing: RwLockReadGuard<'a, bool>,
}

/// The same expression on whichever structure it is.
macro_rules! each {
    ($index:expr, $map:ident => $value:expr) => {
        match &$index.structure {
            Structure::BPlus($map) => $value,
            Structure::CsbPlus($map) => $value,
            Structure::O2($map) => $value,
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
        let structure = match kind {
            Index::BPlus => Structure::BPlus(LeafIndex::bulk_load(fences, fill)),
            Index::CsbPlus => Structure::CsbPlus(LeafIndex::bulk_load(fences, fill)),
            Index::O2 => Structure::O2(LeafIndex::bulk_load(fences, fill)),
        };
        Self { structure, changing: RwLock::new(false) }
    }

    pub fn kind(&self) -> Index {
        match self.structure {
            Structure::BPlus(_) => Index::BPlus,
            Structure::CsbPlus(_) => Index::CsbPlus,
            Structure::O2(_) => Index::O2,
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

    /// See [`LeafIndex::post`]. Waits for a check: nothing may be latched. `false`: the index is closed, and does not lead to the page.
    pub fn post(&self, low_fence: &[u8], page: u64) -> bool {
        let closed = self.changing.read();
        if !*closed {
            each!(self, map => map.post(low_fence, page));
        }
        !*closed
    }

    /// The right to change it: nobody checks it meanwhile. Waits for a check: nothing may be latched.
    pub fn change(&self) -> IndexChange<'_> {
        IndexChange { index: self, _changing: self.changing.read() }
    }

    /// The page with exactly this low fence. Leaves may be latched: whoever changes the index waits for no leaf.
    pub fn get(&self, low_fence: &[u8]) -> Option<u64> {
        each!(self, map => map.get(low_fence))
    }

    /// The page with the greatest low fence.
    pub fn last(&self) -> Option<u64> {
        self.range_rev(Bound::Unbounded, Bound::Unbounded).next().map(|(_, page)| page)
    }

    /// The fences between the bounds and their pages, upwards.
    pub fn range(
        &self,
        start: Bound<&[u8]>,
        end: Bound<&[u8]>,
    ) -> Box<dyn Iterator<Item = (Vec<u8>, u64)> + '_> {
        each!(self, map => Box::new(map.range((start, end))))
    }

    /// The same downwards, beginning below `end`.
    pub fn range_rev(
        &self,
        start: Bound<&[u8]>,
        end: Bound<&[u8]>,
    ) -> Box<dyn Iterator<Item = (Vec<u8>, u64)> + '_> {
        each!(self, map => Box::new(map.range_rev((start, end))))
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> u64 {
        each!(self, map => map.bytes())
    }

    /// Names the first broken invariant. Changes wait meanwhile, lookups do not.
    pub fn check(&self) -> Result<(), Broken> {
        let _still = self.changing.write();
        each!(self, map => map.check())
    }

    /// Lets changes wait until it is dropped.
    #[cfg(test)]
    pub fn stand_still(&self) -> impl Drop + '_ {
        self.changing.write()
    }

    /// The same; and nothing is posted any more afterwards.
    pub fn close(&self) -> impl Drop + '_ {
        let mut closed = self.changing.write();
        *closed = true;
        closed
    }
}

impl IndexChange<'_> {
    /// See [`LeafIndex::unpost`].
    pub fn unpost(self, low_fence: &[u8], page: u64) {
        each!(self.index, map => map.unpost(low_fence, page));
    }
}
