//! Transactions as users see them: atomic, isolated, undone, retried.

mod common;

use common::tiny;
use foreshore::{ByteTable, Database, Durability, Error, Isolation, Result, TransactionOptions};
use foreshore_io::{SimDisk, sim::Crash};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn rows(table: &ByteTable) -> Vec<(Vec<u8>, Vec<u8>)> {
    table.range(..).collect::<Result<_>>().unwrap()
}

fn row(key: &[u8], value: &[u8]) -> (Vec<u8>, Vec<u8>) {
    (key.to_vec(), value.to_vec())
}

fn short() -> TransactionOptions {
    TransactionOptions::new().lock_timeout(Duration::from_millis(50))
}

/// What a transaction does is seen by itself at once, by others when it commits.
#[test]
fn changes_appear_at_the_commit() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    t.put(b"a", b"old").unwrap();
    t.put(b"b", b"stays").unwrap();
    let tx = db.begin().unwrap();
    let mine = tx.bytes(&t);
    mine.put(b"a", b"new").unwrap();
    assert!(mine.insert(b"c", b"inserted").unwrap());
    assert!(!mine.insert(b"c", b"again").unwrap());
    assert!(mine.remove(b"b").unwrap());
    assert!(!mine.remove(b"b").unwrap());
    assert_eq!(mine.get(b"a").unwrap().as_deref(), Some(&b"new"[..]));
    assert_eq!(mine.get(b"b").unwrap(), None);
    let own: Vec<_> = mine.range(..).collect::<Result<_>>().unwrap();
    assert_eq!(own, [row(b"a", b"new"), row(b"c", b"inserted")]);
    // Others see what is committed, without waiting.
    assert_eq!(rows(&t), [row(b"a", b"old"), row(b"b", b"stays")]);
    assert_eq!(t.get(b"c").unwrap(), None);
    tx.commit().unwrap();
    assert_eq!(rows(&t), [row(b"a", b"new"), row(b"c", b"inserted")]);
    assert_eq!(db.check().unwrap().tables[1].rows, 2);
}

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
    assert_eq!(t.range(..).unwrap().count(), 31);
}

/// A transaction looks first where it was twice in a row; what splits moved away meanwhile, it finds all the same.
#[test]
fn rows_are_found_that_splits_moved() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    let key = |n: u32| n.to_be_bytes();
    (0..1000).step_by(100).for_each(|n| t.put(&key(n), &[1; 100]).unwrap());
    let tx = db.begin().unwrap();
    let mine = tx.bytes(&t);
    for n in [0, 100, 200] {
        assert_eq!(mine.get_for_update(&key(n)).unwrap().as_deref(), Some(&[1; 100][..]), "{n}");
    }
    (0..1000u32).filter(|n| !n.is_multiple_of(100)).for_each(|n| t.put(&key(n), &[2; 100]).unwrap());
    assert!(db.stats().splits > 3, "what was one leaf is many");
    for n in (0..1000).step_by(100) {
        assert_eq!(mine.get_for_update(&key(n)).unwrap().as_deref(), Some(&[1; 100][..]), "{n}");
        mine.put(&key(n), &[3; 90]).unwrap();
        assert_eq!(mine.get(&key(n + 1)).unwrap().as_deref(), Some(&[2; 100][..]), "{n}");
    }
    tx.commit().unwrap();
    let expected = |n: u32| if n.is_multiple_of(100) { vec![3; 90] } else { vec![2; 100] };
    assert_eq!(rows(&t), (0..1000).map(|n| (key(n).to_vec(), expected(n))).collect::<Vec<_>>());
    db.check().unwrap();
}

