//! One round of cleaning: dirty pages to fresh slots, dead pages out of the directory.
//!
//! ```text
//! copy (at first under no latch) → log durable → write slots → sync → directory batch → sync → page table → old slots are free
//! ```
//!
//! Source: LeanStore's out-of-place writer, completed by the order that makes it recoverable: a torn write tears a slot that
//! nothing names.
//!
//! Invariants:
//! - C1 (rule 2): no image is written before the log is durable up to its page LSN.
//! - C2 (rule 3): the old slot of a page is given back after the batch that names the new one is durable; a new slot is
//!   one that no durable batch names.
//! - C3: a round that fails for want of space leaves pages as dirty and slots as free as they were. Any other failure
//!   ends cleaning for good and poisons the log (rule 10): what the disk holds is then unknown.

use super::allocate::Dead;
use super::clock::Visit;
use super::directory_entry::{Entry as DirectoryEntry, PageEntry, entry_bytes};
use super::promises::Effect;
use super::slots::Slots;
use super::table::State;
use super::{Pool, with_space};
use crate::error::{Error, Result};
use crate::page::{self, Image, Page};
use crate::waits::lock_or_wait;
use foreshore_base::latch::{Optimistic, assert_none_held};
use foreshore_base::sync::Ordering::*;
use foreshore_base::{Exclusive, FrameId, Lsn, PageId, SlotId, seeded_bug};
use foreshore_io::AlignedBuf;
use parking_lot::MutexGuard;
use std::collections::HashSet;
use std::ops::Range;

/// Dead pages buried per round, at most.
const DEAD_PER_ROUND: usize = 4096;
/// How often `flush_until` comes back to pages whose latch was held.
const PATIENCE: usize = 64;

/// What a round works with.
pub(super) struct Cleaning {
    /// The free slots.
    pub slots: Slots,
    images: AlignedBuf,
}

/// A page whose image waits to be written.
struct Copied {
    frame: FrameId,
    entry: PageEntry,
}

/// What the directory will say about an image, save the slot. Panics if its fences do not fit the page.
fn describe(image: Image<'_>) -> PageEntry {
    let low_key = image.low_fence().expect("the fences of a page lie inside it").to_vec();
    PageEntry { pid: image.id(), slot: SlotId(u64::MAX), lsn: image.lsn(), table: image.table(), low_key }
}

/// Copies a page that nobody was changing when `read` began, and latches it as it is in the copy. `None` if somebody has the
/// latch by then.
fn copy_and_latch<'a>(page: Page<'a>, read: Optimistic<'a>, image: &mut [u8]) -> Option<Exclusive<'a>> {
    page::seal(page, image);
    read.upgrade().ok().or_else(|| {
        // It has been changed, and may be during every copy: then it would never be written, and the log be kept for it. So others
        // wait for this one.
        let latch = page.latch().try_exclusive()?;
        page::seal(page, image);
        Some(latch)
    })
}

impl Cleaning {
    /// Ready for the first round, of pages of at most `batch_bytes` together.
    pub fn new(slots: Slots, batch_bytes: usize) -> Self {
        Self { slots, images: AlignedBuf::zeroed(batch_bytes) }
    }

    fn release(&mut self, slots: impl IntoIterator<Item = SlotId>) {
        slots.into_iter().for_each(|slot| self.slots.release(slot));
    }
}

impl Pool {
    /// Writes every page with a change below `target` that its durable image lacks, and lets the directory forget
    /// the pages that are dead now. Returns when they are durable.
    ///
    /// A page whose latch was held whenever the cleaner came is left out; [`Pool::oldest_rec_lsn`] knows it.
    /// Errors: `Full`, then everything is as before; `Poisoned`, and what ended cleaning.
    pub fn flush_until(&self, target: Lsn) -> Result<()> {
        assert_none_held("flushing pages");
        let target = target.min(self.wal.reserved());
        let mut dead = !self.dead.lock().is_empty();
        for _ in 0..PATIENCE {
            let mut dirty: Vec<_> = self
                .free
                .touched()
                .filter(|frame| self.frames.rec_lsn(*frame).is_some_and(|lsn| lsn < target))
                .collect();
            if dirty.is_empty() && !dead {
                return Ok(());
            }
            self.sort_by_page(&mut dirty);
            self.flush(&dirty)?;
            dead = false;
            std::thread::yield_now();
        }
        Ok(())
    }

