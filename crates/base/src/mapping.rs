//! Memory of one owner, in huge pages or expressly not, given back with it.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::io;
use std::ptr::{NonNull, null_mut};

/// Bytes of a huge page.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Zeros at the beginning of a page; of a huge page, if there are enough to fill one.
pub struct Mapping {
    mapped: NonNull<c_void>,
    mapped_bytes: usize,
    first: NonNull<c_void>,
}

// SAFETY: the mapping is owned. What is done through the addresses that it tells is for who does it to answer for.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Address space is taken at once, memory as it is used.
    ///
    /// Errors: the system has none.
    pub fn zeroed(bytes: usize, huge_pages: bool) -> io::Result<Self> {
        let aligned = bytes >= HUGE_PAGE_BYTES;
        let mapped_bytes = if aligned { bytes + HUGE_PAGE_BYTES } else { bytes.max(1) };
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new anonymous mapping, wherever the system likes.
        let mapped = unsafe { mmap_anonymous(null_mut(), mapped_bytes, protection, flags) }?;
        let skipped = if aligned { mapped.align_offset(HUGE_PAGE_BYTES) } else { 0 };
        let first = mapped.wrapping_byte_add(skipped);
        if aligned {
            let advice = if huge_pages { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
            // SAFETY: the advice concerns only the mapping above. A system without huge pages refuses it, and all works.
            let _ = unsafe { madvise(first, bytes, advice) };
        }
        let [mapped, first] = [mapped, first].map(|at| NonNull::new(at).expect("a mapping is not at 0"));
        Ok(Self { mapped, mapped_bytes, first })
    }

    /// Where the zeros begin.
    #[inline]
    pub fn first<T>(&self) -> NonNull<T> {
        const { assert!(align_of::<T>() <= 4096) }
        self.first.cast()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this mapping is ours, whole, and its owner, who goes, let nobody else have more than a borrow of it.
        let unmapped = unsafe { munmap(self.mapped.as_ptr(), self.mapped_bytes) };
        debug_assert!(unmapped.is_ok(), "an own mapping can be unmapped");
    }
}
