//! Large values: more than a leaf may hold in one cell.
//!
//! The cell of a large value holds a reference and the value's beginning. The rest lies outside of the row, in *pieces*: if it
//! is small in *chunks*, rows of a hidden table that belongs to the user's (made with its first large value, named in its catalog row),
//! otherwise in *extents* of a file of their own (`extents`), each named by a row of the same hidden table. Pieces are never
//! changed, and nobody looks for them but through a reference. So they need no locks, no versions, no undo: their rows are
//! written and removed by log records that commit by themselves. Whether they live is said by one row of the same hidden
//! table, the *mark*: a blob with a mark is garbage.
//!
//! ```text
//! user's table    key             → id u64 | length u32 | CRC32C u32 | the first bytes          (one byte too long for a value)
//! hidden table    0 | id          → bytes outside of the row u32                                the mark
//!                 1 | id | number → chunk
//!                 2 | id | number → first block u64 | bytes u32                                 an extent
//! ```
//!
//! - *create*: mark, then pieces, each a commit of its own; then the owner's transaction removes the mark and puts the
//!   reference. If it commits, the blob lives; if it does not, however it ends, the mark is there.
//! - *replace, remove*: the transaction sets the mark.
//! - *reap*: when the transaction has ended and no snapshot needs the blob, its pieces go, then the mark. What a crash
//!   leaves of that is found by the marks at the next open.
//!
//! Why two forms: a chunk is written twice, to the log and to its leaf, but costs no sync of its own and is cached with all other
//! pages. An extent is written once, but its transaction waits for it before it commits, whatever the durability.
//!
//! Source: large objects as records of a clustered table: SQL Server's and PostgreSQL's TOAST tables; extents: see there. Differs: pieces are
//! outside of transactions; one marked row per value takes part in them.
//!
//! Invariants:
//! - L1: a cell holds a reference if and only if it is longer than any value that is kept whole. So whole values pay for
//!   large ones with one comparison of a length that is at hand.
//! - L2: at every point of the log, a blob that has a piece is referred to by exactly one committed row, or has a committed
//!   mark, or both sides are under change by one transaction.
//! - L3: an id is never used twice: it is the end of the log as it was before the blob's own first record.
//! - L4: pieces are removed only if the mark was never taken back, or was set by a transaction that has committed, and no open snapshot
//!   lies between: above the blob's id, and not above that commit. So a reader that found a reference in its snapshot, or under a
//!   lock, finds the pieces.
//! - L5: the form of a blob, and where it is cut, follow from its length and the size of the database's own leaves.
//!
//! Proof of what L4 concludes. A blob comes with a reference of its own, which is never copied to another row. Let its creator commit at
//! a, and the one that replaces the reference at c. The id lies below a: it was the log's end before the mark was written (L3).
//! - A snapshot at p sees what was committed below p. If it sees the reference, then a < p, so the id lies below p; and it does not see
//!   the replacement, so p <= c. That is a snapshot which lies between.
//! - Snapshots are looked at after the record at c was reserved. One that is not there by then opens later, above c
//!   (`txn/snapshots.rs`): it sees the replacement. So does each that comes after it, and the blob may go at any later time. One whose
//!   point is not known yet may lie anywhere, and counts. One that was given up is no reason to wait, and tells its readers.
//! - Who reads what is committed now opens a snapshot, and reads the row again in it (`read`).
//! - Who has the row locked keeps that lock while it reads the pieces. So the replacing transaction, which locks the row first, is the
//!   reader itself, or comes after it.
//! - If the creator never commits, nobody else ever sees the reference. If the one that replaces it is rolled back, so is its mark:
//!   `reap` finds none, or one of a later author, and that blob stays.
//! - Who has prepared keeps its locks, and commits when that is decided, at that c. What an earlier life has left marked was replaced
//!   before any snapshot of this one: it waits for those that are being opened only.

mod check;
mod extents;
mod read;
mod reap;
mod runs;
mod traces;
mod write;

