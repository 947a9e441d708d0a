//! The row that a transaction read last in order to change it, and where it was.
//!
//! Why: `get_for_update` is followed by a write of the same key nearly always. The key is locked, and if the leaf's latch
//! word is still the one seen then, the leaf is what it was (L1 of the latch): neither lock nor leaf nor cell need be
//! looked for again, nor the old value copied out again.

use crate::leaf::Place;
use crate::lock::Name;
use crate::tree::Stamp;
use foreshore_base::TableId;

/// See the module. The key is locked exclusively; the row is in `Txn::old`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub table: TableId,
    pub name: Name,
    /// The leaf as it was read.
    pub stamp: Stamp,
    pub place: Place,
}
