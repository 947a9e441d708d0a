//! A storm of deadlocks through the public interface: everybody finishes, and nothing is left.
//!
//! `FORESHORE_SEED` chooses the seed.

mod common;

use common::{Rng, env};
use foreshore::{ByteTable, Database, Error, Result, Transaction, TransactionOptions};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

const THREADS: usize = 16;
const PER_THREAD: usize = 150;
const KEYS: usize = 8;

/// No transaction may take as long, however often it is run again.
const FINISHES_WITHIN: Duration = Duration::from_secs(30);

fn key(rng: &mut Rng) -> [u8; 1] {
    [rng.below(KEYS) as u8]
}

/// Locks in a random order: upgrades, whole ranges, insertions, removals.
fn work(tx: &Transaction, table: &ByteTable, rng: &mut Rng) -> Result<()> {
    let rows = tx.bytes(table);
    for _ in 0..2 + rng.below(4) {
        let key = key(rng);
        match rng.below(6) {
            0 | 1 => {
                let value = rows.get(&key)?.map_or(0, |value| value[0]);
                thread::yield_now();
                rows.put(&key, &[value.wrapping_add(1)])?;
            }
            2 => rows.range(..).take(1 + rng.below(KEYS)).try_for_each(|row| row.map(drop))?,
            3 => rows.range(..).rev().take(1 + rng.below(KEYS)).try_for_each(|row| row.map(drop))?,
            4 => drop(rows.remove(&key)?),
            _ => drop(rows.insert(&key, &[0])?),
        }
        thread::yield_now();
    }
    Ok(())
}

/// How a thread fared.
#[derive(Clone, Copy, Debug, Default)]
struct Fare {
    /// Runs of the unluckiest transaction, and of all.
    worst_runs: usize,
    runs: usize,
    longest: Duration,
}

fn storm(db: &Database, table: &ByteTable, mut rng: Rng) -> Result<Fare> {
    let mut fare = Fare::default();
    for _ in 0..PER_THREAD {
        let (begun, mut runs) = (Instant::now(), 0);
        db.transact(|tx| {
            runs += 1;
            work(tx, table, &mut rng)
        })?;
        fare.worst_runs = fare.worst_runs.max(runs);
        fare.runs += runs;
        fare.longest = fare.longest.max(begun.elapsed());
    }
    Ok(fare)
}

/// Every transaction finishes, within bounded time, and no thread starves.
#[test]
fn everybody_finishes() {
    let seed = env("FORESHORE_SEED", 1);
    println!("FORESHORE_SEED={seed}");
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("rows").unwrap();
    let begun = Instant::now();
    let fares: Vec<Fare> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (db, table) = (&db, &table);
                scope.spawn(move || storm(db, table, Rng(seed ^ (thread as u64) << 32)).unwrap())
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let took = begun.elapsed();
    let stats = db.stats();
    let runs: usize = fares.iter().map(|fare| fare.runs).sum();
    let worst = fares.iter().map(|fare| fare.worst_runs).max().unwrap();
    let longest = fares.iter().map(|fare| fare.longest).max().unwrap();
    println!(
        "{} transactions in {took:?}: {runs} runs, {} deadlocks, {} timeouts; the unluckiest ran {worst} times, the \
         longest took {longest:?}",
        THREADS * PER_THREAD,
        stats.deadlocks,
        stats.lock_timeouts
    );
    assert!(stats.deadlocks > 0, "a storm without deadlocks");
    assert_eq!(stats.lock_timeouts, 0, "a deadlock that nobody found");
    assert!(longest < FINISHES_WITHIN, "somebody starves: {fares:?}");
    assert_nothing_is_left(&db);
}

