//! The frames, and what is known about each of them beside its page.
//!
//! Invariants:
//! - F1: frames are type-stable: word 0 is always a latch whose version only grows, and a frame that holds no page has
//!   the id [`PageId::NONE`](foreshore_base::PageId::NONE), written under its exclusive latch. So whoever reads or
//!   latches through a stale frame number finds out from version or id.
//! - F2: `rec_lsn` is the position of the log before the first change that the page's durable image lacks, and "none"
//!   only if it lacks nothing. It is set under the frame's exclusive latch, before the change is logged.
//! - F3: while an image is on its way to the directory, `writing` keeps the `rec_lsn` that the copy had. Whoever reads
//!   `rec_lsn` first and `writing` second misses no change, unless a write failed meanwhile and its LSN went the other way:
//!   `undone` tells.
//! - F4: only a frame with neither `rec_lsn` nor `writing` may be evicted.

use super::arena::Arena;
use crate::page::Page;
use foreshore_base::prefetch::prefetch_lines;
use foreshore_base::sync::{AtomicU64, Ordering::*};
use foreshore_base::{FrameId, Lsn, RelaxedBytes};
use std::io;

/// Between two frames lies one unused cache line, so that the headers of all pages do not fall into the same few
/// cache sets, as they would at a distance of a power of two.
const COLOUR_BYTES: usize = 64;

/// A rec LSN as a word: 0 = none, else LSN + 1.
fn encode(lsn: Lsn) -> u64 {
    lsn.0 + 1
}

fn decode(word: u64) -> Option<Lsn> {
    word.checked_sub(1).map(Lsn)
}

/// One mapping holds all of it: `rec_lsn` of every frame, then `writing` of every frame, then the frames, from a whole cache
/// line on. It is zeroed, so what was never used takes no memory, however large the cache may grow.
pub(super) struct Frames {
    arena: Arena,
    /// Writes that failed.
    undone: AtomicU64,
    count: usize,
    /// Where the frames begin, in words of the mapping.
    first_word: usize,
    page_words: usize,
    stride_words: usize,
}

impl Frames {
    /// `count` empty, clean frames of `page_bytes` each.
    pub fn new(count: usize, page_bytes: usize) -> io::Result<Self> {
        let stride_words = (page_bytes + COLOUR_BYTES) / size_of::<u64>();
        let first_word = (2 * count).next_multiple_of(COLOUR_BYTES / size_of::<u64>());
        Ok(Self {
            arena: Arena::new(first_word + count * stride_words)?,
            undone: AtomicU64::new(0),
            count,
            first_word,
            page_words: page_bytes / size_of::<u64>(),
            stride_words,
        })
    }

    #[inline]
    fn rec_lsn_word(&self, frame: FrameId) -> &AtomicU64 {
        &self.arena.words()[..self.count][frame.0 as usize]
    }

    #[inline]
    fn writing_word(&self, frame: FrameId) -> &AtomicU64 {
        &self.arena.words()[self.count..][..self.count][frame.0 as usize]
    }

    /// Bytes of each.
    pub fn page_bytes(&self) -> usize {
        self.page_words * size_of::<u64>()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The memory of a frame.
    #[inline]
    pub fn page(&self, frame: FrameId) -> Page<'_> {
        let start = self.first_word + frame.0 as usize * self.stride_words;
        Page(RelaxedBytes::new(&self.arena.words()[start..start + self.page_words]))
    }

    /// Notes a change that will be logged at or after `lsn()`, if the page is clean (F2).
    #[inline]
    pub fn note_change(&self, frame: FrameId, lsn: impl FnOnce() -> Lsn) {
        let rec_lsn = self.rec_lsn_word(frame);
        if rec_lsn.load(Relaxed) == 0 {
            // A failed exchange means that a failed clean has just put an older LSN back: that one is right.
            // ORDERING: Relaxed is enough for the checkpointer, whom the log's `reserved` counter brings this store
            // (see `Pool::oldest_rec_lsn`). A read-modify-write keeps F3: it continues the release of `begin_write`.
            let _ = rec_lsn.compare_exchange(0, encode(lsn()), Relaxed, Relaxed);
        }
    }

    /// Fetches what [`Frames::note_change`] will look at.
    #[inline]
    pub fn prefetch_change(&self, frame: FrameId) {
        prefetch_lines(self.rec_lsn_word(frame), size_of::<u64>());
    }

    /// Is there a change that no image holds?
    pub fn rec_lsn(&self, frame: FrameId) -> Option<Lsn> {
        decode(self.rec_lsn_word(frame).load(Acquire))
    }

