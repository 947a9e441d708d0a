//! The files of an in-memory database: evicted pages and the log, on the heap.
//!
//! Why not [`SimDisk`](crate::SimDisk): that one numbers every call under one mutex and keeps what a crash could bring
//! back. Here each file has its own readers-writer lock and nothing outlives the last handle.
//! There is no crash to survive, so syncs have nothing to do; they, and reads, can be told to take as long as a device's.

use crate::pages::Pages;
use crate::{
    Access, File, LockError, SharedMemory, Vfs, check_memory_size, check_name, debug_assert_direct,
    debug_assert_direct_len, wrong_memory_size,
};
use foreshore_base::sync::AtomicU64;
use parking_lot::{Condvar, Mutex, RwLock};
use std::collections::{HashMap, HashSet};
use std::io;
use std::process;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A directory in this process's memory; clones are the same directory. It is never full: where there is no more memory, the
/// process ends, as with a `Vec`.
#[derive(Clone, Default)]
pub struct MemVfs {
    state: Arc<Mutex<State>>,
    times: Arc<Times>,
}

/// How long calls take, beside what they do.
#[derive(Default)]
struct Times {
    sync: Time,
    read: Time,
}

#[derive(Default)]
struct Time {
    takes: Mutex<Duration>,
    has_changed: Condvar,
}

impl Time {
    /// Also for those who wait, reckoned from when they came.
    fn set(&self, takes: Duration) {
        *self.takes.lock() = takes;
        self.has_changed.notify_all();
    }

    fn wait(&self) {
        let mut takes = self.takes.lock();
        if takes.is_zero() {
            return; // as mostly: no clock is looked at
        }
        let begun = Instant::now();
        while let Some(left) = takes.checked_sub(begun.elapsed()) {
            self.has_changed.wait_for(&mut takes, left);
        }
    }
}

#[derive(Default)]
struct State {
    files: HashMap<String, Entry>,
    locked: HashSet<String>,
}

#[derive(Clone)]
enum Entry {
    File(Arc<RwLock<Pages>>),
    Memory(Arc<Words>),
}

impl MemVfs {
    /// An empty directory.
    pub fn new() -> Self {
        Self::default()
    }

    /// How long each sync of a file takes from now on, however many are under way: a device with a queue. At first no time. Those
    /// under way take as long, and end at once if they already have.
    ///
    /// ```
    /// use foreshore_io::{Access, MemVfs, Vfs};
    /// use std::time::{Duration, Instant};
    ///
    /// let disk = MemVfs::new();
    /// disk.set_sync_time(Duration::from_millis(5));
    /// let begun = Instant::now();
    /// disk.open("log", Access::Buffered, true)?.sync()?;
    /// assert!(begun.elapsed() >= Duration::from_millis(5));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_sync_time(&self, time: Duration) {
        self.times.sync.set(time);
    }

    /// The same for each read, and for all reads that are handed over together.
    pub fn set_read_time(&self, time: Duration) {
        self.times.read.set(time);
    }
}

impl std::fmt::Debug for MemVfs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MemVfs[{} files]", self.state.lock().files.len())
    }
}

