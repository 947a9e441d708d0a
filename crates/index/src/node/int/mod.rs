//! A node of fixed-width integer keys: a word array and, in leaves, a sorted key array behind it.
//!
//! Why: a leaf's keys stand in an array of their own, behind the words ([`leaf`]). Above the leaves a word holds separator and
//! child ([`packed`]), and there is no key array. The first line tells where blocks of entries begin ([`heads`]), so whoever
//! has it knows which line is the next.
//! Source: OLFIT §4; the arrays stand apart as in ANCHORS' prototype node.
//!
//! Invariants, besides those of [`super`]:
//! - I1: unused keys (words, above the leaves) hold the greatest image (S1 of the search); a rank is capped by the count,
//!   which tells a real greatest key from an unused one.
//! - I2: `high` holds the greatest image while it is infinite, the least when the node is closed.
//! - I3: each block but the first has the head of its first entry, by the scale of the node: that tells separators apart exactly,
//!   and the keys of a leaf roughly. Blocks without entries have a head that is above that of any key (Q2).
//! - I4: memory of a leaf is that of leaves for ever, and says so: its level is 0 in every life, and in no life of other
//!   nodes. So whoever finds level 0, in whichever life, finds a key array behind the node.

mod heads;
mod leaf;
mod packed;

use super::scale::{Number, Scale};
use super::{Batch, Bias, Header, Node, Place, Seen};
use crate::pool;
use crate::pooled;
use crate::reclaim::Pin;
use crate::search::Lane;
use foreshore_base::Restart;
use foreshore_base::prefetch::prefetch_lines;
use foreshore_base::sync::{AtomicU64, Ordering::Relaxed};
use heads::Heads;
use leaf::IntLeaf;
use packed::Aim;
use std::mem::offset_of;
use std::ptr::NonNull;

/// A key of fixed width: `u32`, `u64`, `u128`, their signed kin, and byte arrays of up to 32 bytes.
pub trait IntKey: Copy + Ord + std::fmt::Debug + Send + Sync + 'static {
    /// Its order-preserving image in a node.
    type Lane: Lane;
    /// The image of this key.
    fn to_lane(self) -> Self::Lane;
    /// The key of an image.
    fn from_lane(lane: Self::Lane) -> Self;
}

macro_rules! int_key {
    ($key:ty, $lane:ty, $flip:expr) => {
        impl IntKey for $key {
            type Lane = $lane;

            #[inline(always)]
            fn to_lane(self) -> $lane {
                self as $lane ^ $flip
            }

            #[inline(always)]
            fn from_lane(lane: $lane) -> Self {
                (lane ^ $flip) as $key
            }
        }
    };
}

int_key!(u64, u64, 0);
int_key!(u32, u32, 0);
int_key!(i64, u64, 1 << 63);
int_key!(i32, u32, 1 << 31);

/// See the module. `F` entries, a power of two.
#[repr(C, align(64))]
pub(crate) struct IntNode<K: IntKey, const F: usize> {
    header: Header,
    high: <K::Lane as Lane>::Cell,
    /// What heads are counted from.
    base: <<K::Lane as Lane>::Number as Number>::Cell,
    heads: Heads,
    words: Line<[AtomicU64; F]>,
}

/// The scale of a node with such keys.
type NodeScale<K> = Scale<<<K as IntKey>::Lane as Lane>::Number>;

#[repr(C, align(64))]
struct Line<T>(T);

const LINE_BYTES: usize = 64;

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(offset_of!(IntNode<u64, 64>, words) == 64 && size_of::<IntNode<u64, 64>>() == 9 * 64);

impl<K: IntKey, const F: usize> IntNode<K, F> {
    /// Are keys half a word wide?
    const HALVES: bool = size_of::<K::Lane>() < size_of::<u64>();

    /// Entries of a block: a line of words, fewer in a small node, more where there would be too many blocks.
    const BLOCK: usize = {
        assert!(F >= 4 && F.is_power_of_two(), "a node holds a power of two of keys, at least four");
        let usual = if F < 32 { F / 4 } else { 8 };
        if F / Heads::MAX > usual { F / Heads::MAX } else { usual }
    };
    const BLOCKS: usize = F / Self::BLOCK;

    /// Memory of this level that was never a node (I4).
    fn vacant_at(level: u8) -> Self {
        let header = Header::vacant();
        header.reset(level);
        Self {
            header,
            high: K::Lane::MAX.cell(),
            base: <K::Lane as Lane>::Number::cell(),
            heads: Heads::vacant(),
            words: Line(std::array::from_fn(|_| AtomicU64::new(0))),
        }
    }

