//! Calls that read, change or write many rows at once, within a transaction: they do what as many calls for one row would.

mod common;

use common::{row, rows, short, tiny};
use foreshore::{Database, Error, Result};
use foreshore_io::SimDisk;
use std::cell::Cell;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Many rows at once are what they would be one by one: read, changed, removed, absent, named twice, over many leaves.
#[test]
fn many_rows_are_changed_at_once() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    let key = |n: u32| n.to_be_bytes();
    let large = vec![7; 100_000];
    (0..1000).for_each(|n| t.put(&key(n), &[n as u8; 100]).unwrap());
    t.put(&key(500), &large).unwrap();
    let before = rows(&t);
    let keys: Vec<_> = (0..1100).rev().step_by(50).chain([500, 7, 7]).map(key).collect();

    let tx = db.begin().unwrap();
    let mine = tx.bytes(&t);
    let one_by_one: Vec<_> = keys.iter().map(|key| mine.get(key).unwrap()).collect();
    assert_eq!(mine.multi_get(&keys).unwrap(), one_by_one);
    let begun = tx.savepoint().unwrap();
    let mut seen = Vec::new();
    mine.multi_modify(&keys, |row| {
        seen.push(row.clone());
        match row {
            Some(row) if row[0] % 3 == 0 => row.push(1),
            Some(_) => *row = None,
            None => *row = Some(vec![0]),
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    let twice = keys.len() - 2;
    assert_eq!(seen[..twice], one_by_one[..twice]);
    let last = match &seen[twice] {
        Some(row) if row[0] % 3 == 0 => Some([&row[..], &[1]].concat()),
        Some(_) => None,
        None => Some(vec![0]),
    };
    assert_eq!(seen[twice + 1], last, "it sees its own change");
    for (key, was) in keys.iter().zip(&one_by_one).take(twice) {
        let is = mine.get(key).unwrap();
        match was {
            Some(row) if row[0] % 3 == 0 => assert_eq!(is, Some([&row[..], &[1]].concat())),
            Some(_) => assert_eq!(is, None),
            None => assert_eq!(is, Some(vec![0])),
        }
    }
    assert_eq!(rows(&t), before, "nobody else sees it yet");
    tx.rollback_to(begun).unwrap();
    assert_eq!(mine.multi_get(&keys).unwrap(), one_by_one);
    tx.commit().unwrap();
    assert_eq!(rows(&t), before);
    db.check().unwrap();
}

/// Typed rows come back in the order of their keys' names, as the transaction sees them.
#[test]
fn many_typed_rows_are_read_at_once() {
    let db = Database::in_memory().unwrap();
    let t = db.table::<u32, String>("t").unwrap();
    (0..100).for_each(|n| t.put(&n, &n.to_string()).unwrap());
    let tx = db.begin().unwrap();
    let mine = tx.table(&t);
    mine.put(&7, &"seven".into()).unwrap();
    mine.remove(&8).unwrap();
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        mine.multi_get(&[99, 7, 8, 100, 7]).unwrap(),
        [some("99"), some("seven"), None, None, some("seven")]
    );
    assert_eq!(t.multi_get(&[7, 8]).unwrap(), [some("7"), some("8")]);
}

/// A walk over many rows ends where it is told to: what comes behind is neither read nor locked.
#[test]
fn a_walk_over_many_rows_ends_where_it_breaks() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    let keys = [b"a", b"b", b"c"];
    keys.iter().for_each(|key| t.put(*key, b"old").unwrap());
    let tx = db.begin().unwrap();
    let mut left = 2;
    tx.bytes(&t)
        .multi_modify(&keys, |row| {
            *row = Some(b"new".to_vec());
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
    let other = db.begin_with(short()).unwrap();
    other.bytes(&t).put(b"c", b"theirs").unwrap();
    assert!(matches!(other.bytes(&t).put(b"b", b"theirs"), Err(Error::LockTimeout { .. })));
    other.commit().unwrap();
    tx.commit().unwrap();
    assert_eq!(rows(&t), [row(b"a", b"new"), row(b"b", b"old"), row(b"c", b"theirs")]);

    let snapshot = db.snapshot().unwrap();
    let mut seen = Vec::new();
    snapshot
        .bytes(&t)
        .multi_get_with(&[b"c", b"x", b"a", b"b"], |value| {
            seen.push(value.map(<[u8]>::to_vec));
            if seen.len() == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
    assert_eq!(seen, [Some(b"theirs".to_vec()), None, Some(b"new".to_vec())]);
}

/// Rows that are written together are what they would be one by one: new, there already, removed before, named twice, in any
/// order, over many leaves, large, and beside a scan of the same transaction.
#[test]
fn many_rows_are_written_at_once() {
    let db = Database::in_memory().unwrap();
    let (t, one_by_one) = (db.byte_table("t").unwrap(), db.byte_table("one by one").unwrap());
    let key = |n: u32| n.to_be_bytes();
    let large = vec![7; 100_000];
    for table in [&t, &one_by_one] {
        (0..1000).step_by(7).for_each(|n| table.put(&key(n), &[n as u8; 100]).unwrap());
        table.put(&key(500), &large).unwrap();
    }
    let ascending = (0..1000).map(|n| (key(n), vec![1; n as usize % 300]));
    let descending = (900..1100).rev().map(|n| (key(n), vec![2; 50]));
    let twice =
        [(key(2000), vec![3]), (key(2000), vec![4]), (key(2001), large.clone()), (key(2002), vec![5])];
    let many: Vec<_> = ascending.chain(descending).chain(twice).collect();
    for scans in [false, true] {
        let tx = db.begin().unwrap();
        let (mine, other) = (tx.bytes(&t), tx.bytes(&one_by_one));
        (0..1000)
            .step_by(49)
            .for_each(|n| assert!(mine.remove(&key(n)).unwrap() && other.remove(&key(n)).unwrap()));
        if scans {
            assert_eq!(mine.range(&key(990)[..]..).count(), other.range(&key(990)[..]..).count());
        }
        let begun = tx.savepoint().unwrap();
        let inserted = many.iter().filter(|(key, value)| other.insert(key, value).unwrap()).count();
        assert_eq!(mine.insert_many(&many).unwrap(), inserted);
        assert_eq!(mine.insert_many(&many).unwrap(), 0, "now all are there");
        let both = || [mine.range(..), other.range(..)].map(|all| all.collect::<Result<Vec<_>>>().unwrap());
        let [together, single] = both();
        assert_eq!(together, single);
        many.iter().for_each(|(key, value)| other.put(key, value).unwrap());
        mine.put_many(&many).unwrap();
        let [together, single] = both();
        assert_eq!(together, single);
        tx.rollback_to(begun).unwrap();
        let [together, single] = both();
        assert_eq!(together, single);
        mine.put_many(&many).unwrap();
        tx.rollback().unwrap();
        assert_eq!(rows(&t), rows(&one_by_one));
        assert_eq!(rows(&t).len(), 143 + 1);
    }
    let tx = db.begin().unwrap();
    tx.bytes(&t).put_many(&many).unwrap();
    let nothing: [(&[u8], &[u8]); 0] = [];
    assert_eq!(tx.bytes(&t).insert_many(&nothing).unwrap(), 0);
    tx.commit().unwrap();
    many.iter().for_each(|(key, value)| one_by_one.put(key, value).unwrap());
    assert_eq!(rows(&t), rows(&one_by_one));
    db.check().unwrap();
}

/// Rows that are written together are locked, and nobody sees them before the commit; a row that another transaction has
/// locked is waited for, and after the timeout the rows before its group are there and can be taken back.
#[test]
fn rows_written_at_once_are_isolated() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    let many: Vec<_> = (0..40u32).map(|n| (n.to_be_bytes(), [9])).collect();
    let before = db.snapshot().unwrap();
    let tx = db.begin().unwrap();
    tx.bytes(&t).put_many(&many).unwrap();
    assert_eq!(t.get(&many[3].0).unwrap(), None);
    assert_eq!(rows(&t), []);
    let other = db.begin_with(short()).unwrap();
    assert!(matches!(other.bytes(&t).insert(&many[39].0, b""), Err(Error::LockTimeout { .. })));
    other.bytes(&t).insert(b"theirs", b"").unwrap();
    let late = [many.as_slice(), &[(*b"thei", [0])]].concat();
    assert!(matches!(other.bytes(&t).put_many(&late[1..]), Err(Error::LockTimeout { .. })));
    let held = db.snapshot().unwrap();
    tx.commit().unwrap();
    assert_eq!(rows(&t).len(), 40);
    for snapshot in [before, held] {
        assert_eq!(snapshot.bytes(&t).range(..).count(), 0, "it was committed later");
    }
    let begun = other.savepoint().unwrap();
    let third = db.begin().unwrap();
    third.bytes(&t).put(&100u32.to_be_bytes(), b"third").unwrap();
    let some: Vec<_> = (60..=100u32).map(|n| (n.to_be_bytes(), [8])).collect();
    assert!(matches!(other.bytes(&t).insert_many(&some), Err(Error::LockTimeout { .. })));
    assert_eq!(other.bytes(&t).get(&some[0].0).unwrap().as_deref(), Some(&[8][..]));
    other.rollback_to(begun).unwrap();
    assert_eq!(other.bytes(&t).get(&some[0].0).unwrap(), None);
    third.rollback().unwrap();
    other.commit().unwrap();
    assert_eq!(rows(&t).len(), 41);
}

/// Who scans a gap sees no row appear there, however it is inserted.
#[test]
fn rows_written_at_once_respect_gaps() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    t.put(b"a", b"").unwrap();
    t.put(b"z", b"").unwrap();
    let scanner = db.begin().unwrap();
    assert_eq!(scanner.bytes(&t).range(..).count(), 2);
    let tx = db.begin_with(short()).unwrap();
    assert!(matches!(tx.bytes(&t).insert_many(&[("b", ""), ("c", "")]), Err(Error::LockTimeout { .. })));
    assert_eq!(scanner.bytes(&t).range(..).count(), 2);
    scanner.commit().unwrap();
    assert_eq!(tx.bytes(&t).insert_many(&[("b", ""), ("c", "")]).unwrap(), 2);
    tx.commit().unwrap();
    assert_eq!(rows(&t).len(), 4);
}

/// A key that is too long is refused before any row of its group is written.
#[test]
fn a_row_that_cannot_be_refuses_its_group() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    let tx = db.begin().unwrap();
    let long = vec![b'k'; 1025];
    let refused = tx.bytes(&t).put_many(&[(b"short".as_slice(), b"".as_slice()), (&long, b"")]);
    assert!(matches!(refused, Err(Error::KeyTooLong { .. })));
    assert_eq!(tx.bytes(&t).get(b"short").unwrap(), None);
    tx.commit().unwrap();
}

/// Typed rows, too.
#[test]
fn many_typed_rows_are_written_at_once() {
    let db = Database::in_memory().unwrap();
    let t = db.table::<(String, u32), i64>("t").unwrap();
    let tx = db.begin().unwrap();
    let many: Vec<_> = (0..30).map(|n| (("ann".to_string(), n), -i64::from(n))).collect();
    assert_eq!(tx.table(&t).insert_many(&many).unwrap(), 30);
    tx.table(&t).put_many(&[(("ann".into(), 7), 7), (("bob".into(), 1), 1)]).unwrap();
    tx.commit().unwrap();
    assert_eq!(t.get(&("ann".to_string(), 7)).unwrap(), Some(7));
    assert_eq!(t.range(..).count(), 31);
}

/// Rows that fit into one leaf, since it keeps once what their keys have in common, but not into one record of a small log.
#[test]
fn many_rows_with_long_keys_are_logged_in_parts() {
    let disk = SimDisk::new(1);
    let open = || tiny().open_on(Arc::new(disk.clone())).unwrap();
    let key = |end: [u8; 2]| [&[b'k'; 980][..], &end].concat();
    let between = |first: u8| (first..first + 16).map(|n| (key([n, 0]), [n])).collect::<Vec<_>>();
    let db = open();
    let t = db.byte_table("t").unwrap();
    (0..20).for_each(|n| t.put(&key([n / 10 * 255, n]), &[n]).unwrap());
    let tx = db.begin().unwrap();
    assert_eq!(tx.bytes(&t).insert_many(&between(100)).unwrap(), 16);
    tx.commit().unwrap();
    let tx = db.begin().unwrap();
    tx.bytes(&t).put_many(&between(200)).unwrap();
    tx.rollback().unwrap();
    assert_eq!(t.range(..).count(), 36);
    drop((t, db));
    assert_eq!(open().byte_table("t").unwrap().range(..).count(), 36);
}

/// What the caller's types do is the caller's affair: where they panic, the transaction is as good as before, and nothing else is left.
#[test]
fn keys_and_values_may_panic() {
    /// Panics when it is asked once too often.
    struct Moody<'a>(&'a str, &'a Cell<u32>);
    impl AsRef<[u8]> for Moody<'_> {
        fn as_ref(&self) -> &[u8] {
            let patience = self.1.get().checked_sub(1);
            self.1.set(patience.unwrap_or_else(|| std::panic::resume_unwind(Box::new("no more"))));
            self.0.as_bytes()
        }
    }
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    t.put(b"b", b"before").unwrap();
    for patience in 0.. {
        let left = Cell::new(patience);
        let rows = ["a", "aa", "b", "c", "d"].map(|key| (Moody(key, &left), Moody("value", &left)));
        let tx = db.begin().unwrap();
        let put = catch_unwind(AssertUnwindSafe(|| tx.bytes(&t).put_many(&rows)));
        tx.rollback().unwrap();
        assert_eq!(common::rows(&t), [(b"b".to_vec(), b"before".to_vec())], "after {patience} calls");
        if put.is_ok() {
            break;
        }
    }
    db.check().unwrap();
}

/// Says one key when it is asked first, and another one from then on.
struct Fickle(Cell<bool>);

impl AsRef<[u8]> for Fickle {
    fn as_ref(&self) -> &[u8] {
        if self.0.replace(true) { b"b" } else { b"a" }
    }
}

/// The row that is used is the one that was locked, whatever a key says later.
#[test]
fn a_key_is_asked_once() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    t.put_many(&[(b"a", b"1"), (b"b", b"1")]).unwrap();
    let holder = db.begin().unwrap();
    holder.bytes(&t).put(b"b", b"2").unwrap();

    let fickle = || Fickle(Cell::new(false));
    t.put_many(&[(fickle(), b"3")]).unwrap();
    let tx = db.begin_with(short()).unwrap();
    assert_eq!(tx.bytes(&t).multi_get(&[fickle()]).unwrap(), [Some(b"3".to_vec())]);
    tx.bytes(&t)
        .multi_modify(&[fickle()], |value| {
            *value = Some(b"4".to_vec());
            ControlFlow::Continue(())
        })
        .unwrap();
    tx.commit().unwrap();
    holder.commit().unwrap();
    assert_eq!(rows(&t), [row(b"a", b"4"), row(b"b", b"2")]);
}
