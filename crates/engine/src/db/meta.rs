//! The file `FORESHORE`: what a database is, written once.
//!
//! Invariant M1: a directory with `FORESHORE` holds a complete database; one with `FORESHORE.creating` holds an
//! interrupted creation, which may be thrown away, since nothing in it was ever acknowledged.

use crate::db::options::Builder;
use crate::error::{Error, Result};
use foreshore_io::{Access, Vfs};
use std::io;

const NAME: &str = "FORESHORE";
const CREATING: &str = "FORESHORE.creating";
const MAGIC: &[u8; 16] = b"Foreshore store\n";
const FORMAT: u32 = 2;
const BYTES: usize = 48;

/// What is fixed when a database is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub leaf_bytes: usize,
    pub segment_bytes: u64,
    pub ring_bytes: usize,
}

/// What a directory turned out to hold.
pub(crate) enum Found {
    /// A complete database.
    Database(Meta),
    /// Nothing of ours: a database may be created.
    Nothing,
}

/// Looks at a directory and clears away an interrupted creation.
pub(crate) fn find(vfs: &dyn Vfs) -> Result<Found> {
    let names = vfs.list().map_err(|e| Error::io("listing the directory", &e))?;
    let has = |name: &str| names.iter().any(|n| n == name);
    if has(NAME) {
        return read(vfs).map(Found::Database);
    }
    if has(CREATING) {
        for name in names.iter().filter(|n| is_ours(n) && *n != CREATING) {
            vfs.remove(name).map_err(|e| Error::io(format!("removing {name}"), &e))?;
        }
        return Ok(Found::Nothing);
    }
    match names.iter().find(|n| *n != "LOCK") {
        None => Ok(Found::Nothing),
        Some(name) => Err(Error::Incompatible {
            dir: vfs.describe(),
            detail: format!(
                "it holds {name:?} but no file FORESHORE; name an empty directory, or restore FORESHORE if it was lost"
            ),
        }),
    }
}

/// Begins a creation: from now until [`finish_creation`] the directory counts as scrap (M1).
pub(crate) fn begin_creation(vfs: &dyn Vfs, options: &Builder) -> Result<Meta> {
    let meta = Meta {
        leaf_bytes: options.leaf_bytes,
        segment_bytes: options.segment_bytes,
        ring_bytes: options.ring_bytes,
    };
    write(vfs, &meta).map_err(|e| Error::io(format!("writing {CREATING}"), &e))?;
    Ok(meta)
}

/// The atomic point of a creation.
pub(crate) fn finish_creation(vfs: &dyn Vfs) -> Result<()> {
    vfs.rename(CREATING, NAME)
        .and_then(|()| vfs.sync_dir())
        .map_err(|e| Error::io("naming the new database", &e))
}

fn is_ours(name: &str) -> bool {
    name == "ring"
        || name == "leaves.db"
        || ["directory-", "wal-", CREATING].iter().any(|prefix| name.starts_with(prefix))
}

fn write(vfs: &dyn Vfs, meta: &Meta) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(BYTES);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&FORMAT.to_le_bytes());
    bytes.extend_from_slice(&(meta.leaf_bytes as u32).to_le_bytes());
    bytes.extend_from_slice(&meta.segment_bytes.to_le_bytes());
    bytes.extend_from_slice(&(meta.ring_bytes as u64).to_le_bytes());
    bytes.resize(BYTES - 4, 0);
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    let file = vfs.open(CREATING, Access::Buffered, true)?;
    file.write_at(&bytes, 0)?;
    file.sync()?;
    vfs.sync_dir()
}

fn read(vfs: &dyn Vfs) -> Result<Meta> {
    let file = vfs.open(NAME, Access::Buffered, false).map_err(|e| Error::io("opening FORESHORE", &e))?;
    let refuse = |detail: String| Err(Error::Incompatible { dir: vfs.describe(), detail });
    if file.len().map_err(|e| Error::io("reading FORESHORE", &e))? != BYTES as u64 {
        return refuse("its file FORESHORE has the wrong length; restore it from a backup".into());
    }
    let mut bytes = [0; BYTES];
    file.read_at(&mut bytes, 0).map_err(|e| Error::io("reading FORESHORE", &e))?;
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    if &bytes[..16] != MAGIC {
        return refuse("its file FORESHORE was written by another program".into());
    }
    if u32_at(16) != FORMAT {
        return refuse(format!(
            "it has format {}, this version reads format {FORMAT}; use a newer version",
            u32_at(16)
        ));
    }
    if u32_at(BYTES - 4) != crc32c::crc32c(&bytes[..BYTES - 4]) {
        return refuse("its file FORESHORE is damaged; restore it from a backup".into());
    }
    Ok(Meta { leaf_bytes: u32_at(20) as usize, segment_bytes: u64_at(24), ring_bytes: u64_at(32) as usize })
}
