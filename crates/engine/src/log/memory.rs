//! The ring's memory: a file mapping that outlives the process. What it holds can be read back.

use super::options::LogOptions;
use super::record::{self, HEADER_BYTES, Seal};
use super::ring::Ring;
use crate::error::{Error, Result};
use crate::file_names;
use foreshore_base::Lsn;
use foreshore_base::sync::{AtomicU64, Ordering::Relaxed};
use foreshore_io::{Access, File, SharedMemory, Vfs};
use std::io::ErrorKind;
use std::sync::Arc;

/// The file behind the ring.
const NAME: &str = "ring";
/// The same in the making: see [`Vfs::shared_memory`].
const UNFINISHED: &str = "ring.new";

/// Is this one of them?
pub(super) fn is_file(name: &str) -> bool {
    name == NAME || name == UNFINISHED
}

/// A database has had one since it was created. What was acknowledged as `Buffered` or `Relaxed` may be nowhere else.
///
/// Errors: [`Error::Corrupt`] if it is missing; I/O.
pub(crate) fn ensure_buffer(vfs: &dyn Vfs) -> Result<()> {
    match file_names::list(vfs)?.iter().any(|name| name == NAME) {
        true => Ok(()),
        false => {
            let detail = "its file `ring` is missing: put it back, or copy the database again, all of it";
            Err(Error::corrupt("the log's buffer", detail.to_string()))
        }
    }
}

/// Forgets durably what the last process, or an earlier one, left in the buffer, which nobody has mapped. One of another length, which
/// nobody could map, gets that of the database.
pub(super) fn clear_file(vfs: &dyn Vfs, ring_bytes: u64) -> Result<()> {
    const PIECE_BYTES: u64 = 1 << 20;
    let file = match vfs.open(NAME, Access::Buffered, false) {
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Unsupported) => return Ok(()),
        opened => opened,
    };
    let clear = |file: Arc<dyn File>| {
        let zeros = vec![0; PIECE_BYTES as usize];
        if file.len()? != ring_bytes {
            file.set_len(ring_bytes)?;
        }
        for at in (0..ring_bytes).step_by(PIECE_BYTES as usize) {
            file.write_at(&zeros[..PIECE_BYTES.min(ring_bytes - at) as usize], at)?;
        }
        file.sync()
    };
    file.and_then(clear).map_err(|e| Error::io("clearing the log's buffer", &e))
}

#[derive(Clone)]
pub(super) struct Mapped(Arc<dyn SharedMemory>);

impl Mapped {
    /// Maps the ring, as the last process left it.
    ///
    /// Errors: [`Error::Corrupt`] if it has not its full length; I/O.
    pub fn open(vfs: &dyn Vfs, options: &LogOptions) -> Result<Self> {
        let memory = vfs.shared_memory(NAME, options.ring_bytes);
        memory.map(Self).map_err(|e| match e.kind() {
            ErrorKind::InvalidData => Error::corrupt("the log's buffer", e.to_string()),
            _ => Error::io("mapping the log ring", &e),
        })
    }

    /// Forgets what the last process left. After a clean close all is zero, and no page becomes dirty.
    pub fn clear(&self) {
        for word in self.as_ref() {
            if word.load(Relaxed) != 0 {
                word.store(0, Relaxed);
            }
        }
    }
}

impl Ring<Mapped> {
    /// Replaces `out` by the record at `at`, padded; its length without padding. `None` if the ring holds none there.
    pub fn record(&self, at: Lsn, seal: Seal, bytes_max: u64, out: &mut Vec<u8>) -> Option<usize> {
        let word0 = self.word(at);
        let len = record::length(word0, bytes_max)?;
        out.clear();
        out.resize(len.next_multiple_of(8), 0);
        self.copy_out(at, out);
        seal.matches(at, word0, &out[HEADER_BYTES..len]).then_some(len)
    }
}

impl AsRef<[AtomicU64]> for Mapped {
    #[inline]
    fn as_ref(&self) -> &[AtomicU64] {
        self.0.words()
    }
}
