//! Compaction: a database written anew, without the holes that years of splits and removals leave.
//!
//! Why a rewrite, and not a cut of the leaf file's free end: that would give back free slots only, while leaves filled in
//! random order stay about 30 % empty, and log segments and directory keep their size. The copy is a backup (`backup.rs`),
//! so there is nothing new that a crash could spoil; it needs room for the compact database beside the old one.
//!
//! ```text
//! open (nobody else can) → back up beside it → close → exchange the two directories' names, durably → remove the old one
//! ```
//!
//! Invariant K1: at every moment the database's path names a complete database with all its rows. A crash leaves beside it
//! either what has the name of a backup that is not complete, which the next compaction throws away, or one of the two complete
//! databases, which may be removed. An error that does not tell of the latter leaves the former.
//!
//! Invariant K2: files are removed only from the directory that was opened, whose lock is held, wherever it is by now. Whatever else
//! has taken its path meanwhile loses nothing, nor its name, but for a moment that is left: names cannot be exchanged on condition. So
//! what takes the path between the last look and the exchange has the name of the copy then; that is told, and nothing is removed.
//! Whether somebody has replaced the copy itself is not looked at.

use crate::db::engine;
use crate::db::meta;
use crate::db::options::Builder;
use crate::db::{Copied, Database};
use crate::error::{Error, Result};
use foreshore_io::{DirVfs, Vfs};
use serde::Serialize;
use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a compaction did.
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("db");
/// use foreshore::Database;
/// let db = Database::open(&path)?;
/// let t = db.table::<u32, [u8; 32]>("t")?;
/// t.bulk_load((0..50_000).map(|n| (n, [7; 32])))?;
/// db.transact(|tx| (100..50_000).try_for_each(|n| tx.table(&t).remove(&n).map(|_| ())))?;
/// drop((db, t)); // nobody may have it open
/// let compacted = Database::builder().compact(&path, |_| {})?;
/// assert_eq!(compacted.copied.rows, 100);
/// println!("{} bytes instead of {}", compacted.bytes_now, compacted.bytes_before);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Compacted {
    /// What was copied.
    pub copied: Copied,
    /// Bytes of the database's files before.
    pub bytes_before: u64,
    /// Bytes of the database's files now.
    pub bytes_now: u64,
}

impl Builder {
    /// Rewrites the database in `path`, which nobody may have open, into as few bytes as it takes. `progress` is called
    /// as by [`Database::backup_with`].
    ///
    /// Needs room for the result beside the old files, in the directory `path` with `.compacting` behind its name. Whatever
    /// happens, `path` names a complete database.
    ///
    /// The directory keeps its owner, its group and its permissions. The files get that owner and that group, and the permissions of the
    /// file `FORESHORE`; if that had another group, the directory's may do with them what others may. While the copy is made only its
    /// owner can look into it.
    ///
    /// Errors: as [`Builder::open`]; [`Error::Argument`] if transactions are prepared (commit or roll them back first), if
    /// the directory holds other files too, if it cannot be renamed, as one where a file system is mounted or one of a lower layer of an
    /// overlay, if an interrupted compaction left a complete database beside it, or if the directory was moved away meanwhile (what has
    /// its name then stays, as does the copy beside it); [`Error::Full`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("db");
    /// # foreshore::Database::open(&path)?.byte_table("t")?.put(b"k", b"v")?;
    /// use foreshore::Database;
    /// let compacted = Database::builder().compact(&path, |_| {})?;
    /// assert_eq!(compacted.copied.rows, 1);
    /// # Ok(()) }
    /// ```
    pub fn compact(self, path: impl AsRef<Path>, progress: impl FnMut(&Copied)) -> Result<Compacted> {
        let path = path.as_ref();
        // The names exchanged are those of the real directory, not of a link to it. If there is none, who opens it tells.
        let real = fs::canonicalize(path).map_err(|e| Error::io(path.display().to_string(), &e));
        ensure_exchangeable(real.as_deref().unwrap_or(path))?;
        let options = self.create(false);
        let dir = Arc::new(options.open_directory(real.as_deref().unwrap_or(path))?);
        let db = options.open_on(dir.clone())?;
        let path = real?;
        ensure_nothing_prepared(&db)?;
        let bytes_before = bytes_of_database(&path)?;
        let beside = beside(&path);
        ensure_replaceable(&beside)?;

        let is_new = make_private(&beside, &dir)?;
        ensure_renamable(&path, &beside).inspect_err(|_| {
            if is_new {
                let _ = fs::remove_dir_all(&beside); // empty, but for a mark
            }
        })?;
        let copied = db.backup_in(&beside, progress)?;
        let ready = bytes_of_database(&beside).and_then(|bytes_now| {
            make_like(&beside, &dir).map_err(|e| not_alike(&beside, &dir, &e))?;
            db.engine.close().map(|()| bytes_now)
        });
        let bytes_now = ready.inspect_err(|_| {
            // Nobody is told of the copy: the next compaction is to throw it away (K1).
            let _ = fs::rename(beside.join(meta::NAME), beside.join(meta::UNFINISHED_BACKUP));
        })?;
        ensure_not_moved(&dir, &path, &beside)?;
        exchange(&path, &beside, &|parent| parent.sync_all())?;
        ensure_exchanged(&dir, &path, &beside)?;
        remove_old(&dir, &beside, &|name| dir.remove(name))
            .map_err(|e| Error::io(format!("removing the old files, now in {}", beside.display()), &e))?;
        Ok(Compacted { copied, bytes_before, bytes_now })
    }
}

