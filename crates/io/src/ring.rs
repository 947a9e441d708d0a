//! Many transfers under way at once, from one thread: io_uring.
//!
//! Why: a device answers many requests in about the time of one, and one call for all of them costs the processor less than
//! a call for each.
//! Differs from what most do with it: no event loop. Whoever has many transfers hands them over and waits for all; each thread
//! that does so has a ring of its own, so nothing is shared.
//!
//! Some systems have none: Linux before 5.6, and many containers, which forbid it. A thread finds out once; or later, if the process
//! has itself confined when its files are open. And of very many threads
//! not each has one, since it takes a descriptor as long as its thread lives, and others need descriptors too.
//!
//! Invariants:
//! - U1: the kernel has a transfer's memory only while that is borrowed: nobody leaves [`run`] while one is under way, not even
//!   by a panic.
//! - U2: a ring is used by the process alone that opened it. A forked one, which has the same memory, would put its transfers among
//!   its parent's.

use io_uring::types::Fd;
use io_uring::{IoUring, Probe, opcode, squeue};
use rustix::fd::{AsRawFd, BorrowedFd};
use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::{process, thread};

/// Transfers that are under way at once, at most.
const DEPTH: u32 = 64;

/// What is left of a longer transfer is for the caller to go on with, as after a short count.
const BYTES_MAX: usize = 1 << 30;

thread_local! {
    static RING: RefCell<Option<Own>> = const { RefCell::new(None) };
}

/// Rings of all threads together, at most: a process often may have 1024 descriptors.
const RINGS_MAX: usize = 256;

/// How many there are, or were asked for in vain.
static RINGS: AtomicUsize = AtomicUsize::new(0);

/// What this thread found out when it asked for a ring first, and in which process.
struct Own {
    process: u32,
    ring: Option<IoUring>,
}

impl Own {
    /// Where the ring of this thread in this process is (U2), if there is one.
    fn ring(own: &mut Option<Self>) -> Option<&mut Option<IoUring>> {
        let process = process::id();
        if own.as_ref().is_none_or(|own| own.process != process) {
            *own = None;
            RINGS.fetch_update(Relaxed, Relaxed, |rings| (rings < RINGS_MAX).then_some(rings + 1)).ok()?;
            *own = Some(Self { process, ring: open().ok() });
        }
        own.as_mut().map(|own| &mut own.ring).filter(|ring| ring.is_some())
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        RINGS.fetch_sub(1, Relaxed);
    }
}

/// A ring that works: a system may allow a part of what it takes, or know other transfers only.
fn open() -> io::Result<IoUring> {
    // The thread is told of what is complete at its next call, whichever that is, and is not interrupted.
    let quiet = IoUring::builder().setup_single_issuer().setup_coop_taskrun().build(DEPTH);
    let mut ring = quiet.or_else(|_| IoUring::new(DEPTH))?; // before Linux 6.0
    let mut known = Probe::new();
    ring.submitter().register_probe(&mut known)?;
    if ![opcode::Read::CODE, opcode::Write::CODE].into_iter().all(|code| known.is_supported(code)) {
        return Err(ErrorKind::Unsupported.into());
    }
    // SAFETY: it points to nothing.
    unsafe { ring.submission().push(&opcode::Nop::new().build()) }.expect("an empty ring has a place");
    ring.submit_and_wait(1)?;
    ring.completion().next().ok_or(ErrorKind::Unsupported)?;
    Ok(ring)
}

/// Does this thread have a ring?
pub(crate) fn is_there() -> bool {
    let has = |own: &RefCell<_>| own.try_borrow_mut().is_ok_and(|mut own| Own::ring(&mut own).is_some());
    RING.try_with(has).unwrap_or(false)
}

/// Writes each piece of data at its offset, in no order, and tells `done` of each how many of its bytes are written. `false`, and
/// nothing has happened, if there is no ring.
pub(crate) fn write(
    file: BorrowedFd<'_>,
    writes: &[(u64, &[u8])],
    done: impl FnMut(usize, io::Result<usize>),
) -> bool {
    let fd = Fd(file.as_raw_fd());
    let entries = writes.iter().map(|(offset, data)| {
        opcode::Write::new(fd, data.as_ptr(), data.len().min(BYTES_MAX) as u32).offset(*offset).build()
    });
    // SAFETY: file and data are borrowed for as long as this call takes.
    unsafe { run(entries, done) }
}

/// Fills each piece of memory from its offset, in no order, and tells `done` of each how many of its bytes are there. `false`, and
/// nothing has happened, if there is no ring.
pub(crate) fn read(
    file: BorrowedFd<'_>,
    reads: &mut [(u64, &mut [u8])],
    mut done: impl FnMut(usize, u64, &mut [u8], io::Result<usize>),
) -> bool {
    let fd = Fd(file.as_raw_fd());
    let begin = |(offset, out): &mut (u64, &mut [u8])| {
        opcode::Read::new(fd, out.as_mut_ptr(), out.len().min(BYTES_MAX) as u32).offset(*offset).build()
    };
    let entries: Vec<_> = reads.iter_mut().map(begin).collect();
    // SAFETY: file and memory are borrowed for as long as this call takes, and nobody looks at a piece before it has landed.
    unsafe {
        run(entries.into_iter(), |i, count| {
            let (offset, out) = &mut reads[i];
            done(i, *offset, out, count);
        })
    }
}

