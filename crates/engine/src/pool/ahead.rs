//! Reading ahead: pages that will be needed soon are read before they are, many of them side by side.
//!
//! Why: a device answers many reads in about the time of one, and a long one sooner than many short ones. Who asks
//! for each leaf when he gets there has one read under way, and waits for all of it.
//! How: who knows which pages he is going to use loads them together, and waits ([`Pool::load_together`]). A walk, which
//! does not want to wait, asks threads for the pages that follow, wherever they lie on disk: the index knows them (`tree/ahead.rs`).
//! Source: read-ahead of file systems.
//! Differs: many reads are handed to the system at once (`File::read_many`); where that is not to be had, they are spread over the threads. These
//! start when they are first needed.
//!
//! Such a page is loaded as by anyone who needs it, so nothing new has to be proved for those who meet it:
//! - *readers, writers*: whoever needs it meanwhile waits for its load, or finds it. If the load fails, the page is on disk
//!   as before, and the error is dropped: who needs the page reads it anew, and meets an error of its own.
//! - *eviction*: frames are those to be had without a wait. When there is none, the rest of what was asked for is
//!   forgotten: pages that are in transit wait for nobody but the device. What was read ahead and is not used goes as any other page
//!   does.
//! - *cleaner*: such a page is clean. Its slot cannot become free, nor another's, before it has arrived: only the cleaner
//!   changes slots, of resident pages, and a burial waits for a page in transit.
//! - *dropped tables, absorbed leaves*: whoever asks knows ids from an index that changes. A page that is no more is not
//!   on disk, and passed over; one that is somebody else's by now was read in vain.
//! - *the end*: [`Readers`] stops the threads and waits for them. They hold the pool, and nothing that holds them.
//!
//! Invariants:
//! - R1: pages are asked for with nothing latched (rule 1), and only by those who found pages on disk (rule 9).
//! - R2: walks that read ahead share an eighth of the frames, by [`Share`]; one has a sixteenth at most. Besides, no
//!   more pages are waiting to be read than that. Who loads pages together has an eighth at most.

use super::Pool;
use super::leaf_file::SLOTS_TOGETHER;
use super::table::State as PageState;
use foreshore_base::PageId;
use foreshore_base::latch::assert_none_held;
use foreshore_base::sync::Ordering::*;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// Threads of a pool, at most.
const THREADS: usize = 8;
/// All walks together may have one frame in this many.
const ALL_SHARE: usize = 8;
/// One walk may have one frame in this many, and no more than so many.
const WALK_SHARE: usize = 16;
const WALK_FRAMES_MAX: usize = 64;
/// What a walk begins with.
const WALK_FRAMES_FIRST: usize = 4;

/// What is asked of the threads, and who they are.
#[derive(Default)]
pub(super) struct Ahead {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    /// May there be threads?
    open: bool,
    wanted: VecDeque<PageId>,
    threads: Vec<JoinHandle<()>>,
    /// Threads that have nothing to do.
    idle: usize,
    /// Frames that walks have as their shares.
    shared: usize,
}

/// Lets a pool read ahead. Stops its threads when dropped.
pub(super) struct Readers(Arc<Pool>);

impl Readers {
    /// From now on threads are started as they are needed.
    pub fn allow(pool: Arc<Pool>) -> Self {
        pool.ahead.state.lock().open = true;
        Self(pool)
    }

    /// Stops the threads, and waits for their ends: for the reads under way. The second call does nothing.
    pub fn stop(&self) {
        let mut state = self.0.ahead.state.lock();
        state.open = false;
        state.wanted.clear();
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        self.0.ahead.work.notify_all();
        for thread in threads {
            // A panic has been reported on its own thread; nobody depends on what it would have read.
            let _ = thread.join();
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.stop();
    }
}

/// How many frames a walk may have filled ahead of it (R2).
pub(crate) struct Share {
    pool: Arc<Pool>,
    frames: usize,
}

impl Share {
    /// How many.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Twice as many, as far as there are.
    pub fn grow(&mut self) {
        self.frames += self.pool.lend(self.frames, self.frames);
    }

