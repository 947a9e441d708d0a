//! One table: a chain of leaves, and the index that finds them.
//!
//! Source: OLFIT (Cha et al., VLDB 2001) §5: the leaves are a B-link level of their own, the index above is a hint.
//! Differs: the index is volatile and maps each leaf's low fence to its page; nothing in it is ever logged.
//!
//! | file | concept |
//! |---|---|
//! | `index`, `descend` | the index; from a key to its leaf |
//! | `read`, `many` | reading one row; many at once |
//! | `copy`, `cursor`, `ahead` | walks: copies of leaves, rows in order, leaves read before they are needed |
//! | `single`, `unversioned`, `ghosts` | changing a row, as a commit of its own; a row without versions; removing what removals left |
//! | `write`, `rows`, `removal` | changing rows in a transaction: one, many, those of a range |
//! | `insertion`, `obstacle` | may a new key go here; what keeps a write from a leaf that it has latched |
//! | `spans`, `voids` | runs of ghosts that are locked as one; where there is nothing else |
//! | `ranges` | what large transactions have scanned, locked as one |
//! | `smo`, `meetings` | splits and absorptions; splits of leaves in which writers meet |
//! | `mend` | the chain of leaves of different ages |
//! | `users` | which transactions use the table |
//! | `naming` | its name |
//! | `create`, `bulk` | new tables; loading sorted rows |
//! | `estimate`, `check` | about how many rows there are; is all in order |
//!
//! Invariants:
//! - T1: the live leaves of a table tile the key space: each one's high fence is the next one's low fence, the first
//!   low fence is empty, the last high fence infinite.
//! - T2 (rule 4): a leaf's low fence never changes while it lives: splits move the upper part right, absorption extends left
//!   leaves to the right.
//! - T3: the index may lack a leaf, which is about to be posted by whoever split it off, and is not absorbed before that. An
//!   entry leads to the leaf with that low fence, or to one that was absorbed; that one says so, and its entry is about to be
//!   removed by who absorbed it, or replaced by who has split the absorbing leaf at the same place. Until then its id is not
//!   used again.
//! - T4 (rule 1): nothing that may wait is called under a latch.

mod ahead;
mod bulk;
mod check;
mod copy;
mod create;
mod cursor;
mod descend;
mod estimate;
mod ghosts;
mod index;
mod insertion;
mod many;
mod meetings;
mod mend;
mod naming;
mod obstacle;
mod ranges;
mod read;
mod removal;
mod rows;
mod single;
mod smo;
mod spans;
#[cfg(test)]
pub(crate) mod testing;
mod unversioned;
mod up_to;
mod users;
mod voids;
mod write;

use crate::blob::VALUE_BYTES_MAX;
use crate::core::Core;
use crate::db::{Index, Types};
use crate::error::{Error, Result};
use crate::leaf::Limits;
use crate::pool::Pool;
use crate::txn::LargeOnes;
use crate::waits::Meter;
use crossbeam_utils::CachePadded;
use foreshore_base::TableId;
use foreshore_base::sync::{AtomicBool, AtomicU64, Ordering::Relaxed};
use naming::Naming;
use parking_lot::Mutex;
use spans::Spans;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use users::Users;

pub(crate) use ahead::Ahead;
pub(crate) use create::empty_leaf;
pub(crate) use cursor::{Backward, Forward, Values};
pub(crate) use descend::Stamp;
pub(crate) use index::TreeIndex;
pub(crate) use meetings::Meetings;
pub(crate) use mend::Hole;
pub(crate) use single::{Intent, PATIENCE};
pub(crate) use spans::Span;
pub(crate) use voids::{Void, Voids};

