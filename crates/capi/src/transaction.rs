//! Transactions: begin, savepoints, ends, and running again.

use crate::database::Db;
use crate::memory::{Bytes, give, there};
use crate::options::Options;
use crate::status::{FS_OK, Failure, answer, forget_losses, guard, guard_end, guard_free, recall_losses};
use crate::table::Table;
use foreshore::Savepoint;
use foreshore_bindings::{TransactionHandle, Unattached, transact, transaction_options};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::process;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A read-write transaction: what it does happens as a whole or not at all, and as if nobody else were there.
pub struct Tx {
    handle: TransactionHandle,
    /// As its database's.
    process: u32,
    savepoints: Mutex<Savepoints>,
}

impl Tx {
    fn new(handle: TransactionHandle, process: u32) -> Self {
        Self { handle, process, savepoints: Mutex::default() }
    }

    /// Is this a process that was forked since? It may let go of the transaction, and no more: the parent goes on with it.
    fn is_parents(&self) -> bool {
        self.process != process::id()
    }

    /// Held as long as the transaction is asked for its place, or goes back to one: so their order is that of their numbers.
    fn savepoints(&self) -> MutexGuard<'_, Savepoints> {
        self.savepoints.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The places that C knows by numbers, as many as differ: a loop that goes back each time takes no memory.
#[derive(Default)]
struct Savepoints {
    /// How many numbers C has.
    numbers: u64,
    /// Each with its first number, in their order: up to the next one's they stand for it, too.
    places: Vec<(u64, Savepoint)>,
}

impl Savepoints {
    /// A number for `place`, where the transaction is now.
    fn number(&mut self, place: Savepoint) -> u64 {
        let number = self.numbers;
        self.numbers += 1;
        if self.places.last().is_none_or(|(_, last)| *last != place) {
            self.places.push((number, place));
        }
        number
    }

    /// Where in `places` this number's is.
    fn find(&self, number: u64) -> Result<usize, Failure> {
        if number >= self.numbers {
            return Err(Failure::argument("the transaction has no such savepoint"));
        }
        Ok(self.places.partition_point(|(first, _)| *first <= number) - 1)
    }
}

/// Begins a transaction; `options` may be NULL. End it with `fs_commit` or `fs_rollback`, and free it with `fs_tx_free` in any
/// case.
///
/// FS_TOO_MANY_TRANSACTIONS if 1024 are running and none ends within 10 seconds.
#[unsafe(no_mangle)]
pub extern "C" fn fs_begin(
    db: Option<&Db>,
    options: Option<&Options>,
    out: Option<&mut MaybeUninit<Option<Box<Tx>>>>,
) -> c_int {
    guard(|| {
        let out = there(out, "out")?;
        let options = transaction_options(Options::pairs(options))?;
        let db = there(db, "db")?;
        let handle = TransactionHandle::begin(&db.database, options)?;
        give(out, Tx::new(handle, db.process));
        Ok(())
    })
}

/// The table as the transaction sees and changes it. Calls on it may give FS_DEADLOCK and FS_ABORTED, after which the
/// transaction is rolled back and can only be freed; FS_LOCK_TIMEOUT; and FS_ENDED. Free it with `fs_table_free`.
#[unsafe(no_mangle)]
pub extern "C" fn fs_tx_table(
    tx: Option<&Tx>,
    table: Option<&Table>,
    out: Option<&mut MaybeUninit<Option<Box<Table>>>>,
) -> c_int {
    guard(|| {
        let out = there(out, "out")?;
        let handle = there(table, "table")?.handle.within(&there(tx, "tx")?.handle);
        give(out, Table { handle });
        Ok(())
    })
}

/// The number by which messages and `fs_abort` name the transaction; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fs_tx_number(tx: Option<&Tx>) -> u64 {
    tx.map_or(0, |tx| tx.handle.number())
}

/// Stores in `out` a number for the place that the transaction has come to, for `fs_rollback_to`.
#[unsafe(no_mangle)]
pub extern "C" fn fs_savepoint(tx: Option<&Tx>, out: Option<&mut MaybeUninit<u64>>) -> c_int {
    guard(|| {
        let out = there(out, "out")?;
        let tx = there(tx, "tx")?;
        let mut savepoints = tx.savepoints();
        let place = tx.handle.savepoint()?;
        out.write(savepoints.number(place));
        Ok(())
    })
}

/// Undoes what the transaction did since that place, to which it can go back again; numbers of later places stand for this one
/// from then on. Its locks stay.
#[unsafe(no_mangle)]
pub extern "C" fn fs_rollback_to(tx: Option<&Tx>, savepoint: u64) -> c_int {
    guard(|| {
        let tx = there(tx, "tx")?;
        let mut savepoints = tx.savepoints();
        let at = savepoints.find(savepoint)?;
        tx.handle.rollback_to(savepoints.places[at].1)?;
        savepoints.places.truncate(at + 1);
        Ok(())
    })
}

/// Commits, and waits as long as the durability asks. Whatever the status, the transaction has ended. After FS_POISONED it is
/// known whether it survives when the database has been opened again.
#[unsafe(no_mangle)]
pub extern "C" fn fs_commit(tx: Option<&Tx>) -> c_int {
    guard(|| Ok(there(tx, "tx")?.handle.commit()?))
}

