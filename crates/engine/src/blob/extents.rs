//! Extents: where the largest values lie, past the log.
//!
//! An extent is a run of blocks of the file `blobs.db`, written once, and read through the operating system's page cache, which
//! is the cache of such values. A row of the hidden table says where each one is (`blob`). Which blocks are free is not written down: the next
//! open reads it off those rows.
//!
//! Source: Nguyen and Leis, "Why Files If You Have a DBMS" (ICDE 2024): large objects are written once, and durable before the commit
//! record that makes them count. Differs: the extents are not pages of the pool, and a hidden table names them.
//!
//! Invariants:
//! - X1: every block of the file is free, resting, or belongs to one extent.
//! - X2: an extent is durable before the commit record of the transaction that refers to it is reserved. So is the file's
//!   name. What a crash leaves of an extent whose transaction did not commit, nobody reads: its blob has a mark.
//! - X3: what was freed rests until the log is durable beyond the record that removed the extent's row. So no crash brings
//!   back a row that names other bytes than it did.
//! - X4: after a sync that failed none is tried again (rule 10), and nothing commits that waited for one.

use super::BlobId;
use super::runs::FreeRuns;
use crate::error::{Error, Result};
use crate::log::{Durability, Log};
use crate::pool::{Wal, with_space};
use crate::waits::Meter;
use foreshore_base::sync::{AtomicU64, Ordering::*};
use foreshore_base::{Lsn, TableId, seeded_bug};
use foreshore_io::{Access, BLOCK_BYTES, File, Vfs};
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// The file.
pub(crate) const FILE: &str = "blobs.db";

const BLOCK: u64 = BLOCK_BYTES as u64;
/// Files have fewer blocks: 4 PiB.
const BLOCKS: u64 = 1 << 40;

/// The file grows by a share of its size (1/16), but not by more blocks than needed or these (64 MiB).
const GROWTH_SHARE: u64 = 16;
const GROWTH_BLOCKS_MAX: u64 = (64 << 20) / BLOCK;

/// A part of a large value in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// Its first block.
    block: u64,
    bytes: u32,
}

impl Extent {
    /// Its row in the hidden table: first block u64 | bytes u32.
    pub fn encode(self) -> [u8; 12] {
        let mut row = [0; 12];
        row[..8].copy_from_slice(&self.block.to_le_bytes());
        row[8..].copy_from_slice(&self.bytes.to_le_bytes());
        row
    }

    /// `None` if no extent has such a row.
    pub fn decode(row: &[u8]) -> Option<Self> {
        let (block, bytes) = row.split_first_chunk()?;
        let (block, bytes) = (u64::from_le_bytes(*block), u32::from_le_bytes(bytes.try_into().ok()?));
        (block < BLOCKS && bytes > 0).then_some(Self { block, bytes })
    }

    pub fn len(self) -> usize {
        self.bytes as usize
    }

    pub fn blocks(self) -> Range<u64> {
        self.block..self.block + self.count()
    }

    /// How many blocks it has.
    fn count(self) -> u64 {
        u64::from(self.bytes).div_ceil(BLOCK)
    }

    fn offset(self) -> u64 {
        self.block * BLOCK
    }
}

/// Whose an extent is: the hidden table with its row, and the blob.
type BlobKey = (TableId, BlobId);

/// All extents of a database.
pub(crate) struct Extents {
    file: Arc<dyn File>,
    space: Mutex<Space>,
    /// Writes that have returned.
    written: AtomicU64,
    /// How many of them are durable, or why none is any more (X4).
    durable: Mutex<Result<u64>>,
    /// Waits for syncs.
    pub syncs: Meter,
}

/// What is where in the file.
#[derive(Default)]
struct Space {
    /// Blocks that the file has.
    end: u64,
    free: FreeRuns,
    used: BTreeMap<BlobKey, Vec<Extent>>,
    /// Blocks of these.
    used_blocks: u64,
    /// Freed, from the earliest to the latest, each with the log position up to which it rests (X3).
    resting: VecDeque<(Lsn, Extent)>,
    /// Why it is not known what is free.
    unknown: Option<Error>,
}

