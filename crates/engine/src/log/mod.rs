//! The log: one stream of records, written by many threads, durable in order.
//!
//! A writer *reserves* its bytes with one `fetch_add`, which decides the order and may happen under a page latch;
//! *fills* them later, holding nothing; and *commits*, which waits as long as the durability asks. Flights carry whole
//! blocks of completed records from the ring to the segments: flushers see to them, and few committers to their own.
//!
//! ```text
//! reserve ──► fill ──► completed prefix ──► flight issued ──► synced: durable ──► ring zeroed: flushed
//! ```
//!
//! Source: Shore-MT (Johnson et al., EDBT 2009) §6.2.2, §6.2.4 and §7.4: inserts, copies and flushes do not wait for
//! each other. Differs: no mutex and no queue of inserters, but a counter and the records' own first words; the buffer
//! is a file mapping, so that completed records outlive the process.
//!
//! | file | concept |
//! |---|---|
//! | `ring.rs`, `memory.rs` | buffer, completion, completed prefix; the file that it is |
//! | `record.rs`, `options.rs` | record format, checksum, pads; measures of segments and ring |
//! | `durability.rs`, `flights.rs`, `carrier.rs`, `flusher.rs` | what a commit waits for; group commit |
//! | `doorbell.rs`, `waiters.rs` | how flushers hear of work, and commits of its end |
//! | `segments.rs`, `beginnings.rs` | files: preparing, recycling; which are missed when they are gone |
//! | `reader.rs`, `stored.rs`, `tail.rs` | reading the log, finding and repairing its end |
//! | `backward.rs` | single records, for rollbacks |
//! | `incarnation.rs` | why records of an earlier life are never resurrected |
//! | `poison.rs` | the first failure, which stops the log |
//!
//! Invariants (those of the parts are in their files):
//! - L1: `flushed ≤ durable ≤ issued ≤ completed ≤ reserved` at rest, each of them only growing. (`completed` may pass
//!   the end of a flight whose last record is cut.)
//! - L2: LSNs are dense: every byte between `start` and `reserved` belongs to exactly one record or pad.
//! - L3: a reservation made after [`Log::room`], or within what [`Log::ensure_room`] noted then, lies in prepared segments.
//!
//! Why L3 holds: `room` sees to prepared segments one ring ahead of the log's end. So all other writers would have to reserve a ring of bytes
//! between a writer's `room` and its `reserve`: at least eight times the longest record, and a hundred thousand times a usual one.
//! What makes the distance shorter:
//! - A transaction asks once for several records ([`Room`]), so that it does not visit the line of the log's end twice a record, and
//!   leaves the rest to the next one in its slot. Each may go beyond that by one record; where that may be long beside what it asked
//!   for, it asks for each record. All slots together leave three quarters of a ring.
//! - The pads of flights, which may be many times as much as the records. So where there was no space for the next segment, everybody
//!   asks for each record, and a block is kept back for each slot that is in use, since a commit does not ask. For rollbacks none are
//!   kept back: a large one may be told `Full` after thousands of flights, for whoever waits meanwhile, have closed their blocks.
//!
//! Beyond all this a flight waits for the segment to be prepared; if the disk is full then, the log stops with the reason, and nothing is
//! acknowledged falsely.

mod backward;
mod beginnings;
mod carrier;
mod doorbell;
mod durability;
mod flights;
mod flusher;
mod incarnation;
mod memory;
mod options;
mod poison;
mod reader;
mod record;
mod ring;
mod segments;
mod stored;
mod tail;
mod waiters;

#[cfg(test)]
mod tests;

pub(crate) use beginnings::{ensure_beginnings, ensure_file};
pub use durability::Durability;
pub(crate) use flights::Wanted;
pub(crate) use incarnation::Incarnation;
pub(crate) use memory::ensure_buffer;
pub(crate) use options::LogOptions;
pub(crate) use reader::{LogReader, Record};
pub(crate) use tail::repair_tail;
pub(crate) use waiters::TaskName;

