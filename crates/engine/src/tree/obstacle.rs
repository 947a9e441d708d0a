//! What keeps a write from changing the leaf that it has latched. It gives the latch back, deals with that, and tries again.

use crate::error::Result;
use crate::leaf::{Cell, Place};
use crate::lock::{Owner, Point};
use crate::tree::Tree;
use crate::tree::descend::Latched;
use crate::version::Version;
use foreshore_base::PageId;

/// See the module.
pub(super) enum Obstacle {
    /// The leaf is full: split it.
    Full,
    /// The row has a large value: it takes a transaction that sees to the chunks to replace it.
    Large,
    /// Another transaction has locked the gap there: wait for it.
    Gap(Point),
    /// The large transaction with this number claims the row, or has scanned there: wait until it has ended.
    Held(u64),
    /// Which gap a new key goes into can be told only with this page in memory, and not latched: [`Tree::await_page`].
    Absent(PageId),
}

impl Tree {
    /// What keeps `owner` from writing a value of `value_len` bytes to `key`, whose place in the latched leaf this is.
    /// `over_large`: it may replace a large value.
    #[inline]
    pub(super) fn obstacle(
        &self,
        owner: Owner,
        leaf: &Latched<'_>,
        place: &Place,
        key: &[u8],
        value_len: usize,
        over_large: bool,
    ) -> Result<Option<Obstacle>> {
        if !place.has_room(key, value_len) {
            return Ok(Some(Obstacle::Full));
        }
        let obstacle = match place.cell() {
            Some(cell) if !over_large && self.is_large(cell.value_len()) => Some(Obstacle::Large),
            Some(cell) if Version(cell.version).is_ghost() && self.has_scanners() => {
                self.span_around(owner, key)
            }
            Some(_) => None,
            None => self.gap_for(owner, leaf, key)?,
        };
        Ok(obstacle.or_else(|| self.scanned_by(owner, key).map(Obstacle::Held)))
    }

    /// Loads a page, and waits until nobody has it latched. Nothing may be latched.
    pub(super) fn await_page(&self, page: PageId) -> Result<()> {
        if let Some(at) = self.pool.page(page)? {
            at.page.latch().optimistic();
        }
        Ok(())
    }
}

/// Is there a row, and no ghost of one?
#[inline]
pub(super) fn is_live(cell: Option<Cell>) -> bool {
    cell.is_some_and(|cell| !Version(cell.version).is_ghost())
}
