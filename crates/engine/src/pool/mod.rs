//! The buffer pools: pages in memory, and their way to disk and back.
//!
//! Why: data may be larger than memory, yet a page in memory must cost a reader one load to find and no write at all.
//! Source: Shore-MT §6–7 (clock released before I/O, background cleaner, oldest LSN from the cleaner, extents of 8).
//! Differs: a flat page table instead of a hash table with pins; leaves are written out of place, and a directory
//! journal says where they are.
//!
//! There is one [`Pool`] for each size of leaves, with frames, file and cleaner of its own; [`Pools`] has them all.
//!
//! | file | concept |
//! |---|---|
//! | `size`, `pools` | which size a page has; the pools of all sizes, and their shares of the cache |
//! | `table` | page id → where the page is |
//! | `arena`, `frames` | memory of the frames; which of them are dirty |
//! | `load`, `ahead` | the way in: a page that is only on disk; pages that will be needed soon |
//! | `clock` | the way out: free frames, the hand, eviction |
//! | `allocate`, `page_ids` | new pages, and the end of pages; which ids are free |
//! | `clean`, `cleaner` | dirty pages to fresh slots; the thread that does it |
//! | `leaf_file`, `slots` | a file of slots, and which of them are free |
//! | `directory`, `directory_entry`, `journal` | page → slot, durably |
//! | `promises` | the space that the directory will need |
//! | `rebuild` | the directory's contents from the leaves alone |
//!
//! How a page is used: [`Pool::page`] gives its frame. Read it optimistically, or latch it, and *then* check that
//! `page.id()` still is the one wanted: until latch or validation nothing keeps the frame from being given to another
//! page. Before a change, under the latch and before its log record is reserved, call [`Pool::before_change`].
//!
//! Invariant (beside those of the files; rules 2 and 3 of `ARCHITECTURE.md` are C1 and C2 in `clean.rs`):
//! - M1 (rule 9): [`Pool::page`] of a page that is resident and in use writes nothing.

mod ahead;
mod allocate;
mod arena;
mod clean;
mod cleaner;
mod clock;
mod directory;
mod directory_entry;
#[cfg(test)]
mod directory_faults;
mod frames;
mod journal;
mod leaf_file;
mod load;
mod page_ids;
mod pools;
mod promises;
mod rebuild;
mod size;
mod slots;
mod table;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub(crate) use ahead::Share;
pub(crate) use allocate::NewPage;
pub(crate) use directory::{Directory, Loaded};
pub(crate) use directory_entry::{Entry as DirectoryEntry, PageEntry};
pub(crate) use pools::Pools;
pub(crate) use rebuild::rebuild;
pub(crate) use size::{ByPage, SizeClass};

use crate::error::{Error, Result};
use crate::page::Page;
use crate::waits::{Meter, Wait, lock_or_wait};
use ahead::Ahead;
use allocate::Dead;
use clean::Cleaning;
use cleaner::Pace;
use clock::FreeFrames;
use foreshore_base::sync::{AtomicU64, Ordering::*};
use foreshore_base::{FrameId, Lsn, PageId};
use foreshore_io::Vfs;
use frames::Frames;
use leaf_file::{LeafFile, SlotRoom};
use load::Transit;
use page_ids::PageIds;
use parking_lot::Mutex;
use slots::Slots;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use table::{Entry, FRAMES_MAX, PageTable, State};

/// Is this a leaf file, or one of the directory?
pub(crate) fn is_file(name: &str) -> bool {
    SizeClass::all().any(|class| class.file() == name) || directory::is_file(name)
}

/// Header and first slots: what [`Pool::prefetch`] fetches, beside the fences at the end of the page.
const PREFETCH_BYTES: usize = 256;

/// What the pool asks of the log.
pub(crate) trait Wal: Send + Sync {
    /// Returns once all records that end at or before `lsn` are durable; sees to it that they become so. Called with
    /// nothing latched. Errors: `Poisoned` if they never will be.
    fn wait_durable(&self, lsn: Lsn) -> Result<()>;
    /// Where the next record will begin. Loaded with Acquire from the counter that reserving adds to with AcqRel.
    fn reserved(&self) -> Lsn;
    /// Refuses all further commits, since pages can no longer be written.
    fn poison(&self, cause: &Error);
    /// Gives back what disk space it keeps only to be fast; `false` if there was none.
    fn give_space(&self) -> bool;
}

/// Tries what needs disk space; on a full disk once more, after the log has given up its spare files. `Full` must leave
/// everything as it was.
pub(crate) fn with_space<T>(wal: &dyn Wal, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    match attempt() {
        Err(Error::Full { .. }) if wal.give_space() => attempt(),
        result => result,
    }
}

