//! Many threads on one table: nothing is lost, torn, doubled or out of order, whatever splits, merges, cleans and evicts
//! meanwhile.

use foreshore::{Builder, Database, Durability, Index, TableOptions};
use foreshore_io::MemVfs;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

fn options() -> Builder {
    Database::builder()
        .leaf_bytes(4096)
        .cache_bytes(1 << 20)
        .segment_bytes(1 << 20)
        .ring_bytes(1 << 20)
        .log_bytes(8 << 20)
        .durability(Durability::Buffered)
}

fn mix(mut x: u64) -> u64 {
    x ^= x >> 33;
    x = x.wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    x ^ (x >> 33)
}

/// A value that says whose it is: a torn or misplaced one is seen.
fn value(key: u64, version: u64) -> Vec<u8> {
    let len = 24 + (mix(key ^ version) % 120) as usize;
    let mut value = key.to_be_bytes().to_vec();
    value.extend(version.to_be_bytes());
    value.resize(len, (key ^ version) as u8);
    value
}

fn check_value(key: u64, bytes: &[u8]) -> u64 {
    assert_eq!(bytes[..8], key.to_be_bytes(), "the value of another key");
    let version = u64::from_be_bytes(bytes[8..16].try_into().unwrap());
    assert_eq!(bytes, value(key, version), "a torn value");
    version
}

/// Each key belongs to one writer, which knows what it wrote last. Data several times the cache.
#[test]
fn writers_readers_and_scanners() {
    const WRITERS: u64 = 3;
    const KEYS: u64 = 12_000;
    let dir = tempfile::tempdir().unwrap();
    let db = options().open(dir.path()).unwrap();
    let table = db.byte_table("t").unwrap();
    // Odd keys stay: a scan must return each exactly once.
    for key in (1..KEYS).step_by(2) {
        table.put(&key.to_be_bytes(), &value(key, 0)).unwrap();
    }
    let stop = AtomicBool::new(false);
    let (reads, scans) = (AtomicU64::new(0), AtomicU64::new(0));
    let models: Vec<BTreeMap<u64, u64>> = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let table = &table;
                scope.spawn(move || {
                    let mut model = BTreeMap::new();
                    for step in 0..40_000u64 {
                        let key =
                            (mix(step * WRITERS + writer) % KEYS) / (2 * WRITERS) * 2 * WRITERS + 2 * writer;
                        // Waves of filling and emptying, so that leaves merge as well as split.
                        if (step / 8000) % 2 == 1 && step % 4 != 0 {
                            assert_eq!(
                                table.remove(&key.to_be_bytes()).unwrap(),
                                model.remove(&key).is_some()
                            );
                        } else {
                            table.put(&key.to_be_bytes(), &value(key, step)).unwrap();
                            model.insert(key, step);
                        }
                    }
                    model
                })
            })
            .collect();
        for reader in 0..2u64 {
            let (table, stop, reads) = (&table, &stop, &reads);
            scope.spawn(move || {
                let mut out = Vec::new();
                for step in 0.. {
                    if stop.load(Relaxed) {
                        return;
                    }
                    let key = mix(step << 8 | reader) % KEYS;
                    if table.get_into(&key.to_be_bytes(), &mut out).unwrap() {
                        check_value(key, &out);
                    } else {
                        assert_eq!(key % 2, 0, "key {key} vanished");
                    }
                    reads.fetch_add(1, Relaxed);
                }
            });
        }
        let (table_ref, stop_ref, scans_ref) = (&table, &stop, &scans);
        scope.spawn(move || {
            while !stop_ref.load(Relaxed) {
                let forward = scans_ref.fetch_add(1, Relaxed) % 2 == 0;
                scan(table_ref, forward, KEYS);
            }
        });
        let models = writers.into_iter().map(|w| w.join().unwrap()).collect();
        stop.store(true, Relaxed);
        models
    });
    let mut expected: BTreeMap<u64, u64> = (1..KEYS).step_by(2).map(|key| (key, 0)).collect();
    for model in models {
        expected.extend(model);
    }
    let verify = |db: &Database| {
        let mut found = BTreeMap::new();
        for row in db.byte_table("t").unwrap().range(..) {
            let (key, bytes) = row.unwrap();
            let key = u64::from_be_bytes(key.try_into().unwrap());
            found.insert(key, check_value(key, &bytes));
        }
        assert!(found == expected, "{} rows found, {} expected", found.len(), expected.len());
        db.check().unwrap();
    };
    verify(&db);
    let stats = db.stats();
    println!("{} reads, {} scans, {stats:?}", reads.load(Relaxed), scans.load(Relaxed));
    assert!(
        stats.splits > 0 && stats.absorbs > 0 && stats.pool_evictions > 0,
        "the test met no splits: {stats:?}"
    );
    drop((table, db));
    verify(&options().open(dir.path()).unwrap());
}

fn scan(table: &foreshore::ByteTable, forward: bool, keys: u64) {
    let mut odd = 0;
    let mut last: Option<u64> = None;
    let mut row = |key: Vec<u8>, bytes: &[u8]| {
        let key = u64::from_be_bytes(key.try_into().unwrap());
        check_value(key, bytes);
        assert!(last.is_none_or(|last| if forward { last < key } else { last > key }), "{last:?} then {key}");
        last = Some(key);
        odd += key % 2;
    };
    if forward {
        table.range(..).for_each(|r| r.map(|(k, v)| row(k, &v)).unwrap());
    } else {
        table.range(..).rev().for_each(|r| r.map(|(k, v)| row(k, &v)).unwrap());
    }
    assert_eq!(
        odd,
        keys / 2,
        "forward {forward}: a key that was there throughout was not returned exactly once"
    );
}

