//! One thread against `BTreeMap`: whatever the operations, answers and structure are right. Small nodes, so that a few
//! hundred operations split, unlink and grow; long and short byte strings, few distinct bytes.
//!
//! Each map is compiled for every combination here, so only those are here that differ in what they run:
//! - Nodes of 4 keys, the smallest, and of the usual size, whose search goes by cache lines. An odd number in the
//!   structures that allow one.
//! - `u64` is the key as it is. `i32` has both the half cells and the turned sign; `u32` and `i64` lack one of them each.
//!   `u128` is a row of words; `[u8; 31]` one whose last word is partly filled.
//! - Bags of one and two tails, so that layers come and go, and of the usual size.

mod batches;
mod map;
mod ops;
mod scans;
mod shapes;

use batches::batches;
use foreshore_index::{ByteMap, IntKey, IntMap, LeafIndex};
use foreshore_index::{Coupled, CsbByteMap, CsbMap, O2ByteMap, O2Map, OptimisticO2ByteMap, OptimisticO2Map};
use ops::{Op, agree, byte_key, number, on_keys, ops};
use proptest::collection::btree_map;
use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestRunner};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Cases per property; `INDEX_MODEL_CASES` asks for more.
fn cases() -> u32 {
    std::env::var("INDEX_MODEL_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(100)
}

/// Runs a property; a failure names the shortest input found that fails.
fn for_all<T: Debug>(inputs: BoxedStrategy<T>, property: &dyn Fn(T) -> TestCaseResult) {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases()) };
    TestRunner::new(config).run(&inputs, property).unwrap_or_else(|failure| panic!("{failure}"));
}

fn signed(number: u64) -> i32 {
    match number {
        u64::MAX => i32::MAX,
        number => (number as i32).wrapping_sub(150),
    }
}

#[test]
fn numbers_agree() {
    for_all(ops(number()), &|ops| {
        agree(&IntMap::<u64, 4>::new(), BTreeMap::new(), &ops)?;
        agree(&IntMap::<u64>::new(), BTreeMap::new(), &ops)?;
        agree(&IntMap::<i32, 16>::new(), BTreeMap::new(), &on_keys(ops, signed))
    });
}

/// A key that has one in ten of the images there are, and not the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Sparse(u32);

impl IntKey for Sparse {
    type Lane = u32;

    fn to_lane(self) -> u32 {
        self.0 * 10 + 1
    }

    fn from_lane(lane: u32) -> Self {
        Self(lane / 10)
    }
}

#[test]
fn sparse_keys_agree() {
    for_all(ops(number()), &|ops| {
        let ops = on_keys(ops, |key| Sparse((key % 1000) as u32));
        agree(&IntMap::<Sparse, 16>::new(), BTreeMap::new(), &ops)?;
        agree(&CsbMap::<Sparse, 5>::new(), BTreeMap::new(), &ops)?;
        agree(&O2Map::<Sparse, 5>::new(), BTreeMap::new(), &ops)
    });
}

#[test]
fn wide_keys_agree() {
    let name = |k: u64| *format!("{:+032}", k as i64).as_bytes().first_chunk::<31>().unwrap();
    for_all(ops(number()), &|ops| {
        let across_words = |k| if k == u64::MAX { u128::MAX } else { u128::from(k) << 62 };
        agree(&IntMap::<u128, 4>::new(), BTreeMap::new(), &on_keys(ops.clone(), across_words))?;
        agree(&IntMap::<[u8; 31], 8>::new(), BTreeMap::new(), &on_keys(ops, name))
    });
}

/// Whatever the width of keys and words, whole lines or not.
#[test]
fn scans_of_known_length_agree() {
    for_all(scans::scans(number()), &|case| {
        scans::agree::<_, u64, 4>(&case, |key| key)?;
        scans::agree::<_, u64, 64>(&case, |key| key)?;
        scans::agree::<_, i32, 16>(&case, |key| (key % 1000) as i32 - 150)?;
        scans::agree::<_, u128, 8>(
            &case,
            |key| if key == u64::MAX { u128::MAX } else { u128::from(key) << 62 },
        )
    });
}

#[test]
fn batches_of_numbers_agree() {
    for_all(batches(number()), &|batches| {
        batches::agree(&IntMap::<u64, 4>::new(), &batches)?;
        batches::agree(&IntMap::<u64>::new(), &batches)
    });
}

#[test]
fn batches_of_byte_strings_agree() {
    for_all(batches(byte_key()), &|batches| {
        batches::agree(&ByteMap::<4>::new(), &batches)?;
        batches::agree(&ByteMap::<64>::new(), &batches)
    });
}

