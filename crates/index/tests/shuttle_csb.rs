//! The CSB+-tree under many schedules: the scenarios of every map, and those of slots and groups.
//!
//! Run: `RUSTFLAGS="--cfg shuttle" cargo test -p foreshore-index --release --test shuttle_csb`.
//! `INDEX_SHUTTLE_ITERATIONS` (default 2000) schedules per scenario and scheduler; a failure prints the schedule.
//! Nodes hold four keys, and groups four nodes. A group given back is reused at once or caught when it is read.
#![cfg(shuttle)]

mod scenarios;

use foreshore_index::CsbMap;
use scenarios::{explore, ints, together};
use shuttle::sync::Arc;

type Ints = CsbMap<u64, 4>;

/// Full leaves in full groups: `leaves` of them, with keys 10 apart.
fn full(leaves: u64) -> Arc<Ints> {
    Arc::new(Ints::bulk_load((1..=4 * leaves).map(|k| (k * 10, k * 10)), 1.0))
}

/// Leaves 1 and 2 of three are shifted while readers look for their keys.
#[test]
fn shift_and_readers() {
    explore(|| {
        let map = full(3);
        together(
            &map,
            vec![
                Box::new(|m| assert_eq!(m.insert(5, 5), None)),
                Box::new(|m| [50, 80].into_iter().for_each(|k| assert_eq!(m.get(k), Some(k)))),
                Box::new(|m| [90, 120].into_iter().for_each(|k| assert_eq!(m.get(k), Some(k)))),
            ],
        );
        assert_eq!((map.stats().shifted, map.stats().group_splits), (2, 0));
    });
}

/// A leaf is shifted while its keys are written and removed.
#[test]
fn shift_and_writers() {
    explore(|| {
        let map = full(3);
        together(
            &map,
            vec![
                Box::new(|m| assert_eq!(m.insert(5, 5), None)),
                Box::new(|m| {
                    assert_eq!(m.remove(100), Some(100));
                    assert_eq!(m.insert(101, 101), None);
                    assert_eq!(m.get(101), Some(101));
                }),
                Box::new(|m| {
                    assert_eq!(m.insert(60, 61), Some(60));
                    assert_eq!(m.get(60), Some(61));
                }),
            ],
        );
        assert_eq!((map.get(100), map.get(101), map.get(60)), (None, Some(101), Some(61)));
    });
}

/// Two leaves of a group split at the same time.
#[test]
fn shift_and_shift() {
    explore(|| {
        let map = full(2);
        together(
            &map,
            vec![
                Box::new(|m| assert_eq!(m.insert(5, 5), None)),
                Box::new(|m| assert_eq!(m.insert(55, 55), None)),
                Box::new(|m| [10, 40, 50, 80].into_iter().for_each(|k| assert_eq!(m.get(k), Some(k)))),
            ],
        );
        assert_eq!(map.range(..).count(), 10);
    });
}

/// A full group splits with its parent, the root: readers and writers on their way to the moved half.
#[test]
fn group_split_and_readers() {
    explore(|| {
        let map = full(4);
        together(
            &map,
            vec![
                Box::new(|m| assert_eq!(m.insert(5, 5), None)),
                Box::new(|m| [90, 130, 160].into_iter().for_each(|k| assert_eq!(m.get(k), Some(k)))),
                Box::new(|m| [150, 100, 120].into_iter().for_each(|k| assert_eq!(m.get(k), Some(k)))),
                Box::new(|m| [140, 110].into_iter().for_each(|k| assert_eq!(m.remove(k), Some(k)))),
            ],
        );
        assert!(map.stats().group_splits >= 1);
    });
}

/// Both halves of a group split on, below a parent that is split by somebody else.
#[test]
fn group_split_and_group_split() {
    explore(|| {
        let map = full(4);
        together(
            &map,
            vec![
                Box::new(|m| [5, 6, 7].into_iter().for_each(|k| assert_eq!(m.insert(k, k), None))),
                Box::new(|m| [125, 126, 127].into_iter().for_each(|k| assert_eq!(m.insert(k, k), None))),
            ],
        );
        assert_eq!(map.range(..).count(), 22);
    });
}

/// An inner node below the root is shifted, and its group of leaves split.
#[test]
fn inner_shift_and_readers() {
    explore(|| {
        let map = full(12);
        together(
            &map,
            vec![
                Box::new(|m| assert_eq!(m.insert(5, 5), None)),
                Box::new(|m| [200, 330, 480].into_iter().for_each(|k| assert_eq!(m.get(k), Some(k)))),
                Box::new(|m| assert_eq!(m.insert(335, 335), None)),
            ],
        );
        assert_eq!(map.get(335), Some(335));
    });
}

