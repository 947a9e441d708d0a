//! What a user of typed tables relies on: keys in their order, lookups by borrowed forms, prefixes, reads that are alike
//! wherever the table is seen from.

use foreshore::{Database, Error, Key, Prefix, Result};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::{Bound, ControlFlow};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// Rows come in the order of their keys, and each key is found.
fn in_order<K: Key + Ord + Clone + Debug>(keys: &[K]) {
    let db = Database::in_memory().unwrap();
    let table = db.table::<K, u32>("t").unwrap();
    let mut sorted = keys.to_vec();
    sorted.sort();
    for (value, key) in keys.iter().enumerate() {
        table.put(key, &(value as u32)).unwrap();
        assert_eq!(table.get(key).unwrap(), Some(value as u32), "{key:?}");
    }
    let rows: Vec<K> = table.range(..).map(|row| row.unwrap().0).collect();
    assert_eq!(rows, sorted);
    let middle = sorted[sorted.len() / 2].clone();
    let above: Vec<K> = table.range(middle.clone()..).map(|row| row.unwrap().0).collect();
    assert_eq!(above, sorted[sorted.len() / 2..], "from {middle:?}");
}

#[test]
fn keys_keep_their_order() {
    use std::time::{Duration, SystemTime};
    in_order(&[true, false]);
    in_order(&[0, -1, i8::MIN, i8::MAX, 1]);
    in_order(&[0, -1, i16::MIN, i16::MAX, 1]);
    in_order(&[0, -1, i32::MIN, i32::MAX, 1]);
    in_order(&[0, -1, i64::MIN, i64::MAX, 1]);
    in_order(&[0, -1, i128::MIN, i128::MAX, 1]);
    in_order(&[0, u128::MAX, u128::from(u64::MAX), 1]);
    in_order(&['b', 'a', '\0', 'ü', char::MAX]);
    in_order(&["b", "", "a", "a\0", "ab", "abcdefgh", "abcdefghi", "ü"].map(String::from));
    in_order(&[vec![1_u8], vec![], vec![0], vec![1, 0], vec![0xff; 20]]);
    in_order(&[[7_u8; 16], [0; 16], [0xff; 16]]);
    in_order(&[Some(-1), None, Some(i32::MIN), Some(1)]);
    in_order(&[("b".to_string(), -1), ("a".into(), 2), ("a".into(), -3), ("ab".into(), 0)]);
    in_order(&[(1_u8, [3_u16, 2]), (1, [2, 9]), (0, [9, 9])]);
    in_order(&[Duration::MAX, Duration::ZERO, Duration::from_nanos(1), Duration::from_secs(1)]);
    in_order(&[SystemTime::UNIX_EPOCH + Duration::from_secs(1), SystemTime::UNIX_EPOCH]);
    in_order(&[std::num::NonZeroI16::MIN, std::num::NonZeroI16::MAX]);
}

/// Zero is one key, whatever its sign, and what is no number lies at the end.
#[test]
fn floats_keep_their_order() {
    let db = Database::in_memory().unwrap();
    let table = db.table::<f64, ()>("t").unwrap();
    for key in [1.5, f64::NEG_INFINITY, -1.5, 0.0, -0.0, f64::MIN_POSITIVE, f64::INFINITY] {
        table.put(&key, &()).unwrap();
    }
    let rows: Vec<f64> = table.range(..).map(|row| row.unwrap().0).collect();
    assert_eq!(rows, [f64::NEG_INFINITY, -1.5, 0.0, f64::MIN_POSITIVE, 1.5, f64::INFINITY]);
}

/// Reads are alike wherever the table is seen from.
#[test]
fn tables_transactions_and_snapshots_read_alike() {
    let db = Database::in_memory().unwrap();
    let table = db.table::<(u8, String), u32>("t").unwrap();
    for (value, key) in [(1, "a"), (1, "b"), (2, "a")].into_iter().enumerate() {
        table.put(&(key.0, key.1.into()), &(value as u32)).unwrap();
    }
    let (tx, snapshot) = (db.begin().unwrap(), db.snapshot().unwrap());
    let from = (1, "b".to_string());
    let mut seen = Vec::new();
    table.scan(from.clone().., |_, value| take(&mut seen, value)).unwrap();
    tx.table(&table).scan(from.clone().., |_, value| take(&mut seen, value)).unwrap();
    snapshot.table(&table).scan(from.., |_, value| take(&mut seen, value)).unwrap();
    assert_eq!(seen, [1, 2, 1, 2, 1, 2]);
    let first = |prefix: Result<_>| prefix.map(|(_, value): (_, u32)| value).unwrap();
    let mut firsts = table.prefix(&(2,)).map(first).collect::<Vec<_>>();
    firsts.extend(tx.table(&table).prefix(&(2,)).map(first));
    firsts.extend(snapshot.table(&table).prefix(&(2,)).map(first));
    assert_eq!(firsts, [2, 2, 2]);
}

