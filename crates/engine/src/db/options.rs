//! How a database is opened.

use crate::db::Database;
use crate::db::index::Index;
use crate::db::memory::CACHE_BYTES;
use crate::db::meta::Meta;
use crate::error::{Error, Result};
use crate::leaf::is_page_size;
use crate::log::Durability;
use foreshore_index::{Favour, Profile};
use foreshore_io::{DirVfs, Vfs};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The size of leaves if nobody names another.
const LEAF_BYTES: usize = 8192;

/// A log has one reader: more threads than this wait for it.
const REDO_THREADS_MAX: usize = 64;

/// Options of [`Database::open`]; obtained from [`Database::builder`].
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use foreshore::{Database, Durability};
/// let db = Database::builder().cache_bytes(64 << 20).durability(Durability::Buffered).open(dir.path())?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    pub(crate) create: bool,
    pub(crate) rebuild: bool,
    /// Create a backup, which is no database until it is complete.
    pub(crate) backup: bool,
    pub(crate) cache_bytes: usize,
    /// The size that the caller asked for, by [`Builder::leaf_bytes`].
    pub(crate) leaf_bytes: Option<usize>,
    /// What a profile advises for new tables.
    pub(crate) advised_leaf_bytes: Option<usize>,
    pub(crate) segment_bytes: u64,
    pub(crate) ring_bytes: usize,
    pub(crate) log_bytes: u64,
    pub(crate) old_version_bytes: u64,
    pub(crate) durability: Durability,
    pub(crate) redo_threads: usize,
    pub(crate) index: Index,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            create: true,
            rebuild: false,
            backup: false,
            cache_bytes: *CACHE_BYTES,
            leaf_bytes: None,
            advised_leaf_bytes: None,
            segment_bytes: 32 << 20,
            ring_bytes: 16 << 20,
            log_bytes: 512 << 20,
            old_version_bytes: 256 << 20,
            durability: Durability::Sync,
            redo_threads: std::thread::available_parallelism().map_or(2, usize::from).min(8),
            index: Index::default(),
        }
    }
}

