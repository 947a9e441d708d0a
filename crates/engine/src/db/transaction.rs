//! Read-write transactions, as users hold them.

use crate::bounds::successor;
use crate::db::codec::{Key, Value};
use crate::db::engine::Engine;
use crate::db::isolation::{Isolation, TransactionOptions};
use crate::db::range::KeyBounds;
use crate::db::table::{ByteTable, Table};
use crate::db::ticket::CommitTicket;
use crate::db::transaction_range::TransactionRange;
use crate::db::transaction_table::TransactionTable;
use crate::error::{Error, Result};
use crate::lock::KeyMode;
use crate::log::{Durability, Wanted};
use crate::spread::Held;
use crate::tree::{Core, Intent};
use crate::txn::{self, Txn, View};
use crate::waits::lock_or_wait;
use foreshore_base::sync::AtomicU64;
use foreshore_base::sync::Ordering::Relaxed;
use foreshore_base::{Lsn, seeded_bug};
use parking_lot::Mutex;
use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// A read-write transaction: what it does happens as a whole or not at all, and, by default, as if nobody else were
/// there. Dropping it rolls it back.
///
/// It locks the keys that it uses until it ends. If two transactions wait for each other, one of them gets
/// [`Error::Deadlock`] and is rolled back; [`Database::transact`](crate::Database::transact) runs it again.
///
/// It may be used from several threads, one call at a time.
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// # let db = foreshore::Database::in_memory()?;
/// let accounts = db.table::<String, i64>("accounts")?;
/// accounts.put(&"ann".into(), &100)?;
/// let tx = db.begin()?;
/// let in_tx = tx.table(&accounts);
/// let ann = in_tx.get("ann")?.unwrap();
/// in_tx.put(&"ann".into(), &(ann - 30))?;
/// in_tx.put(&"bob".into(), &30)?;
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
    state: Mutex<State>,
}

enum State {
    Running(Box<Txn>),
    /// Rolled back for this reason.
    Failed(Error),
    Ended,
}

/// A place in a transaction, to go back to with [`Transaction::rollback_to`].
#[derive(Clone, Copy, Debug)]
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
        let since = *options.since.get_or_insert(core.log.reserved());
        let txn = Txn::begin(core.clone(), options.lock_timeout, since)?;
        let number = core.txns.slots.number(txn.owner);
        let owner = txn.owner;
        let shared = Arc::new(Shared {
            durability: options.durability.unwrap_or(engine.durability()),
            number,
            options,
            calls: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            state: Mutex::new(State::Running(Box::new(txn))),
            core,
        });
        engine.running().enter(owner, &shared);
        Ok(Self { engine, shared })
    }

    /// The number by which messages, [`Database::transactions`](crate::Database::transactions) and
    /// [`Database::abort`](crate::Database::abort) name it; unique while the database is open.
    ///
    /// See [`Database::abort`](crate::Database::abort) for an example.
    pub fn number(&self) -> u64 {
        self.shared.number
    }

    /// The table as this transaction sees and changes it.
    ///
    /// See [`Transaction`] for an example. A table of another database is refused by the first call, with [`Error::Argument`].
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
    /// See [`Transaction::rollback_to`] for an example.
    pub fn savepoint(&self) -> Result<Savepoint> {
        let place = self.shared.with(|txn| Ok(txn.savepoint()))?;
        Ok(Savepoint { database: self.shared.database(), transaction: self.shared.number, place })
    }

    /// Undoes what was done since `savepoint`, which stays valid. Locks stay too: what was read before still holds.
    ///
    /// Errors: [`Error::Argument`] if the savepoint is of another transaction; [`Error::Full`] if there is no space for the leaves
    /// that it splits: then the whole transaction is rolled back, as by [`Transaction::rollback`].
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

    /// Commits, and waits as long as the durability asks.
    ///
    /// Errors: those of the transaction, if it was rolled back before; [`Error::Poisoned`] after a failed write or sync:
    /// whether the transaction survives is then known when the database has been opened again.
    ///
    /// See [`Transaction`] for an example.
    pub fn commit(self) -> Result<()> {
        match self.end()? {
            Some(end) => self.engine.acknowledge(end, self.shared.durability),
            None => Ok(()),
        }
    }

    /// Commits, and does not wait: others see it from now on; the ticket tells when it is as safe as the durability
    /// asks. A crash before that may undo it, together with everything that came after it.
    ///
    /// See [`CommitTicket`] for an example.
    pub fn commit_async(self) -> Result<CommitTicket> {
        let end = self.end()?;
        let (core, durability) = (self.engine.hold_core(), self.shared.durability);
        Ok(CommitTicket { core, end, durability, flight: Wanted::Own })
    }

    /// Commits; how far the log must be safe before that may be told.
    fn end(&self) -> Result<Option<Lsn>> {
        let txn = self.shared.take()?;
        // It has read what others committed, who give their locks back before that is durable. One that writes is durable
        // only together with them; one that only reads must wait for them itself.
        let seen = self.engine.core().log.reserved();
        let reads_durably =
            self.shared.durability == Durability::Sync && !seeded_bug("txn_reader_acknowledged_early");
        Ok(txn.commit().or(reads_durably.then_some(seen)))
    }

    /// Rolls back. Dropping does the same, and swallows the errors.
    ///
    /// Errors: [`Error::Full`]: the rollback splits leaves for which there is no space. The transaction keeps its locks, and
    /// nobody sees what it did; it is gone on with when there is space, or at the next open.
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
    /// [`Database::rollback_prepared`](crate::Database::rollback_prepared). Until then it keeps its locks.
    ///
    /// Waits until that is durable, whatever the durability.
    ///
    /// Errors: [`Error::Argument`] if the name is too long, or that of another prepared transaction: this one is rolled back;
    /// [`Error::Poisoned`]: whether it has prepared is then known when the database has been opened again.
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
        if gid.len() > GID_BYTES_MAX {
            return Err(Error::Argument(format!("a global id has at most {GID_BYTES_MAX} bytes")));
        }
        self.engine.prepare(self.shared.take()?, gid)
    }
}

