//! redb: a copy-on-write B+-tree, one writer at a time.
//!
//! - `sync`: `Durability::Immediate`, its default.
//! - `buffered`: refused. redb has nothing between a synced commit and one that a crash of the process may undo.
//! - `relaxed`: `Durability::None`.
//! - A lookup begins a read transaction and opens the table: redb has no cheaper way to see the newest commit.

use foreshore_workloads::kv::BenchError;
use foreshore_workloads::{Durability, KvSpec, Row, Session, Store, StoreError};
use redb::{Database, ReadableDatabase, TableDefinition};
use std::path::Path;

const TABLE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("rows");

/// An empty redb database.
pub struct Redb {
    database: Database,
    durability: redb::Durability,
}

impl Redb {
    /// Creates it.
    ///
    /// Errors: `buffered` is [`BenchError::Usage`], see above; or what redb says.
    pub fn create(dir: &Path, spec: &KvSpec) -> Result<Self, BenchError> {
        let durability = commit_durability(spec.durability)?;
        Ok(Self { database: database(dir, spec.cache_bytes)?, durability })
    }
}

/// redb's word for a durability.
///
/// Errors: [`BenchError::Usage`] for `buffered`.
pub fn commit_durability(durability: Durability) -> Result<redb::Durability, BenchError> {
    match durability {
        Durability::Sync => Ok(redb::Durability::Immediate),
        Durability::Relaxed => Ok(redb::Durability::None),
        Durability::Buffered => {
            let why = "redb has no --durability buffered: only sync, and relaxed, which a kill undoes";
            Err(BenchError::Usage(why.to_owned()))
        }
    }
}

/// Opens a new database with its table.
fn database(dir: &Path, cache_bytes: u64) -> Result<Database, StoreError> {
    let database =
        Database::builder().set_cache_size(usize::try_from(cache_bytes)?).create(dir.join("redb"))?;
    let write = database.begin_write()?;
    write.open_table(TABLE)?;
    write.commit()?;
    Ok(database)
}

impl Store for Redb {
    type Session<'a> = &'a Redb;

    fn session(&self) -> Result<&Redb, StoreError> {
        Ok(self)
    }

    fn sync_count(&self) -> Option<u64> {
        None
    }

    /// An empty durable commit also persists what relaxed commits left behind.
    fn settle(&self) -> Result<(), StoreError> {
        let mut write = self.database.begin_write()?;
        write.set_durability(redb::Durability::Immediate)?;
        Ok(write.commit()?)
    }
}

impl Session for &Redb {
    fn get<R>(&mut self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, StoreError> {
        let table = self.database.begin_read()?.open_table(TABLE)?;
        Ok(table.get(key)?.map(|value| read(value.value())))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let mut write = self.database.begin_write()?;
        write.set_durability(self.durability)?;
        write.open_table(TABLE)?.insert(key, value)?;
        Ok(write.commit()?)
    }

    fn scan(
        &mut self,
        from: &[u8],
        limit: u64,
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64, StoreError> {
        let table = self.database.begin_read()?.open_table(TABLE)?;
        let mut rows = 0;
        for row in table.range(from..)?.take(usize::try_from(limit)?) {
            let (key, value) = row?;
            each(key.value(), value.value());
            rows += 1;
        }
        Ok(rows)
    }

    /// One transaction; redb has no other bulk load.
    fn bulk(&mut self, rows: impl Iterator<Item = Row>) -> Result<u64, StoreError> {
        let mut write = self.database.begin_write()?;
        write.set_durability(self.durability)?;
        let mut table = write.open_table(TABLE)?;
        let mut count = 0;
        for row in rows {
            table.insert(row.key.as_slice(), row.value.as_slice())?;
            count += 1;
        }
        drop(table);
        write.commit()?;
        Ok(count)
    }
}
