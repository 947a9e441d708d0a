//! Tables of byte strings, as transactions see and change them.

use crate::bounds::{RawBounds, beginning_with};
use crate::db::byte_table::ByteTable;
use crate::db::isolation::Isolation;
use crate::db::range::ByteBounds;
use crate::db::transaction::Shared;
use crate::db::transaction_range::TransactionRange;
use crate::error::Result;
use crate::lock::{KeyMode, Reach};
use crate::tree::Intent;
use crate::txn::{Direction, Txn, View};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// A [`ByteTable`] as a transaction sees and changes it. Errors beside those of the table: [`Deadlock`](crate::Error::Deadlock) and
/// [`Aborted`](crate::Error::Aborted) (the transaction is rolled back), [`LockTimeout`](crate::Error::LockTimeout),
/// [`Ended`](crate::Error::Ended).
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// # let db = foreshore::Database::in_memory()?;
/// let pages = db.byte_table("pages")?;
/// db.transact(|tx| {
///     let pages = tx.bytes(&pages);
///     pages.put(b"/a", b"moved to /b")?;
///     pages.put(b"/b", b"<h1>Hello</h1>") // nobody sees the one without the other
/// })?;
/// assert_eq!(pages.range(..).count(), 2);
/// # Ok(()) }
/// ```
pub struct TransactionBytes<'t> {
    pub(super) shared: &'t Arc<Shared>,
    pub(super) table: &'t ByteTable,
}

impl std::fmt::Debug for TransactionBytes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TransactionBytes({:?})", self.table.name())
    }
}

