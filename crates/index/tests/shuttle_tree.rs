//! The real tree under many schedules: what a descent may meet while nodes split, die and grow a root.
//!
//! Run: `RUSTFLAGS="--cfg shuttle" cargo test -p foreshore-index --release --test shuttle_tree`.
//! `INDEX_SHUTTLE_ITERATIONS` (default 2000) schedules per scenario and scheduler; a failure prints the schedule.
//! Nodes hold four keys, and a node given back is reused at once or caught when it is read (see the pool's model).
#![cfg(shuttle)]

mod scenarios;

use foreshore_index::{ByteMap, IntMap};
use scenarios::{explore, ints, together};
use shuttle::sync::Arc;
use shuttle::thread;

type Ints = IntMap<u64, 4>;
type Strings = ByteMap<4, 16>;

fn name(key: u64) -> Vec<u8> {
    format!("key/{key:04}").into_bytes()
}

fn strings(keys: impl IntoIterator<Item = u64>) -> Arc<Strings> {
    let map = Strings::new();
    keys.into_iter().for_each(|key| assert_eq!(map.insert(&name(key), key), None));
    Arc::new(map)
}

/// Byte strings: a reader meets a node that is packed again with a shorter prefix, split, and compacted.
#[test]
fn byte_strings_packed_under_a_reader() {
    explore(|| {
        let map = strings([1, 2, 3, 4]);
        let (writer, reader, eraser) = (map.clone(), map.clone(), map.clone());
        let threads = [
            thread::spawn(move || {
                assert_eq!(writer.insert(b"k", 100), None);
                assert_eq!(writer.insert(&name(9), 9), None);
            }),
            thread::spawn(move || {
                assert_eq!(reader.get(&name(4)), Some(4));
                assert_eq!(reader.floor(b"key/0003x"), Some(3));
            }),
            thread::spawn(move || {
                assert_eq!(eraser.remove(&name(2)), Some(2));
                assert_eq!(eraser.insert(&name(2), 22), None);
            }),
        ];
        threads.into_iter().for_each(|t| t.join().unwrap());
        map.check().unwrap();
        assert_eq!(map.iter().map(|(_, v)| v).collect::<Vec<_>>(), [100, 1, 22, 3, 4, 9]);
    });
}

/// Byte strings: keys kept outside of the node are read only while they exist.
#[test]
fn long_keys_and_removal() {
    explore(|| {
        let long = |k: u64| [vec![b'x'; 130], name(k)].concat();
        let map = Strings::new();
        (1..=3).for_each(|k| assert_eq!(map.insert(&long(k), k), None));
        let map = Arc::new(map);
        let (writer, reader) = (map.clone(), map.clone());
        let threads = [
            thread::spawn(move || {
                assert_eq!(writer.remove(&long(2)), Some(2));
                assert_eq!(writer.insert(&long(5), 5), None);
                assert_eq!(writer.insert(&long(4), 4), None);
            }),
            thread::spawn(move || {
                assert_eq!(reader.get(&long(3)), Some(3));
                let scanned: Vec<u64> = reader.range(..).map(|(_, v)| v).collect();
                assert!(scanned.starts_with(&[1]) && scanned.contains(&3), "{scanned:?}");
            }),
        ];
        threads.into_iter().for_each(|t| t.join().unwrap());
        map.check().unwrap();
    });
}

/// A leaf dies and is used again further right between an insert's look at its parent and at itself: the insert goes
/// where the key belongs.
#[test]
fn insert_and_reused_leaf() {
    explore(|| {
        let map = ints((1..=12).map(|k| k * 10));
        together(
            &map,
            vec![
                Box::new(|m| assert_eq!(m.insert(45, 45), None)),
                Box::new(|m| {
                    [40, 50, 60].into_iter().for_each(|k| assert_eq!(m.remove(k), Some(k)));
                    [125, 126, 127].into_iter().for_each(|k| assert_eq!(m.insert(k, k), None));
                }),
            ],
        );
        assert_eq!(map.get(45), Some(45));
    });
}

/// A leaf that is emptied while the separator beside it is still to be posted goes as soon as that is, and takes no other's place.
#[test]
fn unlink_and_late_separator() {
    explore(|| {
        let map = Arc::new(Ints::bulk_load((1..=8).map(|k| (k * 10, k * 10)), 1.0));
        together(
            &map,
            vec![
                Box::new(|m| assert_eq!(m.insert(35, 35), None)),
                Box::new(|m| [10, 20].into_iter().for_each(|k| assert_eq!(m.remove(k), Some(k)))),
            ],
        );
        assert_eq!(map.stats().nodes_per_level[0], 2, "40 and 50 are neighbours");
    });
}

/// The same on the other side of the separator.
#[test]
fn unlink_before_the_own_separator() {
    explore(|| {
        let map = Arc::new(Ints::bulk_load((1..=8).map(|k| (k * 10, k * 10)), 1.0));
        together(
            &map,
            vec![
                Box::new(|m| assert_eq!(m.insert(15, 15), None)),
                Box::new(|m| [30, 40].into_iter().for_each(|k| assert_eq!(m.remove(k), Some(k)))),
            ],
        );
        assert_eq!(map.stats().nodes_per_level[0], 2, "20 and 50 are neighbours");
    });
}

/// The same a level higher: seven leaves are emptied below a node beside which a separator is still to be posted.
#[test]
fn unlink_of_a_column_and_late_separator() {
    explore(|| {
        let map = ints((1..=25).map(|k| k * 10));
        together(
            &map,
            vec![
                Box::new(|m| assert_eq!(m.insert(260, 260), None)),
                Box::new(|m| (1..=21).for_each(|k| assert_eq!(m.remove(k * 10), Some(k * 10)))),
            ],
        );
        assert_eq!(map.stats().nodes_per_level[0], 2, "{:?}", map.stats());
    });
}

