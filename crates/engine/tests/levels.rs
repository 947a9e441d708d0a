//! What transactions lock at each level (docs/isolation.md).

mod common;

use common::short;
use foreshore::{Database, Isolation, Result, TransactionBytes};
use std::ops::Bound::Excluded;
use std::time::Duration;

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

/// A removed row that stays for a while, as somebody has locked the gap below it, is none that a weaker level would lock.
#[test]
fn a_repeatable_reader_locks_no_removed_row() {
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    t.put_many(&[("a", ""), ("b", ""), ("c", "")]).unwrap();
    let elsewhere = db.begin().unwrap();
    assert_eq!(elsewhere.bytes(&t).range((Excluded(&b"a"[..]), Excluded(&b"b"[..]))).count(), 0);
    t.remove(b"b").unwrap();
    assert_eq!(db.check().unwrap().tables[1].ghosts, 1);
    let reader = db.begin_with(short().isolation(Isolation::RepeatableRead)).unwrap();
    assert_eq!(reader.bytes(&t).range(..).count(), 2);
    t.with_lock_timeout(Duration::from_millis(50)).put(b"b", b"").unwrap();
    assert_eq!(reader.bytes(&t).range(..).count(), 3);
}

/// But one that a transaction has removed while an older one ran may come back, for all that is known at a glance. Others may read it.
#[test]
fn weaker_levels_lock_rows_removed_just_before() {
    type Walk = fn(&TransactionBytes<'_>) -> Result<u64>;
    let range: Walk = |t| Ok(t.range(..[b'd']).count() as u64);
    let removal: Walk = |t| t.remove_range(..[b'd']);
    let pops: Walk = |t| Ok([t.pop_first()?, t.pop_first()?].iter().flatten().count() as u64);
    let (committed, repeatable) = (Isolation::ReadCommitted, Isolation::RepeatableRead);
    let db = Database::in_memory().unwrap();
    let t = db.byte_table("t").unwrap();
    t.put_many(&[("a", ""), ("b", ""), ("c", "")]).unwrap();
    let _needs_it = db.snapshot().unwrap();
    let older = db.begin().unwrap();
    older.bytes(&t).put(b"z", b"").unwrap();
    db.transact(|tx| tx.bytes(&t).remove(b"b").map(drop)).unwrap();
    for (level, walk, is_locked) in [
        (repeatable, range, true),
        (committed, removal, true),
        (repeatable, removal, true),
        (committed, pops, true),
        (repeatable, pops, true),
        (committed, range, false),
    ] {
        let tx = db.begin_with(short().isolation(level)).unwrap();
        assert_eq!(walk(&tx.bytes(&t)).unwrap(), 2);
        let other = db.begin_with(short()).unwrap();
        assert_eq!(other.bytes(&t).get(b"b").unwrap(), None);
        assert_eq!(other.bytes(&t).put(b"b", b"").is_err(), is_locked, "{level:?}");
    }
}
