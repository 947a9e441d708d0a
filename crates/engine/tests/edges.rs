//! Sizes at their limits, second opens, dropped tables, foreign directories.

mod common;

use common::tiny;
use foreshore::{ByteTable, Database, Durability, Error};
use foreshore_io::{
    SimDisk,
    sim::{Crash, Repeat},
};
use std::cell::RefCell;
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Limits for 8 KiB leaves.
const KEY_MAX: usize = 1024;
/// A value of this size lies whole in its leaf.
const WHOLE_MAX: usize = 2048;
const VALUE_MAX: usize = 256 << 20;

#[test]
fn sizes_at_the_limits() {
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("t").unwrap();
    for key_len in [0, 1, 7, 8, 9, KEY_MAX - 1, KEY_MAX] {
        for value_len in [0, 1, 7, 8, 9, WHOLE_MAX - 1, WHOLE_MAX, WHOLE_MAX + 1, WHOLE_MAX + 2, 10_000] {
            let (key, value) = (vec![b'k'; key_len], vec![b'v'; value_len]);
            table.put(&key, &value).unwrap();
            assert_eq!(table.get(&key).unwrap(), Some(value));
        }
    }
    let rows = table.range(..).count();
    let long_key = vec![b'k'; KEY_MAX + 1];
    assert!(matches!(table.put(&long_key, b""), Err(Error::KeyTooLong { len: 1025, max: 1024 })));
    let too_large = vec![0; VALUE_MAX + 1];
    assert!(matches!(table.put(b"k", &too_large), Err(Error::ValueTooLarge { max: VALUE_MAX, .. })));
    assert!(matches!(table.insert(b"new", &too_large), Err(Error::ValueTooLarge { .. })));
    // A key too long to be stored is simply not there.
    assert_eq!(table.get(&long_key).unwrap(), None);
    assert_eq!(table.range(..).count(), rows, "no side effect");
    db.check().unwrap();
}

/// Keys that are too long are never there, however they are asked for.
#[test]
fn keys_that_cannot_be_are_absent() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    let tx = db.begin().unwrap();
    for len in [1025, 1 << 16, 1 << 20] {
        let key = vec![b'k'; len];
        assert_eq!(t.get(&key).unwrap(), None);
        assert_eq!(tx.bytes(&t).get(&key).unwrap(), None);
        assert_eq!(tx.bytes(&t).get_for_update(&key).unwrap(), None);
        assert!(matches!(tx.bytes(&t).put(&key, b"v"), Err(Error::KeyTooLong { .. })));
    }
}

/// Of many rows those before the first that cannot be set are, and the error is that row's.
#[test]
fn many_rows_end_at_the_first_that_cannot_be_set() {
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("t").unwrap();
    let none: [(&[u8], &[u8]); 0] = [];
    assert_eq!(table.put_some(&none).unwrap(), 0);
    table.put_many(&none).unwrap();

    let long_key = [b'k'; KEY_MAX + 1];
    let large = [b'v'; 10 * WHOLE_MAX];
    let mut rows: Vec<(&[u8], &[u8])> =
        vec![(b"a", b"1"), (b"b", &large), (b"a", b"2"), (&long_key, b""), (b"c", b"3")];
    assert_eq!(table.put_some(&rows).unwrap(), 3);
    assert!(matches!(table.put_some(&rows[3..]), Err(Error::KeyTooLong { len: 1025, .. })));
    assert!(matches!(table.put_many(&rows), Err(Error::KeyTooLong { .. })));
    assert_eq!(table.range(..).map(|row| row.unwrap().0).collect::<Vec<_>>(), [b"a", b"b"]);
    assert_eq!(table.get(b"a").unwrap().as_deref(), Some(&b"2"[..]), "the later of two");
    assert_eq!(table.get(b"b").unwrap().as_deref(), Some(&large[..]));
    rows.remove(3);
    table.put_many(&rows).unwrap();
    assert_eq!(table.range(..).count(), 3);
    db.check().unwrap();
}

/// Each of many rows is a commit of its own: a lock stops them where it is, and what came before can be seen.
#[test]
fn many_rows_wait_for_locks_one_by_one() {
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("t").unwrap();
    let rows: Vec<_> = (0..40u8).map(|i| ([i], [1])).collect();
    let holder = db.begin().unwrap();
    holder.bytes(&table).put(&[30], &[0]).unwrap();
    let hasty = table.with_lock_timeout(Duration::ZERO);
    assert_eq!(hasty.put_some(&rows).unwrap(), 30);
    assert!(matches!(hasty.put_some(&rows[30..]), Err(Error::LockTimeout { .. })));
    assert_eq!(table.range(..).count(), 30);

    let patience = Duration::from_secs(1);
    let begun = Instant::now();
    let refused = table.with_lock_timeout(patience).put_many(&rows);
    assert!(matches!(refused, Err(Error::LockTimeout { .. })));
    assert!(begun.elapsed() < 2 * patience, "a lock is waited for once");

    std::thread::scope(|scope| {
        let waits = scope.spawn(|| table.put_many(&rows));
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waits.is_finished());
        holder.commit().unwrap();
        waits.join().unwrap().unwrap();
    });
    assert_eq!(table.get(&[30]).unwrap(), Some(vec![1]));
    assert_eq!(table.range(..).count(), 40);
}

