//! A private copy of a leaf, interpreted at leisure.
//!
//! Why: a scan validates once per leaf instead of once per row, and holds nothing between rows. Where it begins, only a few
//! rows are copied: most ranges of a transaction are shorter, and a whole leaf is a hundred lines.
//!
//! Order of use: [`LeafCopy::take`] or one of its kin under an optimistic read, *validate*, then [`LeafCopy::interpret`]. Torn bytes
//! are never interpreted, so what is malformed then is damage, not a race.

use super::layout::{
    CELL_HEADER_BYTES, FIRST_SLOT_WORD, HEAD_BYTES, Layout, Limits, SLOT_BYTES, Slot, fence_prefix,
    is_page_size, tail_len,
};
use super::read::{self, position, slot};
use super::search::{Position, find};
use crate::page::{HEADER_BYTES, Header, INFINITE, Page};
use crate::version::Version;
use crate::{Error, Result};
use foreshore_base::{PageId, Restart, TableId};
use std::cell::RefCell;
use std::cmp::Ordering;
use std::ops::Range;

/// One row of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row<'a> {
    /// The whole key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// The version word given to `upsert`.
    pub version: u64,
}

/// Rows copied where a walk begins: an order with its lines, and the row behind them.
pub(crate) const FEW_ROWS: usize = 16;

/// Copies whose memory a thread keeps for its next ones: short ranges come in numbers, and clearing a page's worth of
/// memory for each would cost as much as reading the rows.
const SPARES: usize = 4;

thread_local! {
    /// Page and key memory of copies that are gone.
    static SPARE: RefCell<Vec<(Vec<u8>, Vec<u8>)>> = const { RefCell::new(Vec::new()) };
}

impl Drop for LeafCopy {
    fn drop(&mut self) {
        // A thread that is ending keeps nothing.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARES {
                spare.push((std::mem::take(&mut self.bytes), std::mem::take(&mut self.key)));
            }
        });
    }
}

/// A private copy of a leaf. Reusable: its memory is kept from one [`LeafCopy::take`] to the next.
#[derive(Debug)]
pub(crate) struct LeafCopy {
    bytes: Vec<u8>,
    layout: Layout,
    header: Header,
    /// The rows that were copied.
    rows: Range<usize>,
    /// The key of the row read last: the leaf's prefix stays, each row replaces what follows.
    key: Vec<u8>,
    key_len: usize,
}

impl LeafCopy {
    /// Memory for copies of pages of `page_bytes`, holding no rows yet. Panics if no page has that size.
    pub fn new(page_bytes: usize) -> Self {
        assert!(is_page_size(page_bytes), "no leaf has {page_bytes} bytes");
        let header = Header {
            table: TableId(0),
            flags: 0,
            prefix_len: 0,
            cells: 0,
            heap_start: page_bytes as u16,
            dead_bytes: 0,
            low_len: 0,
            high_len: INFINITE,
        };
        let layout = Layout::new(header, page_bytes).expect("an empty leaf is well laid out");
        // A thread that is ending may still read and write, in a destructor of its own.
        let spare = SPARE.try_with(|spare| spare.borrow_mut().pop());
        let (mut bytes, mut key) = spare.ok().flatten().unwrap_or_default();
        bytes.resize(page_bytes, 0);
        key.resize(key.len().clamp(HEAD_BYTES, Limits::for_page(page_bytes).key_bytes_max), 0);
        Self { bytes, layout, header, rows: 0..0, key, key_len: 0 }
    }

    /// Copies `page`, interpreting nothing but where its gap is: neither that nor the latch is copied. Panics if the page
    /// has another size.
    pub fn take(&mut self, page: Page<'_>) {
        assert_eq!(page.0.len(), self.bytes.len(), "a copy is made for one page size");
        let gap = Layout::read(page).map_or(0..0, |layout| layout.slots_end()..layout.heap_start());
        self.take_bytes(page, 8..gap.start.max(HEADER_BYTES));
        self.take_bytes(page, gap.end.max(HEADER_BYTES)..page.0.len());
        self.rows = 0..usize::MAX;
    }

