//! New tables.

use crate::core::Core;
use crate::db::Index;
use crate::error::Result;
use crate::leaf::{self, Change};
use crate::pool::Pool;
use crate::tree::{Hole, Tree, TreeIndex};
use foreshore_base::{PageId, TableId};
use std::sync::Arc;

impl Tree {
    /// A new table, with its leaves in `pool`.
    pub fn create(
        core: &Arc<Core>,
        pool: &Arc<Pool>,
        id: TableId,
        name: String,
        index: Index,
    ) -> Result<Self> {
        let first = empty_leaf(core, pool, id, &Hole::ALL)?;
        Ok(Self::new(core.clone(), pool.clone(), id, name, index_over(index, first)))
    }

    /// A new table for the chunks of the large values of the table `owner`.
    pub fn create_for_chunks(core: &Arc<Core>, id: TableId, owner: &str) -> Result<Self> {
        let first = empty_leaf(core, core.pools.own(), id, &Hole::ALL)?;
        Ok(Self::of_chunks(core.clone(), id, owner, index_over(Index::default(), first)))
    }

    /// A new hidden table for images of rows of `table` (`txn/spill.rs`), with leaves of the same size.
    pub fn create_for_images(table: &Tree, id: TableId) -> Result<Self> {
        let first = empty_leaf(&table.core, &table.pool, id, &Hole::ALL)?;
        let name = format!("replaced rows of {}", table.name());
        Ok(Self::new(table.core.clone(), table.pool.clone(), id, name, index_over(Index::default(), first)))
    }
}

fn index_over(index: Index, first: PageId) -> TreeIndex {
    TreeIndex::bulk_load(index, [([], first.0)], 1.0)
}

/// Makes an empty leaf of a table, logged: the first one of a new table, or one in the place of leaves that are lost.
pub(crate) fn empty_leaf(core: &Core, pool: &Pool, id: TableId, gap: &Hole) -> Result<PageId> {
    let (low, high, right) = (&gap.low[..], gap.high.as_deref(), gap.right);
    let fresh = pool.allocate()?;
    core.log.room()?;
    let latch = fresh.page().latch().exclusive();
    pool.before_change(fresh.frame_page().frame);
    let change = Change::Format { page: fresh.pid(), table: id, low, high, right };
    let body = change.encoded();
    let record = core.log.reserve(body.len());
    leaf::format(fresh.page(), fresh.pid(), id, low, high, right);
    fresh.page().set_lsn(record.end());
    let page = fresh.publish().page.id();
    drop(latch);
    core.log.fill(record, &body);
    Ok(page)
}
