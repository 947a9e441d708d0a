//! Buckets that are divided: who comes looks through few requests and images, and finds all that it would find in a whole one.

use super::*;
use crate::lock::bucket::CROWD;
use std::ops::ControlFlow;
use std::thread;

const KEYS: u32 = 2000;

fn image(key: &[u8], writer: u64, replaced: u64) -> Image {
    Image { table: TABLE, writer, slot: 0, replaced, row: ImageRow::new(key, None) }
}

/// Writers of the images of a key, as shown.
fn writers(table: &KeyTable, key: &[u8]) -> Vec<u64> {
    let mut writers = Vec::new();
    table.images(table.name(TABLE, key), TABLE, key, |image| {
        writers.push(image.writer);
        ControlFlow::<()>::Continue(())
    });
    writers
}

/// (Keys that differ in their last byte only would be in buckets side by side.)
fn keys() -> impl Iterator<Item = [u8; 4]> {
    (0..KEYS).map(u32::to_le_bytes)
}

#[test]
fn who_locks_many_rows_has_few_in_each_part() {
    let table = table_of(0, 2); // one bucket
    for key in keys() {
        let name = table.name(TABLE, &key);
        assert!(table.acquire(A, name, KeyMode::Exclusive, NONE, LONG).unwrap().first);
        table.push_image(name, image(&key, 9, 0));
    }
    let (requests, images) = table.longest();
    assert!(requests < 4 * CROWD && images < 4 * CROWD, "{requests} requests, {images} images");
    for key in keys() {
        let name = table.name(TABLE, &key);
        assert_eq!(table.try_acquire(B, name, KeyMode::Shared, NONE), None);
        assert_eq!(writers(&table, &key), [9]);
        assert!(!table.acquire(A, name, KeyMode::Exclusive, NONE, LONG).unwrap().first);
    }
    for key in keys() {
        let name = table.name(TABLE, &key);
        let finished = table.finish(A, name, 9, None, &mut Spares::default());
        table.count_dropped(A, finished.dropped);
    }
    table.check_empty().unwrap();
    assert!(!table.is_divided() && keys().all(|key| !table.may_have_images(table.name(TABLE, &key))));
}

/// Requests and images of one name keep their order when others crowd in.
#[test]
fn order_outlives_a_division() {
    let table = table_of(0, 4);
    let (key, name) = (b"row", table.name(TABLE, b"row"));
    (1..=4).for_each(|writer| table.push_image(name, image(key, writer, writer - 1)));
    table.acquire(A, name, KeyMode::Exclusive, NONE, LONG).unwrap();
    thread::scope(|scope| {
        let waiters = [B, C].map(|owner| {
            let before = table.waiting_on(name);
            let table = &table;
            let waiter = scope.spawn(move || table.acquire(owner, name, KeyMode::Exclusive, NONE, LONG));
            until_waiting(table, name, before + 1);
            waiter
        });
        for key in keys() {
            table.acquire(D, table.name(TABLE, &key), KeyMode::Exclusive, NONE, LONG).unwrap();
        }
        assert!(table.is_divided());
        assert_eq!(writers(&table, key), [4, 3, 2, 1]);
        table.release(A, name);
        let [second, third] = waiters;
        second.join().unwrap().unwrap();
        assert!(!third.is_finished() && table.waiting_on(name) == 1);
        table.release(B, name);
        third.join().unwrap().unwrap();
    });
    table.release(C, name);
    keys().for_each(|key| table.release(D, table.name(TABLE, &key)));
    (1..=4).rev().for_each(|writer| table.drop_image(name, (TABLE, b"row"), writer));
    table.check_empty().unwrap();
    assert!(!table.is_divided());
}

/// Those who clear up know one name of the images that a writer left in one bucket. They find the others, though it was divided since.
#[test]
fn what_was_left_before_a_division_is_cleared() {
    let table = table_of(0, 2);
    let stamp = Some(CommitStamp { commit: Lsn(20), newest: Lsn(20) });
    let left: Vec<_> = keys().take(CROWD).map(|key| (key, table.name(TABLE, &key))).collect();
    left.iter().for_each(|(key, name)| table.push_image(*name, image(key, 10, 0)));
    let finish = |name: Name| table.finish(A, name, 10, stamp, &mut Spares::default());
    let told: Vec<Name> = left.iter().map(|(_, name)| *name).filter(|name| finish(*name).kept).collect();
    assert_eq!(told.len(), 1);
    for key in keys().skip(CROWD) {
        table.push_image(table.name(TABLE, &key), image(&key, 30, 0));
    }
    assert!(table.is_divided());
    table.clear_images(told[0], Lsn(20), Lsn(25));
    let found: Vec<_> = left.iter().flat_map(|(key, _)| writers(&table, key)).collect();
    assert_eq!(found, []);
    for key in keys().skip(CROWD) {
        assert_eq!(writers(&table, &key), [30]);
        table.drop_image(table.name(TABLE, &key), (TABLE, &key), 30);
    }
    table.check_empty().unwrap();
}

/// A row that many want, or that changes often, crowds out nobody.
#[test]
fn one_name_divides_nothing() {
    let table = table_of(0, 40);
    let name = table.name(TABLE, b"row");
    (0..40).for_each(|owner| _ = table.acquire(Owner(owner), name, KeyMode::Shared, NONE, LONG).unwrap());
    (1..=100).for_each(|writer| table.push_image(name, image(b"row", writer, writer - 1)));
    assert!(!table.is_divided());
    (0..40).for_each(|owner| table.release(Owner(owner), name));
    (0..40).for_each(|owner| table.release_shown(Owner(owner)));
    (1..=100).rev().for_each(|writer| table.drop_image(name, (TABLE, b"row"), writer));
    table.check_empty().unwrap();
}