use crate::error::{Error, Result};
use crate::pool::Wal;
use crate::stage;
use crate::threads::{Threads, is_of_an_engine};
use crate::txn::SLOTS;
use crate::waits::{Meter, Wait};
use crossbeam_utils::CachePadded;
use flights::Flights;
use foreshore_base::Lsn;
use foreshore_base::latch::assert_none_held;
use foreshore_base::sync::Ordering::{Relaxed, SeqCst};
use foreshore_base::sync::{AtomicBool, AtomicU64, Backoff};
use foreshore_io::Vfs;
use memory::Mapped;
use poison::Poison;
use record::{BIRTH_BYTES, HEADER_BYTES, Seal};
use ring::Ring;
use segments::Segments;
use std::process;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// No position of the log is as high: a record names another one by 48 bits, which count words (`txn/record.rs`). 2 PiB.
pub(crate) const POSITIONS: u64 = 1 << 51;

/// Is this a file of the log?
pub(crate) fn is_file(name: &str) -> bool {
    segments::is_file(name) || memory::is_file(name)
}

/// Removes the files of a log that nobody can read any more. Beside those of the log that follows they would look like a part of it,
/// behind a gap; and so would what its buffer holds.
pub(crate) fn discard(vfs: &dyn Vfs, options: LogOptions) -> Result<()> {
    memory::clear_file(vfs, options.ring())?;
    for name in segments::list(vfs)?.into_iter().map(segments::name) {
        vfs.remove(&name).map_err(|e| Error::io(format!("removing {name}"), &e))?;
    }
    segments::sync_names(vfs)
}

/// A running log.
pub(crate) struct Log {
    shared: Arc<Shared>,
}

/// What writers and flushers share.
struct Shared {
    options: LogOptions,
    start: Lsn,
    /// Begins each record's checksum, and is what the birth tells.
    salt: u64,
    seal: Seal,
    /// Is the birth written, or being written?
    is_born: AtomicBool,
    reserved: CachePadded<AtomicU64>,
    promised: CachePadded<Promised>,
    ring: Ring<Mapped>,
    flights: Flights,
    segments: Segments,
    poison: Arc<Poison>,
    threads: Threads,
    soon: CachePadded<Soon>,
    /// Waits for room in the ring, for segments to be prepared, and for commits to become durable.
    waits: Waits,
    /// That has the threads.
    process: u32,
}

/// Bytes that are kept back for the ends of transactions.
#[derive(Default)]
struct Promised {
    rollbacks: AtomicU64,
    commits: AtomicU64,
}

/// What `Buffered` commits asked of the flushers.
#[derive(Default)]
struct Soon {
    /// Commits up to here are in a flight that was asked for.
    asked: AtomicU64,
    /// Commits beyond it wait for the next nudge.
    lagging: AtomicBool,
}

/// What threads wait for here.
#[derive(Default)]
struct Waits {
    room: Meter,
    segment: Meter,
    flush: Meter,
}

/// Counts since the log was opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogStats {
    /// Bytes reserved, pads included.
    pub bytes: u64,
    /// Records on their way to the segments or there, pads not included.
    pub records: u64,
    /// Flights written and synced.
    pub syncs: u64,
    /// Commits that waited for a sync. Divided by `syncs`: the group size.
    pub waits: u64,
}

/// Bytes that a writer may still log before it asks for room again: see [`Log::ensure_room`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Room(pub u64);

impl Room {
    /// A record with a body of so many bytes was logged.
    #[inline]
    pub fn use_up(&mut self, body_len: usize) {
        self.0 = self.0.saturating_sub(record::footprint(body_len));
    }
}

/// A place in the log that must be filled with [`Log::fill`].
#[must_use = "a reserved place must be filled"]
pub(crate) struct Reservation<'a> {
    shared: &'a Shared,
    start: Lsn,
    body_len: usize,
    filled: bool,
    _old: stage::Guard,
}

