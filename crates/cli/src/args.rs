//! Arguments that commands share, and what they open.

use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::schema::{SCHEMAS, Schema};
use crate::whole_file::place_of;
use clap::{Args, ValueEnum};
use foreshore::{Builder, ByteTable, Database};
use foreshore_workloads::{Durability, parse_bytes};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Which database, and how to answer.
#[derive(Args, Clone, Debug)]
pub struct DbArgs {
    /// Directory of the database
    #[arg(long, value_name = "DIR", env = "FORESHORE_DIR", default_value = "foreshore.db")]
    pub dir: PathBuf,
    /// The most memory for leaf pages: bytes, or 64MiB, 2GiB … [default: a quarter of the memory]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub cache: Option<u64>,
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
}

impl DbArgs {
    /// Where results go.
    pub fn output(&self) -> Output {
        Output::new(self.json)
    }

    /// Options before opening.
    pub fn builder(&self) -> Builder {
        let builder = Database::builder();
        match self.cache {
            Some(bytes) => builder.cache_bytes(usize::try_from(bytes).unwrap_or(usize::MAX)),
            None => builder,
        }
    }

    /// Opens a database that must exist already.
    pub fn open(&self) -> Outcome<Database> {
        self.ensure_exists()?;
        self.open_with(self.builder().create(false))
    }

    /// There must be something to open.
    pub fn ensure_exists(&self) -> Outcome {
        let is_empty = match std::fs::read_dir(&self.dir) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) if error.kind() == ErrorKind::NotFound => true,
            Err(error) => return Err(self.unreadable(&error)),
        };
        if is_empty { Err(self.none_there()) } else { Ok(()) }
    }

    fn none_there(&self) -> Failure {
        Failure::usage(format!(
            "there is no database in {}; `foreshore load`, `put` and `restore` create one, --dir names another",
            self.dir.display()
        ))
    }

    /// Opens the database with these options, creating it if there is none: for who makes tables.
    pub fn open_or_create(&self, builder: Builder) -> Outcome<Database> {
        match std::fs::metadata(&self.dir) {
            Ok(found) if !found.is_dir() => Err(self.unreadable(&ErrorKind::NotADirectory.into())),
            _ => {
                ensure_beside_databases(&self.dir)?;
                let db = self.open_with(builder)?;
                Schema::forget_strays(&db)?;
                Ok(db)
            }
        }
    }

    fn unreadable(&self, error: &std::io::Error) -> Failure {
        let failure = Failure::io(self.dir.display(), error);
        match error.kind() {
            ErrorKind::NotADirectory => {
                failure.note("a database is a directory; name one by --dir or FORESHORE_DIR")
            }
            _ => failure,
        }
    }

    fn open_with(&self, builder: Builder) -> Outcome<Database> {
        builder.open(&self.dir).map_err(|error| self.not_opened(error))
    }

    /// A directory without `FORESHORE` is a wrong `--dir`; one with a `FORESHORE` that nobody understands is damaged. A creation that
    /// a full disk has cut short leaves none, nor anything of use.
    pub fn not_opened(&self, error: foreshore::Error) -> Failure {
        match error {
            foreshore::Error::Incompatible { .. } if holds_nothing(&self.dir) => self.none_there(),
            foreshore::Error::Incompatible { .. } if !is_database(&self.dir) => {
                Failure::usage(error.to_string())
            }
            other => other.into(),
        }
    }
}

/// The table `name`, which must exist.
pub fn existing_table(db: &Database, name: &str) -> Outcome<ByteTable> {
    if let Some(table) = db.existing_byte_table(name) {
        return Ok(table);
    }
    let names = db.tables()?;
    let others: Vec<_> = names.iter().filter(|n| *n != SCHEMAS).map(|name| format!("{name:?}")).collect();
    Err(Failure::absent(match others.as_slice() {
        [] => format!("there is no table {name:?}, nor any other yet"),
        _ => format!("there is no table {name:?}; there are {}", others.join(", ")),
    }))
}

/// Does this directory, as far as one can see, hold a database?
pub fn is_database(dir: &Path) -> bool {
    dir.join("FORESHORE").is_file()
}

/// Does this directory hold nothing but, perhaps, the lock of who looked for a database there, and the mark of a creation that was
/// cut short?
pub fn holds_nothing(dir: &Path) -> bool {
    let is_nothing = |name: OsString| name == "LOCK" || name == "FORESHORE.creating";
    std::fs::read_dir(dir).is_ok_and(|entries| entries.flatten().all(|entry| is_nothing(entry.file_name())))
}

