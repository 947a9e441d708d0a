//! Splits of the full CSB+-tree under OLFIT, and steps to the right in both families.
//!
//! Source: OLFIT §5.5. A node's right neighbour is the next slot of its group, so nodes have a high key, but no link; one link
//! for each group leads to the group of the next parent. It belongs to none of the nodes, so it has a latch and a version of
//! its own, in the group's header. When a node splits, it, the siblings that are shifted and the parent are latched; when
//! a group splits, so are the nodes that move to the new group, and the link.
//!
//! In which order, §5.5 does not say. Here it is from the top down, unlike in the B+-tree: whoever held a full leaf and
//! asked for its parent could wait for one who has the parent and shifts the leaf. And what lies under a latched parent keeps
//! its place. So an updater that finds its leaf full gives it back and begins with the parent; a full parent is split
//! before, by its own parent. The hints of the descent make that a matter of latching them.
//!
//! The *place* of a node is its group and its slot. The places of a level are ordered: groups along their links, slots in
//! a group. A slot not in use is *closed*: its high key is 0, below every key. Behind a closed slot of a group all are.
//!
//! Why no reader is misled:
//! - O4: *contents move only to the right*: a split moves the upper half of slot `i` to slot `i + 1`, and what was there and
//!   behind to the next ones; a group's split moves its last nodes to a new group, which is linked behind it. A validated
//!   parent names the exact place of a child (C1: both change while the parent is latched). From then on the contents are
//!   there or further right, and O2 finds them, however often they move meanwhile.
//! - O5: a step to the right skips nothing. Let a reader be at `(g, i)`, and what it wants to the right of that. If `i` is
//!   neither closed nor the last slot, it goes to `(g, i + 1)`, which is the next place. Otherwise `g` had nothing behind `i`
//!   while `(g, i)` was of the version that it validates; it reads the link meanwhile. The link led to the next group then:
//!   whoever closes slots lets it lead to the new group before it unlatches them.
//! - O6: a node that moves changes the versions of the slot it leaves and of the slot it takes, and both are latched until
//!   all has moved: nobody validates a mixture, and there are no two copies to be read.
//!
//! Invariant O7: latches are taken by level from the top, in a level by place from the left; a header's last. Nobody waits
//! for anything else while holding one.

use crate::olfit::arena::{NodeId, Worker};
use crate::olfit::node::{HIGH, LINK};
use crate::olfit::optimistic::{Optimistic, Path};
use crate::olfit::{Family, ROOT, Tree};
use crate::probe::Probe;
use crate::wait::Patience;
use std::ops::Range;

/// The high key of a slot that is not in use.
const CLOSED: u32 = 0;

impl<const W: usize, F: Family> Tree<Optimistic, W, F> {
    /// The next place to the right of a node that the caller has latched or validates afterwards.
    #[inline(always)]
    pub(super) fn right_of<P: Probe>(&self, worker: &mut Worker<'_, P>, node: NodeId) -> NodeId {
        if !F::GROUPED {
            return self.load(worker, node, LINK);
        }
        let (group, slot) = Self::place_of(node);
        if slot + 1 < Self::INNER_MAX && self.load(worker, node, HIGH) != CLOSED {
            return node + 1;
        }
        let header = Self::header(group);
        let mut patience = Patience::default();
        loop {
            let version = self.version(worker, header);
            let link = self.load(worker, header, LINK);
            if self.validate(worker, header, version) {
                return link;
            }
            patience.wait();
        }
    }

    /// Inserts a key that was not there into the tree: its leaf, latched, is full. Gives the latch back. False if the key
    /// came in meanwhile.
    pub(super) fn insert_in_full_group<P: Probe>(
        &self,
        worker: &mut Worker<'_, P>,
        mut leaf: NodeId,
        (key, value): (u32, u32),
        path: &mut Path,
    ) -> bool {
        loop {
            path[0] = leaf;
            self.unlatch(worker, leaf);
            self.make_room(worker, key, 0, path);
            leaf = self.latched_near(worker, key, 0, path);
            let (_, count) = self.size(worker, leaf);
            let place = self.find(worker, leaf, count, key);
            if let Err(slot) = place {
                if count == Self::LEAF_MAX {
                    continue;
                }
                self.insert_at(worker, leaf, slot, key, value);
            }
            self.unlatch(worker, leaf);
            return place.is_err();
        }
    }

