//! Foreshore: an embedded, durable, ordered key-value engine for multicore machines.

mod error;
#[allow(dead_code, unused_imports)] // until `db` stands on it
mod leaf;
mod page;

pub use error::{Error, Result};
