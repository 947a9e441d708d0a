//! Where an owner waits: its signal, its thread, and what others must know of it.
//!
//! ```text
//! Idle ──► Waiting ──► Asleep ──► Called        Waiting: it looks. Called while it sleeps, it looks again
//!             ▲ │         │         │ │
//!             └─│─────────│─────────┘ │
//!               └─────────┴───────────┴──► Granted, Victim, Idle
//! ```
//!
//! Invariant S1: a wait, in whichever of its three states, ends only under the latch of the bucket that it is in, together with
//! the change of its request. So whoever holds that latch knows whether the wait is still in place. S2: its owner falls asleep
//! without the latch, but looks again only under it, when it was called: whom somebody with the latch finds asleep stays so.

use super::Name;
use super::latched::Latched;
use foreshore_base::sync::{AtomicBool, AtomicU64, Ordering::*, fence, spin_loop, thread};
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// See the module. In cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Seat {
    signal: AtomicU64,
    /// The name waited for; meaningful while it waits.
    name: AtomicU64,
    /// Does the wait end by itself, within a moment?
    is_brief: AtomicBool,
    /// Bigger is younger.
    age: AtomicU64,
    /// The same among those of one age.
    began: AtomicU64,
    /// The transaction that has the seat, and the last one of its transactions that was interrupted: an interrupt that
    /// comes too late must not hit whoever is here by then. Numbers grow.
    tenant: AtomicU64,
    interrupted: AtomicU64,
    /// Does the owner keep its locks for good?
    stranded: AtomicBool,
    /// How often others got in this wait what the owner was the first to wait for.
    passed: AtomicU64,
    /// Is it passed no more in this wait: has it been called, and looked, or has somebody given way to it?
    passed_no_more: AtomicBool,
    /// Who sleeps here. A stale entry is woken once for nothing, which every park must bear.
    sleeper: Latched<Option<thread::Thread>>,
}

/// A sleeper that was passed so often, as the first in somebody's way, is called while the lock is taken. (Payments with one
/// warehouse, thousand/s with 4 and 16 threads on two cores: 211 and 169 with 8, 213 and 180 with 32; with 16 threads the 99th
/// percentiles are 3.2 and 3.7 ms. If nobody is passed: 28 and 28 thousand/s, 1.1 ms.)
pub(super) const PASSES: u64 = if cfg!(test) { 3 } else { 8 };

/// What became of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Idle,
    /// The owner waits, and looks at the signal all the time.
    Waiting,
    /// It waits, and looks now and then, or sleeps.
    Asleep,
    /// It slept, and shall look whether it gets the lock now.
    Called,
    Granted,
    /// The wait was ended to break a deadlock with the transaction of this number.
    Victim(u64),
}

impl Signal {
    const NUMBER_SHIFT: u32 = 8;

    fn word(self) -> u64 {
        match self {
            Signal::Idle => 0,
            Signal::Waiting => 1,
            Signal::Asleep => 2,
            Signal::Called => 3,
            Signal::Granted => 4,
            Signal::Victim(with) => 5 | with << Self::NUMBER_SHIFT,
        }
    }

    fn from_word(word: u64) -> Self {
        match word {
            0 => Signal::Idle,
            1 => Signal::Waiting,
            2 => Signal::Asleep,
            3 => Signal::Called,
            4 => Signal::Granted,
            _ => Signal::Victim(word >> Self::NUMBER_SHIFT),
        }
    }

    /// Has the wait not ended?
    pub fn is_waiting(self) -> bool {
        matches!(self, Signal::Waiting | Signal::Asleep | Signal::Called)
    }
}

impl Seat {
    /// How long a waiter looks before it sleeps: a grant that comes within some microseconds saves two system calls.
    const SPINS: Duration = Duration::from_micros(10);
    /// Who is next in line looks so often more, giving way to others in between. On two cores of an EPYC that is some 30 µs: all
    /// in all about what a short transaction takes, and no more than to sleep and to be woken.
    const LOOKS_OF_NEXT: u32 = if cfg!(any(loom, shuttle)) { 8 } else { 60 };

    /// Prepares the seat for the transaction with this number.
    pub fn reset(&self, age: u64, number: u64) {
        debug_assert!(!self.signal().is_waiting(), "an owner that waits cannot be leased");
        self.age.store(age, Relaxed);
        self.began.store(u64::MAX, Relaxed);
        self.tenant.store(number, Relaxed);
    }

    /// The number of the transaction that has the seat. Of one that has something of a name, or waits for it, under the latch of that
    /// name's bucket: otherwise it may have ended, and another one have come.
    pub fn tenant(&self) -> u64 {
        self.tenant.load(Relaxed)
    }

    /// The transaction begins to write, with this id.
    pub fn began(&self, id: u64) {
        self.began.store(id, Relaxed);
    }

    /// Bigger is younger.
    pub fn age(&self) -> (u64, u64) {
        (self.age.load(Relaxed), self.began.load(Relaxed))
    }

