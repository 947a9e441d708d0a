//! In registers of 16 bytes: those of 32 were no faster, and would have to be cleared for the code around.

use foreshore_base::sync::{AtomicU32, AtomicU64};
use std::arch::asm;

macro_rules! count {
    ($name:ident, $int:ty, $cells:ty, $of_bytes:expr, $($step:literal),+) => {
        /// The number of cells, or halves of cells, not above `key`.
        ///
        /// # Safety
        /// The processor has AVX2.
        #[inline(always)]
        pub unsafe fn $name(cells: &$cells, key: $int) -> usize {
            let bytes: u64;
            // SAFETY: the processor has the instructions, as the caller says. They only read the cells, which are atomics, as
            // relaxed loads would: a cell is aligned, so it lies in one line and is not read in pieces.
            unsafe {
                asm!(
                    $($step,)+
                    "vpmovmskb {bytes:e}, xmm1",
                    "popcnt {bytes:e}, {bytes:e}",
                    key = in(reg) key,
                    cells = in(reg) cells.as_ptr(),
                    bytes = lateout(reg) bytes,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    options(nostack, readonly),
                );
            }
            $of_bytes(bytes as usize)
        }
    };
}

// Words are compared as signed ones, so the highest bits of all are flipped (xmm3). Those above the key count.
count!(
    count_u64,
    u64,
    [AtomicU64; 8],
    |above| 8 - above / 2,
    "vpcmpeqd xmm3, xmm3, xmm3",
    "vpsllq xmm3, xmm3, 63",
    "vmovq xmm0, {key:r}",
    "vpbroadcastq xmm0, xmm0",
    "vpxor xmm0, xmm0, xmm3",
    "vpxor xmm1, xmm3, [{cells}]",
    "vpxor xmm2, xmm3, [{cells} + 16]",
    "vpcmpgtq xmm1, xmm1, xmm0",
    "vpcmpgtq xmm2, xmm2, xmm0",
    "vpackssdw xmm1, xmm1, xmm2",
    "vpxor xmm2, xmm3, [{cells} + 32]",
    "vpxor xmm3, xmm3, [{cells} + 48]",
    "vpcmpgtq xmm2, xmm2, xmm0",
    "vpcmpgtq xmm3, xmm3, xmm0",
    "vpackssdw xmm2, xmm2, xmm3",
    "vpacksswb xmm1, xmm1, xmm2"
);
count!(
    count_half_u64,
    u64,
    [AtomicU64; 4],
    |above| 4 - above / 4,
    "vpcmpeqd xmm3, xmm3, xmm3",
    "vpsllq xmm3, xmm3, 63",
    "vmovq xmm0, {key:r}",
    "vpbroadcastq xmm0, xmm0",
    "vpxor xmm0, xmm0, xmm3",
    "vpxor xmm1, xmm3, [{cells}]",
    "vpxor xmm2, xmm3, [{cells} + 16]",
    "vpcmpgtq xmm1, xmm1, xmm0",
    "vpcmpgtq xmm2, xmm2, xmm0",
    "vpackssdw xmm1, xmm1, xmm2"
);
// The greater of cell and key is the key: the cell is not above it.
count!(
    count_u32,
    u32,
    [AtomicU32; 16],
    |not_above| not_above,
    "vmovd xmm0, {key:e}",
    "vpbroadcastd xmm0, xmm0",
    "vpmaxud xmm1, xmm0, [{cells}]",
    "vpmaxud xmm2, xmm0, [{cells} + 16]",
    "vpcmpeqd xmm1, xmm1, xmm0",
    "vpcmpeqd xmm2, xmm2, xmm0",
    "vpackssdw xmm1, xmm1, xmm2",
    "vpmaxud xmm2, xmm0, [{cells} + 32]",
    "vpmaxud xmm3, xmm0, [{cells} + 48]",
    "vpcmpeqd xmm2, xmm2, xmm0",
    "vpcmpeqd xmm3, xmm3, xmm0",
    "vpackssdw xmm2, xmm2, xmm3",
    "vpacksswb xmm1, xmm1, xmm2"
);

macro_rules! count_eight_halves {
    ($name:ident, $cells:ty) => {
        count!(
            $name,
            u32,
            $cells,
            |not_above| not_above / 2,
            "vmovd xmm0, {key:e}",
            "vpbroadcastd xmm0, xmm0",
            "vpmaxud xmm1, xmm0, [{cells}]",
            "vpmaxud xmm2, xmm0, [{cells} + 16]",
            "vpcmpeqd xmm1, xmm1, xmm0",
            "vpcmpeqd xmm2, xmm2, xmm0",
            "vpackssdw xmm1, xmm1, xmm2"
        );
    };
}

count_eight_halves!(count_half_u32, [AtomicU32; 8]);
count_eight_halves!(count_halves, [AtomicU64; 4]);
