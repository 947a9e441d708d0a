//! A node lock of three strengths: *rlock*, *wlock*, *xlock*, in one word.
//!
//! Why: a writer walks down under a wlock and lets readers pass; only where it changes something does it turn the wlock
//! into an xlock and wait until they are gone.
//! Source: O2-Tree (Ohene-Kwofie et al., ADC 2013) §3.3, after Nurmi and Soisalon-Soininen.
//! Differs: a waiter backs off and then yields; it is never queued.
//!
//! ```text
//!          rlock  wlock  xlock
//! rlock    yes    yes    –
//! wlock    yes    –      –
//! xlock    –      –      –
//! ```
//!
//! Invariants:
//! - W1: at most one [`Writer`] exists per lock.
//! - W2: while it is exclusive no [`Reader`] exists. Whoever asks for an xlock is not overtaken by new readers.
//!
//! Proof: `tests/loom_rwx.rs`, with each ordering seeded away and caught.

use crate::seeded::seeded_bug;
use crate::sync::{AtomicU32, Backoff, Ordering::*};

const WRITER: u32 = 1 << 31;
const EXCLUSIVE: u32 = 1 << 30;
const READERS: u32 = EXCLUSIVE - 1;

/// The lock word: bit 31 = wlock, bit 30 = xlock (held or asked for), bits 0..30 = readers. Four bytes.
///
/// ```
/// use foreshore_base::RwxLock;
///
/// let lock = RwxLock::new();
/// let mut writer = lock.wlock();
/// drop(lock.rlock()); // passes a wlock
/// writer.xlock(); // readers are gone, and kept out
/// drop(writer);
/// assert!(!lock.is_held());
/// ```
#[derive(Debug)]
#[repr(transparent)]
pub struct RwxLock {
    word: AtomicU32,
}

impl Default for RwxLock {
    fn default() -> Self {
        Self::new()
    }
}

impl RwxLock {
    /// A lock that nobody holds.
    pub fn new() -> Self {
        Self { word: AtomicU32::new(0) }
    }

    /// Takes an rlock: waits only for an xlock.
    #[inline]
    pub fn rlock(&self) -> Reader<'_> {
        if self.word.fetch_add(1, Acquire) & EXCLUSIVE == 0 {
            return Reader { lock: self };
        }
        self.rlock_contended()
    }

    #[cold]
    fn rlock_contended(&self) -> Reader<'_> {
        let mut backoff = Backoff::new();
        loop {
            // Not counted while it waits: whoever asked for the xlock waits for the count.
            self.word.fetch_sub(1, Relaxed);
            while self.word.load(Relaxed) & EXCLUSIVE != 0 {
                backoff.wait();
            }
            if self.word.fetch_add(1, Acquire) & EXCLUSIVE == 0 {
                return Reader { lock: self };
            }
        }
    }

    /// Takes a wlock: waits for another writer, lets readers in.
    #[inline]
    pub fn wlock(&self) -> Writer<'_> {
        let mut backoff = Backoff::new();
        while self.word.fetch_or(WRITER, Acquire) & WRITER != 0 {
            backoff.wait();
        }
        Writer { lock: self }
    }

    /// Forgets what these four bytes were before. Nobody else may know of the lock yet.
    pub fn reset(&self) {
        self.word.store(0, Relaxed);
    }

    /// Does a writer hold the lock right now? For assertions and tests only.
    pub fn is_held(&self) -> bool {
        self.word.load(Relaxed) & WRITER != 0
    }
}

/// An rlock, until dropped.
#[derive(Debug)]
pub struct Reader<'a> {
    lock: &'a RwxLock,
}

impl Drop for Reader<'_> {
    #[inline]
    fn drop(&mut self) {
        // ORDERING: Release: our reads stay before the writer that waits for us. Pairs with the load in `xlock`.
        self.lock.word.fetch_sub(1, Release);
    }
}

/// A wlock, or an xlock once asked for, until dropped.
#[derive(Debug)]
pub struct Writer<'a> {
    lock: &'a RwxLock,
}

impl Writer<'_> {
    /// Turns the wlock into an xlock: keeps new readers out and waits for the present ones. Does nothing if it is one.
    pub fn xlock(&mut self) {
        self.lock.word.fetch_or(EXCLUSIVE, Relaxed);
        let mut backoff = Backoff::new();
        // ORDERING: Acquire: what readers read, they read before we write. Pairs with `Reader::drop`.
        while self.lock.word.load(Acquire) & READERS != 0 && !seeded_bug("rwx_xlock_does_not_wait") {
            backoff.wait();
        }
    }
}

impl Drop for Writer<'_> {
    #[inline]
    fn drop(&mut self) {
        // ORDERING: Release publishes what was written to the next reader or writer.
        if seeded_bug("rwx_release_order") {
            self.lock.word.fetch_and(READERS, Relaxed);
        } else {
            self.lock.word.fetch_and(READERS, Release);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn readers_pass_a_wlock_but_no_xlock() {
        let lock = RwxLock::new();
        let first = lock.rlock();
        let mut writer = lock.wlock();
        drop((lock.rlock(), first));
        assert!(lock.is_held());
        writer.xlock();
        writer.xlock();
        std::thread::scope(|s| {
            let reader = s.spawn(|| drop(lock.rlock()));
            std::thread::sleep(std::time::Duration::from_millis(5));
            assert!(!reader.is_finished());
            drop(writer);
        });
        assert!(!lock.is_held());
    }
}
