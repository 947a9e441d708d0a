//! Typed tables, as transactions see and change them.

use crate::db::codec::{Key, Value, decode_found, encode_key, encode_row, encode_value};
use crate::db::prefix::{KeyComponent, KeyPrefix};
use crate::db::range::{KeyBounds, Range};
use crate::db::table::decoded;
use crate::db::transaction_bytes::TransactionBytes;
use crate::db::transaction_range::TransactionRange;
use crate::error::Result;
use std::marker::PhantomData;
use std::ops::ControlFlow;

/// A [`Table`](crate::Table) as a transaction sees and changes it; errors as [`TransactionBytes`].
pub struct TransactionTable<'t, K, V> {
    pub(super) bytes: TransactionBytes<'t>,
    pub(super) types: PhantomData<fn() -> (K, V)>,
}

impl<K: Key, V: Value> TransactionTable<'_, K, V> {
    /// The value of `key`.
    pub fn get<'k, Q: ?Sized>(&self, key: &'k Q) -> Result<Option<V>>
    where
        &'k Q: KeyComponent<K>,
    {
        decode_found(self.bytes.get(&encode_key(&key)?)?)
    }

    /// The values of many keys, in their order; see [`TransactionBytes::multi_get`].
    pub fn multi_get(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        let keys = keys.iter().map(encode_key).collect::<Result<Vec<_>>>()?;
        self.bytes.multi_get(&keys)?.into_iter().map(decode_found).collect()
    }

    /// The value of `key`, for a row that is going to be changed; see [`TransactionBytes::get_for_update`].
    pub fn get_for_update<'k, Q: ?Sized>(&self, key: &'k Q) -> Result<Option<V>>
    where
        &'k Q: KeyComponent<K>,
    {
        decode_found(self.bytes.get_for_update(&encode_key(&key)?)?)
    }

    /// Is there a value for `key`?
    pub fn contains<'k, Q: ?Sized>(&self, key: &'k Q) -> Result<bool>
    where
        &'k Q: KeyComponent<K>,
    {
        self.bytes.contains(&encode_key(&key)?)
    }

    /// Sets the value of `key`, whether or not it had one.
    pub fn put(&self, key: &K, value: &V) -> Result<()> {
        self.bytes.put(&encode_key(key)?, &encode_value(value)?)
    }

    /// Sets the value of `key` unless it has one; says whether it did.
    pub fn insert(&self, key: &K, value: &V) -> Result<bool> {
        self.bytes.insert(&encode_key(key)?, &encode_value(value)?)
    }

    /// Sets the values of many keys unless they have one; says how many did. See [`TransactionBytes::insert_many`].
    pub fn insert_many(&self, rows: &[(K, V)]) -> Result<usize> {
        self.bytes.insert_many(&rows.iter().map(encode_row).collect::<Result<Vec<_>>>()?)
    }

    /// Sets the values of many keys. See [`TransactionBytes::put_many`].
    pub fn put_many(&self, rows: &[(K, V)]) -> Result<()> {
        self.bytes.put_many(&rows.iter().map(encode_row).collect::<Result<Vec<_>>>()?)
    }

    /// Removes `key`; says whether it was there.
    pub fn remove<'k, Q: ?Sized>(&self, key: &'k Q) -> Result<bool>
    where
        &'k Q: KeyComponent<K>,
    {
        self.bytes.remove(&encode_key(&key)?)
    }

    /// Removes the rows whose keys lie in `bounds`; says how many. See [`TransactionBytes::remove_range`].
    pub fn remove_range(&self, bounds: impl KeyBounds<K>) -> Result<u64> {
        self.bytes.remove_between(bounds.encoded()?, u64::MAX)
    }

    /// Removes the rows whose keys begin with `leading`, as [`prefix`](TransactionTable::prefix) has them; says how many. See
    /// [`TransactionBytes::remove_range`].
    pub fn remove_prefix(&self, leading: &(impl KeyPrefix<K> + ?Sized)) -> Result<u64> {
        self.bytes.remove_between(leading.bounds()?, u64::MAX)
    }

    /// Rows whose keys lie in `bounds`, ascending; `.rev()` descends. See [`TransactionBytes::range`]. An encoding error
    /// appears as the first row.
    pub fn range(&self, bounds: impl KeyBounds<K>) -> Range<K, V, TransactionRange> {
        Range::new(bounds.encoded().map(|(from, to)| self.bytes.range_between(from, to)))
    }

    /// Calls `row` with each key and value in `bounds`, ascending, until it breaks; see [`TransactionBytes::scan`].
    pub fn scan(&self, bounds: impl KeyBounds<K>, row: impl FnMut(K, V) -> ControlFlow<()>) -> Result<()> {
        let bounds = bounds.encoded()?;
        decoded(row, |row| self.bytes.scan(bounds, row))
    }

    /// Rows whose keys begin with the components of `leading`, a tuple such as `("AA",)` of the key's own types, or with
    /// this string or slice; see [`KeyPrefix`]. `.rev()` descends. An encoding error appears as the first row.
    pub fn prefix(&self, leading: &(impl KeyPrefix<K> + ?Sized)) -> Range<K, V, TransactionRange> {
        Range::new(leading.bounds().map(|(from, to)| self.bytes.range_between(from, to)))
    }
}
