//! A full disk, of whatever kind, is an error that changes nothing: rows that are there are read, changed and removed for ever, and what is
//! undone finds its space.

mod common;

use common::{Rng, key, tiny};
use foreshore::{Database, Durability, Error};
use foreshore_io::sim::{Call, Crash, Go, Intercepted};
use foreshore_io::{Access, SimDisk, Vfs};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A file that may not become longer, for the file system's sake or that of `ulimit -f`, is as good as a full disk: rows that are there
/// can be changed and removed for ever.
#[test]
fn a_longest_file_is_a_full_disk() {
    let around = |call, name: &str, go: &mut Go<'_>| match (call, name) {
        (Call::Allocate, "leaves.db") if IS_LONGEST.load(Relaxed) => {
            Err(io::Error::from_raw_os_error(libc::EFBIG))
        }
        _ => go(),
    };
    static IS_LONGEST: AtomicBool = AtomicBool::new(false);
    let disk = SimDisk::new(1);
    let open = || tiny().open_on(Arc::new(Intercepted::new(disk.clone(), around))).unwrap();
    let db = open();
    let table = db.byte_table("t").unwrap().with_durability(Durability::Relaxed);
    IS_LONGEST.store(true, Relaxed);
    let full = (0..20_000).find_map(|i| table.put(&key(i), &[1; 1000]).err().map(|e| (i, e)));
    let Some((rows, Error::Full { .. })) = full else { panic!("{full:?}") };
    for byte in 2..4 {
        for i in 0..rows {
            table.put(&key(i), &[byte; 1000]).unwrap_or_else(|e| panic!("row {i} of {rows}: {e}"));
        }
        db.checkpoint().unwrap();
    }
    drop(table);
    db.close().unwrap();
    let db = open();
    let table = db.byte_table("t").unwrap();
    table.put(&key(0), &[3; 1000]).unwrap();
    db.checkpoint().unwrap();
    assert_eq!(table.range(..).map(Result::unwrap).filter(|row| row.1 == [3; 1000]).count() as u32, rows);
    (0..rows).for_each(|i| assert!(table.remove(&key(i)).unwrap()));
}

/// A life with a larger cache cleans more pages at a time than the one before has left slots for.
#[test]
fn a_full_disk_suits_a_larger_cache() {
    let disk = SimDisk::new(5);
    disk.set_capacity(16 << 20); // before the file of leaves grows ahead
    let open = |frames: usize| {
        tiny().cache_bytes(frames * 4096).log_bytes(4 << 20).open_on(Arc::new(disk.clone())).unwrap()
    };
    let relaxed = |db: &Database| db.byte_table("t").unwrap().with_durability(Durability::Relaxed);
    let db = open(64);
    let table = relaxed(&db);
    let rows = (0..).take_while(|i| table.put(&key(*i), &[1; 500]).is_ok()).count() as u32;
    drop(table);
    db.close().unwrap();
    let db = open(2000);
    let table = relaxed(&db);
    for i in 0..rows {
        table.put(&key(i), &[2; 500]).unwrap_or_else(|e| panic!("row {i} of {rows}: {e}"));
    }
    db.checkpoint().unwrap();
    (0..rows).for_each(|i| assert_eq!(table.get(&key(i)).unwrap(), Some(vec![2; 500])));
    db.check().unwrap();
}

/// Log files that are kept only to be written again make way for rows.
#[test]
fn spare_log_files_make_way() {
    let disk = SimDisk::new(3);
    let db = tiny().segment_bytes(1 << 20).log_bytes(96 << 20).open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap().with_durability(Durability::Relaxed);
    for _ in 0..60_000 {
        table.put(b"the same row, again and again", &[7; 2000]).unwrap();
    }
    db.checkpoint().unwrap();
    let log_files = || disk.names().iter().filter(|name| name.starts_with("wal-")).count();
    let kept = log_files();
    assert!(kept > 40, "{kept} files are kept");
    disk.set_capacity(disk.used_bytes());
    for i in 0..8000u32 {
        table.put(&i.to_be_bytes(), &[7; 2000]).unwrap_or_else(|e| panic!("row {i}: {e}"));
    }
    assert!(log_files() < kept, "the rows needed space");
    db.checkpoint().unwrap();
    db.check().unwrap();
    db.close().unwrap();
}

