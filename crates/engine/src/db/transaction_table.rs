//! Typed tables, as transactions see and change them.

use crate::db::codec::{
    Key, Met, Value, change_value, decode_all, decode_found, decode_row, encode_key, encode_new_key,
    encode_row, encode_rows,
};
use crate::db::prefix::{KeyComponent, KeyPrefix};
use crate::db::range::{KeyBounds, Range};
use crate::db::table::{decoded, decoded_keys};
use crate::db::transaction_bytes::TransactionBytes;
use crate::db::transaction_range::TransactionRange;
use crate::error::Result;
use crate::txn::Direction;
use std::marker::PhantomData;
use std::ops::ControlFlow;

/// A [`Table`](crate::Table) as a transaction sees and changes it; errors as [`TransactionBytes`].
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// # let db = foreshore::Database::in_memory()?;
/// let flights = db.table::<u32, String>("flights")?; // number → route
/// let seats = db.table::<(u32, String), String>("seats")?; // flight and seat → passenger
/// flights.put(&428, &"IAH-DFW".into())?;
/// let book = |flight: u32, seat: &str, passenger: &str| {
///     db.transact(|tx| {
///         let (flights, seats) = (tx.table(&flights), tx.table(&seats));
///         Ok(flights.contains(&flight)? && seats.insert(&(flight, seat.into()), &passenger.into())?)
///     })
/// };
/// assert!(book(428, "12A", "ada")?);
/// assert!(!book(428, "12A", "ben")?, "the seat is taken");
/// assert!(!book(7, "1A", "ben")?, "there is no such flight");
/// # Ok(()) }
/// ```
pub struct TransactionTable<'t, K, V> {
    pub(super) bytes: TransactionBytes<'t>,
    pub(super) types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> std::fmt::Debug for TransactionTable<'_, K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TransactionTable({:?})", self.bytes.table.name())
    }
}

