//! Splits: of a node, by shifting its right siblings; of a group, with its parent; of the root.
//!
//! Source: OLFIT §5.5. The nodes that change place are latched all the time, and with them the slots they take.
//!
//! Invariants, besides those of [`super`]:
//! - X1: a node's siblings are shifted only as far as the next slot that is not live (the bitmap's purpose).
//! - X2: when a node is unlatched, its level is complete: whoever comes from the left, or from a parent's old content,
//!   finds everything by steps to the right. The parent is unlatched last.

use super::group::{Address, Group, group_at};
use super::node::{Body, Children, Node, Words};
use super::{At, Csb, Inner, Latched};
use crate::node::int::IntKey;
use crate::reclaim::Pin;
use crate::search::Lane;
use foreshore_base::sync::Ordering;
use foreshore_base::{Exclusive, seeded_bug};

/// A group taken before anything was latched (G5), for the children of a node of `level` that is to be split. Leaves
/// need none. Given back if it is not needed.
pub(super) struct Spare<'t, K: IntKey, const F: usize> {
    tree: &'t Csb<K, F>,
    level: u8,
    group: Option<Address>,
}

impl<'t, K: IntKey, const F: usize> Spare<'t, K, F> {
    pub fn take(tree: &'t Csb<K, F>, level: u8) -> Self {
        let group = match level {
            0 => None,
            1 => Some(tree.fresh_group::<Words<F>>()),
            _ => Some(tree.fresh_group::<Children>()),
        };
        Self { tree, level, group }
    }

    /// Its address; it is in the tree from now on.
    pub fn spend(&mut self) -> Address {
        self.group.take().expect("a spare group for a split above the leaves")
    }
}

impl<K: IntKey, const F: usize> Drop for Spare<'_, K, F> {
    fn drop(&mut self) {
        match (self.group, self.level) {
            (None, _) => {}
            (Some(group), 1) => self.tree.discard_group::<Words<F>>(group),
            (Some(group), _) => self.tree.discard_group::<Children>(group),
        }
    }
}

impl<K: IntKey, const F: usize> Csb<K, F> {
    /// Makes room in the node of `level` that the key belongs to: for an entry in a leaf; above, for a split of the
    /// child that the key belongs to. Others may take the room before the caller comes back.
    #[cold]
    #[inline(never)]
    pub(super) fn make_room(&self, level: u8, lane: K::Lane, pin: &Pin) {
        if level > 0 && self.compact(level, lane, pin) {
            return;
        }
        let mut spare = Spare::take(self, level);
        while !self.try_make_room(level, lane, &mut spare, pin) {}
    }

    fn try_make_room(&self, level: u8, lane: K::Lane, spare: &mut Spare<K, F>, pin: &Pin) -> bool {
        if self.root().1 == level {
            return match level {
                0 => self.grow::<Words<F>>(level, lane, spare, pin),
                _ => self.grow::<Children>(level, lane, spare, pin),
            };
        }
        let parent = self.latch::<Children>(level + 1, lane, pin);
        let Some(vacant) = parent.children(pin).vacant_after(parent.slot(), F) else {
            parent.latch.release_unchanged();
            self.make_room(level + 1, lane, pin);
            return false;
        };
        match level {
            0 => self.split_child::<Words<F>>(level, lane, parent, vacant, spare, pin),
            _ => self.split_child::<Children>(level, lane, parent, vacant, spare, pin),
        }
        true
    }

