//! Transactions: who sees what, who waits for whom, and how everything is undone.
//!
//! Read-write transactions lock what they read and write, by key, until they end (`lock`). The newest version of a row
//! is in its leaf with its author; replaced versions are in the key table, in memory, or on disk if they are very many. Snapshots read
//! versions and take no locks.
//!
//! | file | concept |
//! |---|---|
//! | `slots`, `snapshots` | running transactions; open snapshots |
//! | `standing` | what others see of a running transaction |
//! | `view` | which version a reader sees |
//! | `transaction`, `locking` | one read-write transaction: its way through the log; its locks |
//! | `kept` | what a transaction leaves to the next one in its slot |
//! | `found` | the row read last for an update, and where it was |
//! | `scan` | ranges under key and gap locks |
//! | `undo` | rollback, at run time and at a restart |
//! | `record` | what is logged |
//! | `spill` | images that do not fit into memory |
//! | `large`, `claims` | locks that do not; rows locked by what is written in them |
//! | `garbage` | what is kept for snapshots, and how it goes |
//! | `ghosts` | the removed rows of one transaction |
//!
//! Source: Shore-MT (Johnson et al., EDBT 2009) §2.2.3, §7.3, §7.5; ARIES (Mohan et al., TODS 1992) for the undo;
//! ARIES/KVL (Mohan, VLDB 1990) for key and gap locks; early lock release from Shore-MT's successors.
//!
//! Invariants:
//! - X1: a transaction holds every lock it took until its commit record is reserved, or its rollback has ended; but for those of a large one for
//!   which something else stands (`large`).
//! - X2: a commit record is reserved after all changes of its transaction. A transaction that sees it commits later in
//!   the log; so the log's prefix that survives a crash holds no transaction without those it depends on.
//! - X3: the log is kept from the begin of the oldest transaction on.

mod claims;
mod found;
mod garbage;
mod ghosts;
mod kept;
mod large;
mod locking;
mod record;
mod scan;
mod slots;
mod snapshots;
mod spill;
mod standing;
mod transaction;
mod undo;
mod view;

pub(crate) use found::Found;
pub(crate) use garbage::{Batch, Garbage, Stuck};
pub(crate) use ghosts::{Ghost, Ghosts};
pub(crate) use large::LargeOnes;
pub(crate) use locking::Lost;
pub(crate) use record::{Record, damaged};
pub(crate) use scan::{Direction, Scan};
pub(crate) use slots::{SLOTS, Slots};
pub(crate) use snapshots::Snapshots;
pub(crate) use spill::{Spill, Spills};
pub(crate) use transaction::{Savepoint, Txn};
pub(crate) use undo::{restore, roll_back};
pub(crate) use view::{Seen, View};

use crate::core::Core;
use crate::error::{Error, Result};
use crate::lock::{KeyTable, LockError, Owner};
use crate::log::Log;
use crate::tree::Tree;
use crate::waits::Meter;
use crossbeam_utils::CachePadded;
use foreshore_base::sync::AtomicU64;
use foreshore_base::sync::Ordering::{Acquire, Relaxed, Release};
use foreshore_base::{Lsn, seeded_bug};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

// The key table has, of its buckets of 64 bytes,
// - one for each 256 bytes of cache, from 64 KiB to 4 MiB of them: a small open database is not to have most of its memory here;
// - beside a cache of more than 256 MiB, one for each 4 KiB of it, up to 16 MiB of them.
const BUCKETS_LOG2_MIN: u32 = 10;

const CACHE_BYTES_PER_BUCKET: usize = 256;
const BUCKETS_LOG2_USUAL: u32 = 16;
const LARGE_CACHE_BYTES_PER_BUCKET: usize = 4 << 10;
/// More buckets make shorter chains: who changes a row beside a snapshot, or reads it there, walks through the old versions of all rows
/// of its bucket, or, if there are many, of its part of it. (TPC-C and YCSB take as long with 4 MiB as with 16, and perhaps some per cent longer with 64.)
const BUCKETS_LOG2_MAX: u32 = 18;

