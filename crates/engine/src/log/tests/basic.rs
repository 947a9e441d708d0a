//! One thread, no crash: what is written is read back.

use super::super::*;
use foreshore_io::SimDisk;
use std::time::{Duration, Instant};

const OPTIONS: LogOptions = super::SMALL;

fn append(log: &Log, body: &[u8]) -> (Lsn, Lsn) {
    log.room().unwrap();
    let reservation = log.reserve(body.len());
    let place = (reservation.start(), reservation.end());
    log.fill(reservation, body);
    place
}

fn read_all(vfs: &Arc<dyn Vfs>, incarnations: &[Incarnation], from: Lsn) -> Vec<(Lsn, Lsn, Vec<u8>)> {
    let mut reader = LogReader::open(vfs, OPTIONS, incarnations, from).unwrap();
    let mut all = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        all.push((record.start, record.end, record.body.to_vec()));
    }
    all
}

fn body(i: usize) -> Vec<u8> {
    let len = 1 + i * 37 % 500;
    (0..len).map(|j| if j == 0 { 1 } else { (i + j) as u8 }).collect()
}

/// Ten laps of the ring, through segments that are prepared, recycled and removed on the way, and three lives.
#[test]
fn what_is_written_is_read_back() {
    let vfs: Arc<dyn Vfs> = Arc::new(SimDisk::new(1));
    let mut incarnations = Vec::new();
    let mut written = Vec::new();
    let mut end = Lsn::ZERO;
    for life in 0..3 {
        incarnations.push(Incarnation::after(end));
        let log = Log::open(vfs.clone(), OPTIONS, *incarnations.last().unwrap()).unwrap();
        for i in 0..1000 {
            let body = body(life * 1000 + i);
            let (start, end) = append(&log, &body);
            written.push((start, end, body));
            if i % 10 == 0 {
                let durability = [Durability::Sync, Durability::Buffered, Durability::Relaxed][i / 10 % 3];
                log.commit(end, durability).unwrap();
            }
        }
        log.close().unwrap();
        drop(log);
        let mut reader = LogReader::open(&vfs, OPTIONS, &incarnations, Lsn::ZERO).unwrap();
        while reader.next().unwrap().is_some() {}
        assert!(reader.is_synced(), "a closed log has nothing in the ring");
        end = repair_tail(&vfs, OPTIONS, &incarnations, Lsn::ZERO).unwrap();
        assert!(read_all(&vfs, &incarnations, Lsn::ZERO) == written);
    }
    let middle = written.len() / 2;
    assert!(read_all(&vfs, &incarnations, written[middle].0) == written[middle..]);
}

#[test]
fn truncation_recycles_segments() {
    let few = files_after_truncations(0);
    assert!(few < 20, "{few} files are left");
    let kept = 64;
    let more = files_after_truncations(kept * OPTIONS.segment_bytes);
    assert!(
        more >= 40 && more <= kept as usize,
        "{more} files are left, none of the 40 first ones may be removed"
    );
}

/// Appends 40 segments to a log, and as many again, which it truncates again and again; what is not truncated can be
/// read.
fn files_after_truncations(bytes_kept: u64) -> usize {
    let disk = SimDisk::new(1);
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let incarnation = Incarnation::after(Lsn::ZERO);
    let log = Log::open(vfs.clone(), OPTIONS, incarnation).unwrap();
    let mut last = Vec::new();
    let mut redo = Lsn::ZERO;
    for i in 0..20_000 {
        let body = body(i);
        let (start, end) = append(&log, &body);
        if i >= 10_000 && i % 1000 == 0 {
            log.commit(end, Durability::Sync).unwrap();
            log.truncate(start, bytes_kept);
            last.clear();
            redo = start;
        }
        last.push((start, end, body));
    }
    log.close().unwrap();
    let files = disk.names().len();
    assert!((files as u64) < redo.0 / OPTIONS.segment_bytes, "{files} files are left: all of them");
    assert!(read_all(&vfs, &[incarnation], redo) == last);
    files
}

