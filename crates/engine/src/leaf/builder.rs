//! Filling an empty leaf with ascending rows, in private memory.
//!
//! Why: bulk load, split, absorb and compaction all write whole leaves in key order. No search, no moving of slots:
//! each row is one slot at the front and one cell at the back.

use super::copy::LeafCopy;
use super::image;
use super::layout::{
    CELL_HEADER_BYTES, FIRST_SLOT_WORD, Layout, SLOT_BYTES, Slot, cell_bytes, fence_prefix, tail,
};
use crate::Result;
use crate::page::{Header, INFINITE};
use foreshore_base::{PageId, TableId};
use std::ops::Range;

/// A leaf under construction.
#[derive(Debug)]
pub(crate) struct Builder {
    bytes: Vec<u8>,
    cells: usize,
    heap_start: usize,
    prefix_len: usize,
    low_len: usize,
    high_len: Option<usize>,
}

impl Builder {
    /// An empty leaf of `page_bytes` between two fences (`None`: +∞). Panics if they do not fit, which keys within
    /// the limits always do.
    pub fn new(page_bytes: usize, low: &[u8], high: Option<&[u8]>) -> Self {
        let mut bytes = vec![0; page_bytes];
        let low_at = page_bytes - low.len();
        let high_at = low_at - high.map_or(0, <[u8]>::len);
        bytes[low_at..].copy_from_slice(low);
        bytes[high_at..low_at].copy_from_slice(high.unwrap_or_default());
        Self {
            bytes,
            cells: 0,
            heap_start: high_at,
            prefix_len: fence_prefix(low, high),
            low_len: low.len(),
            high_len: high.map(<[u8]>::len),
        }
    }

    /// Appends a row, whose key must be between the fences and above all before; `false` if it does not fit.
    #[inline]
    pub fn push(&mut self, key: &[u8], value: &[u8], version: u64) -> bool {
        let Some(suffix) = key.get(self.prefix_len..) else { return false };
        let tail = tail(suffix);
        let Some(cell) = self.add_cell(Slot::new(suffix, 0), cell_bytes(suffix.len(), value.len())) else {
            return false;
        };
        cell[..8].copy_from_slice(&version.to_le_bytes());
        cell[8..CELL_HEADER_BYTES].copy_from_slice(&(value.len() as u16).to_le_bytes());
        let (tail_out, value_out) = cell[CELL_HEADER_BYTES..].split_at_mut(tail.len());
        tail_out.copy_from_slice(tail);
        value_out.copy_from_slice(value);
        true
    }

    /// Appends these rows of another leaf; `false` if not all fit. Errors: [`Error::Corrupt`](crate::Error::Corrupt).
    pub fn push_all_from(&mut self, leaf: &mut LeafCopy, rows: Range<usize>) -> Result<bool> {
        for index in rows {
            if !self.push_from(leaf, index)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Appends row `index` of another leaf; `false` if it does not fit. Errors: [`Error::Corrupt`](crate::Error::Corrupt).
    pub fn push_from(&mut self, leaf: &mut LeafCopy, index: usize) -> Result<bool> {
        // Where the prefix is as long, slot and cell are the same here, but for the offset; where it is longer, as after
        // a split, they lack the bytes that went into it.
        if let Some(more) = self.prefix_len.checked_sub(leaf.layout().prefix_len()) {
            let (slot, (header, rest)) = (leaf.slot(index), leaf.whole_cell(index)?);
            return Ok(match slot.without_start(more, rest) {
                Some((slot, dropped)) => self.push_cell(slot, header, &rest[dropped..]),
                None => false,
            });
        }
        let row = leaf.row(index)?;
        Ok(self.push(row.key, row.value, row.version))
    }

    /// Appends a cell whose bytes behind its header are `rest`, and whose slot is this but for the offset.
    #[inline]
    fn push_cell(&mut self, slot: Slot, header: &[u8; CELL_HEADER_BYTES], rest: &[u8]) -> bool {
        let Some(cell) = self.add_cell(slot, CELL_HEADER_BYTES + rest.len()) else { return false };
        let (header_out, rest_out) = cell.split_at_mut(CELL_HEADER_BYTES);
        header_out.copy_from_slice(header);
        rest_out.copy_from_slice(rest);
        true
    }

    /// Appends a cell of so many bytes, which are to be filled, and its slot, which is this but for the offset; `None` if they do
    /// not fit.
    #[inline]
    fn add_cell(&mut self, slot: Slot, bytes: usize) -> Option<&mut [u8]> {
        if self.used_bytes() + SLOT_BYTES + bytes > self.bytes.len() {
            return None;
        }
        self.heap_start -= bytes;
        let slot_at = (FIRST_SLOT_WORD + self.cells) * SLOT_BYTES;
        self.bytes[slot_at..][..SLOT_BYTES].copy_from_slice(&slot.moved_to(self.heap_start).0.to_le_bytes());
        self.cells += 1;
        Some(&mut self.bytes[self.heap_start..][..bytes])
    }

    /// As [`Builder::push`], for a bulk load: says `false` beyond `fill_bytes` of the page, too, and keeps room for
    /// the separator that will become the high fence. That is at most one byte longer than the last key below it.
    /// The first row is always taken.
    #[inline]
    pub fn load(&mut self, key: &[u8], value: &[u8], version: u64, fill_bytes: usize) -> bool {
        let cell = SLOT_BYTES + cell_bytes(key.len() - self.prefix_len, value.len());
        let used = self.used_bytes() + cell;
        let full = used > fill_bytes || used + key.len() + 1 > self.bytes.len();
        if full && self.cells > 0 { false } else { self.push(key, value, version) }
    }

    /// Bytes in use so far: header, slots, cells and fences.
    #[inline]
    pub fn used_bytes(&self) -> usize {
        (FIRST_SLOT_WORD + self.cells) * SLOT_BYTES + self.bytes.len() - self.heap_start
    }

    /// The finished leaf as a packed image (see [`image`]).
    pub fn finish(mut self, id: PageId, table: TableId, right: PageId) -> Vec<u8> {
        let header = Header {
            table,
            flags: 0,
            prefix_len: self.prefix_len as u16,
            cells: self.cells as u16,
            heap_start: self.heap_start as u16,
            dead_bytes: 0,
            low_len: self.low_len as u16,
            high_len: self.high_len.map_or(INFINITE, |len| len as u16),
        };
        debug_assert!(Layout::new(header, self.bytes.len()).is_some());
        let [w4, w5, w6] = header.to_words();
        let words = [0, id.0, 0, right.0, w4, w5, w6, 0];
        for (bytes, word) in self.bytes.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        image::pack(&self.bytes, self.cells, self.heap_start)
    }
}
