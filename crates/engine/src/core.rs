//! What all tables of a database share.

use crate::blob::Extents;
use crate::log::{Incarnation, Log};
use crate::pool::Pools;
use crate::tree::Meetings;
use crate::txn::Txns;
use crate::waits::Meter;
use foreshore_base::sync::AtomicU64;
use parking_lot::Mutex;
use std::sync::Arc;

/// See the module. Its methods are with the parts that they are about: `txn`, and `txn/garbage.rs`.
pub(crate) struct Core {
    pub pools: Pools,
    pub log: Arc<Log>,
    /// The lives of the log that it may still be asked for, this one included.
    pub incarnations: Vec<Incarnation>,
    pub txns: Txns,
    /// Held while an id for a large value is taken.
    pub blob_ids: Mutex<()>,
    /// Where the largest values lie.
    pub extents: Extents,
    /// Waits for leaf latches.
    pub latch_waits: Meter,
    /// Where writers meet.
    pub meetings: Meetings,
    /// Leaves split and absorbed so far.
    pub splits: AtomicU64,
    pub absorbs: AtomicU64,
}

impl Core {
    /// That of a database that is being opened. It has a cache of `cache_bytes`, and `old_version_bytes` for old versions.
    pub fn new(
        pools: Pools,
        log: Arc<Log>,
        incarnations: Vec<Incarnation>,
        extents: Extents,
        cache_bytes: usize,
        old_version_bytes: u64,
    ) -> Arc<Self> {
        Arc::new(Self {
            pools,
            log,
            incarnations,
            txns: Txns::new(cache_bytes, old_version_bytes),
            blob_ids: Mutex::new(()),
            extents,
            latch_waits: Meter::default(),
            meetings: Meetings::default(),
            splits: AtomicU64::new(0),
            absorbs: AtomicU64::new(0),
        })
    }
}
