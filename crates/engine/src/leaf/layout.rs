//! Where things lie in a leaf: bounds of its parts, slot words, sizes of cells, limits of keys and values.
//!
//! A [`Layout`] is only made from lengths that fit into the page and into each other, so whoever holds one may use
//! its offsets without further checks. Offsets out of *slots* are checked where they are used.

use crate::page::{HEADER_BYTES, Header, INFINITE, Page};
use foreshore_base::Restart;
use std::ops::Range;

/// Bytes of a slot: one word.
pub(super) const SLOT_BYTES: usize = 8;
/// Number of the word that holds the first slot.
pub(super) const FIRST_SLOT_WORD: usize = HEADER_BYTES / 8;
/// Bytes of a suffix that are kept in its slot.
pub(super) const HEAD_BYTES: usize = 4;
/// Bytes of a cell before the suffix's fifth byte: version (8) and value length (2).
pub(super) const CELL_HEADER_BYTES: usize = 10;

const PAGE_BYTES_MIN: usize = 4 << 10;
const PAGE_BYTES_MAX: usize = 32 << 10;
/// No leaf, of whatever size, has a longer key or fence, nor do indexes take one.
pub(crate) const KEY_BYTES_MAX: usize = 1024;

/// The longest key and value that leaves of one size accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Bytes of the longest key.
    pub key_bytes_max: usize,
    /// Bytes of the longest value that is kept whole.
    pub value_bytes_max: usize,
}

impl Limits {
    /// Limits for leaves of `page_bytes`, which must be a power of two between 4 KiB and 32 KiB (panics otherwise).
    ///
    /// Values have up to a quarter of a page; what stands for a larger one has a byte more. Keys have up to 1 KiB, or a
    /// quarter of a page less 32 bytes where that is less (4 KiB pages: 992), so that the largest cell fits between two
    /// fences of the longest key (F6).
    pub const fn for_page(page_bytes: usize) -> Self {
        assert!(is_page_size(page_bytes), "leaf sizes are powers of two between 4 KiB and 32 KiB");
        let quarter = page_bytes / 4;
        let key_bytes_max = if quarter - 32 < KEY_BYTES_MAX { quarter - 32 } else { KEY_BYTES_MAX };
        let limits = Self { key_bytes_max, value_bytes_max: quarter };
        assert!(HEADER_BYTES + 2 * key_bytes_max + limits.cell_bytes_max() <= page_bytes);
        limits
    }

    /// Bytes that stand for a larger value, and tell by their number that they do (L1 in `blob`).
    pub const fn reference_bytes(self) -> usize {
        self.value_bytes_max + 1
    }

    /// Bytes that the largest cell takes, its slot included.
    pub const fn cell_bytes_max(self) -> usize {
        cell_bytes(self.key_bytes_max, self.reference_bytes()) + SLOT_BYTES
    }

    /// May this separator become the high fence of a leaf with this low fence?
    pub fn may_be_high_fence(self, low: &[u8], separator: &[u8]) -> bool {
        separator > low && separator.len() <= self.key_bytes_max
    }

    /// Bytes of the values with which `cells` rows, their keys of `key_bytes` each, just fill a leaf of `page_bytes`.
    pub const fn value_bytes_if(page_bytes: usize, cells: usize, key_bytes: usize) -> usize {
        (page_bytes - HEADER_BYTES - 2 * key_bytes) / cells - SLOT_BYTES - cell_bytes(key_bytes, 0)
    }
}

const _: () = {
    Limits::for_page(PAGE_BYTES_MIN);
    Limits::for_page(8 << 10);
    Limits::for_page(16 << 10);
    Limits::for_page(PAGE_BYTES_MAX);
};

/// Can a leaf have this size?
pub(crate) const fn is_page_size(bytes: usize) -> bool {
    bytes.is_power_of_two() && bytes >= PAGE_BYTES_MIN && bytes <= PAGE_BYTES_MAX
}

/// Heap bytes of a cell.
#[inline]
pub(super) const fn cell_bytes(suffix_len: usize, value_len: usize) -> usize {
    CELL_HEADER_BYTES + tail_len(suffix_len) + value_len
}

/// Bytes of a suffix that its cell holds.
#[inline]
pub(super) const fn tail_len(suffix_len: usize) -> usize {
    suffix_len.saturating_sub(HEAD_BYTES)
}

/// The part of a suffix that its cell holds.
#[inline]
pub(super) fn tail(suffix: &[u8]) -> &[u8] {
    suffix.get(HEAD_BYTES..).unwrap_or_default()
}

