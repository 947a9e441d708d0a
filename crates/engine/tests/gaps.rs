//! What others may insert beside a range that a serializable transaction has read (docs/isolation.md).

mod common;

use common::{Rng, short, tiny};
use foreshore::{Database, Error};
use foreshore_io::MemVfs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

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

/// A range that ends with a row goes no farther.
#[test]
fn insertions_behind_the_row_that_ends_a_range_do_not_wait() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    for key in ["b", "d", "d/1", "f"] {
        t.put(key.as_bytes(), b"").unwrap();
    }
    t.remove(b"d/1").unwrap();
    let waits = |key: &str| {
        let tx = db.begin_with(short()).unwrap();
        matches!(tx.bytes(&t).insert(key.as_bytes(), b""), Err(Error::LockTimeout { .. }))
    };
    let (from, to) = (&b"c"[..], &b"d"[..]);
    for way in ["forwards", "backwards", "removed"] {
        let reader = db.begin_with(short()).unwrap();
        let rows = reader.bytes(&t).range(from..=to);
        let met = match way {
            "forwards" => rows.count(),
            "backwards" => rows.rev().count(),
            _ => reader.bytes(&t).remove_range(from..=to).unwrap() as usize,
        };
        assert_eq!(met, 1, "{way}");
        assert!(!waits("d/0") && !waits("e"), "{way}: behind the end");
        assert!(waits("c") && waits("c/9"), "{way}: in the range");
        let writer = db.begin_with(short()).unwrap();
        assert!(writer.bytes(&t).put(b"d", b"").is_err(), "{way}: the end itself");
        reader.rollback().unwrap();
    }
    for rev in [false, true] {
        let reader = db.begin_with(short()).unwrap();
        let rows = reader.bytes(&t).range(&b"c"[..]..=b"e");
        assert_eq!(if rev { rows.rev().count() } else { rows.count() }, 1);
        assert!(waits("d/0") && waits("e") && waits("e/0"), "rev {rev}: up to the next row");
    }
}

/// A gap is locked only as far down as the range: who takes from the front of one queue does not hold up who adds to the
/// queue before it.
#[test]
fn insertions_below_a_range_do_not_wait() {
    let db = Database::in_memory().unwrap();
    let queues = db.byte_table("queues").unwrap();
    for key in [b"q1/5", b"q2/3", b"q2/4"] {
        queues.put(key, b"").unwrap();
    }
    let waits = |key: &[u8]| {
        let tx = db.begin_with(short()).unwrap();
        matches!(tx.bytes(&queues).insert(key, b""), Err(Error::LockTimeout { .. }))
    };
    for reverse in [false, true] {
        let taker = db.begin_with(short()).unwrap();
        let mut queue = taker.bytes(&queues).range(&b"q2/"[..]..&b"q3/"[..]);
        let taken = if reverse { queue.by_ref().last() } else { queue.next() };
        assert_eq!(taken.unwrap().unwrap().0, if reverse { b"q2/4" } else { b"q2/3" });
        drop(queue);
        assert!(taker.bytes(&queues).remove(b"q2/3").unwrap());
        assert!(!waits(b"q1/6") && !waits(b"q1"), "reverse {reverse}: below the range");
        assert!(waits(b"q2/") && waits(b"q2/2"), "reverse {reverse}: in the range");
        assert!(waits(b"q2/3"), "reverse {reverse}: the row that was taken");
    }
}

