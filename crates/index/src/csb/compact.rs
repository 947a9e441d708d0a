//! Compaction: a group that is mostly holes moves its live nodes to a new group.
//!
//! Why: holes are filled from the left only (M1), so those left of the node that wants to split are of no use to it.
//! Splitting the parent instead would leave two half-empty groups, and a parent with a single live child cannot split.
//!
//! The new group takes the old one's place in the chain, and the old one, dead, leads to it:
//!
//! ```text
//! left → old [ · · · d e ] → right        left → new [ d e ] → right
//!                                                ↑
//!                                          old (dead)
//! ```

use super::group::{Address, Group, Header, group_at, header_at};
use super::node::{Body, Children, Words};
use super::split::{Spare, fill_inner, latch_slots};
use super::{Csb, Inner};
use crate::node::int::IntKey;
use crate::reclaim::Pin;
use crate::search::Lane;
use foreshore_base::{Exclusive, seeded_bug};

/// How the group of a node's children stands, seen from one of them.
enum Shape<L> {
    /// There is a slot to the right that is not live.
    Roomy,
    /// No such slot, and few are live. The group, and a lower end of its range.
    Sparse(Address, L),
    Full,
}

impl<K: IntKey, const F: usize> Csb<K, F> {
    /// Compacts the group of the children of the node of `level` that the key belongs to, if that makes room for a
    /// split of the key's child. True if there is room now; false if the group is full.
    pub(super) fn compact(&self, level: u8, lane: K::Lane, pin: &Pin) -> bool {
        loop {
            let (group, low) = match self.shape(level, lane, pin) {
                Shape::Roomy => return true,
                Shape::Full => return false,
                Shape::Sparse(group, low) => (group, low),
            };
            let left = self.left_group(level, low, pin);
            // Taken with nothing latched (G5).
            let mut spare = Spare::take(self, level);
            let done = match level {
                1 => self.compact_group::<Words<F>>(level, lane, group, left, &mut spare, pin),
                _ => self.compact_group::<Children>(level, lane, group, left, &mut spare, pin),
            };
            if done {
                return true;
            }
        }
    }

    fn shape(&self, level: u8, lane: K::Lane, pin: &Pin) -> Shape<K::Lane> {
        let ((group, slot), low) = self
            .within::<Children, _>(level, lane, pin, |at, rank| (at.node().group(), rank.saturating_sub(1)));
        let header = header_at(group, pin);
        let (vacant, live) =
            self.consistent(&header.latch, || (header.vacant_after(slot, F), header.count_live()));
        match vacant {
            Some(_) => Shape::Roomy,
            None if live <= F / 2 => Shape::Sparse(group, low),
            None => Shape::Full,
        }
    }

    /// The group to the left of the children of a node of `level` whose range begins at `low`, as it seems; `None` if
    /// there is none, which stays true as long as the node's group lives, since whatever is new is to the right.
    pub(super) fn left_group(&self, level: u8, low: K::Lane, pin: &Pin) -> Option<Address> {
        let (group, _) = self.within::<Children, _>(level, low.before()?, pin, |at, _| at.node().group());
        Some(group)
    }

    /// As `compact`, for the group and its left neighbour as they were seen; false if either has changed.
    fn compact_group<B: Body>(
        &self,
        level: u8,
        lane: K::Lane,
        group: Address,
        left: Option<Address>,
        spare: &mut Spare<K, F>,
        pin: &Pin,
    ) -> bool {
        let parent = self.latch::<Children>(level, lane, pin);
        if parent.node.group() != group || parent.children(pin).vacant_after(parent.slot(), F).is_some() {
            parent.latch.release_unchanged();
            return false;
        }
        let old: &Group<K, B, F> = group_at(group, pin);
        let live: Vec<usize> = old.header.live_slots().collect();
        let latches = latch_slots(old, live.iter().copied());
        let Some(links) = latch_links(old.address(), left, pin) else {
            latches.into_iter().for_each(Exclusive::release_unchanged);
            parent.latch.release_unchanged();
            return false;
        };
        let new: &Group<K, B, F> = group_at(spare.spend(), pin);
        for (i, &slot) in live.iter().enumerate() {
            new.nodes[i].become_copy_of(&old.nodes[slot]);
            new.header.set_live(i);
        }
        new.header.set_link(old.header.link());
        // Whoever is still in the old group must come to the new one, not past it.
        if !seeded_bug("csb_compaction_skipped") {
            old.header.set_link(new.address());
        }
        links.leave_chain(new.address());
        live.iter().for_each(|&slot| old.nodes[slot].close());
        drop(latches);
        enter_compacted(parent.node, &live, new.address());
        drop(parent.latch);
        self.counters.compactions.add();
        // SAFETY: the parent and the left neighbour lead to the new group; the leftmost has no left neighbour.
        unsafe { self.retire_group::<B>(group, pin) };
        true
    }
}

/// Keeps the separators of the live slots, which are now the first slots of `group`.
fn enter_compacted<K: IntKey, const F: usize>(parent: &Inner<K, F>, live: &[usize], group: Address) {
    let separators: Vec<K::Lane> = live.iter().map(|&slot| parent.lane(slot)).collect();
    fill_inner(parent, separators.into_iter());
    parent.set_group(group);
}

/// A group and its left neighbour in the chain, both headers latched.
pub(super) struct Links<'g> {
    left: Option<(&'g Header, Exclusive<'g>)>,
    own: &'g Header,
    own_latch: Exclusive<'g>,
}

/// Latches the header of `left`, if it is the left neighbour of `group`, and then that of `group`.
pub(super) fn latch_links<'g>(group: Address, left: Option<Address>, pin: &'g Pin) -> Option<Links<'g>> {
    let left = match left.map(|left| header_at(left, pin)) {
        None => None,
        Some(left) => {
            let latch = left.latch.exclusive();
            if left.link() != group || left.first_live().is_none() {
                latch.release_unchanged();
                return None;
            }
            Some((left, latch))
        }
    };
    let own = header_at(group, pin);
    Some(Links { left, own, own_latch: own.latch.exclusive() })
}

impl Links<'_> {
    /// Takes the group out of the chain: its left neighbour leads to `next`. Its own link is left to the caller.
    pub fn leave_chain(self, next: Address) {
        self.own.clear_all_live();
        if let Some((left, latch)) = self.left {
            left.set_link(next);
            drop(latch);
        }
        drop(self.own_latch);
    }

    /// Where the group's own link leads.
    pub fn next(&self) -> Address {
        self.own.link()
    }

    /// Nothing was changed.
    pub fn release_unchanged(self) {
        self.own_latch.release_unchanged();
        if let Some((_, latch)) = self.left {
            latch.release_unchanged();
        }
    }
}
