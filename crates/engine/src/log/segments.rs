//! The files of the log: prepared before they are needed, recycled when nobody needs them.
//!
//! Segment `n` holds the LSNs `n × segment_bytes ..` in a file named after `n`. A new one is really written with zeros
//! and synced, so that a later sync of a record need not touch the file's metadata; then it gets its name, and the
//! directory is synced. An old one becomes a new one by a rename: its stale records are refused by their checksums.
//!
//! Those that are kept to be recycled are given up when something else finds no space.
//!
//! A thread keeps segments prepared ahead of the writers. On a full disk, or with too many files open, writers are told by
//! [`Segments::wait_prepared`] before they change anything; each such call waits for an attempt begun after it.
//!
//! Invariants:
//! - S1: a segment that has its name has its full length, durably. While the log is running it has no holes.
//! - S2: flights write only to segments that have their name.
//! - S3: names appear in ascending order, so a missing segment below an existing one is damage, not the end of the log.

use super::POSITIONS;
use super::options::LogOptions;
use super::poison::Poison;
use super::record::BIRTH_BYTES;
use crate::error::{Error, Result};
use crate::file_names::{number_in, numbered, numbers};
use foreshore_base::sync::Ordering::{Acquire, Relaxed, Release};
use foreshore_base::sync::{AtomicBool, AtomicU64};
use foreshore_base::{Lsn, seeded_bug};
use foreshore_io::{Access, AlignedBuf, File, Vfs};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const PREFIX: &str = "wal-";

/// A segment in the making.
const UNNAMED: &str = "wal-new";

/// Unneeded segments that are kept to be renamed, however short the log is to be.
const SPARES_MIN: usize = 2;

/// Positions that are left to openings when the writers' are used up: so the database can still be compacted, whose copy begins
/// at 0 again.
const POSITIONS_KEPT: u64 = 1 << 43;

/// How long a flight waits for a file descriptor before the log stops …
const PATIENCE: Duration = Duration::from_secs(30);

/// … and how long between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// Zeros are written in pieces of this many bytes.
const ZEROS_BYTES: usize = 1 << 20;

/// The file name of segment `n`.
pub(super) fn name(n: u64) -> String {
    numbered(PREFIX, n)
}

/// Is this a segment, or one in the making?
pub(super) fn is_file(name: &str) -> bool {
    name == UNNAMED || number_in(name, PREFIX).is_some()
}

/// The numbers of all segments in the directory.
pub(super) fn list(vfs: &dyn Vfs) -> Result<BTreeSet<u64>> {
    numbers(vfs, PREFIX)
}

/// Opens segment `n` for direct transfers; `None` if there is no such file.
///
/// Errors: [`Error::Corrupt`] if it has not its full length (S1).
pub(super) fn open(vfs: &dyn Vfs, n: u64, segment_bytes: u64) -> Result<Option<Arc<dyn File>>> {
    let failed = |e| Error::io(format!("opening {}", name(n)), &e);
    let file = match vfs.open(&name(n), Access::Direct, false) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(failed)?,
    };
    match file.len().map_err(failed)? {
        len if len == segment_bytes => Ok(Some(file)),
        len => Err(Error::corrupt(name(n), format!("it has {len} bytes instead of {segment_bytes}"))),
    }
}

/// The same for one that must be there.
pub(super) fn open_existing(vfs: &dyn Vfs, n: u64, segment_bytes: u64) -> Result<Arc<dyn File>> {
    open(vfs, n, segment_bytes)?.ok_or_else(|| Error::corrupt(name(n), "it is missing"))
}

/// What of a run of bytes lies in one segment.
pub(super) struct Piece {
    /// The segment.
    pub n: u64,
    /// Where in it.
    pub offset: u64,
    /// Which of the bytes.
    pub bytes: Range<usize>,
}

/// The `len` bytes from `start` on, segment by segment.
pub(super) fn pieces(start: Lsn, len: usize, segment_bytes: u64) -> impl Iterator<Item = Piece> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let (from, at) = (done, start.0 + done as u64);
        let (n, offset) = (at / segment_bytes, at % segment_bytes);
        done += (len - from).min((segment_bytes - offset) as usize);
        (done > from).then_some(Piece { n, offset, bytes: from..done })
    })
}