pub(crate) use extents::{Extents, FILE};
pub(crate) use reap::{adopt_extents, reap, reap_leftovers, unmark_used};
pub(crate) use traces::Traces;

use crate::error::{Error, Result};
use crate::leaf::Limits;
use crate::tree::Tree;
use foreshore_base::Lsn;
use std::sync::Arc;

/// The longest value, in bytes, as it is encoded. A longer one is refused with [`Error::ValueTooLarge`].
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// # let db = foreshore::Database::in_memory()?;
/// let files = db.byte_table("files")?;
/// let put = |name: &str, content: &[u8]| {
///     let parts = content.chunks(foreshore::VALUE_BYTES_MAX).zip(0_u32..);
///     db.transact(|tx| {
///         parts.clone().try_for_each(|(part, n)| tx.bytes(&files).put(format!("{name}/{n}").as_bytes(), part))
///     })
/// };
/// put("hosts", b"127.0.0.1 localhost")?;
/// assert_eq!(files.prefix(b"hosts/").count(), 1);
/// # Ok(()) }
/// ```
pub const VALUE_BYTES_MAX: usize = 256 << 20;

/// Bytes of a reference, without the value's beginning.
const REFERENCE_BYTES: usize = 16;
/// Chunks in a leaf.
const CHUNKS_PER_LEAF: usize = 4;

/// What lies outside of the row lies in extents if it would fill so many leaves, and each extent but the last has the bytes
/// of so many.
const EXTENTS_FROM_LEAVES: usize = 16;
const EXTENT_LEAVES: usize = 512;

const MARK: u8 = 0;
/// Bytes of a piece's key: form, id, number.
const PIECE_KEY_BYTES: usize = 1 + 8 + 4;

/// A large value's number (L3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BlobId(u64);

impl BlobId {
    /// Only snapshots above this see the large value (L4).
    pub fn since(self) -> Lsn {
        Lsn(self.0)
    }

    fn mark_key(self) -> [u8; 9] {
        let mut key = [MARK; 9];
        key[1..].copy_from_slice(&self.0.to_be_bytes());
        key
    }

    fn piece_key(self, form: Form, number: u32) -> [u8; PIECE_KEY_BYTES] {
        let mut key = [form as u8; PIECE_KEY_BYTES];
        key[1..9].copy_from_slice(&self.0.to_be_bytes());
        key[9..].copy_from_slice(&number.to_be_bytes());
        key
    }
}

/// How what lies outside of a row is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Chunk = 1,
    Extent = 2,
}

/// What a key of the hidden table names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Mark(BlobId),
    Piece(Form, BlobId, u32),
}

impl Part {
    fn of(key: &[u8]) -> Option<Self> {
        let (kind, rest) = key.split_first()?;
        let (id, number) = rest.split_first_chunk()?;
        let id = BlobId(u64::from_be_bytes(*id));
        let form = match *kind {
            MARK => return number.is_empty().then_some(Self::Mark(id)),
            1 => Form::Chunk,
            2 => Form::Extent,
            _ => return None,
        };
        Some(Self::Piece(form, id, u32::from_be_bytes(number.try_into().ok()?)))
    }
}

/// No shorter value has an extent, in a database whose own leaves have `page_bytes`.
pub(crate) fn past_log_from_bytes(page_bytes: usize) -> usize {
    EXTENTS_FROM_LEAVES * page_bytes
}

/// How so many bytes outside of a row are cut (L5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cut {
    form: Form,
    /// Bytes of each piece but the last.
    piece: usize,
    pieces: u32,
}

impl Cut {
    /// In a database whose own leaves have `page_bytes`.
    fn of(outside: usize, page_bytes: usize) -> Self {
        let (form, piece) = match outside < past_log_from_bytes(page_bytes) {
            true => (Form::Chunk, Limits::value_bytes_if(page_bytes, CHUNKS_PER_LEAF, PIECE_KEY_BYTES)),
            false => (Form::Extent, EXTENT_LEAVES * page_bytes),
        };
        Self { form, piece, pieces: outside.div_ceil(piece) as u32 }
    }

