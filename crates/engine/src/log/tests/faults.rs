//! Every call of the disk fails once, or for ever: typed errors, no false acknowledgement, no hang.

use super::super::*;
use super::SMALL;
use super::world::{Work, World};
use foreshore_io::SimDisk;
use foreshore_io::sim::Crash::{PowerLoss, ProcessKill};
use foreshore_io::sim::{Fault, Repeat};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

const WORK: Work = Work { threads: 3, records: 30, body_bytes_max: 3000, truncate: true };

/// Runs `test` on a thread of its own, and panics if it takes longer than a hang would.
fn without_hang(what: String, test: impl FnOnce() + Send + 'static) {
    let (done, waits) = channel();
    let thread = thread::spawn(move || {
        test();
        let _ = done.send(());
    });
    if waits.recv_timeout(Duration::from_secs(30)) == Err(RecvTimeoutError::Timeout) {
        panic!("{what}: still running after 30 s");
    }
    thread.join().unwrap_or_else(|_| panic!("{what}: see above"));
}

/// After the failure the power goes, or the log is opened again first, as the error advises. (Not on a disk that lets it take no name
/// back.)
fn fail_everywhere(fault: Fault, repeat: Repeat) {
    let reopened: &[bool] = if matches!(repeat, Repeat::Once) { &[false, true] } else { &[false] };
    for (event, is_reopened) in (0..60).flat_map(|event| reopened.iter().map(move |is| (event, *is))) {
        without_hang(format!("{fault:?} {repeat:?} at event {event}, reopened: {is_reopened}"), move || {
            let mut world = World::new(event);
            world.disk.fail_at(event, fault, repeat);
            for error in world.live(WORK) {
                let typed = matches!(error, Error::Full { .. } | Error::Poisoned { .. } | Error::Io { .. });
                assert!(typed, "{error}");
            }
            world.disk.clear_faults();
            if is_reopened {
                assert!(world.live(WORK).is_empty(), "and it builds on what is durable only");
            }
            world.crash(PowerLoss);
            assert!(world.live(WORK).is_empty(), "a new life begins without faults");
            world.crash(PowerLoss);
            world.recover().unwrap();
        });
    }
}

#[test]
fn io_errors_at_every_event() {
    fail_everywhere(Fault::Eio, Repeat::Once);
    fail_everywhere(Fault::Eio, Repeat::Forever);
}

#[test]
fn no_space_at_every_event() {
    fail_everywhere(Fault::Enospc, Repeat::Once);
    fail_everywhere(Fault::Enospc, Repeat::Forever);
}

#[test]
fn short_writes_at_every_event() {
    fail_everywhere(Fault::ShortWrite, Repeat::Once);
}

/// A recovery that cannot read says so, and changes nothing: the next one finds all of it.
#[test]
fn read_errors_at_every_event_of_a_recovery() {
    for read_event in 0.. {
        let mut world = World::new(7);
        assert!(world.live(WORK).is_empty());
        world.crash(ProcessKill);
        world.disk.fail_read_at(read_event, Repeat::Once);
        let failed = world.recover();
        assert!(matches!(failed, Ok(()) | Err(Error::Io { .. })), "{failed:?}");
        let last = world.disk.read_events() <= read_event;
        world.disk.clear_faults();
        world.recover().unwrap();
        if last {
            return;
        }
    }
}

