//! What the pool has instead of a log while the log is being read back.
//!
//! Why: redo needs the pool, whose cleaner asks the log how far it is durable; the running log begins where the old one
//! ends, which is known only when that has been read. So the pool is given this first, and the log later.
//!
//! Invariant W1: a record is handed to redo only when [`StandIn::read_to`] has passed it, and that passes only what is
//! durable. So no page ever waits for the log here, and none gets to disk before it (rule 2).

use crate::error::{Error, Result};
use crate::log::Log;
use crate::pool::Wal;
use foreshore_base::Lsn;
use foreshore_base::sync::AtomicU64;
use foreshore_base::sync::Ordering::{Acquire, Release};
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};

#[derive(Default)]
pub(super) struct StandIn {
    log: OnceLock<Arc<Log>>,
    read_to: AtomicU64,
    /// Why the pool can no longer write, as long as there is no log to be told.
    failed: Mutex<Option<Error>>,
}

impl StandIn {
    /// All below `lsn` has been read, and is durable.
    pub fn read_to(&self, lsn: Lsn) {
        self.read_to.store(lsn.0, Release);
    }

    /// From now on the pool talks to `log`.
    ///
    /// Errors: what made the pool give up writing before.
    pub fn hand_over(&self, log: &Arc<Log>) -> Result<()> {
        let failed = self.failed.lock();
        match &*failed {
            Some(error) => Err(error.clone()),
            None => {
                assert!(self.log.set(log.clone()).is_ok(), "there is one log");
                Ok(())
            }
        }
    }
}

impl Wal for StandIn {
    fn wait_durable(&self, lsn: Lsn) -> Result<()> {
        match self.log.get() {
            Some(log) => Wal::wait_durable(&**log, lsn),
            None => {
                assert!(lsn.0 <= self.read_to.load(Acquire), "W1: a page is newer than the log read so far");
                Ok(())
            }
        }
    }

    fn reserved(&self) -> Lsn {
        // ORDERING: as the log's own counter, which this hands on; before, nobody reserves.
        self.log.get().map_or_else(|| Lsn(self.read_to.load(Acquire)), |log| log.reserved())
    }

    fn poison(&self, cause: &Error) {
        let mut failed = self.failed.lock();
        match self.log.get() {
            Some(log) => Wal::poison(&**log, cause),
            None => *failed = Some(cause.clone()),
        }
    }

    fn give_space(&self) -> bool {
        self.log.get().is_some_and(|log| log.give_space())
    }
}