/// Where the compact copy is made: on the same filesystem, or the names could not be exchanged.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".compacting");
    name.into()
}

/// Makes the directory `new`, into which nobody but the owner of `old` can look, before anything is in it that others may not read;
/// `false` for one that is there already. One that cannot be given away goes: the next attempt is to be told as soon.
fn make_private(new: &Path, old: &DirVfs) -> Result<bool> {
    let made = match DirBuilder::new().mode(0o700).create(new) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return take_scrap(new, old).map(|()| false);
        }
        Err(error) => Err(error),
        Ok(()) => keep_others_out(new, old).inspect_err(|_| drop(fs::remove_dir(new))),
    };
    made.map(|()| true).map_err(|e| not_alike(new, old, &e))
}

/// The scrap that is there may be somebody else's, who makes a backup or a database of it: while he has the lock, and when it is complete,
/// it stays as it is. Who takes the lock after us, before the copy does, finds himself in the owner's directory.
fn take_scrap(scrap: &Path, old: &DirVfs) -> Result<()> {
    let failed = |e| not_alike(scrap, old, &e);
    let _lock = engine::lock(&DirVfs::open(scrap, false).map_err(failed)?)?;
    ensure_replaceable(scrap)?;
    keep_others_out(scrap, old).map_err(failed)
}

/// Gives the directory `new` to the owner of `old`, with his permissions there, and nobody else's.
fn keep_others_out(new: &Path, old: &DirVfs) -> io::Result<()> {
    let old = old.metadata()?;
    give_away(new, &old)?;
    fs::set_permissions(new, Permissions::from_mode(old.mode() & 0o700))
}

fn not_alike(new: &Path, old: &DirVfs, error: &io::Error) -> Error {
    let what = "with the owner and the permissions of";
    Error::io(format!("making {} {what} {}", new.display(), old.describe()), error)
}

/// A directory that a container's image brings keeps its name, too, where the file system cannot rename what is of a lower layer.
/// `beside` must not be empty for that: if it is, it gets the mark of scrap (K1).
fn ensure_renamable(path: &Path, beside: &Path) -> Result<()> {
    let mark = beside.join(meta::UNFINISHED_BACKUP);
    let is_empty = fs::read_dir(beside).map(|mut files| files.next().is_none());
    let marked = is_empty.and_then(|is_empty| match is_empty {
        true => fs::File::create_new(&mark).map(drop),
        false => Ok(()),
    });
    match marked {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
            return Err(Error::io(format!("creating {}", mark.display()), &e));
        }
        _ => {}
    }
    foreshore_io::ensure_renamable(path, beside).map_err(|e| {
        Error::Argument(format!(
            "no other directory can take the name of {} ({e}); make a backup in an empty directory elsewhere: it is compact",
            path.display()
        ))
    })
}

