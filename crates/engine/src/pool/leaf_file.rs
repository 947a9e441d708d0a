//! A leaf file: the slots of the leaves of one size, written in long runs, read one by one or side by side.

use super::size::SizeClass;
use super::slots::{EXTENT_SLOTS, Slots};
use super::table::SLOTS_MAX;
use crate::error::{Error, Result};
use crate::file_names;
use foreshore_base::sync::{AtomicU64, Ordering::Relaxed};
use foreshore_base::{SlotId, seeded_bug};
use foreshore_io::{Access, AlignedBuf, File, Vfs};
use parking_lot::Mutex;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// A share of the slots (1/16) stays free where the disk allows it, so that free extents are found.
const SPARE_SHARE: u64 = 16;

/// A file grows by a share of its size, but not by more than what is missing or this: so a disk is not full for a large file while
/// it has more space than that.
const STEP_BYTES_MAX: u64 = 1 << 30;

/// The file, and buffers to read it into.
pub(super) struct LeafFile {
    name: &'static str,
    file: Arc<dyn File>,
    page_bytes: usize,
    grow_bytes: u64,
    buffers: Mutex<Vec<AlignedBuf>>,
    /// For many slots at once.
    long_buffers: Mutex<Vec<AlignedBuf>>,
}

/// Slots that are read together, at most.
pub(super) const SLOTS_TOGETHER: usize = 64;

/// Bytes of neighbouring slots that are read in one piece, at most: what lies in several pieces is there sooner.
const RUN_BYTES: usize = 64 << 10;

/// Buffers for many slots that are kept for the next reads.
const LONG_BUFFERS_KEPT: usize = 8;

/// How many pages there may be: every page is promised a slot when it is allocated, beside a round's worth of slots
/// for the new images of pages that keep their old ones meanwhile. So cleaning never needs more disk than it has: on a
/// full disk new pages are refused, while the existing ones can be changed and cleaned for ever.
///
/// ORDERING: Relaxed. Of two who promise, the later one counts the earlier one's page; and a capacity that has grown since is at worst
/// taken for too small, which is looked at again with the lock under which it grows.
pub(super) struct SlotRoom {
    pages: AtomicU64,
    capacity: AtomicU64,
    /// With more pages than that it is time to let the file grow.
    plenty: AtomicU64,
    headroom: u64,
}

impl SlotRoom {
    /// For a file without slots, `pages` pages, and rounds of `headroom` pages.
    pub fn new(pages: u64, headroom: u64) -> Self {
        Self {
            pages: AtomicU64::new(pages),
            capacity: AtomicU64::new(0),
            plenty: AtomicU64::new(0),
            headroom,
        }
    }

    /// One page more.
    pub fn promise(&self) {
        self.pages.fetch_add(1, Relaxed);
    }

    /// How many slots the file is short of, if it is.
    pub fn missing(&self) -> Option<u64> {
        let needed = self.pages() + self.headroom;
        needed.checked_sub(self.capacity.load(Relaxed)).filter(|missing| *missing > 0)
    }

    /// Is it time to let the file grow, so that nobody will have to wait for it?
    pub fn is_low(&self) -> bool {
        self.pages() > self.plenty.load(Relaxed)
    }

    /// The file could not grow: that is tried again for who needs the slots.
    pub fn stay_low(&self) {
        self.plenty.store(u64::MAX, Relaxed);
    }

    /// Has growth failed that nobody needed yet?
    fn stays_low(&self) -> bool {
        self.plenty.load(Relaxed) == u64::MAX
    }

    /// The file has `capacity` slots, and will grow by `step`: soon once it has fewer free, but a small file keeps small.
    fn set_capacity(&self, capacity: u64, step: u64) {
        self.capacity.store(capacity, Relaxed);
        let ahead = step.min(capacity / 8);
        self.plenty.store(capacity.saturating_sub(self.headroom + ahead), Relaxed);
    }

    /// How many pages there are.
    pub fn pages(&self) -> u64 {
        self.pages.load(Relaxed)
    }

    /// One page less.
    pub fn give_back(&self) {
        self.pages.fetch_sub(1, Relaxed);
    }
}