/// The only leaf of a node is split and emptied: the node above may not go with it past the new leaf.
#[test]
fn column_and_late_separator() {
    explore(|| {
        let map = Arc::new(Ints::bulk_load((1..=64).map(|k| (k * 10, k * 10)), 1.0));
        (1..=28).for_each(|k| assert_eq!(map.remove(k * 10), Some(k * 10)));
        together(
            &map,
            vec![
                Box::new(|m| assert_eq!(m.insert(315, 315), None)),
                Box::new(|m| [290, 300].into_iter().for_each(|k| assert_eq!(m.remove(k), Some(k)))),
                Box::new(|m| [310, 320, 330].into_iter().for_each(|k| assert_eq!(m.get(k), Some(k)))),
            ],
        );
        assert_eq!((map.get(310), map.get(315)), (Some(310), Some(315)));
        assert_eq!(map.stats().nodes_per_level[0], 9, "{:?}", map.stats());
    });
}

/// A group of descents meets splits, a new root and a dying leaf; each of its keys is found.
#[test]
fn batch_of_lookups_and_updates() {
    explore(|| {
        let map = ints((1..=12).map(|k| k * 10));
        together(
            &map,
            vec![
                Box::new(|m| {
                    let mut values = [None; 6];
                    m.multi_get(&[120, 20, 75, 70, 10, 80], &mut values);
                    assert_eq!(values, [Some(120), Some(20), None, Some(70), Some(10), Some(80)]);
                }),
                Box::new(|m| [71, 72, 73, 74].into_iter().for_each(|k| _ = m.insert(k, k))),
                Box::new(|m| [30, 40, 50, 60].into_iter().for_each(|k| _ = m.remove(k))),
            ],
        );
    });
}

/// A scan of known length, which knows leaves only by their addresses, meets leaves that split, die, and are used again elsewhere. It
/// visits, in order and once, what is there throughout.
#[test]
fn scan_of_known_length() {
    explore(|| {
        let map = ints((1..=12).map(|k| k * 10));
        together(
            &map,
            vec![
                Box::new(|m| {
                    let mut keys = Vec::new();
                    let count = m.scan(15, 100, |key, value| {
                        assert_eq!(key, value);
                        keys.push(key);
                    });
                    assert_eq!(count, keys.len());
                    assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
                    let staying = keys.iter().filter(|key| [20, 70, 80, 90, 110, 120].contains(*key));
                    assert_eq!(staying.count(), 6, "{keys:?}");
                }),
                Box::new(|m| [71, 72, 73, 125, 126].into_iter().for_each(|k| _ = m.insert(k, k))),
                Box::new(|m| {
                    [30, 40, 50, 60, 100].into_iter().for_each(|k| _ = m.remove(k));
                    [31, 101, 102].into_iter().for_each(|k| _ = m.insert(k, k));
                }),
            ],
        );
    });
}

/// The same where it ends in the middle, and the leaf that it begins in loses its lower keys.
#[test]
fn scan_of_known_length_in_the_middle() {
    explore(|| {
        let map = ints((1..=12).map(|k| k * 10));
        together(
            &map,
            vec![
                Box::new(|m| {
                    let mut keys = Vec::new();
                    assert_eq!(m.scan(65, 3, |key, _| keys.push(key)), 3);
                    assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
                    let expected = [70, 75, 80, 85, 90]
                        .into_iter()
                        .filter(|key| *key <= keys[2] && (key % 10 == 0 || keys.contains(key)));
                    assert!(expected.eq(keys.iter().copied()), "{keys:?}");
                }),
                Box::new(|m| [50, 60, 30, 40].into_iter().for_each(|k| _ = m.remove(k))),
                Box::new(|m| [75, 85].into_iter().for_each(|k| _ = m.insert(k, k))),
            ],
        );
    });
}

/// Two batches of inserts, one sorted, with common keys: each key is new to exactly one of them.
#[test]
fn batches_of_inserts() {
    explore(|| {
        let map = ints([10, 20, 30, 40]);
        let (one, other) = (map.clone(), map.clone());
        let sorted = thread::spawn(move || one.insert_sorted(&[(21, 1), (22, 1), (23, 1), (41, 1)]));
        let any = thread::spawn(move || other.insert_many(&[(41, 2), (5, 2), (22, 2), (31, 2)]));
        assert_eq!(sorted.join().unwrap() + any.join().unwrap(), 6);
        map.check().unwrap();
        assert!(map.range(..).map(|(k, _)| k).eq([5, 10, 20, 21, 22, 23, 30, 31, 40, 41]));
    });
}

/// Sums by `fetch_update` lose nothing, while the leaf splits below them; one of two claims wins.
#[test]
fn exchanges_lose_nothing() {
    explore(|| {
        let map = ints([10, 20, 30, 40]);
        let add = |m: &Ints| _ = m.fetch_update(25, |value| Some(value.unwrap_or(0) + 1));
        let claim = |name| {
            let map = map.clone();
            thread::spawn(move || {
                add(&map);
                map.compare_exchange(35, None, Some(name))
            })
        };
        let (first, second) = (claim(1), claim(2));
        map.insert(27, 27);
        let outcomes = [first.join().unwrap(), second.join().unwrap()];
        assert!(
            outcomes == [Ok(()), Err(Some(1))] || outcomes == [Err(Some(2)), Ok(())],
            "one wins, and the other sees who: {outcomes:?}"
        );
        assert_eq!(map.get(25), Some(2));
        map.check().unwrap();
    });
}
