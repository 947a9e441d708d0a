//! Writing: a transaction puts a large value, or something in the place of one.

use super::{BlobId, Reference};
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
        self.core().alone(patience, |txn| self.write(txn, key, intent)).map(|(_, end)| end)
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

    /// Stores a value in chunks that live if `txn` commits; returns the cell that refers to them.
    fn store(self: &Arc<Self>, txn: &mut Txn, value: &[u8]) -> Result<Vec<u8>> {
        will_wait();
        let (sizes, chunks) = (self.sizes(), self.chunks()?);
        let (head, rest) = value.split_at(sizes.head);
        let count = rest.len().div_ceil(sizes.chunk) as u32;
        let id = self.begin_blob(chunks, count)?;
        // Whatever becomes of the transaction: when it has ended, the mark is looked at.
        txn.note_blob(chunks, id);
        if seeded_bug("blob_lives_before_commit") {
            chunks.remove_unversioned(&id.mark_key())?;
        }
        for (number, chunk) in rest.chunks(sizes.chunk).enumerate() {
            chunks.put_unversioned(&id.chunk_key(number as u32), chunk)?;
        }
        chunks.write(txn, &id.mark_key(), Intent::Remove)?;
        Ok(Reference { id, len: value.len() as u32, crc: crc32c::crc32c(value) }.cell(head))
    }

    /// An id, and its mark. Under a mutex: the mark's record moves the end of the log before the next id is taken (L3).
    fn begin_blob(&self, chunks: &Tree, count: u32) -> Result<BlobId> {
        let _one_at_a_time = self.core().blob_ids.lock();
        let id = BlobId(self.core().log.reserved().0);
        chunks.put_unversioned(&id.mark_key(), &count.to_le_bytes())?;
        Ok(id)
    }

    /// Makes a blob garbage, if `txn` commits.
    fn mark(&self, txn: &mut Txn, blob: Reference) -> Result<()> {
        let (chunks, count) = (self.chunks()?, blob.chunks(self.sizes()));
        if !seeded_bug("blob_replaced_unmarked") {
            chunks.write(txn, &blob.id.mark_key(), Intent::Put(&count.to_le_bytes()))?;
        }
        txn.note_blob(chunks, blob.id);
        Ok(())
    }
}
