//! Tables as queues: some threads put rows at one end, others take them from the other.

mod common;

use common::{Rng, env, tiny};
use foreshore::{ByteTable, Database, Durability, Error, Prefix, Transaction};
use foreshore_io::MemVfs;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::ops::RangeBounds;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::thread;
use std::time::{Duration, Instant};

const PRODUCERS: u64 = 2;
const CONSUMERS: usize = 2;

fn ghosts(db: &Database, table: &ByteTable) -> u64 {
    let report = db.check().unwrap();
    assert!(report.tables.iter().all(|table| table.missing_separators == 0), "{report:?}");
    report.tables.iter().find(|report| report.name == table.name()).unwrap().ghosts
}

/// Takes the first row, if there is one.
fn pop(table: &ByteTable, tx: &Transaction) -> foreshore::Result<Option<u64>> {
    let table = tx.bytes(table);
    let Some(row) = table.range(..).next() else { return Ok(None) };
    let (key, _) = row?;
    assert!(table.remove(&key)?, "it is locked");
    Ok(Some(u64::from_be_bytes(key.try_into().unwrap())))
}

/// The same without transactions: somebody else may be faster.
fn pop_alone(table: &ByteTable) -> foreshore::Result<Option<u64>> {
    while let Some(row) = table.range(..).next() {
        let (key, _) = row?;
        if table.remove(&key)? {
            return Ok(Some(u64::from_be_bytes(key.try_into().unwrap())));
        }
    }
    Ok(None)
}

/// Sends `rows` rows through a queue that is seldom longer than a few leaves. Each of them arrives, once.
fn pass_through(db: &Database, rows: u64, pop: impl Fn(&ByteTable) -> Option<u64> + Sync) {
    let table = &db.byte_table("queue").unwrap();
    let (next, taken, pop) = (&AtomicU64::new(0), &AtomicU64::new(0), &pop);
    let mut arrived: Vec<u64> = thread::scope(|scope| {
        for _ in 0..PRODUCERS {
            scope.spawn(move || {
                loop {
                    let row = next.fetch_add(1, SeqCst);
                    if row >= rows {
                        break;
                    }
                    while row > taken.load(SeqCst) + 200 {
                        thread::yield_now();
                    }
                    table.put(&row.to_be_bytes(), &[7; 40]).unwrap();
                }
            });
        }
        let consumer = || {
            let mut mine = Vec::new();
            while taken.load(SeqCst) < rows {
                let row = pop(table);
                taken.fetch_add(row.iter().len() as u64, SeqCst);
                mine.extend(row);
            }
            mine
        };
        let consumers: Vec<_> = (0..CONSUMERS).map(|_| scope.spawn(consumer)).collect();
        consumers.into_iter().flat_map(|consumer| consumer.join().unwrap()).collect()
    });
    arrived.sort_unstable();
    assert!(arrived.into_iter().eq(0..rows), "each row arrives once");
}

/// Those that somebody had locked go soon.
fn no_ghost_stays(db: &Database) {
    let (begun, table) = (Instant::now(), db.byte_table("queue").unwrap());
    while ghosts(db, &table) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "{} ghosts", ghosts(db, &table));
        thread::sleep(Duration::from_millis(5));
    }
}

fn small_leaves() -> Database {
    tiny().durability(Durability::Relaxed).open_on(Arc::new(MemVfs::new())).unwrap()
}

#[test]
fn rows_pass_through_a_queue() {
    let (db, rows) = (small_leaves(), env("FORESHORE_QUEUE", 40_000));
    pass_through(&db, rows, |table| pop_alone(table).unwrap());
    no_ghost_stays(&db);
}

/// The engine's own way to take the first row.
#[test]
fn rows_are_popped_from_a_queue() {
    let (db, rows) = (small_leaves(), env("FORESHORE_QUEUE", 40_000) / 4);
    let number =
        |row: Option<(Vec<u8>, Vec<u8>)>| row.map(|row| u64::from_be_bytes(row.0.try_into().unwrap()));
    pass_through(&db, rows, |table| number(table.pop_first().unwrap()));
    pass_through(&db, rows, |table| number(db.transact(|tx| tx.bytes(table).pop_first()).unwrap()));
    no_ghost_stays(&db);
}

