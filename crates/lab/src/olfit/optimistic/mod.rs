//! OL: OLFIT. Readers validate versions and write nothing; updaters latch the leaf that they change, and only for a split
//! nodes above and beside it ([`link`], [`group`]).
//!
//! The production trees are in `foreshore-index`; these share their node layout with the schemes they are compared to.
//!
//! Invariants:
//! - O1: a node's contents change only under its latch, and its version grows with every change.
//! - O2: keys from a node's high key on live to its right, reachable by steps to the right; never to its left.
//! - O3: a child pointer is followed only after the node it was read from is validated.
//!
//! Differs from the paper: empty nodes stay, so links are never taken out.

mod group;
mod link;

use crate::olfit::arena::{Arena, NodeId, Worker};
use crate::olfit::node::{CONTROL, HIGH};
use crate::olfit::{Family, ROOT, Scheme, Tree};
use crate::probe::{Hold, Probe};
use crate::wait::{Patience, until};
use std::sync::atomic::{Ordering::*, fence};

/// OLFIT.
pub struct Optimistic;

const LATCHED: u32 = 1;
const VERSION_STEP: u32 = 2;

/// The nodes passed on the way down, by level.
type Path = [NodeId; LEVELS_MAX];
const LEVELS_MAX: usize = 24;

impl Scheme for Optimistic {
    const NAME: &str = "OL";
    const HEADER: usize = 3;
    const LINKED: bool = true;

    fn init<P: Probe, F: Family, const W: usize>(tree: &Tree<Self, W, F>, worker: &mut Worker<'_, P>) {
        tree.store(worker, ROOT, HIGH, u32::MAX);
    }

    fn get<P: Probe, F: Family, const W: usize>(
        tree: &Tree<Self, W, F>,
        worker: &mut Worker<'_, P>,
        key: u32,
    ) -> Option<u32> {
        worker.epochs.pin(worker.seat.slot, &mut worker.probe);
        let value = tree.get_validated(worker, key);
        worker.epochs.unpin(worker.seat.slot, &mut worker.probe);
        value
    }

    fn insert<P: Probe, F: Family, const W: usize>(
        tree: &Tree<Self, W, F>,
        worker: &mut Worker<'_, P>,
        key: u32,
        value: u32,
    ) -> bool {
        worker.epochs.pin(worker.seat.slot, &mut worker.probe);
        let mut path = [ROOT; LEVELS_MAX];
        let leaf = tree.latched_at(worker, key, 0, &mut path);
        let (_, count) = tree.size(worker, leaf);
        let inserted = match tree.find(worker, leaf, count, key) {
            Err(slot) if count < Tree::<Self, W, F>::LEAF_MAX => {
                tree.insert_at(worker, leaf, slot, key, value);
                tree.unlatch(worker, leaf);
                true
            }
            Err(_) if F::GROUPED => tree.insert_in_full_group(worker, leaf, (key, value), &mut path),
            Err(_) => tree.insert_in_full(worker, leaf, (key, value), &mut path),
            Ok(_) => {
                tree.unlatch(worker, leaf);
                false
            }
        };
        worker.epochs.unpin(worker.seat.slot, &mut worker.probe);
        inserted
    }

    fn remove<P: Probe, F: Family, const W: usize>(
        tree: &Tree<Self, W, F>,
        worker: &mut Worker<'_, P>,
        key: u32,
    ) -> Option<u32> {
        worker.epochs.pin(worker.seat.slot, &mut worker.probe);
        let leaf = tree.latched_at(worker, key, 0, &mut [ROOT; LEVELS_MAX]);
        let (_, count) = tree.size(worker, leaf);
        let value = tree.find(worker, leaf, count, key).ok().map(|slot| {
            let value = tree.value(worker, leaf, slot);
            tree.remove_at(worker, leaf, slot);
            value
        });
        tree.unlatch(worker, leaf);
        worker.epochs.unpin(worker.seat.slot, &mut worker.probe);
        value
    }
}

impl<const W: usize, F: Family> Tree<Optimistic, W, F> {
    /// R1: the version, without the latch bit: a latched node fails validation.
    #[inline(always)]
    fn version<P: Probe>(&self, worker: &mut Worker<'_, P>, node: NodeId) -> u32 {
        worker.probe.load(Arena::<W>::address(node, CONTROL));
        self.arena.word(node, CONTROL).load(Acquire) & !LATCHED
    }

