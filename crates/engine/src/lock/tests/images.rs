//! Before-images: order, stamps, removal, colliding names, and readers against writers.

use super::*;
use crate::version::Version;
use foreshore_base::Lsn;
use foreshore_base::sync::{AtomicU64, Ordering::*};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::thread;
use std::time::{Duration, Instant};

fn image(key: &[u8], writer: u64, replaced: u64) -> Image {
    let bytes = replaced.to_be_bytes();
    let row = ImageRow::new(key, (!replaced.is_multiple_of(2)).then_some(&bytes));
    Image { table: TABLE, writer, slot: writer as u16, replaced, row }
}

/// Writer, what it replaced, and its commit, of each image of a key, as shown.
fn shown(table: &KeyTable, key: &[u8]) -> Vec<(u64, u64, Option<u64>)> {
    let mut shown = Vec::new();
    let end = table.images(table.name(TABLE, key), TABLE, key, |image| {
        assert_eq!(image.slot, image.writer as u16);
        assert_eq!(image.value.is_some(), image.replaced % 2 == 1);
        shown.push((image.writer, image.replaced, image.commit));
        ControlFlow::<()>::Continue(())
    });
    assert_eq!(end, None);
    shown
}

/// What a writer that commits there leaves to a snapshot that was opened just before.
fn stamp(commit: u64) -> Option<CommitStamp> {
    Some(CommitStamp { commit: Lsn(commit), newest: Lsn(commit) })
}

#[test]
fn newest_first_until_the_visitor_has_seen_enough() {
    let table = table(1);
    let name = table.name(TABLE, b"key");
    assert_eq!(shown(&table, b"key"), []);
    for writer in 1..=3 {
        table.push_image(name, image(b"key", writer, writer - 1));
    }
    assert_eq!(shown(&table, b"key"), [(3, 2, None), (2, 1, None), (1, 0, None)]);
    let second = table.images(name, TABLE, b"key", |image| match image.writer {
        2 => ControlFlow::Break(image.value.map(|value| value.to_vec())),
        _ => ControlFlow::Continue(()),
    });
    assert_eq!(second, Some(Some(1u64.to_be_bytes().to_vec())));
}

#[test]
fn stamps_and_removal_concern_one_writer() {
    let table = table(1);
    let name = table.name(TABLE, b"key");
    table.push_image(name, image(b"key", 1, 0));
    table.stamp(name, 1, 55);
    table.push_image(name, image(b"key", 2, 1));
    table.push_image(name, image(b"key", 2, 2));
    table.stamp(name, 2, 77);
    table.push_image(name, image(b"key", 3, 2));
    let committed = [(2, 2, Some(77)), (2, 1, Some(77)), (1, 0, Some(55))];
    assert_eq!(shown(&table, b"key"), [&[(3, 2, None)], &committed[..]].concat());
    let before = table.image_bytes();
    table.drop_image(name, (TABLE, b"key"), 3);
    assert!(table.image_bytes() < before);
    assert_eq!(shown(&table, b"key"), committed);
    table.drop_image(name, (TABLE, b"key"), 3);
    assert!(table.check_empty().unwrap_err().contains("3 images"));
    table.clear_images(name, Lsn(77), Lsn(78));
    table.check_empty().unwrap();
}

/// Who undoes a row without an image drops that of no other, whatever their names.
#[test]
fn rows_of_one_name_drop_their_own_images() {
    let table = KeyTable::with_colliding_names(4, 2, 0);
    let name = table.name(TABLE, b"key");
    table.push_image(name, image(b"key", 7, 0));
    table.drop_image(name, (TABLE, b"other"), 7);
    assert_eq!(shown(&table, b"key"), [(7, 0, None)]);
    table.drop_image(name, (TABLE, b"key"), 7);
    table.check_empty().unwrap();
}