/// Who waits to insert into a gap waits for those whose ranges the new row would be in, and is not the victim of a deadlock with
/// others who have locked less of the gap.
#[test]
fn insertions_wait_for_no_range_that_begins_above_them() {
    let db = Database::in_memory().unwrap();
    let queues = db.byte_table("queues").unwrap();
    for key in [b"q1/5", b"q2/3"] {
        queues.put(key, b"").unwrap();
    }
    let [reader, taker, adder] = [(); 3].map(|()| db.begin().unwrap());
    assert_eq!(reader.bytes(&queues).range(&b"q1/"[..]..&b"q2/"[..]).count(), 1);
    assert!(taker.bytes(&queues).range(&b"q2/"[..]..).next().is_some());
    adder.bytes(&queues).put(b"added", b"1").unwrap();
    std::thread::scope(|s| {
        let added = s.spawn(|| adder.bytes(&queues).insert(b"q1/6", b"").and_then(|_| adder.commit()));
        std::thread::sleep(Duration::from_millis(20));
        let seen = s.spawn(|| taker.bytes(&queues).get(b"added"));
        std::thread::sleep(Duration::from_millis(200));
        reader.commit().unwrap();
        added.join().unwrap().unwrap();
        assert_eq!(seen.join().unwrap().unwrap().as_deref(), Some(&b"1"[..]));
    });
}

/// Whoever has read a range and inserts into it goes on keeping others out of both halves.
#[test]
fn a_range_stays_closed_around_its_readers_own_rows() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    for key in [b"a", b"h"] {
        t.put(key, b"").unwrap();
    }
    let reader = db.begin_with(short()).unwrap();
    assert_eq!(reader.bytes(&t).range(&b"d"[..]..&b"g"[..]).count(), 0);
    for own in [b"b", b"f", b"e"] {
        assert!(reader.bytes(&t).insert(own, b"").unwrap());
    }
    for (key, free) in [(b"dd", false), (b"ee", false), (b"ff", false), (b"aa", true), (b"hh", true)] {
        let writer = db.begin_with(short()).unwrap();
        let inserted = writer.bytes(&t).insert(key, b"");
        assert_eq!(inserted.is_ok(), free, "{key:?}: {inserted:?}");
    }
}

/// But below the range nobody waits, however its reader's own rows divide the gap in which it begins.
#[test]
fn a_readers_own_rows_hold_up_nobody_below_its_range() {
    let db = Database::in_memory().unwrap();
    let queues = db.byte_table("queues").unwrap();
    for key in ["q1/5", "q2/9"] {
        queues.put(key.as_bytes(), b"").unwrap();
    }
    let reader = db.begin_with(short()).unwrap();
    assert_eq!(reader.bytes(&queues).range(&b"q2/34"[..]..&b"q2/9"[..]).count(), 0);
    for own in ["q2/7", "q2/5/1", "q2/36", "q2/2"] {
        assert!(reader.bytes(&queues).insert(own.as_bytes(), b"").unwrap());
    }
    let free = ["q1/6", "q2", "q2/1", "q2/2/1", "q2/33", "q2/33/9"];
    let closed = ["q2/34", "q2/34/0", "q2/35", "q2/37", "q2/6", "q2/8"];
    for (key, is_free) in free.iter().map(|key| (key, true)).chain(closed.iter().map(|key| (key, false))) {
        let writer = db.begin_with(short()).unwrap();
        let inserted = writer.bytes(&queues).insert(key.as_bytes(), b"");
        assert_eq!(inserted.is_ok(), is_free, "{key}: {inserted:?}");
    }
}

