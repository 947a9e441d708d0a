//! The content of one file in memory: sparse pages that copies share until one of them is written.
//!
//! Why: a simulated crash copies a whole disk, a thousand times a second; sharing makes the copy a table of pointers.
//!
//! Invariants:
//! - P1: bytes at and beyond `len` are zero in whatever page holds them, except between a `put_sectors` and the `cut`
//!   that must follow it.
//! - P2: `allocated` counts the pages that are not holes.

use std::io;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

pub(crate) const PAGE_BYTES: usize = 4096;
/// What a disk writes whole or not at all.
pub(crate) const SECTOR_BYTES: usize = 512;

pub(crate) type Page = [u8; PAGE_BYTES];

/// A page that is reserved and was never written.
static ZERO: LazyLock<Arc<Page>> = LazyLock::new(|| Arc::new([0; PAGE_BYTES]));

#[derive(Clone, Default)]
pub(crate) struct Pages {
    len: u64,
    /// `None` is a hole: it reads as zeros and takes no space.
    table: Vec<Option<Arc<Page>>>,
    allocated: usize,
}

/// The pages that bytes `start..end` touch.
pub(crate) fn pages_of(start: u64, end: u64) -> Range<usize> {
    let page = PAGE_BYTES as u64;
    if start == end { 0..0 } else { (start / page) as usize..end.div_ceil(page) as usize }
}

impl Pages {
    /// A file with this content.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let mut pages = Self::default();
        pages.write(bytes, 0);
        pages
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Bytes of the pages that are not holes.
    pub(crate) fn allocated_bytes(&self) -> u64 {
        (self.allocated * PAGE_BYTES) as u64
    }

    /// Bytes that the pages `range` would take in addition.
    pub(crate) fn missing_bytes(&self, range: Range<usize>) -> u64 {
        let holes = range.filter(|&page| self.page(page).is_none()).count();
        (holes * PAGE_BYTES) as u64
    }

    /// One page, `None` for a hole.
    pub(crate) fn page(&self, number: usize) -> Option<&Arc<Page>> {
        self.table.get(number)?.as_ref()
    }

    /// The same content, shared; a hole becomes the zero page.
    pub(crate) fn share(&self, number: usize) -> Arc<Page> {
        self.page(number).unwrap_or(&ZERO).clone()
    }

    /// All bytes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len as usize];
        self.read(&mut bytes, 0).expect("the whole file is inside the file");
        bytes
    }

    /// Fills `out` from `offset`; `UnexpectedEof` if the file ends before.
    pub(crate) fn read(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > self.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (part, number, within) in parts(out.len(), offset) {
            match self.page(number) {
                Some(page) => out[part].copy_from_slice(&page[within]),
                None => out[part].fill(0),
            }
        }
        Ok(())
    }

    /// Writes `data` at `offset`, growing the file where needed.
    pub(crate) fn write(&mut self, data: &[u8], offset: u64) {
        for (part, number, within) in parts(data.len(), offset) {
            let slot = self.slot(number);
            match <&Page>::try_from(&data[part.clone()]) {
                // A whole page: what it held needs no copy, even if it is shared.
                Ok(whole) => match Arc::get_mut(slot) {
                    Some(page) => *page = *whole,
                    None => *slot = Arc::new(*whole),
                },
                Err(_) => Arc::make_mut(slot)[within].copy_from_slice(&data[part]),
            }
        }
        if !data.is_empty() {
            self.len = self.len.max(offset + data.len() as u64);
        }
    }

    /// Replaces `sectors` of page `number` by those of `from`, whatever the length is; a [`Pages::cut`] must follow.
    pub(crate) fn put_sectors(&mut self, number: usize, from: &Arc<Page>, sectors: Range<usize>) {
        let bytes = sectors.start * SECTOR_BYTES..sectors.end * SECTOR_BYTES;
        let slot = self.slot(number);
        if bytes.len() == PAGE_BYTES {
            *slot = from.clone();
        } else {
            Arc::make_mut(slot)[bytes.clone()].copy_from_slice(&from[bytes]);
        }
    }

    /// Zeros everything from `bytes` on, and makes that the length.
    pub(crate) fn cut(&mut self, bytes: u64) {
        let kept = pages_of(0, bytes).end;
        for gone in self.table.drain(kept.min(self.table.len())..) {
            self.allocated -= usize::from(gone.is_some());
        }
        let within = (bytes % PAGE_BYTES as u64) as usize;
        if within > 0
            && let Some(Some(last)) = self.table.get_mut(kept - 1)
            && last[within..].iter().any(|&byte| byte != 0)
        {
            Arc::make_mut(last)[within..].fill(0);
        }
        self.len = bytes;
    }

    /// Cuts or extends to `bytes`.
    pub(crate) fn set_len(&mut self, bytes: u64) {
        if bytes < self.len {
            self.cut(bytes);
        } else {
            self.len = bytes; // P1: there are zeros already
        }
    }

    /// Turns holes below `bytes` into zero pages and makes the file at least that long.
    pub(crate) fn reserve(&mut self, bytes: u64) {
        for number in pages_of(0, bytes) {
            self.slot(number);
        }
        self.len = self.len.max(bytes);
    }

    /// The page's place in the table, no hole any more.
    fn slot(&mut self, number: usize) -> &mut Arc<Page> {
        if number >= self.table.len() {
            self.table.resize(number + 1, None);
        }
        let slot = &mut self.table[number];
        self.allocated += usize::from(slot.is_none());
        slot.get_or_insert_with(|| ZERO.clone())
    }
}

/// Cuts `len` bytes at `offset` by pages: (range of the buffer, page, range of the page).
fn parts(len: usize, offset: u64) -> impl Iterator<Item = (Range<usize>, usize, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset + done as u64;
        let within = (at % PAGE_BYTES as u64) as usize;
        let bytes = (len - done).min(PAGE_BYTES - within);
        let part = (done..done + bytes, (at / PAGE_BYTES as u64) as usize, within..within + bytes);
        done += bytes;
        Some(part)
    })
}
