//! The log buffer: a ring of shared words that is also the record of which records are complete.
//!
//! Why: log inserts must not meet the flush (Shore-MT §6.2.2), and a writer should hold nothing but its place while it
//! copies (§6.2.4). Here the place is a range of LSNs from one `fetch_add`; completion is the record's own first word.
//! Differs from Shore-MT: no queue of inserters; the first words of the records are the queue.
//!
//! Byte `lsn` lies at `lsn % bytes`. A record may wrap. Everything outside `[flushed, completed)` and the records being
//! copied is zero, and a record's word 0 is never zero, so a zero word 0 means "not complete yet".
//!
//! Invariants:
//! - G1: `flushed ≤ completed`; both only grow, and both are ends of records.
//! - G2: nothing is written at `lsn` or above unless `lsn + 8 ≤ flushed + bytes`. The word at `completed` is therefore
//!   never one of the lap before: when `completed` came to be `c`, the record that ends at `c` had been admitted, so
//!   `c + 8 ≤ flushed + bytes`, and what lay at `c` a lap earlier had been zeroed. Without the 8 a walker could take
//!   the stale word for a record.
//! - G3: who sees `completed ≥ end` sees every byte of the records below `end`.
//!
//! No ABA: `completed` moves from `c` by a CAS that expects `c`. It only grows, so if the CAS succeeds it was `c` all
//! along, nothing above `c` was flushed or reused meanwhile, and the words walked over are those of this lap.
//!
//! This file stands alone (only `foreshore_base`), so that loom can check it without the engine.

use crossbeam_utils::CachePadded;
use foreshore_base::bytes::le_uint;
use foreshore_base::prefetch::{prefetch_lines, prefetch_lines_to_write};
use foreshore_base::sync::AtomicU64;
use foreshore_base::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use foreshore_base::{Lsn, seeded_bug};

const WORD: u64 = 8;
const LINE: u64 = 64;

/// A core has few more fetches under way than these bytes have lines; those behind them the processor foresees.
const PREFETCHED_MAX: u64 = 512;

/// The ring over memory `M`, whose length in words is a power of two.
pub(crate) struct Ring<M> {
    memory: M,
    completed: CachePadded<AtomicU64>,
    flushed: CachePadded<AtomicU64>,
}

impl<M: AsRef<[AtomicU64]>> Ring<M> {
    /// A ring that begins at `start`. The memory must be zero.
    pub fn new(memory: M, start: Lsn) -> Self {
        assert!(memory.as_ref().len().is_power_of_two());
        Self {
            memory,
            completed: CachePadded::new(AtomicU64::new(start.0)),
            flushed: CachePadded::new(AtomicU64::new(start.0)),
        }
    }

    /// Everything below this is in the segments, and its place in the ring zero.
    #[inline]
    pub fn flushed(&self) -> Lsn {
        // ORDERING: pairs with `release`: who is admitted by it writes over zeros.
        Lsn(self.flushed.load(Acquire))
    }

    /// May the record that ends at `end` be written yet (G2)?
    #[inline]
    pub fn admits(&self, end: Lsn) -> bool {
        self.flushed() >= self.admitted_from(end)
    }

    /// How far the ring must be flushed before the record that ends at `end` may be written.
    pub fn admitted_from(&self, end: Lsn) -> Lsn {
        let ahead = if seeded_bug("log_ring_gap") { end.0 } else { end.0 + WORD };
        Lsn(ahead.saturating_sub(self.bytes()))
    }

    /// Fetches the first lines of `[at, at + bytes)` for who is going to write there: they were last written by a flusher.
    #[inline]
    pub fn prefetch(&self, at: Lsn, bytes: u64) {
        let in_line = at.0 % LINE;
        let line = word(self.memory.as_ref(), Lsn(at.0 - in_line));
        prefetch_lines_to_write(line, (in_line + bytes).min(PREFETCHED_MAX) as usize);
    }

    /// Writes `body` from `at` on; a last word is filled with zeros. The caller owns the place and was admitted.
    #[inline]
    pub fn write(&self, at: Lsn, body: &[u8]) {
        let words = self.memory.as_ref();
        let (whole, rest) = body.as_chunks::<{ WORD as usize }>();
        let (first, second) = spans(words, at, whole.as_flattened().len());
        let (before_wrap, behind) = whole.split_at(first.len());
        store(first, before_wrap);
        store(second, behind);
        if !rest.is_empty() {
            word(words, at + whole.as_flattened().len() as u64).store(le_uint(rest), Relaxed);
        }
    }

    /// Stores word 0 of the record at `at`: it is complete.
    #[inline]
    pub fn complete(&self, at: Lsn, word0: u64) {
        debug_assert_ne!(word0 as u32, 0, "a record has a length");
        // ORDERING: Release, so whoever finds word 0 finds the body (G3).
        let order = if seeded_bug("log_complete_order") { Relaxed } else { Release };
        self.place(at).store(word0, order);
    }

