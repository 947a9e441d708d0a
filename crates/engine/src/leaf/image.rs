//! Packed images: a leaf without its latch, its LSN and the gap between slots and heap. What log records carry.
//!
//! Format: words 1 to 7 of the header (the LSN's is 0), the slots, the heap up to the end of the page. The page size
//! follows from the heap start and the bytes after the slots, so an image says itself what it needs.
//!
//! Invariant I1: an image that [`layout`] accepts can be installed and unpacked without leaving the page; whether
//! its rows make sense is for `check` to say.

use super::layout::{Layout, is_page_size};
use crate::page::{HEADER_BYTES, Header, Page};
use foreshore_base::PageId;

/// Bytes before the slots.
const IMAGE_HEADER_BYTES: usize = HEADER_BYTES - 8;

/// Packs a whole page with `cells` slots and a heap from `heap_start` on.
pub(super) fn pack(page: &[u8], cells: usize, heap_start: usize) -> Vec<u8> {
    let front = &page[8..HEADER_BYTES + cells * 8];
    [front, &page[heap_start..]].concat()
}

/// Checks an image's lengths (I1). Says what is wrong.
pub(super) fn layout(image: &[u8]) -> Result<Layout, String> {
    if image.len() < IMAGE_HEADER_BYTES {
        return Err("a leaf image is shorter than its header".into());
    }
    let word = |i| word(image, Header::FIRST_WORD + i);
    let header = Header::from_words([word(0), word(1), word(2)]);
    let slots_end = IMAGE_HEADER_BYTES + usize::from(header.cells) * 8;
    let heap_bytes = image.len().checked_sub(slots_end).ok_or("a leaf image is shorter than its slots")?;
    let page_bytes = usize::from(header.heap_start) + heap_bytes;
    if !is_page_size(page_bytes) {
        return Err(format!("a leaf image is for a page of {page_bytes} bytes"));
    }
    Layout::new(header, page_bytes).ok_or_else(|| "the lengths in a leaf image do not fit".into())
}

/// The page that the image is of.
pub(super) fn id(image: &[u8]) -> PageId {
    PageId(word(image, 1))
}

/// The image as a whole page whose first word is 0.
pub(super) fn unpack(image: &[u8]) -> Result<Vec<u8>, String> {
    let layout = layout(image)?;
    let (front, heap) = image.split_at(layout.slots_end() - 8);
    let mut page = vec![0; layout.page_bytes()];
    page[8..layout.slots_end()].copy_from_slice(front);
    page[layout.heap_start()..].copy_from_slice(heap);
    Ok(page)
}

/// Makes `page`, exclusively latched, what the image says, but for its LSN.
pub(super) fn install(image: &[u8], page: Page<'_>) -> Result<(), String> {
    let layout = layout(image)?;
    if layout.page_bytes() != page.0.len() {
        return Err(format!("an image for {} bytes meets a page of {}", layout.page_bytes(), page.0.len()));
    }
    let lsn = page.lsn();
    let (front, heap) = image.split_at(layout.slots_end() - 8);
    page.0.write(8, front);
    page.0.write(layout.heap_start(), heap);
    page.set_lsn(lsn);
    Ok(())
}

/// Word `index` of the page that the image is of; `index` ≥ 1.
fn word(image: &[u8], index: usize) -> u64 {
    u64::from_le_bytes(image[(index - 1) * 8..][..8].try_into().expect("eight bytes"))
}
