//! Making room for an entry, and closing the gap that one leaves: cells of an array move by one.
//!
//! Why: half of a leaf's keys and words move whenever one comes or goes. One by one that is a third of an insert's
//! instructions, for compilers make no vectors of atomic accesses.
//!
//! The node's latch is held. Readers may see cells half-way, which they do not believe (S2 of the search).

use crate::search::Lane;
use std::ops::Range;

/// Copies the cells of `range` one further, one by one.
#[inline(always)]
pub(crate) fn up_one_by_one<L: Lane>(cells: &[L::Cell], range: Range<usize>) {
    range.rev().for_each(|i| L::load(&cells[i]).store(&cells[i + 1]));
}

/// Copies the cells of `range` one back, one by one.
#[inline(always)]
pub(crate) fn down_one_by_one<L: Lane>(cells: &[L::Cell], range: Range<usize>) {
    range.for_each(|i| L::load(&cells[i]).store(&cells[i - 1]));
}

#[cfg(not(all(target_arch = "x86_64", not(any(loom, shuttle, miri)))))]
pub(crate) use absent::{down_pair, down_u32, down_u64, up_pair, up_u32, up_u64};
#[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
pub(crate) use avx2::{down_pair, down_u32, down_u64, up_pair, up_u32, up_u64};

#[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
mod avx2 {
    use crate::vector::has_avx2;
    use foreshore_base::sync::{AtomicU32, AtomicU64};
    use std::arch::asm;
    use std::ops::Range;

    const VECTOR_BYTES: usize = 32;

    macro_rules! shifts {
        ($up:ident, $down:ident, $cell:ty, $size:literal, $by:literal, $bytes:literal) => {
            #[doc = concat!("Copies the cells of `range` ", $by, " further, and says whether the processor can do that at once.")]
            #[inline(always)]
            pub fn $up(cells: &[$cell], range: Range<usize>) -> bool {
                const LANES: usize = VECTOR_BYTES / size_of::<$cell>();
                if range.len() < LANES || !has_avx2() {
                    return false;
                }
                assert!(cells.len().saturating_sub(range.end) >= $by, "cells to move");
                // SAFETY: the processor has the instructions; they read the cells of `range`, at least a vector, and write those so
                // many further, all within `cells`, from the last to the first. The first vector, which the others may overlap, is
                // read before and written after them. Cells are atomics, and accessed as by relaxed loads and stores: a cell is
                // aligned, so it lies in one line and does not come in pieces.
                unsafe {
                    asm!(
                        "vmovdqu ymm0, [{first}]",
                        "2:",
                        concat!("vmovdqu ymm1, [{first} + ", $size, "*{left} - 32]"),
                        concat!("vmovdqu [{first} + ", $size, "*{left} - 32 + ", $bytes, "], ymm1"),
                        "sub {left}, {lanes}",
                        "cmp {left}, {lanes}",
                        "jae 2b",
                        concat!("vmovdqu [{first} + ", $bytes, "], ymm0"),
                        "vzeroupper",
                        lanes = const LANES,
                        first = in(reg) cells[range.start..].as_ptr(),
                        left = inout(reg) range.len() => _,
                        out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _, out("ymm4") _, out("ymm5") _,
                        out("ymm6") _, out("ymm7") _, out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
                        out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
                        options(nostack),
                    );
                }
                true
            }

            #[doc = concat!("Copies the cells of `range` ", $by, " back, and says whether the processor can do that at once.")]
            #[inline(always)]
            pub fn $down(cells: &[$cell], range: Range<usize>) -> bool {
                const LANES: usize = VECTOR_BYTES / size_of::<$cell>();
                if range.len() < LANES || !has_avx2() {
                    return false;
                }
                assert!($by <= range.start && range.end <= cells.len(), "cells to move");
                // SAFETY: as above, but to those so many before, from the first to the last; so it is the last vector that is read
                // before and written after the others.
                unsafe {
                    asm!(
                        "vmovdqu ymm0, [{end} - 32]",
                        "2:",
                        concat!("vmovdqu ymm1, [{end} + ", $size, "*{left}]"),
                        concat!("vmovdqu [{end} + ", $size, "*{left} - ", $bytes, "], ymm1"),
                        "add {left}, {lanes}",
                        "cmp {left}, -{lanes}",
                        "jle 2b",
                        concat!("vmovdqu [{end} - 32 - ", $bytes, "], ymm0"),
                        "vzeroupper",
                        lanes = const LANES,
                        end = in(reg) cells.as_ptr_range().start.add(range.end),
                        left = inout(reg) -(range.len() as isize) => _,
                        out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _, out("ymm4") _, out("ymm5") _,
                        out("ymm6") _, out("ymm7") _, out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
                        out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
                        options(nostack),
                    );
                }
                true
            }
        };
    }