/// What somebody has cut or lengthened while nobody needed it does not become the log's next segment.
#[test]
fn a_segment_of_another_length_is_not_recycled() {
    let disk = SimDisk::new(1);
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let incarnation = Incarnation::after(Lsn::ZERO);
    let log = Log::open(vfs.clone(), OPTIONS, incarnation).unwrap();
    let mut last = Vec::new();
    for i in 0..4000 {
        let body = body(i);
        let (start, end) = append(&log, &body);
        log.commit(end, Durability::Sync).unwrap();
        if i == 1000 {
            log.truncate(start, 64 * OPTIONS.segment_bytes);
            // The newest are used first: these wait.
            assert!(start.0 / OPTIONS.segment_bytes > 50);
            for n in 0..30 {
                let len = if n % 2 == 0 { 512 } else { OPTIONS.segment_bytes as usize + 512 };
                disk.corrupt(&segments::name(n), |bytes| bytes.resize(len, 7));
            }
        }
        if i >= 1000 {
            last.push((start, end, body));
        }
    }
    log.close().unwrap();
    assert!(read_all(&vfs, &[incarnation], last[0].0) == last);
}

#[test]
fn bodies_of_every_length() {
    let vfs: Arc<dyn Vfs> = Arc::new(SimDisk::new(1));
    let incarnation = Incarnation::after(Lsn::ZERO);
    let log = Log::open(vfs.clone(), OPTIONS, incarnation).unwrap();
    let mut written = Vec::new();
    for len in (1..200).chain([1000, OPTIONS.body_bytes_max()]) {
        let body: Vec<u8> = (0..len).map(|i| 1 + (i % 250) as u8).collect();
        log.room().unwrap();
        let reservation = log.reserve(len);
        let (start, end) = (reservation.start(), reservation.end());
        log.fill(reservation, &body);
        written.push((start, end, body));
    }
    log.close().unwrap();
    assert!(read_all(&vfs, &[incarnation], Lsn::ZERO) == written);
}

#[test]
fn a_closed_log_refuses_instead_of_waiting() {
    let vfs: Arc<dyn Vfs> = Arc::new(SimDisk::new(1));
    let log = Log::open(vfs, OPTIONS, Incarnation::after(Lsn::ZERO)).unwrap();
    let (_, end) = append(&log, b"\x01");
    log.close().unwrap();
    log.commit(end, Durability::Sync).unwrap();
    assert!(matches!(log.room(), Err(Error::Poisoned { .. })));
    assert!(matches!(log.commit(end + 8192, Durability::Sync), Err(Error::Poisoned { .. })));
    assert!(matches!(log.commit(end, Durability::Buffered), Err(Error::Poisoned { .. })));
    log.close().unwrap();
}

#[test]
#[cfg(debug_assertions)]
fn a_dropped_reservation_is_reported_and_stops_nobody() {
    let vfs: Arc<dyn Vfs> = Arc::new(SimDisk::new(1));
    let incarnation = Incarnation::after(Lsn::ZERO);
    let log = Log::open(vfs.clone(), OPTIONS, incarnation).unwrap();
    let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(log.reserve(5000))));
    assert!(dropped.is_err());
    let (start, end) = append(&log, b"\x01after");
    log.commit(end, Durability::Sync).unwrap();
    assert_eq!(read_all(&vfs, &[incarnation], Lsn::ZERO), [(start, end, b"\x01after".to_vec())]);
}

