//! Foreshore: an embedded, durable, ordered key-value engine for multicore machines.

mod error;
mod page;
#[allow(dead_code, unused_imports)] // until the database uses all of it
mod pool;

pub use error::{Error, Result};