/// A circle through every thread is broken at once, at the cost of few.
#[test]
fn a_circle_of_all_is_broken_soon() {
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("rows").unwrap();
    let mut times = Vec::new();
    for round in 0..21 {
        let barrier = Barrier::new(THREADS);
        let (victims, longest) = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (db, table, barrier) = (&db, &table, &barrier);
                    scope.spawn(move || {
                        let tx = db.begin().unwrap();
                        tx.bytes(table).put(&[thread as u8], b"mine").unwrap();
                        barrier.wait();
                        let begun = Instant::now();
                        let next = [((thread + 1) % THREADS) as u8];
                        let done = tx.bytes(table).put(&next, b"next").and_then(|()| tx.commit());
                        (done.is_err(), begun.elapsed())
                    })
                })
                .collect();
            let ends: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            (ends.iter().filter(|end| end.0).count(), ends.iter().map(|end| end.1).max().unwrap())
        });
        assert_eq!(victims, 1, "round {round}: one victim is enough");
        times.push(longest);
    }
    // Half of them, so that a machine that is busy with something else now and then passes for what it is.
    times.sort();
    assert!(times[times.len() / 2] < Duration::from_secs(1), "{times:?}");
    assert!(times[times.len() - 1] < FINISHES_WITHIN, "{times:?}");
    assert_nothing_is_left(&db);
}

/// A single write waits behind a transaction, and a third behind both: were it part of their deadlock, it would fail
/// although it has done nothing.
#[test]
fn single_writes_are_no_victims() {
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("rows").unwrap();
    let waits = Duration::from_millis(30);
    for round in 0..5u8 {
        table.put(b"a", &[round]).unwrap();
        table.put(b"b", &[round]).unwrap();
        let (one, two) = (db.begin().unwrap(), db.begin().unwrap());
        one.bytes(&table).get(b"a").unwrap();
        two.bytes(&table).get(b"b").unwrap();
        thread::scope(|scope| {
            // Two waits for one.
            let two = scope.spawn(|| two.bytes(&table).put(b"a", &[9]).and_then(|()| two.commit()));
            thread::sleep(waits);
            // The write waits for two, which has read b.
            let single = scope.spawn(|| table.put(b"b", &[7]));
            thread::sleep(waits);
            // One waits behind the write, and so for two: a circle that is none without the write.
            one.bytes(&table).get(b"b").unwrap();
            one.commit().unwrap();
            two.join().unwrap().unwrap();
            single.join().unwrap().unwrap();
        });
        assert_eq!(table.get(b"b").unwrap(), Some(vec![7]));
    }
    assert_nothing_is_left(&db);
}

/// Who waits in front of one of a deadlock's members, and for another of them, looks like a member too. If it gave way, the
/// others would wait for each other all the same, and a second one would have to.
#[test]
fn who_would_give_way_for_nothing_does_not() {
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("rows").unwrap();
    let waits = Duration::from_millis(30);
    for _ in 0..5 {
        let begin = |key: &[u8]| {
            let tx = db.begin().unwrap();
            tx.bytes(&table).put(key, b"").unwrap();
            tx
        };
        let (one, two, youngest) = (begin(b"a"), begin(b"b"), begin(b"c"));
        let put = |tx: Transaction, key: &[u8]| tx.bytes(&table).put(key, b"").and_then(|()| tx.commit());
        let done = thread::scope(|scope| {
            let before_two = scope.spawn(|| put(youngest, b"a"));
            thread::sleep(waits);
            let for_one = scope.spawn(|| put(two, b"a"));
            thread::sleep(waits);
            let for_two = scope.spawn(|| put(one, b"b"));
            [for_one, for_two, before_two].map(|ended| ended.join().unwrap().is_ok())
        });
        assert_eq!(done, [false, true, true], "the second gives way, being younger than the first");
    }
    assert_nothing_is_left(&db);
}