/// Carries out all `entries`.
///
/// # Safety
/// What they point to must live, and must not be used by others in ways that the transfers exclude, until `done` is called with
/// the entry's number.
unsafe fn run(
    entries: impl Iterator<Item = squeue::Entry>,
    mut done: impl FnMut(usize, io::Result<usize>),
) -> bool {
    let ran = RING.try_with(|own| {
        // Somebody's `done` may have transfers of its own to do.
        let Ok(mut own) = own.try_borrow_mut() else { return false };
        let Some(ring) = Own::ring(&mut own) else { return false };
        let mut flying = Flying { ring, count: 0 };
        let (mut entries, mut pushed) = ((0..).zip(entries).fuse(), 0);
        loop {
            for (i, entry) in entries.by_ref().take((DEPTH - flying.count) as usize) {
                // SAFETY: by this function's contract, and U1: `flying` waits for it.
                unsafe { flying.push(&entry.user_data(i)) };
                pushed = i + 1;
            }
            if flying.count == 0 {
                return true;
            }
            if !flying.wait() {
                break;
            }
            while let Some((i, result)) = flying.land() {
                done(i, result);
            }
        }
        // The process has been forbidden rings since: the last ones did not get into the kernel, nor will others.
        let refused = pushed - u64::from(std::mem::take(&mut flying.count))..pushed;
        drop(flying);
        let refused = refused.chain(entries.map(|(i, _)| i));
        refused.for_each(|i| done(i as usize, Err(ErrorKind::WouldBlock.into())));
        true
    });
    ran.unwrap_or(false) // a thread that ends, and has given up its ring
}

/// Is the kernel short of memory, or of places for what is complete?
fn is_passing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::ResourceBusy)
}

/// Is this what a process hears that has itself confined?
fn is_refusal(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::PermissionDenied | ErrorKind::Unsupported)
}

/// Transfers under way, none of which is left behind (U1).
struct Flying<'a> {
    /// There is one, until it refuses.
    ring: &'a mut Option<IoUring>,
    count: u32,
}

impl Flying<'_> {
    fn ring(&mut self) -> &mut IoUring {
        self.ring.as_mut().expect("nobody asks one that has refused")
    }

    /// One more, which begins at the next [`Flying::wait`].
    ///
    /// # Safety
    /// As for [`run`], until it has landed.
    unsafe fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: handed on to the caller.
        unsafe { self.ring().submission().push(entry) }.expect("no more are under way than there are places");
        self.count += 1;
    }

    /// Waits until one of them is complete; `false`: none is under way any more, and the kernel refuses the rest. That has the ring
    /// given up: those that did not get into the kernel would go there with the next ones, when nobody has their memory any more.
    fn wait(&mut self) -> bool {
        while let Err(error) = self.ring().submit_and_wait(1) {
            let kind = error.kind();
            let refused = self.ring().submission().len();
            let all_refused = refused == self.count as usize;
            match kind {
                ErrorKind::Interrupted => {}
                _ if all_refused && !is_passing(kind) => {
                    *self.ring = None;
                    return false;
                }
                // If the process has been forbidden rings: those under way go on, and show when it comes back from any call.
                _ if is_passing(kind) || is_refusal(kind) => {
                    if !self.ring().completion().is_empty() {
                        return true;
                    }
                    thread::yield_now();
                }
                _ => {
                    // Nobody knows which memory the kernel is still going to use.
                    eprintln!("foreshore: io_uring has failed ({error}); the process cannot go on");
                    process::abort();
                }
            }
        }
        true
    }

    /// One that is complete: its number, and what came of it.
    fn land(&mut self) -> Option<(usize, io::Result<usize>)> {
        let entry = self.ring().completion().next()?;
        self.count -= 1;
        let result =
            usize::try_from(entry.result()).map_err(|_| io::Error::from_raw_os_error(-entry.result()));
        Some((entry.user_data() as usize, result))
    }
}

