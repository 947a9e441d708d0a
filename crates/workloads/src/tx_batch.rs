//! Loading rows and reading them all back, through transactions.

use crate::kv::{BenchError, Progress, Tell};
use crate::threads;
use crate::tx_store::{KEYS_END, Tx, TxError, TxKind, TxSession, TxStore};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Rows of one transaction of a load, at most.
const ROWS_MAX: usize = 1000;
/// A transaction of so many bytes takes no more rows.
const BYTES_MAX: usize = 4 << 20;

/// Rows of one table, on their way to one transaction. Dropped rows are lost: end with [`flush`](Self::flush).
pub(crate) struct Batch<'a, X: TxSession> {
    session: &'a mut X,
    table: Option<&'a X::Table>,
    bytes: Vec<u8>,
    /// Where each row's key and value end in `bytes`.
    ends: Vec<(usize, usize)>,
    /// Told how many rows have been committed.
    tell: &'a (dyn Fn(u64) + Sync),
}

impl<'a, X: TxSession> Batch<'a, X> {
    pub fn new(session: &'a mut X, tell: &'a (dyn Fn(u64) + Sync)) -> Self {
        Self { session, table: None, bytes: Vec::new(), ends: Vec::new(), tell }
    }

    /// Adds a row; a full batch, or one of another table, is committed first.
    pub fn add(&mut self, table: &'a X::Table, key: &[u8], value: &[u8]) -> Result<(), TxError> {
        let is_other = self.table.is_some_and(|last| !std::ptr::eq(last, table));
        if is_other || self.ends.len() == ROWS_MAX || self.bytes.len() >= BYTES_MAX {
            self.flush()?;
        }
        self.table = Some(table);
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
        Ok(())
    }

    /// Commits what has been added.
    pub fn flush(&mut self) -> Result<(), TxError> {
        let Some(table) = self.table.take() else { return Ok(()) };
        let (bytes, ends) = (&self.bytes, &self.ends);
        self.session.transact(TxKind::ReadWrite, |tx| {
            let mut from = 0;
            for &(key_end, end) in ends {
                tx.put(table, &bytes[from..key_end], &bytes[key_end..end])?;
                from = end;
            }
            Ok(())
        })?;
        (self.tell)(self.ends.len() as u64);
        self.bytes.clear();
        self.ends.clear();
        Ok(())
    }
}

/// Loads rows `0..n` into one table, a range by each thread. `row` writes the row of a number, or says that there is none.
pub(crate) fn load<S: TxStore>(
    store: &S,
    table: &S::Table,
    (n, threads): (u64, usize),
    row: impl Fn(u64, &mut Vec<u8>, &mut Vec<u8>) -> bool + Sync,
    progress: Tell<'_>,
) -> Result<(), BenchError> {
    let done = AtomicU64::new(0);
    let tell = |rows: u64| {
        let done = done.fetch_add(rows, Relaxed) + rows;
        progress(&Progress { phase: "load", done, total: Some(n) });
    };
    let load_range = |from: u64, to: u64| -> Result<(), TxError> {
        let mut session = store.session()?;
        let mut batch = Batch::new(&mut session, &tell);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for number in from..to {
            key.clear();
            value.clear();
            if row(number, &mut key, &mut value) {
                batch.add(table, &key, &value)?;
            }
        }
        batch.flush()
    };
    let bound = |thread: u64| (u128::from(n) * u128::from(thread) / threads as u128) as u64;
    let loaded = threads::run(threads, |thread| load_range(bound(thread), bound(thread + 1)))?;
    Ok(loaded.into_iter().collect::<Result<(), TxError>>()?)
}

/// Shows all rows of a table to `each`, in one read-only transaction; returns how many there are.
///
/// Errors: [`BenchError::Wrong`] if keys do not grow, or with what `each` complains about.
pub(crate) fn read_all<S: TxStore>(
    store: &S,
    table: &S::Table,
    total: Option<u64>,
    progress: Tell<'_>,
    mut each: impl FnMut(&[u8], &[u8]) -> Result<(), String>,
) -> Result<u64, BenchError> {
    const TELL_EVERY: u64 = 1 << 18;
    let mut rows = 0;
    let mut last: Option<Vec<u8>> = None;
    let mut outcome = Ok(());
    let mut show = |key: &[u8], value: &[u8]| -> Result<(), String> {
        let last = last.get_or_insert_default();
        if rows > 0 && key <= last.as_slice() {
            return Err(format!("scan: {key:02x?} after {last:02x?}"));
        }
        last.clear();
        last.extend_from_slice(key);
        rows += 1;
        if rows % TELL_EVERY == 0 {
            progress(&Progress { phase: "check", done: rows, total });
        }
        each(key, value)
    };
    store.session()?.transact(TxKind::ReadOnly, |tx| {
        tx.scan(table, &[], KEYS_END, false, |key, value| {
            outcome = show(key, value);
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })
    })?;
    outcome.map_err(BenchError::Wrong)?;
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tx_reference::MapTxStore;
    use std::sync::Mutex;

    /// Rows of each transaction that a batch makes of ten rows with such values.
    fn transactions(value_bytes: usize) -> Vec<u64> {
        let store = MapTxStore::default();
        let (table, mut session) = (store.table("rows").unwrap(), store.session().unwrap());
        let told = Mutex::new(Vec::new());
        let tell = |rows| told.lock().unwrap().push(rows);
        let mut batch = Batch::new(&mut session, &tell);
        for key in 0..10u8 {
            batch.add(&table, &[key], &vec![key; value_bytes]).unwrap();
        }
        batch.flush().unwrap();
        told.into_inner().unwrap()
    }

    /// The memory of a load does not grow with its values.
    #[test]
    fn transactions_of_large_rows_have_fewer() {
        assert_eq!(transactions(100), [10]);
        assert_eq!(transactions(1 << 20), [4, 4, 2]);
    }
}
