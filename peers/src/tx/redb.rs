//! redb with transactions: one writer at a time, which makes them serializable.
//!
//! A transaction opens each table once, when it first needs it.

use crate::redb::commit_durability;
use foreshore_workloads::kv::BenchError;
use foreshore_workloads::tx_spec::RunSpec;
use foreshore_workloads::tx_store::{Counters, Isolation};
use foreshore_workloads::{StoreError, Tx, TxError, TxKind, TxSession, TxStore};
use redb::{
    Database, Durability, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, Table,
    TableDefinition, WriteTransaction,
};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex};

type Bytes = &'static [u8];

/// An empty redb database.
pub struct RedbTables {
    database: Database,
    durability: Durability,
    names: Mutex<Vec<Arc<str>>>,
}

/// A table: its name, and its place among those of the store.
#[derive(Clone)]
pub struct RedbTable {
    name: Arc<str>,
    at: usize,
}

impl RedbTables {
    /// Creates it.
    ///
    /// Errors: `buffered` is [`BenchError::Usage`]; or what redb says.
    pub fn create(dir: &Path, run: &RunSpec) -> Result<Self, BenchError> {
        let durability = commit_durability(run.durability)?;
        let create = || -> Result<Database, StoreError> {
            let cache = usize::try_from(run.cache_bytes)?;
            Ok(Database::builder().set_cache_size(cache).create(dir.join("redb"))?)
        };
        Ok(Self { database: create()?, durability, names: Mutex::default() })
    }
}

impl TxStore for RedbTables {
    type Table = RedbTable;
    type Session<'a> = &'a RedbTables;

    fn table(&self, name: &str) -> Result<RedbTable, StoreError> {
        let write = self.database.begin_write()?;
        write.open_table(TableDefinition::<Bytes, Bytes>::new(name))?;
        write.commit()?;
        let mut names = self.names.lock().map_err(|_| "a thread panicked")?;
        let at = names.iter().position(|other| **other == *name).unwrap_or_else(|| {
            names.push(name.into());
            names.len() - 1
        });
        Ok(RedbTable { name: names[at].clone(), at })
    }

    fn session(&self) -> Result<&RedbTables, StoreError> {
        Ok(self)
    }

    fn isolation(&self) -> Isolation {
        Isolation::Serializable
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    /// An empty durable commit also persists what relaxed commits left behind.
    fn settle(&self) -> Result<(), StoreError> {
        let mut write = self.database.begin_write()?;
        write.set_durability(Durability::Immediate)?;
        Ok(write.commit()?)
    }
}

impl TxSession for &RedbTables {
    type Table = RedbTable;
    type Tx<'t> = RedbTx<'t>;

    fn transact<R>(
        &mut self,
        kind: TxKind,
        mut body: impl FnMut(&mut RedbTx<'_>) -> Result<R, TxError>,
    ) -> Result<R, TxError> {
        if kind == TxKind::ReadOnly {
            let read = self.database.begin_read().map_err(failed)?;
            return body(&mut RedbTx::Read(&read, Vec::new()));
        }
        let mut write = self.database.begin_write().map_err(failed)?;
        write.set_durability(self.durability).map_err(failed)?;
        let result = body(&mut RedbTx::Write(&write, Vec::new()))?;
        write.commit().map_err(failed)?;
        Ok(result)
    }

    fn aborts(&self) -> u64 {
        0
    }
}

fn failed(error: impl Into<redb::Error>) -> TxError {
    TxError::Store(error.into().into())
}

/// A running transaction and the tables it has opened; a writer that is dropped is rolled back.
pub enum RedbTx<'t> {
    Read(&'t ReadTransaction, Vec<Option<ReadOnlyTable<Bytes, Bytes>>>),
    Write(&'t WriteTransaction, Vec<Option<Table<'t, Bytes, Bytes>>>),
}

/// The place of a table, which is opened if this is the first time.
fn opened<'o, T>(
    tables: &'o mut Vec<Option<T>>,
    table: &RedbTable,
    open: impl FnOnce(TableDefinition<'_, Bytes, Bytes>) -> Result<T, redb::TableError>,
) -> Result<&'o mut T, TxError> {
    if tables.len() <= table.at {
        tables.resize_with(table.at + 1, || None);
    }
    match &mut tables[table.at] {
        Some(opened) => Ok(opened),
        place => Ok(place.insert(open(TableDefinition::new(&table.name)).map_err(failed)?)),
    }
}

impl<'t> RedbTx<'t> {
    fn writer(&mut self, table: &RedbTable) -> Result<&mut Table<'t, Bytes, Bytes>, TxError> {
        match self {
            Self::Write(write, tables) => opened(tables, table, |definition| write.open_table(definition)),
            Self::Read(..) => Err(TxError::Wrong("a read-only transaction writes".to_owned())),
        }
    }
}

impl Tx for RedbTx<'_> {
    type Table = RedbTable;

    fn get<R>(
        &mut self,
        table: &RedbTable,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, TxError> {
        let found = match self {
            Self::Read(transaction, tables) => {
                opened(tables, table, |definition| transaction.open_table(definition))?.get(key)
            }
            Self::Write(transaction, tables) => {
                opened(tables, table, |definition| transaction.open_table(definition))?.get(key)
            }
        };
        Ok(found.map_err(failed)?.map(|value| read(value.value())))
    }

    fn get_for_update<R>(
        &mut self,
        table: &RedbTable,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, TxError> {
        self.get(table, key, read)
    }

    fn put(&mut self, table: &RedbTable, key: &[u8], value: &[u8]) -> Result<(), TxError> {
        self.writer(table)?.insert(key, value).map_err(failed)?;
        Ok(())
    }

    fn insert(&mut self, table: &RedbTable, key: &[u8], value: &[u8]) -> Result<bool, TxError> {
        let writer = self.writer(table)?;
        if writer.get(key).map_err(failed)?.is_some() {
            return Ok(false);
        }
        writer.insert(key, value).map_err(failed)?;
        Ok(true)
    }

    fn remove(&mut self, table: &RedbTable, key: &[u8]) -> Result<bool, TxError> {
        Ok(self.writer(table)?.remove(key).map_err(failed)?.is_some())
    }

    fn scan(
        &mut self,
        table: &RedbTable,
        from: &[u8],
        to: &[u8],
        reverse: bool,
        mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), TxError> {
        let rows = match self {
            Self::Read(transaction, tables) => ReadableTable::range(
                opened(tables, table, |definition| transaction.open_table(definition))?,
                from..to,
            ),
            Self::Write(transaction, tables) => {
                opened(tables, table, |definition| transaction.open_table(definition))?.range(from..to)
            }
        };
        let mut rows = rows.map_err(failed)?;
        let mut next = || if reverse { rows.next_back() } else { rows.next() };
        while let Some(row) = next() {
            let (key, value) = row.map_err(failed)?;
            if each(key.value(), value.value()).is_break() {
                break;
            }
        }
        Ok(())
    }
}
