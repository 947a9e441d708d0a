//! The rebalancer: takes problems out of the queue and makes each one smaller, until there is none.
//!
//! Source: O2-Tree §3.3 (problem queue, straight to the offending node); chromatic trees for the rules.
//!
//! | problem at x | rule | where |
//! |---|---|---|
//! | the root is not black | paint it black | here |
//! | x red, parent red, uncle red | both black, grandparent one lighter: the problem moves up | [`super::rotate`] |
//! | x red, parent red, uncle not red | one rotation, single or double | [`super::rotate`] |
//! | x overweight, sibling can be one lighter | both one lighter, parent one heavier: the problem moves up | [`super::rotate`] |
//! | x overweight, red sibling | rotate the sibling up: the new sibling is not red, or nearer to the blocks | [`super::rotate`] |
//! | x overweight, red nephew | one rotation, single or double | [`super::rotate`] |
//! | x an underfull block, sibling a block | even out, or merge both and drop the parent | [`super::underfull`] |
//! | x an underfull block, red sibling | rotate the sibling up: the new sibling is a block, or nearer to one | [`super::underfull`] |
//!
//! Each rule keeps the sum of weights of every path (T2), lowers the number of problems or moves one up, and reports
//! the nodes at which its changes may have left one (T3).

use super::family::HeldChild;
use super::leaf::Leaf;
use super::node::{Child, Inner};
use super::problems::Problems;
use super::scheme::Scheme;
use super::{Tree, address_of, header_at, inner_at, leaf_at};
use crate::pool;
use crate::reclaim::Pin;
use crate::search::Lane;
use foreshore_base::sync::Backoff;
use foreshore_base::sync::Ordering::*;

/// What is wrong with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    None,
    /// A root that is not black.
    Root,
    Overweight,
    Underfull,
    /// Red under red.
    Red,
}

/// Rounds through the queue before an updater leaves the rest to the next one.
const ROUNDS_MAX: usize = 8;

impl<L: Lane, const F: usize, S: Scheme> Tree<L, F, S> {
    /// Empties the problem queue, unless somebody else is at it.
    #[cold]
    pub(super) fn rebalance(&self, pin: &Pin) {
        for _ in 0..ROUNDS_MAX {
            // ORDERING: who finds a rebalancer at work releases his problem to that one's exchange below.
            if self.problems.is_empty() || self.rebalancing.swap(true, AcqRel) {
                return;
            }
            for node in self.problems.take(pin) {
                self.relieve(node, pin);
            }
            self.rebalancing.swap(false, AcqRel);
        }
    }

    /// Empties the problem queue, or waits until somebody else has.
    pub fn settle(&self, pin: &Pin) {
        let mut backoff = Backoff::new();
        while !self.is_settled() {
            self.rebalance(pin);
            backoff.wait();
        }
        self.rebalance(pin); // for whom found us looking, and left
    }

    /// Is there no problem, in the queue or in anybody's hands? Who is at them may put others in: that the queue is empty counts while
    /// nobody else is.
    fn is_settled(&self) -> bool {
        if self.rebalancing.swap(true, AcqRel) {
            return false;
        }
        let settled = self.problems.is_empty();
        self.rebalancing.swap(false, AcqRel);
        settled
    }

    /// Puts `node` in the queue if it breaks a rule. Its parent is latched (N1 in `node.rs`, Q1 in `problems.rs`).
    pub(super) fn report(&self, node: Child, parent: &Inner<L>, pin: &Pin) {
        let header = header_at(node, pin);
        if self.is_out_of_balance(header.weight(), parent) {
            self.problems.push(node, header);
        }
    }

    /// Does a node of this weight break a rule under this parent?
    pub(super) fn is_out_of_balance(&self, weight: u32, parent: &Inner<L>) -> bool {
        self.imbalance(weight, parent) != Trouble::None
    }

    fn imbalance(&self, weight: u32, parent: &Inner<L>) -> Trouble {
        match weight {
            _ if address_of(parent) == *self.header => {
                if weight == 1 {
                    Trouble::None
                } else {
                    Trouble::Root
                }
            }
            0 if parent.header.weight() == 0 => Trouble::Red,
            0 | 1 => Trouble::None,
            _ => Trouble::Overweight,
        }
    }

