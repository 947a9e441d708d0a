//! Inserts, removals, and the split of a full leaf block.
//!
//! Source: O2-Tree §3.3, Algorithms 2 and 3; chromatic trees for the weights of a split.
//! Differs: the parent is excluded only where it changes; an underfull block is a problem for the rebalancer rather
//! than the remover's, who would need the latches of a whole family.
//!
//! A split, under the latches of the block and of its parent:
//!
//! ```text
//! parent                 parent
//!   │                      │
//! [a b c d] w    →       (c) w-1
//!                        ╱    ╲
//!                   [a b] 1 ⇄ [c d] 1
//! ```

use super::leaf::Leaf;
use super::node::{Child, Inner};
use super::scheme::{Guard, Scheme, Site};
use super::{Tree, address_of, leaf_at};
use crate::pool;
use crate::pooled::Pooled;
use crate::reclaim::Pin;
use crate::search::Lane;
use std::ptr::NonNull;

/// A node that a split needs, or a load, taken with nothing latched. It is given back if it is not, or if there is no memory for another
/// one.
pub(super) struct Spare<'g, N: Pooled>(pub &'g N);

impl<'g, N: Pooled> Spare<'g, N> {
    pub fn spend(self) -> &'g N {
        let node = self.0;
        std::mem::forget(self);
        node
    }
}

impl<N: Pooled> Drop for Spare<'_, N> {
    fn drop(&mut self) {
        // SAFETY: it came from the pool, and was never linked anywhere.
        unsafe { pool::give_back(NonNull::from(self.0)) }
    }
}

impl<L: Lane, const F: usize, S: Scheme> Tree<L, F, S> {
    /// Sets the value of `key`; returns the old one.
    #[inline]
    pub fn insert(&self, key: L, value: u64, pin: &Pin) -> Option<u64> {
        self.insert_if(key, value, |_| true, pin)
    }

    /// Sets the value of `key` if `admit` agrees to the present one; returns that.
    #[inline]
    pub fn insert_if(
        &self,
        key: L,
        value: u64,
        admit: impl Fn(Option<u64>) -> bool,
        pin: &Pin,
    ) -> Option<u64> {
        let site = S::site(self, key, false, pin);
        match self.put(site, key, value, &admit) {
            Ok(old) => old,
            Err(Full) => self.insert_splitting(key, value, &admit, pin),
        }
    }

    /// Removes `key`; returns its value.
    #[inline]
    pub fn remove(&self, key: L, pin: &Pin) -> Option<u64> {
        self.remove_if(key, |_| true, pin)
    }

    /// Removes `key` if `admit` agrees to its value; returns that.
    #[inline]
    pub fn remove_if(&self, key: L, admit: impl Fn(u64) -> bool, pin: &Pin) -> Option<u64> {
        let Site { mut guard, leaf, parent } = S::site(self, key, false, pin);
        drop(parent);
        let last = leaf.rank(key).checked_sub(1).filter(|last| leaf.key(*last) == key)?;
        let value = leaf.value(last);
        if !admit(value) {
            return Some(value);
        }
        guard.exclude();
        leaf.remove_at(last);
        let underfull = leaf.header.count() < Leaf::<L, F>::MIN && leaf.header.parent() != *self.header;
        if underfull {
            self.problems.push(Child::leaf(address_of(leaf)), &leaf.header);
        }
        drop(guard);
        self.count(-1);
        if underfull {
            self.rebalance(pin);
        }
        Some(value)
    }

    /// Enters an entry in the block of its site, unless that is full.
    #[inline]
    fn put(
        &self,
        site: Site<'_, L, F, S>,
        key: L,
        value: u64,
        admit: &impl Fn(Option<u64>) -> bool,
    ) -> Result<Option<u64>, Full> {
        let Site { mut guard, leaf, parent } = site;
        let rank = leaf.rank(key);
        if rank > 0 && leaf.key(rank - 1) == key {
            drop(parent);
            let old = leaf.value(rank - 1);
            if !admit(Some(old)) {
                return Ok(Some(old));
            }
            guard.exclude();
            leaf.set_value(rank - 1, value);
            return Ok(Some(old));
        }
        if !admit(None) {
            return Ok(None);
        }
        if !leaf.has_room() {
            return Err(Full);
        }
        drop(parent);
        guard.exclude();
        leaf.insert_at(rank, key, value);
        drop(guard);
        self.count(1);
        Ok(None)
    }

