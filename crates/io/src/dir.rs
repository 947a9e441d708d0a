//! The file backend: a directory of the operating system.
//!
//! Why direct I/O: leaf and log blocks are cached by the engine already, and a failed write-back of the page cache is
//! reported once, to whoever syncs next; past the cache, the write itself fails.
//! Everything is opened relative to the directory's descriptor, so the database survives a rename of its directory.
//! Transfers go on after interrupts and short counts, and so do syncs after interrupts; a failed sync is passed on and never tried
//! again (I2).

use crate::lock::{DirLock, wait_for_rest};
use crate::map::Mapping;
use crate::ring;
use crate::{
    Access, AlignedBuf, BLOCK_BYTES, File, LockError, SharedMemory, Vfs, check_memory_size, check_name,
    create_whole, debug_assert_direct, debug_assert_direct_len, read_each, unfinished, wrong_memory_size,
};
use foreshore_base::seeded_bug;
use foreshore_base::sync::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use parking_lot::Mutex;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, Dir, FallocateFlags, IFlags, Mode, OFlags, RenameFlags, StatVfs, StatxAttributes,
    StatxFlags,
};
use rustix::fs::{
    FlockOperation, fallocate, fdatasync, flock, fstat, fstatvfs, fsync, ftruncate, ioctl_getflags,
    ioctl_setflags, openat, renameat, renameat_with, statx, unlinkat,
};
use rustix::io::{Errno, pread, pwrite, retry_on_intr};
use rustix::process::{Resource, geteuid, getrlimit};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

/// What the system counts the space of a file in.
const STAT_BLOCK_BYTES: u64 = 512;

/// Threads that write at the same time where there is no ring.
const WRITERS: usize = 8;

/// A directory of the operating system as a [`Vfs`].
#[derive(Debug)]
pub struct DirVfs {
    path: PathBuf,
    dir: OwnedFd,
}

impl DirVfs {
    /// Opens the directory at `path`; `create` makes it, and its parents, durably: also what somebody made before who may have
    /// died before it was durable, unless only others may read the directory that names it.
    ///
    /// Errors: `NotFound` for an absent directory without `create`, `NotADirectory`, and what the system reports.
    pub fn open(path: impl AsRef<Path>, create: bool) -> io::Result<Self> {
        let path = path.as_ref();
        if create {
            create_dir_durably(path, &sync_dir)?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self { path: path.to_owned(), dir })
    }

    /// What the system tells of the directory: of the one that was opened, wherever it is now, and whatever has its path.
    pub fn metadata(&self) -> io::Result<fs::Metadata> {
        fs::File::from(self.dir.try_clone()?).metadata()
    }

    /// What the system tells of the file `name` in that directory.
    pub fn metadata_of(&self, name: &str) -> io::Result<fs::Metadata> {
        check_name(name)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        fs::File::from(openat(&self.dir, name, flags, Mode::empty())?).metadata()
    }

    fn open_at(&self, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let flags = flags | OFlags::RDWR | OFlags::CLOEXEC;
        retry_on_intr(|| openat(&self.dir, name, flags, Mode::from_raw_mode(0o644)))
    }

    /// Makes a file, an empty one, whose blocks are written where they are. Btrfs copies them otherwise, for which it may lack the space.
    fn write_in_place(&self, name: &str) -> io::Result<()> {
        let fd = self.open_at(name, OFlags::CREATE | OFlags::TRUNC)?;
        // Other filesystems know no such flag, and need none.
        let _ = ioctl_getflags(&fd).and_then(|flags| ioctl_setflags(&fd, flags | IFlags::NOCOW));
        Ok(())
    }
}

/// Makes `path` and its absent parents; each new entry, and the one that was there already, is synced in the directory that
/// names it, by `sync`.
fn create_dir_durably(path: &Path, sync: &dyn Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    if path.is_dir() {
        return sync_found(path, sync);
    }
    let parent = parent_of(path);
    create_dir_durably(parent, sync)?;
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    sync(parent)
}

