//! Read-write transactions, as users hold them.

use crate::core::Core;
use crate::db::byte_table::ByteTable;
use crate::db::codec::{Key, Value};
use crate::db::engine::Engine;
use crate::db::isolation::TransactionOptions;
use crate::db::prepared::ensure_gid_fits;
use crate::db::table::Table;
use crate::db::ticket::CommitTicket;
use crate::db::transaction_bytes::TransactionBytes;
use crate::db::transaction_table::TransactionTable;
use crate::error::{Error, Result};
use crate::log::Durability;
use crate::spread::Held;
use crate::txn::{self, Lost, Txn};
use crate::waits::lock_or_wait;
use foreshore_base::Lsn;
use foreshore_base::sync::AtomicU64;
use foreshore_base::sync::Ordering::Relaxed;
use parking_lot::Mutex;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

/// A read-write transaction: what it does happens as a whole or not at all, and, by default, as if nobody else were
/// there. Dropping it rolls it back.
///
/// It locks the keys that it uses until it ends. If two transactions wait for each other, one of them gets
/// [`Error::Deadlock`] and is rolled back; [`Database::transact`](crate::Database::transact) runs it again. A circle through two
/// databases is not found: [`lock_timeout`](TransactionOptions::lock_timeout) ends it, but where one `transact` runs within another
/// nothing does, as the inner one tries again while the outer one keeps its locks. Use databases in one order, and within a `transact`
/// use [`begin`](crate::Database::begin) for the other one.
///
/// It may be used from several threads, one call at a time.
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// # let db = foreshore::Database::in_memory()?;
/// let accounts = db.table::<String, i64>("accounts")?;
/// accounts.put("ann", &100)?;
/// let tx = db.begin()?;
/// let in_tx = tx.table(&accounts);
/// let ann = in_tx.get("ann")?.unwrap();
/// in_tx.put("ann", &(ann - 30))?;
/// in_tx.put("bob", &30)?;
/// assert_eq!(accounts.get("bob")?, None, "nobody sees it yet");
/// tx.commit()?;
/// assert_eq!(accounts.get("bob")?, Some(30));
/// # Ok(()) }
/// ```
pub struct Transaction {
    engine: Held<Engine>,
    pub(crate) shared: Arc<Shared>,
}

/// What the handle, its ranges, and whoever aborts it share: not the engine, which closes with its last handle.
pub(crate) struct Shared {
    core: Held<Core>,
    pub number: u64,
    pub options: TransactionOptions,
    durability: Durability,
    /// Calls so far: how the idle are told from the busy.
    pub calls: AtomicU64,
    /// The last of them that gave an error after which the transaction may succeed if it is run again; 0: none did.
    lost: AtomicU64,
    /// What it waited for when it gave way to another.
    lost_over: OnceLock<Lost>,
    state: Mutex<State>,
}

#[expect(
    clippy::large_enum_variant,
    reason = "one per transaction, which runs nearly all the time that it is there"
)]
enum State {
    Running(Txn),
    /// Rolled back for this reason, or it could not be. Has a call of its owner told so?
    Failed {
        error: Error,
        is_told: bool,
    },
    Ended,
}

impl State {
    /// What a call is told that comes when it runs no more. Where running it again does not help, the reason is told once: what it advises
    /// may be done by then, and the transaction is over all the same.
    #[cold]
    fn refusal(&mut self) -> Error {
        match self {
            State::Failed { error, is_told } if error.is_retryable() || !*is_told => {
                *is_told = true;
                error.clone()
            }
            _ => Error::Ended,
        }
    }
}

/// A place in a transaction, to go back to with [`Transaction::rollback_to`].
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// # let db = foreshore::Database::in_memory()?;
/// let jobs = db.byte_table("jobs")?;
/// let tx = db.begin()?;
/// for job in [&b"good"[..], &[0; 2000]] {
///     let before: foreshore::Savepoint = tx.savepoint()?;
///     let queued = tx.bytes(&jobs).put(job, b"queued").and_then(|()| tx.bytes(&jobs).put(b"newest", job));
///     if queued.is_err() {
///         tx.rollback_to(before)?; // this job leaves no trace
///     }
/// }
/// tx.commit()?;
/// assert_eq!(jobs.get(b"newest")?.as_deref(), Some(&b"good"[..]));
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint {
    /// Numbers are unique within a database only; the salt of its log tells one that is open from another.
    database: u64,
    transaction: u64,
    place: txn::Savepoint,
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Transaction({})", self.shared.number)
    }
}

