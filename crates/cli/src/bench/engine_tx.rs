//! Foreshore behind the workloads' `TxStore`: serializable transactions, snapshots for read-only ones.

use crate::args::engine_durability;
use crate::failure::Outcome;
use foreshore::{Builder, ByteTable, Database, Error, Snapshot, Transaction, TransactionOptions};
use foreshore_workloads::StoreError;
use foreshore_workloads::tx_spec::RunSpec;
use foreshore_workloads::tx_store::{Counters, Isolation, Tx, TxError, TxKind, TxSession, TxStore};
use std::ops::ControlFlow;
use std::path::Path;

/// An open database.
pub struct EngineTx(pub Database);

impl EngineTx {
    /// A fresh database in `dir`, with these options besides those of the run.
    pub fn open(dir: &Path, run: &RunSpec, options: Builder) -> Outcome<Self> {
        let cache = usize::try_from(run.cache_bytes).unwrap_or(usize::MAX);
        Ok(Self(options.cache_bytes(cache).durability(engine_durability(run.durability)).open(dir)?))
    }

    /// Closes it, and tells what went wrong.
    pub fn close(self) -> Outcome {
        Ok(self.0.close()?)
    }
}

impl TxStore for EngineTx {
    type Table = ByteTable;
    type Session<'a> = Session<'a>;

    fn table(&self, name: &str) -> Result<ByteTable, StoreError> {
        Ok(self.0.byte_table(name)?)
    }

    fn session(&self) -> Result<Session<'_>, StoreError> {
        Ok(Session { db: &self.0, value: Vec::new(), aborts: 0 })
    }

    fn isolation(&self) -> Isolation {
        Isolation::Serializable
    }

    fn counters(&self) -> Counters {
        let stats = self.0.stats();
        Counters { log_bytes: Some(stats.log_bytes), syncs: Some(stats.log_syncs) }
    }

    fn settle(&self) -> Result<(), StoreError> {
        Ok(self.0.checkpoint()?)
    }
}

/// One thread's access.
pub struct Session<'a> {
    db: &'a Database,
    value: Vec<u8>,
    aborts: u64,
}

/// A running transaction.
pub struct Running<'t> {
    work: Work,
    value: &'t mut Vec<u8>,
}

enum Work {
    ReadWrite(Transaction),
    ReadOnly(Snapshot),
    /// One operation, which is a transaction of its own.
    Single(TxKind),
}

impl Session<'_> {
    /// Calls `body`, with memory for values, until nothing is in its way.
    fn retry<R>(&mut self, mut body: impl FnMut(&mut Vec<u8>) -> Result<R, TxError>) -> Result<R, TxError> {
        loop {
            match body(&mut self.value) {
                Err(TxError::Conflict) => self.aborts += 1,
                result => return result,
            }
        }
    }
}

impl TxSession for Session<'_> {
    type Table = ByteTable;
    type Tx<'t> = Running<'t>;

    fn transact<R>(
        &mut self,
        kind: TxKind,
        mut body: impl FnMut(&mut Running<'_>) -> Result<R, TxError>,
    ) -> Result<R, TxError> {
        let (db, mut options) = (self.db, TransactionOptions::new());
        self.retry(|value| {
            let work = match kind {
                TxKind::ReadWrite => Work::ReadWrite(db.begin_with(options).map_err(failed)?),
                TxKind::ReadOnly => Work::ReadOnly(db.snapshot().map_err(failed)?),
            };
            let mut running = Running { work, value };
            let done = body(&mut running);
            if let (Err(TxError::Conflict), Work::ReadWrite(lost)) = (&done, &running.work) {
                options = options.as_old_as(lost);
            }
            done.and_then(|result| running.commit().map(|()| result))
        })
    }

    fn single<R>(
        &mut self,
        kind: TxKind,
        mut body: impl FnMut(&mut Running<'_>) -> Result<R, TxError>,
    ) -> Result<R, TxError> {
        self.retry(|value| body(&mut Running { work: Work::Single(kind), value }))
    }

    fn aborts(&self) -> u64 {
        self.aborts
    }
}

impl Running<'_> {
    fn commit(self) -> Result<(), TxError> {
        match self.work {
            Work::ReadWrite(transaction) => transaction.commit().map_err(failed),
            Work::ReadOnly(_) | Work::Single(_) => Ok(()),
        }
    }
}

