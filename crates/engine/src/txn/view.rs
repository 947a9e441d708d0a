//! What a reader sees of a cell: the newest version that was committed at its point in time.
//!
//! The newest version of a row is in its leaf. If that is not for this reader, the key table has the images that were
//! replaced, newest first. The usual case needs neither: the cell's author ended before the reader began.
//!
//! How a version is judged, without stopping anyone:
//! - V1: every transaction with an id below `settled` had ended when the view was made, so its commit is below `at`.
//! - V2: who replaces a version puts its image into the key table under the leaf's latch, and takes it out after a rollback has
//!   restored the leaf, or when no snapshot needs it. All of it happens while the reader's leaf version would change, or after: a
//!   reader that asks the key table *within* its optimistic read of the leaf, finds no image by the cell's author, and validates,
//!   knows that the author has committed below every open snapshot. Whether leaf or key table is changed first does not matter:
//!   who sees one without the other does not validate. It is the leaf, since that may turn out damaged, and then nothing is changed.
//!   A transaction with very many images has some of them on disk (`spill.rs`). As long as it is listed there, no image in memory says
//!   that the image is there, or that it replaced nothing.
//! - V3: an image that carries no commit LSN yet is by a transaction that still has its slot (the commit LSN is stamped
//!   under the bucket's latch before the slot is given back), so the slot tells its fate.

use crate::lock::{ImageView, Owner};
use crate::txn::Txns;
use crate::txn::slots::Slots;
use crate::txn::standing::Fate;
use crate::version::{Version, Writer};
use foreshore_base::{Lsn, TableId};
use std::ops::ControlFlow;

/// A reader's point in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    /// Authors below this have ended (V1).
    pub settled: Lsn,
    /// Commits below this are seen.
    pub at: Lsn,
    /// What this author wrote is seen, committed or not; 0: nobody.
    pub own: u64,
}

/// Which version a reader sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The one in the leaf.
    Leaf,
    /// An older one: its value, or that there was none.
    Older(Option<Vec<u8>>),
    /// One that the author of this version replaced, who has spilled.
    Spilled(Version),
}

impl View {
    /// Sees what is in the leaf, whoever wrote it: for those whose locks say that nobody else did.
    pub const NEWEST: View = View { settled: Lsn::MAX, at: Lsn::MAX, own: 0 };

    /// Does it see what is committed when it is looked at, rather than at one point, or what locks protect?
    pub fn is_latest(&self) -> bool {
        self.at == Lsn::MAX && self.settled != Lsn::MAX
    }

    /// Is it clear at a glance that this version is seen? If not, [`View::resolve`] tells.
    #[inline]
    pub fn surely_sees(&self, version: Version) -> bool {
        match version.writer() {
            Writer::Anyone => true,
            Writer::Autocommit(at) => at < self.at,
            Writer::Txn(txn) => txn.0 < self.settled.0 || txn.0 == self.own,
        }
    }

    /// Which version of a row is seen whose leaf holds `version`, which is not clear at a glance. Within an optimistic
    /// read of the leaf (V2).
    #[cold]
    pub fn resolve(&self, txns: &Txns, table: TableId, key: &[u8], version: Version) -> Seen {
        let (keys, slots) = (&txns.keys, &txns.slots);
        let mut sought = version;
        let mut seen = Seen::Leaf;
        let is_seen = keys.images(keys.name(table, key), table, key, |image| {
            if image.writer != sought.author() {
                return ControlFlow::Continue(());
            }
            if self.sees_writer_of(image, slots) {
                return ControlFlow::Break(());
            }
            seen = Seen::Older(image.value.map(<[u8]>::to_vec));
            sought = Version(image.replaced);
            if self.surely_sees(sought) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let has_spilled = || match txns.spills.find(sought, slots) {
            Some((_, Fate::Committed(at))) => at >= self.at,
            Some((_, Fate::Running)) => true,
            None => false,
        };
        if is_seen.is_none() && has_spilled() { Seen::Spilled(sought) } else { seen }
    }

    fn sees_writer_of(&self, image: &ImageView<'_>, slots: &Slots) -> bool {
        match (image.commit, Version(image.writer).writer()) {
            (_, Writer::Autocommit(at)) => at < self.at,
            (Some(at), _) => at < self.at.0,
            (None, _) => match slots.standing(Owner(image.slot)).fate() {
                Fate::Running => false,
                Fate::Committed(at) => at < self.at,
            },
        }
    }
}
