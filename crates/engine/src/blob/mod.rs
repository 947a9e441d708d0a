//! Large values: more than a leaf may hold in one cell.
//!
//! The cell of a large value holds a reference and the value's beginning. The rest lies in *chunks*, rows of a hidden
//! table that belongs to the user's (made with its first large value, named in its catalog row). Chunks are never
//! changed, and nobody looks for them but through a reference. So they need no locks, no versions, no undo: they are
//! written and removed by log records that commit by themselves. Whether they live is said by one row of the same hidden
//! table, the *mark*: a blob with a mark is garbage.
//!
//! ```text
//! user's table    key             → id u64 | length u32 | CRC32C u32 | the first bytes          (one byte too long for a value)
//! hidden table    0 | id          → number of chunks u32                                        the mark
//!                 1 | id | number → chunk
//! ```
//!
//! - *create*: mark, then chunks, each a commit of its own; then the owner's transaction removes the mark and puts the
//!   reference. If it commits, the blob lives; if it does not, however it ends, the mark is there.
//! - *replace, remove*: the transaction sets the mark.
//! - *reap*: when the transaction has ended and no snapshot needs the blob, its chunks go, then the mark. What a crash
//!   leaves of that is found by the marks at the next open.
//!
//! Why not extents beside the leaves, written past the log: chunks are pages like all others, so recovery, eviction, a
//! full disk and a failing one need no new argument. The price is that a large value is written twice, to the log and to
//! its leaves.
//!
//! Source: large objects as records of a clustered table: SQL Server's and PostgreSQL's TOAST tables. Differs: chunks are
//! outside of transactions; one marked row per value takes part in them.
//!
//! Invariants:
//! - L1: a cell holds a reference if and only if it is longer than any value that is kept whole. So whole values pay for
//!   large ones with one comparison of a length that is at hand.
//! - L2: at every point of the log, a blob that has a chunk is referred to by exactly one committed row, or has a committed
//!   mark, or both sides are under change by one transaction.
//! - L3: an id is never used twice: it is the end of the log as it was before the blob's own first record.
//! - L4: chunks are removed only if the mark was set by a transaction that committed before every open snapshot, or was
//!   never taken back. So a reader that found a reference in its snapshot, or under a lock, finds the chunks.

mod check;
mod read;
mod reap;
mod write;

pub(crate) use reap::{reap, reap_leftovers, unmark_used};

use crate::error::{Error, Result};
use crate::leaf::Limits;
use crate::tree::Tree;
use std::sync::Arc;

/// The longest value, in bytes.
pub(crate) const VALUE_BYTES_MAX: usize = 256 << 20;

/// Bytes of a reference, without the value's beginning.
const REFERENCE_BYTES: usize = 16;
/// Chunks in a leaf.
const CHUNKS_PER_LEAF: usize = 4;

const MARK: u8 = 0;
const CHUNK: u8 = 1;
/// Bytes of a chunk's key: kind, id, number.
const CHUNK_KEY_BYTES: usize = 1 + 8 + 4;

/// A large value's number (L3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BlobId(u64);

impl BlobId {
    fn mark_key(self) -> [u8; 9] {
        let mut key = [MARK; 9];
        key[1..].copy_from_slice(&self.0.to_be_bytes());
        key
    }

    fn chunk_key(self, number: u32) -> [u8; CHUNK_KEY_BYTES] {
        let mut key = [CHUNK; CHUNK_KEY_BYTES];
        key[1..9].copy_from_slice(&self.0.to_be_bytes());
        key[9..].copy_from_slice(&number.to_be_bytes());
        key
    }
}

/// What a key of the hidden table names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Mark(BlobId),
    Chunk(BlobId, u32),
}

impl Part {
    fn of(key: &[u8]) -> Option<Self> {
        match *key {
            [MARK, ref id @ ..] => Some(Self::Mark(BlobId(u64::from_be_bytes(id.try_into().ok()?)))),
            [CHUNK, ref rest @ ..] => {
                let (id, number) = rest.split_first_chunk()?;
                let number = u32::from_be_bytes(number.try_into().ok()?);
                Some(Self::Chunk(BlobId(u64::from_be_bytes(*id)), number))
            }
            _ => None,
        }
    }
}

/// What a cell says of a large value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reference {
    id: BlobId,
    /// Bytes of the whole value.
    len: u32,
    /// Checksum of the whole value.
    crc: u32,
}

