//! Ranges within a read-write transaction.

use crate::bounds::{RawBounds, exclude, is_before, is_beyond, is_empty};
use crate::db::byte_table::ByteTable;
use crate::db::transaction::Shared;
use crate::error::{Error, Result};
use crate::tree::{Backward, Forward, Tree, Values};
use crate::txn::{Direction, Scan, Txn};
use foreshore_base::Lsn;
use std::ops::Bound;
use std::sync::Arc;

type Row = (Vec<u8>, Vec<u8>);

/// Rows of a table within a transaction, from either end. Each row is locked before it is returned, as the isolation
/// asks; the iterator itself holds nothing, so its transaction may write meanwhile, also into the range.
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// # let db = foreshore::Database::in_memory()?;
/// let t = db.byte_table("t")?;
/// t.put_many(&[("a", "1"), ("b", "2"), ("c", "3")])?;
/// let tx = db.begin()?;
/// let mut rows = tx.bytes(&t).range(..);
/// assert_eq!(rows.next().transpose()?.map(|row| row.0), Some(b"a".to_vec()));
/// tx.bytes(&t).put(b"bb", b"new")?; // into the range: it will be met
/// let rest = rows.rev().map(|row| row.map(|row| row.0)).collect::<foreshore::Result<Vec<_>>>()?;
/// assert_eq!(rest, [&b"c"[..], b"bb", b"b"]);
/// # Ok(()) }
/// ```
pub struct TransactionRange {
    shared: Arc<Shared>,
    tree: Arc<Tree>,
    /// Or why it is none of the transaction's; hardly ever, and errors are large.
    ours: Result<(), Box<Error>>,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    values: Values,
    /// One for each [`Direction`].
    walks: [Option<Walk>; 2],
    done: bool,
}

/// One end. A walk that takes no locks goes on in its private copy of a leaf, whose versions only a view from before the
/// copy can judge: who has ended since may have rolled back, or written again. So its view stays. It also remembers the
/// transaction's last record: when that has changed, the copy lacks what the transaction itself did.
enum Walk {
    Locking(Scan),
    Ascending(Forward, Lsn),
    Descending(Backward, Lsn),
}

impl Walk {
    #[inline]
    fn next(&mut self, txn: &mut Txn, values: Values) -> Result<Option<Row>> {
        let row = match self {
            Walk::Locking(scan) => return scan.next(txn, values),
            Walk::Ascending(rows, _) => rows.next(values)?,
            Walk::Descending(rows, _) => rows.next(values)?,
        };
        Ok(row.map(|(key, value)| (key.to_vec(), value.to_vec())))
    }

    /// Has the transaction written since?
    fn is_stale(&self, txn: &Txn) -> bool {
        match self {
            Walk::Locking(_) => false,
            Walk::Ascending(_, last) | Walk::Descending(_, last) => *last != txn.last,
        }
    }
}

impl std::fmt::Debug for TransactionRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { tree, from, to, .. } = self;
        f.debug_struct("TransactionRange")
            .field("table", &tree.name())
            .field("from", from)
            .field("to", to)
            .finish_non_exhaustive()
    }
}

impl TransactionRange {
    pub(crate) fn new(shared: Arc<Shared>, table: &ByteTable, (from, to): RawBounds) -> Self {
        let done = is_empty(&from, &to);
        let ours = shared.ensure_ours(table).map_err(Box::new);
        let (tree, values) = (table.tree.clone(), Values::Read);
        Self { shared, tree, ours, from, to, values, walks: [None, None], done }
    }

    /// The same rows with empty values, which are not read, however large they are. Locks are the same.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// t.put_many(&[("a", vec![b'x'; 10 << 20]), ("b", vec![])])?;
    /// let tx = db.begin()?;
    /// let last = tx.bytes(&t).range(..).keys_only().next_back();
    /// assert_eq!(last.transpose()?, Some((b"b".to_vec(), vec![])));
    /// # Ok(()) }
    /// ```
    pub fn keys_only(mut self) -> Self {
        self.set_keys_only(true);
        self
    }

    /// Says, from the next row on, whether rows come as [`keys_only`](Self::keys_only) says. See
    /// [`ByteRange::set_keys_only`](crate::ByteRange::set_keys_only) for an example.
    pub fn set_keys_only(&mut self, keys_only: bool) {
        self.values = Values::unless(keys_only);
    }

    pub(crate) fn table_name(&self) -> &str {
        self.tree.name()
    }

    fn next_row(&mut self, direction: Direction) -> Option<Result<Row>> {
        if self.done {
            return None;
        }
        let row = self.move_on(direction);
        if row.is_err() {
            // It has perhaps passed removed rows, where the transaction itself may put some before the next call.
            self.walks[direction as usize] = None;
        }
        // After a wait in vain a new walk goes on; after any other error there is nothing more to come.
        self.done = match &row {
            Ok(row) => row.is_none(),
            Err(error) => !matches!(error, Error::LockTimeout { .. }),
        };
        row.transpose()
    }

    /// The next row of one end. It becomes the bound at which the other end stops.
    #[inline]
    fn move_on(&mut self, direction: Direction) -> Result<Option<Row>> {
        self.ours.clone().map_err(|error| *error)?;
        let shared = self.shared.clone();
        shared.with(|txn| {
            txn.enter(&self.tree)?;
            let values = self.values;
            let Some(row) = self.walk(txn, direction).next(txn, values)? else { return Ok(None) };
            let (is_beyond_the_other_end, bound) = match direction {
                Direction::Ascending => (is_beyond(&row.0, &self.to), &mut self.from),
                Direction::Descending => (is_before(&row.0, &self.from), &mut self.to),
            };
            if is_beyond_the_other_end {
                return Ok(None);
            }
            exclude(bound, &row.0);
            Ok(Some(row))
        })
    }

    /// The walk of one end, begun anew if it is stale.
    #[inline]
    fn walk(&mut self, txn: &Txn, direction: Direction) -> &mut Walk {
        let isolation = self.shared.options.isolation;
        let walk = &mut self.walks[direction as usize];
        walk.take_if(|walk| walk.is_stale(txn));
        walk.get_or_insert_with(|| {
            let (begin, end) = match direction {
                Direction::Ascending => (self.from.clone(), self.to.clone()),
                Direction::Descending => (self.to.clone(), self.from.clone()),
            };
            let tree = self.tree.clone();
            if isolation.locks_rows() {
                return Walk::Locking(Scan::new(tree, direction, isolation.locks_gaps(), begin, end));
            }
            match direction {
                Direction::Ascending => Walk::Ascending(Forward::new(tree, txn.view(), begin, end), txn.last),
                Direction::Descending => {
                    Walk::Descending(Backward::new(tree, txn.view(), begin, end), txn.last)
                }
            }
        })
    }
}

impl Drop for TransactionRange {
    fn drop(&mut self) {
        for walk in &mut self.walks {
            if let Some(Walk::Locking(scan)) = walk
                && scan.has_locked()
            {
                self.shared.try_with(|txn| scan.end(txn));
            }
        }
    }
}

impl Iterator for TransactionRange {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_row(Direction::Ascending)
    }
}

impl std::iter::FusedIterator for TransactionRange {}

impl DoubleEndedIterator for TransactionRange {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.next_row(Direction::Descending)
    }
}
