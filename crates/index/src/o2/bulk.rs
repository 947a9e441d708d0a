//! Building leaf blocks from sorted entries, and the inner tree from the lowest keys of the blocks.
//!
//! Source: O2-Tree §4: at open the inner tree is rebuilt from the lowest key of every block, and nothing else is read.
//!
//! The inner tree is as balanced as it can be: each node divides its blocks in halves. Paths differ by one node at most,
//! so it is enough that the inner nodes of the lowest level are red and all others black (T2).
//!
//! Nothing is pinned while the entries come, which may have to be waited for: nobody else can reach the tree.

use super::leaf::Leaf;
use super::node::{Child, Inner};
use super::scheme::Scheme;
use super::update::Spare;
use super::{Tree, Visited, address_of, header_at};
use crate::reclaim::Pin;
use crate::search::Lane;
use std::ptr::NonNull;

/// A leaf block of a tree under construction.
fn own_leaf<L: Lane, const F: usize, S: Scheme>(address: u64, _tree: &Tree<L, F, S>) -> &Leaf<L, F> {
    let leaf = NonNull::new(std::ptr::with_exposed_provenance_mut::<Leaf<L, F>>(address as usize));
    // SAFETY: it was taken for this tree, which nobody else can reach, and which gives blocks back only when it is dropped: it
    // outlives the result. All its fields are atomics.
    unsafe { leaf.expect("a leaf block").as_ref() }
}

/// A tree taken apart.
pub(super) struct Parts<'g, L: Lane, const F: usize> {
    /// The blocks, from left to right.
    pub blocks: Vec<&'g Leaf<L, F>>,
    /// The inner nodes, one fewer, in any order.
    pub inner: Vec<&'g Inner<L>>,
}

impl<L: Lane, const F: usize, S: Scheme> Tree<L, F, S> {
    /// A tree of these entries; blocks are filled to about `fill` of their capacity.
    ///
    /// Panics if keys do not rise strictly, or `fill` is not in 0.1 ..= 1.
    pub fn bulk_load(entries: impl Iterator<Item = (L, u64)>, fill: f64) -> Self {
        Self::new().loaded(entries, fill)
    }

    /// The same for this tree, which is empty.
    pub fn loaded(self, entries: impl Iterator<Item = (L, u64)>, fill: f64) -> Self {
        assert!((0.1..=1.0).contains(&fill), "a fill factor of {fill}");
        let per_block = ((F as f64 * fill).round() as usize).max(1);
        let root = self.root(&Pin::new());
        let mut blocks = vec![own_leaf(root.address(), &self)];
        let (mut last, mut count) = (None, 0);
        for (key, value) in entries {
            assert!(
                last.replace(key).is_none_or(|last| last < key),
                "bulk loading wants strictly rising keys"
            );
            let mut block = blocks[blocks.len() - 1];
            if block.header.count() == per_block {
                block = self.begin_block(block, key);
                blocks.push(block);
            }
            block.insert_at(block.header.count(), key, value);
            count += 1;
        }
        self.count(count);
        let pin = Pin::new();
        self.build_inner(&blocks, &mut self.take_inner(blocks.len() - 1, &pin), &pin);
        self
    }

    /// So many inner nodes that nobody else knows, or none if there is no memory for all of them.
    fn take_inner<'g>(&self, count: usize, pin: &'g Pin) -> Vec<&'g Inner<L>> {
        let taken: Vec<_> = (0..count).map(|_| Spare(self.fresh_inner(pin))).collect();
        taken.into_iter().map(Spare::spend).collect()
    }

    /// Finishes `block` below `low` and begins its right neighbour there.
    fn begin_block(&self, block: &Leaf<L, F>, low: L) -> &Leaf<L, F> {
        let next = own_leaf(self.take_leaf(), self);
        next.set_low(low);
        next.set_prev(address_of(block));
        block.set_high(low);
        block.set_next(address_of(next));
        next
    }

    /// Throws the inner tree away and builds it anew, from the lower bounds of the blocks.
    pub fn rebuild(&mut self) {
        let pin = Pin::new();
        let Parts { blocks, mut inner } = self.take_apart(&pin);
        self.build_inner(&blocks, &mut inner, &pin);
    }

    /// All blocks, and the inner nodes above them, which another inner tree is to be made of: it has as many, and where memory
    /// is at an end there are no others. Nobody else can reach the tree.
    pub(super) fn take_apart<'g>(&mut self, pin: &'g Pin) -> Parts<'g, L, F> {
        self.settle(pin);
        let (mut blocks, mut inner) = (Vec::new(), Vec::new());
        self.walk(self.root(pin), pin, &mut |visited| match visited {
            Visited::Leaf(leaf) => blocks.push(leaf),
            Visited::Inner(node) => inner.push(node),
        });
        Parts { blocks, inner }
    }

    /// Puts an inner tree over these blocks, of which there is at least one, of these nodes, one fewer than blocks.
    fn build_inner(&self, blocks: &[&Leaf<L, F>], inner: &mut Vec<&Inner<L>>, pin: &Pin) {
        let height = blocks.len().next_power_of_two().ilog2();
        let root = self.build_over(blocks, height, inner, pin);
        header_at(root, pin).set_weight(1);
        self.set_root(root, pin);
    }

    /// The subtree over these blocks; `height` is that of the lowest blocks of all over its root.
    fn build_over(
        &self,
        blocks: &[&Leaf<L, F>],
        height: u32,
        spare: &mut Vec<&Inner<L>>,
        pin: &Pin,
    ) -> Child {
        if let [block] = blocks {
            block.header.set_weight(1);
            return Child::leaf(address_of(*block));
        }
        let inner = spare.pop().expect("an inner node between any two blocks");
        let (left, right) = blocks.split_at(blocks.len().div_ceil(2));
        let children = [left, right].map(|half| self.build_over(half, height - 1, spare, pin));
        inner.reset(right[0].low(), children[0], children[1], u32::from(height > 1));
        for child in children {
            header_at(child, pin).set_parent(address_of(inner));
        }
        Child::inner(inner)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::super::Coupled;
    use super::*;
    use crate::pool;
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::thread;

    /// Takes nodes from the pool until it is told to stop; then it gives them back.
    fn take_inner_nodes(stop: &AtomicBool) {
        let mut taken = Vec::new();
        while !stop.load(Relaxed) {
            if taken.len() < 100_000 {
                taken.push(pool::take::<Inner<u64>>());
            }
        }
        // SAFETY: nobody else knows them.
        taken.into_iter().for_each(|node| unsafe { pool::give_back(node) });
    }

    /// The inner nodes stay with their tree, whatever others take from the pool meanwhile: there may be no others.
    #[test]
    fn an_inner_tree_is_built_anew_of_the_nodes_of_the_old_one() {
        let mut tree = Tree::<u64, 4, Coupled>::bulk_load((0..20_000).map(|key| (key, key)), 1.0);
        let pin = Pin::new();
        let nodes = |tree: &Tree<u64, 4, Coupled>| {
            let mut nodes = BTreeSet::new();
            tree.walk(tree.root(&pin), &pin, &mut |visited| {
                if let Visited::Inner(inner) = visited {
                    nodes.insert(address_of(inner));
                }
            });
            nodes
        };
        let (dump, before) = (tree.dump(), nodes(&tree));
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| take_inner_nodes(&stop));
            for _ in 0..20 {
                tree.rebuild();
                tree.restore(&dump).unwrap();
            }
            stop.store(true, Relaxed);
        });
        assert!(nodes(&tree) == before, "other nodes");
        tree.check().unwrap();
    }
}