    /// What heads are counted by.
    #[inline(always)]
    fn scale(&self) -> NodeScale<K> {
        Scale { base: Number::load(&self.base), shift: self.header.shift() }
    }

    fn set_scale(&self, scale: NodeScale<K>) {
        self.header.set_shift(scale.shift);
        scale.base.store(&self.base);
    }

    /// The key of entry `i`; of entry 0 above the leaves, any.
    #[inline(always)]
    fn lane(&self, i: usize) -> K::Lane {
        match self.keys() {
            Some(keys) => K::Lane::load(&keys[i]),
            None => self.separator_at(i, self.scale()),
        }
    }

    fn key_at(&self, i: usize) -> K {
        K::from_lane(self.lane(i))
    }

    fn high_lane(&self) -> K::Lane {
        K::Lane::load(&self.high)
    }

    /// The word of entry `i` as it is: a value, or a separator with a child.
    #[inline(always)]
    fn raw(&self, i: usize) -> u64 {
        self.words.0[i].load(Relaxed)
    }

    fn set_raw(&self, i: usize, word: u64) {
        self.words.0[i].store(word, Relaxed);
    }

    /// What an image is by the node's scale.
    #[inline(always)]
    fn head_of(&self, lane: K::Lane) -> u32 {
        lane.number().head(self.scale())
    }

    /// The first entry of the block where this image is to be expected: no entry behind the block is at most there (I3).
    #[inline(always)]
    fn first_of_block(&self, lane: K::Lane) -> usize {
        self.heads.block(Self::BLOCKS, self.head_of(lane)) * Self::BLOCK
    }

    /// Makes the heads of blocks those of their entries again, of which those before `from` have not changed (I3).
    #[inline(always)]
    fn copy_heads(&self, from: usize) {
        let first = from / Self::BLOCK;
        match self.keys() {
            Some(keys) => self.heads.set(first, Self::BLOCKS, self.heads_of_keys(keys)),
            None => self.heads.set(first, Self::BLOCKS, self.heads_of_children()),
        }
    }

    /// Entries not above (or below) the key, capped by the count (I1).
    #[inline(always)]
    fn rank(&self, lane: K::Lane, bias: Bias) -> usize {
        let lane = match bias {
            Bias::AtMost => lane,
            Bias::Below => match lane.before() {
                Some(before) => before,
                None => return 0,
            },
        };
        let rank = match self.keys() {
            Some(keys) => self.rank_in_leaf(keys, lane),
            None => self.rank_by(self.aim_of(lane)),
        };
        rank.min(self.header.count())
    }

    /// Removes entry `i`; the latch is held.
    #[inline]
    pub fn remove_entry(&self, i: usize) {
        let count = self.header.count();
        assert!(i < count && count <= F, "a removal at {i} of {count} entries");
        if let Some(keys) = self.keys() {
            for j in i + 1..count {
                K::Lane::load(&keys[j]).store(&keys[j - 1]);
            }
        }
        for j in i + 1..count {
            self.set_raw(j - 1, self.raw(j));
        }
        self.forget(count - 1);
        self.copy_heads(i);
    }

    /// Makes the entries from `count` on unused (I1).
    #[inline(always)]
    fn forget(&self, count: usize) {
        match self.keys() {
            Some(keys) => keys[count..self.header.count()].iter().for_each(|key| K::Lane::MAX.store(key)),
            None => self.forget_children(count, self.header.count()),
        }
        self.header.set_count(count);
    }

    /// Makes heads those of entries again, in a leaf by a scale of its own (I3).
    fn rescale(&self) {
        match self.keys() {
            Some(keys) => self.scale_to_keys(keys),
            None => self.copy_heads(0),
        }
    }
}

impl<K: IntKey> Batch<K> for Vec<(K, u64)> {
    fn clear(&mut self) {
        Vec::clear(self);
    }

    fn len(&self) -> usize {
        Vec::len(self)
    }

    #[inline]
    fn key(&self, i: usize) -> &K {
        &self[i].0
    }

    #[inline]
    fn word(&self, i: usize) -> u64 {
        self[i].1
    }
}

impl<K: IntKey, const F: usize> Node for IntNode<K, F> {
    type Key = K;
    type Owned = K;
    type Batch = Vec<(K, u64)>;

    const KEYS_MAY_BE_OUTSIDE: bool = false;
    const SHELF: usize = if Self::HALVES { pooled::INNER_OF_HALVES } else { pooled::INNER_OF_WORDS };