#[test]
fn rows_pass_through_a_queue_in_transactions() {
    let (db, rows) = (small_leaves(), env("FORESHORE_QUEUE", 40_000) / 4);
    pass_through(&db, rows, |table| db.transact(|tx| pop(table, tx)).unwrap());
    no_ghost_stays(&db);
}

/// A snapshot from before all of it needs nothing of rows that have come and gone since.
#[test]
fn an_old_snapshot_does_not_clog_a_queue() {
    let (db, rows) = (small_leaves(), env("FORESHORE_QUEUE", 40_000) / 4);
    let table = db.byte_table("queue").unwrap();
    let snapshot = db.snapshot().unwrap();
    pass_through(&db, rows, |table| pop_alone(table).unwrap());
    pass_through(&db, rows, |table| db.transact(|tx| pop(table, tx)).unwrap());
    no_ghost_stays(&db);
    assert_eq!(db.stats().image_bytes, 0);
    assert_eq!(snapshot.bytes(&table).range(..).count(), 0);
}

/// Rows that are taken beside a snapshot stay as ghosts, which are leapt over: but no row among them. Beside a map.
#[test]
fn no_row_is_leapt_over() {
    let mut rng = Rng(env("FORESHORE_SEED", 1));
    let db = small_leaves();
    let table = db.byte_table("t").unwrap();
    let key = |rng: &mut Rng| vec![b'k', rng.below(10) as u8, rng.below(70) as u8];
    let (mut expected, mut kept) = (BTreeMap::new(), BTreeMap::new());
    let mut snapshot = db.snapshot().unwrap();
    for round in 0..env("FORESHORE_POPS", 3000) {
        if round % 200 == 0 {
            assert!(snapshot.bytes(&table).range(..).map(Result::unwrap).eq(kept));
            (0..100).for_each(|_| drop(expected.insert(key(&mut rng), vec![7; 40])));
            table.put_many(&expected.iter().collect::<Vec<_>>()).unwrap();
            snapshot = db.snapshot().unwrap();
            kept = expected.clone();
        }
        let tx = db.begin().unwrap();
        let (rows, mut then) = (tx.bytes(&table), expected.clone());
        let mut undone = None;
        for _ in 0..1 + rng.below(16) {
            let mut ends = [key(&mut rng), key(&mut rng)];
            ends.sort();
            let [from, to] = ends;
            let range =
                if rng.below(2) == 0 { (Unbounded, Unbounded) } else { (Included(from), Excluded(to)) };
            let mut within = then.range(range.clone()).map(|(key, value)| (key.clone(), value.clone()));
            match rng.below(8) {
                0 => assert_eq!(rows.range(range.clone()).next().transpose().unwrap(), within.next()),
                1 => {
                    assert_eq!(rows.range(range.clone()).next_back().transpose().unwrap(), within.next_back())
                }
                2 => assert!(rows.range(range.clone()).map(Result::unwrap).eq(within)),
                3 | 4 => {
                    let first = within.next();
                    first.iter().for_each(|(key, _)| drop(then.remove(key)));
                    assert_eq!(rows.pop_first_in(range.clone()).unwrap(), first);
                }
                5 => {
                    let last = within.next_back();
                    last.iter().for_each(|(key, _)| drop(then.remove(key)));
                    assert_eq!(rows.pop_last_in(range.clone()).unwrap(), last);
                }
                6 => match undone.take() {
                    None => undone = Some((tx.savepoint().unwrap(), then.clone())),
                    Some((savepoint, before)) => {
                        tx.rollback_to(savepoint).unwrap();
                        then = before;
                    }
                },
                _ if rng.below(3) == 0 => {
                    let row = (key(&mut rng), vec![7; 10]);
                    rows.put(&row.0, &row.1).unwrap();
                    then.insert(row.0, row.1);
                }
                _ => {}
            }
        }
        match rng.below(4) {
            0 => tx.rollback().unwrap(),
            _ => {
                tx.commit().unwrap();
                expected = then;
            }
        }
        let mut rows = expected.iter().map(|(key, value)| (key.clone(), value.clone()));
        assert_eq!(table.first().unwrap(), rows.next());
        assert_eq!(table.range(..).next_back().transpose().unwrap(), expected.clone().pop_last());
        if rng.below(20) == 0 {
            let from = key(&mut rng);
            let rest = expected.range(from.clone()..).map(|(key, value)| (key.clone(), value.clone()));
            assert!(table.range(from..).map(Result::unwrap).eq(rest));
            let row = (key(&mut rng), vec![7; 20]);
            table.put(&row.0, &row.1).unwrap();
            expected.insert(row.0, row.1);
        }
    }
    assert!(table.range(..).map(Result::unwrap).eq(expected));
    drop(snapshot);
    db.check().unwrap();
}

