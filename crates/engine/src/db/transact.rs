//! Transactions and snapshots of a database: how they begin, and how one that has prepared ends.

use super::{Database, Snapshot, Transaction, TransactionOptions};
use crate::error::{Error, Result};

impl Database {
    /// Begins a serializable read-write transaction.
    ///
    /// Errors: [`Error::TooManyTransactions`](crate::Error::TooManyTransactions) if 1024 are running and none ends within 10 seconds.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// let tx = db.begin()?;
    /// tx.bytes(&t).put(b"both", b"1")?;
    /// tx.bytes(&t).put(b"or none", b"1")?;
    /// drop(tx); // rolls back
    /// assert_eq!(t.range(..).count(), 0);
    /// # Ok(()) }
    /// ```
    pub fn begin(&self) -> Result<Transaction> {
        self.begin_with(TransactionOptions::new())
    }

    /// Begins a read-write transaction with options.
    ///
    /// Errors: as [`Database::begin`]; [`Error::Argument`](crate::Error::Argument) if it is to be
    /// [as old as](TransactionOptions::as_old_as) one of another database.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// use foreshore::TransactionOptions;
    /// use std::time::Duration;
    /// let of_a_user_at_a_terminal = TransactionOptions::new().idle_timeout(Duration::from_secs(60));
    /// let tx = db.begin_with(of_a_user_at_a_terminal)?;
    /// tx.bytes(&t).put(b"k", b"v")?;
    /// tx.commit()?;
    /// # Ok(()) }
    /// ```
    pub fn begin_with(&self, options: TransactionOptions) -> Result<Transaction> {
        Transaction::begin(self.engines.hold(), options)
    }

    /// Runs `work` in a serializable transaction and commits it. If the transaction loses against another, which its calls tell
    /// by a [retryable](crate::Error::is_retryable) error, `work` runs again, in a new one. As it may run several times, it should
    /// have no effects but the transaction's.
    ///
    /// It does so as often as it takes, and does not return while each run loses again: as somebody keeps a lock that `work` needs, such
    /// as a transaction that was forgotten, that has prepared, or that this thread has begun around this call (hand `work` that
    /// [`Transaction`] instead); or as `work` calls nothing of its transaction for longer than the
    /// [`idle_timeout`](TransactionOptions::idle_timeout). To give up, count the runs, and fail at the beginning of one.
    ///
    /// Other errors roll back and are returned, and so are retryable ones that are not of this transaction: a snapshot that is too
    /// old stays so, and a write through the table's own handle would wait again and again for a row that the transaction itself
    /// has locked. A panic rolls back, too. If `work` fails with errors of your own, use [`Database::try_transact`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let counters = db.table::<String, u64>("counters")?;
    /// let next = db.transact(|tx| {
    ///     let counters = tx.table(&counters);
    ///     let next = counters.get_for_update("flights")?.unwrap_or(0) + 1;
    ///     counters.put("flights", &next)?;
    ///     Ok(next)
    /// })?;
    /// assert_eq!(next, 1);
    /// # Ok(()) }
    /// ```
    pub fn transact<R>(&self, work: impl FnMut(&Transaction) -> Result<R>) -> Result<R> {
        self.transact_with(TransactionOptions::new(), work)
    }

    /// [`Database::transact`] with options.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// use foreshore::{Durability, TransactionOptions};
    /// let cheap = TransactionOptions::new().durability(Durability::Buffered);
    /// db.transact_with(cheap, |tx| tx.bytes(&t).put(b"event", b"may be lost with the power, soon after"))?;
    /// # Ok(()) }
    /// ```
    pub fn transact_with<R>(
        &self,
        options: TransactionOptions,
        work: impl FnMut(&Transaction) -> Result<R>,
    ) -> Result<R> {
        // An error of a transaction of another database may tell the same number: so this one is asked, too.
        self.run(options, work, |tx, error: &Error| error.is_lost_by(tx.number()) && tx.has_lost())
    }

