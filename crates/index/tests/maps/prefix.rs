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