/// A rollback, asked for or by dropping, restores every row.
#[test]
fn rollback_restores_everything() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    for n in 0..1000u32 {
        t.put(&n.to_be_bytes(), &[n as u8; 40]).unwrap();
    }
    let before = rows(&t);
    for dropped in [false, true] {
        let tx = db.begin().unwrap();
        let mine = tx.bytes(&t);
        for n in 0..2000u32 {
            match n % 4 {
                0 => mine.put(&n.to_be_bytes(), &[7; 300]).unwrap(),
                1 => _ = mine.remove(&n.to_be_bytes()).unwrap(),
                2 => mine.put(&n.to_be_bytes(), b"short").unwrap(),
                _ => mine.put(&(n + 1_000_000).to_be_bytes(), &[1; 100]).unwrap(),
            }
            if n % 3 == 0 {
                mine.put(&n.to_be_bytes(), b"twice").unwrap();
            }
        }
        assert_eq!(rows(&t), before, "others see nothing of it");
        if dropped {
            drop(tx)
        } else {
            tx.rollback().unwrap()
        }
        assert_eq!(rows(&t), before);
    }
    let report = db.check().unwrap();
    assert_eq!((report.tables[1].rows, report.tables[1].ghosts), (1000, 0));
}

#[test]
fn savepoints_undo_a_part() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    t.put(b"a", b"0").unwrap();
    let tx = db.begin().unwrap();
    let mine = tx.bytes(&t);
    let start = tx.savepoint().unwrap();
    mine.put(b"a", b"1").unwrap();
    mine.put(b"b", b"1").unwrap();
    let middle = tx.savepoint().unwrap();
    mine.put(b"a", b"2").unwrap();
    mine.remove(b"b").unwrap();
    mine.put(b"c", b"2").unwrap();
    tx.rollback_to(middle).unwrap();
    let own: Vec<_> = mine.range(..).collect::<Result<_>>().unwrap();
    assert_eq!(own, [row(b"a", b"1"), row(b"b", b"1")]);
    mine.put(b"a", b"3").unwrap();
    tx.rollback_to(middle).unwrap();
    assert_eq!(mine.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    tx.rollback_to(start).unwrap();
    assert_eq!(mine.get(b"a").unwrap().as_deref(), Some(&b"0"[..]));
    mine.put(b"d", b"4").unwrap();
    tx.commit().unwrap();
    assert_eq!(rows(&t), [row(b"a", b"0"), row(b"d", b"4")]);
    let other = db.begin().unwrap();
    assert!(matches!(other.rollback_to(start), Err(Error::Argument(_))));
}

/// A snapshot sees one point in time, however much happens after it.
#[test]
fn snapshots_do_not_move() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    for n in 0..500u32 {
        t.put(&n.to_be_bytes(), &n.to_be_bytes()).unwrap();
    }
    let running = db.begin().unwrap();
    running.bytes(&t).put(&7u32.to_be_bytes(), b"running").unwrap();
    let before = rows(&t);
    let snapshot = db.snapshot().unwrap();
    let seen = |s: &foreshore::Snapshot| -> Vec<_> { s.bytes(&t).range(..).collect::<Result<_>>().unwrap() };
    running.commit().unwrap();
    for round in 0..3u8 {
        for n in 0..1000u32 {
            if n % 5 == u32::from(round) {
                t.remove(&n.to_be_bytes()).map(|_| ())
            } else {
                t.put(&n.to_be_bytes(), &[round; 20])
            }
            .unwrap();
        }
        assert_eq!(seen(&snapshot), before);
        let tx = db.begin().unwrap();
        for n in (0..1000u32).step_by(3) {
            tx.bytes(&t).put(&n.to_be_bytes(), &[round; 9]).unwrap();
            tx.bytes(&t).remove(&(n + 1).to_be_bytes()).unwrap();
        }
        assert_eq!(seen(&snapshot), before);
        if round == 1 { tx.rollback() } else { tx.commit() }.unwrap();
        assert_eq!(seen(&snapshot), before);
        let mut back: Vec<_> = snapshot.bytes(&t).range(..).rev().collect::<Result<_>>().unwrap();
        back.reverse();
        assert_eq!(back, before);
        for n in 0..1000u32 {
            let expected =
                before.iter().find(|(key, _)| *key == n.to_be_bytes()).map(|(_, value)| value.clone());
            assert_eq!(snapshot.bytes(&t).get(&n.to_be_bytes()).unwrap(), expected, "{n}");
        }
    }
    drop(snapshot);
    let left = || (db.stats().image_bytes, db.check().unwrap().tables[1].ghosts);
    let since = Instant::now();
    while left() != (0, 0) && since.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(left(), (0, 0), "old versions and ghosts go when nobody can see them");
}

