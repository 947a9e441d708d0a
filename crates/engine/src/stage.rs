//! Old primitives switched back in: what Shore-MT removed, one bottleneck after another.
//!
//! Why: the laboratory's `shoremt-fig6` and `shoremt-fig7` ask what each step of that paper is worth in this engine. A place
//! where an old engine had a critical section says [`enter`]; the section ends when the guard is dropped.
//!
//! In the usual build [`enter`] returns a value of no size that does nothing. With `--cfg foreshore_stages` the environment
//! variable `FORESHORE_OLD` names the primitives to be used, separated by commas:
//!
//! | name | what comes back | paper |
//! |---|---|---|
//! | `pool-mutex` | one mutex around every look into the page table | §7.2, baseline |
//! | `pool-buckets` | a mutex for each of 128 parts of the page table | §7.2, "bpool 1" |
//! | `space-mutex` | a global mutex around finding and latching the leaf that a transaction changes | §6.1, §7.3 |
//! | `space-spin`, `space-ticket` | the same with a test-and-test-and-set latch, with a first-come-first-served one | Fig. 6 |
//! | `transactions-mutex` | one mutex around begin, end and the search for the oldest transaction | §7.3 |
//! | `log-mutex` | one mutex from the reservation of a log record to the end of its copy | §7.4 |
//! | `keys-mutex` | one mutex for all buckets of the key table | §7.5 |
//! | `commits-alone` | a commit that waits for the device keeps all others from waiting with it | §4, MySQL |
//! | `latched-reads` | readers latch their leaf | §6.2.1 |
//!
//! Differs: Shore-MT's code is not rebuilt, only the shape of its critical sections; there are no pins. Where the paper has
//! an MCS latch there is a ticket latch: both hand over in the order of arrival, and it needs no node.

/// A place where an old engine had a critical section of its own kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Old {
    /// The page table, at this page.
    Pool(u64),
    /// Free space: which page takes the row?
    Space,
    /// The list of transactions.
    Transactions,
    /// Insertion into the log. Its holder may enter again. Who has a reader wait until it has one enters before: the reader may have
    /// what the holder wants.
    Log,
    /// A bucket of the key table. Its holder may enter again.
    Keys,
    /// A commit's wait for the device.
    Commit,
}

#[cfg(foreshore_stages)]
pub(crate) use old::{Guard, enter, reads_latch};

/// Ends a critical section that is none.
#[cfg(not(foreshore_stages))]
#[derive(Debug)]
pub(crate) struct Guard;

/// Nothing: today this is no critical section.
#[cfg(not(foreshore_stages))]
#[inline(always)]
pub(crate) fn enter(_old: Old) -> Guard {
    Guard
}

/// Do readers latch their leaf? Not today.
#[cfg(not(foreshore_stages))]
#[inline(always)]
pub(crate) fn reads_latch() -> bool {
    false
}

#[cfg(foreshore_stages)]
mod old {
    use super::Old;
    use foreshore_base::sync::Backoff;
    use parking_lot::{Mutex, MutexGuard, ReentrantMutex, ReentrantMutexGuard};
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

    /// Parts of the page table under `pool-buckets`: as many as Shore-MT had lists of pages in transit.
    const BUCKETS: usize = 128;

    /// What `FORESHORE_OLD` asks for.
    #[derive(Default)]
    struct Chosen {
        pool: Option<usize>,
        space: Option<Space>,
        transactions: bool,
        log: bool,
        keys: bool,
        commit: bool,
        reads: bool,
    }

    #[derive(Clone, Copy)]
    enum Space {
        Mutex,
        Spin,
        Ticket,
    }

    static CHOSEN: LazyLock<Chosen> = LazyLock::new(|| {
        let names = std::env::var("FORESHORE_OLD").unwrap_or_default();
        Chosen::of(&names).unwrap_or_else(|name| panic!("FORESHORE_OLD: there is no old primitive {name:?}"))
    });

