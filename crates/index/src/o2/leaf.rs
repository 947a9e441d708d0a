//! A leaf block: sorted keys, their values beside them, the bounds of the block, and links to both neighbours.
//!
//! Invariants:
//! - B1: unused keys hold the greatest image, so the search ignores the count; a rank is capped by the count.
//! - B2: keys are in `low .. high`; without a right neighbour `high` is infinite. The leftmost block's `low` is the
//!   least image.
//! - B3: the link between two neighbours, `next` of one and `prev` of the other, belongs to the latch of the left one.
//! - B4: reading methods may run while the block changes: they bounds-check everything, and their result counts only
//!   after validation.

use super::node::Header;
use crate::pooled::Pooled;
use crate::search::{Lane, rank_at_most};
use foreshore_base::prefetch::prefetch_lines;
use foreshore_base::sync::{AtomicU64, Ordering::*};

/// Up to `F` entries.
#[repr(C, align(64))]
pub struct Leaf<L: Lane, const F: usize> {
    pub header: Header,
    low: L::Cell,
    high: L::Cell,
    next: AtomicU64,
    prev: AtomicU64,
    keys: Line<[L::Cell; F]>,
    values: [AtomicU64; F],
}

#[repr(C, align(64))]
struct Line<T>(T);

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<Leaf<u64, 64>>() == 17 * 64);

impl<L: Lane, const F: usize> Leaf<L, F> {
    /// The least number of entries that a block should have: the paper's ⌈m/2⌉.
    pub const MIN: usize = F.div_ceil(2);

    /// Makes an unreachable block empty, responsible for every key, with no neighbours.
    pub fn reset(&self) {
        self.header.reset(1);
        self.set_low(L::MIN);
        self.set_high(L::MAX);
        self.set_next(0);
        self.set_prev(0);
        self.keys.0.iter().for_each(|cell| L::MAX.store(cell));
    }

    #[inline(always)]
    pub fn prefetch(at: u64) {
        let leaf: *const Self = std::ptr::with_exposed_provenance(at as usize);
        prefetch_lines(leaf, size_of::<Self>());
    }

    // Reading (B4).

    #[inline(always)]
    pub fn low(&self) -> L {
        L::load(&self.low)
    }

    #[inline(always)]
    pub fn high(&self) -> L {
        L::load(&self.high)
    }

    /// The right neighbour, 0 = none.
    #[inline(always)]
    pub fn next(&self) -> u64 {
        // ORDERING: Acquire: a scan reads the neighbour without going through its parent.
        self.next.load(Acquire)
    }

    /// The left neighbour, 0 = none.
    pub fn prev(&self) -> u64 {
        // ORDERING: as `next`.
        self.prev.load(Acquire)
    }

    /// Is this the block that `key` belongs to?
    #[inline(always)]
    pub fn covers(&self, key: L) -> bool {
        self.low() <= key && (key < self.high() || self.next() == 0) && !self.header.is_dead()
    }

    /// The number of keys not above `key`.
    #[inline(always)]
    pub fn rank(&self, key: L) -> usize {
        rank_at_most::<L, F>(&self.keys.0, key).min(self.header.count())
    }

    #[inline(always)]
    pub fn key(&self, i: usize) -> L {
        L::load(&self.keys.0[i])
    }

    #[inline(always)]
    pub fn value(&self, i: usize) -> u64 {
        self.values[i].load(Relaxed)
    }

    /// The value of `key`.
    #[inline(always)]
    pub fn get(&self, key: L) -> Option<u64> {
        let last = self.rank(key).checked_sub(1)?;
        (self.key(last) == key).then(|| self.value(last))
    }

    /// Appends entries `from..to` to `out`, as far as there can be that many.
    pub fn copy(&self, from: usize, to: usize, out: &mut Vec<(L, u64)>) {
        out.reserve(F);
        let entries = self.keys.0.iter().zip(&self.values).take(to).skip(from);
        out.extend(entries.map(|(key, value)| (L::load(key), value.load(Relaxed))));
    }

    // Writing: the latch is held exclusively, or nobody else can reach the block.

    pub fn set_low(&self, low: L) {
        low.store(&self.low);
    }

    pub fn set_high(&self, high: L) {
        high.store(&self.high);
    }

