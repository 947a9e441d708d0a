//! Iterators over rows, in both directions.

use crate::bounds::{RawBounds, exclude, is_before, is_beyond, is_empty};
use crate::db::byte_table::ByteTable;
use crate::db::codec::{Key, Met, Value, decode_row, encode_key};
use crate::db::prefix::KeyComponent;
use crate::db::snapshot::OpenSnapshot;
use crate::db::transaction_range::TransactionRange;
use crate::error::{Error, Result};
use crate::tree::{Backward, Forward, Values};
use crate::txn::View;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::{Bound, Range as HalfOpen, RangeBounds};
use std::ops::{RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};
use std::sync::Arc;
use std::time::Instant;

/// What `range` of a table with typed keys accepts: `..`, `a..b`, `a..=b`, `a..`, `..b`, `..=b`, or a pair of [`Bound`]s. The keys may
/// be given in a borrowed form ([`KeyComponent`]), as those that `get` takes. (The standard `RangeBounds` would ask for a turbofish
/// on `..`.)
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// # let db = foreshore::Database::in_memory()?;
/// use std::ops::Bound;
/// let squares = db.table::<u32, u32>("squares")?;
/// squares.bulk_load((0..10).map(|n| (n, n * n)))?;
/// assert_eq!(squares.range(..).count(), 10);
/// assert_eq!(squares.range(3..5).count(), 2);
/// assert_eq!(squares.range(3..=5).count(), 3);
/// assert_eq!(squares.range((Bound::Excluded(3), Bound::Unbounded)).count(), 6);
///
/// let ages = db.table::<String, u32>("ages")?;
/// ages.put_many(&[("ada".into(), 36), ("ben".into(), 40), ("cleo".into(), 39)])?;
/// assert_eq!(ages.range("b"..).count(), 2); // no `String` is needed to ask
/// let last = ages.last()?.expect("there are three").0;
/// assert_eq!(ages.range(..&last).count(), 2);
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no range of keys `{K}`",
    note = "bounds are of the key's own type, or references to it, where `&str` stands for `String` and a slice for a `Vec`"
)]
pub trait KeyBounds<K> {
    /// The bounds as encoded keys.
    #[doc(hidden)]
    fn encoded(&self) -> Result<RawBounds>;
}

/// What `range` of a table of byte strings accepts: as [`KeyBounds`], of whatever is bytes.
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// # let db = foreshore::Database::in_memory()?;
/// # let t = db.byte_table("t")?;
/// t.put_many(&[("a", "1"), ("b", "2"), ("c", "3")])?;
/// assert_eq!(t.range("a".."c").count(), 2);
/// assert_eq!(t.range(..=b"a").count(), 1);
/// assert_eq!(t.range(vec![b'b']..).count(), 2);
/// # Ok(()) }
/// ```
pub trait ByteBounds {
    /// The bounds as byte strings.
    #[doc(hidden)]
    fn raw(&self) -> RawBounds;
}

impl<K> KeyBounds<K> for RangeFull {
    fn encoded(&self) -> Result<RawBounds> {
        Ok(self.raw())
    }
}

impl ByteBounds for RangeFull {
    fn raw(&self) -> RawBounds {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

/// The standard library's ranges; of an inclusive one that was walked to its end nothing is left, as there.
macro_rules! key_bounds {
    ($key:ident: $($range:ty),+) => {$(
        impl<K, $key: KeyComponent<K>> KeyBounds<K> for $range {
            fn encoded(&self) -> Result<RawBounds> {
                let encode = |bound: Bound<&$key>| match bound {
                    Bound::Included(key) => encode_key(key).map(Bound::Included),
                    Bound::Excluded(key) => encode_key(key).map(Bound::Excluded),
                    Bound::Unbounded => Ok(Bound::Unbounded),
                };
                Ok((encode(self.start_bound())?, encode(self.end_bound())?))
            }
        }

        impl<$key: AsRef<[u8]>> ByteBounds for $range {
            fn raw(&self) -> RawBounds {
                let copy = |bound: Bound<&$key>| bound.map(|key| key.as_ref().to_vec());
                (copy(self.start_bound()), copy(self.end_bound()))
            }
        }
    )+};
}

key_bounds!(Q: HalfOpen<Q>, RangeInclusive<Q>, RangeFrom<Q>, RangeTo<Q>, RangeToInclusive<Q>, (Bound<Q>, Bound<Q>));

/// Rows of a [`ByteTable`](crate::ByteTable) in key order, from either end. Holds nothing: no latch, no lock, no page.
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// # let db = foreshore::Database::in_memory()?;
/// # let t = db.byte_table("t")?;
/// t.put_many(&[("a", "1"), ("b", "2"), ("c", "3")])?;
/// let mut rows = t.range(..);
/// assert_eq!(rows.next().expect("a row")?.0, b"a");
/// assert_eq!(rows.next_back().expect("a row")?.0, b"c");
/// t.put(b"d", b"written meanwhile")?; // nothing is locked
/// assert_eq!(rows.next().expect("a row")?.0, b"b");
/// assert!(rows.next().is_none(), "the two ends have met");
/// # Ok(()) }
/// ```
pub struct ByteRange {
    /// Keeps the database open.
    table: ByteTable,
    view: View,
    /// Keeps the snapshot open that the view is of, if it is of one.
    snapshot: Option<Arc<OpenSnapshot>>,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    values: Values,
    ends: Option<Instant>,
    front: Option<Forward>,
    back: Option<Backward>,
    done: bool,
}

impl std::fmt::Debug for ByteRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { table, from, to, .. } = self;
        f.debug_struct("ByteRange")
            .field("table", table)
            .field("from", from)
            .field("to", to)
            .finish_non_exhaustive()
    }
}

