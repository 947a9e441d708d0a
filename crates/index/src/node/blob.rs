//! Long keys live outside of their node, whole and unchanging.
//!
//! Why: a node has a fixed size; a key longer than [`INLINE_MAX`] bytes would leave it room for too few others.
//!
//! Invariants:
//! - O1: a blob never changes between [`store`] and [`free`], so a reader whose address is validated reads plain bytes.
//! - O2: exactly one cell of one node owns a blob; it passes to another node by a split, not by copying.

/// Longer keys are stored outside, in bytes.
pub(crate) const INLINE_MAX: usize = 128;

/// Copies a key out of the way; returns its address.
pub(crate) fn store(key: &[u8]) -> u64 {
    // The box of a box has a thin address.
    let boxed: Box<Box<[u8]>> = Box::new(key.into());
    Box::into_raw(boxed).expose_provenance() as u64
}

/// The key at `address`.
///
/// # Safety
/// `address` came from [`store`], and whoever frees it waits for the caller, for as long as the result is used.
pub(crate) unsafe fn bytes<'a>(address: u64) -> &'a [u8] {
    // SAFETY: the caller says that a living box is there; O1 makes sharing it sound.
    unsafe { &*std::ptr::with_exposed_provenance::<Box<[u8]>>(address as usize) }
}

/// Frees a key.
///
/// # Safety
/// `address` came from [`store`], is freed once, and nobody uses it any more.
pub(crate) unsafe fn free(address: u64) {
    // SAFETY: by the caller.
    drop(unsafe { Box::from_raw(std::ptr::with_exposed_provenance_mut::<Box<[u8]>>(address as usize)) });
}
