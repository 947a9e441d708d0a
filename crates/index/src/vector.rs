//! Counting within a cache line by one vector compare for each half of it, where the processor has AVX-512.
//!
//! Why: compilers make no vectors of atomic loads, and a line takes some forty instructions without. Batches of lookups,
//! which are bound by instructions as much as by memory, gain a third.
//! Source: ANCHORS ("hybrid: branchless over the last key of each line, then one vector compare").
//! Differs: half a line at a time, since registers of a whole line make some processors clock lower; and in registers
//! that only AVX-512 has, which leaves nothing to be cleared for the code around.

#[cfg(not(all(target_arch = "x86_64", not(any(loom, shuttle)))))]
pub(crate) use absent::{count_u32, count_u64};
#[cfg(all(target_arch = "x86_64", not(any(loom, shuttle))))]
pub(crate) use avx512::{count_u32, count_u64};

#[cfg(all(target_arch = "x86_64", not(any(loom, shuttle))))]
mod avx512 {
    use foreshore_base::sync::{AtomicU32, AtomicU64};
    use std::arch::asm;
    use std::arch::is_x86_feature_detected as has;
    use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

    /// 0 as long as nobody asked, then 1 for a processor that has the instructions, or 2.
    static KNOWN: AtomicU8 = AtomicU8::new(0);

    #[inline(always)]
    fn is_able() -> bool {
        match KNOWN.load(Relaxed) {
            0 => ask(),
            known => known == 1,
        }
    }

    #[cold]
    fn ask() -> bool {
        let able = has!("avx512vl") && has!("popcnt");
        KNOWN.store(if able { 1 } else { 2 }, Relaxed);
        able
    }

    macro_rules! count {
        ($name:ident, $int:ty, $cell:ty, $key:literal, $broadcast:literal, $compare:literal) => {
            /// The number of cells not above `key`; `None` if the processor cannot tell at once.
            #[inline(always)]
            pub fn $name(line: &[$cell; 64 / size_of::<$int>()], key: $int) -> Option<usize> {
                if !is_able() {
                    return None;
                }
                let count: u64;
                // SAFETY: the processor has the instructions. They only read the cells, which are atomics, as relaxed
                // loads would: a cell is aligned, so it lies in one line and is not read in pieces.
                unsafe {
                    asm!(
                        concat!($broadcast, " ymm16, ", $key),
                        concat!($compare, " k1, ymm16, [{line}], 5"), // key not less than cell
                        concat!($compare, " k2, ymm16, [{line} + 32], 5"),
                        "kunpckbw k1, k1, k2",
                        "kmovw {count:e}, k1",
                        "popcnt {count:e}, {count:e}",
                        key = in(reg) key,
                        line = in(reg) line.as_ptr(),
                        count = lateout(reg) count,
                        out("ymm16") _, out("k1") _, out("k2") _,
                        options(nostack, readonly),
                    );
                }
                Some(count as usize)
            }
        };
    }

    count!(count_u64, u64, AtomicU64, "{key:r}", "vpbroadcastq", "vpcmpuq");
    count!(count_u32, u32, AtomicU32, "{key:e}", "vpbroadcastd", "vpcmpud");
}

#[cfg(not(all(target_arch = "x86_64", not(any(loom, shuttle)))))]
mod absent {
    use foreshore_base::sync::{AtomicU32, AtomicU64};

    pub fn count_u64(_line: &[AtomicU64; 8], _key: u64) -> Option<usize> {
        None
    }

    pub fn count_u32(_line: &[AtomicU32; 16], _key: u32) -> Option<usize> {
        None
    }
}
