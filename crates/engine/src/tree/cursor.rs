//! Walking rows in key order, leaf by leaf.
//!
//! A cursor copies one leaf whole per validation, interprets the private copy, and holds nothing in between: no latch,
//! no pin. It finds the next leaf by the fence it has reached, so splits and absorptions in between cost it nothing: it
//! returns each row that is there throughout exactly once, in order.

use crate::error::{Error, Result};
use crate::leaf::LeafCopy;
use crate::tree::Tree;
use crate::tree::descend::Patience;
use foreshore_base::PageId;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// Ascending rows.
pub(crate) struct Forward {
    tree: Arc<Tree>,
    leaf: LeafCopy,
    /// The next row of `leaf` to return.
    position: usize,
    /// Where the walk begins, until it has begun.
    start: Option<Bound<Vec<u8>>>,
}

impl Forward {
    /// A walk from `from` to the end of the table.
    pub fn new(tree: Arc<Tree>, from: Bound<Vec<u8>>) -> Self {
        let leaf = LeafCopy::new(tree.core.pool.page_bytes());
        Self { tree, leaf, position: 0, start: Some(from) }
    }

    /// The next row, valid until the next call.
    #[inline]
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if let Some(from) = self.start.take() {
            self.begin(from)?;
        }
        while self.position == self.leaf.len() {
            if !self.enter_right()? {
                return Ok(None);
            }
        }
        let row = self.leaf.row(self.position)?;
        self.position += 1;
        Ok(Some((row.key, row.value)))
    }

    fn begin(&mut self, from: Bound<Vec<u8>>) -> Result<()> {
        let (key, inclusive) = match from {
            Bound::Included(key) => (key, true),
            Bound::Excluded(key) => (key, false),
            Bound::Unbounded => (Vec::new(), true),
        };
        self.tree.copy_leaf(None, &key, &mut self.leaf)?;
        self.position = self.leaf.lower_bound(&key)?;
        let is_there = self.position < self.leaf.len() && self.leaf.row(self.position)?.key == key;
        if is_there && !inclusive {
            self.position += 1;
        }
        Ok(())
    }

    /// Copies the leaf that begins where this one ends.
    fn enter_right(&mut self) -> Result<bool> {
        let Some(high) = self.leaf.high_fence().map(<[u8]>::to_vec) else { return Ok(false) };
        let hint = self.leaf.right();
        self.tree.copy_leaf(Some(hint), &high, &mut self.leaf)?;
        // The neighbour may have been absorbed into a leaf that begins further left.
        self.position = self.leaf.lower_bound(&high)?;
        Ok(true)
    }
}

/// Descending rows.
pub(crate) struct Backward {
    tree: Arc<Tree>,
    leaf: LeafCopy,
    /// Rows of `leaf` that are still to be returned: those below this position.
    position: usize,
    start: Option<Bound<Vec<u8>>>,
}

impl Backward {
    /// A walk from `from` down to the beginning of the table.
    pub fn new(tree: Arc<Tree>, from: Bound<Vec<u8>>) -> Self {
        let leaf = LeafCopy::new(tree.core.pool.page_bytes());
        Self { tree, leaf, position: 0, start: Some(from) }
    }

    /// The next row, valid until the next call.
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if let Some(from) = self.start.take() {
            self.begin(from)?;
        }
        while self.position == 0 {
            if !self.enter_left()? {
                return Ok(None);
            }
        }
        self.position -= 1;
        let row = self.leaf.row(self.position)?;
        Ok(Some((row.key, row.value)))
    }

    fn begin(&mut self, from: Bound<Vec<u8>>) -> Result<()> {
        let (key, inclusive) = match from {
            Bound::Unbounded => return self.enter_last(),
            Bound::Included(key) => (key, true),
            Bound::Excluded(key) => (key, false),
        };
        self.tree.copy_leaf(None, &key, &mut self.leaf)?;
        self.position = self.leaf.lower_bound(&key)?;
        let is_there = self.position < self.leaf.len() && self.leaf.row(self.position)?.key == key;
        if is_there && inclusive {
            self.position += 1;
        }
        Ok(())
    }

    fn enter_last(&mut self) -> Result<()> {
        self.tree.copy_leaf_before(None, &mut self.leaf)?;
        self.position = self.leaf.len();
        Ok(())
    }

    /// Copies the leaf that ends where this one begins.
    fn enter_left(&mut self) -> Result<bool> {
        let low = self.leaf.low_fence().to_vec();
        if low.is_empty() {
            return Ok(false);
        }
        self.tree.copy_leaf_before(Some(&low), &mut self.leaf)?;
        // The neighbour may have absorbed this leaf, and then reaches further right.
        self.position = self.leaf.lower_bound(&low)?;
        Ok(true)
    }
}

impl Tree {
    /// Calls `row` with each row between the bounds, ascending, until it breaks.
    pub fn scan(
        self: &Arc<Self>,
        from: Bound<Vec<u8>>,
        to: Bound<Vec<u8>>,
        row: &mut impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut rows = Forward::new(self.clone(), from);
        while let Some((key, value)) = rows.next()? {
            let beyond = match &to {
                Bound::Included(to) => key > to.as_slice(),
                Bound::Excluded(to) => key >= to.as_slice(),
                Bound::Unbounded => false,
            };
            if beyond || row(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Copies the leaf that covers `key`, trying page `hint` first.
    pub(super) fn copy_leaf(&self, hint: Option<PageId>, key: &[u8], copy: &mut LeafCopy) -> Result<()> {
        let mut take = |page: crate::page::Page<'_>| {
            copy.take(page);
            Ok(())
        };
        let near = match hint {
            Some(hint) => self.read_from(hint, key, &mut take)?,
            None => None,
        };
        if near.is_none() {
            self.read_leaf(key, &mut take)?;
        }
        copy.interpret()?;
        self.core.pool.prefetch(copy.right());
        Ok(())
    }

    /// Copies the leaf that covers the keys just below `bound`; without a bound, the last one.
    pub(super) fn copy_leaf_before(&self, bound: Option<&[u8]>, copy: &mut LeafCopy) -> Result<()> {
        let mut patience = Patience::default();
        loop {
            let start = match bound {
                Some(bound) => self.index.below(bound),
                None => self.index.range_rev(Bound::Unbounded, Bound::Unbounded).next().map(|(_, page)| page),
            };
            if let Some(start) = start
                && self.walk_to_leaf_before(PageId(start), bound, copy)?
            {
                return Ok(());
            }
            patience.wait(self)?;
        }
    }

    /// From `at` along right links to the leaf whose high fence is at or beyond `bound`; `false` if the way is lost.
    fn walk_to_leaf_before(&self, mut at: PageId, bound: Option<&[u8]>, copy: &mut LeafCopy) -> Result<bool> {
        loop {
            let Some(frame) = self.core.pool.page(at)? else { return Ok(false) };
            let version = frame.page.latch().optimistic();
            copy.take(frame.page);
            if version.validate().is_err() {
                continue;
            }
            if copy.id() != at {
                return Ok(false);
            }
            copy.interpret()?;
            if copy.table() != self.id
                || copy.is_dead()
                || bound.is_some_and(|bound| copy.low_fence() >= bound)
            {
                return Ok(false);
            }
            let reaches = match (copy.high_fence(), bound) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(high), Some(bound)) => high >= bound,
            };
            if reaches {
                return Ok(true);
            }
            at = copy.right();
            if at.is_none() {
                return Err(Error::corrupt(
                    format!("page {}", copy.id()),
                    "the leaf chain ends before its last fence",
                ));
            }
        }
    }
}
