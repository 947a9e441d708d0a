//! Many keys at once: they are looked for side by side, so that their cache misses overlap.
//!
//! A row of a table that is larger than the processor's caches is several misses away, and each is known only when the one
//! before has come: the first lines of the leaf, its slots, the cell; and, in a transaction, the key's lock. So a group of
//! keys takes every step together, and each step asks for the lines of the next one and says where it is to begin. Leaves of
//! a group that are only on disk are read side by side as well.
//!
//! Source: multicore study (Guo et al., 2010) §6: raise the concurrency of misses inside one operation.

use crate::error::Result;
use crate::leaf::{self, Window};
use crate::lock::Name;
use crate::page::Page;
use crate::tree::Tree;
use crate::txn::View;
use foreshore_base::PageId;
use std::ops::ControlFlow;

/// Keys that are looked for side by side.
const GROUP: usize = 16;

/// Where a key seems to be.
#[derive(Clone, Copy, Default)]
pub(crate) struct Way {
    /// Where the index says that its leaf is, or a leaf to the left of it.
    pub start: PageId,
    /// The cells of that leaf among which to look first.
    pub cells: Window,
}

/// What is known of a key before it is read.
#[derive(Clone, Copy)]
pub(crate) struct Near {
    /// Where it seems to be.
    pub way: Way,
    /// Its lock.
    pub name: Name,
}

impl Tree {
    /// The values of many keys that `view` sees.
    pub fn multi_get<K: AsRef<[u8]>>(&self, view: &View, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut values = Vec::with_capacity(keys.len());
        self.each_near(keys, |way, key| {
            let mut value = Vec::new();
            let found = self.get_near(view, way, key, &mut value)?;
            values.push(found.then_some(value));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(values)
    }

    /// Calls `read` with the value of one key after the other, until it breaks.
    pub fn multi_get_with<K: AsRef<[u8]>>(
        &self,
        view: &View,
        keys: &[K],
        mut read: impl FnMut(Option<&[u8]>) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut value = Vec::new();
        self.each_near(keys, |way, key| {
            let found = self.get_near(view, way, key, &mut value)?;
            Ok(read(found.then_some(&value)))
        })
    }

    /// Calls `visit` with each key and where it is near, until it breaks.
    pub(super) fn each_near<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut visit: impl FnMut(Way, &[u8]) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        self.in_groups(keys, K::as_ref, |_| (), |way, (), key, _| visit(way, key))
    }

    /// As [`Tree::each_near`], for keys that are going to be locked.
    pub fn each_to_lock<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut visit: impl FnMut(Near, &[u8]) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        self.items_to_lock(keys, K::as_ref, |near, key, _| visit(near, key))
    }

    /// The same for what has a key.
    pub(super) fn items_to_lock<T>(
        &self,
        items: &[T],
        key: impl Fn(&T) -> &[u8],
        mut visit: impl FnMut(Near, &[u8], &T) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let name = |key: &[u8]| Some(self.lock_ahead(key));
        self.in_groups(items, key, name, |way, name, key, item| {
            visit(Near { way, name: name.expect("named before it is visited") }, key, item)
        })
    }

    /// The lock of a key, whose line is asked for.
    pub fn lock_ahead(&self, key: &[u8]) -> Name {
        let name = self.core.txns.keys.name(self.id, key);
        self.core.txns.keys.prefetch(name);
        name
    }

