//! Changes to one leaf under its exclusive latch.
//!
//! Optimistic readers may look on: each write is a relaxed word store, and the latch makes them begin again.
//!
//! A page that turns out malformed here was damaged before it came: [`Error::Corrupt`], and nothing is changed.

use super::builder::Builder;
use super::copy::LeafCopy;
use super::image;
use super::layout::{
    CELL_HEADER_BYTES, FIRST_SLOT_WORD, Layout, Limits, SLOT_BYTES, Slot, cell_bytes, tail, tail_len,
};
use super::read::{Cell, cell, position, slot};
use super::search::Position;
use crate::page::Page;
use crate::{Error, Result};
use foreshore_base::{PageId, Restart, TableId};

/// What [`upsert`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Outcome {
    /// The key was new.
    Inserted,
    /// The key had another value before.
    Replaced,
    /// Nothing was changed: split the leaf first.
    NoRoom,
}

/// Makes `page` an empty leaf. Its LSN stays.
pub(crate) fn format(
    page: Page<'_>,
    id: PageId,
    table: TableId,
    low: &[u8],
    high: Option<&[u8]>,
    right: PageId,
) {
    let leaf = Builder::new(page.0.len(), low, high).finish(id, table, right);
    image::install(&leaf, page).expect("a leaf just built fits its page");
}

/// Where the cell of a key is or goes, in a leaf that has room for it. Good as long as the leaf stays latched.
pub(crate) struct Place {
    layout: Layout,
    position: Position,
}

/// Looks for the place of a cell of `key`, which must be between the fences and within the limits, with `value_len`
/// bytes; `None`: there is no room, split the leaf first.
pub(crate) fn place(page: Page<'_>, key: &[u8], value_len: usize) -> Result<Option<Place>> {
    debug_assert!(key.len() <= Limits::for_page(page.0.len()).key_bytes_max);
    debug_assert!(value_len <= Limits::for_page(page.0.len()).reference_bytes());
    let layout = Layout::read(page).map_err(|_| corrupt(page))?;
    let position = position(page, &layout, key).map_err(|_| corrupt(page))?;
    let free = layout.gap_bytes() + layout.dead_bytes;
    let needed = cell_bytes(key.len() - layout.prefix_len, value_len);
    let fits = match position {
        Position::Found(index) => {
            let freed = heap_bytes(page, slot(page, index)).map_err(|_| corrupt(page))?;
            needed <= freed || needed <= free + freed
        }
        Position::Absent(_) => needed + SLOT_BYTES <= free,
    };
    Ok(fits.then_some(Place { layout, position }))
}

impl Place {
    /// The cell that is there now.
    pub fn cell(&self, page: Page<'_>) -> Result<Option<Cell>> {
        match self.position {
            Position::Found(index) => cell(page, slot(page, index)).map(Some).map_err(|_| corrupt(page)),
            Position::Absent(_) => Ok(None),
        }
    }

    /// Writes the cell, for whose key and value length the place was found; says whether the key had a cell before.
    pub fn write(self, page: Page<'_>, key: &[u8], value: &[u8], version: u64) -> Result<bool> {
        match self.position {
            Position::Found(index) => {
                replace(page, &self.layout, index, key, value, version)?;
                Ok(true)
            }
            Position::Absent(index) => {
                insert(page, &self.layout, index, key, value, version)?;
                Ok(false)
            }
        }
    }
}

/// Puts `key`, which must be between the fences and within the limits, as its value.
pub(crate) fn upsert(page: Page<'_>, key: &[u8], value: &[u8], version: u64) -> Result<Outcome> {
    let Some(place) = place(page, key, value.len())? else { return Ok(Outcome::NoRoom) };
    let replaced = place.write(page, key, value, version)?;
    Ok(if replaced { Outcome::Replaced } else { Outcome::Inserted })
}

/// Removes `key`, which must be between the fences; `false` if it is not there.
pub(crate) fn remove(page: Page<'_>, key: &[u8]) -> Result<bool> {
    let layout = Layout::read(page).map_err(|_| corrupt(page))?;
    let Position::Found(index) = position(page, &layout, key).map_err(|_| corrupt(page))? else {
        return Ok(false);
    };
    let freed = heap_bytes(page, slot(page, index)).map_err(|_| corrupt(page))?;
    let at = FIRST_SLOT_WORD + index;
    page.0.move_words(at + 1, at, layout.cells - index - 1);
    set_counts(page, layout.cells - 1, layout.heap_start, layout.dead_bytes + freed);
    Ok(true)
}

