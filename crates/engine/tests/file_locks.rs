//! Others may lock a database's files (`flock`), as backup tools do: that keeps nobody from using it. But writes that a killed
//! process has left under way show by such a lock on a leaf file, and are waited for.

mod common;

use common::tiny;
use foreshore::{Database, Durability};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

fn open(path: &Path) -> Database {
    tiny().durability(Durability::Buffered).open(path).unwrap()
}

/// A database with a row, closed again.
fn closed(path: &Path) {
    let db = open(path);
    db.byte_table("t").unwrap().put(b"k", b"v").unwrap();
    db.close().unwrap();
}

fn locked(path: &Path) -> File {
    let file = File::open(path).unwrap();
    file.lock_shared().unwrap();
    file
}

/// Locks the log's files, each under the name that it has at first; `true` if one of those locked before has another name by now.
fn lock_segments(path: &Path, locks: &mut BTreeMap<u64, (PathBuf, File)>) -> bool {
    let paths = path.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let segments = paths.filter(|path| path.to_str().unwrap().contains("/wal-0"));
    let mut is_recycled = false;
    for path in segments {
        let Ok(file) = File::open(&path) else { continue }; // gone meanwhile
        file.lock_shared().unwrap();
        let (first, _) = locks.entry(file.metadata().unwrap().ino()).or_insert((path.clone(), file));
        is_recycled |= *first != path;
    }
    is_recycled
}

/// Segments are recycled, and opened again under another name.
#[test]
fn a_locked_log_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let db = tiny().durability(Durability::Buffered).log_bytes(1 << 20).open(dir.path()).unwrap();
    let table = db.byte_table("t").unwrap();
    let (mut locks, mut are_recycled) = (BTreeMap::new(), false);
    for round in 0..10 {
        are_recycled |= lock_segments(dir.path(), &mut locks);
        (0..1000).for_each(|i: u32| table.put(&i.to_be_bytes(), &[round; 500]).unwrap());
    }
    assert!(are_recycled, "{locks:?}");
    db.close().unwrap();
}

#[test]
fn a_database_with_locked_files_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    closed(dir.path());
    let _lock = locked(&dir.path().join("FORESHORE"));
    assert!(open(dir.path()).byte_table("t").unwrap().contains(b"k").unwrap());
}

/// O4 in `lock.rs` of `foreshore-io`.
#[test]
fn writes_that_a_killed_owner_left_are_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    closed(dir.path());
    let writes = locked(&dir.path().join("leaves.db"));
    let (tell, told) = channel();
    thread::scope(|scope| {
        scope.spawn(|| tell.send(open(dir.path()).close()).unwrap());
        let early = told.recv_timeout(Duration::from_millis(200));
        drop(writes);
        assert!(early.is_err(), "opened beside a write");
        told.recv().unwrap().unwrap();
    });
}