/// Rolls back. Whatever the status, the transaction has ended. After FS_DEADLOCK and FS_ABORTED, which say that it is rolled back, it
/// gives that status again.
#[unsafe(no_mangle)]
pub extern "C" fn fs_rollback(tx: Option<&Tx>) -> c_int {
    guard(|| Ok(there(tx, "tx")?.handle.rollback()?))
}

/// Ends the first half of a commit over several databases: afterwards the transaction waits, also across crashes, for
/// `fs_commit_prepared` or `fs_rollback_prepared` with the same `gid` (at most 256 bytes), and keeps its locks. Whatever the
/// status, `tx` has ended; after FS_ARGUMENT, for a `gid` that is none, too long or taken, it is rolled back.
#[unsafe(no_mangle)]
pub extern "C" fn fs_prepare(tx: Option<&Tx>, gid: Bytes) -> c_int {
    guard(|| {
        let tx = &there(tx, "tx")?.handle;
        let gid = gid.get().inspect_err(|_| drop(tx.rollback()))?;
        Ok(tx.prepare(gid)?)
    })
}

/// Frees a transaction; one that is still running is rolled back, and its tables give FS_ENDED. In a process that was forked since,
/// it goes on in the parent.
#[unsafe(no_mangle)]
pub extern "C" fn fs_tx_free(tx: Option<Box<Tx>>) {
    guard_end(|| {
        // In a forked process not even whether it is running can be asked: it may be in a call of a thread that is not there.
        if let Some(tx) = &tx
            && !tx.is_parents()
            && tx.handle.is_running()
        {
            let _ = tx.handle.rollback();
        }
    });
    guard_free(tx);
}

/// What `fs_transact` runs: FS_OK commits, anything else rolls back. `tx` is lent for the length of the call; `context` is
/// what `fs_transact` was given. It returns: an exception of C++, or a longjmp, must not leave it.
pub type Work = Option<extern "C" fn(tx: *const Tx, context: *mut c_void) -> c_int>;

/// Runs `work` in a transaction and commits it; runs it again, in a new one, as long as the transaction loses against another:
/// a call of it gives a retryable status, and `work` returns that. So `work` should have no effects beside the transaction's, and
/// free what it made. Returns what `work` did, or why the commit failed. `options` may be NULL. If `work` forks and returns in the child
/// too, nothing is committed or rolled back there, and FS_OK becomes FS_ARGUMENT.
///
/// It does not return while somebody keeps a lock that `work` needs, be it a transaction that this very thread has begun.
#[unsafe(no_mangle)]
pub extern "C" fn fs_transact(
    db: Option<&Db>,
    options: Option<&Options>,
    work: Work,
    context: *mut c_void,
) -> c_int {
    answer(|| {
        let (db, work) = (there(db, "db")?, there(work, "work")?);
        let options = transaction_options(Options::pairs(options))?;
        let run = |handle: &TransactionHandle| {
            let tx = Tx::new(handle.clone(), db.process);
            forget_losses();
            let status = work(&tx, context);
            if tx.is_parents() {
                handle.forget();
            }
            match status {
                FS_OK if tx.is_parents() => {
                    Err(Failure::argument("`work` has forked, and this is the child"))
                }
                FS_OK => Ok(FS_OK),
                status => Err(Failure::returned(status, handle.number())),
            }
        };
        let known = forget_losses();
        let done = transact(&Unattached, &db.database, options, run, |failure| failure.loser);
        recall_losses(known); // to the `work` that this call may be a part of; then the failure, if this one has lost
        done
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::FS_ARGUMENT;
    use foreshore::{Database, TransactionOptions};
    use foreshore_bindings::TableHandle;

    fn savepoint(tx: &Tx) -> u64 {
        let mut number = MaybeUninit::new(u64::MAX);
        assert_eq!(fs_savepoint(Some(tx), Some(&mut number)), FS_OK);
        // SAFETY: it was initialized.
        unsafe { number.assume_init() }
    }

    #[test]
    fn savepoints_of_a_long_loop_take_no_memory() {
        let db = Database::in_memory().unwrap();
        let table = TableHandle::latest(db.byte_table("t").unwrap());
        let handle = TransactionHandle::begin(&db, TransactionOptions::new()).unwrap();
        let tx = Tx::new(handle, process::id());
        let inside = table.within(&tx.handle);
        let (first, mut last) = (savepoint(&tx), 0);
        for _ in 0..100 {
            let outer = savepoint(&tx);
            inside.put(b"k", b"outer").unwrap();
            last = savepoint(&tx);
            inside.put(b"k", b"inner").unwrap();
            assert_eq!(fs_rollback_to(Some(&tx), last), FS_OK);
            assert_eq!(inside.get(b"k").unwrap().unwrap(), b"outer");
            assert_eq!(fs_rollback_to(Some(&tx), outer), FS_OK);
        }
        assert!(tx.savepoints().places.len() <= 2, "before it began, and since");
        // Its place is undone: the one before stands for it.
        inside.put(b"k", b"since").unwrap();
        assert_eq!(fs_rollback_to(Some(&tx), last), FS_OK);
        assert!(!inside.contains(b"k").unwrap());
        assert_eq!(fs_rollback_to(Some(&tx), first), FS_OK);
        assert_eq!(fs_rollback_to(Some(&tx), last + 1), FS_ARGUMENT);
    }
}
