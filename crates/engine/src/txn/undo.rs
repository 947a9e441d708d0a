//! Rollback: a transaction's records are read backwards, and each change is undone by a change of its own.
//!
//! Undo is logical: by key, wherever the row is by now. Each compensation is logged with the record that is to be undone
//! next, so a rollback that a crash interrupts goes on where it was, however often.
//!
//! Source: ARIES (Mohan et al., TODS 1992) §5.2, §6.3.

use crate::blob;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::leaf::{Change, exchange};
use crate::tree::Tree;
use crate::txn::{Record, Txn, damaged};
use crate::version::Version;
use foreshore_base::{Lsn, TableId, seeded_bug};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// Undoes what `txn` did after its record `until`. Changes of tables that `table` does not know are passed over: they
/// were dropped. So are those of rows whose leaf is lost.
///
/// Its last record is then the one at which that has ended: who undoes more some time passes over all of this at once.
///
/// Errors: [`Error::Corrupt`]; I/O. The transaction is then undone in part; calling again goes on.
pub(crate) fn roll_back(
    txn: &mut Txn,
    until: Lsn,
    table: &dyn Fn(TableId) -> Option<Arc<Tree>>,
) -> Result<()> {
    txn.last = each_write_backwards(txn, until, |txn, write| {
        let Some(tree) = table(write.table) else { return Ok(()) };
        for (number, change) in write.changes.iter().enumerate().rev() {
            let is_done = |txn: &Txn| write.is_undone(txn, &tree, number);
            if number > 0 && seeded_bug("txn_rows_undone_in_part") || is_done(txn) {
                continue;
            }
            // Undoing a new row twice does no harm, but to the log: only with the first one all are undone.
            let undo_next = if number == 0 { write.previous } else { write.at };
            if write.first && !seeded_bug("claim_undone_unlocked") {
                txn.keep_locked(&tree, change)?;
            }
            let undone = tree.compensate(txn, undo_next, write.first, change, write.old);
            txn.last = unless_lost(&tree, change, undone)?.unwrap_or(txn.last);
        }
        Ok(())
    })?;
    Ok(())
}

/// What was done to the row that `change` changed; `None` if that failed because the row is lost.
fn unless_lost<R>(tree: &Tree, change: &Change<'_>, done: Result<R>) -> Result<Option<R>> {
    match (done, change.key()) {
        (Err(Error::Corrupt { .. }), Some(key)) if is_lost(tree, key)? => Ok(None),
        (done, _) => done.map(Some),
    }
}

/// Is a row that a transaction without an end has changed lost with its leaf, as after a rebuild? Nobody sees it any more.
///
/// For the empty key alone, a rebuild has put an empty leaf in the place of the lost one. That lacks even the cell that such a row has until
/// its transaction has ended.
fn is_lost(tree: &Tree, key: &[u8]) -> Result<bool> {
    Ok(tree.has_lost(key)? || key.is_empty() && tree.newest_cell(key)?.is_none())
}

/// Did an earlier attempt undo this insertion? What cannot be told cannot be undone now either.
fn is_undone(txn: &Txn, tree: &Tree, change: &Change<'_>) -> bool {
    let is_not_its = |cell: Option<(Version, Vec<u8>)>| cell.is_none_or(|(version, _)| !txn.wrote(version));
    change.key().is_some_and(|key| tree.newest_cell(key).is_ok_and(is_not_its))
}

/// Rows as they were before the records that were read so far, but for those of which the first was read.
type Before = HashMap<(TableId, Vec<u8>), Option<Vec<u8>>>;

/// Gives a transaction from before a restart that has prepared, or cannot be undone yet, its locks back, and its room in the log; and
/// readers the images of what it changed. What is undone already may be others' by now, who have prepared. Rows that are
/// lost have neither, but for the one with the empty key: others can write it again, and are not to while it may be undone.
pub(crate) fn restore(txn: &mut Txn, table: &dyn Fn(TableId) -> Option<Arc<Tree>>) -> Result<()> {
    let mut before = Before::new();
    each_write_backwards(txn, Lsn::ZERO, |txn, write| {
        txn.owe_for(write.bytes, write.changes.len());
        let Some(tree) = table(write.table) else { return Ok(()) };
        for (number, change) in write.changes.iter().enumerate().rev() {
            if !write.is_undone(txn, &tree, number) {
                restore_row(txn, &tree, &mut before, write, change)?;
            }
        }
        Ok(())
    })
    .map(drop)
}

/// One record by which a transaction changed rows.
struct Write<'a> {
    at: Lsn,
    /// Length of its body.
    bytes: usize,
    /// The transaction's record before it.
    previous: Lsn,
    first: bool,
    old: &'a [u8],
    table: TableId,
    /// Does a compensation say that it is to be undone next? Then a part of it may be undone.
    again: bool,
    /// In the order in which they were made.
    changes: Vec<Change<'a>>,
}