/// The first four bytes of a suffix as a big-endian number, zeros where it is shorter. By cases, because a copy of
/// unknown length is a call, and suffixes of u32 keys are shorter than four bytes.
#[inline]
pub(super) fn head(suffix: &[u8]) -> u32 {
    u32::from_be_bytes(match *suffix {
        [a, b, c, d, ..] => [a, b, c, d],
        [a, b, c] => [a, b, c, 0],
        [a, b] => [a, b, 0, 0],
        [a] => [a, 0, 0, 0],
        [] => [0; HEAD_BYTES],
    })
}

/// A slot: head in the upper half, then suffix length, then cell offset, so that one comparison of words orders by
/// (head, suffix length).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot(pub u64);

impl Slot {
    /// The slot of a cell at `offset`.
    #[inline]
    pub fn new(suffix: &[u8], offset: usize) -> Self {
        Self(u64::from(head(suffix)) << 32 | (suffix.len() as u64) << 16 | offset as u64)
    }

    /// The slot of the same suffix with its cell at another offset.
    #[inline]
    pub fn moved_to(self, offset: usize) -> Self {
        Self(self.0 & !u64::from(u16::MAX) | offset as u64)
    }

    /// The slot of the suffix without its first `more` bytes, where that is `tail` from its fifth byte on (and whatever may
    /// follow), and how many bytes `tail` loses; `None` if the suffix is shorter.
    #[inline]
    pub fn without_start(self, more: usize, tail: &[u8]) -> Option<(Self, usize)> {
        if more == 0 {
            return Some((self, 0));
        }
        let len = self.suffix_len().checked_sub(more)?;
        let tail = tail.get(..tail_len(self.suffix_len()))?;
        let start = match more.checked_sub(HEAD_BYTES) {
            Some(in_tail) => head(tail.get(in_tail..).unwrap_or_default()),
            None => {
                let eight = u64::from(self.head()) << 32 | u64::from(head(tail));
                (eight << (8 * more) >> 32) as u32
            }
        };
        let slot = Self(u64::from(start) << 32 | (len as u64) << 16 | self.offset() as u64);
        Some((slot, tail.len() - tail_len(len)))
    }

    /// See [`head`].
    #[inline]
    pub fn head(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Length of the suffix in bytes, the head's included.
    #[inline]
    pub fn suffix_len(self) -> usize {
        usize::from((self.0 >> 16) as u16)
    }

    /// Offset of the cell in the page.
    #[inline]
    pub fn offset(self) -> usize {
        usize::from(self.0 as u16)
    }

    /// Offset of the suffix's fifth byte.
    #[inline]
    pub fn tail_at(self) -> usize {
        self.offset() + CELL_HEADER_BYTES
    }

    /// Offset of the value, if the cell up to there lies in a page of `page_bytes`.
    #[inline]
    pub fn value_at(self, page_bytes: usize) -> Option<usize> {
        let at = self.tail_at() + tail_len(self.suffix_len());
        (at <= page_bytes).then_some(at)
    }
}

/// The parts of one leaf, their bounds checked against each other. Two words, as they are in the page: a read hands it
/// on to the write that follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    page_bytes: u16,
    cells: u16,
    heap_start: u16,
    dead_bytes: u16,
    prefix_len: u16,
    low_len: u16,
    high_len: u16,
}

const _: () = assert!(PAGE_BYTES_MAX <= u16::MAX as usize);

impl Layout {
    /// Lays out a page of `page_bytes`; `None` if the header's lengths cannot be (torn or damaged).
    #[inline]
    pub fn new(header: Header, page_bytes: usize) -> Option<Self> {
        let Header { cells, heap_start, dead_bytes, prefix_len, low_len, high_len, .. } = header;
        let page_bytes = page_bytes as u16;
        let layout = Self { page_bytes, cells, heap_start, dead_bytes, prefix_len, low_len, high_len };
        let fences = layout.low_len() + layout.high_len();
        let fits = layout.prefix_len <= layout.low_len
            && layout.slots_end() <= layout.heap_start()
            && layout.heap_start() + fences <= layout.page_bytes();
        fits.then_some(layout)
    }

    /// The layout of a page in a frame, as good as a later validation.
    #[inline]
    pub fn read(page: Page<'_>) -> Result<Self, Restart> {
        Self::new(page.header(), page.0.len()).ok_or(Restart)
    }

    /// Bytes of the page.
    #[inline]
    pub fn page_bytes(&self) -> usize {
        self.page_bytes.into()
    }