/// A table.
pub(crate) struct Tree {
    core: Arc<Core>,
    /// Where its leaves are: the pool of their size.
    pool: Arc<Pool>,
    limits: Limits,
    pub id: TableId,
    naming: Naming,
    index: TreeIndex,
    dropped: AtomicBool,
    /// Transactions that touched the table and have not ended.
    pub users: Users,
    /// Those among them for whose locks something else stands.
    pub large_ones: LargeOnes,
    /// Transactions that hold gap locks in it. Apart from what every operation reads.
    pub scanners: CachePadded<AtomicU64>,
    /// Runs of ghosts that some of them have locked, and voids.
    pub spans: Spans,
    /// Waits for key locks of this table.
    pub lock_waits: Meter,
    /// The hidden table with the chunks of its large values, if it ever had one.
    pub chunks: OnceLock<Arc<Tree>>,
    /// Held by a transaction that uses the table, while it makes that.
    pub making_chunks: Mutex<()>,
    /// Is it such a hidden table?
    pub holds_chunks: bool,
    /// Those that it was made with.
    pub types: Option<Types>,
}

fn name_of_chunks(owner: &str) -> String {
    format!("large values of {owner}")
}

impl Tree {
    /// A table whose leaves are in `pool`, and are indexed by `index`: low fence → page id. There is at least the leaf with
    /// the empty low fence.
    pub fn new(core: Arc<Core>, pool: Arc<Pool>, id: TableId, name: String, index: TreeIndex) -> Self {
        Self {
            core,
            limits: Limits::for_page(pool.page_bytes()),
            pool,
            id,
            naming: Naming::new(name),
            index,
            dropped: AtomicBool::new(false),
            users: Users::new(),
            large_ones: LargeOnes::default(),
            scanners: CachePadded::new(AtomicU64::new(0)),
            spans: Spans::default(),
            lock_waits: Meter::default(),
            chunks: OnceLock::new(),
            making_chunks: Mutex::new(()),
            holds_chunks: false,
            types: None,
        }
    }

    /// The table with the chunks of the large values of the table `owner`. Its leaves have the database's own size.
    pub fn of_chunks(core: Arc<Core>, id: TableId, owner: &str, index: TreeIndex) -> Self {
        let pool = core.pools.own().clone();
        let mut chunks = Self::new(core, pool, id, name_of_chunks(owner), index);
        chunks.holds_chunks = true;
        chunks
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.naming.name()
    }

    /// From now on the name is `name`. One at a time renames a table, and as long as that is under way nobody makes its
    /// hidden one.
    pub fn rename(&self, name: &str) {
        self.naming.change(name.to_owned());
        if let Some(chunks) = self.chunks.get() {
            chunks.naming.change(name_of_chunks(name));
        }
    }

    /// What all tables share.
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// A lock of this table was got, or given up; so long it was waited for, if at all.
    #[inline]
    pub fn note_lock_wait(&self, waited: Option<Duration>) {
        waited.into_iter().for_each(|waited| self.lock_waits.add(waited));
    }

    /// Bytes of its leaves.
    pub fn leaf_bytes(&self) -> usize {
        self.pool.page_bytes()
    }

    /// What fits into its leaves.
    #[inline]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The kind of its index.
    pub fn index_kind(&self) -> Index {
        self.index.kind()
    }

    /// Memory of the index in bytes.
    pub fn index_bytes(&self) -> u64 {
        self.index.bytes()
    }

    /// From now on every operation answers `TableDropped`.
    pub fn mark_dropped(&self) {
        self.dropped.store(true, Relaxed);
    }

    /// Was the table dropped?
    pub fn is_dropped(&self) -> bool {
        self.dropped.load(Relaxed)
    }

    /// Asked only when a leaf could not be found where it must be: the normal path reads no flag.
    pub fn ensure_not_dropped(&self) -> Result<()> {
        if self.is_dropped() { Err(Error::TableDropped { name: self.name().to_owned() }) } else { Ok(()) }
    }

    fn ensure_fits(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let key_bytes_max = self.limits.key_bytes_max;
        if key.len() > key_bytes_max {
            return Err(Error::KeyTooLong { len: key.len(), max: key_bytes_max });
        }
        if value.len() > VALUE_BYTES_MAX {
            return Err(Error::ValueTooLarge { len: value.len(), max: VALUE_BYTES_MAX });
        }
        Ok(())
    }
}
