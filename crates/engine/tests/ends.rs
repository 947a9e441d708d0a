//! The two ends of a table: its first row and its last, to be read and to be taken.

mod common;

use common::{Rng, env, row, rows, short, small};
use foreshore::{
    ByteTable, Database, Error, Isolation, Table, Transaction, TransactionBytes, TransactionOptions,
};
use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;
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

/// What comes off the ends is what a sorted map would give, alone and in transactions, some of which roll back.
#[test]
fn pops_take_what_a_map_would() {
    let seed = env("FORESHORE_SEED", 6);
    let (db, mut rng) = (small(), Rng(seed));
    let table = db.byte_table("t").unwrap();
    let mut model = BTreeMap::new();
    for round in 0..400 {
        let tx = (rng.below(2) == 0).then(|| db.begin().unwrap());
        let (kept, undo) = (model.clone(), rng.below(3) == 0);
        for _ in 0..rng.below(12) {
            let step = rng.below(5);
            let (key, value) = (rng.bytes(2), rng.bytes(90));
            let popped = match (&tx, step) {
                (None, 0) => table.pop_first().unwrap(),
                (None, 1) => table.pop_last().unwrap(),
                (Some(tx), 0) => tx.bytes(&table).pop_first().unwrap(),
                (Some(tx), 1) => tx.bytes(&table).pop_last().unwrap(),
                (None, _) => table.put(&key, &value).map(|()| None).unwrap(),
                (Some(tx), _) => tx.bytes(&table).put(&key, &value).map(|()| None).unwrap(),
            };
            let want = match step {
                0 => model.pop_first(),
                1 => model.pop_last(),
                _ => model.insert(key, value).and(None),
            };
            assert_eq!(popped, want, "seed {seed} round {round}");
        }
        match tx {
            Some(tx) if undo => {
                tx.rollback().unwrap();
                model = kept;
            }
            Some(tx) => tx.commit().unwrap(),
            None => {}
        }
    }
    assert!(rows(&table).into_iter().eq(model), "seed {seed}");
    while table.pop_last().unwrap().is_some() {}
    assert!(table.is_empty().unwrap() && table.pop_first().unwrap().is_none());
    db.check().unwrap();
}

/// Who found nothing to take keeps others from putting anything there, and who took a row, from putting one before it.
#[test]
fn nobody_inserts_beyond_a_row_that_was_taken() {
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("t").unwrap();
    for isolation in [Isolation::Serializable, Isolation::RepeatableRead, Isolation::ReadCommitted] {
        let gaps = isolation == Isolation::Serializable;
        let begin = || db.begin_with(TransactionOptions::new().isolation(isolation)).unwrap();
        for pop_last in [false, true] {
            let pop = |tx: &Transaction| match pop_last {
                false => tx.bytes(&table).pop_first().unwrap(),
                true => tx.bytes(&table).pop_last().unwrap(),
            };
            let tx = begin();
            assert_eq!(pop(&tx), None);
            assert_eq!(waits(&table, b"m"), gaps, "{isolation:?}");
            tx.commit().unwrap();
            table.remove_range(..).unwrap();
            table.put_many(&["b", "m", "y"].map(|key| (key, ""))).unwrap();
            let tx = begin();
            let (taken, beyond, within) = if pop_last { (b"y", b"z", b"c") } else { (b"b", b"a", b"n") };
            assert_eq!(pop(&tx), Some(row(taken, b"")));
            assert!(waits(&table, taken), "{isolation:?}: it may come back");
            assert_eq!(waits(&table, beyond), gaps, "{isolation:?}");
            assert!(!waits(&table, within), "{isolation:?}");
            tx.commit().unwrap();
            assert!(!waits(&table, b"a") && !waits(&table, b"z"));
            table.remove_range(..).unwrap();
        }
    }
}

