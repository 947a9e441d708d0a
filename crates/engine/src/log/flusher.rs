//! A flusher: the thread that carries flights to the segments.
//!
//! The blocks are copied out of the ring before they are written: direct I/O wants plain aligned bytes, and the copy
//! costs 73 µs a MiB, little beside the sync.
//!
//! Each flusher opens the segments for itself. The operating system reports a failed write-back once per open file: a
//! shared one would tell only one of two flushers, and the other would acknowledge lost bytes. (What a device says when it
//! fails to empty its own cache, Linux tells only the caller: flights that are synced in the moments until that flusher stops
//! the log rest on a device which keeps then what it has said it keeps.)
//!
//! A flusher wakes the tasks whose commits it has carried, and a task may go on right there. What it waits for then may take a flight,
//! whoever asks for that: so before it waits, the flusher leaves the flights to others, and if there is no other one, to a new one.

use super::Shared;
use super::flights::Flight;
use super::segments;
use crate::error::Result;
use crate::waits::before_our_own_waits;
use foreshore_base::seeded_bug;
use foreshore_base::sync::Ordering::Relaxed;
use foreshore_io::{AlignedBuf, File};
use std::cell::{Cell, OnceCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::task::Waker;

pub(super) struct Flusher {
    shared: Arc<Shared>,
    blocks: AlignedBuf,
    /// The segment written last.
    open: Option<(u64, Arc<dyn File>)>,
}

thread_local! {
    /// Of which log this thread is a flusher.
    static LOG: OnceCell<Weak<Shared>> = const { OnceCell::new() };
    /// Has it left the flights to others?
    static HAS_LEFT: Cell<bool> = const { Cell::new(false) };
}

fn log() -> Option<Arc<Shared>> {
    LOG.with(|log| log.get().and_then(Weak::upgrade))
}

fn leave() {
    if let Some(log) = log() {
        HAS_LEFT.set(true);
        log.leave_flights();
    }
}

/// Wakes a task, which may go on right here.
pub(super) fn wake_task(task: Waker) {
    // That is not our code. If it panics, those behind it are woken all the same, and the log goes on.
    let _ = catch_unwind(AssertUnwindSafe(|| before_our_own_waits(leave, || task.wake())));
    if HAS_LEFT.take()
        && let Some(log) = log()
    {
        log.flights.doorbell.enter();
    }
}

impl Flusher {
    pub fn new(shared: Arc<Shared>) -> Self {
        let blocks = AlignedBuf::zeroed(shared.options.flight_bytes_max() as usize);
        Self { shared, blocks, open: None }
    }

    /// Carries flights until the log stops. A failure stops it.
    pub fn run(mut self) {
        let _ = LOG.with(|log| log.set(Arc::downgrade(&self.shared)));
        while self.shared.flights.doorbell.answer() {
            if let Err(e) = self.fly() {
                self.shared.fail(&e);
            }
        }
        self.shared.flights.wake_in_vain();
    }

    fn fly(&mut self) -> Result<()> {
        let Some(flight) = self.shared.issue(&mut self.blocks)? else { return Ok(()) };
        let options = &self.shared.options;
        self.shared.segments.want(flight.end + options.ring() + options.segment_bytes);
        if seeded_bug("log_ack_before_sync") {
            self.shared.land(flight);
        }
        self.write(flight)?;
        self.shared.flights.counts.flights.fetch_add(1, Relaxed);
        self.shared.land(flight);
        Ok(())
    }

    /// Writes and syncs the flight's blocks, segment by segment.
    fn write(&mut self, flight: Flight) -> Result<()> {
        let bytes = (flight.end - flight.start) as usize;
        for piece in segments::pieces(flight.start, bytes, self.shared.options.segment_bytes) {
            let file = self.segment(piece.n)?;
            piece.write(&*file, &self.blocks)?;
        }
        Ok(())
    }

    fn segment(&mut self, n: u64) -> Result<Arc<dyn File>> {
        if let Some((open, file)) = &self.open
            && *open == n
        {
            return Ok(file.clone());
        }
        let file = self.shared.segments.open_for_writing(n)?;
        self.open = Some((n, file.clone()));
        Ok(file)
    }
}