/// Many transactions that have all logged a little before the disk is full find that it is, each of them, and change nothing.
#[test]
fn a_full_disk_is_a_clean_error_for_many_transactions_at_once() {
    const TRANSACTIONS: u32 = 200;
    let disk = SimDisk::new(6);
    let options = Database::builder().leaf_bytes(32 << 10).cache_bytes(16 << 20);
    let options = options.ring_bytes(512 << 10).segment_bytes(512 << 10).log_bytes(512 << 10);
    let db = options.open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap().with_durability(Durability::Buffered);
    let before = vec![1; 8000];
    (0..TRANSACTIONS).for_each(|i| table.put(&key(i), &before).unwrap());
    (0..TRANSACTIONS).for_each(|i| table.put(&[key(i), *b"tiny"].concat(), b"").unwrap());
    let running: Vec<_> = (0..TRANSACTIONS).map(|_| db.begin().unwrap()).collect();
    for (i, tx) in (0..).zip(&running) {
        tx.bytes(&table).put(&[key(i), *b"tiny"].concat(), b"1").unwrap();
    }
    let filler = db.byte_table("filler").unwrap();
    disk.set_capacity(disk.used_bytes());
    let full = (0..).find_map(|i| filler.put(&key(i), &[5; 900]).err());
    assert!(matches!(full, Some(Error::Full { .. })), "{full:?}");
    for (i, tx) in (0..).zip(&running) {
        let refused = tx.bytes(&table).put(&key(i), &vec![2; 8000]);
        assert!(matches!(refused, Ok(()) | Err(Error::Full { .. })), "transaction {i}: {refused:?}");
    }
    running.into_iter().for_each(|tx| tx.rollback().unwrap());
    (0..TRANSACTIONS).for_each(|i| assert_eq!(table.get(&key(i)).unwrap().as_ref(), Some(&before)));
}

/// A transaction that finds nothing to do logs that it was there, no more. However many of them come on a full disk, that is a clean error
/// for them, too. (With such a log buffer a transaction asks only now and then whether there is space.)
#[test]
fn a_full_disk_is_a_clean_error_for_who_finds_nothing_to_do() {
    let disk = SimDisk::new(7);
    let options = tiny().ring_bytes(8 << 20).segment_bytes(1 << 20).log_bytes(256 << 20);
    let db = options.open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    table.put(b"k", b"v").unwrap();
    disk.set_capacity(disk.used_bytes());
    let full = (0..4000).find_map(|_| db.transact(|tx| tx.bytes(&table).insert(b"k", b"w")).err());
    assert!(matches!(full, Some(Error::Full { .. })), "{full:?}");
    disk.set_capacity(u64::MAX);
    table.put(b"k", b"w").unwrap();
}

/// Many transactions, each of which has changed little, are rolled back on a full disk: the log has the space for all of them.
#[test]
fn many_small_rollbacks_need_no_space_for_the_log() {
    const MANY: u16 = 400;
    let row = |i: u16| vec![i as u8; 180];
    let disk = SimDisk::new(3);
    let options = tiny().log_bytes(64 << 20).durability(Durability::Relaxed);
    let db = options.open_on(Arc::new(disk.clone())).unwrap();
    let (table, filler) = (db.byte_table("t").unwrap(), db.byte_table("filler").unwrap());
    (0..MANY).for_each(|i| table.put(&i.to_be_bytes(), &row(i)).unwrap());
    let begin = |i: u16| {
        let tx = db.begin().unwrap();
        tx.bytes(&table).remove(&i.to_be_bytes()).unwrap();
        tx
    };
    let txs: Vec<_> = (0..MANY).map(begin).collect();
    disk.set_capacity(disk.used_bytes() + (64 << 10));
    let full = (0..).find_map(|i| filler.put(b"k", &row(i)).err());
    assert!(matches!(full, Some(Error::Full { .. })), "{full:?}");
    for (i, tx) in txs.into_iter().enumerate() {
        tx.rollback().unwrap_or_else(|e| panic!("rollback {i}: {e}"));
    }
    (0..MANY).for_each(|i| assert_eq!(table.get(&i.to_be_bytes()).unwrap(), Some(row(i))));
    db.check().unwrap();
}

