//! Sizes at their limits, second opens, dropped tables, foreign directories.

mod common;

use common::tiny;
use foreshore::{ByteTable, Database, Durability, Error, TransactionOptions};
use foreshore_io::sim::{Call, Intercepted};
use foreshore_io::{MemVfs, SimDisk, Vfs};
use std::cell::RefCell;
use std::collections::BTreeSet;
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
        let error = Database::open(dir.path()).expect_err("it is open");
        assert!(
            matches!(error, Error::Locked { pid: Some(pid), .. } if pid == std::process::id()),
            "{error}"
        );
        // Who has closed it may not know that a table keeps it.
        assert!(error.to_string().contains("those of tables"), "{error}");
    }
    drop(db);
    for _ in 0..20 {
        drop(Database::open(dir.path()).unwrap());
    }
}

/// It may be a file of another user's that is in the way, as after a command that was run as root.
#[test]
fn who_may_not_lock_it_is_told_what_must_be_writable() {
    let vfs = Intercepted::new(MemVfs::new(), |call, _, go| match call {
        Call::Lock => Err(std::io::ErrorKind::PermissionDenied.into()),
        _ => go(),
    });
    let refused = Database::builder().open_on(Arc::new(vfs)).expect_err("it cannot be locked").to_string();
    assert!(
        refused.contains("file LOCK of ") && refused.contains("files in it must be writable"),
        "{refused}"
    );
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
fn an_empty_path_is_no_directory() {
    let db = Database::in_memory().unwrap();
    for (path, told) in [("", "empty"), ("a\0b", "zero byte")] {
        let compacted = Database::builder().compact(path, |_| {});
        for refused in [Database::open(path).err(), db.backup(path).err(), compacted.err()] {
            assert!(matches!(&refused, Some(Error::Argument(why)) if why.contains(told)), "{refused:?}");
        }
    }
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

/// A row that is out of order is told by its key, and what it is not above: its own load's rows, or those that were there.
#[test]
fn a_bulk_load_says_which_order_is_broken() {
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("t").unwrap();
    table.put(b"m", b"").unwrap();
    for (keys, place) in [
        (["a", "b"], "key a is not above the table's last row"),
        (["n", "n"], "key n is not above the row before it"),
    ] {
        let refused = table.bulk_load(keys.map(|key| (key, ""))).unwrap_err().to_string();
        assert!(refused.contains(place), "{refused}");
    }
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

/// Rows that come above those to be loaded, and go again, perhaps leave an empty leaf that begins where the load's own would.
#[test]
fn a_bulk_load_hangs_no_leaf_behind_one_that_begins_there() {
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("t").unwrap();
    let mut rows = vec![(b"m1", b"value")];
    let loaded = table.bulk_load(std::iter::from_fn(|| {
        if rows.is_empty() {
            let splits = db.stats().splits;
            (0..60).for_each(|row| table.put(format!("l{row:02}").as_bytes(), &[1; 100]).unwrap());
            table.put(b"m", &[2; WHOLE_MAX]).unwrap();
            assert_eq!(db.stats().splits, splits + 1);
            assert!(table.remove(b"m").unwrap());
        }
        rows.pop()
    }));
    assert!(matches!(loaded, Err(Error::BulkLoad { .. })), "{loaded:?}");
    assert_eq!(table.range(..).map(Result::unwrap).count(), 60);
    db.check().unwrap();
}

/// While a load waits for its rows, which may take long, or use the table, it has nothing locked.
#[test]
fn rows_to_be_loaded_may_come_from_the_table() {
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("t").unwrap();
    for len in [10, WHOLE_MAX + 1, 200_000] {
        let first = table.range(..).count() as u8;
        let impatient = TransactionOptions::new().lock_timeout(Duration::ZERO);
        let rows = (first..first + 5).map(|number| {
            let tx = db.begin_with(impatient).unwrap();
            assert!(tx.bytes(&table).range(..).map(Result::unwrap).count() <= number.into());
            tx.bytes(&table).get_for_update(&[number - number.min(1)]).unwrap();
            tx.commit().unwrap();
            ([number], vec![number; len])
        });
        assert_eq!(table.bulk_load(rows).unwrap(), 5);
    }
    assert!(table.range(..).map(Result::unwrap).all(|(key, value)| value[0] == key[0]));
}

/// A load waits no longer for a lock than its handle is to.
#[test]
fn a_bulk_load_is_as_patient_as_its_handle() {
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("t").unwrap();
    let tx = db.begin().unwrap();
    assert!(tx.bytes(&table).get_for_update(b"").unwrap().is_none());
    let since = Instant::now();
    for len in [10, WHOLE_MAX + 1] {
        let refused = table.with_lock_timeout(Duration::ZERO).bulk_load([(b"", vec![0; len])]);
        assert!(matches!(refused, Err(Error::LockTimeout { .. })), "{refused:?}");
    }
    assert!(since.elapsed() < Duration::from_secs(5));
}

/// A cache that cannot be is refused before a database is begun, or written to.
#[test]
fn an_impossible_cache_is_refused_first() {
    let disk = Arc::new(MemVfs::new());
    let names = || disk.list().unwrap().into_iter().collect::<BTreeSet<_>>();
    let refuses = || {
        let before = names();
        for bytes in [usize::MAX, 8192 << 29] {
            let options = Database::builder().cache_bytes(bytes).rebuild(before.len() > 1);
            let refused = options.open_on(disk.clone()).map(drop);
            assert!(matches!(refused, Err(Error::Argument(_))), "{refused:?}");
            assert_eq!(names(), before);
        }
    };
    disk.lock("LOCK").map(drop).unwrap();
    refuses();
    Database::builder().open_on(disk.clone()).unwrap().close().unwrap();
    refuses();
}

/// Where the system leaves too few addresses for an index, that is an error. (Where it leaves very few, something else is.)
#[test]
fn too_few_addresses_are_an_error() {
    for addresses_kib in [100_000, 180_000, 240_000] {
        let limited = |arguments: &str| {
            let line = format!("ulimit -v {addresses_kib} && exec \"$0\" {arguments}");
            Command::new("sh").arg("-c").arg(line).arg(std::env::current_exe().unwrap()).output().unwrap()
        };
        // A sanitizer's own addresses are more than that.
        if limited("--list").status.success() {
            let output = limited("--exact open_with_few_addresses --ignored");
            assert!(
                output.status.success(),
                "{addresses_kib} KiB: {}",
                String::from_utf8_lossy(&output.stdout)
            );
        }
    }
}

#[test]
#[ignore = "a part of the test above, in a process of its own"]
fn open_with_few_addresses() {
    let opened = tiny().open_on(Arc::new(MemVfs::new())).map(drop);
    assert!(matches!(opened, Ok(()) | Err(Error::Io { .. })), "{opened:?}");
}

/// Keys that were removed are not in the table, though a snapshot still sees their rows.
#[test]
fn a_bulk_load_takes_no_notice_of_removed_keys() {
    let key = |number: u32| number.to_be_bytes();
    for kept in [0, 10, 990] {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        table.bulk_load((0..1000).map(|number| (key(number), [1; 20]))).unwrap();
        let snapshot = db.snapshot().unwrap();
        table.remove_range(&key(kept)[..]..).unwrap();
        let refused = kept.checked_sub(1).map(|last| table.bulk_load([(key(last), [2; 20])]));
        assert!(refused.is_none_or(|refused| matches!(refused, Err(Error::BulkLoad { .. }))));
        let loaded = table.bulk_load((kept..1500).map(|number| (key(number), [2; 20])));
        assert_eq!(loaded.unwrap(), u64::from(1500 - kept));
        assert_eq!(table.range(..).map(Result::unwrap).count(), 1500);
        assert_eq!(snapshot.bytes(&table).get(&key(995)).unwrap(), Some(vec![1; 20]));
        drop(snapshot);
        db.check().unwrap();
    }
}

/// A path that is a file's is told as one, and the file stays as it is.
#[test]
fn a_file_is_no_database() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data.db");
    std::fs::write(&path, "of another library").unwrap();
    for create in [true, false] {
        let told = Database::builder().create(create).open(&path).unwrap_err();
        assert!(matches!(&told, Error::Incompatible { .. }), "{told:?}");
        assert!(told.to_string().contains("it is a file, and a database is a directory"), "{told}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"of another library");
}
