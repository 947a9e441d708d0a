//! Rollback: a transaction's records are read backwards, and each change is undone by a change of its own.
//!
//! Undo is logical: by key, wherever the row is by now. Each compensation is logged with the record that is to be undone
//! next, so a rollback that a crash interrupts goes on where it was, however often.
//!
//! Source: ARIES (Mohan et al., TODS 1992) §5.2, §6.3.

use crate::blob;
use crate::error::{Error, Result};
use crate::leaf::{Change, exchange};
use crate::lock::{KeyMode, Reach};
use crate::tree::Tree;
use crate::txn::{Record, Txn};
use foreshore_base::{Lsn, TableId, seeded_bug};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// Undoes what `txn` did after its record `until`. Changes of tables that `table` does not know are passed over: they
/// were dropped.
///
/// Errors: [`Error::Corrupt`]; I/O. The transaction is then undone in part; calling again goes on.
pub(crate) fn roll_back(
    txn: &mut Txn,
    until: Lsn,
    table: &dyn Fn(TableId) -> Option<Arc<Tree>>,
) -> Result<()> {
    let core = txn.core.clone();
    let mut records = core.log.backward(&core.incarnations);
    let mut at = txn.last;
    while at > until {
        let body = records.read(at)?;
        let next = match Record::decode(body).map_err(|detail| damaged(at, detail))? {
            Record::Write { owner, previous, first, old, change } if owner == txn.owner => {
                if let Some(tree) = table(change.table()) {
                    let changes = change.of_rows().map_err(|detail| damaged(at, detail))?;
                    for (number, change) in changes.iter().enumerate().rev() {
                        if number > 0 && seeded_bug("txn_rows_undone_in_part") {
                            continue;
                        }
                        // Undoing a new row twice does no harm: only with the first one all are undone.
                        let undo_next = if number == 0 { previous } else { at };
                        txn.last = tree.compensate(txn, undo_next, first, change, old)?;
                    }
                }
                previous
            }
            Record::Compensation { owner, undo_next, .. } if owner == txn.owner => undo_next,
            Record::Prepare { owner, previous, .. } if owner == txn.owner => previous,
            Record::Begin { owner } if owner == txn.owner => break,
            _ => return Err(damaged(at, "it is not of the transaction that is rolled back".into())),
        };
        at = earlier(next, at)?;
    }
    Ok(())
}

/// Rows as they were before the records that were read so far.
type Before = HashMap<(TableId, Vec<u8>), Option<Vec<u8>>>;

/// Gives a transaction that prepared before a restart its locks back, and its room in the log; and readers the images of what
/// it changed.
pub(crate) fn restore_prepared(txn: &mut Txn, table: &dyn Fn(TableId) -> Option<Arc<Tree>>) -> Result<()> {
    let core = txn.core.clone();
    let mut records = core.log.backward(&core.incarnations);
    let mut before = Before::new();
    let mut at = txn.last;
    loop {
        let body = records.read(at)?;
        let next = match Record::decode(body).map_err(|detail| damaged(at, detail))? {
            Record::Write { previous, first, old, change, .. } => {
                let changes = change.of_rows().map_err(|detail| damaged(at, detail))?;
                txn.owe_for(body.len(), changes.len());
                if let Some(tree) = table(change.table()) {
                    for change in changes.iter().rev() {
                        restore_row(txn, &tree, &mut before, at, change, first, old)?;
                    }
                }
                previous
            }
            Record::Compensation { undo_next, .. } => undo_next,
            Record::Prepare { previous, .. } => previous,
            _ => return Ok(()),
        };
        at = earlier(next, at)?;
    }
}

/// The record `next`, where the way back from the one at `at` goes on.
fn earlier(next: Lsn, at: Lsn) -> Result<Lsn> {
    if next < at { Ok(next) } else { Err(damaged(at, format!("its way back leads to {next}"))) }
}

/// The same for one row, which the record at `at` changed.
fn restore_row(
    txn: &mut Txn,
    tree: &Arc<Tree>,
    before: &mut Before,
    at: Lsn,
    change: &Change<'_>,
    first: bool,
    old: &[u8],
) -> Result<()> {
    let key = change.key().ok_or_else(|| damaged(at, "it changes no row".into()))?;
    txn.enter(tree)?;
    if let Some(id) = blob::marked(tree, key) {
        txn.note_blob(tree, id);
    }
    if matches!(change, Change::Ghost { .. }) {
        txn.note_ghost(tree, key, txn.author());
    }
    if !seeded_bug("txn_prepared_unlocked") {
        txn.lock(tree, key, KeyMode::Exclusive, Reach::NONE)?;
    }
    let value = match before.entry((tree.id, key.to_vec())) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(unknown) => unknown.insert(tree.newest(key)?),
    };
    *value = undone(change, old, value.take()).ok_or_else(|| {
        damaged(at, "a row that a prepared transaction changed is not as it left it".into())
    })?;
    if first {
        tree.restore_image(txn, key, value.as_deref());
    }
    Ok(())
}

/// The value before `change`, given the one after it; `None` if they do not fit.
fn undone(change: &Change<'_>, old: &[u8], after: Option<Vec<u8>>) -> Option<Option<Vec<u8>>> {
    match *change {
        Change::Put { .. } => Some(None),
        Change::Ghost { .. } => Some(Some(old.to_vec())),
        Change::Patch { kept, old, new, .. } => {
            let mut value = after?;
            exchange(&mut value, kept, new, old)?;
            Some(Some(value))
        }
        _ => None,
    }
}

fn damaged(at: Lsn, detail: String) -> Error {
    Error::corrupt(format!("log record at {at}"), detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;
    use crate::lock::Owner;
    use foreshore_base::{PageId, TxnId};

    /// A made-up record that names itself as the one before it keeps nobody busy for ever.
    #[test]
    fn a_way_back_that_leads_nowhere_is_damage() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        let core = table.tree.core();
        let owner = Owner(7);
        let change = Change::Put { page: PageId(1), table: TableId(999), key: b"k", value: b"v" };
        let record = |previous| Record::Write { owner, previous, first: true, old: b"", change };
        let place = core.log.reserve(record(Lsn::ZERO).encoded_len());
        let at = place.start();
        core.fill(place, &record(at), &mut Vec::new());
        core.txns.slots.resume(owner, TxnId(at.0));
        let mut txn = Txn::resume(core.clone().into(), owner, TxnId(at.0), at, false);
        let no_table = |_| None;
        for told in [roll_back(&mut txn, Lsn::ZERO, &no_table), restore_prepared(&mut txn, &no_table)] {
            assert!(matches!(&told, Err(Error::Corrupt { .. })), "{told:?}");
        }
        txn.abandon();
    }
}
