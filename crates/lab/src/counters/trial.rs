//! Work whose misses are known beforehand: it shows whether the counters of a machine can be believed.

use crate::counters::{Counted, Counters};
use std::hint::black_box;

/// Lines of fresh memory, written in order and then read once each, in random order, each load waiting for the one before.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// A power of two.
    pub lines: usize,
}

impl Trial {
    /// 32 MiB: more than a TLB and the first two levels hold.
    pub const USUAL: Self = Self { lines: 1 << 19 };

    /// Bytes of the memory.
    pub fn bytes(self) -> usize {
        64 * self.lines
    }

    /// Does the work, counted.
    ///
    /// Panics if `lines` is not a power of two.
    pub fn run(self, counters: &mut Counters) -> Counted {
        assert!(self.lines.is_power_of_two(), "{} lines are not a power of two", self.lines);
        let (end, counted) = counters.around(|| self.chase(&self.write()));
        assert_eq!(end, 0, "the last line leads to the first");
        counted
    }

    /// Each line holds the number of the next: a linear congruence comes by all of 2ⁿ numbers before it repeats one.
    fn write(self) -> Vec<[usize; 8]> {
        let next = |line: usize| line.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) % self.lines;
        (0..self.lines).map(|line| [next(line); 8]).collect()
    }

    fn chase(self, lines: &[[usize; 8]]) -> usize {
        (0..self.lines).fold(0, |at, _| black_box(lines[at][0]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read_once() {
        let trial = Trial { lines: 1 << 10 };
        let lines = trial.write();
        let mut seen = vec![false; trial.lines];
        let mut at = 0;
        for _ in 0..trial.lines {
            assert!(!std::mem::replace(&mut seen[at], true), "line {at} twice");
            at = lines[at][0];
        }
        assert_eq!((at, trial.chase(&lines)), (0, 0));
    }
}
