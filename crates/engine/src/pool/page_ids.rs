//! Which page ids of one class are free.
//!
//! Why runs: ids are dense, but a damaged file may name any, and what lies between must not cost memory.

use super::size::{PAGES_MAX, SizeClass};
use crate::error::{Error, Result};
use foreshore_base::PageId;
use std::collections::BTreeMap;

/// Free are the ids in the runs, and all from `next` on.
pub(super) struct PageIds {
    base: PageId,
    /// Where a run begins → where it ends. They do not overlap, or touch.
    runs: BTreeMap<u64, u64>,
    in_runs: u64,
    next: u64,
}

impl PageIds {
    /// All ids of this class but `used`, which ascend.
    pub fn new(class: SizeClass, used: impl Iterator<Item = PageId>) -> Self {
        let base = class.base();
        let mut ids = Self { base, runs: BTreeMap::new(), in_runs: 0, next: base.0 + 1 };
        used.for_each(|pid| ids.adopt(pid));
        ids
    }

    /// How many are not free.
    pub fn used(&self) -> u64 {
        self.next - self.base.0 - 1 - self.in_runs
    }

    /// The lowest free one. Errors: `Full` if there is none.
    pub fn take(&mut self) -> Result<PageId> {
        if let Some((pid, end)) = self.runs.pop_first() {
            self.in_runs -= end - pid;
            self.free(pid + 1, end);
            return Ok(PageId(pid));
        }
        if self.next - self.base.0 == PAGES_MAX {
            return Err(Error::Full {
                what: "one more page: there are as many of this size as can be numbered".into(),
            });
        }
        self.next += 1;
        Ok(PageId(self.next - 1))
    }

    /// Gives one back.
    pub fn release(&mut self, pid: PageId) {
        self.free(pid.0, pid.0 + 1);
    }

    /// Marks an id as used.
    pub fn adopt(&mut self, pid: PageId) {
        if pid.0 >= self.next {
            self.free(self.next, pid.0);
            self.next = pid.0 + 1;
        } else if let Some((&start, &end)) =
            self.runs.range(..=pid.0).next_back().filter(|run| *run.1 > pid.0)
        {
            self.runs.remove(&start);
            self.in_runs -= end - start;
            self.free(start, pid.0);
            self.free(pid.0 + 1, end);
        }
    }

    /// Runs that touch become one.
    fn free(&mut self, mut start: u64, mut end: u64) {
        if start >= end {
            return;
        }
        self.in_runs += end - start;
        if let Some((&before, _)) = self.runs.range(..start).next_back().filter(|run| *run.1 == start) {
            self.runs.remove(&before);
            start = before;
        }
        if let Some(end_behind) = self.runs.remove(&end) {
            end = end_behind;
        }
        self.runs.insert(start, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// No id is given out twice, and none is lost.
        #[test]
        fn agrees_with_a_set(
            known in proptest::collection::btree_set(1u64..40, 0..10),
            steps in proptest::collection::vec((0..3, 1u64..60), 1..100),
        ) {
            let mut ids = PageIds::new(SizeClass::OWN, known.iter().copied().map(PageId));
            let mut used: BTreeSet<u64> = known;
            for (what, number) in steps {
                match what {
                    0 => {
                        let lowest = (1..).find(|id| !used.contains(id)).expect("an id");
                        prop_assert_eq!(ids.take().unwrap(), PageId(lowest));
                        used.insert(lowest);
                    }
                    1 => {
                        ids.adopt(PageId(number));
                        used.insert(number);
                    }
                    _ => {
                        if let Some(&id) = used.iter().nth(number as usize % used.len().max(1)) {
                            used.remove(&id);
                            ids.release(PageId(id));
                        }
                    }
                }
                prop_assert_eq!(ids.used(), used.len() as u64);
            }
        }
    }

    /// As those of a large table that is dropped.
    #[test]
    fn many_free_ones_cost_no_more_than_one() {
        let mut ids = PageIds::new(SizeClass::OWN, std::iter::empty());
        let taken: Vec<_> = (0..1000).map(|_| ids.take().unwrap()).collect();
        for part in 0..3 {
            taken.iter().skip(part).step_by(3).for_each(|pid| ids.release(*pid));
        }
        assert_eq!((ids.used(), ids.runs.len()), (0, 1));
    }

    #[test]
    fn the_last_id_costs_no_more_than_the_first() {
        let mut ids = PageIds::new(SizeClass::OWN, std::iter::once(PageId(PAGES_MAX - 1)));
        assert_eq!((ids.used(), ids.take().unwrap()), (1, PageId(1)));
    }
}
