//! What the log says about leaves: record bodies, and how each is done again.
//!
//! A body is a kind byte, numbers (varints, see `fields.rs`), then byte strings; the last one runs to the end of the body,
//! whose exact length the log keeps. Structure modifications are one record over two leaves, each carrying all that
//! either leaf needs: no page depends on another's redo, so pages are redone in parallel.
//!
//! | kind | fields |
//! |---|---|
//! | 1 put | page, table, key length, key, value |
//! | 2 remove | page, table, key |
//! | 3 format | page, table, right, low length, high length + 1 (0 = +∞), low, high |
//! | 4 split | left, table, right, separator length, separator, packed image of the right leaf |
//! | 5 absorb | left, table, right, packed image of the right leaf |
//! | 6 ghost | page, table, key |
//! | 7 patch | page, table, key length, kept, old length, key, old bytes, new bytes |
//! | 8 rows | page, table, then for each row: key length, value length, key, value |
//!
//! Version words of rows that are written one by one are not logged: who redoes a record knows who wrote it.
//!
//! Invariants:
//! - C1: a record is applied to a page only if the page's LSN is below the record's end, and sets it to that end.
//!   So redo may begin anywhere at or before the oldest change that a page lacks, and may be repeated.
//! - C2: [`Change::decode`] accepts any bytes without panicking; kind 0 is the log's padding and refused here.

use super::absorb::take_in;
use super::image;
use super::layout::{KEY_BYTES_MAX, Limits};
use super::patch::exchange;
use super::read::{Route, get, route};
use super::split::truncate;
use super::write::{format, remove, upsert};
use crate::fields::{Fields, push_varint, varint_len};
use crate::page::Page;
use crate::version::Version;
use foreshore_base::{Lsn, PageId, TableId, seeded_bug};

const PUT: u8 = 1;
const REMOVE: u8 = 2;
const FORMAT: u8 = 3;
const SPLIT: u8 = 4;
const ABSORB: u8 = 5;
const GHOST: u8 = 6;
const PATCH: u8 = 7;
const ROWS: u8 = 8;

