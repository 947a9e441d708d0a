//! Copying bytes out of words that another thread may be changing, sixteen at a time; numbers at any offset,
//! and byte strings compared with them.
//!
//! Why: the compiler leaves relaxed loads as they are written: a word each, shifted where the bytes do not begin with a
//! word. A row of 300 bytes takes 250 instructions that way, and 60 with vectors. Each read of a row copies it.
//! As in the index's module `vector`, a vector load counts as relaxed loads of the words under it; here for copying, not for
//! searching.
//!
//! The vector path is compiled where it is known to hold (x86-64) and nobody looks over the accesses one by one (model
//! checkers, Miri); elsewhere a loop over words does the same.

use crate::bytes::le_uint;
use crate::sync::{AtomicU64, Ordering::Relaxed};
use std::cmp::Ordering;

const WORD: usize = 8;

/// Fills `out` with the bytes from byte `offset` of `words` on. Panics if they end before.
#[inline]
pub(crate) fn copy_out(words: &[AtomicU64], offset: usize, out: &mut [u8]) {
    assert!(
        offset.checked_add(out.len()).is_some_and(|end| end <= words.len() * WORD),
        "bytes within the words"
    );
    // SAFETY: `out` has room for its own length, and the words for the bytes, as just asserted.
    unsafe { copy_out_to(words, offset, out.as_mut_ptr(), out.len()) }
}

/// Appends `len` bytes from byte `offset` of `words` on to `out`. Panics if they end before.
#[inline]
pub(crate) fn append(words: &[AtomicU64], offset: usize, len: usize, out: &mut Vec<u8>) {
    assert!(offset.checked_add(len).is_some_and(|end| end <= words.len() * WORD), "bytes within the words");
    out.reserve(len);
    // SAFETY: the words hold the bytes, as asserted, `out` has room for `len` more, and they are written before they are
    // counted as its own.
    unsafe {
        copy_out_to(words, offset, out.as_mut_ptr().add(out.len()), len);
        out.set_len(out.len() + len);
    }
}

/// The loop of the two, inlined: short lengths take the way that the portable build takes.
///
/// # Safety
/// `words` has at least `offset + len` bytes, and `to` may be written for `len`.
#[inline(always)]
unsafe fn copy_out_to(words: &[AtomicU64], offset: usize, to: *mut u8, len: usize) {
    #[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
    if len >= vector::BYTES_MIN {
        // SAFETY: the caller's promise, and there are as many bytes as a vector has, as just seen.
        return unsafe { vector::copy(words.as_ptr().cast::<u8>().add(offset), to, len) };
    }
    let mut at = 0;
    while at < len {
        let step = WORD.min(len - at);
        let bytes = uint_at(words, offset + at, step).to_le_bytes();
        // SAFETY: `at + step` is at most `len`; a step has at most the eight bytes of a word.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.add(at), step) };
        at += step;
    }
}

/// The 8 bytes from byte `offset` on as a little-endian number. Panics if the words end before.
#[inline(always)]
pub(crate) fn u64_at(words: &[AtomicU64], offset: usize) -> u64 {
    #[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
    if offset.checked_add(WORD).is_some_and(|end| end <= words.len() * WORD) {
        // SAFETY: the words hold the bytes, as just seen.
        return unsafe { vector::load(words.as_ptr().cast::<u8>().add(offset)) };
    }
    let (index, shift) = (offset / WORD, (offset % WORD) * 8);
    let low = words[index].load(Relaxed) >> shift;
    if shift == 0 { low } else { low | words[index + 1].load(Relaxed) << (64 - shift) }
}

/// Up to 8 bytes from byte `offset` on as a little-endian number. Panics if the words end before.
#[inline(always)]
pub(crate) fn uint_at(words: &[AtomicU64], offset: usize, len: usize) -> u64 {
    debug_assert!(len <= WORD);
    if len == 0 {
        return 0;
    }
    #[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
    if offset.checked_add(WORD).is_some_and(|end| end <= words.len() * WORD) {
        return u64_at(words, offset) & (u64::MAX >> ((WORD - len) * 8));
    }
    let (index, within) = (offset / WORD, offset % WORD);
    let mut value = words[index].load(Relaxed) >> (within * 8);
    if within + len > WORD {
        value |= words[index + 1].load(Relaxed) << ((WORD - within) * 8);
    }
    if len == WORD { value } else { value & ((1 << (len * 8)) - 1) }
}

