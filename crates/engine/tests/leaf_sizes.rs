//! Tables with leaves of another size than the database's own: each keeps its size, whatever happens to the database, and
//! transactions over several sizes are as atomic as any.

mod common;

use common::{Rng, env, tiny};
use foreshore::{Builder, Database, Durability, Error, Index, TableOptions};
use foreshore_io::SimDisk;
use foreshore_io::sim::{Crash, Fault, Repeat};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

const SIZES: [usize; 4] = [4096, 8192, 16384, 32768];
/// The size that the databases here are made with.
const OWN: usize = 4096;
/// Another one, where one is enough.
const OTHER: usize = 16384;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// As small as the largest leaves allow.
fn small() -> Builder {
    tiny().ring_bytes(16 * 32768).durability(Durability::Relaxed)
}

fn open(disk: &SimDisk) -> Database {
    small().open_on(Arc::new(disk.clone())).unwrap()
}

fn of_size(leaf_bytes: usize) -> TableOptions {
    TableOptions::new().leaf_bytes(leaf_bytes)
}

fn name(leaf_bytes: usize) -> String {
    format!("{leaf_bytes:05}")
}

fn rows(db: &Database, table: &str) -> Rows {
    db.byte_table(table).unwrap().range(..).collect::<Result<_, _>>().unwrap()
}

/// Leaf sizes by table.
fn sizes(db: &Database) -> Vec<(String, u64)> {
    db.stats().indexes.into_iter().map(|index| (index.table, index.leaf_bytes)).collect()
}

