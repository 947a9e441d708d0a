//! Integers in huge pages, for one structure, given back with it.

use super::PackedLane;
use foreshore_base::Mapping;
use foreshore_base::prefetch::prefetch_lines;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// `len` integers at the beginning of a cache line; of a huge page, if there are enough to fill one.
pub(super) struct HugeSlice<T: PackedLane> {
    first: NonNull<T>,
    len: usize,
    _memory: Mapping,
}

// SAFETY: it owns its memory, as a `Box<[T]>` would.
unsafe impl<T: PackedLane> Send for HugeSlice<T> {}
// SAFETY: as above; shared access only reads.
unsafe impl<T: PackedLane> Sync for HugeSlice<T> {}

impl<T: PackedLane> HugeSlice<T> {
    /// Zeros. Panics if the system has no memory.
    pub fn zeroed(len: usize) -> Self {
        let memory = Mapping::zeroed(len * size_of::<T>(), true).expect("memory for an index");
        Self { first: memory.first(), len, _memory: memory }
    }

    /// Asks for the lines of `count` elements, which need not exist.
    #[inline(always)]
    pub fn prefetch(&self, i: usize, count: usize) {
        prefetch_lines(self.first.as_ptr().wrapping_add(i), count * size_of::<T>());
    }
}

impl<T: PackedLane> Deref for HugeSlice<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `zeroed` mapped room for `len` of them, aligned to a page, of zeros, which are a value
        // (`PackedLane`); nobody else knows it.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<T: PackedLane> DerefMut for HugeSlice<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.len) }
    }
}
