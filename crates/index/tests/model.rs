//! One thread against `BTreeMap`: whatever the operations, answers and structure are right. Small nodes, so that a few
//! hundred operations split, unlink and grow; all key kinds; long and short byte strings, few distinct bytes.
#![cfg(not(any(loom, shuttle)))]

use foreshore_index::{ByteMap, CsbByteMap, CsbMap, IntKey, IntMap, LayerTree, LeafIndex, O2ByteMap, O2Map};
use foreshore_index::{Coupled, OptimisticO2ByteMap, OptimisticO2Map, TrieMap};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::Bound;

#[derive(Clone, Debug)]
enum Op<K> {
    Insert(K, u64),
    Remove(K),
    Get(K),
    Floor(K),
    Below(K),
    Range(Bound<K>, Bound<K>),
    RangeRev(Bound<K>, Bound<K>),
    /// Removes all keys of a range, which unlinks nodes.
    Clear(K, K),
}

fn ops<K: Clone + std::fmt::Debug + 'static>(
    key: impl Strategy<Value = K> + Clone + 'static,
) -> impl Strategy<Value = Vec<Op<K>>> {
    let bound = prop_oneof![
        key.clone().prop_map(Bound::Included),
        key.clone().prop_map(Bound::Excluded),
        Just(Bound::Unbounded)
    ];
    let op = prop_oneof![
        12 => (key.clone(), any::<u64>()).prop_map(|(k, v)| Op::Insert(k, v)),
        4 => key.clone().prop_map(Op::Remove),
        2 => key.clone().prop_map(Op::Get),
        2 => key.clone().prop_map(Op::Floor),
        2 => key.clone().prop_map(Op::Below),
        1 => (bound.clone(), bound.clone()).prop_map(|(a, b)| Op::Range(a, b)),
        1 => (bound.clone(), bound).prop_map(|(a, b)| Op::RangeRev(a, b)),
        1 => (key.clone(), key).prop_map(|(a, b)| Op::Clear(a, b)),
    ];
    vec(op, 0..500)
}

/// What both kinds of map can do, for owned keys.
trait Map<K: Ord + Clone> {
    fn insert(&self, key: &K, value: u64) -> Option<u64>;
    fn remove(&self, key: &K) -> Option<u64>;
    fn get(&self, key: &K) -> Option<u64>;
    fn floor(&self, key: &K) -> Option<u64>;
    fn below(&self, key: &K) -> Option<u64>;
    fn range(&self, from: &Bound<K>, to: &Bound<K>) -> Vec<(K, u64)>;
    fn range_rev(&self, from: &Bound<K>, to: &Bound<K>) -> Vec<(K, u64)>;
    fn check(&self) -> Result<(), String>;
}

macro_rules! int_map {
    ($map:ident) => {
        impl<K: IntKey, const F: usize> Map<K> for $map<K, F> {
            fn insert(&self, key: &K, value: u64) -> Option<u64> {
                self.insert(*key, value)
            }
            fn remove(&self, key: &K) -> Option<u64> {
                self.remove(*key)
            }
            fn get(&self, key: &K) -> Option<u64> {
                self.get(*key)
            }
            fn floor(&self, key: &K) -> Option<u64> {
                self.floor(*key)
            }
            fn below(&self, key: &K) -> Option<u64> {
                self.below(*key)
            }
            fn range(&self, from: &Bound<K>, to: &Bound<K>) -> Vec<(K, u64)> {
                self.range((*from, *to)).collect()
            }
            fn range_rev(&self, from: &Bound<K>, to: &Bound<K>) -> Vec<(K, u64)> {
                self.range_rev((*from, *to)).collect()
            }
            fn check(&self) -> Result<(), String> {
                self.check().map_err(|e| e.to_string())
            }
        }
    };
}

int_map!(IntMap);
int_map!(CsbMap);
int_map!(O2Map);
int_map!(OptimisticO2Map);

fn slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