/// Two that each put something where the other one found nothing to take: one of them must have found it.
#[test]
fn of_two_empty_queues_one_is_seen_to_fill() {
    let db = Database::in_memory().unwrap();
    let queues = ["left", "right"].map(|name| db.table::<u32, String>(name).unwrap());
    for _ in 0..50 {
        let meet = Barrier::new(2);
        let pass = |from: &Table<u32, String>, to: &Table<u32, String>| {
            let mut met = false;
            db.transact(|tx| {
                let found = tx.table(from).pop_first()?;
                if !std::mem::replace(&mut met, true) {
                    meet.wait();
                }
                if found.is_none() {
                    tx.table(to).put(&1, &"from an empty one".into())?;
                }
                Ok(found.is_some())
            })
            .unwrap()
        };
        let [left, right] = &queues;
        let found = thread::scope(|scope| {
            let other = scope.spawn(|| pass(left, right));
            [pass(right, left), other.join().unwrap()]
        });
        assert_ne!(found[0], found[1], "as if one had run after the other");
        assert!(left.is_empty().unwrap() && right.is_empty().unwrap());
    }
}

/// They wait for each other, but nobody has to begin again, for each locks rows in their order.
#[test]
fn each_row_is_taken_once_without_deadlocks() {
    const ROWS: u32 = 2000;
    let db = small();
    let table = db.table::<u32, Vec<u8>>("t").unwrap();
    for in_transactions in [false, true] {
        table.bulk_load((0..ROWS).map(|n| (n, vec![7; 50]))).unwrap();
        let take = || {
            let pop = || match in_transactions {
                false => table.pop_first(),
                true => db.transact(|tx| tx.table(&table).pop_first()),
            };
            let mut mine = Vec::new();
            while let Some((number, _)) = pop().unwrap() {
                mine.push(number);
            }
            assert!(mine.is_sorted(), "the first row goes first");
            mine
        };
        let mut taken: Vec<u32> = thread::scope(|scope| {
            let takers: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect()
        });
        taken.sort_unstable();
        assert!(taken.into_iter().eq(0..ROWS), "in transactions: {in_transactions}");
        assert_eq!(db.stats().deadlocks, 0, "in transactions: {in_transactions}");
    }
}

/// Who waits for the first row has it for itself from then on: two that had both read it could only give way to each other.
#[test]
fn those_who_wait_for_the_same_row_do_not_deadlock() {
    let db = small();
    let table = db.byte_table("t").unwrap();
    for last in [false, true] {
        table.put_many(&["a", "b"].map(|key| (key, ""))).unwrap();
        let holder = db.begin().unwrap();
        holder.bytes(&table).put_many(&["a", "b"].map(|key| (key, "new"))).unwrap();
        let pop = |table: TransactionBytes<'_>| if last { table.pop_last() } else { table.pop_first() };
        let take = || db.transact(|tx| pop(tx.bytes(&table))).unwrap().expect("there are two").0;
        thread::scope(|scope| {
            let takers = [scope.spawn(take), scope.spawn(take)];
            while db.transactions().len() < 3 {
                thread::yield_now();
            }
            thread::sleep(Duration::from_millis(100)); // so that both wait
            holder.commit().unwrap();
            let mut taken = takers.map(|taker| taker.join().unwrap());
            taken.sort();
            assert_eq!(taken, [b"a", b"b"]);
        });
        assert_eq!(db.stats().deadlocks, 0);
    }
}

