//! What a node above the leaves has besides: the word behind each head.
//!
//! Why: keys such as URLs consist of few different words, so many separators of a node have the same head, and to compare tails one
//! after another is to toss a coin each time. With two words of each separator beside one another, a search takes as many steps as
//! in any other node, without a branch. There are few such nodes, so the memory does not count.
//! The node says whether heads are equal; where none are, these words are not read.

use super::{BytesNode, second_of};
use crate::pooled::Pooled;
use crate::search::Lane;
use foreshore_base::prefetch::prefetch_lines;
use foreshore_base::sync::{AtomicU64, Ordering::Relaxed};
use std::hint::select_unpredictable;
use std::ops::Range;

/// A node above the leaves.
#[repr(C, align(64))]
pub(super) struct BytesInner<const F: usize, const H: usize> {
    node: BytesNode<F, H>,
    seconds: [AtomicU64; F],
}

impl<const F: usize, const H: usize> Pooled for BytesInner<F, H> {
    #[cfg(any(shuttle, test))]
    fn vacant() -> Self {
        Self { node: BytesNode::vacant(), seconds: std::array::from_fn(|_| AtomicU64::new(u64::MAX)) }
    }

    #[cfg(shuttle)]
    fn pooled(&self) -> &std::sync::atomic::AtomicBool {
        self.node.pooled()
    }
}

/// The second words of a node above the leaves: those behind the heads. Unused ones are the greatest (Y2).
#[derive(Clone, Copy)]
pub(super) struct Seconds<'n, const F: usize>(&'n [AtomicU64; F]);

impl<const F: usize, const H: usize> BytesNode<F, H> {
    /// The second words, if this is above the leaves.
    #[inline(always)]
    pub(super) fn seconds(&self) -> Option<Seconds<'_, F>> {
        if self.header.level() == 0 {
            return None;
        }
        let inner = std::ptr::with_exposed_provenance::<BytesInner<F, H>>(std::ptr::from_ref(self).addr());
        // SAFETY: a node that is not a leaf was taken from the pool as this, and has its level as long as it can be reached.
        Some(Seconds(unsafe { &(*inner).seconds }))
    }

    /// Which entries have this head and second word; all before them have lower ones, all behind higher ones.
    #[inline(always)]
    pub(super) fn entries_with(&self, seconds: Seconds<F>, head: u64, second: u64) -> Range<usize> {
        let wanted = pair(head, second);
        let end = self.pairs_up_to(seconds, wanted);
        if end == 0 || self.pair_at(seconds, end - 1) != wanted {
            return end..end;
        }
        wanted.checked_sub(1).map_or(0, |below| self.pairs_up_to(seconds, below))..end
    }

    /// Entries of which both words are not above these. In as many steps whatever the count, and without a branch.
    #[inline(always)]
    fn pairs_up_to(&self, seconds: Seconds<F>, wanted: u128) -> usize {
        let (mut from, mut half) = (0, F / 2);
        while half > 0 {
            let is_passed = self.pair_at(seconds, from + half - 1) <= wanted;
            from = select_unpredictable(is_passed, from + half, from);
            half /= 2;
        }
        (from + usize::from(self.pair_at(seconds, from) <= wanted)).min(self.header.count())
    }

    #[inline(always)]
    fn pair_at(&self, seconds: Seconds<F>, i: usize) -> u128 {
        pair(self.head(i), seconds.get(i))
    }
}

/// Two words as one number.
#[inline(always)]
fn pair(head: u64, second: u64) -> u128 {
    u128::from(head) << 64 | u128::from(second)
}

impl<const F: usize> Seconds<'_, F> {
    /// Asks for all of them.
    #[inline(always)]
    pub fn prefetch(self) {
        prefetch_lines(self.0.as_ptr(), size_of_val(self.0));
    }

    #[inline(always)]
    pub fn get(self, i: usize) -> u64 {
        self.0[i].load(Relaxed)
    }

    pub fn set(self, i: usize, suffix: &[u8]) {
        self.0[i].store(second_of(suffix), Relaxed);
    }

    pub fn insert(self, i: usize, count: usize, suffix: &[u8]) {
        u64::shift_up(self.0, i..count);
        self.set(i, suffix);
    }

    pub fn remove(self, i: usize, count: usize) {
        u64::shift_down(self.0, i + 1..count);
    }

    pub fn clear(self, range: Range<usize>) {
        self.0[range].iter().for_each(|second| second.store(u64::MAX, Relaxed));
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::node::{Bias, Node, Place, Seen};
    use crate::pool;
    use std::sync::atomic::Ordering;

    const KEYS: [&str; 7] = [
        "weather/",
        "weather/archive/",
        "weather/archive/1.html",
        "weather/archive/2.html",
        "weather/images/",
        "weather/images/1.html",
        "x",
    ];

    /// A node above the leaves with these keys, whose heads are equal but for the last, behind one that means "no lower bound".
    fn inner() -> &'static BytesInner<16, 88> {
        // SAFETY: the pool gave it to us alone, and never gives its memory back to the system.
        let inner: &BytesInner<16, 88> = unsafe { pool::take().as_ref() };
        inner.node.reset(1);
        inner.node.insert_at(0, b"", 0);
        for (i, key) in KEYS.iter().enumerate() {
            inner.node.insert_at(i + 1, key.as_bytes(), 1);
        }
        inner
    }

    #[test]
    fn equal_heads_are_told_apart() {
        let BytesInner { node, .. } = inner();
        node.check().unwrap();
        assert!(node.has_ties());
        for (i, key) in KEYS.iter().enumerate() {
            for (bias, rank) in [(Bias::AtMost, i + 2), (Bias::Below, i + 1)] {
                let place = node.place(key.as_bytes(), bias, &Seen::Latched).unwrap();
                assert!(matches!(place, Place::Rank(at, true) if at == rank), "{key} {rank}");
            }
            let beside = node.place(format!("{key}!").as_bytes(), Bias::AtMost, &Seen::Latched).unwrap();
            assert!(matches!(beside, Place::Rank(at, false) if at == i + 2), "{key}");
        }
        node.remove_at(2, &crate::reclaim::Pin::new());
        node.check().unwrap();
    }

    #[test]
    fn a_wrong_second_word_is_found() {
        let inner = inner();
        inner.seconds[3].fetch_add(1, Ordering::Relaxed);
        assert_eq!(inner.node.check(), Err("Y7: the second word of entry 3".into()));
        inner.seconds[3].fetch_sub(1, Ordering::Relaxed);
        inner.node.set_ties(false);
        assert_eq!(inner.node.check(), Err("Y7: equal heads, and the node says that there are none".into()));
    }
}