/// Keys come alone wherever the table is seen from: nobody reads their values, so these may be of any type.
#[test]
fn keys_come_without_their_values() {
    let db = Database::in_memory().unwrap();
    db.byte_table("t").unwrap(); // which remembers no types
    let written = db.table::<(u8, String), String>("t").unwrap();
    let keys = [(1, "a".to_string()), (1, "b".into()), (2, "a".into())];
    written.put_many(&keys.clone().map(|key| (key, "no number".into()))).unwrap();
    let table = db.table::<(u8, String), u64>("t").unwrap();
    assert!(matches!(table.range(..).next(), Some(Err(Error::Encoding { .. }))));
    let (tx, snapshot) = (db.begin().unwrap(), db.snapshot().unwrap());
    let (inside, then) = (tx.table(&table), snapshot.table(&table));

    let key = |row: Result<((u8, String), ())>| row.unwrap().0;
    assert!(table.range(..).keys_only().map(key).eq(keys.clone()));
    assert!(table.prefix(&(1,)).keys_only().rev().map(key).eq([keys[1].clone(), keys[0].clone()]));
    assert!(inside.range(&keys[1]..).keys_only().map(key).eq(keys[1..].to_vec()));
    assert!(inside.prefix(&(2,)).keys_only().rev().map(key).eq(keys[2..].to_vec()));
    assert!(then.range(..&keys[2]).keys_only().map(key).eq(keys[..2].to_vec()));

    let mut scanned = Vec::new();
    table.scan_keys(.., |key| take(&mut scanned, key)).unwrap();
    then.scan_keys(Prefix((2,)), |key| take(&mut scanned, key)).unwrap();
    inside.scan_keys(&keys[1].., |key| take(&mut scanned, key)).unwrap();
    assert_eq!(scanned, [&keys[..], &keys[2..], &keys[1..]].concat());
    table.scan_keys(.., |_| ControlFlow::Break(())).unwrap();
    inside
        .scan_keys(.., |key| if key == keys[0] { ControlFlow::Break(()) } else { panic!("it goes on") })
        .unwrap();
    let other = db.table::<u8, u64>("t").unwrap();
    let wrong = |_| panic!("it has more bytes than a `u8`");
    for told in [other.scan_keys(.., wrong), tx.table(&other).scan_keys(.., wrong)] {
        assert!(matches!(told, Err(Error::Encoding { .. })));
    }
}

/// Bounds may be given as a key is to `get`, in every kind of range, and wherever the table is seen from.
#[test]
fn bounds_are_borrowed() {
    let db = Database::in_memory().unwrap();
    let names = db.table::<String, u32>("names").unwrap();
    names.put_many(&["a", "b", "b\0", "c"].map(|name| (name.into(), 0))).unwrap();
    let (tx, snapshot, key) = (db.begin().unwrap(), db.snapshot().unwrap(), String::from("b"));
    assert_eq!([names.range("b".."c").count(), names.range("b"..="c").count()], [2, 3]);
    assert_eq!([names.range(&key..).count(), names.range(..&key).count()], [3, 1]);
    assert_eq!([names.range(key.clone()..).count(), names.range(..=key.as_str()).count()], [3, 2]);
    assert_eq!(names.range((Bound::Excluded("b"), Bound::Unbounded)).count(), 2);
    assert_eq!(tx.table(&names).range(..="b").count() + snapshot.table(&names).range("c"..).count(), 3);
    assert_eq!(names.estimate_range("b"..).unwrap(), 3);
    tx.commit().unwrap();
    assert_eq!((names.remove_range("b".."c").unwrap(), names.range(..).count()), (2, 2));

    let paths = db.table::<Vec<u8>, ()>("paths").unwrap();
    paths.put_many(&[(vec![1], ()), (vec![1, 0], ()), (vec![2], ())]).unwrap();
    assert_eq!(paths.range(&[1_u8, 0][..]..).count(), 2);
    let pairs = db.table::<(String, u32), ()>("pairs").unwrap();
    pairs.put_many(&[(("a".into(), 1), ()), (("a".into(), 2), ())]).unwrap();
    let from = ("a".to_string(), 2);
    assert_eq!((pairs.range(&from..).count(), pairs.range(("a".into(), 2)..).count()), (1, 1));
}

