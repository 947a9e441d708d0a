//! All I/O of the engine, behind two traits, so that one simulated disk can stand under everything.
//!
//! A [`Vfs`] is *one database directory*: names are flat, such as `"leaves.db"` or `"wal-0000000000000007"`. The file
//! backend is `DirVfs`; `SimDisk` keeps a directory in memory, loses what was not synced, and fails
//! calls on demand.
//!
//! Invariants:
//! - I1: a write is durable only after a later [`File::sync`] of that file returned `Ok`; a created, renamed or removed
//!   name only after [`Vfs::sync_dir`] returned `Ok`.
//! - I2: a failed sync is never retried by anyone: the second one may succeed over lost data.
//! - I3: transfers are whole: a short read or write is an error or is continued inside the backend.

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

/// One database directory.
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
    fn shared_memory(&self, name: &str, bytes: usize) -> io::Result<Arc<dyn SharedMemory>>;
    /// Where this is, for error messages.
    fn describe(&self) -> String;
}

/// One file. All methods take `&self`: concurrent transfers at different offsets are fine.
pub trait File: Send + Sync + 'static {
    /// Fills `out` from `offset`; `UnexpectedEof` if the file ends before.
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all of `data` at `offset`, growing the file where needed.
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()>;
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
    /// bytes read as zero.
    fn allocate(&self, bytes: u64) -> io::Result<()>;
}

/// Memory shared with the operating system; see [`Vfs::shared_memory`].
pub trait SharedMemory: Send + Sync + 'static {
    /// The memory as relaxed-atomic words.
    fn words(&self) -> &[AtomicU64];
}

/// Why [`Vfs::lock`] failed.
#[derive(Debug)]
pub enum LockError {
    /// Somebody else has it; their process id if they could be asked.
    Held(Option<u32>),
    /// The lock file could not be opened or locked at all.
    Io(io::Error),
}
