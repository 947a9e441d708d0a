//! Tables of buffer pools: in which frame is a page, and what keeps it there while somebody reads it?
//!
//! Source: Shore-MT (Johnson et al., EDBT 2009), §6.2.1, §6.2.3 and §7.2. Three tables are its generations: chains under
//! [`OneMutex`], chains with a [`MutexPerBucket`], and a [`Cuckoo`] table whose pages are pinned without a latch if somebody
//! has them pinned. The fourth, [`Flat`], is how Foreshore does without pins.
//!
//! Differs: nothing is read from a disk; a page is brought in when its number is in its frame. There are no lists of pages in
//! transit: who brings in a page that another thread has just brought in finds that out at the end, and keeps the frame.
//! The clock gives no second chance; its hand is a counter, and passes by pinned pages.
//!
//! Invariants:
//! - B1: a page is in one frame at most, and a frame holds one page at most.
//! - B2: a fixed page stays in its frame; where there are no pins, who read it is told whether it did.
//! - B3: what a frame holds is changed only by whoever has its [`Spare`].

mod chained;
mod cuckoo;
mod flat;
#[cfg(test)]
mod tests;

use crate::wait::Patience;
pub use chained::{Chained, Chains, MutexPerBucket, OneMutex};
use crossbeam_utils::CachePadded;
pub use cuckoo::Cuckoo;
pub use flat::Flat;
use foreshore_base::{FrameId, NodeLatch, PageId};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Mutex, MutexGuard};

/// Finds pages in frames.
pub trait BufferTable: Sync {
    /// Its name on charts.
    const NAME: &str;
    /// Does a fixed page stay where it is (B2)?
    const PINS: bool;
    /// An empty one, for pages `1..=pages`.
    fn new(frames: Frames, pages: u64) -> Self;
    /// The frames that it finds.
    fn frames(&self) -> &[CachePadded<Frame>];
    /// Fixes `page`; `None` if it is in no frame, or was on its way to another place in the table just now.
    fn fix(&self, page: PageId) -> Option<Fixed>;
    /// Gives the page back. May what was read of it be believed?
    fn unfix(&self, fixed: Fixed) -> bool;
    /// Brings `page` into a frame. What is left over: nothing, the frame of a page that had to make room, or the same frame,
    /// if the page is in another one already or the table has no place for it.
    fn load(&self, page: PageId, spare: Spare) -> Option<Spare>;
    /// Takes `page` out of its frame; `None` if it is in none, or in use.
    fn evict(&self, page: PageId) -> Option<Spare>;
    /// Which page is where, while nobody uses the table.
    fn entries(&self) -> Vec<(PageId, FrameId)>;

    /// Reads a fixed page, which here consists of its own number.
    #[inline]
    fn read(&self, fixed: &Fixed) -> u64 {
        self.frames()[fixed.frame.0 as usize].content.load(Relaxed)
    }
}

/// The frames of a pool.
pub type Frames = Box<[CachePadded<Frame>]>;

/// Holds a page, or none yet. Its memory is never used for anything else, so whoever comes too late finds a frame still.
#[derive(Default)]
pub struct Frame {
    page: AtomicU64,
    content: AtomicU64,
    /// How many have the page fixed; not used by [`Flat`].
    pins: AtomicU32,
    /// Whose version says whether the page has changed; used by [`Flat`] alone.
    latch: NodeLatch,
}

impl Frame {
    /// The page that it holds, or held last; [`PageId::NONE`] if none.
    #[inline]
    fn page(&self) -> PageId {
        PageId(self.page.load(Relaxed))
    }

    /// What stands for reading `page` from a disk.
    fn fill(&self, page: PageId) {
        self.content.store(page.0, Relaxed);
        self.page.store(page.0, Relaxed);
    }
}

/// A page that is fixed, until it is given to [`BufferTable::unfix`].
#[must_use]
#[derive(Debug)]
pub struct Fixed {
    page: PageId,
    frame: FrameId,
    /// The frame's latch word at that time, if there are no pins.
    version: u64,
}

/// A frame that holds no page, and the right to fill it (B3).
#[must_use]
#[derive(Debug)]
pub struct Spare(FrameId);

