//! Read-only transactions.

use crate::bounds::{RawBounds, beginning_with};
use crate::db::byte_table::ByteTable;
use crate::db::codec::{Key, Met, Value, decode_all, decode_found, encode_key};
use crate::db::engine::Engine;
use crate::db::prefix::{KeyComponent, KeyPrefix};
use crate::db::range::{ByteBounds, ByteRange, KeyBounds, Range};
use crate::db::table::{Table, decoded, decoded_keys};
use crate::error::{Error, Result};
use crate::spread::Held;
use crate::tree::{Tree, Values};
use crate::txn::{self, View};
use foreshore_base::Lsn;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A read-only transaction: everything that was committed when it was taken, and nothing else, for as long as it is
/// held. It takes no locks, waits for nobody, and nobody waits for it. So who [drops](crate::Database::drop_table) a table does not,
/// either: of that it sees nothing more ([`Error::TableDropped`]). Cheap to clone.
///
/// What it saw may not be durable yet, if commits do not wait for that; [`Snapshot::wait_durable`] does.
///
/// Old versions of rows that change meanwhile are kept in memory while it is open. If they take more than
/// [`Builder::old_version_bytes`](crate::Builder::old_version_bytes), the oldest snapshot is given up: its reads return
/// [`Error::SnapshotTooOld`]. What a large transaction replaces meanwhile is kept on disk, and does not count.
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// # let db = foreshore::Database::in_memory()?;
/// let seats = db.table::<u32, u32>("seats")?;
/// seats.put(&428, &12)?;
/// let before = db.snapshot()?;
/// seats.put(&428, &11)?;
/// assert_eq!(before.table(&seats).get(&428)?, Some(12));
/// assert_eq!(seats.get(&428)?, Some(11));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Snapshot {
    shared: Arc<OpenSnapshot>,
}

/// An open snapshot, which closes with its last holder.
pub(crate) struct OpenSnapshot {
    engine: Held<Engine>,
    snapshot: txn::Snapshot,
}

impl OpenSnapshot {
    pub fn view(&self) -> View {
        self.snapshot.view
    }

    /// Lets what was just read count, also an error: chunks of a large value go with the snapshot that they were kept for.
    ///
    /// Errors: [`Error::SnapshotTooOld`].
    #[inline]
    pub fn confirm(&self) -> Result<()> {
        if self.engine.core().txns.is_expired(&self.snapshot) { Err(Error::SnapshotTooOld) } else { Ok(()) }
    }

    /// Errors: [`Error::Argument`] if the table is of another database.
    pub fn ensure_ours(&self, table: &ByteTable) -> Result<()> {
        if std::ptr::eq(&*self.engine, &*table.engine) {
            return Ok(());
        }
        Err(Error::Argument("the table is of another database than the snapshot".into()))
    }
}

impl Drop for OpenSnapshot {
    fn drop(&mut self) {
        self.engine.core().txns.close_snapshot(&self.snapshot);
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Snapshot({})", self.shared.view().at)
    }
}

impl Snapshot {
    pub(crate) fn open(engine: Held<Engine>) -> Result<Self> {
        let core = engine.core();
        let snapshot = core.txns.open_snapshot(&core.log)?;
        Ok(Self { shared: Arc::new(OpenSnapshot { engine, snapshot }) })
    }

    /// Commits below this LSN are seen.
    pub(crate) fn at(&self) -> Lsn {
        self.shared.view().at
    }

    /// The table as it was.
    ///
    /// A table of another database is refused by the first call, with [`Error::Argument`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let seats = db.table::<u32, u32>("seats")?;
    /// seats.put_many(&[(7, 20), (428, 12)])?;
    /// let snapshot = db.snapshot()?;
    /// let seen = snapshot.table(&seats); // has those methods of `Table` that read
    /// let free: u32 = seen.range(..).map(|row| row.map(|(_, free)| free)).sum::<foreshore::Result<_>>()?;
    /// assert_eq!(free, 32);
    /// # Ok(()) }
    /// ```
    pub fn table<'s, K: Key, V: Value>(&'s self, table: &'s Table<K, V>) -> SnapshotTable<'s, K, V> {
        SnapshotTable { bytes: self.bytes(table.as_bytes()), types: PhantomData }
    }

