//! Taking a node apart and putting it together: what splits, new prefixes and compaction need.
//!
//! All of it happens under the latch. A node is copied out whole, and written anew, prefix first.

use super::{Bound, BytesNode, HEAD, PREFIX_MAX, Relation, Slot};
use crate::node::blob::INLINE_MAX;
use crate::node::{Node, Seen};
use foreshore_base::sync::Ordering::Relaxed;
use foreshore_base::{RelaxedBytes, Restart};

/// All that is in a node, outside of it.
pub(super) struct Unpacked<'a> {
    pub entries: Vec<Entry<'a>>,
    pub high: Option<Entry<'a>>,
}

/// A key with its word, and its blob if it has one.
pub(super) struct Entry<'a> {
    pub key: &'a [u8],
    pub blob: Option<u64>,
    pub word: u64,
}

/// By how many bytes a separator must be shorter than the middle one to be preferred.
const SHORTER_MIN: usize = 4;

pub(super) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

impl<const F: usize, const H: usize> BytesNode<F, H> {
    /// Copies everything out. The keys go to `arena`, which is empty.
    pub(super) fn unpack<'a>(&self, arena: &'a mut Vec<u8>) -> Unpacked<'a> {
        const LATCHED: &str = "reading under the latch never restarts";
        let count = self.header.count();
        let has_high = self.has_high();
        arena.reserve(Self::HEAP_BYTES + (count + 1) * (self.prefix_len() + HEAD));
        let mut ends = Vec::with_capacity(count + 1);
        for i in 0..count {
            self.append_key(i, &Seen::Latched, arena).expect(LATCHED);
            ends.push(arena.len());
        }
        if has_high {
            self.append_high(&Seen::Latched, arena).expect(LATCHED);
        }
        let start_of = |i: usize| if i == 0 { 0 } else { ends[i - 1] };
        let arena: &[u8] = arena;
        let entry = |i: usize| Entry {
            key: &arena[start_of(i)..ends[i]],
            blob: self.blob_of(self.slot(i)),
            word: self.word(i),
        };
        let high = Entry { key: &arena[start_of(count)..], blob: self.blob_of(self.high_slot()), word: 0 };
        Unpacked { entries: (0..count).map(entry).collect(), high: has_high.then_some(high) }
    }

    pub(super) fn blob_of(&self, slot: Slot) -> Option<u64> {
        slot.is_blob().then(|| self.blob_address(slot).expect("latched"))
    }

    pub(super) fn append_high(&self, seen: &Seen, out: &mut Vec<u8>) -> Result<(), Restart> {
        let skip = if self.bound() == Bound::Inside { self.append_prefix(out)? } else { 0 };
        self.append_suffix(self.high_head.load(Relaxed), self.high_slot(), skip, seen, out)
    }

    /// The length of the prefix that these keys should have, `also` being among them soon.
    pub(super) fn best_prefix(&self, entries: &[Entry], also: Option<&[u8]>) -> usize {
        let real = &entries[usize::from(self.header.level() > 0).min(entries.len())..];
        let (Some(first), Some(last)) = (real.first(), real.last()) else { return 0 };
        let among = common_prefix(first.key, last.key);
        let len = match also {
            Some(key) => common_prefix(first.key, key).min(among),
            None if real.len() < 2 => 0,
            None => among,
        };
        len.min(PREFIX_MAX)
    }

    /// Bytes of heap that these entries need behind a prefix of `skip` bytes.
    fn heap_needs(&self, entries: &[Entry], skip: usize) -> usize {
        let skipped = usize::from(self.header.level() > 0).min(entries.len());
        entries[skipped..].iter().map(|e| Self::heap_need(e.key.len(), skip)).sum()
    }

    /// Fills the node with these entries, behind a prefix of `skip` bytes.
    pub(super) fn pack(&self, entries: &[Entry], high: Option<&Entry>, skip: usize) {
        assert!(entries.len() <= F, "a node of {F} entries overflows");
        self.clear_from(0);
        self.set_heap_use(0, 0);
        let prefix = entries.last().map_or(&[][..], |e| &e.key[..skip]);
        RelaxedBytes::new(&self.prefix).write(0, prefix);
        self.set_shape(Slot(0), Bound::Infinite, skip);
        self.set_ties(false);
        for (i, entry) in entries.iter().enumerate() {
            let (head, slot) = if self.is_unbounded_entry(i) {
                (0, Slot(0))
            } else {
                self.write_cell(entry.key, skip, entry.blob)
            };
            self.heads[i].store(head, Relaxed);
            self.slots[i].store(slot.0, Relaxed);
            self.set_word(i, entry.word);
            if let Some(seconds) = self.seconds() {
                seconds.set(i, if self.is_unbounded_entry(i) { &[] } else { &entry.key[skip..] });
                self.note_tie(i, i + 1);
            }
        }
        self.header.set_count(entries.len());
        self.copy_block_heads(0);
        if let Some(high) = high {
            self.write_high(high.key, high.blob);
        }
    }

    /// Stores the upper bound, for which there is room.
    pub(super) fn write_high(&self, key: &[u8], blob: Option<u64>) {
        let prefix_len = self.prefix_len();
        let inside = matches!(self.relation(key), Ok(Relation::Inside(_)));
        let (bound, skip) = if inside { (Bound::Inside, prefix_len) } else { (Bound::Foreign, 0) };
        let (head, slot) = self.write_cell(key, skip, blob);
        self.high_head.store(head, Relaxed);
        self.set_shape(slot, bound, prefix_len);
    }

    /// Packs the node again so that `key` and `spare` bytes fit in too; says whether that helps.
    pub(super) fn repack_for(&self, key: &[u8], spare: usize) -> bool {
        let mut arena = Vec::new();
        let all = self.unpack(&mut arena);
        let skip = self.best_prefix(&all.entries, Some(key));
        let high = all.high.as_ref().map_or(0, |h| Self::heap_need(h.key.len(), 0));
        let need = self.heap_needs(&all.entries, skip) + high + Self::heap_need(key.len(), skip) + spare;
        let fits = need <= Self::HEAP_BYTES;
        if fits {
            self.pack(&all.entries, all.high.as_ref(), skip);
        }
        fits
    }

    /// The number of entries that stay in a split: all but one, about half of them, or half of their bytes, whichever comes
    /// first and fits (the last always does, by Y5).
    pub(super) fn split_point(&self, all: &Unpacked, appending: bool) -> usize {
        let count = all.entries.len();
        let by_count = [if appending { count - 1 } else { self.shortest_separator(&all.entries) }, count / 2];
        let fits = |&at: &usize| {
            let (lower, upper) = all.entries.split_at(at);
            let bound = self.separator(lower[at - 1].key, upper[0].key).len();
            self.heap_needs(lower, self.best_prefix(lower, None)) + Self::heap_need(bound, 0)
                <= Self::HEAP_BYTES
                && self.heap_needs(upper, self.best_prefix(upper, None)) + INLINE_MAX <= Self::HEAP_BYTES
        };
        by_count.into_iter().find(fits).unwrap_or_else(|| self.halfway(&all.entries))
    }

    /// Where near the middle the separator is shortest, as the first key of a directory's is: so nodes above have more room, and
    /// those on this level have longer prefixes, behind which heads tell more keys apart.
    fn shortest_separator(&self, entries: &[Entry]) -> usize {
        let (middle, reach) = (entries.len() / 2, entries.len() / 8);
        let length = |&at: &usize| {
            let (left, right) = (entries[at - 1].key, entries[at].key);
            let length = if self.header.level() > 0 { right.len() } else { common_prefix(left, right) };
            (length, at.abs_diff(middle))
        };
        let shortest = (middle - reach..=middle + reach).min_by_key(length).unwrap_or(middle);
        // Halves of unequal size cost memory, so a byte or two are not worth it.
        if length(&shortest).0 + SHORTER_MIN > length(&middle).0 { middle } else { shortest }
    }

    /// Where the entries before occupy less than half of the heap, and those behind at most one more than half.
    fn halfway(&self, entries: &[Entry]) -> usize {
        let total = self.heap_needs(entries, self.prefix_len());
        let at =
            (1..entries.len()).rfind(|&at| self.heap_needs(&entries[..at], self.prefix_len()) * 2 <= total);
        at.unwrap_or(1)
    }
}
