//! Tables of byte strings, each call a transaction of its own.

use crate::bounds::{RawBounds, beginning_with};
use crate::db::engine::Engine;
use crate::db::index::Index;
use crate::db::range::{ByteBounds, ByteRange};
use crate::db::types::Types;
use crate::error::Result;
use crate::log::Durability;
use crate::tree::{Intent, PATIENCE, Tree, Values};
use crate::txn::{Direction, Txn, View};
use foreshore_base::Lsn;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// A table of byte strings, in byte order. Cheap to clone, free of lifetimes, usable from any thread.
///
/// Each call but `put_many`, `put_some` and `bulk_load` is a transaction of its own: atomic, and acknowledged as the handle's
/// [`Durability`] says. Keys may have up to 1024 bytes (992 in leaves of 4096) and may be empty; values up to 256 MiB. Those above a
/// quarter of a leaf (2048 bytes by default) lie in chunks outside of the row's leaf, and cost about twice their size in writes. Those
/// that would fill 16 leaves (128 KiB) are written once, past the log; their commit waits for the device, whatever the durability.
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// let db = foreshore::Database::in_memory()?;
/// let flights = db.byte_table("flights")?;
/// flights.put(b"AA 428", b"IAH-DFW")?;
/// assert_eq!(flights.get(b"AA 428")?.as_deref(), Some(&b"IAH-DFW"[..]));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct ByteTable {
    pub(crate) engine: Arc<Engine>,
    pub(crate) tree: Arc<Tree>,
    durability: Durability,
    lock_timeout: Duration,
}

impl std::fmt::Debug for ByteTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ByteTable({:?})", self.name())
    }
}

impl ByteTable {
    pub(crate) fn new(engine: Arc<Engine>, tree: Arc<Tree>) -> Self {
        Self { durability: engine.durability(), engine, tree, lock_timeout: PATIENCE }
    }

    /// The table's name. Of one that was [renamed](crate::Database::rename_table) the new one.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// use foreshore::{Index, TableOptions};
    /// let notes = db.byte_table_with("notes", TableOptions::new().leaf_bytes(16 << 10))?;
    /// assert_eq!((notes.name(), notes.index(), notes.leaf_bytes()), ("notes", Index::BPlus, 16384));
    /// # Ok(()) }
    /// ```
    pub fn name(&self) -> &str {
        self.tree.name()
    }

    /// The index over its leaves.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// use foreshore::{Database, Index};
    /// let db = Database::in_memory()?;
    /// assert_eq!(db.byte_table("notes")?.index(), Index::BPlus);
    /// # Ok(()) }
    /// ```
    pub fn index(&self) -> Index {
        self.tree.index_kind()
    }

    /// Of which types its rows are, if that was said when it was made: a [`Table`](crate::Table) does, or
    /// [`TableOptions::types`](crate::TableOptions::types).
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let ports = db.table::<String, u32>("ports")?;
    /// println!("{}", ports.as_bytes().types().expect("typed")); // keys of String and values of u32
    /// assert!(db.byte_table("notes")?.types().is_none());
    /// # Ok(()) }
    /// ```
    pub fn types(&self) -> Option<&Types> {
        self.tree.types.as_ref()
    }

    /// Bytes of its leaves.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let notes = db.byte_table("notes")?;
    /// let lies_in_its_leaf = |value: &[u8]| value.len() <= notes.leaf_bytes() / 4;
    /// assert!(lies_in_its_leaf(&[0; 2048]) && !lies_in_its_leaf(&[0; 2049]));
    /// # Ok(()) }
    /// ```
    pub fn leaf_bytes(&self) -> usize {
        self.tree.leaf_bytes()
    }

    /// The same table through a handle whose writes wait for `durability`.
    ///
    /// Within a transaction its own durability counts, or that of the database:
    /// [`TransactionOptions::durability`](crate::TransactionOptions::durability).
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// use foreshore::Durability;
    /// let views = db.byte_table("page views")?.with_durability(Durability::Buffered);
    /// views.put(b"/index.html", b"1")?; // does not wait for the disk
    /// # Ok(()) }
    /// ```
    pub fn with_durability(&self, durability: Durability) -> Self {
        Self { durability, ..self.clone() }
    }

