//! What is behind the handles of a simulated disk, and how one event passes: counted, then the crash, a fault, or
//! the effect.

use super::fate::{Fate, Rng};
use super::inode::{Inode, InodeId};
use super::names::Names;
use super::{Crash, Event, EventKind, Fault, Repeat};
use crate::pages::{SECTOR_BYTES, pages_of};
use rustix::io::Errno;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// A call that changes the disk.
#[derive(Clone)]
pub(crate) enum Action<'a> {
    Write { inode: InodeId, data: Cow<'a, [u8]>, offset: u64 },
    Sync { inode: InodeId },
    SetLen { inode: InodeId, bytes: u64 },
    Allocate { inode: InodeId, bytes: u64 },
    Create { name: Cow<'a, str> },
    Rename { from: Cow<'a, str>, to: Cow<'a, str> },
    Remove { name: Cow<'a, str> },
    SyncDir,
}

impl Action<'_> {
    fn into_owned(self) -> Action<'static> {
        match self {
            Action::Write { inode, data, offset } => {
                Action::Write { inode, data: Cow::Owned(data.into_owned()), offset }
            }
            Action::Sync { inode } => Action::Sync { inode },
            Action::SetLen { inode, bytes } => Action::SetLen { inode, bytes },
            Action::Allocate { inode, bytes } => Action::Allocate { inode, bytes },
            Action::Create { name } => Action::Create { name: Cow::Owned(name.into_owned()) },
            Action::Rename { from, to } => {
                Action::Rename { from: Cow::Owned(from.into_owned()), to: Cow::Owned(to.into_owned()) }
            }
            Action::Remove { name } => Action::Remove { name: Cow::Owned(name.into_owned()) },
            Action::SyncDir => Action::SyncDir,
        }
    }
}

/// Faults to come: (number of the first event, what, how often).
type Plan<T> = Vec<(u64, T, Repeat)>;

fn due<T: Copy>(plan: &Plan<T>, number: u64) -> Option<T> {
    let hits = |&&(at, _, repeat): &&(u64, T, Repeat)| match repeat {
        Repeat::Once => number == at,
        Repeat::Forever => number >= at,
    };
    plan.iter().find(hits).map(|&(_, fault, _)| fault)
}

pub(crate) struct State {
    rng: Rng,
    inodes: BTreeMap<InodeId, Inode>,
    inodes_made: InodeId,
    pub(crate) names: Names,
    pub(crate) locks: BTreeSet<String>,
    pub(crate) events: u64,
    pub(crate) read_events: u64,
    pub(crate) crash_at: Option<u64>,
    pub(crate) crashed: bool,
    /// The event that the crash interrupted.
    in_flight: Option<Action<'static>>,
    pub(crate) faults: Plan<Fault>,
    pub(crate) read_faults: Plan<()>,
    pub(crate) capacity_bytes: u64,
    pub(crate) trace: Option<Vec<Event>>,
}

