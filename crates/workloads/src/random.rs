//! Streams of random numbers, and orders that look random.

use foreshore_base::random::{self, GAMMA};

pub use foreshore_base::random::mix;

/// Scales a random word to `0..bound` by multiplication; for `bound` far below 2^64 the bias cannot be measured.
#[inline]
pub fn below(word: u64, bound: u64) -> u64 {
    ((u128::from(word) * u128::from(bound)) >> 64) as u64
}

/// A stream of random words.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Stream number `stream` of `seed`; streams of one seed are unrelated.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self { state: mix(mix(seed) ^ stream.wrapping_mul(GAMMA)) }
    }

    /// The next word.
    #[inline]
    pub fn word(&mut self) -> u64 {
        random::next(&mut self.state)
    }

    /// A number in `0..bound`.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        below(self.word(), bound)
    }
}

/// A bijection of `0..n` that looks random: the order of random inserts, without an array of `n` places.
///
/// Rounds of odd multiplication and xor-shift permute the next power of two; a place outside `0..n` walks on along its
/// cycle until it is inside (less than two steps on average).
#[derive(Clone, Debug)]
pub struct Permutation {
    n: u64,
    mask: u64,
    shift: u32,
    odd: [u64; 3],
}

impl Permutation {
    /// A permutation of `0..n` named by `seed`.
    ///
    /// Panics if `n` is 0 or above 2^63.
    pub fn new(n: u64, seed: u64) -> Self {
        assert!(n > 0 && n <= 1 << 63, "a permutation of 1..=2^63 places");
        let bits = n.next_power_of_two().trailing_zeros().max(1);
        let mut random = Random::new(seed, u64::from(b'p'));
        Self {
            n,
            mask: (1 << bits) - 1,
            shift: bits.div_ceil(2),
            odd: std::array::from_fn(|_| random.word() | 1),
        }
    }

    /// The place of `index`, which must be below `n`.
    #[inline]
    pub fn at(&self, index: u64) -> u64 {
        debug_assert!(index < self.n);
        let mut place = index;
        loop {
            for odd in self.odd {
                place = place.wrapping_add(odd >> 32).wrapping_mul(odd) & self.mask;
                place ^= place >> self.shift;
            }
            if place < self.n {
                return place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Every place is taken once.
        #[test]
        fn permutations_are_bijections(n in 1u64..5_000, seed: u64) {
            let permutation = Permutation::new(n, seed);
            let mut taken = vec![false; n as usize];
            for index in 0..n {
                let place = permutation.at(index) as usize;
                prop_assert!(!std::mem::replace(&mut taken[place], true), "place {place} twice");
            }
        }

        #[test]
        fn numbers_stay_below_their_bound(seed: u64, bound in 1u64..) {
            let mut random = Random::new(seed, 0);
            prop_assert!((0..100).all(|_| random.below(bound) < bound));
        }
    }

    /// Random inserts must not be nearly sorted: neighbours in time are strangers in space.
    #[test]
    fn permutations_scatter() {
        let n = 1 << 16;
        let permutation = Permutation::new(n, 1);
        let near = (1..n).filter(|&i| permutation.at(i).abs_diff(permutation.at(i - 1)) < n / 64).count();
        assert!(near < n as usize / 16, "{near} of {n} steps are short");
    }
}
