//! Walking the whole structure and naming what is broken. Only when nobody changes it.

use super::group::{Address, Group, Header, group_at, header_at};
use super::node::{Body, Children, Node, Words};
use super::{Csb, Inner};
use crate::broken::{Broken, broken, stays_latched};
use crate::node::int::IntKey;
use crate::reclaim::Pin;
use crate::search::Lane;

/// What happened to a CSB+-tree since it was made, and its shape.
///
/// ```
/// let map: foreshore_index::CsbMap<u64> = (0..10_000).map(|k| (k, k)).collect();
/// let stats = map.stats();
/// assert!(stats.nodes_per_level[0] > stats.groups_per_level[0], "nodes lie in groups");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CsbStats {
    /// Reads of a node or header that had to be repeated.
    pub restarts: u64,
    /// Reads that failed so often that they took the latch.
    pub latched_reads: u64,
    /// Nodes split.
    pub splits: u64,
    /// Groups split, with their parents.
    pub group_splits: u64,
    /// Nodes moved to the next slot by the split of a sibling.
    pub shifted: u64,
    /// Groups whose live nodes moved to a new group, leaving holes behind.
    pub compactions: u64,
    /// Empty nodes closed.
    pub unlinked: u64,
    /// Times that an empty node stayed, because nobody could take its range just then.
    pub left_empty: u64,
    /// Live nodes of each level now, leaves first. Counted by a walk.
    pub nodes_per_level: Vec<u64>,
    /// Groups of each level now, leaves first.
    pub groups_per_level: Vec<u64>,
}

/// A node's range: from `low`, and up to `high` unless it is open-ended.
#[derive(Clone, Copy)]
struct Range<L> {
    low: L,
    high: Option<L>,
}

/// A group that a walk expects next on its level's chain, the separators over its slots, and the range of its parent.
struct Expected<L> {
    group: Address,
    separators: Vec<L>,
    range: Range<L>,
}

impl<K: IntKey, const F: usize> Csb<K, F> {
    /// Checks order, bounds, holes, links and counts. Call it while no other thread changes the tree: what is under way looks
    /// broken.
    pub fn check(&self) -> Result<(), Broken> {
        let pin = Pin::new();
        let (root, height) = self.root();
        let everything = Range { low: K::Lane::MIN, high: None };
        let mut level = vec![Expected { group: root, separators: vec![K::Lane::MIN], range: everything }];
        let (mut inner_groups, mut entries) = (0, 0);
        for height in (0..=height).rev() {
            self.check_chain(&level, height, &pin)?;
            if height == 0 {
                for expected in &level {
                    entries += self.check_group::<Words<F>>(expected, 0, &pin, |_, _| {})?;
                }
                self.check_counts(inner_groups, level.len() as u64, entries)?;
                break;
            }
            inner_groups += level.len() as u64;
            let mut below = Vec::new();
            for expected in &level {
                self.check_group::<Children>(expected, height, &pin, |node, range| {
                    below.push(expect_children(node, range));
                })?;
            }
            level = below;
        }
        Ok(())
    }

    /// The links of a level lead from group to group, and to no other.
    fn check_chain(&self, groups: &[Expected<K::Lane>], level: u8, pin: &Pin) -> Result<(), Broken> {
        for (i, expected) in groups.iter().enumerate() {
            let next = groups.get(i + 1).map_or(0, |next| next.group);
            let header = header_at(expected.group, pin);
            if stays_latched(|| header.latch.is_latched()) {
                return broken(format!("level {level}, group {i}: latched while nobody is active"));
            }
            if header.link() != next {
                return broken(format!("M5: level {level}, group {i}: the link leads elsewhere"));
            }
        }
        Ok(())
    }

    /// Checks a group against its parent's separators; hands every live node and its range to `visit`. Returns the sum of
    /// their counts.
    fn check_group<B: Body>(
        &self,
        expected: &Expected<K::Lane>,
        level: u8,
        pin: &Pin,
        mut visit: impl FnMut(&Node<K, B, F>, Range<K::Lane>),
    ) -> Result<u64, Broken> {
        let group: &Group<K, B, F> = group_at(expected.group, pin);
        let separators = &expected.separators;
        check_bitmap(&group.header, separators.len(), level)?;
        let mut entries = 0;
        for (slot, node) in group.nodes.iter().enumerate() {
            let at = format!("level {level}, slot {slot} of {:?}", separators);
            if stays_latched(|| node.latch.is_latched()) {
                return broken(format!("{at}: latched while nobody is active"));
            }
            if !group.header.is_live(slot) {
                if !node.is_closed() {
                    return broken(format!("{at}: K2: a slot that is not live is open"));
                }
                // Beside a writer it may just have been the last one.
                if separators.get(slot..slot + 2).is_some_and(|pair| pair[0] != pair[1]) {
                    return broken(format!("{at}: G2: a hole's separator is not that of its heir"));
                }
                continue;
            }
            let Some(low) = separators.get(slot) else {
                return broken(format!("{at}: G1: no entry leads to a live slot"));
            };
            let low = (*low).max(expected.range.low);
            let high = separators.get(slot + 1).copied().or(expected.range.high);
            check_node(node, Range { low, high }).or_else(|what| broken(format!("{at}: {what}")))?;
            entries += node.count() as u64;
            visit(node, Range { low, high });
        }
        Ok(entries)
    }

    fn check_counts(&self, inner_groups: u64, leaf_groups: u64, entries: u64) -> Result<(), Broken> {
        let made = (self.counters.inner_groups.get(), self.counters.leaf_groups.get());
        if (inner_groups, leaf_groups) != made {
            return broken(format!(
                "count: {inner_groups} + {leaf_groups} groups are linked, {made:?} were made"
            ));
        }
        if self.length.is_some() && entries != self.len() {
            return broken(format!("count: {entries} entries, but a length of {}", self.len()));
        }
        Ok(())
    }