    /// [`Database::transact`] for work that may also fail for reasons of its own: its errors are of any type that can be made
    /// from [`Error`](crate::Error), so that `?` does it. Each error rolls back. `work` runs again if the transaction lost
    /// against another: it was rolled back meanwhile, or its last call gave a [retryable](crate::Error::is_retryable) error,
    /// whatever `work` made of that.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// enum Refused {
    ///     NotEnough(i64),
    ///     Store(foreshore::Error),
    /// }
    /// impl From<foreshore::Error> for Refused {
    ///     fn from(error: foreshore::Error) -> Self {
    ///         Self::Store(error)
    ///     }
    /// }
    ///
    /// let accounts = db.table::<String, i64>("accounts")?;
    /// accounts.put("ada", &10)?;
    /// let paid = db.try_transact(|tx| {
    ///     let accounts = tx.table(&accounts);
    ///     let balance = accounts.get_for_update("ada")?.unwrap_or(0) - 30;
    ///     accounts.put("ada", &balance)?;
    ///     if balance < 0 { Err(Refused::NotEnough(balance)) } else { Ok(balance) }
    /// });
    /// assert!(matches!(paid, Err(Refused::NotEnough(-20))));
    /// assert_eq!(accounts.get("ada")?, Some(10), "rolled back");
    /// # Ok(()) }
    /// ```
    pub fn try_transact<R, E: From<Error>>(
        &self,
        work: impl FnMut(&Transaction) -> Result<R, E>,
    ) -> Result<R, E> {
        self.try_transact_with(TransactionOptions::new(), work)
    }

    /// [`Database::try_transact`] with options.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// use foreshore::{Durability, TransactionOptions};
    /// let import = |text: &str| {
    ///     db.try_transact_with(TransactionOptions::new().durability(Durability::Buffered), |tx| {
    ///         for line in text.lines() {
    ///             let (key, value) = line.split_once('=').ok_or("a line has no `=`")?;
    ///             tx.bytes(&t).put(key.as_bytes(), value.as_bytes())?;
    ///         }
    ///         Ok::<_, Box<dyn std::error::Error>>(())
    ///     })
    /// };
    /// assert!(import("a=1\nb").is_err());
    /// assert_eq!(t.range(..).count(), 0, "all lines or none");
    /// assert!(import("a=1\nb=2").is_ok());
    /// # Ok(()) }
    /// ```
    pub fn try_transact_with<R, E: From<Error>>(
        &self,
        options: TransactionOptions,
        work: impl FnMut(&Transaction) -> Result<R, E>,
    ) -> Result<R, E> {
        self.run(options, work, |tx, _| tx.shared.is_lost())
    }

    /// Runs `work` in transactions until one commits, or ends for a reason that `again` does not hold for one of the moment.
    fn run<R, E: From<Error>>(
        &self,
        mut options: TransactionOptions,
        mut work: impl FnMut(&Transaction) -> Result<R, E>,
        again: impl Fn(&Transaction, &E) -> bool,
    ) -> Result<R, E> {
        loop {
            let tx = Transaction::begin(self.engines.hold(), options)?;
            let done = work(&tx);
            // Each run is as old as the first: so none is the youngest of a deadlock for ever.
            options = options.as_old_as(&tx);
            match done {
                Ok(result) => match tx.commit() {
                    Ok(()) => return Ok(result),
                    Err(error) if error.is_retryable() => {}
                    Err(error) => return Err(error.into()),
                },
                Err(error) if again(&tx, &error) => drop(tx),
                Err(error) => return Err(error),
            }
            std::thread::yield_now();
        }
    }

    /// A read-only transaction over everything that is committed now: it takes no locks and blocks nobody.
    ///
    /// Errors: [`Error::TooManyTransactions`](crate::Error::TooManyTransactions) if 1024 are open and none closes within 10 seconds.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// t.put(b"a", b"1")?;
    /// let before = db.snapshot()?;
    /// t.put(b"b", b"2")?;
    /// assert_eq!(before.bytes(&t).range(..).count(), 1, "what came later is not there");
    /// # Ok(()) }
    /// ```
    pub fn snapshot(&self) -> Result<Snapshot> {
        Snapshot::open(self.engines.hold())
    }

    /// The numbers of the read-write transactions that have begun and not ended.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let (first, second) = (db.begin()?, db.begin()?);
    /// let mut numbers = db.transactions();
    /// numbers.sort_unstable();
    /// let mut ours = [first.number(), second.number()];
    /// ours.sort_unstable();
    /// assert_eq!(numbers, ours);
    /// first.commit()?;
    /// assert_eq!(db.transactions(), [second.number()]);
    /// # Ok(()) }
    /// ```
    pub fn transactions(&self) -> Vec<u64> {
        self.engine.running().list().iter().map(|transaction| transaction.number).collect()
    }