/// Two transactions that want each other's rows: one gives way, with a message that says what to do.
#[test]
fn deadlocks_end_with_one_victim() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    t.put(b"a", b"0").unwrap();
    t.put(b"b", b"0").unwrap();
    let barrier = std::sync::Barrier::new(2);
    let run = |first: &'static [u8], second: &'static [u8]| -> Result<()> {
        let tx = db.begin()?;
        tx.bytes(&t).put(first, b"1")?;
        barrier.wait();
        tx.bytes(&t).put(second, b"1")?;
        tx.commit()
    };
    let results = std::thread::scope(|s| {
        let other = s.spawn(|| run(b"b", b"a"));
        [run(b"a", b"b"), other.join().unwrap()]
    });
    let failed: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert_eq!(failed.len(), 1, "{results:?}");
    assert!(failed[0].is_retryable() && failed[0].to_string().contains("of table \"t\""), "{}", failed[0]);
}

/// Serializable transactions see no phantoms: an insertion into a range that another has read waits.
#[test]
fn insertions_wait_for_readers_of_the_range() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    for key in [b"b", b"d", b"f"] {
        t.put(key, b"").unwrap();
    }
    for reverse in [false, true] {
        let reader = db.begin_with(short()).unwrap();
        let range = reader.bytes(&t).range(&b"c"[..]..&b"e"[..]);
        let seen: Vec<_> = if reverse { range.rev().collect() } else { range.collect() };
        assert_eq!(seen.len(), 1);
        for (key, free) in [(b"c", false), (b"e", false), (b"a", true), (b"z", true)] {
            let writer = db.begin_with(short()).unwrap();
            let inserted = writer.bytes(&t).insert(key, b"");
            assert_eq!(inserted.is_ok(), free, "{key:?} reverse {reverse}: {inserted:?}");
        }
        reader.commit().unwrap();
        let writer = db.begin_with(short()).unwrap();
        assert!(writer.bytes(&t).insert(b"c", b"").unwrap());
    }
}

#[test]
fn levels_differ_in_what_they_lock() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    t.put(b"a", b"0").unwrap();
    let level = |isolation| db.begin_with(short().isolation(isolation)).unwrap();
    let (committed, repeatable, serializable) =
        (level(Isolation::ReadCommitted), level(Isolation::RepeatableRead), level(Isolation::Serializable));
    assert!(committed.bytes(&t).get(b"a").unwrap().is_some());
    t.put(b"a", b"1").unwrap();
    assert_eq!(committed.bytes(&t).get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(repeatable.bytes(&t).range(..).count(), 1);
    t.put(b"b", b"1").unwrap();
    assert_eq!(repeatable.bytes(&t).range(..).count(), 2, "a repeatable reader may see new rows");
    assert_eq!(serializable.bytes(&t).range(..).count(), 2);
    let writer = db.begin_with(short()).unwrap();
    assert!(writer.bytes(&t).put(b"a", b"2").is_err());
    drop((repeatable, serializable));
    writer.bytes(&t).put(b"a", b"2").unwrap();
}

/// A range goes on in a private copy of a leaf. What was not committed when the copy was made does not become so because
/// its author has ended since.
#[test]
fn ranges_do_not_believe_what_was_rolled_back_behind_them() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    for key in [b"a", b"b", b"c"] {
        t.put(key, b"old").unwrap();
    }
    for level in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        for (reverse, remove) in [(false, false), (true, false), (false, true), (true, true)] {
            let what = format!("{level:?}, reverse {reverse}, remove {remove}");
            let writer = db.begin().unwrap();
            if remove {
                writer.bytes(&t).remove(b"b").unwrap();
            } else {
                writer.bytes(&t).put(b"b", b"never").unwrap();
            }
            let reader = db.begin_with(short().isolation(level)).unwrap();
            let mut rows = reader.bytes(&t).range(..);
            let mut next = || if reverse { rows.next_back() } else { rows.next() }.unwrap().unwrap();
            next();
            writer.rollback().unwrap();
            drop(db.snapshot().unwrap()); // brings up to date who has ended
            assert_eq!(next(), row(b"b", b"old"), "{what}");
            reader.bytes(&t).put(if reverse { b"a" } else { b"c" }, b"own").unwrap();
            assert_eq!(next().1, b"own", "{what}: what it writes itself it sees");
        }
    }
}