    /// The same table through a handle whose writes wait at most this long for transactions that have locked the key, or the
    /// gap that a new key goes into; then they fail with [`Error::LockTimeout`](crate::Error::LockTimeout) (default 10 s).
    /// Replacing or writing a [large](ByteTable) value may wait twice as long. With zero, writes hardly wait at all: for threads
    /// that must not block, and can try again later. Within a transaction its own
    /// [`lock_timeout`](crate::TransactionOptions::lock_timeout) counts, whatever the handle says.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// use foreshore::Error;
    /// let tx = db.begin()?;
    /// tx.bytes(&t).put(b"k", b"locked")?;
    /// let impatient = t.with_lock_timeout(std::time::Duration::ZERO);
    /// assert!(matches!(impatient.put(b"k", b"later"), Err(Error::LockTimeout { .. })));
    /// tx.commit()?;
    /// impatient.put(b"k", b"later")?;
    /// # Ok(()) }
    /// ```
    pub fn with_lock_timeout(&self, timeout: Duration) -> Self {
        Self { lock_timeout: timeout, ..self.clone() }
    }

    /// The value of `key`, copied out.
    ///
    /// Errors: `TableDropped`; `Corrupt`; `Io`. Never waits for a transaction. A [large](ByteTable) value is read in a
    /// snapshot: `TooManyTransactions`, if 1024 are open and none closes within 10 seconds.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// t.put(b"k", b"v")?;
    /// assert_eq!(t.get(b"k")?, Some(b"v".to_vec()));
    /// assert_eq!(t.get(b"l")?, None);
    /// # Ok(()) }
    /// ```
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// Replaces the content of `value` by the value of `key`; `false`, and an empty `value`, if there is none. Saves
    /// the allocation of [`ByteTable::get`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// t.put_many(&[(b"a", b"1"), (b"b", b"2")])?;
    /// let (mut value, mut sum) = (Vec::new(), 0);
    /// for key in [b"a", b"b", b"c"] {
    ///     if t.get_into(key, &mut value)? {
    ///         sum += value[0] - b'0';
    ///     }
    /// }
    /// assert_eq!(sum, 3);
    /// # Ok(()) }
    /// ```
    #[inline]
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.tree.get(&self.latest(), key, value)
    }

    /// Is there a value for `key`?
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// t.put(b"k", b"")?;
    /// assert!(t.contains(b"k")?, "an empty value is one, too");
    /// assert!(!t.contains(b"l")?);
    /// # Ok(()) }
    /// ```
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        self.tree.contains(&self.latest(), key)
    }

    /// The values of many keys, in their order. Faster than one `get` each when the data is larger than the
    /// processor's caches. The keys are read one after another, not at one point in time.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// t.put(b"b", b"2")?;
    /// assert_eq!(t.multi_get(&[b"a", b"b"])?, [None, Some(b"2".to_vec())]);
    /// # Ok(()) }
    /// ```
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        self.tree.multi_get(&self.latest(), keys)
    }

    /// As [`ByteTable::multi_get`], but calls `read` with one value after the other, until it breaks: nothing is allocated
    /// per key. After an error, `read` has been called for the keys before.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let t = db.byte_table("t")?;
    /// t.put(b"a", b"first")?;
    /// let mut bytes = 0;
    /// t.multi_get_with(&[b"a", b"b"], |value| {
    ///     bytes += value.map_or(0, <[u8]>::len);
    ///     std::ops::ControlFlow::Continue(())
    /// })?;
    /// assert_eq!(bytes, 5);
    /// # Ok(()) }
    /// ```
    pub fn multi_get_with<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        read: impl FnMut(Option<&[u8]>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.tree.multi_get_with(&self.latest(), keys, read)
    }

    /// Sets the value of `key`, whether or not it had one.
    ///
    /// Errors that say that nothing was changed: `KeyTooLong`, `ValueTooLarge`; `Full`; `LockTimeout`, if transactions have locked
    /// the key for [too long](ByteTable::with_lock_timeout); `TooManyTransactions`, if 1024 are running and none ends within 10
    /// seconds; `TableDropped`. And `Poisoned`: the write may or may not survive a reopening.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// t.put(b"k", b"first")?;
    /// t.put(b"k", b"second")?;
    /// assert_eq!(t.get(b"k")?.as_deref(), Some(&b"second"[..]));
    /// let too_long = t.put(&[0; 2000], b"");
    /// assert!(matches!(too_long, Err(foreshore::Error::KeyTooLong { len: 2000, .. })));
    /// # Ok(()) }
    /// ```
    #[inline]
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(key, Intent::Put(value)).map(|_| ())
    }

    /// [`put`](ByteTable::put)s many rows in their order, each as a commit of its own, and waits for all of them together: much faster
    /// than one call each where commits wait for the device. Their leaves are looked for together too. If they are to be set
    /// together or not at all, that is a [transaction](crate::TransactionBytes::put_many)'s.
    ///
    /// Errors as [`ByteTable::put`], of the first row that could not be set: those before it are.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let t = db.byte_table("t")?;
    /// t.put_many(&[(b"b", b"second"), (b"a", b"1st...")])?;
    /// assert_eq!(t.get(b"b")?.as_deref(), Some(&b"second"[..]));
    /// # Ok(()) }
    /// ```
    pub fn put_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, rows: &[(K, V)]) -> Result<()> {
        self.put_as_far_as_possible(rows)?.1
    }

    /// As [`ByteTable::put_many`], but if a row cannot be set, says how many rows before it are: call again with the rest to learn
    /// why. 0 if there are none.
    ///
    /// Errors as [`ByteTable::put`], of the first row; then no row is set. `Poisoned` may come after rows were set: they may or may
    /// not survive a reopening.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// let rows = [(vec![1_u8], "fits"), (vec![2; 2000], "too long a key"), (vec![3], "fits")];
    /// let set = t.put_some(&rows)?;
    /// assert_eq!(set, 1);
    /// assert!(t.put_some(&rows[set..]).is_err(), "and this says why");
    /// # Ok(()) }
    /// ```
    pub fn put_some<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, rows: &[(K, V)]) -> Result<usize> {
        match self.put_as_far_as_possible(rows)? {
            (0, all) => all.map(|()| 0),
            (set, _) => Ok(set),
        }
    }

    /// Puts rows until one cannot be; how many, and why no more. Errors: those that are set cannot be acknowledged.
    fn put_as_far_as_possible<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        rows: &[(K, V)],
    ) -> Result<(usize, Result<()>)> {
        let (mut set, mut end) = (0, Lsn::ZERO);
        let done = |its| (set, end) = (set + 1, its);
        let all = self.tree.put_each(rows, self.lock_timeout, |len| self.make_room(len), done);
        if set > 0 {
            self.engine.acknowledge(end, self.durability)?;
        }
        Ok((set, all))
    }

    /// Sets the value of `key` unless it has one; says whether it did. Errors as [`ByteTable::put`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// assert!(t.insert(b"name", b"taken by the first")?);
    /// assert!(!t.insert(b"name", b"who comes later")?);
    /// assert_eq!(t.get(b"name")?.as_deref(), Some(&b"taken by the first"[..]));
    /// # Ok(()) }
    /// ```
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.write(key, Intent::Insert(value))
    }

    /// Removes `key`; says whether it was there. Errors as [`ByteTable::put`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// t.put(b"k", b"v")?;
    /// assert!(t.remove(b"k")?);
    /// assert!(!t.contains(b"k")? && !t.remove(b"k")?);
    /// # Ok(()) }
    /// ```
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        self.write(key, Intent::Remove)
    }

    /// Changes the row of `key` in one step: `change` gets its value, `None` if there is none, and leaves what it is to be, `None` to
    /// remove it. Returns what `change` does.
    ///
    /// Costs a transaction, which locks the row before it reads it: nobody changes it meanwhile, and who wants to waits while
    /// `change` runs. That runs again if this had to give way in a deadlock, so it should have no other effects; if it panics, the row is
    /// as it was.
    ///
    /// Errors as [`ByteTable::put`]; the row is as it was then.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let hits = db.byte_table("hits")?;
    /// let hit = || {
    ///     hits.modify(b"/index.html", |count| {
    ///         let next = count.as_ref().map_or(1, |count| count[0] + 1);
    ///         *count = Some(vec![next]);
    ///         next
    ///     })
    /// };
    /// assert_eq!((hit()?, hit()?), (1, 2));
    /// hits.modify(b"/index.html", |count| *count = None)?;
    /// assert!(!hits.contains(b"/index.html")?);
    /// # Ok(()) }
    /// ```
    pub fn modify<R>(&self, key: &[u8], mut change: impl FnMut(&mut Option<Vec<u8>>) -> R) -> Result<R> {
        self.modify_or_fail(key, |value| Ok(change(value)))
    }

    /// The same; nothing is changed if `change` fails.
    pub(super) fn modify_or_fail<R>(
        &self,
        key: &[u8],
        mut change: impl FnMut(&mut Option<Vec<u8>>) -> Result<R>,
    ) -> Result<R> {
        self.alone(|txn| {
            txn.enter(&self.tree)?;
            let mut row = Vec::new();
            let found = self.tree.get_for_update(txn, key, &mut row)?;
            let mut value = found.then_some(row);
            let told = change(&mut value)?;
            let intent = match &value {
                Some(value) => Intent::Put(value),
                None if found => Intent::Remove,
                None => return Ok(told),
            };
            self.make_room_within(txn, intent.value().len())?;
            self.tree.write(txn, key, intent)?;
            Ok(told)
        })
    }

    /// Removes the rows whose keys lie in `bounds`, all at one point in time or none; says how many. At that point no other row is
    /// in the range. See [`TransactionBytes::remove_range`](crate::TransactionBytes::remove_range) for what that takes.
    ///
    /// Errors as [`ByteTable::put`]; no row is removed then. [`with_lock_timeout`](ByteTable::with_lock_timeout) says how long it
    /// waits for each lock. [`Database::transactions`](crate::Database::transactions) does not list it, and nobody can end it before it is
    /// done: for what may take long there is the same call in a transaction.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// for key in [b"a", b"b", b"c"] { t.put(key, b"")?; }
    /// assert_eq!(t.remove_range(&b"b"[..]..)?, 2);
    /// assert_eq!(t.range(..).count(), 1);
    /// # Ok(()) }
    /// ```
    pub fn remove_range(&self, bounds: impl ByteBounds) -> Result<u64> {
        self.remove_between(bounds.raw())
    }

    /// Removes the rows whose keys begin with `prefix`; as [`remove_range`](ByteTable::remove_range).
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// t.put_many(&[("user/ada", ""), ("user/ben", ""), ("visitor/cleo", "")])?;
    /// assert_eq!(t.remove_prefix(b"user/")?, 2);
    /// # Ok(()) }
    /// ```
    pub fn remove_prefix(&self, prefix: &[u8]) -> Result<u64> {
        self.remove_between(beginning_with(prefix))
    }

    pub(super) fn remove_between(&self, bounds: RawBounds) -> Result<u64> {
        self.alone(|txn| self.tree.remove_range(txn, true, bounds.clone(), u64::MAX))
    }

    /// Removes the row with the least key and returns it; `None` if the table is empty. Atomic: at one point in time it was the
    /// first row, or there was none. Of threads that do so at a time each gets another row, one after another; a queue that many
    /// take from is no faster than one that one does.
    ///
    /// Costs a transaction, which locks the row and the gap before it (the whole table, if it is empty) until it has removed
    /// the row. It waits for transactions that have locked the row, or have removed it and not ended; those that wait for each
    /// other do not fail: one of them begins again.
    ///
    /// Errors as [`ByteTable::put`]; the row is there then.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let jobs = db.byte_table("jobs")?;
    /// jobs.put_many(&[("1", "sweep"), ("2", "polish"), ("3", "rest")])?;
    /// assert_eq!(jobs.pop_first()?, Some((b"1".to_vec(), b"sweep".to_vec())));
    /// assert_eq!(jobs.pop_last()?, Some((b"3".to_vec(), b"rest".to_vec())));
    /// while let Some((number, job)) = jobs.pop_first()? {
    ///     println!("{}: {}", number.escape_ascii(), job.escape_ascii());
    /// }
    /// assert!(jobs.is_empty()?);
    /// # Ok(()) }
    /// ```
    pub fn pop_first(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.pop_first_in(..)
    }

    /// Removes the row with the greatest key and returns it; as [`pop_first`](ByteTable::pop_first), but that the gap behind it is
    /// locked, too: who appends rows in a transaction may have to wait.
    pub fn pop_last(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.pop_last_in(..)
    }

    /// Removes the row with the least key in `bounds` and returns it, as [`pop_first`](ByteTable::pop_first): so one table holds
    /// many queues. Locks nothing outside of `bounds`, but for the rest of the gap in which they end, if there is no row.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// use foreshore::Prefix;
    /// let jobs = db.byte_table("jobs")?;
    /// jobs.put_many(&[("mail/1", "to ada"), ("mail/2", "to ben"), ("print/1", "a page")])?;
    /// assert_eq!(jobs.pop_first_in(Prefix("print/"))?, Some((b"print/1".to_vec(), b"a page".to_vec())));
    /// assert_eq!(jobs.pop_first_in(Prefix("print/"))?, None);
    /// assert_eq!(jobs.pop_first_in("mail/2"..)?.map(|row| row.1), Some(b"to ben".to_vec()));
    /// # Ok(()) }
    /// ```
    pub fn pop_first_in(&self, bounds: impl ByteBounds) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.pop(Direction::Ascending, bounds.raw(), Ok)
    }

    /// Removes the row with the greatest key in `bounds` and returns it, as [`pop_last`](ByteTable::pop_last) and
    /// [`pop_first_in`](ByteTable::pop_first_in). The gap in which `bounds` end is locked in any case.
    pub fn pop_last_in(&self, bounds: impl ByteBounds) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.pop(Direction::Descending, bounds.raw(), Ok)
    }

    /// Removes the row at an end of what lies between the bounds, if `read` can make something of it.
    pub(super) fn pop<R>(
        &self,
        direction: Direction,
        bounds: RawBounds,
        mut read: impl FnMut((Vec<u8>, Vec<u8>)) -> Result<R>,
    ) -> Result<Option<R>> {
        self.alone(|txn| self.tree.pop(txn, true, direction, bounds.clone())?.map(&mut read).transpose())
    }

    /// Does `work` in a transaction of its own, and waits until that may be told.
    fn alone<R>(&self, work: impl FnMut(&mut Txn) -> Result<R>) -> Result<R> {
        let (done, end) = self.engine.core().in_own_transaction(self.lock_timeout, work)?;
        self.tell(end).map(|()| done)
    }

    #[inline]
    fn write(&self, key: &[u8], intent: Intent<'_>) -> Result<bool> {
        self.make_room(intent.value().len())?;
        let end = self.tree.autocommit(key, intent, self.lock_timeout)?;
        self.tell(end).map(|()| end.is_some())
    }

    /// Waits until what was done up to `end`, or found to be done already, may be told.
    #[inline]
    fn tell(&self, end: Option<Lsn>) -> Result<()> {
        let told_at = self.engine.told_at(end, self.durability);
        told_at.map_or(Ok(()), |end| self.engine.acknowledge(end, self.durability))
    }

    /// To be called before a value of this length is written outside of transactions: a large one needs a place for its chunks.
    #[inline]
    fn make_room(&self, len: usize) -> Result<()> {
        if !self.tree.is_large(len) || self.tree.chunks.get().is_some() {
            return Ok(());
        }
        self.engine
            .core()
            .in_own_transaction(self.lock_timeout, |txn| self.make_room_within(txn, len))
            .map(drop)
    }

    /// The same, before `txn` writes it.
    #[inline]
    pub(crate) fn make_room_within(&self, txn: &mut Txn, len: usize) -> Result<()> {
        if self.tree.is_large(len) { self.engine.tables.make_chunks(txn, &self.tree, len) } else { Ok(()) }
    }

    /// The view of a call that is no part of a transaction: what is committed.
    #[inline]
    pub(crate) fn latest(&self) -> View {
        self.engine.core().txns.latest()
    }

    /// Rows whose keys lie in `bounds`, ascending; `.rev()` descends. Rows are read some at a time; rows
    /// written while the iterator runs may or may not appear.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let t = db.byte_table("t")?;
    /// for key in [b"a", b"b", b"c"] { t.put(key, b"")?; }
    /// assert_eq!(t.range(..).count(), 3);
    /// let last = t.range(&b"a"[..]..&b"c"[..]).next_back().unwrap()?;
    /// assert_eq!(last.0, b"b");
    /// # Ok(()) }
    /// ```
    pub fn range(&self, bounds: impl ByteBounds) -> ByteRange {
        ByteRange::new(self.clone(), bounds.raw())
    }

    /// Rows whose keys begin with `prefix`, ascending; `.rev()` descends.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// t.put_many(&[("user/ada", ""), ("user/ben", ""), ("visitor/cleo", "")])?;
    /// let users: Vec<_> = t.prefix(b"user/").collect::<foreshore::Result<_>>()?;
    /// assert_eq!(users.len(), 2);
    /// assert_eq!(users[0].0, b"user/ada");
    /// # Ok(()) }
    /// ```
    pub fn prefix(&self, prefix: &[u8]) -> ByteRange {
        ByteRange::new(self.clone(), beginning_with(prefix))
    }

    /// The row with the least key, as the first one of [`range`](ByteTable::range): exact while nobody changes the rows before
    /// it; a [snapshot's](crate::SnapshotBytes::first) always is. Costs about as much as [`get`](ByteTable::get).
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// t.put_many(&[("b", "2"), ("a", "1")])?;
    /// assert_eq!(t.first()?, Some((b"a".to_vec(), b"1".to_vec())));
    /// assert_eq!(t.last()?, Some((b"b".to_vec(), b"2".to_vec())));
    /// # Ok(()) }
    /// ```
    pub fn first(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.range(..).next().transpose()
    }

    /// The row with the greatest key; as [`first`](ByteTable::first).
    pub fn last(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.range(..).next_back().transpose()
    }

    /// Is there no row? Looks for the [`first`](ByteTable::first) one, and does not read its value.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// assert!(t.is_empty()?);
    /// t.put(b"", b"")?;
    /// assert!(!t.is_empty()?, "an empty key is one, too");
    /// # Ok(()) }
    /// ```
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.range(..).keys_only().next().transpose()?.is_none())
    }

    /// About how many rows lie in `bounds`, uncommitted ones included: exact for ranges within two leaves, otherwise from
    /// the number of leaves in between and a look into a few of them.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let t = db.byte_table("t")?;
    /// for n in 0..100u8 { t.put(&[n], b"")?; }
    /// assert_eq!(t.estimate_range(&[10][..]..&[20][..])?, 10);
    /// # Ok(()) }
    /// ```
    pub fn estimate_range(&self, bounds: impl ByteBounds) -> Result<u64> {
        self.tree.estimate(bounds.raw())
    }

    /// Calls `row` with each key and value in `bounds`, ascending, until it breaks; the fastest way to read many rows,
    /// since nothing is allocated per row.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// use std::ops::ControlFlow;
    /// t.put_many(&[("a", "1"), ("b", "22"), ("c", "333")])?;
    /// let mut bytes = 0;
    /// t.scan(&b"b"[..].., |_, value| {
    ///     bytes += value.len();
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert_eq!(bytes, 5);
    /// # Ok(()) }
    /// ```
    pub fn scan(
        &self,
        bounds: impl ByteBounds,
        mut row: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.tree.scan(self.latest(), Values::Read, bounds.raw(), &mut row)
    }

    /// Calls `key` with each key in `bounds`, ascending, until it breaks. Values are not read, however large they are.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// use std::ops::ControlFlow;
    /// t.put_many(&[("a", vec![b'x'; 10 << 20]), ("b", vec![])])?;
    /// let mut keys = Vec::new();
    /// t.scan_keys(.., |key| {
    ///     keys.push(key.to_vec());
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert_eq!(keys, [b"a", b"b"]);
    /// # Ok(()) }
    /// ```
    pub fn scan_keys(
        &self,
        bounds: impl ByteBounds,
        mut key: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.tree.scan(self.latest(), Values::Skip, bounds.raw(), &mut |found, _| key(found))
    }

    /// Loads rows in strictly ascending order of their keys, all above any key the table holds; says how many. The
    /// fastest way to fill a table. Rows appear as they are loaded, also to snapshots taken before and to transactions that
    /// have read the range: fill a table before others use it. Where a row is refused, for its order or its size, the rows before are
    /// there. Of a load that ends otherwise (no space, a lock not granted in time, another writer's rows, a crash) those right before may
    /// be missing; [`ByteTable::last`] tells where to go on. While `rows` is asked for the next one, nothing is locked. The last
    /// rows that it gave may not be in the table by then: those of a leaf, and 16 MiB of [large](ByteTable) values.
    ///
    /// Errors: `BulkLoad` if the order is broken; otherwise as [`ByteTable::put`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// let rows = (0..10_000_u32).map(|n| (n.to_be_bytes(), b"value"));
    /// assert_eq!(t.bulk_load(rows)?, 10_000);
    /// let below = t.bulk_load([(b"\0", b"")]);
    /// assert!(matches!(below, Err(foreshore::Error::BulkLoad { .. })));
    /// # Ok(()) }
    /// ```
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        rows: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64> {
        let (loaded, end) = self.tree.bulk_load(rows, self.lock_timeout, |len| self.make_room(len))?;
        self.engine.acknowledge(end, self.durability)?; // also where a row was refused: those before it are there
        loaded
    }
}