impl Extents {
    /// Opens the file, and makes it where it is absent, under a durable name (X2). To be called before the log has threads: what
    /// a failed sync of the directory loses is not known to them.
    ///
    /// Errors: [`Error::Io`], [`Error::Full`].
    pub fn open(vfs: &dyn Vfs) -> Result<Self> {
        let file = match vfs.open(FILE, Access::Buffered, false) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let file = vfs.open(FILE, Access::Buffered, true);
                let synced = || vfs.sync_dir().inspect_err(|_| _ = vfs.remove(FILE)); // N1 in `dir_syncs.rs`
                file.and_then(|file| synced().map(|()| file))
            }
            opened => opened,
        };
        Ok(Self {
            file: file.map_err(|e| Error::io(format!("opening {FILE}"), &e))?,
            space: Mutex::default(),
            written: AtomicU64::new(0),
            durable: Mutex::new(Ok(0)),
            syncs: Meter::default(),
        })
    }

    /// Takes note of what the rows of all hidden tables name, before anything else is done. The rest of the file is free, and
    /// what lies behind the last extent is cut off. Where `Err` says why not all of them are known, nothing is free, and no new
    /// extents are made.
    ///
    /// Errors: [`Error::Io`].
    pub(super) fn adopt(&self, found: Result<Vec<(BlobKey, Extent)>>) -> Result<()> {
        let io = |what: &str, e| Error::io(format!("{what} {FILE}"), &e);
        let mut space = self.space.lock();
        match found {
            Ok(found) => {
                *space = Space::of(found);
                let bytes = space.end * BLOCK;
                if self.file.len().map_err(|e| io("asking for the length of", e))? > bytes {
                    self.file.set_len(bytes).map_err(|e| io("cutting", e))?;
                }
            }
            Err(unread) => space.unknown = Some(unread),
        }
        Ok(())
    }

    /// A place for so many bytes of a blob.
    ///
    /// Errors: [`Error::Full`]; nothing was changed.
    pub(super) fn take(&self, owner: BlobKey, bytes: usize, log: &Log) -> Result<Extent> {
        let attempt = || self.place(owner, bytes, log.durable());
        match with_space(log, attempt) {
            Err(full @ Error::Full { .. }) => match self.rest_ends() {
                None => Err(full),
                Some(end) => log.commit(end, Durability::Sync).and_then(|()| attempt()),
            },
            placed => placed,
        }
    }

    fn place(&self, owner: BlobKey, bytes: usize, durable: Lsn) -> Result<Extent> {
        let mut space = self.space.lock();
        if let Some(unread) = &space.unknown {
            return Err(unread.clone());
        }
        space.end_rest(durable);
        let blocks = (bytes as u64).div_ceil(BLOCK);
        let block = match space.free.take(blocks) {
            Some(block) => block,
            None => {
                self.grow(&mut space, blocks)?;
                space.free.take(blocks).expect("the file has grown by what was missing")
            }
        };
        let extent = Extent { block, bytes: bytes as u32 };
        space.occupy(owner, extent);
        Ok(extent)
    }

    /// Up to which log position something rests.
    fn rest_ends(&self) -> Option<Lsn> {
        self.space.lock().resting.back().map(|(until, _)| *until)
    }

    /// Makes the file longer, so that its last free run has so many blocks.
    fn grow(&self, space: &mut Space, blocks: u64) -> Result<()> {
        self.ensure_length(space.end)?;
        let missing = blocks - space.free.before(space.end);
        let generous = missing.max((space.end / GROWTH_SHARE).min(GROWTH_BLOCKS_MAX));
        let grow = |by: u64| {
            let bytes = by * BLOCK;
            let full = |e| Error::io(format!("{bytes} more bytes of {FILE}"), &e);
            self.file.allocate((space.end + by) * BLOCK).map(|()| by).map_err(full)
        };
        let by = match grow(generous) {
            Err(Error::Full { .. }) if generous > missing => grow(missing)?,
            grown => grown?,
        };
        space.free.give(space.end..space.end + by);
        space.end += by;
        Ok(())
    }

    /// Makes the file as long as its rows say, if a power failure has kept these and not its growth. Others may be writing there,
    /// and who then finds no space for more cuts the file to the length that it had.
    fn ensure_length(&self, blocks: u64) -> Result<()> {
        let bytes = blocks * BLOCK;
        let is_shorter = self.file.len().map(|len| len < bytes);
        let ensured = is_shorter.and_then(|shorter| if shorter { self.file.set_len(bytes) } else { Ok(()) });
        ensured.map_err(|e| Error::io(format!("{bytes} bytes of {FILE}"), &e))
    }

    /// Writes an extent; returns what [`Extents::sync`] is to be told.
    pub(super) fn write(&self, extent: Extent, bytes: &[u8]) -> Result<u64> {
        let written = self.file.write_at(bytes, extent.offset());
        written.map_err(|e| Error::io(format!("writing blocks {:?} of {FILE}", extent.blocks()), &e))?;
        // ORDERING: all are read-modify-writes, so whoever loads a count has acquired every write that it counts (`sync_once`).
        Ok(self.written.fetch_add(1, Release) + 1)
    }

    /// Returns when this write is durable, and all that returned before it: for all who wait, one sync.
    ///
    /// Errors: [`Error::Poisoned`], as is the log from then on.
    pub fn sync(&self, write: u64, log: &Log) -> Result<()> {
        self.syncs.time(|| self.sync_once(write)).inspect_err(|error| log.poison(error))
    }

    /// Makes all durable that was ever written, by whomever.
    pub fn sync_all(&self) -> Result<()> {
        self.sync_once(u64::MAX)
    }

    fn sync_once(&self, write: u64) -> Result<()> {
        let mut durable = self.durable.lock();
        if durable.clone()? >= write {
            return Ok(()); // somebody's sync began after it
        }
        let written = self.written.load(Acquire);
        let cause = |e| format!("syncing {FILE}: {e}");
        *durable = self.file.sync().map(|()| written).map_err(|e| Error::Poisoned { cause: cause(e) });
        durable.clone().map(drop)
    }

    /// Appends an extent's bytes to `value`. Whose they are only the caller knows, who is to say that of an error.
    pub(super) fn read(&self, extent: Extent, value: &mut Vec<u8>) -> io::Result<()> {
        let at = value.len();
        value.resize(at + extent.len(), 0);
        self.file.read_at(&mut value[at..], extent.offset())
    }

    /// Bytes of the file, and how many of them no value uses.
    pub fn bytes(&self) -> (u64, u64) {
        let space = self.space.lock();
        (space.end * BLOCK, (space.end - space.used_blocks) * BLOCK)
    }

    /// The extents of a blob are garbage; records that removed their rows are in the log.
    pub(super) fn free(&self, owner: BlobKey, log: &Log) {
        let mut space = self.space.lock();
        let extents = space.used.remove(&owner).unwrap_or_default();
        self.rest(space, extents, log);
    }

    /// A hidden table was dropped, durably.
    pub fn free_table(&self, table: TableId, log: &Log) {
        let mut space = self.space.lock();
        let mut extents = Vec::new();
        space.used.retain(|owner, of_blob| {
            let stays = owner.0 != table;
            if !stays {
                extents.append(of_blob);
            }
            stays
        });
        self.rest(space, extents, log);
    }

    /// What was freed rests, and not for long: where no commit waits for the log, nor asks for it, the file would grow beside what rests
    /// there. Where the log has failed, there are no more extents.
    fn rest(&self, mut space: MutexGuard<'_, Space>, extents: Vec<Extent>, log: &Log) {
        let until = space.rest(extents, log);
        drop(space);
        log.flush_soon(until);
    }
}