    fn vacant() -> Self {
        Self::vacant_at(1)
    }

    fn take(level: u8) -> NonNull<Self> {
        if level == 0 { pool::take::<IntLeaf<K, F>>().cast() } else { pool::take::<Self>() }
    }

    /// # Safety
    /// As the trait's.
    unsafe fn give_back(node: NonNull<Self>) {
        // SAFETY: as the caller says; and level 0 means that a leaf was taken (I4).
        unsafe {
            if node.as_ref().header.level() == 0 {
                pool::give_back(node.cast::<IntLeaf<K, F>>());
            } else {
                pool::give_back(node);
            }
        }
    }

    fn bytes(level: u8) -> usize {
        if level == 0 { size_of::<IntLeaf<K, F>>() } else { size_of::<Self>() }
    }

    #[inline(always)]
    fn header(&self) -> &Header {
        &self.header
    }

    fn least() -> K {
        K::from_lane(K::Lane::MIN)
    }

    fn own(key: &K) -> K {
        *key
    }

    fn reset(&self, level: u8) {
        self.header.reset(level);
        K::Lane::MAX.store(&self.high);
        self.set_scale(Scale::PLAIN);
        match self.keys() {
            Some(keys) => keys.iter().for_each(|key| K::Lane::MAX.store(key)),
            None => self.forget_children(0, F),
        }
        self.heads.reset();
    }

    #[inline(always)]
    fn prefetch(node: *const Self) {
        prefetch_lines(node, size_of::<IntLeaf<K, F>>());
    }

    #[inline(always)]
    fn prefetch_inner(node: *const Self) {
        prefetch_lines(node, size_of::<Self>());
    }

    #[inline(always)]
    fn prefetch_first(node: *const Self) {
        prefetch_lines(node, offset_of!(Self, words));
    }

    #[inline(always)]
    fn prefetch_keys(node: *const Self) {
        Self::prefetch_leaf_keys(node);
    }

    #[inline(always)]
    fn prefetch_words(node: *const Self) {
        prefetch_lines(node.cast::<u8>().wrapping_add(offset_of!(Self, words)), F * size_of::<u64>());
    }

    #[inline(always)]
    fn prefetch_child_from(&self, rank: usize, key: &K) {
        let entry = rank.saturating_sub(1);
        let child = std::ptr::with_exposed_provenance(self.child(entry) as usize);
        Self::prefetch_behind(child, self.expected_entry(entry, self.head_of(key.to_lane())));
    }

    #[inline(always)]
    fn aim_at_child(&self, key: &K) -> u64 {
        self.aim_at_child(key.to_lane()).pack()
    }

    #[inline(always)]
    fn child_by(&self, aim: u64, key: &K, _seen: &Seen) -> Result<u64, Restart> {
        self.entry_by(Aim::unpack(aim), key.to_lane()).map(|entry| self.child(entry)).ok_or(Restart)
    }

    #[inline(always)]
    fn aim_at_value(&self, key: &K) -> u64 {
        self.aim_at_value(key.to_lane()) as u64
    }

    #[inline(always)]
    fn value_by(&self, aim: u64, key: &K, _seen: &Seen) -> Result<Option<u64>, Restart> {
        self.value_in_block(aim as usize, key.to_lane())
    }

    #[inline(always)]
    fn place(&self, key: &K, bias: Bias, _seen: &Seen) -> Result<Place, Restart> {
        let (lane, high) = (key.to_lane(), self.high_lane());
        let beyond = match bias {
            Bias::AtMost => lane >= high,
            Bias::Below => lane > high,
        };
        if beyond && self.header.link() != 0 {
            return Ok(Place::Beyond);
        }
        let rank = self.rank(lane, bias);
        Ok(Place::Rank(rank, rank > 0 && self.lane(rank - 1) == lane))
    }

    #[inline(always)]
    fn towards(&self, key: &K, bias: Bias, _seen: &Seen) -> Result<(u64, bool), Restart> {
        let sought = match bias {
            Bias::AtMost => Some(key.to_lane()),
            Bias::Below => key.to_lane().before(),
        };
        Ok(match sought.map(|sought| self.entry_for(sought)) {
            None => (self.child(0), true),
            Some(None) => (self.header.link(), false),
            Some(Some((entry, _))) => (self.child(entry), true),
        })
    }

    #[inline(always)]
    fn word(&self, i: usize) -> u64 {
        let word = self.raw(i);
        if self.header.level() == 0 { word } else { packed::child_of(word) }
    }