impl Piece {
    /// Writes this piece of `run` to the segment's file, and syncs that.
    pub fn write(self, file: &dyn File, run: &[u8]) -> Result<()> {
        let Self { n, offset, bytes } = self;
        let written = file.write_at(&run[bytes], offset).and_then(|()| file.sync());
        written.map_err(|e| Error::io(format!("writing {} at {offset}", name(n)), &e))
    }

    /// Reads this piece of `run` from the segment's file.
    pub fn read(self, file: &dyn File, run: &mut [u8]) -> Result<()> {
        let Self { n, offset, bytes } = self;
        let read = file.read_at(&mut run[bytes], offset);
        read.map_err(|e| Error::io(format!("reading {} at {offset}", name(n)), &e))
    }
}

/// Makes segment `n`: from the file of segment `recycled`, or new.
///
/// Errors: a shortage leaves nothing behind and may be tried again; after any other, nobody knows what is durable.
pub(super) fn prepare(vfs: &dyn Vfs, n: u64, segment_bytes: u64, recycled: Option<u64>) -> Result<()> {
    let whole = recycled.map(|old| whole(vfs, old, segment_bytes)).transpose()?.flatten();
    let made = match whole {
        Some(old) => vfs.rename(&name(old), &name(n)),
        None => {
            let made = write_zeros(vfs, segment_bytes).and_then(|()| vfs.rename(UNNAMED, &name(n)));
            made.inspect_err(|_| _ = vfs.remove(UNNAMED))
        }
    };
    made.map_err(|e| Error::io(format!("log segment {}", name(n)), &e))?;
    sync_names(vfs).inspect_err(|_| _ = vfs.remove(&name(n))) // N1 in `dir_syncs.rs`: nobody has written to it
}

/// The unneeded segment `n`, if it has its full length, and then without holes (S1). Otherwise it is removed: nobody misses it.
///
/// Errors: a shortage, of which nothing follows.
fn whole(vfs: &dyn Vfs, n: u64, segment_bytes: u64) -> Result<Option<u64>> {
    let found = open(vfs, n, segment_bytes)
        .and_then(|found| found.map(|file| fill_holes(&*file, n, segment_bytes)).transpose());
    match found {
        Ok(found) => Ok(found.map(|()| n)),
        Err(error) if error.is_shortage() => Err(error),
        Err(_) => {
            let _ = vfs.remove(&name(n));
            Ok(None)
        }
    }
}

/// Segment `n` may have holes in a copied database, whose place others may take.
fn fill_holes(file: &dyn File, n: u64, segment_bytes: u64) -> Result<()> {
    file.allocate(segment_bytes).map_err(|e| Error::io(format!("the holes of {}", name(n)), &e))
}

/// Makes the names of all segments durable.
///
/// A process that died between naming a segment and syncing the directory leaves a name that power loss can take, so
/// whoever finds segments calls this before anything in them counts.
///
/// Errors: I/O, never a shortage: a sync is not tried again.
pub(super) fn sync_names(vfs: &dyn Vfs) -> Result<()> {
    vfs.sync_dir().map_err(|e| Error::final_io(format!("syncing {}", vfs.describe()), &e))
}

fn write_zeros(vfs: &dyn Vfs, segment_bytes: u64) -> std::io::Result<()> {
    let file = vfs.open(UNNAMED, Access::Direct, true)?;
    file.set_len(0)?;
    file.allocate(segment_bytes)?; // what there is no space for takes none from others
    let zeros = AlignedBuf::zeroed(ZEROS_BYTES.min(segment_bytes as usize));
    let mut at = 0;
    while at < segment_bytes {
        let bytes = (segment_bytes - at).min(zeros.len() as u64);
        file.write_at(&zeros[..bytes as usize], at)?;
        at += bytes;
    }
    file.sync()
}

/// The segments of a running log.
pub(super) struct Segments {
    vfs: Arc<dyn Vfs>,
    options: LogOptions,
    poison: Arc<Poison>,
    prepared_end: AtomicU64,
    /// The last attempt to prepare one met a shortage.
    are_short: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The next segment to prepare.
    next: u64,
    /// How far somebody wants segments to be prepared.
    wanted_end: u64,
    /// Segments below the first prepared one that still hold needed records.
    old: BTreeSet<u64>,
    /// Segments that nobody needs.
    spares: Vec<u64>,
    /// Those of them that the disk refused to remove. They are not recycled: it might refuse to rename them too.
    refused: Vec<u64>,
    /// Attempts to prepare a segment that were begun; there is one at a time.
    attempts: u64,
    /// None is to be begun.
    held_back: bool,
    /// The last attempt, if it failed: its number and reason.
    failed: Option<(u64, Error)>,
    stopped: bool,
}

