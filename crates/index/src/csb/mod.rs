//! The OLFIT CSB+-tree (full): one child pointer a node, because the children lie side by side.
//!
//! Why: an inner node without child pointers holds nearly twice the keys in the same lines, so a descent meets fewer
//! lines and often a level less. Rao and Ross's price is that a split moves its right siblings.
//! Source: OLFIT (Cha et al., VLDB 2001) §5.5; the bitmap and lazy deletion after Samuel et al. (DaMoN 2005) §3.1.
//! Differs: latches are taken from the top down (what lies under a latched parent keeps its place; from the bottom up
//! all would have to be looked at again); a full parent is split before its child, not in the same step; a group with
//! many empty nodes on its left is compacted; nodes and groups that died empty are given back by epochs.
//!
//! # Structure
//!
//! ```text
//! inner node    version|latch  count  group  high  keys[F]              entry i leads to slot i of the group
//! leaf          version|latch  count    –    high  keys[F]  words[F]
//! group         version|latch  link  live bitmap   slot 0 | slot 1 | … | slot F-1
//! ```
//!
//! All children of a node are in one group, in order. A slot is *live*, or *closed*: never used, vacated, or emptied. A
//! closed slot below the last live one is a *hole*. The link leads to the group of the next parent, and belongs, with
//! the bitmap, to the group's own latch and version, since it belongs to none of the nodes. The root is slot 0 of a
//! group of its own.
//!
//! # Protocol
//!
//! A *place* is a group and a slot. The places of a level are ordered: groups along their links, slots in a group. A
//! node's content (its keys, and the range of keys it answers for) has a place, and changes it:
//!
//! ```text
//! split       slot i full, slot e > i the next one not live:   i+1 .. e-1 each move one to the right,
//!                                                              the upper half of i goes to i+1, e becomes live
//! group split no such slot: the parent splits; the right part of the group moves to a new group,
//!             which is linked behind the old one; the slots left behind are closed
//! hole        slot i empty: its range goes to the next live slot, i is closed
//! unlink      the only live slot of a group is empty: the parent becomes a hole itself, the group leaves the chain;
//!             its link stays
//! compaction  all live slots of a group move to a new group, which takes the old one's place in the chain;
//!             the old one is linked to it
//! new root    the root splits inside its own group, and a new root leads to both slots
//! ```
//!
//! Readers latch nothing (but one that failed sixteen times at one node takes its latch for a moment). From a node they
//! copy what they need, and believe it if the node's version did not change meanwhile. If the key is not below the node's
//! `high`, they go one place to the right: they read the group's bitmap and link, believe them if the *group's* version did
//! not change, and go to the next live slot or, behind the last one, to slot 0 of the linked group. A closed slot is below
//! every key, so everybody who comes moves on.
//!
//! # Why no reader is misled
//!
//! - M1: *Content only ever moves to the right*, and so does every range: look at the list above. Never fill a hole
//!   from its right.
//! - M2: A reader's place is never to the right of the content that answers for its key. A validated parent gives the
//!   exact place at that moment, and after it M1 holds: the content may be further right, not further left. So the
//!   reader finds it by steps to the right, however often it moves meanwhile. A reader never checks the parent again.
//! - M3: A step to the right skips no content. Let the reader have validated node (g, i), whose `high` is at most the
//!   key. The content it wants was to the right of (g, i) then, and still is. The header read *after* that names the
//!   next live slot: what lies between is closed, and was so at the moment of the header's version. This needs the
//!   bitmap and link of a moved node to be new before the node's old slot is readable again: so both change while that
//!   slot is latched.
//! - M4: A node that moves changes the version of the slot it leaves and of the slot it takes. So nobody validates a
//!   mixture, and there is no moment with two readable copies: the old slot is latched until it is closed or overwritten.
//! - M5: A group out of the chain stays as it is, closed everywhere and linked to the right, until every pin of that
//!   time is gone. Whoever is still there leaves it by its link (which may lead to another dead group, retired
//!   later and therefore still kept).
//!
//! # Invariants
//!
//! - G1: entry `i` of an inner node leads to slot `i` of its group; a group has one parent. Both change together, under
//!   the parent's latch; so a latched parent is exact, and its group's bitmap stands still.
//! - G2: a hole's separator is that of the next live slot, so that the greatest entry not above a key is live. The last
//!   entry is live. The key of the first live entry is the least key, whatever the range.
//! - G3: `high` is exclusive, and equals the next separator, above or beside. An *open-ended* node has none.
//! - G4: memory of a group is only ever that of groups of the same type: latch words stay latch words (L1 in base's `latch.rs`).
//! - G5: latches are taken by level from the top, then by place from the left; headers after all nodes, again by level
//!   and from the left. Nothing else is waited for meanwhile.
//! - G6: the root is the leftmost node of the highest level. It never becomes lower.
//!
//! Order of memory accesses: whoever validated a node's version sees what was written before that version was published
//! (the latch's Release and Acquire). A writer changes the header before it unlatches the slots that moved, so a reader
//! that saw a moved slot's new version sees the header that explains it.
//!
//! Left behind: the last live slot of a group, when it is emptied, keeps its range (which would have to go to another
//! parent's child, whose separator stands further up) until its left siblings are gone too. It is correct, only slow.

