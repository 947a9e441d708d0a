//! The six schemes, on both trees, give the answers of a `BTreeMap`, and those that may run on several threads lose nothing
//! there.

use foreshore_lab::olfit::{
    BPlus, Csb, Family, LockCoupling, No, Optimistic, Scheme, Tree, TreeLatch, VersionsByNode, VersionsByTree,
};
use foreshore_lab::probe::{Hold, Probe, Silent};
use foreshore_workloads::random::{Permutation, Random};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

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
fn agrees_with_the_model<S: Scheme, F: Family>(operations: &[Op]) -> Result<(), TestCaseError> {
    let tree: Tree<S, 16, F> = Tree::with_room_for(1000);
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
        agrees_with_the_model::<No, BPlus>(&operations)?;
        agrees_with_the_model::<No, Csb>(&operations)?;
    }
    #[test]
    fn lock_coupling(operations in operations()) {
        agrees_with_the_model::<LockCoupling, BPlus>(&operations)?;
        agrees_with_the_model::<LockCoupling, Csb>(&operations)?;
    }
    #[test]
    fn tree_latch(operations in operations()) {
        agrees_with_the_model::<TreeLatch, BPlus>(&operations)?;
        agrees_with_the_model::<TreeLatch, Csb>(&operations)?;
    }
    #[test]
    fn versions_by_node(operations in operations()) {
        agrees_with_the_model::<VersionsByNode, BPlus>(&operations)?;
        agrees_with_the_model::<VersionsByNode, Csb>(&operations)?;
    }
    #[test]
    fn versions_by_tree(operations in operations()) {
        agrees_with_the_model::<VersionsByTree, BPlus>(&operations)?;
        agrees_with_the_model::<VersionsByTree, Csb>(&operations)?;
    }
    #[test]
    fn optimistic(operations in operations()) {
        agrees_with_the_model::<Optimistic, BPlus>(&operations)?;
        agrees_with_the_model::<Optimistic, Csb>(&operations)?;
    }
}

/// Now and then lets other threads run just before an access, so that they meet nodes half changed.
struct Disturbed(Random);

impl Disturbed {
    fn maybe(&mut self) {
        if self.0.below(64) == 0 {
            std::thread::yield_now();
        }
    }
}

impl Probe for Disturbed {
    fn load(&mut self, _at: u64) {
        self.maybe();
    }
    fn store(&mut self, _at: u64) {
        self.maybe();
    }
    fn take(&mut self, _at: u64, _hold: Hold) {
        self.maybe();
    }
    fn give(&mut self, _at: u64, _hold: Hold) {
        self.maybe();
    }
}

const THREADS: u32 = 4;

/// Each thread has keys of its own, between the other threads' keys; it knows at every moment which of them are there.
fn threads_lose_nothing<S: Scheme, F: Family>(seed: u64) {
    let tree: Tree<S, 16, F> = Tree::with_room_for(40_000);
    let name = format!("{} {} seed {seed}", F::NAME, S::NAME);
    let left: usize = std::thread::scope(|scope| {
        let thread = |me| {
            let (tree, name) = (&tree, &name);
            scope.spawn(move || {
                let mut worker = tree.worker(Silent);
                let mut random = Random::new(seed, u64::from(me));
                let mut model = BTreeMap::new();
                for _ in 0..20_000 {
                    let key = random.below(2_000) as u32 * THREADS + me;
                    let value = random.word() as u32;
                    match random.below(4) {
                        0 => assert_eq!(tree.get(&mut worker, key), model.get(&key).copied(), "{name}"),
                        1 => assert_eq!(tree.remove(&mut worker, key), model.remove(&key), "{name}"),
                        _ => {
                            let inserted = tree.insert(&mut worker, key, value);
                            assert_eq!(inserted, !model.contains_key(&key), "{name}");
                            model.entry(key).or_insert(value);
                        }
                    }
                }
                model.len()
            })
        };
        let threads: Vec<_> = (0..THREADS).map(thread).collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread panics")).sum()
    });
    assert_eq!(tree.check(), Ok(left), "{name}");
}

