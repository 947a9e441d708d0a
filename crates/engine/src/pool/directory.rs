//! The leaf directory: which slot holds the newest durable image of each page, and where redo begins.
//!
//! Why: leaves are written out of place, so something has to say where they are; with each leaf's table and low key in
//! it, the index can be rebuilt at open without reading a single leaf.
//! Source: O2-Tree §4: the index comes back from the lowest key of each leaf.
//!
//! One file, `directory-N`, is a [journal](super::journal) of batches of [entries](super::directory_entry). When it has outgrown its base it is
//! rewritten: the newest entry of each page goes to `directory-(N+1)` under a temporary name; sync; rename; sync the
//! directory. Then `directory-N` gets the temporary name: it keeps the space for the next rewrite, which a full disk would not have
//! (R1 in [promises](super::promises)). What it holds counts no more.
//!
//! Invariants:
//! - D1: what [`Directory::append`] returned `Ok` for survives any crash; what it returned `Full` for never appears.
//! - D2: at any time the file with the highest number is complete: it got its name after its base was synced, and its
//!   predecessor is removed, or written to, only after that name was. So a file without the mark that ends its base has been
//!   damaged; it is never taken for a young one.

use super::directory_entry::{Entry, PageEntry, Replay, decode_all, encode, entry_bytes};
use super::journal::{Journal, PAYLOAD_MAX, Reader, Space};
use super::promises::{Effect, Promises};
use crate::error::{Error, Result};
use crate::file_names::{number_in, numbered, numbers};
use crate::log::Incarnation;
use crate::waits::will_wait;
use foreshore_base::Lsn;
use foreshore_base::latch::assert_none_held;
use foreshore_io::{Access, File, Vfs};
use parking_lot::Mutex;
use std::mem;
use std::sync::Arc;

const PREFIX: &str = "directory-";
const TEMPORARY: &str = "directory.tmp";
/// A rewrite begins when the journal is larger than twice its base plus this. Tests see many.
const SLACK_BYTES: u64 = if cfg!(test) { 2 << 10 } else { 1 << 20 };
/// Batches of a rewritten base are about this large.
const BASE_BATCH_BYTES: usize = 256 << 10;

/// All that the directory knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Loaded {
    /// Every page that has an image, by ascending id.
    pub pages: Vec<PageEntry>,
    /// Where redo begins.
    pub redo_lsn: Lsn,
    /// The incarnations whose records lie behind `redo_lsn`, oldest first.
    pub incarnations: Vec<Incarnation>,
}

/// The open directory. One writer at a time.
pub(crate) struct Directory {
    vfs: Arc<dyn Vfs>,
    current: Mutex<Current>,
    promises: Promises,
}

/// The file in use.
struct Current {
    number: u64,
    journal: Journal,
    /// Bytes of the journal when it was written anew; half of what it had when that was put off.
    base_bytes: u64,
    /// Are there pages in the promises that the journal has forgotten?
    is_more_gone: bool,
    /// The next file in the making. What is in it does not count.
    spare: Option<Space>,
}

/// Is this a directory file, or one in the making?
pub(super) fn is_file(name: &str) -> bool {
    name == TEMPORARY || number_in(name, PREFIX).is_some()
}

fn file_name(number: u64) -> String {
    numbered(PREFIX, number)
}

impl Directory {
    /// A directory that knows nothing.
    #[cfg(test)]
    pub fn create(vfs: Arc<dyn Vfs>) -> Result<Self> {
        Self::create_with(vfs, &Loaded::default())
    }

    /// Writes a directory with these contents, under a number above all that exist, and removes those: for a new
    /// database, and for one whose directory was rebuilt. It is durable when this returns.
    pub fn create_with(vfs: Arc<dyn Vfs>, contents: &Loaded) -> Result<Self> {
        let old = numbers(&*vfs, PREFIX)?;
        let number = old.last().map_or(0, |newest| newest + 1);
        let mut base = Base::begin(open_spare(&*vfs)?, number);
        base.put(&Entry::Redo(contents.redo_lsn))?;
        contents.incarnations.iter().try_for_each(|i| base.put(&Entry::Incarnation(*i)))?;
        contents.pages.iter().try_for_each(|page| base.put(&Entry::Page(page.clone())))?;
        let (current, written) = base.install(&*vfs, 0)?;
        old.iter().for_each(|number| remove_old(&*vfs, *number));
        Ok(Self::begin(vfs, current, written))
    }