/// A bulk load asks nobody.
#[test]
fn what_is_loaded_behind_ghosts_is_found() {
    let db = small_leaves();
    let table = db.byte_table("t").unwrap();
    let rows = |keys: std::ops::Range<u16>| keys.map(|key| (key.to_be_bytes(), [7; 40])).collect::<Vec<_>>();
    table.put_many(&rows(0..300)).unwrap();
    let _snapshot = db.snapshot().unwrap();
    for from in [300, 600] {
        while table.pop_first().unwrap().is_some() {}
        assert_eq!(db.begin().unwrap().bytes(&table).first().unwrap(), None);
        table.bulk_load(rows(from..from + 300)).unwrap();
        assert_eq!(table.pop_first().unwrap().unwrap().0, from.to_be_bytes());
        assert_eq!(table.pop_last().unwrap().unwrap().0, (from + 299).to_be_bytes());
    }
    let tx = db.begin().unwrap();
    while tx.bytes(&table).pop_first().unwrap().is_some() {}
    table.bulk_load(rows(900..1200)).unwrap();
    assert_eq!(tx.bytes(&table).first().unwrap().unwrap().0, 900_u16.to_be_bytes());
    assert_eq!(tx.bytes(&table).range(..).count(), 300, "who has taken what was there before finds it, too");
}

/// Also when it is known that there was nothing in it.
#[test]
fn a_dropped_table_is_not_an_empty_one() {
    let db = small_leaves();
    let table = db.byte_table("t").unwrap();
    table.put_many(&(0..100_u8).map(|key| ([key], "")).collect::<Vec<_>>()).unwrap();
    let _snapshot = db.snapshot().unwrap();
    table.remove_range(..).unwrap();
    assert_eq!(db.begin().unwrap().bytes(&table).first().unwrap(), None);
    assert_eq!([table.first(), table.last()].map(Result::unwrap), [None, None]);
    assert!(db.drop_table("t").unwrap());
    for row in [table.first(), table.last()] {
        assert!(matches!(row, Err(Error::TableDropped { .. })), "{row:?}");
    }
    assert!(matches!(table.range(..).next(), Some(Err(Error::TableDropped { .. }))));
}

/// Who has locked a ghost removes it when it ends: whose ghost it was has just found it locked, and comes again after a pause.
#[test]
fn who_has_met_a_ghost_removes_it() {
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("t").unwrap();
    // As long as anybody scans, what could not be removed rests.
    let elsewhere = db.begin().unwrap();
    table.put_many(&["c", "d"].map(|key| (key, ""))).unwrap();
    assert_eq!(elsewhere.bytes(&table).range(&b"c"[..]..).count(), 2);
    for removes in [false, true] {
        table.put_many(&["a", "b"].map(|key| (key, ""))).unwrap();
        let first = db.begin().unwrap();
        assert_eq!(first.bytes(&table).range((Excluded(&b"a"[..]), Excluded(&b"b"[..]))).count(), 0);
        table.remove(b"b").unwrap();
        assert_eq!(ghosts(&db, &table), 1, "the gap below it is locked");
        let second = db.begin().unwrap();
        let up_to_it = ..=&b"b"[..];
        let met = match removes {
            true => second.bytes(&table).remove_range(up_to_it).unwrap() as usize,
            false => second.bytes(&table).range(up_to_it).count(),
        };
        assert_eq!(met, 1);
        first.commit().unwrap();
        assert_eq!(ghosts(&db, &table), if removes { 2 } else { 1 });
        second.commit().unwrap();
        assert_eq!(ghosts(&db, &table), 0, "removes: {removes}");
    }
    elsewhere.commit().unwrap();
}

