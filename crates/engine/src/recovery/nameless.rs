//! Tables whose names are lost with leaves of the catalog: they get others, by their numbers.
//!
//! Why: the names of all tables may lie in one leaf, and its loss is not to cost more than itself.
//!
//! Invariant R2: a catalog that lacks names does not tell the highest id. That row lies in the leftmost leaf; if another leaf is
//! lost, it goes before an empty leaf takes the place; and it comes back when all tables have names. So wherever a rebuild is cut short,
//! the next opening knows that leaves without a name are not left over from a table that was dropped, or never made. (A whole catalog
//! without that row knows no tables.) A catalog from before the last tables were made, which a salvage may find, tells a lower id than
//! some leaves have: that row is in the log before anything else of a table.

use crate::blob::Traces;
use crate::db::Index;
use crate::db::catalog::{CATALOG, Contents, HIGHEST, Row};
use crate::error::Result;
use crate::recovery::leaves::Tables;
use crate::tree::Tree;
use foreshore_base::TableId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Puts empty leaves where the catalog has lost some.
pub(super) fn close_gaps(catalog: &Tree) -> Result<()> {
    let gaps = catalog.gaps()?;
    if !gaps.is_empty() {
        catalog.remove_unversioned(HIGHEST)?; // R2
    }
    gaps.iter().try_for_each(|gap| catalog.fill(gap))
}

/// Gives each table that has rows and no name one, in the catalog and in what was read of it. It is indexed by default, and has the
/// hidden table which holds most of its large values.
pub(super) fn give_names(
    catalog: &Arc<Tree>,
    contents: &mut Contents,
    leaves: &Tables,
    mend: &dyn Fn(&Tree) -> Result<()>,
) -> Result<()> {
    let nameless = traces_of_nameless(catalog, contents, leaves, mend)?;
    let hidden_of = |of: &Traces| {
        let led = nameless.iter().map(|(id, other)| (of.leading_to(other), *id));
        led.max().filter(|(values, _)| *values > 0).map(|(_, id)| id)
    };
    let hidden: BTreeMap<_, _> =
        nameless.iter().filter_map(|(id, traces)| Some((*id, hidden_of(traces)?))).collect();
    for (&id, traces) in &nameless {
        if traces.has_rows && hidden.values().all(|hidden| *hidden != id) {
            let row = Row { id, index: Index::default(), chunks: hidden.get(&id).copied() };
            let name = free_name(contents, id);
            catalog.put_unversioned(name.as_bytes(), &row.encode())?;
            contents.tables.insert(name, row);
        }
    }
    contents.highest = nameless.keys().copied().fold(contents.highest, TableId::max);
    match contents.highest > CATALOG {
        true => catalog.put_unversioned(HIGHEST, &contents.highest.0.to_le_bytes()), // R2
        false => Ok(()), // there never was a table
    }
}

/// What the leaves of each table that has no name tell.
fn traces_of_nameless(
    catalog: &Tree,
    contents: &Contents,
    leaves: &Tables,
    mend: &dyn Fn(&Tree) -> Result<()>,
) -> Result<BTreeMap<TableId, Traces>> {
    let is_named = |id| {
        contents.tables.values().any(|row| row.id == id || row.chunks.is_some_and(|hidden| hidden == id))
    };
    let traces = |id| {
        let tree = leaves.look(catalog.core(), id)?;
        mend(&tree)?;
        Ok((id, tree.traces()?))
    };
    leaves.ids().filter(|id| !is_named(*id)).map(traces).collect()
}

/// The first name that no table has.
fn free_name(contents: &Contents, id: TableId) -> String {
    let mut name = format!("recovered-{id}");
    while contents.tables.contains_key(&name) {
        name.push('-');
    }
    name
}
