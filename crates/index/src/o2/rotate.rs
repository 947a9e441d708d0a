//! Colours and rotations: red under red, and overweight.
//!
//! Source: the standard rotations of red-black trees, with the weights of chromatic trees.
//!
//! Invariants:
//! - R1: who changes a weight holds the latches of the node and of its parent (N1 in `node.rs`); who changes a child pointer, or
//!   takes a key range from a node, has excluded others from it.
//! - R2: pointers are written in an order that never makes a cycle (O2): first what goes down gives away its child, then
//!   it is hung under what goes up, and that is hung under the top last.
//!
//! The single rotation, `p` going down; the mirror image has the sides exchanged:
//!
//! ```text
//!     top                top
//!      │                  │
//!      p                  s
//!     ╱ ╲       →        ╱ ╲
//!    x   s              p   f
//!       ╱ ╲            ╱ ╲
//!      n   f          x   n
//! ```

use super::family::{Family, Held, HeldChild, exclude, hang, replace_child};
use super::node::{Child, Side};
use super::scheme::Scheme;
use super::{Tree, header_at, inner_at};
use crate::reclaim::Pin;
use crate::search::Lane;

impl<L: Lane, const F: usize, S: Scheme> Tree<L, F, S> {
    /// A red node under a red parent: the highest of a chain of them is dealt with first.
    pub(super) fn relieve_red(&self, node: Child, pin: &Pin) {
        let mut line = self.hold_ancestors(node, 3, pin).into_iter();
        let (Some(top), Some(grandparent), parent) = (line.next(), line.next(), line.next()) else {
            return;
        };
        let Some(parent) = parent else {
            // The parent is the root: as such it is to be black, and then this node may be red.
            grandparent.node.header.set_weight(1);
            return;
        };
        if parent.weight() != 0 || header_at(node, pin).weight() != 0 {
            return;
        }
        if grandparent.weight() == 0 {
            // That the parent is red under red comes first. This node's turn comes again.
            let higher = parent.child();
            drop((parent, grandparent, top));
            return self.relieve_red(higher, pin);
        }
        let side = grandparent.node.side_of(parent.child()).expect("a held parent");
        let uncle = self.hold_child(grandparent.node.child(side.other()), pin);
        if uncle.header.weight() == 0 {
            uncle.header.set_weight(1);
            parent.node.header.set_weight(1);
            grandparent.node.header.set_weight(grandparent.weight() - 1);
            self.report(grandparent.child(), top.node, pin);
        } else if parent.node.child(side) == node {
            drop(uncle);
            self.raise_red_parent(top, grandparent, parent, side, pin);
        } else {
            drop(uncle);
            let node = self.hold(inner_at(node.address(), pin));
            self.raise_red_child(top, grandparent, parent, node, side, pin);
        }
    }

