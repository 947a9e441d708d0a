//! Splitting a full leaf: the upper part moves to a new right neighbour.
//!
//! Where to cut. The cells, with the incoming one among them, are cut as near the middle (by bytes) as both halves
//! allow. If the incoming key is above all others, as in an ascending load, the left leaf keeps all it can, so that
//! leaves are left full. Rows may also ascend within a range of the table (the order lines of one district, the events
//! of one user): the incoming key then follows the cell that was written last, which is the lowest in the heap. The cut
//! is beside the incoming cell, on the side where more will come: behind it, while the run is the smaller part of the
//! leaf, so that the run stays on the left with room to grow; else before it, so that a full left leaf is done with.
//! In random order, one split in as many as a leaf has cells is cut like this for nothing.
//!
//! The separator is the shortest byte string above the last left key and not above the first right one (Bayer and
//! Unterauer, TODS 1977); it is never longer than that right key.
//!
//! Why there is always a cut, and two are enough (F6). Let B be the page without its header, low and high its
//! fences, K and C the longest key and the largest cell (slot included); [`Limits`](super::Limits) guarantees
//! 2K + C ≤ B. Count the incoming cell y in; let L and R be the bytes left and right of a cut.
//!
//! A cut is good if low + K + L ≤ B and K + high + R ≤ B. If no cut is good, let x be the first cell with which L
//! becomes too large. The cut before x leaves R too large, so x straddles. All that is right of x still fits beside a
//! new fence: L with x exceeds B − low − K and all cells together have at most B − low − high + C, so that
//! R < C + K − high. Then one of the cuts beside x fits without y, and the next split has a good cut:
//! - y = x: what lies left of it, y alone, and what lies right of it each fit; the second split parts y off.
//! - y left of x: x and all right of it would fit, were the new fence not longer than the low one. So less than
//!   K − low lies left of x beside y. Cut after x; the second split cuts before x.
//! - y right of x: likewise; cut before x, then after.
//!
//! In each case the cut is the one that leaves the fewest bytes on y's side among those that fit without y. It takes
//! two cells larger together than B − 2K (6 KB in 8 KiB) to get there.

use super::builder::Builder;
use super::change::Change;
use super::copy::LeafCopy;
use super::image;
use super::layout::{Layout, Limits, SLOT_BYTES, cell_bytes, common_prefix};
use super::search::Position;
use crate::Result;
use crate::page::{HEADER_BYTES, Page};
use foreshore_base::{Lsn, PageId, TableId, seeded_bug};

/// No separator is shorter: it is above a key.
const SEPARATOR_BYTES_MIN: usize = 1;

/// A split that has been thought out but not yet done: log it, then [`Split::apply`] it.
#[derive(Debug)]
pub(crate) struct Split {
    table: TableId,
    left: PageId,
    right: PageId,
    separator: Vec<u8>,
    /// The left leaf as it will be. Not logged: the separator says all of it.
    lower: Vec<u8>,
    /// The right leaf.
    image: Vec<u8>,
}

impl Split {
    /// Plans to split `left`, whose latch the caller holds until [`Split::apply`], because a cell of `key` with
    /// `value_len` bytes has no room. `right` is the new page's id.
    ///
    /// Errors: [`Error::Corrupt`](crate::Error::Corrupt) if the leaf is malformed or has nothing to split.
    pub fn plan(left: Page<'_>, right: PageId, key: &[u8], value_len: usize) -> Result<Self> {
        let mut whole = LeafCopy::of(left)?;
        let cells = Cells::new(&whole, key, value_len)?;
        let (cut, separator) = cells.cut(&mut whole)?;
        let mut from = cells.stored_before(cut.before);
        // A redo will look for the cut by the separator, and make that a fence.
        let is_fence = Limits::for_page(left.0.len()).may_be_high_fence(whole.low_fence(), &separator);
        if !is_fence || whole.lower_bound(&separator)? != from {
            return Err(whole.corrupt("F3: its rows are out of order"));
        }
        if seeded_bug("leaf_split_loses_separator_key")
            && from < whole.len()
            && whole.row(from)?.key == separator
        {
            from += 1;
        }
        Self::of(&mut whole, from, separator, right)
    }

