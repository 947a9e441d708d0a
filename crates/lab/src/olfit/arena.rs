//! Nodes of `W` four-byte words in one array; a node is named by its number. Four bytes name a child, as in the paper.
//!
//! Threads take nodes in chunks, so that the counter that hands them out is no contended line (OLFIT §6, memory pools).

use crate::olfit::epoch::{Epochs, Seat};
use crate::probe::Probe;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The number of a node.
pub type NodeId = u32;

/// Nodes that a thread takes at once.
const CHUNK: u32 = 64;

/// The lines before the nodes hold the tree latch, the epoch counter and the threads' epochs.
const NODES_AT: u64 = 1 << 16;

#[repr(C, align(64))]
struct Node<const W: usize>([AtomicU32; W]);

/// All nodes of a tree.
pub struct Arena<const W: usize> {
    nodes: Box<[Node<W>]>,
    next: CachePadded<AtomicU32>,
}

impl<const W: usize> Arena<W> {
    /// Room for `capacity` nodes; the first `reserved` are not handed out.
    pub fn new(capacity: usize, reserved: u32) -> Self {
        let node = |_| Node(std::array::from_fn(|_| AtomicU32::new(0)));
        Self { nodes: (0..capacity).map(node).collect(), next: CachePadded::new(reserved.into()) }
    }

    /// A word of a node.
    #[inline(always)]
    pub fn word(&self, node: NodeId, at: usize) -> &AtomicU32 {
        &self.nodes[node as usize].0[at]
    }

    /// Where a probe sees that word.
    #[inline(always)]
    pub fn address(node: NodeId, at: usize) -> u64 {
        NODES_AT + u64::from(node) * (4 * W as u64) + 4 * at as u64
    }

    /// Bytes of the nodes handed out so far.
    pub fn bytes(&self) -> u64 {
        u64::from(self.next.load(Relaxed)) * size_of::<Node<W>>() as u64
    }

    fn chunk(&self) -> std::ops::Range<NodeId> {
        let first = self.next.fetch_add(CHUNK, Relaxed);
        assert!(
            first as usize + CHUNK as usize <= self.nodes.len(),
            "the tree is full: create it with room for more keys"
        );
        first..first + CHUNK
    }
}

/// What a thread works with: its probe, its nodes, its epoch.
pub struct Worker<'t, P> {
    /// Sees every access of this thread.
    pub probe: P,
    pub(super) epochs: &'t Epochs,
    pub(super) seat: Seat,
}

impl<'t, P: Probe> Worker<'t, P> {
    pub(super) fn new(epochs: &'t Epochs, probe: P) -> Self {
        Self { probe, epochs, seat: epochs.enter() }
    }

    /// A node that nobody else can reach.
    pub(super) fn allocate<const W: usize>(&mut self, arena: &Arena<W>) -> NodeId {
        if let Some(node) = self.seat.grave.reusable() {
            return node;
        }
        if self.seat.chunk.is_empty() {
            self.seat.chunk = arena.chunk();
        }
        self.seat.chunk.next().expect("a chunk has nodes")
    }

    /// Gives up a node to which no pointer leads any more, though readers may still stand on it.
    pub(super) fn retire(&mut self, node: NodeId) {
        self.seat.grave.bury(node, self.epochs, &mut self.probe);
    }
}

impl<P> Drop for Worker<'_, P> {
    fn drop(&mut self) {
        self.epochs.leave(std::mem::take(&mut self.seat));
    }
}
