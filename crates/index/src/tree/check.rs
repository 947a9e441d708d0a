//! Walking the whole structure and naming what is broken. Only when nobody changes it.

use super::{Stats, Tree, address_of, node_at};
use crate::broken::{Broken, broken, stays_latched};
use crate::node::{Node, Seen};
use crate::reclaim::Pin;
use std::borrow::Borrow;

/// A node on its level's chain, and the lower end of its range (`None` for the leftmost).
struct Chained<'g, N: Node> {
    node: &'g N,
    low: Option<N::Owned>,
}

/// What is found in a node while nobody can change it: it may hold addresses, which are followed.
fn unchanging<N: Node, R>(node: &N, find: impl FnOnce() -> R) -> R {
    let latch = node.header().latch.exclusive();
    let found = find();
    latch.release_unchanged();
    found
}

impl<N: Node> Tree<N> {
    /// Checks order, bounds, links, levels and counts. Call it while no other thread changes the tree: what is under way
    /// looks broken.
    pub fn check(&self) -> Result<(), Broken> {
        let pin = Pin::new();
        let root = self.root(&pin);
        if root.header().link() != 0 {
            return broken("T4: the root has a right neighbour");
        }
        let mut above: Option<Vec<Chained<N>>> = None;
        let (mut nodes, mut entries) = (0, 0);
        for level in (0..=root.header().level()).rev() {
            let chain = self.chain(level, &pin)?;
            if let Some(parents) = &above {
                self.check_parents(parents, &chain, level)?;
            }
            nodes += chain.len() as u64;
            entries = chain.iter().map(|c| c.node.header().count() as u64).sum();
            above = Some(chain);
        }
        if nodes != self.counters.nodes.get() {
            return broken(format!(
                "count: {nodes} nodes are linked, {} were made",
                self.counters.nodes.get()
            ));
        }
        if entries != self.len() {
            return broken(format!("count: {entries} entries, but a length of {}", self.len()));
        }
        Ok(())
    }

