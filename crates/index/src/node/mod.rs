//! What a node must be able to do, whatever its keys.
//!
//! Why: the tree code (descent, split, unlinking, scans) is the same for integers and for byte strings; only the
//! layout inside a node and its search differ. [`int`] and [`bytes`] are the two layouts.
//! Source: OLFIT (VLDB 2001) §4–5: `ccinfo`, high key, link pointer. High key and link after Lehman and Yao.
//!
//! Invariants:
//! - N1: a node of level 0 is a leaf: its words are values. A node above holds children: entry `i` leads to the keys
//!   from its own key up to that of entry `i + 1`; the key of entry 0 is the least possible key, whatever the range.
//! - N2: `high` is exclusive: keys at or above it live to the right, behind `link`. Without a link it is infinite.
//! - N3: a dead node is closed: its `high` is below every key, so everybody who comes moves right.
//! - N4: a key only ever moves to the right. So does a range: an empty node gives its range to its right neighbour.
//! - N5: methods under "reading" may run while the node changes: they bounds-check everything, follow nothing
//!   before a check of [`Seen`], and their result counts only after validation.

pub(crate) mod blob;
pub(crate) mod bytes;
mod heads;
pub(crate) mod int;
pub(crate) mod scale;

use crate::pool;
use crate::reclaim::Pin;
use foreshore_base::sync::{AtomicU64, Ordering::Relaxed};
use foreshore_base::{NodeLatch, Optimistic, Restart};
use std::borrow::Borrow;
use std::ptr::NonNull;

/// Which side of a search key an equal entry belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bias {
    /// Entries not above the key count.
    AtMost,
    /// Entries below the key count.
    Below,
}

/// Where a key is, seen from one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// To the right of this node.
    Beyond,
    /// Here: so many entries count ([`Bias`]), and the last of them is (or is not) the key itself.
    Rank(usize, bool),
}

/// The right to read a node: an optimistic read in progress, or the latch.
#[derive(Clone, Copy)]
pub(crate) enum Seen<'g> {
    /// What is read counts if it validates.
    Optimistic(Optimistic<'g>),
    /// The reader holds the latch: what is read is current.
    Latched,
}

impl Seen<'_> {
    /// Must pass before something that was read is followed or allocated by.
    #[inline(always)]
    pub fn check(&self) -> Result<(), Restart> {
        match self {
            Seen::Optimistic(read) => read.validate(),
            Seen::Latched => Ok(()),
        }
    }
}

/// The first words of every node.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Header {
    /// Latch and version (L1 in base's `latch.rs`: survives the reuse of the node).
    pub latch: NodeLatch,
    /// Number of entries (16 bits) | level (7) | dead (1) | shift of heads (8) | number of the right neighbour (32).
    meta: AtomicU64,
    /// Set while the node lies in the pool, where nobody may be reading it.
    #[cfg(shuttle)]
    pub pooled: std::sync::atomic::AtomicBool,
}

const COUNT_MASK: u64 = 0xFFFF;
const LEVEL_SHIFT: u32 = 16;
const LEVEL_MAX: u8 = 0x7F;
const DEAD: u64 = 1 << 23;
const SHIFT_SHIFT: u32 = 24;
const SHIFT_MASK: u64 = 0xFF << SHIFT_SHIFT;
const LINK_SHIFT: u32 = 32;
const LINK_MASK: u64 = !0 << LINK_SHIFT;

impl Header {
    /// The header of memory that was never a node.
    #[cfg(any(shuttle, test))]
    pub fn vacant() -> Self {
        Self {
            latch: NodeLatch::new(),
            meta: AtomicU64::new(0),
            #[cfg(shuttle)]
            pooled: std::sync::atomic::AtomicBool::new(false),
        }
    }

    /// Begins a new life at `level`: no entries, no link. The latch word goes on (L1 in base's `latch.rs`).
    pub fn reset(&self, level: u8) {
        debug_assert!(level <= LEVEL_MAX);
        self.meta.store(u64::from(level) << LEVEL_SHIFT, Relaxed);
        self.set_link(0);
    }

    /// 0 for a leaf. Constant while the node can be reached.
    #[inline(always)]
    pub fn level(&self) -> u8 {
        (self.meta.load(Relaxed) >> LEVEL_SHIFT) as u8 & LEVEL_MAX
    }

    /// Entries in use.
    #[inline(always)]
    pub fn count(&self) -> usize {
        (self.meta.load(Relaxed) & COUNT_MASK) as usize
    }

