//! Chance, for tests: every choice descends from one seed, which the test prints or finds in its environment.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// One of `count` places.
    pub fn pick(&mut self, count: usize) -> usize {
        self.below(count as u64) as usize
    }
}

pub fn mix(number: u64) -> u64 {
    let mut mixed = number;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// `count` seeds; one only, if `FORESHORE_SEED` says which.
pub fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("FORESHORE_SEED") {
        Ok(seed) => vec![seed.parse().expect("FORESHORE_SEED is a number")],
        Err(_) => (1..=count).collect(),
    }
}
