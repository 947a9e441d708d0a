//! VN and VT: physical versioning. A node is never changed: an update copies it, changes the copy, and lets the parent
//! point to the copy. In a CSB+-tree, where a parent has one pointer for all its children, their whole group is copied.
//!
//! Source: Rastogi et al. (VLDB 1997), as OLFIT §6 adapts it to the B+-tree and the CSB+-tree: readers take no latch at all;
//! updaters take node latches (VN, without a tree latch for splits) or one latch for the tree (VT). Replaced nodes are
//! reused after an epoch.
//!
//! What is replaced with a node is here called its *siblings*: in a B+-tree the node alone, in a CSB+-tree the nodes of its
//! group.
//!
//! Invariants:
//! - V1: of a reachable node only the child pointers change, and only under its latch (VT: the tree's).
//! - V2: a replaced node is marked obsolete under its latch; who takes that latch later finds the mark and comes again.
//! - V3: node 0 is the anchor: its one child is the root. It is never replaced.
//! - V4: inner nodes are copied only while all of them are latched, so that the pointers in them stand still. The latches
//!   of siblings are taken by who holds their parent's latch, and by nobody else more than one at a time: so the order
//!   among them does not matter. Otherwise latches are taken from the top down.
//! - V5: what a node says of its children (how many, and their separators) is true of every group that it has pointed to:
//!   a split replaces the children's group and the node in one step, by a pointer of the node above.
//!
//! When an inner node of a CSB+-tree splits, its left half keeps the group with the lower half of the children, and the
//! upper half is copied to a new group. Readers of the old node go on finding all children in the old group; they see what
//! was true when the node was replaced. Inner nodes that were copied are marked (V2), so no updater changes them there.
//!
//! Differs from the paper: empty nodes stay; full inner nodes met on the way to a split are split ahead.

use crate::olfit::arena::{Arena, NodeId, Worker};
use crate::olfit::node::CONTROL;
use crate::olfit::{Family, ROOT as ANCHOR, Scheme, Tree};
use crate::probe::{Hold, Probe};
use crate::wait::until;
use std::ops::Range;
use std::sync::atomic::Ordering::*;

/// Physical versioning with a latch per node.
pub struct VersionsByNode;
/// Physical versioning with a latch for the tree.
pub struct VersionsByTree;

const LATCHED: u32 = 1;
const OBSOLETE: u32 = 2;

impl Scheme for VersionsByNode {
    const NAME: &str = "VN";
    const HEADER: usize = 2;
    const NODE_LATCHES: bool = true;
    const ANCHORED: bool = true;

    fn get<P: Probe, F: Family, const W: usize>(
        tree: &Tree<Self, W, F>,
        worker: &mut Worker<'_, P>,
        key: u32,
    ) -> Option<u32> {
        tree.get_version(worker, key)
    }
    fn insert<P: Probe, F: Family, const W: usize>(
        tree: &Tree<Self, W, F>,
        worker: &mut Worker<'_, P>,
        key: u32,
        value: u32,
    ) -> bool {
        tree.insert_version(worker, key, value)
    }
    fn remove<P: Probe, F: Family, const W: usize>(
        tree: &Tree<Self, W, F>,
        worker: &mut Worker<'_, P>,
        key: u32,
    ) -> Option<u32> {
        tree.remove_version(worker, key)
    }
}

impl Scheme for VersionsByTree {
    const NAME: &str = "VT";
    const HEADER: usize = 1;
    const ANCHORED: bool = true;

    fn get<P: Probe, F: Family, const W: usize>(
        tree: &Tree<Self, W, F>,
        worker: &mut Worker<'_, P>,
        key: u32,
    ) -> Option<u32> {
        tree.get_version(worker, key)
    }
    fn insert<P: Probe, F: Family, const W: usize>(
        tree: &Tree<Self, W, F>,
        worker: &mut Worker<'_, P>,
        key: u32,
        value: u32,
    ) -> bool {
        tree.alone(worker, |worker| tree.insert_version(worker, key, value))
    }
    fn remove<P: Probe, F: Family, const W: usize>(
        tree: &Tree<Self, W, F>,
        worker: &mut Worker<'_, P>,
        key: u32,
    ) -> Option<u32> {
        tree.alone(worker, |worker| tree.remove_version(worker, key))
    }
}

/// A leaf, and where its latched parent points to it.
struct Place {
    parent: NodeId,
    slot: usize,
    leaf: NodeId,
}

impl<S: Scheme, const W: usize, F: Family> Tree<S, W, F> {
    fn latch_version<P: Probe>(&self, worker: &mut Worker<'_, P>, node: NodeId) {
        if S::NODE_LATCHES {
            worker.probe.take(Arena::<W>::address(node, CONTROL), Hold::Exclusive);
            let word = self.arena.word(node, CONTROL);
            until(|| {
                let seen = word.load(Relaxed);
                seen & LATCHED == 0
                    && word.compare_exchange_weak(seen, seen | LATCHED, Acquire, Relaxed).is_ok()
            });
        }
    }

