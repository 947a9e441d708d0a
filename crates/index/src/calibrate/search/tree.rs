//! A plain B+-tree of one thread, whose search and prefetch are chosen call by call, at compile time.
//!
//! Why: so that nothing but these differ. Source: textbook B+-trees, with keys and words apart as in the maps' nodes.
//! Differs: no removal, and no chain of leaves.
//!
//! Invariants:
//! - T1: unused keys hold the greatest image, and a rank is capped by the count.
//! - T2: the first key of an inner node is not above any key that comes to it, the least image on the left: every key has a
//!   child.

use super::methods::Method;
use super::slab::Slab;
use crate::node::int::IntKey;
use crate::search::Lane;
use foreshore_base::prefetch::prefetch_lines;
use foreshore_base::sync::{AtomicU64, Ordering::Relaxed};

/// More levels than a tree in memory has.
const LEVELS_MAX: usize = 24;

/// A node: its count, and from the next cache line on keys and words. Words are values, or numbers of children.
#[repr(C, align(64))]
struct Node<L: Lane, const F: usize> {
    count: AtomicU64,
    keys: Line<[L::Cell; F]>,
    words: [AtomicU64; F],
}

#[repr(C, align(64))]
struct Line<T>(T);

/// See the module.
pub(super) struct PlainTree<K: IntKey, const F: usize> {
    nodes: Slab<Node<K::Lane, F>>,
    root: usize,
    /// Levels of inner nodes.
    inner_levels: usize,
}

impl<K: IntKey, const F: usize> PlainTree<K, F> {
    /// An empty tree, with room for so many entries.
    pub fn new(entries: u64, huge_pages: bool) -> Self {
        // All nodes but the root are half full.
        let capacity = entries as usize / (F / 2 - 1) + 2 * LEVELS_MAX;
        let mut nodes = Slab::new(capacity, huge_pages);
        let root = nodes.push(Node::vacant());
        Self { nodes, root, inner_levels: 0 }
    }

    /// The value of a key.
    #[inline(always)]
    pub fn get<M: Method, const PREFETCH: bool>(&self, key: K) -> Option<u64> {
        let lane = key.to_lane();
        let mut node = &self.nodes[self.root];
        for _ in 0..self.inner_levels {
            node = self.child::<PREFETCH>(node, node.rank::<M>(lane));
        }
        let rank = node.rank::<M>(lane);
        (rank > 0 && node.lane(rank - 1) == lane).then(|| node.word(rank - 1))
    }

    /// Adds a key that is not there yet.
    #[inline(always)]
    pub fn insert<M: Method, const PREFETCH: bool>(&mut self, key: K, value: u64) {
        let lane = key.to_lane();
        let mut path = [(0, 0); LEVELS_MAX];
        let mut number = self.root;
        for step in &mut path[..self.inner_levels] {
            let node = &self.nodes[number];
            let rank = node.rank::<M>(lane);
            *step = (number, rank);
            self.child::<PREFETCH>(node, rank);
            number = node.word(rank - 1) as usize;
        }
        path[self.inner_levels] = (number, self.nodes[number].rank::<M>(lane));
        self.insert_upwards(&path, lane, value);
    }

    /// The child to the left of `rank`, whose keys' lines are asked for.
    #[inline(always)]
    fn child<const PREFETCH: bool>(&self, node: &Node<K::Lane, F>, rank: usize) -> &Node<K::Lane, F> {
        let child = &self.nodes[node.word(rank - 1) as usize];
        if PREFETCH {
            prefetch_lines(child, std::mem::offset_of!(Node<K::Lane, F>, words));
        }
        child
    }

