//! A disk in memory that crashes, forgets and fails on demand, and repeats itself from a seed.
//!
//! Why: every guarantee about durability is a claim about what may be lost; here each loss can be drawn, a thousand
//! times a second, at every single call.
//! Source: the method of FoundationDB's and TigerBeetle's simulators; the losses are those that Pillai et al. (OSDI
//! 2014) found filesystems to allow.
//!
//! Model:
//! - Every call that changes the disk is one *event*, numbered from 0: write, sync, set_len, allocate, create, rename,
//!   remove, sync_dir. Every other call (read, length, open of what exists, list) is a *read event*.
//! - [`Crash::ProcessKill`] keeps what was written and the shared memory; of the event it interrupts, a beginning.
//!   What was not synced is still not synced: the next crash may take it.
//! - [`Crash::PowerLoss`] keeps what was synced; of the rest any sectors of 512 bytes, in any order of writes, and any
//!   of the changes of names and lengths. The survivors are all durable.
//! - Shared memory is a file that is never synced.
//! - Growth of a file is durable with its sync, its name with the directory's: stricter than ext4, as POSIX is.

mod fate;
mod inode;
mod intercepted;
mod names;
mod state;

pub use intercepted::{Call, Go, Intercepted};

use crate::{
    Access, File, LockError, SharedMemory, Vfs, check_memory_size, check_name, create_whole,
    debug_assert_direct, debug_assert_direct_len, wrong_memory_size,
};
use foreshore_base::sync::{AtomicU64, Mutex, MutexGuard, Ordering::Relaxed};
use inode::InodeId;
use rustix::io::Errno;
use state::{Action, State};
use std::borrow::Cow;
use std::io;
use std::process;
use std::sync::{Arc, PoisonError};

/// How an incarnation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process dies; the operating system lives on.
    ProcessKill,
    /// The machine dies.
    PowerLoss,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `EIO`. A write leaves any of its sectors; a sync leaves anything, and hides it from later syncs, but for the next one
    /// of each other handle of the file, which fails too; any other call has done what was asked, or not.
    Eio,
    /// `ENOSPC`. A write leaves a beginning, a sync what it leaves after `EIO`, any other call nothing.
    Enospc,
    /// `WriteZero`. A write ends before its last byte, a sync leaves what it leaves after `EIO`, any other call nothing.
    ShortWrite,
}

/// How often a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// This event only.
    Once,
    /// This event and all that follow.
    Forever,
}

/// One event of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its number, from 0.
    pub number: u64,
    /// The file's name before the event; `"."` for the directory.
    pub name: String,
    /// What was asked.
    pub kind: EventKind,
}

/// What an event asks of the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the fields are the arguments of the calls
pub enum EventKind {
    Write { offset: u64, bytes: usize },
    Sync,
    SetLen { bytes: u64 },
    Allocate { bytes: u64 },
    Create,
    Rename { to: String },
    Remove,
    SyncDir,
}

/// One incarnation of a simulated disk; clones are the same disk.
///
/// ```
/// use foreshore_io::sim::Crash;
/// use foreshore_io::{Access, SimDisk, Vfs};
///
/// let disk = SimDisk::new(7);
/// let file = disk.open("log", Access::Buffered, true).unwrap();
/// file.write_at(b"synced", 0).unwrap();
/// file.sync().unwrap();
/// disk.sync_dir().unwrap();
/// file.write_at(b", lost", 6).unwrap();
/// let rebooted = disk.after_crash(Crash::PowerLoss, 7);
/// let mut kept = [0; 6];
/// rebooted.open("log", Access::Buffered, false).unwrap().read_at(&mut kept, 0).unwrap();
/// assert_eq!(&kept, b"synced", "what follows may be there, or in part, or not");
/// ```
#[derive(Clone)]
pub struct SimDisk {
    seed: u64,
    state: Arc<Mutex<State>>,
}

impl SimDisk {
    /// An empty disk. `seed` decides what failing calls leave behind.
    pub fn new(seed: u64) -> Self {
        Self::from_state(seed, State::new(seed))
    }

