//! A node of the CSB+-tree: sorted keys, and words in a leaf, or one pointer to the group of the children.
//!
//! Source: OLFIT §5.5: `ccinfo` and high key as in the B+-tree, but no link, and one pointer for all children.
//!
//! Invariants:
//! - K1: unused keys of a live node hold the greatest image (S1 of the search); a rank is capped by the count.
//! - K2: a closed node has no entries and the least image as `high`, so every key is beyond it. That is also what
//!   memory of zeros says.
//! - K3: reading may meet any mixture of two contents, but every count ever stored is at most `F`, so whatever is read
//!   stays inside the node. It counts only after validation.

use crate::node::int::IntKey;
use crate::search::{Lane, rank_at_most};
use foreshore_base::NodeLatch;
use foreshore_base::sync::{AtomicU64, Ordering::Relaxed};

const COUNT_MASK: u64 = 0xFFFF;
const OPEN_ENDED: u64 = 1 << 16;

/// What a node has besides keys.
pub(super) trait Body: Send + Sync + 'static {
    const IS_LEAF: bool;
    #[cfg(shuttle)]
    fn vacant() -> Self;
    fn word(&self, i: usize) -> u64;
    fn set_word(&self, i: usize, word: u64);
    /// All words.
    fn words(&self) -> &[AtomicU64];
}

/// The values of a leaf.
pub(super) struct Words<const F: usize>([AtomicU64; F]);

/// An inner node has no words: entry `i` leads to slot `i`.
pub(super) struct Children;

impl<const F: usize> Body for Words<F> {
    const IS_LEAF: bool = true;

    #[cfg(shuttle)]
    fn vacant() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    #[inline(always)]
    fn word(&self, i: usize) -> u64 {
        self.0[i].load(Relaxed)
    }

    #[inline(always)]
    fn set_word(&self, i: usize, word: u64) {
        self.0[i].store(word, Relaxed);
    }

    #[inline(always)]
    fn words(&self) -> &[AtomicU64] {
        &self.0
    }
}

impl Body for Children {
    const IS_LEAF: bool = false;

    #[cfg(shuttle)]
    fn vacant() -> Self {
        Self
    }

    #[inline(always)]
    fn word(&self, _i: usize) -> u64 {
        0
    }

    #[inline(always)]
    fn set_word(&self, _i: usize, _word: u64) {}

    #[inline(always)]
    fn words(&self) -> &[AtomicU64] {
        &[]
    }
}

/// See the module. `F` entries.
#[repr(C, align(64))]
pub(super) struct Node<K: IntKey, B: Body, const F: usize> {
    /// Latch and version (L1 in base's `latch.rs`: survives the reuse of the memory).
    pub latch: NodeLatch,
    /// Number of entries (u16) | is there no upper bound (1 bit).
    meta: AtomicU64,
    /// Address of the group of the children; 0 in a leaf.
    group: AtomicU64,
    high: <K::Lane as Lane>::Cell,
    keys: Line<[<K::Lane as Lane>::Cell; F]>,
    body: B,
}

#[repr(C, align(64))]
struct Line<T>(T);

#[cfg(not(any(loom, shuttle)))]
const _: () = {
    assert!(size_of::<Node<u64, Children, 64>>() == 9 * 64);
    assert!(size_of::<Node<u64, Words<64>, 64>>() == 17 * 64);
};

impl<K: IntKey, B: Body, const F: usize> Node<K, B, F> {
    /// Memory that was never a node: closed (K2). Without shuttle that is what memory of zeros is.
    #[cfg(shuttle)]
    pub fn vacant() -> Self {
        Self {
            latch: NodeLatch::new(),
            meta: AtomicU64::new(0),
            group: AtomicU64::new(0),
            high: K::Lane::MIN.cell(),
            keys: Line(std::array::from_fn(|_| K::Lane::MIN.cell())),
            body: B::vacant(),
        }
    }

    // Reading (K3).

    /// The number of entries not above the key; `None`: the key is to the right.
    #[inline(always)]
    pub fn place(&self, lane: K::Lane) -> Option<usize> {
        if lane >= self.high() && !self.is_open_ended() {
            return None;
        }
        Some(rank_at_most::<K::Lane, F>(&self.keys.0, lane).min(self.count()))
    }

    /// Entries in use.
    #[inline(always)]
    pub fn count(&self) -> usize {
        (self.meta.load(Relaxed) & COUNT_MASK) as usize
    }

    /// Is there no upper bound?
    #[inline(always)]
    pub fn is_open_ended(&self) -> bool {
        self.meta.load(Relaxed) & OPEN_ENDED != 0
    }

    /// The upper bound; meaningless if the node is open-ended.
    #[inline(always)]
    pub fn high(&self) -> K::Lane {
        K::Lane::load(&self.high)
    }

    /// The key of entry `i`.
    #[inline(always)]
    pub fn lane(&self, i: usize) -> K::Lane {
        K::Lane::load(&self.keys.0[i])
    }

