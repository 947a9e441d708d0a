//! Group commit: what is written together, and in which order it counts.
//!
//! A *flight* is a run of whole blocks on its way to the segments. Several are under way at once, each sent by a flusher, or by a
//! thread that waits for it. They are issued one after another, and they land in the same order: the durable LSN is the end of the
//! longest run of finished flights. While all are under way, commits gather for the next one; no timer is involved.
//!
//! A flight ends at a block boundary, so no block is written twice and flights never touch the same one. The last
//! block is closed by a pad; a long backlog is cut in the middle of a record, which is then complete all the same.
//!
//! Invariants:
//! - F1 (rule 7): a flight holds final bytes: its end is at most the completed prefix.
//! - F2: `durable` grows only to the end of a flight all of whose predecessors are synced; after the poison, not at all.
//! - F3: the ring is given back only up to the beginning of the record that the durable LSN cuts, so that a record is
//!   whole in the ring or whole in the segments, or both.
//! - F4 (no deadlock): all flights together are at most half the ring, a record is at most an eighth. So for any record
//!   that begins below the end of a flight being issued:
//!   `end + 8 − flushed ≤ (flight end − durable) + record + (durable − flushed) + 8 ≤ ½ + ⅛ + ⅛ of the ring, + 8`.
//!   It was admitted to the ring already, and its writer waits for no one: who issues a flight waits only for copies.
//!
//! Source: Shore-MT §6.2.2 and §7.4 (inserts never meet the flush). Differs: several flushes at once, no mutex for
//! inserters.

use super::Shared;
use super::carrier::{Carriers, Taken};
use super::doorbell::Doorbell;
use super::flusher::wake_task;
use super::options::{FLIGHTS, LogOptions, ceil_block};
use super::record::{self, HEADER_BYTES};
use super::waiters::Waiters;
use crate::error::{Error, Result};
use crossbeam_utils::CachePadded;
use foreshore_base::sync::AtomicU64;
use foreshore_base::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use foreshore_base::{Lsn, seeded_bug};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;
use std::thread;

/// Which flight is asked for by somebody who is going to wait for it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted {
    /// One at once, if it is worth one: for a single commit.
    Own,
    /// The next one that starts when none is under way: for whom one sync confirms many commits. A flight at once would
    /// carry few of those that are about to come, and cost as much.
    Next,
}

pub(super) struct Flights {
    pub doorbell: Doorbell,
    /// Threads that wait for the durable LSN.
    pub durable_waiters: Waiters,
    /// Threads that wait for room in the ring.
    pub flushed_waiters: Waiters,
    pub counts: Counts,
    progress: CachePadded<Progress>,
    /// The beginning of the record that the last issued flight cuts, or its end. One flight is issued at a time.
    issuing: Mutex<Lsn>,
    pub carriers: Carriers,
    /// Flights under way, in order, and which of them have finished.
    landing: Mutex<VecDeque<(Flight, bool)>>,
    landed: Condvar,
}

struct Progress {
    /// The end of the last flight issued.
    issued: AtomicU64,
    durable: AtomicU64,
    /// Of the commits that ever waited ([`Counts::waits`]), how many had come when the last flight was issued.
    waits_issued: AtomicU64,
    /// How many of them the last flight carries: those that came after the one before it.
    waits_carried: AtomicU64,
    /// How many that one carries.
    waits_carried_before: AtomicU64,
}

/// Counts since the log was opened.
#[derive(Default)]
pub(super) struct Counts {
    pub records: AtomicU64,
    pub flights: AtomicU64,
    pub waits: AtomicU64,
}

/// Blocks `[start, end)` on their way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub start: Lsn,
    pub end: Lsn,
    /// The beginning of the record cut by `end`, or `end`.
    boundary: Lsn,
}

impl Flights {
    pub fn new(start: Lsn, options: &LogOptions) -> Self {
        Self {
            doorbell: Doorbell::new(FLIGHTS),
            durable_waiters: Waiters::default(),
            flushed_waiters: Waiters::default(),
            counts: Counts::default(),
            progress: CachePadded::new(Progress {
                issued: AtomicU64::new(start.0),
                durable: AtomicU64::new(start.0),
                waits_issued: AtomicU64::new(0),
                waits_carried: AtomicU64::new(0),
                waits_carried_before: AtomicU64::new(0),
            }),
            issuing: Mutex::new(start),
            carriers: Carriers::new(options),
            landing: Mutex::default(),
            landed: Condvar::new(),
        }
    }

    /// Everything below this survives power loss.
    #[inline]
    pub fn durable(&self) -> Lsn {
        Lsn(self.progress.durable.load(Acquire))
    }

    /// Everything below this is on its way at least. Who sees an old value asks for a flight in vain.
    pub fn issued(&self) -> Lsn {
        Lsn(self.progress.issued.load(Relaxed))
    }

