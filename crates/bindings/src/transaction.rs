//! A read-write transaction that anybody may hold, and that ends when somebody says so.

use foreshore::{Database, Error, Result, Savepoint, Transaction, TransactionOptions, will_wait};
use parking_lot::{ReentrantMutex, ReentrantMutexGuard};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// A transaction shared by its owner and the tables seen through it. It rolls back with its last holder, if it has not
/// ended before; then every call gives [`Error::Ended`].
#[derive(Clone)]
pub struct TransactionHandle {
    shared: Arc<Shared>,
}

struct Shared {
    number: u64,
    writes: WriteCount,
    options: TransactionOptions,
    /// What its work is to be run again with: once it has ended, having lost.
    again: OnceLock<TransactionOptions>,
    forgotten: AtomicBool,
    /// `None` once it has ended. Held during a call: the engine lets a transaction do one at a time anyway. Who makes one
    /// of several calls holds it around them.
    running: ReentrantMutex<RefCell<Option<Transaction>>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.running.get_mut().get_mut().is_some() {
            will_wait(); // as `rollback` does
        }
    }
}

/// Counts the calls of a transaction that may have changed rows: who reads ahead sees by it that what was read is out of
/// date. It keeps nothing open.
#[derive(Clone, Default)]
pub struct WriteCount(Arc<AtomicU64>);

impl WriteCount {
    /// How many there have been.
    pub fn now(&self) -> u64 {
        self.0.load(Relaxed)
    }

    fn count(&self) {
        self.0.fetch_add(1, Relaxed);
    }
}

impl TransactionHandle {
    /// Begins; errors as [`Database::begin_with`].
    pub fn begin(db: &Database, options: TransactionOptions) -> Result<Self> {
        let transaction = db.begin_with(options)?;
        Ok(Self {
            shared: Arc::new(Shared {
                number: transaction.number(),
                writes: WriteCount::default(),
                options,
                again: OnceLock::new(),
                forgotten: AtomicBool::new(false),
                running: ReentrantMutex::new(RefCell::new(Some(transaction))),
            }),
        })
    }

    /// See [`Transaction::number`].
    pub fn number(&self) -> u64 {
        self.shared.number
    }

    /// Has it neither committed nor rolled back? One that a deadlock rolled back still counts as running: its owner
    /// has to end it.
    pub fn is_running(&self) -> bool {
        self.running().borrow().is_some()
    }

    /// The count of the calls that may have changed rows.
    pub fn writes(&self) -> WriteCount {
        self.shared.writes.clone()
    }

    /// Calls `work` with the transaction.
    pub(crate) fn read<R>(&self, work: impl FnOnce(&Transaction) -> Result<R>) -> Result<R> {
        work(self.running().borrow().as_ref().ok_or(Error::Ended)?)
    }

    /// Calls `work`, which may change rows, with the transaction.
    pub(crate) fn write<R>(&self, work: impl FnOnce(&Transaction) -> Result<R>) -> Result<R> {
        let done = self.read(work);
        self.shared.writes.count(); // not before it is done: who reads ahead until then may miss it
        done
    }

    /// See [`Transaction::savepoint`].
    pub fn savepoint(&self) -> Result<Savepoint> {
        self.read(Transaction::savepoint)
    }

    /// See [`Transaction::rollback_to`].
    pub fn rollback_to(&self, savepoint: Savepoint) -> Result<()> {
        self.write(|transaction| transaction.rollback_to(savepoint))
    }

    /// Undoes what `work` did in this transaction if it fails; the transaction goes on. If that cannot be undone it is over, and
    /// the error says why. Calls of other threads wait until that is known: what they did meanwhile would be undone, too.
    pub(crate) fn as_a_whole<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<R> {
        let _others_wait = self.running();
        let before = self.savepoint()?;
        work().map_err(|error| match self.rollback_to(before) {
            Ok(()) | Err(Error::Ended) => error, // if the transaction had ended before, `error` says why
            Err(not_undone) => not_undone,       // it has by now, and why is told only once
        })
    }

    /// Ends it; see [`Transaction::commit`].
    pub fn commit(&self) -> Result<()> {
        self.end(Transaction::commit)
    }

    /// Ends it; see [`Transaction::rollback`]. For [`foreshore::before_waiting`] it counts as a wait: undoing may take long.
    pub fn rollback(&self) -> Result<()> {
        will_wait();
        let transaction = self.take()?;
        if transaction.has_lost() {
            self.note_loss(self.shared.options.as_old_as(&transaction));
        }
        transaction.rollback()
    }

