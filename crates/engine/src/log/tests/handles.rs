//! Two flights are in one segment, and the sync of the later one fails first: the earlier one's sync must not be believed
//! either, since the failed one may have lost its bytes. The disk tells both, because each flusher has a handle of its own.

use super::super::*;
use super::SMALL;
use foreshore_base::sync::AtomicUsize;
use foreshore_io::SimDisk;
use foreshore_io::sim::{Call, Fault, Go, Intercepted, Repeat};
use std::io;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

/// A disk whose syncs, once this is armed, end in this order: the second, the first.
struct Crossing {
    armed: AtomicBool,
    begun: AtomicUsize,
    second_is_over: Barrier,
}

impl Crossing {
    fn around(&self, call: Call, go: &mut Go<'_>) -> io::Result<()> {
        if call != Call::Sync || !self.armed.load(SeqCst) {
            return go();
        }
        if self.begun.fetch_add(1, SeqCst) == 0 {
            self.second_is_over.wait();
            return go();
        }
        let synced = go();
        self.second_is_over.wait();
        thread::sleep(Duration::from_millis(20)); // the first goes on before the log knows of the failure
        synced
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
    let crossed = crossing.clone();
    let vfs = Arc::new(Intercepted::new(disk.clone(), move |call, _, go| crossed.around(call, go)));
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