    /// Where redo of this page would have to begin, were the machine to stop now. `None` if its directory entry is
    /// current.
    pub fn redo_from(&self, frame: FrameId) -> Option<Lsn> {
        loop {
            let undone = self.undone.load(Acquire);
            // ORDERING: `rec_lsn` first, with Acquire (F3).
            let (dirty, writing) = (self.rec_lsn(frame), decode(self.writing_word(frame).load(Acquire)));
            if self.undone.load(Relaxed) == undone {
                return dirty.into_iter().chain(writing).min();
            }
        }
    }

    /// Is an image of the page on its way to the directory? Under the latch, one that is not will not be.
    pub fn is_being_written(&self, frame: FrameId) -> bool {
        // ORDERING: Acquire pairs with `end_write`: who sees that it has ended sees the new slot in the page table.
        self.writing_word(frame).load(Acquire) != 0
    }

    /// An image of the page was copied and is going to be written. Under the latch that proves the copy current.
    pub fn begin_write(&self, frame: FrameId) {
        let (rec_lsn, writing) = (self.rec_lsn_word(frame), self.writing_word(frame));
        debug_assert_eq!(writing.load(Relaxed), 0, "one image at a time");
        writing.store(rec_lsn.load(Relaxed), Relaxed);
        // ORDERING: Release: who sees this zero, or what a writer makes of it, sees `writing` (F3).
        rec_lsn.store(0, Release);
    }

    /// The image is durable and the page table names it.
    pub fn end_write(&self, frame: FrameId) {
        // ORDERING: Release: an evictor that sees this zero sees the new slot in the page table.
        self.writing_word(frame).store(0, Release);
    }

    /// The image did not get to the directory: the page is as dirty as it was.
    pub fn undo_write(&self, frame: FrameId) {
        let (rec_lsn, writing) = (self.rec_lsn_word(frame), self.writing_word(frame));
        let old = writing.load(Relaxed);
        let older = |now: u64| (now == 0 || now > old).then_some(old);
        let _ = rec_lsn.fetch_update(AcqRel, Acquire, older);
        // ORDERING: Release, as is the zero: who sees that sees this count, and who has seen this count before sees `rec_lsn`.
        self.undone.fetch_add(1, Release);
        writing.store(0, Release);
    }

    /// The page is dead and its log records need no redo. Under its exclusive latch.
    pub fn forget(&self, frame: FrameId) {
        self.rec_lsn_word(frame).store(0, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreshore_base::sync::AtomicBool;

    const FRAME: FrameId = FrameId(1);
    const ROUNDS: usize = 1_000_000;

    #[test]
    fn frames_do_not_overlap() {
        let frames = Frames::new(3, 4096).unwrap();
        let ids = || (0..3).map(FrameId);
        ids().for_each(|f| frames.page(f).0.set_word(511, u64::from(f.0) + 1));
        ids().for_each(|f| assert_eq!(frames.page(f).0.word(511), u64::from(f.0) + 1));
        assert_eq!(ids().find_map(|f| frames.redo_from(f)), None);
        assert_eq!(frames.page(FRAME).0.len(), 4096);
        assert_eq!(frames.page(FRAME).0.word(0), 0);
    }

    /// F2, F3: whatever becomes of a write, the oldest change that is not durable is known.
    #[test]
    fn the_oldest_change_survives_a_failed_write() {
        let frames = Frames::new(2, 4096).unwrap();
        assert_eq!(frames.redo_from(FRAME), None);
        frames.note_change(FRAME, || Lsn(0));
        frames.note_change(FRAME, || panic!("the page is dirty already"));
        assert_eq!(frames.rec_lsn(FRAME), Some(Lsn(0)));
        frames.begin_write(FRAME);
        assert_eq!((frames.rec_lsn(FRAME), frames.redo_from(FRAME)), (None, Some(Lsn(0))));
        frames.note_change(FRAME, || Lsn(7));
        assert_eq!((frames.rec_lsn(FRAME), frames.redo_from(FRAME)), (Some(Lsn(7)), Some(Lsn(0))));
        frames.undo_write(FRAME);
        assert_eq!((frames.rec_lsn(FRAME), frames.redo_from(FRAME)), (Some(Lsn(0)), Some(Lsn(0))));
        frames.begin_write(FRAME);
        frames.end_write(FRAME);
        assert_eq!(frames.redo_from(FRAME), None);
    }

    /// F3: also of one that is about to fail while somebody looks.
    #[test]
    fn nobody_misses_a_change_whose_write_fails() {
        let (frames, over) = (Frames::new(2, 4096).unwrap(), AtomicBool::new(false));
        frames.note_change(FRAME, || Lsn(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    frames.begin_write(FRAME);
                    frames.note_change(FRAME, || Lsn(7));
                    frames.undo_write(FRAME);
                }
                over.store(true, Relaxed);
            });
            while !over.load(Relaxed) {
                assert_eq!(frames.redo_from(FRAME), Some(Lsn(0)), "the oldest change is the one at 0");
            }
        });
    }
}
