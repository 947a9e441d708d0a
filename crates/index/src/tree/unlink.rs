//! Taking empty nodes out of the tree.
//!
//! Why: without it a tree that serves as a queue would grow for ever.
//! Source: OLFIT §5.3: only empty nodes go, their link stays while readers may be there, a collector gets them.
//!
//! An empty node gives its range to its *right* neighbour, so ranges, like keys, only move right (N4 in `node/mod.rs`), and a
//! reader who still arrives here, or at the left neighbour, finds everything behind the link:
//!
//! ```text
//! parent    … (a, L) (b, N) (c, R) …          … (a, L) (b, R) …
//!                                      →
//! chain     L[a,b) → N[b,c) → R[c,d)          L[a,b) → R[b,d)        N closed, dead, still linked to R
//! ```
//!
//! If N is its parent's only child, the parent goes too, and so on upwards: a column of victims, up to an ancestor where
//! the column's entry has a right neighbour. Otherwise (N is the last of several children) N stays: its range would have
//! to pass to another parent's first child, whose separator stands further up. It goes when its left siblings are gone.
//!
//! Why nodes that are merely underfull stay (lazy deletion, as both OLFIT and the processor-conscious CSB+-tree do): merging
//! needs a neighbour's latch, and often a split soon undoes it. What it costs, measured by `tests/maps/fill.rs` on random keys
//! in nodes of 64: leaves filled by inserts are 0.70 full (25 bytes a key); after each key was replaced once by a new one
//! 0.61, five times 0.54, twenty times 0.49 (35 bytes). Ranges that go leave nothing behind. The price is a map that
//! shrinks by random removals and stays small: with a tenth of its keys left it keeps its leaves, 0.07 full, 248 bytes a
//! key. If keys come back, they fill the same leaves (0.65); if not, bulk loading a new map from a scan of the old one is
//! the remedy.
//!
//! Invariants:
//! - D1: while N and its left neighbour are latched, N's right neighbour R is not unlinked (that takes N's latch).
//! - D2: a node goes only if its right neighbour's separator is next to its own (or, for a column, if the right
//!   neighbours form a column too): a separator in between is still to be posted (U1 in `update.rs`). Who posts it looks for
//!   what had to stay.
//! - D3: all or nothing. What cannot be done at once is left: an empty node is correct, only slow.

use super::update::Latched;
use super::{Tree, address_of, node_at};
use crate::node::{Bias, Node};
use crate::reclaim::Pin;
use foreshore_base::Exclusive;
use std::borrow::Borrow;

/// A latched node that is to go, under its latched left neighbour, if it has one.
struct Victim<'g, N> {
    left: Option<Latched<'g, N>>,
    node: &'g N,
    latch: Exclusive<'g>,
}

/// An ancestor's entry of the column; the next one is that of the column's right neighbour.
struct Top<'g, N> {
    parent: Latched<'g, N>,
    entry: usize,
}

impl<N: Node> Tree<N> {
    /// Unlinks the leaf that `key`, or what is below it, belongs to if that is empty, and then its right neighbour if that is empty.
    #[cold]
    pub(super) fn unlink_empty(&self, key: &N::Key, bias: Bias, pin: &Pin) {
        loop {
            let (leaf, low) = self.locate(key, bias, 0, pin);
            if leaf.header().count() > 0 || leaf.header().link() == 0 {
                return;
            }
            let mut victims = Vec::new();
            match self.latch_column(leaf, low, &mut victims, pin) {
                Some(top) => self.remove_column(victims, top, pin),
                None => {
                    self.counters.left_empty.add();
                    victims.into_iter().for_each(Victim::spare);
                    return;
                }
            }
        }
    }

