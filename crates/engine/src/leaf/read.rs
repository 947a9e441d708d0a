//! Optimistic reads: they may race with a writer, write nothing, and count only once the page's latch validates.
//!
//! Source: OLFIT (Cha et al., VLDB 2001), node read; B-link right links (Lehman and Yao, TODS 1981).
//!
//! Invariants:
//! - R1 (rule 8): whatever the bytes say, no function here panics, reads outside the page, or takes more steps than the
//!   page's size allows; what cannot be is [`Restart`].
//! - R2: [`lookup`] and its kin are called after [`route`] said [`Route::Here`] for the same key, under one
//!   validation. The key then starts with the leaf's prefix, which is not compared again (F2).

use super::layout::{FIRST_SLOT_WORD, HEAD_BYTES, Layout, SLOT_BYTES, Slot, head};
use super::search::{FEW, Position, WINDOW, compare, find, find_beside};
use crate::page::Page;
use crate::version::Version;
use foreshore_base::{PageId, Restart, TableId};
use std::cmp::Ordering;
use std::ops::Range;

/// What [`prefetch_place`] fetches for a new cell.
const NEW_CELL_BYTES: usize = 128;

/// What [`prefetch_cell`] fetches of a cell: all of a small one. The processor goes on by itself.
const CELL_BYTES: usize = 256;

/// Where a key is, as seen from one leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Between the fences of this leaf.
    Here,
    /// At or above the high fence: follow the right link. [`PageId::NONE`], once validated, means a damaged page.
    Right(PageId),
    /// This is not the way: a dead leaf, another page or table, or a key below the low fence. Seek again.
    Lost,
}

/// Does `key` of `table` belong into this leaf, which should be page `pid`?
#[inline]
pub(crate) fn route(page: Page<'_>, table: TableId, pid: PageId, key: &[u8]) -> Result<Route, Restart> {
    let Some(layout) = layout_of(page, table, pid)? else { return Ok(Route::Lost) };
    let low = layout.low();
    if page.0.compare(low.start, low.len(), key) == Ordering::Greater {
        return Ok(Route::Lost);
    }
    if let Some(high) = layout.high()
        && page.0.compare(high.start, high.len(), key) != Ordering::Greater
    {
        return Ok(Route::Right(page.right()));
    }
    Ok(Route::Here)
}

/// Do the keys just below `bound` belong into this leaf? Without a bound: is it the last one?
pub(crate) fn route_before(
    page: Page<'_>,
    table: TableId,
    pid: PageId,
    bound: Option<&[u8]>,
) -> Result<Route, Restart> {
    let Some(layout) = layout_of(page, table, pid)? else { return Ok(Route::Lost) };
    let is_below = |fence: &Range<usize>| {
        bound.is_none_or(|bound| page.0.compare(fence.start, fence.len(), bound).is_lt())
    };
    if !is_below(&layout.low()) {
        return Ok(Route::Lost);
    }
    match layout.high() {
        Some(high) if is_below(&high) => Ok(Route::Right(page.right())),
        _ => Ok(Route::Here),
    }
}

/// The layout of page `pid`; `None` if this is another page, or no living leaf of `table`.
#[inline]
fn layout_of(page: Page<'_>, table: TableId, pid: PageId) -> Result<Option<Layout>, Restart> {
    let header = page.header();
    if page.id() != pid || header.table != table || header.is_dead() {
        return Ok(None);
    }
    Layout::new(header, page.0.len()).ok_or(Restart).map(Some)
}

/// A hint: cells of a leaf among which a key was. The leaf may have changed since. By default nothing is known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    from: u16,
    to: u16,
}

impl Window {
    pub(super) fn new(cells: &Range<usize>) -> Self {
        Self { from: cells.start as u16, to: cells.end as u16 }
    }

    /// The cells, if the leaf has so many.
    #[inline]
    fn within(self, cells: usize) -> Option<Range<usize>> {
        let (from, to) = (self.from.into(), self.to.into());
        (from < to && to <= cells).then_some(from..to)
    }
}

/// A cell found: its version word, and where its value lies, in the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    /// The version word given to the last `upsert`.
    pub version: u64,
    value_at: u16,
    value_len: u16,
}

impl Cell {
    /// Offset of the value in the page.
    #[inline]
    pub fn value_at(&self) -> usize {
        self.value_at.into()
    }

    /// Bytes of the value.
    #[inline]
    pub fn value_len(&self) -> usize {
        self.value_len.into()
    }

    /// Where the cell ends.
    #[inline]
    pub fn end(&self) -> usize {
        self.value_at() + self.value_len()
    }

    /// Appends the value to `out`.
    #[inline]
    pub fn append_to(&self, page: Page<'_>, out: &mut Vec<u8>) {
        page.0.append_to(self.value_at(), self.value_len(), out);
    }
}

/// Finds the cell of `key` (R2).
#[inline]
pub(crate) fn lookup(page: Page<'_>, key: &[u8]) -> Result<Option<Cell>, Restart> {
    lookup_near(page, key, Window::default())
}

