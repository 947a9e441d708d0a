//! Taking empty nodes out of the tree.
//!
//! Why: without it a tree that serves as a queue would grow for ever.
//! Source: OLFIT §5.3: only empty nodes go, their link stays while readers may be there, a collector gets them.
//!
//! An empty node gives its range to its *right* neighbour, so ranges, like keys, only move right (N4), and a reader who
//! still arrives here, or at the left neighbour, finds everything behind the link:
//!
//! ```text
//! parent    … (a, L) (b, N) (c, R) …          … (a, L) (b, R) …
//!                                      →
//! chain     L[a,b) → N[b,c) → R[c,d)          L[a,b) → R[b,d)        N closed, dead, still linked to R
//! ```
//!
//! If N is the last entry of its parent P, that entry is cut off: P's upper end becomes b, and keys from b on find R
//! behind P's link. If it was the only entry, P is closed (everybody who comes moves right) and is next to be unlinked.
//!
//! The rightmost node of a level stays, even when it is empty.
//!
//! Invariants:
//! - D1: while L and N are latched, R is not unlinked (its left neighbour, N, is latched), and neither is N.
//! - D2: a node whose right neighbour's separator is not next to its own stays: somebody is about to post it (U1).
//! - D3: what cannot be done at once is left: an empty node is correct, only slow, and whoever empties it again tries.

use super::update::Latched;
use super::{Tree, address_of, node_at};
use crate::node::{Bias, Node};
use crate::reclaim::Pin;
use foreshore_base::Exclusive;
use std::borrow::Borrow;

/// The left neighbour of a node, and a key that belongs to the node.
struct Around<'g, N: Node> {
    left: Option<&'g N>,
    key: N::Owned,
}

/// Where the entry of the empty node is in its parent.
enum Entry {
    /// The right neighbour's entry follows it.
    BeforeNeighbour(usize),
    /// It is the last; the right neighbour is the first child of the parent's neighbour.
    Last(usize),
}

impl<N: Node> Tree<N> {
    /// Unlinks `node`, a leaf that was found empty after the removal of `key`, and each parent that this empties.
    #[cold]
    pub(super) fn unlink_empty(&self, node: &N, key: &N::Key, pin: &Pin) {
        let mut node = node;
        let mut key = N::own(key);
        let mut level = 0;
        loop {
            let Some(around) = self.look_around(node, key, level, pin) else { break };
            match self.unlink(node, &around, level, pin) {
                None => break,
                Some(Closed::Nothing) => return,
                Some(Closed::Parent(parent)) => (node, key, level) = (parent, around.key, level + 1),
            }
        }
        self.counters.left_empty.add();
    }

