//! A 3-ary cuckoo hash table, looked up without latches, whose pages are pinned if they are pinned.
//!
//! Source: Shore-MT §6.2.1, §6.2.3; Fotakis et al. (STACS 2003) for three functions; MemC3 (Fan et al., NSDI 2013) for
//! looking for a way before anything is moved.
//!
//! Each of three hash functions names one place for a page, in its own third of the table. A place is one word: page, frame,
//! and a latch that protects the word. A lookup reads up to three words and then pins the frame by compare-and-swap, *if
//! somebody has it pinned already*. Otherwise it latches the place, sees that the entry is still there, and pins. A page
//! without a free place gets one by moving others along, each to another of its own three places. If that does not end, the
//! pool being merely a cache, a page nobody uses has to leave one of the three. If they are all in use, the page is refused.
//!
//! Why a pin is never on another page than asked for, and never on one that leaves (B2):
//!
//! - C1: an entry is in one place at most, or, while it is moved, in two that are both latched. A frame is in one entry at most,
//!   and before it is in one, its page is in it and it has no pins.
//! - C2: pins grow from zero only under the latch of the place that has the frame's entry. An entry is taken out only under the same
//!   latch, and only if there are no pins then. So a frame that is pinned stays in the table with its page, and pins of a frame
//!   that is not in the table stay zero.
//! - C3: so who pins under the latch has seen that the frame has his page. Who pins a pinned frame has pinned *some* page, by C2;
//!   which one can no longer change, and he looks. If it is another one, since his entry was stale, he takes the pin back.
//!   Until then, that page's eviction was put off needlessly, which harms nobody.
//!
//! What a lookup without latches can miss is a page that is moved from a place not yet looked at to one looked at already. Who
//! then brings the page in latches all three places, finds it, and keeps the frame (B1).
//!
//! Latches are taken in the order of places: a page's are in ascending order, since the thirds are.
//!
//! Differs: the paper takes an entry out to put another in; here they are moved from the end of the way, so that each stays
//! findable. Its hash functions are each three universal ones combined; here they are the mixer of SplitMix64.

use super::{BufferTable, Fixed, Frame, Frames, Spare};
use crate::wait::until;
use crossbeam_utils::CachePadded;
use foreshore_base::{FrameId, PageId};
use foreshore_workloads::random::{Random, below, mix};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// Hash functions, and thirds of the table.
const WAYS: usize = 3;
/// Entries that are moved for one page at most, and how often a way is looked for.
const STEPS_MAX: usize = 32;
const WALKS_MAX: u64 = 8;

/// Latched (1 bit) | frame (31) | page (32). No page: 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry(u64);

const LATCHED: u64 = 1 << 63;
const FRAME_SHIFT: u32 = 32;

impl Entry {
    const EMPTY: Self = Self(0);

    fn new(page: PageId, frame: FrameId) -> Self {
        Self(u64::from(frame.0) << FRAME_SHIFT | page.0)
    }

    #[inline]
    fn page(self) -> PageId {
        PageId(self.0 & ((1 << FRAME_SHIFT) - 1))
    }

    #[inline]
    fn frame(self) -> FrameId {
        FrameId((self.0 >> FRAME_SHIFT) as u32)
    }
}

/// Room for one entry.
struct Place(AtomicU64);

impl Place {
    /// The entry, which may be gone by now.
    #[inline]
    fn look(&self) -> Entry {
        // ORDERING: nothing follows from an entry without a pin, which looks again.
        Entry(self.0.load(Relaxed) & !LATCHED)
    }

    fn latch(&self) -> Held<'_> {
        let mut entry = Entry::EMPTY;
        until(|| {
            entry = self.look();
            // ORDERING: what was done under the latch before happened before what we do; pairs with `drop`.
            self.0.compare_exchange_weak(entry.0, entry.0 | LATCHED, Acquire, Relaxed).is_ok()
        });
        Held { place: self, entry }
    }
}

