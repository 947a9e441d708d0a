//! sled: pages as chains of deltas in a log-structured store.
//!
//! - `sync`: `flush` after each write.
//! - `buffered`: refused. Between flushes, writes wait in the process's own buffers.
//! - `relaxed`: its default, a flush every 500 ms.
//! - Its transactions have no ranges, so it runs `kv` only.

use foreshore_workloads::{Durability, KvSpec, Row, Session, Store, StoreError};
use std::path::Path;

/// An empty sled database.
pub struct Sled {
    database: sled::Db,
    durability: Durability,
}

impl Sled {
    /// Creates it.
    ///
    /// Errors: what sled says.
    pub fn create(dir: &Path, spec: &KvSpec) -> Result<Self, StoreError> {
        let database = sled::Config::new().path(dir).cache_capacity(spec.cache_bytes).open()?;
        Ok(Self { database, durability: spec.durability })
    }
}

impl Store for Sled {
    type Session<'a> = &'a Sled;

    fn session(&self) -> Result<&Sled, StoreError> {
        Ok(self)
    }

    fn sync_count(&self) -> Option<u64> {
        None
    }

    fn settle(&self) -> Result<(), StoreError> {
        self.database.flush()?;
        Ok(())
    }
}

impl Session for &Sled {
    fn get<R>(&mut self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, StoreError> {
        Ok(self.database.get(key)?.map(|value| read(&value)))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.database.insert(key, value)?;
        if self.durability == Durability::Sync {
            self.database.flush()?;
        }
        Ok(())
    }

    fn scan(
        &mut self,
        from: &[u8],
        limit: u64,
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64, StoreError> {
        let mut rows = 0;
        for row in self.database.range(from..).take(usize::try_from(limit).unwrap_or(usize::MAX)) {
            let (key, value) = row?;
            each(&key, &value);
            rows += 1;
        }
        Ok(rows)
    }

    /// Plain inserts, and with `sync` one flush: its `import` is for exports of its own.
    fn bulk(&mut self, rows: impl Iterator<Item = Row>) -> Result<u64, StoreError> {
        let mut count = 0;
        for row in rows {
            self.database.insert(row.key.as_slice(), row.value.as_slice())?;
            count += 1;
        }
        if self.durability == Durability::Sync {
            self.database.flush()?;
        }
        Ok(count)
    }
}
