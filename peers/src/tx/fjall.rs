//! fjall with transactions: its optimistic ones, which are serializable (SSI) and may run at once. Its single-writer ones are
//! serializable too, but would not let two writers work.
//!
//! Large values are kept as `crate::fjall` says.
//!
//! Each transaction commits with the mode that the durability asks for: `SyncData`, `Buffer`, or none for `relaxed`.

use crate::fjall::keyspace_options;
use fjall::{OptimisticTxDatabase, OptimisticTxKeyspace, OptimisticWriteTx, PersistMode, Readable, Snapshot};
use foreshore_workloads::tx_spec::RunSpec;
use foreshore_workloads::tx_store::{Counters, Isolation};
use foreshore_workloads::{Durability, StoreError, Tx, TxError, TxKind, TxSession, TxStore};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// An empty fjall database with optimistic transactions.
pub struct FjallTables {
    database: OptimisticTxDatabase,
    tables: Mutex<Vec<OptimisticTxKeyspace>>,
    commit_mode: Option<PersistMode>,
}

impl FjallTables {
    /// Creates it.
    ///
    /// Errors: what fjall says.
    pub fn create(dir: &Path, run: &RunSpec) -> Result<Self, StoreError> {
        let commit_mode = match run.durability {
            Durability::Sync => Some(PersistMode::SyncData),
            Durability::Buffered => Some(PersistMode::Buffer),
            Durability::Relaxed => None,
        };
        let database = OptimisticTxDatabase::builder(dir)
            .cache_size(run.cache_bytes)
            .manual_journal_persist(commit_mode.is_none())
            .open()?;
        Ok(Self { database, tables: Mutex::default(), commit_mode })
    }
}

impl TxStore for FjallTables {
    type Table = OptimisticTxKeyspace;
    type Session<'a> = FjallSession<'a>;

    fn table(&self, name: &str) -> Result<OptimisticTxKeyspace, StoreError> {
        let manual = self.commit_mode.is_none();
        let table = self.database.keyspace(name, || keyspace_options(manual))?;
        self.tables.lock().map_err(|_| "a thread panicked")?.push(table.clone());
        Ok(table)
    }

    fn session(&self) -> Result<FjallSession<'_>, StoreError> {
        Ok(FjallSession { store: self, aborts: 0 })
    }

    fn isolation(&self) -> Isolation {
        Isolation::Serializable
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    /// Flushes the memtables, and waits until compaction has been idle for a while.
    fn settle(&self) -> Result<(), StoreError> {
        const IDLE: Duration = Duration::from_millis(200);
        for table in &*self.tables.lock().map_err(|_| "a thread panicked")? {
            table.inner().rotate_memtable_and_wait()?;
        }
        self.database.persist(PersistMode::SyncAll)?;
        let mut idle_since = Instant::now();
        while idle_since.elapsed() < IDLE {
            std::thread::sleep(Duration::from_millis(5));
            let database = self.database.inner();
            if database.active_compactions() > 0 || database.outstanding_flushes() > 0 {
                idle_since = Instant::now();
            }
        }
        Ok(())
    }
}

/// One thread's access.
pub struct FjallSession<'a> {
    store: &'a FjallTables,
    aborts: u64,
}

impl TxSession for FjallSession<'_> {
    type Table = OptimisticTxKeyspace;
    type Tx<'t> = FjallTx;

    fn transact<R>(
        &mut self,
        kind: TxKind,
        mut body: impl FnMut(&mut FjallTx) -> Result<R, TxError>,
    ) -> Result<R, TxError> {
        let database = &self.store.database;
        if kind == TxKind::ReadOnly {
            return body(&mut FjallTx::Read(database.read_tx()));
        }
        loop {
            let write = database.write_tx().map_err(failed)?.durability(self.store.commit_mode);
            let mut tx = FjallTx::Write(write);
            let result = body(&mut tx)?;
            let FjallTx::Write(write) = tx else { unreachable!("a transaction keeps its kind") };
            match write.commit().map_err(failed)? {
                Ok(()) => return Ok(result),
                Err(fjall::Conflict) => self.aborts += 1,
            }
        }
    }

    /// A lookup needs no snapshot. A write is a transaction in fjall too, and there without its durability.
    fn single<R>(
        &mut self,
        kind: TxKind,
        mut body: impl FnMut(&mut FjallTx) -> Result<R, TxError>,
    ) -> Result<R, TxError> {
        match kind {
            TxKind::ReadOnly => body(&mut FjallTx::Lookup),
            TxKind::ReadWrite => self.transact(kind, body),
        }
    }

    fn aborts(&self) -> u64 {
        self.aborts
    }
}

