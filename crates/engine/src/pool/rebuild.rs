//! The directory's contents from the leaf files alone: the last resort, and a test oracle.
//!
//! Source: O2-Tree §4: reading every leaf brings back all there is to know.
//!
//! Every slot is read, one size of leaves after the other: a table has leaves of one size only. Of the images of one page
//! the one with the highest page LSN counts.
//!
//! Where the directory can be read, the log will be too. Redo then begins before anything that the pages which the directory
//! knows lack, and makes those that it does not know yet: so these pages it is, in their newest images, and no others.
//!
//! Otherwise there are also the images of pages that were freed, whose slots were not used
//! again. They are told by the fences: at any time the leaves of a table tile its key space, and whoever takes keys over
//! from another leaf does so in a record that sets its page LSN. So wherever a freed page's image overlaps a living page,
//! the living page's LSN is higher, and a page is dropped if a higher one overlaps it.
//!
//! What cannot be told then:
//! - leaves of dropped tables (nothing overlaps them): the catalog knows, and table ids are not used again (`db/catalog.rs`);
//! - a freed page whose keys nobody else has on disk, since the leaf that absorbed it was not written yet. After
//!   [`Pool::flush_all`](super::Pool::flush_all) there are none;
//! - a leaf that was split from one whose image is still that from before: this one looks like a freed page;
//! - log incarnations and the redo LSN, which are not in the leaves.

use super::directory_entry::PageEntry;
use super::leaf_file::LeafFile;
use super::size::SizeClass;
use crate::error::{Error, Result};
use crate::log::POSITIONS;
use crate::page::{Image, verify_any};
use foreshore_base::{PageId, SlotId, TableId};
use foreshore_io::Vfs;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A page with its upper bound, which the directory does not keep.
struct Found {
    entry: PageEntry,
    /// `None` = no bound.
    high_key: Option<Vec<u8>>,
}

/// Reads every slot of the leaf files; `own_bytes` is the database's own leaf size, `known` the pages that the directory knows, if it
/// can be read. Returns the newest image of every living page, by ascending id. Writes nothing.
///
/// Errors: `Corrupt` if the file of the database's own size is missing; `Io`. Slots that hold no valid image are passed
/// over: never used, torn, or damaged.
pub(crate) fn rebuild(
    vfs: &dyn Vfs,
    own_bytes: usize,
    known: Option<&[PageEntry]>,
) -> Result<Vec<PageEntry>> {
    let known = known.map(|pages| pages.iter().map(|page| page.pid).collect::<HashSet<_>>());
    let (mut pages, mut tables) = (Vec::new(), BTreeMap::<TableId, Vec<Found>>::new());
    for class in SizeClass::on_disk(vfs)? {
        for found in newest_images(vfs, class, own_bytes)?.into_values() {
            match &known {
                Some(known) => pages.extend(known.contains(&found.entry.pid).then_some(found.entry)),
                None => tables.entry(found.entry.table).or_default().push(found),
            }
        }
    }
    let tiles = tables.into_values().flat_map(|pages| living(pages).into_values());
    pages.extend(tiles.map(|found| found.entry));
    pages.sort_unstable_by_key(|page| page.pid);
    Ok(pages)
}

/// The newest image of each page of this class that has one.
fn newest_images(vfs: &dyn Vfs, class: SizeClass, own_bytes: usize) -> Result<HashMap<PageId, Found>> {
    let leaves = LeafFile::open(vfs, class, class.bytes(own_bytes), 0, false)?;
    let mut newest: HashMap<PageId, Found> = HashMap::new();
    for slot in (0..leaves.slots()?).map(SlotId) {
        let image = match leaves.read(slot) {
            Ok(image) => image,
            Err(error @ Error::Io { .. }) => return Err(error),
            Err(_) => continue,
        };
        if let Some(found) = parse(&image, slot)
            && SizeClass::of(found.entry.pid) == Some(class)
            && newest.get(&found.entry.pid).is_none_or(|known| known.entry.lsn < found.entry.lsn)
        {
            newest.insert(found.entry.pid, found);
        }
        leaves.recycle(image);
    }
    Ok(newest)
}

fn parse(image: &[u8], slot: SlotId) -> Option<Found> {
    let pid = verify_any(image).ok()?;
    let image = Image(image);
    let low_key = image.low_fence()?.to_vec();
    let high_key = image.high_fence()?.map(<[u8]>::to_vec);
    if image.lsn().0 >= POSITIONS {
        return None; // the directory could not say it
    }
    Some(Found { entry: PageEntry { pid, slot, lsn: image.lsn(), table: image.table(), low_key }, high_key })
}

/// Newest first, each page that overlaps none taken before; by low key.
fn living(mut pages: Vec<Found>) -> BTreeMap<Vec<u8>, Found> {
    pages.sort_unstable_by_key(|found| std::cmp::Reverse(found.entry.lsn));
    let mut tiles: BTreeMap<Vec<u8>, Found> = BTreeMap::new();
    for found in pages {
        if !overlaps(&tiles, &found) {
            tiles.insert(found.entry.low_key.clone(), found);
        }
    }
    tiles
}

fn overlaps(tiles: &BTreeMap<Vec<u8>, Found>, found: &Found) -> bool {
    let low = &found.entry.low_key;
    let before = tiles.range(..=low.clone()).next_back();
    let reaches_in = before.is_some_and(|(at, tile)| at == low || ends_after(tile, low));
    let next = tiles.range(low.clone()..).next();
    reaches_in || next.is_some_and(|(at, _)| ends_after(found, at))
}

fn ends_after(found: &Found, key: &[u8]) -> bool {
    found.high_key.as_ref().is_none_or(|high| high.as_slice() > key)
}