impl<const F: usize, const H: usize> Map<Vec<u8>> for ByteMap<F, H> {
    fn insert(&self, key: &Vec<u8>, value: u64) -> Option<u64> {
        self.insert(key, value)
    }
    fn remove(&self, key: &Vec<u8>) -> Option<u64> {
        self.remove(key)
    }
    fn get(&self, key: &Vec<u8>) -> Option<u64> {
        self.get(key)
    }
    fn floor(&self, key: &Vec<u8>) -> Option<u64> {
        self.floor(key)
    }
    fn below(&self, key: &Vec<u8>) -> Option<u64> {
        self.below(key)
    }
    fn range(&self, from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> Vec<(Vec<u8>, u64)> {
        self.range(slice(from), slice(to)).collect()
    }
    fn range_rev(&self, from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> Vec<(Vec<u8>, u64)> {
        self.range_rev(slice(from), slice(to)).collect()
    }
    fn check(&self) -> Result<(), String> {
        self.check().map_err(|e| e.to_string())
    }
}

/// Many keys at a time, and single changes under a condition.
#[derive(Clone, Debug)]
enum Batch<K> {
    Get(Vec<K>),
    Insert(Vec<(K, u64)>),
    InsertSorted(Vec<(K, u64)>),
    /// Expects what is there, or not.
    Exchange(K, bool, Option<u64>),
    Update(K, u64),
    GetOrInsert(K, u64),
}

fn batches<K: Ord + Clone + std::fmt::Debug + 'static>(
    key: impl Strategy<Value = K> + Clone + 'static,
) -> impl Strategy<Value = Vec<Batch<K>>> {
    let entries = vec((key.clone(), any::<u64>()), 0..60);
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
    vec(batch, 0..40)
}

/// What the B+-tree's maps can do besides.
trait BatchMap<K>: Map<K>
where
    K: Ord + Clone,
{
    fn multi_get(&self, keys: &[K]) -> Vec<Option<u64>>;
    fn insert_many(&self, entries: &[(K, u64)]) -> u64;
    fn insert_sorted(&self, entries: &[(K, u64)]) -> u64;
    fn compare_exchange(&self, key: &K, expected: Option<u64>, new: Option<u64>) -> Result<(), Option<u64>>;
    fn fetch_update(&self, key: &K, change: impl Fn(Option<u64>) -> Option<u64>) -> Option<u64>;
    fn get_or_insert_with(&self, key: &K, make: impl Fn() -> u64) -> u64;
    fn len(&self) -> u64;
}

impl<K: IntKey, const F: usize> BatchMap<K> for IntMap<K, F> {
    fn multi_get(&self, keys: &[K]) -> Vec<Option<u64>> {
        let mut values = vec![Some(77); keys.len()];
        self.multi_get(keys, &mut values);
        values
    }
    fn insert_many(&self, entries: &[(K, u64)]) -> u64 {
        self.insert_many(entries)
    }
    fn insert_sorted(&self, entries: &[(K, u64)]) -> u64 {
        self.insert_sorted(entries)
    }
    fn compare_exchange(&self, key: &K, expected: Option<u64>, new: Option<u64>) -> Result<(), Option<u64>> {
        self.compare_exchange(*key, expected, new)
    }
    fn fetch_update(&self, key: &K, change: impl Fn(Option<u64>) -> Option<u64>) -> Option<u64> {
        self.fetch_update(*key, change)
    }
    fn get_or_insert_with(&self, key: &K, make: impl Fn() -> u64) -> u64 {
        self.get_or_insert_with(*key, make)
    }
    fn len(&self) -> u64 {
        self.len()
    }
}

impl<const F: usize, const H: usize> BatchMap<Vec<u8>> for ByteMap<F, H> {
    fn multi_get(&self, keys: &[Vec<u8>]) -> Vec<Option<u64>> {
        let mut values = vec![Some(77); keys.len()];
        self.multi_get(&keys.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut values);
        values
    }
    fn insert_many(&self, entries: &[(Vec<u8>, u64)]) -> u64 {
        self.insert_many(&entries.iter().map(|(k, v)| (&k[..], *v)).collect::<Vec<_>>())
    }
    fn insert_sorted(&self, entries: &[(Vec<u8>, u64)]) -> u64 {
        self.insert_sorted(&entries.iter().map(|(k, v)| (&k[..], *v)).collect::<Vec<_>>())
    }
    fn compare_exchange(
        &self,
        key: &Vec<u8>,
        expected: Option<u64>,
        new: Option<u64>,
    ) -> Result<(), Option<u64>> {
        self.compare_exchange(key, expected, new)
    }
    fn fetch_update(&self, key: &Vec<u8>, change: impl Fn(Option<u64>) -> Option<u64>) -> Option<u64> {
        self.fetch_update(key, change)
    }
    fn get_or_insert_with(&self, key: &Vec<u8>, make: impl Fn() -> u64) -> u64 {
        self.get_or_insert_with(key, make)
    }
    fn len(&self) -> u64 {
        self.len()
    }
}

fn batches_agree<K: Ord + Clone + std::fmt::Debug>(
    map: &impl BatchMap<K>,
    batches: &[Batch<K>],
) -> Result<(), TestCaseError> {
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
                prop_assert_eq!(map.fetch_update(key, change), before, "{:?}", batch);
            }
            Batch::GetOrInsert(key, value) => {
                let expected = *model.entry(key.clone()).or_insert(*value);
                prop_assert_eq!(map.get_or_insert_with(key, || *value), expected, "{:?}", batch);
            }
        }
        map.check().map_err(|e| TestCaseError::fail(format!("after {batch:?}: {e}")))?;
    }
    prop_assert_eq!(map.len(), model.len() as u64);
    prop_assert_eq!(map.range(&Bound::Unbounded, &Bound::Unbounded), model.into_iter().collect::<Vec<_>>());
    Ok(())
}

