//! The catalog: table 1, name → table id, kind of index, hidden table of large values, types. Its row is what makes a table exist.
//!
//! One more row, under the name that no table has, holds the highest id given so far, so that none is given twice: what a
//! dropped table has left on the disk is told by its id from what others have there.

use crate::db::index::Index;
use crate::db::types::Types;
use crate::error::{Error, Result};
use crate::tree::{Forward, Tree, Values};
use foreshore_base::TableId;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// The catalog's own id.
pub(crate) const CATALOG: TableId = TableId(1);

/// The first id given to a user's table.
pub(crate) const FIRST: TableId = TableId(16);

/// Tables with ids from here on are in no catalog: they go when nobody needs them, or with the next opening (`txn/spill.rs`).
pub(crate) const TEMPORARY: TableId = TableId(1 << 31);

/// The key of the row with the highest id (4 bytes, little-endian). Absent before the first table is made.
pub(crate) const HIGHEST: &[u8] = b"";

/// What is known of a table: id (4 bytes, little-endian), and the index's code (1 byte; absent: a B+-tree, as in the first
/// databases), id of the hidden table (4 bytes; absent, or 0: it has no large values), the [`Types`] (absent: it was made without).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub id: TableId,
    pub index: Index,
    /// The table with the chunks of its large values.
    pub chunks: Option<TableId>,
    pub types: Option<Types>,
}

/// No table's id.
const NONE: TableId = TableId(0);

impl Row {
    /// What there is to say of `tree`.
    pub fn of(tree: &Tree) -> Self {
        let chunks = tree.chunks.get().map(|chunks| chunks.id);
        Self { id: tree.id, index: tree.index_kind(), chunks, types: tree.types.clone() }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.id.0.to_le_bytes().to_vec();
        bytes.push(self.index.code());
        if self.chunks.is_some() || self.types.is_some() {
            bytes.extend(self.chunks.unwrap_or(NONE).0.to_le_bytes());
        }
        self.types.iter().for_each(|types| types.encode(&mut bytes));
        bytes
    }

    /// Errors: [`Error::Corrupt`] names what is wrong with the row of the table `name`.
    fn decode(name: &str, bytes: &[u8]) -> Result<Self> {
        let wrong = |what: String| Error::corrupt("catalog", format!("table {name:?} has {what}"));
        let Some((id, index)) = bytes.split_first_chunk() else {
            return Err(wrong("no valid id".into()));
        };
        let unknown = || wrong(format!("a row of {} bytes; perhaps a newer version made it", bytes.len()));
        let (code, chunks, types) = match *index {
            [] => (Index::BPlus.code(), NONE, None),
            [code] => (code, NONE, None),
            [code, a, b, c, d, ref types @ ..] => {
                let types = (!types.is_empty()).then(|| Types::decode(types).ok_or_else(unknown));
                (code, TableId(u32::from_le_bytes([a, b, c, d])), types.transpose()?)
            }
            _ => return Err(unknown()),
        };
        let index = Index::of_code(code)
            .ok_or_else(|| wrong(format!("an index of kind {code}; perhaps a newer version made it")))?;
        let chunks = Some(chunks).filter(|&chunks| chunks != NONE);
        Ok(Self { id: TableId(u32::from_le_bytes(*id)), index, chunks, types })
    }
}

/// What a catalog says.
pub(crate) struct Contents {
    /// All tables, by name.
    pub tables: BTreeMap<String, Row>,
    /// The highest id given so far, as far as the catalog knows.
    pub highest: TableId,
    /// What the row says that tells it, if there is one.
    pub told: Option<TableId>,
}

impl Contents {
    /// Leaves each table one name, and returns the others. A table has several where a transaction without an end, which is yet to be
    /// undone, was renaming it, or where a rebuild has found leaves of different ages: then one row may not know the hidden table.
    pub fn take_other_names(&mut self) -> Vec<String> {
        let order = |(name, row): (&String, &Row)| (row.id, row.chunks.is_none(), name.clone());
        let mut names: Vec<_> = self.tables.iter().map(order).collect();
        names.sort_unstable();
        let of_one = names.chunk_by(|one, other| one.0 == other.0);
        let others: Vec<_> = of_one.flat_map(|names| &names[1..]).map(|(.., name)| name.clone()).collect();
        others.iter().for_each(|name| _ = self.tables.remove(name));
        others
    }
}

/// Reads all of it.
pub(crate) fn read(catalog: &Arc<Tree>) -> Result<Contents> {
    let latest = catalog.core().txns.latest();
    let mut rows = Forward::new(catalog.clone(), latest, Bound::Unbounded, Bound::Unbounded);
    let (mut tables, mut highest, mut told) = (BTreeMap::new(), CATALOG, None);
    while let Some((name, row)) = rows.next(Values::Read)? {
        if name == HIGHEST {
            let id = row.try_into().map_err(|_| Error::corrupt("catalog", "its highest id is no number"))?;
            let id = TableId(u32::from_le_bytes(id));
            (highest, told) = (highest.max(id), Some(id));
            continue;
        }
        let name = String::from_utf8(name.to_vec()).map_err(|e| Error::corrupt("catalog", e.to_string()))?;
        let row = Row::decode(&name, row)?;
        // A salvage may have found the row of the highest id as it was before.
        highest = highest.max(row.id).max(row.chunks.unwrap_or(CATALOG));
        tables.insert(name, row);
    }
    Ok(Contents { tables, highest, told })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back() {
        for index in Index::ALL {
            for chunks in [None, Some(TableId(70_001))] {
                for types in [None, Some(Types::named("u32,String", "")), Some(Types::named("", ""))] {
                    let row = Row { id: TableId(70_000), index, chunks, types };
                    assert_eq!(Row::decode("t", &row.encode()).unwrap(), row);
                }
            }
        }
    }

    /// Catalogs of the first databases have ids only.
    #[test]
    fn rows_without_an_index_are_of_bplus_trees() {
        let row = Row::decode("t", &70_000u32.to_le_bytes()).unwrap();
        assert_eq!(row, Row { id: TableId(70_000), index: Index::BPlus, chunks: None, types: None });
    }

    /// The name that knows of large values stays.
    #[test]
    fn one_name_stays() {
        let row = |id, chunks| Row { id: TableId(id), index: Index::BPlus, chunks, types: None };
        let chunks = Some(TableId(70));
        let rows = [("a", row(16, None)), ("b", row(17, None)), ("c", row(16, chunks)), ("d", row(17, None))];
        let tables = rows.map(|(name, row)| (name.to_owned(), row)).into();
        let mut contents = Contents { tables, highest: TableId(70), told: None };
        assert_eq!(contents.take_other_names(), ["a", "d"]);
        assert_eq!(contents.tables.into_keys().collect::<Vec<_>>(), ["b", "c"]);
    }

    #[test]
    fn foreign_rows_are_refused() {
        for row in [&b"abc"[..], b"abcd\x03", b"abcd\x00\x00", b"abcd\x00\x00\x00\x00\x00\x09u32"] {
            let error = Row::decode("t", row).unwrap_err();
            assert!(error.to_string().contains("\"t\""), "{error}");
        }
    }
}