fn insert(
    page: Page<'_>,
    layout: &Layout,
    index: usize,
    key: &[u8],
    value: &[u8],
    version: u64,
) -> Result<()> {
    let suffix = &key[layout.prefix_len..];
    let needed = cell_bytes(suffix.len(), value.len());
    if layout.gap_bytes() < needed + SLOT_BYTES {
        let layout = compact(page, None)?;
        return insert(page, &layout, index, key, value, version);
    }
    let offset = layout.heap_start - needed;
    write_cell(page, offset, tail(suffix), value, version);
    let at = FIRST_SLOT_WORD + index;
    page.0.move_words(at, at + 1, layout.cells - index);
    page.0.set_word(at, Slot::new(suffix, offset).0);
    set_counts(page, layout.cells + 1, offset, layout.dead_bytes);
    Ok(())
}

fn replace(
    page: Page<'_>,
    layout: &Layout,
    index: usize,
    key: &[u8],
    value: &[u8],
    version: u64,
) -> Result<()> {
    let old = slot(page, index);
    let found = cell(page, old).map_err(|_| corrupt(page))?;
    if value.len() <= found.value_len {
        page.0.set_uint(old.offset(), 8, version);
        if value.len() < found.value_len {
            page.0.set_uint(old.offset() + 8, 2, value.len() as u64);
            let dead = layout.dead_bytes + found.value_len - value.len();
            set_counts(page, layout.cells, layout.heap_start, dead);
        }
        page.0.write(found.value_at, value);
        return Ok(());
    }
    let suffix = &key[layout.prefix_len..];
    let needed = cell_bytes(suffix.len(), value.len());
    let freed = found.value_at + found.value_len - old.offset();
    if layout.gap_bytes() >= needed {
        let offset = layout.heap_start - needed;
        write_cell(page, offset, tail(suffix), value, version);
        page.0.set_word(FIRST_SLOT_WORD + index, Slot::new(suffix, offset).0);
        set_counts(page, layout.cells, offset, layout.dead_bytes + freed);
        return Ok(());
    }
    let layout = compact(page, Some(index))?;
    insert(page, &layout, index, key, value, version)
}

/// Rewrites the heap without dead bytes, and without cell `omit`.
#[cold]
fn compact(page: Page<'_>, omit: Option<usize>) -> Result<Layout> {
    let mut copy = LeafCopy::of(page)?;
    let mut builder = Builder::new(page.0.len(), copy.low_fence(), copy.high_fence());
    for index in (0..copy.len()).filter(|index| Some(*index) != omit) {
        let row = copy.row(index)?;
        if !builder.push(row.key, row.value, row.version) {
            return Err(copy.corrupt("its cells overlap"));
        }
    }
    let leaf = builder.finish(copy.id(), copy.table(), copy.right());
    image::install(&leaf, page).map_err(|detail| copy.corrupt(detail))?;
    Layout::read(page).map_err(|_| corrupt(page))
}

fn write_cell(page: Page<'_>, offset: usize, tail: &[u8], value: &[u8], version: u64) {
    page.0.set_uint(offset, 8, version);
    page.0.set_uint(offset + 8, 2, value.len() as u64);
    page.0.write(offset + CELL_HEADER_BYTES, tail);
    page.0.write(offset + CELL_HEADER_BYTES + tail.len(), value);
}

/// Heap bytes of the cell in `slot`.
fn heap_bytes(page: Page<'_>, slot: Slot) -> Result<usize, Restart> {
    let cell = cell(page, slot)?;
    Ok(CELL_HEADER_BYTES + tail_len(slot.suffix_len()) + cell.value_len)
}

fn set_counts(page: Page<'_>, cells: usize, heap_start: usize, dead_bytes: usize) {
    page.set_counts(cells as u16, heap_start as u16, dead_bytes as u16);
}

#[cold]
fn corrupt(page: Page<'_>) -> Error {
    Error::corrupt(
        format!("leaf page {}", page.id()),
        "its lengths or offsets do not fit; it cannot be changed",
    )
}