/// The directory at `path` was there: whoever made it may have died before it was durable, or failed to make it so.
fn sync_found(path: &Path, sync: &dyn Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    let real = fs::canonicalize(path)?;
    match real.parent().map_or(Ok(()), sync) {
        // Who may not read the parent, or not write there, has not made the directory.
        Err(e) if matches!(e.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem) => {
            Ok(())
        }
        synced => synced,
    }
}

fn sync_dir(path: &Path) -> io::Result<()> {
    fs::File::open(path)?.sync_all()
}

/// Exchanges the names of two directories of one parent, atomically. Returns the parent: to sync it makes the exchange durable.
///
/// Errors: `InvalidInput` where the filesystem cannot exchange names, and what else the system reports; nothing has changed.
pub fn exchange_directories(a: impl AsRef<Path>, b: impl AsRef<Path>) -> io::Result<fs::File> {
    let (a, b) = (a.as_ref(), b.as_ref());
    let parent = fs::File::open(parent_of(a))?; // before, as this may fail
    renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE)?;
    Ok(parent)
}

/// Can the directory `dir` get another name beside its own? Looks by a rename that cannot succeed: to the name of a directory of the same
/// parent that is not empty. (Where the system refuses what it is asked for, it says so before it looks at the other directory.)
///
/// Errors: why it cannot, such as `CrossesDevices` for a directory of a lower layer of an overlay filesystem.
pub fn ensure_renamable(dir: impl AsRef<Path>, not_empty: impl AsRef<Path>) -> io::Result<()> {
    let (dir, not_empty) = (dir.as_ref(), not_empty.as_ref());
    match renameat(CWD, dir, CWD, not_empty) {
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(()) => Ok(renameat(CWD, not_empty, CWD, dir)?), // somebody has emptied the other one
    }
}