/// I3: what was committed below the horizon goes at once, and whoever comes for it later walks over nothing.
#[test]
fn images_go_when_no_snapshot_needs_them() {
    let table = table(1);
    let name = table.name(TABLE, b"key");
    let commits = [10, 20, 30, 40];
    for commit in commits {
        table.push_image(name, image(b"key", commit, commit));
        table.stamp(name, commit, commit);
    }
    let shown_commits = || shown(&table, b"key").iter().filter_map(|shown| shown.2).collect::<Vec<_>>();
    table.push_image(name, image(b"key", 50, 50));
    table.clear_images(name, Lsn(10), Lsn(30));
    assert_eq!(shown_commits(), [40, 30]);
    table.clear_images(name, Lsn(20), Lsn(50));
    assert_eq!(shown_commits(), [40, 30], "it went with the other");
    // One that is stamped late, below what was cleared meanwhile.
    table.clear_images(name, Lsn(30), Lsn(60));
    table.stamp(name, 50, 55);
    assert_eq!(shown_commits(), [55]);
    table.push_image(name, image(b"key", 61, 61));
    table.clear_images(name, Lsn(55), Lsn(60));
    assert_eq!(shown(&table, b"key"), [(61, 61, None)], "it is found");
    table.drop_image(name, (TABLE, b"key"), 61);
    table.check_empty().unwrap();
}

/// What a writer has in one bucket is stamped, or goes, with the first of its names there: the others find nothing to do,
/// however many there are. Other writers' images stay as they are.
#[test]
fn the_images_of_a_writer_end_together() {
    let table = KeyTable::new(0, 4); // one bucket
    let keys: Vec<[u8; 1]> = (0..100).map(|key| [key]).collect();
    let names: Vec<Name> = keys.iter().map(|key| table.name(TABLE, key)).collect();
    let push = |writer| {
        (0..100)
            .filter(|at| *at % 2 == writer as usize % 2)
            .for_each(|at| table.push_image(names[at], image(&keys[at], writer, 0)));
    };
    let stamped = |writer| {
        let commits =
            |key| shown(&table, key).into_iter().filter(|shown| shown.0 == writer && shown.2.is_some());
        keys.iter().flat_map(|key| commits(key)).count()
    };
    let end = |writer, stamp: Option<CommitStamp>| {
        let finish = |name: &Name| table.finish(A, *name, writer, stamp, &mut Spares::default()).dropped;
        table.count_dropped(A, names.iter().map(finish).sum());
    };
    push(11);
    push(12);
    table.finish(A, names[0], 12, stamp(50), &mut Spares::default());
    assert_eq!([11, 12].map(stamped), [0, 50], "with the first name");
    end(12, stamp(50));
    push(14); // changes the same rows
    end(14, stamp(60));
    assert_eq!([11, 12, 14].map(stamped), [0, 50, 50]);
    end(11, None);
    assert_eq!(shown(&table, &keys[1]), [], "the rows of 11");
    assert_eq!([12, 14].map(stamped), [50, 50]);
    table.clear_images(names[0], Lsn(50), Lsn(61));
    table.check_empty().unwrap();
}

/// So it is with one who changes the same rows as another before it, whose images have to stay.
#[test]
fn a_writer_walks_once_over_what_was_there_before_it() {
    const KEYS: u64 = 30_000;
    let table = KeyTable::new(0, 4); // one bucket
    let change_all = |writer: u64| {
        let keys = || (0..KEYS).map(u64::to_be_bytes);
        keys().for_each(|key| table.push_image(table.name(TABLE, &key), image(&key, writer, 0)));
        let begun = Instant::now();
        let commit = stamp(writer + 1);
        keys().for_each(|key| {
            _ = table.finish(A, table.name(TABLE, &key), writer, commit, &mut Spares::default())
        });
        begun.elapsed()
    };
    let (alone, behind_another) = (change_all(10), change_all(20));
    assert!(behind_another < Duration::from_millis(500), "{behind_another:?}, and {alone:?} alone");
    table.clear_images(table.name(TABLE, b""), Lsn(21), Lsn(22));
    table.check_empty().unwrap();
}

/// Commits a change of a row, beside a snapshot at `newest`. Returns whether an image was kept for it.
fn change(table: &KeyTable, key: &[u8], (writer, replaced): (u64, u64), newest: u64) -> bool {
    let name = table.name(TABLE, key);
    table.push_image(name, image(key, writer, replaced));
    let stamp = CommitStamp { commit: Lsn(writer + 2), newest: Lsn(newest) };
    let finished = table.finish(A, name, writer, Some(stamp), &mut Spares::default());
    table.count_dropped(A, finished.dropped);
    table.count_kept(A, finished.stamped);
    finished.kept
}

