//! Building a tree from sorted entries, level by level, at memory speed.
//!
//! Source: Samuel et al. §2, bulk loading level by level. Leaves, and groups, are filled to a chosen share.

use super::Csb;
use super::group::{Address, group_at};
use super::node::{Body, Children, Node, Words};
use super::split::fill_inner;
use crate::node::int::IntKey;
use crate::reclaim::Pin;
use crate::search::Lane;
use foreshore_base::sync::Ordering;

/// A finished group, and the lower ends of its nodes' ranges.
struct Built<L> {
    group: Address,
    lows: Vec<L>,
}

/// One level under construction: nodes side by side in groups.
struct Level<'t, K: IntKey, const F: usize> {
    tree: &'t Csb<K, F>,
    pin: &'t Pin,
    /// Nodes of a group.
    slots: usize,
    groups: Vec<Built<K::Lane>>,
}

impl<'t, K: IntKey, const F: usize> Level<'t, K, F> {
    fn new(tree: &'t Csb<K, F>, pin: &'t Pin, fill: f64) -> Self {
        Self { tree, pin, slots: share(F, fill), groups: Vec::new() }
    }

    /// The next node, which begins at `low`. It is open-ended until there is another one.
    fn append<B: Body>(&mut self, low: K::Lane) -> &'t Node<K, B, F> {
        let last = self.groups.last().map(|built| (built.group, built.lows.len()));
        let last = last.map(|(group, len)| (group_at::<K, B, F>(group, self.pin), len));
        if let Some((group, len)) = last {
            group.nodes[len - 1].set_high(low);
        }
        let (group, slot) = match last {
            Some((group, len)) if len < self.slots => (group, len),
            _ => {
                let address = self.tree.fresh_group::<B>();
                if let Some((group, _)) = last {
                    group.header.set_link(address);
                }
                self.groups.push(Built { group: address, lows: Vec::new() });
                (group_at::<K, B, F>(address, self.pin), 0)
            }
        };
        self.groups.last_mut().expect("a group was begun").lows.push(low);
        group.header.set_live(slot);
        group.nodes[slot].set_open_ended();
        &group.nodes[slot]
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
        assert!((0.1..=1.0).contains(&fill), "a fill factor of {fill}");
        let tree = Self::new();
        let pin = Pin::new();
        let mut leaves = Level::new(&tree, &pin, fill);
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
            tree.length.add(count);
        }
        if last.is_some() {
            let groups = leaves.groups;
            tree.build_upper_levels(groups, fill, &pin);
        }
        drop(pin);
        tree
    }

    /// Puts level upon level until one node is left, and replaces the empty root.
    fn build_upper_levels(&self, groups: Vec<Built<K::Lane>>, fill: f64, pin: &Pin) {
        let mut groups = groups;
        let mut level = 0;
        while groups.len() > 1 || groups[0].lows.len() > 1 {
            level += 1;
            let mut nodes = Level::new(self, pin, fill);
            for built in groups {
                let node = nodes.append::<Children>(built.lows[0]);
                node.set_group(built.group);
                fill_inner(node, built.lows.into_iter());
            }
            groups = nodes.groups;
        }
        let (empty, _) = self.root();
        self.discard_group::<Words<F>>(empty);
        self.root.store(groups[0].group | level, Ordering::Release);
    }
}