#[test]
fn damage_is_named() {
    let disk = SimDisk::new(1);
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let first = Incarnation::after(Lsn::ZERO);
    let log = Log::open(vfs.clone(), OPTIONS, first).unwrap();
    for i in 0..1000 {
        append(&log, &body(i));
    }
    log.close().unwrap();
    let end = repair_tail(&vfs, OPTIONS, &[first], Lsn::ZERO).unwrap();
    let incarnations = [first, Incarnation::after(end)];
    let read = |disk: &SimDisk| {
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let mut reader = LogReader::open(&vfs, OPTIONS, &incarnations, Lsn::ZERO).unwrap();
        loop {
            match reader.next() {
                Ok(Some(_)) => {}
                Ok(None) => return "no error".to_string(),
                Err(e @ Error::Corrupt { .. }) => return e.to_string(),
                Err(e) => panic!("{e}"),
            }
        }
    };
    assert_eq!(read(&disk), "no error");
    let damaged = disk.after_crash(foreshore_io::sim::Crash::ProcessKill, 1);
    damaged.corrupt("wal-0000000000000001", |bytes| bytes[5000] ^= 1);
    assert!(read(&damaged).contains("wal-0000000000000001 at offset"), "{}", read(&damaged));
    let cut = disk.after_crash(foreshore_io::sim::Crash::ProcessKill, 1);
    cut.corrupt("wal-0000000000000001", |bytes| bytes.truncate(4096));
    assert!(read(&cut).contains("4096 bytes instead of"), "{}", read(&cut));
    let removed = disk.after_crash(foreshore_io::sim::Crash::ProcessKill, 1);
    removed.remove("wal-0000000000000001").unwrap();
    assert!(read(&removed).contains("it is missing"), "{}", read(&removed));
}

/// H1: the buffer is emptied as fast as the device takes it. Who must wait for that says so before.
#[test]
fn who_waits_for_a_place_in_the_buffer_says_so() {
    static HAS_LEFT: AtomicBool = AtomicBool::new(false);
    let log = Log::open(Arc::new(SimDisk::new(1)), OPTIONS, Incarnation::after(Lsn::ZERO)).unwrap();
    let records: Vec<_> = (0..19).map(|_| log.reserve(4000)).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let last = log.reserve(4000);
            assert!(!log.shared.ring.admits(last.end()));
            crate::before_waiting(|| HAS_LEFT.store(true, SeqCst), || last.abandon());
        });
        let begun = Instant::now();
        while !HAS_LEFT.load(SeqCst) && begun.elapsed() < Duration::from_secs(2) {
            std::thread::yield_now();
        }
        records.into_iter().for_each(Reservation::abandon); // nothing leaves before
    });
    assert!(HAS_LEFT.load(SeqCst));
    assert!(log.waits()[0].count > 0);
}

/// A record that has found no place in the buffer when the log fails is nowhere. Who looks for it is told of the failure: nothing is damaged.
#[test]
fn what_a_failed_log_has_not_taken_is_no_damage() {
    let incarnation = Incarnation::after(Lsn::ZERO);
    let log = Log::open(Arc::new(SimDisk::new(1)), OPTIONS, incarnation).unwrap();
    let records: Vec<_> = (0..19).map(|_| log.reserve(4000)).collect();
    let last = log.reserve(4000);
    let start = last.start();
    assert!(!log.shared.ring.admits(last.end()));
    log.poison(&Error::Full { what: "a test".into() });
    log.fill(last, &[1; 4000]);
    let read = log.backward(&[incarnation]).read(start).map(<[u8]>::to_vec);
    assert!(matches!(read, Err(Error::Poisoned { .. })), "{read:?}");
    records.into_iter().for_each(Reservation::abandon);
}

/// A commit that nobody waits for, and that no other one takes along, leaves with the next nudge.
#[test]
fn a_buffered_commit_leaves_with_a_nudge() {
    let log = Log::open(Arc::new(SimDisk::new(1)), OPTIONS, Incarnation::after(Lsn::ZERO)).unwrap();
    let (_, end) = append(&log, b"\x01");
    log.commit(end, Durability::Buffered).unwrap();
    log.nudge();
    let begun = Instant::now();
    while log.durable() < end {
        assert!(begun.elapsed() < Duration::from_secs(10), "it stays in the buffer");
        std::thread::yield_now();
    }
}

