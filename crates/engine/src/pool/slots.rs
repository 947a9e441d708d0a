//! Which slots of the leaf file are free.
//!
//! Why: a new image goes to a slot that the directory does not name; consecutive slots make one large write. The map
//! is derived from the directory at open and never logged.
//! Source: Shore-MT §6.1–6.2, §7.3: space in extents of eight pages, taken whole.
//! Differs: the paper caches extents per thread; here only the one cleaning round at a time allocates, so the map needs
//! no cache and no lock of its own.
//!
//! Invariant:
//! - S1: a slot is free here only if no durable directory state that recovery could meet names it.

use foreshore_base::SlotId;
use std::ops::Range;

/// Slots per extent: one byte of the map.
pub(super) const EXTENT_SLOTS: u64 = 8;
const FULL: u8 = u8::MAX;

/// So many extents are looked at for whole ones, for each slot wanted: a file that is changed here and there has hardly any, and to
/// go once around a large one takes longer than to write what is wanted.
const LOOKS_PER_SLOT: usize = 8;

/// A bit per slot, a byte per extent; 1 = in use.
pub(super) struct Slots {
    extents: Vec<u8>,
    free: u64,
    /// The extent where the next search begins.
    cursor: usize,
}

impl Slots {
    /// `capacity` free slots, rounded down to whole extents.
    pub fn new(capacity: u64) -> Self {
        let extents = (capacity / EXTENT_SLOTS) as usize;
        Self { extents: vec![0; extents], free: extents as u64 * EXTENT_SLOTS, cursor: 0 }
    }

    /// How many slots there are.
    pub fn capacity(&self) -> u64 {
        self.extents.len() as u64 * EXTENT_SLOTS
    }

    /// How many of them are free.
    pub fn free(&self) -> u64 {
        self.free
    }

    /// The file has become longer.
    pub fn grow(&mut self, capacity: u64) {
        let (before, extents) = (self.extents.len(), (capacity / EXTENT_SLOTS) as usize);
        assert!(extents >= before, "the leaf file never shrinks while open");
        self.extents.resize(extents, 0);
        self.free += (extents - before) as u64 * EXTENT_SLOTS;
        self.cursor = before;
    }

    /// Marks a slot as used. `false` if it is already, or lies beyond the end.
    #[must_use]
    pub fn occupy(&mut self, slot: SlotId) -> bool {
        let bit = 1 << (slot.0 % EXTENT_SLOTS);
        match self.extents.get_mut((slot.0 / EXTENT_SLOTS) as usize) {
            Some(extent) if *extent & bit == 0 => *extent |= bit,
            _ => return false,
        }
        self.free -= 1;
        true
    }

    /// Takes `count` slots as runs: whole extents as long as there are any near, then holes. `None` if fewer are free.
    pub fn take(&mut self, count: u64) -> Option<Vec<Range<u64>>> {
        if count > self.free {
            return None;
        }
        let mut taken = Runs { missing: count, runs: Vec::new() };
        let looks_max = (count as usize).saturating_mul(LOOKS_PER_SLOT);
        self.sweep(&mut taken, looks_max, |extent| extent == 0);
        self.sweep(&mut taken, usize::MAX, |extent| extent != FULL);
        debug_assert_eq!(taken.missing, 0, "the count of free slots is right");
        self.free -= count;
        Some(taken.runs)
    }

    /// Goes over so many extents from the cursor, but no more than one lap, taking the free slots of those that `suits`.
    fn sweep(&mut self, taken: &mut Runs, looks_max: usize, suits: impl Fn(u8) -> bool) {
        for _ in 0..self.extents.len().min(looks_max) {
            if taken.missing == 0 {
                return;
            }
            if self.cursor >= self.extents.len() {
                self.cursor = 0;
            }
            let extent = &mut self.extents[self.cursor];
            if suits(*extent) {
                taken.fill(extent, self.cursor as u64 * EXTENT_SLOTS);
            }
            if *extent == FULL || taken.missing > 0 {
                self.cursor += 1;
            }
        }
    }

    /// Gives a slot back. The caller upholds S1. Panics if it is free already.
    pub fn release(&mut self, slot: SlotId) {
        let bit = 1 << (slot.0 % EXTENT_SLOTS);
        let extent = &mut self.extents[(slot.0 / EXTENT_SLOTS) as usize];
        assert!(*extent & bit != 0, "S1: slot {slot} was given back twice");
        *extent &= !bit;
        self.free += 1;
    }
}

/// Slots collected by [`Slots::take`]: adjoining ones become one run.
struct Runs {
    missing: u64,
    runs: Vec<Range<u64>>,
}

impl Runs {
    fn fill(&mut self, extent: &mut u8, first: u64) {
        for i in 0..EXTENT_SLOTS {
            if self.missing > 0 && *extent & 1 << i == 0 {
                *extent |= 1 << i;
                self.push(first + i);
            }
        }
    }

    fn push(&mut self, slot: u64) {
        self.missing -= 1;
        match self.runs.last_mut() {
            Some(run) if run.end == slot => run.end += 1,
            _ => self.runs.push(slot..slot + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::time::{Duration, Instant};

    #[test]
    fn whole_extents_come_first_and_as_one_run() {
        let mut slots = Slots::new(32);
        assert!(slots.occupy(SlotId(3)));
        assert!(!slots.occupy(SlotId(3)));
        assert!(!slots.occupy(SlotId(32)));
        assert_eq!(slots.take(20).as_deref(), Some(std::slice::from_ref(&(8..28))));
        assert_eq!(slots.take(11), Some(vec![28..32, 0..3, 4..8]));
        assert_eq!(slots.take(1), None);
        slots.grow(40);
        assert_eq!(slots.take(2).as_deref(), Some(std::slice::from_ref(&(32..34))));
    }

    proptest! {
        /// No slot is ever handed out twice, and none is lost.
        #[test]
        fn agrees_with_a_set(steps in proptest::collection::vec((0u64..20, any::<bool>()), 1..100)) {
            let mut slots = Slots::new(64);
            let mut used = BTreeSet::new();
            for (n, take) in steps {
                if take {
                    match slots.take(n) {
                        Some(runs) => {
                            prop_assert_eq!(runs.iter().map(|r| r.end - r.start).sum::<u64>(), n);
                            for slot in runs.into_iter().flatten() {
                                prop_assert!(slot < 64 && used.insert(slot));
                            }
                        }
                        None => prop_assert!(n > 64 - used.len() as u64),
                    }
                } else if let Some(slot) = used.iter().nth(n as usize % used.len().max(1)).copied() {
                    used.remove(&slot);
                    slots.release(SlotId(slot));
                }
                prop_assert_eq!(slots.free(), 64 - used.len() as u64);
            }
        }
    }

    /// A large file that is changed here and there has holes only, and nobody goes once around to find that out.
    #[test]
    fn holes_are_found_without_a_lap() {
        let mut slots = Slots::new(1 << 24);
        slots.take(1 << 24).unwrap();
        (0..1 << 21).for_each(|extent| slots.release(SlotId(extent * EXTENT_SLOTS)));
        let since = Instant::now();
        (0..1000).for_each(|_| assert!(slots.take(512).is_some()));
        assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
    }
}
