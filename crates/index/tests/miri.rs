//! Every map, small enough for Miri, which sees what other tests cannot: undefined behaviour, reads of memory that was given back,
//! data races, and what relaxed atomics may do on processors with weaker memory than this one's.
//!
//! Run: `cargo xtask miri`. Sizes are such that nodes split, merge and are reused.
#![cfg(not(any(loom, shuttle)))]

#[allow(dead_code, reason = "others ask for more")]
mod common;

use common::U64Map;
use foreshore_index::{
    ByteMap, CsbByteMap, CsbMap, IntMap, MultiMap, O2ByteMap, O2Map, OptimisticO2Map, StaticMap,
};
use std::ops::Bound::{Excluded, Included};
use std::thread;

/// Keys enough for three levels or so.
const KEYS: u64 = 60;

/// Keys in an order that is not theirs.
fn scattered(keys: u64) -> impl Iterator<Item = u64> {
    (0..keys).map(move |i| i * 89 % keys)
}

/// One thread: what goes in is found, in order, and can be taken out again.
fn alone<M: U64Map>() {
    let map = M::load([].into_iter(), 1.0);
    scattered(KEYS).for_each(|key| assert_eq!(map.insert(key, key + 1), None));
    map.check().unwrap();
    assert!(map.up().into_iter().eq(0..KEYS));
    assert!(map.down().into_iter().eq((0..KEYS).rev()));
    scattered(KEYS).filter(|key| key % 5 != 0).for_each(|key| assert_eq!(map.remove(key), Some(key + 1)));
    map.check().unwrap();
    assert!(map.up().into_iter().eq((0..KEYS).step_by(5)));
    scattered(KEYS).for_each(|key| assert_eq!(map.get(key), (key % 5 == 0).then_some(key + 1)));
}

/// Two writers of their own keys, and a reader of keys that stay.
fn together<M: U64Map>() {
    let even = (0..KEYS / 3).map(|i| (i * 2, i * 2));
    let map = M::load(even.clone(), 1.0);
    thread::scope(|s| {
        for odd in [1, 3] {
            let map = &map;
            s.spawn(move || {
                for key in (odd..KEYS / 3 * 2).step_by(4) {
                    assert_eq!(map.insert(key, key), None);
                }
                for key in (odd..KEYS / 3 * 2).step_by(8) {
                    assert_eq!(map.remove(key), Some(key));
                }
            });
        }
        s.spawn(|| {
            even.clone().for_each(|(key, value)| assert_eq!(map.get(key), Some(value)));
            let seen = map.up();
            assert!(seen.is_sorted() && even.clone().all(|(key, _)| seen.contains(&key)));
        });
    });
    map.check().unwrap();
}

macro_rules! maps {
    ($($name:ident: $map:ty;)*) => {
        $(mod $name {
            use super::*;

            #[test]
            fn alone() {
                super::alone::<$map>();
            }

            #[test]
            fn together() {
                super::together::<$map>();
            }
        })*
    };
}

maps! {
    bplus: IntMap<u64, 16>;
    csb: CsbMap<u64, 16>;
    o2: O2Map<u64, 16>;
    o2_optimistic: OptimisticO2Map<u64, 16>;
}

/// Keys that share beginnings, and above the leaves the 8 bytes behind them; some too long for a node.
fn name(key: u64) -> Vec<u8> {
    let directory = if key < KEYS / 2 { "articles" } else { "pictures" };
    let tail = if key.is_multiple_of(7) { "x".repeat(200) } else { String::new() };
    format!("https://example.org/{directory}/{key:04}/{tail}").into_bytes()
}

