//! SQLite with transactions: one writer at a time, which makes them serializable.
//!
//! A read-only transaction is a deferred one: it reads one state, and does not wait for who writes. A single operation is a statement by
//! itself.

use crate::sqlite::{File, Reader, Statements, change, get};
use foreshore_workloads::tx_spec::RunSpec;
use foreshore_workloads::tx_store::{Counters, Isolation};
use foreshore_workloads::{StoreError, Tx, TxError, TxKind, TxSession, TxStore};
use rusqlite::{Connection, params};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// An empty SQLite database.
pub struct SqliteTables {
    file: File,
    row_bytes: Option<usize>,
}

impl SqliteTables {
    /// Creates it, for rows of so many bytes, if all are as long.
    ///
    /// Errors: what SQLite says.
    pub fn create(dir: &Path, run: &RunSpec, row_bytes: Option<usize>) -> Result<Self, StoreError> {
        let file = File::create(dir, run.durability, run.cache_bytes, run.threads)?;
        Ok(Self { file, row_bytes })
    }
}

impl TxStore for SqliteTables {
    type Table = Arc<Statements>;
    type Session<'a> = SqliteSession<'a>;

    fn table(&self, name: &str) -> Result<Arc<Statements>, StoreError> {
        self.file.table(name, self.row_bytes).map(Arc::new)
    }

    fn session(&self) -> Result<SqliteSession<'_>, StoreError> {
        Ok(SqliteSession { file: &self.file, reader: self.file.reader()? })
    }

    fn isolation(&self) -> Isolation {
        Isolation::Serializable
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn settle(&self) -> Result<(), StoreError> {
        self.file.checkpoint()
    }
}

/// One thread's access.
pub struct SqliteSession<'a> {
    file: &'a File,
    reader: Reader<'a>,
}

impl TxSession for SqliteSession<'_> {
    type Table = Arc<Statements>;
    type Tx<'t> = SqliteTx<'t>;

    fn transact<R>(
        &mut self,
        kind: TxKind,
        body: impl FnMut(&mut SqliteTx<'_>) -> Result<R, TxError>,
    ) -> Result<R, TxError> {
        match kind {
            TxKind::ReadOnly => {
                self.reader.with(|reader| within("BEGIN", SqliteTx { connection: reader, kind }, body))
            }
            TxKind::ReadWrite => {
                let writer = self.file.writer()?;
                within("BEGIN IMMEDIATE", SqliteTx { connection: &writer, kind }, body)
            }
        }
    }

    /// A statement alone is a transaction.
    fn single<R>(
        &mut self,
        kind: TxKind,
        mut body: impl FnMut(&mut SqliteTx<'_>) -> Result<R, TxError>,
    ) -> Result<R, TxError> {
        match kind {
            TxKind::ReadOnly => self.reader.with(|reader| body(&mut SqliteTx { connection: reader, kind })),
            TxKind::ReadWrite => {
                let writer = self.file.writer()?;
                body(&mut SqliteTx { connection: &writer, kind })
            }
        }
    }

    fn aborts(&self) -> u64 {
        0
    }
}

/// Runs `body` between beginning and committing; a panic in it ends the run, so nobody meets the transaction that is left.
fn within<R>(
    begin: &str,
    mut tx: SqliteTx<'_>,
    mut body: impl FnMut(&mut SqliteTx<'_>) -> Result<R, TxError>,
) -> Result<R, TxError> {
    change(tx.connection, begin, [])?;
    let result = body(&mut tx);
    change(tx.connection, if result.is_ok() { "COMMIT" } else { "ROLLBACK" }, [])?;
    result
}

/// A running transaction, or a statement that is one.
pub struct SqliteTx<'t> {
    connection: &'t Connection,
    kind: TxKind,
}

impl SqliteTx<'_> {
    /// Runs a statement that writes; did it change a row?
    fn write(&self, statement: &str, parameters: impl rusqlite::Params) -> Result<bool, TxError> {
        match self.kind {
            TxKind::ReadWrite => Ok(change(self.connection, statement, parameters)? > 0),
            TxKind::ReadOnly => Err(TxError::Wrong("a read-only transaction writes".to_owned())),
        }
    }
}

impl Tx for SqliteTx<'_> {
    type Table = Arc<Statements>;

    fn get<R>(
        &mut self,
        table: &Arc<Statements>,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, TxError> {
        Ok(get(self.connection, table, key, read)?)
    }

    fn get_for_update<R>(
        &mut self,
        table: &Arc<Statements>,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, TxError> {
        self.get(table, key, read)
    }

    fn put(&mut self, table: &Arc<Statements>, key: &[u8], value: &[u8]) -> Result<(), TxError> {
        self.write(&table.put, params![key, value]).map(drop)
    }

    fn insert(&mut self, table: &Arc<Statements>, key: &[u8], value: &[u8]) -> Result<bool, TxError> {
        self.write(&table.insert, params![key, value])
    }

    fn remove(&mut self, table: &Arc<Statements>, key: &[u8]) -> Result<bool, TxError> {
        self.write(&table.remove, params![key])
    }

    fn scan(
        &mut self,
        table: &Arc<Statements>,
        from: &[u8],
        to: &[u8],
        reverse: bool,
        mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), TxError> {
        let mut scan = || -> Result<(), StoreError> {
            let statement = if reverse { &table.down } else { &table.up };
            let mut statement = self.connection.prepare_cached(statement)?;
            let mut found = statement.query(params![from, to])?;
            while let Some(row) = found.next()? {
                if each(row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?).is_break() {
                    break;
                }
            }
            Ok(())
        };
        Ok(scan()?)
    }
}
