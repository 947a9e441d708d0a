//! Taking empty nodes out: a hole beside live siblings, or a whole column up to an ancestor that has some.
//!
//! Source: OLFIT §5.3: only empty nodes go, the link stays while readers may be there; Samuel et al.: the slot of an empty
//! node is used again by the next split to its left.
//!
//! ```text
//! top      … [a] [b] [d] …               … [a] [b] [b] …     entry of N repeats into its heir's: a hole
//!               \   \                         \   \
//! column         N   heir          →           ·   heir      N closed; N's group left the chain, dead
//!                |
//! leaf         (empty)
//! ```
//!
//! Invariants:
//! - D1: a column is a node whose only live child is a column, down to an empty leaf. It goes if its top entry has a live
//!   slot to its right in the same group, the *heir*, which gets the range.
//! - D2: all or nothing. What cannot be done at once is left: an empty node is correct, only slow.

use super::compact::{Links, latch_links};
use super::group::{Address, header_at};
use super::node::{Children, Words};
use super::{At, Csb, Inner, Latched};
use crate::node::int::IntKey;
use crate::reclaim::Pin;
use foreshore_base::Exclusive;

/// How often a neighbour may change under our hands before the empty leaf is left alone.
const ATTEMPTS_MAX: u32 = 8;

/// A group with a single live slot, that of the column, and its left neighbour, as it seems.
struct Sole {
    group: Address,
    left: Option<Address>,
}

/// What is to go: the groups below the top entry, those of the leaves first.
struct Column {
    soles: Vec<Sole>,
    /// Level of the node whose entry leads to the column.
    top: u8,
}

/// What became of an attempt.
enum Outcome {
    Done,
    Nothing,
    /// A neighbour has changed meanwhile.
    Raced,
}

/// The nodes of a column, all latched, the leaf last.
struct LatchedColumn<'g, K: IntKey, const F: usize> {
    inner: Vec<(&'g Inner<K, F>, Exclusive<'g>)>,
    leaf: (&'g super::Leaf<K, F>, Exclusive<'g>),
}

impl<K: IntKey, const F: usize> Csb<K, F> {
    /// Takes out the leaf that the key belongs to if it is empty, and then the one that inherits its range if that is
    /// empty.
    #[cold]
    #[inline(never)]
    pub(super) fn unlink_empty(&self, lane: K::Lane, pin: &Pin) {
        let mut attempts = 0;
        while attempts < ATTEMPTS_MAX {
            let (empty, _) = self.within::<Words<F>, _>(0, lane, pin, |at, _| {
                at.node().count() == 0 && !at.node().is_open_ended()
            });
            if !empty {
                return;
            }
            match self
                .survey(lane, pin)
                .map_or(Outcome::Nothing, |column| self.remove_column(lane, &column, pin))
            {
                Outcome::Done => attempts = 0,
                Outcome::Nothing => break,
                Outcome::Raced => attempts += 1,
            }
        }
        self.counters.left_empty.add();
    }

    /// Finds the column of the key, without latches. `None` if it reaches the root.
    fn survey(&self, lane: K::Lane, pin: &Pin) -> Option<Column> {
        let mut soles = Vec::new();
        for level in 1..=self.root().1 {
            let (group, low) = self.within::<Children, _>(level, lane, pin, |at, _| at.node().group());
            let header = header_at(group, pin);
            if self.consistent(&header.latch, || header.count_live()) > 1 {
                return Some(Column { soles, top: level });
            }
            soles.push(Sole { group, left: self.left_group(level, low, pin) });
        }
        None
    }

    /// Latches the column from the top down (G5), looks again, and takes it out.
    fn remove_column(&self, lane: K::Lane, column: &Column, pin: &Pin) -> Outcome {
        let top = self.latch::<Children>(column.top, lane, pin);
        let Some(heir) = top.children(pin).live_after(top.slot()) else {
            top.latch.release_unchanged();
            return Outcome::Nothing;
        };
        let Some(latched) = self.latch_column(&top, column, pin) else {
            top.latch.release_unchanged();
            return Outcome::Raced;
        };
        let header = top.children(pin);
        let header_latch = header.latch.exclusive();
        let Some(links) = latch_all_links(&column.soles, pin) else {
            header_latch.release_unchanged();
            latched.release_unchanged();
            top.latch.release_unchanged();
            return Outcome::Raced;
        };
        let slot = top.slot();
        header.clear_live(slot);
        for links in links {
            let next = links.next();
            links.leave_chain(next);
        }
        drop(header_latch);
        self.counters.unlinked.add_many(latched.inner.len() as u64 + 1);
        latched.close();
        let separator = top.node.lane(slot);
        (slot + 1..=heir).for_each(|i| top.node.set_lane(i, separator));
        drop(top);
        self.retire_column(&column.soles, pin);
        Outcome::Done
    }

