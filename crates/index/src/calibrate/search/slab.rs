//! Memory for the nodes of one tree, in huge pages or expressly not.
//!
//! Why: the maps' pool always asks for huge pages, and keeps its memory for ever. An experiment wants both kinds, side by
//! side, and to give the memory back.
//!
//! Invariants:
//! - B1: the first `len` places hold a value each, which stays where it is until the slab goes.

use foreshore_base::mapping::{HUGE_PAGE_BYTES, Mapping};
use std::ops::Index;
use std::ptr::NonNull;

/// Places for values, numbered from 0.
pub(super) struct Slab<N> {
    first: NonNull<N>,
    len: usize,
    capacity: usize,
    _memory: Mapping,
}

impl<N> Slab<N> {
    /// Room for so many. Panics if the system has none.
    pub fn new(capacity: usize, huge_pages: bool) -> Self {
        let bytes = (capacity * size_of::<N>()).next_multiple_of(HUGE_PAGE_BYTES);
        let memory = Mapping::zeroed(bytes, huge_pages).expect("memory for an index");
        Self { first: memory.first(), len: 0, capacity, _memory: memory }
    }

    /// Puts a value into the next place; returns its number. Panics if all are taken.
    pub fn push(&mut self, value: N) -> usize {
        assert!(self.len < self.capacity, "a slab of {} places is full", self.capacity);
        // SAFETY: the place is within the mapping, aligned as `first` is, and holds nothing yet (B1).
        unsafe { self.first.add(self.len).write(value) };
        self.len += 1;
        self.len - 1
    }
}

impl<N> Index<usize> for Slab<N> {
    type Output = N;

    #[inline(always)]
    fn index(&self, i: usize) -> &N {
        assert!(i < self.len, "place {i} of {}", self.len);
        // SAFETY: the place holds a value (B1), which nobody borrows mutably: there is no way to.
        unsafe { self.first.add(i).as_ref() }
    }
}

impl<N> Drop for Slab<N> {
    fn drop(&mut self) {
        for i in 0..self.len {
            // SAFETY: the place holds a value (B1), and nobody comes to it again.
            unsafe { self.first.add(i).drop_in_place() };
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn values_stay_in_their_places() {
        for huge_pages in [false, true] {
            let mut slab = Slab::new(100_000, huge_pages);
            for i in 0..100_000 {
                assert_eq!(slab.push([i; 3]), i);
            }
            assert!((0..100_000).all(|i| slab[i] == [i; 3]));
        }
    }

    #[test]
    #[should_panic(expected = "a slab of 1 places is full")]
    fn a_full_slab_takes_nothing() {
        let mut slab = Slab::new(1, false);
        slab.push(1);
        slab.push(2);
    }
}
