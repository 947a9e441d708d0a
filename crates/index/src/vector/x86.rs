//! The best way this processor has.

use super::{avx2, avx512};
use foreshore_base::sync::{AtomicU32, AtomicU64};
use std::arch::is_x86_feature_detected as has;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

const UNKNOWN: u8 = 0;
const NONE: u8 = 1;
const AVX2: u8 = 2;
const AVX512: u8 = 3;
/// The best that the processor has of these.
static KNOWN: AtomicU8 = AtomicU8::new(UNKNOWN);

#[inline(always)]
fn best() -> u8 {
    match KNOWN.load(Relaxed) {
        UNKNOWN => ask(),
        known => known,
    }
}

#[cold]
fn ask() -> u8 {
    let best = if !has!("avx2") || !has!("popcnt") {
        NONE
    } else if has!("avx512vl") && has!("avx512bw") && has!("avx512dq") {
        AVX512
    } else {
        AVX2
    };
    KNOWN.store(best, Relaxed);
    best
}

/// Has the processor AVX2?
#[inline(always)]
pub fn has_avx2() -> bool {
    best() >= AVX2
}

macro_rules! counts {
    ($($name:ident: $cells:ty, $key:ty $(, $avx2:path)?;)+) => {$(
        /// The number of cells, or halves or pairs of cells, not above `key`; `None` if the processor cannot tell at once.
        #[inline(always)]
        pub fn $name(cells: &$cells, key: $key) -> Option<usize> {
            match best() {
                // SAFETY: the processor has the instructions.
                AVX512 => Some(unsafe { avx512::$name(cells, key) }),
                // SAFETY: the same.
                $(AVX2 => Some(unsafe { $avx2(cells, key) }),)?
                _ => None,
            }
        }
    )+};
}

counts! {
    count_u64: [AtomicU64; 8], u64, avx2::count_u64;
    count_half_u64: [AtomicU64; 4], u64, avx2::count_half_u64;
    count_two_u64: [AtomicU64; 16], u64;
    count_u32: [AtomicU32; 16], u32, avx2::count_u32;
    count_half_u32: [AtomicU32; 8], u32, avx2::count_half_u32;
    count_halves: [AtomicU64; 4], u32, avx2::count_halves;
    count_pairs: [AtomicU64; 8], [u64; 2];
    count_two_pairs: [AtomicU64; 16], [u64; 2];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::count_one_by_one;
    use proptest::prelude::*;

    proptest! {
        /// Whichever is the best here, the other one counts the same, up to both ends of the type.
        #[test]
        fn avx2_counts_as_one_by_one(
            wide in proptest::array::uniform8(prop_oneof![Just(0), Just(1 << 63), Just(u64::MAX), any::<u64>()]),
            narrow in proptest::array::uniform16(prop_oneof![Just(0), Just(1 << 31), Just(u32::MAX), any::<u32>()]),
            which in 0usize..8,
        ) {
            prop_assume!(has_avx2());
            let (words, halves) = (wide.map(AtomicU64::new), narrow.map(AtomicU32::new));
            for key in [wide[which], 0, 1 << 63, u64::MAX] {
                // SAFETY: the processor has AVX2.
                let (line, half) = unsafe {
                    (avx2::count_u64(&words, key), avx2::count_half_u64(words.first_chunk().unwrap(), key))
                };
                prop_assert_eq!(line, count_one_by_one::<u64>(&words, key));
                prop_assert_eq!(half, count_one_by_one::<u64>(&words[..4], key));
            }
            let four: [AtomicU64; 4] =
                std::array::from_fn(|i| AtomicU64::new(u64::from(narrow[2 * i + 1]) << 32 | u64::from(narrow[2 * i])));
            for key in [narrow[which], 0, 1 << 31, u32::MAX] {
                // SAFETY: the processor has AVX2.
                let (line, half, in_words) = unsafe {
                    (
                        avx2::count_u32(&halves, key),
                        avx2::count_half_u32(halves.first_chunk().unwrap(), key),
                        avx2::count_halves(&four, key),
                    )
                };
                prop_assert_eq!(line, count_one_by_one::<u32>(&halves, key));
                let expected = count_one_by_one::<u32>(&halves[..8], key);
                prop_assert_eq!((half, in_words), (expected, expected));
            }
        }
    }
}
