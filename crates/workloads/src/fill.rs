//! Values of any length that are written and checked at the speed of memory.
//!
//! Why another kind of value: those of `keys` are a chain of multiplications, 5 ns for 8 bytes; a kilobyte of them would cost
//! more than most engines' lookup. Here the words after the first are an arithmetic progression, which vectorises.
//!
//! The first word is that of a value of `keys`: a stamp chosen by its writer and a check of key and stamp. The rest follows
//! from it.

use crate::keys::{VALUE_BYTES_MIN, value_belongs, write_value};
use foreshore_base::random::{GAMMA, mix};

/// Writes the value of key `number` with this stamp.
///
/// Panics if `out` is shorter than [`VALUE_BYTES_MIN`].
#[inline]
pub(crate) fn write(number: u64, stamp: u32, out: &mut [u8]) {
    let (first, rest) = out.split_at_mut(VALUE_BYTES_MIN);
    write_value(number, stamp, first);
    let mut word = seed(first);
    let mut words = rest.chunks_exact_mut(8);
    for chunk in &mut words {
        chunk.copy_from_slice(&word.to_le_bytes());
        word = word.wrapping_add(GAMMA);
    }
    let tail = words.into_remainder();
    tail.copy_from_slice(&word.to_le_bytes()[..tail.len()]);
}

/// Was this value, of `value_bytes` bytes, written for key `number`?
#[inline]
pub(crate) fn belongs(number: u64, value_bytes: usize, value: &[u8]) -> bool {
    let Some((first, rest)) = value.split_at_checked(VALUE_BYTES_MIN) else { return false };
    let mut word = seed(first);
    let mut difference = 0;
    let mut words = rest.chunks_exact(8);
    for chunk in &mut words {
        difference |= u64::from_le_bytes(chunk.try_into().expect("eight bytes")) ^ word;
        word = word.wrapping_add(GAMMA);
    }
    // By hand: comparing slices is a call, which costs more than all the words before.
    for (byte, expected) in words.remainder().iter().zip(word.to_le_bytes()) {
        difference |= u64::from(byte ^ expected);
    }
    difference == 0 && value.len() == value_bytes && value_belongs(number, VALUE_BYTES_MIN, first)
}

/// The word after the first.
fn seed(first: &[u8]) -> u64 {
    mix(u64::from_le_bytes(first.try_into().expect("the first eight bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A value belongs to its key, and neither a changed byte nor another key's value passes.
        #[test]
        fn values_belong_to_their_key(number: u64, other: u64, stamp: u32, len in 8usize..200, flip in 0usize..200) {
            let mut value = vec![0; len];
            write(number, stamp, &mut value);
            prop_assert!(belongs(number, len, &value));
            prop_assert!(!belongs(number, len, &value[..len - 1]), "cut");
            prop_assert!(number == other || !belongs(other, len, &value));
            value[flip % len] ^= 1;
            prop_assert!(!belongs(number, len, &value));
        }
    }

    #[test]
    fn short_values_belong_to_nobody() {
        assert!(!belongs(0, 0, &[]) && !belongs(0, 7, &[0; 7]));
    }
}
