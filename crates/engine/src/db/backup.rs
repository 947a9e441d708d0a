//! Online backup: a complete database, made of what one snapshot sees while writers go on.
//!
//! Why row by row: the files change under a copy of them, and what they hold between two checkpoints is explained by a
//! log that would have to be kept and copied too. A snapshot is consistent by itself, every page read has its checksum
//! compared, and the copy comes out packed. The price: old versions of rows that change meanwhile are kept in memory.
//!
//! Invariants:
//! - B1: the copy holds what was committed at one point of the log, in every table, and nothing else. No table comes or
//!   goes, or gets another name, between the look at the list of tables and the snapshot, and none is dropped before it is copied.
//! - B2: until it is complete and durable, the copy does not have the name that makes it a database (M2 in `meta.rs`).

use crate::db::Database;
use crate::db::byte_table::ByteTable;
use crate::db::engine::Engine;
use crate::db::index::TableOptions;
use crate::db::meta::{self, Meta};
use crate::db::options::{Builder, ensure_named};
use crate::db::snapshot::Snapshot;
use crate::error::{Error, Result};
use crate::log::Durability;
use crate::pool::Wal;
use crate::tree::Tree;
use foreshore_base::seeded_bug;
use foreshore_io::{DirVfs, Vfs};
use serde::Serialize;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Memory for the copy's leaves: they are written once, in order.
const CACHE_BYTES: usize = 32 << 20;
/// Rows between two calls of the progress callback.
const ROWS_PER_CALL: u64 = 4096;

/// How far a backup has come, or what it holds in the end.
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// # let db = foreshore::Database::in_memory()?;
/// # let dir = tempfile::tempdir().unwrap();
/// let t = db.table::<u32, u32>("squares")?;
/// t.bulk_load((0..100).map(|n| (n, n * n)))?;
/// let copied = db.backup(dir.path())?;
/// assert_eq!((copied.tables, copied.rows), (1, 100));
/// println!("{} bytes, as of LSN {}", copied.bytes, copied.lsn);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Copied {
    /// The point that the copy shows: the commits that the source's log records below this byte of its history.
    pub lsn: u64,
    /// Tables copied.
    pub tables: u64,
    /// Rows copied.
    pub rows: u64,
    /// Bytes of keys and values copied.
    pub bytes: u64,
}

impl Database {
    /// Copies the database into the absent or empty directory `path`, while others read and write. The copy is a database
    /// like any other: open it, or copy it back with this same call.
    ///
    /// It shows one point: everything committed when the call began (durably, whatever the durability of the commits),
    /// and nothing of transactions that had not committed then, [prepared](crate::Transaction::prepare) ones included.
    /// Only rows of a [bulk load](ByteTable::bulk_load) that is under way may be there in part.
    ///
    /// The copy is durable when this returns. If it is interrupted, the directory is refused by [`Database::open`], and may
    /// be given to the next backup.
    ///
    /// Errors: [`Error::Argument`] if the path is empty or has a zero byte; [`Error::Incompatible`] if the directory holds anything, or lies within a
    /// database's; [`Error::SnapshotTooOld`] if the rows that were changed meanwhile outgrew [`Builder::old_version_bytes`]: raise it,
    /// or make the backup when less is written; [`Error::Corrupt`] if the source is damaged; [`Error::Poisoned`] if the source stopped
    /// accepting writes, and what is committed there is not durable; [`Error::Full`], [`Error::TooManyFiles`], [`Error::Io`], which name
    /// the copy if they are of it: the source goes on then. While it runs,
    /// [`Database::drop_table`] gives [`Error::TableInUse`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use foreshore::Database;
    /// let db = Database::open(dir.path().join("ports.db"))?;
    /// let ports = db.table::<String, u32>("ports")?;
    /// ports.put("SEA", &98158)?;
    /// let copied = db.backup(dir.path().join("monday"))?;
    /// assert_eq!((copied.tables, copied.rows), (1, 1));
    ///
    /// let monday = Database::open(dir.path().join("monday"))?;
    /// assert_eq!(monday.table::<String, u32>("ports")?.get("SEA")?, Some(98158));
    /// # Ok(()) }
    /// ```
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<Copied> {
        self.backup_with(path, |_| {})
    }