/// One change to one leaf or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    /// A key got a value.
    Put { page: PageId, table: TableId, key: &'a [u8], value: &'a [u8] },
    /// A key was removed, and its cell with it.
    Remove { page: PageId, table: TableId, key: &'a [u8] },
    /// A page became an empty leaf.
    Format { page: PageId, table: TableId, low: &'a [u8], high: Option<&'a [u8]>, right: PageId },
    /// The rows of `left` from `separator` on were dropped, and `right` became what `image` says.
    Split { table: TableId, left: PageId, right: PageId, separator: &'a [u8], image: &'a [u8] },
    /// The rows of `right`, which `image` holds, went to `left`, and `right` died.
    Absorb { table: TableId, left: PageId, right: PageId, image: &'a [u8] },
    /// A key was removed, and its cell became a ghost.
    Ghost { page: PageId, table: TableId, key: &'a [u8] },
    /// The bytes `old` of a value, which follow its first `kept` ones, became `new`.
    Patch { page: PageId, table: TableId, key: &'a [u8], kept: usize, old: &'a [u8], new: &'a [u8] },
    /// New keys got values.
    Rows { page: PageId, table: TableId, rows: Rows<'a> },
}

/// Rows as a record holds them, one after the other. Those of a record that was read are well-formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rows<'a>(&'a [u8]);

impl Rows<'_> {
    /// None yet: [`Rows::push`] appends some to the record that this was encoded into.
    pub const NONE: Self = Self(&[]);

    /// Bytes that [`Rows::push`] appends.
    pub fn row_bytes(key: &[u8], value: &[u8]) -> usize {
        number(key.len()) + number(value.len()) + key.len() + value.len()
    }

    /// Appends a row to a record that ends with rows.
    pub fn push(record: &mut Vec<u8>, key: &[u8], value: &[u8]) {
        push_varint(record, key.len() as u64);
        push_varint(record, value.len() as u64);
        record.extend_from_slice(key);
        record.extend_from_slice(value);
    }
}

impl<'a> Iterator for Rows<'a> {
    /// Key and value.
    type Item = Result<(&'a [u8], &'a [u8]), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let mut rest = Fields(self.0);
        let mut row = || {
            let (key_len, value_len) = (rest.len()?, rest.len()?);
            Ok((rest.bytes(key_len)?, rest.bytes(value_len)?))
        };
        let row = row();
        // Behind what cannot be read there is nothing.
        self.0 = if row.is_ok() { rest.0 } else { &[] };
        Some(row)
    }
}

impl<'a> Change<'a> {
    /// Appends the record body to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Change::Put { page, table, key, value } => {
                begin(out, PUT, page, table);
                push_varint(out, key.len() as u64);
                out.extend_from_slice(key);
                out.extend_from_slice(value);
            }
            Change::Remove { page, table, key } => {
                begin(out, REMOVE, page, table);
                out.extend_from_slice(key);
            }
            Change::Format { page, table, low, high, right } => {
                begin(out, FORMAT, page, table);
                push_varint(out, right.0);
                push_varint(out, low.len() as u64);
                push_varint(out, high_mark(high));
                out.extend_from_slice(low);
                out.extend_from_slice(high.unwrap_or_default());
            }
            Change::Split { table, left, right, separator, image } => {
                begin(out, SPLIT, left, table);
                push_varint(out, right.0);
                push_varint(out, separator.len() as u64);
                out.extend_from_slice(separator);
                out.extend_from_slice(image);
            }
            Change::Absorb { table, left, right, image } => {
                begin(out, ABSORB, left, table);
                push_varint(out, right.0);
                out.extend_from_slice(image);
            }
            Change::Ghost { page, table, key } => {
                begin(out, GHOST, page, table);
                out.extend_from_slice(key);
            }
            Change::Patch { page, table, key, kept, old, new } => {
                begin(out, PATCH, page, table);
                for len in [key.len(), kept, old.len()] {
                    push_varint(out, len as u64);
                }
                out.extend_from_slice(key);
                out.extend_from_slice(old);
                out.extend_from_slice(new);
            }
            Change::Rows { page, table, rows } => {
                begin(out, ROWS, page, table);
                out.extend_from_slice(rows.0);
            }
        }
    }

    /// The record body.
    pub fn encoded(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(self.encoded_len());
        self.encode(&mut body);
        body
    }

    /// Bytes that [`Change::encode`] appends.
    pub fn encoded_len(&self) -> usize {
        let (page, _) = self.pages();
        let rest = match *self {
            Change::Put { key, value, .. } => number(key.len()) + key.len() + value.len(),
            Change::Remove { key, .. } | Change::Ghost { key, .. } => key.len(),
            Change::Patch { key, kept, old, new, .. } => {
                let numbers = number(key.len()) + number(kept) + number(old.len());
                numbers + key.len() + old.len() + new.len()
            }
            Change::Format { low, high, right, .. } => {
                let numbers = varint_len(right.0) + number(low.len()) + varint_len(high_mark(high));
                numbers + low.len() + high.map_or(0, <[u8]>::len)
            }
            Change::Split { right, separator, image, .. } => {
                varint_len(right.0) + number(separator.len()) + separator.len() + image.len()
            }
            Change::Absorb { right, image, .. } => varint_len(right.0) + image.len(),
            Change::Rows { rows, .. } => rows.0.len(),
        };
        1 + varint_len(page.0) + varint_len(self.table().0.into()) + rest
    }

    /// Reads a record body (C2). Says what is wrong with it otherwise.
    pub fn decode(body: &'a [u8]) -> Result<Self, String> {
        let mut rest = Fields(body);
        let kind = rest.u8()?;
        let page = page_id(rest.varint()?)?;
        let table = rest.varint()?.try_into().map(TableId).map_err(|_| "a table id is too large")?;
        let change = match kind {
            PUT => {
                let key_len = rest.len()?;
                Change::Put { page, table, key: rest.bytes(key_len)?, value: rest.0 }
            }
            REMOVE => Change::Remove { page, table, key: rest.0 },
            FORMAT => {
                let right = PageId(rest.varint()?);
                let (low_len, high_mark) = (rest.len()?, rest.len()?);
                let low = low_fence(rest.bytes(low_len)?)?;
                let high = high_mark.checked_sub(1).map(|len| rest.bytes(len)).transpose()?;
                if !rest.0.is_empty() {
                    return Err("a record is too long".into());
                }
                Change::Format { page, table, low, high, right }
            }
            SPLIT => {
                let right = page_id(rest.varint()?)?;
                let separator_len = rest.len()?;
                let separator = low_fence(rest.bytes(separator_len)?)?;
                Change::Split { table, left: page, right, separator, image: image_of(right, rest.0)? }
            }
            ABSORB => {
                let right = page_id(rest.varint()?)?;
                Change::Absorb { table, left: page, right, image: image_of(right, rest.0)? }
            }
            GHOST => Change::Ghost { page, table, key: rest.0 },
            ROWS => {
                Rows(rest.0).try_for_each(|row| row.map(|_| ()))?;
                Change::Rows { page, table, rows: Rows(rest.0) }
            }
            PATCH => {
                let (key_len, kept, old_len) = (rest.len()?, rest.len()?, rest.len()?);
                let (key, old) = (rest.bytes(key_len)?, rest.bytes(old_len)?);
                Change::Patch { page, table, key, kept, old, new: rest.0 }
            }
            _ => return Err(format!("{kind} is no kind of leaf record")),
        };
        match change.pages() {
            (page, Some(other)) if page == other => {
                Err(format!("page {page} cannot be its own right neighbour"))
            }
            _ => Ok(change),
        }
    }

    /// The pages that this changes: one, or left and right.
    pub fn pages(&self) -> (PageId, Option<PageId>) {
        match *self {
            Change::Put { page, .. }
            | Change::Remove { page, .. }
            | Change::Format { page, .. }
            | Change::Ghost { page, .. }
            | Change::Patch { page, .. }
            | Change::Rows { page, .. } => (page, None),
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

    /// Does page `id` die by this?
    pub fn kills(&self, id: PageId) -> bool {
        matches!(self, Change::Absorb { right, .. } if *right == id)
    }

    /// The key of the row that this changes, or of the first one; none if it changes leaves as such.
    pub fn key(&self) -> Option<&'a [u8]> {
        match *self {
            Change::Put { key, .. }
            | Change::Remove { key, .. }
            | Change::Ghost { key, .. }
            | Change::Patch { key, .. } => Some(key),
            Change::Rows { mut rows, .. } => rows.next()?.ok().map(|(key, _)| key),
            Change::Format { .. } | Change::Split { .. } | Change::Absorb { .. } => None,
        }
    }

    /// The changes of one row each that this comes to, in the order in which they were made. Errors: it changes leaves as
    /// such.
    pub fn of_rows(self) -> Result<Vec<Self>, String> {
        match self {
            Change::Rows { page, table, rows } => {
                rows.map(|row| row.map(|(key, value)| Change::Put { page, table, key, value })).collect()
            }
            _ if self.key().is_some() => Ok(vec![self]),
            _ => Err("it changes no row".into()),
        }
    }

    /// The table that this belongs to.
    pub fn table(&self) -> TableId {
        match *self {
            Change::Put { table, .. }
            | Change::Remove { table, .. }
            | Change::Format { table, .. }
            | Change::Split { table, .. }
            | Change::Absorb { table, .. }
            | Change::Ghost { table, .. }
            | Change::Patch { table, .. }
            | Change::Rows { table, .. } => table,
        }
    }

    /// Does it again to `page`, which is page `id` and exclusively latched, unless the page has it already (C1).
    /// `end_lsn` is the end of the record, `author` what the version word of a row written says besides the ghost bit.
    /// Says what does not fit; the page is then not to be used.
    pub fn redo(&self, page: Page<'_>, id: PageId, end_lsn: Lsn, author: Version) -> Result<(), String> {
        if page.lsn() >= end_lsn && !seeded_bug("leaf_redo_twice") {
            return Ok(());
        }
        self.redo_on(page, id, author)?;
        page.set_lsn(end_lsn);
        Ok(())
    }

    fn redo_on(&self, page: Page<'_>, id: PageId, author: Version) -> Result<(), String> {
        if !self.creates(id) && (page.id() != id || page.table() != self.table() || page.is_dead()) {
            let (table, state) = (page.table(), if page.is_dead() { "dead " } else { "" });
            return Err(format!("redo of page {id}: found {state}page {} of table {table}", page.id()));
        }
        let (first, second) = self.pages();
        if id != first && Some(id) != second {
            return Err(format!("redo of page {id}: the record is about {:?}", self.pages()));
        }
        match *self {
            Change::Put { key, value, .. } => put(page, key, value, author),
            Change::Ghost { key, .. } => put(page, key, &[], author.ghost()),
            Change::Patch { key, kept, old, new, .. } => {
                put(page, key, &patched(page, key, kept, old, new)?, author)
            }
            Change::Rows { mut rows, .. } => rows.try_for_each(|row| {
                let (key, value) = row?;
                put(page, key, value, author)
            }),
            Change::Remove { key, .. } => {
                within_fences(page, key)?;
                remove(page, key).map_err(|e| e.to_string())
            }
            Change::Format { table, low, high, right, .. } => {
                fences_fit(page, low, high)?;
                format(page, id, table, low, high, right);
                Ok(())
            }
            Change::Split { right, image, .. } if right == id => image::install(image, page),
            Change::Split { right, separator, .. } => {
                within_fences(page, separator)?;
                above_low_fence(page, separator)?;
                truncate(page, separator, right).map_err(|e| e.to_string())
            }
            Change::Absorb { right, .. } if right == id => {
                page.set_dead();
                Ok(())
            }
            Change::Absorb { image, .. } => take_in(page, image).map_err(|e| e.to_string()),
        }
    }
}

