//! Walking the whole structure and naming what is broken; and what the tree counts. Only when nobody else is active.

use super::leaf::Leaf;
use super::node::{Child, Header, Inner, Side};
use super::problems::Problems;
use super::scheme::Scheme;
use super::{Tree, Visited, address_of, header_at, inner_at, leaf_at};
use crate::reclaim::Pin;
use crate::search::Lane;
use crate::tree::Broken;

/// What happened to an O2-Tree since it was made, and its shape.
///
/// ```
/// let map: foreshore_index::O2Map<u64> = (0..10_000).map(|k| (k, k)).collect();
/// assert_eq!(map.stats().blocks, map.stats().splits + 1);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct O2Stats {
    /// Leaf blocks now.
    pub blocks: u64,
    /// Inner nodes on the longest path now. Counted by a walk.
    pub height: u64,
    /// Leaf blocks split.
    pub splits: u64,
    /// Pairs of leaf blocks merged.
    pub merges: u64,
    /// Pairs of leaf blocks evened out.
    pub borrows: u64,
    /// Rotations, double ones counted once.
    pub rotations: u64,
    /// Nodes put into the problem queue.
    pub problems: u64,
    /// Lookups that were misled or had to read a block again (optimistic scheme).
    pub restarts: u64,
    /// Reads that failed so often that they took the latch (optimistic scheme).
    pub latched_reads: u64,
}

/// What a subtree says of itself.
struct Subtree {
    /// The sum of weights on every path.
    weight: u64,
    height: u64,
}

fn broken<T>(what: impl Into<String>) -> Result<T, Broken> {
    Err(Broken::new(what))
}

impl<L: Lane, const F: usize, S: Scheme> Tree<L, F, S> {
    /// Checks order, bounds, links, parents, weights, counts, and that every problem is in the queue. Call it while no
    /// other thread uses the tree: what is under way looks broken.
    pub fn check(&self) -> Result<(), Broken> {
        let pin = Pin::new();
        let header = self.header(&pin);
        self.check_subtree(header, Side::Left, &pin)?;
        self.check_chain(&pin)
    }

    fn check_subtree(&self, parent: &Inner<L>, side: Side, pin: &Pin) -> Result<Subtree, Broken> {
        let child = parent.child(side);
        let header = header_at(child, pin);
        self.check_node(child, header, parent)?;
        if child.is_leaf() {
            let leaf: &Leaf<L, F> = leaf_at(child.address(), pin);
            if header.weight() == 0 {
                return broken(format!("T2: the block from {:?} is red", leaf.low()));
            }
            return Ok(Subtree { weight: header.weight().into(), height: 0 });
        }
        let inner = inner_at::<L>(child.address(), pin);
        let left = self.check_subtree(inner, Side::Left, pin)?;
        let right = self.check_subtree(inner, Side::Right, pin)?;
        if left.weight != right.weight {
            return broken(format!(
                "T2: weights of {} and {} below {:?}",
                left.weight,
                right.weight,
                inner.key()
            ));
        }
        let weight = left.weight + u64::from(header.weight());
        Ok(Subtree { weight, height: 1 + left.height.max(right.height) })
    }

    fn check_node(&self, child: Child, header: &Header, parent: &Inner<L>) -> Result<(), Broken> {
        let at = format!(
            "the {side} child {child:?} of {key:?}",
            side = if parent.child(Side::Left) == child { "left" } else { "right" },
            key = parent.key()
        );
        if S::is_latched(header) {
            return broken(format!("{at} is latched while nobody is active"));
        }
        if header.is_dead() {
            return broken(format!("{at} is dead"));
        }
        if header.parent() != address_of(parent) {
            return broken(format!("N1: {at} has another parent"));
        }
        if self.is_out_of_balance(header.weight(), parent) && !Problems::holds(header) {
            return broken(format!("T3: {at}, of weight {}, is not in the queue", header.weight()));
        }
        Ok(())
    }