/// Transactions that are under way when the disk is full can be committed, each by itself: the log has the space for all of them, though
/// each commit closes a block of it.
#[test]
fn commits_need_no_space_for_the_log() {
    const MANY: u16 = 100;
    let disk = SimDisk::new(4);
    let db = tiny().log_bytes(64 << 20).open_on(Arc::new(disk.clone())).unwrap();
    let (table, filler) = (db.byte_table("t").unwrap(), db.byte_table("filler").unwrap());
    let filler = filler.with_durability(Durability::Relaxed);
    let begin = |i: u16| {
        let tx = db.begin().unwrap();
        tx.bytes(&table).put(&i.to_be_bytes(), b"row").unwrap();
        tx
    };
    let txs: Vec<_> = (0..MANY).map(begin).collect();
    disk.set_capacity(disk.used_bytes() + (64 << 10));
    let full = (0..).find_map(|_| filler.put(b"k", &[5; 180]).err());
    assert!(matches!(full, Some(Error::Full { .. })), "{full:?}");
    for (i, tx) in txs.into_iter().enumerate() {
        tx.commit().unwrap_or_else(|e| panic!("commit {i}: {e}"));
    }
    assert_eq!(table.range(..).count(), usize::from(MANY));
}

/// Who found room in the log for many short records asks again when the disk is full: each that is committed by itself takes a block.
#[test]
fn room_in_the_log_is_asked_for_again_on_a_full_disk() {
    const MANY: u16 = 200;
    let disk = SimDisk::new(4);
    let options = tiny().ring_bytes(8 << 20).segment_bytes(8 << 20).log_bytes(64 << 20);
    let db = options.open_on(Arc::new(disk.clone())).unwrap();
    let (table, filler) = (db.byte_table("t").unwrap(), db.byte_table("filler").unwrap());
    let filler = filler.with_durability(Durability::Relaxed);
    let put_each = || {
        let txs: Vec<_> = (0..MANY).map(|_| db.begin().unwrap()).collect();
        (0..MANY).zip(txs).try_for_each(|(i, tx)| {
            tx.bytes(&table).put(&i.to_be_bytes(), b"row")?;
            tx.commit()
        })
    };
    put_each().unwrap();
    disk.set_capacity(disk.used_bytes() + (64 << 10));
    let full = (0..).find_map(|_| filler.put(b"k", &[5; 180]).err());
    assert!(matches!(full, Some(Error::Full { .. })), "{full:?}");
    for _ in 0..30 {
        let refused = put_each();
        assert!(matches!(refused, Ok(()) | Err(Error::Full { .. })), "{refused:?}");
    }
    db.check().unwrap();
}

/// A directory in which a full disk has no place for one more name is as any full disk: what was to have the name is put off, and the
/// log's files take no space meanwhile.
#[test]
fn no_space_for_a_name_is_a_full_disk() {
    for file in ["directory.tmp", "wal-new"] {
        let (disk, refused) = (SimDisk::new(3), Arc::new(AtomicU64::new(0)));
        let (is_full, times) = (Arc::new(AtomicBool::new(false)), refused.clone());
        let full = is_full.clone();
        let vfs = Intercepted::new(disk.clone(), move |call, name, go| {
            if (call, name) == (Call::Rename, file) && full.load(Relaxed) {
                times.fetch_add(1, Relaxed);
                return Err(io::Error::from_raw_os_error(libc::ENOSPC));
            }
            go()
        });
        let db = tiny().durability(Durability::Buffered).open_on(Arc::new(vfs)).unwrap();
        let table = db.byte_table("t").unwrap();
        let is_told = |told: foreshore::Result<()>| match told {
            Err(Error::Full { .. }) | Ok(()) => {}
            Err(other) => panic!("{file}: {other}"),
        };
        is_full.store(true, Relaxed);
        for i in 0..20_000_u32 {
            is_told(table.put(&[&[7; 400][..], &key(i % 400)].concat(), &[i as u8; 50]));
            if i % 100 == 0 {
                is_told(db.checkpoint());
            }
        }
        assert!(refused.load(Relaxed) > 0, "{file} was never to have a name");
        let since = Instant::now();
        while disk.names().iter().any(|name| name == "wal-new") {
            // The thread that makes segments may be at another attempt.
            assert!(since.elapsed() < Duration::from_secs(5), "{file}: {:?}", disk.names());
            std::thread::yield_now();
        }
        is_full.store(false, Relaxed);
        table.put(b"k", b"v").unwrap();
        db.check().unwrap();
    }
}