    /// Reserves space, if there is any: without, no page is added.
    fn begin(vfs: Arc<dyn Vfs>, mut current: Current, written: u64) -> Self {
        let promises = Promises::default();
        promises.set_written(written);
        let _ = current.reserve(&*vfs, &promises);
        Self { vfs, current: Mutex::new(current), promises }
    }

    /// Opens the newest directory file and replays it to its end. A torn last batch is cut off; anything else that does
    /// not fit is `Corrupt`. `Incompatible` if there is no directory at all.
    pub fn open(vfs: Arc<dyn Vfs>) -> Result<(Self, Loaded)> {
        let mut older = numbers(&*vfs, PREFIX)?;
        let Some(number) = older.pop_last() else {
            let detail =
                "it has no directory file; salvage the leaves with `foreshore check --rebuild`".into();
            return Err(Error::Incompatible { dir: vfs.describe(), detail });
        };
        let name = file_name(number);
        let file = open_file(&*vfs, &name, false)?;
        let mut replay = Replay::default();
        let mut reader = Reader::new(file, &name, number)?;
        let mut base_bytes = None;
        while let Some(batch) = reader.next()? {
            decode_all(&name, &batch, |entry, _| {
                if entry == Entry::BaseEnd {
                    base_bytes = Some(reader.bytes());
                }
                replay.apply(entry, Some);
                Ok(())
            })?;
        }
        let base_bytes = base_bytes.ok_or_else(|| Error::corrupt(&name, "its base is not whole (D2)"))?;
        let journal = Journal::resume(reader)?;
        // The file's name may have been seen only by the process before: durable first, then its predecessor may go.
        vfs.sync_dir().map_err(|e| Error::io(format!("syncing the name {name}"), &e))?;
        older.iter().for_each(|number| remove_old(&*vfs, *number));
        let loaded = replay.finish();
        let pages = loaded.pages.iter().map(|page| page.low_key.len());
        let written = pages.chain(loaded.incarnations.iter().map(|_| 0)).map(entry_bytes).sum();
        let current = Current { number, journal, base_bytes, is_more_gone: false, spare: None };
        Ok((Self::begin(vfs, current, written), loaded))
    }

    /// What is promised of the space for more pages.
    pub(super) fn promises(&self) -> &Promises {
        &self.promises
    }

    /// Promises a page more its entry. To be given back, or settled. May wait.
    ///
    /// Errors: `Full` if the disk has no space for that, and what else keeps it from being reserved. Nothing is promised then.
    pub(super) fn promise(&self) -> Result<()> {
        match self.promises.add() {
            true => Ok(()),
            false => self.reserve().inspect_err(|_| self.promises.give_back()),
        }
    }

    /// Reserves what is promised.
    fn reserve(&self) -> Result<()> {
        assert_none_held("reserving space for the directory");
        will_wait(); // for the device
        let mut current = self.current.lock();
        let reserved = current.reserve(&*self.vfs, &self.promises);
        if matches!(reserved, Err(Error::Full { .. })) && current.is_more_gone {
            self.rewrite(&mut current)?; // it finds out what is not needed any more
        }
        if self.promises.is_kept() { Ok(()) } else { reserved }
    }

    /// [`Directory::append_with`] of entries that are no pages'.
    pub fn append(&self, entries: &[Entry]) -> Result<()> {
        self.append_with(entries, Effect::default())
    }

    /// Appends these entries, all or none of them, and makes them durable. `effect` is what they do to the pages that have entries.
    ///
    /// Errors: `Full` changes nothing; after `Poisoned` it is unknown whether they are durable, and nothing more can be
    /// appended.
    pub(super) fn append_with(&self, entries: &[Entry], effect: Effect) -> Result<()> {
        assert_none_held("appending to the directory");
        let mut current = self.current.lock();
        let mut batch = Vec::new();
        entries.iter().for_each(|entry| encode(entry, &mut batch));
        assert!(batch.len() <= PAYLOAD_MAX, "at most {PAYLOAD_MAX} bytes of entries in one batch");
        match current.journal.append(&batch) {
            Err(full @ Error::Full { .. }) if self.promises.allow_rewrite() => {
                self.rewrite(&mut current).map_err(|e| if is_put_off(&e) { full } else { e })?;
                current.journal.append(&batch)?;
            }
            appended => appended?,
        }
        current.journal.sync()?;
        self.promises.note(effect);
        current.is_more_gone |= effect.is_more_gone;
        if current.journal.bytes() > 2 * current.base_bytes + SLACK_BYTES {
            match self.rewrite(&mut current) {
                Err(error) if is_put_off(&error) => {} // the old file goes on
                rewritten => rewritten?,
            }
        }
        if self.promises.is_low() {
            let _ = current.reserve(&*self.vfs, &self.promises); // who needs it is told
        }
        Ok(())
    }