    /// Finds what should be the left neighbour of `node`, to which `key` leads or led.
    fn look_around<'g>(&self, node: &N, key: N::Owned, level: u8, pin: &'g Pin) -> Option<Around<'g, N>> {
        let (_, mut low) = self.locate(key.borrow(), Bias::AtMost, level, pin);
        while let Some(key) = low {
            let (left, further) = self.locate(key.borrow(), Bias::Below, level, pin);
            if !std::ptr::eq(left, node) {
                return Some(Around { left: Some(left), key });
            }
            // That lower end was above the true one (T3).
            low = further;
        }
        let leftmost = self.leftmost(level, pin);
        Some(Around { left: (!std::ptr::eq(leftmost, node)).then_some(leftmost), key: N::least() })
    }

    /// Unlinks `node` if it is still empty and its neighbours are in order (D2). `None`: it stays.
    fn unlink<'g>(
        &self,
        node: &'g N,
        around: &Around<'g, N>,
        level: u8,
        pin: &'g Pin,
    ) -> Option<Closed<'g, N>> {
        if self.root(pin).header().level() <= level {
            return None;
        }
        let both = latch_both(around.left, node)?;
        let empty = node.header().count() == 0 && node.header().link() != 0 && !node.header().is_dead();
        let found = if empty { self.parent_of(node, around.key.borrow(), level, pin) } else { None };
        let Some((parent, entry)) = found else {
            both.release_unchanged();
            return None;
        };
        let neighbour = node.header().link();
        let closed = drop_entry(&parent, &entry, neighbour, pin);
        if let Some(left) = around.left {
            left.header().set_link(neighbour);
        }
        node.close(pin);
        node.header().set_dead();
        let parent_node = parent.node;
        drop((parent, both));
        self.counters.unlinked.add();
        self.counters.nodes.subtract();
        // SAFETY: parent and left neighbour led to it, and do no longer; the leftmost of a level has no left neighbour,
        // and no node with a parent is the root.
        unsafe { pin.retire_node(node) };
        Some(if closed { Closed::Parent(parent_node) } else { Closed::Nothing })
    }

    /// Latches the parent of a latched empty node, if the node's entry there can go.
    fn parent_of<'g>(
        &self,
        node: &N,
        key: &N::Key,
        level: u8,
        pin: &'g Pin,
    ) -> Option<(Latched<'g, N>, Entry)> {
        let start = self.descend(key, Bias::AtMost, level + 1, pin);
        let parent = self.latch_for(start, key, pin);
        match self.entry_of(node, &parent, pin) {
            Some(entry) => Some((parent, entry)),
            None => {
                parent.latch.release_unchanged();
                None
            }
        }
    }

    /// Finds the entry of a latched empty node in its latched parent, if the right neighbour's is next to it (D2).
    fn entry_of(&self, node: &N, parent: &Latched<N>, pin: &Pin) -> Option<Entry> {
        let count = parent.node.header().count();
        let i = (0..count).find(|&i| parent.node.word(i) == address_of(node))?;
        let neighbour = node.header().link();
        if i + 1 < count {
            return (parent.node.word(i + 1) == neighbour).then_some(Entry::BeforeNeighbour(i));
        }
        let next = parent.node.header().link();
        if next == 0 {
            return None;
        }
        let next: &N = node_at(next, pin);
        let first = self.read(next, |_| Ok((next.header().count() > 0).then(|| next.word(0))));
        (first == Some(neighbour)).then_some(Entry::Last(i))
    }
}

/// An empty node and its left neighbour, latched.
struct Both<'g> {
    left: Option<Exclusive<'g>>,
    node: Exclusive<'g>,
}

impl Both<'_> {
    fn release_unchanged(self) {
        self.node.release_unchanged();
        if let Some(left) = self.left {
            left.release_unchanged();
        }
    }
}

/// Latches from left to right, if these are neighbours.
fn latch_both<'g, N: Node>(left: Option<&'g N>, node: &'g N) -> Option<Both<'g>> {
    let Some(left) = left else { return Some(Both { left: None, node: node.header().latch.exclusive() }) };
    let latch = left.header().latch.exclusive();
    // Only now is it sure that `left` is on the left (T5).
    if left.header().link() != address_of(node) || left.header().is_dead() {
        latch.release_unchanged();
        return None;
    }
    Some(Both { left: Some(latch), node: node.header().latch.exclusive() })
}

/// What else an unlinking brought about.
enum Closed<'g, N> {
    Nothing,
    /// The parent has no entries left.
    Parent(&'g N),
}

/// Takes the empty node's entry out of its latched parent; says whether that was the last one.
fn drop_entry<N: Node>(parent: &Latched<N>, entry: &Entry, neighbour: u64, pin: &Pin) -> bool {
    match *entry {
        Entry::BeforeNeighbour(i) => {
            parent.node.set_word(i, neighbour);
            parent.node.remove_at(i + 1, pin);
            false
        }
        Entry::Last(0) => {
            parent.node.close(pin);
            true
        }
        Entry::Last(i) => {
            parent.node.cut_at(i, pin);
            false
        }
    }
}
