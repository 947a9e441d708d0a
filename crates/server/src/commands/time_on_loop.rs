//! How long a command may be at it on an event loop, whose other clients wait meanwhile.

use super::CommandError;
use std::time::{Duration, Instant};

/// What is not done by then begins anew elsewhere.
const ON_LOOP: Duration = Duration::from_millis(5);

/// Rows that are written before the clock is looked at again: enough for the engine to read their leaves side by side.
const ROWS_AT_A_TIME: usize = 32;

/// The time of one command; elsewhere it has no end.
pub struct TimeOnLoop {
    ends: Option<Instant>,
}

impl TimeOnLoop {
    /// It begins.
    pub fn begin(is_on_loop: bool) -> Self {
        Self { ends: is_on_loop.then(|| Instant::now() + ON_LOOP) }
    }

    /// When it is up, if it ever is.
    pub fn ends(&self) -> Option<Instant> {
        self.ends
    }

    /// Of so many rows, how many are written at a time. Elsewhere that is all: what is done together takes less.
    pub fn rows_at_a_time(&self, rows: usize) -> usize {
        if self.ends.is_some() { rows.min(ROWS_AT_A_TIME) } else { rows }
    }

    /// Is it up?
    pub fn is_up(&self) -> bool {
        self.ends.is_some_and(|ends| Instant::now() >= ends)
    }

    /// Errors: [`CommandError::TooHeavy`], if it is up.
    pub fn ensure_left(&self) -> Result<(), CommandError> {
        if self.is_up() { Err(CommandError::TooHeavy) } else { Ok(()) }
    }
}
