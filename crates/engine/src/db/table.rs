//! Tables with typed keys and values, on top of tables of byte strings.

use crate::db::byte_table::ByteTable;
use crate::db::codec::{
    Key, Met, Value, change_value, decode_all, decode_found, decode_key, decode_parts, decode_row,
    encode_key, encode_new_key, encode_row, encode_rows,
};
use crate::db::prefix::{KeyComponent, KeyPrefix};
use crate::db::range::{ByteRange, KeyBounds, Range};
use crate::error::Result;
use crate::log::Durability;
use crate::txn::Direction;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::time::Duration;

/// A table with typed keys and values; see [`Key`] and [`Value`] for what can be one. Cheap to clone, free of
/// lifetimes, usable from any thread.
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// let db = foreshore::Database::in_memory()?;
/// let delays = db.table::<(String, u32), i16>("delays")?;
/// delays.put(&("AA".into(), 428), &-10)?;
/// delays.put(&("AA".into(), 1294), &5)?;
/// delays.put(&("WN".into(), 7), &0)?;
/// let of_aa: Vec<_> = delays.prefix(&("AA",)).collect::<foreshore::Result<_>>()?;
/// assert_eq!(of_aa, [(("AA".into(), 428), -10), (("AA".into(), 1294), 5)]);
/// # Ok(()) }
/// ```
pub struct Table<K, V> {
    bytes: ByteTable,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Clone for Table<K, V> {
    fn clone(&self) -> Self {
        Self { bytes: self.bytes.clone(), types: PhantomData }
    }
}

impl<K, V> std::fmt::Debug for Table<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Table({:?})", self.bytes.name())
    }
}

impl<K: Key, V: Value> Table<K, V> {
    pub(crate) fn new(bytes: ByteTable) -> Self {
        Self { bytes, types: PhantomData }
    }

    /// The table's name.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let ages = db.table::<String, u32>("ages")?;
    /// assert_eq!(ages.name(), "ages");
    /// # Ok(()) }
    /// ```
    pub fn name(&self) -> &str {
        self.bytes.name()
    }

    /// The same table as byte strings, in the encodings described at [`Key`] and [`Value`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let ages = db.table::<String, u32>("ages")?;
    /// ages.put("ada", &36)?;
    /// let bytes = ages.as_bytes(); // for what does not depend on the types
    /// assert_eq!((bytes.name(), bytes.range(..).count()), ("ages", 1));
    /// # Ok(()) }
    /// ```
    pub fn as_bytes(&self) -> &ByteTable {
        &self.bytes
    }

    /// A key of this table, from its bytes: as errors name it, and [`as_bytes`](Table::as_bytes) has it.
    ///
    /// Errors: [`Encoding`](crate::Error::Encoding) if it is not of the table's type.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// use foreshore::Error;
    /// let seats = db.table::<(u32, String), String>("seats")?; // flight and seat → passenger
    /// let tx = db.begin()?;
    /// tx.table(&seats).put(&(428, "12A".into()), &"ada".into())?;
    /// let impatient = seats.with_lock_timeout(std::time::Duration::ZERO);
    /// match impatient.put(&(428, "12A".into()), &"ben".into()) {
    ///     Err(Error::LockTimeout { key: Some(key), .. }) => assert_eq!(seats.decode_key(&key)?, (428, "12A".into())),
    ///     other => panic!("{other:?}"),
    /// }
    /// # Ok(()) }
    /// ```
    pub fn decode_key(&self, bytes: &[u8]) -> Result<K> {
        decode_key(bytes).in_row(bytes).in_table(self.name())
    }

    /// The same table through a handle whose writes wait for `durability`.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// use foreshore::Durability;
    /// let views = db.table::<String, u64>("views")?.with_durability(Durability::Buffered);
    /// views.put("/index.html", &1)?; // does not wait for the disk
    /// # Ok(()) }
    /// ```
    pub fn with_durability(&self, durability: Durability) -> Self {
        Self::new(self.bytes.with_durability(durability))
    }

    /// The same table through a handle whose writes wait at most this long for a lock: as [`ByteTable::with_lock_timeout`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// use std::time::Duration;
    /// let seats = db.table::<u32, String>("seats")?;
    /// let tx = db.begin()?;
    /// tx.table(&seats).put(&12, &"ada".into())?;
    /// let refused = seats.with_lock_timeout(Duration::from_millis(5)).put(&12, &"ben".into());
    /// println!("{}", refused.unwrap_err()); // says how long it waited, for whom, and where
    /// tx.commit()?;
    /// # Ok(()) }
    /// ```
    pub fn with_lock_timeout(&self, timeout: Duration) -> Self {
        Self::new(self.bytes.with_lock_timeout(timeout))
    }