impl State {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed),
            inodes: BTreeMap::new(),
            inodes_made: 0,
            names: Names::default(),
            locks: BTreeSet::new(),
            events: 0,
            read_events: 0,
            crash_at: None,
            crashed: false,
            in_flight: None,
            faults: Vec::new(),
            read_faults: Vec::new(),
            capacity_bytes: u64::MAX,
            trace: None,
        }
    }

    /// Errs on a disk that has crashed.
    pub(crate) fn alive(&self) -> io::Result<()> {
        if self.crashed { Err(io::Error::other("simulated crash")) } else { Ok(()) }
    }

    /// Counts a call that changes nothing; errs if it is to fail.
    pub(crate) fn read_event(&mut self) -> io::Result<()> {
        self.alive()?;
        let number = self.read_events;
        self.read_events += 1;
        match due(&self.read_faults, number) {
            Some(()) => Err(Errno::IO.into()),
            None => Ok(()),
        }
    }

    /// Looks for a name: a read event, or an event if it is absent and to be created.
    pub(crate) fn look_for(&mut self, name: &str, create: bool) -> io::Result<()> {
        if create && self.names.get(name).is_none() {
            self.perform(Action::Create { name: name.into() })
        } else {
            self.read_event()
        }
    }

    /// One event.
    pub(crate) fn perform(&mut self, action: Action<'_>) -> io::Result<()> {
        self.alive()?;
        let number = self.events;
        self.events += 1;
        self.note(number, &action);
        if self.crash_at.is_some_and(|at| number >= at) {
            self.in_flight = Some(action.into_owned());
            self.freeze();
            return self.alive();
        }
        match due(&self.faults, number) {
            Some(fault) => Err(self.fail(action, fault)),
            None => self.apply(&action),
        }
    }

    fn note(&mut self, number: u64, action: &Action<'_>) {
        let Some(trace) = &mut self.trace else { return };
        let file = |inode| self.names.name_of(inode).unwrap_or("(removed)").to_owned();
        let (name, kind) = match action {
            Action::Write { inode, data, offset } => {
                (file(*inode), EventKind::Write { offset: *offset, bytes: data.len() })
            }
            Action::Sync { inode } => (file(*inode), EventKind::Sync),
            Action::SetLen { inode, bytes } => (file(*inode), EventKind::SetLen { bytes: *bytes }),
            Action::Allocate { inode, bytes } => (file(*inode), EventKind::Allocate { bytes: *bytes }),
            Action::Create { name } => (name.to_string(), EventKind::Create),
            Action::Rename { from, to } => (from.to_string(), EventKind::Rename { to: to.to_string() }),
            Action::Remove { name } => (name.to_string(), EventKind::Remove),
            Action::SyncDir => (".".to_owned(), EventKind::SyncDir),
        };
        trace.push(Event { number, name, kind });
    }

    fn apply(&mut self, action: &Action<'_>) -> io::Result<()> {
        match action {
            Action::Write { inode, data, offset } => {
                let end = offset + data.len() as u64;
                self.check_space(*inode, *offset, end)?;
                self.inode(*inode).write(data, *offset);
            }
            Action::Sync { inode } => self.inode(*inode).sync(),
            Action::SetLen { inode, bytes } => self.inode(*inode).set_len(*bytes),
            Action::Allocate { inode, bytes } => {
                self.check_space(*inode, 0, *bytes)?;
                self.inode(*inode).reserve(*bytes);
            }
            Action::Create { name } => {
                self.inodes_made += 1;
                self.inodes.insert(self.inodes_made, Inode::default());
                self.names.create(name, self.inodes_made);
            }
            Action::Rename { from, to } => {
                if !self.names.rename(from, to) {
                    return Err(io::ErrorKind::NotFound.into());
                }
            }
            Action::Remove { name } => {
                if !self.names.remove(name) {
                    return Err(io::ErrorKind::NotFound.into());
                }
            }
            Action::SyncDir => {
                self.names.settle(Fate::everything());
                self.collect();
            }
        }
        Ok(())
    }

    /// Errs with ENOSPC if there is no room for the pages of bytes `start..end`.
    fn check_space(&self, inode: InodeId, start: u64, end: u64) -> io::Result<()> {
        if self.capacity_bytes == u64::MAX {
            return Ok(());
        }
        let more = self.inodes[&inode].current().missing_bytes(pages_of(start, end));
        if more > 0 && self.used_bytes() + more > self.capacity_bytes {
            Err(Errno::NOSPC.into())
        } else {
            Ok(())
        }
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        let visible = |id: &InodeId, inode: &Inode| inode.handles > 0 || self.names.name_of(*id).is_some();
        let files = self.inodes.iter().filter(|(id, inode)| visible(id, inode));
        files.map(|(_, inode)| inode.current().allocated_bytes()).sum()
    }

    /// What a failing call leaves behind: some of a write; of a sync, anything, once and for all (S3 in `inode.rs`).
    fn fail(&mut self, action: Action<'_>, fault: Fault) -> io::Error {
        match action {
            Action::Write { inode, data, offset } => match fault {
                Fault::Eio => self.write_some_sectors(inode, &data, offset),
                Fault::Enospc => {
                    let done = self.sectors_done(data.len());
                    self.inode(inode).write(&data[..done], offset);
                }
                Fault::ShortWrite => {
                    let done = self.rng.below(data.len().max(1) as u64) as usize;
                    self.inode(inode).write(&data[..done], offset);
                }
            },
            Action::Sync { inode } => {
                let inode = self.inodes.get_mut(&inode).expect("an open file");
                inode.fail_sync(&mut self.rng);
            }
            Action::SyncDir => self.names.settle(Fate::draw(&mut self.rng)),
            other if fault == Fault::Eio && self.rng.coin() => {
                // What would have been refused leaves nothing.
                let _refused = self.apply(&other);
            }
            _ => {}
        }
        match fault {
            Fault::Eio => Errno::IO.into(),
            Fault::Enospc => Errno::NOSPC.into(),
            Fault::ShortWrite => io::ErrorKind::WriteZero.into(),
        }
    }

    /// A write of several sectors, each of which succeeds or not.
    fn write_some_sectors(&mut self, inode: InodeId, data: &[u8], offset: u64) {
        for (sector, at) in data.chunks(SECTOR_BYTES).zip((offset..).step_by(SECTOR_BYTES)) {
            if self.rng.coin() {
                self.inode(inode).write(sector, at);
            }
        }
    }

    /// How many of `bytes` a write that was interrupted has written: whole sectors, or everything.
    fn sectors_done(&mut self, bytes: usize) -> usize {
        let sectors = bytes.div_ceil(SECTOR_BYTES) as u64;
        bytes.min(self.rng.below(sectors + 1) as usize * SECTOR_BYTES)
    }

    /// The end of this incarnation: nothing that it does from now on counts, not even stores into shared memory.
    pub(crate) fn freeze(&mut self) {
        self.crashed = true;
        self.inodes.values_mut().for_each(Inode::unmap_memory);
    }

    /// The disk that the next incarnation finds.
    pub(crate) fn after_crash(&self, crash: Crash, seed: u64) -> State {
        let mut next = State::new(seed);
        next.capacity_bytes = self.capacity_bytes;
        next.names = self.names.clone();
        next.inodes_made = self.inodes_made;
        next.inodes = self.inodes.iter().map(|(&id, inode)| (id, inode.clone())).collect();
        for inode in next.inodes.values_mut() {
            inode.unmap_memory();
            inode.handles = 0;
        }
        if let Some(action) = &self.in_flight {
            next.finish(action, crash);
        }
        if crash == Crash::PowerLoss {
            next.lose_power();
        }
        next.collect();
        next
    }

    /// How far the interrupted event came. Before a power loss, as far as it could, unsynced: the loss decides.
    fn finish(&mut self, action: &Action<'_>, crash: Crash) {
        match action {
            Action::Sync { .. } | Action::SyncDir if crash == Crash::PowerLoss => return,
            Action::Write { inode, data, offset } if crash == Crash::ProcessKill => {
                let done = self.sectors_done(data.len());
                self.inode(*inode).write(&data[..done], *offset);
                return;
            }
            _ if crash == Crash::ProcessKill && self.rng.coin() => return,
            _ => {}
        }
        // An event that would have been refused leaves nothing.
        let _refused = self.apply(action);
    }

    fn lose_power(&mut self) {
        self.names.lose_power(Fate::draw(&mut self.rng));
        self.collect();
        for inode in self.inodes.values_mut() {
            inode.lose_power(Fate::draw(&mut self.rng));
        }
    }

    /// Drops the files that nobody can reach any more.
    pub(crate) fn collect(&mut self) {
        let names = &self.names;
        self.inodes.retain(|&id, inode| inode.handles > 0 || names.holds(id));
    }

    pub(crate) fn inode(&mut self, id: InodeId) -> &mut Inode {
        self.inodes.get_mut(&id).expect("a file stays while it has a handle or a name")
    }

    /// The file of this name, `NotFound` if there is none.
    pub(crate) fn named(&mut self, name: &str) -> io::Result<(InodeId, &mut Inode)> {
        let id = self.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok((id, self.inode(id)))
    }
}