impl<K: Key, V: Value> TransactionTable<'_, K, V> {
    /// The table's name, for errors.
    fn name(&self) -> &str {
        self.bytes.table.name()
    }

    /// The value of `key`.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let limits = db.table::<String, u32>("limits")?;
    /// limits.put("seats", &100)?;
    /// let tx = db.begin()?;
    /// assert_eq!(tx.table(&limits).get("seats")?, Some(100));
    /// // What was read stays as it is until the transaction ends: others wait, or give up.
    /// let impatient = limits.with_lock_timeout(std::time::Duration::ZERO);
    /// assert!(impatient.put("seats", &50).is_err());
    /// tx.commit()?;
    /// impatient.put("seats", &50)?;
    /// # Ok(()) }
    /// ```
    pub fn get<'k, Q: ?Sized>(&self, key: &'k Q) -> Result<Option<V>>
    where
        &'k Q: KeyComponent<K>,
    {
        encode_key(&key).and_then(|key| decode_found(&key, self.bytes.get(&key)?)).in_table(self.name())
    }

    /// The values of many keys, in their order; see [`TransactionBytes::multi_get`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let prices = db.table::<u32, u64>("prices")?;
    /// prices.put_many(&[(7, 250), (9, 400)])?;
    /// let total = db.transact(|tx| {
    ///     let found = tx.table(&prices).multi_get(&[9, 7, 8])?;
    ///     Ok(found.into_iter().flatten().sum::<u64>()) // there is no 8
    /// })?;
    /// assert_eq!(total, 650);
    /// # Ok(()) }
    /// ```
    pub fn multi_get(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        let keys = keys.iter().map(encode_key).collect::<Result<Vec<_>>>().in_table(self.name())?;
        decode_all(&keys, self.bytes.multi_get(&keys)?).in_table(self.name())
    }

    /// The value of `key`, for a row that is going to be changed; see [`TransactionBytes::get_for_update`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let stock = db.table::<String, u32>("stock")?;
    /// stock.put("apples", &100)?;
    /// let sell_one = || {
    ///     db.transact(|tx| {
    ///         let stock = tx.table(&stock);
    ///         let left = stock.get_for_update("apples")?.unwrap_or(0);
    ///         stock.put("apples", &(left - 1))
    ///     })
    /// };
    /// std::thread::scope(|s| {
    ///     let clerks = [s.spawn(|| (0..10).try_for_each(|_| sell_one())), s.spawn(|| (0..10).try_for_each(|_| sell_one()))];
    ///     clerks.into_iter().try_for_each(|clerk| clerk.join().expect("no panic"))
    /// })?;
    /// assert_eq!(stock.get("apples")?, Some(80));
    /// # Ok(()) }
    /// ```
    pub fn get_for_update<'k, Q: ?Sized>(&self, key: &'k Q) -> Result<Option<V>>
    where
        &'k Q: KeyComponent<K>,
    {
        encode_key(&key)
            .and_then(|key| decode_found(&key, self.bytes.get_for_update(&key)?))
            .in_table(self.name())
    }

    /// Is there a value for `key`?
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let users = db.table::<u32, String>("users")?;
    /// let posts = db.table::<(u32, u32), String>("posts")?; // user and number → text
    /// let tx = db.begin()?;
    /// if tx.table(&users).contains(&1)? { // if not, nobody becomes user 1 before this has ended
    ///     tx.table(&posts).put(&(1, 1), &"hello".into())?;
    /// }
    /// tx.commit()?;
    /// assert_eq!(posts.range(..).count(), 0);
    /// # Ok(()) }
    /// ```
    pub fn contains<'k, Q: ?Sized>(&self, key: &'k Q) -> Result<bool>
    where
        &'k Q: KeyComponent<K>,
    {
        self.bytes.contains(&encode_key(&key).in_table(self.name())?)
    }

    /// Changes the row of `key`: `change` gets its value, `None` if there is none, and leaves what it is to be, `None` to remove it.
    /// Returns what `change` does; see [`TransactionBytes::modify`]. An encoding error leaves the row as it was.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let accounts = db.table::<String, i64>("accounts")?;
    /// accounts.put_many(&[("ada".into(), 70), ("ben".into(), 30)])?;
    /// db.transact(|tx| {
    ///     let accounts = tx.table(&accounts);
    ///     for (name, amount) in [("ada", -20), ("ben", 20)] {
    ///         accounts.modify(name, |balance| *balance = Some(balance.unwrap_or(0) + amount))?;
    ///     }
    ///     Ok(())
    /// })?;
    /// assert_eq!(accounts.multi_get(&["ada".into(), "ben".into()])?, [Some(50), Some(50)]);
    /// # Ok(()) }
    /// ```
    pub fn modify<'k, Q: ?Sized, R>(&self, key: &'k Q, change: impl FnOnce(&mut Option<V>) -> R) -> Result<R>
    where
        &'k Q: KeyComponent<K>,
    {
        let key = encode_new_key::<K>(&key).in_table(self.name())?;
        self.bytes.modify_or_fail(&key, |value| change_value(&key, value, change)).in_table(self.name())
    }

    /// Changes the rows of many keys, in their order, until `change` breaks; see [`TransactionBytes::multi_modify`]. After an encoding
    /// error that row and those after it are as they were.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let stock = db.table::<String, u32>("stock")?;
    /// stock.put_many(&[("apples".into(), 7), ("pears".into(), 5)])?;
    /// db.transact(|tx| {
    ///     tx.table(&stock).multi_modify(&["apples".into(), "pears".into()], |left| {
    ///         *left = left.map(|left| left - 1);
    ///         std::ops::ControlFlow::Continue(())
    ///     })
    /// })?;
    /// assert_eq!(stock.multi_get(&["apples".into(), "pears".into()])?, [Some(6), Some(4)]);
    /// # Ok(()) }
    /// ```
    pub fn multi_modify(
        &self,
        keys: &[K],
        mut change: impl FnMut(&mut Option<V>) -> ControlFlow<()>,
    ) -> Result<()> {
        let keys = keys
            .iter()
            .map(|key| encode_new_key::<K>(key))
            .collect::<Result<Vec<_>>>()
            .in_table(self.name())?;
        let (mut failed, mut next) = (Ok(()), keys.iter());
        self.bytes.multi_modify(&keys, |value| {
            let key = next.next().expect("each key is met once, in their order");
            change_value(key, value, &mut change).unwrap_or_else(|error| {
                failed = Err(error);
                ControlFlow::Break(())
            })
        })?;
        failed.in_table(self.name())
    }

    /// Sets the value of `key`, which may be given in a borrowed form ([`KeyComponent`]), whether or not it
    /// had one.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let users = db.table::<u32, String>("users")?;
    /// let ids = db.table::<String, u32>("ids of users")?; // the same, by name
    /// db.transact(|tx| {
    ///     tx.table(&users).put(&7, &"ada".into())?;
    ///     tx.table(&ids).put("ada", &7) // both, or neither
    /// })?;
    /// let id = ids.get("ada")?.expect("she was put there");
    /// assert_eq!(users.get(&id)?.as_deref(), Some("ada"));
    /// # Ok(()) }
    /// ```
    pub fn put<'k, Q: ?Sized>(&self, key: &'k Q, value: &V) -> Result<()>
    where
        &'k Q: KeyComponent<K>,
    {
        let (key, value) = encode_row::<K, V>(&key, value).in_table(self.name())?;
        self.bytes.put(&key, &value)
    }

    /// Sets the value of `key`, which may be given in a borrowed form, unless it has one; says whether it did.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let names = db.table::<String, u32>("names")?;
    /// db.transact(|tx| {
    ///     assert!(tx.table(&names).insert("ada", &1)?);
    ///     assert!(!tx.table(&names).insert("ada", &2)?, "taken");
    ///     Ok(())
    /// })?;
    /// assert_eq!(names.get("ada")?, Some(1));
    /// # Ok(()) }
    /// ```
    pub fn insert<'k, Q: ?Sized>(&self, key: &'k Q, value: &V) -> Result<bool>
    where
        &'k Q: KeyComponent<K>,
    {
        let (key, value) = encode_row::<K, V>(&key, value).in_table(self.name())?;
        self.bytes.insert(&key, &value)
    }

    /// Sets the values of many keys unless they have one; says how many did. See [`TransactionBytes::insert_many`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let lines = db.table::<(u32, u8), String>("order lines")?; // order and line → what
    /// let inserted = db.transact(|tx| {
    ///     tx.table(&lines).insert_many(&[((17, 1), "apples".into()), ((17, 2), "pears".into())])
    /// })?;
    /// assert_eq!((inserted, lines.prefix(&(17,)).count()), (2, 2));
    /// # Ok(()) }
    /// ```
    pub fn insert_many(&self, rows: &[(K, V)]) -> Result<usize> {
        self.bytes.insert_many(&encode_rows(rows).in_table(self.name())?)
    }

    /// Sets the values of many keys. See [`TransactionBytes::put_many`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let rates = db.table::<String, f64>("rates")?;
    /// rates.put("EUR", &1.05)?;
    /// db.transact(|tx| {
    ///     tx.table(&rates).put_many(&[("CHF".into(), 1.12), ("EUR".into(), 1.06)]) // all of today's, or none
    /// })?;
    /// assert_eq!(rates.multi_get(&["CHF".into(), "EUR".into()])?, [Some(1.12), Some(1.06)]);
    /// # Ok(()) }
    /// ```
    pub fn put_many(&self, rows: &[(K, V)]) -> Result<()> {
        self.bytes.put_many(&encode_rows(rows).in_table(self.name())?)
    }

    /// Removes `key`; says whether it was there.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let (open, done) = (db.table::<u32, String>("open")?, db.table::<u32, String>("done")?);
    /// open.put(&17, &"apples".into())?;
    /// db.transact(|tx| {
    ///     if let Some(order) = tx.table(&open).get_for_update(&17)? {
    ///         tx.table(&open).remove(&17)?;
    ///         tx.table(&done).put(&17, &order)?;
    ///     }
    ///     Ok(())
    /// })?;
    /// assert!(!open.contains(&17)? && done.contains(&17)?);
    /// # Ok(()) }
    /// ```
    pub fn remove<'k, Q: ?Sized>(&self, key: &'k Q) -> Result<bool>
    where
        &'k Q: KeyComponent<K>,
    {
        self.bytes.remove(&encode_key(&key).in_table(self.name())?)
    }

    /// Removes the rows whose keys lie in `bounds`; says how many. See [`TransactionBytes::remove_range`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let readings = db.table::<(u32, u32), f64>("readings")?; // day and second
    /// let days = db.table::<u32, u64>("days")?; // day → how many readings there were
    /// readings.put_many(&[((1, 0), 1.5), ((1, 60), 2.5), ((2, 0), 9.0)])?;
    /// db.transact(|tx| {
    ///     let removed = tx.table(&readings).remove_prefix(&(1,))?;
    ///     tx.table(&days).put(&1, &removed) // with them, or not at all
    /// })?;
    /// assert_eq!((days.get(&1)?, readings.range(..).count()), (Some(2), 1));
    /// assert_eq!(db.transact(|tx| tx.table(&readings).remove_range((2, 0)..))?, 1);
    /// # Ok(()) }
    /// ```
    pub fn remove_range(&self, bounds: impl KeyBounds<K>) -> Result<u64> {
        self.bytes.remove_between(bounds.encoded().in_table(self.name())?, u64::MAX)
    }

    /// Removes the rows whose keys begin with `leading`, as [`prefix`](TransactionTable::prefix) has them; says how many. See
    /// [`remove_range`](TransactionTable::remove_range) for an example.
    pub fn remove_prefix(&self, leading: &(impl KeyPrefix<K> + ?Sized)) -> Result<u64> {
        self.bytes.remove_between(leading.bounds().in_table(self.name())?, u64::MAX)
    }

    /// Removes the first rows whose keys lie in `bounds`, at most `rows_max`; says how many. See [`TransactionBytes::remove_some`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let readings = db.table::<i64, f64>("readings")?; // second → degrees
    /// readings.put_many(&[(-5, 1.5), (0, 2.0), (7, 2.5)])?;
    /// while db.transact(|tx| tx.table(&readings).remove_some(..7, 1))? > 0 {}
    /// assert_eq!(readings.range(..).count(), 1);
    /// # Ok(()) }
    /// ```
    pub fn remove_some(&self, bounds: impl KeyBounds<K>, rows_max: u64) -> Result<u64> {
        self.bytes.remove_between(bounds.encoded().in_table(self.name())?, rows_max)
    }

    /// Removes the row with the least key and returns it; see [`TransactionBytes::pop_first`]. A row that cannot be decoded stays.
    /// It is decoded while it is taken: a `Deserialize` that calls this transaction, or aborts it, waits for itself.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let jobs = db.table::<u64, String>("jobs")?;
    /// jobs.put(&1, &"sweep".into())?;
    /// let failed: foreshore::Result<()> = db.transact(|tx| {
    ///     let job = tx.table(&jobs).pop_first()?;
    ///     assert_eq!(job, Some((1, "sweep".into())));
    ///     Err(foreshore::Error::Argument("the broom is broken".into()))
    /// });
    /// assert!(failed.is_err() && jobs.contains(&1)?, "whoever comes next gets it");
    /// # Ok(()) }
    /// ```
    pub fn pop_first(&self) -> Result<Option<(K, V)>> {
        self.pop_first_in(..)
    }

    /// Removes the row with the greatest key and returns it; see [`TransactionBytes::pop_last`]. A row that cannot be decoded
    /// stays, and its `Deserialize` does not call this transaction, as with [`pop_first`](TransactionTable::pop_first).
    pub fn pop_last(&self) -> Result<Option<(K, V)>> {
        self.pop_last_in(..)
    }

    /// Removes the row with the least key in `bounds` and returns it; see [`TransactionBytes::pop_first_in`]. A row that cannot be
    /// decoded stays, and its `Deserialize` does not call this transaction, as with [`pop_first`](TransactionTable::pop_first).
    ///
    /// See [`Table::pop_first_in`](crate::Table::pop_first_in) for an example.
    pub fn pop_first_in(&self, bounds: impl KeyBounds<K>) -> Result<Option<(K, V)>> {
        let bounds = bounds.encoded().in_table(self.name())?;
        self.bytes.pop(Direction::Ascending, bounds, decode_row).in_table(self.name())
    }

    /// Removes the row with the greatest key in `bounds` and returns it; see [`TransactionBytes::pop_last_in`]. A row that cannot be
    /// decoded stays, and its `Deserialize` does not call this transaction, as with [`pop_first`](TransactionTable::pop_first).
    pub fn pop_last_in(&self, bounds: impl KeyBounds<K>) -> Result<Option<(K, V)>> {
        let bounds = bounds.encoded().in_table(self.name())?;
        self.bytes.pop(Direction::Descending, bounds, decode_row).in_table(self.name())
    }

    /// Rows whose keys lie in `bounds`, ascending; `.rev()` descends. See [`TransactionBytes::range`]. An encoding error
    /// appears as the first row.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let jobs = db.table::<u32, String>("jobs")?;
    /// jobs.put_many(&[(1, "sweep".into()), (2, "polish".into()), (3, "sweep".into())])?;
    /// let take = |what: &str| {
    ///     db.transact(|tx| {
    ///         let jobs = tx.table(&jobs);
    ///         for job in jobs.range(..) {
    ///             let (number, job) = job?;
    ///             if job == what {
    ///                 jobs.remove(&number)?;
    ///                 return Ok(Some(number));
    ///             }
    ///         }
    ///         Ok(None)
    ///     })
    /// };
    /// assert_eq!((take("polish")?, take("sweep")?, take("polish")?), (Some(2), Some(1), None));
    /// # Ok(()) }
    /// ```
    pub fn range(&self, bounds: impl KeyBounds<K>) -> Range<K, V, TransactionRange> {
        Range::new(bounds.encoded().in_table(self.name()).map(|bounds| self.bytes.range_between(bounds)))
    }

    /// The row with the least key; see [`TransactionBytes::first`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let orders = db.table::<u32, String>("orders")?;
    /// let order = |what: &str| {
    ///     db.transact(|tx| {
    ///         let orders = tx.table(&orders);
    ///         let number = orders.last()?.map_or(1, |(last, _)| last + 1); // numbers without gaps
    ///         orders.put(&number, &what.into())?;
    ///         Ok(number)
    ///     })
    /// };
    /// assert_eq!((order("apples")?, order("pears")?), (1, 2));
    /// let tx = db.begin()?;
    /// assert_eq!(tx.table(&orders).first()?, Some((1, "apples".into())));
    /// # Ok(()) }
    /// ```
    pub fn first(&self) -> Result<Option<(K, V)>> {
        self.range(..).next().transpose()
    }

    /// The row with the greatest key; see [`TransactionBytes::last`].
    pub fn last(&self) -> Result<Option<(K, V)>> {
        self.range(..).next_back().transpose()
    }

    /// Is there no row? See [`TransactionBytes::is_empty`].
    pub fn is_empty(&self) -> Result<bool> {
        self.bytes.is_empty()
    }

    /// About how many rows lie in `bounds`, for choosing a way; see [`TransactionBytes::estimate_range`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// use foreshore::Prefix;
    /// let orders = db.table::<(u32, u32), String>("orders")?; // customer and number → what
    /// db.transact(|tx| {
    ///     let orders = tx.table(&orders);
    ///     orders.put_many(&[((7, 1), "apples".into()), ((7, 2), "pears".into()), ((9, 1), "plums".into())])?;
    ///     assert_eq!(orders.estimate_range(Prefix((7,)))?, 2); // its own rows are counted
    ///     Ok(())
    /// })?;
    /// # Ok(()) }
    /// ```
    pub fn estimate_range(&self, bounds: impl KeyBounds<K>) -> Result<u64> {
        self.bytes.estimate_between(bounds.encoded().in_table(self.name())?)
    }

    /// Calls `row` with each key and value in `bounds`, ascending, until it breaks; see [`TransactionBytes::scan`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// use std::ops::ControlFlow;
    /// let balances = db.table::<String, i64>("balances")?;
    /// balances.put_many(&[("ada".into(), 70), ("ben".into(), 30)])?;
    /// let total = db.transact(|tx| {
    ///     let mut total = 0;
    ///     tx.table(&balances).scan(.., |_, balance| {
    ///         total += balance;
    ///         ControlFlow::Continue(())
    ///     })?;
    ///     Ok(total)
    /// })?;
    /// assert_eq!(total, 100);
    /// # Ok(()) }
    /// ```
    pub fn scan(&self, bounds: impl KeyBounds<K>, row: impl FnMut(K, V) -> ControlFlow<()>) -> Result<()> {
        let bounds = bounds.encoded().in_table(self.name())?;
        decoded(row, |row| self.bytes.scan(bounds, row)).in_table(self.name())
    }

    /// Calls `key` with each key in `bounds`, ascending, until it breaks; see [`TransactionBytes::scan_keys`]. Values are neither read
    /// nor decoded.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// use foreshore::Prefix;
    /// use std::ops::ControlFlow;
    /// let seats = db.table::<(u32, String), String>("seats")?; // flight and seat → passenger
    /// let book = |flight: u32, seat: &str| {
    ///     db.transact(|tx| {
    ///         let (seats, mut taken) = (tx.table(&seats), 0);
    ///         seats.scan_keys(Prefix((flight,)), |_| {
    ///             taken += 1;
    ///             ControlFlow::Continue(())
    ///         })?;
    ///         Ok(taken < 2 && seats.insert(&(flight, seat.into()), &"ada".into())?) // a small aeroplane
    ///     })
    /// };
    /// assert!(book(428, "1A")? && book(428, "1B")?);
    /// assert!(!book(428, "2A")?, "it is full, whoever books at the same time");
    /// # Ok(()) }
    /// ```
    pub fn scan_keys(&self, bounds: impl KeyBounds<K>, key: impl FnMut(K) -> ControlFlow<()>) -> Result<()> {
        let bounds = bounds.encoded().in_table(self.name())?;
        decoded_keys(key, |key| self.bytes.scan_keys(bounds, key)).in_table(self.name())
    }

    /// Rows whose keys begin with `leading`; as [`Table::prefix`](crate::Table::prefix).
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let seats = db.table::<(u32, String), String>("seats")?; // flight and seat → passenger
    /// seats.put_many(&[((428, "12A".into()), "ada".into()), ((7, "1C".into()), "ben".into())])?;
    /// db.transact(|tx| {
    ///     let seats = tx.table(&seats);
    ///     for seat in seats.prefix(&(428,)) { // the flight is cancelled
    ///         let (key, _) = seat?;
    ///         seats.remove(&key)?;
    ///     }
    ///     Ok(())
    /// })?;
    /// assert_eq!(seats.range(..).count(), 1);
    /// # Ok(()) }
    /// ```
    pub fn prefix(&self, leading: &(impl KeyPrefix<K> + ?Sized)) -> Range<K, V, TransactionRange> {
        Range::new(leading.bounds().in_table(self.name()).map(|bounds| self.bytes.range_between(bounds)))
    }
}
