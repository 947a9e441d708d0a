//! The structures of the papers' comparisons give the answers of a `BTreeMap`.

use foreshore_lab::probe::Silent;
use foreshore_lab::trees::{CsbTree, CssTree, Method, Ordered, RedBlackTree, TTree};
use proptest::prelude::*;
use std::collections::BTreeMap;

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
        let sum = (0..u64::from(count)).sum();
        prop_assert_eq!(csb.scan(&mut Silent), (u64::from(count), sum));
        for key in 0..count {
            prop_assert!(csb.insert(2 * key + 1, key, &mut Silent));
        }
        prop_assert_eq!(csb.scan(&mut Silent), (2 * u64::from(count), 2 * sum));
    }
}
