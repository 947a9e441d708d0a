//! Byte strings in layers of optimistic O2-Trees under many schedules: the scenarios of every map, and those of layers and bags.
//!
//! Run: `RUSTFLAGS="--cfg shuttle" cargo test -p foreshore-index --release --test shuttle_layers_o2`.
//! `INDEX_SHUTTLE_ITERATIONS` (default 2000) schedules per scenario and scheduler; a failure prints the schedule.
//! Nodes hold four slices, bags two tails. A node given back is reused at once or caught when it is met.
#![cfg(shuttle)]

mod layer_scenarios;
mod named;
mod scenarios;

use foreshore_index::OptimisticO2ByteMap;
use layer_scenarios::{name, number};
use named::Ints;

type Names = OptimisticO2ByteMap<4, 2>;
