//! How many keys of a node are not above a key: the one search of every node.
//!
//! Why: a descent is a chain of cache misses with a search between two of them. A branchy binary search mispredicts
//! half of its branches; a linear one reads everything. The hybrid below selects the cache line without a branch, by
//! the last key of each line, and then counts inside that line, also without a branch: by vectors where the processor
//! has them ([`vector`]).
//! Source: Chen et al.'s prefetching B+-trees for the line as unit; `select_unpredictable` keeps the compiler from
//! turning selections back into branches.
//!
//! Invariants:
//! - S1: cells are sorted, and unused cells hold the greatest value, so no search needs the number of keys. Whoever
//!   must tell an unused cell from the greatest key caps the result by that number.
//! - S2: cells are read by relaxed atomic loads: they may change meanwhile, and the result may be any number up to
//!   the length. The caller validates before it believes it.

use crate::node::scale::Number;
use crate::trie::slice::Slice;
use crate::{copy, shift, vector};
use foreshore_base::sync::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::hint::select_unpredictable;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Who may be a [`Lane`]. Memory of nodes passes from one kind of key to another as it is, which is sound only because all cells are
/// words that may have any value. Rows of more words would need shifts that a node's header has no room for.
pub trait Sealed {}

impl Sealed for u32 {}
impl Sealed for u64 {}
impl Sealed for [u64; 1] {}
impl Sealed for [u64; 2] {}
impl Sealed for [u64; 3] {}
impl Sealed for [u64; 4] {}
impl Sealed for Slice {}

/// An order-preserving image of a key, small enough for one atomic access. Sealed: its cells are shared between maps.
/// See [`IntKey`](crate::IntKey).
///
/// ```
/// use foreshore_index::{IntKey, Lane};
///
/// let (low, high) = ((-7_i32).to_lane(), 7_i32.to_lane());
/// assert!(low < high, "as the keys are ordered");
/// assert_eq!(i32::from_lane(low.after().expect("there is a next one")), -6);
/// ```
pub trait Lane: Sealed + Copy + Ord + std::fmt::Debug + Send + Sync + 'static {
    /// The atomic that holds it in a node.
    type Cell: Send + Sync + 'static;
    /// What separators are counted in.
    type Number: Number;
    /// Lanes in a cache line.
    const PER_LINE: usize;
    /// The least image.
    const MIN: Self;
    /// The greatest image, also that of an unused cell (S1).
    const MAX: Self;

    /// The next lower image, if there is one.
    fn before(self) -> Option<Self>;
    /// The next higher image, if there is one.
    fn after(self) -> Option<Self>;
    /// The shortest image above `left` and not above `right`, which is above `left`: the one with most low bits zero.
    fn between(left: Self, right: Self) -> Self;
    /// What it is to a scale.
    fn number(self) -> Self::Number;
    /// The image that is this to a scale.
    fn from_number(number: Self::Number) -> Self;
    /// The number of cells of a whole line whose image is not above `key`.
    #[inline(always)]
    fn count_in_line(line: &[Self::Cell], key: Self) -> usize {
        count_one_by_one::<Self>(line, key)
    }
    /// The same of half a line.
    #[inline(always)]
    fn count_in_half_line(cells: &[Self::Cell], key: Self) -> usize {
        count_one_by_one::<Self>(cells, key)
    }
    /// The number of cells of two whole lines whose image is not above `key`, if that can be told at once.
    #[inline(always)]
    fn count_in_two_lines(_lines: &[Self::Cell], _key: Self) -> Option<usize> {
        None
    }
    /// Copies the cells of a range one further; the node's latch must be held.
    #[inline(always)]
    fn shift_up(cells: &[Self::Cell], range: Range<usize>) {
        shift::up_one_by_one::<Self>(cells, range);
    }
    /// Copies the cells of a range one back; the node's latch must be held.
    #[inline(always)]
    fn shift_down(cells: &[Self::Cell], range: Range<usize>) {
        shift::down_one_by_one::<Self>(cells, range);
    }
    /// Copies the cells of a range, which others may be writing, to the same places of `out`; others of their lines may come too.
    #[inline(always)]
    fn copy_out(cells: &[Self::Cell], range: Range<usize>, out: &mut [MaybeUninit<Self>]) {
        copy::out_one_by_one(cells, range, out);
    }
    /// A cell with this image.
    fn cell(self) -> Self::Cell;
    /// Reads a cell.
    fn load(cell: &Self::Cell) -> Self;
    /// Writes a cell; the node's latch must be held.
    fn store(self, cell: &Self::Cell);
}