#[test]
fn a_table_keeps_its_size() {
    let disk = SimDisk::new(0);
    let db = open(&disk);
    for bytes in SIZES {
        let table = db.byte_table_with(&name(bytes), of_size(bytes).index(Index::CsbPlus)).unwrap();
        assert_eq!((table.leaf_bytes(), table.index()), (bytes, Index::CsbPlus));
        table.put(b"key", b"value").unwrap();
    }
    db.close().unwrap();

    // Another size for the database is ignored: its own was chosen when it was made.
    let db = small().leaf_bytes(32768).open_on(Arc::new(disk.clone())).unwrap();
    assert_eq!(db.byte_table("later").unwrap().leaf_bytes(), OWN);
    let expected: Vec<_> = SIZES.map(|bytes| (name(bytes), bytes as u64)).into();
    let later = ("later".to_string(), OWN as u64);
    assert_eq!(sizes(&db), [&expected[..], &[later]].concat());
    let reported: Vec<_> =
        db.check().unwrap().tables.into_iter().skip(1).map(|table| (table.name, table.leaf_bytes)).collect();
    assert_eq!(reported, sizes(&db));
    for bytes in SIZES {
        let table = db.byte_table_with(&name(bytes), of_size(8192)).unwrap();
        assert_eq!(table.leaf_bytes(), bytes, "options are for new tables");
        assert_eq!(table.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    }
    assert!(db.drop_table(&name(4096)).unwrap());
    assert_eq!(db.byte_table_with(&name(4096), of_size(8192)).unwrap().leaf_bytes(), 8192, "a new table");
    let others = disk.names().into_iter().filter(|name| name.starts_with("leaves-"));
    assert!(others.eq(["leaves-16k.db", "leaves-32k.db", "leaves-8k.db"]), "{:?}", disk.names());
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let disk = SimDisk::new(0);
    // Its ring is made for leaves of 4 KiB.
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    for (bytes, reason) in
        [(0, "power of two"), (5000, "power of two"), (65536, "power of two"), (8192, "ring_bytes")]
    {
        let refused = db.byte_table_with("t", of_size(bytes)).map(|_| ());
        assert!(
            matches!(&refused, Err(Error::Argument(text)) if text.contains(reason)),
            "{bytes}: {refused:?}"
        );
    }
    assert_eq!(db.tables().unwrap(), [""; 0]);
    assert!(!disk.names().iter().any(|name| name.starts_with("leaves-")), "nothing was made");
    assert_eq!(db.byte_table_with("t", of_size(4096)).unwrap().leaf_bytes(), 4096);
}

#[test]
fn every_size_holds_its_largest_rows_beside_the_others() {
    let disk = SimDisk::new(0);
    let db = open(&disk);
    let mut expected = BTreeMap::new();
    for bytes in SIZES {
        let table = db.byte_table_with(&name(bytes), of_size(bytes)).unwrap();
        let key_len = if bytes == 4096 { 992 } else { 1024 };
        let too_long = vec![b'k'; key_len + 1];
        assert!(matches!(table.put(&too_long, b""), Err(Error::KeyTooLong { max, .. }) if max == key_len));
        let mut model = Rows::new();
        for i in 0..40u8 {
            let mut key = vec![b'k'; key_len];
            key[key_len - 1] = i.wrapping_mul(37);
            // A quarter of a leaf, the last that fits into a cell; one byte more; several chunks.
            let len = [bytes / 4, bytes / 4 + 1, 3 * bytes][usize::from(i % 3)];
            let value = vec![i; len];
            table.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        expected.insert(name(bytes), model);
    }
    let look = |db: &Database| {
        for (table, model) in &expected {
            assert!(rows(db, table) == *model, "{table}");
        }
        for report in db.check().unwrap().tables.iter().skip(1) {
            assert_eq!((report.large_values, report.large_stray), (26, 0), "{}", report.name);
        }
    };
    look(&db);
    db.close().unwrap();
    look(&open(&disk));
}

/// Transactions over tables of all sizes, some rolled back, in a cache that holds a fraction of them.
#[test]
fn tables_of_all_sizes_behave_like_maps() {
    let seed = env("FORESHORE_SEED", 1);
    let mut rng = Rng(seed);
    let disk = SimDisk::new(seed);
    let mut models: Vec<Rows> = vec![Rows::new(); SIZES.len()];
    let (mut splits, mut evictions) = (0, 0);
    for life in 0..3 {
        let db = open(&disk);
        let tables = SIZES.map(|bytes| db.byte_table_with(&name(bytes), of_size(bytes)).unwrap());
        for round in 0..400 {
            let tx = db.begin().unwrap();
            let mut changed = models.clone();
            for _ in 0..rng.below(30) {
                let (which, number) = (rng.below(SIZES.len()), rng.below(2000));
                let key = format!("{number:05}").into_bytes();
                // Waves of filling and emptying.
                if rng.below(10) < 2 + 5 * (round / 100 % 2) {
                    let removed = tx.bytes(&tables[which]).remove(&key).unwrap();
                    assert_eq!(removed, changed[which].remove(&key).is_some(), "seed {seed}");
                } else {
                    let len = rng.below(700);
                    let value = rng.bytes(len);
                    tx.bytes(&tables[which]).put(&key, &value).unwrap();
                    changed[which].insert(key, value);
                }
            }
            match rng.below(4) {
                0 => tx.rollback().unwrap(),
                _ => {
                    tx.commit().unwrap();
                    models = changed;
                }
            }
        }
        for (bytes, model) in SIZES.iter().zip(&models) {
            assert!(rows(&db, &name(*bytes)) == *model, "seed {seed}, life {life}, {bytes}");
        }
        let report = db.check().unwrap();
        assert_eq!(report.stray_pages, 0, "seed {seed}");
        let stats = db.stats();
        splits += stats.splits;
        evictions += stats.pool_evictions;
        db.close().unwrap();
    }
    assert!(splits > 150 && evictions > 150, "seed {seed}: {splits} splits, {evictions} evictions");
}

/// The file of a size stays when its last table goes, and serves the next one.
#[test]
fn the_last_table_of_a_size_leaves_room_for_the_next() {
    let disk = SimDisk::new(0);
    let mut file_bytes = None;
    for round in 0..4u8 {
        let db = open(&disk);
        let table = db.byte_table_with("t", of_size(OTHER)).unwrap();
        let model: Rows = (0..600u32).map(|i| (i.to_be_bytes().to_vec(), vec![round; 900])).collect();
        model.iter().for_each(|(key, value)| table.put(key, value).unwrap());
        assert!(rows(&db, "t") == model, "round {round}");
        assert_eq!(db.check().unwrap().stray_pages, 0);
        drop(table);
        assert!(db.drop_table("t").unwrap());
        db.checkpoint().unwrap();
        assert_eq!(db.stats().pages, 1, "the catalog's leaf");
        // A restart where no table has the size; then one where the size is made use of again.
        db.close().unwrap();
        let db = open(&disk);
        assert_eq!(db.check().unwrap().stray_pages, 0);
        assert_eq!(*file_bytes.get_or_insert(db.stats().leaf_file_bytes), db.stats().leaf_file_bytes);
        db.close().unwrap();
    }
}

#[test]
fn a_missing_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let db = small().open(dir.path()).unwrap();
    db.byte_table_with("t", of_size(OTHER)).unwrap().put(b"k", b"v").unwrap();
    db.close().unwrap();
    fs::remove_file(dir.path().join("leaves-16k.db")).unwrap();
    let refused = small().open(dir.path()).map(|_| ());
    assert!(matches!(&refused, Err(Error::Corrupt { what, .. }) if what == "leaves-16k.db"), "{refused:?}");
}

/// One table of each size, with so many rows; what they hold.
fn fill(db: &Database, rows: u32) -> BTreeMap<String, Rows> {
    let fill_table = |bytes: usize| {
        let table = db.byte_table_with(&name(bytes), of_size(bytes)).unwrap();
        let value = |i: u32| vec![i as u8; 100 + bytes / 4 * (i as usize % 40 / 39)];
        let model: Rows =
            (0..rows).map(|i| (i.wrapping_mul(2_654_435_761).to_be_bytes().to_vec(), value(i))).collect();
        model.iter().for_each(|(key, value)| table.put(key, value).unwrap());
        (name(bytes), model)
    };
    SIZES.into_iter().map(fill_table).collect()
}

/// Is everything there, each table with its size?
fn ensure_holds(db: &Database, expected: &BTreeMap<String, Rows>) {
    assert_eq!(sizes(db), SIZES.map(|bytes| (name(bytes), bytes as u64)));
    for (table, model) in expected {
        assert!(rows(db, table) == *model, "{table}");
    }
    assert_eq!(db.check().unwrap().stray_pages, 0);
}

#[test]
fn the_leaves_alone_bring_all_sizes_back() {
    let dir = tempfile::tempdir().unwrap();
    let db = small().open(dir.path()).unwrap();
    let expected = fill(&db, 700);
    db.close().unwrap();

    // A directory rebuilt from the leaves says the same as the one that was kept.
    let db = small().rebuild(true).open(dir.path()).unwrap();
    ensure_holds(&db, &expected);
    db.close().unwrap();
    for name in files(dir.path()).into_iter().filter(|name| name.starts_with("directory-")) {
        fs::write(dir.path().join(name), "not a directory").unwrap();
    }
    assert!(matches!(small().open(dir.path()), Err(Error::Corrupt { .. })));
    let db = small().rebuild(true).open(dir.path()).unwrap();
    ensure_holds(&db, &expected);
    let again = fill(&db, 900);
    db.close().unwrap();
    ensure_holds(&small().open(dir.path()).unwrap(), &again);
}

fn files(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    entries.collect()
}

#[test]
fn copies_and_compaction_keep_the_sizes() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy, restored) =
        (dir.path().join("db"), dir.path().join("copy"), dir.path().join("restored"));
    let db = small().open(&path).unwrap();
    let expected = fill(&db, 500);
    db.byte_table_with("dropped", of_size(OTHER)).unwrap().put(b"k", b"v").unwrap();
    db.drop_table("dropped").unwrap();
    db.backup(&copy).unwrap();
    db.close().unwrap();

    let db = small().open(&copy).unwrap();
    ensure_holds(&db, &expected);
    db.backup(&restored).unwrap();
    ensure_holds(&small().open(&restored).unwrap(), &expected);
    drop(db);

    small().compact(&path, |_| {}).unwrap();
    let db = small().open(&path).unwrap();
    ensure_holds(&db, &expected);
    // Of a size that no table has, no file is left.
    SIZES
        .iter()
        .filter(|bytes| **bytes != 8192)
        .for_each(|bytes| assert!(db.drop_table(&name(*bytes)).unwrap()));
    db.close().unwrap();
    small().compact(&path, |_| {}).unwrap();
    let mut leaves: Vec<_> = files(&path).into_iter().filter(|name| name.starts_with("leaves")).collect();
    leaves.sort();
    assert_eq!(leaves, ["leaves-8k.db", "leaves.db"]);
    assert!(rows(&small().open(&path).unwrap(), &name(8192)) == expected[&name(8192)]);
}

