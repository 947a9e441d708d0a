//! Foreshore's table: one atomic word for each page there is, and no pins.
//!
//! Source: `crates/engine/src/pool/table.rs` in small. Who reads a page writes nothing; he notes the version of the frame's
//! latch before, and looks at it again afterwards.
//!
//! Why B2 holds: who gives a frame to another page latches it, and the version is another one from then on. A reader whose
//! word was stale finds that the frame's page is not his, or, if it is his once more, reads what he asked for.
//!
//! Invariants, as in the engine:
//! - T1: a word names a frame only from when the frame holds the page until its latch has been taken to give it away; the
//!   frame's page is [`PageId::NONE`] before that latch is open again.
//! - T3: every change is a compare-exchange from the word that was judged, but for the last step of who brings a page in,
//!   who alone may change a word that says so.

use super::{BufferTable, Fixed, Frame, Frames, Spare};
use crate::wait::Patience;
use crossbeam_utils::CachePadded;
use foreshore_base::{FrameId, PageId};
use std::sync::atomic::{AtomicU64, Ordering::*};

/// The page is in no frame.
const ON_DISK: u64 = 0;
/// Somebody is bringing it in.
const LOADING: u64 = 1;
/// It is in frame number `word - RESIDENT`.
const RESIDENT: u64 = 2;

/// A table indexed by page.
pub struct Flat {
    frames: Frames,
    words: Box<[AtomicU64]>,
}

impl Flat {
    fn frame(&self, word: u64) -> Option<FrameId> {
        word.checked_sub(RESIDENT).map(|frame| FrameId(frame as u32))
    }

    /// Begins to read `page` in a frame that had it just now, if it does still. If somebody has the frame latched, what is read is
    /// not believed.
    #[inline]
    fn begin(&self, page: PageId, frame: FrameId) -> Option<Fixed> {
        let holds = &self.frames[frame.0 as usize];
        let version = holds.latch.word();
        (holds.page() == page).then_some(Fixed { page, frame, version })
    }

    /// Takes `page` out of its frame, if its word is still the one judged.
    fn take(&self, page: PageId, judged: u64) -> Option<Spare> {
        let id = self.frame(judged)?;
        let frame = &self.frames[id.0 as usize];
        let latched = frame.latch.try_exclusive()?;
        // If the word still names the frame, the page is in it (T1).
        let word = &self.words[page.0 as usize];
        if word.compare_exchange(judged, ON_DISK, Relaxed, Relaxed).is_err() {
            latched.release_unchanged();
            return None;
        }
        frame.page.store(PageId::NONE.0, Relaxed);
        Some(Spare(id))
    }
}

impl BufferTable for Flat {
    const NAME: &str = "flat, no pins";
    const PINS: bool = false;

    fn new(frames: Frames, pages: u64) -> Self {
        Self { frames, words: (0..=pages).map(|_| AtomicU64::new(ON_DISK)).collect() }
    }

    fn frames(&self) -> &[CachePadded<Frame>] {
        &self.frames
    }

    #[inline]
    fn fix(&self, page: PageId) -> Option<Fixed> {
        let mut patience = Patience::default();
        loop {
            // ORDERING: who finds a frame here finds the page in it (T1), unless it has gone since.
            let word = self.words[page.0 as usize].load(Acquire);
            if word == ON_DISK {
                return None;
            }
            let fixed = self.frame(word).and_then(|frame| self.begin(page, frame));
            if fixed.is_some() {
                return fixed;
            }
            patience.wait();
        }
    }

    #[inline]
    fn unfix(&self, fixed: Fixed) -> bool {
        let latch = &self.frames[fixed.frame.0 as usize].latch;
        latch.optimistic_since(fixed.version).is_some_and(|read| read.validate().is_ok())
    }

    fn load(&self, page: PageId, spare: Spare) -> Option<Spare> {
        let word = &self.words[page.0 as usize];
        if word.compare_exchange(ON_DISK, LOADING, Relaxed, Relaxed).is_err() {
            return Some(spare);
        }
        let frame = &self.frames[spare.0.0 as usize];
        let latched = frame.latch.exclusive();
        frame.fill(page);
        drop(latched);
        // ORDERING: who sees the frame here sees what it holds.
        word.store(RESIDENT + u64::from(spare.0.0), Release);
        None
    }

    fn evict(&self, page: PageId) -> Option<Spare> {
        self.take(page, self.words[page.0 as usize].load(Relaxed))
    }

    fn entries(&self) -> Vec<(PageId, FrameId)> {
        let words = self.words.iter().zip(0..);
        words.filter_map(|(word, page)| Some((PageId(page), self.frame(word.load(Relaxed))?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::new_frames;
    use super::*;

    /// A word that was read before its frame got another page leads to no read, and a read that began before is not believed.
    #[test]
    fn a_stale_word_leads_nowhere() {
        let [one, two] = [PageId(1), PageId(2)];
        let table = Flat::new(new_frames(1), 2);
        let frame = FrameId(0);
        assert!(table.load(one, Spare(frame)).is_none());
        let [early, late] = std::array::from_fn(|_| table.fix(one).unwrap());
        let stale = table.words[1].load(Relaxed);
        let spare = table.evict(one).unwrap();
        assert!(table.take(one, stale).is_none());
        assert!(table.begin(one, frame).is_none() && table.fix(one).is_none());
        assert!(!table.unfix(early));
        assert!(table.load(two, spare).is_none());
        assert!(table.begin(one, frame).is_none() && table.take(one, stale).is_none());
        assert!(!table.unfix(late));
        let spare = table.evict(two).unwrap();
        assert!(table.load(one, spare).is_none());
        let fixed = table.fix(one).unwrap();
        assert_eq!(table.read(&fixed), 1);
        assert!(table.unfix(fixed));
    }
}