    /// The blocks in the order of the tree are the chain, tile the keys, and lie under the right keys.
    fn check_chain(&self, pin: &Pin) -> Result<(), Broken> {
        let mut nodes = Vec::new();
        self.walk_in_order(self.root(pin), pin, &mut |visited| nodes.push(visited));
        let mut left: Option<&Leaf<L, F>> = None;
        let (mut blocks, mut entries, mut key) = (0, 0, None);
        for node in nodes {
            let leaf = match node {
                Visited::Inner(inner) => {
                    key = Some(inner.key());
                    continue;
                }
                Visited::Leaf(leaf) => leaf,
            };
            let at = format!("block {blocks}");
            leaf.check().or_else(|what| broken(format!("{at}: {what}")))?;
            self.check_neighbours(left, leaf, key).or_else(|what| broken(format!("{at}: {what}")))?;
            if leaf.header.count() == 0
                && leaf.header.parent() != *self.header
                && !Problems::holds(&leaf.header)
            {
                return broken(format!("T3: {at} is empty and not in the queue"));
            }
            (blocks, entries, left) = (blocks + 1, entries + leaf.header.count() as u64, Some(leaf));
        }
        if left.is_none_or(|last| last.next() != 0) {
            return broken("B3: the last block has a right neighbour");
        }
        if blocks != self.counters.leaves.get() {
            return broken(format!("count: {blocks} blocks, {} were made", self.counters.leaves.get()));
        }
        if self.length.is_some() && entries != self.len() {
            return broken(format!("count: {entries} entries, but a length of {}", self.len()));
        }
        Ok(())
    }

    fn check_neighbours(
        &self,
        left: Option<&Leaf<L, F>>,
        leaf: &Leaf<L, F>,
        key: Option<L>,
    ) -> Result<(), &'static str> {
        let Some(left) = left else {
            return if leaf.prev() == 0 && leaf.low() == L::MIN {
                Ok(())
            } else {
                Err("B2: the first block")
            };
        };
        if left.next() != address_of(leaf) || leaf.prev() != address_of(left) {
            return Err("B3: the links");
        }
        if left.high() != leaf.low() || left.low() >= leaf.low() {
            return Err("B2: the bounds");
        }
        if key != Some(leaf.low()) {
            return Err("T1: the key over its lower bound");
        }
        Ok(())
    }

    /// As `walk`, but each inner node between those to its left and those to its right.
    fn walk_in_order<'g>(&self, child: Child, pin: &'g Pin, visit: &mut impl FnMut(Visited<'g, L, F>)) {
        if child.is_leaf() {
            return visit(Visited::Leaf(leaf_at(child.address(), pin)));
        }
        let inner = inner_at::<L>(child.address(), pin);
        self.walk_in_order(inner.child(Side::Left), pin, visit);
        visit(Visited::Inner(inner));
        self.walk_in_order(inner.child(Side::Right), pin, visit);
    }

    /// Counters, and the height by a walk. Call it while no other thread changes the tree.
    pub fn stats(&self) -> O2Stats {
        let pin = Pin::new();
        let counters = &self.counters;
        O2Stats {
            blocks: counters.leaves.get(),
            height: self.height(self.root(&pin), &pin),
            splits: counters.splits.get(),
            merges: counters.merges.get(),
            borrows: counters.borrows.get(),
            rotations: counters.rotations.get(),
            problems: self.problems.total.get(),
            restarts: counters.restarts.get(),
            latched_reads: counters.latched_reads.get(),
        }
    }

    fn height(&self, child: Child, pin: &Pin) -> u64 {
        if child.is_leaf() {
            return 0;
        }
        let inner = inner_at::<L>(child.address(), pin);
        1 + [Side::Left, Side::Right]
            .map(|side| self.height(inner.child(side), pin))
            .into_iter()
            .max()
            .unwrap_or(0)
    }

    /// Memory of the tree in bytes: its nodes, whatever their fill.
    pub fn bytes(&self) -> u64 {
        // Each block but the first has an inner node over its lower bound, and there is the header.
        self.counters.leaves.get() * (size_of::<Leaf<L, F>>() + size_of::<Inner<L>>()) as u64
    }
}
