//! The way out: free frames, the clock's hand, eviction.
//!
//! Why a clock: using a page needs no bookkeeping, except to take off a mark that the hand has set.
//! Source: Shore-MT §7.6: the hand is let go before a victim is latched, and before any I/O.
//! Differs: there is nothing to let go. The hand is a counter; each visitor takes the next frame. Nobody writes to disk
//! to get a frame: dirty pages wait for the cleaner, and a thread that finds no clean one waits for the cleaner's round.
//!
//! Rule 1: latches are only tried here.

use super::Pool;
use super::table::{Entry, State};
use crate::error::Result;
use foreshore_base::latch::assert_none_held;
use foreshore_base::sync::{AtomicU64, AtomicUsize, Ordering::*};
use foreshore_base::{FrameId, PageId, seeded_bug};
use parking_lot::Mutex;
use std::ops::Range;
use std::thread;
use std::time::Duration;

/// Frames that a thread in need of one looks at before it leaves the search to the cleaner.
const GLANCE: usize = 256;
/// The cleaner is called when less than one frame in this many is free, and goes on until twice as many are.
const LOW_SHARE: usize = 32;
/// Of the frames one in this many, up to `KEPT_MAX`, is kept back for when nothing can be cleaned any more: all others may hold
/// changes by then, and reads must go on.
const KEPT_SHARE: usize = 32;
const KEPT_MAX: usize = 8;
/// How often a thread looks for one of those, a millisecond apart.
const LOOKS: u64 = 100;

/// Frames that hold no page, and the hand that finds more.
pub(super) struct FreeFrames {
    free: Mutex<Free>,
    /// How many there are, to be read without the mutex.
    len: AtomicUsize,
    hand: AtomicU64,
    low: usize,
    /// Those that are kept back, or were.
    kept: Range<u32>,
}

struct Free {
    /// Those that held a page once. They go first: their memory is there.
    used: Vec<FrameId>,
    /// Those that never did.
    fresh: Range<u32>,
}

impl Free {
    fn len(&self) -> usize {
        self.used.len() + self.fresh.len()
    }
}

impl FreeFrames {
    /// All of `count` frames are free, but for a few that are kept back.
    pub fn new(count: usize) -> Self {
        let given = count - (count / KEPT_SHARE).clamp(1, KEPT_MAX);
        Self {
            free: Mutex::new(Free { used: Vec::new(), fresh: 0..given as u32 }),
            len: AtomicUsize::new(given),
            hand: AtomicU64::new(0),
            low: (count / LOW_SHARE).max(2),
            kept: given as u32..count as u32,
        }
    }

    /// How many there are to be had.
    pub fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    /// How many there are with those that are kept back, which hold no page either.
    pub fn unused(&self) -> usize {
        let free = self.free.lock();
        free.used.len() + (free.fresh.start..self.kept.end).len()
    }

    /// Those that are in use, or ever were: what no page was ever in is empty and clean.
    ///
    /// Names every frame that was handed out before this call, in the order of happening: [`FreeFrames::pop`] took the same
    /// mutex.
    pub fn touched(&self) -> impl Iterator<Item = FrameId> + use<> {
        (0..self.free.lock().fresh.start).map(FrameId)
    }

    /// Too few?
    pub fn is_low(&self) -> bool {
        self.len() < self.low
    }

    /// Enough for the cleaner to rest?
    pub fn is_high(&self) -> bool {
        self.len() >= 2 * self.low
    }

    /// Puts a frame back whose id is [`PageId::NONE`].
    pub fn push(&self, frame: FrameId) {
        let mut free = self.free.lock();
        free.used.push(frame);
        self.len.store(free.len(), Relaxed);
    }

    /// Gives also those that were kept back: nothing is cleaned any more.
    pub fn give_all(&self) {
        let mut free = self.free.lock();
        free.fresh.end = self.kept.end;
        self.len.store(free.len(), Relaxed);
    }

    /// Takes one.
    pub fn pop(&self) -> Option<FrameId> {
        let mut free = self.free.lock();
        let frame = free.used.pop().or_else(|| free.fresh.next().map(FrameId));
        self.len.store(free.len(), Relaxed);
        frame
    }
}

/// What the hand found.
pub(super) enum Visit {
    /// Nothing to be had now.
    Passed,
    /// A page that nobody used for a lap, and that must be written before it may go.
    Dirty,
    /// The frame is free now, and the caller's.
    Freed,
}