/// Who waits for a table that somebody is about to drop waits for those who use it. If one of them waits for it in turn, it
/// gives way, and the others go on.
#[test]
fn a_circle_through_a_drop_is_broken() {
    let db = Database::in_memory().unwrap();
    let [rows, used] = ["rows", "used"].map(|name| db.byte_table(name).unwrap());
    used.put(b"free", b"").unwrap();
    let begin_with = |table: &ByteTable, key: &[u8]| {
        let tx = db.begin().unwrap();
        tx.bytes(table).put(key, b"").unwrap();
        tx
    };
    let (waiter, between, user) = (begin_with(&rows, b"a"), begin_with(&rows, b"b"), begin_with(&used, b"c"));
    let put = |tx: Transaction, key: &[u8]| tx.bytes(&rows).put(key, b"").and_then(|()| tx.commit());
    let impatient = || TransactionOptions::new().lock_timeout(Duration::from_millis(1));
    thread::scope(|scope| {
        let dropping = scope.spawn(|| db.drop_table("used"));
        while db.begin_with(impatient()).unwrap().bytes(&used).get(b"free").is_ok() {
            thread::yield_now();
        }
        let others = [(between, b"a"), (user, b"b")].map(|(tx, key)| scope.spawn(move || put(tx, key)));
        let given_way = waiter.bytes(&used).get(b"c").unwrap_err();
        assert!(matches!(&given_way, Error::Deadlock { table, .. } if table == "used"), "{given_way}");
        drop(waiter);
        others.into_iter().for_each(|other| other.join().unwrap().unwrap());
        assert!(dropping.join().unwrap().unwrap());
    });
    assert_nothing_is_left(&db);
}

/// Many wait for one row: each looks for deadlocks now and then, in a queue of all.
#[test]
fn a_long_queue_moves_on() {
    const QUEUE: usize = 256;
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("rows").unwrap();
    let begun = Instant::now();
    thread::scope(|scope| {
        for _ in 0..QUEUE {
            scope.spawn(|| {
                for _ in 0..20 {
                    db.transact(|tx| {
                        let value = tx.bytes(&table).get_for_update(b"k")?;
                        thread::yield_now();
                        tx.bytes(&table).put(b"k", &value.unwrap_or_default())
                    })
                    .unwrap();
                }
            });
        }
    });
    let took = begun.elapsed();
    assert!(took < FINISHES_WITHIN / 3, "{QUEUE} threads took {took:?} for 20 transactions each");
    assert_nothing_is_left(&db);
}

/// Two transactions meet in a deadlock, each doing `first` and then `second` to a row that the other has had `first`. The younger, which
/// `run` runs, gives way, and is run again when the older has ended: at once, it would only give way to it again.
fn assert_gives_way_once(
    run: impl Fn(&Database, &dyn Fn(&Transaction) -> Result<()>) -> Result<()> + Sync,
    first: impl Fn(&Transaction, &ByteTable, &[u8]) -> Result<()> + Sync,
    second: impl Fn(&Transaction, &ByteTable, &[u8]) -> Result<()> + Sync,
) {
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("t").unwrap();
    table.put_many(&[(b"a", b"1"), (b"b", b"1"), (b"c", b"1")]).unwrap();
    let (both_have, has_ended, runs) = (Barrier::new(2), AtomicBool::new(false), AtomicU64::new(0));
    let gave_way = AtomicU64::new(0);
    let older = db.begin().unwrap();
    older.bytes(&table).put(b"z", b"is older").unwrap();
    first(&older, &table, b"b").unwrap();
    thread::scope(|scope| {
        let younger = scope.spawn(|| {
            run(&db, &|tx| {
                let is_again = runs.fetch_add(1, SeqCst) > 0;
                assert_eq!(is_again, has_ended.load(SeqCst));
                first(tx, &table, b"a")?;
                tx.bytes(&table).put(b"c", b"is not left")?;
                if !is_again {
                    gave_way.store(tx.number(), SeqCst);
                    both_have.wait();
                }
                second(tx, &table, b"b")
            })
        });
        both_have.wait();
        second(&older, &table, b"a").unwrap();
        let known = [older.number(), gave_way.load(SeqCst)];
        while db.transactions().iter().all(|number| known.contains(number)) {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(500)); // it waits by now
        older.bytes(&table).put(b"c", b"nobody has it").unwrap();
        has_ended.store(true, SeqCst);
        older.commit().unwrap();
        younger.join().unwrap().unwrap();
    });
    let stats = db.stats();
    assert_eq!((runs.into_inner(), stats.deadlocks), (2, 1));
    let again = stats.waits.iter().find(|wait| wait.what == "locks, after deadlocks").unwrap();
    assert!(again.count == 1 && again.ns >= 1_000_000, "{again:?}");
    assert_nothing_is_left(&db);
}

