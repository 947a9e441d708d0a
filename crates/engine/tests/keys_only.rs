//! Walks that leave values alone: they show the keys that others show, either way, and in a transaction they lock the same.

mod common;

use common::{Rng, env, small};
use foreshore::{ByteRange, Error, Isolation, Result, TransactionOptions, TransactionRange};
use std::collections::BTreeMap;
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::time::Duration;

type Row = (Vec<u8>, Vec<u8>);
type Model = BTreeMap<Vec<u8>, Vec<u8>>;
type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

enum Walk {
    Committed(ByteRange),
    Transaction(TransactionRange),
}

impl Walk {
    fn step(&mut self, up: bool, keys_only: bool) -> Option<Result<Row>> {
        match self {
            Self::Committed(rows) => {
                rows.set_keys_only(keys_only);
                if up { rows.next() } else { rows.next_back() }
            }
            Self::Transaction(rows) => {
                rows.set_keys_only(keys_only);
                if up { rows.next() } else { rows.next_back() }
            }
        }
    }
}

fn impatient(isolation: Isolation) -> TransactionOptions {
    TransactionOptions::new().isolation(isolation).lock_timeout(Duration::ZERO)
}

fn key(rng: &mut Rng) -> Vec<u8> {
    let key = format!("{:03}", rng.below(300)).into_bytes();
    key[..1 + rng.below(3)].to_vec()
}

/// Most lie whole in their leaves, some in chunks beside them, a few in extents.
fn value(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(40) {
        0 => 100_000,
        1..=12 => 1025 + rng.below(5000),
        _ => 1 + rng.below(200),
    };
    vec![b'v'; len]
}

fn bounds(rng: &mut Rng) -> Bounds {
    let mut bound = || match rng.below(3) {
        0 => Unbounded,
        1 => Included(key(rng)),
        _ => Excluded(key(rng)),
    };
    (bound(), bound())
}

/// A put, or else a removal.
fn change(rng: &mut Rng) -> (Vec<u8>, Option<Vec<u8>>) {
    (key(rng), (rng.below(4) > 0).then(|| value(rng)))
}

fn apply(model: &mut Model, key: Vec<u8>, value: Option<Vec<u8>>) {
    match value {
        Some(value) => _ = model.insert(key, value),
        None => _ = model.remove(&key),
    }
}

/// Takes rows from both ends, with their values or without, as chance will have it.
fn compare(rng: &mut Rng, model: &Model, who: &str, begin: impl Fn(Bounds) -> Walk) {
    for _ in 0..8 {
        let (from, to) = bounds(rng);
        let is_within = |key: &Vec<u8>| {
            let above = match &from {
                Included(from) => key >= from,
                Excluded(from) => key > from,
                Unbounded => true,
            };
            let below = match &to {
                Included(to) => key <= to,
                Excluded(to) => key < to,
                Unbounded => true,
            };
            above && below
        };
        let mut expected = model.iter().filter(|(key, _)| is_within(key));
        let mut walk = begin((from.clone(), to.clone()));
        let (upwards, keys_only) = (rng.below(5), rng.below(5));
        loop {
            let (up, keys_only) = (rng.below(4) < upwards, rng.below(4) < keys_only);
            let next = if up { expected.next() } else { expected.next_back() };
            let next = next.map(|(key, value)| match keys_only {
                true => (key.clone(), Vec::new()),
                false => (key.clone(), value.clone()),
            });
            let found = walk.step(up, keys_only).transpose().unwrap();
            assert!(found == next, "{who}, {from:?} to {to:?}, up {up}: {:?}", found.map(|row| row.0));
            if next.is_none() {
                break;
            }
        }
    }
}

/// Tables, snapshots whose rows have changed since, and transactions that have written themselves, beside one that is under way.
#[test]
fn keys_are_those_of_the_rows() {
    let seed = env("FORESHORE_SEED", 1);
    for round in 0..env("FORESHORE_ROUNDS", 8) {
        println!("FORESHORE_SEED={seed}, round {round}");
        let rng = &mut Rng(seed.wrapping_mul(1000).wrapping_add(round));
        let (db, mut model) = (small(), Model::new());
        let table = db.byte_table("t").unwrap();
        let step = |rng: &mut Rng, model: &mut Model| {
            let (key, value) = change(rng);
            match &value {
                Some(value) => table.put(&key, value).unwrap(),
                None => _ = table.remove(&key).unwrap(),
            }
            apply(model, key, value);
        };
        (0..300).for_each(|_| step(rng, &mut model));
        let (snapshot, old) = (db.snapshot().unwrap(), model.clone());
        (0..200).for_each(|_| step(rng, &mut model));
        let isolations = [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable];
        let isolation = isolations[round as usize % 3];
        let tx = db.begin_with(impatient(isolation)).unwrap();
        let mut within = model.clone();
        for _ in 0..50 {
            let (key, value) = change(rng);
            match &value {
                Some(value) => tx.bytes(&table).put(&key, value).unwrap(),
                None => _ = tx.bytes(&table).remove(&key).unwrap(),
            }
            apply(&mut within, key, value);
        }
        let other = db.begin_with(impatient(Isolation::Serializable)).unwrap();
        // Those who lock what they read would wait for it.
        for _ in 0..if isolation == Isolation::ReadCommitted { 50 } else { 0 } {
            let (key, value) = change(rng);
            let done = match &value {
                Some(value) => other.bytes(&table).put(&key, value),
                None => other.bytes(&table).remove(&key).map(drop),
            };
            assert!(matches!(done, Ok(()) | Err(Error::LockTimeout { .. })), "{done:?}");
        }
        compare(rng, &model, "table", |bounds| Walk::Committed(table.range(bounds)));
        compare(rng, &old, "snapshot", |bounds| Walk::Committed(snapshot.bytes(&table).range(bounds)));
        compare(rng, &within, "transaction", |bounds| Walk::Transaction(tx.bytes(&table).range(bounds)));
        other.rollback().unwrap();
        tx.commit().unwrap();
    }
}

/// A transaction that has seen keys alone keeps others from changing these rows, and from inserting between them.
#[test]
fn keys_are_locked_as_rows_are() {
    let db = small();
    let table = db.byte_table("t").unwrap().with_lock_timeout(Duration::ZERO);
    for key in [b"b", b"d", b"f"] {
        table.put(key, &[7; 5000]).unwrap();
    }
    for up in [true, false] {
        let tx = db.begin_with(impatient(Isolation::Serializable)).unwrap();
        let rows = tx.bytes(&table).range(&b"b"[..]..&b"e"[..]).keys_only();
        let keys = if up { rows.count() } else { rows.rev().count() };
        assert_eq!(keys, 2);
        for (key, is_locked) in [(b"a", false), (b"b", true), (b"c", true), (b"d", true), (b"f", false)] {
            let put = table.put(key, b"");
            assert_eq!(matches!(put, Err(Error::LockTimeout { .. })), is_locked, "{up}, {key:?}: {put:?}");
        }
        tx.rollback().unwrap();
    }
}
