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
