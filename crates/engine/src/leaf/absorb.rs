//! Absorbing an underfull leaf's right neighbour: the reverse of a split.
//!
//! The neighbour keeps its contents and its link and is marked dead, so that a reader on its way there learns to
//! seek again. Its low fence disappears from the index, never moves (the left leaf's low fence stays as it is).

use super::builder::Builder;
use super::change::Change;
use super::copy::LeafCopy;
use super::image;
use super::layout::Layout;
use crate::page::{HEADER_BYTES, Page};
use crate::{Error, Result};
use foreshore_base::{Lsn, PageId, TableId};

/// A merge that has been thought out but not yet done: log it, then [`Absorb::apply`] it.
#[derive(Debug)]
pub(crate) struct Absorb {
    table: TableId,
    left: PageId,
    right: PageId,
    /// The right leaf: what is logged.
    image: Vec<u8>,
    /// The left leaf as it will be.
    merged: Vec<u8>,
}

impl Absorb {
    /// Plans to merge `right` into `left`, its left neighbour; the caller holds both latches until
    /// [`Absorb::apply`]. `None` if more than four fifths of the page would be used: it would soon split again.
    ///
    /// Errors: [`Error::Corrupt`] if a leaf is malformed, or they are no neighbours.
    pub fn plan(left: Page<'_>, right: Page<'_>) -> Result<Option<Self>> {
        let fill_bytes_max = fill_bytes_max(left);
        if merged_bytes_min(left, right) > fill_bytes_max {
            return Ok(None);
        }
        let mut upper = LeafCopy::of(right)?;
        let mut packed = Builder::new(right.0.len(), upper.low_fence(), upper.high_fence());
        if !push_rows(&mut upper, &mut packed)? {
            return Err(upper.corrupt("its cells overlap"));
        }
        let mut lower = LeafCopy::of(left)?;
        let is_next = lower.right() == upper.id() && lower.high_fence() == Some(upper.low_fence());
        if !is_next || lower.table() != upper.table() {
            return Err(lower.corrupt(format!("page {} is not its right neighbour", upper.id())));
        }
        let Some(merged) = merged(&mut lower, &mut upper)? else { return Ok(None) };
        if merged.used_bytes() > fill_bytes_max {
            return Ok(None);
        }
        let (table, left, right) = (lower.table(), lower.id(), upper.id());
        let merged = merged.finish(left, table, upper.right());
        let image = packed.finish(right, table, upper.right());
        Ok(Some(Self { table, left, right, image, merged }))
    }

    /// What to log.
    pub fn change(&self) -> Change<'_> {
        let Self { table, left, right, .. } = *self;
        Change::Absorb { table, left, right, image: &self.image }
    }

    /// Does it, under both exclusive latches; `end_lsn` is the end of the record.
    pub fn apply(&self, left: Page<'_>, right: Page<'_>, end_lsn: Lsn) {
        image::install(&self.merged, left).expect("a leaf just built fits its page");
        left.set_lsn(end_lsn);
        right.set_dead();
        right.set_lsn(end_lsn);
    }
}

/// Is a leaf so full that neither neighbour can absorb it, nor it one of them? One look, which may race with a writer:
/// it spares latching two leaves for nothing, and nothing else may depend on it.
pub(crate) fn is_past_absorbing(page: Page<'_>) -> bool {
    Layout::read(page).is_ok_and(|layout| layout.used_bytes() > fill_bytes_max(page))
}

/// Bytes that a merged leaf has at most.
fn fill_bytes_max(page: Page<'_>) -> usize {
    page.0.len() / 5 * 4
}

/// Adds the rows of a right neighbour's packed image to `page`, and takes over its high fence and its link.
pub(super) fn take_in(page: Page<'_>, image: &[u8]) -> Result<()> {
    let damaged = |detail| Error::corrupt("the record of an absorbed leaf", detail);
    let mut upper = LeafCopy::from_image(&image::unpack(image).map_err(damaged)?)?;
    let mut lower = LeafCopy::of(page)?;
    if lower.high_fence() != Some(upper.low_fence()) {
        return Err(lower.corrupt("an absorbed leaf was not its right neighbour"));
    }
    let merged = merged(&mut lower, &mut upper)?.ok_or_else(|| lower.corrupt("absorbed rows do not fit"))?;
    let merged = merged.finish(lower.id(), lower.table(), upper.right());
    image::install(&merged, page).map_err(|detail| lower.corrupt(detail))
}

/// All rows of both; `None` if they do not fit.
fn merged(lower: &mut LeafCopy, upper: &mut LeafCopy) -> Result<Option<Builder>> {
    let page_bytes = lower.layout().page_bytes();
    let mut merged = Builder::new(page_bytes, lower.low_fence(), upper.high_fence());
    let all = push_rows(lower, &mut merged)? && push_rows(upper, &mut merged)?;
    Ok(all.then_some(merged))
}

/// Appends all rows; `false` if not all fit.
fn push_rows(leaf: &mut LeafCopy, into: &mut Builder) -> Result<bool> {
    let all = leaf.rows();
    into.push_all_from(leaf, all)
}

/// Bytes used after a merge, if the common prefix does not get shorter: one header, and neither copy of the fence
/// between the two. Spares building what cannot fit; 0 where a page is malformed, which its copy will tell.
fn merged_bytes_min(left: Page<'_>, right: Page<'_>) -> usize {
    let used = |page| Layout::read(page).map_or(0, |layout| layout.used_bytes());
    (used(left) + used(right)).saturating_sub(HEADER_BYTES + 2 * usize::from(right.header().low_len))
}
