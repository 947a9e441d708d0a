//! Writing: a transaction puts a large value, or something in the place of one.

use super::{BlobId, Form, Reference};
use crate::error::Result;
use crate::tree::{Intent, Tree};
use crate::txn::Txn;
use crate::waits::will_wait;
use foreshore_base::{Lsn, seeded_bug};
use std::sync::Arc;
use std::time::Duration;

impl Tree {
    /// As [`Tree::autocommit`], for a value that is large, or may replace one that is: by a transaction of its own.
    pub(crate) fn autocommit_large(
        self: &Arc<Self>,
        key: &[u8],
        intent: Intent<'_>,
        patience: Duration,
    ) -> Result<Option<Lsn>> {
        self.core().in_own_transaction(patience, |txn| self.write(txn, key, intent)).map(|(_, end)| end)
    }

    /// Does what `intent` says to `key`, which `txn` has locked, where the new value, the old one, or both are large;
    /// `false` if there was nothing to do. After an error nothing is changed.
    pub(crate) fn write_large(
        self: &Arc<Self>,
        txn: &mut Txn,
        key: &[u8],
        intent: Intent<'_>,
    ) -> Result<bool> {
        let old = self.newest(key)?;
        if intent.is_idle(old.is_some()) {
            return Ok(false);
        }
        let replaced = old.filter(|cell| self.is_large(cell.len())).map(|cell| Reference::of(&cell));
        txn.as_a_whole(|txn| self.exchange(txn, key, intent, replaced)).map(|()| true)
    }

    fn exchange(
        self: &Arc<Self>,
        txn: &mut Txn,
        key: &[u8],
        intent: Intent<'_>,
        replaced: Option<Reference>,
    ) -> Result<()> {
        if self.is_large(intent.value().len()) {
            let cell = self.store(txn, intent.value())?;
            self.write_cell(txn, key, Intent::Put(&cell), true)?;
        } else {
            self.write_cell(txn, key, intent, true)?;
        }
        replaced.map_or(Ok(()), |replaced| self.mark(txn, replaced))
    }

    /// Stores a value in pieces that live if `txn` commits; returns the cell that refers to them.
    fn store(self: &Arc<Self>, txn: &mut Txn, value: &[u8]) -> Result<Vec<u8>> {
        will_wait();
        let chunks = self.chunks()?;
        let (head, outside) = value.split_at(self.head_bytes());
        let id = self.begin_blob(chunks, outside.len())?;
        // Whatever becomes of the transaction: when it has ended, the mark is looked at.
        txn.note_blob(chunks, id);
        if seeded_bug("blob_lives_before_commit") {
            chunks.remove_unversioned(&id.mark_key())?;
        }
        let cut = self.cut(outside.len());
        for (key, piece) in cut.keys(id).zip(outside.chunks(cut.piece)) {
            match cut.form {
                Form::Chunk => chunks.put_unversioned(&key, piece)?,
                Form::Extent => chunks.put_unversioned(&key, &chunks.write_extent(txn, id, piece)?)?,
            }
        }
        chunks.write(txn, &id.mark_key(), Intent::Remove)?;
        Ok(Reference { id, len: value.len() as u32, crc: crc32c::crc32c(value) }.cell(head))
    }

    /// Writes an extent, for which `txn` will wait before it commits (X2 in `extents.rs`); returns its row.
    fn write_extent(&self, txn: &mut Txn, id: BlobId, piece: &[u8]) -> Result<[u8; 12]> {
        let core = self.core();
        let extent = core.extents.take((self.id, id), piece.len(), &core.log)?;
        txn.note_extent(core.extents.write(extent, piece)?);
        Ok(extent.encode())
    }

    /// An id, and its mark. Under a mutex: the mark's record moves the end of the log before the next id is taken (L3).
    fn begin_blob(&self, chunks: &Tree, outside: usize) -> Result<BlobId> {
        let _one_at_a_time = self.core().blob_ids.lock();
        let id = BlobId(self.core().log.reserved().0);
        chunks.put_unversioned(&id.mark_key(), &mark(outside))?;
        Ok(id)
    }

    /// Makes a blob garbage, if `txn` commits.
    fn mark(&self, txn: &mut Txn, blob: Reference) -> Result<()> {
        let chunks = self.chunks()?;
        if !seeded_bug("blob_replaced_unmarked") {
            let mark = mark(blob.outside(self.head_bytes()));
            chunks.write(txn, &blob.id.mark_key(), Intent::Put(&mark))?;
        }
        txn.note_blob(chunks, blob.id);
        Ok(())
    }
}

/// What the mark says of a blob with so many bytes outside of its row.
fn mark(outside: usize) -> [u8; 4] {
    (outside as u32).to_le_bytes()
}