/// Trees grow from nothing, so that nodes split, groups split and roots grow in each other's way: two threads insert, each the
/// keys of the other, too; two read what is there from the beginning, and what the inserts have passed.
fn keys_stay_where_trees_grow<S: Scheme, F: Family>(seed: u64) {
    const KEYS: u32 = 600;
    let name = format!("{} {} seed {seed}", F::NAME, S::NAME);
    for round in 0..20 {
        let tree: Tree<S, 16, F> = Tree::with_room_for(2_000);
        let mut worker = tree.worker(Silent);
        (0..KEYS).step_by(10).for_each(|key| assert!(tree.insert(&mut worker, key, key)));
        drop(worker);
        let order = Permutation::new(u64::from(KEYS), seed + round);
        let passed = AtomicU32::new(0);
        let (tree, name, order, passed) = (&tree, &name, &order, &passed);
        let inserted: usize = std::thread::scope(|scope| {
            for me in 0..2 {
                scope.spawn(move || {
                    let mut random = Random::new(seed + round, me);
                    let mut worker = tree.worker(Disturbed(Random::new(seed, me)));
                    for _ in 0..1_000 {
                        let place = random.below(u64::from(passed.load(Ordering::Acquire)) + 1);
                        let key = if place == 0 { 10 * random.below(60) } else { order.at(place - 1) } as u32;
                        assert_eq!(tree.get(&mut worker, key), Some(key), "{name} round {round}");
                    }
                });
            }
            let writer = |me| {
                scope.spawn(move || {
                    let mut worker = tree.worker(Disturbed(Random::new(seed + round, me)));
                    let insert = |place| {
                        let key = order.at(u64::from(place)) as u32;
                        let inserted = tree.insert(&mut worker, key, key);
                        passed.fetch_max(place + 1, Ordering::Release);
                        inserted
                    };
                    (0..KEYS).map(insert).filter(|inserted| *inserted).count()
                })
            };
            let writers = [2, 3].map(writer);
            writers.into_iter().map(|writer| writer.join().expect("no thread panics")).sum()
        });
        assert_eq!(inserted, (KEYS - KEYS / 10) as usize, "{name} round {round}: each key is inserted once");
        assert_eq!(tree.check(), Ok(KEYS as usize), "{name} round {round}");
    }
}

/// A reader that is put off the processor in the middle of a search, until `may_go_on`.
struct Stopped<'t> {
    loads: u32,
    has_begun: &'t AtomicBool,
    may_go_on: &'t AtomicBool,
}

impl Probe for Stopped<'_> {
    fn load(&mut self, _at: u64) {
        self.loads += 1;
        if self.loads == 1 {
            // The number of the epoch, which it shows next.
            return;
        }
        self.has_begun.store(true, Ordering::Release);
        while !self.may_go_on.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    }
}

/// An updater that lets the reader go on when it waits for it: when it begins more epochs than one in a single update.
struct Patient<'t> {
    epochs: u32,
    may_go_on: &'t AtomicBool,
}

impl Probe for Patient<'_> {
    fn exchange(&mut self, _at: u64) {
        self.epochs += 1;
        if self.epochs > 2 {
            self.may_go_on.store(true, Ordering::Release);
        }
    }
}

impl Drop for Patient<'_> {
    fn drop(&mut self) {
        self.may_go_on.store(true, Ordering::Release);
    }
}

/// While a reader may stand on what updates replace, a thread does not use up all nodes that there are, only its share: then it
/// waits for the reader.
fn updates_wait_for_readers<S: Scheme, F: Family>() {
    const KEYS: u32 = 100;
    let tree: Tree<S, 16, F> = Tree::with_room_for(40_000);
    let mut worker = tree.worker(Silent);
    (0..KEYS).for_each(|key| assert!(tree.insert(&mut worker, key, key)));
    let [has_begun, may_go_on] = [(); 2].map(|()| AtomicBool::new(false));
    let (tree, has_begun, may_go_on) = (&tree, &has_begun, &may_go_on);
    std::thread::scope(|scope| {
        let probe = Patient { epochs: 0, may_go_on };
        let reader = scope.spawn(move || {
            let mut worker = tree.worker(Stopped { loads: 0, has_begun, may_go_on });
            tree.get(&mut worker, 1)
        });
        let mut worker = tree.worker(probe);
        while !has_begun.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        for _ in 0..10_000 {
            worker.probe.epochs = 0;
            assert_eq!(tree.remove(&mut worker, 0), Some(0));
            worker.probe.epochs = 0;
            assert!(tree.insert(&mut worker, 0, 0));
        }
        assert!(may_go_on.load(Ordering::Acquire), "{} {}: it has waited", F::NAME, S::NAME);
        assert_eq!(reader.join().expect("it does not panic"), Some(1));
    });
    assert_eq!(tree.check(), Ok(KEYS as usize));
}

fn threads<S: Scheme>(seed: u64) {
    threads_lose_nothing::<S, BPlus>(seed);
    threads_lose_nothing::<S, Csb>(seed);
    keys_stay_where_trees_grow::<S, BPlus>(seed);
    keys_stay_where_trees_grow::<S, Csb>(seed);
}

#[test]
fn threads_on_lock_coupling() {
    threads::<LockCoupling>(1);
}
#[test]
fn threads_on_the_tree_latch() {
    threads::<TreeLatch>(2);
}
#[test]
fn threads_on_versions_by_node() {
    threads::<VersionsByNode>(3);
}
#[test]
fn threads_on_versions_by_tree() {
    threads::<VersionsByTree>(4);
}
#[test]
fn threads_on_optimistic_nodes() {
    threads::<Optimistic>(5);
}

#[test]
fn updates_by_versions_wait_for_readers() {
    updates_wait_for_readers::<VersionsByNode, BPlus>();
    updates_wait_for_readers::<VersionsByNode, Csb>();
    updates_wait_for_readers::<VersionsByTree, BPlus>();
    updates_wait_for_readers::<VersionsByTree, Csb>();
}
