//! Exactly the keys that begin with a prefix lie in its range.

use foreshore_index::{ByteMap, CsbByteMap, O2ByteMap};

#[test]
fn a_prefix_bounds_its_keys() {
    let keys: [&[u8]; 8] = [b"", b"a", b"a\0", b"ab", b"a\xff", b"b", b"\xff", b"\xff\xff"];
    let (plain, csb, o2): (ByteMap, CsbByteMap, O2ByteMap) = Default::default();
    for (value, key) in (0..).zip(keys) {
        plain.insert(key, value);
        csb.insert(key, value);
        o2.insert(key, value);
    }
    for prefix in keys.into_iter().chain([&b"c"[..], b"a\xff\xff"]) {
        let begin = || keys.iter().filter(|key| key.starts_with(prefix)).map(|key| key.to_vec());
        assert!(plain.prefix(prefix).map(|(key, _)| key).eq(begin()), "{}", prefix.escape_ascii());
        assert!(csb.prefix(prefix).map(|(key, _)| key).eq(begin()), "{}", prefix.escape_ascii());
        assert!(o2.prefix(prefix).map(|(key, _)| key).eq(begin()), "{}", prefix.escape_ascii());
    }
}

/// Keys that differ only far behind what their node compares at once, and keys that are not there, are told apart, alone and in
/// batches, through splits and removals.
#[test]
fn keys_with_equal_heads_are_told_apart() {
    let key = |i: u32| format!("https://site/{}/an equal beginning/{}", i % 7, i / 7).into_bytes();
    let map = <ByteMap>::new();
    let present = |i: u32| i.is_multiple_of(2) && !i.is_multiple_of(3);
    for i in (0..4000).step_by(2) {
        assert_eq!(map.insert(&key(i), i.into()), None);
    }
    for i in (0..4000).step_by(6) {
        assert_eq!(map.remove(&key(i)), Some(i.into()));
    }
    map.check().unwrap();
    let keys: Vec<_> = (0..4000).map(key).collect();
    let expected: Vec<_> = (0..4000).map(|i| present(i).then_some(u64::from(i))).collect();
    assert!(keys.iter().map(|key| map.get(key)).eq(expected.iter().copied()));
    let mut values = vec![None; keys.len()];
    map.multi_get(&keys.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut values);
    assert_eq!(values, expected);
    let sorted: std::collections::BTreeMap<_, _> =
        (0..4000).filter(|i| present(*i)).map(|i| (key(i), u64::from(i))).collect();
    for key in &keys {
        let floor = sorted.range(..=key.clone()).next_back().map(|(_, value)| *value);
        assert_eq!(map.floor(key), floor, "{}", key.escape_ascii());
    }
}