impl Reference {
    /// Reads the cell of a large value (L1).
    fn of(cell: &[u8]) -> Self {
        let part = |at: usize| cell[at..at + 4].try_into().expect("four bytes");
        let id = u64::from_le_bytes(cell[..8].try_into().expect("eight bytes"));
        Self { id: BlobId(id), len: u32::from_le_bytes(part(8)), crc: u32::from_le_bytes(part(12)) }
    }

    /// The cell: this, and the value's beginning.
    fn cell(self, head: &[u8]) -> Vec<u8> {
        let mut cell = Vec::with_capacity(REFERENCE_BYTES + head.len());
        cell.extend_from_slice(&self.id.0.to_le_bytes());
        cell.extend_from_slice(&self.len.to_le_bytes());
        cell.extend_from_slice(&self.crc.to_le_bytes());
        cell.extend_from_slice(head);
        cell
    }

    /// How many chunks the value has.
    fn chunks(self, sizes: Sizes) -> u32 {
        (self.len as usize).saturating_sub(sizes.head).div_ceil(sizes.chunk) as u32
    }
}

/// How the large values of a table are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sizes {
    /// Bytes that stay with the reference.
    head: usize,
    /// Bytes of each chunk but the last.
    chunk: usize,
}

impl Sizes {
    /// In a table with these limits, if chunks lie in leaves of `chunk_page_bytes`.
    fn of(limits: Limits, chunk_page_bytes: usize) -> Self {
        Self { head: limits.reference_bytes() - REFERENCE_BYTES, chunk: chunk_bytes(chunk_page_bytes) }
    }
}

/// Bytes of each chunk of a value but the last, if chunks lie in leaves of `page_bytes`.
fn chunk_bytes(page_bytes: usize) -> usize {
    Limits::value_bytes_if(page_bytes, CHUNKS_PER_LEAF, CHUNK_KEY_BYTES)
}

/// The large value whose mark `key` is, if `table` is a hidden one.
pub(crate) fn marked(table: &Tree, key: &[u8]) -> Option<BlobId> {
    match Part::of(key) {
        Some(Part::Mark(id)) if table.holds_chunks => Some(id),
        _ => None,
    }
}

impl Tree {
    /// Does a value of this length lie in chunks?
    #[inline]
    pub(crate) fn is_large(&self, len: usize) -> bool {
        len > self.limits().value_bytes_max
    }

    fn sizes(&self) -> Sizes {
        Sizes::of(self.limits(), self.core().pools.own().page_bytes())
    }

    /// The hidden table, which a table with large values has.
    fn chunks(&self) -> Result<&Arc<Tree>> {
        self.chunks.get().ok_or_else(|| {
            Error::corrupt(format!("table {:?}", self.name), "it has a large value, but no table of chunks")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_name_parts() {
        let id = BlobId(0x0102_0304_0506_0708);
        assert_eq!(Part::of(&id.mark_key()), Some(Part::Mark(id)));
        assert_eq!(Part::of(&id.chunk_key(77)), Some(Part::Chunk(id, 77)));
        assert!(id.mark_key()[..] < id.chunk_key(0)[..] && id.chunk_key(1) < id.chunk_key(256));
        for foreign in [&[][..], &[MARK], &[CHUNK; 9], &[CHUNK; 14], &[2; 13]] {
            assert_eq!(Part::of(foreign), None, "{foreign:?}");
        }
    }

    /// A reference's cell is one byte longer than the longest whole value, and chunks fill their leaves.
    #[test]
    fn values_are_cut_to_fit() {
        for page_bytes in [4096, 8192, 16384, 32768] {
            let limits = Limits::for_page(page_bytes);
            let sizes = Sizes::of(limits, page_bytes);
            let value = vec![7; limits.value_bytes_max + 1];
            let reference = Reference { id: BlobId(5), len: value.len() as u32, crc: 9 };
            let cell = reference.cell(&value[..sizes.head]);
            assert_eq!(cell.len(), limits.value_bytes_max + 1, "L1");
            assert_eq!(Reference::of(&cell), reference);
            assert_eq!(reference.chunks(sizes), 1);
            assert!(sizes.chunk <= limits.value_bytes_max && sizes.chunk * 4 > page_bytes * 94 / 100);
        }
    }
}
