//! Full CSB+-tree whose node size, key size and search method are chosen when it is created.
//!
//! Source: Rao and Ross (SIGMOD 2000), full variant, as Samuel et al. (DaMoN 2005, §3.1) make it adaptable: the children
//! of a node lie side by side in a group that is allocated whole, so a node holds one pointer for all of them. A split
//! shifts the right siblings within the group; a split of their parent moves half of the group to a new one.
//!
//! Keys longer than four bytes are the four-byte key behind zero words: a comparison reads them all. Differs: removal
//! leaves empty nodes in place and there is no bitmap to reuse them; full inner nodes are split on the way down.
//!
//! ```text
//! group   of leaves: word 0 = next leaf group, word 1 = nodes in use; padding to a line; then the nodes
//! inner   word 0 = children   word 1 = their group   then separators
//! leaf    word 0 = entries    then keys, values
//! ```

use crate::probe::{Branch, Probe, Silent};
use crate::trees::Ordered;
use crate::trees::slab::{NodeId, Slab};

/// How a node is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Halving.
    Binary,
    /// From the first key on.
    Linear,
}

const NEXT: usize = 0;
const IN_USE: usize = 1;
const GROUP_HEADER: usize = 16;
const COUNT: usize = 0;
const CHILD_GROUP: usize = 1;
const INNER_KEYS: usize = 2;
const LEAF_KEYS: usize = 1;
/// No group follows: number 0 is never handed out.
const NIL: NodeId = 0;
/// So many nodes ahead a scan fetches one.
const AHEAD: usize = 2;

/// A node: its group, and its place there.
#[derive(Clone, Copy, Debug)]
struct Node {
    group: NodeId,
    place: usize,
}

/// A group that a bulk load has filled, and the least key of each of its nodes.
struct Built {
    group: NodeId,
    least: Vec<u32>,
}

/// A CSB+-tree.
#[derive(Clone, Debug)]
pub struct CsbTree {
    pub(super) groups: Slab,
    node_words: usize,
    key_words: usize,
    method: Method,
    prefetch: bool,
    children_max: usize,
    entries_max: usize,
    root: NodeId,
    first_leaves: NodeId,
    /// Levels above the leaves.
    height: u32,
}

impl CsbTree {
    /// An empty tree with nodes and keys of so many bytes.
    ///
    /// Panics unless both are multiples of 4 and a node holds at least two keys.
    pub fn new(node_bytes: usize, key_bytes: usize, method: Method, prefetch: bool) -> Self {
        assert!(node_bytes.is_multiple_of(4) && key_bytes.is_multiple_of(4) && key_bytes > 0, "whole words");
        let (node_words, key_words) = (node_bytes / 4, key_bytes / 4);
        let children_max = (node_words - INNER_KEYS) / key_words + 1;
        let entries_max = (node_words - LEAF_KEYS) / (key_words + 1);
        assert!(children_max > 2 && entries_max > 1, "a node of {node_bytes} bytes for keys of {key_bytes}");
        let mut groups = Slab::new(GROUP_HEADER + children_max * node_words, 1 << 20);
        groups.allocate();
        let root = groups.allocate();
        groups.store(root, IN_USE, 1, &mut Silent);
        Self {
            groups,
            node_words,
            key_words,
            method,
            prefetch,
            children_max,
            entries_max,
            root,
            first_leaves: root,
            height: 0,
        }
    }

    /// With room for so many keys: until they are inserted, no group moves.
    pub fn with_room_for(mut self, keys: usize) -> Self {
        // Half full nodes, as sorted inserts leave them, in groups half full. A group of its own for the root, and number 0.
        let (mut nodes, mut groups) = (keys / (self.entries_max / 2) + 1, 2);
        while nodes > 1 {
            nodes = nodes.div_ceil((self.children_max / 2).max(2));
            groups += nodes;
        }
        self.groups.make_room(groups);
        self
    }

    /// A tree of these entries, whose keys rise strictly, in full nodes, built level by level.
    ///
    /// Panics as `new`.
    pub fn bulk_load(
        entries: &[(u32, u32)],
        node_bytes: usize,
        key_bytes: usize,
        method: Method,
        prefetch: bool,
    ) -> Self {
        let mut tree = Self::new(node_bytes, key_bytes, method, prefetch);
        let mut groups = tree.load_leaves(entries);
        while groups.len() > 1 || groups.first().is_some_and(|only| only.least.len() > 1) {
            groups = tree.load_above(&groups);
            tree.height += 1;
        }
        tree.root = groups.first().map_or(tree.root, |only| only.group);
        tree
    }

