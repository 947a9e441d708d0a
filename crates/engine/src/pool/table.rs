//! Where a page is: one atomic word per page id.
//!
//! Why: looking a page up must cost one dependent load and write nothing. A hash table needs latches or probes, and
//! pointer swizzling needs to find the parent at eviction.
//! Source: Shore-MT §6.2 and §7.6 (hash table, pin-if-pinned, in-transit lists), replaced by one flat array.
//! Differs: no pins at all. A frame's own latch and page id tell a reader that the frame was given away.
//!
//! ```text
//!                 allocate+publish                      clean: new slot
//!       Free ───────────────────────────▶ Resident ◀──────────────┐
//!        ▲                                │  ▲  │ └───────────────┘
//!        │ Free record durable            │  │  │ evict: clean, cool, has a slot
//!        ├────────────────────────────────┘  │  ▼
//!        └──────────────────────────────── OnDisk ──▶ Loading ──▶ Resident | OnDisk (failed)
//! ```
//!
//! A page that is freed without being read (a dropped table's) is Free at once, and its entry still names the slot, as the
//! directory does until the Free record is durable.
//!
//! `cool` is the clock's mark on a resident page: the hand sets it, the next reader takes it away with one
//! compare-exchange, and a page still cool on the hand's second visit may go. So a page in use is written to at most
//! once per lap of the hand, and never while frames are plenty.
//!
//! Invariants:
//! - T1: an entry names a frame only from when the frame holds the page until its latch has been taken to give it
//!   away; the frame's id says [`PageId::NONE`] before that latch is open again.
//! - T2: only the cleaner changes the slot of an entry, and only to one that the directory already holds.
//! - T3: every change is one compare-exchange from the entry that was judged, so no judgement is ever stale. The one
//!   plain store is the publication of a page that nobody can reach yet.

use super::size::{PAGES_MAX, SizeClass};
use crate::stage;
use foreshore_base::sync::{AtomicU64, Ordering::*};
use foreshore_base::{FrameId, PageId, SlotId};
use std::sync::OnceLock;

/// Slots are numbered below this: as many as all pages need twice.
pub(super) const SLOTS_MAX: u64 = (1 << (u64::BITS - SLOT_SHIFT)) - 1;

/// Frames are numbered below this.
pub(super) const FRAMES_MAX: usize = 1 << FRAME_BITS;

const CHUNK_PAGES: u64 = 1 << 16;
const STATE_MASK: u64 = 0b11;
const FREE: u64 = 0;
const ON_DISK: u64 = 1;
const LOADING: u64 = 2;
const RESIDENT: u64 = 3;
const COOL: u64 = 1 << 2;
const FRAME_SHIFT: u32 = 3;
const FRAME_BITS: u32 = 28;
const FRAME_MASK: u64 = (1 << FRAME_BITS) - 1;
/// The slot is stored plus one; zero means "none".
const SLOT_SHIFT: u32 = FRAME_SHIFT + FRAME_BITS;

/// One word of the table: state (2 bits) | cool (1) | frame (28) | slot + 1 (33).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry(u64);

/// What an [`Entry`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No such page, though perhaps a slot that the directory still names for it.
    Free,
    /// Only in this slot.
    OnDisk(SlotId),
    /// Being read from this slot; wait for it.
    Loading(SlotId),
    /// In this frame, and, unless it was never written, in this slot too (perhaps older).
    Resident { frame: FrameId, slot: Option<SlotId>, cool: bool },
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.state().fmt(f)
    }
}

impl Entry {
    /// No such page.
    pub const FREE: Entry = Entry(FREE);

    /// No such page any more; the directory still names this slot for it.
    pub fn gone(slot: SlotId) -> Self {
        Entry(FREE | (slot.0 + 1) << SLOT_SHIFT)
    }

    /// The page is only in `slot`.
    pub fn on_disk(slot: SlotId) -> Self {
        Entry(ON_DISK | (slot.0 + 1) << SLOT_SHIFT)
    }

    /// The page is being read from `slot`.
    pub fn loading(slot: SlotId) -> Self {
        Entry(LOADING | (slot.0 + 1) << SLOT_SHIFT)
    }

