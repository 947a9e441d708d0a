//! The catalog: table 1, name → table id. Its row is what makes a table exist.

use crate::error::{Error, Result};
use crate::tree::{Forward, Tree};
use foreshore_base::TableId;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// The catalog's own id.
pub(crate) const CATALOG: TableId = TableId(1);

/// The first id given to a user's table.
pub(crate) const FIRST: TableId = TableId(16);

/// The row's value.
pub(crate) fn encode(id: TableId) -> [u8; 4] {
    id.0.to_le_bytes()
}

/// All tables by name.
pub(crate) fn read(catalog: &Arc<Tree>) -> Result<BTreeMap<String, TableId>> {
    let latest = catalog.core().txns.latest();
    let mut rows = Forward::new(catalog.clone(), latest, Bound::Unbounded);
    let mut tables = BTreeMap::new();
    while let Some((name, id)) = rows.next()? {
        let name = String::from_utf8(name.to_vec()).map_err(|e| Error::corrupt("catalog", e.to_string()))?;
        let id = id
            .try_into()
            .map_err(|_| Error::corrupt("catalog", format!("table {name:?} has no valid id")))?;
        tables.insert(name, TableId(u32::from_le_bytes(id)));
    }
    Ok(tables)
}
