//! Single operations: how they are drawn, and what they must answer.

use super::map::Map;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Bound;

/// One operation.
#[derive(Clone, Debug)]
pub enum Op<K> {
    Insert(K, u64),
    Remove(K),
    Get(K),
    Floor(K),
    Below(K),
    Range(Bound<K>, Bound<K>),
    RangeRev(Bound<K>, Bound<K>),
    /// Removes all keys of a range, which unlinks nodes.
    Clear(K, K),
    /// Exchanges the value that is there, or another, for this.
    Exchange(K, bool, Option<u64>),
    GetOrInsert(K, u64),
    PopFirst,
    PopLast,
    /// Keeps the values of which this many low bits are not all zero.
    Retain(u32),
}

impl<K> Op<K> {
    /// The same with other keys.
    fn map<L>(self, to: &impl Fn(K) -> L) -> Op<L> {
        let bound = |bound: Bound<K>| bound.map(to);
        match self {
            Op::Insert(key, value) => Op::Insert(to(key), value),
            Op::Remove(key) => Op::Remove(to(key)),
            Op::Get(key) => Op::Get(to(key)),
            Op::Floor(key) => Op::Floor(to(key)),
            Op::Below(key) => Op::Below(to(key)),
            Op::Range(from, end) => Op::Range(bound(from), bound(end)),
            Op::RangeRev(from, end) => Op::RangeRev(bound(from), bound(end)),
            Op::Clear(from, end) => Op::Clear(to(from), to(end)),
            Op::Exchange(key, hits, new) => Op::Exchange(to(key), hits, new),
            Op::GetOrInsert(key, value) => Op::GetOrInsert(to(key), value),
            Op::PopFirst => Op::PopFirst,
            Op::PopLast => Op::PopLast,
            Op::Retain(bits) => Op::Retain(bits),
        }
    }
}

/// The same operations on other keys, in whatever order those are. So numbers are generated for all kinds of key.
pub fn on_keys<K, L>(ops: Vec<Op<K>>, to: impl Fn(K) -> L) -> Vec<Op<L>> {
    ops.into_iter().map(|op| op.map(&to)).collect()
}

/// Up to 500 operations.
pub fn ops<K: Clone + Debug + 'static>(key: BoxedStrategy<K>) -> BoxedStrategy<Vec<Op<K>>> {
    let bound = prop_oneof![
        key.clone().prop_map(Bound::Included),
        key.clone().prop_map(Bound::Excluded),
        Just(Bound::Unbounded)
    ]
    .boxed();
    let op = prop_oneof![
        12 => (key.clone(), any::<u64>()).prop_map(|(k, v)| Op::Insert(k, v)),
        4 => key.clone().prop_map(Op::Remove),
        2 => key.clone().prop_map(Op::Get),
        2 => key.clone().prop_map(Op::Floor),
        2 => key.clone().prop_map(Op::Below),
        1 => (bound.clone(), bound.clone()).prop_map(|(a, b)| Op::Range(a, b)),
        1 => (bound.clone(), bound).prop_map(|(a, b)| Op::RangeRev(a, b)),
        1 => (key.clone(), key.clone()).prop_map(|(a, b)| Op::Clear(a, b)),
        4 => (key.clone(), any::<bool>(), any::<Option<u64>>()).prop_map(|(k, h, v)| Op::Exchange(k, h, v)),
        1 => (key, any::<u64>()).prop_map(|(k, v)| Op::GetOrInsert(k, v)),
        1 => Just(Op::PopFirst),
        1 => Just(Op::PopLast),
        1 => (0u32..6).prop_map(Op::Retain),
    ];
    vec(op, 0..500).boxed()
}

/// Mostly a small set of keys, and both ends of the type.
pub fn number() -> BoxedStrategy<u64> {
    prop_oneof![20 => 0u64..300, 1 => Just(u64::MAX), 1 => u64::MAX - 3..=u64::MAX, 1 => any::<u64>()].boxed()
}

/// Short keys over few bytes (zeros too), shared prefixes of several lengths, keys longer than a node keeps inline.
pub fn byte_key() -> BoxedStrategy<Vec<u8>> {
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
    prop_oneof![4 => short, 4 => deep, 1 => long, 2 => vec(any::<u8>(), 0..130)].boxed()
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

/// Runs the operations on both, and compares answers and, after each, the structure.
pub fn agree<K: Ord + Clone + Debug>(
    map: &dyn Map<K>,
    mut model: BTreeMap<K, u64>,
    ops: &[Op<K>],
) -> TestCaseResult {
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
            Op::Exchange(k, hits, new) => {
                let value = model.get(k).copied();
                let expected = if *hits { value } else { value.map_or(Some(1), |v| Some(!v)) };
                let answer = if *hits { Ok(()) } else { Err(value) };
                prop_assert_eq!(map.compare_exchange(k, expected, *new), answer, "{:?}", op);
                match new {
                    Some(new) if *hits => _ = model.insert(k.clone(), *new),
                    None if *hits => _ = model.remove(k),
                    _ => {}
                }
            }
            Op::GetOrInsert(k, v) => {
                let expected = *model.entry(k.clone()).or_insert(*v);
                prop_assert_eq!(map.get_or_insert_with(k, &|| *v), expected, "{:?}", op);
            }
            Op::PopFirst => prop_assert_eq!(map.pop_first(), model.pop_first(), "{:?}", op),
            Op::PopLast => prop_assert_eq!(map.pop_last(), model.pop_last(), "{:?}", op),
            Op::Retain(bits) => {
                let keep = |value: u64| value.trailing_zeros() < *bits;
                map.retain(&|_, value| keep(value));
                model.retain(|_, value| keep(*value));
            }
        }
        let ends =
            [model.first_key_value(), model.last_key_value()].map(|end| end.map(|(k, v)| (k.clone(), *v)));
        prop_assert_eq!((map.ends(), map.len()), (ends, model.len() as u64), "after {:?}", op);
        map.check().map_err(|e| TestCaseError::fail(format!("after {op:?}: {e}")))?;
    }
    let all: Vec<_> = model.into_iter().collect();
    prop_assert_eq!(map.range(&Bound::Unbounded, &Bound::Unbounded), all);
    Ok(())
}
