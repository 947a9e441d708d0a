//! New tables.

use crate::db::Index;
use crate::error::Result;
use crate::leaf::{self, Change};
use crate::pool::Pool;
use crate::tree::{Core, Tree, TreeIndex};
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
        let index = first_leaf(core, pool, id, index)?;
        Ok(Self::new(core.clone(), pool.clone(), id, name, index))
    }

    /// A new table for the chunks of the large values of the table `owner`.
    pub fn create_for_chunks(core: &Arc<Core>, id: TableId, owner: &str) -> Result<Self> {
        let index = first_leaf(core, core.pools.own(), id, Index::default())?;
        Ok(Self::of_chunks(core.clone(), id, owner, index))
    }
}

/// A new table's leaf, an empty one over the whole key space, logged; and the index over it.
fn first_leaf(core: &Core, pool: &Pool, id: TableId, index: Index) -> Result<TreeIndex> {
    let fresh = pool.allocate()?;
    core.log.room()?;
    let latch = fresh.page().latch().exclusive();
    pool.before_change(fresh.frame_page().frame);
    let change = Change::Format { page: fresh.pid(), table: id, low: &[], high: None, right: PageId::NONE };
    let record = core.log.reserve(change.encoded_len());
    leaf::format(fresh.page(), fresh.pid(), id, &[], None, PageId::NONE);
    fresh.page().set_lsn(record.end());
    let page = fresh.publish().page.id();
    drop(latch);
    let index = TreeIndex::bulk_load(index, [([], page.0)], 1.0);
    core.append(record, &change);
    Ok(index)
}
