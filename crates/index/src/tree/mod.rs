//! The OLFIT B+-tree, whatever its keys: root, descent, lookups.
//!
//! Why: lookups write nothing shared, and updates latch one node, so both scale with cores.
//! Source: OLFIT (Cha et al., VLDB 2001) §5: latch-free traversal (Fig. 5), splits from left to right behind high
//! keys and links (Lehman and Yao), latches from the bottom up, empty nodes unlinked and collected later.
//! Differs: nodes are reclaimed by epochs; a split holds one latch at a time while it posts its separator (Sagiv); a
//! reader that fails too often takes the latch.
//!
//! Invariants:
//! - T1: a pointer in the tree leads to a node that is not yet retired; a pin keeps what was read usable.
//! - T2: a node covers a range. Its lower end only ever goes down (it takes an empty left neighbour's range), its upper
//!   end too (it gives to the right). So from wherever a key was once looked for, it is found to the right (N4 in `node/mod.rs`).
//! - T3: above the leaves, an entry's key is the lower end of its child's range; so descending to the greatest entry
//!   not above a key never leads too far right. While somebody descends, that end may have gone down.
//! - T4: the root is the leftmost node of the highest level. It never becomes lower.
//! - T5: latches are taken from the bottom up, and from left to right within a level; nothing waits for anything else
//!   while it holds one.

mod batch;
mod bulk;
mod check;
pub(crate) mod counters;
mod range;
mod scan;
mod unlink;
mod unpinned;
mod update;

pub use counters::Stats;
pub(crate) use range::{Backward, Forward};

use crate::counters::Length;
use crate::node::{Bias, Node, Place, Seen};
#[cfg(shuttle)]
use crate::pool;
use crate::read_again::read_again;
use crate::reclaim::Pin;
use counters::Counters;
use crossbeam_utils::CachePadded;
use foreshore_base::sync::{AtomicU64, Ordering};
use foreshore_base::{Restart, seeded_bug};
use std::borrow::Borrow;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// See the module.
pub(crate) struct Tree<N: Node> {
    /// Address of the root; padded, for every operation reads it.
    root: CachePadded<AtomicU64>,
    counters: Counters,
    length: Length,
    nodes: PhantomData<N>,
}