/// The longest global id of a prepared transaction.
const GID_BYTES_MAX: usize = 256;

impl Shared {
    /// Is the table of the same database?
    pub fn is_of(&self, table: &ByteTable) -> bool {
        std::ptr::eq(&*self.core, &**table.engine.core())
    }

    /// What tells this open database from others.
    fn database(&self) -> u64 {
        self.core.incarnations.last().map_or(0, |life| life.salt)
    }

    /// Calls `work` with the transaction, if it still runs. A deadlock or an abort rolls it back, and so does what leaves it
    /// undone by halves.
    pub fn with<R>(&self, work: impl FnOnce(&mut Txn) -> Result<R>) -> Result<R> {
        let mut state = lock_or_wait(&self.state);
        // Only changed under the mutex, so two plain accesses do.
        self.calls.store(self.calls.load(Relaxed) + 1, Relaxed);
        let txn = match &mut *state {
            State::Running(txn) => txn,
            State::Failed(error) => return Err(error.clone()),
            State::Ended => return Err(Error::Ended),
        };
        // Not `result`: that would copy it from where `work` left it, a dozen words that the processor has to wait for.
        match work(txn) {
            Ok(done) => Ok(done),
            Err(error) => Err(self.failed(&mut state, error)),
        }
    }

    /// Is it over, or was its last call refused, for a reason that running it again may not meet?
    pub fn is_lost(&self) -> bool {
        match &*lock_or_wait(&self.state) {
            State::Running(_) => {
                let lost = self.lost.load(Relaxed);
                lost != 0 && lost == self.calls.load(Relaxed)
            }
            State::Failed(error) => error.is_retryable(),
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
        match std::mem::replace(state, State::Failed(error.clone())) {
            State::Running(txn) => txn.roll_back().err().unwrap_or(error),
            _ => error,
        }
    }

    /// Takes the transaction out, to end it.
    fn take(&self) -> Result<Txn> {
        let mut state = lock_or_wait(&self.state);
        if let State::Failed(error) = &*state {
            return Err(error.clone()); // it stays known how it ended: `abort` asks
        }
        match std::mem::replace(&mut *state, State::Ended) {
            State::Running(txn) => Ok(*txn),
            _ => Err(Error::Ended),
        }
    }

    /// Is a call of its owner under way?
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
        // The call that was interrupted has rolled it back.
        if matches!(*state, State::Failed(Error::Aborted { .. })) {
            Ok(true)
        } else {
            self.abort_in(&mut state)
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
        let failed = State::Failed(Error::Aborted { txn: self.number });
        match std::mem::replace(state, failed) {
            State::Running(txn) => txn.roll_back().map(|()| true),
            ended => {
                *state = ended;
                Ok(false)
            }
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // Its ranges may hold on to what is shared; the transaction ends here. Who wants to know calls `rollback`.
        if let Ok(txn) = self.shared.take() {
            let _ = txn.roll_back();
        }
    }
}

/// A [`ByteTable`] as a transaction sees and changes it. Errors beside those of the table: [`Error::Deadlock`] and
/// [`Error::Aborted`] (the transaction is rolled back), [`Error::LockTimeout`], [`Error::Ended`].
pub struct TransactionBytes<'t> {
    shared: &'t Arc<Shared>,
    table: &'t ByteTable,
}

impl TransactionBytes<'_> {
    /// The value of `key`, copied out.
    ///
    /// See [`Transaction::bytes`] for an example.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// Replaces the content of `value` by the value of `key`; `false`, and an empty `value`, if there is none.
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let (tree, mode) = (&self.table.tree, self.read_mode());
        self.work(|txn| {
            txn.enter(tree)?;
            match mode {
                KeyMode::None => tree.get(&txn.view(), key, value),
                _ => tree.get_locked(txn, key, value),
            }
        })
    }

    /// How a key is locked that is read.
    fn read_mode(&self) -> KeyMode {
        match self.shared.options.isolation {
            Isolation::ReadCommitted => KeyMode::None,
            Isolation::RepeatableRead | Isolation::Serializable => KeyMode::Shared,
        }
    }

    /// As [`TransactionBytes::get`], for a row that is going to be changed: nobody else can lock it meanwhile, so two
    /// transactions that do this to the same row do not deadlock.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// t.put(b"visits", &[7])?;
    /// db.transact(|tx| {
    ///     let visits = tx.bytes(&t).get_for_update(b"visits")?.map_or(0, |value| value[0]);
    ///     tx.bytes(&t).put(b"visits", &[visits + 1])
    /// })?;
    /// assert_eq!(t.get(b"visits")?, Some(vec![8]));
    /// # Ok(()) }
    /// ```
    pub fn get_for_update(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_for_update_into(key, &mut value)?.then_some(value))
    }

    /// As [`TransactionBytes::get_for_update`], replacing the content of `value`; `false`, and an empty `value`, if there
    /// is none.
    pub fn get_for_update_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let tree = &self.table.tree;
        self.work(|txn| {
            txn.enter(tree)?;
            tree.get_for_update(txn, key, value)
        })
    }

    /// Is there a value for `key`?
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// db.transact(|tx| {
    ///     if !tx.bytes(&t).contains(b"admin")? { // and nobody puts it there until we have
    ///         tx.bytes(&t).put(b"first user", b"becomes the admin")?;
    ///     }
    ///     Ok(())
    /// })?;
    /// assert!(t.contains(b"first user")?);
    /// # Ok(()) }
    /// ```
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        let (tree, mode) = (&self.table.tree, self.read_mode());
        self.work(|txn| {
            txn.enter(tree)?;
            if mode == KeyMode::None {
                return tree.contains(&txn.view(), key);
            }
            txn.lock(tree, key, mode, false)?;
            tree.contains(&View::NEWEST, key)
        })
    }

    /// The values of many keys, in their order. Faster than one `get` each when the data is larger than the
    /// processor's caches. The keys are locked one after another.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// t.put(b"b", b"2")?;
    /// let tx = db.begin()?;
    /// assert_eq!(tx.bytes(&t).multi_get(&[b"a", b"b"])?, [None, Some(b"2".to_vec())]);
    /// # Ok(()) }
    /// ```
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut values = Vec::with_capacity(keys.len());
        self.multi_get_with(keys, |value| {
            values.push(value.map(<[u8]>::to_vec));
            ControlFlow::Continue(())
        })?;
        Ok(values)
    }

    /// As [`TransactionBytes::multi_get`], but calls `read` with one value after the other, until it breaks: nothing is
    /// allocated per key.
    pub fn multi_get_with<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut read: impl FnMut(Option<&[u8]>) -> ControlFlow<()>,
    ) -> Result<()> {
        let (tree, mode) = (&self.table.tree, self.read_mode());
        let mut value = Vec::new();
        tree.each_to_lock(keys, |near, key| {
            let found = self.work(|txn| {
                txn.enter(tree)?;
                match mode {
                    KeyMode::None => tree.get_near(&txn.view(), near.way, key, &mut value),
                    _ => tree.get_locked_near(txn, near, key, &mut value),
                }
            })?;
            Ok(read(found.then_some(&value)))
        })
    }

    /// Changes the rows of many keys, in their order: `change` gets each value, `None` if there is none, and leaves what
    /// it is to be, `None` to remove it. Once it breaks, that row and those after it stay as they are. Faster than
    /// [`get_for_update`](TransactionBytes::get_for_update) and [`put`](TransactionBytes::put) for each when the data is
    /// larger than the processor's caches. The rows are locked one after another: transactions that name them in the same
    /// order do not deadlock over them.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let stock = db.byte_table("stock")?;
    /// stock.put(b"apples", &[7])?;
    /// stock.put(b"pears", &[5])?;
    /// let tx = db.begin()?;
    /// tx.bytes(&stock).multi_modify(&[b"apples".as_slice(), b"pears"], |left| {
    ///     left.as_mut().expect("in stock")[0] -= 1;
    ///     std::ops::ControlFlow::Continue(())
    /// })?;
    /// tx.commit()?;
    /// assert_eq!(stock.multi_get(&[b"apples".as_slice(), b"pears"])?, [Some(vec![6]), Some(vec![4])]);
    /// # Ok(()) }
    /// ```
    pub fn multi_modify<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut change: impl FnMut(&mut Option<Vec<u8>>) -> ControlFlow<()>,
    ) -> Result<()> {
        let tree = &self.table.tree;
        let mut row = Vec::new();
        tree.each_to_lock(keys, |near, key| {
            let found = self.work(|txn| {
                txn.enter(tree)?;
                tree.get_for_update_near(txn, near, key, &mut row)
            })?;
            let mut value = found.then(|| std::mem::take(&mut row));
            if change(&mut value).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            match value {
                Some(value) => {
                    self.put(key, &value)?;
                    row = value;
                }
                None if found => _ = self.remove(key)?,
                None => {}
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Sets the value of `key`, whether or not it had one.
    ///
    /// See [`Transaction::bytes`] for an example.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(key, Intent::Put(value)).map(|_| ())
    }

    /// Sets the value of `key` unless it has one; says whether it did.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// let tx = db.begin()?;
    /// assert!(tx.bytes(&t).insert(b"seat 12", b"ada")?);
    /// assert!(!tx.bytes(&t).insert(b"seat 12", b"ben")?);
    /// assert!(tx.bytes(&t).remove(b"seat 12")? && !tx.bytes(&t).remove(b"seat 12")?);
    /// # Ok(()) }
    /// ```
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.write(key, Intent::Insert(value))
    }

    /// Removes `key`; says whether it was there.
    ///
    /// See [`TransactionBytes::insert`] for an example.
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        self.write(key, Intent::Remove)
    }

    /// [`insert`](TransactionBytes::insert)s many rows, in their order; says how many of them were not there. Faster than
    /// one call each: rows with ascending keys that go into one leaf are inserted and logged together.
    ///
    /// After an error other than those that roll the transaction back, some of the rows may be there:
    /// [`Transaction::rollback_to`] removes them.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let lines = db.byte_table("order lines")?;
    /// let tx = db.begin()?;
    /// let inserted = tx.bytes(&lines).insert_many(&[("17/1", "apples"), ("17/2", "pears")])?;
    /// assert_eq!(inserted, 2);
    /// tx.commit()?;
    /// assert_eq!(lines.get(b"17/2")?.as_deref(), Some(&b"pears"[..]));
    /// # Ok(()) }
    /// ```
    pub fn insert_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, rows: &[(K, V)]) -> Result<usize> {
        self.write_each(rows, Intent::Insert)
    }

    /// [`put`](TransactionBytes::put)s many rows, in their order; see [`insert_many`](TransactionBytes::insert_many).
    pub fn put_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, rows: &[(K, V)]) -> Result<()> {
        self.write_each(rows, Intent::Put).map(|_| ())
    }

    fn write_each<'r, K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        rows: &'r [(K, V)],
        intent: impl Fn(&'r [u8]) -> Intent<'r>,
    ) -> Result<usize> {
        self.work(|txn| {
            rows.iter().try_for_each(|(_, value)| self.table.make_room(value.as_ref().len()))?;
            self.table.tree.write_each(txn, rows, intent)
        })
    }

    fn write(&self, key: &[u8], intent: Intent<'_>) -> Result<bool> {
        self.work(|txn| {
            self.table.make_room(intent.value().len())?;
            self.table.tree.write(txn, key, intent)
        })
    }

    /// Rows whose keys lie in `bounds`, ascending; `.rev()` descends. The iterator survives what the transaction writes
    /// meanwhile, also into the range.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// t.put_many(&[("job 1", "done"), ("job 2", "new"), ("job 3", "done")])?;
    /// db.transact(|tx| {
    ///     for job in tx.bytes(&t).range(..) {
    ///         let (key, state) = job?;
    ///         if state == b"done" {
    ///             tx.bytes(&t).remove(&key)?; // while the range goes on
    ///         }
    ///     }
    ///     Ok(())
    /// })?;
    /// assert_eq!(t.range(..).count(), 1);
    /// # Ok(()) }
    /// ```
    pub fn range(&self, bounds: impl KeyBounds<[u8]>) -> TransactionRange {
        let (from, to) = bounds.raw();
        self.range_between(from, to)
    }

    /// Rows whose keys begin with `prefix`, ascending; `.rev()` descends.
    ///
    /// See [`ByteTable::prefix`] for an example.
    pub fn prefix(&self, prefix: &[u8]) -> TransactionRange {
        self.range_between(Bound::Included(prefix.to_vec()), successor(prefix))
    }

    /// Calls `row` with each key and value in `bounds`, ascending, until it breaks; as fast as [`range`](TransactionBytes::range),
    /// and `row` may use the transaction likewise.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// use std::ops::ControlFlow;
    /// let stock = db.byte_table("stock")?;
    /// stock.put_many(&[("apples", "7"), ("pears", "5")])?;
    /// db.transact(|tx| {
    ///     let mut names = Vec::new();
    ///     tx.bytes(&stock).scan(.., |name, _| {
    ///         names.push(name.to_vec());
    ///         ControlFlow::Continue(())
    ///     })?;
    ///     assert_eq!(names, [&b"apples"[..], b"pears"]);
    ///     Ok(())
    /// })
    /// # }
    /// ```
    pub fn scan(
        &self,
        bounds: impl KeyBounds<[u8]>,
        mut row: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        for found in self.range(bounds) {
            let (key, value) = found?;
            if row(&key, &value).is_break() {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn range_between(&self, from: Bound<Vec<u8>>, to: Bound<Vec<u8>>) -> TransactionRange {
        TransactionRange::new(self.shared.clone(), self.table, from, to)
    }

    fn work<R>(&self, work: impl FnOnce(&mut Txn) -> Result<R>) -> Result<R> {
        if !self.shared.is_of(self.table) {
            return Err(Error::Argument("the table is of another database than the transaction".into()));
        }
        self.shared.with(work)
    }
}
