//! Leaves whose checksums fit, but that lead or belong to the wrong ones: whoever goes along them is told, comes to an end, and costs no
//! other table a leaf.

mod common;
mod crafting;

use common::rows;
use crafting::*;
use foreshore::{Database, Error};
use foreshore_io::{SimDisk, sim::Crash};
use std::ops::Range;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Whoever goes to the right from leaf to leaf is not sent round in a circle for ever.
#[test]
fn leaves_in_a_circle_are_damage() {
    let is_told = |refused: Error| {
        assert!(
            matches!(&refused, Error::Corrupt { detail, .. } if detail.contains("a leaf is missing")),
            "{refused}"
        );
    };
    is_told(use_all(&in_a_circle()).unwrap_err());
    is_dropped_whole(&in_a_circle());
}

/// Nor who goes down: where the index lacks a leaf, the way to it is to the right.
#[test]
fn leaves_in_a_circle_are_damage_to_who_goes_down() {
    let disk = of_many_leaves();
    let missing = with_leaves(&disk, |file, leaves| {
        link(file, leaves[2], leaves[1]);
        page_of(file, leaves[3])
    });
    disk.corrupt(DIRECTORY, |file| append_batch(file, &entry(FREE, &[missing])));
    let table = open(&disk).unwrap().byte_table("t").unwrap();
    let refused = table.range(..).rev().find_map(Result::err).unwrap();
    assert!(
        matches!(&refused, Error::Corrupt { detail, .. } if detail.contains("a leaf is missing")),
        "{refused}"
    );
}

/// Who puts a row looks for the key above it, also in the leaves that follow: not for ever, nor in the leaf that it has latched.
#[test]
fn empty_leaves_in_a_circle_are_damage() {
    for back_to in 0..3 {
        let disk = of_many_leaves();
        with_leaves(&disk, |file, leaves| {
            leaves[1..3].iter().for_each(|leaf| file[leaf + 40..leaf + 42].fill(0)); // their cells
            link(file, leaves[2], leaves[back_to]);
        });
        let db = open(&disk).unwrap();
        let table = db.byte_table("t").unwrap();
        let rows: Vec<_> = table.range(..).map_while(Result::ok).collect();
        let last = &rows.last().unwrap().0;
        let scanner = db.begin().unwrap();
        scanner.bytes(&table).range(..=&rows[1].0[..]).for_each(|row| drop(row.unwrap()));
        let refused = table.put(&[last, &b"+"[..]].concat(), b"").unwrap_err();
        assert!(
            matches!(&refused, Error::Corrupt { detail, .. } if detail.contains("circle")),
            "{back_to}: {refused}"
        );
    }
}

/// Nor does who merges a leaf with the one behind it wait for a latch that he has.
#[test]
fn a_leaf_behind_itself_is_not_waited_for() {
    let disk = of_many_leaves();
    with_leaves(&disk, |file, leaves| link(file, leaves[2], leaves[2]));
    let db = open(&disk).unwrap();
    let table = db.byte_table("t").unwrap();
    let rows: Vec<_> = table.range(..).map_while(Result::ok).collect();
    let (told, done) = mpsc::channel();
    thread::spawn(move || {
        rows.iter().skip(1).for_each(|(key, _)| drop(table.remove(key)));
        told.send(()).unwrap();
    });
    done.recv_timeout(Duration::from_secs(30)).expect("it waits for itself");
}

/// A leaf in use that an entry gives to a table that is no more goes with that table. Its own table lacks it, and frees it no
/// second time: neither when it is dropped nor when leaves are merged.
#[test]
fn a_leaf_given_to_a_dropped_table_is_freed_once() {
    let given_away = || {
        let disk = of_many_leaves();
        let entry =
            with_leaves(&disk, |file, leaves| page(page_of(file, leaves[1]), leaves[1] as u64 / 4096));
        disk.corrupt(DIRECTORY, |file| append_batch(file, &entry));
        disk
    };
    let disk = given_away();
    let db = open(&disk).unwrap();
    assert!(db.drop_table("t").unwrap());
    db.close().unwrap();
    assert_eq!(open(&disk).unwrap().check().unwrap().stray_pages, 0);

    let disk = given_away();
    let db = open(&disk).unwrap();
    let table = db.byte_table("t").unwrap();
    let keys: Vec<_> = (0..20u32).map(|i| i.to_be_bytes()).collect();
    keys[1..].iter().for_each(|key| assert!(table.remove(key).unwrap()));
    drop(table);
    db.close().unwrap();
    assert!(open(&disk).unwrap().byte_table("t").unwrap().get(&keys[0]).unwrap().is_some());
}

