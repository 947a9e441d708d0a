//! LMDB with transactions: one writer at a time, which makes them serializable. Tables are its named databases.
//!
//! A session keeps one read transaction and renews it for each read-only transaction.

use crate::lmdb::{Cursor, Env, Renewed, Txn, bytes, ok, val};
use foreshore_workloads::tx_spec::RunSpec;
use foreshore_workloads::tx_store::{Counters, Isolation};
use foreshore_workloads::{StoreError, Tx, TxError, TxKind, TxSession, TxStore};
use lmdb_master_sys as ffi;
use std::ffi::CString;
use std::ops::ControlFlow;
use std::path::Path;

/// An empty LMDB environment.
pub struct LmdbTables {
    env: Env,
}

impl LmdbTables {
    /// Creates it.
    ///
    /// Errors: what LMDB says.
    pub fn create(dir: &Path, run: &RunSpec) -> Result<Self, StoreError> {
        const FEW_TABLES: usize = 16;
        // Record insertion has a table for each thread.
        Ok(Self { env: Env::open(dir, run.durability, run.threads, run.threads + FEW_TABLES)? })
    }
}

impl TxStore for LmdbTables {
    type Table = ffi::MDB_dbi;
    type Session<'a> = LmdbSession<'a>;

    fn table(&self, name: &str) -> Result<ffi::MDB_dbi, StoreError> {
        let name = CString::new(name)?;
        let write = Txn::begin(&self.env, 0)?;
        let mut dbi = 0;
        // SAFETY: the transaction is live, the name lives through the call.
        ok(unsafe { ffi::mdb_dbi_open(write.raw(), name.as_ptr(), ffi::MDB_CREATE, &mut dbi) })?;
        write.commit()?;
        Ok(dbi)
    }

    fn session(&self) -> Result<LmdbSession<'_>, StoreError> {
        Ok(LmdbSession { env: &self.env, reader: Txn::reset_reader(&self.env)? })
    }

    fn isolation(&self) -> Isolation {
        Isolation::Serializable
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn settle(&self) -> Result<(), StoreError> {
        self.env.sync()
    }
}

/// One thread's access.
pub struct LmdbSession<'a> {
    env: &'a Env,
    reader: Txn<'a>,
}

impl TxSession for LmdbSession<'_> {
    type Table = ffi::MDB_dbi;
    type Tx<'t> = LmdbTx<'t>;

    fn transact<R>(
        &mut self,
        kind: TxKind,
        mut body: impl FnMut(&mut LmdbTx<'_>) -> Result<R, TxError>,
    ) -> Result<R, TxError> {
        if kind == TxKind::ReadOnly {
            let renewed = Renewed::new(&self.reader)?;
            return body(&mut LmdbTx { txn: renewed.txn(), kind });
        }
        let write = Txn::begin(self.env, 0)?;
        let result = body(&mut LmdbTx { txn: &write, kind })?;
        write.commit()?;
        Ok(result)
    }

    fn aborts(&self) -> u64 {
        0
    }
}

/// A running transaction.
pub struct LmdbTx<'t> {
    txn: &'t Txn<'t>,
    kind: TxKind,
}

impl LmdbTx<'_> {
    fn write(&self, table: ffi::MDB_dbi, key: &[u8], value: &[u8], flags: u32) -> Result<bool, TxError> {
        self.must_write()?;
        let (mut key, mut value) = (val(key), val(value));
        // SAFETY: the transaction is live, the table open; LMDB copies key and value, and writes through neither: on
        // MDB_KEYEXIST it only points `value` elsewhere.
        match unsafe { ffi::mdb_put(self.txn.raw(), table, &mut key, &mut value, flags) } {
            ffi::MDB_KEYEXIST => Ok(false),
            code => Ok(ok(code).map(|()| true)?),
        }
    }

    fn must_write(&self) -> Result<(), TxError> {
        match self.kind {
            TxKind::ReadWrite => Ok(()),
            TxKind::ReadOnly => Err(TxError::Wrong("a read-only transaction writes".to_owned())),
        }
    }
}

impl Tx for LmdbTx<'_> {
    type Table = ffi::MDB_dbi;

    fn get<R>(
        &mut self,
        table: &ffi::MDB_dbi,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, TxError> {
        let (mut key, mut value) = (val(key), val(&[]));
        // SAFETY: the transaction is live, the table open; LMDB does not write through the key.
        match unsafe { ffi::mdb_get(self.txn.raw(), *table, &mut key, &mut value) } {
            ffi::MDB_NOTFOUND => Ok(None),
            code => {
                ok(code)?;
                // SAFETY: LMDB set `value` to bytes in the map that stay until this transaction's next write, after `read`.
                Ok(Some(read(unsafe { bytes(&value) })))
            }
        }
    }

    fn get_for_update<R>(
        &mut self,
        table: &ffi::MDB_dbi,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, TxError> {
        self.get(table, key, read)
    }

    fn put(&mut self, table: &ffi::MDB_dbi, key: &[u8], value: &[u8]) -> Result<(), TxError> {
        self.write(*table, key, value, 0).map(drop)
    }

    fn insert(&mut self, table: &ffi::MDB_dbi, key: &[u8], value: &[u8]) -> Result<bool, TxError> {
        self.write(*table, key, value, ffi::MDB_NOOVERWRITE)
    }

    fn remove(&mut self, table: &ffi::MDB_dbi, key: &[u8]) -> Result<bool, TxError> {
        self.must_write()?;
        let mut key = val(key);
        // SAFETY: the transaction is live, the table open and without duplicates, so no value is asked for.
        match unsafe { ffi::mdb_del(self.txn.raw(), *table, &mut key, std::ptr::null_mut()) } {
            ffi::MDB_NOTFOUND => Ok(false),
            code => Ok(ok(code).map(|()| true)?),
        }
    }

    fn scan(
        &mut self,
        table: &ffi::MDB_dbi,
        from: &[u8],
        to: &[u8],
        reverse: bool,
        mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), TxError> {
        let cursor = Cursor::open(self.txn, *table)?;
        let mut row = if reverse {
            // The last row before the first one at or above `to`.
            let above = cursor.seek(to)?;
            cursor.step(if above.is_some() { ffi::MDB_PREV } else { ffi::MDB_LAST })?
        } else {
            cursor.seek(from)?
        };
        while let Some((key, value)) = row {
            if key < from || key >= to || each(key, value).is_break() {
                break;
            }
            row = cursor.step(if reverse { ffi::MDB_PREV } else { ffi::MDB_NEXT })?;
        }
        Ok(())
    }
}
