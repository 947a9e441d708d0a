//! Intent locks of a table: which transactions use it, so that it is not dropped under them.
//!
//! Source: Shore-MT (Johnson et al., EDBT 2009) §7.5 and its successor Zero, whose light intent locks are counters.
//! Differs: a bit for each transaction slot, spread over cache lines, so users share no line with each other; who wants the
//! table for itself looks at all, and who waits for that learns whom it waits for.
//!
//! ORDERING: a user sets its bit, then looks whether the table is closed; who closes it sets the flag, then looks for bits.
//! All `SeqCst`: either the user sees the flag, or its bit is seen. Backups, which have no slot, are counted; they come also while
//! a table is closed, as long as it is not about to go (`db/tables.rs`).

use crate::error::Result;
use crate::lock::Owner;
use crate::txn::SLOTS;
use crate::waits::will_wait;
use crossbeam_utils::CachePadded;
use foreshore_base::sync::Ordering::SeqCst;
use foreshore_base::sync::{AtomicBool, AtomicU64};
use std::thread;
use std::time::{Duration, Instant};

const STRIPES: usize = 16;

const _: () = assert!(SLOTS <= STRIPES * u64::BITS as usize);

/// How often one who waits for others to leave looks.
const LOOK: Duration = Duration::from_millis(1);

/// See the module.
pub(crate) struct Users {
    /// Slot `n` has bit `n / STRIPES` of stripe `n % STRIPES`.
    slots: [CachePadded<AtomicU64>; STRIPES],
    backups: AtomicU64,
    closed: AtomicBool,
}

/// Somebody else has the table for itself, or waits for that.
#[derive(Debug)]
pub(crate) struct Closed;

impl Users {
    pub fn new() -> Self {
        Self { slots: Default::default(), backups: AtomicU64::new(0), closed: AtomicBool::new(false) }
    }

    /// One more user, which is none yet.
    pub fn enter(&self, owner: Owner) -> Result<(), Closed> {
        let (stripe, bit) = self.place(owner);
        stripe.fetch_or(bit, SeqCst);
        self.ensure_open().inspect_err(|_| self.leave(owner))
    }

    /// One fewer.
    pub fn leave(&self, owner: Owner) {
        let (stripe, bit) = self.place(owner);
        stripe.fetch_and(!bit, SeqCst);
    }

    /// One more backup.
    pub fn enter_backup(&self) {
        self.backups.fetch_add(1, SeqCst);
    }

    /// One fewer.
    pub fn leave_backup(&self) {
        self.backups.fetch_sub(1, SeqCst);
    }

    fn ensure_open(&self) -> Result<(), Closed> {
        if self.closed.load(SeqCst) { Err(Closed) } else { Ok(()) }
    }

    /// The transactions whose ends one waits for who finds the table closed; none if it is open.
    pub fn in_the_way(&self) -> Vec<Owner> {
        if self.ensure_open().is_ok() {
            return Vec::new();
        }
        let slots = (0..SLOTS as u16).map(Owner);
        slots.filter(|owner| self.uses(*owner)).collect()
    }

    fn uses(&self, owner: Owner) -> bool {
        let (stripe, bit) = self.place(owner);
        stripe.load(SeqCst) & bit != 0
    }

    /// Lets nobody enter any more, and waits until all have left, for as long as that is `worth_it`. If they have not in time
    /// (`false`), or it is not, users may enter again.
    pub fn close(&self, patience: Duration, worth_it: impl Fn() -> Result<()>) -> Result<bool> {
        self.closed.store(true, SeqCst);
        let since = Instant::now();
        while self.any() {
            let waits = worth_it().map(|()| since.elapsed() <= patience);
            if !matches!(waits, Ok(true)) {
                self.open();
                return waits;
            }
            will_wait(); // for transactions, or a backup
            thread::sleep(LOOK);
        }
        Ok(true)
    }

    /// Is there any user?
    pub fn any(&self) -> bool {
        self.slots.iter().any(|stripe| stripe.load(SeqCst) != 0) || self.backups.load(SeqCst) != 0
    }

    /// Lets users enter again.
    pub fn open(&self) {
        self.closed.store(false, SeqCst);
    }

    fn place(&self, owner: Owner) -> (&AtomicU64, u64) {
        let slot = usize::from(owner.0);
        (&self.slots[slot % STRIPES], 1 << (slot / STRIPES))
    }
}
