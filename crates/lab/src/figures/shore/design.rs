//! One row inserted, as the coherence model sees it: work that nobody shares, lines that threads share, critical sections.
//!
//! Why: a machine of two processors cannot show what a mutex costs at thirty-two. How the work of a row divides into its
//! parts comes from instructions counted by callgrind, and the shared lines from a build that counts writes; both are of
//! `crates/engine/examples/costs.rs`, and `docs/scaling.md` has the commands. How long the whole of it takes comes from a
//! clock, once: one thread that inserts row by row.
//!
//! Left out: waiting for the device, memory bandwidth, splits, and that an old critical section may have held more than
//! what it holds in this engine.

use crate::model::{Event, Machine, ManyCores, Trace};
use crate::probe::{Hold, Probe};
use foreshore_workloads::random::Random;
use std::convert::Infallible;

/// Cores of the modelled machine.
pub const CORES: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// Rows per second of one thread, measured.
const MEASURED: f64 = 2.6e6;
/// Cycles of a row's work. With what the model adds for its lines, one core inserts as many rows as were measured.
const ROW_CYCLES: u64 = 800;
/// Instructions of `transactional-insert`, which divide these cycles.
const ROW_INSTRUCTIONS: u64 = 4570;
/// … of them, finding and latching the leaf, and the place in it.
const FIND: u64 = 490;
/// … checksum and copy of the log record.
const COPY: u64 = 380;
/// … each visit to a bucket of the key table.
const VISIT: u64 = 150;
/// Visits to the key table: lock and gap looked at, image pushed, both given back at the commit.
const BUCKET_VISITS: u64 = 4;
/// Looks into the page table, and the instructions of one under a latch.
const PAGE_LOOKS: u64 = 3;
const LOOK: u64 = 20;

/// Buckets of the key table; parts of the counter of image bytes, one of which a transaction's slot chooses.
const BUCKETS: u64 = 1 << 16;
const STRIPES: u64 = 16;

/// Where shared lines lie.
const RESERVED: u64 = 0;
const STRIPE: u64 = 1 << 12;
const SPACE_MUTEX: u64 = 1 << 14;
const LOG_MUTEX: u64 = 2 << 14;
const KEYS_MUTEX: u64 = 3 << 14;
const POOL_MUTEX: u64 = 4 << 14;
const BUCKET: u64 = 1 << 24;

/// What of an old engine a design still has.
#[derive(Clone, Copy, Debug)]
pub struct Design {
    /// Mutexes over the page table: none today.
    pub pool_mutexes: u64,
    /// Is the leaf found under a global mutex?
    pub space_mutex: bool,
    /// Is a record copied under a global mutex?
    pub log_mutex: bool,
    /// Are all buckets of the key table behind one mutex?
    pub keys_mutex: bool,
    /// Words on which log records are reserved; a core keeps to one of them.
    pub streams: u64,
}

impl Design {
    /// Today's engine.
    pub const TODAY: Self =
        Self { pool_mutexes: 0, space_mutex: false, log_mutex: false, keys_mutex: false, streams: 1 };

    /// The engine with the old primitives that `FORESHORE_OLD` would name so. What costs nothing per row is not modelled.
    pub fn with_old(names: &str) -> Self {
        let has = |name| names.split(',').any(|old| old == name);
        let pool_mutexes = if has("pool-mutex") {
            1
        } else if has("pool-buckets") {
            128
        } else {
            0
        };
        Self {
            pool_mutexes,
            space_mutex: has("space-mutex"),
            log_mutex: has("log-mutex"),
            keys_mutex: has("keys-mutex"),
            streams: 1,
        }
    }

    /// Inserts a row.
    fn row(&self, core: usize, random: &mut Random, trace: &mut Trace) {
        let in_sections = FIND + COPY + BUCKET_VISITS * VISIT + PAGE_LOOKS * LOOK;
        let own = cycles(ROW_INSTRUCTIONS - in_sections) / BUCKET_VISITS;
        let bucket = BUCKET + 64 * random.below(BUCKETS);
        for visit in 0..BUCKET_VISITS {
            trace.0.push(Event::Work(own));
            section(trace, self.keys_mutex.then_some(KEYS_MUTEX), |trace| {
                trace.exchange(bucket);
                trace.0.push(Event::Work(cycles(VISIT)));
            });
            if visit == 0 {
                section(trace, self.space_mutex.then_some(SPACE_MUTEX), |trace| {
                    trace.0.push(Event::Work(cycles(FIND)));
                    (0..PAGE_LOOKS).for_each(|_| self.look(random, trace));
                });
            }
        }
        trace.exchange(STRIPE + 128 * (core as u64 % STRIPES));
        section(trace, self.log_mutex.then_some(LOG_MUTEX), |trace| {
            trace.exchange(RESERVED + 128 * (core as u64 % self.streams));
            trace.0.push(Event::Work(cycles(COPY)));
        });
    }