/// Memory for the images of a transaction: one in so many of the bytes for old versions, but so many in any case. (Few, where tests are to
/// meet others.)
const SPILL_PART: u64 = if cfg!(debug_assertions) { 1 << 19 } else { 4 };
const SPILL_MIN: u64 = if cfg!(debug_assertions) { 100 } else { 1 << 20 };

/// What all transactions share.
pub(crate) struct Txns {
    pub keys: KeyTable,
    pub slots: Slots,
    pub snapshots: Snapshots,
    pub garbage: Garbage,
    pub spills: Spills,
    /// A transaction with more images than this spills.
    pub image_bytes_max: u64,
    /// Transactions whose rollback found no space, or could not read what it needed.
    broken_off: Mutex<Vec<Txn>>,
    /// Why the first of those could not be rolled back that stay as they are.
    stranded: OnceLock<Error>,
    /// By their numbers, the ids of those that have prepared and wait to hear whether to commit, for who meets their locks.
    gids: Mutex<HashMap<u64, Vec<u8>>>,
    /// Waits of those who were victims of deadlocks, before they do their work again.
    pub waits_again: Meter,
    /// A lower bound of all running transactions' ids; only grows.
    settled: CachePadded<AtomicU64>,
    /// Where the log was when a commit last looked at the slots for that.
    looked: CachePadded<AtomicU64>,
}

/// An open snapshot.
pub(crate) struct Snapshot {
    index: usize,
    pub view: View,
}

/// As many buckets as suit a cache of so many bytes: the logarithm of their number.
fn buckets_log2(cache_bytes: usize) -> u32 {
    let one_for = |bytes: usize| (cache_bytes / bytes).max(1).ilog2();
    let usual = one_for(CACHE_BYTES_PER_BUCKET).clamp(BUCKETS_LOG2_MIN, BUCKETS_LOG2_USUAL);
    usual.max(one_for(LARGE_CACHE_BYTES_PER_BUCKET).min(BUCKETS_LOG2_MAX))
}

impl Txns {
    /// For a database with a cache of `cache_bytes`, and `old_version_bytes` for old versions.
    pub fn new(cache_bytes: usize, old_version_bytes: u64) -> Self {
        Self {
            keys: KeyTable::new(buckets_log2(cache_bytes), SLOTS),
            slots: Slots::new(),
            snapshots: Snapshots::new(),
            garbage: Garbage::default(),
            spills: Spills::new(),
            image_bytes_max: (old_version_bytes / SPILL_PART).max(SPILL_MIN),
            broken_off: Mutex::default(),
            stranded: OnceLock::new(),
            gids: Mutex::default(),
            waits_again: Meter::default(),
            settled: CachePadded::new(AtomicU64::new(0)),
            looked: CachePadded::new(AtomicU64::new(0)),
        }
    }

    /// The view of a reader that wants what is committed, each row as it is when it is read. Writes nothing.
    #[inline]
    pub fn latest(&self) -> View {
        // ORDERING: Acquire: what transactions below the loaded value did to leaves is seen by whoever trusts it.
        View { settled: Lsn(self.settled.load(Acquire)), at: Lsn::MAX, own: 0 }
    }

    /// [`Txns::settle`], called by each commit and done by one in so many: whoever commits 256 KiB of log or more after the last look.
    /// Even if that look moves nothing, the next one comes as much later: so a long transaction does not make every commit look.
    #[inline]
    pub fn settle_now_and_then(&self, log: &Log, end: Lsn) {
        const BYTES: u64 = 256 << 10;
        let looked = self.looked.load(Relaxed);
        if end.0 > looked + BYTES && self.looked.compare_exchange(looked, end.0, Relaxed, Relaxed).is_ok() {
            self.settle(log);
        }
    }

    /// Brings [`Txns::latest`] up to date; returns an LSN below which no running transaction's id is.
    pub fn settle(&self, log: &Log) -> Lsn {
        let log_end = log.reserved();
        let oldest = self.slots.oldest(log_end);
        if self.settled.load(Relaxed) < oldest.0 {
            self.settled.fetch_max(oldest.0, Release);
        }
        oldest
    }