fn failed(error: fjall::Error) -> TxError {
    TxError::Store(error.into())
}

/// A running transaction; one that is dropped is rolled back.
pub enum FjallTx {
    /// One lookup, of what is newest.
    Lookup,
    Read(Snapshot),
    Write(OptimisticWriteTx),
}

impl FjallTx {
    fn writer(&mut self) -> Result<&mut OptimisticWriteTx, TxError> {
        match self {
            Self::Write(write) => Ok(write),
            Self::Lookup | Self::Read(_) => Err(TxError::Wrong("a read-only transaction writes".to_owned())),
        }
    }
}

impl Tx for FjallTx {
    type Table = OptimisticTxKeyspace;

    fn get<R>(
        &mut self,
        table: &OptimisticTxKeyspace,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, TxError> {
        let found = match self {
            Self::Lookup => table.get(key),
            Self::Read(snapshot) => snapshot.get(table, key),
            Self::Write(write) => write.get(table, key),
        };
        Ok(found.map_err(failed)?.map(|value| read(&value)))
    }

    fn get_for_update<R>(
        &mut self,
        table: &OptimisticTxKeyspace,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, TxError> {
        self.get(table, key, read)
    }

    fn put(&mut self, table: &OptimisticTxKeyspace, key: &[u8], value: &[u8]) -> Result<(), TxError> {
        self.writer()?.insert(table, key, value);
        Ok(())
    }

    fn insert(&mut self, table: &OptimisticTxKeyspace, key: &[u8], value: &[u8]) -> Result<bool, TxError> {
        let write = self.writer()?;
        if write.contains_key(table, key).map_err(failed)? {
            return Ok(false);
        }
        write.insert(table, key, value);
        Ok(true)
    }

    fn remove(&mut self, table: &OptimisticTxKeyspace, key: &[u8]) -> Result<bool, TxError> {
        let write = self.writer()?;
        let was_there = write.contains_key(table, key).map_err(failed)?;
        if was_there {
            write.remove(table, key);
        }
        Ok(was_there)
    }

    fn scan(
        &mut self,
        table: &OptimisticTxKeyspace,
        from: &[u8],
        to: &[u8],
        reverse: bool,
        mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), TxError> {
        let mut rows = match self {
            Self::Lookup => return Err(TxError::Wrong("a scan is called a lookup".to_owned())),
            Self::Read(snapshot) => snapshot.range(table, from..to),
            Self::Write(write) => write.range(table, from..to),
        };
        let mut next = || if reverse { rows.next_back() } else { rows.next() };
        while let Some(row) = next() {
            let (key, value) = row.into_inner().map_err(failed)?;
            if each(&key, &value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a load has left in memory is neither read from there nor flushed in the timed phase.
    #[test]
    fn a_store_at_rest_has_flushed_its_rows() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunSpec {
            threads: 1,
            seconds: 1.0,
            warm_up_seconds: 0.0,
            durability: Durability::Buffered,
            cache_bytes: 16 << 20,
            seed: 1,
        };
        let store = FjallTables::create(dir.path(), &run).unwrap();
        let table = store.table("rows").unwrap();
        let rows = (0..1000u32).map(|row| (row.to_be_bytes(), [7u8; 200])).collect::<Vec<_>>();
        store.session().unwrap().transact(TxKind::ReadWrite, |tx| tx.insert_each(&table, &rows)).unwrap();
        store.settle().unwrap();
        assert!(table.inner().disk_space() > 0);
    }
}