    fn latch_column<'g>(
        &self,
        top: &Latched<'g, K, Children, F>,
        column: &Column,
        pin: &'g Pin,
    ) -> Option<LatchedColumn<'g, K, F>> {
        let (mut group, mut slot) = (top.node.group(), top.slot());
        let mut inner: Vec<(&Inner<K, F>, Exclusive)> = Vec::new();
        let mut holds = true;
        for sole in column.soles.iter().rev() {
            let node = At::<K, Children, F>::new(group, slot, pin).node();
            inner.push((node, node.latch.exclusive()));
            let children = header_at(node.group(), pin);
            holds = node.group() == sole.group && children.count_live() == 1;
            if !holds {
                break;
            }
            group = sole.group;
            slot = children.first_live().expect("one is live");
        }
        if holds {
            let leaf = At::<K, Words<F>, F>::new(group, slot, pin).node();
            let latch = leaf.latch.exclusive();
            if leaf.count() == 0 {
                return Some(LatchedColumn { inner, leaf: (leaf, latch) });
            }
            latch.release_unchanged();
        }
        inner.into_iter().for_each(|(_, latch)| latch.release_unchanged());
        None
    }

    fn retire_column(&self, soles: &[Sole], pin: &Pin) {
        for (level, sole) in soles.iter().enumerate() {
            // SAFETY: its parent is closed, and its left neighbour leads past it; the leftmost of a level has none.
            unsafe {
                match level {
                    0 => self.retire_group::<Words<F>>(sole.group, pin),
                    _ => self.retire_group::<Children>(sole.group, pin),
                }
            }
        }
    }
}

/// Latches the links of all groups, the highest level first (G5), or none.
fn latch_all_links<'g>(soles: &[Sole], pin: &'g Pin) -> Option<Vec<Links<'g>>> {
    let mut latched: Vec<Links> = Vec::new();
    for sole in soles.iter().rev() {
        match latch_links(sole.group, sole.left, pin) {
            Some(links) => latched.push(links),
            None => {
                latched.into_iter().for_each(Links::release_unchanged);
                return None;
            }
        }
    }
    Some(latched)
}

impl<K: IntKey, const F: usize> LatchedColumn<'_, K, F> {
    fn close(self) {
        for (node, latch) in self.inner {
            node.close();
            drop(latch);
        }
        self.leaf.0.close();
        drop(self.leaf.1);
    }

    fn release_unchanged(self) {
        self.inner.into_iter().for_each(|(_, latch)| latch.release_unchanged());
        self.leaf.1.release_unchanged();
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// Between the look at a column and its latches its leaf is split, and the left half emptied by somebody who has not unlinked it
    /// yet: what the right half holds must not go with the column.
    #[test]
    fn a_group_that_has_grown_meanwhile_stays() {
        let tree = Csb::<u64, 4>::bulk_load((1..=12).map(|k| (10 * k, k)), 0.5);
        let pin = Pin::new();
        [10, 20].into_iter().for_each(|key| assert!(tree.remove(key, &pin).is_some()));
        let column = tree.survey(30, &pin).expect("a leaf alone in its group, which has a sibling");
        assert_eq!((column.soles.len(), column.top), (1, 2));

        [11, 12, 13].into_iter().for_each(|key| assert_eq!(tree.insert(key, 0, &pin), None));
        let Latched { node, latch, .. } = tree.latch::<Words<4>>(0, 11, &pin);
        assert_eq!(node.count(), 3);
        node.truncate(0);
        drop(latch);
        tree.count(-3);

        assert!(matches!(tree.remove_column(30, &column, &pin), Outcome::Raced));
        tree.unlink_empty(11, &pin);
        tree.check().unwrap();
        assert_eq!([30, 40].map(|key| tree.get(key, &pin)), [Some(3), Some(4)]);
    }
}
