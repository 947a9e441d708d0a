//! `BTreeMap`s under one mutex: a transactional store simple enough to be believed, on which the workloads are tested.
//!
//! A transaction holds the mutex from beginning to end, so histories are serial; it keeps a list of before-images and puts
//! them back, last first, when it is rolled back. On request it invents conflicts, since a serial store has none and bodies
//! must still prove that they begin afresh.

use crate::kv::BenchError;
use crate::tx_store::{Counters, Isolation, Tx, TxError, TxKind, TxSession, TxStore};
use crate::{Durability, StoreError};
use foreshore_base::seeded_bug;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::{Mutex, MutexGuard};

type Bytes = Box<[u8]>;
type Map = BTreeMap<Bytes, Bytes>;

/// Transactions over maps. Nothing of it reaches a disk.
#[derive(Debug, Default)]
pub struct MapTxStore {
    tables: Mutex<Vec<(String, Map)>>,
    conflict_every: Option<u64>,
}

/// The handle of one of its tables.
#[derive(Clone, Copy, Debug)]
pub struct MapTable(usize);

impl MapTxStore {
    /// An empty store.
    ///
    /// Errors: any durability but `Relaxed` is [`BenchError::Usage`], since maps survive nothing.
    pub fn new(durability: Durability) -> Result<Self, BenchError> {
        if durability != Durability::Relaxed {
            return Err(BenchError::Usage("btreemap is volatile: only --durability relaxed".to_owned()));
        }
        Ok(Self::default())
    }

    /// A store in which each session loses every `n`-th read-write transaction against nobody, just before its commit.
    pub fn with_conflicts(n: u64) -> Self {
        Self { conflict_every: Some(n), ..Self::default() }
    }

    fn lock(&self) -> Result<MutexGuard<'_, Vec<(String, Map)>>, StoreError> {
        self.tables.lock().map_err(|_| "a transaction panicked".into())
    }
}

impl TxStore for MapTxStore {
    type Table = MapTable;
    type Session<'a> = MapTxSession<'a>;

    fn table(&self, name: &str) -> Result<MapTable, StoreError> {
        let mut tables = self.lock()?;
        let at = tables.iter().position(|(other, _)| other == name).unwrap_or_else(|| {
            tables.push((name.to_owned(), Map::new()));
            tables.len() - 1
        });
        Ok(MapTable(at))
    }

    fn session(&self) -> Result<MapTxSession<'_>, StoreError> {
        Ok(MapTxSession { store: self, begun: 0, aborts: 0 })
    }

    fn isolation(&self) -> Isolation {
        Isolation::Serializable
    }

    fn counters(&self) -> Counters {
        Counters { log_bytes: Some(0), syncs: Some(0) }
    }

    fn settle(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// One thread's access.
#[derive(Debug)]
pub struct MapTxSession<'a> {
    store: &'a MapTxStore,
    begun: u64,
    aborts: u64,
}

impl MapTxSession<'_> {
    /// Must the transaction that is about to commit lose?
    fn invents_conflict(&mut self, kind: TxKind) -> bool {
        self.begun += u64::from(kind == TxKind::ReadWrite);
        kind == TxKind::ReadWrite && self.store.conflict_every.is_some_and(|n| self.begun.is_multiple_of(n))
    }
}

impl TxSession for MapTxSession<'_> {
    type Table = MapTable;
    type Tx<'t> = MapTx<'t>;

    fn transact<R>(
        &mut self,
        kind: TxKind,
        mut body: impl FnMut(&mut MapTx<'_>) -> Result<R, TxError>,
    ) -> Result<R, TxError> {
        loop {
            let mut tx = MapTx { tables: self.store.lock()?, kind, undo: Vec::new() };
            let result = match body(&mut tx) {
                Ok(_) if self.invents_conflict(kind) => Err(TxError::Conflict),
                other => other,
            };
            if result.is_err() {
                tx.roll_back();
            }
            match result {
                Err(TxError::Conflict) => self.aborts += 1,
                other => return other,
            }
        }
    }

    fn aborts(&self) -> u64 {
        self.aborts
    }
}

/// What a key held before a change.
#[derive(Debug)]
struct BeforeImage {
    table: usize,
    key: Bytes,
    value: Option<Bytes>,
}

/// A running transaction: it is alone.
#[derive(Debug)]
pub struct MapTx<'t> {
    tables: MutexGuard<'t, Vec<(String, Map)>>,
    kind: TxKind,
    undo: Vec<BeforeImage>,
}

