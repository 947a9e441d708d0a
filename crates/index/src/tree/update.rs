//! Inserts, removals, splits and a new root.
//!
//! Source: OLFIT §5.1, after Lehman and Yao, and Sagiv: a split makes the right node complete, then shortens the left
//! one, then, with nothing latched below, posts the separator one level up. Until then the link leads there.
//!
//! Invariants:
//! - U1: a node and its separator: the separator is posted once, by the splitter; the node is not unlinked before.
//! - U2: the right node is complete before the left node's new version makes it reachable.

use super::{Tree, address_of, fresh_node, node_at};
use crate::node::{Bias, Node, Place, Seen};
use crate::reclaim::{BULKY_BYTES, Pin};
use foreshore_base::sync::Ordering;
use foreshore_base::{Exclusive, seeded_bug};
use std::borrow::Borrow;
use std::ptr::NonNull;

/// A node under its latch.
pub(super) struct Latched<'g, N> {
    pub node: &'g N,
    pub latch: Exclusive<'g>,
}

/// The node that a key belongs to, under its latch.
struct Target<'g, N> {
    node: &'g N,
    latch: Exclusive<'g>,
    /// Entries not above the key.
    rank: usize,
    /// Is the last of them the key itself?
    exact: bool,
}

/// A separator on its way up: keys from it on are found in the right one of two nodes.
struct Separator<N: Node> {
    key: N::Owned,
    left: u64,
    right: u64,
}

impl<N: Node> Tree<N> {
    /// Sets the value of `key`; returns the old one.
    #[inline]
    pub fn insert(&self, key: &N::Key, value: u64, pin: &Pin) -> Option<u64> {
        self.insert_from(self.descend(key, Bias::AtMost, 0, pin), key, value, pin)
    }

    /// As `insert`; the key is not to the left of this leaf.
    #[inline]
    pub(super) fn insert_from(&self, leaf: &N, key: &N::Key, value: u64, pin: &Pin) -> Option<u64> {
        let old = self.put(leaf, key, value, 0, pin);
        if old.is_none() {
            self.length.add(1);
        }
        old
    }

    /// Removes `key`; returns its value.
    #[inline]
    pub fn remove(&self, key: &N::Key, pin: &Pin) -> Option<u64> {
        let start = self.descend(key, Bias::AtMost, 0, pin);
        let Target { node, latch, rank, exact } = self.latch_target(start, key, pin);
        if !exact {
            latch.release_unchanged();
            return None;
        }
        let value = node.word(rank - 1);
        self.remove_latched(Latched { node, latch }, rank - 1, key, pin);
        Some(value)
    }

    /// Removes entry `i`, which has this key.
    #[inline]
    fn remove_latched(&self, leaf: Latched<N>, i: usize, key: &N::Key, pin: &Pin) {
        let Latched { node, latch } = leaf;
        node.remove_at(i, pin);
        let emptied = node.header().count() == 0 && node.header().link() != 0;
        drop(latch);
        self.length.add(-1);
        if N::bytes_outside_of(key) >= BULKY_BYTES {
            pin.hand_over();
        }
        if emptied {
            self.unlink_empty(key, Bias::AtMost, pin);
        }
    }

    /// Gives `key` the value `new` (`None`: removes it) if its value is `expected` (`None`: if it is absent); tells the
    /// value that it has instead. One step, under the latch of the leaf.
    pub fn compare_exchange(
        &self,
        key: &N::Key,
        expected: Option<u64>,
        new: Option<u64>,
        pin: &Pin,
    ) -> Result<(), Option<u64>> {
        loop {
            let start = self.descend(key, Bias::AtMost, 0, pin);
            let Target { node, latch, rank, exact } = self.latch_target(start, key, pin);
            let current = exact.then(|| node.word(rank - 1));
            if current != expected {
                latch.release_unchanged();
                return Err(current);
            }
            match (exact, new) {
                (false, None) => latch.release_unchanged(),
                (true, None) => self.remove_latched(Latched { node, latch }, rank - 1, key, pin),
                (true, Some(value)) => {
                    node.set_word(rank - 1, value);
                    drop(latch);
                }
                (false, Some(value)) if node.make_room(key, false) => {
                    node.insert_at(rank, key, value);
                    drop(latch);
                    self.note_outside(key);
                    self.length.add(1);
                }
                (false, Some(_)) => {
                    latch.release_unchanged();
                    self.split_for(node, key, 0, pin);
                    continue;
                }
            }
            return Ok(());
        }
    }

    /// Latches the node that `key` belongs to, from `start` rightwards.
    pub(super) fn latch_for<'g>(&self, start: &'g N, key: &N::Key, pin: &'g Pin) -> Latched<'g, N> {
        let Target { node, latch, .. } = self.latch_target(start, key, pin);
        Latched { node, latch }
    }