impl Segments {
    /// Takes stock of the directory, and prepares what a log that begins at `start` needs first. On a full disk what there is will
    /// do: rows can be read, and who logs is told by [`Segments::wait_prepared`]. There must be one, or the next open would miss
    /// it. A new log needs all: its creation holds the names.
    pub fn open(vfs: Arc<dyn Vfs>, options: LogOptions, poison: Arc<Poison>, start: Lsn) -> Result<Self> {
        let segment_bytes = options.segment_bytes;
        let first = start.0 / segment_bytes;
        if vfs.list().is_ok_and(|names| names.iter().any(|name| name == UNNAMED)) {
            // Who was making it was killed, and the next one may be made of one that is there.
            let _ = vfs.remove(UNNAMED);
        }
        let existing = list(&*vfs)?;
        if !existing.is_empty() && !seeded_bug("log_name_not_synced") {
            sync_names(&*vfs)?;
        }
        let mut next = first;
        while existing.contains(&next)
            && let Some(file) = open(&*vfs, next, segment_bytes)?
        {
            fill_holes(&*file, next, segment_bytes)?;
            next += 1;
        }
        while next * segment_bytes < start.0 + BIRTH_BYTES as u64 + options.ring() {
            match prepare(&*vfs, next, segment_bytes, None) {
                Err(Error::Full { .. }) if start > Lsn::ZERO && !existing.is_empty() => break,
                prepared => prepared?,
            }
            next += 1;
        }
        let state = State {
            next,
            wanted_end: 0,
            old: existing.into_iter().filter(|n| *n < next).chain(first..next).collect(),
            spares: Vec::new(),
            refused: Vec::new(),
            attempts: 0,
            held_back: false,
            failed: None,
            stopped: false,
        };
        let prepared_end = AtomicU64::new(next * segment_bytes);
        Ok(Self {
            vfs,
            options,
            poison,
            prepared_end,
            are_short: AtomicBool::new(false),
            state: Mutex::new(state),
            changed: Condvar::new(),
        })
    }

    /// Where the segments are.
    pub fn vfs(&self) -> Arc<dyn Vfs> {
        self.vfs.clone()
    }

    /// The end of the last prepared segment.
    #[inline]
    pub fn prepared_end(&self) -> Lsn {
        Lsn(self.prepared_end.load(Acquire))
    }

    /// Was there no space, or no descriptor, for the next one?
    #[inline]
    pub fn are_short(&self) -> bool {
        self.are_short.load(Relaxed)
    }

    /// Asks for segments up to `end`, and waits for nothing. After a failure only those who wait ask again.
    pub fn want(&self, end: Lsn) {
        if self.prepared_end() >= end {
            return;
        }
        let mut state = self.state.lock();
        if state.failed.is_none() && state.wanted_end < end.0 {
            state.wanted_end = end.0;
            self.changed.notify_all();
        }
    }

    /// Waits until segments are prepared up to `end`.
    ///
    /// Errors: [`Error::Full`] or [`Error::TooManyFiles`] if an attempt begun after this call met that; [`Error::Poisoned`].
    pub fn wait_prepared(&self, end: Lsn) -> Result<()> {
        if self.prepared_end() >= end {
            return Ok(());
        }
        let mut state = self.state.lock();
        let before = state.attempts;
        loop {
            if self.prepared_end() >= end {
                return Ok(());
            }
            self.poison.check()?;
            if let Some((attempt, error)) = &state.failed
                && *attempt > before
            {
                return Err(error.clone());
            }
            if state.wanted_end < end.0 {
                state.wanted_end = end.0;
                self.changed.notify_all();
            }
            self.changed.wait(&mut state);
        }
    }

    /// Whether no segments are prepared for now, whoever asks for them.
    pub fn hold_back(&self, held: bool) {
        self.state.lock().held_back = held;
        self.changed.notify_all();
    }

