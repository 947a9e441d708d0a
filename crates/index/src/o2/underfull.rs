//! Underfull leaf blocks: evened out with their sibling, or merged with it.
//!
//! Source: O2-Tree §3.3.3, Algorithm 3; chromatic trees for the weights.
//! Differs: the two blocks share what they have, where the paper borrows as much as is missing: the next removal would
//! borrow again. A block whose sibling is an inner node first gets a block as sibling, by a rotation.
//!
//! A merge, under the latches of both blocks, parent and grandparent:
//!
//! ```text
//! grandparent            grandparent
//!      │                      │
//!      p w               [a b c] w+v          p and the right block are dead; p still leads readers who met it to
//!     ╱ ╲           →                         the left block, the right block sends them back
//! [a] v ⇄ [b c] v
//! ```

use super::family::{Family, exclude, replace_child};
use super::leaf::Leaf;
use super::node::{Child, Inner, Side};
use super::rebalance::is_underfull;
use super::scheme::Scheme;
use super::{Tree, address_of, leaf_at};
use crate::reclaim::Pin;
use crate::search::Lane;

/// Two sibling blocks, latched, and their parent and grandparent.
struct Pair<'g, L: Lane, const F: usize, S: Scheme> {
    left: &'g Leaf<L, F>,
    right: &'g Leaf<L, F>,
    /// In this order: grandparent, parent, and the blocks.
    guards: [S::Guard<'g>; 4],
    grandparent: &'g Inner<L>,
    parent: &'g Inner<L>,
}

impl<L: Lane, const F: usize, S: Scheme> Tree<L, F, S> {
    /// A block with too few entries that is not the root.
    pub(super) fn relieve_underfull(&self, node: Child, pin: &Pin) {
        let Some(family) = self.hold_family(node, pin) else { return };
        if !is_underfull::<L, F, _>(&family.node) {
            return;
        }
        if family.sibling.child.is_leaf() {
            return self.share(pair_of(family, pin), pin);
        }
        // Otherwise the block is overweight (T2), by what happened since it was found not to be.
        if family.sibling.header.weight() == 0 {
            self.raise_red_sibling(family, pin);
        }
    }

    /// Evens out two blocks, or merges them if one would be underfull.
    fn share(&self, pair: Pair<'_, L, F, S>, pin: &Pin) {
        let entries = pair.left.header.count() + pair.right.header.count();
        if entries < 2 * Leaf::<L, F>::MIN {
            self.merge(pair, pin);
        } else {
            self.even_out(pair, entries / 2);
        }
    }

    /// Moves entries between the blocks until the left one has `to_left`.
    fn even_out(&self, mut pair: Pair<'_, L, F, S>, to_left: usize) {
        exclude(&mut pair.guards[1..]);
        let (left, right) = (pair.left, pair.right);
        match left.header.count() {
            count if count < to_left => left.take_from_right(right, to_left - count),
            count => right.take_from_left(left, count - to_left),
        }
        let boundary = right.key(0);
        left.set_high(boundary);
        right.set_low(boundary);
        pair.parent.set_key(boundary);
        self.counters.borrows.add();
    }

    /// The left block takes all, and its parent's place.
    fn merge(&self, mut pair: Pair<'_, L, F, S>, pin: &Pin) {
        exclude(&mut pair.guards);
        let Pair { left, right, guards, grandparent, parent } = pair;
        left.take_from_right(right, right.header.count());
        left.set_high(right.high());
        let next = right.next();
        left.set_next(next);
        if next != 0 {
            leaf_at::<L, F>(next, pin).set_prev(address_of(left));
        }
        let (survivor, dying) = (Child::leaf(address_of(left)), Child::inner(parent));
        left.header.set_weight(left.header.weight() + parent.header.weight());
        replace_child(grandparent, dying, survivor, pin);
        parent.header.set_dead();
        right.header.set_dead();
        self.counters.merges.add();
        self.counters.leaves.subtract();
        self.report(survivor, grandparent, pin);
        if left.header.count() < Leaf::<L, F>::MIN {
            self.problems.push(survivor, &left.header);
        }
        drop(guards);
        self.bury(dying, pin);
        self.bury(Child::leaf(address_of(right)), pin);
    }
}

fn pair_of<'g, L: Lane, const F: usize, S: Scheme>(
    family: Family<'g, L, S>,
    pin: &'g Pin,
) -> Pair<'g, L, F, S> {
    let Family { grandparent, parent, side, node, sibling } = family;
    let (left, right) = if side == Side::Left { (node, sibling) } else { (sibling, node) };
    Pair {
        left: leaf_at(left.child.address(), pin),
        right: leaf_at(right.child.address(), pin),
        guards: [grandparent.guard, parent.guard, left.guard, right.guard],
        grandparent: grandparent.node,
        parent: parent.node,
    }
}
