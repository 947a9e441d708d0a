//! Tasks that go on where they are woken: by the thread that carries flights.

use super::super::*;
use super::SMALL;
use foreshore_base::sync::AtomicUsize;
use foreshore_io::SimDisk;
use foreshore_io::sim::{Call, Intercepted};
use parking_lot::Mutex;
use std::ptr;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{RawWaker, RawWakerVTable, Wake};
use std::thread;
use std::time::Duration;

/// Waits, where it is woken, until it hears from a thread, and says whether it has.
struct Listens(Mutex<Receiver<()>>, Sender<bool>);

impl Wake for Listens {
    fn wake(self: Arc<Self>) {
        let heard = self.0.lock().recv_timeout(Duration::from_secs(30));
        self.1.send(heard.is_ok()).unwrap();
    }
}

/// Who waits for a place in the buffer is woken before them: it has reserved the place, so nothing that they write becomes durable before
/// it has gone on.
#[test]
fn a_task_may_wait_for_who_waits_for_a_place() {
    let (gates, begun) = (Arc::new([Mutex::new(()), Mutex::new(())]), Arc::new(AtomicUsize::new(0)));
    let (its_gates, its_begun) = (gates.clone(), begun.clone());
    // Syncs of flights, one after the other, wait at the first gate, and all others at the second.
    let vfs = Intercepted::new(SimDisk::new(1), move |call, name, go| {
        if call == Call::Sync && name.starts_with("wal-0") {
            let gate = its_begun.fetch_add(1, SeqCst).min(1);
            drop(its_gates[gate].lock());
        }
        go()
    });
    let log = Log::open(Arc::new(vfs), SMALL, Incarnation::after(Lsn::ZERO)).unwrap();
    let append = |bytes: usize| {
        let record = log.reserve(bytes - HEADER_BYTES);
        let end = record.end();
        log.fill(record, &vec![1; bytes - HEADER_BYTES]);
        end
    };
    let flights = |count| {
        while begun.load(SeqCst) < count {
            thread::yield_now();
        }
    };
    let (first, second) = (gates[0].lock(), gates[1].lock());
    let ((written, hears), (told, is_told)) = (channel(), channel());
    let task: Waker = Arc::new(Listens(Mutex::new(hears), told)).into();
    let end = append(64);
    assert!(log.poll_commit(end, Some(Wanted::Own), &task, &mut None).is_pending());
    flights(1);
    // Nobody asks for a flight until the buffer is full, but for a place that the first one gives back.
    let ring = SMALL.ring();
    while log.reserved() < Lsn(ring - options::BLOCK) {
        append(4096);
    }
    thread::scope(|scope| {
        scope.spawn(|| {
            append(4096);
            written.send(()).unwrap();
        });
        flights(2);
        while log.shared.flights.flushed_waiters.len() == 0 {
            thread::yield_now();
        }
        drop(first);
        assert!(is_told.recv().unwrap(), "it is asleep as long as the task waits for it");
        drop(second);
    });
    log.close().unwrap();
}

/// Tells that it is woken and waits, right there, until it hears from a thread; it may say so before. Then it says whether it has heard.
struct WaitsFor {
    thread: Mutex<Receiver<()>>,
    is_woken: Sender<()>,
    says_so: bool,
    has_heard: Sender<bool>,
}

impl Wake for WaitsFor {
    fn wake(self: Arc<Self>) {
        self.is_woken.send(()).unwrap();
        if self.says_so {
            crate::waits::will_wait();
        }
        let heard = self.thread.lock().recv_timeout(Duration::from_secs(30));
        self.has_heard.send(heard.is_ok()).unwrap();
    }
}

/// Who has asked for a flight is not forgotten by the flusher that hears of it and wakes tasks before it flies.
#[test]
fn a_task_may_wait_for_who_has_asked_for_a_flight_before() {
    for says_so in [true, false] {
        let gates = Arc::new([Mutex::new(()), Mutex::new(())]);
        let begun = Arc::new(AtomicUsize::new(0));
        let (its_gates, its_begun) = (gates.clone(), begun.clone());
        // The first two syncs of flights wait at their gates.
        let vfs = Intercepted::new(SimDisk::new(1), move |call, name, go| {
            if call == Call::Sync
                && name.starts_with("wal-0")
                && let Some(gate) = its_gates.get(its_begun.fetch_add(1, SeqCst))
            {
                drop(gate.lock());
            }
            go()
        });
        let log = Log::open(Arc::new(vfs), SMALL, Incarnation::after(Lsn::ZERO)).unwrap();
        while log.shared.flights.doorbell.idle() < options::FLIGHTS {
            thread::yield_now(); // one that has just begun would look at what is wanted by itself
        }
        let append = || {
            let record = log.reserve(10);
            let end = record.end();
            log.fill(record, &[1; 10]);
            end
        };
        let flights = |count| {
            while begun.load(SeqCst) < count {
                thread::yield_now();
            }
        };
        let ((committed, thread), (is_woken, woken), (has_heard, told)) = (channel(), channel(), channel());
        let task: Waker =
            Arc::new(WaitsFor { thread: Mutex::new(thread), is_woken, says_so, has_heard }).into();
        let (first, second) = (gates[0].lock(), gates[1].lock());
        let log = &log;
        let commit = move |end| log.commit(end, Durability::Sync).unwrap();
        thread::scope(|scope| {
            let end = append();
            scope.spawn(move || commit(end));
            flights(1);
            assert!(log.poll_commit(end, None, &task, &mut None).is_pending());
            let end = append();
            scope.spawn(move || commit(end));
            flights(2);
            // All are under way, and few commit: this one asks for the next flight, and calls nobody.
            let end = append();
            scope.spawn(move || {
                commit(end);
                committed.send(()).unwrap();
            });
            while log.shared.flights.durable_waiters.len() == 0 {
                thread::yield_now();
            }
            drop(first);
            woken.recv().unwrap();
            drop(second);
            let has_heard = loop {
                log.nudge(); // as the upkeep does
                if let Ok(has_heard) = told.recv_timeout(Duration::from_millis(50)) {
                    break has_heard;
                }
            };
            assert!(has_heard, "says so: {says_so}; the commit waits as long as the task waits for it");
        });
        log.close().unwrap();
    }
}

/// A waker whose copy is made, when a task begins to wait, in the moment in which its commit becomes durable.
static LOG: OnceLock<Log> = OnceLock::new();
static LATE: RawWakerVTable = RawWakerVTable::new(sync_and_copy, |_| {}, |_| {}, |_| {});

fn sync_and_copy(_: *const ()) -> RawWaker {
    let log = LOG.get().unwrap();
    log.commit(log.reserved(), Durability::Sync).unwrap();
    RawWaker::new(ptr::null(), &LATE)
}

/// Nobody wakes a task whose commit has landed before it was among those who wait: it looks once more.
#[test]
fn a_task_that_comes_late_is_told() {
    let opened = Log::open(Arc::new(SimDisk::new(1)), SMALL, Incarnation::after(Lsn::ZERO)).unwrap();
    let log = LOG.get_or_init(|| opened);
    let record = log.reserve(1);
    let end = record.end();
    log.fill(record, &[1]);
    // SAFETY: none of the functions uses the pointer, and all may be called by any thread.
    let task = unsafe { Waker::new(ptr::null(), &LATE) };
    assert!(log.poll_commit(end, None, &task, &mut None).is_ready());
    log.close().unwrap();
}
