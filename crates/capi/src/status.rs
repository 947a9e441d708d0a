//! Statuses, error messages, and the wall that no panic passes.

use foreshore::Error;
use foreshore_bindings::loser;
use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Done.
pub const FS_OK: c_int = 0;
/// No such key, table or row: an answer, not an error.
pub const FS_ABSENT: c_int = 1;
/// The key has a value already, which stays: an answer of `fs_insert`, not an error.
pub const FS_EXISTS: c_int = 2;

/// An error of a kind that this header does not know; its message says more.
pub const FS_OTHER: c_int = -1;
/// An argument makes no sense, such as NULL where an object is needed.
pub const FS_ARGUMENT: c_int = -2;
/// The key is longer than a leaf may hold. Shorten it.
pub const FS_KEY_TOO_LONG: c_int = -3;
/// The value is larger than 256 MiB. Split it over several keys.
pub const FS_VALUE_TOO_LARGE: c_int = -4;
/// Text that should be UTF-8 is not, or stored bytes do not decode.
pub const FS_ENCODING: c_int = -5;
/// Rows to load were not in ascending order, or the table had rows above them.
pub const FS_BULK_LOAD: c_int = -6;
/// The disk is full. Nothing was changed; free space, then go on.
pub const FS_FULL: c_int = -7;
/// An earlier write or sync failed, or the database was closed. Close it and open it again.
pub const FS_POISONED: c_int = -8;
/// Another process has the database open, or this one has.
pub const FS_LOCKED: c_int = -9;
/// The directory is not a database that this version can read.
pub const FS_INCOMPATIBLE: c_int = -10;
/// Bytes on disk are not what was written.
pub const FS_CORRUPT: c_int = -11;
/// The operating system refused.
pub const FS_IO: c_int = -12;
/// The table was dropped while its handle was still held.
pub const FS_TABLE_DROPPED: c_int = -13;
/// Transactions, running or prepared, or a backup use the table. End them, then drop it.
pub const FS_TABLE_IN_USE: c_int = -14;
/// The transaction gave way to another. It is rolled back: run it again.
pub const FS_DEADLOCK: c_int = -15;
/// A lock was not granted in time. Try again, or roll back.
pub const FS_LOCK_TIMEOUT: c_int = -16;
/// Somebody else rolled the transaction back. Run it again.
pub const FS_ABORTED: c_int = -17;
/// The transaction was committed or rolled back. Begin a new one.
pub const FS_ENDED: c_int = -18;
/// Too many transactions or snapshots are open. End some.
pub const FS_TOO_MANY_TRANSACTIONS: c_int = -19;
/// What the snapshot needs was given up to bound memory. Take a new one.
pub const FS_SNAPSHOT_TOO_OLD: c_int = -20;
/// There is no prepared transaction with this id.
pub const FS_UNKNOWN_TRANSACTION: c_int = -21;
/// The process, or the system, has too many files open. Nothing was changed; close some or raise the limit, then go on.
pub const FS_TOO_MANY_FILES: c_int = -22;
/// A fault in Foreshore itself. Please report the message; close the database and open it again.
pub const FS_PANIC: c_int = -100;

thread_local! {
    /// Gone when the thread ends: destructors that run after its own go without.
    static MESSAGE: RefCell<CString> = RefCell::default();
    /// The last status in this thread by which a transaction lost, and the transaction's number.
    static LOST: Cell<Lost> = const { Cell::new(None) };
}