#[test]
fn every_leaf_size_holds_its_largest_rows() {
    for leaf_bytes in [4096, 8192, 16384, 32768] {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::builder()
            .leaf_bytes(leaf_bytes)
            .durability(Durability::Relaxed)
            .open(dir.path())
            .unwrap();
        let table = db.byte_table("t").unwrap();
        let key_len = if leaf_bytes == 4096 { 992 } else { 1024 };
        for i in 0..60u8 {
            let mut key = vec![b'k'; key_len];
            key[key_len - 1] = i.wrapping_mul(37);
            table.put(&key, &vec![i; leaf_bytes / 4]).unwrap();
        }
        assert_eq!(table.range(..).count(), 60);
        db.check().unwrap();
    }
}

#[test]
fn a_second_open_names_the_holder() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    for _ in 0..100 {
        match Database::open(dir.path()) {
            Err(Error::Locked { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
            other => panic!("{other:?}"),
        }
    }
    drop(db);
    for _ in 0..20 {
        drop(Database::open(dir.path()).unwrap());
    }
}

/// Who drops the last handle may open again at once, also when a checkpoint is being taken at that moment.
#[test]
fn a_dropped_database_opens_again_at_once() {
    let disk = SimDisk::new(1);
    for round in 0..40u64 {
        let db = tiny().open_on(Arc::new(disk.clone())).unwrap_or_else(|e| panic!("round {round}: {e}"));
        let table = db.byte_table("t").unwrap().with_durability(Durability::Relaxed);
        // Enough log for a checkpoint when its thread looks next, some time in these milliseconds.
        let (begun, spell) = (Instant::now(), Duration::from_millis(45 + round % 10));
        let mut row = 0u32;
        while begun.elapsed() < spell {
            table.put(&row.to_be_bytes(), &[round as u8; 300]).unwrap();
            row = (row + 1) % 200;
        }
    }
}

/// A database may be closed while others use it, whatever they have locked at that moment.
#[test]
fn a_database_is_closed_beside_transactions() {
    for round in 0..20u64 {
        let db = Database::in_memory().unwrap();
        let closing = db.clone();
        let table = db.byte_table("t").unwrap();
        thread::scope(|scope| {
            let close = scope.spawn(move || {
                thread::sleep(Duration::from_millis(5 + round % 5));
                closing.close()
            });
            while !close.is_finished() {
                let tx = db.begin().unwrap();
                (0..1000u32).for_each(|n| _ = tx.bytes(&table).get_for_update(&n.to_be_bytes()).unwrap());
                tx.commit().unwrap();
                thread::sleep(Duration::from_millis(1));
            }
            close.join().unwrap().unwrap();
        });
    }
}

/// A range of a transaction that has ended keeps nothing open.
#[test]
fn a_forgotten_range_does_not_keep_the_database_open() {
    let disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    table.put(b"k", b"v").unwrap();
    let tx = db.begin().unwrap();
    let mut range = tx.bytes(&table).range(..);
    tx.commit().unwrap();
    drop((db, table));
    let db = tiny().open_on(Arc::new(disk)).unwrap();
    assert_eq!(db.byte_table("t").unwrap().get(b"k").unwrap(), Some(b"v".to_vec()));
    assert!(matches!(range.next(), Some(Err(Error::Ended))));
}

/// Helper process of the test below.
#[test]
fn open_elsewhere() {
    let Ok(dir) = std::env::var("FORESHORE_OPEN_ELSEWHERE") else { return };
    match Database::open(dir) {
        Err(Error::Locked { pid: Some(pid), .. }) => {
            std::process::exit(if pid == parent_id() { 42 } else { 43 })
        }
        Err(e) => panic!("{e}"),
        Ok(_) => std::process::exit(44),
    }
}

fn parent_id() -> u32 {
    std::env::var("FORESHORE_PARENT").unwrap().parse().unwrap()
}

#[test]
fn another_process_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let status = |dir: &std::path::Path| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "open_elsewhere"])
            .env("FORESHORE_OPEN_ELSEWHERE", dir)
            .env("FORESHORE_PARENT", std::process::id().to_string())
            .status()
            .unwrap()
            .code()
    };
    assert_eq!(status(dir.path()), Some(42));
    drop(db);
    assert_eq!(status(dir.path()), Some(44));
}

/// A walk copies a few rows where it begins, and the rest of their leaf when it gets there: rows that come and go meanwhile
/// make it neither miss nor repeat one that stays.
#[test]
fn a_walk_goes_on_behind_the_rows_it_copied() {
    const STAY: u16 = 2000;
    let key = |row: u16| (2 * row).to_be_bytes();
    for pause in [1, 15, 16, 17, 40] {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        for row in 0..STAY {
            table.put(&key(row), &[7; 20]).unwrap();
        }
        let expected: Vec<Vec<u8>> = (500..STAY).map(|row| key(row).to_vec()).collect();
        for descending in [false, true] {
            let mut rows = table.range(&key(500)[..]..);
            let mut next = || if descending { rows.next_back() } else { rows.next() };
            let mut seen: Vec<Vec<u8>> = (0..pause).map(|_| next().unwrap().unwrap().0).collect();
            // Splits every leaf, and takes all of it back.
            for row in 0..STAY {
                table.put(&(2 * row + 1).to_be_bytes(), &[8; 200]).unwrap();
            }
            for row in 0..STAY {
                assert!(table.remove(&(2 * row + 1).to_be_bytes()).unwrap());
            }
            seen.extend(std::iter::from_fn(&mut next).map(|row| row.unwrap().0));
            if descending {
                seen.reverse();
            }
            assert_eq!(seen, expected, "paused after {pause} rows, descending: {descending}");
        }
    }
}

