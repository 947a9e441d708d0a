//! The real tree under many schedules: what a descent may meet while nodes split, die and grow a root.
//!
//! Run: `RUSTFLAGS="--cfg shuttle" cargo test -p foreshore-index --release --test shuttle_tree`.
//! `INDEX_SHUTTLE_ITERATIONS` (default 2000) schedules per scenario and scheduler; a failure prints the schedule.
//! Nodes hold four keys, and a node given back is reused at once or caught when it is read (see the pool's model).
#![cfg(shuttle)]

mod scenarios;

use foreshore_index::{ByteMap, IntMap};
use scenarios::explore;
use shuttle::sync::Arc;
use shuttle::thread;
use std::ops::Bound;

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
                let scanned: Vec<u64> =
                    reader.range(Bound::Unbounded, Bound::Unbounded).map(|(_, v)| v).collect();
                assert!(scanned.starts_with(&[1]) && scanned.contains(&3), "{scanned:?}");
            }),
        ];
        threads.into_iter().for_each(|t| t.join().unwrap());
        map.check().unwrap();
    });
}