impl Builder {
    /// Create the directory and the database if there is none (default: yes).
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use foreshore::{Database, Error};
    /// let missing = Database::builder().create(false).open(dir.path().join("misspelt"));
    /// assert!(matches!(missing, Err(Error::Incompatible { .. })));
    /// # Ok(()) }
    /// ```
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// The most memory for leaf pages, in bytes (default: a quarter of what the machine or the container has). It is taken
    /// as pages come into use, and kept until the database is closed, so a small database takes little of it. Reads and
    /// writes go past the operating system's cache, so this is all that is cached. At least 64 pages are used. More than 2^28
    /// (2 TiB of 8 KiB each) are refused with [`Error::Argument`], when the database is opened.
    ///
    /// If tables have leaves of [several sizes](crate::TableOptions::leaf_bytes), each size has an eighth of the memory, and
    /// a part of the rest by what it has on disk when the database is opened. The index over the leaves comes on top: about
    /// 1 % of the data. Who has several large databases open at once had better divide the memory among them.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use foreshore::Database;
    /// let db = Database::builder().cache_bytes(64 << 20).open(dir.path())?;
    /// assert_eq!(db.stats().pool_frames, (64 << 20) / 8192); // leaves of 8 KiB
    /// # Ok(()) }
    /// ```
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.cache_bytes = bytes;
        self
    }

    /// Size of a leaf page in bytes: a power of two from 4096 to 32768 (default 8192, or what a
    /// [profile](Self::profile) says). Fixed when the database is created, ignored afterwards. A table may be given
    /// [another one](crate::TableOptions::leaf_bytes).
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use foreshore::Database;
    /// let archive = Database::builder().leaf_bytes(32 << 10).open(dir.path())?; // for rows that are read in ranges
    /// assert_eq!(archive.byte_table("letters")?.leaf_bytes(), 32768);
    /// # Ok(()) }
    /// ```
    pub fn leaf_bytes(mut self, bytes: usize) -> Self {
        self.leaf_bytes = Some(bytes);
        self
    }

    /// Takes the leaf size of new tables from a profile of the machine, as `foreshore tune` writes one, unless
    /// [`leaf_bytes`](Self::leaf_bytes) or the [table's options](crate::TableOptions::leaf_bytes) name another. A database
    /// that is created now has that size for its own, too. Tables that exist keep theirs. Larger leaves than the
    /// [log buffer](Self::ring_bytes) can take (16 of them) are not made: a profile is advice.
    ///
    /// Opening fails with [`Error::Argument`] if the profile, changed by hand, names a size that no leaf can have.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use foreshore::{Database, Favour, Profile};
    /// let profile = Profile::default(); // or `Profile::load("foreshore-tune.toml")?`
    /// let db = Database::builder().profile(&profile, Favour::Lookups).open(dir.path())?;
    /// assert_eq!(db.byte_table("flights")?.leaf_bytes(), profile.leaf_bytes(Favour::Lookups));
    /// # Ok(()) }
    /// ```
    pub fn profile(mut self, profile: &Profile, favour: Favour) -> Self {
        self.advised_leaf_bytes = Some(profile.leaf_bytes(favour));
        self
    }

    /// Size of one log segment file in bytes: a multiple of 4096, from 64 KiB to 1 TiB (default 32 MiB). Fixed when the
    /// database is created, ignored afterwards.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use foreshore::Database;
    /// // A small database on a small disk: little log, in small files.
    /// let db = Database::builder().segment_bytes(1 << 20).ring_bytes(256 << 10).log_bytes(8 << 20).open(dir.path())?;
    /// # let segments = || std::fs::read_dir(dir.path()).unwrap().filter(|entry| {
    /// #     entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("wal-0")
    /// # }).map(|entry| entry.unwrap().metadata().unwrap().len()).collect::<Vec<_>>();
    /// # db.byte_table("t")?.put(b"k", b"v")?;
    /// # assert!(segments().iter().all(|len| *len == 1 << 20), "{:?}", segments());
    /// # Ok(()) }
    /// ```
    pub fn segment_bytes(mut self, bytes: u64) -> Self {
        self.segment_bytes = bytes;
        self
    }

    /// Size of the log buffer in bytes: a power of two from 64 KiB to 16 GiB, at least 16 leaves (default 16 MiB). It bounds what
    /// `Buffered` and `Relaxed` commits can lose to a power failure. It is memory, and a file, for as long as the database is there.
    /// Fixed when the database is created. Have 16 KiB of it for each thread that writes: with less, on a full disk, rollbacks, and all writes
    /// behind them, may have to wait for space.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use foreshore::{Database, Durability};
    /// let db = Database::builder().ring_bytes(1 << 20).durability(Durability::Relaxed).open(dir.path())?;
    /// db.byte_table("views")?.put(b"/index.html", b"1")?; // a power failure takes back 1 MiB of such records at most
    /// # Ok(()) }
    /// ```
    pub fn ring_bytes(mut self, bytes: usize) -> Self {
        self.ring_bytes = bytes;
        self
    }

    /// A checkpoint begins whenever about half of this many bytes of log would have to be read at a restart
    /// (default 512 MiB): the bound on recovery time.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use foreshore::Database;
    /// let db = Database::builder().log_bytes(64 << 20).open(dir.path())?; // restarts in well under a second
    /// db.byte_table("t")?.put(b"k", b"v")?;
    /// assert!(db.stats().log_to_redo_bytes < 64 << 20);
    /// # Ok(()) }
    /// ```
    pub fn log_bytes(mut self, bytes: u64) -> Self {
        self.log_bytes = bytes;
        self
    }

    /// Memory for old versions of rows that only snapshots need, in bytes (default 256 MiB). Beyond it the oldest snapshot
    /// is given up. A snapshot needs one version of each row that was changed since it was opened, however often. Notes of
    /// what is to be cleared after it count too; what running transactions have replaced does not: it stays anyway. What one transaction
    /// replaces beyond a quarter of this (beyond 1 MiB, if that is more) goes to disk, and does not count at all. Looked at about 20 times a second.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use foreshore::{Database, Error};
    /// let db = Database::builder().old_version_bytes(64 << 10).open(dir.path())?; // much less than most want
    /// let t = db.byte_table("t")?.with_durability(foreshore::Durability::Relaxed);
    /// let report = db.snapshot()?;
    /// let too_old = (0_u32..).find_map(|row| {
    ///     t.put(&row.to_be_bytes(), b"new").unwrap(); // the report must know that the row was not there before
    ///     report.bytes(&t).get(b"k").err()
    /// });
    /// assert!(matches!(too_old, Some(Error::SnapshotTooOld)), "{too_old:?}");
    /// # Ok(()) }
    /// ```
    pub fn old_version_bytes(mut self, bytes: u64) -> Self {
        self.old_version_bytes = bytes;
        self
    }

    /// What a write waits for, unless its table handle, or its transaction, says otherwise (default [`Durability::Sync`]).
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use foreshore::{Database, Durability};
    /// let db = Database::builder().durability(Durability::Buffered).open(dir.path())?;
    /// let (views, orders) = (db.byte_table("views")?, db.byte_table("orders")?);
    /// views.put(b"/index.html", b"1")?; // does not wait for the disk
    /// orders.with_durability(Durability::Sync).put(b"17", b"apples")?; // does
    /// # Ok(()) }
    /// ```
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// The index of tables that are created without naming one (default [`Index::BPlus`]). Tables that exist keep theirs.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use foreshore::{Database, Index};
    /// let db = Database::builder().index(Index::CsbPlus).open(dir.path())?;
    /// assert_eq!(db.byte_table("t")?.index(), Index::CsbPlus);
    /// # Ok(()) }
    /// ```
    pub fn index(mut self, index: Index) -> Self {
        self.index = index;
        self
    }

    /// Threads that redo the log at open (default: one per core, at most 8). At least one is used, and at most 64: more have nothing to do.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use foreshore::Database;
    /// let db = Database::builder().redo_threads(1).open(dir.path())?; // leaves the other cores to the rest of the program
    /// # Ok(()) }
    /// ```
    pub fn redo_threads(mut self, threads: usize) -> Self {
        self.redo_threads = threads.clamp(1, REDO_THREADS_MAX);
        self
    }

    /// Build the leaf directory again by reading every slot of the leaf files: the last resort for a database whose directory or
    /// leaves are damaged. If the directory can be read it still says which leaves there are, and the log is redone, which must be
    /// whole; otherwise what the leaves hold is all there is. See `foreshore check --rebuild`. Tables whose names are lost are called
    /// `recovered-16`, `recovered-17` and so on then, in the order in which they were made.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use foreshore::Database;
    /// let db = Database::open(dir.path())?;
    /// db.byte_table("t")?.put(b"k", b"v")?;
    /// db.close()?;
    /// for entry in std::fs::read_dir(dir.path()).unwrap() {
    ///     let file = entry.unwrap();
    ///     if file.file_name().to_string_lossy().starts_with("directory-") {
    ///         std::fs::write(file.path(), "scribbled over").unwrap();
    ///     }
    /// }
    /// let refused = Database::open(dir.path()).expect_err("it is damaged");
    /// println!("{refused}"); // names the file, and says what to do
    /// let salvaged = Database::builder().rebuild(true).open(dir.path())?;
    /// assert_eq!(salvaged.byte_table("t")?.get(b"k")?.as_deref(), Some(&b"v"[..]));
    /// # Ok(()) }
    /// ```
    pub fn rebuild(mut self, rebuild: bool) -> Self {
        self.rebuild = rebuild;
        self
    }

    /// Opens the database in `path`.
    ///
    /// Errors: [`Error::Argument`] if the path is empty, has a zero byte, or an option makes no sense; [`Error::Locked`] if it is open
    /// already, here or in another process; [`Error::Incompatible`] if the directory is something else, or absent and not to be created;
    /// [`Error::OtherFormat`]; [`Error::Corrupt`]; [`Error::Full`]; [`Error::TooManyFiles`]; [`Error::Io`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use foreshore::{Database, Error};
    /// let db = Database::builder().open(dir.path())?;
    /// let again = Database::builder().open(dir.path());
    /// assert!(matches!(again, Err(Error::Locked { .. })), "clone the handle instead");
    /// # Ok(()) }
    /// ```
    pub fn open(self, path: impl AsRef<Path>) -> Result<Database> {
        let dir = self.open_directory(path.as_ref())?;
        self.open_on(Arc::new(dir))
    }

    /// The directory of the database in `path`.
    pub(crate) fn open_directory(&self, path: &Path) -> Result<DirVfs> {
        ensure_named(path)?;
        DirVfs::open(path, self.create).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound if !self.create => Error::Incompatible {
                dir: path.display().to_string(),
                detail: "there is no such directory, and creating one was not asked for".into(),
            },
            io::ErrorKind::NotADirectory if path.exists() => Error::Incompatible {
                dir: path.display().to_string(),
                detail: "it is a file, and a database is a directory; name another path".into(),
            },
            _ => Error::io(format!("opening the directory {}", path.display()), &e),
        })
    }

    /// Opens the database on any [`Vfs`], for example a [simulated disk](crate::vfs::SimDisk). Errors: as [`Builder::open`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// use foreshore::Database;
    /// use foreshore::vfs::MemVfs;
    /// use std::sync::Arc;
    /// let disk = Arc::new(MemVfs::new()); // as a directory would, it outlives the database
    /// let db = Database::builder().open_on(disk.clone())?;
    /// db.byte_table("t")?.put(b"k", b"v")?;
    /// drop(db);
    /// let again = Database::builder().create(false).open_on(disk)?;
    /// assert!(again.byte_table("t")?.contains(b"k")?);
    /// # Ok(()) }
    /// ```
    pub fn open_on(self, vfs: Arc<dyn Vfs>) -> Result<Database> {
        self.validate()?;
        Database::open_with(vfs, self)
    }

    /// The leaf size of a database that is created with these options.
    pub(crate) fn own_leaf_bytes(&self) -> usize {
        self.table_leaf_bytes(self.ring_bytes).or(self.leaf_bytes).unwrap_or(LEAF_BYTES)
    }

    /// The leaf size of tables that name none, in a database whose log buffer has `ring_bytes`; `None`: the database's own.
    pub(crate) fn table_leaf_bytes(&self, ring_bytes: usize) -> Option<usize> {
        let advised = self.advised_leaf_bytes.filter(|_| self.leaf_bytes.is_none())?;
        Some(advised.min(largest_leaf(ring_bytes)))
    }

    fn validate(&self) -> Result<()> {
        self.advised_leaf_bytes.map_or(Ok(()), |bytes| {
            ensure_leaf_size(bytes).map_err(|error| Error::Argument(format!("the profile: {error}")))
        })?;
        self.leaf_bytes.map_or(Ok(()), ensure_leaf_size)?;
        Meta::wanted(self).check()
    }
}