impl MapTx<'_> {
    fn map(&self, table: MapTable) -> &Map {
        &self.tables[table.0].1
    }

    /// Sets or removes a row and remembers what was there.
    fn change(&mut self, table: MapTable, key: &[u8], value: Option<Bytes>) -> Result<bool, TxError> {
        if self.kind == TxKind::ReadOnly {
            return Err(TxError::Wrong("a read-only transaction writes".to_owned()));
        }
        let before = self.set(table.0, key, value);
        let was_there = before.is_some();
        self.undo.push(BeforeImage { table: table.0, key: key.into(), value: before });
        Ok(was_there)
    }

    fn set(&mut self, table: usize, key: &[u8], value: Option<Bytes>) -> Option<Bytes> {
        let map = &mut self.tables[table].1;
        match value {
            Some(value) => map.insert(key.into(), value),
            None => map.remove(key),
        }
    }

    fn roll_back(&mut self) {
        if seeded_bug("reference_rollback_forgets_first_change") && !self.undo.is_empty() {
            self.undo.remove(0);
        }
        while let Some(BeforeImage { table, key, value }) = self.undo.pop() {
            self.set(table, &key, value);
        }
    }
}

impl Tx for MapTx<'_> {
    type Table = MapTable;

    fn get<R>(
        &mut self,
        table: &MapTable,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, TxError> {
        Ok(self.map(*table).get(key).map(|value| read(value)))
    }

    fn get_for_update<R>(
        &mut self,
        table: &MapTable,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, TxError> {
        self.get(table, key, read)
    }

    fn put(&mut self, table: &MapTable, key: &[u8], value: &[u8]) -> Result<(), TxError> {
        self.change(*table, key, Some(value.into())).map(drop)
    }

    fn insert(&mut self, table: &MapTable, key: &[u8], value: &[u8]) -> Result<bool, TxError> {
        if self.map(*table).contains_key(key) {
            return Ok(false);
        }
        self.put(table, key, value)?;
        Ok(true)
    }

    fn remove(&mut self, table: &MapTable, key: &[u8]) -> Result<bool, TxError> {
        self.change(*table, key, None)
    }

    fn scan(
        &mut self,
        table: &MapTable,
        from: &[u8],
        to: &[u8],
        reverse: bool,
        mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), TxError> {
        if from >= to {
            return Ok(());
        }
        let mut rows = self.map(*table).range::<[u8], _>((Bound::Included(from), Bound::Excluded(to)));
        let mut next = || if reverse { rows.next_back() } else { rows.next() };
        while let Some((key, value)) = next() {
            if each(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tx_store::KEYS_END;

    fn rows(store: &MapTxStore, table: MapTable, reverse: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut rows = Vec::new();
        let each = |tx: &mut MapTx<'_>| {
            tx.scan(&table, &[], KEYS_END, reverse, |key, value| {
                rows.push((key.to_vec(), value.to_vec()));
                ControlFlow::Continue(())
            })
        };
        store.session().unwrap().transact(TxKind::ReadOnly, each).unwrap();
        rows
    }

    fn filled() -> (MapTxStore, MapTable) {
        let store = MapTxStore::with_conflicts(3);
        let table = store.table("t").unwrap();
        let mut session = store.session().unwrap();
        for key in 0..10u8 {
            session.transact(TxKind::ReadWrite, |tx| tx.put(&table, &[key], &[key, key])).unwrap();
        }
        assert_eq!(session.aborts(), 4, "14 transactions begun, of which 3, 6, 9 and 12 lose");
        (store, table)
    }

    /// Several changes of one key, and of others, are all undone.
    #[test]
    fn a_rollback_restores_every_row() {
        let (store, table) = filled();
        let before = rows(&store, table, false);
        let outcome = store.session().unwrap().transact(TxKind::ReadWrite, |tx| {
            tx.put(&table, &[3], b"other")?;
            assert!(tx.remove(&table, &[3])?);
            assert!(tx.insert(&table, &[3], b"third")?);
            assert!(!tx.insert(&table, &[4], b"there")?);
            assert!(tx.insert(&table, &[77], b"new")?);
            assert_eq!(tx.get(&table, &[3], <[u8]>::to_vec)?.as_deref(), Some(&b"third"[..]));
            Err::<(), _>(TxError::Rollback)
        });
        assert!(matches!(outcome, Err(TxError::Rollback)), "{outcome:?}");
        assert_eq!(rows(&store, table, false), before);
    }

    #[test]
    fn scans_keep_their_bounds_in_both_directions() {
        let (store, table) = filled();
        let mut forward = rows(&store, table, false);
        assert_eq!(forward.len(), 10);
        forward.reverse();
        assert_eq!(rows(&store, table, true), forward);
        let mut seen = Vec::new();
        store
            .session()
            .unwrap()
            .transact(TxKind::ReadOnly, |tx| {
                tx.scan(&table, &[2], &[5], true, |key, _| {
                    seen.push(key[0]);
                    if key[0] == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })
            })
            .unwrap();
        assert_eq!(seen, [4, 3]);
    }

    #[test]
    fn a_read_only_transaction_cannot_write() {
        let (store, table) = filled();
        let outcome = store.session().unwrap().transact(TxKind::ReadOnly, |tx| tx.put(&table, &[1], b"x"));
        assert!(matches!(outcome, Err(TxError::Wrong(_))), "{outcome:?}");
    }
}
