//! The O2-Tree with the paper's locks under many schedules: the scenarios of every map, and those of O2-Trees.
//!
//! Run: `RUSTFLAGS="--cfg shuttle" cargo test -p foreshore-index --release --test shuttle_o2`.
//! `INDEX_SHUTTLE_ITERATIONS` (default 2000) schedules per scenario and scheduler; a failure prints the schedule.
//! Blocks hold four entries. A node given back is reused at once or caught when it is met.
#![cfg(shuttle)]

mod o2_scenarios;
mod scenarios;

use foreshore_index::O2Map;

type Ints = O2Map<u64, 4>;
