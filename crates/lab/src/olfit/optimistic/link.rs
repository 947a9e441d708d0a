//! Splits of the B+-tree under OLFIT: each node has a link to its right neighbour. Latches are taken from the leaf upwards
//! and from the left to the right; a node's is given back once its parent's is had.

use crate::olfit::arena::{NodeId, Worker};
use crate::olfit::node::{HIGH, LINK};
use crate::olfit::optimistic::{Optimistic, Path};
use crate::olfit::{Family, ROOT, Tree};
use crate::probe::Probe;

/// A separator that is to go up: the right node, its least key, and the level of its parent.
struct Post {
    level: u32,
    separator: u32,
    right: NodeId,
}

impl<const W: usize, F: Family> Tree<Optimistic, W, F> {
    /// Inserts a key that is not there into its latched full leaf, splitting upwards as far as needed; gives all latches
    /// back.
    pub(super) fn insert_in_full<P: Probe>(
        &self,
        worker: &mut Worker<'_, P>,
        leaf: NodeId,
        (key, value): (u32, u32),
        path: &mut Path,
    ) -> bool {
        let (left, mut post) = self.split(worker, leaf);
        let half = if key < post.separator { left } else { post.right };
        let (_, count) = self.size(worker, half);
        let slot = self.find(worker, half, count, key).expect_err("the key is absent");
        self.insert_at(worker, half, slot, key, value);
        let mut below = leaf;
        while let Some(next) = self.post(worker, below, post, path) {
            (below, post) = next;
        }
        true
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
        let parent = self.latched_near(worker, post.separator, post.level, path);
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
        let separator = self.split_into(worker, left, right, |_, _, _| ());
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