/// On a full disk writers are refused before they change anything, all that was promised stays true, and when there is
/// space again they go on.
#[test]
fn a_full_disk_refuses_and_recovers() {
    without_hang("full disk".into(), || {
        let disk = SimDisk::new(1);
        disk.set_capacity(512 << 10);
        let log = Log::open(Arc::new(disk.clone()), SMALL, Incarnation::after(Lsn::ZERO)).unwrap();
        let append = || {
            log.room()?;
            let reservation = log.reserve(1000);
            let end = reservation.end();
            log.fill(reservation, &[1; 1000]);
            log.commit(end, Durability::Sync)
        };
        let mut written = 0;
        let refused = loop {
            match append() {
                Ok(()) => written += 1,
                Err(e) => break e,
            }
        };
        assert!(matches!(refused, Error::Full { .. }), "{refused}");
        assert!(written > 50, "{written} records");
        assert!(matches!(append(), Err(Error::Full { .. })));
        log.commit(log.reserved(), Durability::Sync).unwrap();
        log.truncate(log.durable(), 0);
        append().unwrap();
        disk.set_capacity(u64::MAX);
        (0..500).for_each(|_| append().unwrap());
        log.close().unwrap();
    });
}

/// The system keeps the space of a removed file while it is open, as by a carrier that flies seldom.
#[test]
fn space_that_the_log_gives_is_free() {
    let disk = SimDisk::new(1);
    let log = Log::open(Arc::new(disk.clone()), SMALL, Incarnation::after(Lsn::ZERO)).unwrap();
    let append = || {
        log.room().unwrap();
        let reservation = log.reserve(1000);
        let end = reservation.end();
        log.fill(reservation, &[1; 1000]);
        log.commit(end, Durability::Sync).unwrap();
    };
    {
        let _others_go_on = log.shared.flights.carriers.take();
        append();
    }
    (0..200).for_each(|_| append());
    log.hold_names(true);
    log.truncate(log.durable(), 0);
    assert!(log.give_space());
    let is_free = || disk.used_bytes() == disk.after_crash(ProcessKill, 1).used_bytes(); // what has a name, there
    let until = Instant::now() + Duration::from_secs(30);
    while !is_free() {
        assert!(Instant::now() < until, "a file that was removed is open");
        thread::yield_now(); // a segment may be in the making
    }
}

/// After a failed sync nothing is acknowledged, by anyone, in any mode.
#[test]
fn a_failed_sync_stops_the_log() {
    without_hang("failed sync".into(), || {
        let disk = SimDisk::new(1);
        let log = Log::open(Arc::new(disk.clone()), SMALL, Incarnation::after(Lsn::ZERO)).unwrap();
        log.room().unwrap();
        let reservation = log.reserve(10);
        let end = reservation.end();
        log.fill(reservation, &[1; 10]);
        // The flight asks for segments ahead of itself. They are there, so nobody but it calls the disk: a write, then the sync.
        log.shared.segments.wait_prepared(Lsn(4 * SMALL.segment_bytes)).unwrap();
        disk.fail_at(disk.events() + 1, Fault::Eio, Repeat::Once);
        let refused = log.commit(end, Durability::Sync).unwrap_err();
        assert!(matches!(&refused, Error::Poisoned { cause } if cause.contains("wal-")), "{refused}");
        for durability in [Durability::Sync, Durability::Buffered, Durability::Relaxed] {
            assert!(matches!(log.commit(end, durability), Err(Error::Poisoned { .. })));
        }
        assert!(matches!(log.room(), Err(Error::Poisoned { .. })));
        assert!(matches!(log.close(), Err(Error::Poisoned { .. })));
        assert_eq!(log.durable(), Lsn::ZERO);
    });
}

/// A thread of the log that panics leaves nobody waiting for what it was to do.
#[test]
fn a_panic_stops_the_log() {
    without_hang("panic".into(), || {
        let log = Log::open(Arc::new(SimDisk::new(1)), SMALL, Incarnation::after(Lsn::ZERO)).unwrap();
        log.shared.start_thread("foreshore-test", || panic!("a test")).unwrap();
        let never = log.reserved() + SMALL.ring();
        let refused = log.commit(never, Durability::Sync).unwrap_err();
        assert!(
            matches!(&refused, Error::Poisoned { cause } if cause == "a thread of the log panicked"),
            "{refused}"
        );
        assert!(matches!(log.room(), Err(Error::Poisoned { .. })));
        assert!(log.shared.segments.wait_prepared(never + 2 * SMALL.ring()).is_err());
    });
}