    /// Gives up the segments that lie below `lsn` whole. They are kept to be recycled as far as all segments together
    /// have `bytes_kept`, and otherwise removed.
    pub fn truncate(&self, lsn: Lsn, bytes_kept: u64) {
        let mut removed;
        {
            let mut state = self.state.lock();
            removed = mem::take(&mut state.refused);
            let needed = state.old.split_off(&(lsn.0 / self.options.segment_bytes));
            let unneeded = mem::replace(&mut state.old, needed);
            state.spares.extend(unneeded);
            let kept = (bytes_kept / self.options.segment_bytes) as usize;
            let spares = kept.saturating_sub(state.old.len()).max(SPARES_MIN);
            while state.spares.len() > spares {
                removed.extend(state.spares.pop());
            }
        }
        self.remove(removed);
    }

    /// Does a segment lie below `lsn` whole that still counts as needed?
    pub fn has_below(&self, lsn: Lsn) -> bool {
        self.state.lock().old.range(..lsn.0 / self.options.segment_bytes).next().is_some()
    }

    /// The first segment that counts as needed.
    pub fn first_needed(&self) -> u64 {
        let state = self.state.lock();
        state.old.first().copied().unwrap_or(state.next)
    }

    /// Removes what is kept to be recycled; `false` if that gave no space.
    pub fn give_up_spares(&self) -> bool {
        let mut state = self.state.lock();
        let mut removed = mem::take(&mut state.refused);
        removed.append(&mut state.spares);
        drop(state);
        self.remove(removed)
    }

    /// Removes the files of segments that nobody needs; is any gone? Whoever does so next tries once more with those that the
    /// disk refuses to remove.
    fn remove(&self, segments: Vec<u64>) -> bool {
        let is_refused = |n: &u64| {
            let removed = self.vfs.remove(&name(*n));
            removed.is_err_and(|e| e.kind() != ErrorKind::NotFound)
        };
        let (refused, gone): (Vec<_>, Vec<_>) = segments.into_iter().partition(is_refused);
        self.state.lock().refused.extend(refused);
        !gone.is_empty()
    }

    /// Opens segment `n` for a flight, waiting until it is prepared, and for a while until there is a descriptor for it: too many
    /// open files are soon fewer, and nothing is lost meanwhile.
    pub fn open_for_writing(&self, n: u64) -> Result<Arc<dyn File>> {
        let until = Instant::now() + PATIENCE;
        loop {
            self.poison.check()?;
            let prepared = self.wait_prepared(Lsn((n + 1) * self.options.segment_bytes));
            match prepared.and_then(|()| open_existing(&*self.vfs, n, self.options.segment_bytes)) {
                Err(Error::TooManyFiles { .. }) if Instant::now() < until => thread::sleep(PAUSE),
                opened => return opened,
            }
        }
    }

    /// The work of the thread that prepares segments, until the log stops.
    ///
    /// Errors: what leaves nobody knowing what is durable; the caller stops the log.
    pub fn keep(&self) -> Result<()> {
        let mut state = self.state.lock();
        while !state.stopped {
            if state.held_back || state.next * self.options.segment_bytes >= state.wanted_end {
                self.changed.wait(&mut state);
                continue;
            }
            let (n, recycled) = state.begin_attempt();
            let prepared = MutexGuard::unlocked(&mut state, || {
                self.ensure_positions(n)?;
                prepare(&*self.vfs, n, self.options.segment_bytes, recycled)
            });
            self.finish(&mut state, n, recycled, prepared)?;
        }
        Ok(())
    }

    fn ensure_positions(&self, n: u64) -> Result<()> {
        match (n + 1) * self.options.segment_bytes > POSITIONS - POSITIONS_KEPT {
            true => Err(Error::Full {
                what: "the log, whose 2 PiB of positions are used up: compact the database".into(),
            }),
            false => Ok(()),
        }
    }

