//! Reads that leave long values where they are: how long a large value is its row says.
//!
//! Each returns how long the value is, `None` if there is none, and has read it if it has at most `bytes_max`.

use crate::error::Result;
use crate::tree::Tree;
use crate::tree::many::{Near, Way};
use crate::txn::{Txn, View};
use std::ops::ControlFlow;

impl Tree {
    /// The value of `key` that `view` sees.
    pub fn get_up_to(
        &self,
        view: &View,
        key: &[u8],
        bytes_max: u64,
        value: &mut Vec<u8>,
    ) -> Result<Option<u64>> {
        let found = self.get_cell(view, key, value)?;
        self.read_up_to(found, bytes_max, value, |value| self.get_large(view, key, value))
    }

    /// The same, with the way known.
    pub fn get_near_up_to(
        &self,
        view: &View,
        way: Way,
        key: &[u8],
        bytes_max: u64,
        value: &mut Vec<u8>,
    ) -> Result<Option<u64>> {
        let found = self.get_cell_near(view, way, key, value)?;
        self.read_up_to(found, bytes_max, value, |value| self.get_large(view, key, value))
    }

    /// The value of `key`, which the transaction locks first.
    pub fn get_locked_up_to(
        &self,
        txn: &mut Txn,
        key: &[u8],
        bytes_max: u64,
        value: &mut Vec<u8>,
    ) -> Result<Option<u64>> {
        let near = self.find_way(txn, key)?;
        self.get_locked_near_up_to(txn, near, key, bytes_max, value)
    }

    /// The same, with the way known.
    pub fn get_locked_near_up_to(
        &self,
        txn: &mut Txn,
        near: Near,
        key: &[u8],
        bytes_max: u64,
        value: &mut Vec<u8>,
    ) -> Result<Option<u64>> {
        let found = self.get_locked_cell(txn, near, key, value)?;
        self.read_up_to(found, bytes_max, value, |value| self.complete(key, value).map(|()| true))
    }

    /// The value of `key`, which the transaction is going to write.
    pub fn get_for_update_up_to(
        &self,
        txn: &mut Txn,
        key: &[u8],
        bytes_max: u64,
        value: &mut Vec<u8>,
    ) -> Result<Option<u64>> {
        let near = self.find_way(txn, key)?;
        let found = self.get_cell_for_update(txn, near, key, value)?;
        self.read_up_to(found, bytes_max, value, |value| self.complete(key, value).map(|()| true))
    }

    /// Calls `read` with the value of one key after the other, until it breaks, or one is longer than `bytes_max`.
    pub fn multi_get_up_to<K: AsRef<[u8]>>(
        &self,
        view: &View,
        keys: &[K],
        bytes_max: u64,
        mut read: impl FnMut(Option<&[u8]>) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut value = Vec::new();
        self.each_near(keys, |way, key| {
            let found = self.get_near_up_to(view, way, key, bytes_max, &mut value)?;
            Ok(match found {
                Some(bytes) if bytes > bytes_max => ControlFlow::Break(()),
                found => read(found.map(|_| &value[..])),
            })
        })
    }

    /// Given whether there is a row, and its cell: has `read` replace a large value's by the value.
    #[inline]
    fn read_up_to(
        &self,
        found: bool,
        bytes_max: u64,
        value: &mut Vec<u8>,
        read: impl FnOnce(&mut Vec<u8>) -> Result<bool>,
    ) -> Result<Option<u64>> {
        let bytes = self.value_bytes(value);
        if bytes > bytes_max {
            value.clear();
            return Ok(Some(bytes));
        }
        if !self.is_large(value.len()) {
            return Ok(found.then_some(bytes));
        }
        Ok(read(value)?.then_some(value.len() as u64))
    }
}