    /// Latches `leaf` and every ancestor that goes with it, from the bottom up (T5), and the entry above them.
    fn latch_column<'g>(
        &self,
        leaf: &'g N,
        low: Option<N::Owned>,
        victims: &mut Vec<Victim<'g, N>>,
        pin: &'g Pin,
    ) -> Option<Top<'g, N>> {
        let key = low.clone().unwrap_or_else(N::least);
        let mut node = leaf;
        for level in 0..self.root(pin).header().level() {
            let left = low.as_ref().map(|low| self.locate(low.borrow(), Bias::Below, level, pin).0);
            let victim = self.latch_victim(left, node, victims.last(), level, pin);
            victims.push(victim?);
            let (parent, _) = self.locate(key.borrow(), Bias::AtMost, level + 1, pin);
            if self.read(parent, |_| Ok(parent.header().count())) > 1 {
                return self.latch_top(node, parent, key.borrow(), pin);
            }
            node = parent;
        }
        None
    }

    /// Latches a node and, before it, its left neighbour, if the node is to go together with the victim `below`.
    fn latch_victim<'g>(
        &self,
        left: Option<&'g N>,
        node: &'g N,
        below: Option<&Victim<'g, N>>,
        level: u8,
        pin: &'g Pin,
    ) -> Option<Victim<'g, N>> {
        let left = match left {
            Some(left) => Some(latch_left_neighbour(left, node)?),
            None if std::ptr::eq(self.leftmost(level, pin), node) => None,
            None => return None,
        };
        let victim = Victim { left, node, latch: node.header().latch.exclusive() };
        if self.may_go(node, below, pin) {
            Some(victim)
        } else {
            victim.spare();
            None
        }
    }

    /// Is this latched node empty, but for the victim below, and is the right neighbour ready to take over (D2)?
    fn may_go(&self, node: &N, below: Option<&Victim<N>>, pin: &Pin) -> bool {
        let header = node.header();
        if header.is_dead() || header.link() == 0 {
            return false;
        }
        let Some(below) = below else { return header.count() == 0 };
        let right: &N = node_at(header.link(), pin);
        let first = self.read(right, |_| Ok((right.header().count() > 0).then(|| right.word(0))));
        header.count() == 1
            && node.word(0) == address_of(below.node)
            && first == Some(below.node.header().link())
    }

    /// Latches the parent of the highest victim, if the right neighbour's entry is next to the victim's (D2).
    fn latch_top<'g>(&self, victim: &N, parent: &'g N, key: &N::Key, pin: &'g Pin) -> Option<Top<'g, N>> {
        let parent = self.latch_for(parent, key, pin);
        let words = || (0..parent.node.header().count()).map(|i| parent.node.word(i));
        let entry = words().position(|word| word == address_of(victim));
        match entry {
            Some(entry) if words().nth(entry + 1) == Some(victim.header().link()) => {
                Some(Top { parent, entry })
            }
            _ => {
                parent.latch.release_unchanged();
                None
            }
        }
    }

    /// Gives the range of the latched column to its right neighbours.
    fn remove_column(&self, victims: Vec<Victim<N>>, top: Top<N>, pin: &Pin) {
        let highest = victims.last().expect("at least the leaf").node;
        top.parent.node.set_word(top.entry, highest.header().link());
        top.parent.node.remove_at(top.entry + 1, pin);
        for victim in &victims {
            if let Some(left) = &victim.left {
                left.node.header().set_link(victim.node.header().link());
            }
            victim.node.close(pin);
            victim.node.header().set_dead();
        }
        drop(top);
        for Victim { left, node, latch } in victims {
            drop((latch, left));
            self.counters.unlinked.add();
            self.counters.node_gone(node.header().level());
            // SAFETY: what led to it, the parent (itself gone, or changed) and the left neighbour, does no longer. The
            // leftmost of a level has no left neighbour; no victim is the root, for each has a parent.
            unsafe { pin.retire_node(node, N::give_back) };
        }
    }
}

impl<N: Node> Victim<'_, N> {
    /// Lets it live. Nothing was changed: readers need not begin again.
    fn spare(self) {
        self.latch.release_unchanged();
        if let Some(left) = self.left {
            left.latch.release_unchanged();
        }
    }
}

/// Latches `left` if it is the left neighbour of `node`. Only then may `node` be waited for (T5).
fn latch_left_neighbour<'g, N: Node>(left: &'g N, node: &N) -> Option<Latched<'g, N>> {
    let latch = left.header().latch.exclusive();
    if left.header().link() == address_of(node) && !left.header().is_dead() {
        return Some(Latched { node: left, latch });
    }
    latch.release_unchanged();
    None
}
