//! What the log says about leaves: record bodies, and how each is done again.
//!
//! A body is a kind byte, fixed fields (little-endian), then byte strings; the last one runs to the end of the body,
//! whose exact length the log keeps. Structure modifications are one record over two leaves, each carrying all that
//! either leaf needs: no page depends on another's redo, so pages are redone in parallel.
//!
//! | kind | fields |
//! |---|---|
//! | 1 put | page u64, table u32, version u64, key length u16, key, value |
//! | 2 remove | page u64, table u32, key |
//! | 3 format | page u64, table u32, right u64, low length u16, high length u16 (0xFFFF = +∞), low, high |
//! | 4 split | left u64, table u32, right u64, separator length u16, separator, packed image of the right leaf |
//! | 5 absorb | left u64, table u32, right u64, packed image of the right leaf |
//!
//! Invariants:
//! - C1: a record is applied to a page only if the page's LSN is below the record's end, and sets it to that end.
//!   So redo may begin anywhere at or before the oldest change that a page lacks, and may be repeated.
//! - C2: [`Change::decode`] accepts any bytes without panicking; kind 0 is the log's padding and refused here.

use super::absorb::take_in;
use super::image;
use super::layout::Limits;
use super::read::{Route, route};
use super::split::truncate;
use super::write::{Outcome, format, remove, upsert};
use crate::page::{INFINITE, Page};
use foreshore_base::{Lsn, PageId, TableId};

const PUT: u8 = 1;
const REMOVE: u8 = 2;
const FORMAT: u8 = 3;
const SPLIT: u8 = 4;
const ABSORB: u8 = 5;