    /// Splits the child (of `level`) of a latched parent that the key belongs to, if it still has no room; slot `vacant`
    /// is the next one to its right that is not live.
    fn split_child<B: Body>(
        &self,
        level: u8,
        lane: K::Lane,
        parent: Latched<K, Children, F>,
        vacant: usize,
        spare: &mut Spare<K, F>,
        pin: &Pin,
    ) {
        let slot = parent.slot();
        let group: &Group<K, B, F> = group_at(parent.node.group(), pin);
        // The seeded bug: siblings that only move are not latched, so their versions stay.
        let last = if seeded_bug("csb_shift_without_version") { slot + 1 } else { vacant };
        let latches = latch_slots(group, slot..=last);
        if !self.must_split(level, &group.nodes[slot], lane, pin) {
            latches.into_iter().for_each(Exclusive::release_unchanged);
            parent.latch.release_unchanged();
            return;
        }
        for moving in (slot + 1..vacant).rev() {
            group.nodes[moving + 1].become_copy_of(&group.nodes[moving]);
        }
        self.counters.shifted.add_many((vacant - slot - 1) as u64);
        let separator = self.split_node(level, lane, At { group, slot }, spare, pin);
        let header = group.header.latch.exclusive();
        group.header.set_live(vacant);
        drop(header);
        // From the right, so that a reader does not find a hole where its content was (X2).
        latches.into_iter().rev().for_each(drop);
        insert_separator(parent.node, slot + 1, vacant, separator);
    }

    /// Splits the root, and puts a new one above; true unless the root is of a higher level by now (G6).
    fn grow<B: Body>(&self, level: u8, lane: K::Lane, spare: &mut Spare<K, F>, pin: &Pin) -> bool {
        let (root, height) = self.root();
        if height != level {
            return false;
        }
        // Taken with nothing latched (G5).
        let above = self.fresh_group::<Children>();
        let group: &Group<K, B, F> = group_at(root, pin);
        let latch = group.nodes[0].latch.exclusive();
        let is_root = self.root() == (root, height);
        if !is_root || !self.must_split(level, &group.nodes[0], lane, pin) {
            latch.release_unchanged();
            self.discard_group::<Children>(above);
            return is_root;
        }
        let right = group.nodes[1].latch.exclusive();
        let separator = self.split_node(level, lane, At { group, slot: 0 }, spare, pin);
        let header = group.header.latch.exclusive();
        group.header.set_live(1);
        drop(header);
        let new_root: &Group<K, Children, F> = group_at(above, pin);
        new_root.nodes[0].fill([(K::Lane::MIN, 0), (separator, 0)].into_iter());
        new_root.nodes[0].set_open_ended();
        new_root.nodes[0].set_group(root);
        new_root.header.set_live(0);
        // ORDERING: Release publishes the content of the root; pairs with the load in `root`.
        self.root.store(above | u64::from(level + 1), Ordering::Release);
        drop((right, latch));
        true
    }

    /// Is this latched node without room, and can it be split?
    fn must_split<B: Body>(&self, level: u8, node: &Node<K, B, F>, lane: K::Lane, pin: &Pin) -> bool {
        if level == 0 {
            return node.count() == F;
        }
        let children = super::header_at(node.group(), pin);
        let rank = node.place(lane).expect("G1: a latched parent is exact");
        children.vacant_after(rank - 1, F).is_none() && children.count_live() >= 2
    }

    /// Moves the upper half of a latched node to the next slot, which is latched too. Returns the separator.
    fn split_node<B: Body>(
        &self,
        level: u8,
        lane: K::Lane,
        at: At<K, B, F>,
        spare: &mut Spare<K, F>,
        pin: &Pin,
    ) -> K::Lane {
        self.counters.splits.add();
        let (node, right) = (at.node(), &at.group.nodes[at.slot + 1]);
        let rank = node.place(lane).expect("G1: a latched parent is exact");
        let appending = rank == node.count() && node.is_open_ended();
        let separator = if level == 0 {
            split_leaf(node, right, appending)
        } else {
            let group = spare.spend();
            right.set_group(group);
            match level {
                1 => self.split_inner::<B, Words<F>>(node, right, appending, pin),
                _ => self.split_inner::<B, Children>(node, right, appending, pin),
            }
        };
        right.set_high_of(node);
        node.set_high(separator);
        separator
    }