#[test]
fn a_dropped_table_is_gone_and_its_handles_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::builder().durability(Durability::Buffered).open(dir.path()).unwrap();
    let table = db.byte_table("t").unwrap();
    for i in 0..5000u32 {
        table.put(&i.to_be_bytes(), &[1; 50]).unwrap();
    }
    assert!(db.drop_table("t").unwrap());
    assert!(!db.drop_table("t").unwrap());
    assert!(matches!(table.get(b"\0\0\0\0"), Err(Error::TableDropped { .. })));
    assert!(matches!(table.put(b"x", b""), Err(Error::TableDropped { .. })));
    assert!(matches!(table.range(..).next(), Some(Err(Error::TableDropped { .. }))));
    assert_eq!(db.tables().unwrap(), Vec::<String>::new());
    let again = db.byte_table("t").unwrap();
    assert_eq!(again.range(..).count(), 0);
    drop((table, again, db));
    let db = Database::open(dir.path()).unwrap();
    assert_eq!(db.byte_table("t").unwrap().range(..).count(), 0);
    let report = db.check().unwrap();
    assert_eq!(report.stray_pages, 0);
}

#[test]
fn a_table_without_a_possible_name_leaves_nothing() {
    let db = Database::in_memory().unwrap();
    for name in ["".to_string(), "x".repeat(5000)] {
        let refused = db.byte_table(&name).unwrap_err();
        assert!(matches!(&refused, Error::Argument(why) if why.contains("name")), "{refused}");
    }
    db.byte_table(&"x".repeat(1000)).unwrap();
    assert_eq!(db.check().unwrap().stray_pages, 0);
}

#[test]
fn a_foreign_directory_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("letter.txt"), "dear reader").unwrap();
    assert!(matches!(Database::open(dir.path()), Err(Error::Incompatible { .. })));
    assert_eq!(std::fs::read_to_string(dir.path().join("letter.txt")).unwrap(), "dear reader");
    assert!(!dir.path().join("LOCK").exists());
    let nowhere = dir.path().join("absent");
    assert!(matches!(Database::builder().create(false).open(&nowhere), Err(Error::Incompatible { .. })));
    assert!(!nowhere.exists());
    // Where none can be made the system says so.
    assert!(matches!(Database::open("/proc/foreshore"), Err(Error::Io { .. })));
}

/// A newer format is refused by name, and nothing is touched.
/// Both versions are named, and what to do; nothing is touched. A newer file may also be longer.
#[test]
fn other_formats_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(Database::open(dir.path()).unwrap());
    let path = dir.path().join("FORESHORE");
    let ours = std::fs::read(&path).unwrap();
    let current = u32::from_le_bytes(ours[16..20].try_into().unwrap());
    for (format, more, advice) in
        [(99u32, 0, "newer version"), (99, 100, "newer version"), (0, 0, "foreshore dump")]
    {
        let mut meta = ours.clone();
        meta[16..20].copy_from_slice(&format.to_le_bytes());
        meta.resize(meta.len() + more, 7);
        std::fs::write(&path, &meta).unwrap();
        let error = Database::open(dir.path()).unwrap_err();
        assert!(
            matches!(error, Error::OtherFormat { found, supported, .. } if (found, supported) == (format, current)),
            "{error}"
        );
        assert!(error.to_string().contains(advice), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), meta);
    }
    std::fs::write(&path, &ours[..19]).unwrap();
    assert!(matches!(Database::open(dir.path()), Err(Error::Incompatible { .. })));
}

/// The empty key lives in the first leaf, which a load does not make.
#[test]
fn a_bulk_load_may_begin_with_the_empty_key() {
    let db = Database::in_memory().unwrap();
    for (name, rows) in [("one", 1), ("many", 2000)] {
        let table = db.byte_table(name).unwrap();
        let keys = (0..rows).map(|i: u32| if i == 0 { vec![] } else { i.to_be_bytes().to_vec() });
        assert_eq!(table.bulk_load(keys.map(|key| (key, [1; 50]))).unwrap(), u64::from(rows));
        assert_eq!(table.range(..).count(), rows as usize);
        assert_eq!(table.get(b"").unwrap().as_deref(), Some(&[1; 50][..]));
        assert!(matches!(table.bulk_load([(b"", b"")]), Err(Error::BulkLoad { .. })));
    }
    db.check().unwrap();
}

#[test]
fn handles_are_send_and_sync() {
    fn both<T: Send + Sync + Clone>() {}
    both::<Database>();
    both::<foreshore::ByteTable>();
    both::<foreshore::Table<String, u64>>();
    fn one<T: Send>() {}
    one::<foreshore::ByteRange>();
}