/// One change to one leaf or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    /// A key got a value.
    Put { page: PageId, table: TableId, version: u64, key: &'a [u8], value: &'a [u8] },
    /// A key was removed.
    Remove { page: PageId, table: TableId, key: &'a [u8] },
    /// A page became an empty leaf.
    Format { page: PageId, table: TableId, low: &'a [u8], high: Option<&'a [u8]>, right: PageId },
    /// The rows of `left` from `separator` on were dropped, and `right` became what `image` says.
    Split { table: TableId, left: PageId, right: PageId, separator: &'a [u8], image: &'a [u8] },
    /// The rows of `right`, which `image` holds, went to `left`, and `right` died.
    Absorb { table: TableId, left: PageId, right: PageId, image: &'a [u8] },
}

impl<'a> Change<'a> {
    /// Appends the record body to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Change::Put { page, table, version, key, value } => {
                begin(out, PUT, page, table);
                out.extend_from_slice(&version.to_le_bytes());
                out.extend_from_slice(&(key.len() as u16).to_le_bytes());
                out.extend_from_slice(key);
                out.extend_from_slice(value);
            }
            Change::Remove { page, table, key } => {
                begin(out, REMOVE, page, table);
                out.extend_from_slice(key);
            }
            Change::Format { page, table, low, high, right } => {
                begin(out, FORMAT, page, table);
                out.extend_from_slice(&right.0.to_le_bytes());
                out.extend_from_slice(&(low.len() as u16).to_le_bytes());
                out.extend_from_slice(&high.map_or(INFINITE, |high| high.len() as u16).to_le_bytes());
                out.extend_from_slice(low);
                out.extend_from_slice(high.unwrap_or_default());
            }
            Change::Split { table, left, right, separator, image } => {
                begin(out, SPLIT, left, table);
                out.extend_from_slice(&right.0.to_le_bytes());
                out.extend_from_slice(&(separator.len() as u16).to_le_bytes());
                out.extend_from_slice(separator);
                out.extend_from_slice(image);
            }
            Change::Absorb { table, left, right, image } => {
                begin(out, ABSORB, left, table);
                out.extend_from_slice(&right.0.to_le_bytes());
                out.extend_from_slice(image);
            }
        }
    }

    /// Bytes that [`Change::encode`] appends.
    pub fn encoded_len(&self) -> usize {
        const COMMON: usize = 1 + 8 + 4;
        COMMON
            + match *self {
                Change::Put { key, value, .. } => 8 + 2 + key.len() + value.len(),
                Change::Remove { key, .. } => key.len(),
                Change::Format { low, high, .. } => 8 + 2 + 2 + low.len() + high.map_or(0, <[u8]>::len),
                Change::Split { separator, image, .. } => 8 + 2 + separator.len() + image.len(),
                Change::Absorb { image, .. } => 8 + image.len(),
            }
    }

    /// Reads a record body (C2). Says what is wrong with it otherwise.
    pub fn decode(body: &'a [u8]) -> Result<Self, String> {
        let mut rest = Reader(body);
        let kind = rest.u8()?;
        if !(PUT..=ABSORB).contains(&kind) {
            return Err(format!("{kind} is no kind of leaf record"));
        }
        let page = rest.page()?;
        let table = TableId(rest.u32()?);
        let change = match kind {
            PUT => {
                let version = rest.u64()?;
                let key_len = rest.u16()?;
                Change::Put { page, table, version, key: rest.bytes(key_len)?, value: rest.0 }
            }
            REMOVE => Change::Remove { page, table, key: rest.0 },
            FORMAT => {
                let right = PageId(rest.u64()?);
                let (low_len, high_len) = (rest.u16()?, rest.u16()?);
                let low = rest.bytes(low_len)?;
                let high = if high_len == INFINITE { None } else { Some(rest.bytes(high_len)?) };
                Change::Format { page, table, low, high, right }
            }
            SPLIT => {
                let right = rest.page()?;
                let separator_len = rest.u16()?;
                let separator = rest.bytes(separator_len)?;
                Change::Split { table, left: page, right, separator, image: image_of(right, rest.0)? }
            }
            _ => {
                let right = rest.page()?;
                Change::Absorb { table, left: page, right, image: image_of(right, rest.0)? }
            }
        };
        Ok(change)
    }

    /// The pages that this changes: one, or left and right.
    pub fn pages(&self) -> (PageId, Option<PageId>) {
        match *self {
            Change::Put { page, .. } | Change::Remove { page, .. } | Change::Format { page, .. } => {
                (page, None)
            }
            Change::Split { left, right, .. } | Change::Absorb { left, right, .. } => (left, Some(right)),
        }
    }

    /// Does this make page `id` anew, whatever it was before? Recovery has no use for the earlier records of a page
    /// that is not in the directory: they are of a former life of the page id, which ended before the crash.
    pub fn creates(&self, id: PageId) -> bool {
        match *self {
            Change::Format { page, .. } => page == id,
            Change::Split { right, .. } => right == id,
            _ => false,
        }
    }

    /// The table that this belongs to.
    pub fn table(&self) -> TableId {
        match *self {
            Change::Put { table, .. }
            | Change::Remove { table, .. }
            | Change::Format { table, .. }
            | Change::Split { table, .. }
            | Change::Absorb { table, .. } => table,
        }
    }

    /// Does it again to `page`, which is page `id` and exclusively latched, unless the page has it already (C1).
    /// `end_lsn` is the end of the record. Says what does not fit; the page is then not to be used.
    pub fn redo(&self, page: Page<'_>, id: PageId, end_lsn: Lsn) -> Result<(), String> {
        #[cfg(not(seeded_bug = "leaf_redo_twice"))]
        if page.lsn() >= end_lsn {
            return Ok(());
        }
        self.redo_on(page, id)?;
        page.set_lsn(end_lsn);
        Ok(())
    }

    fn redo_on(&self, page: Page<'_>, id: PageId) -> Result<(), String> {
        if !self.creates(id) && (page.id() != id || page.table() != self.table() || page.is_dead()) {
            let (table, state) = (page.table(), if page.is_dead() { "dead " } else { "" });
            return Err(format!("redo of page {id}: found {state}page {} of table {table}", page.id()));
        }
        match *self {
            Change::Put { page: at, key, value, version, .. } if at == id => put(page, key, value, version),
            Change::Remove { page: at, key, .. } if at == id => {
                within_fences(page, key)?;
                remove(page, key).map(|_| ()).map_err(|e| e.to_string())
            }
            Change::Format { page: at, table, low, high, right } if at == id => {
                fences_fit(page, low, high)?;
                format(page, id, table, low, high, right);
                Ok(())
            }
            Change::Split { right, separator, .. } if self.pages().0 == id => {
                within_fences(page, separator)?;
                above_low_fence(page, separator)?;
                truncate(page, separator, right).map_err(|e| e.to_string())
            }
            Change::Split { right, image, .. } if right == id => image::install(image, page),
            Change::Absorb { left, image, .. } if left == id => {
                take_in(page, image).map_err(|e| e.to_string())
            }
            Change::Absorb { right, .. } if right == id => {
                page.set_dead();
                Ok(())
            }
            _ => Err(format!("redo of page {id}: the record is about {:?}", self.pages())),
        }
    }
}