impl Drop for Flying<'_> {
    fn drop(&mut self) {
        while self.count > 0 && self.wait() {
            while self.land().is_some() {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Barrier;

    /// A file of the test's own that has no name, and pieces of data for it: one byte each, the last one first.
    fn file() -> std::fs::File {
        let path = std::env::temp_dir().join(format!("foreshore-io-ring-{:?}", thread::current().id()));
        let file = std::fs::File::options().read(true).write(true).create(true).truncate(true).open(&path);
        std::fs::remove_file(&path).expect("removing a name");
        file.expect("a temporary file")
    }

    fn pieces(bytes: &[u8]) -> Vec<(u64, &[u8])> {
        bytes.chunks(1).enumerate().rev().map(|(offset, byte)| (offset as u64, byte)).collect()
    }

    fn content(file: &std::fs::File) -> Vec<u8> {
        let mut bytes = vec![0; file.metadata().expect("its length").len() as usize];
        std::os::unix::fs::FileExt::read_exact_at(file, &mut bytes, 0).expect("what was written");
        bytes
    }

    #[test]
    fn more_pieces_than_places_are_all_written() {
        let (file, bytes) = (file(), (0..=255).cycle().take(1000).collect::<Vec<u8>>());
        let mut told = vec![0; bytes.len()];
        let ran = write(file.as_fd(), &pieces(&bytes), |i, written| {
            assert_eq!(written.expect("a write"), 1);
            told[i] += 1;
        });
        if ran {
            assert_eq!(content(&file), bytes);
            assert!(told.iter().all(|&times| times == 1));
        }
    }

    /// U1: what was under way has landed; and the thread's ring can still be used.
    #[test]
    fn a_panic_leaves_nothing_under_way() {
        let (file, bytes) = (file(), [7; 100]);
        let told =
            catch_unwind(AssertUnwindSafe(|| write(file.as_fd(), &pieces(&bytes), |_, _| panic!("a test"))));
        if told.is_err() {
            let begun = &content(&file)[bytes.len() - DEPTH as usize..];
            assert!(begun.iter().all(|&byte| byte == 7));
            assert!(write(file.as_fd(), &pieces(&[8; 100]), |_, written| assert_eq!(
                written.expect("a write"),
                1
            )));
            assert_eq!(content(&file), [8; 100]);
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let (file, bytes) = (file(), (0..=255).cycle().take(1000).collect::<Vec<u8>>());
        std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).expect("a write");
        let mut content = vec![0; bytes.len() + 1];
        let mut reads: Vec<_> = (0..).zip(content.chunks_mut(1)).collect();
        reads.reverse();
        let mut told = 0;
        let ran = read(file.as_fd(), &mut reads, |i, offset, out, count| {
            let at = bytes.len() - i;
            assert_eq!(offset as usize, at);
            match count.expect("a read") {
                0 => assert_eq!(at, bytes.len(), "the end of the file"),
                _ => assert_eq!(out, &bytes[at..=at]),
            }
            told += 1;
        });
        assert_eq!(told, if ran { bytes.len() + 1 } else { 0 });
        assert!(!ran || content[..bytes.len()] == bytes);
    }

    /// U1: a panic may leave some behind that had been refused. The next ones must not take them along.
    #[test]
    fn what_was_refused_goes_with_its_ring() {
        let Ok(ring) = open() else { return };
        let refuses = ring.params().is_setup_single_issuer(); // any other thread
        let mut ring = Some(ring);
        let leave_one = || {
            let mut flying = Flying { ring: &mut ring, count: 0 };
            // SAFETY: it points to nothing.
            unsafe { flying.push(&opcode::Nop::new().build()) };
        };
        thread::scope(|scope| scope.spawn(leave_one).join().expect("no panic"));
        assert_eq!(ring.is_none(), refuses);
    }

    #[test]
    fn who_is_told_finds_no_ring() {
        let (file, bytes) = (file(), [1; 2]);
        write(file.as_fd(), &pieces(&bytes), |_, _| {
            assert!(!write(file.as_fd(), &pieces(&bytes), |_, _| unreachable!()));
        });
    }

    /// A database may be closed by a thread that ends.
    #[test]
    fn a_thread_that_ends_may_write() {
        struct Writes;
        impl Drop for Writes {
            fn drop(&mut self) {
                write(file().as_fd(), &pieces(&[1; 2]), |_, written| {
                    assert_eq!(written.expect("a write"), 1)
                });
            }
        }
        thread_local! {
            static BEFORE: Writes = const { Writes };
            static AFTER: Writes = const { Writes };
        }
        let thread = thread::spawn(|| {
            BEFORE.with(|_| {});
            RING.with(|_| {});
            AFTER.with(|_| {});
        });
        thread.join().expect("no panic"); // one in a destructor ends the process
    }

    /// Others need descriptors too; and a thread that has ended needs none.
    #[test]
    fn of_many_threads_not_each_has_a_ring() {
        const THREADS: usize = RINGS_MAX + 50;
        for _ in 0..2 {
            let (all, have) = (Barrier::new(THREADS), AtomicUsize::new(0));
            thread::scope(|scope| {
                let ask = || {
                    have.fetch_add(usize::from(is_there()), Relaxed);
                    all.wait();
                };
                let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(ask)).collect();
                // With what it has of its own, unlike the end of the scope.
                threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
            });
            let have = have.into_inner();
            assert!(have <= RINGS_MAX, "{have} rings");
            assert!(have == 0 || have > RINGS_MAX / 2, "{have} rings");
        }
    }

    #[test]
    fn each_failure_is_told() {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("a device of Linux");
        let mut failures = 0;
        let ran = write(full.as_fd(), &pieces(&[1; 100]), |_, written| {
            assert_eq!(written.expect_err("no space").kind(), ErrorKind::StorageFull);
            failures += 1;
        });
        assert_eq!(failures, if ran { 100 } else { 0 });
    }
}
