//! Separators of 32 bits: what the children of a node are told apart by, at a common scale.
//!
//! Why: above the leaves a lookup needs one separator and one child of each node, and pays for every cache line that it
//! must have to find them. A separator need not be a key: of all bounds between two children the shortest is taken, whose
//! low bits are zero, and the high bits of neighbours are the same. What differs between them mostly fits 32 bits, beside
//! the child's number, so a line holds eight pairs and the right line holds the child as well.
//! Source: suffix and prefix truncation of separators after Bayer and Unterauer's prefix B-trees; fewer bytes for
//! children, and so more separators to a line, is what CSB+-trees are for.
//!
//! Invariants:
//! - Q1: `head` never falls while keys rise, and `number(head(n)) == n` for every separator `n` of the node: so a key is at
//!   or above a separator if and only if its head is.
//! - Q2: no separator has head 0, which all keys below `base` have: they belong to the first child. No number has the head
//!   `u32::MAX`, which is left to entries that are not used.

use foreshore_base::sync::{AtomicU64, Ordering::Relaxed};
use std::fmt::Debug;

/// The greatest head of a number.
pub const HEAD_MAX: u32 = u32::MAX - 1;

/// How separators of one node are shortened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale<N> {
    /// What is subtracted before. Where heads tell separators apart: below every one of them, and a multiple of `1 << shift`.
    pub base: N,
    /// Low bits that are zero in all of them, and left out. Less than the number has.
    pub shift: u32,
}

impl<N: Number> Scale<N> {
    /// For small numbers as they are.
    pub const PLAIN: Self = Self { base: N::ZERO, shift: 0 };

    /// The head of a separator, if this scale can tell it from all other keys (Q1, Q2).
    pub fn exact(self, separator: N) -> Option<u32> {
        let head = separator.head(self);
        (head > 0 && N::of_head(head, self) == separator).then_some(head)
    }
}

/// What separators are to their scale.
pub trait Number: Copy + Ord + Debug + Send + Sync + 'static {
    /// The atomics that hold a base in a node.
    type Cell: Send + Sync + 'static;
    /// The least number.
    const ZERO: Self;

    /// A scale for these separators, in any order, none of them 0; `None` if they are too far apart for their low bits.
    fn scale_of(separators: impl Iterator<Item = Self>) -> Option<Scale<Self>>;
    /// A scale that begins at `least`, by which heads may be the same for numbers near each other. That of `greatest` has at
    /// most 31 bits, which leaves room for as much again.
    fn rough_scale(least: Self, greatest: Self) -> Scale<Self>;
    /// The head of a number: rounded down, and the least or greatest head for what is outside of the scale.
    fn head(self, scale: Scale<Self>) -> u32;
    /// The least number of this head. Any number for a head that is not of this scale.
    fn of_head(head: u32, scale: Scale<Self>) -> Self;
    /// A cell with number 0.
    fn cell() -> Self::Cell;
    /// Reads a cell.
    fn load(cell: &Self::Cell) -> Self;
    /// Writes a cell; the node's latch must be held.
    fn store(self, cell: &Self::Cell);
}

impl Number for u64 {
    type Cell = AtomicU64;
    const ZERO: Self = 0;

    fn scale_of(separators: impl Iterator<Item = Self>) -> Option<Scale<Self>> {
        let bounds =
            |(least, greatest, bits): (Self, Self, Self), n| (least.min(n), greatest.max(n), bits | n);
        let (least, greatest, bits) = separators.fold((Self::MAX, 0, 0), bounds);
        if bits == 0 {
            return Some(Scale::PLAIN);
        }
        let length = Self::BITS - (greatest - least).leading_zeros();
        let shift = shift_for(length, bits.trailing_zeros())?;
        Some(Scale { base: (least - 1) >> shift << shift, shift })
    }

    fn rough_scale(least: Self, greatest: Self) -> Scale<Self> {
        let length = Self::BITS - (greatest - least).leading_zeros();
        Scale { base: least, shift: length.saturating_sub(31) }
    }

    #[inline(always)]
    fn head(self, scale: Scale<Self>) -> u32 {
        let steps = self.saturating_sub(scale.base) >> (scale.shift % Self::BITS);
        steps.min(Self::from(HEAD_MAX)) as u32
    }

    #[inline(always)]
    fn of_head(head: u32, scale: Scale<Self>) -> Self {
        scale.base.wrapping_add(Self::from(head).wrapping_shl(scale.shift))
    }

    fn cell() -> Self::Cell {
        AtomicU64::new(0)
    }

    #[inline(always)]
    fn load(cell: &Self::Cell) -> Self {
        cell.load(Relaxed)
    }

