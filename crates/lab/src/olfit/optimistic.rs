//! OL: OLFIT. Readers validate versions and write nothing; updaters latch from the leaf upwards, one node at a time or two.
//!
//! The production tree is `foreshore-index`; this one shares its node layout with the schemes it is compared to.
//!
//! Invariants:
//! - O1: a node's contents change only under its latch, and its version grows with every change.
//! - O2: keys from a node's high key on live to its right, reachable by its link; never to its left.
//! - O3: a child pointer is followed only after the node it was read from is validated.
//!
//! Differs from the paper: empty nodes stay, so links are never taken out.

use crate::olfit::arena::{Arena, NodeId, Worker};
use crate::olfit::node::{CONTROL, HIGH, LINK};
use crate::olfit::{ROOT, Scheme, Tree};
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

/// A separator that is to go up: the right node, its least key, and the level of its parent.
struct Post {
    level: u32,
    separator: u32,
    right: NodeId,
}

impl Scheme for Optimistic {
    const NAME: &str = "OL";
    const HEADER: usize = 4;

    fn init<P: Probe, const W: usize>(tree: &Tree<Self, W>, worker: &mut Worker<'_, P>) {
        tree.store(worker, ROOT, HIGH, u32::MAX);
    }

    fn get<P: Probe, const W: usize>(
        tree: &Tree<Self, W>,
        worker: &mut Worker<'_, P>,
        key: u32,
    ) -> Option<u32> {
        worker.epochs.pin(worker.seat.slot, &mut worker.probe);
        let value = tree.get_validated(worker, key);
        worker.epochs.unpin(worker.seat.slot, &mut worker.probe);
        value
    }

    fn insert<P: Probe, const W: usize>(
        tree: &Tree<Self, W>,
        worker: &mut Worker<'_, P>,
        key: u32,
        value: u32,
    ) -> bool {
        worker.epochs.pin(worker.seat.slot, &mut worker.probe);
        let mut path = [ROOT; LEVELS_MAX];
        let leaf = tree.latched_at(worker, key, 0, &mut path);
        let (_, count) = tree.size(worker, leaf);
        let place = tree.find(worker, leaf, count, key);
        if let Err(slot) = place {
            tree.insert_latched(worker, leaf, slot, (key, value), &mut path);
        } else {
            tree.unlatch(worker, leaf);
        }
        worker.epochs.unpin(worker.seat.slot, &mut worker.probe);
        place.is_err()
    }

    fn remove<P: Probe, const W: usize>(
        tree: &Tree<Self, W>,
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

impl<const W: usize> Tree<Optimistic, W> {
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

    /// One step on the way to `key`: to the right (O2) or down.
    #[inline(always)]
    fn next<P: Probe>(&self, worker: &mut Worker<'_, P>, node: NodeId, count: usize, key: u32) -> NodeId {
        if key >= self.load(worker, node, HIGH) {
            self.load(worker, node, LINK)
        } else {
            self.child_for(worker, node, count, key).1
        }
    }

    fn get_validated<P: Probe>(&self, worker: &mut Worker<'_, P>, key: u32) -> Option<u32> {
        let mut node = ROOT;
        let mut patience = Patience::default();
        loop {
            let version = self.version(worker, node);
            let (level, count) = self.size(worker, node);
            if level == 0 && key < self.load(worker, node, HIGH) {
                let value =
                    self.find(worker, node, count, key).ok().map(|slot| self.value(worker, node, slot));
                if self.validate(worker, node, version) {
                    return value;
                }
                patience.wait();
            } else {
                let next = self.next(worker, node, count, key);
                if self.validate(worker, node, version) {
                    node = next;
                } else {
                    patience.wait();
                }
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
            let mut at = u32::MAX;
            let mut patience = Patience::default();
            while at != level {
                let version = self.version(worker, node);
                let (here, count) = self.size(worker, node);
                let next = if here > level { self.next(worker, node, count, key) } else { node };
                if self.validate(worker, node, version) {
                    at = here;
                    path[here as usize] = node;
                    node = next;
                } else {
                    patience.wait();
                }
            }
            if let Some(node) = self.latch_from(worker, node, key, level) {
                return node;
            }
        }
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
            let right = self.load(worker, node, LINK);
            self.latch(worker, right);
            self.unlatch(worker, node);
            node = right;
        }
        Some(node)
    }

    /// Inserts into a latched leaf, splitting upwards as far as needed; gives all latches back.
    fn insert_latched<P: Probe>(
        &self,
        worker: &mut Worker<'_, P>,
        leaf: NodeId,
        slot: usize,
        (key, value): (u32, u32),
        path: &mut Path,
    ) {
        let (_, count) = self.size(worker, leaf);
        if count < Self::LEAF_MAX {
            self.insert_at(worker, leaf, slot, key, value);
            return self.unlatch(worker, leaf);
        }
        let (left, mut post) = self.split(worker, leaf);
        let half = if key < post.separator { left } else { post.right };
        let (_, count) = self.size(worker, half);
        let slot = self.find(worker, half, count, key).expect_err("the key is absent");
        self.insert_at(worker, half, slot, key, value);
        let mut below = leaf;
        while let Some(next) = self.post(worker, below, post, path) {
            (below, post) = next;
        }
    }

    /// Puts a separator into the parent of the latched node `below`, whose latch it gives back. If the parent had to
    /// split: the parent, latched, and what is to go up next.
    fn post<P: Probe>(
        &self,
        worker: &mut Worker<'_, P>,
        below: NodeId,
        post: Post,
        path: &mut Path,
    ) -> Option<(NodeId, Post)> {
        if below == ROOT {
            // The root split under itself: its separator is in place.
            self.unlatch(worker, below);
            return None;
        }
        let hint = path[post.level as usize];
        let parent = self
            .latch_from(worker, hint, post.separator, post.level)
            .unwrap_or_else(|| self.latched_at(worker, post.separator, post.level, path));
        self.unlatch(worker, below);
        let (_, count) = self.size(worker, parent);
        if count < Self::INNER_MAX {
            self.post_in(worker, parent, &post);
            self.unlatch(worker, parent);
            return None;
        }
        let (left, next) = self.split(worker, parent);
        let half = if post.separator < next.separator { left } else { next.right };
        self.post_in(worker, half, &post);
        Some((parent, next))
    }

    fn post_in<P: Probe>(&self, worker: &mut Worker<'_, P>, parent: NodeId, post: &Post) {
        let (_, count) = self.size(worker, parent);
        let (slot, _) = self.child_for(worker, parent, count, post.separator);
        self.insert_child(worker, parent, slot, post.separator, post.right);
    }

    /// Splits a latched full node; returns its left half and what is to go up. The root keeps its place: both halves are
    /// new, and it becomes their parent.
    fn split<P: Probe>(&self, worker: &mut Worker<'_, P>, node: NodeId) -> (NodeId, Post) {
        let (level, _) = self.size(worker, node);
        let left = if node == ROOT { worker.allocate(&self.arena) } else { node };
        let right = worker.allocate(&self.arena);
        if left != node {
            self.copy_upper(worker, node, 0, left);
        }
        let separator = self.split_into(worker, left, right);
        let (high, link) = (self.load(worker, node, HIGH), self.load(worker, node, LINK));
        self.store(worker, right, HIGH, high);
        self.store(worker, right, LINK, link);
        self.store(worker, left, HIGH, separator);
        self.store(worker, left, LINK, right);
        if left != node {
            self.init_inner(worker, node, level + 1, left);
            self.insert_child(worker, node, 0, separator, right);
        }
        (left, Post { level: level + 1, separator, right })
    }
}
