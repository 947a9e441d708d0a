//! Which index a table has over its leaves, and with which options a table is made.

use crate::db::types::Types;
use serde::Serialize;
use std::fmt;

/// The index over a table's leaves: in memory, never logged, and built anew when the database is opened.
///
/// It decides how fast a leaf is found, and what memory that takes; what the table holds, and its files, are the same.
/// The table remembers its kind.
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// use foreshore::{Database, Index, TableOptions};
/// let db = Database::in_memory()?;
/// for index in Index::ALL {
///     let t = db.table_with::<u32, u32>(&index.to_string(), TableOptions::new().index(index))?;
///     t.bulk_load((0..10_000).map(|n| (n, n)))?;
/// }
/// for table in db.stats().indexes {
///     println!("{}: {} bytes", table.index, table.bytes); // bplus, csb, o2
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub enum Index {
    /// OLFIT B+-tree. Right unless a measurement says otherwise.
    #[default]
    #[serde(rename = "bplus")]
    BPlus,
    /// OLFIT CSB+-tree: smaller inner nodes, so fewer cache lines on the way to a leaf of a table with short keys; a
    /// split of a leaf costs more.
    #[serde(rename = "csb")]
    CsbPlus,
    /// O2-Tree, with lookups that lock nothing: a red-black tree over blocks of separators.
    #[serde(rename = "o2")]
    O2,
}

impl Index {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::BPlus, Self::CsbPlus, Self::O2];

    /// Its byte in the catalog. Never changes its meaning.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::BPlus => 0,
            Self::CsbPlus => 1,
            Self::O2 => 2,
        }
    }

    pub(crate) fn of_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|index| index.code() == code)
    }
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::BPlus => "bplus",
            Self::CsbPlus => "csb",
            Self::O2 => "o2",
        })
    }
}

/// Options of [`Database::table_with`](crate::Database::table_with). They concern the table's creation, and are ignored if
/// it exists, but for its types; a size that no leaf can have is refused in any case.
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// use foreshore::{Database, Index, TableOptions};
/// let db = Database::in_memory()?;
/// let ports = db.table_with::<String, u32>("ports", TableOptions::new().index(Index::CsbPlus))?;
/// assert_eq!(ports.as_bytes().index(), Index::CsbPlus);
///
/// let documents = db.byte_table_with("documents", TableOptions::new().leaf_bytes(32 << 10))?;
/// assert_eq!(documents.leaf_bytes(), 32768);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct TableOptions {
    pub(crate) index: Option<Index>,
    pub(crate) leaf_bytes: Option<usize>,
    pub(crate) types: Option<Types>,
}

impl TableOptions {
    /// What [`Builder::index`](crate::Builder::index) and [`Builder::profile`](crate::Builder::profile) say; without a
    /// profile, leaves of the size that the database was made with.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// use foreshore::{Index, TableOptions};
    /// # let db = foreshore::Database::in_memory()?;
    /// let usual = db.byte_table_with("t", TableOptions::new())?; // as `byte_table("t")`
    /// assert_eq!((usual.index(), usual.leaf_bytes()), (Index::BPlus, 8192));
    /// # Ok(()) }
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// The index over the table's leaves.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// use foreshore::{Index, TableOptions};
    /// # let db = foreshore::Database::in_memory()?;
    /// db.table_with::<u32, u64>("counters", TableOptions::new().index(Index::CsbPlus))?;
    /// let again = db.table::<u32, u64>("counters")?; // it has its index, whatever is said now
    /// assert_eq!(again.as_bytes().index(), Index::CsbPlus);
    /// # Ok(()) }
    /// ```
    pub fn index(mut self, index: Index) -> Self {
        self.index = Some(index);
        self
    }

    /// Size of the table's leaves in bytes: a power of two from 4096 to 32768. Making the table fails if the database was
    /// made with a [log buffer](crate::Builder::ring_bytes) of less than 16 such leaves. Large leaves suit ranges and
    /// large values, small ones single rows here and there; see `docs/tuning.md`.
    ///
    /// The first table of a size that the database does not use yet makes a file for it, and adds an eighth of
    /// [`Builder::cache_bytes`](crate::Builder::cache_bytes) to its memory; from the next opening on the sizes in use share
    /// that memory.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// use foreshore::TableOptions;
    /// # let db = foreshore::Database::in_memory()?;
    /// let letters = db.byte_table_with("letters", TableOptions::new().leaf_bytes(32 << 10))?;
    /// letters.put(b"to ada", &[b'x'; 8000])?; // up to a quarter of a leaf lies in the row itself
    /// assert_eq!(db.check()?.tables.iter().map(|table| table.large_values).sum::<u64>(), 0);
    /// # Ok(()) }
    /// ```
    pub fn leaf_bytes(mut self, bytes: usize) -> Self {
        self.leaf_bytes = Some(bytes);
        self
    }

    /// Types of the table's rows: the table remembers them, and if it exists, with other ones, opening it fails. Byte tables have none
    /// unless they are said; [`Database::table_with`](crate::Database::table_with) says those of its `Table`.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// use foreshore::{Error, TableOptions, Types};
    /// # let db = foreshore::Database::in_memory()?;
    /// let of = |value| TableOptions::new().types(Types::named("String", value));
    /// db.byte_table_with("ages", of("u32"))?;
    /// assert!(matches!(db.byte_table_with("ages", of("String")), Err(Error::Argument(_))));
    /// db.byte_table("ages")?; // who does not say takes the bytes as they are
    /// # Ok(()) }
    /// ```
    pub fn types(mut self, types: Types) -> Self {
        self.types = Some(types);
        self
    }
}