impl Log {
    /// Starts the log as `incarnation`, which must be on record durably: the ring is zeroed, so whatever only it held
    /// must have been repaired (`repair_tail`) before.
    ///
    /// Errors: [`Error::Full`] if the first segments find no room; I/O.
    pub fn open(vfs: Arc<dyn Vfs>, options: LogOptions, incarnation: Incarnation) -> Result<Self> {
        let start = incarnation.start;
        assert!(start.0.is_multiple_of(options::BLOCK), "an incarnation begins at a block boundary");
        let memory = Mapped::open(&*vfs, &options)?;
        memory.clear();
        let poison = Arc::new(Poison::default());
        let shared = Arc::new(Shared {
            options,
            start,
            salt: incarnation.salt,
            seal: Seal::new(incarnation.salt),
            is_born: AtomicBool::new(false),
            reserved: CachePadded::new(AtomicU64::new(start.0 + BIRTH_BYTES as u64)),
            promised: CachePadded::default(),
            ring: Ring::new(memory, start),
            flights: Flights::new(start, &options),
            segments: Segments::open(vfs, options, poison.clone(), start)?,
            poison,
            threads: Threads::default(),
            soon: CachePadded::default(),
            waits: Waits::default(),
            process: process::id(),
        });
        let log = Self { shared };
        log.shared.start_threads()?;
        Ok(log)
    }

    /// The end of everything reserved so far.
    #[inline]
    pub fn reserved(&self) -> Lsn {
        self.shared.reserved()
    }

    /// The end of what somebody may have seen so far.
    pub fn logged(&self) -> Lsn {
        self.seen(self.reserved())
    }

    /// How far somebody relies on the log who has seen what is logged up to `end`: nobody has seen anything of a birth alone.
    pub fn seen(&self, end: Lsn) -> Lsn {
        let start = self.shared.start;
        if end > start + BIRTH_BYTES as u64 { end } else { end.min(start) }
    }

    /// Everything below this has left the buffer. Also a cheap stand-in for the log's end, as an age: the line of `reserved` is written
    /// by every writer, this one only by flights that land.
    #[inline]
    pub fn flushed(&self) -> Lsn {
        self.shared.ring.flushed()
    }

    /// Everything below this survives power loss.
    #[inline]
    pub fn durable(&self) -> Lsn {
        self.shared.flights.durable()
    }

    /// Errors: [`Error::Poisoned`] after a failed write or sync, or if it was closed.
    pub fn ensure_works(&self) -> Result<()> {
        self.shared.poison.check()
    }

    /// A forked process has a copy of what its parent knows of the files, and would write to the same places. Writes of rows end it
    /// (`foreshore_io::map`); what needs no new log record would not, and what waits for the log's threads would wait for ever.
    pub fn ensure_not_forked(&self) -> Result<()> {
        self.shared.ensure_not_forked()
    }

    /// Waits until there is room for one more record. To be called with nothing latched before each change, so that
    /// [`Log::reserve`] need not wait.
    ///
    /// Errors: [`Error::Full`], [`Error::TooManyFiles`] if there is no space, or no descriptor, for the next segment; nothing was
    /// changed, later calls try again. [`Error::Poisoned`] after a failed write or sync.
    #[inline]
    pub fn room(&self) -> Result<()> {
        assert_none_held("waiting for room in the log");
        let (shared, reserved) = (&*self.shared, self.reserved());
        let half_full = reserved > shared.ring.flushed() + shared.options.ring() / 2;
        let Promised { rollbacks, commits } = &*shared.promised;
        let promised = rollbacks.load(Relaxed) + commits.load(Relaxed);
        let wanted = reserved + shared.options.ring() + promised;
        let prepared = shared.segments.prepared_end() >= wanted;
        if !half_full && prepared && !shared.poison.is_set() {
            return Ok(());
        }
        shared.make_room(reserved, wanted)
    }