    pub fn set_count(&self, count: usize) {
        debug_assert!(count as u64 <= COUNT_MASK);
        self.change_meta(COUNT_MASK, count as u64);
    }

    /// By how much numbers are shifted to become heads, in a node that has some.
    #[inline(always)]
    fn shift(&self) -> u32 {
        (self.meta.load(Relaxed) >> SHIFT_SHIFT) as u32 & 0xFF
    }

    fn set_shift(&self, shift: u32) {
        debug_assert!(shift <= 0xFF);
        self.change_meta(SHIFT_MASK, u64::from(shift) << SHIFT_SHIFT);
    }

    /// Was this node unlinked (N3)?
    pub fn is_dead(&self) -> bool {
        self.meta.load(Relaxed) & DEAD != 0
    }

    pub fn set_dead(&self) {
        self.change_meta(DEAD, DEAD);
    }

    /// Address of the right neighbour, 0 = none.
    #[inline(always)]
    pub fn link(&self) -> u64 {
        match (self.meta.load(Relaxed) >> LINK_SHIFT) as u32 {
            pool::NOBODY => 0,
            number => pool::address_of(number),
        }
    }

    /// Sets the address of the right neighbour, 0 = none.
    pub fn set_link(&self, node: u64) {
        let number = if node == 0 { pool::NOBODY } else { pool::number_of(node) };
        self.change_meta(LINK_MASK, u64::from(number) << LINK_SHIFT);
    }

    /// Gives these bits of the word another value; the latch is held, or nobody else can reach the node.
    #[inline(always)]
    fn change_meta(&self, mask: u64, bits: u64) {
        self.meta.store(self.meta.load(Relaxed) & !mask | bits, Relaxed);
    }
}

/// Entries copied out of a node, in order.
pub(crate) trait Batch<K: ?Sized>: Default {
    fn clear(&mut self);
    fn len(&self) -> usize;
    fn key(&self, i: usize) -> &K;
    fn word(&self, i: usize) -> u64;
}