    /// The page is in `frame`, and was last written to `slot`.
    pub fn resident(frame: FrameId, slot: Option<SlotId>) -> Self {
        let slot = slot.map_or(0, |slot| slot.0 + 1);
        Entry(RESIDENT | u64::from(frame.0) << FRAME_SHIFT | slot << SLOT_SHIFT)
    }

    /// The frame, if the page is resident and not cool: the one question of the hot path.
    #[inline]
    pub fn hot(self) -> Option<FrameId> {
        (self.0 & (STATE_MASK | COOL) == RESIDENT).then(|| self.frame())
    }

    /// Is the page only on disk?
    #[inline]
    pub fn is_on_disk(self) -> bool {
        self.0 & STATE_MASK == ON_DISK
    }

    #[inline]
    fn frame(self) -> FrameId {
        FrameId((self.0 >> FRAME_SHIFT & FRAME_MASK) as u32)
    }

    /// The same resident page, marked by the clock.
    pub fn cooled(self) -> Self {
        Entry(self.0 | COOL)
    }

    /// The same resident page, in use again.
    pub fn warmed(self) -> Self {
        Entry(self.0 & !COOL)
    }

    /// The same resident page after it was written to `slot`.
    pub fn with_slot(self, slot: SlotId) -> Self {
        Entry(self.0 & ((1 << SLOT_SHIFT) - 1) | (slot.0 + 1) << SLOT_SHIFT)
    }

    /// The slot that holds the page's last durable image.
    pub fn slot(self) -> Option<SlotId> {
        (self.0 >> SLOT_SHIFT).checked_sub(1).map(SlotId)
    }

    /// Decodes the word.
    pub fn state(self) -> State {
        let slot = || self.slot().expect("a page on disk has a slot");
        match self.0 & STATE_MASK {
            ON_DISK => State::OnDisk(slot()),
            LOADING => State::Loading(slot()),
            RESIDENT => State::Resident { frame: self.frame(), slot: self.slot(), cool: self.0 & COOL != 0 },
            _ => State::Free,
        }
    }
}

/// The entries of all pages of one size, in chunks that appear when their first page does and stay for ever.
pub(super) struct PageTable {
    /// Page ids count from here.
    base: PageId,
    chunks: Box<[OnceLock<Box<[AtomicU64]>>]>,
}

impl PageTable {
    /// A table in which every page of this class is free.
    pub fn new(class: SizeClass) -> Self {
        let chunks = (0..PAGES_MAX / CHUNK_PAGES).map(|_| OnceLock::new()).collect();
        Self { base: class.base(), chunks }
    }

    #[inline]
    fn word(&self, pid: PageId) -> Option<&AtomicU64> {
        // Ids of other classes lie behind the last chunk, those of lower ones by wrapping.
        let number = pid.0.wrapping_sub(self.base.0);
        let chunk = self.chunks.get((number / CHUNK_PAGES) as usize)?.get()?;
        Some(&chunk[(number % CHUNK_PAGES) as usize])
    }

    /// The entry of `pid`; free for any number that never was a page.
    #[inline]
    pub fn load(&self, pid: PageId) -> Entry {
        let _old = stage::enter(stage::Old::Pool(pid.0));
        // ORDERING: Acquire pairs with the release that made the page resident: its frame is filled.
        self.word(pid).map_or(Entry::FREE, |word| Entry(word.load(Acquire)))
    }

    /// Makes sure that `pid` has an entry. May allocate memory, so not under a latch. Panics if the page is of
    /// another class.
    pub fn prepare(&self, pid: PageId) {
        let number = pid.0.wrapping_sub(self.base.0);
        assert!(number < PAGES_MAX, "page id {pid} is beyond the page table");
        self.chunks[(number / CHUNK_PAGES) as usize]
            .get_or_init(|| (0..CHUNK_PAGES).map(|_| AtomicU64::new(FREE)).collect());
    }