mod bulk;
mod check;
mod compact;
mod group;
mod memory;
mod node;
mod range;
mod split;
mod unlink;
mod update;

pub use check::CsbStats;
pub(crate) use range::{Backward, Forward};

use crate::counters::{Count, Length};
use crate::node::int::IntKey;
use crate::read_again::read_again;
use crate::reclaim::Pin;
use crate::search::Lane;
use crossbeam_utils::CachePadded;
use foreshore_base::prefetch::prefetch_lines;
use foreshore_base::sync::{AtomicU64, Ordering};
use foreshore_base::{Exclusive, NodeLatch};
use group::{Address, Group, Header, header_at};
use node::{Body, Children, Node, Words};
use std::marker::PhantomData;

/// Groups are aligned to cache lines, so the root's level fits below its address.
const LEVEL_MASK: u64 = 63;

/// A leaf: keys and words.
type Leaf<K, const F: usize> = Node<K, Words<F>, F>;
/// An inner node: keys, and one pointer to the group of its children.
type Inner<K, const F: usize> = Node<K, Children, F>;

/// See the module.
pub struct Csb<K: IntKey, const F: usize> {
    /// Address of the root's group | level; padded, for every operation reads it.
    root: CachePadded<AtomicU64>,
    counters: Counters,
    /// `None` in the layers of a trie: there are many, and nobody asks how long one is.
    length: Option<Box<Length>>,
    keys: PhantomData<K>,
}

/// Rare events.
#[derive(Debug, Default)]
struct Counters {
    leaf_groups: Count,
    inner_groups: Count,
    restarts: Count,
    latched_reads: Count,
    splits: Count,
    group_splits: Count,
    shifted: Count,
    compactions: Count,
    unlinked: Count,
    left_empty: Count,
}

/// Where a node is: a slot of a group.
struct At<'g, K: IntKey, B: Body, const F: usize> {
    group: &'g Group<K, B, F>,
    slot: usize,
}

impl<K: IntKey, B: Body, const F: usize> Clone for At<'_, K, B, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: IntKey, B: Body, const F: usize> Copy for At<'_, K, B, F> {}

impl<'g, K: IntKey, B: Body, const F: usize> At<'g, K, B, F> {
    /// The place at an address that was read from the tree under this pin.
    #[inline(always)]
    fn new(group: Address, slot: usize, pin: &'g Pin) -> Self {
        Self { group: group::group_at(group, pin), slot }
    }

    #[inline(always)]
    fn node(self) -> &'g Node<K, B, F> {
        &self.group.nodes[self.slot]
    }
}

/// A node under its latch, and the number of its entries not above the key that led there.
struct Latched<'g, K: IntKey, B: Body, const F: usize> {
    node: &'g Node<K, B, F>,
    latch: Exclusive<'g>,
    rank: usize,
}

impl<'g, K: IntKey, const F: usize> Latched<'g, K, Children, F> {
    /// The entry that the key belongs to.
    fn slot(&self) -> usize {
        self.rank.checked_sub(1).expect("G2: the first separator is the least key")
    }

    /// The header of the group of the children, whose bitmap now stands still (G1).
    fn children<'p: 'g>(&self, pin: &'p Pin) -> &'g Header {
        header_at(self.node.group(), pin)
    }
}

impl<K: IntKey, const F: usize> Csb<K, F> {
    pub fn new() -> Self {
        Self::with_length(Some(Box::default()))
    }

    /// An empty tree that does not count its entries, which saves two kilobytes.
    pub fn uncounted() -> Self {
        Self::with_length(None)
    }