    /// Inserts into the leaf that ends the path, and a separator into each node above whose child was split.
    fn insert_upwards(&mut self, path: &[(usize, usize); LEVELS_MAX], mut lane: K::Lane, mut word: u64) {
        for &(number, rank) in path[..=self.inner_levels].iter().rev() {
            if self.nodes[number].count() < F {
                return self.nodes[number].insert_at(rank, lane, word);
            }
            let right = self.nodes.push(Node::vacant());
            let (left_node, right_node) = (&self.nodes[number], &self.nodes[right]);
            let separator = left_node.split_to(right_node);
            if lane < separator {
                left_node.insert_at(rank, lane, word);
            } else {
                right_node.insert_at(rank - F / 2, lane, word);
            }
            (lane, word) = (separator, right as u64);
        }
        let root = Node::vacant();
        root.insert_at(0, K::Lane::MIN, self.root as u64);
        root.insert_at(1, lane, word);
        self.root = self.nodes.push(root);
        self.inner_levels += 1;
    }
}

impl<L: Lane, const F: usize> Node<L, F> {
    fn vacant() -> Self {
        Self {
            count: AtomicU64::new(0),
            keys: Line(std::array::from_fn(|_| L::MAX.cell())),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    #[inline(always)]
    fn count(&self) -> usize {
        self.count.load(Relaxed) as usize
    }

    #[inline(always)]
    fn lane(&self, i: usize) -> L {
        L::load(&self.keys.0[i])
    }

    #[inline(always)]
    fn word(&self, i: usize) -> u64 {
        self.words[i].load(Relaxed)
    }

    /// Entries not above the key (T1).
    #[inline(always)]
    fn rank<M: Method>(&self, lane: L) -> usize {
        M::at_most::<L>(&self.keys.0, lane).min(self.count())
    }

    fn set(&self, i: usize, lane: L, word: u64) {
        lane.store(&self.keys.0[i]);
        self.words[i].store(word, Relaxed);
    }

    fn insert_at(&self, rank: usize, lane: L, word: u64) {
        let count = self.count();
        for i in (rank..count).rev() {
            self.set(i + 1, self.lane(i), self.word(i));
        }
        self.set(rank, lane, word);
        self.count.store(count as u64 + 1, Relaxed);
    }

    /// Moves the upper half of a full node; returns its first key.
    fn split_to(&self, right: &Self) -> L {
        for i in F / 2..F {
            right.set(i - F / 2, self.lane(i), self.word(i));
            self.set(i, L::MAX, 0);
        }
        right.count.store((F - F / 2) as u64, Relaxed);
        self.count.store((F / 2) as u64, Relaxed);
        right.lane(0)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::super::methods::{Binary, Hybrid, Linear, Simd};
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Whatever inserts and whatever looks up, the tree holds what a model holds, ends of the type included.
        #[test]
        fn the_tree_is_a_map(
            keys in proptest::collection::btree_set(prop_oneof![0u64..4000, Just(u64::MAX)], 0..2000),
            shuffle in any::<u64>(),
        ) {
            let mut order: Vec<u64> = keys.iter().copied().collect();
            order.sort_unstable_by_key(|key| (key ^ shuffle).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let mut tree = PlainTree::<u64, 16>::new(order.len() as u64, false);
            let mut model = BTreeMap::new();
            for (i, &key) in order.iter().enumerate() {
                let value = i as u64;
                match i % 4 {
                    0 => tree.insert::<Linear, false>(key, value),
                    1 => tree.insert::<Binary, true>(key, value),
                    2 => tree.insert::<Hybrid, false>(key, value),
                    _ => tree.insert::<Simd, true>(key, value),
                }
                model.insert(key, value);
            }
            for key in (0..4001).chain([u64::MAX - 1, u64::MAX]) {
                let expected = model.get(&key).copied();
                prop_assert_eq!(tree.get::<Linear, true>(key), expected);
                prop_assert_eq!(tree.get::<Binary, false>(key), expected);
                prop_assert_eq!(tree.get::<Hybrid, true>(key), expected);
                prop_assert_eq!(tree.get::<Simd, false>(key), expected);
            }
        }
    }
}
