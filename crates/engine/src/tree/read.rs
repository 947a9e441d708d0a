//! Point reads. They write no shared memory: no latch, no pin, no reference count.

use crate::error::Result;
use crate::leaf;
use crate::tree::Tree;
use foreshore_base::PageId;

impl Tree {
    /// Replaces `value` by the value of `key`; `false` and empty if there is none.
    #[inline]
    pub fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let found = self.read_leaf(key, |page| leaf::get(page, key, value))?.is_some();
        if !found {
            value.clear();
        }
        Ok(found)
    }

    /// Has `key` a value?
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        self.read_leaf(key, |page| leaf::contains(page, key))
    }

    /// The values of many keys: all index descents first, with the leaves' first lines prefetched, then the leaves.
    ///
    /// Source: multicore study (Guo et al., 2010) §6: raise the concurrency of misses inside one operation.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        const GROUP: usize = 16;
        let mut values = Vec::with_capacity(keys.len());
        let mut starts = [PageId::NONE; GROUP];
        for group in keys.chunks(GROUP) {
            for (start, key) in starts.iter_mut().zip(group) {
                *start = self.seek(key.as_ref())?;
                self.core.pool.prefetch(*start);
            }
            for (start, key) in starts.iter().zip(group) {
                values.push(self.get_near(*start, key.as_ref())?);
            }
        }
        Ok(values)
    }

    fn get_near(&self, start: PageId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        let found = match self.read_from(start, key, &mut |page| leaf::get(page, key, &mut value))? {
            Some(version) => version.is_some(),
            None => self.get(key, &mut value)?,
        };
        Ok(found.then_some(value))
    }
}
