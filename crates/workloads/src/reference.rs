//! `RwLock<BTreeMap>`: the volatile yardstick, and what the drivers' own tests run on.

use crate::kv::BenchError;
use crate::{Durability, Row, Session, Store, StoreError};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::RwLock;

type Map = BTreeMap<Box<[u8]>, Box<[u8]>>;

/// A map behind one lock. Nothing of it reaches a disk.
#[derive(Debug, Default)]
pub struct MapStore {
    map: RwLock<Map>,
}

impl MapStore {
    /// An empty map.
    ///
    /// Errors: any durability but `Relaxed` is [`BenchError::Usage`], since a map survives nothing.
    pub fn new(durability: Durability) -> Result<Self, BenchError> {
        if durability != Durability::Relaxed {
            return Err(BenchError::Usage("btreemap is volatile: only --durability relaxed".to_owned()));
        }
        Ok(Self::default())
    }
}

impl Store for MapStore {
    type Session<'a> = &'a RwLock<Map>;

    fn session(&self) -> Result<Self::Session<'_>, StoreError> {
        Ok(&self.map)
    }

    fn sync_count(&self) -> Option<u64> {
        Some(0)
    }

    fn settle(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Session for &RwLock<Map> {
    fn get<R>(&mut self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, StoreError> {
        let map = self.read().map_err(|_| "a writer panicked")?;
        Ok(map.get(key).map(|value| read(value)))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let mut map = self.write().map_err(|_| "a writer panicked")?;
        map.insert(key.into(), value.into());
        Ok(())
    }

    fn scan(
        &mut self,
        from: &[u8],
        limit: u64,
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64, StoreError> {
        let map = self.read().map_err(|_| "a writer panicked")?;
        let mut rows = 0;
        for (key, value) in map.range::<[u8], _>((Bound::Included(from), Bound::Unbounded)) {
            if rows == limit {
                break;
            }
            each(key, value);
            rows += 1;
        }
        Ok(rows)
    }

    fn bulk(&mut self, rows: impl Iterator<Item = Row>) -> Result<u64, StoreError> {
        let map = rows.map(|row| (row.key.as_slice().into(), row.value.as_slice().into())).collect::<Map>();
        let count = map.len() as u64;
        *self.write().map_err(|_| "a writer panicked")? = map;
        Ok(count)
    }
}
