//! The searches that are compared: how many cells of a node are not above a key.
//!
//! Cells are sorted, and unused ones hold the greatest image (S1 of [`crate::search`]).

use crate::search::{Lane, rank_in_run};

/// A search, compiled into the tree that uses it.
pub(super) trait Method {
    /// The number of cells whose image is not above `key`.
    fn at_most<L: Lane>(cells: &[L::Cell], key: L) -> usize;
}

/// See [`Search::Linear`](super::Search::Linear).
pub(super) struct Linear;
/// See [`Search::Binary`](super::Search::Binary).
pub(super) struct Binary;
/// See [`Search::Hybrid`](super::Search::Hybrid).
pub(super) struct Hybrid;
/// See [`Search::Simd`](super::Search::Simd).
pub(super) struct Simd;

impl Method for Linear {
    #[inline(always)]
    fn at_most<L: Lane>(cells: &[L::Cell], key: L) -> usize {
        cells.iter().take_while(|cell| L::load(cell) <= key).count()
    }
}

impl Method for Binary {
    #[inline(always)]
    fn at_most<L: Lane>(cells: &[L::Cell], key: L) -> usize {
        let (mut from, mut to) = (0, cells.len());
        while from < to {
            let middle = from.midpoint(to);
            if L::load(&cells[middle]) <= key {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from
    }
}

impl Method for Hybrid {
    #[inline(always)]
    fn at_most<L: Lane>(cells: &[L::Cell], key: L) -> usize {
        rank_in_run::<L>(cells, key)
    }
}

impl Method for Simd {
    #[inline(always)]
    fn at_most<L: Lane>(cells: &[L::Cell], key: L) -> usize {
        let lines = cells.chunks_exact(L::PER_LINE);
        debug_assert!(lines.remainder().is_empty(), "nodes are of whole lines");
        lines.map(|line| L::count_in_line(line, key)).sum()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ranks<L: Lane>(keys: &[L], key: L) -> [usize; 4] {
        let cells: Vec<L::Cell> = keys.iter().map(|key| key.cell()).collect();
        [
            Linear::at_most::<L>(&cells, key),
            Binary::at_most::<L>(&cells, key),
            Hybrid::at_most::<L>(&cells, key),
            Simd::at_most::<L>(&cells, key),
        ]
    }

    proptest! {
        /// All methods count the same, whatever the width of a key.
        #[test]
        fn methods_agree(mut keys in proptest::collection::vec(0u32..200, 32), key in 0u32..200) {
            keys.sort_unstable();
            let expected = [keys.iter().filter(|k| **k <= key).count(); 4];
            prop_assert_eq!(ranks(&keys, key), expected);
            let wide: Vec<u64> = keys.iter().map(|k| u64::from(*k)).collect();
            prop_assert_eq!(ranks(&wide, u64::from(key)), expected);
            let widest: Vec<[u64; 2]> = keys.iter().map(|k| [u64::from(*k) / 7, u64::from(*k)]).collect();
            prop_assert_eq!(ranks(&widest, [u64::from(key) / 7, u64::from(key)]), expected);
        }
    }
}
