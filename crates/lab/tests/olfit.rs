//! The six schemes give the answers of a `BTreeMap`, and those that may run on several threads lose nothing there.

use foreshore_lab::olfit::{
    LockCoupling, No, Optimistic, Scheme, Tree, TreeLatch, VersionsByNode, VersionsByTree,
};
use foreshore_lab::probe::Silent;
use foreshore_workloads::random::Random;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Op {
    Get(u32),
    Insert(u32, u32),
    Remove(u32),
}

fn operations() -> impl Strategy<Value = Vec<Op>> {
    let key = 0u32..300;
    let op = prop_oneof![
        key.clone().prop_map(Op::Get),
        (key.clone(), any::<u32>()).prop_map(|(key, value)| Op::Insert(key, value)),
        (key.clone(), any::<u32>()).prop_map(|(key, value)| Op::Insert(key, value)),
        key.prop_map(Op::Remove),
    ];
    prop::collection::vec(op, 1..800)
}

/// Nodes of 64 bytes: a few hundred keys make several levels.
fn agrees_with_the_model<S: Scheme>(operations: &[Op]) -> Result<(), TestCaseError> {
    let tree: Tree<S, 16> = Tree::with_room_for(1000);
    let mut worker = tree.worker(Silent);
    let mut model = BTreeMap::new();
    for op in operations {
        match *op {
            Op::Get(key) => prop_assert_eq!(tree.get(&mut worker, key), model.get(&key).copied(), "{:?}", op),
            Op::Insert(key, value) => {
                let absent = !model.contains_key(&key);
                model.entry(key).or_insert(value);
                prop_assert_eq!(tree.insert(&mut worker, key, value), absent, "{:?}", op);
            }
            Op::Remove(key) => prop_assert_eq!(tree.remove(&mut worker, key), model.remove(&key), "{:?}", op),
        }
    }
    prop_assert_eq!(tree.check(), Ok(model.len()));
    for key in 0..300 {
        prop_assert_eq!(tree.get(&mut worker, key), model.get(&key).copied());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn no_control(operations in operations()) {
        agrees_with_the_model::<No>(&operations)?;
    }
    #[test]
    fn lock_coupling(operations in operations()) {
        agrees_with_the_model::<LockCoupling>(&operations)?;
    }
    #[test]
    fn tree_latch(operations in operations()) {
        agrees_with_the_model::<TreeLatch>(&operations)?;
    }
    #[test]
    fn versions_by_node(operations in operations()) {
        agrees_with_the_model::<VersionsByNode>(&operations)?;
    }
    #[test]
    fn versions_by_tree(operations in operations()) {
        agrees_with_the_model::<VersionsByTree>(&operations)?;
    }
    #[test]
    fn optimistic(operations in operations()) {
        agrees_with_the_model::<Optimistic>(&operations)?;
    }
}

const THREADS: u32 = 4;

/// Each thread has keys of its own, between the other threads' keys; it knows at every moment which of them are there.
fn threads_lose_nothing<S: Scheme>(seed: u64) {
    let tree: Tree<S, 16> = Tree::with_room_for(40_000);
    let left: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|me| {
                scope.spawn({
                    let tree = &tree;
                    move || {
                        let mut worker = tree.worker(Silent);
                        let mut random = Random::new(seed, u64::from(me));
                        let mut model = BTreeMap::new();
                        for _ in 0..20_000 {
                            let key = random.below(2_000) as u32 * THREADS + me;
                            let value = random.word() as u32;
                            match random.below(4) {
                                0 => assert_eq!(
                                    tree.get(&mut worker, key),
                                    model.get(&key).copied(),
                                    "{} seed {seed}",
                                    S::NAME
                                ),
                                1 => assert_eq!(
                                    tree.remove(&mut worker, key),
                                    model.remove(&key),
                                    "{} seed {seed}",
                                    S::NAME
                                ),
                                _ => {
                                    let inserted = tree.insert(&mut worker, key, value);
                                    assert_eq!(
                                        inserted,
                                        !model.contains_key(&key),
                                        "{} seed {seed}",
                                        S::NAME
                                    );
                                    model.entry(key).or_insert(value);
                                }
                            }
                        }
                        model.len()
                    }
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread panics")).sum()
    });
    assert_eq!(tree.check(), Ok(left), "{} seed {seed}", S::NAME);
}

#[test]
fn threads_on_lock_coupling() {
    threads_lose_nothing::<LockCoupling>(1);
}
#[test]
fn threads_on_the_tree_latch() {
    threads_lose_nothing::<TreeLatch>(2);
}
#[test]
fn threads_on_versions_by_node() {
    threads_lose_nothing::<VersionsByNode>(3);
}
#[test]
fn threads_on_versions_by_tree() {
    threads_lose_nothing::<VersionsByTree>(4);
}
#[test]
fn threads_on_optimistic_nodes() {
    threads_lose_nothing::<Optimistic>(5);
}