/// How a pool is made.
#[derive(Clone, Debug)]
pub(crate) struct PoolOptions {
    /// Of which size its pages are.
    pub class: SizeClass,
    /// Bytes of a page and of a slot: a multiple of 4096.
    pub page_bytes: usize,
    /// Bytes of all frames together.
    pub cache_bytes: usize,
    /// At most this many pages are written per round of the cleaner; no more than a quarter of the frames.
    pub batch_pages: usize,
    /// The leaf file grows by at least this many bytes at a time.
    pub grow_bytes: u64,
}

impl PoolOptions {
    /// The usual choice: rounds of 4 MiB, growth by 8 MiB.
    pub fn new(class: SizeClass, page_bytes: usize, cache_bytes: usize) -> Self {
        Self { class, page_bytes, cache_bytes, batch_pages: (4 << 20) / page_bytes, grow_bytes: 8 << 20 }
    }

    fn frames(&self) -> Result<usize> {
        let frames = self.cache_bytes / self.page_bytes;
        if frames > FRAMES_MAX {
            let max = FRAMES_MAX * self.page_bytes;
            return Err(Error::Argument(format!("the cache can have {max} bytes at most")));
        }
        Ok(frames)
    }
}

/// The buffer pool of the pages of one size. See the module's documentation.
pub(crate) struct Pool {
    class: SizeClass,
    table: PageTable,
    frames: Frames,
    free: FreeFrames,
    ids: Mutex<PageIds>,
    leaves: LeafFile,
    room: SlotRoom,
    directory: Arc<Directory>,
    wal: Arc<dyn Wal>,
    transit: Transit,
    ahead: Ahead,
    /// Pages that are no more, but still named by the directory.
    dead: Mutex<VecDeque<Dead>>,
    /// At most so many pages are written per round.
    batch_pages: usize,
    /// Whoever holds this cleans; one round at a time.
    cleaning: Mutex<Cleaning>,
    /// Why there will be no more rounds.
    failed: OnceLock<Error>,
    pace: Pace,
    counters: Counters,
    waits: Waits,
}

/// What threads wait for here.
#[derive(Default)]
struct Waits {
    /// For the cleaner to provide a frame.
    frame: Meter,
    /// For a leaf file to grow.
    growth: Meter,
    /// For a page to be read.
    read: Meter,
}

/// Events on slow paths.
#[derive(Default)]
struct Counters {
    loads: AtomicU64,
    ahead: AtomicU64,
    ahead_used: AtomicU64,
    evictions: AtomicU64,
    cleaned: AtomicU64,
}

/// What the pool has done and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PoolStats {
    /// Frames in all.
    pub frames: u64,
    /// Frames that hold no page.
    pub frames_free: u64,
    /// Frames whose page has changes that its durable image lacks.
    pub frames_dirty: u64,
    /// Pages read from disk.
    pub loads: u64,
    /// Those of them that were read ahead.
    pub ahead: u64,
    /// Those of these that their walk then came to.
    pub ahead_used: u64,
    /// Pages that left memory.
    pub evictions: u64,
    /// Pages written.
    pub cleaned: u64,
    /// Bytes of the leaf file.
    pub file_bytes: u64,
    /// Pages that exist.
    pub pages: u64,
}

impl PoolStats {
    /// Of two pools together.
    fn plus(self, other: Self) -> Self {
        Self {
            frames: self.frames + other.frames,
            frames_free: self.frames_free + other.frames_free,
            frames_dirty: self.frames_dirty + other.frames_dirty,
            loads: self.loads + other.loads,
            ahead: self.ahead + other.ahead,
            ahead_used: self.ahead_used + other.ahead_used,
            evictions: self.evictions + other.evictions,
            cleaned: self.cleaned + other.cleaned,
            file_bytes: self.file_bytes + other.file_bytes,
            pages: self.pages + other.pages,
        }
    }
}

/// A page's frame. Nothing keeps the page there: see the module's documentation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FramePage<'a> {
    /// The frame.
    pub frame: FrameId,
    /// Its memory.
    pub page: Page<'a>,
}

