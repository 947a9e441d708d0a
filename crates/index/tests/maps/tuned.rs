//! Maps over other maps: nodes of every size against `BTreeMap`, pairs against `BTreeSet`.

use foreshore_index::{Favour, MultiMap, NodeKeys, Profile, TunedMap};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever its node size, a map does what a map does.
    #[test]
    fn every_size_agrees(
        loaded in proptest::collection::btree_map(0u64..2000, any::<u64>(), 0..400),
        inserts in vec((0u64..2000, any::<u64>()), 0..400),
        removals in vec(0u64..2000, 0..300),
        queries in vec(0u64..2100, 1..80),
    ) {
        for size in NodeKeys::ALL {
            let map = TunedMap::<u64>::bulk_load(size, loaded.clone(), 0.7);
            prop_assert_eq!(map.node_keys(), size);
            let mut model = loaded.clone();
            let fresh = inserts.iter().filter(|(k, v)| model.insert(*k, *v).is_none()).count();
            prop_assert_eq!(map.insert_many(&inserts), fresh as u64);
            for key in &removals {
                prop_assert_eq!(map.remove(*key), model.remove(key));
            }
            agree(&map, &model, &queries)?;
        }
    }

    /// A key keeps its values apart and in order, next to keys with other values.
    #[test]
    fn pairs_agree(
        inserts in vec((pair_key(), pair_value()), 0..500),
        removals in vec((pair_key(), pair_value()), 0..500),
        from in pair_key(),
        to in pair_key(),
    ) {
        let (map, mut model) = (MultiMap::<i32>::new(), BTreeSet::new());
        for &(key, value) in &inserts {
            prop_assert_eq!(map.insert(key, value), model.insert((key, value)));
        }
        for &(key, value) in &removals {
            prop_assert_eq!(map.contains(key, value), model.contains(&(key, value)));
            prop_assert_eq!(map.remove(key, value), model.remove(&(key, value)));
        }
        prop_assert_eq!(map.check(), Ok(()));
        prop_assert_eq!(map.len(), model.len() as u64);
        prop_assert!(map.range(..).eq(model.iter().copied()));
        let bounds = [Bound::Included(from), Bound::Excluded(from), Bound::Unbounded];
        for start in bounds {
            for end in [Bound::Included(to), Bound::Excluded(to), Bound::Unbounded] {
                let inside = |key: &i32| {
                    (match start { Bound::Included(b) => *key >= b, Bound::Excluded(b) => *key > b, Bound::Unbounded => true })
                        && (match end { Bound::Included(b) => *key <= b, Bound::Excluded(b) => *key < b, Bound::Unbounded => true })
                };
                let expected = model.iter().copied().filter(|(key, _)| inside(key));
                prop_assert!(map.range((start, end)).eq(expected), "{:?} {:?}", start, end);
            }
        }
        prop_assert!(map.values(from).eq(model.iter().filter(|(key, _)| *key == from).map(|(_, value)| *value)));
    }
}

fn pair_key() -> impl Strategy<Value = i32> {
    prop_oneof![10 => -3i32..3, 1 => Just(i32::MIN), 1 => Just(i32::MAX)]
}

fn pair_value() -> impl Strategy<Value = u64> {
    prop_oneof![10 => 0u64..60, 1 => Just(u64::MAX)]
}

fn agree(map: &TunedMap<u64>, model: &BTreeMap<u64, u64>, queries: &[u64]) -> Result<(), TestCaseError> {
    prop_assert_eq!(map.check(), Ok(()));
    prop_assert_eq!(map.len(), model.len() as u64);
    let mut values = vec![None; queries.len()];
    map.multi_get(queries, &mut values);
    for (key, value) in queries.iter().zip(values) {
        prop_assert_eq!(value, model.get(key).copied());
        prop_assert_eq!(map.get(*key), value);
        let upwards: Vec<_> = model.range(key..).map(|(k, v)| (*k, *v)).collect();
        prop_assert_eq!(&map.range(*key..).collect::<Vec<_>>(), &upwards);
        let mut visited = Vec::new();
        map.scan(*key, 100, |key, value| visited.push((key, value)));
        prop_assert_eq!(&visited[..], &upwards[..upwards.len().min(100)]);
        let downwards: Vec<_> = model.range(..key).rev().map(|(k, v)| (*k, *v)).collect();
        prop_assert_eq!(map.range_rev(..*key).collect::<Vec<_>>(), downwards);
        prop_assert_eq!(map.floor(*key), model.range(..=key).next_back().map(|(_, v)| *v));
    }
    Ok(())
}

/// A profile decides, and a profile without figures still does.
#[test]
fn profiles_choose_sizes() {
    let text = "[machine]\nprocessor = \"any\"\ncores = 1\nline_bytes = 64\nl1d_bytes = 32768\nl2_bytes = 0\nl3_bytes = 0\n\
                [[choice]]\nkey_bytes = 4\nfavour = \"inserts\"\nnode_keys = 32\n";
    let profile = Profile::from_toml(text).unwrap();
    assert_eq!(TunedMap::<u32>::tuned(&profile, Favour::Inserts).node_keys(), NodeKeys::K32);
    assert_eq!(TunedMap::<u32>::tuned(&profile, Favour::Lookups).node_keys(), NodeKeys::K64);
    assert_eq!(TunedMap::<u64>::tuned(&profile, Favour::Inserts).node_keys(), NodeKeys::K64);
    // By what a node holds: the images of narrow integers are those of wider ones, and byte arrays are whole words.
    assert_eq!(TunedMap::<u16>::tuned(&profile, Favour::Inserts).node_keys(), NodeKeys::K32);
    assert_eq!(TunedMap::<i8>::tuned(&profile, Favour::Inserts).node_keys(), NodeKeys::K32);
    assert_eq!(TunedMap::<[u8; 4]>::tuned(&profile, Favour::Inserts).node_keys(), NodeKeys::K64);
}