    /// The byte table as it was.
    ///
    /// A table of another database is refused by the first call, with [`Error::Argument`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// t.put(b"k", b"old")?;
    /// let before = db.snapshot()?;
    /// t.remove(b"k")?;
    /// let then = before.bytes(&t);
    /// assert_eq!(then.get(b"k")?.as_deref(), Some(&b"old"[..]));
    /// assert!(then.contains(b"k")? && !t.contains(b"k")?);
    /// assert_eq!(then.multi_get(&[b"k", b"l"])?, [Some(b"old".to_vec()), None]);
    /// assert_eq!((then.range(..).count(), then.prefix(b"k").count()), (1, 1));
    /// # Ok(()) }
    /// ```
    pub fn bytes<'s>(&'s self, table: &'s ByteTable) -> SnapshotBytes<'s> {
        SnapshotBytes { shared: &self.shared, table }
    }

    /// Waits until everything it sees would survive a power failure. Before that, what was read may be undone by one, if
    /// it was committed with less than `Durability::Sync`, or is about to be acknowledged.
    ///
    /// Errors: [`Error::Poisoned`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// let t = t.with_durability(foreshore::Durability::Relaxed);
    /// t.put(b"total", b"100")?;
    /// let report = db.snapshot()?;
    /// let total = report.bytes(&t).get(b"total")?;
    /// report.wait_durable()?; // before the report is sent: it may not show what a power failure takes back
    /// assert_eq!(total.as_deref(), Some(&b"100"[..]));
    /// # Ok(()) }
    /// ```
    pub fn wait_durable(&self) -> Result<()> {
        let log = &self.shared.engine.core().log;
        log.commit(log.seen(self.shared.view().at), crate::log::Durability::Sync)
    }
}

/// A [`ByteTable`] as a snapshot sees it.
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// # let db = foreshore::Database::in_memory()?;
/// use std::ops::ControlFlow;
/// let pages = db.byte_table("pages")?;
/// pages.put(b"/a", b"first edition")?;
/// let snapshot = db.snapshot()?;
/// pages.put(b"/a", b"second")?;
/// pages.put(b"/b", b"new")?;
/// let before = snapshot.bytes(&pages);
/// let mut bytes = 0;
/// before.scan(.., |_, page| {
///     bytes += page.len();
///     ControlFlow::Continue(())
/// })?;
/// assert_eq!((before.range(..).count(), bytes), (1, 13));
/// # Ok(()) }
/// ```
pub struct SnapshotBytes<'s> {
    shared: &'s Arc<OpenSnapshot>,
    table: &'s ByteTable,
}

impl std::fmt::Debug for SnapshotBytes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SnapshotBytes({:?})", self.table.name())
    }
}

