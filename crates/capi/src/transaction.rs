//! Transactions: begin, savepoints, ends, and running again.

use crate::database::Db;
use crate::memory::{Bytes, give, store, there};
use crate::options::Options;
use crate::status::{FS_OK, Failure, answer, forget_losses, guard, guard_end, guard_free, recall_losses};
use crate::table::Table;
use foreshore::Savepoint;
use foreshore_bindings::{TransactionHandle, Unattached, transact, transaction_options};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::{Mutex, PoisonError};

/// A read-write transaction: what it does happens as a whole or not at all, and as if nobody else were there.
pub struct Tx {
    handle: TransactionHandle,
    /// Their numbers in C are their places here.
    savepoints: Mutex<Vec<Savepoint>>,
}

impl Tx {
    fn new(handle: TransactionHandle) -> Self {
        Self { handle, savepoints: Mutex::default() }
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
        let options = transaction_options(Options::pairs(options))?;
        let handle = TransactionHandle::begin(&there(db, "db")?.database, options)?;
        give(out, Tx::new(handle))
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
        let handle = there(table, "table")?.handle.within(&there(tx, "tx")?.handle);
        give(out, Table { handle })
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
        let tx = there(tx, "tx")?;
        let savepoint = tx.handle.savepoint()?;
        let mut savepoints = tx.savepoints.lock().unwrap_or_else(PoisonError::into_inner);
        store(out, savepoints.len() as u64)?;
        savepoints.push(savepoint);
        Ok(())
    })
}

/// Undoes what the transaction did since that place, to which it can go back again; numbers of later places stand for this one
/// from then on. Its locks stay.
#[unsafe(no_mangle)]
pub extern "C" fn fs_rollback_to(tx: Option<&Tx>, savepoint: u64) -> c_int {
    guard(|| {
        let tx = there(tx, "tx")?;
        let savepoints = tx.savepoints.lock().unwrap_or_else(PoisonError::into_inner);
        let place = savepoints.get(savepoint as usize).copied();
        drop(savepoints);
        let place = place.ok_or_else(|| Failure::argument("the transaction has no such savepoint"))?;
        Ok(tx.handle.rollback_to(place)?)
    })
}

/// Commits, and waits as long as the durability asks. Whatever the status, the transaction has ended. After FS_POISONED it is
/// known whether it survives when the database has been opened again.
#[unsafe(no_mangle)]
pub extern "C" fn fs_commit(tx: Option<&Tx>) -> c_int {
    guard(|| Ok(there(tx, "tx")?.handle.commit()?))
}

/// Rolls back. Whatever the status, the transaction has ended.
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

/// Frees a transaction; one that is still running is rolled back, and its tables give FS_ENDED.
#[unsafe(no_mangle)]
pub extern "C" fn fs_tx_free(tx: Option<Box<Tx>>) {
    guard_end(|| {
        if let Some(tx) = &tx
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
/// free what it made. Returns what `work` did, or why the commit failed. `options` may be NULL.
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
            let tx = Tx::new(handle.clone());
            forget_losses();
            match work(&tx, context) {
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
