//! Building a tree from sorted entries, level by level, at memory speed.
//!
//! Source: Samuel et al. §2, bulk loading level by level. Leaves, and groups, are filled to a chosen share.
//!
//! Nothing is pinned meanwhile: the entries may have to be waited for, and nobody else can reach the tree.

use super::Csb;
use super::group::{Address, Group};
use super::node::{Body, Children, Node, Words};
use super::split::fill_inner;
use crate::node::int::IntKey;
use crate::search::Lane;
use foreshore_base::sync::Ordering;
use std::ptr::NonNull;

/// A group of a tree under construction, of the kind that its level has.
fn own_group<K: IntKey, B: Body, const F: usize>(address: Address, _tree: &Csb<K, F>) -> &Group<K, B, F> {
    let group = std::ptr::with_exposed_provenance_mut::<Group<K, B, F>>(address as usize);
    let group = NonNull::new(group).expect("a group");
    // SAFETY: it was taken for this level of this tree, which nobody else can reach, and which gives groups back only when it is
    // dropped: it outlives the result. All its fields are atomics.
    unsafe { group.as_ref() }
}

/// A finished group, and the lower ends of its nodes' ranges.
struct Built<L> {
    group: Address,
    lows: Vec<L>,
}

/// One level under construction: nodes side by side in groups.
struct Level<'t, K: IntKey, const F: usize> {
    tree: &'t Csb<K, F>,
    /// Nodes of a group.
    slots: usize,
    groups: Vec<Built<K::Lane>>,
}

impl<'t, K: IntKey, const F: usize> Level<'t, K, F> {
    /// A level that begins with this group, which has no entries.
    fn new(tree: &'t Csb<K, F>, fill: f64, first: Address) -> Self {
        Self { tree, slots: share(F, fill), groups: vec![Built { group: first, lows: Vec::new() }] }
    }

    /// The next node, which begins at `low`. It is open-ended until there is another one.
    fn append<B: Body>(&mut self, low: K::Lane) -> &'t Node<K, B, F> {
        let (group, len) = self.last::<B>();
        if len > 0 {
            group.nodes[len - 1].set_high(low);
        }
        if len == self.slots {
            let next = self.tree.fresh_group::<B>();
            group.header.set_link(next);
            self.groups.push(Built { group: next, lows: Vec::new() });
        }
        let (group, slot) = self.last::<B>();
        self.groups.last_mut().expect("there is a first group").lows.push(low);
        group.header.set_live(slot);
        group.nodes[slot].set_open_ended();
        &group.nodes[slot]
    }

    /// The last group, and how many nodes it has.
    fn last<B: Body>(&self) -> (&'t Group<K, B, F>, usize) {
        let built = self.groups.last().expect("there is a first group");
        (own_group(built.group, self.tree), built.lows.len())
    }
}

/// So many of `all`.
fn share(all: usize, fill: f64) -> usize {
    ((all as f64 * fill) as usize).clamp(2, all)
}

impl<K: IntKey, const F: usize> Csb<K, F> {
    /// A tree of these entries; leaves and groups are filled to about `fill` of their capacity.
    ///
    /// Panics if keys do not rise strictly, or `fill` is not in 0.1 ..= 1.
    pub fn bulk_load(entries: impl Iterator<Item = (K, u64)>, fill: f64) -> Self {
        Self::new().loaded(entries, fill)
    }

    /// The same for this tree, which is empty.
    pub fn loaded(self, entries: impl Iterator<Item = (K, u64)>, fill: f64) -> Self {
        assert!((0.1..=1.0).contains(&fill), "a fill factor of {fill}");
        // The chain begins with the root, which the tree owns: should the entries be refused, it goes with that.
        let (root, _) = self.root();
        let mut leaves = Level::new(&self, fill, root);
        let mut entries = entries.map(|(key, value)| (key.to_lane(), value)).peekable();
        let mut last = None;
        while let Some((lane, _)) = entries.peek() {
            let low = if last.is_none() { K::Lane::MIN } else { *lane };
            let leaf = leaves.append::<Words<F>>(low);
            let mut count = 0;
            leaf.fill(entries.by_ref().take(share(F, fill)).inspect(|(lane, _)| {
                assert!(last.replace(*lane) < Some(*lane), "bulk loading wants strictly rising keys");
                count += 1;
            }));
            self.count(count);
        }
        let groups = leaves.groups;
        self.build_upper_levels(groups, fill);
        self
    }