impl Space {
    /// What these extents leave free. Where two overlap, as only damaged files have them, neither is ever freed.
    fn of(mut found: Vec<(BlobKey, Extent)>) -> Self {
        found.sort_by_key(|(_, extent)| extent.block);
        let mut space = Self::default();
        let mut last = None;
        for (owner, extent) in found {
            let blocks = extent.blocks();
            if blocks.start > space.end {
                space.free.give(space.end..blocks.start);
            }
            if blocks.start >= space.end {
                space.occupy(owner, extent);
            } else if let Some(overlapped) = last {
                space.used.remove(&overlapped);
            }
            space.end = space.end.max(blocks.end);
            last = Some(owner);
        }
        space
    }

    fn occupy(&mut self, owner: BlobKey, extent: Extent) {
        self.used.entry(owner).or_default().push(extent);
        self.used_blocks += extent.count();
    }

    /// These rest until all is durable that the log holds by now, whose end is returned. Under the mutex: positions ascend.
    fn rest(&mut self, extents: Vec<Extent>, log: &Log) -> Lsn {
        let until = if seeded_bug("blob_extent_reused_early") { Lsn::ZERO } else { log.reserved() };
        for extent in extents {
            self.used_blocks -= extent.count();
            self.resting.push_back((until, extent));
        }
        until
    }

