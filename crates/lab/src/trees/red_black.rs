//! Top-down red-black tree: one entry per node, and every operation is one way down.
//!
//! Source: Guibas and Sedgewick (1978). On the way to an insertion, a black node with two red children is recoloured, so
//! that the parent of the new node has a black sibling or is black; on the way to a removal, a red node is pushed along,
//! so that the node taken out is red. No way back up, and no parent pointers.
//!
//! ```text
//! word 0   key    word 1   value    word 2, 3   children, less and greater    word 4   1 = red
//! ```

use crate::probe::{Branch, Probe};
use crate::trees::Ordered;
use crate::trees::slab::{NodeId, Slab};

/// No node: black, and never written.
const NIL: NodeId = 0;
/// Above the root, which is its greater child.
const HEAD: NodeId = 1;

const KEY: usize = 0;
const VALUE: usize = 1;
const CHILDREN: usize = 2;
const COLOUR: usize = 4;
const WORDS: usize = 5;

/// A red-black tree.
#[derive(Clone, Debug)]
pub struct RedBlackTree {
    pub(super) nodes: Slab,
}

impl Default for RedBlackTree {
    fn default() -> Self {
        Self::new()
    }
}

impl RedBlackTree {
    /// An empty tree.
    pub fn new() -> Self {
        let mut nodes = Slab::new(WORDS, 1 << 20);
        assert_eq!([nodes.allocate(), nodes.allocate()], [NIL, HEAD]);
        Self { nodes }
    }

    /// With room for so many keys: until they are inserted, no node moves.
    pub fn with_room_for(mut self, keys: usize) -> Self {
        self.nodes.make_room(keys + 2);
        self
    }

    #[inline(always)]
    fn child<P: Probe>(&self, node: NodeId, side: usize, probe: &mut P) -> NodeId {
        self.nodes.load(node, CHILDREN + side, probe)
    }

    fn link<P: Probe>(&mut self, node: NodeId, side: usize, child: NodeId, probe: &mut P) {
        self.nodes.store(node, CHILDREN + side, child, probe);
    }

    /// On which side of `node` its child is.
    fn side_of<P: Probe>(&self, node: NodeId, child: NodeId, probe: &mut P) -> usize {
        usize::from(self.child(node, 1, probe) == child)
    }

    fn is_red<P: Probe>(&self, node: NodeId, probe: &mut P) -> bool {
        node != NIL && self.nodes.load(node, COLOUR, probe) == 1
    }

    fn has_red<P: Probe>(&self, node: NodeId, side: usize, probe: &mut P) -> bool {
        let child = self.child(node, side, probe);
        self.is_red(child, probe)
    }

    fn colour<P: Probe>(&mut self, node: NodeId, red: bool, probe: &mut P) {
        self.nodes.store(node, COLOUR, u32::from(red), probe);
    }

    /// The child opposite `side` comes up; returns it, black, with `node` red below it.
    fn rotate<P: Probe>(&mut self, node: NodeId, side: usize, probe: &mut P) -> NodeId {
        let up = self.child(node, 1 - side, probe);
        let between = self.child(up, side, probe);
        self.link(node, 1 - side, between, probe);
        self.link(up, side, node, probe);
        self.colour(node, true, probe);
        self.colour(up, false, probe);
        up
    }

    fn rotate_twice<P: Probe>(&mut self, node: NodeId, side: usize, probe: &mut P) -> NodeId {
        let child = self.child(node, 1 - side, probe);
        let child = self.rotate(child, 1 - side, probe);
        self.link(node, 1 - side, child, probe);
        self.rotate(node, side, probe)
    }

    fn fresh<P: Probe>(&mut self, key: u32, value: u32, probe: &mut P) -> NodeId {
        let node = self.nodes.allocate();
        self.nodes.store(node, KEY, key, probe);
        self.nodes.store(node, VALUE, value, probe);
        self.colour(node, true, probe);
        node
    }

    fn blacken_root<P: Probe>(&mut self, probe: &mut P) {
        let root = self.child(HEAD, 1, probe);
        if self.is_red(root, probe) {
            self.colour(root, false, probe);
        }
    }

    /// Before a step down to `side` from a black `node` whose child there is black: makes `node` red. `above` and `parent`
    /// are the nodes above it; returns the parent after any rotation.
    fn push_red<P: Probe>(
        &mut self,
        above: NodeId,
        parent: NodeId,
        node: NodeId,
        side: usize,
        probe: &mut P,
    ) -> NodeId {
        let here = self.side_of(parent, node, probe);
        if self.has_red(node, 1 - side, probe) {
            let up = self.rotate(node, side, probe);
            self.link(parent, here, up, probe);
            return up;
        }
        let sibling = self.child(parent, 1 - here, probe);
        if sibling == NIL {
            return parent;
        }
        let (near, far) = (self.has_red(sibling, here, probe), self.has_red(sibling, 1 - here, probe));
        if !near && !far {
            self.colour(parent, false, probe);
            self.colour(sibling, true, probe);
            self.colour(node, true, probe);
            return parent;
        }
        let parents_side = self.side_of(above, parent, probe);
        let up = if near { self.rotate_twice(parent, here, probe) } else { self.rotate(parent, here, probe) };
        self.link(above, parents_side, up, probe);
        self.colour(node, true, probe);
        self.colour(up, true, probe);
        for side in 0..2 {
            let child = self.child(up, side, probe);
            self.colour(child, false, probe);
        }
        parent
    }