    fn store(self, cell: &Self::Cell) {
        cell.store(self, Relaxed);
    }
}

/// By how much numbers are shifted whose differences have `length` bits and all of whose last `zeros` bits are zero.
fn shift_for(length: u32, zeros: u32) -> Option<u32> {
    // Heads begin at 1, so that 31 bits of difference fit.
    let needed = length.saturating_sub(31);
    // In the middle: there will be others, further away and closer together.
    (needed <= zeros).then(|| u32::midpoint(needed, zeros))
}

/// Rows of words, the most significant first.
impl<const W: usize> Number for [u64; W] {
    type Cell = [AtomicU64; W];
    const ZERO: Self = [0; W];

    fn scale_of(separators: impl Iterator<Item = Self>) -> Option<Scale<Self>> {
        let bounds = |(least, greatest, bits): (Self, Self, Self), n: Self| {
            (least.min(n), greatest.max(n), std::array::from_fn(|i| bits[i] | n[i]))
        };
        let (least, greatest, bits) = separators.fold(([u64::MAX; W], [0; W], [0; W]), bounds);
        if bits == Self::ZERO {
            return Some(Scale::PLAIN);
        }
        let length = 64 * W as u32 - leading_zeros(&difference(greatest, least).0);
        let shift = shift_for(length, trailing_zeros(&bits))?;
        let one = std::array::from_fn(|i| u64::from(i == W - 1));
        Some(Scale { base: without_last(difference(least, one).0, shift), shift })
    }

    fn rough_scale(least: Self, greatest: Self) -> Scale<Self> {
        let length = 64 * W as u32 - leading_zeros(&difference(greatest, least).0);
        Scale { base: least, shift: length.saturating_sub(31) }
    }

    #[inline(always)]
    fn head(self, scale: Scale<Self>) -> u32 {
        if W == 2 {
            let number = |row: Self| u128::from(row[0]) << 64 | u128::from(row[W - 1]);
            let steps = number(self).saturating_sub(number(scale.base)) >> (scale.shift % u128::BITS);
            return steps.min(u128::from(HEAD_MAX)) as u32;
        }
        let (distance, below) = difference(self, scale.base);
        let (word, bit) = (scale.shift as usize / 64, scale.shift % 64);
        let (mut low, mut high, mut above) = (0, 0, 0);
        for (i, part) in distance.into_iter().rev().enumerate() {
            match i.wrapping_sub(word) {
                0 => low = part,
                1 => high = part,
                place => above |= if place < W { part } else { 0 },
            }
        }
        let steps = (u128::from(high) << 64 | u128::from(low)) >> bit;
        let steps = if above == 0 { steps.min(u128::from(HEAD_MAX)) as u32 } else { HEAD_MAX };
        if below { 0 } else { steps }
    }

    fn of_head(head: u32, scale: Scale<Self>) -> Self {
        let (word, bit) = (scale.shift as usize / 64, scale.shift % 64);
        let steps = u128::from(head) << bit;
        let mut number = scale.base;
        let mut carry = 0;
        for (i, place) in number.iter_mut().rev().enumerate().skip(word) {
            let step = match i - word {
                0 => steps as u64,
                1 => (steps >> 64) as u64,
                _ => 0,
            };
            let sum = u128::from(*place) + u128::from(step) + carry;
            (*place, carry) = (sum as u64, sum >> 64);
        }
        number
    }

    fn cell() -> Self::Cell {
        std::array::from_fn(|_| AtomicU64::new(0))
    }

    #[inline(always)]
    fn load(cell: &Self::Cell) -> Self {
        std::array::from_fn(|i| cell[i].load(Relaxed))
    }

    fn store(self, cell: &Self::Cell) {
        cell.iter().zip(self).for_each(|(cell, word)| cell.store(word, Relaxed));
    }
}

fn leading_zeros(words: &[u64]) -> u32 {
    let zeros = words.iter().take_while(|word| **word == 0).count();
    64 * zeros as u32 + words.get(zeros).map_or(0, |word| word.leading_zeros())
}

fn trailing_zeros(words: &[u64]) -> u32 {
    let zeros = words.iter().rev().take_while(|word| **word == 0).count();
    64 * zeros as u32 + words.iter().rev().nth(zeros).map_or(0, |word| word.trailing_zeros())
}

/// `greater - less`; and is it less in truth? Then the difference means nothing.
#[inline(always)]
fn difference<const W: usize>(mut greater: [u64; W], less: [u64; W]) -> ([u64; W], bool) {
    let mut borrowed = false;
    for (word, less) in greater.iter_mut().zip(less).rev() {
        let (without, first) = word.overflowing_sub(less);
        let (without, second) = without.overflowing_sub(borrowed.into());
        (*word, borrowed) = (without, first | second);
    }
    (greater, borrowed)
}

