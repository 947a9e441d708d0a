//! When may a replaced node be used again? When everyone who could stand on it has ended its operation.
//!
//! Source: the garbage collector of physical versioning (Rastogi et al., VLDB 1997), which OLFIT §5.3 uses, too. Each
//! thread shows in a line of its own in which epoch its operation began; a node is free once all show a later one.
//!
//! Invariant E1: a thread that shows an epoch later than the one a node was buried in cannot reach the node.

use crate::olfit::arena::NodeId;
use crate::probe::Probe;
use crossbeam_utils::CachePadded;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::*, fence};

/// Threads at once.
pub const WORKERS_MAX: usize = 256;
/// Shown by a thread that is in no operation.
const IDLE: u64 = u64::MAX;
/// Burials between two looks at what is free.
const LOOK_EVERY: usize = 64;
/// So many nodes of a thread may be buried before it waits for readers.
pub const BURIED_MAX: usize = 160;

/// Where a probe sees the epoch counter, and the threads' lines behind it.
const EPOCH_AT: u64 = 128;
const SLOTS_AT: u64 = 4096;

/// The epochs of a tree's threads.
pub struct Epochs {
    now: CachePadded<AtomicU64>,
    shown: Box<[CachePadded<AtomicU64>]>,
    free: Mutex<Vec<Seat>>,
}

/// A thread's line, and what the thread that had it before left: nodes that it never used, and those that it unlinked.
#[derive(Default)]
pub struct Seat {
    /// Which line.
    pub slot: usize,
    /// Unlinked nodes.
    pub grave: Grave,
    /// Unused nodes.
    pub chunk: Range<NodeId>,
}

impl Epochs {
    pub fn new() -> Self {
        Self {
            now: CachePadded::new(AtomicU64::new(1)),
            shown: (0..WORKERS_MAX).map(|_| CachePadded::new(AtomicU64::new(IDLE))).collect(),
            free: Mutex::new((0..WORKERS_MAX).rev().map(|slot| Seat { slot, ..Seat::default() }).collect()),
        }
    }

    /// A line for a thread: the one given back last, so that what was left there is used again.
    ///
    /// Panics if [`WORKERS_MAX`] threads have one.
    pub fn enter(&self) -> Seat {
        let mut free = self.free.lock().expect("nobody panics with it");
        free.pop().expect("more than 256 workers on one tree")
    }

    /// Gives the line back.
    pub fn leave(&self, seat: Seat) {
        self.shown[seat.slot].store(IDLE, Release);
        self.free.lock().expect("nobody panics with it").push(seat);
    }

    /// An operation begins.
    #[inline]
    pub fn pin<P: Probe>(&self, slot: usize, probe: &mut P) {
        probe.load(EPOCH_AT);
        probe.store(SLOTS_AT + 64 * slot as u64);
        self.shown[slot].store(self.now.load(Relaxed), Relaxed);
        // ORDERING: whoever looks at the shown epochs after its own fence sees ours, or we see all that it unlinked
        // before (E1).
        fence(SeqCst);
    }

    /// The operation is over.
    #[inline]
    pub fn unpin<P: Probe>(&self, slot: usize, probe: &mut P) {
        probe.store(SLOTS_AT + 64 * slot as u64);
        // ORDERING: what was read in the operation stays before.
        self.shown[slot].store(IDLE, Release);
    }

    /// The earliest epoch that a thread shows.
    fn earliest(&self) -> u64 {
        self.shown.iter().map(|shown| shown.load(Acquire)).min().expect("there are slots")
    }
}

/// What a thread has unlinked, in the order of epochs.
#[derive(Default)]
pub struct Grave {
    buried: VecDeque<(u64, NodeId)>,
    free: Vec<NodeId>,
}

impl Grave {
    /// Takes a node to which no pointer leads any more.
    pub fn bury<P: Probe>(&mut self, node: NodeId, epochs: &Epochs, probe: &mut P) {
        // ORDERING: the unlinking comes before the epoch is read; pairs with the fence in `pin` (E1).
        fence(SeqCst);
        probe.load(EPOCH_AT);
        self.buried.push_back((epochs.now.load(Relaxed), node));
        if self.buried.len().is_multiple_of(LOOK_EVERY) {
            self.look(epochs, probe);
        }
    }

    /// Begins an epoch, and frees what nobody can stand on.
    pub fn look<P: Probe>(&mut self, epochs: &Epochs, probe: &mut P) {
        probe.exchange(EPOCH_AT);
        epochs.now.fetch_add(1, SeqCst);
        fence(SeqCst);
        let earliest = epochs.earliest();
        while let Some(&(epoch, node)) = self.buried.front()
            && epoch < earliest
        {
            self.buried.pop_front();
            self.free.push(node);
        }
    }

    /// Are as many buried as may be?
    pub fn is_full(&self) -> bool {
        self.buried.len() >= BURIED_MAX
    }

    /// A node that may be used again.
    pub fn reusable(&mut self) -> Option<NodeId> {
        self.free.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Silent;

    /// A node stays buried while a thread is in an operation that began before, and is free soon after.
    #[test]
    fn nothing_is_reused_under_a_reader() {
        let epochs = Epochs::new();
        let (reader, _writer) = (epochs.enter().slot, epochs.enter());
        let mut grave = Grave::default();
        epochs.pin(reader, &mut Silent);
        (0..200).for_each(|node| grave.bury(node, &epochs, &mut Silent));
        assert_eq!(grave.reusable(), None);
        epochs.unpin(reader, &mut Silent);
        (200..264).for_each(|node| grave.bury(node, &epochs, &mut Silent));
        assert!(grave.reusable().is_some());
    }
}
