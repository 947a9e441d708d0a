//! A file mapped into memory as words: what outlives the process.
//!
//! Why: stores into a shared mapping are in the kernel's page cache the moment they retire, so they survive `kill -9`
//! at the price of a store.
//! Invariants:
//! - M1: every block of the file is allocated before it is mapped, and stays where it is: a store never meets a full disk
//!   (`SIGBUS`). But on filesystems that write every block to a new place, whatever they are asked.
//! - M2: the file is never cut while it is mapped: the database's lock keeps others away.
//! - M3: only the process that mapped it unmaps it. A forked one has no mapping there, and perhaps memory of its own by then.

use crate::SharedMemory;
use foreshore_base::sync::AtomicU64;
use rustix::fd::BorrowedFd;
use rustix::io::{Errno, pread, retry_on_intr};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::ffi::c_void;
use std::io;
use std::process;
use std::ptr::{self, NonNull};

/// A shared mapping, unmapped on drop.
pub(crate) struct Mapping {
    start: NonNull<c_void>,
    bytes: usize,
    owner: u32,
}

// SAFETY: a mapping belongs to the process, not to a thread, and is reached only as atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` of `file`, which must be allocated (M1).
    ///
    /// Errors: `StorageFull` if they are not, and there is no space for them; what the system reports of blocks that cannot be read.
    pub(crate) fn new(file: BorrowedFd<'_>, bytes: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice aliases no memory of this program.
        let start = unsafe { mmap(ptr::null_mut(), bytes, access, flags, file, 0)? };
        let place = NonNull::new(start).expect("the kernel maps nothing at address 0 unasked");
        let mapping = Self { start: place, bytes, owner: process::id() };
        // SAFETY: the range was mapped above and nobody else knows it. A head start against first-write faults, and a look
        // whether they would be met (M1). Kernels before 5.14 refuse, and the mapping works all the same.
        if let Err(Errno::FAULT) = unsafe { madvise(start, bytes, Advice::LinuxPopulateWrite) } {
            return Err(why_refused(file, bytes));
        }
        // SAFETY: as above. A forked process would share the memory, but not the counters that say where to write in it:
        // better that it dies of a use than that both write to the same places.
        let _ = unsafe { madvise(start, bytes, Advice::LinuxDontFork) };
        Ok(mapping)
    }
}

/// Why memory could not be populated: of a block without space the system says the same as of one that the device cannot read.
fn why_refused(file: BorrowedFd<'_>, bytes: usize) -> io::Error {
    let mut part = vec![0; 1 << 20];
    let mut offsets = (0..bytes as u64).step_by(part.len());
    let unreadable = offsets.find_map(|offset| retry_on_intr(|| pread(file, &mut part[..], offset)).err());
    unreadable.unwrap_or(Errno::NOSPC).into()
}

impl SharedMemory for Mapping {
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: `bytes` of mapped, page-aligned memory that live as long as `self`; any bit pattern is a word, and
        // everybody, the kernel aside, reaches them only as atomics.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes / size_of::<AtomicU64>()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.owner != process::id() {
            return; // M3
        }
        // SAFETY: mapped in `new` with this length; `words` borrows from `self`, so no reference is left.
        unsafe { munmap(self.start.as_ptr(), self.bytes) }.expect("unmapping what was mapped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;

    fn page_without_name(test: &str) -> std::fs::File {
        let path = std::env::temp_dir().join(format!("foreshore-io-map-{test}-{}", process::id()));
        let file = std::fs::File::options().read(true).write(true).create_new(true).open(&path);
        std::fs::remove_file(&path).expect("removing a name");
        let file = file.expect("a temporary file");
        file.set_len(4096).expect("a length");
        file
    }

    /// M1: a store into what has no block, as behind the end of a file, would be the end of the process.
    #[test]
    fn memory_that_cannot_be_written_is_refused() {
        let file = page_without_name("full");
        Mapping::new(file.as_fd(), 4096).expect("all of it");
        let refused = Mapping::new(file.as_fd(), 2 * 4096).err().expect("more than there is");
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn what_cannot_be_read_is_not_called_full() {
        let unreadable = std::fs::File::options().write(true).open("/dev/null").expect("a device of Linux");
        assert_ne!(why_refused(unreadable.as_fd(), 4096).kind(), io::ErrorKind::StorageFull);
    }

    /// M3: who is forked finds nothing at its place, and may have put something there.
    #[test]
    fn a_forked_process_unmaps_nothing() {
        let file = page_without_name("fork");
        let mapping = Mapping::new(file.as_fd(), 4096).expect("all of it");
        // SAFETY: the child makes system calls, and ends by one, before it gets to what the parent goes on with.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let start = mapping.start.as_ptr();
            let (access, flags) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: the place is free, or this fails; and what is read is mapped, or that ends the child, as the parent will see.
            unsafe {
                let own = libc::mmap(start, 4096, access, flags | libc::MAP_FIXED_NOREPLACE, -1, 0);
                drop(mapping);
                let is_there = own == start && own.cast::<u8>().read_volatile() == 0;
                libc::_exit(i32::from(!is_there));
            }
        }
        let mut status = 0;
        // SAFETY: waits for our own child, with a place for its status.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
    }
}