/// The value of `key` with `new` for `old` behind its first `kept` bytes.
fn patched(page: Page<'_>, key: &[u8], kept: usize, old: &[u8], new: &[u8]) -> Result<Vec<u8>, String> {
    within_fences(page, key)?;
    let mut value = Vec::new();
    let found = get(page, key, &mut value).ok().flatten();
    let fits = found.and_then(|_| exchange(&mut value, kept, old, new));
    fits.map(|()| value).ok_or_else(|| format!("redo of page {}: a patch does not fit the value", page.id()))
}

fn put(page: Page<'_>, key: &[u8], value: &[u8], version: Version) -> Result<(), String> {
    within_fences(page, key)?;
    let limits = Limits::for_page(page.0.len());
    if key.len() > limits.key_bytes_max || value.len() > limits.reference_bytes() {
        return Err(format!("redo of page {}: a key or value is over the limits", page.id()));
    }
    match upsert(page, key, value, version.0) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("redo of page {}: a put that once had room has none", page.id())),
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
    let limits = Limits::for_page(page.0.len());
    if page.low_fence().is_some_and(|low| limits.may_be_high_fence(low.as_slice(), separator)) {
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
    push_varint(out, page.0);
    push_varint(out, table.0.into());
}

/// Bytes that a length takes.
fn number(len: usize) -> usize {
    varint_len(len as u64)
}

/// The length of a high fence plus one; 0: there is none.
fn high_mark(high: Option<&[u8]>) -> u64 {
    high.map_or(0, |high| high.len() as u64 + 1)
}

/// What a leaf of the record begins at, whether or not the record is done again: directory and indexes take no longer one.
fn low_fence(key: &[u8]) -> Result<&[u8], String> {
    if key.len() <= KEY_BYTES_MAX { Ok(key) } else { Err("a fence is longer than any key".into()) }
}

/// An image is sound in its lengths and of the page that the record names.
fn image_of(id: PageId, image: &[u8]) -> Result<&[u8], String> {
    let low = image::layout(image)?.low();
    low_fence(&image[image.len() - low.len()..])?;
    if image::id(image) != id {
        return Err(format!("a record of page {id} has the image of page {}", image::id(image)));
    }
    Ok(image)
}

fn page_id(word: u64) -> Result<PageId, String> {
    if word == PageId::NONE.0 { Err("a leaf record names no page".into()) } else { Ok(PageId(word)) }
}