    fn unlatch_version<P: Probe>(&self, worker: &mut Worker<'_, P>, node: NodeId) {
        if S::NODE_LATCHES {
            self.arena.word(node, CONTROL).fetch_and(!LATCHED, Release);
            worker.probe.give(Arena::<W>::address(node, CONTROL), Hold::Exclusive);
        }
    }

    fn is_obsolete(&self, node: NodeId) -> bool {
        S::NODE_LATCHES && self.arena.word(node, CONTROL).load(Relaxed) & OBSOLETE != 0
    }

    /// A fresh node that bears no mark of an earlier life.
    fn fresh<P: Probe>(&self, worker: &mut Worker<'_, P>) -> NodeId {
        let node = worker.allocate(&self.arena);
        self.unmark(worker, node);
        node
    }

    fn unmark<P: Probe>(&self, worker: &mut Worker<'_, P>, node: NodeId) {
        if S::NODE_LATCHES {
            self.store(worker, node, CONTROL, 0);
        }
    }

    /// Gives the latch of a node back that was copied and is not reachable any more by new readers (V2).
    fn unlatch_obsolete<P: Probe>(&self, worker: &mut Worker<'_, P>, node: NodeId) {
        if S::NODE_LATCHES {
            self.arena.word(node, CONTROL).store(OBSOLETE, Release);
            worker.probe.give(Arena::<W>::address(node, CONTROL), Hold::Exclusive);
        }
    }

    /// Copies a node to one that nobody can reach.
    fn copy_fresh<P: Probe>(&self, worker: &mut Worker<'_, P>, node: NodeId, to: NodeId) {
        self.unmark(worker, to);
        self.copy_node(worker, node, to);
    }

    /// Copies `node` and its siblings to where nobody can reach them; returns the copy of `node`. With `gap`, in a
    /// CSB+-tree, it has a free place to its right.
    fn copy_siblings<P: Probe>(
        &self,
        worker: &mut Worker<'_, P>,
        siblings: Range<NodeId>,
        node: NodeId,
        gap: bool,
    ) -> NodeId {
        let first = worker.allocate(&self.arena);
        for old in siblings.clone() {
            let place = old - siblings.start + NodeId::from(gap && old > node);
            self.copy_fresh(worker, old, first + place);
        }
        first + node - siblings.start
    }

    /// Gives up latched inner nodes, all siblings, that were replaced.
    fn replaced<P: Probe>(&self, worker: &mut Worker<'_, P>, siblings: Range<NodeId>) {
        siblings.clone().for_each(|node| self.unlatch_obsolete(worker, node));
        worker.retire(siblings.start);
    }

    fn get_version<P: Probe>(&self, worker: &mut Worker<'_, P>, key: u32) -> Option<u32> {
        worker.epochs.pin(worker.seat.slot, &mut worker.probe);
        let (_, leaf) = self.descend_versions(worker, key);
        let (_, count) = self.size(worker, leaf);
        let value = self.find(worker, leaf, count, key).ok().map(|slot| self.value(worker, leaf, slot));
        worker.epochs.unpin(worker.seat.slot, &mut worker.probe);
        value
    }

    /// The leaf of `key` and its parent, as they were a moment ago.
    fn descend_versions<P: Probe>(&self, worker: &mut Worker<'_, P>, key: u32) -> (NodeId, NodeId) {
        let mut parent = ANCHOR;
        let (_, mut node) = self.child_for(worker, ANCHOR, 1, key);
        loop {
            let (level, count) = self.size(worker, node);
            if level == 0 {
                return (parent, node);
            }
            parent = node;
            (_, node) = self.child_for(worker, node, count, key);
        }
    }

    /// The leaf of `key` as it is, its parent latched.
    fn place<P: Probe>(&self, worker: &mut Worker<'_, P>, key: u32) -> Place {
        loop {
            let (parent, _) = self.descend_versions(worker, key);
            self.latch_version(worker, parent);
            let (_, count) = self.size(worker, parent);
            let (slot, leaf) = self.child_for(worker, parent, count, key);
            // The anchor's child may have become an inner node meanwhile.
            if !self.is_obsolete(parent) && self.size(worker, leaf).0 == 0 {
                return Place { parent, slot, leaf };
            }
            self.unlatch_version(worker, parent);
        }
    }

    fn insert_version<P: Probe>(&self, worker: &mut Worker<'_, P>, key: u32, value: u32) -> bool {
        worker.epochs.pin(worker.seat.slot, &mut worker.probe);
        let place = self.place(worker, key);
        let (_, count) = self.size(worker, place.leaf);
        let inserted = match self.find(worker, place.leaf, count, key) {
            Ok(_) => Some(false),
            Err(_) if count == Self::LEAF_MAX => None,
            Err(at) => {
                self.replace_leaf(worker, &place, |worker, copy| {
                    self.insert_at(worker, copy, at, key, value)
                });
                Some(true)
            }
        };
        self.unlatch_version(worker, place.parent);
        let inserted = inserted.unwrap_or_else(|| self.insert_version_splitting(worker, key, value));
        worker.epochs.unpin(worker.seat.slot, &mut worker.probe);
        inserted
    }