    /// The word of entry `i`.
    #[inline(always)]
    pub fn word(&self, i: usize) -> u64 {
        self.body.word(i)
    }

    /// Address of the group of the children.
    #[inline(always)]
    pub fn group(&self) -> u64 {
        self.group.load(Relaxed)
    }

    /// Appends entries `from..to` to `out`.
    #[inline]
    pub fn copy(&self, from: usize, to: usize, out: &mut Vec<(K::Lane, u64)>) {
        // One allocation serves the whole scan.
        out.reserve(F);
        out.extend((from..to.min(F)).map(|i| (self.lane(i), self.word(i))));
    }

    // Writing: the latch is held, or nobody else can reach the node.

    pub fn set_lane(&self, i: usize, lane: K::Lane) {
        lane.store(&self.keys.0[i]);
    }

    pub fn set_word(&self, i: usize, word: u64) {
        self.body.set_word(i, word);
    }

    pub fn set_group(&self, group: u64) {
        self.group.store(group, Relaxed);
    }

    pub fn set_count(&self, count: usize) {
        debug_assert!(count <= F);
        self.meta.store(self.meta.load(Relaxed) & !COUNT_MASK | count as u64, Relaxed);
    }

    pub fn set_open_ended(&self) {
        self.meta.store(self.meta.load(Relaxed) | OPEN_ENDED, Relaxed);
    }

    /// Sets the upper bound.
    pub fn set_high(&self, high: K::Lane) {
        self.meta.store(self.meta.load(Relaxed) & !OPEN_ENDED, Relaxed);
        high.store(&self.high);
    }

    /// Takes over the upper bound of `other`, or that there is none.
    pub fn set_high_of(&self, other: &Self) {
        self.set_high(other.high());
        if other.is_open_ended() {
            self.set_open_ended();
        }
    }

    /// Replaces all entries. `F` at most.
    pub fn fill(&self, entries: impl Iterator<Item = (K::Lane, u64)>) {
        let mut count = 0;
        for (lane, word) in entries {
            self.set_lane(count, lane);
            self.set_word(count, word);
            count += 1;
        }
        for i in count..F {
            self.set_lane(i, K::Lane::MAX);
        }
        self.set_count(count);
    }

    /// Becomes what `other` is.
    pub fn become_copy_of(&self, other: &Self) {
        self.fill((0..other.count()).map(|i| (other.lane(i), other.word(i))));
        self.set_high_of(other);
        self.set_group(other.group());
    }

    /// Keeps the first `count` entries.
    pub fn truncate(&self, count: usize) {
        for i in count..self.count() {
            self.set_lane(i, K::Lane::MAX);
        }
        self.set_count(count);
    }

    /// Adds an entry at rank `i`, for which there is room.
    #[inline]
    pub fn insert_at(&self, i: usize, lane: K::Lane, word: u64) {
        let count = self.count();
        assert!(i <= count && count < F, "an insert at rank {i} of {count} entries");
        K::Lane::shift_up(&self.keys.0, i..count);
        if B::IS_LEAF {
            u64::shift_up(self.body.words(), i..count);
        }
        self.set_lane(i, lane);
        self.set_word(i, word);
        self.set_count(count + 1);
    }

    /// Removes entry `i`.
    #[inline]
    pub fn remove_at(&self, i: usize) {
        let count = self.count();
        assert!(i < count && count <= F, "a removal at {i} of {count} entries");
        K::Lane::shift_down(&self.keys.0, i + 1..count);
        if B::IS_LEAF {
            u64::shift_down(self.body.words(), i + 1..count);
        }
        self.set_lane(count - 1, K::Lane::MAX);
        self.set_count(count - 1);
    }

    /// Removes everything and gives the range to the right (K2).
    pub fn close(&self) {
        self.set_count(0);
        self.set_high(K::Lane::MIN);
    }

    // Checking, nobody else being active.

    pub fn is_closed(&self) -> bool {
        self.count() == 0 && self.high() == K::Lane::MIN && !self.is_open_ended()
    }

    /// Names a broken invariant inside a live node. An inner node's holes repeat separators.
    pub fn check(&self) -> Result<(), String> {
        let count = self.count();
        let falls = |i: &usize| match self.lane(i - 1).cmp(&self.lane(*i)) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => B::IS_LEAF,
            std::cmp::Ordering::Greater => true,
        };
        if let Some(i) = (1..count).find(falls) {
            return Err(format!("order: entries {} and {i}", i - 1));
        }
        if (count..F).any(|i| self.lane(i) != K::Lane::MAX) {
            return Err("K1: an unused key is not the greatest".into());
        }
        if !B::IS_LEAF && (count == 0 || self.lane(0) != K::Lane::MIN) {
            return Err("G2: the first separator is not the least key".into());
        }
        Ok(())
    }
}