/// Errors: [`Error::Argument`] for a path without a name, which the system would not find, or with a zero byte, where it would end.
pub(super) fn ensure_named(path: &Path) -> Result<()> {
    let told = match path.as_os_str().as_encoded_bytes() {
        [] => "the path is empty; name a directory",
        bytes if bytes.contains(&0) => "the path has a zero byte; name a directory without",
        _ => return Ok(()),
    };
    Err(Error::Argument(told.into()))
}

/// Errors: [`Error::Argument`] if no leaf can have this size.
pub(super) fn ensure_leaf_size(leaf_bytes: usize) -> Result<()> {
    match is_page_size(leaf_bytes) {
        true => Ok(()),
        false => Err(Error::Argument("leaf_bytes must be a power of two from 4096 to 32768".into())),
    }
}

/// The longest log record, a split's, must be well below the ring: see `LogOptions::body_bytes_max`.
pub(super) fn ring_suits(ring_bytes: usize, leaf_bytes: usize) -> bool {
    leaf_bytes <= largest_leaf(ring_bytes)
}

/// The largest leaf that suits the ring.
pub(super) fn largest_leaf(ring_bytes: usize) -> usize {
    ring_bytes / 16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who asks for as many as there can be gets some, and not all that the system has.
    #[test]
    fn threads_that_redo_are_bounded() {
        let threads = |asked| Database::builder().redo_threads(asked).redo_threads;
        assert_eq!([0, 1, 16, usize::MAX].map(threads), [1, 1, 16, REDO_THREADS_MAX]);
    }
}
