//! T-tree: a binary tree, balanced like an AVL tree, with many entries in each node.
//!
//! Source: Lehman and Carey (VLDB 1986). A node *bounds* a key that lies between its least and its greatest key. A full
//! node makes room by handing its least entry down to the node just below it in order. With one entry per node this is an
//! AVL tree, and [`TTree::avl`] is the laboratory's.
//!
//! Balance is looked at where a child has become higher or lower, and nowhere else: most updates touch what a lookup does.
//!
//! Differs: a rotation does not refill a nearly empty node that becomes an inner one (the paper's special case); the next
//! removal from it does.
//!
//! ```text
//! word 0   height (upper half) | entries (lower half)
//! word 1   left child         word 2   right child
//! then     keys, values
//! ```

use crate::probe::{Branch, Probe};
use crate::trees::Ordered;
use crate::trees::slab::{NodeId, Slab};

/// No node: number 0 is never handed out.
const NIL: NodeId = 0;
const SIZE: usize = 0;
const LEFT: usize = 1;
const RIGHT: usize = 2;
const KEYS: usize = 3;

/// A T-tree.
#[derive(Clone, Debug)]
pub struct TTree {
    pub(super) nodes: Slab,
    capacity: usize,
    root: NodeId,
}

/// What an insertion or removal below did: the subtree's root now, and the answer.
type Changed<T> = (NodeId, T);

impl TTree {
    /// An empty tree with nodes of so many bytes.
    ///
    /// Panics below 20 bytes: there must be room for an entry.
    pub fn with_node_bytes(bytes: usize) -> Self {
        assert!(bytes >= 20, "a node of {bytes} bytes has no room for an entry");
        let words = bytes / 4;
        let mut nodes = Slab::new(words, 1 << 20);
        nodes.allocate();
        Self { nodes, capacity: (words - KEYS) / 2, root: NIL }
    }

    /// An AVL tree: one entry per node.
    pub fn avl() -> Self {
        Self::with_node_bytes(20)
    }

    /// With room for so many keys in nodes half full: until they are inserted, no node moves.
    pub fn with_room_for(mut self, keys: usize) -> Self {
        self.nodes.make_room(keys / (self.capacity / 2).max(1) + 2);
        self
    }

    fn count<P: Probe>(&self, node: NodeId, probe: &mut P) -> usize {
        (self.nodes.load(node, SIZE, probe) & 0xFFFF) as usize
    }

    fn height<P: Probe>(&self, node: NodeId, probe: &mut P) -> u32 {
        if node == NIL { 0 } else { self.nodes.load(node, SIZE, probe) >> 16 }
    }

    fn set_size<P: Probe>(&mut self, node: NodeId, height: u32, count: usize, probe: &mut P) {
        self.nodes.store(node, SIZE, height << 16 | count as u32, probe);
    }

    fn set_count<P: Probe>(&mut self, node: NodeId, count: usize, probe: &mut P) {
        let height = self.height(node, probe);
        self.set_size(node, height, count, probe);
    }

    #[inline(always)]
    fn key<P: Probe>(&self, node: NodeId, slot: usize, probe: &mut P) -> u32 {
        self.nodes.load(node, KEYS + slot, probe)
    }

    #[inline(always)]
    fn value<P: Probe>(&self, node: NodeId, slot: usize, probe: &mut P) -> u32 {
        self.nodes.load(node, KEYS + self.capacity + slot, probe)
    }