    /// The nodes of a level from left to right, each checked by itself and against its left neighbour.
    fn chain<'g>(&self, level: u8, pin: &'g Pin) -> Result<Vec<Chained<'g, N>>, Broken> {
        let mut chain: Vec<Chained<N>> = Vec::new();
        let mut next = address_of(self.leftmost(level, pin));
        let mut low = None;
        while next != 0 {
            let node: &N = node_at(next, pin);
            let at = format!("level {level}, node {}", chain.len());
            if stays_latched(|| node.header().latch.is_latched()) {
                return broken(format!("{at}: latched while nobody is active"));
            }
            if level > 0 && node.header().count() == 0 {
                return broken(format!("{at}: an inner node without children"));
            }
            if node.header().level() != level || node.header().is_dead() {
                return broken(format!(
                    "{at}: level {}, dead: {}",
                    node.header().level(),
                    node.header().is_dead()
                ));
            }
            let lower = low.clone();
            low = unchanging(node, || {
                node.check().or_else(|what| broken(format!("{at}: {what}")))?;
                self.check_range(node, low, &at)
            })?;
            chain.push(Chained { node, low: lower });
            next = node.header().link();
        }
        Ok(chain)
    }

    /// Keys within `low .. high`; returns `high`, the next node's lower end.
    fn check_range(&self, node: &N, low: Option<N::Owned>, at: &str) -> Result<Option<N::Owned>, Broken> {
        let high = (node.header().link() != 0).then(|| self.owned(node.high(&Seen::Latched)));
        for i in usize::from(node.header().level() > 0)..node.header().count() {
            let key = self.owned(node.key(i, &Seen::Latched));
            if low.as_ref().is_some_and(|low| key.borrow() < low.borrow()) {
                return broken(format!("{at}: T2: entry {i} {key:?} is below {low:?}"));
            }
            if high.as_ref().is_some_and(|high| key.borrow() >= high.borrow()) {
                return broken(format!("{at}: N2: entry {i} {key:?} is not below {high:?}"));
            }
        }
        Ok(high)
    }

    fn owned(&self, key: Result<N::Owned, foreshore_base::Restart>) -> N::Owned {
        key.expect("nobody else is active")
    }

    /// The children of a level, in order, are the nodes of the next one, each under the lower end of its range.
    fn check_parents(&self, parents: &[Chained<N>], chain: &[Chained<N>], level: u8) -> Result<(), Broken> {
        let mut children = chain.iter().enumerate();
        for parent in parents {
            unchanging(parent.node, || self.check_children(parent, &mut children, level))?;
        }
        match children.next() {
            Some((number, _)) => broken(format!("U1: node {number} of level {level} has no separator")),
            None => Ok(()),
        }
    }

    /// As [`Self::check_parents`], for one parent, whose children are the next ones.
    fn check_children<'c, 'g: 'c>(
        &self,
        parent: &Chained<N>,
        children: &mut impl Iterator<Item = (usize, &'c Chained<'g, N>)>,
        level: u8,
    ) -> Result<(), Broken>
    where
        N: 'g,
    {
        for i in 0..parent.node.header().count() {
            let Some((number, child)) = children.next() else {
                return broken(format!("T1: level {} has more entries than level {level} nodes", level + 1));
            };
            if parent.node.word(i) != address_of(child.node) {
                return broken(format!("T1: the entry of node {number} of level {level} leads elsewhere"));
            }
            let separator = match i {
                0 => parent.low.clone(),
                _ => Some(self.owned(parent.node.key(i, &Seen::Latched))),
            };
            if separator.as_ref().map(Borrow::borrow) != child.low.as_ref().map(Borrow::<N::Key>::borrow) {
                return broken(format!(
                    "T3: {separator:?} leads to node {number} of level {level}, from {:?}",
                    child.low
                ));
            }
        }
        Ok(())
    }

    /// Counters, and nodes per level, by a walk along the chains. Approximate while others are active.
    pub fn stats(&self) -> Stats {
        let pin = Pin::new();
        let height = self.root(&pin).header().level();
        let nodes_per_level = (0..=height).map(|level| self.nodes_of(level, &pin).count() as u64).collect();
        Stats {
            restarts: self.counters.restarts.get(),
            latched_reads: self.counters.latched_reads.get(),
            splits: self.counters.splits.get(),
            unlinked: self.counters.unlinked.get(),
            left_empty: self.counters.left_empty.get(),
            nodes_per_level,
        }
    }

    /// Memory of the tree in bytes: its nodes, whatever their fill, and long keys. Walks the nodes if there were any.
    pub fn bytes(&self) -> u64 {
        let pin = Pin::new();
        let (all, inner) = (self.counters.nodes.get(), self.counters.inner_nodes.get());
        let nodes = all.saturating_sub(inner) * N::bytes(0) as u64 + inner * N::bytes(1) as u64;
        if self.counters.outside.get() == 0 {
            return nodes;
        }
        let height = self.root(&pin).header().level();
        let outside = |node: &N| unchanging(node, || node.bytes_outside());
        nodes + (0..=height).flat_map(|level| self.nodes_of(level, &pin)).map(outside).sum::<u64>()
    }

    fn nodes_of<'g>(&self, level: u8, pin: &'g Pin) -> impl Iterator<Item = &'g N> {
        let mut next = address_of(self.leftmost(level, pin));
        std::iter::from_fn(move || {
            let node: &N = (next != 0).then(|| node_at(next, pin))?;
            next = self.read(node, |_| Ok(node.header().link()));
            Some(node)
        })
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::node::bytes::BytesNode;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// Where no key is long there is nothing to add up, and nobody's node is latched for it.
    #[test]
    fn counting_memory_waits_for_no_node() {
        let tree = Tree::<BytesNode<64, 88>>::bulk_load([(b"a".to_vec(), 1)].into_iter(), 1.0);
        let (pin, before) = (Pin::new(), tree.bytes());
        let (tell, told) = channel();
        std::thread::scope(|scope| {
            let latch = tree.root(&pin).header().latch.exclusive();
            scope.spawn(|| tell.send(tree.bytes()));
            let bytes = told.recv_timeout(Duration::from_secs(5));
            latch.release_unchanged();
            assert_eq!(bytes.expect("it waits for a node"), before);
        });
        tree.insert(&[b'x'; 1000], 1, &pin);
        assert!(tree.bytes() >= before + 1000, "a long key counts");
    }
}
