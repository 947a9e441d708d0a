//! What belongs to a database, until the database is closed.
//!
//! The engine keeps a directory locked as long as anybody holds a table of it. In Python nobody knows when an object goes: a
//! forgotten variable would keep the next `open` out. So objects hold leases, and closing takes them all back.

use crate::errors::Failure;
use crate::interpreter::staying;
use foreshore::will_wait;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use pyo3::Python;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// How many forks lie between this process and the one that began Python.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// To be called in a process that was forked, before anything else. It shares the log's buffer with its parent but not the
/// counters that say where to write in it, and has none of the engine's threads: what the parent opened, it must leave alone.
pub fn was_forked() {
    FORKS.fetch_add(1, Relaxed);
}

/// Something that can be used until its database is closed, in the process that opened it.
pub struct Lease<T: Send + Sync> {
    slot: ManuallyDrop<Arc<RwLock<Option<T>>>>,
    forks: u32,
}

impl<T: Send + Sync> Drop for Lease<T> {
    fn drop(&mut self) {
        // The parent's own copy of it closes what is to be closed.
        if self.is_parents() {
            return;
        }
        // SAFETY: nobody uses the slot after this.
        let mut slot = Some(unsafe { ManuallyDrop::take(&mut self.slot) });
        // The last holder closes a database, or rolls a transaction back: both wait. Without an interpreter nobody minds.
        Python::try_attach(|py| staying(py, || drop(slot.take())));
    }
}

impl<T: Send + Sync> Lease<T> {
    /// Calls `work` with it.
    ///
    /// Errors: [`Failure::Closed`], [`Failure::Forked`]; those of `work`.
    #[inline]
    pub fn with<R, E: Into<Failure>>(&self, work: impl FnOnce(&T) -> Result<R, E>) -> Result<R, Failure> {
        if self.is_parents() {
            return Err(Failure::Forked);
        }
        match &*self.read() {
            Some(leased) => work(leased).map_err(E::into),
            None => Err(Failure::Closed),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Option<T>> {
        self.slot.try_read().unwrap_or_else(|| {
            will_wait();
            self.slot.read()
        })
    }

    /// Gives it back early.
    pub fn end(&self) {
        if !self.is_parents() {
            self.slot.write().take();
        }
    }

    /// Was it given in another process, which was forked since?
    pub fn is_parents(&self) -> bool {
        self.forks != FORKS.load(Relaxed)
    }
}

trait Revoke: Send + Sync {
    fn revoke(&self);
}

impl<T: Send + Sync> Revoke for RwLock<Option<T>> {
    fn revoke(&self) {
        self.write().take();
    }
}

/// The leases of one database.
#[derive(Default)]
pub struct Leases {
    given: Mutex<Given>,
}

#[derive(Default)]
struct Given {
    /// From then on what is given is taken back at once.
    revoked: bool,
    leases: Vec<Weak<dyn Revoke>>,
    /// How many there may be before those that are gone are forgotten.
    tidy_at: usize,
}

impl Leases {
    /// Gives a lease; none of anything once all are taken back: a call may have begun before. The caller has a lease of the database
    /// meanwhile, or another handle of what it gives: so what is dropped here is not the last, with which the database would close.
    pub fn give<T: Send + Sync + 'static>(&self, leased: T) -> Lease<T> {
        let slot = Arc::new(RwLock::new(Some(leased)));
        let lease = Lease { slot: ManuallyDrop::new(slot.clone()), forks: FORKS.load(Relaxed) };
        let mut given = self.given.lock();
        if given.revoked {
            drop(given);
            slot.revoke();
            return lease;
        }
        let revocable: Weak<dyn Revoke> = Arc::downgrade(&(slot as Arc<dyn Revoke>));
        if given.leases.len() >= given.tidy_at {
            given.leases.retain(|lease| lease.strong_count() > 0);
            given.tidy_at = 2 * given.leases.len() + 64;
        }
        given.leases.push(revocable);
        lease
    }

    /// What is given from now on is taken back at once.
    pub fn stop_giving(&self) {
        self.given.lock().revoked = true;
    }

    /// Takes all back, waiting for the calls under way.
    pub fn revoke(&self) {
        let all = Given { revoked: true, ..Given::default() };
        let leases = std::mem::replace(&mut *self.given.lock(), all).leases;
        for lease in leases.iter().filter_map(Weak::upgrade) {
            lease.revoke();
        }
    }
}
