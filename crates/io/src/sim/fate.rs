//! Chance: which of the things that a crash may take it does take.
//!
//! Why a survival rate per file, not one fair coin for everything: with a fair coin a crash that keeps all 2,048
//! sectors of one file and none of another would never be drawn, and orderings *between* files go wrong.

use foreshore_base::random;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        random::next(&mut self.0)
    }

    /// A number in `0..bound`. The bias of the modulus does not matter here.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Heads or tails.
    pub(crate) fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// How much of one file, or of the directory, survives.
pub(crate) struct Fate {
    rng: Rng,
    /// Chances of survival in quarters: 0 is nothing, 4 everything.
    quarters: u64,
}

impl Fate {
    /// Everything survives, as after a sync.
    pub(crate) fn everything() -> Self {
        Self { rng: Rng::new(0), quarters: 4 }
    }

    /// A fate with a survival rate of its own.
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        Self { quarters: rng.below(5), rng: Rng::new(rng.next()) }
    }

    /// Does this one survive?
    pub(crate) fn spares(&mut self) -> bool {
        self.rng.below(4) < self.quarters
    }

    /// How many of `count` things that can only survive in order do so.
    pub(crate) fn prefix(&mut self, count: usize) -> usize {
        match self.quarters {
            0 => 0,
            4 => count,
            _ => self.rng.below(count as u64 + 1) as usize,
        }
    }

    /// How far growth from `old` to `new`, in steps of `step`, came.
    pub(crate) fn growth(&mut self, old: u64, new: u64, step: u64) -> u64 {
        if self.quarters == 4 || self.rng.coin() {
            return new;
        }
        let steps = (new - old) / step;
        old + step * self.rng.below(steps + 1)
    }
}
