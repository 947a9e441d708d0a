//! A node of fixed-width integer keys: a first line, a word array and, in leaves, a sorted key array behind it.
//!
//! Why: a leaf's keys stand in an array of their own, behind the words ([`leaf`]). Above the leaves a word holds separator and
//! child ([`packed`]), there is no key array, and there are twice as many words: so ten million keys take one level less. The
//! first line tells where blocks of entries begin ([`heads`](super::heads)), so whoever has it knows where to read on.
//! Source: OLFIT §4.
//!
//! Invariants, besides those of [`super`]:
//! - I1: unused keys (words, above the leaves) hold the greatest image (S1 of the search); a rank is capped by the count,
//!   which tells a real greatest key from an unused one.
//! - I2: `high` holds the greatest image while it is infinite, the least when the node is closed.
//! - I3: each block but the first has the head of its first entry, by the scale of the node: that tells separators apart exactly,
//!   and the keys of a leaf roughly. Blocks without entries have a head that is above that of any key (Q2 in `scale.rs`).
//! - I4: memory of a leaf is that of leaves for ever, and says so: its level is 0 in every life, and in no life of other
//!   nodes. So whoever finds level 0, in whichever life, finds a leaf's arrays behind the first line, and else a node's above.
//!   Where both are as large, and atomic words alone, either can be read as the other (`ALIKE`).

mod leaf;
mod packed;

use super::heads::{self, Heads};
use super::scale::{Number, Scale};
use super::{Batch, Bias, Header, Node, Place, Seen};
use crate::pool;
use crate::reclaim::Pin;
use crate::search::Lane;
use foreshore_base::Restart;
use foreshore_base::prefetch::prefetch_lines;
use foreshore_base::sync::{AtomicU64, Ordering::Relaxed};
pub(crate) use leaf::{Copied, IntLeaf};
use packed::{Aim, IntInner};

use std::ptr::NonNull;

/// A key of fixed width: integers, signed or not, from `u8` to `u128`, and byte arrays of up to 32 bytes. Keys of your own, which need not
/// have all images there are, are as good.
///
/// Images are ordered as the keys are, a key's is always the same, and `from_lane(to_lane(key))` is `key`: otherwise entries may not be found.
///
/// ```
/// use foreshore_index::{IntKey, IntMap};
///
/// /// A day, told apart from other numbers.
/// #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
/// struct Day(u32);
///
/// impl IntKey for Day {
///     type Lane = u32;
///
///     fn to_lane(self) -> u32 {
///         self.0
///     }
///
///     fn from_lane(lane: u32) -> Self {
///         Self(lane)
///     }
/// }
///
/// let flights = IntMap::<Day>::from_iter([(Day(20111224), 428)]);
/// assert_eq!(flights.floor(Day(20111231)), Some(428));
/// ```
pub trait IntKey: Copy + Ord + std::fmt::Debug + Send + Sync + 'static {
    /// Its order-preserving image in a node.
    type Lane: Lane;
    /// The image of this key.
    fn to_lane(self) -> Self::Lane;
    /// The key of this image, which is one that [`to_lane`](Self::to_lane) gave.
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

/// The first line of a node, see the module. `F` entries in a leaf, a power of two, and twice as many in a node above.
#[repr(C, align(64))]
pub(crate) struct IntNode<L: Lane, const F: usize> {
    header: Header,
    high: L::Cell,
    /// What heads are counted from.
    base: <L::Number as Number>::Cell,
    heads: Heads,
}

/// A node as what it is (I4).
enum Whole<'n, L: Lane, const F: usize> {
    Leaf(&'n IntLeaf<L, F>),
    Inner(&'n IntInner<L, F>),
}

/// The scale of a node with such keys.
type NodeScale<L> = Scale<<L as Lane>::Number>;

/// The last image on the way to the entries that count. Nothing is below the least image, but the way there has an end too: a closed
/// node must not be taken for one with children (N3).
#[inline(always)]
fn furthest<L: Lane>(lane: L, bias: Bias) -> L {
    match bias {
        Bias::AtMost => lane,
        Bias::Below => lane.before().unwrap_or(lane),
    }
}

#[repr(C, align(64))]
struct Line<T>(T);

const LINE_BYTES: usize = 64;

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<IntNode<u64, 64>>() == 64);

impl<L: Lane, const F: usize> IntNode<L, F> {
    /// Are keys half a word wide?
    const HALVES: bool = size_of::<L>() < size_of::<u64>();

    /// The first line of memory of this level that was never a node (I4).
    #[cfg(any(shuttle, test))]
    fn vacant_at(level: u8) -> Self {
        let header = Header::vacant();
        header.reset(level);
        Self { header, high: L::MAX.cell(), base: <L as Lane>::Number::cell(), heads: Heads::vacant() }
    }

