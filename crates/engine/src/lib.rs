//! Foreshore: an embedded, durable, ordered key-value engine for multicore machines.

mod error;

pub use error::{Error, Result};