impl ByteRange {
    /// What is committed, each leaf as it is when it is read.
    pub(crate) fn new(table: ByteTable, (from, to): RawBounds) -> Self {
        let done = is_empty(&from, &to);
        let (view, values) = (table.latest(), Values::Read);
        Self { table, view, snapshot: None, from, to, values, ends: None, front: None, back: None, done }
    }

    /// What a snapshot sees.
    pub(crate) fn of_snapshot(table: ByteTable, snapshot: Arc<OpenSnapshot>, bounds: RawBounds) -> Self {
        Self { view: snapshot.view(), snapshot: Some(snapshot), ..Self::new(table, bounds) }
    }

    /// The same rows with empty values, which are not read, however large they are.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// t.put_many(&[("a", vec![b'x'; 10 << 20]), ("b", vec![])])?;
    /// let keys = t.range(..).keys_only().map(|row| row.map(|(key, _)| key));
    /// assert_eq!(keys.rev().collect::<foreshore::Result<Vec<_>>>()?, [b"b", b"a"]);
    /// # Ok(()) }
    /// ```
    pub fn keys_only(mut self) -> Self {
        self.set_keys_only(true);
        self
    }

    /// Says, from the next row on, whether rows come as [`keys_only`](Self::keys_only) says.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// t.put_many(&[("a", "1"), ("b", "2"), ("c", "3")])?;
    /// let mut rows = t.range(..).keys_only();
    /// assert_eq!(rows.next().transpose()?, Some((b"a".to_vec(), vec![])));
    /// rows.set_keys_only(false); // this far nobody asked for values
    /// assert_eq!(rows.next().transpose()?, Some((b"b".to_vec(), b"2".to_vec())));
    /// # Ok(()) }
    /// ```
    pub fn set_keys_only(&mut self, keys_only: bool) {
        self.values = Values::unless(keys_only);
    }

    /// At this time it ends, be there more rows or not, at the next leaf, but never before it has looked at a row. Said before the first
    /// one is asked for. For the server: an event loop must not walk for long, and rows that others have not committed are many at times.
    #[doc(hidden)]
    pub fn set_ends(&mut self, ends: Instant) {
        self.ends = Some(ends);
    }

    /// The last key that was looked at, if it has ended for that.
    #[doc(hidden)]
    pub fn left_off_at(&self) -> Option<&[u8]> {
        let of_back = || self.back.as_ref().and_then(Backward::left_off_at);
        self.front.as_ref().and_then(Forward::left_off_at).or_else(of_back)
    }

    /// The next row ascending. It also becomes the lower bound, so that the other end stops before it.
    fn advance(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let front = match &mut self.front {
            Some(front) => front,
            None => {
                Self::ensure_ours(&self.snapshot, &self.table)?;
                let (tree, from, to) = (self.table.tree.clone(), self.from.clone(), self.to.clone());
                self.front.insert(Forward::new(tree, self.view, from, to).until(self.ends))
            }
        };
        let Some((key, value)) = front.next(self.values)? else { return Ok(None) };
        if is_beyond(key, &self.to) {
            return Ok(None);
        }
        exclude(&mut self.from, key);
        Ok(Some((key.to_vec(), value.to_vec())))
    }

    /// The next row descending; it becomes the upper bound.
    fn retreat(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let back = match &mut self.back {
            Some(back) => back,
            None => {
                Self::ensure_ours(&self.snapshot, &self.table)?;
                let (tree, from, to) = (self.table.tree.clone(), self.from.clone(), self.to.clone());
                self.back.insert(Backward::new(tree, self.view, to, from).until(self.ends))
            }
        };
        let Some((key, value)) = back.next(self.values)? else { return Ok(None) };
        if is_before(key, &self.from) {
            return Ok(None);
        }
        exclude(&mut self.to, key);
        Ok(Some((key.to_vec(), value.to_vec())))
    }

    fn ensure_ours(snapshot: &Option<Arc<OpenSnapshot>>, table: &ByteTable) -> Result<()> {
        snapshot.as_ref().map_or(Ok(()), |snapshot| snapshot.ensure_ours(table))
    }