    /// Counters, and nodes per level, by a walk along the chains. Approximate while others are active.
    pub fn stats(&self) -> CsbStats {
        let pin = Pin::new();
        let counters = &self.counters;
        let (nodes_per_level, groups_per_level) =
            (0..=self.root().1).map(|level| self.count_level(level, &pin)).unzip();
        CsbStats {
            restarts: counters.restarts.get(),
            latched_reads: counters.latched_reads.get(),
            splits: counters.splits.get(),
            group_splits: counters.group_splits.get(),
            shifted: counters.shifted.get(),
            compactions: counters.compactions.get(),
            unlinked: counters.unlinked.get(),
            left_empty: counters.left_empty.get(),
            nodes_per_level,
            groups_per_level,
        }
    }

    /// Live nodes and groups of a level.
    fn count_level(&self, level: u8, pin: &Pin) -> (u64, u64) {
        let leftmost = match level {
            0 => self.descend::<Words<F>>(level, K::Lane::MIN, pin).0.group.address(),
            _ => self.descend::<Children>(level, K::Lane::MIN, pin).0.group.address(),
        };
        let (mut next, mut nodes, mut groups) = (leftmost, 0, 0);
        while next != 0 {
            let header = header_at(next, pin);
            let (live, link) = self.consistent(&header.latch, || (header.count_live(), header.link()));
            nodes += live as u64;
            groups += u64::from(live > 0);
            next = link;
        }
        (nodes, groups)
    }

    /// Memory of the tree in bytes: whole groups, whatever their fill.
    pub fn bytes(&self) -> u64 {
        let (leaves, inner) = (self.counters.leaf_groups.get(), self.counters.inner_groups.get());
        let (leaf_bytes, inner_bytes) =
            (size_of::<Group<K, Words<F>, F>>(), size_of::<Group<K, Children, F>>());
        leaves * leaf_bytes as u64 + inner * inner_bytes as u64
    }
}

/// What the parent says about the group of its children.
fn expect_children<K: IntKey, const F: usize>(
    node: &Inner<K, F>,
    range: Range<K::Lane>,
) -> Expected<K::Lane> {
    let separators = (0..node.count()).map(|i| node.lane(i)).collect();
    Expected { group: node.group(), separators, range }
}

/// Live slots within the parent's entries, the last of which is live (G2).
fn check_bitmap(header: &Header, entries: usize, level: u8) -> Result<(), Broken> {
    match header.live_slots().last() {
        None => broken(format!("level {level}: H2: a group without a live slot is linked")),
        Some(last) if last + 1 != entries => broken(format!(
            "level {level}: G1, G2: {entries} entries lead to a group whose last live slot is {last}"
        )),
        Some(_) => Ok(()),
    }
}

/// Bounds and entries of a live node.
fn check_node<K: IntKey, B: Body, const F: usize>(
    node: &Node<K, B, F>,
    range: Range<K::Lane>,
) -> Result<(), String> {
    node.check()?;
    let high = (!node.is_open_ended()).then(|| node.high());
    if high != range.high {
        return Err(format!("G3: the upper bound is {high:?}, not {:?}", range.high));
    }
    for i in usize::from(!B::IS_LEAF)..node.count() {
        let lane = node.lane(i);
        let is_first = lane == K::Lane::MIN && !B::IS_LEAF;
        if (lane < range.low && !is_first) || high.is_some_and(|high| lane >= high) {
            return Err(format!("M2: entry {i} {lane:?} is not within {:?} .. {high:?}", range.low));
        }
    }
    Ok(())
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::super::Latched;
    use super::*;
    use std::sync::Barrier;

    /// As a lookup does that was disturbed too often.
    #[test]
    fn who_latches_a_node_only_to_look_breaks_nothing() {
        let tree = Csb::<u64, 4>::bulk_load((1..=12).map(|k| (k, k)), 0.5);
        let latched = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let pin = Pin::new();
                let Latched { latch, .. } = tree.latch::<Words<4>>(0, 7, &pin);
                latched.wait();
                std::thread::sleep(std::time::Duration::from_millis(20));
                latch.release_unchanged();
            });
            latched.wait();
            tree.check().unwrap();
        });
    }

    /// What a check says that waits for the first leaf while its group is changed.
    fn checked_meanwhile(
        tree: &Csb<u64, 4>,
        change: impl FnOnce(&Group<u64, Words<4>, 4>),
    ) -> Result<(), Broken> {
        let pin = Pin::new();
        let (at, _) = tree.descend::<Words<4>>(0, 1, &pin);
        let latch = at.node().latch.exclusive();
        std::thread::scope(|scope| {
            let checked = scope.spawn(|| tree.check());
            std::thread::sleep(std::time::Duration::from_millis(20));
            change(at.group);
            drop(latch);
            checked.join().expect("no panic")
        })
    }

    #[test]
    fn a_group_that_splits_meanwhile_is_no_panic() {
        let tree = Csb::<u64, 4>::bulk_load((1..=12).map(|key| (key, key)), 1.0);
        let checked = checked_meanwhile(&tree, |group| {
            group.header.clear_live(2);
            group.nodes[2].close();
        });
        checked.expect_err("entries have gone");
    }

    #[test]
    fn a_group_that_grows_meanwhile_is_no_panic() {
        let tree = Csb::<u64, 4>::bulk_load((1..=12).map(|key| (key, key)), 1.0);
        checked_meanwhile(&tree, |group| group.header.set_live(3)).expect_err("no entry leads there");
    }
}