    /// Plans to split `left` where `separator` says, which need not be near the middle. `None` if there is nothing on one side
    /// of it, or hardly room for it as a fence beside all cells.
    ///
    /// Errors: [`Error::Corrupt`](crate::Error::Corrupt) if the leaf is malformed.
    pub fn at(left: Page<'_>, right: PageId, separator: &[u8]) -> Result<Option<Self>> {
        let mut whole = LeafCopy::of(left)?;
        let from = whole.lower_bound(separator)?;
        let cells_fit = whole.layout().used_bytes() + separator.len() <= left.0.len();
        if !(1..whole.len()).contains(&from) || !cells_fit {
            return Ok(None);
        }
        Self::of(&mut whole, from, separator.to_vec(), right).map(Some)
    }

    /// The cells from number `from` on, which are those from `separator` on, go to the right.
    fn of(whole: &mut LeafCopy, from: usize, separator: Vec<u8>, right: PageId) -> Result<Self> {
        let mut upper = Builder::new(whole.layout().page_bytes(), &separator, whole.high_fence());
        let rows = from..whole.len();
        if !upper.push_all_from(whole, rows)? {
            return Err(whole.corrupt("the upper half of a split does not fit"));
        }
        Self::before(whole, separator, right, upper)
    }

    /// A split that moves nothing: `upper`, built between `separator` and the high fence of `left` from keys above
    /// all in `left`, becomes its right neighbour. For bulk loads, which see to it that `left` [has room] for the separator.
    ///
    /// [has room]: has_room_for_fence
    ///
    /// Errors: [`Error::Corrupt`](crate::Error::Corrupt) if `left` is malformed.
    pub fn append(left: Page<'_>, right: PageId, separator: Vec<u8>, upper: Builder) -> Result<Self> {
        Self::before(&mut LeafCopy::of(left)?, separator, right, upper)
    }

    /// Plans to let `left` end where `right` begins, as if that were split off only now: what `left` holds from there on is from
    /// before. `None` if it does so already, or ends below.
    ///
    /// Errors: [`Error::Corrupt`](crate::Error::Corrupt) if a leaf is malformed.
    pub fn again(left: Page<'_>, right: Page<'_>) -> Result<Option<Self>> {
        let (mut whole, mut upper) = (LeafCopy::of(left)?, LeafCopy::of(right)?);
        let separator = upper.low_fence().to_vec();
        let ends_below = whole.high_fence().is_some_and(|high| high < separator.as_slice());
        if ends_below || (whole.high_fence() == Some(&separator) && whole.right() == upper.id()) {
            return Ok(None);
        }
        let mut packed = Builder::new(right.0.len(), &separator, upper.high_fence());
        let rows = upper.rows();
        if !packed.push_all_from(&mut upper, rows)? {
            return Err(upper.corrupt("its cells overlap"));
        }
        let lower = lower_half(&mut whole, &separator, upper.id())?;
        let (table, left, right) = (whole.table(), whole.id(), upper.id());
        let image = packed.finish(right, table, upper.right());
        Ok(Some(Self { table, left, right, separator, lower, image }))
    }

    /// The leaf keeps what is below `separator`, and gets this right neighbour.
    fn before(whole: &mut LeafCopy, separator: Vec<u8>, right: PageId, upper: Builder) -> Result<Self> {
        let lower = lower_half(whole, &separator, right)?;
        let image = upper.finish(right, whole.table(), whole.right());
        Ok(Self { table: whole.table(), left: whole.id(), right, separator, lower, image })
    }

    /// What to log.
    pub fn change(&self) -> Change<'_> {
        let Self { table, left, right, .. } = *self;
        Change::Split { table, left, right, separator: &self.separator, image: &self.image }
    }

    /// The first key that the right leaf may hold: what to post to the index.
    pub fn separator(&self) -> &[u8] {
        &self.separator
    }

    /// Does it, under both exclusive latches; `end_lsn` is the end of the record.
    pub fn apply(&self, left: Page<'_>, right: Page<'_>, end_lsn: Lsn) {
        for (image, page) in [(&self.image, right), (&self.lower, left)] {
            image::install(image, page).expect("a leaf just built fits its page");
            page.set_lsn(end_lsn);
        }
    }
}