    /// Walks over complete records until `target`, and returns how far all records are complete.
    #[inline]
    pub fn advance(&self, target: Lsn) -> Lsn {
        // ORDERING: Acquire here and on word 0, AcqRel on the CAS: each walker hands on what the ones before it saw.
        let from = self.load_completed();
        let limit = target.0.min(from.saturating_add(self.bytes()));
        let (words, mut to) = (self.memory.as_ref(), from);
        // Other cores have written the records, and each tells where the next one begins: their lines come at the same time.
        prefetch_lines(word(words, Lsn(from)), limit.saturating_sub(from).min(PREFETCHED_MAX) as usize);
        while to < limit {
            match word(words, Lsn(to)).load(Acquire) as u32 {
                0 => break,
                len => to += u64::from(len).next_multiple_of(WORD),
            }
        }
        if to == from {
            return Lsn(from);
        }
        match self.completed.compare_exchange(from, to, AcqRel, Acquire) {
            Ok(_) => Lsn(to),
            Err(further) => Lsn(further),
        }
    }

    #[cfg(not(loom))]
    #[inline]
    fn load_completed(&self) -> u64 {
        self.completed.load(Acquire)
    }

    /// Loom would miss interleavings between a plain load and the CAS on the same word.
    #[cfg(loom)]
    fn load_completed(&self) -> u64 {
        self.completed.fetch_add(0, Acquire)
    }

    /// Word 0 of the record at `at`, if there is one there; of a complete one, any word.
    pub fn word(&self, at: Lsn) -> u64 {
        // ORDERING: pairs with `complete`: who finds word 0 finds the body.
        self.place(at).load(Acquire)
    }

    /// Copies whole words from `at` on into `out`.
    pub fn copy_out(&self, at: Lsn, out: &mut [u8]) {
        let (first, second) = self.spans(at, out.len());
        let (before_wrap, behind) = out.split_at_mut(first.len() * WORD as usize);
        load(first, before_wrap);
        load(second, behind);
    }

    /// Gives the place of everything below `to` back: it is in the segments. One caller at a time, `to` a record's
    /// beginning and not above `completed`.
    pub fn release(&self, to: Lsn) {
        let from = self.flushed();
        debug_assert!(from <= to && to.0 <= self.completed.load(Relaxed), "G1");
        if !seeded_bug("log_ring_not_zeroed") {
            self.zero(from, (to - from) as usize);
        }
        // ORDERING: Release: the zeros come before what the next owner of the place writes.
        self.flushed.store(to.0, Release);
    }

    /// Zeroes `bytes` bytes (whole words) from `at` on.
    fn zero(&self, at: Lsn, bytes: usize) {
        let (first, second) = self.spans(at, bytes);
        first.iter().for_each(|word| word.store(0, Relaxed));
        second.iter().for_each(|word| word.store(0, Relaxed));
    }

    fn spans(&self, at: Lsn, bytes: usize) -> (&[AtomicU64], &[AtomicU64]) {
        spans(self.memory.as_ref(), at, bytes)
    }

    #[inline]
    fn place(&self, at: Lsn) -> &AtomicU64 {
        word(self.memory.as_ref(), at)
    }

    #[inline]
    fn bytes(&self) -> u64 {
        self.memory.as_ref().len() as u64 * WORD
    }
}

/// The words of `[at, at + bytes)`: up to the end of the memory, and from its beginning. A function over the
/// words, like `word`, for callers that have fetched them once: `memory.as_ref()` is a call of its own.
#[inline]
fn spans(words: &[AtomicU64], at: Lsn, bytes: usize) -> (&[AtomicU64], &[AtomicU64]) {
    let (first, count) = (number(words, at), bytes / WORD as usize);
    let before_wrap = count.min(words.len() - first);
    (&words[first..first + before_wrap], &words[..count - before_wrap])
}

/// The word at `at`.
#[inline]
fn word(words: &[AtomicU64], at: Lsn) -> &AtomicU64 {
    &words[number(words, at)]
}

#[inline]
fn number(words: &[AtomicU64], at: Lsn) -> usize {
    (at.0 / WORD) as usize & (words.len() - 1)
}

/// To be called for either span: two plain loops, one of them nearly always empty, take a third of the instructions of one loop over
/// both chained. So it is in `load` and `zero`.
#[inline]
fn store(words: &[AtomicU64], bytes: &[[u8; WORD as usize]]) {
    for (word, bytes) in words.iter().zip(bytes) {
        word.store(u64::from_le_bytes(*bytes), Relaxed);
    }
}

#[inline]
fn load(words: &[AtomicU64], bytes: &mut [u8]) {
    for (word, bytes) in words.iter().zip(bytes.as_chunks_mut().0) {
        *bytes = word.load(Relaxed).to_le_bytes();
    }
}
