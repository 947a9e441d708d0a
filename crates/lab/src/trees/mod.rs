//! The structures that the papers compare against, written simply, for one thread: T-tree, AVL tree, top-down red-black
//! tree, CSS-tree, full CSB+-tree. Four-byte keys and values, as in the papers; every access goes through a [`Probe`].
//!
//! The B+-tree of these comparisons is [`crate::olfit::Tree`] without concurrency control; the O2-Tree is the production
//! one of `foreshore-index`.
//!
//! ```
//! use foreshore_lab::probe::Silent;
//! use foreshore_lab::trees::{Ordered, TTree};
//!
//! let mut tree = TTree::with_node_bytes(128);
//! assert!((0..1000).all(|key| tree.insert(key, 2 * key, &mut Silent)));
//! assert_eq!(tree.get(21, &mut Silent), Some(42));
//! assert_eq!(tree.remove(21, &mut Silent), Some(42));
//! ```

mod csb;
mod css;
mod red_black;
mod slab;
mod t_tree;

pub use csb::{CsbTree, Method};
pub use css::CssTree;
pub use red_black::RedBlackTree;
pub use t_tree::TTree;

use crate::probe::Probe;

/// An ordered map for one thread.
pub trait Ordered {
    /// The value of `key`.
    fn get<P: Probe>(&self, key: u32, probe: &mut P) -> Option<u32>;
    /// Inserts `key`, below `u32::MAX`, unless it is there; was it absent?
    fn insert<P: Probe>(&mut self, key: u32, value: u32, probe: &mut P) -> bool;
    /// Removes `key`; returns its value.
    fn remove<P: Probe>(&mut self, key: u32, probe: &mut P) -> Option<u32>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Silent;
    use crate::trees::slab::Slab;
    use foreshore_workloads::random::Permutation;

    const KEYS: usize = 20_000;

    /// Inserts keys that a tree has room for, in order or not: does it stay where it is?
    fn stays<T: Ordered + Clone>(name: &str, empty: T, slab: fn(&T) -> &Slab) {
        let random = Permutation::new(KEYS as u64, 1);
        let orders: [(&str, &dyn Fn(u64) -> u64); 2] =
            [("rising", &|at| at), ("random", &|at| random.at(at))];
        for (order, key) in orders {
            let mut tree = empty.clone();
            let room = slab(&tree).room();
            (0..KEYS as u64).for_each(|at| assert!(tree.insert(key(at) as u32, 0, &mut Silent)));
            assert_eq!(slab(&tree).room(), room, "{name}, {order} keys");
        }
    }

    /// Growth copies all nodes: a figure that times some of the inserts must not find it among them.
    #[test]
    fn no_tree_moves_while_it_has_room() {
        for (node_bytes, key_bytes) in [(64, 4), (1024, 4), (128, 32)] {
            let csb = CsbTree::new(node_bytes, key_bytes, Method::Binary, false).with_room_for(KEYS);
            stays(&format!("CSB+, {node_bytes} bytes"), csb, |tree| &tree.groups);
        }
        for node_bytes in [20, 64, 256, 1024] {
            let t_tree = TTree::with_node_bytes(node_bytes).with_room_for(KEYS);
            stays(&format!("T, {node_bytes} bytes"), t_tree, |tree| &tree.nodes);
        }
        stays("red-black", RedBlackTree::new().with_room_for(KEYS), |tree| &tree.nodes);
    }
}
