//! The problem queue: nodes whose balance or fill the rebalancer must look at.
//!
//! Why: updates leave the balance to somebody else, and say where to look instead of having the whole tree searched.
//! Source: O2-Tree §3.3: a queue that updaters append to and the rebalancer pops from, nobody being blocked.
//! Differs: the queue runs through the nodes themselves. Appending is one compare-exchange and needs no memory; a node
//! is in the queue at most once; the rebalancer takes all there is in one exchange.
//!
//! Invariants:
//! - Q1: a node that breaks a balance rule is in the queue, or in the rebalancer's hands. It is put there under a latch
//!   that the rebalancer takes, after it took the node out, before it looks at the node.
//! - Q2: a dead node that is still in the queue is given back by the rebalancer when it meets it there.

use super::header_at;
use super::node::{Child, Header};
use crate::counters::Count;
use crate::reclaim::Pin;
use foreshore_base::sync::{AtomicU64, Ordering::*};

/// Bit 1 of a node's problem word: it is in the queue. The rest is the child word of the node that was put in before.
const QUEUED: u64 = 2;

#[derive(Debug)]
pub struct Problems {
    /// Child word of the node put in last.
    newest: AtomicU64,
    /// Nodes put in so far.
    pub total: Count,
}

impl Problems {
    pub fn new() -> Self {
        Self { newest: AtomicU64::new(0), total: Count::default() }
    }

    /// Puts a node in, unless it is there. A latch of the node or of its parent is held (Q1).
    pub fn push(&self, node: Child, header: &Header) {
        // ORDERING: coherence of this one word does it: who finds it set comes before the rebalancer clears it, and so
        // takes a latch of Q1 before the rebalancer does.
        if header.problem.compare_exchange(0, QUEUED, Relaxed, Relaxed).is_err() {
            return;
        }
        self.total.add();
        let mut newest = self.newest.load(Relaxed);
        loop {
            header.problem.store(newest | QUEUED, Relaxed);
            // ORDERING: Release publishes the problem word; pairs with `take`.
            match self.newest.compare_exchange(newest, node.0, Release, Relaxed) {
                Ok(_) => return,
                Err(now) => newest = now,
            }
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.newest.load(Relaxed) == 0
    }

    /// Takes everything out, oldest first. Each node still says that it is queued, until [`Problems::release`].
    pub fn take(&self, pin: &Pin) -> Vec<Child> {
        let mut taken = Vec::new();
        let mut next = self.newest.swap(0, Acquire);
        while next != 0 {
            taken.push(Child(next));
            next = header_at(Child(next), pin).problem.load(Relaxed) & !QUEUED;
        }
        taken.reverse();
        taken
    }

    /// Lets a node that was taken out be put in again.
    pub fn release(header: &Header) {
        header.problem.store(0, Relaxed);
    }

    /// Is the node in the queue, or was taken and not yet released?
    pub fn holds(header: &Header) -> bool {
        header.problem.load(Relaxed) & QUEUED != 0
    }
}