impl LeafFile {
    /// Opens the file of a class, and waits for what a killed owner's [`LeafFile::write`] has left under way. `create` says that it may
    /// be absent, and then makes its name durable. After `Poisoned` it is unknown whether it is.
    pub fn open(
        vfs: &dyn Vfs,
        class: SizeClass,
        page_bytes: usize,
        grow_bytes: u64,
        create: bool,
    ) -> Result<Self> {
        let name = class.file();
        let is_new = create && !file_names::list(vfs)?.iter().any(|there| there == name);
        let opened = vfs.open(name, Access::Direct, create);
        let at_rest = opened.and_then(|file| file.await_rest().map(|()| file));
        let file = at_rest.map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => Error::corrupt(name, "it is missing"),
            _ => Error::io(format!("opening {name}"), &e),
        })?;
        if create && !seeded_bug("leaf_file_name_not_durable") {
            vfs.sync_dir().map_err(|e| {
                if is_new {
                    let _ = vfs.remove(name); // N1 in `dir_syncs.rs`
                }
                Error::Poisoned { cause: format!("syncing the name {name}: {e}") }
            })?;
        }
        let leaves = Self {
            name,
            file,
            page_bytes,
            grow_bytes,
            buffers: Mutex::default(),
            long_buffers: Mutex::default(),
        };
        // In a copied database it may have holes, whose place others may take; where it was cut, the rest of its last extent is missing.
        // Without space it can be read all the same, but for what lies in that extent (`Pool::open`).
        let bytes = leaves.offset(leaves.whole_slots()?.next_multiple_of(EXTENT_SLOTS));
        match leaves.file.allocate(bytes).map_err(|e| Error::io(format!("the free slots of {name}"), &e)) {
            Ok(()) | Err(Error::Full { .. }) => Ok(leaves),
            Err(error) => Err(error),
        }
    }

    /// The file's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// How many slots the file has room for, in whole extents, as far as they can be numbered.
    pub fn slots(&self) -> Result<u64> {
        Ok(self.whole_slots()? / EXTENT_SLOTS * EXTENT_SLOTS)
    }

    /// The same with those of an extent that is not all there, as where the file was cut.
    pub fn whole_slots(&self) -> Result<u64> {
        let bytes =
            self.file.len().map_err(|e| Error::io(format!("asking for the length of {}", self.name), &e))?;
        Ok((bytes / self.page_bytes as u64).min(SLOTS_MAX / EXTENT_SLOTS * EXTENT_SLOTS))
    }

    fn offset(&self, slot: u64) -> u64 {
        slot * self.page_bytes as u64
    }

    /// Reads what is in a slot. Give the buffer back with [`LeafFile::recycle`].
    pub fn read(&self, slot: SlotId) -> Result<AlignedBuf> {
        let mut image = self.buffers.lock().pop().unwrap_or_else(|| AlignedBuf::zeroed(self.page_bytes));
        self.file.read_at(&mut image, self.offset(slot.0)).map_err(|e| self.unreadable(slot, &e))?;
        Ok(image)
    }

    /// Are the reads of [`LeafFile::read_many`] under way at the same time?
    pub fn reads_side_by_side(&self) -> bool {
        self.file.reads_side_by_side()
    }

    /// Neighbours that are read in one piece, at most.
    pub fn run_slots(&self) -> usize {
        (RUN_BYTES / self.page_bytes).max(1)
    }

    /// Reads what is in these slots, which ascend and are no more than [`SLOTS_TOGETHER`], neighbours in one
    /// piece. Tells `arrived` of each, by its place among them, as soon as it is there.
    pub fn read_many(&self, slots: &[SlotId], mut arrived: impl FnMut(usize, Result<&[u8]>)) {
        let kept = self.long_buffers.lock().pop();
        let mut buffer = kept.unwrap_or_else(|| AlignedBuf::zeroed(SLOTS_TOGETHER * self.page_bytes));
        let (mut images, mut reads) = (&mut buffer[..], Vec::new());
        let runs = runs(slots, self.run_slots());
        for run in &runs {
            let (now, later) = images.split_at_mut(run.len() * self.page_bytes);
            images = later;
            reads.push((self.offset(slots[run.start].0), now));
        }
        self.file.read_many(&mut reads, &mut |i, read| {
            let mut images = read.map(|images| images.chunks(self.page_bytes));
            for at in runs[i].clone() {
                let image = images.as_mut().map(|images| images.next().expect("an image of each slot"));
                arrived(at, image.map_err(|e| self.unreadable(slots[at], e)));
            }
        });
        let mut kept = self.long_buffers.lock();
        if kept.len() < LONG_BUFFERS_KEPT {
            kept.push(buffer);
        }
    }

    fn unreadable(&self, slot: SlotId, e: &io::Error) -> Error {
        match e.kind() {
            io::ErrorKind::UnexpectedEof => Error::corrupt(self.name, format!("it ends before slot {slot}")),
            _ => Error::io(format!("reading slot {slot} of {}", self.name), e),
        }
    }

    /// Keeps a buffer for the next read.
    pub fn recycle(&self, image: AlignedBuf) {
        self.buffers.lock().push(image);
    }

    /// Takes `count` free slots; grows the file first, as far as the disk allows it, so that a share of it stays free. Where the
    /// disk was found full, that is tried again only when there are too few slots: to try takes all the space for a moment.
    ///
    /// Errors: `Full` if neither file nor disk have so many, which [`SlotRoom`] rules out for pages that were allocated in
    /// this run and before it.
    pub fn take(&self, slots: &mut Slots, room: &SlotRoom, count: u64) -> Result<Vec<Range<u64>>> {
        let (free, wanted) = (slots.free(), count + slots.capacity() / SPARE_SHARE);
        if free < count || (free < wanted && !room.stays_low()) {
            match self.grow(slots, room, wanted - free) {
                Err(Error::Full { .. }) if free >= count => room.stay_low(),
                result => result?,
            }
        }
        Ok(slots.take(count).expect("there are enough, or growth failed"))
    }

    /// Makes the file longer by at least `missing` slots.
    pub fn grow(&self, slots: &mut Slots, room: &SlotRoom, missing: u64) -> Result<()> {
        let least = self.step(slots.capacity());
        let capacity = (slots.capacity() + missing.max(least)).next_multiple_of(EXTENT_SLOTS);
        self.file.allocate(self.offset(capacity)).map_err(|e| {
            Error::io(format!("{} more bytes of {}", self.offset(capacity - slots.capacity()), self.name), &e)
        })?;
        slots.grow(capacity);
        self.tell(room, capacity);
        Ok(())
    }

    /// Tells `room` how many slots there are.
    pub fn tell(&self, room: &SlotRoom, capacity: u64) {
        room.set_capacity(capacity, self.step(capacity));
    }

    /// By how many slots a file of `capacity` slots grows at least.
    pub fn step(&self, capacity: u64) -> u64 {
        let slots = |bytes| bytes / self.page_bytes as u64;
        slots(self.grow_bytes).max((capacity / SPARE_SHARE).min(slots(STEP_BYTES_MAX)))
    }

    /// Writes consecutive images to the slots of `runs`, all runs at the same time.
    pub fn write(&self, images: &[u8], runs: &[Range<u64>]) -> Result<()> {
        let mut images = images;
        let writes: Vec<_> = runs
            .iter()
            .map(|run| {
                let (now, later) = images.split_at((run.end - run.start) as usize * self.page_bytes);
                images = later;
                (self.offset(run.start), now)
            })
            .collect();
        self.file.write_many(&writes).map_err(|e| Error::io(format!("writing slots of {}", self.name), &e))
    }

    /// Makes all written slots durable.
    pub fn sync(&self) -> Result<()> {
        self.file.sync().map_err(|e| Error::Poisoned { cause: format!("syncing {}: {e}", self.name) })
    }
}