impl SnapshotBytes<'_> {
    /// The value of `key`, copied out.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// t.put(b"k", b"old")?;
    /// let before = db.snapshot()?;
    /// t.put(b"k", b"new")?;
    /// assert_eq!(before.bytes(&t).get(b"k")?.as_deref(), Some(&b"old"[..]));
    /// # Ok(()) }
    /// ```
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// Replaces the content of `value` by the value of `key`; `false`, and an empty `value`, if there is none. Writes
    /// no shared memory.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// t.put_many(&[(b"a", [3]), (b"b", [4])])?;
    /// let snapshot = db.snapshot()?;
    /// let (mut value, mut sum) = (Vec::new(), 0); // one buffer for all
    /// for key in [b"a", b"b", b"c"] {
    ///     if snapshot.bytes(&t).get_into(key, &mut value)? {
    ///         sum += value[0];
    ///     }
    /// }
    /// assert_eq!(sum, 7);
    /// # Ok(()) }
    /// ```
    #[inline]
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.read(|tree, view| tree.get(view, key, value))
    }

    /// Is there a value for `key`?
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// let empty = db.snapshot()?;
    /// t.put(b"k", b"v")?;
    /// assert!(t.contains(b"k")? && !empty.bytes(&t).contains(b"k")?);
    /// # Ok(()) }
    /// ```
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        self.read(|tree, view| tree.contains(view, key))
    }

    /// The values of many keys, in their order.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// t.put_many(&[("debit", "30"), ("credit", "30")])?;
    /// let books = db.snapshot()?;
    /// t.put(b"debit", b"50")?; // the credit is still to come
    /// let both = books.bytes(&t).multi_get(&["debit", "credit"])?; // of one moment, unlike those of `ByteTable`
    /// assert_eq!(both[0], both[1]);
    /// # Ok(()) }
    /// ```
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        self.read(|tree, view| tree.multi_get(view, keys))
    }

    /// As [`SnapshotBytes::multi_get`], but calls `read` with one value after the other, until it breaks: nothing is
    /// allocated per key.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// t.put_many(&[("a", "first"), ("b", "second")])?;
    /// let (snapshot, mut bytes) = (db.snapshot()?, 0);
    /// snapshot.bytes(&t).multi_get_with(&["a", "b", "c"], |value| {
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
        self.read(|tree, view| tree.multi_get_with(view, keys, |value| self.show(|| read(value))))
    }

    /// Rows whose keys lie in `bounds`, ascending; `.rev()` descends. The iterator keeps the snapshot open.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// t.put_many(&[("a", "1"), ("b", "2")])?;
    /// let rows = db.snapshot()?.bytes(&t).range(..); // which keeps the snapshot
    /// t.remove(b"b")?;
    /// assert_eq!(rows.rev().next().transpose()?, Some((b"b".to_vec(), b"2".to_vec())));
    /// # Ok(()) }
    /// ```
    pub fn range(&self, bounds: impl ByteBounds) -> ByteRange {
        self.range_between(bounds.raw())
    }

    /// Rows whose keys begin with `prefix`, ascending; `.rev()` descends.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// t.put_many(&[("user/ada", ""), ("user/ben", ""), ("visitor/cleo", "")])?;
    /// let snapshot = db.snapshot()?;
    /// t.put(b"user/dan", b"")?;
    /// assert_eq!(snapshot.bytes(&t).prefix(b"user/").count(), 2);
    /// # Ok(()) }
    /// ```
    pub fn prefix(&self, prefix: &[u8]) -> ByteRange {
        self.range_between(beginning_with(prefix))
    }

    /// The row with the least key.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// t.put_many(&[("a", "1"), ("b", "2")])?;
    /// let before = db.snapshot()?;
    /// t.remove_range(..)?;
    /// assert_eq!(before.bytes(&t).first()?, Some((b"a".to_vec(), b"1".to_vec())));
    /// assert_eq!(before.bytes(&t).last()?, Some((b"b".to_vec(), b"2".to_vec())));
    /// # Ok(()) }
    /// ```
    pub fn first(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.range(..).next().transpose()
    }

    /// The row with the greatest key. See [`first`](SnapshotBytes::first) for an example.
    pub fn last(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.range(..).next_back().transpose()
    }

    /// Is there no row? No value is read.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// let before = db.snapshot()?;
    /// t.put(b"k", b"v")?;
    /// assert!(before.bytes(&t).is_empty()? && !t.is_empty()?);
    /// # Ok(()) }
    /// ```
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.range(..).keys_only().next().transpose()?.is_none())
    }

    fn range_between(&self, bounds: RawBounds) -> ByteRange {
        ByteRange::of_snapshot(self.table.clone(), self.shared.clone(), bounds)
    }

    /// Calls `row` with each key and value in `bounds`, ascending, until it breaks.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// use std::ops::ControlFlow;
    /// t.put_many(&[("a", "1"), ("b", "22"), ("c", "333")])?;
    /// let (snapshot, mut bytes) = (db.snapshot()?, 0);
    /// t.put(b"b", b"longer by now")?;
    /// snapshot.bytes(&t).scan(&b"b"[..].., |_, value| {
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
        self.read(|tree, view| {
            tree.scan(*view, Values::Read, bounds.raw(), &mut |key, value| self.show(|| row(key, value)))
        })
    }

    /// Calls `key` with each key in `bounds`, ascending, until it breaks. Values are not read, however large they are.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// use std::ops::ControlFlow;
    /// t.put_many(&[("a", vec![b'x'; 10 << 20]), ("b", vec![])])?;
    /// let (snapshot, mut keys) = (db.snapshot()?, Vec::new());
    /// t.remove(b"a")?;
    /// snapshot.bytes(&t).scan_keys(.., |key| {
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
        self.read(|tree, view| {
            tree.scan(*view, Values::Skip, bounds.raw(), &mut |found, _| self.show(|| key(found)))
        })
    }

    /// What `read` finds, if it counts.
    #[inline]
    pub(super) fn read<R>(&self, read: impl FnOnce(&Arc<Tree>, &View) -> Result<R>) -> Result<R> {
        self.shared.ensure_ours(self.table)?;
        let found = read(&self.table.tree, &self.shared.snapshot.view);
        self.shared.confirm().and(found)
    }

    /// Shows a row that [`read`](Self::read) has found, if it counts. If not, it ends there, for no later one does.
    #[inline]
    pub(super) fn show(&self, row: impl FnOnce() -> ControlFlow<()>) -> ControlFlow<()> {
        if self.shared.confirm().is_ok() { row() } else { ControlFlow::Break(()) }
    }
}