    /// Asks [`Log::room`] only when that is needed (L3), and then notes in `room` what may be logged before the next time. That is when
    /// - what was noted the last time is used up, however long ago that was; or
    /// - the record to come, of at most `longest` bytes, may be long beside what is noted; or
    /// - the disk had no space for the next segment: then the pads of flights count too, which may be larger than the records; or
    /// - the log has stopped.
    #[inline]
    pub fn ensure_room(&self, room: &mut Room, longest: usize) -> Result<()> {
        let part = self.shared.options.ring() / (4 * SLOTS as u64);
        let is_there = room.0 > 0 && longest as u64 <= 2 * part;
        if !is_there || self.shared.segments.are_short() || self.shared.poison.is_set() {
            self.room()?;
            *room = Room(part);
        }
        Ok(())
    }

    /// As [`Log::room`], for what undoes a change: it may use the space that was kept back for it, but not what was for commits.
    ///
    /// Errors: [`Error::Poisoned`]; [`Error::Full`] only beyond all that was promised.
    pub fn room_to_undo(&self) -> Result<()> {
        assert_none_held("waiting for room in the log");
        let (shared, reserved) = (&*self.shared, self.reserved());
        let commits = shared.promised.commits.load(Relaxed);
        shared.make_room(reserved, reserved + shared.options.ring() / 4 + commits)
    }

    /// How much a transaction may need for its rollback without a promise: all slots together a quarter of the ring that
    /// [`Log::room`] keeps back.
    pub fn undo_bytes_free(&self) -> u64 {
        self.shared.options.ring() / (4 * SLOTS as u64)
    }

    /// From now on [`Log::room`] keeps `bytes` more back for rollbacks.
    pub fn promise(&self, bytes: u64) {
        self.shared.promised.rollbacks.fetch_add(bytes, Relaxed);
    }

    /// From now on there may be so many transactions more at a time: each may be committed when there is no more room, by a record that
    /// closes a block.
    pub fn promise_commits(&self, transactions: usize) {
        self.shared.promised.commits.fetch_add(transactions as u64 * options::BLOCK, Relaxed);
    }

    /// Takes a promise back.
    pub fn redeem(&self, bytes: u64) {
        self.shared.promised.rollbacks.fetch_sub(bytes, Relaxed);
    }