/// Of an inclusive range that was walked to its end nothing is left, nor of one that somebody took for a table's.
#[test]
fn a_range_that_was_walked_is_empty() {
    let db = Database::in_memory().unwrap();
    let table = db.table::<u8, ()>("t").unwrap();
    table.put_many(&[(3, ()), (4, ()), (5, ())]).unwrap();
    let mut keys = 3..=5;
    assert_eq!((table.range(keys.clone()).count(), keys.by_ref().count()), (3, 3));
    assert_eq!(table.range(keys.clone()).count(), 0);
    assert_eq!((table.remove_range(keys).unwrap(), table.range(..).count()), (0, 3));
}

/// What can be handed out can be shown; it names its table.
#[test]
fn what_reads_and_writes_shows_its_table() {
    let db = Database::in_memory().unwrap();
    let table = db.table::<u8, u8>("t").unwrap();
    let bytes = db.byte_table("b").unwrap();
    let (tx, snapshot) = (db.begin().unwrap(), db.snapshot().unwrap());
    assert_eq!(
        format!("{:?}", (tx.table(&table), tx.bytes(&bytes))),
        r#"(TransactionTable("t"), TransactionBytes("b"))"#
    );
    let seen = (snapshot.table(&table), snapshot.bytes(&bytes));
    assert_eq!(format!("{seen:?}"), r#"(SnapshotTable("t"), SnapshotBytes("b"))"#);
    let ranges = [format!("{:?}", bytes.range(b"k"..)), format!("{:?}", tx.bytes(&bytes).range(b"k"..))];
    assert!(
        ranges.iter().all(|shown| shown.contains(r#""b""#) && shown.contains("Included([107])")),
        "{ranges:?}"
    );
}

/// A scan ends where it is told to, also one that changes what it reads.
#[test]
fn a_scan_may_write_and_break() {
    let db = Database::in_memory().unwrap();
    let table = db.table::<u32, u32>("t").unwrap();
    table.put_many(&[(1, 0), (2, 0), (3, 0)]).unwrap();
    db.transact(|tx| {
        let inside = tx.table(&table);
        inside.scan(.., |key, _| {
            inside.put(&key, &10).unwrap();
            if key == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    })
    .unwrap();
    assert_eq!(table.multi_get(&[1, 2, 3]).unwrap(), [Some(10), Some(10), Some(0)]);
}

/// What serde writes but cannot read back from fields without names is told when it is put, and not when it is needed.
#[cfg(debug_assertions)]
#[test]
fn a_value_that_cannot_be_read_back_is_refused() {
    use foreshore::Value;
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize)]
    struct Account {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        nickname: Option<String>,
        cents: i64,
    }
    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Answer {
        Number(i64),
        Text(String),
    }
    #[derive(Serialize, Deserialize)]
    #[serde(tag = "kind")]
    enum Event {
        Paid { cents: i64 },
    }
    fn refused<V: Value>(value: V) {
        let db = Database::in_memory().unwrap();
        let table = db.table::<u8, V>("t").unwrap();
        let told = table.put(&1, &value).unwrap_err().to_string();
        assert!(told.contains("it cannot be read back"), "{told}");
        assert!(told.ends_with("say what can be one"), "{told}");
        let rows = [(1, value)];
        assert!(table.put_many(&rows).is_err());
        assert!(db.transact(|tx| tx.table(&table).put_many(&rows)).is_err());
        assert!(table.is_empty().unwrap());
    }
    refused(Account { nickname: None, cents: 5 });
    refused(Answer::Number(42));
    refused(Answer::Text("forty-two".into()));
    refused(Event::Paid { cents: 5 });
    let db = Database::in_memory().unwrap();
    let accounts = db.table::<u8, Account>("accounts").unwrap();
    let account = Account { nickname: Some("ada".into()), cents: 5 };
    accounts.put(&1, &account).unwrap();
    assert!(accounts.modify(&1, |account| account.as_mut().unwrap().nickname = None).is_err());
    assert_eq!(accounts.get(&1).unwrap().unwrap().nickname, account.nickname);
}

/// Who cannot encode a key need not look for the types that a table was written with.
#[test]
fn what_cannot_be_a_key_is_told() {
    let db = Database::in_memory().unwrap();
    let table = db.table::<BTreeMap<u8, u8>, u8>("t").unwrap();
    let told = table.put(&BTreeMap::from([(1, 2)]), &3).unwrap_err().to_string();
    assert!(told.contains("unsupported type: map, in table \"t\"; `Key` and `Value` say"), "{told}");
}

fn take<T>(seen: &mut Vec<T>, value: T) -> ControlFlow<()> {
    seen.push(value);
    ControlFlow::Continue(())
}

/// … and so are keys that could not be told from others, or could not be listed. (Where debug assertions are on.)
#[cfg(debug_assertions)]
#[test]
fn keys_that_would_share_a_row_are_refused() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Place {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        city: Option<u8>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        street: Option<u8>,
    }
    let db = Database::in_memory().unwrap();
    let table = db.table::<Place, u8>("t").unwrap();
    let is_refused =
        |done: foreshore::Result<()>| assert!(matches!(done, Err(Error::Encoding { .. })), "{done:?}");
    for (city, street) in [(Some(1), None), (None, Some(1))] {
        let place = || Place { city, street };
        is_refused(table.put(&place(), &1));
        is_refused(table.put_many(&[(place(), 1)]));
        is_refused(table.insert(&place(), &1).map(drop));
        is_refused(table.modify(&place(), |minutes| *minutes = Some(1)));
        is_refused(db.transact(|tx| tx.table(&table).put(&place(), &1)));
        is_refused(db.transact(|tx| tx.table(&table).insert_many(&[(place(), 1)]).map(drop)));
        is_refused(
            db.transact(|tx| tx.table(&table).multi_modify(&[place()], |_| ControlFlow::Continue(()))),
        );
    }
    is_refused(db.table::<std::net::Ipv4Addr, u8>("hosts").unwrap().put(&[127, 0, 0, 1].into(), &1));
    assert!(table.is_empty().unwrap());
}

/// A row that cannot be decoded is put back alone: what another thread wrote in the same transaction meanwhile stays.
#[test]
fn a_row_that_cannot_be_decoded_takes_nobody_elses_row_along() {
    thread_local! {
        /// Tells that the row is being decoded, and waits until another one is written, or cannot be.
        static ENDS: RefCell<Option<(Sender<()>, Receiver<()>)>> = const { RefCell::new(None) };
    }
    struct Unreadable;
    impl serde::Serialize for Unreadable {
        fn serialize<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
            to.serialize_u8(0)
        }
    }
    impl<'de> serde::Deserialize<'de> for Unreadable {
        fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
            ENDS.with_borrow(|ends| match ends {
                Some((begun, written)) => {
                    begun.send(()).unwrap();
                    let _ = written.recv_timeout(Duration::from_millis(300));
                    Err(serde::de::Error::custom("a test"))
                }
                None => <u8 as serde::Deserialize>::deserialize(from).map(|_| Self),
            })
        }
    }
    let db = Database::in_memory().unwrap();
    let (table, other) = (db.table::<u32, Unreadable>("t").unwrap(), db.byte_table("other").unwrap());
    table.put(&1, &Unreadable).unwrap();
    let tx = db.begin().unwrap();
    let ((begun, has_begun), (written, is_written)) = (channel(), channel());
    thread::scope(|scope| {
        let (tx, other) = (&tx, &other);
        scope.spawn(move || {
            has_begun.recv().unwrap();
            tx.bytes(other).put(b"k", b"v").unwrap();
            let _ = written.send(());
        });
        ENDS.set(Some((begun, is_written)));
        assert!(matches!(tx.table(&table).pop_first(), Err(Error::Encoding { .. })));
    });
    tx.commit().unwrap();
    assert!(table.contains(&1).unwrap() && other.contains(b"k").unwrap());
}

