//! What an engine must do to run the transactional workloads.
//!
//! Fairness, which every implementation keeps:
//! - T1: transactions are atomic, and as isolated as [`TxStore::isolation`] says; the report repeats it. An engine that can
//!   be serializable is.
//! - T2: [`TxSession::transact`] returns once the commit has the durability that the run asks for; an engine that cannot
//!   give it refuses when the store is made.
//! - T3: a retryable failure is retried at once, inside `transact`, and counted: it is part of the latency.
//! - T4: a row is handed over in place, so that engines with zero-copy reads keep that advantage.
//! - T5: calls are static: nobody pays for a virtual call per row.
//! - T6: a read-only transaction sees one state of the store, by the engine's cheapest documented way.
//! - T7: a transaction sees its own writes, in scans too.
//! - T8: rows that a transaction needs together are asked for together, and those that it makes together handed over
//!   together; an engine without a call for that does one after the other.
//! - T9: a transaction of one operation, other than a scan, is done by the engine's cheapest documented way: that of a call
//!   outside transactions, if there is one that is as atomic.

use crate::StoreError;
use serde::Serialize;
use std::ops::ControlFlow;

/// What a transaction may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxKind {
    /// Read and write.
    ReadWrite,
    /// Read only; a write is an error of the workload.
    ReadOnly,
}

/// How read-write transactions are isolated from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// As if one after the other.
    Serializable,
    /// Each reads a snapshot; write skew is possible.
    Snapshot,
    /// Not at all, for lack of transactions: only workloads of single operations are run.
    Operation,
}

/// Why a transaction, or an operation in it, did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TxError {
    /// The body wants its changes undone. No failure: `transact` rolls back and returns it.
    #[error("rolled back on request")]
    Rollback,
    /// Lost against another transaction (deadlock, conflict). The body passes it on and is run again; `transact` itself
    /// never returns it.
    #[error("lost against another transaction")]
    Conflict,
    /// The body found a wrong answer: rolled back, the run stops.
    #[error("wrong answer: {0}")]
    Wrong(String),
    /// The engine failed: rolled back if it still can, the run stops.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What an engine counts, since it was opened. `None` where it does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes written to the log, framing included.
    pub log_bytes: Option<u64>,
    /// Device syncs (`fsync`, `fdatasync`, `msync` …), as the engine counts them (some count their log's only).
    pub syncs: Option<u64>,
}

/// An engine with named tables of byte strings and transactions over them.
pub trait TxStore: Sync {
    /// A table's handle: cheap to clone, used by all threads.
    type Table: Clone + Send + Sync;

    /// What one thread works through; it is made and used on that thread.
    type Session<'a>: TxSession<Table = Self::Table>
    where
        Self: 'a;

    /// The table `name`, created if there is none. Called outside transactions.
    fn table(&self, name: &str) -> Result<Self::Table, StoreError>;

    /// Begins to work on this thread.
    fn session(&self) -> Result<Self::Session<'_>, StoreError>;

    /// How read-write transactions are isolated (T1).
    fn isolation(&self) -> Isolation;

    /// What the engine has counted so far.
    fn counters(&self) -> Counters;

    /// Brings the store to rest between phases: what was written is on disk, background work that a long run would have
    /// finished is finished.
    fn settle(&self) -> Result<(), StoreError>;

    /// CPU seconds that processes other than this one have spent on the store so far.
    fn server_cpu_s(&self) -> Result<f64, StoreError> {
        Ok(0.0)
    }
}

/// A thread's access to a [`TxStore`].
pub trait TxSession {
    /// The store's table handle.
    type Table;

    /// A running transaction.
    type Tx<'t>: Tx<Table = Self::Table>;