/// One step of a descent.
enum Step<'g, N> {
    Right(&'g N),
    Down(&'g N),
}

/// The node at an address that was read from the tree under this pin.
///
/// Panics on address 0, which no validated read gives where a node is expected.
#[inline(always)]
fn node_at<N: Node>(address: u64, _pin: &Pin) -> &N {
    let node = NonNull::new(std::ptr::with_exposed_provenance_mut::<N>(address as usize)).expect("a node");
    // SAFETY: T1: the address was validated as part of a node (or is the root), so it led to a living node when it was
    // read; the pin, which the result does not outlive, keeps that node from being reused. All its fields are atomics.
    unsafe { node.as_ref() }
}

/// The address of a node, as links and children hold it.
#[inline(always)]
fn address_of<N: Node>(node: &N) -> u64 {
    std::ptr::from_ref(node).expose_provenance() as u64
}

impl<N: Node> Tree<N> {
    pub fn new() -> Self {
        let counters = Counters::default();
        let root = fresh_node::<N>(0, &counters);
        Self {
            root: CachePadded::new(AtomicU64::new(root)),
            counters,
            length: Length::default(),
            nodes: PhantomData,
        }
    }

    #[inline(always)]
    fn root<'g>(&self, pin: &'g Pin) -> &'g N {
        // ORDERING: Acquire, so that the root's content is seen; pairs with the exchange in `grow`.
        node_at(self.root.load(Ordering::Acquire), pin)
    }

    /// Reads a node until what was read is of one version (OLFIT, `read_node`).
    #[inline(always)]
    fn read<'g, R>(&self, node: &'g N, mut read: impl FnMut(&Seen<'g>) -> Result<R, Restart>) -> R {
        #[cfg(shuttle)]
        assert!(!node.header().pooled.load(Ordering::Relaxed), "T1: a reader met a node that was given back");
        let seen = node.header().latch.optimistic();
        if let Ok(result) = read(&Seen::Optimistic(seen))
            && (seeded_bug("index_no_validation") || seen.validate().is_ok())
        {
            return result;
        }
        read_again(&node.header().latch, (&self.counters.restarts, &self.counters.latched_reads), read)
    }

    /// One step towards `key` from a node above the leaves. Asks for what is to be read of the next node.
    #[inline(always)]
    fn step<'g>(
        &self,
        node: &'g N,
        key: &N::Key,
        bias: Bias,
        prefetch: impl Fn(*const N),
        pin: &'g Pin,
    ) -> Step<'g, N> {
        let (address, down) = self.read(node, |seen| {
            let (address, down) = node.towards(key, bias, seen)?;
            prefetch(std::ptr::with_exposed_provenance(address as usize));
            Ok((address, down))
        });
        let next = node_at(address, pin);
        if down { Step::Down(next) } else { Step::Right(next) }
    }

    /// A node of `level` from which `key` is not to the left.
    #[inline(always)]
    fn descend<'g>(&self, key: &N::Key, bias: Bias, level: u8, pin: &'g Pin) -> &'g N {
        let mut node = self.root(pin);
        let mut height = node.header().level();
        debug_assert!(height >= level, "a descent to level {level} from level {height}");
        while height > level {
            let ask = |child| if height > 1 { N::prefetch_inner(child) } else { N::prefetch(child) };
            match self.step(node, key, bias, ask, pin) {
                Step::Right(next) => node = next,
                Step::Down(next) => {
                    node = next;
                    height -= 1;
                }
            }
        }
        node
    }

    /// What `read` makes of the leaf that `key` belongs to, found from `start` rightwards.
    #[inline(always)]
    fn in_leaf<'g, R>(
        &self,
        start: &'g N,
        key: &N::Key,
        bias: Bias,
        pin: &'g Pin,
        read: impl Fn(&'g N, usize, bool) -> R,
    ) -> R {
        let mut leaf = start;
        loop {
            let found = self.read(leaf, |seen| {
                Ok(match leaf.place(key, bias, seen)? {
                    Place::Beyond if seeded_bug("index_reader_does_not_move_right") => {
                        Ok(read(leaf, 0, false))
                    }
                    Place::Beyond => Err(leaf.header().link()),
                    Place::Rank(rank, exact) => Ok(read(leaf, rank, exact)),
                })
            });
            match found {
                Ok(result) => return result,
                Err(link) => leaf = node_at(link, pin),
            }
        }
    }

    /// The value of `key`.
    #[inline(always)]
    pub fn get(&self, key: &N::Key, pin: &Pin) -> Option<u64> {
        self.get_from(self.descend(key, Bias::AtMost, 0, pin), key, pin)
    }

    /// The value of `key`, which is not to the left of this leaf.
    #[inline(always)]
    fn get_from(&self, leaf: &N, key: &N::Key, pin: &Pin) -> Option<u64> {
        let value = self.read(leaf, |seen| leaf.value_of(key, seen));
        value.unwrap_or_else(|| self.get_further_right(leaf, key, pin))
    }

    #[cold]
    fn get_further_right(&self, leaf: &N, key: &N::Key, pin: &Pin) -> Option<u64> {
        self.in_leaf(leaf, key, Bias::AtMost, pin, |leaf, rank, exact| exact.then(|| leaf.word(rank - 1)))
    }

    /// The value of the greatest entry at most at `key`, or below it.
    #[inline(always)]
    pub fn greatest(&self, key: &N::Key, bias: Bias, pin: &Pin) -> Option<u64> {
        let leaf = self.descend(key, bias, 0, pin);
        let last = |leaf: &N, rank: usize, _| rank.checked_sub(1).map(|last| leaf.word(last));
        let found = self.in_leaf(leaf, key, bias, pin, last);
        found.or_else(|| self.greatest_further_left(key, bias, pin))
    }

    /// The beginning of the leaf's range is empty (removals, or a short separator): go on below its lower end.
    #[cold]
    fn greatest_further_left(&self, key: &N::Key, bias: Bias, pin: &Pin) -> Option<u64> {
        let mut key = N::own(key);
        let mut bias = bias;
        loop {
            let (leaf, low) = self.locate(key.borrow(), bias, 0, pin);
            let found = self.read(leaf, |seen| {
                Ok(match leaf.place(key.borrow(), bias, seen)? {
                    Place::Beyond => Err(()),
                    Place::Rank(rank, _) => Ok(rank.checked_sub(1).map(|last| leaf.word(last))),
                })
            });
            match (found, low) {
                (Ok(Some(word)), _) => return Some(word),
                (Ok(None), None) => return None,
                (Ok(None), Some(low)) => (key, bias) = (low, Bias::Below),
                (Err(()), _) => {}
            }
        }
    }

    /// The node of `level` that `key` belongs to, and the lower end of its range, `None` for the leftmost. That end may
    /// have gone down meanwhile (T3).
    fn locate<'g>(&self, key: &N::Key, bias: Bias, level: u8, pin: &'g Pin) -> (&'g N, Option<N::Owned>) {
        let mut node = self.root(pin);
        let mut low = None;
        loop {
            let at_level = node.header().level() == level;
            let (next, down, from) = self.read(node, |seen| {
                Ok(match node.place(key, bias, seen)? {
                    Place::Beyond => (node.header().link(), false, hop_low(node, seen)?),
                    Place::Rank(..) if at_level => (0, true, None),
                    Place::Rank(rank, _) => {
                        let i = rank.saturating_sub(1);
                        (node.word(i), true, (i > 0).then(|| node.key(i, seen)).transpose()?)
                    }
                })
            });
            low = from.or(low);
            if down && at_level {
                return (node, low);
            }
            node = node_at(next, pin);
        }
    }

    /// The first node of `level`, which stays the first as long as it lives.
    fn leftmost<'g>(&self, level: u8, pin: &'g Pin) -> &'g N {
        let mut node = self.root(pin);
        while node.header().level() > level {
            // A dead node has no children; its right neighbour's children are the first.
            let next = self.read(node, |_| {
                let header = node.header();
                Ok(if header.is_dead() { header.link() } else { node.word(0) })
            });
            node = node_at(next, pin);
        }
        node
    }

    /// This key is new.
    #[inline(always)]
    fn note_outside(&self, key: &N::Key) {
        if N::bytes_outside_of(key) > 0 {
            self.counters.outside.add();
        }
    }

    /// Entries, nearly: concurrent updates may or may not be counted.
    pub fn len(&self) -> u64 {
        self.length.get()
    }
}