/// What cannot be decoded is told by its table and its key, however it is met …
#[test]
fn rows_of_other_types_are_told_by_table_and_key() {
    let db = Database::in_memory().unwrap();
    let users = db.table::<u64, String>("users").unwrap();
    users.as_bytes().put(b"77", b"a stray row").unwrap();
    let met = |told: Vec<Result<()>>, row: &str| {
        for (nth, told) in told.into_iter().enumerate() {
            let told = told.unwrap_err().to_string();
            assert!(told.contains(row), "{nth}: {told}");
        }
    };
    let snapshot = db.snapshot().unwrap();
    let then = snapshot.table(&users);
    let told = vec![
        users.range(..).next().unwrap().map(drop),
        users.range(..).keys_only().next_back().unwrap().map(drop),
        users.scan(.., |_, _| ControlFlow::Continue(())),
        users.scan_keys(.., |_| ControlFlow::Continue(())),
        users.first().map(drop),
        users.pop_first().map(drop),
        users.pop_last().map(drop),
        users.decode_key(b"77").map(drop),
        then.range(..).next().unwrap().map(drop),
        then.scan(.., |_, _| ControlFlow::Continue(())),
        then.scan_keys(.., |_| ControlFlow::Continue(())),
        then.last().map(drop),
    ];
    met(told, "key 77 of table \"users\"");
    let tx = db.begin().unwrap();
    let inside = tx.table(&users);
    let told = vec![
        inside.range(..).next().unwrap().map(drop),
        inside.range(..).keys_only().next_back().unwrap().map(drop),
        inside.scan(.., |_, _| ControlFlow::Continue(())),
        inside.scan_keys(.., |_| ControlFlow::Continue(())),
        inside.first().map(drop),
        inside.pop_first().map(drop),
        inside.pop_last().map(drop),
    ];
    met(told, "key 77 of table \"users\"");

    db.byte_table("ages").unwrap();
    let written = db.table::<u8, String>("ages").unwrap();
    written.put(&7, &"no number".into()).unwrap();
    let ages = db.table::<u8, u64>("ages").unwrap();
    let (snapshot, inside) = (db.snapshot().unwrap(), tx.table(&ages));
    let then = snapshot.table(&ages);
    let told = vec![
        ages.get(&7).map(drop),
        ages.multi_get(&[6, 7]).map(drop),
        ages.modify(&7, |_| ()),
        ages.last().map(drop),
        then.get(&7).map(drop),
        then.multi_get(&[6, 7]).map(drop),
        inside.get(&7).map(drop),
        inside.get_for_update(&7).map(drop),
        inside.multi_get(&[6, 7]).map(drop),
        inside.modify(&7, |_| ()),
        inside.multi_modify(&[6, 7, 8], |_| ControlFlow::Continue(())),
    ];
    met(told, "key \\x07 of table \"ages\"");
}