    /// Takes the next `body_len` bytes (and a header). Never waits, and may be called under a page latch.
    ///
    /// Panics: if the body is empty or longer than [`LogOptions::body_bytes_max`].
    #[inline]
    pub fn reserve(&self, body_len: usize) -> Reservation<'_> {
        assert!(
            body_len > 0 && body_len <= self.shared.options.body_bytes_max(),
            "a record body of {body_len} bytes"
        );
        let _old = stage::enter(stage::Old::Log);
        // ORDERING: SeqCst is AcqRel and more: see `doorbell.rs`, and ARCHITECTURE ("The oldest LSN …").
        let start = Lsn(self.shared.reserved.fetch_add(record::footprint(body_len), SeqCst));
        self.shared.ring.prefetch(start, record::footprint(body_len));
        Reservation { shared: &self.shared, start, body_len, filled: false, _old }
    }

    /// Copies the record's body into its place and completes it. Holds nothing; waits while the ring is full. The first
    /// byte of the body is its kind, not 0.
    ///
    /// After the log was stopped by a failure the record may stay incomplete: it can never be committed.
    ///
    /// Panics: if the body is not as long as what was reserved.
    #[inline]
    pub fn fill(&self, reservation: Reservation<'_>, body: &[u8]) {
        assert_none_held("copying a log record");
        reservation.fill(body);
    }

    /// Waits until everything below `end` is as safe as `durability` promises.
    ///
    /// Errors: [`Error::Poisoned`] after a failed write or sync: whether the change survives is then open until the
    /// database is opened again.
    #[inline]
    pub fn commit(&self, end: Lsn, durability: Durability) -> Result<()> {
        assert_none_held("waiting for a commit");
        let shared = &*self.shared;
        if durability == Durability::Sync {
            let _old = stage::enter(stage::Old::Commit);
            return shared.wait_durable(end);
        }
        shared.poison.check()?;
        shared.wait_completed(end)?;
        if durability == Durability::Buffered {
            shared.flush_soon(end);
        } else if end > shared.ring.flushed() + shared.options.ring() / 2 {
            shared.flights.doorbell.mention();
        }
        Ok(())
    }

    /// As [`Log::commit`] with `Sync`, for a task: it is woken when it is worth asking again. Then, or sooner, it asks with no
    /// `flight`: that is one commit that waits. `known`: the task that asked last for the same `end`, if any did.
    pub fn poll_commit(
        &self,
        end: Lsn,
        flight: Option<Wanted>,
        task: &Waker,
        known: &mut Option<TaskName>,
    ) -> Poll<Result<()>> {
        let shared = &*self.shared;
        if shared.is_decided(end) {
            return Poll::Ready(shared.decision(end));
        }
        if let Err(forked) = shared.ensure_not_forked() {
            return Poll::Ready(Err(forked));
        }
        if let Some(flight) = flight {
            shared.want_durable(end, flight, shared.count_wait());
        }
        shared.flights.durable_waiters.enter_task(end, task, known);
        if shared.is_decided(end) { Poll::Ready(shared.decision(end)) } else { Poll::Pending }
    }

    /// Has what was reserved up to `end` on its way soon, as after a `Buffered` commit, without waiting for others who fill theirs.
    pub fn flush_soon(&self, end: Lsn) {
        self.shared.flush_soon(end);
    }

    /// Sends what `Buffered` commits left in the buffer on its way, and what waits for a flusher that is long at a task. To be called now
    /// and then.
    pub fn nudge(&self) {
        self.shared.flights.doorbell.remind();
        // ORDERING: before the load of `reserved`; see `flush_soon`.
        if self.shared.soon.lagging.swap(false, SeqCst) {
            self.shared.soon.asked.store(self.reserved().0, Relaxed);
            self.shared.flights.doorbell.mention();
        }
    }

    /// Gives up everything below `redo_lsn`: no recovery will read it, and that is durably on record. Files are kept to be
    /// written again as far as all of them have `bytes_kept`: a new one must be filled with zeros first, which makes the
    /// device write everything twice. Those that the disk refuses to remove are tried again the next time.
    pub fn truncate(&self, redo_lsn: Lsn, bytes_kept: u64) {
        self.shared.segments.truncate(redo_lsn.min(self.durable()), bytes_kept);
    }

    /// Is there no space, or no descriptor, for the next segment, while [`Log::truncate`] would give one up if it were called with what
    /// `needed_from` says?
    pub fn could_do_with_less(&self, needed_from: impl FnOnce() -> Lsn) -> bool {
        self.shared.segments.are_short() && self.shared.segments.has_below(needed_from())
    }

    /// Whether it changes no names in its directory for now. What is logged meanwhile must fit into the segments that there are.
    pub fn hold_names(&self, held: bool) {
        self.shared.segments.hold_back(held);
    }

    /// Bytes of its buffer.
    pub fn ring_bytes(&self) -> usize {
        self.shared.options.ring_bytes
    }

    /// Counts since the log was opened. Cheap.
    pub fn stats(&self) -> LogStats {
        let counts = &self.shared.flights.counts;
        LogStats {
            bytes: self.reserved() - self.shared.start,
            records: counts.records.load(Relaxed),
            syncs: counts.flights.load(Relaxed),
            waits: counts.waits.load(Relaxed),
        }
    }

    /// Where threads waited for the log.
    pub fn waits(&self) -> [Wait; 3] {
        let Waits { room, segment, flush } = &self.shared.waits;
        [room.read("log room"), segment.read("log segment"), flush.read("log flush")]
    }

    /// Makes everything reserved durable and stops the threads. Later calls of others get [`Error::Poisoned`].
    ///
    /// Errors: as [`Log::commit`]; the threads are stopped all the same.
    pub fn close(&self) -> Result<()> {
        let flushed = self.shared.wait_durable(self.reserved());
        self.stop();
        flushed
    }

    fn stop(&self) {
        self.shared.stop(Error::closed().as_cause());
        self.shared.threads.join_others(); // one that wakes a task may be the last to hold the database
        self.shared.flights.carriers.give_up();
    }
}

