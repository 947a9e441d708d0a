//! Tables against `BTreeMap`: random operations, one thread, small leaves, with `check` in between.

mod common;

use common::tiny;
use foreshore::{ByteTable, Durability, Index, TableOptions};
use foreshore_io::SimDisk;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

#[derive(Clone, Debug)]
enum Op {
    Put(Vec<u8>, Vec<u8>),
    Insert(Vec<u8>, Vec<u8>),
    Remove(Vec<u8>),
    Get(Vec<u8>),
    Range(Bound<Vec<u8>>, Bound<Vec<u8>>),
    Prefix(Vec<u8>),
    BothEnds(Vec<bool>),
    MultiGet(Vec<Vec<u8>>),
    PutMany(Vec<(Vec<u8>, Vec<u8>)>),
    /// At most so many rows of the range; none: all, alone.
    RemoveRange(Bound<Vec<u8>>, Bound<Vec<u8>>, Option<usize>),
    RemovePrefix(Vec<u8>),
    Reopen,
    Checkpoint,
}

/// Few distinct bytes, so that keys collide, share prefixes and end in zeros; now and then a very long one.
fn keys() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => vec(prop_oneof![Just(0u8), Just(1), Just(b'a'), Just(0xFF)], 0..6),
        4 => (0u32..400).prop_map(|i| i.to_be_bytes().to_vec()),
        1 => (0u8..8).prop_map(|i| { let mut key = vec![b'k'; 980]; key.push(i); key }),
    ]
}

fn values() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![6 => vec(any::<u8>(), 0..60), 2 => vec(any::<u8>(), 200..400), 1 => vec(any::<u8>(), 1024)]
}

fn bounds() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![Just(Bound::Unbounded), keys().prop_map(Bound::Included), keys().prop_map(Bound::Excluded)]
}

fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        24 => (keys(), values()).prop_map(|(k, v)| Op::Put(k, v)),
        6 => (keys(), values()).prop_map(|(k, v)| Op::Insert(k, v)),
        14 => keys().prop_map(Op::Remove),
        8 => keys().prop_map(Op::Get),
        3 => (bounds(), bounds()).prop_map(|(a, b)| Op::Range(a, b)),
        1 => vec(any::<u8>(), 0..2).prop_map(Op::Prefix),
        1 => vec(any::<bool>(), 0..40).prop_map(Op::BothEnds),
        1 => vec(keys(), 0..40).prop_map(Op::MultiGet),
        1 => vec((keys(), values()), 0..40).prop_map(Op::PutMany),
        1 => (bounds(), bounds(), option::of(0usize..30)).prop_map(|(a, b, n)| Op::RemoveRange(a, b, n)),
        1 => keys().prop_map(Op::RemovePrefix),
        1 => Just(Op::Reopen),
        1 => Just(Op::Checkpoint),
    ]
}

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// `BTreeMap::range` panics on bounds in the wrong order; ours is empty.
fn model_range(model: &BTreeMap<Vec<u8>, Vec<u8>>, from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> Rows {
    let above = |key: &Vec<u8>| match from {
        Bound::Included(from) => key >= from,
        Bound::Excluded(from) => key > from,
        Bound::Unbounded => true,
    };
    let below = |key: &Vec<u8>| match to {
        Bound::Included(to) => key <= to,
        Bound::Excluded(to) => key < to,
        Bound::Unbounded => true,
    };
    model.iter().filter(|(key, _)| above(key) && below(key)).map(|(k, v)| (k.clone(), v.clone())).collect()
}

fn both_ends(table: &ByteTable, model: &BTreeMap<Vec<u8>, Vec<u8>>, picks: &[bool]) {
    let (mut rows, mut expected) = (table.range(..), model.iter());
    for front in picks {
        let row = if *front { rows.next() } else { rows.next_back() }.transpose().unwrap();
        let same = if *front { expected.next() } else { expected.next_back() };
        assert_eq!(row, same.map(|(k, v)| (k.clone(), v.clone())));
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: common::env("FORESHORE_CASES", 300) as u32,
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn behaves_like_a_btreemap(ops in vec(ops(), 1..500), index in select(&Index::ALL)) {
        let disk = SimDisk::new(0);
        let mut db = tiny().durability(Durability::Relaxed).open_on(Arc::new(disk.clone())).unwrap();
        let mut table = db.byte_table_with("t", TableOptions::new().index(index)).unwrap();
        let mut model = BTreeMap::new();
        for op in ops {
            match op {
                Op::Put(k, v) => {
                    table.put(&k, &v).unwrap();
                    model.insert(k, v);
                }
                Op::Insert(k, v) => {
                    prop_assert_eq!(table.insert(&k, &v).unwrap(), !model.contains_key(&k));
                    model.entry(k).or_insert(v);
                }
                Op::Remove(k) => prop_assert_eq!(table.remove(&k).unwrap(), model.remove(&k).is_some()),
                Op::Get(k) => {
                    prop_assert_eq!(table.get(&k).unwrap(), model.get(&k).cloned());
                    prop_assert_eq!(table.contains(&k).unwrap(), model.contains_key(&k));
                }
                Op::Range(from, to) => {
                    let expected = model_range(&model, &from, &to);
                    let rows: Rows = table.range((from.clone(), to.clone())).collect::<Result<_, _>>().unwrap();
                    prop_assert_eq!(&rows, &expected);
                    let mut back: Rows = table.range((from, to)).rev().collect::<Result<_, _>>().unwrap();
                    back.reverse();
                    prop_assert_eq!(&back, &expected);
                }
                Op::Prefix(prefix) => {
                    let rows: Rows = table.prefix(&prefix).collect::<Result<_, _>>().unwrap();
                    let expected: Rows = model.iter().filter(|(k, _)| k.starts_with(&prefix))
                        .map(|(k, v)| (k.clone(), v.clone())).collect();
                    prop_assert_eq!(rows, expected);
                }
                Op::BothEnds(picks) => both_ends(&table, &model, &picks),
                Op::MultiGet(keys) => {
                    let expected: Vec<_> = keys.iter().map(|k| model.get(k).cloned()).collect();
                    prop_assert_eq!(table.multi_get(&keys).unwrap(), expected);
                }
                Op::PutMany(rows) => {
                    table.put_many(&rows).unwrap();
                    model.extend(rows);
                }
                Op::RemoveRange(from, to, rows_max) => {
                    let mut goes = model_range(&model, &from, &to);
                    let tx = db.begin().unwrap();
                    let removed = tx.bytes(&table).remove_range((from.clone(), to.clone())).unwrap();
                    prop_assert_eq!(removed, goes.len() as u64);
                    prop_assert_eq!(tx.bytes(&table).range((from.clone(), to.clone())).count(), 0);
                    tx.rollback().unwrap();
                    goes.truncate(rows_max.unwrap_or(usize::MAX));
                    let removed = match rows_max {
                        Some(n) => db.transact(|tx| tx.bytes(&table).remove_some((from.clone(), to.clone()), n as u64)),
                        None => table.remove_range((from, to)),
                    };
                    prop_assert_eq!(removed.unwrap(), goes.len() as u64);
                    goes.iter().for_each(|(key, _)| drop(model.remove(key)));
                }
                Op::RemovePrefix(prefix) => {
                    let before = model.len();
                    model.retain(|key, _| !key.starts_with(&prefix));
                    prop_assert_eq!(table.remove_prefix(&prefix).unwrap(), (before - model.len()) as u64);
                }
                Op::Reopen => {
                    drop((table, db));
                    db = tiny().durability(Durability::Relaxed).open_on(Arc::new(disk.clone())).unwrap();
                    table = db.byte_table("t").unwrap();
                    prop_assert_eq!(table.index(), index);
                }
                Op::Checkpoint => db.checkpoint().unwrap(),
            }
        }
        let report = db.check().unwrap();
        prop_assert_eq!(report.tables.iter().find(|t| t.name == "t").unwrap().rows, model.len() as u64);
        prop_assert_eq!(report.stray_pages, 0);
        let rows: Rows = table.range(..).collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(rows, model.into_iter().collect::<Rows>());
    }
}