impl Pool {
    /// Opens the leaf file, creating it if `pages` is empty, for a database whose directory says that these pages
    /// of this size exist. Without a running [cleaner](cleaner), whoever needs a frame cleans for itself.
    ///
    /// Errors: `Corrupt` if two pages share a slot or a slot lies behind the end of the file; `Full` if one lies in an extent that was
    /// cut, and there is no space for the rest of it; `Argument` for a cache of too many frames; `Io`.
    fn open(
        vfs: &dyn Vfs,
        options: &PoolOptions,
        wal: Arc<dyn Wal>,
        directory: Arc<Directory>,
        pages: &[PageEntry],
    ) -> Result<Self> {
        let count = options.frames()?;
        let batch_pages = options.batch_pages.clamp(1, count / 4);
        let leaves =
            LeafFile::open(vfs, options.class, options.page_bytes, options.grow_bytes, pages.is_empty())?;
        let (mut slots, whole_slots) = (Slots::new(leaves.slots()?), leaves.whole_slots()?);
        let table = PageTable::new(options.class);
        for page in pages {
            if !slots.occupy(page.slot) {
                if (slots.capacity()..whole_slots).contains(&page.slot.0) {
                    // The page is there; but the file was cut, and found no space for the rest of this extent.
                    let what = format!("the end of {}, which was cut off", leaves.name());
                    return Err(Error::Full { what });
                }
                let detail = format!("slot {} of page {} is taken or behind the end", page.slot, page.pid);
                return Err(Error::corrupt("leaf directory", detail));
            }
            table.prepare(page.pid);
            table.publish(page.pid, Entry::on_disk(page.slot));
        }
        let room = SlotRoom::new(pages.len() as u64, batch_pages as u64);
        leaves.tell(&room, slots.capacity());
        let memory = |e| {
            Error::io(
                format!("mapping a cache of {} bytes (set a smaller cache_bytes)", options.cache_bytes),
                &e,
            )
        };
        Ok(Self {
            class: options.class,
            table,
            frames: Frames::new(count, options.page_bytes).map_err(memory)?,
            free: FreeFrames::new(count),
            ids: Mutex::new(PageIds::new(options.class, pages.iter().map(|page| page.pid))),
            leaves,
            room,
            directory,
            wal,
            transit: Transit::default(),
            ahead: Ahead::default(),
            dead: Mutex::default(),
            batch_pages,
            cleaning: Mutex::new(Cleaning::new(slots, batch_pages * options.page_bytes)),
            failed: OnceLock::new(),
            pace: Pace::default(),
            counters: Counters::default(),
            waits: Waits::default(),
        })
    }

    /// Where threads waited for the pool.
    pub fn waits(&self) -> [Wait; 3] {
        let Waits { frame, growth, read } = &self.waits;
        [frame.read("free frame"), growth.read("leaf file growth"), read.read("page read")]
    }