/// The tables that [`work`] changes, and their leaf sizes; the third one comes and goes.
const TABLES: [(&str, usize); 3] = [("own", OWN), ("other", OTHER), ("fleeting", 8192)];

/// How far [`work`] got: the rows after each step, which both lasting tables have alike, and how many were acknowledged.
#[derive(Default)]
struct Progress {
    states: Vec<Rows>,
    acknowledged: usize,
}

/// Steps over tables of several sizes, each of them one transaction, the last of which may be cut off. Every step makes
/// the same change to two tables, so a torn one shows.
fn work(db: &Database, disk: &SimDisk, seed: u64, progress: &mut Progress) -> Result<(), Error> {
    let mut rng = Rng(seed);
    let mut model = Rows::new();
    progress.states.push(model.clone());
    let [own, other] = [0, 1].map(|i| db.byte_table_with(TABLES[i].0, of_size(TABLES[i].1)));
    let (own, other) = (own?, other?);
    for step in 0..36 {
        let tx = db.begin()?;
        let mut changed = model.clone();
        for _ in 0..6 {
            let key = format!("{:03}", rng.below(40)).into_bytes();
            let len = rng.below(900);
            let value = rng.bytes(len);
            for table in [&own, &other] {
                match len % 4 {
                    0 => drop(tx.bytes(table).remove(&key)?),
                    _ => tx.bytes(table).put(&key, &value)?,
                }
            }
            match len % 4 {
                0 => drop(changed.remove(&key)),
                _ => drop(changed.insert(key, value)),
            }
        }
        match step % 6 {
            2 => tx.rollback()?,
            _ => {
                model = changed;
                progress.states.push(model.clone());
                tx.commit()?;
            }
        }
        match step % 9 {
            3 => db.checkpoint()?,
            4 => db.byte_table_with(TABLES[2].0, of_size(TABLES[2].1))?.put(b"row", b"there")?,
            8 => drop(db.drop_table(TABLES[2].0)?),
            _ => {}
        }
        // A dead process acknowledges nothing. Here it lives on, in memory, until its next I/O.
        if disk.is_crashed() {
            return Ok(());
        }
        progress.acknowledged = progress.states.len() - 1;
    }
    Ok(())
}

