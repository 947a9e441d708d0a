//! A file that is there whole or not at all: it is written beside its place, and takes it at the end.
//!
//! Why: what fails on its way would leave a part that looks like the whole, in place of the last one that was.

use crate::failure::{Failure, Outcome};
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// A file being written.
pub struct WholeFile {
    out: BufWriter<File>,
    path: PathBuf,
    /// What it is called meanwhile; none: a pipe or a device, which has no other place.
    part: Option<PathBuf>,
}

impl WholeFile {
    /// Begins the file at `path`. One that is there stays as it is until [`keep`](Self::keep), and hands its permissions on; of a
    /// link, the file it leads to.
    pub fn create(path: &Path) -> Outcome<Self> {
        let path = place_of(path);
        let before = fs::metadata(&path).ok();
        let is_file = before.as_ref().is_none_or(fs::Metadata::is_file);
        let part = is_file.then(|| part_of(&path));
        let name = part.as_ref().unwrap_or(&path);
        let file = File::create(name).map_err(|e| Failure::io(name.display(), &e))?;
        let out = BufWriter::new(file);
        let whole = Self { out, path, part };
        if let (Some(before), Some(_)) = (before, &whole.part) {
            whole.out.get_ref().set_permissions(before.permissions()).map_err(|e| whole.failure(&e))?;
        }
        Ok(whole)
    }

    /// Puts it in its place, when the device has it.
    pub fn keep(mut self) -> Outcome {
        self.put_in_place().map_err(|e| self.failure(&e))
    }

    fn put_in_place(&mut self) -> io::Result<()> {
        self.out.flush()?;
        let synced = self.out.get_ref().sync_all();
        let Some(part) = &self.part else {
            // A pipe or a device has taken all of it, and most cannot sync.
            return synced.or_else(|e| if e.kind() == ErrorKind::InvalidInput { Ok(()) } else { Err(e) });
        };
        synced?;
        fs::rename(part, &self.path)?;
        self.part = None;
        let dir = self.path.parent().filter(|dir| !dir.as_os_str().is_empty());
        File::open(dir.unwrap_or(Path::new(".")))?.sync_all()
    }

    fn failure(&self, error: &io::Error) -> Failure {
        Failure::io(self.path.display(), error)
    }
}

/// Where the file at `path` is, or is to be: of a link, what it leads to.
pub fn place_of(path: &Path) -> PathBuf {
    // It may lead to a file that is yet to be made.
    let led_to = || fs::read_link(path).map(|target| path.with_file_name(target));
    fs::canonicalize(path).or_else(|_| led_to()).unwrap_or_else(|_| path.to_owned())
}

fn part_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            // If it cannot be removed either, its name says what it is.
            let _ = fs::remove_file(part);
        }
    }
}