#[test]
fn other_threads_can_abort() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    let tx = db.begin().unwrap();
    tx.bytes(&t).put(b"a", b"1").unwrap();
    assert_eq!(db.transactions(), [tx.number()]);
    assert!(db.abort(tx.number()).unwrap());
    assert!(!db.abort(tx.number()).unwrap());
    assert!(matches!(tx.bytes(&t).put(b"a", b"2"), Err(Error::Aborted { .. })));
    assert!(matches!(tx.commit(), Err(Error::Aborted { .. })));
    assert_eq!(t.get(b"a").unwrap(), None);
    let idle = db.begin_with(TransactionOptions::new().idle_timeout(Duration::from_millis(700))).unwrap();
    idle.bytes(&t).put(b"a", b"3").unwrap();
    let since = Instant::now();
    while t.with_lock_timeout(Duration::from_millis(50)).put(b"a", b"4").is_err() {
        assert!(since.elapsed() < Duration::from_secs(60), "an idle transaction is never rolled back");
    }
    assert!(matches!(idle.commit(), Err(Error::Aborted { .. })));
    assert!(db.transactions().is_empty());
}

/// A transaction that waits for a lock is interrupted and rolled back, and who asked for it is told so.
#[test]
fn transactions_that_wait_can_be_aborted() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    let holder = db.begin().unwrap();
    holder.bytes(&t).put(b"k", b"1").unwrap();
    std::thread::scope(|s| {
        let waiting = db.begin().unwrap();
        let number = waiting.number();
        let waiter = s.spawn(|| {
            let waiting = waiting;
            waiting.bytes(&t).put(b"k", b"2")
        });
        std::thread::sleep(Duration::from_millis(50));
        assert!(db.abort(number).unwrap());
        assert!(matches!(waiter.join().unwrap(), Err(Error::Aborted { .. })));
    });
}

/// Who aborts a transaction that has ended hits nobody who has its slot by then.
#[test]
fn a_late_abort_hits_nobody_else() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    let holder = db.begin().unwrap();
    holder.bytes(&t).put(b"k", b"1").unwrap();
    std::thread::scope(|s| {
        let (begun, number) = std::sync::mpsc::channel();
        let (go_on, aborted) = std::sync::mpsc::channel();
        let (db, t) = (&db, &t);
        let waiter = s.spawn(move || {
            let ended = db.begin().unwrap();
            begun.send(ended.number()).unwrap();
            aborted.recv().unwrap();
            // In the same slot: this thread had it last.
            t.put(b"k", b"2").map(|()| drop(ended))
        });
        let number = number.recv().unwrap();
        assert!(db.abort(number).unwrap());
        go_on.send(()).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert!(!db.abort(number).unwrap(), "it has ended");
        std::thread::sleep(Duration::from_millis(50));
        holder.rollback().unwrap();
        waiter.join().unwrap().unwrap();
    });
}

/// Who waits for longer than it may be idle is not idle. And it does not keep from their end those that are, and that it
/// may be waiting for.
#[test]
fn a_transaction_that_waits_is_not_idle() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    let idle_for = |millis| TransactionOptions::new().idle_timeout(Duration::from_millis(millis));
    let forgotten = db.begin_with(idle_for(1000)).unwrap();
    forgotten.bytes(&t).put(b"k", b"1").unwrap();
    let busy = db.begin_with(idle_for(300)).unwrap();
    busy.bytes(&t).put(b"k", b"2").unwrap();
    std::thread::sleep(Duration::from_millis(100));
    busy.bytes(&t).put(b"l", b"2").unwrap();
    busy.commit().unwrap();
    assert!(matches!(forgotten.commit(), Err(Error::Aborted { .. })));
}

/// Handles and ranges that outlive their transaction do not make it run.
#[test]
fn transactions_that_ended_are_not_listed() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    let tx = db.begin().unwrap();
    let range = tx.bytes(&t).range(..);
    assert_eq!(db.transactions(), [tx.number()]);
    tx.commit().unwrap();
    assert!(db.transactions().is_empty());
    let aborted = db.begin().unwrap();
    assert!(db.abort(aborted.number()).unwrap());
    assert!(db.transactions().is_empty());
    drop((range, aborted));
}

