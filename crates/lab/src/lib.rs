//! The laboratory: each figure of the papers behind Foreshore, drawn anew by real code, beside what the paper saw.
//!
//! - [`figures::all`] lists the figures; [`Figure::run`](frame::Figure::run) makes one; [`frame::results`] keeps it as
//!   CSV and SVG; [`frame::report`] builds a page from what is kept.
//! - [`olfit`]: a B+-tree and a full CSB+-tree under the six concurrency schemes that OLFIT compares, on one node layout.
//! - [`trees`]: the structures that the other papers compare against: T-tree, CSS-tree, CSB+-tree, AVL, red-black.
//! - [`primitives`]: latches, log reservations and tables of buffer pools: generations of each.
//! - [`peers`]: other programs, run as children: this engine, the same with old primitives, its peers.
//! - [`probe`]: the seam through which a structure tells its memory accesses; [`model`]: caches, a TLB, a branch
//!   predictor and many cores with coherent caches, fed through that seam.
//! - [`counters`]: what the machine itself counts, where it does.
//!
//! Every figure checks the answers of what it times: a wrong one is an error, not a point on a line.
//!
//! ```
//! use foreshore_lab::frame::Settings;
//!
//! let figure = foreshore_lab::figures::named("olfit-table1").unwrap();
//! let drawn = figure.run(&Settings::quick(1), &mut |_, _| {}).unwrap();
//! assert!(drawn.verdict.holds());
//! ```

pub mod counters;
pub mod figures;
pub mod frame;
pub mod model;
pub mod olfit;
pub mod peers;
pub mod primitives;
pub mod probe;
pub mod trees;
mod wait;
