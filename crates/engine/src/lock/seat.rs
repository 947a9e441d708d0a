//! Where an owner waits: its signal, its thread, and what others must know of it.
//!
//! Invariant S1: a seat's signal leaves `Waiting` only under the latch of the bucket that it waits in, together with the
//! change of its request. So whoever holds that latch knows whether the wait is still in place.

use super::latched::Latched;
use super::{Name, Owner};
use foreshore_base::sync::{AtomicBool, AtomicU64, Ordering::*, fence, spin_loop, thread};
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// See the module. In cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Seat {
    signal: AtomicU64,
    /// The name waited for; meaningful while the signal says `Waiting`.
    name: AtomicU64,
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
    /// Who sleeps here. A stale entry is woken once for nothing, which every park must bear.
    sleeper: Latched<Option<thread::Thread>>,
}

/// What became of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Idle,
    Waiting,
    Granted,
    /// The wait was ended to break a deadlock with this owner.
    Victim(Owner),
}

impl Signal {
    const OWNER_SHIFT: u32 = 8;

    fn word(self) -> u64 {
        match self {
            Signal::Idle => 0,
            Signal::Waiting => 1,
            Signal::Granted => 2,
            Signal::Victim(with) => 3 | u64::from(with.0) << Self::OWNER_SHIFT,
        }
    }

    fn from_word(word: u64) -> Self {
        match word {
            0 => Signal::Idle,
            1 => Signal::Waiting,
            2 => Signal::Granted,
            _ => Signal::Victim(Owner((word >> Self::OWNER_SHIFT) as u16)),
        }
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
        debug_assert_ne!(self.signal(), Signal::Waiting, "an owner that waits cannot be leased");
        self.age.store(age, Relaxed);
        self.began.store(u64::MAX, Relaxed);
        self.tenant.store(number, Relaxed);
    }

    /// The transaction begins to write, with this id.
    pub fn began(&self, id: u64) {
        self.began.store(id, Relaxed);
    }

    /// Bigger is younger.
    pub fn age(&self) -> (u64, u64) {
        (self.age.load(Relaxed), self.began.load(Relaxed))
    }

    /// The name that the owner waits for, if it waits; only under the latch of that name's bucket is it certain.
    pub fn waits_for(&self) -> Option<Name> {
        // ORDERING: Acquire pairs with the Release in `sit`: whoever sees `Waiting` sees that wait's name, or a later one.
        if self.signal() != Signal::Waiting {
            return None;
        }
        NonZeroU64::new(self.name.load(Relaxed)).map(Name)
    }

    #[inline]
    pub fn signal(&self) -> Signal {
        Signal::from_word(self.signal.load(Acquire))
    }

    /// Begins a wait, under the latch of the name's bucket.
    pub fn sit(&self, name: Name) {
        *self.sleeper.latch() = Some(thread::current());
        self.name.store(name.0.get(), Relaxed);
        self.signal.store(Signal::Waiting.word(), Release);
    }

    /// Ends the wait, under the latch of the name's bucket. The sleeper must still be woken, without that latch.
    pub fn end_wait(&self, signal: Signal) {
        debug_assert_eq!(self.signal(), Signal::Waiting);
        self.signal.store(signal.word(), Release);
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

    /// Waits some microseconds, without sleeping, for the wait to end: more of them if nobody waits before the owner. Nobody else
    /// looks at the signal, so this looks often: as long as a granted row is not taken, all behind wait for nothing.
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
        let looks = if is_next { Self::LOOKS_OF_NEXT } else { 1 };
        for _ in 0..looks {
            if self.signal() != Signal::Waiting {
                return;
            }
            thread::yield_now();
        }
    }

    /// Sleeps until the wait ends, the owner is interrupted, or the time comes.
    pub fn sleep_until(&self, time: Instant) {
        // ORDERING: see `interrupt`; and the thread's own token remembers a wake that comes before the sleep.
        fence(SeqCst);
        while self.signal() == Signal::Waiting && !self.is_interrupted() {
            let left = time.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return;
            }
            thread::park_timeout(left);
        }
    }
}
