//! Who is at work: one slot per running transaction.
//!
//! Why: the oldest transaction must be known without stopping anyone (Shore-MT §7.3 caches the
//! oldest id under the transaction list's mutex; here there is no mutex). Slots are leased per transaction, not per
//! thread: threads of a library's user come and go.
//!
//! What the slots say of transactions, and in which order, is in `standing.rs`.

use crate::error::{Error, Result};
use crate::lock::Owner;
use crate::log::{Log, Room};
use crate::stage;
use crate::txn::kept::Kept;
use crate::txn::standing::Standing;
use crate::waits::will_wait;
use crossbeam_utils::CachePadded;
use foreshore_base::sync::Ordering::Relaxed;
use foreshore_base::sync::{AtomicBool, AtomicU64, AtomicUsize, Backoff};
use foreshore_base::{Lsn, TxnId};
use parking_lot::Mutex;
use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

/// Transactions at a time, and [snapshots](super::snapshots) at a time. More wait for a slot.
pub(crate) const SLOTS: usize = 1024;

/// How long a transaction, or a snapshot, waits for a slot.
const ADMISSION: Duration = Duration::from_secs(10);

/// How often it looks for one, once it has waited for so long.
const LOOK: Duration = Duration::from_millis(1);

/// A wait for a slot.
pub(super) struct Admission {
    backoff: Backoff,
    since: Instant,
}

impl Admission {
    /// It begins.
    pub fn new() -> Self {
        Self { backoff: Backoff::new(), since: Instant::now() }
    }

    /// Waits a little. Errors: [`Error::TooManyTransactions`] if no slot became free for long.
    pub fn wait(&mut self) -> Result<()> {
        let waited = self.since.elapsed();
        if waited > ADMISSION {
            return Err(Error::TooManyTransactions { max: SLOTS });
        }
        will_wait();
        match waited < LOOK {
            true => self.backoff.wait(),
            // Those who have the slots are in no hurry, and may need the processor.
            false => thread::sleep(LOOK),
        }
        Ok(())
    }
}

struct Slot {
    standing: Standing,
    /// How many transactions had the slot, and how they ended.
    leases: AtomicU64,
    commits: AtomicU64,
    rollbacks: AtomicU64,
    /// What may be logged before its next transaction asks for room.
    room: AtomicU64,
    /// What the last transaction leaves to the next one.
    kept: Mutex<Kept>,
}

/// The slots of read-write transactions.
pub(crate) struct Slots {
    slots: Box<[CachePadded<Slot>]>,
    /// No slot at or above this was ever leased: scans end here.
    ///
    /// ORDERING: Relaxed. Who must see a slot has acquired what its first transaction did next: the record that it reserved
    /// (`standing.rs`), a table's users that it left, a lock that it got.
    used: AtomicUsize,
    /// Nothing is to be kept. Set before each slot's `kept` is locked.
    closing: AtomicBool,
}

/// Counts one more, where only who has the slot counts.
fn count(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}

thread_local! {
    /// Where this thread found its last slot: it will find it again, with its lines in its own cache.
    pub(super) static HINT: Cell<usize> = const { Cell::new(usize::MAX) };
}

impl Slots {
    pub fn new() -> Self {
        let slot = || {
            CachePadded::new(Slot {
                standing: Standing::new(),
                leases: AtomicU64::new(0),
                commits: AtomicU64::new(0),
                rollbacks: AtomicU64::new(0),
                room: AtomicU64::new(0),
                kept: Mutex::default(),
            })
        };
        let slots = (0..SLOTS).map(|_| slot()).collect();
        Self { slots, used: AtomicUsize::new(0), closing: AtomicBool::new(false) }
    }

    /// A slot for a transaction. Waits while all are taken.
    ///
    /// Errors: [`Error::TooManyTransactions`] if none became free for long.
    pub fn lease(&self, log: &Log) -> Result<Owner> {
        let hint = HINT.get();
        if hint < SLOTS && self.take(hint, log) {
            return Ok(Owner(hint as u16));
        }
        self.lease_any(log)
    }

    #[cold]
    fn lease_any(&self, log: &Log) -> Result<Owner> {
        let mut admission = Admission::new();
        loop {
            if let Some(index) = (0..SLOTS).find(|index| self.take(*index, log)) {
                HINT.set(index);
                return Ok(Owner(index as u16));
            }
            admission.wait()?;
        }
    }

