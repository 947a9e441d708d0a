//! All I/O of the engine, behind two traits, so that one simulated disk can stand under everything.
//!
//! A [`Vfs`] is *one database directory*: names are flat, such as `"leaves.db"` or `"wal-0000000000000007"`. Three
//! backends: [`DirVfs`] is a directory of the operating system; [`MemVfs`] keeps the files of an in-memory database;
//! [`SimDisk`] keeps them for tests, loses what was not synced, and fails calls on demand.
//!
//! Invariants:
//! - I1: a write is durable only after a later [`File::sync`] of that file returned `Ok`; a created, renamed or removed
//!   name only after [`Vfs::sync_dir`] returned `Ok`.
//! - I2: a failed sync is never retried by anyone: the second one may succeed over lost data. (Not failed is one that a signal
//!   interrupted: it has told nothing, so the backend goes on with it.)
//! - I3: transfers are whole: a short read or write is an error or is continued inside the backend.

mod buf;
mod dir;
mod lock;
mod map;
mod mem;
mod pages;
mod ring;
pub mod sim;

pub use buf::AlignedBuf;
pub use dir::{DirVfs, ensure_renamable, exchange_directories, is_mount_point};
pub use mem::MemVfs;
pub use sim::SimDisk;

use foreshore_base::sync::AtomicU64;
use std::io;
use std::sync::Arc;

/// Offsets, lengths and buffers of [`Access::Direct`] files are multiples of this many bytes.
pub const BLOCK_BYTES: usize = 4096;

/// How a file is going to be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Whole blocks from aligned memory, past the page cache where the filesystem allows it.
    Direct,
    /// Any offset and length, through the page cache.
    Buffered,
}

/// One database directory. Names are flat: one with a `/` in it is `InvalidInput`.
pub trait Vfs: Send + Sync + 'static {
    /// Opens a file for reading and writing. `create` makes an empty one if the name is absent; without it an absent
    /// name is `ErrorKind::NotFound`.
    fn open(&self, name: &str, access: Access, create: bool) -> io::Result<Arc<dyn File>>;
    /// Removes a name; an absent one is `NotFound`.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Renames atomically, replacing what `to` named.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// All names, in no order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Makes creations, renames and removals durable.
    fn sync_dir(&self) -> io::Result<()>;
    /// Takes the directory for this owner until the guard is dropped or the process dies.
    fn lock(&self, name: &str) -> Result<Box<dyn Send + Sync>, LockError>;
    /// Memory of `bytes` (whole blocks) that survives the death of the process, but not of the machine: a shared
    /// mapping of a preallocated file. New memory is zero; a file of another size is `InvalidData`.
    ///
    /// A new file is made under the name `"{name}.new"` and renamed when it is whole, so after any crash the name is
    /// absent or has its full size. The name is durable after [`Vfs::sync_dir`]. While somebody has the memory, the
    /// name must not be opened as a file; that may be `Unsupported`.
    fn shared_memory(&self, name: &str, bytes: usize) -> io::Result<Arc<dyn SharedMemory>>;
    /// Where this is, for error messages.
    fn describe(&self) -> String;
}

/// One file. All methods take `&self`: concurrent transfers at different offsets are fine.
pub trait File: Send + Sync + 'static {
    /// Fills `out` from `offset`; `UnexpectedEof` if the file ends before.
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<()>;
    /// As [`File::read_at`] for each of these pairs of an offset and what is to be filled from there, in no order. Tells `done` of each
    /// as soon as it is complete: its number, and its bytes.
    fn read_many(&self, reads: &mut [(u64, &mut [u8])], done: &mut dyn FnMut(usize, io::Result<&[u8]>)) {
        read_each(self, reads, done);
    }
    /// Are the reads of [`File::read_many`] under way at the same time? Otherwise it takes as long as they do one by one.
    fn reads_side_by_side(&self) -> bool {
        false
    }
    /// Writes all of `data` at `offset`, growing the file where needed.
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()>;
    /// As [`File::write_at`] for each of these, in no order. Where the system can, they are under way at the same time. After an
    /// error any of them may have been written.
    fn write_many(&self, writes: &[(u64, &[u8])]) -> io::Result<()> {
        writes.iter().try_for_each(|(offset, data)| self.write_at(data, *offset))
    }
    /// Waits while [`File::write_many`] of a killed process may still be under way there. Who writes a file in that way does so first,
    /// for what its own writes would meet; of a file that is not written so, others may hold locks as they like.
    ///
    /// Errors: `TimedOut` after half a minute.
    fn await_rest(&self) -> io::Result<()> {
        Ok(())
    }
    /// Makes all writes that returned before this call durable, with the length needed to read them back.
    fn sync(&self) -> io::Result<()>;
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Is it empty?
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Cuts or extends (with zeros) to `bytes`.
    fn set_len(&self, bytes: u64) -> io::Result<()>;
    /// Reserves space up to `bytes` so that later writes below it cannot fail for want of space; grows the file. New
    /// bytes read as zero. Where it fails it takes no space. Nobody else may make the file longer at the same time.
    ///
    /// They can where the filesystem writes to a new place: always (Btrfs, ZFS), or what the file shares with a copy of it (`cp` on XFS).
    fn allocate(&self, bytes: u64) -> io::Result<()>;
}