/// The images of a row: who replaced what, and until when it was seen.
fn told(table: &KeyTable, key: &[u8]) -> Vec<(u64, u64, Option<u64>)> {
    let mut told = Vec::new();
    table.images(table.name(TABLE, key), TABLE, key, |image| {
        assert_eq!(image.value.is_some(), image.replaced % 2 == 1);
        told.push((image.writer, image.replaced, image.commit));
        ControlFlow::<()>::Continue(())
    });
    told
}

/// I6: what no snapshot sees leaves no image, and who comes from the newest version finds the image that is needed.
#[test]
fn what_no_snapshot_sees_leaves_no_image() {
    let table = table(1);
    let key = b"key";
    assert!(change(&table, key, (10, 5), 8), "the snapshot at 8 sees what was there before it");
    let bytes = table.image_bytes();
    assert!(!change(&table, key, (20, 10), 8));
    assert_eq!(told(&table, key), [(20, 5, Some(12))]);
    assert_eq!((table.image_bytes(), table.kept_bytes()), (bytes, bytes));
    assert!(change(&table, key, (30, 20), 25), "the snapshot at 25 sees the version of 20");
    assert!(!change(&table, key, (40, 30), 25));
    assert_eq!(told(&table, key), [(40, 20, Some(32)), (20, 5, Some(12))]);
    assert!(!change(&table, key, (50, 40), 8), "the later snapshot has closed");
    assert_eq!(told(&table, key), [(50, 5, Some(12))], "and what it saw goes too");
    let (name, alone) = (table.name(TABLE, key), Version::autocommit(Lsn(60)).author());
    assert!(!table.take_over(name, TABLE, key, alone, Lsn(55)), "the snapshot at 55 sees the version of 50");
    assert!(!table.take_over(name, TABLE, b"other", alone, Lsn(8)));
    assert!(table.take_over(name, TABLE, key, alone, Lsn(8)));
    assert_eq!(told(&table, key), [(alone, 5, Some(12))]);
    assert_eq!((table.image_bytes(), table.kept_bytes()), (bytes, bytes));
    table.clear_images(name, Lsn(12), Lsn(13));
    table.check_empty().unwrap();
    assert_eq!(table.kept_bytes(), 0);
}

/// I6 beside I5: an image that has taken over a later writer stays where it was, and hides none of those who began before its
/// commit, or pushed theirs before it.
#[test]
fn who_takes_over_hides_nobody() {
    for alone in [false, true] {
        let table = KeyTable::new(0, 4); // one bucket
        let (name, other) = (table.name(TABLE, b"key"), table.name(TABLE, b"other"));
        let push_other = || table.push_image(other, image(b"other", 35, 0));
        let replaced = if alone {
            push_other();
            let at = Version::autocommit(Lsn(32)).author();
            table.push_image(name, Image { slot: 0, ..image(b"key", at, 0) });
            at
        } else {
            assert!(change(&table, b"key", (30, 0), 8));
            push_other();
            30
        };
        assert!(!change(&table, b"key", (40, replaced), 8));
        assert_eq!(told(&table, b"key"), [(40, 0, Some(32))]);
        table.stamp(other, 35, 50);
        assert_eq!(told(&table, b"other"), [(35, 0, Some(50))], "alone {alone}");
        table.clear_images(name, Lsn(32), Lsn(51));
        table.check_empty().unwrap();
    }
}

/// I6 for all rows of a transaction in one chain, also for those that it meets on the way to another name, which has no image.
#[test]
fn rows_that_are_met_are_looked_after_too() {
    let table = KeyTable::new(0, 4); // one bucket
    let rows = [(b"a", 10), (b"b", 11)];
    rows.iter().for_each(|(key, writer)| assert!(change(&table, *key, (*writer, 5), 8)));
    let bytes = table.image_bytes();
    rows.iter().for_each(|(key, writer)| table.push_image(table.name(TABLE, *key), image(*key, 20, *writer)));
    let stamp = CommitStamp { commit: Lsn(22), newest: Lsn(8) };
    let finished = table.finish(A, table.name(TABLE, b"read"), 20, Some(stamp), &mut Spares::default());
    table.count_dropped(A, finished.dropped);
    table.count_kept(A, finished.stamped);
    assert!(!finished.kept);
    rows.iter().for_each(|(key, writer)| assert_eq!(told(&table, *key), [(20, 5, Some(writer + 2))]));
    assert_eq!((table.image_bytes(), table.kept_bytes()), (bytes, bytes));
}

