//! Reading: from a reference to the value.
//!
//! A reference read under a lock, or in a snapshot, leads to pieces that stay (L4). Other readers hold nothing: between
//! their look at the row and at the pieces the value may be replaced, and its pieces go. So they read the row again, in a
//! snapshot that they open for the purpose.

use super::extents::Extent;
use super::{BlobId, CHUNKS_PER_LEAF, Cut, Form, Reference, VALUE_BYTES_MAX};
use crate::error::{Error, Result};
use crate::tree::Tree;
use crate::txn::View;
use crate::waits::will_wait;

/// Reads the leaves of so many chunks side by side, if there are several, and the second is on disk. (The first may be in memory because of the
/// value before.)
pub(super) fn read_ahead(chunks: &Tree, id: BlobId, count: u32) -> Result<()> {
    let [first, second, last] = [0, CHUNKS_PER_LEAF as u32, count.saturating_sub(1)];
    if second > last || !chunks.is_key_on_disk(&id.piece_key(Form::Chunk, second))? {
        return Ok(());
    }
    chunks.load_range(&id.piece_key(Form::Chunk, first), &id.piece_key(Form::Chunk, last))
}

impl Tree {
    /// Replaces `value` by the large value of `key` that `view` sees; `false` and empty if there is none by now. The
    /// value may also turn out not to be large any more.
    #[cold]
    pub(crate) fn get_large(&self, view: &View, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        if !view.is_latest() {
            return self.complete(value).map(|()| true);
        }
        let txns = &self.core().txns;
        loop {
            let snapshot = txns.open_snapshot(&self.core().log)?;
            let held = View { own: view.own, ..snapshot.view };
            let read = self.get_cell(&held, key, value).and_then(|found| {
                let reference = self.is_large(value.len()).then(|| Reference::of(value));
                self.complete(value).map(|()| (found, reference))
            });
            let expired = txns.is_expired(&snapshot);
            txns.close_snapshot(&snapshot);
            match read {
                read if !expired => return read.map(|(found, _)| found),
                // Nothing kept the pieces, but they were there all the time: they go after the reference, which does not come back.
                Ok((found, Some(reference))) if self.referring(key, reference)?.is_some() => {
                    return Ok(found);
                }
                _ => {}
            }
        }
    }

    /// Replaces a cell by the value that it stands for. Its pieces must be held, by a lock on its row or by a snapshot.
    ///
    /// Errors: [`Error::TableDropped`], since a snapshot keeps no table; [`Error::Corrupt`], also if the snapshot was given up
    /// meanwhile, which its reader must look at first.
    pub(crate) fn complete(&self, value: &mut Vec<u8>) -> Result<()> {
        if !self.is_large(value.len()) {
            return Ok(());
        }
        will_wait();
        let read = self.append_pieces(value);
        read.map_err(|error| self.ensure_not_dropped().err().unwrap_or(error))
    }

    fn append_pieces(&self, value: &mut Vec<u8>) -> Result<()> {
        let (reference, chunks) = (Reference::of(value), self.chunks()?);
        if reference.len as usize > VALUE_BYTES_MAX {
            return Err(self.damaged(reference, format!("no value has {} bytes", reference.len)));
        }
        value.drain(..super::REFERENCE_BYTES);
        value.reserve_exact((reference.len as usize).saturating_sub(value.len()));
        let cut = self.cut(reference.outside(self.head_bytes()));
        match cut.form {
            Form::Chunk => self.append_chunks(chunks, reference, cut.pieces, value)?,
            Form::Extent => self.append_extents(chunks, reference, cut, value)?,
        }
        if value.len() != reference.len as usize {
            let detail = format!("there are {} bytes of {}", value.len(), reference.len);
            return Err(self.damaged(reference, detail));
        }
        if crc32c::crc32c(value) != reference.crc {
            return Err(self.damaged(reference, "its checksum is wrong".into()));
        }
        Ok(())
    }

    fn append_chunks(
        &self,
        chunks: &Tree,
        reference: Reference,
        count: u32,
        value: &mut Vec<u8>,
    ) -> Result<()> {
        read_ahead(chunks, reference.id, count)?;
        for number in 0..count {
            self.append_row(chunks, reference, Form::Chunk, number, value)?;
        }
        Ok(())
    }

    fn append_extents(
        &self,
        chunks: &Tree,
        reference: Reference,
        cut: Cut,
        value: &mut Vec<u8>,
    ) -> Result<()> {
        let mut row = Vec::new();
        for number in 0..cut.pieces {
            row.clear();
            self.append_row(chunks, reference, Form::Extent, number, &mut row)?;
            let fits = |extent: &Extent| extent.len() <= cut.piece.min(reference.len as usize - value.len());
            let extent = Extent::decode(&row).filter(fits);
            let extent = extent.ok_or_else(|| {
                self.damaged(reference, format!("its extent {number} is {}", row.escape_ascii()))
            })?;
            self.core().extents.read(extent, value)?;
        }
        Ok(())
    }

    /// Appends the content of a row of the hidden table.
    fn append_row(
        &self,
        chunks: &Tree,
        reference: Reference,
        form: Form,
        number: u32,
        row: &mut Vec<u8>,
    ) -> Result<()> {
        match chunks.append_newest(&reference.id.piece_key(form, number), row)? {
            true => Ok(()),
            false => Err(self.damaged(reference, format!("its piece {number} is missing"))),
        }
    }

    pub(super) fn damaged(&self, reference: Reference, detail: String) -> Error {
        Error::corrupt(format!("large value {} of table {:?}", reference.id.0, self.name), detail)
    }
}
