//! Schedules of an O2-Tree: rotations, merges and borrowing under readers, writers and scans.
//!
//! The parent names the map: `type Ints = …`, whose blocks hold four entries.

use super::Ints;
use super::scenarios::{explore, ints, together};
use shuttle::sync::Arc;

/// Full blocks with keys 10 apart, under an inner tree as low as it can be.
fn full(blocks: u64) -> Arc<Ints> {
    Arc::new(Ints::bulk_load((1..=4 * blocks).map(|k| (k * 10, k * 10)), 1.0))
}

/// With nobody active: all problems are solved, and the tree is a red-black tree over the same entries.
fn assert_balanced(map: &Arc<Ints>, entries: usize) {
    map.rebalance();
    map.check().unwrap();
    assert_eq!(map.range(..).count(), entries);
    assert!(map.range_rev(..).map(|(k, _)| k).is_sorted_by(|a, b| a > b));
}

/// Rising keys rotate the tree to the left, again and again, while readers come down on both sides.
#[test]
fn rotations_and_readers() {
    explore(|| {
        let map = ints((1..=12).map(|k| k * 10));
        let rotated = map.stats().rotations;
        together(
            &map,
            vec![
                Box::new(|m| (13..=24).for_each(|k| assert_eq!(m.insert(k * 10, k), None))),
                Box::new(|m| [10, 60, 90, 120].into_iter().for_each(|k| assert_eq!(m.get(k), Some(k)))),
                Box::new(|m| [120, 50].into_iter().for_each(|k| assert_eq!(m.get(k), Some(k)))),
            ],
        );
        assert!(map.stats().rotations > rotated);
        assert_balanced(&map, 24);
    });
}

/// Falling keys split blocks in the middle of the tree, so that red nodes are inner grandchildren.
#[test]
fn double_rotations_and_writers() {
    explore(|| {
        let map = full(4);
        together(
            &map,
            vec![
                Box::new(|m| (81..=88).rev().for_each(|k| assert_eq!(m.insert(k, k), None))),
                Box::new(|m| (41..=48).for_each(|k| assert_eq!(m.insert(k, k), None))),
            ],
        );
        assert_balanced(&map, 32);
    });
}

/// A block split while the rebalancer turns its family around: the parent of the block changes under its splitter.
#[test]
fn rotation_and_split() {
    explore(|| {
        let map = full(6);
        together(
            &map,
            vec![
                Box::new(|m| (241..=249).for_each(|k| assert_eq!(m.insert(k, k), None))),
                Box::new(|m| (201..=204).for_each(|k| assert_eq!(m.insert(k, k), None))),
                Box::new(|m| (161..=162).for_each(|k| assert_eq!(m.insert(k, k), None))),
            ],
        );
        assert_balanced(&map, 39);
    });
}

/// Blocks merge while readers look for keys of both.
#[test]
fn merge_and_readers() {
    explore(|| {
        let map = full(3);
        together(
            &map,
            vec![
                Box::new(|m| [10, 20, 50, 60, 70].into_iter().for_each(|k| assert_eq!(m.remove(k), Some(k)))),
                Box::new(|m| [40, 80, 40, 80].into_iter().for_each(|k| assert_eq!(m.get(k), Some(k)))),
                Box::new(|m| assert_eq!((m.get(120), m.floor(119)), (Some(120), Some(110)))),
            ],
        );
        assert!(map.stats().merges > 0);
        assert_balanced(&map, 7);
    });
}

/// Keys are written into a block that is being merged away.
#[test]
fn merge_and_insert() {
    explore(|| {
        let map = full(3);
        together(
            &map,
            vec![
                Box::new(|m| [90, 100, 110].into_iter().for_each(|k| assert_eq!(m.remove(k), Some(k)))),
                Box::new(|m| [50, 60, 70].into_iter().for_each(|k| assert_eq!(m.remove(k), Some(k)))),
                Box::new(|m| {
                    assert_eq!(m.insert(95, 95), None);
                    assert_eq!(m.insert(65, 65), None);
                    assert_eq!((m.get(95), m.get(65)), (Some(95), Some(65)));
                }),
            ],
        );
        assert_eq!((map.get(95), map.get(65)), (Some(95), Some(65)));
        assert_balanced(&map, 8);
    });
}

