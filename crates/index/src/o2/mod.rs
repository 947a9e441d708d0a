//! The O2-Tree: a red-black tree of separators over linked blocks of entries, balanced behind the back of its users.
//!
//! Why: an update changes one block, and rarely the one node above it. Rotations come later, from a queue of problems,
//! and each is a small change of its own. The inner tree can be thrown away and rebuilt from the blocks.
//! Source: Ohene-Kwofie, Otoo, Nimako: Concurrent Operations of O2-Tree on Shared Memory Multicore Architectures (ADC
//! 2013). Weights and the rules of relaxed balance: Nurmi and Soisalon-Soininen's chromatic trees, as Larsen restricts
//! them to standard rotations (the paper's references).
//!
//! ```text
//! header ── root                    inner: key, left, right          keys below the key are to the left
//!          ╱    ╲
//!        50      90                 weight 0 = red, 1 = black, more = overweight (relaxed)
//!       ╱  ╲    ╱  ╲
//!     [..] ⇄ [..] ⇄ [..] ⇄ [..]     leaf blocks: entries, low and high bound, both neighbours
//! ```
//!
//! # Who changes what
//!
//! Two schemes run the same updates and the same rebalancing. In both, latches (of the paper: wlocks) are taken from
//! parent to child only, and whoever holds none may begin anywhere; so nobody waits in a circle.
//!
//! - An *insert* changes a leaf block. If that is full it also changes the parent: the block's place is taken by a new
//!   inner node over the block and its new right half.
//! - A *removal* changes a leaf block. One left with fewer than half of its entries is a problem.
//! - The *rebalancer*, one at a time, does all the rest: it rotates, changes weights, evens out an underfull block with
//!   its sibling or merges both, and is the only one who takes nodes out of the tree. It goes straight to the node in
//!   the queue, by parent pointers, and latches that node's family from the top.
//!
//! The rebalancer is not a thread: an update that left a problem empties the queue, unless somebody is already doing
//! so. A map in a library should not own threads; problems are as rare as splits; the work is done by who caused it, so
//! that it cannot fall behind; and tests see the same schedule each time. What the paper's background thread gains, that
//! the user need not wait, is a few hundred nanoseconds per split.
//!
//! # The paper's scheme, [`Coupled`]
//!
//! A lookup couples rlocks from the header down. An update couples wlocks, which let lookups pass, and turns the last one
//! (or the last two, for a split) into xlocks. The rebalancer does the same with its family.
//!
//! - P1: the range of keys under a node shrinks, or a node dies, only under an xlock of that node, taken while its
//!   parent is xlocked too. So who holds a lock on a node that its key belongs to, and locks the child before he lets
//!   go, holds a lock on a node that his key belongs to.
//! - P2: xlocks, too, are taken from parent to child: who waits for readers to leave a node holds no xlock below it,
//!   and those readers can go on.
//!
//! # The optimistic scheme, [`Optimistic`]
//!
//! A lookup takes nothing and validates one thing: the leaf block. It descends by plain loads through whatever inner
//! nodes it meets, latched or not, before or after a rotation. The block says which keys it is responsible for: it is
//! read under its version, and if the key is not between its bounds, or it is dead, the descent was misled. A key at or
//! above the upper bound is some steps to the right, behind the link; otherwise the descent begins again. An update descends the
//! same way, latches the block, and asks the same question.
//!
//! Why this is right: the blocks' bounds tile the keys, under their latches, at every moment; so one block at most says
//! yes, and it is the one that the key belongs to at the moment its version is validated. What the inner nodes said
//! does not matter to the answer. It matters only that every descent ends, and ends at a block:
//!
//! - O1: a node reached by a descent was in the tree at some time since the descent's pin. Children of a living node
//!   are in the tree; those of a dead node are frozen as they were when it died, which was after the pin, since it was
//!   itself reached. Nodes are reused only after every pin from before their death is gone.
//! - O2: while a rotation writes its pointers one after another there is never a cycle: what goes down is cut off from
//!   what goes up before it is hung under it.
//! - O3: a misled lookup backs off and begins again; that happens only while somebody who holds latches is between two
//!   of his writes, or a block changed its bounds after it was found.
//!
//! A reader whose block keeps changing takes its latch after some attempts.
//!
//! # Invariants of the tree
//!
//! - T1: an inner node's key is the low bound of the leftmost block to its right; keys rise in order.
//! - T2: all paths from the root to a block have the same sum of weights; a block's weight is at least 1.
//! - T3: a red node under a red parent, an overweight node, a root that is not black, a block that a removal left underfull:
//!   each is in the problem queue or in the rebalancer's hands (Q1 in `problems.rs`). With the queue empty the tree is a
//!   red-black tree.

mod bulk;
mod check;
mod dump;
mod family;
mod leaf;
mod node;
mod problems;
mod range;
mod rebalance;
mod rotate;
mod scheme;
mod underfull;
mod update;

