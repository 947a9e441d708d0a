//! Changes to one leaf under its exclusive latch.
//!
//! Optimistic readers may look on: each write is a relaxed word store, and the latch makes them begin again.
//!
//! A page that turns out malformed here was damaged before it came: [`Error::Corrupt`], and nothing is changed.

use super::builder::Builder;
use super::copy::LeafCopy;
use super::image;
use super::layout::{CELL_HEADER_BYTES, FIRST_SLOT_WORD, Layout, Limits, SLOT_BYTES, Slot, cell_bytes, tail};
use super::read::{Cell, Window, cell, position_near, slot};
use super::search::Position;
use crate::page::Page;
use crate::{Error, Result};
use foreshore_base::{PageId, Restart, TableId};

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

/// Where the cell of a key is or goes. Good as long as the leaf does not change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    layout: Layout,
    /// The cell that is there.
    cell: Option<Cell>,
    /// Number of the cell, or of the first with a greater key.
    index: u16,
}

/// Looks for the place of a cell of `key`, which must be between the fences and within the limits, with `value_len`
/// bytes; `None`: there is no room, split the leaf first.
pub(crate) fn place(page: Page<'_>, key: &[u8], value_len: usize) -> Result<Option<Place>> {
    debug_assert!(key.len() <= Limits::for_page(page.0.len()).key_bytes_max);
    let place = Place::find(page, key).map_err(|_| corrupt(page))?;
    Ok(place.has_room(key, value_len).then_some(place))
}

impl Place {
    /// Looks for the place of a cell of `key`, which must be between the fences. An optimistic read like those in
    /// `read.rs` (R1, R2).
    #[inline]
    pub fn find(page: Page<'_>, key: &[u8]) -> Result<Self, Restart> {
        Self::find_near(page, key, Window::default())
    }

    /// As [`Place::find`], with a hint where the key is.
    #[inline]
    pub fn find_near(page: Page<'_>, key: &[u8], near: Window) -> Result<Self, Restart> {
        let layout = Layout::read(page)?;
        let (index, cell) = match position_near(page, &layout, key, near)? {
            Position::Found(index) => (index, Some(cell(page, &layout, slot(page, index))?)),
            Position::Absent(index) => (index, None),
        };
        Ok(Self { layout, cell, index: index as u16 })
    }

    /// A hint for the next greater key, once there is a cell here.
    #[inline]
    pub fn next(&self) -> Window {
        Window::new(&(self.index()..self.index() + 1))
    }

    /// The cell that is there.
    #[inline]
    pub fn cell(&self) -> Option<Cell> {
        self.cell
    }

    /// Does a value of `key`, for which the place was found, with `value_len` bytes fit? Otherwise split the leaf first.
    pub fn has_room(&self, key: &[u8], value_len: usize) -> bool {
        debug_assert!(value_len <= Limits::for_page(self.layout.page_bytes()).reference_bytes());
        let free = self.layout.gap_bytes() + self.layout.dead_bytes();
        match self.cell {
            // The key's bytes stay.
            Some(cell) => value_len <= cell.value_len() + free,
            None => cell_bytes(key.len() - self.layout.prefix_len(), value_len) + SLOT_BYTES <= free,
        }
    }

    /// Writes `new` over as many bytes of the cell's value, from its byte `at` on. Panics if there is no cell, or its
    /// value is shorter.
    pub fn patch(self, page: Page<'_>, at: usize, new: &[u8], version: u64) {
        let cell = self.cell.expect("a patch replaces part of a value");
        assert!(at + new.len() <= cell.value_len(), "a patch stays within the value");
        page.0.set_uint(slot(page, self.index()).offset(), 8, version);
        page.0.write(cell.value_at() + at, new);
    }

    /// Writes the cell, for whose key and value length the place has room.
    pub fn write(self, page: Page<'_>, key: &[u8], value: &[u8], version: u64) -> Result<()> {
        match self.cell {
            Some(_) => replace(page, &self.layout, self.index(), key, value, version),
            None => insert(page, &self.layout, self.index(), key, value, version),
        }
    }

    /// Removes the cell. Panics if there is none.
    pub fn remove(self, page: Page<'_>) {
        let cell = self.cell.expect("what is removed is there");
        let (index, layout) = (self.index(), self.layout);
        let freed = cell.end() - slot(page, index).offset();
        let at = FIRST_SLOT_WORD + index;
        page.0.move_words(at + 1, at, layout.cells() - index - 1);
        set_counts(page, layout.cells() - 1, layout.heap_start(), layout.dead_bytes() + freed);
    }

    #[inline]
    fn index(&self) -> usize {
        self.index.into()
    }
}

/// Gives `key`, which must be between the fences and within the limits, this value; `false`: there is no room, and nothing
/// was changed.
pub(crate) fn upsert(page: Page<'_>, key: &[u8], value: &[u8], version: u64) -> Result<bool> {
    let Some(place) = place(page, key, value.len())? else { return Ok(false) };
    place.write(page, key, value, version).map(|()| true)
}

/// Removes `key`, which must be between the fences, if it is there.
pub(crate) fn remove(page: Page<'_>, key: &[u8]) -> Result<()> {
    let place = Place::find(page, key).map_err(|_| corrupt(page))?;
    if place.cell.is_some() {
        place.remove(page);
    }
    Ok(())
}

fn insert(
    page: Page<'_>,
    layout: &Layout,
    index: usize,
    key: &[u8],
    value: &[u8],
    version: u64,
) -> Result<()> {
    let suffix = &key[layout.prefix_len()..];
    let needed = cell_bytes(suffix.len(), value.len());
    if layout.gap_bytes() < needed + SLOT_BYTES {
        let layout = compact(page, None)?;
        return insert(page, &layout, index, key, value, version);
    }
    let offset = layout.heap_start() - needed;
    write_cell(page, offset, tail(suffix), value, version);
    let at = FIRST_SLOT_WORD + index;
    page.0.move_words(at, at + 1, layout.cells() - index);
    page.0.set_word(at, Slot::new(suffix, offset).0);
    set_counts(page, layout.cells() + 1, offset, layout.dead_bytes());
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
    let found = cell(page, layout, old).map_err(|_| corrupt(page))?;
    if value.len() <= found.value_len() {
        page.0.set_uint(old.offset(), 8, version);
        if value.len() < found.value_len() {
            page.0.set_uint(old.offset() + 8, 2, value.len() as u64);
            let dead = layout.dead_bytes() + found.value_len() - value.len();
            set_counts(page, layout.cells(), layout.heap_start(), dead);
        }
        page.0.write(found.value_at(), value);
        return Ok(());
    }
    let suffix = &key[layout.prefix_len()..];
    let needed = cell_bytes(suffix.len(), value.len());
    let freed = found.value_at() + found.value_len() - old.offset();
    if layout.gap_bytes() >= needed {
        let offset = layout.heap_start() - needed;
        write_cell(page, offset, tail(suffix), value, version);
        page.0.set_word(FIRST_SLOT_WORD + index, Slot::new(suffix, offset).0);
        set_counts(page, layout.cells(), offset, layout.dead_bytes() + freed);
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
        if !builder.push_from(&mut copy, index)? {
            return Err(copy.corrupt("its cells overlap"));
        }
    }
    let omitted =
        omit.and_then(|index| copy.cell_bytes(copy.slot(index))).map_or(0, |cell| cell + SLOT_BYTES);
    if builder.used_bytes() + omitted != copy.used_bytes() {
        return Err(copy.corrupt("F4: its dead bytes are not those that no slot refers to"));
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
