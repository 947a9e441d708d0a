//! Comparing the references of a table with the chunks and marks of its hidden one.

use super::read::Row;
use super::reap::outside;
use super::{BlobId, Form, Part, Reference};
use crate::db::TableReport;
use crate::error::{Error, Result};
use crate::leaf::LeafCopy;
use crate::tree::{Ahead, Tree};
use crate::txn::Direction;
use crate::version::Version;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::ops::Bound;

/// Looks at key, version and content of a cell; `false` ends the walk.
type Look<'a> = dyn FnMut(&[u8], Version, &[u8]) -> bool + 'a;

/// Blobs in use: for each a row that refers to it.
type Used = BTreeMap<BlobId, (Vec<u8>, Reference)>;

/// The damaged values of a table: what is wrong with the first one, and the rows of all. Who is told of all mends them at once.
#[derive(Default)]
struct Damage {
    first: Option<(String, String)>,
    rows: Vec<Vec<u8>>,
}

impl Damage {
    /// Takes note of a damaged value. What is something else comes back: it ends the check.
    fn note(&mut self, error: Error) -> Result<()> {
        match error {
            Error::Corrupt { what, detail, rows } if !rows.is_empty() => {
                self.first.get_or_insert((what, detail));
                self.rows.extend(rows);
                Ok(())
            }
            other => Err(other),
        }
    }

    fn none_or_error(self) -> Result<()> {
        let rows = self.rows;
        self.first.map_or(Ok(()), |(what, detail)| Err(Error::Corrupt { what, detail, rows }))
    }
}

impl Tree {
    /// Reads every large value, comparing lengths and checksums, and looks for pieces that no row and no mark explains
    /// (L2). Adds what it finds to the table's report.
    ///
    /// Errors: [`Error::Corrupt`] names the rows whose values are not whole or used twice, all of them; or one whose value is both
    /// in use and marked.
    pub(crate) fn check_large(&self, report: &mut TableReport) -> Result<()> {
        let Some(chunks) = self.chunks.get() else { return Ok(()) }; // nor a reference: `ensure_chunks_for`
        let shape = chunks.check()?;
        (report.large_leaves, report.large_used_bytes) = (shape.leaves, shape.used_bytes);
        let found = chunks.ids()?;
        let used = self.check_references(report)?;
        for (id, marked) in found {
            match (used.get(&id), marked) {
                (Some(_), false) => {}
                (None, true) => report.large_dead += 1,
                (Some((key, reference)), true) => self.check_mark(key, *reference)?,
                (None, false) => report.large_stray += u64::from(chunks.is_stray(id)?),
            }
        }
        Ok(())
    }

    /// Looks whether a row of this leaf refers to a large value though there is no hidden table, which comes before the first reference.
    pub(crate) fn ensure_chunks_for(&self, leaf: &LeafCopy) -> Result<()> {
        if self.chunks.get().is_some() {
            return Ok(());
        }
        for row in leaf.rows() {
            let (version, len) = leaf.peek(row)?;
            if self.is_large(len) && !Version(version).is_ghost() {
                return self.chunks().map(drop);
            }
        }
        Ok(())
    }

    /// All blobs of a hidden table, and whether each has a mark.
    fn ids(&self) -> Result<BTreeMap<BlobId, bool>> {
        let mut ids = BTreeMap::new();
        let mut sound = Ok(());
        self.each_cell(&mut |key, version, mark| {
            match Part::of(key) {
                Some(Part::Mark(_)) if version.is_ghost() => {}
                Some(Part::Mark(id)) => {
                    sound = outside(self, id, mark).map(drop);
                    ids.insert(id, true);
                }
                Some(Part::Piece(_, id, _)) => _ = ids.entry(id).or_insert(false),
                None => {
                    let detail = format!("{} is no key of a large value's part", key.escape_ascii());
                    sound = Err(Error::corrupt(format!("table {:?}", self.name()), detail));
                }
            }
            sound.is_ok()
        })?;
        sound.map(|()| ids)
    }

