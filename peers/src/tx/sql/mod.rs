//! Servers that speak SQL behind the transactional workloads' `TxStore`: a table of keys and values for each of the workload's,
//! prepared statements, one round trip through a Unix socket per operation.
//!
//! So the figures compare a library with a server: much of a server's time goes into messages and context switches. Compare
//! transactions per CPU second (`tps / cpu_s`), which at least do not punish a server for waiting; and read them as the price
//! of a server with this interface, not as what SQL could do with whole transactions sent at once.

#[cfg(feature = "mariadb")]
pub mod mariadb;
#[cfg(feature = "postgresql")]
pub mod postgresql;
mod server;

use foreshore_workloads::tx_store::{Counters, Isolation};
use foreshore_workloads::{StoreError, Tx, TxError, TxKind, TxSession, TxStore};
use server::Server;
use std::ops::ControlFlow;
use std::sync::Mutex;

type Row = (Vec<u8>, Vec<u8>);

/// Which rows a statement reads: at or above `from` or, for all pages after the first, beyond it.
struct Page<'p> {
    from: &'p [u8],
    to: &'p [u8],
    is_reverse: bool,
    rows: u32,
}

/// A client's connection. Tables are known by their number: `t0`, `t1` …
trait Connection {
    /// Of this kind are the statements that follow, in a transaction or each its own.
    fn turn_to(&mut self, _kind: TxKind) {}
    fn begin(&mut self, kind: TxKind) -> Result<(), TxError>;
    fn commit(&mut self) -> Result<(), TxError>;
    fn roll_back(&mut self) -> Result<(), TxError>;
    fn get(&mut self, table: usize, key: &[u8], is_for_update: bool) -> Result<Option<Vec<u8>>, TxError>;
    fn put(&mut self, table: usize, key: &[u8], value: &[u8]) -> Result<(), TxError>;
    fn insert(&mut self, table: usize, key: &[u8], value: &[u8]) -> Result<bool, TxError>;
    fn remove(&mut self, table: usize, key: &[u8]) -> Result<bool, TxError>;
    /// The first rows with `from <= key < to` or, in reverse, the last ones.
    fn page(&mut self, table: usize, page: &Page<'_>) -> Result<Vec<Row>, TxError>;
}

/// What one kind of server does its own way.
trait Dialect: Sync {
    type Connection: Connection;
    /// The statement that makes table `tN`.
    fn create_table(&self, table: usize) -> String;
    fn connect(&self) -> Result<Self::Connection, StoreError>;
    /// Does a statement that returns nothing, on a connection of its own.
    fn execute(&self, statement: &str) -> Result<(), StoreError>;
    /// The statement that writes out what the server holds back of so many tables.
    fn checkpoint(&self, tables: usize) -> String;
}

/// A server with the tables of a workload.
struct SqlTables<D> {
    dialect: D,
    server: Server,
    names: Mutex<Vec<String>>,
}

impl<D: Dialect> SqlTables<D> {
    fn new(dialect: D, server: Server) -> Self {
        Self { dialect, server, names: Mutex::default() }
    }
}

impl<D: Dialect> TxStore for SqlTables<D> {
    type Table = usize;
    type Session<'a>
        = SqlSession<D::Connection>
    where
        D: 'a;

    fn table(&self, name: &str) -> Result<usize, StoreError> {
        let mut names = self.names.lock().map_err(|_| "a thread panicked")?;
        if let Some(at) = names.iter().position(|other| other == name) {
            return Ok(at);
        }
        self.dialect.execute(&self.dialect.create_table(names.len()))?;
        names.push(name.to_owned());
        Ok(names.len() - 1)
    }

    fn session(&self) -> Result<SqlSession<D::Connection>, StoreError> {
        Ok(SqlSession { connection: self.dialect.connect()?, aborts: 0 })
    }

