//! What the database counts, and what a check found.

use crate::db::index::Index;
use crate::waits::Wait;
use serde::Serialize;

/// Counters since the database was opened. Bytes are bytes, times are nanoseconds.
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// # let db = foreshore::Database::in_memory()?;
/// let t = db.table::<u32, String>("t")?;
/// t.bulk_load((0..10_000).map(|n| (n, "a value".into())))?;
/// let before = db.stats();
/// db.transact(|tx| tx.table(&t).put(&7, &"another".into()))?;
/// let now = db.stats(); // cheap: ask every second
/// assert_eq!(now.commits - before.commits, 1);
/// println!("{} bytes logged, {} of {} frames in use", now.log_bytes - before.log_bytes, now.pool_resident, now.pool_frames);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// Bytes of records appended to the log, padding included.
    pub log_bytes: u64,
    /// Records that are on their way from the log's buffer to its files, or there.
    pub log_records: u64,
    /// Log flights written and synced.
    pub log_syncs: u64,
    /// Commits that waited for the log to become durable.
    pub log_waits: u64,
    /// Position up to which the log is durable, in bytes of its history.
    pub log_durable_lsn: u64,
    /// Bytes of log that a restart would have to read now.
    pub log_to_redo_bytes: u64,
    /// Frames of the pool, of all leaf sizes.
    pub pool_frames: u64,
    /// Frames in use.
    pub pool_resident: u64,
    /// Frames that differ from their disk images.
    pub pool_dirty: u64,
    /// Pages read from disk.
    pub pool_reads: u64,
    /// Those of them that were read before they were needed, side by side: for walks, for many keys, for redo and rollbacks.
    pub pool_reads_ahead: u64,
    /// Those of these that the walk came to for which they were read.
    pub pool_reads_ahead_used: u64,
    /// Pages written to disk.
    pub pool_writes: u64,
    /// Pages put out of memory.
    pub pool_evictions: u64,
    /// Leaf pages that exist, in memory or on disk.
    pub pages: u64,
    /// Bytes of the leaf files.
    pub leaf_file_bytes: u64,
    /// Bytes of the file of the largest values.
    pub blob_file_bytes: u64,
    /// Those of them that no value uses, for values to come.
    pub blob_free_bytes: u64,
    /// Memory of the indexes over the leaves, in bytes.
    pub index_bytes: u64,
    /// The index of each table.
    pub indexes: Vec<IndexStats>,
    /// Leaves split.
    pub splits: u64,
    /// Leaves absorbed by their left neighbours.
    pub absorbs: u64,
    /// Checkpoints finished.
    pub checkpoints: u64,
    /// Log bytes redone when the database was opened.
    pub redo_bytes: u64,
    /// Log records redone when the database was opened.
    pub redo_records: u64,
    /// Time that opening took.
    pub open_ns: u64,
    /// Transactions that had not ended, and were undone when the database was opened.
    pub undone_at_open: u64,
    /// Read-write transactions committed. Writes through a table's own handle count where it takes one: those of large values, those in
    /// the place of one, and removals of ranges.
    pub commits: u64,
    /// Read-write transactions rolled back.
    pub rollbacks: u64,
    /// Read-write transactions running now: those that have prepared, and writes through tables' own handles, among them.
    pub transactions: u64,
    /// Snapshots open now.
    pub snapshots: u64,
    /// Memory of old versions, in bytes.
    pub image_bytes: u64,
    /// Waits for key locks; `waits` has them by table, with times.
    pub lock_waits: u64,
    /// Waits broken off to break deadlocks: of transactions, which were rolled back, and of writes through tables' own handles, which
    /// asked again.
    pub deadlocks: u64,
    /// Waits for key locks that were given up.
    pub lock_timeouts: u64,
    /// Where threads waited, and for how long: log, pages, latches, and the locks of each table.
    pub waits: Vec<Wait>,
    /// Tables.
    pub tables: u64,
}

/// The index over one table's leaves.
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// # let db = foreshore::Database::in_memory()?;
/// let t = db.table::<u32, u32>("squares")?;
/// t.bulk_load((0..10_000).map(|n| (n, n * n)))?;
/// let stats = db.stats();
/// let index = stats.indexes.iter().find(|index| index.table == "squares").expect("it is there");
/// assert!(index.bytes > 0 && stats.index_bytes >= index.bytes);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct IndexStats {
    /// The table's name.
    pub table: String,
    /// What it is.
    pub index: Index,
    /// Its memory in bytes.
    pub bytes: u64,
    /// Bytes of each leaf below it.
    pub leaf_bytes: u64,
}

/// What [`Database::check`](crate::Database::check) found, all being well.
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// # let db = foreshore::Database::in_memory()?;
/// db.byte_table("t")?.put(b"k", b"v")?;
/// let report = db.check()?; // an error names what is damaged
/// for table in &report.tables {
///     println!("{}: {} rows in {} leaves", table.name, table.rows, table.leaves);
/// }
/// assert_eq!(report.stray_pages, 0);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct CheckReport {
    /// One entry per table, the catalog first.
    pub tables: Vec<TableReport>,
    /// Leaf pages that belong to no table and are not free: 0 unless a writer was at work.
    pub stray_pages: u64,
}

/// One table's shape.
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// # let db = foreshore::Database::in_memory()?;
/// let letters = db.byte_table("letters")?;
/// letters.put(b"to ada", b"short")?;
/// letters.put(b"to ben", &[b'x'; 100_000])?; // too large for a leaf
/// let report = db.check()?;
/// let table = report.tables.iter().find(|table| table.name == "letters").expect("it is there");
/// assert_eq!((table.rows, table.large_values, table.large_bytes), (2, 1, 100_000));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct TableReport {
    /// Its name.
    pub name: String,
    /// The index over its leaves.
    pub index: Index,
    /// Bytes of each leaf.
    pub leaf_bytes: u64,
    /// Rows, uncommitted ones included.
    pub rows: u64,
    /// Removed rows that stay until no snapshot needs them.
    pub ghosts: u64,
    /// Leaf pages.
    pub leaves: u64,
    /// Bytes used in the leaves, headers included.
    pub used_bytes: u64,
    /// Values too large for the table's leaves, which lie in leaves of their own.
    pub large_values: u64,
    /// Bytes of these values.
    pub large_bytes: u64,
    /// Leaf pages of these values, of the database's own leaf size.
    pub large_leaves: u64,
    /// Bytes used in these leaves, headers included.
    pub large_used_bytes: u64,
    /// Large values that were replaced or removed, and stay until no snapshot needs them.
    pub large_dead: u64,
    /// Large values that belong to no row and will not be removed: 0 unless a writer was at work.
    pub large_stray: u64,
    /// Separators that the index lacked; lookups found those leaves through right links. Harmless.
    pub missing_separators: u64,
}
