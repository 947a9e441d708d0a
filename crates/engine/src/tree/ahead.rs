//! A walk through leaves that are only on disk lets those that come next be read meanwhile. So does who knows beforehand which
//! leaves he is going to use.
//!
//! Why and how pages are read in the background: `pool/ahead.rs`. Here it is decided which, and how many.
//!
//! Which: the index over the leaves names those that follow, in either direction, without a look into any leaf, and it
//! is in memory. It is a hint, as always: a leaf that it lacks is read when the walk comes there, one that is no more was
//! asked for in vain. The walk itself goes by fences, as without this.
//!
//! How many: nothing, until the walk has met two leaves on disk in a row. Then a few; and twice as many each time that
//! the walk has gone half the way through them, up to what the pool grants (R2 there). When the leaves that follow are
//! all in memory, it is over, until the walk meets the next two. So a walk through resident leaves only looks
//! whether the leaf that it goes to is on disk, in the word that it needs next anyway.

use crate::error::Result;
use crate::leaf::LeafCopy;
use crate::pool::Share;
use crate::tree::Tree;
use crate::txn::Direction;
use foreshore_base::PageId;
use std::collections::VecDeque;
use std::ops::Bound;

/// Leaves on disk in a row that a walk must meet first.
const COLD: u32 = 2;

/// What a walk knows of the leaves to come.
pub(crate) struct Ahead {
    direction: Direction,
    /// Leaves that were on disk when the walk came to them, in a row.
    cold: u32,
    reading: Option<Box<Reading>>,
}

/// Leaves are read ahead.
struct Reading {
    share: Share,
    /// The leaves to come that were looked up, next first.
    coming: VecDeque<Coming>,
}

/// A leaf that the walk will come to.
struct Coming {
    low_fence: Vec<u8>,
    page: PageId,
    /// Was it on disk, and so asked for?
    asked: bool,
}

impl Ahead {
    /// For a walk that has not begun.
    pub fn new(direction: Direction) -> Self {
        Self { direction, cold: 0, reading: None }
    }

    /// The walk has come to `leaf`, which was on disk (`cold`) or not; it will go on up to the bound `to`, or down to it.
    #[inline]
    pub fn came_to(&mut self, tree: &Tree, leaf: &LeafCopy, cold: bool, to: &Bound<Vec<u8>>) {
        if cold || self.reading.is_some() {
            self.look_ahead(tree, leaf, cold, to);
        } else {
            self.cold = 0;
        }
    }

    #[cold]
    fn look_ahead(&mut self, tree: &Tree, leaf: &LeafCopy, cold: bool, to: &Bound<Vec<u8>>) {
        if self.reading.is_none() {
            self.cold += 1;
            if self.cold >= COLD {
                let begin = |share| Box::new(Reading { share, coming: VecDeque::new() });
                self.reading = tree.pool.share().map(begin);
            }
        }
        if let Some(reading) = &mut self.reading
            && !reading.go_on(tree, self.direction, leaf, cold, to)
        {
            (self.cold, self.reading) = (0, None);
        }
    }
}

impl Reading {
    /// The walk has come to `leaf`: asks for more, if there is not enough. `false` if there is nothing to be read.
    fn go_on(
        &mut self,
        tree: &Tree,
        direction: Direction,
        leaf: &LeafCopy,
        cold: bool,
        to: &Bound<Vec<u8>>,
    ) -> bool {
        self.pass(direction, leaf, cold);
        if 2 * self.coming.len() <= self.share.frames() {
            if !self.coming.is_empty() {
                self.share.grow();
            }
            self.ask(tree, direction, leaf, to);
        }
        self.coming.iter().any(|coming| coming.asked)
    }

    /// Forgets the leaves up to the one that the walk is at.
    fn pass(&mut self, direction: Direction, leaf: &LeafCopy, cold: bool) {
        let is_passed = |coming: &Coming| match direction {
            Direction::Ascending => leaf.high_fence().is_none_or(|high| coming.low_fence.as_slice() < high),
            Direction::Descending => coming.low_fence.as_slice() >= leaf.low_fence(),
        };
        while let Some(passed) = self.coming.front().filter(|coming| is_passed(coming)) {
            if passed.asked && passed.page == leaf.id() && !cold {
                self.share.note_used();
            }
            self.coming.pop_front();
        }
    }

    /// Looks up leaves behind those that are known, and asks for those that are on disk.
    fn ask(&mut self, tree: &Tree, direction: Direction, leaf: &LeafCopy, to: &Bound<Vec<u8>>) {
        let (known, to) = (self.coming.len(), to.as_ref().map(Vec::as_slice));
        let edge = match (self.coming.back(), direction) {
            (Some(last), _) => Bound::Excluded(last.low_fence.clone()),
            (None, Direction::Descending) => Bound::Excluded(leaf.low_fence().to_vec()),
            (None, Direction::Ascending) => match leaf.high_fence() {
                Some(high) => Bound::Included(high.to_vec()),
                None => return,
            },
        };
        let edge = edge.as_ref().map(Vec::as_slice);
        let fences = match direction {
            Direction::Ascending => tree.index.range(edge, to),
            Direction::Descending => tree.index.range_rev(to, edge),
        };
        let more = self.share.frames() - known;
        self.coming.extend(fences.take(more).map(|(low_fence, page)| {
            let page = PageId(page);
            Coming { low_fence, page, asked: tree.pool.is_on_disk(page) }
        }));
        let asked = self.coming.range(known..).filter(|coming| coming.asked);
        tree.pool.read_ahead(asked.map(|coming| coming.page));
    }
}

impl Tree {
    /// Will who copies this leaf have to read it from disk?
    #[inline]
    pub(crate) fn is_on_disk(&self, leaf: PageId) -> bool {
        self.pool.is_on_disk(leaf)
    }

    /// The same for whoever is going to use the leaf of `key`, as far as the index knows.
    pub(crate) fn is_key_on_disk(&self, key: &[u8]) -> Result<bool> {
        Ok(self.is_on_disk(self.seek(key)?))
    }

    /// As [`Tree::load_together`], for the leaves of the keys from `from` up to `to`.
    pub(crate) fn load_range(&self, from: &[u8], to: &[u8]) -> Result<()> {
        let first = self.seek(from)?;
        let rest = self.index.range(Bound::Excluded(from), Bound::Included(to));
        let leaves: Vec<PageId> = std::iter::once(first).chain(rest.map(|(_, page)| PageId(page))).collect();
        self.load_together(leaves.into_iter());
        Ok(())
    }

    /// Leaves that are going to be used one after the other: if several must be read from disk, they are read at once.
    pub(super) fn load_together(&self, leaves: impl Iterator<Item = PageId> + Clone) {
        let on_disk = leaves.filter(|leaf| self.pool.is_on_disk(*leaf));
        if on_disk.clone().nth(1).is_some() {
            self.pool.load_together(on_disk);
        }
    }
}
