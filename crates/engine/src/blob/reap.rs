//! Reaping: pieces of values that nobody can read any more are removed.
//!
//! Each transaction leaves the blobs that it created or replaced to those who clear up (`txn/garbage.rs`), however it
//! ended. When no snapshot may see the blob any more (L4), its mark tells what became of it. Everything here commits by
//! itself, in an order that may be broken off anywhere: the mark goes last.

use super::extents::Extent;
use super::read::read_ahead;
use super::{BlobId, Form, Part, Reference, VALUE_BYTES_MAX};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::lock::Owner;
use crate::tree::Tree;
use crate::txn::Batch;
use crate::version::Version;
use foreshore_base::{Lsn, PageId, TableId, seeded_bug};
use std::collections::HashSet;
use std::sync::Arc;

/// Removes the blob, if it is garbage because of what `author` did, or because nobody ever took back its first mark.
/// `false`: somebody has its mark locked; ask again later.
pub(crate) fn reap(chunks: &Tree, id: BlobId, author: u64) -> Result<bool> {
    if chunks.is_dropped() {
        return Ok(true);
    }
    let Some((version, mark)) = chunks.newest_cell(&id.mark_key())? else { return Ok(true) };
    // A later author's mark waits for the snapshots that do not see that author's commit.
    let due = version.author() == author || version.author() == Version::SETTLED.author();
    if !due && !seeded_bug("blob_reaped_for_another") {
        return Ok(true);
    }
    let (keys, mark_key) = (&chunks.core().txns.keys, id.mark_key());
    let name = keys.name(chunks.id, &mark_key);
    if !keys.is_quiet(name, None) {
        return Ok(false);
    }
    if version.is_ghost() {
        return chunks.purge(None, &mut { PageId::NONE }, &mark_key, author);
    }
    let cut = chunks.cut(outside(chunks, id, &mark)?);
    if cut.form == Form::Chunk {
        // To take a row out of a leaf that is on disk, it must be read: by who reaps, that is, who replaces values.
        read_ahead(chunks, id, cut.pieces)?;
    }
    cut.keys(id).try_for_each(|key| chunks.remove_unversioned(&key))?;
    if cut.form == Form::Extent {
        chunks.core().extents.free((chunks.id, id), &chunks.core().log);
    }
    keys.forget_images(name, chunks.id, &mark_key); // no snapshot looks at marks, however old it is
    chunks.remove_unversioned(&mark_key)?;
    Ok(true)
}

/// How many bytes of the blob lie outside of its row, by its mark. Errors: [`Error::Corrupt`] if no value has as many.
pub(super) fn outside(chunks: &Tree, id: BlobId, mark: &[u8]) -> Result<usize> {
    let bytes = mark.try_into().map(|mark| u32::from_le_bytes(mark) as usize).ok();
    bytes.filter(|bytes| *bytes <= VALUE_BYTES_MAX).ok_or_else(|| {
        let what = format!("the mark of large value {} of table {:?}", id.0, chunks.name());
        let mark = mark.escape_ascii();
        Error::corrupt(what, format!("it says {mark}, and no value has more bytes than {VALUE_BYTES_MAX}"))
    })
}

/// Tells the core which extents the rows of these hidden tables name, before anything is written or reaped. Where a leaf is damaged,
/// nobody knows what is free: large values can be read, and no new ones written.
///
/// Errors: [`Error::Io`].
pub(crate) fn adopt_extents<'a>(core: &Core, hidden: impl Iterator<Item = &'a Arc<Tree>>) -> Result<()> {
    let mut found = Vec::new();
    match { hidden }.try_for_each(|chunks| find_extents(chunks, &mut found)) {
        Ok(()) => core.extents.adopt(Ok(found)),
        Err(damaged @ Error::Corrupt { .. }) => core.extents.adopt(Err(damaged)),
        Err(unread) => Err(unread),
    }
}

/// What is no row of an extent is left to the check.
fn find_extents(chunks: &Tree, found: &mut Vec<((TableId, BlobId), Extent)>) -> Result<()> {
    chunks.each_cell_from(&[Form::Extent as u8], &mut |key, _, row| {
        if let (Some(Part::Piece(Form::Extent, id, _)), Some(extent)) = (Part::of(key), Extent::decode(row)) {
            found.push(((chunks.id, id), extent));
        }
        true
    })
}

/// Takes the marks of values in use away, when leaves are all that is left of a database: some of them may be from before a
/// commit, and others from after it. Rather a value that nobody reaps than one that is reaped while a row refers to it: where a
/// leaf is lost, nobody knows what its rows refer to, and all marks go.
pub(crate) fn unmark_used(table: &Tree) -> Result<()> {
    let Some(chunks) = table.chunks.get() else { return Ok(()) };
    let marks = marks(chunks)?;
    if marks.is_empty() {
        return Ok(());
    }
    let mut used = HashSet::new();
    let walked = table.each_cell(&mut |_, _, value| {
        used.extend(table.is_large(value.len()).then(|| Reference::of(value).id));
        true
    });
    let are_all_known = is_whole(walked)?;
    let mut unmarked = marks.into_iter().filter(|(_, id)| !are_all_known || used.contains(id));
    unmarked.try_for_each(|(_, id)| chunks.remove_unversioned(&id.mark_key()))
}

/// Leaves what the life before a restart did not reap to those who clear up, so that the open does not wait for it. Prepared transactions
/// have their locks by now: their marks are theirs.
pub(crate) fn reap_leftovers(chunks: &Arc<Tree>) -> Result<()> {
    let txns = &chunks.core().txns;
    let is_locked = |id: BlobId| !txns.keys.is_quiet(txns.keys.name(chunks.id, &id.mark_key()), None);
    let is_claimed = |author| chunks.claimant(Version(author), 0).is_some();
    let is_free = |(author, id): &(u64, BlobId)| !is_locked(*id) && !is_claimed(*author);
    for (author, id) in marks(chunks)?.into_iter().filter(is_free) {
        let batch = Batch { blobs: vec![(chunks.clone(), id)], ..Batch::new(Lsn::ZERO, author) };
        txns.garbage.push(Owner(0), batch, Lsn::ZERO);
    }
    Ok(())
}

/// All marks, ghosts included, with their authors, up to the first leaf that is damaged: that keeps no other table closed.
fn marks(chunks: &Tree) -> Result<Vec<(u64, BlobId)>> {
    let mut marks = Vec::new();
    let walked = chunks.each_cell(&mut |key, version, _| {
        let Some(Part::Mark(id)) = Part::of(key) else { return false };
        marks.push((version.author(), id));
        true
    });
    is_whole(walked).map(|_| marks)
}

/// Was no leaf damaged?
fn is_whole(done: Result<()>) -> Result<bool> {
    match done {
        Err(Error::Corrupt { .. }) => Ok(false),
        done => done.map(|()| true),
    }
}
