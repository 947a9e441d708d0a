//! Read-only transactions.

use crate::bounds::successor;
use crate::db::codec::{Key, Value, decode_found, encode_key};
use crate::db::engine::Engine;
use crate::db::prefix::{KeyComponent, KeyPrefix};
use crate::db::range::{ByteRange, KeyBounds, Range};
use crate::db::table::{ByteTable, Table, decoded};
use crate::error::{Error, Result};
use crate::spread::Held;
use crate::txn::{self, View};
use foreshore_base::Lsn;
use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// A read-only transaction: everything that was committed when it was taken, and nothing else, for as long as it is
/// held. It takes no locks, waits for nobody, and nobody waits for it. Cheap to clone.
///
/// What it saw may not be durable yet, if commits do not wait for that; [`Snapshot::wait_durable`] does.
///
/// Old versions of rows that change meanwhile are kept in memory while it is open. If they take more than
/// [`Builder::old_version_bytes`](crate::Builder::old_version_bytes), the oldest snapshot is given up: its reads return
/// [`Error::SnapshotTooOld`].
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
    /// See [`Snapshot`] for an example. A table of another database is refused by the first call, with [`Error::Argument`].
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
        log.commit(self.shared.view().at, crate::log::Durability::Sync)
    }
}

/// A [`ByteTable`] as a snapshot sees it.
pub struct SnapshotBytes<'s> {
    shared: &'s Arc<OpenSnapshot>,
    table: &'s ByteTable,
}

impl SnapshotBytes<'_> {
    /// The value of `key`, copied out.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// Replaces the content of `value` by the value of `key`; `false`, and an empty `value`, if there is none. Writes
    /// no shared memory.
    #[inline]
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.ensure_ours()?;
        let found = self.table.tree.get(&self.shared.snapshot.view, key, value);
        self.shared.confirm().and(found)
    }

    /// Is there a value for `key`?
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        self.ensure_ours()?;
        let found = self.table.tree.contains(&self.shared.snapshot.view, key);
        self.shared.confirm().and(found)
    }

    /// The values of many keys, in their order.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        self.ensure_ours()?;
        let values = self.table.tree.multi_get(&self.shared.snapshot.view, keys);
        self.shared.confirm().and(values)
    }

    /// As [`SnapshotBytes::multi_get`], but calls `read` with one value after the other, until it breaks: nothing is
    /// allocated per key.
    pub fn multi_get_with<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut read: impl FnMut(Option<&[u8]>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.ensure_ours()?;
        let mut too_old = Ok(());
        let mut confirmed = |value: Option<&[u8]>| {
            too_old = self.shared.confirm();
            if too_old.is_err() { ControlFlow::Break(()) } else { read(value) }
        };
        let read = self.table.tree.multi_get_with(&self.shared.snapshot.view, keys, &mut confirmed);
        too_old.and_then(|()| self.shared.confirm()).and(read)
    }

    /// Rows whose keys lie in `bounds`, ascending; `.rev()` descends. The iterator keeps the snapshot open.
    pub fn range(&self, bounds: impl KeyBounds<[u8]>) -> ByteRange {
        let (from, to) = bounds.raw();
        self.range_between(from, to)
    }

    /// Rows whose keys begin with `prefix`, ascending; `.rev()` descends.
    pub fn prefix(&self, prefix: &[u8]) -> ByteRange {
        self.range_between(Bound::Included(prefix.to_vec()), successor(prefix))
    }

    fn range_between(&self, from: Bound<Vec<u8>>, to: Bound<Vec<u8>>) -> ByteRange {
        ByteRange::of_snapshot(self.table.clone(), self.shared.clone(), from, to)
    }

    /// Calls `row` with each key and value in `bounds`, ascending, until it breaks.
    pub fn scan(
        &self,
        bounds: impl KeyBounds<[u8]>,
        mut row: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.ensure_ours()?;
        let (from, to) = bounds.raw();
        let mut too_old = Ok(());
        let mut confirmed = |key: &[u8], value: &[u8]| {
            too_old = self.shared.confirm();
            if too_old.is_err() { ControlFlow::Break(()) } else { row(key, value) }
        };
        let scanned = self.table.tree.scan(self.shared.snapshot.view, from, to, &mut confirmed);
        too_old.and_then(|()| self.shared.confirm()).and(scanned)
    }

    fn ensure_ours(&self) -> Result<()> {
        self.shared.ensure_ours(self.table)
    }
}

/// A [`Table`] as a snapshot sees it.
pub struct SnapshotTable<'s, K, V> {
    bytes: SnapshotBytes<'s>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: Key, V: Value> SnapshotTable<'_, K, V> {
    /// The value of `key`.
    pub fn get<'k, Q: ?Sized>(&self, key: &'k Q) -> Result<Option<V>>
    where
        &'k Q: KeyComponent<K>,
    {
        decode_found(self.bytes.get(&encode_key(&key)?)?)
    }

    /// Is there a value for `key`?
    pub fn contains<'k, Q: ?Sized>(&self, key: &'k Q) -> Result<bool>
    where
        &'k Q: KeyComponent<K>,
    {
        self.bytes.contains(&encode_key(&key)?)
    }

    /// The values of many keys, in their order.
    pub fn multi_get(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        let keys: Vec<_> = keys.iter().map(encode_key).collect::<Result<_>>()?;
        self.bytes.multi_get(&keys)?.into_iter().map(decode_found).collect()
    }

    /// Calls `row` with each key and value in `bounds`, ascending, until it breaks; see [`Table::scan`].
    pub fn scan(&self, bounds: impl KeyBounds<K>, row: impl FnMut(K, V) -> ControlFlow<()>) -> Result<()> {
        let bounds = bounds.encoded()?;
        decoded(row, |row| self.bytes.scan(bounds, row))
    }

    /// Rows whose keys lie in `bounds`, ascending; `.rev()` descends. An encoding error appears as the first row.
    pub fn range(&self, bounds: impl KeyBounds<K>) -> Range<K, V> {
        Range::new(bounds.encoded().map(|(from, to)| self.bytes.range_between(from, to)))
    }

    /// Rows whose keys begin with the components of `leading`, a tuple such as `("AA",)` of the key's own types, or with
    /// this string or slice; see [`KeyPrefix`]. `.rev()` descends. An encoding error appears as the first row.
    pub fn prefix(&self, leading: &(impl KeyPrefix<K> + ?Sized)) -> Range<K, V> {
        Range::new(leading.bounds().map(|(from, to)| self.bytes.range_between(from, to)))
    }
}
