//! What a tree counts about itself.

use crate::counters::Count;

/// Rare events. All are off the paths of operations that meet nobody.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Nodes of all levels.
    pub nodes: Count,
    /// Those above the leaves.
    pub inner_nodes: Count,
    pub restarts: Count,
    pub latched_reads: Count,
    pub splits: Count,
    pub unlinked: Count,
    pub left_empty: Count,
    /// Keys that came, and were to lie outside of their nodes. Without any no separator does.
    pub outside: Count,
}

impl Counters {
    pub fn node_made(&self, level: u8) {
        self.nodes.add();
        if level > 0 {
            self.inner_nodes.add();
        }
    }

    pub fn node_gone(&self, level: u8) {
        self.nodes.subtract();
        if level > 0 {
            self.inner_nodes.subtract();
        }
    }
}

/// What happened to a tree since it was made, and its shape.
///
/// ```
/// let map: foreshore_index::IntMap<u64> = (0..100_000).map(|k| (k, k)).collect();
/// let leaves = map.stats().nodes_per_level[0];
/// assert!(map.len() / leaves > 32, "rising keys fill their leaves");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Reads of a node that had to be repeated, but for those that an [`IntMap`](crate::IntMap) tries without a pin at first.
    pub restarts: u64,
    /// Reads that failed so often that they took the latch.
    pub latched_reads: u64,
    /// Nodes split.
    pub splits: u64,
    /// Empty nodes unlinked.
    pub unlinked: u64,
    /// Times that an empty node stayed: the last child of several, or one whose neighbour was just changing.
    pub left_empty: u64,
    /// Nodes of each level now, leaves first. Counted by a walk.
    pub nodes_per_level: Vec<u64>,
}
