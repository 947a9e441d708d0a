//! Foreshore: an embedded, durable, ordered key-value engine for multicore machines.

mod error;
mod page;

pub use error::{Error, Result};
