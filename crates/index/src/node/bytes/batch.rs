//! Copied entries with byte-string keys: all keys in one run of bytes.

use crate::node::Batch;

/// Copied entries with byte-string keys.
#[derive(Debug, Default)]
pub(crate) struct BytesBatch {
    /// All keys, one behind the other.
    pub(super) bytes: Vec<u8>,
    /// Where each key ends.
    pub(super) ends: Vec<usize>,
    pub(super) words: Vec<u64>,
}

impl Batch<[u8]> for BytesBatch {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.words.clear();
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn key(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.bytes[start..self.ends[i]]
    }

    fn word(&self, i: usize) -> u64 {
        self.words[i]
    }
}