impl Wal for Log {
    fn wait_durable(&self, lsn: Lsn) -> Result<()> {
        let end = self.reserved();
        if lsn > end {
            // Nobody might ever log as much.
            let detail = format!("it holds changes up to LSN {lsn}, but the log ends at LSN {end}");
            return Err(Error::corrupt("a leaf", detail));
        }
        self.commit(lsn, Durability::Sync)
    }

    fn reserved(&self) -> Lsn {
        self.reserved()
    }

    fn poison(&self, cause: &Error) {
        self.shared.fail(cause);
    }

    fn give_space(&self) -> bool {
        let Shared { segments, flights, .. } = &*self.shared;
        flights.carriers.close_below(segments.first_needed());
        segments.give_up_spares()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn start_threads(self: &Arc<Self>) -> Result<()> {
        (0..options::FLIGHTS).try_for_each(|_| self.start_flusher())?;
        let shared = self.clone();
        self.start_thread("foreshore-segments", move || {
            if let Err(e) = shared.segments.keep() {
                shared.fail(&e);
            }
        })
    }

    fn start_flusher(self: &Arc<Self>) -> Result<()> {
        let shared = self.clone();
        self.start_thread("foreshore-log", move || flusher::run(&shared))
    }

    fn start_thread(self: &Arc<Self>, name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
        let shared = self.clone();
        let stop = move || shared.fail(&Error::Poisoned { cause: "a thread of the log panicked".into() });
        self.threads.start(name, run, stop)
    }

    /// A flusher is going to wait where it wakes a task. Somebody else carries flights meanwhile.
    fn leave_flights(self: &Arc<Self>) {
        if self.flights.doorbell.leave() && !self.poison.is_set() {
            self.flights.doorbell.enter();
            if self.start_flusher().is_err() {
                self.flights.doorbell.leave(); // the system has no thread left
            }
        }
    }

    #[inline]
    fn reserved(&self) -> Lsn {
        Lsn(self.reserved.load(SeqCst))
    }

    /// A commit up to `end` is to reach the disk, but nobody waits for it: a flight for every commit would cost each a
    /// wake-up and half a block of padding. So it leaves with a flight that is worth it, or at the next [`Log::nudge`].
    /// ("Worth it" is judged by what was asked for, not by what was issued: a flusher takes a while to wake up, and all
    /// who commit meanwhile would ask for one more flight each.)
    #[inline]
    fn flush_soon(&self, end: Lsn) {
        let worth_a_flight = self.options.flight_bytes_max();
        if end.0 > self.soon.asked.load(Relaxed) + worth_a_flight {
            self.soon.asked.store(end.0, Relaxed);
            self.flights.doorbell.mention();
        } else if !self.soon.lagging.load(SeqCst) {
            // ORDERING: SeqCst, as the `fetch_add` by which this commit was reserved before, and as the swap and the load of
            // `reserved` in `nudge`. Whoever finds `lagging` set comes, in the one order, before the swap that clears it, and
            // so does his `fetch_add`: that nudge asks for a flight that carries him. A Relaxed load may find it set after
            // that nudge. As the next one looks at `lagging` only, his commit would stay behind until another one came.
            self.soon.lagging.store(true, SeqCst);
        }
    }

    /// The slow part of [`Log::room`].
    #[cold]
    fn make_room(&self, reserved: Lsn, prepared: Lsn) -> Result<()> {
        self.poison.check()?;
        let half_full = reserved > self.ring.flushed() + self.options.ring() / 2;
        if half_full {
            // Not for want of segments: whoever is refused for that would have a pad written, at the cost of rollbacks.
            self.flights.doorbell.mention();
        }
        let nearly_full = self.options.ring() / 4 * 3;
        let flushed = Lsn(reserved.0.saturating_sub(nearly_full));
        if self.ring.flushed() < flushed {
            self.waits.room.time(|| self.wait_flushed(flushed))?;
        }
        if self.segments.prepared_end() < prepared {
            self.waits.segment.time(|| self.segments.wait_prepared(prepared))?;
        }
        Ok(())
    }

    fn wait_flushed(&self, target: Lsn) -> Result<()> {
        if self.ring.flushed() < target {
            self.flights.doorbell.urge();
            self.flights
                .flushed_waiters
                .wait(target, || self.ring.flushed() >= target || self.poison.is_set());
        }
        self.poison.check()
    }

    fn wait_durable(&self, end: Lsn) -> Result<()> {
        if !self.is_decided(end) {
            self.ensure_not_forked()?;
            self.waits.flush.time(|| self.fly_or_wait(end));
        }
        self.decision(end)
    }

    /// Waits until it is decided whether what is below `end` is durable, and takes a flight there if it can.
    fn fly_or_wait(&self, end: Lsn) {
        let waits = self.count_wait();
        if self.flights.issued() < end && self.are_few() {
            self.fly_own();
        }
        if !self.is_decided(end) {
            self.want_durable(end, Wanted::Own, waits);
            self.flights.durable_waiters.wait(end, || self.is_decided(end));
        }
    }

    fn ensure_not_forked(&self) -> Result<()> {
        if process::id() == self.process {
            return Ok(());
        }
        let told = "a forked process cannot use what its parent opened; open databases after the fork";
        Err(Error::Argument(told.into()))
    }

    /// Is everything below `end` durable, or never going to be?
    fn is_decided(&self, end: Lsn) -> bool {
        self.flights.durable() >= end || self.poison.is_set()
    }

    /// Which of the two it is.
    fn decision(&self, end: Lsn) -> Result<()> {
        if self.flights.durable() >= end { Ok(()) } else { self.poison.check() }
    }

    /// One commit more waits; returns how many did so far.
    fn count_wait(&self) -> u64 {
        self.flights.counts.waits.fetch_add(1, Relaxed) + 1
    }

    /// Somebody is going to wait until everything below `end` is durable: asks for a flight, unless it is under way. `waits`: how many
    /// have waited so far, this one included.
    fn want_durable(&self, end: Lsn, flight: Wanted, waits: u64) {
        if self.flights.issued() < end {
            match flight {
                Wanted::Own => self.ask_for_flight(waits),
                Wanted::Next => self.flights.doorbell.mention(),
            }
        }
    }

    /// Asks for a flight now if enough commits have gathered to be worth one beside those under way: twice as many as
    /// the last one carried. Fewer travel with the next flight that starts when one has landed. (Measured with 16
    /// threads on a device that syncs in 0.11 ms: half as many gave 6.8 commits a sync, as many 7.0, twice as many 9.6,
    /// one flight at a time 12.5; the rates were 73, 76, 78 and 84 thousand commits a second.)
    ///
    /// A task that waits where a flusher wakes it, or closes the database there, keeps that flusher from the next flight: so the
    /// other one is called.
    fn ask_for_flight(&self, waits: u64) {
        let [last, _] = self.flights.carried();
        if self.are_few() || self.flights.gathered(waits) >= 2 * last || is_of_an_engine() {
            self.flights.doorbell.urge_unless(|| self.flights.are_all_under_way());
        } else {
            self.flights.doorbell.mention();
        }
    }

    /// Do so few commit that each can have a flight of its own? They need not wait for each other: they would take turns. (Two threads,
    /// files whose syncs sleep 0.3 and 1 ms: 1.6 to 3 times the commits, on a host that was slow to wake threads.)
    fn are_few(&self) -> bool {
        let [last, before] = self.flights.carried();
        last + before <= options::FLIGHTS as u64
    }

    /// Waits until every record below `end` is complete.
    ///
    /// Errors: the poison: a writer may have given up.
    #[inline]
    fn wait_completed(&self, end: Lsn) -> Result<()> {
        let mut backoff = Backoff::brief();
        while self.ring.advance(end) < end {
            self.poison.check()?;
            self.be_born();
            backoff.wait();
        }
        Ok(())
    }

    /// Writes the birth, for which the first bytes are reserved, if nobody has yet.
    ///
    /// Why here: nobody is told that a record is safe, and no flight leaves, before all records up to there are complete, and the birth is
    /// the first of them. A life that ends before somebody relies on it leaves nothing in the log, so it takes no place there: on a full
    /// disk each would take a block for ever.
    fn be_born(&self) {
        // ORDERING: it only settles who writes; that it is written others see by the ring, as of any record.
        if !self.is_born.load(Relaxed) && !self.is_born.swap(true, Relaxed) {
            let body = record::birth_body(self.salt);
            self.ring.write(self.start + HEADER_BYTES as u64, &body);
            self.ring.complete(self.start, self.seal.word0(self.start, &[&body]));
        }
    }

    fn fail(&self, error: &Error) {
        self.stop(error.as_cause());
    }

    /// Ends everything; the first cause is what callers are told.
    fn stop(&self, cause: String) {
        self.poison.set(cause);
        self.flights.give_up();
        self.segments.stop();
    }
}

impl Reservation<'_> {
    /// The LSN of the record's first byte.
    #[inline]
    pub fn start(&self) -> Lsn {
        self.start
    }