/// Many writers on one key: the value is always one that somebody wrote, whole.
#[test]
fn one_hot_key() {
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("t").unwrap();
    table.put(&7u64.to_be_bytes(), &value(7, 0)).unwrap();
    thread::scope(|scope| {
        for thread in 0..4u64 {
            let table = &table;
            scope.spawn(move || {
                for step in 0..20_000 {
                    table.put(&7u64.to_be_bytes(), &value(7, step * 4 + thread)).unwrap();
                    check_value(7, &table.get(&7u64.to_be_bytes()).unwrap().unwrap());
                }
            });
        }
    });
    db.check().unwrap();
}

/// `insert` from many threads: exactly one wins each key.
#[test]
fn inserts_have_one_winner() {
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("t").unwrap();
    let wins = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..4u8 {
            let (table, wins) = (&table, &wins);
            scope.spawn(move || {
                for key in 0..10_000u32 {
                    wins.fetch_add(
                        u64::from(table.insert(&mix(key.into()).to_be_bytes(), &[thread]).unwrap()),
                        Relaxed,
                    );
                }
            });
        }
    });
    assert_eq!(wins.load(Relaxed), 10_000);
    assert_eq!(table.range(..).count(), 10_000);
}

/// Group commit: many waiting threads share each sync.
#[test]
fn sixteen_threads_share_syncs() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let table = db.byte_table("t").unwrap();
    let before = db.stats().log_syncs;
    thread::scope(|scope| {
        for thread in 0..16u64 {
            let table = &table;
            scope.spawn(move || {
                for i in 0..200u64 {
                    table.put(&(thread << 32 | i).to_be_bytes(), b"durable").unwrap();
                }
            });
        }
    });
    let syncs = db.stats().log_syncs - before;
    assert!(syncs < 16 * 200 / 2, "{syncs} syncs for 3200 commits");
}

/// A check takes nothing for damage that splits and absorptions have under way.
#[test]
fn a_check_beside_writers_finds_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = options().open(dir.path()).unwrap();
    for index in [Index::BPlus, Index::CsbPlus, Index::O2] {
        let table = db.byte_table_with(&format!("{index:?}"), TableOptions::new().index(index)).unwrap();
        let (done, mut checks) = (AtomicBool::new(false), 0);
        thread::scope(|scope| {
            let (table, done) = (&table, &done);
            scope.spawn(move || {
                for round in 0..4 {
                    (0..4000).for_each(|key| table.put(&mix(key).to_be_bytes(), &value(key, round)).unwrap());
                    (0..4000).for_each(|key| assert!(table.remove(&mix(key).to_be_bytes()).unwrap()));
                }
                done.store(true, Relaxed);
            });
            while !done.load(Relaxed) {
                db.check().unwrap_or_else(|e| panic!("{index:?}: {e}"));
                checks += 1;
            }
        });
        assert!(checks > 0);
        db.check().unwrap();
    }
    assert!(db.stats().splits > 100 && db.stats().absorbs > 100);
}

/// Nor that somebody asks for statistics, which tell how large an index is.
#[test]
fn a_check_beside_statistics_finds_nothing() {
    let db = options().cache_bytes(8 << 20).open_on(Arc::new(MemVfs::new())).unwrap();
    let table = db.byte_table("t").unwrap();
    table.bulk_load((0..4000u64).map(|key| (key.to_be_bytes(), [7; 1000]))).unwrap();
    let checked = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !checked.load(Relaxed) {
                db.stats();
            }
        });
        let found = (0..100).find_map(|_| db.check().err());
        checked.store(true, Relaxed);
        assert!(found.is_none(), "{found:?}");
    });
}

/// Single writes of one row are kept apart by its leaf's latch: none waits for another one's lock, and so to be woken. Only beside
/// a transaction that uses the row do they wait for locks.
#[test]
fn single_writes_of_a_row_do_not_queue() {
    const PUTS: u64 = 20_000;
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("t").unwrap();
    let write = |by: u64| (0..PUTS).for_each(|version| table.put(b"k", &value(by, version)).unwrap());
    let lock_waits =
        || db.stats().waits.iter().find(|wait| wait.what == "locks of t").map_or(0, |wait| wait.count);
    thread::scope(|scope| {
        for by in 0..4 {
            let write = &write;
            scope.spawn(move || write(by));
        }
    });
    assert_eq!(lock_waits(), 0);
    let found = table.get(b"k").unwrap().unwrap();
    let by = u64::from_be_bytes(found[..8].try_into().unwrap());
    assert_eq!(check_value(by, &found), PUTS - 1, "each writer's last one is newer than its others");

    let tx = db.begin().unwrap();
    tx.bytes(&table).get(b"k").unwrap();
    thread::scope(|scope| {
        let put = scope.spawn(|| table.put(b"k", b"later"));
        thread::sleep(Duration::from_millis(30));
        assert_eq!(tx.bytes(&table).get(b"k").unwrap(), Some(found), "it is read twice alike");
        tx.commit().unwrap();
        put.join().unwrap().unwrap();
    });
    assert_eq!(table.get(b"k").unwrap(), Some(b"later".to_vec()));
}
