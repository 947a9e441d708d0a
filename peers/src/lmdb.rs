//! LMDB: a copy-on-write B+-tree in a memory map, one writer at a time.
//!
//! - `sync`: its default: data and meta page are synced in each commit.
//! - `buffered`, `relaxed`: `MDB_NOSYNC | MDB_WRITEMAP`: a commit is in the operating system's page cache.
//! - A session keeps one read transaction, reset and renewed for each lookup: what its documentation calls the way to
//!   avoid allocation, and the cheapest one that sees every commit.
//! - `--cache` does not apply: the page cache holds the map.

use foreshore_workloads::{Durability, KvSpec, Row, Session, Store, StoreError};
use libc::{c_int, c_uint};
use lmdb_master_sys as ffi;
use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{null, null_mut};

/// Address space for the map, far more than any run writes; the file is sparse.
const MAP_BYTES: usize = 1 << 36;

/// An empty LMDB environment with its main database open.
pub struct Lmdb {
    env: Env,
    dbi: ffi::MDB_dbi,
}

/// An open environment.
pub struct Env {
    env: *mut ffi::MDB_env,
}

// SAFETY: LMDB's documentation: "A single environment may be used by many threads"; the pointer is only freed on drop.
unsafe impl Send for Env {}
// SAFETY: as above.
unsafe impl Sync for Env {}

/// The library's version.
pub fn version() -> String {
    format!("{}.{}.{}", ffi::MDB_VERSION_MAJOR, ffi::MDB_VERSION_MINOR, ffi::MDB_VERSION_PATCH)
}

/// Turns LMDB's return codes into errors.
pub fn ok(code: c_int) -> Result<(), StoreError> {
    if code == ffi::MDB_SUCCESS as c_int {
        return Ok(());
    }
    // SAFETY: `mdb_strerror` returns a static, terminated string for any code.
    let text = unsafe { CStr::from_ptr(ffi::mdb_strerror(code)) };
    Err(format!("lmdb: {}", text.to_string_lossy()).into())
}

/// Bytes for LMDB to read.
pub fn val(bytes: &[u8]) -> ffi::MDB_val {
    ffi::MDB_val { mv_size: bytes.len(), mv_data: bytes.as_ptr().cast_mut().cast() }
}

/// Bytes that LMDB handed out.
///
/// # Safety
/// `val` was set by LMDB, and its transaction neither ends nor writes while the bytes are in use.
pub unsafe fn bytes<'b>(val: &ffi::MDB_val) -> &'b [u8] {
    // SAFETY: LMDB points into its map; the caller keeps the transaction from changing it.
    unsafe { std::slice::from_raw_parts(val.mv_data.cast(), val.mv_size) }
}

impl Env {
    /// Opens a new environment; `tables` may be opened beside the main database.
    ///
    /// Errors: what LMDB says.
    pub fn open(
        dir: &Path,
        durability: Durability,
        threads: usize,
        tables: usize,
    ) -> Result<Self, StoreError> {
        let syncing = match durability {
            Durability::Sync => 0,
            Durability::Buffered | Durability::Relaxed => ffi::MDB_NOSYNC | ffi::MDB_WRITEMAP,
        };
        // As its documentation advises for random reads of more than fits into memory; of no account otherwise.
        let flags = syncing | ffi::MDB_NORDAHEAD;
        let path = CString::new(dir.as_os_str().as_bytes())?;
        let mut env = Self { env: null_mut() };
        // SAFETY: `env` is made here and used by no one else yet; `path` lives through the call. Should a call fail, `drop`
        // closes the environment, as LMDB asks for even after a failed open.
        unsafe {
            ok(ffi::mdb_env_create(&mut env.env))?;
            ok(ffi::mdb_env_set_mapsize(env.env, MAP_BYTES))?;
            ok(ffi::mdb_env_set_maxreaders(env.env, threads as c_uint + 16))?;
            ok(ffi::mdb_env_set_maxdbs(env.env, tables as ffi::MDB_dbi))?;
            ok(ffi::mdb_env_open(env.env, path.as_ptr(), flags, 0o644))?;
        }
        Ok(env)
    }

    /// Syncs what unsynced commits left behind.
    pub fn sync(&self) -> Result<(), StoreError> {
        // SAFETY: the environment is open.
        ok(unsafe { ffi::mdb_env_sync(self.env, 1) })
    }
}

