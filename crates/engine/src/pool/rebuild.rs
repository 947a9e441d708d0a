//! The directory's contents from the leaf files alone: the last resort, and a test oracle.
//!
//! Source: O2-Tree §4: reading every leaf brings back all there is to know.
//!
//! Every slot is read, one size of leaves after the other: a table has leaves of one size only. Before that the files are synced:
//! a process that was killed may have left images that are not durable, and what is found here will be put on record. Of the
//! images of one page the one with the highest page LSN counts.
//!
//! Where the directory can be read, the log will be too. Redo then begins before anything that the pages which the directory
//! knows lack, and makes those that it does not know yet: so these pages it is, and no others. Of each it is the image that the
//! directory names. If that is damaged, another one will do that is not from before where redo begins, as the log has all that it lacks.
//! Older ones will not: the log's changes may not fit them, nor they the leaves that were split off since.
//!
//! Otherwise there are also the images of pages that were freed, whose slots were not used
//! again. They are told by the fences: at any time the leaves of a table tile its key space, and whoever takes keys over
//! from another leaf does so in a record that sets its page LSN. So wherever a freed page's image overlaps a living page,
//! the living page's LSN is higher. A living page's image may be covered by a higher one too, if it is from before a split; but
//! never its low fence, which it keeps. So a page is dropped if higher ones cover its low fence; where they cover more of it, it
//! is to end there (`tree/mend.rs`).
//!
//! What cannot be told then:
//! - leaves of dropped tables (nothing overlaps them): the catalog knows, and table ids are not used again (`db/catalog.rs`);
//! - a freed page whose keys nobody else has on disk, since the leaf that absorbed it was not written yet. After
//!   [`Pool::flush_until`](super::Pool::flush_until) the log's end there are none;
//! - log incarnations and the redo LSN, which are not in the leaves.

use super::directory::Loaded;
use super::directory_entry::PageEntry;
use super::leaf_file::LeafFile;
use super::size::SizeClass;
use crate::error::{Error, Result};
use crate::log::POSITIONS;
use crate::page::{Image, verify_any};
use foreshore_base::{Lsn, PageId, SlotId, TableId};
use foreshore_io::Vfs;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound::{Included, Unbounded};

/// No leaf has changes from so far on. The log of a salvage begins behind all changes, and this leaves it half of the positions that are
/// kept for openings (`log/segments.rs`).
const LSN_END: u64 = POSITIONS - (1 << 42);

/// A page with its upper bound, which the directory does not keep.
struct Found {
    entry: PageEntry,
    /// `None` = no bound.
    high_key: Option<Vec<u8>>,
}

/// Reads every slot of the leaf files; `own_bytes` is the database's own leaf size, `known` what the directory says, if it can be
/// read. Returns where every living page is, by ascending id. Writes no slot; but a file with holes, or one that was cut, gets the space that
/// it lacks, if there is some.
///
/// Errors: `Corrupt` if the file of the database's own size is missing; `Io`; `Poisoned` if a file cannot be synced. Slots that
/// hold no valid image are passed over: never used, torn, or damaged, or on a bad sector.
pub(crate) fn rebuild(vfs: &dyn Vfs, own_bytes: usize, known: Option<&Loaded>) -> Result<Vec<PageEntry>> {
    let named: Named =
        known.iter().flat_map(|known| &known.pages).map(|page| (page.pid, page.slot)).collect();
    let oldest = known.map_or(Lsn::ZERO, |known| known.redo_lsn);
    let (mut pages, mut tables) = (Vec::new(), BTreeMap::<TableId, Vec<Found>>::new());
    for class in SizeClass::on_disk(vfs)? {
        for found in newest_images(vfs, class, own_bytes, &named, oldest)?.into_values() {
            match known {
                Some(_) => pages.extend(named.contains_key(&found.entry.pid).then_some(found.entry)),
                None => tables.entry(found.entry.table).or_default().push(found),
            }
        }
    }
    pages.extend(tables.into_values().flat_map(living));
    pages.sort_unstable_by_key(|page| page.pid);
    Ok(pages)
}