macro_rules! lane {
    ($int:ty, $cell:ty, $count:path, $count_half:path, $up:path, $down:path$(, $count_two:path)?) => {
        impl Lane for $int {
            type Cell = $cell;
            type Number = u64;
            const PER_LINE: usize = 64 / size_of::<$int>();
            const MIN: Self = <$int>::MIN;
            const MAX: Self = <$int>::MAX;

            #[inline(always)]
            fn before(self) -> Option<Self> {
                self.checked_sub(1)
            }

            #[inline(always)]
            fn after(self) -> Option<Self> {
                self.checked_add(1)
            }

            fn between(left: Self, right: Self) -> Self {
                // The highest bit that differs is set in the right one.
                let last = <$int>::BITS - 1 - (left ^ right).leading_zeros();
                right >> last << last
            }

            #[inline(always)]
            fn number(self) -> u64 {
                self.into()
            }

            #[inline(always)]
            fn from_number(number: u64) -> Self {
                number as $int
            }

            #[inline(always)]
            fn count_in_line(line: &[$cell], key: Self) -> usize {
                let line: &[$cell; Self::PER_LINE] = line.try_into().expect("a whole line");
                $count(line, key).unwrap_or_else(|| count_one_by_one::<Self>(line, key))
            }

            #[inline(always)]
            fn count_in_half_line(cells: &[$cell], key: Self) -> usize {
                let cells: &[$cell; Self::PER_LINE / 2] = cells.try_into().expect("half a line");
                $count_half(cells, key).unwrap_or_else(|| count_one_by_one::<Self>(cells, key))
            }

            $(
                #[inline(always)]
                fn count_in_two_lines(lines: &[$cell], key: Self) -> Option<usize> {
                    $count_two(lines.try_into().expect("two whole lines"), key)
                }
            )?

            #[inline(always)]
            fn shift_up(cells: &[$cell], range: Range<usize>) {
                if !$up(cells, range.clone()) {
                    shift::up_one_by_one::<Self>(cells, range);
                }
            }

            #[inline(always)]
            fn shift_down(cells: &[$cell], range: Range<usize>) {
                if !$down(cells, range.clone()) {
                    shift::down_one_by_one::<Self>(cells, range);
                }
            }

            #[inline(always)]
            fn copy_out(cells: &[$cell], range: Range<usize>, out: &mut [MaybeUninit<Self>]) {
                // SAFETY: an atomic integer has the bytes of that integer.
                unsafe { copy::out_by_lines(cells, range, out) }
            }

            #[inline(always)]
            fn cell(self) -> $cell {
                <$cell>::new(self)
            }

            #[inline(always)]
            fn load(cell: &$cell) -> Self {
                cell.load(Relaxed)
            }

            #[inline(always)]
            fn store(self, cell: &$cell) {
                cell.store(self, Relaxed);
            }
        }
    };
}

lane!(
    u64,
    AtomicU64,
    vector::count_u64,
    vector::count_half_u64,
    shift::up_u64,
    shift::down_u64,
    vector::count_two_u64
);
lane!(u32, AtomicU32, vector::count_u32, vector::count_half_u32, shift::up_u32, shift::down_u32);

/// The number of cells whose image is not above `key` (S1, S2).
#[inline(always)]
pub(crate) fn rank_at_most<L: Lane, const F: usize>(cells: &[L::Cell; F], key: L) -> usize {
    rank_in_run::<L>(cells, key)
}

/// As [`rank_at_most`], for a part of a node. Inlined where the length is a constant.
#[inline(always)]
pub(crate) fn rank_in_run<L: Lane>(cells: &[L::Cell], key: L) -> usize {
    if !cells.len().is_multiple_of(L::PER_LINE) {
        return count_at_most::<L>(cells, key);
    }
    let mut left = cells.len() / L::PER_LINE;
    if left == 2
        && let Some(count) = L::count_in_two_lines(cells, key)
    {
        return count;
    }
    // All lines before `line` lie at or below the key; the boundary is in one of `left` lines from there.
    let mut line = 0;
    while left > 1 {
        let half = left / 2;
        let last = L::load(&cells[(line + half) * L::PER_LINE - 1]);
        line = select_unpredictable(last <= key, line + half, line);
        left -= half;
    }
    let first = line * L::PER_LINE;
    first + count_at_most::<L>(&cells[first..first + L::PER_LINE], key)
}

/// The same by looking at every cell: best within a line.
#[inline(always)]
pub(crate) fn count_at_most<L: Lane>(cells: &[L::Cell], key: L) -> usize {
    if cells.len() == L::PER_LINE {
        L::count_in_line(cells, key)
    } else if cells.len() == L::PER_LINE / 2 {
        L::count_in_half_line(cells, key)
    } else {
        count_one_by_one::<L>(cells, key)
    }
}

