//! Databases: opening, what is in them, upkeep, closing.

use crate::cursor::Cursor;
use crate::memory::{Buf, Bytes, c_str, give, text, there};
use crate::options::Options;
use crate::status::{FS_ABSENT, FS_OK, Failure, answer, guard, guard_free};
use crate::table::Table;
use foreshore::Database;
use foreshore_bindings::{TableHandle, backup, open, table_options};
use std::ffi::{OsStr, c_char, c_int};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::process;

/// An open database.
pub struct Db {
    pub(crate) database: Database,
    /// Whose it is: who forks later keeps it.
    pub(crate) process: u32,
}

impl Db {
    fn new(database: Database) -> Self {
        Self { database, process: process::id() }
    }
}

/// Opens the database in the directory `path`, creating it if there is none; ":memory:" makes one in memory. `options` may
/// be NULL. After a crash this recovers. Free it with `fs_close` or `fs_db_free`.
///
/// Statuses: FS_LOCKED if it is open already, FS_INCOMPATIBLE if the directory is something else, FS_CORRUPT, FS_FULL, FS_IO,
/// FS_ARGUMENT for an empty path or an option that makes no sense.
#[unsafe(no_mangle)]
pub extern "C" fn fs_open(
    path: *const c_char,
    options: Option<&Options>,
    out: Option<&mut MaybeUninit<Option<Box<Db>>>>,
) -> c_int {
    guard(|| {
        let out = there(out, "out")?;
        // SAFETY: C promises a terminated string, or NULL.
        let path = OsStr::from_bytes(unsafe { c_str(path, "path")? }.to_bytes());
        let database = open(path.as_ref(), Options::pairs(options))?;
        give(out, Db::new(database));
        Ok(())
    })
}

/// Writes everything out, stops accepting writes, and frees `db`, whatever the status. The directory stays locked until the
/// tables, transactions, snapshots and cursors of the database are freed too.
#[unsafe(no_mangle)]
pub extern "C" fn fs_close(db: Option<Box<Db>>) -> c_int {
    guard(|| Ok(there(db, "db")?.database.close()?))
}

/// Frees the handle. The database closes with its last one; what goes wrong then is lost, unlike with `fs_close`.
#[unsafe(no_mangle)]
pub extern "C" fn fs_db_free(db: Option<Box<Db>>) {
    guard_free(db);
}

/// Opens the table `name` (UTF-8), creating it if there is none. Each call on it is a transaction of its own: it happens as a
/// whole or not at all, and waits as the database's durability says. Free it with `fs_table_free`.
///
/// `options` may be NULL. They say how a new table is made; one that exists stays what it is (`fs_table_index`,
/// `fs_table_leaf_bytes`).
#[unsafe(no_mangle)]
pub extern "C" fn fs_open_table(
    db: Option<&Db>,
    name: *const c_char,
    options: Option<&Options>,
    out: Option<&mut MaybeUninit<Option<Box<Table>>>>,
) -> c_int {
    guard(|| {
        let out = there(out, "out")?;
        // SAFETY: C promises a terminated string, or NULL.
        let name = unsafe { text(name, "name")? };
        let options = table_options(Options::pairs(options))?;
        let table = there(db, "db")?.database.byte_table_with(name, options)?;
        give(out, Table { handle: TableHandle::latest(table) });
        Ok(())
    })
}

/// Gives the table `from` the name `to`, durably; FS_ABSENT if there is none, FS_ARGUMENT if there is a table `to` already. Its
/// handles, and what else uses it, go on.
#[unsafe(no_mangle)]
pub extern "C" fn fs_rename_table(db: Option<&Db>, from: *const c_char, to: *const c_char) -> c_int {
    answer(|| {
        // SAFETY: C promises terminated strings, or NULL.
        let (from, to) = unsafe { (text(from, "from")?, text(to, "to")?) };
        let existed = there(db, "db")?.database.rename_table(from, to)?;
        Ok(if existed { FS_OK } else { FS_ABSENT })
    })
}

/// Removes a table with all its rows; FS_ABSENT if there is none. Its handles give FS_TABLE_DROPPED from then on.
#[unsafe(no_mangle)]
pub extern "C" fn fs_drop_table(db: Option<&Db>, name: *const c_char) -> c_int {
    answer(|| {
        // SAFETY: C promises a terminated string, or NULL.
        let name = unsafe { text(name, "name")? };
        let existed = there(db, "db")?.database.drop_table(name)?;
        Ok(if existed { FS_OK } else { FS_ABSENT })
    })
}

/// Lists the tables: a cursor whose keys are their names, in byte order, and whose values are empty.
#[unsafe(no_mangle)]
pub extern "C" fn fs_tables(db: Option<&Db>, out: Option<&mut MaybeUninit<Option<Box<Cursor>>>>) -> c_int {
    guard(|| {
        let out = there(out, "out")?;
        let names = there(db, "db")?.database.tables()?;
        let names = names.into_iter().map(String::into_bytes);
        give(out, Cursor::of_names(names));
        Ok(())
    })
}

/// Waits until everything acknowledged so far, in whatever durability, would survive a power failure.
#[unsafe(no_mangle)]
pub extern "C" fn fs_sync(db: Option<&Db>) -> c_int {
    guard(|| Ok(there(db, "db")?.database.sync()?))
}

