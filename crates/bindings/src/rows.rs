//! Rows in key order, wherever they come from.

use foreshore::{ByteBounds, ByteRange, Error, Prefix, RawBounds, Result, TransactionRange};
use std::ops::{Bound, RangeBounds};

pub(crate) type Row = (Vec<u8>, Vec<u8>);

/// From which key to which; by default all.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// The lower bound.
    pub from: Bound<Vec<u8>>,
    /// The upper bound.
    pub to: Bound<Vec<u8>>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { from: Bound::Unbounded, to: Bound::Unbounded }
    }
}

impl Bounds {
    /// All keys that begin with `prefix`.
    pub fn prefix(prefix: &[u8]) -> Self {
        let (from, to) = Prefix(prefix).raw();
        Self { from, to }
    }

    /// Does `key` lie within?
    pub fn contains(&self, key: &[u8]) -> bool {
        let bounds = (self.from.as_ref().map(Vec::as_slice), self.to.as_ref().map(Vec::as_slice));
        RangeBounds::<[u8]>::contains(&bounds, key)
    }
}

impl ByteBounds for Bounds {
    fn raw(&self) -> RawBounds {
        (self.from.clone(), self.to.clone())
    }
}

/// Rows of a table in key order, from either end.
pub enum Rows {
    /// What is committed, or was when a snapshot was taken.
    Committed(ByteRange),
    /// What a transaction sees.
    Transaction(TransactionRange),
    /// The transaction could not be asked: the only row is an error.
    Failed(Option<Error>),
}

impl Rows {
    /// The same rows with empty values, which are not read, however large they are.
    pub fn keys_only(mut self) -> Self {
        self.set_keys_only(true);
        self
    }

    /// Says, from the next row on, whether rows come as [`keys_only`](Self::keys_only) says.
    pub fn set_keys_only(&mut self, keys_only: bool) {
        match self {
            Rows::Committed(rows) => rows.set_keys_only(keys_only),
            Rows::Transaction(rows) => rows.set_keys_only(keys_only),
            Rows::Failed(_) => {}
        }
    }
}

impl Iterator for Rows {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Rows::Committed(rows) => rows.next(),
            Rows::Transaction(rows) => rows.next(),
            Rows::Failed(error) => error.take().map(Err),
        }
    }
}

impl DoubleEndedIterator for Rows {
    fn next_back(&mut self) -> Option<Self::Item> {
        match self {
            Rows::Committed(rows) => rows.next_back(),
            Rows::Transaction(rows) => rows.next_back(),
            Rows::Failed(error) => error.take().map(Err),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_bounds_the_keys_that_begin_with_it() {
        let keys: [&[u8]; 6] = [b"a", b"a\xff", b"a\xff\xff", b"a\xff\xff\0", b"b", b"\xff"];
        let within = |prefix: &[u8]| {
            let bounds = Bounds::prefix(prefix);
            keys.iter().filter(|key| bounds.contains(key)).count()
        };
        for prefix in [&b""[..], b"a", b"a\xff", b"a\xff\xff", b"b", b"\xff", b"c"] {
            let begin = keys.iter().filter(|key| key.starts_with(prefix)).count();
            assert_eq!(within(prefix), begin, "{}", prefix.escape_ascii());
        }
    }
}
