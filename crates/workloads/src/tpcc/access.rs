//! Rows that must be there, rows that must not be there yet: what is otherwise is a wrong answer, named.

use crate::tpcc::generate::LastName;
use crate::tpcc::schema::{Table, Tables, key};
use crate::tx_store::{Tx, TxError};
use std::ops::ControlFlow;

/// Room that the transactions of one thread use again and again.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// A row being changed.
    pub row: Vec<u8>,
    /// A row being made.
    pub made: Vec<u8>,
    /// Numbers of customers or items.
    pub numbers: Vec<u32>,
}

/// Reads fields of a row that must exist.
pub(crate) fn read<T: Tx, R>(
    tx: &mut T,
    table: &Table<T::Table>,
    key: &[u8],
    fields: impl FnOnce(&[u8]) -> R,
) -> Result<R, TxError> {
    let found = tx.get(&table.handle, key, |row| (row.len() >= table.row_bytes_min).then(|| fields(row)))?;
    found.ok_or_else(|| absent(table, key))?.ok_or_else(|| too_short(table, key))
}

/// Reads fields of rows that must exist, one after the other.
pub(crate) fn read_each<T: Tx, K: AsRef<[u8]>>(
    tx: &mut T,
    table: &Table<T::Table>,
    keys: &[K],
    mut fields: impl FnMut(&[u8]),
) -> Result<(), TxError> {
    let mut seen = Seen::default();
    tx.get_each(&table.handle, keys, |row| {
        let row = seen.next(row, |row| row.len() >= table.row_bytes_min)?;
        fields(row);
        ControlFlow::Continue(())
    })?;
    seen.end(table, keys)
}

/// Changes rows that must exist, one after the other.
pub(crate) fn modify_each<T: Tx, K: AsRef<[u8]>>(
    tx: &mut T,
    table: &Table<T::Table>,
    keys: &[K],
    mut change: impl FnMut(&mut Vec<u8>),
) -> Result<(), TxError> {
    let mut seen = Seen::default();
    tx.modify_each(&table.handle, keys, |row| {
        let row = seen.next(row, |row| row.len() >= table.row_bytes_min)?;
        change(row);
        ControlFlow::Continue(())
    })?;
    seen.end(table, keys)
}

/// How far a walk over rows that must exist has come.
#[derive(Default)]
struct Seen {
    rows: usize,
    is_short: bool,
}

impl Seen {
    /// The next row, if it is as it must be.
    fn next<R>(&mut self, row: Option<R>, is_whole: impl FnOnce(&R) -> bool) -> ControlFlow<(), R> {
        match row {
            Some(row) if is_whole(&row) => {
                self.rows += 1;
                ControlFlow::Continue(row)
            }
            row => {
                self.is_short = row.is_some();
                ControlFlow::Break(())
            }
        }
    }

    /// Errors: [`TxError::Wrong`] about the row that the walk stopped at.
    fn end<H, K: AsRef<[u8]>>(self, table: &Table<H>, keys: &[K]) -> Result<(), TxError> {
        match keys.get(self.rows) {
            None => Ok(()),
            Some(key) if self.is_short => Err(too_short(table, key.as_ref())),
            Some(key) => Err(absent(table, key.as_ref())),
        }
    }
}

/// Changes a row that must exist; returns what `change` says.
pub(crate) fn modify<T: Tx, R>(
    tx: &mut T,
    table: &Table<T::Table>,
    key: &[u8],
    row: &mut Vec<u8>,
    change: impl FnOnce(&mut Vec<u8>) -> R,
) -> Result<R, TxError> {
    let found = tx.get_for_update(&table.handle, key, |stored| {
        row.clear();
        row.extend_from_slice(stored);
    })?;
    found.ok_or_else(|| absent(table, key))?;
    if row.len() < table.row_bytes_min {
        return Err(too_short(table, key));
    }
    let result = change(row);
    tx.put(&table.handle, key, row)?;
    Ok(result)
}

/// Inserts a row that must not exist.
pub(crate) fn insert<T: Tx>(
    tx: &mut T,
    table: &Table<T::Table>,
    key: &[u8],
    row: &[u8],
) -> Result<(), TxError> {
    if tx.insert(&table.handle, key, row)? {
        return Ok(());
    }
    Err(TxError::Wrong(format!("{} {key:02x?} is there before it is inserted", table.name)))
}

/// Inserts rows that must not exist.
pub(crate) fn insert_each<T: Tx, K: AsRef<[u8]>, V: AsRef<[u8]>>(
    tx: &mut T,
    table: &Table<T::Table>,
    rows: &[(K, V)],
) -> Result<(), TxError> {
    let inserted = tx.insert_each(&table.handle, rows)?;
    if inserted == rows.len() {
        return Ok(());
    }
    Err(TxError::Wrong(format!(
        "only {inserted} of {} new rows of {} were not there",
        rows.len(),
        table.name
    )))
}

#[cold]
pub(crate) fn absent<H>(table: &Table<H>, key: &[u8]) -> TxError {
    TxError::Wrong(format!("{} {key:02x?} is not there", table.name))
}

#[cold]
fn too_short<H>(table: &Table<H>, key: &[u8]) -> TxError {
    TxError::Wrong(format!("{} {key:02x?} has fewer than {} bytes", table.name, table.row_bytes_min))
}

/// How a transaction names its customer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who {
    /// By number.
    Number(u32),
    /// By the number of a last name: of all who have it, the one in the middle by first name.
    LastName(u64),
}

/// The number of the customer meant.
pub(crate) fn customer_number<T: Tx>(
    tx: &mut T,
    tables: &Tables<T::Table>,
    (w, d): (u32, u8),
    who: Who,
    numbers: &mut Vec<u32>,
) -> Result<u32, TxError> {
    let last = match who {
        Who::Number(number) => return Ok(number),
        Who::LastName(number) => LastName::new(number),
    };
    let from = key::name_prefix(w, d, last.as_bytes());
    let mut to = [0xFF; key::NAME_PREFIX + 1];
    to[..key::NAME_PREFIX].copy_from_slice(&from);
    numbers.clear();
    tx.scan(&tables.customer_name.handle, &from, &to, false, |key, _| {
        numbers.push(key::number(key, key.len().saturating_sub(4)));
        ControlFlow::Continue(())
    })?;
    // Position n/2, rounded up and counted from 1 (clause 2.5.2.2).
    let middle = numbers.len().div_ceil(2).checked_sub(1);
    middle.map(|at| numbers[at]).ok_or_else(|| absent(&tables.customer_name, &from))
}
