//! Latches, log reservations and tables of buffer pools, each in a page: what Shore-MT replaced, and what replaced that.
//!
//! ```
//! use foreshore_lab::primitives::latches::{Latch, Mcs};
//!
//! let latch = Mcs::new(1);
//! assert_eq!(latch.with(0, || 42), 42);
//! ```

pub mod buffer_tables;
pub mod latches;
pub mod reservations;
