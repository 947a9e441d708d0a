//! The four structures, loaded, timed and modelled.

use crate::counters::{self, Counted, Counters};
use crate::figures::study::{BPlus, Css, Input, Keys, Named, Op, Study};
use crate::frame::{LabError, Settings};
use crate::model::{Counts, Machine, OneCore};
use crate::probe::Silent;
use crate::trees::{CsbTree, CssTree, Method, TTree};
use std::time::Instant;

/// Sizes of an experiment.
pub struct Sizes {
    /// Keys in a structure.
    pub keys: Keys,
    /// Lookups, timed or modelled; and how many of the last inserts are timed, and how many modelled.
    pub sample: u32,
    /// The modelled machine.
    pub machine: Machine,
}

impl Sizes {
    /// By the settings: the study's 10 million keys, or few.
    pub fn of(settings: &Settings) -> Self {
        let (count, sample) = settings.pick((200_000, 50_000), (10_000_000, 500_000));
        Self { keys: Keys { count, seed: settings.seed }, sample, machine: Machine::PENTIUM_D }
    }

    /// For a file's header.
    pub fn header(&self) -> Vec<(&'static str, String)> {
        vec![
            ("keys", self.keys.count.to_string()),
            ("sample", self.sample.to_string()),
            ("model", self.machine.name.to_owned()),
            counters::header(),
        ]
    }
}

/// What one structure costs per operation.
pub struct Cost {
    /// Nanoseconds on this machine.
    pub ns: f64,
    /// Operations that were timed.
    pub timed: f64,
    /// What this machine counted in them.
    pub counted: Counted,
    /// The model's cycles by reason: busy, first level, beyond, TLB, branches.
    pub cycles: [f64; 5],
    /// The model's counts, of the whole sample.
    pub counts: Counts,
    /// Operations in the modelled sample.
    pub sample: f64,
}

impl Cost {
    /// The model's cycles.
    pub fn total(&self) -> f64 {
        self.cycles.iter().sum()
    }
}

/// The reasons for cycles, in the order of [`Cost::cycles`].
pub const REASONS: [&str; 5] = ["busy", "L1 misses", "L2 misses", "TLB misses", "mispredictions"];

/// Empty structures with room for all keys, with nodes of so many bytes.
pub fn empty_t_tree(sizes: &Sizes, node_bytes: usize) -> Named<TTree> {
    Named("T", TTree::with_node_bytes(node_bytes).with_room_for(sizes.keys.count as usize))
}

/// See [`empty_t_tree`].
pub fn empty_csb(sizes: &Sizes, node_bytes: usize) -> Named<CsbTree> {
    let empty = CsbTree::new(node_bytes, 4, Method::Binary, false);
    Named("CSB+", empty.with_room_for(sizes.keys.count as usize))
}

/// A CSS-tree of all keys.
pub fn css(sizes: &Sizes, node_bytes: usize) -> Css {
    Css(CssTree::build(&sizes.keys.entries(), node_bytes))
}

/// Inserts all keys in random order.
pub fn loaded<T: Study>(mut structure: T, sizes: &Sizes) -> Result<T, LabError> {
    structure.run_checked(&sizes.keys.inserts(Input::Random), &mut Silent)?;
    Ok(structure)
}

/// Lookups in a loaded structure. A tenth of the sample warms the modelled caches.
pub fn lookups<T: Study>(structure: &mut T, sizes: &Sizes, input: Input) -> Result<Cost, LabError> {
    let operations = sizes.keys.gets(input, sizes.sample);
    let timed = time(structure, &operations)?;
    model(structure, sizes, &operations[..operations.len() / 10], &operations, timed)
}

/// Inserts into an empty structure: of the last ones, one sample is timed, and then one modelled.
pub fn inserts<T: Study>(mut structure: T, sizes: &Sizes, input: Input) -> Result<Cost, LabError> {
    let (all, sample) = (sizes.keys.inserts(input), sizes.sample as usize);
    let (before, last) = all.split_at(all.len() - 2 * sample);
    let (timed, modelled) = last.split_at(sample);
    structure.run_checked(before, &mut Silent)?;
    let timed = time(&mut structure, timed)?;
    let (warm, counted) = modelled.split_at(sample / 10);
    model(&mut structure, sizes, warm, counted, timed)
}

/// What was timed: nanoseconds per operation, operations, and what was counted in them.
struct Timed {
    ns: f64,
    operations: f64,
    counted: Counted,
}

fn time<T: Study>(structure: &mut T, operations: &[Op]) -> Result<Timed, LabError> {
    let count = operations.len() as f64;
    let (ns, counted) = Counters::of_this_thread().around(|| {
        let begun = Instant::now();
        structure.run_checked(operations, &mut Silent)?;
        Ok(begun.elapsed().as_nanos() as f64 / count)
    });
    Ok(Timed { ns: ns?, operations: count, counted })
}

fn model<T: Study>(
    structure: &mut T,
    sizes: &Sizes,
    warm: &[Op],
    operations: &[Op],
    Timed { ns, operations: timed, counted }: Timed,
) -> Result<Cost, LabError> {
    let mut core = OneCore::new(sizes.machine.clone());
    structure.run_checked(warm, &mut core)?;
    core.reset();
    structure.run_checked(operations, &mut core)?;
    let sample = operations.len() as f64;
    let cycles = core.cycles();
    let cycles =
        [cycles.busy, cycles.l1, cycles.l2, cycles.tlb, cycles.branches].map(|cycles| cycles / sample);
    Ok(Cost { ns, timed, counted, cycles, counts: core.counts, sample })
}

/// An empty B+-tree with nodes of `4 × W` bytes.
pub fn empty_b_plus<const W: usize>(sizes: &Sizes) -> BPlus<W> {
    BPlus::with_room_for(sizes.keys.count as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Event;

    /// The time on a processor is a part of the time that the clock tells, of as many operations.
    #[test]
    fn counts_are_of_the_operations_that_were_timed() {
        let keys = Keys { count: 80_000, seed: 1 };
        let sizes = Sizes { keys, sample: 20_000, machine: Machine::PENTIUM_D };
        let inserted = inserts(empty_t_tree(&sizes, 256), &sizes, Input::Random).unwrap();
        let looked_up = lookups(&mut css(&sizes, 64), &sizes, Input::Random).unwrap();
        assert_eq!(
            (inserted.timed, inserted.sample),
            (20_000.0, 18_000.0),
            "a tenth of the modelled ones warms caches"
        );
        assert_eq!((looked_up.timed, looked_up.sample), (20_000.0, 20_000.0));
        for cost in [inserted, looked_up] {
            let Some(clock) = cost.counted.get(Event::TaskClock) else { continue };
            let ns = clock.value / cost.timed;
            assert!(ns < 1.05 * cost.ns, "{ns} ns an operation on a processor, of {}", cost.ns);
        }
    }
}