/// Gives the directory `new`, and the files in it, owner and permissions of `old`, and of the files there. The directory's permissions come
/// last: they let others in.
fn make_like(new: &Path, old: &DirVfs) -> io::Result<()> {
    let directory = old.metadata()?;
    let of_files = permissions_of_files(&directory, &old.metadata_of(meta::NAME)?);
    for file in fs::read_dir(new)? {
        let file = file?.path();
        fs::set_permissions(&file, of_files.clone())?;
        give_away(&file, &directory)?;
    }
    give_away(new, &directory)?;
    fs::set_permissions(new, directory.permissions())
}

/// What others may do with the files that are given to the directory's owner and group: as with `file`, one of the old ones. A group that
/// this did not have was among those others.
fn permissions_of_files(directory: &Metadata, file: &Metadata) -> Permissions {
    let (mode, of_others) = (file.mode(), file.mode() & 0o007);
    match file.gid() == directory.gid() {
        true => file.permissions(),
        false => Permissions::from_mode((mode & !0o070) | (of_others << 3)),
    }
}

fn give_away(path: &Path, owner: &Metadata) -> io::Result<()> {
    let now = fs::metadata(path)?;
    if (now.uid(), now.gid()) == (owner.uid(), owner.gid()) {
        return Ok(());
    }
    chown(path, Some(owner.uid()), Some(owner.gid()))
}

/// Is `dir` itself what `path` names? A link to it is not.
fn is_at(dir: &DirVfs, path: &Path) -> bool {
    let identity = |of: Metadata| (of.dev(), of.ino());
    let [opened, named] = [dir.metadata(), fs::symlink_metadata(path)].map(|of| of.map(identity));
    matches!((opened, named), (Ok(opened), Ok(named)) if opened == named)
}

/// K2: the copy takes hours, in which somebody may have moved the directory away, lock and all, and begun another database in its place.
fn ensure_not_moved(dir: &DirVfs, path: &Path, beside: &Path) -> Result<()> {
    match is_at(dir, path) {
        true => Ok(()),
        false => Err(Error::Argument(format!(
            "{} is no longer the directory that was opened, which has been moved; its compact copy is complete, in {}: give it the \
             name that you want",
            path.display(),
            beside.display()
        ))),
    }
}

/// K2: it may also have been moved between that look and the exchange.
fn ensure_exchanged(dir: &DirVfs, path: &Path, beside: &Path) -> Result<()> {
    match is_at(dir, beside) {
        true => Ok(()),
        false => Err(Error::Argument(format!(
            "{} is the compact copy now, but the directory that was opened has been moved; nothing was removed: if {} is what had \
             taken its place, give both the names that you want",
            path.display(),
            beside.display()
        ))),
    }
}

/// Gives the compact copy the database's name, and the database the copy's, durably; `sync` syncs their directory.
fn exchange(path: &Path, beside: &Path, sync: &dyn Fn(&fs::File) -> io::Result<()>) -> Result<()> {
    let parent = foreshore_io::exchange_directories(path, beside).map_err(|e| {
        let what = format!(
            "the compact copy is complete, in {}, but cannot take the place of {}; move it there yourself",
            beside.display(),
            path.display()
        );
        Error::final_io(what, &e)
    })?;
    sync(&parent).map_err(|e| {
        let what = format!(
            "{} is compact now, and {beside} is the database as it was, but a power failure may exchange them again; see to the \
             disk before you write to either, then remove {beside}",
            path.display(),
            beside = beside.display(),
        );
        Error::final_io(what, &e)
    })
}