    fn finish(&self, state: &mut State, n: u64, recycled: Option<u64>, prepared: Result<()>) -> Result<()> {
        self.changed.notify_all();
        self.are_short.store(prepared.is_err(), Relaxed);
        match prepared {
            Ok(()) => {
                state.next = n + 1;
                state.old.insert(n);
                state.failed = None;
                self.prepared_end.store((n + 1) * self.options.segment_bytes, Release);
                Ok(())
            }
            Err(error) => {
                state.wanted_end = 0; // whoever still wants it asks again
                state.failed = Some((state.attempts, error.clone()));
                state.spares.splice(..0, recycled); // the next attempt is made with another one
                if error.is_shortage() { Ok(()) } else { Err(error) }
            }
        }
    }

    /// Ends the thread, and wakes whoever waits: the poison is set.
    pub fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_all();
    }
}

impl State {
    /// The segment to prepare next, and an unneeded one to make it from, if there is any.
    fn begin_attempt(&mut self) -> (u64, Option<u64>) {
        self.attempts += 1;
        (self.next, self.spares.pop())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::SMALL;
    use super::*;
    use foreshore_io::sim::{Call, Fault, Intercepted, Repeat};
    use foreshore_io::{BLOCK_BYTES, SimDisk};
    use std::thread;
    use std::time::Duration;

    const UNNEEDED: u64 = 20;

    /// Segments of a log that begins behind [`UNNEEDED`] ones.
    fn behind_unneeded(disk: &SimDisk) -> (Segments, Lsn) {
        for n in 0..UNNEEDED {
            prepare(disk, n, SMALL.segment_bytes, None).unwrap();
        }
        let start = Lsn(UNNEEDED * SMALL.segment_bytes);
        let segments = Segments::open(Arc::new(disk.clone()), SMALL, Arc::default(), start).unwrap();
        (segments, start)
    }

    fn unneeded(disk: &SimDisk) -> u64 {
        list(disk).unwrap().range(..UNNEEDED).count() as u64
    }

    /// Others would find the disk full, for as long as it takes to fill it and to give it back.
    #[test]
    fn what_there_is_no_space_for_takes_none() {
        let disk = SimDisk::new(1);
        disk.set_capacity(SMALL.segment_bytes - BLOCK_BYTES as u64);
        let its = disk.clone();
        let vfs = Intercepted::new(disk, move |call, _, go| {
            assert!(call != Call::Write && its.used_bytes() == 0, "{call:?} of {} bytes", its.used_bytes());
            go()
        });
        let refused = prepare(&vfs, 0, SMALL.segment_bytes, None);
        assert!(matches!(refused, Err(Error::Full { .. })), "{refused:?}");
    }

    /// What the disk refuses to remove goes the next time, and keeps nothing else from going now.
    #[test]
    fn what_could_not_be_removed_is_tried_again() {
        let spares = SPARES_MIN as u64;
        for refused in 0..UNNEEDED - spares {
            let disk = SimDisk::new(1);
            let (segments, start) = behind_unneeded(&disk);
            disk.fail_at(disk.events() + refused, Fault::Enospc, Repeat::Once);
            segments.truncate(start, 0);
            assert_eq!(unneeded(&disk), spares + 1);
            segments.truncate(start, 0);
            assert_eq!(unneeded(&disk), spares);

            disk.fail_at(disk.events() + refused % spares, Fault::Enospc, Repeat::Once);
            assert!(segments.give_up_spares(), "the others gave space");
            assert_eq!(unneeded(&disk), 1);
            disk.fail_at(disk.events(), Fault::Enospc, Repeat::Once);
            assert!(!segments.give_up_spares(), "the last one is refused again");
            assert!(segments.give_up_spares());
            assert_eq!(unneeded(&disk), 0);
            assert!(!segments.give_up_spares(), "there is nothing left");
        }
    }

    /// A disk that refuses to remove a file may refuse to rename it, which would stop the log.
    #[test]
    fn what_could_not_be_removed_is_not_recycled() {
        let disk = SimDisk::new(1);
        let (segments, _) = behind_unneeded(&disk);
        segments.state.lock().spares.push(0);
        disk.fail_at(disk.events(), Fault::Enospc, Repeat::Once);
        assert!(!segments.give_up_spares());
        assert_eq!(segments.state.lock().spares, []);
    }

    /// A file that cannot be opened for the moment is not one that nobody misses: there may be no space for another.
    #[test]
    fn a_spare_outlives_a_shortage_of_descriptors() {
        let disk = SimDisk::new(1);
        prepare(&disk, 0, SMALL.segment_bytes, None).unwrap();
        let short = Intercepted::new(disk.clone(), |call, _, go| match call {
            Call::Open => Err(std::io::Error::from_raw_os_error(libc::EMFILE)),
            _ => go(),
        });
        let refused = prepare(&short, 1, SMALL.segment_bytes, Some(0));
        assert!(matches!(refused, Err(Error::TooManyFiles { .. })), "{refused:?}");
        disk.set_capacity(disk.used_bytes());
        prepare(&disk, 1, SMALL.segment_bytes, Some(0)).unwrap();
        assert!(list(&disk).unwrap().into_iter().eq([1]));
    }

    /// One that a sparse copy has left with holes is recycled when there is space for them; other ones are until then.
    #[test]
    fn a_spare_with_holes_waits_for_space() {
        let disk = SimDisk::new(1);
        let segments = Segments::open(Arc::new(disk.clone()), SMALL, Arc::default(), Lsn::ZERO).unwrap();
        let attempt = || {
            let (n, recycled) = segments.state.lock().begin_attempt();
            let prepared = prepare(&disk, n, SMALL.segment_bytes, recycled);
            segments.finish(&mut segments.state.lock(), n, recycled, prepared.clone()).unwrap();
            prepared
        };
        prepare(&disk, UNNEEDED, SMALL.segment_bytes, None).unwrap();
        let sparse = disk.open(&name(UNNEEDED + 1), Access::Direct, true).unwrap();
        sparse.set_len(SMALL.segment_bytes).unwrap();
        segments.state.lock().spares.extend([UNNEEDED, UNNEEDED + 1]);
        disk.set_capacity(disk.used_bytes());
        let full = attempt();
        assert!(matches!(full, Err(Error::Full { .. })), "{full:?}");
        attempt().unwrap();
        let full = attempt();
        assert!(matches!(full, Err(Error::Full { .. })), "{full:?}");
        disk.set_capacity(disk.used_bytes() + SMALL.segment_bytes);
        attempt().unwrap();
        assert_eq!(segments.state.lock().spares, []);
    }

    /// What a killed process was making gives its space back.
    #[test]
    fn one_in_the_making_does_not_stay() {
        let disk = SimDisk::new(1);
        let open = || drop(Segments::open(Arc::new(disk.clone()), SMALL, Arc::default(), Lsn::ZERO).unwrap());
        open();
        write_zeros(&disk, SMALL.segment_bytes).unwrap();
        open(); // there are enough of them
        assert!(!disk.list().unwrap().iter().any(|name| name == UNNAMED));
    }

    /// Nothing happens to the names while that is asked for, and then what was wanted meanwhile.
    #[test]
    fn none_is_prepared_while_they_are_held_back() {
        let disk = SimDisk::new(1);
        let segments = Segments::open(Arc::new(disk.clone()), SMALL, Arc::default(), Lsn::ZERO).unwrap();
        let end = segments.prepared_end() + 3 * SMALL.segment_bytes;
        segments.hold_back(true);
        segments.want(end);
        let before = disk.events();
        thread::scope(|scope| {
            scope.spawn(|| segments.keep());
            thread::sleep(Duration::from_millis(20));
            assert_eq!(disk.events(), before);
            segments.hold_back(false);
            segments.wait_prepared(end).unwrap();
            segments.stop();
        });
    }

    /// An attempt that is under way when somebody asks, and fails, says nothing to him: he may have made room since it began.
    #[test]
    fn a_full_disk_is_told_of_an_attempt_begun_since() {
        let segments = Segments::open(Arc::new(SimDisk::new(1)), SMALL, Arc::default(), Lsn::ZERO).unwrap();
        let end = segments.prepared_end() + 1;
        let (n, recycled) = segments.state.lock().begin_attempt();
        thread::scope(|scope| {
            let asked = scope.spawn(|| segments.wait_prepared(end));
            while segments.state.lock().wanted_end < end.0 {
                thread::yield_now();
            }
            let full = Err(Error::Full { what: "a test".into() });
            segments.finish(&mut segments.state.lock(), n, recycled, full).unwrap();
            scope.spawn(|| segments.keep());
            let told = asked.join().unwrap();
            segments.stop();
            assert!(told.is_ok(), "{told:?}");
        });
    }
}
