//! A node of byte-string keys.
//!
//! Why: what the keys of a node have in common is stored once; of what remains, the first 8 bytes are a number (the
//! head), so that the search is the one of integer nodes and touches tails only where heads are equal. As there, the first line tells
//! where blocks of entries begin ([`heads`](super::heads)).
//! Source: prefix B-trees (Bayer, Unterauer) for prefixes and short separators.
//!
//! ```text
//! key = prefix | head (8 bytes, big-endian, padded with zeros) | tail
//! header, block heads | head of the upper bound, prefix | heads, sorted | slots: tail offset (u16), print (u8), suffix length (u8) | words |
//! heap of tails
//! ```
//!
//! Invariants, besides those of [`super`]:
//! - Y1: every key starts with the prefix, except the least key at entry 0 above the leaves, which has an empty suffix
//!   and means "no lower bound". The prefix comes from the keys, not from the range: a key that fits the range but not
//!   the prefix makes the node be packed again.
//! - Y2: unused heads, and second words, are the greatest; ranks are capped by the count.
//! - Y3: the upper bound is stored like a key (`Inside`: it starts with the prefix) or whole (`Foreign`: then it is
//!   above everything that starts with the prefix).
//! - Y4: each block but the first has the upper half of the head of its first entry, one without entries the greatest number.
//! - Y5: a key longer than [`INLINE_MAX`] is a blob: its cell holds the address. So four keys always fit.
//! - Y6: the print in a slot is that of the suffix it stands for, [`print_of`]; the "no lower bound" of Y1 has none.
//! - Y7: above the leaves, the second word of an entry is what follows its head ([`inner`]); if two heads are equal, the node says so.

mod batch;
mod check;
mod inner;
mod pack;
mod search;

pub(crate) use batch::BytesBatch;

use super::blob::{self, INLINE_MAX};
use super::heads::{self, Heads};
use super::{Bias, Header, Node, Place, Seen};
use crate::pool;
use crate::pooled::Pooled;
use crate::reclaim::Pin;
use crate::search::Lane;
use foreshore_base::bytes::le_uint;
use foreshore_base::prefetch::prefetch_lines;
use foreshore_base::sync::{AtomicU32, AtomicU64, Ordering::Relaxed};
use foreshore_base::{RelaxedBytes, Restart};
use inner::BytesInner;
use pack::{Entry, common_prefix};
use search::Relation;
use std::mem::offset_of;
use std::ptr::NonNull;

const HEAD: usize = 8;
/// Longest prefix that is taken out of the keys.
const PREFIX_MAX: usize = 56;
const PREFIX_WORDS: usize = PREFIX_MAX / 8;
/// In the shape: heads were equal.
const TIES: u64 = 1 << 48;
/// Suffix length in the slot of a blob.
const BLOB: u8 = u8::MAX;
const _: () = assert!(INLINE_MAX < BLOB as usize);

/// See the module. `F` entries, a power of two; `H` words of heap.
#[repr(C, align(64))]
pub(crate) struct BytesNode<const F: usize, const H: usize> {
    header: Header,
    /// Slot of the upper bound (u32) | kind of bound (u8) | prefix length (u8) | were heads equal (u8)?
    shape: AtomicU64,
    /// End of the heap in use (u32) | bytes in it that nothing refers to (u32).
    heap_use: AtomicU64,
    blocks: Heads,
    /// Head of the upper bound.
    high_head: AtomicU64,
    prefix: [AtomicU64; PREFIX_WORDS],
    heads: [AtomicU64; F],
    slots: [AtomicU32; F],
    words: [AtomicU64; F],
    heap: [AtomicU64; H],
}

#[cfg(not(any(loom, shuttle)))]
const _: () =
    assert!(size_of::<BytesNode<64, 88>>() == 33 * 64 && offset_of!(BytesNode<64, 88>, heads) == 128);

/// What the upper bound is (Y3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bound {
    Infinite = 0,
    Inside = 1,
    Foreign = 2,
    Closed = 3,
}