/// Removes the old database `dir`, whose lock is held, and its name `path`, which is another's perhaps by now (K2): then it is not empty.
/// `remove` removes a file. First the database gets the name of scrap (K1), which goes when all else is gone. The lock's file goes last:
/// until then nobody else can use the directory, and what somebody may begin in it afterwards, another compaction perhaps, is not ours.
fn remove_old(dir: &DirVfs, path: &Path, remove: &dyn Fn(&str) -> io::Result<()>) -> io::Result<()> {
    dir.rename(meta::NAME, meta::UNFINISHED_BACKUP)?;
    dir.sync_dir()?;
    let names = dir.list()?;
    let is_data = |name: &&String| *name != meta::LOCK && meta::is_ours(name);
    names.iter().filter(is_data).try_for_each(|name| remove(name))?;
    remove(meta::UNFINISHED_BACKUP)?;
    remove(meta::LOCK)?;
    match fs::remove_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => Err(error),
        _ => Ok(()),
    }
}

/// A mounted directory, such as a container's volume, stays where it is. Better to know before all rows are copied.
fn ensure_exchangeable(path: &Path) -> Result<()> {
    match foreshore_io::is_mount_point(path) {
        false => Ok(()),
        true => Err(Error::Argument(format!(
            "a file system is mounted at {}, so no other directory can take its name; make a backup in an empty directory \
             elsewhere: it is compact",
            path.display()
        ))),
    }
}

/// A backup leaves out what has not committed, so a compaction would lose it.
fn ensure_nothing_prepared(db: &Database) -> Result<()> {
    match &db.recover()[..] {
        [] => Ok(()),
        [only] => Err(Error::Argument(format!(
            "1 transaction that has prepared waits to hear whether to commit, {:?}: commit it or roll it back (`commit_prepared`, \
             `rollback_prepared`; `.prepared` in the shell), then compact",
            only.escape_ascii().to_string()
        ))),
        all => Err(Error::Argument(format!(
            "{} transactions that have prepared wait to hear whether to commit: commit them or roll them back (`recover` and \
             `.prepared` in the shell list them), then compact",
            all.len()
        ))),
    }
}

/// K1: what an earlier compaction left complete is not thrown away without anybody's knowledge; nor is what is not ours.
fn ensure_replaceable(beside: &Path) -> Result<()> {
    match DirVfs::open(beside, false) {
        Ok(vfs) if meta::is_scrap(&vfs)? => Ok(()),
        Ok(_) => Err(Error::Argument(format!(
            "{} is left from an interrupted compaction, or not ours; the database itself is complete: move that directory \
             elsewhere, or remove it, then compact",
            beside.display()
        ))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::io(format!("opening the directory {}", beside.display()), &error)),
    }
}