/// The message of the last error in this thread, as UTF-8; empty if there was none.
///
/// It belongs to the library, and is valid until the next error in this thread, or the thread's end.
#[unsafe(no_mangle)]
pub extern "C" fn fs_errmsg() -> *const c_char {
    MESSAGE.try_with(|message| message.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// May the same transaction succeed if it is run again from its begin? `fs_transact` does that by itself.
#[unsafe(no_mangle)]
pub extern "C" fn fs_is_retryable(status: c_int) -> bool {
    matches!(status, FS_DEADLOCK | FS_LOCK_TIMEOUT | FS_ABORTED | FS_SNAPSHOT_TOO_OLD)
}

/// The version of the library, such as "0.1.0". It belongs to the library and is always valid.
#[unsafe(no_mangle)]
pub extern "C" fn fs_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// A failed call: what C is told.
#[derive(Debug)]
pub struct Failure {
    /// The status.
    pub status: c_int,
    /// The message; `None` leaves the thread's last one, which is about this failure.
    message: Option<String>,
    /// The number of the transaction that may succeed if it is run again, if this is the failure of one.
    pub loser: Option<u64>,
}

impl Failure {
    /// What C's own code returned, having been called with this transaction. Whose status that is only this thread's calls since
    /// [`forget_losses`] can tell; if none gave it, as another thread's call did, it is taken for the transaction's own.
    pub fn returned(status: c_int, transaction: u64) -> Self {
        let lost = LOST.get().filter(|(given, _)| *given == status);
        let loser = match status {
            FS_DEADLOCK | FS_LOCK_TIMEOUT | FS_ABORTED => lost.map(|(_, loser)| loser).or(Some(transaction)),
            _ => None,
        };
        Self { status, message: None, loser }
    }

    /// Text that is not UTF-8.
    pub fn encoding(message: String) -> Self {
        Self { status: FS_ENCODING, message: Some(message), loser: None }
    }

    /// A senseless argument.
    pub fn argument(message: impl Into<String>) -> Self {
        Error::Argument(message.into()).into()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { status: status_of(&error), message: Some(error.to_string()), loser: loser(&error) }
    }
}

/// What a thread knows of transactions that lost.
pub type Lost = Option<(c_int, u64)>;

/// From now on nothing is known of which transactions lost; returns what was.
pub fn forget_losses() -> Lost {
    LOST.take()
}

/// From now on this is known.
pub fn recall_losses(known: Lost) {
    LOST.set(known);
}

fn status_of(error: &Error) -> c_int {
    match error {
        Error::Argument(_) => FS_ARGUMENT,
        Error::KeyTooLong { .. } => FS_KEY_TOO_LONG,
        Error::ValueTooLarge { .. } => FS_VALUE_TOO_LARGE,
        Error::Encoding { .. } => FS_ENCODING,
        Error::BulkLoad { .. } => FS_BULK_LOAD,
        Error::Full { .. } => FS_FULL,
        Error::TooManyFiles { .. } => FS_TOO_MANY_FILES,
        Error::Poisoned { .. } => FS_POISONED,
        Error::Locked { .. } => FS_LOCKED,
        Error::Incompatible { .. } | Error::OtherFormat { .. } => FS_INCOMPATIBLE,
        Error::Corrupt { .. } => FS_CORRUPT,
        Error::Io { .. } => FS_IO,
        Error::TableDropped { .. } => FS_TABLE_DROPPED,
        Error::TableInUse { .. } => FS_TABLE_IN_USE,
        Error::Deadlock { .. } => FS_DEADLOCK,
        Error::LockTimeout { .. } => FS_LOCK_TIMEOUT,
        Error::Aborted { .. } => FS_ABORTED,
        Error::Ended => FS_ENDED,
        Error::TooManyTransactions { .. } => FS_TOO_MANY_TRANSACTIONS,
        Error::SnapshotTooOld => FS_SNAPSHOT_TOO_OLD,
        Error::UnknownTransaction { .. } => FS_UNKNOWN_TRANSACTION,
        _ => FS_OTHER,
    }
}

/// Runs the body of a call that is done or fails; as [`answer`].
pub fn guard(body: impl FnOnce() -> Result<(), Failure>) -> c_int {
    answer(|| body().map(|()| FS_OK))
}

/// Runs the body of a call and turns whatever becomes of it into a status, panics too (C1).
pub fn answer(body: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    let failure = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(status)) => return status,
        Ok(Err(failure)) => failure,
        Err(panic) => Failure { status: FS_PANIC, message: Some(what_panicked(&*panic)), loser: None },
    };
    if let Some(loser) = failure.loser {
        LOST.set(Some((failure.status, loser)));
    }
    if let Some(message) = failure.message {
        // No message holds a zero byte, but a table's name in it may.
        let message = CString::new(message.replace('\0', "\\0")).unwrap_or_default();
        let _ = MESSAGE.try_with(|last| last.replace(message));
    }
    failure.status
}