/// Where the tail of a key is, its print, and how long the key is behind the prefix.
#[derive(Clone, Copy)]
struct Slot(u32);

impl Slot {
    fn new(offset: usize, print: u8, suffix_len: u8) -> Self {
        Self((offset as u32) << 16 | u32::from(print) << 8 | u32::from(suffix_len))
    }

    #[inline]
    fn offset(self) -> usize {
        (self.0 >> 16) as usize
    }

    #[inline]
    fn suffix_len(self) -> usize {
        usize::from(self.0 as u8)
    }

    #[inline]
    fn print(self) -> u8 {
        (self.0 >> 8) as u8
    }

    #[inline]
    fn is_blob(self) -> bool {
        self.0 as u8 == BLOB
    }

    /// Bytes of heap that this cell occupies.
    fn heap_bytes(self) -> usize {
        if self.is_blob() { HEAD } else { self.suffix_len().saturating_sub(HEAD) }
    }
}

/// The first 8 bytes of a suffix as a number that sorts like them.
#[inline(always)]
fn head_of(suffix: &[u8]) -> u64 {
    match suffix.first_chunk::<HEAD>() {
        Some(first) => u64::from_be_bytes(*first),
        None => le_uint(suffix).swap_bytes(),
    }
}

/// The 8 bytes behind those of the head, in the same way.
#[inline(always)]
fn second_of(suffix: &[u8]) -> u64 {
    suffix.get(HEAD..).map_or(0, head_of)
}

/// A byte that tells most tails apart.
#[inline]
fn print_of(suffix: &[u8]) -> u8 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let (words, rest) = suffix.get(HEAD..).unwrap_or_default().as_chunks::<HEAD>();
    let mixed = words.iter().fold(le_uint(rest), |mixed, word| {
        (mixed ^ u64::from_le_bytes(*word)).wrapping_mul(FACTOR).rotate_right(29)
    });
    (mixed.wrapping_mul(FACTOR) >> 56) as u8
}

/// What a block has of the head of its first entry.
#[inline(always)]
fn block_head(head: u64) -> u32 {
    (head >> 32) as u32
}

impl<const F: usize, const H: usize> BytesNode<F, H> {
    const HEAP_BYTES: usize = H * 8;
    /// Bytes of heap that any separator needs at most; less in a small node, which sees short keys only (Y5).
    const SEPARATOR_NEED_MAX: usize =
        if Self::HEAP_BYTES / 5 < INLINE_MAX - HEAD { Self::HEAP_BYTES / 5 } else { INLINE_MAX - HEAD };
    const BLOCK: usize = Heads::block_of(F);
    const BLOCKS: usize = F / Self::BLOCK;

    fn heap(&self) -> &RelaxedBytes {
        RelaxedBytes::new(&self.heap)
    }

    #[inline]
    fn prefix_len(&self) -> usize {
        (self.shape.load(Relaxed) >> 40) as usize & 0xFF
    }

    fn bound(&self) -> Bound {
        match (self.shape.load(Relaxed) >> 32) as u8 {
            0 => Bound::Infinite,
            1 => Bound::Inside,
            2 => Bound::Foreign,
            _ => Bound::Closed,
        }
    }

    fn high_slot(&self) -> Slot {
        Slot(self.shape.load(Relaxed) as u32)
    }

    /// Does a cell hold the upper bound?
    fn has_high(&self) -> bool {
        matches!(self.bound(), Bound::Inside | Bound::Foreign)
    }

    /// The slots of all cells: those of the entries, and that of the upper bound if there is one.
    fn cells(&self) -> impl Iterator<Item = Slot> {
        let high = self.has_high().then(|| self.high_slot());
        (0..self.header.count()).map(|i| self.slot(i)).chain(high)
    }

    fn set_shape(&self, slot: Slot, bound: Bound, prefix_len: usize) {
        let shape = u64::from(slot.0) | (bound as u64) << 32 | (prefix_len as u64) << 40;
        self.shape.store(self.shape.load(Relaxed) & TIES | shape, Relaxed);
    }

