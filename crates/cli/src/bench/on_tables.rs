//! A report, and what kind of tables it was measured on: chosen by options and profiles, and said by the database itself.

use crate::failure::{Failure, Outcome};
use foreshore::{Database, Index};
use foreshore_workloads::disk::disk_bytes;
use serde::Serialize;
use std::path::Path;

/// One JSON object; its names are kept stable.
#[derive(Serialize)]
pub struct OnTables<R> {
    /// The report.
    #[serde(flatten)]
    pub report: R,
    index: Index,
    leaf_bytes: usize,
}

/// And what the database takes once it is closed.
#[derive(Serialize)]
pub struct OnDisk<R> {
    /// The report.
    #[serde(flatten)]
    pub on_tables: OnTables<R>,
    /// Bytes of all its files.
    pub disk_bytes: u64,
}

impl<R> OnTables<R> {
    /// `db` has the tables of one benchmark, which are all of a kind.
    pub fn of(db: &Database, report: R) -> Outcome<Self> {
        let name = db.tables()?.into_iter().next().expect("a benchmark makes a table");
        let table = db.byte_table(&name)?;
        Ok(Self { report, index: table.index(), leaf_bytes: table.leaf_bytes() })
    }

    /// The database, which is closed by now, is in `dir`.
    pub fn in_dir(self, dir: &Path) -> Outcome<OnDisk<R>> {
        let disk_bytes = disk_bytes(dir).map_err(|error| Failure::io(dir.display(), &error))?;
        Ok(OnDisk { on_tables: self, disk_bytes })
    }
}
