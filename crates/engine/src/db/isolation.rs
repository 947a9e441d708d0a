//! What a transaction is promised, and what it waits for.

use crate::db::Transaction;
use crate::log::Durability;
use crate::txn::Lost;
use crate::txn::Txn;
use foreshore_base::Lsn;
use std::time::Duration;

/// What a read-write transaction may notice of others. `docs/isolation.md` has the table of anomalies, each tested.
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// use foreshore::{Database, Isolation, TransactionOptions};
/// let db = Database::in_memory()?;
/// let t = db.byte_table("t")?;
/// let level = |isolation| db.begin_with(TransactionOptions::new().isolation(isolation));
/// let (lax, strict) = (level(Isolation::ReadCommitted)?, level(Isolation::Serializable)?);
/// assert_eq!(lax.bytes(&t).get(b"k")?, None);
/// t.put(b"k", b"v")?;
/// assert!(lax.bytes(&t).get(b"k")?.is_some(), "two reads may see two states");
/// assert!(strict.bytes(&t).get(b"k")?.is_some());
/// let impatient = t.with_lock_timeout(std::time::Duration::ZERO);
/// assert!(impatient.put(b"k", b"w").is_err(), "what a serializable transaction has read, others leave alone");
/// # Ok(()) }
/// ```
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

impl Isolation {
    /// Are rows locked that are read?
    pub(crate) fn locks_rows(self) -> bool {
        self != Isolation::ReadCommitted
    }

    /// Are others kept from inserting into ranges that were looked through?
    pub(crate) fn locks_gaps(self) -> bool {
        self == Isolation::Serializable
    }
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
    /// The database in which this work was tried before, if it was.
    pub(crate) database: Option<u64>,
    /// [`Txn::begin`]'s, then.
    pub(crate) since: Option<Lsn>,
    /// What it gave way to another over, if it did.
    pub(crate) lost_over: Option<Lost>,
}

impl Default for TransactionOptions {
    fn default() -> Self {
        Self {
            isolation: Isolation::default(),
            durability: None,
            lock_timeout: Duration::from_secs(10),
            idle_timeout: None,
            database: None,
            since: None,
            lost_over: None,
        }
    }
}

impl TransactionOptions {
    /// Serializable, with the database's durability; a lock is waited for at most 10 seconds.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// use foreshore::TransactionOptions;
    /// let tx = db.begin_with(TransactionOptions::new())?; // as `db.begin()`
    /// tx.commit()?;
    /// # Ok(()) }
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// What the transaction may notice of others.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// use foreshore::{Isolation, TransactionOptions};
    /// t.put_many(&[("a", "1"), ("b", "2")])?;
    /// let tx = db.begin_with(TransactionOptions::new().isolation(Isolation::ReadCommitted))?;
    /// assert_eq!(tx.bytes(&t).range(..).count(), 2);
    /// t.put(b"a", b"3")?; // not held up: the reader locks nothing
    /// tx.commit()?;
    /// # Ok(()) }
    /// ```
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// What its commit waits for (default: as the database was opened).
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// use foreshore::{Durability, TransactionOptions};
    /// let tx = db.begin_with(TransactionOptions::new().durability(Durability::Relaxed))?;
    /// tx.bytes(&t).put(b"k", b"v")?;
    /// tx.commit()?; // waits for nothing
    /// db.sync()?; // now it is safe
    /// # Ok(()) }
    /// ```
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// How long it waits for a lock before [`Error::LockTimeout`](crate::Error::LockTimeout) (default 10 s). Deadlocks
    /// are found much sooner.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// use foreshore::{Error, TransactionOptions};
    /// use std::time::Duration;
    /// let first = db.begin()?;
    /// first.bytes(&t).put(b"k", b"locked")?;
    /// let second = db.begin_with(TransactionOptions::new().lock_timeout(Duration::from_millis(5)))?;
    /// let refused = second.bytes(&t).put(b"k", b"mine");
    /// assert!(matches!(refused, Err(Error::LockTimeout { .. })));
    /// first.commit()?;
    /// second.bytes(&t).put(b"k", b"mine")?; // it still runs, and may try again
    /// second.commit()?;
    /// # Ok(()) }
    /// ```
    pub fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.lock_timeout = timeout;
        self
    }

    /// Rolls it back if nothing was called on it for about this long, so that a forgotten transaction blocks nobody for
    /// ever (default: never).
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// use foreshore::TransactionOptions;
    /// use std::time::Duration;
    /// let tx = db.begin_with(TransactionOptions::new().idle_timeout(Duration::from_millis(1)))?;
    /// tx.bytes(&t).put(b"k", b"locked, and forgotten")?;
    /// t.put(b"k", b"gets through")?; // as soon as that is noticed
    /// assert!(tx.commit().is_err());
    /// # Ok(()) }
    /// ```
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = Some(timeout);
        self
    }

    /// As old as `first`, whose work it does again; to be called when that has failed. Of transactions that wait for each other the youngest gives way: at
    /// its first age no work gives way for ever. If `first` has done so already, the new transaction begins by waiting: up to 10 ms for others
    /// that are run again, one at a time; then for the lock over which it did, up to its lock timeout, and keeps that. So it does not give
    /// way to the same one again, nor to the others. A transaction of another database is refused when the new one begins.
    /// [`Database::transact`](crate::Database::transact) does this by itself.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// use foreshore::TransactionOptions;
    /// let mut options = TransactionOptions::new();
    /// loop {
    ///     let tx = db.begin_with(options)?;
    ///     match tx.bytes(&t).put(b"k", b"v") {
    ///         Err(error) if error.is_retryable() => options = options.as_old_as(&tx), // once more, and no younger
    ///         done => break done.and_then(|()| tx.commit())?,
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub fn as_old_as(mut self, first: &Transaction) -> Self {
        self.database = Some(first.shared.database());
        self.since = first.shared.options.since.map(Txn::again);
        self.lost_over = first.shared.lost_over();
        self
    }
}
