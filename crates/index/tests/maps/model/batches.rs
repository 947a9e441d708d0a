//! Many keys at a time, and changes under a condition.

use super::map::BatchMap;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Bound;

/// Many keys at a time, and single changes under a condition.
#[derive(Clone, Debug)]
pub enum Batch<K> {
    Get(Vec<K>),
    Insert(Vec<(K, u64)>),
    InsertSorted(Vec<(K, u64)>),
    /// Expects what is there, or not.
    Exchange(K, bool, Option<u64>),
    Update(K, u64),
    GetOrInsert(K, u64),
}

/// Up to 40 batches.
pub fn batches<K: Ord + Clone + Debug + 'static>(key: BoxedStrategy<K>) -> BoxedStrategy<Vec<Batch<K>>> {
    let entries = vec((key.clone(), any::<u64>()), 0..60).boxed();
    let batch = prop_oneof![
        4 => vec(key.clone(), 0..60).prop_map(Batch::Get),
        4 => entries.clone().prop_map(Batch::Insert),
        4 => entries.prop_map(|mut entries| {
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Batch::InsertSorted(entries)
        }),
        8 => (key.clone(), any::<bool>(), any::<Option<u64>>()).prop_map(|(k, hit, new)| Batch::Exchange(k, hit, new)),
        2 => (key.clone(), any::<u64>()).prop_map(|(k, v)| Batch::Update(k, v)),
        2 => (key, any::<u64>()).prop_map(|(k, v)| Batch::GetOrInsert(k, v)),
    ];
    vec(batch, 0..40).boxed()
}

/// Runs the batches on both, and compares answers and, after each, the structure.
pub fn agree<K: Ord + Clone + Debug>(map: &dyn BatchMap<K>, batches: &[Batch<K>]) -> TestCaseResult {
    let mut model = BTreeMap::new();
    for batch in batches {
        match batch {
            Batch::Get(keys) => {
                let expected: Vec<_> = keys.iter().map(|k| model.get(k).copied()).collect();
                prop_assert_eq!(map.multi_get(keys), expected, "{:?}", batch);
            }
            Batch::Insert(entries) => {
                let fresh = entries.iter().filter(|(k, v)| model.insert(k.clone(), *v).is_none()).count();
                prop_assert_eq!(map.insert_many(entries), fresh as u64, "{:?}", batch);
            }
            Batch::InsertSorted(entries) => {
                let fresh = entries.iter().filter(|(k, v)| model.insert(k.clone(), *v).is_none()).count();
                prop_assert_eq!(map.insert_sorted(entries), fresh as u64, "{:?}", batch);
            }
            Batch::Exchange(key, hit, new) => {
                let current = model.get(key).copied();
                let expected = if *hit { current } else { current.map_or(Some(5), |v| Some(v ^ 1)) };
                let outcome = if *hit { Ok(()) } else { Err(current) };
                prop_assert_eq!(map.compare_exchange(key, expected, *new), outcome, "{:?}", batch);
                match new {
                    Some(value) if *hit => _ = model.insert(key.clone(), *value),
                    None if *hit => _ = model.remove(key),
                    _ => {}
                }
            }
            Batch::Update(key, add) => {
                let change = |value: Option<u64>| Some(value.unwrap_or(0).wrapping_add(*add));
                let before = model.get(key).copied();
                model.insert(key.clone(), change(before).expect("always some"));
                prop_assert_eq!(map.fetch_update(key, &change), before, "{:?}", batch);
            }
            Batch::GetOrInsert(key, value) => {
                let expected = *model.entry(key.clone()).or_insert(*value);
                prop_assert_eq!(map.get_or_insert_with(key, &|| *value), expected, "{:?}", batch);
            }
        }
        map.check().map_err(|e| TestCaseError::fail(format!("after {batch:?}: {e}")))?;
    }
    prop_assert_eq!(map.len(), model.len() as u64);
    prop_assert_eq!(map.range(&Bound::Unbounded, &Bound::Unbounded), model.into_iter().collect::<Vec<_>>());
    Ok(())
}
