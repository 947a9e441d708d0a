//! Building leaf blocks from sorted entries, and the inner tree from the lowest keys of the blocks.
//!
//! Source: O2-Tree §4: at open the inner tree is rebuilt from the lowest key of every block, and nothing else is read.
//!
//! The inner tree is as balanced as it can be: each node divides its blocks in halves. Paths differ by one node at most,
//! so it is enough that the inner nodes of the lowest level are red and all others black (T2).

use super::leaf::Leaf;
use super::node::{Child, Inner};
use super::scheme::Scheme;
use super::{Tree, address_of, header_at, leaf_at};
use crate::reclaim::Pin;
use crate::search::Lane;

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
        let pin = Pin::new();
        let mut blocks = vec![leaf_at::<L, F>(self.root(&pin).address(), &pin)];
        let (mut last, mut count) = (None, 0);
        for (key, value) in entries {
            assert!(
                last.replace(key).is_none_or(|last| last < key),
                "bulk loading wants strictly rising keys"
            );
            let mut block = blocks[blocks.len() - 1];
            if block.header.count() == per_block {
                let next = self.fresh_leaf(&pin);
                next.set_low(key);
                next.set_prev(address_of(block));
                block.set_high(key);
                block.set_next(address_of(next));
                blocks.push(next);
                block = next;
            }
            block.insert_at(block.header.count(), key, value);
            count += 1;
        }
        self.count(count);
        self.build_inner(&blocks, &pin);
        drop(blocks);
        drop(pin);
        self
    }

    /// Throws the inner tree away and builds it anew, from the lower bounds of the blocks.
    pub fn rebuild(&mut self) {
        let pin = Pin::new();
        let blocks = self.take_blocks(&pin);
        self.build_inner(&blocks, &pin);
    }

    /// All blocks, from left to right; the inner nodes above them are given back. Nobody else can reach the tree.
    pub(super) fn take_blocks<'g>(&mut self, pin: &'g Pin) -> Vec<&'g Leaf<L, F>> {
        self.settle(pin);
        let mut blocks = Vec::new();
        self.give_back_inner(self.root(pin), pin, &mut |leaf| blocks.push(leaf));
        blocks
    }

    /// Puts an inner tree over these blocks, of which there is at least one.
    fn build_inner(&self, blocks: &[&Leaf<L, F>], pin: &Pin) {
        let height = blocks.len().next_power_of_two().ilog2();
        let root = self.build_over(blocks, height, pin);
        header_at(root, pin).set_weight(1);
        self.set_root(root, pin);
    }

    /// The subtree over these blocks; `height` is that of the lowest blocks of all over its root.
    fn build_over(&self, blocks: &[&Leaf<L, F>], height: u32, pin: &Pin) -> Child {
        if let [block] = blocks {
            block.header.set_weight(1);
            return Child::leaf(address_of(*block));
        }
        let inner: &Inner<L> = self.fresh_inner(pin);
        let (left, right) = blocks.split_at(blocks.len().div_ceil(2));
        let children = [left, right].map(|half| self.build_over(half, height - 1, pin));
        inner.reset(right[0].low(), children[0], children[1], u32::from(height > 1));
        for child in children {
            header_at(child, pin).set_parent(address_of(inner));
        }
        Child::inner(inner)
    }
}