    /// Have entries of this node, which is above the leaves, had equal heads since it was packed? If not, no two have.
    #[inline(always)]
    fn has_ties(&self) -> bool {
        self.shape.load(Relaxed) & TIES != 0
    }

    fn set_ties(&self, ties: bool) {
        let shape = self.shape.load(Relaxed) & !TIES;
        self.shape.store(if ties { shape | TIES } else { shape }, Relaxed);
    }

    #[inline]
    fn slot(&self, i: usize) -> Slot {
        Slot(self.slots[i].load(Relaxed))
    }

    #[inline]
    fn head(&self, i: usize) -> u64 {
        self.heads[i].load(Relaxed)
    }

    fn heap_end(&self) -> usize {
        self.heap_use.load(Relaxed) as u32 as usize
    }

    fn heap_dead(&self) -> usize {
        (self.heap_use.load(Relaxed) >> 32) as usize
    }

    fn set_heap_use(&self, end: usize, dead: usize) {
        self.heap_use.store(end as u64 | (dead as u64) << 32, Relaxed);
    }

    /// The blob's key, from byte `skip` on.
    fn blob_suffix(&self, slot: Slot, skip: usize, seen: &Seen) -> Result<&[u8], Restart> {
        let address = self.blob_address(slot)?;
        seen.check()?;
        // SAFETY: the address was read from a living cell, as the check says; the caller's pin (or the latch) keeps
        // the blob until the caller is done.
        Ok(unsafe { blob::bytes(address) }.get(skip..).unwrap_or_default())
    }

    /// What may be an address, until it is checked: the cell is not aligned, so even one load may be torn.
    fn blob_address(&self, slot: Slot) -> Result<u64, Restart> {
        if slot.offset() + HEAD > Self::HEAP_BYTES {
            return Err(Restart);
        }
        Ok(self.heap().u64_at(slot.offset()))
    }

    /// Makes the heads of blocks those of their entries again, of which those before `from` have not changed (Y4).
    fn copy_block_heads(&self, from: usize) {
        self.blocks.set(from / Self::BLOCK, Self::BLOCKS, self.block_heads());
    }

    /// The heads of blocks (Y4).
    fn block_heads(&self) -> impl Fn(usize) -> u32 {
        let count = self.header.count();
        move |block| {
            let first = block * Self::BLOCK;
            if first < count { block_head(self.head(first)) } else { u32::MAX }
        }
    }

    fn append_prefix(&self, out: &mut Vec<u8>) -> Result<usize, Restart> {
        let len = self.prefix_len();
        if len > PREFIX_MAX {
            return Err(Restart);
        }
        RelaxedBytes::new(&self.prefix).append_to(0, len, out);
        Ok(len)
    }