impl Transaction {
    pub(crate) fn begin(engine: Held<Engine>, mut options: TransactionOptions) -> Result<Self> {
        let core = engine.hold_core();
        if options.database.is_some_and(|database| database != database_of(&core)) {
            return Err(Error::Argument("it cannot be as old as a transaction of another database".into()));
        }
        let since = *options.since.get_or_insert_with(|| core.log.flushed());
        let txn = Txn::begin(core.clone(), options.lock_timeout, since)?;
        let number = core.txns.slots.number(txn.owner);
        let owner = txn.owner;
        let shared = Arc::new(Shared {
            durability: options.durability.unwrap_or(engine.durability()),
            number,
            options,
            calls: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            lost_over: OnceLock::new(),
            state: Mutex::new(State::Running(txn)),
            core,
        });
        engine.running().enter(owner, &shared);
        if let Some(lost) = options.lost_over {
            shared.get_in_line(lost);
        }
        Ok(Self { engine, shared })
    }

    /// The number by which messages, [`Database::transactions`](crate::Database::transactions) and
    /// [`Database::abort`](crate::Database::abort) name it; unique while the database is open.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let tx = db.begin()?;
    /// println!("transaction {} begins", tx.number()); // as messages of deadlocks and timeouts name it
    /// assert_eq!(db.transactions(), [tx.number()]);
    /// # Ok(()) }
    /// ```
    pub fn number(&self) -> u64 {
        self.shared.number
    }

    /// The table as this transaction sees and changes it.
    ///
    /// A table of another database is refused by the first call, with [`Error::Argument`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let ages = db.table::<String, u32>("ages")?;
    /// let tx = db.begin()?;
    /// let in_tx = tx.table(&ages); // has the methods of `Table`, and those for rows that will change
    /// in_tx.put("ada", &36)?;
    /// assert_eq!((in_tx.get("ada")?, ages.get("ada")?), (Some(36), None));
    /// tx.commit()?;
    /// assert_eq!(ages.get("ada")?, Some(36));
    /// # Ok(()) }
    /// ```
    pub fn table<'t, K: Key, V: Value>(&'t self, table: &'t Table<K, V>) -> TransactionTable<'t, K, V> {
        TransactionTable { bytes: self.bytes(table.as_bytes()), types: PhantomData }
    }

    /// The byte table as this transaction sees and changes it.
    ///
    /// A table of another database is refused by the first call, with [`Error::Argument`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// t.put(b"k", b"old")?;
    /// let tx = db.begin()?;
    /// tx.bytes(&t).put(b"k", b"new")?;
    /// assert_eq!(tx.bytes(&t).get(b"k")?.as_deref(), Some(&b"new"[..]), "it sees what it did");
    /// assert_eq!(t.get(b"k")?.as_deref(), Some(&b"old"[..]), "others do not yet");
    /// tx.commit()?;
    /// # Ok(()) }
    /// ```
    pub fn bytes<'t>(&'t self, table: &'t ByteTable) -> TransactionBytes<'t> {
        TransactionBytes { shared: &self.shared, table }
    }

    /// A place to which [`Transaction::rollback_to`] can go back.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// let tx = db.begin()?;
    /// let outer = tx.savepoint()?;
    /// tx.bytes(&t).put(b"a", b"1")?;
    /// let inner = tx.savepoint()?; // there may be many
    /// tx.bytes(&t).put(b"b", b"2")?;
    /// tx.rollback_to(inner)?;
    /// assert!(tx.bytes(&t).contains(b"a")? && !tx.bytes(&t).contains(b"b")?);
    /// tx.rollback_to(outer)?;
    /// assert!(!tx.bytes(&t).contains(b"a")?);
    /// # Ok(()) }
    /// ```
    pub fn savepoint(&self) -> Result<Savepoint> {
        let place = self.shared.with(|txn| Ok(txn.savepoint()))?;
        Ok(Savepoint { database: self.shared.database(), transaction: self.shared.number, place })
    }

