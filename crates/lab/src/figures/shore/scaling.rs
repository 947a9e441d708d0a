//! Where insertion would stop to scale: one row's shared lines, replayed on up to 128 cores.
//!
//! The time of one thread is measured and becomes work that nobody shares; the lines that threads do share, and how often a
//! row touches them, are those that `crates/engine/examples/costs.rs` counts (see `docs/scaling.md`).

use crate::figures::shore::runs::{Effort, words};
use crate::frame::{Drawn, LabError, Panel, Scale, Settings, Source, Tell, Verdict};
use crate::model::{Event, Machine, ManyCores, Trace};
use crate::probe::{Hold, Probe};
use foreshore_workloads::random::Random;
use std::convert::Infallible;

const CORES: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// Writes to the key table for one row: the lock taken, the image pushed, both given back at the commit.
const BUCKET_WRITES: u64 = 3;
/// Buckets of the key table.
const BUCKETS: u64 = 1 << 16;
/// Stripes of the counter of image bytes; a transaction's slot chooses one.
const STRIPES: u64 = 16;
/// Looks into the page table for one row, counted at the stage "pool mutex".
const PAGE_LOOKUPS: u64 = 3;
/// Cycles under the mutex for one look.
const LOOKUP_CYCLES: u64 = 20;
/// Cycles to checksum and copy a record of about 150 bytes: a third of the 640 instructions that callgrind counts.
const COPY_CYCLES: u64 = 210;

/// Where the modelled lines lie.
const RESERVED: u64 = 0;
const MUTEX: u64 = 1 << 12;
const STRIPE: u64 = 1 << 13;
const BUCKET: u64 = 1 << 20;

/// An engine as the model knows it.
struct Design {
    name: &'static str,
    /// Words on which records are reserved; a thread has one of them.
    streams: u64,
    log_mutex: bool,
    pool_mutex: bool,
}

const TODAY: &str = "one reservation word (today)";

const DESIGNS: [Design; 4] = [
    Design { name: TODAY, streams: 1, log_mutex: false, pool_mutex: false },
    Design { name: "8 log streams", streams: 8, log_mutex: false, pool_mutex: false },
    Design { name: "log mutex", streams: 1, log_mutex: true, pool_mutex: false },
    Design { name: "pool mutex", streams: 1, log_mutex: false, pool_mutex: true },
];

impl Design {
    /// One row by `core`, whose work on lines of its own takes `work` cycles.
    fn row(&self, core: usize, work: u64, random: &mut Random, trace: &mut Trace) {
        let share = work / (BUCKET_WRITES + 1);
        for _ in 0..BUCKET_WRITES {
            trace.0.push(Event::Work(share));
            trace.exchange(BUCKET + 64 * random.below(BUCKETS));
        }
        trace.exchange(STRIPE + 128 * (core as u64 % STRIPES));
        if self.pool_mutex {
            (0..PAGE_LOOKUPS).for_each(|_| critical(trace, LOOKUP_CYCLES));
        }
        trace.0.push(Event::Work(share));
        if self.log_mutex {
            critical(trace, COPY_CYCLES);
        } else {
            trace.exchange(RESERVED + 128 * (core as u64 % self.streams));
        }
    }

    /// Rows per second of so many cores, and what waited: coherence misses per row.
    fn run(&self, cores: usize, work: u64, rows: u64, seed: u64) -> (f64, f64) {
        let mut random = Random::new(seed, cores as u64);
        let mut model = ManyCores::new(Machine { operation_cycles: 0, ..Machine::SERVER }, cores);
        let mut next = |core: usize, trace: &mut Trace| -> Result<(), Infallible> {
            self.row(core, work, &mut random, trace);
            Ok(())
        };
        let per_s = model.run(rows, &mut next).and_then(|_| model.run(rows, &mut next));
        let Ok(per_s) = per_s;
        (per_s, model.counts().coherence_misses as f64 / (rows * cores as u64) as f64)
    }
}

fn critical(trace: &mut Trace, cycles: u64) {
    trace.take(MUTEX, Hold::Exclusive);
    trace.0.push(Event::Work(cycles));
    trace.give(MUTEX, Hold::Exclusive);
}

