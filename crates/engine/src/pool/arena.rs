//! The memory under the frames: one mapping in huge pages, kept as long as the pool lives.
//!
//! Why: TLB misses were a third of B+-tree lookups on small pages (multicore study, §4), and stale readers may look
//! at a frame long after it was given to another page, so its memory must stay what it is: words.

use foreshore_base::sync::AtomicU64;

/// Zeroed words that never move.
pub(super) struct Arena {
    #[cfg(not(any(loom, shuttle)))]
    mapping: mapped::Mapping,
    #[cfg(any(loom, shuttle))]
    words: Box<[AtomicU64]>,
}

impl Arena {
    /// Maps `words` words.
    #[cfg(not(any(loom, shuttle)))]
    pub fn new(words: usize) -> std::io::Result<Self> {
        Ok(Self { mapping: mapped::Mapping::new(words)? })
    }

    /// A model checker's atomics are no plain words and live on the heap.
    #[cfg(any(loom, shuttle))]
    pub fn new(words: usize) -> std::io::Result<Self> {
        Ok(Self { words: (0..words).map(|_| AtomicU64::new(0)).collect() })
    }

    /// All of it.
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        #[cfg(not(any(loom, shuttle)))]
        return self.mapping.words();
        #[cfg(any(loom, shuttle))]
        &self.words
    }
}

#[cfg(not(any(loom, shuttle)))]
mod mapped {
    use super::AtomicU64;
    use std::io;
    use std::ptr::NonNull;

    const HUGE_PAGE_BYTES: usize = 2 << 20;

    pub struct Mapping {
        start: NonNull<libc::c_void>,
        bytes: usize,
        /// Offset of the first huge-page boundary.
        skip: usize,
        words: usize,
    }

    // SAFETY: the mapping is owned, and its contents are only ever reached as atomics.
    unsafe impl Send for Mapping {}
    // SAFETY: as above.
    unsafe impl Sync for Mapping {}

    impl Mapping {
        pub fn new(words: usize) -> io::Result<Self> {
            let wanted = words * size_of::<AtomicU64>();
            let bytes = wanted.next_multiple_of(HUGE_PAGE_BYTES) + HUGE_PAGE_BYTES;
            let (read_write, private) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: an anonymous private mapping at an address of the kernel's choice touches nothing that exists.
            let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, read_write, private, -1, 0) };
            if start == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            let start = NonNull::new(start).expect("a mapping is never at address zero");
            let skip = start.as_ptr().addr().wrapping_neg() % HUGE_PAGE_BYTES;
            // SAFETY: the advised range lies inside the mapping. Advice may be refused: small pages work too.
            unsafe {
                libc::madvise(start.as_ptr().byte_add(skip), bytes - HUGE_PAGE_BYTES, libc::MADV_HUGEPAGE)
            };
            Ok(Self { start, bytes, skip, words })
        }

        #[inline]
        pub fn words(&self) -> &[AtomicU64] {
            // SAFETY: `skip + words × 8 <= bytes`, the memory is zeroed by the kernel (a valid `AtomicU64`), aligned to
            // 2 MiB, and lives as long as `self`.
            unsafe { std::slice::from_raw_parts(self.start.byte_add(self.skip).cast().as_ptr(), self.words) }
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: mapped by `new` with these bounds; `&mut self` proves that no slice is alive.
            unsafe { libc::munmap(self.start.as_ptr(), self.bytes) };
        }
    }
}