    /// Group by group, takes the steps towards the keys of all items, calling `ahead` with each key in the first one; then
    /// calls `visit`, until it breaks. An item is asked for its key once before: the caller's `AsRef` may say something else the
    /// next time, and what is known then is of another key.
    fn in_groups<T, A: Copy + Default>(
        &self,
        items: &[T],
        key: impl Fn(&T) -> &[u8],
        ahead: impl Fn(&[u8]) -> A,
        mut visit: impl FnMut(Way, A, &[u8], &T) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut near = [(Way::default(), A::default()); GROUP];
        let mut keys = [&[][..]; GROUP];
        let mut loaded = 0;
        for (n, group) in items.chunks(GROUP).enumerate() {
            let near = &mut near[..group.len()];
            keys.iter_mut().zip(group).for_each(|(place, item)| *place = key(item));
            let keys = &keys[..group.len()];
            let cold = self.seek_group(keys, near, &ahead)?;
            if cold && n * GROUP >= loaded {
                loaded = n * GROUP + self.load_cold_group(&items[n * GROUP..], &key)?;
            }
            if group.len() > 1 {
                self.prefetch_group(keys, near);
            }
            for (((way, known), key), item) in near.iter().zip(keys).zip(group) {
                if visit(*way, *known, key, item)?.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Asks the index where the leaves of a group are, and for their first lines. Are some of them on disk?
    fn seek_group<A>(
        &self,
        keys: &[&[u8]],
        near: &mut [(Way, A)],
        ahead: &impl Fn(&[u8]) -> A,
    ) -> Result<bool> {
        let mut cold = false;
        for (at, key) in keys.iter().enumerate() {
            let known = ahead(key);
            let start = if follows(keys, at) {
                near[at - 1].0.start
            } else {
                let start = self.seek(key)?;
                cold |= self.pool.prefetch(start);
                start
            };
            near[at] = (Way { start, cells: Window::default() }, known);
        }
        Ok(cold)
    }

    /// Reads the leaves of the first items that are on disk, side by side. Returns of how many items.
    #[cold]
    pub(super) fn load_cold_group<T>(&self, items: &[T], key: &impl Fn(&T) -> &[u8]) -> Result<usize> {
        let group = &items[..items.len().min(self.pool.together())];
        let leaves: Vec<_> = group.iter().map(|item| self.seek(key(item))).collect::<Result<_>>()?;
        self.load_together(leaves.into_iter());
        Ok(group.len())
    }

    /// Asks for the slots of a group's leaves, then for the cells of its keys.
    fn prefetch_group<A>(&self, keys: &[&[u8]], near: &mut [(Way, A)]) {
        for at in (0..keys.len()).filter(|at| !follows(keys, *at)) {
            self.prefetch(&mut near[at].0, keys[at], leaf::prefetch_slots);
        }
        for at in 0..keys.len() {
            if follows(keys, at) {
                near[at].0.cells = near[at - 1].0.cells;
            }
            self.prefetch(&mut near[at].0, keys[at], leaf::prefetch_cell);
        }
    }

    /// Lets `prefetch` fetch lines of a leaf, if it is in memory, and notes which.
    fn prefetch(&self, way: &mut Way, key: &[u8], prefetch: impl Fn(Page<'_>, &[u8], Window) -> Window) {
        if let Some(at) = self.pool.resident(way.start) {
            way.cells = prefetch(at.page, key, way.cells);
        }
    }

    /// As [`Tree::get`], with the way known.
    pub fn get_near(&self, view: &View, way: Way, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let found = self.get_cell_near(view, way, key, value)?;
        if self.is_large(value.len()) { self.get_large(view, key, value) } else { Ok(found) }
    }

    /// As [`Tree::get_near`]; for a large value, what stands for it.
    pub(super) fn get_cell_near(
        &self,
        view: &View,
        way: Way,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        let row =
            self.read_leaf_near(way.start, key, |page| self.read_row(page, view, key, way.cells, value))?;
        self.found(view, key, row, value)
    }
}

/// Is key `at` the next one behind that before it?
fn follows(keys: &[&[u8]], at: usize) -> bool {
    at > 0 && is_next(keys[at - 1], keys[at])
}

/// Is `key` the next one of its length? Then it is in the leaf of the key `before`, or soon behind it.
#[inline]
fn is_next(before: &[u8], key: &[u8]) -> bool {
    match (before.split_last(), key.split_last()) {
        (Some((before, start)), Some((last, same))) => before.checked_add(1) == Some(*last) && start == same,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_next;

    #[test]
    fn the_next_key_has_the_next_last_byte() {
        assert!(is_next(b"17/1", b"17/2") && is_next(&[7], &[8]));
        for (before, key) in
            [("17/1", "17/3"), ("17/2", "17/1"), ("17/1", "18/2"), ("17/1", "17/1"), ("", "a")]
        {
            assert!(!is_next(before.as_bytes(), key.as_bytes()), "{key} behind {before}");
        }
        assert!(!is_next(&[255], &[0]) && !is_next(&[1, 255], &[2, 0]));
    }
}