/// Where the log has taken the last of the disk, it does with less by itself: whoever removes rows to make room need not know of checkpoints.
#[test]
fn rows_can_be_removed_when_the_log_has_filled_the_disk() {
    let disk = SimDisk::new(1);
    let options = tiny().ring_bytes(1 << 20).segment_bytes(1 << 20).log_bytes(256 << 20);
    let db = options.durability(Durability::Relaxed).open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    (0..1000).for_each(|i| table.put(&key(i), &[1; 200]).unwrap());
    disk.set_capacity(disk.used_bytes() + (4 << 20));
    let full = (0..).find_map(|i| table.put(&key(i % 1000), &[i as u8; 200]).err());
    assert!(matches!(&full, Some(Error::Full { what }) if what.contains("log segment")), "{full:?}");
    let until = Instant::now() + Duration::from_secs(60);
    for i in 0..1000 {
        while let Err(error) = table.remove(&key(i)) {
            assert!(matches!(error, Error::Full { .. }) && Instant::now() < until, "row {i}: {error}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    assert!(db.drop_table("t").unwrap());
}

/// On a full disk rows are changed and read for ever: there is space for what the directory is to say of each page, however often it is
/// cleaned.
#[test]
fn reads_go_on_for_ever_on_a_full_disk() {
    const ROWS: u32 = 2000;
    let disk = SimDisk::new(1);
    let open = || tiny().durability(Durability::Relaxed).open_on(Arc::new(disk.clone())).unwrap();
    let mut db = open();
    let mut rng = Rng(1);
    let table = db.byte_table("t").unwrap();
    (0..ROWS).for_each(|i| table.put(&key(i), &[1; 200]).unwrap());
    drop(table);
    db.checkpoint().unwrap();
    disk.set_capacity(disk.used_bytes());
    for life in 0..2 {
        let table = db.byte_table("t").unwrap();
        let (mut full, mut changed) = (0, 0);
        while full < 300 && changed < 40_000 {
            match table.put(&key(rng.below(ROWS as usize) as u32), &[2; 200]) {
                Ok(()) => changed += 1,
                Err(Error::Full { .. }) => {
                    full += 1;
                    let _ = db.checkpoint(); // the log makes room for more
                }
                Err(other) => panic!("life {life}, after {changed} changes: {other}"),
            }
        }
        for i in 0..ROWS {
            let row =
                table.get(&key(i)).unwrap_or_else(|e| panic!("life {life}, {changed} changes, row {i}: {e}"));
            assert!(row.is_some());
        }
        drop(table);
        db.close().unwrap();
        db = open();
    }
    disk.set_capacity(u64::MAX);
    let table = db.byte_table("t").unwrap();
    (0..ROWS).for_each(|i| table.put(&key(i), &[3; 300]).unwrap());
    db.check().unwrap();
}

/// What a dropped table gave up is there for others at once, however little it is: who drops it need not know of checkpoints.
#[test]
fn a_small_table_makes_room_when_it_is_dropped() {
    static IS_FULL: AtomicBool = AtomicBool::new(false);
    let disk = Intercepted::new(SimDisk::new(9), |call, name, go| match (call, name) {
        (Call::Allocate, "leaves.db") if IS_FULL.load(Relaxed) => Err(io::ErrorKind::StorageFull.into()),
        _ => go(),
    });
    // All leaves stay in the cache: nobody else asks the cleaner for anything.
    let options = tiny().cache_bytes(4096 * 4096).log_bytes(256 << 20).durability(Durability::Relaxed);
    let db = options.open_on(Arc::new(disk)).unwrap();
    let [dropped, table] = ["dropped", "t"].map(|name| db.byte_table(name).unwrap());
    (0..100).for_each(|i| dropped.put(&key(i), &[1; 900]).unwrap());
    IS_FULL.store(true, Relaxed);
    let full = (0..20_000).find_map(|i| table.put(&key(i), &[5; 900]).err());
    assert!(matches!(&full, Some(Error::Full { what }) if what.contains("leaves.db")), "{full:?}");
    assert!(db.drop_table("dropped").unwrap());
    (30_000..30_050).for_each(|i| table.put(&key(i), &[5; 900]).unwrap_or_else(|e| panic!("row {i}: {e}")));
    db.check().unwrap();
}

/// A row of other types is not lost to who cannot read it, though there is no space to put it there once more.
#[test]
fn a_row_that_cannot_be_read_stays() {
    static IS_FULL: AtomicBool = AtomicBool::new(false);
    let disk = Intercepted::new(SimDisk::new(8), |call, name, go| match (call, name) {
        (Call::Allocate, "leaves.db") if IS_FULL.load(Relaxed) => Err(io::ErrorKind::StorageFull.into()),
        _ => go(),
    });
    let db = tiny().open_on(Arc::new(disk)).unwrap();
    let (table, bytes) = (db.table::<u32, u32>("t").unwrap(), db.byte_table("t").unwrap());
    let (number, value) = (7_u32.to_be_bytes(), vec![7; 50_000]);
    bytes.put(&number, &value).unwrap();
    let filler = db.byte_table("filler").unwrap().with_durability(Durability::Relaxed);
    IS_FULL.store(true, Relaxed);
    let full = (0..20_000).find_map(|i| filler.put(&key(i), &[5; 900]).err());
    assert!(matches!(full, Some(Error::Full { .. })), "{full:?}");
    let tx = db.begin().unwrap();
    let refused = tx.table(&table).pop_first();
    tx.commit().unwrap();
    assert!(bytes.get(&number).unwrap() == Some(value), "after {refused:?}");
    assert!(matches!(refused, Err(Error::Encoding { .. })), "{refused:?}");
}

/// A copy of a closed database in which zeros take no space.
fn sparse_copy(disk: &SimDisk) -> SimDisk {
    let copy = SimDisk::new(1);
    for name in disk.names() {
        let open = |disk: &SimDisk, create| disk.open(&name, Access::Buffered, create).unwrap();
        let (from, to) = (open(disk, false), open(&copy, true));
        let bytes = from.len().unwrap();
        to.set_len(bytes).unwrap();
        for at in (0..bytes).step_by(4096) {
            let mut block = vec![0; 4096.min(bytes - at) as usize];
            from.read_at(&mut block, at).unwrap();
            if block.iter().any(|byte| *byte != 0) {
                to.write_at(&block, at).unwrap();
            }
        }
        to.sync().unwrap();
    }
    copy.sync_dir().unwrap();
    copy
}

/// Closed databases may be copied in any way. Who has opened one has what it takes to change its rows when the disk is full.
#[test]
fn a_sparse_copy_suits_a_full_disk() {
    let disk = SimDisk::new(5);
    let open = |disk: &SimDisk| tiny().open_on(Arc::new(disk.clone())).unwrap();
    let db = open(&disk);
    let table = db.byte_table("t").unwrap();
    (0..300).for_each(|i| table.put(&key(i), &[i as u8; 200]).unwrap());
    db.close().unwrap();
    drop(table);
    let disk = disk.after_crash(Crash::ProcessKill, 1);
    let sparse = sparse_copy(&disk);
    assert!(sparse.used_bytes() < disk.used_bytes());
    for (what, disk) in [("itself", disk), ("sparse", sparse)] {
        let db = open(&disk);
        let table = db.byte_table("t").unwrap();
        disk.set_capacity(disk.used_bytes());
        for i in 0..1000 {
            let put = table.put(&key(i % 300), &[i as u8; 200]);
            assert!(matches!(put, Ok(()) | Err(Error::Full { .. })), "{what}, {i}: {put:?}");
            if i % 50 == 0 || put.is_err() {
                db.checkpoint().unwrap_or_else(|e| panic!("{what}, {i}: {e}"));
            }
        }
        db.check().unwrap();
    }
}

/// Nor do holes in older files of the log, which are written again.
#[test]
fn a_sparse_copy_of_a_long_log_suits_a_full_disk() {
    const SEGMENT: u64 = 256 << 10;
    let options =
        || tiny().leaf_bytes(32 << 10).cache_bytes(64 << 15).segment_bytes(SEGMENT).log_bytes(SEGMENT);
    let open = |disk: &SimDisk| options().ring_bytes(512 << 10).open_on(Arc::new(disk.clone())).unwrap();
    let disk = SimDisk::new(5);
    let db = open(&disk);
    let table = db.byte_table("t").unwrap();
    (0..300).for_each(|i| table.put(&key(i), &[0; 8000]).unwrap());
    db.close().unwrap();
    let disk = sparse_copy(&disk.after_crash(Crash::ProcessKill, 1));
    drop(table);
    let db = open(&disk);
    let table = db.byte_table("t").unwrap();
    disk.set_capacity(disk.used_bytes());
    for i in 0..1000 {
        let put = table.put(&key(i % 300), &[i as u8 | 1; 8000]);
        assert!(matches!(put, Ok(()) | Err(Error::Full { .. })), "{i}: {put:?}");
        if i % 50 == 0 {
            db.checkpoint().unwrap_or_else(|e| panic!("{i}: {e}"));
        }
    }
    db.check().unwrap();
}

/// An opening that is killed before somebody relies on it leaves the log as it was: however many there are, the next one finds its place.
#[test]
fn openings_that_are_killed_take_nothing_of_a_full_disk() {
    live_on_a_full_disk(200, |_| ());
}

/// Nor do those that read, and wait until what they have read is durable, which it is.
#[test]
fn openings_that_read_take_nothing_of_a_full_disk() {
    live_on_a_full_disk(80, |db| {
        let tx = db.begin().unwrap();
        let table = db.byte_table("t").unwrap();
        assert_eq!(tx.bytes(&table).get(&key(1)).unwrap().as_deref(), Some(&b"v"[..]));
        tx.commit().unwrap();
    });
    live_on_a_full_disk(80, |db| {
        db.sync().unwrap();
        db.snapshot().unwrap().wait_durable().unwrap();
        db.sync_async().wait().unwrap();
    });
}

/// So many openings on a full disk, each of which is killed after it has done this. All rows are there in each, and after them.
fn live_on_a_full_disk(lives: u64, live: impl Fn(&Database)) {
    const ROWS: u32 = 50;
    let mut disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    (0..ROWS).for_each(|i| table.put(&key(i), b"v").unwrap());
    disk.set_capacity(disk.used_bytes());
    let mut opened = (db, table);
    for life in 0..lives {
        let next = disk.after_crash(Crash::ProcessKill, life);
        drop(opened);
        disk = next;
        disk.set_capacity(disk.used_bytes());
        let db = tiny().open_on(Arc::new(disk.clone())).unwrap_or_else(|e| panic!("life {life}: {e}"));
        let table = db.byte_table("t").unwrap();
        assert_eq!(table.range(..).count() as u32, ROWS, "life {life}");
        live(&db);
        opened = (db, table);
    }
    let (db, table) = opened;
    assert!(table.remove(&key(0)).unwrap());
    db.close().unwrap();
}

/// A load that finds no space leaves a prefix, and goes on behind it when there is space.
#[test]
fn a_load_on_a_full_disk_can_be_gone_on_with() {
    const ROWS: u32 = 100_000;
    let disk = SimDisk::new(1);
    let db = tiny().durability(Durability::Relaxed).open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    disk.set_capacity(disk.used_bytes() + (2 << 20));
    let row = |n: u32| (n.to_be_bytes(), [1; 100]);
    let loaded = table.bulk_load((0..ROWS).map(row));
    assert!(matches!(loaded, Err(Error::Full { .. })), "{loaded:?}");
    disk.set_capacity(u64::MAX);
    let last = table.last().unwrap().map(|(key, _)| u32::from_be_bytes(key.try_into().unwrap()));
    let begin = last.map_or(0, |last| last + 1);
    assert!((1000..ROWS).contains(&begin), "{begin}");
    table.bulk_load((begin..ROWS).map(row)).unwrap();
    let keys = table.range(..).map(|found| u32::from_be_bytes(found.unwrap().0.try_into().unwrap()));
    assert!(keys.eq(0..ROWS));
}