    fn isolation(&self) -> Isolation {
        Isolation::Serializable
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn settle(&self) -> Result<(), StoreError> {
        let tables = self.names.lock().map_err(|_| "a thread panicked")?.len();
        self.dialect.execute(&self.dialect.checkpoint(tables))
    }

    fn server_cpu_s(&self) -> Result<f64, StoreError> {
        self.server.cpu_s()
    }
}

/// One client.
struct SqlSession<C> {
    connection: C,
    aborts: u64,
}

impl<C: Connection> TxSession for SqlSession<C> {
    type Table = usize;
    type Tx<'t> = SqlTx<'t>;

    fn transact<R>(
        &mut self,
        kind: TxKind,
        mut body: impl FnMut(&mut SqlTx<'_>) -> Result<R, TxError>,
    ) -> Result<R, TxError> {
        loop {
            self.connection.turn_to(kind);
            self.connection.begin(kind)?;
            let result = body(&mut SqlTx { connection: &mut self.connection, kind });
            let outcome = match result {
                Ok(result) => self.connection.commit().map(|()| result),
                Err(error) => Err(error),
            };
            match outcome {
                Ok(result) => return Ok(result),
                Err(TxError::Conflict) => {
                    self.connection.roll_back()?;
                    self.aborts += 1;
                }
                Err(error) => {
                    self.connection.roll_back()?;
                    return Err(error);
                }
            }
        }
    }

    /// A statement alone is a transaction: one round trip, where beginning and committing would be two more. If it fails, nothing
    /// has happened.
    fn single<R>(
        &mut self,
        kind: TxKind,
        mut body: impl FnMut(&mut SqlTx<'_>) -> Result<R, TxError>,
    ) -> Result<R, TxError> {
        self.connection.turn_to(kind);
        loop {
            match body(&mut SqlTx { connection: &mut self.connection, kind }) {
                Err(TxError::Conflict) => self.aborts += 1,
                outcome => return outcome,
            }
        }
    }

    fn aborts(&self) -> u64 {
        self.aborts
    }
}

/// A running transaction. The connection behind a virtual call: beside a round trip that is nothing.
struct SqlTx<'t> {
    connection: &'t mut dyn Connection,
    kind: TxKind,
}

impl SqlTx<'_> {
    fn must_write(&self) -> Result<(), TxError> {
        match self.kind {
            TxKind::ReadWrite => Ok(()),
            TxKind::ReadOnly => Err(TxError::Wrong("a read-only transaction writes".to_owned())),
        }
    }
}

impl Tx for SqlTx<'_> {
    type Table = usize;

    fn get<R>(
        &mut self,
        table: &usize,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, TxError> {
        Ok(self.connection.get(*table, key, false)?.map(|value| read(&value)))
    }

    fn get_for_update<R>(
        &mut self,
        table: &usize,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, TxError> {
        Ok(self.connection.get(*table, key, true)?.map(|value| read(&value)))
    }

    fn put(&mut self, table: &usize, key: &[u8], value: &[u8]) -> Result<(), TxError> {
        self.must_write()?;
        self.connection.put(*table, key, value)
    }

    fn insert(&mut self, table: &usize, key: &[u8], value: &[u8]) -> Result<bool, TxError> {
        self.must_write()?;
        self.connection.insert(*table, key, value)
    }

    fn remove(&mut self, table: &usize, key: &[u8]) -> Result<bool, TxError> {
        self.must_write()?;
        self.connection.remove(*table, key)
    }

    /// Pages of growing size: most scans want a row or ten, a check wants all.
    fn scan(
        &mut self,
        table: &usize,
        from: &[u8],
        to: &[u8],
        reverse: bool,
        mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), TxError> {
        const ROWS_MAX: u32 = 10_000;
        let (mut from, mut to) = (from.to_vec(), to.to_vec());
        let mut rows = 16;
        loop {
            let page = Page { from: &from, to: &to, is_reverse: reverse, rows };
            let found = self.connection.page(*table, &page)?;
            for (key, value) in &found {
                if each(key, value).is_break() {
                    return Ok(());
                }
            }
            let Some((last, _)) = found.last() else { return Ok(()) };
            if found.len() < rows as usize {
                return Ok(());
            }
            if reverse {
                to.clone_from(last);
            } else {
                // The least key above the last one.
                from.clone_from(last);
                from.push(0);
            }
            rows = (rows * 8).min(ROWS_MAX);
        }
    }
}