    fn with_length(length: Option<Box<Length>>) -> Self {
        const { assert!(F >= 4 && F <= group::SLOTS_MAX, "nodes hold 4 to 256 keys") };
        let tree = Self {
            root: CachePadded::new(AtomicU64::new(0)),
            counters: Counters::default(),
            length,
            keys: PhantomData,
        };
        let pin = Pin::new();
        let address = tree.fresh_group::<Words<F>>();
        let group = group::group_at::<K, Words<F>, F>(address, &pin);
        group.nodes[0].fill(std::iter::empty());
        group.nodes[0].set_open_ended();
        group.header.set_live(0);
        tree.root.store(address, Ordering::Release);
        drop(pin);
        tree
    }

    /// Address of the root's group, and the root's level.
    #[inline(always)]
    fn root(&self) -> (Address, u8) {
        // ORDERING: Acquire, so that the root's content is seen; pairs with the store in `grow`.
        let root = self.root.load(Ordering::Acquire);
        (root & !LEVEL_MASK, (root & LEVEL_MASK) as u8)
    }

    /// Reads under a latch word until what was read is of one version (OLFIT, `read_node`).
    #[inline(always)]
    fn consistent<R>(&self, latch: &NodeLatch, mut read: impl FnMut() -> R) -> R {
        let seen = latch.optimistic();
        let result = read();
        if seen.validate().is_ok() {
            return result;
        }
        read_again(latch, (&self.counters.restarts, &self.counters.latched_reads), |_| Ok(read()))
    }

    /// Reads a node. What `read` sees may be torn, so it follows nothing.
    #[inline(always)]
    fn read<'g, B: Body, R>(&self, at: At<'g, K, B, F>, mut read: impl FnMut(&'g Node<K, B, F>) -> R) -> R {
        #[cfg(shuttle)]
        at.group.header.assert_in_use();
        let node = at.node();
        self.consistent(&node.latch, || read(node))
    }

    /// The place to the right (M3).
    #[cold]
    #[inline(never)]
    fn hop<'g, B: Body>(&self, at: At<'g, K, B, F>, pin: &'g Pin) -> At<'g, K, B, F> {
        #[cfg(shuttle)]
        at.group.header.assert_in_use();
        let header = &at.group.header;
        let (next, link) = self.consistent(&header.latch, || (header.live_after(at.slot), header.link()));
        match next {
            Some(slot) => At { group: at.group, slot },
            None => At::new(link, 0, pin),
        }
    }

    /// What `read` makes of the node of `level` (whose kind is `B`) that the key belongs to, and a lower end of that
    /// node's range, the least image for none. The true end may have gone down meanwhile, never up (M1).
    #[inline(always)]
    fn within<'g, B: Body, R>(
        &self,
        level: u8,
        lane: K::Lane,
        pin: &'g Pin,
        mut read: impl FnMut(At<'g, K, B, F>, usize) -> R,
    ) -> (R, K::Lane) {
        debug_assert_eq!(B::IS_LEAF, level == 0);
        let (mut at, mut low) = self.descend::<B>(level, lane, pin);
        loop {
            let found = self.read(at, |node| match node.place(lane) {
                Some(rank) => Ok(read(at, rank)),
                None => Err(node.high()),
            });
            match found {
                Ok(result) => return (result, low),
                Err(high) => {
                    low = low.max(high);
                    at = self.hop(at, pin);
                }
            }
        }
    }

    /// A place of `level` that the key is not to the left of, and a lower end of its range.
    #[inline(always)]
    fn descend<'g, B: Body>(&self, level: u8, lane: K::Lane, pin: &'g Pin) -> (At<'g, K, B, F>, K::Lane) {
        let (mut group, mut height) = self.root();
        let (mut slot, mut low) = (0, K::Lane::MIN);
        debug_assert!(height >= level, "a descent to level {level} from level {height}");
        while height > level {
            let at = At::<K, Children, F>::new(group, slot, pin);
            let step = self.read(at, |node| match node.place(lane) {
                Some(rank) => {
                    let entry = rank.saturating_sub(1);
                    let child = node.group();
                    if height == 1 {
                        prefetch::<K, Words<F>, F>(child, entry);
                    } else {
                        prefetch::<K, Children, F>(child, entry);
                    }
                    Ok((child, entry, node.lane(entry)))
                }
                None => Err(node.high()),
            });
            match step {
                Ok((child, entry, separator)) => {
                    (group, slot, low) = (child, entry, low.max(separator));
                    height -= 1;
                }
                Err(high) => {
                    let next = self.hop(at, pin);
                    (group, slot, low) = (next.group.address(), next.slot, low.max(high));
                }
            }
        }
        (At::new(group, slot, pin), low)
    }

