//! Copying cells out of a node, by whole lines where the processor has vectors.
//!
//! Why: a scan copies what it visits, and compilers make no vectors of atomic accesses: one by one that is a load and a store
//! for each key and each word.
//!
//! The node may change meanwhile. The copy is any mixture of old and new cells then, and the reader, who validates, does not
//! believe it (S2 of the search).

use crate::search::Lane;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Copies the cells of a range to the same places of `out`, one by one. Panics if there are not as many.
#[inline(always)]
pub(crate) fn out_one_by_one<L: Lane>(cells: &[L::Cell], range: Range<usize>, out: &mut [MaybeUninit<L>]) {
    let out = &mut out[range.clone()];
    cells[range].iter().zip(out).for_each(|(cell, out)| _ = out.write(L::load(cell)));
}

/// The same, with what else is in the lines of these cells, if all cells are whole lines and the processor can copy one at once.
///
/// # Safety
/// A cell is nothing but atomics, and has the bytes of the image that it holds.
#[inline(always)]
pub(crate) unsafe fn out_by_lines<L: Lane>(
    cells: &[L::Cell],
    range: Range<usize>,
    out: &mut [MaybeUninit<L>],
) {
    #[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
    {
        use avx2::LINE_BYTES;
        const { assert!(size_of::<L>() == size_of::<L::Cell>()) };
        let per_line = LINE_BYTES / size_of::<L>();
        let whole = LINE_BYTES.is_multiple_of(size_of::<L>()) && cells.len().is_multiple_of(per_line);
        if whole && !range.is_empty() && crate::vector::has_avx2() {
            let range = range.start / per_line * per_line..range.end.next_multiple_of(per_line);
            let (from, to) = (&cells[range.clone()], &mut out[range]);
            // SAFETY: the processor has AVX2; there are whole lines to read, at least one, of atomics as the caller says, and
            // as many bytes may be written.
            unsafe { avx2::copy_lines(from.as_ptr().cast(), to.as_mut_ptr().cast(), size_of_val(from)) };
            return;
        }
    }
    out_one_by_one(cells, range, out);
}

#[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
mod avx2 {
    use std::arch::asm;

    pub const LINE_BYTES: usize = 64;

    /// Copies so many bytes, which are lines, at least one.
    ///
    /// # Safety
    /// The processor has AVX2. `from` can be read and `to` written for `bytes`, a multiple of [`LINE_BYTES`] and not 0; at `from`
    /// are aligned atomics of up to a word, which others may be writing.
    #[inline(always)]
    pub unsafe fn copy_lines(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: the loop goes from one line to the next up to `bytes`, which the caller may read and write. Cells are read as
        // by relaxed loads: a cell is aligned, so it lies in one line and does not come in pieces.
        unsafe {
            asm!(
                "2:",
                "vmovdqu ymm0, [{from} + {at}]",
                "vmovdqu ymm1, [{from} + {at} + 32]",
                "vmovdqu [{to} + {at}], ymm0",
                "vmovdqu [{to} + {at} + 32], ymm1",
                "add {at}, 64",
                "cmp {at}, {bytes}",
                "jb 2b",
                "vzeroupper",
                from = in(reg) from,
                to = in(reg) to,
                at = inout(reg) 0usize => _,
                bytes = in(reg) bytes,
                out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _, out("ymm4") _, out("ymm5") _,
                out("ymm6") _, out("ymm7") _, out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
                out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
                options(nostack),
            );
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Copies a range of so many cells, numbered by `cell`.
    fn range_comes_out<L: Lane>(
        len: usize,
        range: Range<usize>,
        cell: impl Fn(u64) -> L,
    ) -> Result<(), TestCaseError> {
        let images: Vec<L> = (0..len as u64).map(cell).collect();
        let cells: Vec<L::Cell> = images.iter().map(|image| image.cell()).collect();
        let mut out = vec![MaybeUninit::new(L::MAX); len];
        L::copy_out(&cells, range.clone(), &mut out);
        // SAFETY: all were initialized from the beginning.
        let out: Vec<L> = out.into_iter().map(|image| unsafe { image.assume_init() }).collect();
        prop_assert_eq!(&out[range.clone()], &images[range]);
        Ok(())
    }

    proptest! {
        /// Whatever the range and the width of cells, whole lines or not.
        #[test]
        fn copies_are_what_was_there(from in 0usize..40, count in 0usize..40, behind in 0usize..20) {
            for len in [from + count + behind, (from + count + behind).next_multiple_of(16)] {
                let range = from..from + count;
                range_comes_out(len, range.clone(), |i| i as u32)?;
                range_comes_out(len, range.clone(), |i| i << 32 | i)?;
                range_comes_out(len, range.clone(), |i| [i << 32 | i])?;
                range_comes_out(len, range.clone(), |i| [i, i << 32])?;
                range_comes_out(len, range, |i| [i, i << 8, i << 32])?;
            }
        }
    }

    #[test]
    #[should_panic]
    fn nothing_is_copied_beyond_the_end() {
        let cells: Vec<_> = (0..16_u64).map(Lane::cell).collect();
        u64::copy_out(&cells, 0..16, &mut [MaybeUninit::uninit(); 8]);
    }
}