/// Numbers of transactions and places in the log may be the same in two databases.
#[test]
fn savepoints_of_other_databases_are_refused() {
    let begun = || {
        let db = Database::in_memory().unwrap();
        let t = db.byte_table("t").unwrap();
        let tx = db.begin().unwrap();
        tx.bytes(&t).put(b"k", b"1").unwrap();
        tx
    };
    let (one, other) = (begun(), begun());
    assert_eq!(one.number(), other.number());
    let refused = other.rollback_to(one.savepoint().unwrap());
    assert!(matches!(refused, Err(Error::Argument(_))), "{refused:?}");
}

/// A range shows what its own transaction puts ahead of it, also where whole leaves of removed rows lie between.
#[test]
fn ranges_show_what_is_put_ahead_of_them() {
    const ROWS: u32 = 600;
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    (0..ROWS).for_each(|n| t.put(&(n * 2).to_be_bytes(), &[1; 60]).unwrap());
    let _keeps_ghosts = db.snapshot().unwrap();
    (0..ROWS).filter(|n| n % 50 != 0).for_each(|n| assert!(t.remove(&(n * 2).to_be_bytes()).unwrap()));
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
        for step in [1, -1] {
            let tx = db.begin_with(TransactionOptions::new().isolation(isolation)).unwrap();
            let in_tx = tx.bytes(&t);
            let mut range = in_tx.range(..);
            let mut ahead = None;
            while let Some(row) = if step > 0 { range.next() } else { range.next_back() } {
                let key = u32::from_be_bytes(row.unwrap().0.try_into().unwrap());
                assert!(
                    ahead.is_none_or(|ahead| ahead == key),
                    "{isolation:?}, {step}: {ahead:?} is missing"
                );
                ahead = Some(key.saturating_add_signed(step)).filter(|ahead| key % 2 == 0 && *ahead != key);
                ahead.iter().for_each(|ahead| in_tx.put(&ahead.to_be_bytes(), b"own").unwrap());
            }
            tx.rollback().unwrap();
        }
    }
}

/// Ghosts that a crash left behind, as a snapshot had needed them, make way for new rows.
#[test]
fn ghosts_of_before_a_crash_make_way() {
    let disk = SimDisk::new(1);
    let open = |disk: &SimDisk| tiny().open_on(Arc::new(disk.clone())).unwrap();
    let key = |i: u32| i.to_be_bytes();
    let db = open(&disk);
    let table = db.byte_table("t").unwrap().with_durability(Durability::Buffered);
    let _keeps_ghosts = {
        (0..1000).for_each(|i| table.put(&key(2 * i), &[1; 100]).unwrap());
        let snapshot = db.snapshot().unwrap();
        (0..1000).for_each(|i| assert!(table.remove(&key(2 * i)).unwrap()));
        snapshot
    };
    db.sync().unwrap();

    let db = open(&disk.after_crash(Crash::PowerLoss, 1));
    let ghosts = || db.check().unwrap().tables.iter().map(|table| table.ghosts).sum::<u64>();
    assert_eq!(ghosts(), 1000, "nobody remembers them");
    let table = db.byte_table("t").unwrap().with_durability(Durability::Buffered);
    (0..1000).for_each(|i| table.put(&key(2 * i + 1), &[2; 100]).unwrap());
    assert!(ghosts() < 100, "{} ghosts stay in leaves that were split", ghosts());
    assert_eq!(table.range(..).count(), 1000);
}