macro_rules! byte_maps {
    ($($name:ident: $map:ty;)*) => {
        $(mod $name {
            use super::*;

            #[test]
            fn alone() {
                let map = <$map>::new();
                scattered(KEYS).for_each(|key| assert_eq!(map.insert(&name(key), key), None));
                map.check().unwrap();
                assert!(map.iter().map(|(_, value)| value).eq(0..KEYS));
                assert!(map.iter_rev().map(|(_, value)| value).eq((0..KEYS).rev()));
                let (start, end) = (name(10), name(20));
                assert!(map.range((Excluded(&start), Included(&end))).map(|(_, value)| value).eq(11..=20));
                assert_eq!(map.range_rev(..&start).next(), Some((name(9), 9)));
                for key in scattered(KEYS).filter(|key| key % 5 != 0) {
                    assert_eq!(map.remove(&name(key)), Some(key));
                }
                map.check().unwrap();
                scattered(KEYS).for_each(|key| assert_eq!(map.get(&name(key)), (key % 5 == 0).then_some(key)));
            }

            #[test]
            fn together() {
                let map = <$map>::new();
                (0..KEYS / 2).step_by(2).for_each(|key| assert_eq!(map.insert(&name(key), key), None));
                thread::scope(|s| {
                    s.spawn(|| {
                        (1..KEYS / 2).step_by(2).for_each(|key| assert_eq!(map.insert(&name(key), key), None));
                        (1..KEYS / 2).step_by(4).for_each(|key| assert_eq!(map.remove(&name(key)), Some(key)));
                    });
                    s.spawn(|| {
                        (0..KEYS / 2).step_by(2).for_each(|key| assert_eq!(map.get(&name(key)), Some(key)));
                        assert!(map.iter().is_sorted());
                    });
                });
                map.check().unwrap();
            }
        })*
    };
}

byte_maps! {
    bytes: ByteMap<8, 88>;
    bytes_csb: CsbByteMap;
    bytes_o2: O2ByteMap;
}

#[test]
fn wide_keys() {
    let map = IntMap::<u128, 16>::new();
    let wide = |key: u64| u128::from(key) << 60;
    scattered(KEYS).for_each(|key| assert_eq!(map.insert(wide(key), key), None));
    map.check().unwrap();
    scattered(KEYS).for_each(|key| assert_eq!(map.remove(wide(key)), Some(key)));
    assert!(map.is_empty());
}

/// Without a pin, while another thread splits and empties leaves.
#[test]
fn scans_of_known_length() {
    let map = IntMap::<u64, 16>::bulk_load((0..KEYS).map(|key| (key * 2, key)), 0.7);
    thread::scope(|s| {
        s.spawn(|| {
            (0..KEYS).step_by(2).for_each(|key| _ = map.insert(key * 2 + 1, 0));
            (KEYS / 4..KEYS / 2).for_each(|key| _ = map.remove(key * 2));
        });
        let mut keys = Vec::new();
        map.scan(4, 30, |key, _| keys.push(key));
        assert!(keys.is_sorted() && keys.starts_with(&[4]));
    });
    map.check().unwrap();
}

#[test]
fn short_keys() {
    let map = IntMap::<u32, 32>::new();
    let entries: Vec<(u32, u64)> = scattered(KEYS).map(|key| (key as u32, key)).collect();
    map.insert_many(&entries);
    let keys: Vec<u32> = (0..2 * KEYS as u32).collect();
    let mut values = vec![None; keys.len()];
    map.multi_get(&keys, &mut values);
    assert!(values.into_iter().eq((0..2 * KEYS).map(|key| (key < KEYS).then_some(key))));
    map.check().unwrap();
}

#[test]
fn many_values() {
    let map = MultiMap::<u64>::from_iter(scattered(KEYS).map(|i| (i / 10, i)));
    assert!(map.values(3).eq(30..40));
    assert_eq!(map.remove_all(3), 10);
    map.check().unwrap();
}

#[test]
fn packed() {
    let map = StaticMap::<u64>::from_sorted((0..600_u16).map(|key| (u64::from(key) * 2, key.into())));
    (0..1200).for_each(|key: u64| assert_eq!(map.get(key), key.is_multiple_of(2).then_some(key / 2)));
}

/// Memory serves maps of other types too, whose nodes have content where the ones before had a gap.
#[test]
fn memory_of_another_map() {
    // Nodes of the same size, whose last three words are nothing.
    drop(ByteMap::<4, 75>::new());
    let map = ByteMap::<4, 78>::new();
    // Keys that come and go fill a node to its end.
    for value in 0..10 {
        assert_eq!(map.insert(&[b'x'; 97], value), None);
        assert_eq!(map.remove(&[b'x'; 97]), Some(value));
    }
    map.check().unwrap();
}