    /// The walk has come to a leaf that was read ahead for it.
    pub fn note_used(&self) {
        self.pool.counters.ahead_used.fetch_add(1, Relaxed);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.pool.ahead.state.lock().shared -= self.frames;
    }
}

impl Pool {
    /// Some frames for a walk to read ahead into; `None` if others have them all.
    pub fn share(self: &Arc<Self>) -> Option<Share> {
        let frames = self.lend(0, WALK_FRAMES_FIRST);
        (frames > 0).then(|| Share { pool: self.clone(), frames })
    }

    /// So many frames more for a walk that has some, or as many as it may have (R2).
    fn lend(&self, has: usize, more: usize) -> usize {
        let most = (self.frames.count() / WALK_SHARE).min(WALK_FRAMES_MAX);
        let mut state = self.ahead.state.lock();
        let left = (self.frames.count() / ALL_SHARE).saturating_sub(state.shared);
        let lent = if state.open { more.min(left).min(most.saturating_sub(has)) } else { 0 };
        state.shared += lent;
        lent
    }

    /// Asks for these pages to be read, in their order, those that are only on disk then. Nobody waits for that, and
    /// nobody is told what came of it.
    #[cold]
    pub fn read_ahead(self: &Arc<Self>, pages: impl IntoIterator<Item = PageId>) {
        assert_none_held("asking for pages to be read");
        let mut state = self.ahead.state.lock();
        if state.open {
            let room = (self.frames.count() / WALK_SHARE).saturating_sub(state.wanted.len());
            state.wanted.extend(pages.into_iter().take(room));
            self.rouse(&mut state);
        }
    }

    /// If there is something to do, wakes one thread, or starts one: it will do the same for the next one.
    fn rouse(self: &Arc<Self>, state: &mut State) {
        if state.wanted.is_empty() {
            return;
        }
        if state.idle > 0 {
            self.ahead.work.notify_one();
        } else if state.threads.len() < THREADS {
            let pool = self.clone();
            let thread = thread::Builder::new().name("foreshore-reader".into());
            // If the system has no thread left, walks read for themselves.
            state.threads.extend(thread.spawn(move || pool.read_what_is_wanted()));
        }
    }

    /// What each thread does.
    fn read_what_is_wanted(self: Arc<Self>) {
        let mut state = self.ahead.state.lock();
        while state.open {
            if state.wanted.is_empty() {
                state.idle += 1;
                self.ahead.work.wait(&mut state);
                state.idle -= 1;
                continue;
            }
            let now = self.part(&state.wanted);
            let pages: Vec<PageId> = state.wanted.drain(..now).collect();
            self.rouse(&mut state);
            drop(state);
            self.finish_loads(self.begin_loads(pages.into_iter(), now));
            state = self.ahead.state.lock();
        }
    }

    /// How many pages a thread takes of those wanted: as many as it can read side by side. If it cannot do that, those that are one read;
    /// the others are for other threads.
    fn part(&self, wanted: &VecDeque<PageId>) -> usize {
        if self.leaves.reads_side_by_side() {
            return wanted.len().min(SLOTS_TOGETHER);
        }
        let slots = wanted.iter().map(|page| match self.table.load(*page).state() {
            PageState::OnDisk(slot) => Some(slot.0),
            _ => None,
        });
        let neighbours = slots.clone().zip(slots.skip(1)).take(self.leaves.run_slots() - 1);
        let are = |(slot, next): &(Option<u64>, Option<u64>)| {
            slot.zip(*next).is_some_and(|(slot, next)| slot.abs_diff(next) == 1)
        };
        1 + neighbours.take_while(are).count()
    }

    /// How many pages may be loaded together: not so many that the first ones have to go before they are used.
    pub fn together(&self) -> usize {
        (self.frames.count() / ALL_SHARE).clamp(1, SLOTS_TOGETHER)
    }

    /// Loads the first [`Pool::together`] of these pages that are only on disk, side by side, for who is going to use them one after
    /// the other, and waits for all. Where the system cannot do that, threads are asked for it, and nobody waits.
    #[cold]
    pub fn load_together(self: &Arc<Self>, pages: impl Iterator<Item = PageId>) {
        if !self.leaves.reads_side_by_side() {
            return self.read_ahead(pages);
        }
        assert_none_held("reading pages");
        let begun = self.begin_loads(pages, self.together());
        if !begun.is_empty() {
            self.waits.read.time(|| self.finish_loads(begun));
        }
    }
}
