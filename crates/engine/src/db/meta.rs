//! The file `FORESHORE`: what a database is, written once.
//!
//! Invariants:
//! - M1: a directory with `FORESHORE` holds a complete database; one with `FORESHORE.creating` holds an interrupted
//!   creation, which may be thrown away, since nothing in it was ever acknowledged.
//! - M2: a directory with `FORESHORE.backup` and no `FORESHORE` holds a copy that is not complete. It is never opened;
//!   only another backup may throw it away.

use crate::blob;
use crate::db::options::{Builder, ensure_leaf_size, ring_suits};
use crate::error::{Error, Result};
use crate::file_names;
use crate::log::{self, LogOptions};
use crate::pool;
use foreshore_io::{Access, File, Vfs};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

pub(crate) const NAME: &str = "FORESHORE";
pub(crate) const LOCK: &str = "LOCK";
const CREATING: &str = "FORESHORE.creating";
pub(crate) const UNFINISHED_BACKUP: &str = "FORESHORE.backup";
const MAGIC: &[u8; 16] = b"Foreshore store\n";
const FORMAT: u32 = 6;
const BYTES: usize = 48;

/// What is fixed when a database is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub leaf_bytes: usize,
    pub segment_bytes: u64,
    pub ring_bytes: usize,
}

impl Meta {
    /// What these options ask for.
    pub fn wanted(options: &Builder) -> Self {
        let Builder { segment_bytes, ring_bytes, .. } = *options;
        Self { leaf_bytes: options.own_leaf_bytes(), segment_bytes, ring_bytes }
    }

    /// Errors: [`Error::Argument`] naming what no database can have.
    pub fn check(&self) -> Result<()> {
        self.log_options().check()?; // first: what a profile advises is lowered to what suits the ring, whatever that is
        ensure_leaf_size(self.leaf_bytes)?;
        match ring_suits(self.ring_bytes, self.leaf_bytes) {
            true => Ok(()),
            false => Err(Error::Argument("ring_bytes must be at least 16 times leaf_bytes".into())),
        }
    }

    /// The measures of its log.
    pub fn log_options(&self) -> LogOptions {
        let Self { segment_bytes, ring_bytes, .. } = *self;
        LogOptions { segment_bytes, ring_bytes }
    }
}

/// What a directory turned out to hold.
pub(crate) enum Found {
    /// A complete database.
    Database(Meta),
    /// What an interrupted backup left (M2).
    UnfinishedBackup,
    /// Nothing of ours: a database may be created.
    Nothing,
}

/// Does a directory hold nothing, or only what a backup may throw away once it has the lock? Who just wants to know has none: what
/// is there may be under way.
pub(crate) fn is_scrap(vfs: &dyn Vfs) -> Result<bool> {
    let names = file_names::list(vfs)?;
    let has = |name: &str| names.iter().any(|n| n == name);
    Ok(!has(NAME) && (has(UNFINISHED_BACKUP) || has(CREATING) || names.iter().all(|name| name == LOCK)))
}

/// Looks at a directory whose lock is held, and clears away an interrupted creation.
pub(crate) fn find(vfs: &dyn Vfs) -> Result<Found> {
    let names = file_names::list(vfs)?;
    let has = |name: &str| names.iter().any(|n| n == name);
    if has(NAME) {
        return read(vfs).map(Found::Database);
    }
    if has(UNFINISHED_BACKUP) {
        return Ok(Found::UnfinishedBackup);
    }
    if has(CREATING) {
        sync_mark(vfs, CREATING)?;
        clear(vfs, CREATING)?;
        return Ok(Found::Nothing);
    }
    match names.iter().find(|n| *n != LOCK) {
        None => Ok(Found::Nothing),
        Some(name) => Err(foreign(vfs, name)),
    }
}

