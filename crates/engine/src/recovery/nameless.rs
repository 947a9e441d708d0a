//! Tables whose names are lost with leaves of the catalog: they get others, by their numbers. And tables whose row in the catalog, which a
//! salvage found, is from before their first large value: they get their hidden table back.
//!
//! Why: the names of all tables may lie in one leaf, and its loss is not to cost more than itself.
//!
//! Invariant R2: a catalog that lacks names does not tell the highest id. That row lies in the leftmost leaf; if another leaf is
//! lost, it goes before an empty leaf takes the place; and it comes back when all tables have names. So wherever a rebuild is cut short,
//! the next opening knows that leaves without a name are not left over from a table that was dropped, or never made. (A whole catalog
//! without that row knows no tables.) A catalog from before the last tables were made, which a salvage may find, tells a lower id than
//! some leaves have: that row is in the log before anything else of a table. (Where another of its leaves is older than the one with that
//! row, tables made since are taken for dropped ones. Hidden tables are not, as references lead to them. So is a table that was renamed where
//! the leaf that had the old name is newer than the one that has the new name.)

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

/// Completes the catalog, and what was read of it, by what the leaves tell of which it says nothing: a table from before its first large
/// value gets its hidden table, and, if names are lacking, those tables get some.
pub(super) fn complete(
    catalog: &Arc<Tree>,
    contents: &mut Contents,
    leaves: &Tables,
    mend: &dyn Fn(&Tree) -> Result<()>,
    lacks_names: bool,
) -> Result<()> {
    let traces = |id| {
        let tree = leaves.look(catalog.core(), id)?;
        mend(&tree)?;
        tree.traces()
    };
    let unknown = leaves.ids().filter(|id| !is_known(contents, *id));
    let mut nameless = unknown.map(|id| Ok((id, traces(id)?))).collect::<Result<_>>()?;
    give_hidden(catalog, contents, &mut nameless, &traces)?;
    if lacks_names { give_names(catalog, contents, &nameless) } else { Ok(()) }
}

/// Tables of which the catalog says nothing, and what their leaves tell.
type Nameless = BTreeMap<TableId, Traces>;

fn is_known(contents: &Contents, id: TableId) -> bool {
    contents.tables.values().any(|row| row.id == id || row.chunks == Some(id))
}

/// The table which holds most of the large values that `of` refers to.
fn hidden_of(of: &Traces, nameless: &Nameless) -> Option<TableId> {
    let led = nameless.iter().map(|(id, other)| (of.leading_to(other), *id));
    led.max().filter(|(values, _)| *values > 0).map(|(_, id)| id)
}

/// Gives each table that refers to large values and has no hidden table that, which is nameless no more.
fn give_hidden(
    catalog: &Arc<Tree>,
    contents: &mut Contents,
    nameless: &mut Nameless,
    traces: &dyn Fn(TableId) -> Result<Traces>,
) -> Result<()> {
    for (name, row) in contents.tables.iter_mut().filter(|(_, row)| row.chunks.is_none()) {
        if !nameless.values().any(Traces::has_pieces) {
            break; // as almost always: no table need be read
        }
        row.chunks = hidden_of(&traces(row.id)?, nameless);
        if let Some(id) = row.chunks {
            catalog.put_unversioned(name.as_bytes(), &row.encode())?;
            nameless.remove(&id);
            contents.highest = contents.highest.max(id);
        }
    }
    Ok(())
}

/// Gives each table that has rows and no name one. It is indexed by default, and has the hidden table which holds most of its large values.
fn give_names(catalog: &Arc<Tree>, contents: &mut Contents, nameless: &Nameless) -> Result<()> {
    let hidden: BTreeMap<_, _> =
        nameless.iter().filter_map(|(id, traces)| Some((*id, hidden_of(traces, nameless)?))).collect();
    for (&id, traces) in nameless {
        if traces.has_rows && hidden.values().all(|hidden| *hidden != id) {
            let row = Row { id, index: Index::default(), chunks: hidden.get(&id).copied(), types: None };
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

/// The first name that no table has.
fn free_name(contents: &Contents, id: TableId) -> String {
    let mut name = format!("recovered-{id}");
    while contents.tables.contains_key(&name) {
        name.push('-');
    }
    name
}