/// Frees what C gave back. Nothing can be told about it, not even a panic; the message stays that of the last call that failed.
pub fn guard_free<T>(freed: Option<Box<T>>) {
    guard_end(|| drop(freed));
}

/// Runs the end of something, of which nothing can be told either.
pub fn guard_end(end: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(end));
}

fn what_panicked(panic: &(dyn std::any::Any + Send)) -> String {
    let what = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    format!("a fault in Foreshore, please report it: {}", what.unwrap_or("no message"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn message() -> String {
        // SAFETY: the pointer is to this thread's message, which does not change meanwhile.
        unsafe { CStr::from_ptr(fs_errmsg()) }.to_str().expect("messages are UTF-8").to_owned()
    }

    #[test]
    fn a_panic_is_a_status() {
        let status = guard(|| panic!("the {} broke", "latch"));
        assert_eq!(
            (status, message().as_str()),
            (FS_PANIC, "a fault in Foreshore, please report it: the latch broke")
        );
    }

    /// A destructor of a thread-local may come after the message's own.
    #[test]
    fn a_thread_that_ends_can_fail() {
        struct Last;
        impl Drop for Last {
            fn drop(&mut self) {
                assert_eq!(guard(|| Err(Failure::argument("late"))), FS_ARGUMENT);
                assert_eq!(message(), "");
            }
        }
        thread_local!(static LAST: Last = const { Last });
        let ends = || {
            LAST.with(|_| ()); // before the message, so that it goes after it
            assert_eq!(guard(|| Err(Failure::argument("first"))), FS_ARGUMENT);
        };
        std::thread::spawn(ends).join().expect("its end is no panic");
    }

    #[test]
    fn another_format_is_incompatible() {
        let error = Error::OtherFormat { dir: "d".into(), found: 1, supported: 3 };
        assert_eq!(status_of(&error), FS_INCOMPATIBLE);
    }

    #[test]
    fn what_c_returned_keeps_its_message() {
        assert_eq!(guard(|| Err(Failure::argument("first"))), FS_ARGUMENT);
        assert_eq!(guard(|| Err(Failure::returned(-77, 1))), -77);
        assert_eq!(message(), "first");
        assert_eq!(guard(|| Err(Failure::argument("a\0b"))), FS_ARGUMENT);
        assert_eq!(message(), "a\\0b");
    }

    /// C sees only numbers: they must say the same as the errors behind them.
    #[test]
    fn retryable_means_the_same_in_c() {
        let errors = [
            Error::Deadlock { txn: 1, with: 2, table: "t".into(), key: None },
            Error::LockTimeout {
                txn: 1,
                holder: None,
                gid: None,
                table: "t".into(),
                key: None,
                waited: Default::default(),
            },
            Error::Aborted { txn: 1 },
            Error::SnapshotTooOld,
            Error::Ended,
            Error::TooManyTransactions { max: 1 },
            Error::TableInUse { name: "t".into() },
            Error::Full { what: "x".into() },
            Error::Poisoned { cause: "x".into() },
            Error::Locked { dir: "d".into(), pid: None },
        ];
        for error in errors {
            assert_eq!(fs_is_retryable(status_of(&error)), error.is_retryable(), "{error}");
        }
        assert!(!fs_is_retryable(FS_OK) && !fs_is_retryable(FS_ABSENT) && !fs_is_retryable(FS_PANIC));
    }
}