/// Refuses a directory that holds something else, before a lock file is made in it. A database that is open or being made
/// has one: that is for [`find`], under the lock. For a backup no database will do, whoever has it open.
pub(crate) fn ensure_not_foreign(vfs: &dyn Vfs, for_backup: bool) -> Result<()> {
    let names = file_names::list(vfs)?;
    if for_backup && names.iter().any(|name| name == NAME) {
        return Err(holds_database(vfs));
    }
    match names.first() {
        Some(name) if !names.iter().any(|name| is_ours(name) || name == UNFINISHED_BACKUP) => {
            Err(foreign(vfs, name))
        }
        _ => Ok(()),
    }
}

/// A backup is not made over a database.
pub(crate) fn holds_database(vfs: &dyn Vfs) -> Error {
    let detail = "a backup wants an absent or empty directory, and this one holds a database".into();
    Error::Incompatible { dir: vfs.describe(), detail }
}

fn foreign(vfs: &dyn Vfs, name: &str) -> Error {
    Error::Incompatible {
        dir: vfs.describe(),
        detail: format!(
            "it holds {name:?} but no file FORESHORE; name an empty directory, or restore FORESHORE if it was lost"
        ),
    }
}

/// Begins a creation: from now until [`finish_creation`] the directory counts as scrap (M1).
pub(crate) fn begin_creation(vfs: &dyn Vfs, meta: &Meta) -> Result<()> {
    write(vfs, CREATING, meta)
}

/// The atomic point of a creation.
pub(crate) fn finish_creation(vfs: &dyn Vfs) -> Result<()> {
    finish(vfs, CREATING)
}

/// Begins a backup into an empty directory, or one with an unfinished backup: from now until [`finish_backup`] it is
/// refused (M2).
pub(crate) fn begin_backup(vfs: &dyn Vfs, meta: &Meta) -> Result<()> {
    write(vfs, UNFINISHED_BACKUP, meta)?;
    clear(vfs, UNFINISHED_BACKUP)
}

/// The atomic point of a backup. All of it must be durable.
pub(crate) fn finish_backup(vfs: &dyn Vfs) -> Result<()> {
    finish(vfs, UNFINISHED_BACKUP)
}

/// Clears away the creation or the backup that failed in a directory, whose lock is held, unless it had its name already: then it
/// is complete.
pub(crate) fn discard_unfinished(vfs: &dyn Vfs) -> Result<()> {
    if !matches!(find(vfs), Ok(Found::UnfinishedBackup)) {
        return Ok(());
    }
    sync_mark(vfs, UNFINISHED_BACKUP)?;
    clear(vfs, UNFINISHED_BACKUP)?;
    // The mark goes last, durably: what a crash leaves of the rest is still scrap by name.
    vfs.sync_dir()
        .and_then(|()| vfs.remove(UNFINISHED_BACKUP))
        .and_then(|()| vfs.sync_dir())
        .map_err(|e| Error::io(format!("removing {UNFINISHED_BACKUP}"), &e))
}

/// Makes the name durable that says that the other files may go: it may just have been taken back from a complete database.
fn sync_mark(vfs: &dyn Vfs, mark: &str) -> Result<()> {
    vfs.sync_dir().map_err(|e| Error::io(format!("syncing the name {mark}"), &e))
}

/// Removes the files of a database, all but the one that says that it may be done.
fn clear(vfs: &dyn Vfs, but: &str) -> Result<()> {
    let names = file_names::list(vfs)?;
    for name in names.iter().filter(|name| is_data(name) && *name != but) {
        vfs.remove(name).map_err(|e| Error::io(format!("removing {name}"), &e))?;
    }
    Ok(())
}

fn finish(vfs: &dyn Vfs, unfinished: &str) -> Result<()> {
    vfs.rename(unfinished, NAME)
        .and_then(|()| vfs.sync_dir().inspect_err(|_| _ = vfs.rename(NAME, unfinished))) // N1 in `dir_syncs.rs`
        .map_err(|e| Error::io("naming the new database", &e))
}

/// Does this file belong to a database?
pub(crate) fn is_ours(name: &str) -> bool {
    name == NAME || name == LOCK || is_data(name)
}