impl Drop for Env {
    fn drop(&mut self) {
        if !self.env.is_null() {
            // SAFETY: sessions and transactions borrow `self`, so none is left.
            unsafe { ffi::mdb_env_close(self.env) };
        }
    }
}

impl Lmdb {
    /// Creates it.
    ///
    /// Errors: what LMDB says.
    pub fn create(dir: &Path, spec: &KvSpec) -> Result<Self, StoreError> {
        let env = Env::open(dir, spec.durability, spec.threads, 0)?;
        let write = Txn::begin(&env, 0)?;
        let mut dbi = 0;
        // SAFETY: `write` is a live transaction of this environment; a null name is the main database.
        ok(unsafe { ffi::mdb_dbi_open(write.txn, null(), 0, &mut dbi) })?;
        write.commit()?;
        Ok(Self { env, dbi })
    }
}

/// A transaction, aborted on drop.
pub struct Txn<'a> {
    txn: *mut ffi::MDB_txn,
    env: PhantomData<&'a Env>,
}

impl<'a> Txn<'a> {
    /// Begins one.
    pub fn begin(env: &'a Env, flags: c_uint) -> Result<Self, StoreError> {
        let mut txn = null_mut();
        // SAFETY: the environment is open.
        ok(unsafe { ffi::mdb_txn_begin(env.env, null_mut(), flags, &mut txn) })?;
        Ok(Self { txn, env: PhantomData })
    }

    /// A read transaction that is to be renewed for each use.
    pub fn reset_reader(env: &'a Env) -> Result<Self, StoreError> {
        let reader = Self::begin(env, ffi::MDB_RDONLY)?;
        // SAFETY: a live read transaction.
        unsafe { ffi::mdb_txn_reset(reader.txn) };
        Ok(reader)
    }

    /// For LMDB's functions; live as long as `self`.
    pub fn raw(&self) -> *mut ffi::MDB_txn {
        self.txn
    }

    /// Commits.
    pub fn commit(self) -> Result<(), StoreError> {
        let txn = self.txn;
        std::mem::forget(self);
        // SAFETY: a commit frees the transaction, whether it succeeds or not; `drop` does not run any more.
        ok(unsafe { ffi::mdb_txn_commit(txn) })
    }
}

impl Drop for Txn<'_> {
    fn drop(&mut self) {
        // SAFETY: `commit` forgets `self`, so the transaction is still allocated.
        unsafe { ffi::mdb_txn_abort(self.txn) };
    }
}

/// A row, as long as its transaction does not write.
type Entry<'t> = (&'t [u8], &'t [u8]);

/// A cursor, closed on drop, before its transaction ends. Its transaction must not write while its rows are in use.
pub struct Cursor<'t> {
    cursor: *mut ffi::MDB_cursor,
    txn: PhantomData<&'t Txn<'t>>,
}

impl<'t> Cursor<'t> {
    /// Opens one.
    pub fn open(txn: &'t Txn<'_>, dbi: ffi::MDB_dbi) -> Result<Self, StoreError> {
        let mut cursor = null_mut();
        // SAFETY: `txn` is live, `dbi` is open.
        ok(unsafe { ffi::mdb_cursor_open(txn.txn, dbi, &mut cursor) })?;
        Ok(Self { cursor, txn: PhantomData })
    }

    /// The first row at or above `from`.
    pub fn seek(&self, from: &[u8]) -> Result<Option<Entry<'_>>, StoreError> {
        // LMDB has no empty keys.
        let step = if from.is_empty() { ffi::MDB_FIRST } else { ffi::MDB_SET_RANGE };
        self.get(val(from), step)
    }

    /// The row that `step` (`MDB_NEXT` …) leads to.
    pub fn step(&self, step: ffi::MDB_cursor_op) -> Result<Option<Entry<'_>>, StoreError> {
        self.get(val(&[]), step)
    }

    fn get(&self, mut key: ffi::MDB_val, step: ffi::MDB_cursor_op) -> Result<Option<Entry<'_>>, StoreError> {
        let mut value = val(&[]);
        // SAFETY: the cursor is open, its transaction live.
        match unsafe { ffi::mdb_cursor_get(self.cursor, &mut key, &mut value, step) } {
            ffi::MDB_NOTFOUND => Ok(None),
            code => {
                ok(code)?;
                // SAFETY: LMDB set both; who holds a cursor does not write.
                Ok(Some(unsafe { (bytes(&key), bytes(&value)) }))
            }
        }
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        // SAFETY: the cursor borrows its transaction, which is therefore still live.
        unsafe { ffi::mdb_cursor_close(self.cursor) };
    }
}