/// [`File::read_many`], one by one.
fn read_each<F: File + ?Sized>(
    file: &F,
    reads: &mut [(u64, &mut [u8])],
    done: &mut dyn FnMut(usize, io::Result<&[u8]>),
) {
    for (i, (offset, out)) in reads.iter_mut().enumerate() {
        let read = file.read_at(out, *offset);
        done(i, read.map(|()| &**out));
    }
}

/// Memory shared with the operating system; see [`Vfs::shared_memory`].
pub trait SharedMemory: Send + Sync + 'static {
    /// The memory as relaxed-atomic words.
    fn words(&self) -> &[AtomicU64];
}

/// Why [`Vfs::lock`] failed.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody else has it; the process id of who took it, if that could be learned and there is such a process.
    #[error("held by {}", .0.map_or("another process".to_owned(), |pid| format!("process {pid}")))]
    Held(Option<u32>),
    /// The lock file could not be opened or locked at all.
    #[error("cannot lock: {0}")]
    Io(#[from] io::Error),
}

/// The name of a file behind new shared memory that is not whole yet.
fn unfinished(name: &str) -> String {
    format!("{name}.new")
}

/// Makes the zeroed file behind new shared memory: whole, synced, and only then under its name.
fn create_whole(vfs: &dyn Vfs, name: &str, bytes: usize) -> io::Result<()> {
    let unfinished = unfinished(name);
    let file = vfs.open(&unfinished, Access::Buffered, true)?;
    file.set_len(0)?; // a creation that crashed may have left something
    file.allocate(bytes as u64)?;
    file.sync()?;
    vfs.rename(&unfinished, name)
}

/// Names are flat: one component, no way out of the directory.
fn check_name(name: &str) -> io::Result<()> {
    if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is no file name")));
    }
    Ok(())
}

/// Shared memory comes in whole, nonzero blocks.
fn check_memory_size(bytes: usize) {
    assert!(
        bytes > 0 && bytes.is_multiple_of(BLOCK_BYTES),
        "shared memory of {bytes} bytes is not whole blocks"
    );
}

/// What is found under the name of shared memory has another size than asked.
fn wrong_memory_size(name: &str, found: u64, asked: usize) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{name} has {found} bytes, not {asked}"))
}

/// A transfer of an [`Access::Direct`] file must be whole blocks from aligned memory, on every backend alike.
fn debug_assert_direct(access: Access, memory: *const u8, bytes: usize, offset: u64) {
    if access == Access::Direct {
        debug_assert!(memory.addr().is_multiple_of(BLOCK_BYTES), "memory at {memory:p} is not aligned");
        debug_assert!(bytes.is_multiple_of(BLOCK_BYTES), "{bytes} bytes are not whole blocks");
        debug_assert!(offset.is_multiple_of(BLOCK_BYTES as u64), "offset {offset} is not a block's");
    }
}

/// A length of an [`Access::Direct`] file must be whole blocks.
fn debug_assert_direct_len(access: Access, bytes: u64) {
    if access == Access::Direct {
        debug_assert!(bytes.is_multiple_of(BLOCK_BYTES as u64), "length {bytes} is not whole blocks");
    }
}