    shifts!(up_u64, down_u64, AtomicU64, "8", 1, "8");
    shifts!(up_pair, down_pair, AtomicU64, "8", 2, "16");
    shifts!(up_u32, down_u32, AtomicU32, "4", 1, "4");
}

#[cfg(not(all(target_arch = "x86_64", not(any(loom, shuttle, miri)))))]
mod absent {
    use foreshore_base::sync::{AtomicU32, AtomicU64};
    use std::ops::Range;

    pub fn up_u64(_cells: &[AtomicU64], _range: Range<usize>) -> bool {
        false
    }

    pub fn down_u64(_cells: &[AtomicU64], _range: Range<usize>) -> bool {
        false
    }

    pub fn up_pair(_cells: &[AtomicU64], _range: Range<usize>) -> bool {
        false
    }

    pub fn down_pair(_cells: &[AtomicU64], _range: Range<usize>) -> bool {
        false
    }

    pub fn up_u32(_cells: &[AtomicU32], _range: Range<usize>) -> bool {
        false
    }

    pub fn down_u32(_cells: &[AtomicU32], _range: Range<usize>) -> bool {
        false
    }
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests {
    use super::*;
    use foreshore_base::sync::AtomicU64;
    use proptest::prelude::*;

    /// Moves the cells of a range, numbered from 0 by `cell`, among so many, one further and one back.
    fn gap_opens_and_closes<L: Lane>(
        len: usize,
        range: Range<usize>,
        cell: impl Fn(u64) -> L,
    ) -> Result<(), TestCaseError> {
        let numbered = || (0..len as u64).map(|i| cell(i).cell()).collect::<Vec<_>>();
        let same = |at_once: &[L::Cell], one_by_one: &[L::Cell]| {
            at_once.iter().zip(one_by_one).all(|(a, b)| L::load(a) == L::load(b))
        };
        let (cells, others) = (numbered(), numbered());
        L::shift_up(&cells, range.clone());
        up_one_by_one::<L>(&others, range.clone());
        prop_assert!(
            range.clone().all(|i| L::load(&cells[i + 1]) == cell(i as u64)) && same(&cells, &others)
        );

        let (cells, others) = (numbered(), numbered());
        let range = range.start + 1..range.end + 1;
        L::shift_down(&cells, range.clone());
        down_one_by_one::<L>(&others, range.clone());
        prop_assert!(
            range.clone().all(|i| L::load(&cells[i - 1]) == cell(i as u64)) && same(&cells, &others)
        );
        Ok(())
    }

    proptest! {
        /// Whatever the range, only the cells beside it change, and all at once is one by one.
        #[test]
        fn a_gap_opens_and_closes_anywhere(from in 0usize..70, len in 0usize..70, behind in 1usize..3) {
            let (len, range) = (from + len + behind, from..from + len);
            gap_opens_and_closes(len, range.clone(), |i| i as u32)?;
            gap_opens_and_closes(len, range.clone(), |i| i << 32 | i)?;
            gap_opens_and_closes(len, range.clone(), |i| [i << 32 | i])?;
            gap_opens_and_closes(len, range.clone(), |i| [i, i << 32])?;
            gap_opens_and_closes(len, range, |i| [i, i << 8, i << 32])?;
        }
    }

    #[test]
    #[should_panic]
    fn nothing_moves_beyond_the_end() {
        u64::shift_up(&[const { AtomicU64::new(0) }; 8], 3..8);
    }
}
