//! Foreshore: an embedded, durable, ordered key-value engine for multicore machines.

mod error;
#[allow(dead_code, unused_imports)] // until `db` stands on it
mod leaf;
#[allow(dead_code, unused_imports)] // until `db` stands on it
mod log;
mod page;
#[allow(dead_code, unused_imports)] // until the database uses all of it
mod pool;

pub use error::{Error, Result};