    /// As [`LeafCopy::take`], but only `few` rows from `key` on (or behind it), with header and fences. An optimistic read
    /// like those in `read.rs` (R1, R2).
    pub fn take_above(
        &mut self,
        page: Page<'_>,
        key: &[u8],
        inclusive: bool,
        few: usize,
    ) -> Result<(), Restart> {
        let layout = Layout::read(page)?;
        let position = position(page, &layout, key)?;
        let from = if inclusive { position.lower_bound() } else { position.upper_bound() };
        self.take_rows(page, &layout, from..(from + few).min(layout.cells()))
    }

    /// The same for the rows up to `key` (or before it).
    pub fn take_below(&mut self, page: Page<'_>, key: &[u8], inclusive: bool) -> Result<(), Restart> {
        let layout = Layout::read(page)?;
        let position = position(page, &layout, key)?;
        let to = if inclusive { position.upper_bound() } else { position.lower_bound() };
        self.take_rows(page, &layout, to.saturating_sub(FEW_ROWS)..to)
    }

    fn take_rows(&mut self, page: Page<'_>, layout: &Layout, rows: Range<usize>) -> Result<(), Restart> {
        assert_eq!(page.0.len(), self.bytes.len(), "a copy is made for one page size");
        self.take_bytes(page, 8..HEADER_BYTES);
        self.take_bytes(page, HEADER_BYTES + rows.start * SLOT_BYTES..HEADER_BYTES + rows.end * SLOT_BYTES);
        self.take_bytes(page, layout.fences_start()..page.0.len());
        self.take_cells(page, layout, rows.clone())?;
        self.rows = rows;
        Ok(())
    }

    fn take_cells(&mut self, page: Page<'_>, layout: &Layout, rows: Range<usize>) -> Result<(), Restart> {
        let slots = rows.clone().map(|index| slot(page, index));
        let Some(highest) = slots.clone().max_by_key(|slot| slot.offset()) else { return Ok(()) };
        let lowest = slots.clone().fold(highest.offset(), |lowest, slot| lowest.min(slot.offset()));
        let apart = highest.offset() - lowest;
        if apart * layout.cells() <= 2 * rows.len() * (layout.fences_start() - layout.heap_start()) {
            // They lie side by side, as after a load or a split: one copy takes them all.
            page.0.prefetch(lowest, apart + CELL_HEADER_BYTES);
            self.take_bytes(page, lowest..read::cell(page, layout, highest)?.end());
            return Ok(());
        }
        // They lie in the order in which they came: the beginning of each is asked for before any is waited for.
        slots.clone().for_each(|slot| page.0.prefetch(slot.offset(), CELL_HEADER_BYTES));
        for slot in slots {
            self.take_bytes(page, slot.offset()..read::cell(page, layout, slot)?.end());
        }
        Ok(())
    }

    #[inline]
    fn take_bytes(&mut self, page: Page<'_>, range: Range<usize>) {
        page.0.read(range.start, &mut self.bytes[range]);
    }

    /// Makes the bytes taken, and since validated, readable as rows. Errors: [`Error::Corrupt`].
    pub fn interpret(&mut self) -> Result<()> {
        let word = |i| self.word(Header::FIRST_WORD + i);
        self.header = Header::from_words([word(0), word(1), word(2)]);
        let layout = Layout::new(self.header, self.bytes.len());
        self.layout = layout.ok_or_else(|| self.corrupt("the lengths in its header do not fit"))?;
        self.rows.end = self.rows.end.min(self.layout.cells());
        self.fences_are_sound()?;
        let prefix = self.layout.low().start..self.layout.low().start + self.layout.prefix_len();
        self.key.clear();
        self.key.extend_from_slice(&self.bytes[prefix]);
        self.key.resize(self.layout.prefix_len() + HEAD_BYTES, 0);
        self.key_len = self.layout.prefix_len();
        Ok(())
    }

    /// The rows of a page that nobody else changes meanwhile (its latch is held).
    pub fn of(page: Page<'_>) -> Result<Self> {
        let mut copy = Self::new(page.0.len());
        copy.take(page);
        copy.interpret()?;
        Ok(copy)
    }

    /// The rows of a page image; its first word is ignored. Errors: [`Error::Corrupt`].
    pub fn from_image(image: &[u8]) -> Result<Self> {
        if !is_page_size(image.len()) {
            return Err(Error::corrupt("a leaf image", format!("no leaf has {} bytes", image.len())));
        }
        let mut copy = Self::new(image.len());
        copy.bytes.copy_from_slice(image);
        copy.rows = 0..usize::MAX;
        copy.interpret()?;
        Ok(copy)
    }