    /// Reads all large values; the blobs that they lie in, each with the row that refers to it.
    fn check_references(&self, report: &mut TableReport) -> Result<Used> {
        let mut references = Vec::new();
        self.each_cell(&mut |key, _, value| {
            if self.is_large(value.len()) {
                references.push((key.to_vec(), Reference::of(value)));
            }
            true
        })?;
        let (mut used, mut shared, mut damage) = (Used::new(), BTreeSet::new(), Damage::default());
        for (key, reference) in references {
            let row = Row { key: &key, reference };
            match self.check_reference(row) {
                Ok(true) => {}
                Ok(false) => continue, // replaced meanwhile
                Err(damaged) => {
                    damage.note(damaged)?;
                    continue;
                }
            }
            report.large_values += 1;
            report.large_bytes += u64::from(reference.len);
            match used.entry(reference.id) {
                Entry::Vacant(unused) => _ = unused.insert((key, reference)),
                Entry::Occupied(used) => {
                    // The first row with the second one, and with no others.
                    let first = shared.insert(reference.id).then(|| &used.get().0);
                    for key in iter::once(&key).chain(first) {
                        damage.note(self.damaged(Row { key, reference }, "two rows refer to it".into()))?;
                    }
                }
            }
        }
        damage.none_or_error().map(|()| used)
    }

    /// Reads one large value; `false` if the row has another value by now.
    fn check_reference(&self, row: Row<'_>) -> Result<bool> {
        let Row { key, reference } = row;
        let Some(mut value) = self.referring(key, reference)? else { return Ok(false) };
        match self.complete(key, &mut value) {
            Ok(()) => Ok(true),
            Err(_) if self.referring(key, reference)?.is_none() => Ok(false),
            Err(damaged) => Err(damaged),
        }
    }

    /// The row's cell, if it refers to that value.
    pub(super) fn referring(&self, key: &[u8], reference: Reference) -> Result<Option<Vec<u8>>> {
        let refers = |cell: &Vec<u8>| self.is_large(cell.len()) && Reference::of(cell) == reference;
        Ok(self.newest(key)?.filter(refers))
    }

    /// A blob was marked, and then in use: is it both at one moment, or did it come into use meanwhile, or go out of it again?
    fn check_mark(&self, key: &[u8], reference: Reference) -> Result<()> {
        let (chunks, id) = (self.chunks()?, reference.id);
        let before = chunks.marked_by(id)?;
        let is_in_use = self.referring(key, reference)?.is_some();
        if before.is_some() && is_in_use && chunks.marked_by(id)? == before {
            let row = Row { key, reference };
            return Err(self.damaged(row, "it is in use, and marked for removal".into()));
        }
        Ok(())
    }

    /// Who marked the blob of this hidden table, if it is marked.
    fn marked_by(&self, id: BlobId) -> Result<Option<Version>> {
        let version = self.newest_cell(&id.mark_key())?.map(|(version, _)| version);
        Ok(version.filter(|version| !version.is_ghost()))
    }

    /// A blob seemed to have pieces, but neither row nor mark: is that so, or was it reaped meanwhile?
    fn is_stray(&self, id: BlobId) -> Result<bool> {
        let mut there = false;
        if self.marked_by(id)?.is_none() {
            for form in [Form::Chunk, Form::Extent] {
                self.each_cell_from(&id.piece_key(form, 0), &mut |key, _, _| {
                    there |= matches!(Part::of(key), Some(Part::Piece(_, of, _)) if of == id);
                    false
                })?;
            }
        }
        Ok(there)
    }

    /// Calls `look` with every newest cell, ghosts included, in order of their keys.
    pub(super) fn each_cell(&self, look: &mut Look<'_>) -> Result<()> {
        self.each_cell_from(&[], look)
    }