    /// The red node is the outer grandchild: its parent goes up and takes the grandparent's weight.
    fn raise_red_parent<'g>(
        &self,
        top: Held<'g, L, S>,
        grandparent: Held<'g, L, S>,
        parent: Held<'g, L, S>,
        side: Side,
        pin: &'g Pin,
    ) {
        let moved = parent.node.child(side.other());
        let (up, down) = (parent.node, grandparent.node);
        let weight = grandparent.weight();
        let held = self.rotate(top, grandparent, parent, side.other(), pin);
        up.header.set_weight(weight);
        down.header.set_weight(0);
        self.report(moved, down, pin);
        self.report(Child::inner(up), held.top.node, pin);
    }

    /// The red node is the inner grandchild: it goes up over both, and takes the grandparent's weight.
    fn raise_red_child<'g>(
        &self,
        top: Held<'g, L, S>,
        grandparent: Held<'g, L, S>,
        parent: Held<'g, L, S>,
        node: Held<'g, L, S>,
        side: Side,
        pin: &'g Pin,
    ) {
        let weight = grandparent.weight();
        let held = self.rotate_twice(top, grandparent, parent, node, side.other(), pin);
        held.up.node.header.set_weight(weight);
        held.down.node.header.set_weight(0);
        for child in [Side::Left, Side::Right] {
            self.report(held.down.node.child(child), held.down.node, pin);
            self.report(held.beside.node.child(child), held.beside.node, pin);
        }
        self.report(held.up.child(), held.top.node, pin);
    }

    /// An overweight node that is not the root.
    pub(super) fn relieve_overweight(&self, node: Child, pin: &Pin) {
        let Some(family) = self.hold_family(node, pin) else { return };
        if family.node.header.weight() < 2 {
            return;
        }
        match family.sibling.header.weight() {
            0 => self.raise_red_sibling(family, pin),
            1 => self.lighten_beside_black(family, pin),
            _ => self.push_weight_up(family, pin),
        }
    }

    /// Node and sibling become one lighter, their parent one heavier.
    fn push_weight_up<'g>(&self, family: Family<'g, L, S>, pin: &'g Pin) {
        let Family { grandparent, parent, node, sibling, .. } = family;
        for child in [&node, &sibling] {
            child.header.set_weight(child.header.weight() - 1);
        }
        parent.node.header.set_weight(parent.weight() + 1);
        self.report(node.child, parent.node, pin);
        self.report(sibling.child, parent.node, pin);
        self.report(parent.child(), grandparent.node, pin);
    }

    /// The sibling, red and so an inner node, goes up over the parent. The node has a new sibling, and still its
    /// problem.
    pub(super) fn raise_red_sibling<'g>(&self, family: Family<'g, L, S>, pin: &'g Pin) {
        let Family { grandparent, parent, side, node, sibling } = family;
        let weight = parent.weight();
        let (up, down) = (inner_at::<L>(sibling.child.address(), pin), parent.node);
        let near = up.child(side);
        drop(node);
        let sibling = Held { node: up, guard: sibling.guard };
        let held = self.rotate(grandparent, parent, sibling, side, pin);
        up.header.set_weight(weight);
        down.header.set_weight(0);
        self.report(near, down, pin);
        self.report(Child::inner(down), up, pin);
        self.report(Child::inner(up), held.top.node, pin);
    }

    /// The sibling is black. It is an inner node, for a block beside an overweight node is overweight itself (T2).
    fn lighten_beside_black<'g>(&self, family: Family<'g, L, S>, pin: &'g Pin) {
        assert!(!family.sibling.child.is_leaf(), "T2: a black block beside an overweight node");
        let sibling = inner_at::<L>(family.sibling.child.address(), pin);
        let near = self.hold_child(sibling.child(family.side), pin);
        let far = self.hold_child(sibling.child(family.side.other()), pin);
        if far.header.weight() == 0 {
            drop(near);
            self.raise_black_sibling(family, far, pin);
        } else if near.header.weight() == 0 {
            drop(far);
            self.raise_near_nephew(family, near, pin);
        } else {
            drop((near, far));
            self.push_weight_up(family, pin);
        }
    }

    /// The far nephew is red: the sibling goes up, and all three below it are black.
    fn raise_black_sibling<'g>(&self, family: Family<'g, L, S>, far: HeldChild<'g, S>, pin: &'g Pin) {
        let Family { grandparent, parent, side, node, sibling } = family;
        let (up, down) = (inner_at::<L>(sibling.child.address(), pin), parent.node);
        let weight = parent.weight();
        far.header.set_weight(1);
        drop(far);
        node.header.set_weight(node.header.weight() - 1);
        let (x, near) = (node.child, up.child(side));
        drop(node);
        let sibling = Held { node: up, guard: sibling.guard };
        let held = self.rotate(grandparent, parent, sibling, side, pin);
        up.header.set_weight(weight);
        down.header.set_weight(1);
        self.report(x, down, pin);
        self.report(near, down, pin);
        self.report(Child::inner(up), held.top.node, pin);
    }

    /// Only the near nephew is red: it goes up over parent and sibling, which are black below it.
    fn raise_near_nephew<'g>(&self, family: Family<'g, L, S>, near: HeldChild<'g, S>, pin: &'g Pin) {
        let Family { grandparent, parent, side, node, sibling } = family;
        let weight = parent.weight();
        node.header.set_weight(node.header.weight() - 1);
        let x = node.child;
        drop(node);
        let sibling = Held { node: inner_at(sibling.child.address(), pin), guard: sibling.guard };
        let near = Held { node: inner_at(near.child.address(), pin), guard: near.guard };
        let held = self.rotate_twice(grandparent, parent, sibling, near, side, pin);
        held.up.node.header.set_weight(weight);
        held.down.node.header.set_weight(1);
        held.beside.node.header.set_weight(1);
        self.report(x, held.down.node, pin);
        self.report(held.up.child(), held.top.node, pin);
    }

    /// Rotates `up` over its parent `down`, which sinks to `side`. Returns what stays latched; weights are the
    /// caller's to set.
    fn rotate<'g>(
        &self,
        mut top: Held<'g, L, S>,
        mut down: Held<'g, L, S>,
        mut up: Held<'g, L, S>,
        side: Side,
        pin: &'g Pin,
    ) -> Rotated<'g, L, S> {
        exclude([&mut top.guard, &mut down.guard, &mut up.guard]);
        self.counters.rotations.add();
        // R2.
        hang(down.node, side.other(), up.node.child(side), pin);
        hang(up.node, side, down.child(), pin);
        replace_child(top.node, down.child(), up.child(), pin);
        Rotated { top, _down: down, _up: up }
    }

    /// Rotates `up` over its parent `beside` and then over its grandparent `down`, which sinks to `side`.
    fn rotate_twice<'g>(
        &self,
        mut top: Held<'g, L, S>,
        mut down: Held<'g, L, S>,
        mut beside: Held<'g, L, S>,
        mut up: Held<'g, L, S>,
        side: Side,
        pin: &'g Pin,
    ) -> RotatedTwice<'g, L, S> {
        exclude([&mut top.guard, &mut down.guard, &mut beside.guard, &mut up.guard]);
        self.counters.rotations.add();
        // R2.
        hang(beside.node, side, up.node.child(side.other()), pin);
        hang(down.node, side.other(), up.node.child(side), pin);
        hang(up.node, side, down.child(), pin);
        hang(up.node, side.other(), beside.child(), pin);
        replace_child(top.node, down.child(), up.child(), pin);
        RotatedTwice { top, up, down, beside }
    }
}

/// What a rotation leaves latched.
struct Rotated<'g, L: Lane, S: Scheme> {
    top: Held<'g, L, S>,
    _down: Held<'g, L, S>,
    _up: Held<'g, L, S>,
}

/// What a double rotation leaves latched.
struct RotatedTwice<'g, L: Lane, S: Scheme> {
    top: Held<'g, L, S>,
    up: Held<'g, L, S>,
    down: Held<'g, L, S>,
    beside: Held<'g, L, S>,
}