/// The number with its last bits, so many, made zero.
fn without_last<const W: usize>(mut number: [u64; W], bits: u32) -> [u64; W] {
    for (i, word) in number.iter_mut().rev().enumerate() {
        let bits = bits.saturating_sub(64 * i as u32);
        *word = if bits < 64 { *word >> bits << bits } else { 0 };
    }
    number
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A number further up in a row.
    fn row(number: u64) -> [u64; 3] {
        [0, number >> 7, number << 57]
    }

    proptest! {
        /// Q1 and Q2, for separators near each other anywhere, and for keys around them.
        #[test]
        fn a_scale_tells_keys_from_separators(
            least in any::<u64>(),
            steps in proptest::collection::vec(0u64..1 << 31, 1..20),
            shift in 0u32..32,
            keys in proptest::collection::vec(any::<u64>(), 0..20),
        ) {
            let separators: Vec<u64> = steps.iter().map(|step| ((least >> 32 >> shift) + step + 1) << shift).collect();
            let scale = u64::scale_of(separators.iter().copied()).expect("31 bits are enough");
            let rows = <[u64; 3]>::scale_of(separators.iter().copied().map(row)).expect("the same");
            for separator in separators {
                let head = scale.exact(separator).expect("the scale was made for it");
                let row_head = rows.exact(row(separator)).expect("the scale was made for it");
                let around = [separator - 1, separator, separator.saturating_add(1), 0, u64::MAX];
                for key in around.into_iter().chain(keys.iter().copied()) {
                    prop_assert_eq!(key >= separator, key.head(scale) >= head, "{} at {:?}", key, scale);
                    prop_assert_eq!(key >= separator, row(key).head(rows) >= row_head, "{} at {:?}", key, rows);
                }
            }
        }

        /// Heads of a rough scale never fall while numbers rise, and there is room above.
        #[test]
        fn a_rough_scale_keeps_the_order(mut numbers in proptest::collection::vec(any::<u64>(), 1..20), shift in 0u32..64) {
            numbers.iter_mut().for_each(|number| *number >>= shift);
            numbers.sort_unstable();
            let (least, greatest) = (numbers[0], numbers[numbers.len() - 1]);
            let (scale, rows) = (u64::rough_scale(least, greatest), Number::rough_scale(row(least), row(greatest)));
            prop_assert!(numbers.is_sorted_by_key(|number| number.head(scale)));
            prop_assert!(numbers.is_sorted_by_key(|number| row(*number).head(rows)));
            prop_assert_eq!(least.head(scale), 0);
            prop_assert!(greatest.head(scale) < 1 << 31 && row(greatest).head(rows) < 1 << 31);
        }

        /// A row of two words is a number of 128 bits, a row of one is one of 64, and zeros before a row do not matter.
        #[test]
        fn rows_are_numbers(number in any::<u128>(), base in any::<u128>(), shift in 0u32..128, near in 0u32..128) {
            let row = |number: u128| [(number >> 64) as u64, number as u64];
            for number in [number, base.saturating_add(number >> near)] {
                let expected = (number.saturating_sub(base) >> shift).min(u128::from(HEAD_MAX)) as u32;
                let (short, [high, low]) = (Scale { base: row(base), shift }, row(base));
                prop_assert_eq!(row(number).head(short), expected);
                let [number_high, number_low] = row(number);
                prop_assert_eq!([0, number_high, number_low].head(Scale { base: [0, high, low], shift }), expected);
                let expected = number_low.head(Scale { base: low, shift: shift % 64 });
                prop_assert_eq!([number_low].head(Scale { base: [low], shift: shift % 64 }), expected);
            }
        }

        /// What a scale takes later is as exact as what it was made for.
        #[test]
        fn what_is_taken_is_exact(base in any::<u64>(), shift in 0u32..64, separator in 1u64.., key in any::<u64>()) {
            let scale = Scale { base: base >> shift << shift, shift };
            for separator in [separator, separator >> shift << shift] {
                if let Some(head) = scale.exact(separator) {
                    prop_assert_eq!(key >= separator, key.head(scale) >= head);
                    prop_assert!((separator - 1).head(scale) < head);
                }
            }
        }
    }

    #[test]
    fn too_far_apart_for_their_low_bits() {
        assert_eq!(u64::scale_of([1, 1 << 40].into_iter()), None);
        assert_eq!(u64::scale_of([].into_iter()), Some(Scale::PLAIN));
        assert_eq!(u64::scale_of([u64::MAX].into_iter()).and_then(|scale| scale.exact(u64::MAX)), Some(1));
    }
}