/// A database within another one's directory would go with it, and keeps `compact` from its work.
///
/// Errors: usage, if `dir`, where none is yet, lies there.
pub fn ensure_beside_databases(dir: &Path) -> Outcome {
    if is_database(dir) {
        return Ok(());
    }
    foreshore::ensure_beside_databases(&place_of(dir)).map_err(|error| Failure::usage(error.to_string()))
}

/// The file that a long command writes in the end must be writable: better known before than after. A pipe is not tried: whoever
/// reads it would take this for the end.
pub fn ensure_place(file: &Path) -> Outcome {
    ensure_directory_of(file)?;
    if std::fs::metadata(file).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return Ok(());
    }
    let is_new = !file.exists();
    let opened = OpenOptions::new().append(true).create(true).open(file);
    opened.map_err(|error| Failure::io(file.display(), &error).note("name a file that can be written"))?;
    if is_new {
        // Who breaks off finds no empty file. Of a link, the file that it leads to.
        let made = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        std::fs::remove_file(made).map_err(|error| Failure::io(file.display(), &error))?;
    }
    Ok(())
}

/// There must be a directory for `file` to be written to.
pub fn ensure_directory_of(file: &Path) -> Outcome {
    if file.as_os_str().as_encoded_bytes().ends_with(b"/") && !file.exists() {
        return Err(Failure::usage(format!("{} is the name of a directory; name a file", file.display())));
    }
    match file.parent().filter(|place| !place.as_os_str().is_empty() && !place.is_dir()) {
        Some(place) => {
            let (place, file) = (place.display(), file.display());
            Err(Failure::usage(format!("there is no directory {place} to write {file} to")))
        }
        None => Ok(()),
    }
}

/// Within the directory of a database a file could take the place of one of the database's own, keeps `compact` from its work,
/// and goes where the directory goes.
///
/// Errors: usage, if `file`, which `option` names, would lie in `dir`, the command's own, or among the files of any other.
pub fn ensure_outside(option: &str, file: &Path, dir: Option<&Path>) -> Outcome {
    let place = std::path::absolute(place_of(file)).ok().and_then(|file| file.parent()?.canonicalize().ok());
    let Some(place) = place else { return Ok(()) };
    // A directory that is yet to be made holds no place for it.
    let dir = dir.and_then(|dir| dir.canonicalize().ok());
    if dir.is_some_and(|dir| place.starts_with(dir)) || is_database(&place) {
        return Err(Failure::usage(format!(
            "{option}: {} would lie within a database; name a file outside",
            file.display()
        )));
    }
    Ok(())
}

/// A choice as the command line spells it.
pub fn spelled(choice: impl ValueEnum) -> String {
    choice.to_possible_value().expect("no variant is hidden").get_name().to_owned()
}

/// Processors that this program may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

/// The engine's word for a durability.
pub fn engine_durability(durability: Durability) -> foreshore::Durability {
    match durability {
        Durability::Sync => foreshore::Durability::Sync,
        Durability::Buffered => foreshore::Durability::Buffered,
        Durability::Relaxed => foreshore::Durability::Relaxed,
    }
}

/// The index over a table's leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum IndexKind {
    /// OLFIT B+-tree
    #[default]
    #[value(name = "bplus")]
    BPlus,
    /// OLFIT CSB+-tree
    #[value(name = "csb")]
    CsbPlus,
    /// O2-Tree, with lookups that lock nothing
    #[value(name = "o2")]
    O2,
}

impl IndexKind {
    /// The engine's word for it.
    pub fn engine(self) -> foreshore::Index {
        match self {
            Self::BPlus => foreshore::Index::BPlus,
            Self::CsbPlus => foreshore::Index::CsbPlus,
            Self::O2 => foreshore::Index::O2,
        }
    }
}

/// Reads the size of a leaf.
pub fn parse_leaf_bytes(text: &str) -> Result<usize, String> {
    match parse_bytes(text)? {
        bytes @ (4096 | 8192 | 16384 | 32768) => Ok(bytes as usize),
        _ => Err("a leaf has 4KiB, 8KiB, 16KiB or 32KiB".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::sync::mpsc;
    use std::time::Duration;

    /// Whoever reads a pipe would take the file that is opened and closed for the end.
    #[test]
    fn a_pipe_is_not_opened_before_its_time() {
        let dir = tempfile::tempdir().expect("a directory");
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
        let (sender, opened) = mpsc::channel();
        let of_reader = pipe.clone();
        let reader = std::thread::spawn(move || sender.send(File::open(of_reader).is_ok()));
        ensure_place(&pipe).expect("a place");
        assert!(opened.recv_timeout(Duration::from_millis(50)).is_err(), "the reader has met a writer");
        let _writer = OpenOptions::new().read(true).write(true).open(&pipe).expect("a pipe");
        assert_eq!(opened.recv(), Ok(true));
        reader.join().expect("no panic").expect("the test waits for it");
    }
}