/// The last resort: the directory is gone, and the leaves alone bring the rows back.
#[test]
fn the_leaves_alone_bring_the_rows_back() {
    let dir = tempfile::tempdir().unwrap();
    let fill = |db: &Database, from: u32| {
        let table = db.byte_table("t").unwrap().with_durability(Durability::Buffered);
        for i in from..from + 3000 {
            table.put(&i.wrapping_mul(2_654_435_761).to_be_bytes(), &[i as u8; 40]).unwrap();
        }
    };
    let rows = |db: &Database| -> Vec<_> {
        db.check().unwrap();
        db.byte_table("t").unwrap().range(..).collect::<Result<_, _>>().unwrap()
    };
    let db = Database::open(dir.path()).unwrap();
    fill(&db, 0);
    db.checkpoint().unwrap();
    fill(&db, 3000);
    let expected = rows(&db);
    db.close().unwrap();

    // A directory rebuilt from the leaves says the same as the one that was kept.
    let db = Database::builder().rebuild(true).open(dir.path()).unwrap();
    assert_eq!(rows(&db), expected);
    db.close().unwrap();

    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_str().unwrap().starts_with("directory-") {
            std::fs::write(path, "not a directory").unwrap();
        }
    }
    assert!(matches!(Database::open(dir.path()), Err(Error::Corrupt { .. } | Error::Incompatible { .. })));
    let db = Database::builder().rebuild(true).open(dir.path()).unwrap();
    assert_eq!(rows(&db), expected);
    fill(&db, 6000);
    drop(db);
    let db = Database::open(dir.path()).unwrap();
    assert_eq!(rows(&db).len(), 9000);
}

/// What is written after a salvage survives a crash like anything else, before the first checkpoint too.
#[test]
fn a_salvaged_database_may_crash() {
    for crash in [Crash::ProcessKill, Crash::PowerLoss] {
        let disk = SimDisk::new(1);
        let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
        let table = db.byte_table("t").unwrap();
        (0..100u8).for_each(|i| table.put(&[i], &[i; 50]).unwrap());
        drop(table);
        db.close().unwrap();
        let directory = disk.names().into_iter().find(|name| name.starts_with("directory-")).unwrap();
        disk.corrupt(&directory, |bytes| bytes.fill(1));

        let db = tiny().rebuild(true).open_on(Arc::new(disk.clone())).unwrap();
        db.byte_table("t").unwrap().put(b"new", b"").unwrap();
        for builder in [tiny(), tiny().rebuild(true)] {
            let after = disk.after_crash(crash, 3);
            let db = builder.open_on(Arc::new(after)).unwrap_or_else(|e| panic!("{crash:?}: {e}"));
            assert_eq!(db.byte_table("t").unwrap().range(..).count(), 101, "{crash:?}");
        }
    }
}

/// A salvage that is cut short is done again by the next open: a large value that a row refers to stays, though the leaf with its
/// mark is from after the commit that replaced it.
#[test]
fn a_salvage_that_was_cut_short_loses_no_large_value() {
    let disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    table.put(b"k", &[1; 20_000]).unwrap();
    db.checkpoint().unwrap();
    let snapshot = db.snapshot().unwrap(); // keeps the value that is replaced
    table.put(b"k", b"new").unwrap();
    db.checkpoint().unwrap();
    let left = disk.after_crash(Crash::PowerLoss, 1);
    drop((snapshot, table, db));
    let directory = left.names().into_iter().find(|name| name.starts_with("directory-")).unwrap();
    left.corrupt(&directory, |bytes| bytes.fill(1));
    left.corrupt("leaves.db", |bytes| {
        let of_user = |leaf: &&mut [u8]| leaf[..2] == *b"FL" && leaf[32..36] == 16u32.to_le_bytes();
        let lsn = |leaf: &&mut [u8]| u64::from_le_bytes(leaf[16..24].try_into().unwrap());
        bytes.chunks_mut(4096).filter(of_user).max_by_key(lsn).unwrap().fill(0);
    });

    let copy = |crash_at| {
        let disk = left.after_crash(Crash::PowerLoss, 1);
        disk.crash_at(crash_at);
        disk
    };
    let salvage = |disk: &SimDisk| tiny().rebuild(true).open_on(Arc::new(disk.clone()));
    let whole = copy(u64::MAX);
    let salvaged = salvage(&whole).unwrap();
    let events = whole.events();
    drop(salvaged);
    for event in 0..events {
        for crash in [Crash::ProcessKill, Crash::PowerLoss] {
            let disk = copy(event);
            drop(salvage(&disk));
            let disk = disk.after_crash(crash, event);
            let open = || tiny().open_on(Arc::new(disk.clone())).or_else(|_| salvage(&disk)).unwrap();
            drop(open()); // removes what is marked
            let value = open().byte_table("t").unwrap().get(b"k");
            let value = value.unwrap_or_else(|e| panic!("{crash:?} at event {event}: {e}"));
            assert_eq!(value.as_deref(), Some(&[1; 20_000][..]), "{crash:?} at event {event}");
        }
    }
}

/// A leaf that is lost costs its own rows: a salvage opens with the others, and lets none of their large values go.
#[test]
fn a_salvage_opens_without_a_leaf_that_is_lost() {
    let disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    (0..200u8).for_each(|i| table.put(&[i], &[i; 100]).unwrap());
    table.put(&[250], &[1; 20_000]).unwrap();
    drop(table);
    db.close().unwrap();
    let directory = disk.names().into_iter().find(|name| name.starts_with("directory-")).unwrap();
    disk.corrupt(&directory, |bytes| bytes.fill(1));
    disk.corrupt("leaves.db", |bytes| {
        let of_user = |leaf: &&mut [u8]| leaf[..2] == *b"FL" && leaf[32..36] == 16u32.to_le_bytes();
        // Neither the first one nor the last.
        bytes.chunks_mut(4096).filter(of_user).nth(2).unwrap().fill(0);
    });
    for builder in [tiny().rebuild(true), tiny()] {
        let db = builder.open_on(Arc::new(disk.clone())).unwrap();
        let table = db.byte_table("t").unwrap();
        assert_eq!(table.get(&[0]).unwrap().as_deref(), Some(&[0; 100][..]));
        assert_eq!(table.get(&[250]).unwrap().as_deref(), Some(&[1; 20_000][..]));
        assert!((0..200u8).any(|i| table.get(&[i]).is_err()));
    }
}

