//! What a map's nodes come to: filled by ascending keys, given back by queues, taken up again, rebuilt.

use foreshore_index::{ByteMap, CsbByteMap, CsbMap, IntMap, O2Map, OptimisticO2ByteMap};
use std::cell::Cell;

/// A queue (insert on the right, remove on the left) keeps its size: empty nodes of all levels go.
#[test]
fn a_queue_does_not_grow() {
    let map = IntMap::<u64, 4>::new();
    for i in 0..50_000u64 {
        map.insert(i, i);
        if i >= 100 {
            assert_eq!(map.remove(i - 100), Some(i - 100));
        }
    }
    map.check().unwrap();
    let stats = map.stats();
    assert!(stats.nodes_per_level.iter().sum::<u64>() < 300, "{stats:?}");
    assert_eq!(map.range(..).count(), 100);
}

/// Clusters of neighbours so far apart that their separators have no common scale: nodes are split before they are full.
#[test]
fn dense_clusters_far_apart() {
    let (map, wide, usual) = (IntMap::<u64, 4>::new(), IntMap::<u128, 4>::new(), IntMap::<u64>::new());
    let count = 300 * 50;
    // Any order will do: the factor has no divisor in common with the count.
    let keys = || (0..count).map(|i| i * 7_919 % count).map(|i| ((i / 50) << 45) + i % 50);
    for key in keys() {
        assert_eq!(map.insert(key, key), None);
        assert_eq!(wide.insert((u128::from(key) << 50) + 1, key), None);
        assert_eq!(usual.insert(key, key), None);
    }
    map.check().unwrap();
    wide.check().unwrap();
    usual.check().unwrap();
    assert!(usual.bytes() < count * 45, "{} bytes for {count} keys", usual.bytes());
    // Neighbours in a leaf have the same head, at the scale of clusters.
    let all: Vec<u64> = keys().collect();
    let mut values = vec![None; all.len()];
    usual.multi_get(&all, &mut values);
    assert!(values.iter().zip(&all).all(|(value, key)| value == &Some(*key)));
    for key in keys() {
        assert_eq!(usual.get(key), Some(key));
        assert_eq!(map.get(key), Some(key));
        assert_eq!(map.get(key + 50), None);
        assert_eq!(wide.floor((u128::from(key) << 50) + 7), Some(key));
    }
    assert!(map.range(..).map(|(key, _)| key).eq(wide.range(..).map(|(_, key)| key)));
    for key in keys() {
        assert_eq!(map.remove(key), Some(key));
    }
    map.check().unwrap();
}

/// Short bounds between most nodes and long ones between some: a node that short ones have filled has room for a long one.
#[test]
fn loaded_names_with_bounds_of_any_length() {
    let alike = |group: u32| if group.is_multiple_of(5) { 117 } else { group as usize * 7 % 40 };
    let name = |group: u32, i: u32| {
        [&group.to_be_bytes()[..], &vec![b'x'; alike(group)], &i.to_be_bytes()[2..]].concat()
    };
    let names: Vec<_> = (0..400).flat_map(|group| (0..1 + group % 19).map(move |i| name(group, i))).collect();
    for fill in [0.7, 0.85, 1.0] {
        let map: ByteMap = ByteMap::bulk_load((0..).zip(&names).map(|(i, name)| (name, i)), fill);
        map.check().unwrap();
        assert!((0..).zip(&names).all(|(i, name)| map.get(name) == Some(i)), "filled to {fill}");
    }
}

/// Keys that do not rise are refused by a panic that can be caught, whatever was built by then.
#[test]
fn keys_that_do_not_rise_are_not_loaded() {
    fn refused(load: impl FnOnce(Vec<(u64, u64)>) + std::panic::UnwindSafe) {
        let entries = (0..100).chain([7]).map(|key| (key, key)).collect();
        let refusal = std::panic::catch_unwind(|| load(entries)).expect_err("7 comes after 99");
        assert!(refusal.downcast_ref::<&str>().is_some_and(|why| why.contains("strictly rising")));
    }
    refused(|entries| drop(IntMap::<u64, 4>::bulk_load(entries, 1.0)));
    refused(|entries| drop(CsbMap::<u64, 4>::bulk_load(entries, 1.0)));
    refused(|entries| drop(O2Map::<u64, 4>::bulk_load(entries, 1.0)));
    refused(|entries| {
        let entries = entries.into_iter().map(|(key, value)| (key.to_be_bytes(), value));
        drop(CsbByteMap::<4, 2>::bulk_load(entries, 1.0));
    });
}

