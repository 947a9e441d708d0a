//! Nodes of equal size in one growing array of words; a node is named by its number.

use crate::probe::Probe;

/// The number of a node.
pub type NodeId = u32;

/// All nodes of a tree.
#[derive(Clone, Debug)]
pub struct Slab {
    /// Of all nodes taken, and zeros for those that there is room for.
    words: Vec<u32>,
    taken: usize,
    per_node: usize,
    /// What a probe is told the first node's address is.
    base: u64,
    free: Vec<NodeId>,
}

impl Slab {
    /// Nodes of `per_node` words, at `base` for the probe.
    pub fn new(per_node: usize, base: u64) -> Self {
        Self { words: Vec::new(), taken: 0, per_node, base, free: Vec::new() }
    }

    /// Room for so many nodes in all: until they are taken nothing moves, and no page is touched for the first time. To grow
    /// copies all nodes, which a few inserts that are timed would have to pay for.
    pub fn make_room(&mut self, nodes: usize) {
        let words = nodes * self.per_node;
        if words > self.words.len() {
            self.words.resize(words, 0);
        }
    }

    /// A node of zeros.
    pub fn allocate(&mut self) -> NodeId {
        if let Some(node) = self.free.pop() {
            self.words[node as usize * self.per_node..][..self.per_node].fill(0);
            return node;
        }
        let node = self.taken;
        self.taken += 1;
        self.make_room(self.taken);
        u32::try_from(node).expect("fewer than 2^32 nodes")
    }

    /// Gives a node back.
    pub fn free(&mut self, node: NodeId) {
        self.free.push(node);
    }

    #[inline(always)]
    fn address(&self, node: NodeId, at: usize) -> u64 {
        self.base + 4 * (u64::from(node) * self.per_node as u64 + at as u64)
    }

    #[inline(always)]
    pub fn load<P: Probe>(&self, node: NodeId, at: usize, probe: &mut P) -> u32 {
        probe.load(self.address(node, at));
        self.words[node as usize * self.per_node + at]
    }

    #[inline(always)]
    pub fn store<P: Probe>(&mut self, node: NodeId, at: usize, word: u32, probe: &mut P) {
        probe.store(self.address(node, at));
        self.words[node as usize * self.per_node + at] = word;
    }

    /// Moves words `from..from + count` of a node to `to` in the same node; they may overlap.
    pub fn shift<P: Probe>(&mut self, node: NodeId, from: usize, to: usize, count: usize, probe: &mut P) {
        self.copy((node, from), (node, to), count, probe);
    }

    /// Copies words between places in nodes; within a node they may overlap.
    pub fn copy<P: Probe>(
        &mut self,
        from: (NodeId, usize),
        to: (NodeId, usize),
        count: usize,
        probe: &mut P,
    ) {
        for at in 0..count {
            probe.load(self.address(from.0, from.1 + at));
            probe.store(self.address(to.0, to.1 + at));
        }
        let [from, to] = [from, to].map(|(node, at)| node as usize * self.per_node + at);
        self.words.copy_within(from..from + count, to);
    }

    /// Asks for words `from..from + count` of a node ahead of their use.
    #[inline(always)]
    pub fn prefetch<P: Probe>(&self, node: NodeId, from: usize, count: usize, probe: &mut P) {
        for at in (from..from + count).step_by(16) {
            probe.prefetch(self.address(node, at));
        }
        if let Some(word) = self.words.get(node as usize * self.per_node + from) {
            foreshore_base::prefetch::prefetch_lines(word, 4 * count);
        }
    }

    /// Bytes of all nodes taken.
    pub fn bytes(&self) -> u64 {
        4 * (self.taken * self.per_node) as u64
    }

    /// Nodes that there is room for, those taken among them.
    #[cfg(test)]
    pub fn room(&self) -> usize {
        self.words.len() / self.per_node
    }
}