/// Overwrites what a predicate finds among the images of a leaf file: it is given the table's id, and whether the leaf is leftmost.
fn lose_leaves(disk: &SimDisk, is_lost: impl Fn(u32, bool) -> bool) {
    disk.corrupt("leaves.db", |bytes| {
        for leaf in bytes.chunks_mut(4096).filter(|leaf| leaf.starts_with(b"FL")) {
            let table = u32::from_le_bytes(leaf[32..36].try_into().unwrap());
            if is_lost(table, leaf[46..48] == [0; 2]) {
                leaf.fill(0);
            }
        }
    });
}

fn lose_directory(disk: &SimDisk) -> String {
    let directory = disk.names().into_iter().find(|name| name.starts_with("directory-")).unwrap();
    disk.corrupt(&directory, |bytes| bytes.fill(1));
    directory
}

/// Tables that lack their leftmost leaf, as one that was made after the last checkpoint may, keep no others closed. What they have
/// lost is an error, what they have is there, and they can be dropped, wherever the salvage is cut short.
#[test]
fn a_salvage_opens_without_leftmost_leaves() {
    const LATE: u32 = 17; // the second table that was made
    const LOST: u32 = 18;
    const HIDDEN: u32 = 20;
    let disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let [whole, late, lost, large] =
        ["whole", "late", "lost", "large"].map(|name| db.byte_table(name).unwrap());
    (0..200u8).for_each(|i| [&whole, &late].iter().for_each(|table| table.put(&[i], &[i; 100]).unwrap()));
    lost.put(b"k", b"v").unwrap();
    large.put(b"chunks", &[1; 20_000]).unwrap();
    large.put(b"extents", &[2; 100_000]).unwrap();
    drop((whole, late, lost, large));
    db.close().unwrap();
    lose_directory(&disk);
    lose_leaves(&disk, |table, leftmost| leftmost && [LATE, LOST, HIDDEN].contains(&table));

    let salvage = |disk: &SimDisk| tiny().rebuild(true).open_on(Arc::new(disk.clone()));
    let verify = |db: Database, disk: &SimDisk, what: &str| {
        let table = |name: &str| db.byte_table(name).unwrap();
        assert_eq!(table("whole").range(..).map(Result::unwrap).count(), 200, "{what}");
        let is_lost = |done: Result<(), Error>| assert!(matches!(done, Err(Error::Corrupt { .. })), "{what}");
        is_lost(table("late").get(&[0]).map(drop));
        is_lost(table("late").put(&[0], b""));
        is_lost(table("lost").get(b"k").map(drop));
        is_lost(table("large").get(b"chunks").map(drop));
        is_lost(db.check().map(drop));
        assert_eq!(table("late").get(&[199]).unwrap().as_deref(), Some(&[199; 100][..]), "{what}");
        let found = table("late").range(..).rev().take_while(Result::is_ok).count();
        assert!((100..200).contains(&found), "{what}: {found} rows");
        assert_eq!(table("large").get(b"extents").unwrap().as_deref(), Some(&[2; 100_000][..]), "{what}");
        table("whole").put(b"new", &[3; 100_000]).unwrap();
        for name in ["late", "lost", "large"] {
            assert!(db.drop_table(name).unwrap(), "{what}: {name}");
        }
        table("new").put(b"row", b"").unwrap();
        db.check().unwrap_or_else(|e| panic!("{what}: {e}"));
        db.close().unwrap();
        let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
        assert_eq!(db.check().unwrap().stray_pages, 0, "{what}");
        let value = db.byte_table("whole").unwrap().get(b"new").unwrap();
        assert_eq!(value.as_deref(), Some(&[3; 100_000][..]), "{what}");
    };
    let left = disk;
    let copy = |crash_at| {
        let disk = left.after_crash(Crash::PowerLoss, 1);
        disk.crash_at(crash_at);
        disk
    };
    let whole = copy(u64::MAX);
    let db = salvage(&whole).unwrap();
    let events = whole.events();
    verify(db, &whole, "salvaged");
    for (event, crash) in
        (0..events).flat_map(|event| [Crash::ProcessKill, Crash::PowerLoss].map(|crash| (event, crash)))
    {
        let disk = copy(event);
        drop(salvage(&disk));
        let disk = disk.after_crash(crash, event);
        let db = tiny().open_on(Arc::new(disk.clone())).or_else(|_| salvage(&disk)).unwrap();
        verify(db, &disk, &format!("{crash:?} at event {event}"));
    }
}