    /// [`Database::backup`] that tells how far it has come, every few thousand rows and after each table.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # db.table::<u32, u32>("squares")?.bulk_load((0..100).map(|n| (n, n * n)))?;
    /// let mut told = 0;
    /// db.backup_with(dir.path(), |so_far| {
    ///     told += 1;
    ///     eprintln!("{} rows, {} bytes", so_far.rows, so_far.bytes);
    /// })?;
    /// assert!(told > 0);
    /// # Ok(()) }
    /// ```
    pub fn backup_with(&self, path: impl AsRef<Path>, progress: impl FnMut(&Copied)) -> Result<Copied> {
        let path = path.as_ref();
        ensure_named(path)?;
        ensure_beside_databases(path)?;
        self.backup_in(path, progress)
    }

    /// The same, wherever the directory lies.
    pub(crate) fn backup_in(&self, path: &Path, progress: impl FnMut(&Copied)) -> Result<Copied> {
        let vfs = DirVfs::open(path, true)
            .map_err(|e| Error::io(format!("opening the directory {}", path.display()), &e))?;
        self.backup_on(Arc::new(vfs), progress)
    }

    /// [`Database::backup_with`] onto any [`Vfs`], for example a simulated disk.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// use foreshore::Database;
    /// use foreshore::vfs::MemVfs;
    /// use std::sync::Arc;
    /// # let db = Database::in_memory()?;
    /// db.byte_table("t")?.put(b"k", b"v")?;
    /// let memory = Arc::new(MemVfs::new());
    /// db.backup_on(memory.clone(), |_| {})?;
    /// let copy = Database::builder().open_on(memory)?; // to try something out on
    /// copy.drop_table("t")?;
    /// assert_eq!(db.tables()?, ["t"]);
    /// # Ok(()) }
    /// ```
    pub fn backup_on(&self, vfs: Arc<dyn Vfs>, mut progress: impl FnMut(&Copied)) -> Result<Copied> {
        self.engine.ensure_not_forked()?;
        let source = Source::freeze(&self.engine)?;
        // Or the copy could show what a power failure then takes from the source.
        source.snapshot.wait_durable()?;
        let in_copy = in_copy(&vfs.describe());
        let target = Database::open_with(vfs.clone(), options(self.engine.meta()?)).map_err(&in_copy)?;
        let copied = source.copy_into(&target, &in_copy, &mut progress).and_then(|copied| {
            if !seeded_bug("backup_named_early") {
                target.engine.close().map_err(&in_copy)?; // writes everything out, durably
                target.engine.core().log.give_space(); // who opens it next may have no use for as much log
            }
            meta::finish_backup(&*vfs).map(|()| copied).map_err(&in_copy)
        });
        if copied.is_err() {
            // What is left otherwise is refused by its name, and the first error is the one that counts.
            let _ = target.engine.close();
            let _ = meta::discard_unfinished(&*vfs);
        }
        copied
    }
}

/// What lies within a database's directory would go with it: a compaction, for one, puts another directory in its place. For the command,
/// too.
///
/// Errors: [`Error::Incompatible`], if `path` does.
pub fn ensure_beside_databases(path: &Path) -> Result<()> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut place = PathBuf::new();
    for part in absolute.components() {
        match part {
            Component::ParentDir => _ = place.pop(),
            part => place.push(part),
        }
        // What is there may be a link, and leads elsewhere then; the rest will be made.
        place = place.canonicalize().unwrap_or(place);
    }
    match place.ancestors().skip(1).find(|above| meta::is_in(above)) {
        Some(database) => Err(Error::Incompatible {
            dir: path.display().to_string(),
            detail: format!(
                "it would lie within the database {}; name a directory outside",
                database.display()
            ),
        }),
        None => Ok(()),
    }
}