/// Ghosts that follow each other, as an open snapshot still needs them, are no less closed than rows.
#[test]
fn insertions_wait_for_readers_of_a_run_of_ghosts() {
    let db = tiny().open_on(Arc::new(MemVfs::new())).unwrap();
    let t = db.byte_table("t").unwrap();
    let key = |number: u16| number.to_be_bytes();
    (0..1000).step_by(2).for_each(|number| t.put(&key(number), &[7; 100]).unwrap());
    let snapshot = db.snapshot().unwrap();
    t.remove_range(key(100)..key(900)).unwrap();
    let [from, to] = [150, 850].map(key);
    // Down to the range's lower end, or the row that it ends with.
    for (way, row, closed) in
        [("forwards", 900, 151..900), ("backwards", 98, 97..850), ("no row", 0, 151..850)]
    {
        let reader = db.begin_with(short()).unwrap();
        let table = reader.bytes(&t);
        let met = match way {
            "forwards" => table.range(from..).next(),
            "backwards" => table.range(..to).next_back(),
            _ => table.range(from..to).next(),
        };
        assert_eq!(met.map(|row| row.unwrap().0), (way != "no row").then(|| key(row).to_vec()), "{way}");
        for number in [99, 101, 149, 151, 152, 300, 555, 849, 851, 899, 901] {
            let writer = db.begin_with(short()).unwrap();
            let refused = writer.bytes(&t).put(&key(number), b"").is_err();
            let is_known = way == "forwards" || number < 850; // where a range ends without a row, the gap goes on
            assert!(!is_known || refused == closed.contains(&number), "{way}: {number}");
            writer.rollback().unwrap();
        }
        reader.rollback().unwrap();
        let writer = db.begin_with(short()).unwrap();
        (0..1000).step_by(7).for_each(|number| writer.bytes(&t).put(&key(number), b"").unwrap());
        writer.rollback().unwrap();
    }
    assert_eq!(snapshot.bytes(&t).range(..).count(), 500);
}

/// Nor are they more closed, or less, when they are leapt over.
#[test]
fn what_is_leapt_over_is_closed_as_far_as_the_range() {
    type Keys = &'static [&'static [u8]];
    let db = tiny().open_on(Arc::new(MemVfs::new())).unwrap();
    let t = db.byte_table("t").unwrap();
    (0..250_u8).for_each(|key| t.put(&[key], &[7; 60]).unwrap());
    let _snapshot = db.snapshot().unwrap();
    t.remove_range([20]..[230]).unwrap();
    let cases: [(&str, Keys, Keys); 5] = [
        ("up", &[&[50], &[229, 1]], &[&[19, 1], &[230, 1]]),
        ("up to an end", &[&[50], &[99, 1]], &[&[19, 1], &[150]]),
        ("down", &[&[50], &[99, 1]], &[&[100, 1], &[150]]),
        ("down to an end", &[&[70], &[99, 1]], &[&[50], &[150]]),
        ("removal", &[&[50], &[229, 1], &[235, 1]], &[&[19, 1], &[240, 1]]),
    ];
    for (way, closed, free) in cases {
        for (key, is_free) in closed.iter().map(|key| (key, false)).chain(free.iter().map(|key| (key, true)))
        {
            let walker = db.begin().unwrap();
            assert!(walker.bytes(&t).range([20]..).next().is_some());
            walker.commit().unwrap();
            let reader = db.begin_with(short()).unwrap();
            let table = reader.bytes(&t);
            let met = match way {
                "up" => table.range([20]..).next().map(|row| row.unwrap().0[0]),
                "up to an end" => table.range([20]..[100]).next().map(|row| row.unwrap().0[0]),
                "down" => table.range(..[100]).next_back().map(|row| row.unwrap().0[0]),
                "down to an end" => table.range([60]..[100]).next_back().map(|row| row.unwrap().0[0]),
                _ => Some(table.remove_range([20]..[240]).unwrap() as u8),
            };
            let expected = [("up", 230), ("down", 19), ("removal", 10)].iter().find(|(name, _)| *name == way);
            assert_eq!(met, expected.map(|(_, row)| *row), "{way}");
            let writer = db.begin_with(short()).unwrap();
            let put = writer.bytes(&t).put(key, b"");
            assert_eq!(put.is_ok(), is_free, "{way}: {key:?}: {put:?}");
            writer.rollback().unwrap();
            reader.rollback().unwrap();
        }
    }
}

