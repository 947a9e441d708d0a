//! When may an unlinked node be used again? When nobody who could have met it is still under way.
//!
//! Why: an optimistic reader holds an address and nothing else. It pins an epoch while it works; what is retired
//! meanwhile is reused only after every pin of that time is gone.
//! Source: OLFIT §5.3 (garbage collector for empty nodes; the link stays until then), here by epochs
//! (crossbeam-epoch). Under shuttle a small exact collector stands in, whose reuse is as early as correctness allows,
//! so that a use after reclamation shows.
//!
//! Invariants:
//! - R1: a node is retired once, after the last pointer to it in the living tree is gone.
//! - R2: every address read from the tree is used only under the pin it was read under.

#[cfg(shuttle)]
use model as imp;
#[cfg(not(shuttle))]
use std_epoch as imp;

use crate::node::blob;
use foreshore_base::seeded_bug;
use std::ptr::NonNull;

/// What has so many bytes is handed over at once: a thread may keep 64 retired things for itself.
pub(crate) const BULKY_BYTES: usize = 4 << 10;

/// Keeps what this thread may have seen from being reused. Costs about 6 ns; nested in another pin 1 ns.
///
/// While a pin exists memory unlinked by anybody is not reused, so let it go in time.
pub struct Pin {
    guard: imp::Guard,
}

impl std::fmt::Debug for Pin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pin")
    }
}

/// Is this thread pinned, by whatever map? For tests of what is promised of that.
#[cfg(not(shuttle))]
pub fn is_pinned() -> bool {
    imp::is_pinned()
}

impl Pin {
    /// Pins the current epoch.
    #[inline]
    pub(crate) fn new() -> Self {
        Self { guard: imp::pin() }
    }

    /// Gives an unlinked node back to the pool, later (R1).
    ///
    /// # Safety
    /// `give_back` may have the node, and nothing in the tree points to it any more except dead nodes.
    pub(crate) unsafe fn retire_node<N: 'static>(&self, node: &N, give_back: unsafe fn(NonNull<N>)) {
        let address = NonNull::from(node).as_ptr().expose_provenance();
        let free = move || {
            let node = NonNull::new(std::ptr::with_exposed_provenance_mut::<N>(address)).expect("not null");
            // SAFETY: the caller says that it is unlinked; the collector, that no pin from before that is left.
            unsafe { give_back(node) }
        };
        if seeded_bug("index_reclaim_at_once") {
            free();
        } else {
            imp::defer(&self.guard, free);
        }
    }

    /// Runs `free` when every pin of now is gone.
    ///
    /// # Safety
    /// `free` may run on any thread, at any later time; what it frees came to nobody's knowledge but under a pin.
    pub(crate) unsafe fn defer(&self, free: impl FnOnce() + Send + 'static) {
        imp::defer(&self.guard, free);
    }

    /// Hands what this thread has retired to whoever collects next. It would keep up to 64 things else, also if it rests from now on.
    /// Memory that other threads retired may be given back on the way. That waits for nothing but the pool's locks, so the caller may
    /// have something latched.
    pub(crate) fn hand_over(&self) {
        imp::hand_over(&self.guard);
    }

    /// Frees the memory of a long key, later.
    ///
    /// # Safety
    /// `address` came from [`blob::store`], and no living node refers to it.
    pub(crate) unsafe fn retire_blob(&self, address: u64) {
        // SAFETY: as above, by the caller and the collector.
        imp::defer(&self.guard, move || unsafe { blob::free(address) });
    }
}

#[cfg(not(shuttle))]
mod std_epoch {
    pub use crossbeam_epoch::Guard;
    use crossbeam_epoch::{Collector, LocalHandle};
    use std::cell::Cell;
    use std::ptr::NonNull;
    use std::sync::LazyLock;

    /// So much of what a thread retires it collects after. Its pins alone would collect 512 things in 128 of them, and a pin may last while
    /// thousands are retired.
    const RETIRED_BETWEEN_COLLECTS: u8 = 64;

