//! Keys and values of the key-value workloads, both computed from a row number.
//!
//! Why computed: a run of any size needs no table of rows in memory, whose cache misses would be measured with the engine's;
//! and any value read can be checked against its key, whoever wrote it.
//!
//! Invariants:
//! - K1: `number(row)` grows with `row`, so rows `0..n` in order are a sorted bulk load.
//! - K2: numbers are spread over the whole key range with jitter, so that no engine profits from dense keys.
//! - K3: a value begins with a 4-byte stamp chosen by its writer; the rest follows from key and stamp. So an update changes
//!   the value, and a reader who knows its length recognises every value ever written for this key, and no other.

use crate::random::{below, mix};

/// Shortest value: a 4-byte stamp and 4 bytes that check it (K3).
pub const VALUE_BYTES_MIN: usize = 8;

/// Longest value: what Foreshore takes.
pub const VALUE_BYTES_MAX: usize = 256 << 20;

/// Longest key, likewise.
pub const KEY_BYTES_MAX: usize = 1024;

/// The rows of a run: `n` distinct keys of `key_bytes` bytes.
#[derive(Clone, Debug)]
pub struct Keys {
    seed: u64,
    stride: u64,
    key_bytes: usize,
}

impl Keys {
    /// The keys of rows `0..n`.
    ///
    /// Panics if `key_bytes` is 0, or too few for `n` distinct keys.
    pub fn new(n: u64, key_bytes: usize, seed: u64) -> Self {
        let stride = Self::room(key_bytes) / u128::from(n.max(1));
        assert!(stride > 0, "{key_bytes} bytes for {n} keys");
        Self { seed: mix(seed), stride: u64::try_from(stride).unwrap_or(u64::MAX), key_bytes }
    }

    /// How many keys there are of so many bytes, at most 2^64.
    pub fn room(key_bytes: usize) -> u128 {
        if key_bytes == 0 { 0 } else { 1 << (8 * key_bytes.min(8)) }
    }

    /// The number that is the key of `row` (K1, K2).
    #[inline]
    pub fn number(&self, row: u64) -> u64 {
        row * self.stride + below(mix(row ^ self.seed), self.stride)
    }

    /// Writes a key: the number, big-endian, zeros before it. `out` has `key_bytes` bytes.
    #[inline]
    pub fn write(&self, number: u64, out: &mut [u8]) {
        debug_assert_eq!(out.len(), self.key_bytes);
        let digits = number.to_be_bytes();
        match out.len().checked_sub(digits.len()) {
            Some(zeros) => {
                out[..zeros].fill(0);
                out[zeros..].copy_from_slice(&digits);
            }
            None => out.copy_from_slice(&digits[digits.len() - out.len()..]),
        }
    }

    /// The number in a key that [`write`](Self::write) wrote; `None` for other bytes.
    #[inline]
    pub fn read(&self, key: &[u8]) -> Option<u64> {
        if key.len() != self.key_bytes {
            return None;
        }
        let (zeros, digits) = key.split_at(key.len().saturating_sub(8));
        let mut word = [0; 8];
        word[8 - digits.len()..].copy_from_slice(digits);
        zeros.iter().all(|&byte| byte == 0).then(|| u64::from_be_bytes(word))
    }
}

/// Writes the value of key `number` with this stamp (K3).
///
/// Panics if `out` is shorter than [`VALUE_BYTES_MIN`].
#[inline]
pub fn write_value(number: u64, stamp: u32, out: &mut [u8]) {
    for (chunk, word) in out.chunks_mut(8).zip(ValueWords::new(number, stamp)) {
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
}

/// The stamp in a value; 0 if the value is too short to have one.
pub(crate) fn stamp(value: &[u8]) -> u32 {
    value.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Was this value, of `value_bytes` bytes, written for key `number`?
#[inline]
pub fn value_belongs(number: u64, value_bytes: usize, value: &[u8]) -> bool {
    let Some(stamp) = value.first_chunk::<4>() else { return false };
    let words = ValueWords::new(number, u32::from_le_bytes(*stamp));
    value.len() == value_bytes
        && value.chunks(8).zip(words).all(|(chunk, word)| chunk == &word.to_le_bytes()[..chunk.len()])
}

/// The words of a value: stamp and check, then a stream that both begin.
struct ValueWords {
    next: u64,
}

impl ValueWords {
    #[inline]
    fn new(number: u64, stamp: u32) -> Self {
        let check = mix(number ^ u64::from(stamp).rotate_right(16)) << 32;
        Self { next: check | u64::from(stamp) }
    }
}

impl Iterator for ValueWords {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        let word = self.next;
        self.next = mix(word);
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// K1, and keys read back in byte order.
        #[test]
        fn keys_grow_and_read_back(n in 2u64..1_000_000, key_bytes in 4usize..20, seed: u64, at in 0u64..1_000_000) {
            let keys = Keys::new(n, key_bytes, seed);
            let row = at % (n - 1);
            let (low, high) = (keys.number(row), keys.number(row + 1));
            prop_assert!(low < high);
            let (mut a, mut b) = (vec![0xEE; key_bytes], vec![0xEE; key_bytes]);
            keys.write(low, &mut a);
            keys.write(high, &mut b);
            prop_assert!(a < b);
            prop_assert_eq!((keys.read(&a), keys.read(&b)), (Some(low), Some(high)));
        }

        /// K3: a value belongs to its key, and neither a changed byte nor another key's value passes.
        #[test]
        fn values_belong_to_their_key(number: u64, other: u64, stamp: u32, len in 8usize..40, flip in 0usize..40) {
            let mut value = vec![0; len];
            write_value(number, stamp, &mut value);
            prop_assert!(value_belongs(number, len, &value));
            prop_assert!(!value_belongs(number, len, &value[..len - 1]), "cut");
            prop_assert!(number == other || !value_belongs(other, len, &value));
            value[4 + flip % (len - 4)] ^= 1;
            prop_assert!(!value_belongs(number, len, &value));
        }
    }

    #[test]
    fn the_last_key_fits() {
        for (n, key_bytes) in [(1, 8), (1 << 16, 2), (1 << 32, 4), (3, 1)] {
            let keys = Keys::new(n, key_bytes, 7);
            assert!(u128::from(keys.number(n - 1)) < Keys::room(key_bytes), "{n} keys of {key_bytes} bytes");
        }
    }
}