/// The same without vectors.
#[inline(always)]
pub(crate) fn count_one_by_one<L: Lane>(cells: &[L::Cell], key: L) -> usize {
    cells.iter().map(|cell| usize::from(L::load(cell) <= key)).sum()
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cells<const F: usize>(keys: &[u64]) -> [AtomicU64; F] {
        std::array::from_fn(|i| AtomicU64::new(keys.get(i).copied().unwrap_or(u64::MAX)))
    }

    proptest! {
        /// A line counted at once is a line counted one by one, up to both ends of the type.
        #[test]
        fn a_line_is_its_cells(
            wide in proptest::array::uniform8(prop_oneof![Just(0), Just(1 << 63), Just(u64::MAX), any::<u64>()]),
            narrow in proptest::array::uniform16(prop_oneof![Just(0), Just(1 << 31), Just(u32::MAX), any::<u32>()]),
            which in 0usize..8,
        ) {
            let (wide_cells, narrow_cells) = (wide.map(AtomicU64::new), narrow.map(AtomicU32::new));
            for key in [wide[which], 0, u64::MAX] {
                let expected = count_one_by_one::<u64>(&wide_cells, key);
                prop_assert_eq!(u64::count_in_line(&wide_cells, key), expected);
                let expected = count_one_by_one::<u64>(&wide_cells[4..], key);
                prop_assert_eq!(u64::count_in_half_line(&wide_cells[4..], key), expected);
            }
            // Every order of the pairs, for counts need none.
            let pairs: [[u64; 2]; 8] = std::array::from_fn(|i| [wide[i], wide[which ^ i]]);
            let (single_cells, pair_cells) = (wide.map(|word| [word].cell()), pairs.map(Lane::cell));
            for key in [pairs[which], [wide[which], 0], [wide[which], u64::MAX], [0, 0], [u64::MAX; 2]] {
                let expected = count_one_by_one::<[u64; 2]>(&pair_cells, key);
                prop_assert_eq!(Lane::count_in_two_lines(&pair_cells, key).unwrap_or(expected), expected);
                let expected = count_one_by_one::<[u64; 2]>(&pair_cells[4..], key);
                prop_assert_eq!(Lane::count_in_line(&pair_cells[4..], key), expected);
                let single = [key[0]];
                prop_assert_eq!(Lane::count_in_line(&single_cells, single), u64::count_in_line(&wide_cells, key[0]));
            }
            for key in [narrow[which], 0, u32::MAX] {
                let expected = count_one_by_one::<u32>(&narrow_cells, key);
                prop_assert_eq!(u32::count_in_line(&narrow_cells, key), expected);
                let expected = count_one_by_one::<u32>(&narrow_cells[8..], key);
                prop_assert_eq!(u32::count_in_half_line(&narrow_cells[8..], key), expected);
            }
        }

        /// A bound between two keys is one, and no shorter one is.
        #[test]
        fn the_shortest_bound(a in any::<u64>(), b in any::<u64>(), near in any::<bool>()) {
            let b = if near { a ^ (b & 0xFF) } else { b };
            prop_assume!(a != b);
            let (left, right) = (a.min(b), a.max(b));
            let bound = u64::between(left, right);
            prop_assert!(left < bound && bound <= right);
            let zeros = bound.trailing_zeros();
            prop_assert!(zeros == 63 || right >> (zeros + 1) << (zeros + 1) <= left);
        }

        /// Whatever the fill and the shape, the rank is that of a plain count.
        #[test]
        fn rank_is_a_count(mut keys in proptest::collection::vec(0u64..200, 0..64), key in 0u64..200) {
            keys.sort_unstable();
            let expected = keys.iter().filter(|k| **k <= key).count();
            prop_assert_eq!(rank_at_most::<u64, 64>(&cells(&keys), key), expected);
            prop_assert_eq!(rank_at_most::<u64, 72>(&cells(&keys), key), expected);
            prop_assert_eq!(rank_at_most::<u64, 67>(&cells(&keys), key), expected);
            let first = keys.iter().take(16).filter(|k| **k <= key).count();
            prop_assert_eq!(rank_at_most::<u64, 16>(&cells(&keys), key), first);
            let narrow: [AtomicU32; 64] =
                std::array::from_fn(|i| AtomicU32::new(keys.get(i).map_or(u32::MAX, |k| *k as u32)));
            prop_assert_eq!(rank_at_most::<u32, 64>(&narrow, key as u32), expected);
        }
    }
}
