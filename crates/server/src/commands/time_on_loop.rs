//! How long a command may be at it on an event loop, whose other clients wait meanwhile.

use super::CommandError;
use std::time::{Duration, Instant};

/// What is not done by then begins anew elsewhere.
const ON_LOOP: Duration = Duration::from_millis(5);

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

    /// Is it up?
    pub fn is_up(&self) -> bool {
        self.ends.is_some_and(|ends| Instant::now() >= ends)
    }

    /// Errors: [`CommandError::TooHeavy`], if it is up.
    pub fn ensure_left(&self) -> Result<(), CommandError> {
        if self.is_up() { Err(CommandError::TooHeavy) } else { Ok(()) }
    }
}
