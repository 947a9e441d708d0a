//! Where threads wait: how often, and for how long, by cause. And who wants to know before a thread does.
//!
//! Only waiting itself is measured, on paths that are cold because they wait. So it stays on, and a run in which nobody
//! waits pays nothing. Source: Shore-MT (Johnson et al., EDBT 2009) §5, whose profiles by component guided each step.
//!
//! A program may hold something while it calls the engine that others need to go on: an interpreter's lock, a worker of an
//! executor. Rule H1: whoever waits for what another *transaction* may hold on to (a lock, a call of the same transaction,
//! a slot), or for a device, calls [`will_wait`] first. Waits among calls that are under way need no word: they end
//! without any help from outside.

use crossbeam_utils::CachePadded;
use foreshore_base::sync::AtomicU64;
use foreshore_base::sync::Ordering::Relaxed;
use serde::Serialize;
use std::cell::Cell;
use std::panic::catch_unwind;
use std::thread::LocalKey;
use std::time::{Duration, Instant};

/// Counts waits for one thing.
#[derive(Default)]
pub(crate) struct Meter(CachePadded<(AtomicU64, AtomicU64)>);

/// Waits for one thing since the database was opened.
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// # let db = foreshore::Database::in_memory()?;
/// let t = db.byte_table("t")?;
/// let tx = db.begin()?;
/// tx.bytes(&t).put(b"k", b"locked")?;
/// let impatient = t.with_lock_timeout(std::time::Duration::from_millis(1));
/// assert!(impatient.put(b"k", b"in vain").is_err());
/// let waits = db.stats().waits;
/// let longest = waits.iter().max_by_key(|wait| wait.ns).expect("somebody waited");
/// println!("{}: {} times, {} ns", longest.what, longest.count, longest.ns);
/// assert!(waits.iter().any(|wait| wait.what == "locks of t" && wait.count == 1));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Wait {
    /// What was waited for.
    pub what: String,
    /// How often.
    pub count: u64,
    /// How long in all, over all threads.
    pub ns: u64,
}

impl Wait {
    /// Both together: waits for the same thing in two places.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self { what: self.what.clone(), count: self.count + other.count, ns: self.ns + other.ns }
    }
}

impl Meter {
    /// Waits, and counts it.
    pub fn time<R>(&self, wait: impl FnOnce() -> R) -> R {
        will_wait();
        let since = Instant::now();
        let result = wait();
        self.add(since.elapsed());
        result
    }

    /// Counts a wait that is over.
    pub fn add(&self, waited: Duration) {
        self.0.0.fetch_add(1, Relaxed);
        self.0.1.fetch_add(waited.as_nanos() as u64, Relaxed);
    }

    /// What was counted.
    pub fn read(&self, what: impl Into<String>) -> Wait {
        Wait { what: what.into(), count: self.0.0.load(Relaxed), ns: self.0.1.load(Relaxed) }
    }
}

/// What a thread is to do before it waits.
type Leave = LocalKey<Cell<Option<fn()>>>;

thread_local! {
    /// As its program has said, for the call that is under way.
    static LEAVE: Cell<Option<fn()>> = const { Cell::new(None) };
    /// If it is one of the engine's, and calls what is not: whatever that says.
    static OUR_OWN: Cell<Option<fn()>> = const { Cell::new(None) };
}

/// Calls `work`; if this thread is going to wait in it, in any call of the engine, calls `leave` just before, once.
///
/// For programs that hold something while they call the engine which others need to go on: an interpreter's lock, say, or a
/// worker thread of an executor. Giving it up around every call would cost more than most calls take; holding it while the
/// call waits for a lock whose owner needs it would be a deadlock. `leave` must not call the engine, and takes nothing back:
/// that is for after `before_waiting`. If it panics, the call waits all the same. (It is a plain function, so that this costs
/// two writes to a thread's own memory; what it has to remember goes into a `thread_local!`.)
///
/// Waits are those for a lock, for the device (a page to be read, a commit to be durable, room in the log or in the cache)
/// and for another call of the same transaction; reading and writing a large value counts as one, and so does the commit of a
/// transaction with more than 10,000 locks. Opening, closing, backups,
/// checks and the like wait for more than that without a word: give up what you hold around them.
///
/// ```
/// use std::cell::Cell;
/// thread_local!(static HAS_LEFT: Cell<bool> = const { Cell::new(false) });
/// # fn main() -> foreshore::Result<()> {
/// let db = foreshore::Database::in_memory()?;
/// let rows = db.byte_table("rows")?;
/// foreshore::before_waiting(|| HAS_LEFT.set(true), || rows.put(b"key", b"value"))?;
/// assert!(!HAS_LEFT.take(), "nobody was in the way, and nothing had to be read");
///
/// let tx = db.begin()?;
/// tx.bytes(&rows).put(b"key", b"new")?;
/// let other = db.begin_with(foreshore::TransactionOptions::new().lock_timeout(std::time::Duration::from_millis(1)))?;
/// let refused = foreshore::before_waiting(|| HAS_LEFT.set(true), || other.bytes(&rows).put(b"key", b"newer"));
/// assert!(refused.is_err() && HAS_LEFT.take(), "it waited for the lock");
/// # Ok(()) }
/// ```
#[inline]
pub fn before_waiting<R>(leave: fn(), work: impl FnOnce() -> R) -> R {
    before(&LEAVE, leave, work)
}