    /// Undoes what was done since `savepoint`, which stays valid. Locks stay too: what was read before still holds. A savepoint that was
    /// taken later, whose place is undone with the rest, stands for the place of this one from then on.
    ///
    /// Errors: [`Error::Argument`] if the savepoint is of another transaction; [`Error::Full`] if there is no space for the leaves
    /// that it splits: then the whole transaction is rolled back, as by [`Transaction::rollback`]. So it is, very rarely, if others are in the
    /// way where a large transaction locks again what it had changed: [`Error::Deadlock`], [`Error::LockTimeout`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// let tx = db.begin()?;
    /// tx.bytes(&t).put(b"order", b"1")?;
    /// let before_the_gift = tx.savepoint()?;
    /// tx.bytes(&t).put(b"gift", b"sold out, as we find")?;
    /// tx.rollback_to(before_the_gift)?;
    /// tx.commit()?;
    /// assert!(t.contains(b"order")? && !t.contains(b"gift")?);
    /// # Ok(()) }
    /// ```
    pub fn rollback_to(&self, savepoint: Savepoint) -> Result<()> {
        if (savepoint.database, savepoint.transaction) != (self.shared.database(), self.shared.number) {
            return Err(Error::Argument("the savepoint is of another transaction".into()));
        }
        self.shared.with(|txn| txn.roll_back_to(savepoint.place))
    }

    /// Has it lost against another: was it rolled back meanwhile, or did a call of it give a
    /// [retryable](Error::is_retryable) error? For who runs work again by other means than
    /// [`Database::transact`](crate::Database::transact): a retryable error may also be that of another transaction, which the
    /// work would meet each time.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let tx = db.begin()?;
    /// assert!(!tx.has_lost());
    /// db.abort(tx.number())?;
    /// assert!(tx.has_lost());
    /// # Ok(()) }
    /// ```
    pub fn has_lost(&self) -> bool {
        self.shared.has_lost_by(|_| true)
    }

    /// Is a call of it under way in another thread, or is it being rolled back there, as by
    /// [`Database::abort`](crate::Database::abort), which takes as long as it did? Then a further call waits for that. For who must not
    /// wait, and lets another thread call.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// let tx = db.begin()?;
    /// tx.bytes(&t).put(b"k", b"v")?;
    /// assert!(!tx.is_busy(), "a call that has returned keeps none waiting");
    /// # Ok(()) }
    /// ```
    pub fn is_busy(&self) -> bool {
        self.shared.is_busy()
    }

    /// Commits, and waits as long as the durability asks.
    ///
    /// Errors: those of the transaction, if it was rolled back before; [`Error::Poisoned`] after a failed write or sync:
    /// whether the transaction survives is then known when the database has been opened again. It does not where a call before this one
    /// gave the same error, or [`Database::close`](crate::Database::close) had returned.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// let tx = db.begin()?;
    /// tx.bytes(&t).put(b"k", b"v")?;
    /// tx.commit()?; // the device has it
    /// assert!(t.contains(b"k")?);
    /// # Ok(()) }
    /// ```
    pub fn commit(self) -> Result<()> {
        match self.end()? {
            Some(end) => self.engine.acknowledge(end, self.shared.durability),
            None => Ok(()),
        }
    }

    /// Commits, and does not wait: others see it from now on; the ticket tells when it is as safe as the durability
    /// asks. A crash before that may undo it, together with everything that came after it. Only values that would fill 16
    /// leaves (128 KiB by default) are waited for here: the device must have them first.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// let mut tickets = Vec::new();
    /// for order in 0..100_u32 {
    ///     let tx = db.begin()?;
    ///     tx.bytes(&t).put(&order.to_be_bytes(), b"new")?;
    ///     tickets.push(tx.commit_async()?); // goes on with the next at once
    /// }
    /// for ticket in tickets {
    ///     ticket.wait()?; // now this order may be confirmed; one write of the log served many
    /// }
    /// assert_eq!(t.range(..).count(), 100);
    /// # Ok(()) }
    /// ```
    pub fn commit_async(self) -> Result<CommitTicket> {
        let end = self.end()?;
        let (core, durability) = (self.engine.hold_core(), self.shared.durability);
        Ok(CommitTicket::for_commit(core, end, durability))
    }

    /// Commits; how far the log must be safe before that may be told.
    fn end(&self) -> Result<Option<Lsn>> {
        let end = self.shared.take()?.commit()?;
        Ok(self.engine.told_at(end, self.shared.durability))
    }

