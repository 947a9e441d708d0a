//! The running read-write transactions, for those who list or abort them, and who roll back the idle.

use crate::db::transaction::Shared;
use crate::lock::Owner;
use crate::txn::SLOTS;
use foreshore_base::sync::Ordering::Relaxed;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// One entry per slot, so that transactions share no line to begin and to end.
pub(crate) struct Running {
    entries: Box<[Entry]>,
}

#[repr(align(64))]
#[derive(Default)]
struct Entry(Mutex<Known>);

#[derive(Default)]
struct Known {
    transaction: Weak<Shared>,
    /// How many calls it had made when it was last looked at, and when that was new.
    calls: u64,
    since: Option<Instant>,
}

impl Running {
    pub fn new() -> Self {
        Self { entries: (0..SLOTS).map(|_| Entry::default()).collect() }
    }

    /// A transaction begins in the slot of `owner`.
    pub fn enter(&self, owner: Owner, transaction: &Arc<Shared>) {
        *self.entries[usize::from(owner.0)].0.lock() =
            Known { transaction: Arc::downgrade(transaction), calls: 0, since: None };
    }

    /// The transaction with this number, and its slot.
    pub fn find(&self, number: u64) -> Option<(Owner, Arc<Shared>)> {
        let slot = (number % SLOTS as u64) as u16;
        let transaction = self.entries[usize::from(slot)].0.lock().transaction.upgrade()?;
        (transaction.number == number).then_some((Owner(slot), transaction))
    }

    /// All of them. (Handles and ranges may outlive their transaction.)
    pub fn list(&self) -> Vec<Arc<Shared>> {
        let known = self.entries.iter().filter_map(|entry| entry.0.lock().transaction.upgrade());
        known.filter(|transaction| transaction.is_running()).collect()
    }

    /// Rolls back those that have been idle for as long as they allow. Called now and then.
    pub fn abort_idle(&self) {
        for entry in &self.entries {
            let Some((idle, calls)) = entry.0.lock().idle() else { continue };
            // A damaged or full disk: its own next call will tell.
            let _ = idle.abort_if_idle(calls);
        }
    }
}

impl Known {
    /// The transaction, if it has been idle for too long, and how many calls it had made then. One whose call is under way,
    /// waiting perhaps, is not idle.
    fn idle(&mut self) -> Option<(Arc<Shared>, u64)> {
        let transaction = self.transaction.upgrade()?;
        let timeout = transaction.options.idle_timeout?;
        let calls = transaction.calls.load(Relaxed);
        let since = *self.since.get_or_insert_with(Instant::now);
        if calls != self.calls || transaction.is_busy() {
            (self.calls, self.since) = (calls, Some(Instant::now()));
            return None;
        }
        (since.elapsed() >= timeout).then_some((transaction, calls))
    }
}