/// Runs it again as one without [`Database::transact`] does.
fn run_by_hand(db: &Database, work: &dyn Fn(&Transaction) -> Result<()>) -> Result<()> {
    let mut options = TransactionOptions::new();
    loop {
        let tx = db.begin_with(options)?;
        match work(&tx) {
            Err(error) if error.is_retryable() => options = options.as_old_as(&tx),
            done => return done.and_then(|()| tx.commit()),
        }
    }
}

fn put(tx: &Transaction, table: &ByteTable, key: &[u8]) -> Result<()> {
    tx.bytes(table).put(key, b"2")
}

#[test]
fn who_wrote_gives_way_once() {
    assert_gives_way_once(|db, work| db.transact(work), put, put);
    assert_gives_way_once(run_by_hand, put, put);
}

#[test]
fn who_read_gives_way_once() {
    let read_both = |tx: &Transaction, table: &ByteTable, _: &[u8]| {
        let table = tx.bytes(table);
        table.get(b"a").and(table.get(b"b")).map(drop)
    };
    assert_gives_way_once(|db, work| db.transact(work), read_both, put);
}

#[test]
fn who_scanned_gives_way_once() {
    let scan = |tx: &Transaction, table: &ByteTable, _: &[u8]| {
        tx.bytes(table).range(&b"d"[..]..&b"z"[..]).try_for_each(|row| row.map(drop))
    };
    let insert = |tx: &Transaction, table: &ByteTable, key: &[u8]| {
        tx.bytes(table).insert(&[b"e", key].concat(), b"").map(drop)
    };
    assert_gives_way_once(|db, work| db.transact(work), scan, insert);
}

/// The same for a call that is a transaction of its own.
#[test]
fn a_removal_of_rows_gives_way_once() {
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("t").unwrap();
    table.put_many(&[(b"a", b"1"), (b"b", b"1"), (b"c", b"1")]).unwrap();
    let older = db.begin().unwrap();
    put(&older, &table, b"c").unwrap();
    thread::scope(|scope| {
        let removed = scope.spawn(|| table.remove_range(..));
        let hasty = table.with_lock_timeout(Duration::ZERO);
        while hasty.put(b"b", b"2").is_ok() {
            thread::yield_now();
        }
        put(&older, &table, b"b").unwrap();
        thread::sleep(Duration::from_millis(20));
        put(&older, &table, b"a").unwrap();
        older.commit().unwrap();
        assert_eq!(removed.join().unwrap().unwrap(), 3);
    });
    assert_eq!(db.stats().deadlocks, 1);
    assert_nothing_is_left(&db);
}

fn assert_nothing_is_left(db: &Database) {
    assert!(db.transactions().is_empty());
    let begun = Instant::now();
    while db.stats().image_bytes > 0 && begun.elapsed() < Duration::from_secs(5) {
        thread::sleep(Duration::from_millis(10));
    }
    let stats = db.stats();
    assert_eq!((stats.image_bytes, stats.transactions, stats.snapshots), (0, 0, 0));
    db.check().unwrap();
    db.clone().close().unwrap();
}

/// Every wait for a lock is counted with its time, however it ended.
#[test]
fn waits_in_vain_are_counted() {
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("rows").unwrap();
    let transfer = |from: &[u8], to: &[u8], both_began: &Barrier| {
        let tx = db.begin().unwrap();
        tx.bytes(&table).put(from, b"").unwrap();
        both_began.wait();
        tx.bytes(&table).put(to, b"").is_ok()
    };
    let both_began = Barrier::new(2);
    let done = thread::scope(|scope| {
        let other = scope.spawn(|| transfer(b"b", b"a", &both_began));
        [transfer(b"a", b"b", &both_began), other.join().unwrap()]
    });
    assert!(done.contains(&false), "one gave way");
    let stats = db.stats();
    let waits = stats.waits.iter().find(|wait| wait.what == "locks of rows").expect("both waited");
    assert_eq!((stats.lock_waits, waits.count), (2, 2), "{waits:?}");
    assert!(waits.ns > 1_000, "{waits:?}");
}
