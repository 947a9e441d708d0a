//! The structures of the papers' comparisons give the answers of a `BTreeMap`.

use foreshore_lab::probe::{Probe, Silent};
use foreshore_lab::trees::{CsbTree, CssTree, Method, Ordered, RedBlackTree, TTree};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashSet};

#[derive(Clone, Debug)]
enum Op {
    Get(u32),
    Insert(u32, u32),
    Remove(u32),
}

fn operations() -> impl Strategy<Value = Vec<Op>> {
    let key = 0u32..400;
    let op = prop_oneof![
        1 => key.clone().prop_map(Op::Get),
        3 => (key.clone(), any::<u32>()).prop_map(|(key, value)| Op::Insert(key, value)),
        2 => key.prop_map(Op::Remove),
    ];
    prop::collection::vec(op, 1..1000)
}

fn agrees<T: Ordered>(
    tree: &mut T,
    operations: &[Op],
    check: impl Fn(&T) -> Result<usize, String>,
) -> Result<(), TestCaseError> {
    let mut model = BTreeMap::new();
    for op in operations {
        match *op {
            Op::Get(key) => prop_assert_eq!(tree.get(key, &mut Silent), model.get(&key).copied()),
            Op::Insert(key, value) => {
                let absent = !model.contains_key(&key);
                model.entry(key).or_insert(value);
                prop_assert_eq!(tree.insert(key, value, &mut Silent), absent);
            }
            Op::Remove(key) => prop_assert_eq!(tree.remove(key, &mut Silent), model.remove(&key)),
        }
    }
    prop_assert_eq!(check(tree), Ok(model.len()));
    for key in 0..400 {
        prop_assert_eq!(tree.get(key, &mut Silent), model.get(&key).copied());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn t_tree(operations in operations(), words in 5usize..20) {
        agrees(&mut TTree::with_node_bytes(4 * words), &operations, TTree::check)?;
    }

    #[test]
    fn avl_tree(operations in operations()) {
        agrees(&mut TTree::avl(), &operations, TTree::check)?;
    }

    #[test]
    fn red_black_tree(operations in operations()) {
        agrees(&mut RedBlackTree::new(), &operations, RedBlackTree::check)?;
    }

    #[test]
    fn csb_tree(operations in operations(), linear: bool, prefetch: bool, key_words in 1usize..4) {
        let method = if linear { Method::Linear } else { Method::Binary };
        let mut tree = CsbTree::new(64, 4 * key_words, method, prefetch);
        agrees(&mut tree, &operations, |tree| Ok(tree.scan(&mut Silent).0 as usize))?;
    }

    /// Bulk-loaded trees hold what they were given, also where nodes are just full, and take inserts afterwards.
    #[test]
    fn bulk_loads(count in 0u32..3000, node_words in 4usize..24) {
        let entries: Vec<_> = (0..count).map(|key| (2 * key, key)).collect();
        let css = CssTree::build(&entries, 4 * node_words);
        let mut csb = CsbTree::bulk_load(&entries, 4 * node_words.max(5), 4, Method::Binary, true);
        for key in 0..2 * count + 2 {
            let expected = (key % 2 == 0 && key < 2 * count).then_some(key / 2);
            prop_assert_eq!(css.get(key, &mut Silent), expected);
            prop_assert_eq!(csb.get(key, &mut Silent), expected);
        }
        let values = (0..u64::from(count)).sum::<u64>();
        prop_assert_eq!(csb.scan(&mut Silent), (u64::from(count), 3 * values));
        for key in 0..count {
            prop_assert!(csb.insert(2 * key + 1, key, &mut Silent));
        }
        prop_assert_eq!(csb.scan(&mut Silent), (2 * u64::from(count), 6 * values + u64::from(count)));
    }
}

/// Which lines were used.
#[derive(Default)]
struct Used(BTreeSet<u64>);

impl Probe for Used {
    fn load(&mut self, at: u64) {
        self.0.insert(at / 64);
    }
    fn store(&mut self, at: u64) {
        self.0.insert(at / 64);
    }
}

/// Where no node comes or goes, there is nothing to balance: an update uses the lines that a lookup uses.
#[test]
fn a_t_tree_looks_at_no_node_off_the_path() {
    let mut tree = TTree::with_node_bytes(64);
    (0..60_000).for_each(|key| assert!(tree.insert(key, key, &mut Silent)));
    // Nodes of six rising keys: none is the first or the last of its node.
    for key in (2..60_000).step_by(6) {
        let [mut lookup, mut removal, mut insertion] = [(); 3].map(|()| Used::default());
        assert_eq!(tree.get(key, &mut lookup), Some(key));
        assert_eq!(tree.remove(key, &mut removal), Some(key));
        assert!(tree.insert(key, key, &mut insertion));
        assert_eq!((&removal.0, &insertion.0), (&lookup.0, &lookup.0), "key {key}");
    }
    assert_eq!(tree.check(), Ok(60_000));
}

/// Which lines were asked for ahead of their use, and which were used all the same without that.
#[derive(Default)]
struct Fetched {
    ahead: HashSet<u64>,
    missed: HashSet<u64>,
}

impl Probe for Fetched {
    fn load(&mut self, at: u64) {
        if !self.ahead.contains(&(at / 64)) {
            self.missed.insert(at / 64);
        }
    }
    fn prefetch(&mut self, at: u64) {
        self.ahead.insert(at / 64);
    }
}

/// Beyond the first two nodes, a scan finds no leaf that it has not asked for, also where a group begins: large keys make small
/// groups.
#[test]
fn a_scan_asks_for_every_leaf_ahead() {
    const NODE_BYTES: usize = 256;
    for (key_bytes, nodes_in_a_group, entries_in_a_leaf) in [(32, 8, 7), (4, 63, 31)] {
        let (groups, leaves) = (20, 20 * nodes_in_a_group);
        let entries: Vec<_> = (0..leaves * entries_in_a_leaf).map(|key| (key, key)).collect();
        let tree = CsbTree::bulk_load(&entries, NODE_BYTES, key_bytes, Method::Linear, true);
        let mut fetched = Fetched::default();
        assert_eq!(tree.scan(&mut fetched).0, entries.len() as u64);
        // A group's header is a line of its own, which says where the group's nodes end.
        let allowed = groups + 2 * NODE_BYTES / 64;
        assert!(fetched.missed.len() <= allowed, "{} of {allowed}, {key_bytes} bytes", fetched.missed.len());
    }
}