/// Compares the bytes from byte `offset` on with as many as `bytes` has, as byte strings. Panics if the words end before.
#[inline]
pub(crate) fn compare(words: &[AtomicU64], offset: usize, bytes: &[u8]) -> Ordering {
    if bytes.len() < WORD {
        return uint_at(words, offset, bytes.len()).swap_bytes().cmp(&le_uint(bytes).swap_bytes());
    }
    #[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
    if offset.checked_add(bytes.len()).is_some_and(|end| end <= words.len() * WORD) {
        // SAFETY: the words hold as many bytes, as just seen, and those are a word at least.
        return unsafe { vector::compare(words.as_ptr().cast::<u8>().add(offset), bytes) };
    }
    compare_by_words(words, offset, bytes)
}

/// Are the bytes from byte `offset` on these? Panics if they are more than 64, or the words end before. Without a loop, whose end would be
/// mispredicted where lengths differ from call to call.
#[inline]
pub(crate) fn equal(words: &[AtomicU64], offset: usize, bytes: &[u8]) -> bool {
    assert!(bytes.len() <= 64, "at most 64 bytes, not {}", bytes.len());
    if bytes.len() < WORD {
        return uint_at(words, offset, bytes.len()) == le_uint(bytes);
    }
    #[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
    if offset.checked_add(bytes.len()).is_some_and(|end| end <= words.len() * WORD) {
        // SAFETY: the words hold as many bytes, as just seen, and those are from 8 to 64.
        return unsafe { vector::equal(words.as_ptr().cast::<u8>().add(offset), bytes) };
    }
    compare_by_words(words, offset, bytes) == Ordering::Equal
}

/// The same for 8 bytes and more, wherever.
#[inline(never)]
pub(crate) fn compare_by_words(words: &[AtomicU64], offset: usize, bytes: &[u8]) -> Ordering {
    let last = bytes.len() - WORD;
    // The last word may overlap those before, which are equal.
    let starts = (0..last).step_by(WORD).chain([last]);
    let pairs = starts.map(|at| (u64_at(words, offset + at), le_uint(&bytes[at..at + WORD])));
    let differing = pairs.into_iter().find(|(ours, theirs)| ours != theirs);
    differing.map_or(Ordering::Equal, |(ours, theirs)| ours.swap_bytes().cmp(&theirs.swap_bytes()))
}

#[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
mod vector {
    use std::arch::asm;
    use std::cmp::Ordering;

    /// Reads 8 bytes, which need not be aligned, by one instruction where shifted words take ten.
    ///
    /// # Safety
    /// `from` can be read for 8 bytes, and lies within atomic words, which others may be writing.
    #[inline(always)]
    pub unsafe fn load(from: *const u8) -> u64 {
        let value: u64;
        // SAFETY: the caller's promise. As in `copy`: relaxed loads of the one or two aligned words under the bytes, put
        // together.
        unsafe {
            asm!(
                "mov {value}, [{from}]",
                from = in(reg) from,
                value = lateout(reg) value,
                options(nostack, readonly, preserves_flags),
            );
        }
        value
    }

    /// The two words that cover from 8 to 16 bytes, which may overlap: what differs between them and `bytes`.
    ///
    /// # Safety
    /// `from` can be read for as many bytes, from 8 to 16, and lies within atomic words, which others may be writing.
    #[inline(always)]
    unsafe fn two_words(from: *const u8, bytes: &[u8]) -> [(u64, u64); 2] {
        // SAFETY: both words are within as many bytes.
        [0, bytes.len() - 8]
            .map(|at| unsafe { (load(from.add(at)), bytes.as_ptr().add(at).cast::<u64>().read_unaligned()) })
    }