    /// As `insert`, where the block was full.
    #[cold]
    fn insert_splitting(
        &self,
        key: L,
        value: u64,
        admit: &impl Fn(Option<u64>) -> bool,
        pin: &Pin,
    ) -> Option<u64> {
        let (inner, right) = (Spare(self.fresh_inner(pin)), Spare(self.fresh_leaf(pin)));
        let site = S::site(self, key, true, pin);
        let leaf = site.leaf;
        if leaf.has_room() || leaf.get(key).is_some() {
            let old = self.put(site, key, value, admit).unwrap_or_else(|Full| unreachable!("there is room"));
            self.counters.leaves.subtract();
            return old;
        }
        self.split(site, inner.spend(), right.spend(), key, value, pin);
        self.count(1);
        self.rebalance(pin);
        None
    }

    /// Splits the block of `site`, enters the entry, and hangs both halves under a new inner node.
    fn split(
        &self,
        site: Site<'_, L, F, S>,
        inner: &Inner<L>,
        right: &Leaf<L, F>,
        key: L,
        value: u64,
        pin: &Pin,
    ) {
        let Site { mut guard, leaf, parent } = site;
        let (parent, mut parent_guard) = parent.expect("a site for a split has a parent");
        parent_guard.exclude();
        guard.exclude();
        let rank = leaf.rank(key);
        // Rising keys fill their blocks: the last block keeps all it has.
        let appending = rank == F && leaf.next() == 0;
        let separator = divide(leaf, right, if appending { F } else { F / 2 }, key);
        let half = if key < separator { leaf } else { right };
        half.insert_at(half.rank(key), key, value);
        link(leaf, right, pin);

        let (old, both) = (Child::leaf(address_of(leaf)), Child::inner(inner));
        inner.reset(separator, old, Child::leaf(address_of(right)), leaf.header.weight() - 1);
        leaf.header.set_weight(1);
        leaf.header.set_parent(both.address());
        right.header.set_parent(both.address());
        inner.header.set_parent(address_of(parent));
        let side = parent.side_of(old).expect("the site's parent");
        parent.set_child(side, both);
        self.counters.splits.add();
        self.report(both, parent, pin);
    }
}

/// The block has no room.
struct Full;

/// Moves entries from rank `at` on, and the range from there, to the empty block `right`; returns where that begins. A
/// block that keeps everything is divided at `key`, which is above all it has.
fn divide<L: Lane, const F: usize>(leaf: &Leaf<L, F>, right: &Leaf<L, F>, at: usize, key: L) -> L {
    let separator = if at == F { key } else { leaf.key(at) };
    leaf.move_upper(at, right);
    right.set_low(separator);
    right.set_high(leaf.high());
    leaf.set_high(separator);
    separator
}

/// Puts `right` behind `leaf` in the chain (B3 in `leaf.rs`).
fn link<L: Lane, const F: usize>(leaf: &Leaf<L, F>, right: &Leaf<L, F>, pin: &Pin) {
    let next = leaf.next();
    right.set_next(next);
    right.set_prev(address_of(leaf));
    leaf.set_next(address_of(right));
    if next != 0 {
        leaf_at::<L, F>(next, pin).set_prev(address_of(right));
    }
}

/// Is this node, latched, the living parent of this block?
pub fn is_parent<L: Lane, const F: usize>(parent: &Inner<L>, leaf: &Leaf<L, F>) -> bool {
    !parent.header.is_dead() && parent.side_of(Child::leaf(address_of(leaf))).is_some()
}