/// One layout of nodes. See the module's invariants.
pub(crate) trait Node: Sized + Send + Sync + 'static {
    /// What the tree is ordered by.
    type Key: ?Sized + Ord;
    /// A key outside of any node.
    type Owned: Borrow<Self::Key> + Clone + std::fmt::Debug;
    /// Copied entries.
    type Batch: Batch<Self::Key>;

    /// How many bytes of this key would lie outside of its node.
    fn bytes_outside_of(key: &Self::Key) -> usize;

    /// Memory for a node of this level, which nobody else knows.
    fn take(level: u8) -> NonNull<Self>;
    /// Puts the memory of a node back.
    ///
    /// # Safety
    /// The node was taken, and nobody can reach it any more.
    unsafe fn give_back(node: NonNull<Self>);
    /// Bytes of a node of this level.
    fn bytes(level: u8) -> usize;
    fn header(&self) -> &Header;
    /// A key not above any other.
    fn least() -> Self::Owned;
    fn own(key: &Self::Key) -> Self::Owned;
    /// Makes an unreachable node empty, at `level`, with infinite `high`.
    fn reset(&self, level: u8);
    /// Asks for every line that a search will touch.
    fn prefetch(node: *const Self);
    /// The same for a node above the leaves.
    fn prefetch_inner(node: *const Self) {
        Self::prefetch(node);
    }
    /// Asks for what an aim reads.
    fn prefetch_first(node: *const Self);
    /// Asks for all that comes before the words.
    fn prefetch_keys(node: *const Self) {
        Self::prefetch(node);
    }
    /// Asks for the words, of a node whose keys were asked for.
    fn prefetch_words(_node: *const Self) {}
    /// Asks for what a scan from `key` on reads of the child that leads there; the key's rank here is `rank`. A hint, as
    /// an aim.
    fn prefetch_child_from(&self, rank: usize, _key: &Self::Key) {
        Self::prefetch(std::ptr::with_exposed_provenance(self.word(rank.saturating_sub(1)) as usize));
    }
    /// Tells where in a node whose first line is there the child is to be expected that leads to `key`, and asks for the lines
    /// that [`child_by`](Self::child_by) will read. Counts if the node keeps its version from before.
    fn aim_at_child(&self, key: &Self::Key) -> u64;
    /// The same in a leaf, for [`value_by`](Self::value_by).
    fn aim_at_value(&self, key: &Self::Key) -> u64;
    /// Does a leaf keep parts of keys where only its entries tell?
    const HAS_TAILS: bool;
    /// Asks for such a part of the entry that is probably that of `key`, after an aim at its value.
    fn prefetch_tail(&self, _key: &Self::Key) {}

    // Reading (N5).

    /// Where `key` belongs.
    fn place(&self, key: &Self::Key, bias: Bias, seen: &Seen) -> Result<Place, Restart>;
    /// Where to go on for `key` from a node above the leaves: the child that leads to it, or the right neighbour (`false`).
    #[inline(always)]
    fn towards(&self, key: &Self::Key, bias: Bias, seen: &Seen) -> Result<(u64, bool), Restart> {
        Ok(match self.place(key, bias, seen)? {
            Place::Beyond => (self.header().link(), false),
            Place::Rank(rank, _) => (self.word(rank.saturating_sub(1)), true),
        })
    }
    /// The child that leads to `key`, by the aim at it that was taken of this version; `Restart` if that is to the right as well.
    #[inline(always)]
    fn child_by(&self, _aim: u64, key: &Self::Key, seen: &Seen) -> Result<u64, Restart> {
        let (child, down) = self.towards(key, Bias::AtMost, seen)?;
        if down { Ok(child) } else { Err(Restart) }
    }
    /// The value of `key` in a leaf, as [`child_by`](Self::child_by); `Restart` also if the aim was wrong.
    #[inline(always)]
    fn value_by(&self, _aim: u64, key: &Self::Key, seen: &Seen) -> Result<Option<u64>, Restart> {
        self.value_of(key, seen)?.ok_or(Restart)
    }
    /// The value of `key` in a leaf, if the key is not to the right of it.
    #[inline(always)]
    fn value_of(&self, key: &Self::Key, seen: &Seen) -> Result<Option<Option<u64>>, Restart> {
        Ok(match self.place(key, Bias::AtMost, seen)? {
            Place::Beyond => None,
            Place::Rank(rank, exact) => Some(exact.then(|| self.word(rank - 1))),
        })
    }
    /// Value or child of entry `i`; `i` may be stale but is below the capacity.
    fn word(&self, i: usize) -> u64;
    /// The key of entry `i`.
    fn key(&self, i: usize, seen: &Seen) -> Result<Self::Owned, Restart>;
    /// The upper bound; meaningless without a link.
    fn high(&self, seen: &Seen) -> Result<Self::Owned, Restart>;
    /// Appends entries `from..to` to `out`.
    fn copy(&self, from: usize, to: usize, seen: &Seen, out: &mut Self::Batch) -> Result<(), Restart>;

    // Writing: the latch is held, or nobody else can reach the node.

    /// Is there room for an entry with `key`, and behind it for an upper bound if there is none yet (`bound_too`)?
    /// May rearrange the node to make it.
    fn make_room(&self, key: &Self::Key, bound_too: bool) -> bool;
    /// Is the node filled to this share of its capacity (bulk loading)?
    fn is_filled(&self, fill: f64) -> bool;
    /// Adds an entry at rank `i`, for which there is room. `key` is the least key if `i` is 0 above the leaves (N1).
    fn insert_at(&self, i: usize, key: &Self::Key, word: u64);
    fn set_word(&self, i: usize, word: u64);
    fn remove_at(&self, i: usize, pin: &Pin);
    /// Moves the upper part of the entries, and the range above the separator returned, to `right`, an empty node of
    /// the same level. `appending`: the next key goes behind the last one, so only as little as possible moves.
    fn split_to(&self, right: &Self, appending: bool) -> Self::Owned;
    /// A key above `left` and not above `right`, two neighbouring keys of this level.
    fn separator(&self, left: &Self::Key, right: &Self::Key) -> Self::Owned;
    /// Sets the upper bound of a node that has none.
    fn set_high(&self, high: &Self::Key);
    /// Removes everything and gives the range to the right (N3).
    fn close(&self, pin: &Pin);
    /// Frees what the node owns outside of itself, at the end of the tree. Not by `&mut`: a reader without a pin, whose node this
    /// once was, may still look at it, though he does not believe what he sees.
    fn drop_contents(&self);

    // Checking, nobody else being active.

    /// Names a broken invariant inside the node.
    fn check(&self) -> Result<(), String>;
    /// Bytes that the node owns outside of itself.
    fn bytes_outside(&self) -> u64;
}