    /// Commits that gathered since the last flight was issued, if there were `waits` in all.
    pub fn gathered(&self, waits: u64) -> u64 {
        waits.saturating_sub(self.progress.waits_issued.load(Relaxed))
    }

    /// Commits that the last flight carried, and the one before it.
    pub fn carried(&self) -> [u64; 2] {
        [self.progress.waits_carried.load(Relaxed), self.progress.waits_carried_before.load(Relaxed)]
    }

    /// Are as many under way as can be? Who has carried one looks at what is wanted when it has landed.
    pub fn are_all_under_way(&self) -> bool {
        self.landing.lock().len() >= FLIGHTS
    }

    /// Wakes every thread that waits for anything: the poison is set. The caller may hold what a task would want that goes on where
    /// it is woken, so tasks are for the flushers to wake, when they go home.
    pub fn give_up(&self) {
        self.doorbell.stop();
        drop(self.landing.lock());
        self.landed.notify_all();
        self.durable_waiters.wake_threads(Lsn::MAX);
        self.flushed_waiters.wake_threads(Lsn::MAX);
    }

    /// Wakes the tasks that wait for what will never be durable.
    pub fn wake_in_vain(&self) {
        self.durable_waiters.wake(Lsn::MAX, wake_task);
    }
}

impl Shared {
    /// Sends what is reserved on its way, if it is not, as far as one flight carries it; waits for a flight to be free. Wakes all whose
    /// commits have landed, before and after. For a flusher.
    ///
    /// Errors: what stops the log.
    pub(super) fn fly_next(&self) -> Result<()> {
        // Tasks that others' own flights have left to flushers. One may wait here for who has asked for the flight that this flusher was
        // called for, which nobody else knows of any more: so it is left to the others meanwhile.
        self.wake_landed(|task| {
            self.flights.doorbell.mention();
            wake_task(task);
        });
        let flown = self.fly(self.flights.issuing.lock());
        self.wake_landed(wake_task);
        flown
    }

    /// The same, if that can be at once, for a thread that would wait for a flusher to do it: two threads that wake each other may take
    /// as long as a fast device's sync. Tasks are left to the flushers: what they do here could want what the caller holds.
    pub(super) fn fly_own(&self) {
        let Some(boundary) = self.flights.issuing.try_lock() else { return };
        if self.flights.are_all_under_way() {
            return;
        }
        // Whoever panicked here would leave a flight that never lands.
        let panicked = || Error::Poisoned { cause: "a flight of the log panicked".into() };
        let flown = catch_unwind(AssertUnwindSafe(|| self.fly(boundary)));
        if let Err(e) = flown.unwrap_or_else(|_| Err(panicked())) {
            self.fail(&e);
        }
        self.flights.flushed_waiters.wake_threads(self.ring.flushed());
        self.flights.durable_waiters.wake_threads(self.flights.durable());
        if self.flights.durable_waiters.has_task(self.flights.durable()) {
            self.flights.doorbell.urge();
        } else {
            self.flights.doorbell.remind();
        }
    }

    fn fly(&self, boundary: MutexGuard<'_, Lsn>) -> Result<()> {
        let Some((flight, mut carrier)) = self.issue(boundary)? else { return Ok(()) };
        let segment_bytes = self.options.segment_bytes;
        self.segments.want(flight.end + self.options.ring() + segment_bytes);
        if seeded_bug("log_ack_before_sync") {
            self.land(flight);
            self.wake_landed(wake_task);
        }
        carrier.write(flight, &self.segments, segment_bytes)?;
        drop(carrier); // before the flight is not under way (A1)
        self.flights.counts.flights.fetch_add(1, Relaxed);
        self.land(flight);
        Ok(())
    }

    /// Begins a flight of what is reserved, and copies it. `None` if all is under way.
    ///
    /// Errors: the poison.
    fn issue(&self, mut boundary: MutexGuard<'_, Lsn>) -> Result<Option<(Flight, Taken<'_>)>> {
        let flights = &self.flights;
        self.wait_for_a_free_flight()?;
        let start = flights.issued();
        let waits = flights.counts.waits.load(Relaxed);
        let Some(end) = self.choose_end(start) else { return Ok(None) };
        self.wait_completed(end)?; // F1; their writers only copy (F4)
        let Some(mut carrier) = flights.carriers.take() else { return self.poison.check().map(|()| None) };
        let blocks = &mut carrier.blocks[..(end - start) as usize];
        self.ring.copy_out(start, blocks);
        let records;
        (*boundary, records) = self.count_records(*boundary, start, blocks);
        let flight = Flight { start, end, boundary: *boundary };
        flights.counts.records.fetch_add(records, Relaxed);
        flights.landing.lock().push_back((flight, false));
        let waits_before = flights.progress.waits_issued.swap(waits, Relaxed);
        let carried_before = flights.progress.waits_carried.swap(waits - waits_before, Relaxed);
        flights.progress.waits_carried_before.store(carried_before, Relaxed);
        flights.progress.issued.store(end.0, Relaxed);
        drop(boundary);
        if end == start + self.options.flight_bytes_max() {
            flights.doorbell.urge(); // what did not fit is still wanted
        }
        Ok(Some((flight, carrier)))
    }

