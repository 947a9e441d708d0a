//! Reading ahead: pages that will be needed soon are read by threads of their own.
//!
//! Why: a device answers many reads in about the time of one, and a long one sooner than many short ones. A walk that asks
//! for each leaf when it gets there has one read under way, and waits for all of it.
//! Source: read-ahead of file systems; here the index says which pages follow (`tree/ahead.rs`), wherever they lie on disk.
//! Differs: blocking reads by a few threads, which start when they are first needed. Pages that lie in neighbouring slots, as
//! those of a bulk load do, are read together.
//!
//! A page that was asked for is loaded as by anyone who needs it, so nothing new has to be proved for those who meet it:
//! - *readers, writers*: whoever needs it meanwhile waits for its load, or finds it. If the load fails, the page is on disk
//!   as before, and the error is dropped: who needs the page reads it anew, and meets an error of its own.
//! - *eviction*: frames come from the list of free ones, which the cleaner fills. The clock's hand is not moved, nothing
//!   is waited for; when the list is empty, all that was asked for is forgotten. What was read ahead and is not used goes as
//!   any other page does.
//! - *cleaner*: such a page is clean. Its slot cannot become free, nor another's, before it has arrived: only the cleaner
//!   changes slots, of resident pages, and a burial waits for a page in transit. The reader waits for the device only.
//! - *dropped tables, absorbed leaves*: whoever asks knows ids from an index that changes. A page that is no more is not
//!   on disk, and passed over; one that is somebody else's by now was read in vain.
//! - *the end*: [`Readers`] stops the threads and waits for them. They hold the pool, and nothing that holds them.
//!
//! Invariants:
//! - R1: pages are asked for with nothing latched (rule 1), and only by those who found pages on disk (rule 9).
//! - R2: walks that read ahead share an eighth of the frames, by [`Share`]; one has a sixteenth at most. Besides, no
//!   more pages are waiting to be read than that.

use super::Pool;
use super::allocate::SpareFrame;
use super::load::Transfer;
use super::table::State as PageState;
use foreshore_base::PageId;
use foreshore_base::latch::assert_none_held;
use foreshore_base::sync::Ordering::*;
use foreshore_io::AlignedBuf;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// Threads of a pool, at most.
const THREADS: usize = 8;
/// Bytes of neighbouring slots that are read together, at most.
const RUN_BYTES: usize = 64 << 10;
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
        let run_pages = (RUN_BYTES / self.page_bytes()).max(1);
        let mut images = AlignedBuf::zeroed(run_pages * self.page_bytes());
        let mut state = self.ahead.state.lock();
        while state.open {
            let run = self.take_run(&mut state.wanted, run_pages);
            if run.is_empty() {
                state.idle += 1;
                self.ahead.work.wait(&mut state);
                state.idle -= 1;
                continue;
            }
            self.rouse(&mut state);
            drop(state);
            self.load_run(run, &mut images);
            state = self.ahead.state.lock();
        }
    }

    /// Begins to load the first pages wanted that lie in neighbouring slots, going up or down.
    fn take_run(&self, wanted: &mut VecDeque<PageId>, pages_max: usize) -> Vec<Transfer<'_>> {
        let mut run: Vec<Transfer<'_>> = Vec::new();
        while let Some(pid) = wanted.front().copied()
            && run.len() < pages_max
        {
            if let PageState::OnDisk(slot) = self.table.load(pid).state() {
                if run.last().is_some_and(|last| last.slot().0.abs_diff(slot.0) != 1) {
                    break;
                }
                let Some(spare) = self.frame_at_hand() else {
                    wanted.clear();
                    break;
                };
                run.extend(self.begin_load(pid, slot, spare));
            }
            wanted.pop_front();
        }
        run
    }

    /// A free frame, if there is one; calls the cleaner if there are few.
    fn frame_at_hand(&self) -> Option<SpareFrame<'_>> {
        let spare = self.free_frame();
        if self.free.is_low() {
            self.pace.ask();
        }
        spare
    }

    /// Loads pages that lie in neighbouring slots.
    fn load_run(&self, mut run: Vec<Transfer<'_>>, images: &mut AlignedBuf) {
        if run.first().map(Transfer::slot) > run.last().map(Transfer::slot) {
            run.reverse();
        }
        let images = &mut images[..run.len() * self.page_bytes()];
        let read = self.leaves.read_into(run[0].slot(), images);
        for (transfer, image) in run.into_iter().zip(images.chunks(self.page_bytes())) {
            let loaded = self.finish_load(transfer, read.as_ref().map(|()| image).map_err(Clone::clone));
            self.counters.ahead.fetch_add(u64::from(loaded.is_ok()), Relaxed);
        }
    }
}
