//! `shim/engine.h`, as Rust sees it. What the functions do and may be asked stands there.

use libc::{c_char, c_int};

/// `enum Outcome`.
pub const DONE: c_int = 0;
pub const ABSENT: c_int = 1;
pub const CONFLICT: c_int = 2;
pub const PRESENT: c_int = 4;

/// `enum Durability`.
pub const SYNC: c_int = 0;
pub const BUFFERED: c_int = 1;
pub const RELAXED: c_int = 2;

/// `enum Isolation`.
pub const SERIALIZABLE: c_int = 0;
pub const SNAPSHOT: c_int = 1;

/// An engine's own structures.
#[repr(C)]
pub struct Store([u8; 0]);
#[repr(C)]
pub struct Table([u8; 0]);
#[repr(C)]
pub struct Session([u8; 0]);

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Bytes {
    pub data: *const u8,
    pub size: usize,
}

#[repr(C)]
pub struct Options {
    pub dir: *const c_char,
    pub cache_bytes: u64,
    pub threads: u32,
    pub durability: c_int,
    pub finds_all: c_int,
}

#[derive(Default)]
#[repr(C)]
pub struct Counters {
    pub log_bytes: i64,
    pub syncs: i64,
}

type Row = unsafe extern "C" fn(*mut Session, *mut Bytes, *mut Bytes) -> c_int;
type Do = unsafe extern "C" fn(*mut Session) -> c_int;
type End = unsafe extern "C" fn(*mut Session);

#[repr(C)]
pub struct Engine {
    pub isolation: c_int,
    pub version: unsafe extern "C" fn(*mut c_char, usize),
    pub open: unsafe extern "C" fn(*const Options, *mut *mut Store) -> c_int,
    pub close: unsafe extern "C" fn(*mut Store),
    pub settle: unsafe extern "C" fn(*mut Store) -> c_int,
    pub counters: unsafe extern "C" fn(*mut Store, *mut Counters),
    pub table: unsafe extern "C" fn(*mut Store, *const c_char, *mut *mut Table) -> c_int,
    pub begin_session: unsafe extern "C" fn(*mut Store, *mut *mut Session) -> c_int,
    pub end_session: End,
    pub begin: Option<unsafe extern "C" fn(*mut Session, c_int) -> c_int>,
    pub commit: Option<Do>,
    pub rollback: Option<End>,
    pub get: unsafe extern "C" fn(*mut Session, *mut Table, Bytes, c_int, *mut Bytes) -> c_int,
    pub put: unsafe extern "C" fn(*mut Session, *mut Table, Bytes, Bytes) -> c_int,
    pub insert: Option<unsafe extern "C" fn(*mut Session, *mut Table, Bytes, Bytes) -> c_int>,
    pub remove: unsafe extern "C" fn(*mut Session, *mut Table, Bytes) -> c_int,
    pub scan: unsafe extern "C" fn(*mut Session, *mut Table, Bytes, c_int, *mut Bytes, *mut Bytes) -> c_int,
    pub scan_next: Row,
    pub scan_end: End,
    pub bulk_begin: unsafe extern "C" fn(*mut Session, *mut Table) -> c_int,
    pub bulk_row: unsafe extern "C" fn(*mut Session, Bytes, Bytes) -> c_int,
    pub bulk_end: Do,
}

// SAFETY: declared as in `shim/engine.h`, which each shim includes.
unsafe extern "C" {
    pub fn peer_error() -> *const c_char;
    #[cfg(feature = "berkeleydb")]
    pub static peer_berkeleydb: Engine;
    #[cfg(feature = "kyoto")]
    pub static peer_kyoto: Engine;
    #[cfg(feature = "leveldb")]
    pub static peer_leveldb: Engine;
    #[cfg(feature = "rocksdb")]
    pub static peer_rocksdb: Engine;
    #[cfg(feature = "wiredtiger")]
    pub static peer_wiredtiger: Engine;
}