    /// The value of `key`.
    #[inline(always)]
    pub fn get(&self, key: K, pin: &Pin) -> Option<u64> {
        let lane = key.to_lane();
        let (found, _) = self.within::<Words<F>, _>(0, lane, pin, |at, rank| {
            let leaf = at.node();
            (rank > 0 && leaf.lane(rank - 1) == lane).then(|| leaf.word(rank - 1))
        });
        found
    }

    /// The value of the greatest entry at most at `key`.
    #[inline(always)]
    pub fn floor(&self, key: K, pin: &Pin) -> Option<u64> {
        self.floor_entry(key.to_lane(), pin).map(|(_, word)| word)
    }

    /// The greatest entry whose key's image is at most this one.
    #[inline(always)]
    pub fn floor_entry(&self, lane: K::Lane, pin: &Pin) -> Option<(K::Lane, u64)> {
        let mut lane = lane;
        loop {
            let (found, low) = self.within::<Words<F>, _>(0, lane, pin, |at, rank| {
                rank.checked_sub(1).map(|last| (at.node().lane(last), at.node().word(last)))
            });
            // The beginning of the leaf's range is empty: go on below its lower end.
            match (found, low.before()) {
                (Some(entry), _) => return Some(entry),
                (None, None) => return None,
                (None, Some(before)) => lane = before,
            }
        }
    }

    /// The value of the greatest entry below `key`.
    #[inline(always)]
    pub fn below(&self, key: K, pin: &Pin) -> Option<u64> {
        self.floor_entry(key.to_lane().before()?, pin).map(|(_, word)| word)
    }

    /// Latches the node of `level` that the key belongs to.
    #[inline(always)]
    fn latch<'g, B: Body>(&self, level: u8, lane: K::Lane, pin: &'g Pin) -> Latched<'g, K, B, F> {
        let (mut at, _) = self.descend::<B>(level, lane, pin);
        loop {
            #[cfg(shuttle)]
            at.group.header.assert_in_use();
            let node = at.node();
            let latch = node.latch.exclusive();
            if let Some(rank) = node.place(lane) {
                return Latched { node, latch, rank };
            }
            latch.release_unchanged();
            at = self.hop(at, pin);
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

    /// An unreachable group, all slots closed.
    fn fresh_group<B: Body>(&self) -> Address {
        let group = memory::take::<K, B, F>();
        // Not before: there may be no memory, which is a panic.
        self.groups::<B>().add();
        group
    }

    /// Gives back a group that nobody else has seen.
    fn discard_group<B: Body>(&self, address: Address) {
        self.groups::<B>().subtract();
        // SAFETY: it came from `take` and was never linked anywhere.
        unsafe { memory::give_back::<K, B, F>(address) };
    }

    /// Gives back, later, a group that left the chain (M5).
    ///
    /// # Safety
    /// Nothing in the tree leads to the group any more, except dead groups.
    unsafe fn retire_group<B: Body>(&self, address: Address, pin: &Pin) {
        self.groups::<B>().subtract();
        // SAFETY: the caller says that it is unlinked; the collector, that nobody who saw it before is left.
        unsafe { pin.defer(move || memory::give_back::<K, B, F>(address)) };
        pin.hand_over(); // a group may be as large as a thousand nodes of other trees
    }

    fn groups<B: Body>(&self) -> &Count {
        if B::IS_LEAF { &self.counters.leaf_groups } else { &self.counters.inner_groups }
    }
}

/// Asks for the lines of a slot, which need not exist.
#[inline(always)]
fn prefetch<K: IntKey, B: Body, const F: usize>(group: Address, slot: usize) {
    let offset = Group::<K, B, F>::offset_of(slot);
    let node = std::ptr::with_exposed_provenance::<Node<K, B, F>>(group as usize + offset);
    prefetch_lines(node, size_of::<Node<K, B, F>>());
}

impl<K: IntKey, const F: usize> Drop for Csb<K, F> {
    fn drop(&mut self) {
        let (root, height) = self.root();
        let pin = Pin::new();
        let mut first = root;
        for level in (0..=height).rev() {
            let below = if level > 0 {
                let leftmost = header_at(first, &pin).first_live().expect("the leftmost group is not dead");
                At::<K, Children, F>::new(first, leftmost, &pin).node().group()
            } else {
                0
            };
            let mut next = first;
            while next != 0 {
                let link = header_at(next, &pin).link();
                match level {
                    0 => self.discard_group::<Words<F>>(next),
                    _ => self.discard_group::<Children>(next),
                }
                next = link;
            }
            first = below;
        }
        drop(pin);
        #[cfg(shuttle)]
        crate::pool::trim();
    }
}