/// The figure.
pub fn scaling(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let effort = settings.pick(Effort { seconds: 0.5, rounds: 3 }, Effort { seconds: 3.0, rounds: 5 });
    let foreshore = settings.programs.foreshore()?;
    let line = words("insert --durability buffered --warm-up 0.2");
    let rates = effort.measure(std::slice::from_ref(&foreshore), &settings.threads(), &line, settings.seed, tell)?;
    let alone = rates.of(&foreshore.name).next().map_or(f64::NAN, |(_, rate)| rate);
    let work = (Machine::SERVER.ghz * 1e9 / alone) as u64;
    let rows = settings.pick(300, 3000);

    let rate = "million rows/s";
    let mut modelled = Panel::new("Record insertion", Source::Modelled, "cores", rate, Scale::Doubling);
    let mut misses = Panel::new(
        "Lines taken from another core",
        Source::Modelled,
        "cores",
        "coherence misses per row",
        Scale::Doubling,
    );
    for design in &DESIGNS {
        for cores in CORES {
            let (per_s, missed) = design.run(cores, work, rows, settings.seed);
            modelled.add(design.name, cores as f64, per_s / 1e6);
            misses.add(design.name, cores as f64, missed);
        }
    }
    let mut both = Panel::new("Prediction and this machine", Source::Measured, "threads", rate, Scale::Doubling);
    for (threads, rate) in rates.of(&foreshore.name) {
        both.add("measured", threads as f64, rate / 1e6);
        both.add("predicted", threads as f64, DESIGNS[0].run(threads, work, rows, settings.seed).0 / 1e6);
    }
    Ok(judge(modelled, misses, both, work, settings.threads_max as f64, &effort))
}

fn judge(modelled: Panel, misses: Panel, both: Panel, work: u64, most: f64, effort: &Effort) -> Drawn {
    let speedup = |name: &str, cores: f64| modelled.at(name, cores) / modelled.at(name, 1.0);
    let (measured, predicted) =
        (both.at("measured", most) / both.at("measured", 1.0), both.at("predicted", most) / both.at("predicted", 1.0));
    let knee = |name: &str| CORES.iter().rev().find(|&&cores| speedup(name, cores as f64) > 0.75 * cores as f64);
    let until = |name: &str| format!("{name} until {}", knee(name).copied().unwrap_or(1));
    let each: Vec<_> = DESIGNS.iter().map(|design| until(design.name)).collect();
    let sentence = format!(
        "{most} threads: predicted {predicted:.2} times one, measured {measured:.2}. At least three quarters of linear, in the model: {} cores; at 128 cores: {}.",
        each.join(", "),
        DESIGNS.iter().map(|design| format!("{} {:.0} times", design.name, speedup(design.name, 128.0))).collect::<Vec<_>>().join(", "),
    );
    let conditions = [
        speedup("log mutex", 128.0) < 0.5 * speedup(TODAY, 128.0),
        speedup("pool mutex", 128.0) < 0.5 * speedup(TODAY, 128.0),
        (measured - predicted).abs() < 0.2 * predicted,
    ];
    let mut header = effort.header();
    header.extend([
        ("cycles_per_row", format!("{work}, from the measured rate of one thread at 2.5 GHz")),
        ("model_server", Machine::SERVER.name.to_owned()),
    ]);
    Drawn { verdict: Verdict::of(&conditions, sentence), panels: vec![modelled, misses, both], settings: header }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A word that all cores write moves from one to the next: no more rows a second than it makes moves.
    #[test]
    fn one_word_bounds_the_rate() {
        let machine = Machine::SERVER;
        let moves_per_s = machine.ghz * 1e9 / machine.transfer_cycles as f64;
        let (today, _) = DESIGNS[0].run(128, 500, 200, 1);
        let (streams, _) = DESIGNS[1].run(128, 500, 200, 1);
        assert!(today < 1.05 * moves_per_s, "{today} rows/s, {moves_per_s} moves/s");
        assert!(streams > 2.0 * today, "{streams} with streams, {today} without");
    }

    /// Long rows hardly meet: cores of their own tables scale while a row takes much longer than a move.
    #[test]
    fn long_rows_scale() {
        let speedup = DESIGNS[0].run(16, 50_000, 200, 1).0 / DESIGNS[0].run(1, 50_000, 200, 1).0;
        assert!(speedup > 15.0, "{speedup}");
    }
}