/// A latched place. Its entry is what others find once this is dropped.
struct Held<'a> {
    place: &'a Place,
    entry: Entry,
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        // ORDERING: who latches next sees the frame's page, and all pins that were added under this latch.
        self.place.0.store(self.entry.0, Release);
    }
}

/// Adds a pin unless there is none.
#[inline]
fn pin_if_pinned(pins: &AtomicU32) -> bool {
    let mut count = pins.load(Relaxed);
    while count != 0 {
        // ORDERING: pairs with the pin under the latch, which saw the frame's page: only such a pin makes another of zero, and
        // since then, pins were only changed by read-modify-writes, which hand on what it released.
        match pins.compare_exchange_weak(count, count + 1, Acquire, Relaxed) {
            Ok(_) => return true,
            Err(now) => count = now,
        }
    }
    false
}

#[inline]
fn unpin(pins: &AtomicU32) {
    // ORDERING: what was read of the page was read before it may be evicted; pairs with `give_up`.
    pins.fetch_sub(1, Release);
}

/// The cuckoo table.
pub struct Cuckoo {
    frames: Frames,
    /// Three thirds.
    places: Box<[Place]>,
}

impl Cuckoo {
    /// A table of three times so many places.
    pub(super) fn with_third(frames: Frames, third: usize) -> Self {
        assert!(frames.len() <= 1 << (63 - FRAME_SHIFT), "a frame has 31 bits");
        Self { frames, places: (0..WAYS * third).map(|_| Place(AtomicU64::new(Entry::EMPTY.0))).collect() }
    }

    /// Where the hash function number `way` puts `page`.
    #[inline]
    fn at(&self, page: PageId, way: usize) -> usize {
        let third = self.places.len() / WAYS;
        way * third + below(mix((way as u64 + 1) << FRAME_SHIFT | page.0), third as u64) as usize
    }

    /// The first place that seems to have `page`.
    #[inline]
    fn promise(&self, page: PageId) -> Option<(&Place, Entry)> {
        let places = (0..WAYS).map(|way| &self.places[self.at(page, way)]);
        places.map(|place| (place, place.look())).find(|(_, entry)| entry.page() == page)
    }

    fn pins(&self, entry: Entry) -> &AtomicU32 {
        &self.frames[entry.frame().0 as usize].pins
    }

    /// Pins the page of an entry that `place` had just now, if it is where that said (C3).
    #[inline]
    fn pin(&self, place: &Place, entry: Entry) -> Option<Fixed> {
        let (page, frame) = (entry.page(), entry.frame());
        let pins = self.pins(entry);
        let fixed = || Fixed { page, frame, version: 0 };
        if pin_if_pinned(pins) {
            if self.frames[frame.0 as usize].page() == page {
                return Some(fixed());
            }
            unpin(pins);
            return None;
        }
        let held = place.latch();
        (held.entry == entry).then(|| {
            // ORDERING: hands on to `pin_if_pinned` what the latch showed us.
            pins.fetch_add(1, Release);
            fixed()
        })
    }

    /// The frame of a latched entry, if nobody has it pinned: then nobody can (C2). The entry must go before the latch does.
    fn give_up(&self, held: &Held<'_>) -> Option<Spare> {
        // ORDERING: all who had the page have read what they read; pairs with `unpin`.
        let pinned = self.pins(held.entry).load(Acquire) > 0;
        (!pinned).then(|| Spare(held.entry.frame()))
    }

    /// Takes out an entry that `place` had just now, if it is there still and nobody has its page pinned.
    fn take(&self, place: &Place, entry: Entry) -> Option<Spare> {
        let mut held = place.latch();
        if held.entry != entry {
            return None;
        }
        let spare = self.give_up(&held)?;
        held.entry = Entry::EMPTY;
        Some(spare)
    }