/// Is a filesystem mounted at `path`? A mounted directory's name cannot be exchanged. `false` where the system does not say.
pub fn is_mount_point(path: impl AsRef<Path>) -> bool {
    let found = statx(CWD, path.as_ref(), AtFlags::empty(), StatxFlags::empty());
    found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

impl Vfs for DirVfs {
    fn open(&self, name: &str, access: Access, create: bool) -> io::Result<Arc<dyn File>> {
        check_name(name)?;
        let flags = if create { OFlags::CREATE } else { OFlags::empty() };
        let fd = match access {
            Access::Buffered => self.open_at(name, flags)?,
            Access::Direct => match self.open_at(name, flags | OFlags::DIRECT) {
                Err(Errno::INVAL) => self.open_at(name, flags)?, // a filesystem without direct I/O
                opened => opened?,
            },
        };
        let file = DirFile::new(fd, access);
        file.ensure_writable()?;
        Ok(Arc::new(file))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        check_name(name)?;
        Ok(unlinkat(&self.dir, name, AtFlags::empty())?)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(from)?;
        check_name(to)?;
        Ok(renameat(&self.dir, from, &self.dir, to)?)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.dir)? {
            let entry = entry?;
            // What stands for an empty directory, and what a file system has for itself.
            if ![c".", c"..", c"lost+found"].contains(&entry.file_name()) {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        Ok(names)
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(retry_on_intr(|| fsync(&self.dir))?)
    }

    fn lock(&self, name: &str) -> Result<Box<dyn Send + Sync>, LockError> {
        check_name(name)?;
        Ok(Box::new(DirLock::take(&self.dir, name)?))
    }

    fn shared_memory(&self, name: &str, bytes: usize) -> io::Result<Arc<dyn SharedMemory>> {
        check_name(name)?;
        check_memory_size(bytes);
        if cfg!(any(loom, shuttle)) {
            return Err(io::ErrorKind::Unsupported.into()); // their atomics are not bare words
        }
        let fd = match self.open_at(name, OFlags::empty()) {
            Err(Errno::NOENT) => {
                self.write_in_place(&unfinished(name))?;
                create_whole(self, name, bytes)?;
                self.open_at(name, OFlags::empty())?
            }
            opened => opened?,
        };
        let file = DirFile::new(fd, Access::Buffered);
        let found = file.len()?;
        if found != bytes as u64 {
            return Err(wrong_memory_size(name, found, bytes));
        }
        file.allocate(found)?; // a copied database may have holes
        Ok(Arc::new(Mapping::new(file.fd.as_fd(), bytes)?))
    }

    fn describe(&self) -> String {
        self.path.display().to_string()
    }
}

struct DirFile {
    fd: OwnedFd,
    access: Access,
    /// Space is reserved up to here: not to be reserved again, which takes some filesystems time for every page.
    reserved: AtomicU64,
    /// Held while a lock shows that a ring writes.
    marked: Mutex<()>,
}

impl DirFile {
    fn new(fd: OwnedFd, access: Access) -> Self {
        Self { fd, access, reserved: AtomicU64::new(0), marked: Mutex::new(()) }
    }

    /// Can a transfer go on after `done` bytes? A direct one cannot inside a block: there it met the end of the file
    /// or of the space.
    fn resumable(&self, done: usize) -> bool {
        self.access == Access::Buffered || done.is_multiple_of(BLOCK_BYTES)
    }

    /// Writes what of `data`, which belongs at `offset`, is not yet `done`.
    fn go_on_writing(&self, data: &[u8], offset: u64, mut done: usize) -> io::Result<()> {
        while done < data.len() {
            if !self.resumable(done) {
                return Err(Errno::NOSPC.into());
            }
            match retry_on_intr(|| pwrite(&self.fd, &data[done..], offset + done as u64))? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => done += written,
            }
        }
        Ok(())
    }

    /// `None` if there is no ring.
    fn write_by_ring(&self, writes: &[(u64, &[u8])]) -> Option<io::Result<()>> {
        // O4 in `lock.rs`. Where a file cannot be locked threads write: no process is gone while one of its threads is in a call.
        let _only = self.marked.lock();
        retry_on_intr(|| flock(&self.fd, FlockOperation::NonBlockingLockShared)).ok()?;
        let mut first_error = None;
        let ran = ring::write(self.fd.as_fd(), writes, |i, count| {
            let (offset, data) = writes[i];
            let written = begun(count).and_then(|count| self.go_on_writing(data, offset, count));
            first_error = first_error.take().or(written.err());
        });
        let _ = flock(&self.fd, FlockOperation::Unlock); // not by a close: a forked child may have a copy
        ran.then(|| first_error.map_or(Ok(()), Err))
    }

    /// With a few threads, which it starts: that takes less time than the second of these writes.
    fn write_by_threads(&self, writes: &[(u64, &[u8])]) -> io::Result<()> {
        let next = AtomicUsize::new(0);
        let write = || {
            while let Some((offset, data)) = writes.get(next.fetch_add(1, Relaxed)) {
                self.go_on_writing(data, *offset, 0)?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let helpers = 1..WRITERS.min(writes.len());
            // If the system has no thread left, there are fewer.
            let helpers: Vec<_> =
                helpers.map_while(|_| thread::Builder::new().spawn_scoped(scope, write).ok()).collect();
            let join =
                |helper: thread::ScopedJoinHandle<'_, _>| helper.join().expect("a write does not panic");
            helpers.into_iter().map(join).fold(write(), Result::and)
        })
    }

    /// Fills what of `out`, which belongs at `offset`, is not yet `done`.
    fn go_on_reading(&self, out: &mut [u8], offset: u64, mut done: usize) -> io::Result<()> {
        while done < out.len() {
            if !self.resumable(done) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            match retry_on_intr(|| pread(&self.fd, &mut out[done..], offset + done as u64))? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => done += read,
            }
        }
        Ok(())
    }

    /// `false` if there is no ring.
    fn read_by_ring(
        &self,
        reads: &mut [(u64, &mut [u8])],
        done: &mut dyn FnMut(usize, io::Result<&[u8]>),
    ) -> bool {
        ring::read(self.fd.as_fd(), reads, |i, offset, out, count| {
            let read = begun(count).and_then(|count| self.go_on_reading(out, offset, count));
            done(i, read.map(|()| &*out));
        })
    }

    /// Refuses to take more bytes than there are: whoever tries takes all that there are until he fails, and others find none.
    fn ensure_space(&self, bytes: u64) -> io::Result<()> {
        match bytes_there(&fstatvfs(&self.fd)?, geteuid().is_root()) {
            Some(there) if bytes > there => Err(Errno::NOSPC.into()),
            _ => Ok(()),
        }
    }

    /// Refuses what `ulimit -f` does not allow: the system would say so by a signal, which ends the process.
    fn ensure_allowed(&self, bytes: u64) -> io::Result<()> {
        match getrlimit(Resource::Fsize).current {
            Some(longest) if bytes > longest && bytes > self.len()? => Err(Errno::FBIG.into()),
            _ => Ok(()),
        }
    }

    /// Refuses a file that is longer than `ulimit -f` allows, for the same reason: whoever writes behind that is told by a signal, too.
    fn ensure_writable(&self) -> io::Result<()> {
        let Some(longest) = getrlimit(Resource::Fsize).current else { return Ok(()) };
        match self.len()? {
            bytes if bytes > longest => {
                let told =
                    format!("it has {bytes} bytes, and `ulimit -f` allows {longest}: raise that limit");
                Err(io::Error::other(told)) // no space is missing
            }
            _ => Ok(()),
        }
    }

    /// Writes zeros from the end of the file up to `bytes`: space on filesystems that cannot reserve it.
    fn grow_by_writing(&self, bytes: u64) -> io::Result<()> {
        const CHUNK_BYTES: usize = 256 * BLOCK_BYTES;
        let zeros = AlignedBuf::zeroed(CHUNK_BYTES);
        let mut end = self.len()?;
        while end < bytes {
            let chunk = (bytes - end).min(CHUNK_BYTES as u64);
            self.write_at(&zeros[..chunk as usize], end)?;
            end += chunk;
        }
        Ok(())
    }
}

