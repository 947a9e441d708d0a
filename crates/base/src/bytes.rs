//! Bytes that may be read while another thread changes them.
//!
//! Why: an optimistic reader looks at a page under a writer's hands. In Rust that is undefined behaviour unless both
//! sides use atomics, so pages are arrays of relaxed atomic words, and bytes are cut out of words.
//! Differs from OLFIT §4: the paper reads nodes with plain loads.
//!
//! Invariants:
//! - B1: every offset is checked against the length (a panic names it): a torn length can never reach outside memory.
//!   Optimistic readers check lengths themselves first and restart instead.
//! - B2: byte order inside a word is little-endian whatever the machine, so memory images are disk images.
//! - B3: writers hold the exclusive latch; a sub-word write is a load and a store, not a read-modify-write.

use crate::copy;
use crate::prefetch::prefetch_lines;
use crate::sync::{AtomicU64, Ordering::Relaxed};
use std::cmp::Ordering;

const WORD: usize = 8;

/// A run of 64-bit words, each read and written by one relaxed atomic access.
///
/// ```
/// use foreshore_base::RelaxedBytes;
///
/// let words = RelaxedBytes::boxed(32);
/// let bytes = RelaxedBytes::new(&words);
/// bytes.write(5, b"across words");
/// assert_eq!(bytes.u16_at(5), u16::from_le_bytes(*b"ac"));
/// let mut copy = [0; 12];
/// bytes.read(5, &mut copy);
/// assert_eq!(&copy, b"across words");
/// assert!(bytes.equal(5, b"across") && bytes.compare(5, 6, b"along").is_lt());
/// ```
#[repr(transparent)]
pub struct RelaxedBytes([AtomicU64]);

impl std::fmt::Debug for RelaxedBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RelaxedBytes[{}]", self.len())
    }
}

impl RelaxedBytes {
    /// Views words as bytes.
    pub fn new(words: &[AtomicU64]) -> &Self {
        // SAFETY: `RelaxedBytes` is `repr(transparent)` over `[AtomicU64]`.
        unsafe { &*(std::ptr::from_ref(words) as *const Self) }
    }

    /// Zeroed memory of `len` bytes, for tests and buffers. Panics if `len` is no multiple of 8.
    pub fn boxed(len: usize) -> Box<[AtomicU64]> {
        assert_eq!(len % WORD, 0, "a length in whole words");
        (0..len / WORD).map(|_| AtomicU64::new(0)).collect()
    }

    /// Length in bytes, a multiple of 8.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len() * WORD
    }

    /// Is there nothing here?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The words themselves.
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        &self.0
    }

    /// Word number `index` (byte offset = 8 × index).
    #[inline]
    pub fn word(&self, index: usize) -> u64 {
        self.0[index].load(Relaxed)
    }

    /// Writes word number `index`.
    #[inline]
    pub fn set_word(&self, index: usize, value: u64) {
        self.0[index].store(value, Relaxed);
    }

    /// Asks the processor to fetch the cache lines of `len` bytes at `offset`. A hint: reads nothing, and offsets
    /// beyond the end are left out.
    #[inline]
    pub fn prefetch(&self, offset: usize, len: usize) {
        const LINE: usize = 64;
        let from = offset & !(LINE - 1);
        if let Some(word) = self.0.get(from / WORD) {
            let end = (offset + len).min(self.len());
            prefetch_lines(word, end.saturating_sub(from));
        }
    }

    /// Reads the 8 bytes at `offset`, which need not be aligned, as a little-endian number.
    #[inline]
    pub fn u64_at(&self, offset: usize) -> u64 {
        copy::u64_at(&self.0, offset)
    }

    /// Reads up to 8 bytes at `offset` (`len` ≤ 8) as a little-endian number.
    #[inline]
    pub fn uint_at(&self, offset: usize, len: usize) -> u64 {
        copy::uint_at(&self.0, offset, len)
    }

    /// The 16-bit number at `offset`; it may straddle words.
    #[inline]
    pub fn u16_at(&self, offset: usize) -> u16 {
        self.uint_at(offset, 2) as u16
    }

    /// Writes the low `len` ≤ 8 bytes of `value` at `offset`. Exclusive latch required (B3).
    #[inline]
    pub fn set_uint(&self, offset: usize, len: usize, value: u64) {
        debug_assert!(len <= WORD);
        if len == 0 {
            return;
        }
        let (index, within) = (offset / WORD, offset % WORD);
        let mask = if len == WORD { u64::MAX } else { (1 << (len * 8)) - 1 };
        let value = value & mask;
        let old = self.word(index);
        self.set_word(index, old & !(mask << (within * 8)) | value << (within * 8));
        if within + len > WORD {
            let done = (WORD - within) * 8;
            let old = self.word(index + 1);
            self.set_word(index + 1, old & !(mask >> done) | value >> done);
        }
    }

    /// Copies the bytes at `offset` out.
    #[inline]
    pub fn read(&self, offset: usize, out: &mut [u8]) {
        copy::copy_out(&self.0, offset, out);
    }

    /// Appends `len` bytes at `offset` to `out`.
    #[inline]
    pub fn append_to(&self, offset: usize, len: usize, out: &mut Vec<u8>) {
        copy::append(&self.0, offset, len, out);
    }

    /// Copies `bytes` in at `offset`. Exclusive latch required (B3).
    #[inline]
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        let mut at = offset;
        let mut rest = bytes;
        let lead = (WORD - at % WORD) % WORD;
        if lead > 0 {
            let (head, tail) = rest.split_at(lead.min(rest.len()));
            self.set_uint(at, head.len(), le_uint(head));
            at += head.len();
            rest = tail;
        }
        let (whole, rest) = rest.as_chunks::<WORD>();
        for (word, bytes) in self.0[at / WORD..][..whole.len()].iter().zip(whole) {
            word.store(u64::from_le_bytes(*bytes), Relaxed);
        }
        self.set_uint(at + whole.len() * WORD, rest.len(), le_uint(rest));
    }

    /// Moves words `from..from + count` to begin at word `to`; the ranges may overlap. Exclusive latch required (B3).
    #[inline]
    pub fn move_words(&self, from: usize, to: usize, count: usize) {
        let pairs = self.0[to..to + count].iter().zip(&self.0[from..from + count]);
        if to <= from {
            pairs.for_each(|(to, from)| to.store(from.load(Relaxed), Relaxed));
        } else {
            pairs.rev().for_each(|(to, from)| to.store(from.load(Relaxed), Relaxed));
        }
    }

    /// Are the bytes at `offset` these? Panics if they are more than 64, or end behind the words.
    #[inline]
    pub fn equal(&self, offset: usize, bytes: &[u8]) -> bool {
        copy::equal(&self.0, offset, bytes)
    }

    /// Compares the `len` bytes at `offset` with `key`, as byte strings.
    #[inline]
    pub fn compare(&self, offset: usize, len: usize, key: &[u8]) -> Ordering {
        copy::compare(&self.0, offset, &key[..len.min(key.len())]).then(len.cmp(&key.len()))
    }
}

