//! What a dump says of a table beside its rows: its index, the size of its leaves and its types, as text.
//!
//! `csb` is a table with a CSB+-tree and leaves of the usual size, `csb 16384` one with leaves of 16 KiB. The usual size is
//! left out, so that a table of which nothing special was asked takes what is usual where it is restored. The types, if there are any, come
//! last, as JSON: `bplus ["u32","String"]`.

use foreshore::{ByteTable, Index, TableOptions, Types};
use serde_json::json;
use std::fmt;

/// The leaves of a database that was made without options.
const USUAL_LEAF_BYTES: usize = 8192;

/// How a table is to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableKind {
    index: Index,
    /// `None`: the usual one.
    leaf_bytes: Option<usize>,
    types: Option<Types>,
}

impl TableKind {
    /// What `table` is.
    pub fn of(table: &ByteTable) -> Self {
        let leaf_bytes = Some(table.leaf_bytes()).filter(|&bytes| bytes != USUAL_LEAF_BYTES);
        Self { index: table.index(), leaf_bytes, types: table.types().cloned() }
    }

    /// What a dump says; `None` if that is nothing known.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let (kind, types) = text.find(" [").map_or((text, None), |at| (&text[..at], Some(&text[at..])));
        let mut words = kind.split(' ');
        let name = words.next()?;
        let index = Index::ALL.into_iter().find(|index| index.to_string() == name)?;
        let leaf_bytes = words.next().map(str::parse).transpose().ok()?;
        let types = types.map(serde_json::from_str::<[String; 2]>).transpose().ok()?;
        let types = types.map(|[key, value]| Types::named(&key, &value));
        words.next().is_none().then_some(Self { index, leaf_bytes, types })
    }

    /// Options that make such a table.
    pub fn options(self) -> TableOptions {
        let options = TableOptions::new().index(self.index);
        let options = self.leaf_bytes.into_iter().fold(options, TableOptions::leaf_bytes);
        self.types.into_iter().fold(options, TableOptions::types)
    }
}

impl fmt::Display for TableKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.index)?;
        self.leaf_bytes.map_or(Ok(()), |bytes| write!(f, " {bytes}"))?;
        self.types.as_ref().map_or(Ok(()), |types| write!(f, " {}", json!([types.key(), types.value()])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read_as_it_is_written() {
        for index in Index::ALL {
            for leaf_bytes in [None, Some(4096), Some(32768)] {
                for types in
                    [None, Some(Types::named("u32,String", "")), Some(Types::named("a \"b\" [c", "Ä\n"))]
                {
                    let kind = TableKind { index, leaf_bytes, types };
                    assert_eq!(TableKind::parse(kind.to_string().as_bytes()).as_ref(), Some(&kind), "{kind}");
                }
            }
        }
        for wrong in
            ["", "trie", "csb ", "csb x", "csb 8192 1", " csb", "8192", "csb [", "csb [\"u8\"]", "[]"]
        {
            assert_eq!(TableKind::parse(wrong.as_bytes()), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_table_without_options_is_the_usual_one() {
        let db = foreshore::Database::in_memory().unwrap();
        assert_eq!(TableKind::of(&db.byte_table("t").unwrap()), TableKind::default());
        let types = Some(Types::of::<u32, String>());
        let wide = TableKind { index: Index::O2, leaf_bytes: Some(16384), types };
        assert_eq!(TableKind::of(&db.byte_table_with("wide", wide.clone().options()).unwrap()), wide);
    }
}