    /// Errors: what puts it off leaves the old file as it was; after `Poisoned` nothing more can be appended.
    fn rewrite(&self, current: &mut Current) -> Result<()> {
        match current.rewrite(&*self.vfs, self.promises.ample_file_bytes()) {
            Ok(written) => {
                self.promises.set_written(written);
                self.promises.set_reserved(current.reserved());
                Ok(())
            }
            // Each attempt reads all of the journal, so the next one waits until some more has been appended.
            Err(error) if is_put_off(&error) => {
                self.promises.set_reserved(current.reserved()); // the next file may have less by now
                current.base_bytes = current.journal.bytes() / 2;
                Err(error)
            }
            // Which file the next open will see is unknown: neither may be appended to.
            Err(error) => Err(current.journal.abandon(error.as_cause())),
        }
    }
}

/// Is the old file what it was, so that a rewrite may be put off? What could not be read was not changed, and what leaves it in doubt which
/// file has a name is `Poisoned`.
fn is_put_off(error: &Error) -> bool {
    error.is_shortage() || matches!(error, Error::Io { .. })
}

/// An old file that stays does no harm: the newest one wins, and the next open removes it.
fn remove_old(vfs: &dyn Vfs, number: u64) {
    let _ = vfs.remove(&file_name(number));
}

fn open_file(vfs: &dyn Vfs, name: &str, create: bool) -> Result<Arc<dyn File>> {
    vfs.open(name, Access::Buffered, create).map_err(|e| Error::io(format!("opening {name}"), &e))
}

/// The next file in the making: what an earlier life has left, or a new one.
fn open_spare(vfs: &dyn Vfs) -> Result<Space> {
    Ok(Space { file: open_file(vfs, TEMPORARY, true)?, room: 0 })
}

/// A directory file that has no number yet.
struct Base {
    number: u64,
    journal: Journal,
    batch: Vec<u8>,
    /// Bytes of entries, as [`Promises`] counts them.
    written: u64,
}

impl Base {
    fn begin(spare: Space, number: u64) -> Self {
        let journal = Journal::begin(spare, &file_name(number), number);
        Self { number, journal, batch: Vec::new(), written: 0 }
    }

    fn put(&mut self, entry: &Entry) -> Result<()> {
        let mut encoded = Vec::new();
        encode(entry, &mut encoded);
        self.put_encoded(&encoded)
    }

    fn put_encoded(&mut self, entry: &[u8]) -> Result<()> {
        self.written += entry.len() as u64 + 1;
        self.batch.extend_from_slice(entry);
        if self.batch.len() >= BASE_BATCH_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.journal.append(&self.batch)?;
        self.batch.clear();
        Ok(())
    }

    /// D2: contents, name, then nobody needs the predecessor. Beyond `bytes`, the file keeps no room. Returns the bytes of entries,
    /// too.
    fn install(mut self, vfs: &dyn Vfs, bytes: u64) -> Result<(Current, u64)> {
        encode(&Entry::BaseEnd, &mut self.batch);
        self.flush()?;
        self.journal.clear_rest(bytes)?;
        self.journal.sync()?;
        let name = file_name(self.number);
        vfs.rename(TEMPORARY, &name).map_err(|e| match Error::io(format!("the name {name}"), &e) {
            full @ Error::Full { .. } => full, // it has its old name
            _ => poisoned(format!("naming {name}"), &e),
        })?;
        vfs.sync_dir().map_err(|e| {
            let _ = vfs.rename(&name, TEMPORARY); // N1 in `dir_syncs.rs`: the predecessor is there, and complete
            poisoned(format!("syncing the name {name}"), &e)
        })?;
        let Self { number, journal, written, .. } = self;
        let base_bytes = journal.bytes();
        Ok((Current { number, journal, base_bytes, is_more_gone: false, spare: None }, written))
    }
}

fn poisoned(what: String, source: &std::io::Error) -> Error {
    Error::Poisoned { cause: format!("{what}: {source}") }
}