    pub(super) fn each_cell_from(&self, from: &[u8], look: &mut Look<'_>) -> Result<()> {
        let mut copy = LeafCopy::new(self.leaf_bytes());
        let mut ahead = Ahead::new(Direction::Ascending);
        let (mut at, mut cold) = (from.to_vec(), false);
        loop {
            self.copy_leaf(None, &at, &mut copy)?;
            ahead.came_to(self, &copy, cold, &Bound::Unbounded);
            for index in copy.lower_bound(&at)?..copy.len() {
                let row = copy.row(index)?;
                if !look(row.key, Version(row.version), row.value) {
                    return Ok(());
                }
            }
            let Some(high) = copy.high_fence() else { return Ok(()) };
            at = high.to_vec();
            cold = self.is_on_disk(copy.right());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blob::{REFERENCE_BYTES, unmark_used};
    use crate::db::Database;
    use crate::tree::{Intent, PATIENCE};
    use std::sync::Arc;

    /// A table with one large value, and its reference.
    fn one_value() -> (Database, Arc<Tree>, Reference) {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        table.put(b"k", &[7; 20_000]).unwrap();
        let tree = table.tree.clone();
        let reference = Reference::of(&tree.newest(b"k").unwrap().unwrap());
        (db, tree, reference)
    }

    fn checked(tree: &Tree) -> Result<TableReport> {
        let mut report = TableReport::default();
        tree.check_large(&mut report).map(|()| report)
    }

    #[track_caller]
    fn is_damaged(tree: &Tree, how: &str) {
        let error = checked(tree).unwrap_err().to_string();
        assert!(error.contains(how), "{error}");
    }

    #[test]
    fn damage_is_named() {
        let (_db, tree, reference) = one_value();
        let (chunks, id) = (tree.chunks().unwrap(), reference.id);
        assert_eq!(checked(&tree).unwrap().large_bytes, 20_000);
        let second = id.piece_key(Form::Chunk, 2);
        let mut chunk = Vec::new();
        assert!(chunks.append_newest(&second, &mut chunk).unwrap());
        chunks.put_unversioned(&second, &chunk[1..]).unwrap();
        is_damaged(&tree, "there are 19999 bytes of 20000");
        chunk[9] += 1;
        chunks.put_unversioned(&second, &chunk).unwrap();
        is_damaged(&tree, "its checksum is wrong");
        chunks.remove_unversioned(&second).unwrap();
        is_damaged(&tree, "its piece 2 is missing");
        let mut value = Vec::new();
        let read = tree.get(&tree.core().txns.latest(), b"k", &mut value);
        assert!(matches!(read, Err(Error::Corrupt { .. })), "a reader is told, too");
    }

    #[test]
    fn a_giant_length_takes_no_memory() {
        let (_db, tree, reference) = one_value();
        let cell = tree.newest(b"k").unwrap().unwrap();
        let giant = Reference { len: u32::MAX, ..reference }.cell(&cell[REFERENCE_BYTES..]);
        tree.put_unversioned(b"k", &giant).unwrap();
        let mut value = Vec::new();
        let read = tree.get(&tree.core().txns.latest(), b"k", &mut value);
        assert!(
            matches!(read, Err(Error::Corrupt { .. })) && value.capacity() < 1 << 20,
            "{}",
            value.capacity()
        );
    }

    #[test]
    fn a_value_used_twice_is_damage() {
        let (_db, tree, _) = one_value();
        let cell = tree.newest(b"k").unwrap().unwrap();
        tree.put_unversioned(b"another", &cell).unwrap();
        is_damaged(
            &tree,
            "row k of table \"t\" is damaged: two rows refer to it (and so are those of rows another)",
        );
    }

    #[test]
    fn each_row_of_a_value_used_often_is_named_once() {
        let (_db, tree, _) = one_value();
        let cell = tree.newest(b"k").unwrap().unwrap();
        for key in [b"l", b"m"] {
            tree.put_unversioned(key, &cell).unwrap();
        }
        let Err(Error::Corrupt { rows, .. }) = checked(&tree) else { panic!("it is damage") };
        assert_eq!(rows, [b"l", b"k", b"m"]);
    }

    /// Who reads it is told the same.
    #[test]
    fn a_reference_without_a_hidden_table_is_damage() {
        let (db, tree, _) = one_value();
        let cell = tree.newest(b"k").unwrap().unwrap();
        let other = db.byte_table("another").unwrap();
        other.put(b"small", b"value").unwrap();
        db.check().unwrap();
        other.tree.put_unversioned(b"k", &cell).unwrap();
        for told in [db.check().unwrap_err(), other.get(b"k").unwrap_err()] {
            assert!(told.to_string().contains("it has a large value, but no table of chunks"), "{told}");
        }
    }

    #[test]
    fn a_value_that_belongs_to_no_row_is_counted() {
        let (_db, tree, _) = one_value();
        tree.remove_unversioned(b"k").unwrap();
        let report = checked(&tree).unwrap();
        assert_eq!((report.large_values, report.large_dead, report.large_stray), (0, 0, 1));
    }

    /// Leaves of different ages may hold both the reference and the mark; the value is then kept.
    #[test]
    fn a_value_in_use_loses_its_mark_when_leaves_are_all_there_is() {
        let (db, tree, reference) = one_value();
        tree.chunks().unwrap().put_unversioned(&reference.id.mark_key(), &10u32.to_le_bytes()).unwrap();
        is_damaged(&tree, "it is in use, and marked for removal");
        unmark_used(&tree).unwrap();
        assert_eq!(checked(&tree).unwrap().large_values, 1);
        tree.autocommit(b"k", Intent::Remove, PATIENCE).unwrap();
        assert_eq!(checked(&tree).unwrap().large_leaves, 1, "and it can be removed as any other");
        drop(db);
    }
}