/// The lower end of the right neighbour's range, unless the node is dead and its own lower end became that.
fn hop_low<N: Node>(node: &N, seen: &Seen) -> Result<Option<N::Owned>, Restart> {
    if node.header().is_dead() { Ok(None) } else { node.high(seen).map(Some) }
}

/// An empty node of `level`.
fn fresh_node<N: Node>(level: u8, counters: &Counters) -> u64 {
    let node = N::take(level);
    // Not before: there may be no memory, which is a panic.
    counters.node_made(level);
    // SAFETY: the pool gave it to us alone; it lives until it is given back.
    let node = unsafe { node.as_ref() };
    // Under the latch, so that a reader from the node's former life could not validate (L1 in base's `latch.rs`).
    let latched = node.header().latch.exclusive();
    node.reset(level);
    drop(latched);
    address_of(node)
}

impl<N: Node> Drop for Tree<N> {
    fn drop(&mut self) {
        let pin = Pin::new();
        let height = self.root(&pin).header().level();
        let leftmost: Vec<u64> = (0..=height).map(|level| address_of(self.leftmost(level, &pin))).collect();
        for first in leftmost {
            let mut next = first;
            while next != 0 {
                let node = NonNull::from(node_at::<N>(next, &pin));
                // SAFETY: we own the tree, so nobody else can reach its nodes; each is on one chain, once.
                unsafe {
                    next = node.as_ref().header().link();
                    node.as_ref().drop_contents();
                    N::give_back(node);
                }
            }
        }
        drop(pin);
        #[cfg(shuttle)]
        pool::trim();
    }
}
