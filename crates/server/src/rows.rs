//! Rows of a table within a transaction, and whether any of them was changed: what only looks need not wait for the device,
//! nor is it a write to what is watched.

use foreshore::{Error, TransactionBytes};
use std::cell::Cell;
use std::ops::Bound;

/// The rows.
pub struct Rows<'t> {
    rows: TransactionBytes<'t>,
    has_changed: Cell<bool>,
}

impl<'t> Rows<'t> {
    /// Of which none is changed yet.
    pub fn new(rows: TransactionBytes<'t>) -> Self {
        Self { rows, has_changed: Cell::new(false) }
    }

    /// Has any been changed, or may it have been?
    pub fn has_changed(&self) -> bool {
        self.has_changed.get()
    }

    /// The value of `key`, which nobody else changes from here on.
    pub fn get_for_update(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.rows.get_for_update(key)
    }

    /// Sets the value of `key`.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.has_changed.set(true);
        self.rows.put(key, value)
    }

    /// Sets the values of many keys.
    pub fn put_many(&self, rows: &[(&[u8], &[u8])]) -> Result<(), Error> {
        self.has_changed.set(true);
        self.rows.put_many(rows)
    }

    /// Sets the value of `key` unless it has one; says whether it did.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        self.note(self.rows.insert(key, value))
    }

    /// Removes `key`; says whether it was there.
    pub fn remove(&self, key: &[u8]) -> Result<bool, Error> {
        self.note(self.rows.remove(key))
    }

    /// Removes the first rows between the bounds, at most so many; says how many.
    pub fn remove_some(&self, bounds: (Bound<&[u8]>, Bound<&[u8]>), rows_max: u64) -> Result<u64, Error> {
        let removed = self.rows.remove_some(bounds, rows_max);
        self.has_changed.set(self.has_changed.get() || !matches!(removed, Ok(0)));
        removed
    }

    fn note(&self, done: Result<bool, Error>) -> Result<bool, Error> {
        self.has_changed.set(self.has_changed.get() || !matches!(done, Ok(false)));
        done
    }
}