    /// Stands for a number of those while they are collected.
    const COLLECTS: u8 = u8::MAX;

    /// Our own, not the default one of the process: every 128th pin of a thread runs what anybody has retired with the same collector.
    /// With ours that is memory to give back. What others retire may do whatever it likes, which must not be while we, or who asks us,
    /// have something latched.
    static COLLECTOR: LazyLock<Collector> = LazyLock::new(Collector::new);

    thread_local!(static HANDLE: LocalHandle = COLLECTOR.register());

    #[inline]
    pub fn pin() -> Guard {
        with_handle(LocalHandle::pin)
    }

    #[inline]
    pub fn is_pinned() -> bool {
        with_handle(LocalHandle::is_pinned)
    }

    #[inline]
    fn with_handle<R>(ask: impl Fn(&LocalHandle) -> R) -> R {
        HANDLE.try_with(&ask).unwrap_or_else(|_| ask_late(ask))
    }

    /// A thread that is ending has no handle any more. The first pin of a new one collects, and what is freed may pin (a layer goes through
    /// its entries): by the same handle, or that would collect the rest in its turn, and so on.
    #[cold]
    fn ask_late<R>(ask: impl Fn(&LocalHandle) -> R) -> R {
        thread_local!(static ASKED: Cell<Option<NonNull<LocalHandle>>> = const { Cell::new(None) });
        if let Some(asked) = ASKED.get() {
            // SAFETY: it lives below, on this thread's stack, until there is none again.
            return ask(unsafe { asked.as_ref() });
        }
        let handle = COLLECTOR.register();
        ASKED.set(Some(NonNull::from(&handle)));
        let told = ask(&handle);
        ASKED.set(None);
        told
    }

    pub fn defer(guard: &Guard, free: impl FnOnce() + Send + 'static) {
        thread_local!(static RETIRED: Cell<u8> = const { Cell::new(0) });
        // SAFETY: the closure owns addresses only, and may run on any thread.
        unsafe { guard.defer_unchecked(free) }
        match RETIRED.get() {
            // What is freed meanwhile may retire something, and leaves it to others to collect.
            COLLECTS => {}
            RETIRED_BETWEEN_COLLECTS => {
                RETIRED.set(COLLECTS);
                guard.flush();
                RETIRED.set(1);
            }
            so_many => RETIRED.set(so_many + 1),
        }
    }

    pub fn hand_over(guard: &Guard) {
        guard.flush();
    }
}

/// An exact collector for one operating-system thread, on which shuttle runs all of its threads.
#[cfg(shuttle)]
mod model {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    #[derive(Default)]
    struct Collector {
        clock: u64,
        /// When each living pin began.
        pins: BTreeSet<u64>,
        /// When each piece of garbage was retired, and how to free it.
        garbage: Vec<(u64, Box<dyn FnOnce()>)>,
    }

    thread_local!(static COLLECTOR: RefCell<Collector> = RefCell::default());

    pub struct Guard(u64);

    pub fn pin() -> Guard {
        COLLECTOR.with_borrow_mut(|c| {
            c.clock += 1;
            c.pins.insert(c.clock);
            Guard(c.clock)
        })
    }

    pub fn defer(_guard: &Guard, free: impl FnOnce() + 'static) {
        COLLECTOR.with_borrow_mut(|c| {
            c.clock += 1;
            c.garbage.push((c.clock, Box::new(free)));
        });
    }

    /// Nobody keeps anything.
    pub fn hand_over(_guard: &Guard) {}

    impl Drop for Guard {
        fn drop(&mut self) {
            let free = COLLECTOR.with_borrow_mut(|c| {
                c.pins.remove(&self.0);
                let oldest = c.pins.first().copied().unwrap_or(u64::MAX);
                let (free, kept) =
                    std::mem::take(&mut c.garbage).into_iter().partition(|(at, _)| *at < oldest);
                c.garbage = kept;
                let free: Vec<_> = free;
                free
            });
            free.into_iter().for_each(|(_, free)| free());
        }
    }
}
