//! A node of fixed-width integer keys: a word array and, in leaves, a sorted key array behind it.
//!
//! Why: keys alone, 8 or 16 to a cache line, are what a search of a leaf reads; one line of words follows. Above the leaves
//! a word holds separator and child ([`packed`]), and there is no key array. The first line also holds where the quarters
//! of the entries begin, so that whoever has it knows which few lines of the node are the next: many lookups side by side
//! are bound by the lines they ask for, not by their latency.
//! Source: OLFIT §4; the arrays stand apart as in ANCHORS' prototype node.
//!
//! Invariants, besides those of [`super`]:
//! - I1: unused keys (words, above the leaves) hold the greatest image (S1 of the search); a rank is capped by the count,
//!   which tells a real greatest key from an unused one.
//! - I2: `high` holds the greatest image while it is infinite, the least when the node is closed.
//! - I3: `quarters[q - 1]` is a copy of the first key of quarter `q`, or of its head above the leaves. So the last entry not
//!   above a key is in the quarter that the copies tell, key and word alike.
//! - I4: memory of a leaf is that of leaves for ever, and says so: its level is 0 in every life, and in no life of other
//!   nodes. So whoever finds level 0, in whichever life, finds a key array behind the node.

mod packed;

use super::scale::Number;
use super::{Batch, Bias, Header, Node, Place, Seen};
use crate::pool;
use crate::pooled::{self, Pooled};
use crate::reclaim::Pin;
use crate::search::{Lane, count_at_most, rank_in_run};
use foreshore_base::Restart;
use foreshore_base::prefetch::prefetch_lines;
use foreshore_base::sync::{AtomicU64, Ordering::Relaxed};
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

/// See the module. `F` entries, a multiple of four.
#[repr(C, align(64))]
pub(crate) struct IntNode<K: IntKey, const F: usize> {
    header: Header,
    high: <K::Lane as Lane>::Cell,
    quarters: [<K::Lane as Lane>::Cell; 3],
    /// What separators above the leaves are counted from.
    base: <<K::Lane as Lane>::Number as Number>::Cell,
    words: Line<[AtomicU64; F]>,
}

/// A node of level 0.
#[repr(C, align(64))]
struct IntLeaf<K: IntKey, const F: usize> {
    node: IntNode<K, F>,
    keys: Line<[<K::Lane as Lane>::Cell; F]>,
}

#[repr(C, align(64))]
struct Line<T>(T);

const LINE_BYTES: usize = 64;

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<IntLeaf<u64, 64>>() == 17 * 64 && size_of::<IntNode<u64, 64>>() == 9 * 64);

impl<K: IntKey, const F: usize> Pooled for IntLeaf<K, F> {
    const SHELF: usize =
        if IntNode::<K, F>::HALVES { pooled::LEAVES_OF_HALVES } else { pooled::LEAVES_OF_WORDS };

    fn vacant() -> Self {
        let keys = Line(std::array::from_fn(|_| K::Lane::MAX.cell()));
        Self { node: IntNode::vacant_at(0), keys }
    }

    #[cfg(shuttle)]
    fn pooled(&self) -> &std::sync::atomic::AtomicBool {
        &self.node.header.pooled
    }
}

impl<K: IntKey, const F: usize> IntNode<K, F> {
    /// Are keys half a word wide?
    const HALVES: bool = size_of::<K::Lane>() < size_of::<u64>();

    /// Entries of a quarter.
    const QUARTER: usize = {
        assert!(F >= 4 && F.is_multiple_of(4), "a node holds a multiple of four keys");
        F / 4
    };

    /// Memory of this level that was never a node (I4).
    fn vacant_at(level: u8) -> Self {
        let header = Header::vacant();
        header.reset(level);
        Self {
            header,
            high: K::Lane::MAX.cell(),
            quarters: std::array::from_fn(|_| K::Lane::MAX.cell()),
            base: <K::Lane as Lane>::Number::cell(),
            words: Line(std::array::from_fn(|_| AtomicU64::new(0))),
        }
    }

