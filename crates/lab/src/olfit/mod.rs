//! The B+-tree and the full CSB+-tree of OLFIT's experiments under six concurrency schemes: four-byte keys and values,
//! nodes of a few cache lines, one layout, one search. Only what a scheme does about other threads differs ([`Scheme`]),
//! and where a node's children lie ([`Family`]). What a scheme does is written once for both families, but for one
//! thing: OL's splits (`optimistic/link.rs`, `optimistic/group.rs`).
//!
//! Source: Cha et al. (VLDB 2001), §5 and §6. Differs: keys are unique; a node that becomes empty stays where it is (with
//! inserts and deletes in balance there are next to none).
//!
//! ```
//! use foreshore_lab::olfit::{Optimistic, Tree};
//! use foreshore_lab::probe::Silent;
//!
//! let tree: Tree<Optimistic, 32> = Tree::with_room_for(1000);
//! let mut worker = tree.worker(Silent);
//! assert!((0..1000).all(|key| tree.insert(&mut worker, key, key + 1)));
//! assert_eq!(tree.get(&mut worker, 41), Some(42));
//! assert_eq!(tree.remove(&mut worker, 41), Some(42));
//! assert_eq!(tree.check(), Ok(999));
//! ```

mod arena;
mod check;
mod coupling;
mod epoch;
mod group;
mod latch;
mod node;
mod optimistic;
mod versions;

pub use arena::Worker;
pub use coupling::{LockCoupling, No, TreeLatch};
pub use optimistic::Optimistic;
pub use versions::{VersionsByNode, VersionsByTree};

use crate::probe::{Probe, Silent};
use arena::{Arena, NodeId};
use crossbeam_utils::CachePadded;
use epoch::{BURIED_MAX, Epochs, WORKERS_MAX};
use std::marker::PhantomData;
use std::sync::atomic::AtomicU32;

/// Where every descent begins: the root, or the anchor above it.
const ROOT: NodeId = 0;

/// Where a probe sees the tree's latch.
const TREE_LATCH_AT: u64 = 0;

/// How a node finds its children.
pub trait Family: Send + Sync + 'static {
    /// Its name in the paper.
    const NAME: &str;
    /// Do the children of a node lie side by side, with one pointer for all of them?
    const GROUPED: bool;
}

/// The B+-tree: a pointer for each child.
pub struct BPlus;
/// The full CSB+-tree: a pointer for each group of children.
pub struct Csb;

impl Family for BPlus {
    const NAME: &str = "B+";
    const GROUPED: bool = false;
}

impl Family for Csb {
    const NAME: &str = "CSB+";
    const GROUPED: bool = true;
}

/// How threads on one tree keep out of each other's way.
pub trait Scheme: Sized + Send + Sync + 'static {
    /// Its name in the paper.
    const NAME: &str;
    /// Words that a node's header takes, but for a link.
    const HEADER: usize;
    /// Is there a latch in each node?
    const NODE_LATCHES: bool = false;
    /// Do nodes have a high key, and nodes or their groups a link to the right?
    const LINKED: bool = false;
    /// Is node 0 an anchor above the root, rather than the root?
    const ANCHORED: bool = false;

    /// Prepares the empty root.
    fn init<P: Probe, F: Family, const W: usize>(_tree: &Tree<Self, W, F>, _worker: &mut Worker<'_, P>) {}
    /// See [`Tree::get`]. Of itself, as the two below: in place, under the nodes' latches if they have some.
    fn get<P: Probe, F: Family, const W: usize>(
        tree: &Tree<Self, W, F>,
        worker: &mut Worker<'_, P>,
        key: u32,
    ) -> Option<u32> {
        tree.get_coupled(worker, key)
    }
    /// See [`Tree::insert`].
    fn insert<P: Probe, F: Family, const W: usize>(
        tree: &Tree<Self, W, F>,
        worker: &mut Worker<'_, P>,
        key: u32,
        value: u32,
    ) -> bool {
        tree.insert_coupled(worker, key, value)
    }
    /// See [`Tree::remove`].
    fn remove<P: Probe, F: Family, const W: usize>(
        tree: &Tree<Self, W, F>,
        worker: &mut Worker<'_, P>,
        key: u32,
    ) -> Option<u32> {
        tree.remove_coupled(worker, key)
    }
}

/// A tree of family `F` under scheme `S`, with nodes of `W` four-byte words.
pub struct Tree<S: Scheme, const W: usize, F: Family = BPlus> {
    arena: Arena<W>,
    latch: CachePadded<AtomicU32>,
    epochs: Epochs,
    kind: PhantomData<(S, F)>,
}

impl<S: Scheme, const W: usize, F: Family> Tree<S, W, F> {
    /// An empty tree with room for so many keys.
    ///
    /// Panics if nodes are too small for four children.
    pub fn with_room_for(keys: usize) -> Self {
        // Half full nodes, as sorted inserts leave them, in groups half full.
        let leaves = keys / (Self::LEAF_MAX / 2) + 1;
        let inner = leaves / (Self::INNER_MAX / 2 - 1) + 1;
        let blocks = if F::GROUPED { inner } else { leaves + inner };
        // What readers may still stand on, if each update replaces nodes. Small trees have few workers.
        let waiting = if S::ANCHORED { keys.min(WORKERS_MAX * BURIED_MAX) } else { 0 };
        let tree = Self {
            arena: Arena::new(blocks + waiting, Self::BLOCK as u32),
            latch: CachePadded::new(AtomicU32::new(0)),
            epochs: Epochs::new(),
            kind: PhantomData,
        };
        let mut worker = tree.worker(Silent);
        if S::ANCHORED {
            let root = worker.allocate(&tree.arena);
            tree.init_inner(&mut worker, ROOT, 1, root);
        }
        S::init(&tree, &mut worker);
        drop(worker);
        tree
    }

    /// A thread's access; `probe` sees what the thread does.
    pub fn worker<P: Probe>(&self, probe: P) -> Worker<'_, P> {
        Worker::new(&self.epochs, probe)
    }

    /// The value of `key`.
    #[inline]
    pub fn get<P: Probe>(&self, worker: &mut Worker<'_, P>, key: u32) -> Option<u32> {
        S::get(self, worker, key)
    }

    /// Inserts `key`, below `u32::MAX`, unless it is there; was it absent?
    ///
    /// Panics if the tree has no room for it.
    #[inline]
    pub fn insert<P: Probe>(&self, worker: &mut Worker<'_, P>, key: u32, value: u32) -> bool {
        debug_assert!(key < u32::MAX, "the greatest key stands for no bound");
        self.await_readers(worker);
        S::insert(self, worker, key, value)
    }

    /// Removes `key`; returns its value.
    #[inline]
    pub fn remove<P: Probe>(&self, worker: &mut Worker<'_, P>, key: u32) -> Option<u32> {
        self.await_readers(worker);
        S::remove(self, worker, key)
    }

    /// Before an update that replaces nodes.
    #[inline(always)]
    fn await_readers<P: Probe>(&self, worker: &mut Worker<'_, P>) {
        if S::ANCHORED {
            worker.await_readers();
        }
    }

    /// Where a probe sees the end of the nodes taken so far.
    pub fn end(&self) -> u64 {
        self.arena.end()
    }

    /// Memory of the nodes taken so far.
    pub fn bytes(&self) -> u64 {
        self.arena.bytes()
    }
}