    /// The LSN behind the record: what to put into the page, and what to commit.
    #[inline]
    pub fn end(&self) -> Lsn {
        self.start + record::footprint(self.body_len)
    }

    /// Leaves the place to a pad: what was to be logged did not happen. Holds nothing, as [`Log::fill`].
    #[cold]
    pub fn abandon(mut self) {
        assert_none_held("filling a place in the log");
        self.filled = true;
        self.write(&vec![0; self.body_len]);
    }

    #[inline]
    fn fill(mut self, body: &[u8]) {
        assert_eq!(body.len(), self.body_len, "a body as long as reserved");
        debug_assert!(!record::is_pad(body));
        self.filled = true;
        self.write(body);
    }

    #[inline]
    fn write(&self, body: &[u8]) {
        let shared = self.shared;
        if !shared.ring.admits(self.end()) && self.await_place().is_err() {
            return;
        }
        let word0 = shared.seal.word0(self.start, &[body]);
        shared.ring.write(self.start + HEADER_BYTES as u64, body);
        shared.ring.complete(self.start, word0);
    }

    /// Waits until its place in the buffer has been flushed.
    #[cold]
    fn await_place(&self) -> Result<()> {
        let shared = self.shared;
        let admitted_from = shared.ring.admitted_from(self.end());
        shared.waits.room.time(|| shared.wait_flushed(admitted_from))
    }
}

impl Drop for Reservation<'_> {
    /// A place left empty would stop the log for ever, so it becomes a pad. That is a bug of the caller.
    fn drop(&mut self) {
        if !self.filled {
            self.write(&vec![0; self.body_len]);
            debug_assert!(std::thread::panicking(), "a log reservation was dropped unfilled");
        }
    }
}