/// Tells of an error in the copy where that is. What stopped or spoiled the copy did nothing to the source, which goes on: such an error
/// must not advise to open the source again, or to salvage it.
fn in_copy(place: &str) -> impl Fn(Error) -> Error + use<> {
    let copy = format!("the copy in {place}");
    move |error| match error {
        Error::Full { what } => Error::Full { what: format!("{copy}: {what}") },
        Error::TooManyFiles { what, detail, limit } => {
            Error::TooManyFiles { what: format!("{copy}: {what}"), detail, limit }
        }
        Error::Io { what, kind, detail } => Error::Io { what: format!("{copy}: {what}"), kind, detail },
        Error::Poisoned { cause } => {
            Error::Io { what: copy.clone(), kind: io::ErrorKind::Other, detail: cause }
        }
        Error::Corrupt { what, detail, .. } => {
            Error::Io { what: format!("{copy}: {what}"), kind: io::ErrorKind::InvalidData, detail }
        }
        named => named, // by themselves
    }
}

/// How the copy is made: as the source was, and with nothing acknowledged before its end.
fn options(source: Meta) -> Builder {
    Builder {
        backup: true,
        leaf_bytes: Some(source.leaf_bytes),
        segment_bytes: source.segment_bytes,
        ring_bytes: source.ring_bytes,
        cache_bytes: CACHE_BYTES,
        durability: Durability::Relaxed,
        ..Builder::default()
    }
}

/// One point of the database.
struct Source {
    engine: Arc<Engine>,
    snapshot: Snapshot,
    tables: Vec<InUse>,
}

impl Source {
    /// B1: all tables, and the snapshot of a moment in which there were these and no others.
    fn freeze(engine: &Arc<Engine>) -> Result<Self> {
        engine.tables.with_all(|trees| {
            let tables = trees.map(InUse::new).collect();
            Ok(Self { engine: engine.clone(), snapshot: Snapshot::open(engine.clone().into())?, tables })
        })
    }

    fn copy_into(
        &self,
        target: &Database,
        in_copy: &dyn Fn(Error) -> Error,
        progress: &mut dyn FnMut(&Copied),
    ) -> Result<Copied> {
        let mut copied = Copied { lsn: self.snapshot.at().0, ..Copied::default() };
        for table in &self.tables {
            self.copy_table(table, target, in_copy, &mut copied, progress)?;
            copied.tables += 1;
            progress(&copied);
        }
        Ok(copied)
    }

    fn copy_table(
        &self,
        InUse { tree, name }: &InUse,
        target: &Database,
        in_copy: &dyn Fn(Error) -> Error,
        copied: &mut Copied,
        progress: &mut dyn FnMut(&Copied),
    ) -> Result<()> {
        let from = ByteTable::new(self.engine.clone(), tree.clone());
        let mut failed = Ok(());
        let rows = self.snapshot.bytes(&from).range(..).map_while(|row| match row {
            Ok(row) => Some(row),
            Err(error) => {
                failed = Err(error);
                None
            }
        });
        let counted = rows.inspect(|(key, value)| {
            copied.rows += 1;
            copied.bytes += (key.len() + value.len()) as u64;
            if copied.rows.is_multiple_of(ROWS_PER_CALL) {
                progress(copied);
            }
        });
        let mut same = TableOptions::new().index(tree.index_kind()).leaf_bytes(tree.leaf_bytes());
        same.types.clone_from(&tree.types);
        let to = target.byte_table_with(name, same);
        to.and_then(|to| to.bulk_load(counted)).map_err(in_copy)?;
        failed
    }
}

/// A table that is not dropped while this lives.
struct InUse {
    tree: Arc<Tree>,
    /// As of the snapshot: it may be renamed meanwhile.
    name: String,
}

impl InUse {
    fn new(tree: &Arc<Tree>) -> Self {
        tree.users.enter_backup();
        Self { tree: tree.clone(), name: tree.name().to_owned() }
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.tree.users.leave_backup();
    }
}