/// One thread's access: a read transaction that is reset whenever it is not in use.
pub struct LmdbSession<'a> {
    lmdb: &'a Lmdb,
    reader: Txn<'a>,
}

/// A reader, renewed; reset on drop.
pub struct Renewed<'s>(&'s Txn<'s>);

impl<'s> Renewed<'s> {
    /// The transaction, which sees the newest commit.
    pub fn txn(&self) -> &'s Txn<'s> {
        self.0
    }

    /// Renews a reader that was reset.
    pub fn new(reader: &'s Txn<'_>) -> Result<Self, StoreError> {
        // SAFETY: the reader was reset, and is used on the thread that made it.
        ok(unsafe { ffi::mdb_txn_renew(reader.txn) })?;
        Ok(Self(reader))
    }
}

impl Drop for Renewed<'_> {
    fn drop(&mut self) {
        // SAFETY: the reader was renewed, and nothing read through it is still borrowed.
        unsafe { ffi::mdb_txn_reset(self.0.txn) };
    }
}

impl Store for Lmdb {
    type Session<'a> = LmdbSession<'a>;

    fn session(&self) -> Result<LmdbSession<'_>, StoreError> {
        Ok(LmdbSession { lmdb: self, reader: Txn::reset_reader(&self.env)? })
    }

    fn sync_count(&self) -> Option<u64> {
        None
    }

    fn settle(&self) -> Result<(), StoreError> {
        self.env.sync()
    }
}

impl Session for LmdbSession<'_> {
    fn get<R>(&mut self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, StoreError> {
        let renewed = Renewed::new(&self.reader)?;
        let (mut key, mut value) = (val(key), val(&[]));
        // SAFETY: the reader is live; LMDB does not write through the key.
        match unsafe { ffi::mdb_get(renewed.0.txn, self.lmdb.dbi, &mut key, &mut value) } {
            ffi::MDB_NOTFOUND => Ok(None),
            code => {
                ok(code)?;
                // SAFETY: LMDB set `value` to bytes in the map that stay until the reader is reset, after `read`.
                Ok(Some(read(unsafe { bytes(&value) })))
            }
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let write = Txn::begin(&self.lmdb.env, 0)?;
        let (mut key, mut value) = (val(key), val(value));
        // SAFETY: the transaction is live; LMDB copies key and value, and writes through neither without MDB_RESERVE.
        ok(unsafe { ffi::mdb_put(write.txn, self.lmdb.dbi, &mut key, &mut value, 0) })?;
        write.commit()
    }

    fn scan(
        &mut self,
        from: &[u8],
        limit: u64,
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64, StoreError> {
        let renewed = Renewed::new(&self.reader)?;
        let cursor = Cursor::open(renewed.0, self.lmdb.dbi)?;
        let mut row = cursor.seek(from)?;
        let mut rows = 0;
        while let Some((key, value)) = row
            && rows < limit
        {
            each(key, value);
            rows += 1;
            row = cursor.step(ffi::MDB_NEXT)?;
        }
        Ok(rows)
    }

    /// `MDB_APPEND`, its documented bulk load, a transaction every million rows.
    fn bulk(&mut self, rows: impl Iterator<Item = Row>) -> Result<u64, StoreError> {
        const ROWS_PER_TXN: usize = 1_000_000;
        let mut rows = rows.peekable();
        let mut count = 0;
        while rows.peek().is_some() {
            let write = Txn::begin(&self.lmdb.env, 0)?;
            let cursor = Cursor::open(&write, self.lmdb.dbi)?;
            for row in rows.by_ref().take(ROWS_PER_TXN) {
                let (mut key, mut value) = (val(&row.key), val(&row.value));
                // SAFETY: the cursor is open, its transaction live; LMDB copies key and value.
                ok(unsafe { ffi::mdb_cursor_put(cursor.cursor, &mut key, &mut value, ffi::MDB_APPEND) })?;
                count += 1;
            }
            drop(cursor);
            write.commit()?;
        }
        Ok(count)
    }
}