    fn from_state(seed: u64, state: State) -> Self {
        Self { seed, state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A test that panicked in `corrupt` leaves a disk that is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many events there were; the next one has this number.
    pub fn events(&self) -> u64 {
        self.state().events
    }

    /// How many read events there were; the next one has this number.
    pub fn read_events(&self) -> u64 {
        self.state().read_events
    }

    /// Crashes at this event: it fails, having come any part of its way, and so does every call after it. In the past
    /// means at the next event.
    pub fn crash_at(&self, event: u64) {
        self.state().crash_at = Some(event);
    }

    /// Crashes now, between two events.
    pub fn crash(&self) {
        let mut state = self.state();
        if !state.crashed {
            state.freeze();
        }
    }

    /// Has it crashed? What was acknowledged counts if this is `false` *after* the acknowledgement: then whatever the
    /// acknowledgement stands on, shared memory included, was there before the crash.
    pub fn is_crashed(&self) -> bool {
        self.state().crashed
    }

    /// The disk that the next incarnation finds, a different one for each seed. This disk stays as it is: if it has
    /// not crashed, the new one is what a crash right now would leave. The new disk has no faults, locks or trace, and
    /// counts from 0.
    pub fn after_crash(&self, crash: Crash, seed: u64) -> SimDisk {
        Self::from_state(seed, self.state().after_crash(crash, seed))
    }

    /// Lets an event, or all from it on, fail. The first plan that fits an event wins.
    pub fn fail_at(&self, event: u64, fault: Fault, repeat: Repeat) {
        self.state().faults.push((event, fault, repeat));
    }

    /// Lets a read event, or all from it on, fail with `EIO`.
    pub fn fail_read_at(&self, read_event: u64, repeat: Repeat) {
        self.state().read_faults.push((read_event, (), repeat));
    }

    /// Forgets all planned faults.
    pub fn clear_faults(&self) {
        let mut state = self.state();
        state.faults.clear();
        state.read_faults.clear();
    }

    /// The size of the disk, in bytes; `u64::MAX` (at first) is unlimited. A write or allocation that needs a 4 KiB
    /// page beyond it fails with `ENOSPC` and changes nothing.
    pub fn set_capacity(&self, bytes: u64) {
        self.state().capacity_bytes = bytes;
    }

    /// Bytes of all files that have a name or are open: what counts towards the capacity.
    pub fn used_bytes(&self) -> u64 {
        self.state().used_bytes()
    }

    /// Changes a file behind everyone's back, durably; not an event.
    ///
    /// Panics: if there is no such file.
    pub fn corrupt(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state();
        let (_, inode) = state.named(name).unwrap_or_else(|_| panic!("no file {name} to corrupt"));
        inode.unmap_memory();
        let mut content = inode.current().to_bytes();
        change(&mut content);
        inode.replace(&content);
    }

    /// All names, in order; not an event.
    pub fn names(&self) -> Vec<String> {
        self.state().names.list()
    }

    /// From now on, keeps a record of every event.
    pub fn start_trace(&self) {
        self.state().trace.get_or_insert_default();
    }

    /// The events since [`SimDisk::start_trace`].
    pub fn trace(&self) -> Vec<Event> {
        self.state().trace.clone().unwrap_or_default()
    }
}

impl std::fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state();
        write!(f, "SimDisk[seed {}, event {}, crashed {}]", self.seed, state.events, state.crashed)
    }
}

impl Vfs for SimDisk {
    fn open(&self, name: &str, access: Access, create: bool) -> io::Result<Arc<dyn File>> {
        check_name(name)?;
        let mut state = self.state();
        state.look_for(name, create)?;
        let (inode, file) = state.named(name)?;
        if file.is_memory() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        file.handles += 1;
        let failures_told = AtomicU64::new(file.failed_syncs);
        Ok(Arc::new(SimFile { disk: self.clone(), inode, access, failures_told }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.state().perform(Action::Remove { name: name.into() })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(to)?;
        self.state().perform(Action::Rename { from: from.into(), to: to.into() })
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut state = self.state();
        state.read_event()?;
        Ok(state.names.list())
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.state().perform(Action::SyncDir)
    }

    fn lock(&self, name: &str) -> Result<Box<dyn Send + Sync>, LockError> {
        check_name(name)?;
        let mut state = self.state();
        state.look_for(name, true)?;
        if !state.locks.insert(name.to_owned()) {
            return Err(LockError::Held(Some(process::id())));
        }
        Ok(Box::new(SimLock { disk: self.clone(), name: name.to_owned() }))
    }

    fn shared_memory(&self, name: &str, bytes: usize) -> io::Result<Arc<dyn SharedMemory>> {
        check_name(name)?;
        check_memory_size(bytes);
        let exists = {
            let mut state = self.state();
            state.read_event()?;
            state.names.get(name).is_some()
        };
        if !exists {
            create_whole(self, name, bytes)?;
        }
        let mut state = self.state();
        state.alive()?;
        let (_, inode) = state.named(name)?;
        let found = inode.current().len();
        if found != bytes as u64 {
            return Err(wrong_memory_size(name, found, bytes));
        }
        Ok(inode.map_memory())
    }

    fn describe(&self) -> String {
        format!("simulated disk {}", self.seed)
    }
}

/// Gives the name back on drop. The crash of the disk does so too: the next incarnation has another set of locks.
struct SimLock {
    disk: SimDisk,
    name: String,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.state().locks.remove(&self.name);
    }
}

/// An open file; it can be used after its name is gone.
struct SimFile {
    disk: SimDisk,
    inode: InodeId,
    access: Access,
    /// How many of the file's failed syncs this handle has been told of, or need not be.
    failures_told: AtomicU64,
}

impl File for SimFile {
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        debug_assert_direct(self.access, out.as_ptr(), out.len(), offset);
        let mut state = self.disk.state();
        state.read_event()?;
        state.inode(self.inode).current().read(out, offset)
    }

    fn reads_side_by_side(&self) -> bool {
        true // they take no time
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        debug_assert_direct(self.access, data.as_ptr(), data.len(), offset);
        self.disk.state().perform(Action::Write { inode: self.inode, data: Cow::Borrowed(data), offset })
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        let synced = state.perform(Action::Sync { inode: self.inode });
        let failures = state.inode(self.inode).failed_syncs;
        let untold = self.failures_told.swap(failures, Relaxed) < failures;
        synced.and(if untold { Err(Errno::IO.into()) } else { Ok(()) })
    }

    fn len(&self) -> io::Result<u64> {
        let mut state = self.disk.state();
        state.read_event()?;
        Ok(state.inode(self.inode).current().len())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        debug_assert_direct_len(self.access, bytes);
        self.disk.state().perform(Action::SetLen { inode: self.inode, bytes })
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        debug_assert_direct_len(self.access, bytes);
        self.disk.state().perform(Action::Allocate { inode: self.inode, bytes })
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        state.inode(self.inode).handles -= 1;
        state.collect();
    }
}