/// The size of the database's files. Others would lose their place: they are refused.
fn bytes_of_database(path: &Path) -> Result<u64> {
    let failed = |e: io::Error| Error::io(format!("listing {}", path.display()), &e);
    let mut bytes = 0;
    for entry in fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if !entry.file_name().to_str().is_some_and(meta::is_ours) {
            return Err(Error::Argument(format!(
                "{} does not belong to the database; move it elsewhere, then compact",
                entry.path().display()
            )));
        }
        bytes += entry.metadata().map_err(failed)?.len();
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    /// K1: both are complete, and whoever has to do something about it is told what.
    #[test]
    fn a_failed_sync_of_the_names_is_told_as_such() {
        let dir = tempfile::tempdir().unwrap();
        let [path, beside] = ["db", "db.compacting"].map(|name| dir.path().join(name));
        for (path, mark) in [(&path, "old"), (&beside, "compact")] {
            fs::create_dir(path).unwrap();
            fs::write(path.join(mark), "").unwrap();
        }
        for error in [libc::EIO, libc::ENOSPC] {
            let failed = exchange(&path, &beside, &|_| Err(io::Error::from_raw_os_error(error))).unwrap_err();
            let text = failed.to_string();
            assert!(matches!(failed, Error::Io { .. }) && text.contains("is compact now"), "{text}");
            assert!(path.join("compact").exists() && beside.join("old").exists());
            exchange(&beside, &path, &|_| Ok(())).unwrap();
        }
        fs::remove_dir_all(&path).unwrap();
        let refused = exchange(&path, &beside, &|_| panic!("there is nothing to sync")).unwrap_err();
        assert!(refused.to_string().contains("move it there yourself"), "{refused}");
    }

    fn small() -> Builder {
        Database::builder().leaf_bytes(4096).ring_bytes(64 << 10).segment_bytes(64 << 10)
    }

    /// A removal that is cut short leaves what the next compaction throws away. What somebody has laid there meanwhile stays.
    #[test]
    fn what_is_left_of_the_old_files_is_scrap() {
        let remove_up_to = |most: usize| {
            let dir = tempfile::tempdir().unwrap();
            let (path, removed) = (dir.path().join("old"), Cell::new(0));
            small().open(&path).unwrap().close().unwrap();
            fs::write(path.join("notes.txt"), "").unwrap();
            let dir = DirVfs::open(&path, false).unwrap();
            let remove = |name: &str| match removed.get() == most {
                true => Err(io::ErrorKind::Interrupted.into()),
                false => dir.remove(name).map(|()| removed.set(removed.get() + 1)),
            };
            let done = remove_old(&dir, &path, &remove).is_ok();
            fs::remove_file(path.join("notes.txt")).expect("it is not ours");
            assert!(meta::is_scrap(&dir).unwrap(), "{most} files removed");
            done
        };
        let files = (0..).find(|most| remove_up_to(*most)).unwrap();
        assert!(files > 4);
    }

    /// Whoever comes while the old files go finds them locked, or none.
    #[test]
    fn the_lock_goes_last() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("old");
        Database::open(&path).unwrap().close().unwrap();
        // Who compacts has the lock, and no thread that makes files.
        let old = DirVfs::open(&path, false).unwrap();
        let lock = old.lock(meta::LOCK).unwrap_or_else(|_| panic!("nobody has it"));
        let removed = RefCell::new(Vec::new());
        let remove = |name: &str| {
            assert!(matches!(Database::open(&path), Err(Error::Locked { .. })));
            removed.borrow_mut().push(name.to_owned());
            old.remove(name)
        };
        remove_old(&old, &path, &remove).unwrap();
        assert_eq!(removed.borrow().last().map(String::as_str), Some(meta::LOCK));
        assert!(removed.borrow().len() > 4 && !path.exists());
        drop(lock);
        // Somebody makes a database there at once.
        let old = DirVfs::open(&path, true).unwrap();
        [meta::NAME, meta::LOCK].iter().for_each(|name| fs::write(path.join(name), "").unwrap());
        let taken = |name: &str| old.remove(name).and_then(|()| fs::write(path.join("new"), ""));
        remove_old(&old, &path, &taken).unwrap();
        assert!(path.join("new").exists());
    }

    /// K2, where somebody comes between the looks and what they are for.
    #[test]
    fn only_what_was_opened_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let [path, beside, away] = ["db", "db.compacting", "away"].map(|name| dir.path().join(name));
        let make = |path: &Path| small().open(path).unwrap().close().unwrap();
        [&path, &beside].into_iter().for_each(|path| make(path));
        let opened = DirVfs::open(&path, false).unwrap();
        ensure_not_moved(&opened, &path, &beside).unwrap();
        fs::rename(&path, &away).unwrap();
        make(&path);
        ensure_not_moved(&opened, &path, &beside).unwrap_err();
        exchange(&path, &beside, &|_| Ok(())).unwrap();
        let told = ensure_exchanged(&opened, &path, &beside).unwrap_err().to_string();
        assert!(told.contains("nothing was removed"), "{told}");
        remove_old(&opened, &beside, &|name| opened.remove(name)).unwrap();
        assert_eq!(fs::read_dir(&away).unwrap().count(), 0);
        assert!([path, beside].iter().all(|path| path.join(meta::NAME).exists()));
    }
}
