//! A C engine behind the key-value workloads' `Store`: one table, no transactions.

use crate::c_engine::{Api, CSession, CStore, CTable};
use foreshore_workloads::{KvSpec, Row, Session, Store, StoreError, TxError};
use std::ops::ControlFlow;
use std::path::Path;

/// An empty store with one table.
pub struct CRows {
    table: CTable,
    store: CStore,
}

impl CRows {
    /// Creates it.
    ///
    /// Errors: what the engine says.
    pub fn create(api: Api, dir: &Path, spec: &KvSpec) -> Result<Self, StoreError> {
        let store = CStore::open(api, dir, spec.durability, spec.cache_bytes, spec.threads, true)?;
        Ok(Self { table: store.table("rows")?, store })
    }
}

impl Store for CRows {
    type Session<'a> = CRowsSession<'a>;

    fn session(&self) -> Result<CRowsSession<'_>, StoreError> {
        Ok(CRowsSession { table: self.table, session: self.store.session()? })
    }

    fn sync_count(&self) -> Option<u64> {
        self.store.counters().syncs
    }

    fn settle(&self) -> Result<(), StoreError> {
        self.store.settle()
    }
}

/// One thread's access.
pub struct CRowsSession<'a> {
    table: CTable,
    session: CSession<'a>,
}

/// Does `work` until it wins: a single write may lose against another one, too, and has then done nothing.
fn until_won<T>(mut work: impl FnMut() -> Result<T, TxError>) -> Result<T, StoreError> {
    loop {
        match work() {
            Err(TxError::Conflict) => {}
            other => return Ok(other?),
        }
    }
}

impl Session for CRowsSession<'_> {
    fn get<R>(&mut self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, StoreError> {
        let mut read = Some(read);
        until_won(|| {
            self.session.calls.get(self.table, key, false, |value| {
                let read = read.take().expect("a lookup that lost has not read");
                read(value)
            })
        })
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        until_won(|| self.session.calls.put(self.table, key, value))
    }

    fn scan(
        &mut self,
        from: &[u8],
        limit: u64,
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64, StoreError> {
        let mut rows = 0;
        if limit > 0 {
            self.session.calls.scan(self.table, from, false, |key, value| {
                each(key, value);
                rows += 1;
                if rows == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
        }
        Ok(rows)
    }

    fn bulk(&mut self, rows: impl Iterator<Item = Row>) -> Result<u64, StoreError> {
        Ok(self.session.calls.bulk(self.table, rows.map(|row| (row.key, row.value)))?)
    }
}