    /// Replaces the entry of a page, if it still is `from` (T3).
    pub fn change(&self, pid: PageId, from: Entry, to: Entry) -> bool {
        let Some(word) = self.word(pid) else { return false };
        // ORDERING: Release publishes the frame's contents; Acquire lets the winner see them.
        word.compare_exchange(from.0, to.0, AcqRel, Relaxed).is_ok()
    }

    /// Replaces the entry of a page by what `to` makes of it, however often others change it meanwhile. Returns the
    /// entry replaced.
    pub fn update(&self, pid: PageId, to: impl Fn(Entry) -> Entry) -> Entry {
        loop {
            let from = self.load(pid);
            if self.change(pid, from, to(from)) {
                return from;
            }
        }
    }

    /// Stores the first entry of a page that nobody can reach yet. Its place was [prepared](Self::prepare).
    pub fn publish(&self, pid: PageId, entry: Entry) {
        let word = self.word(pid).expect("a page is prepared before it is published");
        debug_assert_eq!(word.load(Relaxed), FREE, "page {pid} is in use");
        word.store(entry.0, Release);
    }

    /// All pages that are not free.
    #[cfg(test)]
    pub fn pages(&self) -> impl Iterator<Item = (PageId, Entry)> + '_ {
        let chunks = self.chunks.iter().enumerate().filter_map(|(i, chunk)| Some((i as u64, chunk.get()?)));
        chunks
            .flat_map(move |(i, chunk)| {
                let first = self.base.0 + i * CHUNK_PAGES;
                (0..CHUNK_PAGES).map(move |j| (PageId(first + j), Entry(chunk[j as usize].load(Acquire))))
            })
            .filter(|(_, entry)| *entry != Entry::FREE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_hold_the_largest_ids() {
        let (frame, slot) = (FrameId((1 << 28) - 1), SlotId((1 << 33) - 2));
        let entry = Entry::resident(frame, Some(slot));
        assert_eq!(entry.state(), State::Resident { frame, slot: Some(slot), cool: false });
        assert_eq!(entry.hot(), Some(frame));
        assert_eq!(entry.cooled().hot(), None);
        assert_eq!(entry.cooled().warmed(), entry);
        assert_eq!(Entry::resident(frame, None).with_slot(slot), entry);
        assert_eq!(Entry::on_disk(slot).state(), State::OnDisk(slot));
        assert_eq!(Entry::loading(SlotId(0)).state(), State::Loading(SlotId(0)));
        assert_eq!(Entry::FREE.state(), State::Free);
        let gone = Entry::gone(slot);
        assert_eq!((gone.state(), gone.slot(), gone.is_on_disk()), (State::Free, Some(slot), false));
    }

    #[test]
    fn chunks_appear_on_demand() {
        let table = PageTable::new(SizeClass::OWN);
        assert_eq!(table.load(PageId(70_000)), Entry::FREE);
        assert_eq!(table.load(PageId(u64::MAX)), Entry::FREE);
        table.prepare(PageId(70_000));
        table.publish(PageId(70_000), Entry::on_disk(SlotId(3)));
        assert!(!table.change(PageId(70_000), Entry::FREE, Entry::on_disk(SlotId(4))));
        assert_eq!(table.pages().collect::<Vec<_>>(), [(PageId(70_000), Entry::on_disk(SlotId(3)))]);
        assert_eq!(table.update(PageId(70_000), |_| Entry::FREE), Entry::on_disk(SlotId(3)));
        assert_eq!(table.pages().count(), 0);
    }

    #[test]
    fn a_table_knows_its_class_only() {
        let class = SizeClass::of_bytes(16384, 8192);
        let (table, pid) = (PageTable::new(class), PageId(class.base().0 + 5));
        table.prepare(pid);
        table.publish(pid, Entry::on_disk(SlotId(3)));
        assert_eq!(table.load(pid), Entry::on_disk(SlotId(3)));
        for other in [5, pid.0 - PAGES_MAX, pid.0 + PAGES_MAX, u64::MAX] {
            assert_eq!(table.load(PageId(other)), Entry::FREE, "{other}");
        }
        assert_eq!(table.pages().collect::<Vec<_>>(), [(pid, Entry::on_disk(SlotId(3)))]);
    }
}
