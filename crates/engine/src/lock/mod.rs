//! Key locks and before-images: one hash-partitioned table of both.
//!
//! A name stands for a key of a table, present or not, and for the gap below it. Locks are logical: they outlive latches
//! and are held to the end of a transaction, in two phases. Names are keys, never pages, so splits move no locks (rule 6).
//!
//! Why one table for locks and images: a writer needs both for the same key, and one cache line serves it.
//! Source: Shore-MT (Johnson et al., EDBT 2009) §2.2.3 and §7.5, a latch per bucket; OLFIT §5.4, locks on keys above a
//! latch-free index; Mohan, ARIES/KVL (VLDB 1990), gap locks by the next key.
//! Differs: requests lie in the bucket itself instead of a pool; an inserter waits for a gap and never holds it;
//! deadlocks are found by those who wait.
//!
//! | file | concept |
//! |---|---|
//! | `name`, `modes`, `reach` | hash of (table, key); what can be held on a name; how far down a gap lock reaches |
//! | `bucket` | what names that hash to one place share; divided when it is crowded |
//! | `requests`, `queue` | storage of a bucket's requests; the rules of grant and wait |
//! | `seat`, `wait`, `deadlock` | where an owner sleeps; the way through the queue; cycles and victims |
//! | `shown`, `popular` | readers of popular keys, who write no bucket; the ways in and out for them |
//! | `images` | before-images |
//! | `latched` | a value behind a node latch: the last latches in the order |
//! | `table`, `stats` | [`KeyTable`]: the above behind one face; waits, counted |

mod bucket;
mod deadlock;
mod images;
mod latched;
mod modes;
mod name;
mod popular;
mod queue;
mod reach;
mod requests;
mod seat;
mod shown;
mod stats;
mod table;
#[cfg(test)]
mod tests;
mod wait;

use modes::Modes;
use std::time::Duration;

pub(crate) use images::{Image, ImageRow, ImageView, Spares};
pub(crate) use modes::KeyMode;
pub(crate) use name::Name;
pub(crate) use reach::Reach;
pub(crate) use stats::LockStats;
pub(crate) use table::{CommitStamp, KeyTable};

/// Who holds locks: the slot that a transaction leases. Only one thread at a time acts for an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Owner(pub u16);

/// What an owner holds of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    modes: Modes,
    /// How far down the gap, if that is among them.
    reach: Reach,
}

impl Held {
    const NOTHING: Held = Held { modes: Modes::NONE, reach: Reach::NONE };

    /// Nothing that must be given back? (A turn to insert ends by itself.)
    #[inline]
    fn is_nothing(self) -> bool {
        self.modes.without(Modes::INSERT).is_none()
    }

    /// The same, but for the key.
    pub fn without_key(self) -> Self {
        Self { modes: self.modes.without(Modes::READ.with(Modes::WRITE)), ..self }
    }
}

/// A lock was got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    /// The owner must remember the name for its release: it held nothing on it before, or only [showed](shown) that it read it.
    pub first: bool,
    /// What it held on it before.
    pub before: Held,
    /// How long it waited, if it had to.
    pub waited: Option<Duration>,
}

/// Where a new key goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    /// Names the gap.
    pub gap: Name,
    /// How far below the key above it the point lies: gap locks that reach so far concern it.
    pub at: Reach,
}

/// What stands in an inserter's way in a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gap {
    /// Nobody has locked it as far down as the new key.
    Open,
    /// Only the inserter itself has: the part of the gap below the new key needs a lock of its own, so far down.
    Own(Reach),
    /// Somebody else has.
    Closed,
}

/// Whom one waited for, as it was found under the bucket's latch: its slot may have another transaction soon after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    /// The transaction's.
    pub number: u64,
    /// Does it keep its locks for good?
    pub is_stranded: bool,
}

/// A lock was not got. What the owner held before, it still holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockError {
    /// Roll back and try again, with the old age.
    Deadlock {
        /// The next in the cycle: the number of the transaction that this one waited for.
        with: u64,
        /// How long it waited.
        waited: Duration,
    },
    /// Patience ended, or one of those it waited for is [stranded](KeyTable::strand).
    Timeout {
        /// One of those it waited for, and one that is stranded if there is any.
        holder: Option<Holder>,
        /// How long it waited.
        waited: Duration,
    },
    /// Somebody interrupted the owner.
    Aborted {
        /// How long it waited.
        waited: Duration,
    },
}

impl LockError {
    /// How long the owner waited in vain.
    pub fn waited(&self) -> Duration {
        match *self {
            Self::Deadlock { waited, .. } | Self::Timeout { waited, .. } | Self::Aborted { waited } => waited,
        }
    }
}