    /// Appends head and tail of a cell, or the blob behind the prefix.
    fn append_suffix(
        &self,
        head: u64,
        slot: Slot,
        skip: usize,
        seen: &Seen,
        out: &mut Vec<u8>,
    ) -> Result<(), Restart> {
        if slot.is_blob() {
            out.extend_from_slice(self.blob_suffix(slot, skip, seen)?);
            return Ok(());
        }
        let len = slot.suffix_len();
        let tail = len.saturating_sub(HEAD);
        if slot.offset() + tail > Self::HEAP_BYTES {
            return Err(Restart);
        }
        let end = out.len() + len;
        // Whole words and then a cut: much faster than exact lengths, and scans consist of this.
        out.extend_from_slice(&head.to_be_bytes());
        for at in (0..tail).step_by(HEAD) {
            let word = self.heap().uint_at(slot.offset() + at, HEAD.min(tail - at));
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.truncate(end);
        Ok(())
    }

    fn append_key(&self, i: usize, seen: &Seen, out: &mut Vec<u8>) -> Result<(), Restart> {
        let skip = self.append_prefix(out)?;
        self.append_suffix(self.head(i), self.slot(i), skip, seen, out)
    }

    /// Bytes of heap that a key needs as a cell behind a prefix of `skip` bytes.
    fn heap_need(key_len: usize, skip: usize) -> usize {
        if key_len > INLINE_MAX { HEAD } else { key_len.saturating_sub(skip + HEAD) }
    }

    /// Bytes of heap that an upper bound behind a key of this length may need.
    fn bound_need(&self, key_len: usize) -> usize {
        // Between leaves one byte more than the key will do. Above them the bound is whatever separator comes next.
        let longest = if self.header.level() > 0 { Self::SEPARATOR_NEED_MAX } else { 0 };
        longest.max(INLINE_MAX.min(key_len + 1))
    }

    /// Writes the part of a key behind `skip` into the heap. An address says that the key is a blob already.
    fn write_cell(&self, key: &[u8], skip: usize, blob: Option<u64>) -> (u64, Slot) {
        let suffix = &key[skip..];
        let (end, dead) = (self.heap_end(), self.heap_dead());
        assert!(end + Self::heap_need(key.len(), skip) <= Self::HEAP_BYTES, "Y5: a heap overflows");
        let head = head_of(suffix);
        if key.len() > INLINE_MAX {
            self.heap().set_uint(end, HEAD, blob.unwrap_or_else(|| blob::store(key)));
            self.set_heap_use(end + HEAD, dead);
            return (head, Slot::new(end, print_of(suffix), BLOB));
        }
        let tail = suffix.get(HEAD..).unwrap_or_default();
        self.heap().write(end, tail);
        self.set_heap_use(end + tail.len(), dead);
        (head, Slot::new(end, print_of(suffix), suffix.len() as u8))
    }

    fn drop_cell(&self, slot: Slot, pin: &Pin) {
        self.set_heap_use(self.heap_end(), self.heap_dead() + slot.heap_bytes());
        if slot.is_blob() {
            let address = self.blob_address(slot).expect("a cell of our own");
            // SAFETY: this cell owned the blob (O2 in `blob.rs`) and is dropped now.
            unsafe { pin.retire_blob(address) };
        }
    }

    fn clear_from(&self, count: usize) {
        let unused = count..self.header.count();
        self.heads[unused.clone()].iter().for_each(|head| head.store(u64::MAX, Relaxed));
        if let Some(seconds) = self.seconds() {
            seconds.clear(unused);
        }
        self.header.set_count(count);
    }

    /// Says so if an entry, of so many, has the head of one beside it (Y7).
    fn note_tie(&self, i: usize, count: usize) {
        let is_tied = |other: usize| other < count && self.head(other) == self.head(i);
        if is_tied(i + 1) || i.checked_sub(1).is_some_and(is_tied) {
            self.set_ties(true);
        }
    }

    fn is_unbounded_entry(&self, i: usize) -> bool {
        i == 0 && self.header.level() > 0
    }
}

impl<const F: usize, const H: usize> Pooled for BytesNode<F, H> {
    #[cfg(any(shuttle, test))]
    fn vacant() -> Self {
        Self {
            header: Header::vacant(),
            shape: AtomicU64::new(0),
            heap_use: AtomicU64::new(0),
            blocks: Heads::vacant(),
            high_head: AtomicU64::new(0),
            prefix: std::array::from_fn(|_| AtomicU64::new(0)),
            heads: std::array::from_fn(|_| AtomicU64::new(u64::MAX)),
            slots: std::array::from_fn(|_| AtomicU32::new(0)),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
            heap: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    #[cfg(shuttle)]
    fn pooled(&self) -> &std::sync::atomic::AtomicBool {
        &self.header.pooled
    }
}

impl<const F: usize, const H: usize> Node for BytesNode<F, H> {
    type Key = [u8];
    type Owned = Vec<u8>;
    type Batch = BytesBatch;

    const HAS_TAILS: bool = true;

    #[inline]
    fn bytes_outside_of(key: &[u8]) -> usize {
        if key.len() > INLINE_MAX { key.len() } else { 0 }
    }

    fn take(level: u8) -> NonNull<Self> {
        // Y5: prefix, bound and four keys; two keys for the models' small nodes, which see short keys only.
        const { assert!(F >= 4 && F.is_power_of_two() && H * 8 <= 0xFFFF) };
        const { assert!(cfg!(shuttle) || H * 8 >= 5 * (INLINE_MAX - HEAD), "a heap for four keys and a bound") };
        if level == 0 { pool::take() } else { pool::take::<BytesInner<F, H>>().cast() }
    }

    /// # Safety
    /// As the trait's.
    unsafe fn give_back(node: NonNull<Self>) {
        // SAFETY: as the caller says; a node keeps its level as long as it lives.
        unsafe {
            if node.as_ref().header.level() == 0 {
                pool::give_back(node);
            } else {
                pool::give_back(node.cast::<BytesInner<F, H>>());
            }
        }
    }

    fn bytes(level: u8) -> usize {
        if level == 0 { size_of::<Self>() } else { size_of::<BytesInner<F, H>>() }
    }

    #[inline(always)]
    fn header(&self) -> &Header {
        &self.header
    }

    fn least() -> Vec<u8> {
        Vec::new()
    }

    fn own(key: &[u8]) -> Vec<u8> {
        key.to_vec()
    }

    fn reset(&self, level: u8) {
        self.header.reset(level);
        self.set_shape(Slot(0), Bound::Infinite, 0);
        self.set_ties(false);
        self.set_heap_use(0, 0);
        self.heads.iter().for_each(|head| head.store(u64::MAX, Relaxed));
        if let Some(seconds) = self.seconds() {
            seconds.clear(0..F);
        }
        self.blocks.reset();
    }

    #[inline(always)]
    fn prefetch(node: *const Self) {
        // All of it. Where word and tail are, only slots tell, and by then there would be nothing else to wait for.
        prefetch_lines(node, size_of::<Self>());
    }

    #[inline(always)]
    fn prefetch_inner(node: *const Self) {
        // Separators seldom differ in their tails only, so slots are not read; but words are, whatever is found.
        prefetch_lines(node, offset_of!(Self, slots));
        prefetch_lines(node.wrapping_byte_add(offset_of!(Self, words)), F * size_of::<u64>());
    }

    #[inline(always)]
    fn prefetch_first(node: *const Self) {
        prefetch_lines(node, offset_of!(Self, heads));
    }

    #[inline(always)]
    fn aim_at_child(&self, key: &[u8]) -> u64 {
        let (first, _) = self.probable_block(key).unwrap_or_default();
        match self.seconds() {
            Some(seconds) if self.has_ties() => {
                self.prefetch_all();
                seconds.prefetch();
            }
            _ => {
                Self::prefetch_block(&self.heads, first);
                Self::prefetch_block(&self.words, first);
            }
        }
        0 // the search begins anew, in lines that are near by then
    }

    #[inline(always)]
    fn aim_at_value(&self, key: &[u8]) -> u64 {
        let (first, head) = self.probable_block(key).unwrap_or_default();
        if self.begins_with(first, head) {
            prefetch_lines(self, offset_of!(Self, words));
        } else {
            Self::prefetch_block(&self.heads, first);
            Self::prefetch_block(&self.slots, first);
        }
        Self::prefetch_block(&self.words, first);
        0
    }

    #[inline(always)]
    fn prefetch_tail(&self, key: &[u8]) {
        let Some((first, head)) = self.probable_block(key) else { return };
        let rank = first + heads::rank_in_block(&self.heads, Self::BLOCK, first, head);
        let Some(entry) = self.candidate(rank, head, key.get(self.prefix_len()..).unwrap_or_default()) else {
            return;
        };
        let tail = self.slot(entry).offset().min(Self::HEAP_BYTES - 1);
        prefetch_lines(&raw const self.heap[tail / 8], 1);
    }

    #[inline(always)]
    fn value_of(&self, key: &[u8], seen: &Seen) -> Result<Option<Option<u64>>, Restart> {
        let relation = self.relation(key)?;
        if let Relation::Inside(suffix) = relation
            && let Some(entry) = self.entry_of(suffix, seen)?
        {
            return Ok(Some(Some(self.word(entry))));
        }
        // What is not here may be further right.
        Ok(if self.is_beyond(key, &relation, Bias::AtMost, seen)? { None } else { Some(None) })
    }

    #[inline(always)]
    fn place(&self, key: &[u8], bias: Bias, seen: &Seen) -> Result<Place, Restart> {
        let relation = self.relation(key)?;
        let count = self.header.count().min(F);
        let (rank, exact) = match relation {
            Relation::Less => (0, false),
            Relation::Inside(suffix) => self.rank(suffix, bias, seen)?,
            Relation::Greater => (count, false),
        };
        // An entry above the key is below the upper bound, and so is the key: seldom is there any need to look.
        if rank == count && self.is_beyond(key, &relation, bias, seen)? {
            return Ok(Place::Beyond);
        }
        Ok(Place::Rank(rank, exact))
    }

    #[inline(always)]
    fn word(&self, i: usize) -> u64 {
        self.words[i].load(Relaxed)
    }

    fn key(&self, i: usize, seen: &Seen) -> Result<Vec<u8>, Restart> {
        let mut key = Vec::new();
        self.append_key(i, seen, &mut key)?;
        Ok(key)
    }

    fn high(&self, seen: &Seen) -> Result<Vec<u8>, Restart> {
        let mut key = Vec::new();
        self.append_high(seen, &mut key)?;
        Ok(key)
    }

    fn copy(&self, from: usize, to: usize, seen: &Seen, out: &mut BytesBatch) -> Result<(), Restart> {
        let mut prefix = [0; PREFIX_MAX];
        let skip = self.prefix_len();
        if skip > PREFIX_MAX {
            return Err(Restart);
        }
        RelaxedBytes::new(&self.prefix).read(0, &mut prefix[..skip]);
        out.bytes.reserve(Self::HEAP_BYTES + F * (skip + HEAD));
        out.ends.reserve(F);
        out.words.reserve(F);
        for i in from..to.min(F) {
            let start = out.bytes.len();
            for words in prefix[..skip.next_multiple_of(HEAD)].as_chunks::<HEAD>().0 {
                out.bytes.extend_from_slice(words);
            }
            out.bytes.truncate(start + skip);
            self.append_suffix(self.head(i), self.slot(i), skip, seen, &mut out.bytes)?;
            out.ends.push(out.bytes.len());
            out.words.push(self.word(i));
        }
        Ok(())
    }

    fn make_room(&self, key: &[u8], bound_too: bool) -> bool {
        if self.header.count() == F {
            return false;
        }
        let skip = self.prefix_len();
        let inside = matches!(self.relation(key), Ok(Relation::Inside(_)));
        let free = Self::HEAP_BYTES - self.heap_end();
        let spare = if bound_too { self.bound_need(key.len()) } else { 0 };
        (inside && Self::heap_need(key.len(), skip) + spare <= free) || self.repack_for(key, spare)
    }

    fn is_filled(&self, fill: f64) -> bool {
        let heap = (self.heap_end() - self.heap_dead()) as f64 / Self::HEAP_BYTES as f64;
        heap.max(self.header.count() as f64 / F as f64) >= fill
    }

    fn insert_at(&self, i: usize, key: &[u8], word: u64) {
        let count = self.header.count();
        assert!(i <= count && count < F, "an insert at rank {i} of {count} entries");
        let (head, slot) = if self.is_unbounded_entry(i) {
            (0, Slot(0))
        } else {
            self.write_cell(key, self.prefix_len(), None)
        };
        u64::shift_up(&self.heads, i..count);
        u32::shift_up(&self.slots, i..count);
        u64::shift_up(&self.words, i..count);
        self.heads[i].store(head, Relaxed);
        self.slots[i].store(slot.0, Relaxed);
        self.set_word(i, word);
        if let Some(seconds) = self.seconds() {
            let suffix = if self.is_unbounded_entry(i) { &[] } else { &key[self.prefix_len()..] };
            seconds.insert(i, count, suffix);
            self.note_tie(i, count + 1);
        }
        self.header.set_count(count + 1);
        self.copy_block_heads(i);
    }

    fn set_word(&self, i: usize, word: u64) {
        self.words[i].store(word, Relaxed);
    }

    fn remove_at(&self, i: usize, pin: &Pin) {
        let count = self.header.count();
        assert!(i < count && count <= F, "a removal at {i} of {count} entries");
        self.drop_cell(self.slot(i), pin);
        u64::shift_down(&self.heads, i + 1..count);
        u32::shift_down(&self.slots, i + 1..count);
        u64::shift_down(&self.words, i + 1..count);
        if let Some(seconds) = self.seconds() {
            seconds.remove(i, count);
        }
        self.clear_from(count - 1);
        self.copy_block_heads(i);
    }

    fn split_to(&self, right: &Self, appending: bool) -> Vec<u8> {
        let mut arena = Vec::new();
        let mut all = self.unpack(&mut arena);
        let count = all.entries.len();
        assert!(count > 1, "a split of {count} entries");
        let at = self.split_point(&all, appending);
        let mut upper = all.entries.split_off(at);
        let separator = self.separator(all.entries[at - 1].key, upper[0].key);
        // Above the leaves the separator leaves this level; as our bound it goes on, with its blob.
        let blob = if self.header.level() > 0 { upper[0].blob.take() } else { None };
        let bound = Entry { key: &separator, blob, word: 0 };
        let skip = right.best_prefix(&upper, None);
        right.pack(&upper, all.high.as_ref(), skip);
        let skip = self.best_prefix(&all.entries, None);
        self.pack(&all.entries, Some(&bound), skip);
        separator
    }

    /// Between leaves a short key does; above them the separator is an entry that moves up.
    fn separator(&self, left: &[u8], right: &[u8]) -> Vec<u8> {
        let len = if self.header.level() > 0 { right.len() } else { common_prefix(left, right) + 1 };
        right[..len].to_vec()
    }

    fn set_high(&self, high: &[u8]) {
        assert_eq!(self.bound(), Bound::Infinite, "a bound is set once");
        self.write_high(high, None);
    }

    fn close(&self, pin: &Pin) {
        self.cells().for_each(|slot| self.drop_cell(slot, pin));
        self.clear_from(0);
        self.blocks.reset();
        self.set_heap_use(0, 0);
        self.set_shape(Slot(0), Bound::Closed, 0);
    }

    fn drop_contents(&self) {
        for address in self.cells().filter_map(|slot| self.blob_of(slot)) {
            // SAFETY: the cell owned the blob, and nobody else is left.
            unsafe { blob::free(address) };
        }
    }

    fn check(&self) -> Result<(), String> {
        self.check_content()
    }

    fn bytes_outside(&self) -> u64 {
        let mut arena = Vec::new();
        let all = self.unpack(&mut arena);
        let long = |e: &Entry| if e.blob.is_some() { (e.key.len() + blob::LENGTH_BYTES) as u64 } else { 0 };
        all.entries.iter().map(long).sum::<u64>() + all.high.as_ref().map_or(0, long)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// What a cell holds by then may be no address, or one of a key that was freed.
    #[test]
    fn no_address_is_followed_for_a_version_that_is_gone() {
        let node = BytesNode::<64, 88>::vacant();
        node.reset(0);
        let long = [b'x'; INLINE_MAX + 1];
        node.insert_at(0, &long, 1);
        let seen = Seen::Optimistic(node.header.latch.optimistic());
        assert!(node.key(0, &seen).is_ok_and(|key| key == long));
        drop(node.header.latch.exclusive());
        assert!(node.key(0, &seen).is_err());
        assert!(node.place(&long, Bias::AtMost, &seen).is_err());
        assert!(node.value_of(&long, &seen).is_err());
        node.drop_contents();
    }
}
