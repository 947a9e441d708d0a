//! Readers who show themselves: a lock to read a popular key that writes no line which others write.
//!
//! Why: who locks a key to read it writes its bucket's line. A row that all transactions read, of a tenant or of settings, moves from
//! core to core for each of them: with 16 threads such reads took twice as long in all as one thread alone takes for them.
//! How: a bucket in which readers meet is *opened*. Who wants to read a key of an open bucket writes its name
//! into a *place* of its own and looks once more whether the bucket is open: then it has the lock. Whoever wants anything else there
//! first closes the bucket, under its latch, looks through the places of all owners, and *moves* what it finds into the
//! bucket as requests, so that the rules of `queue` hold as ever. Ending, an owner empties its places, and releases what was moved.
//! Source: BRAVO (Dice and Kogan, USENIX ATC 2019), for reader-writer locks. Differs: places belong to owners and hold names, so a
//! closed bucket knows who reads; what is closed becomes open again after a number of reads that grows with the cost of closing.
//!
//! Invariants:
//! - R1: all requests of an open bucket are granted, to read keys.
//! - R2: an owner relies on a place only if it saw the bucket open after it had written the place, or if that was moved.
//! - R3: each place is taken back by its owner or moved by who closes its bucket, never both: both change `state`, in which the owner
//!   also counts how often it took places back, so that one which was written again meanwhile is not taken for the old one.
//!
//! Why R2 suffices: the owner writes its place, then looks at the bucket; who closes it writes that, then looks at the place. With a
//! sequentially consistent fence between the two on both sides one of them sees what the other wrote.
//!
//! Proof: `loom_shown` in `foreshore-base`. This file stands alone (only `foreshore_base`), so that loom can check it without the engine.

use foreshore_base::seeded_bug;
use foreshore_base::sync::{AtomicU32, AtomicU64, Ordering::*, fence};
use std::num::NonZeroU64;

/// Reads beside others, with none alone in between, after which a bucket is opened …
const READS_TO_OPEN: u32 = if cfg!(test) { 1 } else { 4 };

/// … and after which it is opened again once it has been closed, or could not be opened; or so many for each owner whose places were
/// looked through then.
const READS_TO_REOPEN: u32 = if cfg!(test) { 2 } else { 64 };
const READS_FOR_OWNER: u32 = if cfg!(test) { 0 } else { 4 };

/// Is a bucket open? Changed under its latch only.
#[derive(Default)]
pub(super) struct Door {
    /// How many reads beside others are to come before it is opened, or `OPEN`.
    reads: AtomicU32,
}

const OPEN: u32 = u32::MAX;

impl Door {
    /// ORDERING: Acquire and Release: what the bucket's latch guarded before it was opened happened before what a reader does who
    /// shows itself.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.reads.load(Acquire) == OPEN
    }

    /// Somebody has got a lock to read a key, by a request, and is alone in the bucket (or its part, if that is divided), or not. Opens it
    /// if that has happened so often, and if it `may_open`. That looks through all requests, of up to thousands of parts: so it is not
    /// asked again at once.
    #[inline]
    pub fn count_read(&self, alone: bool, may_open: impl FnOnce() -> bool) {
        match self.reads.load(Relaxed) {
            OPEN => {}
            reads if alone => {
                if reads < READS_TO_OPEN {
                    self.reads.store(READS_TO_OPEN, Relaxed);
                }
            }
            0 => self.reads.store(if may_open() { OPEN } else { READS_TO_REOPEN }, Release),
            reads => self.reads.store(reads - 1, Relaxed),
        }
    }

    /// Closes the bucket, which is open. What is `within` it of what `owners` show is told to `moved`, with the owner's number.
    pub fn close<'a>(
        &self,
        owners: impl FnOnce() -> &'a [Places],
        within: impl Fn(NonZeroU64) -> bool,
        mut moved: impl FnMut(usize, NonZeroU64),
    ) {
        self.reads.store(READS_TO_REOPEN, Relaxed);
        // ORDERING: with the fence in `Places::show`, see R2.
        fence(SeqCst);
        let owners = owners();
        for (owner, places) in owners.iter().enumerate() {
            places.move_all(&within, |name| moved(owner, name));
        }
        let reads = READS_FOR_OWNER * owners.len() as u32;
        self.reads.store(READS_TO_REOPEN.max(reads), Relaxed);
    }
}

/// Names that an owner shows at a time: with `state` two cache lines.
const PLACES: usize = 15;

/// A place that is no longer used.
const FORGOTTEN: u64 = 0;

/// The places of one owner, in cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Places {
    /// From the lowest bit on: how many places are used; a bit for each of them that was moved; how often places were taken back.
    state: AtomicU64,
    names: [AtomicU64; PLACES],
}

