//! The directory where the system tells of a failed sync only once, or keeps what it could not write only for a while; where a read fails,
//! or gives what was not written.

use super::directory::Directory;
use super::directory_entry::Entry;
use crate::dir_syncs::DirSyncs;
use crate::error::Error;
use foreshore_base::Lsn;
use foreshore_base::sync::AtomicU64;
use foreshore_base::sync::Ordering::Relaxed;
use foreshore_io::Vfs;
use foreshore_io::sim::{Call, Crash, Fault, Intercepted, Repeat, SimDisk};
use std::sync::{Arc, OnceLock};

/// The newest of the directory's files.
fn newest(disk: &SimDisk) -> String {
    disk.names().into_iter().filter(|name| name.starts_with("directory-")).max().expect("a directory file")
}

fn batch(lsn: u64) -> [Entry; 1] {
    [Entry::Redo(Lsn(lsn))]
}

/// The failed sync that lost a file's name may have been another thread's: ours, which comes next, must not succeed (I2 of `foreshore-io`).
#[test]
fn a_name_that_anothers_failed_sync_lost_is_not_built_upon() {
    for seed in 1..=20 {
        let disk = SimDisk::new(seed);
        let shared: Arc<OnceLock<Arc<dyn Vfs>>> = Arc::default();
        let (its, others) = (disk.clone(), shared.clone());
        let vfs = Intercepted::new(disk.clone(), move |call, name, go| {
            go()?;
            if (call, name) == (Call::Rename, "directory.tmp")
                && let Some(names) = others.get()
            {
                its.fail_at(its.events(), Fault::Eio, Repeat::Once);
                assert!(names.sync_dir().is_err()); // as by the thread that makes segments
                its.clear_faults();
            }
            Ok(())
        });
        let vfs = DirSyncs::over(Arc::new(vfs));
        let directory = Directory::create(vfs.clone()).unwrap();
        let _ = shared.set(vfs);
        let before = newest(&disk);
        let appended =
            (1..100_000).take_while(|n| directory.append(&batch(8 * n)).is_ok() && newest(&disk) == before);
        let last = appended.last().unwrap();
        let acknowledged =
            (last..last + 3).take_while(|n| *n == last || directory.append(&batch(8 * n)).is_ok()).last();
        let acknowledged = 8 * acknowledged.unwrap();
        let (_, loaded) = Directory::open(Arc::new(disk.after_crash(Crash::PowerLoss, 1))).unwrap();
        assert!(loaded.redo_lsn.0 >= acknowledged, "seed {seed}: {} of {acknowledged}", loaded.redo_lsn);
    }
}

/// Nor does the next opening, which has not been told: the name is not there any more.
#[test]
fn a_name_that_a_failed_sync_lost_is_not_built_upon_by_the_next_opening() {
    for seed in 1..=20 {
        let disk = SimDisk::new(seed);
        let (its, is_failing) = (disk.clone(), AtomicU64::new(0));
        let vfs = Intercepted::new(disk.clone(), move |call, name, go| {
            let is_created = its.names().iter().any(|name| name.starts_with("directory-"));
            if is_created && (call, name) == (Call::Rename, "directory.tmp") {
                is_failing.store(1, Relaxed);
            } else if call == Call::SyncDir && is_failing.swap(0, Relaxed) == 1 {
                its.fail_at(its.events(), Fault::Eio, Repeat::Once);
            }
            go()
        });
        let directory = Directory::create(DirSyncs::over(Arc::new(vfs))).unwrap();
        let refused =
            (1..100_000).find(|n| directory.append(&batch(8 * n)).is_err()).expect("it is rewritten");
        drop(directory);

        disk.clear_faults();
        let (directory, loaded) = Directory::open(Arc::new(disk.clone())).unwrap();
        assert!(loaded.redo_lsn.0 >= 8 * (refused - 1));
        directory.append(&batch(8 * refused + 8)).unwrap();
        let lost = disk.after_crash(Crash::PowerLoss, seed);
        let (_, loaded) = Directory::open(Arc::new(lost)).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert_eq!(loaded.redo_lsn, Lsn(8 * refused + 8), "seed {seed}");
    }
}

