//! What the experiments share: turns and their times, steps that are told, keys in no order.
//!
//! Machines are noisy, noise lasts, and it only ever adds: so whatever is compared takes turns of some milliseconds, and the
//! turn counts that is slower than a quarter of them.

pub use foreshore_base::random::scramble as scramble64;

use std::time::{Duration, Instant};

/// Turns in which a tree is filled.
pub(super) const FILL_TURNS: u64 = 40;

/// How far an experiment is.
pub(super) struct Steps<'p> {
    done: usize,
    progress: &'p mut dyn FnMut(usize, &str),
}

impl<'p> Steps<'p> {
    pub fn new(progress: &'p mut dyn FnMut(usize, &str)) -> Self {
        Self { done: 0, progress }
    }

    pub fn begin(&mut self, what: &str) {
        (self.progress)(self.done, what);
        self.done += 1;
    }
}

/// The time of a turn, which says whether all of its answers were right.
pub(super) fn time(turn: impl FnOnce() -> bool) -> Duration {
    let start = Instant::now();
    assert!(turn(), "an index gave a wrong answer");
    start.elapsed()
}

/// Nanoseconds of one of so many operations, in the turn that is slower than a quarter of them; tenths are enough.
///
/// Panics if there are no turns.
///
/// ```
/// use foreshore_index::calibrate::turns::quartile_ns;
/// use std::time::Duration;
///
/// let turns = [900, 100, 120, 110].map(Duration::from_nanos).to_vec();
/// assert_eq!(quartile_ns(turns, 10), 11.0);
/// ```
pub fn quartile_ns(mut turns: Vec<Duration>, operations: usize) -> f64 {
    turns.sort_unstable();
    (turns[turns.len() / 4].as_nanos() as f64 / operations as f64 * 10.0).round() / 10.0
}

/// Keys `from..to` of an experiment, with their numbers.
pub(super) fn numbered<K>(from: u64, to: u64, key: impl Fn(u64) -> K) -> Vec<(K, u64)> {
    (from..to).map(|i| (key(i), i)).collect()
}

/// The queries of a turn: any of the first `entries` keys, with their numbers.
pub(super) fn queries<K>(turn: u64, count: usize, entries: u64, key: impl Fn(u64) -> K) -> Vec<(K, u64)> {
    let numbers = (0..count as u64).map(|i| scramble64(turn << 32 | i) % entries);
    numbers.map(|i| (key(i), i)).collect()
}

/// A bijection without order: odd factors and xored shifts are bijections.
pub(super) fn scramble32(number: u64) -> u32 {
    let mut x = number as u32;
    x = (x ^ x >> 16).wrapping_mul(0x7FEB_352D);
    x = (x ^ x >> 15).wrapping_mul(0x846C_A68B);
    x ^ x >> 16
}

/// Both words are random, as those of a UUID are.
pub(super) fn scramble128(number: u64) -> u128 {
    let high = scramble64(number);
    u128::from(high) << 64 | u128::from(scramble64(high))
}