pub use check::O2Stats;
pub use dump::{DumpMismatch, InnerNode};
pub(crate) use range::{Backward, Forward};
pub use scheme::{Coupled, Optimistic, Scheme};

use crate::counters::{Count, Length};
use crate::pool;
use crate::reclaim::Pin;
use crate::search::Lane;
use crossbeam_utils::CachePadded;
use foreshore_base::sync::AtomicBool;
use leaf::Leaf;
use node::{Child, Header, Inner, Side};
use problems::Problems;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// See the module. `F` entries to a leaf block.
pub struct Tree<L: Lane, const F: usize, S: Scheme> {
    /// An inner node above the root, which is its left child: whoever changes the root changes a child, as elsewhere.
    header: CachePadded<u64>,
    problems: CachePadded<Problems>,
    /// Is somebody the rebalancer?
    rebalancing: CachePadded<AtomicBool>,
    counters: Counters,
    /// `None` in the layers of a trie: there are many, and nobody asks how long one is.
    length: Option<Box<Length>>,
    kind: PhantomData<(fn() -> L, S)>,
}

/// Rare events.
#[derive(Debug, Default)]
struct Counters {
    leaves: Count,
    splits: Count,
    merges: Count,
    borrows: Count,
    rotations: Count,
    restarts: Count,
    latched_reads: Count,
}

/// The leaf block at an address that was read from the tree under this pin.
#[inline(always)]
fn leaf_at<L: Lane, const F: usize>(address: u64, _pin: &Pin) -> &Leaf<L, F> {
    let leaf = NonNull::new(std::ptr::with_exposed_provenance_mut::<Leaf<L, F>>(address as usize));
    // SAFETY: O1: the address belongs to a block that was in the tree since the pin, or still is; the pin, which the
    // result does not outlive, keeps it from being reused. All its fields are atomics.
    unsafe { leaf.expect("a leaf block").as_ref() }
}

/// The inner node at an address that was read from the tree under this pin.
#[inline(always)]
fn inner_at<L: Lane>(address: u64, _pin: &Pin) -> &Inner<L> {
    let inner = NonNull::new(std::ptr::with_exposed_provenance_mut::<Inner<L>>(address as usize));
    // SAFETY: as in `leaf_at`.
    unsafe { inner.expect("an inner node").as_ref() }
}

/// What both kinds of node begin with.
#[inline(always)]
fn header_at(child: Child, _pin: &Pin) -> &Header {
    let header = NonNull::new(std::ptr::with_exposed_provenance_mut::<Header>(child.address() as usize));
    // SAFETY: as in `leaf_at`; both kinds are `repr(C)` and begin with a header.
    let header = unsafe { header.expect("a node").as_ref() };
    #[cfg(shuttle)]
    assert!(!header.pooled.load(std::sync::atomic::Ordering::Relaxed), "O1: met a node that was given back");
    header
}

#[inline(always)]
fn address_of<T>(node: &T) -> u64 {
    std::ptr::from_ref(node).expose_provenance() as u64
}

impl<L: Lane, const F: usize, S: Scheme> Tree<L, F, S> {
    pub fn new() -> Self {
        Self::with_length(Some(Box::default()))
    }

    /// An empty tree that does not count its entries, which saves two kilobytes.
    pub fn uncounted() -> Self {
        Self::with_length(None)
    }

    fn with_length(length: Option<Box<Length>>) -> Self {
        const { assert!(F >= 4 && F <= u16::MAX as usize) };
        let tree = Self::without_root(length);
        let pin = Pin::new();
        let root = tree.fresh_leaf(&pin);
        tree.set_root(Child::leaf(address_of(root)), &pin);
        drop(pin);
        tree
    }

    /// A tree whose header leads nowhere yet.
    fn without_root(length: Option<Box<Length>>) -> Self {
        let header = pool::take::<Inner<L>>();
        // SAFETY: the pool gave it to us alone; it lives as long as the tree.
        let header = unsafe { header.as_ref() };
        header.reset(L::MAX, Child::NONE, Child::NONE, 1);
        Self {
            header: CachePadded::new(address_of(header)),
            problems: CachePadded::new(Problems::new()),
            rebalancing: CachePadded::new(AtomicBool::new(false)),
            counters: Counters::default(),
            length,
            kind: PhantomData,
        }
    }