    /// The whole node.
    #[inline(always)]
    fn whole(&self) -> Whole<'_, L, F> {
        let address = std::ptr::from_ref(self).addr();
        // SAFETY: I4: by its level this is the first line of the one or the other, whose memory lives as long as it.
        unsafe {
            if self.header.level() == 0 {
                Whole::Leaf(&*std::ptr::with_exposed_provenance(address))
            } else {
                Whole::Inner(&*std::ptr::with_exposed_provenance(address))
            }
        }
    }

    /// Are leaves as large as the nodes above, and both nothing but words behind the first line? Then either can be read as the
    /// other, which saves looks at the level where a node that is not what it was is noticed later anyway.
    const ALIKE: bool = !Self::HALVES && size_of::<IntLeaf<L, F>>() == size_of::<IntInner<L, F>>();

    /// The node as a leaf, which it is if it has not changed since its level was seen; `None` if it cannot be read as one.
    #[inline(always)]
    pub fn as_leaf(&self) -> Option<&IntLeaf<L, F>> {
        if !Self::ALIKE && self.header.level() > 0 {
            return None;
        }
        let leaf = std::ptr::with_exposed_provenance::<IntLeaf<L, F>>(std::ptr::from_ref(self).addr());
        // SAFETY: I4: it is one, or has the same memory and the same atomics there.
        Some(unsafe { &*leaf })
    }

    /// The same for a node above the leaves.
    #[inline(always)]
    pub fn as_inner(&self) -> Option<&IntInner<L, F>> {
        if !Self::ALIKE && self.header.level() == 0 {
            return None;
        }
        let inner = std::ptr::with_exposed_provenance::<IntInner<L, F>>(std::ptr::from_ref(self).addr());
        // SAFETY: as above.
        Some(unsafe { &*inner })
    }

    /// Values, or separators with children: as many as there is room for.
    #[inline(always)]
    fn words(&self) -> &[AtomicU64] {
        match self.whole() {
            Whole::Leaf(leaf) => leaf.words(),
            Whole::Inner(inner) => inner.words(),
        }
    }

    /// What heads are counted by.
    #[inline(always)]
    fn scale(&self) -> NodeScale<L> {
        Scale { base: Number::load(&self.base), shift: self.header.shift() }
    }

    fn set_scale(&self, scale: NodeScale<L>) {
        self.header.set_shift(scale.shift);
        scale.base.store(&self.base);
    }

    /// The key of entry `i`; of entry 0 above the leaves, any.
    #[inline(always)]
    fn lane(&self, i: usize) -> L {
        match self.whole() {
            Whole::Leaf(leaf) => leaf.lane(i),
            Whole::Inner(inner) => inner.separator_at(i, self.scale()),
        }
    }

    fn high_lane(&self) -> L {
        L::load(&self.high)
    }

    /// Is this image, as far as one can see, to the right of this node (N2)?
    #[inline(always)]
    fn is_beyond(&self, lane: L) -> bool {
        lane >= self.high_lane() && self.header.link() != 0
    }

    /// The word of entry `i` as it is: a value, or a separator with a child.
    #[inline(always)]
    fn raw(&self, i: usize) -> u64 {
        self.words()[i].load(Relaxed)
    }

    fn set_raw(&self, i: usize, word: u64) {
        self.words()[i].store(word, Relaxed);
    }

    /// What an image is by the node's scale.
    #[inline(always)]
    fn head_of(&self, lane: L) -> u32 {
        lane.number().head(self.scale())
    }

    /// Makes the heads of blocks those of their entries again, of which those before `from` have not changed (I3).
    #[inline(always)]
    fn copy_heads(&self, from: usize) {
        match self.whole() {
            Whole::Leaf(leaf) => leaf.copy_heads(from),
            Whole::Inner(inner) => inner.copy_heads(from),
        }
    }

    /// Entries not above (or below) the key, capped by the count (I1).
    #[inline(always)]
    fn rank(&self, lane: L, bias: Bias) -> usize {
        let lane = match bias {
            Bias::AtMost => lane,
            Bias::Below => match lane.before() {
                Some(before) => before,
                None => return 0,
            },
        };
        let rank = match self.whole() {
            Whole::Leaf(leaf) => leaf.rank(lane),
            Whole::Inner(inner) => inner.rank_by(inner.aim_of(lane)),
        };
        rank.min(self.header.count())
    }

    /// Makes the entries from `count` on unused (I1).
    #[inline(always)]
    fn forget(&self, count: usize) {
        match self.whole() {
            Whole::Leaf(leaf) => leaf.forget_keys(count, self.header.count()),
            Whole::Inner(inner) => inner.forget_children(count, self.header.count()),
        }
        self.header.set_count(count);
    }

    /// Makes heads those of entries again, in a leaf by a scale of its own (I3).
    fn rescale(&self) {
        match self.whole() {
            Whole::Leaf(leaf) => leaf.rescale(),
            Whole::Inner(inner) => inner.copy_heads(0),
        }
    }
}