    /// Splits the node of `level` that covers `key` if it is full; or, if its parent is full, that.
    fn make_room<P: Probe>(&self, worker: &mut Worker<'_, P>, key: u32, level: u32, path: &mut Path) {
        if self.root_level(worker) == level {
            return self.grow_group(worker, level);
        }
        let parent = self.latched_near(worker, key, level + 1, path);
        if self.is_full(worker, parent) {
            self.unlatch(worker, parent);
            return self.make_room(worker, key, level + 1, path);
        }
        let (_, count) = self.size(worker, parent);
        let (slot, child) = self.child_for(worker, parent, count, key);
        self.latch(worker, child);
        if self.is_full(worker, child) {
            let changing = self.right_half(worker, count, slot, child);
            changing.clone().for_each(|node| self.latch(worker, node));
            self.shift_nodes(worker, changing.clone());
            let separator = self.split_in_group(worker, child, changing.start);
            self.insert_child(worker, parent, slot, separator, changing.start);
            changing.for_each(|node| self.unlatch(worker, node));
        }
        self.unlatch(worker, child);
        self.unlatch(worker, parent);
    }

    fn root_level<P: Probe>(&self, worker: &mut Worker<'_, P>) -> u32 {
        let mut patience = Patience::default();
        loop {
            let version = self.version(worker, ROOT);
            let (level, _) = self.size(worker, ROOT);
            if self.validate(worker, ROOT, version) {
                return level;
            }
            patience.wait();
        }
    }

    /// Splits the root if it is of `level` and full. It keeps its place: the halves go to a new group, and it becomes their
    /// parent.
    fn grow_group<P: Probe>(&self, worker: &mut Worker<'_, P>, level: u32) {
        self.latch(worker, ROOT);
        if self.size(worker, ROOT).0 == level && self.is_full(worker, ROOT) {
            let left = worker.allocate(&self.arena);
            self.copy_node(worker, ROOT, left);
            let separator = self.split_in_group(worker, left, left + 1);
            self.init_inner(worker, ROOT, level + 1, left);
            self.insert_child(worker, ROOT, 0, separator, left + 1);
        }
        self.unlatch(worker, ROOT);
    }

    /// Moves the upper half of a node to the next slot; returns its least key. Both are latched, or nobody can reach them.
    fn split_in_group<P: Probe>(&self, worker: &mut Worker<'_, P>, node: NodeId, right: NodeId) -> u32 {
        let separator =
            self.split_into(worker, node, right, |worker, moved, to| self.split_group(worker, moved, to));
        let high = self.load(worker, node, HIGH);
        self.store(worker, right, HIGH, high);
        self.store(worker, node, HIGH, separator);
        separator
    }

    /// Moves the last nodes of a group, whose parent is latched, to a new group behind it.
    fn split_group<P: Probe>(&self, worker: &mut Worker<'_, P>, moved: Range<NodeId>, to: NodeId) {
        moved.clone().for_each(|node| self.latch(worker, node));
        for (node, to) in moved.clone().zip(to..) {
            self.copy_node(worker, node, to);
        }
        let (group, _) = Self::place_of(moved.start);
        let header = Self::header(group);
        self.latch(worker, header);
        let link = self.load(worker, header, LINK);
        self.store(worker, Self::header(to), LINK, link);
        self.store(worker, header, LINK, to);
        self.unlatch(worker, header);
        for node in moved {
            let (level, _) = self.size(worker, node);
            self.set_size(worker, node, level, 0);
            self.store(worker, node, HIGH, CLOSED);
            self.unlatch(worker, node);
        }
    }
}
