//! NO, LC and TL: nodes are changed in place; no latches, a latch per node, or one for the tree.
//!
//! LC is lock coupling with optimistic descent (Bayer and Schkolnick, 1977): a reader holds its node's latch shared until
//! it holds the child's. An updater comes down like a reader and takes only the leaf's latch alone; if the leaf is full it
//! comes again, taking every latch alone, and splits full nodes on its way. The root stays node 0 for ever: when it
//! splits, its contents move to two new nodes.
//!
//! In a CSB+-tree more nodes change their place when one splits: its right siblings and, if it is an inner node, half of
//! its children. Each is latched alone before it moves, and its parent all the while. Who comes to a node holds its
//! parent's latch until it has the node's. So nobody waits for a node whose parent is held alone, and whoever stood on it
//! has gone on when its latch is had: nobody is left who knows the old place. Latches are taken from the top down, several
//! of a level only by who holds their parent's alone.
//!
//! Differs from the paper: empty nodes stay; full inner nodes met on the way to a split are split ahead.

use crate::olfit::arena::{Arena, NodeId, Worker};
use crate::olfit::latch;
use crate::olfit::node::CONTROL;
use crate::olfit::{Family, ROOT, Scheme, TREE_LATCH_AT, Tree};
use crate::probe::{Hold, Probe};

/// No concurrency control: for one thread, or for readers only.
pub struct No;
/// A latch per node.
pub struct LockCoupling;
/// One latch for the tree.
pub struct TreeLatch;

impl Scheme for No {
    const NAME: &str = "NO";
    const HEADER: usize = 1;
}

impl Scheme for LockCoupling {
    const NAME: &str = "LC";
    const HEADER: usize = 2;
    const NODE_LATCHES: bool = true;
}

impl Scheme for TreeLatch {
    const NAME: &str = "TL";
    const HEADER: usize = 1;

    fn get<P: Probe, F: Family, const W: usize>(
        tree: &Tree<Self, W, F>,
        worker: &mut Worker<'_, P>,
        key: u32,
    ) -> Option<u32> {
        worker.probe.take(TREE_LATCH_AT, Hold::Shared);
        latch::share(&tree.latch);
        let value = tree.get_coupled(worker, key);
        latch::unshare(&tree.latch);
        worker.probe.give(TREE_LATCH_AT, Hold::Shared);
        value
    }
    fn insert<P: Probe, F: Family, const W: usize>(
        tree: &Tree<Self, W, F>,
        worker: &mut Worker<'_, P>,
        key: u32,
        value: u32,
    ) -> bool {
        tree.alone(worker, |worker| tree.insert_coupled(worker, key, value))
    }
    fn remove<P: Probe, F: Family, const W: usize>(
        tree: &Tree<Self, W, F>,
        worker: &mut Worker<'_, P>,
        key: u32,
    ) -> Option<u32> {
        tree.alone(worker, |worker| tree.remove_coupled(worker, key))
    }
}

