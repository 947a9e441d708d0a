//! A node of fixed-width integer keys: a sorted key array and, beside it, a word array.
//!
//! Why: keys alone, 8 or 16 to a cache line, are what a search reads; one line of words follows. The first line also
//! holds where the quarters of the keys begin, so that whoever has it knows which few lines of the node are the next:
//! many lookups side by side are bound by the lines they ask for, not by their latency.
//! Source: OLFIT §4; the arrays stand apart as in ANCHORS' prototype node.
//!
//! Invariants, besides those of [`super`]:
//! - I1: unused keys hold the greatest image (S1 of the search); a rank is capped by the count, which tells a real
//!   greatest key from an unused cell.
//! - I2: `high` holds the greatest image while it is infinite, the least when the node is closed.
//! - I3: `quarters[q - 1]` is a copy of the first key of quarter `q`. So the last entry not above a key is in the quarter
//!   that the copies tell, key and word alike.

use super::{Batch, Bias, Header, Node, Place, Seen};
use crate::pooled;
use crate::reclaim::Pin;
use crate::search::{Lane, count_at_most, rank_in_run};
use foreshore_base::Restart;
use foreshore_base::prefetch::prefetch_lines;
use foreshore_base::sync::{AtomicU64, Ordering::Relaxed};
use std::mem::offset_of;

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
    keys: Line<[<K::Lane as Lane>::Cell; F]>,
    words: [AtomicU64; F],
}

#[repr(C, align(64))]
struct Line<T>(T);

const LINE_BYTES: usize = 64;

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<IntNode<u64, 64>>() == 17 * 64);

impl<K: IntKey, const F: usize> IntNode<K, F> {
    #[inline(always)]
    fn lane(&self, i: usize) -> K::Lane {
        K::Lane::load(&self.keys.0[i])
    }

    fn set_lane(&self, i: usize, lane: K::Lane) {
        lane.store(&self.keys.0[i]);
    }

    fn high_lane(&self) -> K::Lane {
        K::Lane::load(&self.high)
    }

    /// Entries of a quarter.
    const QUARTER: usize = {
        assert!(F >= 4 && F.is_multiple_of(4), "a node holds a multiple of four keys");
        F / 4
    };

    /// The quarter with the last entry not above the image, by the node's first line (I3).
    #[inline(always)]
    fn quarter(&self, lane: K::Lane) -> usize {
        count_at_most::<K::Lane>(&self.quarters, lane)
    }