    /// Rolls back. Dropping does the same, and swallows the errors.
    ///
    /// Errors: those of the transaction, if it was rolled back before, as after a [`Error::Deadlock`]: then nothing is left to do.
    /// [`Error::Full`]: the rollback splits leaves for which there is no space; [`Error::Io`], [`Error::TooManyFiles`]: it
    /// could not read what it needed. The transaction keeps its locks, and nobody sees what it did; it is gone on with as soon as
    /// possible, or at the next open. After [`Error::Poisoned`] that is at the next open; other transactions that meet its locks
    /// get the same error.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// let tx = db.begin()?;
    /// tx.bytes(&t).put(b"k", b"never seen")?;
    /// tx.rollback()?;
    /// assert_eq!(t.get(b"k")?, None);
    /// # Ok(()) }
    /// ```
    pub fn rollback(self) -> Result<()> {
        self.shared.take()?.roll_back()
    }

    /// First half of a commit over several databases: afterwards the transaction can be committed and rolled back,
    /// also after a crash, by the name `gid` (at most 256 bytes), with
    /// [`Database::commit_prepared`](crate::Database::commit_prepared) and
    /// [`Database::rollback_prepared`](crate::Database::rollback_prepared). Until then it keeps its locks, after
    /// a restart those on the rows that it wrote.
    ///
    /// Waits until that is durable, whatever the durability. Use the databases in one order: a circle of waits through two of them is
    /// [not found](Transaction).
    ///
    /// Errors: [`Error::Argument`] if the name is too long, or that of another prepared transaction, and [`Error::Full`]: this one is rolled
    /// back; those of the transaction, if it was rolled back before; [`Error::Poisoned`]: whether it has prepared is then known when the database has been opened again.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// let (here, there) = (foreshore::Database::in_memory()?, foreshore::Database::in_memory()?);
    /// let (ours, theirs) = (here.byte_table("accounts")?, there.byte_table("accounts")?);
    /// let (debit, credit) = (here.begin()?, there.begin()?);
    /// debit.bytes(&ours).put(b"ada", b"70")?;
    /// credit.bytes(&theirs).put(b"ben", b"30")?;
    /// debit.prepare("transfer 17")?;
    /// credit.prepare("transfer 17")?; // had this failed, the other could still be rolled back
    /// here.commit_prepared("transfer 17")?;
    /// assert_eq!(there.recover(), [b"transfer 17"], "after a crash in between, too");
    /// there.commit_prepared("transfer 17")?;
    /// assert!(ours.contains(b"ada")? && theirs.contains(b"ben")?);
    /// assert!(there.rollback_prepared("transfer 17").is_err(), "it is decided");
    /// # Ok(()) }
    /// ```
    pub fn prepare(self, gid: impl AsRef<[u8]>) -> Result<()> {
        let gid = gid.as_ref();
        ensure_gid_fits(gid)?;
        self.engine.prepare(self.shared.take()?, gid)
    }
}

/// What tells this open database from others.
fn database_of(core: &Core) -> u64 {
    core.incarnations.last().map_or(0, |life| life.salt)
}

impl Shared {
    /// Errors: [`Error::Argument`] if the table is of another database.
    pub fn ensure_ours(&self, table: &ByteTable) -> Result<()> {
        match std::ptr::eq(&*self.core, &**table.engine.core()) {
            true => Ok(()),
            false => Err(Error::Argument("the table is of another database than the transaction".into())),
        }
    }

    /// The database that it is of.
    pub fn database(&self) -> u64 {
        database_of(&self.core)
    }

    /// Calls `work` with the transaction, if it still runs. A deadlock or an abort rolls it back, and so does what leaves it
    /// undone by halves.
    pub fn with<R>(&self, work: impl FnOnce(&mut Txn) -> Result<R>) -> Result<R> {
        let mut state = lock_or_wait(&self.state);
        // Only changed under the mutex, so two plain accesses do.
        self.calls.store(self.calls.load(Relaxed) + 1, Relaxed);
        let txn = match &mut *state {
            State::Running(txn) => txn,
            over => return Err(over.refusal()),
        };
        // Not `result`: that would copy it from where `work` left it, a dozen words that the processor has to wait for.
        match work(txn) {
            Ok(done) => Ok(done),
            Err(error) => Err(self.failed(&mut state, error)),
        }
    }

    /// Calls `work` with the transaction, if it still runs and no other call is under way: for what may be left undone.
    pub fn try_with(&self, work: impl FnOnce(&mut Txn)) {
        if let Some(State::Running(txn)) = self.state.try_lock().as_deref_mut() {
            work(txn);
        }
    }

