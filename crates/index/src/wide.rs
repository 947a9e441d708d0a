//! Keys of more than a word: `u128`, `i128`, and byte arrays of a fixed length.
//!
//! Why: such keys (UUIDs, addresses, pairs of numbers, short codes) need no heap, no lengths and no prefixes, so they fit
//! the nodes of integers: an image is a row of words, the most significant first, whose order is that of the keys.
//!
//! A cell is a row of atomics. A read between two writes may mix two images; whoever reads validates (S2 in `search.rs`).

use crate::node::int::IntKey;
use crate::search::{Lane, Sealed, count_one_by_one};
use crate::{copy, shift, vector};
use foreshore_base::sync::{AtomicU64, Ordering::Relaxed};
use std::array;
use std::cmp::Ordering;
use std::mem::MaybeUninit;
use std::ops::Range;

const WORD: usize = size_of::<u64>();

impl<const W: usize> Lane for [u64; W]
where
    Self: Sealed,
{
    type Cell = [AtomicU64; W];
    type Number = Self;
    const PER_LINE: usize = if W < 8 { 8 / W } else { 1 };
    const MIN: Self = [u64::MIN; W];
    const MAX: Self = [u64::MAX; W];

    #[inline(always)]
    fn before(mut self) -> Option<Self> {
        for word in self.iter_mut().rev() {
            let borrow;
            (*word, borrow) = word.overflowing_sub(1);
            if !borrow {
                return Some(self);
            }
        }
        None
    }

    #[inline(always)]
    fn after(mut self) -> Option<Self> {
        for word in self.iter_mut().rev() {
            let carry;
            (*word, carry) = word.overflowing_add(1);
            if !carry {
                return Some(self);
            }
        }
        None
    }

    fn between(left: Self, right: Self) -> Self {
        let differing = (0..W).find(|&i| left[i] != right[i]).expect("two different images");
        array::from_fn(|i| match i.cmp(&differing) {
            Ordering::Less => right[i],
            Ordering::Equal => u64::between(left[i], right[i]),
            Ordering::Greater => 0,
        })
    }

    #[inline(always)]
    fn number(self) -> Self {
        self
    }

    #[inline(always)]
    fn from_number(number: Self) -> Self {
        number
    }

    #[inline(always)]
    fn count_in_line(line: &[Self::Cell], key: Self) -> usize {
        let words = line.as_flattened();
        let count = match W {
            1 => vector::count_u64(exactly(words), key[0]),
            2 => vector::count_pairs(exactly(words), [key[0], key[W - 1]]),
            _ => None,
        };
        count.unwrap_or_else(|| count_one_by_one::<Self>(line, key))
    }

    #[inline(always)]
    fn count_in_two_lines(lines: &[Self::Cell], key: Self) -> Option<usize> {
        let words = lines.as_flattened();
        match W {
            1 => vector::count_two_u64(exactly(words), key[0]),
            2 => vector::count_two_pairs(exactly(words), [key[0], key[W - 1]]),
            _ => None,
        }
    }

    #[inline(always)]
    fn shift_up(cells: &[Self::Cell], range: Range<usize>) {
        let (words, moved) = (cells.as_flattened(), range.start * W..range.end * W);
        let done = match W {
            1 => shift::up_u64(words, moved),
            2 => shift::up_pair(words, moved),
            _ => false,
        };
        if !done {
            shift::up_one_by_one::<Self>(cells, range);
        }
    }

    #[inline(always)]
    fn shift_down(cells: &[Self::Cell], range: Range<usize>) {
        let (words, moved) = (cells.as_flattened(), range.start * W..range.end * W);
        let done = match W {
            1 => shift::down_u64(words, moved),
            2 => shift::down_pair(words, moved),
            _ => false,
        };
        if !done {
            shift::down_one_by_one::<Self>(cells, range);
        }
    }

    #[inline(always)]
    fn copy_out(cells: &[Self::Cell], range: Range<usize>, out: &mut [MaybeUninit<Self>]) {
        // SAFETY: a row of atomic words has the bytes of the row of words.
        unsafe { copy::out_by_lines(cells, range, out) }
    }

    #[inline(always)]
    fn cell(self) -> Self::Cell {
        self.map(AtomicU64::new)
    }

    #[inline(always)]
    fn load(cell: &Self::Cell) -> Self {
        array::from_fn(|i| cell[i].load(Relaxed))
    }

    #[inline(always)]
    fn store(self, cell: &Self::Cell) {
        cell.iter().zip(self).for_each(|(cell, word)| cell.store(word, Relaxed));
    }
}

