//! Readers who show themselves.

use super::*;
use crate::lock::shown::Door;
use std::cell::Cell;
use std::thread;

/// Nobody waits.
const NOW: Duration = Duration::ZERO;

const READERS: [Owner; 4] = [B, C, Owner(4), Owner(5)];

fn read(table: &KeyTable, owner: Owner, name: Name) -> Granted {
    table.acquire(owner, name, KeyMode::Shared, NONE, NOW).expect("readers share")
}

fn write(table: &KeyTable, owner: Owner, name: Name) -> Result<Granted, LockError> {
    table.acquire(owner, name, KeyMode::Exclusive, NONE, NOW)
}

/// A table in whose bucket of this name A and B have requests, to read it, and which is open.
fn opened(name: &[u8]) -> (KeyTable, Name) {
    let table = table(4);
    let name = table.name(TABLE, name);
    open(&table, name);
    (table, name)
}

fn open(table: &KeyTable, name: Name) {
    assert!([A, B, C].iter().all(|owner| read(table, *owner, name).first));
    end(table, &[C], &[name]);
}

fn end(table: &KeyTable, owners: &[Owner], names: &[Name]) {
    for owner in owners {
        names.iter().for_each(|name| table.release(*owner, *name));
        table.release_shown(*owner);
    }
}

/// That is what they are for.
#[test]
fn who_reads_what_others_read_writes_no_bucket() {
    let (table, name) = opened(b"popular");
    let version = || table.bucket(name).content.version();
    let before = version();
    for _ in 0..3 {
        assert!(!read(&table, C, name).first, "there is nothing to be released by name");
        assert_eq!(read(&table, C, name), read(&table, D, name));
        table.release_shown(C);
        table.release_shown(D);
    }
    assert_eq!(version(), before);
    end(&table, &[A], &[name]);
    assert_ne!(version(), before, "a request is released under the latch");
    end(&table, &[B], &[name]);
    table.check_empty().unwrap();
}

#[test]
fn a_writer_waits_for_those_who_show_themselves() {
    let (table, name) = opened(b"popular");
    read(&table, C, name);
    end(&table, &[A, B], &[name]);
    let refused = write(&table, D, name);
    assert_eq!(holder(refused), Some(number(C)));
    thread::scope(|scope| {
        let writer = scope.spawn(|| table.acquire(D, name, KeyMode::Exclusive, NONE, LONG));
        until_waiting(&table, name, 1);
        table.release_shown(C);
        assert!(writer.join().unwrap().unwrap().first);
    });
    end(&table, &[D], &[name]);
    table.check_empty().unwrap();
}

/// What it showed that it read is a name to be released once it holds more of it.
#[test]
fn who_shows_itself_may_write() {
    let (table, name) = opened(b"popular");
    read(&table, C, name);
    assert!(write(&table, C, name).is_err(), "others read it");
    read(&table, C, name);
    end(&table, &[A, B], &[name]);
    assert!(write(&table, C, name).unwrap().first);
    assert!(!write(&table, C, name).unwrap().first);
    assert!(table.acquire(D, name, KeyMode::Shared, NONE, NOW).is_err());
    end(&table, &[C], &[name]);
    table.check_empty().unwrap();
    assert!(read(&table, D, name).first, "the bucket is not open by now");
}

/// The same for a gap: who shows that it reads the key, and locks the gap below.
#[test]
fn who_shows_itself_may_scan() {
    let (table, name) = opened(b"popular");
    read(&table, C, name);
    assert!(table.acquire(C, name, KeyMode::Shared, ALL, NOW).unwrap().first);
    assert!(!gap_is_open(&table, D, name));
    end(&table, &[A, B, C], &[name]);
    table.check_empty().unwrap();
}

#[test]
fn two_who_show_themselves_and_want_to_write_have_one_victim() {
    let (table, name) = opened(b"popular");
    for owner in [C, D] {
        read(&table, owner, name);
    }
    end(&table, &[A, B], &[name]);
    thread::scope(|scope| {
        let older = scope.spawn(|| table.acquire(C, name, KeyMode::Exclusive, NONE, LONG));
        until_waiting(&table, name, 1);
        let younger = table.acquire(D, name, KeyMode::Exclusive, NONE, LONG);
        assert!(matches!(younger, Err(LockError::Deadlock { with, .. }) if with == number(C)), "{younger:?}");
        table.release_shown(D);
        assert!(older.join().unwrap().unwrap().first);
    });
    end(&table, &[C], &[name]);
    table.check_empty().unwrap();
}

/// A single write, and who removes a ghost, ask that.
#[test]
fn a_name_is_not_quiet_while_somebody_shows_it() {
    let (table, name) = opened(b"popular");
    read(&table, C, name);
    end(&table, &[A, B], &[name]);
    assert!(!table.is_quiet(name, None) && table.is_quiet(name, Some(C)));
    table.release_shown(C);
    assert!(table.is_quiet(name, None));
}

/// Names of one bucket, some of which have no place left.
#[test]
fn what_has_no_place_is_asked_for() {
    let table = table_of(0, 4);
    let names: Vec<Name> = (0..40u8).map(|key| table.name(TABLE, &[key])).collect();
    open(&table, names[0]);
    let asked: Vec<Name> = names.iter().copied().filter(|name| read(&table, C, *name).first).collect();
    assert!((1..names.len()).contains(&asked.len()), "{} have no place", asked.len());
    end(&table, &[A, B], &names[..1]);
    for name in &names {
        assert!(!read(&table, C, *name).first);
        let refused = write(&table, D, *name);
        assert_eq!(holder(refused), Some(number(C)));
    }
    end(&table, &[C], &asked);
    table.check_empty().unwrap();
}

