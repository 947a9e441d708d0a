//! A report, and what kind of tables it was measured on: chosen by options and profiles, and said by the database itself.

use crate::failure::Outcome;
use foreshore::{Database, Index};
use serde::Serialize;

/// One JSON object; its names are kept stable.
#[derive(Serialize)]
pub struct OnTables<R> {
    /// The report.
    #[serde(flatten)]
    pub report: R,
    index: Index,
    leaf_bytes: usize,
}

impl<R> OnTables<R> {
    /// `db` has the tables of one benchmark, which are all of a kind.
    pub fn of(db: &Database, report: R) -> Outcome<Self> {
        let name = db.tables()?.into_iter().next().expect("a benchmark makes a table");
        let table = db.byte_table(&name)?;
        Ok(Self { report, index: table.index(), leaf_bytes: table.leaf_bytes() })
    }
}
