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

#[cfg(not(all(target_arch = "x86_64", not(any(loom, shuttle)))))]
pub(crate) use absent::{down_u32, down_u64, up_u32, up_u64};
#[cfg(all(target_arch = "x86_64", not(any(loom, shuttle))))]
pub(crate) use avx512::{down_u32, down_u64, up_u32, up_u64};

#[cfg(all(target_arch = "x86_64", not(any(loom, shuttle))))]
mod avx512 {
    use crate::vector::is_able;
    use foreshore_base::sync::{AtomicU32, AtomicU64};
    use std::arch::asm;
    use std::ops::Range;

    const VECTOR_BYTES: usize = 32;

    macro_rules! shifts {
        ($up:ident, $down:ident, $cell:ty, $size:literal, $mov:literal) => {
            /// Copies the cells of `range` one further, and says whether the processor can do that at once.
            #[inline(always)]
            pub fn $up(cells: &[$cell], range: Range<usize>) -> bool {
                const LANES: usize = VECTOR_BYTES / size_of::<$cell>();
                if !is_able() {
                    return false;
                }
                assert!(range.start <= range.end && range.end < cells.len(), "cells to move");
                let first = cells[range.start..].as_ptr();
                let (rest, whole) = (range.len() % LANES, range.len() - range.len() % LANES);
                // SAFETY: the processor has the instructions; they read the cells of `range` and write those one further,
                // all within `cells`, from the last to the first, the rest, for which a vector is too long, at the end.
                // They are atomics, and accessed as by relaxed loads and stores: a cell is aligned, so it lies in one line
                // and does not come in pieces.
                unsafe {
                    asm!(
                        "test {left}, {left}",
                        "jz 3f",
                        "2:",
                        concat!("vmovdqu64 ymm16, [{first} + ", $size, "*{left} - 32]"),
                        concat!("vmovdqu64 [{first} + ", $size, "*{left} - 32 + ", $size, "], ymm16"),
                        "sub {left}, {lanes}",
                        "jnz 2b",
                        "3:",
                        lanes = const LANES,
                        first = in(reg) first.add(rest),
                        left = inout(reg) whole => _,
                        out("ymm16") _,
                        options(nostack),
                    );
                    asm!(
                        "kmovw k1, {mask:e}",
                        concat!($mov, " ymm16{{k1}}{{z}}, [{first}]"),
                        concat!($mov, " [{first} + ", $size, "]{{k1}}, ymm16"),
                        mask = in(reg) (1u32 << rest) - 1,
                        first = in(reg) first,
                        out("ymm16") _, out("k1") _,
                        options(nostack),
                    );
                }
                true
            }

            /// Copies the cells of `range` one back, and says whether the processor can do that at once.
            #[inline(always)]
            pub fn $down(cells: &[$cell], range: Range<usize>) -> bool {
                const LANES: usize = VECTOR_BYTES / size_of::<$cell>();
                if !is_able() {
                    return false;
                }
                assert!(0 < range.start && range.start <= range.end && range.end <= cells.len(), "cells to move");
                let end = cells.as_ptr_range().start.wrapping_add(range.end);
                let rest = range.len() % LANES;
                // SAFETY: as above, but to those one before, from the first to the last, and the rest at the end as well.
                unsafe {
                    asm!(
                        "test {left}, {left}",
                        "jz 3f",
                        "2:",
                        concat!("vmovdqu64 ymm16, [{end} + ", $size, "*{left}]"),
                        concat!("vmovdqu64 [{end} + ", $size, "*{left} - ", $size, "], ymm16"),
                        "add {left}, {lanes}",
                        "jnz 2b",
                        "3:",
                        lanes = const LANES,
                        end = in(reg) end.sub(rest),
                        left = inout(reg) -((range.len() - rest) as isize) => _,
                        out("ymm16") _,
                        options(nostack),
                    );
                    asm!(
                        "kmovw k1, {mask:e}",
                        concat!($mov, " ymm16{{k1}}{{z}}, [{first}]"),
                        concat!($mov, " [{first} - ", $size, "]{{k1}}, ymm16"),
                        mask = in(reg) (1u32 << rest) - 1,
                        first = in(reg) end.sub(rest),
                        out("ymm16") _, out("k1") _,
                        options(nostack),
                    );
                }
                true
            }
        };
    }

    shifts!(up_u64, down_u64, AtomicU64, "8", "vmovdqu64");
    shifts!(up_u32, down_u32, AtomicU32, "4", "vmovdqu32");
}

#[cfg(not(all(target_arch = "x86_64", not(any(loom, shuttle)))))]
mod absent {
    use foreshore_base::sync::{AtomicU32, AtomicU64};
    use std::ops::Range;

    pub fn up_u64(_cells: &[AtomicU64], _range: Range<usize>) -> bool {
        false
    }

    pub fn down_u64(_cells: &[AtomicU64], _range: Range<usize>) -> bool {
        false
    }

    pub fn up_u32(_cells: &[AtomicU32], _range: Range<usize>) -> bool {
        false
    }

    pub fn down_u32(_cells: &[AtomicU32], _range: Range<usize>) -> bool {
        false
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use foreshore_base::sync::{AtomicU32, AtomicU64};
    use proptest::prelude::*;

    /// Cells numbered from 0, after `shift`.
    fn shifted<L: Lane>(len: u32, cell: impl Fn(u32) -> L::Cell, shift: impl Fn(&[L::Cell])) -> Vec<L> {
        let cells: Vec<L::Cell> = (0..len).map(cell).collect();
        shift(&cells);
        cells.iter().map(L::load).collect()
    }

    proptest! {
        /// Whatever the range, only the cells beside it change, and all at once is one by one.
        #[test]
        fn a_gap_opens_and_closes(from in 0usize..70, len in 0usize..70, behind in 1u32..3) {
            let (len, range) = ((from + len) as u32 + behind, from..from + len);
            let narrow = |i| AtomicU32::new(i);
            let wide = |i| AtomicU64::new(u64::from(i) << 32 | u64::from(i));
            let expected = shifted::<u32>(len, narrow, |cells| up_one_by_one::<u32>(cells, range.clone()));
            prop_assert_eq!(&expected[from + 1..range.end + 1], (from as u32..range.end as u32).collect::<Vec<_>>());
            prop_assert_eq!(shifted::<u32>(len, narrow, |cells| u32::shift_up(cells, range.clone())), expected);
            let expected = shifted::<u64>(len, wide, |cells| up_one_by_one::<u64>(cells, range.clone()));
            prop_assert_eq!(shifted::<u64>(len, wide, |cells| u64::shift_up(cells, range.clone())), expected);

            let range = range.start + 1..range.end + 1;
            let expected = shifted::<u32>(len, narrow, |cells| down_one_by_one::<u32>(cells, range.clone()));
            prop_assert_eq!(&expected[from..range.end - 1], (from as u32 + 1..range.end as u32).collect::<Vec<_>>());
            prop_assert_eq!(shifted::<u32>(len, narrow, |cells| u32::shift_down(cells, range.clone())), expected);
            let expected = shifted::<u64>(len, wide, |cells| down_one_by_one::<u64>(cells, range.clone()));
            prop_assert_eq!(shifted::<u64>(len, wide, |cells| u64::shift_down(cells, range.clone())), expected);
        }
    }

    #[test]
    #[should_panic]
    fn nothing_moves_beyond_the_end() {
        u64::shift_up(&[const { AtomicU64::new(0) }; 8], 3..8);
    }
}
