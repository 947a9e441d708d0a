//! Seeded randomness, small enough to inline in a timed loop: every choice descends from one seed.
//!
//! Source: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): a counter through a bijective mixer. Every seed is a good one.

/// How far the counter goes at a time.
pub const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// A well-mixed bijection of 64-bit words.
#[inline]
pub const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// Another one, which does not leave even 0 where it is.
///
/// ```
/// use foreshore_base::random::scramble;
/// use std::collections::BTreeSet;
///
/// assert_eq!((0..1000).map(scramble).collect::<BTreeSet<_>>().len(), 1000);
/// ```
#[inline]
pub const fn scramble(word: u64) -> u64 {
    mix(word.wrapping_add(GAMMA))
}

/// The next word of the stream whose counter this is.
#[inline]
pub const fn next(counter: &mut u64) -> u64 {
    *counter = counter.wrapping_add(GAMMA);
    mix(*counter)
}
