//! What a transaction is promised, and what it waits for.

use crate::db::Transaction;
use crate::log::Durability;
use foreshore_base::Lsn;
use std::time::Duration;

/// What a read-write transaction may notice of others. `docs/isolation.md` has the table of anomalies, each tested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Isolation {
    /// As if transactions ran one after another. Rows read are locked, and so are the gaps of ranges read.
    #[default]
    Serializable,
    /// Rows read are locked, so reading them again gives the same; a range read again may hold new rows.
    RepeatableRead,
    /// Reads see what is committed when they happen, and lock nothing. Writes lock.
    ReadCommitted,
}

/// Options of [`Database::begin_with`](crate::Database::begin_with).
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// use foreshore::{Database, Durability, Isolation, TransactionOptions};
/// let db = Database::in_memory()?;
/// let options = TransactionOptions::new().isolation(Isolation::ReadCommitted).durability(Durability::Buffered);
/// let tx = db.begin_with(options)?;
/// tx.commit()?;
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TransactionOptions {
    pub(crate) isolation: Isolation,
    pub(crate) durability: Option<Durability>,
    pub(crate) lock_timeout: Duration,
    pub(crate) idle_timeout: Option<Duration>,
    /// The end of the log when this work was first tried, if that is not now: the transaction's age. Of those in a deadlock
    /// the youngest gives way.
    pub(crate) since: Option<Lsn>,
}

impl Default for TransactionOptions {
    fn default() -> Self {
        Self {
            isolation: Isolation::default(),
            durability: None,
            lock_timeout: Duration::from_secs(10),
            idle_timeout: None,
            since: None,
        }
    }
}

impl TransactionOptions {
    /// Serializable, with the database's durability; a lock is waited for at most 10 seconds.
    pub fn new() -> Self {
        Self::default()
    }

    /// What the transaction may notice of others.
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// What its commit waits for (default: as the database was opened).
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// How long it waits for a lock before [`Error::LockTimeout`](crate::Error::LockTimeout) (default 10 s). Deadlocks
    /// are found much sooner.
    pub fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.lock_timeout = timeout;
        self
    }

    /// Rolls it back if nothing was called on it for about this long, so that a forgotten transaction blocks nobody for
    /// ever (default: never).
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = Some(timeout);
        self
    }

    /// As old as `first`, whose work it does again. Of transactions that wait for each other the youngest gives way: at
    /// its first age no work gives way for ever. [`Database::transact`](crate::Database::transact) does this by itself.
    pub fn as_old_as(mut self, first: &Transaction) -> Self {
        self.since = first.shared.options.since;
        self
    }
}
