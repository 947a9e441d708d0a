//! What carries a flight: a copy of its blocks, and a file.
//!
//! The blocks are copied out of the ring before they are written: direct I/O wants plain aligned bytes, and the copy
//! costs 73 µs a MiB, little beside the sync.
//!
//! Each carrier opens the segments for itself. The operating system reports a failed write-back once per open file: a
//! shared one would tell only one of two flights, and the other would be acknowledged, its bytes lost. (What a device says when it
//! fails to empty its own cache, Linux tells only the caller: flights that are synced in the moments until that one stops
//! the log rest on a device which keeps then what it has said it keeps.)
//!
//! Invariant A1: there are as many carriers as flights may be under way, and each is taken by who issues a flight, when that is one
//! of them. So there is always one; unless the log is closed, behind which nothing is written.

use super::flights::Flight;
use super::options::{FLIGHTS, LogOptions};
use super::segments::{Segments, pieces};
use crate::error::Result;
use foreshore_io::{AlignedBuf, File};
use parking_lot::{Condvar, Mutex};
use std::iter;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

pub(super) struct Carrier {
    pub blocks: AlignedBuf,
    /// The segment written last.
    open: Option<(u64, Arc<dyn File>)>,
}

/// All of them.
pub(super) struct Carriers {
    state: Mutex<State>,
    returned: Condvar,
}

struct State {
    free: Vec<Carrier>,
    taken: usize,
    are_given_up: bool,
}

/// One that somebody has taken, until this is dropped.
pub(super) struct Taken<'a> {
    /// There until then.
    carrier: Option<Carrier>,
    all: &'a Carriers,
}

impl Carrier {
    /// Writes and syncs the flight's blocks, segment by segment.
    pub fn write(&mut self, flight: Flight, segments: &Segments, segment_bytes: u64) -> Result<()> {
        let bytes = (flight.end - flight.start) as usize;
        for piece in pieces(flight.start, bytes, segment_bytes) {
            let file = self.segment(piece.n, segments)?;
            piece.write(&*file, &self.blocks)?;
        }
        Ok(())
    }

    fn segment(&mut self, n: u64, segments: &Segments) -> Result<Arc<dyn File>> {
        if let Some((open, file)) = &self.open
            && *open == n
        {
            return Ok(file.clone());
        }
        let file = segments.open_for_writing(n)?;
        self.open = Some((n, file.clone()));
        Ok(file)
    }
}

impl Carriers {
    pub fn new(options: &LogOptions) -> Self {
        let bytes = options.flight_bytes_max() as usize;
        let carrier = || Carrier { blocks: AlignedBuf::zeroed(bytes), open: None };
        let free = iter::repeat_with(carrier).take(FLIGHTS).collect();
        Self { state: Mutex::new(State { free, taken: 0, are_given_up: false }), returned: Condvar::new() }
    }

    /// A free one; `None` if they were given up.
    pub fn take(&self) -> Option<Taken<'_>> {
        let mut state = self.state.lock();
        let carrier = state.free.pop()?;
        state.taken += 1;
        Some(Taken { carrier: Some(carrier), all: self })
    }

    /// Lets those that are free go of segments below `first`: the system keeps the space of a removed file while it is open.
    pub fn close_below(&self, first: u64) {
        for carrier in &mut self.state.lock().free {
            carrier.open.take_if(|(n, _)| *n < first);
        }
    }

    /// Gives all up, and waits for those that are taken: then nothing more is written. To be called when the log is stopped.
    pub fn give_up(&self) {
        let mut state = self.state.lock();
        (state.are_given_up, state.free) = (true, Vec::new());
        while state.taken > 0 {
            self.returned.wait(&mut state);
        }
    }
}

impl Deref for Taken<'_> {
    type Target = Carrier;

    fn deref(&self) -> &Carrier {
        self.carrier.as_ref().expect("there until this is dropped")
    }
}

impl DerefMut for Taken<'_> {
    fn deref_mut(&mut self) -> &mut Carrier {
        self.carrier.as_mut().expect("there until this is dropped")
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut state = self.all.state.lock();
        state.taken -= 1;
        if !state.are_given_up {
            state.free.extend(self.carrier.take());
        }
        self.all.returned.notify_all();
    }
}