    /// The page's id.
    pub fn id(&self) -> PageId {
        PageId(self.word(1))
    }

    /// The page's table.
    pub fn table(&self) -> TableId {
        self.header.table
    }

    /// Was the leaf absorbed by its left neighbour?
    #[cfg(test)]
    pub fn is_dead(&self) -> bool {
        self.header.is_dead()
    }

    /// The right neighbour; [`PageId::NONE`] ends the chain.
    pub fn right(&self) -> PageId {
        PageId(self.word(3))
    }

    /// Number of rows in the leaf.
    pub fn len(&self) -> usize {
        self.layout.cells()
    }

    /// The rows that were copied, by their numbers; no others may be asked for.
    #[inline]
    pub fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// Bytes in use: header, slots, cells and fences.
    pub fn used_bytes(&self) -> usize {
        self.layout.used_bytes()
    }

    /// The lower bound of all keys, inclusive.
    pub fn low_fence(&self) -> &[u8] {
        &self.bytes[self.layout.low()]
    }

    /// The upper bound of all keys, exclusive; `None` is +∞.
    pub fn high_fence(&self) -> Option<&[u8]> {
        self.layout.high().map(|range| &self.bytes[range])
    }

    /// Number of the first row whose key is not below `key`; [`LeafCopy::len`] if there is none. In a copy of all rows.
    pub fn lower_bound(&self, key: &[u8]) -> Result<usize> {
        Ok(self.position(key)?.map_or_else(|outside| outside, Position::lower_bound))
    }

    /// Number of the first row whose key is above `key`; [`LeafCopy::len`] if there is none. In a copy of all rows.
    pub fn upper_bound(&self, key: &[u8]) -> Result<usize> {
        Ok(self.position(key)?.map_or_else(|outside| outside, Position::upper_bound))
    }

