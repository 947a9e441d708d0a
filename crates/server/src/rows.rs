//! What a command does within a transaction: rows, and what was done to them. What only looks is no write to what is watched.

use crate::commands::{CommandError, HEAVY, REMOVED, Scale, read_bytes_max};
use crate::shared::Target;
use crate::watches::Watches;
use foreshore::{Error, Transaction, TransactionBytes};
use std::cell::Cell;
use std::ops::Bound;

/// A command's part of a transaction.
pub struct Part<'t> {
    transaction: &'t Transaction,
    watches: &'t Watches,
    /// Must no value be read or written that is too heavy for an event loop?
    is_on_loop: bool,
    scale: Scale,
    effects: Cell<Effects>,
}

/// What was done to rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Effects {
    /// Was any that is watched written, or seen to be something else than it was?
    pub breaks_watch: bool,
    /// How much the end of the transaction has to do for values that no argument brought, and for rows that are removed.
    pub weight: usize,
}

impl<'t> Part<'t> {
    /// That of a command which has done nothing yet.
    pub fn new(transaction: &'t Transaction, watches: &'t Watches, is_on_loop: bool, scale: Scale) -> Self {
        Self { transaction, watches, is_on_loop, scale, effects: Cell::default() }
    }

    /// What it has done.
    pub fn effects(&self) -> Effects {
        self.effects.get()
    }

    /// The rows of a table.
    pub fn rows<'p>(&'p self, target: &'p Target) -> Rows<'p> {
        Rows { rows: self.transaction.bytes(target.table()), table: target.name(), part: self }
    }

    fn note(&self, breaks_watch: bool) {
        let before = self.effects();
        self.effects.set(Effects { breaks_watch: before.breaks_watch || breaks_watch, ..before });
    }

    /// A value is to be written, which may be much larger than what its command says of it.
    fn take_on(&self, value: &[u8]) -> Result<(), CommandError> {
        let weight = self.scale.weigh_bytes(value.len());
        if self.is_on_loop && weight >= HEAVY {
            return Err(CommandError::TooHeavy);
        }
        self.weigh(weight);
        Ok(())
    }

    fn weigh(&self, weight: usize) {
        let before = self.effects();
        self.effects.set(Effects { weight: before.weight + weight, ..before });
    }
}

/// A key that is too long for any row is as absent for who removes it as for who reads.
pub fn absent_if_too_long(removed: Result<bool, Error>) -> Result<bool, Error> {
    match removed {
        Err(Error::KeyTooLong { .. }) => Ok(false),
        removed => removed,
    }
}

/// Rows of a table.
pub struct Rows<'p> {
    rows: TransactionBytes<'p>,
    table: &'p str,
    part: &'p Part<'p>,
}

impl Rows<'_> {
    /// The value of `key`.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, CommandError> {
        let (mut value, bytes_max) = (Vec::new(), read_bytes_max(self.part.is_on_loop));
        let bytes = self.rows.get_up_to(key, bytes_max, &mut value)?;
        self.seen(key, bytes, value)
    }

    /// The value of `key`, which nobody else changes from here on.
    pub fn get_for_update(&self, key: &[u8]) -> Result<Option<Vec<u8>>, CommandError> {
        let (mut value, bytes_max) = (Vec::new(), read_bytes_max(self.part.is_on_loop));
        let bytes = self.rows.get_for_update_up_to(key, bytes_max, &mut value)?;
        self.seen(key, bytes, value)
    }

    /// Sets the value of `key`.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), CommandError> {
        self.part.take_on(value)?;
        self.part.note(self.part.watches.has(self.table, key));
        Ok(self.rows.put(key, value)?)
    }

    /// Sets the values of many keys, as the command says them.
    pub fn put_many(&self, rows: &[(&[u8], &[u8])]) -> Result<(), Error> {
        self.part.note(rows.iter().any(|(key, _)| self.part.watches.has(self.table, key)));
        self.rows.put_many(rows)
    }

    /// Sets the value of `key` unless it has one; says whether it did.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool, CommandError> {
        self.part.take_on(value)?;
        let done = self.rows.insert(key, value)?;
        self.part.note(self.part.watches.is_met(self.table, key, done, true));
        Ok(done)
    }

    /// Removes `key`; says whether it was there.
    pub fn remove(&self, key: &[u8]) -> Result<bool, Error> {
        let done = absent_if_too_long(self.rows.remove(key))?;
        self.part.weigh(REMOVED * usize::from(done));
        self.part.note(self.part.watches.is_met(self.table, key, done, false));
        Ok(done)
    }

    /// Removes the first rows between the bounds, at most so many; says how many.
    pub fn remove_some(&self, bounds: (Bound<&[u8]>, Bound<&[u8]>), rows_max: u64) -> Result<u64, Error> {
        let removed = self.rows.remove_some(bounds, rows_max)?;
        self.part.weigh(REMOVED * removed as usize);
        Ok(removed)
    }

    /// What there is, of so many bytes, was read, unless these are too many here.
    fn seen(&self, key: &[u8], bytes: Option<u64>, value: Vec<u8>) -> Result<Option<Vec<u8>>, CommandError> {
        if bytes.is_some_and(|bytes| bytes > read_bytes_max(self.part.is_on_loop)) {
            return Err(CommandError::TooHeavy);
        }
        let value = bytes.map(|_| value);
        if self.part.watches.may_break(self.table, key) {
            self.part.note(self.part.watches.is_changed(self.table, key, value.as_deref()));
        }
        Ok(value)
    }
}
