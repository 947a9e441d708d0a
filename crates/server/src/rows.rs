//! Rows of a table within a transaction, and whether any of them was changed: what only looks need not wait for the device,
//! nor is it a write to what is watched.

use crate::shared::Target;
use crate::watches::Watches;
use foreshore::{Error, Transaction, TransactionBytes};
use std::cell::Cell;
use std::ops::Bound;

/// The rows.
pub struct Rows<'t> {
    rows: TransactionBytes<'t>,
    table: &'t str,
    watches: &'t Watches,
    effects: Cell<Effects>,
}

/// What was done to rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Effects {
    /// Was any changed, or may it have been?
    pub has_changed: bool,
    /// Was any that is watched written, or seen to be something else than it was?
    pub breaks_watch: bool,
}

impl Effects {
    /// Of both.
    pub fn and(self, other: Self) -> Self {
        Self {
            has_changed: self.has_changed || other.has_changed,
            breaks_watch: self.breaks_watch || other.breaks_watch,
        }
    }
}

impl<'t> Rows<'t> {
    /// Those of a table, to which nothing is done yet.
    pub fn new(transaction: &'t Transaction, target: &'t Target, watches: &'t Watches) -> Self {
        Self {
            rows: transaction.bytes(target.table()),
            table: target.name(),
            watches,
            effects: Cell::default(),
        }
    }

    /// What was done to them.
    pub fn effects(&self) -> Effects {
        self.effects.get()
    }

    /// The value of `key`.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.seen(key, self.rows.get(key)?)
    }

    /// The value of `key`, which nobody else changes from here on.
    pub fn get_for_update(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.seen(key, self.rows.get_for_update(key)?)
    }

    /// Sets the value of `key`.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.note(true, self.watches.has(self.table, key));
        self.rows.put(key, value)
    }

    /// Sets the values of many keys.
    pub fn put_many(&self, rows: &[(&[u8], &[u8])]) -> Result<(), Error> {
        self.note(true, rows.iter().any(|(key, _)| self.watches.has(self.table, key)));
        self.rows.put_many(rows)
    }

    /// Sets the value of `key` unless it has one; says whether it did.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        let done = self.rows.insert(key, value)?;
        self.note(done, self.watches.is_met(self.table, key, done, true));
        Ok(done)
    }

    /// Removes `key`; says whether it was there.
    pub fn remove(&self, key: &[u8]) -> Result<bool, Error> {
        let done = self.rows.remove(key)?;
        self.note(done, self.watches.is_met(self.table, key, done, false));
        Ok(done)
    }

    /// Removes the first rows between the bounds, at most so many; says how many.
    pub fn remove_some(&self, bounds: (Bound<&[u8]>, Bound<&[u8]>), rows_max: u64) -> Result<u64, Error> {
        let removed = self.rows.remove_some(bounds, rows_max)?;
        self.note(removed > 0, false);
        Ok(removed)
    }

    fn seen(&self, key: &[u8], value: Option<Vec<u8>>) -> Result<Option<Vec<u8>>, Error> {
        self.note(false, self.watches.is_changed(self.table, key, value.as_deref()));
        Ok(value)
    }

    fn note(&self, has_changed: bool, breaks_watch: bool) {
        self.effects.set(self.effects().and(Effects { has_changed, breaks_watch }));
    }
}
