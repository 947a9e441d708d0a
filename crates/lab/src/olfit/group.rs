//! Node groups of the full CSB+-tree: all children of a node lie side by side, so one pointer names them all.
//!
//! ```text
//! group    slot 0 | slot 1 | … | slot INNER_MAX - 1 | header: latch and version, link to the right; OL only
//! ```
//!
//! A group is allocated whole ("full"). The child of slot `i` is split into slots `i` and `i + 1`, and what lay from `i + 1`
//! on moves one to the right. There is room: before a node is split, its parent has room, and a parent's entries and its
//! group's slots are the same in number. An inner node that splits keeps its group with the lower half of its children;
//! the others move to a new group, which is that of the node's right half. Nodes have no pointers to them but through
//! their parent (OL: and along the links), so nothing else is to be mended.
//!
//! Source: Rao and Ross (SIGMOD 2000), full variant; OLFIT §5.5. The root is node 0, alone.
//!
//! Invariant C1: the children of a node are the first slots of its group, as many as it has entries.

use crate::olfit::arena::{NodeId, Worker};
use crate::olfit::node::HIGH;
use crate::olfit::{Family, Scheme, Tree};
use crate::probe::Probe;
use std::ops::Range;

impl<S: Scheme, const W: usize, F: Family> Tree<S, W, F> {
    /// Nodes that are allocated together.
    pub(super) const BLOCK: usize =
        if F::GROUPED { Self::INNER_MAX + if S::LINKED { 1 } else { 0 } } else { 1 };

    /// The group of a node, and its slot there. Not for the root.
    pub(super) const fn place_of(node: NodeId) -> (NodeId, usize) {
        let (block, slot) = ((node - 1) / Self::BLOCK as NodeId, (node - 1) % Self::BLOCK as NodeId);
        (1 + block * Self::BLOCK as NodeId, slot as usize)
    }

    /// The header of a group, behind its slots.
    pub(super) const fn header(group: NodeId) -> NodeId {
        group + Self::INNER_MAX as NodeId
    }

    /// The first node of the block of child number `slot`.
    pub(super) const fn block(slot: usize, child: NodeId) -> NodeId {
        if F::GROUPED { child - slot as NodeId } else { child }
    }

    /// All nodes of the block of child number `slot` that are in use, if its parent has `count` children.
    pub(super) fn siblings(count: usize, slot: usize, child: NodeId) -> Range<NodeId> {
        let first = Self::block(slot, child);
        first..first + if F::GROUPED { count as NodeId } else { 1 }
    }

    /// Where the right half of child number `slot` of a node with `count` children goes, and the nodes from there on that
    /// change: those that move to the right to make place, and the slot that the last of them takes.
    pub(super) fn right_half<P: Probe>(
        &self,
        worker: &mut Worker<'_, P>,
        count: usize,
        slot: usize,
        child: NodeId,
    ) -> Range<NodeId> {
        if F::GROUPED {
            child + 1..Self::block(slot, child) + count as NodeId + 1
        } else {
            let right = worker.allocate(&self.arena);
            right..right + 1
        }
    }

    /// Moves all nodes of the range but the last to the right by one.
    pub(super) fn shift_nodes<P: Probe>(&self, worker: &mut Worker<'_, P>, nodes: Range<NodeId>) {
        for node in (nodes.start + 1..nodes.end).rev() {
            self.copy_node(worker, node - 1, node);
        }
    }

    /// Makes a node what another one is; latch and version stay its own.
    pub(super) fn copy_node<P: Probe>(&self, worker: &mut Worker<'_, P>, node: NodeId, to: NodeId) {
        self.copy_upper(worker, node, 0, to);
        if S::LINKED {
            let high = self.load(worker, node, HIGH);
            self.store(worker, to, HIGH, high);
        }
    }
}