    /// Opens a snapshot of all that is committed now.
    pub fn open_snapshot(&self, log: &Log) -> Result<Snapshot> {
        let index = self.snapshots.enter()?;
        // First who has ended, then how far commits are seen: who ended before has committed below (V1 in `view.rs`).
        let (settled, at) = if seeded_bug("txn_snapshot_point_first") {
            let (at, ()) = (log.reserved(), std::thread::yield_now());
            (self.settle(log), at)
        } else {
            (self.settle(log), log.reserved())
        };
        self.snapshots.fix(index, at);
        Ok(Snapshot { index, view: View { settled, at, own: 0 } })
    }

    /// Was the snapshot given up to bound memory? To be asked after each read through it, before the result is used.
    #[inline]
    pub fn is_expired(&self, snapshot: &Snapshot) -> bool {
        self.snapshots.is_expired(snapshot.index)
    }

    /// The transaction in this slot could not be rolled back, and keeps its locks as long as the database is open.
    fn strand(&self, owner: Owner, reason: &Error) {
        let _ = self.stranded.set(reason.clone());
        self.keys.strand(owner);
    }

    /// The transaction in this slot has prepared under this id: who meets its locks is told so.
    fn await_decision(&self, owner: Owner, gid: &[u8]) {
        self.gids.lock().insert(self.slots.number(owner), gid.to_vec());
    }

    /// It has heard whether to commit.
    pub fn hear_decision(&self, owner: Owner) {
        self.gids.lock().remove(&self.slots.number(owner));
    }

    /// What to say of a lock of `tree` that was refused: on `key`; `None`: on a gap, or on all of the table.
    #[cold]
    pub fn refused(&self, owner: Owner, tree: &Tree, key: Option<&[u8]>, refused: LockError) -> Error {
        let (txn, table) = (self.slots.number(owner), tree.name().to_owned());
        let key = key.map(<[u8]>::to_vec);
        match refused {
            LockError::Deadlock { with, .. } => Error::Deadlock { txn, with, table, key },
            LockError::Timeout { holder, waited } => {
                let in_vain = holder.is_some_and(|holder| holder.is_stranded);
                let why = self.stranded.get().filter(|_| in_vain).cloned();
                let holder = holder.map(|holder| holder.number);
                let gid = holder.and_then(|holder| self.gids.lock().get(&holder).cloned());
                why.unwrap_or(Error::LockTimeout { txn, holder, gid, table, key, waited })
            }
            LockError::Aborted { .. } => Error::Aborted { txn },
        }
    }

    /// If there is no transaction, no snapshot, and nothing that they left: is nothing locked, and no old version kept? What is left
    /// otherwise.
    pub fn check_left(&self) -> Result<(), String> {
        let leases = self.slots.leases();
        let is_idle = self.slots.leased() == 0 && !self.snapshots.any() && self.garbage.is_empty();
        let left = if is_idle { self.keys.check_empty() } else { Ok(()) };
        // Those who have come meanwhile may have something.
        if self.slots.leases() == leases { left } else { Ok(()) }
    }

    /// Closes it.
    pub fn close_snapshot(&self, snapshot: &Snapshot) {
        self.snapshots.leave(snapshot.index);
    }
}

impl Core {
    /// Does `work` in a transaction of its own, and again as long as that gives way to another, up to `patience`, which is also
    /// how long it waits for each lock. Returns the end of its commit record too, if it wrote anything.
    pub fn in_own_transaction<R>(
        self: &Arc<Self>,
        patience: Duration,
        mut work: impl FnMut(&mut Txn) -> Result<R>,
    ) -> Result<(R, Option<Lsn>)> {
        let (begun, mut since, mut lost_over) = (Instant::now(), self.log.flushed(), None);
        loop {
            let mut txn = Txn::begin(self.clone().into(), patience, since)?;
            if let Some(name) = lost_over {
                txn.get_in_line(name);
            }
            match work(&mut txn) {
                Ok(done) => return Ok((done, txn.commit()?)),
                Err(Error::Deadlock { .. }) if begun.elapsed() < patience => {
                    lost_over = txn.lost_over();
                    txn.roll_back()?;
                }
                Err(refused) => return txn.roll_back().and(Err(refused)),
            }
            since = Txn::again(since);
        }
    }

    /// Goes on with rollbacks that were broken off. One that is so again waits for the next time.
    pub fn go_on_undoing(&self) {
        let broken_off = std::mem::take(&mut *self.txns.broken_off.lock());
        for txn in broken_off {
            let _ = txn.roll_back();
        }
    }

