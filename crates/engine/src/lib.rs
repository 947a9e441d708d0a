//! Foreshore: an embedded, durable, ordered key-value engine for multicore machines.
//!
//! Begin with [`Database`]. Architecture, file formats and the recovery argument are in the repository's
//! `ARCHITECTURE.md` and `docs/`.

mod db;
mod error;
mod leaf;
mod log;
mod page;
mod pool;
mod recovery;
mod tree;

/// The README's example is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}

pub use db::{
    Builder, ByteRange, ByteTable, CheckReport, Database, Key, KeyBounds, Range, RawBounds, Stats, Table,
    TableReport, Value,
};
pub use error::{Error, Result};
pub use log::Durability;