    /// [`Txn::get_in_line`]. It can be aborted meanwhile.
    fn get_in_line(&self, lost: Lost) {
        if let State::Running(txn) = &mut *lock_or_wait(&self.state) {
            txn.get_in_line(lost);
        }
    }

    /// What it waited for when it gave way to another.
    pub fn lost_over(&self) -> Option<Lost> {
        self.lost_over.get().copied()
    }

    /// Is it over, or was its last call refused, for a reason that running it again may not meet?
    pub fn is_lost(&self) -> bool {
        self.has_lost_by(|call| call == self.calls.load(Relaxed))
    }

    /// Is it over, or was a call refused that this holds for, for a reason that running it again may not meet?
    fn has_lost_by(&self, refused: impl Fn(u64) -> bool) -> bool {
        match &*lock_or_wait(&self.state) {
            State::Running(_) => Some(self.lost.load(Relaxed)).filter(|call| *call != 0).is_some_and(refused),
            State::Failed { error, .. } => error.is_retryable(),
            State::Ended => false,
        }
    }

    /// After a deadlock or an abort, or if it is undone by halves, rolls the transaction back; what to tell the caller.
    #[cold]
    fn failed(&self, state: &mut State, error: Error) -> Error {
        if error.is_retryable() {
            self.lost.store(self.calls.load(Relaxed), Relaxed);
        }
        let is_half_undone = matches!(state, State::Running(txn) if txn.is_half_undone());
        if !matches!(error, Error::Deadlock { .. } | Error::Aborted { .. }) && !is_half_undone {
            return error;
        }
        match std::mem::replace(state, State::Failed { error: error.clone(), is_told: true }) {
            State::Running(txn) => {
                if let Some(lost) = txn.lost_over() {
                    let _ = self.lost_over.set(lost);
                }
                let told = txn.roll_back().err().unwrap_or(error);
                // Who could not be rolled back has its locks, and is not run again.
                *state = State::Failed { error: told.clone(), is_told: true };
                told
            }
            _ => error,
        }
    }

    /// Takes the transaction out, to end it.
    fn take(&self) -> Result<Txn> {
        let mut state = lock_or_wait(&self.state);
        if let State::Failed { error, .. } = &*state {
            return Err(error.clone()); // it stays known how it ended: `abort` asks
        }
        match std::mem::replace(&mut *state, State::Ended) {
            State::Running(txn) => Ok(txn),
            _ => Err(Error::Ended),
        }
    }

    /// Is a call of its owner under way, or is it being aborted?
    pub fn is_busy(&self) -> bool {
        self.state.is_locked()
    }

    /// Has it not ended? While a call is under way it has not.
    pub fn is_running(&self) -> bool {
        self.state.try_lock().is_none_or(|state| matches!(*state, State::Running(_)))
    }

    /// Rolls the transaction, which was running, back from another thread: one that waits for a lock was interrupted.
    /// `false` if it has ended otherwise.
    pub fn abort(&self) -> Result<bool> {
        let mut state = lock_or_wait(&self.state);
        match &*state {
            // The call that was interrupted has rolled it back, or could not.
            State::Failed { error: Error::Aborted { .. }, .. } => Ok(true),
            State::Failed { error, .. } if !error.is_retryable() => Err(error.clone()),
            _ => self.abort_in(&mut state),
        }
    }

    /// Rolls it back if nothing was called since there were so many calls, and none is under way; `false` if not.
    pub fn abort_if_idle(&self, calls: u64) -> Result<bool> {
        match self.state.try_lock() {
            Some(mut state) if self.calls.load(Relaxed) == calls => self.abort_in(&mut state),
            _ => Ok(false),
        }
    }

    fn abort_in(&self, state: &mut State) -> Result<bool> {
        let failed = |error| State::Failed { error, is_told: false };
        match std::mem::replace(state, failed(Error::Aborted { txn: self.number })) {
            State::Running(txn) => {
                let undone = txn.roll_back();
                undone.map(|()| true).inspect_err(|error| *state = failed(error.clone()))
            }
            ended => {
                *state = ended;
                Ok(false)
            }
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if !self.shared.is_running() {
            return;
        }
        if self.engine.ensure_not_forked().is_err() {
            // It is the parent's, which may go on with it.
            std::mem::forget(self.shared.clone());
            return;
        }
        // Its ranges may hold on to what is shared; the transaction ends here. Who wants to know calls `rollback`.
        if let Ok(txn) = self.shared.take() {
            let _ = txn.roll_back();
        }
    }
}
