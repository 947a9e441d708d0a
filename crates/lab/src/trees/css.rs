//! CSS-tree: a sorted array, and above it nodes of keys whose children are found by arithmetic.
//!
//! Source: Rao and Ross (VLDB 1999), full CSS-tree. It cannot change: an update builds it anew. Differs: the levels are
//! stored one after the other, top first, instead of in one numbering, which needs no case distinction at the bottom.

use crate::probe::{Branch, Probe};

/// A CSS-tree with nodes of some number of keys.
#[derive(Clone, Debug)]
pub struct CssTree {
    per_node: usize,
    /// The nodes' keys, level by level; unused ones are the greatest key.
    inner: Vec<u32>,
    /// Where each level begins in `inner`, top first.
    levels: Vec<usize>,
    keys: Vec<u32>,
    values: Vec<u32>,
}

/// What a probe is told the arrays' addresses are.
const INNER_AT: u64 = 1 << 20;
const KEYS_AT: u64 = 1 << 40;
const VALUES_AT: u64 = 1 << 41;

impl CssTree {
    /// A tree of these entries, whose keys rise strictly, with nodes of `node_bytes`.
    ///
    /// Panics if keys do not rise, or nodes are below 8 bytes.
    pub fn build(entries: &[(u32, u32)], node_bytes: usize) -> Self {
        assert!(entries.is_sorted_by(|a, b| a.0 < b.0), "keys rise");
        assert!(node_bytes >= 8, "a node has at least two keys");
        let per_node = node_bytes / 4;
        let (keys, values): (Vec<u32>, Vec<u32>) = entries.iter().copied().unzip();
        // The least key of each piece of the level below; a node has one key less than pieces below it.
        let mut least: Vec<u32> = keys.chunks(per_node).map(|leaf| leaf[0]).collect();
        let mut levels_up: Vec<Vec<u32>> = Vec::new();
        while least.len() > 1 {
            let nodes = least.chunks(per_node + 1);
            let level = nodes.clone().flat_map(|below| {
                let keys = below[1..].iter().copied();
                keys.chain(std::iter::repeat(u32::MAX)).take(per_node)
            });
            levels_up.push(level.collect());
            least = nodes.map(|below| below[0]).collect();
        }
        let mut inner = Vec::new();
        let mut levels = Vec::new();
        for level in levels_up.into_iter().rev() {
            levels.push(inner.len());
            inner.extend(level);
        }
        Self { per_node, inner, levels, keys, values }
    }

    /// The value of `key`.
    #[inline]
    pub fn get<P: Probe>(&self, key: u32, probe: &mut P) -> Option<u32> {
        let mut node = 0;
        for &level in &self.levels {
            let first = level + node * self.per_node;
            let keys = &self.inner[first..first + self.per_node];
            let slot = rank(keys, INNER_AT + 4 * first as u64, key, probe);
            node = node * (self.per_node + 1) + slot;
        }
        let first = node * self.per_node;
        let leaf = &self.keys[first..(first + self.per_node).min(self.keys.len())];
        let rank = rank(leaf, KEYS_AT + 4 * first as u64, key, probe);
        if rank == 0 || leaf[rank - 1] != key {
            return None;
        }
        probe.load(VALUES_AT + 4 * (first + rank - 1) as u64);
        Some(self.values[first + rank - 1])
    }

    /// Bytes of all arrays.
    pub fn bytes(&self) -> u64 {
        4 * (self.inner.len() + self.keys.len() + self.values.len()) as u64
    }
}

/// How many keys are at most `key`: a binary search.
#[inline(always)]
fn rank<P: Probe>(keys: &[u32], address: u64, key: u32, probe: &mut P) -> usize {
    let (mut low, mut high) = (0, keys.len());
    while low < high {
        let middle = (low + high) / 2;
        probe.load(address + 4 * middle as u64);
        let right = keys[middle] <= key;
        probe.branch(Branch::Bisect, right);
        if right { low = middle + 1 } else { high = middle }
    }
    low
}
