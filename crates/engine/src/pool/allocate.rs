//! The beginning and the end of pages.
//!
//! A page begins as an id and an unreachable frame, both taken with nothing latched, so that a split never waits. It
//! ends when the directory durably says so: until then its id and its slot are not used again.
//!
//! Invariant:
//! - A1: an id is given out only if neither table nor directory know it. Stale readers of its former page find a page
//!   of another table or other fences, as every leaf names both.

use super::size::SizeClass;
use super::table::{Entry, State};
use super::{FramePage, Pool, with_space};
use crate::error::{Error, Result};
use crate::page::Page;
use foreshore_base::latch::assert_none_held;
use foreshore_base::{Exclusive, FrameId, Lsn, PageId, SlotId};
use std::mem::ManuallyDrop;

/// The cleaner is called when this many dead pages wait for it, and goes on until fewer do.
const DEAD_MANY: usize = 256;

/// A page that is no more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dead {
    pub pid: PageId,
    /// The log must be durable up to here before the directory may forget the page.
    pub after: Lsn,
}

/// A frame that holds no page. Goes back when dropped.
pub(super) struct SpareFrame<'a> {
    pool: &'a Pool,
    frame: FrameId,
}

impl SpareFrame<'_> {
    /// Which one.
    pub fn frame(&self) -> FrameId {
        self.frame
    }

    /// The frame, now the caller's to account for.
    pub fn into_used(self) -> FrameId {
        ManuallyDrop::new(self).frame
    }
}

impl Drop for SpareFrame<'_> {
    fn drop(&mut self) {
        self.pool.free.push(self.frame);
    }
}

/// A page id and a frame for a page that nobody can reach yet. Both go back when dropped (with nothing latched).
///
/// To use it: latch [`NewPage::page`], which cannot be held for long by anyone else; call
/// [`Pool::before_change`]; reserve the log record; format the page, its id included; [`NewPage::publish`]; only then
/// make it reachable.
pub(crate) struct NewPage<'a> {
    spare: SpareFrame<'a>,
    pid: PageId,
}

impl<'a> NewPage<'a> {
    /// Its id.
    pub fn pid(&self) -> PageId {
        self.pid
    }

    /// Its frame, with the rest of another page in it.
    pub fn frame_page(&self) -> FramePage<'a> {
        self.spare.pool.frame_page(self.spare.frame)
    }

    /// Its frame's memory.
    pub fn page(&self) -> Page<'a> {
        self.frame_page().page
    }

    /// Lets [`Pool::page`] find it. Never waits. Panics if [`Pool::before_change`] was not called, or if the page does
    /// not bear its id.
    pub fn publish(self) -> FramePage<'a> {
        let this = ManuallyDrop::new(self);
        let (pool, frame) = (this.spare.pool, this.spare.frame);
        assert!(pool.frames.rec_lsn(frame).is_some(), "F2: a new page is dirty");
        assert_eq!(this.page().id(), this.pid, "T1: a page in a frame bears its id");
        pool.directory.promises().settle(usize::from(this.page().header().low_len));
        pool.table.publish(this.pid, Entry::resident(frame, None));
        pool.frame_page(frame)
    }
}

impl Drop for NewPage<'_> {
    fn drop(&mut self) {
        let pool = self.spare.pool;
        let latch = self.page().latch().exclusive();
        self.page().set_id(PageId::NONE);
        pool.frames.forget(self.spare.frame);
        drop(latch);
        pool.directory.promises().give_back();
        pool.release_id(self.pid);
    }
}