/// Where neighbours are among these slots, up to so many together.
fn runs(slots: &[SlotId], slots_max: usize) -> Vec<Range<usize>> {
    let mut at = 0;
    let neighbours = slots.chunk_by(|slot, next| next.0 == slot.0 + 1);
    let runs = neighbours.flat_map(|neighbours| neighbours.chunks(slots_max)).map(|run| {
        at += run.len();
        at - run.len()..at
    });
    runs.collect()
}

#[cfg(test)]
mod tests {
    use super::super::Pool;
    use super::super::directory::Directory;
    use super::super::directory_entry::PageEntry;
    use super::super::testing::{FakeWal, PAGE_BYTES, TABLE, options};
    use super::*;
    use foreshore_base::{Lsn, PageId};
    use foreshore_io::SimDisk;

    /// What lies before the cut waits for the rest of its extent on a full disk. Only what lay behind it is gone.
    #[test]
    fn a_file_that_was_cut_within_an_extent_needs_space() {
        let disk = SimDisk::new(1);
        let directory = Arc::new(Directory::create(Arc::new(disk.clone())).unwrap());
        let file = disk.open("leaves.db", Access::Direct, true).unwrap();
        file.allocate((EXTENT_SLOTS + 3) * PAGE_BYTES as u64).unwrap();
        disk.set_capacity(disk.used_bytes());
        let open = |slot| {
            let (pid, slot, lsn) = (PageId(SizeClass::OWN.base().0 + 1), SlotId(slot), Lsn(8));
            let page = PageEntry { pid, slot, lsn, table: TABLE, low_key: Vec::new() };
            Pool::open(&disk, &options(64, 8), Arc::new(FakeWal::default()), directory.clone(), &[page])
        };
        open(EXTENT_SLOTS - 1).expect("its extent is all there");
        let refused = open(EXTENT_SLOTS + 2).map(drop);
        assert!(matches!(refused, Err(Error::Full { .. })), "{refused:?}");
        let refused = open(EXTENT_SLOTS + 3).map(drop);
        assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
        disk.set_capacity(u64::MAX);
        open(EXTENT_SLOTS + 2).expect("there is space for the rest");
    }

    #[test]
    fn neighbours_are_read_in_one_piece() {
        let runs = |slots: &[u64], most| runs(&slots.iter().copied().map(SlotId).collect::<Vec<_>>(), most);
        assert_eq!(runs(&[], 8), []);
        assert_eq!(runs(&[5, 6, 7, 9, 20, 21], 8), [0..3, 3..4, 4..6]);
        assert_eq!(runs(&[5, 6, 7, 8, 9], 2), [0..2, 2..4, 4..5]);
    }
}