impl TransactionBytes<'_> {
    /// The value of `key`, copied out.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let t = db.byte_table("t")?;
    /// t.put(b"k", b"v")?;
    /// let tx = db.begin()?;
    /// tx.bytes(&t).remove(b"k")?;
    /// assert_eq!(tx.bytes(&t).get(b"k")?, None, "it sees what it did");
    /// tx.rollback()?;
    /// assert_eq!(t.get(b"k")?.as_deref(), Some(&b"v"[..]));
    /// # Ok(()) }
    /// ```
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// Replaces the content of `value` by the value of `key`; `false`, and an empty `value`, if there is none.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let t = db.byte_table("t")?;
    /// t.put_many(&[(b"a", [3]), (b"b", [4])])?;
    /// let sum = db.transact(|tx| {
    ///     let (mut value, mut sum) = (Vec::new(), 0); // one buffer for all
    ///     for key in [b"a", b"b", b"c"] {
    ///         if tx.bytes(&t).get_into(key, &mut value)? {
    ///             sum += value[0];
    ///         }
    ///     }
    ///     Ok(sum)
    /// })?;
    /// assert_eq!(sum, 7);
    /// # Ok(()) }
    /// ```
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let (tree, locks) = (&self.table.tree, self.isolation().locks_rows());
        self.work(|txn| {
            txn.enter(tree)?;
            match locks {
                true => tree.get_locked(txn, key, value),
                false => tree.get(&txn.view(), key, value),
            }
        })
    }

    /// As [`TransactionBytes::get`], for a row that is going to be changed: nobody else can lock it meanwhile, so two
    /// transactions that do this to the same row do not deadlock.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// t.put(b"visits", &[7])?;
    /// db.transact(|tx| {
    ///     let visits = tx.bytes(&t).get_for_update(b"visits")?.map_or(0, |value| value[0]);
    ///     tx.bytes(&t).put(b"visits", &[visits + 1])
    /// })?;
    /// assert_eq!(t.get(b"visits")?, Some(vec![8]));
    /// # Ok(()) }
    /// ```
    pub fn get_for_update(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_for_update_into(key, &mut value)?.then_some(value))
    }

    /// As [`TransactionBytes::get_for_update`], replacing the content of `value`; `false`, and an empty `value`, if there
    /// is none.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let hits = db.byte_table("hits")?;
    /// hits.put(b"/index.html", &41_u64.to_le_bytes())?;
    /// let mut value = Vec::new();
    /// db.transact(|tx| {
    ///     let hits = tx.bytes(&hits);
    ///     if hits.get_for_update_into(b"/index.html", &mut value)? {
    ///         value[0] += 1; // changed where it is
    ///         hits.put(b"/index.html", &value)?;
    ///     }
    ///     Ok(())
    /// })?;
    /// assert_eq!(hits.get(b"/index.html")?, Some(42_u64.to_le_bytes().to_vec()));
    /// # Ok(()) }
    /// ```
    pub fn get_for_update_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let tree = &self.table.tree;
        self.work(|txn| {
            txn.enter(tree)?;
            tree.get_for_update(txn, key, value)
        })
    }

    /// Is there a value for `key`?
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// db.transact(|tx| {
    ///     if !tx.bytes(&t).contains(b"admin")? { // and nobody puts it there until we have
    ///         tx.bytes(&t).put(b"first user", b"becomes the admin")?;
    ///     }
    ///     Ok(())
    /// })?;
    /// assert!(t.contains(b"first user")?);
    /// # Ok(()) }
    /// ```
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        let (tree, locks) = (&self.table.tree, self.isolation().locks_rows());
        self.work(|txn| {
            txn.enter(tree)?;
            if !locks {
                return tree.contains(&txn.view(), key);
            }
            txn.lock(tree, key, KeyMode::Shared, Reach::NONE)?;
            tree.contains(&View::NEWEST, key)
        })
    }

    /// The values of many keys, in their order. Faster than one `get` each when the data is larger than the
    /// processor's caches. The keys are locked one after another.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// t.put(b"b", b"2")?;
    /// let tx = db.begin()?;
    /// assert_eq!(tx.bytes(&t).multi_get(&[b"a", b"b"])?, [None, Some(b"2".to_vec())]);
    /// # Ok(()) }
    /// ```
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut values = Vec::with_capacity(keys.len());
        self.multi_get_with(keys, |value| {
            values.push(value.map(<[u8]>::to_vec));
            ControlFlow::Continue(())
        })?;
        Ok(values)
    }

    /// As [`TransactionBytes::multi_get`], but calls `read` with one value after the other, until it breaks: nothing is
    /// allocated per key.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let t = db.byte_table("t")?;
    /// t.put_many(&[(b"a", "first"), (b"b", "second")])?;
    /// let (tx, mut bytes) = (db.begin()?, 0);
    /// tx.bytes(&t).multi_get_with(&[b"a", b"b", b"c"], |value| {
    ///     bytes += value.map_or(0, <[u8]>::len);
    ///     std::ops::ControlFlow::Continue(())
    /// })?;
    /// assert_eq!(bytes, 11);
    /// # Ok(()) }
    /// ```
    pub fn multi_get_with<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut read: impl FnMut(Option<&[u8]>) -> ControlFlow<()>,
    ) -> Result<()> {
        let (tree, locks) = (&self.table.tree, self.isolation().locks_rows());
        let mut value = Vec::new();
        tree.each_to_lock(keys, |near, key| {
            let found = self.work(|txn| {
                txn.enter(tree)?;
                match locks {
                    true => tree.get_locked_near(txn, near, key, &mut value),
                    false => tree.get_near(&txn.view(), near.way, key, &mut value),
                }
            })?;
            Ok(read(found.then_some(&value)))
        })
    }

    /// Changes the row of `key`: `change` gets its value, `None` if there is none, and leaves what it is to be, `None` to remove it.
    /// Returns what `change` does. The same as [`get_for_update`](TransactionBytes::get_for_update), and then
    /// [`put`](TransactionBytes::put) or [`remove`](TransactionBytes::remove).
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let stock = db.byte_table("stock")?;
    /// stock.put(b"apples", &[1])?;
    /// let sold = db.transact(|tx| {
    ///     tx.bytes(&stock).modify(b"apples", |left| match left.as_mut() {
    ///         Some(left) if left[0] > 0 => {
    ///             left[0] -= 1;
    ///             true
    ///         }
    ///         _ => false,
    ///     })
    /// })?;
    /// assert!(sold);
    /// assert_eq!(stock.get(b"apples")?, Some(vec![0]));
    /// # Ok(()) }
    /// ```
    pub fn modify<R>(&self, key: &[u8], change: impl FnOnce(&mut Option<Vec<u8>>) -> R) -> Result<R> {
        self.modify_or_fail(key, |value| Ok(change(value)))
    }

    pub(super) fn modify_or_fail<R>(
        &self,
        key: &[u8],
        change: impl FnOnce(&mut Option<Vec<u8>>) -> Result<R>,
    ) -> Result<R> {
        let mut value = self.get_for_update(key)?;
        let found = value.is_some();
        let told = change(&mut value)?;
        match value {
            Some(value) => self.put(key, &value)?,
            None if found => _ = self.remove(key)?,
            None => {}
        }
        Ok(told)
    }

    /// Changes the rows of many keys, in their order: `change` gets each value, `None` if there is none, and leaves what
    /// it is to be, `None` to remove it. Once it breaks, that row and those after it stay as they are. Faster than
    /// [`get_for_update`](TransactionBytes::get_for_update) and [`put`](TransactionBytes::put) for each when the data is
    /// larger than the processor's caches. The rows are locked one after another: transactions that name them in the same
    /// order do not deadlock over them.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let stock = db.byte_table("stock")?;
    /// stock.put(b"apples", &[7])?;
    /// stock.put(b"pears", &[5])?;
    /// let tx = db.begin()?;
    /// tx.bytes(&stock).multi_modify(&[b"apples".as_slice(), b"pears"], |left| {
    ///     left.as_mut().expect("in stock")[0] -= 1;
    ///     std::ops::ControlFlow::Continue(())
    /// })?;
    /// tx.commit()?;
    /// assert_eq!(stock.multi_get(&[b"apples".as_slice(), b"pears"])?, [Some(vec![6]), Some(vec![4])]);
    /// # Ok(()) }
    /// ```
    pub fn multi_modify<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut change: impl FnMut(&mut Option<Vec<u8>>) -> ControlFlow<()>,
    ) -> Result<()> {
        let tree = &self.table.tree;
        let mut row = Vec::new();
        tree.each_to_lock(keys, |near, key| {
            let found = self.work(|txn| {
                txn.enter(tree)?;
                tree.get_for_update_near(txn, near, key, &mut row)
            })?;
            let mut value = found.then(|| std::mem::take(&mut row));
            if change(&mut value).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            match value {
                Some(value) => {
                    self.put(key, &value)?;
                    row = value;
                }
                None if found => _ = self.remove(key)?,
                None => {}
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Sets the value of `key`, whether or not it had one.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// db.transact(|tx| {
    ///     let t = tx.bytes(&t);
    ///     t.put(b"from", b"70")?;
    ///     t.put(b"to", b"30")
    /// })?;
    /// assert_eq!(t.multi_get(&["from", "to"])?, [Some(b"70".to_vec()), Some(b"30".to_vec())]);
    /// # Ok(()) }
    /// ```
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(key, Intent::Put(value)).map(|_| ())
    }

    /// Sets the value of `key` unless it has one; says whether it did.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// let tx = db.begin()?;
    /// assert!(tx.bytes(&t).insert(b"seat 12", b"ada")?);
    /// assert!(!tx.bytes(&t).insert(b"seat 12", b"ben")?);
    /// assert!(tx.bytes(&t).remove(b"seat 12")? && !tx.bytes(&t).remove(b"seat 12")?);
    /// # Ok(()) }
    /// ```
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.write(key, Intent::Insert(value))
    }

    /// Removes `key`; says whether it was there.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// t.put(b"old name", b"ada")?;
    /// db.transact(|tx| {
    ///     let t = tx.bytes(&t);
    ///     if let Some(value) = t.get_for_update(b"old name")? {
    ///         t.remove(b"old name")?;
    ///         t.put(b"new name", &value)?;
    ///     }
    ///     Ok(())
    /// })?;
    /// assert!(t.contains(b"new name")? && !t.contains(b"old name")?);
    /// # Ok(()) }
    /// ```
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        self.write(key, Intent::Remove)
    }

    /// Removes the rows whose keys lie in `bounds`; says how many. Much faster than [`range`](TransactionBytes::range) and
    /// [`remove`](TransactionBytes::remove): the rows of a leaf are locked together, and their values are not read.
    ///
    /// In a serializable transaction nobody else can insert into the range until it ends. What it has removed is kept until
    /// then, beyond a quarter of [`Builder::old_version_bytes`](crate::Builder::old_version_bytes) on disk. To do it piece by piece, see
    /// [`remove_some`](TransactionBytes::remove_some); to be rid of all rows at once, [drop](crate::Database::drop_table) the table.
    ///
    /// Errors: those of [`remove`](TransactionBytes::remove); no row is removed then.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let events = db.byte_table("events")?;
    /// events.put_many(&[("2024-12-31", ""), ("2025-01-01", ""), ("2025-01-02", "")])?;
    /// let tx = db.begin()?;
    /// assert_eq!(tx.bytes(&events).remove_range(..&b"2025"[..])?, 1);
    /// assert_eq!(tx.bytes(&events).remove_range(..)?, 2);
    /// tx.rollback()?;
    /// assert_eq!(events.range(..).count(), 3);
    /// # Ok(()) }
    /// ```
    pub fn remove_range(&self, bounds: impl ByteBounds) -> Result<u64> {
        self.remove_some(bounds, u64::MAX)
    }

    /// Removes the rows whose keys begin with `prefix`; as [`remove_range`](TransactionBytes::remove_range).
    ///
    /// See [`ByteTable::remove_prefix`] for an example.
    pub fn remove_prefix(&self, prefix: &[u8]) -> Result<u64> {
        self.remove_between(beginning_with(prefix), u64::MAX)
    }

    /// As [`remove_range`](TransactionBytes::remove_range), but at most `rows_max` rows, the first ones: so that many rows are
    /// removed by many transactions, none of which is in the way of others for long.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let log = db.byte_table("log")?;
    /// # log.bulk_load((0..2500_u32).map(|n| (n.to_be_bytes(), b"")))?;
    /// while db.transact(|tx| tx.bytes(&log).remove_some(.., 1000))? > 0 {}
    /// # assert_eq!(log.range(..).count(), 0);
    /// # Ok(()) }
    /// ```
    pub fn remove_some(&self, bounds: impl ByteBounds, rows_max: u64) -> Result<u64> {
        self.remove_between(bounds.raw(), rows_max)
    }

    pub(super) fn remove_between(&self, bounds: RawBounds, rows_max: u64) -> Result<u64> {
        let gaps = self.isolation().locks_gaps();
        self.work(|txn| self.table.tree.remove_range(txn, gaps, bounds, rows_max))
    }

    /// Removes the row with the least key and returns it; `None` if there is none.
    ///
    /// The row is locked before it is read, exclusively: so transactions that do this do not deadlock over it, but one waits
    /// until the other has ended, and then gets the next row, or the same one, if that was rolled back. In a serializable transaction
    /// nobody else inserts a row before it until the transaction ends, nor any where there is none; so who waits for work should
    /// end the transaction in between.
    ///
    /// Each call begins at the end of the table, and passes what was removed there: to take many rows, walk a
    /// [`range`](TransactionBytes::range) and [`remove`](TransactionBytes::remove) them.
    ///
    /// Errors: those of [`remove`](TransactionBytes::remove); the row is there then.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let (waiting, running) = (db.byte_table("waiting")?, db.byte_table("running")?);
    /// waiting.put_many(&[("1", "sweep"), ("2", "polish")])?;
    /// let begin_one = || {
    ///     db.transact(|tx| {
    ///         let Some((number, job)) = tx.bytes(&waiting).pop_first()? else { return Ok(false) };
    ///         tx.bytes(&running).put(&number, &job)?; // it is always in one of the two
    ///         Ok(true)
    ///     })
    /// };
    /// assert!(begin_one()? && begin_one()? && !begin_one()?);
    /// assert_eq!(running.last()?, Some((b"2".to_vec(), b"polish".to_vec())));
    /// # Ok(()) }
    /// ```
    pub fn pop_first(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.pop_first_in(..)
    }

    /// Removes the row with the greatest key and returns it; as [`pop_first`](TransactionBytes::pop_first). In a serializable
    /// transaction nobody else inserts a row behind it until the transaction ends.
    pub fn pop_last(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.pop_last_in(..)
    }

    /// Removes the row with the least key in `bounds` and returns it, as [`pop_first`](TransactionBytes::pop_first): a serializable
    /// transaction keeps others from inserting between where `bounds` begin and the row, or, if there is none, the next one behind them.
    ///
    /// See [`ByteTable::pop_first_in`] for an example.
    pub fn pop_first_in(&self, bounds: impl ByteBounds) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.pop(Direction::Ascending, bounds.raw(), Ok)
    }

    /// Removes the row with the greatest key in `bounds` and returns it, as [`pop_last`](TransactionBytes::pop_last) and
    /// [`pop_first_in`](TransactionBytes::pop_first_in).
    pub fn pop_last_in(&self, bounds: impl ByteBounds) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.pop(Direction::Descending, bounds.raw(), Ok)
    }

    /// What `read`, which must not call the transaction, makes of the row taken. If that is an error or a panic, the row is put back where
    /// it was, which takes no space: what undoes its removal has its place in the log.
    pub(super) fn pop<R>(
        &self,
        direction: Direction,
        bounds: RawBounds,
        read: impl FnOnce((Vec<u8>, Vec<u8>)) -> Result<R>,
    ) -> Result<Option<R>> {
        // All within one call: what another thread does in the transaction meanwhile would be undone, too.
        self.work(|txn| {
            let before = txn.savepoint();
            let row = self.table.tree.pop(txn, self.isolation().locks_gaps(), direction, bounds)?;
            let read = catch_unwind(AssertUnwindSafe(|| row.map(read).transpose()));
            if !matches!(read, Ok(Ok(_))) {
                txn.roll_back_to(before)?; // or all of it is, which the caller is told then
            }
            read.unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// [`insert`](TransactionBytes::insert)s many rows, in their order; says how many of them were not there. Faster than
    /// one call each: rows with ascending keys that go into one leaf are inserted and logged together.
    ///
    /// After an error other than those that roll the transaction back, some of the rows may be there:
    /// [`Transaction::rollback_to`](crate::Transaction::rollback_to) removes them.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let lines = db.byte_table("order lines")?;
    /// let tx = db.begin()?;
    /// let inserted = tx.bytes(&lines).insert_many(&[("17/1", "apples"), ("17/2", "pears")])?;
    /// assert_eq!(inserted, 2);
    /// tx.commit()?;
    /// assert_eq!(lines.get(b"17/2")?.as_deref(), Some(&b"pears"[..]));
    /// # Ok(()) }
    /// ```
    pub fn insert_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, rows: &[(K, V)]) -> Result<usize> {
        self.write_each(rows, Intent::Insert)
    }

    /// [`put`](TransactionBytes::put)s many rows, in their order; see [`insert_many`](TransactionBytes::insert_many).
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let settings = db.byte_table("settings")?;
    /// settings.put(b"host", b"old.example")?;
    /// let tx = db.begin()?;
    /// tx.bytes(&settings).put_many(&[("host", "new.example"), ("port", "443")])?;
    /// assert_eq!(settings.range(..).count(), 1, "nobody sees half of it");
    /// tx.commit()?;
    /// assert_eq!(settings.get(b"host")?.as_deref(), Some(&b"new.example"[..]));
    /// # Ok(()) }
    /// ```
    pub fn put_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, rows: &[(K, V)]) -> Result<()> {
        self.write_each(rows, Intent::Put).map(|_| ())
    }

    /// The rows are asked for their bytes before the call, each once: the caller's `AsRef` may use the transaction, too.
    fn write_each<'r, K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        rows: &'r [(K, V)],
        intent: impl Fn(&'r [u8]) -> Intent<'r>,
    ) -> Result<usize> {
        let rows: Vec<_> = rows.iter().map(|(key, value)| (key.as_ref(), value.as_ref())).collect();
        let make_room = |txn: &mut Txn, len| self.table.make_room_within(txn, len);
        self.work(|txn| self.table.tree.write_each(txn, &rows, intent, make_room))
    }

    fn write(&self, key: &[u8], intent: Intent<'_>) -> Result<bool> {
        self.work(|txn| {
            self.table.make_room_within(txn, intent.value().len())?;
            self.table.tree.write(txn, key, intent)
        })
    }

    /// Rows whose keys lie in `bounds`, ascending; `.rev()` descends. The iterator survives what the transaction writes
    /// meanwhile, also into the range.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// t.put_many(&[("job 1", "done"), ("job 2", "new"), ("job 3", "done")])?;
    /// db.transact(|tx| {
    ///     for job in tx.bytes(&t).range(..) {
    ///         let (key, state) = job?;
    ///         if state == b"done" {
    ///             tx.bytes(&t).remove(&key)?; // while the range goes on
    ///         }
    ///     }
    ///     Ok(())
    /// })?;
    /// assert_eq!(t.range(..).count(), 1);
    /// # Ok(()) }
    /// ```
    pub fn range(&self, bounds: impl ByteBounds) -> TransactionRange {
        self.range_between(bounds.raw())
    }

    /// Rows whose keys begin with `prefix`, ascending; `.rev()` descends.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let t = db.byte_table("sessions")?;
    /// t.put_many(&[("ada/1", ""), ("ada/2", ""), ("ben/1", "")])?;
    /// db.transact(|tx| {
    ///     for session in tx.bytes(&t).prefix(b"ada/") {
    ///         tx.bytes(&t).remove(&session?.0)?; // she leaves
    ///     }
    ///     Ok(())
    /// })?;
    /// assert_eq!(t.range(..).count(), 1);
    /// # Ok(()) }
    /// ```
    pub fn prefix(&self, prefix: &[u8]) -> TransactionRange {
        self.range_between(beginning_with(prefix))
    }

    /// Calls `row` with each key and value in `bounds`, ascending, until it breaks; as fast as [`range`](TransactionBytes::range),
    /// and `row` may use the transaction likewise.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// use std::ops::ControlFlow;
    /// let stock = db.byte_table("stock")?;
    /// stock.put_many(&[("apples", "7"), ("pears", "5")])?;
    /// db.transact(|tx| {
    ///     let mut names = Vec::new();
    ///     tx.bytes(&stock).scan(.., |name, _| {
    ///         names.push(name.to_vec());
    ///         ControlFlow::Continue(())
    ///     })?;
    ///     assert_eq!(names, [&b"apples"[..], b"pears"]);
    ///     Ok(())
    /// })
    /// # }
    /// ```
    pub fn scan(
        &self,
        bounds: impl ByteBounds,
        mut row: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        for found in self.range(bounds) {
            let (key, value) = found?;
            if row(&key, &value).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Calls `key` with each key in `bounds`, ascending, until it breaks. Values are not read, however large they are. Locks as
    /// [`range`](TransactionBytes::range); `key` may use the transaction likewise.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// use std::ops::ControlFlow;
    /// let photos = db.byte_table("photos")?;
    /// photos.put_many(&[("hills/1", vec![0; 5 << 20]), ("sea/1", vec![0; 3 << 20])])?;
    /// db.transact(|tx| {
    ///     let mut names = Vec::new();
    ///     tx.bytes(&photos).scan_keys(.., |name| {
    ///         names.push(name.to_vec());
    ///         ControlFlow::Continue(())
    ///     })?;
    ///     assert_eq!(names, [&b"hills/1"[..], b"sea/1"]);
    ///     Ok(())
    /// })
    /// # }
    /// ```
    pub fn scan_keys(
        &self,
        bounds: impl ByteBounds,
        mut key: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        for found in self.range(bounds).keys_only() {
            if key(&found?.0).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// The row with the least key, locked as the first one of [`range`](TransactionBytes::range): in a serializable transaction
    /// nobody else inserts a row before it, or the first one where there is none, until the transaction ends.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let log = db.byte_table("log")?;
    /// let append = |line: &[u8]| {
    ///     db.transact(|tx| {
    ///         let last = tx.bytes(&log).last()?; // and nobody else appends until this has
    ///         let number = last.map_or(0, |(key, _)| key[0] + 1);
    ///         tx.bytes(&log).put(&[number], line)
    ///     })
    /// };
    /// append(b"began")?;
    /// append(b"ended")?;
    /// let tx = db.begin()?;
    /// assert_eq!(tx.bytes(&log).first()?, Some((vec![0], b"began".to_vec())));
    /// assert_eq!(tx.bytes(&log).last()?, Some((vec![1], b"ended".to_vec())));
    /// # Ok(()) }
    /// ```
    pub fn first(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.range(..).next().transpose()
    }

    /// The row with the greatest key, locked as the first one of `range(..).rev()`: in a serializable transaction nobody else
    /// inserts a row behind it until the transaction ends. See [`first`](TransactionBytes::first) for an example.
    pub fn last(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.range(..).next_back().transpose()
    }

    /// Is there no row? Locks as [`first`](TransactionBytes::first), and does not read the value.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let admins = db.byte_table("admins")?;
    /// db.transact(|tx| {
    ///     let admins = tx.bytes(&admins);
    ///     if admins.is_empty()? { // and stays so for everybody else
    ///         admins.put(b"ada", b"was here first")?;
    ///     }
    ///     Ok(())
    /// })?;
    /// assert!(!admins.is_empty()?);
    /// # Ok(()) }
    /// ```
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.range(..).keys_only().next().transpose()?.is_none())
    }

    /// About how many rows lie in `bounds`; as [`ByteTable::estimate_range`], so for choosing a way, not for deciding anything: it counts
    /// also what others have not committed, locks nothing, and waits for no transaction.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let events = db.byte_table("events")?;
    /// let tx = db.begin()?;
    /// tx.bytes(&events).put_many(&[("2024-12-31", ""), ("2025-01-01", ""), ("2025-01-02", "")])?;
    /// assert_eq!(tx.bytes(&events).estimate_range("2025"..)?, 2);
    /// # Ok(()) }
    /// ```
    pub fn estimate_range(&self, bounds: impl ByteBounds) -> Result<u64> {
        self.estimate_between(bounds.raw())
    }

    pub(super) fn estimate_between(&self, bounds: RawBounds) -> Result<u64> {
        self.work(|_| self.table.tree.estimate(bounds))
    }

    pub(super) fn range_between(&self, bounds: RawBounds) -> TransactionRange {
        TransactionRange::new(self.shared.clone(), self.table, bounds)
    }

    pub(super) fn isolation(&self) -> Isolation {
        self.shared.options.isolation
    }

    pub(super) fn work<R>(&self, work: impl FnOnce(&mut Txn) -> Result<R>) -> Result<R> {
        self.shared.ensure_ours(self.table)?;
        self.shared.with(work)
    }
}
