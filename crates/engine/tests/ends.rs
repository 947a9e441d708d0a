//! The two ends of a table: its first row and its last.

mod common;

use common::{Rng, env, row, small};
use foreshore::{ByteTable, Database, Isolation, TransactionOptions};
use std::collections::BTreeMap;
use std::time::Duration;

type Row = Option<(Vec<u8>, Vec<u8>)>;

/// Would this insertion have to wait for somebody?
fn waits(table: &ByteTable, key: &[u8]) -> bool {
    table.with_lock_timeout(Duration::ZERO).insert(key, b"").is_err()
}

/// What is there at the ends is what a range finds there, wherever the table is seen from, across leaves of removed rows.
#[test]
fn ends_are_those_of_all_rows() {
    let seed = env("FORESHORE_SEED", 5);
    let (db, mut rng, mut model) = (small(), Rng(seed), BTreeMap::new());
    let table = db.byte_table("t").unwrap();
    for round in 0..200 {
        let from = rng.below(400) as u16;
        if round % 3 == 2 {
            let bounds = from..from + 150;
            table.remove_range(bounds.start.to_be_bytes()..bounds.end.to_be_bytes()).unwrap();
            model.retain(|key: &Vec<u8>, _| !bounds.contains(&u16::from_be_bytes([key[0], key[1]])));
        } else {
            for number in from..from + 40 {
                let (key, value) = (number.to_be_bytes().to_vec(), rng.bytes(60));
                table.put(&key, &value).unwrap();
                model.insert(key, value);
            }
        }
        let end = |end: Option<(&Vec<u8>, &Vec<u8>)>| end.map(|(key, value)| row(key, value));
        let want: (Row, Row, bool) =
            (end(model.first_key_value()), end(model.last_key_value()), model.is_empty());
        let (snapshot, tx) = (db.snapshot().unwrap(), db.begin().unwrap());
        let (then, mine) = (snapshot.bytes(&table), tx.bytes(&table));
        let latest = (table.first().unwrap(), table.last().unwrap(), table.is_empty().unwrap());
        assert_eq!(latest, want, "seed {seed} round {round}");
        let seen = (then.first().unwrap(), then.last().unwrap(), then.is_empty().unwrap());
        assert_eq!(seen, want, "seed {seed} round {round}");
        let locked = (mine.first().unwrap(), mine.last().unwrap(), mine.is_empty().unwrap());
        assert_eq!(locked, want, "seed {seed} round {round}");
    }
}

/// An end that was read stays the end.
#[test]
fn nobody_inserts_beyond_an_end_that_was_read() {
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("t").unwrap();
    let tx = db.begin().unwrap();
    assert!(tx.bytes(&table).is_empty().unwrap());
    assert!(waits(&table, b"m"), "the table is to stay empty");
    tx.commit().unwrap();
    table.put_many(&["b", "m", "y"].map(|key| (key, ""))).unwrap();

    let tx = db.begin().unwrap();
    assert_eq!(tx.bytes(&table).first().unwrap(), Some(row(b"b", b"")));
    assert!(waits(&table, b"a") && !waits(&table, b"c") && !waits(&table, b"z"));
    tx.commit().unwrap();

    let tx = db.begin().unwrap();
    assert_eq!(tx.bytes(&table).last().unwrap(), Some(row(b"z", b"")));
    assert!(waits(&table, b"zz") && !waits(&table, b"a"));
    tx.commit().unwrap();

    let lax = db.begin_with(TransactionOptions::new().isolation(Isolation::ReadCommitted)).unwrap();
    assert!(lax.bytes(&table).first().unwrap().is_some() && !waits(&table, b""));
}

#[test]
fn typed_ends_are_typed() {
    let db = Database::in_memory().unwrap();
    let table = db.table::<i32, String>("t").unwrap();
    assert!(table.is_empty().unwrap() && table.first().unwrap().is_none() && table.last().unwrap().is_none());
    let before = db.snapshot().unwrap();
    table.put_many(&[(3, "c".into()), (-1, "a".into())]).unwrap();
    let (first, last) = (Some((-1, "a".into())), Some((3, "c".into())));
    let (now, tx) = (db.snapshot().unwrap(), db.begin().unwrap());
    let (seen, mine) = (now.table(&table), tx.table(&table));
    assert_eq!((table.first().unwrap(), table.last().unwrap()), (first.clone(), last.clone()));
    assert_eq!((seen.first().unwrap(), seen.last().unwrap()), (first.clone(), last.clone()));
    assert_eq!((mine.first().unwrap(), mine.last().unwrap()), (first, last));
    assert!(!seen.is_empty().unwrap() && !mine.is_empty().unwrap() && !table.is_empty().unwrap());
    assert!(before.table(&table).is_empty().unwrap() && before.table(&table).last().unwrap().is_none());
}