/// What writes: a transaction or, if there is none around the one operation, the table.
fn writer(work: &Work) -> Result<Option<&Transaction>, TxError> {
    match work {
        Work::ReadWrite(transaction) => Ok(Some(transaction)),
        Work::Single(TxKind::ReadWrite) => Ok(None),
        Work::ReadOnly(_) | Work::Single(TxKind::ReadOnly) => {
            Err(TxError::Wrong("a read-only transaction writes".into()))
        }
    }
}

/// What does several things at once.
fn transaction(work: &Work) -> Result<&Transaction, TxError> {
    writer(work)?.ok_or_else(not_single)
}

fn not_single() -> TxError {
    TxError::Wrong("more than one operation, or a scan, is called a single operation".into())
}

impl Tx for Running<'_> {
    type Table = ByteTable;

    fn get<R>(
        &mut self,
        table: &ByteTable,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, TxError> {
        let found = match &self.work {
            Work::ReadWrite(transaction) => transaction.bytes(table).get_into(key, self.value),
            Work::ReadOnly(snapshot) => snapshot.bytes(table).get_into(key, self.value),
            Work::Single(_) => table.get_into(key, self.value),
        };
        Ok(found.map_err(failed)?.then(|| read(self.value)))
    }

    fn get_for_update<R>(
        &mut self,
        table: &ByteTable,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, TxError> {
        let Self { work, value } = self;
        let found = transaction(work)?.bytes(table).get_for_update_into(key, value).map_err(failed)?;
        Ok(found.then(|| read(value)))
    }

    fn get_each<K: AsRef<[u8]>>(
        &mut self,
        table: &ByteTable,
        keys: &[K],
        each: impl FnMut(Option<&[u8]>) -> ControlFlow<()>,
    ) -> Result<(), TxError> {
        let read = match &self.work {
            Work::ReadWrite(transaction) => transaction.bytes(table).multi_get_with(keys, each),
            Work::ReadOnly(snapshot) => snapshot.bytes(table).multi_get_with(keys, each),
            Work::Single(_) => return Err(not_single()),
        };
        read.map_err(failed)
    }

    fn modify_each<K: AsRef<[u8]>>(
        &mut self,
        table: &ByteTable,
        keys: &[K],
        mut change: impl FnMut(Option<&mut Vec<u8>>) -> ControlFlow<()>,
    ) -> Result<(), TxError> {
        transaction(&self.work)?.bytes(table).multi_modify(keys, |row| change(row.as_mut())).map_err(failed)
    }

    fn put(&mut self, table: &ByteTable, key: &[u8], value: &[u8]) -> Result<(), TxError> {
        let done = match writer(&self.work)? {
            Some(transaction) => transaction.bytes(table).put(key, value),
            None => table.put(key, value),
        };
        done.map_err(failed)
    }

    fn insert(&mut self, table: &ByteTable, key: &[u8], value: &[u8]) -> Result<bool, TxError> {
        let done = match writer(&self.work)? {
            Some(transaction) => transaction.bytes(table).insert(key, value),
            None => table.insert(key, value),
        };
        done.map_err(failed)
    }

    fn insert_each<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        table: &ByteTable,
        rows: &[(K, V)],
    ) -> Result<usize, TxError> {
        transaction(&self.work)?.bytes(table).insert_many(rows).map_err(failed)
    }

    fn remove(&mut self, table: &ByteTable, key: &[u8]) -> Result<bool, TxError> {
        let done = match writer(&self.work)? {
            Some(transaction) => transaction.bytes(table).remove(key),
            None => table.remove(key),
        };
        done.map_err(failed)
    }

    fn scan(
        &mut self,
        table: &ByteTable,
        from: &[u8],
        to: &[u8],
        reverse: bool,
        mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), TxError> {
        match &self.work {
            Work::ReadWrite(transaction) => show(transaction.bytes(table).range(from..to), reverse, each),
            Work::ReadOnly(snapshot) if reverse => show(snapshot.bytes(table).range(from..to), true, each),
            Work::ReadOnly(snapshot) => snapshot.bytes(table).scan(from..to, &mut each).map_err(failed),
            Work::Single(_) => Err(not_single()),
        }
    }
}

type Row = foreshore::Result<(Vec<u8>, Vec<u8>)>;

fn show(
    mut rows: impl DoubleEndedIterator<Item = Row>,
    reverse: bool,
    mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
) -> Result<(), TxError> {
    while let Some(row) = if reverse { rows.next_back() } else { rows.next() } {
        let (key, value) = row.map_err(failed)?;
        if each(&key, &value).is_break() {
            break;
        }
    }
    Ok(())
}

/// What may succeed the next time is a conflict.
fn failed(error: Error) -> TxError {
    if error.is_retryable() { TxError::Conflict } else { TxError::Store(error.into()) }
}