impl Current {
    /// Reserves space for what is needed (R1), and for more where there is plenty.
    fn reserve(&mut self, vfs: &dyn Vfs, promises: &Promises) -> Result<()> {
        let (ample, least) = (promises.ample_file_bytes(), promises.least_file_bytes());
        let reserved = self.journal.reserve(ample, least).and_then(|()| {
            let spare = self.take_spare(vfs)?;
            self.spare.insert(spare).reserve(TEMPORARY, ample, least)
        });
        promises.set_reserved(self.reserved());
        reserved
    }

    fn take_spare(&mut self, vfs: &dyn Vfs) -> Result<Space> {
        self.spare.take().map_or_else(|| open_spare(vfs), Ok)
    }

    /// Room that this file and the next one have.
    fn reserved(&self) -> u64 {
        self.spare.as_ref().map_or(0, |spare| spare.room.min(self.journal.space().room))
    }

    /// Makes the next file of this one, which becomes the one after that. Neither keeps more room than `bytes`. Returns how many
    /// bytes of entries there are now.
    fn rewrite(&mut self, vfs: &dyn Vfs, bytes: u64) -> Result<u64> {
        let mut spare = self.take_spare(vfs)?;
        let (next, written) = match self.copy_to(spare.clone(), vfs, bytes) {
            Ok(copied) => copied,
            Err(error) => {
                // What it took beyond its room is to be had by others. But it stays whole where it may have its name by now: then it is what
                // the next open reads (D2).
                self.spare = (is_put_off(&error) && spare.cut(spare.room)).then_some(spare);
                return Err(error);
            }
        };
        let old = mem::replace(self, next);
        let mut spare = old.journal.into_space();
        match spare.cut(bytes) && vfs.rename(&file_name(old.number), TEMPORARY).is_ok() {
            true => self.spare = Some(spare),
            false => remove_old(vfs, old.number),
        }
        Ok(written)
    }

    /// Copies the newest entry of each page to the next file, in the order of this one.
    fn copy_to(&self, spare: Space, vfs: &dyn Vfs, bytes: u64) -> Result<(Current, u64)> {
        let survey = self.survey()?;
        let mut base = Base::begin(spare, self.number + 1);
        base.put(&Entry::Redo(survey.redo_lsn))?;
        survey.needed_incarnations().iter().try_for_each(|i| base.put(&Entry::Incarnation(*i)))?;
        let mut ordinal = 0;
        self.replay(|entry, encoded| {
            ordinal += 1;
            match entry {
                Entry::Page(page) if survey.pages.get(page.pid) == Some(&ordinal) => {
                    base.put_encoded(encoded)
                }
                _ => Ok(()),
            }
        })?;
        base.install(vfs, bytes)
    }

    /// Finds out which entries are the newest: by their ordinal numbers, counted from 1; 0 for a page that is free.
    fn survey(&self) -> Result<Replay<u64>> {
        let mut survey = Replay::default();
        let mut ordinal = 0;
        self.replay(|entry, _| {
            ordinal += 1;
            survey.apply(entry, |_| ordinal);
            Ok(())
        })?;
        Ok(survey)
    }

    /// Errors: `Corrupt` also if the last batch is not whole, which would be a torn end in a file that is being opened.
    fn replay(&self, mut each: impl FnMut(Entry, &[u8]) -> Result<()>) -> Result<()> {
        let name = file_name(self.number);
        let file = Arc::clone(&self.journal.space().file);
        let mut reader = Reader::up_to(self.journal.bytes(), file, &name, self.number)?;
        while let Some(batch) = reader.next()? {
            decode_all(&name, &batch, &mut each)?;
        }
        match reader.bytes() == self.journal.bytes() {
            true => Ok(()),
            false => Err(Error::corrupt(&name, format!("the batch at byte {} is broken", reader.bytes()))),
        }
    }
}

impl Replay<Option<PageEntry>> {
    fn finish(self) -> Loaded {
        let incarnations = self.needed_incarnations().to_vec();
        Loaded { pages: self.pages.into_values().flatten().collect(), redo_lsn: self.redo_lsn, incarnations }
    }
}

#[cfg(test)]
mod tests {
    use super::super::size::SizeClass;
    use super::*;
    use crate::chance::{Random, seeds};
    use foreshore_base::sync::{AtomicBool, Ordering::Relaxed};
    use foreshore_base::{PageId, SlotId, TableId};
    use foreshore_io::SimDisk;
    use foreshore_io::sim::Crash;
    use std::ops::Range;

    /// The directory as it should be after each batch; number 0 is the empty one.
    struct Model {
        states: Vec<Loaded>,
        batches: Vec<Vec<Entry>>,
    }

