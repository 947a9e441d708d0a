//! Flights that a thread which waits for one carries itself.

use super::super::*;
use super::SMALL;
use foreshore_io::SimDisk;
use foreshore_io::sim::{Call, Intercepted};
use parking_lot::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Wake;
use std::thread::{self, ThreadId};
use std::time::Duration;

const A_WHILE: Duration = Duration::from_millis(50);

/// A log on a disk that calls `sync` before each sync of a segment.
fn with_syncs(sync: impl Fn() + Send + Sync + 'static) -> Log {
    let vfs = Intercepted::new(SimDisk::new(1), move |call, name, go| {
        if call == Call::Sync && name.starts_with("wal-0") {
            sync();
        }
        go()
    });
    Log::open(Arc::new(vfs), SMALL, Incarnation::after(Lsn::ZERO)).unwrap()
}

/// A log whose syncs say which thread has begun them, and then wait at the gate.
fn with_gate() -> (Log, Receiver<ThreadId>, Arc<Mutex<()>>) {
    let gate = Arc::new(Mutex::new(()));
    let (its_gate, (begins, begun)) = (gate.clone(), channel());
    let log = with_syncs(move || {
        begins.send(thread::current().id()).unwrap();
        drop(its_gate.lock());
    });
    (log, begun, gate)
}

fn append(log: &Log) -> Lsn {
    let record = log.reserve(10);
    let end = record.end();
    log.fill(record, &[1; 10]);
    end
}

/// Two threads that wake each other would take as long as a fast device.
#[test]
fn who_commits_alone_wakes_nobody() {
    let (told, synced) = channel();
    let log = with_syncs(move || told.send(thread::current().id()).unwrap());
    for _ in 0..3 {
        log.commit(append(&log), Durability::Sync).unwrap();
        assert_eq!(synced.recv(), Ok(thread::current().id()));
    }
    assert_eq!((log.stats().syncs, log.stats().waits), (3, 3));
    log.close().unwrap();
}

/// Who finds all flights under way wakes nobody, and goes with the next one.
#[test]
fn a_commit_beside_own_flights_is_not_forgotten() {
    let (log, begun, gate) = with_gate();
    let (shut, log) = (gate.lock(), Arc::new(log));
    let commits = |done: Sender<()>| {
        let log = log.clone();
        thread::spawn(move || {
            log.commit(append(&log), Durability::Sync).unwrap();
            _ = done.send(());
        })
    };
    let (done, is_done) = channel();
    for _ in 0..options::FLIGHTS {
        let committer = commits(done.clone());
        assert_eq!(begun.recv(), Ok(committer.thread().id()));
    }
    commits(done);
    while log.shared.flights.durable_waiters.len() == 0 {
        thread::yield_now();
    }
    drop(shut);
    for _ in 0..=options::FLIGHTS {
        is_done.recv_timeout(Duration::from_secs(30)).expect("a commit waits for ever");
    }
    log.close().unwrap();
}

/// Tells by whom it was woken.
struct Tells(Sender<ThreadId>);

impl Wake for Tells {
    fn wake(self: Arc<Self>) {
        self.0.send(thread::current().id()).unwrap();
    }
}

/// What it does where it is woken may want what the committer holds.
#[test]
fn a_task_is_not_woken_by_who_commits() {
    let (log, begun, gate) = with_gate();
    let (told, woken) = channel();
    let (shut, log) = (gate.lock(), &log);
    thread::scope(|scope| {
        let end = append(log);
        let committer =
            scope.spawn(move || log.commit(end, Durability::Sync).map(|()| thread::current().id()));
        begun.recv().unwrap();
        let task: Waker = Arc::new(Tells(told)).into();
        assert!(log.poll_commit(end, Some(Wanted::Own), &task, &mut None).is_pending());
        drop(shut);
        let committer = committer.join().unwrap().unwrap();
        let by = woken.recv_timeout(Duration::from_secs(30)).expect("nobody woke it");
        assert!(by != committer && by != thread::current().id());
    });
    log.close().unwrap();
}

/// Another process may have opened the files by the time that a late write reaches them.
#[test]
fn nothing_is_written_once_the_log_is_closed() {
    let (log, begun, gate) = with_gate();
    let shut = gate.lock();
    thread::scope(|scope| {
        let committer = scope.spawn(|| log.commit(append(&log), Durability::Sync));
        begun.recv().unwrap();
        log.shared.fail(&Error::Poisoned { cause: "a test".into() });
        let closer = scope.spawn(|| log.close());
        thread::sleep(A_WHILE);
        assert!(!closer.is_finished(), "a flight is under way");
        drop(shut);
        assert!(closer.join().unwrap().is_err() && committer.join().unwrap().is_err());
    });
    assert!(log.shared.fly_next().is_err());
    assert!(begun.try_recv().is_err(), "it was written to");
}

/// A task whose commit is durable is told so, also if what others have written since is still under way.
#[test]
fn a_task_does_not_wait_for_the_next_flight() {
    let gates = Arc::new([Mutex::new(()), Mutex::new(())]);
    let (its_gates, (begins, begun)) = (gates.clone(), channel());
    let flights = AtomicU64::new(0);
    let log = with_syncs(move || {
        let nth = flights.fetch_add(1, SeqCst).min(1) as usize;
        begins.send(()).unwrap();
        drop(its_gates[nth].lock());
    });
    let (told, woken) = channel();
    let (first, second, log) = (gates[0].lock(), gates[1].lock(), &log);
    thread::scope(|scope| {
        let end = append(log);
        let committer = scope.spawn(move || log.commit(end, Durability::Sync));
        begun.recv().unwrap();
        let task: Waker = Arc::new(Tells(told)).into();
        assert!(log.poll_commit(end, Some(Wanted::Own), &task, &mut None).is_pending());
        append(log); // by somebody who does not wait
        drop(first);
        committer.join().unwrap().unwrap();
        let woken = woken.recv_timeout(Duration::from_secs(5));
        drop(second);
        woken.expect("its commit has been durable for five seconds");
    });
    log.close().unwrap();
}
