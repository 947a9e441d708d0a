//! Many cores that work on one structure: each replays its operations, event by event, in the order of the cores' clocks.
//!
//! An operation is run on the structure when its core comes to it, as a whole, and its events are replayed afterwards,
//! interleaved with those of the other cores. So the structure is always consistent, latches make others wait as long as
//! their holder's clock says, and lines move when they would. What cannot be seen: optimistic readers that must try again
//! (their chance is the share of time in which a node is being written: far below one in a thousand).

use crate::model::branches::Predictor;
use crate::model::lines::{CORES_MAX, Lines};
use crate::model::machine::LINE_BYTES;
use crate::model::{Cache, Counts, Event, Machine, Trace};
use crate::probe::Hold;
use foldhash::fast::FixedState;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

struct Core {
    l1: Cache,
    l2: Cache,
    tlb: Cache,
    predictor: Predictor,
    clock: u64,
    trace: Trace,
    at: usize,
    operations_left: u64,
    waits_since: Option<u64>,
    counts: Counts,
}

/// Who holds a latch, and who waits for it.
#[derive(Default)]
struct Latch {
    readers: u32,
    writer: bool,
    writers_waiting: u32,
    parked: Vec<(usize, Hold)>,
}

impl Latch {
    fn is_free_for(&self, hold: Hold) -> bool {
        !self.writer
            && (hold == Hold::Exclusive && self.readers == 0
                || hold == Hold::Shared && self.writers_waiting == 0)
    }
}

/// A machine of `CORES_MAX` cores, some of which work. The last level is that of all of them, however many work: who adds a
/// core adds no cache.
pub struct ManyCores {
    machine: Machine,
    cores: Vec<Core>,
    llc: Option<Cache>,
    lines: Lines,
    latches: HashMap<u64, Latch, FixedState>,
}

impl ManyCores {
    /// So many cores that work; cold caches.
    ///
    /// Panics without cores, or with more than 128.
    pub fn new(machine: Machine, cores: usize) -> Self {
        assert!((1..=CORES_MAX).contains(&cores), "1 to {CORES_MAX} cores");
        let lines = |(bytes, ways): (u64, usize)| Cache::new(bytes / LINE_BYTES, ways);
        let core = |_| Core {
            l1: lines(machine.l1),
            l2: lines(machine.l2),
            tlb: Cache::new(machine.tlb.0, machine.tlb.1),
            predictor: Predictor::new(),
            clock: 0,
            trace: Trace::default(),
            at: 0,
            operations_left: 0,
            waits_since: None,
            counts: Counts::default(),
        };
        Self {
            cores: (0..cores).map(core).collect(),
            llc: (machine.llc.0 > 0).then(|| lines((machine.llc.0 * CORES_MAX as u64, machine.llc.1))),
            lines: Lines::default(),
            latches: HashMap::default(),
            machine,
        }
    }

    /// The last level has been in use for long: it holds what it has room for of the lines below `end`. Else it would be the
    /// warmer the more cores there are to warm it.
    pub fn fill(&mut self, end: u64) {
        if let Some(llc) = &mut self.llc {
            (0..end.div_ceil(LINE_BYTES)).for_each(|line| _ = llc.access(line));
        }
    }

    /// Every core does `operations`; `next` runs a core's next one on the structure and records it. Returns operations per
    /// second of all cores together, until the last is done.
    ///
    /// Errors: those of `next`.
    pub fn run<E>(
        &mut self,
        operations: u64,
        mut next: impl FnMut(usize, &mut Trace) -> Result<(), E>,
    ) -> Result<f64, E> {
        let begin = self.cores.iter().map(|core| core.clock).max().expect("there are cores");
        let mut ready = BinaryHeap::new();
        for (number, core) in self.cores.iter_mut().enumerate() {
            core.operations_left = operations;
            core.clock = begin;
            core.counts = Counts::default();
            ready.push(Reverse((begin, number)));
        }
        while let Some(Reverse((clock, number))) = ready.pop() {
            let core = &mut self.cores[number];
            core.clock = clock;
            if core.at == core.trace.0.len() {
                if core.operations_left == 0 {
                    continue;
                }
                core.operations_left -= 1;
                core.clock += self.machine.operation_cycles;
                core.at = 0;
                core.trace.0.clear();
                next(number, &mut core.trace)?;
            }
            self.replay(number, &mut ready);
        }
        let is_done = |core: &Core| core.operations_left == 0 && core.at == core.trace.0.len();
        assert!(self.cores.iter().all(is_done), "a core waits for ever");
        let end = self.cores.iter().map(|core| core.clock).max().expect("there are cores");
        let seconds = (end - begin) as f64 / self.machine.ghz / 1e9;
        Ok((operations * self.cores.len() as u64) as f64 / seconds)
    }

