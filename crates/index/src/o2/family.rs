//! Latching the relatives of a node: they are found upwards, by parent pointers, and latched downwards, from the highest.

use super::node::{Child, Header, Inner, Side};
use super::scheme::{Guard, Scheme};
use super::{Tree, header_at, inner_at};
use crate::reclaim::Pin;
use crate::search::Lane;
use foreshore_base::sync::Backoff;

/// A latched inner node.
pub struct Held<'g, L: Lane, S: Scheme> {
    pub node: &'g Inner<L>,
    pub guard: S::Guard<'g>,
}

impl<L: Lane, S: Scheme> Held<'_, L, S> {
    pub fn child(&self) -> Child {
        Child::inner(self.node)
    }

    pub fn weight(&self) -> u32 {
        self.node.header.weight()
    }
}

/// A latched child of a latched parent.
pub struct HeldChild<'g, S: Scheme> {
    pub child: Child,
    pub header: &'g Header,
    pub guard: S::Guard<'g>,
}

/// A node, its sibling, its parent and its grandparent, all latched.
pub struct Family<'g, L: Lane, S: Scheme> {
    pub grandparent: Held<'g, L, S>,
    pub parent: Held<'g, L, S>,
    /// The side of the parent that the node is on.
    pub side: Side,
    pub node: HeldChild<'g, S>,
    pub sibling: HeldChild<'g, S>,
}

impl<L: Lane, const F: usize, S: Scheme> Tree<L, F, S> {
    pub(super) fn hold_child<'g>(&self, child: Child, pin: &'g Pin) -> HeldChild<'g, S> {
        let header = header_at(child, pin);
        HeldChild { child, header, guard: S::latch(header) }
    }

    pub(super) fn hold<'g>(&self, node: &'g Inner<L>) -> Held<'g, L, S> {
        Held { node, guard: S::latch(&node.header) }
    }

    /// Latches up to `generations` ancestors of a living node, from the highest to the parent. Fewer, if the tree's header is
    /// among them.
    ///
    /// Only the rebalancer calls this, and only the rebalancer changes the parent of an inner node; a split that comes
    /// between the look at a block's parent and its latch is what is tried again for.
    pub(super) fn hold_ancestors<'g>(
        &self,
        node: Child,
        generations: usize,
        pin: &'g Pin,
    ) -> Vec<Held<'g, L, S>> {
        let mut backoff = Backoff::new();
        loop {
            let mut line = vec![node];
            while line.len() <= generations
                && let Some(parent) = self.parent_of(line[line.len() - 1], pin)
            {
                line.push(Child::inner(parent));
            }
            if let Some(held) = self.hold_line(&line, pin) {
                return held;
            }
            backoff.wait();
        }
    }

    fn parent_of<'g>(&self, child: Child, pin: &'g Pin) -> Option<&'g Inner<L>> {
        match header_at(child, pin).parent() {
            0 => None,
            parent => Some(inner_at(parent, pin)),
        }
    }

    /// Latches a line of ancestors (from child to ancestor), the node itself excepted, if it is still one.
    fn hold_line<'g>(&self, line: &[Child], pin: &'g Pin) -> Option<Vec<Held<'g, L, S>>> {
        let mut held = Vec::with_capacity(line.len());
        for pair in line.windows(2).rev() {
            let (child, parent) = (pair[0], pair[1]);
            let parent: Held<L, S> = self.hold(inner_at(parent.address(), pin));
            if parent.node.side_of(child).is_none() || parent.node.header.is_dead() {
                return None;
            }
            held.push(parent);
        }
        Some(held)
    }

    /// Latches the family of a living node; `None` if it is the root.
    pub(super) fn hold_family<'g>(&self, node: Child, pin: &'g Pin) -> Option<Family<'g, L, S>> {
        let mut line = self.hold_ancestors(node, 2, pin).into_iter();
        let (grandparent, parent) = (line.next()?, line.next()?);
        let side = parent.node.side_of(node).expect("a held parent");
        let sibling = parent.node.child(side.other());
        let (node, sibling) = (self.hold_child(node, pin), self.hold_child(sibling, pin));
        Some(Family { grandparent, parent, side, node, sibling })
    }
}

/// Hangs `new` where `old` was, under a parent that is latched and excluded.
pub fn replace_child<L: Lane>(parent: &Inner<L>, old: Child, new: Child, pin: &Pin) {
    let side = parent.side_of(old).expect("a held parent");
    hang(parent, side, new, pin);
}

/// Makes `child` the child of `parent` on this side.
pub fn hang<L: Lane>(parent: &Inner<L>, side: Side, child: Child, pin: &Pin) {
    header_at(child, pin).set_parent(Child::inner(parent).address());
    parent.set_child(side, child);
}

/// Excludes others from these nodes, from the highest down (P2).
pub fn exclude<'a, G: Guard + 'a>(guards: impl IntoIterator<Item = &'a mut G>) {
    guards.into_iter().for_each(Guard::exclude);
}