/// … and what cannot be encoded by its table, and its key if that can be.
#[test]
fn what_cannot_be_encoded_is_told_by_its_table() {
    #[derive(Debug)]
    struct Never;
    impl serde::Serialize for Never {
        fn serialize<S: serde::Serializer>(&self, _: S) -> std::result::Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("a test"))
        }
    }
    impl<'de> serde::Deserialize<'de> for Never {
        fn deserialize<D: serde::Deserializer<'de>>(_: D) -> std::result::Result<Self, D::Error> {
            Ok(Self)
        }
    }
    let db = Database::in_memory().unwrap();
    let (keys, values) = (db.table::<Never, u8>("keys").unwrap(), db.table::<u8, Never>("values").unwrap());
    let (tx, snapshot) = (db.begin().unwrap(), db.snapshot().unwrap());
    let (inside, then) = (tx.table(&keys), snapshot.table(&keys));
    let of_keys = vec![
        keys.get(&Never).map(drop),
        keys.put(&Never, &1),
        keys.remove(&Never).map(drop),
        keys.range(Never..).next().unwrap().map(drop),
        keys.remove_range(Never..).map(drop),
        keys.bulk_load([(Never, 1)]).map(drop),
        inside.get(&Never).map(drop),
        inside.insert(&Never, &1).map(drop),
        inside.range(Never..).next().unwrap().map(drop),
        then.contains(&Never).map(drop),
        then.range(Never..).next().unwrap().map(drop),
    ];
    for (nth, told) in of_keys.into_iter().enumerate() {
        let told = told.unwrap_err().to_string();
        assert!(told.contains("a test, in table \"keys\"; `Key`"), "{nth}: {told}");
    }
    let of_values = [
        values.put(&7, &Never),
        values.put_many(&[(7, Never)]),
        values.modify(&7, |value| *value = Some(Never)),
        tx.table(&values).put(&7, &Never),
        tx.table(&values).insert_many(&[(7, Never)]).map(drop),
    ];
    for (nth, told) in of_values.into_iter().enumerate() {
        let told = told.unwrap_err().to_string();
        assert!(told.contains("key \\x07 of table \"values\"; `Key`"), "{nth}: {told}");
    }
}