    /// Ends it; see [`Transaction::prepare`].
    pub fn prepare(&self, gid: &[u8]) -> Result<()> {
        self.end(|transaction| transaction.prepare(gid))
    }

    /// Ends it by `end`, by which it loses if that fails.
    fn end(&self, end: impl FnOnce(Transaction) -> Result<()>) -> Result<()> {
        let transaction = self.take()?;
        let again = self.shared.options.as_old_as(&transaction);
        end(transaction).inspect_err(|_| self.note_loss(again))
    }

    fn note_loss(&self, again: TransactionOptions) {
        let _ = self.shared.again.set(again); // it ends once
    }

    /// Lets go of it for good: in a process that was forked since it began, it is the parent's. Nothing may be asked of it there: it
    /// may be in a call of a thread that is not there.
    pub fn forget(&self) {
        self.shared.forgotten.store(true, Relaxed);
        std::mem::forget(self.clone()); // so nobody is the last to hold it
    }

    fn take(&self) -> Result<Transaction> {
        self.running().borrow_mut().take().ok_or(Error::Ended)
    }

    /// The transaction, once no call of another thread is under way.
    fn running(&self) -> ReentrantMutexGuard<'_, RefCell<Option<Transaction>>> {
        self.shared.running.try_lock().unwrap_or_else(|| {
            will_wait();
            self.shared.running.lock()
        })
    }
}

/// A language whose threads may hold something that others need to go on, such as an interpreter's lock.
pub trait Host {
    /// Calls the engine; gives up what the thread holds if the engine waits in it.
    fn engine<R: Send>(&self, call: impl FnOnce() -> R + Send) -> R;
}

/// A language whose threads hold nothing.
pub struct Unattached;

impl Host for Unattached {
    fn engine<R: Send>(&self, call: impl FnOnce() -> R + Send) -> R {
        call()
    }
}

/// The number of the transaction that may succeed if it is run again, if this is the error of one.
pub fn loser(error: &Error) -> Option<u64> {
    match error {
        Error::Deadlock { txn, .. } | Error::LockTimeout { txn, .. } | Error::Aborted { txn } => Some(*txn),
        _ => None,
    }
}