/// Nor do those who wait for one that was taken, and comes back.
#[test]
fn those_who_wait_for_a_row_to_come_back_do_not_deadlock() {
    const TAKERS: usize = 6;
    let isolations = [Isolation::Serializable, Isolation::RepeatableRead, Isolation::ReadCommitted];
    let cases = isolations.into_iter().flat_map(|isolation| {
        [(false, false), (false, true), (true, false), (true, true)]
            .map(|(last, puts)| (isolation, last, puts))
    });
    for (isolation, last, puts) in cases {
        let db = small();
        let table = db.byte_table("t").unwrap();
        table.put_many(&(0..10_u8).map(|key| ([key], "")).collect::<Vec<_>>()).unwrap();
        let begin = || db.begin_with(TransactionOptions::new().isolation(isolation)).unwrap();
        let pop = |tx: &Transaction| {
            let table = tx.bytes(&table);
            if last { table.pop_last() } else { table.pop_first() }
        };
        let take = || {
            let tx = begin();
            let taken = pop(&tx).unwrap().expect("there are more of them").0[0];
            tx.commit().unwrap();
            taken
        };
        let holder = begin();
        let held = pop(&holder).unwrap().expect("there are ten").0;
        let mut taken: Vec<_> = thread::scope(|scope| {
            let takers = [(); TAKERS].map(|()| scope.spawn(take));
            while db.transactions().len() < 1 + TAKERS {
                thread::yield_now();
            }
            thread::sleep(Duration::from_millis(100)); // so that all wait
            if puts {
                holder.bytes(&table).put(&held, b"again").unwrap();
                holder.commit().unwrap();
            } else {
                holder.rollback().unwrap();
            }
            takers.into_iter().map(|taker| taker.join().unwrap()).collect()
        });
        taken.sort_unstable();
        let first = if last { 10 - TAKERS as u8 } else { 0 };
        assert!(taken.into_iter().eq(first..first + TAKERS as u8), "{isolation:?} {last} {puts}");
        assert_eq!(db.stats().deadlocks, 0, "{isolation:?} {last} {puts}");
    }
}

/// A row that somebody is about to change, or to take, is waited for, and after an error is where it was.
#[test]
fn a_row_in_use_is_waited_for() {
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("t").unwrap();
    table.put_many(&["a", "b"].map(|key| (key, "old"))).unwrap();
    for pops in [false, true] {
        let holder = db.begin().unwrap();
        match pops {
            false => holder.bytes(&table).put(b"a", b"new").unwrap(),
            true => assert_eq!(holder.bytes(&table).pop_first().unwrap(), Some(row(b"a", b"old"))),
        }
        let alone = table.with_lock_timeout(Duration::ZERO).pop_first();
        assert!(matches!(alone, Err(Error::LockTimeout { .. })), "{alone:?}");
        let tx = db.begin_with(short()).unwrap();
        let refused = tx.bytes(&table).pop_first();
        assert!(matches!(refused, Err(Error::LockTimeout { .. })), "{refused:?}");
        holder.rollback().unwrap();
        assert_eq!(tx.bytes(&table).pop_first().unwrap(), Some(row(b"a", b"old")), "it can try again");
        tx.rollback().unwrap();
        assert_eq!(rows(&table).len(), 2);
    }
    let other = Database::in_memory().unwrap();
    let foreign = other.begin().unwrap().bytes(&table).pop_last();
    assert!(matches!(foreign, Err(Error::Argument(_))), "{foreign:?}");
}

/// Also one whose value lies outside of it.
#[test]
fn a_large_row_is_taken_whole() {
    let db = small();
    let table = db.byte_table("t").unwrap();
    let value = Rng(1).bytes(100_000);
    for pop in [ByteTable::pop_first, ByteTable::pop_last] {
        table.put(b"k", &value).unwrap();
        assert_eq!(pop(&table).unwrap(), Some(row(b"k", &value)));
        assert_eq!(pop(&table).unwrap(), None);
    }
    db.check().unwrap();
}

/// A row of other types is not lost to who cannot read it.
#[test]
fn a_row_that_cannot_be_read_stays() {
    let db = Database::in_memory().unwrap();
    let (table, bytes) = (db.table::<u32, u32>("t").unwrap(), db.byte_table("t").unwrap());
    for bad in [row(b"no u32", &[7]), row(&[0, 0, 0, 7], b"no number")] {
        bytes.put(&bad.0, &bad.1).unwrap();
        let tx = db.begin().unwrap();
        let (mine, theirs) = (tx.table(&table).pop_first(), tx.table(&table).pop_last());
        assert!(matches!((&mine, &theirs), (Err(Error::Encoding { .. }), Err(Error::Encoding { .. }))));
        tx.commit().unwrap();
        assert!(matches!(table.pop_first(), Err(Error::Encoding { .. })));
        assert!(matches!(table.pop_last(), Err(Error::Encoding { .. })));
        assert_eq!(bytes.pop_first().unwrap(), Some(bad));
    }
}
