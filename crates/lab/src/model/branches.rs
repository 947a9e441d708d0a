//! A branch predictor: two-bit counters, chosen by the place in the code and by what was taken last (gshare).

use crate::probe::Branch;

const HISTORY_BITS: u32 = 12;

/// What a core expects of its branches.
#[derive(Clone, Debug)]
pub struct Predictor {
    counters: Vec<u8>,
    history: usize,
}

impl Predictor {
    /// One that has seen nothing.
    pub fn new() -> Self {
        Self { counters: vec![1; 1 << HISTORY_BITS], history: 0 }
    }

    /// A branch was taken or not: was that mispredicted?
    pub fn mispredicts(&mut self, place: Branch, taken: bool) -> bool {
        let mask = (1 << HISTORY_BITS) - 1;
        let counter = &mut self.counters[(self.history ^ (place as usize).wrapping_mul(0x9E5)) & mask];
        let expected = *counter >= 2;
        *counter = if taken { (*counter + 1).min(3) } else { counter.saturating_sub(1) };
        self.history = (self.history << 1 | usize::from(taken)) & mask;
        expected != taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreshore_workloads::random::Random;

    #[test]
    fn a_loop_is_learnt_and_a_coin_is_not() {
        let mut predictor = Predictor::new();
        let looped = |i: u32| !i.is_multiple_of(8);
        (0..4096).for_each(|i| _ = predictor.mispredicts(Branch::Scan, looped(i)));
        let missed = (0..800).filter(|&i| predictor.mispredicts(Branch::Scan, looped(i))).count();
        assert_eq!(missed, 0);
        let mut random = Random::new(1, 0);
        let missed =
            (0..4000).filter(|_| predictor.mispredicts(Branch::Bisect, random.below(2) == 0)).count();
        assert!((1600..2400).contains(&missed), "{missed} of 4000");
    }
}
