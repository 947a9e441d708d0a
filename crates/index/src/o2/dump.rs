//! The inner tree as a sequence, to be stored and put back.
//!
//! Source: O2-Tree §1 and §4: a post-order traversal dumps the inner nodes, a similar one restores them.
//!
//! In post-order each inner node stands behind the two trees below it, so a stack is all that restoring needs. The dump
//! is believed only if it fits the blocks: as many, and the keys between them; and if it is a red-black tree.

use super::bulk::Parts;
use super::node::Child;
use super::scheme::Scheme;
use super::{Tree, Visited, address_of, header_at};
use crate::reclaim::Pin;
use crate::search::Lane;

/// One node of a dumped inner tree, in post-order. See [`O2Map::dump_inner`](crate::O2Map::dump_inner).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InnerNode<K> {
    /// The next leaf block from the left.
    Block,
    /// A node over the last two trees of the sequence.
    Inner {
        /// The lowest key that is found to the right.
        key: K,
        /// Its colour.
        red: bool,
    },
}

/// A dump that does not fit the leaf blocks, or is no red-black tree: rebuild the inner tree from the blocks instead.
///
/// ```
/// use foreshore_index::{InnerNode, O2Map};
///
/// let mut map: O2Map<u32> = O2Map::new();
/// let mismatch = map.restore_inner(&[InnerNode::Block; 2]).unwrap_err();
/// assert!(mismatch.to_string().contains("does not fit"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpMismatch(String);

impl std::fmt::Display for DumpMismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the dump does not fit the leaf blocks: {}", self.0)
    }
}

impl std::error::Error for DumpMismatch {}

/// What is known of a tree on the stack.
struct Subtree<L> {
    /// The lower bound of its leftmost block.
    low: L,
    red: bool,
    /// Black nodes on each path, blocks included.
    blacks: u32,
}

impl<L: Lane, const F: usize, S: Scheme> Tree<L, F, S> {
    /// The inner tree, balanced, in post-order.
    pub fn dump(&mut self) -> Vec<InnerNode<L>> {
        let pin = Pin::new();
        self.settle(&pin);
        let mut nodes = Vec::new();
        self.walk(self.root(&pin), &pin, &mut |visited| {
            nodes.push(match visited {
                Visited::Leaf(_) => InnerNode::Block,
                Visited::Inner(inner) => {
                    InnerNode::Inner { key: inner.key(), red: inner.header.weight() == 0 }
                }
            });
        });
        nodes
    }

    /// Replaces the inner tree by a dumped one. If the dump does not fit nothing is changed.
    pub fn restore(&mut self, dump: &[InnerNode<L>]) -> Result<(), DumpMismatch> {
        let pin = Pin::new();
        // First of all: a problem that was left to others may merge blocks.
        let parts = self.take_apart(&pin);
        let lows: Vec<L> = parts.blocks.iter().map(|block| block.low()).collect();
        fits(dump, &lows).map_err(|what| DumpMismatch(what.into()))?;
        self.build_from(dump, parts, &pin);
        Ok(())
    }

    /// Makes the dumped tree, which they fit, of these parts.
    fn build_from(&self, dump: &[InnerNode<L>], parts: Parts<'_, L, F>, pin: &Pin) {
        let (mut blocks, mut spare) = (parts.blocks.into_iter(), parts.inner.into_iter());
        let mut stack: Vec<Child> = Vec::new();
        for node in dump {
            let child = match *node {
                InnerNode::Block => {
                    let block = blocks.next().expect("a dump that fits");
                    block.header.set_weight(1);
                    Child::leaf(address_of(block))
                }
                InnerNode::Inner { key, red } => {
                    let (right, left) = (stack.pop(), stack.pop());
                    let (left, right) = left.zip(right).expect("a dump that fits");
                    let inner = spare.next().expect("a dump that fits");
                    inner.reset(key, left, right, u32::from(!red));
                    for child in [left, right] {
                        header_at(child, pin).set_parent(address_of(inner));
                    }
                    Child::inner(inner)
                }
            };
            stack.push(child);
        }
        self.set_root(stack.pop().expect("a dump that fits"), pin);
    }
}

/// Is this a red-black tree over blocks with these lower bounds?
fn fits<L: Lane>(dump: &[InnerNode<L>], lows: &[L]) -> Result<(), &'static str> {
    let mut lows = lows.iter();
    let mut stack: Vec<Subtree<L>> = Vec::new();
    for node in dump {
        let subtree = match *node {
            InnerNode::Block => {
                let low = *lows.next().ok_or("it has more blocks")?;
                Subtree { low, red: false, blacks: 1 }
            }
            InnerNode::Inner { key, red } => {
                let (right, left) = (stack.pop(), stack.pop());
                let (left, right) = left.zip(right).ok_or("an inner node without two children")?;
                if key != right.low {
                    return Err("a key is not the lowest of its block");
                }
                if red && (left.red || right.red) || left.blacks != right.blacks {
                    return Err("it is not a red-black tree");
                }
                Subtree { low: left.low, red, blacks: left.blacks + u32::from(!red) }
            }
        };
        stack.push(subtree);
    }
    match (lows.next(), stack.as_slice()) {
        (Some(_), _) => Err("it has fewer blocks"),
        (None, [root]) if !root.red => Ok(()),
        _ => Err("it is not one tree with a black root"),
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::super::node::Side;
    use super::super::{Coupled, inner_at};
    use super::*;

    /// A problem that updates left to the next one is solved before the blocks are compared with the dump, not after it.
    #[test]
    fn blocks_stay_as_they_were_compared() {
        // An entry a block: with half of its entries gone, and nobody to look at it.
        let mut tree = Tree::<u64, 4, Coupled>::bulk_load((0..12).map(|key| (key, key)), 0.25);
        let dump = tree.dump();
        let pin = Pin::new();
        let mut first = tree.root(&pin);
        while !first.is_leaf() {
            first = inner_at::<u64>(first.address(), &pin).child(Side::Left);
        }
        tree.problems.push(first, header_at(first, &pin));
        assert!(tree.restore(&dump).is_err(), "two of the blocks are one");
        tree.check().unwrap();
        assert!((0..12).all(|key| tree.get(key, &pin) == Some(key)));
    }
}
