//! Nodes of `W` four-byte words in one array; a node is named by its number. Four bytes name a child, as in the paper.
//!
//! Nodes are handed out in blocks: single ones, or a group with room for all children of a node.
//! Threads take several blocks at once, so that the counter that hands them out is no contended line (OLFIT §6, memory pools).

use crate::olfit::epoch::{Epochs, Seat, WORKERS_MAX};
use crate::probe::Probe;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The number of a node.
pub type NodeId = u32;

/// Nodes that a thread takes at once, if they make whole blocks.
const CHUNK: u32 = 64;

/// The lines before the nodes hold the tree latch, the epoch counter and the threads' epochs.
const NODES_AT: u64 = 1 << 16;

#[repr(C, align(64))]
struct Node<const W: usize>([AtomicU32; W]);

/// All nodes of a tree.
pub struct Arena<const W: usize> {
    nodes: Box<[Node<W>]>,
    next: CachePadded<AtomicU32>,
    block: u32,
}

impl<const W: usize> Arena<W> {
    /// Room for `blocks` of `block` nodes, besides what threads keep, and node 0, which is not handed out.
    pub fn new(blocks: usize, block: u32) -> Self {
        let node = |_| Node(std::array::from_fn(|_| AtomicU32::new(0)));
        let capacity = 1 + blocks * block as usize + WORKERS_MAX * chunk(block) as usize;
        Self { nodes: (0..capacity).map(node).collect(), next: CachePadded::new(1.into()), block }
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

    /// Where a probe sees the end of the nodes handed out so far.
    pub fn end(&self) -> u64 {
        Self::address(self.next.load(Relaxed), 0)
    }

    /// Bytes of the nodes handed out so far.
    pub fn bytes(&self) -> u64 {
        u64::from(self.next.load(Relaxed)) * size_of::<Node<W>>() as u64
    }

    fn chunk(&self) -> std::ops::Range<NodeId> {
        let nodes = chunk(self.block);
        let first = self.next.fetch_add(nodes, Relaxed);
        assert!(
            first as usize + nodes as usize <= self.nodes.len(),
            "the tree is full: create it with room for more keys"
        );
        first..first + nodes
    }
}

/// Nodes that a thread takes at once.
fn chunk(block: u32) -> u32 {
    (CHUNK / block).max(1) * block
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

    /// The first node of a block that nobody else can reach.
    pub(super) fn allocate<const W: usize>(&mut self, arena: &Arena<W>) -> NodeId {
        if let Some(block) = self.seat.grave.reusable() {
            return block;
        }
        if self.seat.chunk.is_empty() {
            self.seat.chunk = arena.chunk();
        }
        let block = self.seat.chunk.start;
        self.seat.chunk.start += arena.block;
        block
    }

    /// Before an update: waits for readers, if as many blocks as this thread may have are buried because of them. A reader may be
    /// put off the processor in the middle of its operation, and nobody may use up all blocks meanwhile.
    ///
    /// Nothing may be latched or pinned: whoever is waited for could be waiting for us.
    #[inline]
    pub(super) fn await_readers(&mut self) {
        while self.seat.grave.is_full() {
            self.seat.grave.look(self.epochs, &mut self.probe);
            std::thread::yield_now();
        }
    }

    /// Gives up a block to which no pointer leads any more, though readers may still stand on its nodes.
    pub(super) fn retire(&mut self, block: NodeId) {
        self.seat.grave.bury(block, self.epochs, &mut self.probe);
    }
}

impl<P> Drop for Worker<'_, P> {
    fn drop(&mut self) {
        self.epochs.leave(std::mem::take(&mut self.seat));
    }
}