/// As [`lookup`], with a hint where the key is.
#[inline]
pub(crate) fn lookup_near(page: Page<'_>, key: &[u8], near: Window) -> Result<Option<Cell>, Restart> {
    let layout = Layout::read(page)?;
    match position_near(page, &layout, key, near)? {
        Position::Found(index) => cell(page, &layout, slot(page, index)).map(Some),
        Position::Absent(_) => Ok(None),
    }
}

/// Copies the value of `key` into `out`, replacing what was there; the version word if there is such a key (R2).
/// `out` is left as it is if there is none.
#[inline]
pub(crate) fn get(page: Page<'_>, key: &[u8], out: &mut Vec<u8>) -> Result<Option<u64>, Restart> {
    let Some(cell) = lookup(page, key)? else { return Ok(None) };
    out.clear();
    cell.append_to(page, out);
    Ok(Some(cell.version))
}

/// Is there a cell of `key` (R2)?
#[cfg(test)]
pub(crate) fn contains(page: Page<'_>, key: &[u8]) -> Result<bool, Restart> {
    let layout = Layout::read(page)?;
    Ok(matches!(position(page, &layout, key)?, Position::Found(_)))
}

/// The first key of the leaf that is above `key` (R2); `None` if there is none in this leaf. Ghosts count.
pub(crate) fn next_key(page: Page<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, Restart> {
    let layout = Layout::read(page)?;
    key_at(page, &layout, position(page, &layout, key)?.upper_bound())
}

/// The last key of the leaf that is below `key` (R2); `None` if there is none in this leaf. Ghosts count.
pub(crate) fn previous_key(page: Page<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, Restart> {
    let layout = Layout::read(page)?;
    match position(page, &layout, key)?.lower_bound().checked_sub(1) {
        Some(index) => key_at(page, &layout, index),
        None => Ok(None),
    }
}

/// Where the leaf ends; `None`: with its table.
pub(crate) fn high_fence(page: Page<'_>) -> Result<Option<Vec<u8>>, Restart> {
    let high = Layout::read(page)?.high();
    Ok(high.map(|high| {
        let mut fence = Vec::with_capacity(high.len());
        page.0.append_to(high.start, high.len(), &mut fence);
        fence
    }))
}

/// Is this the last leaf of its table, and `key` above all keys in it (R2)?
pub(crate) fn is_above_all(page: Page<'_>, key: &[u8]) -> Result<bool, Restart> {
    let layout = Layout::read(page)?;
    Ok(layout.high().is_none() && position(page, &layout, key)?.lower_bound() == layout.cells())
}

/// The lowest key of the leaf, if it has any cell. Ghosts count.
pub(crate) fn first_key(page: Page<'_>) -> Result<Option<Vec<u8>>, Restart> {
    key_at(page, &Layout::read(page)?, 0)
}

/// The keys of all ghosts in the leaf, and their versions.
pub(crate) fn ghosts(page: Page<'_>) -> Result<Vec<(Vec<u8>, Version)>, Restart> {
    let layout = Layout::read(page)?;
    let mut ghosts = Vec::new();
    for index in 0..layout.cells() {
        let version = Version(cell(page, &layout, slot(page, index))?.version);
        if version.is_ghost() {
            ghosts.extend(key_at(page, &layout, index)?.map(|key| (key, version)));
        }
    }
    Ok(ghosts)
}

/// The key of cell number `index`, if there are so many.
fn key_at(page: Page<'_>, layout: &Layout, index: usize) -> Result<Option<Vec<u8>>, Restart> {
    if index >= layout.cells() {
        return Ok(None);
    }
    let slot = slot(page, index);
    let end = slot.value_at(page.0.len()).ok_or(Restart)?;
    let mut key = Vec::with_capacity(layout.prefix_len() + slot.suffix_len());
    page.0.append_to(layout.low().start, layout.prefix_len(), &mut key);
    key.extend_from_slice(&slot.head().to_be_bytes()[..slot.suffix_len().min(HEAD_BYTES)]);
    page.0.append_to(slot.tail_at(), end - slot.tail_at(), &mut key);
    Ok(Some(key))
}

/// Is less than a third of the page in use, so that it should be absorbed, or absorb? Fences do not count: in the smallest leaves two
/// long ones take more than that, and a leaf without rows would stay.
pub(crate) fn is_underfull(page: Page<'_>) -> Result<bool, Restart> {
    let layout = Layout::read(page)?;
    let fences = layout.page_bytes() - layout.fences_start();
    Ok(layout.used_bytes() < page.0.len() / 3 + fences)
}

/// Where `key` is among the cells (R2).
#[inline]
pub(super) fn position(page: Page<'_>, layout: &Layout, key: &[u8]) -> Result<Position, Restart> {
    position_near(page, layout, key, Window::default())
}

#[inline]
pub(super) fn position_near(
    page: Page<'_>,
    layout: &Layout,
    key: &[u8],
    near: Window,
) -> Result<Position, Restart> {
    let suffix = key.get(layout.prefix_len()..).ok_or(Restart)?;
    let slots = page.0.words().get(layout.slot_words()).ok_or(Restart)?;
    let slot = |index: usize| Slot(slots[index].load(foreshore_base::sync::Ordering::Relaxed));
    let compare_tail = |slot, tail: &[u8]| compare_tail(page, slot, tail);
    let near = near.within(layout.cells());
    if let Some(near) = near.as_ref().filter(|near| near.len() == 1)
        && let Some(position) = find_beside(near.start, layout.cells(), slot, compare_tail, suffix)?
    {
        return Ok(position);
    }
    // At the end of a table rows often ascend, and heads do not help: such a leaf has no common prefix.
    if layout.high().is_none() && layout.cells() > 0 {
        let last = slot(layout.cells() - 1);
        if compare(last, compare_tail, suffix)? == Ordering::Less {
            return Ok(Position::Absent(layout.cells()));
        }
    }
    let within = near.unwrap_or_else(|| first_window(page, layout, suffix));
    find(layout.cells(), slot, compare_tail, suffix, within)
}

/// The cells among which to look for `suffix` first; the lines of their slots are asked for.
#[inline]
fn first_window(page: Page<'_>, layout: &Layout, suffix: &[u8]) -> Range<usize> {
    let within = if layout.cells() <= FEW {
        0..layout.cells()
    } else {
        let guess = guess(page, layout, head(suffix));
        guess.saturating_sub(WINDOW)..(guess + WINDOW).min(layout.cells())
    };
    page.0.prefetch((FIRST_SLOT_WORD + within.start) * SLOT_BYTES, within.len() * SLOT_BYTES);
    within
}

/// Fetches the lines of the slots among which `key` will be looked for, and says which. A hint, as the next two: whatever
/// the bytes say, nothing comes of it.
pub(crate) fn prefetch_slots(page: Page<'_>, key: &[u8], near: Window) -> Window {
    let Ok(layout) = Layout::read(page) else { return near };
    let Some(suffix) = key.get(layout.prefix_len()..) else { return near };
    Window::new(&first_window(page, &layout, suffix))
}

/// Fetches the first lines of the cell of `key`, whose slots `near` should be there, and says which it is.
pub(crate) fn prefetch_cell(page: Page<'_>, key: &[u8], near: Window) -> Window {
    let Ok(layout) = Layout::read(page) else { return near };
    let Ok(Position::Found(index)) = position_near(page, &layout, key, near) else { return near };
    page.0.prefetch(slot(page, index).offset(), CELL_BYTES);
    Window::new(&(index..index + 1))
}

/// Fetches the slots of `key`, and the lines that the next new cell will take.
pub(crate) fn prefetch_place(page: Page<'_>, key: &[u8]) {
    prefetch_slots(page, key, Window::default());
    let Ok(layout) = Layout::read(page) else { return };
    page.0.prefetch(layout.heap_start().saturating_sub(NEW_CELL_BYTES), NEW_CELL_BYTES);
}

/// Where among the cells a suffix with this head would be if they were evenly spread between the fences. Torn bytes
/// give any number up to the count of cells.
#[inline]
fn guess(page: Page<'_>, layout: &Layout, head: u32) -> usize {
    let fence_head = |fence: Range<usize>| {
        let len = fence.len().saturating_sub(layout.prefix_len()).min(HEAD_BYTES);
        (page.0.uint_at(fence.start + layout.prefix_len().min(fence.len()), len) as u32).swap_bytes()
    };
    let low = fence_head(layout.low());
    let high = layout.high().map_or(u32::MAX, fence_head);
    let (below, span) = (f64::from(head.saturating_sub(low)), f64::from(high.saturating_sub(low)));
    // Floating point divides in a third of the time that integers take. 0 ÷ 0 is not a number, which becomes 0.
    let guess = below / span * layout.cells() as f64;
    (guess as usize).min(layout.cells())
}

/// The slot of cell number `index`, which the caller has checked.
#[inline]
pub(super) fn slot(page: Page<'_>, index: usize) -> Slot {
    Slot(page.0.word(FIRST_SLOT_WORD + index))
}

#[inline]
fn compare_tail(page: Page<'_>, slot: Slot, tail: &[u8]) -> Result<Ordering, Restart> {
    let end = slot.value_at(page.0.len()).ok_or(Restart)?;
    Ok(page.0.compare(slot.tail_at(), end.saturating_sub(slot.tail_at()), tail))
}

/// What a slot's cell says. It lies in the heap, whole: who writes into it changes neither header nor fences.
#[inline]
pub(super) fn cell(page: Page<'_>, layout: &Layout, slot: Slot) -> Result<Cell, Restart> {
    let value_at = slot.value_at(page.0.len()).ok_or(Restart)?;
    let version = page.0.u64_at(slot.offset());
    let value_len = page.0.u16_at(slot.offset() + 8);
    if !layout.holds(slot, value_at + usize::from(value_len)) {
        return Err(Restart);
    }
    Ok(Cell { version, value_at: value_at as u16, value_len })
}
