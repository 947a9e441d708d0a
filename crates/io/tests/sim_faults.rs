//! Calls that fail on demand, and what they leave behind.

use foreshore_io::sim::{Crash, Fault, Repeat};
use foreshore_io::{Access, File, SimDisk, Vfs};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::sync::Arc;

const SECTOR: usize = 512;
const EIO: i32 = libc::EIO;

fn open(disk: &SimDisk, name: &str) -> Arc<dyn File> {
    disk.open(name, Access::Buffered, true).expect("a file")
}

fn first_byte(disk: &SimDisk, name: &str) -> u8 {
    let mut byte = [0];
    open(disk, name).read_at(&mut byte, 0).unwrap();
    byte[0]
}

fn next_fails(disk: &SimDisk, fault: Fault) {
    disk.fail_at(disk.events(), fault, Repeat::Once);
}

#[test]
fn every_event_fails_once_with_its_fault() {
    type Call = fn(&SimDisk, &dyn File) -> io::Result<()>;
    let calls: [Call; 8] = [
        |_, file| file.write_at(b"x", 0),
        |_, file| file.sync(),
        |_, file| file.set_len(10),
        |_, file| file.allocate(10),
        |disk, _| disk.open("new", Access::Buffered, true).map(drop),
        |disk, _| disk.rename("a", "b"),
        |disk, _| disk.remove("a"),
        |disk, _| disk.sync_dir(),
    ];
    for (number, call) in calls.iter().enumerate() {
        let failed = |fault| {
            let disk = SimDisk::new(1);
            let file = open(&disk, "a");
            next_fails(&disk, fault);
            let error = call(&disk, &*file).expect_err("the fault");
            assert_eq!(disk.events(), 2, "call {number}");
            error
        };
        assert_eq!(failed(Fault::Eio).raw_os_error(), Some(EIO), "call {number}");
        assert_eq!(failed(Fault::Enospc).kind(), ErrorKind::StorageFull, "call {number}");
        assert_eq!(failed(Fault::ShortWrite).kind(), ErrorKind::WriteZero, "call {number}");

        let disk = SimDisk::new(1);
        let file = open(&disk, "a");
        next_fails(&disk, Fault::Enospc);
        call(&disk, &*file).expect_err("the fault");
        call(&disk, &*file).unwrap_or_else(|error| panic!("call {number}, no fault any more: {error}"));
    }
}

/// Whoever is told that a change of names failed knows nothing.
#[test]
fn a_change_of_names_that_failed_happened_or_not() {
    type Call = fn(&SimDisk) -> io::Result<()>;
    let calls: [Call; 3] = [
        |disk| disk.open("b", Access::Buffered, true).map(drop),
        |disk| disk.rename("a", "b"),
        |disk| disk.remove("a"),
    ];
    for (number, call) in calls.iter().enumerate() {
        let outcomes = |fault| {
            let outcome = |seed| {
                let disk = SimDisk::new(seed);
                open(&disk, "a");
                next_fails(&disk, fault);
                call(&disk).expect_err("the fault");
                disk.names()
            };
            (0..100).map(outcome).collect::<BTreeSet<_>>()
        };
        assert_eq!(outcomes(Fault::Eio).len(), 2, "call {number}");
        assert_eq!(outcomes(Fault::Enospc).len(), 1, "call {number}: a full disk changes nothing");
    }
}

/// Which sectors the device refused is not told.
#[test]
fn a_write_that_failed_leaves_any_of_its_sectors() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..400 {
        let disk = SimDisk::new(seed);
        let file = open(&disk, "a");
        file.write_at(&[1; 4 * SECTOR], 0).unwrap();
        next_fails(&disk, Fault::Eio);
        file.write_at(&[2; 4 * SECTOR], 0).expect_err("the fault");
        let mut bytes = vec![0; 4 * SECTOR];
        file.read_at(&mut bytes, 0).unwrap();
        outcomes.insert(bytes.chunks(SECTOR).map(|sector| sector[0]).collect::<Vec<_>>());
    }
    assert_eq!(outcomes.len(), 16);
}

#[test]
fn a_fault_for_ever_stays_until_it_is_cleared() {
    let disk = SimDisk::new(1);
    let file = open(&disk, "a");
    disk.fail_at(disk.events() + 1, Fault::Eio, Repeat::Forever);
    file.write_at(b"x", 0).unwrap();
    for _ in 0..3 {
        file.write_at(b"x", 0).expect_err("for ever");
        file.sync().expect_err("for ever");
    }
    disk.clear_faults();
    file.sync().unwrap();
}