    /// Frees what has rested.
    fn end_rest(&mut self, durable: Lsn) {
        while let Some((_, extent)) = self.resting.front().filter(|(until, _)| *until <= durable) {
            self.free.give(extent.blocks());
            self.resting.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Database;
    use foreshore_io::MemVfs;
    use foreshore_io::sim::{Call, Intercepted};
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    fn owner(id: u64) -> BlobKey {
        (TableId(7), BlobId(id))
    }

    fn extent(block: u64, blocks: u64) -> Extent {
        Extent { block, bytes: (blocks * BLOCK) as u32 }
    }

    #[test]
    fn rows_name_extents() {
        let extent = Extent { block: 0x00FF_0504_0302, bytes: 77_777 };
        assert_eq!(Extent::decode(&extent.encode()), Some(extent));
        assert_eq!(extent.count(), 19);
        for foreign in [&[][..], &[1; 11], &[1; 13], &[255; 12], &[0; 12]] {
            assert_eq!(Extent::decode(foreign), None, "{foreign:?}");
        }
    }

    /// What no row names is free, wherever it is.
    #[test]
    fn gaps_are_free() {
        let mut space = Space::of(vec![(owner(2), extent(10, 5)), (owner(1), extent(3, 4))]);
        assert_eq!((space.end, space.used_blocks), (15, 9));
        assert_eq!((space.free.take(3), space.free.take(3), space.free.take(1)), (Some(0), Some(7), None));
    }

    /// Only damaged files have extents that overlap: whichever of them goes, the other one keeps its bytes.
    #[test]
    fn extents_that_overlap_are_never_freed() {
        let log = Database::in_memory().unwrap().byte_table("t").unwrap().tree.core().clone();
        let extents = Extents::open(&MemVfs::new()).unwrap();
        let whole = [(owner(4), extent(30, 2)), (owner(5), extent(32, 2))];
        let crossing = [(owner(1), extent(0, 20)), (owner(2), extent(5, 2)), (owner(3), extent(9, 15))];
        *extents.space.lock() = Space::of([&crossing[..], &whole].concat());
        for id in 1..=5 {
            extents.free(owner(id), &log.log);
        }
        let mut space = extents.space.lock();
        space.end_rest(Lsn(u64::MAX));
        assert_eq!(
            (space.free.take(11), space.free.take(10)),
            (None, Some(24)),
            "all but the first 24 blocks"
        );
    }

    /// One sync is for all writes before it.
    #[test]
    fn writers_share_a_sync() {
        let db = Database::in_memory().unwrap();
        let core = db.byte_table("t").unwrap().tree.core().clone();
        let write = |id| {
            let place = core.extents.take(owner(id), 5000, &core.log).unwrap();
            core.extents.write(place, &[1; 5000]).unwrap()
        };
        let [first, second] = [1, 2].map(write);
        core.extents.sync(second, &core.log).unwrap();
        let third = write(3);
        core.extents.sync(first, &core.log).unwrap();
        assert_eq!(
            *core.extents.durable.lock().as_ref().unwrap(),
            second,
            "what was durable is not synced again"
        );
        core.extents.sync(third, &core.log).unwrap();
        assert_eq!(*core.extents.durable.lock().as_ref().unwrap(), third);
    }

    /// What is written while a sync is under way may have come too late for it.
    #[test]
    fn a_write_beside_a_sync_waits_for_the_next_one() {
        let db = Database::in_memory().unwrap();
        let core = db.byte_table("t").unwrap().tree.core().clone();
        let ((begun, has_begun), (end, ends)) = (channel(), channel());
        let ends = Mutex::new(ends);
        // Syncs say that they have begun, and end when they are told to.
        let slow = Intercepted::new(MemVfs::new(), move |call, _, go| {
            if call == Call::Sync {
                begun.send(()).unwrap();
                ends.lock().recv().unwrap();
            }
            go()
        });
        let extents = Extents::open(&slow).unwrap();
        let write = |id| {
            let place = extents.take(owner(id), 5000, &core.log).unwrap();
            extents.write(place, &[1; 5000]).unwrap()
        };
        let sync = &|write| extents.sync(write, &core.log).unwrap();
        thread::scope(|scope| {
            let first = write(1);
            scope.spawn(move || sync(first));
            has_begun.recv().unwrap();
            let second = write(2);
            end.send(()).unwrap();
            scope.spawn(move || sync(second));
            has_begun.recv_timeout(Duration::from_secs(10)).expect("it is not durable yet");
            end.send(()).unwrap();
        });
    }
}