    /// Which of 16 bytes are equal, a bit each.
    ///
    /// # Safety
    /// Both can be read for 16 bytes; `from` lies within atomic words, which others may be writing.
    #[inline(always)]
    unsafe fn equal_bytes(from: *const u8, to: *const u8) -> u32 {
        let equal;
        // SAFETY: the caller's promise; as in `copy`.
        unsafe {
            asm!(
                "movdqu {x}, [{from}]",
                "movdqu {y}, [{to}]",
                "pcmpeqb {x}, {y}",
                "pmovmskb {equal:e}, {x}",
                from = in(reg) from,
                to = in(reg) to,
                equal = lateout(reg) equal,
                x = out(xmm_reg) _,
                y = out(xmm_reg) _,
                options(nostack, readonly, preserves_flags),
            );
        }
        equal
    }

    /// Are as many bytes as there are in `bytes`, from 8 to 64, the same? Without a loop: vectors, or words, that may overlap.
    ///
    /// # Safety
    /// `from` can be read for as many bytes, and lies within atomic words, which others may be writing.
    #[inline(always)]
    pub unsafe fn equal(from: *const u8, bytes: &[u8]) -> bool {
        if bytes.len() < 16 {
            // SAFETY: the caller's promise.
            let [first, last] = unsafe { two_words(from, bytes) };
            return (first.0 ^ first.1) | (last.0 ^ last.1) == 0;
        }
        let last = bytes.len() - 16;
        // SAFETY: 16 bytes from `last`, or from before it, are within both.
        let equal = [0, 16, 32, 48]
            .map(|at| unsafe { equal_bytes(from.add(last.min(at)), bytes.as_ptr().add(last.min(at))) });
        equal[0] & equal[1] & equal[2] & equal[3] == 0xFFFF
    }

    /// Compares as many bytes as there are in `bytes`, at least 8.
    ///
    /// # Safety
    /// `from` can be read for as many bytes, and lies within atomic words, which others may be writing.
    #[inline(always)]
    pub unsafe fn compare(from: *const u8, bytes: &[u8]) -> Ordering {
        if bytes.len() < 16 {
            // SAFETY: the caller's promise.
            let [first, last] = unsafe { two_words(from, bytes) };
            let (ours, theirs) = if first.0 == first.1 { last } else { first };
            return ours.swap_bytes().cmp(&theirs.swap_bytes());
        }
        let last = bytes.len() - 16;
        let mut at = 0;
        loop {
            // SAFETY: `at` is at most `last`, so 16 bytes from there are within both.
            let equal = unsafe { equal_bytes(from.add(at), bytes.as_ptr().add(at)) };
            if equal != 0xFFFF {
                // What is before the byte that differs is equal, so it decides between the words that it is in.
                let different = (at + equal.trailing_ones() as usize).min(bytes.len() - 8);
                // SAFETY: 8 bytes from there are within both.
                let (ours, theirs) = unsafe {
                    (load(from.add(different)), bytes.as_ptr().add(different).cast::<u64>().read_unaligned())
                };
                return ours.swap_bytes().cmp(&theirs.swap_bytes());
            }
            if at == last {
                return Ordering::Equal;
            }
            at = (at + 16).min(last);
        }
    }

    /// Fewer bytes are copied word by word.
    pub const BYTES_MIN: usize = 16;

    /// Copies `len` ≥ [`BYTES_MIN`] bytes: whole vectors from the front, and one that ends with the last byte.
    ///
    /// # Safety
    /// `from` can be read and `to` written for `len` bytes, which are not fewer than [`BYTES_MIN`]; `from` lies within
    /// atomic words, which others may be writing.
    #[inline(always)]
    pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the loop stays below `last`, the last vector ends at `len`. What `asm!` does must be what Rust could have done: it
        // is relaxed loads of the aligned words under each vector, put together. No processor is known to tear an
        // aligned word under a vector, though the manuals promise that of aligned vectors only; that words next to each other are
        // of different ages is what relaxed loads allow. Either way the reader's validation tells. SSE2 is part of every x86-64.
        unsafe {
            asm!(
                "2:",
                "movdqu {x}, [{from} + {at}]",
                "movdqu [{to} + {at}], {x}",
                "add {at}, 16",
                "cmp {at}, {last}",
                "jb 2b",
                "movdqu {x}, [{from} + {last}]",
                "movdqu [{to} + {last}], {x}",
                from = in(reg) from,
                to = in(reg) to,
                at = inout(reg) 0usize => _,
                last = in(reg) len - BYTES_MIN,
                x = out(xmm_reg) _,
                options(nostack),
            );
        }
    }
}