    /// [`Pool::flush_until`] now.
    #[cfg(test)]
    pub fn flush_all(&self) -> Result<()> {
        self.flush_until(Lsn::MAX)
    }

    /// Cleans these frames in several rounds, and buries all that was dead at the beginning.
    fn flush(&self, frames: &[FrameId]) -> Result<()> {
        let burials = self.dead.lock().len().div_ceil(DEAD_PER_ROUND);
        let mut batches = frames.chunks(self.batch_pages);
        for _ in 0..batches.len().max(burials) {
            let mut cleaning = lock_or_wait(&self.cleaning);
            let cleaned = self.clean(&mut cleaning, batches.next().unwrap_or_default());
            // Whoever needs a frame goes before the next round.
            MutexGuard::unlock_fair(cleaning);
            // Who waits for a frame looks for one again. That there is none, and why, only a round for frames can say.
            self.pace.finished(Ok(()));
            cleaned?;
        }
        Ok(())
    }

    /// Makes frames free until there are enough: evicts what is clean and not in use, cleans what is dirty and not in
    /// use, and evicts that too. One round. Errors: as [`Pool::flush_until`].
    pub(super) fn reclaim(&self) -> Result<()> {
        let mut cleaning = self.cleaning.lock();
        let mut dirty = self.sweep();
        self.sort_by_page(&mut dirty);
        let cleaned = self.clean(&mut cleaning, &dirty)?;
        for (frame, pid) in cleaned {
            if self.evict(frame, pid) {
                self.free.push(frame);
            }
        }
        Ok(())
    }

    /// Two laps of the hand at most: frees what it can, and returns what must be cleaned first.
    fn sweep(&self) -> Vec<FrameId> {
        let mut dirty = Vec::new();
        for _ in 0..2 * self.frames.count() {
            if self.free.is_high() || dirty.len() == self.batch_pages {
                break;
            }
            let frame = self.next_frame();
            match self.visit(frame) {
                Visit::Freed => self.free.push(frame),
                Visit::Dirty => dirty.push(frame),
                Visit::Passed => {}
            }
        }
        dirty
    }

    /// Page ids follow key order after a bulk load, and nearly so otherwise: neighbours get neighbouring slots.
    fn sort_by_page(&self, frames: &mut Vec<FrameId>) {
        frames.sort_by_cached_key(|frame| self.frames.page(*frame).id());
        frames.dedup();
    }

    /// Cleans these frames, at most a batch of them, and buries what is dead. Returns the pages that are clean now.
    fn clean(&self, cleaning: &mut Cleaning, frames: &[FrameId]) -> Result<Vec<(FrameId, PageId)>> {
        let dead = self.first_dead();
        if frames.is_empty() && dead.is_empty() {
            return Ok(Vec::new());
        }
        self.ensure_cleaning()?;
        let copied = self.copy_out(cleaning, frames, &dead);
        let written = self.write_out(cleaning, &copied, &dead);
        let (copied, not_written) = copied.split_at(written.as_ref().map_or(0, Vec::len));
        not_written.iter().for_each(|copied| self.frames.undo_write(copied.frame));
        let slots = written.map_err(|error| self.judge(error))?;
        self.forget_first_dead(dead.len());
        self.counters.cleaned.fetch_add(copied.len() as u64, Relaxed);
        self.install(cleaning, copied, &slots);
        cleaning.release(dead.iter().filter_map(|dead| self.bury(dead.pid)));
        Ok(copied.iter().map(|copied| (copied.frame, copied.entry.pid)).collect())
    }

    /// Lets the directory forget what is dead by now, or as much of it as one round does. Errors: as [`Pool::flush_until`].
    pub(super) fn bury_dead(&self) -> Result<()> {
        let mut cleaning = self.cleaning.lock(); // what others have forgotten is buried by now
        let are_any = !self.dead.lock().is_empty();
        if are_any { self.clean(&mut cleaning, &[]).map(drop) } else { Ok(()) }
    }

    /// Those that died first. They stay in the list until the directory has forgotten them, so that a checkpoint sees them.
    fn first_dead(&self) -> Vec<Dead> {
        self.dead.lock().iter().take(DEAD_PER_ROUND).copied().collect()
    }

