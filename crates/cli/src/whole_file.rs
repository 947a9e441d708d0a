//! A file that is there whole or not at all: it is written beside its place, and takes it at the end.
//!
//! Why: what fails on its way would leave a part that looks like the whole, in place of the last one that was.

use crate::args::ensure_directory_of;
use crate::failure::{Failure, Outcome};
use crate::scratch::{Scratch, remove_on_interrupt};
use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempPath;

/// A file being written.
pub struct WholeFile {
    out: BufWriter<File>,
    path: PathBuf,
    /// What it is called meanwhile; none: a pipe or a device, which has no other place. If it cannot be removed when the command
    /// fails, its name says what it is.
    part: Option<TempPath>,
}

impl WholeFile {
    /// Begins the file at `path`. One that is there stays as it is until [`keep`](Self::keep), and hands its permissions on; of a
    /// link, the file it leads to. At most one a process, since what an interrupt removes is one thing.
    pub fn create(path: &Path) -> Outcome<Self> {
        ensure_directory_of(path)?;
        // A pipe may have a name that leads to none: one of `/dev/fd`.
        let path = if is_file_or_absent(path) { place_of(path) } else { path.to_owned() };
        let (file, part) = begin(&path).map_err(|e| Failure::io(path.display(), &e))?;
        if let Some(part) = &part {
            remove_on_interrupt(Scratch::made(&**part))?;
        }
        Ok(Self { out: BufWriter::new(file), path, part })
    }

    /// Puts it in its place, when the device has it.
    pub fn keep(mut self) -> Outcome {
        self.put_in_place().map_err(|e| Failure::io(self.path.display(), &e))
    }

    fn put_in_place(&mut self) -> io::Result<()> {
        self.out.flush()?;
        let synced = self.out.get_ref().sync_all();
        let Some(part) = self.part.take() else {
            // A pipe or a device has taken all of it, and most cannot sync.
            return synced.or_else(|e| if e.kind() == ErrorKind::InvalidInput { Ok(()) } else { Err(e) });
        };
        synced?;
        part.persist(&self.path)?;
        File::open(dir_of(&self.path))?.sync_all()
    }
}

/// The file that is written, and what it is called until it takes the place at `path`: a name that nobody else has, so that nothing
/// of another's is written over.
fn begin(path: &Path) -> io::Result<(File, Option<TempPath>)> {
    let before = fs::metadata(path).ok();
    if before.as_ref().is_some_and(|before| !before.is_file()) {
        return Ok((File::create(path)?, None));
    }
    let permissions = before.as_ref().map(fs::Metadata::permissions);
    let made = tempfile::Builder::new()
        .prefix("foreshore-")
        .suffix(".part")
        .permissions(permissions.clone().unwrap_or(Permissions::from_mode(0o666)))
        .tempfile_in(dir_of(path))?;
    if let Some(permissions) = permissions {
        // Those of a file that was made have passed the process's mask.
        made.as_file().set_permissions(permissions)?;
    }
    let (file, part) = made.into_parts();
    Ok((file, Some(part)))
}

fn is_file_or_absent(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |found| found.is_file())
}

fn dir_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Where the file at `path` is, or is to be: of a link, what it leads to, by way of other links too.
pub fn place_of(path: &Path) -> PathBuf {
    const LINKS_MAX: usize = 40; // as many as Linux follows
    let mut place = path.to_owned();
    // One by one: they may lead to a file that is yet to be made.
    for _ in 0..LINKS_MAX {
        let Ok(target) = fs::read_link(&place) else { break };
        place.set_file_name(target);
    }
    fs::canonicalize(&place).unwrap_or(place)
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