/// A place that is not filled yet would hide all behind it, if the process died.
#[test]
fn a_commit_waits_for_earlier_records() {
    for durability in [Durability::Buffered, Durability::Relaxed] {
        let log = Log::open(Arc::new(SimDisk::new(1)), OPTIONS, Incarnation::after(Lsn::ZERO)).unwrap();
        let earlier = log.reserve(1);
        let (_, end) = append(&log, b"\x01");
        let is_filled = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                log.commit(end, durability).unwrap();
                assert!(is_filled.load(SeqCst), "{durability:?}");
            });
            std::thread::sleep(Duration::from_millis(20)); // meanwhile the commit begins
            is_filled.store(true, SeqCst);
            log.fill(earlier, b"\x01");
        });
    }
}

/// What only the ring holds is not durable for sure, nor is anything behind it.
#[test]
fn who_reads_is_told_what_is_synced() {
    let disk = SimDisk::new(1);
    let incarnation = Incarnation::after(Lsn::ZERO);
    let log = Log::open(Arc::new(disk.clone()), OPTIONS, incarnation).unwrap();
    for durability in [Durability::Sync, Durability::Relaxed] {
        let (_, end) = append(&log, b"\x01");
        log.commit(end, durability).unwrap();
    }
    let vfs: Arc<dyn Vfs> = Arc::new(disk.after_crash(foreshore_io::sim::Crash::ProcessKill, 1));
    let mut reader = LogReader::open(&vfs, OPTIONS, &[incarnation], Lsn::ZERO).unwrap();
    let mut is_synced = || reader.next().unwrap().map(|record| record.synced);
    assert_eq!([is_synced(), is_synced(), is_synced()], [Some(true), Some(false), None]);
    assert!(!reader.is_synced());
}

/// S1: where a copy of the database has left holes, their place is taken before anything is written there.
#[test]
fn a_segment_has_no_holes_once_the_log_runs() {
    let disk = SimDisk::new(1);
    let open = || Log::open(Arc::new(disk.clone()), OPTIONS, Incarnation::after(Lsn::ZERO)).unwrap();
    drop(open());
    let used = disk.used_bytes();
    let segment = segments::open_existing(&disk, 0, OPTIONS.segment_bytes).unwrap();
    segment.set_len(0).unwrap();
    segment.set_len(OPTIONS.segment_bytes).unwrap();
    drop(segment);
    assert_eq!(disk.used_bytes(), used - OPTIONS.segment_bytes);
    drop(open());
    assert_eq!(disk.used_bytes(), used);
}

/// Room that was found is good for some records, then it is asked for again; after a failure at once.
#[test]
fn room_is_asked_for_when_it_is_used_up() {
    let vfs: Arc<dyn Vfs> = Arc::new(SimDisk::new(1));
    let log = Log::open(vfs, LogOptions::default(), Incarnation::after(Lsn::ZERO)).unwrap();
    let mut room = Room::default();
    log.ensure_room(&mut room, 8192).unwrap();
    let found = room.0;
    assert_eq!(found, 4096, "of a ring of 16 MiB");
    room.use_up(100);
    assert!((found - 136..found - 100).contains(&room.0), "{} of {found}", room.0);
    log.ensure_room(&mut room, 8192).unwrap();
    assert!(room.0 < found, "there is some left");
    room.use_up(found as usize);
    assert_eq!(room.0, 0);
    log.ensure_room(&mut room, 8192).unwrap();
    assert_eq!(room.0, found);
    room.use_up(100);
    log.ensure_room(&mut room, 8193).unwrap();
    assert_eq!(room.0, found, "a record may be long beside what is left");
    log.poison(&Error::Full { what: "a test".into() });
    assert!(matches!(log.ensure_room(&mut room, 0), Err(Error::Poisoned { .. })));
}