    /// Full leaves of these entries, in full groups.
    fn load_leaves(&mut self, entries: &[(u32, u32)]) -> Vec<Built> {
        let probe = &mut Silent;
        let leaves: Vec<_> = entries.chunks(self.entries_max).collect();
        let mut groups: Vec<Built> = Vec::new();
        for siblings in leaves.chunks(self.children_max) {
            let group = match groups.last() {
                None => self.first_leaves,
                Some(left) => {
                    let group = self.groups.allocate();
                    self.groups.store(left.group, NEXT, group, probe);
                    group
                }
            };
            self.groups.store(group, IN_USE, siblings.len() as u32, probe);
            for (place, leaf) in siblings.iter().enumerate() {
                let node = Node { group, place };
                for (slot, &(key, value)) in leaf.iter().enumerate() {
                    self.set_key(node, LEAF_KEYS, slot, key, probe);
                    self.set(node, self.value_at(slot), value, probe);
                }
                self.set(node, COUNT, leaf.len() as u32, probe);
            }
            groups.push(Built { group, least: siblings.iter().map(|leaf| leaf[0].0).collect() });
        }
        groups
    }

    /// A node over each of these groups, in full groups.
    fn load_above(&mut self, below: &[Built]) -> Vec<Built> {
        let probe = &mut Silent;
        let mut groups = Vec::new();
        for siblings in below.chunks(self.children_max) {
            let group = self.groups.allocate();
            for (place, children) in siblings.iter().enumerate() {
                let node = Node { group, place };
                for (slot, key) in children.least[1..].iter().enumerate() {
                    self.set_key(node, INNER_KEYS, slot, *key, probe);
                }
                self.set(node, CHILD_GROUP, children.group, probe);
                self.set(node, COUNT, children.least.len() as u32, probe);
            }
            groups.push(Built { group, least: siblings.iter().map(|children| children.least[0]).collect() });
        }
        groups
    }

    fn node_at(&self, node: Node, word: usize) -> usize {
        GROUP_HEADER + node.place * self.node_words + word
    }

    fn value_at(&self, slot: usize) -> usize {
        LEAF_KEYS + self.entries_max * self.key_words + slot
    }

    /// Where a key's last word is: all of it, since those before it are zero.
    fn key_at(&self, keys: usize, slot: usize) -> usize {
        keys + (slot + 1) * self.key_words - 1
    }

    #[inline(always)]
    fn word<P: Probe>(&self, node: Node, word: usize, probe: &mut P) -> u32 {
        self.groups.load(node.group, self.node_at(node, word), probe)
    }

    fn set<P: Probe>(&mut self, node: Node, word: usize, to: u32, probe: &mut P) {
        let at = self.node_at(node, word);
        self.groups.store(node.group, at, to, probe);
    }

    /// A key: its last word, having read those before it.
    #[inline(always)]
    fn key<P: Probe>(&self, node: Node, keys: usize, slot: usize, probe: &mut P) -> u32 {
        let first = keys + slot * self.key_words;
        let zeros = (first..first + self.key_words - 1).fold(0, |or, at| or | self.word(node, at, probe));
        zeros | self.word(node, first + self.key_words - 1, probe)
    }

    fn set_key<P: Probe>(&mut self, node: Node, keys: usize, slot: usize, key: u32, probe: &mut P) {
        self.set(node, self.key_at(keys, slot), key, probe);
    }

    /// How many of the first `count` keys are at most `key`.
    #[inline(always)]
    fn rank<P: Probe>(&self, node: Node, keys: usize, count: usize, key: u32, probe: &mut P) -> usize {
        match self.method {
            Method::Linear => {
                let mut rank = 0;
                while rank < count {
                    let goes_on = self.key(node, keys, rank, probe) <= key;
                    probe.branch(Branch::Scan, goes_on);
                    if !goes_on {
                        break;
                    }
                    rank += 1;
                }
                rank
            }
            Method::Binary => {
                let (mut low, mut high) = (0, count);
                while low < high {
                    let middle = (low + high) / 2;
                    let right = self.key(node, keys, middle, probe) <= key;
                    probe.branch(Branch::Bisect, right);
                    if right { low = middle + 1 } else { high = middle }
                }
                low
            }
        }
    }

    fn count<P: Probe>(&self, node: Node, probe: &mut P) -> usize {
        self.word(node, COUNT, probe) as usize
    }