impl<M: LayerTree, const C: usize> Map<Vec<u8>> for TrieMap<M, C> {
    fn insert(&self, key: &Vec<u8>, value: u64) -> Option<u64> {
        self.insert(key, value)
    }
    fn remove(&self, key: &Vec<u8>) -> Option<u64> {
        self.remove(key)
    }
    fn get(&self, key: &Vec<u8>) -> Option<u64> {
        self.get(key)
    }
    fn floor(&self, key: &Vec<u8>) -> Option<u64> {
        self.floor(key)
    }
    fn below(&self, key: &Vec<u8>) -> Option<u64> {
        self.below(key)
    }
    fn range(&self, from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> Vec<(Vec<u8>, u64)> {
        self.range(slice(from), slice(to)).collect()
    }
    fn range_rev(&self, from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> Vec<(Vec<u8>, u64)> {
        self.range_rev(slice(from), slice(to)).collect()
    }
    fn check(&self) -> Result<(), String> {
        self.check().map_err(|e| e.to_string())
    }
}

fn within<K: Ord + Clone>(model: &BTreeMap<K, u64>, from: &Bound<K>, to: &Bound<K>) -> Vec<(K, u64)> {
    let above = |k: &K| match from {
        Bound::Included(b) => k >= b,
        Bound::Excluded(b) => k > b,
        Bound::Unbounded => true,
    };
    let below = |k: &K| match to {
        Bound::Included(b) => k <= b,
        Bound::Excluded(b) => k < b,
        Bound::Unbounded => true,
    };
    model.iter().filter(|(k, _)| above(k) && below(k)).map(|(k, v)| (k.clone(), *v)).collect()
}

fn agree<K: Ord + Clone + std::fmt::Debug>(
    map: &impl Map<K>,
    mut model: BTreeMap<K, u64>,
    ops: &[Op<K>],
) -> Result<(), TestCaseError> {
    for op in ops {
        match op {
            Op::Insert(k, v) => prop_assert_eq!(map.insert(k, *v), model.insert(k.clone(), *v), "{:?}", op),
            Op::Remove(k) => prop_assert_eq!(map.remove(k), model.remove(k), "{:?}", op),
            Op::Get(k) => prop_assert_eq!(map.get(k), model.get(k).copied(), "{:?}", op),
            Op::Floor(k) => {
                let expected = model.range(..=k.clone()).next_back().map(|(_, v)| *v);
                prop_assert_eq!(map.floor(k), expected, "{:?}", op);
            }
            Op::Below(k) => {
                let expected = model.range(..k.clone()).next_back().map(|(_, v)| *v);
                prop_assert_eq!(map.below(k), expected, "{:?}", op);
            }
            Op::Range(a, b) => prop_assert_eq!(map.range(a, b), within(&model, a, b), "{:?}", op),
            Op::RangeRev(a, b) => {
                let mut expected = within(&model, a, b);
                expected.reverse();
                prop_assert_eq!(map.range_rev(a, b), expected, "{:?}", op);
            }
            Op::Clear(a, b) => {
                for (k, v) in within(&model, &Bound::Included(a.clone()), &Bound::Excluded(b.clone())) {
                    prop_assert_eq!(map.remove(&k), Some(v), "{:?} at {:?}", op, k);
                    model.remove(&k);
                }
            }
        }
        map.check().map_err(|e| TestCaseError::fail(format!("after {op:?}: {e}")))?;
    }
    let all: Vec<_> = model.into_iter().collect();
    prop_assert_eq!(map.range(&Bound::Unbounded, &Bound::Unbounded), all);
    Ok(())
}

/// Mostly a small set of keys, and both ends of the type.
fn int_key() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![20 => 0u64..300, 1 => Just(u64::MAX), 1 => u64::MAX - 3..=u64::MAX, 1 => any::<u64>()]
}

/// Short keys over few bytes (zeros too), shared prefixes of several lengths, keys longer than a node keeps inline.
fn byte_key() -> impl Strategy<Value = Vec<u8>> + Clone {
    let short = vec(prop_oneof![Just(0u8), Just(1), Just(b'a'), Just(0xFF)], 0..5);
    let deep = (0usize..3, vec(0u8..3, 0..12)).prop_map(|(p, tail)| {
        let mut key = vec![b'p'; [9, 40, 100][p]];
        key.extend(tail);
        key
    });
    let long = (120usize..300, vec(0u8..3, 0..4)).prop_map(|(len, tail)| {
        let mut key = vec![b'q'; len];
        key.extend(tail);
        key
    });
    prop_oneof![4 => short, 4 => deep, 1 => long, 2 => vec(any::<u8>(), 0..130)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn u64_keys_agree(ops in ops(int_key())) {
        agree(&IntMap::<u64, 8>::new(), BTreeMap::new(), &ops)?;
        agree(&IntMap::<u64, 4>::new(), BTreeMap::new(), &ops)?;
    }

    #[test]
    fn u64_keys_in_large_nodes_agree(ops in ops(int_key())) {
        agree(&IntMap::<u64>::new(), BTreeMap::new(), &ops)?;
    }

    #[test]
    fn batches_of_u64_keys_agree(batches in batches(int_key())) {
        batches_agree(&IntMap::<u64, 4>::new(), &batches)?;
        batches_agree(&IntMap::<u64, 12>::new(), &batches)?;
        batches_agree(&IntMap::<u64>::new(), &batches)?;
    }

    #[test]
    fn batches_of_byte_strings_agree(batches in batches(byte_key())) {
        batches_agree(&ByteMap::<4>::new(), &batches)?;
        batches_agree(&ByteMap::<64>::new(), &batches)?;
    }

    #[test]
    fn u32_keys_agree(ops in ops(int_key().prop_map(|k| k as u32))) {
        agree(&IntMap::<u32, 16>::new(), BTreeMap::new(), &ops)?;
    }

    #[test]
    fn signed_keys_agree(ops in ops(prop_oneof![20 => -100i64..100, 1 => Just(i64::MIN)]), small in ops(prop_oneof![20 => -100i32..100, 1 => Just(i32::MAX)])) {
        agree(&IntMap::<i64, 8>::new(), BTreeMap::new(), &ops)?;
        agree(&IntMap::<i32, 4>::new(), BTreeMap::new(), &small)?;
    }

    #[test]
    fn wide_keys_agree(
        numbers in ops(prop_oneof![20 => int_key().prop_map(|k| u128::from(k) << 62), 1 => Just(u128::MAX)]),
        signed in ops(prop_oneof![20 => -100i128..100, 1 => Just(i128::MIN)]),
        codes in ops(int_key().prop_map(|k| *k.to_be_bytes().last_chunk::<5>().unwrap())),
        names in ops(int_key().prop_map(|k| *format!("{:+032}", k as i64).as_bytes().first_chunk::<31>().unwrap())),
    ) {
        agree(&IntMap::<u128, 4>::new(), BTreeMap::new(), &numbers)?;
        agree(&IntMap::<i128, 8>::new(), BTreeMap::new(), &signed)?;
        agree(&IntMap::<[u8; 5], 4>::new(), BTreeMap::new(), &codes)?;
        agree(&IntMap::<[u8; 31]>::new(), BTreeMap::new(), &names)?;
    }

    #[test]
    fn csb_u64_keys_agree(ops in ops(int_key())) {
        agree(&CsbMap::<u64, 4>::new(), BTreeMap::new(), &ops)?;
        agree(&CsbMap::<u64, 8>::new(), BTreeMap::new(), &ops)?;
    }

    #[test]
    fn csb_keys_of_all_kinds_agree(
        u64s in ops(int_key()),
        u32s in ops(int_key().prop_map(|k| k as u32)),
        i64s in ops(prop_oneof![20 => -100i64..100, 1 => Just(i64::MIN)]),
        i32s in ops(prop_oneof![20 => -100i32..100, 1 => Just(i32::MAX)]),
    ) {
        agree(&CsbMap::<u64>::new(), BTreeMap::new(), &u64s)?;
        agree(&CsbMap::<u32, 5>::new(), BTreeMap::new(), &u32s)?;
        agree(&CsbMap::<i64, 6>::new(), BTreeMap::new(), &i64s)?;
        agree(&CsbMap::<i32, 16>::new(), BTreeMap::new(), &i32s)?;
    }

    #[test]
    fn csb_loaded_trees_agree(
        start in proptest::collection::btree_map(int_key(), any::<u64>(), 0..200),
        fill in 0.1f64..1.0,
        ops in ops(int_key()),
    ) {
        let map = CsbMap::<u64, 4>::bulk_load(start.clone(), fill);
        prop_assert_eq!(map.check(), Ok(()));
        agree(&map, start, &ops[..ops.len().min(100)])?;
    }

    #[test]
    fn o2_u64_keys_agree(ops in ops(int_key())) {
        agree(&O2Map::<u64, 4>::new(), BTreeMap::new(), &ops)?;
        agree(&O2Map::<u64, 5>::new(), BTreeMap::new(), &ops)?;
        agree(&OptimisticO2Map::<u64, 4>::new(), BTreeMap::new(), &ops)?;
    }

    #[test]
    fn o2_keys_of_all_kinds_agree(
        u64s in ops(int_key()),
        u32s in ops(int_key().prop_map(|k| k as u32)),
        i64s in ops(prop_oneof![20 => -100i64..100, 1 => Just(i64::MIN)]),
        i32s in ops(prop_oneof![20 => -100i32..100, 1 => Just(i32::MAX)]),
    ) {
        agree(&OptimisticO2Map::<u64>::new(), BTreeMap::new(), &u64s)?;
        agree(&O2Map::<u32, 16>::new(), BTreeMap::new(), &u32s)?;
        agree(&O2Map::<i64, 8>::new(), BTreeMap::new(), &i64s)?;
        agree(&OptimisticO2Map::<i32, 6>::new(), BTreeMap::new(), &i32s)?;
    }

    /// A loaded tree is one like any other; so is one whose inner tree was rebuilt, or dumped and restored.
    #[test]
    fn o2_loaded_trees_agree(
        start in proptest::collection::btree_map(int_key(), any::<u64>(), 0..200),
        fill in 0.1f64..1.0,
        ops in ops(int_key()),
    ) {
        let mut map = O2Map::<u64, 8>::bulk_load(start.clone(), fill);
        prop_assert_eq!(map.check(), Ok(()));
        let (before, after) = ops.split_at(ops.len().min(100));
        agree(&map, start, before)?;
        let model: BTreeMap<u64, u64> = map.range(..).collect();
        let dump = map.dump_inner();
        map.rebuild_inner();
        prop_assert_eq!(map.check(), Ok(()));
        prop_assert_eq!(map.restore_inner(&dump), Ok(()));
        prop_assert_eq!(map.dump_inner(), dump);
        agree(&map, model, &after[..after.len().min(100)])?;
    }

    #[test]
    fn byte_strings_agree(ops in ops(byte_key())) {
        agree(&ByteMap::<4>::new(), BTreeMap::new(), &ops)?;
        agree(&ByteMap::<8>::new(), BTreeMap::new(), &ops)?;
    }

    #[test]
    fn byte_strings_in_large_nodes_agree(ops in ops(byte_key())) {
        agree(&ByteMap::<64>::new(), BTreeMap::new(), &ops)?;
    }

    /// Layers and bags: bags of one to three tails, so that layers come and go, and of the usual size.
    #[test]
    fn byte_strings_in_layers_agree(ops in ops(byte_key())) {
        agree(&CsbByteMap::<4, 2>::new(), BTreeMap::new(), &ops)?;
        agree(&O2ByteMap::<4, Coupled, 1>::new(), BTreeMap::new(), &ops)?;
        agree(&OptimisticO2ByteMap::<5, 3>::new(), BTreeMap::new(), &ops)?;
        agree(&OptimisticO2ByteMap::<64>::new(), BTreeMap::new(), &ops)?;
        agree(&CsbByteMap::<16>::new(), BTreeMap::new(), &ops)?;
    }

    /// Loaded layers are layers like any other.
    #[test]
    fn loaded_layers_agree(
        start in proptest::collection::btree_map(byte_key(), any::<u64>(), 0..200),
        fill in 0.1f64..1.0,
        ops in ops(byte_key()),
    ) {
        let csb: CsbByteMap<4, 2> = LeafIndex::bulk_load(start.iter().map(|(k, v)| (k, *v)), fill);
        let o2: OptimisticO2ByteMap<8, 5> = LeafIndex::bulk_load(start.iter().map(|(k, v)| (k, *v)), fill);
        prop_assert_eq!((csb.check(), o2.check()), (Ok(()), Ok(())));
        agree(&csb, start.clone(), &ops[..ops.len().min(100)])?;
        agree(&o2, start, &ops[..ops.len().min(100)])?;
    }

    /// A loaded tree is one like any other.
    #[test]
    fn loaded_trees_agree(
        start in proptest::collection::btree_map(int_key(), any::<u64>(), 0..200),
        fill in 0.1f64..1.0,
        ops in ops(int_key()),
    ) {
        let map = IntMap::<u64, 8>::bulk_load(start.clone(), fill);
        prop_assert_eq!(map.check(), Ok(()));
        agree(&map, start, &ops[..ops.len().min(100)])?;
    }

    #[test]
    fn loaded_byte_trees_agree(
        start in proptest::collection::btree_map(byte_key(), any::<u64>(), 0..200),
        fill in 0.1f64..1.0,
        ops in ops(byte_key()),
    ) {
        let map: ByteMap<8> = LeafIndex::bulk_load(start.iter().map(|(k, v)| (k, *v)), fill);
        prop_assert_eq!(map.check(), Ok(()));
        agree(&map, start, &ops[..ops.len().min(100)])?;
    }
}

/// Cases per property; `INDEX_MODEL_CASES` asks for more.
fn cases() -> u32 {
    std::env::var("INDEX_MODEL_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(100)
}

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
    let map = OptimisticO2ByteMap::<4, 8>::new();
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
    assert_eq!(map.last(), Some(19_999));
}

#[test]
#[should_panic(expected = "a key of 1025 bytes: 1024 at most")]
fn keys_that_are_too_long_are_refused() {
    CsbByteMap::<16>::new().insert(&[0; 1025], 1);
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
    assert_eq!((map.stats().layers, map.last()), (1, None));
    map.check().unwrap();
}