/// A block about to be merged is filled and split meanwhile.
#[test]
fn merge_and_split() {
    explore(|| {
        let map = full(4);
        together(
            &map,
            vec![
                Box::new(|m| [60, 70, 80].into_iter().for_each(|k| assert_eq!(m.remove(k), Some(k)))),
                Box::new(|m| (51..=56).for_each(|k| assert_eq!(m.insert(k, k), None))),
            ],
        );
        assert_balanced(&map, 19);
    });
}

/// The boundary between two blocks moves to the right, and to the left, under readers of the keys between.
#[test]
fn borrow_and_readers() {
    explore(|| {
        let map = full(2);
        together(
            &map,
            vec![
                Box::new(|m| [10, 20, 30].into_iter().for_each(|k| assert_eq!(m.remove(k), Some(k)))),
                Box::new(|m| [50, 60, 40].into_iter().for_each(|k| assert_eq!(m.get(k), Some(k)))),
                Box::new(|m| {
                    assert_eq!(m.floor(59), Some(50));
                    assert_eq!(m.below(60), Some(50));
                }),
            ],
        );
        assert!(map.stats().borrows > 0);
        assert_balanced(&map, 5);
    });
}

/// Entries borrowed to the right, while others are written there.
#[test]
fn borrow_and_writers() {
    explore(|| {
        let map = full(2);
        together(
            &map,
            vec![
                Box::new(|m| [80, 70, 60].into_iter().for_each(|k| assert_eq!(m.remove(k), Some(k)))),
                Box::new(|m| {
                    assert_eq!(m.insert(45, 45), None);
                    assert_eq!(m.remove(40), Some(40));
                    assert_eq!((m.get(45), m.get(40)), (Some(45), None));
                }),
            ],
        );
        assert_balanced(&map, 5);
    });
}

/// A scan stands on a block whose neighbour borrows, merges, and dies.
#[test]
fn merge_and_scans() {
    explore(|| {
        let map = full(5);
        together(
            &map,
            vec![
                Box::new(|m| {
                    let keys: Vec<u64> = m.range(..).map(|(k, _)| k).collect();
                    assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
                    assert!([10, 80, 120, 200].iter().all(|stays| keys.contains(stays)), "{keys:?}");
                }),
                Box::new(|m| {
                    let keys: Vec<u64> = m.range_rev(..).map(|(k, _)| k).collect();
                    assert!(keys.is_sorted_by(|a, b| a > b), "{keys:?}");
                    assert!([10, 80, 120, 200].iter().all(|stays| keys.contains(stays)), "{keys:?}");
                }),
                Box::new(|m| {
                    let gone = [50, 60, 70, 90, 100, 110, 40, 30, 20];
                    gone.into_iter().for_each(|k| assert_eq!(m.remove(k), Some(k)));
                }),
            ],
        );
        assert!(map.stats().merges > 0);
        assert_balanced(&map, 11);
    });
}

/// Two threads empty the tree from both ends: overweight nodes meet, and the last block is the root again.
#[test]
fn the_tree_shrinks_to_one_block() {
    explore(|| {
        let map = full(5);
        together(
            &map,
            vec![
                Box::new(|m| (1..=10).for_each(|k| assert_eq!(m.remove(k * 10), Some(k * 10)))),
                Box::new(|m| (11..=20).rev().for_each(|k| assert_eq!(m.remove(k * 10), Some(k * 10)))),
            ],
        );
        assert_balanced(&map, 0);
        assert_eq!((map.stats().blocks, map.stats().height), (1, 0));
    });
}

/// One thread grows the tree on the right while another shrinks it on the left: every rule of balance has its turn.
#[test]
fn growth_and_shrinkage() {
    explore(|| {
        let map = full(6);
        together(
            &map,
            vec![
                Box::new(|m| (1..=12).for_each(|k| assert_eq!(m.remove(k * 10), Some(k * 10)))),
                Box::new(|m| (25..=36).for_each(|k| assert_eq!(m.insert(k * 10, k), None))),
                Box::new(|m| [130, 180, 240].into_iter().for_each(|k| assert_eq!(m.get(k), Some(k)))),
            ],
        );
        assert_balanced(&map, 24);
    });
}