    fn remove_version<P: Probe>(&self, worker: &mut Worker<'_, P>, key: u32) -> Option<u32> {
        worker.epochs.pin(worker.seat.slot, &mut worker.probe);
        let place = self.place(worker, key);
        let (_, count) = self.size(worker, place.leaf);
        let removed = self.find(worker, place.leaf, count, key).ok().map(|at| {
            let value = self.value(worker, place.leaf, at);
            self.replace_leaf(worker, &place, |worker, copy| self.remove_at(worker, copy, at));
            value
        });
        self.unlatch_version(worker, place.parent);
        worker.epochs.unpin(worker.seat.slot, &mut worker.probe);
        removed
    }

    /// Replaces a leaf, with its siblings, by a changed copy.
    fn replace_leaf<'t, P: Probe>(
        &self,
        worker: &mut Worker<'t, P>,
        place: &Place,
        change: impl FnOnce(&mut Worker<'t, P>, NodeId),
    ) {
        let (_, count) = self.size(worker, place.parent);
        let siblings = Self::siblings(count, place.slot, place.leaf);
        let copy = self.copy_siblings(worker, siblings.clone(), place.leaf, false);
        change(worker, copy);
        self.publish(worker, place.parent, place.slot, copy);
        worker.retire(siblings.start);
    }

    /// Comes down with the latches of a node and its parent, replaces what is full by two nodes, and inserts.
    fn insert_version_splitting<P: Probe>(&self, worker: &mut Worker<'_, P>, key: u32, value: u32) -> bool {
        self.latch_version(worker, ANCHOR);
        let mut above = None;
        let mut node = ANCHOR;
        loop {
            let (_, count) = self.size(worker, node);
            let (mut slot, mut child) = self.child_for(worker, node, count, key);
            if self.is_full(worker, child) {
                node = self.split_version(worker, &mut above, node, slot, child, key);
                let (_, count) = self.size(worker, node);
                (slot, child) = self.child_for(worker, node, count, key);
            }
            let (level, count) = self.size(worker, child);
            if level == 0 {
                let place = Place { parent: node, slot, leaf: child };
                let found = self.find(worker, child, count, key);
                if let Err(at) = found {
                    self.replace_leaf(worker, &place, |worker, copy| {
                        self.insert_at(worker, copy, at, key, value)
                    });
                }
                self.unlatch_version(worker, node);
                above.into_iter().for_each(|above| self.unlatch_version(worker, above));
                return found.is_err();
            }
            self.latch_version(worker, child);
            above.replace(node).into_iter().for_each(|above| self.unlatch_version(worker, above));
            node = child;
        }
    }

    /// Replaces a full child by its halves, and so `node` by a version with one more child; each with its siblings. Returns
    /// that version, latched.
    /// The anchor is not replaced (V3): it gets a new root below it, which is returned.
    fn split_version<P: Probe>(
        &self,
        worker: &mut Worker<'_, P>,
        above: &mut Option<NodeId>,
        node: NodeId,
        slot: usize,
        child: NodeId,
        key: u32,
    ) -> NodeId {
        let (level, _) = self.size(worker, child);
        let (_, count) = self.size(worker, node);
        let children = Self::siblings(count, slot, child);
        if level > 0 {
            children.clone().for_each(|node| self.latch_version(worker, node));
        }
        let left = self.copy_siblings(worker, children.clone(), child, true);
        let right = if F::GROUPED { left + 1 } else { worker.allocate(&self.arena) };
        self.unmark(worker, right);
        let mut moved = 0..0;
        let separator = self.split_into(worker, left, right, |worker, nodes, to| {
            for (node, to) in nodes.clone().zip(to..) {
                if level > 1 {
                    self.latch_version(worker, node);
                }
                self.copy_fresh(worker, node, to);
            }
            moved = nodes;
        });
        let newer = match *above {
            None => {
                let newer = self.fresh(worker);
                self.latch_version(worker, newer);
                self.init_inner(worker, newer, level + 1, left);
                self.insert_child(worker, newer, 0, separator, right);
                self.publish(worker, ANCHOR, 0, newer);
                *above = Some(ANCHOR);
                newer
            }
            Some(above) => {
                let (_, count) = self.size(worker, above);
                let (slot_above, _) = self.child_for(worker, above, count, key);
                let siblings = Self::siblings(count, slot_above, node);
                let others = siblings.clone().filter(|other| *other != node);
                others.for_each(|other| self.latch_version(worker, other));
                let newer = self.copy_siblings(worker, siblings.clone(), node, false);
                self.latch_version(worker, newer);
                self.publish(worker, newer, slot, left);
                self.insert_child(worker, newer, slot, separator, right);
                self.publish(worker, above, slot_above, newer);
                self.replaced(worker, siblings);
                newer
            }
        };
        if level > 1 {
            moved.for_each(|node| self.unlatch_obsolete(worker, node));
        }
        if level > 0 {
            self.replaced(worker, children);
        } else {
            worker.retire(children.start);
        }
        newer
    }
}