    /// Row number `index`, counted from 0 in ascending key order. Panics if it was not copied.
    #[inline(always)]
    pub fn row(&mut self, index: usize) -> Result<Row<'_>> {
        assert!(self.rows.contains(&index), "row {index} of {:?}", self.rows);
        let slot = self.slot(index);
        let Some((version, tail, value)) = cell(&self.bytes, &self.layout, slot) else {
            return Err(self.leaves_heap(index));
        };
        let head_at = self.layout.prefix_len();
        self.key_len = head_at + slot.suffix_len();
        // The head is copied whole, also where a suffix has fewer bytes: room for it is beyond the key.
        if self.key.len() < self.key_len + HEAD_BYTES {
            if self.key_len > Limits::for_page(self.bytes.len()).key_bytes_max {
                return Err(self.corrupt(format!("the key of row {index} is longer than any")));
            }
            self.key.resize(self.key_len + HEAD_BYTES, 0);
        }
        self.key[head_at..head_at + HEAD_BYTES].copy_from_slice(&slot.head().to_be_bytes());
        if !tail.is_empty() {
            self.key[head_at + HEAD_BYTES..self.key_len].copy_from_slice(tail);
        }
        Ok(Row { key: &self.key[..self.key_len], value, version })
    }

    /// The version word of row `index`, and the bytes of its value. Panics if it was not copied.
    #[inline]
    pub fn peek(&self, index: usize) -> Result<(u64, usize)> {
        assert!(self.rows.contains(&index), "row {index} of {:?}", self.rows);
        let slot = self.slot(index);
        match self.bytes.get(slot.offset()..).and_then(<[u8]>::first_chunk::<CELL_HEADER_BYTES>) {
            Some(header) if self.layout.holds(slot, slot.tail_at()) => Ok(parse(header)),
            _ => Err(self.leaves_heap(index)),
        }
    }

    /// The version word of row `index`. Panics if it was not copied.
    pub fn version(&self, index: usize) -> Result<u64> {
        Ok(self.peek(index)?.0)
    }

    /// How many of these rows are no ghosts. Panics if they were not copied.
    pub fn live(&self, rows: Range<usize>) -> Result<u64> {
        rows.map(|index| Ok(u64::from(!Version(self.version(index)?).is_ghost()))).sum()
    }

    /// Row and position of `key`: `Err` with the edge on whose outside it lies, if it is not between the fences.
    pub(super) fn position(&self, key: &[u8]) -> Result<Result<Position, usize>> {
        assert_eq!(self.rows, 0..self.len(), "a search needs all rows");
        if key < self.low_fence() {
            return Ok(Err(0));
        }
        if self.high_fence().is_some_and(|high| key >= high) {
            return Ok(Err(self.len()));
        }
        let suffix = &key[self.layout.prefix_len()..];
        let compare_tail = |slot: Slot, tail: &[u8]| {
            let (_, ours, _) = cell(&self.bytes, &self.layout, slot)
                .ok_or_else(|| self.corrupt("a cell leaves the heap"))?;
            Ok::<Ordering, Error>(ours.cmp(tail))
        };
        Ok(Ok(find(
            self.layout.cells(),
            |index| self.slot(index),
            compare_tail,
            suffix,
            0..self.layout.cells(),
        )?))
    }

    /// Fences within the limits, and the prefix theirs (F2): what the rest of this module takes for granted.
    fn fences_are_sound(&self) -> Result<()> {
        let (low, high) = (self.low_fence(), self.high_fence());
        let longest = Limits::for_page(self.bytes.len()).key_bytes_max;
        if low.len().max(high.map_or(0, <[u8]>::len)) > longest {
            return Err(self.corrupt("F1: a fence is longer than any key"));
        }
        if high.is_some_and(|high| high <= low) {
            return Err(self.corrupt("F1: the high fence is not above the low fence"));
        }
        if self.layout.prefix_len() != fence_prefix(low, high) {
            return Err(
                self.corrupt(format!("F2: a prefix of {}, not of the fences", self.layout.prefix_len()))
            );
        }
        Ok(())
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The slot of row `index`, which the caller has checked.
    #[inline]
    pub(super) fn slot(&self, index: usize) -> Slot {
        Slot(self.word(FIRST_SLOT_WORD + index))
    }

    /// All bytes of cell `index`, what its slot refers to: the cell's header, then tail and value.
    #[inline]
    pub(super) fn whole_cell(&self, index: usize) -> Result<(&[u8; CELL_HEADER_BYTES], &[u8])> {
        let slot = self.slot(index);
        let cell =
            self.cell_bytes(slot).and_then(|bytes| self.bytes[slot.offset()..][..bytes].split_first_chunk());
        cell.ok_or_else(|| self.leaves_heap(index))
    }

    /// Heap bytes of the cell in `slot`; `None` if it leaves the heap.
    #[inline]
    pub(super) fn cell_bytes(&self, slot: Slot) -> Option<usize> {
        let (_, tail, value) = cell(&self.bytes, &self.layout, slot)?;
        Some(CELL_HEADER_BYTES + tail.len() + value.len())
    }

    /// What is wrong with a leaf whose rows do not ascend.
    #[cold]
    pub fn out_of_order(&self) -> Error {
        self.corrupt("F3: its rows do not ascend")
    }

    pub(super) fn corrupt(&self, detail: impl Into<String>) -> Error {
        Error::corrupt(format!("leaf page {}", self.id()), detail)
    }

    #[cold]
    fn leaves_heap(&self, index: usize) -> Error {
        self.corrupt(format!("cell {index} leaves the heap"))
    }

    #[inline]
    fn word(&self, index: usize) -> u64 {
        u64::from_le_bytes(self.bytes[index * 8..][..8].try_into().expect("eight bytes"))
    }
}

/// Version and value length from a cell's header.
#[inline]
fn parse(header: &[u8; CELL_HEADER_BYTES]) -> (u64, usize) {
    let (version, value_len) = header.split_first_chunk().expect("eight bytes and two");
    (u64::from_le_bytes(*version), u16::from_le_bytes(value_len.try_into().expect("two bytes")).into())
}

/// Version, tail and value of a slot's cell; `None` if it leaves the heap.
#[inline]
fn cell<'a>(bytes: &'a [u8], layout: &Layout, slot: Slot) -> Option<(u64, &'a [u8], &'a [u8])> {
    let (header, rest) = bytes.get(slot.offset()..)?.split_first_chunk()?;
    let (version, value_len) = parse(header);
    let (tail, rest) = rest.split_at_checked(tail_len(slot.suffix_len()))?;
    let value = rest.get(..value_len)?;
    layout.holds(slot, slot.tail_at() + tail.len() + value_len).then_some((version, tail, value))
}