#[test]
fn every_read_event_fails_once() {
    type Call = fn(&SimDisk, &dyn File) -> io::Result<()>;
    let calls: [Call; 5] = [
        |_, file| file.read_at(&mut [0], 0),
        |_, file| file.len().map(drop),
        |disk, _| disk.open("a", Access::Buffered, false).map(drop),
        |disk, _| disk.list().map(drop),
        |disk, _| disk.shared_memory("ring", 4096).map(drop),
    ];
    let disk = SimDisk::new(1);
    let file = open(&disk, "a");
    file.write_at(b"x", 0).unwrap();
    for (number, call) in calls.iter().enumerate() {
        disk.fail_read_at(disk.read_events(), Repeat::Once);
        assert_eq!(call(&disk, &*file).expect_err("EIO").raw_os_error(), Some(EIO), "call {number}");
        call(&disk, &*file).unwrap_or_else(|error| panic!("call {number}, no fault: {error}"));
    }
    disk.fail_read_at(0, Repeat::Forever);
    disk.list().expect_err("for ever");
    file.write_at(b"x", 0).expect("writes have their own numbers");
}

/// I2: the second sync succeeds, and the data is lost all the same, though it still reads back.
#[test]
fn a_sync_that_succeeds_after_a_failed_one_proves_nothing() {
    let mut survived = BTreeSet::new();
    for seed in 0..100 {
        let disk = SimDisk::new(seed);
        let file = open(&disk, "a");
        file.write_at(&[1; SECTOR], 0).unwrap();
        file.sync().unwrap();
        disk.sync_dir().unwrap();
        file.write_at(&[2; SECTOR], 0).unwrap();
        next_fails(&disk, Fault::Eio);
        file.sync().expect_err("the failed sync");
        file.sync().expect("the second sync lies");
        assert_eq!(first_byte(&disk, "a"), 2);
        survived.insert(first_byte(&disk.after_crash(Crash::PowerLoss, seed), "a"));
    }
    assert_eq!(survived, BTreeSet::from([1, 2]));
}

/// Whoever had the file open when a sync of another handle failed is told so, once.
#[test]
fn a_failed_sync_is_told_to_every_handle_once() {
    let disk = SimDisk::new(1);
    let (mine, other, elsewhere) = (open(&disk, "a"), open(&disk, "a"), open(&disk, "b"));
    other.write_at(&[1; SECTOR], 0).unwrap();
    next_fails(&disk, Fault::Eio);
    mine.sync().expect_err("the failed sync");
    let later = open(&disk, "a");
    assert_eq!(other.sync().expect_err("what it wrote may be lost").raw_os_error(), Some(EIO));
    for file in [&mine, &other, &later, &elsewhere] {
        file.sync().expect("told already, or not concerned");
    }
}

#[test]
fn a_directory_sync_that_failed_is_not_repaired_by_the_next() {
    let mut survived = BTreeSet::new();
    for seed in 0..100 {
        let disk = SimDisk::new(seed);
        open(&disk, "a");
        next_fails(&disk, Fault::Eio);
        disk.sync_dir().expect_err("the failed sync");
        disk.sync_dir().expect("the second sync lies");
        assert_eq!(disk.names(), ["a"]);
        survived.insert(disk.after_crash(Crash::PowerLoss, seed).names().len());
    }
    assert_eq!(survived, BTreeSet::from([0, 1]));
}

#[test]
fn a_write_without_space_leaves_a_beginning() {
    for (fault, all_lengths) in [(Fault::Enospc, 5), (Fault::ShortWrite, 100)] {
        let mut lengths = BTreeSet::new();
        for seed in 0..400 {
            let disk = SimDisk::new(seed);
            let file = open(&disk, "a");
            next_fails(&disk, fault);
            file.write_at(&[1; 4 * SECTOR], 0).expect_err("the fault");
            let mut bytes = vec![0; file.len().unwrap() as usize];
            file.read_at(&mut bytes, 0).unwrap();
            assert!(bytes.iter().all(|&byte| byte == 1), "seed {seed}");
            lengths.insert(bytes.len());
        }
        assert!(lengths.len() >= all_lengths, "{fault:?}: {lengths:?}");
        assert_eq!(lengths.contains(&(4 * SECTOR)), fault != Fault::ShortWrite);
    }
}

#[test]
fn a_full_disk_refuses_growth_and_nothing_else() {
    let disk = SimDisk::new(1);
    let full = |result: io::Result<()>| assert_eq!(result.expect_err("full").kind(), ErrorKind::StorageFull);
    disk.set_capacity(4 * 4096);
    let a = open(&disk, "a");
    let b = open(&disk, "b");
    a.allocate(3 * 4096).unwrap();
    full(b.write_at(&[1; 4097], 0));
    assert_eq!(b.len().unwrap(), 0, "a refused write changes nothing");
    b.write_at(&[1; 4096], 0).unwrap();
    a.write_at(&[2; 3 * 4096], 0).expect("allocated space is there");
    b.write_at(&[3; 4096], 0).expect("no growth");
    full(a.allocate(3 * 4096 + 1));
    full(b.write_at(b"x", 4096));
    drop(a);
    disk.remove("a").unwrap();
    b.write_at(b"x", 4096).expect("removing made room");
    disk.set_capacity(u64::MAX);
    b.allocate(1 << 20).unwrap();
}