impl Write<'_> {
    /// Did an earlier attempt undo this one of its changes? Not the first: with that all are undone.
    fn is_undone(&self, txn: &Txn, tree: &Tree, number: usize) -> bool {
        number > 0 && self.again && is_undone(txn, tree, &self.changes[number])
    }
}

/// Reads the records of `txn` backwards from its last one, down to `until`, which is not read, or to its begin. Calls `visit` with each
/// that changed rows, but for those that were undone already. Returns where it has come to.
fn each_write_backwards(
    txn: &mut Txn,
    until: Lsn,
    mut visit: impl FnMut(&mut Txn, &Write<'_>) -> Result<()>,
) -> Result<Lsn> {
    let core = txn.core.clone();
    let mut records = core.log.backward(&core.incarnations);
    let (mut at, mut loaded, mut again) = (txn.last, txn.last, false);
    while at > until {
        let body = records.read(at)?;
        let next = match Record::decode(body).map_err(|detail| damaged(at, detail))? {
            Record::Write { owner, previous, first, old, change } if owner == txn.owner => {
                let (bytes, table) = (body.len(), change.table());
                if at <= loaded && core.pools.is_on_disk(change.pages().0) {
                    loaded = load_leaves(&core, at, until);
                }
                let changes = change.of_rows().map_err(|detail| damaged(at, detail))?;
                visit(txn, &Write { at, bytes, previous, first, old, table, again, changes })?;
                again = false;
                previous
            }
            Record::Compensation { owner, undo_next, .. } if owner == txn.owner => {
                again = true;
                undo_next
            }
            Record::Prepare { owner, previous, .. } if owner == txn.owner => previous,
            Record::Begin { owner } if owner == txn.owner => break,
            _ => return Err(damaged(at, "it is not of the transaction whose way back leads here")),
        };
        if next >= at {
            return Err(damaged(at, format!("its way back leads to {next}")));
        }
        at = next;
    }
    Ok(at)
}

/// Reads the leaves that the record at `at` changed and those before it, down to `until`, as far as they are on disk; rows may have
/// moved to others since. Returns which record is next.
#[cold]
fn load_leaves(core: &Core, mut at: Lsn, until: Lsn) -> Lsn {
    let (mut records, mut leaves) = (core.log.backward(&core.incarnations), Vec::new());
    while at > until && leaves.len() < core.pools.together() {
        at = match records.read(at).map(Record::decode) {
            Ok(Ok(Record::Write { previous, change, .. })) => {
                leaves.push(change.pages().0);
                previous
            }
            Ok(Ok(Record::Compensation { undo_next, .. })) if undo_next < at => undo_next,
            _ => break, // the begin, or what the rollback itself will meet
        };
    }
    core.pools.load_together(leaves.into_iter());
    at
}

/// The lock and the image of one row that `write` changed.
fn restore_row(
    txn: &mut Txn,
    tree: &Arc<Tree>,
    before: &mut Before,
    write: &Write<'_>,
    change: &Change<'_>,
) -> Result<()> {
    let key = change.key().ok_or_else(|| damaged(write.at, "it changes no row"))?;
    txn.enter(tree)?;
    let value = match before.entry((tree.id, key.to_vec())) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(unknown) => match unless_lost(tree, change, tree.newest(key))? {
            Some(newest) => unknown.insert(newest),
            None => return Ok(()),
        },
    };
    let replaced = undone(change, write.old, value.take());
    if replaced.is_none() && !is_lost(tree, key)? {
        return Err(damaged(write.at, "a row that a prepared transaction changed is not as it left it"));
    }
    if let Some(id) = blob::marked(tree, key) {
        txn.note_blob(tree, id);
    }
    if !seeded_bug("txn_prepared_unlocked") {
        txn.lock_restored(tree, key)?;
    }
    if write.first
        && let Some(replaced) = &replaced
    {
        tree.restore_image(txn, key, replaced.as_deref())?;
    }
    if matches!(change, Change::Ghost { .. }) {
        txn.note_ghost(tree, key, txn.author());
    }
    if write.first {
        before.remove(&(tree.id, key.to_vec())); // no record before it is of this row
    } else {
        *value = replaced.flatten();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::Owner;
    use crate::tree::{Intent, PATIENCE};
    use crate::{ByteTable, Database};
    use foreshore_base::sync::{AtomicBool, Ordering::Relaxed};
    use foreshore_base::{PageId, TxnId};
    use foreshore_io::MemVfs;
    use foreshore_io::sim::{Call, Intercepted};

    /// A made-up record that names itself as the one before it keeps nobody busy for ever.
    #[test]
    fn a_way_back_that_leads_nowhere_is_damage() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        let core = table.tree.core();
        let owner = Owner(7);
        let change = Change::Put { page: PageId(1), table: TableId(999), key: b"k", value: b"v" };
        let record = |previous| Record::Write { owner, previous, first: true, old: b"", change };
        let mut body = Vec::new();
        record(Lsn::ZERO).encode(&mut body);
        let place = core.log.reserve(body.len());
        let at = place.start();
        body.clear();
        record(at).encode(&mut body);
        core.log.fill(place, &body);
        core.txns.slots.resume(owner, TxnId(at.0), &core.log);
        let mut txn = Txn::resume(core.clone().into(), owner, TxnId(at.0), at, None);
        let no_table = |_| None;
        let undone = roll_back(&mut txn, Lsn::ZERO, &no_table);
        for told in [undone, restore(&mut txn, &no_table)] {
            assert!(matches!(&told, Err(Error::Corrupt { .. })), "{told:?}");
        }
        txn.abandon();
    }

    /// A transaction that has put 16 rows by one record, whose leaf others have split; and a disk on which the first of these leaves is, whose
    /// reads fail while it is told so.
    fn put_and_split() -> (Arc<AtomicBool>, Database, ByteTable, Txn) {
        let fails = Arc::new(AtomicBool::new(false));
        let its = fails.clone();
        let disk = Intercepted::new(MemVfs::new(), move |call, name, go| {
            match call == Call::Read && name == "leaves.db" && its.load(Relaxed) {
                true => Err(std::io::ErrorKind::Other.into()),
                false => go(),
            }
        });
        let db = Database::builder().leaf_bytes(4096).cache_bytes(1 << 20).open_on(Arc::new(disk)).unwrap();
        let table = db.byte_table("t").unwrap();
        let (tree, core) = (&table.tree, table.tree.core());
        let keys: Vec<_> = (0..16u8).map(|i| [i]).collect();
        let rows: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&key[..], &b"v"[..])).collect();
        let mut txn = Txn::begin(core.clone().into(), PATIENCE, Lsn::ZERO).unwrap();
        tree.write_each(&mut txn, &rows, Intent::Put, |_, _| Ok(())).unwrap();
        (0..20u8).for_each(|i| table.put(&[7, i], &[2; 900]).unwrap());
        db.checkpoint().unwrap();
        let first = tree.seek(&keys[0]).unwrap();
        core.pools.of_page(first).unwrap().evict_now(first);
        (fails, db, table, txn)
    }

    /// Where a leaf of a record's rows, which others have split, cannot be read, what can be undone is undone, and logged, once, however
    /// often that is tried.
    #[test]
    fn a_rollback_that_is_tried_again_logs_nothing_twice() {
        let (fails, db, table, mut txn) = put_and_split();
        let tree = &table.tree;
        fails.store(true, Relaxed);
        let written = txn.last;
        let last_records = [(); 3].map(|()| {
            let failed = roll_back(&mut txn, Lsn::ZERO, &|_| Some(tree.clone()));
            assert!(matches!(failed, Err(Error::Io { .. })), "{failed:?}");
            txn.last
        });
        assert!(last_records[0] > written, "nothing was undone");
        assert_eq!(last_records[1..], [last_records[0]; 2]);
        fails.store(false, Relaxed);
        roll_back(&mut txn, Lsn::ZERO, &|_| Some(tree.clone())).unwrap();
        txn.end_rollback().unwrap();
        assert_eq!(table.range(..).count(), 20);
        db.check().unwrap();
    }

    /// A row of a record that is undone in part may have been changed by others since, who have prepared: it is theirs.
    #[test]
    fn what_is_undone_is_not_locked_again() {
        let (fails, db, table, mut txn) = put_and_split();
        let tree = &table.tree;
        fails.store(true, Relaxed);
        let its_table = |_| Some(tree.clone());
        assert!(matches!(roll_back(&mut txn, Lsn::ZERO, &its_table), Err(Error::Io { .. })));
        fails.store(false, Relaxed);
        txn.release_locks();
        table.put(&[15], b"another's").unwrap();
        let other = db.begin().unwrap();
        assert!(other.bytes(&table).get_for_update(&[15]).unwrap().is_some());
        txn.patience = std::time::Duration::ZERO;
        restore(&mut txn, &its_table).unwrap();
        other.rollback().unwrap();
        roll_back(&mut txn, Lsn::ZERO, &its_table).unwrap();
        txn.end_rollback().unwrap();
        assert_eq!(table.get(&[15]).unwrap().as_deref(), Some(&b"another's"[..]));
        assert_eq!(table.range(..).count(), 21);
    }
}