/// The catalog's leaf that says which id was the highest may be from before the last table was made, and the leaves of that be lost:
/// its id is not given again.
#[test]
fn a_salvage_gives_no_id_of_a_table_again() {
    const TABLES: u32 = 80;
    let disk = SimDisk::new(1);
    let db = tiny().log_bytes(1 << 20).open_on(Arc::new(disk.clone())).unwrap();
    let long = "x".repeat(100);
    (0..TABLES).for_each(|i| drop(db.byte_table(&format!("{i:03} {long}")).unwrap()));
    db.checkpoint().unwrap();
    db.byte_table("last").unwrap().put(b"k", b"v").unwrap();
    db.checkpoint().unwrap();
    let disk = disk.after_crash(Crash::PowerLoss, 1);
    drop(db);
    lose_directory(&disk);
    lose_leaves(&disk, |table, _| table == 16 + TABLES);
    disk.corrupt("leaves.db", |bytes| {
        let is_first = |leaf: &&mut [u8]| {
            leaf.starts_with(b"FL") && leaf[32..36] == 1u32.to_le_bytes() && leaf[46..48] == [0; 2]
        };
        let lsn = |leaf: &&mut [u8]| u64::from_le_bytes(leaf[16..24].try_into().unwrap());
        bytes.chunks_mut(4096).filter(is_first).max_by_key(lsn).unwrap().fill(0);
    });
    let db = tiny().rebuild(true).open_on(Arc::new(disk.clone())).unwrap();
    db.byte_table("new").unwrap().put(b"k", b"new").unwrap();
    db.close().unwrap();
    let db = tiny().open_on(Arc::new(disk)).unwrap();
    assert_eq!(db.byte_table("new").unwrap().get(b"k").unwrap().as_deref(), Some(&b"new"[..]));
    assert!(matches!(db.byte_table("last").unwrap().get(b"k"), Err(Error::Corrupt { .. })));
}

/// Without the catalog's leftmost leaf nothing can be salvaged, and nothing is changed.
#[test]
fn a_salvage_without_a_catalog_leaves_the_directory_as_it_is() {
    let disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    db.byte_table("t").unwrap().put(b"k", b"v").unwrap();
    db.close().unwrap();
    let directory = lose_directory(&disk);
    lose_leaves(&disk, |table, _| table == 1);
    let refused = tiny().rebuild(true).open_on(Arc::new(disk.clone()));
    assert!(matches!(&refused, Err(Error::Corrupt { what, .. }) if what == "catalog"), "{refused:?}");
    disk.corrupt(&directory, |bytes| assert!(bytes.iter().all(|byte| *byte == 1)));
}

/// What a killed process had written of large values and not synced, since it had not come to commit them, is durable before a
/// salvage says that it is there.
#[test]
fn a_large_value_that_a_salvage_finds_survives_a_power_failure() {
    let disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    let tx = db.begin().unwrap();
    tx.bytes(&table).put(b"k", &[7; 100_000]).unwrap();
    db.checkpoint().unwrap();
    let left = disk.after_crash(Crash::ProcessKill, 1);
    drop((tx, table, db));
    lose_directory(&left);
    let value = |db: Database| db.byte_table("t").unwrap().get(b"k");
    let db = tiny().rebuild(true).open_on(Arc::new(left.clone())).unwrap();
    assert_eq!(value(db).unwrap().as_deref(), Some(&[7; 100_000][..]));
    for seed in 0..8 {
        let db = tiny().open_on(Arc::new(left.after_crash(Crash::PowerLoss, seed))).unwrap();
        let value = value(db).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert_eq!(value.as_deref(), Some(&[7; 100_000][..]), "seed {seed}");
    }
}

/// A rebuild with a whole directory gives the same rows, also when power failed while leaves were written that had been split: of two
/// halves one may be there, and the other as it was before.
#[test]
fn a_rebuild_after_a_power_failure_gives_the_same_rows() {
    let filled = |crash_at| {
        let disk = SimDisk::new(1);
        let db = tiny().log_bytes(1 << 20).open_on(Arc::new(disk.clone())).unwrap();
        let table = db.byte_table("t").unwrap();
        let put = |i: u32| table.put(&i.wrapping_mul(2_654_435_761).to_be_bytes(), &[i as u8; 100]).unwrap();
        (0..100).for_each(put);
        db.checkpoint().unwrap();
        (100..200).for_each(put);
        let before = disk.events();
        disk.crash_at(crash_at);
        let _ = db.checkpoint();
        (before, disk)
    };
    let (from, whole) = filled(u64::MAX);
    for event in from..whole.events() {
        let (_, disk) = filled(event);
        for seed in 0..4 {
            let left = disk.after_crash(Crash::PowerLoss, seed);
            let rows = |rebuild| {
                let copy = left.after_crash(Crash::PowerLoss, 1);
                let db = tiny().rebuild(rebuild).open_on(Arc::new(copy)).unwrap();
                db.check().unwrap_or_else(|e| panic!("event {event}, seed {seed}, rebuild {rebuild}: {e}"));
                db.byte_table("t").unwrap().range(..).collect::<Result<Vec<_>, _>>().unwrap()
            };
            assert_eq!(rows(true), rows(false), "event {event}, seed {seed}");
        }
    }
}