    /// The name that the owner waits for, if it waits, and not only for a moment: such a wait is part of no deadlock. Only under the
    /// latch of that name's bucket is it certain.
    pub fn waits_for(&self) -> Option<Name> {
        // ORDERING: Acquire pairs with the Release in `sit`: whoever sees a wait sees its name, or a later one. (`doze` goes on with
        // what `sit` released, as a read-modify-write; `call` and `answer` come after `sit`, under the same bucket's latch, and release.)
        if !self.signal().is_waiting() || self.is_brief.load(Relaxed) {
            return None;
        }
        NonZeroU64::new(self.name.load(Relaxed)).map(Name)
    }

    #[inline]
    pub fn signal(&self) -> Signal {
        Signal::from_word(self.signal.load(Acquire))
    }

    /// Begins a wait, under the latch of the name's bucket; a brief one ends by itself, within a moment.
    pub fn sit(&self, name: Name, is_brief: bool) {
        *self.sleeper.latch() = Some(thread::current());
        self.name.store(name.0.get(), Relaxed);
        self.is_brief.store(is_brief, Relaxed);
        self.passed.store(0, Relaxed);
        self.passed_no_more.store(false, Relaxed);
        self.signal.store(Signal::Waiting.word(), Release);
    }

    /// Ends the wait, under the latch of the name's bucket. The sleeper must still be woken, without that latch.
    pub fn end_wait(&self, signal: Signal) {
        debug_assert!(self.signal().is_waiting());
        self.signal.store(signal.word(), Release);
    }

    /// The owner, who waits, is not going to look all the time.
    pub fn doze(&self) {
        _ = self.signal.compare_exchange(Signal::Waiting.word(), Signal::Asleep.word(), Relaxed, Relaxed);
    }

    /// Does it sleep, and may others still pass it? Under the latch of the name's bucket, as all up to `answer`.
    pub fn may_be_passed(&self) -> bool {
        matches!(self.signal(), Signal::Asleep | Signal::Called) && !self.passed_no_more.load(Relaxed)
    }

    /// Is it to be called although the lock is taken?
    pub fn was_passed_often(&self) -> bool {
        self.passed.load(Relaxed) >= PASSES
    }

    /// Nobody else gets what the owner waits for from now on.
    pub fn pass_no_more(&self) {
        self.passed_no_more.store(true, Relaxed);
    }

    /// Somebody else gets what the owner waits for.
    pub fn pass(&self) {
        self.passed.store(self.passed.load(Relaxed) + 1, Relaxed);
    }

    /// Tells the owner, who sleeps, to look for itself. Must it be woken, as it has not been told before?
    pub fn call(&self) -> bool {
        let is_new = self.signal() == Signal::Asleep;
        self.signal.store(Signal::Called.word(), Release);
        is_new
    }

    /// The owner is awake and looks, if it was called; was it?
    pub fn answer(&self) -> bool {
        let was_called = self.signal() == Signal::Called;
        if was_called {
            self.passed_no_more.store(true, Relaxed);
            self.signal.store(Signal::Waiting.word(), Release);
        }
        was_called
    }

    /// Wakes the owner's thread. Never blocks: it is called under leaf latches too.
    pub fn wake(&self) {
        let sleeper = self.sleeper.latch().clone();
        if let Some(thread) = sleeper {
            thread.unpark();
        }
    }

    /// Ends the current or next wait of the transaction with this number, if it still has the seat.
    pub fn interrupt(&self, number: u64) {
        self.interrupted.fetch_max(number, Relaxed);
        // ORDERING: with the fence in `sleep_until`: either the sleeper sees the flag, or this sees the sleeper.
        fence(SeqCst);
        self.wake();
    }

    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Relaxed) == self.tenant.load(Relaxed)
    }

    /// The owner keeps its locks for good.
    pub fn strand(&self) {
        self.stranded.store(true, Release);
    }

    /// Does it?
    pub fn is_stranded(&self) -> bool {
        self.stranded.load(Acquire)
    }

    /// Waits some microseconds for the wait to end, or to be called: more of them if nobody waits before the owner. Nobody else
    /// looks at the signal, so this looks often: as long as a granted row is not taken, all behind wait for nothing. Once it gives way
    /// to others between looks it counts as asleep.
    pub fn spin(&self, is_next: bool) {
        let begun = Instant::now();
        while !cfg!(any(loom, shuttle)) && begun.elapsed() < Self::SPINS {
            for _ in 0..8 {
                if self.signal() != Signal::Waiting {
                    return;
                }
                spin_loop();
            }
        }
        self.doze();
        let looks = if is_next { Self::LOOKS_OF_NEXT } else { 1 };
        for _ in 0..looks {
            if self.signal() != Signal::Asleep {
                return;
            }
            thread::yield_now();
        }
    }

    /// Sleeps until the wait ends, the owner is called or interrupted, or the time comes.
    pub fn sleep_until(&self, time: Instant) {
        // ORDERING: see `interrupt`; and the thread's own token remembers a wake that comes before the sleep.
        fence(SeqCst);
        while self.signal() == Signal::Asleep && !self.is_interrupted() {
            let left = time.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return;
            }
            thread::park_timeout(left);
        }
    }
}
