//! What a dump says of a table beside its rows: its index and the size of its leaves, as text.
//!
//! `csb` is a table with a CSB+-tree and leaves of the usual size, `csb 16384` one with leaves of 16 KiB. The usual size is
//! left out, so that a table of which nothing special was asked takes what is usual where it is restored.

use foreshore::{ByteTable, Index, TableOptions};
use std::fmt;

/// The leaves of a database that was made without options.
const USUAL_LEAF_BYTES: usize = 8192;

/// How a table is to be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableKind {
    index: Index,
    /// `None`: the usual one.
    leaf_bytes: Option<usize>,
}

impl TableKind {
    /// What `table` is.
    pub fn of(table: &ByteTable) -> Self {
        let leaf_bytes = Some(table.leaf_bytes()).filter(|&bytes| bytes != USUAL_LEAF_BYTES);
        Self { index: table.index(), leaf_bytes }
    }

    /// What a dump says; `None` if that is nothing known.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(text).ok()?.split(' ');
        let name = words.next()?;
        let index = Index::ALL.into_iter().find(|index| index.to_string() == name)?;
        let leaf_bytes = words.next().map(str::parse).transpose().ok()?;
        words.next().is_none().then_some(Self { index, leaf_bytes })
    }

    /// Options that make such a table.
    pub fn options(self) -> TableOptions {
        let options = TableOptions::new().index(self.index);
        self.leaf_bytes.map_or(options, |bytes| options.leaf_bytes(bytes))
    }
}

impl fmt::Display for TableKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.index)?;
        self.leaf_bytes.map_or(Ok(()), |bytes| write!(f, " {bytes}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read_as_it_is_written() {
        for index in Index::ALL {
            for leaf_bytes in [None, Some(4096), Some(32768)] {
                let kind = TableKind { index, leaf_bytes };
                assert_eq!(TableKind::parse(kind.to_string().as_bytes()), Some(kind), "{kind}");
            }
        }
        for wrong in ["", "trie", "csb ", "csb x", "csb 8192 1", " csb", "8192"] {
            assert_eq!(TableKind::parse(wrong.as_bytes()), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_table_without_options_is_the_usual_one() {
        let db = foreshore::Database::in_memory().unwrap();
        assert_eq!(TableKind::of(&db.byte_table("t").unwrap()), TableKind::default());
        let wide = TableKind { index: Index::O2, leaf_bytes: Some(16384) };
        assert_eq!(TableKind::of(&db.byte_table_with("wide", wide.options()).unwrap()), wide);
    }
}