/// A key that gives other bytes when it is asked again is loaded by those that it gave first.
#[test]
fn keys_are_asked_once_for_their_bytes() {
    struct Fickle(Vec<u8>, Cell<bool>);

    impl AsRef<[u8]> for Fickle {
        fn as_ref(&self) -> &[u8] {
            if self.1.replace(true) { b"" } else { &self.0 }
        }
    }

    let names = || (0..200).map(|i| format!("{i:03} has more than fifteen bytes").into_bytes());
    macro_rules! test {
        ($map:ty) => {
            let fickle = names().map(|name| Fickle(name, Cell::new(false)));
            let map = <$map>::bulk_load(fickle.zip(0..), 0.9);
            assert_eq!(map.check(), Ok(()));
            assert!(map.iter().eq(names().zip(0..)), "{map:?}");
        };
    }
    test!(ByteMap<4>);
    test!(CsbByteMap<4, 2>);
    test!(OptimisticO2ByteMap<4, 2>);
}

/// A share that is none is refused before anything is built: the address sanitizer would find it lost.
#[test]
fn no_map_is_filled_twice_over() {
    let names = || (0..9).map(|i| (format!("{i} has more than fifteen bytes"), i));
    let load = || drop(CsbByteMap::<4, 2>::bulk_load(names(), 2.0));
    assert!(std::panic::catch_unwind(load).is_err());
}

/// Names of a node that differ only behind their first four bytes, so that its blocks have the same head, and two that keep the node
/// from storing these bytes once.
#[test]
fn names_alike_in_what_blocks_tell() {
    let map: ByteMap = ByteMap::new();
    let name = |i: u64| format!("name{i:02}").into_bytes();
    map.insert(b"a", 100);
    map.insert(b"z", 101);
    (0..60).step_by(2).for_each(|i| assert_eq!(map.insert(&name(i), i), None));
    map.check().unwrap();
    for i in 0..60u64 {
        let (even, before) = (i % 2 == 0, i.checked_sub(2 - i % 2).unwrap_or(100));
        assert_eq!(map.get(&name(i)), even.then_some(i));
        assert_eq!(map.floor(&name(i)), Some(if even { i } else { before }));
        assert_eq!(map.below(&name(i)), Some(before));
    }
    let names: Vec<Vec<u8>> = (0..60).map(name).collect();
    let keys: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    let mut values = [None; 60];
    map.multi_get(&keys, &mut values);
    assert!((0..).zip(values).all(|(i, value)| value == (i % 2 == 0).then_some(i)));
    (0..60).step_by(4).for_each(|i| assert_eq!(map.remove(&name(i)), Some(i)));
    assert!((0..60).all(|i| map.get(&name(i)) == (i % 4 == 2).then_some(i)));
    map.check().unwrap();
}

/// Ascending keys fill their nodes.
#[test]
fn appends_fill_nodes() {
    let map = IntMap::<u64>::new();
    (0..100_000).for_each(|i| _ = map.insert(i, i));
    map.check().unwrap();
    assert!(map.bytes() < 100_000 * 18, "{} bytes", map.bytes());
}

/// The same in a CSB+-tree: holes are used again, and groups that are mostly holes are compacted.
#[test]
fn csb_a_queue_does_not_grow() {
    let map = CsbMap::<u64, 4>::new();
    for i in 0..50_000u64 {
        map.insert(i, i);
        if i >= 100 {
            assert_eq!(map.remove(i - 100), Some(i - 100));
        }
        if i % 1000 == 0 {
            map.check().unwrap_or_else(|e| panic!("after {i}: {e}"));
        }
    }
    map.check().unwrap();
    let stats = map.stats();
    assert!(stats.nodes_per_level.iter().sum::<u64>() < 300, "{stats:?}");
    assert!(stats.groups_per_level.iter().sum::<u64>() < 150 && stats.compactions > 0, "{stats:?}");
    assert_eq!(map.range(..).count(), 100);
}

/// Ascending keys fill the nodes of a CSB+-tree, and its groups.
#[test]
fn csb_appends_fill_nodes_and_groups() {
    let map = CsbMap::<u64>::new();
    (0..1_000_000).for_each(|i| _ = map.insert(i, i));
    map.check().unwrap();
    assert!(map.bytes() < 1_000_000 * 18, "{} bytes", map.bytes());
}

