//! The way in: pages that are only on disk.
//!
//! Source: Shore-MT §6.2.3, §7.6: pages in transit, in many small lists.
//! Differs: "in transit" is a state of the page's table entry; the lists are only where threads sleep.

use super::allocate::SpareFrame;
use super::table::{Entry, State};
use super::{FramePage, Pool};
use crate::error::{Error, Result};
use crate::page;
use foreshore_base::latch::assert_none_held;
use foreshore_base::sync::Ordering::*;
use foreshore_base::{FrameId, PageId, SlotId};
use parking_lot::{Condvar, Mutex};

const TRANSIT_SHARDS: usize = 64;

/// Where threads wait for pages that another thread is loading.
pub(super) struct Transit {
    shards: [(Mutex<()>, Condvar); TRANSIT_SHARDS],
}

impl Default for Transit {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Default::default()) }
    }
}

impl Transit {
    fn shard(&self, pid: PageId) -> &(Mutex<()>, Condvar) {
        &self.shards[pid.0 as usize % TRANSIT_SHARDS]
    }

    fn wait_while(&self, pid: PageId, in_transit: impl Fn() -> bool) {
        let (mutex, arrived) = self.shard(pid);
        let mut guard = mutex.lock();
        while in_transit() {
            arrived.wait(&mut guard);
        }
    }

    /// After the state changed. Taking the mutex makes sure that whoever saw the old state sleeps by now.
    fn wake(&self, pid: PageId) {
        let (mutex, arrived) = self.shard(pid);
        drop(mutex.lock());
        arrived.notify_all();
    }
}

/// A page in transit, and the frame that it is going to be in. Its end ends the transit, also if the thread that loads the
/// page panics: unless it has arrived, it is on disk, as before.
pub(super) struct Transfer<'a> {
    pool: &'a Pool,
    pid: PageId,
    slot: SlotId,
    /// Until it has arrived.
    spare: Option<SpareFrame<'a>>,
    /// What its table entry is to become.
    after: Entry,
}

impl Drop for Transfer<'_> {
    fn drop(&mut self) {
        let changed = self.pool.table.change(self.pid, Entry::loading(self.slot), self.after);
        assert!(changed, "T3: only the loader changes the entry of page {} in transit", self.pid);
        self.pool.transit.wake(self.pid);
    }
}

impl Pool {
    /// [`Pool::page`] of a page that is not resident and hot.
    #[cold]
    pub(super) fn page_slow(&self, pid: PageId) -> Result<Option<FramePage<'_>>> {
        assert_none_held("looking for a page that may be on disk");
        loop {
            let entry = self.table.load(pid);
            match entry.state() {
                State::Free => return Ok(None),
                State::Resident { .. } => return Ok(self.warm(pid, entry)),
                State::Loading(_) => self.wait_loaded(pid),
                State::OnDisk(slot) => {
                    if let Some(frame) = self.load(pid, slot)? {
                        return Ok(Some(self.frame_page(frame)));
                    }
                }
            }
        }
    }

    /// Waits for another thread's load.
    pub(super) fn wait_loaded(&self, pid: PageId) {
        let in_transit = || matches!(self.table.load(pid).state(), State::Loading(_));
        self.waits.read.time(|| self.transit.wait_while(pid, in_transit));
    }

    /// Loads a page into a frame. `None` if somebody else was quicker.
    fn load(&self, pid: PageId, slot: SlotId) -> Result<Option<FrameId>> {
        let Some(transfer) = self.begin_load(pid, slot, self.reserve_frame()?) else { return Ok(None) };
        match self.waits.read.time(|| self.leaves.read(slot)) {
            Ok(image) => {
                let frame = self.finish_load(transfer, Ok(&image))?;
                self.leaves.recycle(image);
                Ok(Some(frame))
            }
            Err(error) => self.finish_load(transfer, Err(error)).map(Some),
        }
    }

    /// Begins to load the first `most` of these pages that are only on disk, as long as there are frames to be had without a wait.
    pub(super) fn begin_loads(&self, pages: impl Iterator<Item = PageId>, most: usize) -> Vec<Transfer<'_>> {
        let mut begun = Vec::new();
        for pid in pages {
            let State::OnDisk(slot) = self.table.load(pid).state() else { continue };
            let Some(spare) = self.frame_at_hand() else { break };
            begun.extend(self.begin_load(pid, slot, spare));
            if begun.len() == most {
                break;
            }
        }
        begun
    }

    /// Loads these pages side by side. Nobody is told what came of it: who needs a page that did not arrive loads it, and meets an
    /// error of its own.
    pub(super) fn finish_loads(&self, mut begun: Vec<Transfer<'_>>) {
        begun.sort_unstable_by_key(|transfer| transfer.slot.0);
        let slots: Vec<SlotId> = begun.iter().map(|transfer| transfer.slot).collect();
        let mut begun: Vec<_> = begun.into_iter().map(Some).collect();
        self.leaves.read_many(&slots, |at, image| {
            let transfer = begun[at].take().expect("a slot is read once");
            let loaded = self.finish_load(transfer, image);
            self.counters.ahead.fetch_add(u64::from(loaded.is_ok()), Relaxed);
        });
    }

    /// From now on the page is in transit. `None` if somebody else was quicker. As long as the transfer lives, whoever needs
    /// the page waits for it.
    pub(super) fn begin_load<'a>(
        &'a self,
        pid: PageId,
        slot: SlotId,
        spare: SpareFrame<'a>,
    ) -> Option<Transfer<'a>> {
        let begun = self.table.change(pid, Entry::on_disk(slot), Entry::loading(slot));
        begun.then(|| Transfer { pool: self, pid, slot, spare: Some(spare), after: Entry::on_disk(slot) })
    }

    /// The page has arrived in its frame, or not.
    fn finish_load(&self, mut transfer: Transfer<'_>, image: Result<&[u8]>) -> Result<FrameId> {
        let spare = transfer.spare.take().expect("it has not arrived");
        self.fill(transfer.pid, transfer.slot, spare.frame(), image?)?;
        let frame = spare.into_used();
        transfer.after = Entry::resident(frame, Some(transfer.slot));
        Ok(frame)
    }

    /// Verifies the image, and puts it into a frame that no one can find yet.
    fn fill(&self, pid: PageId, slot: SlotId, frame: FrameId, image: &[u8]) -> Result<()> {
        page::verify(image, pid).map_err(|detail| {
            Error::corrupt(format!("page {pid} in slot {slot} of {}", self.leaves.name()), detail)
        })?;
        let page = self.frames.page(frame);
        // The latch can be held only by a stale reader on its way out.
        let latch = page.latch().exclusive();
        page::load(image, page);
        drop(latch);
        self.counters.loads.fetch_add(1, Relaxed);
        Ok(())
    }
}
