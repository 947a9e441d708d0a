//! What the maps are ordered by, and the numbers that everything is drawn from.

use foreshore_base::random::scramble;

/// Turns the number of an entry into its key. All are distinct, and look random.
pub trait Keys: Copy + Send + Sync {
    /// What it is.
    type Key: Ord + Copy + Send + Sync;
    /// The key of the entry of this number.
    fn key(self, number: u64) -> Self::Key;
}

/// Any numbers of 64 bits.
#[derive(Clone, Copy, Debug)]
pub struct U64Keys;

/// Any numbers of 32 bits.
#[derive(Clone, Copy, Debug)]
pub struct U32Keys;

/// A table's name and 16 hexadecimal digits.
#[derive(Clone, Copy, Debug)]
pub struct StringKeys;

impl Keys for U64Keys {
    type Key = u64;

    #[inline]
    fn key(self, number: u64) -> u64 {
        scramble(number)
    }
}

impl Keys for U32Keys {
    type Key = u32;

    #[inline]
    fn key(self, number: u64) -> u32 {
        // Odd factors and shifted xors are bijections of 32 bits, so numbers below 2^32 stay distinct.
        let mut x = number as u32;
        x = (x ^ x >> 16).wrapping_mul(0x7FEB_352D);
        x = (x ^ x >> 15).wrapping_mul(0x846C_A68B);
        x ^ x >> 16
    }
}

impl Keys for StringKeys {
    type Key = [u8; 23];

    #[inline]
    fn key(self, number: u64) -> [u8; 23] {
        let mut key = *b"orders/0000000000000000";
        let mut rest = scramble(number);
        for digit in key[7..].iter_mut().rev() {
            *digit = b"0123456789abcdef"[(rest & 15) as usize];
            rest >>= 4;
        }
        key
    }
}

/// The value that belongs to the entry of this number.
pub fn value_of(number: u64) -> u64 {
    number.wrapping_mul(3) + 1
}