/// Writes changed leaves out, so that a restart has little log to read. Happens by itself as the log grows.
#[unsafe(no_mangle)]
pub extern "C" fn fs_checkpoint(db: Option<&Db>) -> c_int {
    guard(|| Ok(there(db, "db")?.database.checkpoint()?))
}

/// Stores the database's counters in `json`, as an object of JSON whose names end in their units.
#[unsafe(no_mangle)]
pub extern "C" fn fs_stats(db: Option<&Db>, json: Option<&mut Buf>) -> c_int {
    guard(|| {
        let (db, json) = (there(db, "db")?, there(json, "json")?);
        let stats = db.database.stats();
        json.set(serde_json::to_vec(&stats).map_err(not_json)?);
        Ok(())
    })
}

/// Walks and compares all structures of the database; stores in `json` what each table is like. FS_CORRUPT names the first
/// thing that is broken.
#[unsafe(no_mangle)]
pub extern "C" fn fs_check(db: Option<&Db>, json: Option<&mut Buf>) -> c_int {
    guard(|| {
        let (db, json) = (there(db, "db")?, there(json, "json")?);
        let report = db.database.check()?;
        json.set(serde_json::to_vec(&report).map_err(not_json)?);
        Ok(())
    })
}

/// Copies the database into the absent or empty directory `path`, while others read and write; the copy is a database like
/// any other. It shows what was committed when the call began, and is durable when it returns. What is cut short is refused
/// by `fs_open`, and may be given to the next backup. Stores in `json`, unless that is NULL, how much was copied.
///
/// Statuses: FS_INCOMPATIBLE if the directory holds anything, FS_SNAPSHOT_TOO_OLD if the rows changed meanwhile outgrew
/// `old_version_bytes`, FS_CORRUPT, FS_FULL, FS_IO, FS_ARGUMENT for ":memory:", by which `fs_open` would not find the copy.
#[unsafe(no_mangle)]
pub extern "C" fn fs_backup(db: Option<&Db>, path: *const c_char, json: Option<&mut Buf>) -> c_int {
    guard(|| {
        // SAFETY: C promises a terminated string, or NULL.
        let path = OsStr::from_bytes(unsafe { c_str(path, "path")? }.to_bytes());
        let copied = backup(&there(db, "db")?.database, path.as_ref())?;
        if let Some(json) = json {
            json.set(serde_json::to_vec(&copied).map_err(not_json)?);
        }
        Ok(())
    })
}

fn not_json(error: serde_json::Error) -> Failure {
    Failure::argument(format!("no JSON can be made of this: {error}"))
}

/// Rolls back the transaction with this number (`fs_tx_number`), whatever its thread is doing: its calls give FS_ABORTED.
/// FS_ABSENT if it had ended.
#[unsafe(no_mangle)]
pub extern "C" fn fs_abort(db: Option<&Db>, number: u64) -> c_int {
    answer(|| Ok(if there(db, "db")?.database.abort(number)? { FS_OK } else { FS_ABSENT }))
}

/// Lists the transactions that were prepared and wait to hear whether to commit, also those from before a crash: a cursor
/// whose keys are their ids, and whose values are empty.
#[unsafe(no_mangle)]
pub extern "C" fn fs_prepared(db: Option<&Db>, out: Option<&mut MaybeUninit<Option<Box<Cursor>>>>) -> c_int {
    guard(|| {
        let out = there(out, "out")?;
        let gids = there(db, "db")?.database.recover();
        give(out, Cursor::of_names(gids));
        Ok(())
    })
}

/// Commits a prepared transaction, durably; FS_UNKNOWN_TRANSACTION if there is none with this id.
#[unsafe(no_mangle)]
pub extern "C" fn fs_commit_prepared(db: Option<&Db>, gid: Bytes) -> c_int {
    guard(|| Ok(there(db, "db")?.database.commit_prepared(gid.get()?)?))
}

/// Rolls back a prepared transaction; FS_UNKNOWN_TRANSACTION if there is none with this id. It may be in the list again when the
/// database has been opened again after a crash, to be rolled back again.
#[unsafe(no_mangle)]
pub extern "C" fn fs_rollback_prepared(db: Option<&Db>, gid: Bytes) -> c_int {
    guard(|| Ok(there(db, "db")?.database.rollback_prepared(gid.get()?)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::FS_ARGUMENT;
    use crate::table::fs_get_for_update;
    use foreshore::TransactionOptions;
    use foreshore_bindings::TransactionHandle;
    use std::ffi::CString;
    use std::time::Duration;

    /// C3: no directory, no table, no lock.
    #[test]
    fn a_call_without_a_place_for_its_result_does_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let name = CString::new(path.as_os_str().as_bytes()).unwrap();
        assert_eq!(fs_open(name.as_ptr(), None, None), FS_ARGUMENT);
        assert!(!path.exists());

        let db = Db::new(Database::in_memory().unwrap());
        assert_eq!(fs_open_table(Some(&db), c"t".as_ptr(), None, None), FS_ARGUMENT);
        assert!(db.database.tables().unwrap().is_empty());

        let table = db.database.byte_table("t").unwrap();
        let tx = TransactionHandle::begin(&db.database, TransactionOptions::new()).unwrap();
        let inside = Table { handle: TableHandle::latest(table.clone()).within(&tx) };
        assert_eq!(fs_get_for_update(Some(&inside), Bytes::lend(b"k"), None), FS_ARGUMENT);
        table.with_lock_timeout(Duration::ZERO).put(b"k", b"v").expect("nobody has locked it");
    }
}