impl Pool {
    /// Takes a free frame, waiting for one if need be.
    pub(super) fn reserve_frame(&self) -> Result<SpareFrame<'_>> {
        Ok(SpareFrame { pool: self, frame: self.take_frame()? })
    }

    /// The same, if there is one to be had without waiting.
    pub(super) fn frame_at_hand(&self) -> Option<SpareFrame<'_>> {
        self.find_frame().map(|frame| SpareFrame { pool: self, frame })
    }

    /// Takes a page id and a frame for a new page. May wait, so not under a latch.
    ///
    /// Errors: `Full` if the disk has no space for one page more, or all ids are in use; whatever kept the cleaner from
    /// providing a frame.
    pub fn allocate(&self) -> Result<NewPage<'_>> {
        let spare = self.reserve_frame()?;
        self.ensure_cleaning()?; // as in `page_to_change`
        let pid = match self.take_id() {
            // The dead keep their places until the directory has forgotten them, and a few of them wait until there are many.
            Err(Error::Full { .. }) => {
                self.waits.growth.time(|| self.bury_dead())?;
                self.take_id()? // if there are none left, somebody else may have buried them since
            }
            taken => taken?,
        };
        self.table.prepare(pid);
        Ok(NewPage { spare, pid })
    }

    /// A page id, with a slot and an entry in the directory promised.
    fn take_id(&self) -> Result<PageId> {
        self.promise_slot()?;
        let entry = with_space(&*self.wal, || self.directory.promise());
        entry.inspect_err(|_| self.room.give_back())?;
        self.ids.lock().take().inspect_err(|_| {
            self.directory.promises().give_back();
            self.room.give_back();
        })
    }

    /// Counts one page more, and grows the file for it if the cleaner has not done so in time.
    fn promise_slot(&self) -> Result<()> {
        self.room.promise();
        if self.room.is_low() {
            self.pace.ask();
        }
        if self.room.missing().is_none() {
            return Ok(());
        }
        self.waits.growth.time(|| self.grow_now()).inspect_err(|_| self.room.give_back())
    }

    /// Grows the file for the pages that were promised a slot.
    fn grow_now(&self) -> Result<()> {
        let mut cleaning = self.cleaning.lock();
        self.ensure_cleaning()?;
        let Some(missing) = self.room.missing() else { return Ok(()) }; // whoever had the lock has grown it
        with_space(&*self.wal, || self.leaves.grow(&mut cleaning.slots, &self.room, missing))
    }

    /// Grows the file if it is time to, so that those who allocate pages need not wait for it.
    pub(super) fn grow_ahead(&self) {
        if !self.room.is_low() {
            return;
        }
        let mut cleaning = self.cleaning.lock();
        let grow = |()| self.leaves.grow(&mut cleaning.slots, &self.room, 0);
        if self.ensure_cleaning().and_then(grow).is_err() {
            self.room.stay_low();
        }
    }

    /// The same for redo, which is told the id: the page's first record says so. `None` if the page exists.
    pub fn allocate_for_redo(&self, pid: PageId) -> Result<Option<NewPage<'_>>> {
        if SizeClass::of(pid) != Some(self.class) {
            return Err(Error::corrupt("log", format!("a record makes page {pid}, which cannot be")));
        }
        if self.table.load(pid).state() != State::Free {
            return Ok(None);
        }
        let spare = self.reserve_frame()?;
        // Redo is not refused: a page that was there before finds room again, or its cleaning says `Full`.
        self.room.promise();
        self.directory.promises().add();
        self.ids.lock().adopt(pid);
        self.table.prepare(pid);
        Ok(Some(NewPage { spare, pid }))
    }

    /// Redo has found the page dead: its frame becomes free at once, since nobody writes such a page out, nor frees it
    /// before all is redone, and there may be more of them than frames. On disk it is what it was, until it is freed.
    pub fn forget_dead(&self, pid: PageId) {
        assert_none_held("forgetting a dead page");
        while let State::Resident { frame, .. } = self.table.load(pid).state() {
            let page = self.frames.page(frame);
            let latch = page.latch().exclusive();
            if page.id() == pid && !page.is_dead() {
                latch.release_unchanged();
                return; // it was made anew
            }
            if page.id() == pid && !self.frames.is_being_written(frame) {
                let left = |entry: Entry| entry.slot().map_or(Entry::FREE, Entry::on_disk);
                let was = self.table.update(pid, left);
                let is_free = left(was) == Entry::FREE;
                self.empty(frame, latch, was);
                if is_free {
                    self.release_id(pid);
                }
                return;
            }
            latch.release_unchanged();
            drop(self.cleaning.lock()); // when the round is over, no image is on its way
        }
    }

    /// The page is unreachable and will never be used again: its slot, its frame and its id become free once the log
    /// is durable up to `after` (the end of the record that made it unreachable) and the directory has forgotten it.
    /// Until then it can still be read.
    pub fn free_page(&self, pid: PageId, after: Lsn) {
        assert_none_held("freeing a page");
        self.dead.lock().push_back(Dead { pid, after });
        if self.are_dead_many() {
            self.pace.ask();
        }
    }

    /// Do so many wait to be forgotten by the directory that the cleaner is to see to it?
    pub(super) fn are_dead_many(&self) -> bool {
        self.dead.lock().len() >= DEAD_MANY
    }

    /// As [`Pool::free_page`], for a page that is only on disk: it is not read for that, and nobody can read it any more. If it is
    /// in memory, nothing is done to it, and its frame is returned. `None`, too, if there is no such page.
    pub fn free_unread(&self, pid: PageId) -> Option<FramePage<'_>> {
        assert_none_held("freeing a page");
        loop {
            let entry = self.table.load(pid);
            match entry.state() {
                State::Free => return None,
                State::Loading(_) => self.wait_loaded(pid),
                State::Resident { frame, .. } => return Some(self.frame_page(frame)),
                State::OnDisk(slot) => {
                    if self.table.change(pid, entry, Entry::gone(slot)) {
                        // Its image was not written before the log was durable as far (C1 in `clean.rs`).
                        self.free_page(pid, Lsn::ZERO);
                        return None;
                    }
                }
            }
        }
    }

    /// The page is nobody's, as an opening has found, and nobody comes to it any more: not even who follows a made-up link,
    /// and would free it once more. Its slot and its id become free when the directory has forgotten it.
    pub fn discard(&self, pid: PageId) {
        assert_none_held("discarding a page");
        let cleaning = self.cleaning.lock();
        let was = self.take_out(pid, |entry| entry.slot().map_or(Entry::FREE, Entry::gone));
        drop(cleaning);
        if was.slot().is_some() {
            self.free_page(pid, Lsn::ZERO);
        } else if was != Entry::FREE {
            self.release_id(pid);
        }
    }

    /// Takes a page that the directory has forgotten out of table and frame, and gives its id back.
    pub(super) fn bury(&self, pid: PageId) -> Option<SlotId> {
        let was = self.take_out(pid, |_| Entry::FREE);
        assert!(was != Entry::FREE, "page {pid} was freed twice");
        self.release_id(pid);
        was.slot()
    }

    /// Takes a page out of its frame, and makes of its entry what `left` says. Returns the entry. The caller has the
    /// cleaner's mutex: no image of the page is on its way.
    fn take_out(&self, pid: PageId, left: impl Fn(Entry) -> Entry) -> Entry {
        loop {
            let entry = self.table.load(pid);
            match entry.state() {
                State::Loading(_) => self.wait_loaded(pid),
                State::Resident { frame, .. } => match self.vacate(frame, pid, &left) {
                    Some(entry) => return entry,
                    None => std::thread::yield_now(),
                },
                State::Free | State::OnDisk(_) => {
                    if entry == Entry::FREE || self.table.change(pid, entry, left(entry)) {
                        return entry;
                    }
                }
            }
        }
    }

    /// The id may be given to another page.
    fn release_id(&self, pid: PageId) {
        self.ids.lock().release(pid);
        self.room.give_back();
    }

    /// Empties the frame of a dead page, whatever its state. `None` if its latch is held, or if it just left.
    fn vacate(&self, frame: FrameId, pid: PageId, left: impl Fn(Entry) -> Entry) -> Option<Entry> {
        let page = self.frames.page(frame);
        let latch = page.latch().try_exclusive()?;
        if page.id() != pid {
            latch.release_unchanged();
            return None;
        }
        let entry = self.table.update(pid, left);
        self.empty(frame, latch, entry);
        Some(entry)
    }

    /// Makes a frame free whose page the table no longer has there, where the page's entry was `was`.
    fn empty(&self, frame: FrameId, latch: Exclusive<'_>, was: Entry) {
        let page = self.frames.page(frame);
        if was.slot().is_none() {
            self.directory.promises().forget(usize::from(page.header().low_len));
        }
        self.frames.forget(frame);
        page.set_id(PageId::NONE);
        drop(latch);
        self.free.push(frame);
    }
}