    /// Moves entries along, so that one of the places of `page` becomes free. The way goes at random from an entry's place to another
    /// of its places; it may lead nowhere, or others may change it meanwhile.
    fn make_room(&self, page: PageId, walk: u64) {
        let mut random = Random::new(page.0, walk);
        let mut way = Vec::with_capacity(STEPS_MAX);
        let mut at = self.at(page, random.below(WAYS as u64) as usize);
        let mut entry = self.places[at].look();
        while entry != Entry::EMPTY {
            if way.len() == STEPS_MAX {
                return;
            }
            way.push((at, entry));
            let turn = 1 + random.below(WAYS as u64 - 1) as usize;
            at = self.at(entry.page(), (at / (self.places.len() / WAYS) + turn) % WAYS);
            entry = self.places[at].look();
        }
        for (from, entry) in way.into_iter().rev() {
            if !self.shift(entry, from, at) {
                return;
            }
            at = from;
        }
    }

    /// Moves `entry` to another of its places, if it is still there and that is free.
    fn shift(&self, entry: Entry, from: usize, to: usize) -> bool {
        let low = self.places[from.min(to)].latch();
        let high = self.places[from.max(to)].latch();
        let (mut source, mut target) = if from < to { (low, high) } else { (high, low) };
        if source.entry != entry || target.entry != Entry::EMPTY {
            return false;
        }
        (source.entry, target.entry) = (Entry::EMPTY, entry);
        // Who looks without a latch sees the entry twice rather than not at all.
        drop(target);
        true
    }
}

impl BufferTable for Cuckoo {
    const NAME: &str = "cuckoo, pin-if-pinned";
    const PINS: bool = true;

    /// Half of the places stay free.
    fn new(frames: Frames, pages: u64) -> Self {
        assert!(pages < 1 << FRAME_SHIFT, "a page has 32 bits");
        let third = (2 * frames.len()).div_ceil(WAYS);
        Self::with_third(frames, third)
    }

    fn frames(&self) -> &[CachePadded<Frame>] {
        &self.frames
    }

    #[inline]
    fn fix(&self, page: PageId) -> Option<Fixed> {
        loop {
            let (place, entry) = self.promise(page)?;
            if let Some(fixed) = self.pin(place, entry) {
                return Some(fixed);
            }
        }
    }

    #[inline]
    fn unfix(&self, fixed: Fixed) -> bool {
        unpin(&self.frames[fixed.frame.0 as usize].pins);
        true
    }

    fn load(&self, page: PageId, spare: Spare) -> Option<Spare> {
        self.frames[spare.0.0 as usize].fill(page);
        let entry = Entry::new(page, spare.0);
        for walk in 0.. {
            let mut held: [_; WAYS] = std::array::from_fn(|way| self.places[self.at(page, way)].latch());
            if held.iter().any(|held| held.entry.page() == page) {
                return Some(spare);
            }
            if let Some(free) = held.iter_mut().find(|held| held.entry == Entry::EMPTY) {
                free.entry = entry;
                return None;
            }
            if walk == WALKS_MAX {
                let given_up = held.iter_mut().find_map(|held| {
                    let spare = self.give_up(held)?;
                    held.entry = entry;
                    Some(spare)
                });
                return Some(given_up.unwrap_or(spare));
            }
            drop(held);
            self.make_room(page, walk);
        }
        unreachable!("the last walk returns")
    }

    fn evict(&self, page: PageId) -> Option<Spare> {
        let (place, entry) = self.promise(page)?;
        self.take(place, entry)
    }