/// What a pop takes, or that there is nothing, is what a map has there.
#[test]
fn pops_keep_to_their_bounds() {
    const KEYS: usize = 60;
    let db = tiny().open_on(Arc::new(MemVfs::new())).unwrap();
    let table = db.table::<u64, u64>("t").unwrap();
    let (mut rng, mut model) = (common::Rng(7), BTreeMap::new());
    for round in 0..2000 {
        let key = rng.below(KEYS) as u64;
        table.put(&key, &round).unwrap();
        model.insert(key, round);
        let bounds = (Included(rng.below(KEYS) as u64), Excluded(rng.below(KEYS) as u64));
        let within = || model.iter().filter(|row| bounds.contains(row.0));
        let in_a_transaction = rng.below(2) == 0;
        let (popped, expected) = if rng.below(2) == 0 {
            let popped = match in_a_transaction {
                true => db.transact(|tx| tx.table(&table).pop_first_in(bounds)),
                false => table.pop_first_in(bounds),
            };
            (popped, within().next().map(|row| (*row.0, *row.1)))
        } else {
            let popped = match in_a_transaction {
                true => db.transact(|tx| tx.table(&table).pop_last_in(bounds)),
                false => table.pop_last_in(bounds),
            };
            (popped, within().next_back().map(|row| (*row.0, *row.1)))
        };
        assert_eq!(popped.unwrap(), expected, "{bounds:?}");
        expected.map(|row| model.remove(&row.0));
    }
    let left = table.range(..).collect::<foreshore::Result<Vec<_>>>().unwrap();
    assert!(left.into_iter().eq(model));
}

/// Many queues in one table are not in each other's way: who has taken a row, or found none, keeps others from adding one beside it to that
/// queue, and not from adding some to others.
#[test]
fn queues_in_one_table_are_apart() {
    let db = tiny().open_on(Arc::new(MemVfs::new())).unwrap();
    let table = db.byte_table("t").unwrap();
    table.put_many(&[("mail/2", ""), ("mail/3", ""), ("print/2", ""), ("scan/2", "")]).unwrap();
    let impatient = table.clone().with_lock_timeout(Duration::from_millis(20));
    let is_free = |key: &str| match impatient.insert(key.as_bytes(), b"") {
        Ok(is_new) => is_new && impatient.remove(key.as_bytes()).unwrap(),
        Err(Error::LockTimeout { .. }) => false,
        Err(error) => panic!("{error}"),
    };
    let free = |keys: &[&str]| keys.iter().map(|key| is_free(key)).collect::<Vec<_>>();
    let keys = ["mail/1", "mail/9", "print/1", "print/9"];

    let tx = db.begin().unwrap();
    assert_eq!(tx.bytes(&table).pop_first_in(Prefix("mail/")).unwrap().unwrap().0, b"mail/2");
    assert_eq!(free(&keys), [false, true, true, true]);
    tx.rollback().unwrap();
    let tx = db.begin().unwrap();
    assert_eq!(tx.bytes(&table).pop_last_in(Prefix("print/")).unwrap().unwrap().0, b"print/2");
    assert_eq!(free(&keys), [true, true, false, false]);
    tx.rollback().unwrap();
    let tx = db.begin().unwrap();
    assert_eq!(tx.bytes(&table).pop_first_in(Prefix("none/")).unwrap(), None);
    assert_eq!(free(&["mail/9", "none/1", "print/9"]), [true, false, true]);
    tx.rollback().unwrap();
}