/// Runs `work` in a transaction and commits it; runs it again, in a new one, as long as the transaction loses against another.
/// As [`Database::transact_with`], for errors and handles of another language: `loser` says which transaction an error is of.
/// That of another one, or of an earlier run, is returned: work would meet it each time.
///
/// `work` may end the transaction itself; it is then not committed, and run again only if it failed, having lost. If `work`
/// [forgets](TransactionHandle::forget) the transaction, what it returned is all that is done.
pub fn transact<R, E: From<Error>>(
    host: &impl Host,
    db: &Database,
    mut options: TransactionOptions,
    mut work: impl FnMut(&TransactionHandle) -> Result<R, E>,
    loser: impl Fn(&E) -> Option<u64>,
) -> Result<R, E> {
    loop {
        let handle = host.engine(|| TransactionHandle::begin(db, options))?;
        let done = work(&handle);
        if handle.shared.forgotten.load(Relaxed) {
            return done;
        }
        let done = match done {
            Ok(result) if host.engine(|| handle.is_running()) => {
                host.engine(|| handle.commit()).map(|()| result).map_err(E::from)
            }
            Ok(result) => Ok(result), // `work` has ended it
            Err(error) => {
                // If it was rolled back already, that is what `error` says.
                let _ = host.engine(|| handle.rollback());
                Err(error)
            }
        };
        match (done, handle.shared.again.get()) {
            // Numbers are unique within a database only: so it must be known to have lost, too.
            (Err(error), Some(again)) if loser(&error) == Some(handle.number()) => {
                options = *again;
                host.engine(|| {
                    will_wait(); // for who was in the way
                    std::thread::yield_now();
                });
            }
            (done, _) => return done,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::TableHandle;
    use foreshore::Durability;
    use foreshore::vfs::SimDisk;
    use foreshore::vfs::sim::Repeat;
    use std::time::Duration;

    pub(crate) fn database() -> (Database, TableHandle) {
        let db = Database::in_memory().unwrap();
        let table = TableHandle::latest(db.byte_table("t").unwrap());
        (db, table)
    }

    fn run<R>(db: &Database, work: impl FnMut(&TransactionHandle) -> Result<R>) -> Result<R> {
        transact(&Unattached, db, TransactionOptions::new(), work, loser)
    }

    #[test]
    fn an_ended_transaction_says_so() {
        let (db, table) = database();
        let tx = TransactionHandle::begin(&db, TransactionOptions::new()).unwrap();
        let inside = table.within(&tx);
        inside.put(b"a", b"1").unwrap();
        assert_eq!(inside.estimate(Default::default()).unwrap(), 1);
        tx.commit().unwrap();
        assert!(!tx.is_running());
        assert!(matches!(inside.estimate(Default::default()), Err(Error::Ended)));
        assert!(matches!(inside.put(b"a", b"2"), Err(Error::Ended)));
        assert!(matches!(tx.commit(), Err(Error::Ended)));
        assert_eq!(tx.writes().now(), 2, "both were tried");
        assert_eq!(table.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    }

    #[test]
    fn transact_runs_again_what_may_succeed() {
        let (db, table) = database();
        let mut runs = 0;
        let result = run(&db, |tx| {
            table.within(tx).put(&[runs], b"")?;
            runs += 1;
            if runs < 3 {
                db.abort(tx.number())?;
            }
            table.within(tx).get(b"")?;
            Ok(runs)
        });
        assert_eq!(result.unwrap(), 3);
        assert_eq!(table.range(Default::default()).count(), 1, "the first two runs were rolled back");
    }

    /// Who has read ahead while it was under way must see by the count that it is done.
    #[test]
    fn a_write_counts_when_it_is_done() {
        let (db, _) = database();
        let tx = TransactionHandle::begin(&db, TransactionOptions::new()).unwrap();
        let meanwhile = tx.write(|_| Ok(tx.writes().now()));
        assert!(tx.writes().now() > meanwhile.unwrap());
    }

    /// Work runs again for what happened to its transaction. What happened to others it would meet each time.
    #[test]
    fn transact_does_not_run_again_for_what_others_lost() {
        let (db, table) = database();
        let once = |work: &dyn Fn(&TransactionHandle) -> Result<()>| {
            let mut runs = 0;
            let work = |tx: &TransactionHandle| {
                runs += 1;
                assert_eq!(runs, 1, "run again");
                work(tx)
            };
            let done = run(&db, work);
            assert_eq!(db.stats().transactions, 0, "rolled back");
            done.unwrap_err()
        };
        let other = TransactionHandle::begin(&db, TransactionOptions::new()).unwrap();
        assert!(db.abort(other.number()).unwrap());
        let in_other = table.within(&other);
        let kept = in_other.put(b"k", b"").unwrap_err();
        assert!(matches!(once(&|_| in_other.put(b"k", b"")), Error::Aborted { .. }));
        assert!(matches!(
            once(&|tx| table.within(tx).put(b"k", b"").and(Err(kept.clone()))),
            Error::Aborted { .. }
        ));
        assert!(matches!(once(&|_| Err(Error::SnapshotTooOld)), Error::SnapshotTooOld));
        assert!(!table.contains(b"k").unwrap());
    }

    /// A refusal that work has dealt with does not make another transaction's error its own.
    #[test]
    fn transact_tells_whose_error_it_is() {
        let (db, table) = database();
        let [holder, other] =
            [(), ()].map(|()| TransactionHandle::begin(&db, TransactionOptions::new()).unwrap());
        table.within(&holder).put(b"k", b"").unwrap();
        assert!(db.abort(other.number()).unwrap());
        for by_mistake in [table.within(&other).put(b"l", b"").unwrap_err(), Error::SnapshotTooOld] {
            let (impatient, mut runs) = (TransactionOptions::new().lock_timeout(Duration::ZERO), 0);
            let work = |tx: &TransactionHandle| {
                runs += 1;
                assert_eq!(runs, 1, "run again");
                assert!(matches!(table.within(tx).put(b"k", b""), Err(Error::LockTimeout { .. })));
                Err::<(), _>(by_mistake.clone())
            };
            let told = transact(&Unattached, &db, impatient, work, loser).unwrap_err();
            assert_eq!(told.to_string(), by_mistake.to_string());
        }
    }

    /// Work that goes back to a savepoint before it fails, as a part that happens as a whole does, has lost all the same.
    #[test]
    fn transact_runs_again_after_a_savepoint() {
        let (db, table) = database();
        let other = TransactionHandle::begin(&db, TransactionOptions::new()).unwrap();
        table.within(&other).put(b"k", b"other's").unwrap();
        let (impatient, mut runs) = (TransactionOptions::new().lock_timeout(Duration::ZERO), 0);
        let work = |tx: &TransactionHandle| {
            runs += 1;
            if runs == 3 {
                other.commit()?;
            }
            table.within(tx).atomically(&db, |inside| inside.put(b"k", b"ours"))
        };
        transact(&Unattached, &db, impatient, work, loser).unwrap();
        assert_eq!(table.get(b"k").unwrap().as_deref(), Some(&b"ours"[..]));
    }

    /// Whose part could not be undone has no transaction any more, and is told why.
    #[test]
    fn a_part_that_cannot_be_undone_says_why() {
        let disk = SimDisk::new(1);
        let db = Database::builder().cache_bytes(1 << 20).open_on(Arc::new(disk.clone())).unwrap();
        let [table, others] = ["t", "others"].map(|name| db.byte_table(name).unwrap());
        let (table, others) = (TableHandle::latest(table), others.with_durability(Durability::Buffered));
        let tx = TransactionHandle::begin(&db, TransactionOptions::new()).unwrap();
        let inside = table.within(&tx);
        let failed: Result<()> = inside.atomically(&db, |table| {
            table.put(b"k", b"undone")?;
            // More than the cache: the leaf has left it.
            (0..2000_u32).try_for_each(|i| others.put(&i.to_be_bytes(), &[5; 900]))?;
            db.checkpoint()?;
            disk.fail_read_at(disk.read_events(), Repeat::Once);
            Err(Error::Argument("of the part".into()))
        });
        assert!(matches!(failed, Err(Error::Io { .. })), "{failed:?}");
        let over = inside.put(b"k", b"");
        assert!(matches!(over, Err(Error::Ended)), "{over:?}");
    }

    #[test]
    fn transact_rolls_back_other_errors() {
        let (db, table) = database();
        let failed: Result<()> = run(&db, |tx| {
            table.within(tx).put(b"a", b"")?;
            Err(Error::Argument("no".into()))
        });
        assert!(matches!(failed, Err(Error::Argument(_))));
        assert!(!table.contains(b"a").unwrap());
        assert_eq!(db.stats().transactions, 0);
    }

    #[test]
    fn transact_leaves_an_ended_transaction_alone() {
        let (db, table) = database();
        run(&db, |tx| table.within(tx).put(b"a", b"").and_then(|()| tx.rollback())).unwrap();
        assert!(!table.contains(b"a").unwrap());
    }

    /// Work that ends its transaction on its way out has lost all the same.
    #[test]
    fn transact_runs_again_work_that_ends_its_transaction() {
        let (db, table) = database();
        let ends: [fn(&TransactionHandle) -> Result<()>; 3] =
            [TransactionHandle::rollback, TransactionHandle::commit, |tx| tx.prepare(b"gid")];
        for end in ends {
            let mut runs = 0;
            let done = run(&db, |tx| {
                runs += 1;
                if runs == 3 {
                    return table.within(tx).put(b"k", b"");
                }
                db.abort(tx.number())?;
                let lost = table.within(tx).put(b"k", b"");
                assert!(end(tx).is_err(), "it says again why");
                lost
            });
            assert!(done.is_ok() && runs == 3 && table.remove(b"k").unwrap(), "{done:?}");
        }
    }

    /// Whose work is committed must not do it once more, whatever was refused before.
    #[test]
    fn transact_does_not_run_again_what_is_committed() {
        let (db, table) = database();
        let holder = TransactionHandle::begin(&db, TransactionOptions::new()).unwrap();
        table.within(&holder).put(b"k", b"").unwrap();
        let (impatient, mut runs) = (TransactionOptions::new().lock_timeout(Duration::ZERO), 0);
        let work = |tx: &TransactionHandle| {
            runs += 1;
            assert_eq!(runs, 1, "run again");
            let refused = table.within(tx).put(b"k", b"");
            table.within(tx).put(b"l", b"")?;
            tx.commit()?;
            refused
        };
        let told = transact(&Unattached, &db, impatient, work, loser);
        assert!(matches!(told, Err(Error::LockTimeout { .. })), "{told:?}");
        assert!(table.contains(b"l").unwrap());
    }
}