    /// Walks the tree; the number of its entries, or what is wrong.
    pub fn check(&self) -> Result<usize, String> {
        let root = self.child(HEAD, 1, &mut crate::probe::Silent);
        self.check_below(root, 0, u32::MAX, false).map(|(_, entries)| entries)
    }

    /// Black nodes on every way down, and entries.
    fn check_below(
        &self,
        node: NodeId,
        low: u32,
        high: u32,
        under_red: bool,
    ) -> Result<(u32, usize), String> {
        let probe = &mut crate::probe::Silent;
        if node == NIL {
            return Ok((1, 0));
        }
        let (key, red) = (self.nodes.load(node, KEY, probe), self.is_red(node, probe));
        if !(low..high).contains(&key) || red && under_red {
            return Err(format!(
                "node {node}: key {key} within {low}..{high}, red {red} under red {under_red}"
            ));
        }
        let (left, below) = self.check_below(self.child(node, 0, probe), low, key, red)?;
        let (right, above) = self.check_below(self.child(node, 1, probe), key + 1, high, red)?;
        if left != right {
            return Err(format!("node {node}: {left} and {right} black nodes below"));
        }
        Ok((left + u32::from(!red), below + 1 + above))
    }
}

impl Ordered for RedBlackTree {
    #[inline]
    fn get<P: Probe>(&self, key: u32, probe: &mut P) -> Option<u32> {
        let mut node = self.child(HEAD, 1, probe);
        while node != NIL {
            let here = self.nodes.load(node, KEY, probe);
            if here == key {
                return Some(self.nodes.load(node, VALUE, probe));
            }
            probe.branch(Branch::Turn, here < key);
            node = self.child(node, usize::from(here < key), probe);
        }
        None
    }

    fn insert<P: Probe>(&mut self, key: u32, value: u32, probe: &mut P) -> bool {
        let [mut over, mut above, mut parent] = [NIL, NIL, HEAD];
        let mut side = 1;
        let mut node = self.child(HEAD, side, probe);
        let mut inserted = false;
        loop {
            if node == NIL {
                node = self.fresh(key, value, probe);
                self.link(parent, side, node, probe);
                inserted = true;
            } else if self.has_red(node, 0, probe) && self.has_red(node, 1, probe) {
                self.colour(node, true, probe);
                for side in 0..2 {
                    let child = self.child(node, side, probe);
                    self.colour(child, false, probe);
                }
            }
            if self.is_red(node, probe) && self.is_red(parent, probe) {
                let parents_side = self.side_of(above, parent, probe);
                let aboves_side = self.side_of(over, above, probe);
                let up = if side == parents_side {
                    self.rotate(above, 1 - parents_side, probe)
                } else {
                    self.rotate_twice(above, 1 - parents_side, probe)
                };
                self.link(over, aboves_side, up, probe);
                // What is above the node now is what has come up; what is over that has stayed.
                (above, parent) = (over, up);
                if up == node {
                    parent = over;
                }
            }
            let here = self.nodes.load(node, KEY, probe);
            if here == key {
                self.blacken_root(probe);
                return inserted;
            }
            side = usize::from(here < key);
            probe.branch(Branch::Turn, here < key);
            (over, above, parent) = (above, parent, node);
            node = self.child(node, side, probe);
        }
    }

    fn remove<P: Probe>(&mut self, key: u32, probe: &mut P) -> Option<u32> {
        let [mut parent, mut node] = [NIL, HEAD];
        let mut side = 1;
        let mut found = NIL;
        loop {
            let next = self.child(node, side, probe);
            if next == NIL {
                break;
            }
            let above = parent;
            (parent, node) = (node, next);
            let here = self.nodes.load(node, KEY, probe);
            side = usize::from(here < key);
            probe.branch(Branch::Turn, here < key);
            if here == key {
                found = node;
            }
            if !self.is_red(node, probe) && !self.has_red(node, side, probe) {
                parent = self.push_red(above, parent, node, side, probe);
            }
        }
        let value = (found != NIL).then(|| {
            // The last node has no child on one side; its entry goes where the removed one was.
            let value = self.nodes.load(found, VALUE, probe);
            for word in [KEY, VALUE] {
                let moved = self.nodes.load(node, word, probe);
                self.nodes.store(found, word, moved, probe);
            }
            let (here, only) = (self.side_of(parent, node, probe), self.child(node, 1 - side, probe));
            self.link(parent, here, only, probe);
            self.nodes.free(node);
            value
        });
        self.blacken_root(probe);
        value
    }
}