    /// Lets go of the tables when the database is closed, or its opening fails: what is kept for later transactions, waits to
    /// be cleared, or to be undone, holds on to them, and they to the core.
    pub fn forget_tables(&self) {
        self.txns.slots.keep_nothing();
        self.txns.garbage.forget();
        self.txns.spills.forget();
        let broken_off = std::mem::take(&mut *self.txns.broken_off.lock());
        broken_off.into_iter().for_each(Txn::abandon);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::Database;
    use crate::lock::{KeyMode, Reach};
    use crate::tree::testing::comes_true;
    use crate::tree::{Intent, PATIENCE};
    use foreshore_base::sync::AtomicBool;
    use foreshore_io::MemVfs;
    use foreshore_io::sim::{Call, Intercepted};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Whose lock it was is told by its number, also when it has ended and another transaction has its slot: `abort` must not end that one.
    #[test]
    fn a_slot_that_has_changed_hands_misleads_nobody() {
        let db = Database::in_memory().unwrap();
        let tree = db.byte_table("t").unwrap().tree;
        let (core, begin) =
            (tree.core(), || Txn::begin(tree.core().clone().into(), PATIENCE, Lsn::ZERO).unwrap());
        let (mut holder, waiter) = (begin(), begin());
        let (txns, slot, number) = (&core.txns, holder.owner, core.txns.slots.number(holder.owner));
        holder.lock(&tree, b"k", KeyMode::Exclusive, Reach::NONE).unwrap();
        let name = txns.keys.name(tree.id, b"k");
        let refused = txns.keys.acquire(waiter.owner, name, KeyMode::Shared, Reach::NONE, Duration::ZERO);
        holder.commit().unwrap();
        let next = begin();
        assert!(next.owner == slot && txns.slots.number(slot) != number);
        let told = txns.refused(waiter.owner, &tree, Some(b"k"), refused.unwrap_err());
        assert!(matches!(told, Error::LockTimeout { holder: Some(told), .. } if told == number), "{told:?}");
        next.roll_back().unwrap();
        waiter.roll_back().unwrap();
    }

    /// What work that panics has done is undone when it can be, as what other work has done.
    #[test]
    fn a_panic_is_undone_when_the_disk_is_well_again() {
        let fails = Arc::new(AtomicBool::new(false));
        let its = fails.clone();
        let disk = Intercepted::new(MemVfs::new(), move |call, _, go| {
            match call == Call::Read && its.load(Relaxed) {
                true => Err(std::io::ErrorKind::Other.into()),
                false => go(),
            }
        });
        let db = Database::builder().cache_bytes(1 << 20).open_on(Arc::new(disk)).unwrap();
        let table = db.byte_table("t").unwrap();
        table.put(b"k", b"before").unwrap();
        let (tree, core) = (&table.tree, table.tree.core());
        let work = |txn: &mut Txn| -> Result<()> {
            txn.enter(tree)?;
            tree.write(txn, b"k", Intent::Put(b"after"))?;
            db.checkpoint()?;
            let leaf = tree.seek(b"k")?;
            core.pools.of_page(leaf)?.evict_now(leaf);
            fails.store(true, Relaxed);
            panic!("a test")
        };
        assert!(catch_unwind(AssertUnwindSafe(|| core.in_own_transaction(PATIENCE, work))).is_err());
        assert_eq!(core.txns.slots.leased(), 1, "it could not be undone");
        fails.store(false, Relaxed);
        let is_undone = || {
            core.go_on_undoing();
            core.txns.slots.leased() == 0
        };
        assert!(comes_true(is_undone), "its locks stay for ever");
        assert_eq!(table.get(b"k").unwrap().as_deref(), Some(&b"before"[..]));
        table.put(b"k", b"goes on").unwrap();
    }

    #[test]
    fn buckets_are_a_small_part_of_the_cache() {
        for (cache_mib, buckets) in
            [(0, 10), (1, 12), (16, 16), (256, 16), (512, 17), (1 << 10, 18), (1 << 20, 18)]
        {
            assert_eq!(buckets_log2(cache_mib << 20), buckets, "{cache_mib} MiB");
        }
    }
}