/// Up to 8 bytes as a little-endian number. By cases, with loads that overlap: a copy of unknown length is a call.
#[inline]
pub fn le_uint(bytes: &[u8]) -> u64 {
    debug_assert!(bytes.len() <= WORD);
    if let Ok(whole) = bytes.try_into() {
        return u64::from_le_bytes(whole);
    }
    if let (Some(low), Some(high)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let high = u64::from(u32::from_le_bytes(*high)) << ((bytes.len() - 4) * 8);
        return u64::from(u32::from_le_bytes(*low)) | high;
    }
    if let (Some(low), Some(high)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let high = u64::from(u16::from_le_bytes(*high)) << ((bytes.len() - 2) * 8);
        return u64::from(u16::from_le_bytes(*low)) | high;
    }
    bytes.first().map_or(0, |byte| u64::from(*byte))
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Any write reads back, and touches nothing beside it.
        #[test]
        fn writes_read_back(offset in 0usize..40, data in proptest::collection::vec(any::<u8>(), 0..40)) {
            let words = RelaxedBytes::boxed(96);
            let bytes = RelaxedBytes::new(&words);
            bytes.write(0, &[0xAA; 96]);
            bytes.write(offset, &data);
            let mut model = vec![0xAA; 96];
            model[offset..offset + data.len()].copy_from_slice(&data);
            let mut all = vec![0; 96];
            bytes.read(0, &mut all);
            prop_assert_eq!(&all, &model);
            let mut part = Vec::new();
            bytes.append_to(offset, data.len(), &mut part);
            prop_assert_eq!(&part, &data);
            prop_assert_eq!(bytes.u16_at(offset), u16::from_le_bytes(model[offset..offset + 2].try_into().unwrap()));
            prop_assert_eq!(bytes.u64_at(offset), u64::from_le_bytes(model[offset..offset + 8].try_into().unwrap()));
        }

        /// Comparison is that of byte strings.
        #[test]
        fn compares_as_byte_strings(
            offset in 0usize..16,
            same in proptest::collection::vec(0u8..3, 0..45),
            ours in proptest::collection::vec(0u8..3, 0..20),
            theirs in proptest::collection::vec(0u8..3, 0..20),
        ) {
            let words = RelaxedBytes::boxed(80);
            let bytes = RelaxedBytes::new(&words);
            let (ours, theirs) = ([&same[..], &ours].concat(), [&same[..], &theirs].concat());
            bytes.write(offset, &ours);
            prop_assert_eq!(bytes.compare(offset, ours.len(), &theirs), ours.cmp(&theirs));
            let len = theirs.len().min(ours.len()).min(64);
            prop_assert_eq!(bytes.equal(offset, &theirs[..len]), ours[..len] == theirs[..len]);
            let common = &theirs[..theirs.len().min(ours.len())];
            if common.len() >= WORD {
                let portable = copy::compare_by_words(&bytes.0, offset, common);
                prop_assert_eq!(portable, ours[..common.len()].cmp(common));
            }
        }

        /// Overlapping moves keep every word.
        #[test]
        fn moves_overlap(from in 0usize..8, to in 0usize..8, count in 0usize..8) {
            let words = RelaxedBytes::boxed(128);
            let bytes = RelaxedBytes::new(&words);
            for i in 0..16 { bytes.set_word(i, i as u64); }
            bytes.move_words(from, to, count);
            let mut model: Vec<u64> = (0..16).collect();
            model.copy_within(from..from + count, to);
            prop_assert_eq!((0..16).map(|i| bytes.word(i)).collect::<Vec<_>>(), model);
        }
    }
}
