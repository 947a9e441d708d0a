//! Zipfian ranks: rank `r` is drawn in proportion to `1 / (r + 1)^θ`.
//!
//! Source: Gray et al., "Quickly generating billion-record synthetic databases" (SIGMOD 1994), as YCSB uses it. Ranks 0 and 1
//! are exact, the others follow an integral that is close to the sum.

use crate::random::Random;

/// A distribution over `0..n`.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    n: f64,
    zeta_n: f64,
    zeta_2: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    /// YCSB's θ.
    pub const THETA: f64 = 0.99;

    /// Ranks below `n` with θ = 0.99. Takes a few ten milliseconds for each million.
    ///
    /// Panics if `n` is 0.
    pub fn new(n: u64) -> Self {
        assert!(n > 0, "ranks of nothing");
        let zeta = |n: u64| (1..=n).map(|rank| (rank as f64).powf(-Self::THETA)).sum::<f64>();
        let (zeta_n, zeta_2) = (zeta(n), zeta(2));
        let eta = (1.0 - (2.0 / n as f64).powf(1.0 - Self::THETA)) / (1.0 - zeta_2 / zeta_n);
        Self { n: n as f64, zeta_n, zeta_2, alpha: 1.0 / (1.0 - Self::THETA), eta }
    }

    /// A rank; 0 is the most frequent one.
    #[inline]
    pub fn rank(&self, random: &mut Random) -> u64 {
        let uniform = (random.word() >> 11) as f64 / (1u64 << 53) as f64;
        let scaled = uniform * self.zeta_n;
        if scaled < 1.0 || self.n < 2.0 {
            return 0;
        }
        if scaled < self.zeta_2 {
            return 1;
        }
        let rank = self.n * (self.eta * uniform - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.n as u64 - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first ranks have their exact frequencies, decades of ranks theirs within 3 %.
    #[test]
    fn ranks_have_their_frequencies() {
        const N: u64 = 100_000;
        const DRAWS: usize = 2_000_000;
        let zipf = Zipf::new(N);
        let mut random = Random::new(11, 0);
        let mut seen = vec![0u32; N as usize];
        (0..DRAWS).for_each(|_| seen[zipf.rank(&mut random) as usize] += 1);
        let weight = |rank: u64| ((rank + 1) as f64).powf(-Zipf::THETA) / zipf.zeta_n;
        for rank in [0, 1] {
            let share = f64::from(seen[rank as usize]) / DRAWS as f64;
            assert!((share / weight(rank) - 1.0).abs() < 0.02, "rank {rank}: {share} for {}", weight(rank));
        }
        for (from, to) in [(10, 100), (100, 1_000), (1_000, 10_000), (10_000, 100_000)] {
            let share = (from..to).map(|rank| f64::from(seen[rank as usize])).sum::<f64>() / DRAWS as f64;
            let expected: f64 = (from..to).map(weight).sum();
            assert!((share / expected - 1.0).abs() < 0.03, "{from}..{to}: {share} for {expected}");
        }
    }

    #[test]
    fn few_ranks_stay_in_range() {
        let mut random = Random::new(2, 0);
        for n in 1..=4 {
            let zipf = Zipf::new(n);
            assert!((0..10_000).all(|_| zipf.rank(&mut random) < n), "{n} ranks");
        }
    }
}
