//! Reading: from a reference to the value.
//!
//! A reference read under a lock, or in a snapshot, leads to chunks that stay (L4). Other readers hold nothing: between
//! their look at the row and at the chunks the value may be replaced, and its chunks go. So they read the row again, in a
//! snapshot that they open for the purpose.

use super::{Reference, VALUE_BYTES_MAX};
use crate::error::{Error, Result};
use crate::tree::Tree;
use crate::txn::View;
use crate::waits::will_wait;

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
        for number in 0..reference.chunks(self.sizes()) {
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
