//! Changing a row by what it is: in one step, for everybody.

use foreshore::{ByteTable, Database, Error, Table};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

fn counters() -> (Database, Table<String, u64>) {
    let db = Database::in_memory().unwrap();
    db.byte_table("t").unwrap(); // which remembers no types
    let table = db.table("t").unwrap();
    (db, table)
}

fn one_more(value: &mut Option<u64>) -> u64 {
    *value.insert(value.unwrap_or(0) + 1)
}

/// Rows appear, change and go; and the same in a transaction, which may not last.
#[test]
fn a_row_becomes_what_it_is_made() {
    let (db, table) = counters();
    assert_eq!(table.modify("a", one_more).unwrap(), 1);
    assert_eq!(table.modify("a", one_more).unwrap(), 2);
    assert_eq!(table.modify("a", |value| *value).unwrap(), Some(2), "it may stay as it is");
    assert_eq!(table.modify("b", |value| *value).unwrap(), None);
    assert!(!table.contains("b").unwrap(), "nothing comes of nothing");
    let tx = db.begin().unwrap();
    assert_eq!(tx.table(&table).modify("a", Option::take).unwrap(), Some(2));
    assert_eq!(tx.table(&table).modify("b", one_more).unwrap(), 1);
    assert_eq!((tx.table(&table).get("a").unwrap(), tx.table(&table).get("b").unwrap()), (None, Some(1)));
    tx.rollback().unwrap();
    assert_eq!(table.modify("a", Option::take).unwrap(), Some(2));
    assert_eq!(table.modify("a", Option::take).unwrap(), None);
    assert!(table.is_empty().unwrap());
    db.check().unwrap();
}

/// Also where values are large, or were.
#[test]
fn large_values_grow_and_shrink() {
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("t").unwrap();
    for len in [10, 5_000, 300_000, 7, 200_000, 3_000] {
        let before = table.get(b"k").unwrap();
        let seen = table.modify(b"k", |value| value.replace(vec![7; len])).unwrap();
        assert_eq!(seen, before);
        assert_eq!(table.get(b"k").unwrap().map(|value| value.len()), Some(len));
    }
    table.modify(b"k", |value| *value = None).unwrap();
    assert!(table.is_empty().unwrap());
    db.check().unwrap();
}

#[test]
fn no_change_is_lost() {
    let (db, table) = counters();
    thread::scope(|scope| {
        for alone in [true, false, true, false] {
            let (db, table) = (&db, &table);
            scope.spawn(move || {
                for _ in 0..250 {
                    match alone {
                        true => table.modify("hits", one_more).unwrap(),
                        false => db.transact(|tx| tx.table(table).modify("hits", one_more)).unwrap(),
                    };
                }
            });
        }
    });
    assert_eq!(table.get("hits").unwrap(), Some(1000));
    assert_eq!(db.stats().deadlocks, 0, "a row is locked before it is read");
}

/// Who gives way in a deadlock begins again, with what the row is then.
#[test]
fn a_change_gives_way_and_comes_back() {
    let (db, table) = counters();
    let older = db.begin().unwrap();
    assert_eq!(older.table(&table).range("k".to_string()..).count(), 0, "it keeps others from inserting");
    table.put("a", &0).unwrap();
    db.sync().unwrap(); // what begins now is younger
    let (mut runs, locked) = (0, Barrier::new(2));
    thread::scope(|scope| {
        let change = scope.spawn(|| {
            let change = |value: &mut Option<u64>| {
                runs += 1;
                if runs == 1 {
                    locked.wait();
                }
                *value = Some(value.unwrap_or(0) + 1);
            };
            table.modify("k", change).unwrap();
        });
        locked.wait();
        older.table(&table).put("k", &10).unwrap();
        older.commit().unwrap();
        change.join().unwrap();
    });
    assert_eq!((table.get("k").unwrap(), runs), (Some(11), 2));
}

/// Errors and panics leave the row as it was, and nothing locked.
#[test]
fn what_fails_changes_nothing() {
    let (db, table) = counters();
    let bytes: ByteTable = db.byte_table("t").unwrap();
    table.put("k", &1).unwrap();
    let impatient = table.with_lock_timeout(Duration::ZERO);
    let holder = db.begin().unwrap();
    holder.table(&table).get("k").unwrap();
    let refused = impatient.modify("k", |_| unreachable!("it is not locked"));
    assert!(matches!(refused, Err::<(), _>(Error::LockTimeout { .. })));
    holder.commit().unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        table.modify("k", |value| {
            *value = None;
            panic!("a test")
        })
    }));
    assert!(panicked.is_err());
    let too_long = bytes.modify(&[0; 2000], |value| *value = Some(vec![]));
    assert!(matches!(too_long, Err(Error::KeyTooLong { .. })), "{too_long:?}");
    let other_type = db.table::<String, String>("t").unwrap().modify("k", |_| ());
    assert!(matches!(other_type, Err(Error::Encoding { .. })), "{other_type:?}");
    assert_eq!(impatient.modify("k", one_more).unwrap(), 2, "nobody has it locked");
}

/// Many at once; the first one that cannot be read, or ends it, is as it was, and so are those after it.
#[test]
fn typed_rows_are_modified_together() {
    let (db, table) = counters();
    let keys = ["a", "b", "c"].map(String::from);
    table.put_many(&[("a".into(), 1), ("c".into(), 3)]).unwrap();
    let tx = db.begin().unwrap();
    let mine = tx.table(&table);
    let change = |value: &mut Option<u64>| {
        one_more(value);
        ControlFlow::Continue(())
    };
    mine.multi_modify(&keys, change).unwrap();
    assert_eq!(mine.multi_get(&keys).unwrap(), [Some(2), Some(1), Some(4)]);
    mine.multi_modify(&keys, |value| match value {
        Some(1) => ControlFlow::Break(()),
        _ => {
            *value = None;
            ControlFlow::Continue(())
        }
    })
    .unwrap();
    assert_eq!(mine.multi_get(&keys).unwrap(), [None, Some(1), Some(4)]);
    let texts = db.table::<String, String>("t").unwrap();
    tx.table(&texts).put("b", &"a text".into()).unwrap();
    mine.put("a", &5).unwrap();
    let failed = mine.multi_modify(&keys, change);
    assert!(matches!(failed, Err(Error::Encoding { .. })), "{failed:?}");
    assert_eq!((mine.get("a").unwrap(), mine.get("c").unwrap()), (Some(6), Some(4)));
    assert_eq!(tx.table(&texts).get("b").unwrap().as_deref(), Some("a text"));
}
