//! Engines written in C: Berkeley DB, Kyoto Cabinet, LevelDB, RocksDB, WiredTiger, all behind one interface.
//!
//! How each is set up stands at the head of its shim, `shim/<engine>.c`; the interface that the shims share, in
//! `shim/engine.h`. Here are the safe wrappers around it; `kv` and `tx::c_engine` put them behind the workloads' traits.

mod ffi;
mod kv;

use foreshore_workloads::tx_store::{Counters, Isolation};
use foreshore_workloads::{Durability, StoreError, TxError};
use libc::c_int;
use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{null, null_mut};

pub use kv::CRows;

/// Which of them.
#[derive(Clone, Copy)]
pub struct Api(&'static ffi::Engine);

macro_rules! apis {
    ($($name:ident $feature:literal $symbol:ident)*) => {
        $(
            #[cfg(feature = $feature)]
            // SAFETY: a constant of the shim's.
            pub const $name: Api = Api(unsafe { &ffi::$symbol });
        )*
    };
}

apis! {
    BERKELEYDB "berkeleydb" peer_berkeleydb
    KYOTO "kyoto" peer_kyoto
    LEVELDB "leveldb" peer_leveldb
    ROCKSDB "rocksdb" peer_rocksdb
    WIREDTIGER "wiredtiger" peer_wiredtiger
}

impl Api {
    /// The library's version.
    pub fn version(self) -> String {
        let mut text = [0; 32];
        // SAFETY: the shim writes a string of at most this length, its end included.
        unsafe { (self.0.version)(text.as_mut_ptr(), text.len()) };
        // SAFETY: as above; `text` outlives the call.
        unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned()
    }
}

/// An open store.
pub struct CStore {
    api: Api,
    raw: *mut ffi::Store,
}

// SAFETY: the engines let threads share a store, each with sessions of its own; `table` and `settle` are called by one thread
// at a time, since workloads make their tables and settle between phases.
unsafe impl Send for CStore {}
// SAFETY: as above.
unsafe impl Sync for CStore {}

/// A table of a store.
#[derive(Clone, Copy)]
pub struct CTable(*mut ffi::Table);

// SAFETY: a table lives as long as its store, and the engines let threads share it.
unsafe impl Send for CTable {}
// SAFETY: as above.
unsafe impl Sync for CTable {}

fn given(bytes: &[u8]) -> ffi::Bytes {
    ffi::Bytes { data: bytes.as_ptr(), size: bytes.len() }
}

const NOTHING: ffi::Bytes = ffi::Bytes { data: null(), size: 0 };

/// Bytes that a session handed out.
///
/// # Safety
/// The session is not called while they are in use.
unsafe fn handed_out<'b>(bytes: ffi::Bytes) -> &'b [u8] {
    if bytes.size == 0 {
        return &[];
    }
    // SAFETY: the shim set both for a row that it found; the caller keeps the session from being called.
    unsafe { std::slice::from_raw_parts(bytes.data, bytes.size) }
}

/// Was there a row?
fn found(outcome: c_int) -> Result<bool, TxError> {
    match outcome {
        ffi::DONE => Ok(true),
        ffi::ABSENT => Ok(false),
        ffi::CONFLICT => Err(TxError::Conflict),
        _ => {
            // SAFETY: the shim keeps a terminated text for each thread.
            let text = unsafe { CStr::from_ptr(ffi::peer_error()) };
            Err(TxError::Store(text.to_string_lossy().into_owned().into()))
        }
    }
}

fn done(outcome: c_int) -> Result<(), TxError> {
    found(outcome).map(drop)
}

impl CStore {
    /// Opens a new store. `finds_all`: what is looked for is always there.
    ///
    /// Errors: what the engine says.
    pub fn open(
        api: Api,
        dir: &Path,
        durability: Durability,
        cache_bytes: u64,
        threads: usize,
        finds_all: bool,
    ) -> Result<Self, StoreError> {
        let dir = CString::new(dir.as_os_str().as_bytes())?;
        let options = ffi::Options {
            dir: dir.as_ptr(),
            cache_bytes,
            threads: u32::try_from(threads)?,
            durability: match durability {
                Durability::Sync => ffi::SYNC,
                Durability::Buffered => ffi::BUFFERED,
                Durability::Relaxed => ffi::RELAXED,
            },
            finds_all: finds_all.into(),
        };
        let mut raw = null_mut();
        // SAFETY: the options live through the call, which copies what it keeps.
        done(unsafe { (api.0.open)(&options, &mut raw) })?;
        Ok(Self { api, raw })
    }

    /// The table `name`, created if there is none.
    pub fn table(&self, name: &str) -> Result<CTable, StoreError> {
        let name = CString::new(name)?;
        let mut table = null_mut();
        // SAFETY: the store is open, the name lives through the call.
        done(unsafe { (self.api.0.table)(self.raw, name.as_ptr(), &mut table) })?;
        Ok(CTable(table))
    }

    /// Begins to work on this thread.
    pub fn session(&self) -> Result<CSession<'_>, StoreError> {
        let mut raw = null_mut();
        // SAFETY: the store is open, and outlives the session.
        done(unsafe { (self.api.0.begin_session)(self.raw, &mut raw) })?;
        Ok(CSession { calls: Calls { engine: self.api.0, raw }, store: PhantomData })
    }

    /// How its transactions are isolated.
    pub fn isolation(&self) -> Isolation {
        match self.api.0.isolation {
            ffi::SERIALIZABLE => Isolation::Serializable,
            ffi::SNAPSHOT => Isolation::Snapshot,
            _ => Isolation::Operation,
        }
    }

    /// What the engine has counted since it was opened.
    pub fn counters(&self) -> Counters {
        let mut counted = ffi::Counters::default();
        // SAFETY: the store is open.
        unsafe { (self.api.0.counters)(self.raw, &mut counted) };
        Counters { log_bytes: counted.log_bytes.try_into().ok(), syncs: counted.syncs.try_into().ok() }
    }

    /// Brings it to rest.
    pub fn settle(&self) -> Result<(), StoreError> {
        // SAFETY: the store is open.
        Ok(done(unsafe { (self.api.0.settle)(self.raw) })?)
    }
}

