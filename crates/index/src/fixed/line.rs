//! How many keys of a line are below a key: one comparison of the whole line, as wide as the processor has it.
//!
//! The instruction set is chosen when a map is built. Each gets its own copy of the whole query (see [`super::query`]),
//! so the choice costs a predicted jump a call, and nothing a line.

use crate::search::Lane;

/// An image whose lines are compared at once: `u32` and `u64`.
///
/// # Safety
/// Every bit pattern is a value, zeros are one, and the comparisons are those of the values.
///
/// See [`StaticMap`](crate::StaticMap).
///
/// ```
/// use foreshore_index::{IntKey, PackedLane, StaticMap};
///
/// // For any key whose image is packed: integers of up to eight bytes.
/// fn ranks<K: IntKey<Lane: PackedLane>>(sorted: impl ExactSizeIterator<Item = K>) -> StaticMap<K> {
///     StaticMap::from_sorted(sorted.enumerate().map(|(rank, key)| (key, rank as u64)))
/// }
/// assert_eq!(ranks([-5_i64, 0, 9].into_iter()).get(9), Some(2));
/// ```
pub unsafe trait PackedLane: Lane {
    /// The keys of a line, [`Lane::PER_LINE`] of them.
    #[doc(hidden)]
    type Line;

    /// Whole lines of these keys.
    #[doc(hidden)]
    fn lines(keys: &[Self]) -> &[Self::Line];

    /// The number of keys of `line` below `key`.
    #[doc(hidden)]
    fn count_below(line: &Self::Line, key: Self) -> usize;

    /// As `count_below`.
    ///
    /// # Safety
    /// The processor has AVX2.
    #[doc(hidden)]
    #[cfg(target_arch = "x86_64")]
    unsafe fn count_below_avx2(line: &Self::Line, key: Self) -> usize;

    /// As `count_below`.
    ///
    /// # Safety
    /// The processor has AVX-512F.
    #[doc(hidden)]
    #[cfg(target_arch = "x86_64")]
    unsafe fn count_below_avx512(line: &Self::Line, key: Self) -> usize;
}

/// Instruction sets that differ here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Isa {
    /// Whatever the compiler may use anyway.
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// Those of this processor, the best one last.
    #[cfg(target_arch = "x86_64")]
    pub fn available() -> Vec<Self> {
        let mut available = vec![Self::Portable];
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt") {
            available.push(Self::Avx2);
            if is_x86_feature_detected!("avx512f") {
                available.push(Self::Avx512);
            }
        }
        available
    }

    /// Those of this processor, the best one last.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn available() -> Vec<Self> {
        vec![Self::Portable]
    }

    /// The best one.
    pub fn best() -> Self {
        *Self::available().last().expect("the portable one is there")
    }
}

/// An instruction set as a type, so that a query is compiled for it as a whole.
pub(super) trait Compare {
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn count_below<L: PackedLane>(line: &L::Line, key: L) -> usize;
}

pub(super) struct Portable;