impl<L: Lane> Batch<L> for Vec<(L, u64)> {
    fn clear(&mut self) {
        Vec::clear(self);
    }

    fn len(&self) -> usize {
        Vec::len(self)
    }

    #[inline]
    fn key(&self, i: usize) -> &L {
        &self[i].0
    }

    #[inline]
    fn word(&self, i: usize) -> u64 {
        self[i].1
    }
}

impl<L: Lane, const F: usize> Node for IntNode<L, F> {
    type Key = L;
    type Owned = L;
    type Batch = Vec<(L, u64)>;

    const HAS_TAILS: bool = false;

    #[inline(always)]
    fn bytes_outside_of(_key: &L) -> usize {
        0
    }

    fn take(level: u8) -> NonNull<Self> {
        const { assert!(F >= 4 && F.is_power_of_two(), "a leaf holds a power of two of keys, at least four") };
        if level == 0 { pool::take::<IntLeaf<L, F>>().cast() } else { pool::take::<IntInner<L, F>>().cast() }
    }

    /// # Safety
    /// As the trait's.
    unsafe fn give_back(node: NonNull<Self>) {
        // SAFETY: as the caller says; and level 0 means that a leaf was taken (I4).
        unsafe {
            if node.as_ref().header.level() == 0 {
                pool::give_back(node.cast::<IntLeaf<L, F>>());
            } else {
                pool::give_back(node.cast::<IntInner<L, F>>());
            }
        }
    }

    fn bytes(level: u8) -> usize {
        if level == 0 { size_of::<IntLeaf<L, F>>() } else { size_of::<IntInner<L, F>>() }
    }

    #[inline(always)]
    fn header(&self) -> &Header {
        &self.header
    }

    fn least() -> L {
        L::MIN
    }

    fn own(key: &L) -> L {
        *key
    }

    fn reset(&self, level: u8) {
        self.header.reset(level);
        L::MAX.store(&self.high);
        self.set_scale(Scale::PLAIN);
        match self.whole() {
            Whole::Leaf(leaf) => leaf.forget_keys(0, F),
            Whole::Inner(inner) => inner.forget_children(0, inner.words().len()),
        }
        self.heads.reset();
    }

    #[inline(always)]
    fn prefetch(node: *const Self) {
        prefetch_lines(node, size_of::<IntLeaf<L, F>>());
    }

    #[inline(always)]
    fn prefetch_inner(node: *const Self) {
        prefetch_lines(node, size_of::<IntInner<L, F>>());
    }

    #[inline(always)]
    fn prefetch_first(node: *const Self) {
        prefetch_lines(node, size_of::<Self>());
    }

    #[inline(always)]
    fn prefetch_keys(node: *const Self) {
        IntLeaf::<L, F>::prefetch_keys(node);
    }

    #[inline(always)]
    fn prefetch_words(node: *const Self) {
        IntLeaf::<L, F>::prefetch_words(node);
    }

    #[inline(always)]
    fn prefetch_child_from(&self, rank: usize, key: &L) {
        if let Some(inner) = self.as_inner() {
            let entry = rank.saturating_sub(1);
            let child = std::ptr::with_exposed_provenance(inner.child(entry) as usize);
            IntLeaf::<L, F>::prefetch_behind(child, inner.expected_entry(entry, self.head_of(*key)));
        }
    }

    #[inline(always)]
    fn aim_at_child(&self, key: &L) -> u64 {
        self.as_inner().map_or(0, |inner| inner.aim_at_child(*key).pack())
    }

    #[inline(always)]
    fn child_by(&self, aim: u64, key: &L, _seen: &Seen) -> Result<u64, Restart> {
        let inner = self.as_inner().ok_or(Restart)?;
        inner.entry_by(Aim::unpack(aim), *key).map(|entry| inner.child(entry)).ok_or(Restart)
    }

    #[inline(always)]
    fn aim_at_value(&self, key: &L) -> u64 {
        self.as_leaf().map_or(0, |leaf| leaf.aim_at_value(*key)) as u64
    }

    #[inline(always)]
    fn value_by(&self, aim: u64, key: &L, _seen: &Seen) -> Result<Option<u64>, Restart> {
        self.as_leaf().ok_or(Restart)?.value_in_block(aim as usize, *key)
    }

