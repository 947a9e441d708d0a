//! Building a tree from sorted entries, level by level, at memory speed.
//!
//! Source: the O2-Tree rebuilds its index this way at open; the nodes are filled to a chosen share.
//!
//! Nothing is pinned meanwhile: the entries may have to be waited for, and nobody else can reach the tree.

use super::{Tree, fresh_node};
use crate::node::Node;
use foreshore_base::sync::Ordering;
use std::borrow::Borrow;
use std::ptr::NonNull;

/// A node of a tree under construction.
fn own_node<N: Node>(address: u64, _tree: &Tree<N>) -> &N {
    let node = NonNull::new(std::ptr::with_exposed_provenance_mut::<N>(address as usize)).expect("a node");
    // SAFETY: it was taken for this tree, which nobody else can reach, and which gives nodes back only when it is dropped: it
    // outlives the result. All its fields are atomics.
    unsafe { node.as_ref() }
}

/// One level under construction.
struct Level<'t, N: Node> {
    tree: &'t Tree<N>,
    fill: f64,
    level: u8,
    /// The node being filled.
    node: u64,
    last_key: Option<N::Owned>,
    /// The finished boundaries: separator and node, for the level above.
    separators: Vec<(N::Owned, u64)>,
}

impl<'t, N: Node> Level<'t, N> {
    fn new(tree: &'t Tree<N>, fill: f64, level: u8, node: u64) -> Self {
        Self { tree, fill, level, node, last_key: None, separators: Vec::new() }
    }

    fn append(&mut self, key: &N::Key, word: u64) {
        self.tree.note_outside(key);
        let node: &N = own_node(self.node, self.tree);
        let count = node.header().count();
        // A filled node may get one more, but no node has a single child.
        let has_room = count < 2 || !node.is_filled(self.fill);
        if has_room && node.make_room(key, true) {
            node.insert_at(count, key, word);
        } else {
            self.begin_node(node, key, word);
        }
        self.last_key = Some(N::own(key));
    }

    /// Finishes `node` below `key` and begins its right neighbour with it.
    fn begin_node(&mut self, node: &N, key: &N::Key, word: u64) {
        let last = self.last_key.as_ref().expect("a node that is full has a last key");
        let separator = node.separator(last.borrow(), key);
        self.node = fresh_node::<N>(self.level, &self.tree.counters);
        node.set_high(separator.borrow());
        node.header().set_link(self.node);
        let right: &N = own_node(self.node, self.tree);
        if self.level == 0 {
            assert!(right.make_room(key, true), "Y5: an empty node has room");
            right.insert_at(0, key, word);
        } else {
            right.insert_at(0, N::least().borrow(), word);
        }
        self.separators.push((separator, self.node));
    }
}

impl<N: Node> Tree<N> {
    /// A tree of these entries; nodes are filled to about `fill` of their capacity.
    ///
    /// Panics if keys do not rise strictly, or `fill` is not in 0.1 ..= 1.
    pub fn bulk_load<K: Borrow<N::Key>>(entries: impl Iterator<Item = (K, u64)>, fill: f64) -> Self {
        assert!((0.1..=1.0).contains(&fill), "a fill factor of {fill}");
        let tree = Self::new();
        let leftmost = tree.root.load(Ordering::Relaxed);
        let mut leaves = Level::new(&tree, fill, 0, leftmost);
        let mut count = 0;
        for (key, value) in entries {
            // Once: asked for its bytes again a key need not give the same.
            let key: &N::Key = key.borrow();
            let rises = leaves.last_key.as_ref().is_none_or(|last| last.borrow() < key);
            assert!(rises, "bulk loading wants strictly rising keys");
            leaves.append(key, value);
            count += 1;
        }
        let separators = leaves.separators;
        tree.length.add(count);
        tree.build_upper_levels(leftmost, separators, fill);
        tree
    }

    /// Puts level upon level until one node is left, which is the root.
    fn build_upper_levels(&self, leftmost: u64, separators: Vec<(N::Owned, u64)>, fill: f64) {
        let (mut leftmost, mut separators) = (leftmost, separators);
        let mut level = 0;
        while !separators.is_empty() {
            level += 1;
            let first = fresh_node::<N>(level, &self.counters);
            own_node(first, self).insert_at(0, N::least().borrow(), leftmost);
            // The root already: should there be no memory for its neighbours, all goes with the tree.
            self.root.store(first, Ordering::Relaxed);
            let mut nodes = Level::new(self, fill, level, first);
            nodes.last_key = Some(N::least());
            for (key, node) in separators {
                nodes.append(key.borrow(), node);
            }
            (leftmost, separators) = (first, nodes.separators);
        }
    }
}
