//! Heap memory that direct I/O accepts.
//!
//! Why: `O_DIRECT` transfers want memory aligned to the device's block, which `Vec<u8>` does not promise.

use crate::BLOCK_BYTES;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Bytes on the heap, zeroed at first, starting at a multiple of [`BLOCK_BYTES`].
pub struct AlignedBuf {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to this value alone, as a `Box<[u8]>`'s would.
unsafe impl Send for AlignedBuf {}
// SAFETY: as above; `&AlignedBuf` gives only `&[u8]`.
unsafe impl Sync for AlignedBuf {}

impl AlignedBuf {
    /// Memory of `bytes` zeros.
    ///
    /// Panics: if `bytes` is 0. Aborts if there is no memory, as `Vec` does.
    pub fn zeroed(bytes: usize) -> Self {
        assert!(bytes > 0, "an aligned buffer of no bytes");
        let layout = Self::layout(bytes);
        // SAFETY: the layout's size is not 0.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        Self { start, bytes }
    }

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, BLOCK_BYTES).expect("a buffer smaller than the address space")
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with this same layout, and freed only here.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.bytes)) }
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `bytes` initialized bytes that live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuf[{}]", self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_zeroed_and_writable() {
        for bytes in [1, BLOCK_BYTES - 1, BLOCK_BYTES, 3 * BLOCK_BYTES + 8] {
            let mut buf = AlignedBuf::zeroed(bytes);
            assert_eq!(buf.as_ptr().addr() % BLOCK_BYTES, 0);
            assert_eq!(buf.len(), bytes);
            assert!(buf.iter().all(|&byte| byte == 0));
            buf.fill(7);
            assert!(buf.iter().all(|&byte| byte == 7));
        }
    }
}