    /// Copies the first keys of quarters that begin at entry `from` or later (I3).
    #[inline(always)]
    fn copy_quarters(&self, from: usize) {
        for (i, quarter) in self.quarters.iter().enumerate() {
            let first = (i + 1) * Self::QUARTER;
            if first >= from {
                self.lane(first).store(quarter);
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
        let first = self.quarter(lane) * Self::QUARTER;
        let run = &self.keys.0[first..first + Self::QUARTER];
        (first + rank_in_run::<K::Lane>(run, lane)).min(self.header.count())
    }

    /// Removes entry `i`; the latch is held.
    #[inline]
    pub fn remove_entry(&self, i: usize) {
        let count = self.header.count();
        assert!(i < count && count <= F, "a removal at {i} of {count} entries");
        for j in i + 1..count {
            self.set_lane(j - 1, self.lane(j));
        }
        for j in i + 1..count {
            self.set_word(j - 1, self.word(j));
        }
        self.set_lane(count - 1, K::Lane::MAX);
        self.copy_quarters(i);
        self.header.set_count(count - 1);
    }

    /// The keys between which a child's keys are, whose parent this is: `rank` entries are not above the key looked for.
    /// `low` is what is known of the lower end if the child is the first.
    #[inline(always)]
    pub fn bounds_of_child(&self, rank: usize, low: K::Lane) -> (K::Lane, K::Lane) {
        let low = if rank > 1 { self.lane(rank - 1) } else { low };
        let high = if rank < self.header.count().min(F) { self.lane(rank) } else { self.high_lane() };
        (low, high)
    }

    /// Asks for the lines in which a key is to be expected that is at this share of the way from the node's lower end to
    /// its upper end, if its keys are evenly spread. Nodes are half full to full. About half of the lines: a processor
    /// waits for no more than a dozen at a time.
    #[inline(always)]
    pub fn prefetch_near(node: *const Self, share: f32) {
        let share = Self::some_share(share);
        let last = (share * F as f32) as usize + Self::MARGIN;
        Self::prefetch_entries(node, Self::first_near(share), last.min(F - 1));
    }

    /// As `prefetch_near`, and for all lines behind: what a scan reads.
    #[inline(always)]
    fn prefetch_behind(node: *const Self, share: f32) {
        Self::prefetch_entries(node, Self::first_near(Self::some_share(share)), F - 1);
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

    /// Asks for the first line, and for those of the entries `first` to `last`.
    #[inline(always)]
    fn prefetch_entries(node: *const Self, first: usize, last: usize) {
        prefetch_lines(node, offset_of!(Self, keys));
        let ask = |array: usize, cell_bytes: usize| {
            let from = (array + first * cell_bytes) / LINE_BYTES * LINE_BYTES;
            prefetch_lines(node.cast::<u8>().wrapping_add(from), array + (last + 1) * cell_bytes - from);
        };
        ask(offset_of!(Self, keys), size_of::<K::Lane>());
        ask(offset_of!(Self, words), size_of::<u64>());
    }

    fn truncate(&self, count: usize) {
        for i in count..self.header.count() {
            self.set_lane(i, K::Lane::MAX);
        }
        self.copy_quarters(count);
        self.header.set_count(count);
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
    const SHELF: usize = if size_of::<K::Lane>() < size_of::<u64>() { pooled::HALVES } else { pooled::WORDS };

    fn vacant() -> Self {
        Self {
            header: Header::vacant(),
            high: K::Lane::MAX.cell(),
            quarters: std::array::from_fn(|_| K::Lane::MAX.cell()),
            keys: Line(std::array::from_fn(|_| K::Lane::MAX.cell())),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
        }
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
        for cell in self.quarters.iter().chain(&self.keys.0) {
            K::Lane::MAX.store(cell);
        }
    }

    #[inline(always)]
    fn prefetch(node: *const Self) {
        prefetch_lines::<Self>(node, size_of::<Self>());
    }

    #[inline(always)]
    fn prefetch_first(node: *const Self) {
        prefetch_lines(node, offset_of!(Self, keys));
    }

    #[inline(always)]
    fn prefetch_keys(node: *const Self) {
        prefetch_lines(node, offset_of!(Self, words));
    }

    #[inline(always)]
    fn prefetch_words(node: *const Self) {
        prefetch_lines(node.cast::<u8>().wrapping_add(offset_of!(Self, words)), F * size_of::<u64>());
    }

    #[inline(always)]
    fn prefetch_child_from(&self, rank: usize, key: &K) {
        let child = std::ptr::with_exposed_provenance(self.word(rank.saturating_sub(1)) as usize);
        let (low, high) = self.bounds_of_child(rank, K::Lane::MIN);
        Self::prefetch_behind(child, key.to_lane().share(low, high));
    }

    #[inline(always)]
    fn approach(&self, key: &K) {
        self.approach_keys(key);
        let first = self.quarter(key.to_lane()) * Self::QUARTER;
        prefetch_lines(&self.words[first], Self::QUARTER * size_of::<u64>());
    }

    #[inline(always)]
    fn approach_keys(&self, key: &K) {
        let first = self.quarter(key.to_lane()) * Self::QUARTER;
        prefetch_lines(&self.keys.0[first], Self::QUARTER * size_of::<K::Lane>());
    }

    #[inline(always)]
    fn approach_word(&self, i: usize) {
        prefetch_lines(&self.words[i], size_of::<u64>());
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
    fn word(&self, i: usize) -> u64 {
        self.words[i].load(Relaxed)
    }

    fn key(&self, i: usize, _seen: &Seen) -> Result<K, Restart> {
        Ok(K::from_lane(self.lane(i)))
    }

    fn high(&self, _seen: &Seen) -> Result<K, Restart> {
        Ok(K::from_lane(self.high_lane()))
    }

    #[inline]
    fn copy(&self, from: usize, to: usize, _seen: &Seen, out: &mut Self::Batch) -> Result<(), Restart> {
        let keys = self.keys.0.get(from..to).ok_or(Restart)?;
        let words = &self.words[from..to];
        // One allocation serves the whole scan.
        out.reserve(F);
        out.extend(keys.iter().zip(words).map(|(k, w)| (K::from_lane(K::Lane::load(k)), w.load(Relaxed))));
        Ok(())
    }

    #[inline]
    fn make_room(&self, _key: &K, _bound_too: bool) -> bool {
        self.header.count() < F
    }

    fn is_filled(&self, fill: f64) -> bool {
        self.header.count() as f64 >= F as f64 * fill
    }

    #[inline]
    fn insert_at(&self, i: usize, key: &K, word: u64) {
        let count = self.header.count();
        assert!(i <= count && count < F, "an insert at rank {i} of {count} entries");
        for j in (i..count).rev() {
            self.set_lane(j + 1, self.lane(j));
        }
        for j in (i..count).rev() {
            self.words[j + 1].store(self.word(j), Relaxed);
        }
        self.set_lane(i, key.to_lane());
        self.set_word(i, word);
        self.copy_quarters(i);
        self.header.set_count(count + 1);
    }

    #[inline]
    fn set_word(&self, i: usize, word: u64) {
        self.words[i].store(word, Relaxed);
    }

    #[inline]
    fn remove_at(&self, i: usize, _pin: &Pin) {
        self.remove_entry(i);
    }

    fn split_to(&self, right: &Self, appending: bool) -> K {
        let count = self.header.count();
        let at = if appending { count - 1 } else { count / 2 };
        assert!(at > 0, "a split of {count} entries");
        let separator = self.lane(at);
        for j in at..count {
            right.set_lane(j - at, self.lane(j));
            right.set_word(j - at, self.word(j));
        }
        right.header.set_count(count - at);
        if self.header.level() > 0 {
            right.set_lane(0, K::Lane::MIN);
        }
        right.copy_quarters(0);
        self.truncate(at);
        self.high_lane().store(&right.high);
        separator.store(&self.high);
        K::from_lane(separator)
    }

    fn separator(&self, _left: &K, right: &K) -> K {
        *right
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
        if let Some(i) = (1..count).find(|&i| self.lane(i - 1) >= self.lane(i)) {
            return Err(format!("order: entries {} and {i}", i - 1));
        }
        if (count..F).any(|i| self.lane(i) != K::Lane::MAX) {
            return Err("I1: an unused key is not the greatest".into());
        }
        let copied = |(i, quarter)| K::Lane::load(quarter) == self.lane((i + 1) * Self::QUARTER);
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