    /// The keys of a leaf; `None` above the leaves.
    #[inline(always)]
    fn keys(&self) -> Option<&[<K::Lane as Lane>::Cell; F]> {
        if self.header.level() > 0 {
            return None;
        }
        let leaf = std::ptr::with_exposed_provenance::<IntLeaf<K, F>>(std::ptr::from_ref(self).addr());
        // SAFETY: I4: this is the node of an `IntLeaf`, whose memory lives as long as this node's.
        Some(unsafe { &(*leaf).keys.0 })
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

    /// The quarter with the last entry not above the image, by the node's first line (I3).
    #[inline(always)]
    fn quarter(&self, lane: K::Lane) -> usize {
        count_at_most::<K::Lane>(&self.quarters, lane)
    }

    /// What the copy of a quarter's first entry is made of (I3).
    #[inline(always)]
    fn image(&self, i: usize) -> K::Lane {
        match self.keys() {
            Some(keys) => K::Lane::load(&keys[i]),
            None => self.head_at(i),
        }
    }

    /// Copies the first keys of quarters that begin at entry `from` or later (I3).
    #[inline(always)]
    fn copy_quarters(&self, from: usize) {
        for (i, quarter) in self.quarters.iter().enumerate() {
            let first = (i + 1) * Self::QUARTER;
            if first >= from {
                self.image(first).store(quarter);
            }
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
            Some(keys) => {
                let first = self.quarter(lane) * Self::QUARTER;
                first + rank_in_run::<K::Lane>(&keys[first..first + Self::QUARTER], lane)
            }
            None => self.rank_of_head(lane.number().head(self.scale())),
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
        self.copy_quarters(i);
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

    fn truncate(&self, count: usize) {
        self.forget(count);
        self.copy_quarters(count);
    }

    /// Is this the key of entry `i` of a leaf?
    #[inline(always)]
    pub fn holds(&self, i: usize, key: K::Lane) -> bool {
        self.lane(i) == key
    }

    /// Asks for the lines in which a key is to be expected that is at this share of the way from a leaf's lower end to
    /// its upper end, if its keys are evenly spread. Leaves are half full to full. About half of the lines: a processor
    /// waits for no more than a dozen at a time.
    #[inline(always)]
    pub fn prefetch_near(leaf: *const Self, share: f32) {
        let share = Self::some_share(share);
        let last = (share * F as f32) as usize + Self::MARGIN;
        Self::prefetch_entries(leaf, Self::first_near(share), last.min(F - 1));
    }

    /// As `prefetch_near`, and for all lines behind: what a scan reads.
    #[inline(always)]
    fn prefetch_behind(leaf: *const Self, share: f32) {
        Self::prefetch_entries(leaf, Self::first_near(Self::some_share(share)), F - 1);
    }

    /// Entries by which a guess may be wrong.
    const MARGIN: usize = 2;

    /// What it was reckoned from may have changed meanwhile.
    #[inline(always)]
    fn some_share(share: f32) -> f32 {
        share.clamp(0.0, 1.0)
    }

    /// Where a key begins to be expected that is at this share of the way, 0 to 1.
    #[inline(always)]
    fn first_near(share: f32) -> usize {
        ((share * (F / 2) as f32) as usize).saturating_sub(Self::MARGIN)
    }

    /// Asks for the first line, and for those of the entries `first` to `last` of a leaf.
    #[inline(always)]
    fn prefetch_entries(leaf: *const Self, first: usize, last: usize) {
        Self::prefetch_first(leaf);
        let ask = |array: usize, cell_bytes: usize| {
            let from = (array + first * cell_bytes) / LINE_BYTES * LINE_BYTES;
            prefetch_lines(leaf.cast::<u8>().wrapping_add(from), array + (last + 1) * cell_bytes - from);
        };
        ask(offset_of!(IntLeaf<K, F>, keys), size_of::<K::Lane>());
        ask(offset_of!(Self, words), size_of::<u64>());
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
        self.quarters.iter().chain([&self.high]).for_each(|cell| K::Lane::MAX.store(cell));
        match self.keys() {
            Some(keys) => keys.iter().for_each(|key| K::Lane::MAX.store(key)),
            None => self.forget_children(0, F),
        }
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
        Self::prefetch_first(node);
        let keys = node.cast::<u8>().wrapping_add(offset_of!(IntLeaf<K, F>, keys));
        prefetch_lines(keys, F * size_of::<K::Lane>());
    }

    #[inline(always)]
    fn prefetch_words(node: *const Self) {
        prefetch_lines(node.cast::<u8>().wrapping_add(offset_of!(Self, words)), F * size_of::<u64>());
    }

    #[inline(always)]
    fn prefetch_child_from(&self, rank: usize, key: &K) {
        let entry = rank.saturating_sub(1);
        let child = std::ptr::with_exposed_provenance(self.child(entry) as usize);
        let (low, high) = self.bounds_of_child(entry);
        Self::prefetch_behind(child, key.to_lane().share(low, high));
    }

    #[inline(always)]
    fn approach(&self, key: &K) {
        self.approach_keys(key);
        let image = match self.keys() {
            Some(_) => key.to_lane(),
            None => K::Lane::from_head(key.to_lane().number().head(self.scale())),
        };
        let first = self.quarter(image) * Self::QUARTER;
        prefetch_lines(&self.words.0[first], Self::QUARTER * size_of::<u64>());
    }

    #[inline(always)]
    fn approach_keys(&self, key: &K) {
        if let Some(keys) = self.keys() {
            let first = self.quarter(key.to_lane()) * Self::QUARTER;
            prefetch_lines(&keys[first], Self::QUARTER * size_of::<K::Lane>());
        }
    }

    #[inline(always)]
    fn approach_word(&self, i: usize) {
        prefetch_lines(&self.words.0[i], size_of::<u64>());
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
            Some(Some(entry)) => (self.child(entry), true),
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
        self.copy_quarters(i);
        self.header.set_count(count + 1);
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
        right.copy_quarters(0);
        self.truncate(at);
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
        self.truncate(0);
        K::Lane::MIN.store(&self.high);
    }

    fn drop_contents(&mut self) {}

    fn check(&self) -> Result<(), String> {
        let count = self.header.count();
        if let Some(i) = (1..count).find(|&i| self.image(i - 1) >= self.image(i)) {
            return Err(format!("order: entries {} and {i}", i - 1));
        }
        let leaf = self.header.level() == 0;
        let unused = if leaf { K::Lane::MAX } else { K::Lane::from_head(u32::MAX) };
        if (count..F).any(|i| self.image(i) != unused) {
            return Err("I1: an unused entry is not the greatest".into());
        }
        if !leaf && self.image(0) != K::Lane::MIN {
            return Err("Q2: the first child has a separator".into());
        }
        let copied = |(i, quarter)| K::Lane::load(quarter) == self.image((i + 1) * Self::QUARTER);
        if !self.quarters.iter().enumerate().all(copied) {
            return Err("I3: a quarter does not begin where its copy says".into());
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