    impl Chosen {
        /// `Err`: a name that means nothing.
        fn of(names: &str) -> Result<Self, String> {
            let mut chosen = Self::default();
            for name in names.split(',').filter(|name| !name.is_empty()) {
                match name {
                    "pool-mutex" => chosen.pool = Some(1),
                    "pool-buckets" => chosen.pool = Some(BUCKETS),
                    "space-mutex" => chosen.space = Some(Space::Mutex),
                    "space-spin" => chosen.space = Some(Space::Spin),
                    "space-ticket" => chosen.space = Some(Space::Ticket),
                    "transactions-mutex" => chosen.transactions = true,
                    "log-mutex" => chosen.log = true,
                    "keys-mutex" => chosen.keys = true,
                    "commits-alone" => chosen.commit = true,
                    "latched-reads" => chosen.reads = true,
                    _ => return Err(name.to_owned()),
                }
            }
            Ok(chosen)
        }
    }

    static POOL: [Mutex<()>; BUCKETS] = [const { Mutex::new(()) }; BUCKETS];
    static SPACE: Mutex<()> = Mutex::new(());
    static SPACE_SPIN: Spin = Spin(AtomicBool::new(false));
    static SPACE_TICKET: Ticket = Ticket { next: AtomicU64::new(0), serving: AtomicU64::new(0) };
    static TRANSACTIONS: Mutex<()> = Mutex::new(());
    static LOG: ReentrantMutex<()> = ReentrantMutex::new(());
    static KEYS: ReentrantMutex<()> = ReentrantMutex::new(());
    static COMMIT: Mutex<()> = Mutex::new(());

    /// Ends a critical section when it is dropped.
    #[derive(Debug)]
    #[expect(dead_code, reason = "held for their Drop")]
    pub(crate) enum Guard {
        Today,
        Mutex(MutexGuard<'static, ()>),
        Reentrant(ReentrantMutexGuard<'static, ()>),
        Spin(Spinning),
        Ticket(Served),
    }

    /// Enters the critical section that an old engine had here, if it was chosen.
    pub(crate) fn enter(old: Old) -> Guard {
        let mutex = |wanted: bool, mutex: &'static Mutex<()>| {
            if wanted { Guard::Mutex(mutex.lock()) } else { Guard::Today }
        };
        let reentrant = |wanted: bool, mutex: &'static ReentrantMutex<()>| {
            if wanted { Guard::Reentrant(mutex.lock()) } else { Guard::Today }
        };
        match old {
            Old::Pool(page) => match CHOSEN.pool {
                Some(parts) => mutex(true, &POOL[page as usize % parts]),
                None => Guard::Today,
            },
            Old::Space => match CHOSEN.space {
                Some(Space::Mutex) => mutex(true, &SPACE),
                Some(Space::Spin) => Guard::Spin(SPACE_SPIN.enter()),
                Some(Space::Ticket) => Guard::Ticket(SPACE_TICKET.enter()),
                None => Guard::Today,
            },
            Old::Transactions => mutex(CHOSEN.transactions, &TRANSACTIONS),
            Old::Log => reentrant(CHOSEN.log, &LOG),
            Old::Keys => reentrant(CHOSEN.keys, &KEYS),
            Old::Commit => mutex(CHOSEN.commit, &COMMIT),
        }
    }

    /// Do readers latch their leaf?
    pub(crate) fn reads_latch() -> bool {
        CHOSEN.reads
    }

    /// A test-and-test-and-set latch.
    struct Spin(AtomicBool);

    #[derive(Debug)]
    pub(crate) struct Spinning(&'static AtomicBool);

    impl Spin {
        fn enter(&'static self) -> Spinning {
            let mut backoff = Backoff::new();
            while self.0.load(Relaxed) || self.0.swap(true, Acquire) {
                backoff.wait();
            }
            Spinning(&self.0)
        }
    }

    impl Drop for Spinning {
        fn drop(&mut self) {
            self.0.store(false, Release);
        }
    }

    /// A latch that serves in the order of arrival.
    struct Ticket {
        next: AtomicU64,
        serving: AtomicU64,
    }

    #[derive(Debug)]
    pub(crate) struct Served(&'static AtomicU64);

    impl Ticket {
        fn enter(&'static self) -> Served {
            let mine = self.next.fetch_add(1, Relaxed);
            let mut backoff = Backoff::new();
            while self.serving.load(Acquire) != mine {
                backoff.wait();
            }
            Served(&self.serving)
        }
    }

    impl Drop for Served {
        fn drop(&mut self) {
            self.0.store(self.0.load(Relaxed) + 1, Release);
        }
    }
}
