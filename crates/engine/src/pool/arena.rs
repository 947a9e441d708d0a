//! The memory under the frames: one mapping in huge pages, kept as long as the pool lives.
//!
//! Why: TLB misses were a third of B+-tree lookups on small pages (multicore study, §4), and stale readers may look
//! at a frame long after it was given to another page, so its memory must stay what it is: words.

#[cfg(not(any(loom, shuttle)))]
use foreshore_base::mapping::{HUGE_PAGE_BYTES, Mapping};
use foreshore_base::sync::AtomicU64;

/// Zeroed words that never move.
pub(super) struct Arena {
    #[cfg(not(any(loom, shuttle)))]
    mapping: Mapping,
    #[cfg(not(any(loom, shuttle)))]
    words: usize,
    #[cfg(any(loom, shuttle))]
    words: Box<[AtomicU64]>,
}

impl Arena {
    /// Maps `words` words.
    #[cfg(not(any(loom, shuttle)))]
    pub fn new(words: usize) -> std::io::Result<Self> {
        let bytes = (words * size_of::<AtomicU64>()).next_multiple_of(HUGE_PAGE_BYTES);
        Ok(Self { mapping: Mapping::zeroed(bytes, true)?, words })
    }

    /// A model checker's atomics are no plain words and live on the heap.
    #[cfg(any(loom, shuttle))]
    pub fn new(words: usize) -> std::io::Result<Self> {
        Ok(Self { words: (0..words).map(|_| AtomicU64::new(0)).collect() })
    }

    /// All of it.
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: so many were mapped, of zeros, which are atomics, reached as nothing else, and live as long as `self`.
        #[cfg(not(any(loom, shuttle)))]
        return unsafe { std::slice::from_raw_parts(self.mapping.first().as_ptr(), self.words) };
        #[cfg(any(loom, shuttle))]
        &self.words
    }
}
