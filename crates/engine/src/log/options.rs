//! How long a segment, how large the ring; and the limits that follow from them.

use crate::error::{Error, Result};
use foreshore_io::BLOCK_BYTES;
use std::ops::RangeInclusive;

/// A block, as a distance between LSNs.
pub(super) const BLOCK: u64 = BLOCK_BYTES as u64;

/// Bytes that a segment can have.
const SEGMENT_BYTES: RangeInclusive<u64> = 64 << 10..=1 << 40;
/// Bytes that the ring can have. It is memory, all of which is touched at each open; and the longest record, an eighth of it, must have a
/// length of 32 bits.
const RING_BYTES: RangeInclusive<u64> = 64 << 10..=16 << 30;

/// A flight of this size keeps a fast disk busy; a larger one only makes its first commit wait longer.
const FLIGHT_BYTES_MAX: u64 = 1 << 20;

/// Writes of the log that may be under way at once; each has its thread.
pub(super) const FLIGHTS: usize = 2;

/// The log's measures. They belong to the database's format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogOptions {
    /// Bytes of a segment file, a multiple of 4096, from 64 KiB to 1 TiB.
    pub segment_bytes: u64,
    /// Bytes of the ring, a power of two, from 64 KiB to 16 GiB.
    pub ring_bytes: usize,
}

/// As `Builder` has it.
#[cfg(test)]
impl Default for LogOptions {
    fn default() -> Self {
        Self { segment_bytes: 32 << 20, ring_bytes: 16 << 20 }
    }
}

impl LogOptions {
    /// Errors: [`Error::Argument`] naming the measure that makes no sense.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: &str| Err(Error::Argument(what.to_string()));
        if !SEGMENT_BYTES.contains(&self.segment_bytes) || !self.segment_bytes.is_multiple_of(BLOCK) {
            return wrong("segment_bytes must be a multiple of 4096, from 64 KiB to 1 TiB");
        }
        if !RING_BYTES.contains(&self.ring()) || !self.ring_bytes.is_power_of_two() {
            return wrong("ring_bytes must be a power of two, from 64 KiB to 16 GiB");
        }
        Ok(())
    }

    /// The longest record body in bytes.
    pub fn body_bytes_max(&self) -> usize {
        self.record_bytes_max() as usize - super::record::HEADER_BYTES
    }

    /// The longest record: an eighth of the ring. See `flights.rs` for the sum that needs it.
    pub(super) fn record_bytes_max(&self) -> u64 {
        self.ring() / 8
    }

    /// The longest flight, in whole blocks: all flights together are at most half the ring.
    pub(super) fn flight_bytes_max(&self) -> u64 {
        FLIGHT_BYTES_MAX.min(floor_block(self.ring() / (2 * FLIGHTS as u64)))
    }

    /// Bytes of the ring, as a distance between LSNs.
    pub(super) fn ring(&self) -> u64 {
        self.ring_bytes as u64
    }
}

/// The beginning of the block that holds byte `lsn`.
pub(super) fn floor_block(lsn: u64) -> u64 {
    lsn & !(BLOCK - 1)
}

/// The first block boundary at or after `lsn`.
pub(super) fn ceil_block(lsn: u64) -> u64 {
    lsn.next_multiple_of(BLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senseless_measures_are_refused() {
        let good = LogOptions::default();
        assert!(good.check().is_ok());
        assert!(LogOptions { segment_bytes: 5000, ..good }.check().is_err());
        assert!(LogOptions { segment_bytes: 0, ..good }.check().is_err());
        assert!(LogOptions { segment_bytes: 2 << 40, ..good }.check().is_err());
        assert!(LogOptions { ring_bytes: 32 << 10, ..good }.check().is_err());
        assert!(LogOptions { ring_bytes: 100_000, ..good }.check().is_err());
        assert!(LogOptions { ring_bytes: 16 << 30, ..good }.check().is_ok());
        let told =
            LogOptions { ring_bytes: 1 << 40, ..good }.check().expect_err("no machine has it").to_string();
        assert!(told.ends_with("from 64 KiB to 16 GiB"), "{told}");
    }

    #[test]
    fn all_flights_fit_into_half_the_ring() {
        for ring_bytes in [64 << 10, 1 << 20, 16 << 20] {
            let options = LogOptions { ring_bytes, ..LogOptions::default() };
            assert!(options.flight_bytes_max() >= BLOCK);
            assert!(options.flight_bytes_max() * FLIGHTS as u64 <= options.ring() / 2);
        }
    }
}