/// A full leaf keeps the ghosts that somebody needs: a snapshot, or who has locked the key.
#[test]
fn ghosts_that_are_needed_stay_in_full_leaves() {
    let db = tiny().open_on(Arc::new(SimDisk::new(1))).unwrap();
    let table = db.byte_table("t").unwrap().with_durability(Durability::Buffered);
    let key = |i: u32| i.to_be_bytes();
    let rows = || table.range(..).map(|row| row.unwrap().0).collect::<Vec<_>>();
    (0..200).for_each(|i| table.put(&key(4 * i), &[1; 100]).unwrap());
    let before = rows();
    let tx = db.begin().unwrap();
    (0..100).for_each(|i| assert!(tx.bytes(&table).remove(&key(4 * i)).unwrap()));
    let snapshot = db.snapshot().unwrap();
    (100..200).for_each(|i| assert!(table.remove(&key(4 * i)).unwrap()));
    (0..200).for_each(|i| table.put(&key(4 * i + 1), &[2; 100]).unwrap());
    tx.rollback().unwrap();
    let seen: Vec<_> = snapshot.bytes(&table).range(..).map(|row| row.unwrap().0).collect();
    assert_eq!(seen, before);
    let mut now: Vec<_> = (0..200).map(|i| key(4 * i + 1).to_vec()).collect();
    now.extend((0..100).map(|i| key(4 * i).to_vec()));
    now.sort();
    assert_eq!(rows(), now);
    db.check().unwrap();
}

/// A ghost that a rollback brings back goes too, although its author's garbage was cleared when it was none.
#[test]
fn ghosts_that_come_back_go_again() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    t.put(b"k", b"1").unwrap();
    let snapshot = db.snapshot().unwrap();
    t.remove(b"k").unwrap();
    let tx = db.begin().unwrap();
    tx.bytes(&t).put(b"k", b"2").unwrap();
    drop(snapshot);
    std::thread::sleep(Duration::from_millis(300)); // the removal's garbage is cleared
    tx.rollback().unwrap();
    let ghosts = || db.check().unwrap().tables.iter().map(|table| table.ghosts).sum::<u64>();
    let since = Instant::now();
    while ghosts() > 0 {
        assert!(since.elapsed() < Duration::from_secs(10), "the ghost stays for ever");
    }
}

#[test]
fn tables_in_use_are_not_dropped() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    let tx = db.begin().unwrap();
    tx.bytes(&t).put(b"a", b"1").unwrap();
    std::thread::scope(|s| {
        let dropping = s.spawn(|| db.drop_table("t"));
        let late = || db.begin().unwrap().bytes(&t).get(b"b");
        while late().is_ok() {
            std::thread::yield_now();
        }
        assert!(matches!(late(), Err(Error::TableDropped { .. })));
        assert_eq!(db.stats().tables, 1, "who asks for something else does not wait");
        tx.commit().unwrap();
        assert!(dropping.join().unwrap().unwrap());
    });
    assert!(db.tables().unwrap().is_empty());
}

