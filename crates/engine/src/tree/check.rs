//! Walking a whole table and comparing what its leaves and its index say.

use crate::db::TableReport;
use crate::error::{Error, Result};
use crate::leaf::LeafCopy;
use crate::tree::{Ahead, Tree};
use crate::txn::Direction;
use foreshore_base::PageId;
use foreshore_base::sync::Ordering::Relaxed;
use std::ops::Bound;
use std::sync::Arc;

impl Tree {
    /// Checks every leaf by itself, that the leaves tile the key space (T1), and that the index leads to them (T3). Where no large value
    /// is known, that no row refers to one.
    pub fn check(self: &Arc<Self>) -> Result<TableReport> {
        let mut report = TableReport {
            name: self.name().to_owned(),
            index: self.index_kind(),
            leaf_bytes: self.leaf_bytes() as u64,
            ..TableReport::default()
        };
        let mut copy = LeafCopy::new(self.leaf_bytes());
        let mut low: Vec<u8> = Vec::new();
        let mut ahead = Ahead::new(Direction::Ascending);
        let mut absorbs = self.core.absorbs.load(Relaxed);
        let mut cold = false;
        loop {
            absorbs = self.copy_beginning_at(&low, absorbs, &mut copy)?;
            ahead.came_to(self, &copy, cold, &Bound::Unbounded);
            copy.check().map_err(|detail| Error::corrupt(format!("table {:?}", self.name()), detail))?;
            self.ensure_chunks_for(&copy)?;
            report.leaves += 1;
            let live = copy.live(copy.rows())?;
            report.rows += live;
            report.ghosts += copy.len() as u64 - live;
            report.used_bytes += copy.used_bytes() as u64;
            if self.index.get(&low) != Some(copy.id().0) {
                report.missing_separators += 1;
            }
            let Some(high) = copy.high_fence() else { break };
            low = high.to_vec();
            cold = self.is_on_disk(copy.right());
        }
        self.check_end(&copy)?;
        self.index
            .check()
            .map_err(|e| Error::corrupt(format!("index of table {:?}", self.name()), e.to_string()))?;
        Ok(report)
    }

    /// Copies the leaf whose low fence is `low`, or one that has absorbed it: `absorbs` had happened when the leaf before it
    /// was copied. Returns how many had when this one was.
    fn copy_beginning_at(&self, low: &[u8], absorbs: u64, copy: &mut LeafCopy) -> Result<u64> {
        let now = self.core.absorbs.load(Relaxed);
        self.copy_leaf(None, low, copy)?;
        // ORDERING: who absorbs a leaf has counted before the latch is given back under which that becomes visible.
        let absorbed = copy.low_fence() < low && self.core.absorbs.load(Relaxed) != absorbs;
        if copy.low_fence() == low || absorbed {
            return Ok(now);
        }
        Err(Error::corrupt(
            format!("table {:?}, page {}", self.name(), copy.id()),
            "its low fence is not the high fence of the leaf before it",
        ))
    }

    fn check_end(&self, last: &LeafCopy) -> Result<()> {
        if last.right() == PageId::NONE {
            return Ok(());
        }
        Err(Error::corrupt(format!("page {}", last.id()), "it has no high fence but a right neighbour"))
    }
}