impl Vfs for MemVfs {
    fn open(&self, name: &str, access: Access, create: bool) -> io::Result<Arc<dyn File>> {
        check_name(name)?;
        let mut state = self.state.lock();
        if create && !state.files.contains_key(name) {
            state.files.insert(name.to_owned(), Entry::File(Arc::default()));
        }
        match state.files.get(name).ok_or(io::ErrorKind::NotFound)? {
            Entry::File(pages) => {
                let (pages, times) = (pages.clone(), self.times.clone());
                Ok(Arc::new(MemFile { pages, access, times }))
            }
            Entry::Memory(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.state.lock().files.remove(name).map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(to)?;
        let mut state = self.state.lock();
        let entry = state.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.files.insert(to.to_owned(), entry);
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.state.lock().files.keys().cloned().collect())
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, name: &str) -> Result<Box<dyn Send + Sync>, LockError> {
        check_name(name)?;
        let mut state = self.state.lock();
        if !state.locked.insert(name.to_owned()) {
            return Err(LockError::Held(Some(process::id())));
        }
        state.files.entry(name.to_owned()).or_insert_with(|| Entry::File(Arc::default()));
        Ok(Box::new(MemLock { vfs: self.clone(), name: name.to_owned() }))
    }

    fn shared_memory(&self, name: &str, bytes: usize) -> io::Result<Arc<dyn SharedMemory>> {
        check_name(name)?;
        check_memory_size(bytes);
        let mut state = self.state.lock();
        let new = || Entry::Memory(Arc::new(Words::zeroed(bytes)));
        let found = match state.files.entry(name.to_owned()).or_insert_with(new) {
            Entry::Memory(words) if size_of_val(words.words()) == bytes => return Ok(words.clone()),
            Entry::Memory(words) => size_of_val(words.words()) as u64,
            Entry::File(pages) => pages.read().len(),
        };
        Err(wrong_memory_size(name, found, bytes))
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}

/// Gives the name back on drop.
struct MemLock {
    vfs: MemVfs,
    name: String,
}

impl Drop for MemLock {
    fn drop(&mut self) {
        self.vfs.state.lock().locked.remove(&self.name);
    }
}

struct MemFile {
    pages: Arc<RwLock<Pages>>,
    access: Access,
    times: Arc<Times>,
}

impl File for MemFile {
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        debug_assert_direct(self.access, out.as_ptr(), out.len(), offset);
        self.times.read.wait();
        self.pages.read().read(out, offset)
    }

    fn read_many(&self, reads: &mut [(u64, &mut [u8])], done: &mut dyn FnMut(usize, io::Result<&[u8]>)) {
        self.times.read.wait();
        for (i, (offset, out)) in reads.iter_mut().enumerate() {
            debug_assert_direct(self.access, out.as_ptr(), out.len(), *offset);
            let read = self.pages.read().read(out, *offset);
            done(i, read.map(|()| &**out));
        }
    }

    fn reads_side_by_side(&self) -> bool {
        true
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        debug_assert_direct(self.access, data.as_ptr(), data.len(), offset);
        self.pages.write().write(data, offset);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.times.sync.wait();
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.pages.read().len())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        debug_assert_direct_len(self.access, bytes);
        self.pages.write().set_len(bytes);
        Ok(())
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        debug_assert_direct_len(self.access, bytes);
        // There is no space to run out of, so a hole will do: a sparse file may be longer than memory.
        let mut pages = self.pages.write();
        if bytes > pages.len() {
            pages.set_len(bytes);
        }
        Ok(())
    }
}

/// Words on the heap as [`SharedMemory`].
pub(crate) struct Words(Box<[AtomicU64]>);

impl Words {
    /// Memory of `bytes` zeros.
    pub(crate) fn zeroed(bytes: usize) -> Self {
        (0..bytes / size_of::<u64>()).map(|_| 0).collect()
    }
}

impl FromIterator<u64> for Words {
    fn from_iter<I: IntoIterator<Item = u64>>(words: I) -> Self {
        Self(words.into_iter().map(AtomicU64::new).collect())
    }
}

impl SharedMemory for Words {
    fn words(&self) -> &[AtomicU64] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// Who is through with a slow device need not wait until it is through, too.
    #[test]
    fn calls_under_way_end_with_the_time_they_take() {
        let (disk, long) = (MemVfs::new(), Duration::from_secs(20));
        let file = disk.open("f", Access::Buffered, true).unwrap();
        file.write_at(b"f", 0).unwrap();
        disk.set_sync_time(long);
        disk.set_read_time(long);
        let begun = Instant::now();
        thread::scope(|scope| {
            scope.spawn(|| file.sync().unwrap());
            scope.spawn(|| file.read_at(&mut [0], 0).unwrap());
            thread::sleep(Duration::from_millis(50)); // they wait by now
            disk.set_sync_time(Duration::ZERO);
            disk.set_read_time(Duration::from_millis(1));
        });
        assert!(begun.elapsed() < long / 2, "{:?}", begun.elapsed());
    }
}