    /// Where `key` is among a node's entries, or where it would be.
    #[inline(always)]
    fn find<P: Probe>(&self, node: NodeId, count: usize, key: u32, probe: &mut P) -> Result<usize, usize> {
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = (low + high) / 2;
            let found = self.key(node, middle, probe);
            probe.branch(Branch::Bisect, found < key);
            if found == key {
                return Ok(middle);
            }
            if found < key { low = middle + 1 } else { high = middle }
        }
        Err(low)
    }

    fn put<P: Probe>(&mut self, node: NodeId, slot: usize, (key, value): (u32, u32), probe: &mut P) {
        let count = self.count(node, probe);
        for (array, word) in [(KEYS, key), (KEYS + self.capacity, value)] {
            self.nodes.shift(node, array + slot, array + slot + 1, count - slot, probe);
            self.nodes.store(node, array + slot, word, probe);
        }
        self.set_count(node, count + 1, probe);
    }

    fn take<P: Probe>(&mut self, node: NodeId, slot: usize, probe: &mut P) -> (u32, u32) {
        let count = self.count(node, probe);
        let entry = (self.key(node, slot, probe), self.value(node, slot, probe));
        for array in [KEYS, KEYS + self.capacity] {
            self.nodes.shift(node, array + slot + 1, array + slot, count - slot - 1, probe);
        }
        self.set_count(node, count - 1, probe);
        entry
    }

    /// The side of `node` on which `key` lies; none if the node bounds it.
    #[inline(always)]
    fn side<P: Probe>(&self, node: NodeId, count: usize, key: u32, probe: &mut P) -> Option<usize> {
        let below = key < self.key(node, 0, probe);
        probe.branch(Branch::Turn, below);
        if below {
            return Some(LEFT);
        }
        let above = key > self.key(node, count - 1, probe);
        probe.branch(Branch::Turn, above);
        above.then_some(RIGHT)
    }

    /// The answer: has the subtree become higher? None if the key was there.
    fn insert_below<P: Probe>(
        &mut self,
        node: NodeId,
        entry: (u32, u32),
        probe: &mut P,
    ) -> Changed<Option<bool>> {
        if node == NIL {
            let fresh = self.nodes.allocate();
            self.set_size(fresh, 1, 0, probe);
            self.put(fresh, 0, entry, probe);
            return (fresh, Some(true));
        }
        let count = self.count(node, probe);
        let below = match self.side(node, count, entry.0, probe) {
            Some(side) if count < self.capacity && self.nodes.load(node, side, probe) == NIL => {
                self.put(node, if side == LEFT { 0 } else { count }, entry, probe);
                Some(false)
            }
            Some(side) => self.insert_at_side(node, side, entry, probe),
            None => match self.find(node, count, entry.0, probe) {
                Ok(_) => None,
                Err(slot) if count < self.capacity => {
                    self.put(node, slot, entry, probe);
                    Some(false)
                }
                Err(slot) => {
                    let least = self.take(node, 0, probe);
                    self.put(node, slot - 1, entry, probe);
                    self.insert_at_side(node, LEFT, least, probe)
                }
            },
        };
        let (now, higher) = self.balance_if(below == Some(true), node, probe);
        (now, below.map(|_| higher))
    }

    fn insert_at_side<P: Probe>(
        &mut self,
        node: NodeId,
        side: usize,
        entry: (u32, u32),
        probe: &mut P,
    ) -> Option<bool> {
        let child = self.nodes.load(node, side, probe);
        let (now, higher) = self.insert_below(child, entry, probe);
        self.link(node, side, child, now, probe);
        higher
    }

    /// Replaces a child, unless it is the same.
    fn link<P: Probe>(&mut self, node: NodeId, side: usize, was: NodeId, now: NodeId, probe: &mut P) {
        if was != now {
            self.nodes.store(node, side, now, probe);
        }
    }

    /// The answer: the value, and has the subtree become lower? None if the key was not there.
    fn remove_below<P: Probe>(
        &mut self,
        node: NodeId,
        key: u32,
        probe: &mut P,
    ) -> Changed<Option<(u32, bool)>> {
        if node == NIL {
            return (NIL, None);
        }
        let count = self.count(node, probe);
        if let Some(side) = self.side(node, count, key, probe) {
            let child = self.nodes.load(node, side, probe);
            let (now, removed) = self.remove_below(child, key, probe);
            self.link(node, side, child, now, probe);
            let Some((value, below)) = removed else { return (node, None) };
            let (now, lower) = self.balance_if(below, node, probe);
            return (now, Some((value, lower)));
        }
        let Ok(slot) = self.find(node, count, key, probe) else { return (node, None) };
        let (_, value) = self.take(node, slot, probe);
        let (now, lower) = self.refill(node, probe);
        (now, Some((value, lower)))
    }

    /// After a removal from `node`: an inner node with few entries gets the greatest one below it; an empty node goes. The
    /// answer: has the subtree become lower?
    fn refill<P: Probe>(&mut self, node: NodeId, probe: &mut P) -> Changed<bool> {
        let [left, right] = [LEFT, RIGHT].map(|side| self.nodes.load(node, side, probe));
        let count = self.count(node, probe);
        if left != NIL && right != NIL && count < self.capacity.saturating_sub(2).max(1) {
            let (now, (greatest, below)) = self.remove_greatest(left, probe);
            self.link(node, LEFT, left, now, probe);
            self.put(node, 0, greatest, probe);
            return self.balance_if(below, node, probe);
        }
        if count == 0 {
            self.nodes.free(node);
            return (if left == NIL { right } else { left }, true);
        }
        (node, false)
    }

    /// The answer: the entry, and has the subtree become lower?
    fn remove_greatest<P: Probe>(&mut self, node: NodeId, probe: &mut P) -> Changed<((u32, u32), bool)> {
        let right = self.nodes.load(node, RIGHT, probe);
        if right == NIL {
            let last = self.count(node, probe) - 1;
            let greatest = self.take(node, last, probe);
            let (now, lower) = self.refill(node, probe);
            return (now, (greatest, lower));
        }
        let (now, (greatest, below)) = self.remove_greatest(right, probe);
        self.link(node, RIGHT, right, now, probe);
        let (now, lower) = self.balance_if(below, node, probe);
        (now, (greatest, lower))
    }

    /// Balances `node` if the height of a child has changed. The answer: has its own changed, too?
    fn balance_if<P: Probe>(&mut self, changed: bool, node: NodeId, probe: &mut P) -> Changed<bool> {
        if !changed {
            return (node, false);
        }
        let before = self.height(node, probe);
        let now = self.balance(node, probe);
        (now, self.height(now, probe) != before)
    }

    /// Sets the height of a node whose children are balanced, rotating if they differ by two.
    fn balance<P: Probe>(&mut self, node: NodeId, probe: &mut P) -> NodeId {
        let [left, right] = [LEFT, RIGHT].map(|side| self.nodes.load(node, side, probe));
        let [left_height, right_height] = [left, right].map(|child| self.height(child, probe));
        if left_height > right_height + 1 {
            return self.rotate(node, LEFT, RIGHT, probe);
        }
        if right_height > left_height + 1 {
            return self.rotate(node, RIGHT, LEFT, probe);
        }
        let (height, count) = (left_height.max(right_height) + 1, self.count(node, probe));
        if self.height(node, probe) != height {
            self.set_size(node, height, count, probe);
        }
        node
    }

    /// The child on the `high` side becomes the root; doubly, if its inner side is the higher one.
    fn rotate<P: Probe>(&mut self, node: NodeId, high: usize, low: usize, probe: &mut P) -> NodeId {
        let child = self.nodes.load(node, high, probe);
        let [outer, inner] = [high, low].map(|side| self.nodes.load(child, side, probe));
        if self.height(inner, probe) > self.height(outer, probe) {
            let child = self.rotate_once(child, low, high, probe);
            self.nodes.store(node, high, child, probe);
        }
        self.rotate_once(node, high, low, probe)
    }

    fn rotate_once<P: Probe>(&mut self, node: NodeId, high: usize, low: usize, probe: &mut P) -> NodeId {
        let child = self.nodes.load(node, high, probe);
        let inner = self.nodes.load(child, low, probe);
        self.nodes.store(node, high, inner, probe);
        self.nodes.store(child, low, node, probe);
        for node in [node, child] {
            let heights = [LEFT, RIGHT].map(|side| self.height(self.nodes.load(node, side, probe), probe));
            let count = self.count(node, probe);
            self.set_size(node, heights[0].max(heights[1]) + 1, count, probe);
        }
        child
    }

    /// Walks the tree; the number of its entries, or what is wrong.
    pub fn check(&self) -> Result<usize, String> {
        self.check_below(self.root, 0, u32::MAX).map(|(_, entries)| entries)
    }

    fn check_below(&self, node: NodeId, low: u32, high: u32) -> Result<(u32, usize), String> {
        let probe = &mut crate::probe::Silent;
        if node == NIL {
            return Ok((0, 0));
        }
        let count = self.count(node, probe);
        let keys: Vec<_> = (0..count).map(|slot| self.key(node, slot, probe)).collect();
        if keys.is_empty() || !keys.is_sorted_by(|a, b| a < b) || keys[0] < low || keys[count - 1] >= high {
            return Err(format!("node {node}: keys {keys:?} within {low}..{high}"));
        }
        let (left, below) = self.check_below(self.nodes.load(node, LEFT, probe), low, keys[0])?;
        let (right, above) =
            self.check_below(self.nodes.load(node, RIGHT, probe), keys[count - 1] + 1, high)?;
        let height = left.max(right) + 1;
        if left.abs_diff(right) > 1 || height != self.height(node, probe) {
            return Err(format!(
                "node {node}: heights {left} and {right} below, {} noted",
                self.height(node, probe)
            ));
        }
        Ok((height, below + count + above))
    }
}

impl Ordered for TTree {
    #[inline]
    fn get<P: Probe>(&self, key: u32, probe: &mut P) -> Option<u32> {
        let mut node = self.root;
        while node != NIL {
            let count = self.count(node, probe);
            match self.side(node, count, key, probe) {
                Some(side) => node = self.nodes.load(node, side, probe),
                None => {
                    return self.find(node, count, key, probe).ok().map(|slot| self.value(node, slot, probe));
                }
            }
        }
        None
    }

    fn insert<P: Probe>(&mut self, key: u32, value: u32, probe: &mut P) -> bool {
        let (root, higher) = self.insert_below(self.root, (key, value), probe);
        self.root = root;
        higher.is_some()
    }

    fn remove<P: Probe>(&mut self, key: u32, probe: &mut P) -> Option<u32> {
        let (root, removed) = self.remove_below(self.root, key, probe);
        self.root = root;
        removed.map(|(value, _)| value)
    }
}
