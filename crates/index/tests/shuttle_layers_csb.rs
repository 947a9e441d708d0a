//! Byte strings in layers of CSB+-trees under many schedules: the scenarios of every map, and those of layers and bags.
//!
//! Run: `RUSTFLAGS="--cfg shuttle" cargo test -p foreshore-index --release --test shuttle_layers_csb`.
//! `INDEX_SHUTTLE_ITERATIONS` (default 2000) schedules per scenario and scheduler; a failure prints the schedule.
//! Nodes hold four slices, bags two tails. A node given back is reused at once or caught when it is met.
#![cfg(shuttle)]

mod layer_scenarios;
mod named;
mod scenarios;

use foreshore_index::CsbByteMap;
use layer_scenarios::{name, number};
use named::Ints;

type Names = CsbByteMap<4, 2>;
