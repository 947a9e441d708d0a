//! Removing the rows of a range in a transaction, or that at one of its ends.
//!
//! Each removal of a range is what [`Tree::write`] does; what is saved is the way to the row, and its value: the rows of a leaf are
//! locked together (`txn/scan.rs`) and removed one after the other, and nobody reads a value, be it large, but to log what
//! a rollback puts back.

use crate::bounds::{RawBounds, is_empty};
use crate::error::Result;
use crate::tree::single::Intent;
use crate::tree::{Tree, Values};
use crate::txn::{Direction, Scan, Txn};
use crate::version::Version;
use std::sync::Arc;

impl Tree {
    /// Removes the first rows between the bounds, at most so many; says how many. `gaps`: are others kept from inserting there?
    /// After an error nothing is removed.
    pub fn remove_range(
        self: &Arc<Self>,
        txn: &mut Txn,
        gaps: bool,
        (from, to): RawBounds,
        rows_max: u64,
    ) -> Result<u64> {
        if is_empty(&from, &to) {
            return Ok(0);
        }
        txn.as_a_whole(|txn| {
            let mut scan = Scan::new(self.clone(), Direction::Ascending, gaps, from, to).for_update();
            let mut removed = 0;
            while removed < rows_max
                && let Some(run) = scan.next_run(txn, rows_max - removed)?
            {
                txn.ensure_wanted()?;
                for index in run {
                    if !Version(scan.leaf().version(index)?).is_ghost() {
                        let key = scan.leaf().row(index)?.key;
                        removed += u64::from(self.write(txn, key, Intent::Remove)?);
                    }
                }
            }
            scan.end(txn);
            Ok(removed)
        })
    }

    /// Removes the row between the bounds that a walk in this direction begins with, and returns it. `gaps`: are others kept from
    /// inserting one before it, or any where there is none?
    ///
    /// It is locked for that at once: two who had both read it could only wait for each other.
    pub fn pop(
        self: &Arc<Self>,
        txn: &mut Txn,
        gaps: bool,
        direction: Direction,
        (from, to): RawBounds,
    ) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        if is_empty(&from, &to) {
            return Ok(None);
        }
        let (begin, end) = match direction {
            Direction::Ascending => (from, to),
            Direction::Descending => (to, from),
        };
        let mut scan = Scan::new(self.clone(), direction, gaps, begin, end).for_update();
        let row = scan.next(txn, Values::Read)?;
        if let Some((key, _)) = &row {
            self.write(txn, key, Intent::Remove)?;
        }
        Ok(row)
    }
}
