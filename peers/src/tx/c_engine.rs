//! A C engine behind the transactional workloads' `TxStore`.
//!
//! One without transactions does the operations one by one. That is all the same to a workload whose transactions have one
//! operation; the others are refused before they begin.

use crate::c_engine::{Api, CSession, CStore, CTable, Calls};
use foreshore_workloads::tx_spec::RunSpec;
use foreshore_workloads::tx_store::{Counters, Isolation};
use foreshore_workloads::{StoreError, Tx, TxError, TxKind, TxSession, TxStore};
use std::ops::ControlFlow;
use std::path::Path;

/// An empty store.
pub struct CTables(CStore);

impl CTables {
    /// Creates it.
    ///
    /// Errors: what the engine says.
    pub fn create(api: Api, dir: &Path, run: &RunSpec) -> Result<Self, StoreError> {
        Ok(Self(CStore::open(api, dir, run.durability, run.cache_bytes, run.threads, false)?))
    }
}

impl TxStore for CTables {
    type Table = CTable;
    type Session<'a> = CTxSession<'a>;

    fn table(&self, name: &str) -> Result<CTable, StoreError> {
        self.0.table(name)
    }

    fn session(&self) -> Result<CTxSession<'_>, StoreError> {
        Ok(CTxSession { session: self.0.session()?, aborts: 0 })
    }

    fn isolation(&self) -> Isolation {
        self.0.isolation()
    }

    fn counters(&self) -> Counters {
        self.0.counters()
    }

    fn settle(&self) -> Result<(), StoreError> {
        self.0.settle()
    }
}

/// One thread's access.
pub struct CTxSession<'a> {
    session: CSession<'a>,
    aborts: u64,
}

impl CTxSession<'_> {
    /// Calls `body` until nothing is in its way.
    fn retry<R>(&mut self, mut body: impl FnMut(&mut Calls) -> Result<R, TxError>) -> Result<R, TxError> {
        loop {
            match body(&mut self.session.calls) {
                Err(TxError::Conflict) => self.aborts += 1,
                outcome => return outcome,
            }
        }
    }
}

/// Runs `body` in a transaction, where the engine has them.
fn in_transaction<R>(
    calls: &mut Calls,
    kind: TxKind,
    body: impl FnOnce(&mut Calls) -> Result<R, TxError>,
) -> Result<R, TxError> {
    let has_begun = calls.begin(kind == TxKind::ReadOnly)?;
    match body(calls) {
        Ok(result) if has_begun => calls.commit().map(|()| result),
        Err(error) if has_begun => {
            calls.roll_back();
            Err(error)
        }
        without_transaction => without_transaction,
    }
}

impl TxSession for CTxSession<'_> {
    type Table = CTable;
    type Tx<'t> = CTx<'t>;

    fn transact<R>(
        &mut self,
        kind: TxKind,
        mut body: impl FnMut(&mut CTx<'_>) -> Result<R, TxError>,
    ) -> Result<R, TxError> {
        self.retry(|calls| {
            in_transaction(calls, kind, |calls| body(&mut CTx { calls, kind, has_begun: true }))
        })
    }

    fn single<R>(
        &mut self,
        kind: TxKind,
        mut body: impl FnMut(&mut CTx<'_>) -> Result<R, TxError>,
    ) -> Result<R, TxError> {
        self.retry(|calls| body(&mut CTx { calls, kind, has_begun: false }))
    }

    fn aborts(&self) -> u64 {
        self.aborts
    }
}

/// A running transaction.
pub struct CTx<'t> {
    calls: &'t mut Calls,
    kind: TxKind,
    /// Is there a transaction around its operation?
    has_begun: bool,
}

impl CTx<'_> {
    /// Makes one of several calls.
    fn at_once<R>(&mut self, body: impl FnOnce(&mut Calls) -> Result<R, TxError>) -> Result<R, TxError> {
        if self.has_begun { body(self.calls) } else { in_transaction(self.calls, self.kind, body) }
    }

    fn must_write(&self) -> Result<(), TxError> {
        match self.kind {
            TxKind::ReadWrite => Ok(()),
            TxKind::ReadOnly => Err(TxError::Wrong("a read-only transaction writes".to_owned())),
        }
    }
}

impl Tx for CTx<'_> {
    type Table = CTable;

    fn get<R>(
        &mut self,
        table: &CTable,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, TxError> {
        self.calls.get(*table, key, false, read)
    }

    fn get_for_update<R>(
        &mut self,
        table: &CTable,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, TxError> {
        self.calls.get(*table, key, true, read)
    }

    fn put(&mut self, table: &CTable, key: &[u8], value: &[u8]) -> Result<(), TxError> {
        self.must_write()?;
        self.calls.put(*table, key, value)
    }

    fn insert(&mut self, table: &CTable, key: &[u8], value: &[u8]) -> Result<bool, TxError> {
        self.must_write()?;
        if let Some(inserted) = self.calls.insert(*table, key, value)? {
            return Ok(inserted);
        }
        self.at_once(|calls| {
            if calls.get(*table, key, true, |_| ())?.is_some() {
                return Ok(false);
            }
            calls.put(*table, key, value)?;
            Ok(true)
        })
    }

    fn remove(&mut self, table: &CTable, key: &[u8]) -> Result<bool, TxError> {
        self.must_write()?;
        self.at_once(|calls| calls.remove(*table, key))
    }

    fn scan(
        &mut self,
        table: &CTable,
        from: &[u8],
        to: &[u8],
        reverse: bool,
        mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), TxError> {
        self.calls.scan(*table, if reverse { to } else { from }, reverse, |key, value| {
            if key < from || key >= to { ControlFlow::Break(()) } else { each(key, value) }
        })
    }
}