/// A table, and frames for the pages that it lacks.
pub struct Pool<T> {
    table: T,
    spares: Mutex<Vec<Spare>>,
    /// The clock's.
    hand: CachePadded<AtomicUsize>,
}

impl<T: BufferTable> Pool<T> {
    /// How often a page is brought in that is gone, or refused, before it can be fixed.
    const ATTEMPTS: usize = 8;

    /// An empty pool, for pages `1..=pages`.
    pub fn new(frames: usize, pages: u64) -> Self {
        Self::over(T::new(new_frames(frames), pages))
    }

    fn over(table: T) -> Self {
        let spares = (0..table.frames().len() as u32).map(|frame| Spare(FrameId(frame))).collect();
        Self { table, spares: Mutex::new(spares), hand: CachePadded::new(AtomicUsize::new(0)) }
    }

    /// Fixes `page`, which is brought in if need be. `None` if there seems to be no room: too many pages are pinned, or all
    /// that could make room for this one in the table.
    #[inline]
    pub fn fix(&self, page: PageId) -> Option<Fixed> {
        self.table.fix(page).or_else(|| self.bring_in(page))
    }

    /// Gives the page back. May what was read of it be believed?
    #[inline]
    pub fn unfix(&self, fixed: Fixed) -> bool {
        self.table.unfix(fixed)
    }

    /// What `page` says. The caller has nothing fixed: others will make room.
    #[inline]
    pub fn read(&self, page: PageId) -> u64 {
        let mut patience = Patience::default();
        loop {
            if let Some(fixed) = self.fix(page) {
                let read = self.table.read(&fixed);
                if self.unfix(fixed) {
                    return read;
                }
            }
            patience.wait();
        }
    }

    #[cold]
    fn bring_in(&self, page: PageId) -> Option<Fixed> {
        for _ in 0..Self::ATTEMPTS {
            let spare = self.spare()?;
            if let Some(left_over) = self.table.load(page, spare) {
                self.spares().push(left_over);
            }
            let fixed = self.table.fix(page);
            if fixed.is_some() {
                return fixed;
            }
        }
        None
    }

    /// A frame for another page: one left over, or the next whose page nobody uses.
    fn spare(&self) -> Option<Spare> {
        let left_over = self.spares().pop();
        left_over.or_else(|| {
            let frames = self.table.frames();
            let next = || frames[self.hand.fetch_add(1, Relaxed) % frames.len()].page();
            // Others turn the hand too, so one lap might not be all frames.
            let pages = (0..2 * frames.len()).map(|_| next());
            pages.filter(|page| !page.is_none()).find_map(|page| self.table.evict(page))
        })
    }

    fn spares(&self) -> MutexGuard<'_, Vec<Spare>> {
        self.spares.lock().expect("no holder panics")
    }

    /// Walks it while nobody uses it, and says what is wrong: pages or frames twice, frames lost, pages still pinned.
    pub fn check(&self) -> Result<(), String> {
        let entries = self.table.entries();
        let frames = self.table.frames();
        let (mut pages, mut seen) = (HashSet::new(), HashSet::new());
        for &(page, frame) in &entries {
            let holds = &frames[frame.0 as usize];
            if !pages.insert(page) || !seen.insert(frame) {
                return Err(format!("B1: page {page} or frame {frame} is there twice"));
            }
            if holds.page() != page || holds.content.load(Relaxed) != page.0 {
                return Err(format!("B3: frame {frame} holds {} and not page {page}", holds.page()));
            }
        }
        if let Some(at) = frames.iter().position(|frame| frame.pins.load(Relaxed) != 0) {
            return Err(format!("B2: frame {at} is still pinned"));
        }
        let spares = self.spares();
        if !spares.iter().all(|spare| seen.insert(spare.0)) || seen.len() != frames.len() {
            return Err(format!(
                "B3: {} pages, {} spares, {} frames",
                entries.len(),
                spares.len(),
                frames.len()
            ));
        }
        Ok(())
    }
}

fn new_frames(count: usize) -> Frames {
    (0..count).map(|_| CachePadded::default()).collect()
}