    /// Runs `body` in a transaction and commits it (T2).
    ///
    /// After a conflict the changes are undone and `body` is run again, as often as it takes (T3): it must begin afresh
    /// each time. Any other error of `body` rolls back and is returned.
    ///
    /// Errors: [`TxError::Rollback`] and [`TxError::Wrong`] only from `body`; [`TxError::Store`] if the engine fails.
    fn transact<R>(
        &mut self,
        kind: TxKind,
        body: impl FnMut(&mut Self::Tx<'_>) -> Result<R, TxError>,
    ) -> Result<R, TxError>;

    /// As [`transact`](Self::transact), of a body that does one operation, which is no scan (T9).
    fn single<R>(
        &mut self,
        kind: TxKind,
        body: impl FnMut(&mut Self::Tx<'_>) -> Result<R, TxError>,
    ) -> Result<R, TxError> {
        self.transact(kind, body)
    }

    /// How often a body of this session was run again after a conflict.
    fn aborts(&self) -> u64;
}

/// The operations inside a transaction. An error must be passed on to `transact`.
pub trait Tx {
    /// The store's table handle.
    type Table;

    /// Looks a key up and lets `read` see its value; `None` if the key is absent.
    fn get<R>(
        &mut self,
        table: &Self::Table,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, TxError>;

    /// As [`get`](Self::get), of a row that this transaction is going to change or remove: an engine with locks takes the
    /// exclusive one at once.
    fn get_for_update<R>(
        &mut self,
        table: &Self::Table,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, TxError>;

    /// Looks keys up, one after the other, and lets `each` see their values, `None` of those that are absent, until it
    /// breaks.
    fn get_each<K: AsRef<[u8]>>(
        &mut self,
        table: &Self::Table,
        keys: &[K],
        mut each: impl FnMut(Option<&[u8]>) -> ControlFlow<()>,
    ) -> Result<(), TxError> {
        for key in keys {
            let seen = self.get(table, key.as_ref(), |value| each(Some(value)))?;
            if seen.unwrap_or_else(|| each(None)).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Changes rows, one after the other: `change` gets each value, `None` of those that are absent, and leaves what it is to
    /// be, until it breaks: that row stays as it is.
    fn modify_each<K: AsRef<[u8]>>(
        &mut self,
        table: &Self::Table,
        keys: &[K],
        mut change: impl FnMut(Option<&mut Vec<u8>>) -> ControlFlow<()>,
    ) -> Result<(), TxError> {
        let mut row = Vec::new();
        for key in keys {
            let found = self.get_for_update(table, key.as_ref(), |stored| {
                row.clear();
                row.extend_from_slice(stored);
            })?;
            if change(found.map(|()| &mut row)).is_break() {
                break;
            }
            if found.is_some() {
                self.put(table, key.as_ref(), &row)?;
            }
        }
        Ok(())
    }

    /// Inserts or replaces a row.
    fn put(&mut self, table: &Self::Table, key: &[u8], value: &[u8]) -> Result<(), TxError>;

    /// Inserts a row unless there is one with this key; says whether it did.
    fn insert(&mut self, table: &Self::Table, key: &[u8], value: &[u8]) -> Result<bool, TxError>;

    /// Inserts rows unless there are some with their keys, one after the other; says how many were not there.
    fn insert_each<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        table: &Self::Table,
        rows: &[(K, V)],
    ) -> Result<usize, TxError> {
        let mut inserted = 0;
        for (key, value) in rows {
            inserted += usize::from(self.insert(table, key.as_ref(), value.as_ref())?);
        }
        Ok(inserted)
    }

    /// Removes a row; says whether there was one.
    fn remove(&mut self, table: &Self::Table, key: &[u8]) -> Result<bool, TxError>;

    /// Shows the rows with `from <= key < to`, in key order or, with `reverse`, from the last one down, until `each` breaks.
    fn scan(
        &mut self,
        table: &Self::Table,
        from: &[u8],
        to: &[u8],
        reverse: bool,
        each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), TxError>;
}

/// Above every key of the workloads: the end of a scan of a whole table.
pub const KEYS_END: &[u8] = &[0xFF; 16];