    /// The events of all cores in the last run.
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        self.cores.iter().for_each(|core| sum += core.counts);
        sum
    }

    /// Replays a core's events up to the next one that others may care about, and queues it again.
    fn replay(&mut self, number: usize, ready: &mut BinaryHeap<Reverse<(u64, usize)>>) {
        let begun = self.cores[number].clock;
        while let Some(&event) = self.cores[number].trace.0.get(self.cores[number].at) {
            // Others may be behind now: let them catch up, once this core is ahead by more than a transfer.
            if self.cores[number].clock > begun + self.machine.transfer_cycles {
                break;
            }
            match event {
                Event::Load(at) => self.access(number, at, false),
                Event::Store(at) => self.access(number, at, true),
                Event::Exchange(at) => self.exchange(number, at),
                Event::Work(cycles) => self.cores[number].clock += cycles,
                Event::Branch(place, taken) => {
                    let core = &mut self.cores[number];
                    core.counts.branches += 1;
                    if core.predictor.mispredicts(place, taken) {
                        core.counts.mispredicted += 1;
                        core.clock += self.machine.branch_cycles;
                    }
                }
                Event::Take(at, hold) => {
                    self.exchange(number, at);
                    if !self.take(number, at, hold) {
                        return;
                    }
                }
                Event::Give(at, hold) => {
                    self.exchange(number, at);
                    self.give(number, at, hold, ready);
                }
            }
            self.cores[number].at += 1;
        }
        ready.push(Reverse((self.cores[number].clock, number)));
    }

    /// Takes a latch, or parks the core until somebody gives it back.
    fn take(&mut self, number: usize, at: u64, hold: Hold) -> bool {
        let core = &mut self.cores[number];
        let latch = self.latches.entry(at).or_default();
        if core.waits_since.is_some() && hold == Hold::Exclusive {
            latch.writers_waiting -= 1;
        }
        if latch.is_free_for(hold) {
            match hold {
                Hold::Shared => latch.readers += 1,
                Hold::Exclusive => latch.writer = true,
            }
            if let Some(since) = core.waits_since.take() {
                core.counts.waited += core.clock - since;
            }
            return true;
        }
        latch.writers_waiting += u32::from(hold == Hold::Exclusive);
        latch.parked.push((number, hold));
        core.waits_since.get_or_insert(core.clock);
        false
    }

    /// Gives a latch back; who waits for it tries again: a writer if there is one, else all.
    fn give(&mut self, number: usize, at: u64, hold: Hold, ready: &mut BinaryHeap<Reverse<(u64, usize)>>) {
        let clock = self.cores[number].clock;
        let latch = self.latches.get_mut(&at).expect("it was taken");
        match hold {
            Hold::Shared => latch.readers -= 1,
            Hold::Exclusive => latch.writer = false,
        }
        if latch.readers > 0 {
            return;
        }
        let writer = latch.parked.iter().position(|parked| parked.1 == Hold::Exclusive);
        let woken = match writer {
            Some(at) => vec![latch.parked.remove(at)],
            None => std::mem::take(&mut latch.parked),
        };
        for (other, _) in woken {
            ready.push(Reverse((self.cores[other].clock.max(clock), other)));
        }
    }

    fn exchange(&mut self, number: usize, at: u64) {
        self.access(number, at, true);
        self.cores[number].clock += self.machine.atomic_cycles;
    }

    /// An access through TLB, caches and directory, and what it costs.
    fn access(&mut self, number: usize, at: u64, write: bool) {
        let (machine, line) = (&self.machine, at / LINE_BYTES);
        let core = &mut self.cores[number];
        core.counts.accesses += 1;
        core.clock += machine.l1_cycles;
        if !core.tlb.access(at / machine.page_bytes) {
            core.counts.tlb_misses += 1;
            core.clock += machine.tlb_cycles;
        }
        let outcome = self.lines.access(number, line, write);
        core.counts.coherence_misses += u64::from(outcome.coherence);
        let near = core.l1.access(line);
        core.counts.l1_misses += u64::from(!near);
        if !near && core.l2.touch(line) {
            core.clock += machine.l2_cycles;
        } else if !near {
            core.counts.l2_misses += 1;
            if let Some(gone) = core.l2.insert(line) {
                core.l1.remove(gone);
                self.lines.evict(number, gone);
            }
            if !outcome.transfer {
                let found = self.llc.as_mut().is_some_and(|llc| llc.access(line));
                core.counts.memory += u64::from(!found);
                core.clock += if found { machine.llc_cycles } else { machine.memory_cycles };
            }
        }
        if outcome.transfer {
            core.clock = self.lines.transfer(line, core.clock, machine.transfer_cycles);
        }
        self.invalidate(line, outcome.invalidated);
    }

    fn invalidate(&mut self, line: u64, mut holders: u128) {
        while holders != 0 {
            let core = &mut self.cores[holders.trailing_zeros() as usize];
            core.l1.remove(line);
            core.l2.remove(line);
            holders &= holders - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Probe;
    use foreshore_workloads::random::Random;
    use std::convert::Infallible;

    fn run(cores: usize, operations: u64, mut next: impl FnMut(usize, &mut Trace)) -> (f64, Counts) {
        let mut model = ManyCores::new(Machine::SERVER, cores);
        let mut each = |core: usize, trace: &mut Trace| -> Result<(), Infallible> {
            next(core, trace);
            Ok(())
        };
        model.run(operations, &mut each).unwrap();
        let per_s = model.run(operations, &mut each).unwrap();
        (per_s, model.counts())
    }

    /// Formula 1 of OLFIT: p cores that write words at random miss each with probability (p - 1) / p.
    #[test]
    fn random_writers_miss_as_the_formula_says() {
        for cores in [1, 2, 4, 8, 32, 128] {
            let mut random = Random::new(9, 0);
            let (_, counts) =
                run(cores, 20_000 / cores as u64, |_, trace| trace.exchange(64 * random.below(16)));
            let rate = counts.coherence_misses as f64 / counts.accesses as f64;
            let expected = (cores - 1) as f64 / cores as f64;
            assert!((rate - expected).abs() < 0.04, "{cores} cores: {rate} instead of {expected}");
        }
    }

    /// Readers of the same lines scale; writers of their own lines do; writers of one line do not.
    #[test]
    fn only_shared_writing_does_not_scale() {
        let speedup = |work: fn(usize, &mut Trace)| run(16, 2000, work).0 / run(1, 2000, work).0;
        let read = speedup(|_, trace| (0..8).for_each(|line| trace.load(64 * line)));
        let own = speedup(|core, trace| trace.exchange(64 * core as u64));
        let one = speedup(|_, trace| trace.exchange(0));
        assert!(read > 15.0 && own > 15.0, "readers {read}, writers apart {own}");
        assert!(one < 1.0, "writers of one line {one}");
    }

    /// Also in its last operation, which would count as done in no time.
    #[test]
    #[should_panic(expected = "a core waits for ever")]
    fn a_latch_that_is_not_given_back_is_noticed() {
        let mut model = ManyCores::new(Machine::SERVER, 2);
        let take = |_, trace: &mut Trace| -> Result<(), Infallible> {
            trace.take(0, Hold::Exclusive);
            Ok(())
        };
        let Ok(_) = model.run(1, take);
    }

    /// A latch that is held alone lets one core work at a time; shared holders do not wait for each other.
    #[test]
    fn latches_make_others_wait() {
        let critical = |hold| {
            move |core: usize, trace: &mut Trace| {
                trace.take(0, hold);
                (0..200).for_each(|_| trace.load(4096 + 64 * core as u64));
                trace.give(0, hold);
            }
        };
        let (alone, counts) = run(8, 300, critical(Hold::Exclusive));
        let (single, _) = run(1, 300, critical(Hold::Exclusive));
        assert!(alone < 1.1 * single, "{alone} against {single}");
        assert!(counts.waited > 0);
        let (shared, _) = run(8, 300, critical(Hold::Shared));
        assert!(shared > 2.0 * single, "{shared} against {single}");
    }
}