    /// Solves all that is wrong with a node that was in the queue.
    fn relieve(&self, node: Child, pin: &Pin) {
        let header = header_at(node, pin);
        Problems::release(header);
        if header.is_dead() {
            return self.bury(node, pin);
        }
        // A block may be overweight and underfull at once. Only a rebalancer takes nodes out of the tree.
        while !header.is_dead() {
            match self.diagnose(node, pin) {
                Trouble::None => return,
                Trouble::Root => self.blacken_root(node, pin),
                Trouble::Overweight => self.relieve_overweight(node, pin),
                Trouble::Underfull => self.relieve_underfull(node, pin),
                Trouble::Red => self.relieve_red(node, pin),
            }
        }
    }

    /// Looks at a living node under its latch and its parent's.
    fn diagnose(&self, node: Child, pin: &Pin) -> Trouble {
        let line = self.hold_ancestors(node, 1, pin);
        let parent = line[0].node;
        let held = self.hold_child(node, pin);
        match self.imbalance(held.header.weight(), parent) {
            Trouble::None if address_of(parent) != *self.header && is_underfull::<L, F, _>(&held) => {
                Trouble::Underfull
            }
            trouble => trouble,
        }
    }

    fn blacken_root(&self, root: Child, pin: &Pin) {
        let line = self.hold_ancestors(root, 1, pin);
        let held = self.hold_child(root, pin);
        held.header.set_weight(1);
        drop((held, line));
    }

    /// Gives a dead node back, once nobody can have seen it in the tree, or leaves it to the queue (Q2 in `problems.rs`).
    pub(super) fn bury(&self, node: Child, pin: &Pin) {
        if Problems::holds(header_at(node, pin)) {
            return;
        }
        // SAFETY: it was taken out of the tree, by this rebalancer or one before; it is not in the queue.
        unsafe {
            if node.is_leaf() {
                pin.retire_node(leaf_at::<L, F>(node.address(), pin), pool::give_back);
            } else {
                pin.retire_node(inner_at::<L>(node.address(), pin), pool::give_back);
            }
        }
    }
}

/// Has this block fewer entries than a block should have?
pub(super) fn is_underfull<L: Lane, const F: usize, S: Scheme>(held: &HeldChild<'_, S>) -> bool {
    held.child.is_leaf() && held.header.count() < Leaf::<L, F>::MIN
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::super::Optimistic;
    use super::*;
    use std::thread;
    use std::time::{Duration, Instant};

    #[test]
    fn who_settles_waits_for_what_was_taken_out_of_the_queue() {
        let tree = Tree::<u64, 4, Optimistic>::new();
        tree.rebalancing.store(true, Relaxed); // somebody has emptied the queue, and solves what was in it
        thread::scope(|scope| {
            let settled = scope.spawn(|| tree.settle(&Pin::new()));
            thread::sleep(Duration::from_millis(50));
            let early = settled.is_finished();
            tree.rebalancing.store(false, Release);
            settled.join().unwrap();
            assert!(!early, "it did not wait");
        });
    }

    /// Nor is who settles deceived by a rebalancer that puts a problem in as it leaves.
    #[test]
    fn who_settles_is_not_deceived_between_two_looks() {
        let tree = Tree::<u64, 4, Optimistic>::bulk_load((0..64).map(|key| (key, key)), 1.0);
        let pin = Pin::new();
        let node = tree.root(&pin);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(1) {
            tree.rebalancing.store(true, Relaxed); // by us, who always have a problem, or leave one in the queue
            thread::scope(|scope| {
                let settled = scope.spawn(|| tree.settle(&Pin::new()));
                let deceived = loop {
                    let ended = settled.is_finished();
                    tree.problems.push(node, header_at(node, &pin));
                    tree.rebalancing.store(false, Release);
                    while tree.rebalancing.swap(true, AcqRel) {
                        thread::yield_now(); // who settles is at it
                    }
                    let taken = tree.problems.take(&pin);
                    Problems::release(header_at(node, &pin));
                    if taken.is_empty() || ended {
                        break !taken.is_empty();
                    }
                };
                tree.rebalancing.store(false, Release);
                assert!(!deceived, "it returned, and never had the problem");
            });
        }
    }
}