    /// Rolls back the transaction with this number, whatever its thread is doing: its calls return [`Error::Aborted`](crate::Error::Aborted).
    /// `false` if it had ended, or prepared.
    ///
    /// Errors: as [`Transaction::rollback`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// let forgotten = db.begin()?;
    /// forgotten.bytes(&t).put(b"k", b"locked")?;
    /// assert_eq!(db.transactions(), [forgotten.number()]);
    /// for number in db.transactions() {
    ///     assert!(db.abort(number)?);
    /// }
    /// t.put(b"k", b"free")?;
    /// assert!(matches!(forgotten.commit(), Err(foreshore::Error::Aborted { .. })));
    /// # Ok(()) }
    /// ```
    pub fn abort(&self, number: u64) -> Result<bool> {
        self.engine.abort(number)
    }

    /// The global ids of the transactions that have [prepared](Transaction::prepare) and wait to hear whether to commit,
    /// those from before a crash among them. They keep their locks, after a restart those on the rows that they wrote.
    /// (Not those that are being committed just now, which may be back after a power failure; nor those that are just preparing, which
    /// it may take back.)
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use foreshore::Database;
    /// let db = Database::open(dir.path())?;
    /// let t = db.byte_table("t")?;
    /// let tx = db.begin()?;
    /// tx.bytes(&t).put(b"k", b"v")?;
    /// tx.prepare("transfer 17")?;
    /// drop((db, t)); // or a crash
    ///
    /// let db = Database::open(dir.path())?;
    /// let decided_to_commit = |gid: &[u8]| gid == b"transfer 17"; // ask whoever decides
    /// for gid in db.recover() {
    ///     if decided_to_commit(&gid) { db.commit_prepared(&gid)? } else { db.rollback_prepared(&gid)? }
    /// }
    /// assert!(db.byte_table("t")?.contains(b"k")? && db.recover().is_empty());
    /// # Ok(()) }
    /// ```
    pub fn recover(&self) -> Vec<Vec<u8>> {
        self.engine.prepared.gids(self.engine.core().log.durable())
    }

    /// Commits a prepared transaction, durably.
    ///
    /// Errors: [`Error::UnknownTransaction`](crate::Error::UnknownTransaction), or [`Error::Argument`](crate::Error::Argument) for a `gid` of
    /// more than 256 bytes; as [`Transaction::commit`]. After
    /// [`Error::Poisoned`](crate::Error::Poisoned) the next open tells, by [`Database::recover`], whether it is still to be decided.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// let tx = db.begin()?;
    /// tx.bytes(&t).put(b"k", b"v")?;
    /// tx.prepare("transfer 17")?;
    /// assert!(!t.contains(b"k")?);
    /// db.commit_prepared("transfer 17")?;
    /// assert!(t.contains(b"k")?);
    /// # Ok(()) }
    /// ```
    pub fn commit_prepared(&self, gid: impl AsRef<[u8]>) -> Result<()> {
        self.engine.commit_prepared(gid.as_ref())
    }

    /// Rolls back a prepared transaction. Does not wait for the disk: after a power failure it may be in [`Database::recover`]'s
    /// list again, to be rolled back again.
    ///
    /// Errors: [`Error::UnknownTransaction`](crate::Error::UnknownTransaction), or [`Error::Argument`](crate::Error::Argument) for a `gid` of
    /// more than 256 bytes; as [`Transaction::rollback`]. After these others the
    /// rollback goes on by itself when it can, and its id is gone from the list. If the database is opened again before anything was
    /// undone, it is in the list again, and can be committed: whoever decides remembers that it is to be rolled back.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// use foreshore::Error;
    /// let tx = db.begin()?;
    /// tx.bytes(&t).put(b"k", b"v")?;
    /// tx.prepare("transfer 17")?;
    /// db.rollback_prepared("transfer 17")?; // the other half could not prepare
    /// assert!(!t.contains(b"k")?);
    /// assert!(matches!(db.commit_prepared("transfer 17"), Err(Error::UnknownTransaction { .. })));
    /// # Ok(()) }
    /// ```
    pub fn rollback_prepared(&self, gid: impl AsRef<[u8]>) -> Result<()> {
        self.engine.roll_back_prepared(gid.as_ref())
    }
}