/// After a failed sync the system may let go of what it could not write, also while the directory is being opened.
#[test]
fn a_batch_that_the_system_lets_go_of_is_not_built_upon() {
    let disk = SimDisk::new(1);
    let directory = Directory::create(Arc::new(disk.clone())).unwrap();
    directory.append(&batch(8)).unwrap();
    let (name, mut on_disk) = (newest(&disk), Vec::new());
    disk.corrupt(&name, |bytes| on_disk.clone_from(bytes));
    disk.fail_at(disk.events() + 1, Fault::Eio, Repeat::Once); // the sync behind the write
    directory.append(&batch(16)).unwrap_err();
    drop(directory);
    let mut opened = 0;
    for gone_at in 0..20 {
        let disk = disk.after_crash(Crash::ProcessKill, 1);
        let (its, its_name, on_disk, reads) =
            (disk.clone(), name.clone(), on_disk.clone(), AtomicU64::new(0));
        let vfs = Intercepted::new(disk.clone(), move |call, file, go| {
            match call {
                Call::Read if file == its_name && reads.fetch_add(1, Relaxed) == gone_at => {
                    its.corrupt(&its_name, |bytes| bytes.clone_from(&on_disk));
                }
                // What is written again is kept until it is on the disk.
                Call::Write if file == its_name => reads.store(u64::MAX / 2, Relaxed),
                _ => {}
            }
            go()
        });
        let Ok((directory, _)) = Directory::open(Arc::new(vfs)) else { continue };
        opened += 1;
        directory.append(&batch(24)).unwrap();
        let lost = disk.after_crash(Crash::PowerLoss, 1);
        let (_, loaded) =
            Directory::open(Arc::new(lost)).unwrap_or_else(|e| panic!("gone at read {gone_at}: {e}"));
        assert_eq!(loaded.redo_lsn, Lsn(24), "gone at read {gone_at}");
    }
    assert!(opened > 0);
}

/// What a rewrite could not read changes nothing: the file goes on as it is, and the next attempt may have more luck.
#[test]
fn a_failed_read_only_puts_a_rewrite_off() {
    let disk = SimDisk::new(1);
    let directory = Directory::create(Arc::new(disk.clone())).unwrap();
    let (before, reads) = (newest(&disk), disk.read_events());
    disk.fail_read_at(reads, Repeat::Once);
    let append = |n: u64| directory.append(&batch(8 * n)).unwrap_or_else(|e| panic!("batch {n}: {e}"));
    let rewritten = (1..100_000).inspect(|n| append(*n)).find(|_| newest(&disk) != before);
    assert!(disk.read_events() > reads + 1, "a read failed");
    let last = rewritten.expect("the next attempt had more luck") + 1;
    append(last);
    let (_, loaded) = Directory::open(Arc::new(disk.after_crash(Crash::PowerLoss, 1))).unwrap();
    assert_eq!(loaded.redo_lsn, Lsn(8 * last));
}

/// A rewrite takes over all that was appended, or says so: a batch that is not read as it was written is no torn end (D1).
#[test]
fn a_rewrite_leaves_nothing_out() {
    let disk = SimDisk::new(1);
    let (its, damaged) = (disk.clone(), Arc::new(AtomicU64::new(0)));
    let is_damaged = damaged.clone();
    let vfs = Intercepted::new(disk.clone(), move |call, _, go| {
        if call == Call::Read && is_damaged.fetch_add(1, Relaxed) == 0 {
            its.corrupt(&newest(&its), |bytes| {
                *bytes.iter_mut().rfind(|byte| **byte != 0).expect("a batch") ^= 1
            });
        }
        go()
    });
    let directory = Directory::create(Arc::new(vfs)).unwrap();
    let mut undamaged = (1..100_000).take_while(|_| damaged.load(Relaxed) == 0);
    let refused = undamaged.find_map(|n| directory.append(&batch(8 * n)).err());
    assert!(damaged.load(Relaxed) > 0, "it is rewritten");
    let refused = refused.expect("it has lost the newest batch");
    assert!(matches!(&refused, Error::Poisoned { cause } if cause.contains("damaged")), "{refused}");
}