/// The words of whole lines.
#[inline(always)]
fn exactly<const N: usize>(words: &[AtomicU64]) -> &[AtomicU64; N] {
    words.try_into().expect("whole lines")
}

impl IntKey for u128 {
    type Lane = [u64; 2];

    #[inline(always)]
    fn to_lane(self) -> [u64; 2] {
        [(self >> 64) as u64, self as u64]
    }

    #[inline(always)]
    fn from_lane([high, low]: [u64; 2]) -> Self {
        u128::from(high) << 64 | u128::from(low)
    }
}

impl IntKey for i128 {
    type Lane = [u64; 2];

    #[inline(always)]
    fn to_lane(self) -> [u64; 2] {
        (self as u128 ^ 1 << 127).to_lane()
    }

    #[inline(always)]
    fn from_lane(lane: [u64; 2]) -> Self {
        (u128::from_lane(lane) ^ 1 << 127) as i128
    }
}

/// The words of a byte array, filled up with zeros.
#[inline(always)]
fn words<const N: usize, const W: usize>(bytes: [u8; N]) -> [u64; W] {
    let mut filled = [[0; WORD]; W];
    filled.as_flattened_mut()[..N].copy_from_slice(&bytes);
    filled.map(u64::from_be_bytes)
}

/// The first bytes of a row of words.
#[inline(always)]
fn bytes<const N: usize, const W: usize>(words: [u64; W]) -> [u8; N] {
    let filled = words.map(u64::to_be_bytes);
    *filled.as_flattened().first_chunk().expect("as many words as the bytes need")
}

macro_rules! byte_arrays {
    ($($n:literal)*) => {
        $(
            impl IntKey for [u8; $n] {
                type Lane = [u64; usize::div_ceil($n, WORD)];

                #[inline(always)]
                fn to_lane(self) -> Self::Lane {
                    words(self)
                }

                #[inline(always)]
                fn from_lane(lane: Self::Lane) -> Self {
                    bytes(lane)
                }
            }
        )*
    };
}

byte_arrays!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Keys around the borders of words, and any.
    fn wide() -> impl Strategy<Value = u128> {
        prop_oneof![any::<u128>(), (0u128..4).prop_map(|i| (1 << 64) - 2 + i), Just(0), Just(u128::MAX)]
    }

    proptest! {
        /// Images are ordered as their keys, come back, and know their neighbours.
        #[test]
        fn images_are_keys(a in wide(), b in wide()) {
            prop_assert_eq!(a.to_lane().cmp(&b.to_lane()), a.cmp(&b));
            prop_assert_eq!(u128::from_lane(a.to_lane()), a);
            prop_assert_eq!(a.to_lane().before().map(u128::from_lane), a.checked_sub(1));
            prop_assert_eq!(a.to_lane().after().map(u128::from_lane), a.checked_add(1));
            let (x, y) = (a as i128, b as i128);
            prop_assert_eq!(x.to_lane().cmp(&y.to_lane()), x.cmp(&y));
            prop_assert_eq!(i128::from_lane(x.to_lane()), x);
        }

        #[test]
        fn a_bound_between_two_is_one(a in wide(), b in wide()) {
            prop_assume!(a != b);
            let (left, right) = (a.min(b).to_lane(), a.max(b).to_lane());
            let bound = Lane::between(left, right);
            prop_assert!(left < bound && bound <= right);
            prop_assert!(bound[1] == 0 || left[0] == right[0]);
        }

        #[test]
        fn byte_arrays_are_ordered_as_bytes(a in any::<[u8; 11]>(), b in any::<[u8; 11]>()) {
            prop_assert_eq!(a.to_lane().cmp(&b.to_lane()), a.cmp(&b));
            prop_assert_eq!(<[u8; 11]>::from_lane(a.to_lane()), a);
        }
    }
}