    /// How many records but pads lie whole in what ends with `blocks`, the first one at `from`, and where the first one that does not
    /// begins. The blocks begin at `start`; what lies before that is in the ring.
    ///
    /// Why not in the ring alone: each record tells where the next one is, and their lines, which other cores have written, would come one
    /// after the other. The copy fetches them in a row.
    fn count_records(&self, from: Lsn, start: Lsn, blocks: &[u8]) -> (Lsn, u64) {
        let (blocks, _) = blocks.as_chunks::<{ size_of::<u64>() }>();
        let end = start + size_of_val(blocks) as u64;
        let word = |at: Lsn| match at < start {
            true => self.ring.word(at),
            false => u64::from_le_bytes(blocks[(at - start) as usize / size_of::<u64>()]),
        };
        let (mut at, mut records) = (from, 0);
        while at < end {
            let bytes = word(at) as u32 as usize;
            let next = at + bytes.next_multiple_of(size_of::<u64>()) as u64;
            assert!(next > at, "a completed record has a length");
            if next > end {
                break;
            }
            let is_pad =
                bytes == HEADER_BYTES || record::is_pad(&word(at + HEADER_BYTES as u64).to_le_bytes());
            (at, records) = (next, records + u64::from(!is_pad));
        }
        (at, records)
    }

    /// A finished flight counts as one under way until its predecessors have landed (F4).
    fn wait_for_a_free_flight(&self) -> Result<()> {
        let mut landing = self.flights.landing.lock();
        while landing.len() >= FLIGHTS {
            self.poison.check()?;
            self.flights.landed.wait(&mut landing);
        }
        self.poison.check()
    }

    /// Where a flight that begins at `start` ends: at the longest a flight may be, or behind the last reserved byte,
    /// whose block is closed by a pad. `None` if there is nothing to carry.
    fn choose_end(&self, start: Lsn) -> Option<Lsn> {
        let farthest = start + self.options.flight_bytes_max();
        loop {
            let tail = self.reserved();
            if tail <= start {
                return None;
            }
            if tail >= farthest {
                return Some(farthest);
            }
            let end = Lsn(ceil_block(tail.0));
            if end == tail {
                return Some(end);
            }
            if self.reserved.compare_exchange(tail.0, end.0, SeqCst, Relaxed).is_ok() {
                debug_assert!(self.ring.admits(end), "F4");
                // A record boundary, unlike `durable`, which may lie inside a record that was cut.
                let durable = self.ring.flushed();
                if let Some(body) = record::pad_body(durable, end - tail) {
                    self.ring.write(tail + HEADER_BYTES as u64, &body);
                }
                self.ring.complete(tail, self.seal.pad(tail, end - tail, durable));
                return Some(end);
            }
        }
    }

    /// `flight` is synced. It counts, with those behind it that are, once all before it are.
    fn land(&self, flight: Flight) {
        let flights = &self.flights;
        let mut landing = flights.landing.lock();
        for (under_way, finished) in landing.iter_mut() {
            *finished |= under_way.end == flight.end;
        }
        let mut last = None;
        while landing.front().is_some_and(|(_, finished)| *finished) {
            last = landing.pop_front().map(|(flight, _)| flight);
        }
        let Some(last) = last else { return };
        if self.poison.is_set() {
            return; // F2
        }
        flights.progress.durable.store(last.end.0, Release);
        let boundary = if seeded_bug("log_release_cut_record") { last.end } else { last.boundary };
        self.ring.release(boundary); // F3
        flights.landed.notify_all();
    }

    /// Wakes who waits for what has landed, each task by `wake_task`.
    fn wake_landed(&self, wake_task: impl Fn(Waker)) {
        // Before any task, which may go on right here, and wait for what is written now.
        self.flights.flushed_waiters.wake(self.ring.flushed(), &wake_task);
        let has_woken_tasks = self.flights.durable_waiters.wake(self.flights.durable(), wake_task);
        if has_woken_tasks {
            // What they write now can travel with the next flight, which then carries more: where they share a core with this
            // flusher, they need it for that. (Measured with the server: docs/results/2026-11-25-epyc-2core/serve-sync.txt.)
            thread::yield_now();
        }
    }
}
