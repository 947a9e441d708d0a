//! Caches, a TLB, a branch predictor, and many processors that keep their caches coherent, fed by [`crate::probe`].
//!
//! - [`Machine`]: sizes and latencies; every modelled figure's header names its machine.
//! - [`OneCore`]: counts the misses of one thread, access by access.
//! - [`ManyCores`]: replays one trace per core in the order of the cores' clocks, with MESI states for every line and with
//!   latches that make others wait; throughput follows from the clocks.
//!
//! What it leaves out: overlap of misses inside an operation, store buffers beyond "a plain store costs nothing but its
//! line", hardware prefetching, the instruction cache. So the order of schemes and the number of misses are to be believed,
//! and times only as ratios.

mod branches;
mod cache;
mod cores;
mod counts;
mod lines;
mod machine;
mod one;
mod trace;

pub use cache::Cache;
pub use cores::ManyCores;
pub use counts::Counts;
pub use machine::Machine;
pub use one::OneCore;
pub use trace::{Event, Trace};