    /// Number of cells.
    #[inline]
    pub fn cells(&self) -> usize {
        self.cells.into()
    }

    /// Offset of the lowest used heap byte.
    #[inline]
    pub fn heap_start(&self) -> usize {
        self.heap_start.into()
    }

    /// Heap bytes that no slot refers to any more.
    #[inline]
    pub fn dead_bytes(&self) -> usize {
        self.dead_bytes.into()
    }

    /// Bytes that all keys of the leaf share.
    #[inline]
    pub fn prefix_len(&self) -> usize {
        self.prefix_len.into()
    }

    /// Where the slots end.
    #[inline]
    pub fn slots_end(&self) -> usize {
        HEADER_BYTES + self.cells() * SLOT_BYTES
    }

    /// The words that are slots.
    #[inline]
    pub fn slot_words(&self) -> Range<usize> {
        FIRST_SLOT_WORD..FIRST_SLOT_WORD + self.cells()
    }

    /// The low fence (inclusive).
    #[inline]
    pub fn low(&self) -> Range<usize> {
        self.page_bytes() - self.low_len()..self.page_bytes()
    }

    /// The high fence (exclusive); `None` is +∞.
    #[inline]
    pub fn high(&self) -> Option<Range<usize>> {
        let end = self.page_bytes() - self.low_len();
        (self.high_len != INFINITE).then(|| end - self.high_len()..end)
    }

    /// Where the fences begin and cells end.
    #[inline]
    pub fn fences_start(&self) -> usize {
        self.page_bytes() - self.low_len() - self.high_len()
    }

    /// Does the slot's cell, which ends at `end`, lie between slots and fences? Asked last, of a cell in the page: so a read has one
    /// comparison more, and no branch.
    #[inline]
    pub fn holds(&self, slot: Slot, end: usize) -> bool {
        (slot.offset() >= self.heap_start()) & (end <= self.fences_start())
    }

    /// Bytes between slots and heap.
    #[inline]
    pub fn gap_bytes(&self) -> usize {
        self.heap_start() - self.slots_end()
    }

    /// Bytes in use: header, slots, cells and fences.
    pub fn used_bytes(&self) -> usize {
        (self.page_bytes() - self.gap_bytes()).saturating_sub(self.dead_bytes())
    }

    #[inline]
    fn low_len(&self) -> usize {
        self.low_len.into()
    }

    /// Bytes of the high fence; none if it is +∞.
    #[inline]
    fn high_len(&self) -> usize {
        if self.high_len == INFINITE { 0 } else { self.high_len.into() }
    }
}

/// Length of the longest common prefix.
pub(super) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Bytes that all keys between two fences share (F2).
pub(super) fn fence_prefix(low: &[u8], high: Option<&[u8]>) -> usize {
    high.map_or(0, |high| common_prefix(low, high))
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn limits_are_the_documented_ones() {
        let of = |page_bytes| {
            let limits = Limits::for_page(page_bytes);
            (limits.key_bytes_max, limits.value_bytes_max)
        };
        assert_eq!(of(4096), (992, 1024));
        assert_eq!(of(8192), (1024, 2048));
        assert_eq!(of(16384), (1024, 4096));
        assert_eq!(of(32768), (1024, 8192));
    }

    /// Taking the start off a slot gives the slot of what is left, and of its tail the end.
    #[test]
    fn slots_lose_their_start() {
        let suffix = b"0123456789";
        for len in 0..=suffix.len() {
            let suffix = &suffix[..len];
            let cell = [tail(suffix), b"value"].concat();
            for more in 0..=len {
                let left = &suffix[more..];
                let (slot, dropped) = Slot::new(suffix, 777).without_start(more, &cell).unwrap();
                assert_eq!(slot, Slot::new(left, 777), "{more} of {len}");
                assert_eq!(cell[dropped..], [tail(left), b"value"].concat(), "{more} of {len}");
            }
            assert_eq!(Slot::new(suffix, 777).without_start(len + 1, &cell), None);
        }
    }

    #[test]
    fn slots_order_by_head_and_length() {
        assert!(Slot::new(b"a", 900) < Slot::new(b"a\0", 100));
        assert!(Slot::new(b"a\0\0\0", 900) < Slot::new(b"a\0\0\0\0", 100));
        assert!(Slot::new(b"", 900) < Slot::new(b"\0", 100));
        let slot = Slot::new(b"abcdef", 777);
        assert_eq!((slot.head(), slot.suffix_len(), slot.offset()), (0x6162_6364, 6, 777));
    }
}