    /// As `latch_for`, and says where in the node the key belongs.
    #[inline]
    fn latch_target<'g>(&self, start: &'g N, key: &N::Key, pin: &'g Pin) -> Target<'g, N> {
        let mut node = start;
        loop {
            #[cfg(shuttle)]
            assert!(
                !node.header().pooled.load(Ordering::Relaxed),
                "T1: a writer met a node that was given back"
            );
            let latch = node.header().latch.exclusive();
            let place = node.place(key, Bias::AtMost, &Seen::Latched);
            match place.expect("reading under the latch never restarts") {
                Place::Beyond if seeded_bug("index_writer_does_not_move_right") => {
                    return Target { node, latch, rank: node.header().count(), exact: false };
                }
                Place::Rank(rank, exact) => {
                    debug_assert!(!node.header().is_dead(), "N3: a dead node is closed");
                    return Target { node, latch, rank, exact };
                }
                Place::Beyond => {
                    let next = node.header().link();
                    latch.release_unchanged();
                    node = node_at(next, pin);
                }
            }
        }
    }

    /// Enters `key` at `level`, in `start` or to its right: a value in a leaf, a child above. Returns the value that it had.
    #[inline]
    fn put(&self, start: &N, key: &N::Key, word: u64, level: u8, pin: &Pin) -> Option<u64> {
        let mut start = start;
        loop {
            let Target { node, latch, rank, exact } = self.latch_target(start, key, pin);
            if exact && level == 0 {
                let old = node.word(rank - 1);
                node.set_word(rank - 1, word);
                return Some(old);
            }
            assert!(!exact || rank == 1, "U1: a separator is posted once");
            if node.make_room(key, false) {
                node.insert_at(rank.max(usize::from(level > 0)), key, word);
                drop(latch);
                self.note_outside(key);
                return None;
            }
            latch.release_unchanged();
            self.split_for(node, key, level, pin);
            start = node;
        }
    }

    /// Splits the node of `level` that `key` belongs to, in `start` or to its right, unless it has room by now.
    #[cold]
    #[inline(never)]
    fn split_for(&self, start: &N, key: &N::Key, level: u8, pin: &Pin) {
        // A new node is taken with nothing latched (T5).
        let right = fresh_node::<N>(level, &self.counters);
        let Target { node, latch, rank, .. } = self.latch_target(start, key, pin);
        if node.make_room(key, false) {
            drop(latch);
            return self.discard(right);
        }
        let appending = rank == node.header().count() && node.header().link() == 0;
        let key = self.split(node, right, appending, pin);
        drop(latch);
        if seeded_bug("index_early_unlatch") {
            node.header().set_link(right);
        }
        self.post(level + 1, &Separator { key, left: address_of(node), right }, pin);
    }

    /// Moves the upper part of a latched node to `right` and links it.
    fn split(&self, node: &N, right: u64, appending: bool, pin: &Pin) -> N::Owned {
        self.counters.splits.add();
        let right_node: &N = node_at(right, pin);
        right_node.header().set_link(node.header().link());
        let separator = node.split_to(right_node, appending);
        if !seeded_bug("index_early_unlatch") {
            node.header().set_link(right);
        }
        separator
    }

    /// Posts a separator at `level`, in a new root if there is no such level yet. Where it comes to, the node may split.
    fn post(&self, level: u8, separator: &Separator<N>, pin: &Pin) {
        if self.root(pin).header().level() >= level || !self.grow(level, separator, pin) {
            let key = separator.key.borrow();
            let start = self.descend(key, Bias::AtMost, level, pin);
            self.put(start, key, separator.right, level, pin);
        }
        self.unlink_beside(level, separator, pin);
    }

    /// Unlinks what was emptied beside a separator of `level` while that was not there, and so had to stay (D2 in `unlink.rs`).
    fn unlink_beside(&self, level: u8, separator: &Separator<N>, pin: &Pin) {
        // A leaf, or the last child of a node.
        let most = usize::from(level > 1);
        for (node, bias) in [(separator.left, Bias::Below), (separator.right, Bias::AtMost)] {
            let node: &N = node_at(node, pin);
            if self.read(node, |_| Ok(node.header().count())) <= most {
                self.unlink_empty(separator.key.borrow(), bias, pin);
            }
        }
    }

    /// Puts a new root above the old one, with the separator in it; false if somebody else did (T4).
    fn grow(&self, level: u8, separator: &Separator<N>, pin: &Pin) -> bool {
        let old = self.root.load(Ordering::Acquire);
        if node_at::<N>(old, pin).header().level() >= level {
            return false;
        }
        let address = fresh_node::<N>(level, &self.counters);
        let root: &N = node_at(address, pin);
        let first = if seeded_bug("index_root_order") { separator.right } else { old };
        root.insert_at(0, N::least().borrow(), first);
        assert!(root.make_room(separator.key.borrow(), false), "an empty root has room");
        root.insert_at(1, separator.key.borrow(), separator.right);
        // ORDERING: Release publishes the content of the root; pairs with the load in `root`.
        let won = self.root.compare_exchange(old, address, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if seeded_bug("index_root_order") {
            root.set_word(0, old);
        }
        if !won {
            self.discard(address);
        }
        won
    }

    /// Gives back a node that nobody else has seen.
    fn discard(&self, address: u64) {
        let node =
            NonNull::new(std::ptr::with_exposed_provenance_mut::<N>(address as usize)).expect("a node");
        // SAFETY: it came from the pool and was never linked anywhere.
        unsafe {
            self.counters.node_gone(node.as_ref().header().level());
            node.as_ref().drop_contents();
            N::give_back(node);
        }
    }
}
