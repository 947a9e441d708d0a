//! What others see of the transaction in a slot: two words.
//!
//! The order that makes scans right. A transaction that will write stores a *provisional* id, a place of the log that
//! was its end some time ago, and only then reserves its first record, whose LSN is its id: not below the provisional one. A
//! scan first loads the log's end, then the slots. A transaction whose id is below the loaded end has reserved before the
//! load, so stored before the scan: the scan sees it, or it has ended. A commit stores COMMITTING before it reserves its record
//! and the LSN after: who loads RUNNING knows that the commit's LSN will be above every log end loaded so far.
//!
//! ORDERING: the log's end changes by read-modify-writes alone, each a release and an acquire. So whoever loads a log end has
//! acquired what was stored before each reservation below it, and Release and Acquire are enough here. Every store is a
//! Release, also that of a provisional id: it may be all that a scan sees of the slot, and then stands for what the transaction
//! before did, whose end its own thread had acquired with the slot.
//!
//! This file stands alone (only `foreshore_base`), so that loom can check it without the engine.

use foreshore_base::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use foreshore_base::sync::{AtomicU64, Backoff};
use foreshore_base::{Lsn, TxnId, seeded_bug};

/// Values of `txn` above any LSN: nobody has the slot; somebody who has not written.
const FREE: u64 = u64::MAX;
const READING: u64 = u64::MAX - 1;

/// Values of `commit` below any LSN of a commit.
const RUNNING: u64 = 0;
const COMMITTING: u64 = 1;

/// See the module.
pub(crate) struct Standing {
    /// `FREE`, `READING`, a provisional id or an id.
    txn: AtomicU64,
    /// `RUNNING`, `COMMITTING` or the LSN of the commit record.
    commit: AtomicU64,
}

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Nothing yet, and its commit will be later than everything logged so far.
    Running,
    /// Its commit record begins here.
    Committed(Lsn),
}

impl Standing {
    /// That of a free slot.
    pub fn new() -> Self {
        Self { txn: AtomicU64::new(FREE), commit: AtomicU64::new(RUNNING) }
    }

    /// Takes the slot, if it is free.
    pub fn take(&self) -> bool {
        // A look first: what others have is theirs to write.
        self.is_free() && self.txn.compare_exchange(FREE, READING, AcqRel, Relaxed).is_ok()
    }

    /// Has nobody the slot?
    pub fn is_free(&self) -> bool {
        self.txn.load(Relaxed) == FREE
    }

    /// Before the first record is reserved, at the end of the log: the id will not be below this earlier end.
    pub fn announce(&self, earlier: Lsn) {
        self.commit.store(RUNNING, Release);
        let order = if seeded_bug("txn_announced_relaxed") { Relaxed } else { Release };
        self.txn.store(earlier.0, order);
    }

    /// The first record was reserved: this is the id.
    pub fn began(&self, id: TxnId) {
        self.txn.store(id.0, Release);
    }

    /// Before the commit record is reserved.
    pub fn committing(&self) {
        if !seeded_bug("txn_commit_unannounced") {
            self.commit.store(COMMITTING, Release);
        }
    }

    /// The commit record was reserved, and begins here: from now on readers see all that was written.
    pub fn committed(&self, at: Lsn) {
        self.commit.store(at.0, Release);
    }

    /// Gives the slot back. No image names it any more.
    pub fn give_back(&self) {
        self.txn.store(FREE, Release);
    }

    /// What became of the transaction, which cannot give the slot back now.
    pub fn fate(&self) -> Fate {
        let mut backoff = Backoff::new();
        loop {
            match self.commit.load(Acquire) {
                RUNNING => return Fate::Running,
                COMMITTING => backoff.wait(),
                at => return Fate::Committed(Lsn(at)),
            }
        }
    }

    /// No transaction that has or had the slot, and has not ended, has an id below this. The log's end must have been loaded before
    /// this call: those with ids from there on are not spoken of.
    pub fn oldest(&self) -> Option<Lsn> {
        let id = self.txn.load(Acquire);
        (id < READING).then_some(Lsn(id))
    }
}