    fn entries(&self) -> Vec<(PageId, FrameId)> {
        let entries = self.places.iter().map(Place::look).filter(|entry| *entry != Entry::EMPTY);
        entries.map(|entry| (entry.page(), entry.frame())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::new_frames;
    use super::*;

    /// A table of `frames` frames, of which the first have pages 1, 2, 3 …
    fn filled(frames: usize) -> Cuckoo {
        let table = Cuckoo::new(new_frames(frames), 100);
        for page in 1..=frames as u32 {
            assert!(table.load(PageId(page.into()), Spare(FrameId(page - 1))).is_none());
        }
        table
    }

    fn pins(table: &Cuckoo, frame: u32) -> u32 {
        table.frames[frame as usize].pins.load(Relaxed)
    }

    /// C3: an entry that was read before its frame got another page leads to no pin, whether that page is pinned or not, and to no
    /// eviction.
    #[test]
    fn a_stale_entry_leads_nowhere() {
        let table = filled(4);
        let (place, stale) = table.promise(PageId(2)).unwrap();
        let spare = table.evict(PageId(2)).unwrap();
        assert!(table.pin(place, stale).is_none(), "the frame holds nothing");
        assert!(table.take(place, stale).is_none(), "it was taken already");
        assert!(table.load(PageId(9), spare).is_none());
        assert!(table.pin(place, stale).is_none(), "the frame holds an unpinned page");
        assert!(table.take(place, stale).is_none(), "that page was not asked for");
        let other = table.fix(PageId(9)).unwrap();
        assert_eq!(other.frame, stale.frame());
        assert!(table.pin(place, stale).is_none(), "the frame holds a pinned page");
        assert_eq!(pins(&table, other.frame.0), 1);
        assert!(table.unfix(other));
        assert_eq!(pins(&table, stale.frame().0), 0);
    }

    /// C2: the first pin waits for the latch of its place, and the next ones do not.
    #[test]
    fn only_the_first_pin_needs_the_latch() {
        let table = filled(4);
        let (place, entry) = table.promise(PageId(3)).unwrap();
        let first = table.fix(PageId(3)).unwrap();
        let held = place.latch();
        let second = table.fix(PageId(3)).unwrap();
        assert_eq!(pins(&table, 2), 2);
        assert!(table.give_up(&held).is_none());
        assert!(table.unfix(first) && table.unfix(second));
        std::thread::scope(|scope| {
            let late = scope.spawn(|| table.fix(PageId(3)));
            // While we have the latch and no pins are seen, there will be none.
            for _ in 0..100 {
                std::thread::yield_now();
                assert_eq!(pins(&table, 2), 0);
            }
            assert_eq!(table.give_up(&held).map(|spare| spare.0), Some(entry.frame()));
            let mut held = held;
            held.entry = Entry::EMPTY;
            drop(held);
            assert!(late.join().unwrap().is_none(), "the page has left");
        });
        assert_eq!(pins(&table, 2), 0);
    }

    /// C1: an entry is moved only if it is what was seen, and only to where nothing is.
    #[test]
    fn an_entry_moves_to_a_free_place_or_stays() {
        let table = filled(1);
        let [first, second, third] = std::array::from_fn(|way| table.at(PageId(1), way));
        let entry = table.places[first].look();
        assert_eq!(entry, Entry::new(PageId(1), FrameId(0)));
        assert!(table.shift(entry, first, third) && table.shift(entry, third, second));
        assert!(!table.shift(entry, first, third), "it is not there");
        let other = Entry::new(PageId(7), FrameId(0));
        table.places[third].latch().entry = other;
        assert!(!table.shift(entry, second, third), "another is there");
        assert!(table.places[second].look() == entry && table.places[third].look() == other);
        assert!(table.places[first].look() == Entry::EMPTY);
    }

    /// Where all places of a page are taken and no way ends, one that nobody uses makes room, and only that.
    #[test]
    fn a_full_table_gives_up_what_nobody_uses() {
        let table = Cuckoo::with_third(new_frames(4), 1);
        for page in 1..=3 {
            assert!(table.load(PageId(page), Spare(FrameId(page as u32 - 1))).is_none());
        }
        let pinned = [1, 3].map(|page| table.fix(PageId(page)).unwrap());
        let left_over = table.load(PageId(4), Spare(FrameId(3))).unwrap();
        assert_eq!(left_over.0, FrameId(1), "page 2 has left");
        assert!(table.fix(PageId(2)).is_none());
        let last = table.fix(PageId(4)).unwrap();
        let refused = table.load(PageId(2), left_over).unwrap();
        assert_eq!(refused.0, FrameId(1), "all are pinned: the frame comes back");
        assert!(pinned.into_iter().chain([last]).all(|fixed| table.unfix(fixed)));
        assert!(table.load(PageId(2), refused).is_some_and(|spare| spare.0 != FrameId(1)));
    }
}
