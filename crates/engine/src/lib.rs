//! Foreshore: an embedded, durable, ordered key-value engine for multicore machines.

mod db;
mod error;
mod leaf;
mod log;
mod page;
mod pool;
mod recovery;
mod tree;

pub use db::{
    Builder, ByteRange, ByteTable, CheckReport, Database, Key, KeyBounds, Range, RawBounds, Stats, Table,
    TableReport, Value,
};
pub use error::{Error, Result};
pub use log::Durability;