    /// Splits a latched inner node, and its group of children (of kind `C`).
    fn split_inner<B: Body, C: Body>(
        &self,
        node: &Node<K, B, F>,
        right: &Node<K, B, F>,
        appending: bool,
        pin: &Pin,
    ) -> K::Lane {
        let from: &Group<K, C, F> = group_at(node.group(), pin);
        let to: &Group<K, C, F> = group_at(right.group(), pin);
        let live: Vec<usize> = from.header.live_slots().collect();
        let keep = if appending { live.len() - 1 } else { live.len() / 2 };
        assert!(keep > 0, "a split of {} children", live.len());
        let moved = &live[keep..];
        self.counters.group_splits.add();
        move_children(from, to, moved);
        let separator = node.lane(moved[0]);
        fill_inner(right, moved.iter().map(|&slot| node.lane(slot)));
        node.truncate(live[keep - 1] + 1);
        separator
    }
}

/// Latches slots from left to right (G5).
pub(super) fn latch_slots<K: IntKey, B: Body, const F: usize>(
    group: &Group<K, B, F>,
    slots: impl IntoIterator<Item = usize>,
) -> Vec<Exclusive<'_>> {
    slots.into_iter().map(|slot| group.nodes[slot].latch.exclusive()).collect()
}

/// Fills an inner node; whatever its range, its first separator is the least key (G2).
pub(super) fn fill_inner<K: IntKey, B: Body, const F: usize>(
    node: &Node<K, B, F>,
    separators: impl Iterator<Item = K::Lane>,
) {
    node.fill(separators.map(|lane| (lane, 0)));
    node.set_lane(0, K::Lane::MIN);
}

/// Moves the upper half of a leaf's entries. `appending`: the next key goes behind the last one, so only that moves.
fn split_leaf<K: IntKey, B: Body, const F: usize>(
    node: &Node<K, B, F>,
    right: &Node<K, B, F>,
    appending: bool,
) -> K::Lane {
    let count = node.count();
    let at = if appending { count - 1 } else { count / 2 };
    let separator = node.lane(at);
    right.fill((at..count).map(|i| (node.lane(i), node.word(i))));
    node.truncate(at);
    separator
}

/// Moves the children in `moved`, the last live ones, to a new group behind theirs.
fn move_children<K: IntKey, C: Body, const F: usize>(
    from: &Group<K, C, F>,
    to: &Group<K, C, F>,
    moved: &[usize],
) {
    let latches = latch_slots(from, moved.iter().copied());
    for (i, &slot) in moved.iter().enumerate() {
        to.nodes[i].become_copy_of(&from.nodes[slot]);
        to.header.set_live(i);
    }
    if seeded_bug("csb_group_split_wrong_order") {
        // The bug: the old slots are closed and readable before the link leads to the new group.
        moved.iter().for_each(|&slot| from.nodes[slot].close());
        drop(latches);
        foreshore_base::sync::thread::yield_now();
        let header = from.header.latch.exclusive();
        link_behind(from, to, moved);
        drop(header);
    } else {
        let header = from.header.latch.exclusive();
        link_behind(from, to, moved);
        drop(header);
        moved.iter().for_each(|&slot| from.nodes[slot].close());
        drop(latches);
    }
}

/// Links `to` behind `from`, whose slots in `moved` are live no longer.
fn link_behind<K: IntKey, C: Body, const F: usize>(
    from: &Group<K, C, F>,
    to: &Group<K, C, F>,
    moved: &[usize],
) {
    to.header.set_link(from.header.link());
    from.header.set_link(to.address());
    moved.iter().for_each(|&slot| from.header.clear_live(slot));
}

/// Enters the separator of a new child at `slot`; those from there up to slot `vacant` move one to the right.
fn insert_separator<K: IntKey, const F: usize>(
    parent: &Inner<K, F>,
    slot: usize,
    vacant: usize,
    separator: K::Lane,
) {
    for i in (slot..vacant).rev() {
        parent.set_lane(i + 1, parent.lane(i));
    }
    parent.set_lane(slot, separator);
    parent.set_count(parent.count().max(vacant + 1));
}