    pub fn set_next(&self, next: u64) {
        self.next.store(next, Release);
    }

    pub fn set_prev(&self, prev: u64) {
        self.prev.store(prev, Release);
    }

    #[inline]
    pub fn has_room(&self) -> bool {
        self.header.count() < F
    }

    #[inline]
    pub fn set_value(&self, i: usize, value: u64) {
        self.values[i].store(value, Relaxed);
    }

    fn set(&self, i: usize, key: L, value: u64) {
        key.store(&self.keys.0[i]);
        self.set_value(i, value);
    }

    /// Adds an entry at rank `i`, for which there is room.
    #[inline]
    pub fn insert_at(&self, i: usize, key: L, value: u64) {
        let count = self.header.count();
        L::shift_up(&self.keys.0, i..count);
        u64::shift_up(&self.values, i..count);
        self.set(i, key, value);
        self.header.set_count(count + 1);
    }

    #[inline]
    pub fn remove_at(&self, i: usize) {
        let count = self.header.count();
        L::shift_down(&self.keys.0, i + 1..count);
        u64::shift_down(&self.values, i + 1..count);
        self.truncate(count - 1);
    }

    /// Moves entries `from..count` so that they begin at `to`.
    fn shift(&self, from: usize, to: usize, count: usize) {
        if to < from {
            (from..count).for_each(|i| self.key(i).store(&self.keys.0[to + i - from]));
            (from..count).for_each(|i| self.set_value(to + i - from, self.value(i)));
        } else {
            (from..count).rev().for_each(|i| self.key(i).store(&self.keys.0[to + i - from]));
            (from..count).rev().for_each(|i| self.set_value(to + i - from, self.value(i)));
        }
    }

    /// Forgets all entries from rank `count` on (B1).
    fn truncate(&self, count: usize) {
        (count..self.header.count()).for_each(|i| L::MAX.store(&self.keys.0[i]));
        self.header.set_count(count);
    }

    /// Moves entries from rank `at` on to `right`, an empty block, in front of whose `low` they belong from now on.
    pub fn move_upper(&self, at: usize, right: &Self) {
        let count = self.header.count();
        (at..count).for_each(|i| right.set(i - at, self.key(i), self.value(i)));
        right.header.set_count(count - at);
        self.truncate(at);
    }

    /// Takes the first `n` entries of the right neighbour.
    pub fn take_from_right(&self, right: &Self, n: usize) {
        let (count, theirs) = (self.header.count(), right.header.count());
        (0..n).for_each(|i| self.set(count + i, right.key(i), right.value(i)));
        self.header.set_count(count + n);
        right.shift(n, 0, theirs);
        right.truncate(theirs - n);
    }

    /// Takes the last `n` entries of the left neighbour.
    pub fn take_from_left(&self, left: &Self, n: usize) {
        let (count, theirs) = (self.header.count(), left.header.count());
        self.shift(0, n, count);
        (0..n).for_each(|i| self.set(i, left.key(theirs - n + i), left.value(theirs - n + i)));
        self.header.set_count(count + n);
        left.truncate(theirs - n);
    }

    /// Names a broken invariant inside the block.
    pub fn check(&self) -> Result<(), String> {
        let count = self.header.count();
        if let Some(i) = (1..count).find(|&i| self.key(i - 1) >= self.key(i)) {
            return Err(format!("order: entries {} and {i}", i - 1));
        }
        if (count..F).any(|i| self.key(i) != L::MAX) {
            return Err("B1: an unused key is not the greatest".into());
        }
        match (0..count).find(|&i| !self.covers(self.key(i))) {
            Some(i) => Err(format!("B2: entry {i} is outside of the block's bounds")),
            None => Ok(()),
        }
    }
}

impl<L: Lane, const F: usize> Pooled for Leaf<L, F> {
    #[cfg(any(shuttle, test))]
    fn vacant() -> Self {
        Self {
            header: Header::vacant(),
            low: L::MIN.cell(),
            high: L::MAX.cell(),
            next: AtomicU64::new(0),
            prev: AtomicU64::new(0),
            keys: Line(std::array::from_fn(|_| L::MAX.cell())),
            values: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    #[cfg(shuttle)]
    fn pooled(&self) -> &std::sync::atomic::AtomicBool {
        &self.header.pooled
    }
}
