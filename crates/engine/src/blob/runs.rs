//! Free runs of blocks: where the next extent goes.
//!
//! Best fit, lowest place first: what is left over of a run is as small as can be, and the end of the file comes last. Runs that
//! touch become one.
//!
//! Invariant:
//! - R1: no two free runs overlap or touch, and both maps name the same ones.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Free blocks.
#[derive(Default)]
pub(super) struct FreeRuns {
    /// First block → end.
    by_start: BTreeMap<u64, u64>,
    /// Blocks, first block.
    by_length: BTreeSet<(u64, u64)>,
}

impl FreeRuns {
    /// Takes so many blocks in one run, and returns the first of them. `None` if no run is as long.
    pub fn take(&mut self, blocks: u64) -> Option<u64> {
        let &(length, start) = self.by_length.range((blocks, 0)..).next()?;
        self.remove(start..start + length);
        if length > blocks {
            self.insert(start + blocks..start + length);
        }
        Some(start)
    }

    /// These blocks are free from now on. None of them is so yet.
    pub fn give(&mut self, mut run: Range<u64>) {
        if let Some((&start, &end)) = self.by_start.range(..run.start).next_back() {
            assert!(end <= run.start, "R1: blocks {run:?} are free twice");
            if end == run.start {
                self.remove(start..end);
                run.start = start;
            }
        }
        if let Some((&start, &end)) = self.by_start.range(run.start..).next() {
            assert!(start >= run.end, "R1: blocks {run:?} are free twice");
            if start == run.end {
                self.remove(start..end);
                run.end = end;
            }
        }
        self.insert(run);
    }

    /// How many blocks are free right before `end`.
    pub fn before(&self, end: u64) -> u64 {
        let last = self.by_start.range(..end).next_back();
        last.filter(|(_, free_end)| **free_end == end).map_or(0, |(start, _)| end - start)
    }

    fn insert(&mut self, run: Range<u64>) {
        self.by_start.insert(run.start, run.end);
        self.by_length.insert((run.end - run.start, run.start));
    }

    fn remove(&mut self, run: Range<u64>) {
        self.by_start.remove(&run.start);
        self.by_length.remove(&(run.end - run.start, run.start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_shortest_run_that_suffices_is_taken() {
        let mut free = FreeRuns::default();
        free.give(10..20);
        free.give(30..33);
        free.give(40..45);
        assert_eq!(free.take(3), Some(30));
        assert_eq!(free.take(4), Some(40));
        assert_eq!(free.take(11), None);
        free.give(20..25);
        assert_eq!((free.before(25), free.before(24)), (15, 0), "neighbours became one");
        assert_eq!(free.take(11), Some(10));
    }

    proptest! {
        /// No block is handed out twice, none is lost, and a run is found if there is one.
        #[test]
        fn agrees_with_a_map_of_blocks(steps in proptest::collection::vec((1u64..9, any::<u8>()), 1..200)) {
            const BLOCKS: usize = 64;
            let mut free = FreeRuns::default();
            free.give(0..BLOCKS as u64);
            let (mut map, mut taken) = ([true; BLOCKS], Vec::<Range<u64>>::new());
            for (blocks, which) in steps {
                if which % 2 == 0 && !taken.is_empty() {
                    let run = taken.swap_remove(usize::from(which / 2) % taken.len());
                    run.clone().for_each(|block| map[block as usize] = true);
                    free.give(run);
                } else if let Some(start) = free.take(blocks) {
                    for block in start..start + blocks {
                        prop_assert!(std::mem::take(&mut map[block as usize]), "block {} was not free", block);
                    }
                    taken.push(start..start + blocks);
                } else {
                    let longest = map.split(|free| !free).map(<[bool]>::len).max().unwrap_or(0);
                    prop_assert!((longest as u64) < blocks);
                }
                let count: u64 = free.by_length.iter().map(|(length, _)| length).sum();
                prop_assert_eq!(count, map.iter().filter(|free| **free).count() as u64);
            }
        }
    }
}
