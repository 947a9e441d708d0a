//! What the directory has promised: a place for an entry of every page that there is.
//!
//! Why: on a full disk the pages that exist can be changed and cleaned for ever, and clean frames are what reads need. So the
//! directory takes the space for that before it is needed, and whoever wants one page more than there is space for is refused.
//!
//! Invariant:
//! - R1: what is needed is at most what is reserved. Either of two files, the directory and the next one in the making, then has room
//!   for a base of all pages, and behind it for a round of the cleaner that writes them all: if a batch does not fit the one file, it
//!   fits the other, once that is the directory. The former one is then the next one in the making, so nobody else gets its space.

use super::directory_entry::entry_bytes;
use crate::leaf::KEY_BYTES_MAX;
use foreshore_base::sync::{AtomicU64, Ordering::*};

/// A page whose lowest key is not known yet.
const UNKNOWN: u64 = entry_bytes(KEY_BYTES_MAX);

/// Beside entries of pages: what ends a base, redo LSNs, and the pages that a round buries.
const FIXED_BYTES: u64 = 64 << 10;

/// So much is reserved beyond what is needed, and a quarter of that, where the disk has it.
const AHEAD_BYTES: u64 = 96 << 10;

/// What a batch does to the pages that have an entry.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Effect {
    /// Bytes of the entries of pages that had none.
    pub first: u64,
    /// Bytes of the entries of pages that are no more …
    pub gone: u64,
    /// … but there are some whose entries have an unknown length.
    pub is_more_gone: bool,
}

/// Bytes of entries: how many are needed, and for how many there is space (R1).
#[derive(Default)]
pub(super) struct Promises {
    /// Of pages that the directory does not know yet. (A page may change its lowest key while it is redone: these few bytes are
    /// not followed.)
    unwritten: AtomicU64,
    /// Of the pages in the directory; perhaps more, until it is rewritten.
    written: AtomicU64,
    reserved: AtomicU64,
}

impl Promises {
    /// One page more, which is not known yet; `false` if space must be reserved for it.
    pub fn add(&self) -> bool {
        self.unwritten.fetch_add(UNKNOWN, Relaxed);
        self.is_kept()
    }

    /// It will not be.
    pub fn give_back(&self) {
        self.unwritten.fetch_sub(UNKNOWN, Relaxed);
    }

    /// It is there, and has a lowest key of `key_len` bytes.
    pub fn settle(&self, key_len: usize) {
        self.unwritten.fetch_sub(UNKNOWN - entry_bytes(key_len), Relaxed);
    }

    /// It is no more, and was never written.
    pub fn forget(&self, key_len: usize) {
        self.unwritten.fetch_sub(entry_bytes(key_len), Relaxed);
    }

    /// A batch is in the directory. One at a time.
    pub fn note(&self, effect: Effect) {
        let written = self.written.load(Relaxed) + effect.first;
        self.written.store(written.saturating_sub(effect.gone), Relaxed);
        // ORDERING: Release, for `needed`.
        self.unwritten.fetch_sub(effect.first, Release);
    }

    /// The directory has been read, or rewritten: it has these bytes of entries.
    pub fn set_written(&self, bytes: u64) {
        self.written.store(bytes, Relaxed);
    }

    /// Either file has room for so many bytes.
    pub fn set_reserved(&self, file_bytes: u64) {
        self.reserved.store(file_bytes.saturating_sub(FIXED_BYTES) / 2, Relaxed);
    }

    /// R1.
    pub fn is_kept(&self) -> bool {
        self.needed() <= self.reserved.load(Relaxed)
    }

    /// Is it time to reserve more, so that nobody will have to wait for it?
    pub fn is_low(&self) -> bool {
        let needed = self.needed();
        needed + needed / 16 + AHEAD_BYTES / 2 > self.reserved.load(Relaxed)
    }

    /// Would a rewrite find the space that it needs?
    pub fn allow_rewrite(&self) -> bool {
        self.written.load(Relaxed) <= self.reserved.load(Relaxed)
    }

    /// How long either file must be.
    pub fn least_file_bytes(&self) -> u64 {
        file_bytes(self.needed())
    }

    /// How long it is made where the disk has space.
    pub fn ample_file_bytes(&self) -> u64 {
        let needed = self.needed();
        file_bytes(needed + needed / 4 + AHEAD_BYTES)
    }

    fn needed(&self) -> u64 {
        // ORDERING: Acquire, and in this order: who no longer finds a page among the unwritten ones finds it among the written ones.
        // (The other way round it may count twice, which only asks for more space.)
        let unwritten = self.unwritten.load(Acquire) as i64;
        self.written.load(Relaxed).saturating_add_signed(unwritten.max(0))
    }
}

/// See R1.
fn file_bytes(entries: u64) -> u64 {
    FIXED_BYTES + 2 * entries
}
