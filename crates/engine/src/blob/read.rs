//! Reading: from a reference to the value.
//!
//! A reference read under a lock, or in a snapshot, leads to chunks that stay (L4). Other readers hold nothing: between
//! their look at the row and at the chunks the value may be replaced, and its chunks go. So they read the row again, in a
//! snapshot that they open for the purpose.

use super::{BlobId, CHUNKS_PER_LEAF, Reference, VALUE_BYTES_MAX};
use crate::error::{Error, Result};
use crate::tree::Tree;
use crate::txn::View;
use crate::waits::will_wait;

/// Chunks that are asked for together: while those before them are read.
const STRETCH: u32 = 32 * CHUNKS_PER_LEAF as u32;

/// Asks for the leaves of the stretch of chunks that begins with number `from`, of `count`: if there are several, and the second
/// is on disk. (The first may be in memory because of the value before.)
fn read_ahead(chunks: &Tree, id: BlobId, from: u32, count: u32) -> Result<()> {
    let second = from + CHUNKS_PER_LEAF as u32;
    if second >= count || !chunks.is_key_on_disk(&id.chunk_key(second))? {
        return Ok(());
    }
    let last = (from + STRETCH).min(count) - 1;
    chunks.read_range_ahead(&id.chunk_key(from), &id.chunk_key(last))
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
            let read = self.get(&held, key, value);
            let expired = txns.is_expired(&snapshot);
            txns.close_snapshot(&snapshot);
            if !expired {
                return read;
            }
        }
    }

    /// Replaces a cell by the value that it stands for. Its chunks must be held, by a lock on its row or by a snapshot.
    ///
    /// Errors: [`Error::Corrupt`]; also if the snapshot was given up meanwhile, which its reader must look at first.
    pub(crate) fn complete(&self, value: &mut Vec<u8>) -> Result<()> {
        if !self.is_large(value.len()) {
            return Ok(());
        }
        will_wait();
        let (reference, chunks) = (Reference::of(value), self.chunks()?);
        if reference.len as usize > VALUE_BYTES_MAX {
            return Err(self.damaged(reference, format!("no value has {} bytes", reference.len)));
        }
        value.drain(..super::REFERENCE_BYTES);
        value.reserve_exact((reference.len as usize).saturating_sub(value.len()));
        let count = reference.chunks(self.sizes());
        read_ahead(chunks, reference.id, 0, count)?;
        for number in 0..count {
            if number % STRETCH == 0 {
                read_ahead(chunks, reference.id, number + STRETCH, count)?;
            }
            if !chunks.append_newest(&reference.id.chunk_key(number), value)? {
                return Err(self.damaged(reference, format!("its chunk {number} is missing")));
            }
        }
        if value.len() != reference.len as usize {
            let detail = format!("its chunks have {} bytes of {}", value.len(), reference.len);
            return Err(self.damaged(reference, detail));
        }
        if crc32c::crc32c(value) != reference.crc {
            return Err(self.damaged(reference, "its checksum is wrong".into()));
        }
        Ok(())
    }

    pub(super) fn damaged(&self, reference: Reference, detail: String) -> Error {
        Error::corrupt(format!("large value {} of table {:?}", reference.id.0, self.name), detail)
    }
}
