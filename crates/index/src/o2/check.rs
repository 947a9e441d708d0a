//! Walking the whole structure and naming what is broken; and what the tree counts. Only when nobody changes it.

use super::leaf::Leaf;
use super::node::{Child, Header, Inner, Side};
use super::problems::Problems;
use super::scheme::Scheme;
use super::{Tree, address_of, header_at, inner_at, leaf_at};
use crate::broken::{Broken, broken, stays_latched};
use crate::reclaim::Pin;
use crate::search::Lane;

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

/// What a walk from left to right has seen.
struct Seen<'g, L: Lane, const F: usize> {
    blocks: u64,
    entries: u64,
    last: Option<&'g Leaf<L, F>>,
    /// Of the inner node that it came by last.
    key: Option<L>,
}

impl<L: Lane, const F: usize> Seen<'_, L, F> {
    /// The block goes on where the last one ended, in the chain and in the tree.
    fn leads_to(&self, leaf: &Leaf<L, F>) -> Result<(), &'static str> {
        let Some(last) = self.last else {
            let is_first = leaf.prev() == 0 && leaf.low() == L::MIN;
            return if is_first { Ok(()) } else { Err("B2: the first block") };
        };
        if last.next() != address_of(leaf) || leaf.prev() != address_of(last) {
            return Err("B3: the links");
        }
        if last.high() != leaf.low() || last.low() >= leaf.low() {
            return Err("B2: the bounds");
        }
        if self.key != Some(leaf.low()) {
            return Err("T1: the key over its lower bound");
        }
        Ok(())
    }
}

impl<L: Lane, const F: usize, S: Scheme> Tree<L, F, S> {
    /// Checks order, bounds, links, parents, weights, counts, and that every problem is in the queue. Call it while no
    /// other thread changes the tree: what is under way looks broken.
    pub fn check(&self) -> Result<(), Broken> {
        let pin = Pin::new();
        let mut seen = Seen { blocks: 0, entries: 0, last: None, key: None };
        self.check_subtree(self.header(&pin), Side::Left, &mut seen, &pin)?;
        self.check_totals(&seen)
    }

    /// Returns the sum of weights on every path.
    fn check_subtree<'g>(
        &self,
        parent: &Inner<L>,
        side: Side,
        seen: &mut Seen<'g, L, F>,
        pin: &'g Pin,
    ) -> Result<u64, Broken> {
        let child = parent.child(side);
        let header = header_at(child, pin);
        self.check_node(child, header, parent)?;
        if child.is_leaf() {
            let leaf = leaf_at(child.address(), pin);
            self.check_leaf(leaf, seen).or_else(|what| broken(format!("block {}: {what}", seen.blocks)))?;
            (seen.blocks, seen.entries) = (seen.blocks + 1, seen.entries + header.count() as u64);
            seen.last = Some(leaf);
            return Ok(header.weight().into());
        }
        let inner = inner_at::<L>(child.address(), pin);
        let left = self.check_subtree(inner, Side::Left, seen, pin)?;
        seen.key = Some(inner.key());
        let right = self.check_subtree(inner, Side::Right, seen, pin)?;
        if left != right {
            return broken(format!("T2: weights of {left} and {right} below {:?}", inner.key()));
        }
        Ok(left + u64::from(header.weight()))
    }

    fn check_node(&self, child: Child, header: &Header, parent: &Inner<L>) -> Result<(), Broken> {
        let at = format!(
            "the {side} child {child:?} of {key:?}",
            side = if parent.child(Side::Left) == child { "left" } else { "right" },
            key = parent.key()
        );
        if stays_latched(|| S::is_latched(header)) {
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

    fn check_leaf(&self, leaf: &Leaf<L, F>, seen: &Seen<'_, L, F>) -> Result<(), String> {
        leaf.check()?;
        seen.leads_to(leaf)?;
        if leaf.header.weight() == 0 {
            return Err("T2: it is red".into());
        }
        if leaf.header.count() == 0 && leaf.header.parent() != *self.header && !Problems::holds(&leaf.header)
        {
            return Err("T3: it is empty and not in the queue".into());
        }
        Ok(())
    }

    fn check_totals(&self, seen: &Seen<'_, L, F>) -> Result<(), Broken> {
        if seen.last.is_none_or(|last| last.next() != 0) {
            return broken("B3: the last block has a right neighbour");
        }
        let made = self.counters.leaves.get();
        if seen.blocks != made {
            return broken(format!("count: {} blocks, {made} were made", seen.blocks));
        }
        if self.length.is_some() && seen.entries != self.len() {
            return broken(format!("count: {} entries, but a length of {}", seen.entries, self.len()));
        }
        Ok(())
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
        let [left, right] = [Side::Left, Side::Right].map(|side| self.height(inner.child(side), pin));
        1 + left.max(right)
    }

    /// Memory of the tree in bytes: its nodes, whatever their fill.
    pub fn bytes(&self) -> u64 {
        // Each block but the first has an inner node over its lower bound, and there is the header.
        self.counters.leaves.get() * (size_of::<Leaf<L, F>>() + size_of::<Inner<L>>()) as u64
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::super::scheme::Protocol;
    use super::*;
    use crate::Optimistic;
    use std::sync::Barrier;

    /// As a lookup does that was disturbed too often.
    #[test]
    fn who_latches_a_block_only_to_look_breaks_nothing() {
        let tree = Tree::<u64, 4, Optimistic>::new();
        (1..=12).for_each(|key| _ = tree.insert(key, key, &Pin::new()));
        let latched = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let pin = Pin::new();
                let site = Optimistic::site(&tree, 7, false, &pin);
                latched.wait();
                std::thread::sleep(std::time::Duration::from_millis(20));
                drop(site);
            });
            latched.wait();
            tree.check().unwrap();
        });
    }
}