fn durable() -> Builder {
    small().durability(Durability::Sync).log_bytes(128 << 10)
}

/// Both tables have the rows of one state that is allowed, and nothing is left of what was not finished.
fn verify(db: &Database, progress: &Progress, what: &str) {
    let report = db.check().unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(report.stray_pages, 0, "{what}");
    let there = db.tables().unwrap();
    for (table, bytes) in TABLES.iter().filter(|(table, _)| there.iter().any(|name| name == table)) {
        assert_eq!(db.byte_table(table).unwrap().leaf_bytes(), *bytes, "{what}: {table}");
    }
    let found = [0, 1].map(|i| match there.iter().any(|name| name == TABLES[i].0) {
        true => rows(db, TABLES[i].0),
        false => Rows::new(),
    });
    assert!(found[0] == found[1], "{what}: half a transaction");
    let allowed = progress.states.get(progress.acknowledged..).unwrap_or_default();
    let fits = allowed.iter().any(|state| *state == found[0]) || progress.states.is_empty();
    assert!(fits, "{what}: {} rows are no state from {} on", found[0].len(), progress.acknowledged);
}

/// Works until event `at`; crashes there; perhaps again at event `again` of the next opening.
fn crash(seed: u64, at: u64, kind: Crash, again: Option<u64>) {
    let what = format!("seed {seed}, event {at}, {kind:?}, then {again:?}");
    let disk = SimDisk::new(seed);
    disk.crash_at(at);
    let mut progress = Progress::default();
    let worked =
        durable().open_on(Arc::new(disk.clone())).and_then(|db| work(&db, &disk, seed, &mut progress));
    assert!(worked.is_ok() || disk.is_crashed(), "{what}: {worked:?}");
    let mut disk = disk.after_crash(kind, seed ^ at);
    if let Some(again) = again {
        disk.crash_at(disk.events() + again);
        drop(durable().open_on(Arc::new(disk.clone())));
        disk = disk.after_crash(Crash::PowerLoss, seed ^ at ^ again << 20);
    }
    let reopen = || durable().open_on(Arc::new(disk.clone())).unwrap_or_else(|e| panic!("{what}: {e}"));
    let db = reopen();
    verify(&db, &progress, &what);
    // It goes on with all sizes.
    for (table, bytes) in TABLES {
        db.byte_table_with(table, of_size(bytes)).and_then(|t| t.put(b"after", b"wards")).unwrap();
    }
    db.close().unwrap();
    for (table, _) in TABLES {
        assert_eq!(
            reopen().byte_table(table).unwrap().get(b"after").unwrap().as_deref(),
            Some(&b"wards"[..]),
            "{what}"
        );
    }
}

