//! Which leaves exist, and where each begins: the directory's account, corrected by the log's.

use crate::core::Core;
use crate::db::Index;
use crate::db::catalog::TEMPORARY;
use crate::error::{Error, Result};
use crate::leaf::Change;
use crate::pool::{PageEntry, SizeClass};
use crate::tree::{Tree, TreeIndex};
use foreshore_base::{PageId, TableId};
use std::collections::HashMap;
use std::sync::Arc;

/// How full the index's nodes are at first: room for the splits to come.
const INDEX_FILL: f64 = 0.85;

/// Table and low fence by page. Fed with log records in LSN order, so that the last word on a page is the newest.
#[derive(Default)]
pub(super) struct Leaves {
    /// `None`: it was absorbed.
    pages: HashMap<PageId, Option<(TableId, Vec<u8>)>>,
    highest_table: TableId,
}

impl Leaves {
    /// What the directory knows.
    pub fn from_directory(pages: Vec<PageEntry>) -> Self {
        let mut leaves = Self { pages: HashMap::with_capacity(pages.len()), ..Self::default() };
        for page in pages {
            leaves.born(page.pid, page.table, page.low_key);
        }
        leaves
    }

    /// What a record says of pages that come and go.
    pub fn apply(&mut self, change: &Change<'_>) {
        match change {
            Change::Format { page, table, low, .. } => self.born(*page, *table, low.to_vec()),
            Change::Split { right, table, separator, .. } => self.born(*right, *table, separator.to_vec()),
            Change::Absorb { right, .. } => _ = self.pages.insert(*right, None),
            Change::Put { .. }
            | Change::Remove { .. }
            | Change::Ghost { .. }
            | Change::Patch { .. }
            | Change::Rows { .. } => {}
        }
    }

    fn born(&mut self, page: PageId, table: TableId, low: Vec<u8>) {
        self.pages.insert(page, Some((table, low)));
        if table < TEMPORARY {
            self.highest_table = self.highest_table.max(table);
        }
    }

    /// Pages that were absorbed and not used again. Those that the directory does not know were never there.
    pub fn dead(&self) -> impl Iterator<Item = PageId> + '_ {
        self.pages.iter().filter(|(_, leaf)| leaf.is_none()).map(|(page, _)| *page)
    }

    /// The highest id of a lasting table that any of these leaves has, or had when it was made.
    pub fn highest_table(&self) -> TableId {
        self.highest_table
    }

    /// The leaves that there are, by table.
    pub fn by_table(self) -> Tables {
        let mut tables = Tables::default();
        for (page, leaf) in self.pages {
            if let Some((table, low)) = leaf {
                tables.0.entry(table).or_default().push((low, page.0));
            }
        }
        tables
    }
}

/// The low fence and the page of each leaf, by table.
#[derive(Default)]
pub(super) struct Tables(HashMap<TableId, Vec<(Vec<u8>, u64)>>);

impl Tables {
    /// The leftmost leaf of table `id`, and the index, of this kind, over all its leaves; they are gone from here
    /// afterwards. All of them have the size of the leftmost one.
    pub fn take_index(&mut self, id: TableId, name: &str, index: Index) -> Result<(PageId, TreeIndex)> {
        let mut separators = self.0.remove(&id).unwrap_or_default();
        separators.sort_unstable();
        let what = || format!("table {name:?} (id {id})");
        let Some(&(_, first)) = separators.first().filter(|(low, _)| low.is_empty()) else {
            return Err(Error::corrupt(what(), "its leftmost leaf is missing"));
        };
        let class = |page| SizeClass::of(PageId(page));
        if let Some((_, page)) = separators.iter().find(|(_, page)| class(*page) != class(first)) {
            return Err(Error::corrupt(what(), format!("pages {first} and {page} have different sizes")));
        }
        if let Some(twice) = separators.windows(2).find(|w| w[0].0 == w[1].0) {
            return Err(Error::corrupt(
                what(),
                format!("pages {} and {} claim the same low fence", twice[0].1, twice[1].1),
            ));
        }
        Ok((PageId(first), TreeIndex::bulk_load(index, separators, INDEX_FILL)))
    }

    /// The lasting tables that have leaves here.
    pub fn ids(&self) -> impl Iterator<Item = TableId> {
        self.0.keys().copied().filter(|table| *table < TEMPORARY)
    }

    /// Table `id`, to be looked at, whatever leaves it has.
    pub fn look(&self, core: &Arc<Core>, id: TableId) -> Result<Tree> {
        let mut separators = self.0.get(&id).cloned().unwrap_or_default();
        separators.sort_unstable();
        separators.dedup_by(|later, one| later.0 == one.0);
        let pool =
            separators.first().map_or(Ok(core.pools.own()), |(_, page)| core.pools.of_page(PageId(*page)));
        let index = TreeIndex::bulk_load(Index::default(), separators, INDEX_FILL);
        Ok(Tree::new(core.clone(), pool?.clone(), id, format!("number {id}"), index))
    }

    /// The low fence and the page of the leftmost leaf of table `id` that there is.
    pub fn leftmost(&self, id: TableId) -> Option<(&[u8], PageId)> {
        let leaves = self.0.get(&id)?;
        leaves.iter().min().map(|(low, page)| (low.as_slice(), PageId(*page)))
    }

    /// One leaf more, with the lowest keys of table `id`.
    pub fn add_first(&mut self, id: TableId, page: PageId) {
        self.0.entry(id).or_default().push((Vec::new(), page.0));
    }

    /// Leaves of tables whose index was not taken: the catalog does not know them.
    pub fn remaining(self) -> impl Iterator<Item = PageId> {
        self.0.into_values().flatten().map(|(_, page)| PageId(page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreshore_base::{Lsn, SlotId};

    const TABLE: TableId = TableId(20);

    fn page(class: SizeClass, low_key: &[u8]) -> PageEntry {
        let pid = PageId(class.base().0 + 1);
        PageEntry { pid, slot: SlotId(0), lsn: Lsn(0), table: TABLE, low_key: low_key.to_vec() }
    }

    #[test]
    fn a_table_has_leaves_of_one_size() {
        let other = SizeClass::of_bytes(16384, 8192);
        let first = page(other, b"");
        let take = |pages: Vec<PageEntry>| {
            Leaves::from_directory(pages)
                .by_table()
                .take_index(TABLE, "t", Index::default())
                .map(|(page, _)| page)
        };
        assert_eq!(take(vec![first.clone()]).unwrap(), first.pid);
        let refused = take(vec![page(SizeClass::OWN, b"m"), first]);
        assert!(
            matches!(&refused, Err(Error::Corrupt { detail, .. }) if detail.contains("different sizes")),
            "{refused:?}"
        );
    }
}
