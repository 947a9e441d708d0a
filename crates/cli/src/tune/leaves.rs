//! The experiment on the engine: puts, gets and scans of small rows in tables with leaves of each size.
//!
//! Everything is in memory and nobody waits for a device, so the figures are the processor's. Databases take turns, as maps do
//! in `calibrate`; every row that is got is checked, and of every scan the first key.

use crate::failure::{Failure, Outcome};
use foreshore::{ByteTable, Database, Durability};
use foreshore_index::calibrate::LeafMeasured;
use foreshore_index::calibrate::experiment::Plan;
use foreshore_index::calibrate::turns::{quartile_ns, scramble64};
use foreshore_io::MemVfs;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The sizes that the engine offers.
const SIZES: [usize; 4] = [4 << 10, 8 << 10, 16 << 10, 32 << 10];
/// Larger tables have no more to tell, and four of them stand side by side.
const ROWS_MAX: u64 = 1_000_000;
/// Turns in which a table is filled; those of the second half count.
const FILL_TURNS: u64 = 24;
/// A row's value; its key has 8 bytes more.
const VALUE: [u8; 24] = [7; 24];
/// Rows of a scan.
const SCAN: usize = 100;

/// Steps that [`measure`] tells of.
pub fn steps(plan: &Plan) -> usize {
    sizes(plan).len() * (FILL_TURNS as usize + plan.turns)
}

/// Tree sizes of the plan, the greatest bounded.
fn sizes(plan: &Plan) -> Vec<u64> {
    let mut sizes: Vec<u64> = plan.entries.iter().map(|rows| (*rows).min(ROWS_MAX)).collect();
    sizes.dedup();
    sizes
}

/// Measures all leaf sizes; tells `progress` of each step before it begins.
///
/// Errors: the engine's; corruption, if a database gives a wrong answer.
pub fn measure(plan: &Plan, progress: &mut dyn FnMut(usize, &str)) -> Outcome<Vec<LeafMeasured>> {
    let mut done = 0;
    let mut measured = Vec::new();
    for rows in sizes(plan) {
        let mut begin = |what: &str| {
            progress(done, &format!("leaves, {rows} rows: {what}"));
            done += 1;
        };
        measured.extend(compare(plan, rows, &mut begin)?);
    }
    Ok(measured)
}

/// A database with leaves of one size, and the times of its turns.
struct Candidate {
    leaf_bytes: usize,
    db: Database,
    table: ByteTable,
    puts: Vec<Duration>,
    gets: Vec<Duration>,
    scans: Vec<Duration>,
}

/// All leaf sizes for one table size.
fn compare(plan: &Plan, rows: u64, begin: &mut dyn FnMut(&str)) -> Outcome<Vec<LeafMeasured>> {
    let mut candidates =
        SIZES.into_iter().map(|size| Candidate::open(size, rows)).collect::<Outcome<Vec<_>>>()?;
    let per_turn = rows.div_ceil(FILL_TURNS);
    for turn in 0..FILL_TURNS {
        begin("puts");
        candidates.iter_mut().try_for_each(|c| c.put(turn, turn * per_turn..(turn + 1) * per_turn))?;
    }
    let operations = (plan.operations / 4).max(SCAN);
    for turn in 0..plan.turns as u64 {
        begin("gets and scans");
        let numbers = (0..operations as u64).map(|i| scramble64(turn << 32 | i) % rows);
        let keys: Vec<_> = numbers.map(key).collect();
        candidates.iter_mut().try_for_each(|c| c.read(&keys))?;
    }
    candidates.into_iter().map(|c| c.measured(rows, per_turn as usize, operations)).collect()
}

impl Candidate {
    fn open(leaf_bytes: usize, rows: u64) -> Outcome<Self> {
        // All rows in memory, whatever the fill of leaves; log and segments as those of `Database::in_memory`.
        let row_bytes = size_of::<u64>() + VALUE.len();
        let cache_bytes = (64 << 20) + 4 * rows as usize * row_bytes;
        let options = Database::builder()
            .leaf_bytes(leaf_bytes)
            .cache_bytes(cache_bytes)
            .durability(Durability::Relaxed)
            .ring_bytes(1 << 20)
            .segment_bytes(1 << 20)
            .log_bytes(16 << 20);
        let db = options.open_on(Arc::new(MemVfs::new()))?;
        let table = db.byte_table("tune")?;
        Ok(Self { leaf_bytes, db, table, puts: Vec::new(), gets: Vec::new(), scans: Vec::new() })
    }

    fn put(&mut self, turn: u64, numbers: std::ops::Range<u64>) -> Outcome {
        let start = Instant::now();
        for number in numbers {
            self.table.put(&key(number), &VALUE)?;
        }
        if turn >= FILL_TURNS / 2 {
            self.puts.push(start.elapsed());
        }
        Ok(())
    }

    fn read(&mut self, keys: &[[u8; 8]]) -> Outcome {
        let mut value = Vec::new();
        let start = Instant::now();
        for key in keys {
            if !self.table.get_into(key, &mut value)? || value != VALUE {
                return Err(wrong(self.leaf_bytes));
            }
        }
        self.gets.push(start.elapsed());
        let start = Instant::now();
        for key in &keys[..keys.len().div_ceil(SCAN)] {
            let (mut first, mut left) = (None, SCAN);
            self.table.scan(&key[..].., |found, _| {
                first.get_or_insert_with(|| found == key);
                left -= 1;
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            if first != Some(true) {
                return Err(wrong(self.leaf_bytes));
            }
        }
        self.scans.push(start.elapsed());
        Ok(())
    }

    fn measured(self, rows: u64, puts: usize, gets: usize) -> Outcome<LeafMeasured> {
        self.db.close()?;
        Ok(LeafMeasured {
            leaf_bytes: self.leaf_bytes,
            rows,
            row_bytes: size_of::<u64>() + VALUE.len(),
            put_ns: quartile_ns(self.puts, puts),
            get_ns: quartile_ns(self.gets, gets),
            scan_ns: quartile_ns(self.scans, gets.div_ceil(SCAN)),
        })
    }
}

fn wrong(leaf_bytes: usize) -> Failure {
    Failure::corrupt(format!("a database with leaves of {leaf_bytes} bytes gave a wrong answer"))
}

fn key(number: u64) -> [u8; 8] {
    scramble64(number).to_be_bytes()
}