/// A [`Table`] as a snapshot sees it.
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// # let db = foreshore::Database::in_memory()?;
/// let accounts = db.table::<String, i64>("accounts")?;
/// accounts.put_many(&[("ada".into(), 70), ("ben".into(), 30)])?;
/// let evening = db.snapshot()?;
/// accounts.put("ada", &0)?; // the next day
/// let mut total = 0;
/// for account in evening.table(&accounts).range(..) {
///     total += account?.1;
/// }
/// assert_eq!(total, 100);
/// # Ok(()) }
/// ```
pub struct SnapshotTable<'s, K, V> {
    bytes: SnapshotBytes<'s>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> std::fmt::Debug for SnapshotTable<'_, K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SnapshotTable({:?})", self.bytes.table.name())
    }
}

impl<K: Key, V: Value> SnapshotTable<'_, K, V> {
    /// The table's name, for errors.
    fn name(&self) -> &str {
        self.bytes.table.name()
    }

    /// The value of `key`.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let seats = db.table::<String, u32>("seats")?;
    /// seats.put("AA 428", &12)?;
    /// let before = db.snapshot()?;
    /// seats.put("AA 428", &11)?;
    /// assert_eq!(before.table(&seats).get("AA 428")?, Some(12)); // no `String` is needed to ask
    /// # Ok(()) }
    /// ```
    pub fn get<'k, Q: ?Sized>(&self, key: &'k Q) -> Result<Option<V>>
    where
        &'k Q: KeyComponent<K>,
    {
        encode_key(&key).and_then(|key| decode_found(&key, self.bytes.get(&key)?)).in_table(self.name())
    }

    /// Is there a value for `key`?
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let seats = db.table::<String, u32>("seats")?;
    /// let before = db.snapshot()?;
    /// seats.put("AA 428", &12)?;
    /// assert!(seats.contains("AA 428")? && !before.table(&seats).contains("AA 428")?);
    /// # Ok(()) }
    /// ```
    pub fn contains<'k, Q: ?Sized>(&self, key: &'k Q) -> Result<bool>
    where
        &'k Q: KeyComponent<K>,
    {
        self.bytes.contains(&encode_key(&key).in_table(self.name())?)
    }

    /// The values of many keys, in their order.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let prices = db.table::<u32, u64>("prices")?;
    /// prices.put_many(&[(7, 250), (9, 400)])?;
    /// let offer = db.snapshot()?; // what we offer holds, whatever prices do meanwhile
    /// prices.put(&7, &300)?;
    /// assert_eq!(offer.table(&prices).multi_get(&[9, 7, 8])?, [Some(400), Some(250), None]);
    /// # Ok(()) }
    /// ```
    pub fn multi_get(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        let keys: Vec<_> = keys.iter().map(encode_key).collect::<Result<_>>().in_table(self.name())?;
        decode_all(&keys, self.bytes.multi_get(&keys)?).in_table(self.name())
    }

    /// Calls `row` with each key and value in `bounds`, ascending, until it breaks; see [`Table::scan`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// use std::ops::ControlFlow;
    /// let readings = db.table::<u32, f64>("readings")?; // second → degrees
    /// readings.put_many(&[(0, 1.5), (60, 2.5), (120, 9.0)])?;
    /// let (snapshot, mut warmest) = (db.snapshot()?, f64::MIN);
    /// snapshot.table(&readings).scan(..120, |_, degrees| {
    ///     warmest = warmest.max(degrees);
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert_eq!(warmest, 2.5);
    /// # Ok(()) }
    /// ```
    pub fn scan(&self, bounds: impl KeyBounds<K>, row: impl FnMut(K, V) -> ControlFlow<()>) -> Result<()> {
        let bounds = bounds.encoded().in_table(self.name())?;
        decoded(row, |row| self.bytes.scan(bounds, row)).in_table(self.name())
    }

    /// Calls `key` with each key in `bounds`, ascending, until it breaks; see [`Table::scan_keys`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// use std::ops::ControlFlow;
    /// let pages = db.table::<String, String>("pages")?;
    /// pages.put_many(&[("about".into(), "We …".into()), ("home".into(), "Hello".into())])?;
    /// let (site, mut names) = (db.snapshot()?, Vec::new());
    /// pages.remove("about")?;
    /// site.table(&pages).scan_keys(.., |name| {
    ///     names.push(name);
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert_eq!(names, ["about", "home"]);
    /// # Ok(()) }
    /// ```
    pub fn scan_keys(&self, bounds: impl KeyBounds<K>, key: impl FnMut(K) -> ControlFlow<()>) -> Result<()> {
        let bounds = bounds.encoded().in_table(self.name())?;
        decoded_keys(key, |key| self.bytes.scan_keys(bounds, key)).in_table(self.name())
    }

    /// Rows whose keys lie in `bounds`, ascending; `.rev()` descends. An encoding error appears as the first row.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let log = db.table::<u32, String>("log")?;
    /// log.put_many(&[(1, "began".into()), (2, "ended".into())])?;
    /// let snapshot = db.snapshot()?;
    /// log.put(&3, &"began again".into())?;
    /// let newest = snapshot.table(&log).range(..).rev().next().transpose()?;
    /// assert_eq!(newest, Some((2, "ended".into())));
    /// # Ok(()) }
    /// ```
    pub fn range(&self, bounds: impl KeyBounds<K>) -> Range<K, V> {
        Range::new(bounds.encoded().in_table(self.name()).map(|bounds| self.bytes.range_between(bounds)))
    }

    /// The row with the least key.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let prices = db.table::<u64, f64>("prices")?; // second → price
    /// prices.put_many(&[(0, 9.5), (60, 9.75)])?;
    /// let today = db.snapshot()?;
    /// prices.put(&120, &10.0)?;
    /// let (first, last) = (today.table(&prices).first()?, today.table(&prices).last()?);
    /// assert_eq!((first, last), (Some((0, 9.5)), Some((60, 9.75))));
    /// # Ok(()) }
    /// ```
    pub fn first(&self) -> Result<Option<(K, V)>> {
        self.range(..).next().transpose()
    }

    /// The row with the greatest key. See [`first`](SnapshotTable::first) for an example.
    pub fn last(&self) -> Result<Option<(K, V)>> {
        self.range(..).next_back().transpose()
    }

    /// Is there no row? No value is read.
    pub fn is_empty(&self) -> Result<bool> {
        self.bytes.is_empty()
    }

    /// Rows whose keys begin with `leading`; as [`Table::prefix`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let delays = db.table::<(String, u32), i16>("delays")?; // carrier and number → minutes
    /// delays.put_many(&[(("AA".into(), 428), -10), (("WN".into(), 7), 5)])?;
    /// let snapshot = db.snapshot()?;
    /// delays.put(&("AA".into(), 1294), &5)?;
    /// assert_eq!(snapshot.table(&delays).prefix(&("AA",)).count(), 1);
    /// # Ok(()) }
    /// ```
    pub fn prefix(&self, leading: &(impl KeyPrefix<K> + ?Sized)) -> Range<K, V> {
        Range::new(leading.bounds().in_table(self.name()).map(|bounds| self.bytes.range_between(bounds)))
    }
}