/// Without the directory, a leaf may be there as it was before it was split, beside the leaves that were split off it: its lower
/// rows are there, and the others are those of the newer leaves, wherever the salvage is cut short.
#[test]
fn a_salvage_takes_leaves_from_before_a_split() {
    const ROWS: u32 = 200;
    let key = |i: u32| i.wrapping_mul(2_654_435_761).to_be_bytes();
    let disk = SimDisk::new(1);
    let db = tiny().log_bytes(1 << 20).open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    let put = |i: u32| table.put(&key(i), &[i as u8; 100]).unwrap();
    (0..ROWS / 2).for_each(put);
    db.checkpoint().unwrap();
    (ROWS / 2..ROWS).for_each(put);
    db.checkpoint().unwrap();
    let left = disk.after_crash(Crash::PowerLoss, 1);
    let directory = left.names().into_iter().find(|name| name.starts_with("directory-")).unwrap();
    left.corrupt(&directory, |bytes| bytes.fill(1));
    left.corrupt("leaves.db", |bytes| {
        // The newest image of the table's first leaf, whose low fence is empty.
        let is_first = |leaf: &&mut [u8]| {
            leaf[..2] == *b"FL" && leaf[32..36] == 16u32.to_le_bytes() && leaf[46..48] == [0; 2]
        };
        let lsn = |leaf: &&mut [u8]| u64::from_le_bytes(leaf[16..24].try_into().unwrap());
        bytes.chunks_mut(4096).filter(is_first).max_by_key(lsn).unwrap().fill(0);
    });
    let salvage = |disk: &SimDisk| tiny().rebuild(true).open_on(Arc::new(disk.clone()));
    let verify = |db: &Database, what: &str| {
        db.check().unwrap_or_else(|e| panic!("{what}: {e}"));
        let table = db.byte_table("t").unwrap();
        let rows: Vec<_> = table.range(..).collect::<Result<_, _>>().unwrap();
        assert!(rows.iter().all(|(key, value)| table.get(key).unwrap().as_ref() == Some(value)), "{what}");
        let is_there = |i: u32| rows.iter().any(|row| row.0 == key(i) && row.1 == [i as u8; 100]);
        assert!((0..ROWS / 2).all(is_there), "{what}");
        assert!((ROWS / 2 + 1..ROWS).contains(&(rows.len() as u32)), "{what}: {} rows", rows.len());
    };
    let whole = left.after_crash(Crash::PowerLoss, 1);
    let db = salvage(&whole).unwrap();
    let events = whole.events();
    verify(&db, "salvaged");
    for event in 0..events {
        let disk = left.after_crash(Crash::PowerLoss, 1);
        disk.crash_at(event);
        drop(salvage(&disk));
        let disk = disk.after_crash(Crash::PowerLoss, event);
        let db = tiny().open_on(Arc::new(disk.clone())).or_else(|_| salvage(&disk)).unwrap();
        verify(&db, &format!("event {event}"));
    }
}

/// What a killed process had written, and not synced, is durable before a salvage says that it is there.
#[test]
fn a_salvage_survives_a_power_failure() {
    let filled = |crash_at| {
        let disk = SimDisk::new(1);
        let db = tiny().log_bytes(1 << 20).open_on(Arc::new(disk.clone())).unwrap();
        let table = db.byte_table("t").unwrap();
        db.checkpoint().unwrap();
        let table = table.with_durability(Durability::Relaxed);
        (0..200u8).for_each(|i| table.put(&[i], &[i; 100]).unwrap());
        db.sync().unwrap();
        let before = disk.events();
        disk.crash_at(crash_at);
        let _ = db.checkpoint();
        (before, disk)
    };
    let (from, whole) = filled(u64::MAX);
    let rows = |db: &Database| db.byte_table("t")?.range(..).collect::<Result<Vec<_>, _>>();
    let mut salvaged = 0;
    for (event, seed) in (from..whole.events()).flat_map(|event| (0..4).map(move |seed| (event, seed))) {
        let left = filled(event).1.after_crash(Crash::ProcessKill, seed);
        let directory = left.names().into_iter().find(|name| name.starts_with("directory-")).unwrap();
        left.corrupt(&directory, |bytes| bytes.fill(1));
        let db = tiny().rebuild(true).open_on(Arc::new(left.clone()));
        let Ok(found) = db.and_then(|db| rows(&db)) else { continue }; // a leaf was not there yet
        salvaged += 1;
        let db = tiny().open_on(Arc::new(left.after_crash(Crash::PowerLoss, seed)));
        let again = db.and_then(|db| rows(&db)).unwrap_or_else(|e| panic!("event {event}, seed {seed}: {e}"));
        assert!(again == found, "event {event}, seed {seed}: {} rows", again.len());
    }
    assert!(salvaged > 4, "{salvaged} salvaged");
}

/// What is left of a dropped table on the disk is nobody's: a salvage does not take it for another table's rows, also if that
/// one was made after a restart.
#[test]
fn a_salvage_brings_back_no_dropped_table() {
    let disk = SimDisk::new(1);
    let open = |disk: &SimDisk| tiny().open_on(Arc::new(disk.clone())).unwrap();
    let db = open(&disk);
    let table = db.byte_table("dropped").unwrap();
    (0..200u8).for_each(|i| table.put(&[i], &[7; 100]).unwrap());
    db.checkpoint().unwrap();
    assert!(db.drop_table("dropped").unwrap());
    drop(table);
    db.close().unwrap();
    drop(open(&disk));

    let db = open(&disk);
    db.byte_table("new").unwrap().put(b"row", b"").unwrap();
    let db = tiny().rebuild(true).open_on(Arc::new(disk.after_crash(Crash::ProcessKill, 1))).unwrap();
    let table = db.byte_table("new").unwrap();
    let rows: Vec<_> = table.range(..).map(|row| row.unwrap().0).collect();
    assert_eq!(rows, [b"row"]);
    (0..200u8).for_each(|i| assert_eq!(table.get(&[i]).unwrap(), None, "row {i}"));
}