    #[inline(always)]
    fn header<'g>(&self, pin: &'g Pin) -> &'g Inner<L> {
        inner_at(*self.header, pin)
    }

    #[inline(always)]
    fn root(&self, pin: &Pin) -> Child {
        self.header(pin).child(Side::Left)
    }

    /// While nobody else can reach the tree.
    fn set_root(&self, root: Child, pin: &Pin) {
        header_at(root, pin).set_parent(*self.header);
        self.header(pin).set_child(Side::Left, root);
    }

    /// An empty leaf block that nobody else knows.
    fn fresh_leaf<'g>(&self, pin: &'g Pin) -> &'g Leaf<L, F> {
        leaf_at(self.take_leaf(), pin)
    }

    /// The address of such a block.
    fn take_leaf(&self) -> u64 {
        let leaf = pool::take::<Leaf<L, F>>();
        // Not before: there may be no memory, which is a panic.
        self.counters.leaves.add();
        // SAFETY: the pool gave it to us alone; it lives until it is given back.
        let leaf = unsafe { leaf.as_ref() };
        // Under the latch, so that a reader from the block's former life could not validate.
        let latched = leaf.header.latch.exclusive();
        leaf.reset();
        drop(latched);
        address_of(leaf)
    }

    /// An inner node that nobody else knows.
    fn fresh_inner<'g>(&self, pin: &'g Pin) -> &'g Inner<L> {
        inner_at(pool::take::<Inner<L>>().as_ptr().expose_provenance() as u64, pin)
    }

    /// The block that the inner tree leads to, which need not be the right one (O3).
    #[inline(always)]
    fn descend<'g>(&self, key: L, pin: &'g Pin) -> &'g Leaf<L, F> {
        let mut child = self.root(pin);
        while !child.is_leaf() {
            #[cfg(shuttle)]
            header_at(child, pin);
            child = inner_at::<L>(child.address(), pin).toward(key);
        }
        Leaf::<L, F>::prefetch(child.address());
        leaf_at(child.address(), pin)
    }

    /// The value of `key`.
    #[inline(always)]
    pub fn get(&self, key: L, pin: &Pin) -> Option<u64> {
        S::in_leaf(self, key, pin, |leaf| leaf.get(key))
    }

    /// The value of the greatest entry with a key at most `key`.
    #[inline]
    pub fn floor(&self, key: L, pin: &Pin) -> Option<u64> {
        self.floor_entry(key, pin).map(|(_, value)| value)
    }

    /// The greatest entry with a key at most `key`.
    #[inline]
    pub fn floor_entry(&self, key: L, pin: &Pin) -> Option<(L, u64)> {
        let mut key = key;
        loop {
            let (found, low) = S::in_leaf(self, key, pin, |leaf| {
                (leaf.rank(key).checked_sub(1).map(|last| (leaf.key(last), leaf.value(last))), leaf.low())
            });
            if found.is_some() {
                return found;
            }
            // The beginning of the block is empty: go on below its lower bound.
            key = low.before()?;
        }
    }

    /// Entries, nearly: concurrent updates may or may not be counted. 0 if nobody counts.
    pub fn len(&self) -> u64 {
        self.length.as_ref().map_or(0, |length| length.get())
    }

    fn count(&self, change: i64) {
        if let Some(length) = &self.length {
            length.add(change);
        }
    }

    /// All inner nodes under `child`, each after those below it, and all leaf blocks from left to right.
    fn walk<'g>(&self, child: Child, pin: &'g Pin, visit: &mut impl FnMut(Visited<'g, L, F>)) {
        if child.is_leaf() {
            return visit(Visited::Leaf(leaf_at(child.address(), pin)));
        }
        let inner = inner_at::<L>(child.address(), pin);
        self.walk(inner.child(Side::Left), pin, visit);
        self.walk(inner.child(Side::Right), pin, visit);
        visit(Visited::Inner(inner));
    }
}

/// A node met by a walk.
enum Visited<'g, L: Lane, const F: usize> {
    Leaf(&'g Leaf<L, F>),
    Inner(&'g Inner<L>),
}

impl<L: Lane, const F: usize, S: Scheme> Drop for Tree<L, F, S> {
    fn drop(&mut self) {
        let pin = Pin::new();
        self.settle(&pin);
        let (root, mut first) = (self.root(&pin), None);
        let mut visit = |visited| match visited {
            Visited::Leaf(leaf) => _ = first.get_or_insert(leaf),
            // SAFETY: nobody else can reach it, and the walk does not come back to it.
            Visited::Inner(inner) => unsafe { pool::give_back(NonNull::from(inner)) },
        };
        // There is no root if the system has refused the memory for it.
        if root != Child::NONE {
            self.walk(root, &pin, &mut visit);
        }
        // By the links, for a bulk load that panics leaves blocks that no inner node leads to.
        let mut next = first.map_or(0, address_of);
        while next != 0 {
            let leaf = leaf_at::<L, F>(next, &pin);
            next = leaf.next();
            // SAFETY: we own the tree, nobody else can reach its blocks, and each is met once.
            unsafe { pool::give_back(NonNull::from(leaf)) }
        }
        // SAFETY: as above.
        unsafe { pool::give_back(NonNull::from(self.header(&pin))) };
        drop(pin);
        #[cfg(shuttle)]
        pool::trim();
    }
}