/// A slot emptied to the right of a full node is filled by its split, and the siblings behind stay where they are.
#[test]
fn csb_splits_reuse_empty_nodes() {
    let map = CsbMap::<u64, 8>::bulk_load((0..64).map(|k| (k * 10, k)), 1.0);
    assert_eq!(map.stats().nodes_per_level, [8, 1]);
    (24..32).for_each(|k| assert_eq!(map.remove(k * 10), Some(k)));
    assert_eq!(map.stats().nodes_per_level, [7, 1]);
    assert_eq!(map.insert(5, 0), None);
    map.check().unwrap();
    let stats = map.stats();
    assert_eq!((stats.splits, stats.group_splits, stats.shifted), (1, 0, 2), "{stats:?}");
    assert_eq!((stats.unlinked, &stats.nodes_per_level[..]), (1, &[8, 1][..]), "{stats:?}");
}

/// A queue in an O2-Tree: blocks merge, and the inner tree shrinks with them.
#[test]
fn o2_a_queue_does_not_grow() {
    let map = O2Map::<u64, 4>::new();
    for i in 0..50_000u64 {
        map.insert(i, i);
        if i >= 100 {
            assert_eq!(map.remove(i - 100), Some(i - 100));
        }
    }
    map.check().unwrap();
    let stats = map.stats();
    assert!(stats.blocks < 60 && stats.height < 12, "{stats:?}");
    assert_eq!(map.range(..).count(), 100);
}

/// Ascending keys fill the blocks of an O2-Tree, and its height stays within a red-black tree's bound.
#[test]
fn o2_appends_fill_blocks() {
    let map = O2Map::<u64>::new();
    (0..200_000).for_each(|i| _ = map.insert(i, i));
    map.rebalance();
    map.check().unwrap();
    let stats = map.stats();
    assert!(map.bytes() < 200_000 * 19, "{} bytes", map.bytes());
    assert!(stats.height <= 2 * u64::from((stats.blocks + 1).ilog2()), "{stats:?}");
}

/// A dump is refused by blocks that it was not made of, and the tree stays as it was.
#[test]
fn o2_a_foreign_dump_is_refused() {
    let mut map = O2Map::<u64, 4>::bulk_load((0..40).map(|k| (k, k)), 1.0);
    let mut other = O2Map::<u64, 4>::bulk_load((0..80).map(|k| (k, k)), 1.0);
    let mut shifted = O2Map::<u64, 4>::bulk_load((1..41).map(|k| (k, k)), 1.0);
    let own = map.dump_inner();
    for dump in [other.dump_inner(), shifted.dump_inner(), own[1..].to_vec(), own[..5].to_vec(), Vec::new()] {
        assert!(map.restore_inner(&dump).is_err());
        map.check().unwrap();
        assert_eq!(map.dump_inner(), own);
    }
}

/// A queue of names: bags burst, and the layers behind are emptied and given back.
#[test]
fn a_queue_of_names_does_not_grow() {
    let name = |i: u64| format!("queue/of/flights/{:06}/departing/{:03}", i / 100, i % 100).into_bytes();
    let map = OptimisticO2ByteMap::<4, 2>::new();
    for i in 0..20_000u64 {
        map.insert(&name(i), i);
        if i >= 150 {
            assert_eq!(map.remove(&name(i - 150)), Some(i - 150));
        }
    }
    map.check().unwrap();
    let stats = map.stats();
    assert!(stats.closed > 100 && stats.bursts > stats.closed && stats.layers < 10, "{stats:?}");
    assert_eq!(map.iter().count(), 150);
    assert_eq!(map.last_key_value().map(|(_, value)| value), Some(19_999));
}

#[test]
#[should_panic(expected = "a key of 1025 bytes: 1024 at most")]
fn keys_that_are_too_long_are_refused() {
    CsbByteMap::<4, 2>::new().insert(&[0; 1025], 1);
}

/// The longest keys, which share all but their last byte: as many layers as there can be.
#[test]
fn the_longest_keys_share_their_layers() {
    let key = |last: u8| [vec![b'x'; 1023], vec![last]].concat();
    let map = OptimisticO2ByteMap::<4, 2>::new();
    (0..100).for_each(|last| assert_eq!(map.insert(&key(last), last.into()), None));
    map.check().unwrap();
    assert_eq!(
        (map.get(&key(50)), map.below(&key(50)), map.floor(&[b'y'; 9000])),
        (Some(50), Some(49), Some(99))
    );
    assert!(map.stats().layers > 1024 / 16, "{:?}", map.stats());
    (0..100).for_each(|last| assert_eq!(map.remove(&key(last)), Some(last.into())));
    assert_eq!((map.stats().layers, map.last_key_value()), (1, None));
    map.check().unwrap();
}