/// Only a directory that is damaged is done without: one that cannot be read now leads to what only the log holds.
#[test]
fn a_salvage_gives_up_no_log_for_a_read_that_failed() {
    let disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    (0..50u8).for_each(|i| table.put(&[i], &[i; 50]).unwrap());
    db.checkpoint().unwrap();
    (50..100u8).for_each(|i| table.put(&[i], &[i; 50]).unwrap());
    let left = disk.after_crash(Crash::ProcessKill, 1);
    let copy = || left.after_crash(Crash::ProcessKill, 1);
    let whole = copy();
    drop(tiny().rebuild(true).open_on(Arc::new(whole.clone())).unwrap());
    for read in 0..whole.read_events() {
        let disk = copy();
        disk.fail_read_at(read, Repeat::Once);
        let _ = tiny().rebuild(true).open_on(Arc::new(disk.clone()));
        let db = tiny().open_on(Arc::new(disk)).unwrap();
        assert_eq!(db.byte_table("t").unwrap().range(..).count(), 100, "read {read}");
    }
}

/// A key that a transaction removed before it prepared is gone once it is committed, also after a restart: no ghost stays.
#[test]
fn a_prepared_removal_leaves_no_ghost() {
    let disk = SimDisk::new(1);
    let open = || tiny().open_on(Arc::new(disk.clone())).unwrap();
    let db = open();
    let table = db.byte_table("t").unwrap();
    table.put(b"k", b"v").unwrap();
    let tx = db.begin().unwrap();
    assert!(tx.bytes(&table).remove(b"k").unwrap());
    tx.prepare("gid").unwrap();
    drop((table, db));
    let db = open();
    db.commit_prepared("gid").unwrap();
    let ghosts = || db.check().unwrap().tables.iter().map(|table| table.ghosts).sum::<u64>();
    let since = Instant::now();
    while ghosts() > 0 {
        assert!(since.elapsed() < Duration::from_secs(10), "the ghost stays for ever");
    }
}

/// Works with the database while its thread ends, when the engine's own memory of that thread is gone already.
struct AtTheEnd {
    db: Database,
    table: ByteTable,
    rows: mpsc::Sender<usize>,
}

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        let before = self.table.range(..).count();
        let tx = self.db.begin().unwrap();
        (before..2 * before).for_each(|n| tx.bytes(&self.table).put(&n.to_be_bytes(), &[7; 100]).unwrap());
        let after = tx.bytes(&self.table).range(..).rev().count();
        tx.commit().unwrap();
        self.rows.send(after).unwrap();
    }
}

#[test]
fn a_thread_that_ends_can_read_and_write() {
    thread_local!(static LAST: RefCell<Option<AtTheEnd>> = const { RefCell::new(None) });
    let (rows, counted) = mpsc::channel();
    let thread = thread::spawn(|| {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        LAST.set(Some(AtTheEnd { db, table: table.clone(), rows }));
        (0..1000_usize).for_each(|n| table.put(&n.to_be_bytes(), &[7; 100]).unwrap());
        assert_eq!(table.range(..).count(), 1000);
    });
    thread.join().unwrap();
    assert_eq!(counted.recv().unwrap(), 2000);
}

/// However full the last leaf is, and however long what its keys have in common: it becomes the left neighbour of a loaded one.
/// Rows come into it before the load, and with large values during it.
#[test]
fn a_bulk_load_goes_on_behind_a_full_leaf() {
    let key = |number: u8| [&[b'k'; 750][..], &[number]].concat();
    for value_len in (0..220).step_by(20) {
        let db = tiny().open_on(Arc::new(SimDisk::new(1))).unwrap();
        let (table, large) = (db.byte_table("t").unwrap(), db.byte_table("large").unwrap());
        for number in 0..5 {
            table.put(&key(number), &vec![1; if number == 0 { value_len } else { 0 }]).unwrap();
        }
        assert_eq!(table.bulk_load((5..9).map(|number| (key(number), [2]))).unwrap(), 4);
        let rows = (0..).zip([2000, 2000, value_len]).map(|(number, len)| (key(number), vec![3; len]));
        assert_eq!(large.bulk_load(rows).unwrap(), 3);
        assert_eq!((table.range(..).count(), large.range(..).count()), (9, 3), "{value_len}");
        db.check().unwrap();
        db.close().unwrap();
    }
}

/// Rows above the last one are loaded, though the leaf behind that begins further up, and has lost its rows.
#[test]
fn a_bulk_load_may_begin_before_an_empty_leaf() {
    let key = |number: u32| number.to_be_bytes();
    for kept in (380..480).step_by(5) {
        let db = tiny().open_on(Arc::new(SimDisk::new(1))).unwrap();
        let table = db.byte_table("t").unwrap().with_durability(Durability::Relaxed);
        (0..500).for_each(|number| table.put(&key(number), &[1; 20]).unwrap());
        (kept..500).for_each(|number| assert!(table.remove(&key(number)).unwrap()));
        let loaded = table.bulk_load((kept..900).map(|number| (key(number), [2; 20])));
        assert_eq!(loaded.unwrap(), u64::from(900 - kept), "behind {kept} rows");
        assert_eq!(table.range(..).count(), 900);
        db.check().unwrap();
        db.close().unwrap();
    }
}