    /// The keys of all pieces.
    fn keys(self, id: BlobId) -> impl Iterator<Item = [u8; PIECE_KEY_BYTES]> {
        (0..self.pieces).map(move |number| id.piece_key(self.form, number))
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

    /// How many bytes lie outside of the row, of a value whose first `head` bytes do not.
    fn outside(self, head: usize) -> usize {
        (self.len as usize).saturating_sub(head)
    }
}

/// The large value whose mark `key` is, if `table` is a hidden one.
pub(crate) fn marked(table: &Tree, key: &[u8]) -> Option<BlobId> {
    match Part::of(key) {
        Some(Part::Mark(id)) if table.holds_chunks => Some(id),
        _ => None,
    }
}

impl Tree {
    /// Does a value of this length lie in part outside of its row?
    #[inline]
    pub(crate) fn is_large(&self, len: usize) -> bool {
        len > self.limits().value_bytes_max
    }

    /// How long the value is that this cell holds, or stands for.
    #[inline]
    pub(crate) fn value_bytes(&self, cell: &[u8]) -> u64 {
        if self.is_large(cell.len()) { Reference::of(cell).len.into() } else { cell.len() as u64 }
    }

    /// Bytes of a large value that stay with its reference.
    fn head_bytes(&self) -> usize {
        self.limits().reference_bytes() - REFERENCE_BYTES
    }

    /// How so many bytes outside of a row are cut.
    fn cut(&self, outside: usize) -> Cut {
        Cut::of(outside, self.core().pools.own().page_bytes())
    }

    /// The hidden table, which a table with large values has.
    fn chunks(&self) -> Result<&Arc<Tree>> {
        self.chunks.get().ok_or_else(|| {
            Error::corrupt(format!("table {:?}", self.name()), "it has a large value, but no table of chunks")
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
        for form in [Form::Chunk, Form::Extent] {
            assert_eq!(Part::of(&id.piece_key(form, 77)), Some(Part::Piece(form, id, 77)));
            assert!(id.mark_key()[..] < id.piece_key(form, 0)[..]);
            assert!(id.piece_key(form, 1) < id.piece_key(form, 256));
        }
        for foreign in [&[][..], &[MARK], &[MARK; 13], &[1; 9], &[1; 14], &[2; 12], &[3; 13]] {
            assert_eq!(Part::of(foreign), None, "{foreign:?}");
        }
    }

    /// A reference's cell is one byte longer than the longest whole value, and chunks fill their leaves.
    #[test]
    fn values_are_cut_to_fit() {
        for page_bytes in [4096, 8192, 16384, 32768] {
            let limits = Limits::for_page(page_bytes);
            let value = vec![7; limits.value_bytes_max + 1];
            let head = limits.reference_bytes() - REFERENCE_BYTES;
            let reference = Reference { id: BlobId(5), len: value.len() as u32, crc: 9 };
            let cell = reference.cell(&value[..head]);
            assert_eq!(cell.len(), limits.value_bytes_max + 1, "L1");
            assert_eq!(Reference::of(&cell), reference);
            let cut = Cut::of(reference.outside(head), page_bytes);
            assert_eq!((cut.form, cut.pieces), (Form::Chunk, 1));
            assert!(cut.piece <= limits.value_bytes_max && cut.piece * 4 > page_bytes * 94 / 100);
        }
    }

    #[test]
    fn what_fills_many_leaves_lies_in_extents() {
        let cut = |outside| Cut::of(outside, 4096);
        assert_eq!(cut(16 * 4096 - 1).form, Form::Chunk);
        assert_eq!(cut(16 * 4096), Cut { form: Form::Extent, piece: 2 << 20, pieces: 1 });
        assert_eq!((cut(2 << 20).pieces, cut((2 << 20) + 1).pieces), (1, 2));
        let last = cut((2 << 20) + 1).keys(BlobId(3)).last();
        assert_eq!(last, Some(BlobId(3).piece_key(Form::Extent, 1)));
    }
}