/// The bytes that may be taken; `None` where the filesystem does not say. Some blocks may be kept for root.
fn bytes_there(there: &StatVfs, is_root: bool) -> Option<u64> {
    let blocks = if is_root { there.f_bfree } else { there.f_bavail };
    (there.f_blocks > 0).then(|| blocks.saturating_mul(there.f_frsize))
}

/// How many bytes of a transfer are done, which may have been told to try again.
fn begun(count: io::Result<usize>) -> io::Result<usize> {
    match count {
        Err(e) if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => Ok(0),
        // The kernel wanted a thread for it, and could not start one, since signals came meanwhile.
        Err(e) if e.raw_os_error() == Some(Errno::CANCELED.raw_os_error()) => Ok(0),
        count => count,
    }
}

impl File for DirFile {
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        debug_assert_direct(self.access, out.as_ptr(), out.len(), offset);
        self.go_on_reading(out, offset, 0)
    }

    fn read_many(&self, reads: &mut [(u64, &mut [u8])], done: &mut dyn FnMut(usize, io::Result<&[u8]>)) {
        for (offset, out) in &*reads {
            debug_assert_direct(self.access, out.as_ptr(), out.len(), *offset);
        }
        if reads.len() < 2 || !self.read_by_ring(reads, done) {
            read_each(self, reads, done);
        }
    }

    fn reads_side_by_side(&self) -> bool {
        ring::is_there()
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        debug_assert_direct(self.access, data.as_ptr(), data.len(), offset);
        self.go_on_writing(data, offset, 0)
    }

    fn write_many(&self, writes: &[(u64, &[u8])]) -> io::Result<()> {
        for (offset, data) in writes {
            debug_assert_direct(self.access, data.as_ptr(), data.len(), *offset);
        }
        match writes {
            [] => Ok(()),
            [(offset, data)] => self.go_on_writing(data, *offset, 0),
            _ => self.write_by_ring(writes).unwrap_or_else(|| self.write_by_threads(writes)),
        }
    }

    fn await_rest(&self) -> io::Result<()> {
        wait_for_rest(&self.fd)
    }

    fn sync(&self) -> io::Result<()> {
        // Interrupted by a signal, as on a file system in user space, it has told nothing of the bytes; any thread may be who syncs.
        Ok(retry_on_intr(|| fdatasync(&self.fd))?)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(fstat(&self.fd)?.st_size as u64)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        debug_assert_direct_len(self.access, bytes);
        self.reserved.fetch_min(bytes, Relaxed);
        Ok(retry_on_intr(|| ftruncate(&self.fd, bytes))?)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        debug_assert_direct_len(self.access, bytes);
        if seeded_bug("dir_allocate_cuts") {
            return self.set_len(bytes);
        }
        let reserved = self.reserved.load(Relaxed);
        if bytes <= reserved {
            return Ok(());
        }
        self.ensure_allowed(bytes)?;
        let before = fstat(&self.fd)?;
        self.ensure_space(bytes.saturating_sub(before.st_blocks as u64 * STAT_BLOCK_BYTES))?;
        let grown = match retry_on_intr(|| {
            fallocate(&self.fd, FallocateFlags::empty(), reserved, bytes - reserved)
        }) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.grow_by_writing(bytes),
            done => done.map_err(io::Error::from),
        };
        grown.inspect_err(|_| {
            // What it took before there was no more, which ext4 and others leave with the file.
            let _ = retry_on_intr(|| ftruncate(&self.fd, before.st_size as u64));
        })?;
        self.reserved.fetch_max(bytes, Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::process;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// What the kernel has cancelled, since signals kept it from starting a thread for it, is gone on with.
    #[test]
    fn a_cancelled_transfer_is_gone_on_with() {
        let cancelled = io::Error::from_raw_os_error(Errno::CANCELED.raw_os_error());
        assert_eq!(begun(Err(cancelled)).expect("no failure of the device"), 0);
        begun(Err(Errno::IO.into())).expect_err("a failure of the device");
    }

    /// I1 for directories: nobody knows whether the one that is there is durable.
    #[test]
    fn a_directory_that_is_there_already_is_made_durable_too() {
        let root = std::env::temp_dir().join(format!("foreshore-io-dirs-{}", process::id()));
        fs::create_dir(&root).expect("a temporary directory");
        let path = root.join("a/b");
        let synced = RefCell::<Vec<PathBuf>>::default();
        let note = |dir: &Path| {
            synced.borrow_mut().push(dir.strip_prefix(&root).map_or("outside".into(), Path::to_owned));
            Ok(())
        };
        let die = |dir: &Path| if dir == root { Err(io::Error::other("died")) } else { Ok(()) };
        create_dir_durably(&path, &die).expect_err("before its first entry was durable");
        assert!(root.join("a").is_dir() && !path.exists());
        create_dir_durably(&path, &note).expect("the second attempt");
        assert_eq!(synced.take(), [Path::new(""), Path::new("a")]);
        create_dir_durably(&path, &note).expect("it is there");
        assert_eq!(synced.take(), [Path::new("a")]);
        fs::remove_dir_all(&root).expect("removing it");
    }

    /// Whether a directory can be renamed is found out without renaming it.
    #[test]
    fn a_directory_stays_where_it_is_while_it_is_looked_at() {
        let root = std::env::temp_dir().join(format!("foreshore-io-renamable-{}", process::id()));
        let [dir, other] = ["dir", "other"].map(|name| root.join(name));
        fs::create_dir_all(dir.join("mark")).expect("a temporary directory");
        fs::create_dir_all(other.join("full")).expect("another one");
        ensure_renamable(&dir, &other).expect("it can be");
        assert!(dir.join("mark").exists() && other.join("full").exists());
        fs::remove_dir(other.join("full")).expect("what kept it");
        ensure_renamable(&dir, &other).expect("it can be");
        assert!(dir.join("mark").exists(), "though the other one was empty");
        let missing = ensure_renamable(root.join("missing"), &other).expect_err("it is not there");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        fs::remove_dir_all(&root).expect("removing it");
    }

    /// What is kept for root is no space for others: they would take all the rest, and fail.
    #[test]
    fn blocks_kept_for_root_are_not_there_for_others() {
        let mut there = fstatvfs(fs::File::open("/proc").expect("Linux")).expect("a filesystem");
        (there.f_frsize, there.f_blocks, there.f_bfree, there.f_bavail) = (4096, 100, 7, 2);
        assert_eq!(bytes_there(&there, true), Some(7 * 4096));
        assert_eq!(bytes_there(&there, false), Some(2 * 4096));
        there.f_blocks = 0;
        assert_eq!(bytes_there(&there, false), None, "it does not say");
    }

    /// M1 of `map.rs`, where it takes more than space. (Run it with `TMPDIR` on such a filesystem, btrfs.)
    #[test]
    fn shared_memory_is_written_in_place_where_it_need_not_be() {
        let path = std::env::temp_dir().join(format!("foreshore-io-in-place-{}", process::id()));
        let vfs = DirVfs::open(&path, true).expect("a temporary directory");
        let flags = |name| ioctl_getflags(vfs.open_at(name, OFlags::CREATE).expect("a file"));
        let probe = vfs.open_at("probe", OFlags::CREATE).expect("a new file");
        let is_choice =
            flags("probe").and_then(|flags| ioctl_setflags(&probe, flags | IFlags::NOCOW)).is_ok();
        vfs.shared_memory("memory", BLOCK_BYTES).expect("a new file");
        assert_eq!(flags("memory").is_ok_and(|flags| flags.contains(IFlags::NOCOW)), is_choice);
        fs::remove_dir_all(&path).expect("removing it");
    }

    /// Many at once, by either way: all are there, and a failure of any is told.
    #[test]
    fn writes_side_by_side() {
        let path = std::env::temp_dir().join(format!("foreshore-io-many-{}", process::id()));
        let vfs = DirVfs::open(&path, true).expect("a temporary directory");
        let full = rustix::fs::open("/dev/full", OFlags::WRONLY, Mode::empty()).expect("a device of Linux");
        let full = DirFile::new(full, Access::Buffered);
        type Way = fn(&DirFile, &[(u64, &[u8])]) -> io::Result<()>;
        let ways: [(&str, Way); 2] = [
            ("as the system can", |file, writes| file.write_many(writes)),
            ("threads", |file, writes| file.write_by_threads(writes)),
        ];
        for (name, write) in ways {
            let fd = vfs.open_at(name, OFlags::CREATE).expect("a new file");
            let file = DirFile::new(fd, Access::Direct);
            let mut data = AlignedBuf::zeroed(200 * BLOCK_BYTES);
            data.chunks_mut(BLOCK_BYTES).zip(1..).for_each(|(block, n)| block.fill(n));
            // Pieces of one and of two blocks, the last one first.
            let pieces = data.chunks(3 * BLOCK_BYTES).zip((0..).step_by(3 * BLOCK_BYTES));
            let pieces = pieces.flat_map(|(three, offset)| {
                let (one, two) = three.split_at(BLOCK_BYTES);
                [(offset, one), (offset + BLOCK_BYTES as u64, two)]
            });
            let mut writes: Vec<_> = pieces.collect();
            writes.reverse();
            write(&file, &writes).expect(name);
            let mut content = AlignedBuf::zeroed(data.len());
            file.read_at(&mut content, 0).expect("the whole file");
            assert!(content[..] == data[..], "{name}");
            let error = write(&full, &writes).expect_err(name);
            assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{name}");
            // One alone fails: whichever it is, most of them are not for the calling thread.
            for failing in 0..2 * WRITERS {
                let mut writes = writes[..2 * WRITERS].to_vec();
                writes[failing].0 = i64::MAX as u64 / BLOCK_BYTES as u64 * BLOCK_BYTES as u64; // no file is as long
                write(&file, &writes).expect_err(name);
            }
        }
        fs::remove_dir_all(&path).expect("removing it");
    }

    /// O4 in `lock.rs`: it may be a write of a killed owner, which the system carries out without it. The file may be elsewhere.
    #[test]
    fn who_opened_a_file_can_wait_for_what_is_under_way() {
        let path = std::env::temp_dir().join(format!("foreshore-io-rest-of-{}", process::id()));
        let vfs = DirVfs::open(path.join("db"), true).expect("a temporary directory");
        let leaves = fs::File::create(path.join("leaves")).expect("a new file");
        std::os::unix::fs::symlink("../leaves", path.join("db/leaves.db")).expect("a link to it");
        flock(&leaves, FlockOperation::LockShared).expect("nobody else has it");
        let (tell, told) = channel();
        thread::scope(|scope| {
            let file = vfs.open("leaves.db", Access::Direct, false).expect("no need to wait for that");
            scope.spawn(move || tell.send(file.await_rest()).expect("a listener"));
            let early = told.recv_timeout(Duration::from_millis(200));
            drop(leaves);
            assert!(early.is_err(), "at rest beside a write");
            told.recv().expect("who waits").expect("all have landed");
        });
        fs::remove_dir_all(&path).expect("removing it");
    }

    /// O4 in `lock.rs`.
    #[test]
    fn writes_by_a_ring_show_from_outside() {
        let path = std::env::temp_dir().join(format!("foreshore-io-mark-{}", process::id()));
        let vfs = DirVfs::open(&path, true).expect("a temporary directory");
        let file = DirFile::new(vfs.open_at("a", OFlags::CREATE).expect("a new file"), Access::Direct);
        let other = vfs.open_at("a", OFlags::empty()).expect("the same file");
        let data = AlignedBuf::zeroed(256 * BLOCK_BYTES);
        let writes: Vec<_> = (0..).step_by(2 * BLOCK_BYTES).zip(data.chunks(BLOCK_BYTES)).collect();
        let is_locked = || {
            let locked = flock(&other, FlockOperation::NonBlockingLockExclusive);
            flock(&other, FlockOperation::Unlock).expect("whatever it was");
            locked == Err(Errno::WOULDBLOCK)
        };
        let seen = thread::scope(|scope| {
            let writer = scope.spawn(|| {
                // Not all of them: whoever looks may have the file locked just then.
                let by_ring = (0..500).filter_map(|_| file.write_by_ring(&writes));
                by_ring.map(|written| written.expect("a write")).count()
            });
            let mut seen = false;
            while !seen && !writer.is_finished() {
                seen = is_locked();
            }
            let written = writer.join().expect("no panic");
            seen || written == 0 // where there is no ring
        });
        assert!(seen, "nobody could tell that writes were under way");
        assert!(!is_locked(), "they have landed");
        fs::remove_dir_all(&path).expect("removing it");
    }

    /// Many at once, by either way: each is told once, with its bytes, or that the file ends before.
    #[test]
    fn reads_side_by_side() {
        let path = std::env::temp_dir().join(format!("foreshore-io-many-reads-{}", process::id()));
        let vfs = DirVfs::open(&path, true).expect("a temporary directory");
        let file = DirFile::new(vfs.open_at("a", OFlags::CREATE).expect("a new file"), Access::Direct);
        let mut data = AlignedBuf::zeroed(200 * BLOCK_BYTES);
        data.chunks_mut(BLOCK_BYTES).zip(1..).for_each(|(block, n)| block.fill(n));
        file.write_at(&data, 0).expect("a write");
        type Way = fn(&DirFile, &mut [(u64, &mut [u8])], &mut dyn FnMut(usize, io::Result<&[u8]>));
        let ways: [(&str, Way); 2] = [
            ("as the system can", |file, reads, done| file.read_many(reads, done)),
            ("one by one", |file, reads, done| read_each(file, reads, done)),
        ];
        for (name, read) in ways {
            // Pieces of three blocks, the last one first: of that the file has two.
            let mut content = AlignedBuf::zeroed(201 * BLOCK_BYTES);
            let offsets = (0..).step_by(3 * BLOCK_BYTES);
            let mut reads: Vec<_> = offsets.zip(content.chunks_mut(3 * BLOCK_BYTES)).collect();
            reads.reverse();
            let mut told = vec![0; reads.len()];
            read(&file, &mut reads, &mut |i, bytes| {
                told[i] += 1;
                let from = (told.len() - 1 - i) * 3 * BLOCK_BYTES;
                match bytes {
                    Ok(bytes) => assert!(bytes == &data[from..from + 3 * BLOCK_BYTES], "{name}, {i}"),
                    Err(e) => assert_eq!((i, e.kind()), (0, io::ErrorKind::UnexpectedEof), "{name}"),
                }
            });
            assert!(told.iter().all(|&times| times == 1), "{name}: {told:?}");
            assert!(content[..data.len() - 2 * BLOCK_BYTES] == data[..data.len() - 2 * BLOCK_BYTES]);
        }
        fs::remove_dir_all(&path).expect("removing it");
    }

    /// After a short count the rest is written, unless the count says that the space has ended inside a block.
    #[test]
    fn a_write_goes_on_where_it_was_broken_off() {
        let path = std::env::temp_dir().join(format!("foreshore-io-rest-{}", process::id()));
        let vfs = DirVfs::open(&path, true).expect("a temporary directory");
        let open = |access| DirFile::new(vfs.open_at("a", OFlags::CREATE).expect("a file"), access);
        open(Access::Buffered).go_on_writing(b"abcdef", 10, 4).expect("the rest");
        let mut content = [9; 16];
        open(Access::Buffered).read_at(&mut content, 0).expect("up to its end");
        assert_eq!(&content, b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0ef");
        let blocks = AlignedBuf::zeroed(2 * BLOCK_BYTES);
        let error = open(Access::Direct).go_on_writing(&blocks, 0, 100).expect_err("no block ends there");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        fs::remove_dir_all(&path).expect("removing it");
    }

    /// Filesystems that cannot reserve space are rare; their path is walked here on whatever there is.
    #[test]
    fn growing_by_writing_adds_zeros_and_keeps_what_is_there() {
        let path = std::env::temp_dir().join(format!("foreshore-io-grow-{}", process::id()));
        let vfs = DirVfs::open(&path, true).expect("a temporary directory");
        let fd = vfs.open_at("a", OFlags::CREATE).expect("a new file");
        let file = DirFile::new(fd, Access::Buffered);
        file.write_at(&[1; 5000], 0).expect("a write");
        file.grow_by_writing(100).expect("nothing to do");
        file.grow_by_writing(3_000_001).expect("zeros");
        let mut content = vec![9; 3_000_001];
        file.read_at(&mut content, 0).expect("the whole file");
        assert!(content[..5000].iter().all(|&byte| byte == 1));
        assert!(content[5000..].iter().all(|&byte| byte == 0));
        assert_eq!(file.len().expect("a length"), 3_000_001);
        fs::remove_dir_all(&path).expect("removing it");
    }
}
