//! Long keys live outside of their node, whole and unchanging.
//!
//! Why: a node has a fixed size; a key longer than [`INLINE_MAX`] bytes would leave it room for too few others.
//!
//! One piece of memory, so that who has the address waits for it once: `length (word) | bytes`.
//!
//! Invariants:
//! - O1: a blob never changes between [`store`] and [`free`], so a reader whose address is validated reads plain bytes.
//! - O2: exactly one cell of one node owns a blob; it passes to another node by a split, not by copying.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{self, NonNull};
use std::slice;

/// Longer keys are stored outside, in bytes.
pub(crate) const INLINE_MAX: usize = 128;

/// What a blob takes besides its bytes.
pub(crate) const LENGTH_BYTES: usize = size_of::<usize>();

/// Copies a key out of the way; returns its address, which is that of a word.
///
/// Panics if the key is longer than half of the address space.
pub(crate) fn store(key: &[u8]) -> u64 {
    let layout = layout(key.len());
    // SAFETY: the size is not zero.
    let Some(blob) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
    // SAFETY: the memory is new, aligned for a length, and large enough for it and the bytes behind it.
    unsafe {
        blob.cast::<usize>().write(key.len());
        blob.add(LENGTH_BYTES).copy_from_nonoverlapping(NonNull::from(key).cast(), key.len());
    }
    blob.as_ptr().expose_provenance() as u64
}

/// The key at `address`.
///
/// # Safety
/// `address` came from [`store`], and whoever frees it waits for the caller, for as long as the result is used.
#[inline]
pub(crate) unsafe fn bytes<'a>(address: u64) -> &'a [u8] {
    let blob = ptr::with_exposed_provenance::<u8>(address as usize);
    // SAFETY: the caller says that a living blob is there; O1 makes sharing it sound.
    unsafe { slice::from_raw_parts(blob.add(LENGTH_BYTES), blob.cast::<usize>().read()) }
}

/// Frees a key.
///
/// # Safety
/// `address` came from [`store`], is freed once, and nobody uses it any more.
pub(crate) unsafe fn free(address: u64) {
    let blob = ptr::with_exposed_provenance_mut::<u8>(address as usize);
    // SAFETY: by the caller it came from `store`, with this layout.
    unsafe { dealloc(blob, layout(blob.cast::<usize>().read())) };
}

fn layout(len: usize) -> Layout {
    Layout::from_size_align(LENGTH_BYTES + len, align_of::<usize>()).expect("a key that fits memory")
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn keys_of_any_length_come_back() {
        for len in [0, 1, 7, 8, 129, 70_000] {
            let key: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let address = store(&key);
            assert!(address.is_multiple_of(align_of::<usize>() as u64));
            // SAFETY: just stored, and freed once.
            unsafe {
                assert_eq!(bytes(address), key);
                free(address);
            }
        }
    }
}
