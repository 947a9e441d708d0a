//! What inner nodes and leaf blocks have in common, and the inner node.
//!
//! An inner node is one cache line: a key and two children. Whether a child is a leaf block stands in the word that
//! leads to it, so a descent never reads a node only to learn what it is.
//!
//! Invariants:
//! - N1: a weight changes only under the latches of its node *and* of the node's parent: holding either is enough to
//!   read it. A parent pointer changes only under the latches of the old and of the new parent.
//! - N2: `problem` is 0 exactly while the node is not in the problem queue.

use crate::pooled::Pooled;
use crate::search::Lane;
use foreshore_base::sync::{AtomicU32, AtomicU64, Ordering::*};
use foreshore_base::{NodeLatch, RwxLock};
use std::hint::select_unpredictable;

/// Bit 0 of a child word: it leads to a leaf block.
const LEAF: u64 = 1;

/// Where a child is, and what it is. Zero leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child(pub u64);

impl Child {
    pub const NONE: Self = Self(0);

    pub fn inner<L: Lane>(node: &Inner<L>) -> Self {
        Self(std::ptr::from_ref(node).expose_provenance() as u64)
    }

    /// The word of a leaf block at this address.
    pub fn leaf(address: u64) -> Self {
        Self(address | LEAF)
    }

    #[inline(always)]
    pub fn is_leaf(self) -> bool {
        self.0 & LEAF != 0
    }

    #[inline(always)]
    pub fn address(self) -> u64 {
        self.0 & !LEAF
    }
}

/// One of the two children of an inner node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

impl Side {
    pub fn other(self) -> Self {
        match self {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        }
    }
}

/// The first words of every node.
#[derive(Debug)]
#[repr(C)]
pub struct Header {
    /// Latch and version, for the optimistic scheme. Survives the reuse of the node.
    pub latch: NodeLatch,
    /// The lock of the paper's scheme.
    pub lock: RwxLock,
    /// Entries of a leaf block (u16) | weight (15 bits) | dead (1 bit).
    meta: AtomicU32,
    /// Address of the parent (N1). The header of the tree has none.
    parent: AtomicU64,
    /// See [`super::problems`] (N2).
    pub problem: AtomicU64,
    #[cfg(shuttle)]
    pub pooled: std::sync::atomic::AtomicBool,
}

const COUNT: u32 = 0xFFFF;
const WEIGHT_SHIFT: u32 = 16;
const WEIGHT_MAX: u32 = 0x7FFF;
const DEAD: u32 = 1 << 31;

impl Header {
    #[cfg(any(shuttle, test))]
    pub fn vacant() -> Self {
        Self {
            latch: NodeLatch::new(),
            lock: RwxLock::new(),
            meta: AtomicU32::new(0),
            parent: AtomicU64::new(0),
            problem: AtomicU64::new(0),
            #[cfg(shuttle)]
            pooled: std::sync::atomic::AtomicBool::new(false),
        }
    }

    /// Begins a new life. The latch word goes on; the lock word may have been something else in another kind of node.
    pub fn reset(&self, weight: u32) {
        self.lock.reset();
        self.meta.store(weight << WEIGHT_SHIFT, Relaxed);
        self.parent.store(0, Relaxed);
        self.problem.store(0, Relaxed);
    }

    #[inline(always)]
    pub fn count(&self) -> usize {
        (self.meta.load(Relaxed) & COUNT) as usize
    }

    pub fn set_count(&self, count: usize) {
        debug_assert!(count as u32 <= COUNT);
        self.meta.store(self.meta.load(Relaxed) & !COUNT | count as u32, Relaxed);
    }

    /// 0 = red, 1 = black, more = overweight.
    pub fn weight(&self) -> u32 {
        self.meta.load(Relaxed) >> WEIGHT_SHIFT & WEIGHT_MAX
    }

    /// Under the latches of N1.
    pub fn set_weight(&self, weight: u32) {
        assert!(weight <= WEIGHT_MAX, "a weight of {weight}");
        let rest = self.meta.load(Relaxed) & (COUNT | DEAD);
        self.meta.store(rest | weight << WEIGHT_SHIFT, Relaxed);
    }

    /// Was this node unlinked?
    #[inline(always)]
    pub fn is_dead(&self) -> bool {
        self.meta.load(Relaxed) & DEAD != 0
    }

    pub fn set_dead(&self) {
        self.meta.store(self.meta.load(Relaxed) | DEAD, Relaxed);
    }

    /// The parent: exact under the parent's latch, else where it was a moment ago.
    pub fn parent(&self) -> u64 {
        // ORDERING: Acquire: a new parent's content is seen. Pairs with `set_parent`.
        self.parent.load(Acquire)
    }

    pub fn set_parent(&self, parent: u64) {
        self.parent.store(parent, Release);
    }
}

/// A node with one key: smaller keys are found to the left, others to the right.
#[repr(C, align(64))]
pub struct Inner<L: Lane> {
    pub header: Header,
    key: L::Cell,
    left: AtomicU64,
    right: AtomicU64,
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<Inner<u64>>() == 64 && size_of::<Inner<u32>>() == 64);

impl<L: Lane> Inner<L> {
    /// Makes an unreachable node new.
    pub fn reset(&self, key: L, left: Child, right: Child, weight: u32) {
        self.header.reset(weight);
        key.store(&self.key);
        self.set_child(Side::Left, left);
        self.set_child(Side::Right, right);
    }

    #[inline(always)]
    pub fn key(&self) -> L {
        L::load(&self.key)
    }

    pub fn set_key(&self, key: L) {
        key.store(&self.key);
    }

    pub fn child(&self, side: Side) -> Child {
        // ORDERING: as in `toward`.
        Child(self.word(side).load(Acquire))
    }

    /// Under this node's latch, and where others read it, exclusively.
    pub fn set_child(&self, side: Side, child: Child) {
        // ORDERING: Release publishes the child's content to unvalidated descents; pairs with `toward`.
        self.word(side).store(child.0, Release);
    }

    /// The child that `key` is under.
    #[inline(always)]
    pub fn toward(&self, key: L) -> Child {
        // ORDERING: Acquire, so that the content of a new node is seen; pairs with `set_child`.
        let (left, right) = (self.left.load(Acquire), self.right.load(Acquire));
        Child(select_unpredictable(key < self.key(), left, right))
    }

    /// On which side this child is, if it is one.
    pub fn side_of(&self, child: Child) -> Option<Side> {
        [Side::Left, Side::Right].into_iter().find(|side| self.child(*side) == child)
    }

    fn word(&self, side: Side) -> &AtomicU64 {
        match side {
            Side::Left => &self.left,
            Side::Right => &self.right,
        }
    }
}

impl<L: Lane> Pooled for Inner<L> {
    #[cfg(any(shuttle, test))]
    fn vacant() -> Self {
        Self {
            header: Header::vacant(),
            key: L::MAX.cell(),
            left: AtomicU64::new(0),
            right: AtomicU64::new(0),
        }
    }

    #[cfg(shuttle)]
    fn pooled(&self) -> &std::sync::atomic::AtomicBool {
        &self.header.pooled
    }
}