    /// Looks a page up.
    fn look(&self, random: &mut Random, trace: &mut Trace) {
        let mutex = (self.pool_mutexes > 0).then(|| POOL_MUTEX + 64 * random.below(self.pool_mutexes));
        section(trace, mutex, |trace| trace.0.push(Event::Work(cycles(LOOK))));
    }

    /// Rows per second of so many cores, after as many rows that warm their caches; and coherence misses per row.
    pub fn run(&self, cores: usize, rows: u64, seed: u64) -> (f64, f64) {
        let mut random = Random::new(seed, cores as u64);
        let mut model = ManyCores::new(Machine { operation_cycles: 0, ..Machine::SERVER }, cores);
        // The key table was used before these rows. Else most of its buckets would come from memory until many cores had used it.
        model.fill(BUCKET + 64 * BUCKETS);
        let mut next = |core: usize, trace: &mut Trace| -> Result<(), Infallible> {
            self.row(core, &mut random, trace);
            Ok(())
        };
        let Ok(per_s) = model.run(rows, &mut next).and_then(|_| model.run(rows, &mut next));
        (per_s, model.counts().coherence_misses as f64 / (rows * cores as u64) as f64)
    }
}

/// Cycles of so many of a row's instructions.
const fn cycles(instructions: u64) -> u64 {
    instructions * ROW_CYCLES / ROW_INSTRUCTIONS
}

/// Does `work`, under this latch if there is one.
fn section(trace: &mut Trace, latch: Option<u64>, work: impl FnOnce(&mut Trace)) {
    if let Some(at) = latch {
        trace.take(at, Hold::Exclusive);
    }
    work(trace);
    if let Some(at) = latch {
        trace.give(at, Hold::Exclusive);
    }
}

/// For a file's header.
pub fn header() -> [(&'static str, String); 2] {
    [
        ("model_server", Machine::SERVER.name.to_owned()),
        (
            "model_row",
            format!(
                "{MEASURED} rows/s measured on one core: {ROW_CYCLES} cycles and lines for {ROW_INSTRUCTIONS} instructions, of which leaf {FIND}, log copy {COPY}, {BUCKET_VISITS} visits to the key table of {VISIT}, {PAGE_LOOKS} page lookups of {LOOK}"
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_core_inserts_what_was_measured() {
        let (alone, _) = Design::TODAY.run(1, 3000, 1);
        assert!((alone / MEASURED - 1.0).abs() < 0.05, "{alone} rows/s in the model");
    }

    /// Today no section is exclusive: cores scale until the reservation word moves as fast as it can.
    #[test]
    fn todays_rows_meet_at_one_word_only() {
        let alone = Design::TODAY.run(1, 300, 1).0;
        let four = Design::TODAY.run(4, 300, 1).0;
        assert!(four > 3.0 * alone, "{four} on 4 cores, {alone} on one");
        let machine = Machine::SERVER;
        let moves_per_s = machine.ghz * 1e9 / machine.transfer_cycles as f64;
        let (many, _) = Design::TODAY.run(128, 300, 1);
        let (streams, _) = Design { streams: 8, ..Design::TODAY }.run(128, 300, 1);
        assert!(many < 1.05 * moves_per_s, "{many} rows/s, {moves_per_s} moves/s");
        assert!(streams > 1.5 * many, "{streams} with streams, {many} without");
    }

    /// Cores that meet at next to nothing do at most so many times the rows of one.
    #[test]
    fn more_cores_do_no_more_each() {
        let streams = Design { streams: 8, ..Design::TODAY };
        let speedup = streams.run(8, 3000, 1).0 / streams.run(1, 3000, 1).0;
        assert!((7.0..8.0).contains(&speedup), "8 cores do {speedup} times the rows of one");
    }

    /// A mutex bounds the rate by the cycles that it is held.
    #[test]
    fn a_mutex_bounds_the_rate() {
        let design = Design::with_old("log-mutex");
        let most = Machine::SERVER.ghz * 1e9 / cycles(COPY) as f64;
        let (rate, _) = design.run(64, 200, 1);
        assert!(rate < most, "{rate} rows/s under a mutex that allows {most}");
        assert!(Design::TODAY.run(64, 200, 1).0 > 2.0 * rate);
    }
}
