//! Foreshore: an embedded, durable, ordered key-value engine for multicore machines.
//!
//! Begin with [`Database`]; its [tables](Table) have types, or hold [bytes](ByteTable). Several changes that belong together
//! are a [transaction](Database::transact), and a [snapshot](Database::snapshot) shows everything as of one moment.
//!
//! ```
//! # fn main() -> foreshore::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("bank.db");
//! use foreshore::Database;
//!
//! let db = Database::open(path)?;
//! let accounts = db.table::<String, i64>("accounts")?;
//! accounts.put_many(&[("ada".into(), 100), ("ben".into(), 0)])?; // when this returns, the device has it
//!
//! let before = db.snapshot()?;
//! db.transact(|tx| {
//!     let accounts = tx.table(&accounts);
//!     for (name, amount) in [("ada", -30), ("ben", 30)] {
//!         let balance = accounts.get_for_update(name)?.unwrap_or(0);
//!         accounts.put(name, &(balance + amount))?;
//!     }
//!     Ok(())
//! })?; // both, or neither
//!
//! let rows = accounts.range(..).collect::<foreshore::Result<Vec<_>>>()?;
//! assert_eq!(rows, [("ada".into(), 70), ("ben".into(), 30)]);
//! assert_eq!(before.table(&accounts).get("ada")?, Some(100));
//! # drop(before);
//! db.close()?;
//! # Ok(()) }
//! ```
//!
//! Architecture, file formats and the recovery argument are in the repository's `ARCHITECTURE.md` and `docs/`.

#![warn(missing_debug_implementations)]

mod blob;
#[cfg(doctest)]
mod book;
mod bounds;
#[cfg(test)]
mod chance;
mod core;
mod db;
mod dir_syncs;
mod error;
mod fields;
mod file_names;
mod leaf;
mod lock;
mod log;
mod page;
mod pool;
mod recovery;
mod spread;
mod stage;
mod threads;
mod tree;
mod txn;
mod version;
mod waits;

/// What a database may stand on instead of a directory, with [`Builder::open_on`]: memory, a simulated disk on which tests let a program
/// crash, or another kind of storage that has [`Vfs`](vfs::Vfs) implemented for it.
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// use foreshore::vfs::{SimDisk, sim::Crash};
/// use foreshore::{Database, Durability};
/// use std::sync::Arc;
///
/// let disk = SimDisk::new(1);
/// let orders = Database::builder().open_on(Arc::new(disk.clone()))?.table::<u32, String>("orders")?;
/// orders.put(&1, &"apples".into())?; // returns when the device has it
/// orders.with_durability(Durability::Relaxed).put(&2, &"pears".into())?;
///
/// for seed in 0..5 { // what was not synced may be there or not, by this number
///     let rebooted = disk.after_crash(Crash::PowerLoss, seed);
///     let orders = Database::builder().open_on(Arc::new(rebooted))?.table::<u32, String>("orders")?;
///     assert_eq!(orders.get(&1)?.as_deref(), Some("apples"));
/// }
/// # Ok(()) }
/// ```
pub mod vfs {
    pub use foreshore_io::sim;
    pub use foreshore_io::{
        Access, BLOCK_BYTES, DirVfs, File, LockError, MemVfs, SharedMemory, SimDisk, Vfs,
    };
}

/// The README's example is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}

pub use blob::VALUE_BYTES_MAX;
#[doc(hidden)]
pub use bounds::RawBounds;
pub use db::{
    Builder, ByteBounds, ByteRange, ByteTable, CheckReport, CommitTicket, Compacted, Copied, Database, Index,
    IndexStats, Isolation, Key, KeyBounds, KeyComponent, KeyPrefix, Prefix, Range, Savepoint, Snapshot,
    SnapshotBytes, SnapshotTable, Stats, Table, TableOptions, TableReport, Transaction, TransactionBytes,
    TransactionOptions, TransactionRange, TransactionTable, Types, Value,
};
#[doc(hidden)]
pub use db::{Endless, ensure_beside_databases};
pub use error::{Error, Result};
pub use foreshore_index::calibrate::ProfileError;
pub use foreshore_index::{Favour, Profile};
pub use log::Durability;
pub use waits::{Wait, before_waiting, will_wait};