impl Pool {
    /// Takes a frame that holds no page; waits for the cleaner if there is none.
    ///
    /// Errors: whatever kept the cleaner from providing one.
    pub(super) fn take_frame(&self) -> Result<FrameId> {
        assert_none_held("waiting for a frame");
        loop {
            let (rounds, in_background) = self.pace.look();
            let mut reclaimed = Ok(());
            if !in_background && self.free.is_low() {
                reclaimed = self.reclaim();
            }
            if let Some(frame) = self.find_frame() {
                return Ok(frame);
            }
            if in_background {
                reclaimed = self.waits.frame.time(|| self.pace.wait(rounds));
            }
            if let Err(error) = reclaimed {
                return self.find_clean_frame().ok_or(error);
            }
        }
    }

    /// A frame that is free, or whose page is clean, however hot that is. When nothing is cleaned any more, first one of those that were
    /// kept back: their pages are only read, so they stay clean. As they are few, and others may be reading pages into all of them, this
    /// looks several times.
    fn find_clean_frame(&self) -> Option<FrameId> {
        // Once in any case: a round that then failed may have freed some before.
        let looks = if self.ensure_cleaning().is_err() { LOOKS } else { 1 };
        let kept = (0..looks).find_map(|look| {
            thread::sleep(Duration::from_millis(look.min(1)));
            self.free.pop().or_else(|| self.find_kept_frame())
        });
        kept.or_else(|| (0..2 * self.frames.count()).find_map(|_| self.try_next()))
    }

    fn find_kept_frame(&self) -> Option<FrameId> {
        let laps = self.free.kept.clone().chain(self.free.kept.clone());
        laps.map(FrameId).find(|frame| matches!(self.visit(*frame), Visit::Freed))
    }

    /// A free frame, or one that the hand finds at a glance: less than a lap, so that no page is marked and evicted by
    /// the same visitor. An operation that needs two pages would else drive out the first to load the second.
    pub(super) fn find_frame(&self) -> Option<FrameId> {
        let frame = self.free.pop();
        if self.free.is_low() {
            self.pace.ask();
        }
        frame.or_else(|| (0..GLANCE.min(self.frames.count() / 2)).find_map(|_| self.try_next()))
    }

    fn try_next(&self) -> Option<FrameId> {
        let frame = self.next_frame();
        matches!(self.visit(frame), Visit::Freed).then_some(frame)
    }

    /// Moves the hand on by one.
    pub(super) fn next_frame(&self) -> FrameId {
        FrameId((self.free.hand.fetch_add(1, Relaxed) % self.frames.count() as u64) as u32)
    }

    /// Marks a page in use; evicts one that has kept the mark since the last visit.
    pub(super) fn visit(&self, frame: FrameId) -> Visit {
        let pid = self.frames.page(frame).id();
        let entry = self.table.load(pid);
        match entry.state() {
            State::Resident { frame: its, cool, .. } if its == frame => {
                if !cool {
                    self.table.change(pid, entry, entry.cooled());
                    Visit::Passed
                } else if self.frames.rec_lsn(frame).is_some() {
                    Visit::Dirty
                } else if self.evict(frame, pid) {
                    Visit::Freed
                } else {
                    Visit::Passed
                }
            }
            _ => Visit::Passed,
        }
    }

    /// Takes a clean, cool page out of its frame. `false` if it is in use, or no longer what the caller saw.
    pub(super) fn evict(&self, frame: FrameId, pid: PageId) -> bool {
        let page = self.frames.page(frame);
        let Some(latch) = page.latch().try_exclusive() else { return false };
        // F4 in `frames.rs`. Writers change this only under the latch, which we hold; the cleaner only from "writing" to "clean", and
        // then the entry, which is loaded after this, has the new slot.
        if page.id() != pid || self.frames.redo_from(frame).is_some() {
            latch.release_unchanged();
            return false;
        }
        let entry = self.table.load(pid);
        let gone = match entry.state() {
            State::Resident { frame: its, slot: Some(slot), cool: true } if its == frame => {
                self.table.change(pid, entry, Entry::on_disk(slot))
            }
            _ => false,
        };
        if !gone {
            latch.release_unchanged();
            return false;
        }
        if !seeded_bug("evicted_frame_keeps_id") {
            page.set_id(PageId::NONE);
        }
        drop(latch);
        self.counters.evictions.fetch_add(1, Relaxed);
        true
    }
}
