//! Point reads. They write no shared memory: no latch, no pin, no reference count, no lock.

use crate::error::Result;
use crate::leaf;
use crate::page::Page;
use crate::tree::Tree;
use crate::txn::{Seen, Txn, View};
use crate::version::Version;
use foreshore_base::{PageId, Restart};

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

    /// As [`Tree::get`], for a transaction that has locked the key: what the leaf holds is committed or its own.
    pub fn get_locked(&self, txn: &mut Txn, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let (found, leaf) =
            self.read_leaf(key, |page| Ok((self.read_row(page, &View::NEWEST, key, value)?, page.id())))?;
        txn.set_last_leaf(self, leaf);
        if !found {
            value.clear();
        }
        if self.is_large(value.len()) {
            self.complete(value)?;
        }
        Ok(found)
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
            page.0.append_to(cell.value_at, cell.value_len, out);
            Ok(true)
        })
    }

    /// Does `view` see a value of `key`?
    pub fn contains(&self, view: &View, key: &[u8]) -> Result<bool> {
        self.get_cell(view, key, &mut Vec::new())
    }

    /// The values of many keys: all index descents first, with the leaves' first lines prefetched, then the leaves.
    ///
    /// Source: multicore study (Guo et al., 2010) §6: raise the concurrency of misses inside one operation.
    pub fn multi_get<K: AsRef<[u8]>>(&self, view: &View, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        const GROUP: usize = 16;
        let mut values = Vec::with_capacity(keys.len());
        let mut starts = [PageId::NONE; GROUP];
        for group in keys.chunks(GROUP) {
            for (start, key) in starts.iter_mut().zip(group) {
                *start = self.seek(key.as_ref())?;
                self.core.pool.prefetch(*start);
            }
            for (start, key) in starts.iter().zip(group) {
                values.push(self.get_near(view, *start, key.as_ref())?);
            }
        }
        Ok(values)
    }

    fn get_near(&self, view: &View, start: PageId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        let near = self.read_from(start, key, &mut |page| self.read_row(page, view, key, &mut value))?;
        let found = match near {
            Some(found) => found,
            None => self.get(view, key, &mut value)?,
        };
        if near.is_some() && self.is_large(value.len()) {
            return Ok(self.get_large(view, key, &mut value)?.then_some(value));
        }
        Ok(found.then_some(value))
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
        page.0.append_to(cell.value_at, cell.value_len, value);
        Ok(true)
    }
}
