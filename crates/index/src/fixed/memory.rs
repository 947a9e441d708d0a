//! Memory in huge pages, for one structure, given back with it.

use super::PackedLane;
use foreshore_base::prefetch::prefetch_lines;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

const HUGE_PAGE_BYTES: usize = 2 << 20;

/// `len` integers at the beginning of a cache line; of a huge page, if there are enough to fill one.
pub(super) struct HugeSlice<T: PackedLane> {
    first: NonNull<T>,
    len: usize,
    mapping: NonNull<u8>,
    mapped_bytes: usize,
}

// SAFETY: it owns its memory, as a `Box<[T]>` would.
unsafe impl<T: PackedLane> Send for HugeSlice<T> {}
// SAFETY: as above; shared access only reads.
unsafe impl<T: PackedLane> Sync for HugeSlice<T> {}

impl<T: PackedLane> HugeSlice<T> {
    /// Zeros. Panics if the system has no memory.
    pub fn zeroed(len: usize) -> Self {
        let bytes = len * size_of::<T>();
        let huge = bytes >= HUGE_PAGE_BYTES;
        let mapped_bytes = if huge { bytes + HUGE_PAGE_BYTES } else { bytes.max(1) };
        // SAFETY: a new anonymous mapping, wherever the system likes.
        let mapping = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                mapped_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }
        .expect("memory for a static index")
        .cast::<u8>();
        let skipped = if huge { mapping.align_offset(HUGE_PAGE_BYTES) } else { 0 };
        let first = mapping.wrapping_add(skipped);
        if huge {
            // SAFETY: the advice concerns only the mapping above. Without huge pages all works, only slower.
            let _ = unsafe { madvise(first.cast(), bytes, Advice::LinuxHugepage) };
        }
        let not_null = "a mapping is not at 0";
        Self {
            first: NonNull::new(first.cast()).expect(not_null),
            len,
            mapping: NonNull::new(mapping).expect(not_null),
            mapped_bytes,
        }
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

impl<T: PackedLane> Drop for HugeSlice<T> {
    fn drop(&mut self) {
        // SAFETY: this mapping is ours, whole, and nobody refers to it any more.
        let unmapped = unsafe { munmap(self.mapping.as_ptr().cast(), self.mapped_bytes) };
        debug_assert!(unmapped.is_ok(), "an own mapping can be unmapped");
    }
}
