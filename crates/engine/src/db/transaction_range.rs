//! Ranges within a read-write transaction.

use crate::bounds::{exclude, is_before, is_beyond, is_empty};
use crate::db::isolation::Isolation;
use crate::db::table::ByteTable;
use crate::db::transaction::Shared;
use crate::error::{Error, Result};
use crate::tree::{Backward, Forward, Tree};
use crate::txn::{Direction, Scan, Txn};
use foreshore_base::Lsn;
use std::ops::Bound;
use std::sync::Arc;

type Row = (Vec<u8>, Vec<u8>);

/// Rows of a table within a transaction, from either end. Each row is locked before it is returned, as the isolation
/// asks; the iterator itself holds nothing, so its transaction may write meanwhile, also into the range.
pub struct TransactionRange {
    shared: Arc<Shared>,
    tree: Arc<Tree>,
    /// Is the table of another database?
    foreign: bool,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    front: Option<Front>,
    back: Option<Back>,
    done: bool,
}

/// The ascending end. A walk that takes no locks goes on in its private copy of a leaf, whose versions only a view from
/// before the copy can judge: who has ended since may have rolled back, or written again. So its view stays. It also
/// remembers the transaction's last record: when that has changed, the copy lacks what the transaction itself did.
enum Front {
    Locking(Scan),
    Reading(Forward, Lsn),
}

/// The descending end.
enum Back {
    Locking(Scan),
    Reading(Backward, Lsn),
}

impl TransactionRange {
    pub(crate) fn new(
        shared: Arc<Shared>,
        table: &ByteTable,
        from: Bound<Vec<u8>>,
        to: Bound<Vec<u8>>,
    ) -> Self {
        let done = is_empty(&from, &to);
        let foreign = !shared.is_of(table);
        Self { shared, tree: table.tree.clone(), foreign, from, to, front: None, back: None, done }
    }

    /// Are rows locked, and are gaps?
    fn locks(&self) -> Option<bool> {
        match self.shared.options.isolation {
            Isolation::Serializable => Some(true),
            Isolation::RepeatableRead => Some(false),
            Isolation::ReadCommitted => None,
        }
    }

    fn advance(&mut self) -> Result<Option<Row>> {
        let shared = self.shared.clone();
        shared.with(|txn| {
            let row = self.next_above(txn)?.filter(|(key, _)| !is_beyond(key, &self.to));
            if let Some((key, _)) = &row {
                exclude(&mut self.from, key);
            }
            Ok(row)
        })
    }

    fn next_above(&mut self, txn: &mut Txn) -> Result<Option<Row>> {
        txn.enter(&self.tree)?;
        if matches!(&self.front, Some(Front::Reading(_, last)) if *last != txn.last) {
            self.front = None;
        }
        if self.front.is_none() {
            let (tree, from, to) = (self.tree.clone(), self.from.clone(), self.to.clone());
            self.front = Some(match self.locks() {
                Some(gaps) => Front::Locking(Scan::new(tree, Direction::Ascending, gaps, from, to)),
                None => Front::Reading(Forward::new(tree, txn.view(), from, to), txn.last),
            });
        }
        match self.front.as_mut().expect("just made") {
            Front::Locking(scan) => scan.next(txn),
            Front::Reading(rows, _) => Ok(rows.next()?.map(|(key, value)| (key.to_vec(), value.to_vec()))),
        }
    }

    fn retreat(&mut self) -> Result<Option<Row>> {
        let shared = self.shared.clone();
        shared.with(|txn| {
            let row = self.next_below(txn)?.filter(|(key, _)| !is_before(key, &self.from));
            if let Some((key, _)) = &row {
                exclude(&mut self.to, key);
            }
            Ok(row)
        })
    }

    fn next_below(&mut self, txn: &mut Txn) -> Result<Option<Row>> {
        txn.enter(&self.tree)?;
        if matches!(&self.back, Some(Back::Reading(_, last)) if *last != txn.last) {
            self.back = None;
        }
        if self.back.is_none() {
            let (tree, from, to) = (self.tree.clone(), self.from.clone(), self.to.clone());
            self.back = Some(match self.locks() {
                Some(gaps) => Back::Locking(Scan::new(tree, Direction::Descending, gaps, to, from)),
                None => Back::Reading(Backward::new(tree, txn.view(), to), txn.last),
            });
        }
        match self.back.as_mut().expect("just made") {
            Back::Locking(scan) => scan.next(txn),
            Back::Reading(rows, _) => Ok(rows.next()?.map(|(key, value)| (key.to_vec(), value.to_vec()))),
        }
    }

    /// After an error that ended the transaction there is nothing more to come; after others the walk can go on.
    fn finish(&mut self, row: Result<Option<Row>>) -> Option<Result<Row>> {
        self.done = match &row {
            Ok(row) => row.is_none(),
            Err(error) => !matches!(error, Error::LockTimeout { .. }),
        };
        row.transpose()
    }

    fn is_foreign(&mut self) -> Option<Result<Row>> {
        if !self.foreign {
            return None;
        }
        self.done = true;
        Some(Err(Error::Argument("the table is of another database than the transaction".into())))
    }
}

impl Iterator for TransactionRange {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        if let Some(error) = self.is_foreign() {
            return Some(error);
        }
        let row = self.advance();
        self.finish(row)
    }
}

impl DoubleEndedIterator for TransactionRange {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        if let Some(error) = self.is_foreign() {
            return Some(error);
        }
        let row = self.retreat();
        self.finish(row)
    }
}
