//! Point reads. They write no shared memory: no latch, no pin, no reference count, no lock.

use crate::error::Result;
use crate::leaf::{self, Place};
use crate::lock::{KeyMode, Name};
use crate::page::Page;
use crate::tree::write::append_live;
use crate::tree::{Stamp, Tree};
use crate::txn::{Found, Seen, Txn, View};
use crate::version::Version;
use foreshore_base::{PageId, Restart};
use std::ops::ControlFlow;

impl Tree {
    /// Replaces `value` by the value of `key` that `view` sees; `false` and empty if there is none.
    #[inline]
    pub fn get(&self, view: &View, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let found = self.get_cell(view, key, value)?;
        if self.is_large(value.len()) { self.get_large(view, key, value) } else { Ok(found) }
    }

    /// As [`Tree::get`]; for a large value, what stands for it.
    #[inline]
    fn get_cell(&self, view: &View, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let found = self.read_leaf(key, |page| self.read_row(page, view, key, value))?;
        if !found {
            value.clear();
        }
        Ok(found)
    }

    /// As [`Tree::get`], for a transaction that locks the key first: what the leaf holds then is committed or its own.
    pub fn get_locked(&self, txn: &mut Txn, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let (start, _) = self.lock_on_the_way(txn, key, KeyMode::Shared)?;
        let (found, leaf) = self.read_leaf_near(start, key, |page| {
            let cell = leaf::lookup(page, key)?;
            value.clear();
            Ok((append_live(page, cell, value).is_some(), page.id()))
        })?;
        txn.set_last_leaf(self, leaf);
        if self.is_large(value.len()) {
            self.complete(value)?;
        }
        Ok(found)
    }

    /// As [`Tree::get_locked`], of a row that the transaction is going to write: it will know where that is.
    pub fn get_for_update(&self, txn: &mut Txn, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let (start, name) = self.lock_on_the_way(txn, key, KeyMode::Exclusive)?;
        let mut old = txn.take_old();
        old.begin(key);
        let read = self.read_leaf_near(start, key, |page| {
            let place = Place::find(page, key)?;
            old.set_value(|out| append_live(page, place.cell(), out));
            Ok((place, Stamp::of(page)))
        });
        txn.old = old;
        let (place, stamp) = read?;
        txn.set_last_leaf(self, stamp.page());
        txn.set_found(Found { table: self.id, name, stamp, place });
        value.clear();
        let Some(found) = txn.old.value() else { return Ok(false) };
        value.extend_from_slice(found);
        if self.is_large(value.len()) {
            self.complete(value)?;
        }
        Ok(true)
    }

    /// Locks the key; returns where its leaf is or, by the index, begins, and the lock's name. The way there and the lock
    /// are two lines that are seldom in the processor's cache, and neither depends on the other: both are asked for first.
    fn lock_on_the_way(&self, txn: &mut Txn, key: &[u8], mode: KeyMode) -> Result<(PageId, Name)> {
        let name = self.core.txns.keys.name(self.id, key);
        self.core.txns.keys.prefetch(name);
        let start = match txn.usual_leaf(self).filter(|leaf| self.seems_to_cover(*leaf, key)) {
            Some(leaf) => leaf,
            None => self.seek(key)?,
        };
        self.pool.prefetch(start);
        txn.lock_name(self, name, Some(key), mode, false)?;
        Ok((start, name))
    }

    /// The newest cell of `key` that is no ghost, committed or not; for a large value, what stands for it.
    pub fn newest(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_cell(&View::NEWEST, key, &mut value)?.then_some(value))
    }

    /// The newest cell of `key`, which may be a ghost, and its version.
    pub fn newest_cell(&self, key: &[u8]) -> Result<Option<(Version, Vec<u8>)>> {
        let mut value = Vec::new();
        let version = self.read_leaf(key, |page| leaf::get(page, key, &mut value))?;
        Ok(version.map(|version| (Version(version), value)))
    }

    /// Appends the newest value of `key` to `out`; `false` if there is none.
    pub fn append_newest(&self, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let begin = out.len();
        self.read_leaf(key, |page| {
            out.truncate(begin);
            let Some(cell) = leaf::lookup(page, key)? else { return Ok(false) };
            cell.append_to(page, out);
            Ok(true)
        })
    }

    /// Does `view` see a value of `key`?
    pub fn contains(&self, view: &View, key: &[u8]) -> Result<bool> {
        self.get_cell(view, key, &mut Vec::new())
    }

    /// The values of many keys.
    pub fn multi_get<K: AsRef<[u8]>>(&self, view: &View, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut values = Vec::with_capacity(keys.len());
        self.each_near(keys, |start, key| {
            let mut value = Vec::new();
            let found = self.get_near(view, start, key, &mut value)?;
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
        self.each_near(keys, |start, key| {
            let found = self.get_near(view, start, key, &mut value)?;
            Ok(read(found.then_some(&value)))
        })
    }

    /// Calls `visit` with each key, and where the index says that its leaf is, until it breaks. Group by group, all index
    /// descents come first, with the leaves' first lines prefetched.
    ///
    /// Source: multicore study (Guo et al., 2010) §6: raise the concurrency of misses inside one operation.
    fn each_near<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut visit: impl FnMut(PageId, &[u8]) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        const GROUP: usize = 16;
        let mut starts = [PageId::NONE; GROUP];
        for group in keys.chunks(GROUP) {
            for (start, key) in starts.iter_mut().zip(group) {
                *start = self.seek(key.as_ref())?;
                self.pool.prefetch(*start);
            }
            for (start, key) in starts.iter().zip(group) {
                if visit(*start, key.as_ref())?.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// As [`Tree::get`], from the leaf `start` on.
    fn get_near(&self, view: &View, start: PageId, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let near = self.read_from(start, key, &mut |page| self.read_row(page, view, key, value))?;
        match near {
            Some(true) if self.is_large(value.len()) => self.get_large(view, key, value),
            Some(true) => Ok(true),
            Some(false) => {
                value.clear();
                Ok(false)
            }
            None => self.get(view, key, value),
        }
    }

    /// Copies the value of `key` that `view` sees. Optimistic: what it says counts once the page's latch validates, also
    /// what it says because of the key table (V2 in `txn/view.rs`).
    #[inline]
    fn read_row(
        &self,
        page: Page<'_>,
        view: &View,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool, Restart> {
        let Some(cell) = leaf::lookup(page, key)? else { return Ok(false) };
        let version = Version(cell.version);
        if !view.sees(version)
            && let Seen::Older(older) =
                view.resolve(&self.core.txns.keys, &self.core.txns.slots, self.id, key, version)
        {
            value.clear();
            value.extend_from_slice(older.as_deref().unwrap_or_default());
            return Ok(older.is_some());
        }
        if version.is_ghost() {
            return Ok(false);
        }
        value.clear();
        cell.append_to(page, value);
        Ok(true)
    }
}
