//! The caller's code where the engine calls it: keys, iterators, closures. It may use the database, end it, and panic. Nothing is held
//! for it then that others wait for, beside what a transaction has locked.

use foreshore::{ByteTable, Database, Error, Result, TransactionBytes, TransactionOptions};
use std::cell::Cell;
use std::ops::ControlFlow::{self, Continue};
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind, resume_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// What the caller's code does when it is called.
type Act<'a> = &'a dyn Fn();

/// Calls the caller's code when it is asked for its bytes.
struct Key<'a>(&'a [u8], Act<'a>);

impl AsRef<[u8]> for Key<'_> {
    fn as_ref(&self) -> &[u8] {
        (self.1)();
        self.0
    }
}

const KEYS: [&[u8]; 3] = [b"a", b"b", b"c"];

fn goes_on(act: Act<'_>) -> ControlFlow<()> {
    act();
    Continue(())
}

/// A call that runs the caller's code.
type Call = fn(&Database, &ByteTable, Act<'_>) -> Result<()>;

/// All calls that do so, outside of transactions.
const ALONE: [(&str, Call); 11] = [
    ("multi_get", |_, t, act| t.multi_get(&KEYS.map(|key| Key(key, act))).map(drop)),
    ("multi_get_with", |_, t, act| t.multi_get_with(&KEYS, |_| goes_on(act))),
    ("put_many", |_, t, act| t.put_many(&KEYS.map(|key| (Key(key, act), b"new")))),
    ("put_many, values", |_, t, act| t.put_many(&KEYS.map(|key| (key, Key(b"new", act))))),
    ("scan", |_, t, act| t.scan(.., |_, _| goes_on(act))),
    ("scan_keys", |_, t, act| t.scan_keys(.., |_| goes_on(act))),
    ("bulk_load", |_, t, act| {
        t.bulk_load((b'l'..b'p').map(|key| {
            act();
            ([key], vec![key; 100])
        }))
        .map(drop)
    }),
    ("bulk_load, large", |_, t, act| {
        t.bulk_load((b'q'..b'u').map(|key| {
            act();
            ([key], vec![key; 10_000])
        }))
        .map(drop)
    }),
    ("bulk_load, keys", |_, t, act| t.bulk_load([b"v", b"w"].map(|key| (Key(key, act), b""))).map(drop)),
    ("snapshot's scan", |db, t, act| db.snapshot()?.bytes(t).scan(.., |_, _| goes_on(act))),
    ("backup", |db, _, act| {
        let dir = tempfile::tempdir().unwrap();
        db.backup_with(dir.path().join("copy"), |_| act()).map(drop)
    }),
];

/// Those within a transaction, which have locked rows when the caller's code is called.
const INSIDE: [(&str, Call); 7] = [
    ("transact", |db, t, act| {
        db.transact(|tx| {
            tx.bytes(t).put(b"a", b"new")?;
            act();
            Ok(())
        })
    }),
    ("multi_modify", |db, t, act| db.transact(|tx| tx.bytes(t).multi_modify(&KEYS, |_| goes_on(act)))),
    ("multi_modify, keys", |db, t, act| {
        db.transact(|tx| tx.bytes(t).multi_modify(&KEYS.map(|key| Key(key, act)), |_| Continue(())))
    }),
    ("transaction's scan", |db, t, act| db.transact(|tx| tx.bytes(t).scan(.., |_, _| goes_on(act)))),
    ("transaction's scan_keys", |db, t, act| db.transact(|tx| tx.bytes(t).scan_keys(.., |_| goes_on(act)))),
    ("transaction's multi_get_with", |db, t, act| {
        db.transact(|tx| tx.bytes(t).multi_get_with(&KEYS, |_| goes_on(act)))
    }),
    ("insert_many", |db, t, act| {
        db.transact(|tx| tx.bytes(t).insert_many(&KEYS.map(|key| (Key(key, act), b"new"))).map(drop))
    }),
];

fn fresh() -> (Database, ByteTable) {
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("t").unwrap();
    KEYS.iter().for_each(|key| table.put(key, b"old").unwrap());
    (db, table)
}

/// Every row can be locked at once, and all is in order.
fn ensure_free(what: &str, db: &Database, table: &ByteTable) {
    let tx = db.begin_with(TransactionOptions::new().lock_timeout(Duration::ZERO)).unwrap();
    let keys = tx.bytes(table).range(..).map(|row| row.map(|row| row.0)).collect::<Result<Vec<_>>>();
    let keys = keys.unwrap_or_else(|error| panic!("{what}: {error}"));
    for key in keys.iter().map(Vec::as_slice).chain(KEYS) {
        tx.bytes(table).put(key, b"free").unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    tx.commit().unwrap();
    let stats = db.stats();
    assert_eq!((stats.transactions, stats.snapshots), (0, 0), "{what}");
    db.check().unwrap();
    assert!(db.drop_table("t").unwrap(), "{what}");
}

/// Whenever the caller's code panics, the first time or a later one: nothing stays locked, and no transaction or snapshot open.
#[test]
fn a_panic_leaves_nothing_behind() {
    for (what, call) in ALONE.into_iter().chain(INSIDE) {
        for nth in [0, 2] {
            let (db, table) = fresh();
            let calls = Cell::new(0);
            let act = || {
                if calls.replace(calls.get() + 1) == nth {
                    resume_unwind(Box::new("a test"));
                }
            };
            let called = catch_unwind(AssertUnwindSafe(|| call(&db, &table, &act)));
            assert_eq!(called.is_err(), calls.get() > nth, "{what}, call {nth}");
            ensure_free(what, &db, &table);
        }
    }
}

/// So who catches the panic needs no `AssertUnwindSafe` to go on with what handles lead to.
#[test]
fn handles_are_used_on_both_sides_of_a_panic() {
    fn is_unwind_safe<T: UnwindSafe + RefUnwindSafe>(_: &T) {}
    let (db, table) = fresh();
    let (typed, snapshot) = (db.table::<u8, Cell<u8>>("typed").unwrap(), db.snapshot().unwrap());
    is_unwind_safe(&(&db, &table, &typed, &snapshot, snapshot.bytes(&table), snapshot.table(&typed)));
    is_unwind_safe(&(Database::builder(), db.sync_async()));

    let caught = catch_unwind(|| {
        db.transact(|tx| {
            tx.bytes(&table).put(b"a", b"half done")?;
            let seen = snapshot.bytes(&table).get(b"a")?;
            resume_unwind(Box::new(seen))
        })
    });
    let seen = caught.map(|done: Result<()>| done).unwrap_err();
    assert_eq!(seen.downcast_ref(), Some(&Some(b"old".to_vec())));
    assert_eq!(table.get(b"a").unwrap().as_deref(), Some(&b"old"[..]));
    drop((typed, snapshot));
    ensure_free("transact", &db, &table);
}

/// The caller's code may use the database, and the table, as others do.
#[test]
fn what_is_called_may_use_the_database() {
    for (what, call) in ALONE.into_iter().chain(INSIDE) {
        let (db, table) = fresh();
        let others = db.byte_table("others").unwrap();
        let times = Cell::new(0_u32);
        let act = || {
            let time = times.replace(times.get() + 1);
            table.get(b"a").unwrap();
            assert!(table.range(..).map(Result::unwrap).count() >= 3);
            others.put(&time.to_be_bytes(), &vec![7; 5000]).unwrap();
            db.transact(|tx| tx.bytes(&others).put(b"k", b"v")).unwrap();
            db.snapshot().unwrap().bytes(&table).get(b"b").unwrap();
            db.byte_table(&format!("{time}")).unwrap();
            assert!(db.drop_table(&format!("{time}")).unwrap());
            db.checkpoint().unwrap();
            db.check().unwrap();
        };
        call(&db, &table, &act).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(times.get() > 0, "{what}");
        ensure_free(what, &db, &table);
    }
}

/// Keys and values may use, and end, the transaction that they are for.
#[test]
fn keys_may_use_the_transaction_that_they_are_for() {
    type Rows<'a> = &'a [(Key<'a>, Key<'a>)];
    type Writes = fn(&TransactionBytes<'_>, Rows<'_>) -> Result<()>;
    let calls: [(&str, Writes); 2] = [
        ("put_many", |table, rows| table.put_many(rows)),
        ("insert_many", |table, rows| table.insert_many(rows).map(drop)),
    ];
    for (what, call) in calls {
        let (sender, done) = channel();
        thread::spawn(move || {
            let (db, table) = fresh();
            let tx = db.begin().unwrap();
            let act = || assert!(tx.bytes(&table).contains(b"a").unwrap());
            let uses = call(&tx.bytes(&table), &[(Key(b"d", &act), Key(b"new", &act))]);
            let act = || _ = db.abort(tx.number()).unwrap();
            let ends = call(&tx.bytes(&table), &[(Key(b"e", &act), Key(b"new", &act))]);
            drop(tx);
            ensure_free(what, &db, &table);
            sender.send((uses, ends)).unwrap();
        });
        let (uses, ends) = done
            .recv_timeout(Duration::from_secs(60))
            .unwrap_or_else(|error| panic!("{what}: it waits for itself, or panicked: {error}"));
        uses.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(matches!(ends, Err(Error::Aborted { .. })), "{what}: {ends:?}");
    }
}

/// Outside of transactions nothing of the table is locked meanwhile, be it only for as long as the call.
#[test]
fn what_is_called_may_lock_all_rows() {
    for (what, call) in ALONE {
        let (db, table) = fresh();
        let act = || {
            let tx = db.begin_with(TransactionOptions::new().lock_timeout(Duration::ZERO)).unwrap();
            let rows = tx.bytes(&table).range(..).collect::<Result<Vec<_>>>();
            for (key, value) in rows.unwrap_or_else(|error| panic!("{what}: {error}")) {
                tx.bytes(&table).put(&key, &value).unwrap_or_else(|error| panic!("{what}: {error}"));
            }
            tx.commit().unwrap();
        };
        call(&db, &table, &act).unwrap_or_else(|error| panic!("{what}: {error}"));
        ensure_free(what, &db, &table);
    }
}

/// The caller's code may close the database: the call ends, with what it can still do.
#[test]
fn what_is_called_may_close_the_database() {
    for (what, call) in ALONE.into_iter().chain(INSIDE) {
        let (db, table) = fresh();
        let act = || db.clone().close().unwrap();
        if let Err(error) = call(&db, &table, &act) {
            assert!(matches!(error, Error::Poisoned { .. }), "{what}: {error}");
        }
        assert!(table.get(b"c").unwrap().is_some(), "{what}");
    }
}

/// The table itself may go, unless a transaction uses it, or a backup.
#[test]
fn what_is_called_may_drop_the_table() {
    for (what, call) in ALONE.into_iter().filter(|(what, _)| *what != "backup") {
        let (db, table) = fresh();
        let act = || _ = db.drop_table("t").unwrap();
        if let Err(error) = call(&db, &table, &act) {
            assert!(matches!(error, Error::TableDropped { .. }), "{what}: {error}");
        }
        assert!(matches!(table.get(b"a"), Err(Error::TableDropped { .. })), "{what}");
        let again = db.byte_table("t").unwrap();
        assert_eq!(again.range(..).count(), 0, "{what}");
        again.put(b"k", b"v").unwrap();
        db.checkpoint().unwrap();
        assert_eq!(db.check().unwrap().stray_pages, 0, "{what}");
    }
}

/// Says something longer each time that it is asked.
struct Growing(Cell<usize>);

impl AsRef<[u8]> for Growing {
    fn as_ref(&self) -> &[u8] {
        const LONG: &[u8] = &[7; 10_000];
        &LONG[..self.0.replace(LONG.len())]
    }
}

/// A value that is not the same each time may be any of those that it was.
#[test]
fn values_may_be_something_else_each_time() {
    type Rows = Box<[(&'static [u8], Growing)]>;
    type Puts = fn(&Database, &ByteTable, Rows) -> Result<()>;
    let calls: [(&str, Puts); 4] = [
        ("put_many", |_, t, rows| t.put_many(&rows)),
        ("bulk_load", |_, t, rows| t.bulk_load(rows).map(drop)),
        ("transaction's put_many", |db, t, rows| db.transact(|tx| tx.bytes(t).put_many(&rows))),
        ("transaction's insert_many", |db, t, rows| {
            db.transact(|tx| tx.bytes(t).insert_many(&rows)).map(drop)
        }),
    ];
    for (what, call) in calls {
        let (db, table) = fresh();
        let rows = [&b"d"[..], b"e"].map(|key| (key, Growing(Cell::new(1))));
        call(&db, &table, Box::new(rows)).unwrap_or_else(|error| panic!("{what}: {error}"));
        for key in [b"d", b"e"] {
            let value = table.get(key).unwrap();
            assert!(value.is_some_and(|value| value.len() == 1 || value == [7; 10_000]), "{what}");
        }
        ensure_free(what, &db, &table);
    }
}

/// A row that is taken stays where its type panics when it is read, for who catches the panic and goes on with the transaction, too.
#[test]
fn a_row_that_panics_when_it_is_popped_stays() {
    static PANICS: AtomicBool = AtomicBool::new(false);
    #[derive(serde::Serialize)]
    struct Job(u8);
    impl<'de> serde::Deserialize<'de> for Job {
        fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
            match PANICS.load(Relaxed) {
                true => resume_unwind(Box::new("a test")),
                false => u8::deserialize(from).map(Job),
            }
        }
    }
    let (db, table) = fresh();
    let jobs = db.table::<u8, Job>("jobs").unwrap();
    jobs.put(&1, &Job(10)).unwrap();
    let tx = db.begin().unwrap();
    tx.table(&jobs).put(&2, &Job(20)).unwrap();
    PANICS.store(true, Relaxed);
    let caught = [
        catch_unwind(AssertUnwindSafe(|| tx.table(&jobs).pop_first().is_ok())),
        catch_unwind(AssertUnwindSafe(|| tx.table(&jobs).pop_last_in(..).is_ok())),
    ];
    PANICS.store(false, Relaxed);
    assert!(caught.iter().all(Result::is_err), "{caught:?}");
    tx.commit().unwrap();
    let stay: Vec<_> = jobs.range(..).map(|row| row.unwrap().1.0).collect();
    assert_eq!(stay, [10, 20]);

    PANICS.store(true, Relaxed);
    let caught = catch_unwind(AssertUnwindSafe(|| jobs.pop_first().is_ok()));
    PANICS.store(false, Relaxed);
    assert!(caught.is_err(), "{caught:?}");
    assert_eq!(jobs.pop_first().unwrap().map(|row| row.1.0), Some(10));
    ensure_free("pop", &db, &table);
}

/// What the process retires by epochs may use the table when it goes: that is not while a call has leaves of the table latched, which
/// then waited for itself.
#[test]
fn what_others_retire_may_use_the_table() {
    static TABLE: OnceLock<ByteTable> = OnceLock::new();
    let (done, is_done) = channel();
    thread::spawn(move || {
        let db = Database::in_memory().unwrap();
        let table = TABLE.get_or_init(|| db.byte_table("sessions").unwrap());
        for _ in 0..2 {
            (0..10_000_u32).for_each(|key| table.put(&key.to_be_bytes(), &[7; 200]).unwrap());
            for key in 0..10_000_u32 {
                table.remove(&key.to_be_bytes()).unwrap();
                // The leaf of this key is about to be absorbed.
                crossbeam_epoch::pin().defer(move || table.put(&(key + 3).to_be_bytes(), b"gone"));
            }
        }
        done.send(()).unwrap();
    });
    is_done.recv_timeout(Duration::from_secs(60)).expect("a call waits for itself");
}