    /// The value of `key`, which may be given in a borrowed form ([`KeyComponent`]).
    ///
    /// Errors: [`Encoding`](crate::Error::Encoding) if it is not of the table's type.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let ages = db.table::<String, u32>("ages")?;
    /// ages.put("ada", &36)?;
    /// assert_eq!(ages.get("ada")?, Some(36)); // no `String` is needed to ask
    /// assert_eq!(ages.get("ben")?, None);
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
    /// let ages = db.table::<String, u32>("ages")?;
    /// ages.put("ada", &36)?;
    /// assert!(ages.contains("ada")? && !ages.contains("ben")?);
    /// # Ok(()) }
    /// ```
    pub fn contains<'k, Q: ?Sized>(&self, key: &'k Q) -> Result<bool>
    where
        &'k Q: KeyComponent<K>,
    {
        self.bytes.contains(&encode_key(&key).in_table(self.name())?)
    }

    /// The values of many keys, in their order; see [`ByteTable::multi_get`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let ages = db.table::<String, u32>("ages")?;
    /// ages.put("ada", &36)?;
    /// assert_eq!(ages.multi_get(&["ada".into(), "ben".into()])?, [Some(36), None]);
    /// # Ok(()) }
    /// ```
    pub fn multi_get(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        let keys = keys.iter().map(encode_key).collect::<Result<Vec<_>>>().in_table(self.name())?;
        decode_all(&keys, self.bytes.multi_get(&keys)?).in_table(self.name())
    }

    /// Sets the value of `key`, which may be given in a borrowed form ([`KeyComponent`]), whether or not it
    /// had one. Errors as [`ByteTable::put`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let ages = db.table::<String, u32>("ages")?;
    /// ages.put("ada", &36)?;
    /// ages.put("ada", &37)?;
    /// assert_eq!(ages.get("ada")?, Some(37));
    /// # Ok(()) }
    /// ```
    pub fn put<'k, Q: ?Sized>(&self, key: &'k Q, value: &V) -> Result<()>
    where
        &'k Q: KeyComponent<K>,
    {
        let (key, value) = encode_row::<K, V>(&key, value).in_table(self.name())?;
        self.bytes.put(&key, &value)
    }

    /// Sets the values of many keys, each as a commit of its own; see [`ByteTable::put_many`]. If a key or value cannot be
    /// encoded, none is set.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let ages = db.table::<String, u32>("ages")?;
    /// ages.put_many(&[("ada".into(), 36), ("ben".into(), 40)])?;
    /// assert_eq!(ages.get("ben")?, Some(40));
    /// # Ok(()) }
    /// ```
    pub fn put_many(&self, rows: &[(K, V)]) -> Result<()> {
        self.bytes.put_many(&encode_rows(rows).in_table(self.name())?)
    }

    /// Sets the value of `key`, which may be given in a borrowed form, unless it has one; says whether it did.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let ages = db.table::<String, u32>("ages")?;
    /// assert!(ages.insert("ada", &36)?);
    /// assert!(!ages.insert("ada", &99)?);
    /// assert_eq!(ages.get("ada")?, Some(36));
    /// # Ok(()) }
    /// ```
    pub fn insert<'k, Q: ?Sized>(&self, key: &'k Q, value: &V) -> Result<bool>
    where
        &'k Q: KeyComponent<K>,
    {
        let (key, value) = encode_row::<K, V>(&key, value).in_table(self.name())?;
        self.bytes.insert(&key, &value)
    }

    /// Removes `key`; says whether it was there. Errors as [`ByteTable::put`], so also for a key that is too long for a
    /// row, of which [`get`](Table::get) just says that there is none.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let ages = db.table::<String, u32>("ages")?;
    /// ages.put("ada", &36)?;
    /// assert!(ages.remove("ada")?);
    /// assert!(!ages.contains("ada")?);
    ///
    /// let long = "x".repeat(2000);
    /// assert_eq!(ages.get(&long)?, None);
    /// assert!(matches!(ages.remove(&long), Err(foreshore::Error::KeyTooLong { .. })));
    /// # Ok(()) }
    /// ```
    pub fn remove<'k, Q: ?Sized>(&self, key: &'k Q) -> Result<bool>
    where
        &'k Q: KeyComponent<K>,
    {
        self.bytes.remove(&encode_key(&key).in_table(self.name())?)
    }

    /// Changes the row of `key` in one step: `change` gets its value, `None` if there is none, and leaves what it is to be, `None` to
    /// remove it. Returns what `change` does; see [`ByteTable::modify`].
    ///
    /// Errors: [`Encoding`](crate::Error::Encoding) if the value is not of the table's type, or the new one cannot be encoded; the row
    /// is as it was then.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let ids = db.table::<String, u64>("ids")?;
    /// let next_id = |of: &str| {
    ///     ids.modify(of, |last| {
    ///         let next = last.unwrap_or(0) + 1;
    ///         *last = Some(next);
    ///         next
    ///     })
    /// };
    /// assert_eq!((next_id("orders")?, next_id("orders")?, next_id("users")?), (1, 2, 1));
    /// # Ok(()) }
    /// ```
    pub fn modify<'k, Q: ?Sized, R>(
        &self,
        key: &'k Q,
        mut change: impl FnMut(&mut Option<V>) -> R,
    ) -> Result<R>
    where
        &'k Q: KeyComponent<K>,
    {
        let key = encode_new_key::<K>(&key).in_table(self.name())?;
        self.bytes.modify_or_fail(&key, |value| change_value(&key, value, &mut change)).in_table(self.name())
    }

    /// Removes the rows whose keys lie in `bounds`, all at one point in time or none; says how many. See
    /// [`ByteTable::remove_range`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let readings = db.table::<i64, f64>("readings")?; // second → degrees
    /// readings.put_many(&[(-5, 1.5), (0, 2.0), (7, 2.5)])?;
    /// assert_eq!(readings.remove_range(..7)?, 2);
    /// # Ok(()) }
    /// ```
    pub fn remove_range(&self, bounds: impl KeyBounds<K>) -> Result<u64> {
        self.bytes.remove_between(bounds.encoded().in_table(self.name())?)
    }

    /// Removes the rows whose keys begin with `leading`, as [`prefix`](Table::prefix) has them, all or none; says how many. See
    /// [`ByteTable::remove_range`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let delays = db.table::<(String, u32), i16>("delays")?;
    /// delays.put_many(&[(("AA".into(), 428), -10), (("AA".into(), 1294), 5), (("WN".into(), 7), 0)])?;
    /// assert_eq!(delays.remove_prefix(&("AA",))?, 2);
    /// # Ok(()) }
    /// ```
    pub fn remove_prefix(&self, leading: &(impl KeyPrefix<K> + ?Sized)) -> Result<u64> {
        self.bytes.remove_between(leading.bounds().in_table(self.name())?)
    }

    /// Removes the row with the least key and returns it; see [`ByteTable::pop_first`]. A row that cannot be decoded stays.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let jobs = db.table::<u64, String>("jobs")?;
    /// jobs.put_many(&[(1, "sweep".into()), (2, "polish".into())])?;
    /// let work = || -> foreshore::Result<Vec<String>> {
    ///     let mut done = Vec::new();
    ///     while let Some((_, job)) = jobs.pop_first()? {
    ///         done.push(job);
    ///     }
    ///     Ok(done)
    /// };
    /// let (ada, ben) = std::thread::scope(|s| {
    ///     let (ada, ben) = (s.spawn(work), s.spawn(work));
    ///     (ada.join().expect("no panic"), ben.join().expect("no panic"))
    /// });
    /// assert_eq!(ada?.len() + ben?.len(), 2, "each job is done once");
    /// # Ok(()) }
    /// ```
    pub fn pop_first(&self) -> Result<Option<(K, V)>> {
        self.pop_first_in(..)
    }

    /// Removes the row with the greatest key and returns it; see [`ByteTable::pop_last`]. A row that cannot be decoded stays.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let undo = db.table::<u32, String>("undo")?;
    /// undo.put_many(&[(1, "typed `a`".into()), (2, "typed `b`".into())])?;
    /// assert_eq!(undo.pop_last()?, Some((2, "typed `b`".into())));
    /// # Ok(()) }
    /// ```
    pub fn pop_last(&self) -> Result<Option<(K, V)>> {
        self.pop_last_in(..)
    }

    /// Removes the row with the least key in `bounds` and returns it; see [`ByteTable::pop_first_in`]. A row that cannot be decoded
    /// stays.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// use foreshore::Prefix;
    /// let jobs = db.table::<(String, u64), String>("jobs")?; // queue and number → what to do
    /// jobs.put(&("mail".into(), 1), &"to ada".into())?;
    /// jobs.put(&("print".into(), 1), &"a page".into())?;
    /// let next = |queue: &str| Ok::<_, foreshore::Error>(jobs.pop_first_in(Prefix((queue,)))?.map(|row| row.1));
    /// assert_eq!(next("print")?, Some("a page".into()));
    /// assert_eq!(next("print")?, None, "the mail is another queue");
    /// # Ok(()) }
    /// ```
    pub fn pop_first_in(&self, bounds: impl KeyBounds<K>) -> Result<Option<(K, V)>> {
        let bounds = bounds.encoded().in_table(self.name())?;
        self.bytes.pop(Direction::Ascending, bounds, decode_row).in_table(self.name())
    }

    /// Removes the row with the greatest key in `bounds` and returns it; see [`ByteTable::pop_last_in`]. A row that cannot be decoded
    /// stays.
    pub fn pop_last_in(&self, bounds: impl KeyBounds<K>) -> Result<Option<(K, V)>> {
        let bounds = bounds.encoded().in_table(self.name())?;
        self.bytes.pop(Direction::Descending, bounds, decode_row).in_table(self.name())
    }

    /// Rows whose keys lie in `bounds`, ascending; `.rev()` descends. See [`ByteTable::range`]. An encoding error appears as
    /// the first row.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let readings = db.table::<i64, f64>("readings")?; // second → degrees
    /// readings.put_many(&[(-5, 1.5), (0, 2.0), (7, 2.5)])?;
    /// let since: Vec<_> = readings.range(0..).collect::<foreshore::Result<_>>()?;
    /// assert_eq!(since, [(0, 2.0), (7, 2.5)]);
    /// let (second, _) = readings.range(..).rev().next().expect("there are readings")?;
    /// assert_eq!(second, 7);
    /// # Ok(()) }
    /// ```
    pub fn range(&self, bounds: impl KeyBounds<K>) -> Range<K, V> {
        Range::new(
            bounds.encoded().in_table(self.name()).map(|bounds| ByteRange::new(self.bytes.clone(), bounds)),
        )
    }

    /// The row with the least key; see [`ByteTable::first`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let readings = db.table::<i64, f64>("readings")?; // second → degrees
    /// readings.put_many(&[(-5, 1.5), (0, 2.0), (7, 2.5)])?;
    /// assert_eq!(readings.first()?, Some((-5, 1.5)));
    /// assert_eq!(readings.last()?, Some((7, 2.5)));
    /// # Ok(()) }
    /// ```
    pub fn first(&self) -> Result<Option<(K, V)>> {
        self.range(..).next().transpose()
    }

    /// The row with the greatest key; see [`ByteTable::first`].
    pub fn last(&self) -> Result<Option<(K, V)>> {
        self.range(..).next_back().transpose()
    }

    /// Is there no row? See [`ByteTable::is_empty`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let jobs = db.table::<u32, String>("jobs")?;
    /// assert!(jobs.is_empty()?);
    /// jobs.put(&1, &"sweep".into())?;
    /// assert!(!jobs.is_empty()?);
    /// # Ok(()) }
    /// ```
    pub fn is_empty(&self) -> Result<bool> {
        self.bytes.is_empty()
    }

    /// About how many rows lie in `bounds`; see [`ByteTable::estimate_range`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let readings = db.table::<i64, f64>("readings")?;
    /// readings.put_many(&[(-5, 1.5), (0, 2.0), (7, 2.5)])?;
    /// assert_eq!(readings.estimate_range(0..)?, 2);
    /// # Ok(()) }
    /// ```
    pub fn estimate_range(&self, bounds: impl KeyBounds<K>) -> Result<u64> {
        self.bytes.tree.estimate(bounds.encoded().in_table(self.name())?)
    }

    /// Rows whose keys begin with the components of `leading`, a tuple such as `("AA",)` of the key's own types, or with
    /// this string or slice; see [`KeyPrefix`]. `.rev()` descends. An encoding error appears as the first row.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let log = db.table::<(u16, u8, String), u32>("log")?; // year, month, what → how often
    /// log.put_many(&[((2011, 1, "delay".into()), 7), ((2011, 2, "delay".into()), 9), ((2012, 1, "delay".into()), 1)])?;
    /// assert_eq!(log.prefix(&(2011,)).count(), 2);
    /// assert_eq!(log.prefix(&(2011, 2)).count(), 1);
    /// let (newest, _) = log.prefix(&(2011,)).rev().next().expect("there are two")?;
    /// assert_eq!(newest, (2011, 2, "delay".into()));
    /// # Ok(()) }
    /// ```
    pub fn prefix(&self, leading: &(impl KeyPrefix<K> + ?Sized)) -> Range<K, V> {
        Range::new(
            leading.bounds().in_table(self.name()).map(|bounds| ByteRange::new(self.bytes.clone(), bounds)),
        )
    }

    /// Calls `row` with each key and value in `bounds`, ascending, until it breaks; faster than [`Table::range`], since the
    /// row's bytes are not copied first.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// use std::ops::ControlFlow;
    /// let delays = db.table::<(String, u32), i16>("delays")?;
    /// delays.put_many(&[(("AA".into(), 428), -10), (("AA".into(), 1294), 5), (("WN".into(), 7), 0)])?;
    /// let mut minutes = 0;
    /// delays.scan(.., |_, late| {
    ///     minutes += late;
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert_eq!(minutes, -5);
    /// # Ok(()) }
    /// ```
    pub fn scan(&self, bounds: impl KeyBounds<K>, row: impl FnMut(K, V) -> ControlFlow<()>) -> Result<()> {
        let bounds = bounds.encoded().in_table(self.name())?;
        decoded(row, |row| self.bytes.scan(bounds, row)).in_table(self.name())
    }

    /// Calls `key` with each key in `bounds`, ascending, until it breaks. Values are neither read, however large they are, nor decoded.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// use std::ops::ControlFlow;
    /// let photos = db.table::<(String, u32), Vec<u8>>("photos")?; // album and number → a picture
    /// photos.put_many(&[(("hills".into(), 1), vec![0; 5 << 20]), (("sea".into(), 1), vec![0; 3 << 20])])?;
    /// let mut albums = Vec::new();
    /// photos.scan_keys(.., |(album, _)| {
    ///     albums.push(album);
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert_eq!(albums, ["hills", "sea"]);
    /// # Ok(()) }
    /// ```
    pub fn scan_keys(&self, bounds: impl KeyBounds<K>, key: impl FnMut(K) -> ControlFlow<()>) -> Result<()> {
        let bounds = bounds.encoded().in_table(self.name())?;
        decoded_keys(key, |key| self.bytes.scan_keys(bounds, key)).in_table(self.name())
    }

    /// Loads rows in strictly ascending order of their keys; see [`ByteTable::bulk_load`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let squares = db.table::<u32, u64>("squares")?;
    /// squares.bulk_load((0..1000).map(|n| (n, u64::from(n).pow(2))))?;
    /// assert_eq!(squares.get(&999)?, Some(998_001));
    /// # Ok(()) }
    /// ```
    pub fn bulk_load(&self, rows: impl IntoIterator<Item = (K, V)>) -> Result<u64> {
        let mut failed = None;
        let encode =
            |(key, value): (K, V)| encode_row::<K, V>(&key, &value).map_err(|e| failed = Some(e)).ok();
        let count = self.bytes.bulk_load(rows.into_iter().map_while(encode))?;
        failed.map_or(Ok(count), Err).in_table(self.name())
    }
}