impl<S: Scheme, const W: usize, F: Family> Tree<S, W, F> {
    /// Does `work` under the tree's latch.
    pub(super) fn alone<P: Probe, R>(
        &self,
        worker: &mut Worker<'_, P>,
        work: impl FnOnce(&mut Worker<'_, P>) -> R,
    ) -> R {
        worker.probe.take(TREE_LATCH_AT, Hold::Exclusive);
        latch::exclude(&self.latch);
        let result = work(worker);
        latch::unexclude(&self.latch);
        worker.probe.give(TREE_LATCH_AT, Hold::Exclusive);
        result
    }

    #[inline(always)]
    fn take<P: Probe>(&self, worker: &mut Worker<'_, P>, node: NodeId, hold: Hold) {
        if S::NODE_LATCHES {
            worker.probe.take(Arena::<W>::address(node, CONTROL), hold);
            let word = self.arena.word(node, CONTROL);
            if hold == Hold::Shared { latch::share(word) } else { latch::exclude(word) }
        }
    }

    #[inline(always)]
    fn give<P: Probe>(&self, worker: &mut Worker<'_, P>, node: NodeId, hold: Hold) {
        if S::NODE_LATCHES {
            let word = self.arena.word(node, CONTROL);
            if hold == Hold::Shared {
                latch::unshare(word)
            } else {
                latch::unexclude(word)
            }
            worker.probe.give(Arena::<W>::address(node, CONTROL), hold);
        }
    }

    pub(super) fn get_coupled<P: Probe>(&self, worker: &mut Worker<'_, P>, key: u32) -> Option<u32> {
        let mut node = ROOT;
        self.take(worker, node, Hold::Shared);
        loop {
            let (level, count) = self.size(worker, node);
            if level == 0 {
                let value =
                    self.find(worker, node, count, key).ok().map(|slot| self.value(worker, node, slot));
                self.give(worker, node, Hold::Shared);
                return value;
            }
            let (_, child) = self.child_for(worker, node, count, key);
            self.take(worker, child, Hold::Shared);
            self.give(worker, node, Hold::Shared);
            node = child;
        }
    }

    pub(super) fn insert_coupled<P: Probe>(&self, worker: &mut Worker<'_, P>, key: u32, value: u32) -> bool {
        let leaf = self.leaf_alone(worker, key);
        let (_, count) = self.size(worker, leaf);
        if count < Self::LEAF_MAX {
            return self.insert_in(worker, leaf, key, value);
        }
        let present = self.find(worker, leaf, count, key).is_ok();
        self.give(worker, leaf, Hold::Exclusive);
        !present && self.insert_splitting(worker, key, value)
    }

    pub(super) fn remove_coupled<P: Probe>(&self, worker: &mut Worker<'_, P>, key: u32) -> Option<u32> {
        let leaf = self.leaf_alone(worker, key);
        let (_, count) = self.size(worker, leaf);
        let value = self.find(worker, leaf, count, key).ok().map(|slot| {
            let value = self.value(worker, leaf, slot);
            self.remove_at(worker, leaf, slot);
            value
        });
        self.give(worker, leaf, Hold::Exclusive);
        value
    }

    /// The optimistic descent: the leaf of `key`, latched alone.
    fn leaf_alone<P: Probe>(&self, worker: &mut Worker<'_, P>, key: u32) -> NodeId {
        let mut node = ROOT;
        self.take(worker, node, Hold::Shared);
        let (mut level, mut count) = self.size(worker, node);
        while level == 0 {
            // The root is the leaf, and may grow while its latch is changed for the other kind.
            self.give(worker, node, Hold::Shared);
            self.take(worker, node, Hold::Exclusive);
            if self.size(worker, node).0 == 0 {
                return node;
            }
            self.give(worker, node, Hold::Exclusive);
            self.take(worker, node, Hold::Shared);
            (level, count) = self.size(worker, node);
        }
        loop {
            let (_, child) = self.child_for(worker, node, count, key);
            let hold = if level == 1 { Hold::Exclusive } else { Hold::Shared };
            self.take(worker, child, hold);
            self.give(worker, node, Hold::Shared);
            if level == 1 {
                return child;
            }
            node = child;
            (level, count) = self.size(worker, node);
        }
    }

    /// Inserts into a latched leaf with room, and gives the latch back.
    fn insert_in<P: Probe>(&self, worker: &mut Worker<'_, P>, leaf: NodeId, key: u32, value: u32) -> bool {
        let (_, count) = self.size(worker, leaf);
        let place = self.find(worker, leaf, count, key);
        if let Err(slot) = place {
            self.insert_at(worker, leaf, slot, key, value);
        }
        self.give(worker, leaf, Hold::Exclusive);
        place.is_err()
    }

    /// Comes down with every latch alone, splits what is full, and inserts.
    fn insert_splitting<P: Probe>(&self, worker: &mut Worker<'_, P>, key: u32, value: u32) -> bool {
        let mut node = ROOT;
        self.take(worker, node, Hold::Exclusive);
        if self.is_full(worker, node) {
            self.grow(worker);
        }
        loop {
            let (level, count) = self.size(worker, node);
            if level == 0 {
                return self.insert_in(worker, node, key, value);
            }
            let (slot, mut child) = self.child_for(worker, node, count, key);
            self.take(worker, child, Hold::Exclusive);
            if self.is_full(worker, child) {
                child = self.split_coupled(worker, node, slot, child, key);
            }
            self.give(worker, node, Hold::Exclusive);
            node = child;
        }
    }

    /// Splits a full child of a node with room, both latched alone; returns the half that covers `key`, latched alone.
    fn split_coupled<P: Probe>(
        &self,
        worker: &mut Worker<'_, P>,
        node: NodeId,
        slot: usize,
        child: NodeId,
        key: u32,
    ) -> NodeId {
        let (_, count) = self.size(worker, node);
        let changing = self.right_half(worker, count, slot, child);
        let right = changing.start;
        changing.clone().for_each(|node| self.take(worker, node, Hold::Exclusive));
        self.shift_nodes(worker, changing.clone());
        let separator = self.split_into(worker, child, right, |worker, moved, to| {
            for (node, to) in moved.zip(to..) {
                self.take(worker, node, Hold::Exclusive);
                self.copy_node(worker, node, to);
                self.give(worker, node, Hold::Exclusive);
            }
        });
        self.insert_child(worker, node, slot, separator, right);
        let half = if key < separator { child } else { right };
        for node in std::iter::once(child).chain(changing).filter(|node| *node != half) {
            self.give(worker, node, Hold::Exclusive);
        }
        half
    }

    /// Moves the full root's contents to a new node, which becomes its only child, to be split next.
    fn grow<P: Probe>(&self, worker: &mut Worker<'_, P>) {
        let child = worker.allocate(&self.arena);
        self.copy_upper(worker, ROOT, 0, child);
        let (level, _) = self.size(worker, ROOT);
        self.init_inner(worker, ROOT, level + 1, child);
    }
}
