//! The log as a whole: against the simulated disk, which crashes and fails, and against real directories.

mod basic;
mod crash;
mod faults;
mod handles;
mod own_flights;
mod speed;
mod stress;
mod tasks;
mod world;

use super::LogOptions;

/// The smallest log: laps, segment ends and cut records come soon.
pub(super) const SMALL: LogOptions = LogOptions { segment_bytes: 64 << 10, ring_bytes: 64 << 10 };