/// Runs a scan of bytes for `row`, which wants them decoded. The first row that does not decode ends it.
pub(crate) fn decoded<K: Key, V: Value>(
    mut row: impl FnMut(K, V) -> ControlFlow<()>,
    scan: impl FnOnce(&mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>) -> Result<()>,
) -> Result<()> {
    let mut failed = Ok(());
    scan(&mut |key, value| {
        unless_failed(decode_parts(key, value), &mut failed, |(key, value)| row(key, value))
    })?;
    failed
}

/// The same of keys alone.
pub(crate) fn decoded_keys<K: Key>(
    mut key: impl FnMut(K) -> ControlFlow<()>,
    scan: impl FnOnce(&mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Result<()>,
) -> Result<()> {
    let mut failed = Ok(());
    scan(&mut |found| unless_failed(decode_key(found).in_row(found), &mut failed, &mut key))?;
    failed
}

/// Hands on what was decoded; if that failed, says so and ends the scan.
fn unless_failed<T>(
    decoded: Result<T>,
    failed: &mut Result<()>,
    show: impl FnOnce(T) -> ControlFlow<()>,
) -> ControlFlow<()> {
    match decoded {
        Ok(decoded) => show(decoded),
        Err(error) => {
            *failed = Err(error);
            ControlFlow::Break(())
        }
    }
}