/// An image that has taken over keeps its commit, when its new writer comes by again for another of its names.
#[test]
fn who_takes_over_keeps_its_commit() {
    let table = KeyTable::new(0, 4); // one bucket
    let [first, second] = [b"a", b"b"].map(|key| table.name(TABLE, key));
    assert!(change(&table, b"b", (11, 5), 8));
    assert!(change(&table, b"a", (18, 5), 8)); // commits after the next writer began: so that one does not see its chain to the end
    table.push_image(first, image(b"a", 19, 18));
    table.push_image(second, image(b"b", 19, 11));
    let stamp = Some(CommitStamp { commit: Lsn(24), newest: Lsn(8) });
    for name in [first, second] {
        table.count_dropped(A, table.finish(A, name, 19, stamp, &mut Spares::default()).dropped);
    }
    assert_eq!(told(&table, b"a"), [(19, 5, Some(20))]);
    assert_eq!(told(&table, b"b"), [(19, 5, Some(13))]);
    table.clear_images(first, Lsn(20), Lsn(21));
    table.check_empty().unwrap();
}

/// Only a row's own images tell of it.
#[test]
fn keys_of_one_name_do_not_take_over() {
    let table = KeyTable::with_colliding_names(4, 2, 0);
    assert!(change(&table, b"one", (10, 5), 8));
    assert!(change(&table, b"two", (20, 10), 8));
    assert_eq!((told(&table, b"one").len(), told(&table, b"two").len()), (1, 1));
    let name = table.name(TABLE, b"one");
    assert!(!table.take_over(name, TABLE, b"one", 77, Lsn(8)), "it is not at the front");
    assert!(table.is_value_kept(name, TABLE, b"one") && !table.is_value_kept(name, TABLE, b"two"));
    table.forget_images(name, TABLE, b"two");
    assert_eq!((told(&table, b"one").len(), told(&table, b"two").len()), (1, 0));
}

/// Keys that share a name share locks, never images.
#[test]
fn keys_of_one_name_keep_their_images_apart() {
    let table = KeyTable::with_colliding_names(4, 2, 0);
    let name = table.name(TABLE, b"one");
    assert_eq!(name, table.name(TABLE, b"two"));
    table.push_image(name, image(b"one", 1, 0));
    table.push_image(name, image(b"two", 2, 1));
    table.push_image(name, Image { table: TableId(8), ..image(b"one", 3, 2) });
    assert_eq!(shown(&table, b"one"), [(1, 0, None)]);
    assert_eq!(shown(&table, b"two"), [(2, 1, None)]);
    assert_eq!(shown(&table, b"three"), []);
    assert_eq!(table.try_acquire(A, name, KeyMode::Exclusive, NONE), Some(true));
    assert_eq!(table.try_acquire(B, table.name(TABLE, b"two"), KeyMode::Shared, NONE), None);
}

#[test]
fn bytes_count_keys_and_values() {
    let table = table(1);
    let name = table.name(TABLE, b"key");
    let value =
        |bytes: usize| Image { row: ImageRow::new(b"key", Some(&vec![0; bytes])), ..image(b"key", 1, 1) };
    table.push_image(name, value(0));
    let small = table.image_bytes();
    table.push_image(name, value(1000));
    assert_eq!(table.image_bytes(), 2 * small + 1000);
    table.push_image(table.name(TABLE, b"absent"), image(b"absent", 1, 0));
    assert!(table.image_bytes() > 2 * small + 1000 + 6);
}

/// A chain is freed without recursion.
#[test]
fn a_long_chain_does_not_overflow_the_stack() {
    for drop_first in [true, false] {
        let table = table(1);
        let name = table.name(TABLE, b"key");
        for version in 0..200_000 {
            table.push_image(name, image(b"key", 1, version));
        }
        if drop_first {
            let dropped = table.finish(A, name, 1, None, &mut Spares::default()).dropped;
            table.count_dropped(A, dropped);
            table.check_empty().unwrap();
        }
    }
}

