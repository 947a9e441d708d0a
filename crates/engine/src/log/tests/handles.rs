//! Two flights are in one segment, and the sync of the later one fails first: the earlier one's sync must not be believed
//! either, since the failed one may have lost its bytes. The disk tells both, because each flusher has a handle of its own.

use super::super::*;
use super::SMALL;
use foreshore_base::sync::AtomicUsize;
use foreshore_io::sim::{Fault, Repeat};
use foreshore_io::{Access, File, LockError, SharedMemory, SimDisk};
use std::io;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

/// A disk whose syncs, once this is armed, end in this order: the second, the first.
struct Crossed {
    disk: SimDisk,
    crossing: Arc<Crossing>,
}

struct Crossing {
    armed: AtomicBool,
    begun: AtomicUsize,
    second_is_over: Barrier,
}

struct CrossedFile {
    file: Arc<dyn File>,
    crossing: Arc<Crossing>,
}

impl Vfs for Crossed {
    fn open(&self, name: &str, access: Access, create: bool) -> io::Result<Arc<dyn File>> {
        let file = self.disk.open(name, access, create)?;
        Ok(Arc::new(CrossedFile { file, crossing: self.crossing.clone() }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.disk.sync_dir()
    }

    fn lock(&self, name: &str) -> std::result::Result<Box<dyn Send + Sync>, LockError> {
        self.disk.lock(name)
    }

    fn shared_memory(&self, name: &str, bytes: usize) -> io::Result<Arc<dyn SharedMemory>> {
        self.disk.shared_memory(name, bytes)
    }

    fn describe(&self) -> String {
        self.disk.describe()
    }
}

impl File for CrossedFile {
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(out, offset)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(data, offset)
    }

    fn sync(&self) -> io::Result<()> {
        if !self.crossing.armed.load(SeqCst) {
            return self.file.sync();
        }
        if self.crossing.begun.fetch_add(1, SeqCst) == 0 {
            self.crossing.second_is_over.wait();
            return self.file.sync();
        }
        let synced = self.file.sync();
        self.crossing.second_is_over.wait();
        thread::sleep(Duration::from_millis(20)); // the first goes on before the log knows of the failure
        synced
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.file.allocate(bytes)
    }
}

#[test]
fn a_failed_sync_is_told_to_the_flight_beside_it() {
    let disk = SimDisk::new(1);
    let crossing = Arc::new(Crossing {
        armed: AtomicBool::new(false),
        begun: AtomicUsize::new(0),
        second_is_over: Barrier::new(2),
    });
    let vfs = Arc::new(Crossed { disk: disk.clone(), crossing: crossing.clone() });
    let log = Log::open(vfs, SMALL, Incarnation::after(Lsn::ZERO)).unwrap();
    let append = || {
        log.room().unwrap();
        let reservation = log.reserve(10);
        let end = reservation.end();
        log.fill(reservation, &[1; 10]);
        log.commit(end, Durability::Sync)
    };
    // From here on only flights call the disk: what they want of segments ahead is there.
    append().unwrap();
    log.shared.segments.wait_prepared(Lsn(4 * SMALL.segment_bytes)).unwrap();
    crossing.armed.store(true, SeqCst);
    let first = thread::scope(|scope| {
        let first = scope.spawn(append);
        while crossing.begun.load(SeqCst) == 0 {
            thread::yield_now();
        }
        disk.fail_at(disk.events() + 1, Fault::Eio, Repeat::Once); // behind the second flight's write
        assert!(matches!(append(), Err(Error::Poisoned { .. })));
        first.join().unwrap()
    });
    assert!(
        matches!(first, Err(Error::Poisoned { .. })),
        "acknowledged beside a sync that failed: {first:?}"
    );
    assert!(log.close().is_err());
}
