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