/// Counts itself as done however it ends, so that those who wait for it end too.
struct CountsWhenDone<'a>(&'a AtomicU64);

impl Drop for CountsWhenDone<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

const KEYS: u64 = 4;

/// Changes one key many times, keeping the images of the last changes. Begins and commits are at places of one log.
fn change_often(table: &KeyTable, log: &AtomicU64, key: u64) {
    const ROUNDS: u64 = 20_000;
    const KEPT: usize = 8;
    let name = table.name(TABLE, &key.to_be_bytes());
    let clear = |commit| table.clear_images(name, Lsn(commit), Lsn(commit + 1));
    let (mut replaced, mut commits) = (0, VecDeque::new());
    for _ in 0..ROUNDS {
        let writer = log.fetch_add(1, SeqCst);
        table.acquire(Owner(key as u16), name, KeyMode::Exclusive, NONE, LONG).unwrap();
        table.push_image(name, image(&key.to_be_bytes(), writer, replaced));
        let commit = log.fetch_add(1, SeqCst);
        table.stamp(name, writer, commit);
        table.release(Owner(key as u16), name);
        replaced = writer;
        commits.push_back(commit);
        if commits.len() > KEPT {
            commits.pop_front().map(clear);
        }
    }
    commits.into_iter().for_each(clear);
}

/// Looks at one key; the newest image must not be older than `newest`. Returns the newest.
fn look(table: &KeyTable, key: u64, newest: u64) -> u64 {
    let shown = shown(table, &key.to_be_bytes());
    for (position, &(writer, replaced, commit)) in shown.iter().enumerate() {
        assert!(commit.map_or(position == 0, |commit| commit > writer), "{shown:?}");
        if let Some(&(older, ..)) = shown.get(position + 1) {
            assert_eq!(replaced, older, "{shown:?}");
        }
    }
    // The last images go oldest first, and others clear those of this key too.
    let newest_now = shown.first().map_or(newest, |&(writer, ..)| writer);
    assert!(newest_now >= newest, "{shown:?}");
    newest_now
}

/// Readers see every chain whole and in order while it is pushed, stamped and dropped: each image replaced what the one
/// below it wrote, and all but the newest are stamped.
#[test]
fn readers_see_whole_chains() {
    let table = KeyTable::with_colliding_names(1, KEYS as usize, 1);
    (0..KEYS).for_each(|key| table.reset(Owner(key as u16), Lsn(key), 1));
    let (log, done) = (AtomicU64::new(1), AtomicU64::new(0));
    thread::scope(|scope| {
        let (table, log, done) = (&table, &log, &done);
        for key in 0..KEYS {
            scope.spawn(move || {
                let _done = CountsWhenDone(done);
                change_often(table, log, key);
            });
        }
        for _ in 0..2 {
            scope.spawn(move || {
                let mut newest = [0; KEYS as usize];
                while done.load(Relaxed) < KEYS {
                    (0..KEYS).for_each(|key| newest[key as usize] = look(table, key, newest[key as usize]));
                }
            });
        }
    });
    table.check_empty().unwrap();
}

/// What a transaction leaves to the next one in its slot is bounded, in all: there are many slots.
#[test]
fn a_slot_keeps_little_memory_of_images() {
    let table = table(1);
    let mut spares = Spares::default();
    for (images, row_bytes) in [(35, 700), (150, 1900), (1000, 20), (150, 1900), (1000, 700)] {
        let keys: Vec<[u8; 4]> = (0..images).map(u32::to_be_bytes).collect();
        let names: Vec<Name> = keys.iter().map(|key| table.name(TABLE, key)).collect();
        for (key, name) in keys.iter().zip(&names) {
            let mut row = spares.row();
            row.begin(key);
            row.set_value(|out| {
                out.resize(out.len() + row_bytes, 7);
                Some(())
            });
            table.push_image_into(*name, Image { row, ..image(key, 12, 11) }, &mut spares);
        }
        for name in names {
            table.count_dropped(A, table.finish(A, name, 12, None, &mut spares).dropped);
        }
        let (held, bytes) = spares.held();
        assert!(held >= 30, "{images} of {row_bytes}: {held}, fewer than a New-Order makes");
        assert!(bytes <= 64 << 10, "{images} of {row_bytes}: {bytes} bytes");
    }
    table.check_empty().unwrap();
}
