//! Reading: from a reference to the value.
//!
//! A reference read under a lock, or in a snapshot, leads to pieces that stay (L4). Other readers hold nothing: between
//! their look at the row and at the pieces the value may be replaced, and its pieces go. So they read the row again, in a
//! snapshot that they open for the purpose.

use super::extents::{Extent, FILE};
use super::{BlobId, CHUNKS_PER_LEAF, Cut, Form, Reference, VALUE_BYTES_MAX};
use crate::error::{Error, Result};
use crate::tree::Tree;
use crate::txn::View;
use crate::waits::will_wait;
use std::io;

/// A row, and what it says of its large value.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    pub key: &'a [u8],
    pub reference: Reference,
}

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
            return self.complete(key, value).map(|()| true);
        }
        let txns = &self.core().txns;
        loop {
            let snapshot = txns.open_snapshot(&self.core().log)?;
            let held = View { own: view.own, ..snapshot.view };
            let read = self.get_cell(&held, key, value).and_then(|found| {
                let reference = self.is_large(value.len()).then(|| Reference::of(value));
                self.complete(key, value).map(|()| (found, reference))
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

    /// Replaces the cell of row `key` by the value that it stands for. Its pieces must be held, by a lock on its row or by a snapshot.
    ///
    /// Errors: [`Error::TableDropped`], since a snapshot keeps no table; [`Error::Corrupt`], also if the snapshot was given up
    /// meanwhile, which its reader must look at first. All name the row.
    pub(crate) fn complete(&self, key: &[u8], value: &mut Vec<u8>) -> Result<()> {
        if !self.is_large(value.len()) {
            return Ok(());
        }
        will_wait();
        let row = Row { key, reference: Reference::of(value) };
        let read = self.append_pieces(row, value);
        read.map_err(|error| self.ensure_not_dropped().err().unwrap_or_else(|| self.name_row(row, error)))
    }

    fn append_pieces(&self, row: Row<'_>, value: &mut Vec<u8>) -> Result<()> {
        let (reference, chunks) = (row.reference, self.chunks()?);
        if reference.len as usize > VALUE_BYTES_MAX {
            return Err(self.damaged(row, format!("no value has {} bytes", reference.len)));
        }
        value.drain(..super::REFERENCE_BYTES);
        value.reserve_exact((reference.len as usize).saturating_sub(value.len()));
        let cut = self.cut(reference.outside(self.head_bytes()));
        match cut.form {
            Form::Chunk => self.append_chunks(chunks, row, cut.pieces, value)?,
            Form::Extent => self.append_extents(chunks, row, cut, value)?,
        }
        if value.len() != reference.len as usize {
            let detail = format!("there are {} bytes of {}", value.len(), reference.len);
            return Err(self.damaged(row, detail));
        }
        if crc32c::crc32c(value) != reference.crc {
            return Err(self.damaged(row, "its checksum is wrong".into()));
        }
        Ok(())
    }

    fn append_chunks(&self, chunks: &Tree, row: Row<'_>, count: u32, value: &mut Vec<u8>) -> Result<()> {
        read_ahead(chunks, row.reference.id, count)?;
        for number in 0..count {
            self.append_piece(chunks, row, Form::Chunk, number, value)?;
        }
        Ok(())
    }

    fn append_extents(&self, chunks: &Tree, row: Row<'_>, cut: Cut, value: &mut Vec<u8>) -> Result<()> {
        let mut piece = Vec::new();
        for number in 0..cut.pieces {
            piece.clear();
            self.append_piece(chunks, row, Form::Extent, number, &mut piece)?;
            let rest = row.reference.len as usize - value.len();
            let fits = |extent: &Extent| extent.len() <= cut.piece.min(rest);
            let extent = Extent::decode(&piece).filter(fits).ok_or_else(|| {
                self.damaged(row, format!("its extent {number} is {}", piece.escape_ascii()))
            })?;
            self.append_extent(row, extent, value)?;
        }
        Ok(())
    }

    fn append_extent(&self, row: Row<'_>, extent: Extent, value: &mut Vec<u8>) -> Result<()> {
        let blocks = extent.blocks();
        self.core().extents.read(extent, value).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => {
                self.damaged(row, format!("{FILE} ends before block {}", blocks.end))
            }
            _ => Error::io(format!("reading blocks {blocks:?} of {FILE}"), &e),
        })
    }

    /// Appends what a row of the hidden table holds.
    fn append_piece(
        &self,
        chunks: &Tree,
        row: Row<'_>,
        form: Form,
        number: u32,
        piece: &mut Vec<u8>,
    ) -> Result<()> {
        match chunks.append_newest(&row.reference.id.piece_key(form, number), piece)? {
            true => Ok(()),
            false => Err(self.damaged(row, format!("its piece {number} is missing"))),
        }
    }

    /// The row's value is damaged, and nothing else: it is enough to write the row.
    pub(super) fn damaged(&self, row: Row<'_>, detail: String) -> Error {
        Error::Corrupt { what: self.value_of(row), detail, rows: vec![row.key.to_vec()] }
    }

    /// Says whose value it was that could not be read, where the error only says what lies beneath it.
    fn name_row(&self, row: Row<'_>, error: Error) -> Error {
        let read_for = |what| format!("{what} (read for {})", self.value_of(row));
        match error {
            Error::Corrupt { what, detail, rows } if rows.is_empty() => {
                Error::corrupt(read_for(what), detail)
            }
            Error::Io { what, kind, detail } => Error::Io { what: read_for(what), kind, detail },
            other => other,
        }
    }

    fn value_of(&self, row: Row<'_>) -> String {
        format!("the large value of row {} of table {:?}", row.key.escape_ascii(), self.name())
    }
}