/// Transfers between accounts keep their sum, for every reader at any time.
#[test]
fn transfers_keep_the_sum() {
    const ACCOUNTS: u64 = 20;
    let db = Database::in_memory().unwrap();
    let accounts = db.table::<u64, i64>("accounts").unwrap();
    for account in 0..ACCOUNTS {
        accounts.put(&account, &100).unwrap();
    }
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|s| {
        let writers: Vec<_> = (0..4u64)
            .map(|seed| {
                let (db, accounts) = (&db, &accounts);
                s.spawn(move || {
                    let mut random = common::Rng(seed + 1);
                    for _ in 0..500 {
                        let (from, to) =
                            (random.below(ACCOUNTS as usize) as u64, random.below(ACCOUNTS as usize) as u64);
                        db.transact(|tx| {
                            let accounts = tx.table(accounts);
                            let amount = accounts.get(&from)?.unwrap().min(10);
                            accounts.put(&from, &(accounts.get(&from)?.unwrap() - amount))?;
                            accounts.put(&to, &(accounts.get(&to)?.unwrap() + amount))
                        })
                        .unwrap();
                    }
                })
            })
            .collect();
        s.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let snapshot = db.snapshot().unwrap();
                let sum: i64 = snapshot.table(&accounts).range(..).unwrap().map(|row| row.unwrap().1).sum();
                assert_eq!(sum, 100 * ACCOUNTS as i64, "a snapshot");
                let sum: i64 = db
                    .transact(|tx| {
                        let mut sum = 0;
                        for row in tx.table(&accounts).range(..)? {
                            sum += row?.1;
                        }
                        Ok(sum)
                    })
                    .unwrap();
                assert_eq!(sum, 100 * ACCOUNTS as i64, "a serializable reader");
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(db.stats().transactions, 0);
    db.check().unwrap();
}

/// Work may fail with errors of its own, which roll back. What lost against another runs again, whatever the work says then.
#[test]
fn work_has_errors_of_its_own() {
    #[derive(Debug)]
    enum Failure {
        Refused,
        Store(Error),
    }
    impl From<Error> for Failure {
        fn from(error: Error) -> Self {
            Self::Store(error)
        }
    }
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    t.put(b"k", b"old").unwrap();
    let set = |runs: &mut u32, work: &mut dyn FnMut(&foreshore::Transaction, u32) -> Result<(), Failure>| {
        db.try_transact_with(short(), |tx| {
            *runs += 1;
            tx.bytes(&t).put(b"k", &[*runs as u8])?;
            work(tx, *runs)
        })
    };
    let value = || t.get(b"k").unwrap().unwrap();

    let mut runs = 0;
    assert!(matches!(set(&mut runs, &mut |_, _| Err(Failure::Refused)), Err(Failure::Refused)));
    assert_eq!((runs, &value()[..]), (1, &b"old"[..]), "rolled back, not run again");

    let mut runs = 0;
    let failed = set(&mut runs, &mut |tx, _| Ok(tx.bytes(&t).put(&[7; 2000], b"")?));
    assert!(matches!(failed, Err(Failure::Store(Error::KeyTooLong { .. }))));
    assert_eq!((runs, &value()[..]), (1, &b"old"[..]));

    // Rolled back by another thread: reported as it is, hidden behind another error, or not at all.
    for hide in [|error| Err(Failure::Store(error)), |_| Err(Failure::Refused), |_| Ok(())] {
        let mut runs = 0;
        let done = set(&mut runs, &mut |tx, runs| {
            if runs < 3 {
                assert!(db.abort(tx.number()).unwrap());
                return tx.bytes(&t).get(b"k").map_or_else(hide, |_| unreachable!("rolled back"));
            }
            Ok(())
        });
        assert!(matches!(done, Ok(())));
        assert_eq!((runs, &value()[..]), (3, &[3][..]));
    }

    // A lock that others hold too long: run again if that was the end of it, not if the work went on.
    let other = db.begin().unwrap();
    other.bytes(&t).put(b"held", b"").unwrap();
    let mut runs = 0;
    let done = set(&mut runs, &mut |tx, runs| match tx.bytes(&t).get(b"held") {
        Err(Error::LockTimeout { .. }) if runs < 3 => Err(Failure::Refused),
        Err(Error::LockTimeout { .. }) => {
            tx.bytes(&t).get(b"k")?;
            Err(Failure::Refused)
        }
        got => unreachable!("{got:?}"),
    });
    assert!(matches!(done, Err(Failure::Refused)));
    assert_eq!((runs, &value()[..]), (3, &[3][..]));
}

/// Typed tables are scanned and asked for many keys as byte tables are, also as of a snapshot.
#[test]
fn typed_tables_are_scanned() {
    let db = Database::in_memory().unwrap();
    let t = db.table::<u32, String>("t").unwrap();
    (0..1000).for_each(|n| t.put(&n, &n.to_string()).unwrap());
    let snapshot = db.snapshot().unwrap();
    t.remove(&7).unwrap();
    let (mut now, mut then) = (Vec::new(), Vec::new());
    let until = |seen: &mut Vec<(u32, String)>, key, value| {
        seen.push((key, value));
        if key < 10 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    t.scan(5.., |key, value| until(&mut now, key, value)).unwrap();
    snapshot.table(&t).scan(5..8, |key, value| until(&mut then, key, value)).unwrap();
    assert_eq!(now, [5, 6, 8, 9, 10].map(|n| (n, n.to_string())));
    assert_eq!(then, [5, 6, 7].map(|n| (n, n.to_string())));
    let found = snapshot.table(&t).multi_get(&[7, 1000, 8]).unwrap();
    assert_eq!(found, [Some("7".into()), None, Some("8".into())]);

    let others = db.table::<u64, String>("t").unwrap();
    let scanned = others.scan(.., |_, _| unreachable!("no row is of this type"));
    assert!(matches!(scanned, Err(Error::Encoding { .. })));
}

/// A snapshot shows tables of its own database only.
#[test]
fn a_snapshot_is_of_one_database() {
    let (db, other) = (Database::in_memory().unwrap(), Database::in_memory().unwrap());
    let t = other.byte_table("t").unwrap();
    t.put(b"k", b"v").unwrap();
    let snapshot = db.snapshot().unwrap();
    let foreign = snapshot.bytes(&t);
    assert!(matches!(foreign.get(b"k"), Err(Error::Argument(_))));
    let mut rows = foreign.range(..);
    assert!(matches!(rows.next(), Some(Err(Error::Argument(_)))) && rows.next().is_none());
    assert!(matches!(foreign.prefix(b"k").next_back(), Some(Err(Error::Argument(_)))));
}

/// Old versions have a budget: beyond it the oldest snapshot is told so, and a new one works.
#[test]
fn old_versions_are_bounded() {
    let db = Database::builder()
        .old_version_bytes(64 << 10)
        .open_on(std::sync::Arc::new(foreshore_io::MemVfs::new()))
        .unwrap();
    let t = db.byte_table("t").unwrap();
    let put_all = |byte| (0..200u8).for_each(|n| t.put(&[n], &[byte; 1000]).unwrap());
    put_all(0);
    let snapshot = db.snapshot().unwrap();
    assert!(snapshot.bytes(&t).get(&[7]).unwrap().is_some());
    for round in 1..20 {
        put_all(round);
    }
    let since = std::time::Instant::now();
    while snapshot.bytes(&t).get(&[7]).is_ok() {
        assert!(
            since.elapsed() < Duration::from_secs(10),
            "{} bytes of old versions",
            db.stats().image_bytes
        );
    }
    assert!(matches!(snapshot.bytes(&t).get(&[7]), Err(Error::SnapshotTooOld)));
    assert!(matches!(snapshot.bytes(&t).range(..).next(), Some(Err(Error::SnapshotTooOld))));
    assert_eq!(db.snapshot().unwrap().bytes(&t).get(&[7]).unwrap(), Some(vec![19; 1000]));
}

/// What a running transaction has replaced stays, whoever reads: no snapshot is given up for it.
#[test]
fn large_transactions_cost_no_snapshot() {
    let db = Database::builder()
        .old_version_bytes(64 << 10)
        .open_on(std::sync::Arc::new(foreshore_io::MemVfs::new()))
        .unwrap();
    let t = db.byte_table("t").unwrap().with_durability(Durability::Relaxed);
    (0..200u8).for_each(|n| t.put(&[n], &[0; 1000]).unwrap());
    let tx = db.begin().unwrap();
    (0..200u8).for_each(|n| tx.bytes(&t).put(&[n], &[1; 1000]).unwrap());
    let snapshot = db.snapshot().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(snapshot.bytes(&t).get(&[7]).unwrap(), Some(vec![0; 1000]));
    tx.commit().unwrap();
    let since = Instant::now();
    while snapshot.bytes(&t).get(&[7]).is_ok() {
        assert!(since.elapsed() < Duration::from_secs(10), "now they are kept for the snapshot only");
    }
}

/// A handle that must not block gives up at once, with nothing done, and gets through when the lock is free.
#[test]
fn a_table_handle_waits_no_longer_than_it_was_told() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap().with_lock_timeout(Duration::ZERO);
    let tx = db.begin().unwrap();
    tx.bytes(&t).put(b"locked", b"by the transaction").unwrap();
    assert!(tx.bytes(&t).range(&b"x"[..]..).next().is_none());
    assert!(matches!(t.put(b"locked", b""), Err(Error::LockTimeout { .. })));
    assert!(matches!(t.remove(b"locked"), Err(Error::LockTimeout { .. })));
    assert!(matches!(t.insert(b"y", b"into a locked gap"), Err(Error::LockTimeout { .. })));
    t.put(b"free", b"").unwrap();
    tx.rollback().unwrap();
    assert!(t.insert(b"y", b"").unwrap() && !t.remove(b"locked").unwrap());
}