    /// Puts level upon level until one node is left, which is the root.
    fn build_upper_levels(&self, groups: Vec<Built<K::Lane>>, fill: f64) {
        let mut groups = groups;
        let mut level = 0;
        while groups.len() > 1 || groups[0].lows.len() > 1 {
            level += 1;
            let first = self.begin_level(level, groups[0].group);
            let mut nodes = Level::new(self, fill, first);
            for built in groups {
                let node = nodes.append::<Children>(built.lows[0]);
                node.set_group(built.group);
                fill_inner(node, built.lows.into_iter());
            }
            groups = nodes.groups;
        }
    }

    /// The first group of a level over this one. It is the root's already: should there be no memory for its neighbours, all goes
    /// with the tree.
    fn begin_level(&self, level: u64, below: Address) -> Address {
        let first = self.fresh_group::<Children>();
        let group: &Group<K, Children, F> = own_group(first, self);
        group.nodes[0].set_group(below);
        group.header.set_live(0);
        self.root.store(first | level, Ordering::Relaxed);
        first
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::csb::group::header_at;
    use crate::reclaim::Pin;
    use std::collections::BTreeSet;
    use std::panic::catch_unwind;
    use std::sync::mpsc::channel;
    use std::time::Instant;

    /// Keys of no other test, so that nobody else takes groups from the list of this type.
    type Tree = Csb<[u8; 5], 4>;

    fn load(keys: impl Iterator<Item = u8>) -> Tree {
        Tree::bulk_load(keys.map(|key| ([key; 5], 0)), 1.0)
    }

    /// The groups of a tree's leaves.
    fn leaf_groups<K: IntKey>(tree: &Csb<K, 4>) -> BTreeSet<Address> {
        let pin = Pin::new();
        let first = tree.descend::<Words<4>>(0, K::Lane::MIN, &pin).0.group.address();
        let next = |group: &Address| Some(header_at(*group, &pin).link()).filter(|link| *link != 0);
        std::iter::successors(Some(first), next).collect()
    }

    /// Groups that were filled by then serve the next tree.
    #[test]
    fn a_refused_load_gives_its_groups_back() {
        let groups = leaf_groups(&load(0..200));
        assert_eq!(groups.len(), 13);
        assert!(catch_unwind(|| load((0..200).chain([7]))).is_err(), "7 comes after 199");
        assert_eq!(leaf_groups(&load(0..200)), groups);
    }

    /// What a thread took out of a tree serves others, also if it has nothing to do from then on.
    #[test]
    fn who_rests_keeps_no_groups() {
        // Keys of no other test.
        let load = || Csb::<[u8; 6], 4>::bulk_load((0..200).map(|key| ([key; 6], 0)), 1.0);
        let tree = load();
        let (groups, tree) = (leaf_groups(&tree), &tree);
        let ((done, is_done), (rest, rests)) = (channel(), channel::<()>());
        std::thread::scope(|scope| {
            scope.spawn(move || {
                (0..200).for_each(|key| _ = tree.remove([key; 6], &Pin::new()));
                done.send(()).unwrap();
                rests.recv().unwrap_err();
            });
            is_done.recv().unwrap();
            let begun = Instant::now();
            let mut serve = false;
            while !serve && begun.elapsed().as_secs() < 5 {
                (0..1000).for_each(|_| drop(Pin::new()));
                serve = !leaf_groups(&load()).is_disjoint(&groups);
            }
            drop(rest);
            assert!(serve, "they wait for a thread that rests");
        });
    }
}
