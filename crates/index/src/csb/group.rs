//! A node group: the children of one node, side by side, under a header with the group's own latch.
//!
//! Source: OLFIT §5.5 (one link for the whole group, with its own latch and version); Samuel et al. §3.1 (a bitmap that
//! finds the next empty node to the right of a node that splits).
//!
//! Invariants:
//! - H1: bitmap and link change under the header's latch; the bitmap also only under the parent's (G1).
//! - H2: a reachable group has a live slot. A group without one is dead, and its link still leads to the right (M5).
//! - H3: memory of zeros is a group with all slots closed, unlinked.

use super::node::{Body, Node};
use crate::node::int::IntKey;
use crate::reclaim::Pin;
use foreshore_base::NodeLatch;
use foreshore_base::sync::{AtomicU64, Ordering::Relaxed};
use std::ptr::NonNull;

/// Where a group is: its address, with exposed provenance; 0 = nowhere.
pub(super) type Address = u64;

const BITMAP_WORDS: usize = 4;
/// The greatest number of slots.
pub(super) const SLOTS_MAX: usize = BITMAP_WORDS * 64;

/// See the module. `F` slots.
#[repr(C, align(64))]
pub(super) struct Group<K: IntKey, B: Body, const F: usize> {
    pub header: Header,
    pub nodes: [Node<K, B, F>; F],
}

/// What belongs to no single node.
#[repr(C, align(64))]
pub(super) struct Header {
    /// Latch and version of bitmap and link.
    pub latch: NodeLatch,
    link: AtomicU64,
    live: [AtomicU64; BITMAP_WORDS],
    /// Set while the group lies in the pool, where nobody may be reading it.
    #[cfg(shuttle)]
    pub pooled: std::sync::atomic::AtomicBool,
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<Header>() == 64);

/// The group at an address that was read from the tree under this pin.
///
/// Panics on address 0, which no validated read gives where a group is expected.
#[inline(always)]
pub(super) fn group_at<K: IntKey, B: Body, const F: usize>(address: Address, _pin: &Pin) -> &Group<K, B, F> {
    let group = std::ptr::with_exposed_provenance_mut::<Group<K, B, F>>(address as usize);
    let group = NonNull::new(group).expect("a group");
    // SAFETY: the address was validated as part of a node or header (or is the root's), so it led to a group in use, of
    // the kind that its level has; the pin, which the result does not outlive, keeps it from being reused (M5). All its
    // fields are atomics.
    unsafe { group.as_ref() }
}

/// The header of the group at an address, whatever its kind. As [`group_at`].
#[inline(always)]
pub(super) fn header_at(address: Address, _pin: &Pin) -> &Header {
    let header = std::ptr::with_exposed_provenance_mut::<Header>(address as usize);
    let header = NonNull::new(header).expect("a group");
    // SAFETY: as in `group_at`; every kind of group begins with its header (`repr(C)`).
    unsafe { header.as_ref() }
}

impl<K: IntKey, B: Body, const F: usize> Group<K, B, F> {
    /// As nodes and links hold it.
    #[inline(always)]
    pub fn address(&self) -> Address {
        std::ptr::from_ref(self).expose_provenance() as u64
    }

    /// Bytes from the beginning of a group to a slot.
    #[inline(always)]
    pub const fn offset_of(slot: usize) -> usize {
        size_of::<Header>() + slot * size_of::<Node<K, B, F>>()
    }

    /// Closes all slots and unlinks. Nobody else can reach the group.
    pub fn reset(&self) {
        self.nodes.iter().for_each(Node::close);
        self.header.set_link(0);
        self.header.clear_all_live();
    }
}

#[cfg(shuttle)]
impl<K: IntKey, B: Body, const F: usize> crate::pooled::Pooled for Group<K, B, F> {
    fn vacant() -> Self {
        Self { header: Header::vacant(), nodes: std::array::from_fn(|_| Node::vacant()) }
    }

    fn pooled(&self) -> &std::sync::atomic::AtomicBool {
        &self.header.pooled
    }
}

impl Header {
    #[cfg(shuttle)]
    fn vacant() -> Self {
        Self {
            latch: NodeLatch::new(),
            link: AtomicU64::new(0),
            live: std::array::from_fn(|_| AtomicU64::new(0)),
            pooled: std::sync::atomic::AtomicBool::new(false),
        }
    }

    /// M5, under shuttle: nobody reads a group that was given back.
    #[cfg(shuttle)]
    pub fn assert_in_use(&self) {
        assert!(!self.pooled.load(Relaxed), "M5: somebody met a group that was given back");
    }

    /// Address of the next group, 0 = none.
    pub fn link(&self) -> Address {
        self.link.load(Relaxed)
    }

    pub fn set_link(&self, group: Address) {
        self.link.store(group, Relaxed);
    }

    pub fn is_live(&self, slot: usize) -> bool {
        self.live[slot / 64].load(Relaxed) >> (slot % 64) & 1 == 1
    }

    pub fn set_live(&self, slot: usize) {
        let word = &self.live[slot / 64];
        word.store(word.load(Relaxed) | 1 << (slot % 64), Relaxed);
    }

    pub fn clear_live(&self, slot: usize) {
        let word = &self.live[slot / 64];
        word.store(word.load(Relaxed) & !(1 << (slot % 64)), Relaxed);
    }

    pub fn clear_all_live(&self) {
        self.live.iter().for_each(|word| word.store(0, Relaxed));
    }

    /// Live slots.
    pub fn count_live(&self) -> usize {
        self.live.iter().map(|word| word.load(Relaxed).count_ones() as usize).sum()
    }

    /// The first live slot.
    pub fn first_live(&self) -> Option<usize> {
        self.first_from(0, |word| word)
    }

    /// The first live slot behind `slot`.
    pub fn live_after(&self, slot: usize) -> Option<usize> {
        self.first_from(slot + 1, |word| word)
    }

    /// The first slot behind `slot`, of `slots`, that is not live.
    pub fn vacant_after(&self, slot: usize, slots: usize) -> Option<usize> {
        self.first_from(slot + 1, |word| !word).filter(|&vacant| vacant < slots)
    }

    /// The live slots, from the left.
    pub fn live_slots(&self) -> impl Iterator<Item = usize> {
        std::iter::successors(self.first_live(), |&slot| self.live_after(slot))
    }

    /// The first bit set at or behind `from` in the words that `of` makes of the bitmap's.
    fn first_from(&self, from: usize, of: impl Fn(u64) -> u64) -> Option<usize> {
        for (i, word) in self.live.iter().enumerate().skip(from / 64) {
            let passed = if i == from / 64 { u64::MAX << (from % 64) } else { u64::MAX };
            let word = of(word.load(Relaxed)) & passed;
            if word != 0 {
                return Some(i * 64 + word.trailing_zeros() as usize);
            }
        }
        None
    }
}