    /// The frame of a page, read from disk if need be. `None` if there is no such page.
    ///
    /// May wait for I/O, so not under a latch. Errors: `Corrupt` if the image is not what was written; `Io`; what
    /// keeps the cleaner from providing a frame.
    #[inline]
    pub fn page(&self, pid: PageId) -> Result<Option<FramePage<'_>>> {
        match self.table.load(pid).hot() {
            Some(frame) => Ok(Some(self.frame_page(frame))),
            None => self.page_slow(pid),
        }
    }

    /// The same, for a page that is going to be changed. Where nothing is cleaned any more that is refused, and none is read for it, unless
    /// somebody waits for a frame already: the few frames that there are then are for those who read.
    #[inline]
    pub fn page_to_change(&self, pid: PageId) -> Result<Option<FramePage<'_>>> {
        match self.table.load(pid).hot() {
            Some(frame) => Ok(Some(self.frame_page(frame))),
            None => {
                self.ensure_cleaning()?;
                let found = self.page_slow(pid)?;
                self.ensure_cleaning().map(|()| found)
            }
        }
    }

    /// The frame of a page, if it is in memory. Never waits.
    #[inline]
    pub fn resident(&self, pid: PageId) -> Option<FramePage<'_>> {
        let entry = self.table.load(pid);
        match entry.hot() {
            Some(frame) => Some(self.frame_page(frame)),
            None => self.warm(pid, entry),
        }
    }

    /// Must the page be read before it can be used, and does nobody do that yet?
    #[inline]
    pub fn is_on_disk(&self, pid: PageId) -> bool {
        self.table.load(pid).is_on_disk()
    }

    /// Is there no such page?
    pub fn is_gone(&self, pid: PageId) -> bool {
        self.table.load(pid).state() == State::Free
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> usize {
        self.frames.page_bytes()
    }

    /// Fetches the first lines of a page into the processor's cache, if it is in memory. Says whether it is only on disk.
    #[inline]
    pub fn prefetch(&self, pid: PageId) -> bool {
        let entry = self.table.load(pid);
        let Some(frame) = entry.hot() else { return entry.is_on_disk() };
        let page = self.frames.page(frame).0;
        page.prefetch(0, PREFETCH_BYTES);
        page.prefetch(page.len() - 1, 1);
        false
    }

    #[inline]
    fn frame_page(&self, frame: FrameId) -> FramePage<'_> {
        FramePage { frame, page: self.frames.page(frame) }
    }

    /// Takes the clock's mark off a resident page.
    #[cold]
    fn warm(&self, pid: PageId, entry: Entry) -> Option<FramePage<'_>> {
        let State::Resident { frame, .. } = entry.state() else { return None };
        // If this fails, somebody else warmed it, it got a new slot, or it just left; the latch or the id will tell.
        self.table.change(pid, entry, entry.warmed());
        Some(self.frame_page(frame))
    }

    /// Says that the page in `frame` is about to be changed. Under its exclusive latch, and before the log record of
    /// the change is reserved.
    #[inline]
    pub fn before_change(&self, frame: FrameId) {
        self.frames.note_change(frame, || self.wal.reserved());
    }

    /// Fetches the word that [`Pool::before_change`] will look at.
    #[inline]
    pub fn prefetch_change(&self, pid: PageId) {
        if let Some(frame) = self.table.load(pid).hot() {
            self.frames.prefetch_change(frame);
        }
    }

    /// The same for redo: the record about to be applied begins at `lsn`.
    pub fn before_redo(&self, frame: FrameId, lsn: Lsn) {
        self.frames.note_change(frame, || lsn);
    }

    /// All records before the LSN returned are in the durable images of their pages.
    ///
    /// Nobody is stopped for this. Let R be the value of `reserved` loaded first. A record that begins before R took its
    /// bytes by a `fetch_add` (AcqRel) that our load (Acquire) comes after, through a chain of such additions; before
    /// that `fetch_add` its writer stored `rec_lsn`. So the scan sees that store, or what replaced it: `writing`
    /// (F3 in `frames.rs`), or nothing, if the image is durable by now. Its frame was handed out before that, so it is among those
    /// scanned. Records that begin at or after R are not claimed.
    pub fn oldest_rec_lsn(&self) -> Lsn {
        let reserved = self.wal.reserved();
        self.free.touched().filter_map(|frame| self.frames.redo_from(frame)).fold(reserved, Lsn::min)
    }

    /// What was done so far, and what there is now. Scans all frames that were ever used.
    pub fn stats(&self) -> PoolStats {
        // Between two rounds: within one there are pages that are not dead any more, and whose ids are not free yet.
        let cleaning = lock_or_wait(&self.cleaning);
        let slots = cleaning.slots.capacity();
        let dead = self.dead.lock().len() as u64; // first: who dies meanwhile is among those used
        let pages = self.ids.lock().used() - dead;
        drop(cleaning);
        PoolStats {
            frames: self.frames.count() as u64,
            frames_free: self.free.unused() as u64,
            frames_dirty: self.free.touched().filter(|f| self.frames.rec_lsn(*f).is_some()).count() as u64,
            loads: self.counters.loads.load(Relaxed),
            ahead: self.counters.ahead.load(Relaxed),
            ahead_used: self.counters.ahead_used.load(Relaxed),
            evictions: self.counters.evictions.load(Relaxed),
            cleaned: self.counters.cleaned.load(Relaxed),
            file_bytes: slots * self.page_bytes() as u64,
            pages,
        }
    }

    /// How many pages there are, or were and are about to be freed.
    pub fn pages_used(&self) -> u64 {
        self.room.pages()
    }

    /// Walks the table, and names the broken invariant. Nothing else may run meanwhile.
    #[cfg(test)]
    pub fn check(&self) -> Result<()> {
        let cleaning = self.cleaning.lock();
        let broken = |detail: String| Err(Error::corrupt("buffer pool", detail));
        let mut slots = Slots::new(cleaning.slots.capacity());
        for (pid, entry) in self.table.pages() {
            if let Some(slot) = entry.slot()
                && !slots.occupy(slot)
            {
                return broken(format!("S1: slot {slot} of page {pid} is also another page's"));
            }
            if let State::Resident { frame, slot, .. } = entry.state() {
                let found = self.frames.page(frame).id();
                if found != pid {
                    return broken(format!("T1: frame {frame} should hold page {pid}, not {found}"));
                }
                if slot.is_none() && self.frames.redo_from(frame).is_none() {
                    return broken(format!("F2: page {pid} is clean, but has no image"));
                }
            }
        }
        if slots.free() != cleaning.slots.free() {
            return broken(format!("S1: {} slots are free, not {}", slots.free(), cleaning.slots.free()));
        }
        Ok(())
    }
}