    fn forget_first_dead(&self, count: usize) {
        let mut dead = self.dead.lock();
        dead.drain(..count);
        if dead.is_empty() {
            dead.shrink_to(DEAD_PER_ROUND); // a large table may have been dropped
        }
    }

    /// Copies the pages that can be had, one after the other, into the image buffer.
    fn copy_out(&self, cleaning: &mut Cleaning, frames: &[FrameId], dead: &[Dead]) -> Vec<Copied> {
        let dead: HashSet<PageId> = dead.iter().map(|dead| dead.pid).collect();
        let mut copied: Vec<Copied> = Vec::with_capacity(frames.len());
        for frame in frames {
            let image = &mut cleaning.images[copied.len() * self.page_bytes()..][..self.page_bytes()];
            copied.extend(self.copy_page(*frame, image, &dead));
        }
        copied
    }

    /// Copies a dirty page, and marks it as being written at the moment the copy is proved current. `None` if somebody
    /// is changing it, or if there is nothing to write.
    fn copy_page(&self, frame: FrameId, image: &mut [u8], dead: &HashSet<PageId>) -> Option<Copied> {
        let page = self.frames.page(frame);
        // Readers may go on meanwhile: nothing in the page changes under this latch.
        let latch = copy_and_latch(page, page.latch().try_optimistic().ok()?, image)?;
        let image = Image(image);
        // A page that was absorbed is never written: it is dead, or will be so declared in a moment.
        let wanted = self.frames.rec_lsn(frame).is_some()
            && !image.is_dead()
            && !dead.contains(&image.id())
            && matches!(self.table.load(image.id()).state(), State::Resident { frame: its, .. } if its == frame);
        let copied = wanted.then(|| Copied { frame, entry: describe(image) });
        if copied.is_some() {
            self.frames.begin_write(frame);
        }
        latch.release_unchanged();
        copied
    }

    /// Makes images and directory entries durable, in the one order that survives a crash at any point. Returns the
    /// slots, in the order of `copied`: on a full disk fewer, since an earlier life with smaller rounds has left fewer, or none,
    /// until the dead have left some.
    fn write_out(&self, cleaning: &mut Cleaning, copied: &[Copied], dead: &[Dead]) -> Result<Vec<SlotId>> {
        let lsns = copied.iter().map(|copied| copied.entry.lsn).chain(dead.iter().map(|dead| dead.after));
        if !seeded_bug("page_before_log") {
            self.wal.wait_durable(lsns.max().unwrap_or(Lsn::ZERO))?;
        }
        if seeded_bug("slot_reused_early") {
            copied.iter().for_each(|copied| cleaning.release(self.table.load(copied.entry.pid).slot()));
        }
        let mut take =
            |count| with_space(&*self.wal, || self.leaves.take(&mut cleaning.slots, &self.room, count));
        let runs = match take(copied.len() as u64) {
            Err(Error::Full { .. }) if cleaning.slots.free() > 0 || !dead.is_empty() => {
                cleaning.slots.take(cleaning.slots.free()).expect("they are free")
            }
            taken => taken?,
        };
        let slots: Vec<SlotId> = runs.iter().cloned().flatten().map(SlotId).collect();
        let copied = &copied[..slots.len()];
        let images = &cleaning.images[..copied.len() * self.page_bytes()];
        match self.write_and_record(images, &runs, &slots, copied, dead) {
            Ok(()) => Ok(slots),
            Err(error) => {
                // Nothing durable names them (C2): a directory that is full was not written to, and after any other
                // failure there are no more rounds.
                cleaning.release(slots);
                Err(error)
            }
        }
    }

    fn write_and_record(
        &self,
        images: &[u8],
        runs: &[Range<u64>],
        slots: &[SlotId],
        copied: &[Copied],
        dead: &[Dead],
    ) -> Result<()> {
        if !copied.is_empty() {
            self.leaves.write(images, runs)?;
            if !seeded_bug("leaf_growth_not_durable") {
                self.leaves.sync()?;
            }
        }
        let pages = copied
            .iter()
            .zip(slots)
            .map(|(copied, slot)| DirectoryEntry::Page(PageEntry { slot: *slot, ..copied.entry.clone() }));
        let frees = dead.iter().map(|dead| DirectoryEntry::Free(dead.pid));
        let entries: Vec<_> = pages.chain(frees).collect();
        if entries.is_empty() {
            return Ok(());
        }
        let effect = self.effect(copied, dead);
        with_space(&*self.wal, || self.directory.append_with(&entries, effect))
    }