    /// The child of an inner node that covers `key`.
    #[inline(always)]
    fn child<P: Probe>(&self, node: Node, key: u32, probe: &mut P) -> Node {
        let count = self.count(node, probe);
        let place = self.rank(node, INNER_KEYS, count - 1, key, probe);
        let child = Node { group: self.word(node, CHILD_GROUP, probe), place };
        if self.prefetch {
            self.groups.prefetch(child.group, self.node_at(child, 0), self.node_words, probe);
        }
        child
    }

    #[inline(always)]
    fn leaf<P: Probe>(&self, key: u32, probe: &mut P) -> Node {
        let mut node = Node { group: self.root, place: 0 };
        for _ in 0..self.height {
            node = self.child(node, key, probe);
        }
        node
    }

    #[inline(always)]
    fn find<P: Probe>(&self, leaf: Node, key: u32, probe: &mut P) -> Result<usize, usize> {
        let count = self.count(leaf, probe);
        let rank = self.rank(leaf, LEAF_KEYS, count, key, probe);
        if rank > 0 && self.key(leaf, LEAF_KEYS, rank - 1, probe) == key { Ok(rank - 1) } else { Err(rank) }
    }

    /// Shifts `count` words of a node by `by` words, up or down.
    fn shift<P: Probe>(&mut self, node: Node, from: usize, to: usize, count: usize, probe: &mut P) {
        let (from, to) = (self.node_at(node, from), self.node_at(node, to));
        self.groups.shift(node.group, from, to, count, probe);
    }

    fn put<P: Probe>(&mut self, leaf: Node, slot: usize, key: u32, value: u32, probe: &mut P) {
        let (count, width) = (self.count(leaf, probe), self.key_words);
        let from = LEAF_KEYS + slot * width;
        self.shift(leaf, from, from + width, (count - slot) * width, probe);
        self.shift(leaf, self.value_at(slot), self.value_at(slot) + 1, count - slot, probe);
        self.set_key(leaf, LEAF_KEYS, slot, key, probe);
        self.set(leaf, self.value_at(slot), value, probe);
        self.set(leaf, COUNT, count as u32 + 1, probe);
    }

    /// Comes down from the root and splits every full node on the way, so that the leaf of `key` has room.
    fn split_full<P: Probe>(&mut self, key: u32, probe: &mut P) {
        let root = Node { group: self.root, place: 0 };
        if self.is_full(root, self.height, probe) {
            let top = self.groups.allocate();
            let node = Node { group: top, place: 0 };
            self.set(node, CHILD_GROUP, self.root, probe);
            self.set(node, COUNT, 1, probe);
            self.root = top;
            self.height += 1;
        }
        let mut node = Node { group: self.root, place: 0 };
        for level in (0..self.height).rev() {
            let child = self.child(node, key, probe);
            if self.is_full(child, level, probe) {
                self.split(node, child, level, probe);
            }
            node = self.child(node, key, probe);
        }
    }

    fn is_full<P: Probe>(&self, node: Node, level: u32, probe: &mut P) -> bool {
        self.count(node, probe) == if level == 0 { self.entries_max } else { self.children_max }
    }

    /// Splits a full child of `parent`, which has room: its right siblings move on by one.
    fn split<P: Probe>(&mut self, parent: Node, child: Node, level: u32, probe: &mut P) {
        let siblings = self.count(parent, probe);
        let right = Node { group: child.group, place: child.place + 1 };
        let (from, words) = (self.node_at(right, 0), (siblings - right.place) * self.node_words);
        self.groups.shift(child.group, from, from + self.node_words, words, probe);
        let separator = if level == 0 {
            self.groups.store(child.group, IN_USE, siblings as u32 + 1, probe);
            self.split_leaf(child, right, probe)
        } else {
            self.split_inner(child, right, level, probe)
        };
        let width = self.key_words;
        let from = INNER_KEYS + child.place * width;
        self.shift(parent, from, from + width, (siblings - 1 - child.place) * width, probe);
        self.set_key(parent, INNER_KEYS, child.place, separator, probe);
        self.set(parent, COUNT, siblings as u32 + 1, probe);
    }

    fn split_leaf<P: Probe>(&mut self, left: Node, right: Node, probe: &mut P) -> u32 {
        let (count, width) = (self.count(left, probe), self.key_words);
        let keep = count / 2;
        let keys = (self.node_at(left, LEAF_KEYS + keep * width), self.node_at(right, LEAF_KEYS));
        let values = (self.node_at(left, self.value_at(keep)), self.node_at(right, self.value_at(0)));
        self.groups.shift(left.group, keys.0, keys.1, (count - keep) * width, probe);
        self.groups.shift(left.group, values.0, values.1, count - keep, probe);
        self.set(left, COUNT, keep as u32, probe);
        self.set(right, COUNT, (count - keep) as u32, probe);
        self.key(right, LEAF_KEYS, 0, probe)
    }