/// Who shows itself asks nobody: so nobody may be in the bucket who has a key for itself …
#[test]
fn a_bucket_in_which_somebody_writes_is_not_opened() {
    let table = table_of(0, 8);
    let [one, other] = [b"one", b"two"].map(|key| table.name(TABLE, key));
    write(&table, A, other).unwrap();
    assert!(READERS.iter().all(|reader| read(&table, *reader, one).first));
    end(&table, &[A], &[other]);
    end(&table, &READERS, &[one]);
    table.check_empty().unwrap();
}

/// … or waits for it, here one who has read it.
#[test]
fn a_bucket_in_which_somebody_waits_is_not_opened() {
    let table = table_of(0, 8);
    let [one, other] = [b"one", b"two"].map(|key| table.name(TABLE, key));
    for owner in [A, D] {
        read(&table, owner, other);
    }
    thread::scope(|scope| {
        let writer = scope.spawn(|| table.acquire(D, other, KeyMode::Exclusive, NONE, LONG));
        until_waiting(&table, other, 1);
        assert!(READERS.iter().all(|reader| read(&table, *reader, one).first));
        table.release(A, other);
        writer.join().unwrap().unwrap();
    });
    end(&table, &[D], &[other]);
    end(&table, &READERS, &[one]);
    table.check_empty().unwrap();
}

/// A bucket that was closed is opened again, but not by the next reader.
#[test]
fn what_is_still_popular_is_opened_again() {
    let (table, name) = opened(b"popular");
    table.is_quiet(name, None);
    let asked = (0..100).position(|_| {
        let shows = !read(&table, C, name).first;
        end(&table, &[C], &[name][usize::from(shows)..]);
        shows
    });
    assert!(asked.is_some_and(|asked| asked > 1), "{asked:?}");
    end(&table, &[A, B], &[name]);
    table.check_empty().unwrap();
}

/// Also if one who locked another row once has found so many readers there that the bucket was divided.
#[test]
fn a_popular_bucket_is_opened_again_beside_many_readers() {
    let table = table_of(0, 16); // one bucket
    let (popular, other) = (table.name(TABLE, b"popular"), table.name(TABLE, b"other"));
    let readers: Vec<Owner> = (1..=8).map(Owner).collect();
    readers.iter().for_each(|owner| _ = read(&table, *owner, popular));
    let is_open = || table.bucket(popular).door.is_open();
    assert!(is_open());
    write(&table, A, other).unwrap();
    end(&table, &[A], &[other]);
    assert!(!is_open() && table.is_divided());
    come_and_go(&table, &readers, popular);
    assert!(is_open());
    end(&table, &readers, &[popular]);
    table.check_empty().unwrap();
}

/// Never is there nobody.
fn come_and_go(table: &KeyTable, readers: &[Owner], name: Name) {
    for round in 0..100 {
        let owner = readers[round % readers.len()];
        end(table, &[owner], &[name]);
        read(table, owner, name);
    }
}

/// A divided bucket is opened once nobody writes in any of its parts, and who closes it finds the readers of all of them (R1, R2).
#[test]
fn a_divided_bucket_is_opened_too() {
    let table = table_of(0, 8);
    let popular = table.name(TABLE, b"popular");
    let rows: Vec<Name> = (0..100u32).map(|key| table.name(TABLE, &key.to_le_bytes())).collect();
    let (last, others) = rows.split_last().unwrap();
    rows.iter().for_each(|row| _ = write(&table, A, *row).unwrap());
    READERS.iter().for_each(|reader| _ = read(&table, *reader, popular));
    let is_open = || table.bucket(popular).door.is_open();
    for (ended, row) in others.iter().enumerate() {
        end(&table, &[A], &[*row]);
        come_and_go(&table, &READERS, popular);
        assert!(table.is_divided() && !is_open(), "{ended} of the rows are no longer written");
    }
    let (asked, shown) = (others[0], &others[1..=10]);
    assert!(read(&table, D, asked).first);
    end(&table, &[A], &[*last]);
    come_and_go(&table, &READERS, popular);
    assert!(table.is_divided() && is_open());
    assert!(shown.iter().all(|row| !read(&table, D, *row).first));
    for row in &others[..=10] {
        let refused = write(&table, A, *row);
        assert_eq!(holder(refused), Some(number(D)));
    }
    end(&table, &READERS[1..], &[popular]);
    let refused = write(&table, A, popular);
    assert_eq!(holder(refused), Some(number(READERS[0])));
    end(&table, &[D, READERS[0]], &[popular, asked]);
    table.check_empty().unwrap();
    assert!(!table.is_divided());
}

/// Whether a bucket may be opened is not looked at by every reader: that may be long.
#[test]
fn what_cannot_be_opened_is_not_tried_by_every_reader() {
    let (door, tried) = (Door::default(), Cell::new(0));
    let may_open = || {
        tried.set(tried.get() + 1);
        false
    };
    (0..60).for_each(|_| door.count_read(false, may_open));
    assert!((1..=20).contains(&tried.get()) && !door.is_open(), "{} of 60", tried.get());
}
