//! fjall: a log-structured merge tree, journal first.
//!
//! - `sync`: `manual_journal_persist`, and `persist(SyncData)` after each write, as its README says for ACID.
//! - `buffered`: its default: each write reaches the operating system's buffers.
//! - `relaxed`: `manual_journal_persist` without a persist: writes wait in the process's own buffer.
//! - `expect_point_read_hits`, since every lookup of the workloads finds its row.
//! - `with_kv_separation`, as it offers for large values: those of 1 KiB or more, its default, lie in files of their own and are not
//!   written anew with each compaction.

use fjall::{Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, PersistMode};
use foreshore_workloads::{Durability, KvSpec, Row, Session, Store, StoreError};
use std::path::Path;
use std::time::{Duration, Instant};

/// An empty fjall database.
pub struct Fjall {
    database: Database,
    rows: Keyspace,
    durability: Durability,
}

impl Fjall {
    /// Creates it.
    ///
    /// Errors: what fjall says.
    pub fn create(dir: &Path, spec: &KvSpec) -> Result<Self, StoreError> {
        let manual = spec.durability != Durability::Buffered;
        let database =
            Database::builder(dir).cache_size(spec.cache_bytes).manual_journal_persist(manual).open()?;
        let options = || keyspace_options(manual).expect_point_read_hits(true);
        let rows = database.keyspace("rows", options)?;
        Ok(Self { database, rows, durability: spec.durability })
    }
}

/// What all keyspaces have in common.
pub fn keyspace_options(manual_persist: bool) -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .manual_journal_persist(manual_persist)
        .with_kv_separation(Some(KvSeparationOptions::default()))
}

impl Store for Fjall {
    type Session<'a> = &'a Fjall;

    fn session(&self) -> Result<&Fjall, StoreError> {
        Ok(self)
    }

    fn sync_count(&self) -> Option<u64> {
        None
    }

    /// Flushes the memtable and waits until compaction has been idle for a while.
    fn settle(&self) -> Result<(), StoreError> {
        const IDLE: Duration = Duration::from_millis(200);
        self.rows.rotate_memtable_and_wait()?;
        self.database.persist(PersistMode::SyncAll)?;
        let mut idle_since = Instant::now();
        while idle_since.elapsed() < IDLE {
            std::thread::sleep(Duration::from_millis(5));
            if self.database.active_compactions() > 0 || self.database.outstanding_flushes() > 0 {
                idle_since = Instant::now();
            }
        }
        Ok(())
    }
}

impl Session for &Fjall {
    fn get<R>(&mut self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, StoreError> {
        Ok(self.rows.get(key)?.map(|value| read(&value)))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.rows.insert(key, value)?;
        if self.durability == Durability::Sync {
            self.database.persist(PersistMode::SyncData)?;
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
        for row in self.rows.range(from..).take(usize::try_from(limit)?) {
            let (key, value) = row.into_inner()?;
            each(&key, &value);
            rows += 1;
        }
        Ok(rows)
    }

    /// Ingestion, which writes tables directly, past journal and memtable.
    fn bulk(&mut self, rows: impl Iterator<Item = Row>) -> Result<u64, StoreError> {
        let mut ingestion = self.rows.start_ingestion()?;
        let mut count = 0;
        for row in rows {
            ingestion.write(row.key.as_slice(), row.value.as_slice())?;
            count += 1;
        }
        ingestion.finish()?;
        Ok(count)
    }
}
