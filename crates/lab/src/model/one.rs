//! One core: every access goes through its TLB and its caches as it happens.

use crate::model::branches::Predictor;
use crate::model::machine::LINE_BYTES;
use crate::model::{Cache, Counts, Machine};
use crate::probe::{Branch, Hold, Probe};

/// A core of a [`Machine`] that a structure's accesses are fed to.
pub struct OneCore {
    machine: Machine,
    l1: Cache,
    l2: Cache,
    llc: Option<Cache>,
    tlb: Cache,
    predictor: Predictor,
    /// What was seen since the last reset.
    pub counts: Counts,
}

impl OneCore {
    /// Cold caches.
    pub fn new(machine: Machine) -> Self {
        let lines = |(bytes, ways): (u64, usize)| Cache::new(bytes / LINE_BYTES, ways);
        Self {
            l1: lines(machine.l1),
            l2: lines(machine.l2),
            llc: (machine.llc.0 > 0).then(|| lines(machine.llc)),
            tlb: Cache::new(machine.tlb.0, machine.tlb.1),
            predictor: Predictor::new(),
            counts: Counts::default(),
            machine,
        }
    }

    /// Forgets the counts, keeps the caches.
    pub fn reset(&mut self) {
        self.counts = Counts::default();
    }

    /// Where the cycles of the counted events go: busy, first-level, second-level and later, TLB, branches.
    pub fn cycles(&self) -> Breakdown {
        let (counts, machine) = (&self.counts, &self.machine);
        let far = if self.llc.is_some() {
            (counts.l2_misses - counts.memory) * machine.llc_cycles + counts.memory * machine.memory_cycles
        } else {
            counts.l2_misses * machine.memory_cycles
        };
        Breakdown {
            busy: (counts.accesses * machine.l1_cycles) as f64,
            l1: ((counts.l1_misses - counts.l2_misses) * machine.l2_cycles) as f64,
            l2: far as f64,
            tlb: (counts.tlb_misses * machine.tlb_cycles) as f64,
            branches: (counts.mispredicted * machine.branch_cycles) as f64,
        }
    }

    fn access(&mut self, at: u64) {
        self.counts.accesses += 1;
        self.counts.tlb_misses += u64::from(!self.tlb.access(at / self.machine.page_bytes));
        let line = at / LINE_BYTES;
        if self.l1.access(line) {
            return;
        }
        self.counts.l1_misses += 1;
        if self.l2.access(line) {
            return;
        }
        self.counts.l2_misses += 1;
        let near = self.llc.as_mut().is_some_and(|llc| llc.access(line));
        self.counts.memory += u64::from(!near);
    }
}

/// Cycles by their reason.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Breakdown {
    /// Instructions and accesses that hit.
    pub busy: f64,
    /// First-level misses that hit the second level.
    pub l1: f64,
    /// Misses beyond the second level.
    pub l2: f64,
    /// Translations.
    pub tlb: f64,
    /// Mispredicted branches.
    pub branches: f64,
}

impl Breakdown {
    /// All of it.
    pub fn total(&self) -> f64 {
        self.busy + self.l1 + self.l2 + self.tlb + self.branches
    }
}

impl Probe for OneCore {
    fn load(&mut self, at: u64) {
        self.access(at);
    }
    fn store(&mut self, at: u64) {
        self.access(at);
    }
    fn exchange(&mut self, at: u64) {
        self.access(at);
    }
    /// The line is there when it is used; its translation is as well. What a prefetch costs is not counted.
    fn prefetch(&mut self, at: u64) {
        self.tlb.access(at / self.machine.page_bytes);
        let line = at / LINE_BYTES;
        self.l1.access(line);
        self.l2.access(line);
    }
    fn take(&mut self, at: u64, _hold: Hold) {
        self.access(at);
    }
    fn give(&mut self, at: u64, _hold: Hold) {
        self.access(at);
    }
    fn branch(&mut self, place: Branch, taken: bool) {
        self.counts.branches += 1;
        self.counts.mispredicted += u64::from(self.predictor.mispredicts(place, taken));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreshore_workloads::random::Random;

    /// By hand: 64 lines, twice. The second pass hits everywhere; 64 lines of 64 bytes are one page.
    #[test]
    fn a_second_pass_hits() {
        let mut core = OneCore::new(Machine::SERVER);
        (0..64).for_each(|line| core.load(4096 + 64 * line));
        let first = core.counts;
        assert_eq!(
            (first.accesses, first.l1_misses, first.l2_misses, first.memory, first.tlb_misses),
            (64, 64, 64, 64, 1)
        );
        core.reset();
        (0..64).for_each(|line| core.load(4096 + 64 * line));
        assert_eq!((core.counts.accesses, core.counts.l1_misses), (64, 0));
    }

    /// Twice as many lines as the first level has, in turns: all miss there, all hit the second.
    #[test]
    fn a_loop_over_twice_the_first_level_misses_it_always() {
        let mut core = OneCore::new(Machine::SERVER);
        let lines = 2 * (32 << 10) / 64;
        (0..lines).for_each(|line| core.load(64 * line));
        core.reset();
        (0..lines).for_each(|line| core.load(64 * line));
        assert_eq!((core.counts.l1_misses, core.counts.l2_misses), (lines, 0));
        assert_eq!(core.cycles().l1, (lines * 11) as f64);
    }

    /// Of twice as many lines or pages as fit, each as likely as the next, half are held: what replacement keeps says nothing of what
    /// comes.
    #[test]
    fn random_loads_of_twice_a_level_miss_half_the_time() {
        const LOADS: u64 = 200_000;
        type Misses = fn(&Counts) -> u64;
        let levels: [(&str, u64, u64, Misses); 3] = [
            ("L1", (32 << 10) / 64, 64, |counts| counts.l1_misses),
            ("L2", (1 << 20) / 64, 64, |counts| counts.l2_misses),
            ("TLB", 1536, 4096, |counts| counts.tlb_misses),
        ];
        for (name, fits, bytes, misses) in levels {
            let (mut core, mut random) = (OneCore::new(Machine::SERVER), Random::new(1, 7));
            (0..LOADS).for_each(|_| core.load(bytes * random.below(2 * fits)));
            core.reset();
            (0..LOADS).for_each(|_| core.load(bytes * random.below(2 * fits)));
            // Half, give or take five standard deviations.
            let off = misses(&core.counts).abs_diff(LOADS / 2);
            assert!(off < 1200, "{name}: {} of {LOADS}", misses(&core.counts));
        }
    }
}
