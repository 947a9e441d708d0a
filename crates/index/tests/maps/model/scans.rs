//! Scans of known length, in maps that were loaded and then changed.

use foreshore_index::{IntKey, IntMap};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Entries to load, how full; what is inserted and removed then; and from where how many entries are wanted.
#[derive(Clone, Debug)]
pub struct Scans<K: Ord> {
    loaded: BTreeMap<K, u64>,
    fill: f64,
    inserts: Vec<(K, u64)>,
    removals: Vec<K>,
    scans: Vec<(K, usize)>,
}

/// Maps of up to a few hundred keys.
pub fn scans<K: Ord + Clone + Debug + 'static>(key: BoxedStrategy<K>) -> BoxedStrategy<Scans<K>> {
    let changes = (vec((key.clone(), any::<u64>()), 0..100), vec(key.clone(), 0..200));
    let wanted = prop_oneof![0usize..5, 0usize..250, Just(usize::MAX)];
    (btree_map(key.clone(), any::<u64>(), 0..300), 0.1f64..1.0, changes, vec((key, wanted), 1..20))
        .prop_map(|(loaded, fill, (inserts, removals), scans)| Scans {
            loaded,
            fill,
            inserts,
            removals,
            scans,
        })
        .boxed()
}

/// Every scan visits what the model's range has, and says how many that were.
pub fn agree<K: Ord + Copy + Debug, I: IntKey, const F: usize>(
    case: &Scans<K>,
    to: impl Fn(K) -> I,
) -> TestCaseResult {
    let mut model: BTreeMap<I, u64> = case.loaded.iter().map(|(key, value)| (to(*key), *value)).collect();
    let map = IntMap::<I, F>::bulk_load(model.clone(), case.fill);
    for (key, value) in &case.inserts {
        prop_assert_eq!(map.insert(to(*key), *value), model.insert(to(*key), *value));
    }
    for key in &case.removals {
        prop_assert_eq!(map.remove(to(*key)), model.remove(&to(*key)));
    }
    for (from, limit) in &case.scans {
        let mut visited = Vec::new();
        let count = map.scan(to(*from), *limit, |key, value| visited.push((key, value)));
        let expected: Vec<_> = model.range(to(*from)..).take(*limit).map(|(k, v)| (*k, *v)).collect();
        prop_assert_eq!(&visited, &expected, "{} from {:?}", limit, from);
        prop_assert_eq!(count, expected.len());
    }
    Ok(())
}
