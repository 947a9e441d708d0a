//! Foreshore: an embedded, durable, ordered key-value engine for multicore machines.

mod error;
#[allow(dead_code)] // until the database uses it
mod log;
mod page;

pub use error::{Error, Result};
