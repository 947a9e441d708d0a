//! VN and VT: physical versioning. A node is never changed: an update copies it, changes the copy, and lets the parent
//! point to the copy.
//!
//! Source: Rastogi et al. (VLDB 1997), as OLFIT §6 adapts it to the B+-tree: readers take no latch at all; updaters take
//! node latches (VN, without a tree latch for splits) or one latch for the tree (VT). Replaced nodes are reused after an
//! epoch.
//!
//! Invariants:
//! - V1: of a reachable node only the child pointers change, and only under its latch (VT: the tree's).
//! - V2: a replaced node is marked obsolete under its latch; who takes that latch later finds the mark and comes again.
//! - V3: node 0 is the anchor: its one child is the root. It is never replaced.
//!
//! Differs from the paper: empty nodes stay; full inner nodes met on the way to a split are split ahead.

use crate::olfit::arena::{Arena, NodeId, Worker};
use crate::olfit::node::CONTROL;
use crate::olfit::{ROOT as ANCHOR, Scheme, Tree};
use crate::probe::{Hold, Probe};
use crate::wait::until;
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

    fn get<P: Probe, const W: usize>(
        tree: &Tree<Self, W>,
        worker: &mut Worker<'_, P>,
        key: u32,
    ) -> Option<u32> {
        tree.get_version(worker, key)
    }
    fn insert<P: Probe, const W: usize>(
        tree: &Tree<Self, W>,
        worker: &mut Worker<'_, P>,
        key: u32,
        value: u32,
    ) -> bool {
        tree.insert_version(worker, key, value)
    }
    fn remove<P: Probe, const W: usize>(
        tree: &Tree<Self, W>,
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

    fn get<P: Probe, const W: usize>(
        tree: &Tree<Self, W>,
        worker: &mut Worker<'_, P>,
        key: u32,
    ) -> Option<u32> {
        tree.get_version(worker, key)
    }
    fn insert<P: Probe, const W: usize>(
        tree: &Tree<Self, W>,
        worker: &mut Worker<'_, P>,
        key: u32,
        value: u32,
    ) -> bool {
        tree.alone(worker, |worker| tree.insert_version(worker, key, value))
    }
    fn remove<P: Probe, const W: usize>(
        tree: &Tree<Self, W>,
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

impl<S: Scheme, const W: usize> Tree<S, W> {
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
        if S::NODE_LATCHES {
            self.store(worker, node, CONTROL, 0);
        }
        node
    }

    /// Gives up a latched inner node that was replaced, and its latch (V2).
    fn replaced<P: Probe>(&self, worker: &mut Worker<'_, P>, node: NodeId) {
        if S::NODE_LATCHES {
            self.arena.word(node, CONTROL).store(OBSOLETE, Release);
            worker.probe.give(Arena::<W>::address(node, CONTROL), Hold::Exclusive);
        }
        worker.retire(node);
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

    /// Replaces a leaf by a changed copy.
    fn replace_leaf<'t, P: Probe>(
        &self,
        worker: &mut Worker<'t, P>,
        place: &Place,
        change: impl FnOnce(&mut Worker<'t, P>, NodeId),
    ) {
        let copy = self.fresh(worker);
        self.copy_upper(worker, place.leaf, 0, copy);
        change(worker, copy);
        self.publish(worker, place.parent, place.slot, copy);
        worker.retire(place.leaf);
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

    /// Replaces a full child by its halves, and so `node` by a version with one more child; returns that version, latched.
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
        if level > 0 {
            self.latch_version(worker, child);
        }
        let [left, right, newer] = [(); 3].map(|()| self.fresh(worker));
        self.copy_upper(worker, child, 0, left);
        let separator = self.split_into(worker, left, right);
        self.latch_version(worker, newer);
        match *above {
            None => {
                self.init_inner(worker, newer, level + 1, left);
                self.insert_child(worker, newer, 0, separator, right);
                self.publish(worker, ANCHOR, 0, newer);
                *above = Some(ANCHOR);
            }
            Some(above) => {
                self.copy_upper(worker, node, 0, newer);
                self.publish(worker, newer, slot, left);
                self.insert_child(worker, newer, slot, separator, right);
                let (_, count) = self.size(worker, above);
                let (slot, _) = self.child_for(worker, above, count, key);
                self.publish(worker, above, slot, newer);
                self.replaced(worker, node);
            }
        }
        if level > 0 {
            self.replaced(worker, child)
        } else {
            worker.retire(child)
        }
        newer
    }
}