/// A value of [`Places::state`].
#[derive(Clone, Copy, PartialEq, Eq)]
struct State(u64);

impl State {
    const COUNT_BITS: u32 = 4;
    const TAKEN_BACK: u64 = 1 << (Self::COUNT_BITS + PLACES as u32);

    fn used(self) -> usize {
        (self.0 & ((1 << Self::COUNT_BITS) - 1)) as usize
    }

    fn is_moved(self, place: usize) -> bool {
        self.0 & (1 << (Self::COUNT_BITS as usize + place)) != 0
    }

    fn with_moved(self, place: usize) -> Self {
        Self(self.0 | 1 << (Self::COUNT_BITS as usize + place))
    }

    /// The last place is taken back.
    fn with_one_less(self) -> Self {
        Self(self.0 - 1).taken_back()
    }

    /// All places are taken back.
    fn emptied(self) -> Self {
        Self(self.0 & !(Self::TAKEN_BACK - 1)).taken_back()
    }

    fn taken_back(self) -> Self {
        let more = if seeded_bug("lock_shown_again_unnoticed") { 0 } else { Self::TAKEN_BACK };
        Self(self.0.wrapping_add(more))
    }
}

impl Places {
    fn state(&self) -> State {
        State(self.state.load(Relaxed))
    }

    /// Does the owner use any? For the owner.
    #[inline]
    pub fn any(&self) -> bool {
        self.state().used() > 0
    }

    /// Where the owner shows this name, or showed it before that was moved. For the owner.
    #[inline]
    pub fn find(&self, name: NonZeroU64) -> Option<usize> {
        (0..self.state().used()).find(|place| self.names[*place].load(Relaxed) == name.get())
    }

    /// Shows a name of a bucket with this door, for its owner: does it hold the lock? Not if all places are used, or if the bucket
    /// was closed meanwhile.
    pub fn show(&self, name: NonZeroU64, door: &Door) -> bool {
        let place = self.state().used();
        if place == PLACES {
            return false;
        }
        self.names[place].store(name.get(), Relaxed);
        // ORDERING: Release, so that who sees the place counted sees its name.
        self.state.fetch_add(1, Release);
        // ORDERING: with the fence in `Door::close`, see R2.
        if !seeded_bug("lock_shown_without_fence") {
            fence(SeqCst);
        }
        door.is_open() || !self.take_back(place)
    }

    /// Takes the last place back; `false` if it was moved meanwhile: then the owner holds the lock.
    fn take_back(&self, place: usize) -> bool {
        let mut state = self.state();
        while !state.is_moved(place) {
            match self.state.compare_exchange(state.0, state.with_one_less().0, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(now) => state = State(now),
            }
        }
        false
    }

    /// The owner gives its place back: the name is a request of the bucket, which it remembers otherwise.
    pub fn forget(&self, place: usize) {
        debug_assert!(self.state().is_moved(place));
        self.names[place].store(FORGOTTEN, Relaxed);
    }

    /// Moves this place, which the owner still has, for the owner, under the latch of its bucket. Was it not moved before?
    pub fn move_own(&self, place: usize) -> bool {
        let before = State(self.state.fetch_or(State(0).with_moved(place).0, Relaxed));
        !before.is_moved(place)
    }

    /// Moves all places whose names are `within` a bucket that is being closed, under its latch, and tells what they were.
    fn move_all(&self, within: impl Fn(NonZeroU64) -> bool, mut moved: impl FnMut(NonZeroU64)) {
        // ORDERING: Acquire: see `show`. And what the owner did before it emptied its places happened before.
        let mut state = State(self.state.load(Acquire));
        let mut place = 0;
        while place < state.used() {
            let name = NonZeroU64::new(self.names[place].load(Relaxed)).filter(|name| within(*name));
            let Some(name) = name.filter(|_| !state.is_moved(place)) else {
                place += 1;
                continue;
            };
            match self.state.compare_exchange(state.0, state.with_moved(place).0, Acquire, Acquire) {
                Ok(_) => {
                    state = state.with_moved(place);
                    moved(name);
                    place += 1;
                }
                Err(now) => (state, place) = (State(now), 0),
            }
        }
    }

    /// The owner empties its places, and gets those names that were moved.
    ///
    /// ORDERING: Release: whoever closes a bucket and finds its readers gone comes after what they read.
    pub fn empty(&self) -> impl Iterator<Item = NonZeroU64> {
        let mut state = self.state();
        while let Err(now) = self.state.compare_exchange(state.0, state.emptied().0, Release, Relaxed) {
            state = State(now);
        }
        let moved = (0..state.used()).filter(move |place| state.is_moved(*place));
        moved.filter_map(|place| NonZeroU64::new(self.names[place].load(Relaxed)))
    }
}