    fn take(&self, index: usize, log: &Log) -> bool {
        let _old = stage::enter(stage::Old::Transactions);
        if !self.slots[index].standing.take() {
            return false;
        }
        count(&self.slots[index].leases);
        if self.used.load(Relaxed) <= index {
            let before = self.used.fetch_max(index + 1, Relaxed);
            log.promise_commits((index + 1).saturating_sub(before));
        }
        true
    }

    /// A slot that a transaction of before the restart had: it still has it.
    pub fn resume(&self, owner: Owner, id: TxnId, log: &Log) {
        assert!(self.take(owner.0.into(), log), "slots are free at a restart");
        self.slot(owner).standing.began(id);
    }

    /// What others see of the transaction in this slot, for itself to change.
    pub fn standing(&self, owner: Owner) -> &Standing {
        &self.slot(owner).standing
    }

    /// Gives the slot back. No image names it any more.
    pub fn give_back(&self, owner: Owner) {
        let _old = stage::enter(stage::Old::Transactions);
        self.slot(owner).standing.give_back();
    }

    /// Every transaction with an id below this has ended. `log_end` must have been loaded before this call.
    pub fn oldest(&self, log_end: Lsn) -> Lsn {
        let _old = stage::enter(stage::Old::Transactions);
        let used = self.used.load(Relaxed);
        self.slots[..used].iter().filter_map(|slot| slot.standing.oldest()).fold(log_end, Lsn::min)
    }

    /// A number that stands for the transaction in this slot, in messages: unique while the
    /// database is open.
    pub fn number(&self, owner: Owner) -> u64 {
        self.slot(owner).leases.load(Relaxed) * SLOTS as u64 + u64::from(owner.0)
    }

    /// What the last transaction in this slot left of its room in the log.
    pub fn room(&self, owner: Owner) -> Room {
        Room(self.slot(owner).room.load(Relaxed))
    }

    /// Leaves it to the next one.
    pub fn keep_room(&self, owner: Owner, room: Room) {
        self.slot(owner).room.store(room.0, Relaxed);
    }

    /// What the last transaction in this slot left. Nobody else asks while the slot is leased.
    pub fn take_kept(&self, owner: Owner) -> Kept {
        std::mem::take(&mut *self.slot(owner).kept.lock())
    }

    /// Leaves something to the next transaction in this slot, unless the database is closing: what is kept holds on to
    /// tables, and they to all of this.
    pub fn keep(&self, owner: Owner, kept: Kept) {
        let mut place = self.slot(owner).kept.lock();
        if !self.closing.load(Relaxed) {
            *place = kept;
            place.forget_dropped();
        }
    }

    /// Tables were dropped: nothing is kept of them, also for slots that nobody may ever lease again.
    pub fn forget_dropped(&self) {
        let used = self.used.load(Relaxed);
        self.slots[..used].iter().for_each(|slot| slot.kept.lock().forget_dropped());
    }

    /// From now on nothing is kept.
    pub fn keep_nothing(&self) {
        self.closing.store(true, Relaxed);
        for slot in &self.slots {
            drop(std::mem::take(&mut *slot.kept.lock()));
        }
    }

    /// The transaction in this slot committed. Each slot counts for itself, so that commits share no line.
    pub fn count_commit(&self, owner: Owner) {
        count(&self.slot(owner).commits);
    }

    /// The transaction in this slot was rolled back.
    pub fn count_rollback(&self, owner: Owner) {
        count(&self.slot(owner).rollbacks);
    }

    /// Commits and rollbacks of all slots.
    pub fn counts(&self) -> (u64, u64) {
        let used = self.used.load(Relaxed);
        self.slots[..used].iter().fold((0, 0), |(commits, rollbacks), slot| {
            (commits + slot.commits.load(Relaxed), rollbacks + slot.rollbacks.load(Relaxed))
        })
    }

    /// How many transactions have had a slot so far.
    pub fn leases(&self) -> u64 {
        let used = self.used.load(Relaxed);
        self.slots[..used].iter().map(|slot| slot.leases.load(Relaxed)).sum()
    }

    /// Slots that are leased now.
    pub fn leased(&self) -> usize {
        let used = self.used.load(Relaxed);
        self.slots[..used].iter().filter(|slot| !slot.standing.is_free()).count()
    }

    fn slot(&self, owner: Owner) -> &Slot {
        &self.slots[usize::from(owner.0)]
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// A program that has too many transactions open does not burn a processor for each one more that it wants.
    #[test]
    fn who_waits_for_a_slot_sleeps() {
        let (mut admission, mut looks) = (Admission::new(), 0);
        while admission.since.elapsed() < Duration::from_millis(100) {
            admission.wait().unwrap();
            looks += 1;
        }
        assert!(looks < 5000, "it has looked {looks} times");
    }
}