fn is_data(name: &str) -> bool {
    name == CREATING || name == blob::FILE || pool::is_file(name) || log::is_file(name)
}

fn write(vfs: &dyn Vfs, name: &str, meta: &Meta) -> Result<()> {
    write_durably(vfs, name, &encode(meta)).map_err(|e| Error::io(format!("writing {name}"), &e))
}

fn write_durably(vfs: &dyn Vfs, name: &str, bytes: &[u8]) -> io::Result<()> {
    let is_new = !vfs.list()?.iter().any(|there| there == name);
    let file = vfs.open(name, Access::Buffered, true)?;
    file.set_len(bytes.len() as u64)?; // what was there before may be longer
    file.write_at(bytes, 0)?;
    file.sync()?;
    vfs.sync_dir().inspect_err(|_| {
        // One that was there tells what the other files are (M1, M2).
        if is_new {
            let _ = vfs.remove(name); // N1 in `dir_syncs.rs`
        }
    })
}

fn encode(meta: &Meta) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(BYTES);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&FORMAT.to_le_bytes());
    bytes.extend_from_slice(&(meta.leaf_bytes as u32).to_le_bytes());
    bytes.extend_from_slice(&meta.segment_bytes.to_le_bytes());
    bytes.extend_from_slice(&(meta.ring_bytes as u64).to_le_bytes());
    bytes.resize(BYTES - 4, 0);
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

/// Does this directory, as far as one can see, hold a database? A file of that name may be another program's.
pub(crate) fn is_in(dir: &Path) -> bool {
    let mut first = [0; MAGIC.len()];
    std::fs::File::open(dir.join(NAME))
        .is_ok_and(|mut file| file.read_exact(&mut first).is_ok() && first == *MAGIC)
}

/// What the database in this directory was created with.
///
/// Errors: [`Error::OtherFormat`] before anything else is believed: only the first 20 bytes are the same in every format.
pub(crate) fn read(vfs: &dyn Vfs) -> Result<Meta> {
    let file = vfs.open(NAME, Access::Buffered, false).map_err(|e| Error::io("opening FORESHORE", &e))?;
    let refuse = |detail: &str| Error::Incompatible { dir: vfs.describe(), detail: detail.to_string() };
    let wrong_length = || refuse("its file FORESHORE has the wrong length; restore it from a backup");
    let [magic @ .., f0, f1, f2, f3] = read_first::<20>(&file)?.ok_or_else(wrong_length)?;
    if magic != *MAGIC {
        return Err(refuse("its file FORESHORE was written by another program"));
    }
    let format = u32::from_le_bytes([f0, f1, f2, f3]);
    if format != FORMAT {
        return Err(Error::OtherFormat { dir: vfs.describe(), found: format, supported: FORMAT });
    }
    let len = file.len().map_err(|e| Error::io("reading FORESHORE", &e))?;
    let bytes = read_first::<BYTES>(&file)?.filter(|_| len == BYTES as u64).ok_or_else(wrong_length)?;
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    if u32_at(BYTES - 4) != crc32c::crc32c(&bytes[..BYTES - 4]) {
        return Err(refuse("its file FORESHORE is damaged; restore it from a backup"));
    }
    let meta =
        Meta { leaf_bytes: u32_at(20) as usize, segment_bytes: u64_at(24), ring_bytes: u64_at(32) as usize };
    let senseless = |e| refuse(&format!("its file FORESHORE makes no sense ({e}); restore it from a backup"));
    meta.check().map_err(senseless)?;
    Ok(meta)
}

/// The first `N` bytes; `None` if there are fewer.
fn read_first<const N: usize>(file: &Arc<dyn File>) -> Result<Option<[u8; N]>> {
    let mut bytes = [0; N];
    match file.read_at(&mut bytes, 0) {
        Ok(()) => Ok(Some(bytes)),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(e) => Err(Error::io("reading FORESHORE", &e)),
    }
}