/// Who goes down past removed rows, others' or its own, keeps nobody from inserting below the row that it comes to, but right below it.
#[test]
fn insertions_below_what_is_read_backwards_do_not_wait() {
    let db = tiny().open_on(Arc::new(MemVfs::new())).unwrap();
    let t = db.byte_table("t").unwrap();
    (0..200_u8).step_by(2).for_each(|key| t.put(&[key], &[7; 60]).unwrap());
    let snapshot = db.snapshot().unwrap();
    t.remove_range([180]..).unwrap();
    for (way, last) in [("read", 178), ("read in part", 178), ("taken", 170), ("taken once more", 168)] {
        let walker = db.begin_with(short()).unwrap();
        let rows = walker.bytes(&t);
        let take = |count| {
            (1..count).for_each(|_| assert!(rows.pop_last().unwrap().is_some()));
            rows.pop_last()
        };
        let met = match way {
            "read" => rows.last(),
            "read in part" => rows.range([60]..).next_back().transpose(),
            "taken" => take(5),
            _ => {
                let savepoint = walker.savepoint().unwrap();
                take(5).unwrap();
                walker.rollback_to(savepoint).unwrap();
                take(6)
            }
        };
        assert_eq!(met.unwrap().unwrap().0, [last], "{way}");
        for (key, is_free) in [(1, true), (59, true), (101, true), (last - 3, true), (last - 1, false)]
            .into_iter()
            .chain([(last + 1, false), (179, false), (181, false), (182, false), (199, false), (201, false)])
        {
            let writer = db.begin_with(short()).unwrap();
            let put = writer.bytes(&t).put(&[key], b"");
            assert_eq!(put.is_ok(), is_free, "{way}: {key}: {put:?}");
            writer.rollback().unwrap();
        }
        walker.rollback().unwrap();
    }
    assert_eq!(snapshot.bytes(&t).range(..).count(), 100);
}

/// What a transaction has seen of a run of ghosts it sees again, whoever puts rows there and removes them.
#[test]
fn what_is_read_beside_ghosts_stays() {
    const ROUNDS: usize = 300;
    let db = tiny().open_on(Arc::new(MemVfs::new())).unwrap();
    let table = &db.byte_table("t").unwrap();
    let key = |number: usize| (number as u16).to_be_bytes();
    (0..1000).step_by(2).for_each(|number| table.put(&key(number), &[7; 50]).unwrap());
    let _snapshot = db.snapshot().unwrap();
    table.remove_range(key(10)..key(990)).unwrap();
    let (is_over, db) = (&AtomicBool::new(false), &db);
    thread::scope(|scope| {
        for writer in 0..2 {
            scope.spawn(move || {
                let mut rng = Rng(writer);
                while !is_over.load(Relaxed) {
                    let key = key(10 + rng.below(980));
                    table.put(&key, b"here").unwrap();
                    let removal = db.begin().unwrap();
                    let _ = removal.bytes(table).remove(&key); // it may be the one to give way
                    thread::yield_now();
                    let _ = removal.rollback();
                    table.remove(&key).unwrap();
                }
            });
        }
        let reader = |seed| {
            let mut rng = Rng(seed);
            for _ in 0..ROUNDS {
                let (at, down) = (key(10 + rng.below(980)), rng.below(2) == 0);
                db.transact(|tx| {
                    let look = || match down {
                        true => tx.bytes(table).range(..at).next_back().transpose(),
                        false => tx.bytes(table).range(at..).next().transpose(),
                    };
                    let seen = look()?;
                    thread::yield_now();
                    let other = key(10 + rng.below(980));
                    let beside = (tx.bytes(table).range(other..).next().transpose()?, other);
                    assert_eq!(look()?, seen, "of {at:?}, down: {down}");
                    let again = tx.bytes(table).range(other..).next().transpose()?;
                    assert_eq!((again, other), beside);
                    Ok(())
                })
                .unwrap();
            }
        };
        let readers = [2, 3].map(|seed| scope.spawn(move || reader(seed)));
        let ends = readers.map(|reader| reader.join());
        is_over.store(true, Relaxed);
        ends.into_iter().for_each(|end| end.unwrap());
    });
}
