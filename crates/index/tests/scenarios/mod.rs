//! Schedules of any map of integers: what a descent may meet while nodes split, die and grow a root.
//!
//! The parent names the map: `type Ints = …`, whose nodes hold four keys.

use super::Ints;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::Arc;
use shuttle::thread;
use shuttle::{Config, Runner};

/// Runs `scenario` under many schedules: random ones, and ones with at most three preemptions.
pub fn explore(scenario: impl Fn() + Send + Sync + Copy + 'static) {
    let iterations =
        std::env::var("INDEX_SHUTTLE_ITERATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(2000);
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    Runner::new(RandomScheduler::new(iterations), config.clone()).run(scenario);
    Runner::new(PctScheduler::new(3, iterations), config).run(scenario);
}

/// A map of these keys, each with itself as value.
pub fn ints(keys: impl IntoIterator<Item = u64>) -> Arc<Ints> {
    let map = Ints::new();
    keys.into_iter().for_each(|key| assert_eq!(map.insert(key, key), None));
    Arc::new(map)
}

/// Runs the parts at the same time, each in its own thread, and checks the map afterwards.
pub fn together(map: &Arc<Ints>, parts: Vec<Box<dyn FnOnce(&Ints) + Send>>) {
    let threads: Vec<_> = parts
        .into_iter()
        .map(|part| {
            let map = map.clone();
            thread::spawn(move || part(&map))
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    map.check().unwrap();
}

/// A key that is there is found while its leaf splits.
#[test]
fn split_and_reader() {
    explore(|| {
        let map = ints([10, 20, 30, 40]);
        together(
            &map,
            vec![
                Box::new(|m| assert_eq!(m.insert(25, 25), None)),
                Box::new(|m| assert_eq!(m.get(40), Some(40))),
                Box::new(|m| assert_eq!(m.get(30), Some(30))),
            ],
        );
    });
}

/// Two splits of neighbouring leaves post their separators in either order.
#[test]
fn split_and_split() {
    explore(|| {
        let map = ints((1..=8).map(|k| k * 10));
        together(
            &map,
            vec![
                Box::new(|m| [21, 22, 23].into_iter().for_each(|k| assert_eq!(m.insert(k, k), None))),
                Box::new(|m| [61, 62, 63].into_iter().for_each(|k| assert_eq!(m.insert(k, k), None))),
            ],
        );
        assert_eq!(map.range(..).count(), 14);
    });
}

/// Two threads grow the first root; a descent from either root finds everything.
#[test]
fn new_root_and_descent() {
    explore(|| {
        let map = ints([10, 20, 30, 40]);
        together(
            &map,
            vec![
                Box::new(|m| [11, 12].into_iter().for_each(|k| _ = m.insert(k, k))),
                Box::new(|m| [41, 42, 43].into_iter().for_each(|k| _ = m.insert(k, k))),
                Box::new(|m| assert_eq!((m.get(10), m.get(40)), (Some(10), Some(40)))),
            ],
        );
    });
}

/// A root of the second level appears below readers and writers (a B+-tree's first root is full before).
#[test]
fn second_root_and_descent() {
    explore(|| {
        let map = ints((1..=24).map(|k| k * 10));
        together(
            &map,
            vec![
                Box::new(|m| [241, 242, 243, 244, 245].into_iter().for_each(|k| _ = m.insert(k, k))),
                Box::new(|m| [11, 12, 13].into_iter().for_each(|k| _ = m.insert(k, k))),
                Box::new(|m| [10, 120, 240].into_iter().for_each(|k| assert_eq!(m.get(k), Some(k)))),
            ],
        );
    });
}

/// A leaf is emptied and unlinked while readers look for keys in it and beside it, and it is reused.
#[test]
fn unlink_and_reader() {
    explore(|| {
        let map = ints((1..=12).map(|k| k * 10));
        together(
            &map,
            vec![
                Box::new(|m| {
                    [30, 40, 50, 60].into_iter().for_each(|k| assert_eq!(m.remove(k), Some(k)));
                    [111, 112, 113].into_iter().for_each(|k| assert_eq!(m.insert(k, k), None));
                }),
                Box::new(|m| [20, 70, 80].into_iter().for_each(|k| assert_eq!(m.get(k), Some(k)))),
                Box::new(|m| assert!(matches!(m.get(50), None | Some(50)))),
            ],
        );
    });
}

/// Keys of a dying leaf's range come back at once: they must land where everybody looks.
#[test]
fn unlink_and_insert() {
    explore(|| {
        let map = ints((1..=12).map(|k| k * 10));
        together(
            &map,
            vec![
                Box::new(|m| [30, 40].into_iter().for_each(|k| assert_eq!(m.remove(k), Some(k)))),
                Box::new(|m| {
                    assert_eq!(m.insert(35, 35), None);
                    assert_eq!(m.get(35), Some(35));
                }),
                Box::new(|m| {
                    assert_eq!(m.insert(45, 45), None);
                    assert_eq!(m.get(45), Some(45));
                }),
            ],
        );
        assert_eq!((map.get(35), map.get(45)), (Some(35), Some(45)));
    });
}

/// Neighbouring leaves are emptied by different threads, up to whole columns.
#[test]
fn unlink_and_unlink() {
    explore(|| {
        let map = ints((1..=30).map(|k| k * 10));
        together(
            &map,
            vec![
                Box::new(|m| (1..=10).for_each(|k| assert_eq!(m.remove(k * 10), Some(k * 10)))),
                Box::new(|m| (11..=21).rev().for_each(|k| assert_eq!(m.remove(k * 10), Some(k * 10)))),
            ],
        );
        assert!(map.range(..).map(|(k, _)| k).eq((22..=30).map(|k| k * 10)));
    });
}

/// Two neighbouring leaves die at the same time, each having been found beside the other.
#[test]
fn neighbours_die() {
    explore(|| {
        let map = ints((1..=12).map(|k| k * 10));
        [50, 60, 80, 90].into_iter().for_each(|k| assert_eq!(map.remove(k), Some(k)));
        together(
            &map,
            vec![
                Box::new(|m| assert_eq!(m.remove(40), Some(40))),
                Box::new(|m| assert_eq!(m.remove(70), Some(70))),
            ],
        );
        assert!(map.range(..).map(|(k, _)| k).eq([10, 20, 30, 100, 110, 120]));
    });
}

/// The right neighbour of a dying leaf splits.
#[test]
fn unlink_and_split() {
    explore(|| {
        let map = ints((1..=10).map(|k| k * 10));
        together(
            &map,
            vec![
                Box::new(|m| [30, 40].into_iter().for_each(|k| assert_eq!(m.remove(k), Some(k)))),
                Box::new(|m| [51, 52, 53, 54].into_iter().for_each(|k| assert_eq!(m.insert(k, k), None))),
            ],
        );
        assert_eq!(map.range(..).count(), 12);
    });
}

/// A scan hands out, in order and once, what is there throughout, whatever splits and dies.
#[test]
fn scan_and_updates() {
    explore(|| {
        let map = ints((1..=12).map(|k| k * 10));
        together(
            &map,
            vec![
                Box::new(|m| {
                    let keys: Vec<u64> = m.range(..).map(|(k, _)| k).collect();
                    assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
                    for stays in [10, 20, 70, 80, 120] {
                        assert!(keys.contains(&stays), "{stays} of {keys:?}");
                    }
                }),
                Box::new(|m| [71, 72, 73, 74].into_iter().for_each(|k| _ = m.insert(k, k))),
                Box::new(|m| [30, 40, 50, 60].into_iter().for_each(|k| _ = m.remove(k))),
            ],
        );
    });
}

/// The same downwards.
#[test]
fn reverse_scan_and_updates() {
    explore(|| {
        let map = ints((1..=12).map(|k| k * 10));
        together(
            &map,
            vec![
                Box::new(|m| {
                    let keys: Vec<u64> = m.range_rev(..).map(|(k, _)| k).collect();
                    assert!(keys.is_sorted_by(|a, b| a > b), "{keys:?}");
                    for stays in [10, 20, 70, 80, 120] {
                        assert!(keys.contains(&stays), "{stays} of {keys:?}");
                    }
                }),
                Box::new(|m| [71, 72, 73, 74].into_iter().for_each(|k| _ = m.insert(k, k))),
                Box::new(|m| [30, 40, 50, 60].into_iter().for_each(|k| _ = m.remove(k))),
            ],
        );
    });
}

/// Scans hand out nothing beyond their bounds when the leaf that they begin in splits.
#[test]
fn bounded_scans_and_split() {
    explore(|| {
        let map = ints([10, 20, 30, 40]);
        together(
            &map,
            vec![
                Box::new(|m| assert_eq!(m.insert(25, 25), None)),
                Box::new(|m| assert!(m.range(35..).map(|(k, _)| k).eq([40]))),
                Box::new(|m| {
                    assert!(m.range_rev(..35).map(|(k, _)| k).filter(|k| *k != 25).eq([30, 20, 10]))
                }),
            ],
        );
    });
}

/// A leaf dies, and keys come back into its range, which is another's by then, while a scan is on its way down.
#[test]
fn reverse_scan_and_a_range_that_moves() {
    explore(|| {
        let map = ints((1..=12).map(|k| k * 10));
        [50, 60].into_iter().for_each(|k| assert_eq!(map.remove(k), Some(k)));
        together(
            &map,
            vec![
                Box::new(|m| {
                    let keys: Vec<u64> = m.range_rev(..).map(|(k, _)| k).collect();
                    assert!(keys.is_sorted_by(|a, b| a > b), "{keys:?}");
                    assert!([10, 30, 70, 120].iter().all(|stays| keys.contains(stays)), "{keys:?}");
                }),
                Box::new(|m| {
                    assert_eq!(m.remove(40), Some(40));
                    assert_eq!(m.insert(45, 45), None);
                }),
            ],
        );
    });
}

/// `floor` and `below` find a neighbour that stays, across splits and dying leaves.
#[test]
fn floor_and_updates() {
    explore(|| {
        let map = ints((1..=12).map(|k| k * 10));
        together(
            &map,
            vec![
                Box::new(|m| {
                    assert_eq!(m.floor(25), Some(20));
                    assert!(m.floor(65).is_some_and(|v| (20..=65).contains(&v)));
                    assert!(m.below(70).is_some_and(|v| (20..70).contains(&v)));
                    assert_eq!(m.floor(80), Some(80));
                }),
                Box::new(|m| [30, 40, 50, 60].into_iter().for_each(|k| _ = m.remove(k))),
                Box::new(|m| [71, 72, 73].into_iter().for_each(|k| _ = m.insert(k, k))),
            ],
        );
        assert_eq!(map.below(70), Some(20));
    });
}

/// Two inserts and a removal of one key: somebody sees each value exactly once.
#[test]
fn one_key_is_linear() {
    explore(|| {
        let map = ints([10, 20, 30, 40]);
        let (a, b, c) = (map.clone(), map.clone(), map.clone());
        let first = thread::spawn(move || a.insert(25, 1));
        let second = thread::spawn(move || b.insert(25, 2));
        let removed = thread::spawn(move || c.remove(25));
        let results = [first.join().unwrap(), second.join().unwrap(), removed.join().unwrap(), map.get(25)];
        let times = |value| results.iter().filter(|r| **r == Some(value)).count();
        assert_eq!((times(1), times(2)), (1, 1), "{results:?}");
        map.check().unwrap();
    });
}

/// A reader that knows a leaf only by its address: the leaf dies, and has another life in another place, before the reader
/// gets there.
#[test]
fn unpinned_reader_and_reuse() {
    explore(|| {
        let map = ints((1..=12).map(|k| k * 10));
        together(
            &map,
            vec![
                Box::new(|m| {
                    [50, 60].into_iter().for_each(|k| _ = m.remove(k));
                    [30, 40].into_iter().for_each(|k| _ = m.remove(k));
                    [50, 111, 112, 113, 114].into_iter().for_each(|k| assert_eq!(m.insert(k, k), None));
                    assert_eq!(m.remove(50), Some(50));
                }),
                Box::new(|m| assert!(matches!(m.get(50), None | Some(50)))),
                Box::new(|m| {
                    assert_eq!(m.get(70), Some(70));
                    assert_eq!(m.get(120), Some(120));
                }),
            ],
        );
    });
}