fn put(page: Page<'_>, key: &[u8], value: &[u8], version: u64) -> Result<(), String> {
    within_fences(page, key)?;
    let limits = Limits::for_page(page.0.len());
    if key.len() > limits.key_bytes_max || value.len() > limits.value_bytes_max {
        return Err(format!("redo of page {}: a key or value is over the limits", page.id()));
    }
    match upsert(page, key, value, version) {
        Ok(Outcome::NoRoom) => Err(format!("redo of page {}: a put that once had room has none", page.id())),
        Ok(_) => Ok(()),
        Err(e) => Err(e.to_string()),
    }
}

/// The rows of `page` may hold `key` (F1), or the record is not for this state of the page.
fn within_fences(page: Page<'_>, key: &[u8]) -> Result<(), String> {
    match route(page, page.table(), page.id(), key) {
        Ok(Route::Here) => Ok(()),
        _ => Err(format!("redo of page {}: the key is not between its fences", page.id())),
    }
}

/// `separator`, which is between the fences, may become the high fence.
fn above_low_fence(page: Page<'_>, separator: &[u8]) -> Result<(), String> {
    let limit = Limits::for_page(page.0.len()).key_bytes_max;
    let above = page.low_fence().is_some_and(|low| separator > low.as_slice());
    if above && separator.len() <= limit {
        return Ok(());
    }
    Err(format!("redo of page {}: the separator is no fence", page.id()))
}

fn fences_fit(page: Page<'_>, low: &[u8], high: Option<&[u8]>) -> Result<(), String> {
    let limit = Limits::for_page(page.0.len()).key_bytes_max;
    let fits = low.len() <= limit && high.is_none_or(|high| high.len() <= limit && low < high);
    if fits { Ok(()) } else { Err("redo of a format: its fences are no fences".into()) }
}

fn begin(out: &mut Vec<u8>, kind: u8, page: PageId, table: TableId) {
    out.push(kind);
    out.extend_from_slice(&page.0.to_le_bytes());
    out.extend_from_slice(&table.0.to_le_bytes());
}

/// An image is sound in its lengths and of the page that the record names.
fn image_of(id: PageId, image: &[u8]) -> Result<&[u8], String> {
    image::layout(image)?;
    if image::id(image) != id {
        return Err(format!("a record of page {id} has the image of page {}", image::id(image)));
    }
    Ok(image)
}

/// Takes fields off the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, len: u16) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(len.into()).ok_or("a leaf record is cut short")?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or("a leaf record is cut short")?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u8, String> {
        Ok(self.array::<1>()?[0])
    }

    fn u16(&mut self) -> Result<u16, String> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, String> {
        self.array().map(u64::from_le_bytes)
    }

    fn page(&mut self) -> Result<PageId, String> {
        match PageId(self.u64()?) {
            PageId::NONE => Err("a leaf record names no page".into()),
            id => Ok(id),
        }
    }
}