#[test]
fn csb_numbers_agree() {
    for_all(ops(number()), &|ops| {
        agree(&CsbMap::<u64, 4>::new(), BTreeMap::new(), &ops)?;
        agree(&CsbMap::<u64>::new(), BTreeMap::new(), &ops)?;
        agree(&CsbMap::<i32, 5>::new(), BTreeMap::new(), &on_keys(ops, signed))
    });
}

#[test]
fn o2_numbers_agree() {
    for_all(ops(number()), &|ops| {
        agree(&O2Map::<u64, 4>::new(), BTreeMap::new(), &ops)?;
        agree(&OptimisticO2Map::<u64, 4>::new(), BTreeMap::new(), &ops)?;
        agree(&O2Map::<u64>::new(), BTreeMap::new(), &ops)?;
        agree(&O2Map::<i32, 5>::new(), BTreeMap::new(), &on_keys(ops, signed))
    });
}

#[test]
fn byte_strings_agree() {
    for_all(ops(byte_key()), &|ops| {
        agree(&ByteMap::<4>::new(), BTreeMap::new(), &ops)?;
        agree(&ByteMap::<64>::new(), BTreeMap::new(), &ops)
    });
}

/// Layers and bags.
#[test]
fn byte_strings_in_layers_agree() {
    for_all(ops(byte_key()), &|ops| {
        agree(&CsbByteMap::<4, 2>::new(), BTreeMap::new(), &ops)?;
        agree(&O2ByteMap::<4, Coupled, 1>::new(), BTreeMap::new(), &ops)?;
        agree(&OptimisticO2ByteMap::<4, 2>::new(), BTreeMap::new(), &ops)?;
        agree(&OptimisticO2ByteMap::<64>::new(), BTreeMap::new(), &ops)
    });
}

/// Entries to load, how full, and what follows.
type Loaded<K> = (BTreeMap<K, u64>, f64, Vec<Op<K>>);

fn loaded<K: Ord + Clone + Debug + 'static>(key: BoxedStrategy<K>) -> BoxedStrategy<Loaded<K>> {
    let ops = ops(key.clone()).prop_map(|mut ops| {
        ops.truncate(100);
        ops
    });
    (btree_map(key, any::<u64>(), 0..200), 0.1f64..1.0, ops).boxed()
}

/// A loaded tree is one like any other.
#[test]
fn loaded_numbers_agree() {
    for_all(loaded(number()), &|(start, fill, ops)| {
        let bplus = IntMap::<u64, 4>::bulk_load(start.clone(), fill);
        let csb = CsbMap::<u64, 4>::bulk_load(start.clone(), fill);
        prop_assert_eq!((bplus.check(), csb.check()), (Ok(()), Ok(())));
        agree(&bplus, start.clone(), &ops)?;
        agree(&csb, start, &ops)
    });
}

/// So is one whose inner tree was rebuilt, or dumped and restored.
#[test]
fn o2_loaded_numbers_agree() {
    for_all(loaded(number()), &|(start, fill, ops)| {
        let mut map = O2Map::<u64, 4>::bulk_load(start.clone(), fill);
        prop_assert_eq!(map.check(), Ok(()));
        let (before, after) = ops.split_at(ops.len() / 2);
        agree(&map, start, before)?;
        let model: BTreeMap<u64, u64> = map.range(..).collect();
        let dump = map.dump_inner();
        map.rebuild_inner();
        prop_assert_eq!(map.check(), Ok(()));
        prop_assert_eq!(map.restore_inner(&dump), Ok(()));
        prop_assert_eq!(map.dump_inner(), dump);
        agree(&map, model, after)
    });
}

#[test]
fn loaded_byte_strings_agree() {
    for_all(loaded(byte_key()), &|(start, fill, ops)| {
        let entries = || start.iter().map(|(key, value)| (key, *value));
        let bplus: ByteMap<4> = LeafIndex::bulk_load(entries(), fill);
        let csb: CsbByteMap<4, 2> = LeafIndex::bulk_load(entries(), fill);
        let o2: OptimisticO2ByteMap<4, 2> = LeafIndex::bulk_load(entries(), fill);
        prop_assert_eq!((bplus.check(), csb.check(), o2.check()), (Ok(()), Ok(()), Ok(())));
        agree(&bplus, start.clone(), &ops)?;
        agree(&csb, start.clone(), &ops)?;
        agree(&o2, start.clone(), &ops)
    });
}
