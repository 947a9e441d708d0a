//! Chance, for tests: every choice descends from one seed, which the test prints or finds in its environment.

use foreshore_base::random;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        random::next(&mut self.0)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// One of `count` places.
    pub fn pick(&mut self, count: usize) -> usize {
        self.below(count as u64) as usize
    }
}

/// `count` seeds; one only, if `FORESHORE_SEED` says which.
pub fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("FORESHORE_SEED") {
        Ok(seed) => vec![seed.parse().expect("FORESHORE_SEED is a number")],
        Err(_) => (1..=count).collect(),
    }
}
