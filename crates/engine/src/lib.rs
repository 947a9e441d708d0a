//! Foreshore: an embedded, durable, ordered key-value engine for multicore machines.
//!
//! Begin with [`Database`]. Architecture, file formats and the recovery argument are in the repository's
//! `ARCHITECTURE.md` and `docs/`.

mod blob;
#[cfg(doctest)]
mod book;
mod bounds;
mod db;
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
mod tree;
mod txn;
mod version;
mod waits;

/// The README's example is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}

#[doc(hidden)]
pub use db::Endless;
pub use db::{
    Builder, ByteRange, ByteTable, CheckReport, CommitTicket, Compacted, Copied, Database, Index, IndexStats,
    Isolation, Key, KeyBounds, KeyComponent, KeyPrefix, Range, RawBounds, Savepoint, Snapshot, SnapshotBytes,
    SnapshotTable, Stats, Table, TableOptions, TableReport, Transaction, TransactionBytes,
    TransactionOptions, TransactionRange, TransactionTable, Value,
};
pub use error::{Error, Result};
pub use foreshore_index::calibrate::ProfileError;
pub use foreshore_index::{Favour, Profile};
pub use log::Durability;
pub use waits::{Wait, before_waiting, will_wait};