    /// What the directory gains and loses.
    fn effect(&self, copied: &[Copied], dead: &[Dead]) -> Effect {
        let has_slot = |pid| self.table.load(pid).slot().is_some();
        let first = copied.iter().filter(|copied| !has_slot(copied.entry.pid));
        let mut effect = Effect {
            first: first.map(|copied| entry_bytes(copied.entry.low_key.len())).sum(),
            ..Effect::default()
        };
        for dead in dead.iter().filter(|dead| has_slot(dead.pid)) {
            match self.low_key_len(dead.pid) {
                Some(len) => effect.gone += entry_bytes(len),
                None => effect.is_more_gone = true,
            }
        }
        effect
    }

    /// How long the lowest key of a page is that is in memory.
    fn low_key_len(&self, pid: PageId) -> Option<usize> {
        let State::Resident { frame, .. } = self.table.load(pid).state() else { return None };
        let page = self.frames.page(frame);
        let read = page.latch().try_optimistic().ok()?;
        let (id, len) = (page.id(), page.header().low_len);
        (id == pid && read.validate().is_ok()).then_some(usize::from(len))
    }

    /// Points the page table to the new slots, and gives the old ones back.
    fn install(&self, cleaning: &mut Cleaning, copied: &[Copied], slots: &[SlotId]) {
        for (copied, slot) in copied.iter().zip(slots) {
            let before = self.table.update(copied.entry.pid, |entry| entry.with_slot(*slot));
            assert!(
                matches!(before.state(), State::Resident { frame, .. } if frame == copied.frame),
                "F4: page {} left its frame while it was written",
                copied.entry.pid
            );
            self.frames.end_write(copied.frame);
            if !seeded_bug("slot_reused_early") {
                cleaning.release(before.slot());
            }
        }
    }

    /// C3: a full disk is no failure; anything else is the last one.
    fn judge(&self, error: Error) -> Error {
        let error = match error {
            full @ Error::Full { .. } => return full,
            poisoned @ Error::Poisoned { .. } => poisoned,
            other => Error::Poisoned { cause: other.to_string() },
        };
        self.wal.poison(&error);
        self.stop_cleaning(error)
    }

    /// Returns why there are no more rounds, which is this unless there was a reason before.
    fn stop_cleaning(&self, why: Error) -> Error {
        let why = self.failed.get_or_init(|| why).clone();
        self.free.give_all();
        why
    }

    /// No more rounds, nor growth, when this returns. Reads go on, with the frames that are clean.
    pub fn end_cleaning(&self, why: &Error) {
        let _last_round = lock_or_wait(&self.cleaning);
        self.stop_cleaning(why.clone());
    }

    /// Errors: why there are no more rounds.
    pub(super) fn ensure_cleaning(&self) -> Result<()> {
        self.failed.get().map_or(Ok(()), |error| Err(error.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::Frames;
    use super::*;

    /// A leaf that somebody changes during each copy is written all the same: else the log would be kept from its first change on.
    #[test]
    fn a_leaf_that_never_rests_is_copied() {
        let frames = Frames::new(1, 4096).unwrap();
        let (page, mut image) = (frames.page(FrameId(0)), vec![0; 4096]);
        let read = page.latch().try_optimistic().unwrap();
        let change = page.latch().exclusive();
        page.set_lsn(Lsn(7));
        drop(change);
        let latch = copy_and_latch(page, read, &mut image).expect("nobody has the latch any more");
        assert!(page.latch().is_latched() && page::verify(&image, PageId::NONE).is_ok());
        assert_eq!(Image(&image).lsn(), Lsn(7));
        latch.release_unchanged();

        let read = page.latch().try_optimistic().unwrap();
        let change = page.latch().exclusive();
        assert!(copy_and_latch(page, read, &mut image).is_none(), "a latch is only tried");
        drop(change);
    }
}