    /// The file in use.
    fn newest(disk: &SimDisk) -> String {
        let names = disk.names().into_iter().filter(|name| name.starts_with(PREFIX));
        names.max().expect("a directory file")
    }

    /// One of a few, of several sizes.
    fn random_page(rng: &mut Random) -> PageId {
        let sizes: Vec<_> = SizeClass::all().step_by(2).collect();
        PageId(sizes[rng.below(sizes.len() as u64) as usize].base().0 + 1 + rng.below(7))
    }

    fn random_entry(rng: &mut Random, lsn: u64) -> Entry {
        match rng.below(20) {
            0 => Entry::Redo(Lsn(lsn / 2)),
            1 => Entry::Incarnation(Incarnation {
                prev_end: Lsn(lsn),
                start: Lsn(lsn),
                salt: rng.below(u64::MAX),
            }),
            2..5 => Entry::Free(random_page(rng)),
            _ => Entry::Page(PageEntry {
                pid: random_page(rng),
                slot: SlotId(rng.below(1 << 30)),
                lsn: Lsn(lsn),
                table: TableId(rng.below(5) as u32),
                low_key: vec![7; rng.below(200) as usize],
            }),
        }
    }

    fn model(seed: u64, batches: u64) -> Model {
        let mut rng = Random(seed);
        let mut replay = Replay::default();
        let mut model = Model { states: vec![Loaded::default()], batches: Vec::new() };
        for number in 0..batches {
            let batch: Vec<Entry> =
                (0..1 + rng.below(8)).map(|i| random_entry(&mut rng, number * 100 + i)).collect();
            batch.iter().for_each(|entry| replay.apply(entry.clone(), Some));
            model.states.push(replay.clone().finish());
            model.batches.push(batch);
        }
        model
    }

    /// Appends all batches until the disk crashes. Returns how many were acknowledged; `None` if not even the creation.
    fn append_all(disk: &SimDisk, model: &Model) -> Option<usize> {
        let directory = Directory::create(Arc::new(disk.clone())).ok()?;
        Some(model.batches.iter().take_while(|batch| directory.append(batch).is_ok()).count())
    }

    /// D1, D2: a crash at any event keeps all acknowledged batches, at most one more, and nothing older comes back; nor
    /// after a second crash, whatever was appended in between.
    #[test]
    fn acknowledged_batches_survive_every_crash() {
        for seed in seeds(3) {
            let model = model(seed, 40);
            let disk = SimDisk::new(seed);
            assert_eq!(append_all(&disk, &model), Some(40), "seed {seed}");
            assert!(newest(&disk) > file_name(1), "seed {seed}: never rewritten");
            for event in 0..disk.events() {
                let disk = SimDisk::new(seed);
                disk.crash_at(event);
                let acked = append_all(&disk, &model);
                for crash in [Crash::PowerLoss, Crash::ProcessKill] {
                    crash_twice(&disk.after_crash(crash, seed ^ event), &model, acked, seed, event);
                }
            }
        }
    }

    fn crash_twice(disk: &SimDisk, model: &Model, acked: Option<usize>, seed: u64, event: u64) {
        let context = format!("seed {seed}, event {event}, acknowledged {acked:?}");
        let Some(acked) = acked else {
            return; // no database was ever there
        };
        let Some(known) = reopened_at(disk, model, acked, &context) else { return };
        // Power fails right after the process that followed has opened the directory, or has appended to it.
        let lost = disk.after_crash(Crash::PowerLoss, event);
        reopened_at(&lost, model, known, &context).inspect(|again| assert_eq!(*again, known, "{context}"));
        let (directory, _) = Directory::open(Arc::new(disk.clone())).expect(&context);
        if let Some(next) = model.batches.get(known) {
            directory.append(next).expect(&context);
            let lost = disk.after_crash(Crash::PowerLoss, event + 1);
            let (_, loaded) = Directory::open(Arc::new(lost)).expect(&context);
            assert_eq!(loaded, model.states[known + 1], "{context}, after one more batch");
        }
    }

    /// Opens, and says how many batches are known.
    fn reopened_at(disk: &SimDisk, model: &Model, acked: usize, context: &str) -> Option<usize> {
        let (_, loaded) = Directory::open(Arc::new(disk.clone())).expect(context);
        let known = (acked..=acked + 1).find(|known| model.states.get(*known) == Some(&loaded));
        assert!(known.is_some(), "{context}: {loaded:?}");
        known
    }

