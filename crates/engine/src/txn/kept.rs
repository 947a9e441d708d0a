//! What a transaction leaves to the next one in its slot: memory, and references to tables.
//!
//! A reference counter is a line that all cores share; nine of them per transaction would be felt on many cores.

use super::transaction::Entered;
use crate::lock::{ImageRow, Name, Spares};

/// References to tables that are kept at most.
const TABLES_KEPT: usize = 32;

/// Room in lists that is kept at most.
const ROOM_KEPT: usize = 4096;

/// See the module.
#[derive(Default)]
pub(crate) struct Kept {
    pub locks: Vec<Name>,
    pub(super) tables: Vec<Entered>,
    pub body: Vec<u8>,
    pub old: ImageRow,
    pub spares: Spares,
}

impl Kept {
    /// The same, but not more than is worth keeping.
    pub fn within_bounds(mut self) -> Self {
        self.tables.truncate(TABLES_KEPT);
        self.locks.shrink_to(ROOM_KEPT);
        self
    }

    /// Lets go of tables that were dropped.
    pub fn forget_dropped(&mut self) {
        self.tables.retain(|known| !known.tree.is_dropped());
    }
}