impl Compare for Portable {
    // SAFETY: the trait's contract, nothing more.
    #[inline(always)]
    unsafe fn count_below<L: PackedLane>(line: &L::Line, key: L) -> usize {
        L::count_below(line, key)
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2, Avx512};

macro_rules! packed_lane {
    ($lane:ty, $avx2:ident, $avx512:ident) => {
        // SAFETY: an integer; `x86` compares unsigned.
        unsafe impl PackedLane for $lane {
            type Line = [Self; Self::PER_LINE];

            #[inline(always)]
            fn lines(keys: &[Self]) -> &[Self::Line] {
                keys.as_chunks().0
            }

            #[inline(always)]
            fn count_below(line: &Self::Line, key: Self) -> usize {
                line.iter().map(|&k| Self::from(k < key)).sum::<Self>() as usize
            }

            // SAFETY: the trait's contract, nothing more.
            #[cfg(target_arch = "x86_64")]
            #[inline(always)]
            unsafe fn count_below_avx2(line: &Self::Line, key: Self) -> usize {
                // SAFETY: the caller's.
                unsafe { x86::$avx2(line, key) }
            }

            // SAFETY: the trait's contract, nothing more.
            #[cfg(target_arch = "x86_64")]
            #[inline(always)]
            unsafe fn count_below_avx512(line: &Self::Line, key: Self) -> usize {
                // SAFETY: the caller's.
                unsafe { x86::$avx512(line, key) }
            }
        }
    };
}

packed_lane!(u32, avx2_u32, avx512_u32);
packed_lane!(u64, avx2_u64, avx512_u64);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Compare, Lane, PackedLane};
    use std::arch::x86_64::*;

    pub struct Avx2;
    pub struct Avx512;

    impl Compare for Avx2 {
        // SAFETY: the trait's contract, nothing more.
        #[inline(always)]
        unsafe fn count_below<L: PackedLane>(line: &L::Line, key: L) -> usize {
            // SAFETY: the caller's.
            unsafe { L::count_below_avx2(line, key) }
        }
    }

    impl Compare for Avx512 {
        // SAFETY: the trait's contract, nothing more.
        #[inline(always)]
        unsafe fn count_below<L: PackedLane>(line: &L::Line, key: L) -> usize {
            // SAFETY: the caller's.
            unsafe { L::count_below_avx512(line, key) }
        }
    }

    /// # Safety
    /// AVX2 is there.
    #[inline(always)]
    pub unsafe fn avx2_u32(line: &[u32; u32::PER_LINE], key: u32) -> usize {
        // SAFETY: two unaligned loads of 32 bytes within the line; the instructions are there, says the caller.
        unsafe {
            // AVX2 compares signed numbers only: the sign bit turns the order into that.
            let sign = _mm256_set1_epi32(i32::MIN);
            let key = _mm256_xor_si256(_mm256_set1_epi32(key as i32), sign);
            let low = _mm256_xor_si256(_mm256_loadu_si256(line.as_ptr().cast()), sign);
            let high = _mm256_xor_si256(_mm256_loadu_si256(line.as_ptr().add(8).cast()), sign);
            let below = _mm256_packs_epi32(_mm256_cmpgt_epi32(key, low), _mm256_cmpgt_epi32(key, high));
            // Each comparison became 16 bits, so two bits of the mask.
            _mm256_movemask_epi8(below).count_ones() as usize / 2
        }
    }

    /// # Safety
    /// AVX2 is there.
    #[inline(always)]
    pub unsafe fn avx2_u64(line: &[u64; u64::PER_LINE], key: u64) -> usize {
        // SAFETY: two unaligned loads of 32 bytes within the line; the instructions are there, says the caller.
        unsafe {
            let sign = _mm256_set1_epi64x(i64::MIN);
            let key = _mm256_xor_si256(_mm256_set1_epi64x(key as i64), sign);
            let low = _mm256_xor_si256(_mm256_loadu_si256(line.as_ptr().cast()), sign);
            let high = _mm256_xor_si256(_mm256_loadu_si256(line.as_ptr().add(4).cast()), sign);
            let below = _mm256_packs_epi32(_mm256_cmpgt_epi64(key, low), _mm256_cmpgt_epi64(key, high));
            // Each comparison became 32 bits, so four bits of the mask.
            _mm256_movemask_epi8(below).count_ones() as usize / 4
        }
    }

    /// # Safety
    /// AVX-512F is there.
    #[inline(always)]
    pub unsafe fn avx512_u32(line: &[u32; u32::PER_LINE], key: u32) -> usize {
        // SAFETY: one unaligned load of the line; the instructions are there, says the caller.
        unsafe {
            let line = _mm512_loadu_si512(line.as_ptr().cast());
            _mm512_cmplt_epu32_mask(line, _mm512_set1_epi32(key as i32)).count_ones() as usize
        }
    }

    /// # Safety
    /// AVX-512F is there.
    #[inline(always)]
    pub unsafe fn avx512_u64(line: &[u64; u64::PER_LINE], key: u64) -> usize {
        // SAFETY: one unaligned load of the line; the instructions are there, says the caller.
        unsafe {
            let line = _mm512_loadu_si512(line.as_ptr().cast());
            _mm512_cmplt_epu64_mask(line, _mm512_set1_epi64(key as i64)).count_ones() as usize
        }
    }
}