    /// A flipped bit is an error, or costs the last batch, which cannot be told from a torn one; never anything else.
    #[test]
    fn damage_is_told_from_a_torn_end() {
        for seed in seeds(2) {
            let model = model(seed, 12);
            let whole = SimDisk::new(seed);
            append_all(&whole, &model).expect("no crash");
            let name = newest(&whole);
            let mut rng = Random(seed);
            for _ in 0..300 {
                let disk = whole.after_crash(Crash::PowerLoss, seed);
                disk.corrupt(&name, |bytes| {
                    let at = rng.below(2000.min(bytes.len() as u64)) as usize;
                    bytes[at] ^= 1 << rng.below(8);
                });
                match Directory::open(Arc::new(disk)) {
                    Err(Error::Corrupt { .. }) => {}
                    Err(error) => panic!("seed {seed}: {error}"),
                    Ok((_, loaded)) => {
                        assert!(model.states[11..].contains(&loaded), "seed {seed}: a wrong directory");
                    }
                }
            }
        }
    }

    /// Entries of these pages, with long keys, and what they do to a directory that has promised them a place.
    fn promised(directory: &Directory, pids: Range<u64>) -> Result<(Vec<Entry>, Effect)> {
        let low_key = vec![7; 1000];
        let (mut entries, mut effect) = (Vec::new(), Effect::default());
        for pid in pids {
            directory.promise()?;
            directory.promises().settle(low_key.len());
            effect.first += entry_bytes(low_key.len());
            let (pid, slot, low_key) = (PageId(pid), SlotId(pid), low_key.clone());
            entries.push(Entry::Page(PageEntry { pid, slot, lsn: Lsn(1), table: TableId(1), low_key }));
        }
        Ok((entries, effect))
    }

    /// R1: a full disk refuses pages, and entries of those that there are find a place for ever, all in one batch, too; so it is after
    /// it was opened again, and where what was to be removed leaves no space for others.
    #[test]
    fn a_full_disk_has_a_place_for_what_was_promised() {
        let disk = SimDisk::new(1);
        let mut directory = Directory::create(Arc::new(disk.clone())).unwrap();
        let (mut all, effect) = promised(&directory, 1..500).unwrap();
        directory.append_with(&all, effect).unwrap();
        disk.set_capacity(disk.used_bytes());
        let more = (500..).map_while(|pid| promised(&directory, pid..pid + 1).ok());
        let more: Vec<_> = more.collect();
        assert!(matches!(directory.promise(), Err(Error::Full { .. })));
        for (entries, effect) in more {
            directory.append_with(&entries, effect).unwrap();
            all.extend(entries);
        }
        for _ in 0..3 {
            let (before, used) = (newest(&disk), disk.used_bytes());
            for turn in 0..30 {
                all.chunks([all.len(), 100][turn % 2]).for_each(|batch| directory.append(batch).unwrap());
                assert!(matches!(directory.promise(), Err(Error::Full { .. })));
                // Whoever else uses the disk takes what there is.
                disk.set_capacity(disk.used_bytes());
            }
            assert_ne!(newest(&disk), before, "it was rewritten");
            assert!(disk.used_bytes() + (64 << 10) > used, "nothing that it needs was given up");
            drop(directory);
            directory = Directory::open(Arc::new(disk.clone())).unwrap().0;
        }
        disk.set_capacity(u64::MAX);
        directory.promise().unwrap();
    }

    /// Pages that are no more make room for others.
    #[test]
    fn a_full_disk_has_a_place_for_what_is_gone() {
        for is_more_gone in [false, true] {
            let disk = SimDisk::new(1);
            let directory = Directory::create(Arc::new(disk.clone())).unwrap();
            let (all, effect) = promised(&directory, 1..500).unwrap();
            directory.append_with(&all, effect).unwrap();
            disk.set_capacity(disk.used_bytes());
            let filled = (500..).find(|pid| promised(&directory, *pid..pid + 1).is_err()).unwrap();
            let frees: Vec<_> = (1..100).map(|pid| Entry::Free(PageId(pid))).collect();
            let gone = if is_more_gone { 0 } else { 99 * entry_bytes(1000) };
            directory.append_with(&frees, Effect { first: 0, gone, is_more_gone }).unwrap();
            let (entries, effect) = promised(&directory, filled..filled + 90).unwrap();
            assert!(promised(&directory, 0..20).is_err());
            directory.append_with(&entries, effect).unwrap();
        }
    }