    fn finish<T>(&mut self, row: Result<Option<T>>) -> Option<Result<T>> {
        let row = match &self.snapshot {
            Some(snapshot) => snapshot.confirm().and(row),
            None => row,
        };
        self.done = !matches!(row, Ok(Some(_)));
        row.transpose()
    }
}

impl Iterator for ByteRange {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let row = self.advance();
        self.finish(row)
    }
}

impl FusedIterator for ByteRange {}

impl DoubleEndedIterator for ByteRange {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let row = self.retreat();
        self.finish(row)
    }
}

/// Where the bytes of a [`Range`] come from.
pub trait Rows: Iterator<Item = Result<(Vec<u8>, Vec<u8>)>> {
    /// The table's name, for errors.
    fn table(&self) -> &str;
}

impl Rows for ByteRange {
    fn table(&self) -> &str {
        self.table.name()
    }
}

impl Rows for TransactionRange {
    fn table(&self) -> &str {
        self.table_name()
    }
}

/// Rows of a [`Table`](crate::Table) in key order, from either end; `R` is where their bytes come from.
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// # let db = foreshore::Database::in_memory()?;
/// let delays = db.table::<(String, u32), i16>("delays")?; // carrier and number → minutes
/// delays.put_many(&[(("AA".into(), 428), -10), (("AA".into(), 1294), 45), (("WN".into(), 7), 5)])?;
/// // Each row may be an error, so: `?` in a loop, or `collect` into a `Result`.
/// let late = delays.range(..).filter(|row| row.as_ref().map_or(true, |(_, minutes)| *minutes > 0));
/// let late = late.collect::<foreshore::Result<Vec<_>>>()?;
/// assert_eq!(late.len(), 2);
/// # Ok(()) }
/// ```
pub struct Range<K, V, R = ByteRange> {
    rows: Result<R, Option<Error>>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V, R: std::fmt::Debug> std::fmt::Debug for Range<K, V, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Range").field(&self.rows).finish()
    }
}

impl<K, V, R> Range<K, V, R> {
    /// An error becomes the only row.
    pub(crate) fn new(rows: Result<R>) -> Self {
        Self { rows: rows.map_err(Some), types: PhantomData }
    }

    /// The same rows with `()` for values, where `empty` makes those of the bytes empty.
    fn without_values(self, empty: impl FnOnce(R) -> R) -> Range<K, (), R> {
        Range { rows: self.rows.map(empty), types: PhantomData }
    }
}

impl<K, V> Range<K, V> {
    /// The same rows with `()` for values: these are neither read, however large they are, nor decoded.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let photos = db.table::<(String, u32), Vec<u8>>("photos")?; // album and number → a picture
    /// photos.put_many(&[(("sea".into(), 1), vec![0; 5 << 20]), (("sea".into(), 2), vec![0; 3 << 20])])?;
    /// let numbers = photos.prefix(&("sea",)).keys_only().map(|row| row.map(|((_, number), ())| number));
    /// assert_eq!(numbers.rev().collect::<foreshore::Result<Vec<_>>>()?, [2, 1]);
    /// # Ok(()) }
    /// ```
    pub fn keys_only(self) -> Range<K, ()> {
        self.without_values(ByteRange::keys_only)
    }
}

impl<K, V> Range<K, V, TransactionRange> {
    /// The same rows with `()` for values: these are neither read, however large they are, nor decoded. Locks are the same.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let drafts = db.table::<u32, String>("drafts")?;
    /// drafts.put_many(&[(1, "Dear Ada,".into()), (2, "Dear Ben,".into())])?;
    /// let number = db.transact(|tx| {
    ///     let drafts = tx.table(&drafts);
    ///     let last = drafts.range(..).keys_only().next_back().transpose()?;
    ///     let number = last.map_or(1, |(number, ())| number + 1);
    ///     drafts.put(&number, &String::new())?;
    ///     Ok(number)
    /// })?;
    /// assert_eq!(number, 3);
    /// # Ok(()) }
    /// ```
    pub fn keys_only(self) -> Range<K, (), TransactionRange> {
        self.without_values(TransactionRange::keys_only)
    }
}

impl<K: Key, V: Value, R: Rows> Iterator for Range<K, V, R> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.rows {
            Ok(rows) => Some(rows.next()?.and_then(decode_row).in_table(rows.table())),
            Err(error) => error.take().map(Err),
        }
    }
}

impl<K: Key, V: Value, R: Rows + FusedIterator> FusedIterator for Range<K, V, R> {}

impl<K: Key, V: Value, R: Rows + DoubleEndedIterator> DoubleEndedIterator for Range<K, V, R> {
    fn next_back(&mut self) -> Option<Self::Item> {
        match &mut self.rows {
            Ok(rows) => Some(rows.next_back()?.and_then(decode_row).in_table(rows.table())),
            Err(error) => error.take().map(Err),
        }
    }
}