    #[inline(always)]
    fn place(&self, key: &L, bias: Bias, _seen: &Seen) -> Result<Place, Restart> {
        let lane = *key;
        if self.is_beyond(furthest(lane, bias)) {
            return Ok(Place::Beyond);
        }
        let rank = self.rank(lane, bias);
        Ok(Place::Rank(rank, rank > 0 && self.lane(rank - 1) == lane))
    }

    #[inline(always)]
    fn towards(&self, key: &L, bias: Bias, _seen: &Seen) -> Result<(u64, bool), Restart> {
        let inner = self.as_inner().ok_or(Restart)?;
        Ok(match inner.entry_for(furthest(*key, bias)) {
            None => (self.header.link(), false),
            Some((entry, _)) => (inner.child(entry), true),
        })
    }

    #[inline(always)]
    fn word(&self, i: usize) -> u64 {
        match self.whole() {
            Whole::Leaf(leaf) => leaf.word(i),
            Whole::Inner(inner) => inner.child(i),
        }
    }

    fn key(&self, i: usize, _seen: &Seen) -> Result<L, Restart> {
        Ok(self.lane(i))
    }

    fn high(&self, _seen: &Seen) -> Result<L, Restart> {
        Ok(self.high_lane())
    }

    #[inline]
    fn copy(&self, from: usize, to: usize, _seen: &Seen, out: &mut Self::Batch) -> Result<(), Restart> {
        let entries = self.as_leaf().and_then(|leaf| leaf.entries(from..to)).ok_or(Restart)?;
        // One allocation serves the whole scan.
        out.reserve(F);
        out.extend(entries);
        Ok(())
    }

    #[inline]
    fn make_room(&self, key: &L, _bound_too: bool) -> bool {
        match self.whole() {
            Whole::Leaf(leaf) => leaf.has_room(),
            Whole::Inner(inner) => self.header.count() < inner.words().len() && inner.make_separable(*key),
        }
    }

    fn is_filled(&self, fill: f64) -> bool {
        self.header.count() as f64 >= self.words().len() as f64 * fill
    }

    #[inline]
    fn insert_at(&self, i: usize, key: &L, word: u64) {
        match self.whole() {
            Whole::Leaf(leaf) => leaf.insert(i, *key, word),
            Whole::Inner(inner) => inner.insert(i, *key, word),
        }
    }

    #[inline]
    fn set_word(&self, i: usize, word: u64) {
        match self.whole() {
            Whole::Leaf(leaf) => leaf.set_word(i, word),
            Whole::Inner(inner) => inner.set_child(i, word),
        }
    }

    #[inline]
    fn remove_at(&self, i: usize, _pin: &Pin) {
        match self.whole() {
            Whole::Leaf(leaf) => leaf.remove(i),
            Whole::Inner(inner) => inner.remove(i),
        }
    }

    fn split_to(&self, right: &Self, appending: bool) -> L {
        let count = self.header.count();
        let at = match (self.whole(), appending) {
            (Whole::Inner(inner), _) if count < inner.words().len() => inner.widest_gap(),
            (_, true) => count - 1,
            (_, false) => count / 2,
        };
        assert!(0 < at && at < count, "a split of {count} entries at {at}");
        let separator = self.separator(&self.lane(at - 1), &self.lane(at));
        match (self.whole(), right.whole()) {
            (Whole::Leaf(leaf), Whole::Leaf(right)) => leaf.copy_keys(at..count, right),
            _ => right.set_scale(self.scale()),
        }
        (at..count).for_each(|i| right.set_raw(i - at, self.raw(i)));
        right.header.set_count(count - at);
        if let Whole::Inner(right) = right.whole() {
            right.make_first_least();
        }
        self.forget(at);
        [self, right].iter().for_each(|half| half.rescale());
        self.high_lane().store(&right.high);
        self.set_high(&separator);
        separator
    }

    /// Between leaves the shortest one does; above them the separator is an entry that moves up.
    fn separator(&self, left: &L, right: &L) -> L {
        let leaf = self.header.level() == 0;
        if leaf { L::between(*left, *right) } else { *right }
    }

    fn set_high(&self, high: &L) {
        high.store(&self.high);
    }

    fn close(&self, _pin: &Pin) {
        self.forget(0);
        self.copy_heads(0);
        L::MIN.store(&self.high);
    }

    fn drop_contents(&self) {}

    fn check(&self) -> Result<(), String> {
        match self.whole() {
            Whole::Leaf(leaf) => leaf.check()?,
            Whole::Inner(inner) => inner.check()?,
        }
        if self.header.link() == 0 && self.high_lane() != L::MAX {
            return Err("I2: a rightmost node has a bound".into());
        }
        Ok(())
    }

    fn bytes_outside(&self) -> u64 {
        0
    }
}
