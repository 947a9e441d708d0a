//! How long values are, and reads that leave the longest alone.

use crate::db::{ByteTable, SnapshotBytes, TransactionBytes};
use crate::error::Result;
use std::ops::ControlFlow;

impl ByteTable {
    /// How long the value of `key` is, in bytes; `None` if there is none. Its row says it, so a large value is not read.
    ///
    /// Errors: as [`ByteTable::get`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let files = db.byte_table("files")?;
    /// files.put(b"film", &vec![0; 10 << 20])?;
    /// assert_eq!(files.value_bytes(b"film")?, Some(10 << 20));
    /// assert_eq!(files.value_bytes(b"book")?, None);
    /// # Ok(()) }
    /// ```
    pub fn value_bytes(&self, key: &[u8]) -> Result<Option<u64>> {
        self.get_up_to(key, 0, &mut Vec::new())
    }

    /// As [`ByteTable::get_into`], but a value of more than `bytes_max` is not read. How long it is. For the server, whose event loops must
    /// not be long at it.
    #[doc(hidden)]
    #[inline]
    pub fn get_up_to(&self, key: &[u8], bytes_max: u64, value: &mut Vec<u8>) -> Result<Option<u64>> {
        self.tree.get_up_to(&self.latest(), key, bytes_max, value)
    }

    /// As [`ByteTable::multi_get_with`], and ends before a value of more than `bytes_max`. For the server.
    #[doc(hidden)]
    pub fn multi_get_up_to<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        bytes_max: u64,
        read: impl FnMut(Option<&[u8]>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.tree.multi_get_up_to(&self.latest(), keys, bytes_max, read)
    }
}

impl SnapshotBytes<'_> {
    /// How long the value of `key` is, in bytes; `None` if there is none. Its row says it, so a large value is not read.
    ///
    /// Errors: as [`SnapshotBytes::get`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let notes = db.byte_table("notes")?;
    /// notes.put(b"today", b"rain")?;
    /// let noon = db.snapshot()?;
    /// notes.put(b"today", b"rain, then sun")?;
    /// assert_eq!(noon.bytes(&notes).value_bytes(b"today")?, Some(4));
    /// # Ok(()) }
    /// ```
    pub fn value_bytes(&self, key: &[u8]) -> Result<Option<u64>> {
        self.read(|tree, view| tree.get_up_to(view, key, 0, &mut Vec::new()))
    }

    /// As [`SnapshotBytes::multi_get_with`], and ends before a value of more than `bytes_max`. For the server.
    #[doc(hidden)]
    pub fn multi_get_up_to<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        bytes_max: u64,
        mut read: impl FnMut(Option<&[u8]>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.read(|tree, view| tree.multi_get_up_to(view, keys, bytes_max, |value| self.show(|| read(value))))
    }
}

impl TransactionBytes<'_> {
    /// How long the value of `key` is, in bytes; `None` if there is none. Its row says it, so a large value is not read. Locks the key as
    /// [`get`](TransactionBytes::get) does.
    ///
    /// Errors: as [`TransactionBytes::get`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let files = db.byte_table("files")?;
    /// files.put_many(&[("a", "12345"), ("b", "123")])?;
    /// let total = db.transact(|tx| {
    ///     let files = tx.bytes(&files);
    ///     Ok(files.value_bytes(b"a")?.unwrap_or(0) + files.value_bytes(b"b")?.unwrap_or(0))
    /// })?;
    /// assert_eq!(total, 8);
    /// # Ok(()) }
    /// ```
    pub fn value_bytes(&self, key: &[u8]) -> Result<Option<u64>> {
        self.get_up_to(key, 0, &mut Vec::new())
    }

    /// As [`TransactionBytes::get_into`], but a value of more than `bytes_max` is not read. How long it is. For the server.
    #[doc(hidden)]
    pub fn get_up_to(&self, key: &[u8], bytes_max: u64, value: &mut Vec<u8>) -> Result<Option<u64>> {
        let (tree, locks) = (&self.table.tree, self.isolation().locks_rows());
        self.work(|txn| {
            txn.enter(tree)?;
            match locks {
                true => tree.get_locked_up_to(txn, key, bytes_max, value),
                false => tree.get_up_to(&txn.view(), key, bytes_max, value),
            }
        })
    }

    /// As [`TransactionBytes::get_for_update_into`], but a value of more than `bytes_max` is not read. How long it is. For the server.
    #[doc(hidden)]
    pub fn get_for_update_up_to(
        &self,
        key: &[u8],
        bytes_max: u64,
        value: &mut Vec<u8>,
    ) -> Result<Option<u64>> {
        let tree = &self.table.tree;
        self.work(|txn| {
            txn.enter(tree)?;
            tree.get_for_update_up_to(txn, key, bytes_max, value)
        })
    }

    /// As [`TransactionBytes::multi_get_with`], and ends before a value of more than `bytes_max`, whose key it has locked. For the server.
    #[doc(hidden)]
    pub fn multi_get_up_to<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        bytes_max: u64,
        mut read: impl FnMut(Option<&[u8]>) -> ControlFlow<()>,
    ) -> Result<()> {
        let (tree, locks) = (&self.table.tree, self.isolation().locks_rows());
        let mut value = Vec::new();
        tree.each_to_lock(keys, |near, key| {
            let found = self.work(|txn| {
                txn.enter(tree)?;
                match locks {
                    true => tree.get_locked_near_up_to(txn, near, key, bytes_max, &mut value),
                    false => tree.get_near_up_to(&txn.view(), near.way, key, bytes_max, &mut value),
                }
            })?;
            Ok(match found {
                Some(bytes) if bytes > bytes_max => ControlFlow::Break(()),
                found => read(found.map(|_| &value[..])),
            })
        })
    }
}