/// In which slots the directory says that pages are.
type Named = HashMap<PageId, SlotId>;

/// Of each page of this class that has a valid image, the one in the slot that is named for it, or the newest, if its page LSN is no
/// lower than `oldest`.
fn newest_images(
    vfs: &dyn Vfs,
    class: SizeClass,
    own_bytes: usize,
    named: &Named,
    oldest: Lsn,
) -> Result<HashMap<PageId, Found>> {
    let leaves = LeafFile::open(vfs, class, class.bytes(own_bytes), 0, false)?;
    leaves.sync()?;
    let is_named = |page: &PageEntry| named.get(&page.pid) == Some(&page.slot);
    let rank = |page: &PageEntry| (is_named(page), page.lsn);
    let mut newest: HashMap<PageId, Found> = HashMap::new();
    let mut unreadable = None;
    for slot in (0..leaves.whole_slots()?).map(SlotId) {
        // What fails twice is a bad sector, and costs no other leaf.
        let image = match leaves.read(slot).or_else(|_| leaves.read(slot)) {
            Ok(image) => image,
            Err(error) => {
                unreadable = Some(error);
                continue;
            }
        };
        if let Some(found) = parse(&image, slot)
            && SizeClass::of(found.entry.pid) == Some(class)
            && (is_named(&found.entry) || found.entry.lsn >= oldest)
            && newest.get(&found.entry.pid).is_none_or(|known| rank(&known.entry) < rank(&found.entry))
        {
            newest.insert(found.entry.pid, found);
        }
        leaves.recycle(image);
    }
    match unreadable {
        // Not only a sector: the device is perhaps there the next time.
        Some(error @ Error::Io { .. }) if newest.is_empty() => Err(error),
        _ => Ok(newest),
    }
}

fn parse(image: &[u8], slot: SlotId) -> Option<Found> {
    let pid = verify_any(image).ok()?;
    let image = Image(image);
    let low_key = image.low_fence()?.to_vec();
    let high_key = image.high_fence()?.map(<[u8]>::to_vec);
    let lsn = image.lsn();
    // The end of a record; that the leaves were all that was left is told from this (`is_salvaged`).
    if lsn.0 >= LSN_END || !lsn.0.is_multiple_of(8) {
        return None;
    }
    Some(Found { entry: PageEntry { pid, slot, lsn, table: image.table(), low_key }, high_key })
}

/// Newest first, each page whose low fence those taken before do not cover.
fn living(mut pages: Vec<Found>) -> impl Iterator<Item = PageEntry> {
    pages.sort_unstable_by_key(|found| std::cmp::Reverse(found.entry.lsn));
    let mut covered = Covered::default();
    let is_living = move |Found { entry, high_key }| covered.add(&entry.low_key, high_key).then_some(entry);
    pages.into_iter().filter_map(is_living)
}

/// Which keys are covered: where runs of them begin → where they end (`None`: nowhere).
#[derive(Default)]
struct Covered(BTreeMap<Vec<u8>, Option<Vec<u8>>>);

impl Covered {
    /// Adds the keys from `low` to `high`; `false`, and none is added, if `low` is covered.
    fn add(&mut self, low: &[u8], mut high: Option<Vec<u8>>) -> bool {
        let before = self.0.range::<[u8], _>((Unbounded, Included(low))).next_back();
        if before.is_some_and(|(_, end)| is_above(end, low)) {
            return false;
        }
        while let Some((start, end)) = self.0.range::<[u8], _>((Included(low), Unbounded)).next()
            && is_above(&high, start)
        {
            if high.as_ref().is_some_and(|high| is_above(end, high)) {
                high.clone_from(end);
            }
            let start = start.clone();
            self.0.remove(&start);
        }
        self.0.insert(low.to_vec(), high);
        true
    }
}

fn is_above(end: &Option<Vec<u8>>, key: &[u8]) -> bool {
    end.as_ref().is_none_or(|end| end.as_slice() > key)
}
