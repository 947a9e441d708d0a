//! One simulated file: what programs see, what the disk holds, and the changes between the two.
//!
//! Invariants:
//! - S1: a sector survives whole, in the content of one of the writes since the last sync, or in its synced content;
//!   sectors are independent of each other, and of the order of writes.
//! - S2: changes of the length survive in order, up to some point; growth may end short of it. Bytes that did not
//!   survive inside the length are zero or old, never foreign.
//! - S3: a failed sync settles everything: what it did not bring to the disk never gets there, though programs still
//!   see it, and the next sync succeeds (the trap of I2 in `lib.rs`).
//! - S4: a failed sync is told once to every handle that was open then, by its next sync, and to no other (Linux, since
//!   4.13). So who writes and syncs through a handle of his own is never told that bytes are durable which another's failed
//!   sync has lost.

use super::fate::{Fate, Rng};
use crate::SharedMemory;
use crate::mem::Words;
use crate::pages::{PAGE_BYTES, Page, Pages, SECTOR_BYTES, pages_of};
use foreshore_base::seeded_bug;
use foreshore_base::sync::Ordering::Relaxed;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

pub(crate) type InodeId = u64;

const SECTORS_PER_PAGE: u64 = (PAGE_BYTES / SECTOR_BYTES) as u64;

/// A change that the disk may not have yet.
#[derive(Clone)]
enum Change {
    /// The content of `sectors` after a write, in the pages that hold them, and the length after it.
    Write { sectors: Range<u64>, pages: Vec<Arc<Page>>, len: u64 },
    /// Cut or extended to `bytes`.
    SetLen { bytes: u64 },
    /// Space reserved up to `bytes`.
    Reserve { bytes: u64 },
}

#[derive(Clone, Default)]
pub(crate) struct Inode {
    current: Pages,
    durable: Pages,
    unsynced: Vec<Change>,
    /// The file as shared memory; while it is there, it is the current content.
    memory: Option<Arc<Words>>,
    /// Open handles.
    pub(crate) handles: usize,
    /// Syncs that failed.
    pub(crate) failed_syncs: u64,
}

impl Inode {
    /// What programs see.
    pub(crate) fn current(&self) -> &Pages {
        &self.current
    }

    pub(crate) fn write(&mut self, data: &[u8], offset: u64) {
        if data.is_empty() {
            return;
        }
        self.current.write(data, offset);
        let end = offset + data.len() as u64;
        self.unsynced.push(self.written(offset, end));
    }

    /// The present content of the sectors around `start..end` as a change.
    fn written(&self, start: u64, end: u64) -> Change {
        let sector = SECTOR_BYTES as u64;
        Change::Write {
            sectors: start / sector..end.div_ceil(sector),
            pages: pages_of(start, end).map(|page| self.current.share(page)).collect(),
            len: self.current.len(),
        }
    }

    pub(crate) fn set_len(&mut self, bytes: u64) {
        self.current.set_len(bytes);
        self.unsynced.push(Change::SetLen { bytes });
    }

    pub(crate) fn reserve(&mut self, bytes: u64) {
        self.current.reserve(bytes);
        self.unsynced.push(Change::Reserve { bytes });
    }

    /// Brings everything to the disk.
    pub(crate) fn sync(&mut self) {
        self.settle(Fate::everything());
    }

    /// Brings some of it to the disk and forgets the rest (S3).
    pub(crate) fn fail_sync(&mut self, rng: &mut Rng) {
        self.failed_syncs += 1;
        if !seeded_bug("sim_failed_sync_can_be_retried") {
            self.settle(Fate::draw(rng));
        }
    }

    /// Keeps of the unsynced changes what `fate` spares.
    pub(crate) fn lose_power(&mut self, fate: Fate) {
        self.settle(fate);
        self.current = self.durable.clone();
    }

    /// Decides for every unsynced change whether it reached the disk (S1, S2).
    fn settle(&mut self, mut fate: Fate) {
        let changes = std::mem::take(&mut self.unsynced);
        let lengths_kept = fate.prefix(changes.len());
        let mut len = self.durable.len();
        let mut grown_from = None;
        for (position, change) in changes.iter().enumerate() {
            if let Change::Write { sectors, pages, .. } = change {
                put_spared(&mut self.durable, sectors.clone(), pages, &mut fate);
            }
            if position < lengths_kept {
                let before = len;
                len = self.keep_length(change, before);
                match len.cmp(&before) {
                    Ordering::Greater => grown_from = Some(before),
                    Ordering::Less => grown_from = None,
                    Ordering::Equal => {}
                }
            }
        }
        if let Some(old) = grown_from {
            len = fate.growth(old, len, SECTOR_BYTES as u64);
        }
        if seeded_bug("sim_sync_forgets_growth") {
            len = len.min(self.durable.len());
        }
        self.durable.cut(len);
    }

    /// What a change makes of the length, if the disk has it.
    fn keep_length(&mut self, change: &Change, len: u64) -> u64 {
        match *change {
            Change::Write { len: after, .. } => len.max(after),
            Change::SetLen { bytes } => {
                if bytes < len {
                    self.durable.cut(bytes);
                }
                bytes
            }
            Change::Reserve { bytes } => {
                self.durable.reserve(bytes);
                len.max(bytes)
            }
        }
    }

    /// The file as memory: the same for everybody who asks while it lives.
    pub(crate) fn map_memory(&mut self) -> Arc<Words> {
        let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("chunks of 8"));
        let load = || Arc::new(self.current.to_bytes().chunks_exact(8).map(word).collect());
        self.memory.get_or_insert_with(load).clone()
    }

    pub(crate) fn is_memory(&self) -> bool {
        self.memory.is_some()
    }

    /// Takes the memory's content into the file, unsynced, and lets the memory go: stores into it no longer count.
    pub(crate) fn unmap_memory(&mut self) {
        if let Some(memory) = self.memory.take() {
            let bytes: Vec<u8> =
                memory.words().iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect();
            self.write(&bytes, 0);
        }
    }

    /// Replaces everything, as if it had been so and synced for ever.
    pub(crate) fn replace(&mut self, content: &[u8]) {
        self.memory = None;
        self.unsynced.clear();
        self.current = Pages::from_bytes(content);
        self.durable = self.current.clone();
    }
}

/// Puts those `sectors` into `durable` that `fate` spares; `pages` hold them.
fn put_spared(durable: &mut Pages, sectors: Range<u64>, pages: &[Arc<Page>], fate: &mut Fate) {
    let first_page = sectors.start / SECTORS_PER_PAGE;
    for (page, content) in (first_page..).zip(pages) {
        let base = page * SECTORS_PER_PAGE;
        let start = sectors.start.max(base) - base;
        let end = sectors.end.min(base + SECTORS_PER_PAGE) - base;
        let mut spared = start;
        // Neighbours that survive together are put together: a whole page is shared, not copied.
        for sector in start..=end {
            if sector == end || !fate.spares() {
                if spared < sector {
                    durable.put_sectors(page as usize, content, spared as usize..sector as usize);
                }
                spared = sector + 1;
            }
        }
    }
}