fn events(seed: u64) -> u64 {
    let disk = SimDisk::new(seed);
    let db = durable().open_on(Arc::new(disk.clone())).unwrap();
    work(&db, &disk, seed, &mut Progress::default()).unwrap();
    db.close().unwrap();
    disk.events()
}

/// Acknowledged ⊆ recovered ⊆ attempted, and no transaction in one size only.
#[test]
fn every_crash_point_recovers() {
    let seed = env("FORESHORE_SEED", 1);
    let events = events(seed);
    let step = events.div_ceil(env("FORESHORE_ROUNDS", 160)) as usize;
    for at in (1..=events).step_by(step) {
        crash(seed, at, Crash::PowerLoss, None);
        crash(seed, at, Crash::ProcessKill, None);
    }
    println!("{events} events, every {step}.");
}

/// Recovery itself may crash, with files of several sizes to make durable.
#[test]
fn crashes_during_recovery_recover() {
    let seed = env("FORESHORE_SEED", 1);
    let (events, mut rng) = (events(seed) as usize, Rng(seed));
    for round in 0..env("FORESHORE_ROUNDS", 160) {
        let kind = [Crash::ProcessKill, Crash::PowerLoss][round as usize % 2];
        crash(seed, rng.below(events) as u64 + 1, kind, Some(rng.below(30) as u64 + 1));
    }
}

/// Whatever fails while the first table of a size is made, the database says so, and is whole afterwards.
#[test]
fn every_failure_while_a_size_is_made_is_survived() {
    let first = {
        let disk = SimDisk::new(1);
        durable().open_on(Arc::new(disk.clone())).unwrap();
        disk.events()
    };
    let mut failed = 0;
    for event in first..first + 12 {
        for (fault, repeat) in
            [(Fault::Eio, Repeat::Once), (Fault::Enospc, Repeat::Once), (Fault::Enospc, Repeat::Forever)]
        {
            let what = format!("{fault:?} at event {event}, {repeat:?}");
            let disk = SimDisk::new(event);
            let db = durable().open_on(Arc::new(disk.clone())).unwrap();
            db.byte_table("own").unwrap().put(b"row", b"there").unwrap();
            disk.fail_at(disk.events() + event - first, fault, repeat);
            let made =
                db.byte_table_with("other", of_size(OTHER)).and_then(|table| table.put(b"row", b"there"));
            if let Err(error) = &made {
                failed += 1;
                let typed = matches!(error, Error::Full { .. } | Error::Poisoned { .. } | Error::Io { .. });
                assert!(typed, "{what}: {error:?}");
            }
            disk.clear_faults();
            assert_eq!(
                db.byte_table("own").unwrap().get(b"row").unwrap().as_deref(),
                Some(&b"there"[..]),
                "{what}"
            );
            drop(db);
            let db = open(&disk.after_crash(Crash::PowerLoss, event));
            db.check().unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(
                db.byte_table("own").unwrap().get(b"row").unwrap().as_deref(),
                Some(&b"there"[..]),
                "{what}"
            );
            let other = db.byte_table_with("other", of_size(OTHER)).unwrap();
            assert!(made.is_err() || other.get(b"row").unwrap().is_some(), "{what}: acknowledged, and lost");
            assert_eq!(other.leaf_bytes(), OTHER, "{what}");
        }
    }
    assert!(failed > 10, "only {failed} calls failed");
}