/// Damaged leaves go with their table, be they those of its large values: nobody asks what is in them.
#[test]
fn a_table_with_damaged_leaves_is_dropped_whole() {
    let disk = large_and_small();
    disk.corrupt("leaves.db", |file| {
        let is_leaf = |at: &usize| file[*at..].starts_with(b"FL") && file[*at + 32] >= 16;
        let leaves: Vec<_> = (0..file.len()).step_by(4096).filter(is_leaf).collect();
        leaves.into_iter().for_each(|leaf| file[leaf + 100] ^= 1);
    });
    let damaged = open(&disk).unwrap().byte_table("t").unwrap().get(b"row/0000");
    assert!(matches!(damaged, Err(Error::Corrupt { .. })), "{damaged:?}");
    is_dropped_whole(&disk);
}

/// A leaf with changes from a position that the log has not reached is no reason to wait until it has.
#[test]
fn a_leaf_newer_than_the_log_keeps_nobody_waiting() {
    let disk = of_many_leaves();
    with_leaves(&disk, |file, leaves| {
        file[leaves[1] + 16..leaves[1] + 24].copy_from_slice(&u64::to_le_bytes((1 << 51) - 8));
    });
    let (told, done) = mpsc::channel();
    let using = disk.clone();
    thread::spawn(move || {
        let db = open(&using).unwrap();
        let in_memory = db.byte_table("t").unwrap().range(..).count();
        let dropped = db.drop_table("t").and_then(|_| db.checkpoint());
        assert_eq!(in_memory, 190);
        drop(db);
        told.send(dropped)
    });
    let refused = done.recv_timeout(Duration::from_secs(30)).expect("it waits").unwrap_err();
    assert!(matches!(&refused, Error::Poisoned { cause } if cause.contains("the log ends")), "{refused}");
    let db = open(&disk).unwrap();
    assert_eq!((db.tables().unwrap().len(), db.check().unwrap().stray_pages), (0, 0));
}

/// A table neither frees nor absorbs leaves of another, wherever its links lead.
#[test]
fn a_link_to_another_table_costs_it_no_leaf() {
    let linked = || {
        let disk = of_many_leaves();
        let db = open(&disk).unwrap();
        fill(&db.byte_table("u").unwrap());
        db.close().unwrap();
        with_leaves(&disk, |file, leaves| {
            let begins_like_next = |at: &usize| {
                let (leaf, next) = (&file[*at..*at + 4096], &file[leaves[1]..][..4096]);
                let is_same = |part: Range<usize>| leaf[part.clone()] == next[part];
                let same_low_fence = is_same(46..48) && is_same(4092..4096); // its length, its last bytes
                leaf.starts_with(b"FL") && leaf[32] != next[32] && same_low_fence
            };
            let other = (0..file.len()).step_by(4096).find(begins_like_next).unwrap();
            link(file, leaves[0], other);
        });
        disk
    };
    let other_is_whole_after = |using: &dyn Fn(&Database)| {
        let disk = linked();
        let db = open(&disk).unwrap();
        using(&db);
        db.close().unwrap();
        assert_eq!(rows(&open(&disk).unwrap().byte_table("u").unwrap()).len(), 190);
    };
    other_is_whole_after(&|db| assert!(db.drop_table("t").unwrap()));
    other_is_whole_after(&|db| {
        let in_memory = |name| db.byte_table(name).unwrap().range(..).count();
        assert_eq!(["t", "u"].map(in_memory), [190; 2]);
        assert!(db.drop_table("t").unwrap());
    });
    other_is_whole_after(&|db| {
        let table = db.byte_table("t").unwrap();
        (1..20u32).for_each(|i| assert!(table.remove(&i.to_be_bytes()).unwrap()));
    });
}

/// The table `t` is dropped, and none of its leaves stays, whether they are in memory or not.
fn is_dropped_whole(disk: &SimDisk) {
    for in_memory in [false, true] {
        let db = open(&disk.after_crash(Crash::PowerLoss, 1)).unwrap();
        if in_memory {
            db.byte_table("t").unwrap().range(..).for_each(drop);
        }
        assert!(db.drop_table("t").unwrap());
        assert_eq!((db.tables().unwrap().len(), db.check().unwrap().stray_pages), (0, 0));
    }
}

/// A database with a table whose leaves are linked in a circle.
fn in_a_circle() -> SimDisk {
    let disk = large_and_small();
    with_leaves(&disk, |file, leaves| link(file, leaves[1], leaves[0]));
    disk
}