    /// The files become shorter with what is in them.
    #[test]
    fn what_is_no_longer_needed_is_given_up() {
        let disk = SimDisk::new(1);
        let directory = Directory::create(Arc::new(disk.clone())).unwrap();
        let used = disk.used_bytes();
        assert!(used < 600 << 10, "{used} bytes for an empty one");
        let (all, effect) = promised(&directory, 1..2000).unwrap();
        directory.append_with(&all, effect).unwrap();
        assert!(disk.used_bytes() > 8 << 20);
        let frees: Vec<_> = (1..2000).map(|pid| Entry::Free(PageId(pid))).collect();
        directory.append_with(&frees, Effect { first: 0, gone: effect.first, is_more_gone: false }).unwrap();
        let before = newest(&disk);
        while newest(&disk) == before {
            directory.append(&frees).unwrap();
        }
        let before = newest(&disk);
        while newest(&disk) == before {
            directory.append(&frees).unwrap();
        }
        assert!(disk.used_bytes() <= used + (512 << 10), "{} bytes", disk.used_bytes());
    }

    /// A database of an earlier version has no file to be rewritten to, and a full disk none either.
    #[test]
    fn a_rewrite_on_a_full_disk_leaves_nothing() {
        let disk = SimDisk::new(1);
        let (all, base) = {
            let directory = Directory::create(Arc::new(disk.clone())).unwrap();
            let (all, effect) = promised(&directory, 1..500).unwrap();
            directory.append_with(&all, effect).unwrap();
            (all, newest(&disk))
        };
        disk.remove(TEMPORARY).unwrap();
        let room = disk.open(&base, Access::Buffered, false).unwrap().len().unwrap();
        disk.set_capacity(disk.used_bytes() + (100 << 10));
        let (directory, _) = Directory::open(Arc::new(disk.clone())).unwrap();
        assert!(matches!(directory.promise(), Err(Error::Full { .. })));
        let refused = (0..).find_map(|_| directory.append(&all[..100]).err()).unwrap();
        assert!(matches!(refused, Error::Full { .. }), "{refused}");
        let len = |name: &str| disk.open(name, Access::Buffered, false).unwrap().len().unwrap();
        assert!(len(&base) >= room && len(TEMPORARY) == 0 && newest(&disk) == base);
        disk.set_capacity(u64::MAX);
        directory.append(&all[..100]).unwrap();
        directory.append(&all[..100]).unwrap();
        assert_ne!(newest(&disk), base, "now it is rewritten");
        directory.promise().unwrap();
    }

    /// A rewrite whose file gets no name is put off, as on a full disk. It needs no descriptor.
    #[test]
    fn a_rewrite_that_changed_nothing_is_put_off() {
        use foreshore_io::sim::{Call, Intercepted};
        for (refused, error) in [(Call::Rename, libc::ENOSPC), (Call::Open, libc::EMFILE)] {
            let (model, disk) = (model(1, 60), SimDisk::new(1));
            let is_refused = Arc::new(AtomicBool::new(false));
            let refuses = is_refused.clone();
            let vfs = Intercepted::new(disk.clone(), move |call, _, go| {
                match call == refused && refuses.load(Relaxed) {
                    true => Err(std::io::Error::from_raw_os_error(error)),
                    false => go(),
                }
            });
            let directory = Directory::create(Arc::new(vfs)).unwrap();
            let (base, (first, rest)) = (newest(&disk), model.batches.split_at(40));
            is_refused.store(true, Relaxed);
            first.iter().for_each(|batch| directory.append(batch).unwrap());
            assert_eq!(newest(&disk) != base, refused == Call::Open);
            is_refused.store(false, Relaxed);
            rest.iter().for_each(|batch| directory.append(batch).unwrap());
            assert_ne!(newest(&disk), base, "now it is");
            reopened_at(&disk.after_crash(Crash::PowerLoss, 1), &model, 60, "afterwards");
        }
    }

