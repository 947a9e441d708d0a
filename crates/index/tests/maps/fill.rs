//! How full leaves are after removals: what only unlinking empty nodes costs. `tree/unlink.rs` quotes the figures, which
//! `--nocapture` prints.

use foreshore_base::random::scramble as key;
use foreshore_index::IntMap;

const N: u64 = 100_000;

/// The share of the leaves' cells in use.
fn fill(what: &str, map: &IntMap<u64>) -> f64 {
    let leaves = map.stats().nodes_per_level[0];
    let fill = map.len() as f64 / (leaves * 64) as f64;
    println!("{what}: fill {fill:.2}, {:.1} bytes a key", map.bytes() as f64 / map.len() as f64);
    fill
}

fn filled() -> IntMap<u64> {
    let map = IntMap::new();
    (0..N).for_each(|i| _ = map.insert(key(i), i));
    map
}

/// As many inserts as removals, all keys random: leaves lose and gain alike, and stay more than a third full.
#[test]
fn replacing_keys_keeps_leaves_in_use() {
    let map = filled();
    assert!(fill("filled", &map) > 0.65);
    for round in 0..20 {
        for i in round * N..(round + 1) * N {
            assert_eq!(map.remove(key(i)), Some(i));
            map.insert(key(i + N), i + N);
        }
        if [0, 4, 19].contains(&round) {
            let fill = fill(&format!("each key replaced {} times", round + 1), &map);
            assert!(fill > 0.33, "{fill}");
        }
    }
    map.check().unwrap();
}

/// Whole ranges that go take their leaves with them.
#[test]
fn removed_ranges_free_their_leaves() {
    let map = filled();
    let gone: Vec<u64> = map.range(..u64::MAX / 10 * 9).map(|(key, _)| key).collect();
    gone.iter().for_each(|key| assert!(map.remove(*key).is_some()));
    assert!(fill("lowest nine tenths removed", &map) > 0.65);
    map.check().unwrap();
}

/// Random removals leave what they leave, down to a key a leaf; inserts fill the same leaves again.
#[test]
fn shrunk_maps_are_filled_again() {
    let map = filled();
    let leaves = map.stats().nodes_per_level[0];
    (0..N / 10 * 9).for_each(|i| _ = map.remove(key(i)));
    fill("random nine tenths removed", &map);
    (N..N / 10 * 19).for_each(|i| _ = map.insert(key(i), i));
    assert!(fill("filled again", &map) > 0.6);
    let now = map.stats().nodes_per_level[0];
    assert!(now <= leaves + leaves / 10, "{now} leaves after {leaves}");
    map.check().unwrap();
}