impl Drop for CStore {
    fn drop(&mut self) {
        // SAFETY: sessions borrow the store, so none is left.
        unsafe { (self.api.0.close)(self.raw) };
    }
}

/// One thread's access, while the store is open.
pub struct CSession<'a> {
    /// What it can be asked.
    pub calls: Calls,
    store: PhantomData<&'a CStore>,
}

/// The calls of a session. Every one may say [`TxError::Conflict`]: the transaction, if one has begun, must be rolled back;
/// else nothing has happened.
pub struct Calls {
    engine: &'static ffi::Engine,
    raw: *mut ffi::Session,
}

impl Calls {
    /// Begins a transaction; says whether the engine has any.
    pub fn begin(&mut self, is_read_only: bool) -> Result<bool, TxError> {
        let Some(begin) = self.engine.begin else { return Ok(false) };
        // SAFETY: no transaction is running, since each is ended before the next begins.
        done(unsafe { begin(self.raw, is_read_only.into()) })?;
        Ok(true)
    }

    /// Commits the transaction; if that fails it was rolled back.
    pub fn commit(&mut self) -> Result<(), TxError> {
        let Some(commit) = self.engine.commit else { return Ok(()) };
        // SAFETY: a transaction is running.
        done(unsafe { commit(self.raw) })
    }

    /// Rolls the transaction back.
    pub fn roll_back(&mut self) {
        if let Some(rollback) = self.engine.rollback {
            // SAFETY: a transaction is running.
            unsafe { rollback(self.raw) };
        }
    }

    /// Looks a key up and lets `read` see its value.
    pub fn get<R>(
        &mut self,
        table: CTable,
        key: &[u8],
        is_for_update: bool,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, TxError> {
        let mut value = NOTHING;
        // SAFETY: the table is one of this session's store; the key lives through the call.
        let outcome =
            unsafe { (self.engine.get)(self.raw, table.0, given(key), is_for_update.into(), &mut value) };
        // SAFETY: the session is borrowed until `read` is done.
        Ok(found(outcome)?.then(|| read(unsafe { handed_out(value) })))
    }

    /// Inserts or replaces a row.
    pub fn put(&mut self, table: CTable, key: &[u8], value: &[u8]) -> Result<(), TxError> {
        // SAFETY: as in `get`; the engine copies both.
        done(unsafe { (self.engine.put)(self.raw, table.0, given(key), given(value)) })
    }

    /// Inserts a row unless there is one with this key; says whether it did. `None` if the engine has no call for that.
    pub fn insert(&mut self, table: CTable, key: &[u8], value: &[u8]) -> Result<Option<bool>, TxError> {
        let Some(insert) = self.engine.insert else { return Ok(None) };
        // SAFETY: as in `put`.
        match unsafe { insert(self.raw, table.0, given(key), given(value)) } {
            ffi::PRESENT => Ok(Some(false)),
            outcome => done(outcome).map(|()| Some(true)),
        }
    }

    /// Removes a row; says whether there was one.
    pub fn remove(&mut self, table: CTable, key: &[u8]) -> Result<bool, TxError> {
        // SAFETY: as in `get`.
        found(unsafe { (self.engine.remove)(self.raw, table.0, given(key)) })
    }

    /// Shows the rows at or above `bound`, or those below it from the last one down, until `each` breaks.
    pub fn scan(
        &mut self,
        table: CTable,
        bound: &[u8],
        is_reverse: bool,
        mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), TxError> {
        let (mut key, mut value) = (NOTHING, NOTHING);
        let scan = OpenScan { engine: self.engine, raw: self.raw };
        // SAFETY: as in `get`; this session has no other scan.
        let mut outcome = unsafe {
            (self.engine.scan)(self.raw, table.0, given(bound), is_reverse.into(), &mut key, &mut value)
        };
        // SAFETY: the session is not called again before `each` is done.
        while found(outcome)? && unsafe { each(handed_out(key), handed_out(value)) }.is_continue() {
            // SAFETY: the scan is open.
            outcome = unsafe { (self.engine.scan_next)(self.raw, &mut key, &mut value) };
        }
        drop(scan);
        Ok(())
    }

    /// Loads sorted rows into an empty table; returns how many.
    pub fn bulk<K: AsRef<[u8]>>(
        &mut self,
        table: CTable,
        rows: impl Iterator<Item = (K, K)>,
    ) -> Result<u64, TxError> {
        let mut count = 0;
        // SAFETY: as in `get`; between begin and end the session only takes rows, which the engine copies.
        unsafe {
            done((self.engine.bulk_begin)(self.raw, table.0))?;
            for (key, value) in rows {
                done((self.engine.bulk_row)(self.raw, given(key.as_ref()), given(value.as_ref())))?;
                count += 1;
            }
            done((self.engine.bulk_end)(self.raw))?;
        }
        Ok(count)
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        // SAFETY: the session is used by nobody any more, and its store is still open.
        unsafe { (self.engine.end_session)(self.raw) };
    }
}

/// A scan, ended on drop.
struct OpenScan {
    engine: &'static ffi::Engine,
    raw: *mut ffi::Session,
}

impl Drop for OpenScan {
    fn drop(&mut self) {
        // SAFETY: made by `Calls::scan`, whose session is still there; ends also what did not begin well.
        unsafe { (self.engine.scan_end)(self.raw) };
    }
}
