//! What an engine must do to be measured.
//!
//! Fairness, which every implementation keeps:
//! - F1: a `get` sees every `put` acknowledged before it began. Engines that read through snapshots therefore take a fresh
//!   one for each `get`, by their cheapest documented way (LMDB renews one reader per thread).
//! - F2: a value is handed over in place, so that engines with zero-copy reads keep that advantage.
//! - F3: each `put` is a commit of its own with the durability the run asks for; an engine that cannot give it refuses.
//! - F4: calls are static: nobody pays for a virtual call per row.
//! - F5: a scan is one snapshot, or whatever the engine's range gives; a bulk load takes the engine's fastest way in.

use smallvec::SmallVec;

/// An engine's own error. Boxed: the driver only reports it.
pub type StoreError = Box<dyn std::error::Error + Send + Sync>;

/// A key or value of a bulk load; short ones live inline.
pub type Bytes = SmallVec<[u8; 24]>;

/// A row of a bulk load.
#[derive(Clone, Debug)]
pub struct Row {
    /// The key; each row's is greater than the last one's.
    pub key: Bytes,
    /// The value.
    pub value: Bytes,
}

/// An engine with one table of byte strings.
pub trait Store: Sync {
    /// What one thread works through; it is made and used on that thread.
    type Session<'a>: Session
    where
        Self: 'a;

    /// Begins to work on this thread.
    fn session(&self) -> Result<Self::Session<'_>, StoreError>;

    /// Device syncs (`fsync`, `fdatasync`, `msync` …) since the store was opened, as the engine counts them (some count their log's
    /// only); `None` if it does not say.
    fn sync_count(&self) -> Option<u64>;

    /// Brings the store to rest between phases: what was written is on disk, background work that a long run would have
    /// finished is finished.
    fn settle(&self) -> Result<(), StoreError>;
}

/// A thread's access to a [`Store`].
pub trait Session {
    /// Looks a key up and lets `read` see its value; `None` if the key is absent.
    fn get<R>(&mut self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, StoreError>;

    /// Inserts or replaces a row and commits it (F3).
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError>;

    /// As [`Session::put`] of each of these rows, in their order, by whatever call the engine has for that.
    fn put_many(&mut self, rows: &[(Vec<u8>, Vec<u8>)]) -> Result<(), StoreError> {
        rows.iter().try_for_each(|(key, value)| self.put(key, value))
    }

    /// Shows up to `limit` rows from `from` on, in key order; returns how many.
    fn scan(&mut self, from: &[u8], limit: u64, each: impl FnMut(&[u8], &[u8])) -> Result<u64, StoreError>;

    /// Loads sorted rows into an empty store; returns how many.
    fn bulk(&mut self, rows: impl Iterator<Item = Row>) -> Result<u64, StoreError>;
}