/// Is there room in the last leaf of a table for this as its high fence, beside all its rows? A longer prefix only makes them
/// shorter.
pub(crate) fn has_room_for_fence(page: Page<'_>, high: &[u8]) -> bool {
    Layout::read(page).is_ok_and(|layout| layout.used_bytes() + high.len() <= layout.page_bytes())
}

/// Drops the rows of `page` from `separator` on, makes that its high fence and `right` its neighbour.
pub(super) fn truncate(page: Page<'_>, separator: &[u8], right: PageId) -> Result<()> {
    let mut whole = LeafCopy::of(page)?;
    let image = lower_half(&mut whole, separator, right)?;
    image::install(&image, page).map_err(|detail| whole.corrupt(detail))
}

/// The leaf without its rows from `separator` on, which becomes its high fence, and with `right` for its neighbour.
fn lower_half(whole: &mut LeafCopy, separator: &[u8], right: PageId) -> Result<Vec<u8>> {
    let mut lower = Builder::new(whole.layout().page_bytes(), whole.low_fence(), Some(separator));
    let rows = 0..whole.lower_bound(separator)?;
    if !lower.push_all_from(whole, rows)? {
        return Err(whole.corrupt("the lower half of a split does not fit"));
    }
    Ok(lower.finish(whole.id(), whole.table(), right))
}

/// The shortest string above `left` and not above `right`, where `left` < `right`.
pub(crate) fn separator<'a>(left: &[u8], right: &'a [u8]) -> &'a [u8] {
    debug_assert!(left < right);
    &right[..common_prefix(left, right) + 1]
}

/// A place between two cells.
#[derive(Clone, Copy)]
struct Cut {
    /// Number of the first cell to its right.
    before: usize,
    /// Bytes of all cells to its left.
    left_bytes: usize,
}

/// The cells to be cut: those stored, with the incoming one in its place.
struct Cells<'a> {
    key: &'a [u8],
    position: Position,
    /// For each cell the bytes of all up to it, slots included, with the leaf's present prefix. A longer prefix only
    /// makes them fewer.
    sums: Vec<usize>,
    /// Bytes of the incoming cell that are not stored yet.
    incoming: usize,
}

impl<'a> Cells<'a> {
    fn new(leaf: &LeafCopy, key: &'a [u8], value_len: usize) -> Result<Self> {
        let position = leaf.position(key)?.map_err(|_| leaf.corrupt("a key outside its fences"))?;
        let mut bytes = Vec::with_capacity(leaf.len() + 1);
        for index in 0..leaf.len() {
            let cell = leaf.cell_bytes(leaf.slot(index));
            bytes.push(cell.ok_or_else(|| leaf.corrupt("a cell leaves the heap"))? + SLOT_BYTES);
        }
        let new = cell_bytes(key.len() - leaf.layout().prefix_len(), value_len) + SLOT_BYTES;
        let incoming = match position {
            Position::Found(index) => {
                let grown = new.saturating_sub(bytes[index]);
                bytes[index] += grown;
                grown
            }
            Position::Absent(index) => {
                bytes.insert(index, new);
                new
            }
        };
        let mut sum = 0;
        for bytes in &mut bytes {
            sum += *bytes;
            *bytes = sum;
        }
        Ok(Self { key, position, sums: bytes, incoming })
    }

    /// The best cut and its separator.
    fn cut(&self, leaf: &mut LeafCopy) -> Result<(Cut, Vec<u8>)> {
        let good = match self.run(leaf) {
            _ if self.position == Position::Absent(leaf.len()) => {
                self.first_that_fits(leaf, (1..self.sums.len()).rev(), 0)?
            }
            Some(last) => {
                let beside = std::iter::once(self.beside_run(last));
                self.first_that_fits(leaf, beside.chain(self.middle_first()), 0)?
            }
            None => self.first_that_fits(leaf, self.middle_first(), 0)?,
        };
        if let Some(cut) = good {
            return Ok(cut);
        }
        let cut = self.first_that_fits(leaf, self.least_beside_incoming_first(), self.incoming)?;
        cut.ok_or_else(|| leaf.corrupt("there is nothing in it to split"))
    }

