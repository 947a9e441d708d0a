//! What the directory's batches are made of, how it is written, and what it comes to.
//!
//! An entry is its kind (u8), then its fields in the order of their types, little-endian; a key after its length (u16).

use super::size::{ByPage, SizeClass};
use crate::error::{Error, Result};
use crate::leaf::KEY_BYTES_MAX;
use crate::log::{Incarnation, POSITIONS};
use foreshore_base::{Lsn, PageId, SlotId, TableId};

const PAGE: u8 = 1;
const FREE: u8 = 2;
const REDO: u8 = 3;
const INCARNATION: u8 = 4;
const BASE_END: u8 = 5;

/// A page's image on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageEntry {
    /// The page.
    pub pid: PageId,
    /// Where its image is.
    pub slot: SlotId,
    /// The image's page LSN.
    pub lsn: Lsn,
    /// Its table.
    pub table: TableId,
    /// Its low fence, which never changes.
    pub low_key: Vec<u8>,
}

/// One fact in the directory. Later ones replace earlier ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A page has a new image.
    Page(PageEntry),
    /// A page is no more; its id may be used again.
    Free(PageId),
    /// Redo begins here.
    Redo(Lsn),
    /// The database was opened.
    Incarnation(Incarnation),
    /// All before this was in the file when it got its name.
    BaseEnd,
}

/// How much of a directory a page takes whose lowest key has so many bytes: its entry, and its part of the batch's header where a
/// batch is as long as those of a base.
pub(super) const fn entry_bytes(key_len: usize) -> u64 {
    32 + key_len as u64
}

/// Appends an entry to a batch.
pub(super) fn encode(entry: &Entry, out: &mut Vec<u8>) {
    match entry {
        Entry::Page(page) => {
            out.push(PAGE);
            [page.pid.0, page.slot.0, page.lsn.0].iter().for_each(|word| out.extend(word.to_le_bytes()));
            out.extend(page.table.0.to_le_bytes());
            out.extend(u16::try_from(page.low_key.len()).expect("a key fits a page").to_le_bytes());
            out.extend_from_slice(&page.low_key);
        }
        Entry::Free(pid) => {
            out.push(FREE);
            out.extend(pid.0.to_le_bytes());
        }
        Entry::Redo(lsn) => {
            out.push(REDO);
            out.extend(lsn.0.to_le_bytes());
        }
        Entry::Incarnation(i) => {
            out.push(INCARNATION);
            [i.prev_end.0, i.start.0, i.salt].iter().for_each(|word| out.extend(word.to_le_bytes()));
        }
        Entry::BaseEnd => out.push(BASE_END),
    }
}

/// Gives each entry of a batch, with its encoding, to `each`. A batch with a valid checksum that does not decode was
/// not written by this version.
pub(super) fn decode_all(
    name: &str,
    mut batch: &[u8],
    mut each: impl FnMut(Entry, &[u8]) -> Result<()>,
) -> Result<()> {
    while !batch.is_empty() {
        let mut rest = batch;
        let entry =
            decode(&mut rest).ok_or_else(|| Error::corrupt(name, "a batch holds an unknown entry"))?;
        let (encoded, _) = batch.split_at(batch.len() - rest.len());
        each(entry, encoded)?;
        batch = rest;
    }
    Ok(())
}

fn decode(from: &mut &[u8]) -> Option<Entry> {
    let [kind] = take(from)?;
    Some(match kind {
        PAGE => {
            let (pid, slot, lsn) = (take_u64(from)?, take_u64(from)?, take_lsn(from)?);
            let table = u32::from_le_bytes(take(from)?);
            let (low_key, rest) = {
                let len = usize::from(u16::from_le_bytes(take(from)?));
                // It will be in an index, which takes no longer one.
                from.split_at_checked(len).filter(|_| len <= KEY_BYTES_MAX)?
            };
            *from = rest;
            Entry::Page(PageEntry {
                pid: page_id(pid)?,
                slot: SlotId(slot),
                lsn,
                table: TableId(table),
                low_key: low_key.to_vec(),
            })
        }
        FREE => Entry::Free(page_id(take_u64(from)?)?),
        REDO => Entry::Redo(take_lsn(from)?),
        INCARNATION => Entry::Incarnation(Incarnation {
            prev_end: take_lsn(from)?,
            start: take_lsn(from)?,
            salt: take_u64(from)?,
        }),
        BASE_END => Entry::BaseEnd,
        _ => return None,
    })
}

fn page_id(number: u64) -> Option<PageId> {
    SizeClass::of(PageId(number)).map(|_| PageId(number))
}

fn take_lsn(from: &mut &[u8]) -> Option<Lsn> {
    take_u64(from).filter(|lsn| *lsn < POSITIONS).map(Lsn)
}

fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*head)
}

fn take_u64(from: &mut &[u8]) -> Option<u64> {
    take(from).map(u64::from_le_bytes)
}

/// What some entries come to, one after the other: of each page what `T` is.
#[derive(Clone, Default)]
pub(super) struct Replay<T> {
    pub pages: ByPage<T>,
    pub redo_lsn: Lsn,
    pub incarnations: Vec<Incarnation>,
}

impl<T: Clone + Default> Replay<T> {
    pub fn apply(&mut self, entry: Entry, of_page: impl FnOnce(PageEntry) -> T) {
        match entry {
            Entry::Page(page) => self.pages.set(page.pid, of_page(page)),
            Entry::Free(pid) => self.pages.set(pid, T::default()),
            Entry::Redo(lsn) => self.redo_lsn = lsn,
            Entry::Incarnation(incarnation) => self.add_incarnation(incarnation),
            Entry::BaseEnd => {}
        }
    }

    /// One that begins where the last one did has found nothing of it, not even its birth, and nothing comes any more: it takes its place.
    /// However many openings are killed before anybody relies on them, the list is no longer.
    fn add_incarnation(&mut self, incarnation: Incarnation) {
        match self.incarnations.last_mut() {
            Some(last) if last.start == incarnation.start => {
                *last = Incarnation { prev_end: last.prev_end, ..incarnation };
            }
            _ => self.incarnations.push(incarnation),
        }
    }

    /// The incarnations that have records behind the redo LSN, and the newest one, which later ones are told from.
    pub fn needed_incarnations(&self) -> &[Incarnation] {
        let done = self.incarnations.windows(2).take_while(|pair| pair[1].prev_end <= self.redo_lsn).count();
        &self.incarnations[done..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Openings that left nothing in the log are one.
    #[test]
    fn incarnations_that_begin_at_one_place_are_one() {
        let opened = |prev_end, start, salt| Incarnation { prev_end: Lsn(prev_end), start: Lsn(start), salt };
        let mut replay = Replay::<()>::default();
        for incarnation in
            [opened(0, 0, 1), opened(500, 4096, 2), opened(4096, 4096, 3), opened(4096, 4096, 4)]
        {
            replay.apply(Entry::Incarnation(incarnation), |_| ());
        }
        assert_eq!(replay.incarnations, [opened(0, 0, 1), opened(500, 4096, 4)]);
    }
}
