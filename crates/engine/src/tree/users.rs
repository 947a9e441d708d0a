//! Intent locks of a table: how many transactions use it, so that it is not dropped under them.
//!
//! Source: Shore-MT (Johnson et al., EDBT 2009) §7.5 and its successor Zero, whose light intent locks are counters.
//! Differs: the counters are spread over cache lines by transaction slot, so users share no line with each other; who
//! wants the table for itself adds them up.
//!
//! ORDERING: a user counts itself, then looks whether the table is closed; who closes it sets the flag, then adds up.
//! All `SeqCst`: either the user sees the flag, or the sum sees the user.

use crate::lock::Owner;
use crossbeam_utils::CachePadded;
use foreshore_base::sync::Ordering::SeqCst;
use foreshore_base::sync::{AtomicBool, AtomicU64};
use std::thread;
use std::time::{Duration, Instant};

const STRIPES: usize = 16;

/// How often one who waits for others to leave, or to open, looks.
const LOOK: Duration = Duration::from_millis(1);

/// See the module.
pub(crate) struct Users {
    counts: [CachePadded<AtomicU64>; STRIPES],
    closed: AtomicBool,
}

/// Somebody else has the table for itself, or waits for that.
#[derive(Debug)]
pub(crate) struct Closed;

impl Users {
    pub fn new() -> Self {
        Self { counts: Default::default(), closed: AtomicBool::new(false) }
    }

    /// One more user.
    pub fn enter(&self, owner: Owner) -> Result<(), Closed> {
        self.count(owner).fetch_add(1, SeqCst);
        if self.closed.load(SeqCst) {
            self.leave(owner);
            return Err(Closed);
        }
        Ok(())
    }

    /// One more user, when the table is open again. Asks `give_up` before each look.
    #[cold]
    pub fn enter_later<E>(&self, owner: Owner, give_up: impl Fn() -> Result<(), E>) -> Result<(), E> {
        while self.enter(owner).is_err() {
            give_up()?;
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// One fewer.
    pub fn leave(&self, owner: Owner) {
        self.count(owner).fetch_sub(1, SeqCst);
    }

    /// Lets nobody enter any more, and waits until all have left. `false`, and open again, if they have not in time.
    pub fn close(&self, patience: Duration) -> bool {
        self.closed.store(true, SeqCst);
        let since = Instant::now();
        while self.counts.iter().map(|count| count.load(SeqCst)).sum::<u64>() != 0 {
            if since.elapsed() > patience {
                self.open();
                return false;
            }
            thread::sleep(LOOK);
        }
        true
    }

    /// Lets users enter again.
    pub fn open(&self) {
        self.closed.store(false, SeqCst);
    }

    fn count(&self, owner: Owner) -> &AtomicU64 {
        &self.counts[usize::from(owner.0) % STRIPES]
    }
}
