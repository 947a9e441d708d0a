//! Transactions as users see them: atomic, isolated, undone, retried.

mod common;

use common::{row, rows, short, tiny};
use foreshore::{Database, Durability, Error, Isolation, Result, Transaction, TransactionOptions};
use foreshore_io::sim::{Fault, Repeat};
use foreshore_io::{MemVfs, SimDisk};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

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

/// Who is told that the database was closed may do it all again after the next open: nothing of it is there.
#[test]
fn nothing_commits_once_the_database_is_closed() {
    let commits: [fn(Transaction) -> Result<()>; 2] =
        [Transaction::commit, |tx| tx.commit_async().and_then(|ticket| ticket.wait())];
    let durabilities = [Durability::Sync, Durability::Buffered, Durability::Relaxed];
    for (durability, commit) in durabilities.iter().flat_map(|kind| commits.map(|commit| (*kind, commit))) {
        let vfs = Arc::new(MemVfs::new());
        let db = tiny().durability(durability).open_on(vfs.clone()).unwrap();
        let t = db.byte_table("t").unwrap();
        let tx = db.begin().unwrap();
        tx.bytes(&t).put(b"k", b"before the closing").unwrap();
        db.close().unwrap();
        assert!(matches!(tx.bytes(&t).put(b"k", b"after it"), Err(Error::Poisoned { .. })));
        assert!(matches!(commit(tx), Err(Error::Poisoned { .. })), "{durability:?}");
        drop(t);
        let db = tiny().open_on(vfs).unwrap();
        assert_eq!(rows(&db.byte_table("t").unwrap()), [], "{durability:?}");
    }
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

/// A place that was undone with what was done before it is the place that the transaction has gone back to.
#[test]
fn a_later_savepoint_stands_for_the_one_that_was_gone_back_to() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    let tx = db.begin().unwrap();
    let mine = tx.bytes(&t);
    mine.put(b"a", b"kept").unwrap();
    let outer = tx.savepoint().unwrap();
    mine.put(b"a", b"undone").unwrap();
    let inner = tx.savepoint().unwrap();
    tx.rollback_to(outer).unwrap();
    for _ in 0..2 {
        mine.put(b"a", b"since").unwrap();
        mine.put(b"b", b"since").unwrap();
        tx.rollback_to(inner).unwrap();
        let own: Vec<_> = mine.range(..).collect::<Result<_>>().unwrap();
        assert_eq!(own, [row(b"a", b"kept")]);
    }
    tx.commit().unwrap();
    assert_eq!(rows(&t), [row(b"a", b"kept")]);
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

/// What was waited for in vain took as much time as what was got.
#[test]
fn waits_that_were_given_up_are_counted_by_table() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    let holder = db.begin().unwrap();
    holder.bytes(&t).put(b"k", b"v").unwrap();
    let patience = Duration::from_millis(5);
    assert!(t.with_lock_timeout(patience).put(b"k", b"alone").is_err());
    let other = db.begin_with(TransactionOptions::new().lock_timeout(patience)).unwrap();
    assert!(other.bytes(&t).put(b"k", b"in a transaction").is_err());

    let stats = db.stats();
    let of_t = stats.waits.iter().find(|wait| wait.what == "locks of t").expect("there were waits");
    assert_eq!((stats.lock_waits, stats.lock_timeouts, of_t.count), (2, 2, 2));
    assert!(of_t.ns >= 2 * patience.as_nanos() as u64, "{of_t:?}");
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

/// So is one that waits for a table which somebody is about to drop.
#[test]
fn transactions_that_wait_for_a_table_can_be_aborted() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    t.put(b"free", b"").unwrap();
    let user = db.begin().unwrap();
    user.bytes(&t).put(b"k", b"1").unwrap();
    std::thread::scope(|s| {
        let dropping = s.spawn(|| db.drop_table("t"));
        while db.begin_with(short()).unwrap().bytes(&t).get(b"free").is_ok() {
            std::thread::yield_now();
        }
        let waiting = db.begin().unwrap();
        let number = waiting.number();
        let waiter = s.spawn(|| {
            let waiting = waiting;
            waiting.bytes(&t).get(b"free")
        });
        std::thread::sleep(Duration::from_millis(50));
        assert!(db.abort(number).unwrap());
        let aborted = waiter.join().unwrap().unwrap_err();
        assert!(matches!(aborted, Error::Aborted { txn } if txn == number), "{aborted}");
        user.commit().unwrap();
        assert!(dropping.join().unwrap().unwrap());
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
    let forgotten = db.begin_with(idle_for(1500)).unwrap();
    forgotten.bytes(&t).put(b"k", b"1").unwrap();
    let busy = db.begin_with(idle_for(700)).unwrap();
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

/// It does so, too, where a row was waited for in vain behind removed ones.
#[test]
fn ranges_show_what_is_put_ahead_of_them_after_a_timeout() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    (1..10_u8).for_each(|n| t.put(&[n], b"row").unwrap());
    let _keeps_ghosts = db.snapshot().unwrap();
    [2_u8, 3, 4, 6, 7, 8].iter().for_each(|n| assert!(t.remove(&[*n]).unwrap()));
    for isolation in [Isolation::RepeatableRead, Isolation::Serializable] {
        for (ascends, first, own, rest) in [(true, 1, 3, [3, 5, 9]), (false, 9, 7, [7, 5, 1])] {
            let (tx, other) = (db.begin_with(short().isolation(isolation)).unwrap(), db.begin().unwrap());
            other.bytes(&t).put(&[5], b"locked").unwrap();
            let in_tx = tx.bytes(&t);
            let mut range = in_tx.range(..);
            let mut next = || if ascends { range.next() } else { range.next_back() };
            assert_eq!(next().unwrap().unwrap().0, [first]);
            let refused = next().unwrap();
            assert!(matches!(refused, Err(Error::LockTimeout { .. })), "{refused:?}");
            in_tx.put(&[own], b"own").unwrap();
            other.rollback().unwrap();
            let seen: Vec<_> = std::iter::from_fn(next).map(|row| row.unwrap().0[0]).collect();
            assert_eq!(seen, rest, "{isolation:?}, ascends: {ascends}");
            tx.rollback().unwrap();
        }
    }
}

/// Who wants to use a table that is about to be dropped waits for that, as for a lock.
#[test]
fn tables_in_use_are_not_dropped() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    let tx = db.begin().unwrap();
    tx.bytes(&t).put(b"a", b"1").unwrap();
    std::thread::scope(|s| {
        let dropping = s.spawn(|| db.drop_table("t"));
        let late = || db.begin_with(short()).unwrap().bytes(&t).get(b"b");
        while late().is_ok() {
            std::thread::yield_now();
        }
        let refused = late().unwrap_err();
        assert!(matches!(refused, Error::LockTimeout { key: None, .. }), "{refused}");
        let patient = s.spawn(|| db.begin().unwrap().bytes(&t).get(b"b"));
        tx.bytes(&t).put(b"large", &[7; 100_000]).unwrap(); // its users use it until they end
        assert_eq!(db.stats().tables, 1, "who asks for something else does not wait");
        tx.commit().unwrap();
        assert!(dropping.join().unwrap().unwrap());
        let gone = patient.join().unwrap().unwrap_err();
        assert!(matches!(gone, Error::TableDropped { .. }), "{gone}");
    });
    assert!(db.tables().unwrap().is_empty());
}

/// A table that could not be dropped was never gone for anybody.
#[test]
fn a_table_that_cannot_be_dropped_is_there_for_everybody() {
    let disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let t = db.byte_table("t").unwrap();
    t.put(b"a", b"1").unwrap();
    disk.fail_at(disk.events(), Fault::Eio, Repeat::Forever);
    db.drop_table("t").unwrap_err();
    assert_eq!(db.begin().unwrap().bytes(&t).get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
}

/// Nobody waits for the users of a table that cannot be dropped anyway.
#[test]
fn a_database_that_failed_drops_no_table_and_says_so_at_once() {
    let disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let t = db.byte_table("t").unwrap();
    let user = db.begin().unwrap();
    user.bytes(&t).put(b"a", b"1").unwrap();
    disk.fail_at(disk.events(), Fault::Eio, Repeat::Forever);
    t.put(b"b", b"1").unwrap_err();
    let begun = Instant::now();
    let refused = db.drop_table("t").unwrap_err();
    assert!(matches!(refused, Error::Poisoned { .. }), "{refused}");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
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
                let sum: i64 = snapshot.table(&accounts).range(..).map(|row| row.unwrap().1).sum();
                assert_eq!(sum, 100 * ACCOUNTS as i64, "a snapshot");
                let sum: i64 = db
                    .transact(|tx| {
                        let mut sum = 0;
                        for row in tx.table(&accounts).range(..) {
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
    db.byte_table("t").unwrap(); // which remembers no types
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

/// An estimate counts what nobody has committed, its own transaction's too, waits for nobody and locks nothing. It ends with it.
#[test]
fn estimates_in_a_transaction_lock_nothing() {
    let (db, elsewhere) = (Database::in_memory().unwrap(), Database::in_memory().unwrap());
    let numbers = db.table::<u32, ()>("numbers").unwrap();
    let (tx, other) = (db.begin().unwrap(), db.begin().unwrap());
    other.table(&numbers).put(&1, &()).unwrap();
    let mine = tx.table(&numbers);
    mine.put_many(&[(2, ()), (3, ())]).unwrap();
    assert_eq!([mine.estimate_range(..3).unwrap(), mine.estimate_range(3..=9).unwrap()], [2, 1]);
    other.table(&numbers).put(&0, &()).unwrap();
    other.commit().unwrap();
    assert_eq!(tx.bytes(numbers.as_bytes()).estimate_range(..).unwrap(), 4);

    let foreign = elsewhere.byte_table("t").unwrap();
    assert!(matches!(tx.bytes(&foreign).estimate_range(..), Err(Error::Argument(_))));
    assert!(db.abort(tx.number()).unwrap());
    assert!(matches!(mine.estimate_range(..), Err(Error::Aborted { .. })));
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

/// Work runs again for what happened to its transaction. What happened to others it would meet each time.
#[test]
fn work_is_not_run_again_for_what_others_lost() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    let once = |work: &dyn Fn(&foreshore::Transaction) -> Result<()>| {
        let mut runs = 0;
        let done = db.transact(|tx| {
            runs += 1;
            assert_eq!(runs, 1, "run again");
            work(tx)
        });
        assert_eq!(db.transactions(), [], "rolled back");
        done.unwrap_err()
    };
    let other = db.begin().unwrap();
    assert!(db.abort(other.number()).unwrap());
    assert!(matches!(once(&|_| other.bytes(&t).put(b"k", b"")), Error::Aborted { .. }));

    let t = t.with_lock_timeout(Duration::from_millis(20));
    let blocked_by_itself = once(&|tx| {
        tx.bytes(&t).put(b"k", b"locked")?;
        t.put(b"k", b"not in the transaction, by mistake")
    });
    assert!(matches!(blocked_by_itself, Error::LockTimeout { .. }));
    assert_eq!(t.get(b"k").unwrap(), None);
}

/// A panic in the work is none of the database's: the transaction is rolled back, and others go on.
#[test]
fn work_that_panics_is_rolled_back() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        db.transact(|tx| -> Result<()> {
            tx.bytes(&t).put(b"k", b"never")?;
            tx.bytes(&t).multi_modify(&[b"k"], |_| panic!("in the middle of a call"))
        })
    }));
    assert!(panicked.is_err());
    assert!(db.transactions().is_empty());
    t.with_lock_timeout(Duration::ZERO).put(b"k", b"free").unwrap();
    assert_eq!(rows(&t), [row(b"k", b"free")]);
}

/// A single write that waits for one lock after the other waits no longer than it was told in all, and says how long it did.
#[test]
fn a_table_handle_has_patience_for_all_its_waits() {
    const PATIENCE: Duration = Duration::from_secs(2);
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    let (key, gap) = (db.begin().unwrap(), db.begin().unwrap());
    gap.bytes(&t).range(&b"l"[..]..).for_each(drop);
    gap.bytes(&t).range(&b"a"[..]..&b"j"[..]).for_each(drop);
    key.bytes(&t).get_for_update(b"k").unwrap();
    std::thread::scope(|s| {
        let writer = s.spawn(|| {
            let begun = Instant::now();
            (t.with_lock_timeout(PATIENCE).put(b"k", b""), begun.elapsed())
        });
        std::thread::sleep(PATIENCE * 7 / 10);
        drop(key);
        let (refused, took) = writer.join().unwrap();
        let Err(Error::LockTimeout { waited, .. }) = refused else { panic!("{refused:?}") };
        assert!(waited >= PATIENCE && waited <= took && took < PATIENCE * 3 / 2, "{waited:?} of {took:?}");
    });
}

/// Who takes rows away one after the other, without ever waiting for a lock, is ended before it is through.
#[test]
fn long_calls_are_aborted_before_they_are_done() {
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("t").unwrap();
    let keys = || (0..1_000_000_u32).map(u32::to_be_bytes);
    table.bulk_load(keys().map(|key| (key, [7; 20]))).unwrap();
    let rows: Vec<_> = keys().map(|key| ([&key[..], b"more"].concat(), b"")).collect();
    let remove = |tx: &Transaction| tx.bytes(&table).remove_range(..);
    let insert = |tx: &Transaction| tx.bytes(&table).insert_many(&rows).map(|rows| rows as u64);
    type Call<'a> = &'a (dyn Fn(&Transaction) -> Result<u64> + Sync);
    for call in [&remove as Call<'_>, &insert] {
        while db.stats().image_bytes > 0 {
            thread::yield_now(); // what the call before has left
        }
        let tx = db.begin().unwrap();
        let number = tx.number();
        let done = thread::scope(|scope| {
            let call = scope.spawn(|| call(&tx));
            while db.stats().image_bytes == 0 {
                thread::yield_now();
            }
            assert!(db.abort(number).unwrap());
            call.join().unwrap()
        });
        assert!(matches!(done, Err(Error::Aborted { .. })), "{done:?}");
    }
    assert_eq!(table.range(..).keys_only().count(), 1_000_000);
}