/// A scan crosses slots that are shifted under it, and a group that splits.
#[test]
fn scan_and_shift() {
    explore(|| {
        let map = full(4);
        together(
            &map,
            vec![
                Box::new(|m| {
                    let keys: Vec<u64> = m.range(..).map(|(k, _)| k).filter(|k| k % 10 == 0).collect();
                    assert!(keys.iter().copied().eq((1..=16).map(|k| k * 10)), "{keys:?}");
                }),
                Box::new(|m| {
                    let keys: Vec<u64> = m.range_rev(..).map(|(k, _)| k).filter(|k| k % 10 == 0).collect();
                    assert!(keys.iter().copied().eq((1..=16).rev().map(|k| k * 10)), "{keys:?}");
                }),
                Box::new(|m| [5, 45].into_iter().for_each(|k| assert_eq!(m.insert(k, k), None))),
            ],
        );
    });
}

/// A leaf becomes a hole, and the next split to its left takes the slot.
#[test]
fn hole_and_reuse() {
    explore(|| {
        let map = full(4);
        together(
            &map,
            vec![
                Box::new(|m| [90, 100, 110, 120].into_iter().for_each(|k| assert_eq!(m.remove(k), Some(k)))),
                Box::new(|m| assert_eq!(m.insert(5, 5), None)),
                Box::new(|m| {
                    [50, 80, 130].into_iter().for_each(|k| assert_eq!(m.get(k), Some(k)));
                    assert!(matches!(m.get(100), None | Some(100)));
                }),
            ],
        );
        assert_eq!(map.range(..).count(), 13);
    });
}

/// Keys come back into the range that a hole gave away.
#[test]
fn hole_and_inserts() {
    explore(|| {
        let map = full(3);
        together(
            &map,
            vec![
                Box::new(|m| [50, 60, 70, 80].into_iter().for_each(|k| assert_eq!(m.remove(k), Some(k)))),
                Box::new(|m| {
                    assert_eq!(m.insert(65, 65), None);
                    assert_eq!(m.get(65), Some(65));
                }),
                Box::new(|m| {
                    assert_eq!(m.insert(85, 85), None);
                    assert_eq!(m.floor(89), Some(85));
                }),
            ],
        );
        assert_eq!((map.get(65), map.get(85)), (Some(65), Some(85)));
    });
}

/// A whole group of leaves dies with its parent, between neighbours that stay.
#[test]
fn column_and_readers() {
    explore(|| {
        let map = full(9);
        (180..=320).step_by(10).for_each(|k| assert_eq!(map.remove(k), Some(k)));
        assert_eq!(map.insert(175, 175), None);
        together(
            &map,
            vec![
                Box::new(|m| [170, 175].into_iter().for_each(|k| assert_eq!(m.remove(k), Some(k)))),
                Box::new(|m| [160, 330].into_iter().for_each(|k| assert_eq!(m.get(k), Some(k)))),
                Box::new(|m| {
                    assert_eq!(m.insert(200, 200), None);
                    assert_eq!(m.get(200), Some(200));
                }),
            ],
        );
        assert_eq!(map.get(200), Some(200));
    });
}

/// Neighbouring columns die at the same time, and a scan passes.
#[test]
fn columns_and_scan() {
    explore(|| {
        let map = full(13);
        [17, 33].into_iter().for_each(|first| {
            (first + 1..first + 16).for_each(|k| assert_eq!(map.remove(k * 10), Some(k * 10)));
        });
        together(
            &map,
            vec![
                Box::new(|m| assert_eq!(m.remove(170), Some(170))),
                Box::new(|m| assert_eq!(m.remove(330), Some(330))),
                Box::new(|m| {
                    let keys: Vec<u64> = m.range(..).map(|(k, _)| k).collect();
                    assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
                    assert!((1..=16).all(|k| keys.contains(&(k * 10))), "{keys:?}");
                }),
            ],
        );
        assert_eq!(map.range(..).count(), 20);
        assert_eq!(map.stats().groups_per_level, [2, 1, 1]);
    });
}

/// A group of holes is compacted below readers of the one leaf that is left, beside a left neighbour that splits.
#[test]
fn compaction_and_readers() {
    explore(|| {
        let map = full(8);
        (170..=280).step_by(10).for_each(|k| assert_eq!(map.remove(k), Some(k)));
        together(
            &map,
            vec![
                Box::new(|m| assert_eq!(m.insert(295, 295), None)),
                Box::new(|m| [160, 290, 320].into_iter().for_each(|k| assert_eq!(m.get(k), Some(k)))),
                Box::new(|m| assert_eq!(m.insert(165, 165), None)),
            ],
        );
        assert_eq!(map.stats().compactions, 1);
        assert_eq!(map.range(..).count(), 22);
    });
}

/// The root splits inside its group; a second level appears over a split group.
#[test]
fn new_root_and_groups() {
    explore(|| {
        let map = ints([10, 20, 30, 40]);
        together(
            &map,
            vec![
                Box::new(|m| (1..=7).for_each(|k| assert_eq!(m.insert(k, k), None))),
                Box::new(|m| (41..=47).for_each(|k| assert_eq!(m.insert(k, k), None))),
                Box::new(|m| [10, 40].into_iter().for_each(|k| assert_eq!(m.get(k), Some(k)))),
            ],
        );
        assert_eq!(map.range(..).count(), 18);
    });
}