/// The same for a thread of the engine, which calls `work` that is not: that may use [`before_waiting`] itself, and this `leave` is called all
/// the same.
pub(crate) fn before_our_own_waits<R>(leave: fn(), work: impl FnOnce() -> R) -> R {
    before(&OUR_OWN, leave, work)
}

#[inline]
fn before<R>(whose: &'static Leave, leave: fn(), work: impl FnOnce() -> R) -> R {
    let _restored = Restore(whose, whose.replace(Some(leave)));
    work()
}

/// Says that this thread is going to wait for something outside of the engine: for programs that wait for each other within
/// [`before_waiting`].
///
/// ```
/// use std::sync::mpsc::channel;
/// foreshore::before_waiting(
///     || println!("gives the interpreter's lock to whoever is to send"),
///     || {
///         let (sender, receiver) = channel();
///         std::thread::spawn(move || sender.send(7));
///         foreshore::will_wait(); // or the sender, who may need that lock, could never send
///         assert_eq!(receiver.recv(), Ok(7));
///     },
/// );
/// ```
#[inline]
pub fn will_wait() {
    for leave in [LEAVE.take(), OUR_OWN.take()].into_iter().flatten() {
        // That may not be our code. Others may rely by now on this thread's wait, or on what it is going to read.
        let _ = catch_unwind(leave);
    }
}

/// Puts back what an outer [`before_waiting`] wants done, also on a panic.
struct Restore(&'static Leave, Option<fn()>);

impl Drop for Restore {
    #[inline]
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}

/// Locks a mutex that another call may hold while it waits (H1).
#[inline]
pub(crate) fn lock_or_wait<T>(mutex: &parking_lot::Mutex<T>) -> parking_lot::MutexGuard<'_, T> {
    mutex.try_lock().unwrap_or_else(|| {
        will_wait();
        mutex.lock()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;
    use foreshore_base::sync::{AtomicBool, Ordering::SeqCst};
    use std::panic::AssertUnwindSafe;

    thread_local! {
        static LEFT: Cell<u32> = const { Cell::new(0) };
    }

    fn leave() {
        LEFT.set(LEFT.get() + 1);
    }

    #[test]
    fn a_thread_leaves_once_in_a_call_that_waits() {
        before_waiting(leave, || ());
        assert_eq!(LEFT.get(), 0, "it did not wait");
        before_waiting(leave, || [Meter::default(), Meter::default()].map(|meter| meter.time(|| ())));
        assert_eq!(LEFT.get(), 1, "it waited twice");
        will_wait();
        assert_eq!(LEFT.get(), 1, "that call is over");
        before_waiting(leave, || {
            before_waiting(|| (), will_wait);
            will_wait();
        });
        assert_eq!(LEFT.get(), 2, "the inner call had left something else");
    }

    /// To give very many locks back takes long, also where nobody is in the way.
    #[test]
    fn the_commit_of_who_has_read_much_counts_as_a_wait() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        let has_left = |rows: u32| {
            let tx = db.begin().unwrap();
            (0..rows).for_each(|row| assert!(!tx.bytes(&table).contains(&row.to_be_bytes()).unwrap()));
            let before = LEFT.get();
            before_waiting(leave, || tx.commit()).unwrap();
            LEFT.get() > before
        };
        assert_eq!([100, 20_000].map(has_left), [false, true]);
    }

    /// Whoever panics before the wait for a lock has the lock when it is granted, and gives it back.
    #[test]
    fn a_panic_before_a_wait_leaves_nobody_waiting() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        let first = db.begin().unwrap();
        first.bytes(&table).put(b"k", b"first").unwrap();
        std::thread::scope(|scope| {
            let before = db.stats().lock_waits;
            let second = scope.spawn(|| {
                let put = || db.transact(|tx| tx.bytes(&table).put(b"k", b"second"));
                catch_unwind(AssertUnwindSafe(|| before_waiting(|| panic!("a test"), put)))
            });
            std::thread::sleep(Duration::from_millis(50));
            first.commit().unwrap();
            let put = second.join().unwrap();
            assert_eq!(db.stats().lock_waits, before + 1);
            table
                .with_lock_timeout(Duration::from_secs(1))
                .put(b"k", b"third")
                .expect("nobody has it locked");
            assert!(matches!(put, Ok(Ok(()))), "{put:?}");
        });
    }

    #[test]
    fn a_mutex_that_is_held_is_waited_for() {
        static HAS_TOLD: AtomicBool = AtomicBool::new(false);
        fn tell() {
            leave();
            HAS_TOLD.store(true, SeqCst);
        }
        let mutex = parking_lot::Mutex::new(0);
        before_waiting(leave, || drop(lock_or_wait(&mutex)));
        assert_eq!(LEFT.get(), 0);
        std::thread::scope(|scope| {
            let held = mutex.lock();
            let waiter = scope.spawn(|| {
                before_waiting(tell, || *lock_or_wait(&mutex) += 1);
                LEFT.get()
            });
            while !HAS_TOLD.load(SeqCst) {
                std::thread::yield_now();
            }
            drop(held);
            assert_eq!(waiter.join().unwrap(), 1);
        });
    }
}
