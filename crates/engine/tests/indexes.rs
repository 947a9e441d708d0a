//! Tables with each kind of index: chosen once, remembered, and of no influence on what a table holds.

mod common;

use common::{env, tiny};
use foreshore::{ByteTable, Database, Durability, Index, TableOptions};
use foreshore_io::SimDisk;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

fn open(disk: &SimDisk) -> Database {
    tiny().durability(Durability::Relaxed).open_on(Arc::new(disk.clone())).unwrap()
}

fn with(index: Index) -> TableOptions {
    TableOptions::new().index(index)
}

/// Keys of two lengths: those of even numbers end within fifteen bytes, odd ones share more than that.
fn key(number: u64) -> Vec<u8> {
    let head = format!("{:06}", number / 64);
    let tail = if number.is_multiple_of(2) { "" } else { "/departures/of/the/day" };
    format!("{head}{tail}/{:02}", number % 64).into_bytes()
}

fn value(number: u64, version: u64) -> Vec<u8> {
    format!("{number}:{version}:{}", "v".repeat(150)).into_bytes()
}

#[test]
fn a_table_keeps_its_index() {
    let disk = SimDisk::new(0);
    let db = open(&disk);
    for index in Index::ALL {
        let table = db.byte_table_with(&index.to_string(), with(index)).unwrap();
        assert_eq!(table.index(), index);
        table.put(b"key", b"value").unwrap();
    }
    assert_eq!(db.byte_table("other").unwrap().index(), Index::BPlus);
    db.close().unwrap();

    let db = open(&disk);
    let shown: Vec<_> = db.stats().indexes.into_iter().map(|index| (index.table, index.index)).collect();
    let reported: Vec<_> =
        db.check().unwrap().tables.into_iter().skip(1).map(|table| (table.name, table.index)).collect();
    let expected =
        [("bplus", Index::BPlus), ("csb", Index::CsbPlus), ("o2", Index::O2), ("other", Index::BPlus)];
    assert_eq!(shown, expected.map(|(name, index)| (name.to_string(), index)));
    assert_eq!(reported, shown);
    assert!(db.stats().indexes.iter().all(|index| index.bytes > 0), "{:?}", db.stats().indexes);
    let csb = db.byte_table_with("csb", with(Index::O2)).unwrap();
    assert_eq!(csb.index(), Index::CsbPlus, "options are for new tables");
    assert_eq!(csb.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    assert!(db.drop_table("csb").unwrap());
    assert_eq!(db.byte_table_with("csb", with(Index::O2)).unwrap().index(), Index::O2, "a new table");
}

#[test]
fn the_database_has_a_default_for_new_tables() {
    let disk = SimDisk::new(0);
    let db = tiny().index(Index::O2).open_on(Arc::new(disk.clone())).unwrap();
    assert_eq!(db.byte_table("default").unwrap().index(), Index::O2);
    assert_eq!(db.byte_table_with("named", with(Index::CsbPlus)).unwrap().index(), Index::CsbPlus);
    db.close().unwrap();
    let db = tiny().index(Index::BPlus).open_on(Arc::new(disk)).unwrap();
    assert_eq!(db.byte_table("default").unwrap().index(), Index::O2);
}

/// All operations that ask the index, on a table of some hundred leaves, before and after a restart.
#[test]
fn every_index_answers_alike() {
    let disk = SimDisk::new(0);
    let db = open(&disk);
    let rows: BTreeMap<Vec<u8>, Vec<u8>> = (0..8000).map(|n| (key(n), value(n, 0))).collect();
    for index in Index::ALL {
        let table = db.byte_table_with(&index.to_string(), with(index)).unwrap();
        table.bulk_load(rows.iter().filter(|(key, _)| key.len() < 16)).unwrap();
        rows.iter()
            .filter(|(key, _)| key.len() >= 16)
            .for_each(|(key, value)| table.put(key, value).unwrap());
        answers(&table, &rows);
    }
    db.check().unwrap();
    db.close().unwrap();
    let db = open(&disk);
    Index::ALL.iter().for_each(|index| answers(&db.byte_table(&index.to_string()).unwrap(), &rows));
    let report = db.check().unwrap();
    assert!(report.tables.iter().skip(1).all(|table| table.leaves > 300), "{report:?}");
}

fn answers(table: &ByteTable, rows: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let index = table.index();
    assert!(table.range(..).map(Result::unwrap).eq(rows.clone()), "{index}: upwards");
    let reversed = rows.iter().rev().map(|(key, value)| (key.clone(), value.clone()));
    assert!(table.range(..).rev().map(Result::unwrap).eq(reversed), "{index}: downwards");
    for n in (0..8000).step_by(97) {
        assert_eq!(table.get(&key(n)).unwrap(), Some(value(n, 0)), "{index}: {n}");
        let (from, to) = (key(n), key(n + 1000));
        let between = (Bound::Included(from.clone()), Bound::Excluded(to.clone()));
        let expected = if from < to { rows.range::<Vec<u8>, _>(between.clone()).count() as u64 } else { 0 };
        let estimate = table.estimate_range(between).unwrap();
        assert!(estimate.abs_diff(expected) <= expected / 2, "{index}: {estimate} for {expected} from {n}");
    }
    assert_eq!(table.get(b"000000/departures/of/the/day").unwrap(), None);
}

/// Leaves split and are absorbed under writers and scanners: nothing is lost or doubled.
fn churn(index: Index) {
    const WRITERS: u64 = 3;
    const KEYS: u64 = 3000;
    let seed = env("FORESHORE_SEED", 1);
    let db = open(&SimDisk::new(seed));
    let table = db.byte_table_with("t", with(index)).unwrap();
    // Every fifth key stays.
    (0..KEYS).step_by(5).for_each(|n| table.put(&key(n), &value(n, 0)).unwrap());
    let stop = AtomicBool::new(false);
    let models: Vec<BTreeMap<u64, u64>> = thread::scope(|scope| {
        let (table, stop) = (&table, &stop);
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn(move || {
                    let mut rng = common::Rng(seed << 8 | writer);
                    let mut model = BTreeMap::new();
                    for step in 0..8000u64 {
                        let n = rng.below((KEYS / 5) as usize) as u64 * 5 + 1 + writer;
                        // Waves of filling and emptying.
                        if (step / 2000) % 2 == 1 {
                            let removed = table.remove(&key(n)).unwrap();
                            assert_eq!(removed, model.remove(&n).is_some(), "seed {seed}, {n}");
                        } else {
                            table.put(&key(n), &value(n, step)).unwrap();
                            model.insert(n, step);
                        }
                    }
                    model
                })
            })
            .collect();
        let scanner = scope.spawn(move || {
            let mut scans = 0;
            while !stop.load(Relaxed) || scans < 2 {
                let mut keys: Vec<_> = table.range(..).map(|row| row.unwrap().0).collect();
                assert!(keys.is_sorted_by(|a, b| a < b), "seed {seed}: rising");
                keys.retain(|found| (0..KEYS).step_by(5).any(|n| key(n) == *found));
                assert_eq!(keys.len() as u64, KEYS / 5, "seed {seed}: what stays is seen");
                scans += 1;
            }
        });
        let models = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        stop.store(true, Relaxed);
        scanner.join().unwrap();
        models
    });
    let mut expected: BTreeMap<_, _> = (0..KEYS).step_by(5).map(|n| (key(n), value(n, 0))).collect();
    expected.extend(models.into_iter().flatten().map(|(n, step)| (key(n), value(n, step))));
    assert!(table.range(..).map(Result::unwrap).eq(expected), "seed {seed}: the rows at the end");
    let report = db.check().unwrap();
    assert_eq!(report.tables[1].missing_separators, 0, "seed {seed}");
    let stats = db.stats();
    assert!(stats.splits > 50 && stats.absorbs > 20, "seed {seed}: the test met no splits: {stats:?}");
}

#[test]
fn churn_over_a_csb_tree() {
    churn(Index::CsbPlus);
}

#[test]
fn churn_over_an_o2_tree() {
    churn(Index::O2);
}
