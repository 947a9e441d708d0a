//! Half a line at a time, since registers of a whole line make some processors clock lower; and in registers that only AVX-512
//! has, which leaves nothing to be cleared for the code around.

use foreshore_base::sync::{AtomicU32, AtomicU64};
use std::arch::asm;

macro_rules! count {
    ($name:ident, $int:ty, $cells:ty, $($step:literal),+) => {
        /// The number of cells, or halves of cells, not above `key`.
        ///
        /// # Safety
        /// The processor has AVX-512 VL, BW and DQ.
        #[inline(always)]
        pub unsafe fn $name(cells: &$cells, key: $int) -> usize {
            let count: u64;
            // SAFETY: the processor has the instructions, as the caller says. They only read the cells, which are atomics, as relaxed
            // loads would: a cell is aligned, so it lies in one line and is not read in pieces.
            unsafe {
                asm!(
                    $($step,)+
                    "kmovd {count:e}, k1",
                    "popcnt {count:e}, {count:e}",
                    key = in(reg) key,
                    cells = in(reg) cells.as_ptr(),
                    count = lateout(reg) count,
                    out("ymm16") _, out("k1") _, out("k2") _, out("k3") _,
                    options(nostack, readonly),
                );
            }
            count as usize
        }
    };
}

// Comparison 5: the key is not less than the cell.
count!(
    count_u64,
    u64,
    [AtomicU64; 8],
    "vpbroadcastq ymm16, {key:r}",
    "vpcmpuq k1, ymm16, [{cells}], 5",
    "vpcmpuq k2, ymm16, [{cells} + 32], 5",
    "kunpckbw k1, k1, k2"
);
count!(
    count_u32,
    u32,
    [AtomicU32; 16],
    "vpbroadcastd ymm16, {key:e}",
    "vpcmpud k1, ymm16, [{cells}], 5",
    "vpcmpud k2, ymm16, [{cells} + 32], 5",
    "kunpckbw k1, k1, k2"
);
count!(
    count_two_u64,
    u64,
    [AtomicU64; 16],
    "vpbroadcastq ymm16, {key:r}",
    "vpcmpuq k1, ymm16, [{cells}], 5",
    "vpcmpuq k2, ymm16, [{cells} + 32], 5",
    "kunpckbw k1, k1, k2",
    "vpcmpuq k2, ymm16, [{cells} + 64], 5",
    "vpcmpuq k3, ymm16, [{cells} + 96], 5",
    "kunpckbw k2, k2, k3",
    "kunpckwd k1, k1, k2"
);
count!(count_half_u64, u64, [AtomicU64; 4], "vpbroadcastq ymm16, {key:r}", "vpcmpuq k1, ymm16, [{cells}], 5");
count!(count_half_u32, u32, [AtomicU32; 8], "vpbroadcastd ymm16, {key:e}", "vpcmpud k1, ymm16, [{cells}], 5");
count!(count_halves, u32, [AtomicU64; 4], "vpbroadcastd ymm16, {key:e}", "vpcmpud k1, ymm16, [{cells}], 5");

macro_rules! count_pairs {
    ($name:ident, $cells:ty, $($step:literal),+) => {
        /// The number of pairs of cells, the more significant one first, not above `key`.
        ///
        /// # Safety
        /// The processor has AVX-512 VL, BW and DQ.
        #[inline(always)]
        pub unsafe fn $name(cells: &$cells, key: [u64; 2]) -> usize {
            let count: u64;
            // SAFETY: as above.
            unsafe {
                asm!(
                    "vmovq xmm16, {high}",
                    "vpinsrq xmm16, xmm16, {low}, 1",
                    "vshufi64x2 ymm16, ymm16, ymm16, 0",
                    $($step,)+
                    // Of each pair the lower bit counts: its first cell is not above the key's, and it is below or the
                    // second cell is not above either.
                    "kmovd {high:e}, k1",
                    "kmovd {low:e}, k2",
                    "mov {count:e}, {high:e}",
                    "shr {count:e}, 1",
                    "not {low:e}",
                    "or {count:e}, {low:e}",
                    "and {count:e}, {high:e}",
                    "and {count:e}, 0x55555555",
                    "popcnt {count:e}, {count:e}",
                    high = inout(reg) key[0] => _,
                    low = inout(reg) key[1] => _,
                    cells = in(reg) cells.as_ptr(),
                    count = out(reg) count,
                    out("ymm16") _, out("k1") _, out("k2") _, out("k3") _, out("k4") _,
                    options(nostack, readonly),
                );
            }
            count as usize
        }
    };
}

count_pairs!(
    count_pairs,
    [AtomicU64; 8],
    "vpcmpuq k1, ymm16, [{cells}], 5",
    "vpcmpuq k3, ymm16, [{cells} + 32], 5",
    "kunpckbw k1, k3, k1",
    "vpcmpeqq k2, ymm16, [{cells}]",
    "vpcmpeqq k3, ymm16, [{cells} + 32]",
    "kunpckbw k2, k3, k2"
);
count_pairs!(
    count_two_pairs,
    [AtomicU64; 16],
    "vpcmpuq k1, ymm16, [{cells}], 5",
    "vpcmpuq k3, ymm16, [{cells} + 32], 5",
    "kunpckbw k1, k3, k1",
    "vpcmpuq k3, ymm16, [{cells} + 64], 5",
    "vpcmpuq k4, ymm16, [{cells} + 96], 5",
    "kunpckbw k3, k4, k3",
    "kunpckwd k1, k3, k1",
    "vpcmpeqq k2, ymm16, [{cells}]",
    "vpcmpeqq k3, ymm16, [{cells} + 32]",
    "kunpckbw k2, k3, k2",
    "vpcmpeqq k3, ymm16, [{cells} + 64]",
    "vpcmpeqq k4, ymm16, [{cells} + 96]",
    "kunpckbw k3, k4, k3",
    "kunpckwd k2, k3, k2"
);