    /// Splits an inner node, and so its children's group.
    fn split_inner<P: Probe>(&mut self, left: Node, right: Node, level: u32, probe: &mut P) -> u32 {
        let (count, width) = (self.count(left, probe), self.key_words);
        let keep = count / 2;
        let (old, new) = (self.word(left, CHILD_GROUP, probe), self.groups.allocate());
        let [from, to] = [keep, 0].map(|place| GROUP_HEADER + place * self.node_words);
        self.groups.copy((old, from), (new, to), (count - keep) * self.node_words, probe);
        if level == 1 {
            self.groups.copy((old, NEXT), (new, NEXT), 1, probe);
            self.groups.store(old, NEXT, new, probe);
            self.groups.store(old, IN_USE, keep as u32, probe);
            self.groups.store(new, IN_USE, (count - keep) as u32, probe);
        }
        let separator = self.key(left, INNER_KEYS, keep - 1, probe);
        let keys = (self.node_at(left, INNER_KEYS + keep * width), self.node_at(right, INNER_KEYS));
        self.groups.shift(left.group, keys.0, keys.1, (count - keep - 1) * width, probe);
        self.set(left, COUNT, keep as u32, probe);
        self.set(right, COUNT, (count - keep) as u32, probe);
        self.set(right, CHILD_GROUP, new, probe);
        separator
    }

    /// Reads all entries in order; with prefetching, two nodes ahead, be they of the next group. Returns their number and the
    /// sum of their keys and values. Of a key it reads the last word, which tells it from others: its line is what costs.
    pub fn scan<P: Probe>(&self, probe: &mut P) -> (u64, u64) {
        let (mut entries, mut sum, mut group) = (0, 0, self.first_leaves);
        while group != NIL {
            let in_use = self.groups.load(group, IN_USE, probe) as usize;
            let next = self.groups.load(group, NEXT, probe);
            for place in 0..in_use {
                let leaf = Node { group, place };
                if self.prefetch {
                    let ahead = place + AHEAD;
                    let (group, place) = if ahead < in_use { (group, ahead) } else { (next, ahead - in_use) };
                    let from = self.node_at(Node { group, place }, 0);
                    self.groups.prefetch(group, from, self.node_words, probe);
                }
                let count = self.count(leaf, probe);
                entries += count as u64;
                for slot in 0..count {
                    let key = self.word(leaf, self.key_at(LEAF_KEYS, slot), probe);
                    sum += u64::from(key) + u64::from(self.word(leaf, self.value_at(slot), probe));
                }
            }
            group = next;
        }
        (entries, sum)
    }

    /// Bytes of all groups.
    pub fn bytes(&self) -> u64 {
        self.groups.bytes()
    }
}

impl Ordered for CsbTree {
    #[inline]
    fn get<P: Probe>(&self, key: u32, probe: &mut P) -> Option<u32> {
        let leaf = self.leaf(key, probe);
        let slot = self.find(leaf, key, probe).ok()?;
        Some(self.word(leaf, self.value_at(slot), probe))
    }

    fn insert<P: Probe>(&mut self, key: u32, value: u32, probe: &mut P) -> bool {
        let mut leaf = self.leaf(key, probe);
        let Err(mut slot) = self.find(leaf, key, probe) else { return false };
        if self.count(leaf, probe) == self.entries_max {
            self.split_full(key, probe);
            leaf = self.leaf(key, probe);
            slot = self.find(leaf, key, probe).expect_err("it was absent");
        }
        self.put(leaf, slot, key, value, probe);
        true
    }

    fn remove<P: Probe>(&mut self, key: u32, probe: &mut P) -> Option<u32> {
        let leaf = self.leaf(key, probe);
        let slot = self.find(leaf, key, probe).ok()?;
        let value = self.word(leaf, self.value_at(slot), probe);
        let (count, width) = (self.count(leaf, probe), self.key_words);
        let to = LEAF_KEYS + slot * width;
        self.shift(leaf, to + width, to, (count - slot - 1) * width, probe);
        self.shift(leaf, self.value_at(slot) + 1, self.value_at(slot), count - slot - 1, probe);
        self.set(leaf, COUNT, count as u32 - 1, probe);
        Some(value)
    }
}
