//! The first failure, kept for everyone who comes later.
//!
//! A write or sync that failed may have lost bytes that a second try would only seem to save (I2 of
//! `foreshore-io`). So the log stops there: nothing is retried, nothing more is acknowledged.

use crate::error::{Error, Result};
use foreshore_base::sync::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::sync::OnceLock;

#[derive(Debug, Default)]
pub(super) struct Poison {
    set: AtomicBool,
    cause: OnceLock<String>,
}

impl Poison {
    /// Stops the log. The first cause stays.
    pub fn set(&self, cause: String) {
        let _ = self.cause.set(cause);
        self.set.store(true, Release);
    }

    #[inline]
    pub fn is_set(&self) -> bool {
        self.set.load(Acquire)
    }

    /// Errors: [`Error::Poisoned`] with the first cause.
    #[inline]
    pub fn check(&self) -> Result<()> {
        if self.is_set() { Err(self.error()) } else { Ok(()) }
    }

    #[cold]
    fn error(&self) -> Error {
        Error::Poisoned { cause: self.cause.get().cloned().unwrap_or_default() }
    }
}