    /// What a rewrite that is put off has cut off its file is not reserved any more.
    #[test]
    fn a_rewrite_that_is_put_off_may_leave_less_room() {
        use foreshore_io::sim::{Call, Intercepted};
        let disk = SimDisk::new(1);
        let refuses = Arc::new(AtomicBool::new(false));
        let (is_refused, tried) = (refuses.clone(), Arc::new(AtomicBool::new(false)));
        let is_tried = tried.clone();
        let vfs = Intercepted::new(disk.clone(), move |call, _, go| {
            if call != Call::Rename || !is_refused.load(Relaxed) {
                return go();
            }
            is_tried.store(true, Relaxed);
            Err(std::io::Error::from_raw_os_error(libc::ENOSPC))
        });
        let directory = Directory::create(Arc::new(vfs)).unwrap();
        let (all, effect) = promised(&directory, 1..2000).unwrap();
        directory.append_with(&all, effect).unwrap();
        let frees: Vec<_> = (1..2000).map(|pid| Entry::Free(PageId(pid))).collect();
        directory.append_with(&frees, Effect { first: 0, gone: effect.first, is_more_gone: false }).unwrap();
        refuses.store(true, Relaxed);
        while !tried.load(Relaxed) {
            directory.append(&frees).unwrap();
        }
        refuses.store(false, Relaxed);
        disk.set_capacity(disk.used_bytes());
        let more = (2000..).map_while(|pid| promised(&directory, pid..pid + 1).ok());
        let more: Vec<_> = more.collect();
        for (entries, effect) in more {
            directory.append_with(&entries, effect).expect("it was promised");
        }
    }

    /// The next file may have got its name though that failed, or keep it though it is not known to be durable: it is what the next open
    /// reads, so it stays whole. Not so if it were cut to the room that a full disk had for it before.
    #[test]
    fn a_file_that_may_have_its_name_stays_whole() {
        use foreshore_io::sim::{Call, Intercepted};
        for failing in [Call::Rename, Call::SyncDir] {
            let disk = SimDisk::new(1);
            let all = {
                let directory = Directory::create(Arc::new(disk.clone())).unwrap();
                let (all, effect) = promised(&directory, 1..500).unwrap();
                directory.append_with(&all, effect).unwrap();
                all
            };
            disk.remove(TEMPORARY).unwrap();
            disk.set_capacity(disk.used_bytes());
            let fails = Arc::new(AtomicBool::new(false));
            let its = fails.clone();
            let vfs = Intercepted::new(disk.clone(), move |call, name, go| {
                let error = || std::io::Error::from_raw_os_error(libc::EIO);
                let is_failing = its.load(Relaxed);
                if is_failing && call == Call::Rename && name != TEMPORARY {
                    return Err(error()); // it keeps the name
                }
                let done = go();
                if is_failing && call == failing { Err(error()) } else { done }
            });
            let (directory, before) = Directory::open(Arc::new(vfs)).unwrap();
            let base = newest(&disk);
            (0..8).for_each(|_| directory.append(&all[..100]).unwrap());
            assert_eq!(newest(&disk), base, "it would have been rewritten");
            disk.set_capacity(u64::MAX);
            fails.store(true, Relaxed);
            let refused = directory.append(&all[..100]);
            assert!(matches!(refused, Err(Error::Poisoned { .. })), "{refused:?}");
            assert_ne!(newest(&disk), base);
            drop(directory);
            let (_, after) = Directory::open(Arc::new(disk.after_crash(Crash::ProcessKill, 1))).unwrap();
            assert_eq!(after, before, "{failing:?}");
        }
    }

    /// A full disk leaves the directory as it was, and usable; any other failure ends its use.
    #[test]
    fn failures_leave_no_doubt() {
        use foreshore_io::sim::{Fault, Repeat};
        for seed in seeds(2) {
            let model = model(seed, 30);
            let whole = SimDisk::new(seed);
            append_all(&whole, &model);
            for event in 0..whole.events() {
                for fault in [Fault::Eio, Fault::Enospc, Fault::ShortWrite] {
                    let disk = SimDisk::new(seed);
                    disk.fail_at(event, fault, Repeat::Once);
                    fail_once(&disk, &model, &format!("seed {seed}, event {event}, {fault:?}"));
                }
            }
        }
    }

    fn fail_once(disk: &SimDisk, model: &Model, context: &str) {
        let Ok(directory) = Directory::create(Arc::new(disk.clone())) else { return };
        let mut known = 0;
        while let Some(batch) = model.batches.get(known) {
            match directory.append(batch) {
                Ok(()) => known += 1,
                Err(Error::Full { .. }) => {} // try again
                Err(Error::Poisoned { cause }) => {
                    assert!(!cause.contains("reads still work"), "{context}: {cause}");
                    assert!(matches!(directory.append(batch), Err(Error::Poisoned { .. })), "{context}");
                    break;
                }
                Err(other) => panic!("{context}: {other}"),
            }
        }
        let after = disk.after_crash(Crash::PowerLoss, 1);
        reopened_at(&after, model, known, context);
    }
}