    /// R3, R4: is what was read since `version` of that version?
    #[inline(always)]
    fn validate<P: Probe>(&self, worker: &mut Worker<'_, P>, node: NodeId, version: u32) -> bool {
        worker.probe.load(Arena::<W>::address(node, CONTROL));
        // ORDERING: the reads of the node stay before this load.
        fence(Acquire);
        self.arena.word(node, CONTROL).load(Relaxed) == version
    }

    fn latch<P: Probe>(&self, worker: &mut Worker<'_, P>, node: NodeId) {
        worker.probe.take(Arena::<W>::address(node, CONTROL), Hold::Exclusive);
        let word = self.arena.word(node, CONTROL);
        until(|| {
            let seen = word.load(Relaxed);
            seen & LATCHED == 0 && word.compare_exchange_weak(seen, seen | LATCHED, Acquire, Relaxed).is_ok()
        });
        // ORDERING: our writes stay after the latched word; pairs with the fence in `validate`.
        fence(Release);
    }

    /// U3, U4: the next version, and the latch is free.
    fn unlatch<P: Probe>(&self, worker: &mut Worker<'_, P>, node: NodeId) {
        let word = self.arena.word(node, CONTROL);
        word.store((word.load(Relaxed) & !LATCHED).wrapping_add(VERSION_STEP), Release);
        worker.probe.give(Arena::<W>::address(node, CONTROL), Hold::Exclusive);
    }

    fn get_validated<P: Probe>(&self, worker: &mut Worker<'_, P>, key: u32) -> Option<u32> {
        let mut node = ROOT;
        let mut patience = Patience::default();
        loop {
            let version = self.version(worker, node);
            let (level, count) = self.size(worker, node);
            let (mut next, mut value) = (node, None);
            if key >= self.load(worker, node, HIGH) {
                next = self.right_of(worker, node);
            } else if level > 0 {
                (_, next) = self.child_for(worker, node, count, key);
            } else if let Ok(slot) = self.find(worker, node, count, key) {
                value = Some(self.value(worker, node, slot));
            }
            if !self.validate(worker, node, version) {
                patience.wait();
            } else if next == node {
                return value;
            } else {
                node = next;
            }
        }
    }

    /// The node of `level` that covers `key`, latched. Notes the nodes above it in `path`.
    fn latched_at<P: Probe>(
        &self,
        worker: &mut Worker<'_, P>,
        key: u32,
        level: u32,
        path: &mut Path,
    ) -> NodeId {
        loop {
            let mut node = ROOT;
            let mut patience = Patience::default();
            loop {
                let version = self.version(worker, node);
                let (here, count) = self.size(worker, node);
                let is_right = key >= self.load(worker, node, HIGH);
                let next = if is_right {
                    self.right_of(worker, node)
                } else if here > level {
                    self.child_for(worker, node, count, key).1
                } else {
                    node
                };
                if !self.validate(worker, node, version) {
                    patience.wait();
                } else if next == node {
                    break;
                } else {
                    if !is_right {
                        path[here as usize] = node;
                    }
                    node = next;
                }
            }
            if let Some(node) = self.latch_from(worker, node, key, level) {
                return node;
            }
        }
    }

    /// The same, by way of the node of that level in `path`.
    fn latched_near<P: Probe>(
        &self,
        worker: &mut Worker<'_, P>,
        key: u32,
        level: u32,
        path: &mut Path,
    ) -> NodeId {
        self.latch_from(worker, path[level as usize], key, level)
            .unwrap_or_else(|| self.latched_at(worker, key, level, path))
    }

    /// Latches the node that covers `key`, at `node` or to its right; none if `node` is not of this level any more (the
    /// root has grown).
    fn latch_from<P: Probe>(
        &self,
        worker: &mut Worker<'_, P>,
        mut node: NodeId,
        key: u32,
        level: u32,
    ) -> Option<NodeId> {
        self.latch(worker, node);
        if self.size(worker, node).0 != level {
            self.unlatch(worker, node);
            return None;
        }
        while key >= self.load(worker, node, HIGH) {
            let right = self.right_of(worker, node);
            self.latch(worker, right);
            self.unlatch(worker, node);
            node = right;
        }
        Some(node)
    }
}
