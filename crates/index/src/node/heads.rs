//! Where the blocks of a node begin: half a line of heads, in the node's first line, which one compare tells apart.
//!
//! Why: whoever has a node's first line then knows the one line of the rest that has the entry, and waits for no line in
//! between. Lookups side by side pay for every line; one by itself for every step.
//! Source: fewer lines a node is what CSB+-trees are for (Samuel et al., DaMoN 2005).

use crate::search::{Lane, rank_in_run};
use crate::vector;
use foreshore_base::seeded_bug;
use foreshore_base::sync::{AtomicU64, Ordering::Relaxed};

/// Two to a cell.
const HALF: u32 = 32;

/// Numbers of 32 bits of which none is below the one before it, one for each block; the first is 0, and those of blocks that
/// the node does not have are the greatest.
pub(super) struct Heads([AtomicU64; Self::MAX / 2]);

impl Heads {
    /// Blocks of a node, at most.
    pub const MAX: usize = 8;

    /// Entries of a block of a node with so many, a power of two: a line of words, fewer in a small node, more where there would
    /// be too many blocks.
    pub const fn block_of(entries: usize) -> usize {
        let usual = if entries < 32 { entries / 4 } else { 8 };
        if entries / Self::MAX > usual { entries / Self::MAX } else { usual }
    }

    #[cfg(any(shuttle, test))]
    pub fn vacant() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    /// Makes them those of a node without entries: all of them, for the memory may have been another kind of node's.
    pub fn reset(&self) {
        self.set(0, Self::MAX, |_| u32::MAX);
    }

    /// Sets the heads of blocks `first` (or one before it) to `end`; the node's latch must be held.
    #[inline(always)]
    pub fn set(&self, first: usize, end: usize, head: impl Fn(usize) -> u32) {
        let head = |block| if block == 0 { 0 } else { u64::from(head(block)) };
        for cell in first / 2..end / 2 {
            self.0[cell].store(head(2 * cell) | head(2 * cell + 1) << HALF, Relaxed);
        }
    }

    /// Of so many blocks, a power of two, the last one whose head is not above this one. No branch, which would wait for the
    /// line before it knows that it was mispredicted.
    #[inline(always)]
    pub fn block(&self, blocks: usize, head: u32) -> usize {
        let in_cell =
            |cell: u64| usize::from(cell as u32 <= head) + usize::from((cell >> HALF) as u32 <= head);
        let one_by_one = || self.0.iter().map(|cell| in_cell(cell.load(Relaxed))).sum();
        vector::count_halves(&self.0, head).unwrap_or_else(one_by_one).wrapping_sub(1) & (blocks - 1)
    }

    /// The head of a block.
    #[inline(always)]
    pub fn head(&self, block: usize) -> u32 {
        (self.0[block / 2].load(Relaxed) >> (block as u32 % 2 * HALF)) as u32
    }

    /// Names what is broken if the heads of so many blocks are not these, but for the first, or others not the greatest.
    pub fn check(&self, blocks: usize, head: impl Fn(usize) -> u32) -> Result<(), String> {
        let wanted = |block| match block {
            0 => 0,
            block if block < blocks => head(block),
            _ => u32::MAX,
        };
        if (0..Self::MAX).all(|block| self.head(block) == wanted(block)) {
            Ok(())
        } else {
            Err("a block has not the head of its first entry".into())
        }
    }
}

/// Cells of a node that are not above this one. Cells are sorted, in blocks of so many, and heads lead to the block that begins
/// at cell `first`. Heads rise as cells do, but cells near each other may have the same; then they lead to the last block with that
/// head, and if it begins above the cell, the search goes back.
#[inline(always)]
pub(super) fn rank_from<L: Lane>(cells: &[L::Cell], block: usize, first: usize, cell: L) -> usize {
    match rank_in_block(cells, block, first, cell) {
        // First this: that the block is the first is a coin toss, and who mispredicts it waits for the block.
        0 => rank_further_left(cells, block, first, cell),
        rank => first + rank,
    }
}

/// The same, where the block that heads lead to begins above the cell.
#[cold]
fn rank_further_left<L: Lane>(cells: &[L::Cell], block: usize, first: usize, cell: L) -> usize {
    if first == 0 || seeded_bug("index_rough_head_believed") {
        return first;
    }
    let before = first_before(cells, block, first, cell);
    before + rank_in_block(cells, block, before, cell)
}

/// Cells of the block that begins at cell `first`, not above this one.
#[inline(always)]
pub(super) fn rank_in_block<L: Lane>(cells: &[L::Cell], block: usize, first: usize, cell: L) -> usize {
    rank_in_run::<L>(&cells[first..first + block], cell)
}

/// Where the block begins that a cell below cell `end`, the beginning of a block, belongs to.
fn first_before<L: Lane>(cells: &[L::Cell], block: usize, end: usize, cell: L) -> usize {
    let (mut number, mut left) = (0, end / block);
    while left > 1 {
        let half = left / 2;
        if L::load(&cells[(number + half) * block]) <= cell {
            number += half;
        }
        left -= half;
    }
    number * block
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// However they are counted, and as many blocks as there are.
        #[test]
        fn the_last_head_not_above_another(
            mut numbers in proptest::array::uniform8(prop_oneof![0u32..10, Just(1 << 31), Just(u32::MAX), any::<u32>()]),
            blocks in prop_oneof![Just(4), Just(8)],
            others in proptest::collection::vec(0u32..u32::MAX, 0..4),
        ) {
            numbers.sort_unstable();
            numbers[0] = 0;
            let heads = Heads::vacant();
            heads.reset();
            heads.set(0, blocks, |block| numbers[block]);
            prop_assert_eq!(heads.check(blocks, |block| numbers[block]), Ok(()));
            for head in numbers.into_iter().filter(|head| *head < u32::MAX).chain(others) {
                let expected = numbers[..blocks].iter().rposition(|number| *number <= head);
                prop_assert_eq!(Some(heads.block(blocks, head)), expected);
            }
        }

        /// Also where cells of several blocks have the same head, so that it leads too far.
        #[test]
        fn the_rank_of_a_cell_from_where_rough_heads_lead(
            mut cells in proptest::array::uniform32(0u64..40),
            wanted in 0u64..40,
        ) {
            const BLOCK: usize = 8;
            let rough = |cell: u64| (cell / 10) as u32;
            cells.sort_unstable();
            let heads = Heads::vacant();
            heads.reset();
            heads.set(0, cells.len() / BLOCK, |block| rough(cells[block * BLOCK]));
            let first = heads.block(cells.len() / BLOCK, rough(wanted)) * BLOCK;
            let rank = rank_from::<u64>(&cells.map(AtomicU64::new), BLOCK, first, wanted);
            prop_assert_eq!(rank, cells.partition_point(|cell| *cell <= wanted));
        }
    }
}