    fn key(&self, i: usize, _seen: &Seen) -> Result<K, Restart> {
        Ok(self.key_at(i))
    }

    fn high(&self, _seen: &Seen) -> Result<K, Restart> {
        Ok(K::from_lane(self.high_lane()))
    }

    #[inline]
    fn copy(&self, from: usize, to: usize, _seen: &Seen, out: &mut Self::Batch) -> Result<(), Restart> {
        let keys = self.keys().and_then(|keys| keys.get(from..to)).ok_or(Restart)?;
        let words = &self.words.0[from..to];
        // One allocation serves the whole scan.
        out.reserve(F);
        out.extend(keys.iter().zip(words).map(|(k, w)| (K::from_lane(K::Lane::load(k)), w.load(Relaxed))));
        Ok(())
    }

    #[inline]
    fn make_room(&self, key: &K, _bound_too: bool) -> bool {
        self.header.count() < F && (self.header.level() == 0 || self.make_separable(key.to_lane()))
    }

    fn is_filled(&self, fill: f64) -> bool {
        self.header.count() as f64 >= F as f64 * fill
    }

    #[inline]
    fn insert_at(&self, i: usize, key: &K, word: u64) {
        let count = self.header.count();
        assert!(i <= count && count < F, "an insert at rank {i} of {count} entries");
        let word = match self.keys() {
            Some(keys) => {
                for j in (i..count).rev() {
                    K::Lane::load(&keys[j]).store(&keys[j + 1]);
                }
                key.to_lane().store(&keys[i]);
                word
            }
            None => self.entry(i, key.to_lane(), word),
        };
        for j in (i..count).rev() {
            self.set_raw(j + 1, self.raw(j));
        }
        self.set_raw(i, word);
        self.header.set_count(count + 1);
        match self.keys() {
            Some(keys) if i == 0 || i == count => self.scale_to_end(keys, i),
            _ => self.copy_heads(i),
        }
    }

    #[inline]
    fn set_word(&self, i: usize, word: u64) {
        self.set_raw(i, if self.header.level() == 0 { word } else { self.entry_with_child(i, word) });
    }

    #[inline]
    fn remove_at(&self, i: usize, _pin: &Pin) {
        self.remove_entry(i);
    }

    fn split_to(&self, right: &Self, appending: bool) -> K {
        let count = self.header.count();
        let at = match (self.keys(), appending) {
            (None, _) if count < F => self.widest_gap(),
            (_, true) => count - 1,
            (_, false) => count / 2,
        };
        assert!(0 < at && at < count, "a split of {count} entries at {at}");
        let separator = self.separator(&self.key_at(at - 1), &self.key_at(at));
        match (self.keys(), right.keys()) {
            (Some(keys), Some(right_keys)) => {
                let copied = keys[at..count].iter().zip(right_keys);
                copied.for_each(|(key, right)| K::Lane::load(key).store(right));
            }
            _ => right.set_scale(self.scale()),
        }
        (at..count).for_each(|i| right.set_raw(i - at, self.raw(i)));
        right.header.set_count(count - at);
        right.make_first_least();
        self.forget(at);
        [self, right].iter().for_each(|half| half.rescale());
        self.high_lane().store(&right.high);
        self.set_high(&separator);
        separator
    }

    /// Between leaves the shortest one does; above them the separator is an entry that moves up.
    fn separator(&self, left: &K, right: &K) -> K {
        let leaf = self.header.level() == 0;
        if leaf { K::from_lane(K::Lane::between(left.to_lane(), right.to_lane())) } else { *right }
    }

    fn set_high(&self, high: &K) {
        high.to_lane().store(&self.high);
    }

    fn close(&self, _pin: &Pin) {
        self.forget(0);
        self.copy_heads(0);
        K::Lane::MIN.store(&self.high);
    }

    fn drop_contents(&mut self) {}

    fn check(&self) -> Result<(), String> {
        let heads_are_right = match self.keys() {
            Some(keys) => {
                self.check_keys(keys)?;
                self.heads.are(Self::BLOCKS, self.heads_of_keys(keys))
            }
            None => {
                self.check_children()?;
                self.heads.are(Self::BLOCKS, self.heads_of_children())
            }
        };
        if !heads_are_right {
            return Err("I3: a block's head is not that of its first entry".into());
        }
        if self.header.link() == 0 && self.high_lane() != K::Lane::MAX {
            return Err("I2: a rightmost node has a bound".into());
        }
        Ok(())
    }

    fn bytes_outside(&self) -> u64 {
        0
    }
}