    /// The first of the cuts before these cells whose halves fit without the `later` bytes of the incoming cell, and its
    /// separator.
    fn first_that_fits(
        &self,
        leaf: &mut LeafCopy,
        cuts: impl IntoIterator<Item = usize>,
        later: usize,
    ) -> Result<Option<(Cut, Vec<u8>)>> {
        for before in cuts {
            let cut = Cut { before, left_bytes: self.sums[before - 1] };
            if !self.fits(leaf, cut, SEPARATOR_BYTES_MIN, later) {
                continue;
            }
            let separator = self.separator(leaf, cut)?;
            if self.fits(leaf, cut, separator.len(), later) {
                return Ok(Some((cut, separator)));
            }
        }
        Ok(None)
    }

    /// Do both halves fit without the `later` bytes of the incoming cell?
    fn fits(&self, leaf: &LeafCopy, cut: Cut, separator_len: usize, later: usize) -> bool {
        let (mut left, mut right) = (cut.left_bytes, self.total() - cut.left_bytes);
        if self.incoming_goes_left(cut.before) {
            left -= later;
        } else {
            right -= later;
        }
        let room = leaf.layout().page_bytes() - HEADER_BYTES - separator_len;
        leaf.low_fence().len() + left <= room && leaf.high_fence().map_or(0, <[u8]>::len) + right <= room
    }

    /// Bytes of all cells.
    fn total(&self) -> usize {
        *self.sums.last().expect("the incoming cell at least")
    }

    /// The cuts, from the middle outwards.
    fn middle_first(&self) -> impl Iterator<Item = usize> {
        let (cells, total) = (self.sums.len(), self.total());
        let middle = self.sums.partition_point(|left_bytes| 2 * left_bytes < total) + 1;
        let outwards = (0..cells).flat_map(move |step| [middle.checked_sub(step + 1), Some(middle + step)]);
        outwards.flatten().filter(move |before| (1..cells).contains(before))
    }

    /// The cell just before the incoming one, if it was written last.
    fn run(&self, leaf: &LeafCopy) -> Option<usize> {
        let Position::Absent(index) = self.position else { return None };
        let last = index.checked_sub(1)?;
        (leaf.slot(last).offset() == leaf.layout().heap_start()).then_some(last)
    }

    /// The cut beside the incoming cell, which continues a run that ends with cell `last`.
    fn beside_run(&self, last: usize) -> usize {
        if 2 * self.sums[last] < self.total() { last + 2 } else { last + 1 }
    }

    /// First the cuts that leave few bytes on the incoming cell's side.
    fn least_beside_incoming_first(&self) -> Vec<usize> {
        let mut cuts: Vec<usize> = (1..self.sums.len()).collect();
        cuts.sort_by_key(|before| {
            let left_bytes = self.sums[before - 1];
            if self.incoming_goes_left(*before) { left_bytes } else { self.total() - left_bytes }
        });
        cuts
    }

    fn incoming_goes_left(&self, before: usize) -> bool {
        self.position.lower_bound() < before
    }

    fn separator(&self, leaf: &mut LeafCopy, cut: Cut) -> Result<Vec<u8>> {
        let last_left = self.key(leaf, cut.before - 1)?;
        let first_right = self.key(leaf, cut.before)?;
        if last_left >= first_right {
            return Err(leaf.corrupt("F3: its rows are out of order"));
        }
        Ok(separator(&last_left, &first_right).to_vec())
    }

    /// The key of cell `index`, the incoming one counted.
    fn key(&self, leaf: &mut LeafCopy, index: usize) -> Result<Vec<u8>> {
        if index == self.position.lower_bound() {
            return Ok(self.key.to_vec());
        }
        let stored = self.stored_before(index);
        Ok(leaf.row(stored)?.key.to_vec())
    }

    /// How many of the first `index` cells are in the leaf already.
    fn stored_before(&self, index: usize) -> usize {
        match self.position {
            Position::Absent(at) if at < index => index - 1,
            _ => index,
        }
    }
}
